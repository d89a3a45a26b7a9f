//! Who traces whom, and what becomes of the stops.

use super::invariants::check;
use crate::fake::World;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

const TRACEME: u64 = 0;
const PEEK: u64 = 1;
const POKE: u64 = 4;
const CONT: u64 = 7;
const ATTACH: u64 = 16;
const DETACH: u64 = 17;
const SYSCALL: u64 = 24;
const SETOPTIONS: u64 = 0x4200;
const SEIZE: u64 = 0x4206;
const INTERRUPT: u64 = 0x4207;
const EXITKILL: u64 = 1 << 20;
const TRACEFORK: u64 = 2;

fn stop(why: Stop, detail: u64) -> [u64; 3] {
    [TRACE_STOP, why.word(), detail]
}

#[test]
fn only_who_passes_the_check_traces() {
    let mut w = World::new();
    let (a, b, c) = (w.fork(1), w.fork(1), w.fork(1));
    for (pid, user) in [(a, 5), (b, 5), (c, 6)] {
        assert_eq!(w.set_ids(pid, [user; 3]), 0);
        // (New ids make it undumpable until it executes something.)
        assert_eq!(w.call(pid, &[PRCTL, 4, 1]).result(), 0);
    }
    for request in [ATTACH, SEIZE] {
        assert_eq!(w.call(a, &[TRACE, request, c]).result(), -EPERM);
        assert_eq!(w.call(a, &[TRACE, request, 1]).result(), -EPERM);
        assert_eq!(w.call(a, &[TRACE, request, a]).result(), -EPERM);
        assert_eq!(w.call(a, &[TRACE, request, 4711]).result(), -ESRCH);
    }
    w.room = 8;
    assert_eq!(w.call(a, &[TRACE_MEMORY, c, 0x1000, 0]).result(), -EPERM);
    assert_eq!(w.call(a, &[TRACE_MEMORY, c, 0x1000, 1]).result(), -EPERM);
    assert_eq!(w.call(a, &[TRACE_MEMORY, b, 0x1000, 0]).result(), 8);
    assert_eq!(w.call(b, &[PRCTL, 4, 0]).result(), 0);
    assert_eq!(
        w.call(a, &[TRACE, ATTACH, b]).result(),
        -EPERM,
        "not dumpable"
    );
    assert_eq!(w.call(b, &[PRCTL, 4, 1]).result(), 0);
    assert_eq!(w.call(a, &[TRACE, SEIZE, b]).result(), 0);
    // It has one tracer, who does nothing to it while it runs, and others do nothing at all.
    assert_eq!(w.call(1, &[TRACE, ATTACH, b]).result(), -EPERM);
    for request in [
        PEEK,
        POKE,
        CONT,
        DETACH,
        SYSCALL,
        SETOPTIONS,
        TRACE_READ,
        TRACE_WRITE,
    ] {
        assert_eq!(w.call(a, &[TRACE, request, b]).result(), -ESRCH);
        assert_eq!(w.call(1, &[TRACE, request, b]).result(), -ESRCH);
    }
    let waits = w.call(b, &stop(Stop::Signal, 10)).token();
    for request in [PEEK, POKE, CONT, DETACH, TRACE_READ, TRACE_WRITE, INTERRUPT] {
        assert_eq!(w.call(1, &[TRACE, request, b]).result(), -ESRCH);
        assert_eq!(w.call(c, &[TRACE, request, b]).result(), -ESRCH);
    }
    assert_eq!(w.call(a, &[TRACE, POKE, b, u64::MAX - 3, 1]).result(), -EIO);
    assert_eq!(
        w.call(a, &[TRACE, POKE, b, 0x7fff_ffff_f000, 1]).result(),
        -EIO
    );
    assert!(w.reply(waits).is_none());
    check(&w);
}

#[test]
fn a_stop_is_told_to_the_tracer_and_ends_when_that_says_so() {
    let mut w = World::new();
    let child = w.fork(1);
    // Nobody traces it: it goes on, with its signal.
    assert_eq!(
        w.call(child, &stop(Stop::Signal, 10)).words()[..3],
        [0, 0, 10]
    );
    assert_eq!(w.call(child, &[TRACE, TRACEME]).result(), 0);
    assert_eq!(w.call(child, &[TRACE, TRACEME]).result(), -EPERM);
    assert!(w.m.system.domains[&w.domain(child).id].traced);
    // Calls are told of once the tracer asks for them.
    assert_eq!(w.call(child, &stop(Stop::Entry, 0)).words()[..2], [0, 1]);
    let waits = w.call(child, &stop(Stop::Signal, 10)).token();
    assert_eq!(w.poll(1, 4), (child as i64, 10 << 8 | 0x7f));
    assert_eq!(w.poll(1, 4).0, 0, "once");
    assert_eq!(w.call(1, &[TRACE, CONT, child, 0, 65]).result(), -EIO);
    assert_eq!(w.call(1, &[TRACE, SETOPTIONS, child, 0, 1]).result(), 0);
    assert_eq!(w.call(1, &[TRACE, SYSCALL, child, 0, 12]).result(), 0);
    assert_eq!(w.reply(waits).unwrap()[..4], [0, 2, 12, 0]);
    let waits = w.call(child, &stop(Stop::Entry, 0)).token();
    assert_eq!(w.poll(1, 4), (child as i64, 0x85 << 8 | 0x7f));
    // SIGSTOP is a signal as others; SIGKILL ends it.
    assert_eq!(w.kill(1, child as i64, 19), 0);
    assert_eq!(w.state(child), Some('S'));
    assert_eq!(w.call(1, &[TRACE, DETACH, child, 0, 0]).result(), 0);
    assert_eq!(w.reply(waits).unwrap()[..3], [0, 0, 0]);
    assert!(!w.m.system.domains[&w.domain(child).id].traced);
    assert_eq!(w.call(1, &[TRACE, CONT, child]).result(), -ESRCH);
    check(&w);
}

#[test]
fn children_are_traced_and_set_id_programs_are_not_run() {
    let mut w = World::new();
    let child = w.fork(1);
    assert_eq!(w.call(1, &[TRACE, SEIZE, child, 0, TRACEFORK]).result(), 0);
    assert_eq!(w.call(child, &[EXEC_FRESH]).result(), -EPERM);
    let grandchild = w.fork(child);
    let told = w.m.system.of(w.domain(grandchild)).start.rdi;
    assert_eq!(told, grandchild | TRACED_CHILD);
    let parent = w.call(child, &stop(Stop::Event, 0)).token();
    let first = w.call(grandchild, &stop(Stop::Check, 0)).token();
    let news = [w.poll(1, 4), w.poll(1, 4)];
    assert!(news.contains(&(child as i64, 1 << 16 | 5 << 8 | 0x7f)));
    assert!(news.contains(&(grandchild as i64, 128 << 16 | 5 << 8 | 0x7f)));
    assert_eq!(w.call(1, &[TRACE, 0x4201, child]).words()[1], grandchild);
    for (pid, waits) in [(child, parent), (grandchild, first)] {
        assert_eq!(w.call(1, &[TRACE, CONT, pid]).result(), 0);
        assert!(w.reply(waits).is_some());
    }
    // Its end is told to its tracer and to its parent.
    w.exit(grandchild, 3);
    assert_eq!(w.poll(1, 4), (grandchild as i64, 3 << 8));
    assert_eq!(w.poll(child, 4), (grandchild as i64, 3 << 8));
    check(&w);
}

#[test]
fn the_tracers_end_frees_or_ends_whom_it_traced() {
    let mut w = World::new();
    let (tracer, a, b) = (w.fork(1), w.fork(1), w.fork(1));
    assert_eq!(w.call(tracer, &[TRACE, SEIZE, a]).result(), 0);
    assert_eq!(w.call(tracer, &[TRACE, SEIZE, b, 0, EXITKILL]).result(), 0);
    let waits = w.call(a, &stop(Stop::Signal, 15)).token();
    w.call(b, &stop(Stop::Signal, 15)).token();
    w.exit(tracer, 0);
    assert_eq!(w.reply(waits).unwrap()[..3], [0, 0, 0]);
    assert_eq!(w.state(a), Some('S'));
    assert_eq!(w.state(b), Some('Z'));
    check(&w);
}

#[test]
fn a_group_stop_is_the_tracers_to_end() {
    let mut w = World::new();
    let child = w.fork(1);
    assert_eq!(w.call(1, &[TRACE, SEIZE, child]).result(), 0);
    assert_eq!(w.call(1, &[TRACE, INTERRUPT, child]).result(), 0);
    assert_eq!(
        w.call(child, &[SIGNAL_TAKE]).words()[4],
        taken::TRACED | taken::STOP
    );
    w.call(child, &stop(Stop::Check, 0)).token();
    assert_eq!(w.poll(1, 4).1, 128 << 16 | 5 << 8 | 0x7f);
    assert_eq!(w.call(1, &[TRACE, CONT, child]).result(), 0);
    let waits = w.call(child, &stop(Stop::Group, 19)).token();
    assert_eq!(w.poll(1, 4).1, 128 << 16 | 19 << 8 | 0x7f);
    assert_eq!(w.state(child), Some('T'));
    assert_eq!(w.call(1, &[TRACE, 0x4208, child]).result(), 0);
    assert_eq!(
        w.call(1, &[TRACE, CONT, child]).result(),
        -ESRCH,
        "it listens"
    );
    assert_eq!(w.kill(1, child as i64, 18), 0);
    assert_eq!(w.poll(1, 4).1, 128 << 16 | 5 << 8 | 0x7f);
    assert_eq!(w.call(1, &[TRACE, CONT, child]).result(), 0);
    assert!(w.reply(waits).is_some());
    check(&w);
}

#[test]
fn a_stopped_thread_brings_the_page_that_its_tracer_wants() {
    let mut w = World::new();
    let child = w.fork(1);
    assert_eq!(w.call(child, &[TRACE, TRACEME]).result(), 0);
    let waits = w.call(child, &stop(Stop::Signal, 5)).token();
    let absent = 0x40_1000;
    w.m.system.absent = Some(absent);
    assert_eq!(w.call(1, &[TRACE, PEEK, child, absent]).result(), -EAGAIN);
    let told = w.reply(waits).unwrap();
    assert_eq!(told[1..3], [Resume::Touch.word(), absent]);
    for request in [PEEK, CONT, TRACE_READ] {
        assert_eq!(
            w.call(1, &[TRACE, request, child, absent]).result(),
            -EAGAIN
        );
    }
    assert_eq!(
        w.call(1, &[TRACE_MEMORY, child, absent, 0]).result(),
        -EAGAIN
    );
    // It is stopped as before, and nobody is told of a new stop.
    let waits = w.call(child, &stop(Stop::Signal, 5)).token();
    w.room = 8;
    assert_eq!(
        w.call(1, &[TRACE, PEEK, child, absent]).result(),
        -EIO,
        "in vain"
    );
    w.m.system.absent = None;
    assert_eq!(w.call(1, &[TRACE, PEEK, child, absent]).result(), 8);
    assert!(w.reply(waits).is_none());
    // The tracer ends while it brings one: it goes on.
    w.m.system.absent = Some(absent + 0x1000);
    assert_eq!(
        w.call(1, &[TRACE, PEEK, child, absent + 0x1000]).result(),
        -EAGAIN
    );
    check(&w);
}
