//! Groups of threads with shares of 50, 30 and 20 % of the processor, and the scheduler for them (`scheduler.rs`): greedy members have their groups' shares,
//! those of a group take turns, what a group does not use is divided, members that give way or sleep gain nothing, who dies loses nothing for the others; a
//! critical member runs at once, and its group is bankrupt when that one does not stop. Says `shares: done` when all was right.
#![no_std]
#![no_main]

use cairn_abi::layout::native_slot;
use cairn_abi::service::{current, domain, thread, AUTO};
use cairn_rt::time::monotonic;
use cairn_rt::{log, memory, startup, Message, Portal};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

cairn_rt::entry!(main);

const JOIN: u64 = 1;
const YIELD: u64 = 2;
const LEAVE: u64 = 3;
const OPEN: u64 = 4;
const CLOSE: u64 = 5;
const STANDING: u64 = 6;
const STACK: usize = 16 * 1024;
const OUTSIDE: u64 = 15;
const MS: u64 = 1_000_000;
const WINDOW: u64 = 100 * MS;
const BUDGET: u64 = 5 * MS;
/// So much later than it should a critical member may run, in ns, which are instructions: a switch to its scheduler, and from that to it.
const LATE: u64 = 50_000;

/// Times that two members give way to each other.
const TURNS: u64 = 1000;

/// The members' portals to their scheduler, in the order in which they came.
static PORTALS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
static MEMBERS: AtomicU64 = AtomicU64::new(0);
static SWITCHES: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);
static LATEST: AtomicU64 = AtomicU64::new(0);
static WAKES: AtomicU64 = AtomicU64::new(0);

fn need<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("shares: {error:?}"))
}

fn sleep(until: u64) {
    need(Portal::CURRENT.service(current::SLEEP, &[until]));
}

fn work(time: u64) {
    // SAFETY: two instructions, again and again, with a register of their own.
    unsafe { core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) time / 2 => _) };
}

extern "C" fn greedy(_: u64) -> ! {
    loop {
        work(MS);
    }
}

/// Lets others go first all the time, by its scheduler and by the nucleus.
extern "C" fn polite(i: u64) -> ! {
    let portal = Portal(PORTALS[i as usize].load(SeqCst) as u32);
    loop {
        work(MS / 10);
        need(portal.call(Message::new(&[YIELD])));
        need(Portal::CURRENT.service(current::YIELD, &[]));
    }
}

/// Gives way so often, and measures that if it is the first one that ends.
extern "C" fn turns(i: u64) -> ! {
    let portal = Portal(PORTALS[i as usize].load(SeqCst) as u32);
    let begin = monotonic();
    for _ in 0..TURNS {
        need(portal.call(Message::new(&[YIELD])));
    }
    let cost = (monotonic() - begin) / (2 * TURNS);
    let _ = SWITCHES.compare_exchange(0, cost, SeqCst, SeqCst);
    loop {
        let _ = Portal::CURRENT.service(current::EXIT, &[]);
    }
}

/// Sleeps a little just before a slice would end.
extern "C" fn sly(_: u64) -> ! {
    loop {
        work(MS * 9 / 10);
        sleep(monotonic() + 20_000);
    }
}

/// Works half of the time.
extern "C" fn waiting(_: u64) -> ! {
    loop {
        work(2 * MS);
        sleep(monotonic() + 2 * MS);
    }
}

/// Every ten milliseconds a little work, at once.
extern "C" fn critical(_: u64) -> ! {
    let mut next = monotonic();
    loop {
        next += 10 * MS;
        sleep(next);
        LATEST.fetch_max(monotonic() - next, SeqCst);
        WAKES.fetch_add(1, SeqCst);
        work(MS / 5);
    }
}

/// Goes on without its scheduler.
extern "C" fn leaving(i: u64) -> ! {
    let portal = Portal(PORTALS[i as usize].load(SeqCst) as u32);
    assert_eq!(need(portal.call(Message::new(&[LEAVE])))[0], 0);
    assert_eq!(need(portal.call(Message::new(&[YIELD])))[0] as i64, -22);
    LEFT.fetch_add(1, SeqCst);
    loop {
        let _ = Portal::CURRENT.service(current::EXIT, &[]);
    }
}

extern "C" fn dying(_: u64) -> ! {
    work(3 * MS);
    loop {
        let _ = Portal::CURRENT.service(current::EXIT, &[]);
    }
}

fn make(run: extern "C" fn(u64) -> !, argument: u64) -> Portal {
    let Some(stack) = memory::map(STACK) else {
        panic!("shares: no memory");
    };
    // A fault would be a wait.
    need(memory::populate(stack));
    let top = stack.as_mut_ptr() as u64 + STACK as u64 - 8;
    let words = [run as *const () as u64, top, argument, 0, 0, OUTSIDE, AUTO];
    let made = need(Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words));
    Portal(made[0] as u32)
}

fn kill(thread: Portal) {
    need(thread.service(thread::KILL, &[]));
    thread.close();
}

struct Shares {
    scheduler: Portal,
}

impl Shares {
    fn ask(&self, words: &[u64]) -> [u64; 8] {
        need(self.scheduler.ask(Message::new(words))).words
    }

    /// Result, and the portal for the member's calls.
    fn join(&self, thread: Portal, words: [u64; 3]) -> (i64, u64) {
        let message = Message::new(&[JOIN, words[0], words[1], words[2]]).portal(thread);
        let answer = need(self.scheduler.ask(message));
        (answer.words[0] as i64, answer.words[7])
    }

    /// A member that runs.
    fn member(&self, run: extern "C" fn(u64) -> !, group: u64, priority: u64) -> Portal {
        self.start(run, [group, priority, 0])
    }

    fn start(&self, run: extern "C" fn(u64) -> !, words: [u64; 3]) -> Portal {
        let i = MEMBERS.fetch_add(1, SeqCst);
        let thread = make(run, i);
        let (result, portal) = self.join(thread, words);
        assert_eq!(result, 0);
        PORTALS[i as usize].store(portal, SeqCst);
        need(thread.service(thread::START, &[]));
        thread
    }

    fn used(&self, group: u64) -> u64 {
        self.ask(&[STANDING, group])[1]
    }

    /// What three groups have of a second, in per mille of what they have together.
    fn second(&self) -> [u64; 3] {
        let before = [0, 1, 2].map(|group| self.used(group));
        sleep(monotonic() + 10 * WINDOW);
        let after = [0, 1, 2].map(|group| self.used(group));
        let had = [0, 1, 2].map(|group| after[group] - before[group]);
        let all: u64 = had.iter().sum();
        had.map(|had| had * 1000 / all)
    }
}

fn had(thread: Portal) -> u64 {
    need(thread.service(thread::INFO, &[]))[0]
}

/// Says what is, and that it is what it should be, but for 10 per mille.
fn check(what: &str, is: [u64; 3], should: [u64; 3]) {
    log!("shares: {what} {is:?}");
    for (is, should) in is.into_iter().zip(should) {
        assert!(is.abs_diff(should) <= 10, "shares: {what}");
    }
}

fn refusals(shares: &Shares) {
    for (words, result) in [
        ([OPEN, 0, 0], -22),
        ([OPEN, 101, 0], -22),
        ([OPEN, 1, 1], -22),
        ([OPEN, 1, WINDOW + 1], -22),
        ([OPEN, 1, 0], -28),
        ([CLOSE, 3, 0], -3),
        ([CLOSE, u64::MAX, 0], -3),
        ([STANDING, 3, 0], -3),
        ([YIELD, 0, 0], -22),
        ([LEAVE, 0, 0], -22),
        ([JOIN, 0, 0], -22),
        ([77, 0, 0], -22),
    ] {
        assert_eq!(shares.ask(&words)[0] as i64, result, "{words:?}");
    }
    let other = make(greedy, 0);
    for (words, result) in [
        ([3, 0, 0], -3),
        ([0, 32, 0], -22),
        ([0, 0, 2], -22),
        ([0, 0, 1], -22),
    ] {
        assert_eq!(shares.join(other, words).0, result, "{words:?}");
    }
    // What is no thread.
    assert_eq!(shares.join(shares.scheduler, [0, 0, 0]).0, -22);
    kill(other);
}

fn main() -> ! {
    let Some(scheduler) = startup::portal("scheduler") else {
        panic!("no scheduler");
    };
    let shares = Shares { scheduler };
    for (number, [percent, budget]) in [[50, 0], [30, 0], [20, BUDGET]].into_iter().enumerate() {
        let answer = shares.ask(&[OPEN, percent, budget]);
        assert_eq!(answer[..2], [0, number as u64]);
    }
    refusals(&shares);
    // Two in the first group take turns; who is less important does not run.
    let first = [0, 1].map(|_| shares.member(greedy, 0, 5));
    let behind = shares.member(greedy, 0, 4);
    let second = shares.member(greedy, 1, 5);
    let third = shares.member(greedy, 2, 5);
    check("all", shares.second(), [500, 300, 200]);
    let [one, other] = first.map(had);
    assert!(one.abs_diff(other) <= 10 * MS, "{one} {other}");
    assert_eq!(had(behind), 0);
    // One group's members do nothing.
    need(second.service(thread::STOP, &[]));
    check("one idle", shares.second(), [714, 0, 286]);
    need(second.service(thread::CONTINUE, &[]));
    // Members that come back all the time, others that die, and one that joins once more.
    kill(second);
    let second = shares.member(polite, 1, 5);
    check("polite", shares.second(), [500, 300, 200]);
    kill(second);
    let second = shares.member(sly, 1, 5);
    check("sly", shares.second(), [500, 300, 200]);
    kill(second);
    kill(third);
    let second = shares.member(greedy, 1, 5);
    let third = shares.member(greedy, 2, 5);
    for thread in first {
        kill(thread);
    }
    kill(behind);
    let half = shares.member(waiting, 0, 5);
    check("waiting", shares.second(), [500, 300, 200]);
    kill(half);
    for _ in 0..20 {
        let thread = shares.member(dying, 0, 9);
        sleep(monotonic() + 12 * MS);
        thread.close();
    }
    let first = shares.member(greedy, 0, 5);
    assert_eq!(shares.join(first, [0, 6, 0]).0, 0);
    check("again", shares.second(), [500, 300, 200]);
    // A critical member of the smallest group.
    let quick = shares.start(critical, [2, 1, 1]);
    check("critical", shares.second(), [500, 300, 200]);
    let [_, _, _, bankrupt, ..] = shares.ask(&[STANDING, 2]);
    let (wakes, latest) = (WAKES.load(SeqCst), LATEST.load(SeqCst));
    log!("shares: {wakes} wakes, at most {latest} ns late, bankrupt {bankrupt}");
    assert!(wakes >= 98 && latest <= LATE && bankrupt == 0);
    kill(quick);
    // One that never stops: its group overdraws the budget once a window at most, and has its share.
    let endless = shares.start(greedy, [2, 1, 1]);
    let is = shares.second();
    let [_, _, _, bankrupt, ..] = shares.ask(&[STANDING, 2]);
    log!("shares: bankrupt {bankrupt}");
    assert!((2..=11).contains(&bankrupt));
    check("endless", is, [500, 300, 200]);
    for thread in [first, second, third, endless] {
        kill(thread);
    }
    for _ in 0..2 {
        shares.member(turns, 0, 5);
    }
    shares.member(leaving, 1, 5);
    sleep(monotonic() + 2 * WINDOW);
    let cost = SWITCHES.load(SeqCst);
    log!("shares: {cost} ns a switch");
    assert!((1..=5000).contains(&cost));
    assert_eq!(LEFT.load(SeqCst), 1);
    for group in 0..3 {
        assert_eq!(shares.ask(&[CLOSE, group])[0], 0);
    }
    assert_eq!(shares.ask(&[OPEN, 100, 0])[..2], [0, 0]);
    log!("shares: done");
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}
