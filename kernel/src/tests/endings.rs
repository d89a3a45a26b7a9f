//! Every state in which a thread waits, ended in every way: what the thread sees, what its server hears, and that nothing is left behind.

use super::*;
use cairn_abi::service::semaphore;
use cairn_abi::{fault, pulse};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// A caller: queued; worked for; put off; worked for by a server that waits for another server.
    Queued,
    Served,
    PutOff,
    Chained,
    /// The server in the middle of that chain.
    Middle,
    Receiving,
    Sleeping,
    Parked,
    /// A semaphore: its own; in one step with a V of another; another's mutex.
    Semaphore,
    Turn,
    Mutex,
    /// A page fault: the pager is busy; the pager has it.
    FaultQueued,
    FaultServed,
    /// A server that copies what its caller's pager must bring first; and that caller.
    Copying,
    CopiedFrom,
}

const WAITS: [Wait; 15] = [
    Wait::Queued,
    Wait::Served,
    Wait::PutOff,
    Wait::Chained,
    Wait::Middle,
    Wait::Receiving,
    Wait::Sleeping,
    Wait::Parked,
    Wait::Semaphore,
    Wait::Turn,
    Wait::Mutex,
    Wait::FaultQueued,
    Wait::FaultServed,
    Wait::Copying,
    Wait::CopiedFrom,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Kill,
    /// Poked, in a wait that is interruptible, or is not.
    Interrupt,
    Poke,
    Timeout,
    /// Whoever it waits for: that thread ends; its domain does, and the channel waits for a successor; the channel goes as well.
    ServerThread,
    ServerDomain,
    Channel,
}

const ENDINGS: [Ending; 7] = [
    Ending::Kill,
    Ending::Interrupt,
    Ending::Poke,
    Ending::Timeout,
    Ending::ServerThread,
    Ending::ServerDomain,
    Ending::Channel,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It waits as before.
    Waits,
    /// The wait is over: with an error, or without.
    Over(Result<(), Error>),
    ThreadDead,
    DomainDead,
}

/// What must come of it, and the pulse for the holder of the call.
fn expected(wait: Wait, ending: Ending) -> (Outcome, Option<u64>) {
    use Outcome::*;
    use Wait::*;
    let held = matches!(wait, Served | PutOff | Chained | Middle | CopiedFrom);
    let for_memory = matches!(wait, FaultQueued | FaultServed | Copying);
    let for_nobody = matches!(
        wait,
        Receiving | Sleeping | Parked | Semaphore | Turn | Mutex
    );
    match ending {
        Ending::Kill => (ThreadDead, held.then_some(pulse::GONE)),
        Ending::Interrupt if held => (Waits, Some(pulse::UNBLOCK)),
        Ending::Interrupt if for_memory => (Waits, None),
        Ending::Interrupt => (Over(Err(Error::Interrupted)), None),
        Ending::Poke => (Waits, None),
        Ending::Timeout if for_memory => (Waits, None),
        Ending::Timeout if wait == Sleeping => (Over(Ok(())), None),
        Ending::Timeout => (Over(Err(Error::TimedOut)), held.then_some(pulse::GONE)),
        Ending::Channel if wait == Receiving => (Over(Err(Error::Dead)), None),
        _ if for_nobody => (Waits, None),
        Ending::ServerThread => (Waits, None),
        Ending::ServerDomain if matches!(wait, Queued | FaultQueued) => (Waits, None),
        _ if matches!(wait, FaultQueued | FaultServed) => (DomainDead, None),
        _ if wait == Copying => (Over(Err(Error::BadAddress)), None),
        _ => (Over(Err(Error::Dead)), None),
    }
}

const HOLE: u64 = 0x50_0000;

struct Stage {
    w: World,
    doms: Vec<Dom>,
    own: Vec<u32>,
    /// Who waits.
    t: ThreadRef,
    /// Whom it waits for: index of domain and channel, thread, and its receive slot.
    holder: Option<(usize, ThreadRef, u32)>,
    state: State,
    deadline: u64,
}

const SERVER: usize = 0;
const BEHIND: usize = 1;
const PAGER: usize = 2;

/// Bring a thread into the wait. Server, the server behind it, and pager have a second thread each, so that the end of one is not the domain's.
fn stage(wait: Wait, interruptible: bool, deadline: bool) -> Stage {
    let mut w = World::new();
    let mut doms = vec![w.domain(), w.domain(), w.domain()];
    let channels: Vec<(u32, u32)> = doms.iter().map(|&dom| w.channel(dom)).collect();
    for _ in 0..2 {
        doms.push(w.domain_with_pager(channels[PAGER].1 as u64, 500));
    }
    let to_behind = w.portal(channels[BEHIND].1, doms[SERVER], 9);
    let tx = w.portal(channels[SERVER].1, doms[3], 7);
    let other_tx = w.portal(channels[SERVER].1, doms[4], 8);
    let servers: Vec<ThreadRef> = (0..3).map(|i| w.thread(doms[i], 60 + i as u8)).collect();
    let seconds: Vec<ThreadRef> = (0..3).map(|i| w.thread(doms[i], 80)).collect();
    let (c, other) = (w.thread(doms[3], 50), w.thread(doms[4], 40));
    w.rest();
    for second in seconds {
        w.go(second, 0, current::PARK, 0, &[]);
    }
    let flags = if interruptible {
        flag::INTERRUPTIBLE
    } else {
        0
    };
    let (s, behind, pager) = (servers[SERVER], servers[BEHIND], servers[PAGER]);
    let rx: Vec<u32> = channels.iter().map(|&(rx, _)| rx).collect();
    let park = |w: &mut World, t| w.go(t, 0, current::PARK, 0, &[]);
    let end = w.k.arch.time + 1000;
    let arm = |w: &mut World, t| {
        if deadline {
            w.ok(t, 0, current::DEADLINE, &[end]);
        }
    };
    let call = |w: &mut World, flags: u64| {
        arm(w, c);
        let r = &mut w.k.threads[c].registers;
        (r.r14, r.r15, r.rbx, r.rbp) = (HOLE, 100, 0, 0);
        w.go(c, tx, 0, flag::PARTS | flags, &[]);
    };
    // From the most important to the least, each comes to its place.
    if wait == Wait::FaultQueued {
        park(&mut w, pager);
    } else {
        w.receive(pager, rx[PAGER]);
    }
    w.receive(behind, rx[BEHIND]);
    let (t, holder) = match wait {
        Wait::Queued => {
            park(&mut w, s);
            call(&mut w, flags);
            (c, Some((SERVER, s)))
        }
        Wait::Served => {
            w.receive(s, rx[SERVER]);
            call(&mut w, flags);
            park(&mut w, s);
            (c, Some((SERVER, s)))
        }
        Wait::PutOff => {
            w.receive(s, rx[SERVER]);
            call(&mut w, flags);
            w.receive(s, rx[SERVER]);
            w.call(other, other_tx, &[]);
            park(&mut w, s);
            (c, Some((SERVER, s)))
        }
        Wait::Chained | Wait::Middle => {
            w.receive(s, rx[SERVER]);
            if wait == Wait::Chained {
                call(&mut w, flags);
                w.call(s, to_behind, &[]);
            } else {
                w.call(c, tx, &[]);
                arm(&mut w, s);
                w.go(s, to_behind, 0, flags, &[]);
            }
            park(&mut w, behind);
            if wait == Wait::Chained {
                (c, Some((SERVER, s)))
            } else {
                (s, Some((BEHIND, behind)))
            }
        }
        Wait::Receiving => {
            arm(&mut w, s);
            w.go(s, rx[SERVER], receive::RECEIVE, flags, &[]);
            (s, None)
        }
        Wait::Sleeping => {
            park(&mut w, s);
            w.go(c, 0, current::SLEEP, flags, &[end]);
            (c, None)
        }
        Wait::Parked => {
            park(&mut w, s);
            arm(&mut w, c);
            w.go(c, 0, current::PARK, flags, &[]);
            (c, None)
        }
        Wait::Semaphore | Wait::Turn => {
            park(&mut w, s);
            let [made, next] =
                [0; 2].map(|_| w.ok(c, 0, current::SEMAPHORE_CREATE, &[0, 0, AUTO])[0]);
            arm(&mut w, c);
            if wait == Wait::Semaphore {
                w.go(c, made as u32, semaphore::P, flags, &[]);
            } else {
                w.go(c, made as u32, semaphore::V_THEN_P, flags, &[next]);
            }
            (c, None)
        }
        Wait::Mutex => {
            park(&mut w, s);
            let made = w.ok(
                c,
                0,
                current::SEMAPHORE_CREATE,
                &[1, semaphore::MUTEX, AUTO],
            );
            let made = made[0] as u32;
            w.recall();
            let owner = w.thread(doms[3], 55);
            w.rest();
            w.ok(owner, made, semaphore::P, &[]);
            park(&mut w, owner);
            arm(&mut w, c);
            w.go(c, made, semaphore::P, flags, &[]);
            (c, None)
        }
        Wait::FaultQueued | Wait::FaultServed => {
            park(&mut w, s);
            arm(&mut w, c);
            w.k.page_fault(HOLE, fault::WRITE);
            w.check();
            if wait == Wait::FaultServed {
                park(&mut w, pager);
            }
            (c, Some((PAGER, pager)))
        }
        Wait::Copying | Wait::CopiedFrom => {
            w.receive(s, rx[SERVER]);
            if wait == Wait::CopiedFrom {
                call(&mut w, flags);
            } else {
                call_plain(&mut w, c, tx);
                arm(&mut w, s);
            }
            let words = [w.token(s), 0, BUFFER, 100];
            let more = if wait == Wait::Copying { flags } else { 0 };
            w.go(s, rx[SERVER], receive::READ, more, &words);
            park(&mut w, pager);
            if wait == Wait::Copying {
                (s, Some((PAGER, pager)))
            } else {
                (c, Some((SERVER, s)))
            }
        }
    };
    let state = w.state(t);
    let blocked = matches!(
        state,
        State::Sending
            | State::Held
            | State::Receiving
            | State::Sleeping
            | State::Parked
            | State::Waiting
    );
    assert!(blocked, "{wait:?}: {state:?}");
    Stage {
        w,
        doms,
        own: channels.iter().map(|&(_, own)| own).collect(),
        t,
        holder: holder.map(|(index, thread)| (index, thread, rx[index])),
        state,
        deadline: end,
    }
}

fn call_plain(w: &mut World, c: ThreadRef, tx: u32) {
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (HOLE, 100, 0, 0);
    w.go(c, tx, 0, flag::PARTS, &[]);
}

impl Stage {
    fn control(&mut self, t: ThreadRef, operation: u8) {
        let (init, id) = (self.w.init, self.w.id(t));
        let d = self.w.k.threads[t].domain;
        let slot = self.doms.iter().find(|dom| dom.d == d).expect("one").slot;
        let words = [id, operation as u64];
        self.w.ok(init, slot, domain::THREAD_CONTROL, &words);
    }

    fn end(&mut self, wait: Wait, ending: Ending) {
        self.w.recall();
        let holder = self.holder.map(|(index, ..)| index);
        match ending {
            Ending::Kill => self.control(self.t, thread::KILL),
            Ending::Interrupt | Ending::Poke => self.control(self.t, thread::POKE),
            Ending::Timeout => {
                let rest = self.deadline + 1 - self.w.k.arch.time;
                self.w.pass_time(rest);
                // What is due waits for whoever is more important.
                while self.w.k.threads[self.t].timer.is_armed() {
                    let other = self.w.current().expect("somebody");
                    self.w.go(other, 0, current::PARK, 0, &[]);
                    self.w.pass_time(0);
                }
                if self.w.state(self.w.init) == State::Parked {
                    self.w.recall();
                }
            }
            Ending::ServerThread => {
                if let Some((_, thread, _)) = self.holder {
                    self.control(thread, thread::KILL);
                }
            }
            Ending::ServerDomain | Ending::Channel => {
                if let Some(index) = holder {
                    self.w.destroy(self.doms[index]);
                }
                let index = holder.or((wait == Wait::Receiving).then_some(SERVER));
                if let (Some(index), Ending::Channel) = (index, ending) {
                    if holder.is_none() {
                        // Its own right is taken away while it waits.
                        let (init, slot) = (self.w.init, self.doms[index].slot);
                        let rx = self.receive_slot(index);
                        self.w.ok(init, slot, domain::PORTAL_REMOVE, &[rx]);
                    }
                    self.w.close_own(self.own[index]);
                }
            }
        }
        self.w.check();
    }

    fn receive_slot(&self, index: usize) -> u64 {
        let table = &self.w.k.domains[self.doms[index].d].table;
        (0..table.entries() as u64)
            .find(|&slot| {
                let target = table.target(slot);
                target.is_some_and(|target| target.kind() == cairn_abi::PortalKind::Receive)
            })
            .expect("a receive right")
    }

    fn outcome(&self, id: u64, before: u32) -> Outcome {
        match self.w.k.threads.lookup(id as u32) {
            None => return Outcome::ThreadDead,
            Some(t) if self.w.state(t) == State::Dead => return Outcome::ThreadDead,
            _ => {}
        }
        let thread = &self.w.k.threads[self.t];
        if self.w.k.domains[thread.domain].dead {
            return Outcome::DomainDead;
        }
        if thread.state == self.state {
            assert_eq!(thread.token as u32, before);
            return Outcome::Waits;
        }
        assert!(matches!(thread.state, State::Ready | State::Running));
        Outcome::Over(self.w.result(self.t).map(|_| ()))
    }
}

#[test]
fn every_wait_ends_in_every_way() {
    for wait in WAITS {
        for ending in ENDINGS {
            let timed = ending == Ending::Timeout;
            let mut x = stage(wait, ending == Ending::Interrupt, timed);
            let (id, token) = (x.w.id(x.t), x.w.k.threads[x.t].token);
            x.end(wait, ending);
            let (outcome, told) = expected(wait, ending);
            let found = x.outcome(id, token as u32);
            assert_eq!(found, outcome, "{wait:?} {ending:?}");
            // The holder of the call hears of it, once.
            let survives = matches!(
                ending,
                Ending::Kill | Ending::Interrupt | Ending::Poke | Ending::Timeout
            );
            let holds_message =
                !matches!(wait, Wait::FaultQueued | Wait::FaultServed | Wait::Copying);
            if let (Some((_, holder, rx)), true, true) = (x.holder, survives, holds_message) {
                if x.w.state(holder) == State::Parked {
                    x.w.rest();
                    x.w.k.finish(holder, 0);
                    x.w.k.resume();
                    while x.w.current() != Some(holder) {
                        let other = x.w.current().expect("somebody");
                        x.w.go(other, 0, current::PARK, 0, &[]);
                    }
                    let heard = match wait {
                        // It will receive the call itself, if that still waits.
                        Wait::Queued => None,
                        _ => x.w.poll(holder, rx),
                    };
                    let expected = told.map(|code| (code, token));
                    assert_eq!(
                        heard.map(|(code, token, _)| (code, token)),
                        expected,
                        "{wait:?} {ending:?}"
                    );
                    if wait != Wait::Queued {
                        assert_eq!(x.w.poll(holder, rx), None);
                    }
                    x.w.recall();
                }
            }
            // Nothing is left when all is taken apart.
            let init = x.w.init;
            for dom in x.doms.clone() {
                x.w.destroy(dom);
                x.w.close_own(dom.slot);
                // A channel's object stays as long as a space names it as its pager's.
                x.w.close_own(dom.space);
            }
            for own in x.own.clone() {
                x.w.go(init, 0, current::PORTAL_CLOSE, 0, &[own as u64]);
            }
            let k = &x.w.k;
            assert_eq!(k.threads.live_objects(), 1, "{wait:?} {ending:?}");
            assert_eq!(k.domains.live_objects(), 1);
            assert_eq!(
                (k.channels.live_objects(), k.portals.live_objects()),
                (0, 0)
            );
            assert_eq!((k.semaphores.live_objects(), k.armed().len()), (0, 0));
        }
    }
}

#[test]
fn pulses_coalesce_and_take_no_memory() {
    // All pools are as full as they can be.
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let portals: Vec<u32> = (0..20).map(|badge| w.portal(own, client, badge)).collect();
    let s = w.thread(server, 60);
    let c = w.thread(client, 50);
    let init = w.init;
    loop {
        w.go(
            init,
            own,
            receive::MAKE_PORTAL,
            0,
            &[99, rights::DEFAULT as u64, AUTO],
        );
        match w.result(init) {
            Ok(_) => {}
            Err(Error::NoSlot) => {
                w.go(init, MEMORY, memory::GROW_TABLE, 0, &[1]);
                if w.result(init).is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    w.rest();
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 1_000]);
    for round in 0..1000u64 {
        let tx = portals[round as usize % portals.len()];
        w.go(c, tx, 1, 0, &[1 << (round % 50)]);
        assert!(w.result(c).is_ok());
    }
    w.pass_time(2_000);
    let mut seen = Vec::new();
    while let Some((code, value, badge)) = w.poll(s, rx) {
        assert_eq!(code, pulse::NOTIFY);
        // Every bit that this portal was given.
        let given = (0..1000u64).filter(|round| round % 20 == badge);
        assert_eq!(value, given.fold(0, |all, round| all | 1 << (round % 50)));
        seen.push(badge);
    }
    // Once each, in the order in which they first came.
    assert_eq!(seen, (0..20).collect::<Vec<u64>>());
}

#[test]
fn delivery_is_by_priority_also_of_those_that_change_while_they_wait() {
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    let s = w.thread(server, 200);
    let priorities = [30u8, 80, 30, 120, 80, 10];
    let threads: Vec<ThreadRef> = priorities.iter().map(|&p| w.thread(client, p)).collect();
    w.rest();
    w.go(s, 0, current::PARK, 0, &[]);
    for _ in &threads {
        let t = w.current().expect("a client");
        let number = threads
            .iter()
            .position(|&other| other == t)
            .expect("a client");
        w.call(t, tx, &[number as u64]);
    }
    // The least important becomes the most important; one of the others the least.
    w.recall();
    let init = w.init;
    for (i, priority) in [(5, 130u64), (3, 5)] {
        let words = [
            w.id(threads[i]),
            thread::SET_PRIORITY as u64,
            priority,
            0,
            0,
        ];
        w.ok(init, client.slot, domain::THREAD_CONTROL, &words);
    }
    w.rest();
    w.k.finish(s, 0);
    w.k.resume();
    let mut order = Vec::new();
    for _ in &threads {
        w.receive(s, rx);
        order.push(w.k.threads[s].registers.rdi);
    }
    assert_eq!(order, [5, 1, 4, 0, 2, 3]);
}
