//! What the drivers of devices with memory of their own access have in common: a [`Chip`] does requests on frames; [`Pinned`] makes a [`Backend`] of it, whose pages are pinned before the chip hears of them, and let go when it is done.

use crate::serve::{Backend, Order, TAGS};
use crate::{Info, Kind, Outcome};
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::block::PAGES;

/// Memory that the device sees too; bytes are counted from its beginning. The device may write anywhere in it at any time, though it is not supposed to: what is read back is to be checked.
pub trait Memory {
    fn physical(&self, at: usize) -> u64;
    fn read8(&self, at: usize) -> u8;
    fn read16(&self, at: usize) -> u16;
    fn read32(&self, at: usize) -> u32;
    fn write8(&self, at: usize, value: u8);
    fn write16(&self, at: usize, value: u16);
    fn write32(&self, at: usize, value: u32);
    fn write64(&self, at: usize, value: u64);
    /// Between what this driver writes and what the device sees, both ways.
    fn barrier(&self);
}

/// Data of a request: frames, and where it begins in the first of them.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    pub frames: &'a [u32],
    pub offset: u32,
}

pub trait Chip {
    type Memory: Memory;
    /// Where in its memory there is a page for what the driver itself reads.
    const OWN: usize;
    fn memory(&self) -> &Self::Memory;
    fn info(&self) -> Info;
    /// Begin with a request that was checked. False: the device has the tag's request still.
    fn start(&mut self, tag: usize, kind: Kind, sector: u64, bytes: u64, data: Frames) -> bool;
    /// Tell the device of what was begun.
    fn kick(&mut self);
    /// A request that the device is done with.
    fn completed(&mut self) -> Option<(usize, Outcome)>;
    /// Whether it tells by interrupts what it is done with.
    fn interrupts(&self) -> bool;
    /// It has given up, and has to be reset.
    fn is_broken(&mut self) -> bool;
}

/// `vm`, as far as it is needed.
pub trait Pins {
    /// The frames of pages of a client's arena, which stay until they are let go. False: they are not there.
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32]) -> bool;
    fn unpin(&mut self, frames: &[u32]);
}

pub struct Pinned<C, P> {
    pub chip: C,
    pins: P,
    /// What the device has of clients, by tag.
    held: Vec<[u32; PAGES]>,
    counts: [usize; TAGS],
}

impl<C: Chip, P: Pins> Pinned<C, P> {
    pub fn new(chip: C, pins: P) -> Pinned<C, P> {
        Pinned {
            chip,
            pins,
            held: vec![[0; PAGES]; TAGS],
            counts: [0; TAGS],
        }
    }

    /// A request that came out; its pages are its owner's again.
    pub fn completed(&mut self) -> Option<(usize, Outcome)> {
        let (tag, outcome) = self.chip.completed()?;
        let count = core::mem::take(self.counts.get_mut(tag)?);
        if count > 0 {
            self.pins.unpin(&self.held[tag][..count]);
        }
        Some((tag, outcome))
    }
}

impl<C: Chip, P: Pins> Backend for Pinned<C, P> {
    fn info(&self) -> Info {
        self.chip.info()
    }

    fn start(&mut self, tag: usize, order: &Order) -> bool {
        let Some(held) = self.held.get_mut(tag) else {
            return false;
        };
        if self.counts[tag] > 0 {
            return false;
        }
        let Some(frames) = held.get_mut(..order.pages.len()) else {
            return false;
        };
        if !frames.is_empty() && !self.pins.pin(order.arena, order.pages, frames) {
            return false;
        }
        let data = Frames {
            frames,
            offset: order.offset,
        };
        let begun = self
            .chip
            .start(tag, order.kind, order.sector, order.bytes, data);
        match begun {
            true => self.counts[tag] = order.pages.len(),
            false if !frames.is_empty() => self.pins.unpin(frames),
            false => {}
        }
        begun
    }
}
