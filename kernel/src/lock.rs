//! The nucleus lock: a ticket lock, so that cores get it in the order in which they asked. Nothing but atomics:
//! `models/cores` runs this very code in all orders.
//!
//! Whoever waits has interrupts off; what others may want of him meanwhile he does in the function that he waits with. He may sleep there as well: who lets go
//! is told whose turn it is, and wakes him. Who only passes by ([`TicketLock::pass`]: the code of a portal, for some forty instructions) takes no ticket: it gets in where nobody is, or not at
//! all, and who has his turn waits until it has gone by. Once he waits, nobody else begins to pass: so he waits for those only that had looked before he said so, once for each other core. So that no wake-up is lost both sides do their two steps in one order for all: who sleeps says so and then looks whether it is
//! his turn ([`TicketLock::is_turn`]); who lets go says whose turn it is and then looks who sleeps.

use crate::atomic::{pause, write_exchanged, AtomicU32, Ordering};

pub struct TicketLock {
    /// The next ticket, and the one that has the lock.
    pub(crate) next: AtomicU32,
    pub(crate) serving: AtomicU32,
    /// 1: whose turn it is is in, or somebody passes.
    pub(crate) busy: AtomicU32,
    /// 1: whose turn it is waits until somebody has gone by.
    pub(crate) urgent: AtomicU32,
}

impl TicketLock {
    pub const fn new() -> TicketLock {
        TicketLock {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            urgent: AtomicU32::new(0),
        }
    }

    /// Have the lock, and see everything that its holders before did. `waiting` is called with the own ticket again and again until then.
    #[inline]
    pub fn acquire(&self, mut waiting: impl FnMut(u32)) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        while self.serving.load(Ordering::Acquire) != ticket {
            waiting(ticket);
        }
        if !self.get_in() {
            self.outwait_passers();
        }
    }

    #[inline]
    fn get_in(&self) -> bool {
        self.busy.swap(1, Ordering::Acquire) == 0
    }

    /// It is this one's turn, and somebody passes.
    #[cold]
    fn outwait_passers(&self) {
        self.urgent.store(1, Ordering::SeqCst);
        while !self.get_in() {
            // Who only reads leaves the word to the one who passes.
            while self.busy.load(Ordering::Relaxed) != 0 {
                pause();
            }
        }
        self.urgent.store(0, Ordering::Relaxed);
    }

    /// Have the lock if nobody has it, out of turn, and nobody whose turn it is waits for it. The code of portals does this by itself, with the address of [`TicketLock::busy`].
    #[inline]
    pub fn pass(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) == 0 && self.get_in()
    }

    /// Let go what [`TicketLock::pass`] has taken.
    #[inline]
    pub fn passed(&self) {
        write_exchanged(&self.busy, 0);
    }

    /// Where the code of portals finds it: 0 if nobody is in.
    pub const BUSY: usize = core::mem::offset_of!(TicketLock, busy);
    /// And so many bytes behind that: 0 if nobody waits whose turn it is.
    pub const URGENT: usize = core::mem::offset_of!(TicketLock, urgent) - TicketLock::BUSY;

    /// Has the lock come to this ticket? For one who has said that he sleeps.
    pub fn is_turn(&self, ticket: u32) -> bool {
        self.serving.load(Ordering::SeqCst) == ticket
    }

    /// Give it to the next, whose ticket is the answer. Only by whoever has it.
    #[inline]
    pub fn release(&self) -> u32 {
        self.passed();
        let next = self.serving.load(Ordering::Relaxed).wrapping_add(1);
        self.serving.store(next, Ordering::SeqCst);
        next
    }
}

impl Default for TicketLock {
    fn default() -> Self {
        TicketLock::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    #[test]
    fn whoever_waits_in_his_turn_is_passed_by_nobody_new() {
        let lock = Arc::new(TicketLock::new());
        assert!(lock.pass());
        let (waiter, in_it) = (lock.clone(), Arc::new(AtomicBool::new(false)));
        let has_been = in_it.clone();
        let thread = std::thread::spawn(move || {
            waiter.acquire(|_| std::thread::yield_now());
            has_been.store(true, Ordering::SeqCst);
            waiter.release();
        });
        // It has found the lock taken, and says so.
        let begin = std::time::Instant::now();
        while lock.urgent.load(Ordering::SeqCst) == 0 {
            assert!(begin.elapsed().as_secs() < 60, "nobody says that he waits");
            std::thread::yield_now();
        }
        lock.passed();
        while !in_it.load(Ordering::SeqCst) {
            if lock.pass() {
                assert!(in_it.load(Ordering::SeqCst), "passed again");
                lock.passed();
            }
            std::thread::yield_now();
        }
        thread.join().expect("no panic");
        assert_eq!(lock.urgent.load(Ordering::SeqCst), 0);
        assert!(lock.pass(), "free again");
    }
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn who_passes_is_alone_too() {
        const ROUNDS: u64 = 20_000;
        let shared = Arc::new((TicketLock::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let add = |sum: &AtomicU64| {
            let before = sum.load(Ordering::Relaxed);
            sum.store(before + 1, Ordering::Relaxed);
        };
        let passers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let (lock, sum, passed) = &*shared;
                    for _ in 0..ROUNDS {
                        if lock.pass() {
                            add(sum);
                            add(passed);
                            lock.passed();
                        }
                    }
                })
            })
            .collect();
        let (lock, sum, passed) = &*shared;
        for _ in 0..ROUNDS {
            lock.acquire(|_| std::thread::yield_now());
            add(sum);
            lock.release();
        }
        for passer in passers {
            passer.join().expect("no panic");
        }
        let times = passed.load(Ordering::Relaxed);
        assert!(times > 0, "nobody got by");
        assert_eq!(sum.load(Ordering::Relaxed), ROUNDS + times);
    }

    #[test]
    fn one_at_a_time_and_everybody_gets_it() {
        const ROUNDS: u64 = 2000;
        const THREADS: u64 = 4;
        let shared = Arc::new((TicketLock::new(), AtomicBool::new(false), AtomicU64::new(0)));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let (lock, inside, sum) = &*shared;
                    for _ in 0..ROUNDS {
                        lock.acquire(|_| std::thread::yield_now());
                        assert!(!inside.swap(true, Ordering::Relaxed), "two have it");
                        // Not one operation: an update would be lost without the lock.
                        let before = sum.load(Ordering::Relaxed);
                        sum.store(before + 1, Ordering::Relaxed);
                        inside.store(false, Ordering::Relaxed);
                        lock.release();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(shared.2.load(Ordering::Relaxed), ROUNDS * THREADS);
    }

    #[test]
    fn tickets_are_served_in_order() {
        let lock = TicketLock::new();
        lock.acquire(|_| panic!("free"));
        let mut order = Vec::new();
        // The second asks while the first has it: it waits until that one lets go.
        let mut polls = 0;
        lock.acquire(|ticket| {
            assert_eq!(ticket, 1);
            polls += 1;
            if polls == 3 {
                order.push(1);
                assert_eq!(lock.release(), 1);
            }
        });
        order.push(2);
        lock.release();
        assert_eq!(order, [1, 2]);
        assert_eq!(polls, 3);
    }
}
