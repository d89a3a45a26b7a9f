//! A file system in memory: the root's, filled from the boot archive, or an empty one of mount(2).
//!
//! * [`pool`] pages of memory, [`content`] a file's pages, [`directory`] names, [`inode`] nodes and their numbers, [`attributes`] their extended attributes;
//! * [`server`] the tree for the framework, [`data`] reading, writing and mapping, `seals` what a file takes no more, `gone` where open files without a name
//!   were;
//! * [`archive`] the first content, [`options`] what mount(2) says.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod archive;
pub mod attributes;
pub mod content;
pub mod data;
pub mod directory;
mod gone;
pub mod inode;
pub mod options;
pub mod pool;
mod seals;
pub mod server;
#[cfg(test)]
mod tests;

pub use pool::{Memory, Pool};
pub use server::Tmpfs;
