//! nice, sched_setscheduler and the nucleus priorities behind them: nice 0 is priority 64, real-time policies lie above all nice values
//! and below the servers.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::{Scheduling, Thread};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use alloc::vec::Vec;
use cairn_abi::service::thread;
use cairn_abi::{policy, priority, Id};
use cairn_idl::capability::SYS_NICE;
use cairn_idl::errno::{EACCES, EAGAIN, EINVAL, ENOMEM, EPERM, ESRCH};
use cairn_idl::proc::TURN_OF_RR;
use cairn_rt::Received;

const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
pub const SCHED_DEADLINE: u32 = 6;
/// Of [`Scheduling::realtime`]: who has deadlines is woken before all others.
const DEADLINE_PRIORITY: u32 = cairn_idl::proc::DEADLINE_PRIORITY as u32;
/// SCHED_RESET_ON_FORK, beside a policy.
const RESETS: u32 = 0x4000_0000;
/// The shortest run time of SCHED_DEADLINE, and the shortest and the longest period, in ns, as on Linux.
const LEAST_RUNTIME: u64 = 1 << 10;
const PERIODS: core::ops::RangeInclusive<u64> = 100_000..=4_194_304_000;
/// Below all nice values.
const IDLE: u8 = 40;
/// The first above all nice values.
const REALTIME: u32 = 85;

/// Highest nucleus priority of a Linux thread.
pub const CEILING: u8 = priority::SERVER - 1;

/// The nucleus priority, in a group that changes nice values by so much. Of SCHED_DEADLINE it is what the thread has when its scheduler is gone.
pub fn of(scheduling: &Scheduling, shift: i32) -> u8 {
    match scheduling.policy {
        SCHED_FIFO | SCHED_RR => {
            (REALTIME + scheduling.realtime * (CEILING as u32 - REALTIME) / 99) as u8
        }
        SCHED_IDLE => IDLE,
        _ => (priority::NORMAL as i32 - (scheduling.nice + shift).clamp(-20, 19)) as u8,
    }
}

/// The nucleus's policy: what is not real-time is adaptive, so that who mostly waits goes before who computes.
pub fn policy_of(scheduling: &Scheduling) -> u64 {
    match scheduling.policy {
        SCHED_FIFO => policy::FIFO,
        SCHED_RR => policy::ROUND_ROBIN,
        _ => policy::ADAPTIVE,
    }
}

impl<S: System> Manager<S> {
    /// Tell the nucleus how the threads of a process are scheduled.
    pub(crate) fn apply(&mut self, slot: Slot) {
        for at in 0..self.processes[slot].threads.len() {
            self.apply_thread(slot, at);
        }
    }

    fn apply_thread(&mut self, slot: Slot, at: usize) {
        let process = &self.processes[slot];
        let domain = process.domain;
        let Some(thread) = process.threads.get(at) else {
            return;
        };
        let level = of(&thread.scheduling, process.shift) as u64;
        let kind = policy_of(&thread.scheduling);
        let turn = match thread.scheduling.policy {
            SCHED_RR => TURN_OF_RR,
            _ => 0,
        };
        let id = thread.id;
        let _ = self
            .system
            .control(domain, id, thread::SET_PRIORITY, [level, kind, turn]);
    }

    /// A new thread has its priority already, and not yet the turns of its policy.
    pub(crate) fn apply_turn(&mut self, slot: Slot, at: usize) {
        let thread = self.processes[slot].threads.get(at);
        match thread.map(|thread| thread.scheduling.policy) {
            Some(SCHED_RR) => self.apply_thread(slot, at),
            // (It is the successor of one that had the same.)
            Some(SCHED_DEADLINE) => drop(self.apply_deadline(slot, at)),
            _ => {}
        }
    }

    /// What it shall have of its scheduler component, as its policy is SCHED_DEADLINE.
    fn apply_deadline(&mut self, slot: Slot, at: usize) -> Result<(), Errno> {
        let process = &self.processes[slot];
        let thread = process.threads.get(at).ok_or(ESRCH)?;
        let (id, times) = (thread.id, thread.scheduling.times);
        self.system.set_deadline(process.domain, id, times)
    }

    /// Who has deadlines makes no threads and processes (EAGAIN), unless they are to be ordinary.
    pub(crate) fn check_deadline(&self, slot: Slot, caller: Id) -> Result<(), Errno> {
        let scheduling = self.processes[slot].scheduling_of(caller);
        match scheduling.policy == SCHED_DEADLINE && !scheduling.resets {
            true => Err(EAGAIN),
            false => Ok(()),
        }
    }

    /// The thread that a call by `caller` means with `number`: 0 is the caller itself, a process's number its first thread.
    fn thread_meant(&self, slot: Slot, caller: Id, number: u64) -> Result<(Slot, usize), Errno> {
        let owner = match number {
            0 => slot,
            _ => self.numbers.get(number).owner,
        };
        if owner == NONE || !self.processes[owner].alive() {
            return Err(ESRCH);
        }
        let threads = &self.processes[owner].threads;
        let is_meant = |t: &Thread| match number {
            0 => t.id == caller,
            _ => t.tid as u64 == number,
        };
        let at = threads.iter().position(is_meant).ok_or(ESRCH)?;
        Ok((owner, at))
    }

    /// The live processes of the group or user that `which` and `who` of getpriority(2) mean.
    fn meant(&self, slot: Slot, which: u64, who: u64) -> Result<Vec<Slot>, Errno> {
        let mut alive: Vec<Slot> = Vec::new();
        let mut take = |target: Slot| -> Result<(), Errno> {
            if target != NONE && self.processes[target].alive() {
                alive.try_reserve(1).map_err(|_| ENOMEM)?;
                alive.push(target);
            }
            Ok(())
        };
        match which {
            1 => {
                let group = match who {
                    0 => self.processes[slot].group,
                    who => self.numbers.get(who).group,
                };
                if group != NONE {
                    let members = &self.groups[group].members;
                    members.iter().try_for_each(|member| take(*member))?;
                }
            }
            2 => {
                let uid = match who {
                    0 => self.processes[slot].creds.ruid,
                    who => who as u32,
                };
                let mut all = self.processes.slots();
                all.try_for_each(|target| match self.processes[target].creds.ruid == uid {
                    true => take(target),
                    false => Ok(()),
                })?;
            }
            _ => return Err(EINVAL),
        }
        if alive.is_empty() {
            Err(ESRCH)
        } else {
            Ok(alive)
        }
    }

    /// The threads that they mean: one, or all of the processes.
    fn threads_meant(&self, message: &Received, slot: Slot) -> Result<Vec<(Slot, usize)>, Errno> {
        let [_, which, who, ..] = message.words;
        let mut found = Vec::new();
        if which == 0 {
            found.try_reserve(1).map_err(|_| ENOMEM)?;
            found.push(self.thread_meant(slot, message.token as u32, who)?);
            return Ok(found);
        }
        for target in self.meant(slot, which, who)? {
            let count = self.processes[target].threads.len();
            found.try_reserve(count).map_err(|_| ENOMEM)?;
            found.extend((0..count).map(|at| (target, at)));
        }
        Ok(found)
    }

    /// GETPRIORITY: the best of all meant.
    pub(crate) fn getpriority(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let best = self
            .threads_meant(message, slot)?
            .iter()
            .map(|(target, at)| 20 - self.processes[*target].threads[*at].scheduling.nice)
            .max();
        best.map_or(Err(ESRCH), |best| done(best as i64))
    }

    /// SETPRIORITY
    pub(crate) fn setpriority(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let nice = (message.words[3] as i32).clamp(-20, 19);
        let mut result = Ok(Outcome::result(0));
        for (target, at) in self.threads_meant(message, slot)? {
            let before = self.processes[target].threads[at].scheduling.nice;
            if let Err(errno) = self.may_schedule(slot, target) {
                result = Err(errno);
            } else if nice < before && !self.processes[slot].creds.has(SYS_NICE) {
                result = Err(EACCES);
            } else {
                let process = &mut self.processes[target];
                process.threads[at].scheduling.nice = nice;
                if process.threads[at].tid == process.pid {
                    process.scheduling.nice = nice;
                }
                self.apply_thread(target, at);
            }
        }
        result
    }

    fn may_schedule(&self, slot: Slot, target: Slot) -> Result<(), Errno> {
        let own = &self.processes[slot].creds;
        let other = &self.processes[target].creds;
        // As Linux has it, nobody's own is a program that may more than he (a set-user-id one of root's).
        let no_more = own.user_space == other.user_space && other.permitted & !own.permitted == 0;
        let same = own.euid == other.ruid || own.euid == other.euid;
        if same && no_more || self.is_capable(slot, &self.processes[target].user, SYS_NICE) {
            Ok(())
        } else {
            Err(EPERM)
        }
    }

    /// SETSCHEDULER
    pub(crate) fn setscheduler(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let [_, wish, level, pid, times @ .., _] = message.words;
        let (target, at) = self.thread_meant(slot, message.token as u32, pid)?;
        let resets = wish as u32 & RESETS != 0;
        let policy = wish as u32 & !RESETS;
        let realtime = match (policy, level) {
            (SCHED_FIFO | SCHED_RR, 1..=99) => level as u32,
            (0 | SCHED_BATCH | SCHED_IDLE, 0) => 0,
            (SCHED_DEADLINE, 0) if are_times(times) => DEADLINE_PRIORITY,
            _ => return Err(EINVAL),
        };
        self.may_schedule(slot, target)?;
        let held = self.processes[target].threads[at].scheduling.resets && !resets;
        if (realtime != 0 || held) && !self.processes[slot].creds.has(SYS_NICE) {
            return Err(EPERM);
        }
        let process = &mut self.processes[target];
        let (domain, thread) = (process.domain, &mut process.threads[at]);
        let scheduling = &mut thread.scheduling;
        match (policy, scheduling.policy) {
            (SCHED_DEADLINE, _) => {
                self.system.set_deadline(domain, thread.id, times)?;
                scheduling.times = times;
            }
            (_, SCHED_DEADLINE) => {
                self.system.end_deadline(thread.id);
                scheduling.times = [0; 3];
            }
            _ => {}
        }
        let before = core::mem::replace(&mut scheduling.realtime, realtime);
        (scheduling.policy, scheduling.resets) = (policy, resets);
        self.apply_thread(target, at);
        if before != realtime {
            self.prefixes.page().publish_policy();
        }
        done(0)
    }

    /// END_PERIOD
    pub(crate) fn end_period(&mut self, caller: Id, slot: Slot) -> Result<Outcome, Errno> {
        let (slot, at) = self.thread_meant(slot, caller, 0)?;
        let thread = &self.processes[slot].threads[at];
        if thread.scheduling.policy != SCHED_DEADLINE {
            return Err(ESRCH);
        }
        let id = thread.id;
        if self.system.end_period(id).is_err() {
            // The scheduler was started again, and does not know it.
            self.apply_deadline(slot, at)?;
            self.system.end_period(id)?;
        }
        done(0)
    }

    /// GETSCHEDULER: policy and real-time priority.
    pub(crate) fn getscheduler(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let (target, at) = self.thread_meant(slot, message.token as u32, message.words[1])?;
        let scheduling = self.processes[target].threads[at].scheduling;
        Ok(Outcome::words(&[
            u64::from(scheduling.policy | if scheduling.resets { RESETS } else { 0 }),
            scheduling.realtime as u64,
            scheduling.times[0],
            scheduling.times[1],
            scheduling.times[2],
        ]))
    }
}

/// Run time, deadline and period as sched_setattr(2) has them, in ns.
fn are_times([runtime, deadline, period]: [u64; 3]) -> bool {
    let ordered = runtime <= deadline && deadline <= period;
    ordered && runtime >= LEAST_RUNTIME && PERIODS.contains(&period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_do_not_overlap() {
        let nice = |nice| Scheduling {
            nice,
            ..Scheduling::default()
        };
        let realtime = |realtime| Scheduling {
            policy: SCHED_RR,
            realtime,
            ..Scheduling::default()
        };
        assert_eq!(of(&nice(0), 0), priority::NORMAL);
        assert!(of(&nice(19), 0) > IDLE);
        assert!(of(&realtime(1), 0) > of(&nice(-20), 0));
        assert_eq!(of(&realtime(99), 0), CEILING);
        assert!(of(&realtime(50), 0) > of(&realtime(10), 0));
        assert_eq!(of(&nice(10), -40), of(&nice(-20), 0));
        assert_eq!(of(&realtime(50), 19), of(&realtime(50), 0));
    }
}
