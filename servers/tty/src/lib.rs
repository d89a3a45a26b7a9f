//! The terminal server's logic. [`termios`] is what programs set, [`queue`] the bytes that wait to be read, [`discipline`] the line discipline
//! between them.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod discipline;
pub mod queue;
pub mod termios;
