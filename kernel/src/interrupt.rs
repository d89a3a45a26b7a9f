//! Interrupts as drivers see them. A *source* is a line of the interrupt controller or a message-signalled vector; a *binding* is one driver's
//! interest in it, and what an interrupt portal leads to. Several bindings may share a line if all of them were made for that.
//!
//! An interrupt masks its source and gives each bound driver a pulse. The source is heard again when every one of them has acknowledged, so a device that
//! nobody serves cannot keep the processor busy, and a less important driver costs a more important thread at most one entry per source.
//! A driver runs at its own priority: that is the interrupt's place on the threads' scale, and a more important interrupt comes through meanwhile.
//!
//! What always holds: `owed` of a source is the number of its bindings that owe an acknowledgement, only bound ones owe, and the source is unmasked
//! exactly when it is bound and nobody owes. What a driver may do with ports is at the end of this file.

use crate::arch::Arch;
use crate::hasty::Outcome;
use crate::machine::RIGHTS;
use crate::numbered::Numbered;
use crate::pool::{ChannelRef, SemaphoreRef, ThreadRef};
use crate::portal::table::Target;
use crate::pulse::{Node, PulseLink};
use crate::{Answer, Kernel, Resume};
use cairn_abi::service::{interrupt, machine, ports};
use cairn_abi::{Error, PortalKind};

/// Lines of the interrupt controllers: the legacy ISA lines 0 to 15, then the global system interrupts of the same numbers.
pub const LINES: usize = 64;
/// Vectors for message-signalled interrupts, numbered from [`LINES`] on.
pub const MESSAGES: usize = 32;
pub const SOURCES: usize = LINES + MESSAGES;
/// Most interrupt portals of all drivers together, and of one line.
pub const BINDINGS: usize = 128;
const SHARERS: usize = 8;

/// Where interrupts come from.
#[derive(Clone, Copy)]
pub struct Source {
    /// Number of its first binding, counted from 1; 0 if there is none.
    first: u8,
    /// How many of its bindings owe an acknowledgement.
    pub(crate) owed: u8,
}

/// One driver's interest in a source.
pub struct Binding {
    /// Interrupt portals; 0: not in use.
    pub holders: u32,
    pub(crate) source: u16,
    /// The next of the same source, counted from 1.
    next: u8,
    shared: bool,
    /// Its hasty handler, counted from 1; 0 if it has none.
    pub(crate) handler: u8,
    /// It was told and has not acknowledged.
    pub(crate) owes: bool,
    /// Id of the channel that gets its pulses, 0 if none.
    pub channel: u32,
    /// Or of the semaphore that gets a V, and of the domain that bound it.
    semaphore: u32,
    binder: u32,
    pub badge: u64,
    /// Interrupts since the last receive, since the binding was made, and how many pulses were made of them.
    pub count: u64,
    pub(crate) arrived: u64,
    pub(crate) pulses: u64,
    pub pulse: PulseLink,
}

impl Binding {
    const fn new() -> Binding {
        Binding {
            holders: 0,
            source: 0,
            next: 0,
            shared: false,
            handler: 0,
            owes: false,
            channel: 0,
            semaphore: 0,
            binder: 0,
            badge: 0,
            count: 0,
            arrived: 0,
            pulses: 0,
            pulse: PulseLink::new(),
        }
    }

    /// Somebody hears of it.
    pub(crate) fn is_bound(&self) -> bool {
        self.channel != 0 || self.semaphore != 0
    }

    /// Its driver gets a V and no pulse.
    pub(crate) fn by_semaphore(&self) -> bool {
        self.semaphore != 0
    }
}

pub struct Interrupts {
    pub(crate) sources: Numbered<Source, { SOURCES.next_power_of_two() }>,
    pub(crate) bindings: Numbered<Binding, BINDINGS>,
}

impl Interrupts {
    pub const fn new() -> Interrupts {
        Interrupts {
            sources: Numbered([Source { first: 0, owed: 0 }; SOURCES.next_power_of_two()]),
            bindings: Numbered([const { Binding::new() }; BINDINGS]),
        }
    }

    /// The bindings of a source, one after the other.
    pub(crate) fn of(&self, source: usize) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.sources[source].first;
        core::iter::from_fn(move || {
            let index = at.checked_sub(1)?;
            at = self.bindings[index as usize].next;
            Some(index as u32)
        })
    }

    /// The binding of a source that has no other.
    pub(crate) fn only_one(&self, source: usize) -> Option<u32> {
        let index = self.sources.get(source)?.first.checked_sub(1)?;
        (self.bindings[index as usize].next == 0).then_some(index as u32)
    }

    /// Whether one more binding of this source may be made.
    fn check(&self, source: usize, shared: bool) -> Result<(), Error> {
        let others = self.of(source).count();
        let alike = self
            .of(source)
            .all(|other| self.bindings[other as usize].shared && shared);
        if !alike || others == SHARERS {
            return Err(Error::Busy);
        }
        self.unused().ok_or(Error::NoMemory)?;
        Ok(())
    }

    fn unused(&self) -> Option<usize> {
        self.bindings
            .iter()
            .position(|binding| binding.holders == 0)
    }

    /// A binding without holders for this source; `check` agreed, and it is placed at once.
    fn make(&mut self, source: usize, shared: bool) -> Result<u32, Error> {
        let index = self.unused().ok_or(Error::NoMemory)?;
        self.bindings[index] = Binding {
            source: source as u16,
            next: self.sources[source].first,
            shared,
            ..Binding::new()
        };
        self.sources[source].first = index as u8 + 1;
        Ok(index as u32)
    }

    /// Take a binding out of its source's list.
    fn remove(&mut self, index: u32) {
        let (source, after) = {
            let binding = &self.bindings[index as usize];
            (binding.source as usize, binding.next)
        };
        let number = index as u8 + 1;
        let before = self
            .of(source)
            .find(|&other| self.bindings[other as usize].next == number);
        match before {
            Some(before) => self.bindings[before as usize].next = after,
            None => self.sources[source].first = after,
        }
        self.bindings[index as usize].next = 0;
    }
}

impl Default for Interrupts {
    fn default() -> Self {
        Interrupts::new()
    }
}

/// Most bytes that one several-bytes operation moves.
const BYTES: u64 = 32;

impl<A: Arch> Kernel<A> {
    /// A device interrupt; the machine layer has acknowledged it at the controller.
    pub fn interrupt(&mut self, source: u32) -> Resume {
        self.entered_by_interrupt();
        self.counters.interrupts += 1;
        self.remember_way(source);
        self.arch.interrupt_mask(source, true);
        let mut at = self
            .interrupts
            .sources
            .get(source as usize)
            .map_or(0, |found| found.first);
        while let Some(index) = at.checked_sub(1) {
            let binding = &mut self.interrupts.bindings[index as usize];
            at = binding.next;
            binding.arrived += 1;
            match binding.handler.checked_sub(1) {
                None => self.tell_driver(index as u32, at == 0),
                Some(handler) if self.must_wait(handler as usize) => {
                    self.defer(index as u32, handler as usize)
                }
                Some(handler) => self.serve_hastily(index as u32, handler as usize),
            }
        }
        self.leave()
    }

    /// The driver owes an acknowledgement, and is woken. `last`: the entry does nothing more.
    #[inline(never)]
    pub(crate) fn tell_driver(&mut self, index: u32, last: bool) {
        let binding = &mut self.interrupts.bindings[index as usize];
        if !binding.is_bound() {
            return;
        }
        binding.count += 1;
        self.owes(index);
        self.wake_driver(index, last);
    }

    /// Not before it has acknowledged the source is heard again.
    #[inline]
    pub(crate) fn owes(&mut self, index: u32) {
        let binding = &mut self.interrupts.bindings[index as usize];
        if !binding.owes {
            binding.owes = true;
            self.interrupts.sources[binding.source as usize].owed += 1;
        }
    }

    /// Its hasty handler serves the device, if there is a driver at all.
    pub(crate) fn serve_hastily(&mut self, index: u32, handler: usize) {
        if !self.interrupts.bindings[index as usize].is_bound() {
            return;
        }
        if !self.hasty_may(handler) {
            self.hasty_remove(index);
            return self.tell_driver(index, false);
        }
        match self.hasty_run(handler) {
            Outcome::HandedOver => self.tell_driver(index, false),
            Outcome::Done => {
                self.interrupts.bindings[index as usize].count += 1;
                if self.handlers[handler].reasons != 0 {
                    self.wake_driver(index, false);
                }
                self.hear_again(index);
            }
        }
    }

    /// Make the pulse of one binding, or its V.
    #[inline(never)]
    pub(crate) fn wake_driver(&mut self, index: u32, last: bool) {
        let binding = &mut self.interrupts.bindings[index as usize];
        if binding.by_semaphore() {
            if let Some(s) = self.semaphores.lookup(binding.semaphore) {
                binding.pulses += 1;
                // A semaphore that counts as far as it can has enough of them.
                let _ = self.semaphore_give(s);
            }
            return;
        }
        let Some(c) = self.channels.lookup(binding.channel) else {
            return;
        };
        if !binding.pulse.is_queued() {
            binding.pulses += 1;
            if last {
                self.pulse_post_last(c, Node::Binding(index));
            } else {
                self.pulse_post(c, Node::Binding(index));
            }
        }
    }

    /// `machine::INTERRUPT`.
    pub(crate) fn line_portal(&mut self, t: ThreadRef, line: u64, slot: u64, how: u64) -> Answer {
        let known = machine::SHARED | machine::TRIGGER | machine::LEVEL | machine::LOW;
        if line >= self.arch.interrupt_lines() as u64 || how & !known != 0 {
            return Err(Error::BadArgument.into());
        }
        let source = line as usize;
        self.interrupts.check(source, how & machine::SHARED != 0)?;
        if self.interrupts.sources[source].first == 0 && how & machine::TRIGGER != 0 {
            let (level, low) = (how & machine::LEVEL != 0, how & machine::LOW != 0);
            self.arch.interrupt_trigger(line as u32, level, low);
        }
        self.source_portal(t, source, slot, how & machine::SHARED != 0)
    }

    /// `machine::MESSAGE`.
    pub(crate) fn message_portal(&mut self, t: ThreadRef, slot: u64) -> Answer {
        let source = (LINES..SOURCES)
            .find(|&source| self.interrupts.sources[source].first == 0)
            .ok_or(Error::NoMemory)?;
        if self.arch.message(source as u32).is_none() {
            return Err(Error::BadOperation.into());
        }
        self.interrupts.check(source, false)?;
        self.source_portal(t, source, slot, false)
    }

    fn source_portal(&mut self, t: ThreadRef, source: usize, slot: u64, shared: bool) -> Answer {
        let d = self.threads[t].domain;
        let slot = self.make_place(d, slot)?;
        self.forget_way(source as u32);
        let index = self.interrupts.make(source, shared)?;
        let target = Target::new(PortalKind::Interrupt, index, RIGHTS);
        self.place_made(t, slot, target);
        Ok(())
    }

    #[inline(never)]
    pub(crate) fn interrupt_service(&mut self, t: ThreadRef, index: u32, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        match operation {
            interrupt::BIND => {
                let c = self.own_object(t, w[0], PortalKind::Receive, 0)?;
                if self.channels[c].dying {
                    return Err(Error::Dead.into());
                }
                self.bind(index, (self.channels.id(c), w[1]), (0, 0));
            }
            interrupt::BIND_SEMAPHORE => {
                let s = self.own_object(t, w[0], PortalKind::Semaphore, 0)?;
                if self.semaphores[s].mutex || self.semaphores[s].dying {
                    return Err(Error::BadArgument.into());
                }
                let binder = self.domains[self.threads[t].domain].id;
                self.bind(index, (0, 0), (self.semaphores.id(s), binder));
            }
            interrupt::ACKNOWLEDGE => {
                if !self.interrupts.bindings[index as usize].is_bound() {
                    return Err(Error::Busy.into());
                }
                self.acknowledged(index);
                self.hear_again(index);
            }
            interrupt::UNBIND => self.unbind(index),
            interrupt::INSTALL => {
                self.forget_way(self.interrupts.bindings[index as usize].source as u32);
                return self.hasty_install(t, index, w);
            }
            interrupt::TAKE => return self.hasty_take(t, index, w),
            interrupt::REMOVE => self.hasty_remove(index),
            interrupt::INFO => {
                let binding = &self.interrupts.bindings[index as usize];
                let source = binding.source as u32;
                let message = self.arch.message(source);
                let (address, data) = message.unwrap_or((0, 0));
                let told = [
                    message.is_some() as u64,
                    source as u64,
                    address,
                    data as u64,
                    binding.arrived,
                    binding.pulses,
                ];
                self.answers(t, &told);
            }
            _ => return Err(Error::BadOperation.into()),
        }
        Ok(())
    }

    /// The binding owes nothing any more.
    #[inline(never)]
    pub(crate) fn acknowledged(&mut self, index: u32) {
        let binding = &mut self.interrupts.bindings[index as usize];
        if core::mem::take(&mut binding.owes) {
            self.interrupts.sources[binding.source as usize].owed -= 1;
        }
    }

    /// Unmask the binding's source if somebody is bound to it and nobody owes, mask it if nobody is bound.
    fn hear_again(&mut self, index: u32) {
        let source = self.interrupts.bindings[index as usize].source as usize;
        if self.interrupts.sources[source].owed != 0 {
            return;
        }
        let bound = self
            .interrupts
            .of(source)
            .any(|other| self.interrupts.bindings[other as usize].is_bound());
        self.arch.interrupt_mask(source as u32, !bound);
    }

    /// Who hears of it from now on: the channel with this id, and with which badge, or the semaphore, and which domain bound it; 0: nobody. What came before is nobody's business any more.
    #[inline(never)]
    fn bind(&mut self, index: u32, (channel, badge): (u32, u64), (semaphore, binder): (u32, u32)) {
        self.pulse_withdraw(Node::Binding(index));
        let binding = &mut self.interrupts.bindings[index as usize];
        binding.channel = channel;
        binding.badge = badge;
        binding.semaphore = semaphore;
        binding.binder = binder;
        binding.count = 0;
        let source = binding.source as u32;
        self.forget_way(source);
        self.acknowledged(index);
        self.hear_again(index);
    }

    fn unbind(&mut self, index: u32) {
        self.hasty_remove(index);
        self.bind(index, (0, 0), (0, 0));
    }

    /// The driver that received at this channel is dead, or the channel is: whoever shares a line with it must not wait for its acknowledgement.
    pub(crate) fn unbind_channel(&mut self, c: ChannelRef) {
        self.unbind_all(self.channels.id(c), |binding| binding.channel);
    }

    /// The semaphore's last portal goes.
    pub(crate) fn unbind_semaphore(&mut self, s: SemaphoreRef) {
        self.unbind_all(self.semaphores.id(s), |binding| binding.semaphore);
    }

    /// All bindings whose pulses or Vs this one gets.
    #[inline(never)]
    fn unbind_all(&mut self, id: u32, hears: fn(&Binding) -> u32) {
        for index in 0..BINDINGS {
            if hears(&self.interrupts.bindings[index]) == id {
                self.unbind(index as u32);
            }
        }
    }

    /// A dead domain's portal to the binding is closed: if it had bound a semaphore it will not acknowledge.
    pub(crate) fn unbind_dead(&mut self, index: u32, domain: u32) {
        let binding = &self.interrupts.bindings[index as usize];
        if binding.semaphore != 0 && binding.binder == domain {
            self.unbind(index);
        }
    }

    /// The binding's last portal was closed.
    pub(crate) fn binding_unheld(&mut self, index: u32) {
        self.unbind(index);
        self.interrupts.remove(index);
    }

    /// `range` is first port | count << 16.
    #[inline(never)]
    pub(crate) fn ports_service(&mut self, t: ThreadRef, range: u32, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        let (first, count) = ((range & 0xffff) as u64, (range >> 16) as u64);
        let port = |port: u64, width: u64| {
            let inside = port >= first && port.saturating_add(width) <= first + count;
            if inside {
                Ok(port as u16)
            } else {
                Err(Error::BadArgument)
            }
        };
        let width = match operation {
            ports::IN8 | ports::OUT8 | ports::OUT8_SEVERAL | ports::IN8_WHILE => 1,
            ports::IN16 | ports::OUT16 => 2,
            ports::IN32 | ports::OUT32 => 4,
            _ => return Err(Error::BadOperation.into()),
        };
        let data = port(w[0], width)?;
        match operation {
            ports::IN8 | ports::IN16 | ports::IN32 => {
                let value = self.arch.port_in(data, width as u8);
                self.answer(t, 0, value as u64);
            }
            ports::OUT8_SEVERAL => {
                if w[1] > BYTES {
                    return Err(Error::BadArgument.into());
                }
                for i in 0..w[1] as usize {
                    let byte = (w[2 + i / 8] >> (i % 8 * 8)) as u8;
                    self.arch.port_out(data, 1, byte as u32);
                }
            }
            ports::IN8_WHILE => {
                let status = port(w[1], 1)?;
                let mut words = [0u64; 4];
                let mut n = 0;
                while n < BYTES && self.arch.port_in(status, 1) as u64 & w[2] & 0xff != 0 {
                    let byte = self.arch.port_in(data, 1) as u64 & 0xff;
                    words[n as usize / 8] |= byte << (n % 8 * 8);
                    n += 1;
                }
                let [a, b, c, d] = words;
                self.answers(t, &[n, a, b, c, d]);
            }
            _ => self.arch.port_out(data, width as u8, w[1] as u32),
        }
        Ok(())
    }
}
