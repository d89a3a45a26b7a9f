//! The driver program of one serial port: `arguments = ["base=0x3f8"]`, portals `ports` and `irq`, protocol `cairn_idl::uart`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::hasty::reason;
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{interrupt, ports};
use cairn_abi::{pulse, received, Token};
use cairn_idl::errno::{EINTR, ENXIO};
use cairn_idl::uart::{self, Parity};
use cairn_idl::wire::{self, Caller, Errno, Out, Outcome};
use cairn_rt::serve::{self, Blocked};
use cairn_rt::startup;
use cairn_rt::{log, memory, Portal, Received, Receiver, Reply};
use cairn_uart::driver::Driver;
use cairn_uart::hasty;
use cairn_uart::registers::{Chip, DATA, LINE_STATUS};

cairn_rt::entry!(main);

/// Badge of the interrupt's pulses.
const INTERRUPT_BADGE: u64 = u64::MAX;
/// How often a line that sends is looked at, should an interrupt get lost.
const TICK: u64 = 50_000_000;
/// How often a line that somebody waits to be drained is looked at: the last byte's end makes no interrupt.
const DRAIN_TICK: u64 = 1_000_000;

/// The chip behind a ports portal.
struct PortChip {
    ports: Portal,
    base: u64,
}

impl Chip for PortChip {
    fn input(&mut self, register: u16) -> u8 {
        // A refused access looks like an absent chip.
        self.ports
            .service(ports::IN8, &[self.base + register as u64])
            .map_or(0xff, |words| words[0] as u8)
    }

    fn output(&mut self, register: u16, value: u8) {
        let _ = self
            .ports
            .service(ports::OUT8, &[self.base + register as u64, value as u64]);
    }

    fn input_ready(&mut self, into: &mut [u8; 32]) -> usize {
        let data = self.base + DATA as u64;
        let status = self.base + LINE_STATUS as u64;
        let Ok(words) = self.ports.service(
            ports::IN8_WHILE,
            &[data, status, cairn_uart::registers::status::READY as u64],
        ) else {
            return 0;
        };
        for (bytes, word) in into.chunks_exact_mut(8).zip(&words[1..5]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        (words[0] as usize).min(into.len())
    }

    fn output_several(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(32) {
            let mut padded = [0; 32];
            padded[..chunk.len()].copy_from_slice(chunk);
            let word =
                |i: usize| u64::from_le_bytes(core::array::from_fn(|byte| padded[i * 8 + byte]));
            let _ = self.ports.service(
                ports::OUT8_SEVERAL,
                &[
                    self.base + DATA as u64,
                    chunk.len() as u64,
                    word(0),
                    word(1),
                    word(2),
                    word(3),
                ],
            );
        }
    }
}

/// A number as manifests write it: decimal or `0x` hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Have the nucleus take received bytes at the interrupt. Without that (it has no room for another handler) the driver does it.
fn install(irq: Option<Portal>, ports: Portal, base: u64) -> bool {
    let (Some(irq), Ok(base)) = (irq, u16::try_from(base)) else {
        return false;
    };
    let (steps, significant) = (hasty::steps(base), hasty::significant());
    let words = [
        steps.as_ptr() as u64,
        steps.len() as u64,
        hasty::ROUNDS,
        hasty::THRESHOLD,
        significant.as_ptr() as u64,
        hasty::PAUSE_NS,
        ports.0 as u64,
    ];
    let install = || irq.service(interrupt::INSTALL, &words);
    memory::with_objects(pool::CODE, install).is_ok()
}

struct Program {
    receiver: Receiver,
    driver: Driver<PortChip>,
    irq: Option<Portal>,
    /// The nucleus takes received bytes from the chip.
    hasty: bool,
    client: Option<Portal>,
    /// Callers of DRAIN.
    draining: Vec<Token>,
    buffer: Vec<u8>,
}

fn main() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    // Without its portals the chip reads as absent, and every request is refused.
    let chip = PortChip {
        ports: startup::portal("ports").unwrap_or(Portal(u32::MAX)),
        base: startup::argument("base").and_then(number).unwrap_or(0),
    };
    let irq = startup::portal("irq");
    if let Some(irq) = irq {
        if let Err(error) = irq.service(interrupt::BIND, &[receiver.0 .0 as u64, INTERRUPT_BADGE]) {
            log!("no interrupt: {error:?}");
        }
    }
    let (base, ports) = (chip.base, chip.ports);
    let driver = Driver::new(chip);
    if !driver.present() {
        log!("no 16550 at port {base:#x}");
    } else if !driver.has_fifos() {
        log!("the chip at port {base:#x} has no FIFO");
    }
    let hasty = driver.present() && driver.has_fifos() && install(irq, ports, base);
    Program {
        receiver,
        hasty,
        driver,
        irq,
        client: None,
        draining: Vec::new(),
        buffer: vec![0; uart::CHUNK],
    }
    .run()
}

impl Program {
    fn run(&mut self) -> ! {
        if let Err(error) = serve::sign(self.receiver, &uart::SIGNATURES) {
            panic!("the channel cannot be signed: {error:?}");
        }
        loop {
            let wait = match (self.draining.is_empty(), self.driver.sending()) {
                (false, _) => Some(DRAIN_TICK),
                (true, true) => Some(TICK),
                (true, false) => None,
            };
            let deadline = wait.map(|ns| cairn_rt::time::monotonic() + ns);
            match self.receiver.receive(deadline) {
                Ok(received) if received.kind == received::kind::PULSE => self.pulse(&received),
                Ok(received) => self.request(&Blocked::<true> {
                    receiver: self.receiver,
                    received,
                }),
                Err(_) => {
                    let events = self.driver.tick();
                    self.tell(events);
                }
            }
            self.finish_drains();
        }
    }

    fn pulse(&mut self, received: &Received) {
        match received.words[0] {
            pulse::INTERRUPT => {
                let (reasons, last) = (received.words[2], received.words[3] as u8);
                let mut events = if self.take() { uart::INPUT } else { 0 };
                if reasons & reason::HANDED_OVER != 0 {
                    events |= self.driver.handed_over(last);
                } else if reasons == 0 {
                    // From before the handler was there, or without one.
                    events |= self.driver.interrupt();
                }
                if reasons == 0 || reasons & reason::HANDED_OVER != 0 {
                    if let Some(irq) = self.irq {
                        let _ = irq.service(interrupt::ACKNOWLEDGE, &[]);
                    }
                }
                self.tell(events);
            }
            pulse::UNBLOCK | pulse::GONE => {
                let token = received.words[1];
                let held = self.draining.len();
                self.draining.retain(|&waiting| waiting != token);
                if held != self.draining.len() && received.words[0] == pulse::UNBLOCK {
                    self.reply(token, Reply::result(-EINTR));
                }
            }
            _ => {}
        }
    }

    /// Move what the hasty handler gathered to the driver; true if there was something.
    fn take(&mut self) -> bool {
        let Some(irq) = self.irq.filter(|_| self.hasty) else {
            return false;
        };
        let mut any = false;
        // The line goes on meanwhile: what is more than a few rings full comes with the next pulse.
        for _ in 0..8 {
            let length = self.buffer.len() as u64;
            let taken = irq.service_into(interrupt::TAKE, &[0, length], 0, &mut self.buffer);
            match taken {
                Ok(words) if words[0] != 0 => {
                    let count = (words[0] as usize).min(self.buffer.len());
                    self.driver.received(&self.buffer[..count]);
                    any = true;
                }
                _ => break,
            }
        }
        any
    }

    fn tell(&mut self, events: u64) {
        if events == 0 {
            return;
        }
        if let Some(client) = self.client {
            if client.notify(events).is_err() {
                // The client is gone; its successor attaches anew.
                client.close();
                self.client = None;
            }
        }
    }

    fn finish_drains(&mut self) {
        if !self.draining.is_empty() && self.driver.drained() {
            for token in core::mem::take(&mut self.draining) {
                self.reply(token, Reply::result(0));
            }
        }
    }

    /// A caller that went away meanwhile needs no answer, so a failed reply is nobody's loss.
    fn reply(&self, token: Token, reply: Reply) {
        let _ = self.receiver.reply(token, reply);
    }

    fn request(&mut self, blocked: &Blocked<true>) {
        let receiver = self.receiver;
        let outcome = match self.driver.present() {
            true => uart::dispatch(self, blocked),
            false => wire::finish(blocked, Err(ENXIO), None),
        };
        let Outcome::Reply(reply) = outcome else {
            return;
        };
        if serve::answer(receiver, blocked.received.token, &reply).is_err()
            && !reply.data.is_empty()
        {
            log!("{} received bytes lost with their reader", reply.data.len());
        }
    }
}

impl uart::Server for Program {
    fn attach<C: Caller>(&mut self, _: &C, client: u32) -> Result<(), Errno> {
        if let Some(old) = self.client.replace(Portal(client)) {
            old.close();
        }
        if self.driver.has_input() {
            self.tell(uart::INPUT);
        }
        Ok(())
    }

    fn read<C: Caller>(&mut self, _: &C, room: usize) -> Result<(u64, &[u8]), Errno> {
        let length = room.min(self.buffer.len());
        let (count, seen) = self.driver.read(&mut self.buffer[..length]);
        Ok((seen, &self.buffer[..count]))
    }

    fn write<C: Caller>(&mut self, caller: &C, data: Out<'_, C>) -> Result<u32, Errno> {
        let length = data.len().min(self.driver.room());
        let count = data.read(0, &mut self.buffer[..length])?;
        let taken = self.driver.write(&self.buffer[..count]);
        if taken < caller.out_len() && self.driver.room() == 0 {
            self.driver.note_refused();
        }
        Ok(taken as u32)
    }

    fn configure<C: Caller>(
        &mut self,
        _: &C,
        baud: u64,
        bits: u64,
        two_stop: bool,
        parity: Parity,
    ) -> Result<(), Errno> {
        self.driver.configure(baud, bits, two_stop, parity.word())
    }

    fn drain<C: Caller>(&mut self, caller: &C) -> Result<Option<()>, Errno> {
        self.draining.push(caller.token());
        Ok(None)
    }

    fn flush<C: Caller>(&mut self, _: &C, which: u64) -> Result<(), Errno> {
        // What the handler holds is part of what has been received.
        let input = self.take();
        let events = self.driver.flush(which);
        let kept = input && which & uart::flush::RECEIVED == 0;
        self.tell(events | if kept { uart::INPUT } else { 0 });
        Ok(())
    }

    fn unsent<C: Caller>(&mut self, _: &C) -> Result<u32, Errno> {
        Ok(self.driver.unsent() as u32)
    }
}
