//! Which frame is behind which page: a sparse table of page slots, kept for every space and every object.
//!
//! Slots come in chunks of 64 pages with masks: which pages are resident, which of them must be copied before they are written, and which were written soon after
//! a fork. Chunks are sorted by page number;
//! one without resident pages is dropped.

use crate::nucleus::Frame;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Pages of a chunk.
pub const CHUNK: u64 = 64;

#[derive(Clone)]
pub struct Chunk {
    /// Page number of the first slot.
    pub first: u64,
    pub resident: u64,
    /// Subset of `resident`: copy before the first write.
    pub cow: u64,
    /// Subset of `resident`: had to be copied when it was written; a fork copies it at once.
    pub hot: u64,
    pub frames: [Frame; CHUNK as usize],
}

/// What is known of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub frame: Frame,
    pub cow: bool,
}

#[derive(Clone, Default)]
pub struct Pages {
    /// `chunks[i].first`, for searching.
    keys: Vec<u64>,
    // Boxed, so that one that comes between others moves pointers only.
    #[expect(clippy::vec_box, reason = "insertion moves 8 bytes instead of 280")]
    chunks: Vec<Box<Chunk>>,
    resident: u64,
}

/// A run of resident pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub page: u64,
    pub pages: u64,
    /// Its pages are in the mask that [`Kinds`] asked for.
    pub marked: bool,
}

/// What tells apart pages that may not be in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Nothing.
    One,
    /// [`Chunk::cow`].
    Cow,
    /// [`Chunk::hot`].
    Hot,
}

/// Bits of the chunk that starts at `first` within `start..end`.
pub fn mask(first: u64, start: u64, end: u64) -> u64 {
    let low = start.saturating_sub(first).min(CHUNK);
    let high = end.saturating_sub(first).min(CHUNK);
    if high <= low {
        return 0;
    }
    (u64::MAX >> (CHUNK - (high - low))) << low
}

impl Pages {
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Resident pages.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    fn find(&self, page: u64) -> Result<usize, usize> {
        self.keys.binary_search(&(page & !(CHUNK - 1)))
    }

    #[inline]
    pub fn get(&self, page: u64) -> Option<Page> {
        let chunk = &self.chunks[self.find(page).ok()?];
        let bit = 1u64 << (page % CHUNK);
        (chunk.resident & bit != 0).then(|| Page {
            frame: chunk.frames[(page % CHUNK) as usize],
            cow: chunk.cow & bit != 0,
        })
    }

    /// Set a slot; the frame that was there is returned.
    #[inline]
    pub fn set(&mut self, page: u64, frame: Frame, cow: bool) -> Option<Frame> {
        let at = match self.find(page) {
            Ok(at) => at,
            Err(at) => {
                let first = page & !(CHUNK - 1);
                self.keys.insert(at, first);
                self.chunks.insert(
                    at,
                    Box::new(Chunk {
                        first,
                        resident: 0,
                        cow: 0,
                        hot: 0,
                        frames: [0; CHUNK as usize],
                    }),
                );
                at
            }
        };
        let chunk = &mut self.chunks[at];
        let bit = 1u64 << (page % CHUNK);
        let slot = &mut chunk.frames[(page % CHUNK) as usize];
        let old = (chunk.resident & bit != 0).then_some(*slot);
        *slot = frame;
        chunk.resident |= bit;
        chunk.cow = if cow {
            chunk.cow | bit
        } else {
            chunk.cow & !bit
        };
        self.resident += old.is_none() as u64;
        old
    }

    /// A copy of the slots in `start..end`; tells each frame.
    pub fn copy(&self, start: u64, end: u64, mut each: impl FnMut(Frame)) -> Pages {
        let mut copy = Pages {
            keys: Vec::with_capacity(self.keys.len()),
            chunks: Vec::with_capacity(self.keys.len()),
            resident: 0,
        };
        let from = self.find(start).unwrap_or_else(|at| at);
        for chunk in self.chunks[from..].iter().take_while(|c| c.first < end) {
            let mask = chunk.resident & mask(chunk.first, start, end);
            if mask == 0 {
                continue;
            }
            let mut chunk = chunk.clone();
            chunk.resident = mask;
            chunk.cow &= mask;
            chunk.hot = 0;
            let mut left = mask;
            while left != 0 {
                each(chunk.frames[left.trailing_zeros() as usize]);
                left &= left - 1;
            }
            copy.resident += u64::from(mask.count_ones());
            copy.keys.push(chunk.first);
            copy.chunks.push(chunk);
        }
        copy
    }

    /// Whether no page of `start..end` is resident.
    #[inline]
    pub fn is_empty_in(&self, start: u64, end: u64) -> bool {
        let from = self.find(start).unwrap_or_else(|at| at);
        self.chunks[from..]
            .iter()
            .take_while(|c| c.first < end)
            .all(|c| c.resident & mask(c.first, start, end) == 0)
    }

    /// The chunks that overlap `start..end`.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Chunk> {
        let from = self.find(start).unwrap_or_else(|at| at);
        self.chunks[from..]
            .iter()
            .map(|c| &**c)
            .take_while(move |c| c.first < end)
    }

    pub fn overlapping_mut(&mut self, start: u64, end: u64) -> impl Iterator<Item = &mut Chunk> {
        let from = self.find(start).unwrap_or_else(|at| at);
        self.chunks[from..]
            .iter_mut()
            .map(|c| &mut **c)
            .take_while(move |c| c.first < end)
    }

    /// How many pages of `start..end` are resident.
    pub fn count(&self, start: u64, end: u64) -> u64 {
        self.overlapping(start, end)
            .map(|c| u64::from((c.resident & mask(c.first, start, end)).count_ones()))
            .sum()
    }

    /// A resident page was written after all: the next fork copies it at once.
    pub fn mark_hot(&mut self, page: u64) {
        if let Ok(at) = self.find(page) {
            let chunk = &mut self.chunks[at];
            chunk.hot |= chunk.resident & 1 << (page % CHUNK);
        }
    }

    /// Mark a resident page as one's own again.
    pub fn clear_cow(&mut self, page: u64) {
        if let Ok(at) = self.find(page) {
            self.chunks[at].cow &= !(1 << (page % CHUNK));
        }
    }

    /// Forget which pages of `start..end` are hot.
    pub fn cool_down(&mut self, start: u64, end: u64) {
        for chunk in self.overlapping_mut(start, end) {
            chunk.hot = 0;
        }
    }

    /// The hot pages of `start..end`, from the highest down.
    pub fn hot(&self, start: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let to = self.keys.partition_point(|&k| k < end);
        self.chunks[..to]
            .iter()
            .rev()
            .take_while(move |c| c.first + CHUNK > start)
            .flat_map(move |c| {
                let mut left = c.hot & mask(c.first, start, end);
                core::iter::from_fn(move || {
                    let bit = 63u64.checked_sub(u64::from(left.leading_zeros()))?;
                    left &= !(1 << bit);
                    Some(c.first + bit)
                })
            })
    }

    /// Forget all slots in `start..end`, telling each frame.
    pub fn drain(&mut self, start: u64, end: u64, mut gone: impl FnMut(Frame)) {
        let from = self.find(start).unwrap_or_else(|at| at);
        let mut emptied = 0;
        let mut to = from;
        while to < self.chunks.len() && self.chunks[to].first < end {
            let chunk = &mut self.chunks[to];
            let mask = chunk.resident & mask(chunk.first, start, end);
            let mut left = mask;
            while left != 0 {
                gone(chunk.frames[left.trailing_zeros() as usize]);
                left &= left - 1;
            }
            chunk.resident &= !mask;
            chunk.cow &= !mask;
            chunk.hot &= !mask;
            self.resident -= u64::from(mask.count_ones());
            emptied += (chunk.resident == 0) as usize;
            to += 1;
        }
        if emptied > 0 {
            // Only the first and the last chunk can keep something.
            let keep_first = (self.chunks[from].resident != 0) as usize;
            let keep_last = (to - from > 1 && self.chunks[to - 1].resident != 0) as usize;
            self.chunks.drain(from + keep_first..to - keep_last);
            self.keys.drain(from + keep_first..to - keep_last);
        }
    }

    /// Take one page out.
    pub fn take(&mut self, page: u64) -> Option<Page> {
        let found = self.get(page)?;
        self.drain(page, page + 1, |_| ());
        Some(found)
    }

    /// Runs of resident pages in `start..end`, in order. Pages that are not resident lie within a run if there are at most `gap` of them in a row;
    /// a run has one kind of page only. No run is longer than `most`.
    pub fn runs(
        &self,
        start: u64,
        end: u64,
        gap: u64,
        most: u64,
        kinds: Kinds,
        mut each: impl FnMut(Run),
    ) {
        let mut run: Option<Run> = None;
        for chunk in self.overlapping(start, end) {
            let mut left = chunk.resident & mask(chunk.first, start, end);
            let marks = match kinds {
                Kinds::One => 0,
                Kinds::Cow => chunk.cow,
                Kinds::Hot => chunk.hot,
            };
            while left != 0 {
                let bit = left.trailing_zeros();
                let marked = marks >> bit & 1 != 0;
                let of_kind = left & if marked { marks } else { !marks };
                let len = (!(of_kind >> bit)).trailing_zeros().min(64 - bit);
                left &= !((u64::MAX >> (64 - len)) << bit);
                let page = chunk.first + u64::from(bit);
                let mut from = page;
                let stop = page + u64::from(len);
                if let Some(r) = &mut run {
                    let reach = r.page + r.pages;
                    if r.marked == marked && page - reach <= gap && page - r.page < most {
                        let new_end = stop.min(r.page + most);
                        r.pages = new_end - r.page;
                        from = new_end;
                    }
                }
                while from < stop {
                    if let Some(r) = run.take() {
                        each(r);
                    }
                    let pages = (stop - from).min(most);
                    run = Some(Run {
                        page: from,
                        pages,
                        marked,
                    });
                    from += pages;
                }
            }
        }
        if let Some(r) = run {
            each(r);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(p: &Pages, start: u64, end: u64, gap: u64, most: u64, kinds: Kinds) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        p.runs(start, end, gap, most, kinds, |r| {
            out.push((r.page, r.pages))
        });
        out
    }

    #[test]
    fn slots_are_set_and_taken() {
        let mut p = Pages::default();
        for page in [5, 64, 1000, 63, 4096] {
            assert_eq!(p.set(page, page as u32 + 1, page == 64), None);
        }
        assert_eq!(p.resident(), 5);
        assert_eq!(
            p.get(64),
            Some(Page {
                frame: 65,
                cow: true
            })
        );
        assert_eq!(p.get(65), None);
        assert_eq!(p.set(64, 9, false), Some(65));
        assert_eq!(p.count(6, 1000), 2);
        let mut gone = Vec::new();
        p.drain(63, 1001, |f| gone.push(f));
        assert_eq!(gone, [64, 9, 1001]);
        assert_eq!(p.resident(), 2);
        assert_eq!(p.chunks.len(), 2);
        assert_eq!(p.take(5).unwrap().frame, 6);
        assert_eq!(p.take(5), None);
        assert_eq!(p.chunks.len(), 1);
    }

    #[test]
    fn hot_pages_come_from_the_top() {
        let mut p = Pages::default();
        for page in [3, 63, 64, 127, 200] {
            p.set(page, 1, false);
            p.mark_hot(page);
        }
        p.mark_hot(65);
        let all: Vec<u64> = p.hot(0, 1000).collect();
        assert_eq!(all, [200, 127, 64, 63, 3]);
        let some: Vec<u64> = p.hot(4, 127).collect();
        assert_eq!(some, [64, 63]);
        p.set(70, 1, false);
        assert_eq!(
            runs(&p, 0, 1000, 100, 512, Kinds::Hot),
            [(3, 62), (70, 1), (127, 74)]
        );
        p.drain(127, 128, |_| ());
        p.set(127, 1, false);
        assert_eq!(p.hot(65, 1000).collect::<Vec<_>>(), [200]);
        p.cool_down(0, 1000);
        assert_eq!(p.hot(0, 1000).count(), 0);
    }

    #[test]
    fn masks_cover_exactly_the_range() {
        assert_eq!(mask(64, 0, 64), 0);
        assert_eq!(mask(64, 0, 65), 1);
        assert_eq!(mask(64, 64, 128), u64::MAX);
        assert_eq!(mask(64, 127, 500), 1 << 63);
        assert_eq!(mask(64, 130, 500), 0);
    }

    #[test]
    fn runs_merge_over_small_gaps_only() {
        let mut p = Pages::default();
        for page in (0..70).chain(72..80).chain(200..210) {
            p.set(page, 1, (75..78).contains(&page));
        }
        assert_eq!(
            runs(&p, 0, 1000, 0, 512, Kinds::One),
            [(0, 70), (72, 8), (200, 10)]
        );
        assert_eq!(runs(&p, 0, 1000, 2, 512, Kinds::One), [(0, 80), (200, 10)]);
        assert_eq!(
            runs(&p, 0, 1000, 2, 512, Kinds::Cow),
            [(0, 75), (75, 3), (78, 2), (200, 10)]
        );
        assert_eq!(
            runs(&p, 10, 75, 2, 20, Kinds::One),
            [(10, 20), (30, 20), (50, 20), (72, 3)]
        );
        assert_eq!(runs(&p, 0, 1000, 1000, 512, Kinds::One), [(0, 210)]);
    }
}
