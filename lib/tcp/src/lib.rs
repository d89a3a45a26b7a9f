//! TCP (RFC 9293) without input and output. One connection is one control block of plain data; time, segments and randomness are passed in, segments and wake-ups come out. Nothing here allocates, reads a clock or knows a device; text lies in rings of the caller.
//!
//! The caller keeps tables, queues and timers:
//! * a segment that belongs to a [`Connection`] goes to [`Connection::segment_arrives`], one of a [`HalfOpen`] or [`TimeWait`] to theirs; all others to [`listen::listen`], or it is answered by [`Segment::reset`];
//! * after anything that happened to a connection the caller sends what [`Connection::transmit`] gives until it gives nothing, and sets its timer to [`Connection::deadline`];
//! * a connection in TIME-WAIT that has nothing more to send becomes a [`TimeWait`]; one that is CLOSED can go.
//!
//! Where things are: [`seq`] numbers, [`segment`] the format, [`connection`] the control block and the user's calls, [`input`] SEGMENT ARRIVES, `acknowledge` what an ACK means, `output` what to send, `timers`; below them `scoreboard` (what is outstanding), `reassembly` (what came out of order), `rtt`, [`congestion`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod acknowledge;
pub mod congestion;
pub mod connection;
pub mod input;
pub mod listen;
mod output;
mod reassembly;
pub mod ring;
mod rtt;
mod scoreboard;
pub mod secret;
pub mod segment;
pub mod seq;
pub mod time;
pub mod time_wait;
mod timers;

pub use connection::{Config, Connection, Ecn, Error, Events, Info, State};
pub use input::{Arrival, Icmp, Placement};
pub use listen::HalfOpen;
pub use output::Transmit;
pub use secret::{Ends, Secret};
pub use segment::{Flags, Options, Segment};
pub use seq::Seq;
pub use time::Time;
pub use time_wait::TimeWait;
