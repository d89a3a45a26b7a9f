//! Leases: who may have them, who waits for their end, and when they end.

use super::*;
use cairn_idl::event::TELL;
use cairn_idl::fs::{poll, LEASE, LEASE_SECONDS};

const SET: u64 = 1;

fn set(b: &mut Fs, file: u64, kind: u64) -> i64 {
    b.result(file, &[LEASE, SET, kind, 7], b"")
}

/// How often the holder was told.
fn breaks(b: &mut Fs) -> usize {
    let all = b.fake.told.drain(..);
    all.filter(|words| words[..2] == [TELL, 7] && words[3] == poll::MSG)
        .count()
}

fn open_later(b: &mut Fs, flags: u64) -> u64 {
    b.send(0, &[fs::OPEN, flags, 0], b"f", fs::PATH_MAX)
}

#[test]
fn who_opens_waits_until_the_lease_is_given_up_or_its_time_is_over() {
    let mut b = fs_();
    put(&mut b, b"f", b"text");
    let file = b.open(b"f", o::RDONLY, 0).unwrap();
    assert_eq!(set(&mut b, file, 2), -EAGAIN);
    assert_eq!(set(&mut b, file, 3), -EINVAL);
    assert_eq!(set(&mut b, file, 1), 0);
    let refused = b.open(b"f", o::RDONLY | o::NONBLOCK, 0);
    assert_eq!((refused, breaks(&mut b)), (Err(-EAGAIN), 1));
    let reader = open_later(&mut b, o::RDONLY);
    assert_eq!((b.answer(reader).is_none(), breaks(&mut b)), (true, 0));
    assert_eq!(set(&mut b, file, 0), 0, "a read lease is not in its way");
    let opened = b.answer(reader).unwrap().minted[0];
    assert_eq!(set(&mut b, file, 1), -EAGAIN, "somebody else has it open");
    b.close(opened);
    let writer = open_later(&mut b, o::WRONLY);
    assert_eq!((b.answer(writer).is_none(), breaks(&mut b)), (true, 1));
    assert_eq!(set(&mut b, file, 0), -EAGAIN, "somebody waits to write");
    b.interrupt(writer);
    assert_eq!(b.answer(writer).unwrap().result(), -EINTR);
    let cut = b.send(0, &[fs::TRUNCATE, 0], b"f", fs::PATH_MAX);
    assert!(b.answer(cut).is_none());
    b.fake.time += LEASE_SECONDS * 1_000_000_000;
    b.time_out();
    assert_eq!(b.answer(cut).unwrap().result(), 0);
    assert_eq!(b.result(file, &[LEASE, 0], b""), 2);
}

#[test]
fn leases_are_the_owners_and_go_with_the_file() {
    let mut b = fs_();
    put(&mut b, b"f", b"text");
    let file = b.open(b"f", o::RDONLY, 0).unwrap();
    assert_eq!(set(&mut b, file, 0), 0);
    let writer = open_later(&mut b, o::WRONLY);
    assert!(b.answer(writer).is_none());
    b.close(file);
    let opened = b.answer(writer).unwrap().minted[0];
    b.close(opened);
    let file = b.open(b"f", o::RDONLY, 0).unwrap();
    b.fake.event_answer = -ESTALE;
    assert_eq!(
        set(&mut b, file, 0),
        -ESTALE,
        "an interest that is not there"
    );
    b.fake.event_answer = 0;
    b.label = label::make(1000, 1000);
    assert_eq!(set(&mut b, file, 0), -EACCES);
}
