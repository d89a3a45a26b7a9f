//! The prefix table that `proc` publishes read-only in every Linux process. Readers copy it once per version; see `cairn_idl::fs::PrefixTable`.

use crate::prefix::Prefixes;
use crate::space::Mount;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PREFIX_TABLE};
use cairn_idl::fs::{Prefix, PrefixTable, PREFIX_SERIAL_SHIFT};
use cairn_idl::proc::{SPACE_VERSIONS, SPACE_VERSION_COUNT};
use core::mem::size_of;
use core::ptr::read_volatile;
use core::sync::atomic::{fence, Ordering};

/// The version of the table now (odd while it changes).
pub fn version() -> u64 {
    // SAFETY: the page is mapped in every Linux process; the field is aligned. `proc` may change it at any time, hence volatile.
    unsafe { read_volatile(&raw const (*(PREFIX_TABLE as *const PrefixTable)).version) }
}

/// A consistent copy.
pub fn read() -> Prefixes {
    loop {
        let before = version();
        fence(Ordering::Acquire);
        let table = PREFIX_TABLE as *const PrefixTable;
        let first = (PREFIX_TABLE + size_of::<PrefixTable>() as u64) as *const Prefix;
        // SAFETY: as in `version`.
        let count = unsafe { read_volatile(&raw const (*table).count) };
        let mut prefixes = Prefixes::new(before);
        for i in 0..count.min(linux_slot::MOUNTS_MAX) {
            // SAFETY: the entries follow the header; a torn one is thrown away below. All its bytes are integers.
            let entry = unsafe { read_volatile(first.add(i as usize)) };
            if entry.used != 0 {
                let len = (entry.len as usize).min(entry.name.len());
                let serial = entry.used >> PREFIX_SERIAL_SHIFT;
                prefixes.add(i, serial, &entry.name[..len]);
            }
        }
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && version() == before {
            return prefixes;
        }
        super::gate::yield_core();
    }
}

/// What is mounted in the first name space; the numbers are the entries'.
pub fn mounts() -> Vec<Mount> {
    loop {
        let before = version();
        fence(Ordering::Acquire);
        let table = PREFIX_TABLE as *const PrefixTable;
        let first = (PREFIX_TABLE + size_of::<PrefixTable>() as u64) as *const Prefix;
        // SAFETY: as in `version`.
        let count = unsafe { read_volatile(&raw const (*table).count) };
        let mut mounts = Vec::new();
        for number in 0..count.min(linux_slot::MOUNTS_MAX) {
            // SAFETY: as in `read`.
            let entry = unsafe { read_volatile(first.add(number as usize)) };
            let len = (entry.len as usize).min(entry.name.len());
            let name = &entry.name[..len];
            if entry.used == 0 || !matches!(name.first(), None | Some(b'/')) {
                continue;
            }
            let kind = entry.fstype.iter().position(|byte| *byte == 0);
            mounts.push(Mount {
                number,
                name: name.to_vec(),
                fstype: entry.fstype[..kind.unwrap_or(entry.fstype.len())].to_vec(),
                flags: u64::from(entry.used & ((1 << PREFIX_SERIAL_SHIFT) - 2)),
                file: None,
            });
        }
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && version() == before {
            return mounts;
        }
        super::gate::yield_core();
    }
}

/// What changes when something is mounted in this mount name space.
pub fn space_version(space: u64) -> u64 {
    let word = SPACE_VERSIONS + space % SPACE_VERSION_COUNT * 8;
    // SAFETY: as in `version`; an aligned word of the same page.
    unsafe { read_volatile(word as *const u64) }
}

/// The host name, NUL-padded.
pub fn hostname() -> [u8; 64] {
    // SAFETY: as in `version`; any bytes are a name.
    unsafe { read_volatile(&raw const (*(PREFIX_TABLE as *const PrefixTable)).hostname) }
}

/// How many wakes of shared futexes there have been.
pub fn futex_wakes() -> u64 {
    // SAFETY: as in `version`; an aligned word of the same page.
    unsafe { read_volatile(cairn_idl::proc::FUTEX_WAKES as *const u64) }
}
