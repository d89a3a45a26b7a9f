//! The driver of the interrupt rows: the clock chip (MC146818) interrupts 8,192 times a second, and QEMU's deterministic mode tells to the instruction when: every fourth tick
//! of a crystal of 32,768 Hz that began with the machine, which one tick of the time-stamp counter's every nanosecond can be held against.
//!
//! A row begins when somebody sends [`BEGIN`] and its number, or looks for the file `begin-NAME` below /ipc-clock, and is over when the samples are complete: then a message
//! [`IS_DONE`] is answered with 1, and whoever looks for the file `done` is told that it exists.

use crate::need;
use crate::samples::Samples;
use crate::stubs::receive_stamped;
use cairn_abi::layout::native_slot;
use cairn_abi::pulse;
use cairn_abi::service::{interrupt, ports};
use cairn_rt::{startup, Portal, Receiver, Reply};

pub const BEGIN: u64 = 0x1_0000;
pub const IS_DONE: u64 = 0x1_0001;
/// Backgrounds, in whose number's order messages name them.
pub const BACKGROUNDS: [&str; 8] = [
    "interrupt-idle",
    "interrupt-identity",
    "interrupt-call",
    "interrupt-yield",
    "interrupt-semaphore",
    "interrupt-fork",
    "interrupt-write",
    "interrupt-fault",
];
const MARK: &str = "interrupt-";

const ENOENT: i64 = -2;
const EEXIST: i64 = -17;

/// The chip's ports and registers.
const INDEX: u64 = 0x70;
const DATA: u64 = 0x71;
const STATUS_A: u64 = 10;
const STATUS_B: u64 = 11;
const STATUS_C: u64 = 12;
/// Status A: crystal on, 8,192 Hz. Status B: 24 hours, binary; and interrupts.
const RATE: u64 = 0x23;
const QUIET: u64 = 0x06;
const PERIODIC: u64 = 0x46;

const CRYSTAL: u128 = 32_768;
const SECOND: u128 = 1_000_000_000;
/// Ticks of the crystal from one interrupt to the next.
const PERIOD: u64 = 4;
/// Interrupts before the first sample: they show which of four ticks it is, and the background gets going.
const WARM: usize = 128;

struct Clock {
    ports: Portal,
    line: Portal,
    samples: Samples,
    row: Option<&'static str>,
    taken: usize,
    /// The tick modulo [`PERIOD`] at which interrupts come, and how soon after one the soonest was.
    phase: u64,
    soonest: u64,
}

pub fn run() -> ! {
    let portal = |name| startup::portal(name).unwrap_or_else(|| panic!("no {name}"));
    let mut clock = Clock {
        ports: portal("ports"),
        line: portal("irq"),
        samples: Samples::new(),
        row: None,
        taken: 0,
        phase: 0,
        soonest: 0,
    };
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    clock.chip(STATUS_A, RATE);
    clock.chip(STATUS_B, QUIET);
    let bound = clock
        .line
        .service(interrupt::BIND, &[native_slot::RECEIVE as u64, 0]);
    need("the clock's interrupt", bound);
    loop {
        let received = receive_stamped(native_slot::RECEIVE);
        if received.token != 0 {
            let answer = clock.asked(&received.words);
            let _ = receiver.reply(received.token, Reply::result(answer));
        } else if received.words[0] == pulse::INTERRUPT {
            clock.interrupted(received.stamp);
        }
    }
}

/// Ticks of the crystal so far, and when the last of them was.
fn tick(stamp: u64) -> (u64, u64) {
    // The chip's timer comes in the nanosecond after a tick's.
    let tick = (stamp as u128 - 1) * CRYSTAL / SECOND;
    // The nanosecond may be rounded down into the tick before.
    let tick = if due(tick as u64 + 1) <= stamp {
        tick + 1
    } else {
        tick
    };
    (tick as u64, due(tick as u64))
}

fn due(tick: u64) -> u64 {
    (tick as u128 * SECOND / CRYSTAL) as u64 + 1
}

impl Clock {
    fn chip(&self, register: u64, value: u64) {
        let _ = self.ports.service(ports::OUT8, &[INDEX, register]);
        let _ = self.ports.service(ports::OUT8, &[DATA, value]);
    }

    /// Reading this register lets the chip interrupt again.
    fn acknowledge(&self) {
        let _ = self.ports.service(ports::OUT8, &[INDEX, STATUS_C]);
        let _ = self.ports.service(ports::IN8, &[DATA]);
        let _ = self.line.service(interrupt::ACKNOWLEDGE, &[]);
    }

    fn asked(&mut self, words: &[u64; 8]) -> i64 {
        match words[0] {
            BEGIN => {
                self.begin(BACKGROUNDS.get(words[1] as usize).copied());
                0
            }
            IS_DONE => self.row.is_none() as i64,
            _ => {
                // A short path comes in the last five words.
                let mut path = [0; 40];
                for (place, word) in path.chunks_exact_mut(8).zip(&words[3..]) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                if let Some(name) = path.strip_prefix(b"/begin-") {
                    let asked = |row: &&&str| {
                        row.strip_prefix(MARK)
                            .is_some_and(|row| name.starts_with(row.as_bytes()))
                    };
                    self.begin(BACKGROUNDS.iter().find(asked).copied());
                }
                if path.starts_with(b"/done") && self.row.is_none() {
                    EEXIST
                } else {
                    ENOENT
                }
            }
        }
    }

    fn begin(&mut self, row: Option<&'static str>) {
        self.row = row;
        self.taken = 0;
        self.soonest = u64::MAX;
        self.chip(STATUS_B, PERIODIC);
        self.acknowledge();
    }

    fn interrupted(&mut self, stamp: u64) {
        let (mut last, mut at) = tick(stamp);
        if self.taken < WARM {
            if stamp - at < self.soonest {
                (self.soonest, self.phase) = (stamp - at, last % PERIOD);
            }
        } else if let Some(place) = self.samples.place(self.taken - WARM) {
            while last % PERIOD != self.phase {
                last -= 1;
                at = due(last);
            }
            *place = (stamp - at) as u32;
        }
        self.taken += 1;
        if self.taken == WARM + self.samples.count() {
            self.chip(STATUS_B, QUIET);
            if let Some(row) = self.row.take() {
                self.samples.tell(row);
            }
        }
        self.acknowledge();
    }
}
