//! What each role of a component may ask, and that it is all.

use super::invariants::check;
use crate::fake::{Called, World};
use cairn_idl::errno::*;
use cairn_idl::proc::*;

/// Every operation that a role is for, with arguments that would do something, and the roles.
fn operations(w: &World, pid: u64) -> Vec<(&'static [u8], Vec<u64>, u64)> {
    let domain = u64::from(w.domain(pid).id);
    vec![
        (b"", vec![GROUPS_OF, domain], role::GROUPS),
        (b"", vec![REAL_LABEL, domain], role::GROUPS),
        (b"", vec![ATTEND, domain], role::GROUPS),
        (b"", vec![SPACE_OF, domain], role::GROUPS),
        (b"", vec![LIFE_OF, domain, pid], role::LIVES),
        (b"", vec![KEYS_OF, domain], role::KEYS),
        (b"", vec![KEYS_SET, domain, 0, 1], role::KEYS),
        (b"", vec![SIGNAL_FOR, 0, domain, 9], role::SIGNALS),
        (b"", vec![IDS_OF, domain], role::TERMINAL | role::INSPECT),
        (b"", vec![IDS, pid], role::TERMINAL),
        (b"", vec![SIGNAL_GROUP, 1, 15], role::TERMINAL),
        (b"", vec![SET_TERMINAL, 1, 0x401], role::TERMINAL),
        (b"", vec![NOTE_FOREGROUND, 1, pid], role::TERMINAL),
        (b"/xext4", vec![MOUNT, 2, 4, 0], role::MOUNT),
        (b"/dev", vec![UNMOUNT], role::MOUNT),
        (b"else", vec![SETHOSTNAME, 0, domain], role::HOSTNAME),
        (b"", vec![HOSTNAME_OF, domain, 0], role::INSPECT),
        (b"", vec![SET_ID, domain, 0o104755, 0, 0], role::SET_ID),
        (b"/i\0i\0", vec![START, 2, 1, 0], role::START),
        (b"", vec![PIDS, 0], role::INSPECT),
        (b"", vec![TIDS, pid], role::INSPECT),
        (b"", vec![STATUS, pid], role::INSPECT),
        (b"", vec![TEXT, pid, 1], role::INSPECT),
        (b"", vec![LOAD], role::INSPECT),
        (b"", vec![PREFIXES], role::INSPECT),
        (b"", vec![LIMITS_OF, 7, pid], role::INSPECT),
        (b"", vec![KEPT_OF, pid, pid], role::INSPECT),
        (b"", vec![SET_CORE_FILTER, domain, pid, 0], role::SPACES),
        (b"", vec![TIMER_SLACK, domain, pid, 0], role::SPACES),
        (b"", vec![SPACE_RELATED, domain, 1, 0, 0], role::SPACES),
        (b"", vec![PTRACE_ACCESS, domain, pid], role::INSPECT),
        (b"a", vec![CGROUP_MAKE, 0], role::CGROUP),
        (b"", vec![CGROUP_MOVE, pid, 0, 0], role::CGROUP),
        (b"", vec![CGROUP_PIDS, 0, 0], role::CGROUP),
        (b"", vec![CGROUP_OF, pid], role::CGROUP),
        (b"", vec![CGROUP_PATH, pid], role::INSPECT),
        // Nobody's but a process's.
        (b"", vec![POWER, 0, 0], 0),
        (b"", vec![KILL, pid, 9], 0),
        (b"", vec![FORK, 0x40_0000, 0x50_0000, 1, 2, 0, 17], 0),
        (b"", vec![PRLIMIT, 7, pid, 0], 0),
        (b"", vec![MOUNT_PORTAL, 0], 0),
    ]
}

/// What would be seen if something had been done.
fn seen(w: &mut World, pid: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    w.room = 4096;
    for words in [
        vec![STATUS, pid],
        vec![STATUS, 1],
        vec![PREFIXES],
        vec![PIDS, 0],
    ] {
        w.component(role::INSPECT, b"", &words);
        all.push(w.m.system.input.clone());
    }
    all
}

#[test]
fn a_role_is_its_own_operations_and_nothing_else() {
    let mut w = World::new();
    let a = w.fork(1);
    w.m.system.input.clear();
    let before = seen(&mut w, a);
    let roles = [
        0,
        role::GROUPS,
        role::TERMINAL,
        role::MOUNT,
        role::START,
        role::INSPECT,
        role::HOSTNAME,
        role::SET_ID,
        role::LIVES,
        role::SIGNALS,
    ];
    // Those that are refused first: nothing of them is seen. All of the label's privileges are a component's, and do not help.
    for held in roles {
        for (out, words, needed) in operations(&w, a) {
            if needed & held == 0 {
                let refused = w.component(held, out, &words);
                assert_eq!(refused.result(), -EPERM, "{words:?} by {held}");
            }
        }
    }
    assert_eq!(seen(&mut w, a), before);
    assert!(w.m.system.powered.is_none());
    check(&w);
    // With the role none is refused for want of it.
    for (out, words, needed) in operations(&w, a) {
        for held in roles.into_iter().filter(|role| role & needed != 0) {
            if words[0] == START {
                continue;
            }
            let answer = w.component(held, out, &words);
            assert_ne!(answer.result(), -EPERM, "{words:?} by {held}");
        }
    }
    assert_ne!(seen(&mut w, a), before);
}

#[test]
fn a_process_has_no_role_whoever_it_is() {
    let mut w = World::new();
    let a = w.fork(1);
    w.room = 4096;
    let list = operations(&w, a);
    for (out, words, needed) in list {
        let own = [IDS, STATUS, LOAD, MOUNT, UNMOUNT, SETHOSTNAME];
        if needed == 0 || own.contains(&words[0]) {
            continue;
        }
        assert_eq!(w.call_with(a, out, &words).result(), -EPERM, "{words:?}");
    }
    // capget(2) is told nothing that leads to another's memory.
    let Called::Words(_) = w.call(a, &[STATUS, 1]) else {
        panic!("no answer")
    };
    let at = core::mem::offset_of!(Status, domain);
    assert_eq!(w.m.system.input[at..at + 4], [0; 4]);
    w.component(role::INSPECT, b"", &[STATUS, 1]);
    assert_ne!(w.m.system.input[at..at + 4], [0; 4]);
}
