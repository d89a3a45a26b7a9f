//! Which pages a file has: a few directly, the others in leaves of 512, so that a sparse file costs what it contains.

use crate::pool::Page;
use alloc::boxed::Box;
use alloc::vec::Vec;

const DIRECT: u64 = 8;
const LEAF: u64 = 512;

struct Leaf {
    /// It is for the indices from `LEAF` times this on.
    number: u64,
    /// How many pages it has.
    used: u32,
    pages: Box<[Page; LEAF as usize]>,
}

impl Leaf {
    fn new(number: u64) -> Leaf {
        let pages = Box::new([0; LEAF as usize]);
        Leaf {
            number,
            used: 0,
            pages,
        }
    }

    /// None: there is no memory.
    fn try_new(number: u64) -> Option<Leaf> {
        let mut pages = Vec::new();
        pages.try_reserve_exact(LEAF as usize).ok()?;
        pages.resize(LEAF as usize, 0);
        Some(Leaf {
            number,
            used: 0,
            pages: pages.into_boxed_slice().try_into().ok()?,
        })
    }
}

/// The pages of a file by their index (offset / 4096).
#[derive(Default)]
pub struct Content {
    direct: [Page; DIRECT as usize],
    /// By their numbers, in ascending order.
    leaves: Vec<Leaf>,
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
            Some(leaf) if leaf.number == number => Ok(number as usize),
            _ => self
                .leaves
                .binary_search_by_key(&number, |leaf| leaf.number),
        }
    }

    /// The page at this index, 0 for a hole.
    #[inline]
    pub fn get(&self, index: u64) -> Page {
        if index < DIRECT {
            return self.direct[index as usize];
        }
        match self.place(index / LEAF) {
            Ok(place) => self.leaves[place].pages[(index % LEAF) as usize],
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
                self.leaves.insert(place, Leaf::new(index / LEAF));
                place
            }
        };
        let leaf = &mut self.leaves[place];
        leaf.used += 1;
        leaf.pages[(index % LEAF) as usize] = page;
    }

    /// Take out the pages with indices from `from` up to and without `to`, the last first.
    pub fn take(&mut self, from: u64, to: u64, mut each: impl FnMut(Page)) {
        let whole = to >= self.end;
        let to = to.min(self.end);
        if from >= to || self.count == 0 {
            return;
        }
        let mut count = self.count;
        let first = self.first_leaf(from / LEAF);
        let behind = self.first_leaf((to - 1) / LEAF + 1);
        for leaf in self.leaves[first..behind].iter_mut().rev() {
            let base = leaf.number * LEAF;
            let low = from.saturating_sub(base).min(LEAF) as usize;
            let high = (to - base).min(LEAF) as usize;
            for page in leaf.pages[low..high].iter_mut().rev() {
                if *page != 0 {
                    each(core::mem::take(page));
                    leaf.used -= 1;
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
            self.leaves.truncate(self.first_leaf(from.div_ceil(LEAF)));
            self.end = from;
        }
        if count == 0 {
            self.leaves.clear();
        }
        // Leaves without pages go, whoever made holes of them.
        let behind = behind.min(self.leaves.len());
        let mut left = first;
        for at in first..behind {
            if self.leaves[at].used != 0 {
                self.leaves.swap(left, at);
                left += 1;
            }
        }
        self.leaves.drain(left.min(behind)..behind);
    }

    /// Take out the pages with indices from `from` on, as they are. None: there is no memory; nothing has changed.
    pub fn split_off(&mut self, from: u64) -> Option<Content> {
        let mut rest = Content {
            end: self.end,
            ..Content::default()
        };
        if from >= self.end {
            rest.end = 0;
            return Some(rest);
        }
        let first = self.first_leaf(from.div_ceil(LEAF));
        let cut = match self.place(from / LEAF) {
            Ok(place) if place < first => Some((place, Leaf::try_new(from / LEAF)?)),
            _ => None,
        };
        rest.leaves
            .try_reserve_exact(self.leaves.len() - first + 1)
            .ok()?;
        if let Some((place, mut leaf)) = cut {
            let (low, cut) = ((from % LEAF) as usize, &mut self.leaves[place]);
            leaf.pages[low..].swap_with_slice(&mut cut.pages[low..]);
            leaf.used = leaf.pages.iter().filter(|&&page| page != 0).count() as u32;
            cut.used -= leaf.used;
            rest.leaves.push(leaf);
        }
        rest.leaves.extend(self.leaves.drain(first..));
        if self.leaves.last().is_some_and(|leaf| leaf.used == 0) {
            self.leaves.pop();
        }
        let low = from.min(DIRECT) as usize;
        rest.direct[low..].swap_with_slice(&mut self.direct[low..]);
        let direct = rest.direct.iter().filter(|&&page| page != 0).count() as u64;
        let in_leaves = rest.leaves.iter().map(|leaf| u64::from(leaf.used));
        rest.count = direct + in_leaves.sum::<u64>();
        (self.count, self.end) = (self.count - rest.count, from);
        Some(rest)
    }

    /// Take out the last pages, the last first, about as many as this.
    pub fn take_last(&mut self, most: u64, each: impl FnMut(Page)) {
        let end = self.end;
        let from = match self.leaves.last() {
            // Whatever holes there are, no more than one leaf is looked at.
            Some(leaf) if u64::from(leaf.used) > most => {
                let there = leaf.pages.iter().enumerate().rev();
                let there = there.filter(|(_, &page)| page != 0).take(most as usize);
                leaf.number * LEAF + there.last().map_or(0, |(at, _)| at as u64)
            }
            Some(leaf) => leaf.number * LEAF,
            None => 0,
        };
        // (What is direct lies at the beginning of the first leaf.)
        let from = if from < DIRECT { 0 } else { from };
        self.take(from, end, each);
    }

    #[cfg(test)]
    pub(crate) fn pages(&self) -> impl Iterator<Item = Page> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let index = self.next_page(at)?;
            at = index + 1;
            Some(self.get(index))
        })
    }

    /// Where the first leaf is whose number is not below this.
    fn first_leaf(&self, number: u64) -> usize {
        self.leaves.partition_point(|leaf| leaf.number < number)
    }

    /// The first index at or behind `from` that has a page.
    pub fn next_page(&self, from: u64) -> Option<u64> {
        if let Some(found) = (from..DIRECT).find(|&index| self.direct[index as usize] != 0) {
            return Some(found);
        }
        for leaf in &self.leaves[self.first_leaf(from / LEAF)..] {
            let base = leaf.number * LEAF;
            let low = from.saturating_sub(base).min(LEAF) as usize;
            if let Some(found) = leaf.pages[low..].iter().position(|&page| page != 0) {
                return Some(base + (low + found) as u64);
            }
        }
        None
    }

    /// The first index at or behind `from` that has none.
    pub fn next_hole(&self, from: u64) -> u64 {
        let mut index = from;
        while self.get(index) != 0 {
            // Leaves without holes are passed over.
            index = match self.place(index / LEAF) {
                Ok(place) if u64::from(self.leaves[place].used) == LEAF => {
                    (index / LEAF + 1) * LEAF
                }
                _ => index + 1,
            };
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
                    2 if next(3) == 0 => {
                        let mut rest = content.split_off(index).unwrap();
                        let gone = model.split_off(&index);
                        assert_eq!(rest.count(), gone.len() as u64);
                        assert!(content.end() <= index);
                        for (&index, &page) in &gone {
                            assert_eq!((rest.get(index), content.get(index)), (page, 0));
                        }
                        let mut taken = Vec::new();
                        while rest.count() > 0 {
                            let before = taken.len();
                            rest.take_last(16, |page| taken.push(page));
                            assert!(taken.len() - before <= 16 + DIRECT as usize);
                        }
                        assert!(rest.leaves.is_empty());
                        let pages: Vec<Page> = gone.into_values().rev().collect();
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
