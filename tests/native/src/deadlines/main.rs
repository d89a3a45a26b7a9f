//! Threads with deadlines, and the scheduler for them (`scheduler.rs`): two that work as long as they said in each period, one that takes whatever it can have,
//! and a load outside. No deadline is missed, the greedy one has its budget and no more, and with whom it could not be so is refused. Says
//! `deadlines: done` when all was right.
#![no_std]
#![no_main]

use cairn_abi::layout::native_slot;
use cairn_abi::service::{current, domain, thread, AUTO};
use cairn_rt::time::monotonic;
use cairn_rt::{log, memory, startup, Message, Portal};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

cairn_rt::entry!(main);

const JOIN: u64 = 1;
const NEXT: u64 = 2;
const REFUSED: i64 = -16;
const STACK: usize = 16 * 1024;
const OUTSIDE: u64 = 15;
const MS: u64 = 1_000_000;

/// Budget, deadline, period; instructions of work in each, which are ns; periods.
const WORKERS: [([u64; 3], u64, u64); 2] = [
    ([2 * MS, 5 * MS, 10 * MS], 1_700_000, 40),
    ([6 * MS, 20 * MS, 20 * MS], 5_500_000, 20),
];
const GREEDY: [u64; 3] = [16 * MS, 40 * MS, 40 * MS];
/// More than the processor has; what fits the processor, but not the first one's deadlines; wrong.
const REFUSE: [[u64; 3]; 3] = [
    [2 * MS, 10 * MS, 10 * MS],
    [4 * MS, 5 * MS, 100 * MS],
    [3 * MS, 2 * MS, 10 * MS],
];

static PORTALS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static DONE: AtomicU64 = AtomicU64::new(0);
static MISSED: AtomicU64 = AtomicU64::new(0);
static LOAD: AtomicU64 = AtomicU64::new(0);

fn need<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("deadlines: {error:?}"))
}

extern "C" fn worker(i: u64) -> ! {
    let (_, work, periods) = WORKERS[i as usize];
    let portal = Portal(PORTALS[i as usize].load(SeqCst) as u32);
    for _ in 0..periods {
        let answer = need(portal.call(Message::new(&[NEXT])));
        // SAFETY: two instructions, again and again, with a register of their own.
        unsafe { core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) work / 2 => _) };
        MISSED.fetch_add(u64::from(monotonic() > answer[1]), SeqCst);
    }
    DONE.fetch_add(1, SeqCst);
    loop {
        let _ = Portal::CURRENT.service(current::EXIT, &[]);
    }
}

extern "C" fn greedy(_: u64) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Outside, less important than all.
extern "C" fn load(_: u64) -> ! {
    loop {
        let _ = Portal::CURRENT.service(current::YIELD, &[]);
        LOAD.fetch_add(1, SeqCst);
    }
}

fn make(run: extern "C" fn(u64) -> !, argument: u64) -> Portal {
    let Some(stack) = memory::map(STACK) else {
        panic!("deadlines: no memory");
    };
    // A fault would be a wait.
    need(memory::populate(stack));
    let top = stack.as_mut_ptr() as u64 + STACK as u64 - 8;
    let words = [run as *const () as u64, top, argument, 0, 0, OUTSIDE, AUTO];
    let made = need(Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words));
    Portal(made[0] as u32)
}

/// Result, and the portal for the member's calls.
fn join(scheduler: Portal, thread: Portal, [budget, deadline, period]: [u64; 3]) -> (i64, u64) {
    let message = Message::new(&[JOIN, budget, deadline, period]).portal(thread);
    let answer = need(scheduler.ask(message));
    (answer.words[0] as i64, answer.words[7])
}

fn main() -> ! {
    let Some(scheduler) = startup::portal("scheduler") else {
        panic!("no scheduler");
    };
    need(make(load, 0).service(thread::START, &[]));
    let mut threads = [Portal(0); WORKERS.len()];
    for (i, (demand, ..)) in WORKERS.into_iter().enumerate() {
        threads[i] = make(worker, i as u64);
        let (result, portal) = join(scheduler, threads[i], demand);
        assert_eq!(result, 0);
        PORTALS[i].store(portal, SeqCst);
    }
    let taker = make(greedy, 0);
    assert_eq!(join(scheduler, taker, GREEDY).0, 0);
    let other = make(greedy, 0);
    for demand in REFUSE {
        assert_eq!(join(scheduler, other, demand).0, REFUSED);
    }
    let begin = monotonic();
    for thread in threads.into_iter().chain([taker]) {
        need(thread.service(thread::START, &[]));
    }
    while DONE.load(SeqCst) != WORKERS.len() as u64 {
        need(Portal::CURRENT.service(current::SLEEP, &[monotonic() + 10 * MS]));
    }
    let [had, ..] = need(taker.service(thread::INFO, &[]));
    let periods = (monotonic() - begin) / GREEDY[2];
    log!(
        "deadlines: missed {}, greedy {} ms in {} periods, load {}",
        MISSED.load(SeqCst),
        had / MS,
        periods,
        LOAD.load(SeqCst)
    );
    assert_eq!(MISSED.load(SeqCst), 0);
    // (A slice ends with the timer that comes for it, a little later.)
    let most = GREEDY[0] + 100_000;
    assert!((periods - 1) * GREEDY[0] <= had && had <= (periods + 2) * most);
    assert!(LOAD.load(SeqCst) > 0);
    log!("deadlines: done");
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}
