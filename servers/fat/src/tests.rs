//! The server on disks in memory, of all three sorts.

use crate::clock;
use crate::store::{Lines, Store, LINE};
use crate::{Fat, Options};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use cairn_resmgr::fake::Bench;
use std::cell::RefCell;
use std::rc::Rc;
use std::string::{String, ToString};
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
    accesses: 100_000,
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

/// What there is, by path, and the first bytes of each file: so deep, and so much, that folders which lie in themselves end.
fn walk(b: &mut Bench<Fat<Memory>>) -> Vec<(String, i64, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let Ok(handle) = b.open(folder.as_bytes(), o::RDONLY, 0) else {
            continue;
        };
        let mut position = 0;
        while seen.len() < 200 {
            let Some(answer) = b.call(handle, &[fs::READDIR, position], b"", 4096) else {
                break;
            };
            let bytes = answer.bytes().to_vec();
            if answer.result() <= 0 || bytes.is_empty() {
                break;
            }
            let mut rest = &bytes[..];
            while rest.len() >= 19 {
                let length = u16::from_le_bytes([rest[16], rest[17]]) as usize;
                position = u64::from_le_bytes(rest[8..16].try_into().unwrap());
                let name = rest[19..length].split(|byte| *byte == 0).next().unwrap();
                let name = String::from_utf8(name.to_vec()).unwrap();
                rest = &rest[length..];
                if name == "." || name == ".." {
                    continue;
                }
                let path = std::format!("{folder}/{name}");
                let path = path.trim_start_matches('/').to_string();
                let mut start = Vec::new();
                let opened = b.open(path.as_bytes(), o::RDONLY, 0);
                if let Ok(file) = opened {
                    let answer = b.call(file, &[fs::READ, 0], b"", 3000).unwrap();
                    if answer.result() > 0 {
                        start = answer.bytes().to_vec();
                    }
                    b.close(file);
                }
                if path.matches('/').count() < 6 {
                    open.push(path.clone());
                }
                seen.push((path, opened.map_or_else(|errno| errno, |_| 0), start));
            }
        }
        b.close(handle);
    }
    seen
}

fn fill(b: &mut Bench<Fat<Memory>>) {
    let made = o::RDWR | o::CREAT;
    for folder in ["one", "one/two", "A folder of a long name"] {
        assert_eq!(b.result(0, &[fs::MKDIR, 0o755], folder.as_bytes()), 0);
        for number in 0..20 {
            let path = std::format!("{folder}/file with number {number}.txt");
            let file = b.open(path.as_bytes(), made, 0o644).unwrap();
            // Little else than what the file system itself writes, so that this is what is broken.
            let mut data = vec![0; number * 300];
            data.iter_mut().take(2).for_each(|byte| *byte = 1);
            write(b, file, 0, &data);
            b.close(file);
        }
    }
    assert_eq!(b.result(0, &[fs::SYNC, 0, 0], b""), 0);
}

#[test]
fn a_folder_without_end_is_an_error() {
    let memory = formatted(8 << 20, fatfs::FatType::Fat16);
    let mut b = bench(&memory);
    fill(&mut b);
    {
        let mut disk = memory.disk.borrow_mut();
        let entry = disk.windows(11).position(|name| name == b"ONE        ");
        let number = |disk: &[u8], at: usize| u16::from_le_bytes([disk[at], disk[at + 1]]) as usize;
        let cluster = number(&disk, entry.unwrap() + 26);
        // Its first cluster is followed by itself.
        let table = number(&disk, 14) * 512;
        disk[table + 2 * cluster..][..2].copy_from_slice(&(cluster as u16).to_le_bytes());
    }
    let mut b = bench(&memory);
    assert_eq!(b.open(b"one/is not there", o::RDONLY, 0), Err(-EIO));
    assert_eq!(b.open(b"is not there", o::RDONLY, 0), Err(-ENOENT));
    assert!(walk(&mut b).len() >= 200);
}

/// Bytes of the boot sector, the tables and the folders become others: everything is an answer, and none takes for ever.
#[test]
fn broken_disks_are_errors() {
    use fatfs::FatType::{Fat12, Fat16, Fat32};
    let images: u64 = std::env::var("CAIRN_FAT_IMAGES").map_or(100, |n| n.parse().unwrap());
    let (mut refused, mut different) = (0, 0);
    for (bytes, kind) in [(1 << 20, Fat12), (5 << 20, Fat16), (34 << 20, Fat32)] {
        let whole = formatted(bytes, kind);
        let mut b = bench(&whole);
        fill(&mut b);
        let told = walk(&mut b);
        assert!(told.len() > 60);
        let image = whole.disk.borrow().clone();
        let places: Vec<usize> = (0..image.len()).filter(|&at| image[at] != 0).collect();
        for seed in 1..=images {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut below = |end: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random % end as u64) as usize
            };
            let broken = Memory::new(0);
            *broken.disk.borrow_mut() = image.clone();
            for _ in 0..1 + below(8) {
                let mut disk = broken.disk.borrow_mut();
                let at = match below(3) {
                    0 => below(96),
                    _ => places[below(places.len())],
                };
                disk[at] = match below(4) {
                    0 => 0xff,
                    1 => 0,
                    2 => disk[at] ^ 1 << below(8),
                    _ => below(256) as u8,
                };
            }
            let Some(server) = Fat::open(broken.clone(), OPTIONS) else {
                refused += 1;
                continue;
            };
            let mut b = Bench::new(server, b"/fat");
            let seen = walk(&mut b);
            different += usize::from(seen != told);
            // Every answer is right that is one.
            b.result(0, &[fs::STATFS], b"");
            for (path, ..) in seen.iter().step_by(5) {
                let opened = b.open(path.as_bytes(), o::RDWR, 0);
                if let Ok(file) = opened {
                    b.result(file, &[fs::WRITE, 2000], &pattern(3000));
                    b.result(file, &[fs::TRUNCATE, 700], b"");
                    b.close(file);
                }
                b.result(0, &[fs::UNLINK], path.as_bytes());
            }
            let _ = b.open(b"one/a new name", o::RDWR | o::CREAT, 0o644);
            b.result(0, &[fs::MKDIR, 0o755], b"new");
            b.result(0, &[fs::SYNC, 0, 0], b"");
        }
    }
    // Both happened, or the test shows nothing.
    assert!(refused > 10 && different > 100, "{refused} {different}");
}
