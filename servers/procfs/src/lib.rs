//! `/proc`: what the system tells about processes and itself, as texts that are made when they are opened.
//!
//! [`table`] is the tree: every name, and the function that writes its text. [`process`] and [`machine`] are those functions, [`system`] is
//! where they ask. [`server`] makes it a resource manager; a new file is a row in the table and a function.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod components;
#[cfg(test)]
mod fake;
pub mod ipc;
pub mod keys;
pub mod machine;
pub mod memory;
pub mod net;
pub mod outside;
pub mod process;
pub mod processor;
pub mod server;
pub mod system;
pub mod table;
