//! What an Ethernet link needs below IP, without a device and without a clock: who has which address there ([`arp`], RFC 826), packets that came in pieces
//! ([`fragments`], RFC 791, 8200 and 5722), the headers between IPv6 and what is above ([`extensions`], RFC 8200), and an address for this machine ([`dhcp`],
//! RFC 2131).
//!
//! Times are microseconds, and go in; packets come out. All of it is bounded, whatever comes: what others say makes no entries, and what they send in pieces has an account.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arp;
pub mod autoconf;
pub mod dhcp;
pub mod extensions;
pub mod fragments;
pub mod frame;
pub mod options;

pub type Mac = [u8; 6];
pub type Ip = [u8; 4];

pub const BROADCAST: Mac = [0xff; 6];

/// Microseconds.
pub const SECOND: u64 = 1_000_000;
pub const NEVER: u64 = u64::MAX;
