//! Folders of the host: driver of a virtio-9p device (Virtual I/O Device 1.2 has no chapter on it; Linux and QEMU agree) and file server over it, in one
//! program, since nobody else would use either. See docs/share.md.
//!
//! [`device`] is the queue, [`asks`] what was asked and by whom, [`node`] what is known of files, [`map`] what of them is mapped, [`left`] what a successor
//! finds of those that are open, [`start`] the beginning, [`server`] what the framework asks for.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod asks;
pub mod device;
pub mod left;
pub mod map;
mod node;
pub mod server;
pub mod start;
#[cfg(test)]
mod tests;

pub use server::{Options, Share};
