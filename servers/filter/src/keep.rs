//! The text of the rules in memory that outlives the component (its manifest line's `keepsake`), for its successor.
//!
//! There are two places, and a head for each: number, length, payer, sum. A text is written into the older one, its head last: whenever the
//! component ends, one whole text is there.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

const HEAD: usize = 4;

pub struct Keep(&'static [AtomicU64]);

fn sum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0x243f_6a88_85a3_08d3, |sum, word| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

impl Keep {
    pub fn new(words: &'static [AtomicU64]) -> Keep {
        Keep(words)
    }

    fn places(&self) -> [&'static [AtomicU64]; 2] {
        let (first, second) = self.0.split_at(self.0.len() / 2);
        [first, second]
    }

    fn check(place: &[AtomicU64]) -> Option<(u64, usize)> {
        let [number, length, payer, kept, text @ ..] = place else {
            return None;
        };
        let [number, length, payer, kept] =
            [number, length, payer, kept].map(|of| of.load(Relaxed));
        let words = text.get(..usize::try_from(length).ok()?.div_ceil(8))?;
        let all = words.iter().map(|word| word.load(Relaxed));
        let right = sum([number, length, payer].into_iter().chain(all)) == kept;
        (right && number != 0).then_some((number, length as usize))
    }

    /// The text that was kept last, and who pays for what comes of it.
    pub fn load(&self) -> Option<(Vec<u8>, u32)> {
        let places = self.places();
        let known = places.iter().filter_map(|of| Some((Self::check(of)?, *of)));
        let ((_, length), place) = known.max_by_key(|of| of.0 .0)?;
        let mut text = Vec::new();
        text.try_reserve_exact(length + 8).ok()?;
        for word in &place[HEAD..HEAD + length.div_ceil(8)] {
            text.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        text.truncate(length);
        Some((text, place[2].load(Relaxed) as u32))
    }

    /// Keep this one. False: there is no room.
    pub fn save(&self, text: &[u8], payer: u32) -> bool {
        let places = self.places();
        let numbers = places.map(|of| Self::check(of).map_or(0, |known| known.0));
        let [at, other] = if numbers[0] <= numbers[1] {
            [0, 1]
        } else {
            [1, 0]
        };
        let place = places[at];
        let words = || {
            text.chunks(8).map(|chunk| {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(bytes)
            })
        };
        if place.len() < HEAD + text.len().div_ceil(8) {
            return false;
        }
        place[0].store(0, Release);
        for (to, word) in place[HEAD..].iter().zip(words()) {
            to.store(word, Relaxed);
        }
        let head = [numbers[other] + 1, text.len() as u64, payer.into()];
        place[3].store(sum(head.into_iter().chain(words())), Relaxed);
        place[2].store(head[2], Relaxed);
        place[1].store(head[1], Release);
        place[0].store(head[0], Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_text_is_found() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let words: &'static [AtomicU64] = words.leak();
        let keep = Keep::new(words);
        assert_eq!(keep.load(), None);
        for (i, text) in [&b"one"[..], b"", b"something longer"].iter().enumerate() {
            assert!(keep.save(text, i as u32));
            assert_eq!(keep.load(), Some((text.to_vec(), i as u32)));
        }
        assert!(!keep.save(&[7; 400], 1));
        // A text that was not written to its end is none.
        words[5].fetch_xor(1, Relaxed);
        assert_eq!(keep.load(), Some((b"".to_vec(), 1)));
        assert!(keep.save(b"next", 9));
        assert_eq!(keep.load(), Some((b"next".to_vec(), 9)));
    }
}
