//! Several cores: where threads go, and what is done to those that run elsewhere.

use super::*;
use cairn_abi::service::thread as thread_op;

fn current(w: &mut World, core: usize) -> Option<ThreadRef> {
    w.on(core);
    w.current()
}

#[test]
fn a_ready_thread_goes_to_an_idle_core_and_a_call_stays() {
    let mut w = World::with_cores(2);
    let (server, client, receive, portal) = w.pair();
    let s = w.thread(server, 40);
    w.answer_calls();
    // `init` is more important, so the thread runs on the other core.
    assert_eq!(current(&mut w, 1), Some(s));
    w.receive(s, receive);
    w.on(0);
    let c = w.thread(client, 30);
    w.rest();
    w.answer_calls();
    let core = w.k.threads[c].core as usize;
    assert_eq!(current(&mut w, core), Some(c));
    w.call(c, portal, &[1, 2]);
    assert_eq!(current(&mut w, core), Some(s), "the caller's core");
    assert_eq!(current(&mut w, 1 - core), None);
    w.on(core);
    w.reply_receive(s, receive, &[3]);
    assert_eq!(w.current(), Some(c));
    assert_eq!(w.result(c).expect("an answer")[0], 3);
}

#[test]
fn a_quick_call_is_settled_when_another_core_comes_in() {
    use crate::arch::Arch;
    let mut w = World::with_cores(2);
    w.quick = true;
    // Each block that there is was given back just now.
    w.k.arch.stood_in = (0..64).collect();
    let (server, client, receive, portal) = w.pair();
    w.ok(w.init, server.slot, domain::CONFIGURE, &[0, 255]);
    let s = w.thread(server, 40);
    w.answer_calls();
    w.on(1);
    w.receive(s, receive);
    w.on(0);
    let c = w.thread(client, 30);
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(c));
    for round in 1..4 {
        w.call(c, portal, &[round]);
        assert_eq!(w.current(), Some(s));
        // The first one makes the code.
        assert_eq!(w.k.arch.unsettled_on(1).is_some(), round > 1);
        let seen = (w.k.arch.codes.len(), w.k.arch.unseen.len());
        assert_eq!((seen.0 > 0, seen.1), (true, 0), "{seen:?} in round {round}");
        if round == 3 {
            w.on(0);
            assert_eq!(w.k.arch.unsettled_on(1), None);
            assert_eq!((w.state(c), w.state(s)), (State::Held, State::Running));
            assert_eq!(w.k.threads[s].core, 1);
            w.check();
            w.k.turn_to(1);
        }
        w.reply_receive(s, receive, &[round + 1]);
        assert_eq!(w.current(), Some(c));
        assert_eq!(w.result(c).expect("an answer")[0], round + 1);
    }
    assert_eq!(w.k.arch.quick, 1);
    // Where a server may not run everywhere it is not called without a look.
    let (init, id) = (w.init, w.id(s));
    w.on(0);
    let affinity = [id, thread_op::SET_AFFINITY as u64, 1];
    w.ok(init, server.slot, domain::THREAD_CONTROL, &affinity);
    w.on(1);
    w.call(c, portal, &[1]);
    assert_eq!(w.k.arch.unsettled_on(1), None);
    assert_eq!(w.current(), None);
}

#[test]
fn as_many_run_as_there_are_cores_and_the_most_important() {
    let mut w = World::with_cores(3);
    let dom = w.domain();
    let threads: Vec<_> = (0..5).map(|i| w.thread(dom, 30 + i)).collect();
    w.rest();
    w.answer_calls();
    let mut run: Vec<_> = (0..3).filter_map(|core| current(&mut w, core)).collect();
    run.sort_by_key(|&t| w.effective(t));
    assert_eq!(run, threads[2..]);
    // One of them ends: the next one takes its place, wherever it waited.
    let core = w.k.threads[threads[4]].core as usize;
    w.on(core);
    w.go(threads[4], 0, current::EXIT, 0, &[]);
    w.answer_calls();
    assert_eq!(w.state(threads[1]), State::Running);
    assert_eq!(w.state(threads[0]), State::Ready);
}

#[test]
fn a_thread_that_runs_elsewhere_is_killed_stopped_and_poked() {
    let mut w = World::with_cores(2);
    let dom = w.domain();
    let t = w.thread(dom, 30);
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(t));
    w.on(0);
    let (init, id) = (w.init, w.id(t));
    let control = |w: &mut World, op: u8| {
        w.ok(init, dom.slot, domain::THREAD_CONTROL, &[id, op as u64]);
        w.answer_calls();
        w.check();
    };
    control(&mut w, thread_op::STOP);
    assert_eq!(w.state(t), State::Stopped);
    assert_eq!(current(&mut w, 1), None);
    w.on(0);
    control(&mut w, thread_op::CONTINUE);
    assert_eq!(current(&mut w, 1), Some(t));
    w.on(0);
    w.ok(
        init,
        dom.slot,
        domain::SET_TURN,
        &[0x7000_0000, 0x7000_0100, 0x7000_0200],
    );
    w.answer_calls();
    control(&mut w, thread_op::POKE);
    assert_eq!(w.k.threads[t].registers.rip, 0x7000_0200, "an upcall");
    assert!(w.k.threads[t].in_upcall);
    control(&mut w, thread_op::KILL);
    assert_eq!(current(&mut w, 1), None);
}

#[test]
fn a_poke_is_not_lost_if_its_thread_is_preempted_before_the_call_comes() {
    let mut w = World::with_cores(2);
    let dom = w.domain();
    let t = w.thread(dom, 30);
    w.answer_calls();
    w.on(0);
    let (init, id) = (w.init, w.id(t));
    let turn = [0x7000_0000, 0x7000_0100, 0x7000_0200];
    w.ok(init, dom.slot, domain::SET_TURN, &turn);
    w.answer_calls();
    let poke = [id, thread_op::POKE as u64];
    w.ok(init, dom.slot, domain::THREAD_CONTROL, &poke);
    // A more important thread goes to the same core, which comes in by its timer, and only then by the call.
    let above = w.thread(dom, 40);
    w.on(1);
    w.k.timer();
    assert_eq!(w.current(), Some(above));
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(above));
    w.go(above, 0, current::EXIT, 0, &[0]);
    assert_eq!(w.current(), Some(t));
    assert!(w.k.threads[t].in_upcall);
    assert!(!w.k.threads[t].poked);
    assert_eq!(w.k.threads[t].registers.rip, 0x7000_0200);
}

#[test]
fn a_core_whose_thread_is_stopped_takes_over_who_waits_elsewhere() {
    let mut w = World::with_cores(2);
    let dom = w.domain();
    let important = w.thread(dom, 40);
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(important));
    w.on(0);
    let waits = w.thread(dom, 30);
    w.answer_calls();
    assert_eq!(w.state(waits), State::Ready);
    w.on(0);
    let (init, id) = (w.init, w.id(important));
    let stop = [id, thread_op::STOP as u64];
    w.ok(init, dom.slot, domain::THREAD_CONTROL, &stop);
    w.answer_calls();
    assert_eq!(w.state(important), State::Stopped);
    assert_eq!(current(&mut w, 1), Some(waits));
}

#[test]
fn float_registers_follow_their_thread() {
    let mut w = World::with_cores(2);
    let dom = w.domain();
    let t = w.thread(dom, 30);
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(t));
    w.k.arch.float = 4711;
    w.k.arch.bases = (5, 6);
    let id = w.id(t);
    w.on(0);
    let init = w.init;
    w.ok(
        init,
        dom.slot,
        domain::THREAD_CONTROL,
        &[id, thread_op::SET_AFFINITY as u64, 1],
    );
    w.answer_calls();
    assert_eq!(
        w.state(t),
        State::Ready,
        "it waits for the core that it may run on"
    );
    w.rest();
    assert_eq!(w.current(), Some(t));
    assert_eq!(w.k.arch.float, 4711);
    assert_eq!(w.k.arch.bases, (5, 6));
    assert_eq!(current(&mut w, 1), None);
}

#[test]
fn affinity_is_told_checked_and_inherited() {
    let mut w = World::with_cores(2);
    let init = w.init;
    assert_eq!(w.ok(init, 0, current::AFFINITY, &[])[..3], [0, 3, 3]);
    assert_eq!(
        w.err(init, 0, current::AFFINITY, &[0, 4]),
        Error::BadArgument
    );
    // To the other core, by itself.
    w.go(init, 0, current::AFFINITY, 0, &[0, 2]);
    assert_eq!(w.current(), None);
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(init));
    assert_eq!(w.result(init).expect("moved")[..3], [0, 2, 3]);
    assert_eq!(w.ok(init, 0, current::AFFINITY, &[])[..3], [1, 2, 3]);
}

#[test]
fn a_thread_chooses_among_the_cores_that_its_owner_allows() {
    let mut w = World::with_cores(3);
    let dom = w.domain();
    let (init, t) = (w.init, w.thread(dom, 30));
    w.answer_calls();
    w.on(0);
    let own = [dom.slot as u64, AUTO, rights::DEFAULT as u64];
    let inside = w.ok(init, dom.slot, domain::PORTAL_PUT, &own)[0] as u32;
    let id = w.id(t);
    let allow = |w: &mut World, mask: u64| {
        let words = [id, thread_op::SET_AFFINITY as u64, mask];
        w.ok(init, dom.slot, domain::THREAD_CONTROL, &words);
    };
    allow(&mut w, 0b011);
    w.rest();
    w.answer_calls();
    let core = w.k.threads[t].core as usize;
    assert_eq!(current(&mut w, core), Some(t));
    let affinity = |w: &mut World, mask| {
        w.go(t, 0, current::AFFINITY, 0, &[0, mask]);
        w.answer_calls();
        let core = w.k.threads[t].core as usize;
        assert_eq!(current(w, core), Some(t));
        w.result(t).map(|words| words[1])
    };
    assert_eq!(affinity(&mut w, 0b100), Err(Error::BadArgument));
    assert_eq!(affinity(&mut w, 0b111), Ok(0b011), "all that are allowed");
    assert_eq!(affinity(&mut w, 0b001), Ok(0b001));
    assert_eq!(affinity(&mut w, 0b110), Ok(0b010), "and others of these");
    // Nor does it get out by its own thread's portal, or by one that it makes.
    let begin = [RUNNING, 0x9000, 0, 0, 0, 30, AUTO];
    w.k.domains[dom.d].ceiling = 30;
    let made = w.ok(t, inside, domain::THREAD_CREATE, &begin);
    let wide = [0b100];
    let slot = made[0] as u32;
    assert_eq!(
        w.err(t, slot, thread_op::SET_AFFINITY, &wide),
        Error::BadArgument
    );
    assert_eq!(
        w.err(t, 0, current::AFFINITY, &[made[1], 0b100]),
        Error::BadArgument
    );
    // Its owner may change its mind.
    w.recall();
    allow(&mut w, 0b111);
    w.rest();
    w.answer_calls();
    let core = w.k.threads[t].core as usize;
    assert_eq!(current(&mut w, core), Some(t));
    assert_eq!(affinity(&mut w, 0b100), Ok(0b100));
}

#[test]
fn a_deadline_comes_on_one_core_only() {
    let mut w = World::with_cores(2);
    let dom = w.domain();
    let t = w.thread(dom, 30);
    w.answer_calls();
    assert_eq!(current(&mut w, 1), Some(t));
    let at = w.k.arch.time + 1000;
    w.go(t, 0, current::SLEEP, 0, &[at]);
    assert_eq!(w.k.dispatch.armed, at);
    w.on(0);
    assert!(w.k.dispatch.armed > at);
    w.on(1);
    w.pass_time(1000);
    assert_eq!(w.current(), Some(t));
}

/// Two cores run important threads when others are due: that waits, on both, until one of them has nothing more important to do; a third one that is idle does
/// it at once.
#[test]
fn what_is_put_off_is_done_by_the_first_core_that_can() {
    for idle in [false, true] {
        let mut w = World::with_cores(2);
        let dom = w.domain();
        for _ in 0..10 {
            w.thread(dom, 20);
        }
        let high = [w.thread(dom, 80), w.thread(dom, 80)];
        w.rest();
        let until = w.k.arch.time + 1000;
        settle_cores(&mut w);
        // All sleep.
        for _ in 0..100 {
            settle_cores(&mut w);
            for core in 0..2 {
                w.on(core);
                if let Some(t) = w.current() {
                    let end = if high.contains(&t) {
                        until - 900
                    } else {
                        until
                    };
                    w.go(t, 0, current::SLEEP, 0, &[end]);
                }
            }
        }
        assert_eq!(w.k.armed().len(), 12);
        w.k.arch.time = until - 900;
        settle_cores(&mut w);
        assert_eq!(w.k.armed().len(), 10);
        let running = |w: &mut World, core| {
            w.on(core);
            w.current()
        };
        for core in 0..2 {
            assert!(running(&mut w, core).is_some_and(|t| high.contains(&t)));
        }
        if idle {
            let t = running(&mut w, 1).expect("it runs");
            w.go(t, 0, current::PARK, 0, &[]);
        }
        w.k.arch.time = until;
        settle_cores(&mut w);
        assert_eq!(w.k.armed().len(), if idle { 0 } else { 10 });
        if !idle {
            let t = running(&mut w, 1).expect("it runs");
            w.go(t, 0, current::PARK, 0, &[]);
            settle_cores(&mut w);
            assert_eq!(w.k.armed().len(), 0);
        }
        assert!(running(&mut w, 0).is_some_and(|t| high.contains(&t)));
    }
}

/// Cores come in when they were told to, and their timers when it is time.
fn settle_cores(w: &mut World) {
    for _ in 0..100 {
        w.answer_calls();
        for core in 0..2 {
            w.on(core);
            if w.k.arch.timer.is_some_and(|at| at <= w.k.arch.time) {
                w.k.arch.timer = None;
                w.k.timer();
                w.check();
            }
        }
    }
}
