//! The code behind table entries. Of those that lead to a channel it counts the uses: messages are sent by an entry's own code ([`super::templates`]) and by
//! the portable part. Of those that lead to a semaphore or to the thread itself it does what hands a turn on.
//!
//! This is the code that all entries of a kind share; those that are used much have code of their own, which comes here with what it was not made for. Whatever
//! is not plain goes on in [`general`] with nothing changed.
//!
//! No loop, no backward jump (`./cairn portals` shows and checks it). What the registers are on entry says [`super::entry`].

use super::descriptors::PerCpu;
use super::entry::{
    compile_again, counted, general, general_channel, general_memory, general_receive,
    general_unseen, leave, store_used, store_words,
};
use super::glue::{on_syscall, on_upcall_over, KERNEL, LOCK};
use super::Machine;
use crate::arch::x86_64::float::FloatState;
use crate::domain::Domain;
use crate::lock::TicketLock;
use crate::pool::{FrameArray, ThreadRef, MOST};
use crate::portal::table::{Entry, Target, CHUNK};
use crate::queue::List;
use crate::ranked::Place;
use crate::semaphore::Semaphore;
use crate::thread::{State, Thread, USER_FLAGS};
use crate::Kernel;
use cairn_abi::service::{current, semaphore};
use cairn_abi::state::Registers;
use cairn_abi::{flag, op, rights, PortalKind};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Nucleus = Kernel<Machine>;
type MachineThread = Thread<FloatState>;

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

static MEMORY: AtomicPtr<()> = AtomicPtr::new(general_memory as *const () as *mut ());

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
const _: () = assert!(op::CALL == 0);
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
    // A call: counted, if it may have code of its own one day.
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
    "jnz general_channel_called",
    "jmp {compile_again}",
    // What is done with a receive right: the reply to a quick call has code of its own.
    "portal_receive_entry:",
    "jmp [r11 + {reply_code}]",
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
    // Nobody: something waits here that is no thread.
    "movsxd r8, ecx",
    "test ecx, ecx",
    "jz 16f",
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
    reply_code = const offset_of!(MachineThread, reply_code),
    user_flags = const USER_FLAGS,
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
    leave = sym leave,
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
    running = const State::Running as u8,
    object = const offset_of!(Entry, target),
    rare = const offset_of!(MachineThread, poked),
    deadline = const offset_of!(MachineThread, deadline),
    link = const offset_of!(MachineThread, link),
    effective = const offset_of!(MachineThread, effective),
    state = const offset_of!(MachineThread, state),
    client = const offset_of!(MachineThread, client),
    token = const offset_of!(MachineThread, token),
    domain = const offset_of!(MachineThread, domain),
    domain_unusual = const offset_of!(Domain<Machine>, unusual),
    domain_id = const offset_of!(Domain<Machine>, id),
    domain_label = const offset_of!(Domain<Machine>, label),
    domain_root = const offset_of!(Domain<Machine>, root),
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
    slice_end = const offset_of!(Nucleus, dispatch.slice_end),
);
