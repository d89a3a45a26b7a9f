//! Interval timers, POSIX timers, and the deadlines of futex waits, in one ordered set whose first element is the receive deadline. (What measures processor time: [`crate::cpu_timers`].)
//!
//! A timer whose signal waits to be taken is in no set: what expires meanwhile is counted from the clock when its owner takes the signal (TIMER 5), and only then the next expiry is looked forward to. The same goes for a timer whose signal is ignored, until it is not.
//! So a timer costs one entry here for each signal that its owner takes, however short its interval is.

use crate::cpu_timers::Clock;
use crate::dispatch::Outcome;
use crate::limits::SIGPENDING;
use crate::manager::{done, Manager};
use crate::signal::{bit, code, Full, Info, LAST, SIGALRM, SIGPROF, SIGVTALRM};
use crate::system::{Errno, System};
use crate::table::Slot;
use crate::wall_clock::STEP;
use cairn_abi::Token;
use cairn_idl::errno::{EAGAIN, EINVAL, ETIMEDOUT};
use cairn_idl::proc::{
    TimerOp, TIMER_CLOCKS, TIMER_CLOCK_PROCESS, TIMER_CLOCK_THREAD, TIMER_OF_WALL, TIMER_OWN_ID,
    TIMER_REAL,
};

/// Deadline, process, and which timer of it: by their places the interval timers and POSIX timers, or [`of_thread`], or [`CPU_LOOK`].
pub type Due = (u64, Slot, u32);

const THREAD: u32 = 1 << 31;
const CLOCKS: u32 = TIMER_CLOCKS as u32;
/// Longest time ahead (about 290 years), so that sums do not overflow.
const LONGEST: u64 = i64::MAX as u64;
/// So many expire in one go; then it is the turn of messages.
const SHARE: usize = 16;
/// There was no memory for a signal: once more so much later.
const RETRY: u64 = 10_000_000;
/// Places of the interval timers among a process's timers, ITIMER_REAL, ITIMER_VIRTUAL and ITIMER_PROF, with their signals and clocks. Behind them are POSIX timers.
const INTERVALS: [(u32, Clock); 3] = [
    (SIGALRM, Clock::Real),
    (SIGVTALRM, Clock::Process),
    (SIGPROF, Clock::Process),
];
const POSIX: u32 = INTERVALS.len() as u32;
/// [`Due`]: what has timers of processor time is to be looked at.
pub const CPU_LOOK: u32 = 1 << 30;
/// A group of processes (in the place of the process) is to be looked at; groups are to be settled ([`crate::bandwidth`]).
pub const GROUP_LOOK: u32 = 1 << 28;
pub const GROUP_SETTLE: u32 = 1 << 27;

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
    pub clock: Clock,
    /// The number of its clock in its name.
    clock_number: u32,
    value: u64,
    /// Its next expiry by its clock, or the last one that was acted on; 0: not running.
    pub deadline: u64,
    interval: u64,
    /// Its deadline is an absolute time of the wall clock.
    of_wall: bool,
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
            } else if which == STEP {
                self.clock_step();
            } else if which == CPU_LOOK {
                self.cpu_look(slot, now);
            } else if which == GROUP_LOOK {
                self.group_look(slot, now);
            } else if which == GROUP_SETTLE {
                self.settle_groups();
            } else {
                self.timer_expired(slot, which, now);
            }
        }
        self.settle();
    }

    /// `now` is its clock's.
    pub(crate) fn timer_expired(&mut self, slot: Slot, which: u32, now: u64) {
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
        if which < POSIX {
            return self.send_of_timer(slot, None, info);
        }
        info.code = code::TIMER;
        info.sender = name(which, timer.clock_number);
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
        match timer.clock {
            Clock::Real => {
                self.timers.insert((timer.deadline, slot, which));
            }
            _ => self.watch_cpu(slot),
        }
    }

    /// Its signal no longer waits, and is ignored or not.
    fn go_on(&mut self, slot: Slot, which: u32) {
        let timer = self.processes[slot].timers[which as usize];
        if timer.deadline != 0 && timer.stage != Stage::Waits {
            let now = self.clock_now(slot, timer.clock);
            let timer = &mut self.processes[slot].timers[which as usize];
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
            (_, signal @ (SIGALRM | SIGVTALRM | SIGPROF)) => {
                let place = INTERVALS.iter().position(|it| it.0 == signal);
                let timers = &mut self.processes[slot].timers;
                let Some(timer) = place.and_then(|place| timers.get_mut(place)) else {
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
            let (held, token) = (thread.held, thread.token);
            if self.futex_forget(held, token).is_some() {
                self.answer_held(slot, token, -ETIMEDOUT);
            }
        }
    }

    /// Time left and interval of a timer.
    fn left(&mut self, slot: Slot, which: u32) -> (u64, u64) {
        let timer = self.processes[slot].timers.get(which as usize).copied();
        timer.map_or((0, 0), |timer| {
            let now = self.clock_now(slot, timer.clock);
            (timer.left(now), timer.interval)
        })
    }

    fn arm(&mut self, slot: Slot, which: u32, deadline: u64, interval: u64) {
        let timer = &mut self.processes[slot].timers[which as usize];
        let before = (timer.deadline, slot, which);
        let waited = core::mem::take(&mut timer.stage) == Stage::Waits;
        timer.deadline = deadline.min(LONGEST);
        timer.interval = interval.min(LONGEST);
        timer.of_wall = false;
        (timer.overrun, timer.overruns) = (0, 0);
        let runs = timer.deadline != 0 && timer.signal != 0;
        if waited && timer.clock == Clock::Real {
            self.timers.remove(&before);
        }
        if runs {
            self.look_forward(slot, which);
        }
    }

    /// The wall clock went on by so many ns (or back): what is to expire at a time of that clock expires as much earlier.
    pub(crate) fn wall_moved(&mut self, forth: i64) {
        for slot in 0..self.processes.end() {
            let timers = self.processes.get(slot).map_or(0, |p| p.timers.len());
            for which in 0..timers {
                let timer = &mut self.processes[slot].timers[which];
                if !timer.of_wall || timer.deadline == 0 {
                    continue;
                }
                let before = (timer.deadline, slot, which as u32);
                timer.deadline = timer
                    .deadline
                    .saturating_add_signed(-forth)
                    .clamp(1, LONGEST);
                let after = timer.deadline;
                if timer.stage == Stage::Waits && self.timers.remove(&before) {
                    self.timers.insert((after, slot, which as u32));
                }
            }
        }
    }

    /// The first places of a process's timers are the interval timers'.
    fn make_interval_timers(&mut self, slot: Slot) -> Result<(), Errno> {
        let timers = &mut self.processes[slot].timers;
        if timers.is_empty() {
            let count = INTERVALS.len();
            timers.try_reserve_exact(count).map_err(|_| EAGAIN)?;
            timers.extend(INTERVALS.map(|(signal, clock)| Timer {
                used: true,
                signal,
                clock,
                ..Timer::default()
            }));
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
        let Some((_, clock)) = INTERVALS.get(which as usize) else {
            return Err(EINVAL);
        };
        let which = which as u32;
        let (left, old_interval) = self.left(slot, which);
        if set {
            if value != 0 {
                self.make_interval_timers(slot)?;
            }
            if !self.processes[slot].timers.is_empty() {
                let deadline = match value {
                    0 => 0,
                    ahead => self.clock_now(slot, *clock).saturating_add(ahead),
                };
                let interval = if value == 0 { 0 } else { interval };
                self.arm(slot, which, deadline, interval);
            }
        }
        Ok(Outcome::words(&[0, left, old_interval]))
    }

    /// TIMER
    pub(crate) fn timer(&mut self, slot: Slot, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, operation, id, third, fourth, fifth, ..] = *words;
        let operation = TimerOp::from_word(operation).ok_or(EINVAL)?;
        if operation == TimerOp::Create {
            return self.timer_create(slot, id, third, fourth, fifth as u32);
        }
        if operation == TimerOp::Taken && TIMER_REAL.wrapping_sub(id) < u64::from(POSIX) {
            let which = TIMER_REAL.wrapping_sub(id) as u32;
            if !self.processes[slot].timers.is_empty() {
                self.taken(slot, which);
            }
            return done(0);
        }
        let which = self.timer_named(slot, id).ok_or(EINVAL)?;
        let (left, interval) = self.left(slot, which);
        match operation {
            TimerOp::Set if fifth & TIMER_OF_WALL != 0 && third != 0 => {
                let deadline = third.saturating_sub(self.system.wall()).max(1);
                self.arm(slot, which, deadline, fourth);
                self.processes[slot].timers[which as usize].of_wall = true;
            }
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
        let which = u32::try_from(id).ok()? / CLOCKS + POSIX;
        let timer = self.processes[slot].timers.get(which as usize)?;
        (timer.used && timer.clock_number == id as u32 % CLOCKS).then_some(which)
    }

    fn timer_create(
        &mut self,
        slot: Slot,
        signal: u64,
        value: u64,
        how: u64,
        measured: u32,
    ) -> Result<Outcome, Errno> {
        let (thread, number) = (how as u32, (how >> 32) as u32 & 0xff);
        if signal > LAST as u64 || number >= CLOCKS {
            return Err(EINVAL);
        }
        let clock = match u64::from(number) {
            TIMER_CLOCK_PROCESS => Clock::Process,
            TIMER_CLOCK_THREAD => Clock::Thread(measured),
            _ => Clock::Real,
        };
        let process = &self.processes[slot];
        let is_there = |tid| process.threads.iter().any(|t| t.tid == tid);
        if thread != 0 && !is_there(thread) || matches!(clock, Clock::Thread(tid) if !is_there(tid))
        {
            return Err(EINVAL);
        }
        let (uid, most) = (process.creds.ruid, process.limits.soft(SIGPENDING));
        if u64::from(self.user_timers(uid)) >= most {
            return Err(EAGAIN);
        }
        self.make_interval_timers(slot)?;
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
        let id = name(which, number);
        process.timers[which as usize] = Timer {
            used: true,
            signal: signal as u32,
            thread,
            clock,
            clock_number: number,
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

    /// exec: POSIX timers go, interval timers stay. (If a signal of theirs waited, the program does not know of it any more.)
    pub(crate) fn exec_timers(&mut self, slot: Slot) {
        self.cancel_posix_timers(slot);
        for which in 0..self.processes[slot].timers.len() as u32 {
            self.taken(slot, which);
        }
    }

    fn cancel_posix_timers(&mut self, slot: Slot) {
        for which in POSIX..self.processes[slot].timers.len() as u32 {
            self.arm(slot, which, 0, 0);
        }
        let process = &mut self.processes[slot];
        process.timers.truncate(INTERVALS.len());
        process.timers.shrink_to_fit();
        process.free_timer = 0;
        let count = core::mem::take(&mut process.posix_timers);
        let uid = process.creds.ruid;
        self.count_timers(uid, -(count as i32));
    }

    pub(crate) fn cancel_timers(&mut self, slot: Slot) {
        if !self.processes[slot].timers.is_empty() {
            self.cancel_posix_timers(slot);
            for which in 0..POSIX {
                self.arm(slot, which, 0, 0);
            }
            self.processes[slot].timers.clear();
        }
        self.unwatch_cpu(slot);
    }
}

/// What a program calls a POSIX timer.
fn name(which: u32, clock: u32) -> u64 {
    u64::from((which - POSIX) * CLOCKS + clock)
}
