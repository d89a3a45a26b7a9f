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
use cairn_abi::{Error, MAX_VECTOR};
use cairn_rt::parts::{In, Out};
use cairn_rt::{log, memory, startup, time, Message, Portal};
use common::{ask, cut, sum, Random, KEPT};

cairn_rt::entry!(main);

fn main() -> ! {
    let peer = startup::portal("peer").expect("the manifest names it");
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
