//! Neighbours: which hardware address an address has (RFC 826, RFC 1122 2.3.2; RFC 4861 for those of IPv6).
//!
//! Only what this machine wants to send makes an entry, so nobody else can fill the table; an answer that nobody asked for changes nothing, but for an entry that there is. Each entry keeps a few packets that wait for it, the table as a whole not more than [`WAIT_MOST`].

use crate::{Ip, Mac, NEVER, SECOND};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Most entries.
pub const MOST: usize = 1024;
/// Most packets that wait for one neighbour, and altogether.
const WAIT_EACH: usize = 8;
pub const WAIT_MOST: usize = 256;
/// How long an answer is believed without another one, and how long an entry stays that is not used.
const FRESH: u64 = 60 * SECOND;
const KEPT: u64 = 600 * SECOND;
/// Questions, and how long each waits for an answer.
const TRIES: u32 = 3;
const PATIENCE: u64 = SECOND;

#[derive(Clone, Copy)]
enum State {
    /// Nobody has answered yet.
    Unknown,
    Known(Mac),
    /// Somebody wrote it down: it is not asked for.
    Fixed(Mac),
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Unknown,
    Fresh(Mac),
    /// It has not been heard of for a while; the second is asked at present.
    Stale(Mac),
    Asked(Mac),
    Fixed(Mac),
}

struct Entry<P> {
    state: State,
    /// When an answer came last.
    heard: u64,
    /// Questions since then, and when the next thing happens.
    tries: u32,
    due: u64,
    waiting: VecDeque<P>,
}

/// What is to be done with a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<P> {
    /// It goes there at once. `ask`: and the neighbour is asked whether it is still there.
    Send { to: Mac, packet: P, ask: bool },
    /// It waits. `ask`: everybody is asked.
    Wait { ask: bool },
    /// There is no room for it.
    Drop(P),
}

/// What time brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<P, A = Ip> {
    /// Everybody is to be asked for this one, or, if it is known, it alone.
    Ask(A, Option<Mac>),
    /// It does not answer: these go nowhere.
    Unreachable(A, Vec<P>),
}

pub struct Neighbours<P, A = Ip> {
    entries: BTreeMap<A, Entry<P>>,
    /// When something is to be done about which.
    times: BTreeSet<(u64, A)>,
    waiting: usize,
}

impl<P> Entry<P> {
    fn standing(&self, now: u64) -> Standing {
        match self.state {
            State::Unknown => Standing::Unknown,
            State::Fixed(mac) => Standing::Fixed(mac),
            State::Known(mac) if self.tries > 0 => Standing::Asked(mac),
            State::Known(mac) if now.saturating_sub(self.heard) > FRESH => Standing::Stale(mac),
            State::Known(mac) => Standing::Fresh(mac),
        }
    }
}

impl<P, A> Default for Neighbours<P, A> {
    fn default() -> Neighbours<P, A> {
        Neighbours {
            entries: BTreeMap::new(),
            times: BTreeSet::new(),
            waiting: 0,
        }
    }
}

impl<P, A: Ord + Copy> Neighbours<P, A> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many packets wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// One after the other.
    pub fn nth(&self, now: u64, at: usize) -> Option<(A, Standing)> {
        let (ip, entry) = self.entries.iter().nth(at)?;
        Some((*ip, entry.standing(now)))
    }

    pub fn get(&self, now: u64, ip: A) -> Option<Standing> {
        Some(self.entries.get(&ip)?.standing(now))
    }

    /// Somebody writes it down. What waited for it, to be sent there; None: there is no room.
    pub fn fix(&mut self, ip: A, mac: Mac) -> Option<Vec<P>> {
        let waited = self.remove(ip);
        if self.entries.len() >= MOST {
            return None;
        }
        let entry = Entry {
            state: State::Fixed(mac),
            heard: 0,
            tries: 0,
            due: NEVER,
            waiting: VecDeque::new(),
        };
        self.entries.insert(ip, entry);
        Some(waited)
    }

    /// It is to be forgotten, with what waits for it.
    pub fn forget(&mut self, ip: A) {
        self.remove(ip);
    }

    fn set_due(&mut self, ip: A, due: u64) {
        if let Some(entry) = self.entries.get_mut(&ip) {
            self.times.remove(&(entry.due, ip));
            entry.due = due;
            self.times.insert((due, ip));
        }
    }

    fn remove(&mut self, ip: A) -> Vec<P> {
        let Some(entry) = self.entries.remove(&ip) else {
            return Vec::new();
        };
        self.times.remove(&(entry.due, ip));
        self.waiting -= entry.waiting.len();
        entry.waiting.into()
    }

    /// A packet for a neighbour.
    pub fn send(&mut self, now: u64, ip: A, packet: P) -> Next<P> {
        if !self.entries.contains_key(&ip) {
            if self.entries.len() >= MOST {
                // The one of which something is due first: unanswered ones, then those that were not heard for longest.
                let Some((_, oldest)) = self.times.first().copied() else {
                    // (All of them were written down.)
                    return Next::Drop(packet);
                };
                self.remove(oldest);
            }
            let entry = Entry {
                state: State::Unknown,
                heard: now,
                tries: 0,
                due: NEVER,
                waiting: VecDeque::new(),
            };
            self.entries.insert(ip, entry);
        }
        let full = self.waiting >= WAIT_MOST;
        let Some(entry) = self.entries.get_mut(&ip) else {
            return Next::Drop(packet);
        };
        match entry.state {
            State::Fixed(to) => {
                let ask = false;
                Next::Send { to, packet, ask }
            }
            State::Known(to) => {
                let ask = now.saturating_sub(entry.heard) > FRESH && entry.tries == 0;
                if ask {
                    entry.tries = 1;
                    self.set_due(ip, now + PATIENCE);
                }
                Next::Send { to, packet, ask }
            }
            State::Unknown => {
                if full || entry.waiting.len() >= WAIT_EACH {
                    return Next::Drop(packet);
                }
                entry.waiting.push_back(packet);
                self.waiting += 1;
                let ask = entry.tries == 0;
                if ask {
                    entry.tries = 1;
                    self.set_due(ip, now + PATIENCE);
                }
                Next::Wait { ask }
            }
        }
    }

    /// Somebody said that it has this address. What waited for that, to be sent there.
    pub fn heard(&mut self, now: u64, ip: A, mac: Mac) -> Vec<P> {
        // A group is no station.
        let sane = mac[0] & 1 == 0 && mac != [0; 6];
        let Some(entry) = self.entries.get_mut(&ip).filter(|_| sane) else {
            return Vec::new();
        };
        if let State::Fixed(_) = entry.state {
            return Vec::new();
        }
        entry.state = State::Known(mac);
        entry.heard = now;
        entry.tries = 0;
        let waited = core::mem::take(&mut entry.waiting);
        self.waiting -= waited.len();
        self.set_due(ip, now + KEPT);
        waited.into()
    }

    /// When [`Neighbours::due`] is to be called.
    pub fn deadline(&self) -> u64 {
        self.times.first().map_or(NEVER, |(due, _)| *due)
    }

    /// What is to be done by now, one after the other.
    pub fn due(&mut self, now: u64) -> Option<Due<P, A>> {
        loop {
            let (due, ip) = *self.times.first()?;
            if due > now {
                return None;
            }
            let entry = self.entries.get_mut(&ip)?;
            let known = match entry.state {
                State::Known(mac) | State::Fixed(mac) => Some(mac),
                State::Unknown => None,
            };
            match entry.tries {
                // It was not used for long.
                0 => drop(self.remove(ip)),
                TRIES.. => return Some(Due::Unreachable(ip, self.remove(ip))),
                _ => {
                    entry.tries += 1;
                    self.set_due(ip, now + PATIENCE);
                    return Some(Due::Ask(ip, known));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Ip = [10, 0, 2, 2];
    const MAC: Mac = [0x52, 0x55, 10, 0, 2, 2];

    fn ip(number: usize) -> Ip {
        (number as u32 + 0x0a00_0000).to_be_bytes()
    }

    #[test]
    fn packets_wait_for_an_answer() {
        let mut all = Neighbours::default();
        assert_eq!(all.send(0, ONE, 'a'), Next::Wait { ask: true });
        assert_eq!(all.send(10, ONE, 'b'), Next::Wait { ask: false });
        assert_eq!(all.deadline(), PATIENCE);
        assert_eq!(all.heard(20, ONE, MAC), ['a', 'b']);
        assert_eq!((all.waiting(), all.len()), (0, 1));
        let at_once = |packet, ask| Next::Send {
            to: MAC,
            packet,
            ask,
        };
        assert_eq!(all.send(30, ONE, 'c'), at_once('c', false));
        // It is asked again after a while, once, and used meanwhile.
        assert_eq!(all.send(20 + FRESH + 1, ONE, 'd'), at_once('d', true));
        assert_eq!(all.send(20 + FRESH + 2, ONE, 'e'), at_once('e', false));
        let later = 20 + FRESH + 1 + PATIENCE;
        assert_eq!(all.due(later), Some(Due::Ask(ONE, Some(MAC))));
        assert_eq!(all.due(later), None);
        assert!(all.heard(later + 1, ONE, MAC).is_empty());
        assert_eq!(all.deadline(), later + 1 + KEPT);
        assert_eq!(all.due(later + 1 + KEPT), None);
        assert!(all.is_empty());
    }

    #[test]
    fn who_does_not_answer_is_asked_three_times() {
        let mut all = Neighbours::default();
        all.send(0, ONE, 'a');
        let mut asked = 1;
        let mut now = 0;
        let lost = loop {
            now = all.deadline().max(now);
            match all.due(now).expect("something") {
                Due::Ask(ONE, None) => asked += 1,
                Due::Unreachable(ONE, lost) => break lost,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((asked, now, lost), (TRIES, 3 * PATIENCE, vec!['a']));
        assert!(all.is_empty() && all.waiting() == 0 && all.deadline() == NEVER);
    }

    #[test]
    fn what_is_written_down_is_believed() {
        let mut all = Neighbours::default();
        assert_eq!(all.send(0, ONE, 'a'), Next::Wait { ask: true });
        assert_eq!(all.get(0, ONE), Some(Standing::Unknown));
        assert_eq!(all.fix(ONE, MAC), Some(vec!['a']));
        assert_eq!(all.nth(0, 0), Some((ONE, Standing::Fixed(MAC))));
        assert!(all.heard(1, ONE, [2; 6]).is_empty());
        let (to, packet, ask) = (MAC, 'b', false);
        assert_eq!(
            all.send(900 * SECOND, ONE, 'b'),
            Next::Send { to, packet, ask }
        );
        assert_eq!((all.deadline(), all.due(u64::MAX)), (NEVER, None));
        for number in 0..5000 {
            all.fix(ip(number), MAC);
        }
        assert_eq!(all.len(), MOST);
        assert_eq!(all.send(0, [9; 4], 'c'), Next::Drop('c'));
        all.forget(ONE);
        assert_eq!(all.get(0, ONE), None);
    }

    #[test]
    fn nobody_else_makes_entries() {
        let mut all: Neighbours<char> = Neighbours::default();
        for number in 0..10_000 {
            assert!(all.heard(0, ip(number), MAC).is_empty());
        }
        assert!(all.is_empty());
        all.send(0, ONE, 'a');
        for bad in [[0xff; 6], [0; 6], [1, 0, 0x5e, 0, 0, 1]] {
            assert!(all.heard(0, ONE, bad).is_empty());
        }
        assert_eq!(all.waiting(), 1);
    }

    #[test]
    fn all_of_it_is_bounded() {
        let mut all = Neighbours::default();
        let (mut waits, mut dropped) = (0, 0);
        for number in 0..10_000 {
            match all.send(number as u64, ip(number % 5000), 0) {
                Next::Wait { .. } => waits += 1,
                Next::Drop(_) => dropped += 1,
                Next::Send { .. } => panic!("nobody answered"),
            }
            assert!(all.len() <= MOST && all.waiting() <= WAIT_MOST);
        }
        assert!(waits > 0 && dropped > 0);
        let mut one = Neighbours::default();
        let taken = (0..100).filter(|_| matches!(one.send(0, ONE, 0), Next::Wait { .. }));
        assert_eq!(taken.count(), WAIT_EACH);
        while let Some(due) = all.due(u64::MAX - PATIENCE) {
            assert!(matches!(due, Due::Ask(..) | Due::Unreachable(..)));
        }
    }
}
