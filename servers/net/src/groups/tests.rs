//! Groups on the bench: a router that asks, members that come and go, and what nobody in his right mind sends.

use super::wire::{Kind, IGMP};
use super::{COST, MOST_V4};
use crate::address::Address;
use crate::interface::Own;
use crate::link::ethernet::{Ethernet, Port};
use crate::link::BADGE;
use crate::packet::{protocol, Header, Packet, Sum};
use crate::Net;
use cairn_abi::pulse;
use cairn_ethernet::frame::{self, Kind as Frame, HEADER};
use cairn_ethernet::Mac;
use cairn_idl::errno::*;
use cairn_idl::net::{self, msg, with, DATAGRAM, INET, INET6};
use cairn_link::Offload;
use cairn_resmgr::fake::Bench;
use cairn_rt::Received;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const MAC: Mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const ROUTER: Mac = [0x52, 0x55, 10, 0, 2, 2];
const OWN: [u8; 4] = [10, 0, 2, 15];
const OWN6: [u8; 16] = [
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb, 0xcc,
];
const ROUTER6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const GROUP: [u8; 4] = [239, 1, 2, 3];
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Default)]
struct Cable(Rc<RefCell<[VecDeque<Vec<u8>>; 2]>>);

impl Port for Cable {
    fn mac(&self) -> Mac {
        MAC
    }
    fn mtu(&self) -> usize {
        1500
    }
    fn is_up(&self) -> bool {
        true
    }
    fn receive(&mut self) -> Option<(Vec<u8>, Sum)> {
        Some((self.0.borrow_mut()[0].pop_front()?, Sum::Made))
    }
    fn send(&mut self, frame: &[u8], _: &Offload) -> bool {
        self.0.borrow_mut()[1].push_back(frame.to_vec());
        true
    }
    fn pulse(&mut self, _: &Received) {}
}

fn random() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static STATE: AtomicU64 = AtomicU64::new(0x9876_5432_1234_5677);
    let mut word = STATE.load(Ordering::Relaxed);
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    STATE.store(word, Ordering::Relaxed);
    word
}

struct Game {
    b: Bench<Net>,
    cable: Cable,
}

fn packet_v4(source: [u8; 4], to: [u8; 4], ttl: u8, body: &[u8]) -> Vec<u8> {
    let header = Header {
        source: Address::v4(source),
        destination: Address::v4(to),
        protocol: IGMP,
        ttl,
        ..Header::default()
    };
    let mut packet = Packet::new(&header, body.len(), 1).unwrap();
    packet.push(body);
    packet.bytes().to_vec()
}

fn summed(mut body: Vec<u8>) -> Vec<u8> {
    body[2..4].fill(0);
    let sum = cairn_ethernet::fragments::checksum(&body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    body
}

impl Game {
    /// A link with an address of each family, and nothing to be sent any more.
    fn new() -> Game {
        let cable = Cable::default();
        let mut b = Bench::new(Net::new(None, random), b"net:");
        b.label = 1000 | 1000 << 32;
        b.fake.time = 5 * SECOND;
        let device = Box::new(Ethernet::new(cable.clone(), random));
        assert!(b.server.add_link(b"eth0", 1500, BADGE, device));
        for (address, bits) in [(Address::v4(OWN), 96 + 24), (Address(OWN6), 64)] {
            let own = Own::new(address, bits);
            let interfaces = &mut b.server.interfaces;
            interfaces.add_address(2, own).unwrap();
        }
        let mut game = Game { b, cable };
        game.pass(4 * SECOND);
        game.cable.0.borrow_mut()[1].clear();
        game
    }

    fn pass(&mut self, ns: u64) {
        let end = self.b.fake.time + ns;
        while self.b.fake.time < end {
            self.b.fake.time = (self.b.fake.time + 50_000_000).min(end);
            self.b.time_out();
        }
    }

    fn arrive(&mut self, kind: Frame, bytes: &[u8]) {
        let mut whole = vec![0; HEADER];
        let to = match kind {
            Frame::Ipv4 => frame::group_v4(bytes[16..20].try_into().unwrap()),
            _ => frame::group_v6(bytes[24..40].try_into().unwrap()),
        };
        frame::write_header(&mut whole, to, ROUTER, kind);
        whole.extend_from_slice(bytes);
        self.cable.0.borrow_mut()[0].push_back(whole);
        self.b.pulse(pulse::NOTIFY, 1, BADGE);
    }

    /// What was said of groups of IPv4 since: the packets' destinations and messages.
    fn said(&mut self) -> Vec<([u8; 4], Vec<u8>)> {
        let mut all = Vec::new();
        for frame in self.cable.0.borrow_mut()[1].drain(..) {
            let packet = &frame[HEADER..];
            if frame[12..14] != [8, 0] || packet[9] != IGMP {
                continue;
            }
            assert_eq!((packet[0], packet[8]), (0x46, 1), "an option, one hop");
            assert_eq!(packet[20..24], [148, 4, 0, 0]);
            assert_eq!(packet[12..16], OWN);
            assert_eq!(cairn_ethernet::fragments::checksum(&packet[..24]), 0);
            assert_eq!(cairn_ethernet::fragments::checksum(&packet[24..]), 0);
            let to: [u8; 4] = packet[16..20].try_into().unwrap();
            assert_eq!(frame[..6], frame::group_v4(to));
            all.push((to, packet[24..].to_vec()));
        }
        all
    }

    /// Records of reports: kind, group, sources.
    fn records(&mut self) -> Vec<(u8, [u8; 4], Vec<[u8; 4]>)> {
        let mut all = Vec::new();
        for (to, message) in self.said() {
            assert_eq!((to, message[0]), ([224, 0, 0, 22], 0x22));
            let count = u16::from_be_bytes([message[6], message[7]]);
            let mut rest = &message[8..];
            for _ in 0..count {
                let sources = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
                let (words, _) = rest.as_chunks::<4>();
                all.push((rest[0], words[1], words[2..2 + sources].to_vec()));
                rest = &rest[8 + 4 * sources..];
            }
            assert!(rest.is_empty());
        }
        all
    }

    /// Groups of MLDv2 reports, and the kinds of their records.
    fn records6(&mut self) -> Vec<(u8, [u8; 16])> {
        let mut all = Vec::new();
        for frame in self.cable.0.borrow_mut()[1].drain(..) {
            let packet = &frame[HEADER..];
            if frame[12..14] != [0x86, 0xdd] || packet[6] != 0 || packet[48] != 143 {
                continue;
            }
            assert_eq!((packet[7], packet[39]), (1, 0x16), "one hop, to routers");
            assert_eq!(packet[8..24], OWN6);
            assert_eq!(packet[40..48], [58, 0, 5, 2, 0, 0, 1, 0]);
            let (message, count) = (&packet[48..], packet[55]);
            let mut rest = &message[8..];
            for _ in 0..count {
                let sources = usize::from(rest[3]);
                all.push((rest[0], rest[4..20].try_into().unwrap()));
                rest = &rest[20 + 16 * sources..];
            }
        }
        all
    }

    fn socket(&mut self, family: u64) -> u64 {
        self.b.fake.pass = Some(0);
        let words = [net::SOCKET, family, DATAGRAM, 0, 0];
        self.b.call(0, &words, b"", 0).unwrap().minted[0]
    }

    fn call(&mut self, badge: u64, words: &[u64], out: &[u8]) -> i64 {
        self.b.fake.pass = Some(0);
        let answer = self.b.call(badge, words, out, 0);
        answer.map_or(i64::MIN, |answer| answer.result())
    }

    fn set(&mut self, badge: u64, level: u64, number: u64, value: &[u8]) -> i64 {
        self.call(badge, &[net::SET_OPTION, level << 32 | number], value)
    }

    fn join(&mut self, badge: u64, group: [u8; 4]) -> i64 {
        let value = [group, [0; 4], [2, 0, 0, 0]].concat();
        self.set(badge, 0, 35, &value)
    }

    fn leave(&mut self, badge: u64, group: [u8; 4]) -> i64 {
        let value = [group, [0; 4], [2, 0, 0, 0]].concat();
        self.set(badge, 0, 36, &value)
    }

    fn source(&mut self, badge: u64, number: u64, last: u8) -> i64 {
        let value = [GROUP, OWN, [10, 0, 9, last]].concat();
        self.set(badge, 0, number, &value)
    }

    fn join6(&mut self, badge: u64, group: [u8; 16]) -> i64 {
        let value = [&group[..], &[2, 0, 0, 0]].concat();
        self.set(badge, 41, 20, &value)
    }

    fn bind(&mut self, badge: u64, family: u64, port: u64) -> i64 {
        let any = if family == INET {
            Address::ANY_V4
        } else {
            Address::ANY
        };
        let [low, high] = any.words();
        self.set(badge, 1, 2, b"");
        self.call(badge, &[net::SET_OPTION, 1 << 32 | 2, 1], b"");
        self.call(badge, &[net::BIND, low, high, port | family << 16], b"")
    }

    fn receive(&mut self, badge: u64) -> Result<Vec<u8>, i64> {
        self.b.fake.pass = Some(0);
        let words = [net::RECEIVE, msg::DONTWAIT];
        let answer = self.b.call(badge, &words, b"", 2000).unwrap();
        match answer.result() {
            0.. => Ok(answer.data[..answer.result() as usize].to_vec()),
            error => Err(error),
        }
    }

    fn query(&mut self, to: [u8; 4], body: Vec<u8>) {
        let packet = packet_v4([10, 0, 2, 2], to, 1, &summed(body));
        self.arrive(Frame::Ipv4, &packet);
    }

    fn all_gone(&mut self) {
        self.pass(5 * SECOND);
        let (memberships, groups) = self.b.server.groups.counts();
        // (One for the address that the link has by itself.)
        assert_eq!((memberships, groups), (0, 1));
        assert!(self.b.server.groups.by_socket.is_empty() && self.b.server.groups.sets.is_empty());
        assert_eq!(self.b.server.groups.places.len(), 1);
        let charged = self.b.fake.charged.values().copied().max().unwrap_or(0);
        assert!(charged <= 32, "{charged} pages");
    }
}

const JOINED: u8 = Kind::ToExclude as u8;
const LEFT: u8 = Kind::ToInclude as u8;
const IS: u8 = Kind::IsExclude as u8;

#[test]
fn who_comes_and_goes_is_told_twice() {
    let mut game = Game::new();
    let (a, b) = (game.socket(INET), game.socket(INET));
    assert_eq!(game.join(a, GROUP), 0);
    assert_eq!(game.records(), [(JOINED, GROUP, vec![])]);
    // A second member is no news.
    assert_eq!(game.join(b, GROUP), 0);
    assert_eq!(game.records(), []);
    game.pass(3 * SECOND);
    assert_eq!(game.records(), [(JOINED, GROUP, vec![])]);
    assert_eq!(game.leave(a, GROUP), 0);
    assert_eq!(game.records(), []);
    // The last one goes with its socket.
    game.b.close(b);
    assert_eq!(game.records(), [(LEFT, GROUP, vec![])]);
    game.pass(3 * SECOND);
    assert_eq!(game.records(), [(LEFT, GROUP, vec![])]);
    // Nothing is said of all nodes.
    assert_eq!(game.join(a, [224, 0, 0, 1]), 0);
    assert_eq!(game.records(), []);
    game.b.close(a);
    game.all_gone();
}

#[test]
fn sources_are_told_as_they_change() {
    let mut game = Game::new();
    let (a, b) = (game.socket(INET), game.socket(INET));
    let ip = |last| [10, 0, 9, last];
    assert_eq!(game.source(a, 39, 1), 0);
    assert_eq!(game.records(), [(Kind::Allow as u8, GROUP, vec![ip(1)])]);
    assert_eq!(game.source(a, 39, 2), 0);
    assert_eq!(game.records(), [(Kind::Allow as u8, GROUP, vec![ip(2)])]);
    game.pass(3 * SECOND);
    assert_eq!(game.records(), [(LEFT, GROUP, vec![ip(1), ip(2)])]);
    assert_eq!(game.source(a, 39, 3), 0);
    assert_eq!(game.source(a, 40, 3), 0);
    game.said();
    game.pass(3 * SECOND);
    game.said();
    // Another one wants all but the first: it is wanted, since somebody wants it.
    assert_eq!(game.join(b, GROUP), 0);
    assert_eq!(game.records(), [(JOINED, GROUP, vec![])]);
    assert_eq!(game.source(b, 38, 1), 0);
    assert_eq!(game.source(b, 38, 9), 0);
    assert_eq!(game.records(), [(Kind::Block as u8, GROUP, vec![ip(9)])]);
    assert_eq!(game.leave(a, GROUP), 0);
    assert_eq!(game.records(), [(Kind::Block as u8, GROUP, vec![ip(1)])]);
    game.b.close(a);
    game.b.close(b);
    game.pass(3 * SECOND);
    game.said();
    // The last source, and with it the group.
    let c = game.socket(INET);
    assert_eq!(game.source(c, 39, 1), 0);
    game.pass(3 * SECOND);
    assert_eq!(game.records().len(), 2);
    game.b.close(c);
    game.pass(3 * SECOND);
    let block = (Kind::Block as u8, GROUP, vec![ip(1)]);
    assert_eq!(game.records(), [block.clone(), block]);
    game.all_gone();
}

#[test]
fn a_router_that_asks_is_answered_in_time() {
    let mut game = Game::new();
    let mut sockets = Vec::new();
    for number in 0..200u8 {
        if number % MOST_V4 as u8 == 0 {
            sockets.push(game.socket(INET));
        }
        assert_eq!(game.join(*sockets.last().unwrap(), [239, 9, 0, number]), 0);
    }
    game.pass(3 * SECOND);
    game.said();
    // All groups, within two seconds.
    game.query(
        [224, 0, 0, 1],
        vec![0x11, 20, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0],
    );
    assert_eq!(game.records(), []);
    game.pass(3 * SECOND);
    let mut told: Vec<u8> = Vec::new();
    for (kind, group, sources) in game.records() {
        assert_eq!(
            (kind, &group[..3], sources.len()),
            (IS, &[239, 9, 0][..], 0)
        );
        told.push(group[3]);
    }
    told.sort_unstable();
    assert_eq!(told, (0..200).collect::<Vec<u8>>());
    // One group; one that nobody is in; one source of it.
    let one = [239, 9, 0, 7];
    game.query(one, [&[0x11, 20, 0, 0][..], &one, &[2, 125, 0, 0]].concat());
    game.query(
        [239, 8, 8, 8],
        vec![0x11, 20, 0, 0, 239, 8, 8, 8, 2, 125, 0, 0],
    );
    game.pass(3 * SECOND);
    assert_eq!(game.records(), [(IS, one, vec![])]);
    let source = [10, 0, 9, 1];
    let asked = [&[0x11, 20, 0, 0][..], &one, &[2, 125, 0, 1], &source].concat();
    game.query(one, asked);
    game.pass(3 * SECOND);
    assert_eq!(game.records(), [(Kind::IsInclude as u8, one, vec![source])]);
    // Through a router; from this machine itself; with a wrong checksum; of all groups to one of them.
    let all = summed(vec![0x11, 20, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]);
    let mut wrong = all.clone();
    wrong[2] ^= 1;
    for (source, to, ttl, body) in [
        ([10, 0, 2, 2], [224, 0, 0, 1], 64, &all),
        (OWN, [224, 0, 0, 1], 1, &all),
        ([10, 0, 2, 2], [224, 0, 0, 1], 1, &wrong),
        ([10, 0, 2, 2], one, 1, &all),
    ] {
        game.arrive(Frame::Ipv4, &packet_v4(source, to, ttl, body));
    }
    game.pass(3 * SECOND);
    assert_eq!(game.records(), []);
    for socket in sockets {
        game.b.close(socket);
    }
    game.all_gone();
}

#[test]
fn an_older_router_is_spoken_to_in_its_way() {
    let mut game = Game::new();
    let a = game.socket(INET);
    assert_eq!(game.join(a, GROUP), 0);
    game.pass(3 * SECOND);
    game.said();
    game.query([224, 0, 0, 1], vec![0x11, 20, 0, 0, 0, 0, 0, 0]);
    game.pass(3 * SECOND);
    let report = |kind: u8| summed(vec![kind, 0, 0, 0, 239, 1, 2, 3]);
    assert_eq!(game.said(), [(GROUP, report(0x16))]);
    // Somebody else says it first.
    game.query([224, 0, 0, 1], vec![0x11, 20, 0, 0, 0, 0, 0, 0]);
    let other = packet_v4([10, 0, 2, 9], GROUP, 1, &report(0x16));
    game.arrive(Frame::Ipv4, &other);
    game.pass(3 * SECOND);
    assert_eq!(game.said(), []);
    assert_eq!(game.leave(a, GROUP), 0);
    assert_eq!(game.said(), [([224, 0, 0, 2], report(0x17))]);
    assert_eq!(game.join(a, GROUP), 0);
    assert_eq!(game.said(), [(GROUP, report(0x16))]);
    game.pass(3 * SECOND);
    assert_eq!(game.said(), [(GROUP, report(0x16))]);
    // The first version has no message for leaving.
    game.query([224, 0, 0, 1], vec![0x11, 0, 0, 0, 0, 0, 0, 0]);
    game.pass(12 * SECOND);
    assert_eq!(game.said(), [(GROUP, report(0x12))]);
    assert_eq!(game.leave(a, GROUP), 0);
    assert_eq!(game.said(), []);
    // It was not heard for long.
    game.pass(300 * SECOND);
    assert_eq!(game.join(a, GROUP), 0);
    assert_eq!(game.records(), [(JOINED, GROUP, vec![])]);
    game.b.close(a);
    game.all_gone();
}

#[test]
fn groups_of_ipv6() {
    let mut game = Game::new();
    let a = game.socket(INET6);
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 5, 9);
    assert_eq!(game.join6(a, group), 0);
    assert_eq!(game.records6(), [(JOINED, group)]);
    game.pass(3 * SECOND);
    assert_eq!(game.records6(), [(JOINED, group)]);
    let mut all = [0; 16];
    (all[0], all[1], all[15]) = (0xff, 2, 1);
    let query = |limit: u8, source: [u8; 16]| {
        let header = Header {
            source: Address(source),
            destination: Address(all),
            ttl: limit,
            ..Header::default()
        };
        let mut body = vec![0; 28];
        (body[0], body[4], body[5], body[24], body[25]) = (130, 7, 0xd0, 2, 125);
        let protocol = protocol::ICMP_V6;
        let sum = crate::packet::checksum(&Header { protocol, ..header }, &body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = Packet::new(&header, 8 + body.len(), 0).unwrap();
        packet.push(&[58, 0, 5, 2, 0, 0, 1, 0]);
        packet.push(&body);
        packet.bytes().to_vec()
    };
    game.arrive(Frame::Ipv6, &query(1, ROUTER6));
    game.pass(3 * SECOND);
    let own = super::solicited(&Address(cairn_ethernet::autoconf::ALL_NODES));
    let mut own = own.0;
    own[13..].copy_from_slice(&MAC[3..]);
    assert_eq!(game.records6(), [(IS, group), (IS, own)]);
    // Through a router; not from this link.
    let mut far = ROUTER6;
    (far[0], far[1]) = (0x20, 1);
    game.arrive(Frame::Ipv6, &query(64, ROUTER6));
    game.arrive(Frame::Ipv6, &query(1, far));
    game.pass(3 * SECOND);
    assert_eq!(game.records6(), []);
    game.b.close(a);
    assert_eq!(game.records6(), [(LEFT, group)]);
    game.all_gone();
}

#[test]
fn a_datagram_for_many_comes_in_pieces() {
    let mut game = Game::new();
    let members: Vec<u64> = (0..200).map(|_| game.socket(INET)).collect();
    for member in &members {
        assert_eq!(game.bind(*member, INET, 5353), 0);
    }
    assert_eq!(game.join(members[0], GROUP), 0);
    let sender = game.socket(INET);
    assert_eq!(game.set(sender, 0, 32, &OWN), 0);
    let [low, high] = Address::v4(GROUP).words();
    let words = [net::SEND, with::ADDRESS, low, high, 5353 | INET << 16];
    let send = |game: &mut Game, text: &[u8]| game.call(sender, &words, text);
    let heard = |game: &mut Game| {
        let heard = members.iter().map(|member| game.receive(*member));
        heard.filter(|text| text.is_ok()).count()
    };
    assert_eq!(send(&mut game, b"all"), 3);
    assert_eq!(heard(&mut game), 64);
    assert!(game.b.background());
    assert_eq!(heard(&mut game), 64);
    while game.b.background() {}
    assert_eq!(heard(&mut game), 72);
    // Of more than wait for their turn the rest is lost, and nothing else.
    for _ in 0..40 {
        assert_eq!(send(&mut game, b"flood"), 5);
    }
    while game.b.background() {}
    let mut each = members
        .iter()
        .map(|member| core::iter::from_fn(|| game.receive(*member).ok()).count());
    let all: Vec<usize> = each.by_ref().collect();
    assert_eq!((all[0], all[199]), (40, 16));
    // A socket that goes meanwhile does no harm.
    assert_eq!(send(&mut game, b"all"), 3);
    for member in &members {
        game.b.close(*member);
    }
    while game.b.background() {}
    game.b.fake.no_background = true;
    let late: Vec<u64> = (0..200).map(|_| game.socket(INET)).collect();
    for member in &late {
        assert_eq!(game.bind(*member, INET, 5353), 0);
    }
    assert_eq!(game.join(late[0], GROUP), 0);
    assert_eq!(send(&mut game, b"all"), 3);
    let heard = late.iter().filter(|member| game.receive(**member).is_ok());
    assert_eq!(heard.count(), 200);
}

#[test]
fn each_member_has_its_copy_and_pays_for_it() {
    let mut game = Game::new();
    let members: Vec<u64> = (0..3).map(|_| game.socket(INET)).collect();
    for member in &members {
        assert_eq!(game.bind(*member, INET, 7009), 0);
    }
    let sender = game.socket(INET);
    let word = |port: u64| port | INET << 16;
    let send = |game: &mut Game, bytes: &[u8]| {
        let [low, high] = Address::v4(GROUP).words();
        let words = [
            net::SEND,
            msg::DONTWAIT | with::ADDRESS,
            low,
            high,
            word(7009),
        ];
        game.call(sender, &words, bytes)
    };
    // No route.
    assert_eq!(send(&mut game, b"x"), -ENETUNREACH);
    assert_eq!(game.set(sender, 0, 32, &OWN), 0);
    // Nobody is in it: it leaves, and nobody hears it.
    assert_eq!(send(&mut game, b"nobody"), 6);
    assert_eq!(game.receive(members[0]), Err(-EAGAIN));
    assert_eq!(game.join(members[0], GROUP), 0);
    game.call(members[2], &[net::SET_OPTION, 49, 0], b"");
    game.cable.0.borrow_mut()[1].clear();
    assert_eq!(send(&mut game, b"hello"), 5);
    assert_eq!(game.receive(members[0]), Ok(b"hello".to_vec()));
    // As on Linux (IP_MULTICAST_ALL) also who did not ask, but not who says so.
    assert_eq!(game.receive(members[1]), Ok(b"hello".to_vec()));
    assert_eq!(game.receive(members[2]), Err(-EAGAIN));
    let out: Vec<Vec<u8>> = game.cable.0.borrow_mut()[1].drain(..).collect();
    assert_eq!((out.len(), &out[0][..6]), (1, &frame::group_v4(GROUP)[..]));
    // It stays in the machine; it is not heard here.
    game.call(sender, &[net::SET_OPTION, 33, 0], b"");
    assert_eq!(send(&mut game, b"here"), 4);
    assert!(game.cable.0.borrow()[1].is_empty());
    assert_eq!(game.receive(members[0]), Ok(b"here".to_vec()));
    game.call(sender, &[net::SET_OPTION, 33, 1], b"");
    game.call(sender, &[net::SET_OPTION, 34, 0], b"");
    assert_eq!(send(&mut game, b"there"), 5);
    assert_eq!(game.cable.0.borrow()[1].len(), 1);
    assert_eq!(game.receive(members[0]), Err(-EAGAIN));
    for badge in members.into_iter().chain([sender]) {
        game.b.close(badge);
    }
    game.all_gone();
}

#[test]
fn an_account_has_its_end_and_others_are_unharmed() {
    let mut game = Game::new();
    // (Of other users.)
    let other = game.socket(INET6);
    game.b.label = 1001 | 1001 << 32;
    game.b.fake.charge_limit = Some(200);
    let mut sockets = Vec::new();
    let mut joined = 0;
    'all: loop {
        game.b.fake.pass = Some(0);
        let words = [net::SOCKET, INET6, DATAGRAM, 0, 0];
        let Some(badge) = game
            .b
            .call(0, &words, b"", 0)
            .unwrap()
            .minted
            .first()
            .copied()
        else {
            break;
        };
        sockets.push(badge);
        for number in 0..2048u32 {
            let mut group = [0; 16];
            (group[0], group[1], group[10]) = (0xff, 5, sockets.len() as u8);
            group[12..].copy_from_slice(&number.to_be_bytes());
            match game.join6(badge, group) {
                0 => joined += 1,
                error => {
                    assert_eq!(error, -ENOMEM);
                    if sockets.len() > 3 {
                        break 'all;
                    }
                    break;
                }
            }
        }
    }
    assert!(joined * COST <= 200 * 4096, "{joined}");
    assert!(joined > 100);
    game.b.label = 1000 | 1000 << 32;
    let mut group = [0; 16];
    (group[0], group[1]) = (0xff, 5);
    assert_eq!(game.join6(other, group), 0);
    for badge in sockets.into_iter().chain([other]) {
        game.b.close(badge);
    }
    game.all_gone();
}

#[test]
fn who_comes_and_goes_all_the_time_pays_for_what_is_still_told() {
    let mut game = Game::new();
    let a = game.socket(INET);
    for number in 0..20_000u32 {
        let [_, _, c, d] = number.to_be_bytes();
        let group = [239, 7, c, d];
        if game.join(a, group) == 0 {
            assert_eq!(game.leave(a, group), 0);
        }
        game.cable.0.borrow_mut()[1].clear();
    }
    game.b.close(a);
    game.all_gone();
}

#[test]
fn nothing_that_comes_harms() {
    let mut game = Game::new();
    let (a, six) = (game.socket(INET), game.socket(INET6));
    assert_eq!(game.join(a, GROUP), 0);
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 2, 9);
    assert_eq!(game.join6(six, group), 0);
    for round in 0..20_000u32 {
        let length = random() as usize % 64 + 8;
        let mut body: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        if round % 2 == 0 {
            body[0] = [0x11, 0x12, 0x16, 0x22][random() as usize % 4];
            if random().is_multiple_of(2) {
                body[4..8].copy_from_slice(&GROUP);
            }
            let to = if random().is_multiple_of(2) {
                GROUP
            } else {
                [224, 0, 0, 1]
            };
            let packet = packet_v4([10, 0, 2, 2], to, 1, &summed(body));
            game.arrive(Frame::Ipv4, &packet);
        } else {
            body[0] = [130, 131, 132, 143][random() as usize % 4];
            if random().is_multiple_of(2) && body.len() >= 24 {
                body[8..24].copy_from_slice(&group);
            }
            let header = Header {
                source: Address(ROUTER6),
                destination: Address(group),
                protocol: protocol::ICMP_V6,
                ttl: 1,
                ..Header::default()
            };
            body[2..4].fill(0);
            let sum = crate::packet::checksum(&header, &body);
            body[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut packet = Packet::new(&header, body.len(), 0).unwrap();
            packet.push(&body);
            game.arrive(Frame::Ipv6, packet.bytes());
        }
        if round % 16 == 0 {
            game.pass(200_000_000);
            game.cable.0.borrow_mut()[1].clear();
        }
    }
    game.b.close(a);
    game.b.close(six);
    game.pass(20 * SECOND);
    game.all_gone();
}

#[test]
fn no_option_harms() {
    let mut game = Game::new();
    for round in 0..20_000u32 {
        let family = if round % 2 == 0 { INET } else { INET6 };
        let a = game.socket(family);
        for _ in 0..4 {
            let length = random() as usize % 300;
            let mut value: Vec<u8> = (0..length).map(|_| random() as u8 & 3).collect();
            if value.len() > 12 && random().is_multiple_of(2) {
                value[..4].copy_from_slice(&GROUP);
                value[8..12].copy_from_slice(&2u32.to_le_bytes());
            }
            let (level, number) = ([0, 41][random() as usize % 2], random() % 32 + 20);
            game.set(a, level, number, &value);
            game.call(a, &[net::GET_OPTION, level << 32 | number], &value);
        }
        game.b.close(a);
        game.cable.0.borrow_mut()[1].clear();
        if round % 64 == 0 {
            game.pass(SECOND);
        }
    }
    game.all_gone();
}
