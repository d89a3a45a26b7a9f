//! Disks as files, over a disk in memory that does its requests when a test lets it.

use super::*;
use crate::server::{Devfs, Machine, BADGE_NUMBERS};
use cairn_abi::pulse;
use cairn_block::Refused;
use cairn_idl::fs::{self, o, s};
use cairn_resmgr::fake::Bench;
use std::cell::RefCell;
use std::rc::Rc;

struct Quiet;

impl Machine for Quiet {
    fn log_read(&mut self, offset: u64, _: &mut [u8]) -> (usize, u64) {
        (0, offset)
    }
    fn log_write(&mut self, _: &[u8]) {}
    fn entropy(&mut self) -> [u8; 16] {
        [1; 16]
    }
}

const SECTORS: u64 = 4096;

type Asked = (u64, Kind, u64, u64, Vec<u32>);

struct Disk {
    bytes: Vec<u8>,
    asked: Vec<Asked>,
    done: Vec<(u64, Outcome)>,
    fails: bool,
    flushes: u32,
    most: usize,
}

#[derive(Clone)]
struct Fake(Rc<RefCell<Disk>>);

impl Device for Fake {
    fn info(&self) -> Info {
        Info {
            sectors: SECTORS,
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
        let ask = (id, kind, sector, request.bytes, request.pages.to_vec());
        disk.asked.push(ask);
        Ok(())
    }

    fn completed(&mut self) -> Option<(u64, Outcome)> {
        self.0.borrow_mut().done.pop()
    }
}

impl Drive for Fake {
    /// The device does all that it was asked.
    fn heard(&mut self, _: &Received, arena: &mut [u8]) {
        let mut disk = self.0.borrow_mut();
        for (id, kind, sector, bytes, pages) in std::mem::take(&mut disk.asked) {
            if disk.fails {
                disk.done.push((id, Outcome::Failed));
                continue;
            }
            let at = sector as usize * 512;
            for (i, &page) in pages.iter().enumerate() {
                let length = (bytes as usize - i * PAGE).min(PAGE);
                let on_disk = &mut disk.bytes[at + i * PAGE..][..length];
                let memory = &mut arena[page as usize * PAGE..][..length];
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
    }
}

struct World {
    bench: Bench<Devfs<Quiet>>,
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
    })));
    let mut disks = Disks::new(Vec::leak(vec![0; ARENA]));
    disks.add(
        "vda",
        Box::new(disk.clone()),
        &[(1, 100, 1000), (3, 2000, 9)],
    );
    let devfs = Devfs::new(Quiet, 2, 1_700_000_000, disks);
    World {
        bench: Bench::new(devfs, b"/dev"),
        disk,
    }
}

impl World {
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
            self.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
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
        let token = w.bench.send(whole, &[fs::READ, 0], b"", 1000);
        w.bench.interrupt(token);
        assert_eq!(w.bench.answer(token).map(|a| a.result()), Some(-EINTR));
        w.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
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
        w.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
    }
    for token in tokens {
        assert_eq!(w.bench.answer(token).expect("done").result(), 100);
    }
    let expected: Vec<u8> = (0..4000).map(|i| (i / 100) as u8).collect();
    assert_eq!(w.on_disk(0, 4000), expected);
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
    let answer = w.bench.call(BADGE_NUMBERS, &open, b"254:1", fs::PATH_MAX);
    assert_eq!(answer.unwrap().result(), 0);
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
    w.bench.interrupt(tokens[0]);
    let expected = w.on_disk(0, long);
    for _ in 0..10 {
        w.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
    }
    for token in &tokens[1..] {
        let answer = w.bench.answer(*token).expect("done");
        assert!(answer.data == expected);
    }
    // A failure behind the first pieces leaves what came before it.
    let token = w
        .bench
        .send(whole, &[fs::READ, 0], b"", 7 * PIECE_PAGES * PAGE);
    w.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
    w.disk.0.borrow_mut().fails = true;
    w.bench.pulse(pulse::NOTIFY, 1, FIRST_BADGE);
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
