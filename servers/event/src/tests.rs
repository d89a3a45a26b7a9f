//! Sets, timers and signal descriptors as their clients and file servers see them.

use crate::Events;
use cairn_idl::errno::*;
use cairn_idl::event::{self, flags, told};
use cairn_idl::fs::{self, o, poll};
use cairn_resmgr::fake::Bench;

const ME: u32 = 1;

fn bench() -> Bench<Events> {
    Bench::new(Events::default(), b"event:")
}

fn make(b: &mut Bench<Events>, words: &[u64]) -> u64 {
    b.call(0, words, b"", 0).unwrap().minted[0]
}

fn ctl(b: &mut Bench<Events>, set: u64, what: u64, fd: u64, events: u64) -> Result<u64, i64> {
    let words = [event::CTL, what | fd << 32, 100 + fd, events, fd];
    let answer = b.call(set, &words, b"", 0).unwrap();
    match answer.result() {
        0 => Ok(answer.words[1]),
        error => Err(error),
    }
}

fn tell(b: &mut Bench<Events>, interest: u64, ready: u64, how: u64) -> i64 {
    let words = [event::TELL, interest, ME as u64, ready, how];
    b.result(event::SERVER, &words, b"")
}

/// Events that are there, by descriptor and bits.
fn ready(b: &mut Bench<Events>, set: u64) -> Vec<(u64, u32)> {
    let answer = b.call(set, &[event::WAIT, 100, 0], b"", 1200).unwrap();
    let events = answer.bytes().chunks_exact(12);
    let split = |bytes: &[u8]| {
        let data = u64::from_le_bytes(bytes[4..].try_into().unwrap());
        (data, u32::from_le_bytes(bytes[..4].try_into().unwrap()))
    };
    events.map(split).collect()
}

#[test]
fn level_edge_and_one_shot() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    let level = ctl(&mut b, set, 1, 3, poll::IN).unwrap();
    let edge = ctl(&mut b, set, 1, 4, poll::IN | flags::EDGE).unwrap();
    let once = ctl(&mut b, set, 1, 5, poll::IN | flags::ONESHOT).unwrap();
    assert_eq!(ctl(&mut b, set, 1, 3, poll::IN), Err(-EEXIST));
    assert_eq!(ready(&mut b, set), []);
    for interest in [level, edge, once] {
        assert_eq!(tell(&mut b, interest, poll::IN, told::AGAIN), 0);
    }
    let bits = poll::IN as u32;
    assert_eq!(ready(&mut b, set), [(3, bits), (4, bits), (5, bits)]);
    assert_eq!(ready(&mut b, set), [(3, bits)]);
    tell(&mut b, level, 0, 0);
    assert_eq!(ready(&mut b, set), []);
    tell(&mut b, edge, poll::IN, 0);
    assert_eq!(ready(&mut b, set), [], "no edge");
    tell(&mut b, edge, poll::IN, told::AGAIN);
    tell(&mut b, once, poll::IN, told::AGAIN);
    assert_eq!(ready(&mut b, set), [(4, bits)]);
    assert_eq!(ctl(&mut b, set, 3, 5, poll::IN | flags::ONESHOT), Ok(once));
    tell(&mut b, once, poll::IN, told::AGAIN);
    assert_eq!(ready(&mut b, set), [(5, bits)]);
    // Its file is closed.
    tell(&mut b, once, 0, told::GONE);
    assert_eq!(ctl(&mut b, set, 2, 5, 0), Err(-ENOENT));
    assert_eq!(tell(&mut b, once, poll::IN, 0), -ESTALE);
}

#[test]
fn nobody_else_tells() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    let interest = ctl(&mut b, set, 1, 3, poll::IN).unwrap();
    let words = [event::TELL, interest, ME as u64, poll::IN, told::AGAIN];
    for badge in [0, 2, set] {
        assert_eq!(b.result(badge, &words, b""), -EPERM, "through {badge}");
    }
    let other = [event::TELL, interest, 2, poll::IN, told::AGAIN];
    assert_eq!(
        b.result(event::SERVER, &other, b""),
        -EPERM,
        "not his interest"
    );
    assert_eq!(ready(&mut b, set), []);
    let ask = [event::ALIVE, 0, interest, 99, 0, 0, 0];
    assert_eq!(b.result(event::SERVER, &ask, b""), 2);
    b.close(set);
    assert_eq!(b.result(event::SERVER, &ask, b""), 0);
    assert_eq!(b.server.sets.interests(), 0);
}

#[test]
fn one_event_for_one_waiter() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    let first = b.send(set, &[event::WAIT, 1, 1], b"", 0);
    let second = b.send(set, &[event::WAIT, 1, 1], b"", 0);
    // Added while they wait.
    let interest = ctl(&mut b, set, 1, 3, poll::IN | flags::EDGE).unwrap();
    assert_eq!(tell(&mut b, interest, poll::IN, told::AGAIN), 1);
    let answer = b.answer(first).unwrap();
    assert_eq!(answer.words[..3], [12, poll::IN, 3]);
    assert_eq!(b.answer(second), None);
    b.interrupt(second);
    assert_eq!(b.answer(second).unwrap().result(), -EINTR);
    assert_eq!(
        tell(&mut b, interest, poll::IN, told::AGAIN),
        0,
        "nobody waits"
    );
}

#[test]
fn what_does_not_fit_in_words_is_not_taken() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    for fd in 0..4 {
        let interest = ctl(&mut b, set, 1, fd, poll::IN | flags::EDGE).unwrap();
        tell(&mut b, interest, poll::IN, told::AGAIN);
    }
    let answer = b.call(set, &[event::WAIT, 10, 0], b"", 0).unwrap();
    assert_eq!(answer.words[0], event::MORE);
    let answer = b.call(set, &[event::WAIT, 2, 0], b"", 0).unwrap();
    assert_eq!(answer.words[..4], [24, poll::IN | poll::IN << 32, 0, 1]);
    assert_eq!(ready(&mut b, set).len(), 2);
}

#[test]
fn sets_in_sets() {
    let mut b = bench();
    let (outer, inner) = (make(&mut b, &[event::SET]), make(&mut b, &[event::SET]));
    let interest = ctl(&mut b, outer, 1, 3, poll::IN).unwrap();
    assert_eq!(b.result(inner, &[fs::WATCH, interest, poll::IN], b""), 0);
    let back = ctl(&mut b, inner, 1, 4, poll::IN).unwrap();
    assert_eq!(b.result(outer, &[fs::WATCH, back, poll::IN], b""), -ELOOP);
    assert_eq!(b.result(inner, &[fs::WATCH, back, poll::IN], b""), -EINVAL);
    tell(&mut b, back, poll::IN, told::AGAIN);
    assert_eq!(ready(&mut b, outer), [(3, poll::IN as u32)]);
    tell(&mut b, back, 0, 0);
    assert_eq!(ready(&mut b, outer), []);
    b.close(inner);
    assert_eq!(
        ctl(&mut b, outer, 2, 3, 0),
        Err(-ENOENT),
        "it went with the set"
    );
}

#[test]
fn an_interest_is_its_makers_and_in_one_file() {
    let mut b = bench();
    let [first, second, third] = [(); 3].map(|()| make(&mut b, &[event::SET]));
    let wanted = poll::IN | flags::EDGE;
    let one = ctl(&mut b, first, 1, 3, wanted).unwrap();
    // Whoever guesses the number does nothing to it.
    b.sender = 2;
    let foreign = make(&mut b, &[event::SET]);
    assert_eq!(b.result(foreign, &[fs::WATCH, one, wanted], b""), -EPERM);
    let inner = ctl(&mut b, foreign, 1, 3, poll::IN).unwrap();
    assert_eq!(
        b.result(first, &[fs::WATCH, inner, poll::IN], b""),
        0,
        "no set lies in it"
    );
    b.sender = ME;
    assert_eq!(b.result(second, &[fs::WATCH, one, wanted], b""), 0);
    b.sender = 2;
    b.result(second, &[fs::UNWATCH, one], b"");
    b.sender = ME;
    let inside = ctl(&mut b, second, 1, 5, poll::IN).unwrap();
    tell(&mut b, inside, poll::IN, told::AGAIN);
    assert_eq!(
        ready(&mut b, first),
        [(3, poll::IN as u32)],
        "still watched"
    );
    tell(&mut b, inside, 0, 0);
    // Watched through another set it is in that one only: otherwise sets could lie in each other unseen.
    assert_eq!(b.result(third, &[fs::WATCH, one, wanted], b""), 0);
    let back = ctl(&mut b, second, 1, 4, wanted).unwrap();
    assert_eq!(b.result(first, &[fs::WATCH, back, wanted], b""), 0);
    tell(&mut b, inside, poll::IN, told::AGAIN);
    assert_eq!(ready(&mut b, first), []);
    let again = ctl(&mut b, third, 1, 6, wanted).unwrap();
    assert_eq!(b.result(second, &[fs::WATCH, again, wanted], b""), -ELOOP);
}

#[test]
fn processes_that_ended_are_forgotten_at_last() {
    let mut b = bench();
    let file = make(&mut b, &[event::SIGNALS, 0b110, 0]);
    for sender in 1..5000 {
        b.sender = sender;
        assert_eq!(b.result(file, &[event::SIGNALS_NOW, 0b10], b""), 0);
    }
    assert!(b.server.tellers() <= 1024);
    let poll = [fs::POLL, poll::IN, 0];
    assert_eq!(
        b.result(file, &poll, b""),
        poll::IN as i64,
        "the last one is known"
    );
}

#[test]
fn timers_wake_and_count() {
    let mut b = bench();
    b.fake.time = 1000;
    let timer = make(&mut b, &[event::TIMER, o::NONBLOCK, 0]);
    let set = make(&mut b, &[event::SET]);
    let interest = ctl(&mut b, set, 1, 3, poll::IN).unwrap();
    assert_eq!(b.result(timer, &[fs::WATCH, interest, poll::IN], b""), 0);
    let answer = b.call(timer, &[event::TIMER_SET, 100, 50, 0], b"", 0);
    assert_eq!(answer.unwrap().words[..3], [0, 0, 0]);
    let read = [fs::READ, fs::POSITION, 0];
    assert_eq!(b.call(timer, &read, b"", 8).unwrap().result(), -EAGAIN);
    b.fake.time = 1260;
    b.time_out();
    assert_eq!(ready(&mut b, set), [(3, poll::IN as u32)]);
    let answer = b.call(timer, &[event::TIMER_GET], b"", 0).unwrap();
    assert_eq!(answer.words[..3], [0, 40, 50]);
    assert_eq!(b.call(timer, &read, b"", 8).unwrap().data[..2], [4, 0]);
    assert_eq!(ready(&mut b, set), []);
    assert_eq!(b.call(timer, &read, b"", 7).unwrap().result(), -EINVAL);
}

#[test]
fn signals_are_the_watching_processs() {
    let mut b = bench();
    let file = make(&mut b, &[event::SIGNALS, 0b110, 0]);
    let set = make(&mut b, &[event::SET]);
    let interest = ctl(&mut b, set, 1, 3, poll::IN).unwrap();
    assert_eq!(b.result(file, &[fs::WATCH, interest, poll::IN], b""), 0);
    b.sender = 2;
    b.result(file, &[event::SIGNALS_NOW, 0b10], b"");
    assert_eq!(ready(&mut b, set), [], "another process's");
    assert_eq!(
        b.result(file, &[fs::POLL, poll::IN, 0], b""),
        poll::IN as i64
    );
    b.sender = ME;
    b.result(file, &[event::SIGNALS_NOW, 0b1], b"");
    assert_eq!(ready(&mut b, set), [], "not in the mask");
    b.result(file, &[event::SIGNALS_NOW, 0b100], b"");
    assert_eq!(ready(&mut b, set).len(), 1);
    b.result(file, &[event::SIGNALS_MASK, 1, 0b10], b"");
    assert_eq!(ready(&mut b, set), []);
}
