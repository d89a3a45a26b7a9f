//! Groups of processes (cgroups): a tree, in which each process is in one group. What it is and how it is shown is the file server's business (`servers/cgroup`); here is who is in which, how
//! many processes and threads there may be, and that `vm` counts memory for the group.
//!
//! What always holds:
//! - a process that is not the root's is in its group's list until it has ended; its group, and those above it, count it and its threads until its parent has waited for it;
//! - `vm` knows a group's account as long as the group is there, and the domain of each process of it pays by that account, with the label's bit [`label::GROUPED`].

use crate::bandwidth::Rate;
use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::Process;
use crate::signal::SIGKILL;
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::proc::CgroupLimit;
use cairn_idl::vm::{GROUP_FIRST, OOM_ADJUST_MOST};
use cairn_rt::Received;

/// Every process is in this one at first. It has no limits, and counts nothing.
pub const ROOT: u32 = 0;
/// Most groups: as many accounts as `vm` has are not to be all theirs.
const MOST: usize = 20_000;
/// Longest name, and longest path.
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;
/// Groups above one another.
const DEEPEST: u32 = 64;
/// Pids of one answer.
const LIST_MOST: usize = 16_384;
const UNLIMITED: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Group {
    used: bool,
    /// Its account at `vm`. Never the same twice.
    pub(crate) account: u32,
    pub(crate) above: u32,
    pub(crate) depth: u32,
    name: Vec<u8>,
    below: u32,
    /// The first group below it, and its neighbours among those below the one above; [`ROOT`]: none.
    first_below: u32,
    beside: (u32, u32),
    pub(crate) first: Option<Slot>,
    /// Processes of its own that live.
    pub(crate) live: u32,
    /// The same with those of all groups below it.
    pub(crate) populated: u32,
    /// Processes and threads, those of groups below it included, and the most there may be.
    pub(crate) tasks: u32,
    most: u32,
    /// Forks that its limit refused.
    refused: u64,
    /// If somebody has to end for its memory, all do.
    together: bool,
    /// It was removed while zombies were counted for it.
    removed: bool,
    /// Processor time in ns of all who are or were in it or below it, as far as it was seen.
    pub(crate) used_time: u64,
    /// Limits of what it does in a time.
    pub(crate) rate: Rate,
    /// Why none of it runs: it was asked for, its time is used up, it has too much memory.
    pub(crate) frozen: bool,
    pub(crate) throttled: bool,
    pub(crate) slowed: bool,
    /// What its threads' nice values are changed by.
    pub(crate) nice: i32,
    /// Processes of it may not be as its state is yet: it is in the list of such groups. The next one there, and the next of its processes to be looked at.
    pub(crate) unsettled: bool,
    pub(crate) next_unsettled: u32,
    pub(crate) cursor: Slot,
    /// Groups in that list, of it and those below it.
    pub(crate) unsettled_within: u32,
}

/// All groups.
#[derive(Default)]
pub struct Cgroups {
    pub(crate) list: Vec<Group>,
    free: Vec<u32>,
    made: u32,
    /// First and last of those that are not settled; [`ROOT`]: none.
    pub(crate) unsettled: (u32, u32),
    /// Groups that are looked at because of a limit.
    pub(crate) watched: u32,
}

impl Cgroups {
    pub(crate) fn get(&self, id: u64) -> Result<u32, Errno> {
        let number = u32::try_from(id).map_err(|_| ENOENT)?;
        match number {
            ROOT => Ok(ROOT),
            _ => match self.list.get(number as usize) {
                Some(group) if group.used && !group.removed => Ok(number),
                _ => Err(ENOENT),
            },
        }
    }

    /// The group and those above it, but for the root.
    pub(crate) fn chain(&mut self, id: u32, mut each: impl FnMut(&mut Group)) {
        let mut at = id;
        while at != ROOT {
            let group = &mut self.list[at as usize];
            each(group);
            at = group.above;
        }
    }

    /// What was removed, and has nobody any more, goes.
    pub(crate) fn forget_removed(&mut self, id: u32) {
        let mut at = id;
        while at != ROOT {
            let group = &self.list[at as usize];
            let above = group.above;
            if group.removed && group.tasks == 0 && !group.unsettled {
                self.list[at as usize] = Group::default();
                self.free.push(at);
            }
            at = above;
        }
    }

    /// The next one of a group and those below it, behind `at`. Without those in which nobody lives.
    pub(crate) fn next_within(&self, at: u32, id: u32) -> Option<u32> {
        let group = &self.list[at as usize];
        let mut next = match group.populated {
            0 => ROOT,
            _ => group.first_below,
        };
        let mut at = at;
        while next == ROOT {
            if at == id {
                return None;
            }
            let group = &self.list[at as usize];
            next = group.beside.1;
            at = group.above;
        }
        Some(next)
    }

    fn link(&mut self, id: u32, above: u32) {
        let next = core::mem::replace(&mut self.list[above as usize].first_below, id);
        self.list[id as usize].beside = (ROOT, next);
        if next != ROOT {
            self.list[next as usize].beside.0 = id;
        }
    }

    fn unlink(&mut self, id: u32) {
        let group = &self.list[id as usize];
        let (above, (before, next)) = (group.above, group.beside);
        match before {
            ROOT => self.list[above as usize].first_below = next,
            before => self.list[before as usize].beside.1 = next,
        }
        if next != ROOT {
            self.list[next as usize].beside.0 = before;
        }
    }

    /// Whether there may be one task more in a group; refusals are counted.
    fn has_room(&mut self, id: u32) -> bool {
        let mut full = None;
        let mut at = id;
        while at != ROOT {
            let group = &self.list[at as usize];
            if group.tasks >= group.most {
                full = full.or(Some(at));
            }
            at = group.above;
        }
        if let Some(full) = full {
            self.chain(full, |group| group.refused += 1);
        }
        full.is_none()
    }
}

impl<S: System> Manager<S> {
    /// May a process of this group make a process or thread more?
    #[inline]
    pub(crate) fn check_cgroup(&mut self, slot: Slot) -> Result<(), Errno> {
        match self.processes[slot].cgroup {
            ROOT => Ok(()),
            id if self.cgroups.has_room(id) => Ok(()),
            _ => Err(EAGAIN),
        }
    }

    /// A task more or fewer in the group of a process.
    #[inline]
    pub(crate) fn count_cgroup(&mut self, slot: Slot, by: i32) {
        let id = self.processes[slot].cgroup;
        if id != ROOT {
            self.cgroups.chain(id, |group| {
                group.tasks = group.tasks.saturating_add_signed(by);
            });
            if by < 0 {
                self.cgroups.forget_removed(id);
            }
        }
    }

    /// A new process is in the list of its group.
    #[inline]
    pub(crate) fn enter_cgroup(&mut self, slot: Slot) {
        let id = self.processes[slot].cgroup;
        if id == ROOT {
            return;
        }
        let group = &mut self.cgroups.list[id as usize];
        let next = group.first.replace(slot);
        group.live += 1;
        if let Some(next) = next {
            self.processes[next].cgroup_links.0 = slot;
        }
        self.processes[slot].cgroup_links = (NONE, next.unwrap_or(NONE));
        self.cgroups.chain(id, |group| group.populated += 1);
        self.watch_groups(id);
        self.fit(slot);
    }

    /// It has ended, or goes to another one.
    #[inline]
    pub(crate) fn leave_cgroup(&mut self, slot: Slot) {
        let id = self.processes[slot].cgroup;
        if id == ROOT {
            return;
        }
        self.charge_group(slot);
        let (before, next) = self.processes[slot].cgroup_links;
        if self.cgroups.list[id as usize].cursor == slot {
            self.cgroups.list[id as usize].cursor = next;
        }
        match before {
            NONE => {
                let first = (next != NONE).then_some(next);
                self.cgroups.list[id as usize].first = first;
            }
            before => self.processes[before].cgroup_links.1 = next,
        }
        if next != NONE {
            self.processes[next].cgroup_links.0 = before;
        }
        self.processes[slot].cgroup_links = (NONE, NONE);
        self.cgroups.list[id as usize].live -= 1;
        self.cgroups.chain(id, |group| group.populated -= 1);
    }

    /// Who pays for what the process does: its group, or its user.
    pub(crate) fn account(&self, slot: Slot) -> u32 {
        match self.processes[slot].cgroup {
            ROOT => self.processes[slot].creds.euid,
            id => self.cgroups.list[id as usize].account,
        }
    }

    /// Operations of the role CGROUP.
    pub(crate) fn cgroup(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [operation, id, a, b, ..] = message.words;
        match operation {
            cairn_idl::proc::CGROUP_MAKE => self.cgroup_make(message, id),
            cairn_idl::proc::CGROUP_REMOVE => self.cgroup_remove(id),
            cairn_idl::proc::CGROUP_MOVE => self.cgroup_move(id, a, b),
            cairn_idl::proc::CGROUP_SET => self.cgroup_set(id, a, b),
            cairn_idl::proc::CGROUP_STAT => self.cgroup_stat(id),
            cairn_idl::proc::CGROUP_PIDS => self.cgroup_pids(message, id, a),
            cairn_idl::proc::CGROUP_KILL => self.cgroup_kill(id),
            cairn_idl::proc::CGROUP_CPU => self.cgroup_cpu(id),
            _ => self.cgroup_of(id),
        }
    }

    fn cgroup_make(&mut self, message: &Received, above: u64) -> Result<Outcome, Errno> {
        let above = self.cgroups.get(above)?;
        if message.out_len == 0 || message.out_len > NAME_MAX {
            return Err(EINVAL);
        }
        let name = self.bytes(message, 0, message.out_len)?;
        let (over, depth) = match above {
            ROOT => (0, 0),
            above => {
                let group = &self.cgroups.list[above as usize];
                (group.account, group.depth + 1)
            }
        };
        if depth >= DEEPEST {
            return Err(EAGAIN);
        }
        let groups = &mut self.cgroups;
        if groups.list.is_empty() {
            // The root's place.
            groups.list.try_reserve(1).map_err(|_| ENOMEM)?;
            groups.list.push(Group::default());
        }
        let id = match groups.free.last() {
            Some(&id) => id,
            None => {
                if groups.list.len() >= MOST {
                    return Err(EAGAIN);
                }
                // What is removed later has its place then.
                let more = groups.list.len() + 1 - groups.free.len();
                groups.free.try_reserve(more).map_err(|_| ENOMEM)?;
                groups.list.try_reserve(1).map_err(|_| ENOMEM)?;
                groups.list.push(Group::default());
                groups.list.len() as u32 - 1
            }
        };
        let account = GROUP_FIRST + groups.made;
        let made = (groups.made + 1) % (u32::MAX - GROUP_FIRST);
        self.cgroups.made = made;
        if let Err(errno) = self.system.account_group(account, over, true) {
            if self.cgroups.free.last() != Some(&id) {
                self.cgroups.free.push(id);
            }
            return Err(errno);
        }
        let groups = &mut self.cgroups;
        if groups.free.last() == Some(&id) {
            groups.free.pop();
        }
        groups.list[id as usize] = Group {
            used: true,
            account,
            above,
            depth,
            name,
            most: UNLIMITED,
            ..Group::default()
        };
        groups.link(id, above);
        if above != ROOT {
            groups.list[above as usize].below += 1;
        }
        Ok(Outcome::words(&[u64::from(id)]))
    }

    fn cgroup_remove(&mut self, id: u64) -> Result<Outcome, Errno> {
        let id = self.cgroups.get(id)?;
        if id == ROOT {
            return Err(EBUSY);
        }
        let group = &self.cgroups.list[id as usize];
        if group.live > 0 || group.below > 0 {
            return Err(EBUSY);
        }
        let (account, above) = (group.account, group.above);
        self.system.account_group(account, 0, false)?;
        self.forget_rate(id);
        let groups = &mut self.cgroups;
        groups.unlink(id);
        if above != ROOT {
            groups.list[above as usize].below -= 1;
        }
        // Its zombies are counted until somebody has waited for them.
        groups.list[id as usize].removed = true;
        groups.forget_removed(id);
        done(0)
    }

    fn cgroup_move(&mut self, pid: u64, from: u64, to: u64) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        let (from, to) = (self.cgroups.get(from)?, self.cgroups.get(to)?);
        if !self.processes[slot].alive() {
            return Err(ESRCH);
        }
        if self.processes[slot].cgroup != from {
            return Err(EAGAIN);
        }
        if from == to {
            return done(0);
        }
        let tasks = 1 + self.further_threads(slot);
        self.leave_cgroup(slot);
        self.count_cgroup(slot, -tasks);
        self.processes[slot].cgroup = to;
        self.processes[slot].cgroup_seen = self.cpu_of(slot);
        self.enter_cgroup(slot);
        self.fit(slot);
        self.count_cgroup(slot, tasks);
        let (domain, account) = (self.processes[slot].domain, self.account(slot));
        let root = self.processes[slot].creds.euid == 0;
        self.system.set_account(domain.id, account, root);
        let label = self.processes[slot].label();
        self.system.set_label(domain, label);
        done(0)
    }

    fn further_threads(&self, slot: Slot) -> i32 {
        let process = &self.processes[slot];
        let further = process.threads.iter().filter(|t| t.tid != process.pid);
        further.count() as i32
    }

    fn cgroup_set(&mut self, id: u64, what: u64, value: u64) -> Result<Outcome, Errno> {
        let id = self.cgroups.get(id)?;
        if id == ROOT {
            return Err(EPERM);
        }
        let group = &mut self.cgroups.list[id as usize];
        match CgroupLimit::from_word(what).ok_or(EINVAL)? {
            CgroupLimit::Together => group.together = value != 0,
            CgroupLimit::Tasks => group.most = u32::try_from(value).unwrap_or(UNLIMITED),
            CgroupLimit::Pages => {
                let account = group.account;
                let pages = match u32::try_from(value) {
                    Ok(u32::MAX) | Err(_) => 0,
                    // (0 is no limit at `vm`.)
                    Ok(pages) => pages.max(1),
                };
                self.system.limit_account(account, pages.into())?;
            }
            CgroupLimit::Frozen => {
                group.frozen = value != 0;
                self.unsettle(id);
            }
            CgroupLimit::Nice => {
                group.nice = (value as i64).clamp(-20, 19) as i32;
                self.unsettle(id);
            }
            CgroupLimit::Quota => self.set_quota(id, value)?,
            CgroupLimit::High => {
                group.rate.high = u32::try_from(value).unwrap_or(UNLIMITED);
                self.rate_changed(id);
            }
        }
        done(0)
    }

    fn cgroup_stat(&mut self, id: u64) -> Result<Outcome, Errno> {
        let id = self.cgroups.get(id)?;
        if id == ROOT {
            return Err(EINVAL);
        }
        let group = &self.cgroups.list[id as usize];
        let (tasks, refused, populated) = (group.tasks, group.refused, group.populated);
        let memory = self.system.account_stat(group.account);
        Ok(Outcome::words(&[
            0,
            u64::from(tasks) | u64::from(populated) << 32,
            refused,
            memory.held,
            memory.charged,
            memory.records,
            memory.refused,
            memory.ended,
        ]))
    }

    /// Pids from the one after `after` on, in the order of the list (0: from its beginning).
    fn cgroup_pids(&mut self, message: &Received, id: u64, after: u64) -> Result<Outcome, Errno> {
        let id = self.cgroups.get(id)?;
        let room = (message.in_len / 4).min(LIST_MOST);
        let mut bytes = Vec::new();
        let take = |bytes: &mut Vec<u8>, pid: u32| -> Result<(), Errno> {
            bytes.try_reserve(4).map_err(|_| ENOMEM)?;
            bytes.extend_from_slice(&pid.to_le_bytes());
            Ok(())
        };
        if id == ROOT {
            let mut from = after + 1;
            while let Some((pid, slot)) = self.numbers.next_process(from) {
                let process = &self.processes[slot];
                if bytes.len() / 4 >= room {
                    break;
                }
                if process.cgroup == ROOT && process.alive() {
                    take(&mut bytes, pid)?;
                }
                from = u64::from(pid) + 1;
            }
        } else {
            let mut at = match after {
                0 => self.cgroups.list[id as usize].first.unwrap_or(NONE),
                after => match self.numbers.process(after) {
                    Some(slot) if self.processes[slot].cgroup == id => {
                        self.processes[slot].cgroup_links.1
                    }
                    _ => NONE,
                },
            };
            while at != NONE && bytes.len() / 4 < room {
                take(&mut bytes, self.processes[at].pid)?;
                at = self.processes[at].cgroup_links.1;
            }
        }
        self.answer(message, &bytes)?;
        done((bytes.len() / 4) as i64)
    }

    /// CGROUP_KILL
    fn cgroup_kill(&mut self, id: u64) -> Result<Outcome, Errno> {
        self.end_members(id, |_| true)
    }

    /// Those processes of a group and of those below it that may end get SIGKILL.
    fn end_members(
        &mut self,
        id: u64,
        may_end: impl Fn(&Process) -> bool,
    ) -> Result<Outcome, Errno> {
        let id = self.cgroups.get(id)?;
        if id == ROOT {
            return Err(EOPNOTSUPP);
        }
        let mut next = Some(id);
        while let Some(at) = next {
            let mut slot = self.cgroups.list[at as usize].first.unwrap_or(NONE);
            while slot != NONE {
                let next = self.processes[slot].cgroup_links.1;
                if may_end(&self.processes[slot]) {
                    self.doom(slot, SIGKILL);
                }
                slot = next;
            }
            next = self.cgroups.next_within(at, id);
        }
        done(0)
    }

    /// A process ends because a group's memory is at its limit: with it those that shall end together, which are a group between the two.
    pub(crate) fn end_with_group(&mut self, slot: Slot, account: u32) {
        let mut at = self.processes[slot].cgroup;
        let mut together = None;
        while account != 0 && at != ROOT {
            let group = &self.cgroups.list[at as usize];
            if group.together {
                together = Some(at);
            }
            at = match group.account == account {
                true => ROOT,
                false => group.above,
            };
        }
        if let Some(id) = together {
            let ends = |process: &Process| i64::from(process.oom.adjust) != -OOM_ADJUST_MOST;
            let _ = self.end_members(id.into(), ends);
        }
    }

    fn cgroup_of(&mut self, pid: u64) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        if !self.processes[slot].alive() {
            return Err(ESRCH);
        }
        Ok(Outcome::words(&[u64::from(self.processes[slot].cgroup)]))
    }

    /// CGROUP_PATH: where a process's group is.
    pub(crate) fn cgroup_path(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(message.words[1]).ok_or(ESRCH)?;
        let mut path = self.path_of_group(slot)?;
        let reader = self.by_domain(message.words[2]).ok();
        if let Some(space) = reader.and_then(|reader| self.processes[reader].cgroups.as_ref()) {
            path = space.seen(&path);
        }
        self.answer(message, &path)?;
        done(path.len() as i64)
    }

    /// Where a process's group is, from the root of all.
    pub(crate) fn path_of_group(&self, slot: Slot) -> Result<Vec<u8>, Errno> {
        let mut names = Vec::new();
        let mut at = self.processes[slot].cgroup;
        while at != ROOT {
            let group = &self.cgroups.list[at as usize];
            names.try_reserve(1).map_err(|_| ENOMEM)?;
            names.push(at);
            at = group.above;
        }
        let mut path = Vec::new();
        path.try_reserve(PATH_MAX).map_err(|_| ENOMEM)?;
        for id in names.iter().rev() {
            let name = &self.cgroups.list[*id as usize].name;
            if path.len() + 1 + name.len() > PATH_MAX {
                break;
            }
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }
}
