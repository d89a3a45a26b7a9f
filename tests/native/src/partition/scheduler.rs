//! A scheduler outside the nucleus: fixed priorities, turns among equals by YIELD, and semaphores that are portals to it. It is the example of
//! docs/services/schedulers.md.
//!
//! Whoever has a thread's portal calls JOIN (w1 priority, the thread's portal passed), and gets a portal for that member's calls: P and V of a semaphore (w1
//! its number), YIELD.
//! A call is answered when its turn has come: the answer, the choice and the wait for what comes next are one entry.
#![no_std]
#![no_main]

use cairn_abi::layout::native_slot;
use cairn_abi::received::kind;
use cairn_abi::service::scheduler;
use cairn_abi::{pulse, Token};
use cairn_rt::scheduler::Choice;
use cairn_rt::{Portal, Received, Receiver, Reply};

cairn_rt::entry!(main);

const JOIN: u64 = 1;
const P: u64 = 2;
const V: u64 = 3;
const YIELD: u64 = 4;
const INVALID: i64 = -22;
/// A scheduler that its members have not heard of for so long is taken for silent, in ns.
const BOUND: u64 = 1_000_000_000;
const MEMBERS: usize = 16;
const SEMAPHORES: usize = 8;

#[derive(Clone, Copy, Default)]
struct Member {
    /// 0: nobody.
    id: u64,
    priority: u64,
    /// What the nucleus told last.
    ready: bool,
    /// Its call, to be answered when it is chosen.
    call: Token,
    /// It waits for this semaphore.
    waits: Option<usize>,
    /// When it gave way last, or came: of equals the one goes first who did so first.
    since: u64,
}

#[derive(Default)]
struct Scheduler {
    /// A member's badge is its place here plus one.
    members: [Member; MEMBERS],
    counts: [u64; SEMAPHORES],
    now: u64,
}

impl Scheduler {
    /// The most important of those for whom this holds.
    fn first(&self, of: impl Fn(&Member) -> bool) -> Option<usize> {
        let found = (0..MEMBERS).filter(|&i| self.members[i].id != 0 && of(&self.members[i]));
        found.max_by_key(|&i| {
            let member = &self.members[i];
            (member.priority, core::cmp::Reverse(member.since))
        })
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Somebody outside brings a thread.
    fn join(&mut self, receiver: Receiver, message: &Received) -> Option<Reply<'static>> {
        let thread = Portal(message.words[7] as u32);
        let place = self.members.iter().position(|member| member.id == 0)?;
        let badge = place as u64 + 1;
        let joined = receiver.take_member(thread, badge, BOUND);
        thread.close();
        self.members[place] = Member {
            id: joined.ok()?,
            priority: message.words[1],
            since: self.tick(),
            ..Member::default()
        };
        Some(Reply::result(0).mint(badge))
    }

    /// A member calls. Some: the answer that it gets at once; None: it is answered when its turn comes.
    fn call(&mut self, place: usize, token: Token, [operation, which]: [u64; 2]) -> Option<i64> {
        let which = which as usize;
        let semaphore = which < SEMAPHORES;
        match operation {
            P if semaphore && self.counts[which] == 0 => self.members[place].waits = Some(which),
            P if semaphore => self.counts[which] -= 1,
            V if semaphore => match self.first(|member| member.waits == Some(which)) {
                Some(next) => self.members[next].waits = None,
                None => self.counts[which] += 1,
            },
            YIELD => self.members[place].since = self.tick(),
            _ => return Some(INVALID),
        }
        self.members[place].call = token;
        None
    }

    fn told(&mut self, place: usize, standing: u64) {
        let member = &mut self.members[place];
        member.ready = standing == scheduler::READY;
        if standing == scheduler::GONE {
            *member = Member::default();
        }
    }

    /// What was received changes who may run.
    fn handle(&mut self, receiver: Receiver, message: &Received) {
        let place = (message.badge as usize).wrapping_sub(1);
        match message.kind {
            kind::PULSE if place < MEMBERS => match message.words[0] {
                pulse::MEMBER => self.told(place, message.words[1]),
                // A poke or the end of its call: it is not to be answered any more.
                pulse::GONE => {
                    self.members[place].call = 0;
                    self.members[place].waits = None;
                }
                _ => {}
            },
            kind::MESSAGE => {
                let [operation, which, ..] = message.words;
                let answer = if operation == JOIN && message.portals == 1 {
                    self.join(receiver, message)
                        .unwrap_or(Reply::result(INVALID))
                } else if place < MEMBERS && self.members[place].id != 0 {
                    match self.call(place, message.token, [operation, which]) {
                        Some(result) => Reply::result(result),
                        None => return,
                    }
                } else {
                    Reply::result(INVALID)
                };
                let _ = receiver.reply(message.token, answer);
            }
            _ => {}
        }
    }
}

fn main() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let mut scheduler = Scheduler::default();
    loop {
        let next = scheduler.first(|member| member.ready && member.waits.is_none());
        let (id, token) = match next {
            Some(place) => {
                let member = &mut scheduler.members[place];
                (member.id, core::mem::take(&mut member.call))
            }
            None => (0, 0),
        };
        let choice = Choice {
            token,
            member: id,
            ..Choice::default()
        };
        match receiver.dispatch(&choice) {
            Ok(message) => scheduler.handle(receiver, &message),
            // Its call is over already (then it is chosen once more, without an answer), or it has left.
            Err(_) => {
                if let (Some(place), 0) = (next, token) {
                    scheduler.members[place].ready = false;
                }
            }
        }
    }
}
