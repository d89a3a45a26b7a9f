//! The gate as the personality uses it. Two ways through: [`Gate::traverse`], and [`Gate::traverse_interruptible`], which looks at the thread's poke mark right before
//! `syscall`; an upcall between look and `syscall` moves the thread to the interrupted answer (see [`super::upcall`]), so that no signal is slept through.

use super::area::ThreadArea;
use crate::errno::{Errno, EBADF, EFAULT, EIO, EMFILE, ENOMEM};
use cairn_abi::service::{current, log, AUTO};
use cairn_abi::{flag, layout::linux_slot, op, Error};
use core::arch::{asm, naked_asm};
use core::mem::offset_of;

/// Registers of a traversal (head of `cairn_abi`).
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

/// Index, operation and flags as `rax` wants them.
pub const fn selector(slot: u32, operation: u8, flags: u64) -> u64 {
    slot as u64 | (operation as u64) << 32 | flags
}

macro_rules! traverse_body {
    ($check:literal, $after:literal) => {
        naked_asm!(
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
            $check,
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
            poked = const offset_of!(ThreadArea, poked),
            interrupted = const Error::Interrupted as u8,
        )
    };
}

#[unsafe(naked)]
unsafe extern "C" fn traverse_plain(gate: *mut Gate) {
    traverse_body!("/* {poked} {interrupted} */", "")
}

#[unsafe(naked)]
unsafe extern "C" fn traverse_checked(gate: *mut Gate) {
    traverse_body!(
        ".globl personality_wait_check
         personality_wait_check:
         cmp dword ptr gs:[{poked}], 0
         jne personality_wait_interrupted
         .globl personality_wait_syscall
         personality_wait_syscall:",
        "jmp 7f
         .globl personality_wait_interrupted
         personality_wait_interrupted:
         mov eax, {interrupted}
         7:"
    )
}

impl Gate {
    pub fn result(&self) -> Result<(), Error> {
        match Error::from_code(self.rax as u8) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Go through the gate.
    ///
    /// # Safety
    /// Addresses among the registers must be memory that may be lent for the length of the traversal.
    pub unsafe fn traverse(&mut self) -> Result<(), Error> {
        // SAFETY: passed on to the caller.
        unsafe { traverse_plain(self) };
        self.result()
    }

    /// The same, ended by a poke; `rax` must carry [`flag::INTERRUPTIBLE`].
    ///
    /// # Safety
    /// As for [`Gate::traverse`].
    pub unsafe fn traverse_interruptible(&mut self) -> Result<(), Error> {
        // SAFETY: passed on to the caller.
        unsafe { traverse_checked(self) };
        self.result()
    }
}

/// Go through the gate with words only, straight from registers to registers.
///
/// # Safety
/// As for [`Gate::traverse`].
#[inline(always)]
unsafe fn traverse_words(selector: u64, words: [u64; 8]) -> (u64, [u64; 8]) {
    let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5, mut w6, mut w7] = words;
    let mut rax = selector;
    // SAFETY: the gate changes only the registers named here; the caller vouches for addresses among the words.
    unsafe {
        asm!(
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

/// An operation of a nucleus service whose words are no addresses.
#[inline]
pub fn service(slot: u32, operation: u8, words: &[u64]) -> Result<[u64; 8], Error> {
    let mut all = [0; 8];
    all[..words.len()].copy_from_slice(words);
    // SAFETY: by this function's contract no word is an address.
    let (rax, words) = unsafe { traverse_words(selector(slot, operation, 0), all) };
    match Error::from_code(rax as u8) {
        None => Ok(words),
        Some(error) => Err(error),
    }
}

/// The same, ended by a poke.
pub fn service_interruptible(slot: u32, operation: u8, words: &[u64]) -> Result<[u64; 8], Error> {
    let mut gate = Gate {
        rax: selector(slot, operation, flag::INTERRUPTIBLE),
        ..Gate::default()
    };
    gate.words[..words.len()].copy_from_slice(words);
    // SAFETY: by this function's contract no word is an address.
    unsafe { gate.traverse_interruptible() }.map(|()| gate.words)
}

pub fn yield_core() {
    let _ = service(linux_slot::CURRENT, current::YIELD, &[]);
}

pub fn close(slot: u32) {
    let _ = service(linux_slot::CURRENT, current::PORTAL_CLOSE, &[slot as u64]);
}

/// A second slot for the same portal: `target` or any.
pub fn copy_portal(slot: u32, target: Option<u32>) -> Result<u32, Error> {
    let target = target.map_or(AUTO, u64::from);
    let mask = cairn_abi::rights::ALL as u64;
    let words = service(
        linux_slot::CURRENT,
        current::PORTAL_COPY,
        &[slot as u64, target, mask],
    )?;
    Ok(words[0] as u32)
}

pub fn notify(slot: u32, value: u64) {
    let _ = service(slot, op::NOTIFY, &[value]);
}

/// Arm the deadline of the next blocking operation (absolute ns).
pub fn deadline(at: u64) {
    let _ = service(linux_slot::CURRENT, current::DEADLINE, &[at.max(1)]);
}

/// This thread's nucleus id.
pub fn thread_id() -> u32 {
    service(linux_slot::CURRENT, current::IDENTITY, &[]).map_or(0, |w| w[0] as u32)
}

/// End the thread without `proc` (when there is nothing else left to try).
pub fn exit_thread(value: u64) -> ! {
    loop {
        let _ = service(linux_slot::CURRENT, current::EXIT, &[value]);
    }
}

/// A line for the nucleus log; cut at 1,024 bytes.
pub fn log_line(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(1024)];
    let mut gate = Gate {
        rax: selector(linux_slot::LOG, log::WRITE, 0),
        ..Gate::default()
    };
    gate.words[0] = bytes.as_ptr() as u64;
    gate.words[1] = bytes.len() as u64;
    // SAFETY: the nucleus reads the borrowed bytes during the traversal only.
    let _ = unsafe { gate.traverse() };
}

/// What a failed traversal means to a Linux program.
pub fn errno_of(error: Error) -> Errno {
    match error {
        Error::BadAddress => EFAULT,
        Error::BadPortal => EBADF,
        Error::NoMemory | Error::NoTable => ENOMEM,
        Error::NoSlot => EMFILE,
        _ => EIO,
    }
}
