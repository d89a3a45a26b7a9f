//! The model of messages: who waits for whom, at which priority, and what death does to it.
//!
//! Any thread that can run may act at any time: which of them does is the dispatcher's business and that of several processors. What happens from outside is
//! there as well: a wait times out, is interrupted, its thread is killed, a domain dies, the last receive right of a channel is closed. Servers are hostile: they answer with
//! every token that there ever was. Tokens are numbers of deliveries, and a thread's calls are bounded by [`Setup::calls`], which makes the number of states finite.

mod rules;

use crate::explore::Model;

/// Most threads and channels of a setup.
pub const THREADS: usize = 6;
pub const CHANNELS: usize = 3;

/// What a thread has that works for itself or for a caller.
pub const OWN: u8 = u8::MAX;

/// A thread, a channel, a domain by number.
pub type T = u8;
pub type C = u8;
pub type D = u8;

/// A short list, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    items: [u8; THREADS + 2],
    len: u8,
}

impl Queue {
    pub fn as_slice(&self) -> &[u8] {
        &self.items[..self.len as usize]
    }

    pub fn first(&self) -> Option<u8> {
        self.as_slice().first().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, item: u8) -> bool {
        self.as_slice().contains(&item)
    }

    pub fn push(&mut self, item: u8) {
        self.items[self.len as usize] = item;
        self.len += 1;
    }

    pub fn push_front(&mut self, item: u8) {
        self.items.copy_within(..self.len as usize, 1);
        self.items[0] = item;
        self.len += 1;
    }

    pub fn remove(&mut self, item: u8) {
        if let Some(at) = self.as_slice().iter().position(|&i| i == item) {
            self.items.copy_within(at + 1..self.len as usize, at);
            self.len -= 1;
            // What lies behind the end must not make equal lists different.
            self.items[self.len as usize] = 0;
        }
    }
}

/// The source of a pulse that is not a thread: NOTIFY through the channel's one portal.
pub const NOTE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Runs or could run.
    Able,
    Sending(C),
    /// Received, and worked for by this thread if it was not put off.
    Held(C, Option<T>),
    Receiving(C),
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    pub place: Place,
    pub effective: u8,
    /// The priority of its caller that has gone, or of whose interruption or end it was told; [`OWN`] from its next receive on.
    pub behalf: u8,
    /// Whom it works for, and the channel where it received last.
    pub client: Option<T>,
    pub serving: Option<C>,
    /// How many of its messages were delivered: the present token.
    pub token: u16,
    /// Poked, and not told yet.
    pub poked: bool,
    /// What its waiting pulse says: the token, and that the caller is gone (else: interrupted).
    pub notice: Option<(u16, bool)>,
    /// The priority at which that waits, 0 if it does not.
    pub cause: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    pub open: bool,
    /// In the order of their coming to their present priority.
    pub senders: Queue,
    /// Who came last is first.
    pub receivers: Queue,
    /// Thread numbers and [`NOTE`].
    pub pulses: Queue,
    /// NOTIFY gathered something that nobody received.
    pub noted: bool,
    /// The most important pulse since none waited ([`OWN`]: a NOTIFY), 0 if none waits.
    pub cause: u8,
    pub server: Option<T>,
    pub home: Option<D>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub threads: [Thread; THREADS],
    pub channels: [Channel; CHANNELS],
}

/// One step of the thread named first, or an event from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Call(T, C),
    Notify(T, C),
    Receive(T, C, Wait),
    /// Answer the caller with this number by a token of its.
    Reply(T, C, T, u16),
    ReplyReceive(T, C, T, u16),
    Poke(T),
    /// The deadline of its wait has come.
    Expire(T),
    Kill(T),
    DomainDies(D),
    /// The last receive right is closed.
    Close(C),
}

/// Whether a receive waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Block,
    Poll,
}

/// How an operation that may wait ended, for the thread that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Replied,
    /// A receive got the message of this caller, with this token.
    Message(T, u16),
    Pulse(u8),
    Done,
    Dead,
    Cycle,
    BadToken,
    TimedOut,
    Interrupted,
}

/// What a step told whom.
pub type Told = Vec<(T, Outcome)>;

/// Mistakes that can be put in, to see whether they would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Who queues at a busy server does not lift it.
    QueueLiftsNobody,
    /// A change of priority ends at the first server.
    LiftEndsAtFirst,
    /// A caller that goes leaves its priority behind.
    DepartureKeepsPriority,
    /// The server keeps a client's priority after its answer.
    ReplyKeepsPriority,
    /// Whoever came first is received first.
    FirstComeFirstReceived,
    /// Who is told of a caller works at its own priority, whoever that was.
    PulseAtOwnPriority,
    /// A server goes on at its own priority for a caller that has gone.
    GoneAtOwnPriority,
    AnsweredAtOwnPriority,
    /// What a server did for others lowers it for ever.
    BehalfStays,
    CyclesAllowed,
    /// A delivery does not make a new token.
    TokensRepeat,
    /// A token is good at every channel.
    TokenOfOtherChannel,
    /// A pulse is queued although a receiver waits.
    PulseWakesNobody,
    /// NOTIFY does not queue the pulse a second time.
    SecondNoteLost,
    /// A server does not hear of a caller that is gone.
    GoneNotTold,
    /// An interruption that was answered is still told.
    AnswerLeavesNotice,
    /// Who was worked for by a dead thread stays with it.
    DeadServerKeepsClient,
    /// A dead thread stays the channel's server.
    DeadServerKeepsChannel,
    /// The end of a server's domain does not let go whom it held.
    DeadDomainKeepsHeld,
    /// The end of a channel forgets who queues there.
    CloseForgetsSenders,
    CloseForgetsHeld,
}

impl Fault {
    pub const ALL: [Fault; 21] = [
        Fault::QueueLiftsNobody,
        Fault::LiftEndsAtFirst,
        Fault::DepartureKeepsPriority,
        Fault::ReplyKeepsPriority,
        Fault::FirstComeFirstReceived,
        Fault::PulseAtOwnPriority,
        Fault::GoneAtOwnPriority,
        Fault::AnsweredAtOwnPriority,
        Fault::BehalfStays,
        Fault::CyclesAllowed,
        Fault::TokensRepeat,
        Fault::TokenOfOtherChannel,
        Fault::PulseWakesNobody,
        Fault::SecondNoteLost,
        Fault::GoneNotTold,
        Fault::AnswerLeavesNotice,
        Fault::DeadServerKeepsClient,
        Fault::DeadServerKeepsChannel,
        Fault::DeadDomainKeepsHeld,
        Fault::CloseForgetsSenders,
        Fault::CloseForgetsHeld,
    ];
}

/// What a run consists of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Priority and domain of each thread.
    pub threads: Vec<(u8, D)>,
    pub channels: usize,
    /// Domains that may receive from each channel; all may call all.
    pub receivers: Vec<Vec<D>>,
    /// Most deliveries of one thread's messages.
    pub calls: u16,
    /// Whether pokes and the events of [`Action::Expire`] happen.
    pub interruptions: bool,
    pub fault: Option<Fault>,
}

impl Setup {
    fn base(&self, t: T) -> u8 {
        self.threads[t as usize].0
    }

    /// What `t` has when it works on behalf of somebody of this priority: nothing tells what is not less than its own from that.
    pub fn behalf(&self, t: T, cause: u8) -> u8 {
        if cause < self.base(t) {
            cause
        } else {
            OWN
        }
    }

    fn domain(&self, t: T) -> D {
        self.threads[t as usize].1
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn numbers(&self) -> std::ops::Range<T> {
        0..self.threads.len() as T
    }

    /// Everybody can run, nobody has done anything.
    pub fn beginning(&self) -> State {
        let mut state = State {
            threads: [Thread {
                place: Place::Dead,
                effective: 0,
                behalf: OWN,
                client: None,
                serving: None,
                token: 0,
                poked: false,
                notice: None,
                cause: 0,
            }; THREADS],
            channels: [Channel {
                open: false,
                senders: Queue::default(),
                receivers: Queue::default(),
                pulses: Queue::default(),
                noted: false,
                cause: 0,
                server: None,
                home: None,
            }; CHANNELS],
        };
        for t in self.numbers() {
            state[t].place = Place::Able;
            state[t].effective = self.base(t);
        }
        for (channel, receivers) in state.channels.iter_mut().zip(&self.receivers) {
            channel.open = true;
            channel.home = receivers.last().copied();
        }
        state
    }

    /// The next state and what was told to whom.
    pub fn perform(&self, state: &State, action: Action) -> (State, Told) {
        let mut play = Play {
            setup: self,
            s: *state,
            told: Vec::new(),
        };
        play.perform(action);
        (play.s, play.told)
    }
}

impl std::ops::Index<T> for State {
    type Output = Thread;
    fn index(&self, t: T) -> &Thread {
        &self.threads[t as usize]
    }
}

impl std::ops::IndexMut<T> for State {
    fn index_mut(&mut self, t: T) -> &mut Thread {
        &mut self.threads[t as usize]
    }
}

/// One step on its way.
struct Play<'a> {
    setup: &'a Setup,
    s: State,
    told: Told,
}

impl Play<'_> {
    fn channel(&mut self, c: C) -> &mut Channel {
        &mut self.s.channels[c as usize]
    }

    fn has(&self, fault: Fault) -> bool {
        self.setup.has(fault)
    }

    fn tell(&mut self, t: T, outcome: Outcome) {
        self.told.push((t, outcome));
    }

    /// A wait is over.
    fn finish(&mut self, t: T, outcome: Outcome) {
        self.s[t].place = Place::Able;
        self.tell(t, outcome);
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Call(t, c) => self.call(t, c),
            Action::Notify(t, c) => self.notify(t, c),
            Action::Receive(t, c, wait) => self.receive(t, c, wait),
            Action::Reply(t, c, caller, token) => {
                if self.reply(t, c, caller, token) {
                    self.tell(t, Outcome::Done);
                }
            }
            Action::ReplyReceive(t, c, caller, token) => {
                if self.reply(t, c, caller, token) {
                    self.receive(t, c, Wait::Block);
                }
            }
            Action::Poke(t) => self.poke(t),
            Action::Expire(t) => self.expire(t),
            Action::Kill(t) => self.kill(t),
            Action::DomainDies(d) => self.domain_dies(d),
            Action::Close(c) => self.close(c),
        }
    }

    // Priority.

    /// What its circumstances give it.
    fn deserved(&mut self, t: T) -> u8 {
        let base = self.setup.base(t);
        let thread = self.s[t];
        let mut priority = match thread.client {
            Some(client) => self.s[client].effective,
            None => base.min(thread.behalf),
        };
        if let Some(c) = thread.serving {
            let channel = *self.channel(c);
            priority = priority.max(base.min(channel.cause));
            for &sender in channel.senders.as_slice() {
                priority = priority.max(self.s[sender].effective);
            }
        }
        priority
    }

    /// Its circumstances changed: so do those of whom it waits for.
    fn refresh(&mut self, t: T) {
        let mut t = t;
        for step in 0.. {
            let priority = self.deserved(t);
            if priority == self.s[t].effective || step > 0 && self.has(Fault::LiftEndsAtFirst) {
                return;
            }
            self.s[t].effective = priority;
            let next = match self.s[t].place {
                Place::Sending(c) => {
                    let channel = self.channel(c);
                    channel.senders.remove(t);
                    channel.senders.push(t);
                    channel.server
                }
                Place::Held(_, server) => server,
                _ => None,
            };
            match next {
                Some(server) => t = server,
                None => return,
            }
        }
    }

    fn refresh_server(&mut self, c: C) {
        if let Some(server) = self.channel(c).server {
            self.refresh(server);
        }
    }

    // Messages.

    fn poked(&mut self, t: T) -> bool {
        std::mem::take(&mut self.s[t].poked)
    }

    fn call(&mut self, t: T, c: C) {
        if !self.channel(c).open {
            return self.tell(t, Outcome::Dead);
        }
        if self.poked(t) {
            return self.tell(t, Outcome::Interrupted);
        }
        if let Some(r) = self.channel(c).receivers.first() {
            self.channel(c).receivers.remove(r);
            self.s[r].place = Place::Able;
            self.serve(r, c);
            self.deliver(t, r, c);
            return;
        }
        if self.closes_cycle(t, c) && !self.has(Fault::CyclesAllowed) {
            return self.tell(t, Outcome::Cycle);
        }
        self.s[t].place = Place::Sending(c);
        self.channel(c).senders.push(t);
        if !self.has(Fault::QueueLiftsNobody) {
            self.refresh_server(c);
        }
    }

    /// Sender `t`, out of the queue, is worked for by `r` from now on.
    fn deliver(&mut self, t: T, r: T, c: C) {
        if !self.has(Fault::TokensRepeat) {
            self.s[t].token += 1;
        }
        self.s[t].place = Place::Held(c, Some(r));
        self.s[r].client = Some(t);
        self.refresh(r);
        let token = self.s[t].token;
        self.tell(r, Outcome::Message(t, token));
    }

    fn closes_cycle(&mut self, t: T, c: C) -> bool {
        let mut server = self.channel(c).server;
        for _ in 0..=THREADS {
            let Some(s) = server else {
                return false;
            };
            if s == t {
                return true;
            }
            server = match self.s[s].place {
                Place::Held(c, works) => works.or(self.channel(c).server),
                Place::Sending(c) => self.channel(c).server,
                _ => None,
            };
        }
        false
    }

    /// `t` is the one who receives from `c` now.
    fn serve(&mut self, t: T, c: C) {
        if self.s[t].serving == Some(c) {
            return;
        }
        if let Some(old) = self.s[t].serving.take() {
            self.channel(old).server = None;
        }
        if let Some(other) = self.channel(c).server.replace(t) {
            self.s[other].serving = None;
            self.refresh(other);
        }
        self.s[t].serving = Some(c);
        self.channel(c).home = Some(self.setup.domain(t));
    }

    /// `t` puts off the caller that it works for.
    fn put_off(&mut self, t: T) {
        if let Some(client) = self.s[t].client.take() {
            if let Place::Held(c, _) = self.s[client].place {
                self.s[client].place = Place::Held(c, None);
            }
        }
    }

    fn receive(&mut self, t: T, c: C, wait: Wait) {
        if !self.channel(c).open {
            return self.tell(t, Outcome::Dead);
        }
        self.put_off(t);
        self.serve(t, c);
        if !self.has(Fault::BehalfStays) {
            self.s[t].behalf = OWN;
        }
        if let Some(source) = self.channel(c).pulses.first() {
            self.take_pulse(t, c, source);
            self.refresh(t);
            return;
        }
        if let Some(sender) = self.next_sender(c) {
            self.channel(c).senders.remove(sender);
            self.deliver(sender, t, c);
            self.refresh(t);
            return;
        }
        self.refresh(t);
        if wait == Wait::Poll {
            return self.tell(t, Outcome::TimedOut);
        }
        if self.poked(t) {
            return self.tell(t, Outcome::Interrupted);
        }
        self.s[t].place = Place::Receiving(c);
        self.channel(c).receivers.push_front(t);
    }

    /// Of the most important senders the one who came first.
    fn next_sender(&mut self, c: C) -> Option<T> {
        let senders = self.channel(c).senders;
        if self.has(Fault::FirstComeFirstReceived) {
            return senders.first();
        }
        let mut best: Option<T> = None;
        for &t in senders.as_slice() {
            if best.is_none_or(|b| self.s[b].effective < self.s[t].effective) {
                best = Some(t);
            }
        }
        best
    }

    /// False: the token is not good.
    fn reply(&mut self, t: T, c: C, caller: T, token: u16) -> bool {
        if !self.channel(c).open {
            self.tell(t, Outcome::Dead);
            return false;
        }
        let held = match self.s[caller].place {
            Place::Held(at, server) if at == c || self.has(Fault::TokenOfOtherChannel) => {
                Some((at, server))
            }
            _ => None,
        };
        let Some((at, server)) = held.filter(|_| self.s[caller].token == token) else {
            self.tell(t, Outcome::BadToken);
            return false;
        };
        self.finish(caller, Outcome::Replied);
        if let Some(server) = server {
            self.s[server].client = None;
            if !self.has(Fault::AnsweredAtOwnPriority) {
                self.s[server].behalf = self.setup.behalf(server, self.s[caller].effective);
            }
            if !self.has(Fault::ReplyKeepsPriority) {
                self.refresh(server);
            }
        }
        if !self.has(Fault::AnswerLeavesNotice) {
            self.withdraw_interruption(caller, at);
        }
        true
    }

    // Pulses.

    fn notify(&mut self, t: T, c: C) {
        if !self.channel(c).open {
            return self.tell(t, Outcome::Dead);
        }
        self.tell(t, Outcome::Done);
        let lost = self.channel(c).noted && self.has(Fault::SecondNoteLost);
        self.channel(c).noted = true;
        if lost {
            // It is thought to be queued, but somebody took it out.
            self.channel(c).pulses.remove(NOTE);
        } else if !self.channel(c).pulses.contains(NOTE) {
            self.post(c, NOTE, OWN);
        }
    }

    /// The source has something to say, which is for somebody of this priority.
    fn post(&mut self, c: C, source: u8, cause: u8) {
        let waiting = self.channel(c).receivers.first();
        if let (Some(r), false) = (waiting, self.has(Fault::PulseWakesNobody)) {
            self.channel(c).receivers.remove(r);
            self.s[r].place = Place::Able;
            self.say(r, c, source, cause);
            self.refresh(r);
        } else {
            let channel = self.channel(c);
            channel.pulses.push(source);
            channel.cause = channel.cause.max(cause);
            if source != NOTE {
                self.s[source].cause = cause;
            }
            self.refresh_server(c);
        }
    }

    fn say(&mut self, r: T, c: C, source: u8, cause: u8) {
        if source == NOTE {
            self.channel(c).noted = false;
        } else {
            self.s[source].notice = None;
        }
        if !self.has(Fault::PulseAtOwnPriority) {
            self.s[r].behalf = self.setup.behalf(r, cause);
        }
        self.tell(r, Outcome::Pulse(source));
    }

    fn take_pulse(&mut self, r: T, c: C, source: u8) {
        let cause = match source {
            NOTE => OWN,
            t => self.s[t].cause,
        };
        self.unqueue(c, source);
        self.say(r, c, source, cause);
    }

    fn unqueue(&mut self, c: C, source: u8) {
        if source != NOTE {
            self.s[source].cause = 0;
        }
        let channel = self.channel(c);
        channel.pulses.remove(source);
        if channel.pulses.is_empty() {
            channel.cause = 0;
        }
    }

    /// What the channel was to be told of this caller is not to be told.
    fn withdraw(&mut self, t: T, c: C) {
        if self.s[t].notice.take().is_some() {
            self.unqueue(c, t);
            self.refresh_server(c);
        }
    }

    /// The call is over: that it was interrupted is of no interest any more.
    fn withdraw_interruption(&mut self, t: T, c: C) {
        if matches!(self.s[t].notice, Some((_, false))) {
            self.withdraw(t, c);
        }
    }

    /// A notice of an earlier call that nobody has read may wait at another channel; the newer one takes its place.
    fn tell_of_caller(&mut self, t: T, c: C, gone: bool) {
        for other in 0..self.setup.channels as C {
            if self.channel(other).pulses.contains(t) {
                self.withdraw(t, other);
            }
        }
        if self.channel(c).open {
            self.s[t].notice = Some((self.s[t].token, gone));
            self.post(c, t, self.s[t].effective);
        }
    }

    // Ends.

    /// Out of whatever it waits in.
    fn detach(&mut self, t: T) {
        let place = self.s[t].place;
        self.s[t].place = Place::Able;
        let keeps = self.has(Fault::DepartureKeepsPriority);
        match place {
            Place::Sending(c) => {
                self.channel(c).senders.remove(t);
                if !keeps {
                    self.refresh_server(c);
                }
            }
            Place::Held(_, Some(server)) => {
                self.s[server].client = None;
                if !self.has(Fault::GoneAtOwnPriority) {
                    self.s[server].behalf = self.setup.behalf(server, self.s[t].effective);
                }
                if !keeps {
                    self.refresh(server);
                }
            }
            Place::Receiving(c) => self.channel(c).receivers.remove(t),
            _ => {}
        }
    }

    fn poke(&mut self, t: T) {
        match self.s[t].place {
            Place::Able => self.s[t].poked = true,
            Place::Held(c, _) => {
                self.s[t].poked = true;
                self.tell_of_caller(t, c, false);
            }
            Place::Sending(_) | Place::Receiving(_) => {
                self.s[t].poked = false;
                self.detach(t);
                self.tell(t, Outcome::Interrupted);
            }
            Place::Dead => {}
        }
    }

    fn expire(&mut self, t: T) {
        let place = self.s[t].place;
        self.detach(t);
        if let (Place::Held(c, _), false) = (place, self.has(Fault::GoneNotTold)) {
            self.tell_of_caller(t, c, true);
        }
        self.tell(t, Outcome::TimedOut);
    }

    fn kill(&mut self, t: T) {
        let place = self.s[t].place;
        if place == Place::Dead {
            return;
        }
        self.detach(t);
        if let (Place::Held(c, _), false) = (place, self.has(Fault::GoneNotTold)) {
            self.tell_of_caller(t, c, true);
        }
        if !self.has(Fault::DeadServerKeepsClient) {
            self.put_off(t);
        }
        if !self.has(Fault::DeadServerKeepsChannel) {
            self.leave_channel(t);
        }
        self.s[t].place = Place::Dead;
        self.s[t].poked = false;
        self.s[t].effective = 0;
        self.s[t].behalf = OWN;
    }

    fn leave_channel(&mut self, t: T) {
        if let Some(c) = self.s[t].serving.take() {
            self.channel(c).server = None;
        }
    }

    fn domain_dies(&mut self, d: D) {
        // The newest thread first.
        for t in self.setup.numbers().rev() {
            if self.setup.domain(t) == d {
                self.kill(t);
            }
        }
        for c in 0..self.setup.channels as C {
            if self.channel(c).open && self.channel(c).home == Some(d) {
                if !self.has(Fault::DeadDomainKeepsHeld) {
                    self.let_held_go(c);
                }
                self.channel(c).home = None;
            }
        }
    }

    fn let_held_go(&mut self, c: C) {
        for t in self.setup.numbers() {
            if matches!(self.s[t].place, Place::Held(at, _) if at == c) {
                self.detach(t);
                self.tell(t, Outcome::Dead);
                self.withdraw_interruption(t, c);
            }
        }
    }

    fn close(&mut self, c: C) {
        self.channel(c).open = false;
        while let Some(t) = self.channel(c).receivers.first() {
            self.detach(t);
            self.tell(t, Outcome::Dead);
        }
        while let (Some(t), false) = (self.next_sender(c), self.has(Fault::CloseForgetsSenders)) {
            self.detach(t);
            self.tell(t, Outcome::Dead);
        }
        if !self.has(Fault::CloseForgetsHeld) {
            self.let_held_go(c);
        }
        while let Some(source) = self.channel(c).pulses.first() {
            self.unqueue(c, source);
            if source == NOTE {
                self.channel(c).noted = false;
            } else {
                self.s[source].notice = None;
            }
        }
        if let Some(server) = self.channel(c).server {
            self.put_off(server);
            self.leave_channel(server);
            self.refresh(server);
        }
        self.channel(c).home = None;
    }
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        self.beginning()
    }

    fn actions(&self, s: &State, into: &mut Vec<Action>) {
        let channels = 0..self.channels as C;
        for t in self.numbers() {
            let place = s[t].place;
            if place == Place::Dead {
                continue;
            }
            into.push(Action::Kill(t));
            if self.interruptions && !s[t].poked {
                into.push(Action::Poke(t));
            }
            if place != Place::Able {
                if self.interruptions {
                    into.push(Action::Expire(t));
                }
                continue;
            }
            for c in channels.clone() {
                into.push(Action::Notify(t, c));
                if s[t].token < self.calls {
                    into.push(Action::Call(t, c));
                }
                if !self.receivers[c as usize].contains(&self.domain(t)) {
                    continue;
                }
                into.push(Action::Receive(t, c, Wait::Block));
                into.push(Action::Receive(t, c, Wait::Poll));
                for caller in self.numbers().filter(|&caller| caller != t) {
                    for token in 1..=s[caller].token {
                        into.push(Action::Reply(t, c, caller, token));
                        into.push(Action::ReplyReceive(t, c, caller, token));
                    }
                }
            }
        }
        for c in channels {
            if s.channels[c as usize].open {
                into.push(Action::Close(c));
            }
        }
        let mut domains: Vec<D> = self.threads.iter().map(|&(_, d)| d).collect();
        domains.dedup();
        for d in domains {
            if self
                .numbers()
                .any(|t| self.domain(t) == d && s[t].place != Place::Dead)
            {
                into.push(Action::DomainDies(d));
            }
        }
    }

    fn step(&self, before: &State, action: Action) -> Result<State, String> {
        let (after, told) = self.perform(before, action);
        self.check_step(before, action, &after, &told)?;
        Ok(after)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.check_state(state)
    }
}
