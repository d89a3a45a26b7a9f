//! Entry and exit in assembly.
//!
//! *Entry by turn-around*: `rax` = return address << 16 | number, `rcx` and `r11` free, everything else is the program's. Trivial calls are answered at once from the thread area
//! and the head of the process's state, without a stack; all others save the program's registers in the [`Frame`] on the thread's personality stack and call [`dispatch`].
//!
//! *Exit*: look at `poked`, restore, go: what may have changed after a call, everything after anything else. From the look to the last instruction is the exit window: a poke in there makes the upcall start the exit over,
//! which works because the window only reads the frame. A poke in a quick call makes the upcall send the call the slow way, which works because `entry_rax` is kept and the quick calls
//! change nothing that matters twice.

use super::area::{Frame, ThreadArea};
use crate::process::Process;
use core::arch::global_asm;
use core::mem::{offset_of, size_of};

/// The program's registers into the frame on the thread's personality stack, for a function that gets the frame.
macro_rules! save_frame {
    () => {
        concat!(
            "mov rcx, gs:[{frame}]\n",
            "mov [rcx + {f_rsp}], rsp\n",
            "mov rsp, rcx\n",
            "mov [rcx + {f_r15}], r15\n",
            "mov [rcx + {f_r14}], r14\n",
            "mov [rcx + {f_r13}], r13\n",
            "mov [rcx + {f_r12}], r12\n",
            "mov [rcx + {f_rbp}], rbp\n",
            "mov [rcx + {f_rbx}], rbx\n",
            "mov [rcx + {f_r10}], r10\n",
            "mov [rcx + {f_r9}], r9\n",
            "mov [rcx + {f_r8}], r8\n",
            "mov [rcx + {f_rdx}], rdx\n",
            "mov [rcx + {f_rsi}], rsi\n",
            "mov [rcx + {f_rdi}], rdi\n",
            "movzx edx, ax\n",
            "mov [rcx + {f_number}], rdx\n",
            "shr rax, 16\n",
            "mov [rcx + {f_rip}], rax\n",
            "mov qword ptr [rcx + {f_full}], 0\n",
            "cld\n",
            "mov rdi, rcx\n",
            "xor ebp, ebp\n",
        )
    };
}

global_asm!(
    // For processes that are traced: all calls take the slow way.
    ".globl personality_traced_entry",
    "personality_traced_entry:",
    save_frame!(),
    "call {traced}",
    "jmp personality_leave",
    ".globl personality_syscall_entry",
    "personality_syscall_entry:",
    "mov gs:[{entry_rax}], rax",
    "movzx ecx, ax",
    "cmp ecx, 187",
    "jae personality_slow",
    "lea r11, [rip + personality_quick]",
    "movsxd rcx, dword ptr [r11 + rcx * 4]",
    "add rcx, r11",
    "shr rax, 16",
    "jmp rcx",
    ".globl personality_quick_start",
    "personality_quick_start:",
    "12: mov rcx, gs:[{process}]", // brk within the reserve, growing
    "cmp rdi, [rcx + {brk_now}]",
    "jb 200f",
    "cmp rdi, [rcx + {brk_max}]",
    "ja 200f",
    "mov [rcx + {brk_now}], rdi",
    "mov rcx, rax",
    "mov rax, rdi",
    "jmp rcx",
    "39: mov r11, gs:[{process}]",
    "mov rcx, rax",
    "mov eax, [r11 + {pid}]",
    "jmp rcx",
    "102: mov r11, gs:[{process}]",
    "mov rcx, rax",
    "mov eax, [r11 + {uid}]",
    "cmp eax, -1", // not known: ask
    "je 200f",
    "jmp rcx",
    "104: mov r11, gs:[{process}]",
    "mov rcx, rax",
    "mov eax, [r11 + {gid}]",
    "cmp eax, -1", // not known: ask
    "je 200f",
    "jmp rcx",
    "107: mov r11, gs:[{process}]",
    "mov rcx, rax",
    "mov eax, [r11 + {euid}]",
    "cmp eax, -1", // not known: ask
    "je 200f",
    "jmp rcx",
    "108: mov r11, gs:[{process}]",
    "mov rcx, rax",
    "mov eax, [r11 + {egid}]",
    "cmp eax, -1", // not known: ask
    "je 200f",
    "jmp rcx",
    "410: mov r11, gs:[{process}]",
    "mov r11d, [r11 + {ppid}]",
    "test r11d, r11d", // not known since the last poke: ask
    "jz 200f",
    "mov rcx, rax",
    "mov eax, r11d",
    "jmp rcx",
    "186: mov rcx, rax",
    "mov eax, gs:[{tid}]",
    "jmp rcx",
    ".globl personality_quick_end",
    "personality_quick_end:",
    "200: mov rax, gs:[{entry_rax}]",
    ".globl personality_slow",
    "personality_slow:",
    save_frame!(),
    "call {dispatch}",
    "personality_leave:",
    // The usual way out: what a function preserves is still the program's, unless the call replaced the frame.
    "mov rsp, gs:[{frame}]",
    ".globl personality_exit_window",
    "personality_exit_window:",
    "cmp dword ptr gs:[{poked}], 0",
    "jne personality_exit_work",
    "cmp qword ptr [rsp + {f_full}], 0",
    "jne personality_exit",
    "mov rbp, [rsp + {f_rbp}]",
    "mov r10, [rsp + {f_r10}]",
    "mov r9, [rsp + {f_r9}]",
    "mov r8, [rsp + {f_r8}]",
    "mov rax, [rsp + {f_rax}]",
    "mov rdx, [rsp + {f_rdx}]",
    "mov rsi, [rsp + {f_rsi}]",
    "mov rdi, [rsp + {f_rdi}]",
    "mov rcx, [rsp + {f_rip}]",
    "mov rsp, [rsp + {f_rsp}]",
    "jmp rcx",
    ".globl personality_exit",
    "personality_exit:",
    "mov rsp, gs:[{frame}]",
    "cmp dword ptr gs:[{poked}], 0",
    "jne personality_exit_work",
    "mov r15, [rsp + {f_r15}]",
    "mov r14, [rsp + {f_r14}]",
    "mov r13, [rsp + {f_r13}]",
    "mov r12, [rsp + {f_r12}]",
    "mov rbp, [rsp + {f_rbp}]",
    "mov rbx, [rsp + {f_rbx}]",
    "mov r10, [rsp + {f_r10}]",
    "mov r9, [rsp + {f_r9}]",
    "mov r8, [rsp + {f_r8}]",
    "mov rax, [rsp + {f_rax}]",
    "mov rdx, [rsp + {f_rdx}]",
    "mov rsi, [rsp + {f_rsi}]",
    "mov rdi, [rsp + {f_rdi}]",
    "cmp qword ptr [rsp + {f_full}], 0",
    "jne 2f",
    "mov rcx, [rsp + {f_rip}]",
    "mov rsp, [rsp + {f_rsp}]",
    "jmp rcx",
    "2: mov rcx, [rsp + {f_rcx}]",
    "mov r11, [rsp + {f_r11}]",
    // Not IRETQ: QEMU (seen in 7.2) reads its frame as if for the kernel, which SMAP forbids. The frame lies right below the thread area.
    "lea rsp, [rsp + {f_rflags}]",
    "popfq",
    "mov rsp, [rsp]",
    "jmp qword ptr gs:[{rip_below}]",
    ".globl personality_exit_window_end",
    "personality_exit_window_end:",
    // Signals, exceptions, restarts: with the frame on top of an empty stack.
    ".globl personality_exit_work",
    "personality_exit_work:",
    "cld", // the window may have loaded the program's flags already
    "mov rsp, gs:[{frame}]",
    "cmp qword ptr [rsp + {f_full}], 0",
    "jne 8f",
    // A call loses these two; now they are part of what a handler sees.
    "mov rax, [rsp + {f_rip}]",
    "mov [rsp + {f_rcx}], rax",
    "mov qword ptr [rsp + {f_rflags}], 0x202",
    "mov qword ptr [rsp + {f_r11}], 0x202",
    "8: mov rdi, rsp",
    "xor ebp, ebp",
    "call {exit_work}",
    "jmp personality_exit",
    // The frame could not be left (a wild rip given to sigreturn): the program's fault.
    ".globl personality_exit_fault",
    "personality_exit_fault:",
    "mov rsp, gs:[{frame}]",
    "mov rdi, rsp",
    "xor ebp, ebp",
    "call {exit_fault}",
    "jmp personality_exit",
    // A new process or thread starts here: rdi = pid from FORK, 0 for a thread.
    ".globl personality_child",
    "personality_child:",
    "cld",
    "mov rsp, gs:[{frame}]",
    "xor ebp, ebp",
    "call {child}",
    "jmp personality_exit",
    // The nucleus saved all registers; arguments are in the message words.
    ".globl personality_upcall_entry",
    "personality_upcall_entry:",
    "mov rsp, gs:[{upcall_stack}]",
    "cld",
    "mov rcx, r10",
    "xor ebp, ebp",
    "call {upcall}",
    "ud2",
    ".pushsection .rodata.personality_quick, \"a\"",
    ".balign 4",
    "personality_quick:",
    ".rept 12",
    ".long 200b - personality_quick",
    ".endr",
    ".long 12b - personality_quick",
    ".rept 26",
    ".long 200b - personality_quick",
    ".endr",
    ".long 39b - personality_quick",
    ".rept 62",
    ".long 200b - personality_quick",
    ".endr",
    ".long 102b - personality_quick",
    ".long 200b - personality_quick",
    ".long 104b - personality_quick",
    ".rept 2",
    ".long 200b - personality_quick",
    ".endr",
    ".long 107b - personality_quick",
    ".long 108b - personality_quick",
    ".long 200b - personality_quick",
    ".long 410b - personality_quick",
    ".rept 75",
    ".long 200b - personality_quick",
    ".endr",
    ".long 186b - personality_quick",
    ".popsection",
    entry_rax = const offset_of!(ThreadArea, entry_rax),
    process = const offset_of!(ThreadArea, process),
    frame = const offset_of!(ThreadArea, frame),
    poked = const offset_of!(ThreadArea, poked),
    tid = const offset_of!(ThreadArea, tid),
    upcall_stack = const offset_of!(ThreadArea, upcall_stack),
    pid = const offset_of!(Process, pid),
    ppid = const offset_of!(Process, ppid),
    uid = const offset_of!(Process, uid),
    euid = const offset_of!(Process, euid),
    gid = const offset_of!(Process, gid),
    egid = const offset_of!(Process, egid),
    brk_now = const offset_of!(Process, brk_now),
    brk_max = const offset_of!(Process, brk_max),
    f_r15 = const offset_of!(Frame, r15),
    f_r14 = const offset_of!(Frame, r14),
    f_r13 = const offset_of!(Frame, r13),
    f_r12 = const offset_of!(Frame, r12),
    f_rbp = const offset_of!(Frame, rbp),
    f_rbx = const offset_of!(Frame, rbx),
    f_r11 = const offset_of!(Frame, r11),
    f_r10 = const offset_of!(Frame, r10),
    f_r9 = const offset_of!(Frame, r9),
    f_r8 = const offset_of!(Frame, r8),
    f_rax = const offset_of!(Frame, rax),
    f_rcx = const offset_of!(Frame, rcx),
    f_rdx = const offset_of!(Frame, rdx),
    f_rsi = const offset_of!(Frame, rsi),
    f_rdi = const offset_of!(Frame, rdi),
    f_number = const offset_of!(Frame, number),
    f_full = const offset_of!(Frame, full),
    f_rip = const offset_of!(Frame, rip),
    f_rflags = const offset_of!(Frame, rflags),
    f_rsp = const offset_of!(Frame, rsp),
    rip_below = const offset_of!(Frame, rip) as i32 - size_of::<Frame>() as i32,
    dispatch = sym dispatch,
    traced = sym traced,
    exit_work = sym exit_work,
    exit_fault = sym exit_fault,
    child = sym child,
    upcall = sym super::upcall::upcall,
);

extern "C" {
    pub fn personality_syscall_entry();
    pub fn personality_upcall_entry();
    pub fn personality_traced_entry();
    fn personality_quick_end();
    fn personality_slow();
    fn personality_exit();
    fn personality_exit_window();
    fn personality_exit_window_end();
    fn personality_exit_work();
    fn personality_exit_fault();
    fn personality_child();
    fn personality_wait_check();
    fn personality_wait_syscall();
    fn personality_wait_interrupted();
    fn personality_word_check();
    fn personality_word_syscall();
    fn personality_word_interrupted();
    fn personality_in_check();
    fn personality_in_syscall();
    fn personality_in_interrupted();
    fn personality_out_check();
    fn personality_out_syscall();
    fn personality_out_interrupted();
}

/// Addresses of the labels, by subject.
pub mod label {
    /// Quick calls (and the jump to them); interrupted there a call goes the slow way.
    pub fn quick() -> (u64, u64, u64) {
        (
            super::personality_syscall_entry as *const () as u64,
            super::personality_quick_end as *const () as u64,
            super::personality_slow as *const () as u64,
        )
    }
    /// The exit window, and where to start over.
    pub fn exit() -> (u64, u64, u64) {
        (
            super::personality_exit_window as *const () as u64,
            super::personality_exit_window_end as *const () as u64,
            super::personality_exit as *const () as u64,
        )
    }
    /// From the look at `poked` up to and with the `syscall` of an interruptible wait, and its interrupted answer: all kinds.
    pub fn waits() -> [(u64, u64, u64); 4] {
        [
            (
                super::personality_wait_check as *const () as u64,
                super::personality_wait_syscall as *const () as u64,
                super::personality_wait_interrupted as *const () as u64,
            ),
            (
                super::personality_word_check as *const () as u64,
                super::personality_word_syscall as *const () as u64,
                super::personality_word_interrupted as *const () as u64,
            ),
            (
                super::personality_in_check as *const () as u64,
                super::personality_in_syscall as *const () as u64,
                super::personality_in_interrupted as *const () as u64,
            ),
            (
                super::personality_out_check as *const () as u64,
                super::personality_out_syscall as *const () as u64,
                super::personality_out_interrupted as *const () as u64,
            ),
        ]
    }
    pub fn exit_work() -> u64 {
        super::personality_exit_work as *const () as u64
    }
    pub fn exit_fault() -> u64 {
        super::personality_exit_fault as *const () as u64
    }
    /// First instruction of new processes and threads.
    pub fn child() -> u64 {
        super::personality_child as *const () as u64
    }
    pub fn upcall_entry() -> u64 {
        super::personality_upcall_entry as *const () as u64
    }
}

/// Leave the present stack and go through the exit work with the frame.
pub fn resume() -> ! {
    // SAFETY: the exit code takes its stack from the thread area and never comes back here.
    unsafe {
        core::arch::asm!("jmp {}", in(reg) label::exit_work(), options(noreturn));
    }
}

extern "C" fn dispatch(frame: &mut Frame) {
    crate::table::dispatch(frame);
}

extern "C" fn traced(frame: &mut Frame) {
    crate::trace::dispatch(frame);
}

extern "C" fn exit_work(frame: &mut Frame) {
    super::upcall::drop_registers();
    crate::signal::deliver::work(frame);
}

extern "C" fn exit_fault(frame: &mut Frame) {
    crate::signal::deliver::bad_frame(frame);
}

extern "C" fn child(told: u64) {
    crate::calls::fork::child_main(told);
}

/// Enter the program with the frame as it is.
pub fn resume_clean() -> ! {
    // SAFETY: as in `resume`.
    unsafe {
        core::arch::asm!("jmp {}", in(reg) label::exit().2, options(noreturn));
    }
}
