//! Many that end: a few with the message, the others in pieces, in which nobody lives on.

use super::invariants::check;
use crate::ending::PIECE;
use crate::fake::{Called, World};
use cairn_idl::proc::*;

const MANY: usize = 100;

/// A process and its many children, all of a group of theirs.
fn family(w: &mut World) -> (u64, Vec<u64>) {
    let parent = w.fork(1);
    w.call(parent, &[SETSID]);
    let children = (0..MANY).map(|_| w.fork(parent)).collect();
    (parent, children)
}

fn ended(w: &World, of: &[u64]) -> usize {
    of.iter().filter(|pid| w.state(**pid) == Some('Z')).count()
}

#[test]
fn a_group_ends_in_pieces() {
    let mut w = World::new();
    let (parent, children) = family(&mut w);
    let bystander = w.fork(1);
    assert_eq!(w.kill(1, -(parent as i64), 9), 0);
    assert_eq!(
        (w.state(parent), ended(&w, &children)),
        (Some('Z'), PIECE - 1)
    );
    check(&w);
    // Nothing is done for those whose turn comes later.
    let last = *children.last().unwrap();
    for words in [
        &[FORK, 0x40_0000, 0x50_0000, 1, 2, 0, 17][..],
        &[POWER, 1],
        &[MOUNT_PORTAL, 0],
        &[KILL, bystander, 10],
        &[EXIT, 0],
    ] {
        assert!(matches!(w.call(last, words), Called::Waits(_)), "{words:?}");
    }
    assert_eq!((w.m.system.powered, w.take(bystander)), (None, 0));
    // Whoever else ends need not wait for them.
    let other = w.fork(1);
    w.exit(other, 3);
    assert_eq!(w.state(other), Some('Z'));
    let mut before = ended(&w, &children);
    while w.background() {
        let now = ended(&w, &children);
        assert!(now - before <= PIECE);
        before = now;
        check(&w);
    }
    assert_eq!(ended(&w, &children), MANY);
}

#[test]
fn real_time_processes_end_at_once_and_all_without_an_own_thread() {
    for real_time in [true, false] {
        let mut w = World::new();
        let (parent, children) = family(&mut w);
        let last = *children.last().unwrap();
        if real_time {
            assert_eq!(w.call(1, &[SETSCHEDULER, 1, 10, last]).result(), 0);
        }
        w.m.system.no_background = !real_time;
        assert_eq!(w.kill(1, -(parent as i64), 9), 0);
        let expected = if real_time { PIECE } else { MANY };
        assert_eq!((w.state(last), ended(&w, &children)), (Some('Z'), expected));
        check(&w);
    }
}

#[test]
fn nobody_else_ends_for_memory_that_comes_back() {
    let mut w = World::new();
    let (parent, children) = family(&mut w);
    let innocent = w.fork(1);
    assert_eq!(w.kill(1, -(parent as i64), 9), 0);
    w.pulse(crate::BADGE_EXHAUSTED, [cairn_abi::pulse::NOTIFY, 0, 0, 0]);
    while w.m.backlog > PIECE {
        w.background();
        assert_eq!(w.state(innocent), Some('S'));
    }
    // The last piece: now `vm` is asked who else shall end. (The fake always says somebody.)
    w.background();
    assert_eq!(ended(&w, &children), MANY);
    assert_eq!(w.state(innocent), Some('Z'));
}
