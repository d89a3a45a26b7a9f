//! Reads and writes on the direct way: the message goes from registers to registers, without a [`super::gate::Gate`] in memory. Data of at most eight bytes goes in a word
//! ([`exchange`]), other data in a part ([`receive`], [`send`]).

use super::area::ThreadArea;
use super::gate::selector;
use super::user::UserRange;
use cairn_abi::{flag, op, Error};
use cairn_idl::fs::{INLINE, INLINE_SHIFT, POSITION, READ, WRITE};
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
    /// The server died with the request, which had this token.
    Died(u64),
    /// The gate failed: the ordinary way will say how.
    Failed,
}

impl Answer {
    #[inline(always)]
    fn outcome(self) -> Outcome {
        const INTERRUPTED: i64 = NO_ANSWER - Error::Interrupted as i64;
        const DIED: i64 = NO_ANSWER - Error::Dead as i64;
        match self.result {
            0.. => Outcome::Done(self.result as u64, self.word),
            INTERRUPTED => Outcome::Interrupted,
            DIED => Outcome::Died(self.word),
            ..=NO_ANSWER => Outcome::Failed,
            number => Outcome::Refused(number),
        }
    }
}

/// A naked function that makes an interruptible call as in [`super::gate`]: `$before` puts the arguments where they belong and saves what it loses, `$after` gives that back.
/// The labels are `personality_$name_check`, `_syscall` and `_interrupted`.
macro_rules! call_body {
    ($name:literal, $before:expr, $after:expr) => {
        naked_asm!(
            $before,
            concat!(".globl personality_", $name, "_check"),
            concat!("personality_", $name, "_check:"),
            "cmp dword ptr gs:[{poked}], 0",
            concat!("jne personality_", $name, "_interrupted"),
            concat!(".globl personality_", $name, "_syscall"),
            concat!("personality_", $name, "_syscall:"),
            "syscall",
            "test al, al",
            "jnz 3f",
            "mov rax, rdi",
            "mov rdx, r10",
            "2:",
            $after,
            "ret",
            concat!(".globl personality_", $name, "_interrupted"),
            concat!("personality_", $name, "_interrupted:"),
            "mov eax, {interrupted}",
            "3:",
            // Of one that its server died with w0 is the token.
            "mov rdx, rdi",
            "movzx eax, al",
            "neg rax",
            "add rax, {no_answer}",
            "jmp 2b",
            poked = const offset_of!(ThreadArea, poked),
            interrupted = const Error::Interrupted as u8,
            no_answer = const NO_ANSWER,
        )
    };
}

/// A call with a part uses all registers that a function must give back.
macro_rules! save {
    () => {
        "push rbx
         push rbp
         push r12
         push r13
         push r14
         push r15
         "
    };
}
macro_rules! restore {
    () => {
        "pop r15
         pop r14
         pop r13
         pop r12
         pop rbp
         pop rbx"
    };
}

/// Operation, offset, flags and one word of data: READ or WRITE without a part.
#[unsafe(naked)]
unsafe extern "C" fn call_word(
    operation: u64,
    offset: u64,
    flags: u64,
    word: u64,
    selector: u64,
) -> Answer {
    call_body!(
        "word",
        "push r12
         push r13
         mov r10, rcx
         mov rax, r8",
        "pop r13
         pop r12"
    )
}

/// Operation, offset, flags and an in part: READ.
#[unsafe(naked)]
unsafe extern "C" fn call_in(
    operation: u64,
    offset: u64,
    flags: u64,
    base: u64,
    len: u64,
    selector: u64,
) -> Answer {
    call_body!(
        "in",
        concat!(
            save!(),
            "mov rbx, rcx
         mov rbp, r8
         xor r14d, r14d
         xor r15d, r15d
         mov rax, r9"
        ),
        restore!()
    )
}

/// Operation, offset, flags and an out part: WRITE.
#[unsafe(naked)]
unsafe extern "C" fn call_out(
    operation: u64,
    offset: u64,
    flags: u64,
    base: u64,
    len: u64,
    selector: u64,
) -> Answer {
    call_body!(
        "out",
        concat!(
            save!(),
            "mov r14, rcx
         mov r15, r8
         xor ebx, ebx
         xor ebp, ebp
         mov rax, r9"
        ),
        restore!()
    )
}

/// READ or WRITE of `length` bytes (1 to 8) at the position, through the portal in `slot`; the data goes in a word.
#[inline(always)]
pub fn exchange(slot: u32, operation: u64, length: u64, word: u64) -> Outcome {
    let flags = INLINE | length << INLINE_SHIFT;
    let selector = selector(slot, op::CALL, flag::INTERRUPTIBLE);
    // SAFETY: a call to a channel without parts touches no memory of the caller.
    unsafe { call_word(operation, POSITION, flags, word, selector) }.outcome()
}

/// READ at `offset` (or [`POSITION`]) into memory of the program.
#[inline(always)]
pub fn receive(slot: u32, offset: u64, range: UserRange) -> Outcome {
    let selector = selector(slot, op::CALL, flag::INTERRUPTIBLE | flag::PARTS);
    // SAFETY: the part is the program's own memory.
    unsafe { call_in(READ, offset, 0, range.base(), range.len(), selector) }.outcome()
}

/// WRITE at `offset` (or [`POSITION`]) from memory of the program.
#[inline(always)]
pub fn send(slot: u32, offset: u64, range: UserRange) -> Outcome {
    let selector = selector(slot, op::CALL, flag::INTERRUPTIBLE | flag::PARTS);
    // SAFETY: the part is the program's own memory.
    unsafe { call_out(WRITE, offset, 0, range.base(), range.len(), selector) }.outcome()
}
