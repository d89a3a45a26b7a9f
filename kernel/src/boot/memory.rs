//! Free physical memory while the nucleus starts: ranges of whole frames, from which runs are taken and never given back. What is left becomes the memory
//! manager's.

use crate::arch::Frame;

/// Most separate ranges (the nucleus tells no more to the first domain).
pub const RANGES_MAX: usize = 32;
const PAGE: u64 = cairn_abi::layout::PAGE;

/// Frames `first..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub first: Frame,
    pub end: Frame,
}

impl Frames {
    pub fn count(&self) -> u32 {
        self.end - self.first
    }

    /// The whole frames within physical addresses.
    pub fn inside(start: u64, end: u64) -> Frames {
        let limit = Frame::MAX as u64;
        let first = start.div_ceil(PAGE).min(limit) as Frame;
        let end = (end / PAGE).min(limit) as Frame;
        Frames {
            first,
            end: end.max(first),
        }
    }

    /// The frames that physical addresses touch.
    pub fn around(start: u64, end: u64) -> Frames {
        let limit = Frame::MAX as u64;
        let first = (start / PAGE).min(limit) as Frame;
        let end = end.div_ceil(PAGE).min(limit) as Frame;
        Frames {
            first,
            end: end.max(first),
        }
    }
}

/// The free ranges.
#[derive(Clone, Debug, Default)]
pub struct FreeMemory {
    ranges: [Frames; RANGES_MAX],
    count: usize,
}

impl FreeMemory {
    pub fn ranges(&self) -> &[Frames] {
        &self.ranges[..self.count]
    }

    /// Add a range; if there are too many the smallest one is forgotten.
    pub fn add(&mut self, range: Frames) {
        if range.count() == 0 {
            return;
        }
        if self.count == RANGES_MAX {
            let Some(smallest) = (0..self.count).min_by_key(|&i| self.ranges[i].count()) else {
                return;
            };
            if self.ranges[smallest].count() < range.count() {
                self.ranges[smallest] = range;
            }
            return;
        }
        self.ranges[self.count] = range;
        self.count += 1;
    }

    /// These frames are memory, whatever a map says of them or of some of them.
    pub fn include(&mut self, range: Frames) {
        self.remove(range);
        self.add(range);
    }

    /// These frames are in use.
    pub fn remove(&mut self, used: Frames) {
        let mut i = 0;
        while i < self.count {
            let range = self.ranges[i];
            let before = Frames {
                first: range.first,
                end: range.end.min(used.first).max(range.first),
            };
            let after = Frames {
                first: range.first.max(used.end).min(range.end),
                end: range.end,
            };
            if before.count() + after.count() >= range.count() {
                i += 1;
                continue;
            }
            self.count -= 1;
            self.ranges[i] = self.ranges[self.count];
            self.add(before);
            self.add(after);
        }
    }

    /// Take `count` frames in a row, below `limit`, from the smallest range that has them. They hold what they held.
    pub fn take(&mut self, count: u32, limit: Frame) -> Option<Frame> {
        let range = self.ranges[..self.count]
            .iter_mut()
            .filter(|range| {
                let end = range.first.checked_add(count);
                range.count() >= count && end.is_some_and(|end| end <= limit)
            })
            .min_by_key(|range| range.count())?;
        let first = range.first;
        range.first += count;
        Some(first)
    }

    /// The largest range first.
    pub fn sort(&mut self) {
        self.ranges[..self.count].sort_unstable_by_key(|range| core::cmp::Reverse(range.count()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: Frame, end: Frame) -> Frames {
        Frames { first, end }
    }

    #[test]
    fn rounds_to_frames() {
        assert_eq!(Frames::inside(0x1001, 0x3fff), range(2, 3));
        assert_eq!(Frames::around(0x1001, 0x3001), range(1, 4));
        assert_eq!(Frames::inside(0x1001, 0x1002).count(), 0);
        assert_eq!(Frames::inside(0, u64::MAX).end, Frame::MAX);
    }

    #[test]
    fn includes_what_the_map_has_in_part() {
        let mut memory = FreeMemory::default();
        memory.add(range(10, 20));
        memory.include(range(18, 25));
        memory.sort();
        assert_eq!(memory.ranges(), [range(10, 18), range(18, 25)]);
    }

    #[test]
    fn removes_and_splits() {
        let mut free = FreeMemory::default();
        free.add(range(0, 100));
        free.add(range(200, 300));
        free.remove(range(10, 20));
        free.remove(range(90, 210));
        free.remove(range(299, 400));
        free.remove(range(150, 160));
        let mut seen = free.ranges().to_vec();
        seen.sort_by_key(|r| r.first);
        assert_eq!(seen, [range(0, 10), range(20, 90), range(210, 299)]);
        free.remove(range(0, 1000));
        assert!(free.ranges().is_empty());
    }

    #[test]
    fn takes_runs_below_the_limit() {
        let mut free = FreeMemory::default();
        free.add(range(100, 200));
        free.add(range(10, 14));
        assert_eq!(free.take(5, 1000), Some(100));
        assert_eq!(free.take(4, 1000), Some(10));
        assert_eq!(free.take(1, 50), None);
        free.add(range(500, 700));
        free.sort();
        assert_eq!(free.ranges()[0], range(500, 700));
        assert_eq!(free.take(95, 1000), Some(105));
        assert_eq!(free.take(201, 1000), None);
    }

    #[test]
    fn keeps_the_larger_of_too_many() {
        let mut free = FreeMemory::default();
        for i in 0..40 {
            free.add(range(i * 100, i * 100 + i + 1));
        }
        assert_eq!(free.ranges().len(), RANGES_MAX);
        assert!(free.ranges().iter().all(|r| r.count() > 8));
    }
}
