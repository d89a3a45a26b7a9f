//! Attributes, synchronous and appending writes, holes, requests that wait while something happens to their callers.

use super::common::{make, must_be_clean};
use super::machine::{Machine, Shape, USUAL};
use super::plain::pattern;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, POSITION};
use cairn_idl::label;

const GET: u64 = 0;
const SET: u64 = 1;
const LIST: u64 = 2;
const REMOVE: u64 = 3;

fn attribute(
    machine: &mut Machine,
    what: u64,
    flags: u64,
    name: &str,
    value: &[u8],
) -> Result<Vec<u8>, i64> {
    let text = [b"f\0", name.as_bytes(), b"\0", value].concat();
    let answer = machine.call(0, &[fs::XATTR, what, flags], &text, 4096);
    match answer.result() {
        result if result < 0 => Err(result),
        _ => Ok(answer.bytes().to_vec()),
    }
}

#[test]
fn attributes_are_kept_and_who_may_is_asked() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 1);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    let m = &mut machine;
    assert_eq!(attribute(m, LIST, 0, "", b""), Ok(vec![]));
    assert_eq!(attribute(m, SET, 0, "user.one", b"1\0 2"), Ok(vec![]));
    assert_eq!(attribute(m, SET, 0, "trusted.t", b"t"), Ok(vec![]));
    assert_eq!(attribute(m, GET, 0, "user.one", b""), Ok(b"1\0 2".to_vec()));
    assert_eq!(attribute(m, GET, 0, "user.two", b""), Err(-ENODATA));
    assert_eq!(attribute(m, SET, 1, "user.one", b"x"), Err(-EEXIST));
    assert_eq!(attribute(m, SET, 2, "user.two", b"x"), Err(-ENODATA));
    assert_eq!(attribute(m, SET, 0, "user.", b"x"), Err(-EINVAL));
    assert_eq!(attribute(m, SET, 0, "other.a", b"x"), Err(-EOPNOTSUPP));
    let access = "system.posix_acl_access";
    assert_eq!(attribute(m, SET, 0, access, b"x"), Err(-EOPNOTSUPP));
    assert_eq!(attribute(m, SET, 0, "user.l", &[1; 5000]), Err(-ENOSPC));
    // Somebody else sees what the file's permissions let him.
    m.bench.label = label::make(1000, 1000);
    assert_eq!(attribute(m, GET, 0, "user.one", b""), Ok(b"1\0 2".to_vec()));
    assert_eq!(attribute(m, SET, 0, "user.one", b"x"), Err(-EACCES));
    assert_eq!(attribute(m, GET, 0, "trusted.t", b""), Err(-ENODATA));
    assert_eq!(attribute(m, SET, 0, "security.s", b""), Err(-EPERM));
    assert_eq!(attribute(m, LIST, 0, "", b""), Ok(b"user.one\0".to_vec()));
    m.bench.label = 0;
    machine.bench.close(file);
    let image = machine.close();
    must_be_clean(&image);
    let mut machine = Machine::new(image, USUAL, 2);
    let m = &mut machine;
    assert_eq!(attribute(m, GET, 0, "user.one", b""), Ok(b"1\0 2".to_vec()));
    assert_eq!(attribute(m, REMOVE, 0, "user.one", b""), Ok(vec![]));
    assert_eq!(attribute(m, LIST, 0, "", b""), Ok(b"trusted.t\0".to_vec()));
    must_be_clean(&machine.close());
}

#[test]
fn a_synchronous_write_is_on_the_disk_when_it_is_answered() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 3);
    let flags = o::CREAT | o::RDWR | o::DSYNC;
    let file = machine.open_file(b"f", flags, 0o644).unwrap();
    for round in 0..3 {
        let bytes = pattern(round, 20_000);
        assert_eq!(machine.write_at(file, POSITION, &bytes), 20_000);
        // As if the power had gone now.
        let image = machine.disk.borrow().bytes.clone();
        let mut other = Machine::new(image, USUAL, 4);
        let got = other.read(b"f").unwrap();
        assert!(got.len() == 20_000 * (round as usize + 1) && got.ends_with(&bytes));
    }
}

#[test]
fn appending_writes_that_wait_stay_in_one_piece() {
    let shape = Shape {
        frames: 120,
        most_requests: 2,
        ..USUAL
    };
    let mut machine = Machine::new(make(4096, 32, &[], None), shape, 5);
    let flags = o::CREAT | o::WRONLY | o::APPEND;
    let one = machine.open_file(b"f", flags, 0o644).unwrap();
    let two = machine.open_file(b"f", flags, 0o644).unwrap();
    let (a, b) = (vec![b'a'; 900_000], vec![b'b'; 900_001]);
    let first = machine.bench.send(one, &[fs::WRITE, POSITION], &a, 0);
    let second = machine.bench.send(two, &[fs::WRITE, POSITION], &b, 0);
    assert!(machine.bench.answer(first).is_none(), "it has to wait");
    assert_eq!(machine.finish(first).result(), 900_000);
    assert_eq!(machine.finish(second).result(), 900_001);
    assert_eq!(machine.result(one, &[fs::SEEK, 0, 1], b""), 900_000);
    let got = machine.read(b"f").unwrap();
    assert!(got == [a, b].concat());
    // Who is gone in the middle keeps nobody from the file.
    let third = machine
        .bench
        .send(one, &[fs::WRITE, POSITION], &[b'c'; 900_000], 0);
    machine.bench.die(third);
    assert_eq!(machine.write_at(two, POSITION, b"end"), 3);
    machine.bench.close(one);
    machine.bench.close(two);
    must_be_clean(&machine.close());
}

#[test]
fn requests_go_on_when_their_callers_are_interrupted() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 6);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(machine.write_at(file, 0, &[7; 10_000]), 10_000);
    machine.bench.close(file);
    let mut machine = Machine::new(machine.close(), USUAL, 7);
    let file = machine.open_file(b"f", o::RDONLY, 0).unwrap();
    let token = machine.bench.send(file, &[fs::READ, 0], b"", 10_000);
    machine.bench.interrupt(token);
    assert!(machine.bench.answer(token).is_none());
    let answer = machine.finish(token);
    assert!(answer.result() == 10_000 && answer.data == [7; 10_000]);
}

#[test]
fn a_rename_between_two_open_directories_may_wait() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 8);
    for dir in [b"one", b"two"] {
        assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], dir), 0);
    }
    let file = machine
        .open_file(b"one/f", o::CREAT | o::RDWR, 0o644)
        .unwrap();
    machine.bench.close(file);
    let mut machine = Machine::new(machine.close(), USUAL, 9);
    let dir = o::RDONLY | o::DIRECTORY;
    let one = machine.open_file(b"one", dir, 0).unwrap();
    let two = machine.open_file(b"two", dir, 0).unwrap();
    let portal = 77;
    machine.bench.fake.own.insert(portal, two);
    let words = [fs::RENAME, 0, 0, 0, 0, 0, 0, portal as u64];
    let token = machine.bench.send(one, &words, b"f\0g", 4096);
    assert!(machine.bench.answer(token).is_none(), "blocks are missing");
    // The portal goes when the request runs for the first time.
    machine.bench.fake.own.remove(&portal);
    assert_eq!(machine.finish(token).result(), 0);
    assert_eq!(machine.read(b"two/g"), Ok(vec![]));
    machine.bench.close(one);
    machine.bench.close(two);
    must_be_clean(&machine.close());
}

#[test]
fn data_and_holes_are_told_before_and_after_they_are_written() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 10);
    let file = machine.open_file(b"f", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(machine.write_at(file, 100_000, b"x"), 1);
    assert_eq!(machine.result(file, &[fs::TRUNCATE, 200_000], b""), 0);
    for _ in 0..2 {
        let data =
            |machine: &mut Machine, from, what| machine.result(file, &[fs::SEEK, from, what], b"");
        assert_eq!(data(&mut machine, 0, 3), 98_304);
        assert_eq!(data(&mut machine, 0, 4), 0);
        assert_eq!(data(&mut machine, 100_000, 4), 102_400);
        assert_eq!(data(&mut machine, 102_400, 3), -ENXIO);
        assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
    }
    machine.bench.close(file);
    must_be_clean(&machine.close());
}
