//! The reader of `./cairn bench links`: it has one end of a wire whose other end the sender has ([`load`] says what it may be asked for), and measures how
//! frames reach it by each way in which the link's driver may hear of its device. Each measurement is a line `run KEY=VALUE …` in the log; all times are
//! nanoseconds, which are guest instructions.
//!
//! Beside the thread that reads there are a real-time one, above everybody, that sleeps until each next millisecond and sees how late it wakes, and one below
//! everybody that computes all the time while the machine is to be busy. What time it gets is what nobody else needed.
#![no_std]
#![no_main]

mod load;

use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, domain, thread, AUTO};
use cairn_abi::{received, Error};
use cairn_idl::link::Way;
use cairn_idl::vm;
use cairn_link::native::Link;
use cairn_rt::{log, memory, serve, startup, time, Message, Portal, Receiver, Reply};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use load::{Load, Sent, BEGIN, DELAY, END, MARK, NUMBER, STAMP};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
const BADGE: u64 = 5;
const RECEIVE_PAGES: usize = 256;
const STACK: usize = 16 * 1024;
const ENOENT: i64 = -2;

/// Priorities: above sender (210), driver (180) and reader (140), and below all of them.
const REAL_TIME: u64 = 220;
const COMPUTING: u64 = 10;
const MS: u64 = 1_000_000;
/// The computing thread's turns are shorter: whatever takes longer was somebody else's.
const TURN: u64 = 100;
/// How long a load runs before it is measured, and how long nothing comes when it is over.
const WARM: u64 = 3 * MS;
const QUIET: u64 = 3 * MS;

/// The latest that the real-time thread was, and whether the other one computes; the time that it got.
static LATEST: AtomicU64 = AtomicU64::new(0);
static COMPUTES: AtomicBool = AtomicBool::new(false);
static COMPUTED: AtomicU64 = AtomicU64::new(0);

/// Whatever the measurement cannot do without.
fn need<T, E: core::fmt::Debug>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

/// Do it, and once more after `vm` gave the nucleus room for more objects.
fn with_room<T>(kind: u64, attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    match attempt() {
        Err(Error::NoMemory) => {
            Portal(native_slot::VM).call(Message::new(&[vm::MORE_OBJECTS, kind]))?;
            attempt()
        }
        other => other,
    }
}

fn begin_thread(entry: extern "C" fn(u64) -> !, argument: u64, priority: u64) {
    let stack = memory::map(STACK).unwrap_or_else(|| panic!("no memory for a stack"));
    let _ = memory::populate(stack);
    // As behind a call.
    let top = stack.as_mut_ptr() as u64 + STACK as u64 - 8;
    let entry = entry as *const () as u64;
    let words = [entry, top, argument, 0, 0, priority, AUTO];
    let made = with_room(pool::THREAD, || {
        Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words)
    });
    let thread = Portal(need("a thread", made)[0] as u32);
    need("a start", thread.service(thread::START, &[]));
}

extern "C" fn real_time(_: u64) -> ! {
    let mut next = time::monotonic() / MS * MS;
    loop {
        next += MS;
        let _ = Portal::CURRENT.service(current::SLEEP, &[next]);
        LATEST.fetch_max(time::monotonic().saturating_sub(next), Relaxed);
    }
}

/// `channel`: by which it hears that it is to compute.
extern "C" fn computing(channel: u64) -> ! {
    let channel = Receiver(Portal(channel as u32));
    let mut last = 0;
    loop {
        if !COMPUTES.load(Relaxed) {
            let _ = channel.receive(None);
            last = time::monotonic();
        }
        let now = time::monotonic();
        if now - last < TURN {
            COMPUTED.store(COMPUTED.load(Relaxed) + (now - last), Relaxed);
        }
        last = now;
    }
}

/// How long a measurement is, what is sent meanwhile, how the driver hears of it, and whether a thread computes.
struct Course {
    what: &'static str,
    load: Load,
    way: Way,
    hertz: u32,
    busy: bool,
    length: u64,
}

/// What came in a measurement's time.
#[derive(Default)]
struct Came {
    frames: u64,
    bytes: u64,
    /// Of frames' ways from the device to the reader.
    least: u64,
    most: u64,
    sum: u64,
    /// What the bytes of all frames add up to: reading them is the reader's work.
    total: u64,
}

struct Reader {
    link: Link,
    sender: Portal,
    /// Who tells the computing thread.
    computing: Portal,
    came: Came,
    /// The least number that the next frame may have; None: any.
    number: Option<u64>,
    /// Frames that came behind later ones.
    disorder: u64,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    u64::from_le_bytes(eight.unwrap_or_default())
}

impl Reader {
    /// Read what there is, until then at most.
    fn take(&mut self, until: u64) -> bool {
        let mut some = false;
        while let Some(frame) = self.link.received() {
            some = true;
            let now = time::monotonic();
            let came = &mut self.came;
            for bytes in self.link.bytes(&frame) {
                let late = now.wrapping_sub(word(bytes, STAMP)).saturating_sub(DELAY);
                came.least = came.least.min(late);
                came.most = came.most.max(late);
                came.sum += late;
                came.bytes += bytes.len() as u64;
                let number = word(bytes, NUMBER);
                if self.number.is_some_and(|expected| number < expected) {
                    self.disorder += 1;
                }
                self.number = Some(number + 1);
                for eight in bytes.chunks_exact(8) {
                    came.total = came.total.wrapping_add(word(eight, 0));
                }
            }
            came.frames += 1;
            self.link.give_back(&frame);
            if now >= until {
                break;
            }
        }
        some
    }

    fn wait(&mut self, until: u64) {
        if let Ok(received) = CHANNEL.receive(Some(until)) {
            if received.kind == received::kind::PULSE && received.badge == BADGE {
                self.link.pulse(&received);
            } else if received.kind == received::kind::MESSAGE {
                let _ = CHANNEL.reply(received.token, Reply::result(ENOENT));
            }
        }
    }

    fn read_until(&mut self, until: u64) {
        while time::monotonic() < until {
            if !self.take(until) {
                self.wait(until);
            }
        }
    }

    /// Until nothing comes any more.
    fn drain(&mut self) {
        loop {
            let until = time::monotonic() + QUIET;
            let before = self.link.tally().received;
            self.read_until(until);
            if self.link.tally().received == before {
                return;
            }
        }
    }

    fn ask(&self, words: &[u64]) -> [u64; 8] {
        need("the sender", self.sender.call(Message::new(words)))
    }

    fn compute(&self, does: bool) {
        COMPUTES.store(does, Relaxed);
        if does {
            let _ = self.computing.notify(1);
        }
    }

    fn run(&mut self, course: &Course) {
        let Load {
            burst,
            period,
            length,
            dry,
        } = course.load;
        need("a way", self.link.events(course.way, course.hertz));
        self.compute(course.busy);
        // All begin at a time that is as far from the clocks' ticks.
        let begin = time::monotonic() / MS * MS + 2 * MS + 137;
        self.read_until(begin);
        self.number = None;
        self.ask(&[BEGIN, burst, period, length, u64::from(dry)]);
        self.read_until(begin + WARM);
        // From here on it counts.
        let before = need("counts", self.link.counts());
        self.came = Came {
            least: u64::MAX,
            ..Came::default()
        };
        LATEST.store(0, Relaxed);
        self.disorder = 0;
        self.ask(&[MARK]);
        let computed = COMPUTED.load(Relaxed);
        let start = time::monotonic();
        self.read_until(start + course.length);
        let passed = time::monotonic() - start;
        let computed = COMPUTED.load(Relaxed) - computed;
        let [offered, given, wakes, ran, ..] = self.ask(&[END]);
        let sent = Sent {
            offered,
            given,
            wakes,
            ran,
        };
        let after = need("counts", self.link.counts());
        let came = core::mem::take(&mut self.came);
        let latest = LATEST.load(Relaxed);
        let disorder = self.disorder;
        self.compute(false);
        self.drain();
        let least = if came.frames > 0 { came.least } else { 0 };
        log!(
            "run what={} way={:?} hertz={} busy={} length={length} burst={burst} period={period} dry={} passed={passed} offered={} given={} wakes={} ran={} \
             frames={} bytes={} least={least} mean={} most={} computed={computed} latest={latest} interrupts={} ticks={} disorder={disorder}",
            course.what,
            course.way,
            course.hertz,
            u8::from(course.busy),
            u8::from(dry),
            sent.offered,
            sent.given,
            sent.wakes,
            sent.ran,
            came.frames,
            came.bytes,
            came.sum / came.frames.max(1),
            came.most,
            after.interrupts - before.interrupts,
            after.ticks - before.ticks,
        );
    }
}

/// How a driver may hear of its device.
const WAYS: [(Way, u32); 7] = [
    (Way::Interrupts, 0),
    (Way::Clock, 1_000),
    (Way::Clock, 10_000),
    (Way::Clock, 50_000),
    (Way::Hybrid, 1_000),
    (Way::Hybrid, 10_000),
    (Way::Hybrid, 50_000),
];

/// Frames a second that are offered: up to ten times what can be done and more.
const LOADS: [u64; 9] = [
    50_000, 100_000, 200_000, 400_000, 600_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
];
const PLENTY: u64 = 2_000_000;
const SIZES: [u64; 4] = [64, 256, 1024, 1514];
/// From burst to burst where there are many frames.
const PERIOD: u64 = 20_000;

fn at(rate: u64, length: u64) -> Load {
    Load {
        burst: rate * PERIOD / (10 * MS),
        period: PERIOD,
        length,
        dry: false,
    }
}

/// So many frames a second, one at a time.
fn single(rate: u64) -> Load {
    Load {
        burst: 100,
        period: 1000 * MS / rate,
        length: 64,
        dry: false,
    }
}

fn costs(reader: &mut Reader, wanted: &dyn Fn(&str) -> bool) {
    if !wanted("costs") {
        return;
    }
    let course = |way, hertz, load| Course {
        what: "costs",
        load,
        way,
        hertz,
        busy: true,
        length: 50 * MS,
    };
    let dry = |load| Load { dry: true, ..load };
    let none = Load {
        burst: 0,
        ..single(5_000)
    };
    // What the machine takes for itself and for the sender, and what ticks of a clock cost that find nothing.
    reader.run(&course(
        Way::Interrupts,
        0,
        Load {
            period: 1000 * MS,
            ..none
        },
    ));
    reader.run(&course(Way::Interrupts, 0, none));
    reader.run(&course(Way::Interrupts, 0, dry(at(PLENTY, 64))));
    for hertz in [1_000, 10_000, 50_000] {
        reader.run(&course(Way::Clock, hertz, none));
    }
    // A frame by an interrupt of its own; frames by a clock.
    reader.run(&course(Way::Interrupts, 0, single(5_000)));
    for hertz in [1_000, 10_000, 50_000] {
        reader.run(&course(Way::Clock, hertz, at(100_000, 64)));
    }
}

/// By each way some hundred frames, and a load that is too great: all that the device was given come in order, or some of them where it was too much (and then
/// QEMU's hub lets frames pass that wait).
fn smoke(reader: &mut Reader) {
    for (way, hertz) in [WAYS[0], WAYS[2], WAYS[5]] {
        need("a way", reader.link.events(way, hertz));
        for (load, whole) in [(at(100_000, 64), true), (at(PLENTY, 1514), false)] {
            (reader.number, reader.disorder) = (None, 0);
            let before = reader.link.tally().received;
            reader.ask(&[BEGIN, load.burst, load.period, load.length, 0]);
            reader.read_until(time::monotonic() + 20 * MS);
            let given = reader.ask(&[END])[1];
            reader.drain();
            let came = reader.link.tally().received - before;
            let all = came == given && reader.disorder == 0;
            assert!(all || !whole && (1_000..=given).contains(&came));
        }
    }
    log!("what was sent came");
}

fn all(reader: &mut Reader, wanted: &dyn Fn(&str) -> bool) {
    costs(reader, wanted);
    for (way, hertz) in WAYS {
        for busy in [false, true] {
            let run = |reader: &mut Reader, what, load, length| {
                if wanted(what) {
                    reader.run(&Course {
                        what,
                        load,
                        way,
                        hertz,
                        busy,
                        length,
                    });
                }
            };
            // One frame in five ticks of the slowest clock, and four in each.
            run(reader, "sparse", single(200), 500 * MS);
            run(reader, "latency", single(4_000), 100 * MS);
            for size in SIZES {
                run(reader, "size", at(PLENTY, size), 20 * MS);
            }
            for rate in LOADS {
                run(reader, "load", at(rate, 64), 20 * MS);
            }
        }
    }
}

fn main() -> ! {
    let [link, sender] = ["link", "sender"]
        .map(|name| startup::portal(name).unwrap_or_else(|| panic!("no portal {name}")));
    let channel = need("a channel", with_room(pool::CHANNEL, Receiver::create));
    let computing_portal = need("a portal", channel.make_portal(1));
    let link = need("a link", Link::open(link, RECEIVE_PAGES, 1, CHANNEL, BADGE));
    begin_thread(computing, u64::from(channel.0 .0), COMPUTING);
    begin_thread(real_time, 0, REAL_TIME);
    let mut reader = Reader {
        link,
        sender,
        computing: computing_portal,
        came: Came::default(),
        number: None,
        disorder: 0,
    };
    log!("the reader has its link");
    // What is wanted of the measurements; all, if nothing is said.
    let rows = startup::argument("cmdline").and_then(|line| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix("links.rows="))
    });
    let wanted = |what: &str| rows.is_none_or(|rows| rows.split(',').any(|row| row == what));
    loop {
        let Ok(received) = CHANNEL.receive(None) else {
            continue;
        };
        if received.kind == received::kind::PULSE && received.badge == BADGE {
            reader.link.pulse(&received);
            continue;
        }
        if received.token == 0 {
            continue;
        }
        let path = serve::short_path(&received.words);
        let _ = CHANNEL.reply(received.token, Reply::result(ENOENT));
        if path.starts_with(b"/run\0") {
            match rows {
                Some("smoke") => smoke(&mut reader),
                _ => all(&mut reader, &wanted),
            }
            log!("end");
        }
    }
}
