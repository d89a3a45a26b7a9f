//! SATA disks behind AHCI controllers (Serial ATA AHCI 1.3.1, ATA8-ACS): commands as they lie in memory ([`command`]), the port that a disk is at ([`port`]), and the disk with many requests under way ([`disk`]), which lib/block serves its clients with.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod command;
pub mod disk;
pub mod port;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
