//! The program: takes the machine's memory over from `init`, then serves requests and faults.
//!
//! Arguments: `free=FIRST:COUNT,…` (frame numbers), `archive=FIRST:COUNT`, `used=COUNT`, `init=DOMAIN`, `acpi=ADDRESS` (of ACPI's root pointer).
//! Portals: `memory`, `space` (its own), `init-space`, `thread` (its first), and `irq`, a message-signalled interrupt, where there are such.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod portals;

use alloc::{vec, vec::Vec};
use cairn_abi::layout::{native_slot, PAGE};
use cairn_abi::service::thread;
use cairn_abi::{policy, received, Error};
use cairn_idl::vm::BADGE_OBJECT_FIRST;
use cairn_rt::alarm::{self, Alarm};
use cairn_rt::{entropy, log, startup, Portal, Received, Receiver, Reply};
use cairn_vm::frames::Frames;
use cairn_vm::{Frame, Start, Vm};
use portals::Portals;

cairn_rt::entry!(main);

/// The heap's frames are topped up to this before each request.
pub const STASH_LOW: usize = 96;
/// And if there are more of them afterwards, they are given back.
pub const STASH_HIGH: usize = 2 * STASH_LOW;
/// Badge of the alarm's notifications, which nobody else's portal has.
const ALARM: u64 = BADGE_OBJECT_FIRST - 1;

fn range(text: &str) -> Option<(Frame, u32)> {
    let (first, count) = text.split_once(':')?;
    Some((first.parse().ok()?, count.parse().ok()?))
}

/// Free ranges as the argument has them.
fn ranges(text: &str) -> impl DoubleEndedIterator<Item = (Frame, u32)> + Clone + '_ {
    text.split(',').filter_map(range)
}

/// Take the frames that the table of all frames and the first requests need from the end of what is free, before there is an allocator, and make one of them → how many.
fn start_heap(free: &str, archive: (Frame, u32)) -> u32 {
    let all = || {
        let all = ranges(free).chain([archive]);
        all.filter(|range| range.1 > 0)
    };
    let end = all().map(|r| u64::from(r.0) + u64::from(r.1)).max();
    let base = all().map(|r| u64::from(r.0)).min();
    let span = end.unwrap_or(0) - base.unwrap_or(0);
    // Six bytes and little more than a bit for each.
    let table = span * 25 / 4 / PAGE;
    let wanted = table as usize + STASH_LOW + 32;
    let frames = ranges(free)
        .rev()
        .flat_map(|range| (range.0..range.0 + range.1).rev());
    let taken = frames.take(wanted).filter(|frame| portals::stash(*frame));
    let taken = taken.count() as u32;
    portals::start_heap(span as usize);
    taken
}

/// What is free without so many frames at its end.
fn shorten(free: &mut Vec<(Frame, u32)>, mut frames: u32) {
    while let Some(last) = free.last_mut() {
        let here = frames.min(last.1);
        (last.1, frames) = (last.1 - here, frames - here);
        if last.1 > 0 {
            return;
        }
        free.pop();
    }
}

/// A word that nobody else knows.
fn secret() -> u64 {
    let clock = entropy::cycles().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    entropy::hardware().unwrap_or(clock ^ clock >> 29)
}

fn start() -> Option<Vm<Portals>> {
    let memory = startup::portal("memory")?;
    let space = startup::portal("space")?;
    let init_space = startup::portal("init-space")?;
    let free = startup::argument("free")?;
    let archive = startup::argument("archive")
        .and_then(range)
        .unwrap_or((0, 0));
    let number = |name| startup::argument(name).and_then(|text| text.parse().ok());
    let nucleus = Portals::new(memory, space, Receiver(Portal(native_slot::RECEIVE)));
    let taken = start_heap(free, archive);
    let mut free: Vec<(Frame, u32)> = ranges(free).collect();
    shorten(&mut free, taken);
    let frames = Frames::new(&free, &[archive]);
    let start = Start {
        free,
        archive,
        used: number("used").unwrap_or(0) + u64::from(taken),
        init: number("init").unwrap_or(0) as u32,
        init_space: init_space.0,
        secret: [secret(), secret()],
        writable_code: startup::argument("writable-code") != Some("refused"),
    };
    log!(
        "{} frames free, {} of the archive",
        frames.free(),
        archive.1
    );
    let mut vm = Vm::new(nucleus, frames, &start);
    vm.start_iommu(number("acpi").unwrap_or(0));
    Some(vm)
}

/// Tells when something is late. A deadline of each receive would take all requests and faults off the short ways as long as there is one.
fn start_alarm(receiver: Receiver) -> Option<Alarm> {
    let told = receiver.make_portal(ALARM).ok()?;
    Alarm::start_on(told, vec![0; alarm::STACK].leak()).ok()
}

/// The priority at which this thread works if it does so for nobody who waits.
struct Pace {
    thread: Portal,
    /// Its own: what the manifest says.
    own: u8,
    set: u8,
    lowered: bool,
}

impl Pace {
    fn new(thread: Portal) -> Pace {
        let own = thread
            .service(thread::INFO, &[])
            .map_or(0, |words| words[2] as u8);
        Pace {
            thread,
            own,
            set: own,
            lowered: false,
        }
    }

    /// That of what is left to do (None: its own).
    fn set(&mut self, level: Option<u8>) {
        let wanted = level.map_or(self.own, |level| level.min(self.own));
        if wanted != self.set {
            self.change(wanted);
        }
    }

    /// Its own again.
    #[inline]
    fn restore(&mut self) {
        if self.lowered {
            self.change(self.own);
        }
    }

    #[cold]
    fn change(&mut self, wanted: u8) {
        let words = [u64::from(wanted), policy::ROUND_ROBIN, 0];
        if self.thread.service(thread::SET_PRIORITY, &words).is_ok() {
            (self.set, self.lowered) = (wanted, wanted < self.own);
        }
    }
}

fn main() -> ! {
    let Some(mut vm) = start() else {
        log!("cannot start: a portal or an argument is missing");
        cairn_rt::start::exit(1)
    };
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let Some(alarm) = start_alarm(receiver) else {
        log!("cannot start: no alarm");
        cairn_rt::start::exit(1)
    };
    let Some(thread) = startup::portal("thread") else {
        log!("cannot start: it has no portal to its own thread");
        cairn_rt::start::exit(1)
    };
    let mut pace = Pace::new(thread);
    // The time that the alarm knows.
    let mut known = None;
    let mut received = Received::default();
    let mut result = receiver.receive_into(None, &mut received);
    loop {
        let answer = match result {
            Ok(()) if received.kind == received::kind::PULSE && received.badge == ALARM => {
                // The alarm forgets what it has told.
                known = None;
                vm.late();
                None
            }
            Ok(()) => vm.handle(&received),
            Err(error @ (Error::BadPortal | Error::NoRight | Error::Dead)) => {
                log!("the channel is gone: {error:?}");
                cairn_rt::start::exit(1)
            }
            // The caller was gone before its reply, or nobody asks while there is something to do.
            Err(_) => None,
        };
        if portals::stashed() < STASH_LOW {
            vm.feed_heap();
        } else if portals::stashed() > STASH_HIGH {
            vm.heap_may_rest();
        }
        let deadline = vm.deadline();
        if deadline != known {
            alarm.set(deadline);
            known = deadline;
        }
        if let Some(level) = vm.later() {
            // A piece after each request, so that whoever asks much only shares.
            if let Some(answer) = answer {
                let _ = receiver.reply(received.token, Reply::new(&answer.words));
            }
            pace.set(level);
            vm.do_piece();
            result = receiver.poll_into(&mut received);
            continue;
        }
        pace.restore();
        result = match answer {
            Some(answer) => {
                received.words = answer.words;
                receiver.reply_words_receive(received.token, None, &mut received)
            }
            None => receiver.receive_into(None, &mut received),
        };
    }
}
