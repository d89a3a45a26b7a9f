//! The server of the test of long messages: takes what its caller sends in cuts of its own.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod common;

use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::service::{current, window};
use cairn_abi::{layout, received, MAX_VECTOR};
use cairn_rt::parts::{In, Out};
use cairn_rt::window::Window;
use cairn_rt::{time, Portal, Received, Receiver, Reply};
use common::{ask, cut, sum, Random, KEPT, OWN};
use core::sync::atomic::Ordering::Relaxed;

cairn_rt::entry!(main);

fn main() -> ! {
    let channel = Receiver(Portal(layout::native_slot::RECEIVE));
    let mut buffer = vec![0; KEPT];
    let windows = [(); 3].map(|()| Window::make(window::MAX_PAGES).expect("a window"));
    let [look, fill, kept] = &windows;
    let mut last = 0;
    for window in &windows {
        window.words()[0].store(OWN, Relaxed);
    }
    loop {
        let Ok(message) = channel.receive(None) else {
            continue;
        };
        if message.kind != received::kind::MESSAGE {
            continue;
        }
        match message.words[0] {
            ask::ECHO if message.out_len <= KEPT => echo(channel, &message, &mut buffer),
            ask::WINDOWS => through_windows(channel, &message, look, fill),
            ask::KEEP => {
                let flags = window::KEEP | message.words[1];
                let opened = kept.open(channel, message.token, 0, 1, flags).is_ok();
                last = kept.words()[0].load(Relaxed);
                let _ = channel.reply(message.token, Reply::new(&[opened as u64]));
            }
            ask::PEEK => {
                let seen = kept.words()[0].load(Relaxed);
                let words = [seen, kept.is_open() as u64, last];
                let _ = channel.reply(message.token, Reply::new(&words));
            }
            ask::POKE => {
                kept.words()[0].store(message.words[1], Relaxed);
                let _ = channel.reply(message.token, Reply::new(&[]));
            }
            ask::DIE_LOOKING => {
                let (token, pages) = (message.token, window::MAX_PAGES);
                assert!(look.open(channel, token, 0, pages, 0).is_ok());
                assert!(fill.open(channel, token, 0, pages, window::IN).is_ok());
                fill.words()[0].store(1, Relaxed);
                cairn_rt::start::exit(0)
            }
            ask::AWAIT_CLOSE => {
                while kept.is_open() {
                    let soon = time::monotonic() + 1_000_000;
                    let _ = Portal::CURRENT.service(current::SLEEP, &[soon]);
                }
                let seen = kept.words()[0].load(Relaxed);
                let _ = channel.reply(message.token, Reply::new(&[seen]));
            }
            ask::SUM_AND_FILL => sum_and_fill(channel, &message, &mut buffer),
            ask::DIE => {
                let half = &mut buffer[..(message.out_len / 2).min(KEPT)];
                let _ = channel.read(message.token, 0, half);
                cairn_rt::start::exit(0)
            }
            _ => {
                let _ = channel.reply_words(message.token, &[u64::MAX; 8]);
            }
        }
    }
}

/// Cuts of the first `len` bytes.
fn cuts(random: &mut Random, len: usize) -> Vec<usize> {
    let mut lengths = vec![0; MAX_VECTOR];
    let count = cut(random, len, MAX_VECTOR, &mut lengths);
    lengths.truncate(count);
    lengths
}

fn echo(channel: Receiver, message: &Received, buffer: &mut [u8]) {
    let mut random = Random(message.words[1]);
    let kept = &mut buffer[..message.out_len];
    // In two steps, of which the first ends anywhere.
    let first = random.below(kept.len() as u64 + 1) as usize;
    for (offset, part) in [(0, 0..first), (first, first..kept.len())] {
        let lengths = cuts(&mut random, part.len());
        let mut rest = &mut kept[part.clone()];
        let mut parts = Vec::new();
        for length in lengths {
            let (piece, behind) = rest.split_at_mut(length);
            parts.push(In::new(piece));
            rest = behind;
        }
        let got = channel.read_parts(message.token, offset as u64, &mut parts);
        assert_eq!(got, Ok(part.len()));
    }
    let total = sum(0, kept);
    kept.iter_mut().for_each(|byte| *byte = !*byte);
    let room = message.in_len.min(kept.len());
    // Half of it written, the rest with the reply.
    let half = room / 2;
    let parts = |random: &mut Random, mut rest| {
        let mut parts: Vec<Out> = Vec::new();
        for length in cuts(random, <[u8]>::len(rest)) {
            let (piece, behind) = rest.split_at(length);
            parts.push(Out::new(piece));
            rest = behind;
        }
        parts
    };
    let written = parts(&mut random, &kept[..half]);
    assert_eq!(channel.write_parts(message.token, 0, &written), Ok(half));
    let mut reply = Reply::new(&[total]);
    reply.offset = half as u64;
    let replied = parts(&mut random, &kept[half..room]);
    assert_eq!(channel.reply_parts(message.token, &reply, &replied), Ok(()));
}

fn sum_and_fill(channel: Receiver, message: &Received, buffer: &mut [u8]) {
    let mut total = 0;
    let mut at = 0;
    while at < message.out_len {
        let got = channel.read(message.token, at as u64, buffer);
        let got = got.expect("read");
        total = sum(total, &buffer[..got]);
        at += got;
    }
    buffer.fill(message.words[1] as u8);
    let mut at = 0;
    while at < message.in_len {
        let put = channel.write(message.token, at as u64, buffer);
        at += put.expect("written");
    }
    let _ = channel.reply(message.token, Reply::new(&[total]));
}

/// A run of whole pages through two windows, as many at a time as they have.
fn through_windows(channel: Receiver, message: &Received, look: &Window, fill: &Window) {
    let (mut total, mut at) = (0, 0);
    while at < message.out_len {
        let pages = ((message.out_len - at) as u64 / layout::PAGE).min(window::MAX_PAGES);
        let offset = at as u64;
        let from = look.open(channel, message.token, offset, pages, 0);
        let to = fill.open(channel, message.token, offset, pages, window::IN);
        let (from, to) = (from.expect("shown"), to.expect("shown"));
        for (from, to) in from.iter().zip(to) {
            let word = from.load(Relaxed);
            total = sum(total, &word.to_le_bytes());
            to.store(!word, Relaxed);
        }
        at += from.len() * 8;
        if at < message.out_len {
            look.close();
            fill.close();
        }
    }
    // The last two close by the reply.
    let _ = channel.reply(message.token, Reply::new(&[total]));
    assert!(!look.is_open() && !fill.is_open());
    assert_eq!(look.words()[0].load(Relaxed), OWN);
    assert_eq!(fill.words()[0].load(Relaxed), OWN);
}
