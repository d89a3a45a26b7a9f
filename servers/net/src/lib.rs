//! The network's stack, and the sockets of the Internet families: IPv4, IPv6, UDP, TCP, ICMP.
//!
//! * [`address`] addresses and endpoints; [`packet`] packets of IP; [`interface`] where packets come from and go to, and which route they take; [`link`] those that lead to other machines; [`internet`] what becomes of them;
//! * [`routes`] which of them is taken; [`netlink`] what programs ask and change of all that; [`capture`] frames for programs that look at them;
//! * [`forward`] packets for other machines; [`filter`] what is asked of the packet filter, which is another component;
//! * [`groups`] multicast: who is in which group, and what routers are told of it;
//! * [`tunnel`] TUN and TAP: interfaces whose other end is a program;
//! * [`datagram`] UDP; [`errors`] what ICMP says of it; [`stream`] and [`listener`] TCP around [`cairn_tcp`]; [`icmp`] echo and errors; [`raw`] sockets for
//!   packets as they are;
//! * [`stamps`] when datagrams came;
//! * [`socket`] what a handle leads to; [`options`] of it; [`bind`] and [`ports`]: who may have which port;
//! * [`hash`], [`timers`], [`ring`]: what all of it is found, woken and kept in; [`table`] what /proc/net and ioctl(2) show;
//! * [`server`] all of it for the framework.
//!
//! What always holds: packets, connections and sockets are found by a hash with a key that nobody knows; nothing goes through all of them. What is kept is charged to who made the socket.
//! Nothing that arrives, as a message or as a packet, is believed, and no memory is needed where there is no way to refuse.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod bind;
pub mod capture;
pub mod corked;
pub mod datagram;
pub mod errors;
pub mod filter;
pub mod forward;
pub mod groups;
pub mod hash;
pub mod headers;
pub mod icmp;
pub mod interface;
pub mod internet;
pub mod link;
pub mod listener;
pub mod netlink;
pub mod options;
pub mod packet;
pub mod paths;
pub mod ports;
pub mod programs;
pub mod rate;
pub mod raw;
pub mod ring;
pub mod routes;
pub mod server;
pub mod settings;
pub mod socket;
pub mod stamps;
pub mod stream;
pub mod table;
#[cfg(test)]
mod tests;
pub mod timers;
pub mod tunnel;

pub use server::Net;
