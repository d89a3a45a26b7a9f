//! Rights between components: what is lent and taken back, also in flight and after it was derived from; calls that nobody has received, and waits at semaphores, when that happens; single uses that two threads go for at once; slots
//! that nobody gave; turns that go round by semaphores; a mutex whose owner dies. Says `rights: done` in the log when all was right, and panics where not.
#![no_std]
#![no_main]

mod ask;

use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, domain, receive, semaphore, thread, AUTO};
use cairn_abi::{flag, layout::native_slot, pulse, rights, Error, PortalKind};
use cairn_idl::fs;
use cairn_idl::wire::Failure;
use cairn_rt::semaphore::Semaphore;
use cairn_rt::{log, memory, startup, time, Message, Portal, Receiver};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

cairn_rt::entry!(main);

/// The thread beside the first: what it shall notify through, its successes, and semaphores for its turns.
static SLOT: AtomicU64 = AtomicU64::new(0);
static USED: AtomicU32 = AtomicU32::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);
static GO: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

fn main() -> ! {
    let peer = startup::portal("peer").expect("the manifest names it");
    let channel = Receiver::create().expect("channel");
    let file = channel.make_portal(5).expect("portal");
    lend(peer, file);
    flags(peer, file, channel);
    once(file, channel);
    waiting(peer, channel);
    crowd(channel);
    late(channel);
    unwelcome();
    takers();
    delegate(peer, channel);
    lies(peer, file);
    log!("rights: lent, taken back, used once");
    slots(peer);
    turns(peer);
    owner_dies(peer);
    deep();
    log!("rights: done");
    cairn_rt::start::exit(0)
}

fn ask(peer: Portal, words: &[u64]) -> [u64; 8] {
    peer.ask(Message::new(words)).expect("answered").words
}

/// Pass a portal for keeping; → its rights there.
fn give(peer: Portal, portal: Portal, flags: u64) -> u64 {
    let mut message = Message::new(&[ask::KEEP]).portal(portal);
    message.flags = flags;
    peer.call(message).expect("kept")[1]
}

fn lend(peer: Portal, file: Portal) {
    const REVOKED: u64 = Error::Revoked as u64;
    for round in 0..50 {
        let kept = file.derive(rights::ALL).expect("derived");
        let lent = kept.derive(rights::ALL).expect("derived");
        if round % 3 == 2 {
            // Taken back in flight: before the peer has it, though it was passed.
            kept.revoke().expect("revoked");
        }
        give(peer, lent, 0);
        if round % 3 == 0 {
            assert_eq!(ask(peer, &[ask::USE])[0], 0);
            assert_eq!(ask(peer, &[ask::DERIVE])[0], 0);
            assert_eq!(ask(peer, &[ask::USE])[0], 0);
        }
        kept.revoke().expect("revoked");
        assert_eq!(ask(peer, &[ask::USE])[0], REVOKED);
        assert_eq!(ask(peer, &[ask::DERIVE])[0], REVOKED);
        // What comes back is what it was: nothing.
        let back = ask(peer, &[ask::RETURN]);
        assert_eq!(back[0], 0);
        assert_eq!(Portal(back[7] as u32).notify(1), Err(Error::Revoked));
        assert_eq!(lent.notify(1), Err(Error::Revoked));
        assert_eq!(kept.notify(1), Ok(()));
        ask(peer, &[ask::CLOSE]);
        [Portal(back[7] as u32), lent, kept]
            .iter()
            .for_each(|p| p.close());
    }
}

/// How many entries hold a portal, and calls through it that wait to be received.
fn holders(portal: Portal) -> u64 {
    let info = Portal::CURRENT.service(current::PORTAL_INFO, &[portal.0 as u64]);
    info.expect("held")[2]
}

fn pause() {
    let later = time::monotonic() + 50_000;
    let _ = Portal::CURRENT.service(current::SLEEP, &[later]);
}

/// What is lent is taken back while a call through it waits in the queue, before it is made, and when it was received.
fn waiting(peer: Portal, channel: Receiver) {
    let file = channel.make_portal(6).expect("portal");
    for round in 0..60 {
        let kept = file.derive(rights::ALL).expect("derived");
        let lent = kept.derive(rights::ALL).expect("derived");
        give(peer, lent, 0);
        ask(peer, &[ask::CALL]);
        let mut ended = Error::Revoked as u64;
        match round % 3 {
            // Perhaps it calls just now.
            0 => {}
            1 => {
                while holders(lent) != 3 {
                    pause();
                }
            }
            _ => {
                let message = channel.receive(None).expect("a call");
                assert_eq!((message.badge, message.words[0]), (6, 1));
                kept.revoke().expect("revoked");
                let _ = channel.reply_words(message.token, &[0; 8]);
                ended = 0;
            }
        }
        kept.revoke().expect("revoked");
        assert_eq!(channel.poll().err(), Some(Error::TimedOut));
        assert_eq!(ask(peer, &[ask::CALLED])[0], ended);
        ask(peer, &[ask::CLOSE]);
        [lent, kept].iter().for_each(|p| p.close());
    }
    file.close();
    while channel.poll().is_ok() {}
}

/// From now on threads that are begun say how it ended for them.
fn count() -> Semaphore {
    let done = Semaphore::new(0).expect("semaphore");
    DONE.store(done.0 .0, Relaxed);
    USED.store(0, Relaxed);
    done
}

/// The end of such a thread: as it should, or not. It waits for its own end.
fn says(right: bool) -> ! {
    if right {
        USED.fetch_add(1, Relaxed);
    }
    let _ = Semaphore(Portal(DONE.load(Relaxed))).v();
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}

/// All of these threads say that it ended as it should.
fn all_say(done: Semaphore, threads: &[Portal]) {
    for _ in threads {
        done.p().expect("taken");
    }
    assert_eq!(USED.load(Relaxed) as usize, threads.len());
}

fn kill(threads: &[Portal]) {
    for thread in threads {
        thread.service(thread::KILL, &[]).expect("killed");
        thread.close();
    }
}

/// Calls, says how that ended, and waits for its own end.
extern "C" fn caller(slot: u64) -> ! {
    let answer = Portal(slot as u32).call(Message::new(&[1]));
    says(answer == Err(Error::Revoked))
}

/// Many calls through a long line of portals wait, more than the nucleus ends in one go.
fn crowd(channel: Receiver) {
    const CALLERS: usize = 50;
    const LINE: usize = 15;
    const STACK: usize = 8 << 10;
    let done = count();
    let file = channel.make_portal(6).expect("portal");
    let mut last = file;
    let line: [Portal; LINE] = core::array::from_fn(|i| {
        let words = [i as u64, rights::DEFAULT.into(), AUTO, last.0.into()];
        let made = channel.0.service(receive::MAKE_PORTAL, &words);
        last = Portal(made.expect("portal")[0] as u32);
        last
    });
    let stacks = memory::map(CALLERS * STACK).expect("memory");
    let mut stacks = stacks.chunks_exact_mut(STACK);
    let threads: [Portal; CALLERS] = core::array::from_fn(|i| {
        let stack = stacks.next().expect("one for each");
        begin(caller, line[LINE.min(i + 1) - 1].0, stack)
    });
    let all = || line.iter().map(|portal| holders(*portal)).sum::<u64>() as usize;
    while all() != LINE + CALLERS {
        pause();
    }
    file.revoke().expect("revoked");
    assert_eq!(all(), LINE);
    // Each has a badge of its own, so its end is told.
    for i in 0..LINE as u64 {
        let pulse = channel.poll().expect("a pulse");
        assert_eq!((pulse.words[0], pulse.badge), (pulse::CLOSED, i));
    }
    assert_eq!(channel.poll().err(), Some(Error::TimedOut));
    all_say(done, &threads);
    kill(&threads);
    line.iter().chain(&[done.0, file]).for_each(|p| p.close());
    while channel.poll().is_ok() {}
}

/// Calls until a time, says how that ended, and waits for its own end.
extern "C" fn late_caller(slot: u64) -> ! {
    let limit = LIMIT.load(Relaxed);
    let _ = Portal::CURRENT.service(current::DEADLINE, &[limit]);
    let answer = Portal(slot as u32).call(Message::new(&[1]));
    says(answer == Err(Error::TimedOut))
}

/// Calls end at the same time, each of which is all that keeps a long line of portals.
fn late(channel: Receiver) {
    const LINES: usize = 12;
    const LENGTH: usize = 15;
    const STACK: usize = 8 << 10;
    let done = count();
    let file = channel.make_portal(6).expect("portal");
    let limit = time::monotonic() + 200_000_000;
    LIMIT.store(limit, Relaxed);
    let stacks = memory::map(LINES * STACK).expect("memory");
    let mut stacks = stacks.chunks_exact_mut(STACK);
    let mut open = [None; LINES];
    let threads: [Portal; LINES] = core::array::from_fn(|i| {
        let mut last = file.derive(rights::ALL).expect("derived");
        for _ in 1..LENGTH {
            let next = last.derive(rights::ALL).expect("derived");
            last.close();
            last = next;
        }
        let stack = stacks.next().expect("one for each");
        let thread = begin(late_caller, last.0, stack);
        while holders(last) != 2 && time::monotonic() < limit {
            pause();
        }
        // On a slow machine its time may be over before it has called.
        if holders(last) == 2 {
            last.close();
        } else {
            open[i] = Some(last);
        }
        thread
    });
    all_say(done, &threads);
    kill(&threads);
    open.iter().flatten().for_each(|p: &Portal| p.close());
    done.0.close();
    file.close();
    while channel.poll().is_ok() {}
}

/// Calls what nobody takes any more, says how that ended, and waits for its own end.
extern "C" fn unwelcome_caller(slot: u64) -> ! {
    let answer = Portal(slot as u32).call(Message::new(&[3, 9]));
    says(answer == Err(Error::BadArgument))
}

/// Many calls in a row that wait turn out to be none when they could be received.
fn unwelcome() {
    const CALLERS: usize = 50;
    const STACK: usize = 8 << 10;
    let channel = Receiver::create().expect("channel");
    let done = count();
    let file = channel.make_portal(6).expect("portal");
    let stacks = memory::map(CALLERS * STACK).expect("memory");
    let mut stacks = stacks.chunks_exact_mut(STACK);
    let threads: [Portal; CALLERS] = core::array::from_fn(|_| {
        let stack = stacks.next().expect("one for each");
        begin(unwelcome_caller, file.0, stack)
    });
    while holders(file) != 1 + CALLERS as u64 {
        pause();
    }
    let none = || channel.sign(&[3, 0, 0, 0, 0, 0, 0, 0]);
    memory::with_objects(pool::SIGNATURE, none).expect("signed");
    assert_eq!(channel.poll().err(), Some(Error::TimedOut));
    all_say(done, &threads);
    kill(&threads);
    [done.0, file, channel.0].iter().for_each(|p| p.close());
}

/// Takes a semaphore by what is lent, then by its own portal, and says of the first time how that ended.
extern "C" fn taker(own: u64) -> ! {
    loop {
        let lent = Semaphore(Portal(SLOT.load(Relaxed) as u32));
        USED.store(lent.p().err().map_or(0, |error| error as u32), Relaxed);
        let _ = Semaphore(Portal(DONE.load(Relaxed))).v();
        let _ = Semaphore(Portal(own as u32)).p();
        let _ = Semaphore(Portal(DONE.load(Relaxed))).v();
        let _ = Semaphore(Portal(GO.load(Relaxed))).p();
    }
}

/// Who waits at a semaphore by what is taken back waits no longer; who was let through before and waits again in another way is left alone.
fn takers() {
    let [own, done, go] = [0; 3].map(|count| Semaphore::new(count).expect("semaphore"));
    let somebody_waits = || own.0.service(semaphore::INFO, &[]).expect("told")[1] != 0;
    DONE.store(done.0 .0, Relaxed);
    GO.store(go.0 .0, Relaxed);
    let stack = memory::map(64 << 10).expect("memory");
    let mut thread = None;
    for round in 0..60 {
        let kept = own.0.derive(rights::ALL).expect("derived");
        let lent = kept.derive(rights::ALL).expect("derived");
        SLOT.store(lent.0.into(), Relaxed);
        match thread {
            None => thread = Some(begin(taker, own.0 .0, stack)),
            Some(_) => go.v().expect("given"),
        }
        while !somebody_waits() {
            pause();
        }
        let ended = match round % 3 {
            0 => {
                kept.revoke().expect("revoked");
                done.p().expect("taken");
                Error::Revoked as u32
            }
            1 => {
                own.v_then_p(done).expect("a turn");
                0
            }
            _ => {
                own.v().and(done.p()).expect("a turn");
                0
            }
        };
        assert_eq!(USED.load(Relaxed), ended);
        while !somebody_waits() {
            pause();
        }
        kept.revoke().expect("revoked");
        assert!(somebody_waits());
        own.v().and(done.p()).expect("a turn");
        [lent, kept].iter().for_each(|p| p.close());
    }
    let thread = thread.expect("begun");
    thread.service(thread::KILL, &[]).expect("killed");
    [thread, own.0, done.0, go.0].iter().for_each(|p| p.close());
}

fn flags(peer: Portal, file: Portal, channel: Receiver) {
    let plain = give(peer, file, 0) as u16;
    ask(peer, &[ask::CLOSE]);
    assert_eq!(plain, rights::DEFAULT);
    let got = give(peer, file, flag::NOT_FURTHER) as u16;
    assert_eq!(got, rights::DEFAULT & !rights::PASS);
    assert_eq!(ask(peer, &[ask::RETURN])[0], Error::NoRight as u64);
    ask(peer, &[ask::CLOSE]);
    let got = give(peer, file, flag::PASS_ONCE) as u16;
    assert_eq!(got, rights::DEFAULT | rights::ONCE);
    assert_eq!(ask(peer, &[ask::DERIVE])[0], Error::NoRight as u64);
    assert_eq!(ask(peer, &[ask::USE])[0], 0);
    assert_eq!(ask(peer, &[ask::USE])[0], Error::BadPortal as u64);
    while channel.poll().is_ok() {}
}

/// The peer decides who may open, in this component's place, until that is taken back.
fn delegate(peer: Portal, channel: Receiver) {
    const BADGE: u64 = 9 << 32;
    assert_eq!(channel.make_delegate(9).err(), Some(Error::BadArgument));
    let kept = channel.make_delegate(BADGE).expect("portal");
    let all = rights::ALL | rights::OPEN;
    let lent = kept.derive(all).expect("derived");
    assert_eq!(give(peer, lent, 0) as u16, rights::DEFAULT | rights::OPEN);
    let mut opened = Portal(0);
    for number in [1, 2, 77, u64::from(u32::MAX)] {
        let answer = ask(peer, &[ask::OPEN, number]);
        assert_eq!(answer[0], 0);
        opened = Portal(answer[7] as u32);
        assert_eq!(opened.open(all, 1).err(), Some(Error::NoRight));
        opened.notify(4).expect("notified");
        let pulse = channel.poll().expect("a pulse");
        assert_eq!((pulse.badge, pulse.words[1]), (BADGE + number, 4));
    }
    for number in [0, 1 << 32] {
        let answer = ask(peer, &[ask::OPEN, number]);
        assert_eq!(answer[0], Error::BadArgument as u64);
    }
    kept.revoke().expect("revoked");
    assert_eq!(opened.notify(1), Err(Error::Revoked));
    assert_eq!(ask(peer, &[ask::OPEN, 3])[0], Error::Revoked as u64);
    ask(peer, &[ask::CLOSE]);
    [opened, lent, kept].iter().for_each(|p| p.close());
    while channel.poll().is_ok() {}
}

/// A thread beside the first.
fn begin(run: extern "C" fn(u64) -> !, argument: u32, stack: &mut [u8]) -> Portal {
    begin_at(59, run, argument, stack)
}

fn begin_at(
    priority: u64,
    run: extern "C" fn(u64) -> !,
    argument: u32,
    stack: &mut [u8],
) -> Portal {
    let top = stack.as_mut_ptr() as u64 + stack.len() as u64 - 8;
    let words = [
        run as *const () as u64,
        top,
        argument.into(),
        0,
        0,
        priority,
        AUTO,
    ];
    let make = || Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words);
    let made = memory::with_objects(pool::THREAD, make).expect("thread");
    let thread = Portal(made[0] as u32);
    thread.service(thread::START, &[]).expect("started");
    thread
}

extern "C" fn second(_: u64) -> ! {
    loop {
        let _ = Semaphore(Portal(GO.load(Relaxed))).p();
        if Portal(SLOT.load(Relaxed) as u32).notify(2).is_ok() {
            USED.fetch_add(1, Relaxed);
        }
        let _ = Semaphore(Portal(DONE.load(Relaxed))).v();
    }
}

/// Two threads go for the same single use: one has it.
fn once(file: Portal, channel: Receiver) {
    let (go, done) = (
        Semaphore::new(0).expect("semaphore"),
        Semaphore::new(0).expect("semaphore"),
    );
    GO.store(go.0 .0, Relaxed);
    DONE.store(done.0 .0, Relaxed);
    let stack = memory::map(64 << 10).expect("memory");
    let other = begin(second, 0, stack);
    for round in 0..500u64 {
        let words = [file.0 as u64, AUTO, (rights::DEFAULT | rights::ONCE) as u64];
        let single = Portal::CURRENT.service(current::PORTAL_COPY, &words);
        let single = Portal(single.expect("copied")[0] as u32);
        SLOT.store(single.0 as u64, Relaxed);
        USED.store(0, Relaxed);
        go.v().expect("given");
        if round % 2 == 0 {
            // The other one first.
            let later = time::monotonic() + 50_000;
            let _ = Portal::CURRENT.service(current::SLEEP, &[later]);
        }
        let own = single.notify(1);
        done.p().expect("taken");
        assert_eq!(own.is_ok() as u32 + USED.load(Relaxed), 1);
        assert_eq!(single.notify(1), Err(Error::BadPortal));
    }
    other.service(thread::KILL, &[]).expect("killed");
    while channel.poll().is_ok() {}
}

/// No number leads to anything that was not given.
fn slots(peer: Portal) {
    let mut found = 0;
    for slot in (0..10_000).chain([u32::MAX as u64, 1 << 31, 0x8000_0004, 1 << 32 | 4]) {
        let Ok(info) = Portal::CURRENT.service(current::PORTAL_INFO, &[slot]) else {
            continue;
        };
        found += 1;
        let powerful = [
            PortalKind::Memory,
            PortalKind::Machine,
            PortalKind::Interrupt,
            PortalKind::Ports,
            PortalKind::Space,
        ];
        assert!(powerful.iter().all(|&kind| info[0] != kind as u64));
        assert!(info[0] != PortalKind::Domain as u64 || info[1] as u16 & rights::CONTROL == 0);
    }
    assert!(found < 40, "{found} portals");
    assert_eq!(ask(peer, &[99])[0], u64::MAX);
}

/// A server cannot pass a number off as a portal, nor fill the table of who calls it: the nucleus says what came.
fn lies(peer: Portal, file: Portal) {
    give(peer, file, 0);
    let held = || (0..512).filter(|slot| info(*slot).is_some()).count();
    let before = held();
    for (portals, passed) in (0..=4).flat_map(|n| [(n, 0), (n, 1)]) {
        let words = [fs::MMAP, portals, passed, u64::from(file.0)];
        let answer = peer.ask(Message::new(&words)).expect("answered");
        assert_eq!((answer.words[0], answer.portals), (1, portals as usize));
        assert_eq!(held(), before + answer.portals);
        for slot in answer.slots() {
            assert!(slot != file.0 && info(slot) == Some(PortalKind::Channel as u64));
            Portal(slot).close();
        }
        // All other words are what the server wrote.
        let number = u64::from(file.0);
        assert!(answer.words[4..8 - answer.portals]
            .iter()
            .all(|word| *word == number));
        // What goes through a stub.
        match fs::Client(&peer).mmap(portals, passed, number) {
            Ok(answer) => {
                assert_eq!(portals, 1);
                Portal(answer.object.slot()).close();
            }
            Err(failure) => assert!(portals != 1 && failure == Failure::Nonsense),
        }
        // What expects none.
        peer.call(Message::new(&words)).expect("answered");
        assert_eq!(held(), before);
    }
    ask(peer, &[ask::CLOSE]);
}

/// What a slot leads to.
fn info(slot: u32) -> Option<u64> {
    let info = Portal::CURRENT.service(current::PORTAL_INFO, &[u64::from(slot)]);
    info.ok().map(|info| info[0])
}

/// Turns go round between two domains.
fn turns(peer: Portal) {
    const TURNS: u64 = 2000;
    let made = [0, 0, 0].map(|count| Semaphore::new(count).expect("semaphore"));
    let [end, theirs, ours] = made;
    let words = [
        ask::RING,
        TURNS,
        0,
        0,
        0,
        end.0 .0 as u64,
        theirs.0 .0 as u64,
        ours.0 .0 as u64,
    ];
    let mut message = Message::new(&words);
    message.portals = 3;
    peer.call(message).expect("begun");
    for turn in 0..TURNS {
        if turn % 2 == 0 {
            theirs.v_then_p(ours).expect("a turn");
        } else {
            theirs.v().and(ours.p()).expect("a turn");
        }
    }
    end.p().expect("the end");
    made.iter().for_each(|s| s.0.close());
}

/// The owner of a mutex dies: the next one hears of it, and the one after that does not.
fn owner_dies(peer: Portal) {
    let mutex = Semaphore::mutex().expect("mutex");
    let message = Message::new(&[ask::TAKE]).portal(mutex.0);
    assert_eq!(peer.call(message).expect("answered")[0], 0);
    assert!(peer.call(Message::new(&[ask::DIE])).is_err());
    assert_eq!(mutex.p(), Err(Error::OwnerDead));
    assert_eq!(mutex.p(), Err(Error::Cycle));
    assert_eq!(mutex.v(), Ok(()));
    assert_eq!(mutex.v(), Err(Error::Busy));
    assert_eq!(mutex.p(), Ok(()));
}

/// Mutexes in a row: each one's owner waits for the next one.
const ROW: usize = 30;
static ROWS: [AtomicU32; ROW] = [const { AtomicU32::new(0) }; ROW];

/// Owns the mutex of this number, and waits for the next one; the last one's owner sleeps.
extern "C" fn row_owner(number: u64) -> ! {
    let of = |n: usize| {
        ROWS.get(n)
            .map(|slot| Semaphore(Portal(slot.load(Relaxed))))
    };
    let _ = of(number as usize).map(Semaphore::p);
    let _ = Semaphore(Portal(DONE.load(Relaxed))).v();
    if let Some(next) = of(number as usize + 1) {
        let _ = next.p();
    }
    loop {
        let _ = Portal::CURRENT.service(current::PARK, &[]);
    }
}

/// Waits for the first mutex until a time.
extern "C" fn row_waiter(_: u64) -> ! {
    let limit = LIMIT.load(Relaxed);
    let _ = Portal::CURRENT.service(current::DEADLINE, &[limit]);
    let first = Semaphore(Portal(ROWS[0].load(Relaxed)));
    says(first.p() == Err(Error::TimedOut))
}

/// Those who wait for the first mutex of a long row lift all of its owners, and stop waiting at the same time.
fn deep() {
    const WAITERS: usize = 8;
    const STACK: usize = 8 << 10;
    let done = count();
    for slot in &ROWS {
        slot.store(Semaphore::mutex().expect("mutex").0 .0, Relaxed);
    }
    let stacks = memory::map((ROW + WAITERS) * STACK).expect("memory");
    let mut stacks = stacks.chunks_exact_mut(STACK);
    let mut stack = || stacks.next().expect("one for each");
    // From the last one on, so that each finds the next one taken.
    let owners: [Portal; ROW] = core::array::from_fn(|i| {
        let owner = begin_at(10, row_owner, (ROW - 1 - i) as u32, stack());
        done.p().expect("taken");
        owner
    });
    pause();
    LIMIT.store(time::monotonic() + 50_000_000, Relaxed);
    let waiters: [Portal; WAITERS] =
        core::array::from_fn(|i| begin_at(20 + 2 * i as u64, row_waiter, 0, stack()));
    all_say(done, &waiters);
    kill(&owners);
    kill(&waiters);
    ROWS.iter()
        .for_each(|slot| Portal(slot.load(Relaxed)).close());
    done.0.close();
}
