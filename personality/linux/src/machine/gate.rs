//! The gate as the personality uses it. Two ways through: [`Gate::traverse`], and [`traverse_interruptible`], which looks at the thread's poke mark right before
//! `syscall`; an upcall between look and `syscall` moves the thread to the interrupted answer (see [`super::upcall`]), so that no signal is slept through.

use super::area::ThreadArea;
use crate::errno::{Errno, EBADF, EFAULT, EIO, EMFILE, ENOMEM};
use cairn_abi::service::{current, log, AUTO};
use cairn_abi::{flag, layout::linux_slot, op, Error};
use cairn_gate::{traverse_body, traverse_words};
use core::mem::offset_of;

pub use cairn_gate::{selector, Gate};

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
         7:",
        poked = const offset_of!(ThreadArea, poked),
        interrupted = const Error::Interrupted as u8,
    )
}

/// Go through the gate, ended by a poke; `rax` must carry [`flag::INTERRUPTIBLE`].
///
/// # Safety
/// As for [`Gate::traverse`].
pub unsafe fn traverse_interruptible(gate: &mut Gate) -> Result<(), Error> {
    // SAFETY: passed on to the caller.
    unsafe { traverse_checked(gate) };
    gate.result()
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
    unsafe { traverse_interruptible(&mut gate) }.map(|()| gate.words)
}

pub fn yield_core() {
    let _ = service(linux_slot::CURRENT, current::YIELD, &[]);
}

/// Sleep for so many ns.
pub fn nap(ns: u64) {
    let at = crate::time::now() + ns;
    let _ = service(linux_slot::CURRENT, current::SLEEP, &[at]);
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

/// A thread of this process (0: this one): the core that it runs on, those that it may run on, and those that there are. With a `mask` it may run on these from now on.
pub fn affinity(thread: u32, mask: u64) -> Result<[u64; 3], Error> {
    let words = service(
        linux_slot::CURRENT,
        current::AFFINITY,
        &[thread as u64, mask],
    )?;
    Ok([words[0], words[1], words[2]])
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
