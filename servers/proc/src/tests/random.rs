//! Long random histories: whatever happens, the invariants hold, and at the end nothing is left.

use super::invariants::check;
use crate::fake::World;
use cairn_abi::{death, pulse};
use cairn_idl::errno::ECHILD;
use cairn_idl::proc::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A live process and one of its threads that does not wait in a call; stopped ones cannot call.
fn someone(w: &World, r: &mut Random) -> Option<(u64, u32)> {
    let mut all = Vec::new();
    for slot in w.m.processes.slots() {
        let p = &w.m.processes[slot];
        if p.alive() && p.stopped.is_none() {
            for t in p.threads.iter() {
                if t.token == 0 && !w.m.under_way.has(t.id) {
                    all.push((p.pid as u64, t.id));
                }
            }
        }
    }
    let at = r.below(all.len().max(1) as u64) as usize;
    all.get(at).copied()
}

fn any_pid(w: &World, r: &mut Random) -> u64 {
    let end = w.m.numbers.last() as u64 + 1;
    for _ in 0..20 {
        let pid = 1 + r.below(end);
        if w.m.numbers.process(pid).is_some() {
            return pid;
        }
    }
    1
}

fn step(w: &mut World, r: &mut Random) {
    let Some((pid, thread)) = someone(w, r) else {
        // Everybody waits: let something happen from outside.
        let target = any_pid(w, r);
        w.errand();
        w.system(b"", &[SIGNAL_GROUP, target, 18]);
        w.m.system.now += 1_000_000;
        w.m.expire();
        let waiting = w.m.processes[w.m.first].threads.first().map(|t| t.token);
        if let Some(token) = waiting.filter(|t| *t != 0) {
            w.unblock(token);
        }
        return;
    };
    let domain = w.domain(pid).id;
    match r.below(4) {
        0 => drop(w.m.system.much.insert(domain)),
        _ => drop(w.m.system.much.remove(&domain)),
    }
    let other = any_pid(w, r);
    let words: Vec<u64> = match r.below(24) {
        0..=4 => {
            let flags = [0, 0, 0, 1, 2, 4, 5][r.below(7) as usize];
            vec![
                FORK,
                1,
                2,
                3,
                4,
                flags,
                [17, 17, 17, 10, 0][r.below(5) as usize],
            ]
        }
        5 if pid != 1 => vec![EXIT, r.below(256) << 8],
        6 | 7 => {
            let kind = r.below(3);
            let options = [4, 4, 6, 14, 5, 15, 0x0100_0005][r.below(7) as usize];
            vec![WAIT, kind, other, options]
        }
        8 => vec![
            SETPGID,
            [0, other][r.below(2) as usize],
            [0, any_pid(w, r)][r.below(2) as usize],
        ],
        9 => vec![SETSID],
        10 | 11 => {
            let signal = [1, 2, 9, 15, 18, 18, 19, 20, 40][r.below(9) as usize];
            let target = [other, other, other, 0, -(other as i64) as u64][r.below(5) as usize];
            vec![KILL, target, signal]
        }
        12 => vec![STOP_SELF, [19, 20, 21][r.below(3) as usize]],
        13 | 14 => vec![SIGNAL_TAKE],
        15 => {
            let ignored = if r.below(4) == 0 { 1 << 16 } else { 0 };
            vec![SIGNAL_STATE, ignored, r.next(), r.below(4) & r.below(4)]
        }
        16 => vec![THREAD_CREATE, 1, 2, 3],
        17 if pid != 1 => vec![THREAD_EXIT, 0],
        18 => vec![[EXEC, EXEC_FRESH][r.below(2) as usize], 0, 0],
        19 => vec![
            PRCTL,
            [36, 1][r.below(2) as usize],
            [0, 1, 9][r.below(3) as usize],
        ],
        20 => vec![SETITIMER, 0, r.below(3) * 100_000, r.below(2) * 60_000],
        21 => vec![
            TIMER,
            r.below(5),
            r.below(3),
            r.below(1 << 20),
            r.below(2) * 50_000,
        ],
        22 => vec![
            FUTEX,
            r.below(3),
            r.below(3),
            1,
            r.below(3),
            0,
            r.below(2) * r.below(10_000_000),
        ],
        23 => {
            let victim = w.slot(other);
            let p = &w.m.processes[victim];
            if other != 1 && p.alive() {
                let (badge, id) = (p.watch_badge(victim), p.domain.id as u64);
                w.pulse(badge, [pulse::DEATH, id, death::EXCEPTION, 14]);
            }
            return;
        }
        _ => vec![IDS],
    };
    // A fault of the number word "-pgid of 1" would end pid 1 only if it were not immune.
    if let crate::fake::Called::Waits(token) = w.call_by(pid, thread, b"", &words) {
        if r.below(3) == 0 {
            let code = [pulse::UNBLOCK, pulse::UNBLOCK, pulse::GONE][r.below(3) as usize];
            w.pulse(0, [code, token, 0, 0]);
        }
    }
    if r.below(3) == 0 {
        w.background();
    }
    if r.below(3) == 0 {
        w.errand();
    }
    if r.below(4) == 0 {
        w.m.system.now += r.below(500_000);
        w.m.expire();
    }
    w.m.system.replies.clear();
}

#[test]
fn random_histories_keep_the_invariants() {
    for seed in 1..=300u64 {
        let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut w = World::new();
        for _ in 0..250 {
            step(&mut w, &mut r);
            check(&w);
        }
        w.m.system.much.clear();
        while w.errand() {}
        // Everybody but the first is killed and waited for.
        let first = w.m.first;
        for slot in w.m.processes.slots().collect::<Vec<_>>() {
            if slot != first && w.m.processes[slot].alive() {
                w.m.doom(slot, 9);
            }
        }
        w.m.settle();
        check(&w);
        while w.background() {}
        assert!(w.m.doomed.is_empty());
        let tokens: Vec<u64> = w.m.processes[first]
            .threads
            .iter()
            .map(|t| t.token)
            .collect();
        for token in tokens {
            w.unblock(token);
        }
        loop {
            let (pid, _) = w.poll(1, 4);
            assert_ne!(pid, 0, "a child lives on");
            if pid == -ECHILD {
                break;
            }
            assert!(pid > 1);
            check(&w);
        }
        assert_eq!(w.m.processes.len(), 1, "seed {seed}");
        assert_eq!((w.m.groups.len(), w.m.sessions.len()), (1, 1));
        let first_threads = &w.m.processes[first].threads;
        for number in 2..crate::ids::LIMIT {
            let entry = w.m.numbers.get(number as u64);
            let own_thread = first_threads.iter().any(|t| t.tid == number);
            assert_eq!(entry.owner != 0, own_thread, "number {number}");
            assert_eq!(entry.session, 0);
        }
    }
}
