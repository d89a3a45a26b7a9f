//! A scheduler outside the nucleus: earliest deadline first with admission (`plan.rs`), for docs/services/schedulers.md.
//!
//! Whoever has a thread's portal calls JOIN (w1 budget, w2 deadline, w3 period, in ns; the portal passed), and gets a portal for that member's calls, or a
//! refusal. NEXT waits for the member's next period; the answer has its deadline in w1. A member that does not call it has the processor for its budget in
//! each period and no longer.
#![no_std]
#![no_main]

mod plan;

use cairn_abi::layout::native_slot;
use cairn_abi::received::kind;
use cairn_abi::service::{scheduler, thread};
use cairn_abi::{pulse, Error, Token};
use cairn_rt::scheduler::Choice;
use cairn_rt::time::monotonic;
use cairn_rt::{Portal, Received, Receiver, Reply};
use plan::{Demand, Plan, MOST};

cairn_rt::entry!(main);

const JOIN: u64 = 1;
const NEXT: u64 = 2;
const INVALID: i64 = -22;
const REFUSED: i64 = -16;
const BOUND: u64 = 1_000_000_000;

struct Member {
    id: u64,
    thread: Portal,
    /// Its call, to be answered when it is chosen.
    call: Token,
    /// The processor time that its budget was charged with.
    charged: u64,
}

#[derive(Default)]
struct Scheduler {
    plan: Plan,
    /// By places in the plan. A member's badge is its place plus one.
    members: [Option<Member>; MOST],
}

impl Scheduler {
    /// Somebody outside brings a thread.
    fn join(&mut self, receiver: Receiver, message: &Received) -> Reply<'static> {
        let [_, budget, deadline, period, ..] = message.words;
        let thread = Portal(message.words[7] as u32);
        let demand = Demand {
            budget,
            deadline,
            period,
        };
        let Ok(place) = self.plan.join(demand, monotonic()) else {
            thread.close();
            return Reply::result(REFUSED);
        };
        let badge = place as u64 + 1;
        let Ok(id) = receiver.take_member(thread, badge, BOUND) else {
            self.plan.leave(place);
            thread.close();
            return Reply::result(INVALID);
        };
        self.members[place] = Some(Member {
            id,
            thread,
            call: 0,
            charged: 0,
        });
        self.charge(place);
        Reply::result(0).mint(badge)
    }

    /// What it has had of the processor since it was looked at last is taken off its budget.
    fn charge(&mut self, place: usize) {
        let Some(member) = &mut self.members[place] else {
            return;
        };
        if let Ok([spent, ..]) = member.thread.service(thread::INFO, &[]) {
            self.plan.spend(place, spent - member.charged);
            member.charged = spent;
        }
    }

    fn told(&mut self, place: usize, standing: u64) {
        self.plan.set_ready(place, standing == scheduler::READY);
        if standing == scheduler::GONE {
            self.plan.leave(place);
            if let Some(member) = self.members[place].take() {
                member.thread.close();
            }
        }
    }

    fn handle(&mut self, receiver: Receiver, message: &Received) {
        let place = (message.badge as usize).wrapping_sub(1);
        let member = self.members.get_mut(place).and_then(Option::as_mut);
        match (message.kind, member) {
            (kind::PULSE, Some(member)) => match message.words[0] {
                pulse::MEMBER => self.told(place, message.words[1]),
                // Its call is not to be answered any more.
                pulse::GONE => member.call = 0,
                _ => {}
            },
            (kind::MESSAGE, member) => {
                let reply = match (message.words[0], member) {
                    (JOIN, _) if message.portals == 1 => self.join(receiver, message),
                    (NEXT, Some(member)) => {
                        member.call = message.token;
                        self.plan.finish(place);
                        return;
                    }
                    _ => Reply::result(INVALID),
                };
                let _ = receiver.reply(message.token, reply);
            }
            _ => {}
        }
    }

    /// What the plan says, with the answer to the call of whom it names.
    fn choice(&mut self) -> (Option<usize>, Choice) {
        let turn = self.plan.choose(monotonic());
        let mut choice = Choice::default();
        if turn.until != u64::MAX {
            choice.until = turn.until;
        }
        let member = turn.member.and_then(|place| self.members[place].as_mut());
        if let (Some(place), Some(member)) = (turn.member, member) {
            choice.member = member.id;
            choice.token = core::mem::take(&mut member.call);
            choice.words[1] = self
                .plan
                .standing(place)
                .map_or(0, |(_, deadline)| deadline);
        }
        (turn.member, choice)
    }
}

fn main() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let mut scheduler = Scheduler::default();
    loop {
        let (chosen, choice) = scheduler.choice();
        let received = receiver.dispatch(&choice);
        if let Some(place) = chosen {
            scheduler.charge(place);
        }
        match (received, chosen) {
            (Ok(message), _) => scheduler.handle(receiver, &message),
            (Err(Error::TimedOut), _) => {}
            // Its call is over already, and it is chosen once more, without an answer; or it has left.
            (Err(_), Some(place)) if choice.token == 0 => scheduler.told(place, scheduler::GONE),
            (Err(_), _) => {}
        }
    }
}
