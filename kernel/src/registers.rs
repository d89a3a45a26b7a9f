//! A thread's registers as what they are for programs and for the log: words, in the order of their declaration.
#![allow(unsafe_code)]

use cairn_abi::state::Registers;

const BYTES: usize = core::mem::size_of::<Registers>();

pub fn words(registers: &Registers) -> &[u64; BYTES / 8] {
    // SAFETY: it is nothing but such words.
    unsafe { &*(&raw const *registers).cast() }
}

pub fn bytes(registers: &Registers) -> &[u8; BYTES] {
    // SAFETY: as above, so every byte has a value.
    unsafe { &*(&raw const *registers).cast() }
}

pub fn bytes_mut(registers: &mut Registers) -> &mut [u8; BYTES] {
    // SAFETY: as above, and words can have any value.
    unsafe { &mut *(&raw mut *registers).cast() }
}
