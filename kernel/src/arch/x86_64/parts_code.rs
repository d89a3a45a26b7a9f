//! What the server of a quick call with parts does before it replies with words alone: READ and WRITE of what lies within a page, and a reply with data, with a new portal, or both.
//! The reply legs of the templates for such calls ([`super::templates`]) come here with every other selector than their own; [`crate::quick`] says what is not settled meanwhile.
//!
//! On entry r11 leads to the server's thread, rsp to the entry of its table, rax is the selector, and the return address is stored. What is not plain here changes nothing: the calls are
//! settled, and the traversal begins again. The rules are those of [`super::portal_code`], and the decoder checks them.

use super::descriptors::PerCpu;
use super::entry::{general, general_passed, leave, store_used, store_words};
use super::float::FloatState;
use super::glue::{self, kernel};
use super::portal_code::REPLY;
use super::{user_copy, Machine};
use crate::arch::Arch;
use crate::channel::Channel;
use crate::copy::OPENING;
use crate::domain::Domain;
use crate::lock::TicketLock;
use crate::portal::table::{Entry, CHUNK};
use crate::thread::{Thread, USER_FLAGS};
use cairn_abi::flag;
use cairn_abi::layout::PAGE;
use cairn_abi::service::receive;
use cairn_abi::state::Registers;
use core::arch::global_asm;
use core::mem::offset_of;

pub type MachineThread = Thread<FloatState>;

/// No length, no value of `rax` after a reply: settle, and do it in the general way.
const GENERAL: u64 = u64::MAX;

/// READ by the server of a quick call with parts: its caller, offset, own address, length; itself. Returns how many bytes were copied; all ones: none.
///
/// # Safety
/// Called by the code below: these are the two threads of such a call.
pub unsafe extern "C" fn read_quick(
    client: *const MachineThread,
    offset: u64,
    address: u64,
    len: u64,
    server: *const MachineThread,
) -> u64 {
    // SAFETY: by the contract.
    unsafe { transfer((client, server), true, (offset, address, len)) }.unwrap_or(GENERAL)
}

/// The same for WRITE.
///
/// # Safety
/// As for [`read_quick`].
pub unsafe extern "C" fn write_quick(
    client: *const MachineThread,
    offset: u64,
    address: u64,
    len: u64,
    server: *const MachineThread,
) -> u64 {
    // SAFETY: by the contract.
    unsafe { transfer((client, server), false, (offset, address, len)) }.unwrap_or(GENERAL)
}

/// [`Kernel::quick_transfer`] where the two threads are known.
///
/// # Safety
/// As for [`read_quick`].
#[inline(always)]
unsafe fn transfer(
    (client, server): (*const MachineThread, *const MachineThread),
    out: bool,
    (offset, address, len): (u64, u64, u64),
) -> Option<u64> {
    // SAFETY: by the contract the threads live, and nothing that is done here changes them; the nucleus does not lie where they do.
    let (kernel, client, server) = unsafe { (kernel(), &*client, &*server) };
    let (base, len) = client.piece(out, offset, len)?;
    let theirs = (kernel.domains[client.domain].root, base);
    let ours = (kernel.domains[server.domain].root, address);
    let (source, destination) = if out { (theirs, ours) } else { (ours, theirs) };
    // READ is the frequent one.
    if !out {
        kernel.copy_short(source, destination, len, true)?;
    } else {
        let bytes = len as usize;
        // Without the call that it is elsewhere.
        let copies = &mut kernel.arch.copies;
        if len > OPENING || !user_copy::copy_near(source, destination, bytes, copies) {
            if len > PAGE {
                return None;
            }
            // The code below has stored all registers of the server of a copy of more than `OPENING` bytes, in whose midst it may be interrupted like a program.
            kernel.arch.copy(source, destination, bytes, true).ok()?;
        }
        kernel.counters.bytes_copied += len;
    }
    kernel.counters.entries += 1;
    Some(len)
}

/// What a plain reply may have, in the selector's upper half: data, and one new portal (one that is passed looks the same and is sorted out later).
const EXTRAS: u32 = ((flag::PARTS | flag::MINT | flag::portals(1)) >> 32) as u32;
/// What else there may not be, the operation among it: what is left when this is taken off a selector, turned by 32 bits.
const NOT_EXTRAS: u64 = !(((EXTRAS as u64) << 32) | (CHUNK as u64 - 1));

/// A selector without the bits that name a slot of the table's first frame: this operation and nothing else.
const fn plain(operation: u8) -> u64 {
    (operation as u64) << (32 - CHUNK.trailing_zeros())
}

// The lowest bit tells them apart.
const _: () = assert!(receive::READ & 1 == 0 && receive::WRITE == receive::READ + 1);

global_asm!(
    ".text",
    ".balign 16",
    // With several cores: it takes the lock first, and asks whether another core has settled the call meanwhile.
    ".global portal_parts_several",
    "portal_parts_several:",
    "cmp dword ptr [rip + {lock} + {urgent}], 0",
    "jne general_called",
    "lock bts dword ptr [rip + {lock} + {busy}], 0",
    "jc general_called",
    "cmp qword ptr [r11 + {reply_code}], offset {general}",
    "je {general_passed}",
    // With one core the lock is free all the time; to let it go changes nothing.
    ".global portal_parts",
    "portal_parts:",
    // Through a receive right of the channel that it serves?
    "mov ecx, [rsp + {object}]",
    "cmp ecx, [r11 + {serving}]",
    "jne 9f",
    "mov [r11 + {rax}], rax",
    "mov rsp, rax",
    "shr rsp, {slot_bits}",
    "cmp rsp, {write}",
    "ja 4f",
    "cmp rsp, {read}",
    "jb 9f",
    // READ or WRITE of one part, for this call: the thread goes on. rdi = caller, r8 = server.
    "mov rcx, rdi",
    "mov rdi, [r11 + {quick_client}]",
    "cmp rcx, [rdi + {token}]",
    "jne 5f",
    "mov [r11 + {rsi}], rsi",
    "mov [r11 + {rdx}], rdx",
    "mov [r11 + {r8}], r8",
    "mov [r11 + {r9}], r9",
    "mov [r11 + {r10}], r10",
    "mov [r11 + {rbp}], rbp",
    // It may be interrupted in the midst of a long one.
    "cmp r10, {opening}",
    "jbe 8f",
    "mov [r11 + {rbx}], rbx",
    "mov [r11 + {rdi}], rcx",
    "mov [r11 + {r12}], r12",
    "mov [r11 + {r13}], r13",
    "mov [r11 + {r14}], r14",
    "mov [r11 + {r15}], r15",
    "mov qword ptr [r11 + {rflags}], {user_flags}",
    "8:",
    "mov r8, r11",
    "mov rcx, r10",
    "bt rsp, {write_bit}",
    "mov rsp, gs:[{stack}]",
    "jnc 2f",
    "call {write_quick}",
    "jmp 3f",
    "2:",
    "call {read_quick}",
    "3:",
    "mov r11, gs:[{registers}]",
    "mov rsi, [r11 + {rsi}]",
    "mov rdx, [r11 + {rdx}]",
    "mov r8, [r11 + {r8}]",
    "mov r9, [r11 + {r9}]",
    "mov r10, [r11 + {r10}]",
    "mov rbp, [r11 + {rbp}]",
    "cmp rax, -1",
    "je 7f",
    "lea rdi, [rax + r8]",
    "xor eax, eax",
    "mov rcx, [r11 + {rip}]",
    "mov rsp, [r11 + {rsp}]",
    "mov dword ptr [rip + {lock} + {busy}], 0",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    "5:",
    "mov rdi, rcx",
    "jmp 9f",
    "7:",
    "mov rdi, [r11 + {quick_client}]",
    "mov rdi, [rdi + {token}]",
    "mov rax, [r11 + {rax}]",
    "jmp 9f",
    // A reply to this call with more than words?
    "4:",
    "mov rsp, {not_extras}",
    "and rsp, rax",
    "ror rsp, 32",
    "cmp rsp, {reply_receive}",
    "jne 9f",
    "mov rsp, [r11 + {quick_client}]",
    "cmp rbp, [rsp + {token}]",
    "jne 9f",
    // r12 = number of the channel, r14 = server, r15 = caller.
    "mov rsp, r11",
    store_used!(),
    store_words!(),
    "mov qword ptr [rsp + {rflags}], {user_flags}",
    "mov r12d, ecx",
    "mov r14, rsp",
    "mov r15, [rsp + {quick_client}]",
    // Where objects lie are their numbers.
    "mov edi, r14d",
    "mov esi, r15d",
    "mov edx, ecx",
    "mov rsp, gs:[{stack}]",
    "call {reply_extras}",
    "cmp rax, -1",
    "je 6f",
    // The channel's server waits again, the caller runs.
    "mov rcx, [rip + {reply}]",
    "mov [r14 + {reply_code}], rcx",
    "movsxd rcx, r12d",
    "mov rdx, [r14 + {thread_plain}]",
    "mov [rcx + {plain}], rdx",
    "inc dword ptr gs:[{links}]",
    "mov gs:[{registers}], r15",
    "movsxd rcx, dword ptr [r15 + {domain}]",
    "mov rdx, [rcx + {domain_turn_base}]",
    "mov gs:[{turn_base}], rdx",
    "mov rcx, [rcx + {table_base}]",
    "mov cr3, rcx",
    "mov rdx, [r14 + {rdx}]",
    "mov rsi, [r14 + {rsi}]",
    "mov rdi, [r14 + {rdi}]",
    "mov r8, [r14 + {r8}]",
    "mov r9, [r14 + {r9}]",
    "mov r10, [r14 + {r10}]",
    "mov r12, [r14 + {r12}]",
    "mov r13, [r15 + {r13}]",
    "mov rcx, [r15 + {rip}]",
    "mov rsp, [r15 + {rsp}]",
    "mov rbx, [r15 + {rbx}]",
    "mov rbp, [r15 + {rbp}]",
    "mov r14, [r15 + {r14}]",
    "mov r15, [r15 + {r15}]",
    "mov dword ptr [rip + {lock} + {busy}], 0",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    // Everything is stored.
    "6:",
    "mov dword ptr [rip + {lock} + {busy}], 0",
    "call {settle}",
    "call {on_syscall}",
    "jmp {leave}",
    // It cannot be done here.
    "9:",
    "jmp {general_passed}",
    ".global portal_parts_end",
    "portal_parts_end:",
    object = const offset_of!(Entry, target),
    serving = const offset_of!(MachineThread, serving),
    slot_bits = const CHUNK.trailing_zeros(),
    read = const plain(receive::READ),
    write = const plain(receive::WRITE),
    write_bit = const plain(1).trailing_zeros(),
    reply_receive = const receive::REPLY_RECEIVE,
    opening = const OPENING,
    not_extras = const NOT_EXTRAS,
    read_quick = sym read_quick,
    write_quick = sym write_quick,
    reply_extras = sym glue::reply_extras,
    settle = sym glue::settle,
    on_syscall = sym glue::on_syscall,
    leave = sym leave,
    reply = sym REPLY,
    general = sym general,
    general_passed = sym general_passed,
    lock = sym glue::LOCK,
    busy = const TicketLock::BUSY,
    urgent = const TicketLock::BUSY + TicketLock::URGENT,
    quick_client = const offset_of!(MachineThread, quick_client),
    token = const offset_of!(MachineThread, token),
    reply_code = const offset_of!(MachineThread, reply_code),
    thread_plain = const offset_of!(MachineThread, plain),
    domain = const offset_of!(MachineThread, domain),
    plain = const offset_of!(Channel, plain),
    domain_turn_base = const offset_of!(Domain<Machine>, turn_base),
    table_base = const offset_of!(Domain<Machine>, table_base),
    links = const offset_of!(PerCpu, links),
    registers = const offset_of!(PerCpu, registers),
    turn_base = const offset_of!(PerCpu, turn_base),
    stack = const offset_of!(PerCpu, stack),
    user_flags = const USER_FLAGS,
    rax = const offset_of!(Registers, rax),
    rbx = const offset_of!(Registers, rbx),
    rdx = const offset_of!(Registers, rdx),
    rsi = const offset_of!(Registers, rsi),
    rdi = const offset_of!(Registers, rdi),
    rbp = const offset_of!(Registers, rbp),
    r8 = const offset_of!(Registers, r8),
    r9 = const offset_of!(Registers, r9),
    r10 = const offset_of!(Registers, r10),
    r12 = const offset_of!(Registers, r12),
    r13 = const offset_of!(Registers, r13),
    r14 = const offset_of!(Registers, r14),
    r15 = const offset_of!(Registers, r15),
    rip = const offset_of!(Registers, rip),
    rflags = const offset_of!(Registers, rflags),
    rsp = const offset_of!(Registers, rsp),
);
