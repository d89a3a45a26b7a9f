//! The gate: one `syscall` instruction with its registers in a structure, for native components (through `cairn-rt`) and for the Linux personality.
#![no_std]

use cairn_abi::Error;

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

    /// Traverse a portal with all registers.
    ///
    /// # Safety
    /// What the operation does to memory named in the registers must be sound: parts must be memory that the caller may lend for the length of the call.
    pub unsafe fn traverse(&mut self) -> Result<(), Error> {
        // SAFETY: passed on to the caller.
        unsafe { traverse(self) };
        self.result()
    }
}

/// Index, operation and flags as `rax` wants them.
pub const fn selector(slot: u32, op: u8, flags: u64) -> u64 {
    slot as u64 | (op as u64) << 32 | flags
}

/// The body of a naked `extern "C" fn(*mut Gate)` that traverses a portal with all registers. `$before` and `$after` are put around the `syscall`; they may use
/// flags, `rcx` and `r11`, and further operands. All registers but those and the stack's are taken.
#[macro_export]
macro_rules! traverse_body {
    ($before:literal, $after:literal, $($operands:tt)*) => {
        ::core::arch::naked_asm!(
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
            $before,
            "syscall",
            $after,
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
            $($operands)*
        )
    };
}

#[unsafe(naked)]
unsafe extern "C" fn traverse(gate: *mut Gate) {
    traverse_body!("", "",)
}

/// Traverse a portal with words only (no parts). Returns the words of the answer.
///
/// # Safety
/// As for [`Gate::traverse`]: words may be addresses to the operation.
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
