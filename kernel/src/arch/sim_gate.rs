//! The compiled portals of the simulated machine: what the templates of the real one do, in Rust ([`crate::quick`] says what that is). And what its shared code does for semaphores and
//! yields, under the same conditions, because there no short way in the portable part does the same.

use super::sim::Sim;
use super::Arch;
use crate::pool::{BlockRef, ChannelRef, Handle, ThreadRef};
use crate::portal::code::Known;
use crate::portal::table::Target;
use crate::pulse::set_pulse;
use crate::queue::List;
use crate::short::copy_words;
use crate::thread::State;
use crate::Kernel;
use cairn_abi::service::{current, receive, semaphore};
use cairn_abi::{flag, pulse, received, rights, PortalKind};

/// What a call adds to its caller's token.
const NEXT_CALL: u64 = crate::ipc::NEXT_CALL;

impl Kernel<Sim> {
    /// Who runs.
    pub fn who_runs(&self) -> Option<ThreadRef> {
        match self.arch.running {
            0 => self.dispatch.current,
            address => self.threads.at_address(address),
        }
    }

    /// `syscall` of whoever runs, as far as compiled code does it. False: the shared code's turn. An entry gets code of its own at its first use.
    pub fn gate(&mut self) -> bool {
        let Some(t) = self.who_runs() else {
            return false;
        };
        let thread = &self.threads[t];
        if thread.entries != thread.own_entries {
            return false;
        }
        let d = thread.domain;
        let slot = (thread.registers.rax & 0xff) as u32;
        let Some(&entry) = self.domains[d].table.entry(slot) else {
            return false;
        };
        match (entry.target.kind(), self.block_of(entry.code)) {
            (PortalKind::Receive, _) => self.quick_reply(t, entry.target.object()),
            (PortalKind::Channel, Some(block)) => self.quick_call(t, block, entry.target),
            (PortalKind::Current, Some(_)) => self.quick_current(t) || self.quick_yield(t),
            (PortalKind::Semaphore, Some(_)) => {
                self.quick_semaphore(t, slot, entry.target) || self.quick_hand_on(t, entry.target)
            }
            (PortalKind::Channel | PortalKind::Current | PortalKind::Semaphore, None) => {
                self.come_in(self.cores.here);
                self.compile(t);
                // A mutex never has code of its own.
                false
            }
            _ => false,
        }
    }

    /// A device interrupts, with whoever runs or idle: as far as the machine layer serves it by itself ([`crate::quick_interrupt`]). False: [`Kernel::interrupt`] must.
    pub fn quick_interrupt(&mut self, source: u32) -> bool {
        self.come_in(self.cores.here);
        let Some(way) = self.arch.ways.get(&source).copied() else {
            return false;
        };
        let (Some(c), Some(driver)) = (
            self.channels.at_address(way.channel),
            self.threads.at_address(way.driver),
        ) else {
            return false;
        };
        let d = self.domains.handle(way.domain_index);
        let priority = self.threads[driver].effective;
        let running = self.dispatch.current.map(|t| self.threads[t].effective);
        if self.channels[c].plain != way.plain
            || self.domains[d].unusual != 0
            || priority as i16 <= self.dispatch.ready.top()
            || running.is_some_and(|running| priority <= running)
            || !self.arch.unmasked.remove(&source)
        {
            return false;
        }
        self.arch.quick_interrupts += 1;
        self.counters.interrupts += 1;
        self.interrupts.sources[source as usize].owed = 1;
        let binding = &mut self.interrupts.bindings[way.binding_index as usize];
        binding.arrived += 1;
        binding.pulses += 1;
        binding.owes = true;
        let count = core::mem::take(&mut binding.count) + 1;
        if let Some(t) = self.dispatch.current {
            self.charge();
            self.threads[t].full = true;
            self.set_back(t);
        } else {
            self.dispatch.since = self.arch.ticks();
            self.counters.idle += self.dispatch.since - self.dispatch.idle_since;
            self.dispatch.idle_since = 0;
        }
        let channel = &mut self.channels[c];
        channel.plain = 0;
        channel.receivers = List::default();
        let thread = &mut self.threads[driver];
        thread.state = State::Running;
        thread.channel = None;
        set_pulse(
            &mut thread.registers,
            way.badge,
            [pulse::INTERRUPT, count, 0, 0],
        );
        self.dispatch.current = Some(driver);
        self.dispatch.loaded = Some(driver);
        self.dispatch.loaded_domain = Some(d);
        self.dispatch.slice_end = 0;
        self.counters.thread_switches += 1;
        self.arch.active = Some(self.domains[d].root);
        self.arch.turn = 0;
        true
    }

    fn quick_current(&mut self, t: ThreadRef) -> bool {
        let domain = &self.domains[self.threads[t].domain];
        let thread = &mut self.threads[t];
        if thread.registers.rax == (current::CLOCK as u64) << 32 {
            thread.registers.rdi = self.arch.time;
            thread.registers.rax = 0;
            return true;
        }
        if thread.registers.rax != 0 {
            return false;
        }
        thread.registers.rdi = thread.token as u32 as u64;
        thread.registers.rsi = domain.id as u64;
        thread.registers.rdx = domain.label;
        true
    }

    /// P and V without contention.
    fn quick_semaphore(&mut self, t: ThreadRef, slot: u32, target: Target) -> bool {
        let s = self.semaphores.of(target);
        let semaphore = &mut self.semaphores[s];
        let registers = &mut self.threads[t].registers;
        let is = |operation: u8| registers.rax == (operation as u64) << 32 | slot as u64;
        let count = if is(semaphore::P) && target.may(rights::CALL) {
            semaphore.count - 1
        } else if is(semaphore::V)
            && target.may(rights::NOTIFY)
            && semaphore.waiters.first().is_none()
            && !(semaphore.mutex || semaphore.dying)
        {
            semaphore.count.checked_add(1).unwrap_or(-1)
        } else {
            -1
        };
        if count < 0 {
            return false;
        }
        semaphore.count = count;
        registers.rax = 0;
        true
    }

    /// May `next` go on where `t` was, by a switch of registers and space alone?
    fn takes_over(&self, t: ThreadRef, next: ThreadRef) -> bool {
        let thread = &self.threads[next];
        self.arch.running == 0
            && !self.several()
            && self.threads[t].client.is_none()
            && self.domains[thread.domain].unusual == 0
            && !(thread.poked || thread.full || thread.lifted)
            && thread.windows as u32 | thread.stops == 0
            && thread.deadline == 0
    }

    fn switch_over(&mut self, t: ThreadRef, next: ThreadRef) {
        let now = self.arch.ticks();
        let spent = now - self.dispatch.since;
        self.dispatch.since = now;
        self.threads[t].ticks += spent;
        self.domains[self.threads[t].domain].ticks += spent;
        self.dispatch.current = Some(next);
        self.dispatch.loaded = Some(next);
        let thread = &mut self.threads[next];
        thread.entries = thread.own_entries;
        thread.state = State::Running;
        if self.dispatch.loaded_domain != Some(thread.domain) {
            self.dispatch.loaded_domain = Some(thread.domain);
            self.arch.active = Some(self.domains[thread.domain].root);
            self.arch.turn = 0;
        }
        self.arch.switched += 1;
    }

    /// The end of a quantum that begins now, if a timer that comes anyway can be it.
    fn quantum(&self) -> Option<u64> {
        let dispatch = &self.dispatch;
        (dispatch.cut.is_none() && dispatch.armed <= dispatch.horizon).then_some(dispatch.armed)
    }

    fn quick_yield(&mut self, t: ThreadRef) -> bool {
        let thread = &self.threads[t];
        if thread.registers.rax != (current::YIELD as u64) << 32
            || thread.effective as i16 != self.dispatch.ready.top()
        {
            return false;
        }
        let Some(next) = self.dispatch.ready.first() else {
            return false;
        };
        let Some(end) = self.quantum() else {
            return false;
        };
        if !self.takes_over(t, next) || !self.threads[next].round_robin {
            return false;
        }
        let priority = self.threads[t].effective;
        let ready = &mut self.dispatch.ready;
        ready.push_back(&mut self.threads, t, priority);
        ready.remove(&mut self.threads, next, priority);
        self.threads[t].state = State::Ready;
        self.threads[t].registers.rax = 0;
        self.dispatch.slice_end = end;
        self.switch_over(t, next);
        true
    }

    /// V_THEN_P where one thread waits for the first semaphore and nobody for the second, which counts nothing.
    fn quick_hand_on(&mut self, t: ThreadRef, target: Target) -> bool {
        let registers = &self.threads[t].registers;
        if registers.rax >> 8 != (semaphore::V_THEN_P as u64) << 24 || registers.rdi >= 256 {
            return false;
        }
        let table = &self.domains[self.threads[t].domain].table;
        let Some(other) = table.entry(registers.rdi as u32).map(|entry| entry.target) else {
            return false;
        };
        if other.kind() != PortalKind::Semaphore
            || !other.may(rights::CALL)
            || !target.may(rights::NOTIFY)
        {
            return false;
        }
        let s = self.semaphores.of(target);
        let other = self.semaphores.of(other);
        let (from, to) = (&self.semaphores[s], &self.semaphores[other]);
        let Some(next) = from.waiters.first() else {
            return false;
        };
        let blocked = to.count == 0 && to.waiters.first().is_none();
        if !blocked
            || from.mutex
            || from.dying
            || to.mutex
            || to.dying
            || from.waiters.members(&self.threads).len() != 1
            || self.threads[next].through.is_some()
            || !self.takes_over(t, next)
        {
            return false;
        }
        let top = self.dispatch.ready.top();
        let end = match (self.threads[next].effective as i16).cmp(&top) {
            core::cmp::Ordering::Less => return false,
            core::cmp::Ordering::Greater => 0,
            core::cmp::Ordering::Equal => match self.quantum() {
                Some(end) => end,
                None => return false,
            },
        };
        self.semaphores[s].waiters.remove(&mut self.threads, next);
        let rank = self.threads[t].effective;
        self.semaphores[other]
            .waiters
            .push(&mut self.threads, t, rank);
        self.threads[t].waits = Some(other);
        self.threads[t].state = State::Waiting;
        let thread = &mut self.threads[next];
        thread.waits = None;
        thread.registers.rax = 0;
        self.dispatch.slice_end = end;
        self.switch_over(t, next);
        true
    }

    fn quick_call(&mut self, t: ThreadRef, block_ref: BlockRef, target: Target) -> bool {
        let block = &self.blocks[block_ref];
        let Some(c) = self.channels.lookup(self.portals.at(target).channel) else {
            return false;
        };
        if self.threads[t].registers.rax != block.selector
            || self.channels[c].plain != block.plain
            || self.arch.links == 1
        {
            return false;
        }
        let Some(r) = self.channels[c].server else {
            return false;
        };
        // The machine's code has all of this as constants.
        let known = |which: Known| self.arch.codes[&self.blocks.index(block_ref)][which as usize];
        assert_eq!(known(Known::Channel), self.channels.address(c) as u64);
        assert_eq!(known(Known::Server), self.threads.address(r) as u64);
        let its_domain = self.domains.address(self.threads[r].domain) as u64;
        assert_eq!(known(Known::ServerDomain), its_domain);
        // Who has registers of its own is called where they are in the processor; with several cores never.
        let server = &self.domains[self.threads[r].domain];
        let there = !self.several() && self.dispatch.owner == Some(r);
        if server.unusual_beside != 0 || server.float && !there {
            return false;
        }
        let registers = &self.threads[t].registers;
        let parts = block.selector & flag::PARTS != 0;
        if parts && (registers.r15 | registers.rbp) >> 32 != 0 {
            return false;
        }
        let Ok(signed) = self.signed_word(t, c) else {
            return false;
        };
        self.arch.links -= 1;
        self.channels[c].plain = 0;
        let client = self.threads.address(t);
        let domain = &self.domains[self.threads[t].domain];
        let interruptible = block.selector & cairn_abi::flag::INTERRUPTIBLE != 0;
        let answer = (domain.id as u64) << received::SENDER_SHIFT
            | if interruptible {
                received::INTERRUPTIBLE
            } else {
                0
            };
        let (from, to) = self.threads.pair(t, r);
        copy_words(&from.registers, &mut to.registers);
        if let Some(word) = signed {
            to.registers.set_word(7, word);
        }
        if self.channels[c].signature.is_some() {
            self.arch.quick_signed += 1;
        }
        if self.domains[to.domain].float {
            self.arch.quick_own += 1;
        }
        from.token = from.token.wrapping_add(NEXT_CALL);
        to.quick_client = client;
        to.reply_code = self.blocks.index(block_ref) as usize;
        to.registers.rax = answer;
        to.registers.rbx = block.badge;
        to.registers.rbp = from.token;
        to.registers.r14 = domain.label;
        to.registers.r15 = 0;
        if parts {
            from.parts = from.registers.r15 | from.registers.rbp << 32;
            to.registers.r15 = from.parts;
        }
        let domain = &self.domains[to.domain];
        self.arch.active = Some(domain.root);
        self.arch.turn = 0;
        self.arch.running = self.threads.address(r);
        true
    }

    fn quick_reply(&mut self, r: ThreadRef, channel: u32) -> bool {
        let Some(block) = self.block_of(self.threads[r].reply_code) else {
            return false;
        };
        let block = &self.blocks[block];
        let Some(t) = self.threads.at_address(self.threads[r].quick_client) else {
            return false;
        };
        let (from, to) = self.threads.pair(r, t);
        let token = to.token;
        if from.registers.rax != block.reply_selector || from.registers.rbp != token {
            let parts = block.selector & flag::PARTS != 0
                && from.serving.is_some_and(|c| c.number() == channel);
            return parts && self.quick_parts(r, t, channel);
        }
        let Some(c) = self.threads[r].serving else {
            return false;
        };
        if c.number() != channel {
            return false;
        }
        self.end_quick(r, t, c);
        true
    }

    /// What the server of a quick call with parts does beside a reply with words alone.
    fn quick_parts(&mut self, r: ThreadRef, t: ThreadRef, channel: u32) -> bool {
        const EXTRAS: u64 = flag::PARTS | flag::MINT | flag::portals(1);
        let registers = &self.threads[r].registers;
        let rax = registers.rax;
        let words = [registers.rdi, registers.rsi, registers.rdx, registers.r10];
        let (done, token) = (registers.r8, registers.rbp);
        for (operation, out) in [(receive::READ, true), (receive::WRITE, false)] {
            if rax >> 8 == (operation as u64) << 24 {
                let Some(copied) = self.quick_transfer(channel, out, words) else {
                    return false;
                };
                let registers = &mut self.threads[r].registers;
                registers.rdi = done.wrapping_add(copied);
                registers.rax = 0;
                self.arch.quick_copies += 1;
                return true;
            }
        }
        if rax & !(EXTRAS | 0xff) != (receive::REPLY_RECEIVE as u64) << 32 {
            return false;
        }
        let Some(answer) = self.quick_extras(channel, token) else {
            return false;
        };
        self.arch.quick_extras += 1;
        let last = self.threads[t].registers.word(7);
        let c = self.channels.handle(channel);
        self.end_quick(r, t, c);
        let registers = &mut self.threads[t].registers;
        registers.set_word(7, last);
        registers.rax = answer;
        true
    }

    /// The caller of a quick call goes on, with the words of its server, which waits again.
    fn end_quick(&mut self, r: ThreadRef, t: ThreadRef, c: ChannelRef) {
        self.arch.links += 1;
        self.arch.quick += 1;
        let (from, to) = self.threads.pair(r, t);
        self.channels[c].plain = from.plain;
        from.reply_code = Sim::reply_code();
        copy_words(&from.registers, &mut to.registers);
        to.registers.rax = 0;
        let domain = &self.domains[to.domain];
        self.arch.active = Some(domain.root);
        self.arch.turn = domain.turn_base;
        self.arch.running = if self.dispatch.current == Some(t) {
            0
        } else {
            self.threads.address(t)
        };
    }
}
