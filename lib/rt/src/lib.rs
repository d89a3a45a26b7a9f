//! What every native component needs: the gate ([`gate`]), portals and messages ([`portal`]), channels ([`channel`]), the start-up block ([`startup`]),
//! and on the bare target the entry point, heap and panic handler ([`start`]).
#![no_std]

pub mod channel;
pub mod gate;
pub mod portal;

pub use cairn_abi as abi;
pub use channel::{Received, Receiver};
pub use portal::{Message, Portal};
