//! What a manager leaves to its successor: open files, locks and mount points, in memory that outlives the component (its manifest line's `keepsake`).
//!
//! The memory is an array of records, and behind it the server's own: [`Marks`], and words of which this knows nothing. A record's first word is its kind, written last and taken away first, so that a death between any two
//! instructions leaves whole records or none. A successor looks at everything it finds before it uses it; what makes no sense is dropped. Who does not fit is not kept:
//! its handle answers EIO after a death.

use crate::lock::{Owner, Record as Lock, Taker};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use cairn_abi::Token;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

const WORDS: usize = 16;
type Words = [AtomicU64; WORDS];

/// The first word of the first record: that there was somebody, and how records look.
const MAGIC: u64 = 0x6b65_6570_7361_0001;
/// Words of the first record: the next generation, how many records were ever used, and how many marks.
const GENERATION: usize = 1;
const USED_RECORDS: usize = 2;
const USED_MARKS: usize = 3;
/// Generations of handles that are set aside at a time (see [`Keepsake::generation`]).
const GENERATIONS: u32 = 1 << 16;
/// Largest index of a handle.
const HANDLES: u64 = 1 << 20;

const FREE: u64 = 0;
const HANDLE: u64 = 1;
const RANGE: u64 = 2;
const WHOLE: u64 = 3;
const MOUNT: u64 = 4;
/// The owner of a record lock is an open file, and not a process.
const OF_FILE: u64 = 1 << 63;
/// A lock of a whole file, and its place: inode, badge, whether it is exclusive and who took it.
type Whole = (u64, u64, (bool, Taker), u32);
/// Longest path of a mount point.
const PATH: usize = (WORDS - 3) * 8;

/// A record of an open file. Its words: kind, badge, identity, flags, kind of handle, position, who began the last request that moves it (token), and where; whether it has a root, and that one's identity.
#[derive(Clone, Copy)]
pub(crate) struct Kept(&'static Words, u32);

/// An open file as it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub badge: u64,
    pub identity: u64,
    pub flags: u64,
    pub kind: u64,
    pub position: u64,
    /// Identity of the directory above which it leads to nothing.
    pub root: Option<u64>,
}

impl Kept {
    fn open(self) -> Open {
        let [_, badge, identity, flags, kind, position, _, _, rooted, root, ..] = self.0;
        Open {
            badge: badge.load(Relaxed),
            identity: identity.load(Relaxed),
            flags: flags.load(Relaxed),
            kind: kind.load(Relaxed),
            position: position.load(Relaxed),
            root: (rooted.load(Relaxed) != 0).then(|| root.load(Relaxed)),
        }
    }

    #[inline]
    pub fn set_position(self, position: u64) {
        self.0[5].store(position, Relaxed);
    }

    pub fn set_flags(self, flags: u64) {
        self.0[3].store(flags, Relaxed);
    }

    /// A request that may move the position begins.
    #[inline]
    pub fn begin(self, token: u64, position: u64) {
        self.0[7].store(position, Relaxed);
        self.0[6].store(token, Release);
    }

    /// Where this request began, if it did: the last that began is it. `first` is the number of its first call.
    pub fn begun(self, token: u64, first: u32) -> Option<u64> {
        let who = self.0[6].load(Relaxed);
        (who != 0 && is_same(who, token, first)).then(|| self.0[7].load(Relaxed))
    }
}

/// Whether what `who` asked for is what `token` asks for again. The lower half of a token is the thread, which makes one request at a time; the upper half
/// counts its calls.
/// So it is if the call was none before the `first` one for this (of whose number there are 31 bits).
pub(crate) fn is_same(who: Token, token: Token, first: u32) -> bool {
    const BITS: u32 = u32::MAX >> 1;
    let since = |token: Token| ((token >> 32) as u32).wrapping_sub(first) & BITS;
    who as u32 == token as u32 && since(who) <= since(token)
}

/// The records.
#[derive(Default)]
pub struct Keepsake {
    records: &'static [Words],
    /// Records from here on were never used; others are free.
    fresh: u32,
    free: Vec<u32>,
    /// Records of handles and of locks that were found, and of mount points.
    found: Vec<u32>,
    locks: Vec<u32>,
    mounts: Vec<u32>,
}

impl Keepsake {
    /// Look at what was left (zeroes: nothing). A quarter of the memory is for the records, a sixteenth for the server's [`Marks`], the rest for whatever it likes.
    pub fn new(memory: &'static [AtomicU64]) -> (Keepsake, Marks, &'static [AtomicU64]) {
        let (records, own) = memory.split_at(memory.len() / 4);
        let (marks, own) = own.split_at(memory.len() / 16);
        let (records, _) = records.as_chunks::<WORDS>();
        let mut keep = Keepsake {
            records,
            fresh: 1,
            ..Keepsake::default()
        };
        let Some(head) = records.first() else {
            return (Keepsake::default(), Marks::default(), &[]);
        };
        if head[0].load(Relaxed) != MAGIC {
            head[1..].iter().for_each(|word| word.store(0, Relaxed));
            set(head, MAGIC);
        }
        let used = head[USED_RECORDS].load(Relaxed).min(records.len() as u64);
        keep.find(used as usize);
        (keep, Marks::new(marks, &head[USED_MARKS]), own)
    }

    /// What lies behind those that were ever used is not even looked at: it would take memory.
    fn find(&mut self, records: usize) {
        let (mut used, mut badges) = (BTreeSet::new(), BTreeSet::new());
        for (index, record) in (0..).zip(&self.records[..records]).skip(1) {
            let [kind, badge, _, owner, start, end, ..] = record;
            let word = |word: &AtomicU64| word.load(Relaxed);
            let handle = word(badge) >> 32 != 0 && word(badge) as u32 as u64 <= HANDLES;
            let sane = match word(kind) {
                FREE => continue,
                HANDLE => handle && used.insert(word(badge) as u32),
                RANGE => {
                    let owner = word(owner);
                    let one = owner == OF_FILE || owner <= u64::from(u32::MAX);
                    handle && one && word(start) < word(end)
                }
                WHOLE => handle,
                MOUNT => (1..=PATH as u64).contains(&word(badge)),
                _ => false,
            };
            self.fresh = index + 1;
            if !sane {
                set(record, FREE);
                continue;
            }
            match word(kind) {
                HANDLE => {
                    badges.insert(word(badge));
                    self.found.push(index);
                }
                MOUNT => self.mounts.push(index),
                _ => self.locks.push(index),
            }
        }
        // Locks go with their handles.
        let records = self.records;
        self.locks.retain(|&index| {
            let record = &records[index as usize];
            let held = badges.contains(&record[1].load(Relaxed));
            if !held {
                set(record, FREE);
            }
            held
        });
        let is_free = |index: &u32| self.records[*index as usize][0].load(Relaxed) == FREE;
        self.free = (1..self.fresh).rev().filter(is_free).collect();
    }

    /// A generation that no handle before had. Handles have a slot and a generation; those that were not kept must not be taken for others.
    pub(crate) fn generation(&self) -> u32 {
        let head = self.records.first();
        head.map_or(0, |head| head[GENERATION].load(Relaxed) as u32)
    }

    /// A handle is made with this generation: those of successors are beyond it, and beyond all that are below the result.
    pub(crate) fn use_generation(&self, generation: u32) -> u32 {
        let beyond = generation.saturating_add(GENERATIONS);
        if let Some(head) = self.records.first() {
            head[GENERATION].store(u64::from(beyond), Relaxed);
        }
        beyond
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = self.fresh;
        ((index as usize) < self.records.len()).then(|| self.fresh += 1)?;
        self.records[0][USED_RECORDS].store(u64::from(self.fresh), Release);
        Some(index)
    }

    pub(crate) fn give(&mut self, index: u32) {
        set(&self.records[index as usize], FREE);
        self.free.push(index);
    }

    // ---- open files

    /// What was found open and mounted on, by the server's own names, each as often as it is.
    pub fn identities(&self) -> Vec<u64> {
        let record = |&index: &u32| &self.records[index as usize];
        let all = self.found.iter().chain(&self.mounts).map(record);
        let roots = self.found.iter().map(record);
        let roots = roots.filter(|record| record[8].load(Relaxed) != 0);
        all.map(|record| record[2].load(Relaxed))
            .chain(roots.map(|record| record[9].load(Relaxed)))
            .collect()
    }

    /// The handles that were found.
    pub(crate) fn opens(&mut self) -> Vec<(Open, Kept)> {
        let found = core::mem::take(&mut self.found).into_iter();
        let all = found.map(|index| Kept(&self.records[index as usize], index));
        all.map(|kept| (kept.open(), kept)).collect()
    }

    pub(crate) fn add(&mut self, open: &Open) -> Option<Kept> {
        let index = self.take()?;
        let record = &self.records[index as usize];
        let words = [
            open.badge,
            open.identity,
            open.flags,
            open.kind,
            open.position,
            0,
            0,
            u64::from(open.root.is_some()),
            open.root.unwrap_or(0),
        ];
        for (place, word) in record[1..].iter().zip(words) {
            place.store(word, Relaxed);
        }
        set(record, HANDLE);
        Some(Kept(record, index))
    }

    pub(crate) fn remove(&mut self, kept: Kept) {
        self.give(kept.1);
    }

    // ---- locks

    /// A record lock: its place, for [`Keepsake::give`].
    pub(crate) fn add_record(&mut self, ino: u64, lock: &Lock) -> Option<u32> {
        let owner = match lock.owner {
            Owner::Process(pid) => u64::from(pid),
            Owner::File(_) => OF_FILE,
        };
        let (exclusive, user) = (u64::from(lock.exclusive), u64::from(lock.user));
        let words = [
            lock.badge, ino, owner, lock.start, lock.end, exclusive, user,
        ];
        self.add_lock(RANGE, words)
    }

    /// A lock of a whole file.
    pub(crate) fn add_whole(
        &mut self,
        ino: u64,
        badge: u64,
        exclusive: bool,
        taker: Taker,
    ) -> Option<u32> {
        let (domain, pid) = (taker.domain.into(), taker.pid.into());
        self.add_lock(WHOLE, [badge, ino, domain, pid, 0, exclusive.into(), 0])
    }

    fn add_lock(&mut self, kind: u64, words: [u64; 7]) -> Option<u32> {
        let index = self.take()?;
        let record = &self.records[index as usize];
        for (place, word) in record[1..].iter().zip(words) {
            place.store(word, Relaxed);
        }
        set(record, kind);
        Some(index)
    }

    /// The locks that were found, with their places: record locks (inode, lock), and locks of whole files.
    pub(crate) fn locks(&mut self) -> (Vec<(u64, Lock, u32)>, Vec<Whole>) {
        let (mut ranges, mut whole) = (Vec::new(), Vec::new());
        for index in core::mem::take(&mut self.locks) {
            let record = &self.records[index as usize];
            let word = |at: usize| record[at].load(Relaxed);
            let (badge, ino, exclusive) = (word(1), word(2), word(6) != 0);
            if word(0) == WHOLE {
                let (domain, pid) = (word(3) as u32, word(4) as u32);
                whole.push((ino, badge, (exclusive, Taker { domain, pid }), index));
                continue;
            }
            let owner = match word(3) {
                OF_FILE => Owner::File(badge),
                pid => Owner::Process(pid as u32),
            };
            let lock = Lock {
                owner,
                badge,
                user: word(7) as u32,
                start: word(4),
                end: word(5),
                exclusive,
            };
            ranges.push((ino, lock, index));
        }
        (ranges, whole)
    }

    // ---- mount points

    /// Identity and path of each.
    pub(crate) fn mounts(&self) -> Vec<(u64, Vec<u8>)> {
        let mount = |&index: &u32| {
            let record = &self.records[index as usize];
            let bytes = record[3..]
                .iter()
                .flat_map(|word| word.load(Relaxed).to_le_bytes());
            let length = record[1].load(Relaxed) as usize;
            (record[2].load(Relaxed), bytes.take(length).collect())
        };
        self.mounts.iter().map(mount).collect()
    }

    pub(crate) fn add_mount(&mut self, identity: u64, path: &[u8]) {
        if !(1..=PATH).contains(&path.len()) {
            return;
        }
        let Some(index) = self.take() else { return };
        let record = &self.records[index as usize];
        record[1].store(path.len() as u64, Relaxed);
        record[2].store(identity, Relaxed);
        for (place, bytes) in record[3..].iter().zip(path.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            place.store(u64::from_le_bytes(word), Relaxed);
        }
        set(record, MOUNT);
        self.mounts.push(index);
    }

    pub(crate) fn remove_mount(&mut self, identity: u64) {
        let records = self.records;
        let of = |index: &u32| records[*index as usize][2].load(Relaxed) == identity;
        while let Some(at) = self.mounts.iter().position(of) {
            let index = self.mounts.swap_remove(at);
            self.give(index);
        }
    }
}

/// All other words were written before.
fn set(record: &Words, kind: u64) {
    record[0].store(kind, Release);
}

/// Words of a server's own that outlive it: a set of numbers that are not 0.
#[derive(Default)]
pub struct Marks {
    words: &'static [AtomicU64],
    /// How many were ever used.
    used: Option<&'static AtomicU64>,
    fresh: u32,
    free: Vec<u32>,
}

impl Marks {
    fn new(words: &'static [AtomicU64], used: &'static AtomicU64) -> Marks {
        Marks {
            words,
            fresh: used.load(Relaxed).min(words.len() as u64) as u32,
            used: Some(used),
            free: Vec::new(),
        }
    }

    /// What the predecessor left. (Before anything is added.)
    pub fn left(&self) -> Vec<u64> {
        let all = &self.words[..self.fresh as usize];
        let all = all.iter().map(|word| word.load(Relaxed));
        all.filter(|mark| *mark != 0).collect()
    }

    /// The set is empty from now on. (Before anything is added.)
    pub fn clear(&mut self) {
        let all = &self.words[..self.fresh as usize];
        all.iter().for_each(|word| word.store(0, Relaxed));
        self.fresh = 0;
    }

    /// The mark's place, if there is room.
    pub fn add(&mut self, mark: u64) -> Option<u32> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = self.fresh;
                ((at as usize) < self.words.len()).then(|| self.fresh += 1)?;
                if let Some(used) = self.used {
                    used.fetch_max(u64::from(self.fresh), Relaxed);
                }
                at
            }
        };
        self.words[at as usize].store(mark, Relaxed);
        Some(at)
    }

    pub fn remove(&mut self, at: u32) {
        self.words[at as usize].store(0, Relaxed);
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(words: usize) -> &'static [AtomicU64] {
        let zeroes: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        zeroes.leak()
    }

    fn open(badge: u64) -> Open {
        Open {
            badge: 7 << 32 | badge,
            identity: badge + 100,
            flags: 2,
            kind: 1,
            position: badge * 10,
            root: (badge == 2).then_some(200),
        }
    }

    #[test]
    fn a_successor_finds_what_is_open() {
        let memory = memory(4 * WORDS * 24);
        let (mut keep, ..) = Keepsake::new(memory);
        let kept: Vec<Kept> = (0..9).map_while(|badge| keep.add(&open(badge))).collect();
        assert_eq!(kept.len(), 9);
        keep.remove(kept[3]);
        kept[5].set_position(77);
        kept[5].begin(9 << 32 | 4, 66);
        kept[6].set_flags(1);
        keep.add_mount(42, b"/dev");
        let (mut next, ..) = Keepsake::new(memory);
        // One of them has a root.
        assert_eq!(next.identities().len(), 9 + 1);
        assert_eq!(next.mounts(), [(42, b"/dev".to_vec())]);
        let opens = next.opens();
        assert_eq!(opens.len(), 8);
        let of = |badge: u64| opens.iter().find(|(o, _)| o.identity == badge + 100);
        assert!(of(3).is_none());
        assert_eq!(of(2).unwrap().0, open(2));
        let (five, kept) = *of(5).unwrap();
        assert_eq!(five.position, 77);
        // The call that is made again, whichever of the times it was begun; not those before it, nor other threads'.
        let begun = |count: u64, first| kept.begun(count << 32 | 4, first);
        assert_eq!([begun(10, 9), begun(12, 8)], [Some(66); 2]);
        assert_eq!([begun(11, 10), begun(5, 10)], [None; 2]);
        assert_eq!(kept.begun(10 << 32 | 5, 9), None);
        // The count has come round, and 31 bits of the first are known.
        let (last, many) = (u64::from(u32::MAX) << 32 | 4, u32::MAX >> 1);
        kept.begin(last, 67);
        assert_eq!(kept.begun(4, many), Some(67));
        assert_eq!(kept.begun(1 << 32 | 4, 0), None);
        assert_eq!(of(6).unwrap().0.flags, 1);
        // Its own go beside them.
        for badge in 20.. {
            if next.add(&open(badge)).is_none() {
                assert_eq!(badge, 20 + 24 - 1 - 9);
                break;
            }
        }
        assert_eq!(Keepsake::new(memory).0.identities().len(), 24 - 1 + 1);
    }

    #[test]
    fn locks_are_those_that_were_there_last() {
        let memory = memory(4 * WORDS * 24);
        let (mut keep, ..) = Keepsake::new(memory);
        keep.add(&open(1));
        let lock = Lock {
            owner: Owner::File(open(1).badge),
            badge: open(1).badge,
            user: 1000,
            start: 5,
            end: u64::MAX,
            exclusive: true,
        };
        let other = Lock {
            owner: Owner::Process(3),
            badge: open(2).badge,
            ..lock
        };
        let gone = keep.add_record(8, &other).unwrap();
        let its = keep.add_record(8, &lock).unwrap();
        let taker = Taker { domain: 3, pid: 4 };
        let shared = keep
            .add_whole(8, open(1).badge, false, Taker::default())
            .unwrap();
        let whole = keep.add_whole(8, open(1).badge, true, taker).unwrap();
        keep.give(shared);
        keep.give(gone);
        keep.add_record(9, &other);
        let (mut next, ..) = Keepsake::new(memory);
        let (ranges, wholes) = next.locks();
        assert_eq!(ranges, [(8, lock, its)], "of open files only");
        assert_eq!(wholes, [(8, open(1).badge, (true, taker), whole)]);
        for _ in 0..100 {
            let place = keep.add_record(3, &lock).unwrap();
            keep.give(place);
        }
        assert!(keep.take().is_some(), "records are given back");
    }

    #[test]
    fn marks_are_found_once() {
        let memory = memory(4 * WORDS * 24);
        let (_, mut marks, _) = Keepsake::new(memory);
        let places: Vec<u32> = (1..=9).map(|mark| marks.add(mark).unwrap()).collect();
        marks.remove(places[4]);
        let (_, mut next, _) = Keepsake::new(memory);
        assert_eq!(next.left(), [1, 2, 3, 4, 6, 7, 8, 9]);
        next.clear();
        assert!(next.left().is_empty());
        let room = (1..).map_while(|mark| next.add(mark)).count();
        assert_eq!(room, 96);
    }
}
