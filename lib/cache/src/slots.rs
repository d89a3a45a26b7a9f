//! The arena's pages: which are free, with or without a frame behind them, and which of the used ones may go next (a clock with second chance).

use alloc::vec::Vec;

/// A page of the arena.
pub type Slot = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Free, with a frame or without.
    Warm,
    Cold,
    /// A page of a file.
    Page,
    /// Its page has gone, but a transfer still uses it.
    Orphan,
}

#[derive(Clone, Copy, Debug)]
struct Info {
    file: u32,
    page: u64,
    state: Use,
    /// Asked for since the hand passed last.
    referenced: bool,
}

pub struct Slots {
    all: Vec<Info>,
    warm: Vec<Slot>,
    /// Descending, so that what is taken first is low and in a row.
    cold: Vec<Slot>,
    hand: usize,
    used: u32,
}

/// Slots that get frames at a time.
const STEP: usize = 64;

impl Slots {
    pub fn new(count: u32) -> Slots {
        let free = Info {
            file: 0,
            page: 0,
            state: Use::Cold,
            referenced: false,
        };
        Slots {
            all: alloc::vec![free; count as usize],
            warm: Vec::new(),
            cold: (0..count).rev().collect(),
            hand: 0,
            used: 0,
        }
    }

    /// Slots with content or under way.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Free slots that have frames.
    pub fn warm(&self) -> u32 {
        self.warm.len() as u32
    }

    pub fn state(&self, slot: Slot) -> Option<Use> {
        self.all.get(slot as usize).map(|info| info.state)
    }

    /// File and page of a used slot.
    pub fn owner(&self, slot: Slot) -> Option<(u32, u64)> {
        let info = self.all.get(slot as usize)?;
        (info.state == Use::Page).then_some((info.file, info.page))
    }

    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.all[slot as usize].referenced = true;
    }

    #[inline]
    pub fn touch_row(&mut self, first: Slot, count: u64) {
        for info in self
            .all
            .iter_mut()
            .skip(first as usize)
            .take(count as usize)
        {
            info.referenced = true;
        }
    }

    /// A free slot with a frame becomes a page's. `populate` gets frames for a run of slots, if it can.
    pub fn take(
        &mut self,
        file: u32,
        page: u64,
        mut populate: impl FnMut(Slot, u32) -> bool,
    ) -> Option<Slot> {
        if self.warm.is_empty() {
            self.warm_up(&mut populate);
        }
        let slot = self.warm.pop()?;
        self.all[slot as usize] = Info {
            file,
            page,
            state: Use::Page,
            // What was never asked for (read ahead in vain) goes before what was.
            referenced: false,
        };
        self.used += 1;
        Some(slot)
    }

    /// Slots without frames have got some, and are pages': slot, file and page.
    pub fn claim(&mut self, pages: impl Iterator<Item = (Slot, u32, u64)>) {
        for (slot, file, page) in pages {
            if let Some(info) = self.all.get_mut(slot as usize) {
                debug_assert_eq!(info.state, Use::Cold);
                *info = Info {
                    file,
                    page,
                    state: Use::Page,
                    referenced: true,
                };
                self.used += 1;
            }
        }
        let all = &self.all;
        self.cold
            .retain(|slot| all[*slot as usize].state == Use::Cold);
    }

    fn warm_up(&mut self, populate: &mut impl FnMut(Slot, u32) -> bool) {
        for most in [STEP, 1] {
            let Some(&first) = self.cold.last() else {
                return;
            };
            let run = self
                .cold
                .iter()
                .rev()
                .zip(first..)
                .take(most)
                .take_while(|(slot, wanted)| **slot == *wanted)
                .count();
            if !populate(first, run as u32) {
                continue;
            }
            self.cold.truncate(self.cold.len() - run);
            for slot in (first..first + run as u32).rev() {
                self.all[slot as usize].state = Use::Warm;
                self.warm.push(slot);
            }
            return;
        }
    }

    /// A page's slot is free again, or is its transfer's until that has ended.
    pub fn free(&mut self, slot: Slot, under_way: bool) {
        let info = &mut self.all[slot as usize];
        debug_assert_eq!(info.state, Use::Page);
        if under_way {
            info.state = Use::Orphan;
            return;
        }
        self.put_back(slot);
    }

    /// The transfer of an orphan has ended.
    pub fn bury(&mut self, slot: Slot) {
        debug_assert_eq!(self.all[slot as usize].state, Use::Orphan);
        self.put_back(slot);
    }

    fn put_back(&mut self, slot: Slot) {
        self.all[slot as usize].state = Use::Warm;
        self.used -= 1;
        self.warm.push(slot);
    }

    /// Give the frames of up to `most` free slots back, in runs.
    pub fn cool_down(&mut self, most: u32, mut release: impl FnMut(Slot, u32)) -> u32 {
        let from = self.warm.len() - (most as usize).min(self.warm.len());
        let mut given: Vec<Slot> = self.warm.drain(from..).collect();
        given.sort_unstable();
        for run in given.chunk_by(|a, b| a + 1 == *b) {
            release(run[0], run.len() as u32);
        }
        for &slot in &given {
            self.all[slot as usize].state = Use::Cold;
        }
        let count = given.len() as u32;
        self.cold.append(&mut given);
        self.cold.sort_unstable_by(|a, b| b.cmp(a));
        count
    }

    /// The next page under the clock's hand that was not asked for since it passed last. `steps` counts down what may be looked at.
    pub fn next_victim(&mut self, steps: &mut usize) -> Option<(Slot, u32, u64)> {
        while *steps > 0 {
            *steps -= 1;
            let at = self.hand;
            self.hand = (self.hand + 1) % self.all.len().max(1);
            let info = self.all.get_mut(at)?;
            if info.state != Use::Page {
                continue;
            }
            if !core::mem::take(&mut info.referenced) {
                return Some((at as Slot, info.file, info.page));
            }
        }
        None
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }
}
