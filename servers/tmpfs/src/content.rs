//! Which pages a file has: a few directly, the others in leaves of 512, so that a sparse file costs what it contains.

use crate::pool::Page;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

const DIRECT: u64 = 8;
const LEAF: u64 = 512;

/// The pages of a file by their index (offset / 4096).
#[derive(Default)]
pub struct Content {
    direct: [Page; DIRECT as usize],
    leaves: BTreeMap<u64, Box<[Page; LEAF as usize]>>,
    count: u64,
    /// All pages have indices below this.
    end: u64,
}

impl Content {
    /// How many pages there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The page at this index, 0 for a hole.
    pub fn get(&self, index: u64) -> Page {
        if index < DIRECT {
            return self.direct[index as usize];
        }
        match self.leaves.get(&(index / LEAF)) {
            Some(leaf) => leaf[(index % LEAF) as usize],
            None => 0,
        }
    }

    /// Put a page into a hole.
    pub fn set(&mut self, index: u64, page: Page) {
        self.count += 1;
        self.end = self.end.max(index + 1);
        if index < DIRECT {
            self.direct[index as usize] = page;
            return;
        }
        let leaf = self
            .leaves
            .entry(index / LEAF)
            .or_insert_with(|| Box::new([0; LEAF as usize]));
        leaf[(index % LEAF) as usize] = page;
    }

    /// Take out the pages with indices from `from` up to and without `to`, the last first.
    pub fn take(&mut self, from: u64, to: u64, mut each: impl FnMut(Page)) {
        let whole = to >= self.end;
        let to = to.min(self.end);
        if from >= to || self.count == 0 {
            return;
        }
        let mut count = self.count;
        let leaves = self.leaves.range_mut(from / LEAF..=(to - 1) / LEAF);
        for (&number, leaf) in leaves.rev() {
            let base = number * LEAF;
            let low = from.saturating_sub(base).min(LEAF) as usize;
            let high = (to - base).min(LEAF) as usize;
            for page in leaf[low..high].iter_mut().rev() {
                if *page != 0 {
                    each(core::mem::take(page));
                    count -= 1;
                }
            }
        }
        let (low, high) = (from.min(DIRECT) as usize, to.min(DIRECT) as usize);
        for page in self.direct[low..high].iter_mut().rev() {
            if *page != 0 {
                each(core::mem::take(page));
                count -= 1;
            }
        }
        self.count = count;
        if whole {
            // Leaves that lie behind the new end go.
            self.leaves.split_off(&from.div_ceil(LEAF));
            self.end = from;
        }
        if count == 0 {
            self.leaves.clear();
        }
    }

    /// The first index at or behind `from` that has a page.
    pub fn next_page(&self, from: u64) -> Option<u64> {
        if let Some(found) = (from..DIRECT).find(|&index| self.direct[index as usize] != 0) {
            return Some(found);
        }
        for (&number, leaf) in self.leaves.range(from / LEAF..) {
            let base = number * LEAF;
            let low = from.saturating_sub(base).min(LEAF) as usize;
            if let Some(found) = leaf[low..].iter().position(|&page| page != 0) {
                return Some(base + (low + found) as u64);
            }
        }
        None
    }

    /// The first index at or behind `from` that has none.
    pub fn next_hole(&self, from: u64) -> u64 {
        let mut index = from;
        while self.get(index) != 0 {
            index += 1;
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_and_taken() {
        let mut content = Content::default();
        let places = [0, 7, 8, 511, 512, 5000, 1 << 40];
        for (number, &index) in places.iter().enumerate() {
            content.set(index, number as Page + 1);
        }
        assert_eq!(content.count(), 7);
        let mut at = 0;
        for &index in &places {
            assert_eq!(content.next_page(at), Some(index));
            at = index + 1;
        }
        assert_eq!(content.next_page(at), None);
        assert_eq!(content.next_hole(7), 9);
        assert_eq!(content.next_hole(511), 513);
        let mut taken = Vec::new();
        content.take(8, 5000, |page| taken.push(page));
        assert_eq!(taken, [5, 4, 3]);
        content.take(1, u64::MAX, |page| taken.push(page));
        assert_eq!(taken, [5, 4, 3, 7, 6, 2]);
        assert_eq!((content.count(), content.get(0)), (1, 1));
        assert!(content.leaves.is_empty() || content.leaves.len() == 1);
    }
}
