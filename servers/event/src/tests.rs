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
fn many_are_told_at_once_and_each_once() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    for fd in 0..2500 {
        let interest = ctl(&mut b, set, 1, fd, poll::IN).unwrap();
        tell(&mut b, interest, poll::IN, told::AGAIN);
    }
    let answer = b.call(set, &[event::WAIT, 4000, 0], b"", 48000).unwrap();
    let events = answer.bytes().chunks_exact(12);
    let fds = events.map(|e| u64::from_le_bytes(e[4..].try_into().unwrap()));
    assert!(fds.eq(0..2500));
    // What was told is behind the others.
    let answer = b.call(set, &[event::WAIT, 2000, 0], b"", 24000).unwrap();
    assert_eq!(answer.words[0], 24000);
    assert_eq!(ready(&mut b, set)[0].0, 2000);
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
    let timer = make(&mut b, &[event::TIMER, o::NONBLOCK, 0, 1]);
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
    assert_eq!(answer.words[..6], [0, 40, 50, 1, 0, 4]);
    assert_eq!(b.call(timer, &read, b"", 8).unwrap().data[..2], [4, 0]);
    assert_eq!(ready(&mut b, set), []);
    assert_eq!(b.call(timer, &read, b"", 7).unwrap().result(), -EINVAL);
}

#[test]
fn what_a_set_is_interested_in_is_told() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    for fd in 3..203 {
        ctl(&mut b, set, 1, fd, poll::IN | event::flags::EDGE).unwrap();
    }
    ctl(&mut b, set, 2, 100, 0).unwrap();
    let (mut seen, mut first) = (Vec::new(), 0);
    loop {
        let words = [event::INTERESTS, first];
        let answer = b.call(set, &words, b"", 4096).unwrap();
        let told = answer
            .data
            .as_chunks()
            .0
            .iter()
            .map(event::Told::from_bytes);
        let told: Vec<_> = told.take(answer.words[0] as usize).collect();
        assert!(told.iter().all(|it| it.events == 0x8000_0019));
        seen.extend(told.iter().map(|it| it.descriptor));
        first = answer.words[1];
        if first == 0 {
            break;
        }
        assert_eq!(told.len(), 4096 / event::Told::BYTES);
    }
    seen.sort();
    assert_eq!(seen.len(), 199);
    assert!(!seen.contains(&100) && seen[0] == 3 && seen[198] == 202);
    // Another set's number leads nowhere, nor one that is gone.
    let other = make(&mut b, &[event::SET]);
    let interest = ctl(&mut b, other, 1, 3, poll::IN).unwrap();
    for first in [interest, u64::MAX] {
        let answer = b.call(set, &[event::INTERESTS, first], b"", 4096);
        assert_eq!(answer.unwrap().words[..2], [0, 0]);
    }
    let timer = make(&mut b, &[event::TIMER, 0, 0]);
    assert_eq!(b.result(timer, &[event::INTERESTS, 0], b""), -EINVAL);
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

fn mark(b: &mut Bench<Events>, queue: u64, events: u64) -> Result<u64, i64> {
    let answer = b.call(queue, &[event::MARK, events], b"", 0).unwrap();
    match answer.result() {
        0 => Ok(answer.words[1]),
        error => Err(error),
    }
}

/// A file's server (the sender) has the file.
fn marked(b: &mut Bench<Events>, number: u64, inode: u64) -> i64 {
    let words = [event::MARKED, number, ME as u64, inode];
    b.result(event::SERVER, &words, b"") & 0xffff_ffff
}

fn notice(b: &mut Bench<Events>, number: u64, events: u64, name: &[u8]) -> i64 {
    let words = [event::NOTICE, number, ME as u64, events];
    b.result(event::SERVER, &words, name)
}

/// Watch, bits and name of what is there.
fn read_queue(b: &mut Bench<Events>, queue: u64, room: usize) -> Vec<(u32, u32, Vec<u8>)> {
    let words = [fs::READ, fs::POSITION, 8];
    let answer = b.call(queue, &words, b"", room).unwrap();
    if answer.result() < 0 {
        return Vec::new();
    }
    let (mut rest, mut all) = (answer.bytes(), Vec::new());
    while !rest.is_empty() {
        let field = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let length = field(12) as usize;
        let name = &rest[16..16 + length];
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        all.push((field(0), field(4), name[..end].to_vec()));
        rest = &rest[16 + length..];
    }
    all
}

#[test]
fn marks_are_their_queues_and_nobody_elses() {
    let mut b = bench();
    let queue = make(&mut b, &[event::QUEUE, o::NONBLOCK]);
    let number = mark(&mut b, queue, 0xfff).unwrap();
    assert_eq!(notice(&mut b, number, 2, b""), -EPERM, "no file's yet");
    let other = [event::MARKED, number, 2, 7];
    assert_eq!(b.result(event::SERVER, &other, b""), -EPERM, "not his mark");
    for badge in [0, 2, queue] {
        let words = [event::MARKED, number, ME as u64, 7];
        assert_eq!(b.result(badge, &words, b""), -EPERM, "through {badge}");
    }
    assert_eq!(marked(&mut b, number, 7), 1);
    let told = |b: &mut Bench<Events>, first: u64, room: usize| {
        let answer = b.call(queue, &[event::WATCHES, first], b"", room).unwrap();
        let seen = answer
            .data
            .as_chunks()
            .0
            .iter()
            .map(event::Seen::from_bytes);
        let all = seen.map(|it| (it.watch, it.events, it.inode));
        let all: Vec<_> = all.take(answer.words[0] as usize).collect();
        (answer.words[..2].to_vec(), all)
    };
    assert_eq!(told(&mut b, 0, 4096), (vec![1, 0], vec![(1, 0xfff, 7)]));
    assert_eq!(told(&mut b, 0, 0), (vec![0, number], vec![]));
    assert_eq!(told(&mut b, number + 1, 4096), (vec![0, 0], vec![]));
    assert_eq!(b.result(0, &[event::WATCHES, 0], b""), -EINVAL);
    assert_eq!(notice(&mut b, number, 2, b"name"), 0);
    b.sender = 9;
    assert_eq!(notice(&mut b, number, 2, b"x"), -EPERM, "another server");
    b.sender = 1;
    let long = [b'x'; 256];
    assert_eq!(notice(&mut b, number, 2, &long), -ENAMETOOLONG);
    assert_eq!(read_queue(&mut b, queue, 20), [], "no room");
    assert_eq!(read_queue(&mut b, queue, 4096), [(1, 2, b"name".to_vec())]);
    // The same file again: the same watch, and the old mark is gone.
    let again = mark(&mut b, queue, 4 | event::mark::ADD).unwrap();
    assert_eq!(marked(&mut b, again, 7), 1);
    assert_eq!(notice(&mut b, number, 2, b""), -ESTALE);
    assert_eq!(notice(&mut b, again, 2, b""), 0, "added to");
    let exclusive = mark(&mut b, queue, 4 | event::mark::CREATE).unwrap();
    let words = [event::MARKED, exclusive, ME as u64, 7];
    assert_eq!(b.result(event::SERVER, &words, b""), -EEXIST);
    assert_eq!(b.result(queue, &[event::UNMARK, 0, again], b""), -EINVAL);
    assert_eq!(b.result(queue, &[event::UNMARK, 0, exclusive], b""), 0);
    let once = mark(&mut b, queue, 4 | event::mark::ONESHOT).unwrap();
    assert_eq!(marked(&mut b, once, 8), 2);
    assert_eq!(notice(&mut b, once, 2, b""), 0, "not asked for");
    assert_eq!(notice(&mut b, once, 4, b""), -ESTALE);
    assert_eq!(b.result(queue, &[event::UNMARK, 1, 2], b""), -EINVAL);
    assert_eq!(b.result(queue, &[event::UNMARK, 1, 1], b""), 0);
    let all: Vec<_> = read_queue(&mut b, queue, 4096)
        .iter()
        .map(|(watch, bits, _)| (*watch, *bits))
        .collect();
    assert_eq!(all, [(1, 2), (2, 4), (2, 0x8000), (1, 0x8000)]);
    assert_eq!(b.server.queues.counts(), (0, 1));
    b.close(queue);
    assert_eq!(b.server.queues.counts(), (0, 0));
}

#[test]
fn many_marks_go_in_pieces() {
    let mut b = bench();
    let queue = make(&mut b, &[event::QUEUE]);
    for inode in 0..3000 {
        let number = mark(&mut b, queue, 1).unwrap();
        assert!(marked(&mut b, number, inode) > 0, "{inode}");
    }
    assert_eq!(b.server.queues.counts(), (3000, 1));
    b.close(queue);
    assert_eq!(b.server.queues.counts(), (3000 - 1024, 1));
    // Another one's marks do not wait.
    let other = make(&mut b, &[event::QUEUE]);
    b.close(other);
    assert_eq!(b.server.queues.counts(), (3000 - 2048, 1));
    while b.background() {}
    assert_eq!(b.server.queues.counts(), (0, 0));
}

#[test]
fn a_queue_is_charged_and_says_what_it_lost() {
    let mut b = bench();
    b.label = 1000;
    let queue = make(&mut b, &[event::QUEUE, o::NONBLOCK]);
    let number = mark(&mut b, queue, 0xfff).unwrap();
    marked(&mut b, number, 7);
    let before = b.manager.usage(1000).0;
    for round in 0..20_000u32 {
        notice(
            &mut b,
            number,
            1 << (round & 1),
            &round.to_le_bytes().map(|byte| byte | 1),
        );
    }
    let full = b.manager.usage(1000).0 - before;
    assert!((16_384 * 32..16_384 * 34).contains(&full), "{full}");
    let mut all = Vec::new();
    loop {
        let some = read_queue(&mut b, queue, 65_536);
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    assert_eq!(all.len(), 16_385);
    assert_eq!(all[16_384], (u32::MAX, 0x4000, Vec::new()));
    assert!(b.manager.usage(1000).0 - before <= 4096);
    // What comes now is told again; without memory for it, that something was lost.
    notice(&mut b, number, 1, b"");
    notice(&mut b, number, 1, b"");
    assert_eq!(read_queue(&mut b, queue, 4096), [(1, 1, Vec::new())]);
    b.fake.charge_limit = Some(0);
    for _ in 0..6000 {
        notice(&mut b, number, 1, b"a");
        notice(&mut b, number, 2, b"b");
    }
    let got = read_queue(&mut b, queue, 1 << 20);
    assert_eq!(got.last(), Some(&(u32::MAX, 0x4000, Vec::new())));
    b.fake.charge_limit = None;
    let mut queues = Vec::new();
    loop {
        let answer = b.call(0, &[event::QUEUE], b"", 0).unwrap();
        match answer.result() {
            0 => queues.push(answer.minted[0]),
            error => break assert_eq!(error, -EMFILE),
        }
    }
    assert_eq!(queues.len(), event::QUEUES_MAX - 1);
    for queue in queues.into_iter().chain([queue]) {
        b.close(queue);
    }
    assert_eq!(b.manager.usage(1000).0, 0);
}

/// Who makes a set, a timer or a signal descriptor pays for it and for what it comes to hold, and for nothing when it is closed.
#[test]
fn what_is_kept_is_charged_by_size() {
    let mut b = bench();
    b.label = 1000;
    let usage = |b: &mut Bench<Events>| b.manager.usage(1000).0;
    for (kind, least) in [(event::SET, 32), (event::TIMER, 24), (event::SIGNALS, 24)] {
        let empty = usage(&mut b);
        let one = make(&mut b, &[kind, 1]);
        let first = usage(&mut b) - empty;
        b.close(one);
        assert_eq!(usage(&mut b), empty);
        b.fake.charge_limit = Some(0);
        let many: Vec<_> = (0..2000)
            .map_while(|_| {
                let answer = b.call(0, &[kind, 1], b"", 0).unwrap();
                (answer.result() == 0).then(|| answer.minted[0])
            })
            .collect();
        b.fake.charge_limit = None;
        assert!(first >= least && many.len() < 2000, "{kind}: {first}");
        many.into_iter().for_each(|one| b.close(one));
        assert_eq!(usage(&mut b), empty);
    }
    let set = make(&mut b, &[event::SET]);
    let empty = usage(&mut b);
    let all: Vec<_> = (0..1000)
        .map(|fd| ctl(&mut b, set, 1, fd, poll::IN))
        .collect();
    assert!(all.iter().all(|number| number.is_ok()));
    let each = (usage(&mut b) - empty) / 1000;
    assert!((80..200).contains(&each), "{each} bytes for an interest");
    // What is not paid for is refused, and what was there can still be changed.
    b.fake.charge_limit = Some(0);
    let refused = (1000..3000).find_map(|fd| ctl(&mut b, set, 1, fd, poll::IN).err());
    assert_eq!(refused, Some(-ENOMEM));
    assert!(ctl(&mut b, set, 3, 5, poll::OUT).is_ok());
    assert!(ctl(&mut b, set, 2, 5, 0).is_ok());
    assert!(ctl(&mut b, set, 1, 5, poll::IN).is_ok());
    b.fake.charge_limit = None;
    let signals = make(&mut b, &[event::SIGNALS, 1]);
    let before = usage(&mut b);
    assert_eq!(b.result(signals, &[event::SIGNALS_NOW, 1], b""), 0);
    assert!(usage(&mut b) > before);
    assert_eq!(b.result(signals, &[event::SIGNALS_NOW, 0], b""), 0);
    assert_eq!(usage(&mut b), before);
    b.close(signals);
    b.close(set);
    while b.background() {}
    assert_eq!(usage(&mut b), 0);
}

#[test]
fn many_timers_expire_in_pieces() {
    let mut b = bench();
    b.fake.time = 1000;
    let timers: Vec<u64> = (0..500)
        .map(|_| make(&mut b, &[event::TIMER, 0, 1]))
        .collect();
    let set = |b: &mut Bench<Events>, timer: u64, value: u64| {
        assert_eq!(b.result(timer, &[event::TIMER_SET, value, 0, 0], b""), 0);
        b.send(timer, &[fs::READ, fs::POSITION], b"", 8)
    };
    let readers: Vec<_> = timers
        .iter()
        .map(|timer| set(&mut b, *timer, 500))
        .collect();
    assert_eq!(b.deadline(), Some(1500));
    let mut left = readers;
    let mut answered = |b: &mut Bench<Events>| {
        let before = left.len();
        left.retain(|reader| b.answer(*reader).is_none());
        before - left.len()
    };
    b.fake.time = 2000;
    b.time_out();
    assert_eq!((answered(&mut b), b.deadline()), (4, None));
    // One that is set meanwhile does not bring the alarm back.
    let again = make(&mut b, &[event::TIMER, 0, 1]);
    let reader = set(&mut b, again, 100);
    assert_eq!(b.deadline(), None);
    assert!(b.background());
    assert_eq!(answered(&mut b), 64);
    while b.background() {
        assert!(answered(&mut b) <= 64);
    }
    assert_eq!((answered(&mut b), b.answer(reader)), (0, None));
    assert_eq!(b.deadline(), Some(2100));
    b.fake.time = 2100;
    b.time_out();
    assert!(b.answer(reader).is_some());
    // Without a thread for the rest nothing is left.
    b.fake.no_background = true;
    let readers: Vec<_> = timers
        .iter()
        .map(|timer| set(&mut b, *timer, 500))
        .collect();
    b.fake.time = 3000;
    b.time_out();
    assert!(readers.iter().all(|reader| b.answer(*reader).is_some()));
}

#[test]
fn times_of_the_real_clock_follow_it() {
    const HOUR: u64 = 3600 * 1_000_000_000;
    let mut b = bench();
    b.fake.time = 1000;
    b.fake.wall = HOUR;
    let timers: Vec<u64> = (0..3)
        .map(|_| make(&mut b, &[event::TIMER, o::NONBLOCK, 1]))
        .collect();
    let [follows, cancels, ahead] = timers[..] else {
        panic!("three timers")
    };
    let at = 2 * HOUR + 5000;
    for (timer, value, how) in [(follows, at, 1), (cancels, 9 * HOUR, 3), (ahead, HOUR, 0)] {
        let words = [event::TIMER_SET, value, 0, how];
        assert_eq!(b.call(timer, &words, b"", 0).unwrap().result(), 0);
    }
    let left =
        |b: &mut Bench<Events>, timer| b.call(timer, &[event::TIMER_GET], b"", 0).unwrap().words[1];
    let read = [fs::READ, fs::POSITION, 0];
    assert_eq!(left(&mut b, follows), HOUR + 4000);
    // Nobody is believed.
    assert_eq!(b.result(0, &[event::CLOCK_SET], b""), 0);
    assert_eq!(left(&mut b, follows), HOUR + 4000);
    assert_eq!(b.call(cancels, &read, b"", 8).unwrap().result(), -EAGAIN);
    b.fake.wall = 2 * HOUR;
    assert_eq!(b.result(0, &[event::CLOCK_SET], b""), 0);
    assert_eq!(left(&mut b, follows), 4000);
    assert_eq!(left(&mut b, cancels), 7 * HOUR - 1000);
    assert_eq!(left(&mut b, ahead), HOUR);
    assert_eq!(b.call(cancels, &read, b"", 8).unwrap().result(), -ECANCELED);
    assert_eq!(b.call(cancels, &read, b"", 8).unwrap().result(), -EAGAIN);
    assert_eq!(b.call(follows, &read, b"", 8).unwrap().result(), -EAGAIN);
    b.fake.wall = 3 * HOUR;
    assert_eq!(b.result(0, &[event::CLOCK_SET], b""), 0);
    assert_eq!(b.call(follows, &read, b"", 8).unwrap().data[..1], [1]);
}

#[test]
fn a_process_has_one_record_for_all_its_descriptors() {
    let mut b = bench();
    b.fake.strangers.push(9);
    assert_eq!(b.result(0, &[event::PROCESS, 9, 0, 0], b""), -ESRCH);
    let first = make(&mut b, &[event::PROCESS, 3, 0, 0]);
    let more: Vec<u64> = (0..1000)
        .map(|_| make(&mut b, &[event::PROCESS, 3, 0, 0]))
        .collect();
    assert_eq!((b.fake.followed.len(), b.server.lives.count()), (1, 1));
    let (life, badge) = b.fake.followed[0];
    let told = b.call(first, &[event::PROCESS_LIFE], b"", 0).unwrap();
    assert_eq!((told.words[1], told.words[2]), (life, 0));
    assert_eq!(b.result(first, &[fs::POLL, poll::IN, 0], b""), 0);
    // Closed while the process lives, the record waits for its end.
    for handle in more {
        b.close(handle);
    }
    b.pulse(cairn_abi::pulse::CLOSED, 0, badge);
    assert_eq!(
        b.result(first, &[fs::POLL, poll::IN, 0], b""),
        poll::IN as i64
    );
    b.close(first);
    assert_eq!(b.server.lives.count(), 0);
    let again = make(&mut b, &[event::PROCESS, 3, 0, 0]);
    let badge = b.fake.followed[1].1;
    b.close(again);
    assert_eq!(b.server.lives.count(), 1);
    b.pulse(cairn_abi::pulse::CLOSED, 0, badge);
    assert_eq!(b.server.lives.count(), 0);
}

#[test]
fn a_number_that_is_anothers_by_now_is_not_followed() {
    let mut b = bench();
    b.fake.strangers.push(9);
    for pid in [3, 9] {
        let late = make(&mut b, &[event::PROCESS, pid, o::NONBLOCK, 77]);
        assert_eq!(
            b.result(late, &[fs::POLL, poll::IN, 0], b""),
            poll::IN as i64
        );
        let told = b.call(late, &[event::PROCESS_LIFE], b"", 0).unwrap();
        assert_eq!((told.words[1], told.words[2]), (77, 1));
        b.close(late);
    }
    assert_eq!((b.fake.followed.len(), b.server.lives.count()), (0, 0));
    let own = make(&mut b, &[event::PROCESS, 3, 0, 5003]);
    assert_eq!(b.result(own, &[fs::POLL, poll::IN, 0], b""), 0);
    // One that ended before it could be followed.
    b.fake.ended.push(5004);
    let over = make(&mut b, &[event::PROCESS, 4, 0, 0]);
    assert_eq!(
        b.result(over, &[fs::POLL, poll::IN, 0], b""),
        poll::IN as i64
    );
}

#[test]
fn a_table_that_was_large_gives_back_its_places() {
    let mut b = bench();
    let kept = make(&mut b, &[event::SET]);
    let first = ctl(&mut b, kept, 1, 3, poll::IN).unwrap();
    let mut old = 0;
    for round in 0..3 {
        let set = make(&mut b, &[event::SET]);
        for fd in 0..5000 {
            old = ctl(&mut b, set, 1, fd, poll::IN).unwrap();
        }
        assert!(b.server.sets.places() > 5000, "round {round}");
        b.close(set);
        // Many go in pieces, and others are served between.
        for left in [3976, 2952, 1928, 904] {
            assert_eq!(b.server.sets.interests(), 1 + left);
            b.background();
        }
        while b.background() {}
        assert_eq!(b.server.sets.places(), 1, "round {round}");
        assert_eq!(tell(&mut b, old, poll::IN, told::AGAIN), -ESTALE);
    }
    assert_eq!(tell(&mut b, first, poll::IN, told::AGAIN), 0);
    assert_eq!(ready(&mut b, kept), [(3, poll::IN as u32)]);
    for fd in 4..100 {
        let new = ctl(&mut b, kept, 1, fd, poll::IN).unwrap();
        assert_ne!(new, old);
        assert_eq!(tell(&mut b, old, poll::IN, told::AGAIN), -ESTALE);
    }
}

/// A signaller with an interest of its, whose file was told of.
fn signaller(b: &mut Bench<Events>, signal: u64, pipe: u64) -> (u64, u64) {
    let owner = 1 << 32 | 77;
    let set = make(b, &[event::SIGNALLER, signal, owner, 5, pipe]);
    let all = poll::IN | poll::OUT | poll::HUP | event::flags::EDGE;
    let interest = ctl(b, set, 1, 5, all).unwrap();
    tell(b, interest, poll::IN, told::AGAIN);
    (set, interest)
}

#[test]
fn files_send_signals() {
    let mut b = bench();
    let owner = 1 << 32 | 77;
    let (life, me) = (5000, ME as u64);
    let (set, interest) = signaller(&mut b, 40, 0);
    // How the file is at first is nothing new.
    assert!(b.fake.signalled.is_empty());
    tell(&mut b, interest, poll::IN, told::AGAIN);
    tell(&mut b, interest, poll::OUT, told::AGAIN);
    tell(&mut b, interest, 0, told::AGAIN);
    tell(&mut b, interest, poll::HUP | poll::IN, told::AGAIN);
    let expected = [
        [life, me, 40, 1, 5, 0x41, owner],
        [life, me, 40, 2, 5, 0x104, owner],
        [life, me, 40, 6, 5, 0x18, owner],
    ];
    assert_eq!(core::mem::take(&mut b.fake.signalled), expected);
    let plain = [life, me, 29, 0x80, 0, 0, owner];
    let (_, quiet) = signaller(&mut b, 0, 0);
    tell(&mut b, quiet, poll::IN, told::AGAIN);
    assert_eq!(core::mem::take(&mut b.fake.signalled), [plain]);
    let (_, pipe) = signaller(&mut b, 40, 1);
    tell(&mut b, pipe, poll::HUP, told::AGAIN);
    tell(&mut b, pipe, poll::ERR | poll::OUT, told::AGAIN);
    let codes: Vec<u64> = b.fake.signalled.iter().map(|words| words[3]).collect();
    assert_eq!(codes, [1, 2]);
    b.fake.signalled.clear();
    // A lease is to be given up.
    let leased = make(&mut b, &[event::SIGNALLER, 40, owner, 5, 0]);
    let lease = ctl(&mut b, leased, 1, 5, poll::MSG | event::flags::EDGE).unwrap();
    tell(&mut b, lease, 0, 0);
    tell(&mut b, lease, poll::MSG, told::AGAIN);
    let expected = [[life, me, 40, 3, 5, 0x441, owner]];
    assert_eq!(core::mem::take(&mut b.fake.signalled), expected);
    b.close(set);
    assert_eq!(tell(&mut b, interest, poll::IN, told::AGAIN), -ESTALE);
    assert!(b.fake.signalled.is_empty());
    let wrong = [
        [event::SIGNALLER, 65, owner, 5],
        [event::SIGNALLER, 40, 3 << 32, 5],
    ];
    for words in wrong {
        assert_eq!(b.result(0, &words, b""), -EINVAL);
    }
}

#[test]
fn signallers_are_paid_for() {
    let mut b = bench();
    b.label = cairn_idl::label::make(1000, 1000);
    let empty = b.manager.usage(1000).0;
    let made: Vec<u64> = (0..50).map(|_| signaller(&mut b, 40, 0).0).collect();
    let full = b.manager.usage(1000).0 - empty;
    assert!(full >= 50 * 64, "{full}");
    for set in made {
        b.close(set);
    }
    assert_eq!(b.server.signallers.len(), 0);
    assert_eq!(b.manager.usage(1000).0, empty);
}

#[test]
fn servers_set_how_long_leases_last_and_nobody_else() {
    let mut b = bench();
    let time = event::LEASE_TIME;
    assert_eq!(b.result(event::SERVER, &[time, 0, 9], b""), 45);
    assert_eq!(b.result(0, &[time, 1, 9], b""), -EPERM);
    assert_eq!(b.result(0, &[time, 0], b""), -EPERM);
    assert_eq!(b.result(event::SERVER, &[time, 1, 1 << 31], b""), -EINVAL);
    assert_eq!(b.result(event::SERVER, &[time, 1, 0], b""), 0);
    assert_eq!(b.result(event::SERVER, &[time, 0], b""), 0);
}

/// CTL by a domain: the interest, and whether the file's server knows it.
fn ctl_by(
    b: &mut Bench<Events>,
    sender: u32,
    set: u64,
    what: u64,
    fd: u64,
    events: u64,
) -> Result<(u64, u64), i64> {
    let before = core::mem::replace(&mut b.sender, sender);
    let words = [event::CTL, what | fd << 32, 100 + fd, events, fd];
    let answer = b.call(set, &words, b"", 0).unwrap();
    b.sender = before;
    match answer.result() {
        0 => Ok((answer.words[1], answer.words[2])),
        error => Err(error),
    }
}

#[test]
fn what_was_taken_out_rests_until_its_server_says_something() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    let bits = poll::IN as u32;
    let (interest, known) = ctl_by(&mut b, ME, set, 1, 3, poll::IN).unwrap();
    assert_eq!(known, 0);
    tell(&mut b, interest, poll::IN, told::AGAIN);
    ctl(&mut b, set, 2, 3, 0).unwrap();
    assert_eq!(ready(&mut b, set), [], "it rests");
    assert_eq!(ctl(&mut b, set, 2, 3, 0), Err(-ENOENT));
    assert_eq!(ctl(&mut b, set, 3, 3, poll::IN), Err(-ENOENT));
    // The same again: nobody has to be asked, and who waits goes on.
    let waiter = b.send(set, &[event::WAIT, 1, 1], b"", 0);
    assert_eq!(ctl_by(&mut b, ME, set, 1, 3, poll::IN), Ok((interest, 1)));
    assert_eq!(b.answer(waiter).unwrap().words[..3], [12, poll::IN, 3]);
    assert_eq!(ctl(&mut b, set, 1, 3, poll::IN), Err(-EEXIST));
    tell(&mut b, interest, 0, 0);
    ctl(&mut b, set, 2, 3, 0).unwrap();
    assert_eq!(ctl_by(&mut b, ME, set, 1, 3, poll::IN), Ok((interest, 1)));
    assert_eq!(ready(&mut b, set), []);
    // Its server has something to say: it hears that nobody is interested.
    ctl(&mut b, set, 2, 3, 0).unwrap();
    assert_eq!(tell(&mut b, interest, poll::IN, told::AGAIN), -ESTALE);
    let (anew, known) = ctl_by(&mut b, ME, set, 1, 3, poll::IN).unwrap();
    assert!(anew != interest && known == 0);
    tell(&mut b, anew, poll::IN, told::AGAIN);
    assert_eq!(ready(&mut b, set), [(3, bits)]);
    // It asks who is there: what rests is not.
    ctl(&mut b, set, 2, 3, 0).unwrap();
    let ask = [event::ALIVE, anew, 0, 0, 0, 0, 0];
    assert_eq!(b.result(event::SERVER, &ask, b""), 0);
    assert_eq!(ctl_by(&mut b, ME, set, 1, 3, poll::IN).unwrap().1, 0);
}

#[test]
fn what_is_added_in_another_way_is_told_to_its_server() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    let other = make(&mut b, &[event::SET]);
    let mut fd = 10;
    let mut rests = |events: u64, again: u64, by: u32, told_it: bool| {
        fd += 1;
        let interest = ctl(&mut b, set, 1, fd, events).unwrap();
        if told_it {
            tell(&mut b, interest, poll::IN, told::AGAIN);
            ready(&mut b, set);
        }
        ctl(&mut b, set, 2, fd, 0).unwrap();
        let elsewhere = ctl_by(&mut b, ME, other, 1, fd, events);
        assert_eq!(elsewhere.unwrap().1, 0, "another set");
        let again = ctl_by(&mut b, by, set, 1, fd, again).unwrap();
        (again.0 == interest, again.1)
    };
    let (input, output) = (poll::IN, poll::OUT);
    assert_eq!(rests(input, input, ME, true), (true, 1));
    assert_eq!(
        rests(input | flags::EDGE, input | flags::EDGE, ME, true),
        (true, 1)
    );
    assert_eq!(rests(input, input, 2, true), (true, 0), "another domain");
    assert_eq!(rests(input, output, ME, true), (true, 0), "other bits");
    assert_eq!(
        rests(input, input | flags::EDGE, ME, true),
        (true, 0),
        "another way"
    );
    let once = input | flags::ONESHOT;
    assert_eq!(
        rests(once, once, ME, true),
        (true, 0),
        "a one-shot that is over"
    );
    let alone = input | flags::EXCLUSIVE;
    assert_eq!(
        rests(alone, alone, ME, true),
        (false, 0),
        "not each change is told"
    );
    assert_eq!(
        rests(input, input, ME, false),
        (false, 0),
        "its server never said anything"
    );
}

#[test]
fn what_rests_takes_no_room() {
    let mut b = bench();
    b.label = cairn_idl::label::make(1000, 1000);
    let set = make(&mut b, &[event::SET]);
    let add = |b: &mut Bench<Events>, fd| {
        let (interest, known) = ctl_by(b, ME, set, 1, fd, poll::IN).unwrap();
        tell(b, interest, poll::IN, told::AGAIN);
        known
    };
    add(&mut b, 0);
    let paid = b.manager.usage(1000).0;
    for fd in 0..2000 {
        assert_eq!(add(&mut b, fd + 1), 0);
        ctl(&mut b, set, 2, fd + 1, 0).unwrap();
    }
    assert_eq!(b.manager.usage(1000).0, paid);
    // Seven at most beside the one that is there, the last ones.
    assert_eq!(b.server.sets.interests(), 8);
    assert_eq!(ready(&mut b, set), [(0, poll::IN as u32)]);
    for fd in 1994..=2000 {
        assert_eq!(add(&mut b, fd), 1);
    }
    assert_eq!(ready(&mut b, set).len(), 8);
    assert_eq!(b.manager.usage(1000).0, paid);
    b.close(set);
    assert_eq!(b.server.sets.interests(), 0);
}

/// What is in a set, and what is reported, is what a set has that asks each file at each call, whatever is taken out, added again, and asked between.
#[test]
fn sets_report_what_files_are_ready_for() {
    const FILES: u64 = 12;
    let wishes = [poll::IN, poll::OUT, poll::IN | poll::OUT];
    for seed in 1..=300u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) % below
        };
        let mut b = bench();
        b.cold = false;
        let set = make(&mut b, &[event::SET]);
        let mut state_of = [0u64; FILES as usize];
        // What is wanted of each file, if it is in the set.
        let mut inside = [None; FILES as usize];
        // The files' server: interest and what it watches for.
        let mut watches: Vec<(u64, u64, u64)> = Vec::new();
        let mut known_ones = 0;
        for _ in 0..400 {
            let fd = random(FILES);
            let at = fd as usize;
            match random(6) {
                0 => {
                    state_of[at] = (random(2) * poll::IN) | (random(2) * poll::OUT);
                    watches.retain(|&(file, interest, wanted)| {
                        file != fd || tell(&mut b, interest, state_of[at] & wanted, 0) >= 0
                    });
                }
                1 if random(8) == 0 => watches.retain(|&(_, interest, _)| {
                    let ask = [event::ALIVE, interest, 0, 0, 0, 0, 0];
                    b.result(event::SERVER, &ask, b"") != 0
                }),
                2 | 3 => {
                    let wish = wishes[random(3) as usize];
                    let answer = ctl_by(&mut b, ME, set, 1, fd, wish);
                    assert_eq!(answer.is_err(), inside[at].is_some(), "seed {seed}");
                    let Ok((interest, known)) = answer else {
                        continue;
                    };
                    inside[at] = Some(wish);
                    known_ones += known;
                    if known == 0 {
                        watches.retain(|watch| watch.1 as u32 != interest as u32);
                        watches.push((fd, interest, wish));
                        tell(&mut b, interest, state_of[at] & wish, told::AGAIN);
                    }
                }
                _ => {
                    let answer = ctl(&mut b, set, 2, fd, 0);
                    assert_eq!(answer.is_ok(), inside[at].take().is_some());
                }
            }
            let mut found = ready(&mut b, set);
            found.sort();
            let expected = (0..FILES).filter_map(|fd| {
                let bits = state_of[fd as usize] & inside[fd as usize]?;
                (bits != 0).then_some((fd, bits as u32))
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "seed {seed}");
        }
        assert!(known_ones > 0, "seed {seed}");
    }
}

#[test]
fn sets_in_sets_and_signallers_do_not_rest() {
    let mut b = bench();
    let (outer, inner) = (make(&mut b, &[event::SET]), make(&mut b, &[event::SET]));
    let interest = ctl(&mut b, outer, 1, 3, poll::IN).unwrap();
    assert_eq!(b.result(inner, &[fs::WATCH, interest, poll::IN], b""), 0);
    ctl(&mut b, outer, 2, 3, 0).unwrap();
    // Now the other way round.
    let back = ctl(&mut b, inner, 1, 4, poll::IN).unwrap();
    assert_eq!(b.result(outer, &[fs::WATCH, back, poll::IN], b""), 0);
    let (set, interest) = signaller(&mut b, 40, 0);
    ctl(&mut b, set, 2, 5, 0).unwrap();
    let all = poll::IN | poll::OUT | poll::HUP | flags::EDGE;
    let (anew, known) = ctl_by(&mut b, ME, set, 1, 5, all).unwrap();
    assert!(anew != interest && known == 0);
}

#[test]
fn what_was_changed_and_not_told_does_not_rest() {
    let mut b = bench();
    let set = make(&mut b, &[event::SET]);
    let interest = ctl(&mut b, set, 1, 3, poll::IN).unwrap();
    tell(&mut b, interest, 0, told::AGAIN);
    ctl(&mut b, set, 3, 3, poll::OUT).unwrap();
    ctl(&mut b, set, 2, 3, 0).unwrap();
    assert_eq!(ctl_by(&mut b, ME, set, 1, 3, poll::OUT).unwrap().1, 0);
}

#[test]
fn a_context_is_a_text_that_its_holders_change() {
    let mut b = bench();
    b.label = cairn_idl::label::make(1000, 1000);
    let made = b.call(0, &[event::CONTEXT], b"tmpfs", 0).unwrap();
    let context = made.minted[0];
    let get = |b: &mut Bench<Events>| {
        let answer = b.call(context, &[event::CONTEXT_TEXT, 0], b"", 4096);
        let answer = answer.unwrap();
        (answer.bytes().to_vec(), answer.words[1])
    };
    let (text, version) = get(&mut b);
    assert_eq!(text, b"tmpfs");
    let set = |b: &mut Bench<Events>, version, text: &[u8]| {
        b.result(context, &[event::CONTEXT_TEXT, 1, version], text)
    };
    assert_eq!(set(&mut b, version, b"mode=755"), 0);
    // Of two who change the same version, the second one is told.
    assert_eq!(set(&mut b, version, b"mode=700"), -EAGAIN);
    assert_eq!(set(&mut b, version + 1, &[0; 4097]), -EINVAL);
    assert_eq!(get(&mut b), (b"mode=755".to_vec(), version + 1));
    let short = b.call(context, &[event::CONTEXT_TEXT, 0], b"", 3).unwrap();
    assert_eq!(short.result(), -ERANGE);
    assert_eq!(b.result(context, &[event::TIMER_GET], b""), -EINVAL);
    assert_eq!(b.result(0, &[event::CONTEXT_TEXT, 0], b""), -EINVAL);
    // No name leads on from it.
    assert_eq!(b.result(context, &[fs::OPEN, o::RDONLY], b"file"), -ENOTDIR);
    // Whoever made it pays until it is closed, and pays nothing for what was refused.
    let held = b.manager.usage(1000).0;
    assert!(held > 4096);
    assert_eq!(b.result(0, &[event::CONTEXT], &[0; 4097]), -EINVAL);
    assert_eq!(b.manager.usage(1000).0, held);
    b.close(context);
    assert_eq!((b.manager.usage(1000).0, b.server.contexts.count()), (0, 0));
}

#[test]
fn a_notifier_signals_what_changes_in_a_directory() {
    use event::changes;
    let mut b = bench();
    b.label = cairn_idl::label::make(1000, 1000);
    let owner = 1 << 32 | 77;
    let empty = b.manager.usage(1000).0;
    let notifier = make(&mut b, &[event::NOTIFIER, 40, owner, 5]);
    let add = |b: &mut Bench<Events>, changes, flags| {
        let words = [event::MARK, event::mark::ADD | flags, changes];
        let number = b.call(notifier, &words, b"", 0).unwrap().words[1];
        assert!(marked(b, number, 9) > 0);
        number
    };
    let signals = |b: &mut Bench<Events>| core::mem::take(&mut b.fake.signalled).len();
    let once = event::mark::ONESHOT;
    let number = add(&mut b, changes::CREATE, once);
    assert_eq!(notice(&mut b, number, 2, b"f"), 0);
    assert_eq!(signals(&mut b), 0);
    assert_eq!(notice(&mut b, number, 0x100, b"f"), -ESTALE);
    let sent = [5000, ME as u64, 40, 3, 5, 0x441, owner];
    assert_eq!(core::mem::take(&mut b.fake.signalled), [sent]);
    assert_eq!(notice(&mut b, number, 0x100, b"f"), -ESTALE);
    // A rename within: the same cookie goes and comes. What is asked for later is added.
    add(&mut b, changes::RENAME, 0);
    let number = add(&mut b, changes::MODIFY, once);
    for (events, count) in [
        (0x40 | 7 << 32, 0),
        (0x80 | 7 << 32, 1),
        (0x40 | 8 << 32, 0),
        (0x80 | 9 << 32, 0),
        (2, 1),
        (2, 1),
        (1, 0),
    ] {
        assert_eq!(notice(&mut b, number, events, b"f"), 0);
        assert_eq!(signals(&mut b), count, "{events:#x}");
    }
    let words = [event::NOTIFIER_OWNER, 41, owner];
    assert_eq!(b.result(notifier, &words, b""), 0);
    notice(&mut b, number, 2, b"f");
    assert_eq!(core::mem::take(&mut b.fake.signalled)[0][2], 41);
    assert_eq!(
        b.result(notifier, &[event::NOTIFIER_OWNER, 65], b""),
        -EINVAL
    );
    let words = [event::MARK, 1, changes::ACCESS];
    assert_eq!(b.result(notifier, &words, b""), -EINVAL);
    // Its marks end with it, or before.
    assert_eq!(b.result(notifier, &[event::UNMARK, 2], b""), 0);
    assert_eq!(notice(&mut b, number, 2, b"f"), -ESTALE);
    assert!(b.manager.usage(1000).0 > empty);
    b.close(notifier);
    assert_eq!(b.manager.usage(1000).0, empty);
    assert_eq!(
        (b.server.signallers.len(), b.server.queues.counts()),
        (0, (0, 0))
    );
}

/// A handle that only names an object does nothing with it, nor with the one that has its place later.
#[test]
fn names_of_objects_do_nothing() {
    let mut b = bench();
    let makers = [
        vec![event::SET],
        vec![event::TIMER, 0, 0],
        vec![event::SIGNALS, 1, 0],
        vec![event::QUEUE, 0],
    ];
    for words in makers {
        let object = make(&mut b, &words);
        let named = b.call(object, &[fs::OPEN, o::PATH, 0], b"", 0).unwrap();
        let again = b.call(object, &[fs::OPEN, o::RDWR, 0], b"", 0).unwrap();
        assert_eq!(
            (again.result(), named.minted.len()),
            (-ENXIO, 1),
            "{words:?}"
        );
        b.close(object);
        let other = make(&mut b, &words);
        for &name in &named.minted {
            for asked in [
                vec![event::CTL, 1 | 3 << 32, 7, poll::IN, 0],
                vec![event::WAIT, 1, 0],
                vec![event::TIMER_SET, 5, 0, 0],
                vec![event::TIMER_GET],
                vec![event::SIGNALS_MASK, 1, 2],
                vec![event::MARK, 1],
            ] {
                assert_eq!(b.result(name, &asked, b""), -EBADF, "{asked:?}");
            }
        }
        b.close(other);
        for name in named.minted {
            b.close(name);
        }
    }
}
