//! The server on images of xorriso's, whole and broken.

mod machine;

use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, s};
use machine::{image, pattern, tree, Machine};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;
use std::{format, vec};

fn rock_ridge(name: &str) -> Rc<Vec<u8>> {
    image(name, &["-R", "-J"], tree)
}

#[test]
fn everything_is_found_by_its_own_name() {
    let mut machine = Machine::open(rock_ridge("own")).unwrap();
    let found: BTreeMap<_, _> = machine.walk().into_iter().collect();
    assert_eq!(found.len(), 72);
    let of = |name: &str| found[name.as_bytes()].clone().unwrap();
    assert_eq!(of("small").data, b"small");
    assert_eq!(of("empty").data, b"");
    assert!(of("folder/Large.data").data == pattern(50_001));
    assert_eq!(
        of("folder/in/it/A name of more than eight letters").data,
        b"deep"
    );
    assert_eq!(of("absolute").target, b"/absolute/../path//x");
    assert_eq!(
        of("long").target,
        "long/".repeat(80).trim_end_matches('/').as_bytes()
    );
    assert_eq!(of(&"n".repeat(255)).target, "p".repeat(255).as_bytes());
    for i in 0..60 {
        assert_eq!(of(&format!("many/number {i}")).data, pattern(i));
    }
    // As the host has them.
    assert_eq!(of("folder").mode & s::IFMT, s::IFDIR);
    assert_eq!(of("small").mode, s::IFREG | 0o644);
    assert!(of("small").mtime > 1_700_000_000);
    assert_eq!(
        machine.seen(b"folder/../many/number 3").unwrap().data,
        pattern(3)
    );
    assert_eq!(machine.seen(b"Small"), Err(-ENOENT));
}

#[test]
fn names_of_joliet_and_of_iso_9660_alone() {
    for (options, small, long) in [
        (
            &["--norock", "-J"][..],
            "small",
            "folder/in/it/A name of more than eight letters",
        ),
        (
            &["--norock", "-iso-level", "1"],
            "small",
            "folder/in/it/a_name_o",
        ),
    ] {
        let mut machine = Machine::open(image(
            long.split(' ')
                .next()
                .unwrap_or("")
                .replace('/', "-")
                .as_str(),
            options,
            |top| {
                std::fs::create_dir_all(top.join("folder/in/it")).unwrap();
                std::fs::write(top.join("small"), "small").unwrap();
                std::fs::write(
                    top.join("folder/in/it/A name of more than eight letters"),
                    "deep",
                )
                .unwrap();
            },
        ))
        .unwrap();
        let seen = machine.seen(small.as_bytes()).unwrap();
        assert_eq!(
            (seen.data.as_slice(), seen.mode),
            (&b"small"[..], s::IFREG | 0o555)
        );
        assert_eq!(
            machine.seen(long.as_bytes()).unwrap().data,
            b"deep",
            "{long}"
        );
    }
}

#[test]
fn mapped_pages_are_the_files_and_zeros_behind_them() {
    let mut machine = Machine::open(rock_ridge("mapped")).unwrap();
    let (whole, at) = (pattern(50_001), 12 * 4096);
    let page = machine.touch(b"folder/Large.data", 12).unwrap();
    assert!(page[..50_001 - at] == whole[at..]);
    assert!(page[50_001 - at..].iter().all(|byte| *byte == 0));
    assert_eq!(machine.touch(b"small", 0).unwrap()[..6], *b"small\0");
    *machine.outside.broken.borrow_mut() = true;
    assert_eq!(machine.touch(b"many/number 59", 0), None);
}

#[test]
fn a_disk_that_fails_is_an_error_and_not_kept() {
    let mut machine = Machine::open(rock_ridge("fails")).unwrap();
    *machine.outside.broken.borrow_mut() = true;
    assert_eq!(machine.seen(b"folder/Large.data"), Err(-EIO));
    *machine.outside.broken.borrow_mut() = false;
    assert!(machine.seen(b"folder/Large.data").unwrap().data == pattern(50_001));
}

#[test]
fn nothing_can_be_changed() {
    let mut machine = Machine::open(rock_ridge("changed")).unwrap();
    let b = &mut machine.bench;
    for flags in [o::WRONLY, o::RDWR, o::RDONLY | o::TRUNC, o::RDWR | o::CREAT] {
        assert_eq!(b.open(b"small", flags, 0), Err(-EROFS), "{flags:#x}");
    }
    assert_eq!(b.open(b"new", o::RDWR | o::CREAT, 0o644), Err(-EROFS));
    for (words, path) in [
        (&[fs::MKDIR, 0o755][..], &b"new"[..]),
        (&[fs::UNLINK, 0], b"small"),
        (&[fs::UNLINK, 0], b"absent"),
        (&[fs::CHMOD, 0o700], b"small"),
        (&[fs::TRUNCATE, 1], b"small"),
        (&[fs::ACCESS, 2], b"small"),
    ] {
        assert_eq!(b.result(0, words, path), -EROFS, "{words:?}");
    }
    assert_eq!(b.result(0, &[fs::ACCESS, 4], b"small"), 0);
}

#[test]
fn what_is_no_iso_9660_is_refused() {
    for byte in [0, 0x55, 0xff] {
        assert!(Machine::open(Rc::new(vec![byte; 1 << 20])).is_none());
    }
    for length in [0, 512, 32_768, 34_816, 40_960] {
        let mut bytes = (*rock_ridge("refused")).clone();
        bytes.truncate(length);
        assert!(Machine::open(Rc::new(bytes)).is_none());
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Bytes of the structures (descriptors, folders, continuation areas) become others, or the image ends early: everything is an answer, and none takes long.
#[test]
fn broken_images_are_errors() {
    const IMAGES: u64 = 10_000;
    let whole = rock_ridge("broken");
    let told = Machine::open(whole.clone()).unwrap().walk();
    // Where there is something: file data is a small part of it.
    let places: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
    let (mut refused, mut different) = (0, 0);
    for seed in 1..=IMAGES {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = (*whole).clone();
        for _ in 0..1 + random.below(8) {
            let near = random.below(4);
            let at = (places[random.below(places.len())] + near).min(bytes.len() - 1);
            bytes[at] = match random.below(4) {
                0 => 0xff,
                1 => 0,
                2 => bytes[at] ^ 1 << random.below(8),
                _ => random.below(256) as u8,
            };
        }
        if random.below(10) == 0 {
            bytes.truncate(random.below(bytes.len()) / 512 * 512);
        }
        let Some(mut machine) = Machine::open(Rc::new(bytes)) else {
            refused += 1;
            continue;
        };
        let seen = machine.walk();
        different += usize::from(seen != told);
        let paths: Vec<_> = seen.iter().step_by(7).map(|(path, _)| path).collect();
        for path in paths {
            machine.touch(path, random.below(13) as u64);
        }
        let loads = *machine.outside.loads.borrow();
        assert!(loads < 40_000, "image {seed}: {loads} reads of the disk");
    }
    // Both happened, or the test shows nothing.
    assert!(refused > 50 && different > 1000, "{refused} {different}");
}

/// Numbers that only somebody hostile writes: the length of a folder, a place beyond the disk, a folder that is its own subfolder.
#[test]
fn hostile_numbers_are_errors() {
    let whole = rock_ridge("hostile");
    let dated = |bytes: &[u8], at: usize| bytes[at + 25] & 2 != 0 && bytes[at + 32] == 1;
    // Records of folders: length, extent and size in both orders.
    let records: Vec<usize> = (16 * 2048..whole.len() - 60)
        .filter(|&at| {
            whole[at] >= 34
                && whole[at + 2..at + 6]
                    .iter()
                    .eq(whole[at + 6..at + 10].iter().rev())
        })
        .filter(|&at| {
            whole[at + 10..at + 14]
                .iter()
                .eq(whole[at + 14..at + 18].iter().rev())
        })
        .filter(|&at| whole[at + 28..at + 32] == [1, 0, 0, 1])
        .collect();
    assert!(records.iter().filter(|&&at| dated(&whole, at)).count() > 8 && records.len() > 70);
    for &at in &records {
        for number in [
            0,
            1,
            16,
            23,
            0x7fff_ffff,
            0xffff_ffff,
            whole.len() as u32 / 2048,
        ] {
            for field in [2, 10] {
                let mut bytes = (*whole).clone();
                bytes[at + field..][..4].copy_from_slice(&number.to_le_bytes());
                bytes[at + field + 4..][..4].copy_from_slice(&number.to_be_bytes());
                if let Some(mut machine) = Machine::open(Rc::new(bytes)) {
                    machine.walk();
                    let loads = *machine.outside.loads.borrow();
                    assert!(
                        loads < 40_000,
                        "{at} {field} {number}: {loads} reads of the disk"
                    );
                }
            }
        }
    }
}
