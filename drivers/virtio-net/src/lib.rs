//! Network devices as virtio has them (Virtual I/O Device 1.2, "virtio-net"): the [`device`], by the registers and queues of lib/virtio, which lib/link serves its reader with.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod device;

#[cfg(test)]
mod tests;
