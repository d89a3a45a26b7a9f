//! Record locks (fcntl) and whole-file locks (flock), by inode number.
//!
//! A record lock belongs to a process (its domain, as the nucleus tells it) or to an open file description (its badge); those of an owner never overlap.
//! All locks taken through a handle go when its last holder does, and a process's with the process.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// By its domain.
    Process(u32),
    /// An open file description, by its handle's badge.
    File(u64),
}

/// A locked range: `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub owner: Owner,
    /// The handle that it was taken through.
    pub badge: u64,
    pub start: u64,
    pub end: u64,
    pub exclusive: bool,
}

#[derive(Default)]
struct OfFile {
    records: Vec<Record>,
    /// Holders of flock: badge, exclusive.
    whole: Vec<(u64, bool)>,
}

/// Would waiting close a circle?
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody holds it: wait or give up.
    Held(Owner),
    Deadlock,
}

/// All locks of a manager.
#[derive(Default)]
pub struct Locks {
    files: BTreeMap<u64, OfFile>,
    /// The files in which a process has locks.
    processes: BTreeMap<u32, BTreeSet<u64>>,
    /// Processes that wait, and for whom.
    waits: Vec<(Owner, Owner)>,
}

/// End of a range that a request names by start and length (0 = to the end of any file).
pub fn end_of(start: u64, length: u64) -> u64 {
    if length == 0 {
        u64::MAX
    } else {
        start.saturating_add(length)
    }
}

impl Locks {
    /// All locks of a file: record locks, and holders of flock (badge, exclusive).
    pub fn of(&self, ino: u64) -> (&[Record], &[(u64, bool)]) {
        let file = self.files.get(&ino);
        file.map_or((&[], &[]), |file| (&file.records, &file.whole))
    }

    /// The first lock of somebody else that stands in the way.
    pub fn conflict(&self, ino: u64, wish: &Record) -> Option<Record> {
        let file = self.files.get(&ino)?;
        file.records
            .iter()
            .find(|held| {
                held.owner != wish.owner
                    && (held.exclusive || wish.exclusive)
                    && held.start < wish.end
                    && wish.start < held.end
            })
            .copied()
    }

    /// Take a lock; the owner's own locks in the range are replaced. With `wait`, note who waits for whom.
    pub fn set(&mut self, ino: u64, wish: Record, wait: bool) -> Result<(), Refused> {
        self.forget_wait(wish.owner);
        if let Some(held) = self.conflict(ino, &wish) {
            if wait {
                if self.closes_circle(wish.owner, held.owner) {
                    return Err(Refused::Deadlock);
                }
                self.waits.push((wish.owner, held.owner));
            }
            return Err(Refused::Held(held.owner));
        }
        self.clear(ino, wish.owner, wish.start, wish.end);
        if let Owner::Process(domain) = wish.owner {
            self.processes.entry(domain).or_default().insert(ino);
        }
        let records = &mut self.files.entry(ino).or_default().records;
        let mut joined = wish;
        // Neighbours of the same owner and kind become one.
        records.retain(|held| {
            let touches = held.owner == wish.owner
                && held.exclusive == wish.exclusive
                && held.badge == wish.badge
                && held.start <= joined.end
                && joined.start <= held.end;
            if touches {
                joined.start = joined.start.min(held.start);
                joined.end = joined.end.max(held.end);
            }
            !touches
        });
        let place = records.partition_point(|held| held.start < joined.start);
        records.insert(place, joined);
        Ok(())
    }

    /// Unlock a range: locks of the owner are cut. `true` if anything was unlocked.
    pub fn clear(&mut self, ino: u64, owner: Owner, start: u64, end: u64) -> bool {
        let Some(file) = self.files.get_mut(&ino) else {
            return false;
        };
        let mut cut = Vec::new();
        let mut changed = false;
        file.records.retain(|held| {
            if held.owner != owner || held.start >= end || held.end <= start {
                return true;
            }
            changed = true;
            if held.start < start {
                cut.push(Record {
                    end: start,
                    ..*held
                });
            }
            if held.end > end {
                cut.push(Record {
                    start: end,
                    ..*held
                });
            }
            false
        });
        for record in cut {
            let place = file.records.partition_point(|h| h.start < record.start);
            file.records.insert(place, record);
        }
        if changed {
            self.note(ino, owner);
        }
        self.tidy(ino);
        changed
    }

    /// flock: a handle's lock is replaced. `false`: somebody else holds it.
    pub fn lock_whole(&mut self, ino: u64, badge: u64, exclusive: bool) -> bool {
        let file = self.files.entry(ino).or_default();
        let free = file
            .whole
            .iter()
            .all(|&(holder, theirs)| holder == badge || !(theirs || exclusive));
        if free {
            file.whole.retain(|&(holder, _)| holder != badge);
            file.whole.push((badge, exclusive));
        }
        free
    }

    pub fn unlock_whole(&mut self, ino: u64, badge: u64) -> bool {
        let Some(file) = self.files.get_mut(&ino) else {
            return false;
        };
        let before = file.whole.len();
        file.whole.retain(|&(holder, _)| holder != badge);
        let changed = file.whole.len() != before;
        self.tidy(ino);
        changed
    }

    /// The handle is gone, and all locks taken through it.
    pub fn close(&mut self, ino: u64, badge: u64) -> bool {
        let changed = self.unlock_whole(ino, badge);
        let Some(file) = self.files.get_mut(&ino) else {
            return changed;
        };
        let mut owners = Vec::new();
        file.records.retain(|held| {
            if held.badge == badge {
                owners.push(held.owner);
            }
            held.badge != badge
        });
        let fewer = !owners.is_empty();
        for owner in owners {
            self.note(ino, owner);
        }
        self.tidy(ino);
        changed || fewer
    }

    /// A process has ended, and its locks with it: the files in which it had some.
    pub fn end(&mut self, domain: u32) -> BTreeSet<u64> {
        let owner = Owner::Process(domain);
        self.forget_wait(owner);
        let files = self.processes.remove(&domain).unwrap_or_default();
        for ino in &files {
            if let Some(file) = self.files.get_mut(ino) {
                file.records.retain(|held| held.owner != owner);
            }
            self.tidy(*ino);
        }
        files
    }

    /// An owner may have no locks in a file any more.
    fn note(&mut self, ino: u64, owner: Owner) {
        let Owner::Process(domain) = owner else {
            return;
        };
        let file = self.files.get(&ino);
        if file.is_some_and(|file| file.records.iter().any(|held| held.owner == owner)) {
            return;
        }
        if let Some(files) = self.processes.get_mut(&domain) {
            files.remove(&ino);
            if files.is_empty() {
                self.processes.remove(&domain);
            }
        }
    }

    /// The owner waits no longer.
    pub fn forget_wait(&mut self, owner: Owner) {
        self.waits.retain(|&(waiter, _)| waiter != owner);
    }

    fn closes_circle(&self, waiter: Owner, holder: Owner) -> bool {
        let mut at = holder;
        for _ in 0..=self.waits.len() {
            if at == waiter {
                return true;
            }
            match self.waits.iter().find(|&&(who, _)| who == at) {
                Some(&(_, next)) => at = next,
                None => return false,
            }
        }
        false
    }

    fn tidy(&mut self, ino: u64) {
        if let Some(file) = self.files.get(&ino) {
            if file.records.is_empty() && file.whole.is_empty() {
                self.files.remove(&ino);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pid: u32, start: u64, end: u64, exclusive: bool) -> Record {
        Record {
            owner: Owner::Process(pid),
            badge: pid as u64,
            start,
            end,
            exclusive,
        }
    }

    #[test]
    fn ranges_conflict_split_and_join() {
        let mut locks = Locks::default();
        locks.set(1, record(1, 0, 100, true), false).unwrap();
        assert_eq!(
            locks.set(1, record(2, 50, 60, false), false),
            Err(Refused::Held(Owner::Process(1)))
        );
        assert!(locks.clear(1, Owner::Process(1), 40, 70));
        locks.set(1, record(2, 50, 60, false), false).unwrap();
        locks.set(1, record(3, 55, 60, false), false).unwrap();
        assert!(locks.conflict(1, &record(2, 0, 41, false)).is_some());
        assert!(locks.conflict(1, &record(2, 40, 70, false)).is_none());
        // Another file is another matter.
        locks.set(2, record(2, 0, u64::MAX, true), false).unwrap();
        // Joining.
        locks.set(3, record(1, 0, 10, false), false).unwrap();
        locks.set(3, record(1, 10, 20, false), false).unwrap();
        assert_eq!(locks.files[&3].records, [record(1, 0, 20, false)]);
    }

    #[test]
    fn a_circle_of_waiters_is_refused() {
        let mut locks = Locks::default();
        for pid in 1..=3 {
            let at = pid as u64 * 10;
            locks.set(1, record(pid, at, at + 1, true), false).unwrap();
        }
        let held = |pid| Err(Refused::Held(Owner::Process(pid)));
        assert_eq!(locks.set(1, record(1, 20, 21, true), true), held(2));
        assert_eq!(locks.set(1, record(2, 30, 31, true), true), held(3));
        assert_eq!(
            locks.set(1, record(3, 10, 11, true), true),
            Err(Refused::Deadlock)
        );
        locks.forget_wait(Owner::Process(1));
        assert_eq!(locks.set(1, record(3, 10, 11, true), true), held(1));
    }

    #[test]
    fn closing_a_handle_drops_its_locks() {
        let mut locks = Locks::default();
        assert!(locks.lock_whole(1, 100, false));
        assert!(locks.lock_whole(1, 101, false));
        assert!(!locks.lock_whole(1, 100, true));
        assert!(locks.close(1, 101));
        assert!(locks.lock_whole(1, 100, true));
        assert!(locks.close(1, 100));
        assert!(locks.files.is_empty());
    }

    #[test]
    fn a_process_takes_its_locks_along() {
        let mut locks = Locks::default();
        let through = |badge, start| Record {
            badge,
            ..record(7, start, start + 5, true)
        };
        locks.set(1, through(100, 0), false).unwrap();
        locks.set(2, through(101, 0), false).unwrap();
        locks.set(2, record(8, 50, 60, true), false).unwrap();
        locks.set(3, through(102, 0), false).unwrap();
        // Unlocked, and closed: nothing is remembered of it.
        assert!(locks.clear(3, Owner::Process(7), 0, 100));
        assert!(locks.close(1, 100));
        assert_eq!(locks.end(7), [2].into());
        assert_eq!(locks.of(2).0, [record(8, 50, 60, true)]);
        assert!(locks.end(7).is_empty());
        assert_eq!(locks.end(8), [2].into());
        assert!(locks.files.is_empty() && locks.processes.is_empty());
    }
}
