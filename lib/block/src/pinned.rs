//! A [`Backend`] of a [`Chip`] that reaches memory by itself: the pages of an order are pinned before the chip hears of it, and let go when it is done with them. Calls to `vm` are few: what was asked for together is pinned together ([`Pinned::begin`]), and what came out is unpinned with the next pins, or when there is enough of it or nothing has been asked for a while ([`Pinned::let_go`]).

use crate::chip::{Chip, Frames};
use crate::serve::{Backend, Order, SESSIONS, TAGS};
use crate::{Info, Kind, Outcome};
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::block::{FIXED_MOST, PAGES};

/// `vm`, as far as it is needed.
pub trait Pins {
    /// The frames of pages of a client's arena, which stay until they are let go. False: they are not there. Those in `done` are let go first, in any case. At most [`AT_ONCE`] together.
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32], done: &[u32]) -> bool;
    fn unpin(&mut self, frames: &[u32]);
}

/// Most frames of one [`Pins::unpin`], and of one [`Pins::pin`].
pub const AT_ONCE: usize = 512;

/// Pages of an arena that are pinned once, for all requests of a session.
struct Fixed {
    arena: u32,
    frames: Vec<u32>,
    /// Requests that the device has.
    under_way: usize,
    /// The session is over.
    over: bool,
}

/// An order whose pages are not pinned yet; their numbers are in `held`.
struct Waiting {
    tag: usize,
    kind: Kind,
    sector: u64,
    bytes: u64,
    arena: u32,
    offset: u32,
}

pub struct Pinned<C, P> {
    pub chip: C,
    pins: P,
    waiting: Vec<Waiting>,
    /// Pages that are pinned together, and their frames.
    pages: Vec<u32>,
    frames: Vec<u32>,
    /// Orders whose pages were not there.
    failed: Vec<usize>,
    /// Frames of clients that the device has, by tag.
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
            waiting: Vec::with_capacity(TAGS),
            pages: Vec::with_capacity(AT_ONCE),
            frames: Vec::with_capacity(AT_ONCE),
            failed: Vec::with_capacity(TAGS),
            held: vec![[0; PAGES]; TAGS],
            counts: [0; TAGS],
            loose: Vec::with_capacity(AT_ONCE),
            fixed: [const { None }; SESSIONS],
            uses: [None; TAGS],
        }
    }

    /// Give the device what waits for its pins: those of several orders are one call to `vm`. True: some came to nothing.
    pub fn begin(&mut self) -> bool {
        let mut waiting = core::mem::take(&mut self.waiting);
        let mut rest = &waiting[..];
        while let Some(first) = rest.first() {
            let mut pages = 0;
            let fits = |w: &&Waiting| {
                pages += self.counts[w.tag];
                w.arena == first.arena && pages <= AT_ONCE
            };
            let (group, behind) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = behind;
            if self.pin(group) {
                continue;
            }
            for alone in group.chunks(1) {
                if group.len() == 1 || !self.pin(alone) {
                    self.fail(alone[0].tag);
                }
            }
        }
        waiting.clear();
        self.waiting = waiting;
        !self.failed.is_empty()
    }

    fn fail(&mut self, tag: usize) {
        self.counts[tag] = 0;
        self.failed.push(tag);
    }

    /// Pin the pages of all of these and begin with them; or nothing was done.
    fn pin(&mut self, group: &[Waiting]) -> bool {
        self.pages.clear();
        for order in group {
            let own = &self.held[order.tag][..self.counts[order.tag]];
            self.pages.extend_from_slice(own);
        }
        self.frames.resize(self.pages.len(), 0);
        let arena = group[0].arena;
        if self.loose.len() + self.pages.len() > AT_ONCE {
            self.let_go();
        }
        let there = self
            .pins
            .pin(arena, &self.pages, &mut self.frames, &self.loose);
        self.loose.clear();
        if !there {
            return false;
        }
        let mut rest = &self.frames[..];
        for order in group {
            let (own, behind) = rest.split_at(self.counts[order.tag]);
            rest = behind;
            self.held[order.tag][..own.len()].copy_from_slice(own);
            let data = Frames {
                frames: own,
                offset: order.offset,
            };
            let begun = self
                .chip
                .start(order.tag, order.kind, order.sector, order.bytes, data);
            if !begun {
                self.pins.unpin(own);
                self.counts[order.tag] = 0;
                self.failed.push(order.tag);
            }
        }
        true
    }

    /// A request that came out; its pages are its owner's again (their pins are gone when [`Pinned::let_go`] was called).
    pub fn completed(&mut self) -> Option<(usize, Outcome)> {
        if let Some(tag) = self.failed.pop() {
            return Some((tag, Outcome::Failed));
        }
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

    /// Frames that wait to be unpinned.
    pub fn loose(&self) -> usize {
        self.loose.len()
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
        if pages > 0 && fixed.is_none() {
            self.held[tag][..pages].copy_from_slice(order.pages);
            self.counts[tag] = pages;
            self.waiting.push(Waiting {
                tag,
                kind: order.kind,
                sector: order.sector,
                bytes: order.bytes,
                arena: order.arena,
                offset: order.offset,
            });
            return true;
        }
        let data = Frames {
            frames: &self.held[tag][..pages],
            offset: order.offset,
        };
        let begun = self
            .chip
            .start(tag, order.kind, order.sector, order.bytes, data);
        match fixed {
            Some(_) if begun => self.uses[tag] = fixed,
            Some(index) => {
                if let Some(fixed) = &mut self.fixed[index] {
                    fixed.under_way -= 1;
                }
            }
            None => {}
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
                .pin(arena, &pages[some.clone()], &mut frames[some], &[]);
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
