//! FAT12, FAT16 and FAT32, read and write, by the library `fatfs`; see docs/fat.md. The library is synchronous, so the server is: one request after the other, and the disk is waited for ([`store`] keeps what was used last).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod boot;
mod clock;
mod node;
mod server;
pub mod store;
#[cfg(test)]
mod tests;

pub use server::{Fat, Options};
