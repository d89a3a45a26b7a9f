//! ext4, reading and writing, as a library without an operating system: what a server needs to know where a file's bytes are, to change names and inodes, and to survive a cut of power.
//!
//! The library holds metadata only. File data stays with the caller, who moves it between its own frames and the device; so there is one copy of it in memory, and this code
//! is on no path of a cached read. Nothing here waits or touches a device:
//!
//! * A call that lacks a block answers [`Error::Need`]; the caller reads it, hands it in ([`Fs::supply`]) and calls again. Nothing has changed meanwhile: operations are whole or nothing.
//! * The journal's work comes out as [`Step`]s of writes and flushes ([`Fs::step`]), which the caller does when it likes, while operations go on.
//!
//! Modules: [`shape`] superblock and features, [`mount`] opening, [`fs`] the whole, [`cache`] (over [`blocks`]) metadata blocks and taking back, [`transaction`], [`journal`]; [`kept`], [`redo`] what a death of the program must not lose; [`group`],
//! [`allocate`], [`zones`], [`discard`] space; [`inode`], [`inodes`], [`orphan_file`]; [`extent`]; [`directory`], [`names`]; [`file`]; [`attributes`]; [`verify`] what is checked of every block.
//!
//! Nothing that an image says is believed: every number is checked before it leads anywhere, every walk is bounded, no write goes to a place that the file system keeps for itself.
//! What does not fit together is [`Error::Damaged`], with what and where.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod allocate;
mod attributes;
mod blocks;
mod bytes;
mod cache;
mod directory;
mod discard;
mod error;
mod extent;
mod file;
mod fs;
mod group;
mod inode;
mod inodes;
mod journal;
mod kept;
mod mount;
mod names;
mod orphan_file;
mod redo;
mod shape;
mod transaction;
mod verify;
mod zones;

pub use directory::read::Listed;
pub use directory::NAME_MAX;
pub use error::Error;
pub use extent::{Piece, Place};
pub use fs::{Fs, Run, Space, Step, Time};
pub use inode::{Inode, APPEND_ONLY, IMMUTABLE, ROOT};
pub use inodes::New;
pub use mount::{Mount, Progress};
pub use names::{Gone, Rename};
pub use shape::Shape;
