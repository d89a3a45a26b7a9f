//! What groups of processes ([`crate::cgroups`]) do in a time: processor time that is counted for them, its limit (`cpu.max`), who does not run
//! (`cgroup.freeze`), what changes nice values (`cpu.weight`),
//! and groups that are slowed down for their memory (`memory.high`).
//!
//! The nucleus counts processor time of each domain, with what servers do for it, but knows no groups. So `proc` looks at the processes of a group that has a
//! limit, when the time that is left to it can have
//! been used up, and stops their domains until there is time again. What a process used after the time was used up, before it was looked at, is taken from the
//! next periods: the sum is right whatever the group does.
//! The stop is one more beside that of SIGSTOP (the nucleus counts stops), so nobody is told of it, and nothing that the process does undoes it: its requests
//! are answered, but it does not go on.
//!
//! What always holds:
//! - a process of a group that is settled is halted if its group, or one above it, is frozen, throttled or slowed, and only then; so is each new one;
//! - a group in which nobody lives costs nothing, nor does one without a limit;
//! - a look costs [`EACH`] for each process at most, as there are so few looks if there are many processes.

use crate::cgroups::{Cgroups, ROOT};
use crate::dispatch::Outcome;
use crate::manager::Manager;
use crate::system::{Domain, Errno, System};
use crate::table::{Slot, NONE};
use crate::timers::{GROUP_LOOK, GROUP_SETTLE};
use cairn_idl::errno::EINVAL;

/// Time between two looks at least, in ns: this, and so much for each process and each group that is looked at.
const LEAST: u64 = 1_000_000;
const EACH: u64 = 20_000;
/// Processes that are halted or go on in one go; then it is the turn of messages.
const SHARE: usize = 64;
/// How often the memory of a group is looked at that runs, or does not.
const MEMORY_LOOK: u64 = 10_000_000;
const MEMORY_IDLE: u64 = 40_000_000;
/// A group waits so long when it has twice as much memory as it should; less with the square of what is too much. And the longest time.
const SLOWEST: u64 = 64_000_000_000;
const SLOWED_MOST: u64 = 2_000_000_000;
/// A period, as Linux has it.
const PERIOD: core::ops::RangeInclusive<u64> = 1000..=1_000_000;
const QUOTA_LEAST: u64 = 1000;
const UNLIMITED: u32 = u32::MAX;

/// Limits of a group.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Processor time in ns of each period; 0: no limit.
    quota: u64,
    period: u64,
    /// When this period began, and what is left of its time; less than nothing: what was used too much.
    began: u64,
    left: i64,
    /// What the group had used when it was last looked at.
    seen: u64,
    /// Of its entry in the ordered set; 0: there is none.
    next: u64,
    /// Periods, those in which it had to wait, and how long it waited in all.
    periods: u64,
    throttled: u64,
    waited: u64,
    since: u64,
    /// Pages beyond which it is slowed; until when it is, and how often it was.
    pub high: u32,
    slowed_until: u64,
    slowed: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Rate {
            quota: 0,
            period: 0,
            began: 0,
            left: 0,
            seen: 0,
            next: 0,
            periods: 0,
            throttled: 0,
            waited: 0,
            since: 0,
            high: UNLIMITED,
            slowed_until: 0,
            slowed: 0,
        }
    }
}

impl Rate {
    fn is_limited(&self) -> bool {
        self.quota != 0 || self.high != UNLIMITED
    }

    /// Periods that have passed: each has its time. How many.
    fn go_on(&mut self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.began).checked_div(self.period);
        let passed = passed.unwrap_or(0);
        self.began += passed * self.period;
        let more = passed.saturating_mul(self.quota).min(i64::MAX as u64) as i64;
        self.left = self.left.saturating_add(more).min(self.quota as i64);
        passed
    }

    /// When there is time again.
    fn goes_on(&self) -> u64 {
        let owed = self.left.min(0).unsigned_abs();
        let periods = owed.checked_div(self.quota).unwrap_or(0) + 1;
        self.began
            .saturating_add(periods.saturating_mul(self.period))
    }
}

/// How long a group waits that has so many pages, and should have at most `high`.
fn penalty(pages: u64, high: u32) -> u64 {
    /// Parts of which the excess is counted.
    const PARTS: u64 = 1 << 10;
    let excess = (pages - u64::from(high)).min(1 << 32) * PARTS / u64::from(high.max(1));
    let excess = excess.min(PARTS);
    (SLOWEST / PARTS * excess / PARTS * excess).clamp(LEAST, SLOWED_MOST)
}

impl Cgroups {
    /// Whether a process of this group is halted, and what its nice value is changed by.
    fn state(&self, id: u32) -> (bool, i32) {
        let (mut halted, mut shift, mut at) = (false, 0, id);
        while at != ROOT {
            let group = &self.list[at as usize];
            halted |= group.frozen || group.throttled || group.slowed;
            // The root's own groups are the administrator's to prefer; who owns one below them prefers nobody to others by it.
            shift += match group.above {
                ROOT => group.nice,
                _ => group.nice.max(0),
            };
            at = group.above;
        }
        (halted, shift)
    }

    fn is_frozen(&self, id: u32) -> bool {
        let mut at = id;
        while at != ROOT {
            let group = &self.list[at as usize];
            if group.frozen {
                return true;
            }
            at = group.above;
        }
        false
    }

    /// A group comes into the list of those that are not settled, at its end.
    fn list_unsettled(&mut self, id: u32) {
        let group = &mut self.list[id as usize];
        group.cursor = group.first.unwrap_or(NONE);
        if group.unsettled {
            return;
        }
        (group.unsettled, group.next_unsettled) = (true, ROOT);
        match self.unsettled.1 {
            ROOT => self.unsettled.0 = id,
            last => self.list[last as usize].next_unsettled = id,
        }
        self.unsettled.1 = id;
        self.chain(id, |group| group.unsettled_within += 1);
    }

    /// The first of them is settled.
    fn unlist_first(&mut self) {
        let id = self.unsettled.0;
        let group = &mut self.list[id as usize];
        group.unsettled = false;
        self.unsettled.0 = group.next_unsettled;
        if self.unsettled.0 == ROOT {
            self.unsettled.1 = ROOT;
        }
        self.chain(id, |group| group.unsettled_within -= 1);
        self.forget_removed(id);
    }
}

#[cfg(test)]
impl Cgroups {
    pub(crate) fn is_looked_at(&self, id: u32, next: u64) -> bool {
        self.list[id as usize].rate.next == next
    }

    /// What always holds of the tree.
    pub(crate) fn check(&self, next_process: impl Fn(Slot) -> Slot) {
        let mut watched = 0;
        for (id, group) in self.list.iter().enumerate().skip(1) {
            watched += u32::from(group.rate.next != 0);
            let (mut live, mut slot) = (0, group.first.unwrap_or(NONE));
            while slot != NONE {
                (live, slot) = (live + 1, next_process(slot));
            }
            assert_eq!(live, group.live, "group {id}");
            let (mut within, mut unsettled, mut next) = (0, 0, Some(id as u32));
            while let Some(at) = next {
                within += self.list[at as usize].live;
                unsettled += u32::from(self.list[at as usize].unsettled);
                next = self.next_within(at, id as u32);
            }
            assert_eq!(within, group.populated, "group {id}");
            assert!(unsettled <= group.unsettled_within, "group {id}");
        }
        assert_eq!(watched, self.watched);
    }
}

impl<S: System> Manager<S> {
    /// What the nice values of a group's threads are changed by.
    pub(crate) fn shift_of(&self, id: u32) -> i32 {
        self.cgroups.state(id).1
    }

    /// A process is as its group is. True: something had to be done for it.
    pub(crate) fn fit(&mut self, slot: Slot) -> bool {
        let (halted, shift) = self.cgroups.state(self.processes[slot].cgroup);
        let process = &mut self.processes[slot];
        if !process.alive() || (process.halted, process.shift) == (halted, shift) {
            return false;
        }
        let domain = process.domain;
        let (was, had) = (process.halted, process.shift);
        (process.halted, process.shift) = (halted, shift);
        match (was, halted) {
            (false, true) => self.system.stop(domain),
            (true, false) => self.system.resume(domain),
            _ => {}
        }
        if had != shift {
            self.apply(slot);
        }
        true
    }

    /// The state of a group has changed, and so that of all below it.
    pub(crate) fn unsettle(&mut self, id: u32) {
        let mut next = Some(id);
        while let Some(at) = next {
            if self.cgroups.list[at as usize].live > 0 {
                self.cgroups.list_unsettled(at);
            }
            next = self.cgroups.next_within(at, id);
        }
        self.settle_groups();
    }

    /// Processes are made to be as their groups are: some of them, the rest at the next turn.
    pub(crate) fn settle_groups(&mut self) {
        let (mut done, mut looked) = (0, 0);
        while self.cgroups.unsettled.0 != ROOT {
            let group = self.cgroups.unsettled.0 as usize;
            let slot = self.cgroups.list[group].cursor;
            if slot == NONE {
                self.cgroups.unlist_first();
                continue;
            }
            if done >= SHARE || looked >= SHARE * 16 {
                let now = self.system.now();
                self.timers.insert((now, NONE, GROUP_SETTLE));
                return;
            }
            self.cgroups.list[group].cursor = self.processes[slot].cgroup_links.1;
            looked += 1;
            done += usize::from(self.fit(slot));
        }
    }

    /// What a process has used is counted for its group and for those above it.
    pub(crate) fn charge_group(&mut self, slot: Slot) {
        let process = &self.processes[slot];
        let id = process.cgroup;
        let used = match process.domain {
            Domain::NONE => process.cpu,
            _ => self.cpu_of(slot),
        };
        let seen = &mut self.processes[slot].cgroup_seen;
        let more = used.saturating_sub(core::mem::replace(seen, used));
        if more > 0 {
            self.cgroups.chain(id, |group| group.used_time += more);
        }
    }

    /// The same of all who live in a group and below it.
    fn charge_all(&mut self, id: u32) {
        let mut next = Some(id);
        while let Some(at) = next {
            let mut slot = self.cgroups.list[at as usize].first.unwrap_or(NONE);
            while slot != NONE {
                self.charge_group(slot);
                slot = self.processes[slot].cgroup_links.1;
            }
            next = self.cgroups.next_within(at, id);
        }
    }

    /// Somebody is in the group: those in the chain that have limits are looked at.
    pub(crate) fn watch_groups(&mut self, id: u32) {
        let mut at = id;
        while at != ROOT {
            let rate = self.cgroups.list[at as usize].rate;
            if rate.next == 0 && rate.is_limited() {
                let now = self.system.now();
                self.watch_group(at, now);
            }
            at = self.cgroups.list[at as usize].above;
        }
    }

    /// A group was not looked at for some time.
    fn watch_group(&mut self, id: u32, now: u64) {
        self.charge_all(id);
        let group = &mut self.cgroups.list[id as usize];
        let passed = group.rate.go_on(now);
        if passed > 0 {
            group.rate.began = now;
        }
        group.rate.seen = group.used_time;
        let next = self.next_group_look(id, now, 0);
        self.look_at_group(id, Some(next));
    }

    /// When to look next. It used `spent` since the last look.
    fn next_group_look(&mut self, id: u32, now: u64, spent: u64) -> u64 {
        let cores = self.system.cores();
        let group = &self.cgroups.list[id as usize];
        let rate = &group.rate;
        let several = u64::from(group.populated + self.cgroups.watched);
        let least = now + LEAST.max(several * EACH);
        let mut next = u64::MAX;
        if rate.quota != 0 {
            next = match group.throttled {
                true => rate.goes_on(),
                false => {
                    let left = rate.left.max(0).unsigned_abs();
                    let at_once = cores.min(u64::from(group.tasks)).max(1);
                    let used_up = now.saturating_add(left / at_once);
                    used_up.min(rate.began + rate.period)
                }
            };
        }
        if rate.high != UNLIMITED {
            let memory = match (group.slowed, spent) {
                (true, _) => rate.slowed_until,
                (false, 0) => now + MEMORY_IDLE,
                (false, _) => now + MEMORY_LOOK,
            };
            next = next.min(memory);
        }
        next.max(least)
    }

    /// Change the group's entry in the ordered set.
    fn look_at_group(&mut self, id: u32, next: Option<u64>) {
        let rate = &mut self.cgroups.list[id as usize].rate;
        let before = core::mem::replace(&mut rate.next, next.unwrap_or(0));
        if before != 0 {
            self.timers.remove(&(before, id, GROUP_LOOK));
            self.cgroups.watched -= 1;
        }
        if let Some(next) = next {
            self.timers.insert((next, id, GROUP_LOOK));
            self.cgroups.watched += 1;
        }
    }

    /// The moment of a group's entry has come.
    pub(crate) fn group_look(&mut self, id: u32, now: u64) {
        self.charge_all(id);
        let group = &mut self.cgroups.list[id as usize];
        group.rate.next = 0;
        self.cgroups.watched -= 1;
        let (was, memory) = ((group.throttled, group.slowed), group.account);
        let rate = &mut group.rate;
        let spent = group.used_time - core::mem::replace(&mut rate.seen, group.used_time);
        if rate.quota != 0 {
            rate.left = rate.left.saturating_sub_unsigned(spent);
            let passed = rate.go_on(now);
            rate.periods += passed;
            let over = rate.left <= 0;
            match (group.throttled, over) {
                (false, true) => (rate.since, rate.throttled) = (now, rate.throttled + 1),
                (true, true) => rate.throttled += passed,
                (true, false) => {
                    rate.waited += now - rate.since;
                    rate.throttled += passed.saturating_sub(1);
                }
                (false, false) => {}
            }
            group.throttled = over;
        }
        if rate.high != UNLIMITED {
            let has_waited = group.slowed && now >= rate.slowed_until;
            if has_waited {
                group.slowed = false;
            } else if !group.slowed && group.populated > 0 {
                let pages = self.system.account_stat(memory).pages();
                let group = &mut self.cgroups.list[id as usize];
                if pages > group.rate.high.into() {
                    group.slowed = true;
                    group.rate.slowed += 1;
                    group.rate.slowed_until = now + penalty(pages, group.rate.high);
                }
            }
        }
        let group = &self.cgroups.list[id as usize];
        let is = (group.throttled, group.slowed);
        if group.rate.is_limited() && (group.populated > 0 || is != (false, false)) {
            // (Who went on just now runs.)
            let runs = spent + u64::from(is != was);
            let next = self.next_group_look(id, now, runs);
            self.look_at_group(id, Some(next));
        }
        if is != was {
            self.unsettle(id);
        }
    }

    /// CGROUP_SET of QUOTA.
    pub(crate) fn set_quota(&mut self, id: u32, value: u64) -> Result<(), Errno> {
        let (quota, period) = (value & u64::from(u32::MAX), value >> 32);
        let is_none = quota == u64::from(u32::MAX);
        if !PERIOD.contains(&period) || quota < QUOTA_LEAST {
            return Err(EINVAL);
        }
        let rate = &mut self.cgroups.list[id as usize].rate;
        rate.quota = if is_none { 0 } else { quota * 1000 };
        rate.period = if is_none { 0 } else { period * 1000 };
        rate.left = rate.quota as i64;
        self.rate_changed(id);
        Ok(())
    }

    /// A limit of a group is another: it begins anew.
    pub(crate) fn rate_changed(&mut self, id: u32) {
        let now = self.system.now();
        self.look_at_group(id, None);
        let group = &mut self.cgroups.list[id as usize];
        if group.throttled {
            group.rate.waited += now - group.rate.since;
        }
        let halted = group.throttled || group.slowed;
        (group.throttled, group.slowed) = (false, false);
        group.rate.began = now;
        if group.rate.is_limited() && group.populated > 0 {
            self.watch_group(id, now);
        }
        if halted {
            self.unsettle(id);
        }
    }

    /// The group goes.
    pub(crate) fn forget_rate(&mut self, id: u32) {
        self.look_at_group(id, None);
        self.cgroups.list[id as usize].rate = Rate::default();
    }

    /// CGROUP_CPU
    pub(crate) fn cgroup_cpu(&mut self, id: u64) -> Result<Outcome, Errno> {
        let id = self.cgroups.get(id)?;
        if id == ROOT {
            let all = self.system.now().saturating_mul(self.system.cores());
            let used = all.saturating_sub(self.system.idle());
            return Ok(Outcome::words(&[0, used]));
        }
        self.charge_all(id);
        let now = self.system.now();
        let group = &self.cgroups.list[id as usize];
        let (rate, account) = (group.rate, group.account);
        let waits = match group.throttled {
            true => now - rate.since,
            false => 0,
        };
        let frozen = group.unsettled_within == 0 && self.cgroups.is_frozen(id);
        let used = group.used_time;
        let peak = self.system.account_stat(account).peak;
        Ok(Outcome::words(&[
            0,
            used,
            rate.periods,
            rate.throttled,
            rate.waited + waits,
            frozen.into(),
            rate.slowed,
            peak,
        ]))
    }
}
