//! Timers, futexes, limits, priorities, reports, mounts, and what is refused.

use super::invariants::check;
use crate::fake::World;
use crate::system::SpaceLimits;
use cairn_abi::{policy, priority, Token};
use cairn_idl::errno::*;
use cairn_idl::proc::*;
use cairn_rt::Portal;

fn advance(w: &mut World, to: u64) {
    w.m.system.now = to;
    w.m.expire();
}

/// The owner says that it has the signal.
fn tell(w: &mut World, pid: u64, timer: u64) -> i64 {
    w.call(pid, &[TIMER, 5, timer]).result()
}

#[test]
fn the_interval_timer_repeats_and_can_be_read() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(
        w.call(a, &[SETITIMER, 0, 1_000_000, 300_000]).words()[..3],
        [0, 0, 0]
    );
    assert_eq!(w.m.deadline(), Some(1_000_000));
    advance(&mut w, 999_999);
    assert_eq!(w.take(a), 0);
    assert_eq!(w.call(a, &[GETITIMER, 0]).words()[..3], [0, 1, 300_000]);
    advance(&mut w, 1_000_000);
    assert_eq!(w.m.deadline(), None, "nothing more until it was taken");
    assert_eq!(w.call(a, &[SIGNAL_TAKE]).words()[4], taken::TELL);
    assert_eq!(w.m.deadline(), None);
    tell(&mut w, a, TIMER_REAL);
    assert_eq!(w.m.deadline(), Some(1_300_000));
    advance(&mut w, 1_950_000);
    assert_eq!(
        w.call(a, &[GETITIMER, 0]).words()[..3],
        [0, 250_000, 300_000]
    );
    advance(&mut w, 2_000_000);
    assert_eq!(
        [w.take(a), w.take(a)],
        [14, 0],
        "missed ones are one signal"
    );
    tell(&mut w, a, TIMER_REAL);
    tell(&mut w, a, TIMER_REAL);
    assert_eq!(w.m.deadline(), Some(2_200_000));
    // A signal that somebody sent before is the timer's as well.
    w.kill(a, a as i64, 14);
    advance(&mut w, 2_200_000);
    assert_eq!(w.call(a, &[SIGNAL_TAKE]).words()[4], taken::TELL);
    w.call(a, &[SETITIMER, 0, 100, 0]);
    tell(&mut w, a, TIMER_REAL);
    for now in [2_200_100, 2_200_200] {
        advance(&mut w, now);
        assert_eq!(w.call(a, &[SIGNAL_TAKE]).words()[..5], [14, 0x80, 0, 0, 0]);
        w.call(a, &[SETITIMER, 0, 100, 0]);
    }
    w.call(a, &[SETITIMER, 0, 100, 300_000]);
    advance(&mut w, 2_200_300);
    // The program that is executed next does not know of it.
    assert_eq!(w.call_with(a, b"x", &[EXEC, 1]).result(), 0);
    assert_eq!(w.m.deadline(), Some(2_500_300));
    w.call(a, &[SETITIMER, 0, 200_000, 300_000]);
    assert_eq!(
        w.call(a, &[SETITIMER, 0, 0, 0]).words()[..3],
        [0, 200_000, 300_000]
    );
    assert_eq!(w.m.deadline(), None);
    assert_eq!(w.call(a, &[SETITIMER, 3, 5, 0]).result(), -EINVAL);
    // Far away is no overflow, and a child has no timers.
    w.call(a, &[SETITIMER, 0, u64::MAX, u64::MAX]);
    let b = w.fork(a);
    assert_eq!(w.call(b, &[GETITIMER, 0]).words()[..3], [0, 0, 0]);
    check(&w);
    w.exit(a, 0);
    assert_eq!(w.m.deadline(), None);
    check(&w);
}

#[test]
fn posix_timers_count_what_they_miss() {
    let mut w = World::new();
    let a = w.fork(1);
    let id = w.call(a, &[TIMER, 0, 34, 0xabc, 1 << 32]).result() as u64;
    assert_eq!(id, 1);
    assert_eq!(w.call(a, &[TIMER, 1, id, 1_000_000, 100_000]).result(), 0);
    advance(&mut w, 1_050_000);
    let words = w.call(a, &[SIGNAL_TAKE]).words();
    assert_eq!(words[..5], [34, -2i64 as u64, id, 0xabc, taken::TELL]);
    assert_eq!(
        w.call(a, &[TIMER, 2, id]).words()[..3],
        [0, 50_000, 100_000]
    );
    advance(&mut w, 1_350_000);
    assert_eq!(w.take(a), 0);
    assert_eq!(w.call(a, &[TIMER, 4, id]).result(), 0);
    assert_eq!(w.call(a, &[TIMER, 5, id]).result(), 3);
    assert_eq!(w.call(a, &[TIMER, 4, id]).result(), 3);
    assert_eq!(w.call(a, &[TIMER, 5, id]).result(), 3, "said twice");
    // The next signal waits: what is told is of the one before.
    advance(&mut w, 1_400_000);
    assert_eq!(w.call(a, &[TIMER, 4, id]).result(), 3);
    w.take(a);
    advance(&mut w, 1_650_000);
    assert_eq!(w.call(a, &[TIMER, 5, id]).result(), 2);
    assert_eq!(
        w.call(a, &[TIMER, 2, id]).words()[..3],
        [0, 50_000, 100_000]
    );
    assert_eq!(w.call(a, &[TIMER, 3, id]).result(), 0);
    assert_eq!(w.call(a, &[TIMER, 2, id]).result(), -EINVAL);
    for wrong in [0, 2, 5, u64::MAX] {
        assert_eq!(w.call(a, &[TIMER, 2, wrong]).result(), -EINVAL);
    }
    assert_eq!(w.call(a, &[TIMER, 9, 0]).result(), -EINVAL);
    assert_eq!(w.m.deadline(), None);
    w.call(a, &[TIMER, 0, 34, 0]);
    w.call(a, &[TIMER, 1, 0, 9_000_000, 0]);
    w.call(a, &[SETITIMER, 0, 1_000_000, 0]);
    assert_eq!(w.call_with(a, b"x", &[EXEC, 1]).result(), 0);
    assert_eq!(w.m.timers.len(), 1, "exec keeps the interval timer only");
    check(&w);
}

/// Take all signals and say so: how many there were, and the overruns of the last.
fn take_timers(w: &mut World, pid: u64) -> (u32, i64) {
    let (mut count, mut overruns) = (0, 0);
    loop {
        let words = w.call(pid, &[SIGNAL_TAKE]).words();
        if words[0] == 0 {
            return (count, overruns);
        }
        assert_eq!(words[4] & taken::TELL, taken::TELL);
        count += 1;
        overruns = tell(w, pid, words[2]);
    }
}

#[test]
fn however_short_an_interval_is_it_costs_what_its_owner_takes() {
    let mut w = World::new();
    let a = w.fork(1);
    for _ in 0..64 {
        let id = w.call(a, &[TIMER, 0, 10, 0]).result() as u64;
        w.call(a, &[TIMER, 1, id, 1, 1]);
    }
    w.call(a, &[SETITIMER, 0, 1000, 1000]);
    w.m.system.now = 1_000_000;
    let mut entries = 0;
    while w.m.deadline().is_some() {
        w.m.expire();
        check(&w);
        entries += 1;
    }
    assert_eq!(entries, 5, "in shares of 16");
    // Each has its own signal, though it is one that does not queue.
    w.m.system.now = 2_000_000;
    let words = w.call(a, &[SIGNAL_TAKE]).words();
    let (signal, overruns) = (words[0], tell(&mut w, a, words[2]));
    assert_eq!((signal, overruns), (10, 1_999_999));
    assert_eq!(take_timers(&mut w, a).0, 63 + 1);
    assert_eq!(
        w.m.timers.len(),
        65 - 1,
        "the interval timer's was not said"
    );
    tell(&mut w, a, TIMER_REAL);
    assert_eq!(w.m.timers.len(), 65);
    check(&w);
    w.exit(a, 0);
    assert_eq!(w.m.deadline(), None);
    assert!(w.m.timers_of.is_empty());
}

#[test]
fn timers_whose_signal_is_ignored_wait_until_it_is_not() {
    let mut w = World::new();
    let a = w.fork(1);
    let id = w.call(a, &[TIMER, 0, 10, 0]).result() as u64;
    w.call(a, &[TIMER, 1, id, 1000, 1000]);
    let ignored = w.m.processes[w.slot(a)].dispositions.ignored;
    w.call(a, &[SIGNAL_STATE, ignored | 1 << 9, 0, 0]);
    advance(&mut w, 1000);
    assert_eq!((w.take(a), w.m.deadline()), (0, None));
    assert_eq!(w.call(a, &[TIMER, 2, id]).words()[..3], [0, 1000, 1000]);
    advance(&mut w, 5300);
    assert_eq!(w.call(a, &[TIMER, 2, id]).words()[..3], [0, 700, 1000]);
    w.call(a, &[SIGNAL_STATE, ignored, 1 << 9, 0]);
    assert_eq!(w.m.deadline(), Some(6000));
    advance(&mut w, 6000);
    // What is forgotten is as if it had been ignored.
    w.call(a, &[SIGNAL_STATE, ignored | 1 << 9, 0, 0]);
    assert_eq!((w.take(a), w.m.deadline()), (0, None));
    w.call(a, &[SIGNAL_STATE, ignored, 0, 0]);
    assert_eq!(w.m.deadline(), Some(7000));
    // A timer that tells nobody is only looked at.
    let silent = w.call(a, &[TIMER, 0, 0, 0]).result() as u64;
    w.call(a, &[TIMER, 1, silent, 6500, 100]);
    assert_eq!(w.m.timers.len(), 1);
    advance(&mut w, 6730);
    assert_eq!(w.call(a, &[TIMER, 2, silent]).words()[..3], [0, 70, 100]);
    check(&w);
}

#[test]
fn a_thread_can_have_a_timer_of_its_own() {
    let mut w = World::new();
    let a = w.fork(1);
    let [tid, thread, ..] = w.call(a, &[THREAD_CREATE, 1]).words();
    assert_eq!(w.call(a, &[TIMER, 0, 32, 0, 4711]).result(), -EINVAL);
    assert_eq!(w.call(a, &[TIMER, 0, 32, 0, 1]).result(), -EINVAL);
    let own_id = tid | 1 << 32 | TIMER_OWN_ID;
    let id = w.call(a, &[TIMER, 0, 32, 99, own_id]).result() as u64;
    w.call(a, &[TIMER, 1, id, 1000, 1000]);
    advance(&mut w, 1000);
    assert_eq!(w.take(a), 0);
    let words = w.call_by(a, thread as u32, b"", &[SIGNAL_TAKE]).words();
    assert_eq!(words[2..5], [id, id, taken::THREAD | taken::TELL]);
    // To another thread, by the first that was asked.
    let forwarded = [TGKILL, a, a, 32, -2i64 as u64, id, 0, id];
    assert_eq!(w.call_by(a, thread as u32, b"", &forwarded).result(), 0);
    let words = w.call(a, &[SIGNAL_TAKE]).words();
    assert_eq!(words[2..5], [id, id, taken::THREAD | taken::TELL]);
    assert_eq!(tell(&mut w, a, id), 0);
    w.call_by(a, thread as u32, b"", &[THREAD_EXIT]).token();
    advance(&mut w, 3000);
    assert_eq!((w.take(a), w.m.deadline()), (0, None));
    check(&w);
}

#[test]
fn a_user_has_so_many_timers() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    let limit: Vec<u8> = [5u64, 9].iter().flat_map(|n| n.to_le_bytes()).collect();
    for pid in [a, b] {
        w.call_with(pid, &limit, &[PRLIMIT, 11, 0, 1]);
        w.set_ids(pid, [7, 7, 7]);
    }
    let ids: Vec<i64> = (0..6)
        .map(|n| w.call([a, b][n % 2], &[TIMER]).result())
        .collect();
    assert_eq!(ids, [0, 0, 4, 4, 8, -EAGAIN]);
    assert_eq!(w.call(a, &[TIMER, 3, 0]).result(), 0);
    assert_eq!(w.call(a, &[TIMER, 3, 0]).result(), -EINVAL);
    assert_eq!(w.call(b, &[TIMER]).result(), 8);
    assert_eq!(w.call(a, &[TIMER]).result(), -EAGAIN);
    w.exit(b, 0);
    assert_eq!(
        [0, 0, 0].map(|n| w.call(a, &[TIMER, n]).result()),
        [0, 12, 16]
    );
    w.call_with(a, b"x", &[EXEC, 1]);
    assert!(w.m.timers_of.is_empty());
    check(&w);
}

#[test]
fn futexes_wake_in_order_and_in_time() {
    let mut w = World::new();
    let (a, b, c) = (w.fork(1), w.fork(1), w.fork(1));
    let first = w.call(a, &[FUTEX, 0, 77, 0, 0, 1]).token();
    let second = w.call(b, &[FUTEX, 0, 77, 0, 0, 0, 1000]).token();
    check(&w);
    assert_eq!(w.call(c, &[FUTEX, 1, 78, 9]).result(), 0);
    assert_eq!(w.call(c, &[FUTEX, 1, 77, 1]).result(), 1);
    assert_eq!(w.reply(first).unwrap()[0], 0);
    // There were two wakes: who has not seen them looks again.
    let page = w.m.prefixes.page().bytes();
    assert_eq!(page[page.len() - 8..], 2u64.to_le_bytes());
    assert_eq!(w.call(a, &[FUTEX, 0, 77, 0, 1, 1]).result(), 1);
    advance(&mut w, 1000);
    assert_eq!(w.reply(second).unwrap()[0] as i64, -ETIMEDOUT);
    check(&w);
    let third = w.call(a, &[FUTEX, 0, 77, 0, 0, 0, 5000]).token();
    w.unblock(third);
    assert_eq!(w.reply(third).unwrap()[0] as i64, -EINTR);
    w.call(b, &[FUTEX, 0, 77, 0, 0, 0, 5000]).token();
    w.kill(c, b as i64, 9);
    assert_eq!(w.call(c, &[FUTEX, 1, 77, 9]).result(), 0);
    assert_eq!(w.m.deadline(), None);
    assert_eq!(w.call(c, &[FUTEX, 0, 77, 0, 0, 0, 1]).result(), -ETIMEDOUT);
    assert_eq!(w.call(c, &[FUTEX, 4, 77]).result(), -EINVAL);
    check(&w);
}

#[test]
fn futexes_wake_by_real_time_priority() {
    let mut w = World::new();
    let [a, b, c, d] = [0; 4].map(|_| w.fork(1));
    let changes = |w: &World| {
        let page = w.m.prefixes.page().bytes();
        page[page.len() - 16]
    };
    assert_eq!(changes(&w), 0);
    assert_eq!(w.call(b, &[SETSCHEDULER, 1, 10]).result(), 0);
    assert_eq!(w.call(c, &[SETSCHEDULER, 2, 20]).result(), 0);
    assert_eq!(w.call(c, &[SETSCHEDULER, 1, 20]).result(), 0);
    assert_eq!(changes(&w), 2);
    let waiting = [a, b, c].map(|pid| w.call(pid, &[FUTEX, 0, 77]).token());
    for first in [2, 1, 0] {
        assert_eq!(w.call(d, &[FUTEX, 1, 77, 1]).result(), 1);
        for (at, token) in waiting.iter().enumerate() {
            assert_eq!(w.reply(*token).is_some(), at == first);
        }
        check(&w);
    }
}

const AREA: u64 = 0x10_0000;
const HEAD: u64 = 0x20_0000;
const MUTEX: u64 = 0x30_0000;
const WORD: u64 = MUTEX + 32;

/// Memory of a thread that has a robust list with a mutex, whose word this is, and another entry behind it.
fn robust(w: &mut World, tid: u64, word: u32, next: u64) {
    let mut area = vec![0; (THREAD_ROBUST + 8 - THREAD_TID) as usize];
    area[..4].copy_from_slice(&(tid as u32).to_le_bytes());
    let at = area.len() - 8;
    area[at..].copy_from_slice(&HEAD.to_le_bytes());
    let head = [MUTEX, WORD - MUTEX, 0].map(u64::to_le_bytes).concat();
    let system = &mut w.m.system;
    system.registers.gs_base = AREA;
    system.written.clear();
    system.memory = vec![
        (AREA + THREAD_TID, area),
        (HEAD, head),
        (MUTEX, next.to_le_bytes().to_vec()),
        (WORD, word.to_le_bytes().to_vec()),
    ];
}

#[test]
fn robust_mutexes_of_who_is_killed_are_given_back() {
    let mut w = World::new();
    let [a, b, c, d] = [0; 4].map(|_| w.fork(1));
    let own = a as u32;
    robust(&mut w, a, own | LOCK_WAITERS, HEAD);
    let waits = w.call(d, &[FUTEX, 0, WORD]).token();
    w.kill(c, a as i64, 9);
    let died = LOCK_WAITERS | LOCK_OWNER_DIED;
    let written = core::mem::take(&mut w.m.system.written);
    assert_eq!(written, [(WORD, died.to_le_bytes().to_vec())]);
    assert_eq!(w.reply(waits).unwrap()[0], 0);
    check(&w);
    // Another's mutex in a list without an end.
    robust(&mut w, b, own, MUTEX);
    w.kill(c, b as i64, 9);
    // Who ends by itself has done it, unless others end with it.
    robust(&mut w, c, c as u32, HEAD);
    w.exit(c, 0);
    assert_eq!(w.m.system.written, []);
    check(&w);
}

/// FUTEX's second and third operation: how many were woken, what to ask again with, how many were moved.
fn walked(w: &mut World, pid: u64, words: &[u64]) -> [u64; 4] {
    let [woken, rest, last, moved, ..] = w.call(pid, words).words();
    [woken, rest, last, moved]
}

fn moved(w: &mut World, pid: u64, words: &[u64]) -> [u64; 2] {
    let [woken, rest, _, moved] = walked(w, pid, words);
    assert_eq!(rest, 0);
    [woken, moved]
}

/// Each message wakes or moves a few of many; who comes in between waits for the next one who wakes.
#[test]
fn many_futexes_are_woken_and_moved_in_pieces() {
    let mut w = World::new();
    let [a, late, urgent] = [0; 3].map(|_| w.fork(1));
    let waiting: Vec<u64> = (0..300).map(|_| w.fork(1)).collect();
    assert_eq!(w.call(urgent, &[SETSCHEDULER, 1, 10]).result(), 0);
    let tokens: Vec<Token> = waiting
        .iter()
        .map(|&pid| w.call(pid, &[FUTEX, 0, 77]).token())
        .collect();
    let [woken, rest, last, _] = walked(&mut w, a, &[FUTEX, 1, 77, 1000]);
    assert!(woken == 128 && rest != 0);
    let others = [late, urgent].map(|pid| w.call(pid, &[FUTEX, 0, 77]).token());
    check(&w);
    let [woken, rest, last, _] = walked(&mut w, a, &[FUTEX, 1, 77, 1000, 0, rest, last]);
    assert!(woken == 128 && rest != 0);
    let [woken, rest, _, _] = walked(&mut w, a, &[FUTEX, 1, 77, 1000, 0, rest, last]);
    assert_eq!((woken, rest), (44, 0));
    assert!(tokens.iter().all(|&token| w.reply(token).is_some()));
    assert!(others.iter().all(|&token| w.reply(token).is_none()));
    for &pid in &waiting {
        w.call(pid, &[FUTEX, 0, 77]).token();
    }
    // The more important one first.
    let (mut all, mut told) = ([0, 0], [0, 0]);
    for piece in 0.. {
        let left = [1 - all[0], 1000 - all[1]];
        let [woken, rest, last, moved] = walked(
            &mut w,
            a,
            &[FUTEX, 2, 77, left[0], 78, left[1], told[0], told[1]],
        );
        (all, told) = ([all[0] + woken, all[1] + moved], [rest, last]);
        assert!(moved <= 128);
        check(&w);
        if rest == 0 {
            assert_eq!(piece, 2);
            break;
        }
    }
    assert_eq!(all, [1, 301]);
    assert!(w.reply(others[1]).is_some() && w.reply(others[0]).is_none());
    assert_eq!(moved(&mut w, a, &[FUTEX, 1, 77, 1000]), [0, 0]);
}

#[test]
fn futexes_wake_by_bits_and_waiters_are_moved() {
    let mut w = World::new();
    let [a, b, c, d] = [0; 4].map(|_| w.fork(1));
    let first = w.call(a, &[FUTEX, 0, 77, 1]).token();
    let second = w.call(b, &[FUTEX, 0, 77, 2, 0, 0, 5000]).token();
    assert_eq!(w.call(d, &[FUTEX, 1, 77, 9, 4]).result(), 0);
    assert_eq!(w.call(d, &[FUTEX, 1, 77, 9, 2]).result(), 1);
    assert_eq!(w.reply(second).unwrap()[0], 0);
    assert_eq!(w.reply(first), None);
    // One is woken, one moved, one stays; who was moved has its bits and its deadline.
    let second = w.call(b, &[FUTEX, 0, 77, 2, 0, 0, 5000]).token();
    let third = w.call(c, &[FUTEX, 0, 77]).token();
    assert_eq!(moved(&mut w, d, &[FUTEX, 2, 77, 1, 1 << 40, 1]), [1, 1]);
    check(&w);
    assert_eq!(w.reply(first).unwrap()[0], 0);
    assert_eq!(w.call(d, &[FUTEX, 1, 1 << 40, 9, 1]).result(), 0);
    assert_eq!(w.call(d, &[FUTEX, 1, 77, 9]).result(), 1);
    assert_eq!(w.reply(third).unwrap()[0], 0);
    advance(&mut w, 5000);
    assert_eq!(w.reply(second).unwrap()[0] as i64, -ETIMEDOUT);
    check(&w);
    // To the same word nothing is moved; who was moved is poked, or ends.
    let first = w.call(a, &[FUTEX, 0, 77]).token();
    w.call(b, &[FUTEX, 0, 77]).token();
    assert_eq!(moved(&mut w, d, &[FUTEX, 2, 77, 0, 77, 9]), [0, 0]);
    assert_eq!(moved(&mut w, d, &[FUTEX, 2, 77, 0, 78, 9]), [0, 2]);
    w.unblock(first);
    assert_eq!(w.reply(first).unwrap()[0] as i64, -EINTR);
    w.kill(d, b as i64, 9);
    assert_eq!(w.call(d, &[FUTEX, 1, 78, 9]).result(), 0);
    // Someone came between look and call: a move counts as a wake.
    assert_eq!(w.call(a, &[FUTEX, 0, 77, 0, 0, 1]).result(), 1);
    check(&w);
}

#[test]
fn the_first_of_several_futexes_wakes() {
    let mut w = World::new();
    let [a, b, c] = [0; 3].map(|_| w.fork(1));
    let keys = |keys: &[u64]| -> Vec<u8> { keys.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let three = keys(&[70, 71, 72]);
    let wait = [FUTEX, 3, 0, 0, 0, 0];
    let first = w.call_with(a, &three, &wait).token();
    let second = w.call(b, &[FUTEX, 0, 72]).token();
    check(&w);
    assert_eq!(w.call(c, &[FUTEX, 1, 72, 1]).result(), 1);
    assert_eq!(w.reply(first).unwrap()[..2], [0, 2]);
    assert_eq!(w.reply(second), None);
    check(&w);
    for key in [70, 71] {
        assert_eq!(w.call(c, &[FUTEX, 1, key, 9]).result(), 0);
    }
    // There were wakes since the caller looked.
    assert_eq!(w.call_with(a, &three, &wait).result(), 1);
    // In time, poked, ended; moved to another word; the same word twice.
    let wait = [FUTEX, 3, 0, 0, 3, 0, 5000];
    w.call_with(a, &three, &wait).token();
    advance(&mut w, 5000);
    let wait = [FUTEX, 3, 0, 0, 3, 0];
    let poked = w.call_with(a, &three, &wait).token();
    w.unblock(poked);
    assert_eq!(w.reply(poked).unwrap()[0] as i64, -EINTR);
    check(&w);
    let moved = w.call_with(a, &keys(&[70, 71, 71]), &wait).token();
    assert_eq!(w.call(c, &[FUTEX, 2, 71, 0, 73, 9]).result(), 0);
    check(&w);
    assert_eq!(w.call(c, &[FUTEX, 1, 71, 9]).result(), 0);
    assert_eq!(w.call(c, &[FUTEX, 1, 73, 9]).result(), 1);
    assert_eq!(w.reply(moved).unwrap()[..2], [0, 1]);
    let wait = [FUTEX, 3, 0, 0, 6, 0];
    w.call_with(b, b"", &[FUTEX, 1, 72, 1]).result();
    w.call_with(a, &three, &[FUTEX, 3, 0, 0, 7, 0]).token();
    w.kill(c, a as i64, 9);
    check(&w);
    assert_eq!(w.call(c, &[FUTEX, 1, 70, 9]).result(), 0);
    for wrong in [&b""[..], b"12345678 ", &[0; 8 * 130]] {
        let wait = [wait[0], 3, 0, 0, 8, 0];
        assert_eq!(w.call_with(c, wrong, &wait).result(), -EINVAL);
    }
    check(&w);
}

#[test]
fn limits_are_checked_and_inherited() {
    let mut w = World::new();
    let a = w.fork(1);
    let pair = |soft: u64, hard: u64| -> Vec<u8> {
        [soft, hard].iter().flat_map(|n| n.to_le_bytes()).collect()
    };
    w.room = 16;
    assert_eq!(w.call(a, &[PRLIMIT, 7]).result(), 0);
    assert_eq!(w.m.system.input, pair(1024, 4096));
    assert_eq!(
        w.call_with(a, &pair(9, 8), &[PRLIMIT, 7, 0, 1]).result(),
        -EINVAL
    );
    assert_eq!(
        w.call_with(a, &pair(1, 1 << 40), &[PRLIMIT, 7, 0, 1])
            .result(),
        -EPERM
    );
    assert_eq!(
        w.call_with(a, &pair(64, 128), &[PRLIMIT, 7, 0, 1]).result(),
        0
    );
    let b = w.fork(a);
    w.set_ids(b, [5, 5, 5]);
    assert_eq!(
        w.call_with(b, &pair(64, 129), &[PRLIMIT, 7, 0, 1]).result(),
        -EPERM
    );
    assert_eq!(
        w.call_with(b, &pair(128, 128), &[PRLIMIT, 7, 0, 1])
            .result(),
        0
    );
    assert_eq!(
        w.call_with(b, &pair(1, 1), &[PRLIMIT, 7, a, 1]).result(),
        -EPERM
    );
    assert_eq!(
        w.call_with(b, b"short", &[PRLIMIT, 7, 0, 1]).result(),
        -EFAULT
    );
    assert_eq!(w.call(b, &[PRLIMIT, 16]).result(), -EINVAL);
    assert_eq!(w.call(b, &[PRLIMIT, u64::MAX]).result(), -EINVAL);
    w.call(a, &[PRLIMIT, 7]);
    assert_eq!(w.m.system.input, pair(64, 128));
    // The address space's is kept by `vm`, in pages.
    let forever = u64::MAX;
    for (soft, hard) in [(40_960, forever), (7, forever), (forever, forever)] {
        w.call_with(a, &pair(soft, hard), &[PRLIMIT, 9, 0, 1]);
    }
    let told = |w: &World| w.m.system.space_limits.last().copied();
    let mapped: Vec<_> = w.m.system.space_limits.iter().map(|l| l.pages).collect();
    assert_eq!(mapped[mapped.len() - 3..], [10, 1, 0]);
    // What is data and what may be locked as well; who may lock anything has no limit.
    w.call_with(a, &pair(8192, forever), &[PRLIMIT, 2, 0, 1]);
    w.call_with(a, &pair(4096, 4096), &[PRLIMIT, 8, 0, 1]);
    let all = SpaceLimits {
        pages: 0,
        data: 2,
        lock: forever,
    };
    assert_eq!(told(&w), Some(all));
    // capset(2): the right is gone.
    w.call(a, &[SET_CAPABILITIES, 0, 0, 0]);
    assert_eq!(told(&w), Some(SpaceLimits { lock: 4096, ..all }));
    // As many tasks as the machine's memory is for.
    w.call(a, &[PRLIMIT, 6]);
    assert_eq!(w.m.system.input, pair(1024, 1024));
}

#[test]
fn priorities_reach_the_nucleus() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(w.call(a, &[SETPRIORITY, 0, 0, 5]).result(), 0);
    assert_eq!(w.m.system.priorities.pop(), Some([59, policy::ADAPTIVE, 0]));
    assert_eq!(w.call(a, &[GETPRIORITY, 0, 0]).result(), 15);
    w.set_ids(a, [5, 5, 5]);
    assert_eq!(w.call(a, &[SETPRIORITY, 0, 0, 4]).result(), -EACCES);
    assert_eq!(w.call(a, &[SETPRIORITY, 0, 1, 9]).result(), -EPERM);
    assert_eq!(w.call(a, &[SETPRIORITY, 0, 4711, 9]).result(), -ESRCH);
    assert_eq!(w.call(a, &[SETPRIORITY, 3, 0, 9]).result(), -EINVAL);
    assert_eq!(w.call(a, &[SETSCHEDULER, 1, 50, 0]).result(), -EPERM);
    assert_eq!(w.call(1, &[SETSCHEDULER, 1, 99, a]).result(), 0);
    assert_eq!(w.m.system.priorities.pop(), Some([127, policy::FIFO, 0]));
    assert_eq!(w.call(1, &[GETSCHEDULER, a]).words()[..2], [1, 99]);
    assert_eq!(w.call(1, &[SETSCHEDULER, 1, 100, a]).result(), -EINVAL);
    assert_eq!(w.call(1, &[SETSCHEDULER, 0, 1, a]).result(), -EINVAL);
    let b = w.fork(a);
    let domain = w.domain(b);
    let start = w.m.system.of(domain).start;
    assert_eq!((start.priority, start.policy), (127, policy::FIFO));
    // A turn of SCHED_RR is longer than the nucleus's own, also a child's and a thread's.
    assert_eq!(w.call(1, &[SETSCHEDULER, 2, 99, a]).result(), 0);
    let turn = Some([127, policy::ROUND_ROBIN, 100_000_000]);
    assert_eq!(w.m.system.priorities.pop(), turn);
    w.m.system.priorities.clear();
    w.fork(a);
    assert_eq!(w.m.system.priorities.pop(), turn);
    w.call(a, &[THREAD_CREATE, 0x1000, 0x2000]);
    assert_eq!(w.m.system.priorities.pop(), turn);
    assert_eq!(w.call(1, &[SETSCHEDULER, 0, 0, a]).result(), 0);
    w.m.system.priorities.clear();
    w.fork(a);
    assert_eq!(w.m.system.priorities.pop(), None);
}

#[test]
fn the_process_table_can_be_read() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    w.exit(b, 0);
    w.room = 4096;
    assert_eq!(w.component(role::INSPECT, b"", &[PIDS, 0]).result(), 3);
    let expected: Vec<u8> = [1, a as u32, b as u32]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    assert_eq!(w.m.system.input, expected);
    assert_eq!(
        w.component(role::INSPECT, b"", &[PIDS, u64::MAX]).result(),
        0
    );
    assert_eq!(w.call(a, &[STATUS, b]).result(), 0);
    assert_eq!(w.m.system.input.len(), core::mem::size_of::<Status>());
    assert_eq!(w.m.system.input[24], b'Z');
    assert_eq!(w.call(a, &[STATUS, 4711]).result(), -ESRCH);
    w.call(a, &[THREAD_CREATE, 1]);
    assert_eq!(w.component(role::INSPECT, b"", &[TIDS, a]).result(), 2);
    let words = w.call(a, &[LOAD]).words();
    assert_eq!((words[0], words[1], words[7]), (3, 2, 77));
    w.room = 8;
    assert_eq!(w.component(role::INSPECT, b"", &[PIDS, 2]).result(), 2);
    assert_eq!(w.call(a, &[STATUS, a]).result(), -EINVAL);
    assert_eq!(w.system(b"", &[NOTE_FOREGROUND, a, 7]).result(), 0);
    assert_eq!(w.system(b"", &[NOTE_FOREGROUND, 1, 9]).result(), 0);
    assert_eq!(w.system(b"", &[NOTE_FOREGROUND, 4711, 7]).result(), -ESRCH);
    w.room = Status::BYTES;
    w.call(a, &[STATUS, a]);
    assert_eq!(w.m.system.input[20], 9);
}

#[test]
fn mounts_need_privilege_and_a_portal() {
    let mut w = World::new();
    let a = w.fork(1);
    let mount = [MOUNT, 5, 4, 0, 0, 0, 0, 90];
    let (id, label) = (w.domain(a).id, 0);
    assert_eq!(
        w.message(id, 1, 0, label, b"/procproc", &mount, 0).result(),
        -EINVAL
    );
    assert_eq!(
        w.message(id, 1, 0, 5, b"/procproc", &mount, 1).result(),
        -EPERM
    );
    assert_eq!(w.m.system.closed, [Portal(90)]);
    assert_eq!(
        w.message(id, 1, 0, label, b"/procproc", &mount, 1).result(),
        0
    );
    assert_eq!(w.m.system.closed.len(), 1);
    assert_eq!(
        w.message(id, 1, 0, label, b"/procproc", &mount, 1).result(),
        -EBUSY
    );
    assert_eq!(w.m.system.closed.len(), 2);
    // Only the folder's file server gives the portal of what is mounted in the tree, to whomever it is.
    assert_eq!(w.call(a, &[MOUNT_PORTAL, 0]).result(), -EACCES);
    let scheme = [MOUNT, 4, 0, 0, 0, 0, 0, 91];
    assert_eq!(w.message(id, 1, 0, label, b"dev:", &scheme, 1).result(), 1);
    assert_eq!(w.call(a, &[MOUNT_PORTAL, 1]).words()[7], 91);
    assert_eq!(w.call(a, &[MOUNT_PORTAL, u64::MAX]).result(), -ENOENT);
    assert_eq!(w.call_with(a, b"/proc/", &[UNMOUNT]).result(), 0);
    assert_eq!(w.m.system.closed.len(), 3);
    assert_eq!(w.call(a, &[MOUNT_PORTAL, 0]).result(), -ENOENT);
    let wild = [MOUNT, u64::MAX, u64::MAX, 0, 0, 0, 0, 91];
    assert_eq!(w.message(id, 1, 0, label, b"/", &wild, 1).result(), -EINVAL);
    let short = [MOUNT, 5, 4, 0, 0, 0, 0, 91];
    assert_eq!(
        w.message(id, 1, 0, label, b"/p", &short, 1).result(),
        -EFAULT
    );
    assert_eq!(w.call_with(a, b"box", &[SETHOSTNAME]).result(), 0);
    w.room = 4096;
    w.component(role::INSPECT, b"", &[PREFIXES]);
    assert_eq!(&w.m.system.input[16..20], b"box\0");
    w.set_ids(a, [5, 5, 5]);
    for refused in [SETHOSTNAME, UNMOUNT, POWER] {
        assert_eq!(w.call(a, &[refused]).result(), -EPERM);
    }
    assert_eq!(w.m.system.powered, None);
}

#[test]
fn strangers_and_wild_messages_get_errors() {
    let mut w = World::new();
    w.room = 64;
    assert_eq!(
        w.message(4242, 1, 0, 0, b"", &[FORK, 1, 2], 0).result(),
        -EPERM
    );
    let mut seed = 1u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..20_000 {
        let operation = random() % 90;
        if [FORK, THREAD_CREATE, THREAD_EXIT, EXIT, START].contains(&operation) {
            continue;
        }
        let words: Vec<u64> = core::iter::once(operation)
            .chain((0..7).map(|_| match random() % 4 {
                0 => random(),
                1 => random() % 8,
                2 => u64::MAX - random() % 4,
                _ => 1,
            }))
            .collect();
        // A caller that waits gets a successor.
        let domain = w.domain(1);
        let thread = w.m.processes[w.slot(1)].threads[0].id;
        let portals = (random() % 6) as usize;
        let called = w.message(
            domain.id,
            thread,
            random() % 2,
            0,
            b"/some/bytes",
            &words,
            portals,
        );
        if let crate::fake::Called::Waits(token) = called {
            w.unblock(token);
            if w.reply(token).is_none() && operation != EXEC_FRESH {
                // STOP_SELF: the first process is immune, so only a wait can be.
                panic!("{words:?} waits for ever");
            }
        }
        check(&w);
    }
}

#[test]
fn the_clock_is_set_by_who_may_and_timers_follow() {
    const HOUR: u64 = 3600 * 1_000_000_000;
    let mut w = World::new();
    let a = w.fork(1);
    w.m.system.wall = HOUR;
    let now = w.m.system.now;
    let of_wall = w.call(a, &[TIMER, 0, 34, 7, TIMER_CLOCK_REALTIME << 32, 0]);
    let ahead = w.call(a, &[TIMER, 0, 35, 8, TIMER_CLOCK_REALTIME << 32, 0]);
    let [of_wall, ahead] = [of_wall, ahead].map(|called| called.result() as u64);
    let set = [TIMER, 1, of_wall, now + 3 * HOUR, 0, TIMER_OF_WALL];
    assert_eq!(w.call(a, &set).result(), 0);
    assert_eq!(w.call(a, &[TIMER, 1, ahead, now + HOUR, 0, 0]).result(), 0);
    assert_eq!(w.call(a, &[TIMER, 2, of_wall]).words()[1], 2 * HOUR);
    assert_eq!(w.call(a, &[SET_CLOCK, 2 * HOUR]).result(), 0);
    assert_eq!(w.m.system.wall, 2 * HOUR);
    assert_eq!(w.call(a, &[TIMER, 2, of_wall]).words()[1], HOUR);
    assert_eq!(w.call(a, &[TIMER, 2, ahead]).words()[1], HOUR);
    assert_eq!(w.call(a, &[SET_CLOCK, 1 << 63]).result(), -EINVAL);
    w.set_ids(a, [5, 5, 5]);
    assert_eq!(w.call(a, &[SET_CLOCK, HOUR]).result(), -EPERM);
    assert_eq!(w.m.system.wall, 2 * HOUR);
}

/// SCHED_DEADLINE: who may, which times, and what becomes of it when the thread forks, leaves or executes.
#[test]
fn deadlines_are_asked_of_their_scheduler() {
    const MS: u64 = 1_000_000;
    let times = [10 * MS, 30 * MS, 40 * MS];
    let set =
        |who: u64, resets: u64, [a, b, c]: [u64; 3]| [SETSCHEDULER, 6 | resets, 0, who, a, b, c];
    let mut w = World::new();
    w.m.system.deadline_room = 20 * MS;
    let a = w.fork(1);
    assert_eq!(w.call(a, &[END_PERIOD]).result(), -ESRCH);
    assert_eq!(w.call(1, &set(4711, 0, times)).result(), -ESRCH);
    for wrong in [
        [0, 0, 0],
        [1023, 30 * MS, 30 * MS],
        [31 * MS, 30 * MS, 40 * MS],
        [MS, 41 * MS, 40 * MS],
        [2000, 99_999, 99_999],
        [MS, 4_194_304_001, 4_194_304_001],
        [u64::MAX; 3],
    ] {
        assert_eq!(w.call(1, &set(a, 0, wrong)).result(), -EINVAL, "{wrong:?}");
    }
    assert_eq!(
        w.call(1, &[SETSCHEDULER, 6, 1, a, MS, MS, MS]).result(),
        -EINVAL
    );
    let more = [21 * MS, 30 * MS, 40 * MS];
    assert_eq!(w.call(1, &set(a, 0, more)).result(), -EBUSY);
    assert_eq!(w.call(1, &[GETSCHEDULER, a]).words()[..2], [0, 0]);
    assert_eq!(w.call(1, &set(a, 0, times)).result(), 0);
    let expected = [6, DEADLINE_PRIORITY, times[0], times[1], times[2]];
    assert_eq!(w.call(1, &[GETSCHEDULER, a]).words()[..5], expected);
    // Without its scheduler it would be an ordinary program.
    let plain = Some([u64::from(priority::NORMAL), policy::ADAPTIVE, 0]);
    assert_eq!(w.m.system.priorities.pop(), plain);
    assert_eq!(w.call(1, &set(a, 0, more)).result(), -EBUSY);
    assert_eq!(w.m.system.deadlines.len(), 1);
    assert!(w.m.system.deadlines.values().all(|had| *had == times));

    // Who has deadlines forks only what is ordinary.
    assert_eq!(w.call(a, &[FORK]).result(), -EAGAIN);
    assert_eq!(
        w.call(a, &[THREAD_CREATE, 0x1000, 0x2000]).result(),
        -EAGAIN
    );
    assert_eq!(w.call(1, &set(a, 0x4000_0000, times)).result(), 0);
    let b = w.fork(a);
    assert_eq!(w.call(1, &[GETSCHEDULER, b]).words()[..5], [0; 5]);
    assert_eq!(w.m.system.deadlines.len(), 1);

    assert_eq!(w.call(a, &[END_PERIOD]).result(), 0);
    assert_eq!(w.m.system.periods_ended, 1);
    // A scheduler that was started again is told anew.
    w.m.system.deadlines.clear();
    assert_eq!(w.call(a, &[END_PERIOD]).result(), 0);
    assert_eq!(w.m.system.deadlines.len(), 1);

    w.set_ids(b, [5, 5, 5]);
    assert_eq!(w.call(b, &set(b, 0, times)).result(), -EPERM);
    assert_eq!(w.call(b, &set(b, 0, [0; 3])).result(), -EINVAL);
    assert_eq!(w.call(b, &set(a, 0, times)).result(), -EPERM);
    w.set_ids(a, [5, 5, 5]);
    assert_eq!(w.call(a, &set(a, 0, times)).result(), -EPERM);
    assert_eq!(w.call(1, &[SETSCHEDULER, 1, 10, a]).result(), 0);
    assert!(w.m.system.deadlines.is_empty());
    assert_eq!(w.call(1, &[GETSCHEDULER, a]).words()[..5], [1, 10, 0, 0, 0]);
}
