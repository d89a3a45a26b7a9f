//! The component: two threads. The first one takes `proc`'s requests, at the priority of whoever asks `proc`. It leaves each in [`ASKED`] and waits. The second
//! one is the scheduler of the partition, and has the component's own priority whatever happens: it receives news of members, what the first one notifies,
//! and nobody's calls.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::received::kind;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{domain, scheduler, thread, AUTO};
use cairn_abi::{pulse, Error};
use cairn_deadline::plan::{Demand, Plan, Refused, GRAIN, MOST};
use cairn_idl::deadline::{END_PERIOD, LEAVE, MANAGER, SET};
use cairn_idl::errno::{EBUSY, EINVAL, ENOMEM, EPERM, ESRCH};
use cairn_rt::scheduler::Choice;
use cairn_rt::semaphore::Semaphore;
use cairn_rt::time::monotonic;
use cairn_rt::{memory, Portal, Received, Receiver, Reply};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

cairn_rt::entry!(main);

/// The badge of the first thread's notice; members have their places.
const REQUEST: u64 = u64::MAX;
/// After so long without a coming of the scheduler its members go on without it, in ns.
const BOUND: u64 = 100_000_000;
const STACK: usize = 32 * 1024;
/// The first core: members run where their scheduler does.
const CORE: u64 = 1;

/// A request's words, and then in the first one what it came to.
static ASKED: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
/// The slot of the semaphore that says so.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy)]
struct Member {
    id: u64,
    /// Its domain.
    domain: Portal,
    /// The processor time that its run time was charged with.
    charged: u64,
}

impl Member {
    fn control(&self, operation: u8, words: [u64; 3]) -> Result<[u64; 8], Error> {
        let [a, b, c] = words;
        let words = [self.id, operation.into(), a, b, c];
        self.domain.service(domain::THREAD_CONTROL, &words)
    }
}

struct Scheduler {
    receiver: Receiver,
    plan: Plan,
    /// By places in the plan, which are their badges.
    members: [Option<Member>; MOST],
}

impl Scheduler {
    fn place(&self, id: u64) -> Option<usize> {
        let mut members = self.members.iter();
        members.position(|member| member.is_some_and(|member| member.id == id))
    }

    fn asked(&mut self, words: [u64; 8]) -> i64 {
        match (words[0], self.place(words[1])) {
            (SET, place) => {
                let [_, id, runtime, deadline, period, ..] = words;
                let member = Member {
                    id,
                    domain: Portal(words[7] as u32),
                    charged: 0,
                };
                let demand = Demand {
                    runtime,
                    deadline,
                    period,
                };
                let set = match place {
                    Some(place) => self.change(place, demand),
                    None => self.join(member, demand),
                };
                if place.is_some() || set.is_err() {
                    member.domain.close();
                }
                set.map_or_else(|errno| -errno, |()| 0)
            }
            (LEAVE, Some(place)) => {
                self.remove(place);
                0
            }
            (LEAVE, None) => 0,
            (END_PERIOD, Some(place)) => {
                self.charge(place);
                self.plan.end_period(place);
                0
            }
            (END_PERIOD, None) => -ESRCH,
            _ => -EINVAL,
        }
    }

    fn join(&mut self, member: Member, demand: Demand) -> Result<(), i64> {
        let place = self.plan.join(demand, monotonic()).map_err(errno_of)?;
        let info = member.control(thread::INFO, [0; 3]);
        let charged = info.map_or(0, |[spent, ..]| spent);
        self.members[place] = Some(Member { charged, ..member });
        self.take(place).inspect_err(|_| {
            self.plan.leave(place);
            self.members[place] = None;
        })
    }

    fn change(&mut self, place: usize, demand: Demand) -> Result<(), i64> {
        self.charge(place);
        let now = monotonic();
        self.plan.change(place, demand, now).map_err(errno_of)?;
        // (It may have left because this scheduler was late.)
        self.take(place)
    }

    /// The member at this place is one of the partition from now on. Its standing is told.
    fn take(&mut self, place: usize) -> Result<(), i64> {
        let Some(member) = self.members[place] else {
            return Err(ESRCH);
        };
        self.plan.set_ready(place, false, monotonic());
        let slot = u64::from(self.receiver.0 .0);
        let words = [slot, place as u64, BOUND];
        let taken = member.control(thread::SET_SCHEDULER, words);
        taken.map(|_| ()).map_err(|error| match error {
            Error::NoMemory => EBUSY,
            _ => ESRCH,
        })
    }

    fn remove(&mut self, place: usize) {
        self.plan.leave(place);
        if let Some(member) = self.members[place].take() {
            // (Who is dead has left.)
            let _ = member.control(thread::SET_SCHEDULER, [0; 3]);
            member.domain.close();
        }
    }

    /// What it has had of the processor since it was looked at last is taken off its run time.
    fn charge(&mut self, place: usize) {
        let Some(member) = &mut self.members[place] else {
            return;
        };
        if let Ok([spent, ..]) = member.control(thread::INFO, [0; 3]) {
            self.plan.spend(place, spent.saturating_sub(member.charged));
            member.charged = spent;
        }
    }

    fn handle(&mut self, message: &Received) {
        if message.kind != kind::PULSE {
            return;
        }
        let place = message.badge as usize;
        match message.words[0] {
            pulse::NOTIFY if message.badge == REQUEST => {
                let words = core::array::from_fn(|at| ASKED[at].load(SeqCst));
                let result = self.asked(words);
                ASKED[0].store(result as u64, SeqCst);
                let _ = Semaphore(Portal(ANSWERED.load(SeqCst))).v();
            }
            pulse::MEMBER => {
                let [_, standing, id, ..] = message.words;
                // (The news of a thread that was removed may come later.)
                if self.place(id) != Some(place) {
                    return;
                }
                match standing {
                    scheduler::GONE => self.remove(place),
                    standing => {
                        self.charge(place);
                        let ready = standing == scheduler::READY;
                        self.plan.set_ready(place, ready, monotonic());
                    }
                }
            }
            _ => {}
        }
    }

    fn run(&mut self) -> ! {
        loop {
            let turn = self.plan.choose(monotonic());
            let mut choice = Choice::default();
            if turn.until != u64::MAX {
                choice.until = turn.until;
            }
            let chosen = turn.member.and_then(|place| {
                let member = self.members[place]?;
                choice.member = member.id;
                Some((place, member.charged))
            });
            let received = self.receiver.dispatch(&choice);
            if let Some((place, before)) = chosen {
                self.charge(place);
                let late = received.is_err() && turn.until <= monotonic();
                let had = self.members[place].map_or(0, |member| member.charged - before);
                if late && had == 0 {
                    // The slice was over before it began. So that there is an end to that, it counts.
                    self.plan.spend(place, GRAIN);
                }
            }
            match (received, chosen) {
                (Ok(message), _) => self.handle(&message),
                (Err(Error::TimedOut), _) | (Err(_), None) => {}
                // It has left, or may not run here.
                (Err(_), Some((place, _))) => self.remove(place),
            }
        }
    }
}

fn errno_of(refused: Refused) -> i64 {
    match refused {
        Refused::Wrong => EINVAL,
        Refused::TooMuch | Refused::Full => EBUSY,
    }
}

extern "C" fn schedule(slot: u64) -> ! {
    Scheduler {
        receiver: Receiver(Portal(slot as u32)),
        plan: Plan::NEW,
        members: [None; MOST],
    }
    .run()
}

/// The scheduler, and how it is told that there is a request.
fn start() -> Result<Portal, Error> {
    let receiver = Receiver::create()?;
    let told = receiver.make_portal(REQUEST)?;
    ANSWERED.store(Semaphore::new(0)?.0 .0, SeqCst);
    let stack = memory::map(STACK).ok_or(Error::NoMemory)?;
    memory::populate(stack)?;
    let end = stack.as_mut_ptr() as u64 + stack.len() as u64;
    let (run, slot) = (schedule as *const () as u64, u64::from(receiver.0 .0));
    let words = [run, (end & !15) - 8, slot, 0, 0, AUTO, AUTO];
    let make = || Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words);
    let made = memory::with_objects(pool::THREAD, make)?;
    let thread = Portal(made[0] as u32);
    thread.service(thread::SET_AFFINITY, &[CORE])?;
    thread.service(thread::START, &[])?;
    Ok(told)
}

fn ask(told: Portal, message: &Received) -> i64 {
    let expected = u64::from(message.words[0] == SET);
    if message.badge != MANAGER || message.portals as u64 != expected {
        return -EPERM;
    }
    for (word, said) in ASKED.iter().zip(message.words) {
        word.store(said, SeqCst);
    }
    let answered = Semaphore(Portal(ANSWERED.load(SeqCst)));
    match told.notify(1).and_then(|()| answered.p()) {
        Ok(()) => ASKED[0].load(SeqCst) as i64,
        Err(_) => -ENOMEM,
    }
}

fn main() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let told = match start() {
        Ok(told) => told,
        Err(error) => panic!("no scheduler: {error:?}"),
    };
    loop {
        let Ok(message) = receiver.receive(None) else {
            continue;
        };
        if message.kind == kind::MESSAGE {
            let result = ask(told, &message);
            if result == -EPERM {
                let came = message.words.iter().rev().take(message.portals);
                came.for_each(|slot| Portal(*slot as u32).close());
            }
            let _ = receiver.reply(message.token, Reply::result(result));
        }
    }
}
