//! Timers that measure processor time: ITIMER_VIRTUAL and ITIMER_PROF, POSIX timers of CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID, and RLIMIT_CPU.
//!
//! The nucleus counts processor time but tells nobody when a sum is reached. So `proc` looks: each process with such a timer has one entry in the ordered set of [`crate::timers`], for the earliest moment
//! at which one of them can have expired. If nothing has, it looks again when it would at the rate of late, but not before [`LEAST`] and not later than [`MOST`]. A timer is late by as much at most as
//! the process runs within [`LEAST`] if it runs all the time, and within [`MOST`] if it slept before. Its cost is a look in [`LEAST`] for who runs, and fifteen looks a second for who sleeps.
//!
//! User and system time are not counted apart: ITIMER_VIRTUAL counts as ITIMER_PROF does.

use crate::limits::CPU;
use crate::manager::Manager;
use crate::signal::{Info, SIGKILL, SIGXCPU};
use crate::system::System;
use crate::table::Slot;
use crate::timers::{Stage, CPU_LOOK};
use cairn_abi::service::thread;

/// Time between two looks, in ns: a tick of Debian's kernel, and sixteen.
pub const LEAST: u64 = 4_000_000;
pub const MOST: u64 = 64_000_000;
/// Timers that expire in one look; for the rest there is another one at once.
const SHARE: usize = 16;
const SECOND: u64 = 1_000_000_000;

/// What a timer measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Time that passes.
    #[default]
    Real,
    /// Processor time of the process.
    Process,
    /// Processor time of the thread with this number.
    Thread(u32),
}

/// What a process with timers of processor time has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Of its entry in the ordered set; 0: there is none.
    pub next: u64,
    /// When it was last looked at, and what it had used then.
    looked: u64,
    seen: u64,
    /// At this processor time RLIMIT_CPU does something; 0: never.
    limit: u64,
}

impl<S: System> Manager<S> {
    /// What a clock says now.
    pub(crate) fn clock_now(&mut self, slot: Slot, clock: Clock) -> u64 {
        match clock {
            Clock::Real => self.system.now(),
            Clock::Process => self.cpu_of(slot),
            Clock::Thread(tid) => {
                let process = &self.processes[slot];
                let domain = process.domain;
                let found = process.threads.iter().find(|t| t.tid == tid);
                let Some(id) = found.map(|t| t.id) else {
                    return 0;
                };
                let info = self.system.control(domain, id, thread::INFO, [0; 3]);
                info.map_or(0, |words| words[0])
            }
        }
    }

    /// The same of a process that has used so much.
    fn cpu_now(&mut self, slot: Slot, clock: Clock, used: u64) -> u64 {
        match clock {
            Clock::Process => used,
            clock => self.clock_now(slot, clock),
        }
    }

    /// A timer of processor time begins or goes on, or the limit is another: the process is looked at in time.
    pub(crate) fn watch_cpu(&mut self, slot: Slot) {
        let now = self.system.now();
        let used = self.cpu_of(slot);
        let watch = &mut self.processes[slot].watch;
        if watch.next == 0 {
            (watch.looked, watch.seen) = (now, used);
        }
        let next = self.next_look(slot, now, used, 1);
        self.look_at(slot, next);
    }

    /// When to look next, if it is worth while. Of late the process took `pace` ns of time for each ns of processor time.
    fn next_look(&mut self, slot: Slot, now: u64, used: u64, pace: u64) -> Option<u64> {
        let mut least = u64::MAX;
        for which in 0..self.processes[slot].timers.len() {
            let timer = self.processes[slot].timers[which];
            if timer.clock != Clock::Real && timer.stage == Stage::Waits {
                let at = self.cpu_now(slot, timer.clock, used);
                least = least.min(timer.deadline.saturating_sub(at));
            }
        }
        let process = &self.processes[slot];
        if process.watch.limit != 0 {
            least = least.min(process.watch.limit.saturating_sub(used));
        }
        if least == u64::MAX {
            return None;
        }
        // Several threads use it up the faster.
        let earliest = (least / process.threads.len().max(1) as u64).max(LEAST);
        let expected = least.saturating_mul(pace).clamp(LEAST, MOST);
        Some(now.saturating_add(earliest.max(expected)))
    }

    /// Change the process's entry in the ordered set.
    fn look_at(&mut self, slot: Slot, next: Option<u64>) {
        let watch = &mut self.processes[slot].watch;
        let before = core::mem::replace(&mut watch.next, next.unwrap_or(0));
        if before != 0 {
            self.timers.remove(&(before, slot, CPU_LOOK));
        }
        if let Some(next) = next {
            self.timers.insert((next, slot, CPU_LOOK));
        }
    }

    /// The process ends, or has no such timers any more.
    pub(crate) fn unwatch_cpu(&mut self, slot: Slot) {
        self.look_at(slot, None);
        self.processes[slot].watch = Watch::default();
    }

    /// The moment of its entry has come.
    pub(crate) fn cpu_look(&mut self, slot: Slot, now: u64) {
        let used = self.cpu_of(slot);
        let watch = &mut self.processes[slot].watch;
        watch.next = 0;
        let (since, spent) = (
            now.saturating_sub(watch.looked),
            used.saturating_sub(watch.seen),
        );
        (watch.looked, watch.seen) = (now, used);
        if watch.limit != 0 && used >= watch.limit {
            self.cpu_limit_reached(slot, used);
        }
        let mut expired = 0;
        for which in 0..self.processes[slot].timers.len() {
            let Some(timer) = self.processes[slot].timers.get(which).copied() else {
                break;
            };
            if timer.clock == Clock::Real || timer.stage != Stage::Waits {
                continue;
            }
            let at = self.cpu_now(slot, timer.clock, used);
            if timer.deadline <= at {
                if expired == SHARE {
                    return self.look_at(slot, Some(now));
                }
                expired += 1;
                self.timer_expired(slot, which as u32, at);
            }
        }
        let pace = since.checked_div(spent).unwrap_or(u64::MAX).max(1);
        let next = self.next_look(slot, now, used, pace);
        self.look_at(slot, next);
    }

    /// RLIMIT_CPU is another, or the process is new.
    pub(crate) fn follow_cpu_limit(&mut self, slot: Slot) {
        let soft = self.processes[slot].limits.soft(CPU);
        // (As on Linux, none at all is a second.)
        let limit = match soft {
            u64::MAX => 0,
            seconds => seconds.max(1).saturating_mul(SECOND),
        };
        if limit != self.processes[slot].watch.limit {
            self.processes[slot].watch.limit = limit;
            self.watch_cpu(slot);
        }
    }

    /// Beyond the soft limit SIGXCPU comes each second, beyond the hard one SIGKILL.
    fn cpu_limit_reached(&mut self, slot: Slot, used: u64) {
        let hard = self.processes[slot].limits.hard(CPU);
        if used >= hard.saturating_mul(SECOND) {
            self.processes[slot].watch.limit = 0;
            return self.doom(slot, SIGKILL);
        }
        let limit = &mut self.processes[slot].watch.limit;
        *limit = limit.saturating_add(SECOND);
        let info = Info {
            signal: SIGXCPU,
            code: crate::signal::code::KERNEL,
            ..Info::default()
        };
        // Without memory for it there is another one in a second.
        let _ = self.send(slot, None, info);
    }
}
