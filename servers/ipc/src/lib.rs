//! System V messages, semaphores and shared memory, and POSIX message queues (docs/ipc.md).
//!
//! * [`registry`] things by key and identifier, who may what with them; [`line`](mod@line) who waits for what, in order;
//! * [`shm`] segments, which are memory objects of `vm`; [`msg`] queues of messages; [`sem`] sets of semaphores, and what is undone when a process ends; [`mq`] POSIX's queues, which are open files;
//! * [`limits`] what each name space may have; [`server`] all of it for the framework; [`structures`] what Linux's commands answer.
//!
//! Everything belongs to a name space, which is the badge of the portal that a request comes through. Who asks is known by the label and the domain, never by a word of the request.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod limits;
pub mod line;
pub mod mq;
pub mod msg;
pub mod registry;
pub mod sem;
pub mod server;
pub mod shm;
pub mod structures;
#[cfg(test)]
mod tests;

pub use server::Ipc;
