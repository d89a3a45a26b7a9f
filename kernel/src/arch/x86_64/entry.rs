//! Ways in and out. From user mode: [`syscall_entry`] and the vector stubs. A `syscall` jumps to the code of its portal ([`super::portal_code`]); that code, or [`general`]
//! for everything else, and the vectors store the thread's registers where `PerCpu::registers` points. The portable part runs on the one nucleus stack, which is
//! empty whenever a program runs. The way out is [`leave`], always to the thread that the portable part named.
//!
//! Where a traversal jumps to, r11 leads to the calling thread, rsp to the table entry that the selector's last byte names, rcx is the return address, rax the selector, and the
//! caller's stack pointer is stored. Everything else is the program's. Its flags are lost: it goes on with those of a fresh thread. That the entry is really the one that the selector
//! names, and not one 256 slots away, is for the code to check. A thread with something unusual pending has entries that all lead to [`general`].
//!
//! A trap in the nucleus itself is an error ([`super::panic::trapped`]), but for: an interrupt while idle, which drops the idle stack and counts as an entry
//! without a thread; one where an entry lets interrupts in ([`super::glue::let_in`]), which drops the stack and counts as if it had come before the thread's `syscall`;
//! a non-maskable interrupt, which is ignored.

use super::descriptors::{PerCpu, KERNEL_CODE, USER_CODE, USER_DATA, VECTORS};
use super::float::FloatState;
use super::interrupts::{FIRST_LINE, FIRST_OTHER, LEGACY};
use super::Machine;
use crate::domain::Domain;
use crate::lock::TicketLock;
use crate::portal::table::{Entry, FAR};
use crate::thread::{Thread, USER_FLAGS};
use cairn_abi::state::{Registers, EXACT_FLAGS};
use core::arch::{global_asm, naked_asm};
use core::mem::offset_of;

type MachineThread = Thread<FloatState>;

extern "C" {
    /// Where each vector's stub is, for boot.
    pub static vector_stubs: [u64; VECTORS];
}

/// Lines of machine code that store the registers that portal code uses for itself, and those with message words. rsp, or the register that is named, leads to the thread; each register's
/// offset is an operand of its name.
macro_rules! store_used {
    () => {
        store_used!("rsp")
    };
    ($thread:literal) => {
        concat!(
            "mov [",
            $thread,
            " + {rbx}], rbx\n",
            "mov [",
            $thread,
            " + {rbp}], rbp\n",
            "mov [",
            $thread,
            " + {r14}], r14\n",
            "mov [",
            $thread,
            " + {r15}], r15\n",
        )
    };
}
macro_rules! store_words {
    () => {
        store_words!("rsp")
    };
    ($thread:literal) => {
        concat!(
            "mov [",
            $thread,
            " + {rdx}], rdx\n",
            "mov [",
            $thread,
            " + {rsi}], rsi\n",
            "mov [",
            $thread,
            " + {rdi}], rdi\n",
            "mov [",
            $thread,
            " + {r8}], r8\n",
            "mov [",
            $thread,
            " + {r9}], r9\n",
            "mov [",
            $thread,
            " + {r10}], r10\n",
            "mov [",
            $thread,
            " + {r12}], r12\n",
            "mov [",
            $thread,
            " + {r13}], r13\n",
        )
    };
}
pub(super) use {store_used, store_words};

/// `syscall` arrives here: rcx = return address, r11 = flags, everything else the program's, interrupts off by SFMASK.
///
/// # Safety
/// Reached by the processor only.
#[unsafe(naked)]
pub unsafe extern "C" fn syscall_entry() {
    naked_asm!(
        "swapgs",
        "cmp rcx, gs:[{turn_base}]",
        "jae 4f",
        // Turned round into the personality: rax = return address and number, rcx and r11 are the program's to lose.
        "cmp rax, 0xffff",
        "ja 3f",
        "2:",
        "shl rcx, 16",
        "or rax, rcx",
        "inc qword ptr gs:[{turned}]",
        "mov rcx, gs:[{domain}]",
        "mov rcx, [rcx + {turn_entry}]",
        "swapgs",
        "sysretq",
        "3:",
        "mov eax, 0xffff",
        "jmp 2b",
        // A portal traversal. What the registers are then is the head of this file.
        "4:",
        "mov r11, gs:[{registers}]",
        "mov [r11 + {rsp}], rsp",
        "movzx esp, al",
        "shl esp, 4",
        "add rsp, [r11 + {entries}]",
        "jmp [rsp]",
        turn_base = const offset_of!(PerCpu, turn_base),
        turn_entry = const offset_of!(Domain<Machine>, turn_entry),
        turned = const offset_of!(PerCpu, turned),
        registers = const offset_of!(PerCpu, registers),
        domain = const offset_of!(PerCpu, domain),
        entries = const offset_of!(MachineThread, entries),
        rsp = const offset_of!(Registers, rsp),
    )
}

/// The general path: store what is still in registers, and let the portable part decide.
///
/// # Safety
/// Jumped to by the entry and the portal code, with registers as the head of this file says. At `general_called` the return address is stored.
#[unsafe(naked)]
pub unsafe extern "C" fn general() {
    naked_asm!(
        "mov [r11 + {rip}], rcx",
        ".global general_called",
        "general_called:",
        "lea rcx, [rip + 2f]",
        "jmp general_store",
        "2:",
        "cmp qword ptr [r11 + {reply_code}], offset portal_receive",
        "jne {general_settled}",
        "call {on_traversal}",
        "jmp {leave}",
        rip = const offset_of!(Registers, rip),
        reply_code = const offset_of!(MachineThread, reply_code),
        general_settled = sym general_settled,
        on_traversal = sym super::glue::on_traversal,
        leave = sym leave,
    )
}

/// The body of [`general`] for entries of one kind, with one core: everything is stored, quick calls are settled, and the function gets the target. At the
/// first label nothing is stored, at the second the return address is.
macro_rules! general_kind {
    ($label:literal, $called:literal, $function:path) => {
        naked_asm!(
            concat!(".global ", $label),
            concat!($label, ":"),
            "mov [r11 + {rip}], rcx",
            concat!(".global ", $called),
            concat!($called, ":"),
            "lea rcx, [rip + 2f]",
            "jmp general_store",
            "2:",
            "cmp qword ptr [r11 + {reply_code}], offset portal_receive",
            "je 3f",
            "mov rbx, rdi",
            "call {settle}",
            "mov rdi, rbx",
            "3:",
            "call {function}",
            "jmp {leave_with_words}",
            rip = const offset_of!(Registers, rip),
            reply_code = const offset_of!(MachineThread, reply_code),
            settle = sym super::glue::settle,
            function = sym $function,
            leave_with_words = sym leave_with_words,
        )
    };
}

/// [`general`] of an entry that leads to a channel.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn general_channel() {
    general_kind!(
        "portal_channel",
        "general_channel_called",
        super::glue::on_channel
    )
}

/// [`general`] of an entry that leads to a receive right. Where a thread's `reply_code` leads while it is in no quick call is `portal_receive`.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn general_receive() {
    general_kind!(
        "portal_receive",
        "general_receive_called",
        super::glue::on_receive_right
    )
}

/// [`general`] of the memory manager's entry.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn general_memory() {
    general_kind!(
        "portal_memory",
        "general_memory_called",
        super::glue::on_memory
    )
}

/// [`general`] of an entry that was used so often, with several cores, that it shall have code of its own. The return address is stored.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn general_counted() {
    naked_asm!(
        "lea rcx, [rip + 2f]",
        "jmp general_store",
        "2:",
        "call {on_counted}",
        "jmp {leave}",
        on_counted = sym super::glue::on_counted,
        leave = sym leave,
    )
}

// What all beginnings of the general path share. At `general_store` rsp leads to an entry, whose target is put into rdi if it is the one that the selector names; at `general_store_all` it may be
// anything that can be read. All is stored now, and rcx says where to go on, on the nucleus stack.
// r11 leads to the thread, whose return address is stored.
global_asm!(
    ".text",
    ".balign 16",
    "2:",
    "lea rcx, [rip + {general_settled}]",
    "jmp general_store_all",
    ".global general_store",
    "general_store:",
    "test eax, {far}",
    "jnz 2b",
    ".global general_store_all",
    "general_store_all:",
        store_used!("r11"),
    "mov [r11 + {rax}], rax",
    "mov qword ptr [r11 + {rflags}], {user_flags}",
        store_words!("r11"),
    "mov rdi, [rsp + {target}]",
    "mov rsp, gs:[{stack}]",
    "jmp rcx",
        target = const offset_of!(Entry, target),
        far = const FAR,
        general_settled = sym general_settled,
        stack = const offset_of!(PerCpu, stack),
        user_flags = const USER_FLAGS,
        rax = const offset_of!(Registers, rax),
        rbx = const offset_of!(Registers, rbx),
        rbp = const offset_of!(Registers, rbp),
        rflags = const offset_of!(Registers, rflags),
        rdx = const offset_of!(Registers, rdx),
        rsi = const offset_of!(Registers, rsi),
        rdi = const offset_of!(Registers, rdi),
        r8 = const offset_of!(Registers, r8),
        r9 = const offset_of!(Registers, r9),
        r10 = const offset_of!(Registers, r10),
        r12 = const offset_of!(Registers, r12),
        r13 = const offset_of!(Registers, r13),
        r14 = const offset_of!(Registers, r14),
        r15 = const offset_of!(Registers, r15),
);

/// [`general`] where everything is stored, and quick calls may be under way.
///
/// # Safety
/// On the nucleus stack; r11 leads to the thread.
#[unsafe(naked)]
unsafe extern "C" fn general_settled() {
    naked_asm!(
        "cmp qword ptr [r11 + {reply_code}], offset portal_receive",
        "je 2f",
        "call {settle}",
        "2:",
        "call {on_syscall}",
        "jmp {leave}",
        reply_code = const offset_of!(MachineThread, reply_code),
        settle = sym super::glue::settle,
        on_syscall = sym super::glue::on_syscall,
        leave = sym leave,
    )
}

/// Behind entries with several cores: [`general`], and the entry's uses are counted.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn counted() {
    naked_asm!(
        "mov [r11 + {rip}], rcx",
        "jmp {counted_stored}",
        rip = const offset_of!(Registers, rip),
        counted_stored = sym counted_stored,
    )
}

/// [`counted`] where the return address is stored.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn counted_stored() {
    naked_asm!(
        "dec byte ptr [rsp + {uses}]",
        "jnz general_called",
        "jmp {general_counted}",
        uses = const Entry::USES,
        general_counted = sym general_counted,
    )
}

/// [`counted_stored`] for a template that has the lock, which it lets go.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn counted_passed() {
    naked_asm!(
        "mov dword ptr [rip + {lock} + {busy}], 0",
        "jmp {counted_stored}",
        lock = sym super::glue::LOCK,
        busy = const TicketLock::BUSY,
        counted_stored = sym counted_stored,
    )
}

/// [`general`] for code that has the lock, which it lets go, and has stored the return address. r11 and rsp may lead anywhere.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn general_passed() {
    naked_asm!(
        "mov dword ptr [rip + {lock} + {busy}], 0",
        "mov rsp, gs:[{registers}]",
        "jmp {general_stored}",
        general_stored = sym general_stored,
        lock = sym super::glue::LOCK,
        busy = const TicketLock::BUSY,
        registers = const offset_of!(PerCpu, registers),
    )
}

/// [`general`] where rsp leads to no entry, or to one of those for threads with something unusual pending.
///
/// # Safety
/// As there, but for rsp.
#[unsafe(naked)]
pub unsafe extern "C" fn general_unseen() {
    naked_asm!(
        "movzx esp, al",
        "shl esp, 4",
        "add rsp, [r11 + {own_entries}]",
        "jmp {general}",
        own_entries = const offset_of!(MachineThread, own_entries),
        general = sym general,
    )
}

/// [`general`] for portal code that has stored the return address and has made rsp lead to the thread.
///
/// # Safety
/// As there.
#[unsafe(naked)]
pub unsafe extern "C" fn general_stored() {
    naked_asm!(
        "mov r11, rsp",
        "lea rcx, [rip + {general_settled}]",
        "jmp general_store_all",
        general_settled = sym general_settled,
    )
}

/// For portal code that has counted an entry's uses: compile it, and traverse the portal again.
///
/// # Safety
/// Jumped to by the portal code: gs leads to the thread, whose return address is stored; all registers but rcx, r11 and rsp are the program's, and rsp leads to
/// the thread or an entry.
#[unsafe(naked)]
pub unsafe extern "C" fn compile_again() {
    naked_asm!(
        "mov r11, gs:[{registers}]",
        "mov rsp, r11",
        "lea rcx, [rip + 2f]",
        "jmp general_store_all",
        "2:",
        "call {compile}",
        "jmp {again}",
        registers = const offset_of!(PerCpu, registers),
        compile = sym super::glue::compile,
        again = sym again,
    )
}

/// The running thread traverses the portal from the start.
///
/// # Safety
/// All of its registers are stored.
#[unsafe(naked)]
unsafe extern "C" fn again() {
    naked_asm!(
        "mov r11, gs:[{registers}]",
        "mov rax, [r11 + {rax}]",
        "mov rbx, [r11 + {rbx}]",
        "mov rbp, [r11 + {rbp}]",
        "mov rdx, [r11 + {rdx}]",
        "mov rsi, [r11 + {rsi}]",
        "mov rdi, [r11 + {rdi}]",
        "mov r8, [r11 + {r8}]",
        "mov r9, [r11 + {r9}]",
        "mov r10, [r11 + {r10}]",
        "mov rcx, [r11 + {rip}]",
        "movzx esp, al",
        "shl esp, 4",
        "add rsp, [r11 + {entries}]",
        "jmp [rsp]",
        registers = const offset_of!(PerCpu, registers),
        entries = const offset_of!(MachineThread, entries),
        rip = const offset_of!(Registers, rip),
        rax = const offset_of!(Registers, rax),
        rbx = const offset_of!(Registers, rbx),
        rbp = const offset_of!(Registers, rbp),
        rdx = const offset_of!(Registers, rdx),
        rsi = const offset_of!(Registers, rsi),
        rdi = const offset_of!(Registers, rdi),
        r8 = const offset_of!(Registers, r8),
        r9 = const offset_of!(Registers, r9),
        r10 = const offset_of!(Registers, r10),
    )
}

/// Out of the nucleus: rax and rdx hold a [`crate::Resume`].
///
/// # Safety
/// Jumped to with the answer of the portable part in rax and rdx, on the nucleus stack.
#[unsafe(naked)]
pub unsafe extern "C" fn leave() {
    naked_asm!(
        "mov gs:[{registers}], rax",
        "test rax, rax",
        "jz {wait}",
        "mov rsp, rax",
        "mov rcx, [rsp + {rip}]",
        "mov r11, [rsp + {rflags}]",
        // sysret to an address that is not canonical would fault in the nucleus; with TF or RF it is not exact.
        "bt rcx, 47",
        "sbb eax, eax",
        "or eax, edx",
        "mov edx, r11d",
        "and edx, {single_step}",
        "or eax, edx",
        // rsp leads to the thread, rcx and r11 are its return address and flags, eax is 0 if these two need not be loaded.
        ".global leave_plain",
        "leave_plain:",
        "mov rbx, [rsp + {rbx}]",
        "mov rdx, [rsp + {rdx}]",
        "mov rsi, [rsp + {rsi}]",
        "mov rdi, [rsp + {rdi}]",
        "mov rbp, [rsp + {rbp}]",
        "mov r8, [rsp + {r8}]",
        "mov r9, [rsp + {r9}]",
        "mov r10, [rsp + {r10}]",
        "mov r12, [rsp + {r12}]",
        "mov r13, [rsp + {r13}]",
        "mov r14, [rsp + {r14}]",
        "mov r15, [rsp + {r15}]",
        "test eax, eax",
        "jnz 2f",
        "mov rax, [rsp + {rax}]",
        "mov rsp, [rsp + {rsp}]",
        "swapgs",
        "sysretq",
        // Every register counts.
        "2:",
        "mov rax, rsp",
        "mov rsp, gs:[{stack}]",
        "push {user_data}",
        "push [rax + {rsp}]",
        "push r11",
        "push {user_code}",
        "push rcx",
        "mov rcx, [rax + {rcx}]",
        "mov r11, [rax + {r11}]",
        "mov rax, [rax + {rax}]",
        "swapgs",
        "iretq",
        registers = const offset_of!(PerCpu, registers),
        stack = const offset_of!(PerCpu, stack),
        single_step = const EXACT_FLAGS as u32,
        user_data = const USER_DATA,
        user_code = const USER_CODE,
        rax = const offset_of!(Registers, rax),
        rbx = const offset_of!(Registers, rbx),
        rcx = const offset_of!(Registers, rcx),
        rdx = const offset_of!(Registers, rdx),
        rsi = const offset_of!(Registers, rsi),
        rdi = const offset_of!(Registers, rdi),
        rbp = const offset_of!(Registers, rbp),
        r8 = const offset_of!(Registers, r8),
        r9 = const offset_of!(Registers, r9),
        r10 = const offset_of!(Registers, r10),
        r11 = const offset_of!(Registers, r11),
        r12 = const offset_of!(Registers, r12),
        r13 = const offset_of!(Registers, r13),
        r14 = const offset_of!(Registers, r14),
        r15 = const offset_of!(Registers, r15),
        rip = const offset_of!(Registers, rip),
        rflags = const offset_of!(Registers, rflags),
        rsp = const offset_of!(Registers, rsp),
        wait = sym wait,
    )
}

/// [`leave`] where the message's words may still be in the other side's registers: then rdx leads there, and the thread stands behind a `syscall`.
///
/// # Safety
/// As for [`leave`].
#[unsafe(naked)]
pub unsafe extern "C" fn leave_with_words() {
    naked_asm!(
        "cmp rdx, 1",
        "jbe {leave}",
        "mov gs:[{registers}], rax",
        "mov rbx, [rax + {rbx}]",
        "mov rbp, [rax + {rbp}]",
        "mov r14, [rax + {r14}]",
        "mov r15, [rax + {r15}]",
        "mov rsi, [rdx + {rsi}]",
        "mov rdi, [rdx + {rdi}]",
        "mov r8, [rdx + {r8}]",
        "mov r9, [rdx + {r9}]",
        "mov r10, [rdx + {r10}]",
        "mov r12, [rdx + {r12}]",
        "mov r13, [rdx + {r13}]",
        "mov rdx, [rdx + {rdx}]",
        "mov rcx, [rax + {rip}]",
        "mov rsp, [rax + {rsp}]",
        "mov rax, [rax + {rax}]",
        "mov r11d, {user_flags}",
        "swapgs",
        "sysretq",
        leave = sym leave,
        registers = const offset_of!(PerCpu, registers),
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
        rsp = const offset_of!(Registers, rsp),
    )
}

/// [`leave`] for the first time.
///
/// # Safety
/// Everything must be set up. The caller's stack is abandoned.
#[unsafe(naked)]
pub unsafe extern "C" fn leave_to(registers: *mut Registers, full: u64) -> ! {
    naked_asm!(
        "mov rax, rdi",
        "mov rdx, rsi",
        "jmp {leave}",
        leave = sym leave,
    )
}

/// Nothing to run: wait with interrupts on. An interrupt does not come back here.
///
/// # Safety
/// Jumped to on the nucleus stack.
#[unsafe(naked)]
unsafe extern "C" fn wait() {
    naked_asm!(
        "mov rsp, gs:[{stack}]",
        "2:",
        "sti",
        "hlt",
        "jmp 2b",
        stack = const offset_of!(PerCpu, stack),
    )
}

// One stub per vector. Exceptions 8, 10 to 14, 17, 21, 29 and 30 push an error code themselves. All have two instructions of two bytes each, and there is a jump on for every few.
// What sources' vectors push is the distance from the first.
global_asm!(
    r#"
    .text
    .set vector, 0
    .rept {vectors}
    .pushsection .rodata.vector_stubs, "a"
    .if vector == 0
    .balign 8
    .global vector_stubs
vector_stubs:
    .endif
    .quad 2f
    .popsection
2:
    .if ((vector >= {first_line}) && (vector < {legacy_end})) || (vector >= {first_other})
    push vector - {first_line}
    jmp 3f
    .else
    push vector
    .if (vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
    jmp 5f
    .elseif vector < {first_line}
    jmp 4f
    .else
    jmp 4b
    .endif
    .endif
    .if vector == {first_line} - 1
4:
    push [rsp]
    mov qword ptr [rsp + 8], 0
5:
    jmp {trap}
    .endif
    .if (vector >= {first_line}) && ((vector % 16 == 15) || (vector == {vectors} - 1))
3:
    jmp {interrupted}
    .endif
    .set vector, vector + 1
    .endr
    "#,
    trap = sym trap,
    interrupted = sym super::interrupt_code::interrupted,
    first_line = const FIRST_LINE,
    legacy_end = const FIRST_LINE as u32 + LEGACY,
    first_other = const FIRST_OTHER,
    vectors = const VECTORS,
);

/// Behind the stubs: vector, error code and the processor's frame are on the stack.
///
/// # Safety
/// Reached from the stubs only.
#[unsafe(naked)]
unsafe extern "C" fn trap() {
    naked_asm!(
        "cld",
        "clac",
        "test byte ptr [rsp + 24], 3",
        "jz 3f",
        "swapgs",
        "push rax",
        "mov rax, gs:[{registers}]",
        "mov [rax + {rbx}], rbx",
        "mov [rax + {rcx}], rcx",
        "mov [rax + {rdx}], rdx",
        "mov [rax + {rsi}], rsi",
        "mov [rax + {rdi}], rdi",
        "mov [rax + {rbp}], rbp",
        "mov [rax + {r8}], r8",
        "mov [rax + {r9}], r9",
        "mov [rax + {r10}], r10",
        "mov [rax + {r11}], r11",
        "mov [rax + {r12}], r12",
        "mov [rax + {r13}], r13",
        "mov [rax + {r14}], r14",
        "mov [rax + {r15}], r15",
        "pop rcx",
        "mov [rax + {rax}], rcx",
        "pop rdi",
        "pop rsi",
        "pop rcx",
        "mov [rax + {rip}], rcx",
        "add rsp, 8",
        "pop rcx",
        "mov [rax + {rflags}], rcx",
        "pop rcx",
        "mov [rax + {rsp}], rcx",
        "mov rsp, gs:[{stack}]",
        "cmp qword ptr [rax + {reply_code}], offset portal_receive",
        "jne 6f",
        "7:",
        "call [rip + {on_trap}]",
        "jmp {leave}",
        // Quick calls are under way.
        "6:",
        "mov rbx, rdi",
        "mov r12, rsi",
        "call {settle}",
        "mov rdi, rbx",
        "mov rsi, r12",
        "jmp 7b",
        // From the nucleus.
        "3:",
        "cmp dword ptr [rsp], 2",
        "je 4f",
        "cmp dword ptr [rsp], 32",
        "jb 5f",
        // Interrupts are on here only while idle and where an entry lets them in, so GS is the nucleus's.
        "mov rdi, [rsp]",
        "xor esi, esi",
        "mov rsp, gs:[{stack}]",
        "mov rax, gs:[{registers}]",
        "test rax, rax",
        "jz 7b",
        // The running thread's registers are stored, and it shall do its `syscall` again.
        "sub qword ptr [rax + {rip}], 2",
        "cmp qword ptr [rax + {reply_code}], offset portal_receive",
        "jne 6b",
        "jmp 7b",
        "4:",
        "add rsp, 16",
        "iretq",
        "5:",
        "push r15",
        "push r14",
        "push r13",
        "push r12",
        "push r11",
        "push r10",
        "push r9",
        "push r8",
        "push rbp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push rbx",
        "push rax",
        "mov rdi, rsp",
        "and rsp, -16",
        "call {trapped}",
        "ud2",
        registers = const offset_of!(PerCpu, registers),
        stack = const offset_of!(PerCpu, stack),
        rax = const offset_of!(Registers, rax),
        rbx = const offset_of!(Registers, rbx),
        rcx = const offset_of!(Registers, rcx),
        rdx = const offset_of!(Registers, rdx),
        rsi = const offset_of!(Registers, rsi),
        rdi = const offset_of!(Registers, rdi),
        rbp = const offset_of!(Registers, rbp),
        r8 = const offset_of!(Registers, r8),
        r9 = const offset_of!(Registers, r9),
        r10 = const offset_of!(Registers, r10),
        r11 = const offset_of!(Registers, r11),
        r12 = const offset_of!(Registers, r12),
        r13 = const offset_of!(Registers, r13),
        r14 = const offset_of!(Registers, r14),
        r15 = const offset_of!(Registers, r15),
        rip = const offset_of!(Registers, rip),
        rflags = const offset_of!(Registers, rflags),
        rsp = const offset_of!(Registers, rsp),
        reply_code = const offset_of!(MachineThread, reply_code),
        settle = sym super::glue::settle,
        on_trap = sym super::traced::ON_TRAP,
        leave = sym leave,
        trapped = sym super::panic::trapped,
    )
}

/// The frame that [`trap`] makes of a trap in the nucleus.
#[derive(Debug)]
#[repr(C)]
pub struct TrapFrame {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub vector: u64,
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

const _: () = assert!(KERNEL_CODE & 3 == 0 && USER_CODE & 3 == 3);
