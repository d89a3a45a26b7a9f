//! The server is killed, with files open, and its successor goes on.

use super::common::{make, must_be_clean, Random};
use super::machine::{keepsake, Kept, Machine, Shape, USUAL};
use super::plain::pattern;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, AGAIN, AGAIN_SHIFT, POSITION, STAT_WORDS};
use cairn_resmgr::Recovered;
use std::collections::BTreeMap;

const KEEP: usize = 4 << 20;

fn start(image: Vec<u8>, seed: u64, kept: Kept) -> (Machine, Recovered) {
    Machine::follow(image, USUAL, seed, kept).unwrap_or_else(|(refused, _)| panic!("{refused:?}"))
}

fn recovered(open: usize, lost: usize, gone: usize) -> Recovered {
    Recovered { open, lost, gone }
}

/// The server was to hear that nobody has a file any more, or had not yet answered who opened it.
#[test]
fn files_that_nobody_has_are_closed_by_the_successor() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
    let nameless = m.open_file(b"gone", o::CREAT | o::RDWR, 0o600).unwrap();
    assert_eq!(m.write_at(nameless, 0, &pattern(3, 9000)), 9000);
    assert_eq!(m.result(0, &[fs::UNLINK], b"gone"), 0);
    assert_eq!(m.sync(), 0);

    let (mut m, told) = start(m.kill(), 2, kept);
    assert_eq!(told, recovered(2, 0, 0));
    let unheld = |m: &mut Machine| {
        let bench = &mut m.bench;
        bench.manager.end_unheld(&mut bench.server, &mut bench.fake)
    };
    assert_eq!(unheld(&mut m), 0, "the nucleus does not tell");
    m.bench.fake.held = Some(vec![7, file]);
    assert_eq!(unheld(&mut m), 1);
    assert_eq!(unheld(&mut m), 0);
    assert_eq!(m.read_at(nameless, 0, 1), Err(-EIO));
    assert_eq!(m.write_at(file, 0, b"here"), 4);

    // It is not there for the next one either.
    let (mut m, told) = start(m.kill(), 3, kept);
    assert_eq!(told, recovered(1, 0, 0));
    m.bench.fake.held = Some(vec![]);
    assert_eq!(unheld(&mut m), 1);
    assert_eq!(m.sync(), 0);
    must_be_clean(&m.close());
}

#[test]
fn open_files_go_on_where_they_were() {
    let kept = keepsake(KEEP);
    let (mut m, told) = start(make(4096, 32, &[], None), 1, kept);
    assert_eq!(told, recovered(0, 0, 0));
    let bytes = pattern(7, 100_000);
    let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(file, POSITION, &bytes), 100_000);
    assert_eq!(m.result(file, &[fs::SEEK, 5000, 0], b""), 5000);
    let appends = m.open_file(b"file", o::WRONLY | o::APPEND, 0).unwrap();
    let dir = m.open_file(b"", o::RDONLY | o::DIRECTORY, 0).unwrap();
    let nameless = m.open_file(b"gone", o::CREAT | o::RDWR, 0o600).unwrap();
    assert_eq!(m.write_at(nameless, 0, &bytes[..9000]), 9000);
    assert_eq!(m.result(0, &[fs::UNLINK], b"gone"), 0);
    assert_eq!(m.sync(), 0);
    let closed = m.open_file(b"file", o::RDONLY, 0).unwrap();
    m.bench.close(closed);

    let (mut m, told) = start(m.kill(), 2, kept);
    assert_eq!(told, recovered(4, 0, 0));
    assert_eq!(m.read_at(file, POSITION, 3000).unwrap(), bytes[5000..8000]);
    assert_eq!(m.write_at(appends, POSITION, b"more"), 4);
    assert_eq!(m.read_at(file, 100_000, 10).unwrap(), b"more");
    assert_eq!(m.read_at(nameless, 0, 9000).unwrap(), bytes[..9000]);
    assert!(m.call(dir, &[fs::READDIR], b"", 4000).result() > 0);
    assert_eq!(m.read_at(closed, 0, 1), Err(-EIO), "nobody's");
    let other = m.open_file(b"file", o::RDONLY, 0).unwrap();
    assert!(![file, appends, dir, nameless, closed].contains(&other));
    assert_eq!(m.result(appends, &[fs::SYNC, 0], b""), 0);

    // Once more; then the file without a name ends.
    let (mut m, told) = start(m.kill(), 3, kept);
    assert_eq!(told, recovered(5, 0, 0));
    assert_eq!(m.read_at(file, POSITION, 2).unwrap(), bytes[8000..8002]);
    assert_eq!(m.read_at(nameless, 8999, 9).unwrap(), bytes[8999..9000]);
    for badge in [file, appends, dir, nameless, other] {
        m.bench.close(badge);
    }
    assert_eq!(m.sync(), 0);
    must_be_clean(&m.close());
}

/// What was written and not synced, by name and through handles, with its length and time, more than once.
#[test]
fn data_that_was_not_written_is_there() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let old = m.open_file(b"old", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(old, 0, &[1; 50_000]), 50_000);
    assert_eq!(m.sync(), 0);
    assert_eq!(m.write_at(old, 5000, &[2; 10_000]), 10_000);
    assert_eq!(m.result(old, &[fs::TRUNCATE, 40_000], b""), 0);
    let new = m.open_file(b"new", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(new, 100_000, b"far"), 3);
    let nameless = m.open_file(b"gone", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(nameless, 0, &[3; 9000]), 9000);
    assert_eq!(m.result(0, &[fs::UNLINK, 0], b"gone"), 0);
    let closed = m.open_file(b"closed", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(closed, 0, b"hello"), 5);
    let time = m.call(closed, &[fs::STAT, STAT_WORDS], b"", 0).words[6];
    m.bench.close(closed);
    let removed = m.open_file(b"removed", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(removed, 0, &[4; 9000]), 9000);
    m.bench.close(removed);
    assert_eq!(m.result(0, &[fs::UNLINK, 0], b"removed"), 0);
    let mut image = m.kill();
    for life in 2..5 {
        let (mut m, told) = start(image, life, kept);
        assert_eq!(told, recovered(3, 0, 0));
        let stat = m.call(0, &[fs::STAT, STAT_WORDS], b"closed", 0);
        assert_eq!((stat.words[4], stat.words[6]), (5, time));
        assert_eq!(m.read(b"closed").unwrap(), b"hello");
        let mut all = [[1; 5000].as_slice(), &[2; 10_000], &[1; 25_000]].concat();
        assert!(m.read_at(old, 0, 100_000).unwrap() == all);
        all = [vec![0; 100_000], b"far".to_vec()].concat();
        assert!(m.read_at(new, 0, 200_000).unwrap() == all && m.read(b"new").unwrap() == all);
        assert_eq!(m.read_at(nameless, 8999, 9).unwrap(), [3]);
        // The last one has time to write it.
        for _ in 0..if life == 4 { 20 } else { 0 } {
            m.wait();
            while m.turn() {}
        }
        image = m.kill();
    }
    let (mut m, told) = start(image, 5, kept);
    assert_eq!(told, recovered(3, 0, 0));
    assert_eq!(m.read(b"closed").unwrap(), b"hello");
    must_be_clean(&m.close());
}

/// There is no memory for what was left.
#[test]
fn who_could_not_have_it_back_is_told() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(file, 0, &[1; 100_000]), 100_000);
    let small = Shape {
        frames: 10,
        ..USUAL
    };
    let next = Machine::follow(m.kill(), small, 2, kept);
    let (mut m, told) = next.unwrap_or_else(|(refused, _)| panic!("{refused:?}"));
    assert_eq!(told, recovered(1, 1, 0));
    assert_eq!(m.read_at(file, 0, 10), Err(-EIO));
    assert_eq!(m.read_at(file, 0, 10).unwrap(), [1; 10]);
    assert_eq!(m.read_at(file, 99_990, 10).unwrap(), [0; 10]);
}

/// With a small keepsake data is lost, and names as well.
#[test]
fn who_lost_data_hears_so_once() {
    let kept = keepsake(64 * 1024);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let names: [&[u8]; 4] = [b"safe", b"written", b"cut", b"read"];
    let files = names.map(|name| m.open_file(name, o::CREAT | o::RDWR, 0o644).unwrap());
    for file in files {
        assert_eq!(m.write_at(file, 0, &[1; 10_000]), 10_000);
    }
    assert_eq!(m.sync(), 0);
    let [safe, written, cut, read] = files;
    let reader = m.open_file(b"written", o::RDONLY, 0).unwrap();
    let path = m.open_file(b"written", o::PATH, 0).unwrap();
    assert_eq!(m.write_at(written, 5000, &[2; 10_000]), 10_000);
    assert_eq!(m.write_at(safe, 5000, &[2; 10_000]), 10_000);
    assert_eq!(m.result(safe, &[fs::SYNC, 1], b""), 0);
    assert_eq!(m.result(cut, &[fs::TRUNCATE, 10], b""), 0);
    assert_eq!(m.read_at(read, 0, 10).unwrap(), [1; 10]);
    let new = m.open_file(b"new", o::CREAT | o::RDWR, 0o644).unwrap();

    let (mut m, told) = start(m.kill(), 2, kept);
    assert_eq!(told, recovered(6, 3, 1));
    assert_eq!(m.read_at(safe, 9999, 10).unwrap(), [2; 10]);
    assert_eq!(m.read_at(read, 0, 10).unwrap(), [1; 10]);
    // Each of those who have it open, whatever they do first; a name alone has lost nothing. What a program does not know of tells nobody.
    assert_eq!(
        m.result(reader, &[fs::MMAP, 0, 4096, fs::UNASKED], b""),
        -EAGAIN
    );
    assert_eq!(m.result(reader, &[fs::FRAMES], b""), -EAGAIN);
    assert_eq!(m.read_at(reader, 0, 10), Err(-EIO));
    assert_eq!(m.read_at(reader, 0, 20_000).unwrap(), [1; 10_000]);
    assert_eq!(m.result(path, &[fs::STAT], b""), 0);
    assert_eq!(m.result(written, &[fs::GETFLAGS], b""), o::RDWR as i64);

    // Who was not told yet is told by the next.
    let (mut m, told) = start(m.kill(), 3, kept);
    assert_eq!(told, recovered(6, 0, 1));
    assert_eq!(m.read_at(reader, 0, 10).unwrap(), [1; 10]);
    assert_eq!(m.result(written, &[fs::SYNC, 0], b""), -EIO);
    assert_eq!(m.result(written, &[fs::SYNC, 0], b""), 0);
    assert_eq!(m.result(cut, &[fs::TRUNCATE, 10], b""), -EIO);
    assert_eq!(m.result(cut, &[fs::TRUNCATE, 10], b""), 0);
    // What was never on the disk is gone for good.
    for _ in 0..2 {
        assert_eq!(m.read_at(new, 0, 10), Err(-EIO));
        assert_eq!(m.result(new, &[fs::SYNC, 0], b""), -EIO);
    }
    m.bench.close(new);
    assert_eq!(m.read(b"new"), Err(-ENOENT));
    must_be_clean(&m.close());
}

#[test]
fn what_becomes_safe_by_itself_is_not_told() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(file, 0, &[1; 10_000]), 10_000);
    for _ in 0..20 {
        m.wait();
        while m.turn() {}
    }
    let (mut m, told) = start(m.kill(), 2, kept);
    assert_eq!(told, recovered(1, 0, 0));
    assert_eq!(m.read_at(file, 0, 10_000).unwrap(), [1; 10_000]);
}

#[test]
fn locks_and_mount_points_go_on() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    assert_eq!(m.result(0, &[fs::MKDIR, 0o755], b"mnt"), 0);
    let [a, b] = [0; 2].map(|_| m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap());
    let lock = |m: &mut Machine, badge, what, kind, start, length, pid: u64| {
        // Whose it is says the sender.
        m.bench.sender = pid.max(1) as u32;
        m.result(badge, &[fs::LOCK, what, kind, start, length, pid], b"")
    };
    assert_eq!(lock(&mut m, a, 1, 1, 10, 20, 7), 0);
    assert_eq!(lock(&mut m, a, 1, 2, 15, 1, 7), 0);
    assert_eq!(lock(&mut m, a, 1, 0, 100, 0, 0), 0);
    assert_eq!(m.result(b, &[fs::FLOCK, 2], b""), 0);
    assert_eq!(m.result(0, &[fs::MOUNT_POINT, 1], b"mnt"), 0);
    assert_eq!(m.sync(), 0);
    let (mut m, _) = start(m.kill(), 2, kept);
    assert_eq!(lock(&mut m, b, 1, 1, 12, 1, 8), -EAGAIN);
    assert_eq!(lock(&mut m, b, 1, 1, 15, 1, 8), 0);
    assert_eq!(lock(&mut m, b, 1, 1, 200, 1, 8), -EAGAIN);
    assert_eq!(lock(&mut m, b, 1, 0, 200, 1, 8), 0);
    assert_eq!(m.result(a, &[fs::FLOCK, 1 | 4], b""), -EAGAIN);
    assert_eq!(m.result(0, &[fs::STAT], b"mnt/x"), -REDIRECT);
    m.bench.close(b);
    assert_eq!(m.result(a, &[fs::FLOCK, 1 | 4], b""), 0);
    m.bench.close(a);
    assert_eq!(m.result(0, &[fs::MOUNT_POINT, 0], b"mnt"), 0);
    let (mut m, told) = start(m.kill(), 3, kept);
    assert_eq!(told, recovered(0, 0, 0));
    assert_eq!(m.result(0, &[fs::STAT], b"mnt/x"), -ENOENT);
    let c = m.open_file(b"file", o::RDWR, 0).unwrap();
    assert_eq!(m.result(c, &[fs::FLOCK, 2 | 4], b""), 0);
    assert_eq!(lock(&mut m, c, 1, 1, 0, 0, 9), 0);
}

/// Requests that a server died with are made again; what they had moved is as if they had not.
#[test]
fn what_is_asked_again_is_done_once() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(m.write_at(file, 0, &pattern(3, 1000)), 1000);
    let appends = m.open_file(b"file", o::WRONLY | o::APPEND, 0).unwrap();
    assert_eq!(m.sync(), 0);
    // The thread with this token has read, but its answer never came.
    m.bench.fake.next_caller(77);
    assert_eq!(m.read_at(file, POSITION, 100).unwrap().len(), 100);
    m.bench.fake.next_caller(78);
    assert_eq!(m.write_at(appends, POSITION, &[9; 50]), 50);
    assert_eq!(m.sync(), 0);
    let (mut m, told) = start(m.kill(), 2, kept);
    assert_eq!(told, recovered(2, 0, 0));
    m.bench.fake.next_caller(77 | 5 << 32);
    let again = m.call(file, &[fs::READ | AGAIN, POSITION], b"", 100);
    assert!(again.bytes() == &pattern(3, 1000)[..100]);
    m.bench.fake.next_caller(78 | 5 << 32);
    let words = [fs::WRITE | AGAIN, POSITION];
    assert_eq!(m.result(appends, &words, &[9; 50]), 50);
    // Another thread begins where the position is, and appends at the end.
    m.bench.fake.next_caller(79);
    let again = m.call(file, &[fs::READ | AGAIN, POSITION], b"", 100);
    assert!(again.bytes() == &pattern(3, 1000)[100..200]);
    assert_eq!(m.read(b"file").unwrap().len(), 1050);
    m.bench.fake.next_caller(80);
    assert_eq!(m.result(appends, &words, &[9; 50]), 50);
    assert_eq!(m.read(b"file").unwrap().len(), 1100);
    let seek = [fs::SEEK | AGAIN, 0, 1];
    m.bench.fake.next_caller(81);
    assert_eq!(m.result(file, &seek, b""), 200);
}

/// A server may die with a request before it begins it: the last one that the thread began was answered.
#[test]
fn what_was_answered_is_not_what_is_asked_again() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
    let bytes = pattern(3, 1000);
    assert_eq!(m.write_at(file, 0, &bytes), 1000);
    assert_eq!(m.sync(), 0);
    let call = |number: u64| 77 | number << 32;
    let again = |first: u64| AGAIN | first << AGAIN_SHIFT;
    let read = |m: &mut Machine, number, mark: u64| {
        m.bench.fake.next_caller(call(number));
        let answer = m.call(file, &[fs::READ | mark, POSITION], b"", 100);
        answer.bytes().to_vec()
    };
    assert_eq!(read(&mut m, 4, 0), bytes[..100]);
    // The fifth call is the next read.
    let (mut m, _) = start(m.kill(), 2, kept);
    assert_eq!(read(&mut m, 6, again(5)), bytes[100..200]);
    // The answer did not come, and then a server died before it began.
    let (m, _) = start(m.kill(), 3, kept);
    let (mut m, _) = start(m.kill(), 4, kept);
    assert_eq!(read(&mut m, 8, again(5)), bytes[100..200]);
    // Where it is, a server was asked that never began.
    let (mut m, _) = start(m.kill(), 5, kept);
    m.bench.fake.next_caller(call(10));
    assert_eq!(m.result(file, &[fs::SEEK | again(9), 0, 1], b""), 200);
    assert_eq!(read(&mut m, 11, 0), bytes[200..300]);
    must_be_clean(&m.close());
}

/// The same of names.
#[test]
fn what_was_made_before_is_not_what_is_made_again() {
    let kept = keepsake(KEEP);
    let (mut m, _) = start(make(4096, 32, &[], None), 1, kept);
    let ask = |m: &mut Machine, number: u64, operation: u64, name: &[u8]| {
        m.bench.fake.next_caller(77 | number << 32);
        m.result(0, &[operation, 0], name)
    };
    let again = |first: u64| AGAIN | first << AGAIN_SHIFT;
    for name in [b"a", b"b"] {
        m.open_file(name, o::CREAT | o::RDWR, 0o644).unwrap();
    }
    assert_eq!(ask(&mut m, 4, fs::UNLINK, b"a"), 0);
    let (mut m, _) = start(m.kill(), 2, kept);
    assert_eq!(ask(&mut m, 6, fs::UNLINK | again(5), b"b"), 0);
    assert_eq!(m.read(b"b"), Err(-ENOENT));
    let (mut m, _) = start(m.kill(), 3, kept);
    assert_eq!(ask(&mut m, 7, fs::UNLINK | again(5), b"b"), 0);
    assert_eq!(ask(&mut m, 8, fs::UNLINK, b"b"), -ENOENT);
    must_be_clean(&m.close());
}

/// Whatever a server of ours that went wrong wrote there.
#[test]
fn nonsense_that_was_left_harms_nobody() {
    let mut random = Random(5);
    let image = make(4096, 8, &[], None);
    for round in 0..40 {
        let kept = keepsake(KEEP);
        let (mut m, _) = start(image.clone(), round, kept);
        let file = m.open_file(b"file", o::CREAT | o::RDWR, 0o644).unwrap();
        m.open_file(b"", o::RDONLY, 0).unwrap();
        assert_eq!(m.result(file, &[fs::LOCK, 1, 1, 10, 20, 7], b""), 0);
        assert_eq!(m.result(file, &[fs::FLOCK, 2], b""), 0);
        assert_eq!(m.result(0, &[fs::MOUNT_POINT, 1], b"lost+found"), 0);
        assert_eq!(m.sync(), 0);
        assert_eq!(m.write_at(file, 0, &[1; 20_000]), 20_000);
        let image = m.kill();
        // Records, files, slots.
        let own = kept.len() / 16 * 5;
        let slots = own + (kept.len() - own) / 11;
        for _ in 0..1 + random.below(6) {
            let at = match random.below(3) {
                0 => random.below(7 * 16) as usize,
                1 => own + random.below(12) as usize,
                _ => slots + random.below(70) as usize,
            };
            let value = match random.below(4) {
                0 => random.below(6),
                1 => random.below(1 << 40) << random.below(24),
                2 => kept[random.below(96) as usize].load(std::sync::atomic::Ordering::Relaxed),
                _ => u64::MAX - random.below(3),
            };
            kept[at].store(value, std::sync::atomic::Ordering::Relaxed);
        }
        let (mut m, _) = start(image, round, kept);
        let again = m.open_file(b"file", o::RDWR, 0).unwrap();
        assert!(m.read_at(file, 0, 10).is_ok() || m.read_at(again, 0, 10).is_ok());
        assert_eq!(m.write_at(again, 0, b"x"), 1);
        let new = m.open_file(b"new", o::CREAT | o::RDWR, 0o644).unwrap();
        assert_eq!(m.write_at(new, 0, b"x"), 1);
        m.bench.close(file);
        must_be_clean(&m.close());
    }
}

/// Games: the server is killed at any moment, again and again, and nothing that was answered may be lost, nor anybody be told that it was.
#[test]
fn killed_at_any_moment() {
    for seed in 1..=12 {
        game(seed);
    }
}

fn game(seed: u64) {
    let kept = keepsake(KEEP);
    let mut random = Random(seed);
    let block = [1024, 4096][seed as usize % 2];
    let (mut m, _) = start(make(block, 32, &[], None), seed, kept);
    // What each handle's file holds; the first has no name.
    let mut files: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for number in 0..6 {
        let name = format!("f{number}");
        let badge = m.open_file(name.as_bytes(), o::CREAT | o::RDWR, 0o644);
        files.insert(badge.unwrap(), Vec::new());
        if number == 0 {
            assert_eq!(m.result(0, &[fs::UNLINK], name.as_bytes()), 0);
        }
    }
    for life in 0..8 {
        for _ in 0..random.below(40) {
            let nth = random.below(files.len() as u64) as usize;
            let (&badge, now) = files.iter_mut().nth(nth).unwrap();
            match random.below(9) {
                0 => assert_eq!(m.result(badge, &[fs::SYNC, random.below(2)], b""), 0),
                1 => {
                    let size = random.below(60_000) as usize;
                    assert_eq!(m.result(badge, &[fs::TRUNCATE, size as u64], b""), 0);
                    now.resize(size, 0);
                }
                2 => {
                    const PUNCH_KEEP: u64 = 3;
                    let (at, length) = (random.below(40_000), 1 + random.below(20_000));
                    let words = [fs::ALLOCATE, PUNCH_KEEP, at, length];
                    assert_eq!(m.result(badge, &words, b""), 0);
                    let end = now.len().min((at + length) as usize);
                    now[(at as usize).min(end)..end].fill(0);
                }
                3 => m.wait(),
                4 => drop(m.turn()),
                _ => {
                    let at = random.below(50_000) as usize;
                    let bytes = pattern(random.below(1 << 40), 1 + random.below(20_000) as usize);
                    assert_eq!(m.write_at(badge, at as u64, &bytes), bytes.len() as i64);
                    now.resize(now.len().max(at + bytes.len()), 0);
                    now[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        // In the middle of something.
        for &badge in files.keys().take(random.below(3) as usize) {
            m.bench.send(badge, &[fs::SYNC, 0], b"", 0);
            for _ in 0..random.below(6) {
                m.turn();
            }
        }
        // The successor may be killed before it does anything.
        for _ in 0..1 + random.below(2) {
            let told;
            (m, told) = start(m.kill(), seed * 10 + life, kept);
            assert_eq!(told, recovered(files.len(), 0, 0));
        }
        for (number, (&badge, now)) in files.iter().enumerate() {
            let there = m.read_at(badge, 0, 200_000).unwrap();
            assert!(there == *now, "seed {seed}, life {life}: lost");
            if number != 0 && random.below(3) == 0 {
                let name = format!("f{number}");
                assert!(m.read(name.as_bytes()).unwrap() == *now);
            }
        }
    }
    must_be_clean(&m.close());
}
