//! Frames that pass, on the bench.

use super::ring::{Memory, Shape, MOST};
use super::*;
use crate::tests::*;
use cairn_idl::fs::{self, poll};
use cairn_idl::net::{self, msg, with, INET};
use cairn_resmgr::fake::Bench;
use core::sync::atomic::{AtomicU64, Ordering};

const BY_ALL: u64 = (ALL.swap_bytes()) as u64;

/// A component, which has every capability.
fn privileged() -> Bench<Net> {
    let mut b = bench();
    // Nobody is a process: what a component may its label says.
    b.server.proc = Some(Portal(9));
    b.fake.service = Some(Box::new(|_, _| [u64::MAX; 8]));
    b.label = 0;
    b
}

fn packet_socket(b: &mut Bench<Net>, kind: u64, protocol: u64) -> Result<u64, i64> {
    let answer = call(b, 0, &[net::SOCKET, PACKET, kind, protocol, 0], b"", 0).unwrap();
    match answer.result() {
        0 => Ok(answer.minted[0]),
        error => Err(error),
    }
}

fn bind_to(b: &mut Bench<Net>, badge: u64, interface: u64, protocol: u16) -> i64 {
    let word = u64::from(protocol) | PACKET << 16;
    result(b, badge, &[net::BIND, interface, 0, word])
}

/// A datagram to itself over `lo`.
fn traffic(b: &mut Bench<Net>, times: usize) {
    let socket = socket(b, INET, DATAGRAM);
    for _ in 0..times {
        assert_eq!(send_to(b, socket, b"x", Address::LOOPBACK_V4, 9), 1);
    }
    b.close(socket);
}

fn statistics(b: &mut Bench<Net>, badge: u64) -> (u32, u32) {
    let option = u64::from(263u32) << 32 | u64::from(STATISTICS);
    let answer = call(b, badge, &[net::GET_OPTION, option, 0], b"", 256).unwrap();
    assert_eq!(answer.result(), 8);
    let word = |at: usize| u32::from_le_bytes(answer.data[at..at + 4].try_into().unwrap());
    (word(0), word(4))
}

fn set(b: &mut Bench<Net>, badge: u64, number: u32, value: u64, out: &[u8]) -> i64 {
    let option = u64::from(263u32) << 32 | u64::from(number);
    let words = [net::SET_OPTION, option, value, 0];
    call(b, badge, &words, out, 0).map_or(i64::MIN, |answer| answer.result())
}

fn words_of(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[test]
fn who_may() {
    let mut b = privileged();
    b.label = 1000;
    for kind in [RAW, DATAGRAM, 1, 10] {
        assert_eq!(packet_socket(&mut b, kind, BY_ALL), Err(-EPERM));
    }
    b.label = 0;
    assert_eq!(packet_socket(&mut b, 1, 0), Err(-ESOCKTNOSUPPORT));
    assert!(packet_socket(&mut b, RAW, 0).is_ok());
}

#[test]
fn frames_of_lo_are_seen_going_and_coming() {
    let mut b = privileged();
    let raw = packet_socket(&mut b, RAW, 0).unwrap();
    // Without a protocol nothing comes.
    traffic(&mut b, 1);
    assert_eq!(receive(&mut b, raw, 100, 0), Err(-EAGAIN));
    assert_eq!(bind_to(&mut b, raw, 7, ALL), -ENODEV);
    assert_eq!(bind_to(&mut b, raw, 1, ALL), 0);
    let cooked = packet_socket(&mut b, DATAGRAM, 0x0008).unwrap();
    traffic(&mut b, 1);
    // The datagram, going and coming, and the port's answer.
    let mut kinds = Vec::new();
    for _ in 0..4 {
        let words = [net::RECEIVE, msg::DONTWAIT];
        let answer = call(&mut b, raw, &words, b"", 200).unwrap();
        assert_eq!(answer.words[1], with::ADDRESS);
        assert_eq!(answer.words[4], 0x800 | PACKET << 16);
        assert_eq!(answer.words[2] as u32, 1);
        assert_eq!(answer.words[2] >> 32 & 0xffff, 772);
        kinds.push((answer.words[2] >> 48) as u8);
        assert_eq!(answer.data[12..15], [8, 0, 0x45]);
    }
    assert_eq!(kinds, [4, 0, 4, 0]);
    // Of one protocol only what comes, without the link's header.
    let first = receive(&mut b, cooked, 100, 0).unwrap();
    assert_eq!((first.len(), first[0]), (29, 0x45));
    assert!(receive(&mut b, cooked, 100, 0).is_ok());
    assert_eq!(receive(&mut b, cooked, 100, 0), Err(-EAGAIN));
    assert_eq!(statistics(&mut b, raw), (4, 0));
    assert_eq!(statistics(&mut b, raw), (0, 0));
    assert_eq!(set(&mut b, raw, IGNORE_OUTGOING, 1, b""), 0);
    traffic(&mut b, 1);
    assert_eq!(statistics(&mut b, raw), (2, 0));
}

#[test]
fn filters_choose_and_cut() {
    let mut b = privileged();
    let raw = packet_socket(&mut b, RAW, BY_ALL).unwrap();
    assert_eq!(result(&mut b, raw, &[net::FILTER]), -ENOENT);
    let refuse = [0x06, 0, 0, 0, 0, 0, 0, 0];
    let words = [net::FILTER];
    assert_eq!(
        call(&mut b, raw, &words, &refuse[..7], 0).unwrap().result(),
        -EINVAL
    );
    assert_eq!(call(&mut b, raw, &words, &refuse, 0).unwrap().result(), 0);
    traffic(&mut b, 3);
    assert_eq!(receive(&mut b, raw, 100, 0), Err(-EAGAIN));
    assert_eq!(statistics(&mut b, raw), (0, 0));
    let cut = [0x06, 0, 0, 0, 20, 0, 0, 0];
    assert_eq!(call(&mut b, raw, &words, &cut, 0).unwrap().result(), 0);
    traffic(&mut b, 1);
    assert_eq!(receive(&mut b, raw, 100, 0).unwrap().len(), 20);
    assert_eq!(result(&mut b, raw, &[net::FILTER]), 0);
    // Other sockets have them as well.
    let other = socket(&mut b, INET, DATAGRAM);
    assert_eq!(result(&mut b, other, &[net::FILTER]), -ENOENT);
    assert_eq!(call(&mut b, other, &words, &cut, 0).unwrap().result(), 0);
    assert_eq!(result(&mut b, other, &[net::FILTER]), 0);
}

#[test]
fn what_does_not_fit_is_lost_and_counted() {
    let mut b = privileged();
    let raw = packet_socket(&mut b, RAW, BY_ALL).unwrap();
    traffic(&mut b, 2000);
    let (all, lost) = statistics(&mut b, raw);
    assert!(all >= 8000 && lost > 0 && lost < all, "{all} {lost}");
    b.close(raw);
    // Nobody looks any more.
    traffic(&mut b, 10);
    assert!(b.server.taps.is_empty() && b.server.captures.is_empty());
}

#[test]
fn own_frames_take_the_way_of_others() {
    let mut b = privileged();
    let raw = packet_socket(&mut b, RAW, BY_ALL).unwrap();
    assert_eq!(bind_to(&mut b, raw, 1, ALL), 0);
    assert_eq!(send(&mut b, raw, &[0; 13]), -EINVAL);
    assert_eq!(send(&mut b, raw, &vec![0; 65_551]), -EMSGSIZE);
    // A protocol of nobody's: it comes back, once.
    let mut frame = vec![6; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    assert_eq!(send(&mut b, raw, &frame), 60);
    assert_eq!(receive(&mut b, raw, 100, 0).unwrap(), frame);
    assert_eq!(receive(&mut b, raw, 100, 0), Err(-EAGAIN));
    // A packet whose checksum is wrong reaches nobody.
    let receiver = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, receiver, Address::LOOPBACK_V4, 77), 0);
    let header = Header {
        source: Address::LOOPBACK_V4,
        destination: Address::LOOPBACK_V4,
        protocol: 17,
        ttl: 64,
        ..Header::default()
    };
    for (sum, comes) in [([0, 0], true), ([1, 2], false)] {
        let mut packet = Packet::new(&header, 9, 1).unwrap();
        packet.push(&[0, 9, 0, 77, 0, 9, sum[0], sum[1], b'x']);
        let frame = [&[0; 12][..], &[8, 0], packet.bytes()].concat();
        assert_eq!(send(&mut b, raw, &frame), frame.len() as i64);
        assert_eq!(receive(&mut b, receiver, 10, 0).is_ok(), comes);
    }
    for (operation, error) in [(net::CONNECT, -EOPNOTSUPP), (net::LISTEN, -EOPNOTSUPP)] {
        let word = PACKET << 16;
        assert_eq!(result(&mut b, raw, &[operation, 1, 0, word]), error);
    }
    assert_eq!(result(&mut b, raw, &[net::SHUTDOWN, 2]), -EOPNOTSUPP);
    let nowhere = packet_socket(&mut b, RAW, 0).unwrap();
    assert_eq!(send(&mut b, nowhere, &frame), -ENXIO);
}

#[test]
fn memberships_are_counted() {
    let mut b = privileged();
    let raw = packet_socket(&mut b, RAW, 0).unwrap();
    let member = |interface: u32, kind: u32| words_of(&[interface, kind, 0, 0]);
    assert_eq!(set(&mut b, raw, ADD_MEMBERSHIP, 0, &member(9, 1)), -ENODEV);
    assert_eq!(set(&mut b, raw, ADD_MEMBERSHIP, 0, &[0; 15]), -EINVAL);
    for _ in 0..MEMBERSHIPS {
        assert_eq!(set(&mut b, raw, ADD_MEMBERSHIP, 0, &member(1, 1)), 0);
    }
    assert_eq!(set(&mut b, raw, ADD_MEMBERSHIP, 0, &member(1, 1)), -ENOBUFS);
    assert_eq!(set(&mut b, raw, DROP_MEMBERSHIP, 0, &member(1, 1)), 0);
    let count = |b: &Bench<Net>| b.server.interfaces.get(1).unwrap().promiscuous;
    assert_eq!(count(&b), MEMBERSHIPS as u32 - 1);
    b.close(raw);
    assert_eq!(count(&b), 0);
}

struct Words(Vec<AtomicU64>);

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
    fn portal(&self) -> Portal {
        Portal(77)
    }
}

fn memory(bytes: usize) -> Option<Box<dyn Memory>> {
    Some(Box::new(Words(
        (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
    )))
}

/// The ring's memory, as the program sees it.
fn slot(b: &Bench<Net>, at: usize) -> &AtomicU64 {
    let mut all = (0..100).filter_map(|at| b.server.captures.get(at));
    let ring = all.find_map(|capture| capture.ring.as_ref()).unwrap();
    &ring.memory_words()[at * 2048 / 8]
}

#[test]
fn shapes_of_rings() {
    let shape = |values: &[u32; 4]| {
        let bytes: [u8; 16] = words_of(values).try_into().unwrap();
        Shape::of(&bytes).bytes(4)
    };
    assert_eq!(shape(&[4096, 2, 2048, 4]), Some(8192));
    assert_eq!(shape(&[8192, 2, 3008, 4]), Some(16_384));
    for wrong in [
        [0, 2, 2048, 4],
        [4095, 2, 2048, 4],
        [4096, 2, 2048, 5],
        [4096, 2, 2040, 4],
        [4096, 2, 4112, 0],
        [4096, 2, 48, 170],
        [4096, 2, 0, 0],
        [4096, 1 << 31, 2048, 0],
        [u32::MAX, u32::MAX, u32::MAX, u32::MAX],
    ] {
        assert_eq!(shape(&wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_ring_takes_the_queues_place() {
    let mut b = privileged();
    b.server.make_ring = memory;
    let raw = packet_socket(&mut b, RAW, BY_ALL).unwrap();
    let shape = words_of(&[4096, 2, 2048, 4]);
    assert_eq!(set(&mut b, raw, RX_RING, 0, &shape), -EINVAL);
    assert_eq!(set(&mut b, raw, VERSION, 2, b""), -EINVAL);
    assert_eq!(set(&mut b, raw, VERSION, V2, b""), 0);
    assert_eq!(set(&mut b, raw, RESERVE, 4, b""), 0);
    let large = words_of(&[
        4096,
        (MOST / 4096 + 1) as u32,
        4096,
        (MOST / 4096 + 1) as u32,
    ]);
    assert_eq!(set(&mut b, raw, RX_RING, 0, &large), -ENOMEM);
    assert_eq!(set(&mut b, raw, RX_RING, 0, &shape), 0);
    assert_eq!(set(&mut b, raw, RX_RING, 0, &shape), -EBUSY);
    assert_eq!(set(&mut b, raw, VERSION, V2, b""), -EBUSY);
    for (offset, length, expected) in [(0, 4096, -EINVAL), (4096, 8192, -EINVAL), (0, 8192, 2)] {
        let answer = call(&mut b, raw, &[fs::MMAP, offset, length, 1], b"", 0).unwrap();
        assert_eq!(answer.result(), expected);
    }
    assert_eq!(ready(&mut b, raw) & poll::IN, 0);
    traffic(&mut b, 2);
    // Four of eight: the ring is full.
    assert_eq!(statistics(&mut b, raw), (8, 4));
    assert_ne!(ready(&mut b, raw) & poll::IN, 0);
    for at in 0..4 {
        let word = slot(&b, at).load(Ordering::Relaxed);
        assert_eq!(word as u32 & USER, USER);
        // The datagram, and the answer that nobody has the port.
        assert_eq!(word >> 32, if at < 2 { 43 } else { 71 });
    }
    // The program gives one back: the next frame takes that slot, whatever else it wrote.
    slot(&b, 0).store(0xdead_beef << 32, Ordering::Relaxed);
    traffic(&mut b, 1);
    assert_eq!(statistics(&mut b, raw), (4, 3));
    assert_eq!(slot(&b, 0).load(Ordering::Relaxed) >> 32, 43);
    for at in 0..4 {
        slot(&b, at).store(0, Ordering::Relaxed);
    }
    assert_eq!(ready(&mut b, raw) & poll::IN, 0);
    // Who waits for several files is told so, soon; then nothing looks at the ring any more.
    pass(&mut b, 200_000_000);
    assert_eq!(b.server.timers.first(), cairn_tcp::time::Time::NEVER);
    assert_eq!(set(&mut b, raw, RX_RING, 0, &[0; 16]), 0);
    assert_eq!(receive(&mut b, raw, 100, 0), Err(-EAGAIN));
}

/// Whatever the program writes into the ring, nothing but its own frames suffers.
#[test]
fn a_hostile_program_spoils_its_own_frames() {
    let mut b = privileged();
    b.server.make_ring = memory;
    let raw = packet_socket(&mut b, RAW, BY_ALL).unwrap();
    assert_eq!(set(&mut b, raw, VERSION, V2, b""), 0);
    let shape = words_of(&[4096, 2, 128, 64]);
    assert_eq!(set(&mut b, raw, RX_RING, 0, &shape), 0);
    for round in 0..200u64 {
        {
            let mut all = (0..100).filter_map(|at| b.server.captures.get(at));
            let ring = all.find_map(|capture| capture.ring.as_ref()).unwrap();
            for (at, word) in ring.memory_words().iter().enumerate() {
                let value = (at as u64 ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                word.store(if value & 3 == 0 { 0 } else { value }, Ordering::Relaxed);
            }
        }
        traffic(&mut b, 1);
    }
    let (all, lost) = statistics(&mut b, raw);
    assert!(all == 800 && lost > 0, "{all} {lost}");
}
