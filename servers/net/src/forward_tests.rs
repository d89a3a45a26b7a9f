//! Forwarding between two interfaces of TUN: what goes on and how, what does not, what senders are told, and packets that nobody in his right mind sends.

use super::*;
use crate::interface::Own;
use crate::tests::{call, socket};
use crate::tunnel::tests as tun;
use cairn_idl::errno::EAGAIN;
use cairn_idl::fs;
use cairn_idl::net::{DATAGRAM, INET};
use cairn_resmgr::fake::Bench;
use proptest::prelude::*;

pub(crate) const LEFT: [u8; 4] = [10, 1, 0, 2];
pub(crate) const RIGHT: [u8; 4] = [10, 2, 0, 2];
const SIOCSIFMTU: u64 = 0x8922;

fn six(net: u8, last: u8) -> Address {
    Address([0xfd, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

/// A machine between 10.1.0.0/24 and 10.2.0.0/24 (fd01::/64 and fd02::/64), which forwards; the two other ends.
pub(crate) fn router() -> (Bench<Net>, [u64; 2]) {
    let mut b = tun::privileged();
    let ends = [1u8, 2].map(|net| {
        let end = tun::open(&mut b);
        let name = tun::take(&mut b, end, b"", tun::BARE).unwrap();
        let s = socket(&mut b, INET, DATAGRAM);
        let mut set = |number, bytes: &[u8]| {
            tun::ioctl(&mut b, s, number, &tun::request(&name, bytes)).unwrap();
        };
        set(tun::SIOCSIFADDR, &tun::v4([10, net, 0, 1]));
        set(tun::SIOCSIFNETMASK, &tun::v4([255, 255, 255, 0]));
        set(tun::SIOCSIFFLAGS, &[1, 0]);
        b.close(s);
        let number = b.server.interfaces.by_name(&name).unwrap().number;
        let own = Own::new(six(net, 1), 64);
        b.server.interfaces.add_address(number, own).unwrap();
        end
    });
    for name in [&b"ip_forward"[..], b"forwarding"] {
        assert_eq!(turn(&mut b, name, b"1\n"), Ok(2));
    }
    (b, ends)
}

fn turn(b: &mut Bench<Net>, name: &[u8], text: &[u8]) -> Result<i64, i64> {
    b.fake.pass = Some(0);
    let file = b.open(name, o::WRONLY | o::TRUNC, 0)?;
    let answer = call(b, file, &[fs::WRITE, 0], text, 0).unwrap().result();
    b.close(file);
    match answer {
        0.. => Ok(answer),
        error => Err(error),
    }
}

pub(crate) fn made(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut packet = Packet::new(header, payload.len(), 7).unwrap();
    packet.push(payload);
    packet.bytes().to_vec()
}

pub(crate) fn datagram(source: Address, destination: Address, ttl: u8, text: &[u8]) -> Vec<u8> {
    let header = Header {
        source,
        destination,
        protocol: protocol::UDP,
        ttl,
        ..Header::default()
    };
    let [c, d] = (8 + text.len() as u16).to_be_bytes();
    let mut udp = [&[0x13, 0x88, 0, 53, c, d, 0, 0], text].concat();
    let sum = crate::packet::checksum(&header, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    made(&header, &udp)
}

fn across(ttl: u8, text: &[u8]) -> Vec<u8> {
    datagram(Address::v4(LEFT), Address::v4(RIGHT), ttl, text)
}

fn across6(ttl: u8, text: &[u8]) -> Vec<u8> {
    datagram(six(1, 2), six(2, 2), ttl, text)
}

/// What comes out at an end, until nothing more does.
pub(crate) fn out(b: &mut Bench<Net>, end: u64) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| match tun::read(b, end, 70_000) {
        Ok(packet) => Some(packet),
        Err(EAGAIN) => None,
        Err(error) => panic!("{error}"),
    })
    .collect()
}

/// What comes out at either end when this goes in at the first one.
pub(crate) fn through(b: &mut Bench<Net>, ends: [u64; 2], packet: &[u8]) -> [Vec<Vec<u8>>; 2] {
    tun::write(b, ends[0], packet);
    ends.map(|end| out(b, end))
}

/// The only packet in there.
pub(crate) fn only(mut packets: Vec<Vec<u8>>) -> Vec<u8> {
    assert_eq!(packets.len(), 1, "{packets:?}");
    packets.remove(0)
}

fn mtu(b: &mut Bench<Net>, name: &[u8], mtu: u32) {
    let s = socket(b, INET, DATAGRAM);
    let bytes = tun::request(name, &mtu.to_ne_bytes());
    tun::ioctl(b, s, SIOCSIFMTU, &bytes).unwrap();
    b.close(s);
}

#[test]
fn packets_go_on_with_one_router_less() {
    let (mut b, ends) = router();
    for (packet, at) in [(across(64, b"hello"), 8), (across6(64, b"hello"), 7)] {
        let [back, on] = through(&mut b, ends, &packet);
        let on = only(on);
        assert!(back.is_empty() && on[at] == 63);
        // The header is right, and nothing else is different.
        let (header, payload) = Packet::received(on.clone(), 0).parse().unwrap();
        assert_eq!((header.ttl, header.is_v4()), (63, at == 8));
        assert_eq!(on[payload.start..], packet[payload.start..]);
    }
    // Every ttl, and so every sum.
    for ttl in 2..=255 {
        let [_, on] = through(&mut b, ends, &across(ttl, b"x"));
        let parsed = Packet::received(only(on), 0).parse();
        assert_eq!(parsed.unwrap().0.ttl, ttl - 1);
    }
}

#[test]
fn it_is_off_until_somebody_who_may_turns_it_on() {
    let (mut b, ends) = router();
    let read = |b: &mut Bench<Net>| {
        b.fake.pass = Some(0);
        let file = b.open(b"ip_forward", o::RDONLY, 0).unwrap();
        let answer = call(b, file, &[fs::READ, 0], b"", 20).unwrap();
        b.close(file);
        answer.bytes().to_vec()
    };
    assert_eq!(read(&mut b), b"1\n");
    assert_eq!(turn(&mut b, b"ip_forward", b"yes"), Err(-EINVAL));
    assert_eq!(turn(&mut b, b"ip_forward", b"0\n"), Ok(2));
    assert_eq!(read(&mut b), b"0\n");
    let [back, on] = through(&mut b, ends, &across(64, b"x"));
    assert!(back.is_empty() && on.is_empty());
    assert_eq!(through(&mut b, ends, &across6(64, b"x"))[1].len(), 1);
    assert_eq!(turn(&mut b, b"forwarding", b"0"), Ok(1));
    assert!(through(&mut b, ends, &across6(64, b"x"))[1].is_empty());
    b.label = 1000 | 1000 << 32;
    assert_eq!(turn(&mut b, b"ip_forward", b"1\n"), Err(-EACCES));
    assert_eq!(read(&mut b), b"0\n");
}

/// An error of ICMP at the first end: type, code, word, and the quoted packet.
fn error(packet: &[u8]) -> (u8, u8, u32, Vec<u8>) {
    let (header, payload) = Packet::received(packet.to_vec(), 0).parse().unwrap();
    let message = &packet[payload.start..payload.end];
    let sum = match header.is_v4() {
        true => checksum(message),
        false => crate::packet::checksum(&header, message),
    };
    assert_eq!(sum, 0);
    let own = [Address::v4([10, 1, 0, 1]), six(1, 1)];
    assert!(own.contains(&header.source), "{header:?}");
    let word = u32::from_be_bytes([message[4], message[5], message[6], message[7]]);
    (message[0], message[1], word, message[8..].to_vec())
}

#[test]
fn senders_are_told_why_not() {
    let (mut b, ends) = router();
    let far = Address::v4([10, 3, 0, 1]);
    let far6 = six(3, 1);
    mtu(&mut b, b"tun1", 1300);
    let mut whole = across(64, &[7; 1400]);
    whole[6] |= 0x40;
    whole[10..12].fill(0);
    let sum = checksum(&whole[..20]);
    whole[10..12].copy_from_slice(&sum.to_be_bytes());
    for (packet, told) in [
        (across(1, b"x"), (11, 0, 0)),
        (across6(1, b"x"), (3, 0, 0)),
        (datagram(Address::v4(LEFT), far, 9, b"x"), (3, 0, 0)),
        (datagram(six(1, 2), far6, 9, b"x"), (1, 0, 0)),
        (whole, (3, 4, 1300)),
        (across6(64, &[7; 1400]), (2, 0, 1300)),
    ] {
        b.fake.time += 1_000_000_000;
        let [back, on] = through(&mut b, ends, &packet);
        assert!(on.is_empty());
        let (kind, code, word, quoted) = error(&only(back));
        assert_eq!((kind, code, word), told);
        assert_eq!(quoted, packet[..quoted.len()]);
        // Not about an error, a later piece, or one whose sender is nobody.
        for change in [0, 1, 2] {
            let mut packet = packet.clone();
            if packet[0] >> 4 == 6 {
                continue;
            }
            match change {
                0 => (packet[9], packet[20]) = (1, 3),
                1 => packet[7] |= 1,
                _ => packet[12..16].fill(0),
            }
            packet[10..12].fill(0);
            let sum = checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let [back, _] = through(&mut b, ends, &packet);
            assert!(back.is_empty(), "{change}: {packet:?}");
        }
    }
    // There are not more than of other errors: 50 at once, on the average.
    let many = (0..500).filter(|_| !through(&mut b, ends, &across(1, b"x"))[0].is_empty());
    assert!(many.count() <= 100);
}

#[test]
fn what_must_not_go_on_does_not() {
    let (mut b, ends) = router();
    let v4 = Address::v4;
    for (source, destination) in [
        ([127, 0, 0, 1], RIGHT),
        ([0, 0, 0, 0], RIGHT),
        ([224, 0, 0, 1], RIGHT),
        ([255, 255, 255, 255], RIGHT),
        ([240, 1, 1, 1], RIGHT),
        ([169, 254, 1, 1], RIGHT),
        ([10, 2, 0, 1], RIGHT),
        ([10, 1, 0, 255], RIGHT),
        (LEFT, [169, 254, 1, 1]),
        (LEFT, [10, 2, 0, 255]),
        (LEFT, [224, 0, 0, 9]),
        (LEFT, [255, 255, 255, 255]),
        (LEFT, [0, 1, 1, 1]),
    ] {
        let [back, on] = through(
            &mut b,
            ends,
            &datagram(v4(source), v4(destination), 9, b"x"),
        );
        assert!(
            back.is_empty() && on.is_empty(),
            "{source:?} {destination:?}"
        );
    }
    let mut near = six(1, 9);
    near.0[..2].copy_from_slice(&[0xfe, 0x80]);
    let group = Address([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    for (source, destination) in [
        (near, six(2, 2)),
        (six(1, 2), near),
        (Address::ANY, six(2, 2)),
        (Address::LOOPBACK, six(2, 2)),
        (group, six(2, 2)),
        (six(1, 2), group),
        (six(2, 1), six(2, 2)),
    ] {
        let [back, on] = through(&mut b, ends, &datagram(source, destination, 9, b"x"));
        assert!(
            back.is_empty() && on.is_empty(),
            "{source:?} {destination:?}"
        );
    }
    // A way that its sender chose, and options that are wrong.
    for options in [[131, 3, 4, 0], [137, 3, 4, 0], [7, 9, 0, 0], [7, 0, 0, 0]] {
        let [back, on] = through(&mut b, ends, &with_options(&across(9, b"x"), options));
        assert!(back.is_empty() && on.is_empty());
    }
    let [_, on] = through(
        &mut b,
        ends,
        &with_options(&across(9, b"x"), [148, 4, 0, 0]),
    );
    assert_eq!(only(on)[20..24], [148, 4, 0, 0]);
}

fn with_options(packet: &[u8], options: [u8; 4]) -> Vec<u8> {
    let mut packet = [&packet[..20], &options, &packet[20..]].concat();
    packet[0] = 0x46;
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
    packet[10..12].fill(0);
    let sum = checksum(&packet[..24]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The payload of a datagram that came in pieces.
fn put_together(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut fragments = Fragments::new(PATIENCE_V4);
    for piece in pieces {
        let v4 = piece[0] >> 4 == 4;
        let outcome = match v4 {
            true => fragments.arrives(0, piece),
            false => fragments.arrives_v6(0, piece),
        };
        if let Outcome::Complete(whole) = outcome {
            return whole[if v4 { 28 } else { 48 }..].to_vec();
        }
    }
    panic!("not all pieces are there");
}

#[test]
fn pieces_go_on_as_pieces() {
    let (mut b, ends) = router();
    let text: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
    let mut pieces = Vec::new();
    cut(&across(64, &text), 1500, |piece| {
        pieces.push(piece.bytes().to_vec())
    });
    let mut six = Vec::new();
    crate::link::pieces::v6(&across6(64, &text), 1280, 0, 5, |piece| {
        six.push(piece.to_vec())
    });
    for pieces in [pieces, six] {
        // Each at once, in whatever order, and smaller ones where the way asks for it.
        let mut on = Vec::new();
        for (i, piece) in pieces.iter().enumerate().rev() {
            let [back, some] = through(&mut b, ends, piece);
            assert!(back.is_empty() && some.len() == 1, "{i}");
            assert_eq!(some[0].len(), piece.len());
            on.extend(some);
        }
        assert_eq!(put_together(&on), text);
        if pieces[0][0] >> 4 == 4 {
            mtu(&mut b, b"tun1", 1280);
            let smaller: Vec<_> = pieces
                .iter()
                .flat_map(|piece| through(&mut b, ends, piece)[1].clone())
                .collect();
            assert!(smaller.len() == 5 && smaller.iter().all(|piece| piece.len() <= 1280));
            assert_eq!(put_together(&smaller), text);
            mtu(&mut b, b"tun1", 1500);
        }
    }
    // Those for this machine are put together here.
    let s = socket(&mut b, INET, DATAGRAM);
    crate::tests::bind(&mut b, s, Address::ANY_V4, 53);
    let own = datagram(Address::v4(LEFT), Address::v4([10, 2, 0, 1]), 64, &text);
    let mut pieces = Vec::new();
    cut(&own, 1000, |piece| pieces.push(piece.bytes().to_vec()));
    for piece in pieces {
        through(&mut b, ends, &piece);
    }
    assert_eq!(crate::tests::receive(&mut b, s, 4000, 0), Ok(text));
}

#[test]
fn options_of_later_pieces_are_those_that_are_copied() {
    let packet = with_options(&across(9, &[1; 100]), [148, 2, 7, 2]);
    let mut pieces = Vec::new();
    cut(&packet, 64, |piece| pieces.push(piece.bytes().to_vec()));
    assert!(pieces.len() > 2);
    assert_eq!(pieces[0][20..24], [148, 2, 7, 2]);
    assert_eq!(pieces[1][20..24], [148, 2, 1, 1]);
    assert!(pieces.iter().all(|piece| checksum(&piece[..24]) == 0));
}

#[test]
fn a_link_that_does_not_keep_up_loses_packets() {
    let (mut b, ends) = router();
    for _ in 0..2000 {
        tun::write(&mut b, ends[0], &across(9, &[0; 1000]));
    }
    assert_eq!(
        out(&mut b, ends[1]).len(),
        crate::tunnel::device::TUN_PACKETS
    );
    // And comes to itself.
    assert_eq!(through(&mut b, ends, &across(9, b"x"))[1].len(), 1);
}

/// A packet of IP whose parts are mostly right.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let right = (
        any::<bool>(),
        any::<u8>(),
        proptest::collection::vec(any::<u8>(), 0..200),
    );
    let changes = proptest::collection::vec((0usize..80, any::<u8>()), 0..6);
    (right, changes, any::<bool>()).prop_map(|((v6, ttl, text), changes, mends)| {
        let mut packet = match v6 {
            true => across6(ttl, &text),
            false => across(ttl, &text),
        };
        for (at, byte) in changes {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        let length = usize::from(packet[0] & 15) * 4;
        if mends && packet[0] >> 4 == 4 && (20..=packet.len()).contains(&length) {
            packet[10..12].fill(0);
            let sum = checksum(&packet[..length]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_what_goes_on_is_in_order(packets in proptest::collection::vec(any_packet(), 0..60)) {
        let (mut b, ends) = router();
        for packet in packets {
            let [_, on] = through(&mut b, ends, &packet);
            for on in on {
                let header = Packet::received(on.clone(), 0).parse().map(|of| of.0);
                let header = header.or_else(|| header_of_piece(&on)).unwrap();
                // Who says that he is behind the other link is told of errors there.
                if [Address::v4([10, 2, 0, 1]), six(2, 1)].contains(&header.source) {
                    prop_assert!(matches!(header.protocol, protocol::ICMP | protocol::ICMP_V6));
                    continue;
                }
                prop_assert!(passes(&header.source) && passes(&header.destination));
                prop_assert!(header.ttl >= 1 && on.len() <= packet.len());
                prop_assert!(!is_routed_by_source(&on) || on[0] >> 4 == 6);
            }
        }
    }
}

#[test]
fn sums_change_by_the_difference() {
    let mut bytes = [0x12, 0x34, 0xff, 0xff, 0, 0, 0xab, 0xcd];
    let old = checksum(&bytes).to_be_bytes();
    let was = bytes;
    bytes[2..6].copy_from_slice(&[0, 1, 0xfe, 9]);
    assert_eq!(
        update(old, &was[2..6], &bytes[2..6]),
        checksum(&bytes).to_be_bytes()
    );
}
