//! Long messages between two components: random cuts on both sides, from nothing to 64 MiB, memory that appears only when it is copied, a server that dies in
//! the middle. Says `messages: done` in the log when all was right, and panics where not.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod common;

use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::service::current;
use cairn_abi::{flag, Error, MAX_VECTOR};
use cairn_rt::parts::{In, Out};
use cairn_rt::{log, memory, startup, time, Message, Portal};
use common::{ask, cut, sum, Random, KEPT, OWN};

cairn_rt::entry!(main);

fn main() -> ! {
    let peer = startup::portal("peer").expect("the manifest names it");
    if startup::argument("witness").is_some() {
        witness(peer);
    }
    let mut random = Random(4711);
    let lengths = [0, 1, 7, 4095, 4096, 4097, 8192, 8193, 100_000, KEPT];
    for round in 0..60 {
        let len = match lengths.get(round) {
            Some(&len) => len,
            None => random.below(60_000) as usize,
        };
        echo(peer, &mut random, len);
    }
    log!("messages: echoes were right");
    death(peer);
    // Zeroes that are nowhere yet: they are brought in while they are copied.
    let big = memory::map(64 << 20).expect("memory");
    let (out, input) = big.split_at_mut(32 << 20);
    long(peer, out, input);
    let nothing = &mut [][..];
    long(peer, big, nothing);
    let nothing = &[][..];
    long(peer, nothing, big);
    log!("messages: long ones were right");
    windows(peer, &mut random, big);
    // It goes with a window open on its memory: see the witness.
    log!("messages: windows were right");
    cairn_rt::start::exit(0)
}

/// Comes second: the client is gone, what it showed as well, and the server lives.
fn witness(peer: Portal) -> ! {
    loop {
        let peek = peer.call(Message::new(&[ask::PEEK]));
        if peek.is_ok_and(|words| words[2] == LAST) {
            break;
        }
        let _ = Portal::CURRENT.service(current::SLEEP, &[time::monotonic() + 10_000_000]);
    }
    let answer = peer.call(Message::new(&[ask::AWAIT_CLOSE]));
    assert_eq!(answer.expect("answered")[0], OWN);
    log!("messages: done");
    cairn_rt::start::exit(0)
}

/// Split a buffer into slices of these lengths.
fn pieces<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<Out<'a>> {
    let mut parts = Vec::new();
    for &length in lengths {
        let (part, rest) = bytes.split_at(length);
        parts.push(Out::new(part));
        bytes = rest;
    }
    parts
}

fn pieces_mut<'a>(mut bytes: &'a mut [u8], lengths: &[usize]) -> Vec<In<'a>> {
    let mut parts = Vec::new();
    for &length in lengths {
        let (part, rest) = bytes.split_at_mut(length);
        parts.push(In::new(part));
        bytes = rest;
    }
    parts
}

fn echo(peer: Portal, random: &mut Random, len: usize) {
    let sent: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    // One byte more, which must stay as it is.
    let mut got = vec![0x5a; len + 1];
    let mut lengths = [0; MAX_VECTOR];
    let count = cut(random, len, MAX_VECTOR, &mut lengths);
    let out = pieces(&sent, &lengths[..count]);
    let count = cut(random, len, MAX_VECTOR, &mut lengths);
    let mut input = pieces_mut(&mut got, &lengths[..count]);
    let words = [ask::ECHO, random.next() | 1];
    let answer = peer.call_parts(Message::new(&words), &out, &mut input);
    assert_eq!(answer.expect("answered")[0], sum(0, &sent));
    assert!(got.iter().zip(&sent).all(|(got, sent)| *got == !sent));
    assert_eq!(got[len], 0x5a);
}

fn long(peer: Portal, out: &[u8], input: &mut [u8]) {
    let expected = sum(0, out);
    let message = Message::new(&[ask::SUM_AND_FILL, 0xc3]);
    let answer = peer.call(message.out(out).input(input)).expect("answered");
    assert_eq!(answer[0], expected);
    assert!(input.iter().all(|&byte| byte == 0xc3));
}

/// The server dies in the middle of reading; its successor works.
fn death(peer: Portal) {
    let sent = vec![1; 200_000];
    let answer = peer.call(Message::new(&[ask::DIE]).out(&sent));
    assert_eq!(answer.err(), Some(Error::Dead));
    let mut random = Random(17);
    for _ in 0..1000 {
        // Until the successor receives, its predecessor's last moments may give errors as well.
        let message = Message::new(&[ask::SUM_AND_FILL, 0]);
        if let Ok(answer) = peer.call(message.out(&sent)) {
            assert_eq!(answer[0], sum(0, &sent));
            return echo(peer, &mut random, 5000);
        }
        let _ = Portal::CURRENT.service(current::SLEEP, &[time::monotonic() + 1_000_000]);
    }
    panic!("no successor");
}

/// What the client shows when it ends.
const LAST: u64 = 0x7e57_1a57;

fn windows(peer: Portal, random: &mut Random, memory: &mut [u8]) {
    // Pages that are there, then some that must be brought.
    let (out, rest) = memory.split_at_mut(40 * 4096);
    let (input, rest) = rest.split_at_mut(40 * 4096);
    out.iter_mut().for_each(|byte| *byte = random.next() as u8);
    let call = |words: &[u64], out: &[u8], input: &mut [u8], flags: u64| {
        let mut message = Message::new(words).out(out).input(input);
        message.flags = flags;
        peer.call(message)
    };
    let both = flag::WINDOWS | flag::KEEP;
    for pages in [1, 2, 16, 17, 40] {
        let bytes = pages * 4096;
        input.fill(0);
        let words = [ask::WINDOWS];
        let answer = call(&words, &out[..bytes], &mut input[..bytes], flag::WINDOWS);
        assert_eq!(answer.expect("answered")[0], sum(0, &out[..bytes]));
        assert!(out[..bytes]
            .iter()
            .zip(&input[..])
            .all(|(out, input)| *input == !*out));
        assert!(input[bytes..].iter().all(|&byte| byte == 0));
    }
    let fresh = memory::map(32 * 4096).expect("memory");
    let (zeroes, ones) = fresh.split_at_mut(16 * 4096);
    let answer = call(&[ask::WINDOWS], zeroes, ones, flag::WINDOWS);
    assert_eq!(answer.expect("answered")[0], sum(0, zeroes));
    assert!(ones.iter().all(|&byte| byte == 0xff));
    // Kept, without and with consent; seen without a message, in both directions.
    let (page, _) = rest.split_at_mut(4096);
    let nothing = &mut [][..];
    page[..8].copy_from_slice(&7u64.to_le_bytes());
    let kept = call(&[ask::KEEP], page, nothing, flag::WINDOWS);
    assert_eq!(kept.expect("answered")[0], 0);
    let kept = call(&[ask::KEEP], page, nothing, both);
    assert_eq!(kept.expect("answered")[0], 1);
    let peek = || peer.call(Message::new(&[ask::PEEK])).expect("answered");
    assert_eq!(peek()[..2], [7, 1]);
    page[..8].copy_from_slice(&8u64.to_le_bytes());
    assert_eq!(peek()[..2], [8, 1]);
    // Given back: the server sees its own page.
    assert_eq!(memory::release(page), Ok(()));
    assert_eq!(peek()[..2], [OWN, 0]);
    assert!(page.iter().all(|&byte| byte == 0));
    // For writing.
    let kept = call(&[ask::KEEP, 1], nothing_to_read(), page, both);
    assert_eq!(kept.expect("answered")[0], 1);
    let poked = peer.call(Message::new(&[ask::POKE, 99]));
    assert!(poked.is_ok());
    assert_eq!(page[..8], 99u64.to_le_bytes());
    let revoked = [page.as_ptr() as u64, 1];
    assert!(Portal::CURRENT
        .service(current::WINDOW_REVOKE, &revoked)
        .is_ok());
    assert_eq!(peek()[..2], [OWN, 0]);
    // The server dies while it looks; what it wrote is there, and nothing else.
    out.fill(3);
    input.fill(4);
    let answer = call(&[ask::DIE_LOOKING], out, input, flag::WINDOWS);
    assert_eq!(answer.err(), Some(Error::Dead));
    assert_eq!(input[..8], 1u64.to_le_bytes());
    assert!(input[8..].iter().all(|&byte| byte == 4) && out.iter().all(|&byte| byte == 3));
    let mut random = Random(18);
    for _ in 0..1000 {
        if peer.call(Message::new(&[ask::PEEK])).is_ok() {
            break;
        }
        let _ = Portal::CURRENT.service(current::SLEEP, &[time::monotonic() + 1_000_000]);
    }
    echo(peer, &mut random, 5000);
    page[..8].copy_from_slice(&LAST.to_le_bytes());
    let kept = call(&[ask::KEEP], page, nothing, both);
    assert_eq!(kept.expect("answered")[0], 1);
}

fn nothing_to_read<'a>() -> &'a [u8] {
    &[]
}
