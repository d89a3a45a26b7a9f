//! Disks as virtio has them (Virtual I/O Device 1.2, "virtio-blk"): the [`device`], by the registers and queues of lib/virtio, which lib/block serves its clients with.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod device;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
