//! Semaphores: P takes one or waits for it, V gives one. Waiting threads are served by priority, in order of arrival within one.
//!
//! A *mutex* is a semaphore of one with an owner: only who took it gives it back, and whoever waits for it lifts its owner, through chains of owners
//! and servers. When the owner dies the next one gets it and is told.
//!
//! What always holds: a plain semaphore at which a thread waits counts 0, and a mutex counts 0 always (so code that knows only "one less, if that is not
//! below zero" never takes a mutex); at a mutex that nobody owns nobody waits; a mutex is in its owner's queue of contended ones while a thread waits
//! for it and the owner lives.

use crate::arch::Arch;
use crate::dispatch::CHAIN;
use crate::pool::{SemaphoreRef, ThreadRef};
use crate::portal::table::Target;
use crate::ranked::{Place, Ranked};
use crate::thread::State;
use crate::{Answer, Kernel, Stop};
use cairn_abi::service::semaphore;
use cairn_abi::{flag, rights, Error, PortalKind};

/// Portal code finds the first words where they are: a P without contention needs `count`, a V without contention that the eight bytes behind it are zero.
#[repr(C)]
pub struct Semaphore {
    /// How many P go through.
    pub count: i32,
    /// Who waits.
    pub waiters: Ranked<ThreadRef>,
    pub mutex: bool,
    /// Nobody can give any more: who waits is being let go.
    pub dying: bool,
    pub reserved: u16,
    pub owner: Option<Owner>,
    /// Portals to it.
    pub holders: u32,
    /// Its place among its owner's contended mutexes.
    pub place: Place<SemaphoreRef>,
}

/// A thread, and which of all that ever were: so an owner that is gone is told from one that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub thread: ThreadRef,
    pub birth: u64,
}

/// Waiting threads that one entry lets go when a semaphore ends.
const SHARE: usize = 2;

impl<A: Arch> Kernel<A> {
    /// `current::SEMAPHORE_CREATE`: w0 count, w1 kind, w2 slot, w3 owner.
    pub(crate) fn semaphore_create(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let d = self.threads[t].domain;
        let mutex = w[1] == semaphore::MUTEX;
        let most = if mutex { 1 } else { i32::MAX as u64 };
        if w[0] > most || w[1] > semaphore::MUTEX || w[3] != 0 && (!mutex || w[0] != 0) {
            return Err(Error::BadArgument.into());
        }
        let owner = match (mutex && w[0] == 0, w[3]) {
            (false, _) => None,
            (true, 0) => Some(t),
            (true, id) => Some(self.thread_in(d, id)?),
        };
        if !self.semaphores.room(1) {
            return Err(Error::NoMemory.into());
        }
        let slot = self.make_place(d, w[2])?;
        let semaphore = Semaphore {
            count: if mutex { 0 } else { w[0] as i32 },
            waiters: Ranked::default(),
            mutex,
            dying: false,
            reserved: 0,
            owner: owner.map(|thread| self.owner(thread)),
            holders: 0,
            place: Place::new(),
        };
        let s = self.semaphores.insert(semaphore).ok_or(Error::NoMemory)?;
        let rights = rights::ALL & !rights::INHERIT;
        let target = Target::to(PortalKind::Semaphore, s, rights);
        self.place_made(t, slot, target);
        Ok(())
    }

    fn owner(&self, thread: ThreadRef) -> Owner {
        let birth = self.threads[thread].birth;
        Owner { thread, birth }
    }

    /// Who owns the mutex, if that thread lives.
    #[inline(never)]
    pub(crate) fn living_owner(&self, s: SemaphoreRef) -> Option<ThreadRef> {
        let Owner { thread, birth } = self.semaphores[s].owner?;
        let found = &self.threads[thread];
        (found.birth == birth && found.state != State::Dead).then_some(thread)
    }

    /// Code of a portal to a semaphore.
    pub(crate) fn semaphore_service(
        &mut self,
        t: ThreadRef,
        target: Target,
        operation: u8,
    ) -> Answer {
        let s = self.semaphores.of(target);
        let needs = |right| {
            if target.may(right) {
                Ok(())
            } else {
                Err(Error::NoRight)
            }
        };
        match operation {
            semaphore::P => {
                needs(rights::CALL)?;
                let answer = self.semaphore_p(t, s);
                self.disarm_on_error(t, answer)
            }
            semaphore::V => {
                needs(rights::NOTIFY)?;
                Ok(self.semaphore_v(t, s)?)
            }
            semaphore::V_THEN_P => {
                needs(rights::NOTIFY)?;
                let slot = self.threads[t].registers.rdi;
                let other = self.own_object(t, slot, PortalKind::Semaphore, rights::CALL)?;
                if self.hand_on(t, s, other) {
                    return Err(Stop::Left);
                }
                self.semaphore_v(t, s)?;
                let answer = self.semaphore_p(t, other);
                self.disarm_on_error(t, answer)
            }
            semaphore::INFO => {
                let semaphore = &self.semaphores[s];
                let (count, waits) = (semaphore.count, semaphore.waiters.first().is_some());
                let free = semaphore.mutex && semaphore.owner.is_none();
                let owner = self.living_owner(s).map_or(0, |o| self.threads.id(o));
                self.answer(t, 0, count as u64 | free as u64);
                self.answer(t, 1, waits as u64);
                self.answer(t, 2, owner as u64);
                Ok(())
            }
            _ => Err(Error::BadOperation.into()),
        }
    }

    /// V_THEN_P where one waits for the first and the second is not to be had: the one goes on in the other's place. False: nothing has changed, take the general way.
    #[inline]
    fn hand_on(&mut self, t: ThreadRef, s: SemaphoreRef, other: SemaphoreRef) -> bool {
        let (from, to) = (&self.semaphores[s], &self.semaphores[other]);
        let thread = &self.threads[t];
        let Some(next) = from.waiters.first() else {
            return false;
        };
        if from.mutex
            || to.mutex
            || to.dying
            || to.count != 0
            || s == other
            || thread.poked
            || thread.registers.rax & flag::POLL != 0
        {
            return false;
        }
        self.semaphore_leave(s, next);
        self.threads[next].registers.rax = 0;
        self.disarm(next);
        self.charge();
        self.semaphore_wait(t, other);
        self.dispatch.slice_end = 0;
        self.hand_over(next);
        true
    }

    /// The current thread is in the queue from now on.
    #[inline]
    fn semaphore_wait(&mut self, t: ThreadRef, s: SemaphoreRef) {
        let thread = &mut self.threads[t];
        thread.state = State::Waiting;
        thread.waits = Some(s);
        let priority = thread.effective;
        let waiters = &mut self.semaphores[s].waiters;
        waiters.push(&mut self.threads, t, priority);
        self.join_waiting(t);
        self.arm(t);
    }

    /// P of the current thread.
    #[inline]
    fn semaphore_p(&mut self, t: ThreadRef, s: SemaphoreRef) -> Answer {
        let semaphore = &mut self.semaphores[s];
        if semaphore.count > 0 {
            semaphore.count -= 1;
            self.disarm(t);
            return Ok(());
        }
        if semaphore.dying {
            return Err(Error::Dead.into());
        }
        let mutex = semaphore.mutex;
        if mutex {
            let owner = semaphore.owner;
            if owner.is_none() || self.living_owner(s).is_none() && !self.bequeathing(s) {
                self.semaphores[s].owner = Some(self.owner(t));
                self.disarm(t);
                return match owner {
                    None => Ok(()),
                    Some(_) => Err(Error::OwnerDead.into()),
                };
            }
        }
        if self.threads[t].registers.rax & flag::POLL != 0 {
            return Err(Error::TimedOut.into());
        }
        self.check_poked(t)?;
        if mutex && self.leads_to(self.living_owner(s), t) {
            return Err(Error::Cycle.into());
        }
        self.semaphore_wait(t, s);
        self.current_blocks();
        if mutex {
            self.contention_changed(s);
        }
        Err(Stop::Left)
    }

    /// Its owner is dead, and those who wait have not been served yet.
    fn bequeathing(&self, s: SemaphoreRef) -> bool {
        self.semaphores[s].waiters.first().is_some()
    }

    /// V of a thread.
    #[inline(never)]
    fn semaphore_v(&mut self, t: ThreadRef, s: SemaphoreRef) -> Result<(), Error> {
        if self.semaphores[s].mutex {
            if self.semaphores[s].owner != Some(self.owner(t)) {
                return Err(Error::Busy);
            }
            self.pass_on(s, 0);
            return Ok(());
        }
        self.semaphore_give(s)
    }

    /// V of a plain semaphore by whoever may: a thread, an interrupt. The error: it counts as far as it can already.
    pub(crate) fn semaphore_give(&mut self, s: SemaphoreRef) -> Result<(), Error> {
        match self.semaphores[s].waiters.first() {
            Some(next) => {
                self.semaphore_leave(s, next);
                self.finish(next, 0);
            }
            None => {
                let count = &mut self.semaphores[s].count;
                *count = count.checked_add(1).ok_or(Error::Busy)?;
            }
        }
        Ok(())
    }

    /// The owner gives a mutex back, or is dead: the first who waits has it, and goes on with this `rax`.
    fn pass_on(&mut self, s: SemaphoreRef, rax: u64) {
        let before = self.living_owner(s);
        self.unlist(s);
        let next = self.semaphores[s].waiters.first();
        self.semaphores[s].owner = next.map(|next| self.owner(next));
        if let Some(next) = next {
            self.semaphore_leave(s, next);
            self.list(s);
        }
        if let Some(before) = before {
            self.refresh(before);
        }
        if let Some(next) = next {
            // It was the most important one, so those that wait behind it do not lift it.
            self.finish(next, rax);
        }
    }

    /// `t` waits no longer.
    #[inline(never)]
    fn semaphore_leave(&mut self, s: SemaphoreRef, t: ThreadRef) {
        self.semaphores[s].waiters.remove(&mut self.threads, t);
        let thread = &mut self.threads[t];
        thread.waits = None;
        if let Some(r) = thread.through.take() {
            self.leave_waiting(t, r);
        }
    }

    /// [`Kernel::detach`] for a thread that waits at a semaphore: who owns it is not lifted by this one any more.
    pub(crate) fn semaphore_detach(&mut self, t: ThreadRef) {
        if let Some(s) = self.threads[t].waits {
            self.semaphore_leave(s, t);
            if self.semaphores[s].mutex {
                self.contention_changed(s);
            }
        }
    }

    /// The priority of a waiting thread is another now. Returns the owner, whose priority may change by that.
    pub(crate) fn semaphore_reorder(&mut self, t: ThreadRef, priority: u8) -> Option<ThreadRef> {
        let s = self.threads[t].waits?;
        let waiters = &mut self.semaphores[s].waiters;
        waiters.remove(&mut self.threads, t);
        waiters.push(&mut self.threads, t, priority);
        if !self.semaphores[s].mutex {
            return None;
        }
        self.unlist(s);
        self.list(s)
    }

    /// Other threads wait for a mutex than before.
    fn contention_changed(&mut self, s: SemaphoreRef) {
        self.unlist(s);
        if let Some(owner) = self.list(s) {
            self.refresh(owner);
        }
    }

    /// Out of the owner's queue of contended mutexes.
    fn unlist(&mut self, s: SemaphoreRef) {
        let semaphore = &self.semaphores[s];
        if let (true, Some(Owner { thread, .. })) = (semaphore.place.is_queued(), semaphore.owner) {
            let contended = &mut self.threads[thread].contended;
            contended.remove(&mut self.semaphores, s);
            self.threads[thread].lifted = self.threads[thread].contended.first().is_some();
        }
    }

    /// Into it, at the priority of the most important thread that waits. Returns the owner, if it lives or is dead and that mutex was not passed on yet.
    fn list(&mut self, s: SemaphoreRef) -> Option<ThreadRef> {
        let semaphore = &self.semaphores[s];
        if let (Some(first), Some(owner)) = (semaphore.waiters.first(), semaphore.owner) {
            let rank = self.threads[first].place.rank();
            let thread = &mut self.threads[owner.thread];
            thread.contended.push(&mut self.semaphores, s, rank);
            thread.lifted = true;
            self.unusual(owner.thread);
            return Some(owner.thread);
        }
        self.living_owner(s)
    }

    /// What the thread's most important contended mutex asks for.
    #[inline]
    pub(crate) fn contended_priority(&self, t: ThreadRef) -> u8 {
        match self.threads[t].contended.first() {
            Some(s) => self.semaphores[s].place.rank(),
            None => 0,
        }
    }

    /// The first of a dead thread's contended mutexes goes to its next owner. If there are more, the timer goes on.
    pub(crate) fn bequeath(&mut self, t: ThreadRef) {
        if let Some(s) = self.threads[t].contended.first() {
            self.pass_on(s, Error::OwnerDead as u64);
            if self.threads[t].lifted {
                self.mourn(t);
            }
        }
    }

    /// A portal to it is being closed. If it is the last one, those who wait go, in shares. False: there may be more.
    pub(crate) fn semaphore_close(&mut self, target: Target) -> bool {
        let s = self.semaphores.of(target);
        if self.semaphores[s].holders != 1 {
            return true;
        }
        self.semaphores[s].dying = true;
        for _ in 0..SHARE {
            let Some(t) = self.semaphores[s].waiters.first() else {
                return true;
            };
            self.detach(t);
            self.finish(t, Error::Dead as u64);
        }
        self.semaphores[s].waiters.first().is_none()
    }

    /// Does `from` wait, over any number of others, for `t`? Where more than [`CHAIN`] wait in a row nobody looks further, and the answer is yes: a longer ring would never be
    /// found, and a longer chain would not be lifted. A ring without `t` is none of its business (somebody may yet answer one that was put off).
    pub(crate) fn leads_to(&self, from: Option<ThreadRef>, t: ThreadRef) -> bool {
        let mut next = from;
        let mut passed = None;
        for step in 0..CHAIN {
            let Some(at) = next else {
                return false;
            };
            if at == t {
                return true;
            }
            if passed == Some(at) {
                return false;
            }
            if step.is_power_of_two() {
                passed = Some(at);
            }
            next = self.waits_for(at);
        }
        next.is_some()
    }

    /// Whose work the thread waits for.
    fn waits_for(&self, t: ThreadRef) -> Option<ThreadRef> {
        let thread = &self.threads[t];
        match (thread.state, thread.channel) {
            // Whoever works for it need not be the one who serves the channel by now.
            (State::Held, Some(c)) => thread.server.or(self.channels[c].server),
            (State::Sending, Some(c)) => self.channels[c].server,
            (State::Waiting, _) => self.living_owner(thread.waits?),
            _ => None,
        }
    }
}
