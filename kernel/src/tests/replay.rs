//! Random operations played on the nucleus and on the model of messages (`models/src/messages.rs`) side by side: after each, both are in the same state and have
//! told the same to the same threads. What is shown of every state of the model is so tested of the nucleus.

use super::*;
use crate::pool::{ChannelRef, PortalRef};
use crate::pulse::Node;
use cairn_abi::{pulse, received};
use cairn_models::explore::Model;
use cairn_models::messages::{
    Action, Channel, Outcome, Place, Queue, Setup, State as Modelled, Thread, Wait, C, D, NOTE,
    OWN, T,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Priorities and domains of the threads.
const THREADS: [(u8, D); 6] = [(30, 0), (30, 0), (40, 1), (50, 1), (60, 2), (70, 2)];
const CHANNELS: usize = 3;

struct Replay {
    w: World,
    setup: Setup,
    model: Modelled,
    doms: Vec<Dom>,
    threads: Vec<(ThreadRef, u32)>,
    /// Token of each thread before its first call.
    first_token: Vec<u64>,
    /// Per channel: `init`'s slots of receive right and portal, the objects, slots of receive right and portal in each domain.
    channels: Vec<Ends>,
    stopped: [bool; THREADS.len()],
    /// A later deadline than any so far.
    next_deadline: u64,
}

struct Ends {
    own: u32,
    c: ChannelRef,
    id: u32,
    portal: PortalRef,
    receive: Vec<u32>,
    call: Vec<u32>,
}

impl Replay {
    fn new() -> Replay {
        let setup = Setup {
            threads: THREADS.to_vec(),
            channels: CHANNELS,
            receivers: std::vec![std::vec![0, 1, 2]; CHANNELS],
            calls: 1000,
            interruptions: true,
            fault: None,
        };
        let mut w = World::new();
        let doms: Vec<Dom> = (0..3).map(|_| w.domain()).collect();
        let channels = (0..CHANNELS).map(|c| ends(&mut w, &doms, c)).collect();
        let threads: Vec<_> = THREADS
            .iter()
            .map(|&(priority, d)| {
                let t = w.thread(doms[d as usize], priority);
                (t, w.k.threads.id(t))
            })
            .collect();
        let first_token = threads.iter().map(|&(t, _)| w.k.threads[t].token).collect();
        w.rest();
        Replay {
            model: setup.beginning(),
            w,
            setup,
            doms,
            threads,
            first_token,
            channels,
            stopped: [false; THREADS.len()],
            next_deadline: 0,
        }
    }

    fn number(&self, t: ThreadRef) -> T {
        let found = self.threads.iter().position(|&(known, _)| known == t);
        found.expect("one of the players") as T
    }

    fn channel_number(&self, c: ChannelRef) -> C {
        let found = self.channels.iter().position(|ends| ends.c == c);
        found.expect("one of the channels") as C
    }

    fn domain_number(&self, d: DomainRef) -> D {
        self.doms.iter().position(|dom| dom.d == d).expect("known") as D
    }

    fn sequence(&self, t: T, token: u64) -> u16 {
        (token.wrapping_sub(self.first_token[t as usize]) >> 32) as u16
    }

    fn token(&self, t: T, sequence: u16) -> u64 {
        self.first_token[t as usize].wrapping_add((sequence as u64) << 32)
    }

    /// The nucleus's state in the model's words.
    fn abstraction(&mut self) -> Modelled {
        let mut state = self.setup.beginning();
        for t in 0..self.threads.len() as T {
            state[t] = self.thread_state(t);
        }
        for c in 0..CHANNELS {
            state.channels[c] = self.channel_state(c);
        }
        state
    }

    fn thread_state(&self, t: T) -> Thread {
        let (r, id) = self.threads[t as usize];
        let mut state = Thread {
            place: Place::Dead,
            effective: 0,
            client: None,
            serving: None,
            token: self.model[t].token,
            poked: false,
            notice: None,
            behalf: OWN,
            cause: 0,
        };
        if self.w.k.threads.lookup(id) != Some(r) {
            return state;
        }
        let thread = &self.w.k.threads[r];
        state.token = self.sequence(t, thread.token);
        if thread.pulse.is_queued() {
            let sequence = self.sequence(t, thread.pulse_token);
            state.notice = Some((sequence, thread.pulse_gone));
            state.cause = thread.pulse.priority;
        }
        let at = |c: Option<ChannelRef>| self.channel_number(c.expect("a channel"));
        state.place = match thread.state {
            State::Running | State::Ready | State::Stopped => Place::Able,
            State::Sending => Place::Sending(at(thread.channel)),
            State::Held => Place::Held(at(thread.channel), thread.server.map(|s| self.number(s))),
            State::Receiving => Place::Receiving(at(thread.channel)),
            State::Dead => return state,
            other => panic!("{other:?}"),
        };
        state.effective = thread.effective;
        state.behalf = self.setup.behalf(t, thread.behalf);
        state.client = thread.client.map(|client| self.number(client));
        state.serving = thread.serving.map(|c| self.channel_number(c));
        state.poked = thread.poked;
        state
    }

    fn channel_state(&mut self, c: usize) -> Channel {
        let mut state = Channel {
            open: false,
            senders: Queue::default(),
            receivers: Queue::default(),
            pulses: Queue::default(),
            noted: false,
            cause: 0,
            server: None,
            home: None,
        };
        let ends = &self.channels[c];
        let (r, portal) = (ends.c, ends.portal);
        if self.w.k.channels.lookup(ends.id) != Some(r) {
            return state;
        }
        state.open = true;
        for p in (0..=255u8).rev() {
            for t in self.walk(self.w.k.channels[r].senders.list(p).first()) {
                state.senders.push(t);
            }
        }
        for t in self.walk(self.w.k.channels[r].receivers.first()) {
            state.receivers.push(t);
        }
        let sources: Vec<Node> = self.w.k.pulse_sources(r).collect();
        for source in sources {
            let thread = (0..self.threads.len())
                .find(|&t| Node::Thread(self.threads[t].0) == source)
                .map(|t| t as T);
            assert!(thread.is_some() || source == Node::Portal(portal));
            state.pulses.push(thread.unwrap_or(NOTE));
        }
        let channel = &self.w.k.channels[r];
        state.noted = self.w.k.portals[portal].notified;
        state.cause = channel.pulses.priority;
        state.server = channel.server.map(|s| self.number(s));
        state.home = channel.home.map(|d| self.domain_number(d));
        state
    }

    fn walk(&self, first: Option<ThreadRef>) -> Vec<T> {
        let mut found = Vec::new();
        let mut next = first;
        while let Some(t) = next {
            found.push(self.number(t));
            next = self.w.k.threads[t].link.next;
        }
        found
    }

    /// What may be done now: by the current thread, or from outside.
    fn possible(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.setup.actions(&self.model, &mut actions);
        let current = self.w.current().map(|t| self.number(t));
        let first = self.first_deadline();
        // With a closed channel its receive rights are gone.
        let open = |c: C| self.model.channels[c as usize].open;
        actions.retain(|&action| match action {
            Action::Call(t, _) | Action::Notify(t, _) => Some(t) == current,
            Action::Receive(t, c, _) | Action::Reply(t, c, ..) | Action::ReplyReceive(t, c, ..) => {
                Some(t) == current && open(c)
            }
            // It would wait for whoever is more important.
            Action::Expire(t) => Some(t) == first && self.expires_at_once(t),
            _ => true,
        });
        actions
    }

    fn expires_at_once(&self, t: T) -> bool {
        let priority = self.w.effective(self.threads[t as usize].0);
        let running = self.w.current().map(|running| self.w.effective(running));
        running <= Some(priority)
    }

    /// Whose wait times out next.
    fn first_deadline(&self) -> Option<T> {
        let waits = self.threads.iter().filter(|&&(t, id)| {
            self.w.k.threads.lookup(id) == Some(t) && self.w.k.threads[t].timer.is_armed()
        });
        waits
            .min_by_key(|&&(t, _)| self.w.k.threads[t].deadline)
            .map(|&(t, _)| self.number(t))
    }

    /// The next blocking operation of the current thread has a deadline that is later than all others.
    fn set_deadline(&mut self) {
        let t = self.w.current().expect("somebody");
        self.next_deadline = self.next_deadline.max(self.w.k.arch.time) + 1000;
        self.w.ok(t, 0, current::DEADLINE, &[self.next_deadline]);
    }

    fn control(&mut self, t: T, operation: u8) {
        self.w.recall();
        let dom = self.doms[THREADS[t as usize].1 as usize];
        let words = [self.threads[t as usize].1 as u64, operation as u64];
        let init = self.w.init;
        self.w.ok(init, dom.slot, domain::THREAD_CONTROL, &words);
        self.w.rest();
    }

    fn perform(&mut self, action: Action) {
        let dom = |t: T| THREADS[t as usize].1 as usize;
        let flags = flag::INTERRUPTIBLE;
        let player = |this: &Replay, t: T| this.threads[t as usize].0;
        match action {
            Action::Call(t, c) => {
                let slot = self.channels[c as usize].call[dom(t)];
                let words = [t as u64, c as u64, 3, 4, 5, 6, 7, 8];
                self.w.go(player(self, t), slot, 0, flags, &words);
            }
            Action::Notify(t, c) => {
                let slot = self.channels[c as usize].call[dom(t)];
                self.w.go(player(self, t), slot, 1, 0, &[1]);
            }
            Action::Receive(t, c, wait) => {
                let slot = self.channels[c as usize].receive[dom(t)];
                let poll = if wait == Wait::Poll { flag::POLL } else { 0 };
                let r = player(self, t);
                self.w.go(r, slot, receive::RECEIVE, flags | poll, &[]);
            }
            Action::Reply(t, c, caller, sequence) => {
                self.answer(receive::REPLY, t, c, self.token(caller, sequence))
            }
            Action::ReplyReceive(t, c, caller, sequence) => {
                self.answer(receive::REPLY_RECEIVE, t, c, self.token(caller, sequence))
            }
            Action::Poke(t) => self.control(t, thread::POKE),
            Action::Kill(t) => self.control(t, thread::KILL),
            Action::Expire(t) => {
                let at = self.w.k.threads[player(self, t)].deadline;
                let now = self.w.k.arch.time;
                self.w.pass_time(at.saturating_sub(now));
            }
            Action::DomainDies(d) => {
                self.w.recall();
                self.w.destroy(self.doms[d as usize]);
                self.w.rest();
            }
            Action::Close(c) => self.close(c as usize),
        }
    }

    fn answer(&mut self, operation: u8, t: T, c: C, token: u64) {
        let slot = self.channels[c as usize].receive[THREADS[t as usize].1 as usize];
        let r = self.threads[t as usize].0;
        self.w.k.threads[r].registers.rbp = token;
        self.w
            .go(r, slot, operation, flag::INTERRUPTIBLE, &[t as u64; 8]);
    }

    fn close(&mut self, c: usize) {
        self.w.recall();
        let init = self.w.init;
        for d in 0..self.doms.len() {
            if !self.w.k.domains[self.doms[d].d].dead {
                let words = [self.channels[c].receive[d] as u64];
                let slot = self.doms[d].slot;
                self.w.ok(init, slot, domain::PORTAL_REMOVE, &words);
            }
        }
        self.w.close_own(self.channels[c].own);
        self.w.rest();
    }

    /// Did the threads hear what the model says?
    fn check_told(&self, told: &[(T, Outcome)]) {
        let mut last = BTreeMap::new();
        for &(t, outcome) in told {
            last.insert(t, outcome);
        }
        for (t, outcome) in last {
            let (r, id) = self.threads[t as usize];
            if self.w.k.threads.lookup(id) != Some(r) || self.w.state(r) == State::Dead {
                continue;
            }
            let registers = &self.w.k.threads[r].registers;
            let error = Error::from_code(registers.rax as u8);
            let kind = (registers.rax >> received::KIND_SHIFT) as u8;
            match outcome {
                Outcome::Replied | Outcome::Done => assert_eq!(error, None),
                Outcome::Message(caller, sequence) => {
                    assert_eq!((error, kind), (None, received::kind::MESSAGE));
                    assert_eq!(registers.rbp, self.token(caller, sequence));
                    assert_eq!(registers.rdi, caller as u64);
                    assert_eq!(registers.rbx, 100 + registers.rsi);
                }
                Outcome::Pulse(source) => {
                    assert_eq!((error, kind), (None, received::kind::PULSE));
                    let told = if source == NOTE {
                        registers.rdi == pulse::NOTIFY
                    } else {
                        let caller = registers.rsi as u32;
                        matches!(registers.rdi, pulse::GONE | pulse::UNBLOCK)
                            && caller == self.threads[source as usize].1
                    };
                    assert!(told, "thread {t} got another pulse than that of {source}");
                }
                Outcome::Dead => assert_eq!(error, Some(Error::Dead)),
                Outcome::Cycle => assert_eq!(error, Some(Error::Cycle)),
                Outcome::BadToken => assert_eq!(error, Some(Error::BadToken)),
                Outcome::TimedOut => assert_eq!(error, Some(Error::TimedOut)),
                Outcome::Interrupted => assert_eq!(error, Some(Error::Interrupted)),
            }
        }
    }

    /// One step: which of the kinds of actions, which of that kind, and whether a deadline is set before it.
    fn play(&mut self, kind: u8, which: u16, deadline: bool) {
        let actions = self.possible();
        let wanted = |action: &Action| match action {
            Action::Call(..) => kind < 60,
            Action::Receive(..) => (60..110).contains(&kind),
            Action::Reply(..) => (110..130).contains(&kind),
            Action::ReplyReceive(..) => (130..190).contains(&kind),
            Action::Notify(..) => (190..205).contains(&kind),
            Action::Poke(..) => (205..222).contains(&kind),
            Action::Expire(..) => (222..238).contains(&kind),
            Action::Kill(..) => (238..241).contains(&kind),
            Action::DomainDies(..) => kind == 241,
            Action::Close(..) => kind == 242,
        };
        let of_kind: Vec<Action> = actions.into_iter().filter(wanted).collect();
        let before = self.model;
        let mut together = false;
        if kind > 242 {
            self.stop_or_continue(which as usize % THREADS.len());
        } else if !of_kind.is_empty() {
            let action = of_kind[which as usize % of_kind.len()];
            self.step(action, deadline);
            together = matches!(
                action,
                Action::Kill(_) | Action::DomainDies(_) | Action::Close(_)
            );
        }
        let real = self.abstraction();
        if together {
            self.adopt_order(&before, &real);
        }
        assert_eq!(real, by_priority(self.model), "the nucleus, and the model");
    }

    /// Where several callers are let go at once, their servers fall back at once, in an order that is not laid down. So it is not laid down how these
    /// queue then, nor, where one caller waited for another, what priority either had when it was let go.
    fn adopt_order(&mut self, before: &Modelled, real: &Modelled) {
        for (known, found) in self.model.channels.iter_mut().zip(&real.channels) {
            let sorted = |queue: &Queue| {
                let mut senders = queue.as_slice().to_vec();
                senders.sort_unstable();
                senders
            };
            if sorted(&known.senders) == sorted(&found.senders) {
                known.senders = found.senders;
            }
        }
        for t in 0..THREADS.len() as T {
            let Some(client) = before[t].client.filter(|_| self.model[t].client.is_none()) else {
                continue;
            };
            let least = self.setup.behalf(t, real[client].effective);
            let most = self.setup.behalf(t, before[client].effective);
            if (least..=most).contains(&real[t].behalf) {
                self.model[t].behalf = real[t].behalf;
            }
        }
        for t in 0..THREADS.len() as T {
            self.model[t].effective = real[t].effective;
        }
        assert_eq!(
            self.setup.check(&self.model),
            Ok(()),
            "priorities of {real:?}"
        );
    }

    fn step(&mut self, action: Action, deadline: bool) {
        let waits = matches!(
            action,
            Action::Call(..) | Action::Receive(..) | Action::ReplyReceive(..)
        );
        if deadline && waits {
            self.set_deadline();
        }
        let (next, told) = self.setup.perform(&self.model, action);
        let rules = self.setup.check_step(&self.model, action, &next, &told);
        assert_eq!(rules, Ok(()), "{action:?}");
        assert_eq!(self.setup.check(&next), Ok(()), "{action:?}");
        self.model = next;
        self.perform(action);
        self.check_told(&told);
        if let Action::Kill(t) = action {
            // A domain dies with its last thread; somebody takes it apart then.
            let d = THREADS[t as usize].1;
            let alive = |t: T| self.model[t].place != Place::Dead;
            if !(0..THREADS.len() as T).any(|t| THREADS[t as usize].1 == d && alive(t)) {
                self.step(Action::DomainDies(d), false);
            }
        }
    }

    /// Whether a thread is stopped makes no difference to anybody but itself.
    fn stop_or_continue(&mut self, t: usize) {
        if self.model[t as T].place == Place::Dead {
            return;
        }
        let operation = if self.stopped[t] {
            thread::CONTINUE
        } else {
            thread::STOP
        };
        self.stopped[t] = !self.stopped[t];
        self.control(t as T, operation);
    }
}

/// A channel from which all domains may receive, and which all may call.
fn ends(w: &mut World, doms: &[Dom], c: usize) -> Ends {
    let init = w.init;
    let all = rights::ALL as u64;
    let own = w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
    let words = [100 + c as u64, rights::DEFAULT as u64, AUTO];
    let made = w.ok(init, own as u32, receive::MAKE_PORTAL, &words)[0];
    let mut put = |slot: u64| -> Vec<u32> {
        doms.iter()
            .map(|dom| w.ok(init, dom.slot, domain::PORTAL_PUT, &[slot, AUTO, all])[0] as u32)
            .collect()
    };
    let (receive, call) = (put(own), put(made));
    let table = &w.k.domains[w.k.threads[init].domain].table;
    let target = |slot: u64| table.target(slot).expect("made");
    let c = w.k.channels.of(target(own));
    Ends {
        own: own as u32,
        c,
        id: w.k.channels.id(c),
        portal: w.k.portals.of(target(made)),
        receive,
        call,
    }
}

/// Senders as the nucleus keeps them: the important ones first.
fn by_priority(mut state: Modelled) -> Modelled {
    for c in 0..CHANNELS {
        let mut senders = state.channels[c].senders.as_slice().to_vec();
        senders.sort_by_key(|&t| core::cmp::Reverse(state[t].effective));
        let mut sorted = Queue::default();
        for t in senders {
            sorted.push(t);
        }
        state.channels[c].senders = sorted;
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_operations_end_where_the_model_does(
        steps in prop::collection::vec((any::<u8>(), any::<u16>(), any::<bool>()), 1..150),
        short_way: bool,
    ) {
        let mut replay = Replay::new();
        replay.w.k.short_way = short_way;
        for (kind, which, deadline) in steps {
            replay.play(kind, which, deadline);
        }
    }
}

/// Two of the callers that a closed channel lets go wait for one another, by way of two other channels.
#[test]
fn callers_that_wait_for_one_another_are_let_go() {
    let mut replay = Replay::new();
    let receive = |t, c| Action::Receive(t, c, Wait::Block);
    for action in [
        receive(5, 0),
        Action::Call(4, 0),
        receive(5, 0),
        Action::Call(3, 1),
        receive(2, 2),
        Action::ReplyReceive(0, 0, 4, 1),
        Action::Call(4, 0),
        Action::Call(0, 2),
        Action::Call(2, 1),
        receive(1, 1),
        Action::Call(1, 0),
    ] {
        assert!(replay.possible().contains(&action), "{action:?}");
        replay.step(action, false);
    }
    replay.play(242, 0, false);
}
