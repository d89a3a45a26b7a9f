//! The prefix table that `proc` publishes read-only in every Linux process. Readers copy it once per version; see `cairn_idl::fs::PrefixTable`.

use crate::prefix::Prefixes;
use cairn_abi::layout::{linux_slot, PREFIX_TABLE};
use cairn_idl::fs::{Prefix, PrefixTable, PREFIX_SERIAL_SHIFT};
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
