//! Reads and writes of at most eight bytes, whose data goes in one word: the message without a [`super::gate::Gate`] in memory.

use super::area::ThreadArea;
use super::gate::selector;
use cairn_abi::{flag, op, Error};
use cairn_idl::fs::{INLINE, INLINE_SHIFT, POSITION};
use core::arch::naked_asm;
use core::mem::offset_of;

/// Results from here down are no server's: the gate said no, or a poke ended the wait.
const NO_ANSWER: i64 = -0x1_0000;

/// The result and the data, as C returns two words.
#[repr(C)]
struct Answer {
    result: i64,
    word: u64,
}

/// What became of a message.
pub enum Outcome {
    /// A count and the data.
    Done(u64, u64),
    /// −errno of the server's.
    Refused(i64),
    /// A poke ended the wait.
    Interrupted,
    /// The gate failed: the ordinary way will say how.
    Failed,
}

/// READ or WRITE at the position, with words as they lie in registers; an interruptible wait as in [`super::gate`].
#[unsafe(naked)]
unsafe extern "C" fn call(operation: u64, offset: u64, flags: u64, word: u64, rax: u64) -> Answer {
    naked_asm!(
        "push r12",
        "push r13",
        "mov r10, rcx",
        "mov rax, r8",
        ".globl personality_small_check",
        "personality_small_check:",
        "cmp dword ptr gs:[{poked}], 0",
        "jne personality_small_interrupted",
        ".globl personality_small_syscall",
        "personality_small_syscall:",
        "syscall",
        "test al, al",
        "jnz 3f",
        "mov rax, rdi",
        "mov rdx, r10",
        "2:",
        "pop r13",
        "pop r12",
        "ret",
        ".globl personality_small_interrupted",
        "personality_small_interrupted:",
        "mov eax, {interrupted}",
        "3:",
        "movzx eax, al",
        "neg rax",
        "add rax, {no_answer}",
        "jmp 2b",
        poked = const offset_of!(ThreadArea, poked),
        interrupted = const Error::Interrupted as u8,
        no_answer = const NO_ANSWER,
    )
}

/// Send a READ or WRITE of `length` bytes (1 to 8) through the portal in `slot`.
#[inline(always)]
pub fn exchange(slot: u32, operation: u64, length: u64, word: u64) -> Outcome {
    const INTERRUPTED: i64 = NO_ANSWER - Error::Interrupted as i64;
    let flags = INLINE | length << INLINE_SHIFT;
    let rax = selector(slot, op::CALL, flag::INTERRUPTIBLE);
    // SAFETY: a call to a channel without parts touches no memory of the caller.
    let answer = unsafe { call(operation, POSITION, flags, word, rax) };
    match answer.result {
        0.. => Outcome::Done(answer.result as u64, answer.word),
        INTERRUPTED => Outcome::Interrupted,
        ..=NO_ANSWER => Outcome::Failed,
        number => Outcome::Refused(number),
    }
}
