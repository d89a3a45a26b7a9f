//! A machine around the server: the arena, the device, and time.

use super::common::Random;
use super::mapped::FakeObjects;
use crate::left::{Left, Slots};
use crate::memory::{Memory, PAGE};
use crate::{Attached, Ext4, Options, Parts, Refused, DEVICE, STAGING};
use cairn_abi::pulse;
use cairn_block::{Device, Info, Kind, Outcome};
use cairn_cache::{File, Slot};
use cairn_ext4::Time;
use cairn_idl::fs::{self, o};
use cairn_idl::vm::CACHE_LEFT;
use cairn_resmgr::fake::{Answer, Bench};
use cairn_resmgr::{Keepsake, Recovered};
use cairn_rt::paging::{Inherited, Request};
use cairn_rt::Portal;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

pub const NOW: u64 = 1_700_000_000_000_000_000;

/// What was done to the disk.
#[derive(Clone)]
pub enum Event {
    Write(u64, Vec<u8>),
    Flush,
    /// What the test has to say.
    Mark(usize),
}

struct Asked {
    id: u64,
    kind: Kind,
    at: usize,
    bytes: usize,
    pages: Vec<u32>,
    offset: usize,
    /// Writes that had come out when this flush went in, by count.
    after: usize,
}

/// The disk behind the device.
#[derive(Default)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pending: Vec<Asked>,
    done: VecDeque<(u64, Outcome)>,
    pub events: Vec<Event>,
    pub fail_reads: bool,
    pub fail_writes: bool,
    /// Flushes are forgotten: what the tests must find out.
    pub lazy: bool,
    /// Whatever is asked for is done when somebody looks, and nothing is kept: for who waits for what.
    pub instant: bool,
    /// How many looks at what is done find nothing yet; then flushes are done as soon as somebody looks.
    late: usize,
    prompt: bool,
    pub read_requests: usize,
    pub write_requests: usize,
    /// Bytes.
    pub discarded: usize,
}

pub struct FakeDevice {
    disk: Rc<RefCell<Disk>>,
    info: Info,
}

impl Device for FakeDevice {
    fn info(&self) -> Info {
        self.info
    }

    fn submit(&mut self, request: &cairn_block::Request) -> Result<(), cairn_block::Refused> {
        let mut disk = self.disk.borrow_mut();
        if disk.pending.len() >= self.info.most_requests as usize {
            return Err(cairn_block::Refused::Full);
        }
        let (at, bytes) = (request.sector as usize * 512, request.bytes as usize);
        let data = matches!(request.kind, Kind::Read | Kind::Write);
        assert!(self.info.allows(request), "{request:?}");
        assert!(at + bytes <= disk.bytes.len(), "request outside the image");
        assert!(at.is_multiple_of(self.info.block as usize));
        assert!(
            bytes.is_multiple_of(self.info.block as usize)
                && (bytes == 0) == (request.kind == Kind::Flush)
        );
        assert!(request.pages.len() <= self.info.most_pages as usize);
        assert!(request.offset.is_multiple_of(512) && request.offset < PAGE as u32);
        let needed = (request.offset as usize + bytes).div_ceil(PAGE);
        assert_eq!(request.pages.len(), if data { needed } else { 0 });
        let of_pages = |asked: &Asked| asked.pages.iter().any(|page| request.pages.contains(page));
        // (Parts of a page may be.)
        let whole = bytes.is_multiple_of(PAGE) && request.offset == 0;
        if request.kind == Kind::Read && whole {
            let shared = disk.pending.iter().any(of_pages);
            assert!(!shared, "a page is read into twice");
        }
        // Two writes to one place at a time could overtake each other.
        let overlaps = |asked: &Asked| {
            matches!(asked.kind, Kind::Write | Kind::Discard)
                && asked.at < at + bytes
                && at < asked.at + asked.bytes
        };
        if request.kind == Kind::Write || request.kind == Kind::Discard {
            assert!(!disk.pending.iter().any(overlaps), "writes that overtake");
        }
        let after = disk.events.len();
        disk.pending.push(Asked {
            id: request.id,
            kind: request.kind,
            at,
            bytes,
            pages: request.pages.to_vec(),
            offset: request.offset as usize,
            after,
        });
        Ok(())
    }

    fn completed(&mut self) -> Option<(u64, Outcome)> {
        let mut disk = self.disk.borrow_mut();
        if disk.instant && !disk.pending.is_empty() {
            return Some((disk.pending.remove(0).id, Outcome::Done));
        }
        if disk.late > 0 {
            disk.late -= 1;
            return None;
        }
        if disk.prompt {
            while let Some(index) = disk.pending.iter().position(|a| a.kind == Kind::Flush) {
                let flush = disk.pending.swap_remove(index);
                disk.over(flush, Outcome::Done);
            }
        }
        disk.done.pop_front()
    }
}

impl Attached for FakeDevice {
    fn pulse(&mut self, _: &cairn_rt::Received) {}
}

impl Disk {
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// One request, whichever, is done.
    fn work(&mut self, memory: &mut FakeMemory, random: &mut Random) {
        let index = random.below(self.pending.len() as u64) as usize;
        let asked = self.pending.swap_remove(index);
        let mut outcome = Outcome::Done;
        let mut left = asked.bytes;
        let (mut at, mut from) = (asked.at, asked.offset);
        let fails = match asked.kind {
            Kind::Read => self.fail_reads,
            Kind::Write => self.fail_writes,
            _ => false,
        };
        if fails {
            outcome = Outcome::Failed;
        } else {
            self.read_requests += usize::from(asked.kind == Kind::Read);
            self.write_requests += usize::from(asked.kind == Kind::Write);
            if asked.kind == Kind::Discard {
                self.discarded += asked.bytes;
                // It may read as anything.
                self.bytes[at..at + asked.bytes].fill(0xdb);
            }
            for &page in &asked.pages {
                let some = left.min(PAGE - from);
                let place = memory.bytes_mut(page, from, some);
                match asked.kind {
                    Kind::Read => place.copy_from_slice(&self.bytes[at..at + some]),
                    _ => self.bytes[at..at + some].copy_from_slice(place),
                }
                (at, left, from) = (at + some, left - some, 0);
            }
        }
        self.over(asked, outcome);
    }

    /// What was asked came out, in whatever way.
    fn over(&mut self, asked: Asked, outcome: Outcome) {
        if outcome == Outcome::Done {
            match asked.kind {
                // After a cut any part of it may have been discarded.
                Kind::Write | Kind::Discard => {
                    let data = self.bytes[asked.at..asked.at + asked.bytes].to_vec();
                    self.events.push(Event::Write(asked.at as u64, data));
                }
                // It says nothing of writes that came out while it was under way.
                Kind::Flush if !self.lazy => self.events.insert(asked.after, Event::Flush),
                _ => {}
            }
            if asked.kind == Kind::Flush && !self.lazy {
                for other in &mut self.pending {
                    other.after += usize::from(other.after >= asked.after);
                }
            }
        }
        self.done.push_back((asked.id, outcome));
    }
}

/// `vm`, and the arena.
pub struct FakeMemory {
    dirty: Slots,
    /// What a predecessor's arena had.
    before: Option<Before>,
    arena: Vec<u8>,
    there: Vec<bool>,
    /// Frames that there are.
    pub frames: usize,
    pub objects: FakeObjects,
    pub wanted: u64,
    told: bool,
}

/// The object of what a predecessor's cache had.
pub const LEFT: Portal = Portal(u32::MAX);

impl cairn_cache::Memory for FakeMemory {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        if self.frames < count as usize {
            return false;
        }
        self.frames -= count as usize;
        for page in first..first + count {
            assert!(!self.there[page as usize]);
            self.there[page as usize] = true;
            // Whoever takes it for zeros is found out.
            let at = page as usize * PAGE;
            self.arena[at..at + PAGE].fill(0xdd);
        }
        true
    }

    fn release(&mut self, first: Slot, count: u32) {
        self.frames += count as usize;
        for page in first..first + count {
            assert!(core::mem::take(&mut self.there[page as usize]));
        }
    }

    fn only_here(&mut self, slot: Slot, file: File, page: u64) {
        self.dirty.set(slot, file, page);
    }

    fn not_only_here(&mut self, slot: Slot) {
        self.dirty.clear(slot);
    }
}

impl FakeMemory {
    fn check(&self, slot: Slot, from: usize, length: usize) -> usize {
        let last = slot as usize + (from + length).max(1).div_ceil(PAGE);
        let there = &self.there[slot as usize..last];
        assert!(there.iter().all(|there| *there), "a page without a frame");
        slot as usize * PAGE + from
    }
}

impl Memory for FakeMemory {
    fn bytes(&self, slot: Slot, from: usize, length: usize) -> &[u8] {
        let at = self.check(slot, from, length);
        &self.arena[at..at + length]
    }

    fn bytes_mut(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8] {
        let at = self.check(slot, from, length);
        &mut self.arena[at..at + length]
    }

    fn wanted(&mut self, nothing_left: bool) -> u64 {
        if nothing_left {
            self.wanted = 0;
        }
        let wanted = self.wanted;
        self.wanted = wanted / 2;
        wanted
    }

    type Objects = FakeObjects;

    fn objects(&self) -> FakeObjects {
        self.objects.clone()
    }

    fn asked(&mut self) -> Option<Request> {
        self.objects.0.borrow_mut().asked.pop_front()
    }

    fn inherited(&mut self) -> Option<Inherited> {
        let (_, there) = self.before.as_ref().filter(|_| !self.told)?;
        self.told = true;
        Some(Inherited {
            tag: CACHE_LEFT,
            pages: there.len() as u64,
            writable: false,
            object: LEFT,
        })
    }

    fn adopt(&mut self, object: Portal, page: u64, slot: Slot) -> bool {
        assert_eq!(object, LEFT);
        let (arena, there) = self.before.as_ref().unwrap();
        let (from, to) = (page as usize * PAGE, slot as usize * PAGE);
        let taken = self.objects.0.borrow().taken.contains(&page);
        if !there[page as usize] || taken || self.frames == 0 {
            return false;
        }
        self.arena[to..to + PAGE].copy_from_slice(&arena[from..from + PAGE]);
        assert!(!core::mem::replace(&mut self.there[slot as usize], true));
        self.frames -= 1;
        true
    }

    fn synced(&mut self, ticket: u64, error: i64) {
        self.objects.0.borrow_mut().synced.push((ticket, error));
    }
}

fn silent(_: core::fmt::Arguments) {}

/// How a machine is made.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Pages of the cache, and frames for them.
    pub pages: u32,
    pub frames: usize,
    pub metadata: usize,
    pub read_only: bool,
    /// The device takes no writes.
    pub protected: bool,
    pub most_pages: u32,
    pub most_requests: u32,
    pub caches_writes: bool,
    /// The device discards, and is to hear of what is freed.
    pub discards: bool,
    pub discard: bool,
}

pub const USUAL: Shape = Shape {
    pages: 8192,
    frames: 8192,
    metadata: 2048,
    read_only: false,
    protected: false,
    most_pages: 256,
    most_requests: 64,
    caches_writes: true,
    discards: false,
    discard: false,
};

/// Memory that outlives servers.
pub type Kept = &'static [AtomicU64];

pub fn keepsake(bytes: usize) -> Kept {
    let words: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

/// Bytes, and which pages have frames.
type Before = (Vec<u8>, Vec<bool>);

thread_local! {
    /// What the arenas of servers that were killed had, by the memory that outlives them.
    static ARENAS: RefCell<BTreeMap<usize, Before>> = RefCell::default();
}

pub struct Machine {
    pub shape: Shape,
    kept: usize,
    pub bench: Bench<Ext4<FakeMemory, FakeDevice>>,
    pub disk: Rc<RefCell<Disk>>,
    pub random: Random,
}

impl Machine {
    pub fn new(image: Vec<u8>, shape: Shape, seed: u64) -> Machine {
        Self::open(image, shape, seed)
            .unwrap_or_else(|(refused, _)| panic!("the image is refused: {refused:?}"))
    }

    pub fn open(image: Vec<u8>, shape: Shape, seed: u64) -> Result<Machine, (Refused, Vec<u8>)> {
        Self::follow(image, shape, seed, &[]).map(|(machine, _)| machine)
    }

    /// A server that goes on where another one was killed.
    pub fn follow(
        image: Vec<u8>,
        shape: Shape,
        seed: u64,
        kept: Kept,
    ) -> Result<(Machine, Recovered), (Refused, Vec<u8>)> {
        let (keep, marks, own) = Keepsake::new(kept);
        let mut random = Random(seed);
        let disk = Rc::new(RefCell::new(Disk {
            bytes: image,
            ..Disk::default()
        }));
        let all = (shape.pages + STAGING) as usize;
        let (left, own) = Left::new(own, shape.pages);
        let memory = FakeMemory {
            dirty: left.slots,
            before: ARENAS.with(|arenas| arenas.borrow_mut().remove(&(kept.as_ptr() as usize))),
            told: false,
            arena: vec![0; all * PAGE],
            there: vec![false; all],
            frames: shape.frames + STAGING as usize,
            objects: FakeObjects::default(),
            wanted: 0,
        };
        let parts = Parts {
            memory,
            pages: shape.pages,
            expected: shape.frames as u64,
            metadata: shape.metadata,
            options: Options {
                read_only: shape.read_only,
                no_access_times: false,
                discard: shape.discard,
                gives_ids: true,
                device: 7,
                log: silent,
                end: || {},
            },
            open: keep.identities(),
            marks,
            kept: own,
            left,
        };
        let sectors = disk.borrow().bytes.len() as u64 / 512;
        let device = FakeDevice {
            disk: disk.clone(),
            info: Info {
                sectors,
                block: 512,
                read_only: shape.protected,
                caches_writes: shape.caches_writes,
                discards: shape.discards,
                rotates: false,
                most_pages: shape.most_pages,
                most_requests: shape.most_requests,
            },
        };
        let now = Time {
            sec: (NOW / 1_000_000_000) as i64,
            nsec: 0,
        };
        let at_work = disk.clone();
        let chance = &mut random;
        let opened = Ext4::open(parts, device, now, |memory, _| {
            at_work.borrow_mut().work(memory, chance);
        });
        let server = match opened {
            Ok(server) => server,
            Err(refused) => return Err((refused, disk.take().bytes)),
        };
        let mut bench = Bench::new(server, b"");
        bench.fake.time = NOW;
        let told = bench.manager.recover(&mut bench.server, keep);
        bench.server.recovered();
        let machine = Machine {
            shape,
            kept: kept.as_ptr() as usize,
            bench,
            disk,
            random,
        };
        Ok((machine, told))
    }

    /// The server is killed; what is at the device is still done, whatever order. The image.
    pub fn kill(mut self) -> Vec<u8> {
        while self.disk.borrow().waiting() != 0 {
            let memory = self.bench.server.memory();
            self.disk.borrow_mut().work(memory, &mut self.random);
        }
        let memory = self.bench.server.memory();
        let arena = core::mem::take(&mut memory.arena);
        let there = core::mem::take(&mut memory.there);
        ARENAS.with(|arenas| arenas.borrow_mut().insert(self.kept, (arena, there)));
        core::mem::take(&mut self.disk.borrow_mut().bytes)
    }

    /// The device does one thing, and says so. False: it has nothing to do.
    ///
    /// Now and then it does more, of which the server hears in the middle of what it does, whenever it looks.
    pub fn turn(&mut self) -> bool {
        if self.disk.borrow().waiting() == 0 {
            return false;
        }
        let ahead = self.random.below(4) == 0;
        let count = if ahead { self.random.below(4) + 1 } else { 1 };
        let late = self.random.below(6) as usize;
        let memory = self.bench.server.memory();
        let mut disk = self.disk.borrow_mut();
        for _ in 0..count.min(disk.waiting() as u64) {
            disk.work(memory, &mut self.random);
        }
        drop(disk);
        if ahead {
            self.hear(late, true);
            self.bench.pulse(pulse::NOTIFY, 1, DEVICE);
            self.hear(0, false);
        }
        self.bench.pulse(pulse::NOTIFY, 1, DEVICE);
        true
    }

    fn hear(&mut self, late: usize, prompt: bool) {
        let mut disk = self.disk.borrow_mut();
        (disk.late, disk.prompt) = (late, prompt);
    }

    /// What the device has is done, of which the server hears after so many looks at it: a request that comes then.
    pub fn send_when_done(&mut self, looks: usize, badge: u64, words: &[u64]) -> u64 {
        let memory = self.bench.server.memory();
        let mut disk = self.disk.borrow_mut();
        while disk.waiting() != 0 {
            disk.work(memory, &mut self.random);
        }
        drop(disk);
        self.hear(looks, true);
        let token = self.bench.send(badge, words, b"", 0);
        self.hear(0, false);
        self.bench.pulse(pulse::NOTIFY, 1, DEVICE);
        token
    }

    /// A second goes by.
    pub fn wait(&mut self) {
        self.bench.fake.time += 1_000_000_000;
        self.bench.time_out();
    }

    pub fn finish(&mut self, token: u64) -> Answer {
        for idle in 0..1000 {
            for _ in 0..100_000 {
                if let Some(answer) = self.bench.answer(token) {
                    return answer;
                }
                if !self.turn() {
                    break;
                }
            }
            assert!(idle < 50, "a request is never answered");
            self.wait();
        }
        panic!("the device never rests");
    }

    /// A request, and its answer as soon as the device lets it.
    pub fn call(&mut self, badge: u64, words: &[u64], out: &[u8], room: usize) -> Answer {
        let token = self.bench.send(badge, words, out, room);
        self.bench.fake.time += 1000;
        self.finish(token)
    }

    pub fn result(&mut self, badge: u64, words: &[u64], out: &[u8]) -> i64 {
        self.call(badge, words, out, fs::PATH_MAX).result()
    }

    pub fn open_file(&mut self, path: &[u8], flags: u64, mode: u64) -> Result<u64, i64> {
        let answer = self.call(0, &[fs::OPEN, flags, mode], path, fs::PATH_MAX);
        match answer.minted.first() {
            Some(&badge) if answer.result() == 0 => Ok(badge),
            _ => Err(answer.result()),
        }
    }

    pub fn read_at(&mut self, badge: u64, at: u64, length: usize) -> Result<Vec<u8>, i64> {
        let answer = self.call(badge, &[fs::READ, at], b"", length);
        match answer.result() {
            result if result < 0 => Err(result),
            _ => Ok(answer.bytes().to_vec()),
        }
    }

    pub fn read(&mut self, path: &[u8]) -> Result<Vec<u8>, i64> {
        let badge = self.open_file(path, o::RDONLY, 0)?;
        let mut all = Vec::new();
        loop {
            let some = self.read_at(badge, all.len() as u64, 300_000)?;
            if some.is_empty() {
                break;
            }
            all.extend(some);
        }
        self.bench.close(badge);
        Ok(all)
    }

    pub fn write_at(&mut self, badge: u64, at: u64, bytes: &[u8]) -> i64 {
        self.result(badge, &[fs::WRITE, at], bytes)
    }

    /// FITRIM: the bytes that were discarded.
    pub fn trim(&mut self, start: u64, length: u64, least: u64) -> Result<u64, i64> {
        let handle = self.open_file(b"", o::DIRECTORY, 0)?;
        let words = [start, length, least].map(u64::to_le_bytes);
        let request = [fs::IOCTL, 0xc018_5879, 0];
        let answer = self.call(handle, &request, words.as_flattened(), 24);
        self.bench.close(handle);
        match answer.result() {
            0 => Ok(u64::from_le_bytes(answer.data[8..16].try_into().unwrap())),
            errno => Err(errno),
        }
    }

    pub fn sync(&mut self) -> i64 {
        self.result(0, &[fs::SYNC, 0], b"")
    }

    /// Everything is written, and the server goes; the image.
    pub fn close(mut self) -> Vec<u8> {
        let mut progress = 0;
        for _ in 0..100_000 {
            let Machine { bench, .. } = &mut self;
            let (server, fake) = (&mut bench.server, &mut bench.fake);
            let closed = bench.manager.run(fake, |cx| {
                cx.progress = progress;
                let closed = server.close(cx);
                progress = cx.progress;
                closed
            });
            match closed {
                Ok(()) => return core::mem::take(&mut self.disk.borrow_mut().bytes),
                Err(cairn_resmgr::Failure::Wait(_)) => {
                    if !self.turn() {
                        self.wait();
                    }
                }
                Err(failure) => panic!("the file system cannot be closed: {failure:?}"),
            }
        }
        panic!("closing does not end");
    }
}
