//! The driver of the interrupt rows: the clock chip (MC146818) interrupts 8,192 times a second, and QEMU's deterministic mode tells to the instruction when: every fourth tick
//! of a crystal of 32,768 Hz that began with the machine, which one tick of the time-stamp counter's every nanosecond can be held against.
//!
//! A row begins when somebody sends [`BEGIN`] and its number, or looks for the file `begin-NAME` below /ipc-clock, and is over when the samples are complete: then a message
//! [`IS_DONE`] is answered with 1, and whoever looks for the file `done` is told that it exists.

use crate::samples::{counters, Samples, Work};
use crate::stubs::receive_stamped;
use crate::{need, thread, with_room};
use cairn_abi::layout::native_slot;
use cairn_abi::machine::Counters;
use cairn_abi::pulse;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{interrupt, ports, thread as operation};
use cairn_rt::{serve, startup, Portal, Receiver, Reply};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub const BEGIN: u64 = 0x1_0000;
pub const IS_DONE: u64 = 0x1_0001;
/// Backgrounds, in whose number's order messages name them.
pub const BACKGROUNDS: [&str; 8] = [
    IDLE,
    "interrupt-identity",
    "interrupt-call",
    "interrupt-yield",
    "interrupt-semaphore",
    "interrupt-fork",
    "interrupt-write",
    "interrupt-fault",
];
const IDLE: &str = "interrupt-idle";
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

/// Of the thread that waits for interrupts: above all drivers of the machine, so that what these do is not measured. (The other one, whom backgrounds ask, is less important than
/// the backgrounds' servers; what it does for them is not measured either.)
const PRIORITY: u64 = 200;

/// The row whose samples are taken, counted from 1; 0: none.
static ROW: AtomicUsize = AtomicUsize::new(0);

/// What both threads have: the chip's ports and its interrupt.
#[derive(Clone, Copy)]
struct Chip {
    ports: Portal,
    line: Portal,
}

struct Clock {
    chip: Chip,
    samples: Samples,
    taken: usize,
    /// What the nucleus had done when the first sample was taken.
    before: Counters,
    /// The tick modulo [`PERIOD`] at which interrupts come, and how soon after one the soonest was.
    phase: u64,
    soonest: u64,
}

fn chip() -> Chip {
    let portal = |name| startup::portal(name).unwrap_or_else(|| panic!("no {name}"));
    Chip {
        ports: portal("ports"),
        line: portal("irq"),
    }
}

/// Answers whoever begins a row or asks whether it is over.
pub fn run() -> ! {
    let chip = chip();
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    chip.set(STATUS_A, RATE);
    chip.set(STATUS_B, QUIET);
    let channel = need("a channel", with_room(pool::CHANNEL, Receiver::create));
    let bound = chip
        .line
        .service(interrupt::BIND, &[channel.0 .0 as u64, 0]);
    need("the clock's interrupt", bound);
    let argument = channel.0 .0 as u64;
    let waiter = thread(Portal(native_slot::DOMAIN), wait, argument, PRIORITY);
    need("a start", waiter.service(operation::START, &[]));
    loop {
        let Ok(message) = receiver.receive(None) else {
            continue;
        };
        if message.token != 0 {
            let answer = asked(chip, &message.words);
            let _ = receiver.reply(message.token, Reply::result(answer));
        }
    }
}

/// The thread that waits for interrupts, at the channel with this slot.
unsafe extern "C" fn wait(channel: u64) -> ! {
    let mut clock = Clock {
        chip: chip(),
        samples: Samples::new(),
        taken: 0,
        before: Counters::default(),
        phase: 0,
        soonest: u64::MAX,
    };
    loop {
        let received = receive_stamped(channel as u32);
        if received.words[0] == pulse::INTERRUPT {
            clock.interrupted(received.stamp);
        }
    }
}

fn asked(chip: Chip, words: &[u64; 8]) -> i64 {
    match words[0] {
        BEGIN => {
            begin(chip, words[1] as usize);
            0
        }
        IS_DONE => (ROW.load(Relaxed) == 0) as i64,
        _ => {
            let path = serve::short_path(words);
            if let Some(name) = path.strip_prefix(b"/begin-") {
                let asked = |row: &&str| {
                    row.strip_prefix(MARK)
                        .is_some_and(|row| name.starts_with(row.as_bytes()))
                };
                if let Some(row) = BACKGROUNDS.iter().position(asked) {
                    begin(chip, row);
                }
            }
            if path.starts_with(b"/done") && ROW.load(Relaxed) == 0 {
                EEXIST
            } else {
                ENOENT
            }
        }
    }
}

/// From the first interrupt on the other thread has the chip.
fn begin(chip: Chip, row: usize) {
    if row < BACKGROUNDS.len() {
        ROW.store(row + 1, Relaxed);
        chip.set(STATUS_B, PERIODIC);
        chip.acknowledge();
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

impl Chip {
    fn set(self, register: u64, value: u64) {
        let _ = self.ports.service(ports::OUT8, &[INDEX, register]);
        let _ = self.ports.service(ports::OUT8, &[DATA, value]);
    }

    /// Reading this register lets the chip interrupt again.
    fn acknowledge(self) {
        let _ = self.ports.service(ports::OUT8, &[INDEX, STATUS_C]);
        let _ = self.ports.service(ports::IN8, &[DATA]);
        let _ = self.line.service(interrupt::ACKNOWLEDGE, &[]);
    }
}

impl Clock {
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
        if self.taken == WARM {
            self.before = counters();
        }
        if self.taken == WARM + self.samples.count() {
            let work = Work::between(&self.before, &counters(), 1);
            self.chip.set(STATUS_B, QUIET);
            if let Some(name) = BACKGROUNDS.get(ROW.load(Relaxed).wrapping_sub(1)) {
                self.samples.tell(name);
                // Other backgrounds have the nucleus do far more than the interrupts.
                if *name == IDLE {
                    work.tell(name, self.samples.count() as u64);
                }
            }
            self.taken = 0;
            self.soonest = u64::MAX;
            ROW.store(0, Relaxed);
        }
        self.chip.acknowledge();
    }
}
