//! Record locks (fcntl) and whole-file locks (flock), by inode number.
//!
//! A record lock belongs to a process (its domain, as the nucleus tells it) or to an open file description (its badge); those of an owner never overlap.
//! All locks taken through a handle go when its last holder does, and a process's with the process.
//!
//! Of many locks that go so, some go at once and the others piece by piece; they stand in nobody's way meanwhile.
//!
//! A user other than 0 has at most [`EACH`] record locks. What an operation looks at are the owner's own locks and those that are in its way ([`crate::spans`]), however many others the file has.

use crate::keep::Keepsake;
use crate::spans::{Nodes, Span, Spans};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use cairn_idl::fs::{LockKind, Locked, LOCK_WAITS, LOCK_WRITES, OPEN_FILES};

/// Most record locks of one user here.
pub const EACH: u32 = 8192;
/// A lock is not taken in the place of more of the owner's own: that is one step, and others wait.
pub const ANEW: usize = 1024;
/// So many records go at a time.
pub const AT_ONCE: usize = 16;
/// A circle of more processes that wait for each other is not found, as on Linux.
const CIRCLE: usize = 10;
/// A change makes so many at most: one, and the two ends of one that it cuts. And bytes that they need in the maps here, with what else a lock notes.
const MADE: usize = 3;
const ROOM: usize = 16 * 1024;

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// By its domain.
    Process(u32),
    /// An open file description, by its handle's badge.
    File(u64),
}

impl Owner {
    /// In the order of owners.
    fn word(self) -> u64 {
        match self {
            Owner::Process(domain) => u64::from(domain),
            Owner::File(badge) => OPEN_FILES | badge,
        }
    }

    fn from_word(word: u64) -> Owner {
        match word {
            OPEN_FILES.. => Owner::File(word & !OPEN_FILES),
            // (No domain's number has more bits.)
            _ => Owner::Process(word as u32),
        }
    }
}

/// A locked range: `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub owner: Owner,
    /// The handle that it was taken through.
    pub badge: u64,
    /// The user that it is counted for.
    pub user: u32,
    pub start: u64,
    pub end: u64,
    pub exclusive: bool,
}

/// A record, and its place in the keepsake.
#[derive(Clone, Copy)]
struct Held {
    record: Record,
    kept: Option<u32>,
}

/// Who takes a lock of a whole file: the domain, and the number that it says it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taker {
    pub domain: u32,
    pub pid: u32,
}

/// A lock of a whole file, and its place in the keepsake.
#[derive(Clone, Copy)]
struct Whole {
    exclusive: bool,
    taker: Taker,
    kept: Option<u32>,
}

/// A request that waits: for what, and the first lock in its way.
#[derive(Clone, Copy)]
struct Wait {
    ino: u64,
    wish: Record,
    taker: Taker,
    before: Owner,
    before_start: u64,
}

/// Where a list of locks goes on ([`Locks::list`]): in which of the lists, at which file, owner and start. (For requests that wait the first is whether it is
/// for a whole file.) Each place is greater than the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub list: u64,
    pub ino: u64,
    pub owner: u64,
    pub start: u64,
}

/// The lists: record locks, locks of whole files, requests that wait, and (not here) leases.
const RECORDS: u64 = 0;
const WHOLES: u64 = 1;
const WAITS: u64 = 2;
pub const LEASES: u64 = 3;

/// What a list of locks gives: at most so many, of so many that are looked at.
pub struct Listing {
    pub found: Vec<Listed>,
    /// As many as there is memory for.
    pub most: usize,
    pub looked_at: usize,
    /// Only those through this handle of this file.
    pub only: Option<(u64, u64)>,
}

/// A lock, and who took it: of a record lock its owner knows.
pub struct Listed {
    pub locked: Locked,
    pub taker: Taker,
}

impl Listing {
    /// No more is looked at.
    pub fn is_full(&mut self) -> bool {
        let full = self.looked_at == 0 || self.found.len() >= self.most;
        self.looked_at = self.looked_at.saturating_sub(1);
        full
    }

    fn wants(&self, ino: u64, badge: u64) -> bool {
        self.only.is_none_or(|only| only == (ino, badge))
    }
}

#[derive(Default)]
struct OfFile {
    /// By owner and start.
    records: BTreeMap<(Owner, u64), Held>,
    shared: Spans,
    exclusive: Spans,
    /// How many records of an owner were taken through a handle.
    handles: BTreeMap<(u64, Owner), u32>,
    /// Holders of flock by badge. An exclusive one is alone.
    whole: BTreeMap<u64, Whole>,
}

impl OfFile {
    fn spans(&mut self, exclusive: bool) -> &mut Spans {
        match exclusive {
            true => &mut self.exclusive,
            false => &mut self.shared,
        }
    }

    fn insert(&mut self, nodes: &mut Nodes, held: Held) {
        let Record {
            owner,
            badge,
            start,
            end,
            exclusive,
            ..
        } = held.record;
        let span = Span { start, end, owner };
        nodes.insert(self.spans(exclusive), span);
        *self.handles.entry((badge, owner)).or_default() += 1;
        self.records.insert((owner, start), held);
    }

    fn remove(&mut self, nodes: &mut Nodes, owner: Owner, start: u64) -> Option<Held> {
        let held = self.records.remove(&(owner, start))?;
        nodes.remove(self.spans(held.record.exclusive), start, owner);
        let handle = (held.record.badge, owner);
        if let Some(count) = self.handles.get_mut(&handle) {
            *count -= 1;
            if *count == 0 {
                self.handles.remove(&handle);
            }
        }
        Some(held)
    }

    /// The owner's records that have something of `start..=end`, or touch it.
    fn near(&self, owner: Owner, start: u64, end: u64) -> impl Iterator<Item = &Record> {
        // They do not overlap: at most one begins before and gets there.
        let before = self.records.range((owner, 0)..(owner, start)).next_back();
        let before = before.filter(move |(_, held)| held.record.end >= start);
        let from = self.records.range((owner, start)..=(owner, end));
        before.into_iter().chain(from).map(|(_, held)| &held.record)
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.whole.is_empty()
    }
}

/// What is gone, and its records are going.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gone {
    Process(u32),
    Handle { ino: u64, badge: u64 },
}

/// Why a lock is not given.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Many that are going anyway have to go first.
    Going,
    /// Somebody holds it: wait or give up.
    Held(Owner),
    /// Waiting would close a circle.
    Deadlock,
    /// The user has too many, or there is no memory.
    TooMany,
}

/// All locks of a manager.
#[derive(Default)]
pub struct Locks {
    files: BTreeMap<u64, OfFile>,
    nodes: Nodes,
    /// The files in which a process has locks.
    processes: BTreeMap<u32, BTreeSet<u64>>,
    gone: BTreeSet<Gone>,
    /// Who waits, and for whom. (Of a process or open file one request, and for a whole file one of each domain.)
    waits: BTreeMap<(bool, Owner), Wait>,
    /// How many record locks each user has.
    users: BTreeMap<u32, u32>,
}

/// End of a range that a request names by start and length (0 = to the end of any file).
pub fn end_of(start: u64, length: u64) -> u64 {
    if length == 0 {
        u64::MAX
    } else {
        start.saturating_add(length)
    }
}

/// Whether the heap has so much.
fn room() -> bool {
    #[cfg(target_os = "none")]
    return cairn_rt::heap::prepare(ROOM);
    #[cfg(not(target_os = "none"))]
    return ROOM > 0;
}

impl Locks {
    /// The first lock of somebody else that stands in the way.
    pub fn conflict(&self, ino: u64, wish: &Record) -> Option<Record> {
        let file = self.files.get(&ino)?;
        let (start, end, owner) = (wish.start, wish.end, wish.owner);
        let in_the_way = |spans| self.nodes.in_the_way(spans, start, end, owner);
        let exclusive = in_the_way(file.exclusive);
        let shared = match wish.exclusive {
            true => in_the_way(file.shared),
            false => None,
        };
        let first = exclusive.into_iter().chain(shared);
        let first = first.min_by_key(|span| span.start)?;
        let held = file.records.get(&(first.owner, first.start))?;
        Some(held.record)
    }

    /// The same, of those whose owners are there.
    pub fn in_the_way(
        &mut self,
        keep: &mut Keepsake,
        ino: u64,
        wish: &Record,
    ) -> Result<Option<Record>, Refused> {
        for _ in 0..=AT_ONCE {
            let held = self.conflict(ino, wish);
            let Some((its, gone)) = held.and_then(|its| Some((its, self.going(ino, &its)?))) else {
                return Ok(held);
            };
            self.remove(keep, ino, its.owner, its.start);
            // (A process keeps the file among its own: who is told to wait is woken when that has gone, even if these were its last records there.)
            if matches!(gone, Gone::Handle { .. }) {
                self.note(ino, its.owner);
            }
        }
        Err(Refused::Going)
    }

    /// With what a record is going.
    fn going(&self, ino: u64, held: &Record) -> Option<Gone> {
        let process = match held.owner {
            Owner::Process(domain) => Some(Gone::Process(domain)),
            Owner::File(_) => None,
        };
        let handle = Gone::Handle {
            ino,
            badge: held.badge,
        };
        let mut all = process.into_iter().chain([handle]);
        all.find(|gone| self.gone.contains(gone))
    }

    /// Of a range to be unlocked the first part, in which are not many locks.
    pub fn first_part(&self, ino: u64, wish: &Record) -> Record {
        let file = self.files.get(&ino);
        let near = file.map(|file| file.near(wish.owner, wish.start, wish.end));
        let next = near.into_iter().flatten().nth(AT_ONCE);
        let end = next.map_or(wish.end, |held| held.start.min(wish.end));
        Record { end, ..*wish }
    }

    /// Take a lock; the owner's own locks in the range are replaced. With `wait`, note who waits for whom.
    pub fn set(
        &mut self,
        keep: &mut Keepsake,
        ino: u64,
        wish: Record,
        wait: bool,
    ) -> Result<(), Refused> {
        self.forget_wait(wish.owner);
        if let Some(held) = self.in_the_way(keep, ino, &wish)? {
            if wait {
                if self.closes_circle(wish.owner, held.owner) {
                    return Err(Refused::Deadlock);
                }
                let wait = Wait {
                    ino,
                    wish,
                    taker: Taker::default(),
                    before: held.owner,
                    before_start: held.start,
                };
                self.waits.insert((false, wish.owner), wait);
            }
            return Err(Refused::Held(held.owner));
        }
        self.change(keep, ino, &wish, true).map(|_| ())
    }

    /// Unlock a range: the owner's locks are cut. Whether anything was unlocked.
    pub fn clear(&mut self, keep: &mut Keepsake, ino: u64, wish: &Record) -> Result<bool, Refused> {
        match self.files.contains_key(&ino) {
            true => self.change(keep, ino, wish, false),
            false => Ok(false),
        }
    }

    /// The owner's records in the range of `wish` are replaced by it, if it is to be `taken`. Whether there were any.
    fn change(
        &mut self,
        keep: &mut Keepsake,
        ino: u64,
        wish: &Record,
        taken: bool,
    ) -> Result<bool, Refused> {
        let Record { owner, .. } = *wish;
        let file = self.files.get(&ino);
        let near = file.map(|file| file.near(owner, wish.start, wish.end));
        let (mut old, mut new, mut joined) = (Vec::new(), Vec::new(), *wish);
        for held in near.into_iter().flatten() {
            let alike = held.exclusive == wish.exclusive && held.badge == wish.badge;
            let inside = held.start < wish.end && wish.start < held.end;
            if taken && alike {
                // Neighbours of the same kind become one.
                joined.start = joined.start.min(held.start);
                joined.end = joined.end.max(held.end);
            } else if inside {
                let (before, behind) = (held.start < wish.start, held.end > wish.end);
                let end = wish.start;
                new.extend(before.then_some(Record { end, ..*held }));
                let start = wish.end;
                new.extend(behind.then_some(Record { start, ..*held }));
            } else {
                continue;
            }
            // (There may be many. To be unlocked they come in parts.)
            if old.len() == ANEW {
                return Err(Refused::TooMany);
            }
            old.try_reserve(1).map_err(|_| Refused::TooMany)?;
            old.push(held.start);
        }
        new.extend(taken.then_some(joined));
        self.may_have(wish.user, &old, &new)?;
        self.reserve()?;
        // The new ones first: a death in between leaves too many, and who asked asks again.
        let kept: Vec<Option<u32>> = new.iter().map(|r| keep.add_record(ino, r)).collect();
        for &start in &old {
            self.remove(keep, ino, owner, start);
        }
        for (record, kept) in new.into_iter().zip(kept) {
            self.insert(ino, Held { record, kept });
        }
        self.note(ino, owner);
        Ok(!old.is_empty())
    }

    /// Can the user have so many records in place of those?
    fn may_have(&self, user: u32, old: &[u64], new: &[Record]) -> Result<(), Refused> {
        let has = self.users.get(&user).copied().unwrap_or(0) as usize;
        let more = new.len() > old.len() && has + new.len() - old.len() > EACH as usize;
        match user != 0 && more {
            true => Err(Refused::TooMany),
            false => Ok(()),
        }
    }

    /// There is room for what a change makes, before anything is changed.
    fn reserve(&mut self) -> Result<(), Refused> {
        match self.nodes.reserve(MADE) && room() {
            true => Ok(()),
            false => Err(Refused::TooMany),
        }
    }

    fn insert(&mut self, ino: u64, held: Held) {
        *self.users.entry(held.record.user).or_default() += 1;
        let file = self.files.entry(ino).or_default();
        file.insert(&mut self.nodes, held);
    }

    fn remove(&mut self, keep: &mut Keepsake, ino: u64, owner: Owner, start: u64) {
        let file = self.files.get_mut(&ino);
        let Some(held) = file.and_then(|file| file.remove(&mut self.nodes, owner, start)) else {
            return;
        };
        if let Some(kept) = held.kept {
            keep.give(kept);
        }
        let user = held.record.user;
        if let Some(count) = self.users.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&user);
            }
        }
    }

    /// What a predecessor left: a record lock, and its place in the keepsake. In doubt the first one holds.
    pub(crate) fn restore(&mut self, keep: &mut Keepsake, ino: u64, record: Record, kept: u32) {
        let overlaps = |file: &OfFile| {
            let mut near = file.near(record.owner, record.start, record.end);
            near.any(|held| held.start < record.end && record.start < held.end)
        };
        let taken =
            self.files.get(&ino).is_some_and(overlaps) || self.conflict(ino, &record).is_some();
        if taken || self.reserve().is_err() {
            keep.give(kept);
            return;
        }
        let kept = Some(kept);
        self.insert(ino, Held { record, kept });
        self.note(ino, record.owner);
    }

    /// The same of a whole file.
    pub(crate) fn restore_whole(
        &mut self,
        keep: &mut Keepsake,
        ino: u64,
        badge: u64,
        (exclusive, taker): (bool, Taker),
        kept: u32,
    ) {
        let file = self.files.entry(ino).or_default();
        let others = file.whole.values().any(|held| held.exclusive || exclusive);
        if others || file.whole.contains_key(&badge) {
            return keep.give(kept);
        }
        let kept = Some(kept);
        let whole = Whole {
            exclusive,
            taker,
            kept,
        };
        file.whole.insert(badge, whole);
    }

    /// flock: a handle's lock is replaced. `false`: somebody else holds it, and with `wait` it is noted who waits.
    pub fn lock_whole(
        &mut self,
        keep: &mut Keepsake,
        ino: u64,
        badge: u64,
        (exclusive, taker): (bool, Taker),
        wait: bool,
    ) -> bool {
        self.forget_whole_wait(taker.domain);
        let file = self.files.entry(ino).or_default();
        let mut others = file.whole.iter().filter(|(other, _)| **other != badge);
        // If there is an exclusive one there is no other.
        let first = others.next().filter(|other| exclusive || other.1.exclusive);
        if let Some((&other, _)) = first {
            if wait {
                let wish = Record {
                    owner: Owner::File(badge),
                    badge,
                    user: 0,
                    start: 0,
                    end: u64::MAX,
                    exclusive,
                };
                let wait = Wait {
                    ino,
                    wish,
                    taker,
                    before: Owner::File(other),
                    before_start: 0,
                };
                let waiter = (true, Owner::Process(taker.domain));
                self.waits.insert(waiter, wait);
            }
            return false;
        }
        let kept = keep.add_whole(ino, badge, exclusive, taker);
        let whole = Whole {
            exclusive,
            taker,
            kept,
        };
        if let Some(Some(old)) = file.whole.insert(badge, whole).map(|old| old.kept) {
            keep.give(old);
        }
        true
    }

    pub fn unlock_whole(&mut self, keep: &mut Keepsake, ino: u64, badge: u64) -> bool {
        let file = self.files.get_mut(&ino);
        let Some(held) = file.and_then(|file| file.whole.remove(&badge)) else {
            return false;
        };
        if let Some(kept) = held.kept {
            keep.give(kept);
        }
        self.tidy(ino);
        true
    }

    /// The handle is gone, and all locks taken through it.
    pub fn close(&mut self, keep: &mut Keepsake, ino: u64, badge: u64) -> bool {
        let changed = self.unlock_whole(keep, ino, badge);
        self.close_some(keep, ino, badge) || changed
    }

    fn close_some(&mut self, keep: &mut Keepsake, ino: u64, badge: u64) -> bool {
        let all = (badge, Owner::Process(0))..=(badge, Owner::File(u64::MAX));
        let (mut any, mut most) = (false, AT_ONCE);
        let gone = Gone::Handle { ino, badge };
        while let Some(owner) = self.files.get(&ino).and_then(|file| {
            let mut its = file.handles.range(all.clone());
            its.next().map(|(at, _)| at.1)
        }) {
            if most == 0 {
                self.gone.insert(gone);
                return any;
            }
            self.drop_records(keep, ino, owner, |held| held.badge == badge, &mut most);
            any = true;
        }
        self.gone.remove(&gone);
        any
    }

    /// A process has ended, and its locks with it: the files in which it had some.
    pub fn end(&mut self, keep: &mut Keepsake, domain: u32) -> BTreeSet<u64> {
        let owner = Owner::Process(domain);
        self.forget_wait(owner);
        self.forget_whole_wait(domain);
        let (mut files, mut most) = (BTreeSet::new(), AT_ONCE);
        let gone = Gone::Process(domain);
        while let Some(&ino) = self.processes.get(&domain).and_then(BTreeSet::first) {
            if most == 0 {
                self.gone.insert(gone);
                return files;
            }
            let before = most;
            self.drop_records(keep, ino, owner, |_| true, &mut most);
            // (Others may have taken its last ones away: a file without any is a step as well.)
            most -= usize::from(most == before);
            files.insert(ino);
        }
        self.gone.remove(&gone);
        files
    }

    /// Whether some are still to go of what is gone.
    pub fn are_going(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Some of them go: the files in which they were.
    pub fn go_on(&mut self, keep: &mut Keepsake) -> BTreeSet<u64> {
        match self.gone.first().copied() {
            Some(Gone::Process(domain)) => self.end(keep, domain),
            Some(Gone::Handle { ino, badge }) => {
                self.close_some(keep, ino, badge);
                [ino].into()
            }
            None => BTreeSet::new(),
        }
    }

    fn drop_records(
        &mut self,
        keep: &mut Keepsake,
        ino: u64,
        owner: Owner,
        goes: impl Fn(&Record) -> bool,
        most: &mut usize,
    ) {
        let mut from = 0;
        while *most > 0 {
            let Some(start) = self.files.get(&ino).and_then(|file| {
                let mut its = file.near(owner, from, u64::MAX);
                let next = its.find(|held| held.start >= from && goes(held));
                next.map(|held| held.start)
            }) else {
                break;
            };
            self.remove(keep, ino, owner, start);
            from = start;
            *most -= 1;
        }
        self.note(ino, owner);
    }

    /// An owner may have its first locks in a file, or none any more.
    fn note(&mut self, ino: u64, owner: Owner) {
        let file = self.files.get(&ino);
        let has = file.is_some_and(|file| file.near(owner, 0, u64::MAX).next().is_some());
        self.tidy(ino);
        let Owner::Process(domain) = owner else {
            return;
        };
        if has {
            self.processes.entry(domain).or_default().insert(ino);
        } else if let Some(files) = self.processes.get_mut(&domain) {
            files.remove(&ino);
            if files.is_empty() {
                self.processes.remove(&domain);
            }
        }
    }

    /// The owner waits no longer.
    pub fn forget_wait(&mut self, owner: Owner) {
        self.waits.remove(&(false, owner));
    }

    /// The domain waits for no whole file any longer.
    pub fn forget_whole_wait(&mut self, domain: u32) {
        if !self.waits.is_empty() {
            self.waits.remove(&(true, Owner::Process(domain)));
        }
    }

    fn closes_circle(&self, waiter: Owner, holder: Owner) -> bool {
        let mut at = holder;
        for _ in 0..=CIRCLE {
            if at == waiter {
                return true;
            }
            match self.waits.get(&(false, at)) {
                Some(wait) => at = wait.before,
                None => return false,
            }
        }
        false
    }

    /// The locks from a place on, and who waits; where to go on, which is behind the last list here if that was all.
    pub fn list(&self, from: Place, listing: &mut Listing) -> Place {
        let mut at = from;
        if at.list == RECORDS {
            match self.list_records(at, listing) {
                Some(next) => return next,
                None => {
                    at = Place {
                        list: WHOLES,
                        ..Place::default()
                    }
                }
            }
        }
        if at.list == WHOLES {
            match self.list_wholes(at, listing) {
                Some(next) => return next,
                None => {
                    at = Place {
                        list: WAITS,
                        ..Place::default()
                    }
                }
            }
        }
        match self.list_waits(at, listing) {
            Some(next) => next,
            None => Place {
                list: LEASES,
                ..Place::default()
            },
        }
    }

    /// The files from one on that a listing is about.
    fn files_from(
        &self,
        first: u64,
        only: Option<(u64, u64)>,
    ) -> impl Iterator<Item = (u64, &OfFile)> {
        let (first, last) = match only {
            Some((ino, _)) => (first.max(ino), ino),
            None => (first, u64::MAX),
        };
        let some = first <= last;
        let files = some.then(|| self.files.range(first..=last));
        files.into_iter().flatten().map(|(&ino, file)| (ino, file))
    }

    fn list_records(&self, from: Place, listing: &mut Listing) -> Option<Place> {
        for (ino, file) in self.files_from(from.ino, listing.only) {
            let first = match ino == from.ino {
                true => (Owner::from_word(from.owner), from.start),
                false => (Owner::Process(0), 0),
            };
            if listing.is_full() {
                return Some(Place {
                    list: RECORDS,
                    ino,
                    owner: first.0.word(),
                    start: first.1,
                });
            }
            for (&(owner, start), held) in file.records.range(first..) {
                let full = listing.is_full();
                if full {
                    return Some(Place {
                        list: RECORDS,
                        ino,
                        owner: owner.word(),
                        start,
                    });
                }
                if listing.wants(ino, held.record.badge) && self.going(ino, &held.record).is_none()
                {
                    let locked = told(ino, &held.record, kind_of(owner));
                    listing.found.push(Listed {
                        locked,
                        taker: Taker::default(),
                    });
                }
            }
        }
        None
    }

    fn list_wholes(&self, from: Place, listing: &mut Listing) -> Option<Place> {
        for (ino, file) in self.files_from(from.ino, listing.only) {
            let first = if ino == from.ino { from.owner } else { 0 };
            if listing.is_full() {
                return Some(Place {
                    list: WHOLES,
                    ino,
                    owner: first,
                    start: 0,
                });
            }
            for (&badge, held) in file.whole.range(first..) {
                if listing.is_full() {
                    return Some(Place {
                        list: WHOLES,
                        ino,
                        owner: badge,
                        start: 0,
                    });
                }
                if listing.wants(ino, badge) {
                    let record = Record {
                        owner: Owner::File(badge),
                        badge,
                        user: 0,
                        start: 0,
                        end: u64::MAX,
                        exclusive: held.exclusive,
                    };
                    let locked = told(ino, &record, LockKind::Whole);
                    listing.found.push(Listed {
                        locked,
                        taker: held.taker,
                    });
                }
            }
        }
        None
    }

    fn list_waits(&self, from: Place, listing: &mut Listing) -> Option<Place> {
        if listing.only.is_some() {
            return None;
        }
        let first = (from.ino != 0, Owner::from_word(from.owner));
        for (&(whole, owner), wait) in self.waits.range(first..) {
            if listing.is_full() {
                return Some(Place {
                    list: WAITS,
                    ino: whole.into(),
                    owner: owner.word(),
                    start: 0,
                });
            }
            let kind = match whole {
                true => LockKind::Whole,
                false => kind_of(owner),
            };
            let mut locked = told(wait.ino, &wait.wish, kind);
            locked.what |= LOCK_WAITS;
            locked.before = wait.before.word();
            locked.before_start = wait.before_start;
            listing.found.push(Listed {
                locked,
                taker: wait.taker,
            });
        }
        None
    }

    fn tidy(&mut self, ino: u64) {
        if self.files.get(&ino).is_some_and(OfFile::is_empty) {
            self.files.remove(&ino);
        }
    }
}

fn kind_of(owner: Owner) -> LockKind {
    match owner {
        Owner::Process(_) => LockKind::Process,
        Owner::File(_) => LockKind::OpenFile,
    }
}

fn told(ino: u64, record: &Record, kind: LockKind) -> Locked {
    let writes = if record.exclusive { LOCK_WRITES } else { 0 };
    Locked {
        inode: ino,
        start: record.start,
        end: record.end,
        owner: record.owner.word(),
        what: kind.word() as u32 | writes,
        ..Locked::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is listed, so many at a time: file, owner, start, kind and bits; and how often it was asked.
    fn listed(
        locks: &Locks,
        most: usize,
        only: Option<(u64, u64)>,
    ) -> (Vec<(u64, u64, u64, u32)>, usize) {
        let (mut at, mut all, mut asked) = (Place::default(), Vec::new(), 0);
        while at.list != LEASES {
            let mut listing = Listing {
                found: Vec::new(),
                most,
                looked_at: 4 * most,
                only,
            };
            at = locks.list(at, &mut listing);
            assert!(listing.found.len() <= most);
            let told = listing.found.iter().map(|l| l.locked);
            all.extend(told.map(|l| (l.inode, l.owner, l.start, l.what)));
            asked += 1;
            assert!(asked < 100_000);
        }
        (all, asked)
    }

    #[test]
    fn locks_are_listed_in_pieces_with_those_that_wait() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        locks.set(keep, 1, record(7, 0, 10, true), false).unwrap();
        let open_file = Record {
            owner: Owner::File(9),
            badge: 9,
            ..record(0, 20, 30, false)
        };
        locks.set(keep, 1, open_file, false).unwrap();
        let taker = |domain| Taker {
            domain,
            pid: domain + 1,
        };
        assert!(locks.lock_whole(keep, 2, 5, (false, taker(7)), true));
        assert!(locks.lock_whole(keep, 2, 6, (false, taker(8)), true));
        assert!(!locks.lock_whole(keep, 2, 5, (true, taker(7)), true));
        let held = Err(Refused::Held(Owner::Process(7)));
        assert_eq!(locks.set(keep, 1, record(8, 5, 25, true), true), held);
        let kinds = [LockKind::Process, LockKind::OpenFile, LockKind::Whole];
        let [process, open, whole] = kinds.map(|kind| kind.word() as u32);
        let all = [
            (1, 7, 0, process | LOCK_WRITES),
            (1, OPEN_FILES | 9, 20, open),
            (2, OPEN_FILES | 5, 0, whole),
            (2, OPEN_FILES | 6, 0, whole),
            (1, 8, 5, process | LOCK_WRITES | LOCK_WAITS),
            (2, OPEN_FILES | 5, 0, whole | LOCK_WRITES | LOCK_WAITS),
        ];
        for most in 1..8 {
            assert_eq!(listed(&locks, most, None).0, all);
        }
        // Of one handle: what was taken through it.
        assert_eq!(listed(&locks, 3, Some((1, 9))).0, all[1..2]);
        assert_eq!(listed(&locks, 3, Some((2, 6))).0, all[3..4]);
        assert_eq!(listed(&locks, 3, Some((3, 6))).0, []);
        // Nobody waits any more; what is going is not there.
        locks.forget_whole_wait(7);
        locks.forget_wait(Owner::Process(8));
        assert_eq!(listed(&locks, 3, None).0, all[..4]);
        for place in 0..100 {
            locks
                .set(keep, 3, record(7, 2 * place, 2 * place + 1, true), false)
                .unwrap();
        }
        locks.end(keep, 7);
        assert!(locks.are_going());
        assert_eq!(listed(&locks, 3, None).0, all[1..4]);
        while locks.are_going() {
            locks.go_on(keep);
        }
        for badge in [5, 6] {
            locks.close(keep, 2, badge);
        }
        locks.close(keep, 1, 9);
        assert!(locks.is_empty());
    }

    /// However many there are, a request looks at so many.
    #[test]
    fn ten_thousand_locks_are_listed_in_pieces() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        for at in 0..10_000 {
            let its = Record {
                user: 0,
                ..record(7, at * 2, at * 2 + 1, true)
            };
            locks.set(keep, at % 3, its, false).unwrap();
        }
        let (all, asked) = listed(&locks, 100, None);
        assert_eq!((all.len(), asked), (10_000, 101));
        // Of another handle there is nothing, and that is found in pieces as well.
        let (none, asked) = listed(&locks, 100, Some((1, 3)));
        assert!(none.is_empty() && asked > 5, "{asked}");
    }

    fn record(pid: u32, start: u64, end: u64, exclusive: bool) -> Record {
        Record {
            owner: Owner::Process(pid),
            badge: pid as u64,
            user: 1000,
            start,
            end,
            exclusive,
        }
    }

    impl Locks {
        fn of(&self, ino: u64) -> Vec<Record> {
            let file = self.files.get(&ino).into_iter();
            file.flat_map(|file| file.records.values().map(|held| held.record))
                .collect()
        }

        fn is_empty(&self) -> bool {
            let lists = [self.files.len(), self.processes.len(), self.users.len()];
            lists == [0; 3] && self.waits.is_empty()
        }
    }

    #[test]
    fn ranges_conflict_split_and_join() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        locks.set(keep, 1, record(1, 0, 100, true), false).unwrap();
        assert_eq!(
            locks.set(keep, 1, record(2, 50, 60, false), false),
            Err(Refused::Held(Owner::Process(1)))
        );
        assert_eq!(locks.clear(keep, 1, &record(1, 40, 70, false)), Ok(true));
        locks.set(keep, 1, record(2, 50, 60, false), false).unwrap();
        locks.set(keep, 1, record(3, 55, 60, false), false).unwrap();
        assert!(locks.conflict(1, &record(2, 0, 41, false)).is_some());
        assert!(locks.conflict(1, &record(2, 40, 70, false)).is_none());
        // Another file is another matter.
        locks
            .set(keep, 2, record(2, 0, u64::MAX, true), false)
            .unwrap();
        // Joining.
        locks.set(keep, 3, record(1, 0, 10, false), false).unwrap();
        locks.set(keep, 3, record(1, 10, 20, false), false).unwrap();
        assert_eq!(locks.of(3), [record(1, 0, 20, false)]);
    }

    #[test]
    fn a_circle_of_waiters_is_refused() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        for pid in 1..=3 {
            let at = pid as u64 * 10;
            locks
                .set(keep, 1, record(pid, at, at + 1, true), false)
                .unwrap();
        }
        let held = |pid| Err(Refused::Held(Owner::Process(pid)));
        assert_eq!(locks.set(keep, 1, record(1, 20, 21, true), true), held(2));
        assert_eq!(locks.set(keep, 1, record(2, 30, 31, true), true), held(3));
        assert_eq!(
            locks.set(keep, 1, record(3, 10, 11, true), true),
            Err(Refused::Deadlock)
        );
        locks.forget_wait(Owner::Process(1));
        assert_eq!(locks.set(keep, 1, record(3, 10, 11, true), true), held(1));
    }

    #[test]
    fn closing_a_handle_drops_its_locks() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        assert!(locks.lock_whole(keep, 1, 100, (false, Taker::default()), false));
        assert!(locks.lock_whole(keep, 1, 101, (false, Taker::default()), false));
        assert!(!locks.lock_whole(keep, 1, 100, (true, Taker::default()), false));
        assert!(locks.close(keep, 1, 101));
        assert!(locks.lock_whole(keep, 1, 100, (true, Taker::default()), false));
        assert!(locks.close(keep, 1, 100));
        assert!(locks.files.is_empty());
    }

    #[test]
    fn a_process_takes_its_locks_along() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        let through = |badge, start| Record {
            badge,
            ..record(7, start, start + 5, true)
        };
        locks.set(keep, 1, through(100, 0), false).unwrap();
        locks.set(keep, 2, through(101, 0), false).unwrap();
        locks.set(keep, 2, record(8, 50, 60, true), false).unwrap();
        locks.set(keep, 3, through(102, 0), false).unwrap();
        // Unlocked, and closed: nothing is remembered of it.
        assert_eq!(locks.clear(keep, 3, &record(7, 0, 100, false)), Ok(true));
        assert!(locks.close(keep, 1, 100));
        assert_eq!(locks.end(keep, 7), [2].into());
        assert_eq!(locks.of(2), [record(8, 50, 60, true)]);
        assert!(locks.end(keep, 7).is_empty());
        assert_eq!(locks.end(keep, 8), [2].into());
        assert!(locks.files.is_empty() && locks.processes.is_empty());
    }

    #[test]
    fn a_user_has_so_many_and_others_theirs() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        let at = |pid: u32, place: u64| record(pid, place * 10, place * 10 + 5, pid == 1);
        for place in 0..u64::from(EACH) {
            let (file, pid) = (place % 3, 1 + (place % 2) as u32);
            assert_eq!(locks.set(keep, file, at(pid, place), false), Ok(()));
        }
        let most = u64::from(EACH);
        assert_eq!(
            locks.set(keep, 9, at(1, most), false),
            Err(Refused::TooMany)
        );
        // Nor may one become two; but one may become another, and two one.
        let middle = Record {
            start: 1,
            end: 2,
            ..at(1, 0)
        };
        assert_eq!(locks.clear(keep, 0, &middle), Err(Refused::TooMany));
        assert_eq!(locks.of(0)[0], at(1, 0));
        let shared = Record {
            exclusive: false,
            ..at(1, 0)
        };
        assert_eq!(locks.set(keep, 0, shared, false), Ok(()));
        for user in [0, 1001] {
            let other = Record {
                user,
                ..at(7, most)
            };
            assert_eq!(locks.set(keep, 9, other, false), Ok(()));
        }
        assert_eq!(locks.clear(keep, 0, &at(1, 0)), Ok(true));
        assert_eq!(locks.set(keep, 9, at(1, most + 1), false), Ok(()));
        for pid in [1, 2, 7] {
            locks.end(keep, pid);
        }
        while locks.are_going() {
            locks.go_on(keep);
        }
        assert!(locks.is_empty());
    }

    #[test]
    fn so_many_are_replaced_and_more_are_not_touched() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        for place in 0..=ANEW as u64 {
            let one = record(1, place * 10, place * 10 + 5, true);
            assert_eq!(locks.set(keep, 1, one, false), Ok(()));
        }
        for exclusive in [true, false] {
            let all = record(1, 0, u64::MAX, exclusive);
            assert_eq!(locks.set(keep, 1, all, false), Err(Refused::TooMany));
        }
        assert_eq!(locks.of(1).len(), ANEW + 1);
        let fewer = record(1, 10, u64::MAX, false);
        assert_eq!(locks.set(keep, 1, fewer, false), Ok(()));
        assert_eq!(locks.of(1).len(), 2);
    }

    /// Random locks of processes and open files, against a list that is walked.
    #[test]
    fn agrees_with_a_list() {
        let mut random = 5u64;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        // What each owner has at each place of the file: the handle, and whether it is exclusive.
        let mut model: BTreeMap<Owner, [Option<(u64, bool)>; 40]> = BTreeMap::new();
        for step in 0..30_000 {
            let number = next(5);
            let owner = match number {
                0..3 => Owner::Process(number as u32),
                _ => Owner::File(number),
            };
            let badge = match owner {
                Owner::File(badge) => badge,
                Owner::Process(_) => 10 + next(2),
            };
            let start = next(39);
            let wish = Record {
                owner,
                badge,
                user: 1000,
                start,
                end: start + 1 + next(40 - start - 1),
                exclusive: next(3) == 0,
            };
            let range = wish.start as usize..wish.end as usize;
            let in_the_way = model.iter().any(|(other, places)| {
                let mut held = places[range.clone()].iter().flatten();
                *other != owner && held.any(|held| held.1 || wish.exclusive)
            });
            assert_eq!(
                locks.conflict(1, &wish).is_some(),
                in_the_way,
                "step {step}"
            );
            match next(12) {
                0..7 => {
                    let set = locks.set(keep, 1, wish, false);
                    assert_eq!(set.is_err(), in_the_way);
                    if !in_the_way {
                        let places = model.entry(owner).or_insert([None; 40]);
                        places[range].fill(Some((badge, wish.exclusive)));
                    }
                }
                7..10 => {
                    let places = model.entry(owner).or_insert([None; 40]);
                    let any = places[range.clone()].iter().any(Option::is_some);
                    assert_eq!(locks.clear(keep, 1, &wish), Ok(any));
                    places[range].fill(None);
                }
                10 => {
                    let through = |held: &Option<(u64, bool)>| held.is_some_and(|h| h.0 == badge);
                    let mut all = model.values_mut().flatten();
                    let any = all.any(|held| through(held));
                    assert_eq!(locks.close(keep, 1, badge), any);
                    let all = model.values_mut().flatten();
                    all.filter(|held| through(held))
                        .for_each(|held| *held = None);
                }
                _ => {
                    if let Owner::Process(domain) = owner {
                        locks.end(keep, domain);
                        model.remove(&owner);
                    }
                }
            }
        }
        for badge in [3, 4, 10, 11] {
            locks.close(keep, 1, badge);
        }
        assert!(locks.is_empty());
    }

    /// Many locks of a process or a handle that is gone go in pieces, and stand in nobody's way meanwhile.
    #[test]
    fn many_locks_go_in_pieces() {
        const MANY: u64 = 500;
        for by_handle in [false, true] {
            let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
            let stays = record(8, 10 * MANY, 10 * MANY + 1, true);
            locks.set(keep, 1, stays, false).unwrap();
            for file in [1, 2] {
                for at in 0..MANY {
                    let its = record(7, at * 2, at * 2 + 1, true);
                    locks.set(keep, file, its, false).unwrap();
                }
            }
            let left = |locks: &Locks| locks.of(1).len() + locks.of(2).len();
            let before = left(&locks);
            match by_handle {
                true => assert!(locks.close(keep, 1, 7) && locks.close(keep, 2, 7)),
                false => assert!(!locks.end(keep, 7).is_empty()),
            }
            let most = AT_ONCE * (1 + usize::from(by_handle));
            assert!(locks.are_going() && left(&locks) >= before - most);
            // One of them is nobody's any more; for all of them one waits until they are gone.
            let one = record(9, 700, 701, true);
            assert_eq!(locks.set(keep, 1, one, false), Ok(()));
            assert_eq!(locks.in_the_way(keep, 1, &record(6, 2, 3, false)), Ok(None));
            let all = record(9, 0, 2 * MANY, true);
            assert_eq!(locks.set(keep, 1, all, true), Err(Refused::Going));
            let mut pieces = 0;
            while locks.are_going() {
                let before = left(&locks);
                locks.go_on(keep);
                assert!(left(&locks) + AT_ONCE >= before);
                pieces += 1;
            }
            assert!(pieces > 2 * MANY as usize / AT_ONCE - 10, "{pieces}");
            assert_eq!(locks.set(keep, 1, all, false), Ok(()));
            assert_eq!(locks.of(1), [stays, all]);
            let whole = record(5, 0, u64::MAX, true);
            assert_eq!(
                locks.set(keep, 1, whole, false),
                Err(Refused::Held(all.owner))
            );
            // An own range is unlocked in parts.
            let mut parts = 0;
            for at in 0..MANY {
                let its = record(9, at * 2, at * 2 + 1, false);
                locks.set(keep, 3, its, false).unwrap();
            }
            loop {
                let wish = record(9, 0, u64::MAX, false);
                let part = locks.first_part(3, &wish);
                assert!(locks.clear(keep, 3, &part).unwrap());
                parts += 1;
                if part.end == wish.end {
                    break;
                }
            }
            assert_eq!(parts, MANY as usize / AT_ONCE + 1);
            assert!(locks.of(3).is_empty());
        }
    }

    /// Who is told to wait for locks that are going is woken, even if he was the one who took the last ones away.
    #[test]
    fn who_waits_for_what_is_going_is_woken() {
        for by_handle in [false, true] {
            for many in AT_ONCE..4 * AT_ONCE {
                let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
                for at in 0..many as u64 {
                    let its = record(7, at * 2, at * 2 + 1, true);
                    locks.set(keep, 1, its, false).unwrap();
                }
                match by_handle {
                    true => drop(locks.close(keep, 1, 7)),
                    false => drop(locks.end(keep, 7)),
                }
                let all = record(9, 0, u64::MAX, true);
                let mut waits = locks.set(keep, 1, all, true) == Err(Refused::Going);
                while locks.are_going() {
                    if locks.go_on(keep).contains(&1) && waits {
                        waits = locks.set(keep, 1, all, true) == Err(Refused::Going);
                    }
                }
                assert!(!waits, "{many} locks");
                assert_eq!(locks.of(1).len(), usize::from(locks.of(1).contains(&all)));
                assert!(locks.processes.keys().all(|&domain| domain == 9));
            }
        }
    }

    /// With all that users may have in one file, an operation is short.
    #[test]
    fn many_locks_of_a_file_are_not_walked() {
        let (mut locks, keep) = (Locks::default(), &mut Keepsake::default());
        let begun = std::time::Instant::now();
        for user in 1..=4 {
            for at in 0..u64::from(EACH) {
                let start = (u64::from(user) << 40) + at * 2;
                let its = Record {
                    owner: Owner::File(at),
                    badge: at,
                    user,
                    ..record(1, start, start + 1, false)
                };
                locks.set(keep, 1, its, false).unwrap();
            }
        }
        let wish = record(9, 1 << 50, 1 << 51, true);
        for _ in 0..10_000 {
            locks.set(keep, 1, wish, false).unwrap();
            locks.clear(keep, 1, &wish).unwrap();
        }
        for badge in 0..u64::from(EACH) {
            assert!(locks.close(keep, 1, badge));
        }
        locks.end(keep, 9);
        assert!(locks.is_empty());
        // (Some 70,000 operations, without optimisation on a busy machine. Walking 32,768 locks each time takes minutes.)
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
