//! Structures of integers that programs hand over in memory, or are handed: as the bytes that they are there.
#![allow(unsafe_code)]

use crate::trace::Slot;
use cairn_abi::hasty::Step;
use cairn_abi::machine::Counters;
use cairn_abi::state::Registers;
use core::mem::{size_of, size_of_val};

/// # Safety
/// Integers without gaps, in the order of their declaration: every byte has a value, and may have any.
pub unsafe trait Plain {}

// SAFETY: as above; the sizes are those of all fields.
unsafe impl Plain for Registers {}
// SAFETY: as above.
unsafe impl Plain for Counters {}
// SAFETY: as above.
unsafe impl Plain for Step {}
// SAFETY: words.
unsafe impl Plain for Slot {}
const _: () = assert!(size_of::<Registers>() == 20 * 8 && size_of::<Counters>() == 13 * 8);
const _: () = assert!(size_of::<Step>() == 4 + 2 * 2 + 2 * 4);

pub fn bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: as the trait says.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

pub fn bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    let size = size_of_val(values);
    // SAFETY: as the trait says.
    unsafe { core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size) }
}

/// Registers, all of which are words.
pub fn words(registers: &Registers) -> &[u64; size_of::<Registers>() / 8] {
    // SAFETY: it is nothing but such words.
    unsafe { &*(&raw const *registers).cast() }
}
