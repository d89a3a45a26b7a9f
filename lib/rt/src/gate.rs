//! The gate ([`cairn_gate`]), and two ways through it for a server's loop, whose messages are not copied about: [`send`] and [`exchange`].

use crate::channel::Received;
use core::mem::offset_of;

pub use cairn_gate::{selector, traverse_words, Gate};

/// rbx and rbp from rsi and rdx, the words from where rcx leads, and through the gate.
macro_rules! traverse {
    () => {
        "mov rbx, rsi
         mov rbp, rdx
         mov rdi, [rcx]
         mov rsi, [rcx + 8]
         mov rdx, [rcx + 16]
         mov r10, [rcx + 24]
         mov r8, [rcx + 32]
         mov r9, [rcx + 40]
         mov r12, [rcx + 48]
         mov r13, [rcx + 56]
         syscall"
    };
}

/// Traverse with words, two words for `rbx` and `rbp`, and data, or a vector of parts, that may be read (a reply). Returns `rax`; what else is in the answer is lost.
///
/// # Safety
/// As for [`Gate::traverse`]: words may be addresses to the operation.
#[inline(always)]
pub unsafe fn send<T>(selector: u64, words: &[u64; 8], rbx: u64, rbp: u64, data: &[T]) -> u64 {
    let mut rax = selector;
    // SAFETY: rbx and rbp, which no operand can name, are put back from the stack; the caller vouches for addresses among the words.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "push rbp",
            traverse!(),
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
/// As for [`Gate::traverse`]: words may be addresses to the operation. `words` must be readable; it may be a part of `into`.
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
            traverse!(),
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
