//! The arena as the server sees it: pages by number, with or without frames, and what `vm` wants of them.
//!
//! The first pages are the cache's, which alone says which of them have frames; behind them are a few that always have some, through which metadata goes to and from the device.

use cairn_abi::Error;
use cairn_cache::Slot;
use cairn_rt::Portal;

pub const PAGE: usize = 4096;
pub const PAGE64: u64 = PAGE as u64;

pub trait Memory: cairn_cache::Memory {
    /// Bytes from `from` on in a page that has a frame, and in those behind it.
    fn bytes(&self, slot: Slot, from: usize, length: usize) -> &[u8];
    fn bytes_mut(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8];
    /// How many pages of the cache should be given back now. Asked again until it is 0; with `nothing_left` it is.
    fn wanted(&mut self, nothing_left: bool) -> u64;
    /// A memory object that shows these pages (None: a hole).
    fn object(&mut self, pages: &[Option<Slot>], shared_writable: bool) -> Result<Portal, Error>;
    /// The object shows these from page `first` on, and has `length` pages in all; all mappings follow. False: it is as it was.
    fn change(&mut self, object: Portal, first: u64, pages: &[Option<Slot>], length: u64) -> bool;
}
