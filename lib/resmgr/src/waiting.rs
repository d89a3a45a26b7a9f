//! Requests that wait for something, found by the keys that [`crate::Context::wake`] names, by their callers and by the portals that they came through. Watches, which the same keys touch, are in [`crate::watch`].

use crate::chains::Chains;
use crate::context::Later;
use crate::watch::Watches;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_rt::Received;

/// What a request takes with it when it runs again.
#[derive(Clone, Copy, Default)]
pub(crate) struct Again {
    pub progress: u64,
    pub progress_is_result: bool,
    /// It was made before, and a predecessor died with it: the number of its first call ([`cairn_idl::fs::AGAIN`]).
    pub repeated: Option<u32>,
}

/// A request that waits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parked {
    pub request: Received,
    pub again: Again,
}

/// What callbacks outside any request see as theirs.
pub(crate) static NOBODY: Parked = Parked {
    request: Received {
        words: [0; 8],
        badge: 0,
        token: 0,
        label: 0,
        out_len: 0,
        in_len: 0,
        portals: 0,
        sender: 0,
        kind: 0,
        interruptible: false,
    },
    again: Again {
        progress: 0,
        progress_is_result: false,
        repeated: None,
    },
};

/// The requests that wait, in places that they keep until they are answered.
#[derive(Default)]
pub(crate) struct Lot {
    places: Vec<Parked>,
    free: Vec<u32>,
}

impl Lot {
    pub fn insert(&mut self, request: &Received, again: Again) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Parked::default());
            self.places.len() as u32 - 1
        });
        let parked = &mut self.places[place as usize];
        parked.request = *request;
        parked.again = again;
        place
    }

    #[inline]
    pub fn get(&self, place: u32) -> &Parked {
        &self.places[place as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, place: u32) -> &mut Parked {
        &mut self.places[place as usize]
    }

    /// The request was answered.
    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.free.push(place);
    }

    pub fn take(&mut self, place: u32) -> Parked {
        self.remove(place);
        self.places[place as usize]
    }
}

struct Ticket {
    keys: [u64; 2],
    token: Token,
    badge: u64,
    /// Order of arrival.
    turn: u64,
    /// In the [`Lot`].
    place: u32,
    indexed: bool,
}

/// So many requests are looked through; more are found by index.
const FEW: usize = 8;

/// All that waits. Order of arrival is kept, also when a request runs again in vain.
#[derive(Default)]
pub(crate) struct Waiting {
    tickets: Vec<Ticket>,
    free: Vec<u32>,
    turn: u64,
    /// The [`FEW`] that came last, in their order. All others are in the three maps.
    recent: Vec<u32>,
    indexed: usize,
    /// Links of ticket `i`: `2 i` and (if its keys differ) `2 i + 1`.
    keys: Chains,
    tokens: Chains,
    badges: Chains,
    woken: Vec<u32>,
    ready: VecDeque<u32>,
    pub watches: Watches,
    pub later: Later,
}

impl Waiting {
    /// The request in this place of the lot waits for either of two keys (equal ones if there is one).
    pub fn park(&mut self, keys: [u64; 2], request: &Received, place: u32) {
        self.later.begin(keys);
        self.turn += 1;
        let ticket = Ticket {
            keys,
            token: request.token,
            badge: request.badge,
            turn: self.turn,
            place,
            indexed: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.tickets[index as usize] = ticket;
                index
            }
            None => {
                self.tickets.push(ticket);
                self.tickets.len() as u32 - 1
            }
        };
        if self.recent.len() >= FEW {
            self.index_recent();
        }
        self.recent.push(index);
    }

    #[cold]
    #[inline(never)]
    fn index_recent(&mut self) {
        let count = self.tickets.len();
        let room = self.keys.reserve(2 * count)
            && self.tokens.reserve(count)
            && self.badges.reserve(count);
        if !room {
            return;
        }
        for index in self.recent.drain(..) {
            let ticket = &mut self.tickets[index as usize];
            ticket.indexed = true;
            self.keys.insert(2 * index, ticket.keys[0]);
            if ticket.keys[1] != ticket.keys[0] {
                self.keys.insert(2 * index + 1, ticket.keys[1]);
            }
            self.tokens.insert(index, ticket.token);
            self.badges.insert(index, ticket.badge);
            self.indexed += 1;
            // Later ones need room of their own, perhaps.
            let _ = self.keys.reserve(2 * count)
                && self.tokens.reserve(count)
                && self.badges.reserve(count);
        }
    }

    fn take(&mut self, index: u32) -> u32 {
        let Ticket {
            keys,
            place,
            indexed,
            ..
        } = self.tickets[index as usize];
        self.later.end(keys);
        match indexed {
            true => {
                self.keys.remove(2 * index);
                self.keys.remove(2 * index + 1);
                self.tokens.remove(index);
                self.badges.remove(index);
                self.indexed -= 1;
            }
            false => self.recent.retain(|recent| *recent != index),
        }
        self.free.push(index);
        place
    }

    /// Those with this key among the indexed, in their order.
    #[cold]
    #[inline(never)]
    fn collect_indexed(&mut self, key: u64) {
        let mut woken = core::mem::take(&mut self.woken);
        woken.extend(self.keys.all(key).map(|link| link / 2));
        woken.sort_unstable_by_key(|index| self.tickets[*index as usize].turn);
        for index in woken.drain(..) {
            let place = self.take(index);
            self.ready.push_back(place);
        }
        self.woken = woken;
    }

    /// Move what the woken keys name to the ready queue, and touch the watches; is there anything to do?
    pub fn collect(&mut self) -> bool {
        while let Some(key) = self.later.woken.pop() {
            self.watches.touch(key);
            if self.indexed != 0 {
                self.collect_indexed(key);
            }
            let (tickets, later) = (&self.tickets, &mut self.later);
            let (free, ready) = (&mut self.free, &mut self.ready);
            self.recent.retain(|index| {
                let ticket = &tickets[*index as usize];
                let woken = ticket.keys.contains(&key);
                if woken {
                    later.end(ticket.keys);
                    free.push(*index);
                    ready.push_back(ticket.place);
                }
                !woken
            });
        }
        !self.ready.is_empty() || self.watches.touched()
    }

    /// A watch to look at.
    pub fn next_touched(&mut self) -> Option<(u32, u8)> {
        if !self.watches.touched() && !self.later.woken.is_empty() {
            self.collect();
        }
        self.watches.next_touched()
    }

    /// Is there anything to do beside receiving?
    #[inline]
    pub fn busy(&mut self) -> bool {
        !self.ready.is_empty()
            || self.watches.touched()
            || !self.later.woken.is_empty() && self.collect()
    }

    /// The next request to run again: its place in the lot.
    pub fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    fn find(&self, indexed: Option<u32>, wanted: impl Fn(&Ticket) -> bool) -> Option<u32> {
        let mut recent = self.recent.iter().copied();
        indexed.or_else(|| recent.find(|index| wanted(&self.tickets[*index as usize])))
    }

    fn with_token(&self, token: Token) -> Option<u32> {
        self.find(self.tokens.first(token), |ticket| ticket.token == token)
    }

    /// The place of this caller's waiting request.
    pub fn place(&self, token: Token) -> Option<u32> {
        let index = self.with_token(token)?;
        Some(self.tickets[index as usize].place)
    }

    /// The waiting request of this caller, which waits no longer.
    pub fn remove(&mut self, token: Token) -> Option<u32> {
        let index = self.with_token(token)?;
        Some(self.take(index))
    }

    /// A request through this badge, which waits no longer.
    #[inline(always)]
    pub fn remove_badge(&mut self, badge: u64) -> Option<u32> {
        let index = self.find(self.badges.first(badge), |ticket| ticket.badge == badge)?;
        Some(self.take(index))
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.indexed + self.recent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: Token) -> Received {
        Received {
            token,
            badge: token % 3,
            ..Received::default()
        }
    }

    #[test]
    fn order_of_arrival_is_kept_and_other_keys_stay() {
        let mut waiting = Waiting::default();
        for token in 1..=5 {
            waiting.park([10 + token % 2, 0], &request(token), token as u32);
        }
        waiting.park([7, 11], &request(6), 6);
        waiting.later.wake(11);
        assert!(waiting.busy());
        let mut places = Vec::new();
        while let Some(place) = waiting.next_ready() {
            places.push(place);
        }
        assert_eq!(places, [1, 3, 5, 6]);
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.remove(4), Some(4));
        assert_eq!(waiting.remove(4), None);
        assert_eq!(waiting.remove_badge(2), Some(2));
    }

    #[test]
    fn many_are_found_as_few_are() {
        let mut waiting = Waiting::default();
        for token in 1..=1000 {
            waiting.park([token % 10, 100 + token % 7], &request(token), token as u32);
        }
        assert_eq!(waiting.remove(500), Some(500));
        assert_eq!(waiting.place(1000), Some(1000));
        waiting.later.wake(3);
        assert!(waiting.busy());
        for token in (3..=1000).step_by(10) {
            assert_eq!(waiting.next_ready(), Some(token));
        }
        assert_eq!(waiting.next_ready(), None);
        waiting.later.wake(106);
        assert!(waiting.busy());
        let mut last = 0;
        while let Some(place) = waiting.next_ready() {
            assert!(place > last && place % 7 == 6 && place % 10 != 3);
            last = place;
        }
        while waiting.remove_badge(1).is_some() || waiting.remove_badge(2).is_some() {}
        while waiting.remove_badge(0).is_some() {}
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn only_what_somebody_waits_for_is_woken() {
        let mut waiting = Waiting::default();
        let woken = |waiting: &mut Waiting, key| {
            waiting.later.wake(key);
            waiting.later.woken.pop()
        };
        assert_eq!(woken(&mut waiting, 3), None);
        waiting.park([3, 3], &request(1), 0);
        waiting.park([3, 4], &request(2), 1);
        assert_eq!(woken(&mut waiting, 3), Some(3));
        assert_eq!(waiting.remove(1), Some(0));
        assert_eq!(woken(&mut waiting, 4), Some(4));
        assert_eq!(waiting.remove(2), Some(1));
        assert_eq!(woken(&mut waiting, 3), None);
    }
}
