//! Sockets on the bench: what programs see over `lo`, what is charged and comes back, and messages and packets that nobody in his right mind sends.

use crate::address::Address;
use crate::interface::{flag, Device, Offers, Own, LOOPBACK};
use crate::packet::{protocol, Header, Packet, Sum};
use crate::ring::SMALLEST;
use crate::stream::KEPT;
use crate::Net;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, poll, POSITION};
use cairn_idl::net::{self, msg, with, DATAGRAM, INET, INET6, STREAM};
use cairn_resmgr::fake::{Answer, Bench};
use cairn_resmgr::Context;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0x1234_5678_9abc_def1);
    let mut word = STATE.load(Ordering::Relaxed);
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    STATE.store(word, Ordering::Relaxed);
    word
}

pub(crate) fn bench() -> Bench<Net> {
    let mut b = Bench::new(Net::new(None, random), b"net:");
    b.label = 1000 | 1000 << 32;
    b.fake.time = 5_000_000_000;
    b
}

/// A request whose last word is no portal.
pub(crate) fn call(
    b: &mut Bench<Net>,
    badge: u64,
    words: &[u64],
    out: &[u8],
    room: usize,
) -> Option<Answer> {
    b.fake.pass = Some(0);
    b.call(badge, words, out, room)
}

pub(crate) fn result(b: &mut Bench<Net>, badge: u64, words: &[u64]) -> i64 {
    call(b, badge, words, b"", 0).map_or(i64::MIN, |answer| answer.result())
}

pub(crate) fn socket(b: &mut Bench<Net>, family: u64, kind: u64) -> u64 {
    let answer = call(b, 0, &[net::SOCKET, family, kind, 0, 0], b"", 0).unwrap();
    assert_eq!(answer.result(), 0);
    answer.minted[0]
}

fn words(address: Address, port: u16) -> [u64; 3] {
    let [low, high] = address.words();
    let family = if address.is_v4() { INET } else { INET6 };
    [low, high, u64::from(port) | family << 16]
}

pub(crate) fn bind(b: &mut Bench<Net>, badge: u64, address: Address, port: u16) -> i64 {
    let [low, high, word] = words(address, port);
    result(b, badge, &[net::BIND, low, high, word])
}

fn connect(b: &mut Bench<Net>, badge: u64, address: Address, port: u16) -> i64 {
    let [low, high, word] = words(address, port);
    result(b, badge, &[net::CONNECT, low, high, word])
}

pub(crate) fn name(b: &mut Bench<Net>, badge: u64, whose: u64) -> Result<(Address, u16), i64> {
    let answer = call(b, badge, &[net::NAME, whose], b"", 0).unwrap();
    let [result, low, high, word, ..] = answer.words;
    match result as i64 {
        0 => Ok((Address::of_words(low, high), word as u16)),
        error => Err(error),
    }
}

pub(crate) fn send(b: &mut Bench<Net>, badge: u64, bytes: &[u8]) -> i64 {
    let words = [net::SEND, msg::DONTWAIT];
    call(b, badge, &words, bytes, 0).map_or(i64::MIN, |answer| answer.result())
}

pub(crate) fn send_to(
    b: &mut Bench<Net>,
    badge: u64,
    bytes: &[u8],
    address: Address,
    port: u16,
) -> i64 {
    let [low, high, word] = words(address, port);
    let words = [net::SEND, msg::DONTWAIT | with::ADDRESS, low, high, word];
    call(b, badge, &words, bytes, 0).map_or(i64::MIN, |answer| answer.result())
}

pub(crate) fn receive(
    b: &mut Bench<Net>,
    badge: u64,
    length: usize,
    flags: u64,
) -> Result<Vec<u8>, i64> {
    let words = [net::RECEIVE, flags | msg::DONTWAIT];
    let answer = call(b, badge, &words, b"", length).unwrap();
    match answer.result() {
        0.. => Ok(answer.data[..length.min(answer.result() as usize)].to_vec()),
        error => Err(error),
    }
}

pub(crate) fn ready(b: &mut Bench<Net>, badge: u64) -> u64 {
    let answer = call(b, badge, &[fs::POLL, u64::MAX], b"", 0).unwrap();
    answer.words[0]
}

/// Time goes on, in steps of what the server asked for.
pub(crate) fn pass(b: &mut Bench<Net>, ns: u64) {
    let end = b.fake.time + ns;
    while b.fake.time < end {
        b.fake.time = (b.fake.time + 50_000_000).min(end);
        b.time_out();
    }
}

fn listener(b: &mut Bench<Net>, address: Address, backlog: u64) -> (u64, u16) {
    let family = if address.is_v4() { INET } else { INET6 };
    let l = socket(b, family, STREAM);
    assert_eq!(bind(b, l, address, 0), 0);
    assert_eq!(result(b, l, &[net::LISTEN, backlog]), 0);
    let port = name(b, l, 0).unwrap().1;
    (l, port)
}

fn accept(b: &mut Bench<Net>, badge: u64) -> u64 {
    call(b, badge, &[net::ACCEPT, 0], b"", 0).unwrap().minted[0]
}

/// A listener and the two ends of a connection.
pub(crate) fn connection(b: &mut Bench<Net>, address: Address) -> [u64; 3] {
    let (l, port) = listener(b, address, 5);
    let [c, s] = two_ends(b, l, address, port);
    [l, c, s]
}

/// A connection to a listener that is there: who connected, and who was accepted.
fn two_ends(b: &mut Bench<Net>, l: u64, address: Address, port: u16) -> [u64; 2] {
    let family = if address.is_v4() { INET } else { INET6 };
    let c = socket(b, family, STREAM);
    assert_eq!(connect(b, c, address, port), 0);
    [c, accept(b, l)]
}

/// Nothing is left of anything, and nobody pays.
fn all_gone(b: &mut Bench<Net>) {
    // TIME-WAIT is over, and what else is unfinished.
    pass(b, 200_000_000_000);
    let net = &b.server;
    assert_eq!(net.sockets.len(), 0, "sockets");
    assert_eq!(net.streams.len(), 0, "connections");
    assert_eq!(net.halves.len(), 0, "half-open connections");
    assert_eq!(net.waits.len(), 0, "records");
    assert!(net.connections.is_empty() && net.listeners.is_empty());
    assert!(net.datagrams.is_empty() && net.connected.is_empty());
    assert!(net.connected_lite.is_empty());
    assert!(net.ports.is_empty() && net.timers.is_empty());
    // Some pages may stay bought.
    let charged = b.fake.charged.values().copied().max().unwrap_or(0);
    assert!(charged <= 32, "{charged} pages");
}

/// Datagrams that several sends make, and sends that make several.
#[test]
fn datagrams_in_pieces() {
    let mut b = bench();
    let to = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, to, Address::LOOPBACK_V4, 7000), 0);
    let from = socket(&mut b, INET, DATAGRAM);
    assert_eq!(connect(&mut b, from, Address::LOOPBACK_V4, 7000), 0);
    let more = [net::SEND, msg::DONTWAIT | msg::MORE];
    assert_eq!(result_of(&mut b, from, &more, b"ab"), 2);
    assert_eq!(result_of(&mut b, from, &more, b"cd"), 2);
    assert_eq!(receive(&mut b, to, 100, 0), Err(-EAGAIN));
    assert_eq!(send(&mut b, from, b"e"), 1);
    assert_eq!(receive(&mut b, to, 100, 0), Ok(b"abcde".to_vec()));
    // Too much takes with it what was held.
    assert_eq!(result_of(&mut b, from, &more, b"ab"), 2);
    assert_eq!(send(&mut b, from, &[0; 65_507]), -EMSGSIZE);
    assert_eq!(send(&mut b, from, b"f"), 1);
    assert_eq!(receive(&mut b, to, 100, 0), Ok(b"f".to_vec()));
    let segment = [net::SET_OPTION, 17 << 32 | 103, 2, 0];
    assert_eq!(result_of(&mut b, from, &segment, b""), 0);
    assert_eq!(send(&mut b, from, b"abc"), 3);
    assert_eq!(receive(&mut b, to, 100, 0), Ok(b"ab".to_vec()));
    assert_eq!(receive(&mut b, to, 100, 0), Ok(b"c".to_vec()));
    assert_eq!(send(&mut b, from, &[0; 257]), -EINVAL);
    let cork = |on: u64| [net::SET_OPTION, 17 << 32 | 1, on, 0];
    assert_eq!(result_of(&mut b, from, &cork(1), b""), 0);
    assert_eq!(send(&mut b, from, b"gh"), 2);
    assert_eq!(receive(&mut b, to, 100, 0), Err(-EAGAIN));
    assert_eq!(result_of(&mut b, from, &cork(0), b""), 0);
    assert_eq!(receive(&mut b, to, 100, 0), Ok(b"gh".to_vec()));
    // What is held is nobody's when its socket has gone.
    assert_eq!(result_of(&mut b, from, &more, &[0; 60_000]), 60_000);
    b.close(from);
    b.close(to);
    all_gone(&mut b);
}

/// UDP-Lite: what sums cover, and ports that are not those of UDP.
#[test]
fn sums_that_cover_a_beginning() {
    let mut b = bench();
    let lite = |b: &mut Bench<Net>| {
        let words = [net::SOCKET, INET, DATAGRAM, 136, 0];
        call(b, 0, &words, b"", 0).unwrap().minted[0]
    };
    let set = |b: &mut Bench<Net>, badge, option: u64, value: u64| {
        let words = [net::SET_OPTION, 136 << 32 | option, value, 0];
        result_of(b, badge, &words, b"")
    };
    let (to, from) = (lite(&mut b), lite(&mut b));
    let udp = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, to, Address::LOOPBACK_V4, 7000), 0);
    assert_eq!(bind(&mut b, udp, Address::LOOPBACK_V4, 7000), 0);
    assert_eq!(connect(&mut b, from, Address::LOOPBACK_V4, 7000), 0);
    assert_eq!(set(&mut b, udp, 10, 8), -ENOPROTOOPT);
    let coverages = [0, 8, 9, 11, 12, 13, 50];
    for covers in coverages {
        assert_eq!(set(&mut b, from, 10, covers), 0);
        for least in coverages {
            assert_eq!(set(&mut b, to, 11, least), 0);
            assert_eq!(send(&mut b, from, b"text"), 4);
            let whole = covers == 0 || covers >= 12;
            let taken = whole || least != 0 && covers >= least;
            let expected = if taken {
                Ok(b"text".to_vec())
            } else {
                Err(-EAGAIN)
            };
            assert_eq!(receive(&mut b, to, 10, 0), expected, "{covers} {least}");
        }
    }
    assert_eq!(receive(&mut b, udp, 10, 0), Err(-EAGAIN));
    assert_eq!(connect(&mut b, to, Address::LOOPBACK_V4, 9), 0);
    assert_eq!(send(&mut b, from, b"x"), 1);
    assert_eq!(receive(&mut b, to, 10, 0), Err(-EAGAIN));
    assert_eq!(send(&mut b, from, b"x"), -ECONNREFUSED);
    for badge in [to, from, udp] {
        b.close(badge);
    }
    all_gone(&mut b);
}

/// Control messages in front of a datagram, and headers of a socket's, whatever they are: refused, or in a packet that this machine itself understands.
#[test]
fn headers_of_programs() {
    let mut b = bench();
    let to = socket(&mut b, INET6, DATAGRAM);
    assert_eq!(bind(&mut b, to, Address::LOOPBACK, 7000), 0);
    let from = socket(&mut b, INET6, DATAGRAM);
    assert_eq!(connect(&mut b, from, Address::LOOPBACK, 7000), 0);
    let v4 = socket(&mut b, INET, DATAGRAM);
    assert_eq!(connect(&mut b, v4, Address::LOOPBACK_V4, 7000), 0);
    let option = |level: u64, number: u64| [net::SET_OPTION, level << 32 | number, 0, 0];
    let hop = [0, 0, 0x1e, 4, 0, 0, 0, 0];
    // Without the privilege nobody adds a header of IPv6.
    assert_eq!(result_of(&mut b, from, &option(41, 54), &hop), -EPERM);
    b.server.proc = Some(cairn_rt::Portal(9));
    b.label = 0;
    let charged = b.fake.charged.clone();
    assert_eq!(result_of(&mut b, from, &option(41, 54), &hop), 0);
    let record = [7, 39, 4];
    let mut record = record.to_vec();
    record.resize(39, 0);
    assert_eq!(result_of(&mut b, v4, &option(0, 4), &record), 0);
    assert_eq!(result_of(&mut b, v4, &option(0, 4), b""), 0);
    assert_eq!(b.fake.charged, charged);
    let mut delivered = 0;
    for round in 0..20_000 {
        let kinds = [
            (41, 54),
            (41, 59),
            (41, 55),
            (41, 57),
            (0, 7),
            (17, 103),
            (3, 3),
        ];
        let mut notes = Vec::new();
        for _ in 0..random() % 3 {
            let (level, number) = kinds[random() as usize % kinds.len()];
            let length = [2, 8, 16, 4, 12, random() as u32 % 50][random() as usize % 6];
            for word in [length, level, number, 0] {
                notes.extend(u32::to_ne_bytes(word));
            }
            notes.extend((0..length.next_multiple_of(8)).map(|_| (random() % 12) as u8));
        }
        let wrong = random().is_multiple_of(20);
        let units = notes.len() as u64 / 8 + if wrong { random() % 9 } else { 0 };
        notes.extend(b"text");
        let flags = msg::DONTWAIT | with::HEADERS;
        let badge = if round % 2 == 0 { from } else { v4 };
        let words = [net::SEND, flags, 0, 0, 0, 0, 0, units << 48];
        let _ = result_of(&mut b, badge, &words, &notes);
        while receive(&mut b, to, 100, 0).is_ok() {
            delivered += 1;
        }
    }
    assert!(delivered > 1000, "{delivered}");
    for badge in [to, from, v4] {
        b.close(badge);
    }
    all_gone(&mut b);
}

/// Sends of MSG_ZEROCOPY are counted, and told of as one.
#[test]
fn memory_that_is_free_again() {
    let mut b = bench();
    let [l, c, s] = connection(&mut b, Address::LOOPBACK_V4);
    let words = [net::SEND, msg::DONTWAIT | msg::ZEROCOPY];
    let queue = [net::RECEIVE, msg::ERRQUEUE];
    assert_eq!(result_of(&mut b, c, &words, b"abc"), 3);
    assert_eq!(result(&mut b, c, &queue), -EAGAIN);
    let option = [net::SET_OPTION, 1 << 32 | 60, 1, 0];
    assert_eq!(result_of(&mut b, c, &option, b""), 0);
    for _ in 0..3 {
        assert_eq!(result_of(&mut b, c, &words, b"abc"), 3);
    }
    assert_eq!(result_of(&mut b, c, &words, b""), 0);
    assert_eq!(ready(&mut b, c) & poll::ERR, poll::ERR);
    let told = call(&mut b, c, &queue, b"", 0).unwrap().words;
    assert_eq!((told[0], told[1], told[2]), (0, msg::ERRQUEUE, 2));
    assert_eq!(told[7], 5 << 56 | 1 << 40);
    assert_eq!(ready(&mut b, c) & poll::ERR, 0);
    assert_eq!(result_of(&mut b, c, &words, b"abc"), 3);
    let told = call(&mut b, c, &queue, b"", 0).unwrap().words;
    assert_eq!((told[2], told[7] as u32), (3, 3));
    for badge in [c, s, l] {
        b.close(badge);
    }
    all_gone(&mut b);
}

/// SO_PEEK_OFF: looks one after another come to the same as the datagrams.
#[test]
fn looks_that_go_on() {
    let mut b = bench();
    let to = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, to, Address::LOOPBACK_V4, 7000), 0);
    let from = socket(&mut b, INET, DATAGRAM);
    assert_eq!(connect(&mut b, from, Address::LOOPBACK_V4, 7000), 0);
    assert_eq!(
        result_of(&mut b, to, &[net::SET_OPTION, 1 << 32 | 42, 0, 0], b""),
        0
    );
    let mut sent = Vec::new();
    for round in 0..200u8 {
        let text: Vec<u8> = (0..random() % 9).map(|_| round).collect();
        assert_eq!(send(&mut b, from, &text), text.len() as i64);
        sent.extend(text);
    }
    let mut seen = Vec::new();
    while seen.len() < sent.len() {
        let room = random() as usize % 7 + 1;
        seen.extend(receive(&mut b, to, room, msg::PEEK).unwrap());
    }
    assert_eq!(seen, sent);
    while receive(&mut b, to, 100, 0).is_ok() {}
    assert_eq!(receive(&mut b, to, 100, msg::PEEK), Err(-EAGAIN));
    assert_eq!(send(&mut b, from, b"last"), 4);
    assert_eq!(receive(&mut b, to, 100, msg::PEEK), Ok(b"last".to_vec()));
    b.close(to);
    b.close(from);
    all_gone(&mut b);
}

fn result_of(b: &mut Bench<Net>, badge: u64, words: &[u64], bytes: &[u8]) -> i64 {
    call(b, badge, words, bytes, 0).map_or(i64::MIN, |answer| answer.result())
}

#[test]
fn a_stream_there_and_back() {
    for address in [Address::LOOPBACK_V4, Address::LOOPBACK] {
        let mut b = bench();
        let [l, c, s] = connection(&mut b, address);
        assert_eq!(send(&mut b, c, b"hello"), 5);
        assert_eq!(receive(&mut b, s, 100, msg::PEEK), Ok(b"hello".to_vec()));
        assert_eq!(receive(&mut b, s, 3, 0), Ok(b"hel".to_vec()));
        assert_eq!(receive(&mut b, s, 100, 0), Ok(b"lo".to_vec()));
        assert_eq!(receive(&mut b, s, 100, 0), Err(-EAGAIN));
        assert_eq!(name(&mut b, c, 0), name(&mut b, s, 1));
        assert_eq!(name(&mut b, c, 1), name(&mut b, s, 0));
        assert_eq!(result(&mut b, c, &[net::SHUTDOWN, 1]), 0);
        assert_eq!(receive(&mut b, s, 100, 0), Ok(vec![]));
        assert_eq!(send(&mut b, s, b"still"), 5);
        assert_eq!(receive(&mut b, c, 100, 0), Ok(b"still".to_vec()));
        assert_eq!(send(&mut b, c, b"x"), -EPIPE);
        for badge in [c, s, l] {
            b.close(badge);
        }
        all_gone(&mut b);
    }
}

#[test]
fn much_text_arrives_as_it_was_sent() {
    let mut b = bench();
    let [l, c, s] = connection(&mut b, Address::LOOPBACK_V4);
    let text: Vec<u8> = (0..3_000_000u32)
        .map(|at| (at * 7 + at / 251) as u8)
        .collect();
    let (mut sent, mut got) = (0, Vec::new());
    let mut idle = 0;
    while got.len() < text.len() {
        let before = (sent, got.len());
        let some = (random() as usize % 200_000 + 1).min(text.len() - sent);
        if some > 0 {
            sent += send(&mut b, c, &text[sent..sent + some]).max(0) as usize;
        }
        if let Ok(bytes) = receive(&mut b, s, random() as usize % 150_000 + 1, 0) {
            got.extend(bytes);
        }
        b.time_out();
        idle = if before == (sent, got.len()) {
            idle + 1
        } else {
            0
        };
        assert!(idle < 100, "nothing moves at {} of {sent}", got.len());
        pass(&mut b, 1_000_000);
    }
    assert!(got == text);
    for badge in [c, s, l] {
        b.close(badge);
    }
    all_gone(&mut b);
}

#[test]
fn who_waits_is_woken() {
    let mut b = bench();
    let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 5);
    b.fake.pass = Some(0);
    let waits = b.send(l, &[net::ACCEPT, 0], b"", 0);
    assert!(b.answer(waits).is_none());
    let c = socket(&mut b, INET, STREAM);
    assert_eq!(connect(&mut b, c, Address::LOOPBACK_V4, port), 0);
    let s = b.answer(waits).unwrap().minted[0];
    let reads = b.send(s, &[fs::READ, POSITION], b"", 10);
    assert!(b.answer(reads).is_none());
    assert_eq!(send(&mut b, c, b"now"), 3);
    assert_eq!(b.answer(reads).unwrap().bytes(), b"now");
    // A write that is too long waits for the reader, and all of it arrives.
    let text = vec![7; 2_000_000];
    let writes = b.send(c, &[fs::WRITE, POSITION], &text, 0);
    assert!(b.answer(writes).is_none());
    let mut got = 0;
    for _ in 0..1000 {
        got += receive(&mut b, s, 100_000, 0).map_or(0, |bytes| bytes.len());
        pass(&mut b, 1_000_000);
    }
    assert_eq!(got, text.len());
    assert_eq!(b.answer(writes).unwrap().result(), text.len() as i64);
    for badge in [c, s, l] {
        b.close(badge);
    }
    all_gone(&mut b);
}

#[test]
fn nobody_listens_and_nobody_has_the_port() {
    let mut b = bench();
    let c = socket(&mut b, INET, STREAM);
    assert_eq!(connect(&mut b, c, Address::LOOPBACK_V4, 9), -ECONNREFUSED);
    assert_eq!(
        connect(&mut b, c, Address::v4([192, 0, 2, 1]), 9),
        -ENETUNREACH
    );
    let u = socket(&mut b, INET, DATAGRAM);
    assert_eq!(send_to(&mut b, u, b"x", Address::LOOPBACK_V4, 9), 1);
    assert_eq!(ready(&mut b, u) & poll::ERR, 0);
    assert_eq!(connect(&mut b, u, Address::LOOPBACK_V4, 9), 0);
    assert_eq!(send(&mut b, u, b"x"), 1);
    assert_ne!(ready(&mut b, u) & poll::ERR, 0);
    assert_eq!(send(&mut b, u, b"x"), -ECONNREFUSED);
    for badge in [c, u] {
        b.close(badge);
    }
    all_gone(&mut b);
}

#[test]
fn datagrams_are_whole_or_not_there() {
    for (family, address) in [(INET, Address::LOOPBACK_V4), (INET6, Address::LOOPBACK)] {
        let mut b = bench();
        let (a, c) = (
            socket(&mut b, family, DATAGRAM),
            socket(&mut b, family, DATAGRAM),
        );
        assert_eq!(bind(&mut b, a, address, 0), 0);
        let port = name(&mut b, a, 0).unwrap().1;
        for text in [&b"one"[..], b"", &[9; 60_000]] {
            assert_eq!(send_to(&mut b, c, text, address, port), text.len() as i64);
        }
        assert_eq!(
            send_to(&mut b, c, &vec![0; 65_528], address, port),
            -EMSGSIZE
        );
        assert_eq!(receive(&mut b, a, 2, msg::TRUNC), Ok(b"on".to_vec()));
        assert_eq!(receive(&mut b, a, 10, 0), Ok(vec![]));
        assert_eq!(receive(&mut b, a, 100_000, 0), Ok(vec![9; 60_000]));
        assert_eq!(receive(&mut b, a, 10, 0), Err(-EAGAIN));
        // What does not fit is lost, and what is there is paid for.
        for _ in 0..100 {
            assert_eq!(send_to(&mut b, c, &[1; 10_000], address, port), 10_000);
        }
        let queued = (0..100)
            .filter(|_| receive(&mut b, a, 10_000, 0).is_ok())
            .count();
        assert!((10..30).contains(&queued), "{queued}");
        b.close(a);
        b.close(c);
        all_gone(&mut b);
    }
}

#[test]
fn echoes_come_back_to_who_sent_them() {
    for (family, number, address, kind) in [
        (INET, 1, Address::LOOPBACK_V4, [8, 0]),
        (INET6, 58, Address::LOOPBACK, [128, 129]),
    ] {
        let mut b = bench();
        let ping = |b: &mut Bench<Net>| {
            let words = [net::SOCKET, family, DATAGRAM, number, 0];
            call(b, 0, &words, b"", 0).unwrap().minted[0]
        };
        let (one, other) = (ping(&mut b), ping(&mut b));
        let mut echo = *b"....##\0\x01text";
        (echo[0], echo[1]) = (kind[0], 0);
        assert_eq!(send_to(&mut b, other, &echo[..8], address, 0), 8);
        assert_eq!(send_to(&mut b, one, &echo, address, 0), 12);
        let answer = receive(&mut b, one, 100, 0).unwrap();
        assert_eq!((answer[0], &answer[6..]), (kind[1], &echo[6..]));
        assert_eq!(receive(&mut b, one, 100, 0), Err(-EAGAIN));
        assert_eq!(receive(&mut b, other, 100, 0).unwrap().len(), 8);
        assert_eq!(send_to(&mut b, one, &echo[..7], address, 0), -EINVAL);
        echo[0] = 3;
        assert_eq!(send_to(&mut b, one, &echo, address, 0), -EINVAL);
        // Raw sockets are not for everybody.
        assert_eq!(
            result(&mut b, 0, &[net::SOCKET, family, net::RAW, number, 0]),
            -EPERM
        );
        b.close(one);
        b.close(other);
        all_gone(&mut b);
    }
}

#[test]
fn what_icmp_says_of_datagrams_waits_in_a_queue() {
    const RECVERR: u64 = 11;
    const RECVERR_V6: u64 = 41 << 32 | 25;
    for (address, option, origin) in [
        (Address::LOOPBACK_V4, RECVERR, 2),
        (Address::LOOPBACK, RECVERR_V6, 3),
    ] {
        let mut b = bench();
        let family = if address.is_v4() { INET } else { INET6 };
        let s = socket(&mut b, family, DATAGRAM);
        let fault = |b: &mut Bench<Net>| call(b, s, &[net::RECEIVE, msg::ERRQUEUE], &[], 100);
        assert_eq!(send_to(&mut b, s, b"lost", address, 9), 4);
        let none = fault(&mut b).unwrap();
        assert_eq!(none.words[0] as i64, -EAGAIN);
        assert_eq!(result(&mut b, s, &[net::SET_OPTION, option, 1]), 0);
        assert_eq!(send_to(&mut b, s, b"first", address, 9), 5);
        assert_ne!(ready(&mut b, s) & poll::ERR, 0);
        let told = fault(&mut b).unwrap();
        assert_eq!(told.words[0], 5);
        assert_ne!(told.words[1] & msg::ERRQUEUE, 0);
        assert_eq!(Address::of_words(told.words[5], told.words[6]), address);
        assert_eq!(told.words[4] as u16, 9);
        assert_eq!(told.words[7] >> 48, origin << 8 | ECONNREFUSED as u64);
        assert_eq!(ready(&mut b, s) & poll::ERR, 0);
        // Who does not look at it keeps no more than SO_RCVBUF has room for, and pays for it.
        for _ in 0..5000 {
            let _ = send_to(&mut b, s, b"many", address, 9);
        }
        let kept = (0..5000).take_while(|_| fault(&mut b).unwrap().words[0] as i64 >= 0);
        let kept = kept.count();
        assert!((100..2000).contains(&kept), "{kept}");
        for _ in 0..10 {
            let _ = send_to(&mut b, s, b"left", address, 9);
        }
        b.close(s);
        all_gone(&mut b);
    }
}

#[test]
fn ports_are_for_those_who_may() {
    let mut b = bench();
    let a = socket(&mut b, INET, STREAM);
    assert_eq!(bind(&mut b, a, Address::LOOPBACK_V4, 80), -EACCES);
    assert_eq!(
        bind(&mut b, a, Address::v4([192, 0, 2, 1]), 8080),
        -EADDRNOTAVAIL
    );
    assert_eq!(bind(&mut b, a, Address::LOOPBACK_V4, 8080), 0);
    assert_eq!(bind(&mut b, a, Address::LOOPBACK_V4, 8081), -EINVAL);
    let c = socket(&mut b, INET, STREAM);
    assert_eq!(bind(&mut b, c, Address::ANY_V4, 8080), -EADDRINUSE);
    b.close(a);
    assert_eq!(bind(&mut b, c, Address::ANY_V4, 8080), 0);
    b.close(c);
    all_gone(&mut b);
}

#[test]
fn a_full_queue_and_an_end_leave_nothing() {
    let mut b = bench();
    let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 2);
    let clients: Vec<u64> = (0..8).map(|_| socket(&mut b, INET, STREAM)).collect();
    let mut waiting = Vec::new();
    for c in &clients {
        let [low, high, word] = words(Address::LOOPBACK_V4, port);
        b.fake.pass = Some(0);
        waiting.push(b.send(*c, &[net::CONNECT, low, high, word], b"", 0));
    }
    let connected = waiting
        .iter()
        .filter(|token| b.answer(**token).is_some())
        .count();
    assert_eq!(connected, 3);
    // Nobody accepts; then the listener is gone, and all of them hear of it.
    b.close(l);
    pass(&mut b, 200_000_000_000);
    for c in clients {
        b.close(c);
    }
    all_gone(&mut b);
}

/// Many that nobody accepted are reset one after the other when their listener goes, whatever its number is used for meanwhile.
#[test]
fn many_that_nobody_accepted_are_reset_later() {
    const MANY: usize = 100;
    for background in [true, false] {
        let mut b = bench();
        b.fake.no_background = !background;
        let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 4096);
        let clients: Vec<u64> = (0..MANY)
            .map(|_| {
                let c = socket(&mut b, INET, STREAM);
                assert_eq!(connect(&mut b, c, Address::LOOPBACK_V4, port), 0);
                c
            })
            .collect();
        let reset = |b: &mut Bench<Net>| {
            let told = clients
                .iter()
                .filter(|&&c| receive(b, c, 8, 0) == Err(-ECONNRESET));
            told.count()
        };
        b.close(l);
        let (other, _) = listener(&mut b, Address::LOOPBACK_V4, 4096);
        let mut left = MANY - reset(&mut b);
        assert_eq!(left > 0, background, "{left}");
        while left > 0 {
            b.background();
            let told = reset(&mut b);
            assert_eq!(told, 1);
            left -= told;
        }
        assert!(!b.fake.background);
        // Nothing of that is the other listener's.
        assert_eq!(ready(&mut b, other) & fs::poll::IN, 0);
        for badge in clients.into_iter().chain([other]) {
            b.close(badge);
        }
        all_gone(&mut b);
    }
}

#[test]
fn who_must_not_have_more_memory_is_refused() {
    let mut b = bench();
    b.fake.charge_limit = Some(64);
    let mut sockets = Vec::new();
    let refused = loop {
        let answer = call(&mut b, 0, &[net::SOCKET, INET, DATAGRAM, 0, 0], b"", 0).unwrap();
        match answer.result() {
            0 => sockets.push(answer.minted[0]),
            error => break error,
        }
        assert!(sockets.len() < 2000);
    };
    assert_eq!(refused, -ENOMEM);
    for badge in sockets {
        b.close(badge);
    }
    // Text that nobody reads is refused as well.
    let [l, c, s] = connection(&mut b, Address::LOOPBACK_V4);
    let mut total = 0;
    let end = loop {
        match send(&mut b, c, &[1; 50_000]) {
            count @ 0.. => total += count,
            error => break error,
        }
        assert!(total < 10_000_000);
    };
    assert!(
        matches!(end, error if error == -EAGAIN || error == -ENOBUFS),
        "{end}"
    );
    for badge in [c, s, l] {
        b.close(badge);
    }
    all_gone(&mut b);
}

/// Rings that are empty keep some memory for what comes next: not more than all of them may together, and none that their payer wants for another.
#[test]
fn empty_rings_keep_little_and_give_it_back() {
    const TEXT: usize = 60_000;
    let mut b = bench();
    let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 4096);
    let ends: Vec<_> = (0..300)
        .map(|_| two_ends(&mut b, l, Address::LOOPBACK_V4, port))
        .collect();
    let through = |b: &mut Bench<Net>, [c, s]: [u64; 2]| {
        let sent = send(b, c, &[1; TEXT]);
        let got = receive(b, s, TEXT, 0).map(|bytes| bytes.len());
        pass(b, 100_000_000);
        (sent, got)
    };
    for both in &ends {
        assert_eq!(through(&mut b, *both), (TEXT as i64, Ok(TEXT)));
        assert!(b.server.rings <= KEPT, "{}", b.server.rings);
    }
    assert!(b.server.rings > 0, "nothing is kept");
    // All that are empty have some by now: the account has no room but that.
    let paid = b.fake.charged.values().copied().max().unwrap_or(0);
    b.fake.charge_limit = Some(paid + 1);
    assert_eq!(through(&mut b, ends[0]), (TEXT as i64, Ok(TEXT)));
    b.fake.charge_limit = None;
    for [c, s] in ends {
        b.close(c);
        b.close(s);
    }
    assert_eq!(b.server.rings, 0);
    // Connections that come and go are not remembered for ever.
    for _ in 0..3000 {
        let [c, s] = two_ends(&mut b, l, Address::LOOPBACK_V4, port);
        assert_eq!(through(&mut b, [c, s]), (TEXT as i64, Ok(TEXT)));
        b.close(c);
        b.close(s);
        assert!(b.server.spare.len() <= KEPT / SMALLEST);
    }
    b.close(l);
    all_gone(&mut b);
}

#[test]
fn a_thousand_connections_are_found_and_gone() {
    let mut b = bench();
    let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 4096);
    let ends: Vec<_> = (0..1000)
        .map(|_| two_ends(&mut b, l, Address::LOOPBACK_V4, port))
        .collect();
    for (at, [c, s]) in ends.iter().enumerate() {
        let text = at.to_le_bytes();
        assert_eq!(send(&mut b, *c, &text), 8);
        assert_eq!(receive(&mut b, *s, 8, 0), Ok(text.to_vec()));
    }
    for [c, s] in ends {
        b.close(c);
        b.close(s);
    }
    assert_eq!(b.server.streams.len(), 0);
    assert_eq!(b.server.waits.len(), 1000);
    b.close(l);
    all_gone(&mut b);
}

/// Messages of any content, in any order, to all that is there.
#[test]
fn hostile_messages_change_nothing_but_their_own() {
    for seed in 0..30 {
        let mut b = bench();
        let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 5);
        let mut badges = vec![0, l];
        for _ in 0..2000 {
            let word = |interesting: &[u64]| match random() % 3 {
                0 => random(),
                1 => random() % 70,
                _ => interesting[random() as usize % interesting.len()],
            };
            let operation = match random() % 4 {
                0 => word(&[fs::READ, fs::WRITE, fs::IOCTL, fs::POLL, fs::STAT]),
                _ => 64 + random() % 16,
            };
            let address = words(Address::LOOPBACK_V4, port);
            let mut request = [operation, 0, 0, 0, 0, 0, 0, 0];
            let interesting = [
                INET, INET6, STREAM, address[0], address[1], address[2], 0x541b,
            ];
            for place in &mut request[1..] {
                *place = word(&interesting);
            }
            if random().is_multiple_of(2) {
                request[1..4].copy_from_slice(&address);
            }
            if operation == net::SEND {
                request[2..5].copy_from_slice(&address);
            }
            let badge = badges[random() as usize % badges.len()];
            let out = vec![seed as u8; random() as usize % 3000];
            b.fake.pass = Some(0);
            let token = b.send(badge, &request, &out, random() as usize % 5000);
            match b.answer(token) {
                Some(answer) => badges.extend(answer.minted),
                None => b.interrupt(token),
            }
            b.answer(token);
            if badges.len() > 30 {
                let gone = badges.swap_remove(2 + random() as usize % (badges.len() - 2));
                b.close(gone);
            }
            if random().is_multiple_of(50) {
                pass(&mut b, 1_000_000_000);
            }
        }
        for badge in badges {
            if badge != 0 {
                b.close(badge);
            }
        }
        all_gone(&mut b);
    }
}

/// Packets of any content; half of them nearly right.
#[test]
fn hostile_packets_end_nothing() {
    for _ in 0..20 {
        let mut b = bench();
        let [l, c, s] = connection(&mut b, Address::LOOPBACK_V4);
        let (own, its) = (name(&mut b, c, 0).unwrap().1, name(&mut b, s, 0).unwrap().1);
        let u = socket(&mut b, INET, DATAGRAM);
        assert_eq!(bind(&mut b, u, Address::LOOPBACK_V4, its), 0);
        for _ in 0..2000 {
            let v4 = !random().is_multiple_of(4);
            let loopback = if v4 {
                Address::LOOPBACK_V4
            } else {
                Address::LOOPBACK
            };
            let protocols = [
                protocol::TCP,
                protocol::UDP,
                protocol::UDP_LITE,
                protocol::ICMP,
                protocol::ICMP_V6,
                99,
            ];
            let header = Header {
                source: loopback,
                destination: loopback,
                protocol: protocols[random() as usize % protocols.len()],
                ttl: random() as u8,
                tos: random() as u8,
                whole: false,
            };
            let length = random() as usize % 200;
            let mut packet = Packet::new(&header, length, 0).unwrap();
            let bytes = packet.extend(length);
            bytes.iter_mut().for_each(|byte| *byte = random() as u8);
            if length > 20 && random().is_multiple_of(2) {
                let (from, to) = if random().is_multiple_of(2) {
                    (own, its)
                } else {
                    (its, own)
                };
                bytes[..2].copy_from_slice(&from.to_be_bytes());
                bytes[2..4].copy_from_slice(&to.to_be_bytes());
                bytes[12] = 0x50 | bytes[12] & 15;
            }
            if random().is_multiple_of(8) {
                let all = packet.bytes_mut();
                let at = random() as usize % all.len();
                all[at] = random() as u8;
            }
            // (As if its checksums were right.)
            (packet.trusted, packet.sum) = (true, Sum::Right);
            b.server.waiting_for_tests(packet);
            b.time_out();
            if random().is_multiple_of(100) {
                let _ = receive(&mut b, u, 1000, 0);
                let _ = receive(&mut b, s, 1000, 0);
                pass(&mut b, 300_000_000);
            }
        }
        for badge in [c, s, l, u] {
            b.close(badge);
        }
        all_gone(&mut b);
    }
}

/// A cable: what one machine sends, the other one receives, or not. One that cuts segments of TCP and makes sums, as devices do, or none.
struct Cable(Sent, bool);

/// Packets on their way.
type Sent = Rc<RefCell<VecDeque<Vec<u8>>>>;

impl Device for Cable {
    fn send(&mut self, _: &mut Context, mut packet: Packet, _: Address) {
        let mut sent = self.0.borrow_mut();
        assert!(packet.cut == 0 || self.1);
        if packet.cut == 0 {
            assert!(packet.bytes().len() <= 1500);
            let place = packet.sum_place().filter(|_| packet.sum == Sum::Missing);
            match place {
                Some((start, at)) if self.1 => {
                    let sum = cairn_ethernet::fragments::checksum(&packet.bytes()[start..]);
                    packet.bytes_mut()[start + at..][..2].copy_from_slice(&sum.to_be_bytes());
                }
                _ => packet.finish(),
            }
            return sent.push_back(packet.bytes().to_vec());
        }
        let whole = packet.bytes();
        let (start, _) = packet.sum_place().unwrap();
        let (head, text) = whole.split_at(start + usize::from(whole[start + 12] >> 4) * 4);
        let sequence = u32::from_be_bytes(*head[start + 4..].first_chunk().unwrap());
        let each = usize::from(packet.cut);
        for (i, part) in text.chunks(each).enumerate() {
            let mut own = [head, part].concat();
            let length = own.len() as u16;
            assert!(length <= 1500);
            own[2..4].copy_from_slice(&length.to_be_bytes());
            own[10..12].fill(0);
            let sum = cairn_ethernet::fragments::checksum(&own[..start]);
            own[10..12].copy_from_slice(&sum.to_be_bytes());
            let at = sequence.wrapping_add((i * each) as u32);
            own[start + 4..start + 8].copy_from_slice(&at.to_be_bytes());
            if (i + 1) * each < text.len() {
                own[start + 13] &= !(1 | 8);
            }
            let mut own = Packet::received(own, 0);
            own.sum = Sum::Missing;
            own.finish();
            sent.push_back(own.bytes().to_vec());
        }
    }

    fn offers(&self) -> Offers {
        Offers {
            sums: self.1,
            cuts: [self.1; 2],
        }
    }
}

/// A machine with this address at a cable, and what it has sent.
fn machine(last: u8, cuts: bool) -> (Bench<Net>, Address, Sent) {
    let mut b = bench();
    let cable = Rc::new(RefCell::new(VecDeque::new()));
    let own = Address::v4([10, 0, 0, last]);
    let interfaces = &mut b.server.interfaces;
    let device = Box::new(Cable(Rc::clone(&cable), cuts));
    let number = interfaces.add(b"eth0", 1500, flag::UP, device);
    let own_address = Own::new(own, 96 + 24);
    interfaces.add_address(number, own_address).unwrap();
    (b, own, cable)
}

/// Two machines at a line that loses, repeats, damages and reorders one packet in ten: every byte arrives, once and in order.
#[test]
fn a_bad_line_between_two_machines() {
    bad_line(false);
}

/// The same where links cut segments.
#[test]
fn a_bad_line_between_two_links_that_cut() {
    bad_line(true);
}

fn bad_line(cuts: bool) {
    let (mut a, _, from_a) = machine(1, cuts);
    let (mut z, at, from_z) = machine(2, cuts);
    let (l, port) = listener(&mut z, at, 5);
    let c = socket(&mut a, INET, STREAM);
    let [low, high, word] = words(at, port);
    a.fake.pass = Some(0);
    let connects = a.send(c, &[net::CONNECT, low, high, word], b"", 0);
    let carry = |a: &mut Bench<Net>, z: &mut Bench<Net>| {
        for (from, to) in [(&from_a, &mut *z), (&from_z, &mut *a)] {
            let mut packets = std::mem::take(&mut *from.borrow_mut());
            if packets.len() > 1 && random().is_multiple_of(10) {
                packets.swap(0, 1);
            }
            for mut bytes in packets {
                let luck = random() % 40;
                if luck == 0 {
                    continue;
                }
                if luck == 1 {
                    to.server.received_for_tests(bytes.clone());
                }
                if luck == 2 {
                    let at = random() as usize % bytes.len();
                    bytes[at] ^= 1 << (random() % 8);
                }
                to.server.received_for_tests(bytes);
            }
            to.time_out();
        }
        for b in [a, z] {
            b.fake.time += 10_000_000;
            b.time_out();
        }
    };
    let mut s = None;
    for _ in 0..3000 {
        carry(&mut a, &mut z);
        s = s.or_else(|| {
            z.fake.pass = Some(0);
            let token = z.send(l, &[net::ACCEPT, 0], b"", 0);
            let accepted = z.answer(token).map(|answer| answer.minted[0]);
            if accepted.is_none() {
                z.interrupt(token);
                z.answer(token);
            }
            accepted
        });
        if s.is_some() {
            break;
        }
    }
    let s = s.unwrap();
    assert_eq!(a.answer(connects).unwrap().result(), 0);
    let text: Vec<u8> = (0..200_000u32)
        .map(|at| (at * 13 + at / 257) as u8)
        .collect();
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..20_000 {
        if sent < text.len() {
            sent += send(&mut a, c, &text[sent..]).max(0) as usize;
        }
        carry(&mut a, &mut z);
        if let Ok(bytes) = receive(&mut z, s, 100_000, 0) {
            got.extend(bytes);
        }
        if got.len() == text.len() {
            break;
        }
    }
    assert!(got == text, "{} of {} bytes", got.len(), text.len());
    a.close(c);
    z.close(s);
    z.close(l);
    for _ in 0..20_000 {
        carry(&mut a, &mut z);
    }
    all_gone(&mut a);
    all_gone(&mut z);
}

/// An instruction of classic BPF, as it lies in memory.
fn instruction(code: u16, k: u32) -> Vec<u8> {
    let mut bytes = code.to_le_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(k.to_le_bytes());
    bytes
}

#[test]
fn programs_choose_among_sockets_and_go_with_them() {
    const SHARE: u64 = 1 << 32 | 15;
    const CHOOSER: u64 = 1 << 32 | 51;
    const NONE: u64 = 1 << 32 | 68;
    let mut b = bench();
    // The first byte, less '0'.
    let digit = [
        instruction(0x30, 0),
        instruction(0x14, b'0'.into()),
        instruction(0x16, 0),
    ];
    let digit = digit.concat();
    let first = socket(&mut b, INET, DATAGRAM);
    let words = [net::SET_OPTION, CHOOSER];
    assert_eq!(result_of(&mut b, first, &words, &digit), -EINVAL, "alone");
    let mut all = Vec::from([first]);
    all.extend((0..2).map(|_| socket(&mut b, INET, DATAGRAM)));
    let mut port = 0;
    for (at, badge) in all.iter().enumerate() {
        assert_eq!(result(&mut b, *badge, &[net::SET_OPTION, SHARE, 1]), 0);
        if at == 0 {
            assert_eq!(result_of(&mut b, first, &words, &digit[..7]), -EINVAL);
            assert_eq!(result_of(&mut b, first, &words, &digit), 0, "before bind");
        }
        assert_eq!(bind(&mut b, *badge, Address::LOOPBACK_V4, port), 0);
        port = name(&mut b, *badge, 0).unwrap().1;
    }
    let from = socket(&mut b, INET, DATAGRAM);
    for nth in [2u8, 0, 1, 1] {
        send_to(&mut b, from, &[b'0' + nth], Address::LOOPBACK_V4, port);
        let got: Vec<bool> = all
            .iter()
            .map(|badge| receive(&mut b, *badge, 9, 0).is_ok())
            .collect();
        let wanted: Vec<bool> = (0..3).map(|at| at == nth).collect();
        assert_eq!(got, wanted);
    }
    assert_eq!(result(&mut b, all[1], &[net::SET_OPTION, NONE, 0]), 0);
    assert_eq!(result(&mut b, all[1], &[net::SET_OPTION, NONE, 0]), -ENOENT);
    assert_eq!(result_of(&mut b, all[2], &words, &digit), 0, "of all again");
    // A filter, and a chooser that never came to a port.
    assert_eq!(result_of(&mut b, from, &[net::FILTER], &digit), 0);
    let unbound = socket(&mut b, INET, DATAGRAM);
    assert_eq!(result(&mut b, unbound, &[net::SET_OPTION, SHARE, 1]), 0);
    assert_eq!(result_of(&mut b, unbound, &words, &digit), 0);
    for badge in all.into_iter().chain([from, unbound]) {
        b.close(badge);
    }
    assert!(b.server.choosers.is_empty());
    all_gone(&mut b);
}

/// A connection has its listener's filter as that was when it came; whoever changes it again and again, and accepts nobody, pays for all of them.
#[test]
fn what_connections_inherit() {
    let mut b = bench();
    let (l, port) = listener(&mut b, Address::LOOPBACK_V4, 64);
    // Everything is taken, by so many instructions.
    let take = |count: usize| [6u8, 0, 0, 0, 0xff, 0xff, 0, 0].repeat(count);
    let paid = |b: &Bench<Net>| b.fake.charged.values().copied().max().unwrap_or(0);
    let before = paid(&b);
    let mut clients = Vec::new();
    for count in 1..=20 {
        let program = take(count * 100);
        assert_eq!(result_of(&mut b, l, &[net::FILTER], &program), 0);
        for _ in 0..2 {
            let c = socket(&mut b, INET, STREAM);
            assert_eq!(connect(&mut b, c, Address::LOOPBACK_V4, port), 0);
            clients.push(c);
        }
    }
    // Some 160 KiB of programs, each of them once.
    let pages = paid(&b) - before;
    assert!(pages >= 40, "{pages} pages");
    assert_eq!(result(&mut b, l, &[net::FILTER]), 0);
    let lengths: Vec<_> = (0..20).map(|_| accept(&mut b, l)).collect();
    let count = |b: &Bench<Net>| {
        let sockets = b.server.sockets.iter();
        let wanted = sockets.filter_map(|(_, socket)| socket.wanted.as_ref());
        wanted.map(|of| of.count()).sum::<usize>()
    };
    assert_eq!(count(&b), 2 * (1..=10).sum::<usize>() * 100);
    // Half of them are never accepted.
    for badge in clients.into_iter().chain(lengths).chain([l]) {
        b.close(badge);
    }
    while b.fake.background {
        b.background();
    }
    all_gone(&mut b);
}

#[test]
fn text_for_who_reads_and_writes_no_more_resets_the_connection() {
    let mut b = bench();
    let [l, c, s] = connection(&mut b, Address::LOOPBACK_V4);
    assert_eq!(result(&mut b, c, &[net::SHUTDOWN, 0]), 0);
    assert_eq!(send(&mut b, s, b"kept"), 4);
    assert_eq!(receive(&mut b, c, 9, 0).unwrap(), b"kept", "as on Linux");
    assert_eq!(result(&mut b, c, &[net::SHUTDOWN, 1]), 0);
    assert_eq!(send(&mut b, s, b"refused"), 7);
    assert_eq!(send(&mut b, s, b"more"), -EPIPE);
    assert_eq!(receive(&mut b, c, 9, 0), Err(-ECONNRESET));
    for badge in [l, c, s] {
        b.close(badge);
    }
    all_gone(&mut b);
}

impl Net {
    /// A packet that the cable brought, for tests: as if it waited in `lo`, but it is from elsewhere.
    fn received_for_tests(&mut self, bytes: Vec<u8>) {
        self.from_cable.push(bytes);
    }
}

impl Net {
    /// A packet that waits in `lo`, for tests.
    fn waiting_for_tests(&mut self, packet: Packet) {
        let interface = self.interfaces.get_mut(LOOPBACK).unwrap();
        if let crate::interface::Link::Loopback { queue, bytes } = &mut interface.link {
            *bytes += packet.memory();
            queue.push_back(packet);
        }
    }
}

#[test]
fn nobody_is_at_port_0_and_who_asks_is_told() {
    let mut b = bench();
    for (family, address) in [(INET, Address::LOOPBACK_V4), (INET6, Address::LOOPBACK)] {
        let s = socket(&mut b, family, STREAM);
        assert_eq!(connect(&mut b, s, address, 0), -ECONNREFUSED);
        let d = socket(&mut b, family, DATAGRAM);
        assert_eq!(send_to(&mut b, d, b"x", address, 0), -EINVAL);
        assert_eq!(connect(&mut b, d, address, 0), 0);
        assert_eq!(send(&mut b, d, b"x"), 1);
        assert_eq!(send(&mut b, d, b"x"), -ECONNREFUSED);
    }
}

#[test]
fn an_address_of_ipv6_makes_a_socket_one_of_ipv6_only() {
    let mut b = bench();
    let only = |b: &mut Bench<Net>, s: u64| {
        let answer = call(b, s, &[net::GET_OPTION, 41 << 32 | 26], b"", 0).unwrap();
        answer.words[1]
    };
    for kind in [STREAM, DATAGRAM] {
        for (address, after) in [(Address::LOOPBACK, 1), (Address::ANY, 0)] {
            let s = socket(&mut b, INET6, kind);
            assert_eq!(only(&mut b, s), 0);
            assert_eq!(bind(&mut b, s, address, 0), 0);
            assert_eq!(only(&mut b, s), after, "{address:?}");
        }
    }
}

/// What a program below the personality does with connect(2) of no family, on 1,000 and on 10,000 sockets.
#[test]
fn many_forget_their_peers_and_keep_only_what_they_asked_for() {
    for many in [1_000, 10_000] {
        let mut b = bench();
        let to = socket(&mut b, INET6, DATAGRAM);
        assert_eq!(bind(&mut b, to, Address::ANY, 5000), 0);
        let mut all = Vec::new();
        for at in 0..many {
            let family = [INET, INET6][at % 2];
            let s = socket(&mut b, family, DATAGRAM);
            let near = [Address::LOOPBACK_V4, Address::LOOPBACK][at % 2];
            // A third of them asked for a port that all share, and a third for an address.
            if at % 3 == 0 {
                let share = [net::SET_OPTION, 1 << 32 | 15, 1, 0];
                assert_eq!(result(&mut b, s, &share), 0);
                let any = [Address::ANY_V4, Address::ANY][at % 2];
                let port = 6000 + (at % 2) as u16;
                assert_eq!(bind(&mut b, s, any, port), 0);
            }
            if at % 3 == 1 {
                assert_eq!(bind(&mut b, s, near, 0), 0);
            }
            all.push((s, near));
        }
        let charged = b.fake.charged.clone();
        let free = b.server.connected.len();
        for round in 0..2 {
            for (s, near) in &all {
                assert_eq!(connect(&mut b, *s, *near, 5000), 0);
            }
            // (Of those with the same two ends one is listed.)
            let listed = many - many.div_ceil(3) + 2;
            assert_eq!(b.server.connected.len(), free + listed);
            for (s, _) in &all {
                assert_eq!(result(&mut b, *s, &[net::CONNECT, 0, 0, 0]), 0);
                // Twice, and with words that mean nothing then.
                let words = [net::CONNECT, random(), random(), random() & !0xffff_0000];
                assert_eq!(result(&mut b, *s, &words), 0, "{words:x?}");
            }
            assert_eq!(b.server.connected.len(), free);
            assert_eq!(b.fake.charged, charged, "{round}");
        }
        for (at, (s, near)) in all.iter().enumerate() {
            let any = [Address::ANY_V4, Address::ANY][at % 2];
            let (address, port) = name(&mut b, *s, 0).unwrap();
            match at % 3 {
                0 => assert_eq!((address, port), (any, 6000 + (at % 2) as u16)),
                1 => assert_eq!((address, port), (*near, 0)),
                _ => assert_eq!((address, port), (any, 0)),
            }
            assert_eq!(name(&mut b, *s, 1), Err(-ENOTCONN));
            b.close(*s);
        }
        b.close(to);
        all_gone(&mut b);
    }
}

#[test]
fn whatever_is_said_to_connect_ends_and_comes_back() {
    let mut b = bench();
    for _ in 0..40 {
        let kinds = [
            (INET, DATAGRAM, 0),
            (INET6, DATAGRAM, 0),
            (INET, STREAM, 0),
            (INET6, STREAM, 0),
            (INET, DATAGRAM, 1),
            (INET6, DATAGRAM, 58),
            (net::NETLINK, net::RAW, 0),
            (INET, net::RAW, 253),
            (net::PACKET, net::RAW, 0),
        ];
        let mut all = Vec::new();
        for (family, kind, protocol) in kinds {
            let words = [net::SOCKET, family, kind, protocol, 0];
            let answer = call(&mut b, 0, &words, b"", 0).unwrap();
            if answer.result() == 0 {
                all.push(answer.minted[0]);
            }
        }
        for _ in 0..300 {
            let s = all[random() as usize % all.len()];
            let address = match random() % 6 {
                0 => Address::LOOPBACK.words(),
                1 => Address::LOOPBACK_V4.words(),
                2 => Address::ANY.words(),
                3 => Address::ANY_V4.words(),
                4 => [0; 2],
                _ => [random(), random()],
            };
            let family = [0, INET, INET6, net::NETLINK, net::PACKET, random() & 0xffff];
            let family = family[random() as usize % 6];
            let port = [0, 9, 5000, random() & 0xffff][random() as usize % 4];
            let scope = [0, 1, random() & 0xffff_ffff][random() as usize % 3];
            let operation = [net::CONNECT, net::CONNECT, net::BIND][random() as usize % 3];
            let words = [
                operation,
                address[0],
                address[1],
                port | family << 16 | scope << 32,
            ];
            let _ = call(&mut b, s, &words, b"", 0);
            if random().is_multiple_of(4) {
                let _ = send(&mut b, s, b"text");
            }
        }
        for s in all {
            b.close(s);
        }
        pass(&mut b, 200_000_000_000);
    }
    all_gone(&mut b);
}
