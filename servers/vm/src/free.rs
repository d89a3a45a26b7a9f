//! Which frames are free: a bit for each, and above the words of bits two levels with a bit for each word below that is not zero.
//!
//! Frames are taken from one word, lowest first, until it has no more; then from the highest that has some. So what is taken one after the other mostly lies in a row, which is what devices, pins and copies of long buffers want, and holes between others' frames are filled first.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

const WORD: usize = u64::BITS as usize;
const LEVELS: usize = 3;
/// Words that are searched for frames in a row.
const SEARCHED: usize = 64;

pub struct Free {
    levels: [Vec<u64>; LEVELS],
    /// Of the word that frames are taken from: those of its bits that are left, which are not in `levels`, and its first frame.
    bits: u64,
    first: usize,
}

impl Free {
    /// For so many frames, of which none is free.
    pub fn new(count: usize) -> Free {
        let mut length = count;
        let levels = core::array::from_fn(|_| {
            length = length.div_ceil(WORD).max(1);
            vec![0; length]
        });
        Free {
            levels,
            bits: 0,
            first: 0,
        }
    }

    pub fn contains(&self, frame: usize) -> bool {
        let word = self.levels[0].get(frame / WORD).copied().unwrap_or(0);
        let taken_from = frame.checked_sub(self.first).filter(|&bit| bit < WORD);
        word >> (frame % WORD) & 1 != 0 || taken_from.is_some_and(|bit| self.bits >> bit & 1 != 0)
    }

    #[inline]
    pub fn insert(&mut self, frame: usize) {
        let Some(word) = self.levels[0].get_mut(frame / WORD) else {
            return;
        };
        let before = *word;
        *word |= 1 << (frame % WORD);
        if before == 0 {
            self.begun(frame / WORD);
        }
    }

    pub fn insert_all(&mut self, frames: Range<usize>) {
        let mut next = frames.start;
        while next < frames.end {
            let length = (WORD - next % WORD).min(frames.end - next);
            let Some(word) = self.levels[0].get_mut(next / WORD) else {
                return;
            };
            let before = *word;
            *word |= u64::MAX >> (WORD - length) << (next % WORD);
            if before == 0 {
                self.begun(next / WORD);
            }
            next += length;
        }
    }

    #[inline]
    pub fn take(&mut self) -> Option<usize> {
        if self.bits == 0 {
            self.next_word()?;
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(self.first + bit)
    }

    #[cold]
    fn next_word(&mut self) -> Option<()> {
        let index = self.highest()?;
        self.first = index * WORD;
        self.bits = core::mem::take(&mut self.levels[0][index]);
        self.emptied(index);
        Some(())
    }

    /// So many in a row within a word; `length` divides its bits.
    pub fn take_row(&mut self, length: usize) -> Option<usize> {
        let highest = self.highest()?;
        let mask = u64::MAX >> (WORD - length);
        for index in (0..=highest).rev().take(SEARCHED) {
            let word = self.levels[0][index];
            let mut places = (0..WORD).step_by(length);
            let Some(place) = places.find(|place| word >> place & mask == mask) else {
                continue;
            };
            self.levels[0][index] &= !(mask << place);
            if self.levels[0][index] == 0 {
                self.emptied(index);
            }
            return Some(index * WORD + place);
        }
        None
    }

    /// The highest word that has some.
    fn highest(&self) -> Option<usize> {
        let top = &self.levels[LEVELS - 1];
        let mut at = top.iter().rposition(|&word| word != 0)?;
        for level in self.levels.iter().skip(1).rev() {
            at = at * WORD + WORD - 1 - level[at].leading_zeros() as usize;
        }
        Some(at)
    }

    /// A word has some.
    #[cold]
    fn begun(&mut self, word: usize) {
        let mut at = word;
        for level in &mut self.levels[1..] {
            let before = level[at / WORD];
            level[at / WORD] |= 1 << (at % WORD);
            if before != 0 {
                return;
            }
            at /= WORD;
        }
    }

    /// A word has no more.
    #[cold]
    fn emptied(&mut self, word: usize) {
        let mut at = word;
        for level in &mut self.levels[1..] {
            level[at / WORD] &= !(1 << (at % WORD));
            if level[at / WORD] != 0 {
                return;
            }
            at /= WORD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::random;
    use std::collections::BTreeSet;

    #[test]
    fn rows_come_in_order_whatever_order_they_came_back_in() {
        let mut free = Free::new(1000);
        free.insert_all(100..1000);
        let mut taken: Vec<usize> = (0..256).map(|_| free.take().unwrap()).collect();
        for _ in 0..2 {
            let breaks = taken
                .windows(2)
                .filter(|pair| pair[1] != pair[0] + 1)
                .count();
            assert!(breaks < 10, "{breaks} breaks in 256 frames");
            taken.iter().rev().for_each(|&frame| free.insert(frame));
            taken = (0..256).map(|_| free.take().unwrap()).collect();
            taken.iter().for_each(|&frame| free.insert(frame));
            taken = (0..256).map(|_| free.take().unwrap()).collect();
        }
    }

    #[test]
    fn nothing_is_lost_or_given_twice() {
        for seed in 1..60u64 {
            let mut random = random(seed);
            let mut random = move |below: usize| random(below as u64) as usize;
            let count = 1 + random(9000);
            let mut free = Free::new(count);
            free.insert_all(0..count);
            let mut left: BTreeSet<usize> = (0..count).collect();
            let mut taken = Vec::new();
            for _ in 0..4000 {
                let got = match random(5) {
                    0 | 1 => {
                        let frame = free.take();
                        assert_eq!(frame.is_some(), !left.is_empty(), "seed {seed}");
                        frame.map(|frame| frame..frame + 1)
                    }
                    2 => free.take_row(16).map(|first| first..first + 16),
                    _ if taken.is_empty() => None,
                    _ => {
                        let frame = taken.swap_remove(random(taken.len()));
                        free.insert(frame);
                        left.insert(frame);
                        None
                    }
                };
                for frame in got.into_iter().flatten() {
                    assert!(left.remove(&frame), "seed {seed}");
                    taken.push(frame);
                }
            }
            assert!((0..count).all(|frame| free.contains(frame) == left.contains(&frame)));
            let rest: BTreeSet<usize> = core::iter::from_fn(|| free.take()).collect();
            assert_eq!(rest, left, "seed {seed}");
        }
    }
}
