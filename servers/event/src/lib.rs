//! The event server: epoll sets, timers, descriptors of signals and processes, and queues of notices about files (inotify) as open files, so that fork shares
//! them, exec keeps them and they can be passed.
//!
//! * [`sets`] sets of interests, and what is ready in each; [`queues`] notices about files; [`lives`] processes that have descriptors; [`contexts`] texts of
//!   file-system contexts; [`server`] all of it for the framework.
//!
//! It calls no file server. File servers say what a watched file is ready for (`event::TELL`), so what a wait costs depends on what is ready, not on what is watched.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod contexts;
pub mod lives;
pub mod queues;
pub mod server;
pub mod sets;
mod signallers;
#[cfg(test)]
mod tests;
pub mod timer;

pub use server::Events;
