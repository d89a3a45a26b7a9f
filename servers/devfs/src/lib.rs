//! `/dev`: a fixed table of names ([`table`]), the memory devices behind some of them ([`server`]), disks as files ([`disk`], [`transfer`], [`room`], [`gather`]), whose partitions change ([`partitions`]), and by what they are called ([`links`], [`look`]), and the random generator ([`chacha`], [`random`]).
//! Terminals are served by `tty`, to which their names redirect when they are opened. The scheme `dev:MAJOR:MINOR`, which device nodes of
//! other file systems redirect to, leads to the same devices.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod chacha;
pub mod disk;
pub mod gather;
pub mod links;
pub mod loans;
pub mod look;
pub mod partitions;
pub mod random;
pub mod room;
pub mod server;
pub mod table;
pub mod transfer;
