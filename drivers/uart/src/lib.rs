//! One 16550 serial port: device logic without an operating system. [`ring`] holds bytes on their way, [`registers`] names the chip's bits and
//! abstracts the access to them ([`registers::Chip`]), [`driver`] is the driver proper, [`hasty`] what of it is done at the interrupt. The program around it is `main.rs`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod driver;
pub mod hasty;
pub mod registers;
pub mod ring;
