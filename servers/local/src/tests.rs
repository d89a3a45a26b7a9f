//! Sockets on the bench: what programs see, and what the server keeps.

use crate::Sockets;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, poll, INLINE, INLINE_SHIFT, POSITION};
use cairn_idl::local::{self, msg, with, DATAGRAM, SEQPACKET, STREAM};
use cairn_resmgr::fake::{Answer, Bench};
use cairn_rt::Portal;
use std::collections::VecDeque;

const RECEIVE: u64 = local::RECEIVE;
const SEND: u64 = local::SEND;

fn bench() -> Bench<Sockets> {
    let mut b = Bench::new(Sockets::new(Some(Portal(9))), b"local:");
    // A domain's process has its number and 100.
    b.fake.service = Some(Box::new(|_, words| match words[0] {
        cairn_idl::proc::IDS_OF => [words[1] + 100, 0, 0, 0, 0, 0, 0, 0],
        _ => [-ESRCH as u64, 0, 0, 0, 0, 0, 0, 0],
    }));
    b.label = 1000 | 1000 << 32;
    b
}

fn pair(b: &mut Bench<Sockets>, kind: u64) -> (u64, u64) {
    let answer = b.call(0, &[local::PAIR, kind, 0], b"", 0).unwrap();
    (answer.minted[0], answer.minted[1])
}

fn socket(b: &mut Bench<Sockets>, kind: u64, flags: u64) -> u64 {
    b.call(0, &[local::SOCKET, kind, flags], b"", 0)
        .unwrap()
        .minted[0]
}

fn write(b: &mut Bench<Sockets>, badge: u64, bytes: &[u8]) -> i64 {
    b.result(badge, &[fs::WRITE, POSITION], bytes)
}

fn read(b: &mut Bench<Sockets>, badge: u64, length: usize) -> Result<Vec<u8>, i64> {
    let answer = b
        .call(badge, &[fs::READ, POSITION, 8], b"", length)
        .unwrap();
    match answer.result() {
        0.. => Ok(answer.bytes().to_vec()),
        error => Err(error),
    }
}

/// Send with portals in these slots.
fn send(b: &mut Bench<Sockets>, badge: u64, bytes: &[u8], slots: &[u64], flags: u64) -> i64 {
    let mut words = [SEND, flags | msg::DONTWAIT, 0, 0, 0, 0, 0, 0];
    words[8 - slots.len()..].copy_from_slice(slots);
    b.fake.pass = Some(slots.len());
    b.result(badge, &words, bytes)
}

fn receive(b: &mut Bench<Sockets>, badge: u64, length: usize, flags: u64) -> Answer {
    let words = [RECEIVE, flags | msg::DONTWAIT, 253, 253];
    b.call(badge, &words, b"", length).unwrap()
}

fn one_of(b: &mut Bench<Sockets>, badge: u64, operation: u64, name: &[u8]) -> i64 {
    b.result(badge, &[operation], name)
}

/// The slot of a portal with this badge, as the nucleus would give it to the server.
fn slot(b: &mut Bench<Sockets>, badge: u64) -> u64 {
    let last = b.fake.own.last_key_value().map_or(0, |(slot, _)| *slot);
    let slot = last.max(2000) + 1;
    b.fake.own.insert(slot, badge);
    u64::from(slot)
}

/// A listening socket with this abstract name, and a portal to its address.
fn listener(b: &mut Bench<Sockets>, name: &[u8], backlog: u64) -> u64 {
    let l = socket(b, STREAM, 0);
    assert_eq!(one_of(b, l, local::BIND, name), 0);
    assert_eq!(b.result(l, &[local::LISTEN, backlog], b""), 0);
    l
}

fn connect(b: &mut Bench<Sockets>, badge: u64, kind: u64, name: &[u8]) -> Option<i64> {
    let answer = b.call(0, &[local::RESOLVE, kind], name, 0).unwrap();
    if answer.result() != 0 {
        return Some(answer.result());
    }
    let address = slot(b, answer.minted[0]);
    let token = b.send(badge, &[local::CONNECT, 0, 0, 0, 0, 0, 0, address], b"", 0);
    b.answer(token).map(|answer| answer.result())
}

#[test]
fn streams_are_bytes_in_order() {
    let mut b = bench();
    let (x, y) = pair(&mut b, STREAM);
    assert_eq!(write(&mut b, x, b"ping"), 4);
    assert_eq!(write(&mut b, x, b"pong"), 4);
    assert_eq!(receive(&mut b, y, 6, msg::PEEK).bytes(), b"pingpo");
    assert_eq!(read(&mut b, y, 100).unwrap(), b"pingpong");
    assert_eq!(read(&mut b, y, 100), Err(-EAGAIN));
    let waiting = b.send(x, &[fs::READ, POSITION], b"", 10);
    assert_eq!(write(&mut b, y, b"back"), 4);
    assert_eq!(b.answer(waiting).unwrap().bytes(), b"back");
    assert_eq!(b.result(x, &[local::SHUTDOWN, 1], b""), 0);
    assert_eq!(write(&mut b, x, b"no"), -EPIPE);
    assert_eq!(read(&mut b, y, 10).unwrap(), b"");
    assert_eq!(write(&mut b, y, b"yes"), 3);
    b.close(y);
    assert_eq!(read(&mut b, x, 10).unwrap(), b"yes");
    assert_eq!(read(&mut b, x, 10).unwrap(), b"");
    assert_eq!(write(&mut b, x, b"x"), -EPIPE);
    b.close(x);
    assert_eq!((b.server.count(), b.server.memory()), (0, 0));
}

#[test]
fn messages_keep_their_ends() {
    for kind in [DATAGRAM, SEQPACKET] {
        let mut b = bench();
        let (x, y) = pair(&mut b, kind);
        for message in [&b"first"[..], b"", b"second"] {
            assert_eq!(write(&mut b, x, message), message.len() as i64);
        }
        let cut = receive(&mut b, y, 3, 0);
        assert_eq!((cut.result(), cut.words[1]), (3, msg::TRUNC));
        assert_eq!(receive(&mut b, y, 3, 0).result(), 0);
        assert_eq!(receive(&mut b, y, 3, msg::TRUNC | msg::PEEK).result(), 6);
        assert_eq!(read(&mut b, y, 100).unwrap(), b"second");
        assert_eq!(write(&mut b, x, &[0; 213_000]), -EMSGSIZE);
        // The sender's buffer is full, not the receiver's memory.
        let mut sent = 0;
        while send(&mut b, x, &[7; 50_000], &[], 0) == 50_000 {
            sent += 1;
        }
        assert_eq!(sent, 4);
        let waiting = b.send(x, &[fs::WRITE, POSITION], &[8; 50_000], 0);
        assert_eq!(b.answer(waiting), None);
        assert_eq!(read(&mut b, y, 100_000).unwrap().len(), 50_000);
        assert_eq!(b.answer(waiting).unwrap().result(), 50_000);
        b.close(y);
        let end = if kind == DATAGRAM {
            ECONNREFUSED
        } else {
            EPIPE
        };
        assert_eq!(write(&mut b, x, b"x"), -end);
        b.close(x);
        assert_eq!((b.server.count(), b.server.memory()), (0, 0));
    }
}

#[test]
fn connections_wait_to_be_accepted() {
    let mut b = bench();
    let l = listener(&mut b, b"l", 1);
    let clients: Vec<u64> = (0..3)
        .map(|_| socket(&mut b, STREAM, o::NONBLOCK))
        .collect();
    assert_eq!(connect(&mut b, clients[0], STREAM, b"l"), Some(0));
    assert_eq!(connect(&mut b, clients[0], STREAM, b"l"), Some(-EISCONN));
    assert_eq!(connect(&mut b, clients[1], STREAM, b"l"), Some(0));
    assert_eq!(connect(&mut b, clients[2], STREAM, b"l"), Some(-EAGAIN));
    assert_eq!(
        connect(&mut b, clients[2], DATAGRAM, b"l"),
        Some(-ECONNREFUSED)
    );
    assert_eq!(write(&mut b, clients[0], b"early"), 5);
    // One that may wait does.
    let patient = socket(&mut b, STREAM, 0);
    assert_eq!(connect(&mut b, patient, STREAM, b"l"), None);
    b.sender = 7;
    let far = b.call(l, &[local::ACCEPT], b"", 0).unwrap().minted[0];
    assert_eq!(read(&mut b, far, 10).unwrap(), b"early");
    let who = b.call(far, &[local::GET_OPTION, 17], b"", 0).unwrap();
    assert_eq!(who.words[1..3], [101, 1000 | 1000 << 32]);
    assert_eq!(b.result(clients[2], &[local::NAME, 1], b""), -ENOTCONN);
    let name = b.call(clients[0], &[local::NAME, 1], b"", 109).unwrap();
    assert_eq!(name.bytes(), b"\0l");
    // The listener goes: who was not accepted has lost the connection.
    b.close(l);
    assert_eq!(read(&mut b, clients[1], 1), Err(-ECONNRESET));
    assert_eq!(read(&mut b, clients[1], 1), Ok(vec![]));
    assert_eq!(write(&mut b, far, b"still"), 5);
    assert_eq!(
        connect(&mut b, clients[2], STREAM, b"l"),
        Some(-ECONNREFUSED)
    );
    for badge in clients.into_iter().chain([far, patient]) {
        b.close(badge);
    }
    assert_eq!((b.server.count(), b.server.memory()), (0, 0));
}

/// The listener goes with 300 connections that nobody accepted: some are lost at once, the others in the background, and nothing is left in the end.
#[test]
fn many_that_were_not_accepted_end_in_pieces() {
    for room in [true, false] {
        let mut b = bench();
        b.fake.no_background = !room;
        let l = listener(&mut b, b"l", 300);
        let clients: Vec<u64> = (0..300).map(|_| socket(&mut b, STREAM, 0)).collect();
        for &client in &clients {
            assert_eq!(connect(&mut b, client, STREAM, b"l"), Some(0));
            assert_eq!(write(&mut b, client, b"early"), 5);
        }
        b.close(l);
        let count = b.server.count();
        assert_eq!(count, if room { 300 + 1 + 300 - 64 } else { 300 });
        // Its name is free at once.
        let l = listener(&mut b, b"l", 1);
        assert_eq!(read(&mut b, clients[0], 1), Err(-ECONNRESET));
        while b.background() {}
        assert_eq!(b.server.count(), 300 + 1);
        assert_eq!(read(&mut b, clients[299], 1), Err(-ECONNRESET));
        for badge in clients.into_iter().chain([l]) {
            b.close(badge);
        }
        assert_eq!((b.server.count(), b.server.memory()), (0, 0));
    }
}

/// An address is whatever the nucleus says that leads here; numbers, other portals and old addresses are not.
#[test]
fn nobody_says_an_address() {
    let mut b = bench();
    let l = socket(&mut b, STREAM, 0);
    let answer = b.call(l, &[local::BIND_PATH], b"/tmp/x", 0).unwrap();
    let address = answer.minted[0];
    assert_eq!(b.result(l, &[local::LISTEN, 5], b""), 0);
    let c = socket(&mut b, STREAM, 0);
    let by = |b: &mut Bench<Sockets>, slot: u64| {
        b.result(c, &[local::CONNECT, 0, 0, 0, 0, 0, 0, slot], b"")
    };
    let handle = slot(&mut b, l);
    let other = slot(&mut b, address + 1);
    let mount = slot(&mut b, 0);
    for wrong in [address, 77, handle, other, mount] {
        assert_eq!(by(&mut b, wrong), -ECONNREFUSED);
        assert!(b.fake.closed.contains(&Portal(wrong as u32)));
    }
    let right = slot(&mut b, address);
    assert_eq!(by(&mut b, right), 0);
    // The socket goes; its number may be another's, its address is not.
    b.close(l);
    let next = listener(&mut b, b"next", 5);
    let stale = slot(&mut b, address);
    let d = socket(&mut b, STREAM, 0);
    let words = [local::CONNECT, 0, 0, 0, 0, 0, 0, stale];
    assert_eq!(b.result(d, &words, b""), -ECONNREFUSED);
    b.close(address);
    for badge in [c, d, next] {
        b.close(badge);
    }
    assert_eq!(b.server.count(), 0);
}

#[test]
fn datagrams_by_address() {
    let mut b = bench();
    let r = socket(&mut b, DATAGRAM, 0);
    assert_eq!(one_of(&mut b, r, local::BIND, b"r"), 0);
    let s = socket(&mut b, DATAGRAM, 0);
    assert_eq!(one_of(&mut b, s, local::BIND, b"r"), -EADDRINUSE);
    assert_eq!(one_of(&mut b, s, local::BIND, b""), 0);
    assert_eq!(write(&mut b, s, b"x"), -ENOTCONN);
    let address = b
        .call(0, &[local::RESOLVE, DATAGRAM], b"r", 0)
        .unwrap()
        .minted[0];
    for _ in 0..11 {
        let to = slot(&mut b, address);
        assert_eq!(send(&mut b, s, b"hi", &[to], with::ADDRESS), 2);
    }
    let to = slot(&mut b, address);
    assert_eq!(send(&mut b, s, b"hi", &[to], with::ADDRESS), -EAGAIN);
    let answer = b
        .call(r, &[RECEIVE, with::NAME, 0, 0], b"", 109 + 50)
        .unwrap();
    assert_eq!(
        (answer.result(), answer.words[1], answer.words[3]),
        (2, with::NAME, 6 << 32)
    );
    assert_eq!(&answer.data[..6], b"\x0000001");
    assert_eq!(&answer.data[109..111], b"hi");
    // Who is connected takes nothing of others.
    assert_eq!(connect(&mut b, r, DATAGRAM, b"00001"), Some(0));
    let third = socket(&mut b, DATAGRAM, 0);
    let to = slot(&mut b, address);
    assert_eq!(send(&mut b, third, b"no", &[to], with::ADDRESS), -EPERM);
    assert_eq!(connect(&mut b, third, DATAGRAM, b"r"), Some(-EPERM));
}

#[test]
fn descriptors_stay_with_their_bytes() {
    let mut b = bench();
    let (x, y) = pair(&mut b, STREAM);
    assert_eq!(write(&mut b, x, b"ab"), 2);
    assert_eq!(send(&mut b, x, b"cd", &[31, 32], 0), 2);
    assert_eq!(write(&mut b, x, b"ef"), 2);
    assert_eq!(send(&mut b, x, b"gh", &[33], 0), 2);
    assert_eq!(b.server.descriptors_in_flight(1000), 3);
    let peeked = receive(&mut b, y, 100, msg::PEEK);
    assert_eq!(
        (peeked.bytes(), &peeked.passed[..]),
        (&b"abcd"[..], &[31, 32][..])
    );
    let first = receive(&mut b, y, 3, 0);
    assert_eq!(
        (first.bytes(), &first.passed[..]),
        (&b"abc"[..], &[31, 32][..])
    );
    let second = receive(&mut b, y, 100, 0);
    assert_eq!(
        (second.bytes(), &second.passed[..]),
        (&b"defgh"[..], &[33][..])
    );
    assert_eq!(b.server.descriptors_in_flight(1000), 0);
    // Who reads, has no room, or closes, gets none; none is left over.
    send(&mut b, x, b"1", &[34], 0);
    send(&mut b, x, b"2", &[35, 36], 0);
    send(&mut b, x, b"3", &[37], 0);
    assert_eq!(read(&mut b, y, 1).unwrap(), b"1");
    let cut = b.call(y, &[RECEIVE, 0, 1, 0], b"", 10).unwrap();
    assert_eq!((&cut.passed[..], cut.words[1]), (&[35][..], msg::CTRUNC));
    b.close(y);
    for slot in [34, 36, 37] {
        assert!(b.fake.closed.contains(&Portal(slot)), "{slot}");
    }
    assert_eq!(b.server.descriptors_in_flight(1000), 0);
    // What cannot be sent is closed, and what is no file refused.
    assert_eq!(send(&mut b, x, b"x", &[38], 0), -EPIPE);
    let (x, y) = pair(&mut b, DATAGRAM);
    b.fake.no_files.push(39);
    assert_eq!(send(&mut b, x, b"x", &[40, 39], 0), -EBADF);
    let address = slot(&mut b, 1);
    assert_eq!(send(&mut b, x, b"x", &[address], 0), -EBADF);
    for slot in [38, 39, 40, address as u32] {
        assert!(b.fake.closed.contains(&Portal(slot)), "{slot}");
    }
    // A full queue: the request keeps its descriptors, and gives them up when it is interrupted.
    while send(&mut b, x, &[1; 50_000], &[], 0) > 0 {}
    b.fake.pass = Some(1);
    let waiting = b.send(x, &[SEND, 0, 0, 0, 0, 0, 0, 41], &[1; 50_000], 0);
    assert_eq!(
        (b.answer(waiting), b.server.descriptors_in_flight(1000)),
        (None, 0)
    );
    assert!(!b.fake.closed.contains(&Portal(41)));
    b.interrupt(waiting);
    assert_eq!(b.answer(waiting).unwrap().result(), -EINTR);
    assert!(b.fake.closed.contains(&Portal(41)));
    b.close(x);
    b.close(y);
}

#[test]
fn many_descriptors_go_in_a_parcel() {
    let mut b = bench();
    let (x, y) = pair(&mut b, STREAM);
    let parcel = b.call(0, &[local::PARCEL], b"", 0).unwrap().minted[0];
    for chunk in 0..3u64 {
        let first = 100 + 4 * chunk;
        b.fake.pass = Some(4);
        let words = [local::PUT, 0, 0, 0, first, first + 1, first + 2, first + 3];
        assert_eq!(b.result(parcel, &words, b""), 0);
    }
    let sealed = slot(&mut b, parcel);
    assert_eq!(send(&mut b, x, b"many", &[sealed], with::PARCEL), 4);
    b.close(parcel);
    assert_eq!(b.server.descriptors_in_flight(1000), 12);
    let answer = receive(&mut b, y, 10, 0);
    assert_eq!(answer.words[1] & with::PARCEL, with::PARCEL);
    let parcel = b.fake.own[&answer.passed[0]];
    let mut all = Vec::new();
    loop {
        let some = b.call(parcel, &[local::TAKE], b"", 0).unwrap();
        if some.result() == 0 {
            break;
        }
        all.extend(some.passed);
    }
    assert_eq!(all, (100..112).collect::<Vec<u32>>());
    b.close(parcel);
    assert_eq!(b.server.descriptors_in_flight(1000), 0);
    // There is an end to what one user has on the way: as the sender's limit of descriptors says.
    b.fake.files_limit = Some(10);
    let mut sent = 0;
    while send(&mut b, x, b"x", &[50, 51, 52, 53], 0) == 1 {
        sent += 4;
    }
    assert_eq!(sent, 12);
    // And at most so many that others can have some as well.
    b.fake.files_limit = Some(1 << 20);
    let mut ends = Vec::new();
    loop {
        let (x, y) = pair(&mut b, STREAM);
        ends.push(y);
        while send(&mut b, x, b"x", &[50, 51, 52, 53], 0) == 1 {
            sent += 4;
        }
        if send(&mut b, x, b"x", &[50], 0) == -ETOOMANYREFS {
            break;
        }
    }
    assert_eq!(sent, 4096);
    assert_eq!(send(&mut b, x, b"x", &[50], 0), -ETOOMANYREFS);
    let (other, _) = pair(&mut b, STREAM);
    assert_eq!(send(&mut b, other, b"x", &[50], 0), -ETOOMANYREFS);
    b.label = 1001;
    assert_eq!(send(&mut b, other, b"x", &[50], 0), 1);
}

#[test]
fn credentials_are_the_senders() {
    let mut b = bench();
    let (x, y) = pair(&mut b, STREAM);
    assert_eq!(write(&mut b, x, b"before"), 6);
    assert_eq!(b.result(y, &[local::SET_OPTION, 16, 1], b""), 0);
    assert_eq!(write(&mut b, x, b"a"), 1);
    let said = |b: &mut Bench<Sockets>, pid: u64, uid: u64, gid: u64| {
        let words = [SEND, with::CREDENTIALS, uid | gid << 32, pid];
        b.result(x, &words, b"b")
    };
    assert_eq!(said(&mut b, 101, 1000, 1000), 1);
    for (pid, uid, gid) in [(101, 0, 1000), (101, 1000, 0), (1, 1000, 1000)] {
        assert_eq!(said(&mut b, pid, uid, gid), -EPERM);
    }
    b.label = 0;
    assert_eq!(said(&mut b, 1, 2, 3), 1);
    let mut came = Vec::new();
    for _ in 0..3 {
        let answer = receive(&mut b, y, 100, 0);
        assert_eq!(answer.words[1], with::CREDENTIALS);
        came.push((answer.bytes().to_vec(), answer.words[3], answer.words[2]));
    }
    let own = 1000 | 1000 << 32;
    let expected = [
        (b"before".to_vec(), 0, 65534 | 65534 << 32),
        (b"ab".to_vec(), 101, own),
        (b"b".to_vec(), 1, 2 | 3 << 32),
    ];
    assert_eq!(came, expected);
}

#[test]
fn waits_end_by_time() {
    let mut b = bench();
    let (x, y) = pair(&mut b, STREAM);
    assert_eq!(b.result(y, &[local::SET_OPTION, 20, 500], b""), 0);
    b.fake.time = 1000;
    let reading = b.send(y, &[fs::READ, POSITION], b"", 10);
    let all = b.send(y, &[RECEIVE, msg::WAITALL, 0, 0], b"", 10);
    b.fake.time = 1499;
    b.time_out();
    assert_eq!(b.answer(reading), None);
    assert_eq!(write(&mut b, x, b"1"), 1);
    assert_eq!(b.answer(reading).unwrap().bytes(), b"1");
    assert_eq!(write(&mut b, x, b"23"), 2);
    assert_eq!(b.answer(all), None);
    b.fake.time = 1500;
    b.time_out();
    let answer = b.answer(all).unwrap();
    assert_eq!(answer.bytes(), b"23");
    let reading = b.send(y, &[fs::READ, POSITION], b"", 10);
    b.fake.time = 2000;
    b.time_out();
    assert_eq!(b.answer(reading).unwrap().result(), -EAGAIN);
}

#[test]
fn readiness() {
    let mut b = bench();
    let ready = |b: &mut Bench<Sockets>, badge| b.result(badge, &[fs::POLL, 0xffff, 0], b"") as u64;
    let fresh = socket(&mut b, STREAM, 0);
    let out = poll::OUT | poll::WRNORM;
    let input = poll::IN | poll::RDNORM;
    assert_eq!(ready(&mut b, fresh), out | poll::HUP);
    let (x, y) = pair(&mut b, STREAM);
    assert_eq!(ready(&mut b, x), out);
    write(&mut b, x, &[0; 60_000]);
    assert_eq!((ready(&mut b, x), ready(&mut b, y)), (0, input | out));
    b.result(x, &[local::SHUTDOWN, 1], b"");
    assert_eq!(ready(&mut b, y), input | out | poll::RDHUP);
    let waiting = b.send(x, &[fs::POLL, poll::RDHUP, 1], b"", 0);
    assert_eq!(b.answer(waiting), None);
    b.close(y);
    assert!(b.answer(waiting).is_some());
    assert_eq!(
        ready(&mut b, x),
        input | out | poll::RDHUP | poll::HUP | poll::ERR
    );
    let l = listener(&mut b, b"l", 1);
    assert_eq!(ready(&mut b, l), 0);
    connect(&mut b, fresh, STREAM, b"l");
    assert_eq!(ready(&mut b, l), input);
}

/// Rounds until nothing is to be done at once.
fn look(b: &mut Bench<Sockets>) {
    b.fake.time += 2_000_000_000;
    for _ in 0..20 {
        b.time_out();
        while b.background() {}
    }
    // The nucleus tells of portals whose last holder closed them.
    loop {
        let closed: Vec<u32> = b.fake.closed.drain(..).map(|portal| portal.0).collect();
        if closed.is_empty() {
            return;
        }
        for slot in closed {
            if let Some(badge) = b.fake.own.remove(&slot) {
                let left = b.fake.holders.get_mut(&badge).unwrap();
                *left -= 1;
                if *left == 0 {
                    b.close(badge);
                }
            }
        }
    }
}

/// Sends a socket through another, with the nucleus's count of holders.
fn send_socket(b: &mut Bench<Sockets>, through: u64, what: u64) {
    let slot = slot(b, what);
    *b.fake.holders.entry(what).or_insert(1) += 1;
    assert_eq!(send(b, through, b"s", &[slot], 0), 1);
}

/// A program closes a socket.
fn drop_socket(b: &mut Bench<Sockets>, badge: u64) {
    let left = b.fake.holders.entry(badge).or_insert(1);
    *left -= 1;
    if *left == 0 {
        b.close(badge);
    }
}

#[test]
fn cycles_that_nobody_reaches_are_freed() {
    let mut b = bench();
    // In itself; in each other; three in a ring, with something that is no socket.
    let (x, y) = pair(&mut b, STREAM);
    send_socket(&mut b, x, y);
    let (p, q) = pair(&mut b, DATAGRAM);
    send_socket(&mut b, p, p);
    send_socket(&mut b, q, q);
    send(&mut b, p, b"f", &[77], 0);
    // Held from outside, in two steps.
    let (outer, held) = pair(&mut b, STREAM);
    let (a, c) = pair(&mut b, STREAM);
    send_socket(&mut b, outer, a);
    send_socket(&mut b, a, outer);
    send_socket(&mut b, c, c);
    for badge in [x, y, p, q, outer, a, c] {
        drop_socket(&mut b, badge);
    }
    // Only `x` was in no queue.
    assert_eq!(b.server.count(), 7);
    look(&mut b);
    // `held` still gets `a` from `outer`'s messages, and from `a`'s peer's what `a` sent; `c` was sent to `a`.
    assert!(
        b.server.sockets_in_flight() >= 2,
        "{}",
        b.server.sockets_in_flight()
    );
    let answer = receive(&mut b, held, 10, 0);
    assert_eq!(answer.passed.len(), 1);
    drop_socket(&mut b, held);
    let slot = answer.passed[0];
    let badge = b.fake.own.remove(&slot).unwrap();
    drop_socket(&mut b, badge);
    look(&mut b);
    look(&mut b);
    assert_eq!((b.server.sockets_in_flight(), b.server.count()), (0, 0));
    assert_eq!(b.server.descriptors_in_flight(1000), 0);
    assert_eq!(b.server.memory(), 0);
}

/// Random traffic of sockets in sockets, with rounds in between, against what is reachable by walking all.
#[test]
fn what_is_reachable_stays() {
    let mut seed = 3u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for _ in 0..40 {
        let mut b = bench();
        let mut held: Vec<u64> = Vec::new();
        for _ in 0..4 {
            let (x, y) = pair(&mut b, DATAGRAM);
            held.extend([x, y]);
        }
        for badge in &held {
            b.fake.holders.insert(*badge, 1);
        }
        for _ in 0..200 {
            match random(6) {
                0..=2 if held.len() > 1 => {
                    let (through, what) = (held[random(held.len())], held[random(held.len())]);
                    let slot = slot(&mut b, what);
                    *b.fake.holders.get_mut(&what).unwrap() += 1;
                    if send(&mut b, through, b"s", &[slot], 0) != 1 {
                        look(&mut b);
                    }
                }
                3 if !held.is_empty() => {
                    let answer = receive(&mut b, held[random(held.len())], 10, 0);
                    for slot in answer.passed {
                        // What a program receives is a socket that is there.
                        let badge = b.fake.own.remove(&slot).unwrap();
                        assert_eq!(b.result(badge, &[fs::GETFLAGS], b""), 2);
                        held.push(badge);
                    }
                }
                4 if held.len() > 2 => {
                    let badge = held.swap_remove(random(held.len()));
                    drop_socket(&mut b, badge);
                }
                _ => {
                    b.time_out();
                    b.background();
                }
            }
        }
        for badge in held {
            drop_socket(&mut b, badge);
        }
        for _ in 0..4 {
            look(&mut b);
        }
        assert_eq!((b.server.sockets_in_flight(), b.server.count()), (0, 0));
    }
}

/// The direct way and the ordinary one, mixed, against a queue.
#[test]
fn both_ways_do_the_same() {
    let inline = |len: usize| INLINE | (len as u64) << INLINE_SHIFT;
    let mut b = bench();
    let answer = b
        .call(0, &[local::PAIR, STREAM, o::NONBLOCK], b"", 0)
        .unwrap();
    let (r, w) = (answer.minted[0], answer.minted[1]);
    let mut model = VecDeque::new();
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
                b.fake.pass = Some(0);
                b.result(w, &words, b"")
            } else {
                b.fake.pass = Some(0);
                b.result(w, &words, &bytes)
            };
            let room = crate::queue::CAPACITY - model.len();
            let expected = match room {
                0 => -EAGAIN,
                room => room.min(length) as i64,
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

/// Any words through any portal: no panic, and nothing of others changes.
#[test]
fn whatever_is_sent() {
    let mut b = bench();
    let (victim, other) = pair(&mut b, STREAM);
    write(&mut b, other, b"safe");
    let mut badges = vec![0, 1, 5, 1 << 40, u64::MAX];
    let (x, y) = pair(&mut b, STREAM);
    let (p, q) = pair(&mut b, SEQPACKET);
    let d = socket(&mut b, DATAGRAM, o::NONBLOCK);
    let l = listener(&mut b, b"l", 2);
    let parcel = b.call(0, &[local::PARCEL], b"", 0).unwrap().minted[0];
    badges.extend([x, y, p, q, d, l, parcel]);
    let mut seed = 11u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        seed >> 20
    };
    for _ in 0..200_000 {
        let badge = badges[random() as usize % badges.len()];
        let mut words = [0; 8];
        for word in &mut words {
            *word = match random() % 4 {
                0 => 0,
                1 => random() % 80,
                2 => 1 << (random() % 64),
                _ => random(),
            };
        }
        words[0] = match random() % 3 {
            0 => random() % 90,
            _ => 64 + random() % 18,
        };
        words[0] = if words[0] == fs::CLOSE {
            fs::STAT
        } else {
            words[0]
        };
        let bytes = vec![0u8; random() as usize % 200];
        b.fake.pass = Some(random() as usize % 5);
        let token = b.send(badge, &words, &bytes, random() as usize % 300);
        if b.answer(token).is_none() {
            b.die(token);
        }
        b.fake.closed.clear();
        b.fake.notified.clear();
    }
    assert_eq!(read(&mut b, victim, 10).unwrap(), b"safe");
    assert_eq!(write(&mut b, victim, b"x"), 1);
}

/// Sockets, what waits at them, and descriptors on their way are charged by size, and given back.
#[test]
fn what_is_kept_is_charged_by_size() {
    let mut b = bench();
    let none = b.manager.usage(1000).0;
    let (x, y) = pair(&mut b, STREAM);
    let sockets = b.manager.usage(1000).0 - none;
    assert!(sockets > 2 * 200, "{sockets}");
    let before = b.manager.usage(1000).0;
    assert_eq!(send(&mut b, x, &[7; 20_000], &[], 0), 20_000);
    assert!(b.manager.usage(1000).0 >= before + 20_000);
    assert_eq!(send(&mut b, x, b"x", &[50, 51, 52, 53], 0), 1);
    // Nothing more is kept for who may have nothing more, and what is there stays.
    b.fake.charge_limit = Some(0);
    let refused =
        (0..100).find_map(|_| Some(send(&mut b, x, &[7; 4096], &[], 0)).filter(|n| *n < 0));
    assert_eq!(refused, Some(-ENOMEM));
    b.fake.charge_limit = None;
    let parcel = b.call(0, &[local::PARCEL], b"", 0).unwrap().minted[0];
    let before = b.manager.usage(1000).0;
    for first in (1000..1200u64).step_by(4) {
        b.fake.pass = Some(4);
        let words = [local::PUT, 0, 0, 0, first, first + 1, first + 2, first + 3];
        assert_eq!(b.result(parcel, &words, b""), 0);
    }
    assert!(b.manager.usage(1000).0 >= before + 200 * 24);
    let some = b.call(parcel, &[local::TAKE], b"", 0).unwrap();
    assert_eq!(some.passed.len(), 4);
    b.close(parcel);
    assert!(b.manager.usage(1000).0 < before);
    assert_eq!(receive(&mut b, y, 20_000, 0).result(), 20_000);
    b.close(x);
    b.close(y);
    assert_eq!(b.manager.usage(1000).0, none);
}

/// The lines of /proc/net/unix, the first some of them at a time.
#[test]
fn sockets_are_listed() {
    let mut b = bench();
    let named = socket(&mut b, STREAM, 0);
    assert_eq!(b.result(named, &[local::BIND], b"name\0x"), 0);
    assert_eq!(b.result(named, &[local::LISTEN, 1], b""), 0);
    let path = socket(&mut b, DATAGRAM, 0);
    assert_eq!(b.result(path, &[local::BIND_PATH], b"/run/x"), 0);
    pair(&mut b, SEQPACKET);
    let answer = b.call(0, &[local::TABLE, 0], b"", 4096).unwrap();
    let text = String::from_utf8(answer.bytes().to_vec()).unwrap();
    let expected = "0000000000000000: 00000002 00000000 00010000 0001 01     2 @name@x
0000000000000000: 00000002 00000000 00000000 0002 01     4 /run/x
0000000000000000: 00000003 00000000 00000000 0005 03     6
0000000000000000: 00000003 00000000 00000000 0005 03     8
";
    assert_eq!((text.as_str(), answer.words[1]), (expected, 0));
    let small = b.call(0, &[local::TABLE, 0], b"", 100).unwrap();
    assert_eq!(small.result(), -EINVAL);
    let answer = b.call(0, &[local::TABLE, u64::MAX], b"", 4096).unwrap();
    assert_eq!((answer.result(), answer.words[1]), (0, 0));
    for _ in 0..1000 {
        socket(&mut b, STREAM, 0);
    }
    let (mut place, mut lines, mut turns) = (0, 0, 0);
    loop {
        let answer = b.call(0, &[local::TABLE, place], b"", 4096).unwrap();
        lines += answer.bytes().iter().filter(|byte| **byte == b'\n').count();
        (place, turns) = (answer.words[1], turns + 1);
        if place == 0 {
            break;
        }
    }
    assert!(lines == 1004 && turns > 10, "{lines} {turns}");
}

/// Its permissions are those that its name gets (bind(2)); whoever owns it may change them.
#[test]
fn modes_of_a_socket() {
    let mut b = bench();
    let fd = socket(&mut b, local::STREAM, 0);
    let told = |b: &mut Bench<Sockets>| {
        let answer = b.call(fd, &[fs::STAT, 0], b"", 144).unwrap();
        let word = |at: usize| u32::from_ne_bytes(answer.data[at..at + 4].try_into().unwrap());
        [word(24), word(28), word(32)]
    };
    assert_eq!(told(&mut b)[0], 0o140777);
    assert_eq!(b.result(fd, &[fs::CHMOD, 0o600, 0], b""), 0);
    assert_eq!(b.result(fd, &[fs::CHOWN, 6, 8, 0], b""), -EPERM);
    b.label = cairn_idl::label::make(0, 0);
    assert_eq!(b.result(fd, &[fs::CHOWN, 6, 8, 0], b""), 0);
    assert_eq!(told(&mut b), [0o140600, 6, 8]);
    b.label = cairn_idl::label::make(7, 7);
    assert_eq!(b.result(fd, &[fs::CHMOD, 0o666, 0], b""), -EPERM);
}

/// Urgent bytes among others, as chance wants it: what is read in order is what was sent but for the urgent byte that waits or was taken, and nothing is left.
#[test]
fn urgent_bytes_among_others() {
    let mut b = bench();
    let mut word = 3u64;
    let mut random = move || {
        word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
        (word >> 40) as usize
    };
    let (one, two) = pair(&mut b, STREAM);
    // What waits, and where in it the urgent byte and places of taken ones are.
    let (mut model, mut marks): (Vec<u8>, Vec<(usize, bool)>) = (Vec::new(), Vec::new());
    let mut next = 0u8;
    for _ in 0..20_000 {
        match random() % 4 {
            0 | 1 if model.len() < 400 && marks.len() < 20 => {
                let count = random() % 6 + 1;
                let text: Vec<u8> = (0..count)
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect();
                let urgent = random() % 3 == 0;
                let words = [
                    local::SEND,
                    msg::DONTWAIT | if urgent { msg::OOB } else { 0 },
                ];
                b.fake.pass = Some(0);
                let sent = b.call(one, &words, &text, 0).unwrap().result();
                if sent == -EAGAIN {
                    continue;
                }
                model.extend(&text[..sent as usize]);
                if urgent && sent as usize == count {
                    marks.retain(|mark| mark.1);
                    marks.push((model.len() - 1, false));
                }
            }
            2 => {
                let words = [local::RECEIVE, msg::DONTWAIT | msg::OOB, 0, 0];
                b.fake.pass = Some(0);
                let answer = b.call(two, &words, b"", 1).unwrap();
                match marks.iter_mut().find(|mark| !mark.1) {
                    Some(mark) => {
                        assert_eq!((answer.result(), answer.data[0]), (1, model[mark.0]));
                        mark.1 = true;
                    }
                    None => assert_eq!(answer.result(), -EINVAL),
                }
            }
            _ => {
                while marks.first().is_some_and(|mark| mark.0 == 0) {
                    marks.remove(0);
                    model.remove(0);
                    marks.iter_mut().for_each(|mark| mark.0 -= 1);
                }
                let most = random() % 9 + 1;
                let end = marks.first().map_or(model.len(), |mark| mark.0).min(most);
                let words = [local::RECEIVE, msg::DONTWAIT, 0, 0];
                b.fake.pass = Some(0);
                let answer = b.call(two, &words, b"", most).unwrap();
                let expected = if end == 0 { -EAGAIN } else { end as i64 };
                assert_eq!(answer.result(), expected);
                assert_eq!(answer.data[..end], model[..end]);
                model.drain(..end);
                marks.iter_mut().for_each(|mark| mark.0 -= end);
            }
        }
    }
    b.close(one);
    b.close(two);
    assert_eq!((b.server.count(), b.server.memory()), (0, 0));
}

fn list(
    b: &mut Bench<Sockets>,
    states: u64,
    number: u64,
) -> Vec<(local::Known, Vec<u8>, Vec<u32>)> {
    let (mut all, mut place) = (Vec::new(), 0);
    loop {
        let words = [local::LIST, place, states, number];
        let answer = b.call(0, &words, b"", 4096).unwrap();
        let mut rest = answer.bytes();
        while let Some((known, behind)) = rest.split_first_chunk() {
            let known = local::Known::from_bytes(known);
            let (name, behind) = behind.split_at(known.name as usize);
            let (waiting, behind) = behind.split_at(4 * known.waiting as usize);
            let numbers = waiting.as_chunks().0.iter();
            let numbers = numbers.map(|bytes| u32::from_le_bytes(*bytes)).collect();
            all.push((known, name.to_vec(), numbers));
            rest = behind;
        }
        place = answer.words[1];
        if place == 0 {
            return all;
        }
    }
}

/// States, peers, bytes that wait and who waits, as Linux's unix_diag has them.
#[test]
fn sockets_are_told_of_one_by_one() {
    let mut b = bench();
    let l = listener(&mut b, b"name", 3);
    let client = socket(&mut b, STREAM, 0);
    assert_eq!(connect(&mut b, client, STREAM, b"name"), Some(0));
    let (x, y) = pair(&mut b, STREAM);
    assert_eq!(write(&mut b, x, b"hello"), 5);
    let all = list(&mut b, !0, 0);
    let shown = |of: &local::Known| (of.state, of.met, of.peer != 0, of.received, of.sent);
    let [(listens, name, waiting), (waits, ..), (one, ..), (other, ..)] = &all[..] else {
        panic!("{}", all.len());
    };
    assert_eq!(
        (shown(listens), &name[..]),
        ((10, 0, false, 1, 3), &b"\0name"[..])
    );
    assert_eq!(*waiting, [waits.number as u32]);
    assert_eq!(shown(waits), (1, 1, false, 0, 0));
    assert_eq!(
        (shown(one), shown(other)),
        ((1, 1, true, 0, 5), (1, 1, true, 5, 0))
    );
    assert_eq!((one.peer, other.peer), (other.number, one.number));
    let number = one.number;
    assert_eq!(list(&mut b, 0, number)[0].0.number, number);
    assert_eq!(list(&mut b, 1 << 7, 0).len(), 0);
    b.close(y);
    let (left, ..) = &list(&mut b, 0, number)[0];
    assert_eq!((shown(left), left.shut), ((1, 1, false, 0, 0), 3));
    // More who wait than are told of at once; each socket once, however small the pieces are.
    let full = listener(&mut b, b"many", 1000);
    for _ in 0..600 {
        let client = socket(&mut b, STREAM, 0);
        assert_eq!(connect(&mut b, client, STREAM, b"many"), Some(0));
    }
    let mut all = list(&mut b, !0, 0);
    assert_eq!(all.len(), 4 - 1 + 601);
    let most = all.iter().map(|(_, _, waiting)| waiting.len()).max();
    assert_eq!(most, Some(local::ICONS));
    all.dedup_by_key(|(known, ..)| known.number);
    assert_eq!(all.len(), 604);
    let short = b.call(0, &[local::LIST, 0, !0, 0], b"", 1000).unwrap();
    assert_eq!(short.result(), -EINVAL);
    for badge in [l, client, x, full] {
        b.close(badge);
    }
}

#[test]
fn the_groups_of_the_peer_are_as_they_were_then() {
    let mut b = bench();
    let groups = |b: &mut Bench<Sockets>, badge: u64| {
        let words = [local::GET_OPTION, 59];
        let answer = b.call(badge, &words, b"", 128).unwrap();
        match answer.result() {
            0 => Ok(answer.words[1]),
            error => Err(error),
        }
    };
    // (The bench tells how many there are, and brings no bytes.)
    let has = |b: &mut Bench<Sockets>, count: u64| {
        b.fake.service = Some(Box::new(move |_, words| match words[0] {
            cairn_idl::proc::IDS_OF => [words[1] + 100, 0, 0, 0, 0, 0, count, 0],
            _ => [-ESRCH as u64, 0, 0, 0, 0, 0, 0, 0],
        }));
    };
    let fresh = socket(&mut b, STREAM, 0);
    assert_eq!(groups(&mut b, fresh), Err(-ENODATA));
    has(&mut b, 4);
    let (one, other) = pair(&mut b, DATAGRAM);
    let l = socket(&mut b, STREAM, 0);
    assert_eq!(b.result(l, &[local::BIND], b"l"), 0);
    assert_eq!(groups(&mut b, l), Err(-ENODATA));
    assert_eq!(b.result(l, &[local::LISTEN, 5], b""), 0);
    // Whatever `proc` says, it is no more than there is room for.
    has(&mut b, u64::MAX);
    assert_eq!(connect(&mut b, fresh, STREAM, b"l"), Some(0));
    has(&mut b, 1);
    let far = b.call(l, &[local::ACCEPT], b"", 0).unwrap().minted[0];
    for (badge, count) in [(one, 4), (other, 4), (l, 4), (fresh, 4), (far, 32)] {
        assert_eq!(groups(&mut b, badge), Ok(count));
    }
    for badge in [fresh, one, other, l, far] {
        b.close(badge);
    }
}
