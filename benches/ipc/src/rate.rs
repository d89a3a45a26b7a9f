//! What a file server gets from a disk's driver, in wall time, for `./cairn bench disk`: the same reads as those of benches/disk.c, by lib/block, into pages of its own. Each sample is a line `row NAME RATE` in the log; `end` is the last.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::received;
use cairn_block::native::Disk;
use cairn_block::{Device, Kind, Outcome, Request, PAGE, SECTOR};
use cairn_rt::{log, memory, startup, time, Portal, Receiver};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
const BADGE: u64 = 5;
const SAMPLES: usize = 5;
/// Pages of a long read, short reads under way, and how many there are in all.
const LONG: usize = 256;
const AT_ONCE: usize = 32;
const READS: usize = 400 * AT_ONCE;

struct Reader {
    disk: Disk,
    arena: &'static mut [u8],
    /// Pages of the disk.
    pages: u64,
}

fn main() -> ! {
    let arena = memory::map(LONG * PAGE).expect("an arena");
    memory::populate(arena).expect("memory");
    let portal = startup::portal("disk").expect("a portal of the manifest");
    let disk = Disk::open(portal, arena, CHANNEL, BADGE).expect("a disk");
    let pages = disk.info().sectors * SECTOR / PAGE as u64;
    let mut reader = Reader { disk, arena, pages };
    // The first time the host may fetch it from its own disk.
    reader.in_order();
    for _ in 0..SAMPLES {
        log!("row driver-read-1m {}", reader.in_order());
        log!("row driver-random-4k-32 {}", reader.at_random());
    }
    // The same with pages that are pinned once.
    let fixed = Disk::open_fixed(portal, reader.arena, CHANNEL, BADGE);
    reader.disk = fixed.expect("a second session");
    for _ in 0..SAMPLES {
        log!("row driver-fixed-read-1m {}", reader.in_order());
        log!("row driver-fixed-random-4k-32 {}", reader.at_random());
    }
    log!("end");
    loop {
        let _ = CHANNEL.receive(None);
    }
}

impl Reader {
    /// Read pages of the disk to the arena's from `slot` on.
    fn begin(&mut self, slot: usize, page: u64, count: usize) {
        let pages: [u32; LONG] = core::array::from_fn(|i| (slot + i) as u32);
        let request = Request {
            id: (slot as u64) << 48 | page,
            kind: Kind::Read,
            sector: page * (PAGE as u64 / SECTOR),
            bytes: (count * PAGE) as u64,
            pages: &pages[..count],
            offset: 0,
            kept: 0,
        };
        self.disk.submit(&request).expect("it fits");
    }

    /// Wait for one, and look whether its first page is the right one.
    fn end(&mut self) -> usize {
        let (id, outcome) = loop {
            if let Some(out) = self.disk.completed() {
                break out;
            }
            if let Ok(got) = CHANNEL.receive(None) {
                if got.kind == received::kind::PULSE && got.badge == BADGE {
                    self.disk.pulse(&got);
                }
            }
        };
        assert_eq!(outcome, Outcome::Done);
        let slot = (id >> 48) as usize;
        self.check(slot, id & 0xffff_ffff_ffff);
        slot
    }

    /// Page n of the disk begins with the number n.
    fn check(&self, slot: usize, page: u64) {
        let (words, _) = self.arena[slot * PAGE..].as_chunks();
        assert_eq!(u64::from_le_bytes(words[0]), page);
    }

    /// MiB a second. A device that does not take all of a long read at once gets it in parts, together.
    fn in_order(&mut self) -> u64 {
        let most = (self.disk.info().most_pages as usize).min(LONG);
        let start = time::monotonic();
        let long = LONG as u64;
        for first in (0..self.pages / long).map(|i| i * long) {
            let mut parts = 0;
            for slot in (0..LONG).step_by(most) {
                self.begin(slot, first + slot as u64, most.min(LONG - slot));
                parts += 1;
            }
            for _ in 0..parts {
                self.end();
            }
            for slot in 0..LONG {
                self.check(slot, first + slot as u64);
            }
        }
        rate(self.pages / long, start)
    }

    /// Reads a second.
    fn at_random(&mut self) -> u64 {
        let start = time::monotonic();
        let mut seed = start | 1;
        let mut next = |pages: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % pages
        };
        for slot in 0..AT_ONCE {
            self.begin(slot, next(self.pages), 1);
        }
        for done in 0..READS {
            let slot = self.end();
            if done + AT_ONCE < READS {
                self.begin(slot, next(self.pages), 1);
            }
        }
        rate(READS as u64, start)
    }
}

fn rate(count: u64, start: u64) -> u64 {
    let time = (time::monotonic() - start).max(1);
    (u128::from(count) * 1_000_000_000 / u128::from(time)) as u64
}
