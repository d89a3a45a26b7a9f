//! What is asked of a filter and how its answers are obeyed: a filter that says what the test wants, and packets through it.

use super::*;
use crate::forward::tests::{datagram, made, only, out, router, through, LEFT, RIGHT};
use crate::tests::{bind, receive, send_to, socket};
use crate::tunnel::tests as tun;
use cairn_ethernet::fragments::fold;
use cairn_idl::net::{DATAGRAM, INET};
use cairn_resmgr::fake::Bench;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

const FILTER: Portal = Portal(77);
const OWN: [u8; 4] = [10, 2, 0, 1];

thread_local! {
    /// The page, as the filter has it.
    static PAGE: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(page::LIVES | page::ASKS)));
}

fn attach(_: Portal) -> Option<Page> {
    Some(PAGE.with(|page| core::slice::from_ref(*page)))
}

/// What was asked, and what is answered next (the last one again).
#[derive(Default)]
struct Script {
    asked: Vec<[u64; 8]>,
    answers: Vec<[u64; 8]>,
}

type Shared = Rc<RefCell<Script>>;

fn filtered() -> (Bench<Net>, [u64; 2], Shared) {
    let (mut b, ends) = router();
    let script = Shared::default();
    let its = Rc::clone(&script);
    b.fake.service = Some(Box::new(move |portal, words| {
        if portal != FILTER {
            return [u64::MAX; 8];
        }
        let mut script = its.borrow_mut();
        script.asked.push(words);
        match (words[0], script.answers.len()) {
            (filter::JUDGE, 0) => [Say::Accept as u64, 0, 0, 0, 0, 0, 0, 0],
            (filter::JUDGE, 1) => script.answers[0],
            (filter::JUDGE, _) => script.answers.remove(0),
            _ => [0; 8],
        }
    }));
    b.server.filter.portal = Some(FILTER);
    b.server.filter.attach = Some(attach);
    PAGE.with(|of| of.store(page::LIVES | page::ASKS, Ordering::Relaxed));
    b.pulse(pulse::NOTIFY, 1, filter::BEGUN);
    (b, ends, script)
}

fn rewritten(say: Say, source: [u8; 4], to: [u8; 4], ports: [u16; 2], number: u64) -> [u64; 8] {
    let [a, b] = Address::v4(source).words();
    let [c, d] = Address::v4(to).words();
    let ports = u64::from(ports[0]) | u64::from(ports[1]) << 16;
    [say as u64, said::REWRITTEN, a, b, c, d, ports, number]
}

fn plain(say: Say, number: u64) -> [u64; 8] {
    [say as u64, 0, 0, 0, 0, 0, 0, number]
}

fn across(text: &[u8]) -> Vec<u8> {
    datagram(Address::v4(LEFT), Address::v4(RIGHT), 9, text)
}

#[test]
fn a_packet_is_asked_for_and_rewritten() {
    let (mut b, ends, script) = filtered();
    script.borrow_mut().answers = vec![rewritten(Say::Accept, OWN, RIGHT, [4000, 53], 0)];
    let [back, on] = through(&mut b, ends, &across(b"hello"));
    assert!(back.is_empty());
    let on = only(on);
    assert_eq!(on, {
        let mut wanted = datagram(Address::v4(OWN), Address::v4(RIGHT), 8, b"hello");
        wanted[20..22].copy_from_slice(&4000u16.to_be_bytes());
        let old = [wanted[26], wanted[27]];
        let new = update(old, &5000u16.to_be_bytes(), &4000u16.to_be_bytes());
        wanted[26..28].copy_from_slice(&new);
        wanted
    });
    let asked = script.borrow().asked.clone();
    assert_eq!(
        (asked[0][0], asked[1][0], asked.len()),
        (filter::INTERFACES, filter::JUDGE, 2)
    );
    let word =
        Hook::Forward as u64 | 1 << 8 | 2 << 16 | 17 << 24 | (across(b"hello").len() as u64) << 32;
    let [low, high] = Address::v4(LEFT).words();
    assert_eq!(asked[1][1..4], [word, low, high]);
    assert_eq!(asked[1][6], 5000 | 53 << 16);
    // The reply: where it goes is known after the first answer.
    let replied = datagram(Address::v4(RIGHT), Address::v4(OWN), 9, b"there");
    script.borrow_mut().answers = vec![
        rewritten(Say::Again, RIGHT, LEFT, [5000, 999], 6),
        plain(Say::Accept, 0),
    ];
    let [back, on] = through(&mut b, [ends[1], ends[0]], &replied);
    assert!(back.is_empty());
    let (header, payload) = Packet::received(only(on.clone()), 0).parse().unwrap();
    assert_eq!((header.destination, header.ttl), (Address::v4(LEFT), 8));
    assert_eq!(checksum(&header, &on[0][payload.start..]), 0);
    let asked = script.borrow().asked[2..].to_vec();
    let hooks: Vec<u64> = asked.iter().map(|words| words[1] & 3).collect();
    assert_eq!(hooks, [Hook::Input as u64, Hook::Forward as u64]);
    assert_eq!(
        (asked[1][1] & about::AGAIN, asked[1][6] >> 32),
        (about::AGAIN, 6)
    );
    // An answer that says nothing new for ever ends.
    script.borrow_mut().answers = vec![rewritten(Say::Again, RIGHT, LEFT, [1, 2], 6)];
    assert!(through(&mut b, [ends[1], ends[0]], &replied)[1].is_empty());
}

#[test]
fn what_it_refuses_is_dropped_or_told() {
    let (mut b, ends, script) = filtered();
    script.borrow_mut().answers = vec![plain(Say::Drop, 0)];
    let [back, on] = through(&mut b, ends, &across(b"x"));
    assert!(back.is_empty() && on.is_empty());
    for (how, code) in [
        (Refusal::Port, 3),
        (Refusal::Prohibited, 13),
        (Refusal::Host, 1),
        (Refusal::Net, 0),
    ] {
        // (The error passes as well.)
        script.borrow_mut().answers = vec![plain(Say::Reject, how as u64), plain(Say::Accept, 0)];
        let [back, on] = through(&mut b, ends, &across(b"x"));
        let back = only(back);
        assert!(on.is_empty());
        assert_eq!(
            (back[20], back[21], &back[28..48]),
            (3, code, &across(b"x")[..20])
        );
    }
    // A connection is reset.
    let header = Header {
        source: Address::v4(LEFT),
        destination: Address::v4(RIGHT),
        protocol: protocol::TCP,
        ttl: 9,
        ..Header::default()
    };
    let mut syn = [0; 20];
    syn[..8].copy_from_slice(&[0x10, 1, 0, 80, 0, 0, 0, 7]);
    (syn[12], syn[13]) = (5 << 4, 2);
    script.borrow_mut().answers = vec![plain(Say::Reject, Refusal::Reset as u64)];
    let [back, _] = through(&mut b, ends, &made(&header, &syn));
    let back = only(back);
    assert_eq!((&back[12..16], &back[16..20]), (&RIGHT[..], &LEFT[..]));
    assert_eq!(
        (&back[20..24], &back[28..32], back[33]),
        (&[0, 80, 0x10, 1][..], &[0, 0, 0, 8][..], 20)
    );
    // A program of this machine hears of it.
    script.borrow_mut().answers = vec![plain(Say::Reject, Refusal::Prohibited as u64)];
    let s = socket(&mut b, INET, DATAGRAM);
    assert_eq!(send_to(&mut b, s, b"x", Address::v4(RIGHT), 9), 1);
    assert!(out(&mut b, ends[1]).is_empty());
}

#[test]
fn while_it_is_gone_nothing_passes() {
    let (mut b, ends, script) = filtered();
    let s = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, s, Address::ANY_V4, 53), 0);
    let own = datagram(Address::v4(LEFT), Address::v4(OWN), 9, b"in");
    let passes = |b: &mut Bench<Net>| {
        let [_, on] = through(b, ends, &across(b"x"));
        through(b, ends, &own);
        let came = receive(b, s, 10, 0).is_ok();
        send_to(b, s, b"out", Address::v4(RIGHT), 9);
        [!on.is_empty(), came, !out(b, ends[1]).is_empty()]
    };
    assert_eq!(passes(&mut b), [true; 3]);
    let asked = script.borrow().asked.len();
    let set = |word| PAGE.with(|of| of.store(word, Ordering::Relaxed));
    // No rules: it is not asked.
    set(page::LIVES);
    assert_eq!(passes(&mut b), [true; 3]);
    assert_eq!(script.borrow().asked.len(), asked);
    set(0);
    assert_eq!(passes(&mut b), [false; 3]);
    assert_eq!(script.borrow().asked.len(), asked);
    // What does not leave the machine goes on.
    send_to(&mut b, s, b"own", Address::v4(OWN), 53);
    assert_eq!(receive(&mut b, s, 10, 0), Ok(b"own".to_vec()));
    // Its successor is told of the interfaces.
    set(page::LIVES | page::ASKS);
    b.pulse(pulse::NOTIFY, 1, filter::BEGUN);
    assert_eq!(passes(&mut b), [true; 3]);
    assert_eq!(script.borrow().asked[asked][0], filter::INTERFACES);
    // One that answers nonsense is one that drops.
    for answer in [
        [u64::MAX; 8],
        [7; 8],
        plain(Say::Again, 0),
        [-1i64 as u64, 0, 0, 0, 0, 0, 0, 0],
    ] {
        script.borrow_mut().answers = vec![answer];
        assert_eq!(passes(&mut b), [false; 3]);
    }
    // What stays in the machine is asked for when a rule names it.
    set(page::LIVES | page::ASKS | page::LOOPBACK);
    script.borrow_mut().answers = vec![plain(Say::Drop, 0)];
    send_to(&mut b, s, b"own", Address::v4(OWN), 53);
    assert!(receive(&mut b, s, 10, 0).is_err());
}

#[test]
fn pieces_are_put_together_for_it() {
    let (mut b, ends, script) = filtered();
    let text: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
    let mut pieces = Vec::new();
    crate::forward::cut(&across(&text), 1500, |piece| {
        pieces.push(piece.bytes().to_vec())
    });
    let before = script.borrow().asked.len();
    for (i, piece) in pieces.iter().enumerate() {
        let [_, on] = through(&mut b, ends, piece);
        assert_eq!(on.len(), if i + 1 == pieces.len() { 3 } else { 0 });
    }
    assert_eq!(
        script.borrow().asked.len(),
        before + 1 + usize::from(before == 0)
    );
}

#[test]
fn errors_are_rewritten_with_what_they_quote() {
    let quoted = datagram(Address::v4(OWN), Address::v4(RIGHT), 9, b"hello");
    let mut message = [&[11, 0, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    let sum = plain_checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut header = Header {
        source: Address::v4(RIGHT),
        destination: Address::v4(OWN),
        protocol: protocol::ICMP,
        ttl: 9,
        ..Header::default()
    };
    let bytes = made(&header, &message);
    let mut packet = Packet::received(bytes.clone(), 0);
    let payload = packet.parse().unwrap().1;
    let to = Rewriting {
        source: Address::v4(LEFT),
        destination: Address::v4([1, 2, 3, 4]),
        ports: [1, 2],
        as_end: true,
    };
    assert!(rewrite_packet(&mut packet, &mut header, payload, &to));
    let (header, payload) = packet.parse().unwrap();
    assert_eq!(
        (header.source, header.destination),
        (to.destination, to.source)
    );
    assert_eq!(plain_checksum(packet.payload(payload)), 0);
    let inner = Packet::received(packet.payload(payload)[8..].to_vec(), 0);
    let (own, place) = inner.parse().unwrap();
    assert_eq!((own.source, own.destination), (to.source, to.destination));
    assert_eq!(inner.payload(place)[..4], [0, 1, 0, 2]);
    assert_eq!(checksum(&own, inner.payload(place)), 0);
    // One whose sum is wrong stays as it is, and is lost.
    let mut wrong = Packet::received(bytes, 0);
    wrong.bytes_mut()[40] ^= 1;
    let (mut header, payload) = wrong.parse().unwrap();
    assert!(!rewrite_packet(&mut wrong, &mut header, payload, &to));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Sums that were right are right afterwards, and those that were wrong are wrong.
    #[test]
    fn sums_stay_what_they_are(
        v6 in any::<bool>(), number in prop_oneof![Just(6u8), Just(17), Just(1), Just(58), any::<u8>()],
        addresses in proptest::array::uniform4(any::<[u8; 16]>()), ports in any::<[u16; 2]>(),
        mut body in proptest::collection::vec(any::<u8>(), 0..60), right in any::<bool>()
    ) {
        let address = |i: usize| match v6 {
            true => Address({ let mut a = addresses[i]; a[0] = 0x20; a }),
            false => Address::v4(*addresses[i].last_chunk().unwrap()),
        };
        let mut header = Header { source: address(0), destination: address(1), protocol: number, ttl: 5, ..Header::default() };
        let at = match number { 6 => 16, 17 => 6, _ => 2 };
        let known = matches!(number, 6 | 17) || number == if v6 { 58 } else { 1 };
        if matches!(number, 1 | 58) {
            if let Some(kind) = body.first_mut() {
                *kind = match number { 1 => 8, _ => 128 };
            }
        }
        let sum = |header: &Header, body: &[u8]| match number {
            1 => plain_checksum(body),
            _ => checksum(header, body),
        };
        if body.len() >= at + 2 && known {
            body[at..at + 2].fill(0);
            let sum = sum(&header, &body).to_be_bytes();
            body[at..at + 2].copy_from_slice(&sum);
            if !right {
                body[at] ^= 0x40;
            }
        }
        let before = sum(&header, &body);
        let bytes = made(&header, &body);
        let mut packet = Packet::received(bytes, 0);
        let start = if v6 { 40 } else { 20 };
        let payload = Payload { start, end: start + body.len() };
        let to = Rewriting { source: address(2), destination: address(3), ports, as_end: false };
        if rewrite_packet(&mut packet, &mut header, payload, &to) {
            let same = |one: u16, other: u16| one == other || fold(u64::from(one) + u64::from(!other)) == 0;
            if body.len() >= at + 2 && known {
                let after = sum(&header, packet.payload(payload));
                // (A sum of UDP that was 0 is none.)
                let none = number == 17 && !v6 && body[6..8] == [0, 0];
                prop_assert!(none || same(before, after) || before == 0 && after == 0, "{:x} {:x}", before, after);
            }
            let parsed = Packet::received(packet.bytes().to_vec(), 0).parse();
            if let Some((parsed, _)) = parsed.filter(|_| !v6) {
                prop_assert_eq!((parsed.source, parsed.destination), (to.source, to.destination));
            }
            let head = packet.bytes();
            prop_assert!(v6 || plain_checksum(&head[..20]) == 0);
        }
    }

    #[test]
    fn whatever_a_filter_says_ends(
        answers in proptest::collection::vec(proptest::array::uniform8(prop_oneof![any::<u64>(), 0u64..4]), 1..30),
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 20..80), 0..20)
    ) {
        let (mut b, ends, script) = filtered();
        script.borrow_mut().answers = answers;
        for packet in packets {
            through(&mut b, ends, &packet);
            through(&mut b, ends, &across(&packet));
            through(&mut b, ends, &datagram(Address::v4(LEFT), Address::v4(OWN), 9, &packet));
            let header = Header { source: Address::v4(LEFT), destination: Address::v4(OWN), protocol: 1, ttl: 3, ..Header::default() };
            tun::write(&mut b, ends[1], &made(&header, &packet));
        }
    }
}
