//! Asynchronous messages between two components, without a nucleus entry as long as nobody sleeps.
//!
//! A receiver opens *links* to itself, each for one sender: a [`ring`] in memory that belongs to the receiver and that both map. A message is 32 bytes, alone or with data,
//! and data has bounded room as well. A [`set`] holds a receiver's links under small numbers, in the order in which it prefers them; it is tested without waiting, or armed
//! and waited for. [`part`] puts several rings into one piece of memory, [`native`] makes links and wakes sleepers with messages and pulses of the nucleus.
//!
//! What always holds: nobody believes the other side. Each side keeps its own position to itself, only tells it to the other, and checks what it is told; a message is
//! copied out before it is looked at. Who lies breaks its own link and nothing else: a full ring refuses the sender, not the receiver, and no other link is touched.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod native;
pub mod part;
pub mod ring;
pub mod set;

#[cfg(test)]
mod tests;

pub use part::{split, Part};
pub use ring::{Error, Message, Receiver, Sender, Shape};
pub use set::Set;
