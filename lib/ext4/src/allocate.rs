//! Blocks: finding free ones close together, taking them and giving them back.
//!
//! What is freed may not be used again before the transaction that freed it is in the log, because file data goes to the device without waiting for the log: a cut of power
//! would otherwise leave old metadata that points at new data. Such blocks are [`Busy`], free in the bitmap and not to be had. So are blocks that are reserved
//! for data on its way to the device, which no transaction knows before the data is there.

use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::extent::Place;
use crate::fs::{Fs, Run};
use crate::group::{BLOCKS_UNINIT, FREE_BLOCKS};
use crate::inode::Inode;
use crate::verify::bit;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Default)]
pub(crate) struct Busy {
    /// Start and length; apart from each other.
    runs: BTreeMap<u64, u32>,
    /// For each group: no free run is longer. Only to skip groups in which there is nothing to find.
    longest: Vec<u32>,
}

impl Busy {
    pub(crate) fn new(groups: u32) -> Busy {
        Busy {
            runs: BTreeMap::new(),
            longest: vec![u32::MAX; groups as usize],
        }
    }

    pub(crate) fn insert(&mut self, run: Run) {
        self.runs.insert(run.start, run.len);
    }

    pub(crate) fn remove(&mut self, run: Run) -> bool {
        let there = self.runs.get(&run.start) == Some(&run.len);
        if there {
            self.runs.remove(&run.start);
        }
        there
    }

    pub(crate) fn has(&self, run: Run) -> bool {
        self.runs.get(&run.start) == Some(&run.len)
    }

    /// The first busy run that ends behind `at`.
    pub(crate) fn next(&self, at: u64) -> Option<(u64, u64)> {
        let before = self.runs.range(..=at).next_back();
        let after = self.runs.range(at + 1..).next();
        before
            .into_iter()
            .chain(after)
            .map(|(&start, &len)| (start, start + u64::from(len)))
            .find(|&(_, end)| end > at)
    }
}

/// The first bit of the wanted value in `from..to`, or `to`.
pub(crate) fn next_bit(map: &[u8], from: u32, to: u32, value: bool) -> u32 {
    let skip = if value { 0 } else { 0xFF };
    let mut at = from;
    while at < to {
        if at.is_multiple_of(8) {
            let rest = map.get(at as usize / 8..).unwrap_or(&[]);
            let words = rest
                .chunks_exact(8)
                .take_while(|word| **word == [skip; 8])
                .count();
            at += 64 * words as u32;
            if words == 0 && rest.first() == Some(&skip) {
                at += 8;
                continue;
            }
            if at >= to {
                break;
            }
        }
        if bit(map, at) == value {
            return at;
        }
        at += 1;
    }
    to
}

/// Sets or clears bits; false if one of them was so already.
pub(crate) fn set_bits(map: &mut [u8], from: u32, len: u32, value: bool) -> bool {
    let mut at = from;
    while at < from + len {
        let byte = &mut map[at as usize / 8];
        let count = (8 - at % 8).min(from + len - at);
        let mask = (((1u16 << count) - 1) << (at % 8)) as u8;
        if *byte & mask != if value { 0 } else { mask } {
            return false;
        }
        *byte ^= mask;
        at += count;
    }
    true
}

impl Fs {
    /// The bitmap of a group, made if it was never written.
    fn block_bitmap(&mut self, number: u32) -> Result<u64, Error> {
        let group = self.group(number)?;
        let block = group.block_bitmap;
        if group.flags & BLOCKS_UNINIT == 0 {
            self.checked(block, Kind::BlockBitmap(number))?;
            return Ok(block);
        }
        let len = self.shape.group_len(number);
        let mut map = self.new_map(number);
        let bits = 8 * map.len() as u32;
        let used: u32 = map.iter().map(|byte| byte.count_ones()).sum();
        if len - used != group.free_blocks {
            return damaged("free blocks of a new group", u64::from(number));
        }
        set_bits(&mut map, len, bits - len, true);
        self.cache.create(block, Kind::BlockBitmap(number));
        self.cache.write(block, 0, &map)?;
        self.clear_group_flag(number, BLOCKS_UNINIT)?;
        Ok(block)
    }

    /// The bitmap of a group in which nothing was ever taken, without what lies behind its end.
    fn new_map(&self, number: u32) -> Vec<u8> {
        let (start, len) = (self.shape.group_start(number), self.shape.group_len(number));
        let mut map = vec![0u8; self.shape.block_size];
        for (from, to) in self.zones.within(start, start + u64::from(len)) {
            set_bits(&mut map, (from - start) as u32, (to - from) as u32, true);
        }
        map
    }

    /// What is taken in a group; nothing is changed.
    pub(crate) fn map_of(&self, number: u32) -> Result<Vec<u8>, Error> {
        let group = self.group(number)?;
        match group.flags & BLOCKS_UNINIT {
            0 => Ok(self
                .checked(group.block_bitmap, Kind::BlockBitmap(number))?
                .to_vec()),
            _ => Ok(self.new_map(number)),
        }
    }

    pub(crate) fn begin_group(&mut self, number: u32) -> Result<(), Error> {
        self.block_bitmap(number).map(|_| ())
    }

    /// In one group from `from` on: at the goal itself whatever is free there, else the first run of `want`, else the longest.
    fn search(
        &mut self,
        number: u32,
        from: u32,
        want: u32,
        goal: bool,
    ) -> Result<Option<Run>, Error> {
        let block = self.block_bitmap(number)?;
        let map = &self.cache.slot(block)?.data;
        let (start, len) = (self.shape.group_start(number), self.shape.group_len(number));
        let mut best: Option<Run> = None;
        let mut at = from;
        while at < len {
            at = next_bit(map, at, len, false);
            let end = next_bit(map, at, len.min(at.saturating_add(want)), true);
            // What of it is busy is left out.
            let mut free = (start + u64::from(at), start + u64::from(end));
            while free.0 < free.1 {
                let stop = match self.busy.next(free.0) {
                    Some((busy, behind)) if busy <= free.0 => {
                        free.0 = behind;
                        continue;
                    }
                    Some((busy, _)) => busy.min(free.1),
                    None => free.1,
                };
                let run = Run {
                    start: free.0,
                    len: (stop - free.0) as u32,
                };
                let at_goal = goal && run.start == start + u64::from(from);
                if run.len >= want || at_goal {
                    return Ok(Some(run));
                }
                if best.is_none_or(|best| best.len < run.len) {
                    best = Some(run);
                }
                free.0 = stop;
            }
            at = end.max((free.0 - start).min(u64::from(len)) as u32);
            if goal && at > from.saturating_add(4096) {
                break;
            }
        }
        if from == 0 && !goal {
            self.busy.longest[number as usize] = best.map_or(0, |best| best.len);
        }
        Ok(best)
    }

    /// Up to `want` free blocks beside each other, near `goal`. They are not taken yet.
    pub(crate) fn find_free(&mut self, goal: u64, want: u32) -> Result<Run, Error> {
        let want = want.clamp(1, 32767);
        let goal = goal.clamp(self.shape.first_data, self.shape.blocks - 1);
        let (groups, first) = (self.shape.groups, self.shape.group_of(goal));
        let from = (goal - self.shape.group_start(first)) as u32;
        if self.group(first)?.free_blocks != 0 && self.busy.longest[first as usize] != 0 {
            if let Some(run) = self.search(first, from, want, true)? {
                if run.start == goal || run.len >= want {
                    return Ok(run);
                }
            }
        }
        let mut best: Option<Run> = None;
        for least in [want, 1] {
            for step in 0..groups {
                let number = (first + step) % groups;
                let group = self.group(number)?;
                if group.free_blocks < least || self.busy.longest[number as usize] < least {
                    continue;
                }
                match self.search(number, 0, want, false)? {
                    Some(run) if run.len >= least => return Ok(run),
                    Some(run) if best.is_none_or(|best| best.len < run.len) => best = Some(run),
                    _ => {}
                }
            }
            if let Some(best) = best {
                return Ok(best);
            }
        }
        if self.frees_wait() {
            return Err(Error::CommitFirst);
        }
        Err(Error::NoSpace)
    }

    /// Where the blocks of a file from `at` on would be best.
    pub(crate) fn goal(&self, inode: &Inode, at: u32) -> Result<u64, Error> {
        if at != 0 && inode.flags & crate::inode::EXTENTS != 0 {
            let before = self.find(inode, at - 1)?;
            if let Place::Written(block) | Place::Unwritten(block) = before.place {
                return Ok(block + 1);
            }
        }
        Ok(self
            .shape
            .group_start((inode.ino - 1) / self.shape.group_inodes))
    }

    /// Marks a run in the bitmaps of its groups.
    fn mark(&mut self, run: Run, used: bool) -> Result<(), Error> {
        if !self.zones.free_of(run.start, u64::from(run.len)) {
            return damaged("blocks of the file system itself", run.start);
        }
        let (mut start, mut left) = (run.start, run.len);
        while left != 0 {
            let number = self.shape.group_of(start);
            let from = (start - self.shape.group_start(number)) as u32;
            let len = left.min(self.shape.group_len(number) - from);
            let block = self.block_bitmap(number)?;
            let (first, last) = (from as usize / 8, (from + len - 1) as usize / 8);
            let mut bytes = self.cache.slot(block)?.data[first..=last].to_vec();
            if !set_bits(&mut bytes, from % 8, len, used) {
                return damaged("blocks free and in use at once", start);
            }
            self.cache.write(block, first, &bytes)?;
            let free = self.group(number)?.free_blocks;
            let now = if used {
                free.checked_sub(len)
            } else {
                Some(free + len)
            };
            let Some(now) = now else {
                return damaged("free blocks of a group", u64::from(number));
            };
            self.set_group_number(number, FREE_BLOCKS, now)?;
            if used {
                self.free_blocks = self.free_blocks.saturating_sub(u64::from(len));
            } else {
                self.free_blocks += u64::from(len);
            }
            start += u64::from(len);
            left -= len;
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, run: Run) -> Result<(), Error> {
        self.op.took.push(run);
        self.mark(run, true)
    }

    /// Free from the next commit on.
    pub(crate) fn give(&mut self, run: Run) -> Result<(), Error> {
        self.mark(run, false)?;
        self.busy.insert(run);
        self.op.frees.push(run);
        Ok(())
    }

    /// A busy run that may be had again.
    pub(crate) fn no_longer_busy(&mut self, run: Run) -> bool {
        self.look_again(run);
        self.busy.remove(run)
    }

    /// In the groups of this run there may be more than was seen last.
    pub(crate) fn look_again(&mut self, run: Run) {
        let first = self.shape.group_of(run.start);
        let last = self
            .shape
            .group_of(run.start + u64::from(run.len.max(1)) - 1);
        for group in first..=last {
            if let Some(longest) = self.busy.longest.get_mut(group as usize) {
                *longest = u32::MAX;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_runs() {
        let mut map = [0u8; 8];
        assert!(set_bits(&mut map, 3, 20, true));
        assert!(!set_bits(&mut map, 22, 2, true) && !set_bits(&mut map, 23, 1, false));
        assert_eq!(next_bit(&map, 0, 64, true), 3);
        assert_eq!(next_bit(&map, 3, 64, false), 23);
        assert_eq!(next_bit(&map, 23, 40, true), 40);
        let mut busy = Busy::new(1);
        busy.insert(Run { start: 10, len: 5 });
        busy.insert(Run { start: 20, len: 1 });
        assert_eq!(busy.next(3), Some((10, 15)));
        assert_eq!(busy.next(14), Some((10, 15)));
        assert_eq!(busy.next(15), Some((20, 21)));
        assert_eq!(busy.next(21), None);
        assert!(!busy.remove(Run { start: 10, len: 4 }) && busy.remove(Run { start: 10, len: 5 }));
    }
}
