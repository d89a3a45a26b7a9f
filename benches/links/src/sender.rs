//! The sender of `./cairn bench links`: a driver of a network device whose queue is filled once and for all. A load then costs it a few instructions a frame:
//! a new count in the queue, and the frame's time and number. Its device delivers a burst [`load::DELAY`] after the notification, so the time of a frame's arrival is
//! known to the instruction. What the device has no room for, because the receiver does not take it, is offered and not sent.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

mod load;

use cairn_abi::received;
use cairn_device::start::{start, Trouble, CHANNEL};
use cairn_device::{Memory, Pieces, Wanted};
use cairn_rt::{log, time, Reply};
use cairn_virtio::queue::{self, Queue};
use cairn_virtio::transport::feature::VERSION_1;
use cairn_virtio::transport::{self, Registers};
use cairn_virtio::windows::{show, Windows};
use load::{Load, Sent, BEGIN, DELAY, END, MARK, NUMBER, STAMP};

cairn_rt::entry!(main);

/// Words of the queue's tags, and requests.
const WORDS: usize = 4;
const MOST: usize = queue::most(WORDS);
const SEND: usize = 1;
/// A frame's memory, and where it begins behind virtio's header.
const SLOT: usize = 2048;
const HEAD: usize = 12;
/// The first piece of memory is the queue's.
const PIECE: usize = 65_536;
const PIECES: usize = 1 + MOST * SLOT / PIECE;
/// Where the queue has its descriptors, and its counts; see `Queue::places`.
const DESCRIPTOR: usize = 16;
/// Shortest and longest frame.
const LENGTHS: [u64; 2] = [64, 1514];
/// No interrupt is wanted.
const NO_INTERRUPT: u16 = 1;
/// Two notifications are so far apart at least that the second finds the device done with the first.
const APART: u64 = DELAY + 1_000;
/// A local experiment's frames (IEEE 802), to everybody.
const HEADER: [u8; 14] = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];

fn slot(number: u16) -> usize {
    PIECE + number as usize % MOST * SLOT
}

struct Sender {
    registers: Windows,
    memory: Pieces,
    place: u16,
    /// Where in memory the counts of what is available and of what is used are.
    available: usize,
    used: usize,
    made: u16,
    /// Numbers of the load's frames.
    number: u64,
}

fn set_up(mut registers: Windows, memory: Pieces) -> Result<Sender, transport::Trouble> {
    let r = &mut registers;
    transport::negotiate(r, VERSION_1, VERSION_1)?;
    let Some(made) = transport::queue::<WORDS>(r, &memory, SEND, 0, 0, 0) else {
        return Err(transport::give_up(r));
    };
    let queue: Queue<WORDS> = made.queue;
    if queue.size() as usize != MOST {
        return Err(transport::give_up(r));
    }
    let [_, available, used] = queue.places(&memory);
    let [available, used] = [available, used].map(|at| (at - memory.physical(0)) as usize);
    memory.write16(available, NO_INTERRUPT);
    for tag in 0..MOST {
        let at = slot(tag as u16) + HEAD;
        for (i, byte) in HEADER.into_iter().enumerate() {
            memory.write8(at + i, byte);
        }
        memory.write64(tag * DESCRIPTOR, memory.physical(slot(tag as u16)));
        memory.write16(available + 4 + 2 * tag, tag as u16);
    }
    transport::begin(r);
    Ok(Sender {
        place: made.place,
        registers,
        memory,
        available,
        used,
        made: 0,
        number: 0,
    })
}

impl Sender {
    fn set_length(&self, length: u64) {
        for tag in 0..MOST {
            let bytes = HEAD as u32 + length as u32;
            self.memory.write32(tag * DESCRIPTOR + 8, bytes);
        }
    }

    /// How many frames the device has room for.
    fn room(&self) -> u16 {
        let used = self.memory.read16(self.used + 2);
        MOST as u16 - self.made.wrapping_sub(used)
    }

    /// Notify the device of so many frames, as far as it has room → how many.
    fn send(&mut self, frames: u64, dry: bool) -> u64 {
        let frames = frames.min(u64::from(self.room())) as u16;
        if frames == 0 {
            return 0;
        }
        let first = self.made;
        if !dry {
            self.made = first.wrapping_add(frames);
        }
        self.memory.write16(self.available + 2, self.made);
        self.memory.barrier();
        let now = time::monotonic();
        self.registers.notify(self.place, SEND as u16);
        // The device looks at them DELAY later, and nobody that would have it do so sooner runs before this is done.
        for i in 0..frames {
            let at = slot(first.wrapping_add(i)) + HEAD;
            self.memory.write64(at + STAMP, now);
            self.memory.write64(at + NUMBER, self.number);
            self.number += 1;
        }
        u64::from(frames)
    }
}

/// A load under way.
struct Course {
    load: Load,
    sent: Sent,
    next: u64,
    /// Hundredths of a frame that were not sent yet.
    rest: u64,
    chance: u64,
}

impl Course {
    fn new(load: Load) -> Course {
        Course {
            load,
            sent: Sent::default(),
            next: time::monotonic() + APART,
            rest: 0,
            chance: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// xorshift64 (Marsaglia 2003).
    fn random(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }

    /// It is time for a burst.
    fn turn(&mut self, sender: &mut Sender) {
        let now = time::monotonic();
        self.rest += self.load.burst;
        let frames = self.rest / 100;
        self.rest %= 100;
        self.sent.offered += frames;
        self.sent.given += sender.send(frames, self.load.dry);
        // Between half a period and one and a half, so that clocks are met at any phase.
        let period = self.load.period;
        self.next += period / 2 + self.random() % period.max(1);
        self.next = self.next.max(now + APART);
        self.sent.wakes += 1;
        self.sent.ran += time::monotonic() - now;
    }
}

fn begin(sender: &mut Sender, words: &[u64; 8]) -> Option<Course> {
    let [_, burst, period, length, dry, ..] = *words;
    let load = Load {
        burst,
        period: period.max(APART),
        length: length.clamp(LENGTHS[0], LENGTHS[1]),
        dry: dry != 0,
    };
    sender.set_length(load.length);
    sender.number = 0;
    Some(Course::new(load))
}

fn main() -> ! {
    let started = start(
        PIECES,
        Wanted::messages(1),
        |bus| {
            let mut registers =
                show(bus).map_err(|_| Trouble::Device(transport::Trouble::Unfit))?;
            transport::reset(&mut registers).map_err(Trouble::Device)?;
            Ok(registers)
        },
        |registers, pieces, _| set_up(registers, pieces),
    );
    let (mut sender, _driver, _irq) = match started {
        Ok(started) => started,
        Err(trouble) => panic!("no sender: {trouble}"),
    };
    log!("the sender has its device");
    let mut course: Option<Course> = None;
    loop {
        match CHANNEL.receive(course.as_ref().map(|course| course.next)) {
            Ok(received) if received.kind == received::kind::MESSAGE => {
                let reply = match received.words[0] {
                    BEGIN => {
                        course = begin(&mut sender, &received.words);
                        Reply::result(0)
                    }
                    MARK => {
                        if let Some(course) = &mut course {
                            course.sent = Sent::default();
                        }
                        Reply::result(0)
                    }
                    END => {
                        let sent = course.take().map(|course| course.sent).unwrap_or_default();
                        Reply::new(&[sent.offered, sent.given, sent.wakes, sent.ran])
                    }
                    _ => Reply::result(-38),
                };
                let _ = CHANNEL.reply(received.token, reply);
            }
            Ok(_) => {}
            Err(_) => {
                if let Some(course) = &mut course {
                    course.turn(&mut sender);
                }
            }
        }
    }
}
