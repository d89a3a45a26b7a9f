//! A partition with a scheduler outside the nucleus (`scheduler.rs`): semaphores of that, priorities, turns, a wait for something else, and the scheduler's
//! end. Says `partition: done` when all was right.
#![no_std]
#![no_main]

use cairn_abi::layout::native_slot;
use cairn_abi::service::{current, domain, thread, AUTO};
use cairn_rt::{log, memory, startup, Message, Portal};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

cairn_rt::entry!(main);

const JOIN: u64 = 1;
const P: u64 = 2;
const V: u64 = 3;
const YIELD: u64 = 4;
const STACK: usize = 16 * 1024;
/// What the members have outside.
const OUTSIDE: u64 = 15;
const ROUNDS: u64 = 2000;
/// Semaphores: what the first waits for; one for each of those that take turns; what all wait for in the end.
const START: u64 = 0;
const TURN: u64 = 1;
const MEMBERS: usize = 3;

/// What each calls its scheduler through, and in which order things happened: four bits each.
static PORTALS: [AtomicU64; MEMBERS] = [const { AtomicU64::new(0) }; MEMBERS];
static ORDER: AtomicU64 = AtomicU64::new(0);
static TURNS: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);

fn need<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("partition: {error:?}"))
}

fn happens(what: u64) {
    ORDER.store(ORDER.load(SeqCst) << 4 | what, SeqCst);
}

fn ask(i: usize, words: &[u64]) {
    let portal = Portal(PORTALS[i].load(SeqCst) as u32);
    assert_eq!(need(portal.call(Message::new(words)))[0], 0);
}

/// The higher number is the more important one; the last two are equal.
extern "C" fn member(i: u64) -> ! {
    let i = i as usize;
    if i == 0 {
        // The least important one lets the others go, and comes behind them each time.
        happens(1);
        ask(0, &[V, START]);
        happens(2);
        ask(0, &[V, START]);
        happens(3);
    } else {
        ask(i, &[P, START]);
        happens(8 + i as u64);
        // A turn goes round between two of them by the scheduler's semaphores.
        let (own, other) = (TURN + i as u64, TURN + 3 - i as u64);
        for round in 0..ROUNDS {
            if round != 0 || i == 2 {
                ask(i, &[P, own]);
            }
            assert_eq!(INSIDE.fetch_add(1, SeqCst), 0, "two at once");
            let turns = TURNS.fetch_add(1, SeqCst);
            assert_eq!(turns % 2, i as u64 - 1);
            assert_eq!(INSIDE.fetch_sub(1, SeqCst), 1);
            ask(i, &[V, other]);
            ask(i, &[YIELD]);
        }
        // The wait for something else is told, and its end.
        let later = cairn_rt::time::monotonic() + 3_000_000;
        need(Portal::CURRENT.service(current::SLEEP, &[later]));
        assert!(cairn_rt::time::monotonic() >= later);
    }
    DONE.fetch_add(1, SeqCst);
    let _ = Portal::CURRENT.service(current::EXIT, &[]);
    loop {
        core::hint::spin_loop();
    }
}

fn main() -> ! {
    let Some(scheduler) = startup::portal("scheduler") else {
        panic!("no scheduler");
    };
    for (i, place) in PORTALS.iter().enumerate() {
        let Some(stack) = memory::map(STACK) else {
            panic!("no memory");
        };
        let words = [
            member as *const () as u64,
            stack.as_mut_ptr() as u64 + STACK as u64 - 8,
            i as u64,
            0,
            0,
            OUTSIDE,
            AUTO,
        ];
        let made = need(Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words));
        let thread = Portal(made[0] as u32);
        let priority = (i as u64).min(1);
        let join = Message::new(&[JOIN, priority]).portal(thread);
        let answer = need(scheduler.ask(join));
        assert_eq!((answer.words[0], answer.portals), (0, 1));
        place.store(answer.words[7], SeqCst);
        need(thread.service(thread::START, &[]));
    }
    while DONE.load(SeqCst) != MEMBERS as u64 {
        let later = cairn_rt::time::monotonic() + 10_000_000;
        need(Portal::CURRENT.service(current::SLEEP, &[later]));
    }
    assert_eq!(TURNS.load(SeqCst), 2 * ROUNDS);
    // Those that waited went first, each time that they could; the first one's turns ended before the second V was given.
    log!("partition: order {:x}", ORDER.load(SeqCst));
    log!("partition: done");
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}
