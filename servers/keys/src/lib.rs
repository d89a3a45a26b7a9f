//! Linux's key rings (docs/keys.md): add_key(2), request_key(2), keyctl(2).
//!
//! * [`key`] what a key is, and who may what with it; [`store`] all keys, what is in which ring, quotas, and what goes when; [`search`] through rings in rings;
//! * [`caller`] who asks, and the rings that are its own; [`server`] the operations for the framework; [`lines`] /proc/keys.
//!
//! Who asks is known by the label and by what `proc` says of the domain, never by a word of the request.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod caller;
pub mod key;
pub mod limits;
pub mod lines;
pub mod search;
pub mod server;
pub mod store;
#[cfg(test)]
mod tests;

pub use server::Keys;
