//! The driver against a 16550 of the imagination that keeps the data sheet's rules.

use super::*;
use std::collections::VecDeque;

/// `instant`: the line empties the send FIFO at once, as QEMU's does.
#[derive(Default)]
struct Fake {
    absent: bool,
    instant: bool,
    no_fifo: bool,
    scratch: u8,
    modem: u8,
    line: u8,
    enable: u8,
    divisor: [u8; 2],
    incoming: VecDeque<u8>,
    fifo: VecDeque<u8>,
    wire: Vec<u8>,
    sent_pending: bool,
    overrun: bool,
    broken: bool,
    entries: usize,
}

impl Fake {
    fn put(&mut self, byte: u8) {
        let limit = if self.no_fifo { 1 } else { fifo::SIZE };
        assert!(self.fifo.len() < limit, "send FIFO overrun");
        self.fifo.push_back(byte);
        self.sent_pending = false;
        if self.instant {
            self.drain();
        }
    }
    fn drain(&mut self) {
        self.wire.extend(self.fifo.drain(..));
        self.sent_pending = true;
    }
    fn status(&mut self) -> u8 {
        let mut value = 0;
        if !self.incoming.is_empty() {
            value |= status::READY;
        }
        if self.fifo.is_empty() {
            value |= status::EMPTY | status::IDLE;
        }
        if std::mem::take(&mut self.overrun) {
            value |= status::OVERRUN;
        }
        if std::mem::take(&mut self.broken) {
            value |= status::BREAK;
        }
        value
    }
}

impl Chip for Fake {
    fn input(&mut self, register: u16) -> u8 {
        self.entries += 1;
        if self.absent {
            return 0xff;
        }
        match register {
            DATA => self.incoming.pop_front().unwrap_or(0),
            INTERRUPT_IDENTITY => {
                let fifos = if self.no_fifo { 0 } else { identity::FIFOS };
                let cause = if self.enable & enable::LINE != 0 && (self.overrun || self.broken) {
                    identity::LINE
                } else if self.enable & enable::RECEIVED != 0 && !self.incoming.is_empty() {
                    identity::RECEIVED
                } else if self.enable & enable::SENT != 0 && self.sent_pending {
                    self.sent_pending = false;
                    identity::SENT
                } else {
                    identity::NONE
                };
                fifos | cause
            }
            LINE_CONTROL => self.line,
            LINE_STATUS => self.status(),
            MODEM_STATUS if self.modem & modem::LOOP != 0 => {
                (self.modem & modem::RTS) << 3
                    | (self.modem & modem::DTR) << 5
                    | (self.modem & modem::OUT1) << 4
                    | (self.modem & modem::OUT2) << 4
            }
            MODEM_STATUS => 0xb0,
            SCRATCH => self.scratch,
            _ => 0,
        }
    }

    fn output(&mut self, register: u16, value: u8) {
        self.entries += 1;
        match register {
            DIVISOR_LOW | DIVISOR_HIGH if self.line & line::DIVISOR != 0 => {
                self.divisor[register as usize] = value
            }
            DATA => self.put(value),
            INTERRUPT_ENABLE => {
                // The data sheet: enabling this with an empty FIFO interrupts at once.
                if value & enable::SENT & !self.enable != 0 && self.fifo.is_empty() {
                    self.sent_pending = true;
                }
                self.enable = value;
            }
            FIFO_CONTROL => {
                if value & fifo::CLEAR_RECEIVED != 0 {
                    self.incoming.clear();
                }
                if value & fifo::CLEAR_SENT != 0 {
                    self.fifo.clear();
                }
            }
            LINE_CONTROL => {
                // An interrupt now would have its handler read the divisor in place of bytes.
                assert!(value & line::DIVISOR == 0 || self.enable == 0);
                self.line = value
            }
            MODEM_CONTROL => self.modem = value,
            SCRATCH => self.scratch = value,
            _ => {}
        }
    }

    fn input_ready(&mut self, into: &mut [u8; 32]) -> usize {
        self.entries += 1;
        let mut count = 0;
        while count < 32 {
            let Some(byte) = self.incoming.pop_front() else {
                break;
            };
            into[count] = byte;
            count += 1;
        }
        count
    }

    fn output_several(&mut self, bytes: &[u8]) {
        self.entries += 1;
        bytes.iter().for_each(|&byte| self.put(byte));
    }
}

fn driver(fake: Fake) -> Driver<Fake> {
    let mut driver = Driver::new(fake);
    assert!(driver.present());
    driver.interrupt();
    driver
}

#[test]
fn an_absent_chip_is_refused() {
    let mut driver = Driver::new(Fake {
        absent: true,
        ..Fake::default()
    });
    assert!(!driver.present());
    assert_eq!(driver.configure(9600, 8, false, 0), Err(ENXIO));
}

#[test]
fn a_chip_is_found_and_set_to_115200_8n1_with_interrupts() {
    let driver = driver(Fake::default());
    assert!(driver.has_fifos());
    assert_eq!(driver.chip.divisor, [1, 0]);
    assert_eq!(driver.chip.line, 0b11);
    assert_eq!(
        driver.chip.modem,
        modem::DTR | modem::RTS | modem::OUT2,
        "no loop left on"
    );
    assert_eq!(driver.chip.enable, 7);
}

#[test]
fn received_bytes_arrive_in_order_and_tell_once() {
    let mut driver = driver(Fake::default());
    driver.chip.incoming.extend(0..100);
    assert_eq!(driver.interrupt(), uart::INPUT);
    assert_eq!(driver.interrupt(), 0);
    let mut out = [0; 128];
    assert_eq!(driver.read(&mut out), (100, 0));
    assert!(out[..100].iter().copied().eq(0..100));
}

#[test]
fn a_full_receive_ring_says_that_bytes_were_lost() {
    let mut driver = driver(Fake::default());
    driver
        .chip
        .incoming
        .extend(std::iter::repeat_n(7, RECEIVE_RING + 5));
    driver.interrupt();
    let mut out = vec![0; RECEIVE_RING + 10];
    assert_eq!(driver.read(&mut out), (RECEIVE_RING, 1));
    assert_eq!(driver.read(&mut out), (0, 0));
}

#[test]
fn an_overrun_and_a_break_are_told() {
    let mut driver = driver(Fake::default());
    driver.chip.overrun = true;
    assert_eq!(driver.interrupt(), uart::INPUT);
    assert_eq!(driver.read(&mut [0; 4]), (0, 1));
    driver.chip.broken = true;
    driver.chip.incoming.push_back(0);
    assert_eq!(driver.interrupt(), uart::INPUT);
    assert_eq!(
        driver.read(&mut [0; 4]),
        (0, 2),
        "the break's zero is no input"
    );
}

#[test]
fn sending_fills_the_fifo_and_goes_on_by_interrupt() {
    let mut driver = driver(Fake::default());
    let text: Vec<u8> = (0..100).collect();
    assert_eq!(driver.write(&text), 100);
    assert_eq!(driver.chip.fifo.len(), 16);
    assert!(!driver.drained());
    for _ in 0..7 {
        driver.chip.drain();
        driver.interrupt();
    }
    assert_eq!(driver.chip.wire, text);
    assert!(driver.drained());
    assert!(!driver.sending());
    driver.write(b"x");
    assert_eq!(driver.chip.fifo.len(), 1, "starts again from idle");
}

#[test]
fn a_line_that_empties_at_once_needs_no_interrupt_and_few_entries() {
    let mut driver = driver(Fake {
        instant: true,
        ..Fake::default()
    });
    driver.chip.entries = 0;
    let text = vec![b'a'; 128];
    driver.write(&text);
    assert_eq!(driver.chip.wire, text);
    assert!(
        driver.chip.entries <= 18,
        "{} entries for 128 bytes",
        driver.chip.entries
    );
}

#[test]
fn a_lost_interrupt_is_made_up_by_the_tick() {
    let mut driver = driver(Fake::default());
    driver.write(&[b'a'; 40]);
    for _ in 0..3 {
        driver.chip.drain();
        driver.chip.sent_pending = false;
        assert!(driver.sending());
        driver.tick();
    }
    assert_eq!(driver.chip.wire.len(), 40);
    assert!(!driver.sending());
}

#[test]
fn a_full_send_ring_refuses_and_tells_when_half_is_free() {
    let mut driver = driver(Fake::default());
    let text = vec![b'b'; SEND_RING + 100];
    let taken = driver.write(&text);
    assert_eq!(taken, SEND_RING);
    let mut events = 0;
    let mut interrupts = 0;
    while events == 0 {
        driver.chip.drain();
        events = driver.interrupt();
        interrupts += 1;
        assert!(interrupts < 2000);
    }
    assert_eq!(events, uart::DRAINED);
    assert!(driver.room() >= SEND_RING / 2);
}

#[test]
fn without_fifos_one_byte_goes_at_a_time() {
    let mut driver = driver(Fake {
        no_fifo: true,
        ..Fake::default()
    });
    assert!(!driver.has_fifos());
    driver.write(b"abc");
    for _ in 0..3 {
        driver.chip.drain();
        driver.interrupt();
    }
    assert_eq!(driver.chip.wire, b"abc");
}

#[test]
fn the_line_is_configured_and_nonsense_refused() {
    let mut driver = driver(Fake::default());
    assert_eq!(driver.configure(9600, 7, true, 2), Ok(()));
    assert_eq!(driver.chip.divisor, [12, 0]);
    assert_eq!(
        driver.chip.line,
        2 | line::TWO_STOP | line::PARITY | line::EVEN
    );
    for (baud, bits, parity) in [
        (0, 8, 0),
        (1, 8, 0),
        (230_400, 8, 0),
        (9600, 4, 0),
        (9600, 9, 0),
        (9600, 8, 3),
    ] {
        assert_eq!(driver.configure(baud, bits, false, parity), Err(EINVAL));
    }
}

#[test]
fn flush_throws_away_the_chosen_side() {
    let mut driver = driver(Fake::default());
    driver.chip.incoming.extend(b"in");
    driver.interrupt();
    driver.write(&[b'o'; 50]);
    driver.flush(1);
    assert_eq!(driver.read(&mut [0; 4]).0, 0);
    assert_eq!(driver.room(), SEND_RING - 34);
    driver.flush(2);
    assert_eq!(driver.room(), SEND_RING);
}

#[test]
fn what_the_handler_hands_over_is_served_and_not_read_again() {
    let mut driver = driver(Fake::default());
    let text: Vec<u8> = (0..40).collect();
    driver.write(&text);
    driver.chip.drain();
    // The handler reads the cause, which makes the chip forget it.
    let cause = driver.chip.input(INTERRUPT_IDENTITY);
    assert_eq!(cause & identity::CAUSE, identity::SENT);
    assert_eq!(driver.handed_over(cause), 0);
    assert_eq!(driver.chip.fifo.len(), 16, "sending goes on");
    // Bytes of the handler come before those that it left in the chip.
    driver.received(b"abc");
    driver.chip.incoming.extend(b"def");
    assert_eq!(driver.handed_over(identity::RECEIVED), uart::INPUT);
    let mut out = [0; 8];
    assert_eq!(driver.read(&mut out), (6, 0));
    assert_eq!(&out[..6], b"abcdef");
    assert_eq!(driver.handed_over(identity::NONE), 0);
    driver.received(&vec![7; RECEIVE_RING]);
    driver.received(b"x");
    assert_eq!(driver.read(&mut out).1, 1, "told that some were lost");
}

#[test]
fn a_send_fifo_that_was_filled_since_it_was_seen_empty_is_left_alone() {
    let mut driver = driver(Fake::default());
    // The handler reads that everything is sent, in the middle of a write that goes on.
    driver.write(&[1; 40]);
    driver.chip.drain();
    let seen = driver.chip.input(INTERRUPT_IDENTITY);
    assert_eq!(seen & identity::CAUSE, identity::SENT);
    driver.send(false);
    assert_eq!(driver.chip.fifo.len(), fifo::SIZE);
    driver.handed_over(seen);
    assert_eq!(driver.chip.fifo.len(), fifo::SIZE);
    while driver.sending() {
        driver.chip.drain();
        driver.interrupt();
    }
    assert_eq!(driver.chip.wire.len(), 40);
}
