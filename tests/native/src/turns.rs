//! Turns that threads hand to each other: round a ring of semaphores, through one that guards a word, and by yielding. Four domains, one of them with two threads, all of one priority; interrupts
//! come at any place. Every traversal's registers must be as before, the turns must be in order, nothing may be counted twice. Says `turns: done` when all was right and, where there is one
//! core and no `nucleus.portals=` on the command line, when most turns went by the code behind the portals.
#![no_std]
#![no_main]

use cairn_abi::layout::native_slot;
use cairn_abi::machine::Counters;
use cairn_abi::service::{current, domain, semaphore, thread, AUTO};
use cairn_rt::gate::{selector, Gate};
use cairn_rt::memory::{self, Shared};
use cairn_rt::semaphore::Semaphore;
use cairn_rt::{log, startup, Message, Portal, Receiver, Reply};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

cairn_rt::entry!(main);

/// Domains beside this one; players: one in each of them, two here.
const LEGS: [&str; 3] = ["leg1", "leg2", "leg3"];
const PLAYERS: usize = 5;
const ROUNDS: u64 = 5_000;
const PRIORITY: u64 = 20;
const STACK: usize = 16 * 1024;

/// Words that all share: whose turn it is in the ring, what the semaphore guards, who is done, and how often each had its turn.
const TURN: usize = 0;
const GUARDED: usize = 1;
const DONE: usize = 2;
const TURNS: usize = 3;
const WORDS: usize = TURNS + PLAYERS;

/// What the second thread of this domain begins with.
static SECOND: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Whatever the test cannot do without.
fn need<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("turns: {error:?}"))
}

fn main() -> ! {
    match startup::argument("role") {
        Some("leg") => leg(),
        _ => lead(),
    }
}

/// One who takes part.
struct Player<'a> {
    number: usize,
    shared: &'a Shared,
    guard: Portal,
    own: Portal,
    next: Portal,
    chance: u64,
}

impl Player<'_> {
    /// xorshift64 (Marsaglia 2003).
    fn random(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }

    /// An operation after which all registers but `rax` are as before.
    fn perform(&mut self, portal: Portal, operation: u8, word: u64) {
        let mut words = core::array::from_fn(|_| self.random());
        words[0] = word;
        let sent = Gate {
            rax: selector(portal.0, operation, 0),
            words,
            rbx: self.random(),
            rbp: self.random(),
            r14: self.random(),
            r15: self.random(),
        };
        let mut g = sent;
        // SAFETY: these operations touch no memory.
        let result = unsafe { g.traverse() };
        assert_eq!(result, Ok(()));
        assert_eq!(g.rax, 0);
        assert_eq!(g.words, sent.words);
        assert_eq!(
            [g.rbx, g.rbp, g.r14, g.r15],
            [sent.rbx, sent.rbp, sent.r14, sent.r15]
        );
    }

    /// The time, which does not go back.
    fn time(&mut self, before: u64) -> u64 {
        let result = Portal::CURRENT.service(current::CLOCK, &[7; 8]);
        let words = need(result);
        assert_eq!(words[1..], [7; 7]);
        assert!(words[0] >= before);
        words[0]
    }

    fn yield_turn(&mut self) {
        self.perform(Portal::CURRENT, current::YIELD, 0);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.shared[index]
    }

    fn play(&mut self) {
        self.ring();
        for _ in 0..ROUNDS {
            self.perform(self.guard, semaphore::P, 0);
            let before = self.word(GUARDED).load(Relaxed);
            if before.is_multiple_of(3) {
                self.yield_turn();
            }
            self.word(GUARDED).store(before + 1, Relaxed);
            self.perform(self.guard, semaphore::V, 0);
        }
        let mut time = 0;
        for _ in 0..ROUNDS {
            self.yield_turn();
            time = self.time(time);
        }
        self.word(DONE).fetch_add(1, Relaxed);
    }

    fn ring(&mut self) {
        let (own, next) = (self.own, self.next);
        if self.number != 0 {
            self.perform(own, semaphore::P, 0);
        }
        for _ in 0..ROUNDS {
            assert_eq!(self.word(TURN).load(Relaxed), self.number as u64);
            let after = (self.number + 1) % PLAYERS;
            self.word(TURN).store(after as u64, Relaxed);
            self.word(TURNS + self.number).fetch_add(1, Relaxed);
            self.perform(next, semaphore::V_THEN_P, own.0 as u64);
        }
        // The others wait for their last turn still.
        self.perform(next, semaphore::V, 0);
        if self.number == 0 {
            self.perform(own, semaphore::P, 0);
        }
    }
}

/// Another domain's part: it plays with what the first message brings.
fn leg() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    loop {
        let Ok(message) = receiver.receive(None) else {
            continue;
        };
        if message.token == 0 || message.portals != 4 {
            continue;
        }
        let number = message.words[0] as usize;
        let [object, guard, own, next] =
            core::array::from_fn(|i| Portal(message.words[4 + i] as u32));
        let Some(shared) = Shared::map(object, WORDS) else {
            panic!("no shared memory");
        };
        need(receiver.reply(message.token, Reply::default()));
        let chance = number as u64 + 77;
        let mut player = Player {
            number,
            shared: &shared,
            guard,
            own,
            next,
            chance,
        };
        player.play();
        cairn_rt::start::exit(0)
    }
}

fn second(shared: &Shared) {
    let [number, guard, own, next] = SECOND.each_ref().map(|word| word.load(Relaxed));
    let mut player = Player {
        number: number as usize,
        shared,
        guard: Portal(guard as u32),
        own: Portal(own as u32),
        next: Portal(next as u32),
        chance: 4711,
    };
    player.play();
}

extern "C" fn second_thread(shared: u64) -> ! {
    // SAFETY: the leader keeps it until all are done, and waits for ever then.
    second(unsafe { &*(shared as *const Shared) });
    let _ = Portal::CURRENT.service(current::EXIT, &[]);
    loop {
        core::hint::spin_loop();
    }
}

fn lead() -> ! {
    let Some((shared, object)) = Shared::make(WORDS) else {
        panic!("no shared memory");
    };
    let guard = need(Semaphore::new(1)).0;
    let ring: [Portal; PLAYERS] = core::array::from_fn(|_| need(Semaphore::new(0)).0);
    let before = counters();
    for (i, name) in LEGS.iter().enumerate() {
        let number = i + 1;
        let Some(leg) = startup::portal(name) else {
            panic!("no {name}");
        };
        let next = ring[(number + 1) % PLAYERS];
        let mut message = Message::new(&[number as u64]);
        let portals = [object, guard, ring[number], next];
        message.words[4..].copy_from_slice(&portals.map(|portal| portal.0 as u64));
        message.portals = portals.len() as u64;
        need(leg.call(message));
    }
    start_second(PLAYERS - 1, &shared, guard, [ring[PLAYERS - 1], ring[0]]);
    let mut player = Player {
        number: 0,
        shared: &shared,
        guard,
        own: ring[0],
        next: ring[1],
        chance: 1,
    };
    player.play();
    while player.word(DONE).load(Relaxed) != PLAYERS as u64 {
        player.yield_turn();
    }
    let direct = counters().direct - before.direct;
    let turns: [u64; PLAYERS] = core::array::from_fn(|i| player.word(TURNS + i).load(Relaxed));
    assert_eq!(turns, [ROUNDS; PLAYERS]);
    let guarded = player.word(GUARDED).load(Relaxed);
    assert_eq!(guarded, ROUNDS * PLAYERS as u64);
    log!("turns: {direct} by the code behind the portals");
    if expects_code() {
        // Between two of the five no other domain is loaded; the guarded word's yields and the ends of quanta are more and less.
        assert!(direct > ROUNDS * PLAYERS as u64);
    }
    log!("turns: done");
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}

/// One core, and nothing on the command line against it.
fn expects_code() -> bool {
    let words = need(Portal::CURRENT.service(current::AFFINITY, &[0, 0]));
    let line = startup::argument("cmdline").unwrap_or("");
    words[2] == 1 && !line.contains("nucleus.portals=")
}

fn start_second(number: usize, shared: &Shared, guard: Portal, [own, next]: [Portal; 2]) {
    let begin = [number as u64, guard.0 as u64, own.0 as u64, next.0 as u64];
    for (place, word) in SECOND.iter().zip(begin) {
        place.store(word, Relaxed);
    }
    let Some(stack) = memory::map(STACK) else {
        panic!("no memory");
    };
    let words = [
        second_thread as *const () as u64,
        stack.as_mut_ptr() as u64 + STACK as u64 - 8,
        shared as *const Shared as u64,
        0,
        0,
        PRIORITY,
        AUTO,
    ];
    let made = need(Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words));
    need(Portal(made[0] as u32).service(thread::START, &[]));
}

fn counters() -> Counters {
    let mut counters = [Counters::default()];
    need(Portal::CURRENT.service_into(current::COUNTERS, &[0], 0, &mut counters));
    counters[0]
}
