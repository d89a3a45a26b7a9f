//! The driver of one 16550: receive and send rings between the chip's FIFOs and one client.
//!
//! Always holds: `sending` is true from the moment bytes go into the send FIFO until it was seen empty with the send ring empty too; while it
//! is true either an interrupt will come or [`Driver::tick`] finds the chip idle (some chips forget the interrupt).

use crate::registers::*;
use crate::ring::Ring;
use cairn_idl::errno::{EINVAL, ENXIO};
use cairn_idl::uart;

/// Enough for what a host can push in while the machine is busy elsewhere.
pub const RECEIVE_RING: usize = 64 * 1024;
pub const SEND_RING: usize = 16 * 1024;
/// Chunks of FIFO size that one call may send before it waits for the interrupt; more only helps on a chip that empties at once.
const BURST: usize = 16;
/// The interrupts that the driver wants.
const ENABLED: u8 = enable::RECEIVED | enable::SENT | enable::LINE;
/// Rounds of one interrupt: a chip that never calms down must not hold the driver.
const ROUNDS: usize = 64;

pub struct Driver<C: Chip> {
    chip: C,
    received: Ring,
    unsent: Ring,
    present: bool,
    fifos: bool,
    sending: bool,
    /// A client was refused some bytes and waits for room.
    refused: bool,
    lost: bool,
    saw_break: bool,
}

impl<C: Chip> Driver<C> {
    /// Looks whether the chip is there and sets it up (115200 8N1, FIFOs on, interrupts on). A chip that is not there answers nothing: see [`Driver::present`].
    pub fn new(chip: C) -> Driver<C> {
        let mut driver = Driver {
            chip,
            received: Ring::new(RECEIVE_RING),
            unsent: Ring::new(SEND_RING),
            present: false,
            fifos: false,
            sending: false,
            refused: false,
            lost: false,
            saw_break: false,
        };
        driver.present = driver.probe();
        if driver.present {
            driver.start();
        }
        driver
    }

    pub fn present(&self) -> bool {
        self.present
    }

    pub fn has_fifos(&self) -> bool {
        self.fifos
    }

    /// Bytes are on their way out: [`Driver::tick`] wants to be called now and then.
    pub fn sending(&self) -> bool {
        self.sending
    }

    pub fn has_input(&self) -> bool {
        !self.received.is_empty() || self.saw_break || self.lost
    }

    /// An absent port reads as all ones, so a scratch register that keeps two patterns and a loop that carries the modem lines mean a chip.
    fn probe(&mut self) -> bool {
        for pattern in [0x55, 0xaa] {
            self.chip.output(SCRATCH, pattern);
            // Another access in between, so that a floating bus does not echo the pattern.
            let _ = self.chip.input(LINE_CONTROL);
            if self.chip.input(SCRATCH) != pattern {
                return false;
            }
        }
        self.chip
            .output(MODEM_CONTROL, modem::LOOP | modem::OUT2 | modem::RTS);
        let looped = self.chip.input(MODEM_STATUS) & 0xf0;
        self.chip.output(MODEM_CONTROL, 0);
        // RTS comes back as CTS (bit 4), OUT2 as DCD (bit 7).
        looped == 0x90
    }

    fn start(&mut self) {
        self.chip.output(INTERRUPT_ENABLE, 0);
        self.chip.output(
            FIFO_CONTROL,
            fifo::ON | fifo::CLEAR_RECEIVED | fifo::CLEAR_SENT | fifo::TRIGGER_8,
        );
        self.fifos = self.chip.input(INTERRUPT_IDENTITY) & identity::FIFOS == identity::FIFOS;
        self.set_line(1, 0b11);
        self.chip
            .output(MODEM_CONTROL, modem::DTR | modem::RTS | modem::OUT2);
        // What a boot loader left behind is no input of ours.
        let mut rest = [0; 32];
        self.chip.input_ready(&mut rest);
        let _ = self.chip.input(LINE_STATUS);
        let _ = self.chip.input(MODEM_STATUS);
        self.chip.output(INTERRUPT_ENABLE, ENABLED);
    }

    fn set_line(&mut self, divisor: u16, control: u8) {
        self.chip.output(LINE_CONTROL, control | line::DIVISOR);
        self.chip.output(DIVISOR_LOW, divisor as u8);
        self.chip.output(DIVISOR_HIGH, (divisor >> 8) as u8);
        self.chip.output(LINE_CONTROL, control);
    }

    /// Serve an interrupt; returns the bits of [`uart::INPUT`] and [`uart::DRAINED`] to tell the client.
    pub fn interrupt(&mut self) -> u64 {
        let mut input = false;
        for _ in 0..ROUNDS {
            let identity = self.chip.input(INTERRUPT_IDENTITY);
            if identity & identity::NONE != 0 {
                break;
            }
            input |= self.cause(identity);
        }
        self.events(input)
    }

    /// Serve one cause of an interrupt; true if there is something to read.
    fn cause(&mut self, identity: u8) -> bool {
        match identity & identity::CAUSE {
            identity::LINE => return self.line_status(),
            identity::RECEIVED | identity::TIMEOUT => return self.take_received(),
            identity::SENT => self.send(true),
            // Modem lines: reading them is what the chip wants.
            _ => {
                let _ = self.chip.input(MODEM_STATUS);
            }
        }
        false
    }

    /// The hasty handler has read this cause and leaves it and what follows to the driver. Reading made the chip forget some causes, so it must not be read again.
    /// It may be old news: what was seen empty then can have been filled since.
    pub fn handed_over(&mut self, identity: u8) -> u64 {
        let mut input = false;
        match identity & (identity::CAUSE | identity::NONE) {
            identity::SENT => self.send(false),
            told if told & identity::NONE == 0 => input = self.cause(told),
            _ => {}
        }
        self.interrupt() | self.events(input)
    }

    /// Bytes that the hasty handler took from the chip.
    pub fn received(&mut self, bytes: &[u8]) {
        if self.received.push(bytes) < bytes.len() {
            self.lost = true;
        }
    }

    /// For chips that lose a "sent" interrupt: look whether the FIFO is empty. Returns bits as [`Driver::interrupt`].
    pub fn tick(&mut self) -> u64 {
        if self.sending && self.chip.input(LINE_STATUS) & status::EMPTY != 0 {
            self.send(true);
        }
        self.events(false)
    }

    fn events(&mut self, input: bool) -> u64 {
        let mut events = if input { uart::INPUT } else { 0 };
        if self.refused && self.unsent.room() >= SEND_RING / 2 {
            self.refused = false;
            events |= uart::DRAINED;
        }
        events
    }

    /// A break, an overrun or a damaged byte at the front of the FIFO.
    fn line_status(&mut self) -> bool {
        let status = self.chip.input(LINE_STATUS);
        self.lost |= status & status::OVERRUN != 0;
        if status & status::BREAK != 0 {
            self.saw_break = true;
            // A break puts one zero byte into the FIFO that nobody sent.
            if status & status::READY != 0 {
                let _ = self.chip.input(DATA);
            }
        } else if status & status::READY != 0 {
            self.take_received();
        }
        true
    }

    fn take_received(&mut self) -> bool {
        let mut any = false;
        // A line at full speed refills the FIFO meanwhile; the ring bounds the loop.
        for _ in 0..RECEIVE_RING / 32 {
            let mut bytes = [0; 32];
            let count = self.chip.input_ready(&mut bytes);
            any |= count > 0;
            if self.received.push(&bytes[..count]) < count {
                self.lost = true;
            }
            if count < bytes.len() {
                break;
            }
        }
        any
    }

    /// Move bytes from the ring to the chip. `empty`: the send FIFO is known to be empty.
    fn send(&mut self, mut empty: bool) {
        let size = if self.fifos { fifo::SIZE } else { 1 };
        for _ in 0..BURST {
            if !empty && self.chip.input(LINE_STATUS) & status::EMPTY == 0 {
                return;
            }
            empty = false;
            let mut bytes = [0; fifo::SIZE];
            let count = self.unsent.pop(&mut bytes[..size]);
            self.sending = count > 0;
            if count == 0 {
                return;
            }
            self.chip.output_several(&bytes[..count]);
        }
    }

    /// Received bytes, and the bits of READ's answer (1 lost, 2 break), which are told once.
    pub fn read(&mut self, into: &mut [u8]) -> (usize, u64) {
        let count = self.received.pop(into);
        let bits = self.lost as u64 | (self.saw_break as u64) << 1;
        self.lost = false;
        self.saw_break = false;
        (count, bits)
    }

    /// How many bytes [`Driver::write`] would take now.
    pub fn room(&self) -> usize {
        self.unsent.room()
    }

    /// The client was told that not everything fits: tell it when there is room.
    pub fn note_refused(&mut self) {
        self.refused = true;
    }

    /// Takes what fits; the rest is the client's again.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let count = self.unsent.push(bytes);
        if count < bytes.len() {
            self.refused = true;
        }
        if !self.sending && count > 0 {
            self.send(false);
            // Should the FIFO not be empty after all, its interrupt will go on with the ring.
            self.sending = true;
        }
        count
    }

    /// Nothing is in the ring, in the FIFO or on the line.
    pub fn drained(&mut self) -> bool {
        self.unsent() == 0
    }

    /// [`uart::UNSENT`].
    pub fn unsent(&mut self) -> usize {
        let busy = self.present && self.chip.input(LINE_STATUS) & status::IDLE == 0;
        self.unsent.len() + usize::from(busy)
    }

    /// [`uart::FLUSH`].
    pub fn flush(&mut self, which: u64) -> u64 {
        let mut clear = 0;
        if which & 1 != 0 {
            self.received.clear();
            self.lost = false;
            self.saw_break = false;
            clear |= fifo::CLEAR_RECEIVED;
        }
        if which & 2 != 0 {
            self.unsent.clear();
            clear |= fifo::CLEAR_SENT;
        }
        if self.present && clear != 0 {
            self.chip
                .output(FIFO_CONTROL, fifo::ON | fifo::TRIGGER_8 | clear);
        }
        self.events(false)
    }

    /// [`uart::CONFIGURE`]: baud rate, data bits, stop bits, parity.
    pub fn configure(
        &mut self,
        baud: u64,
        bits: u64,
        two_stop: bool,
        parity: u64,
    ) -> Result<(), i64> {
        if !self.present {
            return Err(ENXIO);
        }
        if baud == 0 || baud > 115_200 || !(5..=8).contains(&bits) || parity > 2 {
            return Err(EINVAL);
        }
        // Nearest divisor; 16 bits hold 2 baud and more.
        let divisor = u16::try_from((115_200 + baud / 2) / baud).map_err(|_| EINVAL)?;
        let mut control = bits as u8 - 5;
        if two_stop {
            control |= line::TWO_STOP;
        }
        control |= match parity {
            1 => line::PARITY,
            2 => line::PARITY | line::EVEN,
            _ => 0,
        };
        // While the divisor shows, the nucleus's part of the driver must not be called: it would take the divisor for received bytes.
        self.chip.output(INTERRUPT_ENABLE, 0);
        self.set_line(divisor, control);
        self.chip.output(INTERRUPT_ENABLE, ENABLED);
        Ok(())
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
