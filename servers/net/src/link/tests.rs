//! A link whose other end is the test: a router that gives an address, answers for itself, and sends what nobody in his right mind sends.

use super::ethernet::{Ethernet, Port};
use super::BADGE;
use crate::address::Address;
use crate::interface::{Offers, Own};
use crate::packet::{protocol, Header, Packet, Sum};
use crate::Net;
use cairn_abi::pulse;
use cairn_ethernet::fragments::{Fragments, Outcome, PATIENCE_V4, PATIENCE_V6};
use cairn_ethernet::frame::{self, Arp, Kind, HEADER};
use cairn_ethernet::{Ip, Mac, BROADCAST};
use cairn_idl::net::{self, msg, with, DATAGRAM, INET};
use cairn_link::Offload;
use cairn_resmgr::fake::Bench;
use cairn_rt::Received;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const MAC: Mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const ROUTER: (Mac, Ip) = ([0x52, 0x55, 10, 0, 2, 2], [10, 0, 2, 2]);
const OWN: Ip = [10, 0, 2, 15];

#[derive(Default)]
struct Wire {
    /// To the machine, and from it.
    to: VecDeque<Vec<u8>>,
    from: VecDeque<Vec<u8>>,
    /// Frames that the port still takes.
    room: usize,
    down: bool,
    offers: Offers,
    /// What the link says of each frame that comes, and what was left to it of the last one that left.
    says: Sum,
    left: Offload,
}

#[derive(Clone, Default)]
struct Cable(Rc<RefCell<Wire>>);

impl Port for Cable {
    fn mac(&self) -> Mac {
        MAC
    }
    fn mtu(&self) -> usize {
        1500
    }
    fn is_up(&self) -> bool {
        !self.0.borrow().down
    }
    fn receive(&mut self) -> Option<(Vec<u8>, Sum)> {
        let mut wire = self.0.borrow_mut();
        Some((wire.to.pop_front()?, wire.says))
    }
    fn send(&mut self, frame: &[u8], offload: &Offload) -> bool {
        let mut wire = self.0.borrow_mut();
        wire.left = *offload;
        let room = wire.room > 0;
        if room {
            wire.room -= 1;
            wire.from.push_back(frame.to_vec());
        }
        room
    }
    fn pulse(&mut self, _: &Received) {}
    fn offers(&self) -> Offers {
        self.0.borrow().offers
    }
}

fn random() -> u64 {
    4
}

struct Game {
    bench: Bench<Net>,
    cable: Cable,
}

/// A packet of UDP.
fn datagram(from: (Ip, u16), to: (Ip, u16), bytes: &[u8]) -> Vec<u8> {
    let header = Header {
        source: Address::v4(from.0),
        destination: Address::v4(to.0),
        protocol: protocol::UDP,
        ttl: 64,
        ..Header::default()
    };
    let mut packet = Packet::new(&header, 8 + bytes.len(), 7).unwrap();
    packet.push(&from.1.to_be_bytes());
    packet.push(&to.1.to_be_bytes());
    packet.push(&(8 + bytes.len() as u16).to_be_bytes());
    packet.push(&[0, 0]);
    packet.push(bytes);
    packet.bytes().to_vec()
}

impl Game {
    fn new() -> Game {
        let cable = Cable::default();
        cable.0.borrow_mut().room = usize::MAX;
        let mut bench = Bench::new(Net::new(None, random), b"net:");
        bench.label = 1000 | 1000 << 32;
        bench.fake.time = 5_000_000_000;
        let device = Box::new(Ethernet::new(cable.clone(), random));
        assert!(bench.server.add_link(b"eth0", 1500, BADGE, device));
        Game { bench, cable }
    }

    /// With an address of its own.
    fn configured() -> Game {
        let mut game = Game::new();
        game.pulse();
        game.pass(0);
        let discover = game.sent().expect("a message");
        game.offer(&discover, 2);
        game.pass(0);
        let request = game.sent().expect("a message");
        game.offer(&request, 5);
        assert!(game.bench.server.interfaces.is_own(&Address::v4(OWN)));
        game
    }

    /// The words of an answer.
    fn told(&mut self, badge: u64, words: &[u64], out: &[u8]) -> [u64; 8] {
        self.bench.fake.pass = Some(0);
        self.bench.call(badge, words, out, 200).unwrap().words
    }

    fn pulse(&mut self) {
        self.bench.pulse(pulse::NOTIFY, 1, BADGE);
    }

    fn pass(&mut self, nanoseconds: u64) {
        self.bench.fake.time += nanoseconds;
        self.bench.time_out();
    }

    /// The next frame that it has sent, but for those of IPv6.
    fn sent(&mut self) -> Option<Vec<u8>> {
        self.sent_of(false)
    }

    /// The next frame of IPv6; who asks for a neighbour is told that it is [`FRIEND6`].
    fn sent6(&mut self) -> Option<Vec<u8>> {
        let asks = |frame: &[u8]| frame[HEADER + 6] == 58 && frame[HEADER + 40] == 135;
        loop {
            let frame = self.sent_of(true)?;
            if !asks(&frame) {
                return Some(frame);
            }
            let mut answer = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
            answer.extend(FRIEND6);
            answer.extend([2, 1]);
            answer.extend(ROUTER.0);
            let answer = message6(FRIEND6, LOCAL6, 255, &answer);
            self.arrive(MAC, Kind::Ipv6, &answer);
        }
    }

    fn sent_of(&mut self, v6: bool) -> Option<Vec<u8>> {
        let from = &mut self.cable.0.borrow_mut().from;
        let at = from
            .iter()
            .position(|frame| (frame[12..14] == [0x86, 0xdd]) == v6)?;
        from.remove(at)
    }

    fn arrive(&mut self, to: Mac, kind: Kind, bytes: &[u8]) {
        let mut whole = vec![0; HEADER];
        frame::write_header(&mut whole, to, ROUTER.0, kind);
        whole.extend_from_slice(bytes);
        self.cable.0.borrow_mut().to.push_back(whole);
        self.pulse();
    }

    /// What a DHCP server says to a message: an offer (2) or its confirmation (5).
    fn offer(&mut self, frame: &[u8], kind: u8) {
        assert_eq!(frame[..6], BROADCAST);
        let asked = &frame[HEADER + 28..];
        let mut answer = vec![0; 240];
        answer[..4].copy_from_slice(&[2, 1, 6, 0]);
        answer[4..8].copy_from_slice(&asked[4..8]);
        answer[16..20].copy_from_slice(&OWN);
        answer[28..34].copy_from_slice(&MAC);
        answer[236..240].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
        answer.extend_from_slice(&[53, 1, kind, 54, 4, 10, 0, 2, 2, 1, 4, 255, 255, 255, 0]);
        answer.extend_from_slice(&[
            3, 4, 10, 0, 2, 2, 6, 4, 10, 0, 2, 3, 51, 4, 0, 1, 81, 128, 255,
        ]);
        let packet = datagram((ROUTER.1, 67), (OWN, 68), &answer);
        self.arrive(MAC, Kind::Ipv4, &packet);
    }

    fn answer_arp(&mut self) {
        let question = self.sent().expect("a question");
        let question = frame::parse_arp(&question[HEADER..]).expect("of ARP");
        assert_eq!((question.sender, question.target.1), ((MAC, OWN), ROUTER.1));
        let answer = frame::arp(
            &Arp {
                request: false,
                sender: ROUTER,
                target: question.sender,
            },
            None,
        );
        self.arrive(MAC, Kind::Arp, &answer[HEADER..]);
    }

    fn call(&mut self, badge: u64, words: &[u64], out: &[u8]) -> i64 {
        self.bench.fake.pass = Some(0);
        let answer = self.bench.call(badge, words, out, 0);
        answer.map_or(i64::MIN, |answer| answer.result())
    }

    fn socket(&mut self) -> u64 {
        self.socket_of(INET)
    }

    fn socket_of(&mut self, family: u64) -> u64 {
        self.bench.fake.pass = Some(0);
        let words = [net::SOCKET, family, DATAGRAM, 0, 0];
        self.bench.call(0, &words, b"", 0).unwrap().minted[0]
    }

    fn send(&mut self, socket: u64, to: Ip, bytes: &[u8]) -> i64 {
        self.send_to(socket, Address::v4(to), bytes)
    }

    /// To port 9.
    fn send_to(&mut self, socket: u64, to: Address, bytes: &[u8]) -> i64 {
        let [low, high] = to.words();
        let family = if to.is_v4() { INET } else { net::INET6 };
        let word = 9 | family << 16;
        let words = [net::SEND, msg::DONTWAIT | with::ADDRESS, low, high, word];
        self.call(socket, &words, bytes)
    }
}

#[test]
fn an_address_is_had_and_neighbours_are_found() {
    let mut game = Game::configured();
    let socket = game.socket();
    // By the router, to the network itself.
    assert_eq!(game.send(socket, [8, 8, 8, 8], b"hello"), 5);
    game.answer_arp();
    let frame = game.sent().expect("the packet");
    assert_eq!(frame::parse(&frame), Some((ROUTER.0, MAC, Kind::Ipv4)));
    assert_eq!(frame[HEADER + 12..HEADER + 20], [10, 0, 2, 15, 8, 8, 8, 8]);
    assert_eq!(frame[HEADER + 28..], *b"hello");
    assert_eq!(game.send(socket, ROUTER.1, b"again"), 5);
    assert_eq!(game.sent().unwrap()[..6], ROUTER.0, "it is known");
    // Who asks for this machine's address is told, who asks for another one is not.
    for (ip, answers) in [(OWN, true), ([10, 0, 2, 16], false)] {
        let question = Arp {
            request: true,
            sender: ROUTER,
            target: ([0; 6], ip),
        };
        game.arrive(BROADCAST, Kind::Arp, &frame::arp(&question, None)[HEADER..]);
        let answer = game.sent();
        assert_eq!(answer.is_some(), answers);
        if let Some(answer) = answer {
            let told = frame::parse_arp(&answer[HEADER..]).unwrap();
            assert_eq!((told.sender, told.target), ((MAC, OWN), ROUTER));
        }
    }
}

#[test]
fn who_connects_to_nobody_is_told_so() {
    let mut game = Game::configured();
    game.bench.fake.pass = Some(0);
    let words = [net::SOCKET, INET, net::STREAM, 0, 0x800];
    let socket = game.bench.call(0, &words, b"", 0).unwrap().minted[0];
    let [low, high] = Address::v4([10, 0, 2, 99]).words();
    let connect = [net::CONNECT, low, high, 80 | INET << 16];
    assert_eq!(game.call(socket, &connect, b""), -115, "EINPROGRESS");
    for _ in 0..4 {
        game.pass(1_000_000_000);
    }
    let error = [net::GET_OPTION, 1 << 32 | 4];
    game.bench.fake.pass = Some(0);
    let answer = game.bench.call(socket, &error, b"", 0).unwrap();
    assert_eq!(answer.words[1], 113, "EHOSTUNREACH");
}

#[test]
fn what_the_user_sets_counts_on_the_link() {
    let mut game = Game::configured();
    let net = &mut game.bench.server;
    let second = Own::new(Address::v4([10, 7, 0, 1]), 96 + 16);
    net.interfaces.add_address(2, second).unwrap();
    let question = |ip| Arp {
        request: true,
        sender: ROUTER,
        target: ([0; 6], ip),
    };
    let ask = |game: &mut Game, ip| {
        let frame = frame::arp(&question(ip), None);
        game.arrive(BROADCAST, Kind::Arp, &frame[HEADER..]);
        game.sent()
            .map(|answer| frame::parse_arp(&answer[HEADER..]).unwrap().sender)
    };
    assert_eq!(ask(&mut game, [10, 7, 0, 1]), Some((MAC, [10, 7, 0, 1])));
    assert_eq!(ask(&mut game, OWN), Some((MAC, OWN)));
    // Who is written down is not asked for.
    let device = game.bench.server.interfaces.get_mut(2).unwrap();
    let friend = Address::v4([10, 7, 0, 9]);
    let device = device.device().unwrap();
    assert!(device.set_neighbour(&friend, Some([2, 0, 0, 0, 0, 9])));
    assert_eq!(device.neighbour(0).unwrap().state, 0x80);
    let socket = game.socket();
    assert_eq!(game.send(socket, [10, 7, 0, 9], b"hello"), 5);
    let frame = game.sent().expect("the packet");
    assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
    assert_eq!(frame[HEADER + 12..HEADER + 16], [10, 7, 0, 1]);
    // Down, nothing comes and nothing goes.
    let link = game.bench.server.interfaces.get_mut(2).unwrap();
    link.device().unwrap().set_up(false);
    assert_eq!(ask(&mut game, OWN), None);
}

#[test]
fn all_that_came_is_taken_in_though_nothing_tells_of_it_again() {
    let mut game = Game::configured();
    let question = Arp {
        request: true,
        sender: ROUTER,
        target: ([0; 6], OWN),
    };
    let frame = frame::arp(&question, None).to_vec();
    for _ in 0..1000 {
        game.cable.0.borrow_mut().to.push_back(frame.clone());
    }
    let packet = datagram((ROUTER.1, 9), (OWN, 9), b"to nobody");
    for _ in 0..1000 {
        let mut whole = vec![0; HEADER];
        frame::write_header(&mut whole, MAC, ROUTER.0, Kind::Ipv4);
        whole.extend_from_slice(&packet);
        game.cable.0.borrow_mut().to.push_back(whole);
    }
    game.pulse();
    assert!(!game.cable.0.borrow().to.is_empty(), "others have turns");
    for _ in 0..2000 / 64 {
        assert!(!game.cable.0.borrow().to.is_empty());
        game.pass(1000);
    }
    assert!(game.cable.0.borrow().to.is_empty());
}

#[test]
fn who_floods_the_machine_gets_errors_at_a_rate() {
    let mut game = Game::configured();
    let packet = datagram((ROUTER.1, 9), (OWN, 9), b"to nobody");
    game.arrive(MAC, Kind::Ipv4, &packet);
    game.answer_arp();
    let flood = |game: &mut Game| {
        for _ in 0..1000 {
            game.arrive(MAC, Kind::Ipv4, &packet);
        }
        let mut errors = 0;
        while let Some(frame) = game.sent() {
            assert_eq!((frame[HEADER + 20], frame[HEADER + 21]), (3, 3));
            errors += 1;
        }
        errors
    };
    let most = crate::rate::BURST as usize;
    let first = flood(&mut game);
    assert!((most / 2..=2 * most).contains(&first), "{first}");
    game.pass(1_000_000_000);
    let second = flood(&mut game);
    assert!((most / 2..=2 * most).contains(&second), "{second}");
}

#[test]
fn echo_is_answered_over_the_link() {
    let mut game = Game::configured();
    let header = Header {
        source: Address::v4(ROUTER.1),
        destination: Address::v4(OWN),
        protocol: protocol::ICMP,
        ttl: 64,
        ..Header::default()
    };
    let mut packet = Packet::new(&header, 12, 7).unwrap();
    let mut echo = [8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let sum = cairn_ethernet::fragments::checksum(&echo);
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.push(&echo);
    let bytes = packet.bytes().to_vec();
    game.arrive(MAC, Kind::Ipv4, &bytes);
    game.answer_arp();
    let answer = game.sent().expect("an answer");
    assert_eq!(answer[HEADER + 20], 0);
    assert_eq!(answer[HEADER + 24..], [1, 2, 3, 4, 5, 6, 7, 8]);
    // To another station, and to another address.
    game.arrive([2; 6], Kind::Ipv4, &bytes);
    let mut other = bytes.clone();
    other[19] = 16;
    other[10..12].fill(0);
    let sum = cairn_ethernet::fragments::checksum(&other[..20]);
    other[10..12].copy_from_slice(&sum.to_be_bytes());
    game.arrive(MAC, Kind::Ipv4, &other);
    assert_eq!(game.sent(), None);
}

#[test]
fn long_datagrams_go_in_pieces_both_ways() {
    let mut game = Game::configured();
    let socket = game.socket();
    let long: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
    assert_eq!(game.send(socket, ROUTER.1, &long), 5000);
    game.answer_arp();
    let mut fragments = Fragments::new(PATIENCE_V4);
    let mut whole = Outcome::Kept;
    let mut pieces = Vec::new();
    while let Some(frame) = game.sent() {
        assert!(frame.len() <= HEADER + 1500);
        whole = fragments.arrives(0, &frame[HEADER..]);
        pieces.push(frame);
    }
    let Outcome::Complete(whole) = whole else {
        panic!("{} pieces", pieces.len());
    };
    assert_eq!((pieces.len(), &whole[28..]), (4, &long[..]));
    // The same comes back, the last piece first: to the port that it came from.
    for frame in pieces.iter().rev() {
        let mut packet = frame[HEADER..].to_vec();
        packet[12..16].copy_from_slice(&ROUTER.1);
        packet[16..20].copy_from_slice(&OWN);
        game.arrive(MAC, Kind::Ipv4, &packet);
    }
    // Nobody has that port: it is said so, of the whole.
    let told = game.sent().expect("an error");
    assert_eq!((told[HEADER + 20], told[HEADER + 21]), (3, 3));
}

/// The sum over a frame's payload behind a header of IPv4 without options: 0 if it is right.
fn sum_in(frame: &[u8]) -> u16 {
    let packet = Packet::received(frame.to_vec(), HEADER);
    let (header, payload) = packet.parse().expect("a packet");
    crate::packet::checksum(&header, packet.payload(payload))
}

#[test]
fn sums_are_left_to_a_link_that_makes_them() {
    let mut game = Game::configured();
    let socket = game.socket();
    assert_eq!(game.send(socket, ROUTER.1, b"first"), 5);
    game.answer_arp();
    let left = |game: &Game| game.cable.0.borrow().left;
    let frame = game.sent().expect("the datagram");
    assert_eq!((sum_in(&frame), left(&game)), (0, Offload::default()));
    game.cable.0.borrow_mut().offers.sums = true;
    assert_eq!(game.send(socket, ROUTER.1, b"second"), 6);
    let mut frame = game.sent().expect("the datagram");
    let offload = left(&game);
    let place = (offload.sum, offload.sum_start, offload.sum_at);
    assert_eq!(place, (true, HEADER as u16 + 20, 6));
    assert_ne!(sum_in(&frame), 0);
    // As a device does it.
    let sum = cairn_ethernet::fragments::checksum(&frame[HEADER + 20..]);
    frame[HEADER + 26..HEADER + 28].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(sum_in(&frame), 0);
    // Pieces have it made here.
    let long = [7; 4000];
    assert_eq!(game.send(socket, ROUTER.1, &long), 4000);
    let mut fragments = Fragments::new(PATIENCE_V4);
    let mut whole = Outcome::Kept;
    while let Some(frame) = game.sent() {
        assert_eq!(left(&game), Offload::default());
        whole = fragments.arrives(0, &frame[HEADER..]);
    }
    let Outcome::Complete(whole) = whole else {
        panic!("not all pieces");
    };
    assert_eq!(sum_in(&[&[0; HEADER], &whole[..]].concat()), 0);
}

#[test]
fn sums_that_a_link_has_looked_at_are_not_looked_at_again() {
    let mut game = Game::configured();
    let socket = game.socket();
    assert_eq!(game.send(socket, ROUTER.1, b"first"), 5);
    game.answer_arp();
    let frame = game.sent().expect("the datagram");
    let port = u16::from_be_bytes([frame[HEADER + 20], frame[HEADER + 21]]);
    let mut wrong = datagram((ROUTER.1, 9), (OWN, port), b"text");
    wrong[26..28].copy_from_slice(&[0x12, 0x34]);
    let receive = [net::RECEIVE, msg::DONTWAIT];
    for (says, taken) in [
        (Sum::Made, None),
        (Sum::Right, Some(4)),
        (Sum::Missing, Some(4)),
        (Sum::Made, None),
    ] {
        game.cable.0.borrow_mut().says = says;
        game.arrive(MAC, Kind::Ipv4, &wrong);
        let told = game.told(socket, &receive, b"")[0] as i64;
        assert_eq!((told >= 0).then_some(told), taken, "{says:?}");
    }
    // Of what comes in pieces a link knows nothing.
    game.cable.0.borrow_mut().says = Sum::Right;
    let long = datagram((ROUTER.1, 9), (OWN, port), &[1; 3000]);
    let mut wrong = long.clone();
    wrong[26] = 0x12;
    for packet in [wrong, long] {
        super::pieces::v4(&packet, 1500, 0, |piece| {
            game.arrive(MAC, Kind::Ipv4, piece);
        });
    }
    let told = game.told(socket, &receive, b"")[0];
    assert_eq!(told as i64, 200, "the second one");
    assert!((game.told(socket, &receive, b"")[0] as i64) < 0);
}

#[test]
fn what_is_too_much_is_lost_and_nothing_else() {
    let mut game = Game::configured();
    let socket = game.socket();
    assert_eq!(game.send(socket, ROUTER.1, b"first"), 5);
    game.answer_arp();
    game.cable.0.borrow_mut().room = 1;
    for _ in 0..2000 {
        assert_eq!(game.send(socket, ROUTER.1, b"more"), 4);
    }
    game.cable.0.borrow_mut().room = usize::MAX;
    game.pulse();
    let count = game.cable.0.borrow().from.len();
    assert!((500..600).contains(&count), "{count}");
    // Who does not answer: a thousand of them, with packets that wait.
    for i in 0..3000u32 {
        let [.., a, b] = i.to_be_bytes();
        game.send(socket, [10, 0, 2, (a ^ b) | 128], b"?");
    }
    for _ in 0..10 {
        game.pass(1_000_000_000);
    }
    assert_eq!(game.send(socket, ROUTER.1, b"still"), 5);
}

#[test]
fn frames_that_are_none_change_nothing() {
    let mut game = Game::configured();
    let mut word = 5u64;
    for round in 0..20_000u32 {
        let length = (round % 120) as usize;
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| {
                word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
                (word >> 40) as u8
            })
            .collect();
        if round % 3 > 0 && length > 20 {
            bytes[..6].copy_from_slice(&MAC);
            bytes[12..14].copy_from_slice(if round % 3 == 1 { &[8, 0] } else { &[8, 6] });
            bytes[14] = 0x45;
        }
        game.cable.0.borrow_mut().to.push_back(bytes);
        if round % 50 == 0 {
            game.pulse();
            game.pass(1000);
        }
    }
    assert!(game.bench.server.interfaces.is_own(&Address::v4(OWN)));
    while game.sent().is_some() {}
    let socket = game.socket();
    assert_eq!(game.send(socket, ROUTER.1, b"still"), 5);
    game.answer_arp();
}

#[test]
fn a_lease_that_nobody_renews_is_lost_with_its_routes() {
    let mut game = Game::configured();
    let socket = game.socket();
    for _ in 0..100_000 {
        game.pass(10_000_000_000);
        if !game.bench.server.interfaces.is_own(&Address::v4(OWN)) {
            break;
        }
    }
    assert!(!game.bench.server.interfaces.is_own(&Address::v4(OWN)));
    let mut routes = game.bench.server.interfaces.routes().iter();
    assert!(routes.all(|route| !route.prefix.is_v4()));
    assert_eq!(game.send(socket, [8, 8, 8, 8], b"x"), -101, "ENETUNREACH");
    // Without a carrier nothing is asked.
    game.cable.0.borrow_mut().down = true;
    while game.sent().is_some() {}
    game.pass(100_000_000_000);
    assert_eq!(game.sent(), None);
    game.cable.0.borrow_mut().down = false;
    game.pulse();
    game.pass(0);
    assert!(game.sent().is_some());
}

const ROUTER6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const LOCAL6: [u8; 16] = [
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56,
];

/// A message of ICMPv6.
fn message6(source: [u8; 16], destination: [u8; 16], limit: u8, body: &[u8]) -> Vec<u8> {
    let header = Header {
        source: Address(source),
        destination: Address(destination),
        protocol: protocol::ICMP_V6,
        ttl: limit,
        ..Header::default()
    };
    let mut packet = Packet::new(&header, body.len(), 0).unwrap();
    let own = packet.extend(body.len());
    own.copy_from_slice(body);
    own[2..4].fill(0);
    let sum = crate::packet::checksum(&header, own);
    own[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.bytes().to_vec()
}

fn announcement() -> Vec<u8> {
    let mut body = vec![134, 0, 0, 0, 64, 0, 7, 8];
    body.extend([0; 8]);
    body.extend([
        3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0,
    ]);
    body.extend([0xfe, 0xc0]);
    body.extend([0; 14]);
    body
}

/// With addresses of IPv6 as well.
fn configured6() -> Game {
    let mut game = Game::configured();
    game.pass(1_000_000_000);
    game.pass(0);
    let all = cairn_ethernet::autoconf::ALL_NODES;
    let group = frame::group_v6(all);
    game.arrive(
        group,
        Kind::Ipv6,
        &message6(ROUTER6, all, 64, &announcement()),
    );
    game.pass(2_000_000_000);
    let own = &game.bench.server.interfaces;
    assert_eq!(own.get(2).unwrap().addresses().len(), 2, "none from afar");
    game.arrive(
        group,
        Kind::Ipv6,
        &message6(ROUTER6, all, 255, &announcement()),
    );
    game.pass(0);
    game.pass(1_000_000_000);
    while game.sent_of(true).is_some() {}
    game
}

#[test]
fn ipv6_has_addresses_and_neighbours() {
    let mut game = Game::configured();
    let report = game.sent_of(true).expect("a report");
    assert_eq!((report[HEADER + 6], report[HEADER + 48]), (0, 143));
    let probe = game.sent_of(true).expect("a question");
    assert_eq!(
        (probe[HEADER + 40], &probe[HEADER + 48..HEADER + 64]),
        (135, &LOCAL6[..])
    );
    let mut game = configured6();
    let interfaces = &game.bench.server.interfaces;
    let mut wide = LOCAL6;
    wide[..2].copy_from_slice(&[0xfe, 0xc0]);
    assert!(interfaces.is_own(&Address(LOCAL6)) && interfaces.is_own(&Address(wide)));
    let mut host = [0; 16];
    (host[0], host[1], host[15]) = (0xfe, 0xc0, 2);
    let way = interfaces.way(&Address(host), 0).unwrap();
    assert_eq!((way.source, way.next_hop), (Address(wide), Address(host)));
    let mut far = host;
    (far[0], far[1]) = (0x20, 1);
    let way = interfaces.way(&Address(far), 0).unwrap();
    assert_eq!(
        (way.source, way.next_hop),
        (Address(wide), Address(ROUTER6))
    );
    // It is asked who has it, and the packet goes there.
    let socket = game.socket_of(net::INET6);
    assert_eq!(game.send_to(socket, Address(host), b"hello"), 5);
    let question = game.sent_of(true).expect("a question");
    assert_eq!(
        (question[HEADER + 40], &question[HEADER + 48..HEADER + 64]),
        (135, &host[..])
    );
    let mut answer = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    answer.extend(host);
    answer.extend([2, 1]);
    answer.extend(ROUTER.0);
    game.arrive(MAC, Kind::Ipv6, &message6(host, wide, 255, &answer));
    let frame = game.sent_of(true).expect("the packet");
    assert_eq!(
        (&frame[..6], &frame[frame.len() - 5..]),
        (&ROUTER.0[..], &b"hello"[..])
    );
    // Who asks for this machine is told.
    let mut question = vec![135, 0, 0, 0, 0, 0, 0, 0];
    question.extend(wide);
    question.extend([1, 1]);
    question.extend(ROUTER.0);
    game.arrive(MAC, Kind::Ipv6, &message6(host, wide, 255, &question));
    let answer = game.sent_of(true).expect("an answer");
    assert_eq!((answer[HEADER + 40], answer[HEADER + 44]), (136, 0x60));
    game.arrive(MAC, Kind::Ipv6, &message6(host, wide, 64, &question));
    assert_eq!(game.sent_of(true), None, "not from afar");
    // An echo.
    let echo = [128, 0, 0, 0, 1, 2, 3, 4, 5];
    game.arrive(MAC, Kind::Ipv6, &message6(host, wide, 64, &echo));
    assert_eq!(game.sent_of(true).expect("an answer")[HEADER + 40], 129);
}

const FRIEND6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];

/// A packet without further headers in pieces of so many bytes.
fn cut6(packet: &[u8], each: usize) -> Vec<Vec<u8>> {
    let payload = &packet[40..];
    let piece = |(i, bytes): (usize, &[u8])| {
        let at = i * each;
        let more = at + bytes.len() < payload.len();
        let mut piece = packet[..40].to_vec();
        piece[4..6].copy_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
        let next = std::mem::replace(&mut piece[6], 44);
        let [a, b] = (at as u16 | u16::from(more)).to_be_bytes();
        piece.extend([next, 0, a, b, 0, 0, 0, 3]);
        piece.extend(bytes);
        piece
    };
    payload.chunks(each).enumerate().map(piece).collect()
}

#[test]
fn long_packets_of_ipv6_go_in_pieces_both_ways() {
    let mut game = configured6();
    let mut echo = vec![128, 0, 0, 0, 1, 2, 3, 4];
    echo.extend((0..5000u32).map(|i| (i * 7) as u8));
    let pieces = cut6(&message6(FRIEND6, LOCAL6, 64, &echo), 1400);
    for piece in pieces.iter().rev() {
        assert_eq!(game.sent6(), None);
        game.arrive(MAC, Kind::Ipv6, piece);
    }
    let mut fragments = Fragments::new(PATIENCE_V6);
    let mut whole = Outcome::Kept;
    let mut count = 0;
    while let Some(frame) = game.sent6() {
        assert!(frame.len() <= HEADER + 1500);
        whole = fragments.arrives_v6(0, &frame[HEADER..]);
        count += 1;
    }
    let Outcome::Complete(whole) = whole else {
        panic!("{count} pieces");
    };
    assert_eq!((count, whole[40], &whole[44..]), (4, 129, &echo[4..]));
    let packet = Packet::received(whole, 0);
    let (header, payload) = packet.parse().unwrap();
    let sum = crate::packet::checksum(&header, packet.payload(payload));
    assert_eq!(sum, 0);
    // One packet that says it is a piece and is all there is.
    let whole = cut6(&message6(FRIEND6, LOCAL6, 64, &echo[..40]), 1400);
    game.arrive(MAC, Kind::Ipv6, &whole[0]);
    assert_eq!(game.sent6().expect("an answer")[HEADER + 40], 129);
    // A question about a neighbour does not come in pieces.
    let mut question = vec![135, 0, 0, 0, 0, 0, 0, 0];
    question.extend(LOCAL6);
    let pieces = cut6(&message6(FRIEND6, LOCAL6, 255, &question), 1400);
    game.arrive(MAC, Kind::Ipv6, &pieces[0]);
    assert_eq!(game.sent6(), None);
}

#[test]
fn datagrams_are_cut_to_what_a_router_told() {
    let mut game = Game::configured();
    let socket = game.socket();
    let text = [7; 1400];
    // The frames of a datagram: their lengths, and whether routers may cut them.
    let frames = |game: &mut Game, socket: u64| {
        assert_eq!(game.send(socket, ROUTER.1, &text), 1400);
        let mut frames = Vec::new();
        while let Some(frame) = game.sent() {
            frames.push((frame.len() - HEADER, frame[HEADER + 6] & 0x40 == 0));
        }
        frames
    };
    assert_eq!(game.send(socket, ROUTER.1, &text), 1400);
    game.answer_arp();
    let packet = game.sent().expect("a datagram")[HEADER..].to_vec();
    // (Type 3, code 4.) It quotes the packet's begin.
    let told = |packet: &[u8], mtu: u16| {
        let mut body = vec![3, 4, 0, 0, 0, 0];
        body.extend(mtu.to_be_bytes());
        body.extend(&packet[..28]);
        let sum = cairn_ethernet::fragments::checksum(&body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        let header = Header {
            source: Address::v4(ROUTER.1),
            destination: Address::v4(OWN),
            protocol: protocol::ICMP,
            ttl: 64,
            ..Header::default()
        };
        let mut message = Packet::new(&header, body.len(), 7).unwrap();
        message.push(&body);
        message.bytes().to_vec()
    };
    let whole = vec![(1428, false)];
    assert_eq!(frames(&mut game, socket), whole);
    // Of a port that nobody has it is not believed.
    let mut other = packet.clone();
    other[20] ^= 1;
    game.arrive(MAC, Kind::Ipv4, &told(&other, 1000));
    assert_eq!(frames(&mut game, socket), whole);
    game.arrive(MAC, Kind::Ipv4, &told(&packet, 1000));
    assert_eq!(frames(&mut game, socket), [(996, true), (452, true)]);
    // IP_MTU and IP_MTU_DISCOVER: one that must not be cut is refused, and a probe heeds nobody.
    let [low, high] = Address::v4(ROUTER.1).words();
    let connect = [net::CONNECT, low, high, 9 | INET << 16];
    assert_eq!(game.call(socket, &connect, b""), 0);
    let mtu = [net::GET_OPTION, 14];
    let answer = game.bench.call(socket, &mtu, b"", 0).unwrap();
    assert_eq!(answer.words[1], 1000);
    let discover = |how| [net::SET_OPTION, 10, how];
    assert_eq!(game.call(socket, &discover(2), b""), 0);
    assert_eq!(game.send(socket, ROUTER.1, &text), -90, "EMSGSIZE");
    assert_eq!(game.call(socket, &discover(3), b""), 0);
    assert_eq!(frames(&mut game, socket), whole);
    assert_eq!(game.call(socket, &discover(1), b""), 0);
    // An attacker makes no crumbs of them.
    game.arrive(MAC, Kind::Ipv4, &told(&packet, 68));
    assert_eq!(
        frames(&mut game, socket),
        [(548, true), (548, true), (372, true)]
    );
    game.bench.fake.time += 601_000_000_000;
    assert!(frames(&mut game, socket).contains(&whole[0]));
}

#[test]
fn datagrams_of_ipv6_are_cut_to_what_a_router_told() {
    let mut game = configured6();
    let socket = game.socket_of(net::INET6);
    let text = [7; 1400];
    assert_eq!(game.send_to(socket, Address(FRIEND6), &text), 1400);
    let frame = game.sent6().expect("a datagram");
    assert_eq!((frame.len() - HEADER, game.sent6()), (1448, None));
    let mut body = vec![2, 0, 0, 0, 0, 0, 5, 0];
    body.extend(&frame[HEADER..]);
    body.truncate(1232);
    game.arrive(MAC, Kind::Ipv6, &message6(FRIEND6, LOCAL6, 64, &body));
    assert_eq!(game.send_to(socket, Address(FRIEND6), &text), 1400);
    let mut fragments = Fragments::new(PATIENCE_V6);
    let mut whole = Outcome::Kept;
    let mut lengths = Vec::new();
    while let Some(frame) = game.sent6() {
        lengths.push(frame.len() - HEADER);
        whole = fragments.arrives_v6(0, &frame[HEADER..]);
    }
    assert_eq!(lengths, [1280, 224]);
    assert!(matches!(whole, Outcome::Complete(_)));
}

/// The message about an error that was sent last: type, code, the word, and whether it quotes `packet` from its begin on.
fn told6(game: &mut Game, packet: &[u8]) -> Option<(u8, u8, u32, bool)> {
    let frame = game.sent6()?;
    let body = &frame[HEADER + 40..];
    let word = u32::from_be_bytes([body[4], body[5], body[6], body[7]]);
    let quotes = packet.starts_with(&body[8..]) && body.len() - 8 == packet.len().min(1232);
    Some((body[0], body[1], word, quotes))
}

#[test]
fn wrong_headers_of_ipv6_are_told() {
    let mut game = configured6();
    let with = |first: u8, rest: &[u8]| {
        let mut packet = message6(FRIEND6, LOCAL6, 64, rest);
        packet[40..].copy_from_slice(rest);
        packet[6] = first;
        packet
    };
    let echo = message6(FRIEND6, LOCAL6, 64, &[128, 0, 0, 0, 1, 2, 3, 4]);
    let cases = [
        // Options that are not known: passed over, told, told even to a group.
        (60, [58, 0, 0x1e, 4, 0, 0, 0, 0], None),
        (60, [58, 0, 0x5e, 4, 0, 0, 0, 0], None),
        (60, [58, 0, 0x9e, 4, 0, 0, 0, 0], Some((4, 2, 42, true))),
        (60, [58, 0, 0xde, 4, 0, 0, 0, 0], Some((4, 2, 42, true))),
        // A route that goes on, and a protocol that nobody has, behind options.
        (43, [58, 0, 0, 1, 0, 0, 0, 0], Some((4, 0, 42, true))),
        (60, [99, 0, 1, 4, 0, 0, 0, 0], Some((4, 1, 40, true))),
    ];
    for (first, header, expected) in cases {
        let rest = [&header[..], &echo[40..]].concat();
        let packet = with(first, &rest);
        game.arrive(MAC, Kind::Ipv6, &packet);
        if header[2] == 0x1e {
            assert_eq!(game.sent6().expect("an answer")[HEADER + 40], 129);
        } else {
            assert_eq!(told6(&mut game, &packet), expected, "{header:?}");
        }
        // In a message about an error nothing is.
        let mut rest = rest;
        rest[8] = 1;
        game.arrive(MAC, Kind::Ipv6, &with(first, &rest));
        let errors_only = header[0] == 58;
        assert!(!errors_only || game.sent6().is_none(), "{header:?}");
        while game.sent6().is_some() {}
    }
    // A piece whose length is no multiple of eight, and one that reaches too far.
    let mut pieces = cut6(&message6(FRIEND6, LOCAL6, 64, &[128; 64]), 24);
    let last = pieces.pop().unwrap();
    let mut odd = last.clone();
    odd[43] |= 1;
    odd.truncate(odd.len() - 3);
    odd[5] -= 3;
    (odd[42], odd[41]) = (0, 0);
    game.arrive(MAC, Kind::Ipv6, &odd);
    assert_eq!(told6(&mut game, &odd), None, "what it carries is not known");
    // To a group only what its sender must hear of.
    let all = cairn_ethernet::autoconf::ALL_NODES;
    for (kind, expected) in [(0x9e, Some((4, 2, 42, true))), (0xde, None)] {
        let mut packet = with(60, &[&[58, 0, kind, 4, 0, 0, 0, 0], &echo[40..]].concat());
        packet[24..40].copy_from_slice(&all);
        game.arrive(frame::group_v6(all), Kind::Ipv6, &packet);
        assert_eq!(told6(&mut game, &packet), expected, "{kind}");
    }
    let mut first = pieces[0].clone();
    first.pop();
    first[5] -= 1;
    game.arrive(MAC, Kind::Ipv6, &first);
    assert_eq!(told6(&mut game, &first), Some((4, 0, 4, true)));
}

#[test]
fn who_sent_the_first_piece_is_told_that_the_rest_did_not_come() {
    let mut game = configured6();
    let pieces = cut6(&message6(FRIEND6, LOCAL6, 64, &[128; 3000]), 1400);
    game.arrive(MAC, Kind::Ipv6, &pieces[0]);
    let kept = cut6(&message6(FRIEND6, LOCAL6, 64, &[1; 3000]), 1400);
    let mut error = kept[0].clone();
    error[47] = 9;
    game.arrive(MAC, Kind::Ipv6, &error);
    game.pass(59_000_000_000);
    assert_eq!(told6(&mut game, &pieces[0]), None);
    game.pass(2_000_000_000);
    assert_eq!(told6(&mut game, &pieces[0]), Some((3, 1, 0, true)));
    assert_eq!(told6(&mut game, &error), None, "not of an error");
    // The same of IPv4.
    let mut game = Game::configured();
    let mut piece = datagram((ROUTER.1, 9), (OWN, 9), &[1; 96]);
    piece[6] = 0x20;
    piece[10..12].fill(0);
    let sum = cairn_ethernet::fragments::checksum(&piece[..20]);
    piece[10..12].copy_from_slice(&sum.to_be_bytes());
    game.arrive(MAC, Kind::Ipv4, &piece);
    game.pass(31_000_000_000);
    game.answer_arp();
    let told = game.sent().expect("an error");
    assert_eq!(told[HEADER + 20..HEADER + 22], [11, 1]);
    assert_eq!(told[HEADER + 28..], piece);
}

#[test]
fn floods_of_discovery_change_nothing() {
    let mut game = configured6();
    let mut word = 5u64;
    for round in 0..5000u32 {
        let mut body = vec![133 + (round % 5) as u8, 0, 0, 0, 0, 0, 0, 0];
        for _ in 0..round % 70 {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            body.push((word >> 40) as u8);
        }
        let mut source = ROUTER6;
        source[12..].copy_from_slice(&(word as u32).to_be_bytes());
        let mut whole = vec![0; HEADER];
        frame::write_header(&mut whole, MAC, ROUTER.0, Kind::Ipv6);
        whole.extend(message6(source, LOCAL6, 255, &body));
        game.cable.0.borrow_mut().to.push_back(whole);
        if round % 50 == 0 {
            game.pulse();
            game.pass(1000);
        }
    }
    let addresses = game
        .bench
        .server
        .interfaces
        .get(2)
        .unwrap()
        .addresses()
        .len();
    assert!(
        addresses <= 1 + cairn_ethernet::autoconf::MOST,
        "{addresses}"
    );
    assert!(game.bench.server.interfaces.is_own(&Address(LOCAL6)));
}

/// Who captures sees what passes the link, also what never becomes a packet; what is for others only if he asks for it.
#[test]
fn frames_of_a_link_are_captured() {
    use cairn_idl::net::{PACKET, RAW};
    let mut game = Game::configured();
    game.bench.server.proc = Some(cairn_rt::Portal(9));
    game.bench.fake.service = Some(Box::new(|_, _| [u64::MAX; 8]));
    game.bench.label = 0;
    // Every protocol, in the network's order.
    let raw = game
        .bench
        .call(0, &[net::SOCKET, PACKET, RAW, 0x300, 0], b"", 0)
        .unwrap()
        .minted[0];
    let number = u64::from(
        game.bench
            .server
            .interfaces
            .by_name(b"eth0")
            .unwrap()
            .number,
    );
    let told = game.told(raw, &[net::BIND, number, 0, PACKET << 16], b"");
    assert_eq!(told[0], 0);
    let next = |game: &mut Game| {
        let told = game.told(raw, &[net::RECEIVE, msg::DONTWAIT], b"");
        ((told[0] as i64) >= 0).then_some((told[2] >> 48) as u8)
    };
    let question = Arp {
        request: true,
        sender: ROUTER,
        target: ([0; 6], OWN),
    };
    let frame = frame::arp(&question, None);
    game.arrive(BROADCAST, Kind::Arp, &frame[HEADER..]);
    assert_eq!(
        [next(&mut game), next(&mut game), next(&mut game)],
        [Some(1), Some(4), None]
    );
    let other = [0x52, 0x54, 0, 9, 9, 9];
    let packet = datagram((ROUTER.1, 5), ([10, 0, 2, 99], 6), b"x");
    game.arrive(other, Kind::Ipv4, &packet);
    assert_eq!(next(&mut game), None);
    let option = 263 << 32 | 1;
    let member = [number as u8, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        game.told(raw, &[net::SET_OPTION, option, 0, 0], &member)[0],
        0
    );
    game.arrive(other, Kind::Ipv4, &packet);
    assert_eq!([next(&mut game), next(&mut game)], [Some(3), None]);
    // A frame of its own leaves as it is, and only others see it.
    let before = game.cable.0.borrow().from.len();
    assert_eq!(
        game.told(raw, &[net::SEND, msg::DONTWAIT], &frame)[0],
        frame.len() as u64
    );
    assert_eq!(next(&mut game), None);
    let from = game.cable.0.borrow().from.clone();
    assert_eq!(from.len(), before + 1);
    assert_eq!(from.back().unwrap()[..], frame);
    // More than one look brings does not grow.
    game.bench.close(raw);
    game.arrive(BROADCAST, Kind::Arp, &frame[HEADER..]);
    let device = game.bench.server.interfaces.get_mut(number as u32).unwrap();
    assert!(device.device().unwrap().captured().is_none());
}
