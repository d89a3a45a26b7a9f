//! Forks that take long: others are served, what the program asks for comes afterwards, and whoever ends leaves nothing.

use super::invariants::check;
use crate::fake::World;
use cairn_abi::{pulse, Id, Token};
use cairn_idl::errno::EINTR;
use cairn_idl::proc::*;

const FORKS: [u64; 7] = [FORK, 0x40_0000, 0x50_0000, 1, 2, 0, 17];

/// A process whose copy takes long.
fn large(w: &mut World) -> u64 {
    let pid = w.fork(1);
    let domain = w.domain(pid).id;
    w.m.system.much.insert(domain);
    pid
}

/// Another thread of a process.
fn thread(w: &mut World, pid: u64) -> Id {
    w.call(pid, &[THREAD_CREATE, 1]).words()[1] as Id
}

fn begin(w: &mut World, pid: u64) -> Token {
    w.call(pid, &FORKS).token()
}

/// Domains that nobody has.
fn is_tidy(w: &World) {
    check(w);
    let of_processes =
        w.m.processes
            .slots()
            .filter(|slot| w.m.processes[*slot].ended.is_none());
    assert_eq!(w.m.system.domains.len(), of_processes.count());
}

#[test]
fn others_are_served_while_a_large_program_is_copied() {
    let mut w = World::new();
    let (a, b) = (large(&mut w), w.fork(1));
    let second = thread(&mut w, a);
    let token = begin(&mut w, a);
    assert!(w.errand());
    assert_eq!(w.kill(b, a as i64, 10), 0);
    let child = w.fork(b);
    check(&w);
    // What its threads ask for comes afterwards, and in turn.
    let ids = w.call_by(a, second, b"", &[THREAD_CREATE, 1]).token();
    assert!(w.reply(ids).is_none() && w.reply(token).is_none());
    assert!(!w.errand());
    let made = w.reply(token).unwrap()[0];
    assert!(made > child && w.state(made) == Some('S'));
    assert!(w.reply(ids).unwrap()[0] > made, "after the child");
    assert_eq!(w.take(a), 10);
    is_tidy(&w);
}

#[test]
fn the_most_important_fork_comes_first_and_lifts_the_thread() {
    let mut w = World::new();
    let all: Vec<u64> = (0..4).map(|_| large(&mut w)).collect();
    let mut tokens = vec![begin(&mut w, all[0])];
    let usual = w.m.system.forks_level;
    assert!(w.errand());
    tokens.push(begin(&mut w, all[1]));
    assert_eq!(w.call(1, &[SETSCHEDULER, 1, 50, all[2]]).result(), 0);
    tokens.push(begin(&mut w, all[2]));
    assert!(
        w.m.system.forks_level > usual,
        "the one that is made is in its way"
    );
    tokens.push(begin(&mut w, all[3]));
    for at in [0, 2, 1, 3] {
        assert!(w.reply(tokens[at]).is_none());
        w.errand();
        assert!(w.reply(tokens[at]).unwrap()[0] > 0, "{at}");
        let lifted = w.m.system.forks_level > usual;
        assert_eq!(lifted, at == 0);
    }
    is_tidy(&w);
}

#[test]
fn who_ends_meanwhile_leaves_nothing() {
    for step in 0..3 {
        let mut w = World::new();
        let (a, b) = (large(&mut w), large(&mut w));
        let second = thread(&mut w, a);
        let token = begin(&mut w, a);
        let others = begin(&mut w, b);
        let held = w.call_by(a, second, b"", &[THREAD_CREATE, 1]).token();
        if step > 0 {
            assert!(w.errand());
        }
        match step {
            2 => w.pulse(0, [pulse::GONE, token, 0, 0]),
            _ => assert_eq!(w.kill(1, a as i64, 9), 0),
        }
        while w.errand() {}
        assert_eq!(w.reply(token), None);
        assert!(w.reply(others).unwrap()[0] > 0);
        let answered = w.reply(held).is_some_and(|words| words[0] as i64 > 0);
        assert_eq!(answered, step == 2);
        is_tidy(&w);
    }
}

#[test]
fn a_signal_ends_a_wait_that_was_held_back() {
    let mut w = World::new();
    let a = large(&mut w);
    w.call(a, &[SIGNAL_STATE, 0, 1 << 9, 0]);
    let second = thread(&mut w, a);
    let child = {
        w.m.system.much.clear();
        w.fork(a)
    };
    let domain = w.domain(a).id;
    w.m.system.much.insert(domain);
    let token = begin(&mut w, a);
    let waits = w.call_by(a, second, b"", &[WAIT, 1, child, 4]).token();
    w.unblock(waits);
    w.unblock(token);
    while w.errand() {}
    assert_eq!(w.reply(waits).unwrap()[0] as i64, -EINTR);
    assert!(w.reply(token).unwrap()[0] > 0, "a fork is not interrupted");
    is_tidy(&w);
}

#[test]
fn what_fails_late_is_undone() {
    let mut failed = 0;
    for successes in 0..6 {
        let mut w = World::new();
        let a = large(&mut w);
        let token = begin(&mut w, a);
        assert!(w.errand());
        w.m.system.successes = Some(successes);
        while w.errand() {}
        w.m.system.successes = None;
        failed += usize::from((w.reply(token).unwrap()[0] as i64) < 0);
        is_tidy(&w);
    }
    assert!((2..6).contains(&failed), "{failed}");
}

#[test]
fn without_an_own_thread_it_is_made_at_once() {
    let mut w = World::new();
    let a = large(&mut w);
    w.m.system.no_background = true;
    assert!(w.fork(a) > a);
    is_tidy(&w);
}
