//! Disks behind NVM Express controllers (NVM Express Base Specification 2.0, over PCI): queues ([`queue`]), and the controller with its first namespace ([`controller`]), which lib/block serves its clients with.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod controller;
pub mod queue;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
