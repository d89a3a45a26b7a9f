//! Sealed files.

use super::*;
use cairn_idl::fs::seal;

const P: u64 = PAGE as u64;

fn sealable(b: &mut Fs) -> u64 {
    let flags = o::TMPFILE | o::RDWR | fs::SEALABLE;
    b.open(b"", flags, 0o777).unwrap()
}

fn add(b: &mut Fs, file: u64, seals: u64) -> i64 {
    b.result(file, &[fs::IOCTL, fs::ADD_SEALS, seals], b"")
}

fn seals(b: &mut Fs, file: u64) -> i64 {
    b.result(file, &[fs::IOCTL, fs::GET_SEALS], b"")
}

fn truncate(b: &mut Fs, file: u64, size: u64) -> i64 {
    b.result(file, &[fs::TRUNCATE, size], b"")
}

fn allocate(b: &mut Fs, file: u64, mode: u64, at: u64, length: u64) -> i64 {
    b.result(file, &[fs::ALLOCATE, mode, at, length], b"")
}

fn map(b: &mut Fs, file: u64, writable: bool) -> i64 {
    b.result(file, &[fs::MMAP, 0, 2 * P, writable.into()], b"")
}

#[test]
fn only_what_was_made_for_it_can_be_sealed() {
    let mut b = fs_();
    let named = create(&mut b, b"a");
    let plain = b.open(b"", o::TMPFILE | o::RDWR, 0o777).unwrap();
    let dir = b.open(b"", o::DIRECTORY, 0).unwrap();
    // The bit means nothing where nothing is made.
    let again = b.open(b"a", o::RDWR | fs::SEALABLE, 0).unwrap();
    let made = b.open(b"b", o::CREAT | o::RDWR | fs::SEALABLE, 0o600);
    for file in [named, plain, again, made.unwrap()] {
        assert_eq!(seals(&mut b, file), seal::SEAL as i64);
        assert_eq!(add(&mut b, file, seal::WRITE), -EPERM);
    }
    assert_eq!(seals(&mut b, dir), -EINVAL);
    let file = sealable(&mut b);
    assert_eq!(
        b.result(file, &[fs::GETFLAGS], b"") as u64 & fs::SEALABLE,
        0
    );
    assert_eq!(seals(&mut b, file), 0);
    assert_eq!(add(&mut b, file, 1 << 5), -EINVAL);
    assert_eq!(add(&mut b, file, seal::GROW | 1 << 40), -EINVAL);
    assert_eq!(add(&mut b, file, seal::GROW), 0);
    assert_eq!(add(&mut b, file, seal::SHRINK | seal::SEAL), 0);
    assert_eq!(add(&mut b, file, seal::WRITE), -EPERM);
    assert_eq!(seals(&mut b, file), 7);
    // A program's ioctl(2) does not reach it.
    let from_a_program = fs::GET_SEALS & 0xffff_ffff;
    assert_eq!(b.result(file, &[fs::IOCTL, from_a_program], b""), -ENOTTY);
}

#[test]
fn a_reader_cannot_seal() {
    let mut b = fs_();
    let file = create(&mut b, b"a");
    let reader = b.open(b"a", o::RDONLY, 0).unwrap();
    assert_eq!(add(&mut b, reader, seal::WRITE), -EPERM);
    assert_eq!(seals(&mut b, reader), 1);
    b.close(file);
}

#[test]
fn each_seal_keeps_what_it_says() {
    let mut b = fs_();
    let file = sealable(&mut b);
    assert_eq!(write_at(&mut b, file, 0, &[b'x'; PAGE + 10]), P as i64 + 10);
    assert_eq!(add(&mut b, file, seal::SHRINK), 0);
    assert_eq!(truncate(&mut b, file, P), -EPERM);
    assert_eq!(truncate(&mut b, file, P + 10), 0);
    assert_eq!(truncate(&mut b, file, P + 20), 0);
    assert_eq!(add(&mut b, file, seal::GROW), 0);
    assert_eq!(truncate(&mut b, file, P + 21), -EPERM);
    assert_eq!(allocate(&mut b, file, 0, P, 21), -EPERM);
    assert_eq!(allocate(&mut b, file, 0, P, 20), 0);
    // As far as whole pages go; in the last one to its end.
    assert_eq!(write_at(&mut b, file, P, &[b'y'; 20]), 20);
    assert_eq!(write_at(&mut b, file, P, &[b'z'; 21]), -EPERM);
    assert_eq!(write_at(&mut b, file, P - 4, &[b'z'; 25]), 4);
    assert_eq!(write_at(&mut b, file, 9 * P, b"z"), -EPERM);
    assert_eq!(
        read_at(&mut b, file, P - 5, 100),
        [&b"xzzzz"[..], &[b'y'; 20]].concat()
    );
    assert_eq!(allocate(&mut b, file, 3, 0, P), 0);
    assert_eq!(map(&mut b, file, true), 2);
    assert_eq!(add(&mut b, file, seal::FUTURE_WRITE), 0);
    assert_eq!(map(&mut b, file, true), -EPERM);
    assert_eq!(map(&mut b, file, false), 2);
    assert_eq!(allocate(&mut b, file, 3, 0, P), -EPERM);
    assert_eq!(write_at(&mut b, file, 0, b"z"), -EPERM);
    assert_eq!(read_at(&mut b, file, 0, 2), [0, 0]);
}

/// A long file that was mapped gets new pages in pieces before it is sealed. Who maps it again meanwhile begins it anew.
#[test]
fn others_are_served_while_a_long_file_is_sealed() {
    const PAGES: u64 = 700;
    for again in [false, true] {
        let mut b = fs_();
        let (file, other) = (sealable(&mut b), create(&mut b, b"other"));
        let bytes = vec![b'x'; PAGES as usize * PAGE];
        assert_eq!(write_at(&mut b, file, 0, &bytes), bytes.len() as i64);
        let mapped = call_in_pieces(&mut b, file, &[fs::MMAP, 0, P, 1]);
        assert_eq!(mapped.result(), PAGES as i64);
        let before = b.server.pool.memory().objects[0].0.clone();
        let token = b.send(file, &[fs::IOCTL, fs::ADD_SEALS, seal::WRITE], b"", 0);
        let mut pauses = 0;
        let answer = loop {
            if let Some(answer) = b.answer(token) {
                break answer;
            }
            pauses += 1;
            assert_eq!(write_at(&mut b, other, 0, b"meanwhile"), 9);
            assert_eq!(seals(&mut b, file), 0);
            if again && pauses == 5 {
                let mapped = call_in_pieces(&mut b, file, &[fs::MMAP, 0, P, 1]);
                assert_eq!(mapped.result(), PAGES as i64);
            }
            b.time_out();
        };
        assert_eq!(answer.result(), 0);
        assert_eq!(pauses > 11, again, "{pauses}");
        assert_eq!(write_at(&mut b, file, 0, b"z"), -EPERM);
        let mapped = call_in_pieces(&mut b, file, &[fs::MMAP, 0, P, 0]);
        assert_eq!(mapped.result(), PAGES as i64);
        let objects = &b.server.pool.memory().objects;
        let now = &objects.last().unwrap().0;
        assert!(now.iter().all(|page| !before.contains(page)));
        assert_eq!(read_at(&mut b, file, 0, bytes.len()), bytes);
    }
}

#[test]
fn who_could_write_keeps_a_file_from_being_sealed() {
    let mut b = fs_();
    let file = sealable(&mut b);
    assert_eq!(write_at(&mut b, file, 0, &[b'x'; 2 * PAGE]), 2 * P as i64);
    assert_eq!(map(&mut b, file, true), 2);
    b.server.pool.memory().mapped = Some(Portal(501));
    assert_eq!(add(&mut b, file, seal::WRITE | seal::GROW), -EBUSY);
    assert_eq!(seals(&mut b, file), 0);
    // Not mapped any more, but the object could be kept, and the pages lent.
    b.server.pool.memory().mapped = None;
    let before = b.server.pool.memory().objects[0].0.clone();
    assert_eq!(map(&mut b, file, false), 2);
    b.server.pool.memory().busy = true;
    assert_eq!(add(&mut b, file, seal::WRITE), -EBUSY);
    b.server.pool.memory().busy = false;
    let used = b.server.pool.usage().0;
    assert_eq!(add(&mut b, file, seal::WRITE), 0);
    let objects = &b.server.pool.memory().objects;
    assert!(objects[0].0.is_empty(), "what was kept has pages");
    assert!(objects[1].0.iter().all(|page| !before.contains(page)));
    assert_eq!(b.server.pool.usage().0, used);
    assert_eq!(read_at(&mut b, file, 0, 9 * PAGE), [b'x'; 2 * PAGE]);
    assert_eq!(map(&mut b, file, true), -EPERM);
    assert_eq!(write_at(&mut b, file, 0, b"z"), -EPERM);
    assert_eq!(truncate(&mut b, file, 0), 0, "it may still shrink");
    b.close(file);
    assert_eq!(b.server.pool.usage().0, 0);
}
