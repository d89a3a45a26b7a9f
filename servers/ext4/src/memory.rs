//! The arena as the server sees it: pages by number, with or without frames, and what `vm` wants of them.
//!
//! The first pages are the cache's, which alone says which of them have frames; behind them are a few that always have some, through which metadata goes to and from the device.

use cairn_cache::{Objects, Slot};
use cairn_rt::paging::{Inherited, Request};
use cairn_rt::Portal;

pub const PAGE: usize = 4096;
pub const PAGE64: u64 = PAGE as u64;

pub trait Memory: cairn_cache::Memory {
    /// Bytes from `from` on in a page that has a frame, and in those behind it.
    fn bytes(&self, slot: Slot, from: usize, length: usize) -> &[u8];
    fn bytes_mut(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8];
    /// How many pages of the cache should be given back now. Asked again until it is 0; with `nothing_left` it is.
    fn wanted(&mut self, nothing_left: bool) -> u64;
    /// The objects that show its pages to programs.
    type Objects: Objects<Object = Portal>;
    fn objects(&self) -> Self::Objects;
    /// What those who have files mapped want next.
    fn asked(&mut self) -> Option<Request>;
    /// The next object of a predecessor's that somebody has mapped.
    fn inherited(&mut self) -> Option<Inherited>;
    /// A page that an object has becomes this page of the arena as well: nobody who has it mapped notices. False: that could not be done.
    fn adopt(&mut self, object: Portal, page: u64, slot: Slot) -> bool;
    /// Who waited until pages were written goes on, with this error number or 0.
    fn synced(&mut self, ticket: u64, error: i64);
}
