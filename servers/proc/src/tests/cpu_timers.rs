//! Timers of processor time, and its limit.

use super::invariants::check;
use crate::cpu_timers::{LEAST, MOST};
use crate::fake::World;
use cairn_idl::proc::*;

const EXITED: u64 = 4;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Time passes, of which the process runs so much; how often it was looked at.
fn pass(w: &mut World, pid: u64, until: u64, runs: u64) -> usize {
    let (from, mut looks) = (w.m.system.now, 0);
    let slot = w.slot(pid);
    let domain = w.m.processes[slot].domain.id;
    let before = w.m.system.domains[&domain].cpu;
    loop {
        let next = w.m.deadline().unwrap_or(u64::MAX).clamp(from, until);
        w.m.system.now = next;
        if let Some(it) = w.m.system.domains.get_mut(&domain) {
            let share = u128::from(next - from) * u128::from(runs) / u128::from(until - from);
            it.cpu = before + share as u64;
        }
        if w.m.deadline().is_none_or(|due| due > next) {
            return looks;
        }
        w.m.expire();
        looks += 1;
        check(w);
    }
}

#[test]
fn a_profiling_timer_counts_what_the_process_runs() {
    let mut w = World::new();
    let a = w.fork(1);
    w.call(a, &[SETITIMER, 2, 100 * MS, 50 * MS]);
    assert_eq!(
        w.call(a, &[GETITIMER, 2]).words()[..3],
        [0, 100 * MS, 50 * MS]
    );
    // It sleeps: seldom looked at, and nothing is used up.
    assert!(pass(&mut w, a, 10 * SECOND, 0) <= (10 * SECOND / MOST) as usize + 10);
    assert_eq!(w.call(a, &[GETITIMER, 2]).words()[1], 100 * MS);
    assert_eq!(w.take(a), 0);
    // It runs half the time.
    pass(&mut w, a, 10 * SECOND + 180 * MS, 90 * MS);
    assert_eq!(w.take(a), 0);
    pass(&mut w, a, 10 * SECOND + 220 * MS, 20 * MS);
    assert_eq!(
        w.call(a, &[SIGNAL_TAKE]).words()[..5],
        [27, 0x80, 0, 0, taken::TELL]
    );
    // All the time, but the signal is not taken: no looks.
    assert_eq!(pass(&mut w, a, 12 * SECOND, SECOND), 0);
    w.call(a, &[TIMER, 5, TIMER_REAL - 2]);
    assert!(pass(&mut w, a, 12 * SECOND + 51 * MS, 51 * MS) > 0);
    assert_eq!(w.take(a), 27);
    w.call(a, &[SETITIMER, 2, 0, 0]);
    pass(&mut w, a, 13 * SECOND, 0);
    assert_eq!(w.m.deadline(), None);
    check(&w);
}

#[test]
fn who_runs_all_the_time_is_told_within_a_tick() {
    let mut w = World::new();
    let a = w.fork(1);
    for ahead in [1, 3 * MS, 777 * MS, 10 * SECOND] {
        let from = w.m.system.now;
        w.call(a, &[SETITIMER, 1, ahead, 0]);
        let late = ahead + LEAST;
        let looks = pass(&mut w, a, from + late, late);
        assert!(looks <= 4, "{looks} for {ahead}");
        assert_eq!(w.take(a), 26, "{ahead}");
    }
    assert_eq!(w.call(a, &[GETITIMER, 1]).words()[..3], [0, 0, 0]);
    check(&w);
}

#[test]
fn posix_timers_measure_processes_and_threads() {
    let mut w = World::new();
    let a = w.fork(1);
    let slot = w.slot(a);
    let (thread, tid) = {
        let it = &w.m.processes[slot].threads[0];
        (it.id, u64::from(it.tid))
    };
    let process = w.call(a, &[TIMER, 0, 34, 7, TIMER_CLOCK_PROCESS << 32, tid]);
    let process = process.result() as u64;
    let of_thread = w.call(a, &[TIMER, 0, 35, 8, TIMER_CLOCK_THREAD << 32, tid]);
    let of_thread = of_thread.result() as u64;
    assert_eq!([process % TIMER_CLOCKS, of_thread % TIMER_CLOCKS], [2, 3]);
    let nobody = w.call(a, &[TIMER, 0, 35, 8, TIMER_CLOCK_THREAD << 32, 9999]);
    assert!(nobody.result() < 0);
    w.call(a, &[TIMER, 1, process, 1000 + 10 * MS, 0]);
    w.call(a, &[TIMER, 1, of_thread, 5 + 10 * MS, 10 * MS]);
    pass(&mut w, a, 20 * MS, 20 * MS);
    assert_eq!([w.take(a), w.take(a)], [34, 0], "the thread has not run");
    w.m.system.thread_cpu.insert(thread, 45 * MS);
    pass(&mut w, a, 200 * MS, 0);
    assert_eq!(w.take(a), 35);
    // It passed 10, 20, 30 and 40 ms.
    assert_eq!(w.call(a, &[TIMER, 5, of_thread]).result(), 3);
    w.call(a, &[TIMER, 3, of_thread]);
    w.call(a, &[TIMER, 3, process]);
    pass(&mut w, a, SECOND, 0);
    assert_eq!(w.m.deadline(), None);
    check(&w);
}

#[test]
fn beyond_its_limit_a_process_is_told_each_second_and_ended_at_last() {
    let mut w = World::new();
    let a = w.fork(1);
    let pair = |soft: u64, hard: u64| [soft.to_le_bytes(), hard.to_le_bytes()].concat();
    w.call(a, &[SIGNAL_STATE, 0, 1 << 23, 0]);
    w.call_with(a, &pair(2, 4), &[PRLIMIT, 0, 0, 1]);
    // A child has the limit for itself.
    pass(&mut w, a, SECOND, SECOND);
    let b = w.fork(a);
    pass(&mut w, a, 2 * SECOND, SECOND / 2);
    assert_eq!(w.take(a), 0);
    pass(&mut w, a, 3 * SECOND, 600 * MS);
    assert_eq!(w.take(a), 24);
    pass(&mut w, a, 4 * SECOND, SECOND);
    assert_eq!(w.take(a), 24);
    pass(&mut w, a, 6 * SECOND, SECOND);
    assert_eq!(w.poll(1, EXITED), (a as i64, 9));
    // Who takes the limit away is not looked at any more.
    w.call_with(b, &pair(u64::MAX, u64::MAX), &[PRLIMIT, 0, 0, 1]);
    w.call_with(b, &pair(4, 4), &[PRLIMIT, 0, 0, 1]);
    assert!(w.m.deadline().is_some());
    w.exit(b, 0);
    assert_eq!(w.m.deadline(), None);
    check(&w);
}
