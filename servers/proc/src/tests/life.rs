//! fork, exec, exit, wait, orphans, vfork, threads.

use super::invariants::check;
use crate::fake::World;
use crate::ids::LIMIT;
use cairn_abi::layout::{
    linux_slot, PERSONALITY, PERSONALITY_DATA, PERSONALITY_HEAP, PREFIX_TABLE,
};
use cairn_abi::{death, pulse};
use cairn_idl::errno::*;
use cairn_idl::proc::*;
use cairn_idl::vm::prot;

const EXITED: u64 = 4;

#[test]
fn the_first_process_is_built_from_the_archive() {
    let mut w = World::empty();
    w.message(
        5,
        5,
        role::MOUNT,
        0,
        b"/\0tmpfs",
        &[MOUNT, 1, 5, 0, 0, 0, 0, 70],
        1,
    );
    // The fake's part is "/" and NUL only as far as the lengths say.
    assert_eq!(w.boot().result(), 1);
    let domain = w.domain(1);
    let record = w.m.system.of(domain);
    assert_eq!(record.start.rip, PERSONALITY + 0x40);
    assert_eq!(record.start.rdi, PERSONALITY_HEAP);
    assert_eq!(record.start.rsp, PERSONALITY_HEAP + 0x1_0000);
    assert_eq!(record.started.len(), 1);
    assert_eq!(
        record.slots,
        [
            linux_slot::VM,
            linux_slot::PROC,
            linux_slot::LOG,
            linux_slot::MOUNTS
        ]
    );
    let fake = &w.m.system;
    let block = &fake
        .written
        .iter()
        .find(|(a, _)| *a == PERSONALITY_HEAP)
        .unwrap()
        .1;
    assert_eq!(block[..8], 1u64.to_le_bytes());
    assert_eq!(block[16..24], 2u64.to_le_bytes());
    assert_eq!(&block[64..], b"/sbin/init\0init\0-x\0A=1\0");
    // The tail of the data's last file page is cleared; writable and executable never meet.
    assert!(fake
        .written
        .iter()
        .any(|(a, b)| *a == PERSONALITY_DATA + 0x10 && b.len() == 0xff0));
    assert!(fake
        .maps
        .iter()
        .all(|m| m.2 & (prot::WRITE | prot::EXECUTE) != 6));
    assert!(fake
        .maps
        .iter()
        .any(|m| m.0 == PREFIX_TABLE && m.2 == prot::READ));
    assert_eq!(w.boot().result(), -EBUSY);
    w.room = 100;
    assert_eq!(w.component(role::INSPECT, b"", &[TEXT, 1, 0]).result(), 8);
    assert_eq!(w.m.system.input, b"init\0-x\0");
    check(&w);
}

#[test]
fn a_failed_start_or_fork_leaves_nothing_behind() {
    for successes in 0..14 {
        let mut w = World::empty();
        w.m.system.successes = Some(successes);
        assert_eq!(w.boot().result(), -ENOMEM, "{successes}");
        assert!(w.m.system.domains.is_empty());
        w.m.system.successes = None;
        assert!(w.boot().result() > 0);
    }
    let mut w = World::new();
    for successes in 0..4 {
        w.m.system.successes = Some(successes);
        assert_eq!(w.call(1, &[FORK, 1, 2]).result(), -ENOMEM, "{successes}");
        check(&w);
        assert_eq!(w.m.processes.len(), 1);
    }
    w.m.system.successes = None;
    w.fork(1);
    check(&w);
}

#[test]
fn what_many_processes_took_goes_back_and_names_of_them_are_good_for_nobody_else() {
    let mut w = World::new();
    let (mut old, mut highest) = (Vec::new(), 0);
    for round in 0..2 {
        let children: Vec<u64> = (0..300).map(|_| w.fork(1)).collect();
        for child in &children {
            let slot = w.slot(*child);
            highest = highest.max(slot);
            let process = &w.m.processes[slot];
            assert!(!old.contains(&process.watch_badge(slot)));
            if round == 0 {
                old.push(process.watch_badge(slot));
            }
        }
        for child in children {
            w.exit(child, 0);
            assert_eq!(w.poll(1, EXITED).0, child as i64);
        }
        check(&w);
        // One piece may stay beside that of the first.
        assert!(w.m.processes.get(highest / 2).is_none());
        assert!(w.m.processes.get(w.slot(1)).is_some());
    }
    for badge in old {
        w.pulse(badge, [pulse::DEATH, 5, death::FAULT, 0]);
    }
    check(&w);
}

#[test]
fn wait_gets_the_zombie_before_and_after() {
    let mut w = World::new();
    let child = w.fork(1);
    assert_eq!(w.poll(1, EXITED), (0, 0));
    let token = w.call(1, &[WAIT, 0, 0, EXITED]).token();
    w.exit(child, 7);
    assert_eq!(w.reply(token).unwrap()[..2], [child, 7 << 8]);
    assert_eq!(w.state(child), None);
    assert_eq!(w.poll(1, EXITED).0, -ECHILD);
    let second = w.fork(1);
    w.exit(second, 3);
    check(&w);
    assert_eq!(w.state(second), Some('Z'));
    w.room = 144;
    let peek = w.call(1, &[WAIT, 1, second, EXITED | 0x0100_0000]).words();
    assert_eq!(peek[..2], [second, 3 << 8]);
    assert_eq!(
        w.m.system.input[8..16],
        1u64.to_le_bytes(),
        "1000 ns are 1 µs"
    );
    assert_eq!(w.poll(1, EXITED), (second as i64, 3 << 8));
    assert_eq!(w.call(1, &[RUSAGE, u64::MAX]).words()[1], 2000);
    check(&w);
}

#[test]
fn wait_chooses_by_process_and_group() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    assert_eq!(w.call(1, &[SETPGID, b, b]).result(), 0);
    w.exit(a, 0);
    assert_eq!(w.call(1, &[WAIT, 1, b, EXITED | 1]).result(), 0);
    assert_eq!(w.call(1, &[WAIT, 2, b, EXITED | 1]).result(), 0);
    assert_eq!(w.call(1, &[WAIT, 2, 99, EXITED | 1]).result(), -ECHILD);
    assert_eq!(w.call(1, &[WAIT, 1, 1, EXITED | 1]).result(), -ECHILD);
    assert_eq!(w.call(1, &[WAIT, 2, 0, EXITED | 1]).result() as u64, a);
    w.exit(b, 0);
    assert_eq!(w.call(1, &[WAIT, 2, b, EXITED | 1]).result() as u64, b);
    for bad in [
        [WAIT, 0, 0, 0],
        [WAIT, 4, 1, EXITED],
        [WAIT, 1, 0, EXITED],
        [WAIT, 0, 0, EXITED | 64],
    ] {
        assert_eq!(w.call(1, &bad).result(), -EINVAL);
    }
}

/// With 2,000 children in two groups, WAIT looks at a few places only, and the eldest child that is meant comes first.
#[test]
fn many_children_are_not_looked_through() {
    const MANY: u64 = 2000;
    let mut w = World::new();
    let parent = w.fork(1);
    let children: Vec<u64> = (0..MANY).map(|_| w.fork(parent)).collect();
    let group = children[0];
    for child in children.iter().step_by(2) {
        assert_eq!(w.call(parent, &[SETPGID, *child, group]).result(), 0);
    }
    let empty = w.fork(1);
    assert_eq!(w.call(empty, &[SETPGID, 0, 0]).result(), 0);
    let wait = |w: &mut World, kind: u64, id: u64, options: u64| {
        let before = w.m.looked_at.get();
        let told = w.call(parent, &[WAIT, kind, id, options]).result();
        let looked = w.m.looked_at.get() - before;
        assert!(looked <= 4, "{looked} of {kind} {id}");
        told
    };
    for (kind, id, told) in [(0, 0, 0), (2, 0, 0), (2, group, 0), (2, empty, -ECHILD)] {
        assert_eq!(wait(&mut w, kind, id, EXITED | 1), told);
    }
    // The last child of one group is a zombie; the last but two is stopped, which is asked for or not.
    let [.., stopped, _, last, _] = children[..] else {
        return;
    };
    assert_eq!(
        w.call(stopped, &[STOP_SELF, 19]).token(),
        w.m.processes[w.slot(stopped)].threads[0].token
    );
    w.exit(last, 0);
    assert_eq!(wait(&mut w, 2, 0, EXITED | 1), 0);
    assert_eq!(wait(&mut w, 2, group, EXITED | 2 | 1), stopped as i64);
    assert_eq!(wait(&mut w, 2, group, EXITED | 2 | 1), last as i64);
    assert_eq!(wait(&mut w, 2, group, EXITED | 2 | 1), 0);
    check(&w);
    // All end, the youngest first: the eldest is told first.
    assert_eq!(w.kill(1, stopped as i64, 9), 0);
    for child in children
        .iter()
        .rev()
        .filter(|child| **child != last && **child != stopped)
    {
        w.exit(*child, 0);
    }
    let (even, odd) = (
        children.iter().step_by(2),
        children.iter().skip(1).step_by(2),
    );
    for child in even.filter(|child| **child != last) {
        assert_eq!(wait(&mut w, 2, group, EXITED | 1), *child as i64);
    }
    assert_eq!(wait(&mut w, 2, group, EXITED | 1), -ECHILD);
    for child in odd {
        assert_eq!(wait(&mut w, 0, 0, EXITED | 1), *child as i64);
    }
    assert_eq!(wait(&mut w, 0, 0, EXITED | 1), -ECHILD);
    assert_eq!(w.m.kin_entries(), 0);
    check(&w);
}

#[test]
fn a_wait_is_interrupted_or_forgotten() {
    let mut w = World::new();
    let child = w.fork(1);
    let token = w.call(1, &[WAIT, 0, 0, EXITED]).token();
    w.unblock(token);
    assert_eq!(w.reply(token).unwrap()[0] as i64, -EINTR);
    w.unblock(token);
    let token = w.call(1, &[WAIT, 0, 0, EXITED]).token();
    w.pulse(0, [pulse::GONE, token, 0, 0]);
    w.exit(child, 0);
    assert_eq!(w.reply(token), None);
    assert_eq!(w.poll(1, EXITED).0 as u64, child);
}

#[test]
fn orphans_go_to_the_first_process_or_a_subreaper() {
    let mut w = World::new();
    let shell = w.fork(1);
    let middle = w.fork(shell);
    let orphan = w.fork(middle);
    let dead = w.fork(middle);
    w.exit(dead, 1);
    w.exit(middle, 0);
    assert_eq!(w.call(orphan, &[IDS]).words()[1], 1);
    // The zombie came along and the heir was told.
    assert_eq!(w.poll(1, EXITED), (dead as i64, 1 << 8));
    check(&w);
    assert_eq!(w.call(shell, &[PRCTL, 36, 1]).result(), 0);
    let middle = w.fork(shell);
    let orphan = w.fork(middle);
    w.exit(middle, 0);
    assert_eq!(w.call(orphan, &[IDS]).words()[1], shell);
    check(&w);
}

#[test]
fn nobody_is_left_when_children_are_not_wanted() {
    let mut w = World::new();
    let shell = w.fork(1);
    let child = w.fork(shell);
    assert_eq!(w.call(shell, &[SIGNAL_STATE, 1 << 16, 0, 1]).result(), 0);
    let token = w.call(shell, &[WAIT, 0, 0, EXITED]).token();
    w.exit(child, 5);
    assert_eq!(w.reply(token).unwrap()[0] as i64, -ECHILD);
    assert_eq!(w.state(child), None);
    check(&w);
}

#[test]
fn a_vfork_parent_waits_for_exec_or_end() {
    let mut w = World::new();
    for end in [EXEC, EXIT] {
        let token = w.call(1, &[FORK, 1, 2, 0, 0, fork::VFORK, 17]).token();
        let child = w.m.numbers.last() as u64;
        w.unblock(token);
        assert_eq!(w.reply(token), None, "vfork is not interruptible");
        check(&w);
        if end == EXEC {
            assert_eq!(w.call_with(child, b"/bin/ls", &[EXEC, 7, 0]).result(), 0);
        } else {
            w.exit(child, 0);
        }
        assert_eq!(w.reply(token).unwrap()[0], child);
        check(&w);
    }
}

#[test]
fn clone_parent_makes_a_sibling() {
    let mut w = World::new();
    let shell = w.fork(1);
    let sibling = w
        .call(shell, &[FORK, 1, 2, 0, 0, fork::PARENT, 17])
        .result() as u64;
    assert_eq!(w.call(sibling, &[IDS]).words()[1], 1);
    assert_eq!(
        w.call(1, &[FORK, 1, 2, 0, 0, fork::PARENT, 17]).result(),
        -EINVAL
    );
    assert_eq!(w.call(1, &[FORK, 1, 2, 0, 0, 8, 17]).result(), -EINVAL);
    assert_eq!(w.call(1, &[FORK, 1, 2, 0, 0, 0, 65]).result(), -EINVAL);
    let token = w
        .call(shell, &[FORK, 1, 2, 0, 0, fork::PARENT | fork::VFORK, 17])
        .token();
    let vchild = w.m.numbers.last() as u64;
    w.exit(vchild, 0);
    assert_eq!(w.reply(token).unwrap()[0], vchild);
    check(&w);
}

#[test]
fn exec_keeps_one_thread_and_what_posix_says() {
    let mut w = World::new();
    let pid = w.fork(1);
    let thread = w.call(pid, &[THREAD_CREATE, 1, 2, 3, 4, 5]).words();
    let (tid, id) = (thread[0], thread[1] as u32);
    assert_eq!(w.call_by(pid, id, b"", &[IDS]).words()[5], tid);
    w.call(pid, &[SIGNAL_STATE, 1 << 1, 1 << 2, 0]);
    let path = b"/usr/bin/a-program-with-a-long-namesh\0-c\0";
    assert_eq!(w.call_by(pid, id, path, &[EXEC, 35, 6]).result(), 0);
    check(&w);
    let process = &w.m.processes[w.slot(pid)];
    assert_eq!(&process.comm, b"a-program-with-\0");
    assert_eq!(process.threads.len(), 1);
    assert_eq!(process.threads[0].tid as u64, pid);
    assert_eq!(process.dispositions.caught, 0);
    assert!(process.dispositions.ignored & 2 != 0);
    w.room = 64;
    assert_eq!(w.component(role::INSPECT, b"", &[TEXT, pid, 0]).result(), 6);
    assert_eq!(w.m.system.input, b"sh\0-c\0");
    assert_eq!(
        w.call_by(pid, id, b"x", &[EXEC, 5000, 0]).result(),
        -ENAMETOOLONG
    );
    assert_eq!(
        w.call_by(pid, id, b"x", &[EXEC, u64::MAX, u64::MAX])
            .result(),
        -ENAMETOOLONG
    );
}

#[test]
fn programs_begin_with_different_random_bytes() {
    let mut w = World::new();
    let pid = w.fork(1);
    let mut seen = std::collections::HashSet::new();
    let seed = |w: &mut World, seen: &mut std::collections::HashSet<(u64, u64)>| {
        let [_, _, _, low, high, ..] = w.call_with(pid, b"/x", &[EXEC, 2]).words();
        assert!(low != 0 && high != 0 && seen.insert((low, high)));
    };
    (0..100).for_each(|_| seed(&mut w, &mut seen));
    // The same for who asks, which a component does not.
    for _ in 0..100 {
        let [result, bytes @ .., _, _, _] = w.call(pid, &[RANDOM]).words();
        assert_eq!(result, 0);
        assert!(bytes.iter().all(|word| *word != 0));
        assert!(seen.insert((bytes[0], bytes[1])) && seen.insert((bytes[2], bytes[3])));
    }
    let every = role::INSPECT | role::GROUPS | role::START;
    assert!(w.component(every, b"", &[RANDOM]).result() < 0);
    // What devfs was written counts, and nobody but its kind may say it.
    let mut other = World::new();
    assert_eq!(other.fork(1), pid);
    assert_eq!(other.call(pid, &[STIR, 1, 2, 3, 4]).result(), -EPERM);
    assert_eq!(
        other
            .component(role::INSPECT, b"", &[STIR, 1, 2, 3, 4])
            .result(),
        -EPERM
    );
    assert_eq!(
        other
            .component(role::GROUPS, b"", &[STIR, 1, 2, 3, 4])
            .result(),
        0
    );
    (0..100).for_each(|_| seed(&mut other, &mut seen));
    check(&w);
}

#[test]
fn threads_have_names() {
    const SET_NAME: u64 = 15;
    let mut w = World::new();
    let pid = w.fork(1);
    let [tid, thread, ..] = w.call(pid, &[THREAD_CREATE, 1]).words();
    let name = |w: &mut World, of: u64, tid: u64| {
        w.room = 4096;
        w.component(role::INSPECT, b"", &[STATUS, of, 0, tid]);
        let comm = Status::from_bytes(w.m.system.input.first_chunk().unwrap()).comm;
        comm[..comm.iter().position(|b| *b == 0).unwrap()].to_vec()
    };
    let first = name(&mut w, pid, 0);
    assert_eq!(name(&mut w, pid, tid), first);
    let named = w.call_by(pid, thread as u32, b"second", &[PRCTL, SET_NAME]);
    assert_eq!(named.result(), 0);
    assert_eq!(name(&mut w, pid, tid), b"second");
    assert_eq!(
        [0, pid, 9999].map(|tid| name(&mut w, pid, tid)),
        [(); 3].map(|()| first.clone())
    );
    // Who is made by a thread is called as it is.
    let [third, ..] = w
        .call_by(pid, thread as u32, b"", &[THREAD_CREATE, 1])
        .words();
    assert_eq!(name(&mut w, pid, third), b"second");
    let [child, ..] = w.call_by(pid, thread as u32, b"", &[FORK, 1]).words();
    assert_eq!(name(&mut w, child, 0), b"second");
    // By the file: of a thread of its own only, and by the component for it.
    let set = |w: &mut World, roles, by: u64, of: u64, tid: u64| {
        let domain = u64::from(w.domain(by).id);
        let words = [SET_COMM, domain, of, tid];
        w.component(roles, b"a name that is too long", &words)
            .result()
    };
    assert_eq!(set(&mut w, role::INSPECT, pid, pid, tid), -EPERM);
    assert_eq!(set(&mut w, role::SPACES, child, pid, tid), -EINVAL);
    assert_eq!(set(&mut w, role::SPACES, pid, pid, child), -ESRCH);
    assert_eq!(set(&mut w, role::SPACES, pid, 9999, 9999), -ESRCH);
    assert_eq!(set(&mut w, role::SPACES, pid, pid, third), 0);
    assert_eq!(name(&mut w, pid, third), b"a name that is ");
    assert_eq!(set(&mut w, role::SPACES, pid, pid, pid), 0);
    assert_eq!(name(&mut w, pid, 0), b"a name that is ");
    assert_eq!(name(&mut w, pid, tid), b"second");
    check(&w);
}

#[test]
fn exec_raises_nobody() {
    let mut w = World::new();
    let pid = w.fork(1);
    assert_eq!(w.set_ids(pid, [5, 5, 5]), 0);
    assert_eq!(w.call_with(pid, b"/su", &[EXEC, 3]).result(), 0);
    assert_eq!(w.m.processes[w.slot(pid)].creds.euid, 5);
    check(&w);
}

#[test]
fn the_last_thread_ends_the_process() {
    let mut w = World::new();
    let pid = w.fork(1);
    let id = w.call(pid, &[THREAD_CREATE, 1, 2, 3, 4, 5]).words()[1] as u32;
    w.call(pid, &[THREAD_EXIT, 1]).token();
    check(&w);
    assert_eq!(w.state(pid), Some('S'));
    w.call_by(pid, id, b"", &[THREAD_EXIT, 9]).token();
    assert_eq!(w.poll(1, EXITED), (pid as i64, 9 << 8));
    check(&w);
}

#[test]
fn a_death_seen_by_the_nucleus_becomes_a_status() {
    let mut w = World::new();
    for (reason, detail, status) in [
        (death::EXCEPTION, 14, 11),
        (death::EXCEPTION, 0, 8),
        (death::EXCEPTION, 6, 4),
        (death::FAULT, 0x1234, 11),
        (death::KILLED, 0, 9),
        (death::EXIT, 3, 3 << 8),
    ] {
        let pid = w.fork(1);
        let domain = w.domain(pid);
        let badge = w.m.system.of(domain).watch;
        w.pulse(
            badge ^ 1 << 32,
            [pulse::DEATH, domain.id as u64, reason, detail],
        );
        w.pulse(badge, [pulse::DEATH, domain.id as u64 + 1, reason, detail]);
        assert_eq!(w.state(pid), Some('S'), "another's death");
        w.pulse(badge, [pulse::DEATH, domain.id as u64, reason, detail]);
        assert_eq!(w.poll(1, EXITED), (pid as i64, status));
        w.pulse(badge, [pulse::DEATH, domain.id as u64, reason, detail]);
        check(&w);
    }
    w.pulse(u64::MAX, [pulse::DEATH, 1, 2, 3]);
}

#[test]
fn the_end_of_the_first_process_ends_the_machine() {
    let mut w = World::new();
    let child = w.fork(1);
    w.exit(1, 3);
    assert_eq!(w.m.system.powered, Some((0, 3)));
    let mut w = World::new();
    w.m.set_exit_with_code(true);
    w.call(1, &[EXIT, 6]).token();
    assert_eq!(w.m.system.powered, Some((2, 134)));
    assert!(child > 1);
}

#[test]
fn numbers_wrap_and_live_ones_are_left_out() {
    let mut w = World::new();
    let old = w.fork(1);
    assert_eq!(w.call(old, &[SETSID]).result() as u64, old);
    w.m.numbers.set_last(LIMIT - 2);
    let last = w.fork(1);
    assert_eq!(last, LIMIT as u64 - 1);
    let wrapped = w.fork(old);
    assert_eq!(wrapped, 300);
    w.exit(old, 0);
    assert_eq!(w.poll(1, EXITED).0 as u64, old);
    // Its group and session live on in the child, so the number stays taken.
    w.m.numbers.set_last(old as u32 - 1);
    assert_ne!(w.fork(1), old);
    check(&w);
}

#[test]
fn room_is_limited_per_user_and_in_all() {
    let mut w = World::new();
    let user = w.fork(1);
    let limit: Vec<u8> = [3u64, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(w.call_with(user, &limit, &[PRLIMIT, 6, 0, 1]).result(), 0);
    assert_eq!(w.set_ids(user, [9, 9, 9]), 0);
    w.fork(user);
    w.call(user, &[THREAD_CREATE, 1]).result();
    assert_eq!(w.call(user, &[FORK, 1]).result(), -EAGAIN);
    assert_eq!(w.call(user, &[THREAD_CREATE, 1]).result(), -EAGAIN);
    for _ in 0..50 {
        w.fork(1);
    }
    check(&w);
}

#[test]
fn kept_portals_have_room_and_leave_some_to_user_0() {
    let mut w = World::new();
    let (root, user) = (w.fork(1), w.fork(1));
    assert_eq!(w.set_ids(user, [9, 9, 9]), 0);
    let [root_domain, user_domain] = [root, user].map(|pid| u64::from(w.domain(pid).id));
    let before = w.m.system.kept;
    assert_eq!(w.attend(user_domain), user as i64);
    assert_eq!(w.m.system.kept, before + 1);
    // Without room for the next portal this one does not stay.
    w.m.system.successes = Some(0);
    assert_eq!(w.attend(user_domain), -ENOMEM);
    w.m.system.successes = None;
    assert_eq!(w.m.system.kept, before + 1);
    // Users together have so many; user 0's are there all the same.
    let mut more = Vec::new();
    'full: loop {
        let pid = w.fork(user);
        more.push(pid);
        let domain = u64::from(w.domain(pid).id);
        for _ in 0..256 {
            if w.attend(domain) < 0 {
                break 'full;
            }
        }
    }
    assert_eq!(w.m.system.kept, before + 6144);
    assert_eq!(w.attend(user_domain), -ENOMEM);
    assert_eq!(w.attend(root_domain), root as i64);
    // They go with the processes.
    for pid in more {
        w.exit(pid, 0);
    }
    w.exit(user, 0);
    assert_eq!(w.m.system.kept, before + 1);
    check(&w);
}

#[test]
fn exhausted_memory_costs_the_biggest() {
    let mut w = World::new();
    let a = w.fork(1);
    let b = w.fork(1);
    w.pulse(crate::BADGE_EXHAUSTED, [pulse::NOTIFY, 1, 0, 0]);
    assert_eq!((w.state(a), w.state(b)), (Some('S'), Some('Z')));
    assert_eq!(w.poll(1, EXITED), (b as i64, 9));
}

#[test]
fn the_log_is_for_the_privileged() {
    let mut w = World::new();
    let pid = w.fork(1);
    let has = |w: &mut World, pid: u64| {
        let domain = w.domain(pid);
        w.m.system.of(domain).slots.contains(&linux_slot::LOG)
    };
    assert!(has(&mut w, pid));
    // For a while, and for good; and what it makes has none either.
    assert_eq!(w.set_ids(pid, [0, 1000, 0]), 0);
    assert!(!has(&mut w, pid));
    assert_eq!(w.set_ids(pid, [0, 0, 0]), 0);
    assert!(has(&mut w, pid));
    assert_eq!(w.set_ids(pid, [1000, 1000, 1000]), 0);
    let child = w.fork(pid);
    assert!(!has(&mut w, pid) && !has(&mut w, child) && has(&mut w, 1));
}

#[test]
fn a_child_has_the_slots_that_its_parent_says() {
    let mut w = World::new();
    let words = [FORK, 0x40_0000, 0x50_0000, 1, 2, 0, 17];
    let slots = [1u64 << linux_slot::VM | 1 << 40, 0];
    let bytes: Vec<u8> = slots.iter().flat_map(|word| word.to_le_bytes()).collect();
    let pid = w.call_with(1, &bytes, &words).result() as u64;
    let domain = w.domain(pid);
    assert_eq!(w.m.system.of(domain).slots, [linux_slot::VM]);
    // Without a list: all.
    let pid = w.fork(1);
    let domain = w.domain(pid);
    assert_eq!(w.m.system.of(domain).slots.len(), 3);
    // A list longer than any table.
    let bytes = [0xff; 2049];
    assert_eq!(w.call_with(1, &bytes, &words).result(), -EINVAL);
    check(&w);
}

#[test]
fn faults_are_the_processs_and_then_its_parents() {
    use crate::fake::FAULTS;
    let mut w = World::new();
    let usage = |w: &mut World, pid: u64, who: i64| {
        w.room = 144;
        assert_eq!(w.call(pid, &[RUSAGE, who as u64]).result(), 0);
        let words = w.m.system.input.chunks_exact(8);
        let words: Vec<u64> = words
            .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
            .collect();
        (words[8], words[9])
    };
    let own = (FAULTS.minor, FAULTS.major);
    let a = w.fork(1);
    assert_eq!(usage(&mut w, a, 0), own);
    assert_eq!(usage(&mut w, a, -1), (0, 0));
    for count in 1..=2 {
        let child = w.fork(a);
        w.exit(child, 0);
        assert_eq!(w.poll(a, EXITED).0, child as i64);
        assert_eq!(usage(&mut w, a, -1), (own.0 * count, own.1 * count));
    }
    assert_eq!(usage(&mut w, a, 0), own);
    // With what its children had.
    w.exit(a, 0);
    assert_eq!(w.poll(1, EXITED).0, a as i64);
    assert_eq!(usage(&mut w, 1, -1), (own.0 * 3, own.1 * 3));
}
