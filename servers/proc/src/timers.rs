//! The interval timer ITIMER_REAL, POSIX timers, and the deadlines of futex waits, in one ordered set whose first element is the receive deadline.
//!
//! A timer whose signal waits to be taken is in no set: what expires meanwhile is counted from the clock when its owner takes the signal (TIMER 5), and only then the next expiry is looked forward to. The same goes for a timer whose signal is ignored, until it is not.
//! So a timer costs one entry here for each signal that its owner takes, however short its interval is.

use crate::dispatch::Outcome;
use crate::limits::SIGPENDING;
use crate::manager::{done, Manager};
use crate::signal::{bit, code, Full, Info, LAST, SIGALRM};
use crate::system::{Errno, System};
use crate::table::Slot;
use cairn_abi::Token;
use cairn_idl::errno::{EAGAIN, EINVAL, ETIMEDOUT};
use cairn_idl::proc::{TimerOp, TIMER_CLOCKS, TIMER_OWN_ID, TIMER_REAL};

/// Deadline, process, and which timer of it: 0 the interval timer, further ones POSIX timers, or [`of_thread`].
pub type Due = (u64, Slot, u32);

const THREAD: u32 = 1 << 31;
const CLOCKS: u32 = TIMER_CLOCKS as u32;
/// Longest time ahead (about 290 years), so that sums do not overflow.
const LONGEST: u64 = i64::MAX as u64;
/// So many expire in one go; then it is the turn of messages.
const SHARE: usize = 16;
/// There was no memory for a signal: once more so much later.
const RETRY: u64 = 10_000_000;
/// Number of the interval timer among a process's timers.
const INTERVAL: u32 = 0;

/// The [`Due`] mark of a futex wait of this caller.
pub fn of_thread(token: Token) -> u32 {
    THREAD | (token as u32 & 0xf_ffff)
}

/// Where an armed timer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Not in the ordered set: not running, or nobody is told.
    #[default]
    Idle,
    /// In the ordered set.
    Waits,
    /// It expired while its signal was ignored.
    Ignored,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    pub used: bool,
    pub signal: u32,
    /// The thread that is to have the signal, 0: any.
    thread: u32,
    clock: u32,
    value: u64,
    /// Its next expiry, or the last one that was acted on; 0: not running.
    pub deadline: u64,
    interval: u64,
    pub stage: Stage,
    /// Its signal waits to be taken.
    pub queued: bool,
    /// Expiries since that of the signal that waits. Of one that is free: the next free one.
    overrun: u64,
    /// What they were when the last signal was taken.
    overruns: u64,
}

impl Timer {
    /// Go on to the first expiry after `now`: how many were passed by beside the one that was acted on.
    fn forward(&mut self, now: u64) -> u64 {
        let Some(missed) = now.saturating_sub(self.deadline).checked_div(self.interval) else {
            return 0;
        };
        self.deadline = self
            .deadline
            .saturating_add((missed + 1).saturating_mul(self.interval))
            .min(LONGEST);
        missed
    }

    fn left(&self, now: u64) -> u64 {
        match (self.deadline, self.stage) {
            (0, _) => 0,
            // It has time left, be it ever so little.
            (deadline, Stage::Waits) => deadline.saturating_sub(now).max(1),
            (deadline, _) if deadline > now => deadline - now,
            (deadline, _) => match (now - deadline).checked_rem(self.interval) {
                Some(since) => self.interval - since,
                None => 0,
            },
        }
    }
}

impl<S: System> Manager<S> {
    /// When the next timer is due.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|due| due.0)
    }

    /// What is due by now, or the first of it.
    pub fn expire(&mut self) {
        let now = self.system.now();
        for _ in 0..SHARE {
            let Some(due) = self.timers.first().copied().filter(|due| due.0 <= now) else {
                break;
            };
            self.timers.remove(&due);
            let (_, slot, which) = due;
            if which & THREAD != 0 {
                self.futex_expired(slot, which);
            } else {
                self.timer_expired(slot, which, now);
            }
        }
        self.settle();
    }

    fn timer_expired(&mut self, slot: Slot, which: u32, now: u64) {
        let timer = &mut self.processes[slot].timers[which as usize];
        timer.stage = Stage::Idle;
        if timer.queued {
            // It was set anew before its signal was taken.
            timer.overrun = timer.overrun.saturating_add(1);
            if timer.interval == 0 {
                timer.deadline = 0;
            }
            return;
        }
        let timer = *timer;
        let sent = self.send_expiry(slot, which, &timer);
        let timer = &mut self.processes[slot].timers[which as usize];
        match sent {
            Ok(queued) => {
                timer.queued = queued;
                if timer.interval == 0 {
                    timer.deadline = 0;
                } else if !queued {
                    timer.stage = Stage::Ignored;
                }
            }
            Err(Full) => {
                timer.deadline = now.saturating_add(RETRY).min(LONGEST);
                self.look_forward(slot, which);
            }
        }
    }

    /// False: the signal is ignored.
    fn send_expiry(&mut self, slot: Slot, which: u32, timer: &Timer) -> Result<bool, Full> {
        let mut info = Info {
            signal: timer.signal,
            code: code::KERNEL,
            ..Info::default()
        };
        if which == INTERVAL {
            return self.send_of_timer(slot, None, info);
        }
        info.code = code::TIMER;
        info.sender = name(which, timer.clock);
        info.value = timer.value;
        let mut thread = None;
        if timer.thread != 0 {
            let threads = &self.processes[slot].threads;
            thread = threads.iter().position(|t| t.tid == timer.thread);
            if thread.is_none() {
                // Nobody is to have it any more.
                return Ok(false);
            }
        }
        self.send_of_timer(slot, thread, info)
    }

    /// Put a timer that runs into the ordered set.
    fn look_forward(&mut self, slot: Slot, which: u32) {
        let timer = &mut self.processes[slot].timers[which as usize];
        timer.stage = Stage::Waits;
        self.timers.insert((timer.deadline, slot, which));
    }

    /// Its signal no longer waits, and is ignored or not.
    fn go_on(&mut self, slot: Slot, which: u32) {
        let now = self.system.now();
        let timer = &mut self.processes[slot].timers[which as usize];
        if timer.deadline != 0 && timer.stage != Stage::Waits {
            let missed = timer.forward(now);
            timer.overrun = timer.overrun.saturating_add(missed);
            self.look_forward(slot, which);
        }
    }

    /// TIMER 5: the owner took the signal.
    fn taken(&mut self, slot: Slot, which: u32) -> u64 {
        let timer = &mut self.processes[slot].timers[which as usize];
        if core::mem::take(&mut timer.queued) {
            self.go_on(slot, which);
            let timer = &mut self.processes[slot].timers[which as usize];
            timer.overruns = core::mem::take(&mut timer.overrun);
        }
        let timer = &self.processes[slot].timers[which as usize];
        timer.overruns.min(i32::MAX as u64)
    }

    /// Signals of this set were forgotten.
    pub(crate) fn timers_forgotten(&mut self, slot: Slot, set: u64) {
        for which in 0..self.processes[slot].timers.len() {
            let timer = &mut self.processes[slot].timers[which];
            if timer.queued && bit(timer.signal) & set != 0 {
                timer.queued = false;
                if timer.deadline != 0 && timer.stage == Stage::Idle {
                    timer.stage = Stage::Ignored;
                }
            }
        }
    }

    /// Signals of this set do something from now on.
    pub(crate) fn timers_heard(&mut self, slot: Slot, set: u64) {
        for which in 0..self.processes[slot].timers.len() {
            let timer = &self.processes[slot].timers[which];
            if timer.stage == Stage::Ignored && bit(timer.signal) & set != 0 {
                self.go_on(slot, which as u32);
            }
        }
    }

    /// Must the owner say when it has taken this signal?
    pub(crate) fn tells_of(&mut self, slot: Slot, info: &Info) -> bool {
        match (info.code, info.signal) {
            (code::TIMER, _) => true,
            (_, SIGALRM) => {
                let Some(timer) = self.processes[slot].timers.first_mut() else {
                    return false;
                };
                // One that does not go on is done with.
                timer.queued &= timer.deadline != 0;
                timer.queued
            }
            _ => false,
        }
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
    fn left(&mut self, slot: Slot, which: u32) -> (u64, u64) {
        let now = self.system.now();
        let timer = self.processes[slot].timers.get(which as usize);
        timer.map_or((0, 0), |timer| (timer.left(now), timer.interval))
    }

    fn arm(&mut self, slot: Slot, which: u32, deadline: u64, interval: u64) {
        let timer = &mut self.processes[slot].timers[which as usize];
        let before = (timer.deadline, slot, which);
        let waited = core::mem::take(&mut timer.stage) == Stage::Waits;
        timer.deadline = deadline.min(LONGEST);
        timer.interval = interval.min(LONGEST);
        (timer.overrun, timer.overruns) = (0, 0);
        let runs = timer.deadline != 0 && timer.signal != 0;
        if waited {
            self.timers.remove(&before);
        }
        if runs {
            self.look_forward(slot, which);
        }
    }

    /// Place 0 of a process's timers is the interval timer's.
    fn make_interval_timer(&mut self, slot: Slot) -> Result<(), Errno> {
        let timers = &mut self.processes[slot].timers;
        if timers.is_empty() {
            timers.try_reserve(1).map_err(|_| EAGAIN)?;
            timers.push(Timer {
                used: true,
                signal: SIGALRM,
                ..Timer::default()
            });
        }
        Ok(())
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
        let (left, old_interval) = self.left(slot, INTERVAL);
        if set {
            if value != 0 {
                self.make_interval_timer(slot)?;
            }
            if !self.processes[slot].timers.is_empty() {
                let deadline = match value {
                    0 => 0,
                    ahead => self.system.now().saturating_add(ahead).min(LONGEST),
                };
                let interval = if value == 0 { 0 } else { interval };
                self.arm(slot, INTERVAL, deadline, interval);
            }
        }
        Ok(Outcome::words(&[0, left, old_interval]))
    }

    /// TIMER
    pub(crate) fn timer(&mut self, slot: Slot, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, operation, id, third, fourth, ..] = *words;
        let operation = TimerOp::from_word(operation).ok_or(EINVAL)?;
        if operation == TimerOp::Create {
            return self.timer_create(slot, id, third, fourth);
        }
        if (operation, id) == (TimerOp::Taken, TIMER_REAL) {
            if !self.processes[slot].timers.is_empty() {
                self.taken(slot, INTERVAL);
            }
            return done(0);
        }
        let which = self.timer_named(slot, id).ok_or(EINVAL)?;
        let (left, interval) = self.left(slot, which);
        match operation {
            TimerOp::Set => self.arm(slot, which, third, fourth),
            TimerOp::Create | TimerOp::Get => {}
            TimerOp::Delete => self.timer_delete(slot, which),
            TimerOp::Overrun => {
                let overruns = self.processes[slot].timers[which as usize].overruns;
                return done(overruns.min(i32::MAX as u64) as i64);
            }
            TimerOp::Taken => {
                let overrun = self.taken(slot, which);
                return done(overrun as i64);
            }
        }
        Ok(Outcome::words(&[0, left, interval]))
    }

    fn timer_named(&self, slot: Slot, id: u64) -> Option<u32> {
        let which = u32::try_from(id).ok()? / CLOCKS + 1;
        let timer = self.processes[slot].timers.get(which as usize)?;
        (timer.used && timer.clock == id as u32 % CLOCKS).then_some(which)
    }

    fn timer_create(
        &mut self,
        slot: Slot,
        signal: u64,
        value: u64,
        how: u64,
    ) -> Result<Outcome, Errno> {
        let (thread, clock) = (how as u32, (how >> 32) as u32 & 0xff);
        if signal > LAST as u64 || clock >= CLOCKS {
            return Err(EINVAL);
        }
        let process = &self.processes[slot];
        if thread != 0 && process.threads.iter().all(|t| t.tid != thread) {
            return Err(EINVAL);
        }
        let (uid, most) = (process.creds.ruid, process.limits.soft(SIGPENDING));
        if u64::from(self.user_timers(uid)) >= most {
            return Err(EAGAIN);
        }
        self.make_interval_timer(slot)?;
        let process = &mut self.processes[slot];
        let which = match process.free_timer {
            0 => {
                process.timers.try_reserve(1).map_err(|_| EAGAIN)?;
                process.timers.push(Timer::default());
                process.timers.len() as u32 - 1
            }
            free => {
                process.free_timer = process.timers[free as usize].overrun as u32;
                free
            }
        };
        let id = name(which, clock);
        process.timers[which as usize] = Timer {
            used: true,
            signal: signal as u32,
            thread,
            clock,
            value: if how & TIMER_OWN_ID != 0 { id } else { value },
            ..Timer::default()
        };
        process.posix_timers += 1;
        self.count_timers(uid, 1);
        done(id as i64)
    }

    fn timer_delete(&mut self, slot: Slot, which: u32) {
        self.arm(slot, which, 0, 0);
        let process = &mut self.processes[slot];
        process.timers[which as usize] = Timer {
            overrun: process.free_timer as u64,
            ..Timer::default()
        };
        process.free_timer = which;
        process.posix_timers -= 1;
        let uid = process.creds.ruid;
        self.count_timers(uid, -1);
    }

    /// exec: POSIX timers go, the interval timer stays. (If its signal waited, the program does not know of it any more.)
    pub(crate) fn exec_timers(&mut self, slot: Slot) {
        self.cancel_posix_timers(slot);
        if !self.processes[slot].timers.is_empty() {
            self.taken(slot, INTERVAL);
        }
    }

    fn cancel_posix_timers(&mut self, slot: Slot) {
        for which in 1..self.processes[slot].timers.len() as u32 {
            self.arm(slot, which, 0, 0);
        }
        let process = &mut self.processes[slot];
        process.timers.truncate(1);
        process.timers.shrink_to_fit();
        process.free_timer = 0;
        let count = core::mem::take(&mut process.posix_timers);
        let uid = process.creds.ruid;
        self.count_timers(uid, -(count as i32));
    }

    pub(crate) fn cancel_timers(&mut self, slot: Slot) {
        if !self.processes[slot].timers.is_empty() {
            self.cancel_posix_timers(slot);
            self.arm(slot, INTERVAL, 0, 0);
            self.processes[slot].timers.clear();
        }
    }
}

/// What a program calls a POSIX timer.
fn name(which: u32, clock: u32) -> u64 {
    u64::from((which - 1) * CLOCKS + clock)
}
