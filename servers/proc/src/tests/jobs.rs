//! Sessions, groups, orphaned groups, terminals.

use super::invariants::check;
use crate::fake::World;
use cairn_idl::errno::*;
use cairn_idl::proc::*;
use cairn_rt::Portal;

/// A session leader and a job in its own group.
fn shell_and_job(w: &mut World) -> (u64, u64) {
    let shell = w.fork(1);
    assert_eq!(w.call(shell, &[SETSID]).result() as u64, shell);
    let job = w.fork(shell);
    assert_eq!(w.call(shell, &[SETPGID, job, 0]).result(), 0);
    (shell, job)
}

#[test]
fn setpgid_follows_the_rules() {
    let mut w = World::new();
    let (shell, job) = shell_and_job(&mut w);
    let other = w.fork(1);
    let grandchild = w.fork(job);
    assert_eq!(
        w.call(shell, &[SETPGID, shell, 0]).result(),
        -EPERM,
        "session leader"
    );
    assert_eq!(w.call(shell, &[SETPGID, grandchild, 0]).result(), -ESRCH);
    assert_eq!(w.call(shell, &[SETPGID, 4711, 0]).result(), -ESRCH);
    assert_eq!(w.call(shell, &[SETPGID, job, u64::MAX]).result(), -EINVAL);
    assert_eq!(
        w.call(shell, &[SETPGID, job, 4711]).result(),
        -EPERM,
        "no such group"
    );
    assert_eq!(
        w.call(other, &[SETPGID, 0, job]).result(),
        -EPERM,
        "another session"
    );
    assert_eq!(
        w.call(1, &[SETPGID, shell, 1]).result(),
        -EPERM,
        "child in another session"
    );
    let second = w.fork(shell);
    assert_eq!(w.call(shell, &[SETPGID, second, job]).result(), 0);
    assert_eq!(w.call_with(second, b"x", &[EXEC, 1]).result(), 0);
    assert_eq!(w.call(shell, &[SETPGID, second, 0]).result(), -EACCES);
    assert_eq!(w.call(second, &[SETPGID, 0, 0]).result(), 0);
    assert_eq!(w.call(job, &[SETSID]).result(), -EPERM, "group leader");
    check(&w);
}

#[test]
fn ids_are_told() {
    let mut w = World::new();
    let (shell, job) = shell_and_job(&mut w);
    assert_eq!(
        w.call(shell, &[IDS, job]).words()[..4],
        [job, shell, job, shell]
    );
    assert_eq!(w.call(job, &[IDS]).words()[5], job);
    assert_eq!(w.call(job, &[IDS, 4711]).result(), -ESRCH);
    assert_eq!(w.call(1, &[IDS]).words()[..4], [1, 0, 1, 1]);
    assert_eq!(
        w.system(b"", &[IDS, job]).words()[..4],
        [job, shell, job, shell]
    );
    assert_eq!(w.system(b"", &[IDS, 0]).result(), -EPERM);
}

#[test]
fn a_newly_orphaned_stopped_group_is_hung_up_and_continued() {
    let mut w = World::new();
    let (shell, job) = shell_and_job(&mut w);
    let stop = w.call(job, &[STOP_SELF, 20]).token();
    let running = w.fork(shell);
    w.call(shell, &[SETPGID, running, 0]);
    w.exit(shell, 0);
    assert_eq!(w.reply(stop).unwrap()[0], 0);
    assert_eq!(
        [w.take(job), w.take(job)],
        [1, 0],
        "SIGCONT is ignored by default"
    );
    assert_eq!(w.take(running), 0, "only stopped groups are hung up");
    // It cannot be stopped by the terminal any more, but by SIGSTOP.
    assert_eq!(w.call(job, &[STOP_SELF, 21]).result(), 0);
    w.call(job, &[STOP_SELF, 19]).token();
    check(&w);
}

#[test]
fn the_first_process_connects_nobody() {
    let mut w = World::new();
    let child = w.fork(1);
    assert_eq!(w.call(child, &[SETPGID]).result(), 0);
    assert_eq!(w.call(child, &[STOP_SELF, 20]).result(), 0);
    assert_eq!(w.state(child), Some('S'));
}

#[test]
fn a_group_is_orphaned_when_the_connecting_member_ends() {
    let mut w = World::new();
    let (shell, job) = shell_and_job(&mut w);
    let part = w.fork(job);
    let stop = w.call(part, &[STOP_SELF, 20]).token();
    w.exit(job, 0);
    assert!(w.reply(stop).is_some());
    assert_eq!(w.take(part), 1);
    assert_eq!(w.state(shell), Some('S'));
    check(&w);
}

#[test]
fn the_terminal_is_told_of_the_leaders_end() {
    let mut w = World::new();
    let (shell, job) = shell_and_job(&mut w);
    let set = |w: &mut World, sid: u64, device: u64, portals: usize| {
        w.message(
            7,
            7,
            role::TERMINAL,
            0,
            b"",
            &[SET_TERMINAL, sid, device, 0, 0, 0, 0, 88],
            portals,
        )
        .result()
    };
    assert_eq!(set(&mut w, shell, 0x501, 1), 0);
    assert_eq!(set(&mut w, shell, 0x502, 1), -EPERM);
    assert_eq!(
        w.m.system.closed,
        [Portal(88)],
        "what is not kept is closed"
    );
    assert_eq!(set(&mut w, 4711, 0x501, 1), -ESRCH);
    assert_eq!(w.call(job, &[IDS]).words()[4], 0x501);
    let id = w.domain(job).id as u64;
    let words = w.system(b"", &[IDS_OF, id]).words();
    assert_eq!(words[..5], [job, job, shell, 0x501, 0]);
    let thread = w.m.processes[w.m.numbers.process(job).unwrap()].threads[0].id;
    let tid = |w: &mut World, thread: u64| w.system(b"", &[IDS_OF, id, thread]).words()[5];
    assert_eq!(tid(&mut w, thread.into()), job);
    assert_eq!(tid(&mut w, u64::from(thread) + 1000), 0);
    assert_eq!(tid(&mut w, u64::MAX), 0);
    // With its groups, as many as there is room for.
    let (slot, before) = (w.slot(job), w.room);
    let creds = &mut w.m.processes[slot].creds;
    creds.group_count = 3;
    creds.groups[..3].copy_from_slice(&[7, 8, 9]);
    for (room, bytes) in [(0, 0), (3, 0), (8, 8), (128, 12)] {
        w.room = room;
        assert_eq!(w.system(b"", &[IDS_OF, id]).words()[6], 3);
        let all = [7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0];
        assert_eq!(w.m.system.input, all[..bytes], "{room}");
    }
    w.room = before;
    // One member without it, and what it forks, until a session of its own.
    let leave = |w: &mut World, sid: u64, device: u64, member: u64| {
        let words = [SET_TERMINAL, sid, device, member];
        w.component(role::TERMINAL, b"", &words).result()
    };
    assert_eq!(leave(&mut w, shell, 0, 4711), -ESRCH);
    assert_eq!(leave(&mut w, shell, 0x501, job), -EINVAL);
    assert_eq!(leave(&mut w, shell, 0, 1), -EINVAL, "of another session");
    let other = w.fork(shell);
    assert_eq!(leave(&mut w, shell, 0, other), 0);
    let child = w.fork(other);
    for (who, terminal) in [(other, 0), (child, 0), (job, 0x501), (shell, 0x501)] {
        assert_eq!(w.call(who, &[IDS]).words()[4], terminal, "{who}");
    }
    assert_eq!(w.call(child, &[SETSID]).result(), child as i64);
    assert_eq!(set(&mut w, child, 0x502, 0), 0);
    assert_eq!(w.call(child, &[IDS]).words()[4], 0x502);
    w.call(job, &[SIGNAL_STATE, 1 << 20 | 1 << 21, 0, 0]);
    assert_eq!(w.system(b"", &[IDS_OF, id]).words()[4], 3);
    let leader = w.domain(shell).id as u64;
    assert_eq!(w.system(b"", &[IDS_OF, leader]).words()[4] & 8, 8);
    assert_eq!(
        w.call(job, &[IDS_OF, id]).result(),
        -EPERM,
        "not for processes"
    );
    w.exit(shell, 0);
    assert_eq!(w.m.system.notified, [(Portal(88), 1)]);
    assert_eq!(w.call(job, &[IDS]).words()[4], 0);
    let words = w.system(b"", &[IDS_OF, id]).words();
    assert_eq!(words[4], 7, "orphaned now");
    assert_eq!(w.system(b"", &[SIGNAL_GROUP, job, 1]).result(), 0);
    assert_eq!(w.take(job), 1);
    assert_eq!(w.system(b"", &[SIGNAL_GROUP, 4711, 1]).result(), -ESRCH);
    check(&w);
}
