//! Memory is short: what a message would have the manager allocate is refused, and nothing has changed.

use super::invariants::check;
use crate::fake::World;
use cairn_failing::short;
use cairn_idl::errno::ENOMEM;
use cairn_idl::proc::*;

#[test]
fn long_answers_and_parts_are_refused() {
    let mut w = World::new();
    let a = w.fork(1);
    let slot = w.slot(a);
    let mut tids = 0;
    while w.call(a, &[THREAD_CREATE, 1, 1]).result() > 0 && tids < 1500 {
        tids += 1;
    }
    assert!(w.m.processes[slot].threads.len() > 1500);
    let many: Vec<u64> = (0..1500).map(|_| w.fork(1)).collect();
    w.room = 64 * 1024;
    let message = |w: &mut World, words: &[u64]| {
        let mut all = [0; 8];
        all[..words.len()].copy_from_slice(words);
        short(|| w.component(role::INSPECT, b"", &all).result())
    };
    assert_eq!(message(&mut w, &[PIDS, 1]), -ENOMEM);
    assert_eq!(message(&mut w, &[TIDS, a]), -ENOMEM);
    // All of a user's, and all of a group's.
    for which in [1, 2] {
        let asked = short(|| w.call(1, &[GETPRIORITY, which, 0]).result());
        assert_eq!(asked, -ENOMEM);
        assert!(w.call(1, &[GETPRIORITY, which, 0]).result() > 0);
    }
    w.room = 0;
    check(&w);
    assert_eq!(w.kill(1, many[0] as i64, 9), 0);
}
