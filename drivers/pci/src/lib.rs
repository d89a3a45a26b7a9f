//! The PCI bus: finds the functions that the firmware set up ([`scan`]), and gives each driver the one that its portal is for ([`bus`]): the windows of its registers, messages for its interrupts, and leave to be bus master.
//! Nothing is moved: where the firmware gave no address there is no window.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bus;
pub mod config;
pub mod scan;

#[cfg(test)]
mod fake;
