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
