//! Who waits for which word. One table per process; a waiter is told apart by a ticket, so that a wake-up that came just before a timeout is not lost.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub address: u64,
    pub ticket: u64,
    /// Nucleus thread id.
    pub thread: u32,
    pub bits: u32,
}

/// A word with priority inheritance for which somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contended {
    address: u64,
    /// Slot of its mutex.
    slot: u32,
    users: u32,
}

#[derive(Debug, Default)]
pub struct Futexes {
    /// In order of arrival.
    waiters: Vec<Waiter>,
    next_ticket: u64,
    contended: Vec<Contended>,
}

impl Futexes {
    pub fn add(&mut self, address: u64, thread: u32, bits: u32) -> u64 {
        self.next_ticket += 1;
        self.waiters.push(Waiter {
            address,
            ticket: self.next_ticket,
            thread,
            bits,
        });
        self.next_ticket
    }

    pub fn waits(&self, ticket: u64) -> bool {
        self.waiters.iter().any(|w| w.ticket == ticket)
    }

    /// Give up waiting. False if it was woken before.
    pub fn remove(&mut self, ticket: u64) -> bool {
        match self.waiters.iter().position(|w| w.ticket == ticket) {
            Some(at) => {
                self.waiters.remove(at);
                true
            }
            None => false,
        }
    }

    /// Take out up to `count` waiters of a word that share a bit: whom to unpark.
    pub fn wake(&mut self, address: u64, count: u32, bits: u32) -> Vec<u32> {
        let mut woken = Vec::new();
        self.waiters.retain(|w| {
            let take = w.address == address && w.bits & bits != 0 && woken.len() < count as usize;
            if take {
                woken.push(w.thread);
            }
            !take
        });
        woken
    }

    /// Move up to `count` waiters to another word.
    pub fn requeue(&mut self, from: u64, to: u64, count: u32) -> u32 {
        let mut moved = 0;
        for waiter in &mut self.waiters {
            if waiter.address == from && moved < count {
                waiter.address = to;
                moved += 1;
            }
        }
        moved
    }

    /// The mutex of a contended word with priority inheritance.
    pub fn contended(&self, address: u64) -> Option<u32> {
        let found = self.contended.iter().find(|c| c.address == address)?;
        Some(found.slot)
    }

    /// One user more of a word's mutex.
    pub fn join(&mut self, address: u64, slot: u32) {
        match self.contended.iter_mut().find(|c| c.address == address) {
            Some(contended) => contended.users += 1,
            None => self.contended.push(Contended {
                address,
                slot,
                users: 1,
            }),
        }
    }

    /// One less. How many are left; with none the mutex is the caller's to close.
    pub fn leave(&mut self, address: u64) -> u32 {
        let Some(at) = self.contended.iter().position(|c| c.address == address) else {
            return 0;
        };
        self.contended[at].users -= 1;
        let left = self.contended[at].users;
        if left == 0 {
            self.contended.swap_remove(at);
        }
        left
    }

    /// Forget everything: the threads that waited are not in this process any more. The mutexes' slots are the caller's to close, if they are in its table.
    pub fn clear(&mut self) -> Vec<u32> {
        self.waiters.clear();
        self.contended.drain(..).map(|c| c.slot).collect()
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
        let a = f.add(8, 1, !0);
        let b = f.add(8, 2, 1);
        f.add(16, 3, !0);
        let c = f.add(8, 4, 2);
        assert_eq!(f.wake(8, 1, !0), [1]);
        assert!(!f.waits(a) && f.waits(b));
        assert_eq!(f.wake(8, 9, 2), [4]);
        assert!(!f.remove(c), "woken before its timeout");
        assert!(f.remove(b));
        assert_eq!(f.wake(8, 9, !0), []);
        assert_eq!(f.wake(16, 9, !0), [3]);
    }

    #[test]
    fn requeues() {
        let mut f = Futexes::default();
        for thread in 1..5 {
            f.add(8, thread, !0);
        }
        assert_eq!(f.wake(8, 1, !0), [1]);
        assert_eq!(f.requeue(8, 64, 2), 2);
        assert_eq!(f.wake(8, 9, !0), [4]);
        assert_eq!(f.wake(64, 9, !0), [2, 3]);
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
