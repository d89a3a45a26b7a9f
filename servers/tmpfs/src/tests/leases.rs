//! Leases: who may have them, who waits for their end, and when they end.

use super::*;
use cairn_idl::event::LEASE_SECONDS;
use cairn_idl::event::TELL;
use cairn_idl::fs::{poll, LEASE};

const SET: u64 = 1;

fn set(b: &mut Fs, file: u64, kind: u64) -> i64 {
    b.result(file, &[LEASE, SET, kind, 7], b"")
}

/// With the interest that it has.
fn change(b: &mut Fs, file: u64, kind: u64) -> i64 {
    b.result(file, &[LEASE, SET, kind, 0], b"")
}

fn get(b: &mut Fs, file: u64) -> i64 {
    b.result(file, &[LEASE, 0], b"")
}

/// So many read leases of one file.
fn many(b: &mut Fs, count: usize) -> Vec<u64> {
    put(b, b"f", b"text");
    let files = (0..count).map(|_| {
        let file = b.open(b"f", o::RDONLY, 0).unwrap();
        assert_eq!(set(b, file, 0), 0);
        file
    });
    files.collect()
}

fn pass(b: &mut Fs, seconds: u64) {
    b.fake.time += seconds * 1_000_000_000;
    b.time_out();
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
    let short = b.send(0, &[fs::OPEN, o::WRONLY, 0], b"f", 0);
    assert!(
        b.answer(short).is_some(),
        "a request that cannot wait is to be made again"
    );
    assert_eq!(
        (breaks(&mut b), get(&mut b, file)),
        (0, 0),
        "the holder hears of it once somebody waits"
    );
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

#[test]
fn a_lease_that_changes_tells_as_before() {
    let mut b = fs_();
    put(&mut b, b"f", b"text");
    let file = b.open(b"f", o::RDONLY, 0).unwrap();
    assert_eq!(change(&mut b, file, 0), -ESTALE, "it has no interest yet");
    assert_eq!(set(&mut b, file, 0), 0);
    b.fake.event_answer = -ESTALE;
    assert_eq!(change(&mut b, file, 1), 0);
    assert_eq!(b.open(b"f", o::RDONLY | o::NONBLOCK, 0), Err(-EAGAIN));
    assert_eq!((get(&mut b, file), breaks(&mut b)), (0, 1));
    let rename = |b: &mut Fs| b.result(file, &[LEASE, 2, 0, 9], b"");
    assert_eq!(rename(&mut b), -ESTALE);
    b.fake.event_answer = 0;
    assert_eq!(rename(&mut b), 0);
    assert_eq!(b.open(b"f", o::WRONLY | o::NONBLOCK, 0), Err(-EAGAIN));
    assert_eq!(breaks(&mut b), 0);
    assert!(b.fake.told.is_empty());
    assert_eq!(get(&mut b, file), 2);
}

#[test]
fn only_regular_files_have_leases_and_names_alone_none() {
    let mut b = fs_();
    put(&mut b, b"f", b"text");
    b.result(0, &[fs::MKDIR, 0o755], b"d");
    let folder = b.open(b"d", o::RDONLY | o::DIRECTORY, 0).unwrap();
    assert_eq!(set(&mut b, folder, 0), -EINVAL);
    let named = b.open(b"f", o::PATH, 0).unwrap();
    assert_eq!(
        (set(&mut b, named, 0), get(&mut b, named)),
        (-EBADF, -EBADF)
    );
    let file = b.open(b"f", o::RDWR, 0).unwrap();
    assert_eq!(set(&mut b, file, 0), -EAGAIN, "it is open for writing");
    assert_eq!(set(&mut b, file, 1), 0, "a name alone is no opening");
    b.open(b"f", o::PATH, 0).unwrap();
    assert_eq!(b.result(file, &[fs::TRUNCATE, 2], b""), 0);
    assert_eq!((get(&mut b, file), breaks(&mut b)), (1, 0));
}

#[test]
fn of_many_leases_each_holder_is_told_once_and_the_last_one_lets_the_opener_go_on() {
    let mut b = fs_();
    let files = many(&mut b, 1000);
    let reader = b.open(b"f", o::RDONLY, 0).unwrap();
    b.close(reader);
    assert_eq!(breaks(&mut b), 0);
    let writers = [(); 3].map(|()| open_later(&mut b, o::WRONLY));
    assert_eq!(breaks(&mut b), 1000);
    let new = b.open(b"f", o::RDONLY, 0).unwrap();
    assert_eq!(set(&mut b, new, 0), -EAGAIN, "it is asked for");
    b.close(new);
    // An opener dies, one is interrupted; holders die and give up.
    b.die(writers[0]);
    b.interrupt(writers[1]);
    assert_eq!(b.answer(writers[1]).unwrap().result(), -EINTR);
    let (last, others) = files.split_last().unwrap();
    for (at, file) in others.iter().enumerate() {
        match at % 2 {
            0 => b.close(*file),
            _ => assert_eq!(set(&mut b, *file, 2), 0),
        }
        assert!(b.answer(writers[2]).is_none());
    }
    assert_eq!(get(&mut b, *last), 2);
    b.close(*last);
    assert_eq!(b.answer(writers[2]).unwrap().result(), 0);
    assert_eq!(breaks(&mut b), 0);
}

#[test]
fn the_time_of_many_leases_is_over_at_once_and_an_opener_that_died_changes_nothing() {
    let mut b = fs_();
    let files = many(&mut b, 1000);
    let dead = open_later(&mut b, o::WRONLY);
    b.die(dead);
    assert_eq!(get(&mut b, files[0]), 2, "it was asked all the same");
    pass(&mut b, LEASE_SECONDS - 1);
    let writer = open_later(&mut b, o::RDWR);
    assert_eq!((breaks(&mut b), b.answer(writer).is_none()), (1000, true));
    pass(&mut b, 1);
    assert_eq!(b.answer(writer).unwrap().result(), 0);
    assert!(files.iter().all(|file| get(&mut b, *file) == 2));
    assert_eq!(set(&mut b, files[0], 2), -EAGAIN, "it is gone");
}

#[test]
fn a_write_lease_that_is_not_given_up_in_time_becomes_a_read_lease() {
    let mut b = fs_();
    put(&mut b, b"f", b"text");
    let file = b.open(b"f", o::RDONLY, 0).unwrap();
    assert_eq!(set(&mut b, file, 1), 0);
    let reader = open_later(&mut b, o::RDONLY);
    pass(&mut b, 10);
    let writer = open_later(&mut b, o::WRONLY);
    assert_eq!((breaks(&mut b), get(&mut b, file)), (2, 2));
    pass(&mut b, LEASE_SECONDS - 10);
    assert_eq!(b.answer(reader).unwrap().result(), 0);
    assert!(b.answer(writer).is_none());
    pass(&mut b, 10);
    assert_eq!(b.answer(writer).unwrap().result(), 0);
}

/// What leases cost is charged to who set them, until they are gone.
#[test]
fn leases_are_paid_for() {
    let mut b = fs_();
    assert_eq!(b.result(0, &[fs::CHMOD, 0o777], b""), 0);
    b.label = label::make(1000, 1000);
    put(&mut b, b"f", b"text");
    let open = |b: &mut Fs| b.open(b"f", o::RDONLY, 0).unwrap();
    let files: Vec<u64> = (0..400).map(|_| open(&mut b)).collect();
    let pages = |b: &Fs| b.fake.charged[&1000];
    let before = pages(&b);
    b.fake.charge_limit = Some(before);
    let refused = files.iter().map(|file| set(&mut b, *file, 0));
    assert_eq!(refused.min(), Some(-ENOMEM));
    b.fake.charge_limit = None;
    let mut most = Vec::new();
    for _ in 0..5 {
        for file in &files {
            assert_eq!(set(&mut b, *file, 0), 0);
        }
        most.push(pages(&b));
        for file in &files {
            assert_eq!(set(&mut b, *file, 2), 0);
        }
    }
    assert!(
        most[0] > before && most == [most[0]; 5],
        "{before} {most:?}"
    );
}

/// With 5,000 leases of one file, other files and other leases cost what they cost without.
#[test]
fn many_leases_are_not_walked() {
    let mut b = fs_();
    let files = many(&mut b, 5000);
    put(&mut b, b"other", b"text");
    assert_eq!(b.open(b"f", o::WRONLY | o::NONBLOCK, 0), Err(-EAGAIN));
    assert_eq!(breaks(&mut b), 5000);
    let begun = std::time::Instant::now();
    for _ in 0..10_000 {
        let other = b.open(b"other", o::WRONLY, 0).unwrap();
        b.close(other);
        let reader = b.open(b"f", o::RDONLY, 0).unwrap();
        assert_eq!(set(&mut b, reader, 0), -EAGAIN);
        b.close(reader);
        let asked_before = b.open(b"f", o::WRONLY | o::NONBLOCK, 0);
        assert_eq!(asked_before, Err(-EAGAIN));
    }
    assert_eq!(breaks(&mut b), 0);
    files.into_iter().for_each(|file| b.close(file));
    // (Some 70,000 operations, without optimisation on a busy machine. Walking 5,000 leases each time takes minutes.)
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn how_long_a_lease_lasts_is_what_the_event_server_says_when_it_is_asked_for() {
    let mut b = fs_();
    put(&mut b, b"f", b"text");
    let file = b.open(b"f", o::RDONLY, 0).unwrap();
    for (said, lasts) in [(Some(3), 3), (Some(-EPERM), LEASE_SECONDS)] {
        b.fake.lease_seconds = said;
        assert_eq!(set(&mut b, file, 0), 0);
        let writer = open_later(&mut b, o::WRONLY);
        pass(&mut b, lasts - 1);
        assert!(b.answer(writer).is_none());
        pass(&mut b, 1);
        let opened = b.answer(writer).unwrap().minted[0];
        b.close(opened);
    }
    // As long as the holder likes; and far beyond what clocks count.
    for said in [0, i64::MAX] {
        b.fake.lease_seconds = Some(said);
        assert_eq!(set(&mut b, file, 0), 0);
        let writer = open_later(&mut b, o::WRONLY);
        pass(&mut b, 1_000_000);
        assert!(b.answer(writer).is_none());
        assert_eq!(set(&mut b, file, 2), 0);
        let opened = b.answer(writer).unwrap().minted[0];
        b.close(opened);
    }
}

/// A server whose deadline lies in the past never waits again.
#[test]
fn no_time_is_left_of_leases_that_were_given_up() {
    for ways in 0..3 {
        let mut b = fs_();
        put(&mut b, b"f", b"text");
        let file = b.open(b"f", o::RDONLY, 0).unwrap();
        assert_eq!(set(&mut b, file, 1), 0);
        let waits = open_later(&mut b, o::WRONLY);
        let end = b.fake.time + LEASE_SECONDS * 1_000_000_000;
        assert_eq!(b.deadline(), Some(end));
        match ways {
            0 => assert_eq!(set(&mut b, file, 2), 0),
            1 => b.close(file),
            _ => pass(&mut b, LEASE_SECONDS),
        }
        assert_eq!(b.answer(waits).unwrap().result(), 0);
        pass(&mut b, LEASE_SECONDS);
        assert_eq!(b.deadline(), None, "{ways}");
    }
}
