//! The prefix table that `proc` publishes read-only in every Linux process. Readers copy it once per version; see `cairn_idl::fs::PrefixTable`.

use crate::prefix::Prefixes;
use crate::space::{self, Mount};
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PREFIX_TABLE};
use cairn_idl::fs::{Prefix, PrefixTable, PREFIX_SERIAL_SHIFT};
use cairn_idl::proc::{SPACE_VERSIONS, SPACE_VERSION_COUNT};
use core::mem::{offset_of, size_of};
use core::ptr::read_volatile;
use core::sync::atomic::{fence, Ordering};

const EMPTY: Prefix = Prefix {
    name: [0; 64],
    len: 0,
    used: 0,
    fstype: [0; 16],
};

// All of the table is read by the word.
const _: () = assert!(size_of::<Prefix>().is_multiple_of(size_of::<u64>()));
const _: () = assert!(size_of::<PrefixTable>().is_multiple_of(size_of::<u64>()));

/// The word of an entry with its length and whether it is in use. The name is before it, the type behind.
const NUMBERS: usize = offset_of!(Prefix, len) / size_of::<u64>();
const _: () = assert!(offset_of!(Prefix, name) == 0 && offset_of!(Prefix, used) == 8 * NUMBERS + 4);
const _: () = assert!(offset_of!(Prefix, fstype) == 8 * NUMBERS + 8);

/// The version of the table now (odd while it changes).
pub fn version() -> u64 {
    // SAFETY: the page is mapped in every Linux process; the field is aligned. `proc` may change it at any time, hence volatile.
    unsafe { read_volatile(&raw const (*(PREFIX_TABLE as *const PrefixTable)).version) }
}

/// What is made of a consistent copy: begun with its version and how many entries there are, then given the entries in use by their numbers.
fn consistent<T>(begin: impl Fn(u64, usize) -> T, add: impl Fn(&mut T, u32, &Prefix)) -> T {
    loop {
        let before = version();
        fence(Ordering::Acquire);
        let table = PREFIX_TABLE as *const PrefixTable;
        let first = (PREFIX_TABLE + size_of::<PrefixTable>() as u64) as *const Prefix;
        // SAFETY: as in `version`.
        let count = unsafe { read_volatile(&raw const (*table).count) };
        let count = count.min(linux_slot::MOUNTS_MAX);
        let mut made = begin(before, count as usize);
        // Of a name only what there is of it; the rest is another entry's.
        let mut entry = EMPTY;
        for number in 0..count {
            let words = first.wrapping_add(number as usize).cast::<u64>();
            // SAFETY: the entries follow the header, each of whole words; a torn one is thrown away below. (The struct itself would be read by the byte.)
            let word = |at: usize| unsafe { read_volatile(words.add(at)) };
            (entry.len, entry.used) = (word(NUMBERS) as u32, (word(NUMBERS) >> 32) as u32);
            if entry.used == 0 {
                continue;
            }
            let names = entry.name.as_chunks_mut().0.iter_mut();
            for (at, bytes) in names.enumerate().take((entry.len as usize).div_ceil(8)) {
                *bytes = word(at).to_ne_bytes();
            }
            for (at, bytes) in entry.fstype.as_chunks_mut().0.iter_mut().enumerate() {
                *bytes = word(NUMBERS + 1 + at).to_ne_bytes();
            }
            add(&mut made, number, &entry);
        }
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && version() == before {
            return made;
        }
        super::gate::yield_core();
    }
}

/// A consistent copy.
pub fn read() -> Prefixes {
    consistent(Prefixes::new, |prefixes, number, entry| {
        let serial = entry.used >> PREFIX_SERIAL_SHIFT;
        prefixes.add(number, serial, space::name_of(entry));
    })
}

/// What is mounted in the first name space; the numbers are the entries'.
pub fn mounts() -> Vec<Mount> {
    consistent(
        |_, _| Vec::new(),
        |mounts, number, entry| {
            // (Others are schemes.)
            if matches!(space::name_of(entry).first(), None | Some(b'/')) {
                mounts.push(Mount::of(number, entry));
            }
        },
    )
}

/// What changes when something is mounted in this mount name space.
pub fn space_version(id: u64) -> u64 {
    let word = SPACE_VERSIONS + id % SPACE_VERSION_COUNT * 8;
    // SAFETY: as in `version`; an aligned word of the same page.
    unsafe { read_volatile(word as *const u64) }
}

/// The host name, NUL-padded.
pub fn hostname() -> [u8; 64] {
    // SAFETY: as in `version`; any bytes are a name.
    unsafe { read_volatile(&raw const (*(PREFIX_TABLE as *const PrefixTable)).hostname) }
}

/// Whether the first UTS name space has a domain name of its own.
pub fn has_domain_name() -> bool {
    // SAFETY: as in `version`; an aligned word of the same page.
    unsafe { read_volatile(&raw const (*(PREFIX_TABLE as *const PrefixTable)).domain_name) != 0 }
}

/// How often a thread's real-time priority was changed, whosever.
pub fn policy_changes() -> u64 {
    // SAFETY: as in `version`; an aligned word of the same page.
    unsafe { read_volatile(cairn_idl::proc::POLICY_CHANGES as *const u64) }
}

/// How many wakes of shared futexes there have been.
pub fn futex_wakes() -> u64 {
    // SAFETY: as in `version`; an aligned word of the same page.
    unsafe { read_volatile(cairn_idl::proc::FUTEX_WAKES as *const u64) }
}
