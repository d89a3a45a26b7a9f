//! Deadlines, and what the nucleus does later.
//!
//! The waiting threads of each priority that have a deadline are a leftist heap (Crane 1972), the earliest first. The earliest deadlines of 16 priorities are a
//! group, and those of the groups, too. So who is due and most important, the next deadline, and the next one from a priority on, are found with a look at 32
//! deadlines at most; whoever comes or goes takes as many steps as the logarithm of its priority's threads.
//!
//! Each coming of the timer does one step of what is due: the most important one, whoever was due first. What is less important than what runs waits until that
//! does so no longer: the ready queue shows it as its floor. So a thread waits for one step of less important ones at most. A dead thread with mutexes for
//! which others wait is due at once, at the priority of the most important of these; what dead domains leave is taken apart at that of an ordinary program.
//!
//! What always holds: a thread is in the heap of its effective priority. A core that does not look at deadlines below some priority has something more
//! important to do, or will choose anew. A deadline has a core that looks at it and whose timer comes by then, or no core has anything less important to do.

use crate::arch::Arch;
use crate::cores::MOST;
use crate::pool::ThreadRef;
use crate::thread::{State, QUANTUM};
use crate::Resume;
use crate::{Error, Kernel};
use cairn_abi::priority::NORMAL;

/// A thread's place among the deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    above: Option<ThreadRef>,
    below: [Option<ThreadRef>; 2],
    /// How many are passed at least on the way down until one has a place free below it; on the second side it is not more than on the first. 0: not in a heap.
    height: u8,
    priority: u8,
}

impl Place {
    pub const NONE: Place = Place {
        above: None,
        below: [None; 2],
        height: 0,
        priority: 0,
    };

    #[inline]
    pub fn is_armed(&self) -> bool {
        self.height != 0
    }
}

/// The heap of each priority, and what is known of each 16 of them.
pub struct Timers {
    first: [Option<ThreadRef>; 256],
    groups: [Group; 16],
    earliest: Group,
}

/// Deadlines; those that count have their bit.
#[derive(Clone, Copy)]
struct Group {
    used: u32,
    deadlines: [u64; 16],
}

impl Group {
    const NONE: Group = Group {
        used: 0,
        deadlines: [u64::MAX; 16],
    };

    fn set(&mut self, which: usize, deadline: u64) {
        let bit = 1 << (which % 16);
        self.used |= bit;
        if deadline == u64::MAX {
            self.used ^= bit;
        }
        self.deadlines[which % 16] = deadline;
    }

    /// The earliest of those from `first` on.
    #[inline(never)]
    fn earliest(&self, first: u32) -> u64 {
        let mut used = self.used & u32::MAX << first;
        let mut earliest = u64::MAX;
        while used != 0 {
            earliest = earliest.min(self.deadlines[used.trailing_zeros() as usize % 16]);
            used &= used - 1;
        }
        earliest
    }

    /// The last that is due.
    #[inline(always)]
    fn due(&self, now: u64) -> Option<usize> {
        let mut used = self.used;
        while used != 0 {
            let which = used.ilog2();
            if self.deadlines[which as usize % 16] <= now {
                return Some(which as usize % 16);
            }
            used ^= 1 << which;
        }
        None
    }
}

impl Timers {
    pub const NONE: Timers = Timers {
        first: [None; 256],
        groups: [Group::NONE; 16],
        earliest: Group::NONE,
    };

    #[inline(never)]
    fn set_first(&mut self, priority: u8, first: Option<ThreadRef>, deadline: u64) {
        let priority = priority as usize;
        self.first[priority] = first;
        let group = &mut self.groups[priority / 16];
        group.set(priority, deadline);
        self.earliest.set(priority / 16, group.earliest(0));
    }

    /// The earliest deadline of this priority and those above.
    fn earliest_from(&self, priority: u8) -> u64 {
        let group = self.groups[priority as usize / 16].earliest(priority as u32 % 16);
        group.min(self.earliest.earliest(priority as u32 / 16 + 1))
    }

    /// The most important of those that are due.
    fn most_important(&self, now: u64) -> Option<ThreadRef> {
        let group = self.earliest.due(now)?;
        let which = self.groups[group].due(now)?;
        self.first[group * 16 + which]
    }
}

impl<A: Arch> Kernel<A> {
    fn height(&self, t: Option<ThreadRef>) -> u8 {
        t.map_or(0, |t| self.threads[t].timer.height)
    }

    /// `a` and `b`, each with what is below it, are one heap from now on, on that side below `above`, or the one of this priority.
    #[inline(never)]
    fn meld(
        &mut self,
        priority: u8,
        mut above: Option<ThreadRef>,
        mut side: usize,
        [mut a, mut b]: [Option<ThreadRef>; 2],
    ) {
        // So many on the way down, from the first one below which there is another one now: their heights are found anew.
        let mut changed = 0;
        loop {
            // The earlier one goes here, and the other one where there is least below that on the second side.
            let swap = match (a, b) {
                (Some(x), Some(y)) => self.threads[y].deadline < self.threads[x].deadline,
                _ => a.is_none(),
            };
            if swap {
                (a, b) = (b, a);
            }
            match above {
                Some(above) => {
                    let below = &mut self.threads[above].timer.below[side];
                    if *below != a {
                        *below = a;
                        changed = changed.max(1);
                    }
                }
                None => {
                    let deadline = a.map_or(u64::MAX, |t| self.threads[t].deadline);
                    self.timers.set_first(priority, a, deadline);
                }
            }
            let Some(t) = a else {
                break;
            };
            let place = &mut self.threads[t].timer;
            place.above = above;
            if b.is_none() {
                break;
            }
            (above, side, a) = (a, 1, place.below[1]);
            changed += (changed != 0) as usize;
        }
        while let Some(t) = above {
            let [one, two] = self.threads[t].timer.below;
            let (first, second) = (self.height(one), self.height(two));
            let place = &mut self.threads[t].timer;
            if first < second {
                place.below = [two, one];
            }
            let height = first.min(second) + 1;
            if changed == 0 && place.height == height {
                break;
            }
            changed = changed.max(1) - 1;
            place.height = height;
            above = place.above;
        }
    }

    fn timer_insert(&mut self, t: ThreadRef) {
        let priority = self.threads[t].effective;
        self.threads[t].timer = Place {
            height: 1,
            priority,
            ..Place::NONE
        };
        let first = self.timers.first[priority as usize];
        self.meld(priority, None, 0, [first, Some(t)]);
    }

    fn timer_remove(&mut self, t: ThreadRef) {
        let place = core::mem::replace(&mut self.threads[t].timer, Place::NONE);
        let side = match place.above {
            None if place.below[0].is_none() => {
                self.timers.set_first(place.priority, None, u64::MAX);
                return;
            }
            None => 0,
            Some(above) => (self.threads[above].timer.below[0] != Some(t)) as usize,
        };
        self.meld(place.priority, place.above, side, place.below);
    }

    /// The thread blocks: its deadline counts from now on.
    #[inline]
    pub(crate) fn arm(&mut self, t: ThreadRef) {
        if self.threads[t].deadline != 0 {
            self.arm_waiting(t);
        }
    }

    /// The deadline counts at the priority that the thread was given, as it will run at that one.
    #[inline(never)]
    fn arm_waiting(&mut self, t: ThreadRef) {
        if self.threads[t].has_fallen() {
            self.restore_base(t);
            self.refresh(t);
        }
        self.arm_deadline(t);
    }

    #[inline(never)]
    fn arm_deadline(&mut self, t: ThreadRef) {
        if !self.threads[t].timer.is_armed() {
            self.timer_insert(t);
            let priority = self.threads[t].effective;
            if priority < self.dispatch.put_off {
                self.postpone(priority);
            }
            self.program_timer();
        }
    }

    /// The priority of a thread whose deadline counts is another one now.
    #[inline(never)]
    pub(crate) fn rearm(&mut self, t: ThreadRef) {
        self.timer_remove(t);
        self.arm_deadline(t);
    }

    /// The operation that the deadline was for is over.
    #[inline]
    pub(crate) fn disarm(&mut self, t: ThreadRef) {
        if self.threads[t].deadline != 0 {
            self.disarm_armed(t);
        }
    }

    #[inline(never)]
    fn disarm_armed(&mut self, t: ThreadRef) {
        if self.threads[t].timer.is_armed() {
            self.timer_remove(t);
        }
        self.threads[t].deadline = 0;
    }

    /// A dead thread's mutexes, for which others wait, are passed on step by step.
    pub(crate) fn mourn(&mut self, t: ThreadRef) {
        let thread = &mut self.threads[t];
        // It has what they lift it to.
        thread.base = 0;
        thread.assigned = 0;
        thread.deadline = 1;
        self.refresh(t);
        self.arm_deadline(t);
    }

    /// Have the timer come for the next deadline or the end of the quantum. A timer that comes too early does no harm and is not put off.
    pub(crate) fn program_timer(&mut self) {
        let mut next = self.pause_next.min(self.patience_end).min(self.watch_end);
        next = next.min(match self.dispatch.put_off {
            0 => self.timers.earliest.earliest(0),
            priority => self.timers.earliest_from(priority),
        });
        if self.several() && self.is_armed_elsewhere(next) {
            next = u64::MAX;
        }
        if self.dispatch.slice_end != 0 {
            next = next.min(self.dispatch.slice_end);
        }
        let burial = self.graveyard.is_some() && self.dispatch.put_off <= NORMAL;
        if burial || self.unrefreshed[0] != 0 {
            next = next.min(self.arch.now());
        }
        if next < self.dispatch.armed {
            self.dispatch.armed = next;
            self.arch.set_timer(Some(next));
        }
    }

    /// The timer interrupt (from user mode or idle).
    pub fn timer(&mut self) -> Resume {
        self.entered_by_interrupt();
        self.dispatch.armed = u64::MAX;
        let now = self.arch.now();
        let due = self.timers.most_important(now);
        let expires = due.map_or(-1, |t| self.threads[t].effective as i16);
        let buries = self.graveyard.map_or(-1, |_| NORMAL as i16);
        let step = expires.max(buries);
        let running = self.dispatch.current;
        if step >= running.map_or(-1, |t| self.threads[t].effective as i16) {
            if let Some(t) = due.filter(|_| expires == step) {
                self.expire(t);
            }
            if buries == step {
                self.bury();
            }
        } else if step >= 0 {
            self.postpone(step as u8);
        }
        self.refresh_rest();
        if self.pause_next <= now {
            self.hasty_pauses(now);
        }
        if self.patience_end <= now {
            self.end_patience(now);
        }
        if self.watch_end <= now {
            self.watch_schedulers(now);
        }
        let slice_end = self.dispatch.slice_end;
        if slice_end != 0 && now >= slice_end {
            self.end_quantum(now);
        }
        self.program_timer();
        self.leave()
    }

    /// Something of this priority is to be done, and what runs here is more important. It waits for a core that has nothing more important to do.
    #[cold]
    #[inline(never)]
    fn postpone(&mut self, priority: u8) {
        self.dispatch.postpone(priority);
        for core in 0..MOST {
            let Some(away) = &mut self.cores.away[core] else {
                continue;
            };
            away.postpone(priority);
            let running = away.current.map(|t| self.threads[t].effective);
            if running <= Some(priority) {
                away.preempt = true;
                self.call_core(core);
            }
        }
    }

    /// The dispatcher met the floor, and it is what was put off here: the timer comes for it at once. False: it is something else.
    pub(crate) fn take_up(&mut self, best: i16) -> bool {
        let waits = self.dispatch.put_off as i16 == best;
        if waits {
            self.dispatch.put_off = 0;
            self.program_timer();
        }
        waits
    }

    /// The timer that ends a quantum may have been set for something else and come early. Whoever sets timers all the time shall not so cut short what others get, so
    /// turns are at least half a quantum apart.
    fn end_quantum(&mut self, now: u64) {
        self.dispatch.slice_end = 0;
        let Some(t) = self.dispatch.current else {
            return;
        };
        let payer = &self.threads[self.payer(t)];
        if !payer.round_robin {
            return;
        }
        let due = self
            .dispatch
            .turned
            .saturating_add(payer.quantum.min(QUANTUM) / 2);
        if now < due {
            self.dispatch.slice_end = due;
        } else {
            self.dispatch.turned = now;
            self.fall(t, now);
            self.give_way();
        }
    }

    fn expire(&mut self, t: ThreadRef) {
        let (state, channel) = (self.threads[t].state, self.threads[t].channel);
        match (state, channel) {
            (State::Sleeping, _) => self.finish(t, 0),
            (State::Held, Some(c)) => {
                self.detach(t);
                self.caller_gone(t, c);
                self.finish(t, Error::TimedOut as u64);
            }
            (State::Sending | State::Receiving | State::Parked | State::Waiting, _) => {
                self.detach(t);
                self.finish(t, Error::TimedOut as u64);
            }
            (State::Dead, _) => {
                self.disarm(t);
                self.bequeath(t);
                self.release_thread_object(t);
            }
            // Not blocked: cannot be in a heap.
            _ => self.disarm(t),
        }
    }

    /// The current thread came in by an interrupt or exception: all its registers count.
    pub(crate) fn entered_by_interrupt(&mut self) {
        self.settle_entry();
        if let Some(t) = self.dispatch.current {
            self.threads[t].full = true;
        }
    }
}

#[cfg(test)]
impl<A: Arch> Kernel<A> {
    /// Every thread whose deadline counts, with all checked that holds of the heaps and the tree over them.
    pub fn armed(&self) -> std::vec::Vec<ThreadRef> {
        let mut found = std::vec::Vec::new();
        for priority in 0..=255u8 {
            let first = self.timers.first[priority as usize];
            let deadline = first.map_or(u64::MAX, |t| self.threads[t].deadline);
            let group = &self.timers.groups[priority as usize / 16];
            assert_eq!(group.deadlines[priority as usize % 16], deadline);
            assert_eq!(
                self.timers.earliest_from(priority),
                (priority..=255)
                    .filter_map(|p| self.timers.first[p as usize])
                    .map(|t| self.threads[t].deadline)
                    .min()
                    .unwrap_or(u64::MAX)
            );
            let mut rest = std::vec![(None, first)];
            while let Some((above, t)) = rest.pop() {
                let Some(t) = t else {
                    continue;
                };
                let thread = &self.threads[t];
                assert_eq!(
                    (thread.timer.above, thread.timer.priority),
                    (above, priority)
                );
                assert_eq!(thread.effective, priority, "{t:?} has another priority now");
                let [one, two] = thread.timer.below;
                assert!(self.height(one) >= self.height(two));
                assert_eq!(thread.timer.height, self.height(two) + 1);
                let before = above.map_or(0, |above| self.threads[above].deadline);
                assert!(before <= thread.deadline && thread.deadline != 0);
                rest.extend([(Some(t), one), (Some(t), two)]);
                found.push(t);
            }
        }
        for (group, of) in self.timers.groups.iter().enumerate() {
            assert_eq!(self.timers.earliest.deadlines[group], of.earliest(0));
        }
        found
    }
}
