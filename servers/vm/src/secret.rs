//! Names for pages of shared objects that nobody guesses: `proc` takes them for keys of futexes from whoever says one, so that to know a key is to have, or have had, the page mapped.
//!
//! A page's number is run through a permutation of 52 bits (a Feistel network whose rounds are SipHash with a key of this boot): no two pages have the same name, and one says nothing of another.

use core::hash::Hasher;

/// Bits of each half of a number.
const HALF: u32 = 26;
const MASK: u64 = (1 << HALF) - 1;
const ROUNDS: u8 = 6;

#[derive(Clone, Copy, Debug)]
pub struct Names {
    pub key: [u64; 2],
}

impl Names {
    /// The name of a page, both below 2^52.
    pub fn of(&self, page: u64) -> u64 {
        let (mut left, mut right) = (page >> HALF & MASK, page & MASK);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        left << HALF | right
    }

    fn round(&self, round: u8, half: u64) -> u64 {
        #[expect(
            deprecated,
            reason = "its successor is not in core, and this one is what is wanted: SipHash with a key"
        )]
        let mut hasher = core::hash::SipHasher::new_with_keys(self.key[0], self.key[1]);
        hasher.write_u8(round);
        hasher.write_u64(half);
        hasher.finish() & MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_do_not_follow_one_another() {
        let names = Names { key: [1, 2] };
        let other = Names { key: [1, 3] };
        let mut all: Vec<u64> = (0..50_000).map(|page| names.of(page)).collect();
        let near = all
            .windows(2)
            .filter(|two| two[0].abs_diff(two[1]) < 1 << 20);
        assert!(near.count() < 10, "neighbours have names far apart");
        assert!(all.iter().all(|name| *name < 1 << 52));
        let same = (0..50_000).filter(|page| other.of(*page) == all[*page as usize]);
        assert_eq!(same.count(), 0);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 50_000);
    }
}
