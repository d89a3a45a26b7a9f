//! Who marks a file hears what happens to it, and nothing is kept for who does not hear any more.

use super::*;
use cairn_idl::event::{ALL_EVENTS, EVENTS_SHIFT, MARKED, MARKS};

/// The event server's answer to MARKED: this watch, these events.
fn answer(watch: i64, events: u64) -> i64 {
    watch | (events << EVENTS_SHIFT) as i64
}

fn mark(b: &mut Fs, path: &[u8], number: u64, events: u64) -> i64 {
    b.fake.event_answer = answer(number as i64, events);
    let result = b.result(0, &[fs::MARK, number, 0, 0], path);
    b.fake.event_answer = 0;
    result
}

/// Mark, events (without the cookie) and name of what was told.
fn told(b: &mut Fs) -> Vec<(u64, u64, String)> {
    let all = b.fake.noticed.drain(..);
    all.map(|(mark, events, name)| (mark, events as u32 as u64, String::from_utf8(name).unwrap()))
        .collect()
}

fn one(mark: u64, events: u64, name: &str) -> (u64, u64, String) {
    (mark, events, name.into())
}

#[test]
fn a_directory_hears_of_what_is_in_it_and_a_file_of_itself() {
    let mut b = fs_();
    // (A read that is made again is told of again.)
    b.cold = false;
    mkdir(&mut b, b"d");
    put(&mut b, b"d/f", b"text");
    assert_eq!(mark(&mut b, b"d", 1, ALL_EVENTS), 1);
    assert_eq!(mark(&mut b, b"d/f", 2, ALL_EVENTS), 2);
    assert_eq!(told(&mut b), []);
    let file = b.open(b"d/f", o::RDWR, 0).unwrap();
    assert_eq!(told(&mut b), [one(1, 0x20, "f"), one(2, 0x20, "")]);
    read_at(&mut b, file, 0, 2);
    read_at(&mut b, file, 100, 2);
    assert_eq!(told(&mut b), [one(1, 1, "f"), one(2, 1, "")]);
    write_at(&mut b, file, 0, b"x");
    assert_eq!(told(&mut b), [one(1, 2, "f"), one(2, 2, "")]);
    rename(&mut b, b"d/f", b"d/g", 0);
    let moved = [one(1, 0x40, "f"), one(1, 0x80, "g"), one(2, 0x800, "")];
    assert_eq!(told(&mut b), moved);
    unlink(&mut b, b"d/g");
    assert_eq!(told(&mut b), [one(2, 4, ""), one(1, 0x200, "g")]);
    b.close(file);
    let end = [one(2, 8, ""), one(2, 0x400, ""), one(2, 0x8000, "")];
    assert_eq!(told(&mut b), end, "the last that had it");
    assert_eq!(rmdir(&mut b, b"d"), 0);
    assert_eq!(told(&mut b), [one(1, 0x400, ""), one(1, 0x8000, "")]);
    mkdir(&mut b, b"d");
    assert_eq!(told(&mut b), [], "another one by that name");
}

#[test]
fn a_marked_file_without_a_name_goes_with_its_marks() {
    let mut b = fs_();
    b.result(0, &[fs::CHMOD, 0o777, 0], b"");
    b.label = 1000;
    put(&mut b, b"f", &[1; 50_000]);
    assert_eq!(mark(&mut b, b"f", 1, ALL_EVENTS), 1);
    unlink(&mut b, b"f");
    assert_eq!(told(&mut b).last(), Some(&one(1, 0x8000, "")));
    assert_eq!(b.manager.usage(1000).0, 0);
}

#[test]
fn only_who_may_read_marks_and_the_event_server_has_the_last_word() {
    let mut b = fs_();
    create(&mut b, b"secret");
    b.result(0, &[fs::CHMOD, 0o600, 0], b"secret");
    b.result(0, &[fs::CHMOD, 0o777, 0], b"");
    b.label = 1000;
    assert_eq!(mark(&mut b, b"secret", 1, ALL_EVENTS), -EACCES);
    assert_eq!(mark(&mut b, b"nosuch", 1, ALL_EVENTS), -ENOENT);
    put(&mut b, b"mine", b"w");
    let folder = [fs::MARK, 1, 0, 1];
    assert_eq!(b.result(0, &folder, b"mine"), -ENOTDIR);
    b.fake.event_answer = -EPERM;
    assert_eq!(b.result(0, &[fs::MARK, 1, 0, 0], b"mine"), -EPERM);
    b.fake.event_answer = 0;
    let before = b.manager.usage(1000).0;
    assert_eq!(mark(&mut b, b"mine", 1, 2), 1);
    assert!(b.manager.usage(1000).0 > before);
    // It says that the mark is gone.
    b.fake.event_answer = -ESTALE;
    put(&mut b, b"mine", b"x");
    b.fake.event_answer = 0;
    told(&mut b);
    put(&mut b, b"mine", b"y");
    assert_eq!(told(&mut b), []);
    assert_eq!(b.manager.usage(1000).0, before);
}

#[test]
fn marks_of_closed_queues_do_not_gather() {
    let mut b = fs_();
    b.result(0, &[fs::CHMOD, 0o777, 0], b"");
    b.label = 1000;
    let mut most = 0;
    for number in 1..=2000 {
        let name = format!("f{}", number % 500).into_bytes();
        create(&mut b, &name);
        // (MARKS is answered so, too: of six marks none is there.)
        b.fake.event_answer = answer(64, 1);
        assert_eq!(b.result(0, &[fs::MARK, number, 0, 0], &name), 64);
        most = most.max(b.manager.usage(1000).0);
    }
    assert!(most < 500_000, "{most}");
    b.fake.event_answer = -ESTALE;
    for number in 0..500 {
        put(&mut b, format!("f{number}").as_bytes(), b"x");
    }
    let asked = |operation: u64| {
        b.fake
            .told
            .iter()
            .filter(|words| words[0] == operation)
            .count()
    };
    assert_eq!(asked(MARKED), 2000);
    assert!(asked(MARKS) < 6000);
}
