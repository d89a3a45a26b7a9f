//! The services of slot 0: what a thread may do to itself and to its own portal table.

use crate::arch::Arch;
use crate::pool::{DomainRef, ThreadRef};
use crate::portal::is_bound;
use crate::portal::table::Target;
use crate::thread::State;
use crate::{Answer, Kernel, Stop};
use cairn_abi::service::{current, AUTO};
use cairn_abi::{death, rights, Error, PortalKind};

impl<A: Arch> Kernel<A> {
    pub(crate) fn current_service(&mut self, t: ThreadRef, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        let d = self.threads[t].domain;
        match operation {
            current::IDENTITY => {
                let id = self.threads.id(t);
                let (domain, label) = (self.domains[d].id, self.domains[d].label);
                self.answer(t, 0, id as u64);
                self.answer(t, 1, domain as u64);
                self.answer(t, 2, label);
                Ok(())
            }
            current::YIELD => {
                self.threads[t].registers.rax = 0;
                self.give_way();
                Err(Stop::Left)
            }
            current::EXIT => {
                self.kill(t, death::EXIT, w[0]);
                Err(Stop::Left)
            }
            current::SLEEP => {
                self.disarm(t);
                if w[0] <= self.arch.now() {
                    return Ok(());
                }
                self.check_poked(t)?;
                self.threads[t].deadline = w[0];
                self.block(t, State::Sleeping);
                Err(Stop::Left)
            }
            current::DEADLINE => {
                self.threads[t].deadline = w[0];
                Ok(())
            }
            current::CLOCK => {
                let now = self.arch.now();
                self.answer(t, 0, now);
                Ok(())
            }
            current::PARK => {
                if core::mem::take(&mut self.threads[t].permit) {
                    self.disarm(t);
                    return Ok(());
                }
                if let Err(error) = self.check_poked(t) {
                    self.disarm(t);
                    return Err(error.into());
                }
                self.block(t, State::Parked);
                Err(Stop::Left)
            }
            current::UNPARK => {
                let target = self.thread_in(d, w[0])?;
                if self.threads[target].state == State::Parked {
                    self.finish(target, 0);
                } else {
                    self.threads[target].permit = true;
                }
                Ok(())
            }
            current::PORTAL_CLOSE => {
                if w[0] == 0 {
                    return Err(Error::BadArgument.into());
                }
                let target = self.own_entry(t, w[0])?;
                self.close(d, w[0] as u32, target)
            }
            current::PORTAL_COPY => self.portal_copy(t, w),
            current::PORTAL_INFO => self.portal_info(t, w[0]),
            current::UPCALL_READ => {
                if !self.threads[t].in_upcall {
                    return Err(Error::Busy.into());
                }
                self.write_own_registers(t, w[0], self.threads[t].saved)
            }
            current::UPCALL_RETURN => self.upcall_return(t, w[0]),
            current::UPCALL_DROP => {
                if !core::mem::take(&mut self.threads[t].in_upcall) {
                    return Err(Error::Busy.into());
                }
                Ok(())
            }
            current::POKE_TAKE => {
                let poked = core::mem::take(&mut self.threads[t].poked);
                self.answer(t, 0, poked as u64);
                Ok(())
            }
            current::CHANNEL_CREATE => {
                self.check_slot(t, AUTO)?;
                let channel = self.channel_create()?;
                let slot = self.make_place(d, AUTO)?;
                let rights = rights::CALL | rights::PASS | rights::CONTROL;
                let target = Target::to(PortalKind::Receive, channel, rights);
                self.place_made(t, slot, target);
                Ok(())
            }
            current::PORTAL_DERIVE => self.portal_derive(t, w, None),
            current::PORTAL_OPEN => self.portal_open(t, w),
            current::PORTAL_REVOKE => self.portal_revoke(t, w[0]),
            current::SEMAPHORE_CREATE => self.semaphore_create(t, w),
            current::WINDOW_CREATE => self.window_create(t, w),
            current::WINDOW_REVOKE => self.window_revoke(t, w[0], w[1]),
            current::COUNTERS => self.write_counters(t, w[0]),
            current::THREAD_ALIVE => {
                let alive = self.thread_in(d, w[0]).is_ok();
                self.answer(t, 0, alive as u64);
                Ok(())
            }
            current::AFFINITY => {
                let target = if w[0] == 0 {
                    t
                } else {
                    self.thread_in(d, w[0])?
                };
                if w[1] != 0 {
                    self.set_affinity(t, target, w[1])?;
                }
                let (thread, all) = (&self.threads[target], self.cores.all());
                let answer = [thread.core as u64, thread.affinity & all, all];
                self.answers(t, &answer);
                Ok(())
            }
            _ => Err(Error::BadOperation.into()),
        }
    }

    /// What the current thread's slot leads to, for whoever looks on.
    pub fn kind_of(&self, slot: u32) -> PortalKind {
        let current = self.dispatch.current;
        let target = current.and_then(|t| self.own_target(t, slot as u64).ok());
        target.map_or(PortalKind::Empty, |target| target.kind())
    }

    /// The current thread waits for nobody in particular.
    fn block(&mut self, t: ThreadRef, state: State) {
        self.threads[t].state = state;
        self.arm(t);
        self.current_blocks();
    }

    fn portal_copy(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let d = self.threads[t].domain;
        let source = self.own_entry(t, w[0])?;
        if is_bound(source.kind()) {
            return Err(Error::NoRight.into());
        }
        // A single use stays one.
        let once = source.rights() & rights::ONCE;
        let added = rights::CLOEXEC | self.once_for(source.kind());
        let kept = source.rights() & w[2] as u16 | w[2] as u16 & added | once;
        let target = source.with(kept);
        if w[1] == w[0] {
            // Onto itself: only the rights change.
            self.uncompile(d, w[0] as u32);
            self.domains[d].table.set_rights(w[0] as u32, kept);
            return Ok(());
        }
        self.place_copy(t, w, source, d, target)
    }

    /// The portal in the thread's slot of word 0 leads, as `target` with other rights, from the slot of domain `d` that word 1 wants as well; one for a single use moves.
    #[inline(never)]
    pub(crate) fn place_copy(
        &mut self,
        t: ThreadRef,
        w: [u64; 8],
        source: Target,
        d: DomainRef,
        target: Target,
    ) -> Answer {
        let slot = self.make_place(d, w[1])?;
        self.place(d, slot, target);
        if source.may(rights::ONCE) {
            self.close(self.threads[t].domain, w[0] as u32, source)?;
        }
        self.answer(t, 0, slot as u64);
        Ok(())
    }

    fn portal_info(&mut self, t: ThreadRef, slot: u64) -> Answer {
        let target = self.own_entry(t, slot)?;
        let kind = self.resolve(target).unwrap_or(target).kind();
        let holders = self.holders(target).map_or(0, |holders| *holders);
        let id = self.object_id(target);
        let mut badge = None;
        if target.kind() == PortalKind::Channel {
            let portal = &self.portals[self.portals.of(target)];
            if let Some(c) = self.channels.lookup(portal.channel) {
                if self.channels[c].home == Some(self.threads[t].domain) {
                    badge = Some(portal.badge);
                }
            }
        }
        let answer = [
            kind as u64,
            target.rights() as u64,
            holders as u64,
            id,
            badge.unwrap_or(0),
            badge.is_some() as u64,
        ];
        self.answers(t, &answer);
        Ok(())
    }

    fn upcall_return(&mut self, t: ThreadRef, address: u64) -> Answer {
        if address == 0 {
            if !self.threads[t].in_upcall {
                return Err(Error::Busy.into());
            }
            self.go_back(t);
        } else {
            self.read_own_registers(t, address, t)?;
            self.threads[t].in_upcall = false;
        }
        self.poked_in_upcall(t);
        Err(Stop::Left)
    }

    /// An upcall is over. A poke that came meanwhile interrupts the program, not the personality.
    pub(crate) fn poked_in_upcall(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        if thread.registers.rip < self.domains[thread.domain].turn_base {
            self.upcall_if_poked(t);
        }
    }
}
