//! Hasty handlers: the urgent part of a driver, executed by the nucleus the moment the interrupt arrives. A handler is a short list of steps
//! out of a closed set ([`cairn_abi::hasty`]): read and write the driver's own ports and registers, test bits, append bytes to a ring, count, and say when the driver is
//! to be woken. The driver wakes only then, and takes the ring's bytes with one call, or without any out of a ring in its own memory. What lists may be and do is in [`list`].
//!
//! Bytes are gathered in the nucleus in any case, so nothing can fault while a list is gone through. A ring of the driver's is looked at before that and gets the bytes behind it,
//! by the translations of that moment: pages that the driver gave away meanwhile are not written. What it says to have taken is believed only if that can be.
//!
//! A handler has a priority. While something more important runs it is *deferred*: its source stays masked, and the ready queue shows as if a thread waited
//! ([`PriorityQueue::set_floor`](crate::queue::PriorityQueue::set_floor)), so that the dispatcher comes here as soon as it may run.

#[cfg(any(test, feature = "sim"))]
pub(crate) mod interpret;
pub mod list;

use crate::arch::{Arch, Frame};
use crate::numbered::Numbered;
use crate::pool::{BlockRef, DomainRef, ThreadRef};
use crate::{plain, Answer, Kernel};
use cairn_abi::hasty::{reason, shared, More, Step, RING, ROUNDS, STEPS};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{map, prot};
use cairn_abi::service::AUTO;
use cairn_abi::{Error, PortalKind};
use list::{Bounds, Round};

/// Handlers of all drivers together.
const HANDLERS: usize = 8;
pub type Handlers = Numbered<Handler, HANDLERS>;
/// Most port accesses and other steps in one interrupt.
const COST: u32 = 256;
/// Bytes of [`More`].
const MORE: usize = core::mem::size_of::<More>();
/// The priority of what is never deferred.
const AT_ONCE: u8 = 255;

/// One driver's handler. All zero: not in use.
// The arrays last, as in [`crate::channel::Channel`].
#[repr(C)]
pub struct Handler {
    /// The binding that it belongs to, counted from 1.
    binding: u32,
    /// How often the list may be gone through until the device is served, and how often it was since it was served last.
    rounds: u32,
    gone: u32,
    /// Wake the driver when so many bytes wait.
    threshold: u32,
    /// Wake it when bytes wait and none came for so long; 0: never.
    pause: u64,
    /// When that will be, 0 if not.
    pause_at: u64,
    /// What COUNT counts.
    pub(crate) events: u32,
    /// Bytes that were appended and taken, modulo 2^32.
    head: u32,
    tail: u32,
    /// Why the driver was woken and what was read last, until it is told.
    pub(crate) reasons: u64,
    pub(crate) last: u32,
    /// Where the driver keeps the ring (0: it does not), and the driver's domain.
    ring_at: u64,
    domain: u32,
    /// What it may touch, as that domain has it: the slot of its ports (AUTO: none) and which these are, where it sees its page of registers (0: nowhere) and
    /// which that is.
    slot: u64,
    ports: u32,
    frame: Frame,
    registers: u64,
    priority: u8,
    /// It has to wait, for what this core runs.
    deferred: bool,
    core: u8,
    /// The list as machine code, and the block that it lies in.
    code: usize,
    block: Option<BlockRef>,
    /// For each value of a byte: not 0 if it wakes the driver at once.
    significant: [u8; 256],
    ring: [u8; RING],
}

impl Handler {
    pub const fn new() -> Handler {
        Handler {
            binding: 0,
            rounds: 0,
            gone: 0,
            threshold: 0,
            pause: 0,
            pause_at: 0,
            significant: [0; 256],
            events: 0,
            head: 0,
            tail: 0,
            reasons: 0,
            last: 0,
            ring_at: 0,
            domain: 0,
            slot: AUTO,
            ports: 0,
            frame: 0,
            registers: 0,
            priority: AT_ONCE,
            deferred: false,
            core: 0,
            code: 0,
            block: None,
            ring: [0; RING],
        }
    }

    /// Nothing came, nobody was told: what a handler before this one left. (Steps behind the last and bytes that were not appended are never read; to clear them takes longer than all else.)
    fn begin(&mut self) {
        self.events = 0;
        self.head = 0;
        self.tail = 0;
        self.reasons = 0;
        self.last = 0;
        self.pause_at = 0;
        self.gone = 0;
        self.deferred = false;
        self.core = 0;
    }

    fn len(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    #[inline]
    pub fn room(&self) -> u32 {
        RING as u32 - self.len()
    }

    /// There is room. Few steps for each byte: while they come no other interrupt can.
    #[inline(always)]
    pub fn append(&mut self, bytes: impl Iterator<Item = u8>) {
        let (mut head, mut significant) = (self.head, 0);
        for byte in bytes {
            self.ring[head as usize % RING] = byte;
            head = head.wrapping_add(1);
            significant |= self.significant[byte as usize];
        }
        self.head = head;
        if significant != 0 {
            self.reasons |= reason::BYTE;
        }
    }

    /// Exactly those that belong to a binding have.
    #[cfg(test)]
    pub(crate) fn has_code(&self) -> bool {
        assert_eq!(self.binding != 0, self.block.is_some());
        self.block.is_some()
    }

    #[cfg(test)]
    pub(crate) fn is_deferred_at(&self, core: usize) -> bool {
        self.deferred && self.core as usize == core
    }
}

impl Handlers {
    pub const fn new() -> Handlers {
        Numbered([const { Handler::new() }; HANDLERS])
    }
}

impl Default for Handlers {
    fn default() -> Self {
        Handlers::new()
    }
}

impl Default for Handler {
    fn default() -> Self {
        Handler::new()
    }
}

/// What an interrupt's handler came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device is served.
    Done,
    /// The driver must go on itself, and acknowledge.
    HandedOver,
}

impl<A: Arch> Kernel<A> {
    /// `interrupt::INSTALL`.
    #[inline(never)]
    pub(crate) fn hasty_install(&mut self, t: ThreadRef, binding: u32, w: [u64; 8]) -> Answer {
        let [steps, count, rounds, threshold, significant, pause, ..] = w;
        let d = self.threads[t].domain;
        let ports = self.ports_in(d, w[6])?;
        if count == 0
            || count > STEPS as u64
            || rounds == 0
            || rounds > ROUNDS
            || threshold == 0
            || threshold > RING as u64
        {
            return Err(Error::BadArgument.into());
        }
        let mut list = [Step::NONE; STEPS];
        let list = &mut list[..count as usize];
        self.read_own(t, steps, plain::bytes_mut(list))?;
        let mut set = [[0; 8]; 4];
        self.read_own(t, significant, set.as_flattened_mut())?;
        let mut words = [[0; 8]; MORE / 8];
        if w[7] != 0 {
            self.read_own(t, w[7], words.as_flattened_mut())?;
        } else {
            words[2] = (AT_ONCE as u64).to_le_bytes();
        }
        let [registers, ring, priority] = words.map(u64::from_le_bytes);
        let priority = u8::try_from(priority).map_err(|_| Error::BadArgument)?;
        if (registers | ring) % PAGE != 0 {
            return Err(Error::BadArgument.into());
        }
        let bounds = Bounds {
            ports: ((ports & 0xffff) as u64, (ports >> 16) as u64),
            registers: registers != 0,
        };
        let mut cost = 0;
        for (index, &step) in list.iter().enumerate() {
            cost += list::check(step, index, list.len(), &bounds)?;
        }
        if cost * rounds as u32 > COST {
            return Err(Error::BadArgument.into());
        }
        if ring != 0 {
            // It begins empty; this also shows that it can be written.
            for at in [shared::HEAD, shared::TAIL] {
                self.write_own(t, ring + at, &[0; 4])?;
            }
        }
        let free = match self.interrupts.bindings[binding as usize].handler {
            0 => self.handlers.iter().position(|other| other.binding == 0),
            own => Some(own as usize - 1),
        };
        let free = free.ok_or(Error::NoMemory)?;
        let frame = self.registers_in(d, registers)?;
        let page = match registers {
            0 => 0,
            _ => self.arch.device_page(frame).ok_or(Error::NoMemory)?,
        };
        // To look at the list takes as long as to make code of it.
        self.open(t);
        let (b, code) = self.hasty_compile(list, page)?;
        self.hasty_remove(binding);
        let handler = &mut self.handlers[free];
        handler.begin();
        handler.binding = binding + 1;
        handler.rounds = rounds as u32;
        handler.threshold = threshold as u32;
        handler.pause = pause;
        handler.significant = [0; 256];
        let places = handler.significant.chunks_exact_mut(8);
        for (eight, &bits) in places
            .zip(set.as_flattened())
            .filter(|(_, &bits)| bits != 0)
        {
            // Of each copy of the byte one bit is kept, each time the next.
            let apart = (bits as u64 * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            eight.copy_from_slice(&apart.to_le_bytes());
        }
        handler.ring_at = ring;
        handler.domain = self.domains[d].id;
        (handler.slot, handler.ports) = (w[6], ports);
        (handler.registers, handler.frame) = (registers, frame);
        handler.priority = priority;
        handler.code = code;
        handler.block = Some(b);
        self.interrupts.bindings[binding as usize].handler = free as u8 + 1;
        Ok(())
    }

    /// The ports to which this slot of the domain leads; 0 for AUTO.
    fn ports_in(&self, d: DomainRef, slot: u64) -> Result<u32, Error> {
        if slot == AUTO {
            return Ok(0);
        }
        let entry = self.domains[d].table.target(slot).ok_or(Error::BadPortal)?;
        let target = self.resolve(entry)?;
        if target.kind() != PortalKind::Ports {
            return Err(Error::BadPortal);
        }
        Ok(target.object())
    }

    /// The page of device registers that the domain has mapped at this address for writing; 0 for address 0.
    fn registers_in(&self, d: DomainRef, address: u64) -> Result<Frame, Error> {
        if address == 0 {
            return Ok(0);
        }
        let needed = prot::READ | prot::WRITE | prot::DEVICE;
        let mapping = self.arch.query(self.domains[d].root, address);
        let mapping = mapping.filter(|mapping| mapping.prot & needed == needed);
        let frame = mapping.ok_or(Error::BadAddress)?.frame;
        self.check_frame(frame, needed | map::IO)?;
        Ok(frame)
    }

    /// Has the driver still what its handler touches? Looked up each time, so that no way on which a right goes can be forgotten.
    pub(crate) fn hasty_may(&self, index: usize) -> bool {
        let handler = &self.handlers[index];
        let Some(d) = self.domains.lookup(handler.domain) else {
            return false;
        };
        !self.domains[d].dead
            && self.ports_in(d, handler.slot) == Ok(handler.ports)
            && self.registers_in(d, handler.registers) == Ok(handler.frame)
    }

    /// Make machine code of a list.
    fn hasty_compile(&mut self, list: &[Step], page: u32) -> Result<(BlockRef, usize), Error> {
        let b = self.new_block().ok_or(Error::NoMemory)?;
        // A portal's code may have been in it a moment ago.
        self.await_passers();
        let (number, code) = (self.blocks.index(b), &mut self.blocks[b].code);
        let made = self.arch.write_handler(number, code, list, page);
        self.await_passers();
        match made {
            Some(at) => Ok((b, at)),
            None => {
                self.blocks.remove(b);
                Err(Error::BadArgument)
            }
        }
    }

    /// The binding has no handler any more.
    pub(crate) fn hasty_remove(&mut self, binding: u32) {
        let handler = core::mem::take(&mut self.interrupts.bindings[binding as usize].handler);
        if let Some(index) = handler.checked_sub(1) {
            let handler = &mut self.handlers[index as usize];
            handler.binding = 0;
            handler.pause_at = 0;
            let deferred = core::mem::take(&mut handler.deferred);
            if let Some(b) = handler.block.take() {
                self.blocks.remove(b);
            }
            if deferred {
                // The interrupt that it was to serve is the driver's now.
                self.tell_driver(binding, false);
            }
        }
    }

    /// `interrupt::TAKE`: w0 address, w1 length.
    #[inline(never)]
    pub(crate) fn hasty_take(&mut self, t: ThreadRef, binding: u32, w: [u64; 8]) -> Answer {
        let index = self.interrupts.bindings[binding as usize]
            .handler
            .checked_sub(1)
            .ok_or(Error::Busy)?;
        let handler = &self.handlers[index as usize];
        let by_semaphore = self.interrupts.bindings[binding as usize].by_semaphore();
        if handler.ring_at != 0 && !by_semaphore {
            return Err(Error::Busy.into());
        }
        let at = handler.tail as usize % RING;
        let mut length = w[1].min(handler.len() as u64).min((RING - at) as u64) as usize;
        if handler.ring_at != 0 {
            // The driver takes them itself; this only tells it why it was woken.
            length = 0;
        }
        if length != 0 {
            let root = self.root_of(t);
            let bytes = &self.handlers[index as usize].ring[at..at + length];
            let written = self.arch.write_user(root, w[0], bytes);
            written.map_err(|fault| self.copy_fault(t, t, fault))?;
        }
        let handler = &mut self.handlers[index as usize];
        handler.tail = handler.tail.wrapping_add(length as u32);
        let left = handler.len();
        if left == 0 {
            handler.pause_at = 0;
        }
        // A driver that waits at a semaphore gets no pulse that would say it.
        let told = if by_semaphore {
            (core::mem::take(&mut handler.reasons), handler.last as u64)
        } else {
            (0, 0)
        };
        let words = [length as u64, left as u64, told.0, told.1];
        self.answers(t, &words);
        Ok(())
    }

    /// An interrupt of a binding that has handler `index`: go through its list.
    pub(crate) fn hasty_run(&mut self, index: usize) -> Outcome {
        let handler = &self.handlers[index];
        let (before, ring) = (handler.head, handler.ring_at != 0);
        let mut outcome = Outcome::HandedOver;
        if !ring || self.ring_look(index) {
            outcome = self.hasty_rounds(index);
            if ring {
                self.ring_fill(index, before);
            }
        }
        let handler = &mut self.handlers[index];
        if handler.len() >= handler.threshold {
            handler.reasons |= reason::THRESHOLD;
        }
        if outcome == Outcome::HandedOver {
            handler.reasons |= reason::HANDED_OVER;
        }
        handler.pause_at = 0;
        if handler.reasons == 0 && handler.len() != 0 && handler.pause != 0 {
            let at = self.arch.now().saturating_add(handler.pause);
            handler.pause_at = at;
            self.pause_next = self.pause_next.min(at);
            self.program_timer();
        }
        outcome
    }

    /// Through the list, as often as it may be. Between two rounds other interrupts have their turn: then this one comes again, to go on.
    fn hasty_rounds(&mut self, index: usize) -> Outcome {
        let (arch, handler) = (&mut self.arch, &mut self.handlers[index]);
        let source = self.interrupts.bindings[handler.binding as usize - 1].source;
        for gone in core::mem::take(&mut handler.gone) + 1..=handler.rounds {
            match arch.run_handler(handler.code, handler) {
                Round::Again if gone < handler.rounds && arch.interrupt_again(source as u32) => {
                    handler.gone = gone;
                    return Outcome::Done;
                }
                Round::Again => {}
                Round::Done => return Outcome::Done,
                Round::HandOver => return Outcome::HandedOver,
            }
        }
        // The device did not calm down.
        Outcome::HandedOver
    }

    /// Where the driver of a ring of its own keeps it, as long as it lives.
    fn ring_root(&self, index: usize) -> Option<(A::Root, u64)> {
        let handler = &self.handlers[index];
        let d = self.domains.lookup(handler.domain)?;
        (!self.domains[d].dead).then(|| (self.domains[d].root, handler.ring_at))
    }

    /// What the driver took. False: its ring is not there.
    fn ring_look(&mut self, index: usize) -> bool {
        let Some((root, at)) = self.ring_root(index) else {
            return false;
        };
        let mut word = [0; 4];
        let (arch, handler) = (&mut self.arch, &mut self.handlers[index]);
        let head = handler.head.to_le_bytes();
        if arch.read_user(root, at + shared::TAIL, &mut word).is_err()
            || arch.write_user(root, at + shared::HEAD, &head).is_err()
        {
            return false;
        }
        let tail = u32::from_le_bytes(word);
        handler.tail = if handler.head.wrapping_sub(tail) <= RING as u32 {
            tail
        } else {
            // It took what never was there: nothing more until it says something better.
            handler.head.wrapping_sub(RING as u32)
        };
        true
    }

    /// The bytes from number `from` on go into the driver's ring, and then their number. Within the entry that looked at it, so it is there.
    fn ring_fill(&mut self, index: usize, from: u32) {
        let Some((root, at)) = self.ring_root(index) else {
            return;
        };
        let (arch, handler) = (&mut self.arch, &self.handlers[index]);
        let mut next = from;
        while next != handler.head {
            let place = next as usize % RING;
            let count = (handler.head.wrapping_sub(next) as usize).min(RING - place);
            let bytes = &handler.ring[place..place + count];
            let _ = arch.write_user(root, at + shared::BYTES + place as u64, bytes);
            next = next.wrapping_add(count as u32);
        }
        let head = handler.head.to_le_bytes();
        let _ = arch.write_user(root, at + shared::HEAD, &head);
    }

    /// Wake the drivers whose bytes have waited long enough; and the log goes on.
    pub(crate) fn hasty_pauses(&mut self, now: u64) {
        let mut next = self.log_again();
        for index in 0..self.handlers.len() {
            let handler = &mut self.handlers[index];
            if handler.pause_at == 0 {
                continue;
            }
            if handler.pause_at > now {
                next = next.min(handler.pause_at);
                continue;
            }
            handler.pause_at = 0;
            if handler.ring_at != 0 && self.ring_look(index) && self.handlers[index].len() == 0 {
                continue;
            }
            let handler = &mut self.handlers[index];
            handler.reasons |= reason::PAUSE;
            let binding = handler.binding - 1;
            self.wake_driver(binding, false);
        }
        self.pause_next = next;
    }

    /// Does something run here that is more important than this handler?
    pub(crate) fn must_wait(&self, index: usize) -> bool {
        let running = self.dispatch.current;
        running.is_some_and(|t| self.threads[t].effective > self.handlers[index].priority)
    }

    /// It waits until that gives way; its source is not heard until then.
    pub(crate) fn defer(&mut self, binding: u32, index: usize) {
        if !self.interrupts.bindings[binding as usize].is_bound() {
            return;
        }
        self.owes(binding);
        let handler = &mut self.handlers[index];
        handler.deferred = true;
        handler.core = self.cores.here as u8;
        self.set_hasty_floor();
    }

    /// The ready queue shows the most important of the deferred handlers of this core: a thread that is more important than it goes first.
    fn set_hasty_floor(&mut self) {
        let floor = self
            .first_deferred()
            .map_or(-1, |index| self.handlers[index].priority as i16 + 1)
            .max(self.partition_floor());
        self.dispatch.ready.set_floor(floor);
        if self.dispatch.put_off != 0 {
            let floor = self.dispatch.put_off as i16;
            self.dispatch.ready.raise_floor(floor);
        }
    }

    #[inline(never)]
    fn first_deferred(&self) -> Option<usize> {
        let here = self.cores.here as u8;
        let (mut found, mut most) = (None, 0);
        for (index, handler) in self.handlers.iter().enumerate() {
            if handler.deferred && handler.core == here && handler.priority >= most {
                (found, most) = (Some(index), handler.priority);
            }
        }
        found
    }

    /// The dispatcher met the floor, which is `best`: the timer comes for what was put off, or a deferred handler may run, if what runs here (-1: nothing) is
    /// not more important. One at a time; the floor is what is left.
    #[cold]
    #[inline(never)]
    pub(crate) fn floor_met(&mut self, best: i16, running: i16) {
        if self.take_up(best) {
            // The timer comes.
        } else if self.partition_met(best) {
            // Its scheduler is told.
        } else if let Some(index) = self.first_deferred() {
            let handler = &mut self.handlers[index];
            if handler.priority as i16 >= running {
                handler.deferred = false;
                let binding = handler.binding - 1;
                self.acknowledged(binding);
                self.serve_hastily(binding, index);
            }
        }
        self.set_hasty_floor();
    }
}
