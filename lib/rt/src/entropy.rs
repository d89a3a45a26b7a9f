//! Unpredictable words from the processor, for seeding generators.

use core::arch::x86_64::{__cpuid, _rdtsc};

/// A word of the processor's random generator, if it has one that works.
pub fn hardware() -> Option<u64> {
    if __cpuid(1).ecx & 1 << 30 == 0 {
        return None;
    }
    // The manual: a failure is temporary, and ten in a row mean that the generator is broken.
    for _ in 0..10 {
        let word: u64;
        let valid: u8;
        // SAFETY: the processor has the instruction; it writes the two registers and the flags only.
        unsafe {
            core::arch::asm!("rdrand {}", "setc {}", out(reg) word, out(reg_byte) valid, options(nomem, nostack));
        }
        if valid != 0 {
            return Some(word);
        }
    }
    None
}

/// What is hard to guess of this moment, which is as much as the machine has: 16 bytes to be mixed into a generator.
pub fn of_moment(time: u64) -> [u8; 16] {
    let cycles = cycles() ^ time.rotate_left(32);
    // Without a generator in the processor what is left are the moments when somebody asks.
    let hardware = hardware().unwrap_or_else(|| cycles.rotate_left(17));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&hardware.to_le_bytes());
    bytes[8..].copy_from_slice(&cycles.to_le_bytes());
    bytes
}

/// The time-stamp counter: its low bits when something happens are hard to guess from outside.
pub fn cycles() -> u64 {
    // SAFETY: reading the time-stamp counter has no effect on memory.
    unsafe { _rdtsc() }
}
