//! The memory manager: it owns all frames and decides what every address space shows.
//!
//! [`Vm`] is the whole state. [`request`] decodes what comes in; [`fault`], [`shown`], [`mapping`], [`parts`], [`object`], [`change`], [`code`], [`common`], [`wanted`], [`written`], [`successor`], [`offer`], [`cache`], [`dma`], [`iommu`], [`lifecycle`], [`accounts`], [`exhausted`], [`transfer`] and [`stat`] answer it.
//! Below them lie [`frames`] (reference counts), [`free`], [`pages`], [`filled`] and [`forked`] (which frame is behind which page) and [`region`] (what is allowed where).
//!
//! What always holds:
//! - every page slot of a space or object holds exactly one reference to its frame;
//! - a page is mapped in the nucleus only with the frame of its slot, and writable only if it is not to be copied first;
//! - a frame is freed only after the nucleus has unmapped it everywhere.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod accounts;
pub mod cache;
pub mod change;
pub mod code;
pub mod common;
pub mod device;
pub mod dma;
pub mod exhausted;
pub mod fault;
pub mod filled;
pub mod forked;
pub mod frames;
pub mod free;
pub mod iommu;
pub mod later;
pub mod lifecycle;
pub mod loan;
mod lock;
pub mod makers;
pub mod mapping;
pub mod nucleus;
pub mod object;
pub mod offer;
pub mod pages;
pub mod parts;
pub mod pieces;
pub mod pins;
pub mod pools;
pub mod region;
pub mod request;
pub mod secret;
mod shown;
pub mod slab;
pub mod space;
pub mod stat;
pub mod successor;
mod taken;
pub mod transfer;
mod usage;
pub mod wanted;
pub mod written;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use nucleus::{Answer, Frame, Nucleus, Pass};
pub use request::Request;
pub use space::{Start, Vm};
