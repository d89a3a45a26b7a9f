//! Which pages a file has: a few directly, the others in leaves of 512, so that a sparse file costs what it contains.

use crate::pool::Page;
use alloc::boxed::Box;
use alloc::vec::Vec;

const DIRECT: u64 = 8;
const LEAF: u64 = 512;

type Leaf = Box<[Page; LEAF as usize]>;

/// The pages of a file by their index (offset / 4096).
#[derive(Default)]
pub struct Content {
    direct: [Page; DIRECT as usize],
    /// By their numbers, in ascending order.
    leaves: Vec<(u64, Leaf)>,
    count: u64,
    /// All pages have indices below this.
    end: u64,
}

impl Content {
    /// How many pages there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All pages have indices below this.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Where the leaf with this number is, or would be. In a file without large holes that is its own number.
    #[inline]
    fn place(&self, number: u64) -> Result<usize, usize> {
        match self.leaves.get(number as usize) {
            Some(&(found, _)) if found == number => Ok(number as usize),
            _ => self.leaves.binary_search_by_key(&number, |leaf| leaf.0),
        }
    }

    /// The page at this index, 0 for a hole.
    #[inline]
    pub fn get(&self, index: u64) -> Page {
        if index < DIRECT {
            return self.direct[index as usize];
        }
        match self.place(index / LEAF) {
            Ok(place) => self.leaves[place].1[(index % LEAF) as usize],
            Err(_) => 0,
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
        let place = match self.place(index / LEAF) {
            Ok(place) => place,
            Err(place) => {
                let leaf = (index / LEAF, Box::new([0; LEAF as usize]));
                self.leaves.insert(place, leaf);
                place
            }
        };
        self.leaves[place].1[(index % LEAF) as usize] = page;
    }

    /// Take out the pages with indices from `from` up to and without `to`, the last first.
    pub fn take(&mut self, from: u64, to: u64, mut each: impl FnMut(Page)) {
        let whole = to >= self.end;
        let to = to.min(self.end);
        if from >= to || self.count == 0 {
            return;
        }
        let mut count = self.count;
        let first = self.leaves.partition_point(|leaf| leaf.0 < from / LEAF);
        let behind = self
            .leaves
            .partition_point(|leaf| leaf.0 <= (to - 1) / LEAF);
        for (number, leaf) in self.leaves[first..behind].iter_mut().rev() {
            let base = *number * LEAF;
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
            let kept = self
                .leaves
                .partition_point(|leaf| leaf.0 < from.div_ceil(LEAF));
            self.leaves.truncate(kept);
            self.end = from;
        }
        if count == 0 {
            self.leaves.clear();
        }
        // Leaves without pages go, whoever made holes of them.
        let behind = behind.min(self.leaves.len());
        let mut left = first;
        for at in first..behind {
            if self.leaves[at].1.iter().any(|&page| page != 0) {
                self.leaves.swap(left, at);
                left += 1;
            }
        }
        self.leaves.drain(left.min(behind)..behind);
    }

    /// The first index at or behind `from` that has a page.
    pub fn next_page(&self, from: u64) -> Option<u64> {
        if let Some(found) = (from..DIRECT).find(|&index| self.direct[index as usize] != 0) {
            return Some(found);
        }
        let first = self.leaves.partition_point(|leaf| leaf.0 < from / LEAF);
        for (number, leaf) in &self.leaves[first..] {
            let base = *number * LEAF;
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
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map() {
        let mut random = 77u64;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        for dense in [3000, 100_000, 1 << 40] {
            let mut content = Content::default();
            let mut model: BTreeMap<u64, Page> = BTreeMap::new();
            for step in 1..20_000u32 {
                let index = next(dense);
                match next(40) {
                    0 => {
                        let to = match next(3) {
                            0 => u64::MAX,
                            _ => index + next(2000),
                        };
                        let mut taken = Vec::new();
                        content.take(index, to, |page| taken.push(page));
                        let gone: Vec<u64> = model.range(index..to).map(|(&i, _)| i).collect();
                        let mut pages: Vec<Page> =
                            gone.iter().flat_map(|i| model.remove(i)).collect();
                        pages.reverse();
                        assert_eq!(taken, pages);
                    }
                    1 => {
                        let found = model.range(index..).next().map(|(&i, _)| i);
                        assert_eq!(content.next_page(index), found);
                        let mut hole = index;
                        while model.contains_key(&hole) {
                            hole += 1;
                        }
                        assert_eq!(content.next_hole(index), hole);
                    }
                    _ if content.get(index) == 0 => {
                        content.set(index, step);
                        assert_eq!(model.insert(index, step), None);
                    }
                    _ => assert_eq!(Some(&content.get(index)), model.get(&index)),
                }
                assert_eq!(content.count(), model.len() as u64);
                let mut leaves: Vec<u64> = model.keys().map(|index| index / LEAF).collect();
                leaves.dedup();
                assert!(content.leaves.len() <= leaves.len(), "step {step}");
            }
        }
    }

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
