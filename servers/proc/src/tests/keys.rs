//! Key rings of processes: numbers that their server gave, and when it hears that nobody has them.

use super::invariants::check;
use crate::fake::World;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

fn of(w: &mut World, pid: u64) -> [u64; 2] {
    let domain = u64::from(w.domain(pid).id);
    let words = w.component(role::KEYS, b"", &[KEYS_OF, domain]).words();
    [words[1], words[2]]
}

fn set(w: &mut World, pid: u64, whose: KeyRings, number: u64) -> i64 {
    let domain = u64::from(w.domain(pid).id);
    let words = [
        KEYS_SET,
        domain,
        whose.word(),
        number,
        0,
        0,
        0,
        100 + number,
    ];
    w.message(7, 7, role::KEYS, 0, b"", &words, 1).result()
}

#[test]
fn key_rings_are_inherited_and_end() {
    let mut w = World::new();
    let before = w.m.system.kept;
    let parent = w.fork(1);
    assert_eq!(of(&mut w, parent), [0, 0]);
    assert_eq!(set(&mut w, parent, KeyRings::Session, 5), 0);
    assert_eq!(set(&mut w, parent, KeyRings::Program, 6), 0);
    assert_eq!(of(&mut w, parent), [5, 6]);
    let child = w.fork(parent);
    assert_eq!(of(&mut w, child), [5, 0]);
    assert_eq!(w.m.system.kept, before + 2);
    // A program has the session still.
    assert_eq!(w.call_with(parent, b"/bin/ls", &[EXEC, 7, 0]).result(), 0);
    assert_eq!(of(&mut w, parent), [5, 0]);
    assert_eq!(w.m.system.kept, before + 1);
    // Another session of the child's, and in the end of the parent's.
    assert_eq!(set(&mut w, child, KeyRings::Session, 7), 0);
    assert_eq!(of(&mut w, parent), [5, 0]);
    assert_eq!(w.m.system.kept, before + 2);
    assert_eq!(set(&mut w, child, KeyRings::Parent, 8), 0);
    assert_eq!((of(&mut w, parent), of(&mut w, child)), ([8, 0], [7, 0]));
    assert_eq!(w.m.system.kept, before + 2);
    // Not with other ids, nor with threads, nor of the first process.
    assert_eq!(set(&mut w, parent, KeyRings::Parent, 9), -EPERM);
    w.call(parent, &[THREAD_CREATE, 1]);
    assert_eq!(set(&mut w, child, KeyRings::Parent, 9), -EPERM);
    assert_eq!(set(&mut w, child, KeyRings::Session, 0), -EINVAL);
    w.exit(child, 0);
    w.exit(parent, 0);
    assert_eq!(w.m.system.kept, before);
    check(&w);
}

#[test]
fn key_rings_are_not_given_to_others_parents() {
    let mut w = World::new();
    let parent = w.fork(1);
    let child = w.fork(parent);
    assert_eq!(w.set_ids(child, [9, 9, 9]), 0);
    let before = w.m.system.kept;
    assert_eq!(set(&mut w, child, KeyRings::Parent, 5), -EPERM);
    assert_eq!(w.m.system.kept, before);
    // Without room for one more the old ones stay.
    assert_eq!(set(&mut w, child, KeyRings::Session, 5), 0);
    w.m.system.successes = Some(0);
    assert_eq!(set(&mut w, child, KeyRings::Session, 6), -ENOMEM);
    w.m.system.successes = None;
    assert_eq!(of(&mut w, child), [5, 0]);
    check(&w);
}

#[test]
fn a_fork_that_fails_keeps_no_key_rings() {
    let mut w = World::new();
    let before = w.m.system.kept;
    let parent = w.fork(1);
    assert_eq!(w.set_ids(parent, [9, 9, 9]), 0);
    assert_eq!(set(&mut w, parent, KeyRings::Session, 5), 0);
    for number in 6..20 {
        // A host name space of its own is not for everybody.
        const NEW_HOST: u64 = 0x400_0000;
        let refused = w.call(parent, &[FORK, 0x400000, 0x7000, 0, 0, NEW_HOST, 17]);
        assert_eq!(refused.result(), -EPERM);
        assert_eq!(set(&mut w, parent, KeyRings::Session, number), 0);
        assert_eq!(w.m.system.kept, before + 1);
    }
    w.exit(parent, 0);
    assert_eq!(w.m.system.kept, before);
    assert!(w.m.key_rings_of.is_empty());
    check(&w);
}

#[test]
fn one_user_does_not_take_all_numbers() {
    let mut w = World::new();
    let all: Vec<u64> = (0..1100).map(|_| w.fork(1)).collect();
    for &pid in &all {
        assert_eq!(w.set_ids(pid, [9, 9, 9]), 0);
    }
    let made = all.iter().enumerate().map(|(at, &pid)| {
        let number = 2 * at as u64 + 2;
        let session = set(&mut w, pid, KeyRings::Session, number);
        [session, set(&mut w, pid, KeyRings::Program, number + 1)]
    });
    let results: Vec<i64> = made.flatten().collect();
    assert!(results[..2048].iter().all(|result| *result == 0));
    assert!(results[2048..].iter().all(|result| *result == -ENOMEM));
    // Others have some all the same.
    let other = w.fork(1);
    assert_eq!(w.set_ids(other, [8, 8, 8]), 0);
    assert_eq!(set(&mut w, other, KeyRings::Session, 9000), 0);
}
