//! The copy from a file's frames ([`crate::frames`]) to the program, in the same way as [`super::user`]: a fault on either side ends it. What the server's page says is read once and believed only as far as the window goes.

use super::user::UserRange;
use cairn_abi::layout::PAGE;
use cairn_idl::fs::{FRAMES_SEQUENCE, FRAMES_SIZE, FRAMES_TOLD};
use core::arch::global_asm;

global_asm!(
    // rdi target, rsi the server's page, rdx offset, rcx length, r8 bytes that are mapped behind the page → rax count; −1: the server must be asked; −2: it is over.
    ".globl personality_frames_copy",
    "personality_frames_copy:",
    "mov r9, [rsi + 8 * {sequence}]",
    "cmp qword ptr [rsi + 8 * {told}], 0",
    "jne 3f",
    "test r9b, 1",
    "jnz 3f",
    "test r9, r9",
    "jz personality_frames_fault",
    "mov r10, [rsi + 8 * {size}]",
    "sub r10, rdx",
    "jbe 2f",
    "cmp rcx, r10",
    "cmova rcx, r10",
    "lea r11, [rdx + rcx]",
    "cmp r11, r8",
    "ja 3f",
    "mov r11, rsi",
    "lea rsi, [rsi + rdx + {page}]",
    "mov eax, ecx",
    "shr ecx, 3",
    "rep movsq",
    "mov ecx, eax",
    "and ecx, 7",
    "rep movsb",
    // Loads are not executed before earlier ones: what was copied is older than this.
    "cmp r9, [r11 + 8 * {sequence}]",
    "jne 3f",
    "ret",
    // At or behind the end.
    "2: xor eax, eax",
    "cmp r9, [rsi + 8 * {sequence}]",
    "jne 3f",
    ".globl personality_frames_copy_end",
    "personality_frames_copy_end:",
    "ret",
    "3: mov rax, -1",
    "ret",
    ".globl personality_frames_fault",
    "personality_frames_fault:",
    "mov rax, -2",
    "ret",
    sequence = const FRAMES_SEQUENCE,
    size = const FRAMES_SIZE,
    told = const FRAMES_TOLD,
    page = const PAGE,
);

extern "C" {
    fn personality_frames_copy(
        target: u64,
        base: u64,
        offset: u64,
        length: u64,
        covered: u64,
    ) -> i64;
}

/// What became of a copy.
pub enum Copied {
    /// So many bytes; 0 is the end of the file.
    Count(u64),
    /// The server must be asked.
    Ask,
    /// There was a fault, or the server says that it is over.
    Over,
}

/// Copy from `offset` of the file whose pages lie behind the server's page at `base`, of which `covered` bytes are mapped.
#[inline(always)]
pub fn copy(target: UserRange, base: u64, offset: u64, covered: u64) -> Copied {
    // SAFETY: the target is the program's own memory. The source is within the window that `base` is the beginning of, whatever the page says (the end of the copy is compared with `covered`); what is not there is a fault, which ends the copy.
    match unsafe { personality_frames_copy(target.base(), base, offset, target.len(), covered) } {
        -1 => Copied::Ask,
        count @ 0.. => Copied::Count(count as u64),
        _ => Copied::Over,
    }
}
