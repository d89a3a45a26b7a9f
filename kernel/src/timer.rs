//! Deadlines: a binary heap of threads ordered by deadline. Its array needs no memory of its own: element `i` is kept in the `aux` word of
//! position `i` of the thread pool, which has at least as many positions as there are threads.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::thread::{State, QUANTUM};
use crate::Resume;
use crate::{Error, Kernel};

/// Most deadlines that one timer interrupt handles.
const SHARE: usize = 2;

impl<A: Arch> Kernel<A> {
    #[inline(never)]
    fn timer_at(&self, position: u32) -> ThreadRef {
        match self.threads.aux(position) {
            Some(t) => t,
            None => panic!("nobody at a position of the timer heap"),
        }
    }

    #[inline(never)]
    fn timer_put(&mut self, position: u32, t: ThreadRef) {
        self.threads.set_aux(position, t);
        self.threads[t].timer = position;
    }

    #[inline(never)]
    fn deadline_at(&self, position: u32) -> u64 {
        self.threads[self.timer_at(position)].deadline
    }

    fn sift_up(&mut self, mut position: u32, t: ThreadRef) {
        let deadline = self.threads[t].deadline;
        while position > 1 && self.deadline_at(position / 2) > deadline {
            let parent = self.timer_at(position / 2);
            self.timer_put(position, parent);
            position /= 2;
        }
        self.timer_put(position, t);
    }

    /// What is below an empty position goes up as long as it comes before this deadline; → the position that is empty then.
    fn sift_down(&mut self, mut position: u32, deadline: u64) -> u32 {
        loop {
            let mut child = position * 2;
            if child < self.timers && self.deadline_at(child + 1) < self.deadline_at(child) {
                child += 1;
            }
            if child > self.timers || self.deadline_at(child) >= deadline {
                return position;
            }
            let lifted = self.timer_at(child);
            self.timer_put(position, lifted);
            position = child;
        }
    }

    /// The thread blocks: its deadline counts from now on.
    #[inline]
    pub(crate) fn arm(&mut self, t: ThreadRef) {
        if self.threads[t].deadline != 0 {
            self.arm_deadline(t);
        }
    }

    fn arm_deadline(&mut self, t: ThreadRef) {
        if self.threads[t].timer == 0 {
            self.timers += 1;
            self.sift_up(self.timers, t);
            self.program_timer();
        }
    }

    /// The operation that the deadline was for is over.
    #[inline]
    pub(crate) fn disarm(&mut self, t: ThreadRef) {
        if self.threads[t].deadline != 0 {
            self.disarm_armed(t);
        }
    }

    fn disarm_armed(&mut self, t: ThreadRef) {
        let position = self.threads[t].timer;
        if position != 0 {
            let last = self.timer_at(self.timers);
            self.timers -= 1;
            self.threads[t].timer = 0;
            if last != t {
                let position = self.sift_down(position, self.threads[last].deadline);
                self.sift_up(position, last);
            }
        }
        self.threads[t].deadline = 0;
    }

    /// Have the timer come for the next deadline or the end of the quantum. A timer that comes too early does no harm and is not put off.
    pub(crate) fn program_timer(&mut self) {
        let mut next = self.pause_next.min(self.patience_end);
        if self.timers != 0 {
            next = next.min(self.deadline_at(1));
        }
        if self.several() && self.is_armed_elsewhere(next) {
            next = u64::MAX;
        }
        if self.dispatch.slice_end != 0 {
            next = next.min(self.dispatch.slice_end);
        }
        if self.graveyard.is_some() || self.mourned.is_some() || self.unrefreshed[0] != 0 {
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
        let mut expired = 0;
        while expired < SHARE && self.timers != 0 && self.deadline_at(1) <= now {
            let t = self.timer_at(1);
            self.expire(t);
            expired += 1;
        }
        if self.pause_next <= now {
            self.hasty_pauses(now);
        }
        if self.patience_end <= now {
            self.end_patience(now);
        }
        // A share of what is left over, where that was none.
        if expired < SHARE && !self.refresh_rest() {
            self.bury();
        }
        let slice_end = self.dispatch.slice_end;
        if slice_end != 0 && now >= slice_end {
            self.end_quantum(now);
        }
        self.program_timer();
        self.leave()
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
            // Not blocked: cannot be in the heap.
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
