//! The atomics of what several cores share without the nucleus lock ([`crate::lock`], [`crate::requests`]). `models/cores` compiles those files with others in this place, which
//! try everything that the order of these operations allows.

pub use core::hint::spin_loop as pause;
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Write a word that others exchange, with what was done before.
#[inline]
pub fn write_exchanged(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
}
