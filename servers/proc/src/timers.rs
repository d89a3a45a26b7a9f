//! The interval timer ITIMER_REAL, POSIX timers, and the deadlines of futex waits, in one ordered set whose first element is the receive deadline.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::signal::{bit, code, Info, LAST, SIGALRM};
use crate::system::{Errno, System};
use crate::table::Slot;
use cairn_abi::Token;
use cairn_idl::errno::{EAGAIN, EINVAL, ETIMEDOUT};

/// Deadline, process, and which timer of it: 0 the interval timer, further ones POSIX timers, or [`of_thread`].
pub type Due = (u64, Slot, u32);

/// POSIX timers of one process.
const MOST: usize = 64;
const THREAD: u32 = 1 << 31;
/// Intervals below this are taken for this: a timer must not keep the system from everything else.
const SHORTEST: u64 = 50_000;
/// Longest time ahead (about 290 years), so that sums do not overflow.
const LONGEST: u64 = i64::MAX as u64;

/// The [`Due`] mark of a futex wait of this caller.
pub fn of_thread(token: Token) -> u32 {
    THREAD | (token as u32 & 0xf_ffff)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    pub used: bool,
    pub signal: u32,
    pub value: u64,
    /// 0: not armed.
    pub deadline: u64,
    pub interval: u64,
    /// Expirations since the last signal was queued that made none of their own.
    pub overrun: u64,
}

impl<S: System> Manager<S> {
    /// When the next timer is due.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|due| due.0)
    }

    /// Everything that is due by now.
    pub fn expire(&mut self) {
        let now = self.system.now();
        while let Some(due) = self.timers.first().copied() {
            if due.0 > now {
                break;
            }
            self.timers.remove(&due);
            let (deadline, slot, which) = due;
            if which & THREAD != 0 {
                self.futex_expired(slot, which);
                continue;
            }
            self.timer_expired(slot, which, deadline, now);
        }
        self.settle();
    }

    fn timer_expired(&mut self, slot: Slot, which: u32, deadline: u64, now: u64) {
        let timer = &mut self.processes[slot].timers[which as usize];
        timer.deadline = 0;
        let mut missed = 0;
        if let Some(periods) = (now - deadline).checked_div(timer.interval) {
            missed = periods;
            timer.deadline = deadline + (missed + 1) * timer.interval;
            self.timers.insert((timer.deadline, slot, which));
        }
        let signal = timer.signal;
        if signal == 0 {
            return;
        }
        let mut info = Info {
            signal,
            code: code::KERNEL,
            ..Info::default()
        };
        if which != 0 {
            if self.processes[slot].queue.pending() & bit(signal) != 0 {
                let timer = &mut self.processes[slot].timers[which as usize];
                timer.overrun = timer.overrun.saturating_add(missed + 1);
                return;
            }
            let timer = &mut self.processes[slot].timers[which as usize];
            timer.overrun = missed;
            info.code = code::TIMER;
            info.sender = (which as u64 - 1) | missed.min(i32::MAX as u64) << 32;
            info.value = timer.value;
        }
        let _ = self.send(slot, None, info);
    }

    fn futex_expired(&mut self, slot: Slot, which: u32) {
        let at = self.processes[slot]
            .threads
            .iter()
            .position(|t| t.token != 0 && of_thread(t.token) == which);
        if let Some(at) = at {
            let thread = &self.processes[slot].threads[at];
            if let crate::process::Held::Futex(key, _) = thread.held {
                let token = thread.token;
                self.futex_forget(key, token);
                self.answer_held(slot, token, -ETIMEDOUT);
            }
        }
    }

    /// Time left and interval of a timer.
    fn left(&mut self, slot: Slot, which: usize) -> (u64, u64) {
        match self.processes[slot].timers.get(which).copied() {
            Some(timer) if timer.deadline != 0 => {
                // An armed timer has time left, be it ever so little.
                let left = timer.deadline.saturating_sub(self.system.now()).max(1);
                (left, timer.interval)
            }
            Some(timer) => (0, timer.interval),
            None => (0, 0),
        }
    }

    fn arm(&mut self, slot: Slot, which: usize, deadline: u64, interval: u64) {
        let interval = match interval {
            0 => 0,
            some => some.clamp(SHORTEST, LONGEST),
        };
        let timer = &mut self.processes[slot].timers[which];
        let old = core::mem::replace(&mut timer.deadline, deadline.min(LONGEST));
        timer.interval = interval;
        timer.overrun = 0;
        let new = timer.deadline;
        if old != 0 {
            self.timers.remove(&(old, slot, which as u32));
        }
        if new != 0 {
            self.timers.insert((new, slot, which as u32));
        }
    }

    /// SETITIMER, and GETITIMER with `set` false.
    pub(crate) fn itimer(
        &mut self,
        slot: Slot,
        words: &[u64; 8],
        set: bool,
    ) -> Result<Outcome, Errno> {
        let [_, which, value, interval, ..] = *words;
        if which != 0 {
            return Err(EINVAL);
        }
        let (left, old_interval) = self.left(slot, 0);
        if set {
            if self.processes[slot].timers.is_empty() && value != 0 {
                self.processes[slot].timers.push(Timer {
                    used: true,
                    signal: SIGALRM,
                    ..Timer::default()
                });
            }
            if !self.processes[slot].timers.is_empty() {
                let deadline = match value {
                    0 => 0,
                    ahead => self.system.now().saturating_add(ahead).min(LONGEST),
                };
                let interval = if value == 0 { 0 } else { interval };
                self.arm(slot, 0, deadline, interval);
            }
        }
        Ok(Outcome::words(&[0, left, old_interval]))
    }

    /// TIMER
    pub(crate) fn timer(&mut self, slot: Slot, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, operation, id, third, fourth, ..] = *words;
        if operation == 0 {
            return self.timer_create(slot, id, third);
        }
        let which = usize::try_from(id)
            .ok()
            .and_then(|id| id.checked_add(1))
            .filter(|w| {
                self.processes[slot]
                    .timers
                    .get(*w)
                    .is_some_and(|timer| timer.used)
            })
            .ok_or(EINVAL)?;
        let (left, interval) = self.left(slot, which);
        match operation {
            1 => self.arm(slot, which, third, fourth),
            2 => {}
            3 => {
                self.arm(slot, which, 0, 0);
                self.processes[slot].timers[which].used = false;
            }
            4 => {
                let overrun = self.processes[slot].timers[which].overrun;
                return done(overrun.min(i32::MAX as u64) as i64);
            }
            _ => return Err(EINVAL),
        }
        Ok(Outcome::words(&[0, left, interval]))
    }

    fn timer_create(&mut self, slot: Slot, signal: u64, value: u64) -> Result<Outcome, Errno> {
        if signal > LAST as u64 {
            return Err(EINVAL);
        }
        let timers = &mut self.processes[slot].timers;
        if timers.is_empty() {
            timers.push(Timer {
                used: true,
                signal: SIGALRM,
                ..Timer::default()
            });
        }
        let free = timers.iter().position(|timer| !timer.used);
        let which = match free {
            Some(which) => which,
            None if timers.len() > MOST => return Err(EAGAIN),
            None => {
                timers.push(Timer::default());
                timers.len() - 1
            }
        };
        timers[which] = Timer {
            used: true,
            signal: signal as u32,
            value,
            ..Timer::default()
        };
        done(which as i64 - 1)
    }

    /// exec: POSIX timers go, the interval timer stays.
    pub(crate) fn cancel_posix_timers(&mut self, slot: Slot) {
        for which in 1..self.processes[slot].timers.len() {
            self.arm(slot, which, 0, 0);
        }
        self.processes[slot].timers.truncate(1);
    }

    pub(crate) fn cancel_timers(&mut self, slot: Slot) {
        self.cancel_posix_timers(slot);
        if !self.processes[slot].timers.is_empty() {
            self.arm(slot, 0, 0, 0);
            self.processes[slot].timers.clear();
        }
    }
}
