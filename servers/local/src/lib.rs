//! Local sockets (`AF_UNIX`): streams, datagrams and sequenced packets between programs of this machine, with names, credentials and descriptors that travel along.
//!
//! * [`queue`] what a socket has to read: bytes, cut into segments; [`socket`] its state and readiness;
//! * [`stream`] and [`datagram`] sending and receiving; [`connect`] listening and connecting; [`names`] addresses and abstract names;
//! * [`rights`] descriptors on their way; [`cycles`] finds those that nobody can receive any more;
//! * [`options`], [`timeouts`]; [`server`] all of it for the framework.
//!
//! What always holds: a socket has one handle, or none while nobody has accepted it. Who calls is what the nucleus and `proc` say. What waits in a socket is bounded by the sender's buffer size in bytes and by [`queue::SEGMENTS`] in pieces.
//! A reader or writer that must wait is parked by the framework under a key of the socket: [`READABLE`], or [`ROOM`] of the socket that is to be written.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod connect;
pub mod cycles;
pub mod datagram;
mod list;
pub mod names;
pub mod options;
pub mod queue;
pub mod rights;
pub mod server;
pub mod socket;
pub mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use server::Sockets;

/// Low bits of keys: something can be received (or accepted); there is room in what the socket has to read (or to accept).
pub const READABLE: u64 = 0;
pub const ROOM: u64 = 1;

/// A key of a socket.
pub fn key(socket: u32, what: u64) -> u64 {
    (socket as u64) << 1 | what
}
