//! A packet filter with connections and translation of addresses (docs/filter.md), which whoever routes packets asks for each of them.
//!
//! * [`rules`] what rules are and say, [`parse`] their text;
//! * [`tuple`] and [`connections`] what a connection is known by, and how long;
//! * [`judge`] what becomes of a packet;
//! * [`keep`] the rules' text over the component's death; [`server`] all of it for the framework.
//!
//! All but [`server`] knows neither messages nor a clock. Nothing that a packet or a text says is believed, and nothing goes through all connections.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod connections;
pub mod judge;
pub mod keep;
pub mod log;
pub mod parse;
pub mod rules;
pub mod server;
#[cfg(test)]
mod tests;
pub mod tuple;

pub use server::Manager;
