//! Sets of block numbers as runs.

use alloc::collections::BTreeMap;

/// Block numbers; runs do not touch each other.
#[derive(Debug, Default)]
pub struct Runs {
    all: BTreeMap<u64, u64>,
    /// How many blocks there are in them.
    count: u64,
    /// The one that was asked for or made last; empty: none.
    last: (u64, u64),
}

impl Runs {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many blocks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The run that holds a block, or the next one behind it.
    pub fn next(&self, page: u64) -> Option<(u64, u64)> {
        let before = self.all.range(..=page).next_back();
        let before = before.filter(|(_, end)| **end > page);
        before
            .or_else(|| self.all.range(page..).next())
            .map(|(start, end)| (*start, *end))
    }

    /// All of them are there.
    #[inline]
    pub fn contain(&mut self, from: u64, to: u64) -> bool {
        match self.last {
            (start, end) if start <= from && to <= end => true,
            _ if self.is_behind_last(from) => false,
            _ => self.search(from, to),
        }
    }

    /// What is directly behind a run is in none.
    #[inline]
    fn is_behind_last(&self, page: u64) -> bool {
        self.last.1 == page && self.last.0 < page
    }

    #[inline(never)]
    fn search(&mut self, from: u64, to: u64) -> bool {
        let before = self.all.range(..=from).next_back();
        let found = before.filter(|(_, end)| **end >= to);
        if let Some((&start, &end)) = found {
            self.last = (start, end);
        }
        found.is_some()
    }

    /// Add a block. False: it was there.
    pub fn insert(&mut self, page: u64) -> bool {
        let before = match self.is_behind_last(page) {
            true => Some(self.last),
            false => self.all.range(..=page).next_back().map(|(a, b)| (*a, *b)),
        };
        let (mut start, mut end) = (page, page + 1);
        if let Some((first, behind)) = before {
            if behind > page {
                return false;
            }
            if behind == page {
                start = first;
            }
        }
        if let Some(behind) = self.all.remove(&end) {
            end = behind;
        }
        self.all.insert(start, end);
        self.last = (start, end);
        self.count += 1;
        true
    }

    /// Take blocks out; how many were there.
    pub fn remove(&mut self, from: u64, to: u64) -> u64 {
        let mut removed = 0;
        if from >= to {
            return removed;
        }
        self.last = (0, 0);
        while let Some((start, end)) = self.next(from).filter(|(start, _)| *start < to) {
            self.all.remove(&start);
            if start < from {
                self.all.insert(start, from);
            }
            if end > to {
                self.all.insert(to, end);
            }
            removed += end.min(to) - start.max(from);
        }
        self.count -= removed;
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agree_with_a_set_of_pages() {
        let (mut runs, mut model) = (Runs::default(), BTreeSet::new());
        let mut random = 7u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let page = (random >> 33) % 90;
            match random >> 60 {
                0..=9 => assert_eq!(runs.insert(page), model.insert(page)),
                _ => {
                    let to = page + (random >> 50) % 12;
                    let gone: Vec<u64> = model.range(page..to.max(page)).copied().collect();
                    assert_eq!(runs.remove(page, to), gone.len() as u64);
                    gone.iter().for_each(|page| assert!(model.remove(page)));
                }
            }
            assert_eq!(runs.contain(page, page + 1), model.contains(&page));
            let three = (page..page + 3).all(|page| model.contains(&page));
            assert_eq!(runs.contain(page, page + 3), three);
            let next = runs.next(page).map(|(start, _)| start.max(page));
            assert_eq!(next, model.range(page..).next().copied());
            assert_eq!(runs.is_empty(), model.is_empty());
            assert_eq!(runs.count(), model.len() as u64);
        }
    }
}
