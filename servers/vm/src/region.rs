//! The regions of an address space: sorted, never overlapping, neighbours of the same kind merged. All numbers are page numbers.

use alloc::vec::Vec;
use cairn_abi::layout;
use cairn_idl::vm::{flags, prot};
use core::cell::Cell;
use core::mem::size_of;

/// [`Region::object`] of private anonymous memory.
pub const ANONYMOUS: u32 = u32::MAX;
/// Regions more that one request may make: two cuts each where it takes something out and where it puts something in.
const MORE: usize = 4;
/// [`Region::marks`]: locked in memory; with ON_FAULT only as far as it is touched.
pub const LOCKED: u8 = 1;
pub const ON_FAULT: u8 = 2;
/// Room that the program break may grow into, and nobody's data yet.
pub const BREAK: u8 = 4;
/// How it comes into a fork's child: as zeroes, or not at all.
pub const WIPED: u8 = 8;
pub const ABSENT: u8 = 16;
/// Pages that placement keeps free below a stack.
const STACK_GUARD: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    /// Linux's PROT_ bits.
    pub prot: u8,
    /// The most that `prot` may become.
    pub most: u8,
    /// `cairn_idl::vm::flags` that stay: SHARED, STACK, NO_RESERVE, PROGRAM.
    pub flags: u8,
    /// [`LOCKED`], [`ON_FAULT`], [`BREAK`], [`WIPED`], [`ABSENT`].
    pub marks: u8,
    /// Index of the memory object, or [`ANONYMOUS`].
    pub object: u32,
    /// Page of the object at `start`.
    pub offset: u64,
}

impl Region {
    pub fn pages(&self) -> u64 {
        self.end - self.start
    }

    pub fn shared(&self) -> bool {
        u64::from(self.flags) & flags::SHARED != 0
    }

    /// Private memory that may be read and written: what devices and others can be given pages of.
    pub fn is_own_memory(&self) -> bool {
        const READ_WRITE: u64 = prot::READ | prot::WRITE;
        self.object == ANONYMOUS && u64::from(self.prot) & READ_WRITE == READ_WRITE
    }

    /// Above the programs lies what serves their system calls.
    pub fn is_programs(&self) -> bool {
        self.start < layout::PERSONALITY / layout::PAGE
    }

    /// Its pages if they count for RLIMIT_DATA: what a program can write and nobody else sees, but for stacks.
    pub fn data(&self) -> u64 {
        const OTHER: u64 = flags::SHARED | flags::STACK;
        let data = u64::from(self.prot) & prot::WRITE != 0
            && u64::from(self.flags) & OTHER == 0
            && self.marks & BREAK == 0
            && self.is_programs();
        match data {
            true => self.pages(),
            false => 0,
        }
    }

    /// Its pages if they count for RLIMIT_MEMLOCK. (A stack's whole range is a region from the start: what is not touched of it is not memory.)
    pub fn locked(&self) -> u64 {
        match self.marks & LOCKED != 0 && !self.stack() {
            true => self.pages(),
            false => 0,
        }
    }

    pub(crate) fn stack(&self) -> bool {
        u64::from(self.flags) & flags::STACK != 0
    }

    /// The part within `start..end`.
    fn clip(&self, start: u64, end: u64) -> Region {
        let from = self.start.max(start);
        Region {
            start: from,
            end: self.end.min(end),
            offset: if self.object == ANONYMOUS {
                0
            } else {
                self.offset + (from - self.start)
            },
            ..*self
        }
    }

    /// Whether `next` goes on where this one ends, in every respect.
    fn continues(&self, next: &Region) -> bool {
        self.end == next.start
            && self.prot == next.prot
            && self.most == next.most
            && self.flags == next.flags
            && self.marks == next.marks
            && !self.stack()
            && self.object == next.object
            && (self.object == ANONYMOUS || self.offset + self.pages() == next.offset)
    }
}

/// (Anonymous memory has one, too.)
#[inline]
fn bit_of(object: u32) -> u64 {
    1 << (object % u64::BITS)
}

#[derive(Clone, Default)]
pub struct Regions {
    list: Vec<Region>,
    /// Where the last one was found: faults are near each other. Looked at before it is believed.
    last: Cell<usize>,
    /// Sums of [`Region::data`] and [`Region::locked`].
    data: u64,
    locked: u64,
    /// A bit for the number of each object that one of them shows or has shown.
    objects: u64,
}

impl Regions {
    pub fn with_capacity(count: usize) -> Regions {
        Regions {
            list: Vec::with_capacity(count),
            ..Regions::default()
        }
    }

    /// Pages that count for RLIMIT_DATA.
    pub fn data(&self) -> u64 {
        self.data
    }

    /// Pages that count for RLIMIT_MEMLOCK.
    pub fn locked(&self) -> u64 {
        self.locked
    }

    #[inline]
    fn comes(&mut self, region: &Region) {
        self.data += region.data();
        self.locked += region.locked();
        self.objects |= bit_of(region.object);
    }

    /// Whether one of them may show this object. Others' seldom do.
    #[inline]
    pub fn may_show(&self, object: u32) -> bool {
        self.objects & bit_of(object) != 0
    }

    #[inline]
    fn goes(&mut self, region: &Region) {
        self.data -= region.data();
        self.locked -= region.locked();
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Heap that the list takes while it moves to a place twice as long, if it may have to in the next request.
    #[inline]
    pub fn growth(&self) -> usize {
        match self.list.capacity() - self.list.len() >= MORE {
            true => 0,
            false => 2 * (self.list.capacity() + MORE) * size_of::<Region>(),
        }
    }

    /// Heap that the list has.
    pub fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Region>()
    }

    /// See that there is room for what one request makes. False: there is no memory.
    pub fn room(&mut self) -> bool {
        self.list.try_reserve(MORE).is_ok()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn as_slice(&self) -> &[Region] {
        &self.list
    }

    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.list.iter()
    }

    /// Index of the first region that ends behind `page`. Mostly it is where somebody looked last, or the next one.
    #[inline]
    fn at(&self, page: u64) -> usize {
        let last = self.last.get();
        if self.is_at(last, page) {
            return last;
        }
        self.search_at(page, last + 1)
    }

    fn search_at(&self, page: u64, next: usize) -> usize {
        let at = match self.is_at(next, page) {
            true => next,
            false => self.list.partition_point(|r| r.end <= page),
        };
        self.last.set(at);
        at
    }

    #[inline(always)]
    fn is_at(&self, at: usize, page: u64) -> bool {
        let behind = match self.list.get(at) {
            Some(region) => region.end > page,
            None => at == self.list.len(),
        };
        behind && (at == 0 || self.list[at - 1].end <= page)
    }

    #[inline]
    pub fn find(&self, page: u64) -> Option<&Region> {
        let holds = |region: &&Region| region.start <= page && page < region.end;
        let last = self.list.get(self.last.get()).filter(holds);
        last.or_else(|| self.search(page))
    }

    fn search(&self, page: u64) -> Option<&Region> {
        self.list.get(self.at(page)).filter(|r| r.start <= page)
    }

    /// The region that ends where one begins whose page was found last.
    #[inline]
    pub fn right_below(&self, region: &Region) -> Option<&Region> {
        let below = self.list.get(self.last.get().wrapping_sub(1));
        below.filter(|r| r.end == region.start)
    }

    /// The regions that overlap `start..end`, whole.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        self.list[self.at(start)..]
            .iter()
            .take_while(move |r| r.start < end)
    }

    /// The parts of regions within `start..end`.
    pub fn pieces(&self, start: u64, end: u64) -> impl Iterator<Item = Region> + '_ {
        self.overlapping(start, end)
            .map(move |r| r.clip(start, end))
    }

    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.list.get(self.at(start)).is_none_or(|r| r.start >= end)
    }

    /// Pages of `start..end` that belong to regions.
    pub fn covered(&self, start: u64, end: u64) -> u64 {
        self.pieces(start, end).map(|r| r.pages()).sum()
    }

    /// Add a region where nothing is.
    pub fn insert(&mut self, region: Region) {
        let at = self.at(region.start);
        debug_assert!(self.list.get(at).is_none_or(|r| r.start >= region.end));
        self.comes(&region);
        let before = at > 0 && self.list[at - 1].continues(&region);
        let after = self.list.get(at).is_some_and(|r| region.continues(r));
        match (before, after) {
            (true, true) => {
                self.list[at - 1].end = self.list[at].end;
                self.list.remove(at);
            }
            (true, false) => self.list[at - 1].end = region.end,
            (false, true) => {
                self.list[at].start = region.start;
                self.list[at].offset = region.offset;
            }
            (false, false) => self.list.insert(at, region),
        }
    }

    /// Put a copied region behind all others.
    pub fn push(&mut self, region: Region) {
        self.comes(&region);
        self.list.push(region);
    }

    /// Cut a region in two if `page` is inside one.
    fn split(&mut self, page: u64) {
        let at = self.at(page);
        if let Some(&region) = self.list.get(at) {
            if region.start < page {
                self.list[at].end = page;
                self.list.insert(at + 1, region.clip(page, region.end));
            }
        }
    }

    /// Take everything out of `start..end`, telling each piece.
    pub fn remove(&mut self, start: u64, end: u64, mut gone: impl FnMut(&Region)) {
        let at = self.at(start);
        let Some(region) = self.list.get_mut(at).filter(|r| r.start < end) else {
            return;
        };
        if region.end < end {
            self.remove_several(start, end, gone);
            return;
        }
        // One region only, the usual case: it goes, or is cut at one end, or in two.
        let whole = *region;
        let before = whole.start < start;
        let after = end < whole.end;
        match (before, after) {
            (false, false) => {
                self.list.remove(at);
            }
            (false, true) => *region = whole.clip(end, whole.end),
            (true, _) => region.end = start,
        }
        if before && after {
            self.list.insert(at + 1, whole.clip(end, whole.end));
        }
        let piece = whole.clip(start, end);
        self.goes(&piece);
        gone(&piece);
    }

    fn remove_several(&mut self, start: u64, end: u64, mut gone: impl FnMut(&Region)) {
        self.split(start);
        self.split(end);
        let from = self.at(start);
        let to = from
            + self.list[from..]
                .iter()
                .take_while(|r| r.start < end)
                .count();
        let (mut data, mut locked) = (0, 0);
        for region in self.list.drain(from..to) {
            data += region.data();
            locked += region.locked();
            gone(&region);
        }
        self.data -= data;
        self.locked -= locked;
    }

    /// The one region that holds all of `start..end`, and its index.
    #[inline]
    pub fn single(&self, start: u64, end: u64) -> Option<(usize, Region)> {
        let at = self.at(start);
        let region = self.list.get(at)?;
        (region.start <= start && end <= region.end).then_some((at, *region))
    }

    /// Give `start..end` within region `at` this protection; where a neighbour is alike, the boundary moves.
    pub fn protect_within(&mut self, at: usize, start: u64, end: u64, prot: u8) {
        let whole = self.list[at];
        let old = whole.clip(start, end);
        let new = Region { prot, ..old };
        self.goes(&old);
        self.comes(&new);
        let joins_before = whole.start == start && at > 0 && self.list[at - 1].continues(&new);
        let joins_after = end == whole.end
            && self
                .list
                .get(at + 1)
                .is_some_and(|next| new.continues(next));
        match (whole.start == start, end == whole.end) {
            (true, true) => {
                self.list[at] = new;
                if joins_after {
                    self.list[at].end = self.list[at + 1].end;
                    self.list.remove(at + 1);
                }
                if joins_before {
                    self.list[at - 1].end = self.list[at].end;
                    self.list.remove(at);
                }
            }
            (true, false) => {
                self.list[at] = whole.clip(end, whole.end);
                if joins_before {
                    self.list[at - 1].end = end;
                } else {
                    self.list.insert(at, new);
                }
            }
            (false, true) => {
                self.list[at].end = start;
                if joins_after {
                    self.list[at + 1].start = start;
                    self.list[at + 1].offset = new.offset;
                } else {
                    self.list.insert(at + 1, new);
                }
            }
            (false, false) => {
                self.list[at].end = start;
                self.list.insert(at + 1, whole.clip(end, whole.end));
                self.list.insert(at + 1, new);
            }
        }
    }

    /// Give everything in `start..end` this protection.
    pub fn protect(&mut self, start: u64, end: u64, prot: u8) {
        if let Some((at, _)) = self.single(start, end) {
            return self.protect_within(at, start, end, prot);
        }
        self.change(start, end, |region| region.prot = prot);
    }

    /// Change everything in `start..end`, but not where it lies. Two regions more at most.
    pub fn change(&mut self, start: u64, end: u64, how: impl Fn(&mut Region)) {
        self.split(start);
        self.split(end);
        let from = self.at(start);
        let mut to = from;
        while let Some(&old) = self.list.get(to).filter(|r| r.start < end) {
            let mut new = old;
            how(&mut new);
            self.goes(&old);
            self.comes(&new);
            self.list[to] = new;
            to += 1;
        }
        // Merge what has become alike, from the neighbour before to the one behind.
        let mut kept = from.saturating_sub(1);
        let last = to.min(self.list.len().saturating_sub(1));
        for next in kept + 1..=last {
            let region = self.list[next];
            if self.list[kept].continues(&region) {
                self.list[kept].end = region.end;
            } else {
                kept += 1;
                self.list[kept] = region;
            }
        }
        if kept < last {
            self.list.drain(kept + 1..=last);
        }
    }

    /// The highest place for `pages` in `low..high`.
    pub fn gap_below(&self, low: u64, high: u64, pages: u64) -> Option<u64> {
        let mut top = high;
        for region in self.list[..self.list.partition_point(|r| r.start < high)]
            .iter()
            .rev()
        {
            let floor = region.end.max(low);
            if top >= floor && top - floor >= pages {
                return Some(top - pages);
            }
            let start = if region.stack() {
                region.start.saturating_sub(STACK_GUARD)
            } else {
                region.start
            };
            top = top.min(start);
            if top < low {
                return None;
            }
        }
        (top >= low && top - low >= pages).then(|| top - pages)
    }

    /// The lowest place for `pages` in `low..high`.
    pub fn gap_above(&self, low: u64, high: u64, pages: u64) -> Option<u64> {
        let mut bottom = low;
        for region in &self.list[self.at(low)..] {
            let start = if region.stack() {
                region.start.saturating_sub(STACK_GUARD)
            } else {
                region.start
            };
            if start >= bottom && start - bottom >= pages {
                break;
            }
            bottom = bottom.max(region.end);
        }
        let end = bottom.checked_add(pages)?;
        (end <= high).then_some(bottom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, prot: u8) -> Region {
        Region {
            start,
            end,
            prot,
            most: 7,
            flags: 0,
            marks: 0,
            object: ANONYMOUS,
            offset: 0,
        }
    }

    fn list(r: &Regions) -> Vec<(u64, u64, u8)> {
        r.iter().map(|r| (r.start, r.end, r.prot)).collect()
    }

    #[test]
    fn neighbours_merge_and_split() {
        let mut r = Regions::default();
        r.insert(region(10, 20, 3));
        r.insert(region(30, 40, 3));
        r.insert(region(20, 30, 3));
        assert_eq!(list(&r), [(10, 40, 3)]);
        r.protect(15, 20, 1);
        assert_eq!(list(&r), [(10, 15, 3), (15, 20, 1), (20, 40, 3)]);
        r.protect(12, 25, 1);
        assert_eq!(list(&r), [(10, 12, 3), (12, 25, 1), (25, 40, 3)]);
        r.protect(10, 40, 3);
        assert_eq!(list(&r), [(10, 40, 3)]);
        let mut gone = Vec::new();
        r.remove(12, 14, |g| gone.push((g.start, g.end)));
        assert_eq!(gone, [(12, 14)]);
        assert_eq!(list(&r), [(10, 12, 3), (14, 40, 3)]);
        assert_eq!(r.covered(0, 20), 8);
        r.protect(0, 100, 5);
        assert_eq!(list(&r), [(10, 12, 5), (14, 40, 5)]);
        r.remove(0, 100, |_| ());
        assert!(r.is_empty());
        r.protect(0, 100, 5);
        assert!(r.is_empty());
    }

    #[test]
    fn pieces_are_cut_from_every_side() {
        let mut r = Regions::default();
        r.insert(region(10, 40, 3));
        let mut gone = Vec::new();
        for (start, end) in [
            (5, 12),
            (38, 50),
            (20, 30),
            (50, 60),
            (30, 38),
            (0, 11),
            (11, 30),
        ] {
            r.remove(start, end, |g| gone.push((g.start, g.end)));
        }
        assert_eq!(gone, [(10, 12), (38, 40), (20, 30), (30, 38), (12, 20)]);
        assert!(r.is_empty());
    }

    /// The sums are those of the list, whatever is done.
    #[test]
    fn data_and_locks_are_counted() {
        let mut r = Regions::default();
        let sums = |r: &Regions| {
            let all = |of: fn(&Region) -> u64| r.iter().map(of).sum::<u64>();
            assert_eq!(
                (r.data(), r.locked()),
                (all(Region::data), all(Region::locked))
            );
            (r.data(), r.locked())
        };
        r.insert(region(100, 140, 3));
        r.insert(region(150, 160, 1));
        assert_eq!(sums(&r), (40, 0));
        r.change(110, 155, |region| region.marks = LOCKED);
        assert_eq!(sums(&r), (40, 35));
        r.protect(120, 130, 1);
        assert_eq!(sums(&r), (30, 35));
        r.protect(150, 160, 3);
        assert_eq!(sums(&r), (40, 35));
        r.remove(105, 115, |_| ());
        assert_eq!(sums(&r), (30, 30));
        r.remove(125, 152, |_| ());
        assert_eq!(sums(&r), (18, 13));
        r.change(0, 1000, |region| region.marks = BREAK);
        assert_eq!(sums(&r), (0, 0));
        r.remove(0, 1000, |_| ());
        assert_eq!(sums(&r), (0, 0));
    }

    #[test]
    fn object_pieces_keep_their_offset() {
        let mut r = Regions::default();
        r.insert(Region {
            object: 3,
            offset: 7,
            ..region(10, 20, 1)
        });
        r.remove(12, 14, |_| ());
        let offsets: Vec<_> = r.iter().map(|r| (r.start, r.offset)).collect();
        assert_eq!(offsets, [(10, 7), (14, 11)]);
        r.insert(Region {
            object: 3,
            offset: 9,
            ..region(12, 14, 1)
        });
        assert_eq!(r.len(), 1);
        r.insert(Region {
            object: 3,
            offset: 99,
            ..region(20, 21, 1)
        });
        assert_eq!(r.len(), 2);
    }

    #[test]
    fn places_are_found_and_stacks_keep_their_guard() {
        let mut r = Regions::default();
        assert_eq!(r.gap_below(10, 1000, 5), Some(995));
        assert_eq!(r.gap_above(10, 1000, 5), Some(10));
        r.insert(Region {
            flags: flags::STACK as u8,
            ..region(900, 1000, 3)
        });
        assert_eq!(r.gap_below(10, 1000, 5), Some(900 - 256 - 5));
        r.insert(region(10, 20, 3));
        assert_eq!(r.gap_above(10, 1000, 5), Some(20));
        assert_eq!(r.gap_above(10, 1000, 700), None);
        assert_eq!(r.gap_below(10, 1000, 624), Some(20));
        assert_eq!(r.gap_below(10, 1000, 625), None);
        assert_eq!(r.gap_below(30, 100, 71), None);
    }
}
