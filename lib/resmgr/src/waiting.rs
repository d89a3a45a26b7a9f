//! Requests that wait for something, and poll registrations. Both are found by the key that [`crate::Context::wake`] names.

use crate::context::Later;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_rt::{Portal, Received};

/// Most registrations of POLL_NOTIFY at one manager.
pub const REGISTRATIONS_MAX: usize = 8192;
/// Most registrations of one domain.
pub const REGISTRATIONS_OF_ONE: usize = 1024;

/// What a request takes with it when it runs again.
#[derive(Clone, Copy, Default)]
pub(crate) struct Again {
    pub progress: u64,
    pub progress_is_result: bool,
    /// It was made before, and a predecessor died with it ([`cairn_idl::fs::AGAIN`]).
    pub repeated: bool,
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
        repeated: false,
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
    place: u32,
}

/// A portal to be notified when a handle gets ready for something in `mask`.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub badge: u64,
    pub sender: u32,
    pub cookie: u64,
    pub mask: u64,
    pub portal: Portal,
    pub keys: [u64; 2],
}

/// The registrations of POLL_NOTIFY. [`Later::interest`] counts their keys.
#[derive(Default)]
pub(crate) struct Registrations(Vec<Registration>);

impl Registrations {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many the domain has.
    pub fn of(&self, sender: u32) -> usize {
        self.0.iter().filter(|r| r.sender == sender).count()
    }

    pub fn add(&mut self, later: &mut Later, registration: Registration) {
        later.begin(registration.keys);
        self.0.push(registration);
    }

    pub fn find(&self, badge: u64, sender: u32, cookie: u64) -> Option<(usize, Registration)> {
        self.0
            .iter()
            .position(|r| r.badge == badge && r.sender == sender && r.cookie == cookie)
            .map(|index| (index, self.0[index]))
    }

    /// It waits for other keys now.
    pub fn set_keys(&mut self, later: &mut Later, index: usize, keys: [u64; 2]) {
        later.end(self.0[index].keys);
        later.begin(keys);
        self.0[index].keys = keys;
    }

    pub fn remove(&mut self, later: &mut Later, index: usize) -> Registration {
        let registration = self.0.swap_remove(index);
        later.end(registration.keys);
        registration
    }

    /// One of those on the handle, which is gone.
    pub fn remove_badge(&mut self, later: &mut Later, badge: u64) -> Option<Registration> {
        let index = self.0.iter().position(|r| r.badge == badge)?;
        Some(self.remove(later, index))
    }
}

/// Something to do now because its key was woken.
pub(crate) enum Ready {
    /// The request in this place of the [`Lot`].
    Request(u32),
    /// Look whether this registration's handle is ready.
    Registration {
        badge: u64,
        sender: u32,
        cookie: u64,
    },
}

/// All that waits. Order of arrival is kept, also when a request runs again in vain.
#[derive(Default)]
pub(crate) struct Waiting {
    order: Vec<Ticket>,
    ready: VecDeque<Ready>,
    pub registrations: Registrations,
    pub later: Later,
}

impl Waiting {
    /// The request in this place of the lot waits for either of two keys (equal ones if there is one).
    pub fn park(&mut self, keys: [u64; 2], request: &Received, place: u32) {
        self.later.begin(keys);
        self.order.push(Ticket {
            keys,
            token: request.token,
            badge: request.badge,
            place,
        });
    }

    fn take(&mut self, index: usize) -> u32 {
        let ticket = self.order.remove(index);
        self.later.end(ticket.keys);
        ticket.place
    }

    /// Move what the woken keys name to the ready queue; is there anything to do?
    pub fn collect(&mut self) -> bool {
        while let Some(key) = self.later.woken.pop() {
            let (later, ready) = (&mut self.later, &mut self.ready);
            self.order.retain(|ticket| {
                let woken = ticket.keys.contains(&key);
                if woken {
                    later.end(ticket.keys);
                    ready.push_back(Ready::Request(ticket.place));
                }
                !woken
            });
            for registration in &self.registrations.0 {
                if registration.keys.contains(&key) {
                    self.ready.push_back(Ready::Registration {
                        badge: registration.badge,
                        sender: registration.sender,
                        cookie: registration.cookie,
                    });
                }
            }
        }
        !self.ready.is_empty()
    }

    /// Is there anything to do beside receiving?
    #[inline]
    pub fn busy(&mut self) -> bool {
        !self.ready.is_empty() || !self.later.woken.is_empty() && self.collect()
    }

    pub fn next_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// The place of this caller's waiting request.
    pub fn place(&self, token: Token) -> Option<u32> {
        let ticket = self.order.iter().find(|t| t.token == token)?;
        Some(ticket.place)
    }

    /// The waiting request of this caller, which waits no longer.
    pub fn remove(&mut self, token: Token) -> Option<u32> {
        let index = self.order.iter().position(|t| t.token == token)?;
        Some(self.take(index))
    }

    /// A request through this badge, which waits no longer.
    pub fn remove_badge(&mut self, badge: u64) -> Option<u32> {
        let index = self.order.iter().position(|t| t.badge == badge)?;
        Some(self.take(index))
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.order.len()
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
        while let Some(Ready::Request(place)) = waiting.next_ready() {
            places.push(place);
        }
        assert_eq!(places, [1, 3, 5, 6]);
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.remove(4), Some(4));
        assert_eq!(waiting.remove(4), None);
        assert_eq!(waiting.remove_badge(2), Some(2));
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
        let registration = Registration {
            badge: 1,
            sender: 2,
            cookie: 3,
            mask: 0,
            portal: Portal(0),
            keys: [8, 9],
        };
        let Waiting {
            registrations,
            later,
            ..
        } = &mut waiting;
        registrations.add(later, registration);
        registrations.set_keys(later, 0, [9, 9]);
        assert_eq!(woken(&mut waiting, 8), None);
        assert_eq!(woken(&mut waiting, 9), Some(9));
        let Waiting {
            registrations,
            later,
            ..
        } = &mut waiting;
        assert!(registrations.remove_badge(later, 1).is_some());
        assert!(registrations.remove_badge(later, 1).is_none());
        assert_eq!(woken(&mut waiting, 9), None);
    }
}
