//! A block device as the one sees it who uses it: requests go in without waiting, and come out when the device has done them, in whatever order.
//!
//! Data moves between the device and pages of the user's *arena*, a range of its own memory whose pages are named by number; a driver that can do so has the device
//! write straight there. Until a request has come out its pages belong to the device.
//!
//! A component has a device by way of [`native`], or [`waiting`] if it can wait; between it and the driver are the rings of [`rings`], with [`client`] on one side and [`serve`] on the other, which all drivers share (partitions and sizes that change are [`changes`], what is counted [`tally`]), and [`program`] (which begins by [`start`]) around the [`chip`] of those whose device reaches memory. [`partition`] reads the tables of disks, [`contents`] what file systems call themselves; `cairn_device::fake` is for tests of drivers.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

pub mod changes;
pub mod chip;
pub mod client;
pub mod contents;
pub mod native;
pub mod partition;
pub mod pinned;
pub mod program;
pub mod rings;
pub mod serve;
pub mod start;
pub mod tally;
pub mod waiting;

#[cfg(test)]
mod tests;

/// Bytes in which positions on the device are counted, whatever its own blocks are.
pub const SECTOR: u64 = 512;
/// Bytes of a page of the arena.
pub const PAGE: usize = 4096;

/// What is known of a device. Requests begin and end at multiples of `block`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub sectors: u64,
    /// Bytes: 512 or 4,096.
    pub block: u32,
    pub read_only: bool,
    /// What was written is on the disk only after a FLUSH; without it, as soon as it is written.
    pub caches_writes: bool,
    pub discards: bool,
    /// As Linux says it of such a disk.
    pub rotates: bool,
    /// Most pages of a request, and most requests under way.
    pub most_pages: u32,
    pub most_requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// All writes that came out before this went in are on the disk when it comes out. No pages.
    Flush,
    /// What is there is not needed any more; it may read as anything. No pages.
    Discard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The user's name for it; no two under way have the same.
    pub id: u64,
    pub kind: Kind,
    pub sector: u64,
    pub bytes: u64,
    /// Pages of the arena, in the order of the device's bytes. All but the first and last are used whole.
    pub pages: &'a [u32],
    /// Where in the first page the data begins; a multiple of 512.
    pub offset: u32,
    /// Not 0: the user's name for what lies behind these pages, as long as it does; they are in a row. The driver may go on reaching them for a while, for the next request with this name.
    pub kept: u32,
}

/// A request of its own, to be kept until the device takes it or has done it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub id: u64,
    pub kind: Kind,
    pub sector: u64,
    pub bytes: u64,
    pub pages: Vec<u32>,
    pub offset: u32,
    pub kept: u32,
}

impl Kept {
    pub fn request(&self) -> Request<'_> {
        Request {
            id: self.id,
            kind: self.kind,
            sector: self.sector,
            bytes: self.bytes,
            pages: &self.pages,
            offset: self.offset,
            kept: self.kept,
        }
    }
}

impl From<&Request<'_>> for Kept {
    fn from(request: &Request) -> Kept {
        Kept {
            id: request.id,
            kind: request.kind,
            sector: request.sector,
            bytes: request.bytes,
            pages: request.pages.to_vec(),
            offset: request.offset,
            kept: request.kept,
        }
    }
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many as possible are under way: when one has come out.
    Full,
    /// Beyond the end, not at a multiple of the block, too long, pages that do not fit its length, or a kind that the device does not have.
    Invalid,
}

impl Info {
    /// Whether a request can be done by such a device.
    pub fn allows(&self, request: &Request) -> bool {
        let block = u64::from(self.block.max(1));
        let aligned = request.sector.is_multiple_of(block.div_ceil(SECTOR))
            && request.bytes.is_multiple_of(block);
        let fits = request.sector <= self.sectors
            && request.bytes / SECTOR <= self.sectors - request.sector;
        let has_kind = match request.kind {
            Kind::Read => true,
            Kind::Write => !self.read_only,
            Kind::Flush => true,
            Kind::Discard => self.discards && !self.read_only,
        };
        let room = (request.pages.len() * PAGE) as u64;
        let offset = u64::from(request.offset);
        let pages = match request.kind {
            Kind::Read | Kind::Write => {
                request.bytes > 0
                    && request.pages.len() <= self.most_pages as usize
                    && offset < PAGE as u64
                    && offset.is_multiple_of(SECTOR)
                    && request.bytes <= room
                    && (offset + request.bytes).div_ceil(PAGE as u64) * PAGE as u64 == room
            }
            Kind::Flush => request.bytes == 0 && request.pages.is_empty(),
            Kind::Discard => request.bytes > 0 && request.pages.is_empty(),
        };
        has_kind && pages && aligned && fits
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The device could not do it. What a write left there is not known.
    Failed,
}

/// A device, or a part of one.
///
/// A driver that dies is started again, and what was under way is given to it again by this side: a request may be done twice, and comes out once.
pub trait Device {
    fn info(&self) -> Info;

    fn submit(&mut self, request: &Request) -> Result<(), Refused>;

    /// One that has come out since, if there is any. Never waits.
    fn completed(&mut self) -> Option<(u64, Outcome)>;
}
