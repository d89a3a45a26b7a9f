//! Hasty handlers: what they do at the interrupt, when they wake their driver, and what is refused.

use super::*;
use cairn_abi::hasty::{operation as op, reason, Step, RING, STEPS};
use cairn_abi::pulse;
use cairn_abi::service::{interrupt, machine};

pub(super) const LINE: u32 = 4;
pub(super) const DATA: u16 = 0x3f8;
pub(super) const CAUSE: u16 = 0x3fa;
pub(super) const STATUS: u16 = 0x3fd;
/// Where the driver keeps its list and its set of bytes, and where it takes bytes to.
pub(super) const LIST: u64 = BUFFER;
pub(super) const SET: u64 = BUFFER + 0x800;
pub(super) const TAKEN: u64 = BUFFER + 0x1000;

pub(super) struct Driver {
    pub w: World,
    pub dom: Dom,
    pub t: ThreadRef,
    pub rx: u32,
    pub irq: u32,
    pub ports: u32,
    /// Address of what INSTALL is told more, or 0.
    pub more: u64,
}

pub(super) fn driver() -> Driver {
    let mut w = World::new();
    let init = w.init;
    let dom = w.domain();
    let (rx, _) = w.channel(dom);
    let give = |w: &mut World, made: u64| {
        w.ok(init, dom.slot, domain::PORTAL_PUT, &[made, AUTO, 0xffff])[0] as u32
    };
    let line = w.ok(init, MACHINE, machine::INTERRUPT, &[LINE as u64, AUTO])[0];
    let irq = give(&mut w, line);
    let range = w.ok(init, MACHINE, machine::PORTS, &[DATA as u64, 8, AUTO])[0];
    let ports = give(&mut w, range);
    let t = w.thread(dom, 200);
    w.rest();
    w.ok(t, irq, interrupt::BIND, &[rx as u64, 7]);
    Driver {
        w,
        dom,
        t,
        rx,
        irq,
        ports,
        more: 0,
    }
}

/// Read the cause.
const LOOK: Step = Step {
    operation: op::READ,
    width: 1,
    port: CAUSE,
    ..Step::NONE
};
/// Take eight bytes.
const TAKE: Step = Step {
    operation: op::TAKE,
    count: 8,
    port: DATA,
    ..Step::NONE
};

/// Go on at a step if these bits of what was read are that.
const fn test(to: u8, mask: u32, value: u32) -> Step {
    Step {
        operation: op::TEST,
        to,
        mask,
        value,
        ..Step::NONE
    }
}

#[test]
fn a_block_is_written_when_no_other_core_is_in_it_and_used_when_all_see_it() {
    let mut d = driver();
    // Everything is done as with several cores. Each block that there is was given back just now.
    d.w.k.expect_several();
    d.w.k.arch.stood_in = (0..64).collect();
    let list = [LOOK];
    d.try_install(&list, [1, 1, 0]).expect("installed");
    assert_eq!(d.w.k.arch.unseen.len(), 0, "other cores have fetched");
    assert!(d.w.k.handlers[0].has_code());
}

fn bytes(steps: &[Step]) -> Vec<u8> {
    let encode = |s: &Step| {
        let mut all = vec![s.operation, s.width, s.count, s.to];
        all.extend(s.port.to_le_bytes());
        all.extend(s.status.to_le_bytes());
        all.extend(s.mask.to_le_bytes());
        all.extend(s.value.to_le_bytes());
        all
    };
    steps.iter().flat_map(encode).collect()
}

impl Driver {
    /// Ask for a handler with these rounds, threshold and pause; the end of line is the significant byte.
    pub fn try_install(&mut self, steps: &[Step], how: [u64; 3]) -> Result<(), Error> {
        self.w.poke_memory(self.dom, LIST, &bytes(steps));
        let mut set = [0; 32];
        for end in [b'\n', b'\r'] {
            set[end as usize / 8] |= 1 << (end % 8);
        }
        self.w.poke_memory(self.dom, SET, &set);
        let [rounds, threshold, pause] = how;
        let words = [
            LIST,
            steps.len() as u64,
            rounds,
            threshold,
            SET,
            pause,
            self.ports as u64,
            self.more,
        ];
        let (t, irq) = (self.t, self.irq);
        self.w.go(t, irq, interrupt::INSTALL, 0, &words);
        self.w.result(t).map(|_| ())
    }

    pub fn install(&mut self, steps: &[Step], how: [u64; 3]) {
        self.try_install(steps, how).expect("installed");
        self.w.receive(self.t, self.rx);
    }

    pub fn feed(&mut self, port: u16, values: &[u32]) {
        let reads = &mut self.w.k.arch.port_reads;
        reads.entry(port).or_default().extend(values);
    }

    pub fn interrupt(&mut self) {
        self.w.interrupt(LINE);
        self.w.check();
    }

    pub fn sleeps(&self) -> bool {
        self.w.current() != Some(self.t)
    }

    pub fn open(&self) -> bool {
        self.w.k.arch.unmasked.contains(&LINE)
    }

    /// The pulse that woke it: interrupts, reasons, last value.
    pub fn woken(&self) -> (u64, u64, u64) {
        assert!(!self.sleeps());
        let (code, count, badge) = self.w.pulse(self.t);
        assert_eq!((code, badge), (pulse::INTERRUPT, 7));
        let r = &self.w.k.threads[self.t].registers;
        (count, r.rdx, r.r10)
    }

    pub fn take(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let told = self.w.ok(self.t, self.irq, interrupt::TAKE, &[TAKEN, 4096]);
            if told[0] == 0 {
                return all;
            }
            all.extend(self.w.peek_memory(self.dom, TAKEN, told[0] as usize));
        }
    }

    pub fn wait(&mut self) {
        self.w.receive(self.t, self.rx);
        assert!(self.sleeps());
    }
}

/// What a serial port's driver would have: bytes while the status says so.
pub(super) fn receive() -> Vec<Step> {
    vec![Step {
        operation: op::TAKE_WHILE,
        count: 16,
        port: DATA,
        status: STATUS,
        mask: 1,
        ..Step::NONE
    }]
}

pub(super) fn typed(d: &mut Driver, text: &[u8]) {
    for piece in text.chunks(16) {
        for &byte in piece {
            d.feed(STATUS, &[0x61]);
            d.feed(DATA, &[byte as u32]);
        }
        if piece.len() < 16 {
            d.feed(STATUS, &[0x60]);
        }
        d.interrupt();
    }
}

#[test]
fn the_driver_sleeps_until_a_line_ends() {
    let mut d = driver();
    d.install(&receive(), [1, 1024, 0]);
    typed(&mut d, b"forty bytes that are no line by far, no ");
    assert!(d.sleeps() && d.open());
    typed(&mut d, b"now\n");
    assert_eq!(d.woken(), (4, reason::BYTE, 0));
    assert!(d.open(), "nothing to acknowledge");
    assert_eq!(d.take(), b"forty bytes that are no line by far, no now\n");
    d.wait();
    typed(&mut d, b"more");
    assert!(d.sleeps());
}

#[test]
fn a_threshold_wakes_and_bytes_come_around_the_rings_end_in_order() {
    let mut d = driver();
    d.install(&receive(), [1, 512, 0]);
    let mut expected = Vec::new();
    for round in 0..20u32 {
        let text: Vec<u8> = (0..560u32).map(|i| (round + i) as u8 | 0x80).collect();
        typed(&mut d, &text[..496]);
        assert!(d.sleeps());
        typed(&mut d, &text[496..]);
        let (_, reasons, _) = d.woken();
        assert_eq!(reasons, reason::THRESHOLD);
        expected.extend(&text);
        assert_eq!(d.take(), expected);
        expected.clear();
        // What came behind the pulse made another one.
        if d.w.poll(d.t, d.rx).is_some() {
            assert_eq!(d.w.poll(d.t, d.rx), None);
        }
        d.wait();
    }
}

#[test]
fn a_pause_wakes() {
    let mut d = driver();
    d.install(&receive(), [1, 512, 1_000_000]);
    for _ in 0..10 {
        typed(&mut d, b"abc");
        d.w.pass_time(900_000);
        assert!(d.sleeps(), "it goes on coming");
    }
    d.w.pass_time(100_000);
    assert_eq!(d.woken(), (10, reason::PAUSE, 0));
    assert_eq!(d.take().len(), 30);
    d.wait();
    d.w.pass_time(10_000_000);
    assert!(d.sleeps(), "an empty ring wakes nobody");
}

#[test]
fn what_the_handler_does_not_know_is_the_drivers_and_stays_masked() {
    let mut d = driver();
    let steps = [
        LOOK,
        test(4, 1, 1),
        test(5, 0xf, 4),
        Step::plain(op::HAND_OVER),
        Step::plain(op::DONE),
        TAKE,
        Step::plain(op::AGAIN),
    ];
    d.install(&steps, [3, 512, 0]);
    d.w.k.arch.ports.insert(DATA, b'x' as u32);
    d.feed(CAUSE, &[4, 4, 1]);
    d.interrupt();
    assert!(d.sleeps() && d.open());
    d.feed(CAUSE, &[4, 6]);
    d.interrupt();
    assert_eq!(d.woken(), (2, reason::HANDED_OVER, 6));
    assert!(!d.open());
    assert_eq!(d.take(), [b'x'; 24]);
    d.w.ok(d.t, d.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(d.open());
    // A device that never calms down is handed over after the last round.
    d.wait();
    d.feed(CAUSE, &[4; 4]);
    d.interrupt();
    assert_eq!(d.woken().1, reason::HANDED_OVER);
    assert_eq!(d.take(), [b'x'; 24]);
    assert_eq!(d.w.k.arch.port_reads[&CAUSE].len(), 1);
}

#[test]
fn another_interrupt_has_its_turn_between_two_rounds() {
    let mut d = driver();
    let steps = [
        LOOK,
        test(3, 1, 0),
        Step::plain(op::DONE),
        TAKE,
        Step::plain(op::AGAIN),
    ];
    d.install(&steps, [3, 512, 0]);
    d.w.k.arch.ports.insert(DATA, b'x' as u32);
    let left = |d: &Driver| d.w.k.arch.port_reads[&CAUSE].len();
    d.feed(CAUSE, &[4, 4, 1]);
    d.w.k.arch.other_waits = true;
    d.interrupt();
    assert!(d.sleeps() && d.open());
    assert_eq!(
        (left(&d), d.w.k.arch.again.as_slice()),
        (2, [LINE].as_slice())
    );
    // It goes on where it was, and the count begins anew when the device is served.
    d.interrupt();
    assert_eq!((left(&d), d.sleeps()), (0, true));
    // However often it gives way: a device that does not calm down is the driver's after the last round.
    d.feed(CAUSE, &[4; 4]);
    for rounds in 1..3 {
        d.w.k.arch.other_waits = true;
        d.interrupt();
        assert_eq!((left(&d), d.sleeps()), (4 - rounds, true));
    }
    d.w.k.arch.other_waits = true;
    d.interrupt();
    assert_eq!(d.woken().1, reason::HANDED_OVER);
    assert_eq!((left(&d), d.w.k.arch.again.len()), (1, 3));
    assert!(!d.open());
    assert_eq!(d.take(), [b'x'; 40]);
}

#[test]
fn a_full_ring_hands_over_and_loses_nothing() {
    let mut d = driver();
    d.install(&receive(), [1, RING as u64, 0]);
    let text = vec![b'y'; RING - 15];
    typed(&mut d, &text);
    assert!(d.sleeps());
    let before = d.w.k.arch.port_accesses;
    d.interrupt();
    assert_eq!(d.woken().1, reason::HANDED_OVER);
    assert_eq!(d.w.k.arch.port_accesses, before, "the chip keeps its bytes");
    assert_eq!(d.take(), text);
}

#[test]
fn steps_write_count_and_wake() {
    let mut d = driver();
    let steps = [
        Step {
            operation: op::READ,
            width: 4,
            port: DATA,
            ..Step::NONE
        },
        Step {
            operation: op::KEEP,
            width: 4,
            port: DATA + 4,
            mask: 0xff00,
            value: 1,
            ..Step::NONE
        },
        Step {
            operation: op::WRITE,
            width: 1,
            port: DATA + 1,
            value: 9,
            ..Step::NONE
        },
        Step::plain(op::APPEND),
        Step {
            operation: op::COUNT,
            value: 3,
            ..Step::NONE
        },
        Step {
            operation: op::TEST,
            to: 7,
            mask: 1 << 31,
            value: 0,
            ..Step::NONE
        },
        Step {
            operation: op::WAKE,
            value: 0x4200,
            ..Step::NONE
        },
    ];
    d.install(&steps, [1, 64, 0]);
    d.feed(DATA, &[0x1234, 0x1235, 0x1236, 0x8000_0000]);
    d.interrupt();
    d.interrupt();
    assert!(d.sleeps());
    assert_eq!(
        d.w.k.arch.port_writes,
        [(DATA + 4, 0x1201), (DATA + 1, 9)].repeat(2)
    );
    d.interrupt();
    assert_eq!(d.woken(), (3, reason::COUNT, 0x1236));
    assert_eq!(d.take(), [0x34, 0x35, 0x36]);
    d.wait();
    d.interrupt();
    assert_eq!(d.woken(), (1, 0x4200, 0x8000_0000));
}

#[test]
fn a_list_is_checked_before_it_is_used() {
    let mut d = driver();
    let take = |port, count| Step {
        operation: op::TAKE,
        count,
        port,
        ..Step::NONE
    };
    let read = |port, width| Step {
        operation: op::READ,
        width,
        port,
        ..Step::NONE
    };
    let test = |to| Step {
        operation: op::TEST,
        to,
        ..Step::NONE
    };
    let fine = [1, 16, 0];
    for (steps, how) in [
        (vec![], fine),
        (vec![Step::plain(op::DONE); STEPS + 1], fine),
        (vec![Step::plain(op::DONE)], [0, 16, 0]),
        (vec![Step::plain(op::DONE)], [17, 16, 0]),
        (vec![Step::plain(op::DONE)], [1, 0, 0]),
        (vec![Step::plain(op::DONE)], [1, RING as u64 + 1, 0]),
        (vec![Step::plain(0)], fine),
        (vec![Step::plain(13)], fine),
        (vec![read(DATA - 1, 1)], fine),
        (vec![read(DATA + 8, 1)], fine),
        (vec![read(DATA + 5, 4)], fine),
        (vec![read(DATA, 3)], fine),
        (vec![take(DATA + 8, 1)], fine),
        (vec![test(0), Step::plain(op::DONE)], fine),
        (vec![test(3), Step::plain(op::DONE)], fine),
        (vec![Step::plain(op::COUNT)], fine),
        (
            vec![Step {
                operation: op::WAKE,
                value: 1,
                ..Step::NONE
            }],
            fine,
        ),
        (vec![take(DATA, 255), take(DATA, 2)], fine),
        (vec![take(DATA, 65)], [4, 16, 0]),
    ] {
        assert_eq!(
            d.try_install(&steps, how),
            Err(Error::BadArgument),
            "{steps:?}"
        );
    }
    let (t, irq) = (d.t, d.irq);
    assert_eq!(d.w.err(t, irq, interrupt::TAKE, &[TAKEN, 1]), Error::Busy);
    for (steps, how) in [
        (vec![take(DATA, 255), Step::plain(op::DONE)], fine),
        (vec![take(DATA, 64)], [4, RING as u64, 5]),
        (vec![test(2), read(DATA + 4, 4)], [16, 16, 0]),
    ] {
        assert_eq!(d.try_install(&steps, how), Ok(()), "{steps:?}");
    }
    let longest = vec![Step::plain(op::DONE); STEPS];
    assert_eq!(d.try_install(&longest[1..], fine), Ok(()));
    // Code that is too long: the one before stays.
    assert_eq!(d.try_install(&longest, fine), Err(Error::BadArgument));
    d.w.ok(t, irq, interrupt::TAKE, &[TAKEN, 1]);
    // Without the ports in its hand nobody installs anything.
    let words = [LIST, 1, 1, 16, SET, 0, d.irq as u64];
    assert_eq!(
        d.w.err(t, irq, interrupt::INSTALL, &words),
        Error::BadPortal
    );
    let words = [0x10, 1, 1, 16, SET, 0, d.ports as u64];
    assert_eq!(
        d.w.err(t, irq, interrupt::INSTALL, &words),
        Error::BadAddress
    );
    d.w.ok(t, irq, interrupt::REMOVE, &[]);
    assert_eq!(d.w.err(t, irq, interrupt::TAKE, &[TAKEN, 1]), Error::Busy);
    d.w.receive(t, d.rx);
    d.interrupt();
    assert_eq!(d.woken(), (1, 0, 0), "an ordinary interrupt again");
}

#[test]
fn whatever_is_installed_stays_within_its_cost() {
    let mut d = driver();
    let mut random = 7u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut installed = 0;
    for _ in 0..4000 {
        let count = 1 + next() as usize % 8;
        let steps: Vec<Step> = (0..count)
            .map(|_| Step {
                operation: next() as u8 % 14,
                width: [1, 2, 4][next() as usize % 3],
                count: next() as u8 % 40,
                to: next() as u8 % 10,
                port: DATA + next() as u16 % 9,
                status: DATA + next() as u16 % 9,
                mask: next() as u32 & 3,
                value: next() as u32 & 3,
            })
            .collect();
        if d.try_install(&steps, [1 + next() % 8, 100, 0]).is_err() {
            continue;
        }
        installed += 1;
        for port in DATA..DATA + 8 {
            d.w.k.arch.ports.insert(port, next() as u32);
        }
        for _ in 0..3 {
            let before = d.w.k.arch.port_accesses;
            d.interrupt();
            let made = d.w.k.arch.port_accesses - before;
            assert!(made <= 256, "{made} accesses of {steps:?}");
        }
        d.take();
        let (t, rx, irq) = (d.t, d.rx, d.irq);
        d.w.poll(t, rx);
        d.w.ok(t, irq, interrupt::ACKNOWLEDGE, &[]);
    }
    assert!(installed > 200, "{installed}");
}

#[test]
fn a_dead_drivers_handler_rests() {
    let mut d = driver();
    d.install(&receive(), [1, 16, 1000]);
    d.w.recall();
    d.w.destroy(d.dom);
    let before = d.w.k.arch.port_accesses;
    d.interrupt();
    d.w.pass_time(5000);
    assert_eq!(d.w.k.arch.port_accesses, before);
    assert!(!d.open());
}

/// A serial chip that receives `text` at full speed interrupts for each eight bytes; the rest comes with its time-out. How often the driver wakes.
fn wakes_of_a_serial_driver(text: &[u8], handler: bool) -> usize {
    use cairn_uart::hasty;
    let mut d = driver();
    if handler {
        let how = [hasty::ROUNDS, hasty::THRESHOLD, hasty::PAUSE_NS];
        d.try_install(&hasty::steps(DATA), how).expect("installed");
    }
    d.w.receive(d.t, d.rx);
    let mut got = Vec::new();
    let mut wakes = 0;
    for piece in text.chunks(8) {
        let values: Vec<u32> = piece.iter().map(|&byte| byte as u32).collect();
        d.feed(DATA, &values);
        if piece.len() == 8 {
            d.feed(CAUSE, &[0xc4, 0xc1]);
        } else {
            d.feed(CAUSE, &[0xcc, 0xc1]);
            d.feed(STATUS, &vec![0x61; piece.len()]);
            d.feed(STATUS, &[0x60]);
        }
        d.interrupt();
        while !d.sleeps() {
            wakes += 1;
            if handler {
                let (_, reasons, _) = d.woken();
                assert_eq!(reasons & reason::HANDED_OVER, 0);
                got.extend(d.take());
            } else {
                d.w.ok(d.t, d.irq, interrupt::ACKNOWLEDGE, &[]);
            }
            d.w.receive(d.t, d.rx);
        }
        // Eight bytes at 115,200 baud.
        d.w.pass_time(694_000);
    }
    if handler {
        assert_eq!(got, text);
    }
    wakes
}

#[test]
fn a_serial_driver_wakes_for_lines_and_not_for_fifos() {
    let lines: Vec<u8> = [&[b'a'; 62][..], b"\r\n"].concat().repeat(16);
    assert_eq!(lines.len(), 1024);
    assert_eq!(wakes_of_a_serial_driver(&lines, false), 128);
    assert_eq!(wakes_of_a_serial_driver(&lines, true), 16);
    let block = [b'b'; 1024];
    assert_eq!(wakes_of_a_serial_driver(&block, true), 2);
    assert_eq!(wakes_of_a_serial_driver(b"ls\r", true), 1);
    assert_eq!(wakes_of_a_serial_driver(b"x", true), 1);
}

#[test]
fn just_the_significant_bytes_wake_the_driver() {
    let mut d = driver();
    d.install(&receive(), [1, 1024, 0]);
    for byte in 0..=255u8 {
        typed(&mut d, &[byte]);
        assert_eq!(!d.sleeps(), matches!(byte, b'\n' | b'\r'), "{byte}");
        if !d.sleeps() {
            assert_eq!(d.woken().1, reason::BYTE);
            assert_eq!(d.take().last(), Some(&byte));
            d.wait();
        }
    }
}
