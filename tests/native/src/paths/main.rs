//! A long game of messages between threads of two domains, the same from run to run for one seed: every thread folds all that it sees into one number, which is
//! the exit value and a line of the log. The nucleus has three ways for a message, which must not differ in anything that a program can see: the test runs the game
//! once with all of them, once with the code that several cores have for the first (`nucleus.portals=several`) and once with the general one alone (`nucleus.portals=general`).
//!
//! Nothing depends on time: all priorities differ, no thread has a quantum, nor has who works for one (a server that has replied goes on beside its client,
//! with the client's priority, and `vm` handles its page faults then), and the least important thread, which lets go of callers that nobody answers, lets
//! stopped threads go on and ends the game, runs only when all others wait. Words on the nucleus's command line: `paths.count=N`, `paths.seed=N`.
#![no_std]
#![no_main]

mod client;
mod common;
mod server;
mod sink;

use cairn_abi::machine::Counters;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, domain, receive, thread};
use cairn_abi::{layout::native_slot, op, policy, rights};
use cairn_idl::vm;
use cairn_rt::{log, memory, startup, Message, Portal};
use common::{fold, seen, Held, Player, REGION, STACK_TOP, STEPS};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use server::{Server, CONTROL, RELEASE};

cairn_rt::entry!(main);

/// Slots that both domains use alike: the three servers' channels, each served by those with a higher index than whoever may wait for them.
const NEAR: u32 = 20;
const MIDDLE: u32 = 21;
const TOP: u32 = 22;
const TARGETS: [u32; 3] = [NEAR, MIDDLE, TOP];
/// A channel with a strange server (see [`sink`]), and receive rights.
const SINK: u32 = 23;
const SINK_RECEIVE: u32 = 24;
const MIDDLE_RECEIVE: u32 = 25;
const PRIVATE: u32 = 26;
/// A channel that nobody ever receives from, one for each client: its receive right and a portal.
const UNSERVED: u32 = 50;
/// A portal to the channel that the sink had before.
const SINK_OLD: u32 = 28;
/// Thread `i`'s portal.
const THREADS: u32 = 40;

/// Orders to the domain far away, in the second word.
const PREPARE: u64 = 1;
const BEGIN: u64 = 2;
const TELL: u64 = 3;

/// Priorities of threads 1 and on, all different, here and there.
const NEAR_PRIORITIES: [u64; 6] = [21, 24, 27, 26, 33, 22];
const FAR_PRIORITIES: [u64; 2] = [35, 23];
/// Those of the first threads.
const NEAR_MAIN: u64 = 20;
const FAR_MAIN: u64 = 29;
/// Above all of these.
const ABOVE_ALL: u64 = 50;
const CLIENTS: u32 = 3;
/// Threads here that may be stopped and poked: all but the sink, for which the leader waits.
const VICTIMS: u64 = 5;

/// How often each thread was stopped.
static STOPS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
static DONE: AtomicU32 = AtomicU32::new(0);
static MEMORY: AtomicU64 = AtomicU64::new(0);
static HELD: [Held; 3] = [const { Held::new() }; 3];

fn option(key: &str, default: u64) -> u64 {
    let words = startup::argument("cmdline").unwrap_or("");
    let mut values = words
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
    values.next().unwrap_or(default)
}

fn count() -> u64 {
    option("paths.count", 1_000_000)
}

/// The part of thread `index` of this domain.
fn player(index: u64, far: bool) -> Player {
    let seed = option("paths.seed", 20_261_120);
    Player::new(
        seed,
        index + if far { 100 } else { 0 },
        MEMORY.load(Relaxed) + index * REGION,
    )
}

fn is_far() -> bool {
    startup::argument("role") == Some("far")
}

/// Whatever the game cannot do without.
fn need<E: core::fmt::Debug>(result: Result<[u64; 8], E>) -> [u64; 8] {
    result.unwrap_or_else(|error| panic!("the game cannot begin: {error:?}"))
}

fn copy(slot: u32, to: u32) {
    let mask = rights::ALL as u64;
    need(Portal::CURRENT.service(current::PORTAL_COPY, &[slot as u64, to as u64, mask]));
}

fn channel(receive_slot: u32, slot: u32) {
    let made = need(Portal::CURRENT.service(current::CHANNEL_CREATE, &[]))[0] as u32;
    copy(made, receive_slot);
    Portal(made).close();
    portal_to(receive_slot, slot);
}

fn portal_to(receive_slot: u32, slot: u32) {
    let words = [0x1000 + slot as u64, rights::DEFAULT as u64, slot as u64];
    need(Portal(receive_slot).service(receive::MAKE_PORTAL, &words));
}

/// The channel has a signature from now on, of which nothing is asked: whatever becomes of it later finds memory.
fn signed(receive_slot: u32) {
    let pass = [
        1,
        u64::MAX,
        u64::MAX,
        u64::MAX,
        u64::MAX,
        u64::MAX,
        u64::MAX,
        u64::MAX,
    ];
    while Portal(receive_slot).service(receive::SIGN, &pass) == Err(cairn_abi::Error::NoMemory) {
        need(Portal(native_slot::VM).call(Message::new(&[vm::MORE_OBJECTS, pool::SIGNATURE])));
    }
}

fn create(first: u64, priorities: &[u64], entry: extern "C" fn(u64) -> !) {
    for (i, &priority) in priorities.iter().enumerate() {
        let index = i as u64 + first;
        let stack = MEMORY.load(Relaxed) + index * REGION + STACK_TOP - 8;
        let slot = THREADS as u64 + index;
        let words = [
            entry as *const () as u64,
            stack,
            index,
            0,
            0,
            priority | policy::FIFO << 8,
            slot,
        ];
        need(Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words));
    }
}

fn start(index: u32) {
    need(Portal(THREADS + index).service(thread::START, &[]));
}

fn take_memory(threads: u64) {
    let Some(bytes) = memory::map((threads * REGION) as usize) else {
        panic!("no memory");
    };
    MEMORY.store(bytes.as_mut_ptr() as u64, Relaxed);
}

fn main() -> ! {
    if is_far() {
        far()
    }
    take_memory(NEAR_PRIORITIES.len() as u64 + 1);
    replace_main(NEAR_MAIN, near_main)
}

/// The main thread has a quantum, as each has: another one takes its place.
fn replace_main(priority: u64, entry: extern "C" fn(u64) -> !) -> ! {
    create(0, &[priority], entry);
    start(0);
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}

extern "C" fn near_main(_: u64) -> ! {
    portal_to(native_slot::RECEIVE, NEAR);
    signed(native_slot::RECEIVE);
    channel(SINK_RECEIVE, SINK);
    channel(PRIVATE, PRIVATE + 1);
    copy(startup::portal("far").map_or(0, |p| p.0), TOP);
    let prepared = Portal(TOP).ask(Message::new(&[CONTROL, PREPARE]));
    let words = need(prepared.map(|answer| answer.words));
    copy(words[7] as u32, MIDDLE);
    Portal(words[7] as u32).close();
    create(1, &NEAR_PRIORITIES, near_thread);
    // Servers first.
    (1..=NEAR_PRIORITIES.len() as u32).rev().for_each(start);
    need(Portal(TOP).call(Message::new(&[CONTROL, BEGIN])));
    let before = counters();
    let stuck = !lead();
    let after = counters();
    let [far_seen, far_steps] = ask_far();
    fold(far_seen);
    log!(
        "{} calls, {} entries, {} straight to the other side; {}: seen {:#018x}",
        STEPS.load(Relaxed) + far_steps,
        after.entries - before.entries,
        after.direct - before.direct,
        if stuck { "stuck" } else { "done" },
        seen(),
    );
    let own = need(Portal::CURRENT.service(current::IDENTITY, &[]))[0];
    while Portal(native_slot::DOMAIN).service(domain::KILL_OTHERS, &[own])
        == Err(cairn_abi::Error::Again)
    {}
    cairn_rt::start::exit(seen())
}

fn counters() -> Counters {
    let mut counters = [Counters::default()];
    let told = Portal::CURRENT.service_into(current::COUNTERS, &[0], 0, &mut counters);
    need(told);
    counters[0]
}

/// What the domain far away has seen, and its steps.
fn ask_far() -> [u64; 2] {
    let words = need(Portal(TOP).call(Message::new(&[CONTROL, TELL])));
    [words[1], words[2]]
}

fn set_priority(priority: u64) {
    need(Portal(THREADS).service(thread::SET_PRIORITY, &[priority, policy::FIFO, 0]));
}

/// The least important thread: whenever it runs, all others wait. True: the game came to its end.
fn lead() -> bool {
    let mut player = player(0, false);
    let (mut steps, mut idle) = (0, 0);
    loop {
        for index in 1..=NEAR_PRIORITIES.len() as u32 {
            for _ in 0..STOPS[index as usize].swap(0, Relaxed) {
                player.service(THREADS + index, thread::CONTINUE, &[]);
            }
        }
        for index in 1..=CLIENTS {
            player.own(current::PORTAL_CLOSE, &[(UNSERVED + 2 * index) as u64]);
        }
        // At its own priority servers would work for it beside it, and then time would count.
        set_priority(ABOVE_ALL);
        for slot in TARGETS {
            let bits = player.random.next() | RELEASE;
            player.service(slot, op::NOTIFY, &[bits]);
        }
        set_priority(NEAR_MAIN);
        match player.random.below(16) {
            0 => {
                player.own(current::DEADLINE, &[1]);
                player.service(PRIVATE, receive::RECEIVE, &[]);
            }
            1 => {
                player.own(current::DEADLINE, &[1]);
                player.service(SINK, op::CALL, &[sink::KEEP]);
            }
            2 | 3 => {
                player.service(SINK, op::CALL, &[sink::WAIT]);
            }
            4 => {
                player.service(SINK, op::CALL, &[sink::RENEW]);
                player.service(SINK_OLD, op::CALL, &[sink::KEEP]);
            }
            _ => {}
        }
        let now = STEPS.load(Relaxed);
        if DONE.load(Relaxed) == CLIENTS {
            let words = need(Portal(TOP).call(Message::new(&[CONTROL, TELL])));
            if words[0] == 1 {
                return true;
            }
        }
        idle = if now == steps { idle + 1 } else { 0 };
        steps = now;
        if idle > 100_000 {
            return false;
        }
    }
}

extern "C" fn near_thread(index: u64) -> ! {
    let player = player(index, false);
    match index {
        1..=3 => client::run(player, index as u32, true),
        4 | 5 => Server {
            player,
            receive: native_slot::RECEIVE,
            held: &HELD[0],
            above: &[MIDDLE, TOP],
            control: |_| [0; 8],
            window: server::window(),
        }
        .run(),
        _ => sink::run(),
    }
}

fn far() -> ! {
    take_memory(FAR_PRIORITIES.len() as u64 + 1);
    replace_main(FAR_MAIN, far_main)
}

/// The server there that calls nobody.
extern "C" fn far_main(_: u64) -> ! {
    copy(startup::portal("near").map_or(0, |p| p.0), NEAR);
    portal_to(native_slot::RECEIVE, TOP);
    channel(MIDDLE_RECEIVE, MIDDLE);
    signed(MIDDLE_RECEIVE);
    Server {
        player: player(0, true),
        receive: native_slot::RECEIVE,
        held: &HELD[0],
        above: &[],
        control: obey,
        window: server::window(),
    }
    .run()
}

fn obey(words: [u64; 8]) -> [u64; 8] {
    match words[1] {
        PREPARE => {
            create(1, &FAR_PRIORITIES, far_thread);
            start(1);
            [0, 0, 0, 0, 0, 0, 0, MIDDLE as u64]
        }
        BEGIN => {
            start(2);
            [0; 8]
        }
        _ => {
            let done = DONE.load(Relaxed) as u64;
            [done, seen(), STEPS.load(Relaxed), 0, 0, 0, 0, 0]
        }
    }
}

extern "C" fn far_thread(index: u64) -> ! {
    let player = player(index, true);
    if index == 2 {
        client::run(player, 0, false)
    }
    Server {
        player,
        receive: MIDDLE_RECEIVE,
        held: &HELD[1],
        above: &[TOP],
        control: |_| [0; 8],
        window: server::window(),
    }
    .run()
}
