//! Entries in one piece: the frequent ones from their beginning to the thread that runs then, without a look at what is rare. [`crate::short`] has the messages among them; here are what
//! leads there, notifications of a thread that waits and is more important, copies of one piece of memory, exceptions and the return from their handler.
//!
//! Each of these finds out first that nothing rare comes in. If something does it has changed nothing and goes on in the general way, which does the same for all cases; the tests compare the two.

use crate::arch::Arch;
use crate::copy::OPENING;
use crate::dispatch::Dispatch;
use crate::domain::Domain;
use crate::pool::{ChannelRef, DomainRef, Handle, ThreadRef};
use crate::portal::table::Target;
use crate::pulse::set_pulse;
use crate::queue::List;
use crate::quick::SIGNED;
use crate::thread::{State, USER_FLAGS};
use crate::{handler, Kernel, Resume};
use cairn_abi::layout::{PAGE, USER_TOP};
use cairn_abi::machine::Counters;
use cairn_abi::service::receive;
use cairn_abi::state::upcall;
use cairn_abi::{flag, op, priority, pulse, rights, PortalKind};

/// Thread `t` of this domain, for which nothing unusual is pending, runs instead of the one that came in. False: bringing the processor to it takes more than a switch of spaces.
#[inline(always)]
pub(crate) fn straight_to<A: Arch>(
    (dispatch, arch, counters): (&mut Dispatch, &mut A, &mut Counters),
    domain: &Domain<A>,
    d: DomainRef,
    t: ThreadRef,
) -> bool {
    dispatch.current = Some(t);
    let owned = !domain.float || dispatch.owner == Some(t);
    if dispatch.preempt || !owned {
        return false;
    }
    counters.thread_switches += 1;
    dispatch.loaded = Some(t);
    if dispatch.loaded_domain.map_or(0, Handle::number) != d.number() {
        dispatch.loaded_domain = Some(d);
        arch.activate(domain.root);
        arch.enter_domain(domain.turn_base, (&raw const *domain).cast());
    }
    true
}

impl<A: Arch> Kernel<A> {
    /// The current thread traverses an entry with this target.
    #[inline(always)]
    pub fn traversal(&mut self, t: ThreadRef, target: Target) -> Resume {
        match target.kind() {
            PortalKind::Channel if self.short_way => A::whole(self.channel_right(target)),
            PortalKind::Receive if self.short_way => A::whole(self.receive_right(target.object())),
            PortalKind::Receive => {
                self.counters.entries += 1;
                self.receive_other(t, self.channels.of(target))
            }
            PortalKind::Memory if target.may(rights::CONTROL) => self.memory_right(target),
            _ => {
                self.counters.entries += 1;
                self.other_entry(t, target)
            }
        }
    }

    #[inline(never)]
    pub(crate) fn other_entry(&mut self, t: ThreadRef, target: Target) -> Resume {
        let answer = handler::traverse(self, target, t);
        self.complete(t, answer)
    }

    /// An entry in which the current thread traverses a portal to a channel, with the short ways allowed and the general path's end ([`Resume::full`]) to be looked at.
    #[inline(never)]
    pub fn channel_right(&mut self, target: Target) -> Resume {
        // All that a call on the short way must not have, and what makes it another operation.
        const GENERAL: u64 =
            0xff << 32 | flag::PORTALS_MASK | flag::OUT_VECTOR | flag::IN_VECTOR | flag::PROMPT;
        const _: () = assert!(op::CALL == 0);
        self.counters.entries += 1;
        let Some(t) = self.dispatch.current else {
            return self.resume();
        };
        let rights = target.rights();
        let rax = self.threads[t].registers.rax;
        let done = if rax & GENERAL == 0 {
            if rights & (rights::CALL | rights::ONCE) == rights::CALL {
                self.call_by(t, target)
            } else {
                None
            }
        } else if (rax >> 32) as u8 == op::NOTIFY
            && rights & (rights::NOTIFY | rights::ONCE) == rights::NOTIFY
        {
            self.notify_short(t, target)
        } else {
            None
        };
        match done {
            Some(resume) => resume,
            None => self.other_entry(t, target),
        }
    }

    /// [`Kernel::call_short`] through this portal.
    #[inline(always)]
    fn call_by(&mut self, t: ThreadRef, target: Target) -> Option<Resume> {
        let portal = self.portals.at(target);
        let badge = portal.badge;
        let receiver = self.plain_receiver(portal.channel)?;
        self.call_short(t, receiver, badge)
    }

    /// `t`, on whose behalf nobody works, notifies a channel where one thread waits plainly that is more important than it and whoever is ready: that one runs at once. None: nothing was done.
    #[inline(always)]
    fn notify_short(&mut self, t: ThreadRef, target: Target) -> Option<Resume> {
        let portal = self.portals.at(target);
        let badge = portal.badge;
        let id = portal.channel;
        let found = self.plain_receiver(id);
        let (c, r) = found.or_else(|| self.plain_receiver_as(id, id ^ SIGNED))?;
        // Where somebody waits no pulse does, so the portal has gathered nothing.
        debug_assert!(!portal.notified && !portal.pulse.is_queued());
        let (from, to) = self.threads.pair(t, r);
        let domain = &self.domains[to.domain];
        // As `pulse_post` has it.
        let told = match self.domains[from.domain].is_program() {
            // (Beyond the greatest it is for the general path.)
            true => from.assigned.max(priority::NORMAL).wrapping_add(1),
            false => u8::MAX,
        };
        let effective = to.effective.min(told);
        if from.is_unusual()
            || domain.stops != 0
            || from.client.is_some()
            || from.behalf < from.base
            || effective <= from.effective
            || effective as i16 <= self.dispatch.ready.top()
        {
            return None;
        }
        (to.behalf, to.effective) = (told, effective);
        let channel = &mut self.channels[c];
        channel.plain = 0;
        channel.receivers = List::default();
        let value = from.registers.rdi;
        from.registers.rax = 0;
        set_pulse(&mut to.registers, badge, [pulse::NOTIFY, value, 0, 0]);
        to.channel = None;
        to.state = State::Running;
        // It pays for what it did, and goes on when its turn comes.
        let now = self.arch.ticks();
        let spent = now.saturating_sub(self.dispatch.since);
        self.dispatch.since = now;
        from.ticks += spent;
        self.domains[from.domain].ticks += spent;
        self.set_back(t);
        self.dispatch.slice_end = 0;
        let to = &mut self.threads[r];
        let domain = &self.domains[to.domain];
        let processor = (&mut self.dispatch, &mut self.arch, &mut self.counters);
        if !straight_to(processor, domain, to.domain, r) {
            return Some(self.leave());
        }
        Some(Resume {
            full: A::own_words(&to.registers),
            registers: &mut to.registers,
        })
    }

    /// An entry in which the current thread does something with the receive right of a channel, otherwise as [`Kernel::channel_right`].
    #[inline(never)]
    pub fn receive_right(&mut self, channel: u32) -> Resume {
        self.counters.entries += 1;
        let Some(t) = self.dispatch.current else {
            return self.resume();
        };
        let c = self.channels.handle(channel);
        let operation = self.operation(t);
        if operation != receive::REPLY_RECEIVE
            && !(operation == receive::DISPATCH && self.pass_turn(t, c))
        {
            return self.receive_other(t, c);
        }
        match self.reply_plain(t, c) {
            Some(resume) => resume,
            None => self.reply_other(t, c),
        }
    }

    #[inline(never)]
    fn receive_other(&mut self, t: ThreadRef, c: ChannelRef) -> Resume {
        let answer = self.receive_traversal(c, t);
        self.complete(t, answer)
    }

    #[inline(never)]
    fn reply_other(&mut self, t: ThreadRef, c: ChannelRef) -> Resume {
        if self.reply_short(t, c) {
            self.leave()
        } else {
            self.receive_other(t, c)
        }
    }

    /// Copy between `t`'s memory and the one out (or in) part of a caller: offset there, own address, length, of which no more than the part has. How many bytes; None: none.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn copy_part(
        &mut self,
        t: ThreadRef,
        caller: ThreadRef,
        out: bool,
        (offset, address, len): (u64, u64, u64),
        open: bool,
    ) -> Option<u64> {
        let from = &self.threads[caller];
        let (base, len) = from.piece(out, offset, len)?;
        let theirs = (self.domains[from.domain].root, base);
        let ours = (self.root_of(t), address);
        let (source, destination) = if out { (theirs, ours) } else { (ours, theirs) };
        self.copy_short(source, destination, len, open)?;
        Some(len)
    }

    /// Copy a page's length or less. Interrupts may come in if the running thread may be taken for interrupted.
    pub fn copy_short(
        &mut self,
        source: (A::Root, u64),
        destination: (A::Root, u64),
        len: u64,
        open: bool,
    ) -> Option<()> {
        if len > PAGE {
            return None;
        }
        let (arch, bytes) = (&mut self.arch, len as usize);
        let near = (len <= OPENING || !open) && arch.copy_near(source, destination, bytes);
        if !near {
            arch.copy(source, destination, bytes, open).ok()?;
        }
        self.counters.bytes_copied += len;
        Some(())
    }

    /// An exception of the current thread that its domain's upcall entry takes. None: nothing was done.
    #[inline(always)]
    pub(crate) fn except_short(
        &mut self,
        t: ThreadRef,
        vector: u64,
        error: u64,
        address: u64,
    ) -> Option<Resume> {
        let thread = &mut self.threads[t];
        let entry = self.domains[thread.domain].upcall_entry;
        if entry == 0 || thread.in_upcall || self.dispatch.preempt || !self.short_way {
            return None;
        }
        if self.dispatch.owner == Some(t) {
            self.arch.save_bases(&mut thread.registers);
        }
        A::copy_registers(&mut thread.saved, &thread.registers);
        thread.in_upcall = true;
        thread.measuring = false;
        let registers = &mut thread.registers;
        registers.rdi = upcall::EXCEPTION;
        registers.rsi = vector;
        registers.rdx = error;
        registers.r10 = address;
        registers.r8 = registers.rip;
        registers.r9 = 0;
        registers.rip = entry;
        registers.rflags = USER_FLAGS;
        thread.full = false;
        Some(Resume { full: 1, registers })
    }

    /// [`UPCALL_RETURN`](cairn_abi::service::current::UPCALL_RETURN) to what was saved, as an entry of its own. The machine layer has seen that the thread is in an upcall.
    pub fn upcall_over(&mut self) -> Resume {
        self.counters.entries += 1;
        let Some(t) = self.dispatch.current else {
            return self.resume();
        };
        self.go_back(t);
        let thread = &mut self.threads[t];
        if thread.poked || self.dispatch.preempt {
            return self.upcall_over_rare(t);
        }
        thread.full = false;
        Resume {
            full: 1,
            registers: &mut thread.registers,
        }
    }

    #[cold]
    #[inline(never)]
    fn upcall_over_rare(&mut self, t: ThreadRef) -> Resume {
        self.poked_in_upcall(t);
        self.leave()
    }

    /// The thread's registers are those again that it had when the upcall came.
    #[inline(never)]
    pub(crate) fn go_back(&mut self, t: ThreadRef) {
        let thread = &mut self.threads[t];
        A::copy_registers(&mut thread.registers, &thread.saved);
        // A processor may tell of an exception where no address can be (after a jump there): that the nucleus must not go to.
        let registers = &mut thread.registers;
        registers.rip = registers.rip.min(USER_TOP);
        if self.dispatch.owner == Some(t) {
            self.arch.load_bases(registers);
        }
        thread.in_upcall = false;
        thread.full = true;
    }
}
