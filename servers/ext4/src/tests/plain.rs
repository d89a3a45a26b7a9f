//! One thing at a time: trees that `mke2fs` made, each operation, errors of the device, full disks, little memory.

use super::common::{make, must_be_clean, Folder};
use super::machine::{Machine, Shape, USUAL};
use cairn_abi::pulse;
use cairn_idl::errno::*;
use cairn_idl::event;
use cairn_idl::fs::{self, o, POSITION};
use std::os::unix::fs::symlink;

/// Bytes that are different everywhere.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut value = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        bytes.extend(value.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub fn tree() -> (Folder, Vec<(&'static str, Vec<u8>)>) {
    let folder = Folder::new();
    let files: Vec<(&str, Vec<u8>)> = [
        ("empty", 0),
        ("one", 1),
        ("page", 4096),
        ("odd", 70_001),
        ("dir/large", 3 << 20),
        ("dir/sub/deep", 12_345),
    ]
    .into_iter()
    .enumerate()
    .map(|(seed, (name, length))| (name, pattern(seed as u64 + 1, length)))
    .collect();
    for (name, bytes) in &files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    symlink("dir/sub/deep", folder.join("link")).unwrap();
    symlink(
        format!("dir/{}sub/deep", "./".repeat(60)),
        folder.join("long-link"),
    )
    .unwrap();
    (folder, files)
}

fn names(machine: &mut Machine, path: &[u8]) -> Vec<String> {
    let dir = machine
        .open_file(path, o::RDONLY | o::DIRECTORY, 0)
        .unwrap();
    let mut all = Vec::new();
    loop {
        let answer = machine.call(dir, &[fs::READDIR], b"", 400);
        assert!(answer.result() >= 0, "{}", answer.result());
        let bytes = answer.bytes();
        if bytes.is_empty() {
            break;
        }
        let mut at = 0;
        while at < bytes.len() {
            let length = u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]) as usize;
            let name = &bytes[at + 19..at + length];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            all.push(String::from_utf8(name[..end].to_vec()).unwrap());
            at += length;
        }
    }
    machine.bench.close(dir);
    all.sort();
    all
}

#[test]
fn what_mke2fs_put_there_is_read() {
    let (folder, files) = tree();
    for (block, most_pages, most_requests) in [(4096, 256, 64), (1024, 3, 2), (2048, 16, 1)] {
        let image = make(block, 16, &[], Some(&folder.0));
        let shape = Shape {
            read_only: true,
            protected: true,
            most_pages,
            most_requests,
            ..USUAL
        };
        let mut machine = Machine::new(image.clone(), shape, block as u64);
        for (name, bytes) in &files {
            assert!(machine.read(name.as_bytes()).unwrap() == *bytes, "{name}");
        }
        assert!(machine.read(b"link").unwrap() == files[5].1);
        assert!(machine.read(b"long-link").unwrap() == files[5].1);
        assert_eq!(machine.read(b"dir/nothing"), Err(-ENOENT));
        let root = names(&mut machine, b"");
        let wanted = [
            ".",
            "..",
            "dir",
            "empty",
            "link",
            "long-link",
            "lost+found",
            "odd",
            "one",
            "page",
        ];
        assert_eq!(root, wanted);
        assert_eq!(
            machine.open_file(b"new", o::CREAT | o::RDWR, 0o644),
            Err(-EROFS)
        );
        assert_eq!(machine.open_file(b"one", o::RDWR, 0), Err(-EROFS));
        assert_eq!(machine.sync(), 0);
        assert!(machine.disk.borrow().bytes == image, "nothing was written");
    }
}

#[test]
fn a_device_that_is_done_at_once_leaves_nobody_waiting() {
    let mut machine = Machine::new(make(1024, 16, &[], None), USUAL, 1);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    for (badge, name) in [(file, "fsync"), (0, "sync")] {
        assert_eq!(machine.write_at(file, 0, b"precious"), 8);
        machine.disk.borrow_mut().instant = true;
        let token = machine.bench.send(badge, &[fs::SYNC, 0], b"", 0);
        // What is done while a request is worked on is told by notifications afterwards.
        (0..8).for_each(|_| machine.bench.pulse(pulse::NOTIFY, 1, 1));
        assert!(machine.bench.answer(token).is_some(), "{name} waits");
        machine.disk.borrow_mut().instant = false;
    }
}

#[test]
fn blocks_that_a_cut_gave_away_are_not_written_to() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 1);
    let [a, _] = [&b"a"[..], b"b"].map(|name| {
        let opened = machine.open_file(name, o::CREAT | o::RDWR, 0o644);
        opened.unwrap()
    });
    assert_eq!(machine.write_at(a, 0, &[1; 49_000]), 49_000);
    assert_eq!(machine.sync(), 0);
    let mut machine = Machine::new(machine.close(), USUAL, 2);
    let [a, b] = [&b"a"[..], b"b"].map(|name| machine.open_file(name, o::RDWR, 0).unwrap());
    // What lies behind the end is still being freed when the file is looked at.
    let cut = machine.bench.send(a, &[fs::TRUNCATE, 8192], b"", 0);
    machine.finish(cut);
    assert_eq!(machine.read_at(a, 0, 10).unwrap(), [1; 10]);
    assert_eq!(machine.write_at(a, 8192, &[2; 8192]), 8192);
    assert_eq!(machine.write_at(b, 0, &[3; 40_000]), 40_000);
    assert_eq!(machine.result(b, &[fs::SYNC, 0], b""), 0);
    assert_eq!(machine.sync(), 0);
    let image = machine.close();
    must_be_clean(&image);
    let mut machine = Machine::new(image, USUAL, 3);
    assert!(machine.read(b"a").unwrap() == [[1; 8192], [2; 8192]].concat());
    assert!(machine.read(b"b").unwrap() == [3; 40_000]);
}

#[test]
fn fsync_of_times_that_are_what_they_were_waits_for_nothing() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 1);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    machine.write_at(file, 0, b"x");
    for _ in 0..3 {
        let ino = machine.call(file, &[fs::STAT], b"", 144).data[8];
        machine.bench.server.touch(u32::from(ino));
        assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
    }
}

#[test]
fn who_waits_is_woken_also_by_what_is_done_while_the_server_looks() {
    let image = make(1024, 4, &[], None);
    let shape = Shape {
        pages: 64,
        frames: 64,
        ..USUAL
    };
    for turns in 0..12 {
        for looks in 0..6 {
            let mut machine = Machine::new(image.clone(), shape, turns);
            let flags = o::RDWR | o::CREAT;
            let file = machine.open_file(b"file", flags, 0o644).unwrap();
            assert_eq!(machine.write_at(file, 0, &pattern(1, 5000)), 5000);
            // The data is out, and its blocks are being committed; nobody waits for that.
            for _ in 0..6 {
                machine.wait();
            }
            while machine.turn() {}
            for _ in 0..6 {
                machine.wait();
            }
            for _ in 0..turns {
                machine.turn();
            }
            let token = machine.send_when_done(looks, file, &[fs::SYNC, 0]);
            assert_eq!(machine.finish(token).result(), 0);
        }
    }
}

#[test]
fn room_is_reserved_beside_what_is_being_written() {
    let image = make(1024, 4, &[], None);
    for turns in 0..6 {
        let mut machine = Machine::new(image.clone(), USUAL, turns);
        let flags = o::RDWR | o::CREAT;
        let file = machine.open_file(b"file", flags, 0o644).unwrap();
        let bytes = pattern(1, 20_000);
        assert_eq!(machine.write_at(file, 0, &bytes), 20_000);
        let sync = machine.bench.send(file, &[fs::SYNC, 0], b"", 0);
        for _ in 0..turns {
            machine.turn();
        }
        let words = [fs::ALLOCATE, 1, 10_000, 50_000];
        assert_eq!(machine.result(file, &words, b""), 0);
        assert_eq!(machine.finish(sync).result(), 0);
        assert!(machine.read_at(file, 0, 30_000).unwrap() == bytes);
        machine.bench.close(file);
        must_be_clean(&machine.close());
    }
}

#[test]
fn a_hole_at_the_end_of_what_was_never_written_out_keeps_the_length() {
    let image = make(1024, 4, &[], None);
    let mut machine = Machine::new(image, USUAL, 1);
    let flags = o::RDWR | o::CREAT;
    let file = machine.open_file(b"file", flags, 0o644).unwrap();
    assert_eq!(machine.write_at(file, 0, &pattern(1, 9025)), 9025);
    let words = [fs::ALLOCATE, 3, 900, 60_000];
    assert_eq!(machine.result(file, &words, b""), 0);
    machine.bench.close(file);
    let mut machine = Machine::new(machine.close(), USUAL, 2);
    let found = machine.read(b"file").unwrap();
    assert_eq!(found.len(), 9025);
    assert!(found[..900] == pattern(1, 9025)[..900] && found[900..].iter().all(|b| *b == 0));
    must_be_clean(&machine.close());
}

#[test]
fn holes_larger_than_the_cache_are_read() {
    let shape = Shape {
        pages: 40,
        frames: 40,
        ..USUAL
    };
    let mut machine = Machine::new(make(1024, 4, &[], None), shape, 1);
    let flags = o::RDWR | o::CREAT;
    let file = machine.open_file(b"file", flags, 0o644).unwrap();
    assert_eq!(machine.result(file, &[fs::TRUNCATE, 2_000_000], b""), 0);
    assert!(machine.read(b"file").unwrap() == vec![0; 2_000_000]);
}

#[test]
fn preallocation_waits_for_data_under_way() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 1);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    let bytes = pattern(1, 40_000);
    assert_eq!(machine.write_at(file, 0, &bytes), 40_000);
    let sync = machine.bench.send(file, &[fs::SYNC, 0], b"", 0);
    for mode in [0, 1, 16] {
        let words = [fs::ALLOCATE, mode, 8192, 16_384];
        assert_eq!(machine.result(file, &words, b""), 0);
    }
    assert_eq!(machine.finish(sync).result(), 0);
    let read = machine.read_at(file, 0, 40_000).unwrap();
    assert!(read[..8192] == bytes[..8192] && read[24_576..] == bytes[24_576..]);
    assert!(read[8192..24_576].iter().all(|byte| *byte == 0));
    must_be_clean(&machine.close());
}

#[test]
fn small_blocks_are_promised_one_by_one() {
    let mut machine = Machine::new(make(1024, 16, &["-m", "0"], None), USUAL, 1);
    let keep = machine
        .open_file(b"keep", o::CREAT | o::RDWR, 0o644)
        .unwrap();
    assert_eq!(machine.write_at(keep, 0, b"precious"), 8);
    assert_eq!(machine.sync(), 0);
    let fill = machine
        .open_file(b"fill", o::CREAT | o::RDWR, 0o644)
        .unwrap();
    let mut at = 0;
    for piece in [65_536, 1024] {
        loop {
            match machine.write_at(fill, at, &pattern(at, piece)) {
                done if done > 0 => at += done as u64,
                error => break assert_eq!(error, -ENOSPC),
            }
        }
    }
    // In a block that is there a byte can be written; not in the next one, in the same page.
    assert_eq!(machine.write_at(keep, 2, b"EC"), 2);
    assert_eq!(machine.write_at(keep, 1024, b"more"), -ENOSPC);
    assert_eq!(machine.sync(), 0);
    assert_eq!(machine.read(b"keep").unwrap(), b"prECious");
    // Punching and writing again in the middle of pages.
    for (offset, length) in [(1024, 1024), (6144, 3072), (20_000, 9000)] {
        let words = [fs::ALLOCATE, 3, offset, length];
        assert_eq!(machine.result(fill, &words, b""), 0);
        let read = machine.read_at(fill, offset, length as usize).unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
    }
    assert_eq!(machine.sync(), 0);
    assert_eq!(machine.write_at(keep, 1024, b"more"), 4);
    let image = machine.close();
    must_be_clean(&image);
    let mut machine = Machine::new(image, USUAL, 2);
    let mut wanted = b"prECious".to_vec();
    wanted.resize(1024, 0);
    wanted.extend(b"more");
    assert_eq!(machine.read(b"keep").unwrap(), wanted);
}

#[test]
fn what_is_written_beside_blocks_under_way_keeps_its_promise() {
    let mut machine = Machine::new(make(1024, 16, &[], None), USUAL, 1);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(machine.result(file, &[fs::TRUNCATE, 4096], b""), 0);
    assert_eq!(machine.write_at(file, 0, b"first"), 5);
    assert_eq!(machine.sync(), 0);
    // Promised one by one: what is on its way out is the third block.
    assert_eq!(machine.write_at(file, 2048, b"third"), 5);
    for _ in 0..6 {
        machine.wait();
    }
    let before = machine.bench.server.fs.space().free;
    let second = machine.bench.send(file, &[fs::WRITE, 1024], b"second", 0);
    assert_eq!(machine.finish(second).result(), 6);
    while machine.turn() {}
    let server = &machine.bench.server;
    let kept: u64 = server.nodes.all().map(|node| node.delayed.count()).sum();
    assert_eq!((kept, before - server.fs.space().free), (1, 1));
    assert_eq!(machine.sync(), 0);
    assert_eq!(machine.read_at(file, 1024, 6).unwrap(), b"second");
    must_be_clean(&machine.close());
}

#[test]
fn preallocated_blocks_go_with_the_same_length_and_stay_unwritten() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 1);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    let ino = machine.call(file, &[fs::STAT], b"", 144).data[8];
    let blocks = |machine: &Machine| {
        let node = machine.bench.server.nodes.get(u32::from(ino));
        node.map(|node| node.sectors / 8)
    };
    assert_eq!(machine.result(file, &[fs::ALLOCATE, 0, 0, 409_600], b""), 0);
    assert_eq!(machine.read_at(file, 0, 300_000), Ok(vec![0; 300_000]));
    // Parts of blocks that were never written need not be written as zeros: the tree stays small.
    for at in 0..20 {
        let words = [fs::ALLOCATE, 16, at * 20_000 + 100, 9000];
        assert_eq!(machine.result(file, &words, b""), 0);
    }
    let words = [fs::ALLOCATE, 1, 409_600, 409_600];
    assert_eq!(machine.result(file, &words, b""), 0);
    assert_eq!(machine.sync(), 0);
    assert_eq!(blocks(&machine), Some(200));
    let words = [fs::TRUNCATE, 409_600];
    assert_eq!(machine.result(file, &words, b""), 0);
    assert_eq!(machine.sync(), 0);
    assert_eq!(blocks(&machine), Some(100));
    must_be_clean(&machine.close());
}

#[test]
fn reading_in_order_asks_for_much_at_a_time_and_once() {
    let (folder, files) = tree();
    let image = make(4096, 16, &[], Some(&folder.0));
    let mut machine = Machine::new(image, USUAL, 5);
    let large = &files[4].1;
    let file = machine.open_file(b"dir/large", o::RDONLY, 0).unwrap();
    let before = machine.disk.borrow().read_requests;
    let mut all = Vec::new();
    while all.len() < large.len() {
        all.extend(machine.read_at(file, POSITION, 8192).unwrap());
    }
    assert!(all == *large);
    let requests = machine.disk.borrow().read_requests - before;
    assert!(requests < 20, "{requests} requests for 3 MiB");
    machine.read(b"dir/large").unwrap();
    assert_eq!(machine.disk.borrow().read_requests - before, requests);
}

#[test]
fn what_was_written_is_there_after_closing() {
    for (block, seed) in [(4096, 1), (1024, 2)] {
        let mut machine = Machine::new(make(block, 32, &[], None), USUAL, seed);
        assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"dir"), 0);
        let big = pattern(seed, 2_500_000);
        let file = machine
            .open_file(b"dir/big", o::CREAT | o::RDWR, 0o640)
            .unwrap();
        for part in big.chunks(100_000) {
            assert_eq!(machine.write_at(file, POSITION, part), part.len() as i64);
        }
        assert!(
            machine.read(b"dir/big").unwrap() == big,
            "before it is written"
        );
        assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
        // In the middle, over two pages, and behind the end with a hole.
        let mut big = big;
        big[5000..9001].fill(7);
        assert_eq!(machine.write_at(file, 5000, &[7; 4001]), 4001);
        big.resize(3_000_000, 0);
        big.extend([9; 10]);
        assert_eq!(machine.write_at(file, 3_000_000, &[9; 10]), 10);
        assert!(machine.read(b"dir/big").unwrap() == big);
        // Append.
        let end = machine
            .open_file(b"dir/big", o::WRONLY | o::APPEND, 0)
            .unwrap();
        assert_eq!(machine.write_at(end, POSITION, b"the end"), 7);
        big.extend(b"the end");
        // Cut, and grown again: zeros.
        assert_eq!(machine.result(file, &[fs::TRUNCATE, 1_000_001], b""), 0);
        assert_eq!(machine.result(file, &[fs::TRUNCATE, 1_100_000], b""), 0);
        big.truncate(1_000_001);
        big.resize(1_100_000, 0);
        assert!(machine.read(b"dir/big").unwrap() == big);
        // A hole, at no page's border.
        let words = [fs::ALLOCATE, 3, 10_000, 50_000];
        assert_eq!(machine.result(file, &words, b""), 0);
        big[10_000..60_000].fill(0);
        assert!(machine.read(b"dir/big").unwrap() == big);
        machine.bench.close(file);
        machine.bench.close(end);
        let image = machine.close();
        must_be_clean(&image);
        let mut machine = Machine::new(image, USUAL, seed);
        assert!(machine.read(b"dir/big").unwrap() == big);
        assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"dir/big"), 0);
        assert_eq!(machine.result(0, &[fs::UNLINK, 0x200], b"dir"), 0);
        must_be_clean(&machine.close());
    }
}

#[test]
fn an_open_file_without_names_lives_until_it_is_closed() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 3);
    let space = |machine: &mut Machine| {
        let answer = machine.call(0, &[fs::STATFS], b"", 4096);
        u64::from_le_bytes(answer.data[24..32].try_into().unwrap())
    };
    machine.sync();
    let before = space(&mut machine);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    let bytes = pattern(3, 1 << 20);
    assert_eq!(machine.write_at(file, 0, &bytes), 1 << 20);
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"f"), 0);
    assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
    assert!(machine.read_at(file, 0, 1 << 20).unwrap() == bytes);
    let unnamed = machine.open_file(b"", o::TMPFILE | o::RDWR, 0o600).unwrap();
    assert_eq!(machine.write_at(unnamed, 0, b"x"), 1);
    machine.bench.close(file);
    machine.bench.close(unnamed);
    assert_eq!(machine.sync(), 0);
    assert_eq!(space(&mut machine), before);
    must_be_clean(&machine.close());
}

#[test]
fn a_full_disk_is_told_to_who_writes() {
    let mut machine = Machine::new(make(4096, 8, &[], None), USUAL, 4);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    let (part, mut written) = (pattern(9, 65536), 0);
    let refused = loop {
        match machine.write_at(file, POSITION, &part) {
            done if done > 0 => written += done as usize,
            refused => break refused,
        }
    };
    assert_eq!(refused, -ENOSPC);
    assert!(written > 3 << 20, "{written}");
    assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
    let all = machine.read(b"f").unwrap();
    assert_eq!(all.len(), written);
    assert!(all.chunks(65536).all(|some| *some == part[..some.len()]));
    // What is removed can be had again, although its blocks wait for the journal.
    machine.bench.close(file);
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"f"), 0);
    let file = machine.open_file(b"g", o::CREAT | o::RDWR, 0o644).unwrap();
    for _ in 0..written / 65536 - 2 {
        assert_eq!(machine.write_at(file, POSITION, &part), 65536);
    }
    machine.bench.close(file);
    must_be_clean(&machine.close());
}

#[test]
fn errors_of_the_device_are_told_once() {
    let (folder, files) = tree();
    let mut machine = Machine::new(make(4096, 16, &[], Some(&folder.0)), USUAL, 6);
    let file = machine.open_file(b"odd", o::RDWR, 0).unwrap();
    machine.disk.borrow_mut().fail_reads = true;
    assert_eq!(machine.read_at(file, 0, 4096), Err(-EIO));
    machine.disk.borrow_mut().fail_reads = false;
    assert!(machine.read_at(file, 0, 4096).unwrap() == files[3].1[..4096]);
    assert_eq!(machine.write_at(file, 0, b"new"), 3);
    machine.disk.borrow_mut().fail_writes = true;
    assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), -EIO);
    machine.disk.borrow_mut().fail_writes = false;
    assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
    machine.bench.close(file);
    must_be_clean(&machine.close());
}

#[test]
fn more_files_than_memory() {
    let shape = Shape {
        frames: 200,
        metadata: 64,
        ..USUAL
    };
    let mut machine = Machine::new(make(4096, 64, &[], None), shape, 8);
    for number in 0..40u64 {
        let name = format!("file-{number}");
        let file = machine
            .open_file(name.as_bytes(), o::CREAT | o::WRONLY, 0o644)
            .unwrap();
        let bytes = pattern(number, 300_000);
        assert_eq!(machine.write_at(file, 0, &bytes), 300_000);
        machine.bench.close(file);
    }
    for number in 0..40u64 {
        let name = format!("file-{number}");
        assert!(machine.read(name.as_bytes()).unwrap() == pattern(number, 300_000));
    }
    must_be_clean(&machine.close());
}

#[test]
fn times_of_directories_are_those_of_their_last_change() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 12);
    let times = |machine: &mut Machine| {
        let answer = machine.call(0, &[fs::STAT, 0], b"d", 4096);
        let word = |at: usize| u64::from_le_bytes(answer.data[at..at + 8].try_into().unwrap());
        (word(72), word(88), word(104))
    };
    assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    machine.wait();
    names(&mut machine, b"d");
    for _ in 0..3 {
        machine.wait();
        let file = machine
            .open_file(b"d/f", o::CREAT | o::RDWR, 0o644)
            .unwrap();
        machine.bench.close(file);
    }
    let before = times(&mut machine);
    assert_eq!((before.1, before.2), (1_700_000_002, 1_700_000_002));
    for _ in 0..7 {
        machine.wait();
    }
    names(&mut machine, b"d");
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"d/f"), 0);
    let before = times(&mut machine);
    let seconds = machine.bench.fake.time / 1_000_000_000;
    assert_eq!(before, (seconds, seconds, seconds));
    let mut machine = Machine::new(machine.close(), USUAL, 12);
    assert_eq!(times(&mut machine), before);
}

#[test]
fn a_file_system_is_unmounted_when_nobody_uses_it() {
    let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, 5);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o640).unwrap();
    assert_eq!(machine.write_at(file, 0, b"kept"), 4);
    assert_eq!(machine.result(file, &[fs::UNMOUNT], b""), -EINVAL);
    assert_eq!(machine.result(0, &[fs::UNMOUNT], b""), -EBUSY);
    machine.bench.close(file);
    machine.bench.label = 7;
    assert_eq!(machine.result(0, &[fs::UNMOUNT], b""), -EPERM);
    machine.bench.label = 0;
    assert_eq!(machine.result(0, &[fs::UNMOUNT], b""), 0);
    assert!(machine.bench.server.ended);
    let image = core::mem::take(&mut machine.disk.borrow_mut().bytes);
    must_be_clean(&image);
    let mut machine = Machine::new(image, USUAL, 5);
    assert_eq!(machine.read(b"f").unwrap(), b"kept");
}

/// Nobody syncs, and the power goes: whatever was committed shortly before.
#[test]
fn what_is_written_is_there_five_seconds_later() {
    for pause in 0..8 {
        let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 40 + pause);
        let seconds = |machine: &mut Machine, count| {
            for _ in 0..count {
                machine.wait();
                while machine.turn() {}
            }
        };
        let create = o::CREAT | o::WRONLY;
        let before = machine.open_file(b"before", create, 0o644).unwrap();
        assert_eq!(machine.write_at(before, 0, b"earlier"), 7);
        seconds(&mut machine, pause);
        let note = machine.open_file(b"note", create, 0o644).unwrap();
        assert_eq!(machine.write_at(note, 0, b"x\n"), 2);
        seconds(&mut machine, 5);
        let image = machine.disk.borrow().bytes.clone();
        let mut after = Machine::new(image, USUAL, 1);
        assert_eq!(after.read(b"note"), Ok(b"x\n".to_vec()), "pause {pause}");
        assert_eq!(after.read(b"before"), Ok(b"earlier".to_vec()));
    }
}

#[test]
fn files_go_beside_watched_ones_and_with_their_last_watch() {
    let (folder, _) = tree();
    let image = make(4096, 16, &[], Some(&folder.0));
    let mut machine = Machine::new(image, USUAL, 7);
    // As the event server says it of a watch for everything.
    let watch = 1 | (event::ALL_EVENTS << event::EVENTS_SHIFT) as i64;
    for (number, path) in [(1, &b"dir"[..]), (2, b"page")] {
        machine.bench.fake.event_answer = watch;
        assert_eq!(machine.result(0, &[fs::MARK, number, 0, 0], path), 1);
    }
    machine.bench.fake.event_answer = 0;
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"one"), 0);
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"dir/large"), 0);
    let file = machine.open_file(b"odd", o::RDONLY, 0).unwrap();
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"odd"), 0);
    machine.bench.close(file);
    assert_eq!(machine.result(0, &[fs::RENAME, 0], b"link\0empty"), 0);
    // The queue is gone, which the server hears as it tells.
    machine.bench.fake.event_answer = -EBADF;
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"page"), 0);
    machine.bench.fake.event_answer = 0;
    assert!(machine
        .open_file(b"new", o::CREAT | o::WRONLY, 0o600)
        .is_ok());
    let left = ["dir", "empty", "long-link", "lost+found", "new"];
    assert_eq!(names(&mut machine, b"")[2..], left);
    must_be_clean(&machine.close());
}

fn by_handle(m: &mut Machine, ino: u32, generation: u32) -> Result<u64, i64> {
    let handle = [ino.to_le_bytes(), generation.to_le_bytes()].concat();
    let words = [fs::OPEN, o::RDONLY | fs::BY_HANDLE, 0];
    let answer = m.call(0, &words, &handle, 0);
    match answer.minted.first() {
        Some(&badge) => Ok(badge),
        None => Err(answer.result()),
    }
}

#[test]
fn a_handle_is_inode_and_generation() {
    let mut m = Machine::new(make(4096, 32, &[], None), USUAL, 1);
    let file = m.open_file(b"a", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(file, 0, b"text"), 4);
    let answer = m.call(file, &[fs::FILE_HANDLE], b"", 0);
    assert_eq!(answer.result(), 8);
    let (ino, generation) = (answer.words[1] as u32, (answer.words[1] >> 32) as u32);
    m.bench.close(file);
    // Of a server that knows nothing of it yet.
    let mut m = Machine::new(m.close(), USUAL, 2);
    let file = by_handle(&mut m, ino, generation).unwrap();
    assert_eq!(m.read_at(file, 0, 9).unwrap(), b"text");
    for (ino, generation) in [
        (ino, generation ^ 1),
        (ino + 1, generation),
        (ino + 1, 0),
        (0, 0),
        (1, 0),
        (8, 0),
        (u32::MAX, 0),
    ] {
        assert_eq!(by_handle(&mut m, ino, generation), Err(-ESTALE), "{ino}");
    }
    assert!(by_handle(&mut m, 2, 0).is_ok(), "the root");
    assert_eq!(m.result(0, &[fs::UNLINK, 0], b"a"), 0);
    assert_eq!(by_handle(&mut m, ino, generation), Err(-ESTALE));
    m.bench.close(file);
    assert_eq!(m.sync(), 0);
    assert_eq!(by_handle(&mut m, ino, generation), Err(-ESTALE));
    must_be_clean(&m.close());
}
