//! Random bytes for servers that give them out: `random` (/dev/urandom) and `proc` (what a program begins with).
//!
//! * [`chacha`]: the block function;
//! * [`generator`]: its key goes with each answer;
//! * [`supply`]: short answers that were made in advance.
//!
//! What makes them hard to guess is passed in: nothing here reads a clock or the processor.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod chacha;
pub mod generator;
pub mod supply;

pub use generator::Generator;
pub use supply::{Supply, SEED};
