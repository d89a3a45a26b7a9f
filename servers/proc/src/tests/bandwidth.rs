//! Groups of processes that are limited in time: who is halted, when, and that all is undone.

use super::invariants::check;
use crate::fake::World;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn group(w: &mut World, above: u64) -> u64 {
    let words = [CGROUP_MAKE, above];
    w.component(role::CGROUP, b"group", &words).result() as u64
}

fn set(w: &mut World, group: u64, what: CgroupLimit, value: u64) -> i64 {
    let words = [CGROUP_SET, group, what.word(), value];
    w.component(role::CGROUP, b"", &words).result()
}

fn enter(w: &mut World, pid: u64, from: u64, to: u64) {
    let words = [CGROUP_MOVE, pid, from, to];
    assert_eq!(w.component(role::CGROUP, b"", &words).result(), 0);
}

/// CGROUP_CPU without the result word.
fn cpu(w: &mut World, group: u64) -> [u64; 7] {
    let words = w.component(role::CGROUP, b"", &[CGROUP_CPU, group]).words();
    assert_eq!(words[0], 0);
    words[1..].try_into().unwrap()
}

fn quota(quota_ms: u64, period_ms: u64) -> u64 {
    (quota_ms * 1000) | ((period_ms * 1000) << 32)
}

fn halted(w: &World, pid: u64) -> bool {
    w.m.processes[w.slot(pid)].halted
}

/// Time passes in steps of a tenth of a millisecond; each of these that may run does, all at once, but for `idle`.
fn run(w: &mut World, pids: &[u64], time: u64) {
    let until = w.m.system.now + time;
    while w.m.system.now < until {
        let step = MS / 10;
        w.m.system.now += step;
        for &pid in pids {
            if !halted(w, pid) {
                let domain = w.domain(pid).id;
                w.m.system.domains.get_mut(&domain).unwrap().cpu += step;
            }
        }
        while w.m.deadline().is_some_and(|due| due <= w.m.system.now) {
            w.m.expire();
        }
    }
    check(w);
}

fn used(w: &mut World, pid: u64) -> u64 {
    let domain = w.domain(pid).id;
    w.m.system.domains[&domain].cpu
}

#[test]
fn who_spins_has_its_share_and_no_more() {
    for (ms, period) in [(20, 100), (5, 10), (1, 100), (300, 1000)] {
        let mut w = World::new();
        let a = w.fork(1);
        let g = group(&mut w, 0);
        enter(&mut w, a, 0, g);
        assert_eq!(set(&mut w, g, CgroupLimit::Quota, quota(ms, period)), 0);
        run(&mut w, &[a], 10 * SECOND);
        let share = used(&mut w, a) * period / (10 * SECOND / 100) / ms;
        assert!((97..=103).contains(&share), "{ms} of {period}: {share} %");
        let [_, periods, throttled, waited, ..] = cpu(&mut w, g);
        let all = 10 * SECOND / (period * MS);
        assert!(periods.abs_diff(all) <= 1 && throttled.abs_diff(all) <= 1);
        let idle = 10 * SECOND - used(&mut w, a);
        assert!(waited.abs_diff(idle) < SECOND / 10, "{waited} of {idle}");
        // Without the limit it goes on at once.
        let none = u64::from(u32::MAX) | 100_000 << 32;
        assert_eq!(set(&mut w, g, CgroupLimit::Quota, none), 0);
        assert!(!halted(&w, a));
        assert_eq!(w.m.deadline(), None);
    }
}

#[test]
fn many_share_one_limit_and_nested_ones_hold_both() {
    let mut w = World::new();
    let (outer, mut pids) = (group(&mut w, 0), Vec::new());
    let inner = group(&mut w, outer);
    for at in 0..20 {
        let pid = w.fork(1);
        enter(&mut w, pid, 0, if at % 2 == 0 { outer } else { inner });
        pids.push(pid);
    }
    // (All run at once here, as on so many cores.)
    set(&mut w, outer, CgroupLimit::Quota, quota(200, 100));
    set(&mut w, inner, CgroupLimit::Quota, quota(50, 100));
    run(&mut w, &pids, 20 * SECOND);
    let times: Vec<u64> = pids.iter().map(|pid| used(&mut w, *pid)).collect();
    let inside: u64 = times.iter().skip(1).step_by(2).sum();
    let all: u64 = times.iter().sum();
    assert!(all.abs_diff(40 * SECOND) < SECOND, "{all}");
    assert!(inside < 10 * SECOND + SECOND / 4, "{inside}");
    // (What they used before they came is not the group's.)
    assert_eq!(cpu(&mut w, outer)[0], all);
}

#[test]
fn who_forks_all_the_time_does_not_leave() {
    let mut w = World::new();
    let g = group(&mut w, 0);
    let mut a = w.fork(1);
    enter(&mut w, a, 0, g);
    set(&mut w, g, CgroupLimit::Quota, quota(20, 100));
    let mut sum = 0;
    let from = w.m.system.now;
    while w.m.system.now < from + 10 * SECOND {
        // A millisecond, and its child goes on in its place.
        run(&mut w, &[a], MS);
        if !halted(&w, a) {
            let child = w.fork(a);
            sum += used(&mut w, a);
            w.exit(a, 0);
            w.poll(1, 0);
            a = child;
        }
    }
    assert!((sum / MS).abs_diff(2000) < 60, "{}", sum / MS);
    // A child of one that is halted begins so.
    while !halted(&w, a) {
        run(&mut w, &[a], MS);
    }
    let child = w.fork(a);
    assert!(halted(&w, child));
    for pid in [child, a] {
        assert_eq!(w.kill(1, pid as i64, 9), 0);
    }
    check(&w);
    // Nobody is left: it is not looked at any more.
    run(&mut w, &[], SECOND);
    assert_eq!(w.m.deadline(), None);
}

#[test]
fn the_frozen_do_not_run_and_are_not_seen_to_be_stopped() {
    let mut w = World::new();
    let outer = group(&mut w, 0);
    let inner = group(&mut w, outer);
    let (a, b, c) = (w.fork(1), w.fork(1), w.fork(1));
    enter(&mut w, a, 0, outer);
    enter(&mut w, b, 0, inner);
    set(&mut w, outer, CgroupLimit::Frozen, 1);
    assert!(halted(&w, a) && halted(&w, b) && !halted(&w, c));
    assert_eq!((cpu(&mut w, outer)[4], cpu(&mut w, inner)[4]), (1, 1));
    assert_eq!(w.poll(1, 2), (0, 0));
    assert_eq!(w.state(a), Some('S'));
    // SIGCONT does not help, SIGSTOP is one more, and who comes is frozen, who leaves not.
    w.kill(1, a as i64, 18);
    assert!(halted(&w, a));
    w.kill(1, b as i64, 19);
    enter(&mut w, c, 0, inner);
    enter(&mut w, a, outer, 0);
    assert!(halted(&w, c) && !halted(&w, a));
    let child = w.fork(c);
    assert!(halted(&w, child));
    check(&w);
    set(&mut w, outer, CgroupLimit::Frozen, 0);
    assert!(!halted(&w, b) && !halted(&w, c) && !halted(&w, child));
    check(&w);
    // More than there is time for at once.
    let many: Vec<u64> = (0..200).map(|_| w.fork(c)).collect();
    set(&mut w, inner, CgroupLimit::Frozen, 1);
    assert_eq!((cpu(&mut w, outer)[4], cpu(&mut w, inner)[4]), (0, 0));
    assert_eq!(w.kill(1, many[7] as i64, 9), 0);
    while w.m.deadline().is_some_and(|due| due <= w.m.system.now) {
        w.m.expire();
    }
    assert_eq!((cpu(&mut w, outer)[4], cpu(&mut w, inner)[4]), (0, 1));
    check(&w);
    assert_eq!(
        w.component(role::CGROUP, b"", &[CGROUP_KILL, outer])
            .result(),
        0
    );
    check(&w);
    while w.background() {}
    let words = [CGROUP_REMOVE, inner];
    assert_eq!(w.component(role::CGROUP, b"", &words).result(), 0);
}

#[test]
fn weights_order_groups_and_a_users_own_prefer_nobody() {
    let mut w = World::new();
    let outer = group(&mut w, 0);
    let inner = group(&mut w, outer);
    let a = w.fork(1);
    enter(&mut w, a, 0, inner);
    let shift = |w: &World| w.m.processes[w.slot(a)].shift;
    set(&mut w, inner, CgroupLimit::Nice, -15i64 as u64);
    assert_eq!(shift(&w), 0);
    set(&mut w, inner, CgroupLimit::Nice, 5);
    set(&mut w, outer, CgroupLimit::Nice, -10i64 as u64);
    assert_eq!(shift(&w), -5);
    let child = w.fork(a);
    assert_eq!(w.m.processes[w.slot(child)].shift, -5);
    enter(&mut w, a, inner, 0);
    assert_eq!(shift(&w), 0);
}

#[test]
fn too_much_memory_makes_slow() {
    let mut w = World::new();
    let (g, a) = (group(&mut w, 0), w.fork(1));
    enter(&mut w, a, 0, g);
    set(&mut w, g, CgroupLimit::High, 1000);
    w.m.system.account_pages = 1000;
    run(&mut w, &[a], SECOND);
    assert_eq!(used(&mut w, a), SECOND);
    w.m.system.account_pages = 1100;
    run(&mut w, &[a], 10 * SECOND);
    let ran = used(&mut w, a) - SECOND;
    assert!(ran < SECOND / 2, "{ran}");
    assert!(cpu(&mut w, g)[5] > 10);
    w.m.system.account_pages = 900;
    run(&mut w, &[a], SECOND);
    assert!(!halted(&w, a));
}

#[test]
fn wrong_arguments_are_refused() {
    let mut w = World::new();
    let g = group(&mut w, 0);
    for wrong in [
        quota(0, 100),
        999 | 100_000 << 32,
        2000 | 999 << 32,
        quota(10, 1001),
    ] {
        assert_eq!(set(&mut w, g, CgroupLimit::Quota, wrong), -EINVAL);
    }
    assert_eq!(set(&mut w, 0, CgroupLimit::Frozen, 1), -EPERM);
    assert_eq!(
        w.component(role::INSPECT, b"", &[CGROUP_CPU, g]).result(),
        -EPERM
    );
    assert_eq!(w.call(1, &[CGROUP_CPU, g]).result(), -EPERM);
}
