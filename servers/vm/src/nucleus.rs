//! What `vm` needs from the nucleus, as a trait: `main.rs` implements it with portal calls, the tests with a simulated machine.

use crate::frames::Frames;
use cairn_abi::service::memory::{Fill, Row};
use cairn_abi::{Error, Id, Token};
use cairn_iommu::{dmar, Hardware, Message};
use core::fmt;

/// A frame of physical memory (address / 4096). 0 is never one.
pub type Frame = u32;

/// How a portal goes with an answer (in w7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A copy of the portal in this slot of `vm`'s table.
    Copy(u32),
    /// A new portal to `vm`'s channel with this badge.
    Mint(u64),
}

/// The answer to a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub words: [u64; 8],
    pub pass: Option<Pass>,
}

impl Answer {
    pub fn new(words: &[u64]) -> Answer {
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        Answer {
            words: w,
            pass: None,
        }
    }

    /// A count or an address, or an error number to be negated.
    pub fn result(result: Result<u64, i64>) -> Answer {
        match result {
            Ok(value) => Answer::new(&[value]),
            Err(errno) => Answer::new(&[(-errno) as u64]),
        }
    }
}

/// Frames that a pool gives back at once, at most.
pub const TAKEN: usize = 4;

/// Nucleus operations (see `cairn_abi::service`). Spaces and domains are named by slots of `vm`'s own table. All take at most 512 pages.
pub trait Nucleus: Hardware + dmar::Physical {
    /// A new space whose faults come to `vm` with this badge; its pages may be writable and executable at once or not.
    fn space_create(&mut self, badge: u64, writable_code: bool) -> Result<u32, Error>;
    fn domain_create(&mut self, space: u32) -> Result<(u32, Id), Error>;
    fn set_space(&mut self, domain: u32, space: u32) -> Result<(), Error>;
    /// Whether a domain has no threads any more, or is gone.
    fn has_ended(&mut self, domain: u32) -> bool;
    /// Destroy a domain for good.
    fn destroy(&mut self, domain: u32);
    fn grow_table(&mut self, domain: u32) -> Result<(), Error>;
    fn close(&mut self, slot: u32);

    fn give(&mut self, pool: u64, first: Frame, count: u64) -> Result<(), Error>;
    fn give_tables(&mut self, space: u32, first: Frame, count: u64) -> Result<(), Error>;
    /// Frames at a pool's end in which no object lives, and how many; none if there are none.
    fn take_back(&mut self, pool: u64) -> Result<([Frame; TAKEN], usize), Error>;
    /// → objects in use, capacity, bytes per object.
    fn pool_info(&mut self, pool: u64) -> Result<(u64, u64, u64), Error>;
    /// Frames of page tables come back in `into` (0 = no more); true when the space is gone.
    fn reap(&mut self, space: u32, into: &mut [Frame]) -> Result<bool, Error>;

    /// One page. `bits`: protection and `map::ZERO` or `map::COPY` (from `source`).
    fn map(
        &mut self,
        space: u32,
        address: u64,
        frame: Frame,
        bits: u64,
        source: Frame,
    ) -> Result<(), Error>;
    /// Fill frames and map them, one after the other; how many were, and what ended that.
    fn fill(&mut self, space: u32, fills: &[Fill]) -> (usize, Result<(), Error>);
    fn map_list(
        &mut self,
        space: u32,
        address: u64,
        frames: &[Frame],
        bits: u64,
    ) -> Result<(), Error>;
    fn unmap(&mut self, space: u32, address: u64, pages: u64) -> Result<(), Error>;
    fn protect(&mut self, space: u32, address: u64, pages: u64, bits: u64) -> Result<(), Error>;
    /// Copy mappings to the same addresses of another space (at most [`cairn_abi::service::memory::ROWS`] rows, 512 pages): how many rows were, and
    /// why not all. (Of the next one some pages may be there.)
    fn share(&mut self, from: u32, to: u32, rows: &[Row]) -> (usize, Result<(), Error>);
    /// What a space shows in the page table's range at `address`, of which nothing may be written, becomes the common table.
    fn keep_common(&mut self, space: u32, address: u64) -> Result<(), Error>;
    /// Show the common table in a space that has no table there.
    fn show_common(&mut self, space: u32) -> Result<(), Error>;
    fn copy_frame(&mut self, to: Frame, from: Frame) -> Result<(), Error>;
    fn zero_frame(&mut self, frame: Frame) -> Result<(), Error>;
    /// The frame mapped at an address.
    fn query(&mut self, space: u32, address: u64) -> Option<Frame>;
    fn system_page(&mut self) -> Frame;

    /// Copy from the caller's out part.
    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error>;
    /// Copy to the caller's in part.
    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error>;
    /// The same straight into frames: `len` bytes from byte `at` of the first of these (at most 16) frames on.
    fn read_frames(
        &mut self,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error>;
    fn write_frames(
        &mut self,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error>;
    /// Addresses of the caller's out part and in part (0 = not known).
    fn part_addresses(&mut self, token: Token) -> (u64, u64);
    fn reply(&mut self, token: Token, answer: &Answer) -> Result<(), Error>;
    /// The priority of the caller behind a token.
    fn priority_of(&mut self, token: Token) -> u8;
    /// What is done next is for the caller behind a token, at its priority.
    fn work_for(&mut self, token: Token);
    /// The badge behind a portal that was passed to `vm`, if it leads to `vm`'s own channel.
    fn portal_badge(&mut self, slot: u32) -> Option<u64>;
    fn notify(&mut self, slot: u32);
    /// Monotonic nanoseconds.
    fn now(&mut self) -> u64;
    /// Show this frame to `vm` itself, as a table of the IOMMU.
    fn show_table(&mut self, frame: Frame) -> bool;
    /// What the IOMMU writes to interrupt `vm`; None: it cannot.
    fn message(&mut self) -> Option<Message>;
    /// That interrupt may come again.
    fn acknowledge(&mut self);
    /// A line for the log.
    fn say(&mut self, line: fmt::Arguments);
    /// Set frames aside so that `vm`'s own heap can grow by this many bytes during the request at hand.
    fn heap_room(&mut self, frames: &mut Frames, bytes: usize) -> bool;
    /// One of the frames that `vm`'s own heap had and does not need any more.
    fn heap_rest(&mut self) -> Option<Frame>;
}
