//! The rows of the table, in its order.

use crate::clock;
use crate::leg::{self, make};
use crate::samples::{counters, wanted, work_undone, Samples, Work, COUNT};
use crate::stubs::{self, span, timed, timed_parts, Member, Timed, PAYLOAD};
use crate::{need, thread, with_room, HIGH, LOW};
use cairn_abi::layout::{native_slot, PAGE};
use cairn_abi::service::memory::pool;
use cairn_abi::service::semaphore as operations;
use cairn_abi::service::{current, domain, memory, thread as operation, AUTO};
use cairn_abi::{flag, op};
use cairn_idl::vm;
use cairn_rt::dma::Driver;
use cairn_rt::gate::selector;
use cairn_rt::semaphore::Semaphore;
use cairn_rt::{log, startup, Message, Portal, Receiver};
use core::cell::Cell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

/// Domains to talk to.
const LEGS: usize = 7;
const NAMES: [&str; LEGS] = ["leg1", "leg2", "leg3", "leg4", "leg5", "leg6", "leg7"];
/// Yields of each of several domains beside those that are measured.
const SPARE: u64 = 64;

pub fn all() {
    // Whatever the request stirred up comes to rest.
    let later = cairn_rt::time::monotonic() + 200_000_000;
    let _ = Portal::CURRENT.service(current::SLEEP, &[later]);
    assert_eq!(stubs::empty(), 0);
    let mut samples = Samples::new();
    let legs: [Portal; LEGS] =
        NAMES.map(|name| startup::portal(name).unwrap_or_else(|| panic!("no {name}")));
    messages(&mut samples, &legs);
    yields(&mut samples, &legs);
    semaphores(&mut samples, &legs);
    in_partitions(&mut samples, &legs);
    exception(&mut samples);
    pulse(&mut samples, legs[0]);
    pages(&mut samples);
    threads(&mut samples);
    pins(&mut samples);
    interrupts(&legs);
    log!("end");
}

/// Traverse with words that are no addresses to the operation.
fn traverse(portal: Portal, operation: u8, words: &[u64]) -> Timed {
    let mut all = [0; 8];
    all[..words.len()].copy_from_slice(words);
    // SAFETY: by this function's contract.
    unsafe { timed(selector(portal.0, operation, 0), all) }
}

fn call(portal: Portal) -> Timed {
    traverse(portal, op::CALL, &[1, 2, 3, 4, 5, 6, 7, 8])
}

fn messages(samples: &mut Samples, legs: &[Portal; LEGS]) {
    samples.row("identity", || {
        traverse(Portal::CURRENT, current::IDENTITY, &[]).cost()
    });
    let stamp = make(legs[0], leg::STAMP, None);
    samples.row("call-one-way", || {
        let timed = call(stamp);
        span(timed.begin, timed.word as u32)
    });
    let echo = make(legs[0], leg::ECHO, None);
    samples.row("call-reply", || call(echo).cost());
    let signed = make(legs[0], leg::SIGNED, None);
    samples.row("call-signed", || call(signed).cost());
    let named = [2, 0, 0, 0, 0, 0, 0, u64::from(signed.0)];
    samples.row("call-badge", || traverse(signed, op::CALL, &named).cost());
    // What it spares: the server is passed the portal, and asks what it stands for.
    let looker = make(legs[0], leg::LOOKER, None);
    samples.row("call-portal", || {
        let selector = selector(looker.0, op::CALL, flag::portals(1));
        // SAFETY: no parts.
        unsafe { timed(selector, named) }.cost()
    });
    // The last domain answers, the others before it pass on.
    let mut chain = make(legs[LEGS - 1], leg::ECHO, None);
    for domains in 2..=LEGS + 1 {
        if domains > 2 {
            chain = make(legs[LEGS + 1 - domains], leg::FORWARD, Some(chain));
        }
        let name = [
            "chain-2", "chain-3", "chain-4", "chain-5", "chain-6", "chain-7", "chain-8",
        ][domains - 2];
        samples.row(name, || call(chain).cost());
    }
    let mut data = [0u64; PAYLOAD / 8];
    let part = (data.as_mut_ptr() as u64, PAYLOAD as u64);
    let reader = make(legs[0], leg::READ_DATA, None);
    samples.row("call-64-words", || {
        // SAFETY: the part is only read, as it is an out part.
        unsafe { timed_parts(selector(reader.0, op::CALL, 0), part, (0, 0)) }.cost()
    });
    let writer = make(legs[0], leg::ANSWER_DATA, None);
    samples.row("reply-64-words", || {
        // SAFETY: the part is this function's and used for nothing else.
        unsafe { timed_parts(selector(writer.0, op::CALL, 0), (0, 0), part) }.cost()
    });
}

/// A turn of several domains that do nothing but yield to each other, per yield.
fn yields(samples: &mut Samples, legs: &[Portal; LEGS]) {
    let own = || traverse(Portal::CURRENT, current::YIELD, &[]).cost();
    samples.row("yield-1", own);
    let yielders = legs.map(|leg| make(leg, leg::YIELDER, None));
    for (name, domains) in [("yield-2", 2), ("yield-4", 4), ("yield-8", 8)] {
        if !wanted(name) {
            continue;
        }
        let turns = samples.turns() + SPARE;
        for yielder in &yielders[..domains - 1] {
            need("a yielder", yielder.call(Message::new(&[turns])));
        }
        samples.row_of(name, domains as u64, || own() / domains as u32);
        for _ in 0..2 * SPARE {
            own();
        }
    }
}

/// P and V of a semaphore for which nobody waits; a turn handed round a ring of domains, each of which waits for its own semaphore, per hand-over.
fn semaphores(samples: &mut Samples, legs: &[Portal; LEGS]) {
    let free = semaphore(1);
    samples.row("semaphore-p-v", || {
        let taken = traverse(free.0, operations::P, &[]).cost();
        taken + traverse(free.0, operations::V, &[]).cost()
    });
    for (name, domains) in [
        ("semaphore-ring-2", 2),
        ("semaphore-ring-4", 4),
        ("semaphore-ring-8", 8),
    ] {
        if !wanted(name) {
            continue;
        }
        // This domain's is the first.
        let ring: [Semaphore; LEGS + 1] = core::array::from_fn(|_| semaphore(0));
        for (i, leg) in legs[..domains - 1].iter().enumerate() {
            let (own, next) = (ring[i + 1], ring[(i + 2) % domains]);
            let mut message = Message::new(&[leg::RINGER]);
            message.words[6..].copy_from_slice(&[own.0 .0 as u64, next.0 .0 as u64]);
            message.portals = 2;
            need("a ringer", leg.call(message));
        }
        // All come to wait.
        let later = cairn_rt::time::monotonic() + 10_000_000;
        let _ = Portal::CURRENT.service(current::SLEEP, &[later]);
        let own = [ring[0].0 .0 as u64];
        samples.row_of(name, domains as u64, || {
            traverse(ring[1].0, operations::V_THEN_P, &own).cost() / domains as u32
        });
    }
}

/// What [`partitions`] needs, in a thread of its own: only of one that it made has this domain a portal.
struct Measurement<'a> {
    samples: &'a mut Samples,
    legs: &'a [Portal; LEGS],
    own: Portal,
    done: AtomicBool,
}

fn in_partitions(samples: &mut Samples, legs: &[Portal; LEGS]) {
    let mut measurement = Measurement {
        samples,
        legs,
        own: Portal(0),
        done: AtomicBool::new(false),
    };
    let place = &raw mut measurement;
    let own = thread(Portal(native_slot::DOMAIN), measuring, place as u64, LOW);
    // SAFETY: the thread has not started.
    unsafe { (*place).own = own };
    need("a start", own.service(operation::START, &[]));
    // SAFETY: it is shared, and the rest is the thread's until this says so.
    while !unsafe { &(*place).done }.load(Acquire) {
        let later = cairn_rt::time::monotonic() + 10_000_000;
        let _ = Portal::CURRENT.service(current::SLEEP, &[later]);
    }
}

/// # Safety
/// As a thread's first instruction, with a [`Measurement`] that is nobody else's meanwhile.
unsafe extern "C" fn measuring(place: u64) -> ! {
    // SAFETY: by this function's contract.
    let measurement = unsafe { &mut *(place as *mut Measurement) };
    partitions(measurement.samples, measurement.legs, measurement.own);
    measurement.done.store(true, Release);
    loop {
        let _ = Portal::CURRENT.service(current::EXIT, &[]);
    }
}

/// A turn handed round a ring of threads that are one partition, by calls of their scheduler, which holds who waits for its turn: per switch. Two threads of
/// this domain, and one of each of so many domains.
fn partitions(samples: &mut Samples, legs: &[Portal; LEGS], measures: Portal) {
    for (name, count, domains) in [
        ("partition-switch", 2, 1),
        ("partition-ring-2", 2, 2),
        ("partition-ring-4", 4, 4),
        ("partition-ring-8", 8, 8),
    ] {
        if !wanted(name) {
            continue;
        }
        let channel = need("a channel", with_room(pool::CHANNEL, Receiver::create));
        let own = Portal(native_slot::DOMAIN);
        let place = cairn_rt::memory::map(PAGE as usize).unwrap_or_else(|| panic!("no memory"));
        // SAFETY: a page of its own, of zeroes, which all fields may be; the scheduler and this function write different fields at different times.
        let ring = unsafe { &mut *place.as_mut_ptr().cast::<Ring>() };
        ring.slot = channel.0 .0 as u64;
        for i in 0..count {
            ring.members[i].next = &raw const ring.members[(i + 1) % count];
        }
        let id = need("an id", Portal::CURRENT.service(current::IDENTITY, &[]))[0];
        let mut portals = [Portal(0); LEGS + 1];
        for (i, portal) in portals[..count].iter_mut().enumerate() {
            let badge = &raw const ring.members[i] as u64;
            *portal = need(
                "a portal",
                with_room(pool::PORTAL, || channel.make_portal(badge)),
            );
        }
        // This thread comes last: from then on it runs when it is chosen.
        for i in (0..count).rev() {
            let badge = &raw const ring.members[i] as u64;
            let words = [channel.0 .0 as u64, badge, 0];
            if i == 0 {
                ring.members[0].id = id;
                let entry = stubs::scheduler;
                let first = &raw const ring.members[0] as u64;
                let scheduler = thread(own, entry, first, HIGH);
                need("a start", scheduler.service(operation::START, &[]));
                let joined = measures.service(operation::SET_SCHEDULER, &words);
                need("a member", joined);
                continue;
            }
            let member = if domains == 1 {
                thread(own, stubs::caller, (portals[i].0 as u64) << 32, LOW)
            } else {
                make(legs[i - 1], leg::CALLER, Some(portals[i]))
            };
            let told = need("a member", member.service(operation::SET_SCHEDULER, &words));
            ring.members[i].id = told[0];
            need("a start", member.service(operation::START, &[]));
        }
        samples.row_of(name, count as u64, || {
            call(portals[0]).cost() / count as u32
        });
        need("a leave", measures.service(operation::SET_SCHEDULER, &[0]));
    }
}

/// What [`stubs::scheduler`] begins with.
#[repr(C)]
struct Ring {
    slot: u64,
    members: [Member; LEGS + 1],
}

fn semaphore(count: u32) -> Semaphore {
    let made = with_room(pool::SEMAPHORE, || Semaphore::new(count));
    need("a semaphore", made)
}

/// From a breakpoint through the domain's upcall entry and back, by a domain that shares this one's space.
fn exception(samples: &mut Samples) {
    if !wanted("exception") {
        return;
    }
    let control = startup::portal("vm-control").unwrap_or_else(|| panic!("no vm-control"));
    let own = need("identity", Portal::CURRENT.service(current::IDENTITY, &[]))[1];
    let forked = need("a domain", control.ask(Message::new(&[vm::FORK, own, 1]))).words;
    let child = Portal(forked[7] as u32);
    let entry = stubs::resume as *const () as u64;
    need("configure", child.service(domain::CONFIGURE, &[0, HIGH]));
    need("turn", child.service(domain::SET_TURN, &[0, entry, entry]));
    let made = thread(child, stubs::exceptions, samples.address(), HIGH);
    // More important than this thread: it is done when this goes on.
    let before = counters();
    need("start", made.service(operation::START, &[]));
    let work = Work::between(&before, &counters(), 1);
    samples.tell("exception");
    work.tell("exception", COUNT as u64);
}

/// From a notification until the first instruction of the more important thread that waits for it.
fn pulse(samples: &mut Samples, leg: Portal) {
    let waiter = make(leg, leg::WAITER, None);
    samples.take("pulse", || {
        let timed = traverse(waiter, op::NOTIFY, &[1]);
        let told = need("waiter", waiter.call(Message::new(&[])))[0];
        span(timed.begin, told as u32)
    });
    // Until the waiter waits again.
    if wanted("pulse") {
        work_undone("pulse", || _ = traverse(waiter, op::NOTIFY, &[1]), || ());
    }
}

/// One page into another space and out of it again.
fn pages(samples: &mut Samples) {
    const TABLES: u64 = 16;
    const ADDRESS: u64 = 0x1000_0000;
    let manager = startup::portal("memory").unwrap_or_else(|| panic!("no memory"));
    // The middle of the largest range: `init` takes frames from its front, `vm` from its end, and neither comes as far.
    let ranges = (0..).map_while(|i| manager.service(memory::RANGE, &[i]).ok());
    let Some(range) = ranges.max_by_key(|range| range[1]) else {
        panic!("no memory");
    };
    let tables = range[0] + range[1] / 2;
    let frame = tables - 1;
    let made = with_room(memory::pool::SPACE, || {
        manager.service(memory::SPACE_CREATE, &[AUTO, AUTO, 0])
    });
    let space = need("a space", made)[0];
    let given = manager.service(memory::GIVE_TABLES, &[space, tables, TABLES]);
    need("tables", given);
    let prot = memory::prot::READ | memory::prot::WRITE;
    let map = || traverse(manager, memory::MAP, &[space, ADDRESS, frame, 1, prot]).cost();
    let unmap = || traverse(manager, memory::UNMAP, &[space, ADDRESS, 1]).cost();
    samples.row_undone("map-page", map, || _ = unmap());
    map();
    samples.row_undone("unmap-page", unmap, || _ = map());
    unmap();
}

/// A driver pins pages of an arena for its device, and unpins them; the messages included.
fn pins(samples: &mut Samples) {
    const MOST: usize = 256;
    let rows = [
        ("dma-pin-1", "dma-unpin-1", 1),
        ("dma-pin-8", "dma-unpin-8", 8),
        ("dma-pin-256", "dma-unpin-256", MOST),
    ];
    if !rows.iter().any(|row| wanted(row.0) || wanted(row.1)) {
        return;
    }
    let portal = startup::portal("dma").unwrap_or_else(|| panic!("no dma"));
    let arena = cairn_rt::memory::map(MOST * PAGE as usize).expect("an arena");
    need("memory", cairn_rt::memory::populate(arena));
    let (address, length) = (arena.as_mut_ptr() as u64, arena.len() as u64);
    let shared = vm::Client(&Portal(native_slot::VM)).dma_share(address, length);
    let shared = Portal(shared.expect("a share").slot());
    let driver = Driver::begin(portal).expect("a driver");
    let pages: [u32; MOST] = core::array::from_fn(|i| i as u32);
    let mut frames = [0; MOST];
    for (pin, unpin, count) in rows {
        let mut pinned = || {
            let begin = stubs::now();
            let done = driver.pin(shared, &pages[..count], &mut frames, &[]);
            let middle = stubs::now();
            done.and_then(|()| driver.unpin(&frames[..count]))
                .expect("pins");
            (span(begin, middle), span(middle, stubs::now()))
        };
        samples.row(pin, || pinned().0);
        samples.row(unpin, || pinned().1);
    }
}

/// Interrupts while this thread does something. (Other backgrounds are programs: benches/load.c.)
fn interrupts(legs: &[Portal; LEGS]) {
    let clock = startup::portal("clock").unwrap_or_else(|| panic!("no clock"));
    let echo = make(legs[0], leg::ECHO, None);
    let yielder = make(legs[0], leg::YIELDER, None);
    let own = |operation| traverse(Portal::CURRENT, operation, &[]);
    let during = |number: u64, operation: &dyn Fn() -> Timed| {
        if !wanted(clock::BACKGROUNDS[number as usize]) {
            return;
        }
        need("clock", clock.call(Message::new(&[clock::BEGIN, number])));
        while need("clock", clock.call(Message::new(&[clock::IS_DONE])))[0] == 0 {
            for _ in 0..1000 {
                operation();
            }
        }
    };
    during(1, &|| own(current::IDENTITY));
    during(2, &|| call(echo));
    // A P and a V that nobody waits for, and a turn handed to another domain and back.
    let (free, own_turn, other_turn) = (semaphore(1), semaphore(0), semaphore(0));
    if wanted(clock::BACKGROUNDS[4]) {
        let mut message = Message::new(&[leg::RINGER]);
        message.words[6..].copy_from_slice(&[other_turn.0 .0 as u64, own_turn.0 .0 as u64]);
        message.portals = 2;
        need("a ringer", legs[1].call(message));
        // It comes to wait.
        let later = cairn_rt::time::monotonic() + 10_000_000;
        let _ = Portal::CURRENT.service(current::SLEEP, &[later]);
    }
    during(4, &|| {
        traverse(free.0, operations::P, &[]);
        traverse(free.0, operations::V, &[]);
        let own = [own_turn.0 .0 as u64];
        traverse(other_turn.0, operations::V_THEN_P, &own)
    });
    // The other one yields for ever, and this thread goes on with it.
    need("a yielder", yielder.call(Message::new(&[u64::MAX])));
    during(3, &|| own(current::YIELD));
}

/// Make a thread, start it, and be back when it has ended.
fn threads(samples: &mut Samples) {
    let own = Portal(native_slot::DOMAIN);
    let entry = stubs::end as *const () as u64;
    let stack = &mut [0u64; 64];
    let top = stack.as_mut_ptr() as u64 + 512;
    let last = Cell::new(Portal(0));
    let run = || {
        let made = traverse(
            own,
            domain::THREAD_CREATE,
            &[entry, top, 0, 0, 0, HIGH, AUTO],
        );
        last.set(Portal(made.word as u32));
        made.cost() + traverse(last.get(), operation::START, &[]).cost()
    };
    samples.row_undone("thread", run, || last.get().close());
}
