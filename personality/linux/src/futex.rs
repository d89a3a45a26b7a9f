//! Who waits for which word. One table per process; a waiter is told apart by a ticket, so that a wake-up that came just before a timeout is not lost.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

const BUCKETS: usize = 64;

/// A place in the order in which waiters are woken: by real-time priority, then by arrival.
type Turn = (u8, u64);

/// What its owner knows of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    address: u64,
    turn: Turn,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    address: u64,
    turn: Turn,
    /// Nucleus thread id.
    thread: u32,
    /// None: an [`Heir`].
    bits: u32,
}

/// Who waits for one word to have another one with priority inheritance afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heir {
    /// The other word.
    pub to: u64,
    /// As the word names its owner.
    pub tid: u32,
}

/// The thread of a waiter that is not parked: it waits in `proc`, for a key that is its own.
pub const IN_PROC: u32 = u32::MAX;

/// What has become of such a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The word names it.
    Owns,
    /// It is a user of this mutex, for which it is to wait.
    ToMutex(u32),
}

/// There is a waiter of the other kind: one that is an heir where others are meant, or the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind;

/// The mutex of a word with priority inheritance for which somebody waits.
#[derive(Clone, Copy, Debug)]
struct Contended {
    slot: u32,
    users: u32,
}

#[derive(Debug, Default)]
pub struct Futexes {
    /// By address, each in the order of turns; none before the first waiter.
    buckets: Vec<VecDeque<Waiter>>,
    /// Where those wait now who were moved to another word, by the numbers of their turns.
    moved: BTreeMap<u64, u64>,
    /// Who waits to be moved (FUTEX_WAIT_REQUEUE_PI), by the numbers of their turns.
    waiting_heirs: BTreeMap<u64, Heir>,
    /// What has become of heirs, by the numbers of their turns, until they know it.
    heirs: BTreeMap<u64, Moved>,
    /// What those wait for who are [in `proc`](IN_PROC), by the numbers of their turns.
    keys: BTreeMap<u64, u64>,
    /// Of these the ones that are to be woken there.
    due: Vec<u64>,
    last: u64,
    contended: BTreeMap<u64, Contended>,
}

fn place(address: u64) -> usize {
    (address >> 2 ^ address >> 8 ^ address >> 14) as usize % BUCKETS
}

impl Futexes {
    /// `realtime`: the thread's real-time priority, 0 without one.
    pub fn add(&mut self, address: u64, thread: u32, bits: u32, realtime: u8) -> Ticket {
        self.last += 1;
        if self.buckets.is_empty() {
            self.buckets.resize_with(BUCKETS, VecDeque::new);
        }
        let turn = (u8::MAX - realtime, self.last);
        self.put(Waiter {
            address,
            turn,
            thread,
            bits,
        });
        Ticket { address, turn }
    }

    /// A waiter that waits in `proc` for this key.
    pub fn add_in_proc(&mut self, address: u64, key: u64, realtime: u8) -> Ticket {
        let ticket = self.add(address, IN_PROC, u32::MAX, realtime);
        self.keys.insert(ticket.turn.1, key);
        ticket
    }

    /// The keys that are to be woken in `proc`; told once.
    pub fn take_due(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.due)
    }

    pub fn add_heir(&mut self, address: u64, thread: u32, realtime: u8, heir: Heir) -> Ticket {
        let ticket = self.add(address, thread, 0, realtime);
        self.waiting_heirs.insert(ticket.turn.1, heir);
        ticket
    }

    fn put(&mut self, waiter: Waiter) {
        let bucket = &mut self.buckets[place(waiter.address)];
        match bucket.back() {
            Some(last) if last.turn > waiter.turn => {
                let at = bucket.partition_point(|w| w.turn < waiter.turn);
                bucket.insert(at, waiter);
            }
            _ => bucket.push_back(waiter),
        }
    }

    /// The bucket where its owner waits now, and its place there while it waits.
    fn find(&self, ticket: Ticket) -> (usize, Option<usize>) {
        let moved = match self.moved.is_empty() {
            true => None,
            false => self.moved.get(&ticket.turn.1),
        };
        let bucket = place(*moved.unwrap_or(&ticket.address));
        let at = match self.buckets.get(bucket) {
            Some(all) if !all.is_empty() => {
                let found = all.binary_search_by_key(&ticket.turn, |w| w.turn);
                found.ok()
            }
            _ => None,
        };
        (bucket, at)
    }

    #[inline]
    pub fn waits(&self, ticket: Ticket) -> bool {
        self.find(ticket).1.is_some()
    }

    /// Give up waiting. False if it was woken before.
    pub fn remove(&mut self, ticket: Ticket) -> bool {
        let (bucket, Some(at)) = self.find(ticket) else {
            return false;
        };
        match self.take(bucket, at) {
            Some(Waiter {
                thread: IN_PROC, ..
            }) => {
                self.keys.remove(&ticket.turn.1);
            }
            Some(Waiter { bits: 0, .. }) => {
                self.waiting_heirs.remove(&ticket.turn.1);
            }
            _ => {}
        }
        true
    }

    fn take(&mut self, bucket: usize, at: usize) -> Option<Waiter> {
        let bucket = &mut self.buckets[bucket];
        let waiter = match at {
            0 => bucket.pop_front()?,
            _ => bucket.remove(at)?,
        };
        if !self.moved.is_empty() {
            self.moved.remove(&waiter.turn.1);
        }
        Some(waiter)
    }

    /// Take out the first waiters of a word that share a bit, at most so many. They are no heirs.
    #[inline(always)]
    fn take_first(
        &mut self,
        address: u64,
        count: u32,
        bits: u32,
        mut then: impl FnMut(&mut Self, Waiter),
    ) -> Result<(), OtherKind> {
        let bucket = place(address);
        let (mut at, mut taken) = (0, 0);
        while taken < count {
            let Some(waiter) = self.buckets.get(bucket).and_then(|all| all.get(at)) else {
                break;
            };
            if waiter.address != address || waiter.bits & bits == 0 {
                if waiter.address == address && waiter.bits == 0 {
                    return Err(OtherKind);
                }
                at += 1;
                continue;
            }
            if let Some(waiter) = self.take(bucket, at) {
                then(self, waiter);
            }
            taken += 1;
        }
        Ok(())
    }

    /// Take out up to `count` waiters of a word that share a bit: whom to unpark, and whether all that were met can be woken so.
    #[inline(always)]
    pub fn wake(
        &mut self,
        address: u64,
        count: u32,
        bits: u32,
    ) -> (Vec<u32>, Result<(), OtherKind>) {
        let mut woken = Vec::new();
        let met = self.take_first(address, count, bits, |futexes, w| {
            if w.thread == IN_PROC {
                let key = futexes.keys.remove(&w.turn.1);
                futexes.due.extend(key);
            }
            woken.push(w.thread);
        });
        // Who waits for a mutex does not do so here.
        let waits = woken.len() < count as usize && self.contended(address).is_some();
        (woken, if waits { Err(OtherKind) } else { met })
    }

    /// Move up to `count` waiters to another word.
    pub fn requeue(&mut self, from: u64, to: u64, count: u32) -> Result<u32, OtherKind> {
        if from == to {
            let bucket = self.buckets.get(place(from));
            let waiting = bucket.map_or(0, |all| all.iter().filter(|w| w.address == from).count());
            return Ok(count.min(waiting as u32));
        }
        let mut moved = 0;
        self.take_first(from, count, u32::MAX, |futexes, waiter| {
            futexes.moved.insert(waiter.turn.1, to);
            futexes.put(Waiter {
                address: to,
                ..waiter
            });
            moved += 1;
        })?;
        Ok(moved)
    }

    /// The first who waits for a word: its nucleus thread, and its id if it waits to have the other word.
    pub fn first_heir(&self, address: u64, to: u64) -> Result<Option<(u32, u32)>, OtherKind> {
        let bucket = self.buckets.get(place(address));
        let first = bucket.and_then(|all| all.iter().find(|w| w.address == address));
        match first.map(|w| (w.thread, self.waiting_heirs.get(&w.turn.1))) {
            None => Ok(None),
            Some((thread, Some(heir))) if heir.to == to => Ok(Some((thread, heir.tid))),
            Some(_) => Err(OtherKind),
        }
    }

    /// The first who waits for this word, an heir, does so no longer: this has become of it.
    pub fn move_heir(&mut self, address: u64, became: Moved) {
        let bucket = place(address);
        let all = self.buckets.get(bucket);
        let at = all.and_then(|all| all.iter().position(|w| w.address == address));
        if let Some(waiter) = at.and_then(|at| self.take(bucket, at)) {
            self.waiting_heirs.remove(&waiter.turn.1);
            self.heirs.insert(waiter.turn.1, became);
        }
    }

    /// What has become of an heir; told once.
    pub fn moved_heir(&mut self, ticket: Ticket) -> Option<Moved> {
        self.heirs.remove(&ticket.turn.1)
    }

    /// The mutex of a contended word with priority inheritance.
    pub fn contended(&self, address: u64) -> Option<u32> {
        self.contended.get(&address).map(|c| c.slot)
    }

    /// One user more of a word's mutex.
    pub fn join(&mut self, address: u64, slot: u32) {
        let new = Contended { slot, users: 0 };
        self.contended.entry(address).or_insert(new).users += 1;
    }

    /// One less. How many are left; with none the mutex is the caller's to close.
    pub fn leave(&mut self, address: u64) -> u32 {
        let Some(contended) = self.contended.get_mut(&address) else {
            return 0;
        };
        contended.users -= 1;
        let left = contended.users;
        if left == 0 {
            self.contended.remove(&address);
        }
        left
    }

    /// Forget everything: the threads that waited are not in this process any more. The mutexes' slots are the caller's to close, if they are in its table.
    pub fn clear(&mut self) -> Vec<u32> {
        self.buckets.clear();
        self.moved.clear();
        self.waiting_heirs.clear();
        self.heirs.clear();
        self.keys.clear();
        self.due.clear();
        let contended = core::mem::take(&mut self.contended);
        contended.into_values().map(|c| c.slot).collect()
    }
}

/// FUTEX_WAKE_OP: the new value and whether the second word's waiters are woken. None for an unknown operation.
pub fn wake_op(encoded: u32, old: u32) -> Option<(u32, bool)> {
    let operation = encoded >> 28 & 7;
    let compare = encoded >> 24 & 15;
    // Both arguments are 12 bits with sign.
    let extend = |v: u32| ((v << 20) as i32) >> 20;
    let mut argument = extend(encoded >> 12 & 0xfff);
    let against = extend(encoded & 0xfff);
    if encoded >> 31 != 0 {
        argument = 1i32.wrapping_shl(argument as u32 & 31);
    }
    let argument = argument as u32;
    let new = match operation {
        0 => argument,
        1 => old.wrapping_add(argument),
        2 => old | argument,
        3 => old & !argument,
        4 => old ^ argument,
        _ => return None,
    };
    let value = old as i32;
    let wake = match compare {
        0 => value == against,
        1 => value != against,
        2 => value < against,
        3 => value <= against,
        4 => value > against,
        5 => value >= against,
        _ => return None,
    };
    Some((new, wake))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_in_order_and_by_bits() {
        let mut f = Futexes::default();
        let a = f.add(8, 1, !0, 0);
        let b = f.add(8, 2, 1, 0);
        f.add(16, 3, !0, 0);
        let c = f.add(8, 4, 2, 0);
        assert_eq!(f.wake(8, 1, !0).0, [1]);
        assert!(!f.waits(a) && f.waits(b));
        assert_eq!(f.wake(8, 9, 2).0, [4]);
        assert!(!f.remove(c), "woken before its timeout");
        assert!(f.remove(b));
        assert_eq!(f.wake(8, 9, !0).0, []);
        assert_eq!(f.wake(16, 9, !0).0, [3]);
    }

    #[test]
    fn requeues() {
        let mut f = Futexes::default();
        for thread in 1..5 {
            f.add(8, thread, !0, 0);
        }
        assert_eq!(f.wake(8, 1, !0).0, [1]);
        assert_eq!(f.requeue(8, 64, 2), Ok(2));
        assert_eq!(f.wake(8, 9, !0).0, [4]);
        assert_eq!(f.wake(64, 9, !0).0, [2, 3]);
    }

    #[test]
    fn who_was_moved_gives_up_where_he_is() {
        let mut f = Futexes::default();
        let tickets = [1, 2, 3].map(|thread| f.add(8, thread, !0, 0));
        assert_eq!(f.requeue(8, 64, 2), Ok(2));
        assert_eq!(f.requeue(64, 72, 1), Ok(1));
        assert!(tickets.iter().all(|&ticket| f.waits(ticket)));
        assert!(f.remove(tickets[1]) && !f.waits(tickets[1]));
        assert_eq!(f.wake(72, 9, !0).0, [1]);
        assert!(!f.remove(tickets[0]));
        assert_eq!(f.wake(64, 9, !0).0, []);
        assert_eq!(f.wake(8, 9, !0).0, [3]);
        assert!(f.moved.is_empty());
    }

    #[test]
    fn real_time_priorities_go_first() {
        let mut f = Futexes::default();
        for (thread, realtime) in [(1, 0), (2, 10), (3, 0), (4, 99), (5, 10)] {
            f.add(8, thread, !0, realtime);
        }
        assert_eq!(f.requeue(8, 64, 2), Ok(2));
        assert_eq!(f.wake(64, 1, !0).0, [4]);
        assert_eq!(f.wake(64, 1, !0).0, [2]);
        assert_eq!(f.wake(8, 9, !0).0, [5, 1, 3]);
    }

    #[test]
    fn heirs_are_moved_only_as_such() {
        let mut f = Futexes::default();
        let heir = |tid| Heir { to: 64, tid };
        let first = f.add_heir(8, 1, 0, heir(11));
        let second = f.add_heir(8, 2, 0, heir(12));
        assert_eq!(f.wake(8, 1, !0), (Vec::new(), Err(OtherKind)));
        assert_eq!(f.requeue(8, 64, 1), Err(OtherKind));
        assert_eq!(f.first_heir(8, 72), Err(OtherKind));
        assert_eq!(f.first_heir(64, 8), Ok(None));
        assert_eq!(f.first_heir(8, 64), Ok(Some((1, 11))));
        assert_eq!(f.moved_heir(first), None);
        f.move_heir(8, Moved::Owns);
        assert!(!f.waits(first) && !f.remove(first));
        assert_eq!(f.moved_heir(first), Some(Moved::Owns));
        assert_eq!(f.moved_heir(first), None);
        assert_eq!(f.first_heir(8, 64), Ok(Some((2, 12))));
        f.add(8, 3, !0, 9);
        assert_eq!(
            f.first_heir(8, 64),
            Err(OtherKind),
            "a plain one is before it"
        );
        assert_eq!(f.wake(8, 2, !0), (Vec::from([3]), Err(OtherKind)));
        f.move_heir(8, Moved::ToMutex(70));
        assert_eq!(f.moved_heir(second), Some(Moved::ToMutex(70)));
    }

    #[test]
    fn who_waits_in_proc_is_woken_there() {
        let mut f = Futexes::default();
        let first = f.add_in_proc(8, 90, 0);
        let second = f.add_in_proc(8, 91, 0);
        f.add_in_proc(16, 92, 0);
        assert_eq!(f.wake(8, 1, !0).0, [IN_PROC]);
        assert!(!f.waits(first) && f.waits(second));
        assert_eq!(f.take_due(), [90]);
        assert!(f.remove(second));
        assert_eq!(f.requeue(16, 64, 1), Ok(1));
        assert_eq!(f.wake(64, 1, !0).0, [IN_PROC]);
        assert_eq!(f.take_due(), [92]);
        assert!(f.keys.is_empty() && f.take_due().is_empty());
    }

    #[test]
    fn who_waits_for_a_mutex_is_not_woken() {
        let mut f = Futexes::default();
        f.join(8, 70);
        assert_eq!(f.wake(8, 1, !0), (Vec::new(), Err(OtherKind)));
        f.leave(8);
        assert_eq!(f.wake(8, 1, !0), (Vec::new(), Ok(())));
    }

    #[test]
    fn a_mutex_goes_with_its_last_user() {
        let mut f = Futexes::default();
        assert_eq!(f.contended(8), None);
        f.join(8, 70);
        f.join(16, 71);
        f.join(8, 70);
        assert_eq!(f.contended(8), Some(70));
        assert_eq!(f.leave(8), 1);
        assert_eq!(f.contended(8), Some(70));
        assert_eq!(f.leave(8), 0);
        assert_eq!(f.contended(8), None);
        assert_eq!(f.clear(), [71]);
        assert_eq!(f.contended(16), None);
    }

    #[test]
    fn operations_on_the_second_word() {
        // FUTEX_OP(ADD, 1, GT, 0)
        assert_eq!(wake_op(1 << 28 | 4 << 24 | 1 << 12, 1), Some((2, true)));
        assert_eq!(wake_op(1 << 28 | 4 << 24 | 1 << 12, 0), Some((1, false)));
        // SET with a shift: 1 << 3
        assert_eq!(wake_op(8 << 28 | 3 << 12, 0), Some((8, true)));
        assert_eq!(wake_op(7 << 28, 0), None);
    }
}
