//! The short way of messages: a call to a channel where a receiver waits, a reply (to a call or a fault) with nothing else to receive, a late reply, a receive
//! of nothing. All are what the general way in [`crate::ipc`] does, for the cases in which nothing rare comes in; when anything does they change nothing and say no.
//! The tests compare them with the general way.

use crate::arch::Arch;
use crate::ipc::NEXT_CALL;
use crate::pool::{ChannelRef, ThreadRef};
use crate::queue::List;
use crate::straight::straight_to;
use crate::thread::{Sending, State};
use crate::{Kernel, Resume};
use cairn_abi::state::Registers;
use cairn_abi::{fault, flag, received};

/// The message words go from one register set to the other.
#[inline(never)]
pub(crate) fn copy_words(source: &Registers, registers: &mut Registers) {
    registers.rdi = source.rdi;
    registers.rsi = source.rsi;
    registers.rdx = source.rdx;
    registers.r10 = source.r10;
    registers.r8 = source.r8;
    registers.r9 = source.r9;
    registers.r12 = source.r12;
    registers.r13 = source.r13;
}

impl<A: Arch> Kernel<A> {
    /// The thread that waits at the channel with this id, alone and with nothing unusual about it ([`crate::quick`]), and the channel, which has no signature.
    #[inline(always)]
    pub(crate) fn plain_receiver(&self, id: u32) -> Option<(ChannelRef, ThreadRef)> {
        self.plain_receiver_as(id, id)
    }

    /// The same, with what its `plain` must be.
    #[inline(always)]
    pub(crate) fn plain_receiver_as(&self, id: u32, plain: u32) -> Option<(ChannelRef, ThreadRef)> {
        let c = self.channels.place_of(id)?;
        let channel = &self.channels[c];
        // It would be 0 if the channel were going; and whoever waits plainly serves the channel.
        if channel.plain as u32 != plain {
            return None;
        }
        let r = channel.server?;
        debug_assert!({
            let thread = &self.threads[r];
            channel.receivers.first() == Some(r)
                && thread.link.is_alone()
                && thread.serving == Some(c)
                && !(thread.is_unusual() || thread.full)
                && thread.windows as u32 | thread.stops == 0
        });
        Some((c, r))
    }

    /// `t` calls channel `c` by a portal with this badge, where `r` waits plainly. None: nothing was done, take the general way.
    #[inline(always)]
    pub(crate) fn call_short(
        &mut self,
        t: ThreadRef,
        (c, r): (ChannelRef, ThreadRef),
        badge: u64,
    ) -> Option<Resume> {
        let (from, to) = self.threads.pair(t, r);
        let server = &self.domains[to.domain];
        let rax = from.registers.rax;
        let effective = from.effective;
        if from.is_unusual() || server.stops != 0 || (effective as i16) < self.dispatch.ready.top()
        {
            return None;
        }
        let channel = &mut self.channels[c];
        channel.plain = 0;
        channel.receivers = List::default();
        let mut parts = 0;
        if rax & flag::PARTS != 0 {
            let most = u32::MAX as u64;
            parts = from.registers.r15.min(most) | from.registers.rbp.min(most) << 32;
        }
        let token = from.token.wrapping_add(NEXT_CALL);
        from.token = token;
        from.badge = badge;
        from.parts = parts;
        from.sending = Sending::Message;
        from.state = State::Held;
        from.channel = Some(c);
        from.server = Some(r);
        let client = &self.domains[from.domain];
        let interruptible = (rax & flag::INTERRUPTIBLE)
            >> (flag::INTERRUPTIBLE.trailing_zeros() - received::INTERRUPTIBLE.trailing_zeros());
        to.registers.rax = (client.id as u64) << received::SENDER_SHIFT | interruptible;
        to.registers.rbx = badge;
        to.registers.rbp = token;
        to.registers.r14 = client.label;
        to.registers.r15 = parts;
        to.client = Some(t);
        to.channel = None;
        to.effective = effective;
        to.state = State::Running;
        let processor = (&mut self.dispatch, &mut self.arch, &mut self.counters);
        if !straight_to(processor, server, to.domain, r) {
            copy_words(&from.registers, &mut to.registers);
            return Some(self.leave());
        }
        Some(Resume {
            full: A::pass_words(&from.registers, &mut to.registers),
            registers: &mut to.registers,
        })
    }

    /// `t` replies to the message of the caller that it works for, with words alone, and receives on `c`, where nothing is to be had. None: nothing was done, take [`Kernel::reply_short`].
    #[inline(always)]
    pub(crate) fn reply_plain(&mut self, t: ThreadRef, c: ChannelRef) -> Option<Resume> {
        const MORE: u64 = flag::PARTS | flag::PORTALS_MASK | flag::POLL;
        // Its channel is the one that the thread serves.
        let caller = self.threads[t].client?;
        let channel = &mut self.channels[c];
        let (from, to) = self.threads.pair(t, caller);
        let client = &self.domains[to.domain];
        let rare = from.registers.rax & MORE
            | (to.windows as u32 | to.stops | client.stops) as u64
            | to.full as u64;
        let top = self.dispatch.ready.top();
        let effective = to.effective as i16;
        if rare != 0
            || from.is_unusual()
            || to.is_unusual()
            || from.registers.rbp != to.token
            || from.serving != Some(c)
            || to.sending != Sending::Message
            || to.pulse.is_queued()
            || channel.pulses.is_waiting()
            || !channel.senders.is_empty()
            || channel.dying
            || !channel.receivers.is_empty()
            || effective < top
        {
            return None;
        }
        debug_assert!(to.state == State::Held && to.channel == Some(c) && !to.put_off);
        to.registers.rax = 0;
        to.channel = None;
        to.server = None;
        to.state = State::Running;
        from.client = None;
        from.channel = Some(c);
        from.effective = from.base;
        from.state = State::Receiving;
        channel.plain = from.plain;
        channel.receivers.set_only(from, t);
        if effective == top {
            self.dispatch.contend();
        }
        let processor = (&mut self.dispatch, &mut self.arch, &mut self.counters);
        if !straight_to(processor, client, to.domain, caller) {
            copy_words(&from.registers, &mut to.registers);
            return Some(self.leave());
        }
        Some(Resume {
            full: A::pass_words(&from.registers, &mut to.registers),
            registers: &mut to.registers,
        })
    }

    /// `t` replies and receives on `c`: any reply that fits. False: take the general way; data of the reply may have been copied already, which does no harm.
    #[inline(never)]
    pub(crate) fn reply_short(&mut self, t: ThreadRef, c: ChannelRef) -> bool {
        let registers = &self.threads[t].registers;
        let rax = registers.rax;
        let Ok(caller) = self.caller(registers.rbp, c) else {
            return false;
        };
        // A fault that was resolved: its registers are as they shall be.
        let message = self.threads[caller].sending == Sending::Message;
        if rax & flag::POLL != 0 || !message && registers.rdi != fault::RESOLVED || !self.short_way
        {
            return false;
        }
        let channel = &self.channels[c];
        let (from, to) = self.threads.pair(t, caller);
        let rare = from.deadline
            | to.deadline
            | (from.poked | from.lifted | to.pulse.is_queued()) as u64
            | (to.poked | to.lifted) as u64
            | (to.windows as u32 | to.stops) as u64
            | self.domains[to.domain].stops as u64;
        // It works for this caller, or for none, and has put this one off.
        let late = to.put_off;
        let expected = if late { None } else { Some(caller) };
        if rare != 0
            || from.client != expected
            || late && to.server.is_some()
            || channel.pulses.is_waiting()
            || !channel.senders.is_empty()
            || channel.dying
            || from.serving != Some(c)
            || (to.effective as i16) < self.dispatch.ready.top()
        {
            return false;
        }
        if message {
            const EXTRAS: u64 = flag::PARTS | flag::PORTALS_MASK;
            let mut answer = 0;
            let mut last = from.registers.word(7);
            if rax & EXTRAS != 0 {
                match self.reply_extras(t, caller, c) {
                    Some(extras) => answer = extras,
                    None => return false,
                }
                last = self.threads[caller].registers.word(7);
            }
            let (from, to) = self.threads.pair(t, caller);
            copy_words(&from.registers, &mut to.registers);
            to.registers.set_word(7, last);
            to.registers.rax = answer;
        }
        if late {
            // (There is one core, where short ways are taken.)
            self.charge_here();
            self.unhold(caller, c);
        }
        let (from, to) = self.threads.pair(t, caller);
        to.channel = None;
        to.server = None;
        to.state = State::Running;
        from.client = None;
        from.channel = Some(c);
        from.effective = from.base;
        from.state = State::Receiving;
        self.add_plain_receiver(c, t);
        self.dispatch.current = Some(caller);
        self.compete(caller);
        true
    }

    /// `t` became current: is another of its priority ready?
    #[inline(always)]
    fn compete(&mut self, t: ThreadRef) {
        if self.threads[t].effective as i16 == self.dispatch.ready.top() {
            self.dispatch.contend();
        }
    }

    /// `t` answers the caller that it works for, or one that it put off, and goes on. False: take the general way.
    #[inline(always)]
    pub(crate) fn reply_late_short(&mut self, t: ThreadRef, c: ChannelRef) -> bool {
        let registers = &self.threads[t].registers;
        let rax = registers.rax;
        let Ok(caller) = self.caller(registers.rbp, c) else {
            return false;
        };
        if rax & flag::PORTALS_MASK != 0
            || self.threads[caller].sending != Sending::Message
            || self.threads[caller]
                .server
                .is_some_and(|server| server != t)
            || self.channels[c].dying
            || !self.short_way
        {
            return false;
        }
        if rax & flag::PARTS != 0 && !self.reply_data_short(t, caller) {
            return false;
        }
        let (from, to) = self.threads.pair(t, caller);
        if to.deadline | to.windows as u64 != 0 || to.pulse.is_queued() {
            return false;
        }
        copy_words(&from.registers, &mut to.registers);
        to.registers.rax = 0;
        to.channel = None;
        if to.server.take().is_some() {
            self.serve_no_longer(t, caller);
            self.charge_to(caller);
            self.refresh(t);
        }
        self.unhold(caller, c);
        self.wake(caller);
        true
    }

    /// `t` receives where nothing is to be had. False: take the general way.
    #[inline(always)]
    pub(crate) fn receive_short(&mut self, t: ThreadRef, c: ChannelRef) -> bool {
        let channel = &self.channels[c];
        let thread = &mut self.threads[t];
        let rare = thread.registers.rax & flag::POLL
            | thread.deadline
            | (thread.poked | thread.lifted) as u64;
        if rare != 0
            || thread.serving != Some(c)
            || channel.pulses.is_waiting()
            || !channel.senders.is_empty()
            || channel.dying
            || !self.short_way
        {
            return false;
        }
        thread.state = State::Receiving;
        thread.channel = Some(c);
        thread.effective = thread.base;
        let charged = thread.client.is_some();
        self.end_service(t);
        self.add_plain_receiver(c, t);
        self.current_blocks();
        if let Some(next) = self.dispatch.ready.first() {
            if !self.is_stopped(next) {
                if !charged {
                    self.charge();
                }
                let priority = self.threads[next].effective;
                let ready = &mut self.dispatch.ready;
                ready.remove(&mut self.threads, next, priority);
                self.threads[next].state = State::Running;
                self.dispatch.current = Some(next);
                self.dispatch.slice_end = 0;
                self.dispatch.preempt = false;
                self.compete(next);
            }
        }
        true
    }
}
