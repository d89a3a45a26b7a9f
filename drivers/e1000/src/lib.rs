//! Gigabit Ethernet controllers of Intel's: 82540EM (PCI; QEMU's `e1000`) and 82574L (PCI Express; QEMU's `e1000e`).
//!
//! Sources: "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual" (SDM below) and "82574 GbE Controller Family Datasheet" (DS).
//! [`registers`] has what is used of them, with reset and address; [`rings`] the two rings of descriptors; [`device`] is both as a link's chip, which lib/link
//! serves its reader with.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod device;
pub mod registers;
pub mod rings;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
