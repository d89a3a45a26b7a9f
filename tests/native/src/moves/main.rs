//! Pages that are given away, to and fro: they come as they were, nobody can change them any more, and whoever dies on the way loses only what was its own.
//! Says `moves: done` in the log when all was right, and panics where not.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

mod ask;

use ask::{sum, WORDS};
use cairn_abi::service::current;
use cairn_abi::Error;
use cairn_idl::errno::{EACCES, EBADF, EINVAL, EPERM};
use cairn_idl::wire::Failure;
use cairn_rt::pages::{self, ANYBODY};
use cairn_rt::{log, memory, startup, time, Message, Portal};

cairn_rt::entry!(main);

const PAGE: usize = 8 * WORDS;
/// What is moved in the tests, in pages.
const MOST: usize = 300;

fn main() -> ! {
    let peer = startup::portal("peer").expect("the manifest names it");
    let other = startup::portal("other").expect("the manifest names it");
    let buffer = memory::map(MOST * PAGE).expect("memory");
    let wanted = |line: &str| {
        line.split_whitespace()
            .any(|word| word == "moves.measure=1")
    };
    if startup::argument("cmdline").is_some_and(wanted) {
        measure(peer);
    }
    moved(peer, buffer);
    shared(peer, buffer);
    refused(peer, other, buffer);
    deaths(peer, buffer);
    nothing_is_lost(peer, buffer);
    log!("moves: done");
    cairn_rt::start::exit(0)
}

fn ask(peer: Portal, words: &[u64]) -> [u64; 8] {
    peer.ask(Message::new(words)).expect("answered").words
}

fn fill(pages: &mut [u8], seed: u64) {
    for (i, word) in pages.chunks_exact_mut(8).enumerate() {
        let value = (i as u64 + 1).wrapping_mul(seed | 1);
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// There and back again, of any length, in the place of other pages and at a place of `vm`'s choice.
fn moved(peer: Portal, buffer: &mut [u8]) {
    for (round, count) in [1, 2, 63, 64, 65, 200, MOST].into_iter().enumerate() {
        let (pages, rest) = buffer.split_at_mut(count * PAGE);
        fill(pages, round as u64 + 5);
        rest.fill(0x5a);
        let expected = sum(pages);
        let answer = pages::call_giving(peer, &[ask::TAKE], pages)
            .expect("given")
            .words;
        assert_eq!(answer[..2], [expected, count as u64]);
        assert!(pages.iter().all(|&byte| byte == 0));
        fill(pages, 99);
        let inverted = ask(peer, &[ask::RETURN]);
        assert_eq!(inverted[0], count as u64);
        let offered = Portal(inverted[7] as u32);
        let mut again = pages::take(offered, count * PAGE).expect("there");
        again.iter_mut().for_each(|byte| *byte = !*byte);
        assert_eq!(sum(&again), expected);
        // From there into the buffer, over what is there.
        let offered = pages::give(&mut again, ANYBODY).expect("pages of one's own");
        assert_eq!(pages::take_into(offered, pages), Ok(count * PAGE));
        assert_eq!(sum(pages), expected);
        assert!(rest.iter().all(|&byte| byte == 0x5a));
    }
}

/// Both have them, and neither sees what the other one writes.
fn shared(peer: Portal, buffer: &mut [u8]) {
    let pages = &mut buffer[..100 * PAGE];
    fill(pages, 7);
    let before = sum(pages);
    let offered = pages::share(pages, ANYBODY).expect("shared");
    pages[3 * PAGE] ^= 1;
    let taken = peer.call(Message::new(&[ask::TAKE]).portal(offered));
    assert_eq!(taken.expect("answered")[0], before);
    offered.close();
    pages[3 * PAGE] ^= 1;
    assert_ne!(ask(peer, &[ask::WRITE, 123])[0], before);
    assert_eq!(sum(pages), before);
    pages.fill(1);
    let again = ask(peer, &[ask::WRITE, 124]);
    assert_ne!(again[0], before);
    ask(peer, &[ask::DROP]);
    assert!(pages.iter().all(|&byte| byte == 1));
}

fn errno(result: Result<impl Sized, Failure>) -> i64 {
    match result {
        Err(Failure::Refused(errno)) => errno,
        _ => 0,
    }
}

/// For somebody else, taken twice, not pages, too many.
fn refused(peer: Portal, other: Portal, buffer: &mut [u8]) {
    let pages = &mut buffer[..4 * PAGE];
    fill(pages, 3);
    let expected = sum(pages);
    // Only this domain itself may take what it offers itself.
    let own = Portal::CURRENT
        .service(current::IDENTITY, &[])
        .expect("one")[1];
    let offered = pages::give(pages, own as u32).expect("given");
    let words = other.call(Message::new(&[ask::TAKE]).portal(offered));
    assert_eq!(words.expect("answered")[1], 0);
    assert!(errno(pages::take(offered, PAGE)) != 0);
    assert_eq!(pages::take_into(offered, pages), Ok(4 * PAGE));
    assert_eq!(sum(pages), expected);
    // The second one finds nothing.
    let offered = pages::give(pages, ANYBODY).expect("given");
    let first = peer.call(Message::new(&[ask::TAKE]).portal(offered));
    assert_eq!(first.expect("answered")[0], expected);
    let second = other.call(Message::new(&[ask::TAKE]).portal(offered));
    assert_eq!(second.expect("answered")[1], 0);
    assert_eq!(errno(pages::take(offered, PAGE)), EBADF);
    offered.close();
    ask(peer, &[ask::DROP]);
    // Whatever a portal leads to, nothing is taken on its word.
    assert_eq!(errno(pages::take(peer, PAGE)), EBADF);
    assert_eq!(errno(pages::give(&mut pages[8..PAGE], ANYBODY)), EINVAL);
    let (memory, object) = memory::Shared::make(WORDS).expect("shared memory");
    object.close();
    drop(memory);
    let program = include_bytes!("main.rs");
    let aligned = program.as_ptr().align_offset(PAGE);
    if let Some(text) = program.get(aligned..aligned + PAGE) {
        // A program's own pages are a memory object's.
        assert!([EACCES, 0].contains(&errno(pages::share(text, ANYBODY))));
    }
    assert_eq!(errno(pages::give(pages, u32::MAX)), 0);
    assert_ne!(errno(pages::take(other, PAGE)), EPERM);
}

/// The server dies before or after it took; then its successor is there.
fn deaths(peer: Portal, buffer: &mut [u8]) {
    let pages = &mut buffer[..70 * PAGE];
    for after in [0, 1] {
        fill(pages, 11);
        let expected = sum(pages);
        let answer = pages::call_giving(peer, &[ask::DIE, after], pages);
        assert_eq!(answer, Err(Failure::Gate(Error::Dead)));
        match after {
            0 => assert_eq!(sum(pages), expected, "they came back"),
            _ => assert!(pages.iter().all(|&byte| byte == 0), "they went with it"),
        }
        await_successor(peer);
    }
    // What it gave is there even if it is not, or gone with it: never half.
    let gift = ask(peer, &[ask::GIVE_AND_DIE]);
    let offered = Portal(gift[7] as u32);
    match pages::take(offered, PAGE) {
        Ok(taken) => assert!(taken.iter().all(|&byte| byte == 7)),
        Err(failure) => {
            assert_eq!(failure, Failure::Refused(EBADF));
            offered.close();
        }
    }
    await_successor(peer);
}

fn await_successor(peer: Portal) {
    for _ in 0..2000 {
        // Until it receives, its predecessor's last moments may give errors as well.
        if peer.call(Message::new(&[ask::NOTHING])).is_ok() {
            return;
        }
        let _ = Portal::CURRENT.service(current::SLEEP, &[time::monotonic() + 1_000_000]);
    }
    panic!("no successor");
}

/// A thousand rounds of everything end with as much free memory as they began with.
fn nothing_is_lost(peer: Portal, buffer: &mut [u8]) {
    let mut free = 0;
    for round in 0..1000 {
        let pages = &mut buffer[..(1 + round % 80) * PAGE];
        pages.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        match round % 3 {
            0 => {
                pages::call_giving(peer, &[ask::TAKE], pages).expect("given");
                ask(peer, &[ask::DROP]);
            }
            1 => {
                // Nobody takes them, and the last portal goes.
                pages::call_giving(peer, &[ask::HOARD], pages).expect("given");
                ask(peer, &[ask::DROP]);
            }
            _ => {
                let offered = pages::share(pages, ANYBODY).expect("shared");
                let message = Message::new(&[ask::TAKE]).portal(offered);
                peer.call(message).expect("answered");
                offered.close();
                ask(peer, &[ask::DROP]);
            }
        }
        if round == 240 {
            memory::release(buffer).expect("given back");
            free = memory::frames().1;
        }
    }
    memory::release(buffer).expect("given back");
    let now = memory::frames().1;
    // Others may have taken some meanwhile, but not of the order of what went to and fro.
    assert!(now + 500 > free, "{free} frames were free, now {now}");
}

/// What a message with so much data costs, in nanoseconds, which in deterministic mode are instructions: copied, and as pages that go there and come back.
fn measure(peer: Portal) {
    let buffer = memory::map(64 << 20).expect("memory");
    memory::populate(buffer).expect("memory");
    for length in [PAGE, 16 * PAGE, 256 * PAGE, 64 << 20] {
        let data = &mut buffer[..length];
        let rounds = if length > 256 * PAGE { 3 } else { 20 };
        let (mut copied, mut moved) = (u64::MAX, u64::MAX);
        for _ in 0..rounds {
            let begin = time::monotonic();
            let answer = peer.call(Message::new(&[ask::PART]).out(data));
            copied = copied.min(time::monotonic() - begin);
            assert_eq!(answer.expect("answered")[0], length as u64);
            let begin = time::monotonic();
            let answer = pages::call_giving(peer, &[ask::PAGES], data).expect("given");
            let offered = Portal(answer.words[7] as u32);
            let back = pages::take_into(offered, data);
            moved = moved.min(time::monotonic() - begin);
            assert_eq!(back, Ok(length));
        }
        log!("{length} bytes: copied once {copied}, pages there and back {moved}");
    }
}
