//! Pipes, FIFOs and event counters: bytes that go from one program to another.
//!
//! * [`pipe`] and [`event`] what each kind does with its state; [`server`] all of them for the framework; [`users`] how large each user's pipes are together.
//!
//! Whoever makes a pipe or counter pays for it and for the memory of its ring, which grows with what is in it ([`cairn_resmgr::account`]).
//!
//! A reader or writer that must wait is parked by the framework under one of two keys of the object, [`READABLE`] and [`WRITABLE`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod event;
pub mod pipe;
pub mod server;
#[cfg(test)]
mod tests;
pub mod users;

pub use server::Pipes;

/// Low bits of keys: something can be read, something can be written.
pub const READABLE: u64 = 0;
pub const WRITABLE: u64 = 1;

/// PIPE_BUF: what is written at once up to this length stays together.
pub const ATOMIC: usize = 4096;
