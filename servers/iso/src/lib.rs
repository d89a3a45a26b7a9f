//! ISO 9660 with Rock Ridge or Joliet, to be read; see docs/iso.md. The library `hadris-iso` takes the structures apart, [`volume`] walks them, [`pages`] has the disk's bytes in the one cache, [`server`] answers. The server is synchronous: one request after the other, and the disk is waited for.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod pages;
mod record;
mod server;
#[cfg(test)]
mod tests;
mod volume;

pub use server::{Iso, Options, MEMORY, PAGES};
