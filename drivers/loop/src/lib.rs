//! Loop devices: disks whose blocks lie in files. `blockdev` gives a device its file, a portal that a program had opened; file servers and `blockdev` use the
//! disk as any other (`lib/block`). See docs/block.md.
//!
//! What always holds: this component's first thread waits for nobody but `vm`. Whatever is asked of a file's server is asked by a helper, a thread that each
//! device with a file has ([`backing`]). So a server that does not answer holds up its devices and nobody else, and a file may lie in a file system on another
//! loop device.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod backing;
pub mod devices;

pub use backing::{Gone, Helper, Outside, BUFFER, HELPER_FIRST};
pub use devices::Loops;

#[cfg(test)]
mod tests;
