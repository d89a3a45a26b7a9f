//! A [`Backend`] of a [`Chip`] that reaches memory by itself: the pages of an order are pinned before the chip hears of it, and let go when it is done with them. Calls to `vm` are few: what was asked for together is pinned together ([`Pinned::begin`]), and what came out is unpinned with the next pins, or when there is enough of it or nothing has been asked for a while ([`Pinned::let_go`]). What a client says it keeps ([`crate::Request::kept`]) stays pinned from request to request, until none has come for about a second ([`Pinned::look`]).

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

/// Most rows of pages that clients keep.
const KEPT: usize = 8;

/// Pages of an arena in a row that are pinned once, for all requests of a session, or (with a name) for those with this name.
struct Fixed {
    arena: u32,
    name: u32,
    first: u32,
    frames: Vec<u32>,
    /// Requests that the device has.
    under_way: usize,
    /// The session is over.
    over: bool,
    /// There was a request since it was last looked at.
    used: bool,
}

impl Fixed {
    /// The frames of an order's pages, if they are all here.
    fn find(&self, order: &Order, into: &mut [u32; PAGES]) -> Option<()> {
        if self.arena != order.arena || self.name != order.kept || self.over {
            return None;
        }
        let at = |page: u32| page.checked_sub(self.first).map(|at| at as usize);
        if self.name != 0 {
            let frames = self.frames.get(at(*order.pages.first()?)?..)?;
            into[..order.pages.len()].copy_from_slice(frames.get(..order.pages.len())?);
            return Some(());
        }
        for (place, &page) in into.iter_mut().zip(order.pages) {
            *place = *self.frames.get(at(page)?)?;
        }
        Some(())
    }

    fn is_idle(&self) -> bool {
        self.name != 0 && self.under_way == 0
    }
}

/// An order whose pages are not pinned yet; their numbers are in `held`.
struct Waiting {
    tag: usize,
    kind: Kind,
    sector: u64,
    bytes: u64,
    arena: u32,
    offset: u32,
    kept: u32,
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
    fixed: [Option<Fixed>; SESSIONS + KEPT],
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
            fixed: [const { None }; SESSIONS + KEPT],
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
            // Perhaps there was too much of it.
            let all = self.forget(|_| true);
            if !all || !self.pins.pin(arena, &self.pages, &mut self.frames, &[]) {
                return false;
            }
        }
        let mut done = 0;
        for order in group {
            let count = self.counts[order.tag];
            let own = &self.frames[done..done + count];
            done += count;
            self.held[order.tag][..count].copy_from_slice(own);
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
            } else if order.kept != 0 {
                self.keep(order, self.pages[done - count], count);
            }
        }
        true
    }

    /// The pages of an order that has begun, which were pinned for it, stay so.
    fn keep(&mut self, order: &Waiting, first: u32, count: usize) {
        let kept = |f: &&Fixed| f.name != 0;
        if self.fixed.iter().flatten().filter(kept).count() >= KEPT
            && !self.forget(|fixed| !fixed.used)
            && !self.forget(|_| true)
        {
            return;
        }
        let Some(index) = self.fixed.iter().position(Option::is_none) else {
            return;
        };
        self.fixed[index] = Some(Fixed {
            arena: order.arena,
            name: order.kept,
            first,
            frames: self.held[order.tag][..count].to_vec(),
            under_way: 1,
            over: false,
            used: true,
        });
        self.counts[order.tag] = 0;
        self.uses[order.tag] = Some(index);
    }

    /// Of what is kept and the device does not use at present. True: there was some.
    fn forget(&mut self, which: impl Fn(&Fixed) -> bool) -> bool {
        let mut any = false;
        for place in &mut self.fixed {
            if let Some(fixed) = place.take_if(|fixed| fixed.is_idle() && which(fixed)) {
                unpin_all(&mut self.pins, &fixed.frames);
                any = true;
            }
        }
        any
    }

    /// About every second: what is kept and was not asked for since goes.
    pub fn look(&mut self) {
        self.forget(|fixed| !fixed.used);
        for fixed in self.fixed.iter_mut().flatten() {
            fixed.used = false;
        }
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

    /// Whether there is something to let go of.
    pub fn holds(&self) -> bool {
        !self.loose.is_empty() || self.fixed.iter().flatten().any(Fixed::is_idle)
    }

    /// Nothing has been asked for a while: the device reaches only what it has under way, and what is fixed.
    pub fn let_go_of_all(&mut self) {
        self.let_go();
        self.forget(|_| true);
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
            unpin_all(&mut self.pins, &fixed.frames);
        }
    }

    /// The frames of a request's pages, if they are all fixed: which arena's.
    fn find_fixed(&mut self, tag: usize, order: &Order) -> Option<usize> {
        let held = self.held.get_mut(tag)?;
        let mut all = self.fixed.iter_mut().enumerate();
        all.find_map(|(index, fixed)| {
            let fixed = fixed.as_mut()?;
            fixed.find(order, held)?;
            fixed.under_way += 1;
            fixed.used = true;
            Some(index)
        })
    }
}

fn unpin_all(pins: &mut impl Pins, frames: &[u32]) {
    frames.chunks(AT_ONCE).for_each(|some| pins.unpin(some));
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
                kept: order.kept,
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
                unpin_all(&mut self.pins, &frames);
                return;
            }
        }
        self.fixed[index] = Some(Fixed {
            arena,
            name: 0,
            first: 0,
            frames,
            under_way: 0,
            over: false,
            used: false,
        });
    }

    fn unfix(&mut self, arena: u32) {
        let waiting = self.waiting.iter_mut().filter(|w| w.arena == arena);
        waiting.for_each(|waiting| waiting.kept = 0);
        let of = |f: &Option<Fixed>| matches!(f, Some(f) if f.arena == arena && !f.over);
        while let Some(index) = self.fixed.iter().position(of) {
            if let Some(fixed) = &mut self.fixed[index] {
                fixed.over = true;
            }
            self.end_fixed(index);
        }
    }
}
