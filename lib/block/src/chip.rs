//! What the drivers of devices with memory of their own access have in common: a [`Chip`] does requests on frames; [`Pinned`] makes a [`Backend`] of it, whose pages are pinned before the chip hears of them, and let go when it is done.

use crate::serve::{Backend, Order, SESSIONS, TAGS};
use crate::{Info, Kind, Outcome};
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::block::{FIXED_MOST, PAGES};

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

/// Registers of a device that knows words of 32 bits only.
pub trait Registers {
    fn read(&mut self, at: usize) -> u32;
    fn write(&mut self, at: usize, value: u32);
    /// Let a little time pass.
    fn pause(&mut self);
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

/// Most frames of one [`Pins::unpin`], and of one [`Pins::pin`].
const AT_ONCE: usize = 512;

/// Pages of an arena that are pinned once, for all requests of a session.
struct Fixed {
    arena: u32,
    frames: Vec<u32>,
    /// Requests that the device has.
    under_way: usize,
    /// The session is over.
    over: bool,
}

pub struct Pinned<C, P> {
    pub chip: C,
    pins: P,
    /// What the device has of clients, by tag.
    held: Vec<[u32; PAGES]>,
    counts: [usize; TAGS],
    /// Frames that the device is done with, to be let go together.
    loose: Vec<u32>,
    fixed: [Option<Fixed>; SESSIONS],
    /// Which of them a tag's request uses.
    uses: [Option<usize>; TAGS],
}

impl<C: Chip, P: Pins> Pinned<C, P> {
    pub fn new(chip: C, pins: P) -> Pinned<C, P> {
        Pinned {
            chip,
            pins,
            held: vec![[0; PAGES]; TAGS],
            counts: [0; TAGS],
            loose: Vec::with_capacity(AT_ONCE),
            fixed: [const { None }; SESSIONS],
            uses: [None; TAGS],
        }
    }

    /// A request that came out; its pages are its owner's again (their pins are gone when [`Pinned::let_go`] was called).
    pub fn completed(&mut self) -> Option<(usize, Outcome)> {
        let (tag, outcome) = self.chip.completed()?;
        let count = core::mem::take(self.counts.get_mut(tag)?);
        if self.loose.len() + count > AT_ONCE {
            self.let_go();
        }
        self.loose.extend_from_slice(&self.held[tag][..count]);
        if let Some(index) = self.uses[tag].take() {
            if let Some(fixed) = &mut self.fixed[index] {
                fixed.under_way -= 1;
            }
            self.end_fixed(index);
        }
        Some((tag, outcome))
    }

    /// Unpin what came out.
    pub fn let_go(&mut self) {
        if !self.loose.is_empty() {
            self.pins.unpin(&self.loose);
            self.loose.clear();
        }
    }

    /// If the session is over and the device has nothing of it any more.
    fn end_fixed(&mut self, index: usize) {
        if let Some(fixed) = self.fixed[index].take_if(|f| f.over && f.under_way == 0) {
            for frames in fixed.frames.chunks(AT_ONCE) {
                self.pins.unpin(frames);
            }
        }
    }

    /// The frames of a request's pages, if they are all fixed: which arena's.
    fn find_fixed(&mut self, tag: usize, order: &Order) -> Option<usize> {
        let of = |f: &Option<Fixed>| matches!(f, Some(f) if f.arena == order.arena && !f.over);
        let index = self.fixed.iter().position(of)?;
        let fixed = self.fixed[index].as_mut()?;
        for (place, &page) in self.held.get_mut(tag)?.iter_mut().zip(order.pages) {
            *place = *fixed.frames.get(page as usize)?;
        }
        fixed.under_way += 1;
        Some(index)
    }
}

impl<C: Chip, P: Pins> Backend for Pinned<C, P> {
    fn info(&self) -> Info {
        self.chip.info()
    }

    fn start(&mut self, tag: usize, order: &Order) -> bool {
        let pages = order.pages.len();
        if tag >= TAGS || pages > PAGES || self.counts[tag] > 0 || self.uses[tag].is_some() {
            return false;
        }
        let fixed = match pages {
            0 => None,
            _ => self.find_fixed(tag, order),
        };
        let frames = &mut self.held[tag][..pages];
        let pinned = pages > 0 && fixed.is_none();
        if pinned && !self.pins.pin(order.arena, order.pages, frames) {
            return false;
        }
        let data = Frames {
            frames,
            offset: order.offset,
        };
        let begun = self
            .chip
            .start(tag, order.kind, order.sector, order.bytes, data);
        match (begun, fixed) {
            (true, Some(_)) => self.uses[tag] = fixed,
            (true, None) => self.counts[tag] = pages,
            (false, Some(index)) => {
                if let Some(fixed) = &mut self.fixed[index] {
                    fixed.under_way -= 1;
                }
            }
            (false, None) if pinned => self.pins.unpin(frames),
            (false, None) => {}
        }
        begun
    }

    fn fix(&mut self, arena: u32, pages: u32) {
        let Some(index) = self.fixed.iter().position(Option::is_none) else {
            return;
        };
        if pages == 0 || pages > FIXED_MOST {
            return;
        }
        let pages: Vec<u32> = (0..pages).collect();
        let mut frames = vec![0; pages.len()];
        for first in (0..pages.len()).step_by(AT_ONCE) {
            let some = first..(first + AT_ONCE).min(pages.len());
            let there = self
                .pins
                .pin(arena, &pages[some.clone()], &mut frames[some]);
            if !there {
                frames.truncate(first);
                frames.chunks(AT_ONCE).for_each(|f| self.pins.unpin(f));
                return;
            }
        }
        self.fixed[index] = Some(Fixed {
            arena,
            frames,
            under_way: 0,
            over: false,
        });
    }

    fn unfix(&mut self, arena: u32) {
        let of = |f: &Option<Fixed>| matches!(f, Some(f) if f.arena == arena && !f.over);
        if let Some(index) = self.fixed.iter().position(of) {
            if let Some(fixed) = &mut self.fixed[index] {
                fixed.over = true;
            }
            self.end_fixed(index);
        }
    }
}
