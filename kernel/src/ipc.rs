//! Messages: call, receive, reply.
//!
//! When a call finds a receiver waiting the words go from one register set to the other, the caller is held, and the receiver runs at
//! once at the caller's priority. A reply with nothing else to receive goes back in the same manner. Neither touches the ready queue.
//! [`crate::short`] does these two cases once more, with what is rare left out.

use crate::arch::Arch;
use crate::pool::{ChannelRef, DomainRef, PortalRef, ThreadRef};
use crate::portal::is_bound;
use crate::portal::table::Target;
use crate::pulse::Node;
use crate::short::copy_words;
use crate::thread::{Sending, State};
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::MAX_SLOTS;
use cairn_abi::service::receive;
use cairn_abi::state::Registers;
use cairn_abi::{fault, flag, op, received, rights, Error, PortalKind, Token, MAX_PORTALS};

/// What a call adds to its thread's token: the upper half counts calls.
pub(crate) const NEXT_CALL: u64 = 1 << 32;

/// How many portals the message in these flags passes.
#[inline]
pub(crate) fn portal_count(rax: u64) -> usize {
    ((rax & flag::PORTALS_MASK) >> flag::PORTALS_SHIFT) as usize
}

/// Where portals of a message are in the table of who gets it: 16 bits for each, the last lowest.
#[derive(Clone, Copy, Default)]
struct Slots(u64);

const _: () = assert!(16 * MAX_PORTALS == 64 && MAX_SLOTS <= 1 << 16);

impl Slots {
    fn push(&mut self, slot: u32) {
        self.0 = self.0 << 16 | slot as u64;
    }

    /// In the last `n` words.
    #[inline]
    fn tell(mut self, registers: &mut Registers, n: usize) {
        for i in (8 - n..8).rev() {
            registers.set_word(i, self.0 & 0xffff);
            self.0 >>= 16;
        }
    }
}

impl<A: Arch> Kernel<A> {
    /// Code of a portal to a channel.
    #[inline]
    pub(crate) fn channel_traversal(&mut self, target: Target, t: ThreadRef) -> Answer {
        match self.operation(t) {
            op::CALL => {
                if !target.may(rights::CALL) {
                    return Err(Error::NoRight.into());
                }
                let slot = self.threads[t].registers.rax as u32;
                let answer = self.call(t, self.portals.of(target));
                if target.may(rights::ONCE) {
                    self.called_once(t, slot, target, answer);
                }
                self.disarm_on_error(t, answer)
            }
            op::NOTIFY => {
                if !target.may(rights::NOTIFY) {
                    return Err(Error::NoRight.into());
                }
                let value = self.threads[t].registers.rdi;
                let slot = self.threads[t].registers.rax as u32;
                let once = target.may(rights::ONCE);
                self.notify(self.portals.of(target), value)?;
                if once {
                    self.use_up(t, slot, target);
                }
                Ok(())
            }
            _ => Err(Error::BadOperation.into()),
        }
    }

    /// A call through a portal for single use: if it was made, that was the one.
    fn called_once(&mut self, t: ThreadRef, slot: u32, target: Target, answer: Answer) {
        let thread = &self.threads[t];
        let made = answer == Err(Stop::Left) && thread.sending == Sending::Message;
        match thread.state {
            State::Sending | State::Held if made => self.use_up(t, slot, target),
            _ => {}
        }
    }

    #[inline]
    fn call(&mut self, t: ThreadRef, r: PortalRef) -> Answer {
        let portal = &self.portals[r];
        let badge = portal.badge;
        let Some(c) = self.channels.lookup(portal.channel) else {
            return Err(self.why_stale(r).into());
        };
        let thread = &mut self.threads[t];
        let rax = thread.registers.rax;
        thread.badge = badge;
        thread.sending = Sending::Message;
        thread.parts = 0;
        const RARE: u64 = flag::PARTS | flag::PORTALS_MASK | flag::INTERRUPTIBLE;
        if rax & RARE != 0 {
            if rax & flag::PARTS != 0 {
                self.threads[t].parts = self.measure_parts(t)?;
            }
            let n = portal_count(rax);
            if n != 0 {
                self.check_passed(t, n, rax & flag::MOVE != 0)?;
            }
            self.check_poked(t)?;
        }
        self.send(t, c, Some(r))?;
        Err(Stop::Left)
    }

    /// The current thread's message or fault goes to channel `c`, through a portal if it is a message: it waits from now on.
    pub(crate) fn send(
        &mut self,
        t: ThreadRef,
        c: ChannelRef,
        through: Option<PortalRef>,
    ) -> Result<(), Error> {
        match self.channels[c].receivers.first() {
            Some(r) => {
                self.deliver(t, r, c)?;
                self.remove_receiver(c, r);
                self.hold(t, r, c);
                self.disarm(r);
                self.serve(r, c);
                // Nothing queues where a receiver waits: its priority is the caller's.
                self.threads[r].effective = self.threads[t].effective;
                if self.threads[r].lifted {
                    self.threads[r].effective = self.deserved(r);
                }
                self.threads[r].channel = None;
                self.arm(t);
                self.prompt(t);
                self.hand_over(r);
            }
            None => {
                if self.leads_to(self.channels[c].server, t) {
                    return Err(Error::Cycle);
                }
                // Looked at once more when it is delivered.
                self.signed_word(t, c)?;
                let thread = &mut self.threads[t];
                thread.state = State::Sending;
                thread.channel = Some(c);
                let priority = thread.effective;
                let channel = &mut self.channels[c];
                channel.senders.push_back(&mut self.threads, t, priority);
                let server = channel.server;
                if let Some(r) = through {
                    self.join_callers(t, r);
                }
                self.arm(t);
                self.current_blocks();
                if let Some(server) = server {
                    self.refresh(server);
                }
            }
        }
        Ok(())
    }

    /// The token of a thread's next call.
    #[inline]
    fn next_token(&mut self, t: ThreadRef) -> Token {
        let token = &mut self.threads[t].token;
        *token = token.wrapping_add(NEXT_CALL);
        *token
    }

    /// The caller behind a token that channel `c` holds.
    #[inline(always)]
    pub(crate) fn caller(&self, token: Token, c: ChannelRef) -> Result<ThreadRef, Error> {
        self.held_with(token, c).ok_or(Error::BadToken)
    }

    #[inline(never)]
    fn held_with(&self, token: Token, c: ChannelRef) -> Option<ThreadRef> {
        // No slot that is given back holds a thread in this state.
        let t = self.threads.place_of(token as u32)?;
        let thread = &self.threads[t];
        let is_it =
            thread.state == State::Held && thread.channel == Some(c) && thread.token == token;
        is_it.then_some(t)
    }

    /// Write sender `s`'s message to `c` into receiver `r`'s registers. On error nothing has changed; the error is the sender's.
    #[inline]
    fn deliver(&mut self, s: ThreadRef, r: ThreadRef, c: ChannelRef) -> Result<(), Error> {
        if self.threads[s].sending != Sending::Message {
            self.deliver_fault(s, r);
            return Ok(());
        }
        let signed = self.signed_word(s, c)?;
        let rax = self.threads[s].registers.rax;
        let n = portal_count(rax);
        let slots = if n != 0 {
            self.pass(s, r, n, rax & flag::MOVE != 0)?
        } else {
            Slots::default()
        };
        let token = self.next_token(s);
        let domain = &self.domains[self.threads[s].domain];
        let (sender, label) = (domain.id as u64, domain.label);
        let (from, to) = self.threads.pair(s, r);
        let registers = &mut to.registers;
        copy_words(&from.registers, registers);
        if let Some(word) = signed {
            registers.set_word(7, word);
        }
        registers.rbx = from.badge;
        registers.rbp = token;
        registers.r14 = label;
        registers.r15 = from.parts;
        let interruptible = if rax & flag::INTERRUPTIBLE != 0 {
            received::INTERRUPTIBLE
        } else {
            0
        };
        registers.rax = sender << received::SENDER_SHIFT
            | (n as u64) << received::PORTALS_SHIFT
            | interruptible;
        slots.tell(registers, n);
        Ok(())
    }

    fn deliver_fault(&mut self, s: ThreadRef, r: ThreadRef) {
        let token = self.next_token(s);
        let id = self.threads.id(s) as u64;
        let waits = self.domains[self.threads[s].domain].id as u64;
        let (from, to) = self.threads.pair(s, r);
        let report = &from.fault;
        to.registers.set_words([
            report.address,
            report.bits,
            from.registers.rip,
            id,
            waits,
            0,
            0,
            0,
        ]);
        to.registers.rbx = from.badge;
        to.registers.rbp = token;
        to.registers.r14 = report.label;
        to.registers.r15 = 0;
        to.registers.rax = (report.domain as u64) << received::SENDER_SHIFT
            | (received::kind::FAULT as u64) << received::KIND_SHIFT;
    }

    /// `t`'s message was delivered to `r`: it waits for the reply, and `r` works for it.
    #[inline]
    fn hold(&mut self, t: ThreadRef, r: ThreadRef, c: ChannelRef) {
        let thread = &mut self.threads[t];
        thread.state = State::Held;
        thread.channel = Some(c);
        thread.server = Some(r);
        self.threads[r].client = Some(t);
    }

    /// `t` is held from now on. If it called with PROMPT its server hears at once that it shall not wait.
    #[inline(always)]
    fn prompt(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        if thread.registers.rax & flag::PROMPT != 0 && thread.sending == Sending::Message {
            self.caller_interrupted(t);
        }
    }

    /// The caller that `server` works for goes to the list of its channel.
    fn put_off(&mut self, server: ThreadRef) {
        if let Some(client) = self.threads[server].client {
            let thread = &mut self.threads[client];
            if let (Some(c), false) = (thread.channel, thread.put_off) {
                thread.put_off = true;
                self.channels[c].held.push_front(&mut self.threads, client);
            }
        }
    }

    /// `t`, held by `c`, leaves the list, if it was there.
    #[inline]
    pub(crate) fn unhold(&mut self, t: ThreadRef, c: ChannelRef) {
        if self.threads[t].put_off {
            self.leave_held(t, c);
        }
    }

    #[inline(never)]
    fn leave_held(&mut self, t: ThreadRef, c: ChannelRef) {
        self.threads[t].put_off = false;
        self.channels[c].held.remove(&mut self.threads, t);
    }

    /// `t` is the one who receives from `c` now: callers that queue there lift it.
    #[inline]
    fn serve(&mut self, t: ThreadRef, c: ChannelRef) {
        if self.threads[t].serving != Some(c) {
            self.begin_serving(t, c);
        }
    }

    fn begin_serving(&mut self, t: ThreadRef, c: ChannelRef) {
        if let Some(old) = self.threads[t].serving.take() {
            self.channels[old].server = None;
        }
        if let Some(other) = self.channels[c].server.replace(t) {
            self.put_off(other);
            self.threads[other].serving = None;
            self.not_plain(other);
            self.refresh(other);
        }
        self.recover(t);
        self.threads[t].serving = Some(c);
        self.find_plain(t, c);
        self.channels[c].home = Some(self.threads[t].domain);
    }

    /// `t` works for its client no longer.
    #[inline]
    pub(crate) fn end_service(&mut self, t: ThreadRef) {
        if self.threads[t].client.is_some() {
            self.end_service_of_client(t);
        }
    }

    fn end_service_of_client(&mut self, t: ThreadRef) {
        self.charge();
        self.put_off(t);
        if let Some(client) = self.threads[t].client.take() {
            self.threads[client].server = None;
            self.recover(client);
        }
    }

    /// `t` serves no channel and no client.
    pub(crate) fn stop_serving(&mut self, t: ThreadRef) {
        self.end_service(t);
        if let Some(c) = self.threads[t].serving.take() {
            self.channels[c].server = None;
        }
    }

    /// RECEIVE.
    pub(crate) fn receive(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        if self.receive_short(t, c) {
            return Err(Stop::Left);
        }
        if self.channels[c].dying {
            return Err(Error::Dead.into());
        }
        self.end_service(t);
        self.threads[t].behalf = u8::MAX;
        self.serve(t, c);
        if self.channels[c].pulses.is_waiting() {
            self.take_pulse(t, c);
            self.disarm(t);
            self.refresh(t);
            return Err(Stop::Left);
        }
        let Some(s) = self.channels[c].senders.first() else {
            return self.receive_nothing(t, c);
        };
        let priority = self.threads[s].effective;
        self.channels[c]
            .senders
            .remove(&mut self.threads, s, priority);
        self.threads[s].channel = None;
        let passable = self.leave_callers(s);
        match passable.and_then(|()| self.deliver(s, t, c)) {
            Ok(()) => {
                // Until here it worked for itself.
                self.charge();
                self.hold(s, t, c);
                self.prompt(s);
                self.disarm(t);
                self.refresh(t);
                Err(Stop::Left)
            }
            // The next caller is for another entry: there may be many with which something is wrong.
            Err(error) => {
                self.finish(s, error as u64);
                self.refresh(t);
                Err(Stop::Restart)
            }
        }
    }

    fn receive_nothing(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        if self.threads[t].registers.rax & flag::POLL != 0 {
            self.refresh(t);
            return Err(Error::TimedOut.into());
        }
        if let Err(error) = self.check_poked(t) {
            self.refresh(t);
            return Err(error.into());
        }
        self.block_receiving(t, c);
        self.current_blocks();
        Err(Stop::Left)
    }

    /// `t` waits at `c`, where nothing is to be had.
    #[inline]
    fn block_receiving(&mut self, t: ThreadRef, c: ChannelRef) {
        let thread = &mut self.threads[t];
        thread.state = State::Receiving;
        thread.channel = Some(c);
        thread.effective = thread.base;
        if thread.lifted {
            self.threads[t].effective = self.deserved(t);
        }
        self.threads[t].receive_slot = self.threads[t].registers.rax as u32;
        self.add_receiver(c, t);
        self.arm(t);
    }

    /// REPLY.
    #[inline(never)]
    pub(crate) fn reply(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        if self.reply_late_short(t, c) {
            return Ok(());
        }
        let caller = self.answer_caller(t, c)?;
        self.refresh(t);
        if let Some(caller) = caller {
            self.wake(caller);
        }
        Ok(())
    }

    /// REPLY_RECEIVE.
    #[inline]
    pub(crate) fn reply_receive(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let Some(caller) = self.answer_caller(t, c)? else {
            self.refresh(t);
            return self.receive_after_reply(t, c);
        };
        let channel = &self.channels[c];
        let thread = &self.threads[t];
        if channel.pulses.is_waiting()
            || !channel.senders.is_empty()
            || thread.registers.rax & flag::POLL != 0
            || thread.poked
        {
            self.refresh(t);
            self.wake(caller);
            return self.receive_after_reply(t, c);
        }
        self.end_service(t);
        self.threads[t].behalf = u8::MAX;
        self.serve(t, c);
        self.block_receiving(t, c);
        self.hand_over(caller);
        Err(Stop::Left)
    }

    /// The second half of REPLY_RECEIVE. If only a share of it was done, the first is not done again: its token is none any more.
    fn receive_after_reply(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let answer = self.receive(t, c);
        if answer == Err(Stop::Restart) {
            let rax = &mut self.threads[t].registers.rax;
            *rax = *rax & !(0xff << 32) | (receive::RECEIVE as u64) << 32;
        }
        answer
    }

    /// The reply in `t`'s registers goes to the caller behind its token. Returns the caller, out of its queue and not yet ready (none: it was a refused fault, and all is done).
    #[inline]
    fn answer_caller(&mut self, t: ThreadRef, c: ChannelRef) -> Result<Option<ThreadRef>, Stop> {
        if self.channels[c].dying {
            return Err(Error::Dead.into());
        }
        let caller = self.caller(self.threads[t].registers.rbp, c)?;
        let called = self.threads[caller].sending == Sending::Message;
        if called {
            self.answer_call(t, caller, c)?;
        }
        self.let_go(caller, c);
        let registers = &self.threads[t].registers;
        // Of a fault w0 says whether the access shall be tried again.
        if called || registers.rdi == fault::RESOLVED {
            return Ok(Some(caller));
        }
        self.fault_refused(caller, registers.rsi);
        Ok(None)
    }

    /// The reply's words, data and portals go to a caller that called. On error nothing has changed but, perhaps, its part.
    #[inline(always)]
    fn answer_call(&mut self, t: ThreadRef, caller: ThreadRef, c: ChannelRef) -> Result<(), Stop> {
        let rax = self.threads[t].registers.rax;
        if self.threads[caller].windows != 0 && !self.close_window_of(caller) {
            return Err(Stop::Restart);
        }
        let mut n = 0;
        let mut slots = Slots::default();
        const RARE: u64 = flag::PARTS | flag::PORTALS_MASK;
        if rax & RARE != 0 {
            if rax & flag::PARTS != 0 {
                self.reply_data(t, caller)?;
            }
            n = portal_count(rax);
            if n > MAX_PORTALS {
                return Err(Error::BadArgument.into());
            }
            if n != 0 {
                slots = if rax & flag::MINT != 0 {
                    self.mint(t, caller, c, n)?
                } else {
                    self.pass(t, caller, n, rax & flag::MOVE != 0)?
                };
            }
        }
        let (from, to) = self.threads.pair(t, caller);
        let registers = &mut to.registers;
        copy_words(&from.registers, registers);
        registers.rax = (n as u64) << received::PORTALS_SHIFT;
        slots.tell(registers, n);
        Ok(())
    }

    /// The caller is held no longer.
    #[inline(never)]
    fn let_go(&mut self, caller: ThreadRef, c: ChannelRef) {
        self.charge();
        self.unhold(caller, c);
        let thread = &mut self.threads[caller];
        thread.channel = None;
        // An UNBLOCK that the server has not read is settled by the reply.
        let unread = thread.pulse.is_queued() && !thread.pulse_gone;
        if let Some(server) = thread.server.take() {
            self.serve_no_longer(server, caller);
            if self.threads[server].state != State::Running || self.runs_elsewhere(server).is_some()
            {
                self.refresh(server);
            }
        }
        if unread {
            self.pulse_withdraw(Node::Thread(caller));
        }
        // The deadline of one that faulted is for something else.
        if self.threads[caller].sending == Sending::Message {
            self.disarm(caller);
        }
    }

    /// May these portals be passed, and with which rights? `n` last words of `from`'s message are slots of its table.
    fn passed(
        &self,
        from: ThreadRef,
        n: usize,
        moving: bool,
        found: &mut [(u32, Target); MAX_PORTALS],
    ) -> Result<(), Error> {
        if n > MAX_PORTALS {
            return Err(Error::BadArgument);
        }
        let registers = &self.threads[from].registers;
        let rax = registers.rax;
        for i in 0..n {
            let slot = registers.word(8 - n + i);
            let mut target = self.own_entry(from, slot)?;
            if !target.may(rights::PASS) || is_bound(target.kind()) {
                return Err(Error::NoRight);
            }
            let once = target.may(rights::ONCE);
            if once && slot == rax & u32::MAX as u64 {
                // The single use that this very call is.
                return Err(Error::BadPortal);
            }
            if (moving || once) && found[..i].iter().any(|&(other, _)| other as u64 == slot) {
                return Err(Error::BadPortal);
            }
            if rax & flag::NOT_FURTHER != 0 {
                target = target.with(target.rights() & !rights::PASS);
            }
            if rax & flag::PASS_ONCE != 0 {
                if target.kind() != PortalKind::Channel {
                    return Err(Error::BadArgument);
                }
                target = target.with(target.rights() | rights::ONCE);
            }
            found[i] = (slot as u32, target);
        }
        Ok(())
    }

    fn check_passed(&self, from: ThreadRef, n: usize, moving: bool) -> Result<(), Error> {
        self.passed(from, n, moving, &mut [(0, Target::EMPTY); MAX_PORTALS])
    }

    /// Put `n` portals of `from`'s table into `to`'s. On error nothing has changed.
    fn pass(
        &mut self,
        from: ThreadRef,
        to: ThreadRef,
        n: usize,
        moving: bool,
    ) -> Result<Slots, Error> {
        let mut found = [(0, Target::EMPTY); MAX_PORTALS];
        self.passed(from, n, moving, &mut found)?;
        let (source, target_domain) = (self.threads[from].domain, self.threads[to].domain);
        if (self.domains[target_domain].table.free_slots() as usize) < n {
            return Err(Error::NoSlot);
        }
        let mut slots = Slots::default();
        for &(slot, target) in found.iter().take(n) {
            let place = self.domains[target_domain]
                .table
                .next_free()
                .ok_or(Error::NoSlot)?;
            let before = self.domains[source].table.target(slot as u64);
            self.place(target_domain, place, target);
            if let Some(before) = before.filter(|b| moving || b.may(rights::ONCE)) {
                // The new entry holds the object already, so this can be no last one.
                let closed = self.close(source, slot, before);
                debug_assert!(closed.is_ok());
            }
            slots.push(place);
        }
        Ok(slots)
    }

    /// Make `n` portals to `c` with the badges in the last words, straight into the caller's table.
    fn mint(
        &mut self,
        t: ThreadRef,
        caller: ThreadRef,
        c: ChannelRef,
        n: usize,
    ) -> Result<Slots, Error> {
        let domain = self.threads[caller].domain;
        if (self.domains[domain].table.free_slots() as usize) < n {
            return Err(Error::NoSlot);
        }
        if !self.portals.room(n as u32) {
            return Err(Error::NoMemory);
        }
        let mut slots = Slots::default();
        for i in 8 - n..8 {
            let badge = self.threads[t].registers.word(i);
            slots.push(self.mint_one(domain, c, badge)?);
        }
        Ok(slots)
    }

    /// A new portal to `c` in a domain's table. On error nothing has changed.
    fn mint_one(&mut self, domain: DomainRef, c: ChannelRef, badge: u64) -> Result<u32, Error> {
        let table = &self.domains[domain].table;
        let place = table.next_free().ok_or(Error::NoSlot)?;
        let portal = self.portal_create(c, badge, None, true)?;
        let target = Target::to(PortalKind::Channel, portal, rights::DEFAULT);
        self.place(domain, place, target);
        Ok(place)
    }

    /// What comes with a plain reply beside words: data for one part, one new portal. Returns what the caller finds in `rax`, and puts word 7, which tells
    /// the portal, into its registers. None: take the general way, which may copy the data again.
    #[inline(never)]
    pub(crate) fn reply_extras(
        &mut self,
        t: ThreadRef,
        caller: ThreadRef,
        c: ChannelRef,
    ) -> Option<u64> {
        const PORTAL: u64 = flag::PORTALS_MASK | flag::MINT;
        let registers = &self.threads[t].registers;
        let (rax, last) = (registers.rax, registers.word(7));
        if rax & flag::PARTS != 0 && !self.reply_data_short(t, caller) {
            return None;
        }
        let mut answer = 0;
        let mut word = last;
        if rax & PORTAL != 0 {
            if rax & PORTAL != flag::MINT | flag::portals(1) {
                return None;
            }
            let domain = self.threads[caller].domain;
            word = self.mint_one(domain, c, last).ok()? as u64;
            answer = 1 << received::PORTALS_SHIFT;
        }
        self.threads[caller].registers.set_word(7, word);
        Some(answer)
    }
}
