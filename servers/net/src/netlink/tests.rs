//! Netlink on the bench: what is told of `lo` and of sockets, what user 0 changes, who may not, thousands of things, and messages that nobody in his right mind
//! sends.

use super::message::{flag, word, Attributes, Builder, Message, DONE, ERROR, HEADER};
use crate::address::Address;
use crate::interface::{flag as iff, Device, LOOPBACK};
use crate::packet::Packet;
use crate::Net;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, poll};
use cairn_idl::local::Known;
use cairn_idl::net::{self, msg, with, INET, NETLINK, RAW, STREAM};
use cairn_resmgr::fake::{Answer, Bench};
use cairn_resmgr::Context;
use cairn_rt::Portal;
use proptest::prelude::*;

const ROUTE: u64 = 0;
const SOCK_DIAG: u64 = 4;
const UEVENT: u64 = 15;
/// A user, and a component, which has what its manifest gives it.
const USER: u64 = 1000 | 1000 << 32;
const SYSTEM: u64 = 0;

fn random() -> u64 {
    7
}

struct Nothing;
impl Device for Nothing {
    fn send(&mut self, _: &mut Context, _: Packet, _: Address) {}
}

fn bench(label: u64) -> Bench<Net> {
    let mut b = Bench::new(Net::new(Some(Portal(9)), random), b"net:");
    // Nobody is a process: what a component may its label says.
    b.fake.service = Some(Box::new(|_, _| [u64::MAX; 8]));
    b.label = label;
    b.fake.time = 5_000_000_000;
    b
}

fn call(b: &mut Bench<Net>, badge: u64, words: &[u64], out: &[u8], room: usize) -> Option<Answer> {
    b.fake.pass = Some(0);
    b.call(badge, words, out, room)
}

fn socket(b: &mut Bench<Net>, protocol: u64) -> u64 {
    let answer = call(b, 0, &[net::SOCKET, NETLINK, RAW, protocol, 0], b"", 0).unwrap();
    assert_eq!(answer.result(), 0);
    answer.minted[0]
}

fn bind(b: &mut Bench<Net>, badge: u64, port: u32, groups: u32) -> i64 {
    let low = u64::from(port) | u64::from(groups) << 32;
    let words = [net::BIND, low, 0, NETLINK << 16];
    call(b, badge, &words, b"", 0).unwrap().result()
}

fn send(b: &mut Bench<Net>, badge: u64, bytes: &[u8]) -> i64 {
    let words = [net::SEND, with::ADDRESS, 0, 0, NETLINK << 16];
    call(b, badge, &words, bytes, 0).unwrap().result()
}

fn request(kind: u16, flags: u16, fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
    let mut builder = Builder::new(4096).unwrap();
    assert!(builder.message((kind, flags | flag::REQUEST, 77, 0), fill));
    builder.bytes
}

/// The next datagram; None: nothing waits.
fn next(b: &mut Bench<Net>, badge: u64) -> Option<Vec<u8>> {
    let answer = call(b, badge, &[net::RECEIVE, msg::DONTWAIT], b"", 8192).unwrap();
    match answer.result() {
        count if count > 0 => Some(answer.bytes().to_vec()),
        error => {
            assert_eq!(error, -EAGAIN);
            None
        }
    }
}

fn split(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((message, rest)) = Message::first(bytes) {
        assert_eq!(message.seq, 77);
        all.push((message.kind, message.body().to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    all
}

/// All that a dump brings, without its end.
fn dump(b: &mut Bench<Net>, badge: u64, kind: u16, body: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let asked = request(kind, flag::DUMP, |to| to.put(body));
    assert_eq!(send(b, badge, &asked), asked.len() as i64);
    let mut all = Vec::new();
    loop {
        let Some(bytes) = next(b, badge) else {
            assert!(b.fake.background, "an end");
            b.background();
            continue;
        };
        assert!(bytes.len() <= super::PIECE);
        all.extend(split(&bytes));
        if all.last().is_some_and(|last| last.0 == DONE) {
            all.pop();
            assert_eq!(next(b, badge), None);
            return all;
        }
    }
}

/// What a request is answered, as −errno.
fn ask(b: &mut Bench<Net>, badge: u64, message: &[u8]) -> i64 {
    assert_eq!(send(b, badge, message), message.len() as i64);
    let bytes = next(b, badge).expect("an answer");
    let (message, _) = Message::first(&bytes).unwrap();
    assert_eq!(message.kind, ERROR);
    i64::from(word(message.body(), 0) as i32)
}

const CHANGE: u16 = flag::ACK | flag::CREATE | flag::EXCL;

fn new_address(number: u32, ip: [u8; 4], bits: u8) -> Vec<u8> {
    request(20, CHANGE, |to| {
        to.put(&[2, bits, 0, 0]);
        to.put(&number.to_ne_bytes());
        to.attribute(2, &ip);
    })
}

fn route(
    kind: u16,
    flags: u16,
    (ip, bits): ([u8; 4], u8),
    fill: impl FnOnce(&mut Builder),
) -> Vec<u8> {
    request(kind, flags, |to| {
        to.put(&[2, bits, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]);
        to.attribute(1, &ip);
        fill(to);
    })
}

#[test]
fn who_asks_is_told_of_the_loopback_interface() {
    let mut b = bench(USER);
    let s = socket(&mut b, ROUTE);
    let links = dump(&mut b, s, 18, &[0; 16]);
    assert_eq!(links.len(), 1);
    let (kind, body) = &links[0];
    let attributes = Attributes::behind(body, 16).unwrap();
    assert_eq!(
        (*kind, word(body, 4), attributes.get(3)),
        (16, 1, Some(&b"lo\0"[..]))
    );
    assert_eq!(attributes.word(4), Ok(Some(65_536)));
    let addresses = dump(&mut b, s, 22, &[0; 8]);
    let heads: Vec<_> = addresses.iter().map(|of| of.1[..4].to_vec()).collect();
    assert_eq!(heads, [[2, 8, 0x80, 254], [10, 128, 0x80, 254]]);
    assert_eq!(dump(&mut b, s, 22, &[2, 0, 0, 0, 0, 0, 0, 0]).len(), 1);
    // One by its name, and one that there is not.
    let named = |name: &[u8]| {
        request(18, 0, |to| {
            to.put(&[0; 16]);
            to.attribute(3, name);
        })
    };
    send(&mut b, s, &named(b"lo\0"));
    let answer = next(&mut b, s).unwrap();
    assert_eq!(split(&answer)[0].0, 16);
    assert_eq!(ask(&mut b, s, &named(b"eth7\0")), -ENODEV);
    assert_eq!(
        ask(&mut b, s, &request(18, 0, |to| to.put(&[0; 16]))),
        -EINVAL
    );
    b.label = SYSTEM;
    for (kind, error) in [(16, -ENODEV), (19, -EINVAL)] {
        let nameless = request(kind, flag::ACK, |to| to.put(&[0; 16]));
        assert_eq!(ask(&mut b, s, &nameless), error);
    }
    b.label = USER;
    // The name of the socket, and of who sends.
    let name = call(&mut b, s, &[net::NAME, 0], b"", 0).unwrap();
    assert!(name.words[1] != 0 && name.words[3] == NETLINK << 16);
}

#[test]
fn only_who_may_changes_something() {
    let mut b = bench(USER);
    let s = socket(&mut b, ROUTE);
    assert_eq!(
        ask(&mut b, s, &new_address(LOOPBACK, [127, 0, 0, 2], 8)),
        -EPERM
    );
    let down = request(16, flag::ACK, |to| {
        to.put(&[0; 4]);
        to.put(&1u32.to_ne_bytes());
        to.put(&[0, 0, 0, 0, 1, 0, 0, 0]);
    });
    assert_eq!(ask(&mut b, s, &down), -EPERM);
    let to_lo = route(24, CHANGE, ([10, 0, 0, 0], 8), |to| to.number(4, 1));
    assert_eq!(ask(&mut b, s, &to_lo), -EPERM);
    // And to other programs.
    let words = [net::SEND, with::ADDRESS, 5, 0, NETLINK << 16];
    assert_eq!(call(&mut b, s, &words, &down, 0).unwrap().result(), -EPERM);
    let words = [net::CONNECT, 5, 0, NETLINK << 16];
    assert_eq!(call(&mut b, s, &words, b"", 0).unwrap().result(), -EPERM);
    assert_eq!(
        b.server.interfaces.get(LOOPBACK).unwrap().addresses().len(),
        2
    );
}

#[test]
fn lo_goes_down_and_is_as_before_when_it_comes_back() {
    let mut b = bench(SYSTEM);
    let s = socket(&mut b, ROUTE);
    let flags = |b: &Bench<Net>| b.server.interfaces.get(LOOPBACK).unwrap().flags;
    let before = flags(&b);
    for (up, wanted) in [(0u8, iff::LOOPBACK), (1, before)] {
        let change = request(16, flag::ACK, |to| {
            to.put(&[0; 4]);
            to.put(&1u32.to_ne_bytes());
            to.put(&[up, 0, 0, 0, 1, 0, 0, 0]);
        });
        assert_eq!(ask(&mut b, s, &change), 0);
        assert_eq!(flags(&b), wanted);
    }
}

#[test]
fn addresses_and_routes_come_and_go_and_are_told_of() {
    let mut b = bench(SYSTEM);
    let number =
        b.server
            .interfaces
            .add(b"eth0", 1500, iff::UP | iff::BROADCAST, Box::new(Nothing));
    let (s, listener) = (socket(&mut b, ROUTE), socket(&mut b, ROUTE));
    assert_eq!(bind(&mut b, listener, 0, 0x10 | 0x40 | 1), 0);
    assert_eq!(ask(&mut b, s, &new_address(number, [10, 1, 0, 5], 16)), 0);
    assert_eq!(
        ask(&mut b, s, &new_address(number, [10, 1, 0, 5], 16)),
        -EEXIST
    );
    assert_eq!(ask(&mut b, s, &new_address(9, [10, 1, 0, 5], 16)), -ENODEV);
    assert_eq!(
        ask(&mut b, s, &new_address(number, [10, 1, 0, 5], 33)),
        -EINVAL
    );
    let told = next(&mut b, listener).unwrap();
    assert_eq!(Message::first(&told).unwrap().0.kind, 20);
    let way = b
        .server
        .interfaces
        .way(&Address::v4([10, 1, 7, 7]), 0)
        .unwrap();
    assert_eq!(
        (way.interface, way.source),
        (number, Address::v4([10, 1, 0, 5]))
    );
    assert!(b
        .server
        .interfaces
        .is_broadcast(&Address::v4([10, 1, 255, 255])));
    // By a gateway, which must be a neighbour.
    let by = |gateway: [u8; 4]| {
        route(24, CHANGE, ([10, 9, 0, 0], 16), |to| {
            to.attribute(5, &gateway)
        })
    };
    assert_eq!(ask(&mut b, s, &by([10, 2, 0, 1])), -ENETUNREACH);
    assert_eq!(ask(&mut b, s, &by([10, 1, 0, 1])), 0);
    assert_eq!(ask(&mut b, s, &by([10, 1, 0, 1])), -EEXIST);
    let told = next(&mut b, listener).unwrap();
    assert_eq!(Message::first(&told).unwrap().0.kind, 24);
    let way = b
        .server
        .interfaces
        .way(&Address::v4([10, 9, 7, 7]), 0)
        .unwrap();
    assert_eq!(
        (way.next_hop, way.source),
        (Address::v4([10, 1, 0, 1]), Address::v4([10, 1, 0, 5]))
    );
    let bad = route(24, CHANGE, ([10, 9, 0, 1], 16), |to| to.number(4, number));
    assert_eq!(ask(&mut b, s, &bad), -EINVAL);
    let replaced = route(
        24,
        flag::ACK | flag::REPLACE | flag::CREATE,
        ([10, 9, 0, 0], 16),
        |to| to.attribute(5, &[10, 1, 0, 2]),
    );
    assert_eq!(ask(&mut b, s, &replaced), 0);
    assert_eq!(b.server.interfaces.routes().len(), 2);
    let gone = |ip| route(25, flag::ACK, (ip, 16), |_| {});
    assert_eq!(ask(&mut b, s, &gone([10, 8, 0, 0])), -ESRCH);
    assert_eq!(ask(&mut b, s, &gone([10, 9, 0, 0])), 0);
    // The link goes down, and comes again with the route to its neighbours.
    let link = |flags: u8| {
        request(16, flag::ACK, |to| {
            to.put(&[0; 4]);
            to.put(&number.to_ne_bytes());
            to.put(&[flags, 0, 0, 0, 1, 0, 0, 0]);
        })
    };
    assert_eq!(ask(&mut b, s, &link(0)), 0);
    assert_eq!(
        b.server.interfaces.way(&Address::v4([10, 1, 7, 7]), 0),
        None
    );
    assert_eq!(ask(&mut b, s, &link(1)), 0);
    assert!(b
        .server
        .interfaces
        .way(&Address::v4([10, 1, 7, 7]), 0)
        .is_some());
    let deleted = request(21, flag::ACK, |to| {
        to.put(&[2, 16, 0, 0]);
        to.put(&number.to_ne_bytes());
        to.attribute(2, &[10, 1, 0, 5]);
    });
    assert_eq!(ask(&mut b, s, &deleted), 0);
    assert_eq!(ask(&mut b, s, &deleted), -EADDRNOTAVAIL);
    assert!(b.server.interfaces.routes().is_empty());
    assert!(!b.server.interfaces.is_own(&Address::v4([10, 1, 0, 5])));
}

#[test]
fn thousands_are_told_of_piece_by_piece() {
    let mut b = bench(SYSTEM);
    let number = b
        .server
        .interfaces
        .add(b"eth0", 1500, iff::UP, Box::new(Nothing));
    let s = socket(&mut b, ROUTE);
    for i in 0..1000u32 {
        let [.., x, y] = i.to_be_bytes();
        assert_eq!(ask(&mut b, s, &new_address(number, [10, x, y, 1], 24)), 0);
    }
    assert_eq!(dump(&mut b, s, 22, &[0; 8]).len(), 1002);
    assert_eq!(dump(&mut b, s, 26, &[2; 12]).len(), 1000);
    let way = b
        .server
        .interfaces
        .way(&Address::v4([10, 3, 4, 9]), 0)
        .unwrap();
    assert_eq!(way.source, Address::v4([10, 3, 4, 1]));
    // A second question while the first is answered.
    let asked = request(22, flag::DUMP, |to| to.put(&[0; 8]));
    send(&mut b, s, &asked);
    send(&mut b, s, &asked);
    let mut busy = 0;
    while let Some(bytes) = next(&mut b, s) {
        let of = |(kind, body): &(u16, Vec<u8>)| {
            *kind == ERROR && word(body, 0) as i32 == -(EBUSY as i32)
        };
        busy += split(&bytes).iter().filter(|message| of(message)).count();
    }
    assert_eq!(busy, 1);
}

#[test]
fn sockets_are_told_of() {
    let mut b = bench(USER);
    for i in 0..1000u64 {
        let made = call(&mut b, 0, &[net::SOCKET, INET, STREAM, 0, 0], b"", 0).unwrap();
        let [low, high] = Address::LOOPBACK_V4.words();
        let words = [net::BIND, low, high, (5000 + i) | (INET << 16)];
        assert_eq!(
            call(&mut b, made.minted[0], &words, b"", 0)
                .unwrap()
                .result(),
            0
        );
        let words = [net::LISTEN, 9];
        assert_eq!(
            call(&mut b, made.minted[0], &words, b"", 0)
                .unwrap()
                .result(),
            0
        );
    }
    // Among many that are not asked for.
    for _ in 0..6000 {
        let words = [net::SOCKET, INET, net::DATAGRAM, 0, 0];
        assert_eq!(call(&mut b, 0, &words, b"", 0).unwrap().result(), 0);
    }
    let s = socket(&mut b, SOCK_DIAG);
    let mut asked = [0; 56];
    (asked[0], asked[1]) = (2, 6);
    asked[4..8].copy_from_slice(&(1u32 << 10).to_ne_bytes());
    let all = dump(&mut b, s, 20, &asked);
    assert_eq!(all.len(), 1000);
    let first = &all[0].1;
    assert_eq!(
        (first[0], first[1], &first[4..6]),
        (2, 10, &5000u16.to_be_bytes()[..])
    );
    assert_eq!(
        (&first[8..12], word(first, 60), word(first, 64)),
        (&[127, 0, 0, 1][..], 9, 1000)
    );
    // With details (`ss -i`): INFO and CONG.
    asked[2] = 1 << 1 | 1 << 3;
    let detailed = dump(&mut b, s, 20, &asked);
    assert_eq!(detailed.len(), 1000);
    let further = Attributes::behind(&detailed[0].1, 72).unwrap();
    let info = further.get(2).map(|info| (info.len(), info[0]));
    assert_eq!(info, Some((232, 10)));
    assert_eq!(further.get(4), Some(&b"cubic\0"[..]));
    asked[4..8].fill(0);
    assert!(dump(&mut b, s, 20, &asked).is_empty());
    asked[0] = 1;
    assert_eq!(
        ask(&mut b, s, &request(20, flag::DUMP, |to| to.put(&asked))),
        -ENOENT
    );
}

#[test]
fn names_groups_and_ends() {
    let mut b = bench(USER);
    let (s, t) = (socket(&mut b, UEVENT), socket(&mut b, UEVENT));
    assert_eq!(bind(&mut b, s, 9, 1), 0);
    assert_eq!(bind(&mut b, s, 9, 1), 0);
    assert_eq!(bind(&mut b, s, 8, 1), -EINVAL);
    assert_eq!(bind(&mut b, t, 9, 0), -EADDRINUSE);
    assert_eq!(next(&mut b, s), None);
    for badge in [s, t] {
        b.close(badge);
    }
    assert!(b.server.netlinks.is_empty() && b.server.subscribers.is_empty());
    let t = socket(&mut b, UEVENT);
    assert_eq!(bind(&mut b, t, 9, 0), 0);
    // Names of other families, both ways.
    let words = [net::SEND, with::ADDRESS, 0, 0, INET << 16];
    assert_eq!(call(&mut b, t, &words, b"", 0).unwrap().result(), -EINVAL);
    let other = [net::SOCKET, net::INET6, net::DATAGRAM, 0, 0];
    let other = call(&mut b, 0, &other, b"", 0).unwrap().minted[0];
    let words = [net::SEND, with::ADDRESS, 0, 0, NETLINK << 16];
    assert_eq!(
        call(&mut b, other, &words, b"", 0).unwrap().result(),
        -EAFNOSUPPORT
    );
    // Other protocols, other kinds of requests.
    let words = [net::SOCKET, NETLINK, RAW, 9, 0];
    assert_eq!(
        call(&mut b, 0, &words, b"", 0).unwrap().result(),
        -EPROTONOSUPPORT
    );
    for words in [[net::LISTEN, 1], [net::SHUTDOWN, 2], [net::ACCEPT, 0]] {
        assert_eq!(
            call(&mut b, t, &words, b"", 0).unwrap().result(),
            -EOPNOTSUPP
        );
    }
    let ready = call(&mut b, t, &[fs::POLL, poll::IN | poll::OUT], b"", 0);
    assert!(ready.is_some());
}

#[test]
fn what_is_not_read_is_bounded_and_its_loss_is_told() {
    let mut b = bench(SYSTEM);
    let number = b
        .server
        .interfaces
        .add(b"eth0", 1500, iff::UP, Box::new(Nothing));
    b.label = USER;
    let listener = socket(&mut b, ROUTE);
    assert_eq!(bind(&mut b, listener, 0, 0x10), 0);
    b.label = SYSTEM;
    let s = socket(&mut b, ROUTE);
    for i in 0..3000u32 {
        let [.., x, y] = i.to_be_bytes();
        assert_eq!(ask(&mut b, s, &new_address(number, [10, x, y, 1], 24)), 0);
    }
    b.label = USER;
    let words = [net::RECEIVE, msg::DONTWAIT];
    let first = call(&mut b, listener, &words, b"", 8192).unwrap();
    assert_eq!(first.result(), -ENOBUFS);
    let mut count = 0;
    while next(&mut b, listener).is_some() {
        count += 1;
    }
    assert!((100..3000).contains(&count), "{count}");
    // Who asks and never reads.
    let asked = request(18, 0, |to| {
        to.put(&[0; 4]);
        to.put(&[1, 0, 0, 0]);
        to.put(&[0; 8]);
    });
    for _ in 0..1000 {
        send(&mut b, listener, &asked);
    }
    let (held, limit) = (b.fake.charged.values().sum::<i64>() * 4096, 1 << 20);
    assert!(held < limit, "{held}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever it says of itself: it is answered or passed over, and the socket goes on.
    #[test]
    fn hostile_messages(
        parts in proptest::collection::vec(
            (0u16..40, any::<u16>(), proptest::collection::vec(any::<u8>(), 0..80), -20i32..60),
            1..4,
        ),
        diag in any::<bool>(),
        root in any::<bool>(),
    ) {
        let mut b = bench(if root { SYSTEM } else { USER });
        b.server.interfaces.add(b"eth0", 1500, iff::UP, Box::new(Nothing));
        let s = socket(&mut b, if diag { SOCK_DIAG } else { ROUTE });
        let mut bytes = Vec::new();
        for (kind, flags, body, error) in parts {
            let length = (HEADER + body.len()) as i32 + error.min(8) / 4 * i32::from(error > 30);
            bytes.extend_from_slice(&length.to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(&(flags | 1).to_ne_bytes());
            bytes.extend_from_slice(&[77, 0, 0, 0, 0, 0, 0, 0]);
            bytes.extend_from_slice(&body);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        send(&mut b, s, &bytes);
        for _ in 0..200 {
            let answer = call(&mut b, s, &[net::RECEIVE, msg::DONTWAIT], b"", 8192).unwrap();
            if answer.result() == -EAGAIN {
                break;
            }
        }
        let link = dump(&mut b, s, if diag { 20 } else { 18 }, &[2, 6].iter().copied().chain([0; 54]).collect::<Vec<_>>());
        prop_assert!(diag || link.len() == 2);
    }
}

/// SOCK_DESTROY: only who may, only the one that is meant; both ends hear of it.
#[test]
fn a_connection_is_ended_from_outside() {
    use crate::tests::{connection, name, receive};
    let mut b = bench(USER);
    let [_, client, server] = connection(&mut b, Address::LOOPBACK_V4);
    let (own, other) = (
        name(&mut b, client, 0).unwrap().1,
        name(&mut b, client, 1).unwrap().1,
    );
    let destroy = |own: u16, other: u16, cookie: u64, family: u8, protocol: u8| {
        request(21, flag::ACK, |to| {
            to.put(&[family, protocol, 0, 0]);
            to.put(&[0; 4]);
            to.put(&own.to_be_bytes());
            to.put(&other.to_be_bytes());
            for _ in 0..2 {
                to.put(&[127, 0, 0, 1]);
                to.put(&[0; 12]);
            }
            to.put(&[0; 4]);
            to.put(&cookie.to_ne_bytes());
        })
    };
    let s = socket(&mut b, SOCK_DIAG);
    assert_eq!(ask(&mut b, s, &destroy(own, other, u64::MAX, 2, 6)), -EPERM);
    b.label = 0;
    let s = socket(&mut b, SOCK_DIAG);
    for (message, error) in [
        (destroy(own, other, 4711, 2, 6), -ESTALE),
        (destroy(own, other ^ 1, u64::MAX, 2, 6), -ENOENT),
        (destroy(own, other, u64::MAX, 2, 17), -EOPNOTSUPP),
        (destroy(own, other, u64::MAX, 1, 6), -ENOENT),
        (request(21, flag::ACK, |to| to.put(&[2, 6, 0, 0])), -EINVAL),
    ] {
        assert_eq!(ask(&mut b, s, &message), error);
    }
    assert_eq!(receive(&mut b, client, 10, 0), Err(-EAGAIN));
    assert_eq!(ask(&mut b, s, &destroy(own, other, u64::MAX, 2, 6)), 0);
    assert_eq!(receive(&mut b, client, 10, 0), Err(-ECONNABORTED));
    assert_eq!(receive(&mut b, server, 10, 0), Err(-ECONNRESET));
    assert_eq!(
        ask(&mut b, s, &destroy(own, other, u64::MAX, 2, 6)),
        -ENOENT
    );
    // A record in TIME-WAIT goes too.
    let [_, client, server] = connection(&mut b, Address::LOOPBACK_V4);
    let (own, other) = (
        name(&mut b, client, 0).unwrap().1,
        name(&mut b, client, 1).unwrap().1,
    );
    b.close(client);
    b.close(server);
    assert_eq!(ask(&mut b, s, &destroy(own, other, u64::MAX, 2, 6)), 0);
    assert_eq!(
        ask(&mut b, s, &destroy(own, other, u64::MAX, 2, 6)),
        -ENOENT
    );
}

#[test]
fn a_cookie_comes_to_its_socket_when_its_portal_is_notified() {
    const NOTIFY: u64 = cairn_abi::pulse::NOTIFY;
    let mut b = bench(USER);
    let a = socket(&mut b, ROUTE);
    let words = [net::SOCKET, INET, STREAM, 0, 0];
    let stream = call(&mut b, 0, &words, b"", 0).unwrap().minted[0];
    let bytes: Vec<u8> = (0..32).collect();
    let cookie = |b: &mut Bench<Net>, badge: u64, bytes: &[u8]| {
        let answer = call(b, badge, &[net::COOKIE], bytes, 0).unwrap();
        match answer.minted.first() {
            Some(&portal) => Ok(portal),
            None => Err(answer.result()),
        }
    };
    assert_eq!(cookie(&mut b, a, &bytes[1..]), Err(-EINVAL));
    assert_eq!(cookie(&mut b, stream, &bytes), Err(-EINVAL));
    let (first, second) = (
        cookie(&mut b, a, &bytes).unwrap(),
        cookie(&mut b, a, &bytes).unwrap(),
    );
    assert_ne!(first, second);
    // It is good for nothing else.
    assert_eq!(
        call(&mut b, first, &[net::RECEIVE], b"", 64)
            .unwrap()
            .result(),
        -EBADF
    );
    assert_eq!(next(&mut b, a), None);
    for (value, last) in [(2, 2), (1, 1)] {
        b.pulse(NOTIFY, value, first);
        let told = next(&mut b, a).unwrap();
        assert_eq!((&told[..31], told[31]), (&bytes[..31], last));
    }
    b.pulse(NOTIFY, 3, first);
    b.pulse(NOTIFY, 1, second + 1);
    assert_eq!(next(&mut b, a), None);
    // Each is there as long as its portal, and its socket is not another one's.
    b.close(first);
    b.pulse(NOTIFY, 1, first);
    assert_eq!(next(&mut b, a), None);
    b.close(a);
    let other = socket(&mut b, ROUTE);
    b.pulse(NOTIFY, 1, second);
    assert_eq!(next(&mut b, other), None);
    b.close(second);
    b.close(other);
    b.close(stream);
    assert!(b.server.cookies.iter().next().is_none());
}

/// So many local sockets, of which every 1,000th listens; they are told 50 at a time. How often they were asked for stands beside.
fn with_local(count: u64) -> (Bench<Net>, std::rc::Rc<std::cell::Cell<usize>>) {
    let mut b = bench(USER);
    let asked = std::rc::Rc::new(std::cell::Cell::new(0));
    let its = asked.clone();
    b.server.local = Some(Box::new(move |(place, states, number), into| {
        its.set(its.get() + 1);
        let end = (place + 50).min(count);
        let mut length = 0;
        for at in place..end {
            let state = if at % 1000 == 0 { 10 } else { 1 };
            let own = 2 * (at + 1);
            if match number {
                0 => states >> state & 1 == 0,
                number => number != own,
            } {
                continue;
            }
            let known = Known {
                number: own,
                peer: own,
                kind: 1,
                state,
                met: 1,
                shut: 0,
                uid: 1000,
                received: 3,
                sent: 4,
                receive_limit: 5,
                send_limit: 6,
                name: 5,
                waiting: 1,
                place: at as u32,
            };
            for bytes in [&known.to_bytes()[..], b"\0name", &7u32.to_le_bytes()] {
                into[length..length + bytes.len()].copy_from_slice(bytes);
                length += bytes.len();
            }
        }
        Some((if end < count { end } else { 0 }, length))
    }));
    (b, asked)
}

fn local_question(states: u32, number: u32, show: u32, cookie: u64) -> Vec<u8> {
    let words = [
        1,
        states,
        number,
        show,
        cookie as u32,
        (cookie >> 32) as u32,
    ];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn local_sockets_are_told_each_once() {
    let (mut b, _) = with_local(10_000);
    let badge = socket(&mut b, SOCK_DIAG);
    let all = dump(&mut b, badge, 20, &local_question(!0, 0, 0x7f, 0));
    let numbers: Vec<u32> = all.iter().map(|(_, body)| word(body, 4)).collect();
    assert_eq!(numbers, (1..=10_000).map(|at| 2 * at).collect::<Vec<u32>>());
    let (_, first) = &all[0];
    assert_eq!((first[..3].to_vec(), word(first, 8)), (vec![1, 1, 10], 2));
    let found = Attributes::behind(first, 16).unwrap();
    assert_eq!(found.get(0), Some(&b"\0name"[..]));
    assert_eq!((found.word(2), found.word(3)), (Ok(Some(2)), Ok(Some(7))));
    let words = |kind, at: usize| word(found.get(kind).unwrap(), 4 * at);
    assert_eq!((words(4, 0), words(4, 1)), (3, 4));
    assert_eq!([0, 1, 2, 3, 8].map(|at| words(5, at)), [3, 5, 4, 6, 0]);
    assert_eq!(
        (found.get(6), found.word(7)),
        (Some(&[0][..]), Ok(Some(1000)))
    );
    // Who did not ask for attributes has the one that is always there, and those who wait are a listener's.
    let (_, second) = &dump(&mut b, badge, 20, &local_question(1 << 1, 0, 8, 0))[0];
    assert_eq!(second.len(), 16 + 8);
}

/// Of 10,000 sockets few are looked at in one request: the others in the background, or with the next read.
#[test]
fn a_look_for_few_local_sockets_is_no_walk() {
    let (mut b, asked) = with_local(10_000);
    let badge = socket(&mut b, SOCK_DIAG);
    let before = asked.get();
    let question = local_question(0, 20_000, 1, u64::MAX);
    let message = request(20, flag::ACK, |to| to.put(&question));
    assert_eq!(send(&mut b, badge, &message), message.len() as i64);
    assert_eq!(
        (asked.get() - before, next(&mut b, badge)),
        (super::LOOKS, None)
    );
    assert_eq!(asked.get() - before, 2 * super::LOOKS);
    while b.background() {}
    assert_eq!(asked.get() - before, 200);
    let bytes = next(&mut b, badge).expect("the socket");
    let (found, _) = Message::first(&bytes).unwrap();
    assert_eq!(
        (found.kind, found.flags, word(found.body(), 4)),
        (20, 0, 20_000)
    );
    let end = split(&next(&mut b, badge).expect("that it was done"));
    assert_eq!((end[0].0, word(&end[0].1, 0)), (ERROR, 0));
    assert_eq!(next(&mut b, badge), None);
    // A dump of ten.
    let message = request(20, flag::DUMP, |to| {
        to.put(&local_question(1 << 10, 0, 1, 0))
    });
    let mut found = 0;
    send(&mut b, badge, &message);
    for _ in 0..100 {
        let before = asked.get();
        while b.background() {}
        for (kind, body) in next(&mut b, badge).iter().flat_map(|bytes| split(bytes)) {
            found += usize::from(kind == 20 && body[2] == 10);
        }
        assert!(asked.get() - before <= 200);
    }
    assert_eq!(found, 10);
    // Who goes meanwhile leaves nothing.
    send(&mut b, badge, &message);
    b.close(badge);
    while b.background() {}
}

#[test]
fn questions_about_local_sockets_that_make_no_sense() {
    let (mut b, _) = with_local(3);
    let badge = socket(&mut b, SOCK_DIAG);
    let mut one = |kind, flags, body: &[u8]| {
        let message = request(kind, flags, |to| to.put(body));
        ask(&mut b, badge, &message)
    };
    assert_eq!(one(20, 0, &local_question(!0, 0, 1, u64::MAX)), -EINVAL);
    assert_eq!(one(20, 0, &local_question(!0, 9, 1, u64::MAX)), -ENOENT);
    assert_eq!(one(20, 0, &local_question(!0, 4, 1, 0)), -ESTALE);
    assert_eq!(
        one(20, flag::DUMP, &local_question(!0, 4, 1, 0)[..20]),
        -EINVAL
    );
    assert_eq!(one(21, 0, &[1]), -EOPNOTSUPP);
    // A long question is not quoted whole.
    let mut long = local_question(!0, 9, 1, 0);
    long.resize(4000, 7);
    assert_eq!(one(20, 0, &long), -ENOENT);
    // What `local` says is not believed either.
    for bad in [[255; 64], [0; 64]] {
        b.server.local = Some(Box::new(move |_, into| {
            into[..64].copy_from_slice(&bad);
            Some((5, 64))
        }));
        b.server.local.as_ref().unwrap()((0, 0, 0), &mut [0; 64]);
        let message = request(20, flag::DUMP, |to| to.put(&local_question(!0, 0, 1, 0)));
        send(&mut b, badge, &message);
        while next(&mut b, badge).is_some() {}
    }
    b.server.local = None;
    let message = request(20, flag::DUMP, |to| to.put(&local_question(!0, 0, 1, 0)));
    assert_eq!(ask(&mut b, badge, &message), -ENOENT);
}
