//! `/dev`: a fixed table of names ([`table`]), names of disks as far as there are any ([`disks`]), and the memory devices and the log behind some of
//! them ([`server`]).
//! Other devices are served by others, to whom their names redirect when they are opened: terminals by `tty`, disks by `blockdev`, random numbers by `random`.
//! The scheme `dev:MAJOR:MINOR`, which device nodes of other file systems redirect to, leads to the same devices.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod disks;
pub mod server;
pub mod table;
