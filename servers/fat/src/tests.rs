//! The server on disks in memory, of all three sorts.

use crate::clock;
use crate::store::{Lines, Store, LINE};
use crate::{Fat, Options};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use cairn_resmgr::fake::Bench;
use std::cell::RefCell;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// Two lines of memory only, so that everything is written and read again.
#[derive(Clone)]
struct Memory {
    disk: Rc<RefCell<Vec<u8>>>,
    lines: Vec<u8>,
    broken: Rc<RefCell<bool>>,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        Memory {
            disk: Rc::new(RefCell::new(vec![0; bytes])),
            lines: vec![0; 2 * LINE],
            broken: Rc::default(),
        }
    }
}

impl Lines for Memory {
    fn bytes(&self) -> u64 {
        self.disk.borrow().len() as u64
    }
    fn slots(&self) -> usize {
        2
    }
    fn memory(&mut self, slot: usize) -> &mut [u8] {
        &mut self.lines[slot * LINE..][..LINE]
    }
    fn load(&mut self, slot: usize, at: u64, bytes: usize) -> bool {
        let from = &self.disk.borrow()[at as usize..][..bytes];
        self.lines[slot * LINE..][..bytes].copy_from_slice(from);
        !*self.broken.borrow()
    }
    fn save(&mut self, slot: usize, from: usize, at: u64, bytes: usize) -> bool {
        let whole = (at | bytes as u64).is_multiple_of(512);
        assert!(whole && from + bytes <= LINE);
        let lines = &self.lines[slot * LINE + from..][..bytes];
        self.disk.borrow_mut()[at as usize..][..bytes].copy_from_slice(lines);
        !*self.broken.borrow()
    }
    fn flush(&mut self) -> bool {
        true
    }
}

const OPTIONS: Options = Options {
    read_only: false,
    device: 5,
    end: || (),
};

fn formatted(bytes: usize, kind: fatfs::FatType) -> Memory {
    let memory = Memory::new(bytes);
    let mut store = Store::new(memory.clone());
    let options = fatfs::FormatVolumeOptions::new();
    let small = options.bytes_per_cluster(512).fat_type(kind);
    fatfs::format_volume(&mut store, small).unwrap();
    store.sync().unwrap();
    memory
}

fn bench(memory: &Memory) -> Bench<Fat<Memory>> {
    Bench::new(Fat::open(memory.clone(), OPTIONS).unwrap(), b"/fat")
}

fn write(b: &mut Bench<Fat<Memory>>, file: u64, offset: u64, bytes: &[u8]) {
    let done = b.result(file, &[fs::WRITE, offset], bytes);
    assert_eq!(done, bytes.len() as i64);
}

fn read(b: &mut Bench<Fat<Memory>>, file: u64, offset: u64, length: usize) -> Vec<u8> {
    let answer = b.call(file, &[fs::READ, offset], b"", length).unwrap();
    assert!(answer.result() >= 0);
    answer.bytes().to_vec()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn files_are_written_and_read_on_disks_of_all_sorts() {
    use fatfs::FatType::{Fat12, Fat16, Fat32};
    for (bytes, kind) in [(1 << 20, Fat12), (8 << 20, Fat16), (40 << 20, Fat32)] {
        let memory = formatted(bytes, kind);
        let mut b = bench(&memory);
        let data = pattern(200_000);
        let made = o::RDWR | o::CREAT | o::EXCL;
        let file = b.open(b"A long name of a file.txt", made, 0o644).unwrap();
        write(&mut b, file, 0, &data);
        // A hole is zeroes; something in the middle is another.
        write(&mut b, file, 250_000, b"end");
        write(&mut b, file, 100_000, b"middle");
        b.close(file);
        assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"folder"), 0);
        assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"Folder"), -EEXIST);
        let inner = b.open(b"folder/x", made, 0o644).unwrap();
        write(&mut b, inner, 0, b"inner");
        b.close(inner);
        assert_eq!(b.result(0, &[fs::SYNC, 0, 0], b""), 0);
        // Another server finds it, by names of any case.
        let mut b = bench(&memory);
        let file = b.open(b"a LONG name of a file.TXT", o::RDWR, 0).unwrap();
        let mut whole = data.clone();
        whole.resize(250_000, 0);
        whole.extend(b"end");
        whole[100_000..100_006].copy_from_slice(b"middle");
        assert!(read(&mut b, file, 0, 300_000) == whole);
        assert_eq!(read(&mut b, file, 249_999, 10), b"\0end");
        assert_eq!(read(&mut b, file, 250_003, 10), b"");
        assert_eq!(b.result(file, &[fs::TRUNCATE, 150_001], b""), 0);
        assert_eq!(b.result(file, &[fs::TRUNCATE, 150_004], b""), 0);
        assert_eq!(read(&mut b, file, 150_000, 10), [whole[150_000], 0, 0, 0]);
    }
}

#[test]
fn names_may_have_letters_of_all_languages_but_the_first() {
    let memory = formatted(1 << 20, fatfs::FatType::Fat12);
    let mut b = bench(&memory);
    let made = o::RDWR | o::CREAT;
    for name in ["Grüße.txt", "a\u{fc}", "x.ü", "日本"] {
        let opened = b.open(name.as_bytes(), made, 0o644);
        match name.starts_with('日') {
            true => assert_eq!(opened, Err(-EINVAL)),
            false => assert!(opened.is_ok(), "{name}"),
        }
    }
    assert!(b.open("GRÜßE.TXT".as_bytes(), o::RDWR, 0).is_ok());
    for name in [&b"\xff"[..], b"a\xff", b"a:b", b"a*", b"."] {
        assert!(b.open(name, made, 0o644).is_err());
    }
}

#[test]
fn a_full_disk_says_so_and_a_broken_one_too() {
    let memory = formatted(1 << 20, fatfs::FatType::Fat12);
    let mut b = bench(&memory);
    let file = b.open(b"f", o::RDWR | o::CREAT, 0o644).unwrap();
    let data = pattern(2 << 20);
    let done = b.result(file, &[fs::WRITE, 0], &data);
    assert!((900_000..1 << 20).contains(&done), "{done}");
    assert_eq!(b.result(file, &[fs::WRITE, done as u64], b"x"), -ENOSPC);
    assert!(read(&mut b, file, 0, 2 << 20) == data[..done as usize]);
    assert_eq!(b.result(file, &[fs::TRUNCATE, 3 << 20], b""), -ENOSPC);
    assert_eq!(b.result(file, &[fs::TRUNCATE, 5000], b""), 0);
    assert_eq!(b.result(file, &[fs::TRUNCATE, 1 << 33], b""), -EFBIG);
    assert!(read(&mut b, file, 0, 2 << 20) == data[..5000]);
    *memory.broken.borrow_mut() = true;
    assert_eq!(b.result(0, &[fs::SYNC, 0, 0], b""), -EIO);
}

#[test]
fn what_is_no_fat_is_refused() {
    for byte in [0, 0x55, 0xff] {
        let memory = Memory::new(1 << 20);
        memory.disk.borrow_mut().fill(byte);
        assert!(Fat::open(memory, OPTIONS).is_none());
    }
    assert!(Fat::open(Memory::new(0), OPTIONS).is_none());
}

#[test]
fn times_are_those_of_the_calendar() {
    // 1980, a leap day, the last of a year, 2107.
    for seconds in [315_532_800, 951_782_400, 1_735_689_599, 4_354_819_198] {
        assert_eq!(clock::seconds(clock::date_time(seconds)), seconds);
    }
    let day = clock::date_time(951_782_400 + 3600 * 13 + 60 * 5 + 7);
    assert_eq!((day.date.year, day.date.month, day.date.day), (2000, 2, 29));
    assert_eq!((day.time.hour, day.time.min, day.time.sec), (13, 5, 7));
    assert_eq!(clock::seconds(clock::date_time(0)), 315_532_800);
    assert_eq!(clock::kept(951_782_407), 951_782_406);
}
