//! The process manager: processes and their threads, sessions and process groups, signals, credentials, timers, limits and the tree of prefixes.
//!
//! [`Manager`] holds all state and answers the protocol of `cairn_idl::proc`; what it asks of `vm` and of the nucleus goes through the trait
//! [`System`], so that the whole of it runs on the development host against a fake. [`native`] is the real thing.
//!
//! What always holds between two messages: every live process has a live parent (the first process is its own); a process that ended stays a
//! zombie until its parent has waited for it or does not care; a number is not given out again while a process, thread, group or session bears it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod bandwidth;
mod boot;
mod capabilities;
mod cgroups;
mod cpu_timers;
mod credentials;
mod dispatch;
mod ending;
mod files;
mod filters;
mod forks;
mod futex;
mod groups;
mod ids;
mod image;
mod keys;
mod kill;
mod kin;
mod life;
mod limits;
mod lives;
mod login;
mod manager;
mod memory;
mod mount_table;
pub mod native;
mod oom;
mod pid_spaces;
mod prefix;
mod priority;
mod process;
mod report;
mod robust;
mod set_id;
mod settings;
mod signal;
mod spaces;
mod stop;
mod system;
mod table;
mod thread_list;
mod threads;
mod timers;
mod tracing;
mod user_spaces;
mod wait;
mod wall_clock;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use dispatch::Outcome;
pub use forks::Held;
pub use manager::{Gifts, Manager};
pub use prefix::PrefixPage;
pub use system::{Domain, Entries, Errno, Space, Start, System};

/// Badge of the portal by which `vm` says that memory is exhausted.
pub const BADGE_EXHAUSTED: u64 = 2;
/// Badge of the own thread that has the backlog ended. (No role has this bit.)
pub const BADGE_BACKGROUND: u64 = 1 << 63;
/// That of the own thread that has large programs copied ([`forks`]).
pub const BADGE_FORKS: u64 = 1 << 62;
