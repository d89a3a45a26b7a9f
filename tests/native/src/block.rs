//! A user of a disk: random reads and writes, many at a time, of a part of a partition whose pages are known by version; and again and again until the driver has died three times, whatever was under way.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::{pulse, received};
use cairn_block::native::Disk;
use cairn_block::{Device, Kind, Outcome, Refused, Request, PAGE, SECTOR};
use cairn_idl::block;
use cairn_idl::errno::{EINVAL, ENOSYS, ENXIO, EPERM};
use cairn_idl::wire::Failure;
use cairn_rt::{log, memory, startup, Message, Portal, Receiver};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
const BADGE: u64 = 5;
/// Pages of the disk that are played with, requests at a time, pages of the longest.
const PLAY: usize = 2048;
const AT_ONCE: usize = 24;
const LONGEST: usize = 64;
const ROUND: usize = 4000;

fn portal(name: &str) -> Portal {
    startup::portal(name).expect("a portal of the manifest")
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// What a page of the disk holds in this version; 0 is a disk's zeroes.
fn content(page: usize, version: u32) -> u64 {
    match version {
        0 => 0,
        _ => (page as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(version),
    }
}

struct Busy {
    kind: Kind,
    page: usize,
    pages: usize,
}

struct Game {
    disk: Disk,
    arena: &'static mut [u8],
    versions: Vec<u32>,
    /// By place: LONGEST pages of the arena are each place's.
    busy: [Option<Busy>; AT_ONCE],
    random: Random,
    done: usize,
    lost: u32,
}

fn main() -> ! {
    refusals();
    let arena = memory::map(AT_ONCE * LONGEST * PAGE).expect("an arena");
    memory::populate(arena).expect("memory");
    let disk = Disk::open(portal("one"), arena, CHANNEL, BADGE).expect("a disk");
    let mut game = Game {
        disk,
        arena,
        versions: vec![0; PLAY],
        busy: [const { None }; AT_ONCE],
        random: Random(7),
        done: 0,
        lost: 0,
    };
    game.limits();
    log!("partitions and refusals are right");
    while game.done < ROUND {
        game.step();
    }
    log!("{ROUND} requests came out right");
    while game.lost < 3 {
        game.step();
    }
    let until = game.done + ROUND / 4;
    while game.done < until {
        game.step();
    }
    game.finish();
    log!("went on with a third successor, and all is right");
    loop {
        let _ = CHANNEL.receive(None);
    }
}

/// What the driver tells and refuses without a session.
fn refusals() {
    let (disk, one) = (portal("disk"), portal("one"));
    let (whole, part) = (block::Client(&disk), block::Client(&one));
    let told = whole.info().expect("a disk");
    assert_eq!((told.sectors, told.block, told.first), (131_072, 512, 0));
    let first = part.info().expect("a partition");
    assert_eq!((first.first, first.sectors), (2048, 64_512));
    let listed = whole.partition(2).expect("a second one");
    assert_eq!((listed.found, listed.first), (2, 2048 + 64_512));
    let errno = |failure| match failure {
        Err(Failure::Refused(errno)) => errno,
        _ => 0,
    };
    assert_eq!(errno(whole.partition(3).map(|_| ())), ENXIO);
    assert_eq!(errno(part.partition(1).map(|_| ())), EPERM);
    let three = portal("three");
    assert_eq!(errno(block::Client(&three).info().map(|_| ())), ENXIO);
    // A session's badge is none of the disk's.
    let session = portal("session");
    assert_eq!(errno(block::Client(&session).info().map(|_| ())), ENXIO);
    let answer = disk.call(Message::new(&[99])).expect("an answer");
    assert_eq!(answer[0] as i64, -ENOSYS);
    let answer = disk
        .call(Message::new(&[block::ATTACH]))
        .expect("an answer");
    assert_eq!(answer[0] as i64, -EINVAL, "no portals");
    // No arena, but some portal: a session that can do nothing.
    let (bell, other) = (
        CHANNEL.make_portal(9).expect("a portal"),
        CHANNEL.make_portal(9).expect("a portal"),
    );
    let made = whole.attach(0, bell.0, other.0).expect("a session");
    Portal(made.rings.slot()).close();
    Portal(made.session.slot()).close();
}

impl Game {
    /// Wait for what was submitted, out of order.
    fn wait(&mut self) -> (u64, Outcome) {
        loop {
            if let Some(out) = self.disk.completed() {
                return out;
            }
            let Ok(got) = CHANNEL.receive(None) else {
                continue;
            };
            if got.kind == received::kind::PULSE && got.badge == BADGE {
                self.lost += u32::from(got.words[0] == pulse::CLOSED);
                self.disk.pulse(&got);
            }
        }
    }

    /// What the device does not have.
    fn limits(&mut self) {
        let info = self.disk.info();
        assert!(info.caches_writes && info.discards && info.most_pages >= 128);
        let request = |sector, pages| Request {
            id: 1,
            kind: Kind::Write,
            sector,
            bytes: PAGE as u64,
            pages,
            offset: 0,
            kept: 0,
        };
        let refused = self.disk.submit(&request(info.sectors - 7, &[1]));
        assert_eq!(refused, Err(Refused::Invalid));
        assert_eq!(self.disk.submit(&request(info.sectors - 8, &[1])), Ok(()));
        assert_eq!(self.wait(), (1, Outcome::Done));
        // A page beyond the arena, and one that has no memory.
        let beyond = [(AT_ONCE * LONGEST) as u32];
        assert_eq!(self.disk.submit(&request(0, &beyond)), Ok(()));
        assert_eq!(self.wait(), (1, Outcome::Failed));
        memory::release(&mut self.arena[..PAGE]).expect("given back");
        assert_eq!(self.disk.submit(&request(0, &[0])), Ok(()));
        assert_eq!(self.wait(), (1, Outcome::Failed));
        memory::populate(&mut self.arena[..PAGE]).expect("memory");
        let discard = Request {
            kind: Kind::Discard,
            sector: 1 << 14,
            bytes: 1 << 20,
            pages: &[],
            ..request(0, &[])
        };
        assert_eq!(self.disk.submit(&discard), Ok(()));
        assert_eq!(self.wait(), (1, Outcome::Done));
    }

    /// Begin with some, until nothing more may be begun; then take one that came out.
    fn step(&mut self) {
        while let Some(place) = self.busy.iter().position(Option::is_none) {
            let kind = match self.random.below(40) {
                0 => Kind::Flush,
                1..20 => Kind::Write,
                _ => Kind::Read,
            };
            let pages = match kind {
                Kind::Flush => 0,
                _ if self.random.below(3) == 0 => 1 + self.random.below(LONGEST),
                _ => 1 + self.random.below(4),
            };
            let page = self.random.below(PLAY - pages);
            let apart = |b: &Busy| page + pages <= b.page || b.page + b.pages <= page;
            if !self.busy.iter().flatten().all(apart) {
                break;
            }
            self.begin(place, kind, page, pages);
        }
        let (place, outcome) = self.wait();
        self.end(place as usize, outcome);
    }

    fn begin(&mut self, place: usize, kind: Kind, page: usize, pages: usize) {
        let first = place * LONGEST;
        if kind == Kind::Write {
            for i in 0..pages {
                self.versions[page + i] += 1;
                let bytes = content(page + i, self.versions[page + i]).to_le_bytes();
                for word in self.arena[(first + i) * PAGE..][..PAGE].chunks_mut(8) {
                    word.copy_from_slice(&bytes);
                }
            }
        } else {
            self.arena[first * PAGE..][..pages * PAGE].fill(0xee);
        }
        // The first pages last, so that they are in no order.
        let list: Vec<u32> = (0..pages)
            .map(|i| (first + (i ^ 1).min(pages - 1)) as u32)
            .collect();
        let list = if pages.is_multiple_of(2) && kind == Kind::Read {
            list
        } else {
            (first..first + pages).map(|slot| slot as u32).collect()
        };
        let request = Request {
            id: place as u64,
            kind,
            sector: page as u64 * (PAGE as u64 / SECTOR) * (pages > 0) as u64,
            bytes: (pages * PAGE) as u64,
            pages: &list,
            offset: 0,
            kept: 0,
        };
        self.disk.submit(&request).expect("it fits");
        self.busy[place] = Some(Busy { kind, page, pages });
    }

    fn end(&mut self, place: usize, outcome: Outcome) {
        let busy = self.busy[place].take().expect("it was under way");
        assert_eq!(outcome, Outcome::Done);
        self.done += 1;
        if busy.kind != Kind::Read {
            return;
        }
        let swapped = busy.pages.is_multiple_of(2);
        for i in 0..busy.pages {
            let slot = place * LONGEST + if swapped { i ^ 1 } else { i };
            let expected = content(busy.page + i, self.versions[busy.page + i]).to_le_bytes();
            let bytes = &self.arena[slot * PAGE..][..PAGE];
            assert!(
                bytes.chunks(8).all(|word| word == expected),
                "page {}",
                busy.page + i
            );
        }
    }

    /// Everything once more, without others.
    fn finish(&mut self) {
        while self.busy.iter().any(Option::is_some) {
            let (place, outcome) = self.wait();
            self.end(place as usize, outcome);
        }
        for page in (0..PLAY).step_by(LONGEST) {
            self.begin(0, Kind::Read, page, LONGEST);
            let (place, outcome) = self.wait();
            self.end(place as usize, outcome);
        }
    }
}
