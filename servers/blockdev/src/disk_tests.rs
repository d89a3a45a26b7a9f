//! Disks as files, over a disk in memory that does its requests when a test lets it.

use super::*;
use crate::server::Blockdev;
use crate::transfer::PIECE_PAGES;
use cairn_abi::pulse;
use cairn_block::Refused;
use cairn_idl::fs::{self, o, s};
use cairn_idl::vm::{BORROWED_FIRST, WINDOW_PAGES};
use cairn_resmgr::fake::Bench;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

const SECTORS: u64 = 4096;

/// Number, first sector, sectors of a partition.
type Entry = (u32, u64, u64);

/// Id, kind, sector, bytes, pages, and where the data begins in the first of them.
type Asked = (u64, Kind, u64, u64, Vec<u32>, usize);

struct Disk {
    bytes: Vec<u8>,
    asked: Vec<Asked>,
    done: Vec<(u64, Outcome)>,
    fails: bool,
    flushes: u32,
    most: usize,
    /// It is told of nothing for the present; of how many it was.
    together: bool,
    told: usize,
    gave_way: usize,
    /// What partitions it was told to have; somebody else has one.
    tables: Vec<(bool, Vec<Entry>)>,
    mounted: bool,
    sectors: u64,
    /// By what names of kept pages it was asked.
    kept: Vec<u32>,
    /// What programs have lent, by window, and the portal that it came by; None: loans cannot be borrowed.
    lent: Option<HashMap<u32, (Portal, Vec<u8>)>>,
}

#[derive(Clone)]
struct Fake(Rc<RefCell<Disk>>);

impl Device for Fake {
    fn info(&self) -> Info {
        Info {
            sectors: self.0.borrow().sectors,
            block: 512,
            caches_writes: true,
            discards: true,
            most_pages: 254,
            most_requests: 64,
            ..Info::default()
        }
    }

    fn submit(&mut self, request: &Request) -> Result<(), Refused> {
        assert!(self.info().allows(request), "{request:?}");
        let mut disk = self.0.borrow_mut();
        if disk.asked.len() >= disk.most {
            return Err(Refused::Full);
        }
        let (id, kind, sector) = (request.id, request.kind, request.sector);
        let (pages, offset) = (request.pages.to_vec(), request.offset as usize);
        let ask = (id, kind, sector, request.bytes, pages, offset);
        disk.asked.push(ask);
        disk.kept.push(request.kept);
        if !disk.together {
            disk.told = disk.asked.len();
        }
        Ok(())
    }

    fn completed(&mut self) -> Option<(u64, Outcome)> {
        self.0.borrow_mut().done.pop()
    }
}

impl Drive for Fake {
    /// The device does all that it was told of.
    fn heard(&mut self, _: &Received, arena: &mut [u8]) {
        let mut disk = self.0.borrow_mut();
        let disk = &mut *disk;
        for (id, kind, sector, bytes, pages, offset) in disk.asked.drain(..disk.told) {
            if disk.fails {
                disk.done.push((id, Outcome::Failed));
                continue;
            }
            let at = sector as usize * 512;
            let mut done = 0;
            for &page in &pages {
                let inside = if done == 0 { offset } else { 0 };
                let length = (bytes as usize - done).min(PAGE - inside);
                let on_disk = &mut disk.bytes[at + done..][..length];
                done += length;
                let memory = match page.checked_sub(BORROWED_FIRST) {
                    None => &mut arena[page as usize * PAGE..],
                    Some(page) => {
                        let lent = disk.lent.as_mut().unwrap();
                        let (_, memory) = lent.get_mut(&(page / WINDOW_PAGES)).unwrap();
                        &mut memory[(page % WINDOW_PAGES) as usize * PAGE..]
                    }
                };
                let memory = &mut memory[inside..][..length];
                match kind {
                    Kind::Read => memory.copy_from_slice(on_disk),
                    _ => on_disk.copy_from_slice(memory),
                }
            }
            match kind {
                Kind::Flush => disk.flushes += 1,
                Kind::Discard => disk.bytes[at..at + bytes as usize].fill(0),
                _ => {}
            }
            disk.done.push((id, Outcome::Done));
        }
        disk.told = 0;
    }

    fn together(&mut self, begin: bool) {
        let mut disk = self.0.borrow_mut();
        disk.together = begin;
        if !begin {
            disk.told = disk.asked.len();
        }
    }

    fn give_way(&mut self) {
        self.0.borrow_mut().gave_way += 1;
    }

    fn borrow(&mut self, window: u32, loan: Portal) -> bool {
        let mut disk = self.0.borrow_mut();
        let Some(lent) = &mut disk.lent else {
            return false;
        };
        lent.insert(window, (loan, vec![0xee; 600 * PAGE]));
        true
    }

    fn repartition(&mut self, alone: bool, table: &[(u32, u64, u64)]) -> Result<(), i64> {
        let mut disk = self.0.borrow_mut();
        disk.tables.push((alone, table.to_vec()));
        match disk.mounted {
            true => Err(EBUSY),
            false => Ok(()),
        }
    }
}

struct World {
    bench: Bench<Blockdev>,
    disk: Fake,
}

fn world() -> World {
    let bytes: Vec<u8> = (0..SECTORS as usize * 512)
        .map(|i| (i / 512 * 7 + i) as u8)
        .collect();
    let disk = Fake(Rc::new(RefCell::new(Disk {
        bytes,
        asked: Vec::new(),
        done: Vec::new(),
        fails: false,
        flushes: 0,
        most: 64,
        together: false,
        told: 0,
        gave_way: 0,
        tables: Vec::new(),
        mounted: false,
        sectors: SECTORS,
        kept: Vec::new(),
        lent: Some(HashMap::new()),
    })));
    let mut disks = Disks::new(Vec::leak(vec![0; ARENA]));
    disks.add(
        "vda",
        Box::new(disk.clone()),
        &[(1, 100, 1000), (3, 2000, 9)],
    );
    let blockdev = Blockdev::new(1_700_000_000, disks);
    World {
        bench: Bench::new(blockdev, b"/dev"),
        disk,
    }
}

impl World {
    /// Nothing more has come; the device does what it was told of.
    fn turn(&mut self) {
        self.bench.time_out();
        self.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
    }

    fn open(&mut self, path: &[u8]) -> u64 {
        self.bench.open(path, o::RDWR, 0).expect("there")
    }

    /// A request, with as many turns of the device as it needs.
    fn call(&mut self, handle: u64, words: &[u64], out: &[u8], room: usize) -> (i64, Vec<u8>) {
        let token = self.bench.send(handle, words, out, room);
        for _ in 0..100 {
            if let Some(answer) = self.bench.answer(token) {
                return (answer.result(), answer.data.clone());
            }
            self.turn();
        }
        panic!("no answer");
    }

    fn read(&mut self, handle: u64, offset: u64, length: usize) -> Result<Vec<u8>, i64> {
        let (count, data) = self.call(handle, &[fs::READ, offset], b"", length);
        match count {
            count if count >= 0 => Ok(data[..count as usize].to_vec()),
            errno => Err(-errno),
        }
    }

    fn write(&mut self, handle: u64, offset: u64, bytes: &[u8]) -> i64 {
        self.call(handle, &[fs::WRITE, offset], bytes, 0).0
    }

    fn on_disk(&self, at: usize, length: usize) -> Vec<u8> {
        self.disk.0.borrow().bytes[at..at + length].to_vec()
    }
}

#[test]
fn any_bytes_are_read_and_written_and_what_is_around_them_stays() {
    let mut w = world();
    let (whole, part) = (w.open(b"vda"), w.open(b"vda1"));
    for (offset, length) in [
        (0, 512),
        (1, 10),
        (511, 2),
        (4000, 200_000),
        (65_536, 65_536),
    ] {
        let expected = w.on_disk(offset, length);
        assert_eq!(w.read(whole, offset as u64, length), Ok(expected));
        let expected = w.on_disk(51_200 + offset, length);
        assert_eq!(w.read(part, offset as u64, length), Ok(expected));
    }
    for (offset, length) in [
        (512, 512),
        (5, 3),
        (1023, 2),
        (70_001, 150_000),
        (1, 499_000),
        (65_536, 4096),
    ] {
        let before = w.on_disk(0, SECTORS as usize * 512);
        let bytes: Vec<u8> = (0..length).map(|i| (i * 3 + offset) as u8).collect();
        assert_eq!(w.write(part, offset as u64, &bytes), length as i64);
        let mut expected = before;
        expected[51_200 + offset..][..length].copy_from_slice(&bytes);
        assert!(w.on_disk(0, SECTORS as usize * 512) == expected);
    }
    assert!(w.disk.0.borrow().asked.is_empty());
}

#[test]
fn an_end_is_an_end() {
    let mut w = world();
    let part = w.open(b"vda1");
    let end = 1000 * 512;
    assert_eq!(w.read(part, end, 10), Ok(vec![]));
    assert_eq!(w.read(part, end - 3, 10).map(|b| b.len()), Ok(3));
    assert_eq!(w.write(part, end, b"x"), -ENOSPC);
    assert_eq!(w.write(part, end - 2, b"xyz"), 2);
    assert_eq!(w.read(part, end + (1 << 40), 10), Ok(vec![]));
    assert_eq!(w.bench.result(part, &[fs::SEEK, 0, 2], b""), end as i64);
    assert_eq!(w.bench.open(b"vda2", 0, 0), Err(-ENOENT));
}

#[test]
fn errors_and_interruptions_leave_no_job() {
    let mut w = world();
    let whole = w.open(b"vda");
    w.disk.0.borrow_mut().fails = true;
    assert_eq!(w.read(whole, 0, 100), Err(EIO));
    assert_eq!(w.write(whole, 0, &[1; 512]), -EIO);
    assert_eq!(w.write(whole, 0, &[1; 5]), -EIO);
    assert_eq!(w.call(whole, &[fs::SYNC], b"", 0).0, -EIO);
    w.disk.0.borrow_mut().fails = false;
    for _ in 0..3 * JOBS {
        // A signal does not end it, as on Linux; death does.
        let token = w.bench.send(whole, &[fs::READ, 0], b"", 1000);
        w.bench.interrupt(token);
        assert!(w.bench.answer(token).is_none());
        w.turn();
        assert_eq!(w.bench.answer(token).map(|a| a.result()), Some(1000));
        let token = w.bench.send(whole, &[fs::READ, 0], b"", 1000);
        w.bench.die(token);
        w.turn();
    }
    let token = w.bench.send(whole, &[fs::WRITE, 3], b"abc", 0);
    w.bench.die(token);
    assert_eq!(w.write(whole, 4, b"d"), 1);
    assert_eq!(w.read(whole, 3, 2).map(|b| b[1]), Ok(b'd'));
}

#[test]
fn many_at_once_wait_for_buffers_and_for_each_other() {
    let mut w = world();
    let whole = w.open(b"vda");
    w.disk.0.borrow_mut().most = 3;
    // Neighbours within one block: none may lose what another wrote.
    let tokens: Vec<_> = (0..40u64)
        .map(|i| {
            w.bench
                .send(whole, &[fs::WRITE, i * 100], &[i as u8; 100], 0)
        })
        .collect();
    for _ in 0..200 {
        w.turn();
    }
    for token in tokens {
        assert_eq!(w.bench.answer(token).expect("done").result(), 100);
    }
    let expected: Vec<u8> = (0..4000).map(|i| (i / 100) as u8).collect();
    assert_eq!(w.on_disk(0, 4000), expected);
}

#[test]
fn what_several_ask_for_is_told_together() {
    let mut w = world();
    let whole = w.open(b"vda");
    for _ in 0..3 {
        let before = w.disk.0.borrow().gave_way;
        let tokens = [0, 4096, 8192].map(|at| w.bench.send(whole, &[fs::READ, at], b"", 4096));
        let counts = |w: &World| {
            let disk = w.disk.0.borrow();
            (disk.asked.len(), disk.told, disk.gave_way - before)
        };
        assert_eq!(counts(&w), (3, 0, 1));
        w.bench.time_out();
        assert_eq!(counts(&w), (3, 3, 1));
        w.turn();
        for token in tokens {
            assert_eq!(w.bench.answer(token).expect("done").result(), 4096);
        }
    }
    // Who is alone gives way in vain, and then not for a while; what comes then is told at once.
    assert!(w.read(whole, 0, 512).is_ok());
    let token = w.bench.send(whole, &[fs::READ, 0], b"", 512);
    assert_eq!(w.disk.0.borrow().told, 1);
    w.turn();
    assert!(w.bench.answer(token).is_some());
}

#[test]
fn sync_and_ioctl_say_what_programs_ask() {
    let mut w = world();
    let (whole, part) = (w.open(b"vda"), w.open(b"vda3"));
    assert_eq!(w.call(whole, &[fs::SYNC], b"", 0).0, 0);
    assert_eq!(w.call(part, &[fs::IOCTL, 0x1261, 0], b"", 0).0, 0);
    assert_eq!(w.disk.0.borrow().flushes, 2);
    let mut ask = |handle, what: u64, size: usize| {
        let (result, data) = w.call(handle, &[fs::IOCTL, what, 0], b"", size);
        assert_eq!(result, 0, "{what:#x}");
        let mut word = [0; 8];
        word[..size].copy_from_slice(&data[..size]);
        u64::from_le_bytes(word)
    };
    assert_eq!(ask(whole, 0x8008_1272, 8), SECTORS * 512);
    assert_eq!(ask(part, 0x8008_1272, 8), 9 * 512);
    assert_eq!(ask(part, 0x1260, 8), 9);
    assert_eq!(ask(part, 0x1268, 4), 512);
    assert_eq!(ask(part, 0x125e, 4), 0);
    assert_eq!(w.call(whole, &[fs::IOCTL, 0x5401, 0], b"", 36).0, -ENOTTY);
    let (_, geometry) = w.call(part, &[fs::IOCTL, 0x301, 0], b"", 16);
    assert_eq!((geometry[0], geometry[1], geometry[8]), (255, 63, 0xd0));
    let range = |start: u64, length: u64| [start.to_le_bytes(), length.to_le_bytes()].concat();
    let discard = [fs::IOCTL, 0x1277, 0];
    assert_eq!(w.call(part, &discard, &range(512, 1024), 0).0, 0);
    assert_eq!(w.on_disk(2001 * 512, 1024), vec![0; 1024]);
    assert_ne!(w.on_disk(2003 * 512, 512), vec![0; 512]);
    for (start, length) in [(0, 0), (100, 512), (0, 10 * 512), (u64::MAX, 512)] {
        assert_eq!(w.call(part, &discard, &range(start, length), 0).0, -EINVAL);
    }
    let reader = w.bench.open(b"vda3", o::RDONLY, 0).unwrap();
    assert_eq!(w.call(reader, &discard, &range(0, 512), 0).0, -EBADF);
}

#[test]
fn nodes_are_block_devices_with_numbers() {
    let mut w = world();
    for (path, rdev) in [
        (&b"vda"[..], 0xfe00u64),
        (b"vda1", 0xfe01),
        (b"vda3", 0xfe03),
    ] {
        let words = [fs::STAT, fs::at::SYMLINK_NOFOLLOW];
        let answer = w.bench.call(0, &words, path, fs::PATH_MAX).unwrap();
        assert_eq!(answer.data[24..28], (s::IFBLK | 0o660).to_le_bytes());
        assert_eq!(answer.data[32..36], 6u32.to_le_bytes(), "group disk");
        assert_eq!(answer.data[40..48], rdev.to_le_bytes());
        assert_eq!(answer.data[48..56], [0; 8], "no size");
    }
    let open = [fs::OPEN, o::RDONLY, 0];
    // By its numbers as well, as device nodes of other file systems lead there.
    for (number, result) in [
        (&b"254:1"[..], 0),
        (b"254:2", -ENXIO),
        (b"8:0", -ENXIO),
        (b"254", -ENOENT),
        (b"1:3", -ENXIO),
    ] {
        let answer = w.bench.call(0, &open, number, fs::PATH_MAX);
        assert_eq!(answer.unwrap().result(), result, "{number:?}");
    }
    assert_eq!(w.bench.result(0, &[fs::UNLINK, 0], b"vda"), -EROFS);
    assert_eq!(w.bench.open(b"new", o::RDWR | o::CREAT, 0o644), Err(-EROFS));
}

#[test]
fn the_names_of_disks_lead_back_to_dev() {
    let mut w = world();
    let open = [fs::OPEN, o::DIRECTORY, 0];
    for (path, place) in [
        (&b"disk/.."[..], &b"/dev"[..]),
        (b"disk/../null/x", b"/dev/null/x"),
    ] {
        let answer = w.bench.call(0, &open, path, fs::PATH_MAX).unwrap();
        assert_eq!(answer.result(), -REDIRECT);
        assert_eq!(&answer.data[..answer.words[1] as usize], place);
    }
    let root = w.bench.open(b"", o::DIRECTORY, 0).unwrap();
    let answer = w.bench.call(root, &[fs::READDIR], b"", 4096).unwrap();
    let listing = String::from_utf8_lossy(answer.bytes()).into_owned();
    for name in ["disk", "vda", "vda1", "vda3"] {
        assert!(listing.contains(&format!("{name}\0")), "{name}");
    }
}

#[test]
fn a_long_request_has_several_pieces_under_way_and_waits_for_room() {
    let mut w = world();
    let whole = w.open(b"vda");
    let long = 1 << 20;
    // More than the arena holds: some wait.
    let tokens: Vec<_> = (0..4)
        .map(|_| w.bench.send(whole, &[fs::READ, 0], b"", long))
        .collect();
    assert_eq!(w.disk.0.borrow().asked.len(), ARENA / PIECE_PAGES / PAGE);
    // One goes away with its pieces under way, whose pages are the disk's until they are done.
    w.bench.die(tokens[0]);
    let expected = w.on_disk(0, long);
    for _ in 0..10 {
        w.turn();
    }
    for token in &tokens[1..] {
        let answer = w.bench.answer(*token).expect("done");
        assert!(answer.data == expected);
    }
    // A failure behind the first pieces leaves what came before it.
    let token = w
        .bench
        .send(whole, &[fs::READ, 0], b"", 7 * PIECE_PAGES * PAGE);
    w.turn();
    w.disk.0.borrow_mut().fails = true;
    w.turn();
    let count = w.bench.answer(token).expect("done").result();
    assert_eq!(count, (4 * PIECE_PAGES * PAGE) as i64);
    w.disk.0.borrow_mut().fails = false;
    assert!(w.disk.0.borrow().asked.is_empty());
    assert_eq!(w.read(whole, 0, long).map(|bytes| bytes.len()), Ok(long));
}

#[test]
fn who_opened_it_not_to_wait_waits_all_the_same() {
    let mut world = world();
    let flags = o::RDONLY | o::NONBLOCK;
    let disk = world.bench.open(b"vda", flags, 0).unwrap();
    let expected = world.disk.0.borrow().bytes[..64].to_vec();
    assert_eq!(world.read(disk, 0, 64), Ok(expected));
}

const LOAN: u64 = 4000;

impl World {
    /// READ or WRITE with a loan, whose data begins `inside` its first page.
    fn send_lent(&mut self, handle: u64, operation: u64, offset: u64, length: usize) -> u64 {
        let words = [operation, offset, 0, 512, 0, 0, 0, LOAN];
        let bytes = vec![1; length];
        match operation {
            fs::READ => self.bench.send(handle, &words, b"", length),
            _ => self.bench.send(handle, &words, &bytes, 0),
        }
    }

    fn turns(&mut self) {
        for _ in 0..50 {
            self.turn();
        }
    }

    fn loan_is_closed(&mut self) -> bool {
        let closed = core::mem::take(&mut self.bench.fake.closed);
        assert!(closed.len() <= 1, "closed once");
        closed == [Portal(LOAN as u32)]
    }
}

#[test]
fn the_device_reaches_what_is_lent_by_itself() {
    let mut w = world();
    let part = w.open(b"vda1");
    // 300 pages: two requests of the device.
    let length = 300 * 512 * 3;
    let token = w.send_lent(part, fs::READ, 1024, length);
    assert_eq!(w.disk.0.borrow().asked.len(), 1);
    assert!(!w.loan_is_closed());
    w.turns();
    let answer = w.bench.answer(token).expect("done");
    assert_eq!(answer.result(), length as i64);
    assert!(answer.data.iter().all(|&byte| byte == 0), "no copy");
    let lent = w.disk.0.borrow().lent.clone().unwrap();
    assert!(lent[&0].1[512..][..length] == w.on_disk(51_200 + 1024, length));
    assert_eq!(lent[&0].1[511], 0xee);
    assert_eq!(lent[&0].1[512 + length], 0xee);
    assert!(w.loan_is_closed());
    let before = w.on_disk(0, SECTORS as usize * 512);
    let token = w.send_lent(part, fs::WRITE, 512, 8192);
    w.turns();
    assert_eq!(w.bench.answer(token).unwrap().result(), 8192);
    let mut expected = before;
    expected[51_200 + 512..][..8192].fill(0xee);
    assert!(w.on_disk(0, SECTORS as usize * 512) == expected);
    assert!(w.loan_is_closed());
}

#[test]
fn what_cannot_be_borrowed_is_copied() {
    let mut w = world();
    let part = w.open(b"vda1");
    // Not whole sectors; across the end, which is cut to whole ones; where vm does not want it.
    for (offset, length, copied) in [(3, 512, true), (0, 700, true), (999 * 512, 5000, false)] {
        let token = w.send_lent(part, fs::READ, offset, length);
        w.turns();
        let length = length.min((1000 * 512 - offset) as usize);
        let answer = w.bench.answer(token).unwrap();
        assert_eq!(answer.result(), length as i64);
        let expected = w.on_disk(51_200 + offset as usize, length);
        assert_eq!(answer.data[..length] == expected, copied);
        assert!(w.loan_is_closed(), "{offset}");
    }
    w.disk.0.borrow_mut().lent = None;
    let token = w.send_lent(part, fs::READ, 0, 4096);
    w.turns();
    assert!(w.bench.answer(token).unwrap().data == w.on_disk(51_200, 4096));
    assert!(w.loan_is_closed());
    // Requests that come to nothing, or are about something else: closed when the next loan comes.
    let directory = w.bench.open(b"", o::DIRECTORY, 0).expect("there");
    let token = w.send_lent(directory, fs::READ, 0, 4096);
    assert_eq!(w.bench.answer(token).unwrap().result(), -EISDIR);
    let token = w.send_lent(77 << 32, fs::READ, 0, 4096);
    assert_eq!(w.bench.answer(token).unwrap().result(), -EBADF);
    assert!(w.loan_is_closed());
    let token = w.bench.send(part, &[fs::READ, 0], b"", 512);
    w.turns();
    assert_eq!(w.bench.answer(token).unwrap().result(), 512);
    assert!(!w.loan_is_closed(), "of another request");
}

#[test]
fn a_loan_is_kept_as_long_as_the_device_may_use_it() {
    let mut w = world();
    let whole = w.open(b"vda");
    let token = w.send_lent(whole, fs::READ, 0, 65536);
    w.bench.die(token);
    assert!(!w.loan_is_closed());
    // Its window is nobody else's.
    let token = w.send_lent(whole, fs::READ, 65536, 65536);
    assert_eq!(w.disk.0.borrow().lent.as_ref().unwrap().len(), 2);
    w.turns();
    assert_eq!(w.bench.answer(token).unwrap().result(), 65536);
    assert_eq!(core::mem::take(&mut w.bench.fake.closed).len(), 2);
    // More than there are windows: the others are copied.
    let tokens: Vec<_> = (0..20)
        .map(|i| w.send_lent(whole, fs::READ, i * 4096, 4096))
        .collect();
    w.turns();
    for token in tokens {
        assert_eq!(w.bench.answer(token).unwrap().result(), 4096);
    }
    assert_eq!(core::mem::take(&mut w.bench.fake.closed).len(), 20);
    w.disk.0.borrow_mut().fails = true;
    let token = w.send_lent(whole, fs::READ, 0, 65536);
    w.turns();
    assert_eq!(w.bench.answer(token).unwrap().result(), -EIO);
    assert!(w.loan_is_closed());
}

#[test]
fn a_loan_with_a_name_need_not_be_brought_again() {
    let mut w = world();
    let (whole, other) = (w.open(b"vda"), w.open(b"vda"));
    let lend = |w: &mut World, handle: u64, name: u64| {
        let words = [fs::READ, 0, fs::NAMED, 512, name, 0, 0, LOAN];
        let token = w.bench.send(handle, &words, b"", 8192);
        w.turns();
        assert_eq!(w.bench.answer(token).unwrap().result(), 8192);
    };
    // From the loan's third sector on; how far it got.
    let again = |w: &mut World, handle: u64, name: u64, inside: u64, length: usize| {
        let words = [fs::READ, 0, fs::NAMED, inside, name];
        w.call(handle, &words, b"", length)
    };
    lend(&mut w, whole, 9);
    assert!(!w.loan_is_closed());
    let (count, data) = again(&mut w, whole, 9, 1024, 4096);
    assert!(
        count == 4096 && data.iter().all(|&byte| byte == 0),
        "no copy"
    );
    let lent = w.disk.0.borrow().lent.clone().unwrap();
    assert!(lent.len() == 1 && lent[&0].1[1024..][..4096] == w.on_disk(0, 4096));
    let numbers = w.disk.0.borrow().kept.clone();
    assert!(numbers.len() == 2 && numbers[0] != 0 && numbers[0] == numbers[1]);
    // Another name, another handle, another caller, more than was used.
    for (handle, name, inside, length) in [
        (whole, 8, 0, 512),
        (other, 9, 0, 512),
        (whole, 9, 4096, 8704),
        (whole, 9, u64::MAX - 511, 512),
    ] {
        let (errno, _) = again(&mut w, handle, name, inside, length);
        assert_eq!(errno, -ESTALE, "{handle} {name} {inside} {length}");
    }
    w.bench.sender = 2;
    assert_eq!(again(&mut w, whole, 9, 0, 512).0, -ESTALE);
    w.bench.sender = 1;
    // What does not begin and end with sectors is copied.
    let (count, data) = again(&mut w, whole, 9, 0, 700);
    assert!(count == 700 && data[..700] == w.on_disk(0, 700));
    let (count, data) = w.call(whole, &[fs::READ, 0, 0, 0, 77], b"", 512);
    assert!(count == 512 && data == w.on_disk(0, 512), "no name");
    // As long as somebody asks, and not much longer.
    let second = |w: &mut World| {
        w.bench.fake.time += KEPT_TICK;
        w.bench.time_out();
    };
    second(&mut w);
    assert_eq!(again(&mut w, whole, 9, 0, 512).0, 512);
    second(&mut w);
    assert!(!w.loan_is_closed());
    let words = [fs::READ, 0, fs::NAMED, 0, 9];
    let token = w.bench.send(whole, &words, b"", 512);
    second(&mut w);
    second(&mut w);
    assert!(!w.loan_is_closed(), "the device has it");
    w.turns();
    assert_eq!(w.bench.answer(token).unwrap().result(), 512);
    second(&mut w);
    assert!(w.loan_is_closed());
    assert_eq!(again(&mut w, whole, 9, 0, 512).0, -ESTALE);
    // Not longer than the handle.
    lend(&mut w, other, 9);
    lend(&mut w, whole, 9);
    w.bench.close(other);
    assert!(w.loan_is_closed());
    assert_eq!(again(&mut w, whole, 9, 0, 512).0, 512);
    // A few.
    for name in 10..40 {
        lend(&mut w, whole, name);
        assert_eq!(again(&mut w, whole, name, 0, 512).0, 512);
    }
    let kept = 31 - w.bench.fake.closed.len();
    assert!(kept > 0 && kept <= crate::loans::KEPT_MOST);
    w.bench.close(whole);
    assert_eq!(w.bench.fake.closed.len(), 31);
}

#[path = "look_tests.rs"]
mod look;
#[path = "partitions_tests.rs"]
mod partitions;
