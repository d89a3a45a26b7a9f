//! Threads: their registers, state and links; creation, death, stopping, poking and upcalls.
//!
//! What always holds: a thread is linked where its [`State`] says and nowhere else. A dead thread is linked nowhere but in the pulse queue
//! of a channel that held it; its object goes when the pulse was taken and no portal leads to it.

use crate::arch::Arch;
use crate::copy::Cursor;
use crate::domain::Domain;
use crate::partition::ASIDE;
use crate::pool::{ChannelRef, DomainRef, Pool, PortalRef, SemaphoreRef, ThreadRef};
use crate::pulse::PulseLink;
use crate::queue::Link;
use crate::ranked::{Place, Ranked};
use crate::{timer, Answer, Kernel};
use cairn_abi::service::thread;
use cairn_abi::state::{upcall, Registers};
use cairn_abi::{flag, policy, Error};

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Made, not started.
    New,
    /// The current thread; in no queue.
    Running,
    /// In the ready queue.
    Ready,
    /// Would be ready, but it or its domain is stopped: in its domain's list.
    Stopped,
    /// Would be ready, but its scheduler has chosen no or another member of its partition ([`crate::partition`]): in no queue.
    Aside,
    /// In a channel's queue of senders.
    Sending,
    /// Received by a channel's domain, waits for the reply: in the channel's list if it was put off.
    Held,
    /// In a channel's list of receivers.
    Receiving,
    Sleeping,
    Parked,
    /// In a semaphore's queue.
    Waiting,
    Dead,
}

/// What a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sending {
    Message,
    /// A page fault of its own: registers are untouched.
    Fault,
    /// A fault met while the nucleus copied for it: it stands before its `syscall`.
    CopyFault,
}

/// A fault on its way to a pager.
#[derive(Clone, Copy, Debug)]
pub struct FaultReport {
    pub address: u64,
    pub bits: u64,
    /// Domain and label of the memory's user.
    pub domain: u32,
    pub label: u64,
}

impl FaultReport {
    const NONE: FaultReport = FaultReport {
        address: 0,
        bits: 0,
        domain: 0,
        label: 0,
    };
}

#[repr(C)]
pub struct Thread<F> {
    /// The entry code stores and loads these.
    pub registers: Registers,
    pub state: State,
    pub sending: Sending,
    /// Held, and not the one that the channel's server works for: in the channel's list.
    pub put_off: bool,
    /// Priority it runs at, priority it has of its own.
    pub effective: u8,
    pub base: u8,
    pub round_robin: bool,
    /// A park permit.
    pub permit: bool,
    /// `saved` holds an interrupted program.
    pub in_upcall: bool,
    /// Poked and not told yet.
    pub poked: bool,
    /// All registers must be restored (it did not enter by `syscall`, or an upcall was made).
    pub full: bool,
    /// Owns a mutex for which another waits.
    pub lifted: bool,
    /// Windows that show its parts until the reply. (These eight bytes are looked at together: all are zero in plain cases.)
    pub windows: u8,
    pub stops: u32,
    /// Deadline of the blocking operation, 0 if there is none.
    pub deadline: u64,
    /// Where its portal table's first entries lie, and where the entry code looks: there, or, while something unusual is pending, at
    /// entries that all lead to the general path (see [`crate::quick`]).
    pub own_entries: usize,
    pub entries: usize,
    /// Where the code of its receive rights continues: the shared code, or the reply leg of the portal that it was called through (see [`crate::quick`]).
    pub reply_code: usize,
    /// Address of the caller's registers, while that is not settled.
    pub quick_client: usize,
    /// What its channel's `plain` becomes when it waits there with nothing unusual about it.
    pub plain: u64,
    /// Which of all threads that ever served a channel this is, counted from 1. 0: it never did, or it was one too many to be counted.
    pub server_number: u32,
    /// The slot that it received through.
    pub receive_slot: u32,
    pub domain: DomainRef,
    pub link: Link,
    /// The channel it sends to, is held by, or receives from; and who works for it now.
    pub channel: Option<ChannelRef>,
    pub server: Option<ThreadRef>,
    /// The caller it works for now.
    pub client: Option<ThreadRef>,
    /// The channel it received from last: whoever queues there lifts it.
    pub serving: Option<ChannelRef>,
    /// The semaphore it waits at, and its place there, or among the callers of the portal that its queued call came through.
    pub waits: Option<SemaphoreRef>,
    pub place: Place<ThreadRef>,
    /// Its mutexes for which others wait, by the priority of the most important of these.
    pub contended: Ranked<SemaphoreRef>,
    /// Token of its present or last call: id in the lower half, a count of calls in the upper.
    pub token: u64,
    /// Its place among the deadlines. A dead thread has one while it leaves mutexes.
    pub timer: timer::Place,
    /// The portal that its queued call came through, or the derived one by which it waits at a semaphore.
    pub through: Option<PortalRef>,
    /// Badge of the portal it called through.
    pub badge: u64,
    /// Lengths of its parts as `received` reports them.
    pub parts: u64,
    /// How far its out and in vectors were gone through: while it measures them, and then by copies of its present call.
    pub cursors: [Cursor; 2],
    pub measuring: bool,
    /// Portals to it.
    pub holders: u32,
    pub fault: FaultReport,
    /// The pulse that tells a server of an interruption or of the end of this caller.
    pub pulse: PulseLink,
    pub pulse_token: u64,
    pub pulse_badge: u64,
    pub pulse_gone: bool,
    /// Its place among its domain's threads.
    pub siblings: Link,
    pub quantum: u64,
    /// Processor time in ticks.
    pub ticks: u64,
    /// The core that it runs or is queued on, or was last; and a bit for each that it may run on.
    pub core: u8,
    /// The priority that it was given, of which its own may have fallen by one (see [`crate::adaptive`]).
    pub assigned: u8,
    pub adaptive: bool,
    /// While it works for no caller it has no more than this: the priority of the caller that has gone meanwhile, or of whose interruption or end it was
    /// told. It may have its own again when it receives next.
    pub behalf: u8,
    pub affinity: u64,
    /// The cores that its owner lets it and its domain choose from.
    pub allowed: u64,
    /// Which of all threads that ever were.
    pub birth: u64,
    /// The partition that it is a member of, counted from 1 (0: none); what its scheduler was told last; the priority that it has outside.
    pub partition: u8,
    pub standing: u8,
    pub fallback: u8,
    pub member_badge: u64,
    /// Its place among the members; and its news to the scheduler.
    pub members: Link,
    pub news: PulseLink,
    pub saved: Registers,
    pub float: F,
}

impl<F> Thread<F> {
    /// Of its one out (or in) part the piece that begins at the offset: its address, and its length, which is no more than this. None: nothing can begin there.
    #[inline(always)]
    pub fn piece(&self, out: bool, offset: u64, len: u64) -> Option<(u64, u64)> {
        let base = if out {
            self.registers.r14
        } else {
            self.registers.rbx
        };
        let room = self.part_len(out).checked_sub(offset)?;
        Some((base.wrapping_add(offset), len.min(room)))
    }

    /// Bytes of the message's out (or in) part.
    #[inline(always)]
    pub fn part_len(&self, out: bool) -> u64 {
        if out {
            self.parts as u32 as u64
        } else {
            self.parts >> 32
        }
    }

    /// One of [`policy`].
    pub(crate) fn set_policy(&mut self, policy: u64) {
        self.round_robin = policy != policy::FIFO;
        self.adaptive = policy == policy::ADAPTIVE;
    }

    fn policy(&self) -> u64 {
        match (self.round_robin, self.adaptive) {
            (false, _) => policy::FIFO,
            (true, false) => policy::ROUND_ROBIN,
            (true, true) => policy::ADAPTIVE,
        }
    }

    /// The priority at which it runs, without what it has fallen by: who works on its behalf has not fallen, and nobody would see that it waits
    /// ([`crate::adaptive`]).
    #[inline(never)]
    pub(crate) fn unfallen(&self) -> u8 {
        self.effective + (self.assigned - self.base)
    }

    /// It has this priority, whichever way one looks at it.
    #[inline(always)]
    pub(crate) fn stands_at(&self, priority: u8) -> bool {
        (self.assigned ^ priority) | (self.base ^ priority) | (self.effective ^ priority) == 0
    }

    /// The priority that its owner gave it.
    fn given(&self) -> u8 {
        match self.partition {
            0 => self.assigned,
            _ => self.fallback,
        }
    }

    /// It has used up a quantum since it waited last.
    #[inline(always)]
    pub(crate) fn has_fallen(&self) -> bool {
        self.base != self.assigned
    }

    /// The deadline of its next wait was armed, it was poked, or another waits for a mutex of its; that may be over since. Nothing else that is unusual can be said of the thread that runs.
    #[inline(always)]
    pub(crate) fn is_unusual(&self) -> bool {
        let unusual = self.entries != self.own_entries;
        debug_assert!(unusual || self.deadline == 0 && !self.poked && !self.lifted);
        unusual
    }
}

/// Default quantum in ns.
pub const QUANTUM: u64 = 10_000_000;
/// Interrupts on, the always-one bit.
pub(crate) const USER_FLAGS: u64 = 0x202;

impl<A: Arch> Kernel<A> {
    /// What threads begin as.
    const NEW_THREAD: Thread<A::FloatState> = Thread {
        registers: Registers::ZERO,
        state: State::New,
        sending: Sending::Message,
        poked: false,
        full: true,
        lifted: false,
        windows: 0,
        effective: 0,
        base: 0,
        round_robin: true,
        permit: false,
        in_upcall: false,
        put_off: false,
        domain: Pool::<DomainRef, Domain<A>>::FIRST,
        link: Link::NONE,
        channel: None,
        serving: None,
        waits: None,
        place: Place::new(),
        contended: Ranked::new(),
        birth: 0,
        client: None,
        server: None,
        token: 0,
        timer: timer::Place::NONE,
        through: None,
        badge: 0,
        parts: 0,
        cursors: [Cursor {
            index: 0,
            before: 0,
        }; 2],
        measuring: false,
        deadline: 0,
        own_entries: 0,
        entries: 0,
        reply_code: 0,
        quick_client: 0,
        plain: 0,
        server_number: 0,
        receive_slot: 0,
        stops: 0,
        holders: 0,
        fault: FaultReport::NONE,
        pulse: PulseLink::new(),
        pulse_token: 0,
        pulse_badge: 0,
        pulse_gone: false,
        siblings: Link::NONE,
        quantum: QUANTUM,
        ticks: 0,
        core: 0,
        assigned: 0,
        adaptive: false,
        behalf: u8::MAX,
        affinity: u64::MAX,
        allowed: u64::MAX,
        partition: 0,
        standing: 0,
        fallback: 0,
        member_badge: 0,
        members: Link::NONE,
        news: PulseLink::new(),
        saved: Registers::ZERO,
        float: A::NEW_FLOAT,
    };

    /// A new thread of a domain, not started.
    pub(crate) fn thread_create(
        &mut self,
        domain: DomainRef,
        mut registers: Registers,
        priority: u8,
    ) -> Result<ThreadRef, Error> {
        registers.rflags = USER_FLAGS;
        self.arch.sanitize(&mut registers);
        let t = self
            .threads
            .insert(Self::NEW_THREAD)
            .ok_or(Error::NoMemory)?;
        let start = self.domains[domain].table.start();
        // Tokens of a thread that was in this slot long ago do not match.
        let token = self.threads.id(t) as u64 | self.arch.ticks() << 32;
        let thread = &mut self.threads[t];
        thread.registers = registers;
        thread.effective = priority;
        thread.base = priority;
        thread.assigned = priority;
        thread.domain = domain;
        thread.own_entries = start;
        thread.entries = start;
        thread.reply_code = A::reply_code();
        thread.token = token;
        thread.core = self.cores.here as u8;
        thread.birth = self.births;
        self.births += 1;
        let first = self.domains[domain].first_thread;
        self.threads[t].siblings.next = first;
        if let Some(first) = first {
            self.threads[first].siblings.previous = Some(t);
        }
        let domain = &mut self.domains[domain];
        domain.first_thread = Some(t);
        domain.live += 1;
        Ok(t)
    }

    /// Is it kept from running, by itself or with its domain?
    #[inline]
    pub(crate) fn is_stopped(&self, t: ThreadRef) -> bool {
        let thread = &self.threads[t];
        thread.stops | self.domains[thread.domain].stops != 0
    }

    /// Take the thread out of whatever it is linked in. Servers that worked for it are told nothing here, and go on with no more than its priority.
    pub(crate) fn detach(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        let (state, channel) = (thread.state, thread.channel);
        let (effective, domain) = (thread.effective, thread.domain);
        // Before anybody's priority is changed: the change must not come round to this thread.
        self.threads[t].channel = None;
        match (state, channel) {
            (State::Ready, _) => {
                let core = self.cores.of(&mut self.dispatch, self.threads[t].core);
                core.ready.remove(&mut self.threads, t, effective);
            }
            (State::Stopped, _) => self.domains[domain].stopped.remove(&mut self.threads, t),
            (State::Sending, Some(c)) => {
                let channel = &mut self.channels[c];
                channel.senders.remove(&mut self.threads, t, effective);
                if let Some(server) = channel.server {
                    self.refresh(server);
                }
                let _ = self.leave_callers(t);
            }
            (State::Held, Some(c)) => {
                if self.threads[t].windows != 0 {
                    self.close_windows_of(t);
                }
                self.unhold(t, c);
                self.charge();
                if let Some(server) = self.threads[t].server.take() {
                    self.serve_no_longer(server, t);
                    self.refresh(server);
                }
            }
            (State::Receiving, Some(c)) => self.remove_receiver(c, t),
            (State::Waiting, _) => self.semaphore_detach(t),
            _ => {}
        }
    }

    /// `server` works for its client no longer, and goes on with no more than that one's priority until it receives.
    #[inline(never)]
    pub(crate) fn serve_no_longer(&mut self, server: ThreadRef, client: ThreadRef) {
        let priority = self.threads[client].unfallen();
        let server = &mut self.threads[server];
        server.client = None;
        server.behalf = priority;
    }

    /// End the thread, whatever it does. Takes constant time.
    pub(crate) fn kill(&mut self, t: ThreadRef, reason: u64, detail: u64) {
        let thread = &self.threads[t];
        let (state, channel) = (thread.state, thread.channel);
        if state == State::Dead {
            return;
        }
        if self.dispatch.current == Some(t) {
            self.dispatch.current = None;
            self.dispatch.preempt = true;
        } else if state == State::Running {
            self.take_off(t);
        }
        self.detach(t);
        self.disarm(t);
        if let (State::Held, Some(c)) = (state, channel) {
            self.caller_gone(t, c);
        }
        self.stop_serving(t);
        self.unload(t);
        if self.threads[t].partition != 0 {
            self.member_ends(t);
        }
        self.restore_base(t);
        let thread = &mut self.threads[t];
        thread.state = State::Dead;
        let (domain, siblings) = (thread.domain, thread.siblings);
        if let Some(next) = siblings.next {
            self.threads[next].siblings.previous = siblings.previous;
        }
        match siblings.previous {
            Some(previous) => self.threads[previous].siblings.next = siblings.next,
            None => self.domains[domain].first_thread = siblings.next,
        }
        self.domains[domain].live -= 1;
        self.bequeath(t);
        self.release_thread_object(t);
        if self.domains[domain].live == 0 {
            self.die(domain, reason, detail);
        }
    }

    /// Free the object of a dead thread that nothing refers to any more.
    pub(crate) fn release_thread_object(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        if thread.state == State::Dead
            && thread.holders == 0
            && !thread.pulse.is_queued()
            && !thread.news.is_queued()
            && !thread.timer.is_armed()
        {
            self.threads.remove(t);
        }
    }

    /// The wait of a blocked thread (already detached) is over with this `rax`.
    pub(crate) fn finish(&mut self, t: ThreadRef, rax: u64) {
        self.threads[t].registers.rax = rax;
        self.disarm(t);
        self.recover(t);
        self.wake(t);
    }

    /// A wait fails. For a fault on its way to a pager this means that the pager cannot help.
    pub(crate) fn fail(&mut self, t: ThreadRef, error: Error) {
        match (self.threads[t].state, self.threads[t].sending) {
            (State::Sending | State::Held, Sending::Fault | Sending::CopyFault) => {
                self.fault_refused(t, 0)
            }
            _ => self.finish(t, error as u64),
        }
    }

    /// Does the thread wait in a way that a poke ends?
    fn interruptible(&self, t: ThreadRef) -> bool {
        let thread = &self.threads[t];
        let by_message = match thread.state {
            State::Sending | State::Held => thread.sending == Sending::Message,
            State::Receiving | State::Sleeping | State::Parked | State::Waiting => true,
            _ => false,
        };
        by_message && thread.registers.rax & flag::INTERRUPTIBLE != 0
    }

    /// A blocking operation begins: has the thread been poked already?
    #[inline(never)]
    pub(crate) fn check_poked(&mut self, t: ThreadRef) -> Result<(), Error> {
        let thread = &mut self.threads[t];
        if thread.poked && thread.registers.rax & flag::INTERRUPTIBLE != 0 {
            thread.poked = false;
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Exactly one notice comes of a poke: `Interrupted` from a wait, or an upcall as soon as the thread is in user mode.
    pub(crate) fn poke(&mut self, t: ThreadRef) {
        self.threads[t].poked = true;
        self.unusual(t);
        let state = self.threads[t].state;
        match state {
            State::Ready | State::Stopped | State::Aside => self.upcall_if_poked(t),
            State::Running => self.poked_elsewhere(t),
            State::Held if self.interruptible(t) => self.caller_interrupted(t),
            _ if self.interruptible(t) => {
                self.threads[t].poked = false;
                self.detach(t);
                self.finish(t, Error::Interrupted as u64);
            }
            _ => {}
        }
    }

    /// The thread is in user mode (or about to be).
    #[inline]
    pub(crate) fn upcall_if_poked(&mut self, t: ThreadRef) {
        if self.threads[t].poked {
            self.upcall_poked(t);
        }
    }

    #[cold]
    #[inline(never)]
    fn upcall_poked(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        if !thread.in_upcall && self.domains[thread.domain].upcall_entry != 0 {
            self.threads[t].poked = false;
            self.upcall(t, upcall::POKE, 0, 0, 0, 0);
        }
    }

    /// Save the interrupted program and continue at the domain's upcall entry.
    #[inline(never)]
    pub(crate) fn upcall(
        &mut self,
        t: ThreadRef,
        reason: u64,
        vector: u64,
        error: u64,
        address: u64,
        detail: u64,
    ) {
        self.sync_bases(t);
        let entry = self.domains[self.threads[t].domain].upcall_entry;
        let thread = &mut self.threads[t];
        thread.saved = thread.registers;
        thread.in_upcall = true;
        thread.full = true;
        thread.measuring = false;
        let registers = &mut thread.registers;
        registers.rdi = reason;
        registers.rsi = vector;
        registers.rdx = error;
        registers.r10 = address;
        registers.r8 = registers.rip;
        registers.r9 = detail;
        registers.rip = entry;
        registers.rflags = USER_FLAGS;
    }

    /// Take a thread that was stopped, and is not any more, back into the ready queue.
    pub(crate) fn unstop(&mut self, t: ThreadRef) {
        if self.threads[t].state == State::Stopped && !self.is_halted(t) {
            self.detach(t);
            self.wake(t);
        }
    }

    /// An operation on a thread, through its portal or its domain's. The caller has checked rights.
    pub(crate) fn thread_service(
        &mut self,
        t: ThreadRef,
        target: ThreadRef,
        operation: u8,
        w: [u64; 3],
    ) -> Answer {
        if self.threads[target].state == State::Dead {
            return Err(Error::Dead.into());
        }
        match operation {
            thread::START => {
                if self.threads[target].state != State::New {
                    return Err(Error::Busy.into());
                }
                self.wake(target);
            }
            thread::KILL => {
                if !self.end_thread(target) {
                    return Err(crate::Stop::Restart);
                }
                if t == target {
                    return Err(crate::Stop::Left);
                }
            }
            thread::POKE => self.poke(target),
            thread::SET_PRIORITY => {
                let ceiling = self.domains[self.threads[t].domain].ceiling;
                if w[0] > ceiling as u64 || w[1] > policy::ADAPTIVE {
                    return Err(Error::BadArgument.into());
                }
                self.restore_base(target);
                let thread = &mut self.threads[target];
                if thread.partition != 0 {
                    thread.fallback = w[0] as u8;
                } else {
                    thread.assigned = w[0] as u8;
                    thread.base = thread.assigned;
                }
                thread.set_policy(w[1]);
                thread.quantum = if w[2] == 0 {
                    QUANTUM
                } else {
                    w[2].max(100_000)
                };
                self.refresh(target);
            }
            thread::READ_STATE => {
                if let Some(core) = self.runs_elsewhere(target) {
                    self.arch.bring_in(core);
                }
                self.sync_bases(target);
                self.write_own_registers(t, w[0], self.threads[target].registers)?;
            }
            thread::WRITE_STATE => {
                if !matches!(self.threads[target].state, State::New | State::Stopped) {
                    return Err(Error::Busy.into());
                }
                self.bring_registers(target);
                self.read_own_registers(t, w[0], target)?;
            }
            thread::INFO => {
                let ticks = self.ticks_of(target);
                let thread = &self.threads[target];
                let state = match thread.state {
                    State::Running | State::Ready | State::Aside => 0,
                    State::New | State::Stopped => 2,
                    _ => 1,
                };
                let answer = [
                    self.arch.ticks_to_ns(ticks),
                    state,
                    thread.given() as u64,
                    thread.effective as u64,
                    thread.policy(),
                    thread.core as u64,
                    thread.affinity & self.cores.all(),
                ];
                self.answers(t, &answer);
            }
            thread::STOP => {
                let thread = &mut self.threads[target];
                if thread.stops & !ASIDE == !ASIDE {
                    return Err(Error::BadArgument.into());
                }
                thread.stops += 1;
                self.dispatch.preempt |= target == t;
                self.interrupt_running(target);
                self.not_plain(target);
            }
            thread::CONTINUE => {
                let thread = &mut self.threads[target];
                if thread.stops & !ASIDE == 0 {
                    return Err(Error::BadArgument.into());
                }
                thread.stops -= 1;
                self.unstop(target);
            }
            thread::SET_SCHEDULER => self.set_scheduler(t, target, w)?,
            thread::SET_AFFINITY => self.set_affinity(t, target, w[0])?,
            _ => return Err(Error::BadOperation.into()),
        }
        Ok(())
    }
}
