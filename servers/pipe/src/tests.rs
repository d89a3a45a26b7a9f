//! The server as its clients see it, through the framework's bench.

use crate::Pipes;
use cairn_idl::errno::*;
use cairn_idl::event;
use cairn_idl::fs::{self, o, poll, POSITION};
use cairn_idl::label;
use cairn_resmgr::fake::Bench;
use cairn_rt::Portal;

fn bench() -> Bench<Pipes> {
    Bench::new(Pipes::new(), b"pipe:")
}

fn pipe(bench: &mut Bench<Pipes>, flags: u64) -> (u64, u64) {
    let answer = bench.call(0, &[fs::PIPE, flags], b"", 0).unwrap();
    (answer.minted[0], answer.minted[1])
}

fn read(bench: &mut Bench<Pipes>, badge: u64, length: usize) -> Option<Result<Vec<u8>, i64>> {
    let answer = bench.call(badge, &[fs::READ, POSITION], b"", length)?;
    Some(if answer.result() < 0 {
        Err(answer.result())
    } else {
        Ok(answer.bytes().to_vec())
    })
}

fn write(bench: &mut Bench<Pipes>, badge: u64, bytes: &[u8]) -> i64 {
    bench.result(badge, &[fs::WRITE, POSITION], bytes)
}

#[test]
fn a_blocked_reader_gets_what_is_written() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let token = b.send(r, &[fs::READ, POSITION], b"", 100);
    assert_eq!(b.answer(token), None);
    assert_eq!(write(&mut b, w, b"x"), 1);
    assert_eq!(b.answer(token).unwrap().bytes(), b"x");
    assert_eq!(b.result(w, &[fs::READ, POSITION], b""), -EBADF);
    assert_eq!(b.result(r, &[fs::SEEK, 0, 0], b""), -ESPIPE);
    assert_eq!(b.result(r, &[fs::READ, 5], b""), -ESPIPE);
}

/// Of many readers that wait some run at a time: who comes meanwhile does not wait for all of them.
#[test]
fn many_readers_are_woken_in_pieces() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let (other, into) = pipe(&mut b, 0);
    let waiting: Vec<_> = (0..200)
        .map(|_| b.send(r, &[fs::READ, POSITION], b"", 1))
        .collect();
    b.in_pieces = true;
    assert_eq!(write(&mut b, w, &[7; 150]), 150);
    let answered = |b: &mut Bench<Pipes>| {
        let all = waiting.iter();
        all.filter(|&&token| b.answer(token).is_some()).count()
    };
    assert_eq!(answered(&mut b), 64);
    assert_eq!(write(&mut b, into, b"x"), 1);
    assert_eq!(read(&mut b, other, 1), Some(Ok(b"x".to_vec())));
    while b.go_on() {}
    let left = 150 - 64 - answered(&mut b);
    assert_eq!(left, 0);
    assert_eq!(b.manager.waiting_requests(), 50);
    // They are still in the order in which they came.
    assert_eq!(write(&mut b, w, b"y"), 1);
    assert!(b.answer(waiting[150]).is_some());
    while b.go_on() {}
    assert_eq!(b.manager.waiting_requests(), 49);
}

#[test]
fn portals_that_nobody_asked_for_are_closed() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let small = fs::INLINE | 1 << fs::INLINE_SHIFT;
    let mut closed = Vec::new();
    for (slot, words) in [
        (51, [fs::WRITE, POSITION, small]),
        (52, [fs::WRITE, POSITION, 0]),
        (53, [fs::READ, POSITION, small]),
        (54, [fs::READ, POSITION, small]),
        (55, [fs::STAT, 0, 0]),
        (56, [u64::MAX, 0, 0]),
    ] {
        let end = if words[0] == fs::WRITE { w } else { r };
        let words = [words[0], words[1], words[2], 0, 0, 0, 0, slot];
        b.send(end, &words, b"", 200);
        closed.push(Portal(slot as u32));
        assert_eq!(b.fake.closed, closed);
    }
}

#[test]
fn ends_of_pipes() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    assert_eq!(write(&mut b, w, b"rest"), 4);
    b.close(w);
    assert_eq!(read(&mut b, r, 10), Some(Ok(b"rest".to_vec())));
    assert_eq!(read(&mut b, r, 10), Some(Ok(vec![])));
    b.close(r);
    assert_eq!((b.server.objects(), b.manager.open_files()), (0, 0));

    let (r, w) = pipe(&mut b, 0);
    let waiting = b.send(r, &[fs::READ, POSITION], b"", 10);
    b.close(w);
    assert_eq!(b.answer(waiting).unwrap().result(), 0);
    b.close(r);

    let (r, w) = pipe(&mut b, 0);
    let waiting = b.send(w, &[fs::WRITE, POSITION], &[1; 70_000], 0);
    assert_eq!(b.answer(waiting), None);
    b.close(r);
    // Some of it went; the next write learns that nobody reads.
    assert_eq!(b.answer(waiting).unwrap().result(), 65536);
    assert_eq!(write(&mut b, w, b"x"), -EPIPE);
    b.close(w);
    assert_eq!((b.server.objects(), b.server.memory()), (0, 0));
}

#[test]
fn interrupted_and_dead_callers() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let token = b.send(r, &[fs::READ, POSITION], b"", 10);
    b.interrupt(token);
    assert_eq!(b.answer(token).unwrap().result(), -EINTR);
    let dead = b.send(r, &[fs::READ, POSITION], b"", 10);
    b.die(dead);
    assert_eq!(b.manager.waiting_requests(), 0);
    // What was written meanwhile is for the next reader.
    assert_eq!(write(&mut b, w, b"abc"), 3);
    assert_eq!(read(&mut b, r, 10), Some(Ok(b"abc".to_vec())));
    // A write that did something is not interrupted without saying so.
    let token = b.send(w, &[fs::WRITE, POSITION], &[7; 100_000], 0);
    b.interrupt(token);
    assert_eq!(b.answer(token).unwrap().result(), 65536);
}

#[test]
fn small_writes_stay_together_and_nonblocking_ones_do_not_wait() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, o::NONBLOCK);
    assert_eq!(read(&mut b, r, 10), Some(Err(-EAGAIN)));
    assert_eq!(write(&mut b, w, &[1; 65536 - 100]), 65536 - 100);
    assert_eq!(write(&mut b, w, &[2; 101]), -EAGAIN);
    assert_eq!(write(&mut b, w, &[2; 5000]), 100);
    assert_eq!(write(&mut b, w, &[2; 5000]), -EAGAIN);
    assert_eq!(b.result(w, &[fs::POLL, poll::OUT, 0], b""), 0);
    assert_eq!(read(&mut b, r, 4096).unwrap().unwrap().len(), 4096);
    assert_eq!(
        b.result(w, &[fs::POLL, poll::OUT, 0], b""),
        poll::OUT as i64
    );
    // Clearing O_NONBLOCK lets it wait again.
    assert_eq!(b.result(w, &[fs::SETFLAGS, 0], b""), 0);
    let blocked = b.send(w, &[fs::WRITE, POSITION], &[3; 4096 + 1], 0);
    assert_eq!(b.answer(blocked), None);
    assert!(read(&mut b, r, 10).unwrap().is_ok());
    assert_eq!(b.answer(blocked).unwrap().result(), 4097);
}

#[test]
fn poll_waits() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let waiting = b.send(r, &[fs::POLL, poll::IN, 1], b"", 0);
    assert_eq!(b.answer(waiting), None);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(b.answer(waiting).unwrap().result(), poll::IN as i64);
    assert!(read(&mut b, r, 10).is_some());
    b.close(w);
    assert_eq!(b.result(r, &[fs::POLL, poll::IN, 0], b""), poll::HUP as i64);
}

/// What the event server was told since the last look: interest, ready bits, how.
fn told(b: &mut Bench<Pipes>) -> Vec<(u64, u64, u64)> {
    let told = std::mem::take(&mut b.fake.told);
    let tell = |words: &[u64; 8]| (words[0] == event::TELL).then(|| (words[1], words[3], words[4]));
    told.iter().filter_map(tell).collect()
}

#[test]
fn the_event_server_is_told_of_changes() {
    const AGAIN: u64 = event::told::AGAIN;
    let mut b = bench();
    // (Bytes that are taken back are told of as new ones.)
    b.cold = false;
    let (r, w) = pipe(&mut b, 0);
    assert_eq!(b.result(r, &[fs::WATCH, 7, poll::IN], b""), 0);
    assert_eq!(told(&mut b), [(7, 0, AGAIN)]);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(told(&mut b), [(7, poll::IN, AGAIN)]);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(told(&mut b), [], "level: it is ready already");
    // The same interest again, now for edges.
    let wanted = poll::IN | event::flags::EDGE;
    assert_eq!(b.result(r, &[fs::WATCH, 7, wanted], b""), poll::IN as i64);
    told(&mut b);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(told(&mut b), [(7, poll::IN, AGAIN)]);
    assert!(read(&mut b, r, 1).is_some());
    assert_eq!(told(&mut b), [], "there is less to read");
    assert!(read(&mut b, r, 10).is_some());
    assert_eq!(told(&mut b), [(7, 0, 0)]);
    // Another interest in the place of this one, on the same handle and on another.
    let later = 1 << 32 | 7;
    assert_eq!(b.result(r, &[fs::WATCH, later, poll::IN], b""), 0);
    assert_eq!(told(&mut b), [(later, 0, AGAIN)]);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(told(&mut b), [(later, poll::IN, AGAIN)], "once");
    let last = 2 << 32 | 7;
    assert_eq!(
        b.result(w, &[fs::WATCH, last, poll::OUT], b""),
        poll::OUT as i64
    );
    assert_eq!(told(&mut b), [(last, poll::OUT, AGAIN)]);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert!(read(&mut b, r, 1).is_some());
    assert_eq!(told(&mut b), [], "nobody watches the reader");
    // Interests that are gone are forgotten, and the end of a handle is told.
    b.result(r, &[fs::WATCH, 8, poll::IN], b"");
    b.result(r, &[fs::WATCH, 9, poll::IN], b"");
    told(&mut b);
    b.fake.event_answer = -ESTALE;
    assert!(read(&mut b, r, 10).is_some());
    assert_eq!(told(&mut b).len(), 2);
    b.fake.event_answer = 0;
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(told(&mut b), []);
    b.result(r, &[fs::WATCH, 10, poll::IN], b"");
    told(&mut b);
    b.close(r);
    let ends = [
        (10, 0, event::told::GONE),
        (last, poll::OUT | poll::ERR, AGAIN),
    ];
    assert_eq!(told(&mut b), ends);
}

#[test]
fn one_exclusive_watcher_goes_on() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let wanted = poll::IN | event::flags::EXCLUSIVE;
    for interest in 1..=3 {
        b.result(r, &[fs::WATCH, interest, wanted], b"");
    }
    b.result(r, &[fs::WATCH, 4, poll::IN], b"");
    told(&mut b);
    b.fake.event_answer = 1;
    assert_eq!(write(&mut b, w, b"!"), 1);
    let mut all: Vec<u64> = told(&mut b).iter().map(|told| told.0).collect();
    all.retain(|interest| *interest != 4);
    assert_eq!(all.len(), 1, "one of three, beside the one that shares");
}

#[test]
fn interests_that_ended_silently_are_swept() {
    let mut b = bench();
    let (r, _) = pipe(&mut b, 0);
    // Nobody is alive: ALIVE is answered 0, as is TELL.
    for interest in 1..=5000 {
        assert_eq!(b.result(r, &[fs::WATCH, interest, poll::IN], b""), 0);
    }
    b.fake.told.clear();
    b.close(r);
    assert!(told(&mut b).len() < 600);
}

/// A pipe with so many watches of its reader, by numbers from `first` on.
fn watched(b: &mut Bench<Pipes>, first: u64, count: u64) -> (u64, u64) {
    // All interests are alive.
    b.fake.event_answer = 0x3f;
    let (r, w) = pipe(b, o::NONBLOCK);
    for interest in first..first + count {
        assert_eq!(b.result(r, &[fs::WATCH, interest, poll::IN], b""), 0);
    }
    told(b);
    (r, w)
}

#[test]
fn many_watches_are_told_in_pieces() {
    let mut b = bench();
    let (r, w) = watched(&mut b, 0, 5000);
    let (_, other) = watched(&mut b, 9000, 2);
    assert_eq!(write(&mut b, w, b"!"), 1);
    let mut all = told(&mut b);
    assert_eq!(all.len(), 1024);
    // Who comes meanwhile does not wait behind them.
    assert_eq!(write(&mut b, other, b"!"), 1);
    let mut others: Vec<u64> = told(&mut b).iter().map(|told| told.0).collect();
    others.sort();
    assert_eq!(others, [9000, 9001]);
    while b.background() {
        let some = told(&mut b);
        assert!(some.len() <= 256);
        all.extend(some);
    }
    all.sort();
    let each = |interest| (interest, poll::IN, event::told::AGAIN);
    assert!(all.into_iter().eq((0..5000).map(each)));
    // The same for the end of the handle.
    b.close(r);
    let mut all = told(&mut b);
    assert!(all.len() <= 2 * 256);
    while b.background() {
        let some = told(&mut b);
        assert!(some.len() <= 256);
        all.extend(some);
    }
    all.sort();
    let each = |interest| (interest, 0, event::told::GONE);
    assert!(all.into_iter().eq((0..5000).map(each)));
    // Without a thread for the rest nothing is left.
    b.fake.no_background = true;
    let (r, w) = watched(&mut b, 0, 5000);
    assert_eq!(write(&mut b, w, b"!"), 1);
    assert_eq!(told(&mut b).len(), 5000);
    b.close(r);
    assert_eq!(told(&mut b).len(), 5000);
}

#[test]
fn what_was_told_last_is_true() {
    const PIPES: usize = 4;
    let mut random = 1u64;
    let mut random = move |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    for _ in 0..8 {
        let mut b = bench();
        b.fake.event_answer = 0x3f;
        // Of each interest what the event server believes; none: its file is closed.
        let mut believed = std::collections::BTreeMap::new();
        let mut pipes = [None; PIPES];
        let mut interests = 0;
        for _ in 0..400 {
            let which = random(PIPES as u64) as usize;
            let (r, w) = *pipes[which].get_or_insert_with(|| {
                let made = pipe(&mut b, o::NONBLOCK);
                for _ in 0..random(3000) {
                    interests += 1;
                    b.result(made.0, &[fs::WATCH, interests, poll::IN], b"");
                }
                made
            });
            match random(16) {
                0 => {
                    b.close(r);
                    b.close(w);
                    pipes[which] = None;
                }
                1..=3 => {
                    interests += 1;
                    b.result(r, &[fs::WATCH, interests, poll::IN], b"");
                }
                4 => {
                    // An old place with a new interest.
                    let again = 1 + random(interests);
                    b.result(r, &[fs::WATCH, again, poll::IN], b"");
                }
                5..=9 => drop(write(&mut b, w, b"!")),
                10..=13 => drop(read(&mut b, r, 1000)),
                _ => drop(b.background()),
            }
            for (interest, ready, how) in told(&mut b) {
                believed.insert(interest, (how != event::told::GONE).then_some(ready));
            }
        }
        while b.background() {}
        for (interest, ready, how) in told(&mut b) {
            believed.insert(interest, (how != event::told::GONE).then_some(ready));
        }
        // What each says of itself when it is asked for again.
        let mut open = std::collections::BTreeMap::new();
        for (r, w) in pipes.into_iter().flatten() {
            let ready = b.result(r, &[fs::POLL, poll::IN, 0], b"").max(0) as u64;
            let before = b.fake.told.len();
            b.close(r);
            while b.background() {}
            for words in &b.fake.told[before..] {
                if (words[0], words[4]) == (event::TELL, event::told::GONE) {
                    open.insert(words[1], ready);
                }
            }
            b.close(w);
        }
        believed.retain(|_, ready| ready.is_some());
        let believed: Vec<_> = believed
            .into_iter()
            .map(|(i, ready)| (i, ready.unwrap()))
            .collect();
        assert!(!believed.is_empty());
        assert_eq!(believed, open.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn sizes_and_status() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    assert_eq!(b.result(r, &[fs::IOCTL, fs::GET_PIPE_SIZE], b""), 65536);
    assert_eq!(
        b.result(r, &[fs::IOCTL, fs::SET_PIPE_SIZE, 5000], b""),
        8192
    );
    assert_eq!(write(&mut b, w, &[1; 8192]), 8192);
    assert_eq!(
        b.result(r, &[fs::IOCTL, fs::SET_PIPE_SIZE, 4096], b""),
        -EBUSY
    );
    let answer = b.call(r, &[fs::IOCTL, 0x541b], b"", 4).unwrap();
    assert_eq!(answer.data, 8192u32.to_le_bytes());
    let stat = b.call(r, &[fs::STAT], b"", 144).unwrap();
    assert_eq!(stat.data[24..28], (0o010600u32).to_le_bytes());
    let path = b.call(r, &[fs::GETPATH], b"", 100).unwrap();
    assert_eq!(path.bytes(), b"pipe:[1]");
    // The whole content again after growing.
    assert_eq!(
        b.result(r, &[fs::IOCTL, fs::SET_PIPE_SIZE, 1 << 20], b""),
        1 << 20
    );
    assert_eq!(read(&mut b, r, 9000), Some(Ok(vec![1; 8192])));
    b.label = 1000;
    assert_eq!(
        b.result(r, &[fs::IOCTL, fs::SET_PIPE_SIZE, 2 << 20], b""),
        -EPERM
    );
}

/// What a file server gets for whom it let through to a FIFO's node.
fn fifo(b: &mut Bench<Pipes>, ino: u64, mode: u64, label: u64) -> u64 {
    let owner = 7 | 8 << 32;
    let words = [fs::FIFO, ino, 99, 0o010000 | mode, owner, label];
    b.call(0, &words, b"", 0).unwrap().minted[0]
}

fn open_by(b: &mut Bench<Pipes>, badge: u64, flags: u64) -> Result<u64, i64> {
    let answer = b.call(badge, &[fs::OPEN, flags], b"", 4096).unwrap();
    match answer.minted.first() {
        Some(&badge) => Ok(badge),
        None => Err(answer.result()),
    }
}

#[test]
fn fifos_wait_for_the_other_side() {
    let mut b = bench();
    let open = |flags| [fs::OPEN, flags];
    let f = fifo(&mut b, 55, 0o666, 0);
    assert_eq!(
        open_by(&mut b, f, o::WRONLY | o::NONBLOCK),
        Err(-ENXIO),
        "nobody reads"
    );
    let reader = b.send(f, &open(o::RDONLY), b"", 4096);
    assert_eq!(b.answer(reader), None);
    let w = open_by(&mut b, f, o::WRONLY).unwrap();
    let r = b.answer(reader).unwrap().minted[0];
    assert_eq!(write(&mut b, w, b"hello"), 5);
    assert_eq!(read(&mut b, r, 10), Some(Ok(b"hello".to_vec())));
    b.close(w);
    assert_eq!(read(&mut b, r, 10), Some(Ok(vec![])));
    b.close(r);

    // An opener that is interrupted or dies is no opener.
    let waiting = b.send(f, &open(o::WRONLY), b"", 4096);
    b.interrupt(waiting);
    assert_eq!(b.answer(waiting).unwrap().result(), -EINTR);
    let waiting = b.send(f, &open(o::WRONLY), b"", 4096);
    b.die(waiting);
    assert_eq!(
        open_by(&mut b, f, o::WRONLY | o::NONBLOCK),
        Err(-ENXIO),
        "nobody reads"
    );
    b.close(f);
    assert_eq!(b.server.objects(), 0);

    // The other side came and went: that counts.
    let f = fifo(&mut b, 7, 0o666, 0);
    let reader = b.send(f, &open(o::RDONLY), b"", 4096);
    let w = open_by(&mut b, f, o::WRONLY).unwrap();
    let r = b.answer(reader).unwrap().minted[0];
    let second = open_by(&mut b, f, o::RDONLY | o::NONBLOCK).unwrap();
    b.close(w);
    b.close(second);
    assert_eq!(read(&mut b, r, 1), Some(Ok(vec![])));
    let both = open_by(&mut b, f, o::RDWR).unwrap();
    b.close(f);
    assert_eq!(write(&mut b, both, b"self"), 4);
    assert_eq!(read(&mut b, both, 9), Some(Ok(b"self".to_vec())));
    b.close(both);
    b.close(r);
    assert_eq!((b.server.objects(), b.manager.open_files()), (0, 0));
}

#[test]
fn who_never_had_a_writer_has_lost_none() {
    let mut b = bench();
    let f = fifo(&mut b, 7, 0o666, 0);
    let ready = |b: &mut Bench<Pipes>, r| b.result(r, &[fs::POLL, poll::IN, 0], b"");
    let first = open_by(&mut b, f, o::RDONLY | o::NONBLOCK).unwrap();
    assert_eq!(ready(&mut b, first), 0);
    let w = open_by(&mut b, f, o::WRONLY).unwrap();
    b.close(w);
    assert_eq!(ready(&mut b, first), poll::HUP as i64);
    let late = open_by(&mut b, f, o::RDONLY | o::NONBLOCK).unwrap();
    assert_eq!(ready(&mut b, late), 0);
    // One that waited had a writer.
    let waiting = b.send(f, &[fs::OPEN, o::RDONLY], b"", 4096);
    let w = open_by(&mut b, f, o::WRONLY | o::NONBLOCK).unwrap();
    b.close(w);
    let third = b.answer(waiting).unwrap().minted[0];
    for r in [first, late, third] {
        assert_eq!(ready(&mut b, r), poll::HUP as i64);
        b.close(r);
    }
    b.close(f);
}

#[test]
fn a_fifo_is_its_file_servers_and_has_its_nodes_mode() {
    let mut b = bench();
    let user = label::make(1000, 1000);
    let first = fifo(&mut b, 5, 0o600, 0);
    let reader = open_by(&mut b, first, o::RDONLY | o::NONBLOCK).unwrap();
    let writer = open_by(&mut b, first, o::WRONLY).unwrap();
    assert_eq!(write(&mut b, writer, b"secret"), 6);
    // The same number at another file server, or by whoever says it, is another FIFO.
    b.sender = 2;
    let second = fifo(&mut b, 5, 0o666, user);
    let other = open_by(&mut b, second, o::RDONLY | o::NONBLOCK).unwrap();
    assert_eq!(read(&mut b, other, 9), Some(Ok(vec![])));
    b.sender = 3;
    b.label = user;
    let own = fifo(&mut b, 5, 0o666, 0);
    assert_eq!(open_by(&mut b, own, o::WRONLY | o::NONBLOCK), Err(-ENXIO));
    // No name leads to one.
    for name in [&b"5"[..], b"fifo:5", b"55"] {
        assert!(b
            .open(name, o::RDONLY | o::NONBLOCK, 0)
            .is_err_and(|e| e != -EIO));
    }
    // Who got the portal all the same is held to the node's mode, by an end of it as well.
    for badge in [first, reader] {
        for flags in [o::RDONLY, o::WRONLY, o::RDWR] {
            assert_eq!(open_by(&mut b, badge, flags | o::NONBLOCK), Err(-EACCES));
        }
    }
    // It is the node's owner that is told, and whose mode changed is so for all.
    (b.label, b.sender) = (0, 1);
    let again = fifo(&mut b, 5, 0o604, 0);
    b.label = user;
    let may = open_by(&mut b, first, o::RDONLY | o::NONBLOCK).unwrap();
    assert_eq!(open_by(&mut b, may, o::WRONLY | o::NONBLOCK), Err(-EACCES));
    for badge in [first, second, own, again, reader, writer, other, may] {
        b.close(badge);
    }
    assert_eq!((b.server.objects(), b.manager.open_files()), (0, 0));
}

#[test]
fn what_is_in_a_fifo_without_ends_is_gone() {
    let mut b = bench();
    let f = fifo(&mut b, 5, 0o600, 0);
    let both = open_by(&mut b, f, o::RDWR).unwrap();
    assert_eq!(write(&mut b, both, b"old"), 3);
    b.close(both);
    let both = open_by(&mut b, f, o::RDWR | o::NONBLOCK).unwrap();
    assert_eq!(read(&mut b, both, 9), Some(Err(-EAGAIN)));
    b.close(both);
    b.close(f);
    assert_eq!(b.server.memory(), 0);
}

#[test]
fn who_opens_a_fifo_pays_for_it() {
    let mut b = bench();
    let f = fifo(&mut b, 5, 0o666, label::make(1000, 1000));
    assert!(b.server.charged_to(1000) > 0);
    b.close(f);
    assert_eq!(b.server.charged_to(1000), 0);
}

#[test]
fn undelivered_ends_are_closed() {
    let mut b = bench();
    b.fake.no_slot = true;
    assert_eq!(b.result(0, &[fs::PIPE, 0], b""), -EMFILE);
    assert_eq!((b.server.objects(), b.manager.open_files()), (0, 0));
}

#[test]
fn event_counters() {
    let mut b = bench();
    let e = b.call(0, &[fs::EVENTFD, 2, 0], b"", 0).unwrap().minted[0];
    assert_eq!(write(&mut b, e, &5u64.to_le_bytes()), 8);
    assert_eq!(read(&mut b, e, 8), Some(Ok(7u64.to_le_bytes().to_vec())));
    assert_eq!(read(&mut b, e, 4), Some(Err(-EINVAL)));
    let waiting = b.send(e, &[fs::READ, POSITION], b"", 8);
    assert_eq!(write(&mut b, e, &(u64::MAX - 1).to_le_bytes()), 8);
    assert!(b.answer(waiting).is_some());
    assert_eq!(write(&mut b, e, &u64::MAX.to_le_bytes()), -EINVAL);
    b.close(e);
    let s = b.call(0, &[fs::EVENTFD, 2, 1], b"", 0).unwrap().minted[0];
    for _ in 0..2 {
        assert_eq!(read(&mut b, s, 8), Some(Ok(1u64.to_le_bytes().to_vec())));
    }
    let waiting = b.send(s, &[fs::READ, POSITION], b"", 8);
    assert_eq!(b.answer(waiting), None);
    b.close(s);
    assert_eq!(b.answer(waiting).unwrap().result(), -EBADF);
    assert_eq!(b.server.objects(), 0);
}

/// 64 MiB through a pipe, in pieces of random length on both sides, arrive as they were sent.
#[test]
fn a_long_stream_arrives_intact() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let mut random = 99u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % most + 1) as usize
    };
    const TOTAL: usize = 64 << 20;
    let byte = |at: usize| (at as u32).wrapping_mul(2654435761).to_le_bytes()[3];
    let (mut sent, mut got) = (0, 0);
    let mut writing: Option<(u64, usize)> = None;
    let mut buffer = Vec::new();
    while got < TOTAL {
        if let Some((token, length)) = writing {
            if let Some(answer) = b.answer(token) {
                assert_eq!(answer.result(), length as i64);
                writing = None;
            }
        }
        if writing.is_none() && sent < TOTAL {
            let length = next(100_000).min(TOTAL - sent);
            buffer.clear();
            buffer.extend((sent..sent + length).map(byte));
            let token = b.send(w, &[fs::WRITE, POSITION], &buffer, 0);
            writing = Some((token, length));
            sent += length;
        }
        let wish = next(90_000);
        let part = read(&mut b, r, wish).expect("there is something").unwrap();
        assert!(!part.is_empty());
        for (index, &value) in part.iter().enumerate() {
            assert_eq!(value, byte(got + index), "byte {}", got + index);
        }
        got += part.len();
    }
    assert_eq!(sent, TOTAL);
}

#[test]
fn small_data_travels_in_words() {
    let mut b = bench();
    let (r, w) = pipe(&mut b, 0);
    let inline = |len: u64| fs::INLINE | len << fs::INLINE_SHIFT;
    let word = u64::from_le_bytes(*b"abcdefgh");
    // Pieces that do not divide the ring: some reads go round its end.
    for round in 0..20_000u64 {
        let sent = [word ^ round, round];
        let request = [fs::WRITE, POSITION, inline(13), sent[0], sent[1]];
        assert_eq!(b.result(w, &request, b""), 13);
        let answer = b
            .call(r, &[fs::READ, POSITION, inline(40)], b"", 0)
            .unwrap();
        assert_eq!(answer.result(), 13);
        assert_eq!(answer.words[3..5], [sent[0], sent[1] & 0xff_ffff_ffff]);
    }
    // A waiting reader, and a length that says more than words can hold.
    let waiting = b.send(r, &[fs::READ, POSITION, inline(1)], b"", 0);
    assert_eq!(
        b.result(w, &[fs::WRITE, POSITION, inline(63), word], b""),
        40
    );
    let answer = b.answer(waiting).unwrap();
    assert_eq!((answer.words[0], answer.words[3]), (1, b'a' as u64));
    assert_eq!(read(&mut b, r, 7), Some(Ok(b"bcdefgh".to_vec())));
}

/// The direct way and the ordinary one, mixed, against a queue: pieces of all sizes with both kinds of data, in a pipe that is often full or empty.
#[test]
fn both_ways_do_the_same() {
    const CAPACITY: usize = 4096;
    let inline = |len: usize| fs::INLINE | (len as u64) << fs::INLINE_SHIFT;
    let mut b = bench();
    for (r, w, capacity) in [{
        let (r, w) = pipe(&mut b, o::NONBLOCK);
        let size = [fs::IOCTL, fs::SET_PIPE_SIZE, CAPACITY as u64];
        assert_eq!(b.result(r, &size, b""), CAPACITY as i64);
        (r, w, CAPACITY)
    }] {
        let mut model = std::collections::VecDeque::new();
        let (mut seed, mut next) = (1u64, 0u8);
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for round in 0..30_000 {
            let (small, writes) = (random(2) == 0, random(5) + round / 3000 % 3 >= 3);
            let length = 1 + random(if small { 40 } else { 300 });
            if writes {
                let bytes: Vec<u8> = (0..length).map(|i| next.wrapping_add(i as u8)).collect();
                let mut words = [fs::WRITE, POSITION, 0, 0, 0, 0, 0, 0];
                let done = if small {
                    words[2] = inline(length);
                    for (word, bytes) in words[3..].iter_mut().zip(bytes.chunks(8)) {
                        *word = bytes.iter().rev().fold(0, |w, b| w << 8 | *b as u64);
                    }
                    b.result(w, &words, b"")
                } else {
                    b.result(w, &words, &bytes)
                };
                let room = capacity - model.len();
                let expected = match room {
                    _ if room >= length => length as i64,
                    _ => -EAGAIN,
                };
                assert_eq!(done, expected);
                model.extend(&bytes[..done.max(0) as usize]);
                next = next.wrapping_add(done.max(0) as u8);
            } else {
                let words = [fs::READ, POSITION, if small { inline(length) } else { 0 }];
                let answer = b.call(r, &words, b"", length).unwrap();
                let expected: Vec<u8> = model.drain(..length.min(model.len())).collect();
                if expected.is_empty() {
                    assert_eq!(answer.result(), -EAGAIN);
                } else if small {
                    let data: Vec<u8> = answer.words[3..]
                        .iter()
                        .flat_map(|w| w.to_le_bytes())
                        .collect();
                    assert_eq!(answer.result() as usize, expected.len());
                    assert_eq!(data[..expected.len()], expected);
                } else {
                    assert_eq!(answer.bytes(), expected);
                }
            }
        }
    }
    // The last reader goes: no way leads anywhere.
    let (r, w) = pipe(&mut b, 0);
    b.close(r);
    assert_eq!(b.result(w, &[fs::WRITE, POSITION, inline(1)], b""), -EPIPE);
    // Several wait in order; what is left over waits for the next.
    let (r, w) = pipe(&mut b, 0);
    let waiting: Vec<_> = (0..3)
        .map(|_| b.send(r, &[fs::READ, POSITION, inline(2)], b"", 0))
        .collect();
    let sent = u64::from_le_bytes(*b"abc\0\0\0\0\0");
    assert_eq!(b.result(w, &[fs::WRITE, POSITION, inline(3), sent], b""), 3);
    let words = |b: &mut Bench<Pipes>, token| b.answer(token).map(|a| (a.words[0], a.words[3]));
    assert_eq!(words(&mut b, waiting[0]), Some((2, 0x6261)));
    assert_eq!(words(&mut b, waiting[1]), Some((1, 0x63)));
    assert_eq!(words(&mut b, waiting[2]), None);
    b.close(w);
    assert_eq!(words(&mut b, waiting[2]).map(|w| w.0), Some(0));
}

const USER: u32 = 1000;
const OTHER: u32 = 1001;

fn become_user(b: &mut Bench<Pipes>, uid: u32) {
    b.label = cairn_idl::label::make(uid, uid);
}

fn size(b: &mut Bench<Pipes>, badge: u64) -> i64 {
    b.result(badge, &[fs::IOCTL, fs::GET_PIPE_SIZE, 0], b"")
}

fn set_size(b: &mut Bench<Pipes>, badge: u64, size: u64) -> i64 {
    b.result(badge, &[fs::IOCTL, fs::SET_PIPE_SIZE, size], b"")
}

#[test]
fn who_has_many_pipes_has_small_ones() {
    let mut b = bench();
    become_user(&mut b, USER);
    let mut ends: Vec<(u64, u64)> = (0..1024).map(|_| pipe(&mut b, 0)).collect();
    assert_eq!(size(&mut b, ends[1023].1), 65536);
    ends.push(pipe(&mut b, 0));
    let (first, last) = (ends[0].1, ends[1024].1);
    assert_eq!(size(&mut b, last), 8192);
    assert_eq!(b.server.capacity_of(USER), 16386);
    // None of them gets larger, each may get smaller.
    assert_eq!(set_size(&mut b, first, 1 << 17), -EPERM);
    assert_eq!(set_size(&mut b, last, 8193), -EPERM);
    assert_eq!(set_size(&mut b, last, 4096), 4096);
    assert_eq!(set_size(&mut b, first, 4096), 4096);
    assert_eq!(set_size(&mut b, first, 65536), -EPERM);
    assert_eq!(set_size(&mut b, first, 32768), 32768);
    // Another user's pipes are as ever, and user 0's have no limit.
    become_user(&mut b, OTHER);
    let (r, w) = pipe(&mut b, 0);
    assert_eq!(size(&mut b, w), 65536);
    b.close(r);
    b.close(w);
    become_user(&mut b, 0);
    ends.extend((0..1100).map(|_| pipe(&mut b, 0)));
    assert_eq!(size(&mut b, ends[2100].0), 65536);
    assert_eq!(set_size(&mut b, ends[2100].0, 1 << 20), 1 << 20);
    for (r, w) in ends {
        b.close(r);
        b.close(w);
    }
    assert_eq!((b.server.objects(), b.server.capacity_of(USER)), (0, 0));
}

#[test]
fn what_a_pipe_holds_is_its_makers() {
    let mut b = bench();
    b.fake.charge_limit = Some(64);
    become_user(&mut b, USER);
    let (r, w) = pipe(&mut b, o::NONBLOCK);
    assert_eq!(set_size(&mut b, w, 1 << 20), 1 << 20);
    // The user has no more than 64 pages: some of what was to be written is taken, and then nothing.
    let mut taken = 0;
    let refused = loop {
        match write(&mut b, w, &[7; 65536]) {
            count if count > 0 => taken += count,
            refused => break refused,
        }
    };
    assert_eq!(refused, -ENOMEM);
    assert!((100_000..=64 * 4096).contains(&taken), "{taken}");
    // Whoever writes to it: the pipe is the user's.
    become_user(&mut b, 0);
    assert_eq!(write(&mut b, w, &[7; 65536]), -ENOMEM);
    let (r0, w0) = pipe(&mut b, o::NONBLOCK);
    become_user(&mut b, USER);
    assert_eq!(write(&mut b, w0, &[7; 65536]), 65536);
    // And when it is read there is room again.
    assert_eq!(read(&mut b, r, 65536).unwrap().unwrap().len(), 65536);
    assert_eq!(write(&mut b, w, &[7; 30000]), 30000);
    for badge in [r, w, r0, w0] {
        b.close(badge);
    }
    assert_eq!(b.manager.usage(USER).0, 0);
}

#[test]
fn reads_in_vain_leave_nothing_behind() {
    let mut b = bench();
    let crowd: Vec<(u64, u64)> = (0..80).map(|_| pipe(&mut b, 0)).collect();
    for &(_, w) in &crowd {
        assert_eq!(write(&mut b, w, &[1; 65536]), 65536);
    }
    let (r, _w) = pipe(&mut b, o::NONBLOCK);
    let (s, _x) = pipe(&mut b, o::NONBLOCK);
    for _ in 0..1000 {
        assert_eq!(read(&mut b, r, 100), Some(Err(-EAGAIN)));
        assert_eq!(read(&mut b, s, 100), Some(Err(-EAGAIN)));
    }
    assert!(b.server.to_trim() <= 2);
}

/// Whatever is done, in any order and with refusals in between: each user is charged for what there is of his, and for nothing when it is gone.
#[test]
fn charges_and_refunds_are_even() {
    let mut random = 4242u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % most
    };
    let mut b = bench();
    let mut ends: Vec<u64> = Vec::new();
    for step in 0..60_000u64 {
        let uid = [0, USER, OTHER][next(3) as usize];
        become_user(&mut b, uid);
        b.fake.charge_limit = [None, Some(40), Some(400), Some(0)][(step / 500 % 4) as usize];
        let end = match ends.len() as u64 {
            0 => 0,
            count => ends[next(count) as usize],
        };
        let many = step / 7000 % 2 == 0;
        match next(14) {
            0 | 1 if many || ends.len() < 20 => {
                let answer = b.call(0, &[fs::PIPE, o::NONBLOCK], b"", 0).unwrap();
                assert!(answer.result() == 0 || uid != 0);
                ends.extend(answer.minted);
            }
            2 => {
                b.fake.no_slot = true;
                let answer = b.call(0, &[fs::PIPE, 0], b"", 0).unwrap();
                assert!(answer.result() < 0);
                b.fake.no_slot = false;
            }
            3 => ends.extend(b.call(0, &[fs::EVENTFD, 1, 0], b"", 0).unwrap().minted),
            4 => {
                let name = [b'1', b'0' + next(10) as u8];
                let flags = o::NONBLOCK | [o::RDONLY, o::WRONLY, o::RDWR][next(3) as usize];
                ends.extend(b.open(&name, flags, 0));
            }
            5 => {
                // A FIFO's opener waits and is interrupted or dies.
                let token = b.send(0, &[fs::OPEN, o::RDONLY], &[b'2', b'0' + next(3) as u8], 0);
                match (b.answer(token), step % 2) {
                    (Some(answer), _) => ends.extend(answer.minted),
                    (None, 0) => b.interrupt(token),
                    (None, _) => b.die(token),
                }
            }
            6 => drop(set_size(&mut b, end, 1 << (10 + next(11)))),
            7..=9 => {
                // What waits is given up.
                let token = b.send(
                    end,
                    &[fs::WRITE, POSITION],
                    &vec![1; next(90_000) as usize],
                    0,
                );
                if b.answer(token).is_none() {
                    b.interrupt(token);
                }
            }
            10 => {
                b.fake.unreadable = true;
                write(&mut b, end, &[1; 30_000]);
                b.fake.unreadable = false;
            }
            11 => {
                let token = b.send(end, &[fs::READ, POSITION], b"", next(90_000) as usize);
                if b.answer(token).is_none() {
                    b.die(token);
                }
            }
            _ if !ends.is_empty() => {
                for _ in 0..if many { 1 } else { 4 } {
                    let at = next(ends.len().max(1) as u64) as usize;
                    if at < ends.len() {
                        b.close(ends.swap_remove(at));
                    }
                }
            }
            _ => {}
        }
        if step % 64 == 0 {
            for uid in [USER, OTHER] {
                assert_eq!(
                    b.manager.usage(uid).0,
                    b.server.charged_to(uid) + b.manager.usage_of_handles(uid),
                    "step {step}"
                );
                assert_eq!(
                    b.manager.usage(uid).1,
                    b.fake.charged.get(&uid).map_or(0, |&pages| pages as u64)
                );
            }
        }
    }
    ends.into_iter().for_each(|end| b.close(end));
    for uid in [USER, OTHER] {
        assert_eq!((b.manager.usage(uid).0, b.server.capacity_of(uid)), (0, 0));
        assert!(b.manager.usage(uid).1 <= 32, "pages that nobody uses");
    }
    assert_eq!((b.server.objects(), b.server.memory()), (0, 0));
}

#[test]
fn an_event_tells_its_count_and_keeps_it() {
    let mut b = bench();
    let answer = b.call(0, &[fs::EVENTFD, 7, 0], b"", 0).unwrap();
    let event = answer.minted[0];
    let asked = [fs::IOCTL, fs::EVENT_COUNT, 0];
    for _ in 0..2 {
        assert_eq!(b.call(event, &asked, b"", 0).unwrap().words[..2], [0, 7]);
    }
    let (r, _) = pipe(&mut b, 0);
    assert_eq!(b.result(r, &asked, b""), -ENOTTY);
}

/// Mode and owner of a pipe are its own to change, by its owner; what its maker may have as capacity stays the maker's.
#[test]
fn a_pipe_is_given_away() {
    let mut b = bench();
    become_user(&mut b, 5);
    let (r, w) = pipe(&mut b, 0);
    let told = |b: &mut Bench<Pipes>, badge| {
        let answer = b.call(badge, &[fs::STAT, 0], b"", 144).unwrap();
        let word = |at: usize| u32::from_ne_bytes(answer.data[at..at + 4].try_into().unwrap());
        [word(24), word(28), word(32)]
    };
    assert_eq!(told(&mut b, r), [0o10600, 5, 5]);
    assert_eq!(b.result(w, &[fs::CHMOD, 0o640, 0], b""), 0);
    assert_eq!(b.result(w, &[fs::CHOWN, 6, 6, 0], b""), -EPERM);
    become_user(&mut b, 7);
    assert_eq!(b.result(w, &[fs::CHMOD, 0o666, 0], b""), -EPERM);
    become_user(&mut b, 0);
    assert_eq!(b.result(r, &[fs::CHOWN, 6, 8, 0], b""), 0);
    assert_eq!(told(&mut b, w), [0o10640, 6, 8]);
    assert_eq!(b.result(r, &[fs::UTIMENS, 1, 2, 3, 4, 0], b""), 0);
    let answer = b.call(w, &[fs::STAT, 0], b"", 144).unwrap();
    let word = |at: usize| u64::from_ne_bytes(answer.data[at..at + 8].try_into().unwrap());
    assert_eq!([72, 80, 88, 96].map(word), [1, 2, 3, 4]);
    become_user(&mut b, 7);
    assert_eq!(b.result(r, &[fs::UTIMENS, 1, 2, 3, 4, 0], b""), -EPERM);
    assert_eq!(b.server.capacity_of(6), 0);
    assert_ne!(b.server.capacity_of(5), 0);
}
