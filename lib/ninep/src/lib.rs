//! The messages of 9P2000.L as a client sends ([`ask`]) and reads ([`answer`]) them, and as a server reads ([`request`]) and sends ([`reply`]) them. What the
//! other side says is not believed: whatever its bytes are, reading them gives a value or [`Trouble`], never a panic, and nothing behind their end.
//!
//! A message is its length (4 bytes, its own included), kind (1), tag (2), and a body; numbers are little-endian, texts and names have their length (2)
//! before them. The protocol has no standard; it is as the Linux client and QEMU's server speak it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answer;
pub mod ask;
#[cfg(test)]
mod both_ways;
mod reader;
pub mod reply;
pub mod request;
#[cfg(test)]
mod tests;

pub use answer::{Attributes, Entry, Qid, Space, Trouble};
pub use ask::{Ask, Set, Time};
pub use reply::Reply;
pub use request::{Lock, Request};

/// Kinds of requests; an answer's is one more.
pub mod kind {
    pub const ERROR: u8 = 7;
    pub const STATFS: u8 = 8;
    pub const OPEN: u8 = 12;
    pub const CREATE: u8 = 14;
    pub const SYMLINK: u8 = 16;
    pub const MKNOD: u8 = 18;
    pub const RENAME: u8 = 20;
    pub const READLINK: u8 = 22;
    pub const GETATTR: u8 = 24;
    pub const SETATTR: u8 = 26;
    /// XATTRWALK and XATTRCREATE.
    pub const ATTRIBUTE: u8 = 30;
    pub const SET_ATTRIBUTE: u8 = 32;
    pub const READDIR: u8 = 40;
    pub const FSYNC: u8 = 50;
    pub const LOCK: u8 = 52;
    pub const GETLOCK: u8 = 54;
    pub const LINK: u8 = 70;
    pub const MKDIR: u8 = 72;
    pub const RENAMEAT: u8 = 74;
    pub const UNLINKAT: u8 = 76;
    pub const VERSION: u8 = 100;
    pub const AUTH: u8 = 102;
    pub const ATTACH: u8 = 104;
    pub const FLUSH: u8 = 108;
    pub const WALK: u8 = 110;
    pub const READ: u8 = 116;
    pub const WRITE: u8 = 118;
    pub const CLUNK: u8 = 120;
    pub const REMOVE: u8 = 122;
}

/// The dialect.
pub const VERSION: &[u8] = b"9P2000.L";
/// Bytes before a message's body.
pub const HEAD: usize = 7;
/// Bytes of READ's and READDIR's answers, and of WRITE, beside the data.
pub const AROUND_DATA: usize = 23;
/// The tag of VERSION, and the number of no file.
pub const NO_TAG: u16 = u16::MAX;
pub const NO_FID: u32 = u32::MAX;
/// Of UNLINKAT: a folder.
pub const REMOVE_DIRECTORY: u32 = 0x200;
/// Names of one WALK, at most.
pub const MOST_NAMES: usize = 16;

/// Kinds of files in a [`Qid`].
pub mod qid_kind {
    pub const FOLDER: u8 = 0x80;
    pub const LINK: u8 = 0x02;
    pub const FILE: u8 = 0;
}

/// Kinds of a [`Lock`].
pub mod lock_kind {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const NONE: u8 = 2;
}

/// Flags of LOCK.
pub mod lock_flags {
    /// Wait until it can be had.
    pub const WAIT: u32 = 1;
}

/// What became of a LOCK.
pub mod lock_status {
    pub const DONE: u8 = 0;
    /// Somebody else has it.
    pub const BLOCKED: u8 = 1;
}
