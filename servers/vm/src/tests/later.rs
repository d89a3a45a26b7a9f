//! What takes long is done in pieces: others are served in between, and the outcome is the same.

use super::{World, INIT, RW};
use crate::frames::{MANY, PIECE};
use crate::nucleus::{Answer, Pass};
use crate::request::Request;
use cairn_abi::layout::{PAGE, PERSONALITY, USER_TOP};
use cairn_abi::{priority, pulse, received, Id, Token};
use cairn_idl::errno::*;
use cairn_idl::vm::{self, advice, flags, prot, BADGE_CONTROL};

/// A page of programs, and more pages than are dealt with in one go.
const P: u64 = 0x10000;
const PAGES: u64 = 40 * MANY + 3;

/// A program with `PAGES` pages of its own from `P` on, each with a value of its own.
fn program(w: &mut World) -> Id {
    let id = w.create();
    w.map(id, P, PAGES);
    for page in 0..PAGES {
        w.write(id, P + page, value(page)).unwrap();
    }
    id
}

fn value(page: u64) -> u8 {
    (page * 7 + 1) as u8
}

/// A request whose answer does not come at once.
fn begin(w: &mut World, sender: Id, words: &[u64]) -> Token {
    let (token, answer) = w.request(Request {
        words: Answer::new(words).words,
        sender,
        ..Request::default()
    });
    assert_eq!(answer, None);
    token
}

/// Pieces until something is answered: how many, and what.
fn finish(w: &mut World, token: Token) -> (u64, i64) {
    let mut pieces = 0;
    while w.vm.nucleus.replies.is_empty() {
        assert!(
            w.vm.later().is_some(),
            "nothing is left and nobody was answered"
        );
        w.vm.do_piece();
        w.audit();
        pieces += 1;
    }
    let (to, answer) = w.vm.nucleus.replies.pop().unwrap();
    assert_eq!(to, token);
    (pieces, answer.words[0] as i64)
}

#[test]
fn others_are_served_while_much_is_unmapped() {
    let mut w = World::new(20_000);
    let (id, other) = (program(&mut w), w.create());
    let free = w.vm.frames.free() as u64;
    let token = begin(&mut w, id, &[vm::UNMAP, P * PAGE, PAGES * PAGE]);
    let mut last = free;
    for round in 0..PAGES / PIECE {
        w.vm.do_piece();
        // No piece does more, and each does something.
        let now = w.vm.frames.free() as u64;
        assert!(
            now > last && now - last <= PIECE + 1,
            "{round}: {last} to {now}"
        );
        last = now;
        let (_, answer) = w.request(Request {
            words: Answer::new(&[vm::MAP, 0, PAGE, RW, 0]).words,
            sender: other,
            ..Request::default()
        });
        assert!(answer.is_some_and(|answer| (answer.words[0] as i64) > 0));
        w.audit();
    }
    assert_eq!(finish(&mut w, token).1, 0);
    assert_eq!(w.vm.later(), None);
    assert!(w.read(id, P).is_err() && w.read(id, P + PAGES - 1).is_err());
}

#[test]
fn what_takes_pages_away_does_it_in_pieces() {
    let all = PAGES * PAGE;
    let to = (P + 2 * PAGES) * PAGE;
    // The request, its answer, and what the program then sees at the first and the last page.
    let cases: [(&[u64], i64, Option<u8>); 4] = [
        (&[vm::UNMAP, P * PAGE, all], 0, None),
        (&[vm::ADVISE, P * PAGE, all, advice::DONT_NEED], 0, Some(0)),
        (
            &[vm::MAP, P * PAGE, all, RW, flags::FIXED],
            (P * PAGE) as i64,
            Some(0),
        ),
        // Something else is moved to where it lies.
        (
            &[vm::REMAP, to, PAGE, all, 3, P * PAGE],
            (P * PAGE) as i64,
            Some(0),
        ),
    ];
    for (words, answer, content) in cases {
        let mut w = World::new(20_000);
        let id = program(&mut w);
        w.map(id, to / PAGE, 1);
        let token = begin(&mut w, id, words);
        // Nothing but pages has gone yet.
        w.vm.do_piece();
        assert_eq!(w.read(id, P).ok(), Some(value(0)));
        let (pieces, told) = finish(&mut w, token);
        assert_eq!(told, answer);
        assert!(pieces >= PAGES / PIECE - 1, "{pieces}");
        assert_eq!(w.read(id, P).ok(), content);
        assert_eq!(w.read(id, P + PAGES - 1).ok(), content);
        w.audit();
    }
}

#[test]
fn a_request_that_fails_takes_nothing_away() {
    let mut w = World::new(20_000);
    let id = program(&mut w);
    let most = PAGES + 1;
    w.control(&[vm::LIMIT, u64::from(id), most, 0, 0]);
    let all = PAGES * PAGE;
    for words in [
        [vm::MAP, P * PAGE, all + 9 * PAGE, RW, flags::FIXED, 0],
        [vm::PROTECT, P * PAGE, all + PAGE, prot::READ, 0, 0],
        [vm::REMAP, P * PAGE, all + PAGE, all + 2 * PAGE, 1, 0],
        [vm::ADVISE, P * PAGE + 1, all, advice::DONT_NEED, 0, 0],
    ] {
        assert!(w.call(id, &words) < 0, "{words:?}");
        assert_eq!(w.vm.later(), None);
        for page in 0..PAGES {
            assert_eq!(w.read(id, P + page), Ok(value(page)));
        }
    }
}

#[test]
fn protection_changes_in_pieces() {
    let mut w = World::new(20_000);
    let id = program(&mut w);
    let token = begin(
        &mut w,
        id,
        &[vm::PROTECT, P * PAGE, PAGES * PAGE, prot::READ],
    );
    let (pieces, answer) = finish(&mut w, token);
    assert_eq!(answer, 0);
    assert!(pieces >= PAGES / PIECE);
    for page in [0, 1, PIECE, PAGES - 1] {
        assert_eq!(w.read(id, P + page), Ok(value(page)));
        assert!(w.write(id, P + page, 1).is_err());
    }
    // It is one region again.
    let space =
        w.vm.spaces
            .iter()
            .find(|(_, s)| s.regions.find(P).is_some());
    assert_eq!(space.unwrap().1.regions.find(P).unwrap().pages(), PAGES);
    // What is unmapped meanwhile ends it.
    let token = begin(&mut w, id, &[vm::PROTECT, P * PAGE, PAGES * PAGE, RW]);
    w.vm.do_piece();
    assert_eq!(w.vm.nucleus.replies.len(), 0);
    let (_, answer) = w.request(Request {
        words: Answer::new(&[vm::UNMAP, (P + PAGES - 1) * PAGE, PAGE]).words,
        sender: id,
        ..Request::default()
    });
    assert_eq!(answer.map(|answer| answer.words[0]), Some(0));
    assert_eq!(finish(&mut w, token).1, -ENOMEM);
}

#[test]
fn who_ends_is_taken_apart_later_and_whoever_needs_memory_has_it_first() {
    let mut w = World::new(20_000);
    let before = w.vm.frames.free();
    let id = program(&mut w);
    w.leaves = true;
    w.destroy(id);
    assert_eq!(w.vm.later(), Some(Some(priority::NORMAL)));
    assert!(w.vm.frames.free() + (PAGES as usize) / 2 < before);
    w.audit();
    // What is free is told when it is all there.
    let reader = w.create();
    let token = begin(&mut w, reader, &[vm::MEMORY_STAT]);
    assert_eq!(w.vm.later(), Some(None));
    while w.vm.nucleus.replies.is_empty() {
        w.vm.do_piece();
    }
    assert_eq!(w.vm.nucleus.replies.pop().unwrap().0, token);
    assert!(!w.vm.has_ended());
    // And nobody is told that there is none while there is.
    let id = program(&mut w);
    w.destroy(id);
    assert!(w.vm.has_ended());
    while !w.vm.later.spaces.is_empty() {
        w.vm.do_piece();
        w.audit();
    }
    assert!(w.vm.frames.has_ended());
    let all = w.vm.frames.free();
    assert!((0..all + PAGES as usize / 2).all(|_| w.vm.frames.alloc(0).is_some()));
}

/// exec of a program with much memory takes nothing apart itself; what it keeps is there at once. One that has offered pages keeps its space.
#[test]
fn much_memory_of_a_program_that_begins_anew_goes_later() {
    let own = PERSONALITY / PAGE;
    for offers in [false, true] {
        let mut w = World::new(20_000);
        let id = program(&mut w);
        w.map(id, own, 3);
        (0..3).for_each(|page| w.write(id, own + page, value(page)).unwrap());
        if offers {
            let index = w.vm.of(id.into()).unwrap();
            w.vm.spaces.get_mut(index).unwrap().offered = 1;
        }
        let counted = |w: &World| {
            let index = w.vm.of(id.into()).unwrap();
            let space = w.vm.spaces.get(index).unwrap();
            (space.faults, space.mapped)
        };
        let (faults, _) = counted(&w);
        let reset = [vm::RESET, id.into(), PERSONALITY, USER_TOP];
        w.leaves = true;
        assert_eq!(w.control(&reset), 0);
        assert_eq!(w.vm.later.spaces.len(), usize::from(!offers));
        assert_eq!(w.read(id, P), Err(0));
        (0..3).for_each(|page| assert_eq!(w.read(id, own + page), Ok(value(page))));
        assert_eq!(counted(&w), (faults, 3));
        if offers {
            continue;
        }
        w.write(id, own, 1).unwrap();
        let mut pieces = 0;
        while w.vm.later().is_some() {
            w.vm.do_piece();
            pieces += 1;
            w.audit();
            assert_eq!(w.read(id, own), Ok(1));
        }
        assert!(pieces > PAGES / PIECE, "{pieces}");
        w.destroy(id);
        w.audit();
    }
}

#[test]
fn a_move_is_done_part_by_part() {
    let all = PAGES * PAGE;
    // Where to: as it lies, one page beside that, wherever there is room; and it becomes longer, or shorter.
    for (target, new) in [(64, 0), (65, 0), (0, 1), (64, 200), (0, 200), (65, -100)] {
        let mut w = World::new(20_000);
        let id = program(&mut w);
        // It cannot grow where it is.
        w.map(id, P + PAGES, 1);
        let pages = PAGES.wrapping_add_signed(new);
        let fixed = P + 4 * PAGES / 64 * 64 + target;
        let (flag, wanted) = match target {
            0 => (1, 0),
            _ => (3, fixed * PAGE),
        };
        if target == 65 {
            // Something that many pages are behind is there.
            w.map(id, fixed, PAGES);
            (0..PAGES).for_each(|page| w.write(id, fixed + page, 3).unwrap());
        }
        let child = w.fork(id).unwrap();
        w.write(id, P + 7, 55).unwrap();
        let token = begin(
            &mut w,
            id,
            &[vm::REMAP, P * PAGE, all, pages * PAGE, flag, wanted],
        );
        let mut served = 0;
        while w.vm.nucleus.replies.is_empty() {
            w.vm.do_piece();
            w.audit();
            // What others of its threads map does not come where it goes.
            let (_, answer) = w.request(Request {
                words: Answer::new(&[vm::MAP, 0, PAGE, RW, 0]).words,
                sender: id,
                ..Request::default()
            });
            let at = answer.unwrap().words[0] / PAGE;
            assert!((at as i64) > 0);
            w.write(id, at, 99).unwrap();
            served += 1;
        }
        assert!(served >= PAGES / PIECE, "{served}");
        let (to, answer) = w.vm.nucleus.replies.pop().unwrap();
        assert_eq!(to, token);
        let to = answer.words[0] / PAGE;
        assert!((answer.words[0] as i64) > 0 && (target == 0 || to == fixed));
        for page in 0..pages {
            let expected = match page {
                7 => 55,
                _ if page < PAGES => value(page),
                _ => 0,
            };
            assert_eq!(w.read(id, to + page), Ok(expected), "{target} {new} {page}");
            assert!(target == 0 || page >= PAGES || w.read(id, P + page).is_err());
        }
        // It is one region (of which others of the kind beside it are a part).
        let found = w.vm.spaces.iter().find_map(|(_, s)| s.regions.find(to));
        assert!(found.is_some_and(|region| region.start <= to && region.end >= to + pages));
        (0..PAGES).for_each(|page| assert_eq!(w.read(child, P + page), Ok(value(page))));
        w.audit();
    }
}

#[test]
fn a_move_that_is_disturbed_harms_nobody_else() {
    for what in 0..4 {
        let mut w = World::new(20_000);
        let id = program(&mut w);
        let to = P + 3 * PAGES + 1;
        let bytes = PAGES * PAGE;
        let token = begin(
            &mut w,
            id,
            &[vm::REMAP, P * PAGE, bytes, bytes, 3, to * PAGE],
        );
        w.vm.do_piece();
        let words: &[u64] = match what {
            0 => &[vm::UNMAP, (P + PAGES - 5) * PAGE, PAGE],
            1 => &[vm::UNMAP, (to + PAGES - 5) * PAGE, PAGE],
            2 => &[vm::PROTECT, (P + PAGES - 50) * PAGE, PAGE, prot::READ],
            _ => &[
                vm::MAP,
                (to + PAGES - 300) * PAGE,
                200 * PAGE,
                RW,
                flags::FIXED,
            ],
        };
        let (_, answer) = w.request(Request {
            words: Answer::new(words).words,
            sender: id,
            ..Request::default()
        });
        assert!(answer.is_some_and(|answer| (answer.words[0] as i64) >= 0));
        if what == 3 {
            (0..200).for_each(|page| w.write(id, to + PAGES - 300 + page, 1).unwrap());
        }
        let answer = finish(&mut w, token).1;
        assert_eq!(
            answer,
            [-EFAULT, (to * PAGE) as i64, -EFAULT, (to * PAGE) as i64][what]
        );
        w.audit();
        w.destroy(id);
        w.audit();
    }
}

#[test]
fn an_object_of_many_pages_is_collected_part_by_part() {
    for outcome in 0..3 {
        let mut w = World::new(20_000);
        let id = program(&mut w);
        let mut pages: Vec<u64> = (0..PAGES).map(|page| P + page).collect();
        if outcome == 1 {
            // Nothing is there.
            *pages.last_mut().unwrap() = P - 1;
        }
        let free = w.vm.frames.free();
        w.vm.nucleus.out = pages
            .iter()
            .flat_map(|page| (page * PAGE).to_le_bytes())
            .collect();
        let (token, answer) = w.request(Request {
            words: Answer::new(&[vm::OBJECT_CREATE, 0, 0]).words,
            sender: id,
            out_len: w.vm.nucleus.out.len(),
            ..Request::default()
        });
        assert_eq!(answer, None);
        w.vm.do_piece();
        if outcome == 2 {
            let gone = Request {
                kind: received::kind::PULSE,
                words: Answer::new(&[pulse::GONE, token]).words,
                ..Request::default()
            };
            assert_eq!(w.request(gone).1, None);
            w.do_all_pieces();
            assert_eq!(w.vm.frames.free(), free);
            w.audit();
            continue;
        }
        let mut pieces = 0;
        while w.vm.nucleus.replies.is_empty() {
            w.vm.do_piece();
            pieces += 1;
        }
        assert!(pieces + 2 >= PAGES / PIECE);
        w.do_all_pieces();
        let (to, answer) = w.vm.nucleus.replies.pop().unwrap();
        assert_eq!(to, token);
        w.audit();
        match answer.pass {
            Some(Pass::Mint(badge)) => {
                assert_eq!((outcome, answer.words[0]), (0, 0));
                let at = (P + 2 * PAGES) * PAGE;
                let words = [
                    vm::OBJECT_MAP,
                    at,
                    PAGES * PAGE,
                    prot::READ,
                    flags::FIXED,
                    0,
                ];
                let other = w.create();
                assert_eq!(w.call_badge(other, badge, &words).words[0], at);
                for page in 0..PAGES {
                    assert_eq!(w.read(other, at / PAGE + page), Ok(value(page)));
                }
                w.audit();
            }
            _ => assert_eq!((outcome, answer.words[0] as i64), (1, -EFAULT)),
        }
    }
}

/// FORK, whose answer does not come at once.
fn begin_fork(w: &mut World, parent: Id) -> Token {
    let (token, answer) = w.request(Request {
        words: Answer::new(&[vm::FORK, u64::from(parent), 0]).words,
        badge: BADGE_CONTROL,
        sender: INIT,
        ..Request::default()
    });
    assert_eq!(answer, None);
    token
}

#[test]
fn a_fork_copies_chunk_after_chunk() {
    let mut w = World::new(30_000);
    let (id, other) = (program(&mut w), w.create());
    // Some of it lies far apart.
    let far = P + 0x100_0000;
    for i in 0..40 {
        w.map(id, far + i * 512, 3);
        w.write(id, far + i * 512 + 1, i as u8).unwrap();
    }
    let grown = P - 0x8000;
    w.map(id, grown, 0x6000);
    // And some is a file's, which is cut meanwhile.
    let server = w.create();
    w.map(server, P, 8);
    (0..8).for_each(|page| w.write(server, P + page, 200).unwrap());
    let pages: Vec<u64> = (P..P + 8).collect();
    let badge = w.object(server, &pages, true).unwrap();
    let file = P + 0x10_0000;
    for (at, flag) in [(file, flags::SHARED), (file + 8, 0)] {
        let words = [
            vm::OBJECT_MAP,
            at * PAGE,
            8 * PAGE,
            RW,
            flag | flags::FIXED,
            0,
        ];
        assert_eq!(w.call_badge(id, badge, &words).words[0], at * PAGE);
        (0..8).for_each(|page| assert_eq!(w.read(id, at + page), Ok(200)));
    }
    let token = begin_fork(&mut w, id);
    let mut pieces = 0;
    let mut held = None;
    let mut cut = false;
    while w.vm.nucleus.replies.is_empty() {
        w.vm.do_piece();
        w.audit();
        pieces += 1;
        // The parent goes on writing, also where it never did, and somebody else asks.
        (0..12).for_each(|i| {
            w.write(id, grown + (12 * pieces + i) % 384 * 64, 5)
                .unwrap()
        });
        let page = 10 + pieces * 31 % (PAGES - 10);
        w.write(id, P + page, 77).unwrap();
        w.audit();
        let (_, answer) = w.request(Request {
            words: Answer::new(&[vm::MAP, 0, PAGE, RW, 0]).words,
            sender: other,
            ..Request::default()
        });
        assert!(answer.is_some_and(|answer| (answer.words[0] as i64) > 0));
        if pieces == 5 {
            // What the parent has mapped stays as it is until the copy is made.
            held = Some(begin(&mut w, id, &[vm::UNMAP, P * PAGE, 10 * PAGE]));
            assert!(w.read(id, P).is_ok());
        }
        if pieces >= 8 && !cut {
            // (Pieces of the copy come between the parts of this.)
            w.vm.nucleus.passed.insert(78, badge);
            let (_, answer) = w.request(Request {
                words: [vm::OBJECT_CHANGE, 0, 4, 0, 0, 0, 0, 78],
                sender: server,
                portals: 1,
                ..Request::default()
            });
            let result = answer.expect("an answer").words[0] as i64;
            assert!(result >= 0 || result == -EAGAIN, "{result}");
            cut = result >= 0;
            w.audit();
        }
    }
    assert!(cut && pieces > PAGES / 64, "{pieces}");
    let replies = std::mem::take(&mut w.vm.nucleus.replies);
    assert_eq!((replies[0].0, replies[1].0), (token, held.unwrap()));
    assert_eq!((replies[0].1.words[0], replies[1].1.words[0]), (0, 0));
    let child = replies[0].1.words[1] as Id;
    assert!(w.read(id, P).is_err());
    for page in 0..PAGES {
        let seen = w.read(child, P + page).unwrap();
        assert!(seen == value(page) || seen == 77, "{page}: {seen}");
    }
    for i in 0..40 {
        assert_eq!(w.read(child, far + i * 512 + 1), Ok(i as u8));
        assert_eq!(w.read(child, far + i * 512 + 2), Ok(0));
    }
    for at in [file, file + 8] {
        assert_eq!(w.read(child, at + 3), Ok(200));
        assert!(w.read(child, at + 4).is_err());
    }
    // Each has its own from now on.
    w.write(child, P + PAGES - 1, 1).unwrap();
    w.write(id, P + PAGES - 2, 2).unwrap();
    assert_ne!(w.read(id, P + PAGES - 1), Ok(1));
    assert_ne!(w.read(child, P + PAGES - 2), Ok(2));
    w.audit();
    w.destroy(child);
    w.destroy(id);
    w.audit();
}

#[test]
fn a_program_is_not_copied_while_something_is_half_done_there() {
    let bytes = PAGES * PAGE;
    let to = P + 4 * PAGES;
    let cases: [&[u64]; 3] = [
        &[vm::REMAP, P * PAGE, bytes, bytes, 3, to * PAGE],
        &[vm::PROTECT, P * PAGE, bytes, prot::READ],
        &[vm::UNMAP, P * PAGE, bytes],
    ];
    for words in cases {
        let mut w = World::new(30_000);
        let (id, other) = (program(&mut w), program(&mut w));
        let half_done = begin(&mut w, id, words);
        w.vm.do_piece();
        let (_, answer) = w.request(Request {
            words: Answer::new(&[vm::FORK, u64::from(id), 0]).words,
            badge: BADGE_CONTROL,
            sender: INIT,
            ..Request::default()
        });
        assert_eq!(answer.map(|answer| answer.words[0] as i64), Some(-EBUSY));
        // Others are.
        begin_fork(&mut w, other);
        (0..2).for_each(|_| w.vm.do_piece());
        w.do_all_pieces();
        w.audit();
        assert_eq!(w.vm.nucleus.replies.len(), 2);
        assert!(w
            .vm
            .nucleus
            .replies
            .iter()
            .any(|reply| reply.0 == half_done));
        w.vm.nucleus.replies.clear();
        assert!(w.fork(id).is_ok());
    }
}

#[test]
fn more_than_can_be_done_at_a_time_wait_for_their_turn() {
    let mut w = World::new(40_000);
    let programs: Vec<Id> = (0..7).map(|_| program(&mut w)).collect();
    let bytes = PAGES * PAGE;
    let free = w.vm.frames.free();
    let mut tokens = Vec::new();
    for (i, id) in (0..).zip(&programs) {
        let words: [u64; 7] = match i % 4 {
            0 => [vm::UNMAP, P * PAGE, bytes, 0, 0, 0, 0],
            1 => [
                vm::REMAP,
                P * PAGE,
                bytes,
                bytes,
                3,
                (P + 2 * PAGES) * PAGE,
                0,
            ],
            2 => [vm::ADVISE, P * PAGE, bytes, advice::DONT_NEED, 0, 0, 0],
            _ => [vm::PROTECT, P * PAGE, bytes, prot::READ, 0, 0, 0],
        };
        // A portal that nobody asked for does not make it any quicker.
        let mut all = [0; 8];
        all[..7].copy_from_slice(&words);
        all[7] = 200 + i;
        let (token, answer) = w.request(Request {
            words: all,
            sender: *id,
            portals: 1,
            ..Request::default()
        });
        assert_eq!(answer, None);
        tokens.push(token);
        let gone = free - w.vm.frames.free().min(free);
        assert_eq!(gone, 0, "nothing was done at once");
    }
    assert!(w.vm.frames.free() < free + PIECE as usize);
    // One of those that wait is gone.
    let gone = Request {
        kind: received::kind::PULSE,
        words: Answer::new(&[pulse::GONE, tokens[5]]).words,
        ..Request::default()
    };
    assert_eq!(w.request(gone).1, None);
    while w.vm.later().is_some() {
        let before = w.vm.frames.free();
        w.vm.do_piece();
        assert!(w.vm.frames.free() <= before + PIECE as usize + 1);
        w.audit();
    }
    let mut told: Vec<_> = w.vm.nucleus.replies.iter().map(|reply| reply.0).collect();
    told.sort_unstable();
    tokens.remove(5);
    assert_eq!(told, tokens);
    assert!(w
        .vm
        .nucleus
        .replies
        .iter()
        .all(|reply| (reply.1.words[0] as i64) >= 0));
    let mut closed = w.vm.nucleus.closed.clone();
    closed.retain(|slot| (200..207).contains(slot));
    closed.sort_unstable();
    assert_eq!(closed, (200..207).collect::<Vec<u32>>());
    assert_eq!(w.read(programs[1], P + 2 * PAGES), Ok(value(0)));
    assert_eq!(w.read(programs[5], P), Ok(value(0)));
}

#[test]
fn a_fork_that_is_given_up_leaves_nothing() {
    let mut w = World::new(30_000);
    let id = program(&mut w);
    let free = w.vm.frames.free();
    let spaces = w.vm.spaces.iter().count();
    let token = begin_fork(&mut w, id);
    w.vm.do_piece();
    let held = begin(&mut w, id, &[vm::MAP, 0, PAGE, RW, 0]);
    let gone = Request {
        kind: received::kind::PULSE,
        words: Answer::new(&[pulse::GONE, token]).words,
        ..Request::default()
    };
    assert_eq!(w.request(gone).1, None);
    assert_eq!(w.vm.nucleus.replies.pop().map(|reply| reply.0), Some(held));
    w.do_all_pieces();
    w.audit();
    assert_eq!(
        (w.vm.frames.free(), w.vm.spaces.iter().count()),
        (free, spaces)
    );
    for page in 0..PAGES {
        assert_eq!(w.read(id, P + page), Ok(value(page)));
        w.write(id, P + page, 1).unwrap();
    }
    assert_eq!(w.vm.frames.free(), free);
    // There is too little for all of it.
    while w.vm.frames.free() > w.vm.user_floor + 40 {
        w.vm.frames.alloc(0);
    }
    let many = w.fork(id);
    w.do_all_pieces();
    assert!(many.is_ok() || many == Err(-ENOMEM));
}

#[test]
fn the_most_important_comes_first_and_who_is_gone_is_forgotten() {
    let mut w = World::new(20_000);
    let programs = [program(&mut w), program(&mut w)];
    let tokens = programs.map(|id| {
        // The second one has a priority of its own.
        w.vm.nucleus
            .priorities
            .insert(w.token + 1, 60 + 10 * (id == programs[1]) as u8);
        begin(&mut w, id, &[vm::UNMAP, P * PAGE, PAGES * PAGE])
    });
    assert_eq!(w.vm.later(), Some(None));
    w.vm.do_piece();
    assert_eq!(w.vm.nucleus.worked_for, tokens[1]);
    // It is lifted while it waits, and goes first from then on.
    w.vm.nucleus.priorities.insert(tokens[0], 80);
    w.vm.do_piece();
    w.vm.do_piece();
    assert_eq!(w.vm.nucleus.worked_for, tokens[0]);
    w.vm.nucleus.priorities.insert(tokens[0], 50);
    assert_eq!(finish(&mut w, tokens[1]).1, 0);
    assert_eq!(w.vm.later(), Some(None));
    assert_eq!(w.read(programs[0], P), Ok(value(0)));
    let gone = Request {
        kind: received::kind::PULSE,
        words: Answer::new(&[pulse::GONE, tokens[0]]).words,
        ..Request::default()
    };
    assert_eq!(w.request(gone).1, None);
    assert_eq!(w.vm.later(), None);
    // One whose program has ended is as well.
    let token = begin(&mut w, programs[0], &[vm::UNMAP, P * PAGE, PAGES * PAGE]);
    w.leaves = true;
    w.destroy(programs[0]);
    w.do_all_pieces();
    let good = |reply: &(Token, Answer)| reply.0 == token && (reply.1.words[0] as i64) >= 0;
    assert!(!w.vm.nucleus.replies.iter().any(good));
    w.audit();
}

#[test]
fn whole_chunks_move_as_they_are() {
    for (start, len, by) in [
        (P, 300, 0),
        (P + 3, 300, 0),
        (P + 60, 64, 0),
        (P + 5, 259, 1),
        (P, 128, 63),
    ] {
        let mut w = World::new(20_000);
        let id = w.create();
        let to = P + 4096 + (start - P) + by;
        w.map(id, start - 2, len + 4);
        // Around the new place there are others, above and below.
        w.map(id, to - 1, len + 2);
        w.map(id, P + 2048, 70);
        let put = |w: &mut World, page, value| w.write(id, page, value).unwrap();
        for page in (0..len).filter(|page| page % 5 != 3) {
            put(&mut w, start + page, value(page));
        }
        for page in [start - 1, start + len, to - 1, to + len, P + 2048 + 65] {
            put(&mut w, page, 99);
        }
        let child = w.fork(id).unwrap();
        put(&mut w, start + 7, 55);
        for (from, to) in [(start, to), (to, start)] {
            let words = [vm::REMAP, from * PAGE, len * PAGE, len * PAGE, 3, to * PAGE];
            assert_eq!(w.call(id, &words), (to * PAGE) as i64);
            w.audit();
            for page in 0..len {
                let expected = match page {
                    7 => 55,
                    _ if page % 5 == 3 => 0,
                    _ => value(page),
                };
                assert_eq!(
                    w.read(id, to + page),
                    Ok(expected),
                    "{start:x} {len} {by} {page}"
                );
            }
            assert!(w.read(id, from).is_err() && w.read(id, from + len - 1).is_err());
        }
        for page in [start - 1, start + len, to - 1, to + len, P + 2048 + 65] {
            assert_eq!(w.read(id, page), Ok(99));
        }
        for page in (0..len).filter(|page| page % 5 != 3) {
            assert_eq!(w.read(child, start + page), Ok(value(page)));
        }
        // Where nobody says where, they lie alike.
        let words = [vm::REMAP, start * PAGE, len * PAGE, 2 * len * PAGE, 1, 0];
        let moved = w.call(id, &words) as u64 / PAGE;
        assert_eq!((moved % 64, moved != start), (start % 64, true));
        assert_eq!(w.read(id, moved + 7), Ok(55));
        w.audit();
    }
}
