//! Who pays, who is refused, and who ends.

use super::{World, INIT, RW};
use crate::request::Request;
use cairn_abi::layout::PAGE;
use cairn_abi::{fault, Id};
use cairn_idl::errno::*;
use cairn_idl::vm::{self, flags, BADGE_CONTROL};

const P: u64 = 0x10_0000;
const USER: u32 = 1000;
const OTHER: u32 = 1001;

fn program(w: &mut World, uid: u32) -> Id {
    let id = w.create();
    assert_eq!(w.control(&[vm::SET_ACCOUNT, id.into(), uid.into()]), 0);
    id
}

fn component(w: &mut World) -> Id {
    w.made(&[vm::CREATE, 0, 0]).unwrap()
}

fn charge(w: &mut World, who: Id, uid: u32, pages: i64) -> i64 {
    w.call(who, &[vm::CHARGE, uid.into(), pages as u64])
}

/// → held, charged.
fn stat(w: &mut World, uid: u32) -> (u64, u64) {
    let words = w.call_badge(INIT, 0, &[vm::ACCOUNT_STAT, uid.into()]).words;
    (words[1], words[2])
}

fn watch(w: &mut World) {
    let watch = Request {
        words: [vm::WATCH_EXHAUSTED, 0, 0, 0, 0, 0, 0, 60],
        badge: BADGE_CONTROL,
        sender: INIT,
        portals: 1,
        ..Request::default()
    };
    assert_eq!(w.request(watch).1.unwrap().words[0], 0);
}

fn exhausted(w: &mut World, spared: Id) -> Result<Id, i64> {
    let words = [vm::EXHAUSTED, spared.into()];
    let words = w.call_badge(INIT, BADGE_CONTROL, &words).words;
    match words[0] as i64 {
        0 => Ok(words[1] as Id),
        error => Err(error),
    }
}

/// Write pages from the first on until one waits or is refused → how many.
fn fill(w: &mut World, id: Id, first: u64, most: u64) -> u64 {
    (0..most)
        .find(|page| w.write(id, first + page, 1).is_err())
        .unwrap_or(most)
}

#[test]
fn what_is_charged_is_judged_and_goes_with_the_component() {
    let mut w = World::new(4000);
    let (a, b) = (component(&mut w), component(&mut w));
    let user = program(&mut w, USER);
    assert_eq!(charge(&mut w, user, USER, 1), -EPERM);
    assert_eq!(charge(&mut w, a, USER, i64::MIN), -EINVAL);
    assert_eq!(charge(&mut w, a, USER, -1), -EINVAL);
    assert_eq!(charge(&mut w, a, USER, 100), 0);
    assert_eq!(charge(&mut w, b, USER, 50), 0);
    assert_eq!(charge(&mut w, b, USER, -51), -EINVAL);
    assert_eq!(stat(&mut w, USER).1, 150);
    // Half of all memory for one user; all are asked only as long as the programs of users have room as well.
    assert_eq!(charge(&mut w, a, USER, 1850), 0);
    assert_eq!(charge(&mut w, a, USER, 1), -ENOMEM);
    assert_eq!(charge(&mut w, a, OTHER, 1), 0);
    let free = w.vm.frames.free() as i64;
    assert_eq!(charge(&mut w, a, OTHER, free), -ENOMEM);
    assert_eq!(charge(&mut w, a, 0, free), 0);
    w.audit();
    w.destroy(a);
    assert_eq!(
        (
            stat(&mut w, USER).1,
            stat(&mut w, OTHER).1,
            stat(&mut w, 0).1
        ),
        (50, 0, 0)
    );
    assert_eq!(charge(&mut w, b, USER, -50), 0);
    w.audit();
}

#[test]
fn an_account_has_its_limit() {
    let mut w = World::new(4000);
    let server = component(&mut w);
    watch(&mut w);
    let first = w.create();
    let (small, big) = (program(&mut w, USER), program(&mut w, USER));
    let bystander = program(&mut w, OTHER);
    w.map(bystander, P, 1000);
    assert_eq!(fill(&mut w, bystander, P, 1000), 1000);
    let held = stat(&mut w, USER).0;
    let limit = [vm::ACCOUNT_LIMIT, USER.into(), held + 300];
    assert_eq!(w.control(&limit), 0);
    assert_eq!(w.control(&[vm::ACCOUNT_LIMIT, 0, 5]), -EPERM);
    assert_eq!(charge(&mut w, server, USER, 301), -ENOMEM);
    assert_eq!(charge(&mut w, server, USER, 100), 0);
    w.map(small, P, 20);
    w.map(big, P, 1000);
    assert_eq!(fill(&mut w, small, P, 20), 20);
    let done = fill(&mut w, big, P, 1000);
    assert!((150..=200).contains(&done), "{done}");
    assert_eq!(w.fork(small), Err(-ENOMEM));
    // There is memory, but not for this user: his largest program ends, not the larger one of somebody else.
    assert_eq!(exhausted(&mut w, first), Ok(big));
    w.destroy(big);
    assert!(w.write(small, P, 1).is_ok() && w.fork(small).is_ok());
    w.audit();
}

#[test]
fn users_together_leave_what_the_system_needs() {
    let mut w = World::new(4000);
    watch(&mut w);
    let root = w.create();
    let users: Vec<Id> = (0..8).map(|i| program(&mut w, USER + i)).collect();
    for &user in &users {
        w.map(user, P, 4000);
    }
    let mut filled = 0;
    for &user in &users {
        filled += fill(&mut w, user, P, 4000);
    }
    assert!(filled > 2000);
    let floor = w.vm.user_floor;
    assert!(w.vm.frames.free() >= floor - w.vm.frames.floor());
    assert!(floor > w.vm.reserve + 100);
    assert_eq!(w.fork(users[3]), Err(-ENOMEM));
    // User 0 goes on, and starts programs.
    w.map(root, P, 4000);
    assert_eq!(fill(&mut w, root, P, 40), 40);
    let child = w.fork(root).unwrap();
    w.audit();
    w.destroy(child);
    for user in users {
        w.destroy(user);
    }
    w.audit();
}

#[test]
fn it_is_the_greedy_ones_largest_program_that_ends() {
    let mut w = World::new(4000);
    watch(&mut w);
    let first = w.create();
    w.map(first, P, 1500);
    assert_eq!(fill(&mut w, first, P, 1500), 1500);
    let innocent = program(&mut w, OTHER);
    w.map(innocent, P, 300);
    assert_eq!(fill(&mut w, innocent, P, 300), 300);
    // Shared memory that only children touched, which have ended: the program that made it has no page of it.
    let greedy = program(&mut w, USER);
    let shared = [
        vm::MAP,
        P * PAGE,
        3000 * PAGE,
        RW,
        flags::FIXED | flags::SHARED,
    ];
    assert_eq!(w.call(greedy, &shared), (P * PAGE) as i64);
    let mut ends = 0;
    let mut reached = 0;
    loop {
        let child = w.fork(greedy).unwrap();
        let done = fill(&mut w, child, P + reached, 300);
        reached += done;
        if done < 300 {
            break;
        }
        w.destroy(child);
        ends += 1;
    }
    assert!(ends >= 2, "{ends}");
    assert!(stat(&mut w, USER).0 > 600);
    // Whoever lacks memory now, the programs of the greedy user end, and its maker is the last.
    w.map(innocent, P + 1000, 300);
    let mut ended = Vec::new();
    while fill(&mut w, innocent, P + 1000, 300) < 300 {
        let victim = exhausted(&mut w, first).unwrap();
        assert!(victim != innocent && victim != first);
        ended.push(victim);
        w.destroy(victim);
    }
    assert_eq!(ended.last(), Some(&greedy));
    assert_eq!(ended.len(), 2);
    w.audit();
}

fn adjust(w: &mut World, id: Id, adjust: i64) -> i64 {
    w.control(&[vm::OOM_ADJUST, id.into(), adjust as u64])
}

#[test]
fn an_adjustment_weighs_within_an_account() {
    let mut w = World::new(4000);
    watch(&mut w);
    let first = w.create();
    let (small, middle, big) = (
        program(&mut w, USER),
        program(&mut w, USER),
        program(&mut w, USER),
    );
    let other = program(&mut w, OTHER);
    let mut child = 0;
    for (id, pages) in [(small, 20), (middle, 400), (other, 300), (big, 4000)] {
        w.map(id, P, pages);
        fill(&mut w, id, P, pages);
        if id == middle {
            // What it has at its fork is its child's as well.
            assert_eq!(adjust(&mut w, middle, -1000), 0);
            child = w.fork(middle).unwrap();
            assert_eq!(adjust(&mut w, middle, 0), 0);
        }
    }
    assert_eq!(adjust(&mut w, small, 1001), -EINVAL);
    assert_eq!(adjust(&mut w, 4711, 1), -ESRCH);
    assert!(!w.vm.waiting.is_empty());
    assert_eq!(exhausted(&mut w, first), Ok(big));
    assert_eq!(adjust(&mut w, big, -1000), 0);
    assert_eq!(exhausted(&mut w, first), Ok(middle));
    // A tenth of all memory is 400 pages.
    assert_eq!(adjust(&mut w, small, 100), 0);
    assert_eq!(exhausted(&mut w, first), Ok(small));
    assert_eq!(adjust(&mut w, small, 80), 0);
    assert_eq!(exhausted(&mut w, first), Ok(middle));
    // It weighs nothing beside other users, whose turn it is only when this one has nobody left.
    assert_eq!(adjust(&mut w, other, 1000), 0);
    assert_eq!(exhausted(&mut w, first), Ok(middle));
    assert_eq!(adjust(&mut w, small, -1000), 0);
    assert_eq!(adjust(&mut w, middle, -1000), 0);
    assert_eq!(exhausted(&mut w, first), Ok(other));
    assert_eq!(adjust(&mut w, child, 0), 0);
    assert_eq!(exhausted(&mut w, first), Ok(child));
    assert_eq!(adjust(&mut w, child, -1000), 0);
    assert_eq!(adjust(&mut w, other, -1000), 0);
    assert_eq!(exhausted(&mut w, first), Err(-ESRCH));
    assert!(w.vm.waiting.is_empty());
    w.audit();
}

#[test]
fn nobody_ends_for_what_does_not_go_with_a_program() {
    let mut w = World::new(4000);
    watch(&mut w);
    let first = w.create();
    w.map(first, P, 4000);
    let user = program(&mut w, USER);
    w.map(user, P, 10);
    // The only program that is left fills memory by itself.
    fill(&mut w, first, P, 4000);
    assert_eq!(w.touch(user, P, true), Err(99), "waits");
    w.vm.nucleus.replies.clear();
    assert_eq!(exhausted(&mut w, first), Ok(user));
    w.destroy(user);
    w.vm.nucleus.replies.clear();
    // Then nobody is left who could end: who waits is refused.
    fill(&mut w, first, P, 4000);
    assert!(!w.vm.waiting.is_empty());
    assert_eq!(exhausted(&mut w, first), Err(-ESRCH));
    assert!(w.vm.waiting.is_empty());
    assert!(w
        .vm
        .nucleus
        .replies
        .iter()
        .all(|reply| reply.1.words[0] == fault::REFUSED));
    w.audit();
}

#[test]
fn what_a_program_brings_along_is_its_new_accounts() {
    let mut w = World::new(4000);
    let login = w.create();
    w.map(login, P, 100);
    assert_eq!(fill(&mut w, login, P, 100), 100);
    let child = w.fork(login).unwrap();
    for page in 0..50 {
        w.write(child, P + page, 2).unwrap();
    }
    let (root, none) = (stat(&mut w, 0).0, stat(&mut w, USER).0);
    assert_eq!(none, 0);
    assert_eq!(w.control(&[vm::SET_ACCOUNT, child.into(), USER.into()]), 0);
    let moved = stat(&mut w, USER).0;
    assert!(moved >= 50 && stat(&mut w, 0).0 == root - moved, "{moved}");
    w.audit();
    let own = w.fork(child).unwrap();
    assert!(stat(&mut w, USER).0 >= moved + 16);
    w.destroy(own);
    w.destroy(child);
    assert_eq!(stat(&mut w, USER), (0, 0));
    w.audit();
}

#[test]
fn records_of_one_user_leave_room_for_those_of_others() {
    let mut w = World::new(4000);
    let (user, other) = (program(&mut w, USER), program(&mut w, OTHER));
    for id in [user, other] {
        w.map(id, P, 1);
        w.write(id, P, 1).unwrap();
    }
    let copy = vm::Giving::Copy as u64;
    let offer = [vm::OFFER, P * PAGE, PAGE, copy, 0];
    // Copies of one page take no frame, but a record each.
    let mut made = 0;
    let end = loop {
        match w.call(user, &offer) {
            0 => made += 1,
            error => break error,
        }
        assert!(made < 4000);
    };
    assert!(end == -ENOMEM && made > 1000, "{end} after {made}");
    let shared = [vm::MAP, 0, PAGE, RW, flags::SHARED];
    assert_eq!(w.call(user, &shared), -ENOMEM);
    assert!(w.call(other, &shared) > 0);
    assert_eq!(w.call(other, &offer), 0);
    w.audit();
    w.destroy(user);
    w.audit();
}

#[test]
fn a_component_that_copies_for_a_program_does_not_wait() {
    let mut w = World::new(4000);
    watch(&mut w);
    let _first = w.create();
    let server = component(&mut w);
    let user = program(&mut w, USER);
    w.map(user, P, 4000);
    let reached = fill(&mut w, user, P, 4000);
    let badge =
        w.vm.spaces
            .get(w.vm.domain(user).unwrap().space)
            .unwrap()
            .handle;
    let copy = |w: &mut World, page: u64| {
        let access = fault::WRITE | fault::COPY;
        let words = [page * PAGE, access, 0, 0, server.into(), 0, 0, 0];
        let request = Request {
            kind: cairn_abi::received::kind::FAULT,
            words,
            badge,
            token: page,
            ..Request::default()
        };
        w.request(request).1.map(|answer| answer.words[0])
    };
    // It gets what user 0 has beyond users, and then it hears that there is nothing: at no time it stands.
    let answers: Vec<_> = (1..400).map(|i| copy(&mut w, P + reached + i)).collect();
    assert_eq!(answers[0], Some(fault::RESOLVED));
    assert_eq!(answers.last(), Some(&Some(fault::REFUSED)));
    assert!(answers.iter().all(Option::is_some));
    assert!(w.vm.frames.free() >= w.vm.reserve);
    w.audit();
}

const GROUP: u32 = vm::GROUP_FIRST + 7;
const INNER: u32 = vm::GROUP_FIRST + 8;

fn group(w: &mut World, id: u32, above: u32, there: bool) -> i64 {
    w.control(&[vm::GROUP, id.into(), above.into(), there.into()])
}

/// Whatever a group below has, those above it have as well; the limit that is reached first decides who ends, and nobody beside it does.
#[test]
fn groups_nest() {
    let mut w = World::new(8000);
    watch(&mut w);
    let server = component(&mut w);
    assert_eq!(w.control(&[vm::GROUP, USER.into(), 0, 1]), -EINVAL);
    assert_eq!(group(&mut w, INNER, GROUP, true), -ENOENT);
    assert_eq!(group(&mut w, GROUP, 0, true), 0);
    assert_eq!(group(&mut w, GROUP, 0, true), -EEXIST);
    assert_eq!(group(&mut w, INNER, GROUP, true), 0);
    let beside = program(&mut w, USER);
    w.map(beside, P, 3000);
    assert_eq!(fill(&mut w, beside, P, 1000), 1000);
    let (small, large) = (program(&mut w, GROUP), program(&mut w, INNER));
    let before = stat(&mut w, GROUP).0;
    assert!(before >= stat(&mut w, INNER).0 && stat(&mut w, INNER).0 > 0);
    w.map(large, P, 1000);
    w.map(small, P, 1000);
    assert_eq!(fill(&mut w, large, P, 200), 200);
    assert_eq!(fill(&mut w, small, P, 100), 100);
    // (Whoever writes in a row gets some more.)
    assert!((before + 300..before + 330).contains(&stat(&mut w, GROUP).0));
    // A server asks who pays, and buys for it; the label's user pays nothing.
    assert_eq!(
        w.call(server, &[vm::ACCOUNT_OF, large.into()]),
        INNER.into()
    );
    assert_eq!(
        w.call(server, &[vm::ACCOUNT_OF, beside.into()]),
        USER.into()
    );
    assert_eq!(w.call(large, &[vm::ACCOUNT_OF, beside.into()]), -EPERM);
    assert_eq!(charge(&mut w, server, INNER, 50), 0);
    assert_eq!((stat(&mut w, INNER).1, stat(&mut w, GROUP).1), (50, 50));
    assert_eq!(stat(&mut w, USER).1, 0);
    w.audit();
    // The outer one's limit.
    let limit = stat(&mut w, GROUP).0 + 50 + 60;
    assert_eq!(w.control(&[vm::ACCOUNT_LIMIT, GROUP.into(), limit]), 0);
    assert_eq!(charge(&mut w, server, INNER, 70), -ENOMEM);
    assert!(fill(&mut w, small, P + 100, 500) <= 70);
    assert_eq!(exhausted(&mut w, 0), Ok(large));
    w.destroy(large);
    assert_eq!(exhausted(&mut w, 0), Err(-ESRCH));
    let told = w
        .call_badge(INIT, 0, &[vm::ACCOUNT_STAT, GROUP.into()])
        .words;
    assert!(told[6] > 0 && told[7] == 1 << 32 | 1);
    // It cannot go as long as programs of it live; what is kept for it stays counted above.
    assert_eq!(group(&mut w, GROUP, 0, false), -EBUSY);
    assert_eq!(group(&mut w, INNER, 0, false), 0);
    assert_eq!(group(&mut w, INNER, 0, false), -ENOENT);
    assert_eq!((stat(&mut w, INNER).1, stat(&mut w, GROUP).1), (50, 50));
    assert_eq!(charge(&mut w, server, INNER, -50), 0);
    assert_eq!(stat(&mut w, GROUP).1, 0);
    w.destroy(small);
    assert_eq!(group(&mut w, GROUP, 0, false), 0);
    assert_eq!(stat(&mut w, GROUP).0, 0);
    w.audit();
}

/// Who moves takes along what is its alone, and a copy is in its parent's group.
#[test]
fn programs_move_between_groups() {
    let mut w = World::new(4000);
    assert_eq!(group(&mut w, GROUP, 0, true), 0);
    let root = program(&mut w, 0);
    w.map(root, P, 100);
    assert_eq!(fill(&mut w, root, P, 100), 100);
    let has = stat(&mut w, 0).0;
    assert_eq!(
        w.control(&[vm::SET_ACCOUNT, root.into(), GROUP.into(), 1]),
        0
    );
    assert!(stat(&mut w, 0).0 + 100 <= has && stat(&mut w, GROUP).0 >= 100);
    let child = w.fork(root).unwrap();
    let server = component(&mut w);
    assert_eq!(
        w.call(server, &[vm::ACCOUNT_OF, child.into()]),
        GROUP.into()
    );
    // User 0's limit is none, but its group's is.
    assert_eq!(w.control(&[vm::ACCOUNT_LIMIT, GROUP.into(), 1]), 0);
    assert!(w.fork(root).is_err());
    w.audit();
}
