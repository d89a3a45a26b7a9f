//! The Linux system-call interface as a library inside each process: the nucleus turns each `syscall` of the program round into it, and it does the
//! work in user mode: from its own tables, by a call to the server behind a descriptor, or by a call to `proc` or `vm`.
//!
//! `machine` holds everything that touches registers or raw memory; `calls` the system calls by family; the rest is state and rules, tested on the host.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

pub mod calls;
pub mod core_file;
pub mod descriptors;
pub mod errno;
pub mod event;
pub mod filter;
pub mod first;
pub mod frames;
pub mod futex;
pub mod loader;
#[allow(unsafe_code)]
pub mod machine;
pub mod memory;
pub mod mount_flags;
pub mod nearest;
pub mod path;
pub mod prefix;
pub mod process;
pub mod script;
pub mod setup;
pub mod signal;
pub mod space;
mod spare;
pub mod stack;
pub mod strace;
pub mod table;
pub mod text;
pub mod time;
pub mod trace;
pub mod user_space;
