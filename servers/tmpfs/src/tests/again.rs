//! Handles that are closed with their portals kept, and opened again through them.

use super::*;
use cairn_idl::fs::{KEPT_LIFE_SHIFT, KEPT_SLOT_SHIFT};

fn close(b: &mut Fs, badge: u64) -> Result<(), i64> {
    let answer = b.call(badge, &[fs::CLOSE], b"", 0).unwrap();
    match answer.result() {
        0 => {
            assert_eq!(answer.words[1], badge);
            Ok(())
        }
        error => Err(error),
    }
}

/// OPEN that names a kept handle: the badge, and whether a portal came.
fn open_again(b: &mut Fs, path: &[u8], flags: u64, kept: u64) -> (u64, bool) {
    let words = [
        fs::OPEN,
        flags | (kept as u32 as u64) << KEPT_SLOT_SHIFT,
        (kept >> 32) << KEPT_LIFE_SHIFT,
    ];
    let answer = b.call(0, &words, path, 0).unwrap();
    assert_eq!(answer.result(), 0);
    match answer.minted.first() {
        Some(badge) => (*badge, true),
        None => (kept, false),
    }
}

fn read(b: &mut Fs, badge: u64) -> Result<Vec<u8>, i64> {
    let answer = b.call(badge, &[fs::READ, POSITION], b"", 100).unwrap();
    match answer.result() {
        0.. => Ok(answer.bytes().to_vec()),
        error => Err(error),
    }
}

fn two_files() -> Fs {
    let mut b = fs_();
    put(&mut b, b"a", b"first");
    put(&mut b, b"b", b"second");
    b
}

#[test]
fn a_kept_portal_leads_to_the_next_file() {
    let mut b = two_files();
    let a = b.open(b"a", o::RDONLY, 0).unwrap();
    assert_eq!(read(&mut b, a), Ok(b"first".to_vec()));
    assert_eq!(close(&mut b, a), Ok(()));
    assert_eq!(read(&mut b, a), Err(-EBADF));
    assert_eq!(close(&mut b, a), Err(-EBUSY));
    assert_eq!(b.manager.open_files(), 0);
    assert_eq!(open_again(&mut b, b"b", o::RDONLY, a), (a, false));
    assert_eq!(read(&mut b, a), Ok(b"second".to_vec()));
    // It is open: nobody can name it.
    let (other, minted) = open_again(&mut b, b"a", o::RDONLY, a);
    assert!(minted && other != a);
    assert_eq!(read(&mut b, other), Ok(b"first".to_vec()));
    b.close(other);
    b.close(a);
    assert_eq!(b.manager.open_files(), 0);
}

#[test]
fn what_others_use_stays_open() {
    let mut b = two_files();
    let a = b.open(b"a", o::RDONLY, 0).unwrap();
    b.sender = 2;
    assert_eq!(close(&mut b, a), Err(-EBUSY));
    assert_eq!(read(&mut b, a), Ok(b"first".to_vec()));
    b.sender = 1;
    assert_eq!(close(&mut b, a), Err(-EBUSY));
    assert_eq!(b.manager.open_files(), 1);
    // Every kind of use counts, also as the place where a path or a second one begins.
    for words in [&[fs::STAT][..], &[fs::GETFLAGS], &[fs::POLL, 1, 0]] {
        let a = b.open(b"a", o::RDONLY, 0).unwrap();
        b.sender = 2;
        b.call(a, words, b"", 4096).unwrap();
        b.sender = 1;
        assert_eq!(close(&mut b, a), Err(-EBUSY));
    }
    b.result(0, &[fs::MKDIR, 0o755], b"d");
    let dir = b.open(b"d", o::RDONLY, 0).unwrap();
    b.sender = 2;
    b.call(dir, &[fs::OPEN, 0, 0], b"nothing", 4096).unwrap();
    b.sender = 1;
    assert_eq!(close(&mut b, dir), Err(-EBUSY));
}

#[test]
fn only_who_kept_it_opens_it_again() {
    let mut b = two_files();
    let a = b.open(b"a", o::RDONLY, 0).unwrap();
    assert_eq!(close(&mut b, a), Ok(()));
    b.sender = 2;
    assert!(open_again(&mut b, b"b", o::RDONLY, a).1);
    b.sender = 1;
    assert!(open_again(&mut b, b"b", o::RDONLY, a + (1 << 32)).1);
    assert!(open_again(&mut b, b"b", o::RDONLY, a + 1).1);
    assert!(open_again(&mut b, b"b", o::RDONLY, a | 0xffff_ffff).1);
    // A failure leaves it kept.
    let words = [
        fs::OPEN,
        (a as u32 as u64) << KEPT_SLOT_SHIFT,
        (a >> 32) << KEPT_LIFE_SHIFT,
    ];
    assert_eq!(b.result(0, &words, b"nothing"), -ENOENT);
    assert_eq!(open_again(&mut b, b"b", o::RDONLY, a), (a, false));
    assert_eq!(close(&mut b, a), Ok(()));
    // The portal is gone: the slot is anybody's, with another generation.
    b.close(a);
    let (new, minted) = open_again(&mut b, b"b", o::RDONLY, a);
    assert!(minted && new != a && new as u32 == a as u32);
}

/// A handle is its opener's until nobody has the portal. Whoever may have no more is refused before anything is made.
#[test]
fn a_handle_is_its_openers_to_pay_for() {
    const USER: u32 = 1000;
    let mut b = two_files();
    assert_eq!(b.result(0, &[fs::CHMOD, 0o777], b""), 0);
    b.fake.charge_limit = Some(40);
    b.label = label::make(USER, USER);
    let mut open: Vec<u64> = (0..)
        .map_while(|_| b.open(b"a", o::RDONLY, 0).ok())
        .collect();
    let each = b.manager.usage(USER).0 / open.len() as u64;
    assert!((100..1000).contains(&each) && open.len() as u64 <= 40 * 4096 / each);
    assert_eq!(b.open(b"a", o::RDONLY, 0), Err(-ENOMEM));
    assert_eq!(b.open(b"new", o::RDWR | o::CREAT, 0o600), Err(-ENOMEM));
    assert_eq!(b.result(0, &[fs::STAT, 0], b"new"), -ENOENT);
    // That is nothing to others, and what he has goes on: also a portal that is kept for another file, which costs what it did.
    let kept = open.pop().unwrap();
    assert_eq!(close(&mut b, kept), Ok(()));
    assert_eq!(b.open(b"a", o::RDONLY, 0), Err(-ENOMEM));
    assert_eq!(open_again(&mut b, b"b", o::RDONLY, kept), (kept, false));
    assert_eq!(close(&mut b, kept), Ok(()));
    b.label = label::make(0, 0) | label::ACCESS;
    let other = b.open(b"new", o::RDWR | o::CREAT, 0o600).unwrap();
    b.close(other);
    // Whoever closes them.
    let left = open.split_off(open.len() / 2);
    open.into_iter().for_each(|badge| b.close(badge));
    assert_eq!(b.manager.usage(USER).0, (left.len() as u64 + 1) * each);
    b.label = label::make(USER, USER);
    let again = b.open(b"a", o::RDONLY, 0).unwrap();
    // One that could not be delivered costs nothing.
    let before = b.manager.usage(USER).0;
    b.fake.no_slot = true;
    assert_eq!(b.open(b"a", o::RDONLY, 0), Err(-EMFILE));
    assert_eq!(b.manager.usage(USER).0, before);
    left.into_iter()
        .chain([kept, again])
        .for_each(|badge| b.close(badge));
    assert_eq!(b.manager.usage(USER).0, 0);
    assert_eq!(b.manager.usage_of_handles(USER), 0);
}

#[test]
fn closing_releases_at_once() {
    let mut b = two_files();
    let used = b.server.pool.usage();
    let a = b.open(b"a", o::RDWR, 0).unwrap();
    assert_eq!(b.result(a, &[fs::FLOCK, 2], b""), 0);
    assert_eq!(b.result(0, &[fs::UNLINK, 0], b"a"), 0);
    let other = b.open(b"b", o::RDWR, 0).unwrap();
    assert_eq!(b.result(other, &[fs::FLOCK, 2], b""), 0);
    b.sender = 2;
    let waits = b.open(b"b", o::RDWR, 0).unwrap();
    let waiter = b.send(waits, &[fs::FLOCK, 2], b"", 0);
    assert_eq!(b.answer(waiter), None);
    b.sender = 1;
    assert_eq!(close(&mut b, other), Ok(()));
    assert_eq!(b.answer(waiter).map(|answer| answer.result()), Some(0));
    assert_eq!(close(&mut b, a), Ok(()));
    assert_ne!(b.server.pool.usage(), used);
}

/// Random opening, closing and using by three domains, against a list of what every portal must lead to.
#[test]
fn random_use_agrees_with_a_list() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum State {
        Open(u8),
        Kept,
    }
    struct Portal {
        badge: u64,
        domain: u32,
        /// Another domain has used it.
        shared: bool,
        state: State,
    }
    for seed in 1..40u64 {
        let mut random = seed;
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 33) as usize % below
        };
        let mut b = fs_();
        for file in 0..5u8 {
            put(&mut b, &[b'0' + file], &[file; 3]);
        }
        let mut portals: Vec<Portal> = Vec::new();
        for _ in 0..400 {
            let domain = 1 + next(3) as u32;
            b.sender = domain;
            let file = next(5) as u8;
            let count = portals.len();
            let at = next(count.max(1));
            match (next(6), portals.get_mut(at)) {
                (0, _) | (_, None) if count < 20 => {
                    let badge = b.open(&[b'0' + file], o::RDONLY, 0).unwrap();
                    let state = State::Open(file);
                    let shared = false;
                    portals.push(Portal {
                        badge,
                        domain,
                        shared,
                        state,
                    });
                }
                (1, Some(_)) => {
                    b.close(portals.swap_remove(at).badge);
                }
                (2, Some(portal)) => {
                    let open = portal.state != State::Kept;
                    let may = open && portal.domain == domain && !portal.shared;
                    let done = close(&mut b, portal.badge);
                    assert_eq!(done, if may { Ok(()) } else { Err(-EBUSY) });
                    if may {
                        portal.state = State::Kept;
                    }
                }
                (3, Some(portal)) => {
                    let may = portal.state == State::Kept && portal.domain == domain;
                    let (badge, minted) =
                        open_again(&mut b, &[b'0' + file], o::RDONLY, portal.badge);
                    assert_eq!(minted, !may);
                    match may {
                        true => portal.state = State::Open(file),
                        false => b.close(badge),
                    }
                }
                (_, Some(portal)) => {
                    let answer = b.call(portal.badge, &[fs::READ, 0], b"", 10).unwrap();
                    match portal.state {
                        State::Kept => assert_eq!(answer.result(), -EBADF),
                        State::Open(file) => assert_eq!(answer.bytes(), [file; 3]),
                    }
                    portal.shared |= portal.domain != domain && portal.state != State::Kept;
                }
                _ => {}
            }
            let open = portals.iter().filter(|p| p.state != State::Kept).count();
            assert_eq!(b.manager.open_files(), open);
        }
    }
}
