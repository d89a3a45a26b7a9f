//! What the transactions that are not durable have changed, in memory that outlives whoever runs this library: a successor does it again ([`crate::redo`]), so a death loses nothing that
//! an operation has answered.
//!
//! A ring of records, one for each operation: the bytes that it changed as they are then, blocks that it made, freed or forgot, and the end of the list of orphans. The ring's end moves last, so
//! a death between any two instructions leaves whole records; its beginning moves when a transaction is durable. An operation that finds no room is taken back and asks for a commit.
//!
//! Words: the head, then the ring. A record: length and transaction; sum; the last orphan; items of two words and, for bytes, what they are.

use crate::cache::{Change, Kind};
use crate::fs::Run;
use crate::transaction::{Op, CREDITS};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

type Words = &'static [AtomicU64];

const MAGIC: u64 = 0x7265_646f_0000_0001;
/// Words of the head: what this is, of which file system, where the ring begins and ends (positions only grow; a word of the ring is a position's remainder), who asked for the
/// last operation that somebody asked for and may not have been answered, where its record is, and who was in that place when predecessors died.
const SIGN: usize = 0;
const WHOSE: usize = 1;
const BEGIN: usize = 2;
const END: usize = 3;
const ASKER: usize = 4;
const ASKED: usize = 5;
const LEFT: usize = 6;
const LEFT_END: usize = 10;
const HEAD: usize = LEFT_END;

/// Words of a record before its items.
const BEFORE: u64 = 3;
/// An operation that changed more than these words in pieces is kept as whole blocks, of which there are [`CREDITS`] at most.
const MANY: u64 = 8192;

/// Kinds of items, in the bits above the block's number.
const BYTES: u64 = 0;
const NEW: u64 = 1;
const FREED: u64 = 2;
const FORGOTTEN: u64 = 3;
const WHAT: u32 = 48;
const KIND: u32 = 52;
const NUMBER: u64 = (1 << WHAT) - 1;

/// A part of a record.
pub(crate) enum Item {
    Bytes(u64, Kind, usize, Vec<u8>),
    New(u64, Kind),
    Freed(Run),
    Forgotten(Run),
}

pub(crate) struct Kept {
    head: Words,
    ring: Words,
    begin: u64,
    end: u64,
    /// Who asked for the next operation, or 0.
    pub asker: u64,
    /// There are some in the places of those left by predecessors.
    left: bool,
}

/// A kind as a number and what it carries.
fn coded(kind: Kind) -> (u64, u32) {
    match kind {
        Kind::Raw => (0, 0),
        Kind::Parts => (1, 0),
        Kind::BlockBitmap(group) => (2, group),
        Kind::InodeBitmap(group) => (3, group),
        Kind::Node(seed) => (4, seed),
        Kind::Leaf(seed) => (5, seed),
        Kind::Index(seed) => (6, seed),
        Kind::Attributes => (7, 0),
        Kind::Orphans(seed) => (8, seed),
    }
}

fn decoded(kind: u64, more: u32) -> Option<Kind> {
    Some(match kind {
        0 => Kind::Raw,
        1 => Kind::Parts,
        2 => Kind::BlockBitmap(more),
        3 => Kind::InodeBitmap(more),
        4 => Kind::Node(more),
        5 => Kind::Leaf(more),
        6 => Kind::Index(more),
        7 => Kind::Attributes,
        8 => Kind::Orphans(more),
        _ => return None,
    })
}

fn mixed(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Puts words into the ring, one behind the other.
struct Writer {
    ring: Words,
    at: usize,
    sum: u64,
}

impl Writer {
    fn put(&mut self, word: u64) {
        self.ring[self.at].store(word, Relaxed);
        self.sum = mixed(self.sum, word);
        self.at += 1;
        if self.at == self.ring.len() {
            self.at = 0;
        }
    }

    fn item(&mut self, what: u64, block: u64, kind: Kind, more: u64) {
        let (number, carried) = coded(kind);
        self.put(block & NUMBER | what << WHAT | number << KIND);
        self.put(more | u64::from(carried) << 32);
    }

    fn bytes(&mut self, block: u64, kind: Kind, at: usize, data: &[u8]) {
        self.item(BYTES, block, kind, at as u64 | (data.len() as u64) << 16);
        let (words, rest) = data.as_chunks::<8>();
        for word in words {
            self.put(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.put(u64::from_le_bytes(word));
        }
    }
}

/// Words of an item with so many bytes.
fn words(bytes: usize) -> u64 {
    2 + bytes.div_ceil(8) as u64
}

/// Blocks beside each other.
fn runs(blocks: &[u64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some(last) if last.start + u64::from(last.len) == block => last.len += 1,
            _ => runs.push(Run {
                start: block,
                len: 1,
            }),
        }
    }
    runs
}

impl Kept {
    /// The memory, if it is large enough for any operation on blocks of this size; `whose` tells file systems apart. What a predecessor left there that is not whole, or not of the
    /// transactions from `next` on, is dropped; the rest belongs to that one from now on. With it, whether something was wrong.
    pub(crate) fn new(
        memory: Words,
        block_size: usize,
        whose: u64,
        next: u32,
    ) -> Option<(Kept, bool)> {
        let (head, ring) = memory.split_at_checked(HEAD)?;
        let most = BEFORE + MANY + CREDITS as u64 * (2 + words(block_size));
        if (ring.len() as u64) < 2 * most {
            return None;
        }
        let mut kept = Kept {
            head,
            ring,
            begin: head[BEGIN].load(Relaxed),
            end: head[END].load(Relaxed),
            asker: 0,
            left: false,
        };
        let known = head[SIGN].load(Relaxed) == MAGIC && head[WHOSE].load(Relaxed) == whose;
        let used = kept.end.checked_sub(kept.begin);
        let right = known && used.is_some_and(|used| used <= ring.len() as u64);
        let strange = known && !right;
        if !right {
            (kept.begin, kept.end) = (0, 0);
            head[SIGN].store(0, Release);
            head.iter().for_each(|word| word.store(0, Relaxed));
            head[WHOSE].store(whose, Relaxed);
            head[SIGN].store(MAGIC, Release);
        }
        let whole = kept.claim(next);
        kept.leave_asker();
        Some((kept, strange || !whole))
    }

    /// Records of transactions before `next` are durable; all others become its own. False: something was wrong with one, and it and all behind it are gone.
    fn claim(&mut self, next: u32) -> bool {
        let (mut at, end) = (self.begin, self.end);
        let mut whole = true;
        while at < end {
            let about = self.word(at);
            let (length, tid) = (about & 0xFFFF_FFFF, (about >> 32) as u32);
            let ahead = tid.wrapping_sub(next) as i32;
            whole = length >= BEFORE
                && length <= end - at
                && self.sum(at, length) == self.word(at + 1)
                && (ahead < 0 && self.begin == at || (0..2).contains(&ahead));
            if !whole {
                self.end = at;
                break;
            }
            if ahead < 0 {
                self.begin = at + length;
            } else {
                self.set(at, length | u64::from(next) << 32);
            }
            at += length;
        }
        self.head[END].store(self.end, Release);
        self.head[BEGIN].store(self.begin, Release);
        whole
    }

    fn place(&self, at: u64) -> usize {
        (at % self.ring.len() as u64) as usize
    }

    fn word(&self, at: u64) -> u64 {
        self.ring[self.place(at)].load(Relaxed)
    }

    fn set(&self, at: u64, word: u64) {
        self.ring[self.place(at)].store(word, Relaxed);
    }

    fn sum(&self, at: u64, length: u64) -> u64 {
        (at + 2..at + length).fold(mixed(0, at), |sum, at| mixed(sum, self.word(at)))
    }

    // ---- operations

    /// The operation is kept if there is room.
    pub(crate) fn record<'a, I>(&mut self, changes: I, op: &Op, orphan: u32, tid: u32) -> bool
    where
        I: Iterator<Item = Change<'a>> + Clone,
    {
        let own = |change: &Change| match change {
            Change::Bytes { data, .. } => words(data.len()),
            Change::New { .. } => words(0),
        };
        let pieces: u64 = changes.clone().map(|change| own(&change)).sum();
        let forgotten = runs(&op.forget);
        let more = words(0) * (op.frees.len() + forgotten.len()) as u64;
        if pieces + more == 0 {
            return true;
        }
        let mut blocks = BTreeMap::new();
        let mut length = pieces;
        if pieces > MANY {
            for change in changes.clone() {
                let (block, about, new) = match change {
                    Change::Bytes {
                        block, kind, whole, ..
                    } => (block, (kind, whole, false), false),
                    Change::New { block, kind, whole } => (block, (kind, whole, true), true),
                };
                blocks.entry(block).or_insert(about).2 |= new;
            }
            let size = |(_, whole, new): &(Kind, &[u8], bool)| {
                words(whole.len()) + u64::from(*new) * words(0)
            };
            length = blocks.values().map(size).sum();
        }
        length += BEFORE + more;
        let start = self.end;
        if length > self.ring.len() as u64 - (start - self.begin) {
            return false;
        }
        let mut writer = Writer {
            ring: self.ring,
            at: self.place(start + 2),
            sum: mixed(0, start),
        };
        writer.put(u64::from(orphan));
        if pieces > MANY {
            for (block, (kind, whole, new)) in blocks {
                if new {
                    writer.item(NEW, block, kind, 0);
                }
                writer.bytes(block, kind, 0, whole);
            }
        } else {
            for change in changes {
                match change {
                    Change::Bytes {
                        block,
                        kind,
                        at,
                        data,
                        ..
                    } => writer.bytes(block, kind, at, data),
                    Change::New { block, kind, .. } => writer.item(NEW, block, kind, 0),
                }
            }
        }
        for run in &op.frees {
            writer.item(FREED, run.start, Kind::Raw, u64::from(run.len));
        }
        for run in &forgotten {
            writer.item(FORGOTTEN, run.start, Kind::Raw, u64::from(run.len));
        }
        self.set(start + 1, writer.sum);
        self.set(start, length | u64::from(tid) << 32);
        if self.asker != 0 {
            // (It counts when the end is beyond it.)
            self.head[ASKED].store(start, Relaxed);
            self.head[ASKER].store(core::mem::take(&mut self.asker), Release);
        }
        self.end = start + length;
        self.head[END].store(self.end, Release);
        true
    }

    /// Up to where everything is in the present transaction, or in those before.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// What is before this is durable.
    pub(crate) fn durable(&mut self, upto: u64) {
        self.begin = upto;
        self.head[BEGIN].store(upto, Release);
    }

    /// Whose operation was the last, if its record is whole, may ask again.
    fn leave_asker(&mut self) {
        let left = &self.head[LEFT..LEFT_END];
        let last = self.head[ASKER].load(Relaxed);
        if last != 0 && self.head[ASKED].load(Relaxed) < self.end {
            // If there is no room the first is forgotten.
            let free = left.iter().position(|place| place.load(Relaxed) == 0);
            left[free.unwrap_or(0)].store(last, Relaxed);
        }
        self.head[ASKER].store(0, Release);
        self.left = left.iter().any(|place| place.load(Relaxed) != 0);
    }

    /// Somebody asks: whoever asked before was answered, unless it was the `same` asking: then a predecessor died after it had done what was asked.
    pub(crate) fn asks(&mut self, asker: u64, same: impl Fn(u64) -> bool) -> bool {
        self.head[ASKER].store(0, Relaxed);
        if !self.left {
            return false;
        }
        let left = &self.head[LEFT..LEFT_END];
        let mut all = left.iter().map(|place| place.load(Relaxed));
        if all.any(|who| who != 0 && same(who)) {
            return true;
        }
        // A thread asks for one thing at a time.
        for place in left {
            if place.load(Relaxed) as u32 == asker as u32 {
                place.store(0, Relaxed);
            }
        }
        self.left = left.iter().any(|place| place.load(Relaxed) != 0);
        false
    }

    // ---- for the successor

    /// The first record's position.
    pub(crate) fn first(&self) -> u64 {
        self.begin
    }

    /// A record's items, the last orphan after it, and the position of the next. None: there is none here.
    pub(crate) fn read(&self, at: u64) -> Option<(Vec<Item>, u32, u64)> {
        if at >= self.end {
            return None;
        }
        let next = at + (self.word(at) & 0xFFFF_FFFF);
        let orphan = self.word(at + 2) as u32;
        let mut items = Vec::new();
        let mut at = at + BEFORE;
        while at + 2 <= next {
            let (first, more) = (self.word(at), self.word(at + 1));
            at += 2;
            let block = first & NUMBER;
            let kind = decoded(first >> KIND & 15, (more >> 32) as u32)?;
            let run = Run {
                start: block,
                len: more as u32,
            };
            items.push(match first >> WHAT & 15 {
                BYTES => {
                    let (from, len) = (more as u16 as usize, (more >> 16) as u16 as usize);
                    let count = len.div_ceil(8) as u64;
                    let bytes = (at..at + count).flat_map(|at| self.word(at).to_le_bytes());
                    let data = bytes.take(len).collect();
                    at += count;
                    Item::Bytes(block, kind, from, data)
                }
                NEW => Item::New(block, kind),
                FREED => Item::Freed(run),
                FORGOTTEN => Item::Forgotten(run),
                _ => return None,
            });
        }
        Some((items, orphan, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Words {
        let words: Vec<AtomicU64> = (0..170_000).map(|_| AtomicU64::new(0)).collect();
        words.leak()
    }

    fn read(kept: &Kept) -> Vec<(Vec<Item>, u32)> {
        let (mut at, mut all) = (kept.first(), Vec::new());
        while let Some((items, orphan, next)) = kept.read(at) {
            all.push((items, orphan));
            at = next;
        }
        all
    }

    #[test]
    fn much_is_kept_as_whole_blocks() {
        let memory = memory();
        let (mut kept, strange) = Kept::new(memory, 4096, 1, 5).unwrap();
        assert!(!strange);
        let blocks: Vec<Vec<u8>> = (0..20).map(|n| vec![n; 4096]).collect();
        let kind = Kind::Leaf(9);
        let made = |block| Change::New {
            block,
            kind,
            whole: &blocks[block as usize],
        };
        // Each block in two pieces, twice; one of them is new.
        let pieces = (0..80u64).map(|turn| Change::Bytes {
            block: turn % 20,
            kind,
            at: (turn as usize / 20 % 2) * 2048,
            data: &blocks[turn as usize % 20][..2048],
            whole: &blocks[turn as usize % 20],
        });
        let mut op = Op::default();
        op.frees.push(Run { start: 70, len: 3 });
        op.forget.extend([70, 71, 72, 90]);
        let all = pieces.clone().chain([made(3)]);
        assert!(kept.record(all, &op, 11, 5));
        let found = read(&kept);
        assert_eq!((found.len(), found[0].1), (1, 11));
        let (mut whole, mut rest) = (0, Vec::new());
        for item in &found[0].0 {
            match item {
                Item::Bytes(block, Kind::Leaf(9), 0, data) => {
                    assert_eq!(*data, blocks[*block as usize]);
                    whole += 1;
                }
                Item::New(3, Kind::Leaf(9)) => rest.push(Run { start: 3, len: 0 }),
                Item::Freed(run) | Item::Forgotten(run) => rest.push(*run),
                _ => panic!("something else"),
            }
        }
        assert_eq!(whole, 20);
        let run = |start, len| Run { start, len };
        assert_eq!(rest, [run(3, 0), run(70, 3), run(70, 3), run(90, 1)]);
        // Until there is no room; then what is durable makes some.
        let mut count = 1;
        while kept.record(pieces.clone(), &op, 0, 6) {
            count += 1;
        }
        assert!(count > 5);
        let before = kept.first();
        kept.durable(kept.read(before).unwrap().2);
        assert!(kept.record(pieces.clone(), &op, 0, 6));
        assert!(!kept.record(pieces, &op, 0, 6));
        // A successor that finds transaction 5 durable, and one that does not know of 6.
        let (next, strange) = Kept::new(memory, 4096, 1, 6).unwrap();
        assert_eq!((read(&next).len(), strange), (count, false));
        let (next, strange) = Kept::new(memory, 4096, 1, 9).unwrap();
        assert_eq!((read(&next).len(), strange), (0, false));
    }

    #[test]
    fn memory_that_is_too_small_is_not_used() {
        assert!(Kept::new(&memory()[..100_000], 4096, 1, 5).is_none());
        assert!(Kept::new(&[], 1024, 1, 5).is_none());
    }
}
