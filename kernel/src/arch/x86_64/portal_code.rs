//! The code behind table entries that lead to a channel or to a receive right: a message that finds its receiver waiting, and its reply. Behind those that lead to a semaphore
//! or to the thread itself: a turn that is handed on.
//!
//! The eight words stay in the processor's registers, which is why this is written in machine language: sender and receiver are the same instruction stream. It
//! does what `call_short` and `reply_short` of the portable part do and nothing else; whatever is not plain (a receiver that does not wait, a deadline, a poke,
//! a stop, portals in the call, a more important thread) goes on in [`general`] with nothing changed but, perhaps, data of a reply copied already.
//!
//! This is the code that all entries of a kind share; those that are used much have code of their own ([`super::templates`]), which comes here with what it was not made for.
//!
//! No loop, no backward jump (`./cairn portals` shows and checks it); calls of the portable part are for what comes with a reply beside words and for what else a receive right can do.
//! What the registers are on entry says [`super::entry`].

use super::descriptors::PerCpu;
use super::entry::{
    compile_again, counted, general, general_channel, general_receive, general_rest,
    general_stored, general_unseen, leave, leave_with_words, settle_again, store_used, store_words,
};
use super::glue::{
    on_receive_right, on_syscall, on_upcall_over, reply_extras, transfer_part, KERNEL, LOCK,
};
use super::memory_code::portal_memory;
use super::Machine;
use crate::arch::x86_64::float::FloatState;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::ipc::NEXT_CALL;
use crate::lock::TicketLock;
use crate::pool::{ChannelRef, FrameArray, Pool, ThreadRef, INDEX_MASK, MOST};
use crate::portal::table::{Entry, Target, CHUNK, FAR};
use crate::portal::Portal;
use crate::queue::List;
use crate::ranked::Place;
use crate::semaphore::Semaphore;
use crate::thread::{Sending, State, Thread, USER_FLAGS};
use crate::Kernel;
use cairn_abi::service::{current, receive, semaphore};
use cairn_abi::state::Registers;
use cairn_abi::{flag, op, received, rights, PortalKind};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Nucleus = Kernel<Machine>;
type MachineThread = Thread<FloatState>;
type Channels = Pool<ChannelRef, Channel>;

extern "C" {
    fn portal_call();
    fn portal_receive();
    fn portal_receive_entry();
    fn portal_current();
    fn portal_semaphore();
    static portal_general_entries: u8;
}

/// What entries of either kind get: the code below, or [`general`].
static CALL: AtomicPtr<()> = AtomicPtr::new(portal_call as *const () as *mut ());
/// What entries of channels get that cannot be called.
static CHANNEL: AtomicPtr<()> = AtomicPtr::new(general_channel as *const () as *mut ());
static RECEIVE: AtomicPtr<()> = AtomicPtr::new(portal_receive_entry as *const () as *mut ());

static CURRENT: AtomicPtr<()> = AtomicPtr::new(portal_current as *const () as *mut ());
static SEMAPHORE: AtomicPtr<()> = AtomicPtr::new(portal_semaphore as *const () as *mut ());

static MEMORY: AtomicPtr<()> = AtomicPtr::new(portal_memory as *const () as *mut ());

/// What a thread's `reply_code` is while no quick call to it is under way.
pub(super) static REPLY: AtomicPtr<()> = AtomicPtr::new(portal_receive as *const () as *mut ());

/// What a fresh thread's `reply_code` is.
pub fn reply_code() -> usize {
    REPLY.load(Relaxed) as usize
}

/// Entries that all lead to [`general`].
pub fn general_entries() -> usize {
    &raw const portal_general_entries as usize
}

/// The code for an entry.
pub fn code_for(target: Target) -> usize {
    match target.kind() {
        PortalKind::Channel if target.rights() & (rights::CALL | rights::ONCE) == rights::CALL => {
            CALL.load(Relaxed) as usize
        }
        PortalKind::Receive => RECEIVE.load(Relaxed) as usize,
        PortalKind::Memory if target.may(rights::CONTROL) => MEMORY.load(Relaxed) as usize,
        PortalKind::Current => CURRENT.load(Relaxed) as usize,
        PortalKind::Semaphore => SEMAPHORE.load(Relaxed) as usize,
        PortalKind::Channel => CHANNEL.load(Relaxed) as usize,
        _ => general as *const () as usize,
    }
}

/// Every entry that is made from now on leads to the general path; with its short ways, or without.
pub fn general_only(short_ways: bool) {
    let (channel, receive) = match short_ways {
        true => (general_channel as *const (), general_receive as *const ()),
        false => (general as *const (), general as *const ()),
    };
    CALL.store(channel as *mut (), Relaxed);
    CHANNEL.store(channel as *mut (), Relaxed);
    RECEIVE.store(receive as *mut (), Relaxed);
    CURRENT.store(general as *const () as *mut (), Relaxed);
    MEMORY.store(general as *const () as *mut (), Relaxed);
    SEMAPHORE.store(general as *const () as *mut (), Relaxed);
}

/// The same with several cores, but that entries may get code of their own, which takes the lock; the shared code counts their uses.
pub fn with_lock() {
    general_only(false);
    for kind in [&CALL, &CURRENT, &SEMAPHORE] {
        kind.store(counted as *const () as *mut (), Relaxed);
    }
    RECEIVE.store(portal_receive_entry as *const () as *mut (), Relaxed);
    REPLY.store(general as *const () as *mut (), Relaxed);
}

/// Flags that a plain call may have. The rest of the selector's upper half, the operation among it, must be zero.
const PLAIN: u64 = flag::PARTS | flag::INTERRUPTIBLE;
const _: () = assert!(op::CALL == 0 && receive::WRITE == receive::READ + 1);
/// What a plain reply may have, in the selector's upper half: data, and one new portal (one that is passed looks the same and is sorted out later).
const EXTRAS: u32 = ((flag::PARTS | flag::MINT | flag::portals(1)) >> 32) as u32;
/// What else there may not be, the operation among it: what is left when this is taken off a selector, turned by 32 bits.
pub(super) const NOT_EXTRAS: u64 = !(((EXTRAS as u64) << 32) | (CHUNK as u64 - 1));
/// `state` and `sending` of a caller, as one number.
const HELD: u16 = State::Held as u16 | (Sending::Message as u16) << 8;
const _: () = assert!(offset_of!(MachineThread, sending) == offset_of!(MachineThread, state) + 1);
// Eight bytes that are zero in plain cases, and pairs that are written together.
const _: () = assert!(
    offset_of!(MachineThread, full) == offset_of!(MachineThread, poked) + 1
        && offset_of!(MachineThread, lifted) == offset_of!(MachineThread, poked) + 2
        && offset_of!(MachineThread, windows) == offset_of!(MachineThread, poked) + 3
        && offset_of!(MachineThread, stops) == offset_of!(MachineThread, poked) + 4
        && offset_of!(MachineThread, server) == offset_of!(MachineThread, channel) + 4
        && offset_of!(MachineThread, registers) == 0
);
const _: () = assert!(core::mem::size_of::<Entry>() == 16 && offset_of!(Entry, code) == 0);
const _: () = assert!(
    core::mem::size_of::<Option<FrameArray<Entry>>>() == core::mem::size_of::<FrameArray<Entry>>()
);
const _: () = assert!(core::mem::size_of::<Option<ThreadRef>>() == 4 && MOST == 1 << 20);

// What a semaphore must have as zero besides its count, in two words; the rights that are asked for lie in the lower byte.
const _: () = assert!(
    offset_of!(Semaphore, waiters) == offset_of!(Semaphore, count) + 4
        && offset_of!(Semaphore, mutex) == offset_of!(Semaphore, waiters) + 4
        && offset_of!(Semaphore, dying) == offset_of!(Semaphore, mutex) + 1
        && rights::NOTIFY < 1 << 8
        && rights::CALL < 1 << 8
        && CHUNK * 16 == 4096
        && core::mem::size_of::<List>() == 8
);

global_asm!(
    // A call: to the thread that waits at the channel, at once.
    ".text",
    ".balign 16",
    ".global portal_call",
    "portal_call:",
    "mov [r11 + {rip}], rcx",
    ".global portal_call_stored",
    "portal_call_stored:",
    "mov rcx, {not_plain}",
    "test rax, rcx",
    "jnz general_channel_called",
    "dec byte ptr [rsp + {uses}]",
    "jz {compile_again}",
    "mov rcx, rsp",
    "mov rsp, r11",
    "cmp qword ptr [rsp + {reply_code}], offset portal_receive",
    "jne {settle_again}",
    store_used!(),
    // rbx = badge, r11 = channel.
    "movsxd rcx, dword ptr [rcx + {object}]",
    "mov rbx, [rcx + {portal_badge}]",
    "mov ecx, [rcx + {portal_channel}]",
    "mov r11d, ecx",
    "and r11d, {index_mask}",
    "imul r11, r11, {channel_size}",
    "add r11, {channels}",
    // The receiver waits plainly, and the channel has no signature: r15 = number of the receiver, rbp = receiver.
    "cmp ecx, [r11 + {plain}]",
    "jne {rest}",
    "mov r15d, [r11 + {channel_server}]",
    "test r15d, r15d",
    "jz {rest}",
    "movsxd rbp, r15d",
    // r14 = its domain: it runs, and leaves the registers of others alone.
    "movsxd r14, dword ptr [rbp + {domain}]",
    "cmp dword ptr [r14 + {domain_unusual}], 0",
    "jne {rest}",
    "movzx ecx, byte ptr [rsp + {effective}]",
    "cmp cx, word ptr [rip + {kernel} + {top}]",
    "jl {rest}",
    // Decided. The receiver runs at the caller's priority, the caller is held.
    "mov [rbp + {effective}], cl",
    "mov byte ptr [rbp + {state}], {running}",
    "mov dword ptr [rbp + {channel}], 0",
    "mov qword ptr [r11 + {receivers}], 0",
    "mov qword ptr [r11 + {plain}], 0",
    "mov word ptr [rsp + {state}], {held}",
    "mov ecx, [rbp + {serving}]",
    "mov [rsp + {channel}], ecx",
    "mov [rsp + {server}], r15d",
    "mov [rsp + {badge}], rbx",
    "mov ecx, [rip + {kernel} + {current}]",
    "mov [rbp + {client}], ecx",
    "mov [rip + {kernel} + {current}], r15d",
    "mov [rip + {kernel} + {loaded}], r15d",
    "mov gs:[{registers}], rbp",
    // r15 = lengths of the parts.
    "xor r15d, r15d",
    "bt rax, {parts_bit}",
    "jnc 2f",
    "mov r11d, -1",
    "mov r15, [rsp + {r15}]",
    "cmp r15, r11",
    "cmova r15, r11",
    "mov rcx, [rsp + {rbp}]",
    "cmp rcx, r11",
    "cmova rcx, r11",
    "shl rcx, 32",
    "or r15, rcx",
    "2:",
    "mov [rsp + {parts}], r15",
    "mov [rsp + {rax}], rax",
    "mov qword ptr [rsp + {rflags}], {user_flags}",
    // rax = what a receive returns, rcx = label.
    "mov rcx, gs:[{cpu_domain}]",
    "mov r11d, [rcx + {domain_id}]",
    "mov rcx, [rcx + {domain_label}]",
    "shl r11, {sender_shift}",
    "shr rax, {interruptible_shift}",
    "and eax, {interruptible}",
    "or rax, r11",
    // The receiver's domain.
    "mov gs:[{cpu_domain}], r14",
    "mov r11d, [r14 + {domain_root}]",
    "mov [rip + {kernel} + {active}], r11d",
    "shl r11, 12",
    "mov cr3, r11",
    "mov r11, [r14 + {domain_turn_base}]",
    "mov gs:[{turn_base}], r11",
    "mov r11d, [rbp + {domain}]",
    "mov [rip + {kernel} + {loaded_domain}], r11d",
    "inc qword ptr gs:[{direct}]",
    "mov r14, rcx",
    // Token, and away.
    "mov r11, {next_call}",
    "add r11, [rsp + {token}]",
    "mov [rsp + {token}], r11",
    "mov rcx, [rbp + {rip}]",
    "mov rsp, [rbp + {rsp}]",
    "mov rbp, r11",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    // Words as a reply to the caller that the thread works for, and receive again where nothing waits.
    ".balign 16",
    "portal_receive_entry:",
    "jmp [r11 + {reply_code}]",
    ".balign 16",
    ".global portal_receive",
    "portal_receive:",
    "mov [r11 + {rip}], rcx",
    "mov ecx, [rsp + {object}]",
    "mov rsp, r11",
    "mov [rsp + {rax}], rax",
    "mov qword ptr [rsp + {rflags}], {user_flags}",
    // Operation and flags are in the upper half; nothing but the slot may be in the lower, and that below 256.
    "mov r11, {not_extras}",
    "and r11, rax",
    "ror r11, 32",
    "cmp r11, {operation}",
    "jne 7f",
    store_used!(),
    // rcx = number of the channel, r11 = channel: this thread serves it, and nothing waits there.
    "movsxd r11, ecx",
    "mov r14d, [rip + {kernel} + {current}]",
    "cmp r14d, [r11 + {channel_server}]",
    "jne 8f",
    "cmp dword ptr [r11 + {pulses}], 0",
    "jne 8f",
    "cmp word ptr [r11 + {senders_top}], -1",
    "jne 8f",
    "cmp byte ptr [r11 + {dying}], 0",
    "jne 8f",
    "cmp dword ptr [r11 + {receivers}], 0",
    "jne 8f",
    // rbx = number of the caller, r15 = caller: the token is its.
    "mov ebx, [rsp + {client}]",
    "test ebx, ebx",
    "jz 8f",
    "movsxd r15, ebx",
    "cmp rbp, [r15 + {token}]",
    "jne 8f",
    "cmp word ptr [r15 + {state}], {held}",
    "jne 8f",
    "cmp qword ptr [r15 + {rare}], 0",
    "jne 8f",
    "cmp qword ptr [r15 + {deadline}], 0",
    "jne 8f",
    "cmp dword ptr [r15 + {pulse_channel}], 0",
    "jne 8f",
    // rbp = its domain: it runs, and its other registers are still in the processor.
    "movsxd rbp, dword ptr [r15 + {domain}]",
    "cmp dword ptr [rbp + {domain_stops}], 0",
    "jne 8f",
    "cmp byte ptr [rbp + {domain_float}], 0",
    "je 4f",
    "cmp ebx, [rip + {kernel} + {owner}]",
    "jne 8f",
    "4:",
    // Nobody is more important; one of the same priority competes already.
    "movzx eax, byte ptr [r15 + {effective}]",
    "cmp ax, word ptr [rip + {kernel} + {top}]",
    "jg 5f",
    "jl 8f",
    "cmp qword ptr [rip + {kernel} + {slice_end}], 0",
    "jne 5f",
    // Its quantum begins; a timer that comes soon in any case will do as its end.
    "mov rax, [rip + {kernel} + {armed}]",
    "cmp rax, [rip + {kernel} + {horizon}]",
    "ja 8f",
    "mov [rip + {kernel} + {slice_end}], rax",
    "5:",
    // Data and a new portal are added by a function.
    "test dword ptr [rsp + {rax} + 4], {extras}",
    "jz 10f",
    store_words!(),
    "mov r12, rcx",
    "mov r13, r11",
    "mov rsp, gs:[{stack}]",
    "mov edi, r14d",
    "mov esi, ebx",
    "mov edx, ecx",
    "call {reply_extras}",
    "cmp rax, -1",
    "je 9f",
    "mov [r15 + {rax}], rax",
    "mov rcx, r12",
    "mov r11, r13",
    "mov rsp, gs:[{registers}]",
    "mov rdx, [rsp + {rdx}]",
    "mov rsi, [rsp + {rsi}]",
    "mov rdi, [rsp + {rdi}]",
    "mov r8, [rsp + {r8}]",
    "mov r9, [rsp + {r9}]",
    "mov r10, [rsp + {r10}]",
    "mov r12, [rsp + {r12}]",
    "mov r13, [r15 + {r13}]",
    "jmp 6f",
    "10:",
    "mov qword ptr [r15 + {rax}], 0",
    "6:",
    // Decided. The caller runs, this thread receives.
    "mov byte ptr [r15 + {state}], {running}",
    "mov qword ptr [r15 + {channel}], 0",
    "mov dword ptr [rsp + {client}], 0",
    "mov [rsp + {channel}], ecx",
    "mov al, [rsp + {base}]",
    "mov [rsp + {effective}], al",
    "mov byte ptr [rsp + {state}], {receiving}",
    "mov qword ptr [rsp + {link}], 0",
    "mov [r11 + {receivers}], r14d",
    "mov [r11 + {receivers} + 4], r14d",
    "mov rax, [rsp + {thread_plain}]",
    "mov [r11 + {plain}], rax",
    "mov [rip + {kernel} + {current}], ebx",
    "mov [rip + {kernel} + {loaded}], ebx",
    "mov gs:[{registers}], r15",
    // The caller's domain.
    "mov gs:[{cpu_domain}], rbp",
    "mov eax, [rbp + {domain_root}]",
    "mov [rip + {kernel} + {active}], eax",
    "shl rax, 12",
    "mov cr3, rax",
    "mov rax, [rbp + {domain_turn_base}]",
    "mov gs:[{turn_base}], rax",
    "mov eax, [r15 + {domain}]",
    "mov [rip + {kernel} + {loaded_domain}], eax",
    "inc qword ptr gs:[{direct}]",
    "mov rcx, [r15 + {rip}]",
    "mov r11d, {user_flags}",
    "mov rsp, [r15 + {rsp}]",
    "mov rbx, [r15 + {rbx}]",
    "mov rbp, [r15 + {rbp}]",
    "mov r14, [r15 + {r14}]",
    "mov rax, [r15 + {rax}]",
    "mov r15, [r15 + {r15}]",
    "swapgs",
    "sysretq",
    // Everything else that is done with a receive right; the number of the channel is in rcx. READ and WRITE of one part: the thread goes on.
    "7:",
    "test eax, {far}",
    "jnz {general_stored}",
    "cmp r11, {write}",
    "ja 16f",
    "cmp r11, {read}",
    "jb 16f",
    "mov [rsp + {rdx}], rdx",
    "mov [rsp + {rsi}], rsi",
    "mov [rsp + {rdi}], rdi",
    "mov [rsp + {r8}], r8",
    "mov [rsp + {r9}], r9",
    "mov [rsp + {r10}], r10",
    "mov [rsp + {r12}], r12",
    "mov [rsp + {rbp}], rbp",
    "mov r12d, ecx",
    "mov r8d, ecx",
    "mov rcx, r10",
    "mov r9, r11",
    "mov rsp, gs:[{stack}]",
    "call {transfer_part}",
    "mov rsp, gs:[{registers}]",
    "cmp rax, -1",
    "je 17f",
    "mov r8, [rsp + {r8}]",
    "lea rdi, [rax + r8]",
    "mov rdx, [rsp + {rdx}]",
    "mov rsi, [rsp + {rsi}]",
    "mov r9, [rsp + {r9}]",
    "mov r10, [rsp + {r10}]",
    "mov r12, [rsp + {r12}]",
    "mov rbp, [rsp + {rbp}]",
    "xor eax, eax",
    "mov rcx, [rsp + {rip}]",
    "mov rsp, [rsp + {rsp}]",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    "17:",
    "mov [rsp + {rbx}], rbx",
    "mov [rsp + {r13}], r13",
    "mov [rsp + {r14}], r14",
    "mov [rsp + {r15}], r15",
    "jmp 9f",
    "16:",
    store_used!(),
    "8:",
    store_words!(),
    "mov r12d, ecx",
    // The same, with everything stored.
    "9:",
    "mov edi, r12d",
    "mov rsp, gs:[{stack}]",
    "call {on_receive_right}",
    "jmp {leave_with_words}",
    // A semaphore. P and V without contention are in its template.
    ".balign 16",
    ".global portal_semaphore",
    "portal_semaphore:",
    "dec byte ptr [rsp + {uses}]",
    "jz portal_used",
    // Here rsp may be anything.
    ".global portal_semaphore_rest",
    "portal_semaphore_rest:",
    "17:",
    "mov rsp, rax",
    "shr rsp, 8",
    "cmp rsp, {v_then_p}",
    "jne {general_unseen}",
    "cmp qword ptr [r11 + {reply_code}], offset portal_receive",
    "jne {general_unseen}",
    // Hand the turn to who waits for this one, and wait for the other one. rsp = entry, rdi = entry of the other one.
    "mov [r11 + {rip}], rcx",
    store_used!("r11"),
    store_words!("r11"),
    "mov qword ptr [r11 + {rflags}], {user_flags}",
    "mov [r11 + {rax}], rax",
    "movzx esp, al",
    "shl esp, 4",
    "add rsp, [r11 + {entries}]",
    "test byte ptr [rsp + {rights}], {may_give}",
    "jz portal_all_stored",
    "cmp rdi, {chunk}",
    "jae portal_all_stored",
    "shl edi, 4",
    "add rdi, [r11 + {entries}]",
    "cmp byte ptr [rdi + {kind}], {kind_semaphore}",
    "jne portal_all_stored",
    "test byte ptr [rdi + {rights}], {may_take}",
    "jz portal_all_stored",
    // rbx = this one, rsi = number of the other one, rdx = the other one, ecx and r8 = who waits, r9 = its domain.
    "movsxd rbx, dword ptr [rsp + {object}]",
    "mov esi, [rdi + {object}]",
    "movsxd rdx, esi",
    "mov ecx, [rbx + {waiters}]",
    "test ecx, ecx",
    "jz portal_all_stored",
    "movsxd r8, ecx",
    "movsxd r9, dword ptr [r8 + {domain}]",
    // It waits there alone, by no derived portal, nobody waits for the other one, which counts nothing; neither is a mutex or dying. The rest as with a yield.
    "cmp ecx, [r8 + {place_previous}]",
    "jne portal_all_stored",
    "mov eax, [r8 + {place_below}]",
    "or eax, [rbx + {waiters} + 4]",
    "or eax, [rdx + {waiters} + 4]",
    "or eax, [r11 + {client}]",
    "or eax, [r9 + {domain_unusual}]",
    "or eax, [r8 + {through}]",
    "or rax, [rdx + {count}]",
    "or rax, [r8 + {rare}]",
    "or rax, [r8 + {deadline}]",
    "jnz portal_all_stored",
    "xor edi, edi",
    "movzx eax, byte ptr [r8 + {effective}]",
    "cmp ax, word ptr [rip + {kernel} + {top}]",
    "jg 18f",
    "jl portal_all_stored",
    "cmp dword ptr [rip + {kernel} + {cut}], 0",
    "jne portal_all_stored",
    "mov rdi, [rip + {kernel} + {armed}]",
    "cmp rdi, [rip + {kernel} + {horizon}]",
    "ja portal_all_stored",
    "18:",
    // Decided.
    "mov r10d, [rip + {kernel} + {current}]",
    "mov dword ptr [rbx + {waiters}], 0",
    "mov dword ptr [r8 + {place_previous}], 0",
    "mov dword ptr [r8 + {waits}], 0",
    "mov qword ptr [r8 + {rax}], 0",
    "mov byte ptr [r8 + {state}], {running}",
    "mov [rdx + {waiters}], r10d",
    "mov [r11 + {place_previous}], r10d",
    "mov al, [r11 + {effective}]",
    "mov [r11 + {place_rank}], al",
    "mov [r11 + {waits}], esi",
    "mov byte ptr [r11 + {state}], {waiting}",
    "jmp portal_switch_over",
    // What a thread asks of itself.
    ".balign 16",
    ".global portal_current",
    "portal_current:",
    "test rax, rax",
    "jz 13f",
    "mov rsp, {clock}",
    "cmp rax, rsp",
    "ja 15f",
    "jne 11f",
    // The time: only a template knows it.
    "mov rsp, [r11 + {entries}]",
    "dec byte ptr [rsp + {uses}]",
    "jnz {general_unseen}",
    "jmp portal_used",
    // Who am I?
    "13:",
    "dec byte ptr [rsp + {uses}]",
    "jz portal_used",
    "mov [r11 + {rip}], rcx",
    "movsxd rcx, dword ptr [r11 + {domain}]",
    "mov edi, [r11 + {token}]",
    "mov esi, [rcx + {domain_id}]",
    "mov rdx, [rcx + {domain_label}]",
    "mov rcx, [r11 + {rip}]",
    "mov rsp, [r11 + {rsp}]",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    // Shall others run? If nobody of the same priority is ready, no.
    ".global portal_current_rest",
    "portal_current_rest:",
    "11:",
    "mov rsp, {yield}",
    "cmp rax, rsp",
    "jne {general_unseen}",
    "cmp qword ptr [r11 + {reply_code}], offset portal_receive",
    "jne {general_unseen}",
    "movzx esp, byte ptr [r11 + {effective}]",
    "cmp sp, word ptr [rip + {kernel} + {top}]",
    "je 14f",
    "jl {general_unseen}",
    "xor eax, eax",
    "mov rsp, [r11 + {rsp}]",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    // Back to what an upcall interrupted? What the handler has in its registers is lost.
    ".global portal_current_above",
    "portal_current_above:",
    "15:",
    "mov rsp, {upcall_return}",
    "cmp rax, rsp",
    "jne {general_unseen}",
    "test rdi, rdi",
    "jnz {general_unseen}",
    "cmp byte ptr [r11 + {in_upcall}], 0",
    "je {general_unseen}",
    "cmp qword ptr [r11 + {reply_code}], offset portal_receive",
    "jne {general_unseen}",
    "mov rsp, gs:[{stack}]",
    "call {on_upcall_over}",
    "jmp {leave}",
    // The entry was used so often that it shall have code of its own.
    ".global portal_used",
    "portal_used:",
    "mov [r11 + {rip}], rcx",
    "jmp {compile_again}",
    // The first of them runs, and this one is the last. esi = number of this thread, rsp = the list, ecx and r8 = number and thread of the first, edx = number of the last.
    "14:",
    "mov [r11 + {rip}], rcx",
    store_used!("r11"),
    store_words!("r11"),
    "mov qword ptr [r11 + {rflags}], {user_flags}",
    "mov esi, [rip + {kernel} + {current}]",
    "shl esp, 3",
    "add rsp, [rip + {kernel} + {lists}]",
    "mov ecx, [rsp + {head}]",
    "mov edx, [rsp + {tail}]",
    "movsxd r8, ecx",
    "movsxd r9, dword ptr [r8 + {domain}]",
    // Nothing unusual about it: its registers are those of a system call, and no float registers have to be changed. This thread works for nobody who pays.
    "mov eax, [rip + {kernel} + {cut}]",
    "or eax, [r11 + {client}]",
    "or eax, [r9 + {domain_unusual}]",
    "or rax, [r8 + {rare}]",
    "or rax, [r8 + {deadline}]",
    "jnz 16f",
    "cmp byte ptr [r8 + {round_robin}], 0",
    "je 16f",
    // Its quantum begins; a timer that comes soon in any case will do as its end.
    "mov rdi, [rip + {kernel} + {armed}]",
    "cmp rdi, [rip + {kernel} + {horizon}]",
    "ja 16f",
    // Decided.
    "mov qword ptr [r11 + {rax}], 0",
    "mov byte ptr [r11 + {state}], {ready}",
    "mov byte ptr [r8 + {state}], {running}",
    "mov [r11 + {link}], rdx",
    "mov [rsp + {tail}], esi",
    "movsxd rdx, edx",
    "mov [rdx + {link} + 4], esi",
    "mov edx, [r8 + {link} + 4]",
    "mov [rsp + {head}], edx",
    "movsxd rdx, edx",
    "mov dword ptr [rdx + {link}], 0",
    // The end of a traversal in another thread: r11 leads to the one that ran, ecx and r8 are number and address of the one that goes on where a system call of its ended, r9 leads to its
    // domain, rdi is the end of its quantum. What was spent is charged to the one that ran, which works for nobody.
    ".global portal_switch_over",
    "portal_switch_over:",
    "rdtsc",
    "shl rdx, 32",
    "or rdx, rax",
    "sub rdx, [rip + {kernel} + {since}]",
    "add [rip + {kernel} + {since}], rdx",
    "add [r11 + {ticks}], rdx",
    "mov rax, gs:[{cpu_domain}]",
    "add [rax + {domain_ticks}], rdx",
    "mov [rip + {kernel} + {slice_end}], rdi",
    "mov [rip + {kernel} + {current}], ecx",
    "mov [rip + {kernel} + {loaded}], ecx",
    "mov gs:[{registers}], r8",
    "mov rax, [r8 + {own_entries}]",
    "mov [r8 + {entries}], rax",
    "mov eax, [r8 + {domain}]",
    "cmp eax, [rip + {kernel} + {loaded_domain}]",
    "jne 2f",
    "inc qword ptr [rip + {kernel} + {entered}]",
    "inc qword ptr [rip + {kernel} + {switched}]",
    "jmp 3f",
    "2:",
    "mov [rip + {kernel} + {loaded_domain}], eax",
    "mov gs:[{cpu_domain}], r9",
    "mov eax, [r9 + {domain_root}]",
    "mov [rip + {kernel} + {active}], eax",
    "shl rax, 12",
    "mov cr3, rax",
    "mov qword ptr gs:[{turn_base}], 0",
    "inc qword ptr gs:[{direct}]",
    "3:",
    "mov rsp, r8",
    "mov rcx, [rsp + {rip}]",
    "mov r11d, {user_flags}",
    "xor eax, eax",
    "jmp leave_plain",
    // It cannot be done here: all registers but rax are stored.
    "16:",
    "mov rax, {yield}",
    "mov [r11 + {rax}], rax",
    // The general path with everything stored.
    ".global portal_all_stored",
    "portal_all_stored:",
    "mov rsp, gs:[{stack}]",
    "call {on_syscall}",
    "jmp {leave}",
    "portal_code_end:",
    // A yield with several cores, if this one was the last that came in: then the ready queue that is looked at is its own. Quick calls that this thread is in must be settled.
    ".balign 16",
    ".global portal_current_several",
    "portal_current_several:",
    "mov rsp, {yield}",
    "cmp rax, rsp",
    "jne {general_unseen}",
    "cmp qword ptr [r11 + {reply_code}], offset {general}",
    "jne {general_unseen}",
    "cmp dword ptr [rip + {lock} + {urgent}], 0",
    "jne {general_unseen}",
    "lock bts dword ptr [rip + {lock} + {busy}], 0",
    "jc {general_unseen}",
    "mov rsp, gs:[{core}]",
    "cmp rsp, [rip + {kernel} + {here}]",
    "jne 19f",
    "movzx esp, byte ptr [r11 + {effective}]",
    "cmp sp, word ptr [rip + {kernel} + {top}]",
    "jle 19f",
    "mov dword ptr [rip + {lock} + {busy}], 0",
    "xor eax, eax",
    "mov rsp, [r11 + {rsp}]",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    "19:",
    "mov dword ptr [rip + {lock} + {busy}], 0",
    "jmp {general_unseen}",
    "portal_current_several_end:",
    // Entries for threads with something unusual pending.
    ".pushsection .rodata.portal_entries, \"a\", @progbits",
    ".balign 16",
    ".global portal_general_entries",
    "portal_general_entries:",
    ".rept {chunk}",
    ".quad {general_unseen}, 0",
    ".endr",
    ".popsection",
    uses = const Entry::USES,
    compile_again = sym compile_again,
    settle_again = sym settle_again,
    general_stored = sym general_stored,
    reply_code = const offset_of!(MachineThread, reply_code),
    thread_plain = const offset_of!(MachineThread, plain),
    plain = const offset_of!(Channel, plain),
    user_flags = const USER_FLAGS,
    far = const FAR,
    chunk = const CHUNK,
    yield = const (current::YIELD as u64) << 32,
    clock = const (current::CLOCK as u64) << 32,
    v_then_p = const (semaphore::V_THEN_P as u64) << 24,
    may_give = const rights::NOTIFY,
    may_take = const rights::CALL,
    rights = const Entry::RIGHTS,
    kind = const Entry::KIND,
    kind_semaphore = const PortalKind::Semaphore as u8,
    entries = const offset_of!(MachineThread, entries),
    own_entries = const offset_of!(MachineThread, own_entries),
    count = const offset_of!(Semaphore, count),
    waiters = const offset_of!(Semaphore, waiters),
    place_previous = const offset_of!(MachineThread, place) + Place::<ThreadRef>::PREVIOUS,
    place_below = const offset_of!(MachineThread, place) + Place::<ThreadRef>::BELOW,
    place_rank = const offset_of!(MachineThread, place) + Place::<ThreadRef>::RANK,
    waits = const offset_of!(MachineThread, waits),
    through = const offset_of!(MachineThread, through),
    waiting = const State::Waiting as u8,
    ready = const State::Ready as u8,
    round_robin = const offset_of!(MachineThread, round_robin),
    lists = const offset_of!(Nucleus, dispatch.ready.lists),
    head = const offset_of!(List, head),
    tail = const offset_of!(List, tail),
    cut = const offset_of!(Nucleus, dispatch.cut),
    since = const offset_of!(Nucleus, dispatch.since),
    ticks = const offset_of!(MachineThread, ticks),
    domain_ticks = const offset_of!(Domain<Machine>, ticks),
    entered = const offset_of!(Nucleus, counters.entries),
    switched = const offset_of!(Nucleus, counters.thread_switches),
    on_syscall = sym on_syscall,
    kernel = sym KERNEL,
    general_unseen = sym general_unseen,
    general = sym general,
    lock = sym LOCK,
    busy = const TicketLock::BUSY,
    urgent = const TicketLock::BUSY + TicketLock::URGENT,
    core = const offset_of!(PerCpu, core),
    here = const offset_of!(Nucleus, cores.here),
    on_upcall_over = sym on_upcall_over,
    upcall_return = const (current::UPCALL_RETURN as u64) << 32,
    in_upcall = const offset_of!(MachineThread, in_upcall),
    read = const receive::READ,
    write = const receive::WRITE,
    transfer_part = sym transfer_part,
    rest = sym general_rest,
    on_receive_right = sym on_receive_right,
    leave = sym leave,
    leave_with_words = sym leave_with_words,
    reply_extras = sym reply_extras,
    extras = const EXTRAS,
    not_extras = const NOT_EXTRAS,
    stack = const offset_of!(PerCpu, stack),
    armed = const offset_of!(Nucleus, dispatch.armed),
    horizon = const offset_of!(Nucleus, dispatch.horizon),
    rax = const offset_of!(Registers, rax),
    rdx = const offset_of!(Registers, rdx),
    rsi = const offset_of!(Registers, rsi),
    rdi = const offset_of!(Registers, rdi),
    r8 = const offset_of!(Registers, r8),
    r9 = const offset_of!(Registers, r9),
    r10 = const offset_of!(Registers, r10),
    r12 = const offset_of!(Registers, r12),
    r13 = const offset_of!(Registers, r13),
    not_plain = const !PLAIN & !(CHUNK as u64 - 1),
    parts_bit = const flag::PARTS.trailing_zeros(),
    interruptible_shift = const flag::INTERRUPTIBLE.trailing_zeros() - received::INTERRUPTIBLE.trailing_zeros(),
    interruptible = const received::INTERRUPTIBLE,
    sender_shift = const received::SENDER_SHIFT,
    next_call = const NEXT_CALL,
    index_mask = const INDEX_MASK,
    running = const State::Running as u8,
    held = const HELD,
    object = const offset_of!(Entry, target),
    portal_badge = const offset_of!(Portal, badge),
    portal_channel = const offset_of!(Portal, channel),
    channel_size = const Channels::object_size(),
    channels = const Channels::ORIGIN as i32,
    channel_server = const offset_of!(Channel, server),
    receivers = const offset_of!(Channel, receivers.head),
    rare = const offset_of!(MachineThread, poked),
    deadline = const offset_of!(MachineThread, deadline),
    link = const offset_of!(MachineThread, link),
    effective = const offset_of!(MachineThread, effective),
    state = const offset_of!(MachineThread, state),
    channel = const offset_of!(MachineThread, channel),
    server = const offset_of!(MachineThread, server),
    client = const offset_of!(MachineThread, client),
    serving = const offset_of!(MachineThread, serving),
    badge = const offset_of!(MachineThread, badge),
    parts = const offset_of!(MachineThread, parts),
    token = const offset_of!(MachineThread, token),
    domain = const offset_of!(MachineThread, domain),
    domain_unusual = const offset_of!(Domain<Machine>, unusual),
    domain_stops = const offset_of!(Domain<Machine>, stops),
    domain_float = const offset_of!(Domain<Machine>, float),
    domain_id = const offset_of!(Domain<Machine>, id),
    domain_label = const offset_of!(Domain<Machine>, label),
    domain_root = const offset_of!(Domain<Machine>, root),
    domain_turn_base = const offset_of!(Domain<Machine>, turn_base),
    top = const offset_of!(Nucleus, dispatch.ready.top),
    current = const offset_of!(Nucleus, dispatch.current),
    loaded = const offset_of!(Nucleus, dispatch.loaded),
    loaded_domain = const offset_of!(Nucleus, dispatch.loaded_domain),
    active = const offset_of!(Nucleus, arch.active),
    registers = const offset_of!(PerCpu, registers),
    cpu_domain = const offset_of!(PerCpu, domain),
    turn_base = const offset_of!(PerCpu, turn_base),
    direct = const offset_of!(PerCpu, direct),
    rbx = const offset_of!(Registers, rbx),
    rbp = const offset_of!(Registers, rbp),
    r14 = const offset_of!(Registers, r14),
    r15 = const offset_of!(Registers, r15),
    rip = const offset_of!(Registers, rip),
    rflags = const offset_of!(Registers, rflags),
    rsp = const offset_of!(Registers, rsp),
    operation = const receive::REPLY_RECEIVE,
    receiving = const State::Receiving as u8,
    pulses = const offset_of!(Channel, pulses.head),
    senders_top = const offset_of!(Channel, senders.top),
    dying = const offset_of!(Channel, dying),
    base = const offset_of!(MachineThread, base),
    pulse_channel = const offset_of!(MachineThread, pulse.channel),
    slice_end = const offset_of!(Nucleus, dispatch.slice_end),
    owner = const offset_of!(Nucleus, dispatch.owner),
);
