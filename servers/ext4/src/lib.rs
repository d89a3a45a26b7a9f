//! The ext4 file server: the core of `lib/ext4` knows where things are on the image, `lib/cache` which pages of files are in memory, `lib/resmgr` speaks with programs; this joins them over a block device.
//!
//! * [`start`] opening an image; [`server`] the whole, and how things go on; [`keys`] what is waited for;
//! * [`attached`] the device; [`requests`] on their way to the device, [`blocks`] metadata from there, [`steps`] the journal's writes;
//! * [`tree`] names and attributes for the framework; [`recent`] names, [`node`] inodes in memory; [`read`], [`write`], [`length`], [`shift`], [`map`] of files, over [`memory`] and [`runs`];
//! * [`successor`] what goes on after the server's death, [`left`] data that was not written;
//! * [`behind`] data to the device, [`sync`] until it is there, [`ends`] of files without names, [`discard`] what is not needed any more.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod attached;
mod behind;
mod blocks;
mod discard;
mod ends;
mod keys;
pub mod left;
mod length;
mod map;
pub mod memory;
mod node;
mod read;
mod recent;
pub mod requests;
mod runs;
pub mod server;
mod shift;
pub mod start;
mod steps;
mod successor;
mod sync;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub use attached::Attached;
pub use left::Left;
pub use memory::Memory;
pub use server::{Ext4, Options};
pub use start::{Parts, Refused, STAGING};
pub use tree::{DEVICE, MEMORY, PAGES};
