//! A multimap from 64-bit keys to small numbers (places in a table of the user's): a hash table of chains. Nothing is walked but what has the key (and the few that share its bucket).
//!
//! A number is in the map at most once. Numbers should be dense: there is a link for each up to the greatest.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;
/// The link is in no chain.
const OUT: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Link {
    key: u64,
    next: u32,
    prev: u32,
}

#[derive(Default)]
pub struct Chains {
    /// First links of the chains; their number is a power of two (or 0), and twice that of the links, or more: there are few with two.
    heads: Vec<u32>,
    links: Vec<Link>,
    len: usize,
    /// There are more chains when so many links are missing: this part of all.
    early: usize,
    parts: usize,
}

#[inline(always)]
fn bucket(key: u64, buckets: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & buckets.wrapping_sub(1)
}

impl Chains {
    /// One whose chains are made more when a part of the room is left: 1 of 2, 1 of 3 … Of maps that grow together each should have another number, as all
    /// links move then.
    pub fn growing_early(parts: usize) -> Chains {
        Chains {
            parts,
            ..Chains::default()
        }
    }

    /// Room for numbers below `numbers`, so that [`Chains::insert`] of one cannot fail. False: there is no memory.
    pub fn reserve(&mut self, numbers: usize) -> bool {
        if numbers > self.links.len() {
            let more = numbers - self.links.len();
            if self.links.try_reserve(more).is_err() {
                return false;
            }
            let link = Link {
                key: 0,
                next: NONE,
                prev: OUT,
            };
            self.links.resize(numbers, link);
        }
        self.heads.len() > 2 * self.len + self.early || self.widen()
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self) -> bool {
        let wide = (self.heads.len() * 2).max(16);
        let mut heads = Vec::new();
        if heads.try_reserve_exact(wide).is_err() {
            // Longer chains do as well, if there are any.
            return !self.heads.is_empty();
        }
        heads.resize(wide, NONE);
        self.heads = heads;
        self.early = match self.parts {
            0 => 0,
            parts => wide / parts,
        };
        self.push_all();
        true
    }

    /// The chains anew: all are empty.
    fn push_all(&mut self) {
        for number in 0..self.links.len() as u32 {
            if self.links[number as usize].prev != OUT {
                self.push(number);
            }
        }
    }

    /// Numbers from this one on are in the map no more, and take no memory.
    pub fn shrink(&mut self, numbers: usize) {
        debug_assert!(self.links.iter().skip(numbers).all(|link| link.prev == OUT));
        self.links.truncate(numbers);
        self.links.shrink_to_fit();
        let wide = (2 * numbers).next_power_of_two().max(16);
        if wide < self.heads.len() {
            self.heads.truncate(wide);
            self.heads.shrink_to_fit();
            self.heads.fill(NONE);
            self.early = 0;
            self.push_all();
        }
    }

    fn push(&mut self, number: u32) {
        let key = self.links[number as usize].key;
        let at = bucket(key, self.heads.len());
        let next = core::mem::replace(&mut self.heads[at], number);
        if let Some(after) = self.links.get_mut(next as usize) {
            after.prev = number;
        }
        let link = &mut self.links[number as usize];
        (link.next, link.prev) = (next, NONE);
    }

    /// After [`Chains::reserve`]; the number is not in the map.
    #[inline]
    pub fn insert(&mut self, number: u32, key: u64) {
        self.links[number as usize].key = key;
        self.push(number);
        self.len += 1;
    }

    /// It is in the map no more.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        let Link { key, next, prev } = self.links[number as usize];
        if prev == OUT {
            return;
        }
        match self.links.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => {
                let at = bucket(key, self.heads.len());
                self.heads[at] = next;
            }
        }
        if let Some(after) = self.links.get_mut(next as usize) {
            after.prev = prev;
        }
        self.links[number as usize].prev = OUT;
        self.len -= 1;
    }

    fn with_key(&self, mut number: u32, key: u64) -> Option<u32> {
        loop {
            let link = self.links.get(number as usize)?;
            if link.key == key {
                return Some(number);
            }
            number = link.next;
        }
    }

    /// A number with this key.
    #[inline]
    pub fn first(&self, key: u64) -> Option<u32> {
        let head = *self.heads.get(bucket(key, self.heads.len()))?;
        self.with_key(head, key)
    }

    /// The next one with the same key.
    pub fn next(&self, number: u32) -> Option<u32> {
        let link = self.links.get(number as usize)?;
        self.with_key(link.next, link.key)
    }

    /// All numbers with this key. (Who stops at one has not looked for the next.)
    #[inline]
    pub fn all(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let mut last = None;
        let mut begun = false;
        core::iter::from_fn(move || {
            last = match core::mem::replace(&mut begun, true) {
                false => self.first(key),
                true => self.next(last?),
            };
            last
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_multimap() {
        let mut map = Chains::default();
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut seed = 1u64;
        for turn in 0..40_000u32 {
            if turn % 1000 == 999 {
                let kept = turn / 1000 % 50;
                model.retain(|number, _| {
                    if *number >= kept {
                        map.remove(*number);
                    }
                    *number < kept
                });
                map.shrink(kept as usize);
                assert!(map.heads.len() <= 128);
            }
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let number = (seed >> 40) as u32 % 500;
            let key = (seed >> 20) % 90;
            if model.remove(&number).is_some() {
                map.remove(number);
            } else {
                assert!(map.reserve(number as usize + 1));
                map.insert(number, key);
                model.insert(number, key);
            }
            let mut found: Vec<u32> = map.all(key).collect();
            found.sort_unstable();
            let wanted = model.iter().filter(|(_, k)| **k == key).map(|(n, _)| *n);
            assert_eq!(found, wanted.collect::<Vec<_>>());
        }
        map.remove(1_000_000 % 500);
        assert_eq!(map.len, model.len() - usize::from(model.contains_key(&0)));
    }
}
