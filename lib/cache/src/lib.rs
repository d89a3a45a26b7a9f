//! One cache for a file server: which pages of which files are in memory, which of them must be written, what to read ahead and what to give back.
//!
//! It knows neither device nor memory manager nor clock: pages are numbers of an arena ([`Slot`]) that the server owns, transfers are values ([`Io`]) that the server
//! carries out and hands back, time comes as a parameter. [`Cache`] holds the pages, [`index`] finds them, [`slots`] says which are free and which were used
//! lately, [`mapped`] shows pages to programs that have files mapped, [`ahead`] decides what to read before it is asked for, [`behind`] what to write and when. docs/cache.md says how the parts of the system play together.
//!
//! What always holds: a slot belongs to one page, or to a transfer whose page has gone meanwhile, or is free; a page that is dirty, or on its way in or out, keeps its slot; a
//! page that was changed while it was being written is dirty again.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod ahead;
pub mod behind;
pub mod cache;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod index;
pub mod mapped;
pub mod slots;

#[cfg(test)]
mod tests;

pub use ahead::Stream;
pub use behind::Policy;
pub use cache::{Cache, File, Full, Io, Memory, Put, Shrunk};
pub use mapped::{Mapped, Objects};
pub use slots::Slot;
