//! Hasty handlers: the urgent part of a driver, executed by the nucleus the moment the interrupt arrives. A handler is a short list of steps
//! out of a closed set ([`cairn_abi::hasty`]): read and write the driver's own ports, test bits, append bytes to a ring, count, and say when the driver is
//! to be woken. The driver wakes only then, and takes the ring's bytes with one call.
//!
//! A list is checked when it is installed: jumps lead forward only, ports lie in a range that the driver holds a portal for, and the most accesses that it can make
//! in one interrupt ([`COST`]) are counted, repetitions included. The ring lies in the nucleus, so nothing here can fault and the driver cannot
//! make it lead elsewhere.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::{Answer, Kernel};
use cairn_abi::hasty::{operation, reason, Step, RING, ROUNDS, STEPS};
use cairn_abi::{Error, PortalKind};

/// Handlers of all drivers together.
pub const HANDLERS: usize = 8;
/// Most port accesses and other steps in one interrupt.
const COST: u32 = 256;
/// Bytes of a [`Step`].
const STEP: usize = core::mem::size_of::<Step>();

/// One driver's handler. All zero: not in use.
pub struct Handler {
    /// The binding that it belongs to, counted from 1.
    binding: u32,
    /// Steps in the list, and how often it may be gone through in one interrupt.
    count: u32,
    rounds: u32,
    /// Wake the driver when so many bytes wait.
    threshold: u32,
    /// Wake it when bytes wait and none came for so long; 0: never.
    pause: u64,
    /// When that will be, 0 if not.
    pause_at: u64,
    /// Bytes that wake it at once, a bit for each value.
    significant: [u64; 4],
    /// What COUNT counts.
    events: u32,
    /// Bytes that were appended and taken, modulo 2^32.
    head: u32,
    tail: u32,
    /// Why the driver was woken and what was read last, until it is told.
    pub(crate) reasons: u64,
    pub(crate) last: u32,
    steps: [Step; STEPS],
    ring: [u8; RING],
}

impl Handler {
    pub const fn new() -> Handler {
        Handler {
            binding: 0,
            count: 0,
            rounds: 0,
            threshold: 0,
            pause: 0,
            pause_at: 0,
            significant: [0; 4],
            events: 0,
            head: 0,
            tail: 0,
            reasons: 0,
            last: 0,
            steps: [Step::NONE; STEPS],
            ring: [0; RING],
        }
    }

    fn len(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    fn room(&self) -> u32 {
        RING as u32 - self.len()
    }

    /// There is room.
    fn append(&mut self, byte: u8) {
        self.ring[self.head as usize % RING] = byte;
        self.head = self.head.wrapping_add(1);
        if self.significant[byte as usize / 64] >> (byte % 64) & 1 != 0 {
            self.reasons |= reason::BYTE;
        }
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

fn step(bytes: &[u8; STEP]) -> Step {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Step {
        operation: bytes[0],
        width: bytes[1],
        count: bytes[2],
        to: bytes[3],
        port: u16::from_le_bytes([bytes[4], bytes[5]]),
        status: u16::from_le_bytes([bytes[6], bytes[7]]),
        mask: word(8),
        value: word(12),
    }
}

/// What a step costs at most, if it is step `index` of `count` and right for somebody who holds these ports (first, how many).
fn check(step: Step, index: usize, count: usize, ports: (u64, u64)) -> Result<u32, Error> {
    let inside = |port: u16, width: u8| {
        let port = port as u64;
        matches!(width, 1 | 2 | 4) && port >= ports.0 && port + width as u64 <= ports.0 + ports.1
    };
    let (fine, cost) = match step.operation {
        operation::READ | operation::WRITE | operation::KEEP => (inside(step.port, step.width), 1),
        operation::TEST => ((index + 1..=count).contains(&(step.to as usize)), 1),
        operation::TAKE => (inside(step.port, 1), step.count as u32),
        operation::TAKE_WHILE => (
            inside(step.port, 1) && inside(step.status, 1),
            2 * step.count as u32 + 1,
        ),
        operation::COUNT => (step.value != 0, 1),
        operation::WAKE => (step.value as u64 & !reason::OWN == 0, 1),
        operation::APPEND | operation::DONE | operation::HAND_OVER | operation::AGAIN => (true, 1),
        _ => (false, 0),
    };
    if fine {
        Ok(cost)
    } else {
        Err(Error::BadArgument)
    }
}

impl<A: Arch> Kernel<A> {
    /// `interrupt::INSTALL`.
    pub(crate) fn hasty_install(&mut self, t: ThreadRef, binding: u32, w: [u64; 8]) -> Answer {
        let [steps, count, rounds, threshold, significant, pause, ports, _] = w;
        let target = self.own_target_of(t, ports, PortalKind::Ports)?;
        let ports = (
            (target.object & 0xffff) as u64,
            (target.object >> 16) as u64,
        );
        if count == 0
            || count > STEPS as u64
            || rounds == 0
            || rounds > ROUNDS
            || threshold == 0
            || threshold > RING as u64
        {
            return Err(Error::BadArgument.into());
        }
        let mut bytes = [[0; STEP]; STEPS];
        let count = count as usize;
        self.read_own(t, steps, bytes[..count].as_flattened_mut())?;
        let mut set = [[0; 8]; 4];
        self.read_own(t, significant, set.as_flattened_mut())?;
        let mut list = [Step::NONE; STEPS];
        let mut cost = 0;
        for (index, (to, from)) in list.iter_mut().zip(&bytes[..count]).enumerate() {
            *to = step(from);
            cost += check(*to, index, count, ports)?;
        }
        if cost * rounds as u32 > COST {
            return Err(Error::BadArgument.into());
        }
        let free = self
            .handlers
            .iter()
            .position(|handler| handler.binding == binding + 1)
            .or_else(|| {
                self.handlers
                    .iter()
                    .position(|handler| handler.binding == 0)
            })
            .ok_or(Error::NoMemory)?;
        let handler = &mut self.handlers[free];
        handler.binding = binding + 1;
        handler.count = count as u32;
        handler.rounds = rounds as u32;
        handler.threshold = threshold as u32;
        handler.pause = pause;
        handler.pause_at = 0;
        handler.significant = set.map(u64::from_le_bytes);
        handler.events = 0;
        handler.tail = handler.head;
        handler.reasons = 0;
        handler.last = 0;
        handler.steps = list;
        self.interrupts.bindings[binding as usize].handler = free as u8 + 1;
        Ok(())
    }

    /// The binding has no handler any more.
    pub(crate) fn hasty_remove(&mut self, binding: u32) {
        let handler = core::mem::take(&mut self.interrupts.bindings[binding as usize].handler);
        if let Some(index) = handler.checked_sub(1) {
            self.handlers[index as usize].binding = 0;
            self.handlers[index as usize].pause_at = 0;
        }
    }

    /// `interrupt::TAKE`: w0 address, w1 length.
    pub(crate) fn hasty_take(&mut self, t: ThreadRef, binding: u32, w: [u64; 8]) -> Answer {
        let index = self.interrupts.bindings[binding as usize]
            .handler
            .checked_sub(1)
            .ok_or(Error::Busy)?;
        let handler = &self.handlers[index as usize];
        let at = handler.tail as usize % RING;
        let length = w[1].min(handler.len() as u64).min((RING - at) as u64) as usize;
        let mut bytes = [0; RING];
        bytes[..length].copy_from_slice(&handler.ring[at..at + length]);
        if length != 0 {
            self.write_own(t, w[0], &bytes[..length])?;
        }
        let handler = &mut self.handlers[index as usize];
        handler.tail = handler.tail.wrapping_add(length as u32);
        let left = handler.len();
        if left == 0 {
            handler.pause_at = 0;
        }
        // A driver that waits at a semaphore gets no pulse that would say it.
        let told = if self.interrupts.bindings[binding as usize].by_semaphore() {
            (core::mem::take(&mut handler.reasons), handler.last as u64)
        } else {
            (0, 0)
        };
        let words = [length as u64, left as u64, told.0, told.1];
        for (i, word) in words.into_iter().enumerate() {
            self.answer(t, i, word);
        }
        Ok(())
    }

    /// An interrupt of a binding that has handler `index`: go through its list.
    pub(crate) fn hasty_run(&mut self, index: usize) -> Outcome {
        let (arch, handler) = (&mut self.arch, &mut self.handlers[index]);
        let outcome = run(arch, handler);
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

    /// Wake the drivers whose bytes have waited long enough.
    pub(crate) fn hasty_pauses(&mut self, now: u64) {
        let mut next = u64::MAX;
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
            handler.reasons |= reason::PAUSE;
            let binding = handler.binding - 1;
            self.wake_driver(binding, false);
        }
        self.pause_next = next;
    }
}

/// Go through a handler's list, at most as often as it may.
fn run<A: Arch>(arch: &mut A, handler: &mut Handler) -> Outcome {
    for _ in 0..handler.rounds {
        let mut at = 0;
        loop {
            let Some(&step) = handler.steps[..handler.count as usize].get(at) else {
                return Outcome::Done;
            };
            at += 1;
            match step.operation {
                operation::READ => handler.last = arch.port_in(step.port, step.width),
                operation::WRITE => arch.port_out(step.port, step.width, step.value),
                operation::KEEP => {
                    let value = handler.last & step.mask | step.value;
                    arch.port_out(step.port, step.width, value);
                }
                operation::TEST => {
                    if handler.last & step.mask == step.value {
                        at = step.to as usize;
                    }
                }
                operation::APPEND => {
                    if handler.room() == 0 {
                        return Outcome::HandedOver;
                    }
                    let byte = handler.last as u8;
                    handler.append(byte);
                }
                operation::TAKE => {
                    if handler.room() < step.count as u32 {
                        return Outcome::HandedOver;
                    }
                    for _ in 0..step.count {
                        let byte = arch.port_in(step.port, 1) as u8;
                        handler.append(byte);
                    }
                }
                operation::TAKE_WHILE => {
                    if handler.room() < step.count as u32 {
                        return Outcome::HandedOver;
                    }
                    for _ in 0..step.count {
                        if arch.port_in(step.status, 1) & step.mask == 0 {
                            break;
                        }
                        let byte = arch.port_in(step.port, 1) as u8;
                        handler.append(byte);
                    }
                }
                operation::COUNT => {
                    handler.events += 1;
                    if handler.events >= step.value {
                        handler.events = 0;
                        handler.reasons |= reason::COUNT;
                    }
                }
                operation::WAKE => handler.reasons |= step.value as u64,
                operation::DONE => return Outcome::Done,
                operation::AGAIN => break,
                // HAND_OVER; nothing else is ever installed.
                _ => return Outcome::HandedOver,
            }
        }
    }
    // The device did not calm down.
    Outcome::HandedOver
}
