//! What names a process and never another one.

use super::invariants::check;
use crate::fake::World;
use crate::signal::QUEUE_MOST;
use cairn_abi::layout::PERSONALITY;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

fn life(w: &mut World, by: u64, pid: u64) -> Result<u64, i64> {
    let domain = u64::from(w.domain(by).id);
    let words = w
        .component(role::LIVES, b"", &[LIFE_OF, domain, pid])
        .words();
    match words[0] as i64 {
        0 => Ok(words[1]),
        errno => Err(-errno),
    }
}

fn follow(w: &mut World, life: u64) -> i64 {
    let words = [FOLLOW, life, 0, 0, 0, 0, 0, 99];
    let answer = w.message(7, 7, role::LIVES, 0, b"", &words, 1);
    answer.result()
}

#[test]
fn a_life_outlives_its_number() {
    let mut w = World::new();
    let forked = w
        .call(1, &[FORK, 0x40_0000, 0x50_0000, 1, 2, 0, 17])
        .words();
    let child = forked[0];
    let its = life(&mut w, 1, child).unwrap();
    assert_eq!(its, forked[1]);
    assert_eq!(life(&mut w, 1, 12345), Err(ESRCH));
    let tid = w.call(child, &[THREAD_CREATE, 1]).result() as u64;
    assert_eq!(life(&mut w, 1, tid), Err(EINVAL));
    assert_eq!(w.call(1, &[LIFE_NUMBER, its]).result(), child as i64);
    let before = w.m.system.kept;
    assert_eq!(follow(&mut w, its), 0);
    assert_eq!(w.m.system.kept, before + 1);
    assert_eq!(w.call(1, &[SIGNAL_LIFE, its, 0]).result(), 0);
    assert_eq!(w.call(1, &[SIGNAL_LIFE, its, 65]).result(), -EINVAL);
    // Not ended: WNOHANG tells nothing.
    assert_eq!(w.call(1, &[WAIT, 3, its, 5]).result(), 0);
    w.exit(child, 3);
    assert_eq!(w.m.system.kept, before);
    // A zombie is there, but has ended.
    assert_eq!(follow(&mut w, its), -ESRCH);
    assert_eq!(life(&mut w, 1, child), Ok(its));
    assert_eq!(w.call(1, &[SIGNAL_LIFE, its, 9]).result(), 0);
    let waited = w.call(1, &[WAIT, 3, its, 5]).words();
    assert_eq!((waited[0], waited[1]), (child, 3 << 8));
    for words in [[SIGNAL_LIFE, its, 9], [LIFE_NUMBER, its, 0]] {
        assert_eq!(w.call(1, &words).result(), -ESRCH);
    }
    // The record is used again, for another life.
    let next = w.fork(1);
    let other = life(&mut w, 1, next).unwrap();
    assert_eq!(other as u32, its as u32);
    assert_eq!(w.call(1, &[SIGNAL_LIFE, its, 9]).result(), -ESRCH);
    assert_eq!(w.call(1, &[WAIT, 3, its, 5]).result(), -ECHILD);
    for made_up in [0, u64::MAX, other | 0xffff, other ^ 1 << 32] {
        assert_eq!(w.call(1, &[SIGNAL_LIFE, made_up, 9]).result(), -ESRCH);
    }
    assert_eq!(w.call(next, &[IDS, 0]).words()[0], next);
    check(&w);
}

#[test]
fn signals_by_a_life_need_what_kill_needs() {
    let mut w = World::new();
    let (root, user, other) = (w.fork(1), w.fork(1), w.fork(1));
    assert_eq!(w.set_ids(user, [9, 9, 9]), 0);
    assert_eq!(w.set_ids(other, [8, 8, 8]), 0);
    let [of_root, of_other] = [root, other].map(|pid| life(&mut w, 1, pid).unwrap());
    for its in [of_root, of_other] {
        assert_eq!(w.call(user, &[SIGNAL_LIFE, its, 15]).result(), -EPERM);
        assert_eq!(w.call(user, &[WAIT, 3, its, 5]).result(), -ECHILD);
    }
    assert_eq!(
        w.call(root, &[SIGNAL_LIFE, of_other, 15, 1]).result(),
        -EPERM
    );
    // Who has no number for a process has none of its lives either.
    let apart = w.call(1, &[FORK, 0x40_0000, 0x50_0000, 1, 2, 0x2000_0000, 17]);
    let apart = apart.result() as u64;
    assert_eq!(w.call(apart, &[SIGNAL_LIFE, of_root, 15]).result(), -EINVAL);
    assert_eq!(life(&mut w, apart, root), Err(ESRCH));
    let own = life(&mut w, 1, apart).unwrap();
    assert_eq!(life(&mut w, apart, 1), Ok(own));
    assert_eq!(w.call(apart, &[LIFE_NUMBER, own]).result(), 1);
    check(&w);
}

#[test]
fn signals_that_were_asked_for_come_to_who_asked() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    assert_eq!(w.call(a, &[SIGNAL_STATE, 0, 1 << 9, 0]).result(), 0);
    assert_eq!(w.set_ids(b, [9, 9, 9]), 0);
    let [of_a, of_b] = [a, b].map(|pid| u64::from(w.domain(pid).id));
    let own = life(&mut w, a, 0).unwrap();
    assert_eq!(own, life(&mut w, 1, a).unwrap());
    let send = |w: &mut World, life, domain, signal| {
        let words = [SIGNAL_FOR, life, domain, signal, -3i64 as u64, 77, of_b];
        w.component(role::SIGNALS, b"", &words).result()
    };
    assert_eq!(send(&mut w, own, of_a, 0), 0);
    assert_eq!(w.call(a, &[SIGNAL_TAKE]).words()[0], 0);
    assert_eq!(send(&mut w, own, of_a, 10), 0);
    let taken = w.call(a, &[SIGNAL_TAKE]).words();
    assert_eq!(taken[..4], [10, -3i64 as u64, b | 9 << 32, 77]);
    // In another domain it runs a program with more rights, and did not ask.
    assert_eq!(send(&mut w, own, of_b, 10), -ESRCH);
    assert_eq!(send(&mut w, own, of_a, 65), -EINVAL);
    w.exit(a, 0);
    assert_eq!(send(&mut w, own, of_a, 10), -ESRCH);
    check(&w);
}

#[test]
fn a_memory_file_is_one_programs() {
    let mut w = World::new();
    let (a, b, c) = (w.fork(1), w.fork(1), w.fork(1));
    for pid in [a, b] {
        assert_eq!(w.set_ids(pid, [9, 9, 9]), 0);
    }
    let [of_1, of_a, of_c] = [1, a, c].map(|pid| u64::from(w.domain(pid).id));
    let open = |w: &mut World, domain, pid| {
        let words = [MEMORY_OPEN, domain, pid];
        let answer = w.component(role::MEMORY, b"", &words);
        (answer.result() == 0)
            .then(|| [answer.words()[1], answer.words()[2]])
            .ok_or(answer.result())
    };
    assert_eq!(open(&mut w, of_a, c), Err(-EACCES));
    let none = w.component(role::INSPECT, b"", &[MEMORY_OPEN, of_1, a]);
    assert_eq!(none.result(), -EPERM);
    // Who made itself undumpable is not for its own user either.
    assert_eq!(w.call(b, &[PRCTL, 4, 0]).result(), 0);
    assert_eq!(open(&mut w, of_a, b), Err(-EACCES));
    let [life, program] = open(&mut w, of_c, a).unwrap();
    let read = |w: &mut World, address| {
        let words = [MEMORY, life, program, address, 0, of_c];
        w.component(role::MEMORY, b"", &words).result()
    };
    w.room = 5000;
    assert_eq!(read(&mut w, 0x40_0000), 4096);
    assert_eq!(read(&mut w, PERSONALITY - 8), 8);
    assert_eq!(read(&mut w, PERSONALITY), -EFAULT);
    assert_eq!(read(&mut w, u64::MAX), -EFAULT);
    w.m.system.absent = Some(0x40_0000);
    assert_eq!(read(&mut w, 0x40_0000), -EFAULT);
    let write = [MEMORY, life, program, 0x50_0000, 1, of_c];
    assert_eq!(w.component(role::MEMORY, b"abc", &write).result(), 3);
    let written = w.m.system.written.last().cloned();
    assert_eq!(written, Some((0x50_0000, b"abc".to_vec())));
    // Another program, or nobody.
    assert_eq!(w.call_with(a, b"/bin/ls", &[EXEC, 7, 0]).result(), 0);
    assert_eq!(read(&mut w, 0x50_0000), 0);
    assert_eq!(w.component(role::MEMORY, b"abc", &write).result(), 0);
    w.exit(a, 0);
    assert_eq!(read(&mut w, 0x50_0000), 0);
    check(&w);
}

#[test]
fn the_call_of_a_thread_is_for_who_may_look_into_it() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    assert_eq!(w.set_ids(b, [9, 9, 9]), 0);
    let [of_a, of_b] = [a, b].map(|pid| u64::from(w.domain(pid).id));
    w.room = 72;
    let call = |w: &mut World, by, tid| {
        let answer = w.component(role::INSPECT, b"", &[CALL_OF, by, tid]);
        answer.result()
    };
    assert_eq!(call(&mut w, of_b, a), -EACCES);
    assert_eq!(call(&mut w, of_a, 9999), -ESRCH);
    // (The fake's threads wait in their program.)
    let told = call(&mut w, of_a, b);
    assert_eq!(told, 1);
    check(&w);
}

#[test]
fn a_core_file_is_for_who_is_dumpable_and_tells_of_the_other_threads() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    assert_eq!(w.call(b, &[PRCTL, 4, 0]).result(), 0);
    w.room = 4096;
    assert_eq!(w.call(b, &[CORE]).result(), -EPERM);
    for _ in 0..2 {
        assert!(w.call(a, &[THREAD_CREATE, 1, 2, 3, 4]).result() > 0);
    }
    // As many as have room, and none twice.
    w.room = CORE_THREAD as usize + 1;
    assert_eq!(w.call(a, &[CORE]).result(), 2);
    assert_eq!(w.m.system.input.len(), CORE_THREAD as usize);
    assert_eq!(w.call(a, &[CORE]).result(), -EPERM);
    w.exit(a, 0x86);
    check(&w);
}

#[test]
fn a_files_signals_are_for_whom_its_asker_may_send_them_to() {
    let mut w = World::new();
    let (a, b, c) = (w.fork(1), w.fork(1), w.fork(1));
    for pid in [a, b] {
        assert_eq!(w.set_ids(pid, [9, 9, 9]), 0);
    }
    for pid in [a, b, c] {
        assert_eq!(
            w.call(pid, &[SIGNAL_STATE, 0, 1 << 28 | 1 << 39, 0])
                .result(),
            0
        );
    }
    let its = life(&mut w, a, 0).unwrap();
    let domain = u64::from(w.domain(a).id);
    let send = |w: &mut World, kind: Owner, id: u64, domain| {
        let owner = kind.word() << OWNER_SHIFT | id;
        let words = [SIGNAL_OWNER, its, domain, 40, 1, 5, 0x41, owner];
        w.component(role::SIGNALS, b"", &words).result()
    };
    for pid in [a, b] {
        assert_eq!(send(&mut w, Owner::Process, pid, domain), 0);
        let taken = w.call(pid, &[SIGNAL_TAKE]).words();
        assert_eq!(taken[..4], [40, 1, 0x41, 5]);
    }
    assert_eq!(send(&mut w, Owner::Thread, b, domain), 0);
    assert_eq!(w.call(b, &[SIGNAL_TAKE]).words()[0], 40);
    // Another user's, and nobody.
    assert_eq!(send(&mut w, Owner::Process, c, domain), -EPERM);
    assert_eq!(send(&mut w, Owner::Thread, c, domain), -EPERM);
    assert_eq!(send(&mut w, Owner::Process, 4000, domain), -ESRCH);
    assert_eq!(send(&mut w, Owner::Group, 4000, domain), -ESRCH);
    // A group gets it as far as its members may.
    let group = w.call(a, &[IDS, 0]).words()[2];
    assert_eq!(send(&mut w, Owner::Group, group, domain), 0);
    let all = [a, b, c].map(|pid| w.call(pid, &[SIGNAL_TAKE]).words()[0]);
    assert_eq!(all, [40, 40, 0]);
    // Whose queue is full learns that some file is ready; for each of a group by itself.
    let queue = -1i64 as u64;
    for n in 0..QUEUE_MOST as u64 {
        assert_eq!(w.call(a, &[KILL, b, 41, queue, n]).result(), 0);
    }
    assert_eq!(send(&mut w, Owner::Group, group, domain), 0);
    let all = [a, b].map(|pid| w.call(pid, &[SIGNAL_TAKE]).words()[..4].to_vec());
    assert_eq!(all, [vec![40, 1, 0x41, 5], vec![29, 0x80, 0, 0]]);
    for n in 0..QUEUE_MOST as u64 {
        assert_eq!(w.call(a, &[TGKILL, b, b, 42, queue, n]).result(), 0);
    }
    assert_eq!(send(&mut w, Owner::Thread, b, domain), 0);
    assert_eq!(w.call(b, &[SIGNAL_TAKE]).words()[0], 29);
    // Who asked is somebody else now.
    assert_eq!(send(&mut w, Owner::Process, a, domain + 1), -ESRCH);
    let words = [SIGNAL_OWNER, its, domain, 40, 1, 5, 0x41, 3 << 32 | a];
    let wrong = w.component(role::SIGNALS, b"", &words);
    assert_eq!(wrong.result(), -EINVAL);
    let by_others = w.component(role::LIVES, b"", &words);
    assert_eq!(by_others.result(), -EPERM);
    w.exit(a, 0);
    assert_eq!(send(&mut w, Owner::Process, b, domain), -ESRCH);
    check(&w);
}
