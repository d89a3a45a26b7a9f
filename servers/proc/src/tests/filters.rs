//! Filters of system calls: who may have them, who has them from whom, and what they take away.

use super::invariants::check;
use crate::fake::World;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

const NO_NEW_PRIVILEGES: u64 = 38;

fn user(w: &mut World) -> u64 {
    let pid = w.fork(1);
    assert_eq!(w.set_ids(pid, [9, 9, 9]), 0);
    assert_eq!(w.call(pid, &[PRCTL, NO_NEW_PRIVILEGES, 1]).result(), 0);
    pid
}

fn add(w: &mut World, pid: u64, program: &[u8], refused: u64) -> i64 {
    let words = [SECCOMP, FilterOp::Add.word(), refused];
    w.call_with(pid, program, &words).result()
}

/// The thread's filters: how many, mode, and the newest one's program.
fn read(w: &mut World, pid: u64, thread: Id) -> (u64, u64, Vec<u8>) {
    w.room = FILTER_BYTES as usize;
    let words = w
        .call_by(pid, thread, b"", &[SECCOMP, FilterOp::Read.word(), 0])
        .words();
    w.room = 0;
    let program = w.m.system.input[..words[0] as usize].to_vec();
    (words[1], words[2], program)
}

fn first(w: &World, pid: u64) -> Id {
    w.m.processes[w.slot(pid)].threads[0].id
}

fn read_first(w: &mut World, pid: u64) -> (u64, u64, Vec<u8>) {
    let thread = first(w, pid);
    read(w, pid, thread)
}

fn new_thread(w: &mut World, pid: u64) -> Id {
    w.call(pid, &[THREAD_CREATE, 1]).words()[1] as Id
}

#[test]
fn who_may_install_what() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(w.set_ids(a, [9, 9, 9]), 0);
    assert_eq!(add(&mut w, a, &[1; 8], 0), -EACCES, "it may get privileges");
    assert_eq!(add(&mut w, 1, &[1; 8], 0), 0, "the superuser's");
    assert_eq!(w.call(a, &[PRCTL, NO_NEW_PRIVILEGES, 1]).result(), 0);
    assert_eq!(add(&mut w, a, &[1; 7], 0), -EINVAL);
    assert_eq!(
        add(&mut w, a, &vec![1; FILTER_BYTES as usize + 8], 0),
        -EINVAL
    );
    assert_eq!(w.call(a, &[SECCOMP, 3]).result(), -EINVAL);
    assert_eq!(add(&mut w, a, &[1; 8], 0), 0);
    assert_eq!(add(&mut w, a, &[2; 16], 0), 0);
    let thread = first(&w, a);
    let filter = FilterMode::Filter.word();
    assert_eq!(read(&mut w, a, thread), (2, filter, vec![2; 16]));
    assert_eq!(add(&mut w, a, b"", 0), -EINVAL, "no strict mode then");
    let words = [SECCOMP, FilterOp::Read.word(), 2];
    assert_eq!(w.call(a, &words).result(), -ENOENT);
    // No room for the answer.
    let words = [SECCOMP, FilterOp::Read.word(), 0];
    assert_eq!(w.call(a, &words).result(), -EFAULT);
    let b = w.fork(1);
    assert_eq!(w.set_ids(b, [9, 9, 9]), 0);
    assert_eq!(read_first(&mut w, b).0, 1, "the superuser's, inherited");
    check(&w);
}

#[test]
fn strict_mode_is_the_last() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(w.set_ids(a, [9, 9, 9]), 0);
    // It needs no privilege.
    assert_eq!(add(&mut w, a, b"", 0), 0);
    let thread = first(&w, a);
    assert_eq!(
        read(&mut w, a, thread),
        (1, FilterMode::Strict.word(), vec![])
    );
    assert_eq!(w.call(a, &[PRCTL, NO_NEW_PRIVILEGES, 1]).result(), 0);
    assert_eq!(add(&mut w, a, &[1; 8], 0), -EINVAL);
    assert_eq!(add(&mut w, a, b"", 0), -EINVAL);
}

#[test]
fn filters_are_inherited() {
    let mut w = World::new();
    let a = user(&mut w);
    let free = new_thread(&mut w, a);
    assert_eq!(add(&mut w, a, &[1; 8], 1 << SETSID), 0);
    let made = new_thread(&mut w, a);
    let slot = w.slot(a);
    let filters = |w: &World, thread: Id| w.m.processes[slot].filters_of(thread).is_some();
    assert_eq!([filters(&w, free), filters(&w, made)], [false, true]);
    // Its other threads can do for it what they like: nothing is refused yet.
    assert_eq!(w.m.processes[slot].refused, 0);
    let by_free = w.call_by(a, free, b"", &[FORK, 1]).result() as u64;
    assert!(w.m.processes[w.slot(by_free)]
        .filters_of(first(&w, by_free))
        .is_none());
    let child = w.call(a, &[FORK, 1]).result() as u64;
    assert_eq!(read_first(&mut w, child).2, [1; 8]);
    assert!(
        w.m.system.of(w.domain(child)).traced,
        "its calls come by the entry for those"
    );
    assert_eq!(w.call(child, &[SETSID]).result(), -EPERM);
    // A tracer that comes and goes changes nothing.
    let tracer = w.fork(1);
    assert_eq!(w.call(tracer, &[TRACE, 16, child]).result(), 0);
    w.exit(tracer, 0);
    assert_eq!(w.m.processes[w.slot(child)].traced, 0);
    let domain = w.domain(child);
    assert!(w.m.system.of(domain).traced);
    // exec keeps them, and what they rule out.
    assert_eq!(w.call(a, &[EXEC, 0, 0, 0]).result(), 0);
    assert_eq!(read_first(&mut w, a).2, [1; 8]);
    assert_eq!(w.call(a, &[SETSID]).result(), -EPERM);
    check(&w);
}

#[test]
fn all_threads_at_once() {
    let mut w = World::new();
    let a = user(&mut w);
    let other = new_thread(&mut w, a);
    let to_all = [SECCOMP, FilterOp::AddToAll.word(), 1 << SETSID];
    assert_eq!(w.call_with(a, &[1; 8], &to_all).result(), 0);
    assert_eq!(read(&mut w, a, other).2, [1; 8]);
    assert_eq!(w.call_by(a, other, b"", &[SETSID]).result(), -EPERM);
    // One has a filter that the others have not: it is named.
    let words = [SECCOMP, FilterOp::Add.word(), 0];
    assert_eq!(w.call_by(a, other, &[2; 8], &words).result(), 0);
    let slot = w.slot(a);
    let tid = w.m.processes[slot].threads[1].tid;
    assert_eq!(w.call_with(a, &[3; 8], &to_all).result(), i64::from(tid));
    assert_eq!(read_first(&mut w, a).0, 1);
    // The other way round it adds to what they have.
    assert_eq!(w.call_by(a, other, &[3; 8], &to_all).result(), 0);
    assert_eq!(
        read_first(&mut w, a),
        (3, FilterMode::Filter.word(), vec![3; 8])
    );
    check(&w);
}

#[test]
fn what_is_ruled_out_stays_so() {
    let mut w = World::new();
    let (a, victim) = (user(&mut w), user(&mut w));
    assert_eq!(add(&mut w, a, &[1; 8], 1 << KILL | 1 << TGKILL), 0);
    assert_eq!(w.call(a, &[KILL, victim, 9]).result(), -EPERM);
    assert_eq!(w.call(a, &[KILL, u64::MAX, 9]).result(), -EPERM);
    assert_eq!(w.call(a, &[TGKILL, victim, victim, 9]).result(), -EPERM);
    assert_eq!(w.call(a, &[TGKILL, a, a, 10]).result(), 0, "to itself");
    assert_eq!(add(&mut w, a, &[2; 8], 1 << FORK), 0);
    assert_eq!(add(&mut w, a, &[3; 8], 0), 0);
    assert_eq!(w.call(a, &[FORK, 1]).result(), -EPERM);
    assert_eq!(w.call(a, &[KILL, victim, 9]).result(), -EPERM);
    // The superuser's too.
    assert_eq!(add(&mut w, 1, &[1; 8], 1 << SETHOSTNAME | 1 << POWER), 0);
    assert_eq!(w.call_with(1, b"name", &[SETHOSTNAME]).result(), -EPERM);
    assert_eq!(w.call(1, &[POWER, 1, 0]).result(), -EPERM);
    check(&w);
}

#[test]
fn filters_have_limits_and_are_given_back() {
    let mut w = World::new();
    let a = user(&mut w);
    let long = vec![1; FILTER_BYTES as usize];
    // As on Linux: 32,768 instructions, four more for each.
    for _ in 0..7 {
        assert_eq!(add(&mut w, a, &long, 0), 0);
    }
    assert_eq!(add(&mut w, a, &long, 0), -ENOMEM);
    let b = user(&mut w);
    for _ in 0..256 {
        assert_eq!(add(&mut w, b, &[1; 8], 0), 0);
    }
    assert_eq!(add(&mut w, b, &[1; 8], 0), -ENOMEM, "256 filters");
    // A user's: so many processes with the longest ones.
    let more: Vec<u64> = (0..4).map(|_| user(&mut w)).collect();
    let refused = more
        .iter()
        .any(|&pid| (0..7).any(|_| add(&mut w, pid, &long, 0) == -ENOMEM));
    assert!(refused);
    assert_eq!(add(&mut w, 1, &long, 0), 0, "not another's");
    for pid in more.into_iter().chain([a, b]) {
        w.exit(pid, 0);
        w.call(1, &[WAIT, 0, 0, 1 | 4]);
    }
    let again = user(&mut w);
    for _ in 0..6 {
        assert_eq!(add(&mut w, again, &long, 0), 0);
    }
    check(&w);
}
