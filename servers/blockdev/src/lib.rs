//! Disks and their partitions as files, behind the scheme `block:`: their names and numbers ([`server`]), what is read and written ([`disk`],
//! [`transfer`], [`room`], [`gather`], [`loans`]), partitions that change ([`partitions`]), disks that come and go ([`loops`]), and by what they are called
//! ([`links`], [`look`]).
//! `devfs` lists the names in /dev, and leads there who opens one.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod disk;
pub mod gather;
pub mod links;
pub mod loans;
pub mod look;
pub mod loops;
pub mod partitions;
pub mod room;
pub mod server;
pub mod transfer;
