//! Cache: memory that file servers fill with what they can read again, and give back when it is wanted elsewhere. See docs/cache.md.
//!
//! A *lender's* cache may grow as long as more than [`Vm::goal`] frames are free. When fewer than [`Vm::low`] are, or somebody must wait for memory, all lenders are notified; each asks how much is wanted of
//! it, gives that back, and asks again, until nothing is wanted any more. Meanwhile who needs memory waits. A lender that does not come within [`PATIENCE`] is
//! *silent*: nobody waits for it, and its cache does not grow, until it comes.

use crate::mapping::range;
use crate::nucleus::{Answer, Nucleus};
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{Errno, Vm};
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::*;

/// How long a lender that was notified, or told how much is wanted, may take until it asks again (nanoseconds).
pub const PATIENCE: u64 = 1_000_000_000;
/// Most lenders, and most requests that wait for memory.
const MAX_LENDERS: usize = 32;
const MAX_DEFERRED: usize = 64;
/// Most pages that a lender is to drop at once: it serves nobody meanwhile.
const DROPPED_AT_ONCE: u64 = 512;

pub struct Lender {
    space: Handle,
    /// Pages of its cache.
    start: u64,
    end: u64,
    /// The portal that is notified.
    watcher: u32,
    /// It was asked, and shall come before this.
    asked: Option<u64>,
    /// It did not.
    silent: bool,
    /// It had nothing more to give.
    empty: bool,
    /// So many pages are wanted of it whether or not others need them (DROP_CACHES), some at a time.
    to_drop: u64,
    /// It serves others before it is told of the next ones.
    pause: bool,
}

#[derive(Default)]
pub struct Lenders {
    list: Vec<Lender>,
    /// When the first of those that were asked is late ([`Lenders::count`] keeps it).
    first_late: Option<u64>,
    /// Requests for resident memory that wait for what lenders give.
    deferred: Vec<Request>,
}

impl Lenders {
    /// Lenders were asked, or came, or went.
    fn count(&mut self) {
        self.first_late = self.list.iter().filter_map(|lender| lender.asked).min();
    }
}

impl<N: Nucleus> Vm<N> {
    /// Caches grow only above this.
    fn goal(&self) -> usize {
        self.user_floor + self.frames.total() / 32
    }

    /// Below this, caches shrink.
    fn low(&self) -> usize {
        self.user_floor + self.frames.total() / 64
    }

    pub(crate) fn is_low(&self) -> bool {
        self.frames.free() < self.low()
    }

    fn lent(&self, lender: &Lender) -> u64 {
        self.spaces
            .resolve(lender.space)
            .and_then(|index| self.spaces.get(index))
            .map_or(0, |space| space.pages.count(lender.start, lender.end))
    }

    /// The pages that a space has declared to be cache.
    pub(crate) fn lent_by(&self, space: Handle) -> Option<(u64, u64)> {
        let lender = self.lenders.list.iter().find(|l| l.space == space)?;
        Some((lender.start, lender.end))
    }

    /// Frames in caches.
    pub(crate) fn all_lent(&self) -> u64 {
        self.lenders.list.iter().map(|l| self.lent(l)).sum()
    }

    /// CACHE: the portal in w7 is kept.
    pub(crate) fn cache(&mut self, r: &Request) -> Result<u64, Errno> {
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.linux() || space.eager {
            return Err(EPERM);
        }
        let (start, end) = range(r.words[1], r.words[2], EINVAL)?;
        if start == end || r.portals != 1 {
            return Err(EINVAL);
        }
        let handle = space.handle;
        let before = self.lenders.list.iter().position(|l| l.space == handle);
        if before.is_none() && self.lenders.list.len() >= MAX_LENDERS {
            return Err(ENOMEM);
        }
        if let Some(at) = before {
            let old = self.lenders.list.swap_remove(at);
            self.nucleus.close(old.watcher);
            self.lenders.count();
        }
        self.lenders.list.push(Lender {
            space: handle,
            start,
            end,
            watcher: r.words[7] as u32,
            asked: None,
            silent: false,
            empty: false,
            to_drop: 0,
            pause: false,
        });
        Ok(0)
    }

    /// CACHE_WANTED → how many pages the caller should give back now.
    pub(crate) fn cache_wanted(&mut self, index: usize, nothing_left: bool) -> Result<u64, Errno> {
        let handle = self.spaces.get(index).ok_or(ESRCH)?.handle;
        let lenders = &self.lenders.list;
        let at = lenders.iter().position(|l| l.space == handle);
        let at = at.ok_or(EINVAL)?;
        let missing = self.goal().saturating_sub(self.frames.free()) as u64;
        let own = self.lent(&lenders[at]);
        let all = lenders
            .iter()
            .filter(|l| !l.silent && (!l.empty || l.space == handle))
            .map(|l| self.lent(l))
            .sum::<u64>()
            .max(own);
        // Each in proportion to what it has.
        let share = match all {
            0 => 0,
            _ => (missing * own).div_ceil(all).min(own),
        };
        let mut wanted = if nothing_left { 0 } else { share };
        let now = self.nucleus.now();
        let lender = &mut self.lenders.list[at];
        lender.silent = false;
        lender.empty = nothing_left;
        lender.to_drop = match nothing_left {
            true => 0,
            false => lender.to_drop.min(own),
        };
        let (pause, watcher) = (lender.pause && lender.to_drop > 0, lender.watcher);
        if lender.to_drop > 0 && !pause {
            let some = lender.to_drop.min(DROPPED_AT_ONCE);
            lender.to_drop -= some;
            wanted = wanted.max(some);
        }
        // The notice comes behind what others have sent it.
        let again = pause && wanted == 0;
        lender.pause = !pause && lender.to_drop > 0;
        lender.asked = (wanted > 0 || again).then_some(now + PATIENCE);
        self.lenders.count();
        if again {
            self.nucleus.notify(watcher);
        }
        if nothing_left {
            self.nothing_more();
        }
        Ok(wanted)
    }

    /// Whether these pages are a cache's; then its lender has something to give from now on.
    pub(crate) fn is_cache(&mut self, index: usize, start: u64, end: u64) -> bool {
        if self.lenders.list.is_empty() {
            return false;
        }
        let Some(handle) = self.spaces.get(index).map(|space| space.handle) else {
            return false;
        };
        let within = |l: &&mut Lender| l.space == handle && l.start <= start && end <= l.end;
        match self.lenders.list.iter_mut().find(within) {
            Some(lender) => {
                lender.empty = false;
                true
            }
            None => false,
        }
    }

    /// How many frames stay free when a cache grows. One whose lender is silent does not.
    pub(crate) fn cache_floor(&self, index: usize) -> usize {
        let handle = self.spaces.get(index).map(|space| space.handle);
        let silent = |l: &Lender| Some(l.space) == handle && l.silent;
        match self.lenders.list.iter().any(silent) {
            true => usize::MAX,
            false => self.goal(),
        }
    }

    /// Whether this domain gives memory, and so must not wait for it.
    pub(crate) fn lends(&self, id: Id) -> bool {
        !self.lenders.list.is_empty()
            && self
                .domain(id)
                .and_then(|domain| self.spaces.get(domain.space))
                .is_some_and(|space| self.lenders.list.iter().any(|l| l.space == space.handle))
    }

    /// Whether it is worth while to wait for lenders; they are asked.
    pub(crate) fn lenders_may_give(&mut self) -> bool {
        let hopeful = |l: &Lender| !l.silent && !l.empty && self.lent(l) > 0;
        if !self.lenders.list.iter().any(hopeful) {
            // What successors have not come for yet goes before somebody must end.
            return self.drop_left_caches();
        }
        self.ask_lenders();
        true
    }

    /// Whoever has something is notified, once until it has come.
    #[cold]
    pub(crate) fn ask_lenders(&mut self) {
        let now = self.nucleus.now();
        for at in 0..self.lenders.list.len() {
            let lender = &self.lenders.list[at];
            if lender.asked.is_none() && !lender.empty && self.lent(lender) > 0 {
                let watcher = lender.watcher;
                self.lenders.list[at].asked = Some(now + PATIENCE);
                self.nucleus.notify(watcher);
            }
        }
        self.lenders.count();
    }

    /// DROP_CACHES.
    pub(crate) fn drop_caches(&mut self) -> Result<u64, Errno> {
        for at in 0..self.lenders.list.len() {
            let own = self.lent(&self.lenders.list[at]);
            let lender = &mut self.lenders.list[at];
            lender.to_drop = own;
            lender.pause = false;
            lender.empty = false;
        }
        self.ask_lenders();
        Ok(0)
    }

    /// After each request: is there enough?
    #[inline]
    pub(crate) fn look_at_caches(&mut self) {
        if !self.lenders.list.is_empty() && self.is_low() {
            self.ask_lenders();
        }
    }

    /// A request for resident memory waits until lenders have given some. False: it had better be refused.
    pub(crate) fn defer(&mut self, r: &Request) -> bool {
        if self.lenders.deferred.len() >= MAX_DEFERRED
            || self.lends(r.sender)
            || r.sender == self.watching
            || !self.lenders_may_give()
        {
            return false;
        }
        self.lenders.deferred.push(*r);
        true
    }

    /// Do what waited, now that memory may have come free.
    pub(crate) fn resume_deferred(&mut self) {
        if self.lenders.deferred.is_empty() || self.frames.free() <= self.reserve {
            return;
        }
        for r in core::mem::take(&mut self.lenders.deferred) {
            if let Some(answer) = self.handle_again(&r) {
                // The caller may be gone meanwhile.
                let _ = self.nucleus.reply(r.token, &answer);
            }
        }
    }

    /// The caller behind a token is gone.
    pub(crate) fn forget_deferred(&mut self, token: cairn_abi::Token) {
        self.lenders.deferred.retain(|r| r.token != token);
    }

    /// When those are late who were asked for something: when [`Vm::late`] is to be called.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        let soon = match (self.lenders.first_late, self.pagers.idle.due) {
            (Some(lender), Some(idle)) => Some(lender.min(idle)),
            (lender, idle) => lender.or(idle),
        };
        if self.pagers.nobody_waits() {
            return soon;
        }
        let all = [soon, self.pagers.deadline(), self.takings_deadline()];
        all.into_iter().flatten().min()
    }

    /// Time has passed: who was asked and did not come is not waited for any more.
    pub fn late(&mut self) {
        let now = self.nucleus.now();
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        self.late_takings(now);
        self.late_pages(now);
        for lender in &mut self.lenders.list {
            if lender.asked.is_some_and(|deadline| deadline <= now) {
                lender.asked = None;
                lender.silent = true;
            }
        }
        self.lenders.count();
        self.nothing_more();
    }

    /// If no lender can be hoped for, those who wait are refused, or somebody must end.
    fn nothing_more(&mut self) {
        if self.has_enough() || self.lenders_may_give() {
            return;
        }
        for r in core::mem::take(&mut self.lenders.deferred) {
            let _ = self.nucleus.reply(r.token, &Answer::result(Err(ENOMEM)));
        }
        if !self.waiting.is_empty() {
            self.end_somebody();
        }
    }

    /// A space is gone, and its cache with it.
    pub(crate) fn forget_lender(&mut self, space: Handle) {
        if let Some(at) = self.lenders.list.iter().position(|l| l.space == space) {
            let lender = self.lenders.list.swap_remove(at);
            self.lenders.count();
            self.nucleus.close(lender.watcher);
            self.nothing_more();
        }
    }
}
