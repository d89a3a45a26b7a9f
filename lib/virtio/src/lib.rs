//! What drivers of virtio devices share (Virtual I/O Device 1.2, over PCI, without the legacy interface): where a device's registers are ([`place`], [`windows`]), how it is reset, asked for its features and set up ([`transport`]), and its queues ([`queue`]). [`fake`] is a device for tests.
//!
//! The code of the crate `virtio-drivers` is not used: its requests are slices of the driver's own memory, one at a time or with lifetimes across the wait, and here the data lies in pages of other components that the driver never
//! sees, named by frame.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod fake;
pub mod place;
pub mod queue;
pub mod transport;
pub mod windows;

#[cfg(test)]
mod tests;
