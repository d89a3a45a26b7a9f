//! Sending, taking, permission; stop and continue.

use super::invariants::check;
use crate::fake::{Notice, World};
use crate::signal::*;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

const EXITED: u64 = 4;

#[test]
fn permission_is_by_ids_as_posix_has_it() {
    // Sender's real and effective id, target's real and saved one, permitted.
    let table = [
        ([0, 0], [5, 5], true),
        ([5, 0], [7, 7], true),
        ([0, 5], [7, 7], false),
        ([5, 6], [5, 9], true),
        ([5, 6], [9, 5], true),
        ([5, 6], [6, 9], true),
        ([5, 6], [9, 6], true),
        ([5, 6], [7, 8], false),
        ([5, 5], [0, 0], false),
    ];
    for ([ruid, euid], [target_ruid, target_suid], permitted) in table {
        let mut w = World::new();
        let sender = w.fork(1);
        let target = w.fork(1);
        assert_eq!(w.set_ids(target, [target_ruid, 99, target_suid]), 0);
        assert_eq!(w.set_ids(sender, [ruid, euid, 33]), 0);
        let expected = if permitted { 0 } else { -EPERM };
        for signal in [0, 15, 9] {
            assert_eq!(
                w.kill(sender, target as i64, signal),
                expected,
                "{ruid} {euid}"
            );
        }
        // Within a session SIGCONT is for everybody.
        assert_eq!(w.kill(sender, target as i64, 18), 0);
        check(&w);
    }
}

#[test]
fn sigcont_stops_at_the_session() {
    let mut w = World::new();
    let (sender, target) = (w.fork(1), w.fork(1));
    w.call(target, &[SETSID]);
    w.set_ids(sender, [5, 5, 5]);
    assert_eq!(w.kill(sender, target as i64, 18), -EPERM);
}

#[test]
fn signals_reach_processes_groups_and_everybody() {
    let mut w = World::new();
    let (a, b, c) = (w.fork(1), w.fork(1), w.fork(1));
    w.call(a, &[SETPGID]);
    w.call(1, &[SETPGID, b, a]);
    assert_eq!(w.kill(c, -(a as i64), 10), 0);
    assert_eq!([w.take(a), w.take(b), w.take(c)], [10, 10, 0]);
    assert_eq!(w.kill(a, 0, 12), 0);
    assert_eq!([w.take(a), w.take(b), w.take(c)], [12, 12, 0]);
    assert_eq!(w.kill(a, -1, 14), 0);
    assert_eq!([w.take(a), w.take(b), w.take(c), w.take(1)], [0, 14, 14, 0]);
    assert_eq!(w.kill(a, 4711, 1), -ESRCH);
    assert_eq!(w.kill(a, -4711, 1), -ESRCH);
    assert_eq!(w.kill(a, b as i64, 65), -EINVAL);
    assert_eq!(w.kill(a, b as i64, u64::MAX), -EINVAL);
    w.exit(c, 0);
    assert_eq!(w.kill(a, c as i64, 9), 0, "a zombie is still there");
    check(&w);
}

#[test]
fn kill_of_the_own_group_ends_the_killer_too() {
    let mut w = World::new();
    let a = w.fork(1);
    w.call(a, &[SETSID]);
    let b = w.fork(a);
    w.kill(a, 0, 9);
    assert_eq!((w.state(a), w.state(b)), (Some('Z'), Some('Z')));
    check(&w);
    assert_eq!(w.poll(1, EXITED), (a as i64, 9));
    assert_eq!(w.poll(1, EXITED), (b as i64, 9));
}

#[test]
fn the_first_process_takes_only_what_it_catches() {
    let mut w = World::new();
    let a = w.fork(1);
    for signal in [9, 19, 15] {
        assert_eq!(w.kill(a, 1, signal), 0);
    }
    assert_eq!(w.state(1), Some('S'));
    assert_eq!(w.take(1), 0);
    w.call(1, &[SIGNAL_STATE, 0, 1 << 14, 0]);
    w.kill(a, 1, 15);
    assert_eq!(w.take(1), 15);
}

#[test]
fn ignored_signals_are_dropped_now_and_when_they_become_so() {
    let mut w = World::new();
    let a = w.fork(1);
    let domain = w.domain(a);
    w.kill(1, a as i64, 28);
    assert_eq!((w.take(a), w.m.system.of(domain).pokes), (0, 0));
    w.kill(1, a as i64, 2);
    assert_eq!(w.m.system.of(domain).pokes, 1);
    w.call(a, &[SIGNAL_STATE, 1 << 1, 0, 0]);
    assert_eq!(w.take(a), 0);
    // SIGKILL cannot be ignored.
    w.call(a, &[SIGNAL_STATE, u64::MAX, 0, 0]);
    w.kill(1, a as i64, 9);
    assert_eq!(w.state(a), Some('Z'));
}

#[test]
fn tgkill_is_for_one_thread() {
    let mut w = World::new();
    let a = w.fork(1);
    let words = w.call(a, &[THREAD_CREATE, 1]).words();
    let (tid, id) = (words[0], words[1] as u32);
    let user = -6i64 as u64;
    assert_eq!(w.call(1, &[TGKILL, a, tid, 10, user, 0]).result(), 0);
    assert_eq!(w.take(a), 0);
    let words = w.call_by(a, id, b"", &[SIGNAL_TAKE]).words();
    assert_eq!(words[..5], [10, user, 1, 0, 1]);
    assert_eq!(w.call(1, &[TGKILL, 1, tid, 10, user]).result(), -ESRCH);
    assert_eq!(w.call(1, &[TGKILL, a, 0, 10, user]).result(), -EINVAL);
    assert_eq!(w.call(1, &[TGKILL, a, 12345, 10, user]).result(), -ESRCH);
    // Only to oneself may one pretend to be the kernel.
    assert_eq!(w.call(1, &[TGKILL, a, tid, 10, 1]).result(), -EPERM);
    assert_eq!(w.call(1, &[KILL, a, 10, 1]).result(), -EPERM);
    assert_eq!(w.call(a, &[TGKILL, a, tid, 10, 1]).result(), 0);
}

#[test]
fn a_signal_to_oneself_comes_with_the_answer() {
    let mut w = World::new();
    let a = w.fork(1);
    let domain = w.domain(a);
    let words = w.call(a, &[THREAD_CREATE, 1]).words();
    let (tid, id) = (words[0], words[1] as u32);
    let words = w.call(a, &[KILL, a, 10, 0, 0, 1]).words();
    assert_eq!(words[..6], [0, 10, 0, a, 0, 0]);
    let user = -6i64 as u64;
    let wish = [TGKILL, a, tid, 12, user, 7, 1];
    let words = w.call_by(a, id, b"", &wish).words();
    assert_eq!(words[..6], [0, 12, user, a, 7, 1]);
    assert_eq!((w.take(a), w.m.system.of(domain).pokes), (0, 0));
    // Not if it is another thread's, another process's, ignored, or not wished for.
    assert_eq!(w.call(a, &wish).words()[..2], [0, 0]);
    assert_eq!(w.call(1, &[KILL, a, 14, 0, 0, 1]).words()[..2], [0, 0]);
    assert_eq!(w.call(a, &[KILL, a, 28, 0, 0, 1]).words()[..2], [0, 0]);
    assert_eq!(w.call(a, &[KILL, a, 15]).words()[..2], [0, 0]);
    assert_eq!(w.m.system.of(domain).pokes, 3);
    // The lowest number first, and that there is more.
    let words = w.call(a, &[KILL, a, 10, 0, 0, 1]).words();
    assert_eq!((words[1], words[5]), (10, 2));
    let words = w.call(a, &[SIGNAL_TAKE]).words();
    assert_eq!((words[0], words[4]), (14, 2));
    let words = w.call(a, &[SIGNAL_TAKE]).words();
    assert_eq!((words[0], words[4]), (15, 0));
}

#[test]
fn a_full_queue_says_so() {
    let mut w = World::new();
    let a = w.fork(1);
    let queue = -1i64 as u64;
    for n in 0..QUEUE_MOST as u64 {
        assert_eq!(w.call(1, &[KILL, a, 40, queue, n]).result(), 0);
    }
    assert_eq!(w.call(1, &[KILL, a, 40, queue, 9]).result(), -EAGAIN);
    assert_eq!(w.call(a, &[SIGNAL_TAKE]).words()[..4], [40, queue, 1, 0]);
    assert_eq!(w.call(a, &[SIGNAL_TAKE]).words()[3], 1);
}

#[test]
fn stop_and_continue_are_told_to_the_parent() {
    let mut w = World::new();
    let shell = w.fork(1);
    w.call(shell, &[SIGNAL_STATE, 0, 1 << 16, 0]);
    let job = w.fork(shell);
    w.call(shell, &[SETPGID, job, job]);
    let token = w.call(shell, &[WAIT, 0, 0, EXITED | 2]).token();
    let stop = w.call(job, &[STOP_SELF, 20]).token();
    check(&w);
    assert_eq!(w.state(job), Some('T'));
    assert_eq!(w.reply(token).unwrap()[..2], [job, 20 << 8 | 0x7f]);
    let words = w.call(shell, &[SIGNAL_TAKE]).words();
    assert_eq!(words[..4], [17, 5, job, 20]);
    assert_eq!(w.poll(shell, EXITED | 2).0, 0, "told once");
    // A signal does not wake it, but waits.
    w.kill(shell, job as i64, 15);
    w.unblock(stop);
    assert_eq!(w.reply(stop), None);
    assert_eq!(w.kill(shell, job as i64, 18), 0);
    assert_eq!(w.reply(stop).unwrap()[0], 0);
    assert_eq!(w.take(job), 15);
    assert_eq!(w.poll(shell, EXITED).0, 0);
    assert_eq!(w.poll(shell, EXITED | 8), (job as i64, 0xffff));
    check(&w);
}

#[test]
fn the_signal_about_a_child_is_there_before_the_wait_ends() {
    let mut w = World::new();
    let shell = w.fork(1);
    w.call(shell, &[SIGNAL_STATE, 0, 1 << 16, 0]);
    let thread = w.m.processes[w.slot(shell)].threads[0].id;
    let expect = |w: &mut World, token| {
        let notices = core::mem::take(&mut w.m.system.notices);
        assert_eq!(notices, [Notice::Poke(thread), Notice::Reply(token)]);
        assert_eq!(w.take(shell), 17);
    };
    let job = w.fork(shell);
    w.call(shell, &[SETPGID, job, job]);
    w.m.system.notices.clear();
    let token = w.call(shell, &[WAIT, 0, 0, EXITED | 2]).token();
    w.call(job, &[STOP_SELF, 20]).token();
    expect(&mut w, token);
    let token = w.call(shell, &[WAIT, 0, 0, EXITED]).token();
    w.kill(1, job as i64, 9);
    expect(&mut w, token);
    // A child that comes as a zombie already.
    let middle = w.fork(shell);
    let child = w.fork(middle);
    w.call(shell, &[PRCTL, 36, 1]);
    w.exit(child, 3);
    w.m.system.notices.clear();
    let token = w.call(shell, &[WAIT, 1, child, EXITED]);
    assert_eq!(token.result(), -ECHILD);
    let token = w.call(shell, &[WAIT, 0, 0, EXITED]).token();
    w.exit(middle, 0);
    let notices = core::mem::take(&mut w.m.system.notices);
    assert_eq!(notices[..2], [Notice::Poke(thread), Notice::Reply(token)]);
    assert_eq!(w.reply(token).unwrap()[0], child);
    check(&w);
}

/// It may run as soon as it is continued, before `proc` has finished the message: then the signal must be there.
#[test]
fn what_continues_a_process_is_there_before_it_goes_on() {
    let mut w = World::new();
    let a = w.fork(1);
    let thread = w.m.processes[w.slot(a)].threads[0].id;
    w.call(a, &[SIGNAL_STATE, 0, 1 << 17, 0]);
    w.kill(1, a as i64, 19);
    w.m.system.notices.clear();
    w.kill(1, a as i64, 18);
    let [first, second, ..] = w.m.system.notices[..] else {
        panic!("{:?}", w.m.system.notices);
    };
    assert_eq!(first, Notice::Poke(thread));
    assert!(matches!(second, Notice::Resume(_)));
    assert_eq!(w.take(a), 18);
    check(&w);
}

#[test]
fn sigstop_stops_at_once_and_sigkill_ends_the_stopped() {
    let mut w = World::new();
    let a = w.fork(1);
    w.kill(1, a as i64, 19);
    assert_eq!(w.state(a), Some('T'));
    assert_eq!(w.poll(1, 2), (a as i64, 19 << 8 | 0x7f));
    w.kill(1, a as i64, 9);
    assert_eq!(w.poll(1, EXITED), (a as i64, 9));
    check(&w);
}

#[test]
fn sigcont_cancels_a_stop_that_was_taken_before() {
    let mut w = World::new();
    let shell = w.fork(1);
    let job = w.fork(shell);
    w.call(shell, &[SETPGID, job, job]);
    w.kill(shell, job as i64, 20);
    assert_eq!(w.take(job), 20);
    w.kill(shell, job as i64, 18);
    assert_eq!(w.call(job, &[STOP_SELF, 20]).result(), 0);
    assert_eq!(w.state(job), Some('S'));
    // Pending ones cancel each other too.
    w.kill(shell, job as i64, 20);
    w.kill(shell, job as i64, 18);
    assert_eq!(w.take(job), 0);
    w.call(job, &[STOP_SELF, 20]).token();
    assert_eq!(w.state(job), Some('T'));
    assert_eq!(w.call(shell, &[STOP_SELF, 15]).result(), -EINVAL);
    assert_eq!(w.call(shell, &[STOP_SELF, 0]).result(), -EINVAL);
}

#[test]
fn a_child_with_another_exit_signal() {
    let mut w = World::new();
    let shell = w.fork(1);
    let child = w.call(shell, &[FORK, 1, 2, 0, 0, 0, 10]).result() as u64;
    let silent = w.call(shell, &[FORK, 1, 2, 0, 0, 0, 0]).result() as u64;
    w.exit(child, 0);
    w.exit(silent, 0);
    assert_eq!([w.take(shell), w.take(shell)], [10, 0]);
}

#[test]
fn death_of_the_parent_can_be_a_signal() {
    let mut w = World::new();
    let shell = w.fork(1);
    let mut chain = vec![shell];
    for _ in 0..200 {
        let child = w.fork(*chain.last().unwrap());
        w.call(child, &[PRCTL, 1, 9]);
        chain.push(child);
    }
    w.exit(shell, 0);
    while w.background() {}
    assert!(chain.iter().all(|pid| w.state(*pid) == Some('Z')));
    check(&w);
}
