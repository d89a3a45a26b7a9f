//! The frame allocator: who owns which frame of physical memory.
//!
//! One u32 per frame: a count of references (page slots of spaces and objects, or 1 for a frame lent to the nucleus), 0 for one that is free or not ours; and [`Free`], which knows those that are free.

use crate::accounts::{Account, Accounts};
use crate::free::Free;
use crate::nucleus::Frame;
use crate::pages::{Pages, Spare};
use alloc::vec;
use alloc::vec::Vec;

/// Most blocks that are kept aside.
const MOST_BLOCKS: usize = 1024;
/// Frames of a block for page tables.
pub const BLOCK: u32 = 16;
/// More pages than this are not taken away in one go (some 90,000 instructions), but so many at a time.
/// (Tests have few pages, and all of them shall come by here.)
pub const MANY: u64 = if cfg!(test) { 16 } else { 1024 };
pub const PIECE: u64 = if cfg!(test) { 6 } else { 256 };

pub struct Frames {
    /// Frame number of `counts[0]`.
    base: Frame,
    counts: Vec<u32>,
    /// Who pays for each that is not free.
    payers: Vec<Account>,
    pub accounts: Accounts,
    map: Free,
    free: usize,
    total: usize,
    /// What programs cause beside their pages (page tables, `vm`'s records of them) leaves this many free.
    floor: usize,
    /// Blocks of [`BLOCK`] frames in a row, kept for the next space's page tables. Counted as free.
    blocks: Vec<Frame>,
    /// Of page slots, kept for the next (see [`crate::pages`]).
    pub(crate) chunks: Spare,
    /// Slots that nobody uses any more, whose references are dropped piece by piece ([`Frames::drop_piece`]).
    ended: Vec<Pages>,
}

impl Frames {
    /// Free ranges and other ranges (first, count) that may be adopted.
    pub fn new(free: &[(Frame, u32)], adoptable: &[(Frame, u32)]) -> Frames {
        let all = || free.iter().chain(adoptable).filter(|r| r.1 > 0);
        let base = all().map(|r| r.0).min().unwrap_or(0);
        let end = all().map(|r| r.0.saturating_add(r.1)).max().unwrap_or(0);
        let mut map = Free::new((end - base) as usize);
        for range in free {
            let first = range.0.wrapping_sub(base) as usize;
            map.insert_all(first..first + range.1 as usize);
        }
        let count = free.iter().map(|r| r.1 as usize).sum();
        Frames {
            base,
            counts: vec![0; (end - base) as usize],
            payers: vec![0; (end - base) as usize],
            accounts: Accounts::new(),
            map,
            free: count,
            total: count,
            floor: 0,
            blocks: Vec::new(),
            chunks: Spare::default(),
            ended: Vec::new(),
        }
    }

    /// These slots are nobody's any more. Few are dropped now; of many, those that others do not hold as well are dropped later.
    pub fn drop_all(&mut self, mut pages: Pages) {
        if pages.resident() > MANY && pages.keep_alone() > MANY && self.ended.try_reserve(1).is_ok()
        {
            return self.ended.push(pages);
        }
        pages.drain(self, 0, u64::MAX);
    }

    /// Whether there are slots whose references are still to be dropped.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Drop some of them. False: there are none.
    pub fn drop_piece(&mut self) -> bool {
        let Some(mut pages) = self.ended.pop() else {
            return false;
        };
        let from = pages.last_of(0, u64::MAX, PIECE);
        if from == 0 {
            pages.drain(self, 0, u64::MAX);
            return true;
        }
        pages.drain(self, from, u64::MAX);
        // (There is room: it was there before.)
        self.ended.push(pages);
        true
    }

    /// Drop all of them.
    #[cold]
    pub fn drop_ended(&mut self) {
        while self.drop_piece() {}
    }

    /// Whether more than `reserve` frames are free, if need be after some of those have been dropped.
    #[inline]
    pub fn has_more_than(&mut self, reserve: usize) -> bool {
        self.free > reserve || self.drop_for(reserve)
    }

    /// Drop of them what it takes so that more than `reserve` frames are free.
    #[cold]
    fn drop_for(&mut self, reserve: usize) -> bool {
        while self.free <= reserve {
            if reserve == usize::MAX || !self.drop_piece() {
                return false;
            }
        }
        true
    }

    /// Frames that can be allocated.
    pub fn free(&self) -> usize {
        self.free
    }

    pub fn set_floor(&mut self, floor: usize) {
        self.floor = floor;
    }

    pub fn floor(&self) -> usize {
        self.floor
    }

    /// Frames managed since the start (without adopted ones).
    pub fn total(&self) -> usize {
        self.total
    }

    fn count(&mut self, frame: Frame) -> Option<&mut u32> {
        self.counts.get_mut(frame.checked_sub(self.base)? as usize)
    }

    /// References to a frame; frames that are not ours (the nucleus's) count as shared for ever.
    #[inline]
    pub fn references(&self, frame: Frame) -> u32 {
        match self.counts.get(frame.wrapping_sub(self.base) as usize) {
            Some(&count) if count != 0 => count,
            _ => u32::MAX,
        }
    }

    /// A frame with one reference, as long as more than `reserve` are free.
    #[inline]
    pub fn alloc(&mut self, reserve: usize) -> Option<Frame> {
        if !self.has_more_than(reserve) {
            return None;
        }
        let number = match self.map.take() {
            Some(number) => number,
            None => self.open_block()?,
        };
        self.counts[number] = 1;
        self.payers[number] = self.accounts.taken(1);
        self.free -= 1;
        Some(self.base + number as Frame)
    }

    /// Last of all come the blocks that were kept aside.
    #[cold]
    fn open_block(&mut self) -> Option<usize> {
        let first = (self.blocks.pop()? - self.base) as usize;
        self.map.insert_all(first..first + BLOCK as usize);
        self.map.take()
    }

    /// [`BLOCK`] frames in a row, each with one reference.
    pub fn alloc_block(&mut self, reserve: usize) -> Option<Frame> {
        let reserve = reserve.saturating_add(BLOCK as usize);
        if !self.has_more_than(reserve) {
            return None;
        }
        let first = match self.blocks.pop() {
            Some(first) => first,
            None => self.base + self.map.take_row(BLOCK as usize)? as Frame,
        };
        self.free -= BLOCK as usize;
        let payer = self.accounts.taken(BLOCK);
        let numbers = self.numbers(first);
        self.counts[numbers.clone()].fill(1);
        self.payers[numbers].fill(payer);
        Some(first)
    }

    /// A block comes back in one piece, each frame with its one reference.
    pub fn release_block(&mut self, first: Frame) {
        let numbers = self.numbers(first);
        self.counts[numbers.clone()].fill(0);
        for number in numbers {
            self.accounts.freed(self.payers[number], 1);
        }
        self.free += BLOCK as usize;
        if self.blocks.len() < MOST_BLOCKS {
            return self.blocks.push(first);
        }
        self.map.insert_all(self.numbers(first));
    }

    fn numbers(&self, first: Frame) -> core::ops::Range<usize> {
        let number = (first - self.base) as usize;
        number..number + BLOCK as usize
    }

    /// Those of these frames that were taken for one account, and that no more than `most` have, are another's from now on.
    pub fn hand_on(
        &mut self,
        frames: impl Iterator<Item = Frame>,
        most: u32,
        (from, to): (Account, Account),
    ) {
        let mut moved = 0;
        for frame in frames {
            let number = frame.wrapping_sub(self.base) as usize;
            let used = (1..=most).contains(self.counts.get(number).unwrap_or(&0));
            if used && self.payers[number] == from {
                self.payers[number] = to;
                moved += 1;
            }
        }
        self.accounts.handed_on(from, to, moved);
    }

    /// The chunks that are still to be dropped.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> impl Iterator<Item = &crate::pages::Chunk> {
        let all = self.ended.iter();
        all.flat_map(|pages| pages.overlapping(0, u64::MAX))
    }

    /// Frames of each account, counted anew.
    #[cfg(test)]
    pub fn held(&self) -> std::collections::BTreeMap<Account, u32> {
        let mut held = std::collections::BTreeMap::new();
        let used = self.counts.iter().zip(&self.payers);
        for (_, payer) in used.filter(|(count, _)| **count != 0) {
            *held.entry(*payer).or_default() += 1;
        }
        held
    }

    /// What is taken next is this account's → how many frames stay free then: `floor`, or more than there are if it can have no more.
    #[inline]
    pub fn pay(&mut self, account: Account, floor: usize) -> usize {
        self.accounts.payer = account;
        match self.accounts.is_full(account) && !self.drop_until_room(account) {
            true => usize::MAX,
            false => floor,
        }
    }

    /// Drop slots that nobody uses any more until an account is not full.
    #[cold]
    fn drop_until_room(&mut self, account: Account) -> bool {
        while self.drop_piece() {
            if !self.accounts.is_full(account) {
                return true;
            }
        }
        false
    }

    /// A frame from outside the free ranges becomes ours, with one reference. False if it is none that may be adopted.
    pub fn adopt(&mut self, frame: Frame) -> bool {
        let free = self.map.contains(frame.wrapping_sub(self.base) as usize);
        match self.count(frame) {
            Some(count) if *count == 0 && !free => {
                *count = 1;
                let number = (frame - self.base) as usize;
                self.payers[number] = self.accounts.taken(1);
                true
            }
            _ => false,
        }
    }

    #[inline]
    pub fn retain(&mut self, frame: Frame) {
        match self.counts.get_mut(frame.wrapping_sub(self.base) as usize) {
            Some(count) if *count != 0 => *count += 1,
            _ => {}
        }
    }

    /// [`Frames::retain`] frames in a row.
    pub fn retain_row(&mut self, row: &[Frame]) {
        let Some(counts) = self.row(row) else {
            return row.iter().for_each(|&frame| self.retain(frame));
        };
        for count in counts {
            if *count != 0 {
                *count += 1;
            }
        }
    }

    /// [`Frames::release`] frames in a row.
    pub fn release_row(&mut self, row: &[Frame]) {
        // Up to the first whose last reference this is.
        let shared = self.row(row).map_or(0, |counts| {
            let shared = counts.iter_mut().map_while(|count| {
                *count = (*count > 1).then(|| *count - 1)?;
                Some(())
            });
            shared.count()
        });
        for &frame in &row[shared..] {
            self.release(frame);
        }
    }

    /// Whether [`Frames::references`] knows all of these frames in a row.
    pub fn knows_row(&self, row: &[Frame]) -> bool {
        let start = row.first().map_or(0, |first| first.wrapping_sub(self.base));
        let counts = self.counts.get(start as usize..).unwrap_or(&[]);
        counts.len() >= row.len() && counts[..row.len()].iter().all(|&count| count != 0)
    }

    fn row(&mut self, row: &[Frame]) -> Option<&mut [u32]> {
        let start = row.first()?.wrapping_sub(self.base) as usize;
        self.counts.get_mut(start..start.checked_add(row.len())?)
    }

    /// [`Frames::release`], of frames that others mostly have references to as well.
    #[inline(always)]
    pub fn let_go(&mut self, frame: Frame) {
        match self.counts.get_mut(frame.wrapping_sub(self.base) as usize) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.release(frame);
            }
        }
    }

    /// Drop one reference; the last one frees the frame (then true).
    #[inline]
    pub fn release(&mut self, frame: Frame) -> bool {
        let number = frame.wrapping_sub(self.base) as usize;
        match self.counts.get_mut(number) {
            // Others have references as well.
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(count) if *count == 1 => {
                *count = 0;
                self.accounts.freed(self.payers[number], 1);
                self.map.insert(number);
                self.free += 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn frames_in_a_row_are_counted_together() {
        let mut f = Frames::new(&[(100, 40)], &[]);
        let mut row: Vec<Frame> = (0..20).map(|_| f.alloc(0).unwrap()).collect();
        row.sort_unstable();
        assert!(f.knows_row(&row) && f.knows_row(&[]));
        f.retain_row(&row);
        f.retain(row[7]);
        let counts = |f: &Frames| [row[0], row[7], row[19]].map(|frame| f.references(frame));
        assert_eq!(counts(&f), [2, 3, 2]);
        f.release_row(&row);
        assert_eq!((counts(&f), f.free()), ([1, 2, 1], 20));
        f.release_row(&row);
        assert_eq!((f.references(row[7]), f.free()), (1, 39));
        // What is nobody's, or not ours, stays so.
        assert!(!f.knows_row(&row[6..9]) && !f.knows_row(&[139, 140]) && !f.knows_row(&[5, 6]));
        f.retain_row(&[138, 139, 140, 141]);
        f.release_row(&[138, 139, 140, 141]);
        f.release_row(&[5, 6]);
        assert_eq!(f.free(), 39);
    }

    #[test]
    fn frames_go_round_and_are_counted() {
        let mut f = Frames::new(&[(100, 8), (200, 40)], &[(110, 4)]);
        assert_eq!(f.free(), 48);
        let a = f.alloc(0).unwrap();
        assert_eq!(f.references(a), 1);
        f.retain(a);
        assert!(!f.release(a));
        assert!(f.release(a));
        assert!(!f.release(a), "a free frame cannot be freed again");
        assert_eq!(f.free(), 48);
        let all: Vec<_> = core::iter::from_fn(|| f.alloc(0)).collect();
        assert_eq!(all.len(), 48);
        assert!(f.alloc(0).is_none());
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 48);
        all.iter().for_each(|&frame| assert!(f.release(frame)));
        assert_eq!(f.free(), 48);
        assert!(f.alloc(48).is_none());
        assert!(f.alloc(47).is_some());
    }

    #[test]
    fn blocks_are_kept_but_not_lost() {
        let mut f = Frames::new(&[(100, 40)], &[]);
        let block = f.alloc_block(0).unwrap();
        assert_eq!(f.free(), 24);
        f.release_block(block);
        assert_eq!(f.free(), 40);
        assert_eq!(f.alloc_block(0), Some(block));
        f.release_block(block);
        let all: Vec<_> = core::iter::from_fn(|| f.alloc(0)).collect();
        assert_eq!(all.len(), 40);
        assert_eq!(f.free(), 0);
    }

    #[test]
    fn foreign_frames_are_left_alone() {
        let mut f = Frames::new(&[(100, 8)], &[(110, 4)]);
        assert_eq!(f.references(5), u32::MAX);
        f.retain(5);
        assert!(!f.release(5));
        assert!(f.adopt(110));
        assert!(!f.adopt(110));
        assert_eq!(f.references(110), 1);
        assert!(f.release(110));
        assert_eq!(f.free(), 9);
    }
}
