//! What a foe can do, each a thread that never ends.

use crate::foe::{broken, create, kill, more_objects, more_slots, refused, start, STACKS};
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, receive, AUTO};
use cairn_abi::Error;
use cairn_idl::vm;
use cairn_rt::portal::clock;
use cairn_rt::semaphore::Semaphore;
use cairn_rt::{startup, Message, Portal, Receiver, Reply};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub struct Attack {
    pub name: &'static str,
    pub begin: fn() -> !,
    /// Something must be refused in its course.
    pub refused: bool,
    /// How many threads it may keep running: at its own priority the victim is one among them.
    pub running: u64,
}

const fn attack(name: &'static str, refused: bool, begin: fn() -> !) -> Attack {
    Attack {
        name,
        begin,
        refused,
        running: 1,
    }
}

pub static ATTACKS: &[Attack] = &[
    attack("computing", false, compute),
    attack("flood", false, flood),
    attack("forged tokens", true, forge),
    Attack {
        running: 1 + DYING as u64,
        ..attack("dying in every state", false, dying)
    },
    attack("ring of 8", true, || ring(8)),
    attack("ring of 40", true, || ring(40)),
    attack("chain of 32", true, || chain(32)),
    attack("timers", false, timers),
    attack("all memory", true, memory),
    attack("all memory objects", true, memory_objects),
    attack("all offers of pages", true, offers),
    attack("all threads", true, threads),
    attack("all portals", true, portals),
    attack("all channels", true, channels),
    attack("all semaphores", true, semaphores),
    attack("all signatures", true, signatures),
    attack("all windows", true, windows),
    attack("all portal code", false, portal_code),
];

fn portal(name: &str) -> Portal {
    startup::portal(name).unwrap_or(Portal(u32::MAX))
}

fn compute() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Calls and notifications to everybody that it knows, with and without data, and large requests to `vm`.
fn flood() -> ! {
    let data = [0x55; 2048];
    let memory = Portal(native_slot::VM);
    loop {
        for target in [portal("friend"), portal("victim"), memory] {
            for bit in 0..10 {
                let _ = target.notify(1 << bit);
            }
        }
        let _ = portal("friend").call(Message::new(&[1]));
        let _ = portal("friend").call(Message::new(&[1]).out(&data));
        let _ = memory.call(Message::new(&[1000, 1, 2, 3]));
        let prot = vm::prot::READ | vm::prot::WRITE;
        let words = [vm::MAP, 0, 64 * 4096, prot, vm::flags::POPULATE];
        if let Ok(words) = memory.call(Message::new(&words)) {
            let _ = memory.call(Message::new(&[vm::UNMAP, words[0], 64 * 4096]));
        }
    }
}

/// Answers, reads and writes callers that do not wait at its channel: thread numbers are small, and counts can be guessed.
fn forge() -> ! {
    let Ok(channel) = Receiver::create() else {
        compute()
    };
    let mut buffer = [0u8; 64];
    let mut guess = 1u64;
    loop {
        guess = guess.wrapping_add(1);
        let (index, generation) = (guess % 256, 1 + guess / 256 % 4);
        let thread = index | generation << 20;
        let token = thread | (guess / 1024) << 32;
        let tries = [
            channel.reply(token, Reply::new(&[0xbad])),
            channel.read(token, 0, &mut buffer).map(|_| ()),
            channel.write(token, 0, &buffer).map(|_| ()),
            channel.0.service(receive::CALLER, &[token]).map(|_| ()),
        ];
        for result in tries {
            match result {
                Err(Error::BadToken) => refused(),
                _ => broken(),
            }
        }
    }
}

/// What a thread does until it is killed.
extern "C" fn live(kind: u64) -> ! {
    let data = [0xaa; 1500];
    let mut room = [0; 600];
    loop {
        match kind % 6 {
            0 => {
                let message = Message::new(&[1]).out(&data).input(&mut room);
                let _ = portal("friend").call(message);
            }
            1 => {
                let _ = Portal::CURRENT.service(current::SLEEP, &[clock() + 1_000_000_000]);
            }
            2 => {
                let _ = Portal::CURRENT.service(current::PARK, &[]);
            }
            3 => {
                let channel = Receiver::create();
                let _ = channel.map(|channel| channel.receive(None));
            }
            4 => {
                // Nobody ever receives there.
                if let Ok(portal) = Receiver::create().and_then(|channel| channel.make_portal(1)) {
                    let _ = portal.call(Message::new(&[1]).out(&data));
                }
            }
            _ => {
                let prot = vm::prot::READ | vm::prot::WRITE;
                let words = [vm::MAP, 0, 8 * 4096, prot, vm::flags::POPULATE];
                if let Ok(words) = Portal(native_slot::VM).call(Message::new(&words)) {
                    let words = [vm::UNMAP, words[0], 8 * 4096];
                    let _ = Portal(native_slot::VM).call(Message::new(&words));
                }
            }
        }
    }
}

/// Threads that die at a time.
const DYING: usize = 12;

/// Threads that are killed soon after they began, wherever they are then.
fn dying() -> ! {
    let mut number = 0u64;
    loop {
        let mut made = [None; DYING];
        for (i, place) in made.iter_mut().enumerate() {
            *place = start(live, i + 1, number + i as u64).ok();
        }
        for _ in 0..number % 7 {
            let _ = Portal::CURRENT.service(current::YIELD, &[]);
        }
        made.into_iter().flatten().for_each(kill);
        number += 1;
        if number.is_multiple_of(16) {
            close_many();
        }
    }
}

/// What the dead threads left in the table.
fn close_many() {
    for slot in 64..512 {
        let _ = Portal::CURRENT.service(current::PORTAL_CLOSE, &[slot]);
    }
}

static RING: [AtomicU32; STACKS] = [const { AtomicU32::new(0) }; STACKS];
static RECEIVERS: [AtomicU32; STACKS] = [const { AtomicU32::new(0) }; STACKS];

/// Link `n` of a ring, in the lower half: answers its caller with what the next one answers.
extern "C" fn link(argument: u64) -> ! {
    let (n, of) = ((argument & 0xffff) as usize, (argument >> 16) as usize);
    let channel = Receiver(Portal(RECEIVERS[n].load(Relaxed)));
    loop {
        let Ok(received) = channel.receive(None) else {
            continue;
        };
        let answer = call_next(n, of);
        let _ = channel.reply(received.token, Reply::new(&[answer]));
    }
}

/// The error with which the call to the next link ended, or what that one says.
fn call_next(n: usize, of: usize) -> u64 {
    let next = Portal(RING[(n + 1) % of].load(Relaxed));
    match next.call(Message::new(&[0])) {
        Ok(words) => words[0],
        Err(error) => error as u64,
    }
}

/// Link `n` of a chain: answers its caller with one more than the next one says, the last with 1.
extern "C" fn step(argument: u64) -> ! {
    let (n, of) = ((argument & 0xffff) as usize, (argument >> 16) as usize);
    let channel = Receiver(Portal(RECEIVERS[n].load(Relaxed)));
    loop {
        let Ok(received) = channel.receive(None) else {
            continue;
        };
        let answer = if n + 1 == of { 1 } else { pass_on(n + 1) };
        let _ = channel.reply(received.token, Reply::new(&[answer]));
    }
}

fn pass_on(n: usize) -> u64 {
    let next = Portal(RING[n].load(Relaxed));
    next.call(Message::new(&[0]))
        .map_or(0, |words| words[0] + 1)
}

/// Calls through as many servers as there may be in a row, and then, from the last one, into the first: what closes the row is a ring and must be refused; all else goes well.
fn chain(of: usize) -> ! {
    make_row(of, step);
    let first = Receiver(Portal(RECEIVERS[0].load(Relaxed)));
    loop {
        // This thread serves the first channel, so it may not call it.
        let _ = first.poll();
        let own = Portal(RING[0].load(Relaxed));
        if own.call(Message::new(&[0])).err() == Some(Error::Cycle) {
            refused();
        } else {
            broken();
        }
        if pass_on(1) != of as u64 {
            broken();
        }
    }
}

/// Channels of a row, and threads that serve all but the first.
fn make_row(of: usize, serve: extern "C" fn(u64) -> !) {
    for n in 0..of {
        let channel = sure(pool::CHANNEL, Receiver::create);
        let portal = sure(pool::PORTAL, || channel.make_portal(n as u64));
        RECEIVERS[n].store(channel.0 .0, Relaxed);
        RING[n].store(portal.0, Relaxed);
    }
    for n in 1..of {
        sure(pool::THREAD, || {
            start(serve, n, n as u64 | (of as u64) << 16)
        });
    }
}

/// What takes an object of a pool, of which `vm` may have more.
fn sure<T>(pool: u64, make: impl Fn() -> Result<T, Error>) -> T {
    loop {
        match make() {
            Ok(made) => return made,
            Err(Error::NoMemory) if more_objects(pool) => {}
            Err(error) => panic!("the attack cannot begin: {error:?}"),
        }
    }
}

/// Threads that call each other in a ring, again and again. Whoever closes it must be refused, and then all go on.
fn ring(of: usize) -> ! {
    make_row(of, link);
    // So that it is known as the one who serves the ring's first channel.
    let first = Receiver(Portal(RECEIVERS[0].load(Relaxed)));
    loop {
        let _ = first.poll();
        if call_next(0, of) == Error::Cycle as u64 {
            refused();
        } else {
            broken();
        }
    }
}

extern "C" fn doze(period: u64) -> ! {
    loop {
        let _ = Portal::CURRENT.service(current::SLEEP, &[clock() + period]);
    }
}

/// Many threads that sleep for a very short while.
fn timers() -> ! {
    for n in 1..STACKS {
        let _ = start(doze, n, 1000 + n as u64);
    }
    doze(1000)
}

/// All memory that `vm` gives, touched; then more.
fn memory() -> ! {
    let prot = vm::prot::READ | vm::prot::WRITE;
    let words = [vm::MAP, 0, 16 * 4096, prot, vm::flags::POPULATE];
    loop {
        match Portal(native_slot::VM).call(Message::new(&words)) {
            Ok(words) if words[0] as i64 > 0 => {}
            _ => refused(),
        }
    }
}

/// Where a page of this program's own is, or 0.
fn own_page() -> u64 {
    let prot = vm::prot::READ | vm::prot::WRITE;
    let words = [vm::MAP, 0, 4096, prot, vm::flags::POPULATE];
    let mapped = Portal(native_slot::VM).call(Message::new(&words));
    mapped.map_or(0, |words| words[0])
}

/// Keeps what `vm` gives a portal for, as often as it does.
fn keep(make: impl Fn() -> Result<[u64; 8], Error>) -> ! {
    loop {
        match make() {
            Ok(words) if words[0] as i64 >= 0 => {}
            Err(Error::NoSlot) if more_slots() => {}
            _ => refused(),
        }
    }
}

/// Memory objects of one page, as many as `vm` makes.
fn memory_objects() -> ! {
    let addresses = own_page().to_le_bytes();
    keep(|| {
        let words = [vm::OBJECT_CREATE, 1, 0];
        let answer = Portal(native_slot::VM).ask(Message::new(&words).out(&addresses));
        answer.map(|answer| answer.words)
    })
}

/// Offers of one page that nobody takes.
fn offers() -> ! {
    let page = own_page();
    keep(|| {
        let words = [vm::OFFER, page, 4096, vm::Giving::Copy as u64, 0];
        let answer = Portal(native_slot::VM).ask(Message::new(&words));
        answer.map(|answer| answer.words)
    })
}

extern "C" fn nothing(_: u64) -> ! {
    cairn_rt::start::exit(0)
}

/// Threads that are never started, as many as there are.
fn threads() -> ! {
    loop {
        match create(nothing, 1, 0) {
            Ok(_) => {}
            Err(Error::NoMemory) if more_objects(pool::THREAD) => {}
            Err(Error::NoSlot) if more_slots() => {}
            Err(_) => refused(),
        }
    }
}

/// Portal objects: in slots, and after that such as only an unread pulse keeps.
fn portals() -> ! {
    let Ok(channel) = Receiver::create() else {
        compute()
    };
    loop {
        match channel.make_portal(1) {
            Ok(portal) => portal.close(),
            Err(Error::NoMemory) if more_objects(pool::PORTAL) => {}
            Err(Error::NoSlot) if more_slots() => {}
            Err(_) => refused(),
        }
    }
}

fn channels() -> ! {
    loop {
        match Receiver::create() {
            Ok(_) => {}
            Err(Error::NoMemory) if more_objects(pool::CHANNEL) => {}
            Err(Error::NoSlot) if more_slots() => {}
            Err(_) => refused(),
        }
    }
}

fn semaphores() -> ! {
    loop {
        match Semaphore::new(1) {
            Ok(_) => {}
            Err(Error::NoMemory) if more_objects(pool::SEMAPHORE) => {}
            Err(Error::NoSlot) if more_slots() => {}
            Err(_) => refused(),
        }
    }
}

/// Channels with as long a signature as there may be.
fn signatures() -> ! {
    const ANY: u64 = u64::MAX;
    let mut number = receive::OPERATIONS;
    let mut channel = None;
    loop {
        if number == receive::OPERATIONS {
            number = 0;
            channel = Some(sure_slot(pool::CHANNEL, Receiver::create));
        }
        let line = [number, ANY, ANY, ANY, ANY, ANY, ANY, 1];
        match channel.map_or(Err(Error::Dead), |c: Receiver| c.sign(&line)) {
            Ok(()) => number += 1,
            Err(Error::NoMemory) if more_objects(pool::SIGNATURE) => {}
            Err(_) => refused(),
        }
    }
}

/// As [`sure`], of what takes a slot as well; for ever, where there is no more to have.
fn sure_slot<T>(pool: u64, make: impl Fn() -> Result<T, Error>) -> T {
    loop {
        match make() {
            Ok(made) => return made,
            Err(Error::NoMemory) if more_objects(pool) => {}
            Err(Error::NoSlot) if more_slots() => {}
            Err(_) => refused(),
        }
    }
}

/// Windows over one page each, as many as a space may have and more.
fn windows() -> ! {
    let mut page = 0;
    loop {
        page = match page {
            0 => own_page(),
            page => page,
        };
        match Portal::CURRENT.service(current::WINDOW_CREATE, &[page, 1, AUTO]) {
            Ok(_) => page = 0,
            Err(Error::NoSlot) if more_slots() => {}
            Err(_) => {
                refused();
                more_objects(pool::WINDOW);
            }
        }
    }
}

/// Portals that are each used so often that they are worth code of their own, more than a domain has code for.
fn portal_code() -> ! {
    const PORTALS: usize = 200;
    let made: [Semaphore; PORTALS] =
        core::array::from_fn(|_| sure_slot(pool::SEMAPHORE, || Semaphore::new(1)));
    loop {
        for semaphore in made {
            for _ in 0..100 {
                if semaphore.p().and_then(|()| semaphore.v()).is_err() {
                    broken();
                }
            }
        }
    }
}
