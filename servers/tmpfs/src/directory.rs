//! The names in a directory: found by hash, listed from the newest to the oldest, with positions that stay valid whatever is removed.
//!
//! Entries lie in order of their sequence numbers, removed ones leave a mark that goes when the table is rebuilt. Small directories have no
//! hash index and are searched through. Hashes depend on a [`Seed`] of this boot that no program knows: names are chosen by programs, also in folders of others.
//!
//! An entry knows the user who pays for it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Entries up to which a search beats the index.
const SMALL: usize = 8;
const INLINE: usize = 22;

enum Text {
    Short([u8; INLINE]),
    Long(Box<[u8]>),
}

struct Entry {
    sequence: u64,
    hash: u32,
    /// The node; meaningless if `length` is 0: the entry was removed.
    node: u32,
    length: u8,
    /// The user that it is charged to.
    payer: u32,
    text: Text,
}

impl Entry {
    fn name(&self) -> &[u8] {
        match &self.text {
            Text::Short(bytes) => &bytes[..self.length as usize],
            Text::Long(bytes) => bytes,
        }
    }
}

/// What hashes of names begin with and are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    start: u64,
    factor: u64,
}

impl Seed {
    /// Of two words that nobody guesses.
    pub fn new(words: [u64; 2]) -> Seed {
        Seed {
            start: words[0],
            // (Odd, and large.)
            factor: words[1] | 1 << 63 | 1,
        }
    }

    /// Both halves of a product: the low bits of the upper half depend on the high bits of the factor, so that names which differ only at their ends part.
    #[inline(always)]
    fn mix(self, value: u64) -> u64 {
        let product = value as u128 * self.factor as u128;
        product as u64 ^ (product >> 64) as u64
    }

    /// Eight bytes at a time, multiplied and folded.
    #[inline]
    fn hash(self, name: &[u8]) -> u32 {
        let mut hash = self.start ^ name.len() as u64;
        if name.len() < 8 {
            hash = self.mix(hash ^ short(name).rotate_left(11));
        } else {
            let last = name.len() - 8;
            let mut at = 0;
            while at < last {
                hash = self.mix(hash ^ word(name, at));
                at += 8;
            }
            hash = self.mix(hash ^ word(name, last));
        }
        hash as u32
    }
}

impl Default for Seed {
    fn default() -> Seed {
        Seed {
            start: 0,
            factor: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

/// Bytes that are charged for a name of this length: its entry, what the index has for it, and its text if that does not fit into the entry.
pub fn cost(length: usize) -> usize {
    const ENTRY: usize = size_of::<Entry>() + 16;
    match length {
        ..=INLINE => ENTRY,
        long => ENTRY + long,
    }
}

/// Names and their nodes.
#[derive(Default)]
pub struct Directory {
    seed: Seed,
    entries: Vec<Entry>,
    /// Open addressing: index in `entries` + 1, 0 = free. Empty while the directory is small.
    index: Vec<u32>,
    live: usize,
    sequence: u64,
}

/// A word of a name; the last one overlaps the one before it.
fn word(name: &[u8], at: usize) -> u64 {
    match name.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// Up to seven bytes as one number (which may hold some of them twice; together with the length it is unique).
fn short(name: &[u8]) -> u64 {
    if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return u32::from_le_bytes(*head) as u64 | (u32::from_le_bytes(*tail) as u64) << 32;
    }
    match name {
        [] => 0,
        [first, .., last] => *first as u64 | (*last as u64) << 8 | (name[1] as u64) << 16,
        [only] => *only as u64,
    }
}

/// A name of at most INLINE bytes with zeros behind it.
fn padded(name: &[u8]) -> [u8; INLINE] {
    let mut bytes = [0; INLINE];
    match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(head), Some(tail)) => {
            if let Some(middle) = name.get(8..).and_then(|rest| rest.first_chunk::<8>()) {
                bytes[8..16].copy_from_slice(middle);
            }
            bytes[..8].copy_from_slice(head);
            bytes[name.len() - 8..name.len()].copy_from_slice(tail);
        }
        _ => bytes[..name.len()].copy_from_slice(name),
    }
    bytes
}

/// Names of equal length.
fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() < 8 {
        return short(a) == short(b);
    }
    let last = a.len() - 8;
    let mut at = 0;
    while at < last {
        if word(a, at) != word(b, at) {
            return false;
        }
        at += 8;
    }
    word(a, last) == word(b, last)
}

impl Directory {
    pub fn new(seed: Seed) -> Directory {
        Directory {
            seed,
            ..Directory::default()
        }
    }

    pub fn len(&self) -> usize {
        self.live
    }

    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        let hash = self.seed.hash(name);
        let same = |entry: &Entry| {
            entry.hash == hash && entry.length as usize == name.len() && equal(entry.name(), name)
        };
        if self.index.is_empty() {
            return self.entries.iter().position(same);
        }
        let mask = self.index.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.index[slot] {
                0 => return None,
                found => {
                    let at = found as usize - 1;
                    if self.entries.get(at).is_some_and(same) {
                        return Some(at);
                    }
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The node with this name.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.position(name).map(|at| self.entries[at].node)
    }

    /// Add a name that is not there, for which this user pays; its sequence number.
    pub fn insert(&mut self, name: &[u8], node: u32, payer: u32) -> u64 {
        self.sequence += 1;
        let text = if name.len() <= INLINE {
            Text::Short(padded(name))
        } else {
            Text::Long(name.into())
        };
        self.entries.push(Entry {
            sequence: self.sequence,
            hash: self.seed.hash(name),
            node,
            length: name.len() as u8,
            payer,
            text,
        });
        self.live += 1;
        if self.entries.len() > SMALL {
            // At most half full, removed entries included: a name that is not there is found missing soon.
            if self.entries.len() * 2 > self.index.len() {
                self.rebuild();
            } else {
                self.enter(self.entries.len() - 1);
            }
        }
        self.sequence
    }

    fn enter(&mut self, at: usize) {
        let mask = self.index.len() - 1;
        let mut slot = self.entries[at].hash as usize & mask;
        while self.index[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.index[slot] = at as u32 + 1;
    }

    /// Drop the marks of removed entries and make the index anew.
    fn rebuild(&mut self) {
        self.entries.retain(|entry| entry.length != 0);
        if self.entries.len() <= SMALL {
            self.index = Vec::new();
            return;
        }
        // Small ones grow in larger steps.
        let times = if self.entries.len() < 4096 { 4 } else { 2 };
        let size = (self.entries.len() * times).next_power_of_two();
        if self.index.len() == size {
            self.index.fill(0);
        } else {
            self.index = vec![0; size];
        }
        for at in 0..self.entries.len() {
            self.enter(at);
        }
    }

    /// Remove a name; its node, and who paid for it.
    pub fn remove(&mut self, name: &[u8]) -> Option<(u32, u32)> {
        let at = self.position(name)?;
        let entry = &mut self.entries[at];
        let (node, payer) = (entry.node, entry.payer);
        entry.length = 0;
        entry.text = Text::Short([0; INLINE]);
        self.live -= 1;
        if self.index.is_empty() {
            self.entries.remove(at);
        } else if self.live * 4 < self.entries.len() {
            self.rebuild();
        }
        Some((node, payer))
    }

    /// The newest entry older than sequence number `before`: its number, node and name.
    pub fn older(&self, before: u64) -> impl Iterator<Item = (u64, u32, &[u8])> {
        let end = self
            .entries
            .partition_point(|entry| entry.sequence < before);
        self.entries[..end]
            .iter()
            .rev()
            .filter(|entry| entry.length != 0)
            .map(|entry| (entry.sequence, entry.node, entry.name()))
    }

    /// Bytes that are charged to a user for names, counted anew.
    #[cfg(test)]
    pub(crate) fn cost_of(&self, payer: u32) -> usize {
        let live = self.entries.iter().filter(|entry| entry.length != 0);
        let its = live.filter(|entry| entry.payer == payer);
        its.map(|entry| cost(entry.length as usize)).sum()
    }

    /// The name with this sequence number, if it is that node's.
    pub fn name_of(&self, sequence: u64, node: u32) -> Option<&[u8]> {
        let at = self
            .entries
            .partition_point(|entry| entry.sequence < sequence);
        let entry = self.entries.get(at)?;
        (entry.sequence == sequence && entry.node == node && entry.length != 0)
            .then(|| entry.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn names(directory: &Directory) -> Vec<Vec<u8>> {
        directory
            .older(u64::MAX)
            .map(|(_, _, name)| name.to_vec())
            .collect()
    }

    #[test]
    fn newest_come_first_and_positions_survive_removal() {
        let mut directory = Directory::default();
        for number in 0..100u32 {
            directory.insert(format!("entry-{number}").as_bytes(), number, 0);
        }
        let all = names(&directory);
        assert_eq!(all[0], b"entry-99");
        let (sequence, node, _) = directory.older(u64::MAX).nth(49).unwrap();
        assert_eq!(node, 50);
        for number in 10..95u32 {
            assert_eq!(
                directory.remove(format!("entry-{number}").as_bytes()),
                Some((number, 0))
            );
        }
        let rest: Vec<u32> = directory.older(sequence).map(|(_, node, _)| node).collect();
        assert_eq!(rest, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn names_that_differ_at_one_end_are_found_at_once() {
        for form in [
            |n| format!("{n}"),
            |n| format!("file-{n}"),
            |n| format!("bench-new-{n}"),
            |n| format!("{n:06}.txt"),
            |n| format!("a-long-common-beginning-{n:08}"),
            |n: u32| format!("{}", char::from_u32(0x100 + n).unwrap_or('x')),
        ] {
            let mut directory = Directory::default();
            for number in 0..1000 {
                directory.insert(form(number).as_bytes(), number, 0);
            }
            let mask = directory.index.len() - 1;
            let steps: usize = (0..1000usize)
                .map(|at| {
                    let home = directory.entries[at].hash as usize & mask;
                    let slot = directory.index.iter().position(|&i| i as usize == at + 1);
                    slot.unwrap().wrapping_sub(home) & mask
                })
                .sum();
            // A table that is half full has about half a step for each name.
            assert!(steps < 1500, "{steps} steps for {}", form(7));
        }
    }

    #[test]
    fn agrees_with_a_map_over_random_changes() {
        let mut directory = Directory::default();
        let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut random = 12345u64;
        for step in 0..200_000u32 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let key = (random >> 33) % 700;
            let name = match key % 3 {
                0 => format!("{key}"),
                _ => format!("a rather long name number {key}"),
            }
            .into_bytes();
            if random >> 20 & 1 == 0 {
                let there = model.remove(&name).map(|node| (node, key as u32));
                assert_eq!(directory.remove(&name), there);
            } else if directory.find(&name).is_none() {
                directory.insert(&name, step, key as u32);
                model.insert(name, step);
            } else {
                assert_eq!(directory.find(&name), model.get(&name).copied());
            }
            assert_eq!(directory.len(), model.len());
        }
        for (name, &node) in &model {
            assert_eq!(directory.find(name), Some(node));
        }
    }

    /// Names that share a place under one seed do not under another.
    #[test]
    fn names_that_collide_under_one_seed_part_under_another() {
        const MASK: u32 = 0xfff;
        let (known, other) = (
            Seed::default(),
            Seed::new([0x2545_f491_4f6c_dd1d, 0xd6e8_feb8_6659_fd92]),
        );
        for form in [
            |n: u32| format!("{n}"),
            |n: u32| format!("a-common-beginning-{n:08}"),
        ] {
            let names = (0..1 << 20).map(form);
            let alike = names.filter(|name| known.hash(name.as_bytes()) & MASK == 5);
            let alike: Vec<String> = alike.take(200).collect();
            assert_eq!(alike.len(), 200);
            let places = alike.iter().map(|name| other.hash(name.as_bytes()) & MASK);
            let places: std::collections::BTreeSet<u32> = places.collect();
            assert!(places.len() > 180, "{} places", places.len());
        }
    }
}
