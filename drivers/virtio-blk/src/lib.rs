//! Disks as virtio has them (Virtual I/O Device 1.2, "virtio-blk" over PCI, without the legacy interface): where a device's registers are ([`place`]), its queue ([`queue`]), the device ([`device`]), which lib/block serves its clients with.
//!
//! The code of the crate `virtio-drivers` is not used: its requests are slices of the driver's own memory, one at a time or with lifetimes across the wait, and here the data lies in pages of other components that the driver never
//! sees, named by frame.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod device;
pub mod place;
pub mod queue;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
