//! What must hold between two messages, whatever came before.

use crate::cpu_timers::Clock;
use crate::fake::World;
use crate::process::{Held, Report};
use crate::table::NONE;
use crate::timers::{Due, Stage, Timer, CPU_LOOK, GROUP_LOOK, GROUP_SETTLE};
use crate::wall_clock::STEP;
use std::collections::HashSet;

pub fn check(w: &World) {
    let m = &w.m;
    m.under_way.check();
    // Whoever is left to end does so in pieces.
    assert_eq!(m.doomed.len(), m.backlog);
    assert_eq!(m.backlog > 0, m.system.background);
    assert!(m.doomed.iter().all(|(slot, _)| m.processes[*slot].doomed));
    let used: Vec<u32> = m
        .processes
        .slots()
        .filter(|s| m.processes[*s].used)
        .collect();
    assert_eq!(used.len(), m.processes.len());
    let (mut alive, mut tasks) = (0, 0);
    for &slot in &used {
        let p = &m.processes[slot];
        let ends = m.doomed.iter().filter(|(ends, _)| *ends == slot).count();
        assert_eq!(usize::from(p.doomed), ends);
        assert_eq!(m.numbers.process(p.pid as u64), Some(slot));
        if slot == m.first {
            assert_eq!(p.parent, NONE);
        } else {
            let parent = &m.processes[p.parent];
            assert!(
                parent.used && parent.ended.is_none(),
                "{} has a dead parent",
                p.pid
            );
        }
        check_children(w, slot);
        let group = &m.groups[p.group];
        assert_eq!(group.members[p.group_at as usize], slot);
        tasks += 1 + p.threads.iter().filter(|t| t.tid != p.pid).count() as u32;
        if p.ended.is_some() {
            assert_eq!(p.first_child, NONE, "a zombie has children");
            assert!(p.threads.is_empty() && p.stopped.is_none());
            assert_eq!(p.report, Report::Nothing);
            continue;
        }
        alive += 1;
        assert_eq!(m.domains.get(p.domain.id), slot);
        let domain = &m.system.domains[&p.domain.id];
        let halted = i32::from(p.halted);
        assert_eq!(domain.stops, p.frozen as i32 + halted);
        assert_eq!(domain.watch, p.watch_badge(slot));
        assert_eq!(domain.label, p.label());
        let traced = p.threads.iter().filter(|t| t.traced.is_some()).count();
        assert_eq!(p.traced as usize, traced);
        let filtered = p.threads.iter().any(|t| t.filters.is_some());
        assert!(p.filtered || !filtered && p.refused == 0);
        assert_eq!(domain.traced, traced != 0 || p.filtered);
        for t in p.threads.iter() {
            assert!(domain.threads.contains(&t.id));
            assert_eq!(m.threads.get(t.id), slot);
            match t.held {
                Held::Futex(key, turn, _) => {
                    let mut all = m.futexes.all();
                    assert!(all
                        .any(|(k, t2, w)| (k, t2, w.slot, w.token) == (key, turn, slot, t.token)));
                }
                Held::Several(turn, _) => {
                    let mut all = m.futexes.all();
                    assert!(all.any(|(_, t2, w)| (t2, w.slot, w.token) == (turn, slot, t.token)));
                }
                Held::Child(_) => assert!(p.first_child != NONE, "{} waits for nobody", p.pid),
                Held::Vfork(child) => {
                    let child = m
                        .numbers
                        .process(child as u64)
                        .expect("vfork child is gone");
                    assert!(m.processes[child].vfork_parent);
                }
                Held::Continue => assert!(p.stopped.is_some()),
                Held::Traced => assert!(t.traced.is_some()),
                Held::Nothing => {}
            }
        }
    }
    assert_eq!(
        m.system.domains.len(),
        alive + m.pristine.is_some() as usize
    );
    assert_eq!(m.tasks, tasks);
    assert_eq!(m.users.values().sum::<u32>(), tasks);
    check_groups(w, &used);
    m.cgroups.check(|slot| m.processes[slot].cgroup_links.1);
    let timers = used.iter().flat_map(|slot| &m.processes[*slot].timers);
    let waiting = timers
        .filter(|timer| timer.stage == Stage::Waits && timer.clock == Clock::Real)
        .count();
    let of_timers = |due: &&Due| {
        due.2 & (1 << 31) == 0 && !matches!(due.2, CPU_LOOK | STEP | GROUP_LOOK | GROUP_SETTLE)
    };
    let known = m.timers.iter().filter(of_timers).count();
    assert_eq!(waiting, known);
    for slot in &used {
        let p = &m.processes[*slot];
        let on_cpu = |timer: &Timer| timer.stage == Stage::Waits && timer.clock != Clock::Real;
        if p.timers.iter().any(on_cpu) {
            assert!(m.timers.contains(&(p.watch.next, *slot, CPU_LOOK)));
        }
    }
    let made: u32 = used.iter().map(|s| m.processes[*s].posix_timers).sum();
    assert_eq!(m.timers_of.values().sum::<u32>(), made);
    for (deadline, slot, which) in &m.timers {
        if matches!(*which, STEP | GROUP_SETTLE) {
            continue;
        }
        if *which == GROUP_LOOK {
            assert!(m.cgroups.is_looked_at(*slot, *deadline));
            continue;
        }
        if *which == CPU_LOOK {
            assert_eq!(m.processes[*slot].watch.next, *deadline);
        } else if which & (1 << 31) == 0 {
            let p = &m.processes[*slot];
            assert!(p.used && p.ended.is_none());
            assert_eq!(p.timers[*which as usize].deadline, *deadline);
            assert_eq!(p.timers[*which as usize].stage, Stage::Waits);
        }
    }
    for (key, turn, w) in m.futexes.all() {
        let p = &m.processes[w.slot];
        assert!(p.threads.iter().any(|t| t.token == w.token
            && (matches!(t.held, Held::Futex(k, t, _) if (k, t) == (key, turn))
                || matches!(t.held, Held::Several(t, _) if t == turn))));
    }
}

fn check_children(w: &World, slot: u32) {
    let p = &w.m.processes[slot];
    let (mut zombies, mut reports, mut last) = (0, 0, NONE);
    let mut child = p.first_child;
    while child != NONE {
        let c = &w.m.processes[child];
        assert!(c.used);
        assert_eq!(c.parent, slot);
        assert_eq!(c.previous, last);
        zombies += c.ended.is_some() as u32;
        reports += (c.report != Report::Nothing) as u32;
        last = child;
        child = c.next;
    }
    assert_eq!(p.last_child, last);
    assert_eq!((p.zombies, p.reports), (zombies, reports));
    w.m.check_kin(slot);
}

fn check_groups(w: &World, used: &[u32]) {
    let m = &w.m;
    let groups: HashSet<u32> = used.iter().map(|s| m.processes[*s].group).collect();
    assert_eq!(groups.len(), m.groups.len());
    let mut members = 0;
    for &group in &groups {
        let g = &m.groups[group];
        members += g.members.len();
        let stopped = |s: &&u32| m.processes[**s].stopped.is_some();
        assert_eq!(g.stopped as usize, g.members.iter().filter(stopped).count());
        assert_eq!(m.numbers.get(g.pgid as u64).group, group);
        let session = &m.sessions[g.session];
        assert_eq!(m.numbers.get(session.sid as u64).session, g.session);
        let count = groups
            .iter()
            .filter(|other| m.groups[**other].session == g.session)
            .count();
        assert_eq!(session.groups as usize, count);
        // A stopped member of an orphaned group could never go on, unless SIGSTOP stopped it on purpose.
    }
    assert_eq!(members, used.len());
    let sessions: HashSet<u32> = groups.iter().map(|g| m.groups[*g].session).collect();
    assert_eq!(sessions.len(), m.sessions.len());
}
