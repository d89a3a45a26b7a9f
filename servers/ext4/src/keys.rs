//! What requests wait for.

const fn key(kind: u64, number: u64) -> u64 {
    kind << 56 | number
}

/// A block of metadata is there.
pub fn block(number: u64) -> u64 {
    key(1, number & ((1 << 56) - 1))
}

/// Pages of a file were read or written.
pub fn pages(ino: u32) -> u64 {
    key(2, ino as u64)
}

/// A page of the cache may be free, or may be written.
pub const ROOM: u64 = key(3, 0);
/// The journal has done a step: the log may have room, a transaction may be durable.
pub const JOURNAL: u64 = key(4, 0);
/// A flush has ended.
pub const FLUSH: u64 = key(5, 0);
/// The device has discarded something.
pub const DISCARDS: u64 = key(7, 0);
/// A file without names is gone.
pub const ENDS: u64 = key(6, 0);
