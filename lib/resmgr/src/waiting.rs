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
}

/// A request that waits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parked {
    pub request: Received,
    pub again: Again,
}

struct Ticket {
    keys: [u64; 2],
    slot: u32,
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

/// Something to do now because its key was woken.
pub(crate) enum Ready {
    Request(Parked),
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
    slots: Vec<Parked>,
    free: Vec<u32>,
    ready: VecDeque<Ready>,
    pub registrations: Vec<Registration>,
    pub later: Later,
}

impl Waiting {
    pub fn park(&mut self, keys: [u64; 2], parked: Parked) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = parked;
                slot
            }
            None => {
                self.slots.push(parked);
                self.slots.len() as u32 - 1
            }
        };
        self.order.push(Ticket { keys, slot });
    }

    fn take(&mut self, index: usize) -> Parked {
        let ticket = self.order.remove(index);
        self.free.push(ticket.slot);
        self.slots[ticket.slot as usize]
    }

    /// Move what the woken keys name to the ready queue; is there anything to do?
    pub fn collect(&mut self) -> bool {
        while let Some(key) = self.later.woken.pop() {
            let mut index = 0;
            while index < self.order.len() {
                if self.order[index].keys.contains(&key) {
                    let parked = self.take(index);
                    self.ready.push_back(Ready::Request(parked));
                } else {
                    index += 1;
                }
            }
            for registration in &self.registrations {
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

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn next_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// The waiting request of this caller, which waits no longer.
    pub fn remove(&mut self, token: Token) -> Option<Parked> {
        let index = self
            .order
            .iter()
            .position(|ticket| self.slots[ticket.slot as usize].request.token == token)?;
        Some(self.take(index))
    }

    /// Requests through this badge, which wait no longer.
    pub fn remove_badge(&mut self, badge: u64) -> Option<Parked> {
        let index = self
            .order
            .iter()
            .position(|ticket| self.slots[ticket.slot as usize].request.badge == badge)?;
        Some(self.take(index))
    }

    pub fn registration(
        &mut self,
        badge: u64,
        sender: u32,
        cookie: u64,
    ) -> Option<(usize, Registration)> {
        self.registrations
            .iter()
            .position(|r| r.badge == badge && r.sender == sender && r.cookie == cookie)
            .map(|index| (index, self.registrations[index]))
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: Token) -> Parked {
        Parked {
            request: Received {
                token,
                ..Received::default()
            },
            ..Parked::default()
        }
    }

    #[test]
    fn order_of_arrival_is_kept_and_other_keys_stay() {
        let mut waiting = Waiting::default();
        for token in 1..=5 {
            waiting.park([10 + token % 2, 0], request(token));
        }
        waiting.park([7, 11], request(6));
        waiting.later.woken.push(11);
        assert!(waiting.collect());
        let mut tokens = Vec::new();
        while let Some(Ready::Request(parked)) = waiting.next_ready() {
            tokens.push(parked.request.token);
        }
        assert_eq!(tokens, [1, 3, 5, 6]);
        assert_eq!(waiting.len(), 2);
        assert!(waiting.remove(4).is_some());
        assert!(waiting.remove(4).is_none());
        assert_eq!(waiting.remove(2).map(|p| p.request.token), Some(2));
    }
}
