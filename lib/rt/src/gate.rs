//! The gate: one `syscall` instruction with its registers in a structure. Everything else in this crate is built on the functions here:
//! [`traverse`] for whatever there is, [`traverse_words`] without parts, [`send`] and [`exchange`] for a server's loop, whose messages are not copied about.

use crate::channel::Received;
use cairn_abi::Error;
use core::mem::offset_of;

/// All registers that take part in a traversal (see the head of `cairn_abi`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Gate {
    pub rax: u64,
    pub words: [u64; 8],
    pub rbx: u64,
    pub rbp: u64,
    pub r14: u64,
    pub r15: u64,
}

impl Gate {
    /// The error in `rax`.
    pub fn result(&self) -> Result<(), Error> {
        match Error::from_code(self.rax as u8) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}

/// Index, operation and flags as `rax` wants them.
pub const fn selector(slot: u32, op: u8, flags: u64) -> u64 {
    slot as u64 | (op as u64) << 32 | flags
}

/// Traverse a portal with all registers.
///
/// # Safety
/// What the operation does to memory named in the registers must be sound: parts must be memory that the caller may lend for the length of the call.
#[unsafe(naked)]
pub unsafe extern "C" fn traverse(gate: *mut Gate) {
    core::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdi",
        "mov rax, [rdi]",
        "mov rsi, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "mov r10, [rdi + 32]",
        "mov r8, [rdi + 40]",
        "mov r9, [rdi + 48]",
        "mov r12, [rdi + 56]",
        "mov r13, [rdi + 64]",
        "mov rbx, [rdi + 72]",
        "mov rbp, [rdi + 80]",
        "mov r14, [rdi + 88]",
        "mov r15, [rdi + 96]",
        "mov rdi, [rdi + 8]",
        "syscall",
        "pop rcx",
        "mov [rcx], rax",
        "mov [rcx + 8], rdi",
        "mov [rcx + 16], rsi",
        "mov [rcx + 24], rdx",
        "mov [rcx + 32], r10",
        "mov [rcx + 40], r8",
        "mov [rcx + 48], r9",
        "mov [rcx + 56], r12",
        "mov [rcx + 64], r13",
        "mov [rcx + 72], rbx",
        "mov [rcx + 80], rbp",
        "mov [rcx + 88], r14",
        "mov [rcx + 96], r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Traverse a portal with words only (no parts). Returns the words of the answer.
///
/// # Safety
/// As for [`traverse`]: words may be addresses to the operation.
#[inline(always)]
pub unsafe fn traverse_words(selector: u64, w: [u64; 8]) -> (u64, [u64; 8]) {
    let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5, mut w6, mut w7] = w;
    let mut rax = selector;
    // SAFETY: the gate changes only the registers named here; the caller vouches for addresses among the words.
    unsafe {
        core::arch::asm!(
            "syscall",
            inout("rax") rax,
            inout("rdi") w0,
            inout("rsi") w1,
            inout("rdx") w2,
            inout("r10") w3,
            inout("r8") w4,
            inout("r9") w5,
            inout("r12") w6,
            inout("r13") w7,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    (rax, [w0, w1, w2, w3, w4, w5, w6, w7])
}

/// Traverse with words, two words for `rbx` and `rbp`, and data that may be read (a reply). Returns `rax`; what else is in the answer is lost.
///
/// # Safety
/// As for [`traverse`]: words may be addresses to the operation.
#[inline(always)]
pub unsafe fn send(selector: u64, words: &[u64; 8], rbx: u64, rbp: u64, data: &[u8]) -> u64 {
    let mut rax = selector;
    // SAFETY: rbx and rbp, which no operand can name, are put back from the stack; the caller vouches for addresses among the words.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "push rbp",
            "mov rbx, rsi",
            "mov rbp, rdx",
            "mov rdi, [rcx]",
            "mov rsi, [rcx + 8]",
            "mov rdx, [rcx + 16]",
            "mov r10, [rcx + 24]",
            "mov r8, [rcx + 32]",
            "mov r9, [rcx + 40]",
            "mov r12, [rcx + 48]",
            "mov r13, [rcx + 56]",
            "syscall",
            "pop rbp",
            "pop rbx",
            inout("rax") rax,
            inout("rcx") words.as_ptr() => _,
            inout("rsi") rbx => _,
            inout("rdx") rbp => _,
            inout("r14") data.as_ptr() => _,
            inout("r15") data.len() => _,
            out("rdi") _,
            out("r8") _,
            out("r9") _,
            out("r10") _,
            out("r11") _,
            out("r12") _,
            out("r13") _,
        );
    }
    rax
}

/// The same, and the words, `rbx`, `rbp` and `r14` of the answer go where a receive's belong. Returns `rax` and `r15`.
///
/// # Safety
/// As for [`traverse`]: words may be addresses to the operation. `words` must be readable; it may be a part of `into`.
#[inline(always)]
pub unsafe fn exchange(
    selector: u64,
    words: *const [u64; 8],
    rbx: u64,
    rbp: u64,
    data: &[u8],
    into: *mut Received,
) -> (u64, u64) {
    let mut rax = selector;
    let mut r15 = data.len() as u64;
    // SAFETY: as in `send`; the caller vouches for `words` and `into`, and loads and stores stay within them.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "push rbp",
            "push rdi",
            "mov rbx, rsi",
            "mov rbp, rdx",
            "mov rdi, [rcx]",
            "mov rsi, [rcx + 8]",
            "mov rdx, [rcx + 16]",
            "mov r10, [rcx + 24]",
            "mov r8, [rcx + 32]",
            "mov r9, [rcx + 40]",
            "mov r12, [rcx + 48]",
            "mov r13, [rcx + 56]",
            "syscall",
            "pop rcx",
            "mov [rcx + {words}], rdi",
            "mov [rcx + {words} + 8], rsi",
            "mov [rcx + {words} + 16], rdx",
            "mov [rcx + {words} + 24], r10",
            "mov [rcx + {words} + 32], r8",
            "mov [rcx + {words} + 40], r9",
            "mov [rcx + {words} + 48], r12",
            "mov [rcx + {words} + 56], r13",
            "mov [rcx + {badge}], rbx",
            "mov [rcx + {token}], rbp",
            "mov [rcx + {label}], r14",
            "pop rbp",
            "pop rbx",
            words = const offset_of!(Received, words),
            badge = const offset_of!(Received, badge),
            token = const offset_of!(Received, token),
            label = const offset_of!(Received, label),
            inout("rax") rax,
            inout("rcx") words => _,
            inout("rsi") rbx => _,
            inout("rdx") rbp => _,
            inout("rdi") into => _,
            inout("r14") data.as_ptr() => _,
            inout("r15") r15,
            out("r8") _,
            out("r9") _,
            out("r10") _,
            out("r11") _,
            out("r12") _,
            out("r13") _,
        );
    }
    (rax, r15)
}
