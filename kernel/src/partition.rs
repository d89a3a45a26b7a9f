//! Partitions: threads whose turns a component gives, outside the nucleus.
//!
//! A *member* belongs to a channel, its scheduler's. It runs only while it is *chosen*: by DISPATCH at that channel, which replies, chooses and receives in one
//! entry. Of all members of a partition one at most is chosen. It has the priority below that of the thread which chose it, so the scheduler, when it is told
//! something, goes first without anything being done about the member. A member that is not chosen is kept from running by a bit beside the count of its stops
//! ([`ASIDE`]): all ways heed that already, so threads outside cost nothing more. A member that would be ready and is not chosen is [`State::Aside`], in no
//! queue.
//!
//! The scheduler is told of its members by pulses with their badges (READY, BLOCKED, GONE). That the chosen one waits, or that a server waits which works for
//! it, shows in the ready queue of the core: the partition is in it as a floor at the chosen one's priority
//! ([`PriorityQueue::set_floor`](crate::queue::PriorityQueue::set_floor)). Whoever waits meets it.
//!
//! What always holds: a member has ASIDE unless it is its partition's chosen one; a partition has a channel while it has members, and that one's `partition` is
//! it.

use crate::arch::Arch;
use crate::pool::{ChannelRef, ThreadRef};
use crate::pulse::Node;
use crate::thread::State;
use crate::{Answer, Kernel, Stop};
use cairn_abi::service::scheduler;
use cairn_abi::{flag, Error, PortalKind};

/// Most partitions of a machine: they are gone through where time is.
pub const MOST: usize = 16;
/// In a thread's `stops`: it is a member and not chosen.
pub const ASIDE: u32 = 1 << 31;

#[derive(Clone, Copy)]
pub struct Partition {
    pub channel: Option<ChannelRef>,
    /// Its members, through their `members`.
    pub first: Option<ThreadRef>,
    pub chosen: Option<ThreadRef>,
    /// Where the chosen one runs, and the floor there (-1: none).
    pub core: u8,
    pub floor: i16,
    /// For so long a scheduler may stay away that was told something, in ns.
    pub bound: u64,
    /// DISPATCHes, and those seen when that began to count.
    pub comings: u32,
    seen: u32,
    /// When it is looked at next whether the scheduler has come; 0: it owes nothing.
    pub due: u64,
}

impl Partition {
    pub const NEW: Partition = Partition {
        channel: None,
        first: None,
        chosen: None,
        core: 0,
        floor: -1,
        bound: scheduler::BOUND,
        comings: 0,
        seen: 0,
        due: 0,
    };
}

impl<A: Arch> Kernel<A> {
    /// Is it kept from running, if not by its scheduler?
    #[inline(never)]
    pub(crate) fn is_halted(&self, t: ThreadRef) -> bool {
        let thread = &self.threads[t];
        thread.stops & !ASIDE | self.domains[thread.domain].stops != 0
    }

    /// SET_SCHEDULER: w0 slot of the scheduler's receive right (0: none any more), w1 badge, w2 bound in ns.
    #[inline(never)]
    pub(crate) fn set_scheduler(&mut self, t: ThreadRef, member: ThreadRef, w: [u64; 3]) -> Answer {
        if w[0] == 0 {
            if self.threads[member].partition == 0 {
                return Err(Error::BadArgument.into());
            }
            self.leave_partition(member);
            return Ok(());
        }
        let c = self.own_object(t, w[0], PortalKind::Receive, 0)?;
        let channel = &self.channels[c];
        if channel.dying {
            return Err(Error::Dead.into());
        }
        let number = match channel.partition {
            0 => {
                let free = self.partitions.iter().position(|p| p.channel.is_none());
                free.ok_or(Error::NoMemory)? as u8 + 1
            }
            number => number,
        };
        if self.threads[member].partition != 0 {
            self.leave_partition(member);
        }
        self.partitions_made = self.partitions_made.max(number as usize);
        self.channels[c].partition = number;
        let partition = &mut self.partitions[number as usize - 1];
        partition.channel = Some(c);
        if w[2] != 0 {
            partition.bound = w[2].max(scheduler::LEAST_BOUND);
        }
        let next = partition.first.replace(member);
        if let Some(next) = next {
            self.threads[next].members.previous = Some(member);
        }
        let thread = &mut self.threads[member];
        thread.members.next = next;
        thread.partition = number;
        thread.fallback = thread.assigned;
        thread.member_badge = w[1];
        thread.standing = scheduler::BLOCKED as u8;
        self.stand_down(member);
        self.answer(t, 0, self.threads.id(member) as u64);
        Ok(())
    }

    /// A member is not chosen any more.
    #[inline(never)]
    fn stand_down(&mut self, member: ThreadRef) {
        let thread = &mut self.threads[member];
        thread.stops |= ASIDE;
        let (number, standing) = (thread.partition, thread.standing);
        match (thread.state, thread.channel) {
            (State::Ready, _) => {
                self.detach(member);
                self.wake(member);
            }
            (State::Running, _) => {
                self.interrupt_running(member);
                self.dispatch.preempt |= self.dispatch.current == Some(member);
            }
            // Its scheduler has its call, will receive it, or answers it just now.
            (State::Held | State::Sending, c)
                if c.is_none_or(|c| self.channels[c].partition == number) => {}
            _ => {
                self.not_plain(member);
                if standing == scheduler::READY as u8 {
                    self.tell_scheduler(member, scheduler::BLOCKED);
                }
            }
        }
    }

    /// The thread has no scheduler any more, and its own priority.
    #[inline(never)]
    pub(crate) fn leave_partition(&mut self, member: ThreadRef) {
        self.pulse_withdraw(Node::Member(member));
        let thread = &mut self.threads[member];
        let number = core::mem::take(&mut thread.partition);
        let links = core::mem::take(&mut thread.members);
        thread.stops &= !ASIDE;
        if let Some(next) = links.next {
            self.threads[next].members.previous = links.previous;
        }
        let partition = &mut self.partitions[number as usize - 1];
        match links.previous {
            Some(previous) => self.threads[previous].members.next = links.next,
            None => partition.first = links.next,
        }
        if partition.chosen == Some(member) {
            partition.chosen = None;
            partition.floor = -1;
        }
        if let (None, Some(c)) = (partition.first, partition.channel) {
            *partition = Partition::NEW;
            self.channels[c].partition = 0;
        }
        self.set_own_priority(member, self.threads[member].fallback);
        let thread = &self.threads[member];
        if thread.affinity != thread.allowed {
            self.restrict(member, thread.allowed);
        }
        if self.threads[member].state == State::Aside {
            self.wake(member);
        }
    }

    /// The same for one that dies: its scheduler is told.
    #[inline(never)]
    pub(crate) fn member_ends(&mut self, member: ThreadRef) {
        let c = self.partition_of(member).channel;
        self.threads[member].state = State::Parked;
        self.leave_partition(member);
        if let Some(c) = c {
            self.threads[member].standing = scheduler::GONE as u8;
            if !self.channels[c].dying {
                self.pulse_post(c, Node::Member(member));
            }
        }
    }

    /// One of the members that a scheduler has who receives there.
    #[inline(never)]
    pub(crate) fn member_of(&self, c: ChannelRef) -> Option<ThreadRef> {
        let number = self.channels[c].partition.checked_sub(1)?;
        self.partitions[number as usize].first
    }

    #[inline(never)]
    fn set_own_priority(&mut self, t: ThreadRef, priority: u8) {
        self.restore_base(t);
        let thread = &mut self.threads[t];
        (thread.assigned, thread.base) = (priority, priority);
        self.refresh(t);
    }

    #[inline(never)]
    fn partition_of(&mut self, member: ThreadRef) -> &mut Partition {
        &mut self.partitions[self.threads[member].partition as usize - 1]
    }

    /// A member that is not chosen would be ready.
    #[inline(never)]
    pub(crate) fn step_aside(&mut self, member: ThreadRef) {
        let thread = &mut self.threads[member];
        thread.state = State::Aside;
        if thread.standing != scheduler::READY as u8 {
            self.tell_scheduler(member, scheduler::READY);
        }
    }

    /// Its scheduler is told, and must come within its bound.
    #[inline(never)]
    fn tell_scheduler(&mut self, member: ThreadRef, standing: u64) {
        self.threads[member].standing = standing as u8;
        let partition = self.partition_of(member);
        let Some(c) = partition.channel else {
            return;
        };
        if self.channels[c].dying {
            return;
        }
        if self.partition_of(member).due == 0 {
            let now = self.arch.now();
            let partition = self.partition_of(member);
            partition.seen = partition.comings;
            let due = now.saturating_add(partition.bound);
            partition.due = due;
            self.watch_end = self.watch_end.min(due);
            self.program_timer();
        }
        self.pulse_post(c, Node::Member(member));
    }

    /// The dispatcher met a floor of this height here. True: it was a partition's; what the chosen one does needs nobody here, and its scheduler is told so.
    #[inline(never)]
    pub(crate) fn partition_met(&mut self, floor: i16) -> bool {
        let here = self.cores.here as u8;
        let met = |p: &&mut Partition| p.core == here && p.floor == floor && floor >= 0;
        let Some(partition) = self.partitions[..self.partitions_made].iter_mut().find(met) else {
            return false;
        };
        partition.floor = -1;
        if let Some(member) = partition.chosen.take() {
            self.charge();
            let runs = matches!(self.threads[member].state, State::Ready | State::Running);
            let standing = if runs {
                scheduler::READY
            } else {
                scheduler::BLOCKED
            };
            self.tell_scheduler(member, standing);
            self.stand_down(member);
        }
        true
    }

    /// The highest floor of a partition here, -1 if there is none.
    #[inline(never)]
    pub(crate) fn partition_floor(&self) -> i16 {
        let here = self.cores.here as u8;
        let made = &self.partitions[..self.partitions_made];
        let floors = made.iter().filter(|p| p.core == here);
        floors.map(|p| p.floor).max().unwrap_or(-1)
    }

    /// The timer came for schedulers that were told something some time ago: one that has not come since is silent, and its members leave, one at each coming.
    #[cold]
    #[inline(never)]
    pub(crate) fn watch_schedulers(&mut self, now: u64) {
        self.watch_end = u64::MAX;
        for index in 0..self.partitions_made {
            let partition = &mut self.partitions[index];
            let (Some(c), false) = (partition.channel, partition.due == 0) else {
                continue;
            };
            if partition.due <= now {
                if self.channels[c].receivers.first().is_some() {
                    partition.due = 0;
                    continue;
                }
                if partition.comings == partition.seen {
                    if let Some(member) = partition.first {
                        self.leave_partition(member);
                    }
                } else {
                    partition.seen = partition.comings;
                    partition.due = now.saturating_add(partition.bound);
                }
            }
            if let due @ 1.. = self.partitions[index].due {
                self.watch_end = self.watch_end.min(due);
            }
        }
    }

    /// The most frequent kind of DISPATCH: `t`, which works for the chosen member, answers a member with words alone and chooses that one. If it is another one
    /// the turn is that one's from now on: the call of the one before is put off, and `t` works for the next. What remains to be done is a reply to whom `t`
    /// works for, and a receive. False: nothing was done.
    #[inline(never)]
    pub(crate) fn pass_turn(&mut self, t: ThreadRef, c: ChannelRef) -> bool {
        const MORE: u64 = flag::PARTS | flag::PORTALS_MASK | flag::POLL;
        let thread = &self.threads[t];
        let (token, base) = (thread.registers.rbp, thread.base);
        let rare = thread.registers.r15
            | thread.registers.rax & MORE
            | (thread.registers.rbx ^ token & u32::MAX as u64);
        let (Some(before), Some(member)) = (thread.client, self.threads.place_of(token as u32))
        else {
            return false;
        };
        let channel = &mut self.channels[c];
        let number = channel.partition.wrapping_sub(1) as usize;
        let Some(partition) = self.partitions.get_mut(number) else {
            return false;
        };
        let level = base.wrapping_sub(1);
        // (Who is ready at the members' level has its turn first.)
        if rare != 0
            || partition.chosen != Some(before)
            || partition.floor != level as i16
            || !self.threads[member].stands_at(level)
            || self.dispatch.ready.first().is_some()
        {
            return false;
        }
        if member != before {
            let (from, to) = self.threads.pair(before, member);
            if from.channel != Some(c)
                || to.channel != Some(c)
                || to.token != token
                || !to.put_off
                || to.server.is_some()
                || to.partition != from.partition
                || !from.stands_at(level)
                || from.client.is_some()
            {
                return false;
            }
            // It paid until here.
            let now = self.arch.ticks();
            let spent = now.saturating_sub(self.dispatch.since);
            self.dispatch.since = now;
            from.ticks += spent;
            self.domains[from.domain].ticks += spent;
            from.server = None;
            from.put_off = true;
            from.stops |= ASIDE;
            to.put_off = false;
            to.stops &= !ASIDE;
            to.server = Some(t);
            partition.chosen = Some(member);
            channel.held.remove(&mut self.threads, member);
            channel.held.push_front(&mut self.threads, before);
            self.threads[t].client = Some(member);
        }
        partition.comings = partition.comings.wrapping_add(1);
        self.threads[t].behalf = u8::MAX;
        true
    }

    /// DISPATCH.
    #[inline(never)]
    pub(crate) fn dispatch_member(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let registers = &self.threads[t].registers;
        let (rax, token, id, until) = (registers.rax, registers.rbp, registers.rbx, registers.r15);
        let number = self.channels[c].partition;
        if rax & flag::PARTS != 0 || self.threads[t].partition == number && number != 0 {
            return Err(Error::BadArgument.into());
        }
        let mut member = None;
        if id != 0 {
            let found = u32::try_from(id)
                .ok()
                .and_then(|id| self.threads.lookup(id));
            member = found.filter(|&m| number != 0 && self.threads[m].partition == number);
            let Some(member) = member else {
                return Err(Error::BadArgument.into());
            };
            let here = 1 << self.cores.here;
            if self.threads[t].base == 0 || self.threads[member].allowed & here == 0 {
                return Err(Error::BadArgument.into());
            }
        }
        if until != 0 {
            self.threads[t].deadline = until;
        }
        if number != 0 {
            self.choose_member(t, number, member);
        }
        if token != 0 {
            self.reply(t, c)?;
        }
        let answer = self.receive(t, c);
        if answer == Err(Stop::Restart) {
            // What was done is not done again.
            self.threads[t].registers.rbp = 0;
        }
        answer
    }

    /// The members of this partition take turns: this one's comes.
    #[inline(never)]
    fn choose_member(&mut self, t: ThreadRef, number: u8, member: Option<ThreadRef>) {
        let here = self.cores.here as u8;
        let partition = &mut self.partitions[number as usize - 1];
        partition.comings = partition.comings.wrapping_add(1);
        partition.core = here;
        partition.floor = -1;
        let before = core::mem::replace(&mut partition.chosen, member);
        if before != member {
            if let Some(before) = before {
                self.stand_down(before);
            }
        }
        let Some(member) = member else {
            return;
        };
        let level = self.threads[t].base - 1;
        let thread = &mut self.threads[member];
        thread.stops &= !ASIDE;
        if thread.assigned != level || thread.base != level {
            self.set_own_priority(member, level);
        }
        if self.several() && self.threads[member].affinity != 1 << here {
            self.restrict(member, 1 << here);
        }
        // What it does for others may be less important.
        let floor = self.threads[member].effective.min(level) as i16;
        self.partitions[number as usize - 1].floor = floor;
        self.dispatch.ready.raise_floor(floor);
        // Who is asked for something less important meets it at once.
        self.dispatch.preempt |= floor > self.threads[t].effective as i16;
        if self.threads[member].state == State::Aside {
            self.wake(member);
        }
    }
}
