//! The nucleus's lock and what cores ask of each other (`kernel/src/lock.rs`, `kernel/src/requests.rs`: the files themselves, not a copy) in every order that loom finds, on simulated
//! processors: [`board::Board`]. What is told apart is every order of the atomic operations, and every value that a weakly ordered one may see.
//!
//! The tests are in `tests/`: what must hold, and faults that must be found.
#![forbid(unsafe_code)]

pub mod atomic;
pub mod board;

#[path = "../../../kernel/src/lock.rs"]
pub mod lock;
#[path = "../../../kernel/src/requests.rs"]
pub mod requests;

/// What `kernel/src/requests.rs` needs of `kernel/src/cores.rs`.
pub mod cores {
    /// Cores that are modelled.
    pub const MOST: usize = 3;
}
