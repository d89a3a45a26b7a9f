//! Domains: a space, a portal table, threads, and what others may do to them.
//!
//! Life: made by `vm`; *dead* when the last thread ends, when an exception is not handled, or when DESTROY begins; *empty* when all threads and portals
//! are gone; its object goes when nobody holds a portal to it and its death has been told.

use crate::arch::Arch;
use crate::partition::ASIDE;
use crate::pool::{DomainRef, Pool, SpaceRef, ThreadRef};
use crate::portal::table::{Entry, Table, Target};
use crate::portal::{CLOSE_SHARE, SLOT_SHARE};
use crate::pulse::PulseLink;
use crate::queue::List;
use crate::space::Space;
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::USER_TOP;
use cairn_abi::service::{domain, thread, AUTO};
use cairn_abi::state::Registers;
use cairn_abi::{death, policy, priority, rights, Error, PortalKind};
use core::ops::Range;

// The table after what is used often, as in [`crate::channel::Channel`].
#[repr(C)]
pub struct Domain<A: Arch> {
    pub space: SpaceRef,
    /// Root of the space, and as the processor wants it.
    pub root: A::Root,
    pub table_base: u64,
    /// Id and label as receivers see them.
    pub id: u32,
    pub label: u64,
    pub turn_base: u64,
    pub turn_entry: u64,
    pub upcall_entry: u64,
    /// Its threads have floating-point registers and FS and GS bases of their own. Those of others must leave these alone.
    pub float: bool,
    /// Highest priority that its threads may ask for.
    pub ceiling: u8,
    pub dead: bool,
    pub empty: bool,
    /// On the list of those that nobody holds.
    pub buried: bool,
    /// Non-zero: its threads do not run.
    pub stops: u32,
    pub live: u32,
    /// Entries with code of their own.
    pub blocks: u32,
    /// Not 0: its threads are not called without a look at it ([`Kernel::domain_changed`]).
    pub unusual: u32,
    /// The same without [`Domain::float`] as a reason.
    pub unusual_beside: u32,
    pub first_thread: Option<ThreadRef>,
    /// Threads that would be ready.
    pub stopped: List,
    pub holders: u32,
    pub table: Table<A>,
    /// Id of the channel that hears of its death.
    pub watch_channel: u32,
    pub watch_badge: u64,
    pub pulse: PulseLink,
    /// Who hears of its death works for that at this priority: that of whoever ended it, at least an ordinary program's.
    pub death_priority: u8,
    pub death_reason: u64,
    pub death_detail: u64,
    pub ticks: u64,
    /// Next in the graveyard.
    pub next_dead: Option<DomainRef>,
    /// Where closing goes on.
    pub cursor: u32,
}

/// Threads that one entry kills or continues.
const THREAD_SHARE: usize = 16;
/// Slots that are looked over at a time.
const GLANCE: u32 = 32;
/// Entries that TABLE_COPY copies before interrupts are let in; closing one, or such a glance that finds nothing, counts as several.
const COPY_WORK: u32 = 4;
const CLOSE_WORK: u32 = 8;
const GLANCE_WORK: u32 = 4;
/// Entries that lead where others lead as well and are closed before interrupts are let in.
const SHARED_WORK: u32 = 8;

/// Does a copy of the table have it?
fn inherited(target: &Target) -> bool {
    target.rights() & (rights::INHERIT | rights::ONCE) == rights::INHERIT
}

/// Is this slot passed over? The words are about the slots of one share.
fn is_omitted(words: &[u64; 6], slot: u32) -> bool {
    let word = words.get((slot % SLOT_SHARE / 64) as usize);
    word.is_some_and(|word| word >> (slot % 64) & 1 != 0)
}

impl<A: Arch> Domain<A> {
    /// Do its threads' priorities end below those of servers?
    #[inline]
    pub(crate) fn is_program(&self) -> bool {
        self.ceiling < priority::SERVER
    }
}

impl<A: Arch> Kernel<A> {
    /// What domains begin as.
    const NEW_DOMAIN: Domain<A> = Domain {
        table: Table::new(),
        space: Pool::<SpaceRef, Space<A::Root>>::FIRST,
        root: A::NO_ROOT,
        table_base: 0,
        id: 0,
        label: 0,
        turn_base: 0,
        turn_entry: 0,
        upcall_entry: 0,
        float: true,
        ceiling: 0,
        dead: false,
        empty: false,
        buried: false,
        stops: 0,
        live: 0,
        blocks: 0,
        unusual: 1,
        unusual_beside: 0,
        first_thread: None,
        stopped: List::NEW,
        holders: 0,
        watch_channel: 0,
        watch_badge: 0,
        pulse: PulseLink::new(),
        death_priority: 0,
        death_reason: 0,
        death_detail: 0,
        ticks: 0,
        next_dead: None,
        cursor: 0,
    };

    /// A domain that uses `space`, with a table of one frame from the space's reserve and slot 0 filled.
    pub(crate) fn domain_create(
        &mut self,
        space: SpaceRef,
        ceiling: u8,
    ) -> Result<DomainRef, Error> {
        if !self.domains.room(1) {
            return Err(Error::NoMemory);
        }
        let root = self.spaces[space].root.ok_or(Error::NoTable)?;
        let frame = self
            .arch
            .list_take(&mut self.spaces[space].tables)
            .ok_or(Error::NoTable)?;
        let d = self
            .domains
            .insert(Self::NEW_DOMAIN)
            .ok_or(Error::NoMemory)?;
        let id = self.domains.id(d);
        let domain = &mut self.domains[d];
        domain.space = space;
        domain.root = root;
        domain.table_base = A::table_base(root);
        domain.id = id;
        domain.ceiling = ceiling;
        let table = &mut domain.table;
        table.grow(&mut self.arch, frame);
        table.install(0, Target::new(PortalKind::Current, 0, rights::CALL));
        self.spaces[space].domains += 1;
        Ok(d)
    }

    /// May its threads be called without a look at the domain? Not if they are stopped, or do not leave the floating-point registers and bases of their callers alone,
    /// or if calls of theirs are turned round.
    #[inline(never)]
    pub(crate) fn domain_changed(&mut self, d: DomainRef) {
        let domain = &mut self.domains[d];
        let beside = domain.stops != 0 || domain.turn_base != 0;
        domain.unusual_beside = beside as u32;
        domain.unusual = (beside || domain.float) as u32;
    }

    /// What the processor has loaded of this domain is out of date.
    fn reload(&mut self, d: DomainRef) {
        if self.dispatch.loaded_domain == Some(d) {
            self.dispatch.loaded_domain = None;
            self.charge();
            self.dispatch.loaded = None;
        }
        if self.several() {
            self.reload_elsewhere(d);
        }
    }

    /// One share of taking a dead domain apart; for `caller`, if it is an operation of one, which may as well begin anew. True when it is empty.
    fn dismantle(&mut self, d: DomainRef, caller: Option<ThreadRef>) -> Result<bool, Stop> {
        if self.domains[d].empty {
            return Ok(true);
        }
        let (mut looked, mut closed) = (0, 0);
        for _ in 0..THREAD_SHARE {
            let Some(t) = self.domains[d].first_thread else {
                break;
            };
            self.end_thread(t);
            if self.has_to_end(caller) {
                return Ok(false);
            }
        }
        if self.domains[d].first_thread.is_some() {
            return Ok(false);
        }
        let high = self.domains[d].table.high();
        while looked < SLOT_SHARE && closed < CLOSE_SHARE {
            let before = self.domains[d].cursor;
            let shared = self.close_shared(d);
            let cursor = self.domains[d].cursor;
            closed += shared;
            looked += cursor - before;
            if shared != 0 && self.has_to_end(caller) {
                return Ok(false);
            }
            if shared == SHARED_WORK {
                continue;
            }
            let stop = high.min(cursor + GLANCE);
            let Some((slot, target)) = self.domains[d].table.next_used(cursor, stop) else {
                self.domains[d].cursor = stop;
                if stop == high {
                    break;
                }
                looked += GLANCE;
                continue;
            };
            match self.close(d, slot, target) {
                Ok(()) => {}
                Err(Stop::Restart) => return Ok(false),
                Err(stop) => return Err(stop),
            }
            closed += 1;
            looked += slot + 1 - cursor;
            self.domains[d].cursor = slot + 1;
            if self.has_to_end(caller) {
                return Ok(false);
            }
        }
        if self.domains[d].cursor < high {
            return Ok(false);
        }
        let space = self.domains[d].space;
        while let Some(frame) = self.domains[d].table.shrink() {
            self.arch.list_push(&mut self.spaces[space].tables, frame);
        }
        self.domains[d].empty = true;
        self.spaces[space].domains -= 1;
        self.reload(d);
        self.release_space_object(space);
        Ok(true)
    }

    /// Close the next entries of a dying table that are portals which others hold as well, as most of a program's are; how many.
    #[inline(never)]
    fn close_shared(&mut self, d: DomainRef) -> u32 {
        let (domain, portals, blocks) = (&mut self.domains[d], &mut self.portals, &mut self.blocks);
        let end = domain.table.high().min(domain.cursor + GLANCE);
        let given_back = &mut domain.blocks;
        let goes = |entry: &Entry| {
            if entry.target.kind() != PortalKind::Channel {
                return false;
            }
            let portal = portals.at_mut(entry.target);
            if portal.holders == 1 {
                return false;
            }
            portal.holders -= 1;
            if let Some(b) = A::block_of(entry.code).and_then(|index| blocks.nth(index)) {
                blocks.remove(b);
                *given_back -= 1;
            }
            true
        };
        let (cursor, closed) = domain.table.drop_row(domain.cursor, end, SHARED_WORK, goes);
        domain.cursor = cursor;
        closed
    }

    /// Let interrupts in between two shares. True: the entry has to end.
    #[inline(never)]
    fn has_to_end(&mut self, caller: Option<ThreadRef>) -> bool {
        match caller {
            Some(t) => self.let_in(t),
            None => self.arch.interrupt_waits(),
        }
    }

    /// Free the object if nothing refers to it any more; a domain that nobody holds and in which nothing runs goes to the graveyard first.
    pub(crate) fn release_domain_object(&mut self, d: DomainRef) {
        let domain = &self.domains[d];
        if domain.holders != 0 || domain.live != 0 && !domain.dead {
            return;
        }
        if domain.empty {
            if !domain.pulse.is_queued() && !domain.buried {
                self.channel_forget(domain.watch_channel);
                self.domains.remove(d);
            }
        } else if !domain.buried {
            let next = self.graveyard.replace(d);
            let domain = &mut self.domains[d];
            domain.buried = true;
            domain.next_dead = next;
            self.program_timer();
        }
    }

    /// One share of the graveyard.
    pub(crate) fn bury(&mut self) {
        let Some(d) = self.graveyard else {
            return;
        };
        if !self.domains[d].dead {
            self.die(d, death::KILLED, 0);
        }
        if matches!(self.dismantle(d, None), Ok(true)) {
            // Others may have joined in front meanwhile: then this one's turn comes again.
            if self.graveyard == Some(d) {
                self.graveyard = self.domains[d].next_dead.take();
                self.domains[d].buried = false;
                self.release_domain_object(d);
            }
        }
    }

    /// Operations of a domain portal.
    pub(crate) fn domain_service(&mut self, t: ThreadRef, target: Target, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        let d = self.domains.of(target);
        let own = self.threads[t].domain == d;
        let control = target.may(rights::CONTROL);
        let poke = operation == domain::THREAD_CONTROL && w[1] == thread::POKE as u64;
        let allowed = match operation {
            domain::INFO => true,
            domain::THREAD_CREATE | domain::KILL_OTHERS | domain::CLOSE_ON_EXEC => control || own,
            domain::THREAD_CONTROL => control || own && poke,
            _ => control,
        };
        if !allowed {
            return Err(Error::NoRight.into());
        }
        let alive = !matches!(operation, domain::DESTROY | domain::INFO | domain::WATCH);
        if alive && self.domains[d].dead {
            return Err(Error::Dead.into());
        }
        match operation {
            domain::THREAD_CREATE => self.domain_thread_create(t, d, w),
            domain::PORTAL_PUT | domain::PORTAL_TAKE => {
                let here = self.threads[t].domain;
                let takes = operation == domain::PORTAL_TAKE;
                let (from, to) = if takes { (d, here) } else { (here, d) };
                let table = &self.domains[from].table;
                let source = table.target(w[0]).ok_or(Error::BadPortal)?;
                // Others' rights to call can be taken, but for those to a single use.
                let goes = match takes {
                    true => source.kind() == PortalKind::Channel && !source.may(rights::ONCE),
                    false => !crate::portal::is_bound(source.kind()),
                };
                if !goes || !source.may(rights::PASS) {
                    return Err(Error::NoRight.into());
                }
                if own && w[0] == w[1] {
                    return Err(Error::BadArgument.into());
                }
                // A single use stays one.
                let kept = w[2] as u16 | rights::ONCE;
                self.place_copy(t, w, source, to, source.with(source.rights() & kept))
            }
            domain::TABLE_COPY => self.table_copy(t, d, w),
            domain::SET_TURN => {
                // A return to an address that is not canonical would fault in the nucleus.
                if w[1] >= USER_TOP || w[2] >= USER_TOP {
                    return Err(Error::BadArgument.into());
                }
                self.uncompile_all(d);
                let domain = &mut self.domains[d];
                domain.turn_base = w[0];
                domain.turn_entry = w[1];
                domain.upcall_entry = w[2];
                self.domain_changed(d);
                self.reload(d);
                Ok(())
            }
            domain::SET_LABEL => {
                self.domains[d].label = w[0];
                Ok(())
            }
            domain::WATCH => {
                let c = self.own_object(t, w[0], PortalKind::Receive, 0)?;
                let channel = self.channel_refer(c);
                let before = core::mem::replace(&mut self.domains[d].watch_channel, channel);
                self.channel_forget(before);
                self.domains[d].watch_badge = w[1];
                // Who comes too late is told at once.
                if self.domains[d].dead && !self.channels[c].dying {
                    self.pulse_post(c, crate::pulse::Node::Domain(d));
                }
                Ok(())
            }
            domain::DESTROY => {
                self.die(d, death::KILLED, w[0]);
                let done = self.dismantle(d, Some(t))?;
                if self.dispatch.current != Some(t) {
                    return Err(Stop::Left);
                }
                if done {
                    Ok(())
                } else {
                    Err(Error::Again.into())
                }
            }
            domain::INFO => {
                self.charge();
                let domain = &self.domains[d];
                let space = if domain.empty {
                    0
                } else {
                    self.object_id(Target::to(PortalKind::Space, domain.space, 0))
                };
                let answer = [
                    domain.id as u64,
                    domain.live as u64,
                    domain.table.used() as u64,
                    self.arch.ticks_to_ns(domain.ticks),
                    space,
                    domain.table.entries() as u64,
                    domain.float as u64,
                ];
                self.answers(t, &answer);
                Ok(())
            }
            domain::SET_SPACE => {
                let space = self.space_at(t, w[0])?;
                let Some(root) = self.spaces[space].root else {
                    return Err(Error::NoTable.into());
                };
                // What others see of its callers, and it of others, belongs to the old space.
                self.tear_all(self.domains[d].space)?;
                let old = core::mem::replace(&mut self.domains[d].space, space);
                self.domains[d].root = root;
                self.domains[d].table_base = A::table_base(root);
                self.spaces[space].domains += 1;
                self.spaces[old].domains -= 1;
                self.reload(d);
                self.release_space_object(old);
                Ok(())
            }
            domain::STOP => {
                let stops = self.domains[d].stops.checked_add(1);
                self.domains[d].stops = stops.ok_or(Error::BadArgument)?;
                self.domain_changed(d);
                self.dispatch.preempt = true;
                self.interrupt_domain(d);
                Ok(())
            }
            domain::CONTINUE => self.domain_continue(t, d, w[7]),
            domain::KILL_OTHERS => self.kill_others(t, d, w[0] as u32),
            domain::CLOSE_ON_EXEC => self.close_on_exec(t, d, w[0]),
            domain::CONFIGURE => {
                let ceiling = self.domains[self.threads[t].domain].ceiling;
                if w[0] > 1 || w[1] > ceiling as u64 {
                    return Err(Error::BadArgument.into());
                }
                self.domains[d].float = w[0] == 1;
                self.domain_changed(d);
                self.domains[d].ceiling = w[1] as u8;
                self.reload(d);
                Ok(())
            }
            domain::THREAD_CONTROL => {
                let target = self.thread_in(d, w[0])?;
                let operation = u8::try_from(w[1]).map_err(|_| Error::BadOperation)?;
                self.thread_service(t, target, operation, [w[2], w[3], w[4]])
            }
            domain::PORTAL_REMOVE => {
                if w[0] == 0 {
                    return Err(Error::BadArgument.into());
                }
                let removed = self.domains[d].table.target(w[0]).ok_or(Error::BadPortal)?;
                self.close(d, w[0] as u32, removed)
            }
            _ => Err(Error::BadOperation.into()),
        }
    }

    /// A live thread of a domain by its id.
    pub(crate) fn thread_in(&self, d: DomainRef, id: u64) -> Result<ThreadRef, Error> {
        let id = u32::try_from(id).map_err(|_| Error::BadArgument)?;
        let t = self.threads.lookup(id).ok_or(Error::BadArgument)?;
        let thread = &self.threads[t];
        if thread.state == crate::thread::State::Dead || thread.domain != d {
            return Err(Error::BadArgument);
        }
        Ok(t)
    }

    fn domain_thread_create(&mut self, t: ThreadRef, d: DomainRef, w: [u64; 8]) -> Answer {
        let own = self.threads[t].domain;
        let (priority, policy) = match w[5] {
            AUTO => (self.threads[t].assigned as u64, policy::ROUND_ROBIN),
            given => (given & 0xff, given >> 8),
        };
        if priority > self.domains[own].ceiling as u64 || policy > policy::ADAPTIVE {
            return Err(Error::BadArgument.into());
        }
        if !self.threads.room(1) {
            return Err(Error::NoMemory.into());
        }
        let slot = if w[6] == 0 {
            None
        } else {
            Some(self.make_place(own, w[6])?)
        };
        let registers = Registers {
            rip: w[0],
            rsp: w[1],
            rdi: w[2],
            fs_base: w[3],
            gs_base: w[4],
            ..Registers::default()
        };
        let thread = self.thread_create(d, registers, priority as u8)?;
        self.threads[thread].set_policy(policy);
        if d == own {
            self.threads[thread].affinity = self.threads[t].affinity;
            self.threads[thread].allowed = self.threads[t].allowed;
        }
        if let Some(slot) = slot {
            let all = rights::CALL | rights::PASS | rights::CONTROL;
            self.place(own, slot, Target::to(PortalKind::Thread, thread, all));
        }
        let id = self.threads.id(thread);
        self.answer(t, 0, slot.unwrap_or(0) as u64);
        self.answer(t, 1, id as u64);
        Ok(())
    }

    fn table_copy(&mut self, t: ThreadRef, d: DomainRef, w: [u64; 8]) -> Answer {
        let [source, first, omitted @ ..] = w;
        let source = self.own_object(t, source, PortalKind::Domain, rights::CONTROL)?;
        if self.domains[source].dead {
            return Err(Error::Dead.into());
        }
        if source == d {
            return Err(Error::BadArgument.into());
        }
        let len = self.domains[source].table.entries();
        let first = u32::try_from(first)
            .ok()
            .filter(|&first| first < len)
            .ok_or(Error::BadArgument)?;
        let used = self.domains[source].table.high();
        // The words that say what is passed over are about one share.
        let end = (first - first % SLOT_SHARE + SLOT_SHARE).min(used);
        let (mut work, mut next) = (0, first.max(1));
        self.open(t);
        while next < end {
            if work >= COPY_WORK {
                self.answer(t, 1, next as u64);
                if self.let_in(t) {
                    return Err(Stop::Restart);
                }
                work = 0;
            }
            let stop = end.min(next + GLANCE);
            let (reached, copied) = self.copy_row(source, d, next..stop, &omitted);
            next = reached;
            work += copied.max(GLANCE_WORK);
            if next == stop || copied == COPY_WORK {
                continue;
            }
            // Where it stopped is something less plain, or the end of a frame.
            let stopped = self.domains[source].table.target(next as u64);
            let wanted = |target: &Target| inherited(target) && !is_omitted(&omitted, next);
            if let Some(target) = stopped.filter(wanted) {
                self.copy_entry(t, d, next, target)?;
            }
            next += 1;
        }
        // Nothing above is in use: done.
        self.answer(t, 0, if end < used { end as u64 } else { 0 });
        Ok(())
    }

    /// Copy the next entries of these slots that are inherited portals to slots where nothing is, as most are; → where that ended, and how many were copied.
    #[inline(never)]
    fn copy_row(
        &mut self,
        source: DomainRef,
        d: DomainRef,
        slots: Range<u32>,
        omitted: &[u64; 6],
    ) -> (u32, u32) {
        let (source, d) = self.domains.pair(source, d);
        let (mut next, mut copied) = (slots.start, 0);
        for entry in source.table.row(slots.start, slots.end) {
            let target = entry.target;
            if inherited(&target) && !is_omitted(omitted, next) {
                let plain = target.kind() == PortalKind::Channel && d.table.is_empty(next);
                if copied == COPY_WORK || !plain {
                    break;
                }
                self.portals.at_mut(target).holders += 1;
                d.table.install(next, target);
                copied += 1;
            }
            next += 1;
        }
        (next, copied)
    }

    /// The target of another domain's entry becomes one of this domain's in the same slot.
    fn copy_entry(&mut self, t: ThreadRef, d: DomainRef, slot: u32, target: Target) -> Answer {
        if slot >= self.domains[d].table.entries() {
            self.answer(t, 0, slot as u64);
            return Err(Error::NoSlot.into());
        }
        if let Some(old) = self.domains[d].table.target(slot as u64) {
            self.close(d, slot, old)?;
        }
        self.place(d, slot, target);
        Ok(())
    }

    /// The first entry counts the stop down; when the last is gone the threads continue in shares (w7 of a program that starts is 0).
    fn domain_continue(&mut self, t: ThreadRef, d: DomainRef, going_on: u64) -> Answer {
        const GOING_ON: u64 = 1;
        if going_on != GOING_ON {
            let stops = self.domains[d].stops.checked_sub(1);
            self.domains[d].stops = stops.ok_or(Error::BadArgument)?;
            self.domain_changed(d);
        }
        let mut share = THREAD_SHARE;
        let mut kept = List::default();
        while self.domains[d].stops == 0 && share != 0 {
            let Some(thread) = self.domains[d].stopped.first() else {
                break;
            };
            share -= 1;
            if self.threads[thread].stops & !ASIDE == 0 {
                self.unstop(thread);
            } else {
                // Stopped for itself as well: behind the others, and not looked at twice in this share.
                self.domains[d].stopped.remove(&mut self.threads, thread);
                kept.push_back(&mut self.threads, thread);
            }
        }
        let more = share == 0 && self.domains[d].stopped.first().is_some();
        while let Some(thread) = kept.first() {
            kept.remove(&mut self.threads, thread);
            self.domains[d].stopped.push_back(&mut self.threads, thread);
        }
        if more {
            self.answer(t, 7, GOING_ON);
            return Err(Stop::Restart);
        }
        self.answer(t, 7, 0);
        Ok(())
    }

    fn kill_others(&mut self, t: ThreadRef, d: DomainRef, keep: u32) -> Answer {
        let keep = self.thread_in(d, keep as u64)?;
        for _ in 0..THREAD_SHARE {
            let Some(thread) = self.another_thread(d, keep) else {
                return Ok(());
            };
            self.end_thread(thread);
            if self.dispatch.current.is_none() {
                // The caller was one of them.
                return Err(Stop::Left);
            }
            if self.let_in(t) {
                break;
            }
        }
        match self.another_thread(d, keep) {
            Some(_) => Err(Error::Again.into()),
            None => Ok(()),
        }
    }

    /// A thread of the domain beside this one of its.
    fn another_thread(&self, d: DomainRef, keep: ThreadRef) -> Option<ThreadRef> {
        match self.domains[d].first_thread {
            Some(first) if first == keep => self.threads[first].siblings.next,
            first => first,
        }
    }

    /// A step to the end of a thread: one of the windows that show its pages closes, or it dies. True: it is dead.
    pub(crate) fn end_thread(&mut self, t: ThreadRef) -> bool {
        let dies = !self.close_window_first(t);
        if dies {
            self.kill(t, death::KILLED, 0);
        }
        dies
    }

    fn close_on_exec(&mut self, t: ThreadRef, d: DomainRef, first: u64) -> Answer {
        let len = self.domains[d].table.entries() as u64;
        if first >= len {
            return Err(Error::BadArgument.into());
        }
        let first = (first as u32).max(1);
        let used = self.domains[d].table.high();
        let end = (first + SLOT_SHARE).min(used);
        let (mut work, mut next) = (0, first);
        while next < end {
            if work >= COPY_WORK {
                self.answer(t, 0, next as u64);
                if self.let_in(t) {
                    return Err(Stop::Restart);
                }
                work = 0;
            }
            let stop = end.min(next + GLANCE);
            let marked = Target::EMPTY.with(rights::CLOEXEC);
            let table = &self.domains[d].table;
            let Some((slot, target)) = table.next_with(next, stop, marked) else {
                next = stop;
                work += GLANCE_WORK;
                continue;
            };
            self.close(d, slot, target)?;
            next = slot + 1;
            work += CLOSE_WORK;
        }
        self.answer(t, 0, if next < used { next as u64 } else { 0 });
        Ok(())
    }

    /// Move a frame of the space's reserve into the table.
    pub(crate) fn grow_table(&mut self, d: DomainRef) -> Result<(), Error> {
        if self.domains[d].dead {
            return Err(Error::Dead);
        }
        if self.domains[d].table.is_full_size() {
            return Err(Error::BadArgument);
        }
        let space = self.domains[d].space;
        let frame = self
            .arch
            .list_take(&mut self.spaces[space].tables)
            .ok_or(Error::NoTable)?;
        self.domains[d].table.grow(&mut self.arch, frame);
        Ok(())
    }

    /// What a service of `t`'s has made is in this slot of its.
    #[inline(never)]
    pub(crate) fn place_made(&mut self, t: ThreadRef, slot: u32, made: Target) {
        self.place(self.threads[t].domain, slot, made);
        self.answer(t, 0, slot as u64);
    }

    /// A slot that automatic choice may take exists (for services that must not fail later).
    #[inline(never)]
    pub(crate) fn check_slot(&self, t: ThreadRef, slot: u64) -> Result<(), Error> {
        let table = &self.domains[self.threads[t].domain].table;
        if slot == AUTO {
            return table.next_free().map(|_| ()).ok_or(Error::NoSlot);
        }
        if slot == 0 || slot >= table.entries() as u64 {
            return Err(Error::BadArgument);
        }
        Ok(())
    }
}
