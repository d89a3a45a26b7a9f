//! A scheduler outside the nucleus, for docs/services/schedulers.md: guaranteed shares for groups of threads, with critical members (`plan.rs`).
//!
//! OPEN (w1 share in per cent, w2 critical budget in ns of a window) makes a group and answers its number in w1; CLOSE (w1 group) ends one without members.
//! STANDING (w1 group) tells what it used (w1), has overdrawn in the window (w2), and how often it was bankrupt (w3). Whoever has a thread's portal calls JOIN
//! (w1 group, w2 priority, w3 1: critical; the portal passed), and gets a portal for that member's calls: YIELD lets its equals go first, LEAVE ends it.
#![no_std]
#![no_main]

extern crate alloc;

mod plan;

use cairn_abi::layout::native_slot;
use cairn_abi::received::kind;
use cairn_abi::service::{scheduler, thread};
use cairn_abi::{pulse, Error, Token};
use cairn_rt::scheduler::{let_go, Choice};
use cairn_rt::time::monotonic;
use cairn_rt::{Portal, Received, Receiver, Reply};
use plan::{Plan, Refused};

cairn_rt::entry!(main);

const JOIN: u64 = 1;
const YIELD: u64 = 2;
const LEAVE: u64 = 3;
const OPEN: u64 = 4;
const CLOSE: u64 = 5;
const STANDING: u64 = 6;
const BOUND: u64 = 1_000_000_000;

struct Member {
    id: u64,
    thread: Portal,
    /// Its YIELD, to be answered when it is chosen.
    call: Token,
    /// The processor time that its group was charged with.
    charged: u64,
}

/// A member's badge is its place in the plan plus one.
#[derive(Default)]
struct Scheduler {
    plan: Plan<Member>,
    chosen: Option<usize>,
}

impl Scheduler {
    /// Somebody outside brings a thread. The badge for its calls.
    fn join(&mut self, receiver: Receiver, message: &Received) -> Result<u64, Refused> {
        let [_, group, priority, critical, .., thread] = message.words;
        if message.portals != 1 || critical > 1 {
            return Err(Refused::Wrong);
        }
        let thread = Portal(thread as u32);
        let member = Member {
            id: 0,
            thread,
            call: 0,
            charged: thread.service(thread::INFO, &[]).map_or(0, |info| info[0]),
        };
        let place = self.plan.join(group, priority, critical == 1, member)?;
        let badge = place as u64 + 1;
        let joined = receiver.take_member(thread, badge, BOUND);
        if let (Ok(id), Some(member)) = (joined, self.plan.own(place)) {
            member.id = id;
            return Ok(badge);
        }
        self.plan.leave(place);
        Err(Refused::Wrong)
    }

    fn leave(&mut self, place: usize) {
        if let Some(member) = self.plan.leave(place) {
            member.thread.close();
        }
    }

    /// What a member has had of the processor since it was looked at last is its group's.
    fn charge(&mut self, place: usize, had: Option<u64>) {
        let Some(member) = self.plan.own(place) else {
            return;
        };
        let info = || Some(member.thread.service(thread::INFO, &[]).ok()?[0]);
        let had = had.or_else(info).unwrap_or(0).max(member.charged);
        let spent = had - core::mem::replace(&mut member.charged, had);
        self.plan.spend(place, spent);
    }

    fn told(&mut self, place: usize, [standing, id, had]: [u64; 3]) {
        let mut is = |place| self.plan.own(place).is_some_and(|member| member.id == id);
        // A thread that joined once more has news by its new place only.
        let before = self.chosen.filter(|&chosen| chosen != place && is(chosen));
        if is(place) {
            self.plan.set_ready(place, standing == scheduler::READY);
            if standing == scheduler::GONE {
                self.charge(place, Some(had));
                self.leave(place);
            }
        }
        if let Some(before) = before {
            self.leave(before);
        }
    }

    /// None: the call is answered later.
    fn call(
        &mut self,
        receiver: Receiver,
        message: &Received,
    ) -> Result<Option<Reply<'static>>, Refused> {
        let place = (message.badge as usize).wrapping_sub(1);
        let mut words = [0; 4];
        match (message.words[0], self.plan.own(place)) {
            (OPEN, _) => words[1] = self.plan.open(message.words[1], message.words[2])? as u64,
            (CLOSE, _) => self.plan.close(message.words[1])?,
            (STANDING, _) => {
                let standing = self.plan.standing(message.words[1])?;
                words = [0, standing.used, standing.overdrawn, standing.bankruptcies];
            }
            (JOIN, _) => return Ok(Some(Reply::result(0).mint(self.join(receiver, message)?))),
            (YIELD, Some(member)) => {
                let before = core::mem::replace(&mut member.call, message.token);
                if before != 0 {
                    // Another thread called for it.
                    let _ = receiver.reply(before, Reply::result(0));
                }
                self.plan.give_way(place);
                return Ok(None);
            }
            (LEAVE, Some(member)) => {
                let _ = let_go(member.thread);
                self.leave(place);
            }
            _ => return Err(Refused::Wrong),
        }
        Ok(Some(Reply::new(&words)))
    }

    fn handle(&mut self, receiver: Receiver, message: &Received) {
        let place = (message.badge as usize).wrapping_sub(1);
        let [code, w1, w2, w3, ..] = message.words;
        match (message.kind, code, self.plan.own(place)) {
            (kind::PULSE, pulse::MEMBER, _) => self.told(place, [w1, w2, w3]),
            // Its call is not to be answered any more.
            (kind::PULSE, pulse::GONE, Some(member)) if member.call == w1 => member.call = 0,
            (kind::MESSAGE, ..) => {
                let answer = self.call(receiver, message);
                if message.words[0] != JOIN || answer.is_err() {
                    for word in &message.words[8 - message.portals..] {
                        Portal(*word as u32).close();
                    }
                }
                if let Some(reply) = answer.unwrap_or_else(|why| Some(Reply::result(why.code()))) {
                    let _ = receiver.reply(message.token, reply);
                }
            }
            _ => {}
        }
    }

    /// Whom the plan names runs until something is received, or its slice is over.
    fn step(&mut self, receiver: Receiver) {
        let turn = self.plan.choose();
        let begun = monotonic();
        let mut choice = Choice::default();
        self.chosen = turn.map(|turn| turn.place);
        if let Some(member) = self.chosen.and_then(|place| self.plan.own(place)) {
            choice.member = member.id;
            choice.token = core::mem::take(&mut member.call);
        }
        choice.until = turn.map_or(0, |turn| begun + turn.length);
        let received = receiver.dispatch(&choice);
        match self.chosen {
            Some(place) => self.charge(place, None),
            None => self.plan.rest(monotonic() - begun),
        }
        match (received, self.chosen) {
            (Ok(message), _) => self.handle(receiver, &message),
            (Err(Error::BadArgument), Some(place)) => {
                // It has left: nobody waits for the answer here, but it may still.
                let _ = receiver.reply(choice.token, Reply::result(0));
                self.leave(place);
            }
            _ => {}
        }
    }
}

fn main() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let mut scheduler = Scheduler::default();
    loop {
        scheduler.step(receiver);
    }
}
