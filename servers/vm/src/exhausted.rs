//! What happens when memory is exhausted: faults wait, caches give, and if that is not enough a process ends (EXHAUSTED, which `proc` asks).
//!
//! Who ends is decided by account: one that is beyond its limit, or else the one whose programs have most; if only users other than 0 lack memory it is one of theirs. Within the account it is the
//! process that has most of it, with what its adjustment (OOM_ADJUST) adds. What servers have for an account does not go with a process: nobody ends for it.

use crate::accounts::{Account, ROOT, SYSTEM};
use crate::fault::{refused, Fault};
use crate::nucleus::{Answer, Nucleus};
use crate::region::ANONYMOUS;
use crate::space::{Domain, Errno, Space, Vm, Waiting, NOBODY};
use cairn_abi::Id;
use cairn_idl::errno::{EINVAL, ESRCH};
use cairn_idl::vm::{GROUP_FIRST, OOM_ADJUST_MOST};

/// Most faults that wait for memory; more are refused.
const MAX_WAITING: usize = 256;

impl<N: Nucleus> Vm<N> {
    pub(crate) fn wait_for_memory(&mut self, fault: Waiting) -> Option<Answer> {
        if let Some(space) = self.waiting_space(&fault) {
            let full = self.frames.accounts.full(space.account, 1);
            if let Some(full) = full {
                let accounts = &mut self.frames.accounts;
                accounts.count(full, |record| record.refused += 1);
            }
        }
        let room = self.waiting.len() < MAX_WAITING && self.waiting.try_reserve(1).is_ok();
        if room && !self.is_over(&fault) && self.lenders_may_give() {
            self.waiting.push(fault);
            return None;
        }
        self.tell_watcher();
        if !room || self.watcher.is_none() {
            return Some(refused(Fault::Exhausted));
        }
        self.waiting.push(fault);
        None
    }

    /// Memory is exhausted: somebody should end a process (once until frames come free again).
    pub(crate) fn tell_watcher(&mut self) {
        if let (Some(slot), false) = (self.watcher, self.notified) {
            self.notified = true;
            self.nucleus.notify(slot);
        }
    }

    /// Nobody gives anything any more: somebody must end, or those who wait are refused.
    pub(crate) fn end_somebody(&mut self) {
        match self.watcher {
            Some(_) => self.tell_watcher(),
            None => self.refuse_waiting(),
        }
    }

    fn refuse_waiting(&mut self) {
        for fault in core::mem::take(&mut self.waiting) {
            let _ = self.nucleus.reply(fault.token, &refused(Fault::Exhausted));
        }
    }

    fn waiting_space(&self, fault: &Waiting) -> Option<&Space> {
        let index = self.spaces.resolve(fault.space)?;
        self.spaces.get(index)
    }

    /// Whether a fault waits because its account is full.
    fn is_over(&self, fault: &Waiting) -> bool {
        self.waiting_space(fault)
            .is_some_and(|space| self.frames.accounts.is_full(space.account))
    }

    /// Whether a fault that waits may be tried again.
    fn may_wake(&self, fault: &Waiting) -> bool {
        let floor = self.waiting_space(fault).map_or(0, |space| space.floor);
        self.frames.free() > floor && !self.is_over(fault)
    }

    pub(crate) fn may_wake_some(&self) -> bool {
        self.waiting.iter().any(|fault| self.may_wake(fault))
    }

    /// Whether nobody lacks memory.
    pub(crate) fn has_enough(&self) -> bool {
        match self.waiting.is_empty() {
            true => self.frames.free() > self.user_floor,
            false => self.may_wake_some(),
        }
    }

    /// Try the waiting faults again after memory may have come free.
    pub(crate) fn wake_waiting(&mut self) {
        if !self.may_wake_some() {
            return;
        }
        self.notified = false;
        let waiting = core::mem::take(&mut self.waiting);
        for fault in waiting {
            if !self.may_wake(&fault) {
                // There is room: it waited before.
                self.waiting.push(fault);
                continue;
            }
            let Waiting { token, waits, .. } = fault;
            let address = fault.page * 4096;
            if let Some(answer) = self.fault(fault.space, address, fault.access, token, waits) {
                // The caller may be gone meanwhile: then nobody waits for this.
                let _ = self.nucleus.reply(fault.token, &answer);
            }
        }
    }

    /// EXHAUSTED: the domain of the process that shall end, never `spared`, and the group whose limit is the cause (0: none's). If nobody's end would help, those who wait are refused.
    pub(crate) fn exhausted(&mut self, spared: Id) -> Option<(Id, u32)> {
        self.drop_ended();
        if self.waiting.is_empty() && self.has_enough() {
            self.notified = false;
            return None;
        }
        let mut group = 0;
        let victim = self.victim(spared);
        let found = victim.map(|(_, id)| id);
        if let Some((account, id)) = victim {
            let full = self.frames.accounts.is_full(account);
            let accounts = &mut self.frames.accounts;
            accounts.count(account, |record| record.full += u64::from(full));
            let uid = accounts.get(account).uid;
            if full && uid >= GROUP_FIRST {
                group = uid;
            }
            if let Some(domain) = self.domain(id) {
                let accounts = &mut self.frames.accounts;
                accounts.count(domain.account, |record| record.ended += 1);
            }
        }
        if found.is_none() {
            self.notified = false;
            self.refuse_waiting();
        }
        Some((found?, group))
    }

    #[cfg(test)]
    pub(crate) fn largest(&mut self) -> Option<Id> {
        self.largest_of(ROOT, 0)
    }

    /// Who ends, and whose account is the cause.
    fn victim(&mut self, spared: Id) -> Option<(Account, Id)> {
        let over = self.waiting.iter().find(|fault| self.is_over(fault));
        if let Some(space) = over.and_then(|fault| self.waiting_space(fault)) {
            // The nearest that is full: nobody beside it is to blame.
            let account = self.frames.accounts.full(space.account, 1)?;
            let id = self.largest_of(account, spared)?;
            return Some((account, id));
        }
        // Of an account all of whose programs are never to end it is nobody, and the next one's turn.
        let mut before = None;
        loop {
            let (held, account) = self.account_at_fault(spared, before)?;
            if let Some(id) = self.largest_of(account, spared) {
                return Some((account, id));
            }
            before = Some((held, account));
        }
    }

    /// The account that has most, of those that come behind `before`.
    fn account_at_fault(
        &self,
        spared: Id,
        before: Option<(u32, Account)>,
    ) -> Option<(u32, Account)> {
        // Whether user 0 or a component lacks memory as well.
        let urgent = self.frames.free() <= self.reserve;
        let spared = self.domain(spared).and_then(|d| self.spaces.get(d.space));
        let spared = spared.map(|space| space.account);
        let accounts = self.frames.accounts.iter();
        let ends = |&(account, record): &(Account, &crate::accounts::Record)| {
            let others = u32::from(spared == Some(account));
            // A group's memory is that of the one at its top.
            !record.is_below()
                && account != SYSTEM
                && (account != ROOT || urgent)
                && record.spaces > others
        };
        accounts
            .filter(ends)
            .map(|(account, record)| (record.held, account))
            .filter(|&found| before.is_none_or(|before| found < before))
            .max()
    }

    /// OOM_ADJUST.
    pub(crate) fn set_oom_adjust(&mut self, id: Id, adjust: i64) -> Result<u64, Errno> {
        let domain = self.domain(id).ok_or(ESRCH)?;
        if !(-OOM_ADJUST_MOST..=OOM_ADJUST_MOST).contains(&adjust) {
            return Err(EINVAL);
        }
        let adjust = adjust as i16;
        self.set_domain(Domain { adjust, ..domain });
        Ok(0)
    }

    fn largest_of(&mut self, account: Account, spared: Id) -> Option<Id> {
        let spared = self.domain(spared).map(|domain| domain.space);
        let objects = &self.objects;
        let mut largest = None;
        for (_, object) in objects.iter() {
            // What is only held open goes with who made it.
            if let (NOBODY, 0, Some(index)) = (
                object.maker,
                object.mapped,
                self.spaces.resolve(object.origin),
            ) {
                if let Some(space) = self.spaces.get_mut(index) {
                    space.weight += object.pages.resident();
                }
            }
        }
        for domain in self.domains.iter().flatten() {
            if let Some(space) = self.spaces.get_mut(domain.space) {
                space.adjust = space.adjust.min(domain.adjust);
            }
        }
        // What an adjustment is a part of: the memory that is to be had.
        let limit = match self.frames.accounts.is_full(account) {
            true => i64::from(self.frames.accounts.get(account).limit),
            false => i64::MAX,
        };
        let all = limit.min(self.frames.total() as i64);
        for (index, space) in self.spaces.iter_mut() {
            let held = core::mem::take(&mut space.weight);
            let adjust = i64::from(core::mem::replace(&mut space.adjust, i16::MAX));
            let within = self.frames.accounts.is_within(space.account, account);
            let ends = space.linux() && within && Some(index) != spared;
            if !ends || !(1 - OOM_ADJUST_MOST..=OOM_ADJUST_MOST).contains(&adjust) {
                continue;
            }
            let mut weight = held + own_weight(space);
            for region in space.regions.iter().filter(|r| r.object != ANONYMOUS) {
                if let Some(object) = objects.get(region.object as usize) {
                    // Its share of what was made in shared memory, whoever touched it.
                    if object.maker == NOBODY && object.mapped > 0 {
                        weight += object.pages.resident() * region.pages() / object.mapped;
                    }
                }
            }
            let weight = weight as i64 + adjust * all / OOM_ADJUST_MOST;
            if largest.is_none_or(|(most, _)| weight > most) {
                largest = Some((weight, index));
            }
        }
        let (_, index) = largest?;
        self.domains
            .iter()
            .flatten()
            .find(|domain| domain.space == index)
            .map(|domain| domain.id)
    }
}

/// Frames that a space costs, about: its pages and those that it offers, a page table for each place where some are, and the list of its regions.
fn own_weight(space: &Space) -> u64 {
    space.pages.resident()
        + space.offered
        + space.pages.chunks() as u64
        + space.regions.len() as u64 / 128
}
