//! Who pays for nodes, names and pages.

use super::*;

const USERS: [u32; 3] = [0, 1000, 1001];

fn become_user(b: &mut Fs, uid: u32) {
    b.label = label::make(uid, uid);
    if uid == 0 {
        b.label |= label::ACCESS | label::OWNER | label::SYSTEM;
    }
}

fn open_to_all(data: usize, limit: usize) -> Fs {
    let mut b = with_archive(Vec::new(), data, limit);
    assert_eq!(b.result(0, &[fs::CHMOD, 0o777], b""), 0);
    b
}

#[test]
fn users_leave_room_to_user_0() {
    let mut b = open_to_all(256, 64);
    b.server.pool.leave_to_root(4);
    become_user(&mut b, 1000);
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, &[1; 100 * PAGE]), 60 * PAGE as i64);
    assert_eq!(write_at(&mut b, f, POSITION, b"over"), 4, "over old data");
    let behind = 60 * PAGE as u64;
    assert_eq!(write_at(&mut b, f, behind, b"x"), -ENOSPC);
    assert_eq!(b.result(f, &[fs::ALLOCATE, 0, behind, 1], b""), -ENOSPC);
    become_user(&mut b, 1001);
    let g = b.open(b"g", o::CREAT | o::RDWR, 0o666).unwrap();
    assert_eq!(write_at(&mut b, g, 0, b"x"), -ENOSPC);
    become_user(&mut b, 0);
    assert_eq!(write_at(&mut b, g, 0, &[1; 3 * PAGE]), 3 * PAGE as i64);
    assert_eq!(
        write_at(&mut b, g, 3 * PAGE as u64, &[1; 2 * PAGE]),
        PAGE as i64
    );
}

#[test]
fn what_a_user_may_not_have_is_refused_before_anything_changes() {
    let mut b = open_to_all(4096, 4096);
    b.fake.charge_limit = Some(64);
    become_user(&mut b, 1000);
    let f = create(&mut b, b"f");
    let taken = write_at(&mut b, f, 0, &[1; 100 * PAGE]);
    assert!((40..64).contains(&(taken / PAGE as i64)), "{taken}");
    let mut index = taken as u64 / PAGE as u64 + 1;
    while write_at(&mut b, f, index * PAGE as u64, b"x") == 1 {
        index += 1;
    }
    // What is left does for some names.
    let long = [b'l'; 200];
    let mut made = 0;
    let refused = loop {
        let name = [&long[..], format!("{made}").as_bytes()].concat();
        match symlink(&mut b, &long[..100], &name) {
            0 => made += 1,
            refused => break refused,
        }
    };
    assert!(made < 200 && refused < 0, "{made} {refused}");
    // And what does not do for those, for short ones.
    let mut short = 0;
    while symlink(&mut b, b"s", format!("{short}").as_bytes()) == 0 {
        short += 1;
    }
    assert!(short < 3, "{short}");
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), -ENOSPC);
    assert_eq!(b.result(0, &[fs::STAT, 0], b"d"), -ENOENT);
    become_user(&mut b, 1001);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    // Room comes back, whoever makes it.
    become_user(&mut b, 0);
    assert_eq!(b.result(f, &[fs::TRUNCATE, 0], b""), 0);
    become_user(&mut b, 1000);
    assert_eq!(write_at(&mut b, f, 0, &[1; 9 * PAGE]), 9 * PAGE as i64);
}

/// Whatever is done, by whom and with which refusals: each user is charged for what there is of his.
#[test]
fn charges_and_refunds_are_even() {
    let mut random = 31u64;
    let mut next = move |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % most
    };
    let mut b = open_to_all(2048, 500);
    b.server.pool.leave_to_root(20);
    let mut open = Vec::new();
    for step in 0..30_000u64 {
        become_user(&mut b, USERS[next(3) as usize]);
        b.fake.charge_limit = [None, Some(60), Some(200), Some(20)][(step / 700 % 4) as usize];
        let mut name = || match next(4) {
            0 => format!("a-name-that-has-no-room-in-an-entry-{}", next(12)),
            1 => format!("d{}/n{}", next(3), next(9)),
            2 => format!("d{}", next(3)),
            _ => format!("n{}", next(20)),
        };
        let (one, other) = (name(), name());
        let (one, other) = (one.as_bytes(), other.as_bytes());
        match next(16) {
            0..3 => open.extend(b.open(one, o::CREAT | o::RDWR, 0o666)),
            3 => open.extend(b.open(b"", o::TMPFILE | o::RDWR, 0o666)),
            4 => drop(b.result(0, &[fs::MKDIR, 0o777], one)),
            5 => drop(symlink(&mut b, one, other)),
            6 => drop(b.result(0, &[fs::LINK, 0], &two(one, other))),
            7 => drop(rename(&mut b, one, other, [0, 0, 2][next(3) as usize])),
            8 => drop(b.result(0, &[fs::UNLINK, 0], one)),
            9 => drop(b.result(0, &[fs::UNLINK, at::REMOVEDIR], one)),
            14 | 15 => {
                let attribute = match next(8) {
                    0 => "security.capability".to_string(),
                    n => format!("user.{n}"),
                };
                let value = match (next(3), attribute.len()) {
                    (0, 19) => [&[0, 0, 0, 2][..], &[0; 16]].concat(),
                    (size, _) => vec![b'v'; size as usize * 700],
                };
                let out = [&two(one, attribute.as_bytes())[..], b"\0", &value].concat();
                b.result(0, &[fs::XATTR, [1, 1, 3][next(3) as usize], 0], &out);
            }
            _ if open.is_empty() => {}
            what => {
                let place = next(open.len() as u64) as usize;
                let (file, at) = (open[place], next(40) * PAGE as u64);
                let bytes = vec![1; next(9000) as usize];
                match what {
                    10 => drop(write_at(&mut b, file, at, &bytes)),
                    11 if next(2) == 0 => {
                        b.result(
                            file,
                            &[fs::ALLOCATE, [0, 3][next(2) as usize], at, 30_000],
                            b"",
                        );
                    }
                    11 => drop(b.result(file, &[fs::TRUNCATE, at], b"")),
                    12 => {
                        b.fake.unreadable = next(2) == 0;
                        write_at(&mut b, file, at, &bytes);
                        b.fake.unreadable = false;
                    }
                    _ => b.close(open.swap_remove(place)),
                }
            }
        }
        if step % 16 == 0 {
            for uid in &USERS[1..] {
                let there = b.server.charged_to(*uid) as u64;
                let handles = b.manager.usage_of_handles(*uid);
                assert_eq!(b.manager.usage(*uid).0, there + handles, "step {step}");
            }
        }
    }
    open.into_iter().for_each(|file| b.close(file));
    let used = USERS.map(|uid| b.manager.usage(uid).0);
    assert!(used[1] > 0 && used[2] > 0, "{used:?}");
}

/// A long file goes in pieces, when nobody waits. What it had counts as free at once, and is free for whoever wants it.
#[test]
fn a_long_file_goes_in_pieces() {
    const LONG: u64 = 1500;
    let length = LONG * PAGE as u64;
    for (name, shared) in [(&b"private"[..], false), (b"mapped", true)] {
        let mut b = open_to_all(4096, 2048);
        become_user(&mut b, 1000);
        let f = create(&mut b, name);
        assert_eq!(
            write_at(&mut b, f, 0, &vec![7; length as usize]),
            length as i64
        );
        if shared {
            let map = [fs::MMAP, 0, PAGE as u64, 0];
            assert_eq!(call_in_pieces(&mut b, f, &map).result(), LONG as i64);
        }
        // First some of it, from the middle of a leaf, then the rest.
        for (left, ends) in [(700, None), (0, Some(()))] {
            let before = (b.server.pool.usage().0, b.server.charged_to(1000));
            match ends {
                None => assert_eq!(b.result(f, &[fs::TRUNCATE, left * PAGE as u64], b""), 0),
                Some(()) => {
                    assert_eq!(unlink(&mut b, name), 0);
                    b.close(f);
                }
            }
            assert_eq!(b.server.pool.usage().0 as u64, left);
            assert_eq!(before.1 / PAGE, before.0, "nodes are small");
            if ends.is_none() {
                assert_eq!(b.server.charged_to(1000), before.1);
            }
            let mut pieces = 0;
            let mut charged = b.server.charged_to(1000);
            while b.background() {
                pieces += 1;
                let now = b.server.charged_to(1000);
                assert!(charged - now <= 33 * PAGE, "{charged} {now}");
                charged = now;
            }
            let gone = before.0 - left as usize;
            assert!(pieces >= gone / 32 - 1, "{pieces} for {gone}");
            assert_eq!(b.server.pool.usage().0 as u64, left);
            assert_eq!(b.server.charged_to(1000) / PAGE, left as usize);
        }
        kept::audit(&b);
    }
}

/// Who needs what is being given back gets it: there is room, the account allows it, there is memory.
#[test]
fn what_is_being_given_back_can_be_had() {
    const LONG: usize = 1000;
    for way in 0..3 {
        let mut b = open_to_all(4096, if way == 0 { 1024 } else { 4096 });
        become_user(&mut b, 1000);
        let f = create(&mut b, b"f");
        assert_eq!(
            write_at(&mut b, f, 0, &vec![7; LONG * PAGE]),
            (LONG * PAGE) as i64
        );
        b.fake.charge_limit = (way == 1).then_some(1024);
        b.server.pool.memory().exhausted = way == 2;
        let g = create(&mut b, b"g");
        let there = write_at(&mut b, g, 0, &vec![8; LONG * PAGE]) / PAGE as i64;
        assert!(there < 100, "{way}: {there}");
        assert_eq!(b.result(f, &[fs::TRUNCATE, 0], b""), 0);
        // A name, a node and an attribute are charged as well.
        assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
        let mut at = 0;
        while at < LONG * PAGE {
            let words = [fs::WRITE, at as u64];
            match b.call(g, &words, &vec![9; LONG * PAGE - at], 0) {
                Some(answer) => {
                    assert!(answer.result() > 0, "{way}: {}", answer.result());
                    at += answer.result() as usize;
                }
                None => unreachable!("{way}: it waits although there is enough for a page"),
            }
        }
        while b.background() {}
        assert_eq!(b.server.charged_to(1000) / PAGE, LONG);
        kept::audit(&b);
    }
}

/// Where there can be no thread for it all goes at once.
#[test]
fn without_a_thread_it_goes_at_once() {
    let mut b = open_to_all(4096, 4096);
    b.fake.no_background = true;
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, &[7; 200 * PAGE]), 200 * PAGE as i64);
    assert_eq!(b.result(f, &[fs::TRUNCATE, 3], b""), 0);
    assert!(!b.server.pool.has_ended());
    assert_eq!(b.server.pool.usage().0, 1);
}
