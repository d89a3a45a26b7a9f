//! Who runs: the ready queue, switching, quanta, and message-driven priority.
//!
//! A thread's effective priority is that of the caller it works for. If it works for none it is its own, but no more than that of a caller that has gone
//! meanwhile, or whose interruption or end it was told. It is raised to the most important caller that queues at the channel it serves, as far as its own
//! to the most important pulse that waits there, and to the most important thread that waits for a mutex of its. A change travels along the chain of
//! servers and owners.
//!
//! Each core has a ready queue; [`crate::cores`] says which core a thread goes to.
//!
//! What always holds: `current` is in no queue and its state is `Running`; when an entry returns, no ready thread that may run is more important than it.

use crate::arch::Arch;
use crate::pool::{DomainRef, ThreadRef};
use crate::queue::{Lists, PriorityQueue};
use crate::thread::{State, QUANTUM};
use crate::{Kernel, Resume};

/// Longest chain of servers and owners that a change of priority follows, and that the search for cycles looks at.
pub const CHAIN: usize = 32;
/// How much of it one entry follows; the rest is for the timer, which comes at once.
const AT_ONCE: usize = 3;
/// Threads with which such rests may begin.
pub const RESTS: usize = 8;

/// What belongs to one core. That of the core that runs the present entry is `Kernel::dispatch`; the others wait in [`crate::cores`].
pub struct Dispatch {
    pub ready: PriorityQueue<&'static mut Lists>,
    pub current: Option<ThreadRef>,
    /// Who ran until this entry, and whose space and turn base are in the processor.
    pub loaded: Option<ThreadRef>,
    pub loaded_domain: Option<DomainRef>,
    /// Whose floating-point registers and FS and GS bases are in the processor: they are changed only when another thread of a domain that has such state runs.
    pub owner: Option<ThreadRef>,
    /// The choice must be made anew before the entry returns.
    pub preempt: bool,
    /// Ticks up to which `loaded` has been charged.
    pub since: u64,
    /// End of the current quantum in ns; 0 while nobody competes.
    pub slice_end: u64,
    /// A timer that comes before this may end a quantum: two quanta after the last one began.
    pub horizon: u64,
    /// When the timer will come, `u64::MAX` if not.
    pub armed: u64,
    /// When, in ticks, nothing was left to run; 0 if something runs.
    pub idle_since: u64,
    /// Who was preempted in the middle of a quantum, and when that ends: it gets no other one for having been preempted.
    pub cut: Option<ThreadRef>,
    pub cut_end: u64,
    /// What is due at priorities below this one is put off until nothing more important runs here.
    pub put_off: u8,
    /// When the timer last ended a quantum.
    pub turned: u64,
    /// It has been told to come in since it was here last.
    pub called: bool,
    /// Who had fallen and was first of those that waited here when that was looked at last, and its processor time then.
    pub(crate) passed_over: Option<(ThreadRef, u64)>,
}

impl Dispatch {
    /// Nobody runs, nobody is ready. The lists, which must be empty, are for the ready queue.
    pub const fn new(lists: &'static mut Lists) -> Dispatch {
        Dispatch {
            ready: PriorityQueue::over(lists),
            current: None,
            loaded: None,
            loaded_domain: None,
            owner: None,
            preempt: true,
            since: 0,
            slice_end: 0,
            horizon: 0,
            armed: u64::MAX,
            put_off: 0,
            idle_since: 0,
            cut: None,
            cut_end: 0,
            turned: 0,
            called: false,
            passed_over: None,
        }
    }

    /// What is due at this priority waits until nothing more important is ready here.
    pub(crate) fn postpone(&mut self, priority: u8) {
        self.put_off = self.put_off.max(priority.saturating_add(1));
        self.ready.raise_floor(self.put_off as i16);
    }

    /// What is first in the ready queue has the current thread's priority. If that is a competitor, and no floor, its quantum begins, if it has not begun.
    /// A timer that comes soon in any case will do as its end.
    #[inline(never)]
    pub(crate) fn contend(&mut self) {
        if self.slice_end == 0 && self.ready.first().is_some() {
            if self.armed <= self.horizon && self.cut.is_none() {
                self.slice_end = self.armed;
            } else {
                self.preempt = true;
            }
        }
    }
}

impl<A: Arch> Kernel<A> {
    /// Make a thread that is in no queue ready.
    pub(crate) fn wake(&mut self, t: ThreadRef) {
        self.threads[t].state = State::Ready;
        if self.threads[t].poked {
            self.upcall_if_poked(t);
        }
        if self.is_stopped(t) {
            self.set_aside(t);
            return;
        }
        let effective = self.threads[t].effective;
        if self.several() && self.wake_elsewhere(t, effective) {
            return;
        }
        self.dispatch
            .ready
            .push_back(&mut self.threads, t, effective);
        match self.dispatch.current {
            None => self.dispatch.preempt = true,
            Some(current) => {
                let running = self.threads[current].effective;
                if running < effective {
                    self.dispatch.preempt = true;
                } else if running == effective {
                    self.dispatch.contend();
                }
            }
        }
    }

    /// A stopped thread that would be ready goes to its domain's list; a member that is not chosen waits for its turn.
    #[inline(never)]
    fn set_aside(&mut self, t: ThreadRef) {
        if !self.is_halted(t) {
            return self.step_aside(t);
        }
        self.threads[t].state = State::Stopped;
        let domain = self.threads[t].domain;
        self.domains[domain].stopped.push_back(&mut self.threads, t);
    }

    /// `t` (in no queue, not current) may run now: make it current, or leave it to the ready queue if it is not the most important.
    pub(crate) fn hand_over(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        if thread.effective as i16 >= self.dispatch.ready.top()
            && !thread.poked
            && !self.is_stopped(t)
            && (!self.several() || self.take_here(t))
        {
            let thread = &self.threads[t];
            let equal = thread.effective as i16 == self.dispatch.ready.top();
            self.threads[t].state = State::Running;
            self.dispatch.current = Some(t);
            if equal {
                self.dispatch.contend();
            }
        } else {
            self.dispatch.current = None;
            self.dispatch.preempt = true;
            self.wake(t);
        }
    }

    /// The current thread is preempted, not used up: it goes on first when its turn comes.
    pub(crate) fn set_back(&mut self, t: ThreadRef) {
        if self.dispatch.slice_end != 0 {
            self.dispatch.cut = Some(t);
            self.dispatch.cut_end = self.dispatch.slice_end;
        }
        let thread = &mut self.threads[t];
        thread.state = State::Ready;
        let priority = thread.effective;
        let ready = &mut self.dispatch.ready;
        ready.push_front(&mut self.threads, t, priority);
    }

    /// The current thread waits from now on.
    #[inline]
    pub(crate) fn current_blocks(&mut self) {
        self.dispatch.current = None;
        self.dispatch.preempt = true;
    }

    /// The current thread goes behind all others of its priority.
    pub(crate) fn give_way(&mut self) {
        if let Some(t) = self.dispatch.current.take() {
            self.dispatch.slice_end = 0;
            self.wake(t);
            self.dispatch.preempt = true;
        }
    }

    /// End of every entry.
    pub(crate) fn leave(&mut self) -> Resume {
        if self.dispatch.preempt {
            return self.resume();
        }
        match self.dispatch.current {
            Some(t) => self.load(t),
            None => self.resume(),
        }
    }

    /// Whom to run.
    pub fn resume(&mut self) -> Resume {
        self.choose();
        if self.dispatch.current.is_some() {
            return self.leave();
        }
        self.idle();
        Resume {
            registers: core::ptr::null_mut(),
            full: 1,
        }
    }

    /// Pick the most important thread.
    #[inline(always)]
    fn choose(&mut self) {
        let several = self.several();
        if several {
            self.balance();
        }
        loop {
            self.choose_here();
            if !several {
                return;
            }
            // All whom it might have run turned out to be stopped: somebody less important may wait elsewhere.
            if self.dispatch.current.is_some() || !self.balance() {
                return self.share_out();
            }
        }
    }

    /// Pick it from this core's queue. Stopped threads are taken out of the queue when they are met: each once per stop.
    #[inline(always)]
    fn choose_here(&mut self) {
        self.dispatch.preempt = false;
        if let Some(current) = self.dispatch.current {
            if self.is_stopped(current) {
                self.dispatch.current = None;
                self.set_aside(current);
            }
        }
        loop {
            let best = self.dispatch.ready.top();
            let running = match self.dispatch.current {
                Some(current) => self.threads[current].effective as i16,
                None => -1,
            };
            if best <= running {
                break;
            }
            let Some(t) = self.dispatch.ready.first() else {
                if best < 0 {
                    break;
                }
                // A hasty handler waited until nothing more important runs, or the timer did.
                self.floor_met(best, running);
                continue;
            };
            self.charge_here();
            self.dispatch.ready.remove(&mut self.threads, t, best as u8);
            if self.is_stopped(t) {
                self.set_aside(t);
                continue;
            }
            if let Some(current) = self.dispatch.current {
                // Another core may have poked it: the call that tells so finds somebody else running.
                self.upcall_if_poked(current);
                self.set_back(current);
            }
            self.threads[t].state = State::Running;
            self.dispatch.current = Some(t);
            self.dispatch.slice_end = 0;
        }
        if let Some(current) = self.dispatch.current {
            let effective = self.threads[current].effective;
            if self.dispatch.slice_end == 0 && self.dispatch.ready.occupied(effective) {
                self.begin_quantum(current);
            }
        }
    }

    /// `t`, which is current, has a competitor of its priority and no quantum yet. It has one if who pays for what it does has.
    #[inline(always)]
    fn begin_quantum(&mut self, t: ThreadRef) {
        let payer = &self.threads[self.payer(t)];
        if !payer.round_robin {
            return;
        }
        if self.dispatch.cut.take() == Some(t) {
            // The timer may have come while somebody else ran: then this quantum is over already, and the next one shows it.
            self.dispatch.slice_end = self.dispatch.cut_end;
            self.program_timer();
        } else if self.dispatch.armed <= self.dispatch.horizon {
            self.dispatch.slice_end = self.dispatch.armed;
        } else {
            let now = self.arch.now();
            self.dispatch.slice_end = now.saturating_add(payer.quantum);
            self.dispatch.horizon = now.saturating_add(2 * QUANTUM);
            self.program_timer();
        }
    }

    /// Bring the processor to this thread.
    #[inline(always)]
    fn load(&mut self, t: ThreadRef) -> Resume {
        if self.dispatch.loaded != Some(t) {
            self.switch(t);
        }
        let thread = &mut self.threads[t];
        thread.entries = if thread.deadline | (thread.poked | thread.lifted) as u64 == 0 {
            thread.own_entries
        } else {
            A::general_entries()
        };
        Resume {
            // Of a thread that runs it is never true: the entry code tells what it stored.
            full: core::mem::take(&mut thread.full) as u64,
            registers: &mut thread.registers,
        }
    }

    fn switch(&mut self, t: ThreadRef) {
        self.counters.thread_switches += 1;
        if self.dispatch.loaded.is_none() {
            self.dispatch.since = self.arch.ticks();
            if self.dispatch.idle_since != 0 {
                let idle = self.dispatch.since.saturating_sub(self.dispatch.idle_since);
                self.counters.idle += idle;
                self.dispatch.idle_since = 0;
            }
        }
        self.dispatch.loaded = Some(t);
        let d = self.threads[t].domain;
        let domain = &self.domains[d];
        if self.dispatch.loaded_domain != Some(d) {
            self.dispatch.loaded_domain = Some(d);
            self.arch.activate(domain.root);
            self.arch
                .enter_domain(domain.turn_base, (&raw const *domain).cast());
        }
        if domain.float && self.dispatch.owner != Some(t) {
            if self.several() {
                self.bring_registers(t);
            }
            match self.dispatch.owner.replace(t) {
                Some(owner) => {
                    let (from, to) = self.threads.pair(owner, t);
                    self.arch.save_bases(&mut from.registers);
                    self.arch.switch_float(Some(&mut from.float), &to.float);
                }
                None => self.arch.switch_float(None, &self.threads[t].float),
            }
            self.arch.load_bases(&self.threads[t].registers);
        }
    }

    /// Charge the processor time since the last charge. It is the time of the program at whose wish it was spent: of the first in the chain of callers.
    /// To be called before a link of such a chain is cut, before one is made for whoever worked for itself, and before another thread is chosen; a call or reply that leads straight to the other side costs both the same.
    pub(crate) fn charge(&mut self) {
        self.charge_here();
        if self.several() {
            self.charge_others();
        }
    }

    /// The same where no link is cut.
    #[inline(always)]
    pub(crate) fn charge_here(&mut self) {
        if let Some(loaded) = self.dispatch.loaded {
            self.charge_to(loaded);
        }
    }

    /// Charge it to the first of the chain that leads to `t`.
    #[inline(never)]
    pub(crate) fn charge_to(&mut self, t: ThreadRef) {
        let now = self.arch.ticks();
        let spent = now.saturating_sub(self.dispatch.since);
        self.dispatch.since = now;
        self.book(t, spent);
    }

    /// Who pays for what `t` does has spent so many ticks.
    #[inline(always)]
    pub(crate) fn book(&mut self, t: ThreadRef, spent: u64) {
        let payer = self.payer(t);
        let thread = &mut self.threads[payer];
        thread.ticks += spent;
        self.domains[thread.domain].ticks += spent;
    }

    /// Who pays for what `t` does.
    #[inline]
    pub(crate) fn payer(&self, t: ThreadRef) -> ThreadRef {
        match self.threads[t].client {
            Some(client) => self.payer_behind(client),
            None => t,
        }
    }

    /// The end of the chain that goes on with `client`. Apart from [`Kernel::payer`], so that the loop is there once.
    #[inline(never)]
    fn payer_behind(&self, client: ThreadRef) -> ThreadRef {
        let mut payer = client;
        for _ in 1..CHAIN {
            match self.threads[payer].client {
                Some(client) => payer = client,
                None => break,
            }
        }
        payer
    }

    /// Nothing to run: sleep.
    fn idle(&mut self) {
        self.charge();
        self.dispatch.loaded = None;
        if self.several() {
            // Nobody need wait for an idle core when a space changes.
            self.dispatch.loaded_domain = None;
            self.arch.rest();
        }
        if self.dispatch.idle_since == 0 {
            self.dispatch.idle_since = self.arch.ticks().max(1);
        }
    }

    /// The thread's machine state in the processor, if any, is worth nothing any more.
    pub(crate) fn unload(&mut self, t: ThreadRef) {
        if self.dispatch.loaded == Some(t) {
            self.charge();
            self.dispatch.loaded = None;
        }
        if self.dispatch.owner == Some(t) {
            self.dispatch.owner = None;
        }
        if self.several() {
            self.unload_elsewhere(t);
        }
    }

    /// Bring the bases in the thread's registers up to date.
    pub(crate) fn sync_bases(&mut self, t: ThreadRef) {
        if self.dispatch.owner == Some(t) {
            self.arch.save_bases(&mut self.threads[t].registers);
        } else if self.several() {
            self.bring_registers(t);
        }
    }

    /// Processor time so far.
    pub(crate) fn ticks_of(&mut self, t: ThreadRef) -> u64 {
        self.charge();
        self.threads[t].ticks
    }

    /// The priority that the thread should run at.
    pub(crate) fn deserved(&self, t: ThreadRef) -> u8 {
        let thread = &self.threads[t];
        let mut priority = match thread.client {
            Some(client) => self.threads[client].effective,
            None => thread.base.min(thread.behalf),
        };
        if let Some(c) = thread.serving {
            let channel = &self.channels[c];
            priority = priority.max(thread.base.min(channel.pulses.priority));
            priority = priority.max(channel.senders.top().max(0) as u8);
        }
        if thread.lifted {
            priority = priority.max(self.contended_priority(t));
        }
        priority
    }

    /// A source of the thread's priority changed: adjust it, and whoever works for it.
    pub(crate) fn refresh(&mut self, t: ThreadRef) {
        let mut t = t;
        for step in 1..=CHAIN {
            let priority = self.deserved(t);
            let old = self.threads[t].effective;
            if priority == old {
                return;
            }
            let thread = &mut self.threads[t];
            thread.effective = priority;
            if thread.timer.is_armed() {
                self.rearm(t);
            }
            let thread = &self.threads[t];
            let next = match (thread.state, thread.channel) {
                (State::Ready, _) => {
                    let core = self.cores.of(&mut self.dispatch, self.threads[t].core);
                    core.ready.remove(&mut self.threads, t, old);
                    if priority > old {
                        core.ready.push_back(&mut self.threads, t, priority);
                    } else {
                        core.ready.push_front(&mut self.threads, t, priority);
                    }
                    self.reconsider(t);
                    None
                }
                (State::Running, _) => {
                    if priority < old {
                        self.reconsider(t);
                    }
                    None
                }
                (State::Sending, Some(c)) => {
                    let channel = &mut self.channels[c];
                    channel.senders.remove(&mut self.threads, t, old);
                    channel.senders.push_back(&mut self.threads, t, priority);
                    channel.server
                }
                (State::Held, _) => thread.server,
                (State::Waiting, _) => self.semaphore_reorder(t, priority),
                _ => None,
            };
            let Some(next) = next else {
                return;
            };
            if step % AT_ONCE == 0 && self.refresh_later(next) {
                return;
            }
            t = next;
        }
    }

    /// [`Kernel::refresh`] of `t` when the timer comes, at once. False: too much is left over already.
    #[cold]
    #[inline(never)]
    fn refresh_later(&mut self, t: ThreadRef) -> bool {
        let id = self.threads.id(t);
        let places = &mut self.unrefreshed;
        let Some(place) = places.iter_mut().find(|place| [0, id].contains(place)) else {
            return false;
        };
        *place = id;
        self.program_timer();
        true
    }

    /// One rest of a long chain. False: there is none.
    pub(crate) fn refresh_rest(&mut self) -> bool {
        let [first, rest @ ..] = self.unrefreshed;
        if first == 0 {
            return false;
        }
        self.unrefreshed[..RESTS - 1].copy_from_slice(&rest);
        self.unrefreshed[RESTS - 1] = 0;
        if let Some(t) = self.threads.lookup(first) {
            if self.threads[t].state != State::Dead {
                self.refresh(t);
            }
        }
        true
    }
}
