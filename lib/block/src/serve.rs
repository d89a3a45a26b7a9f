//! The driver's side, the same for all drivers: sessions, the check of what clients ask for, and who is next. A driver adds a [`Backend`].
//!
//! What always holds: what the backend gets lies on the disk, within the part that the session is for, and fits its pages; each order comes back once, and is then told to the session that asked for it, if that still exists.
//! Nothing is begun while orders of a session that ended are under way: who comes in the place of a client that died must find the disk as it will stay.

use crate::partition::Partition;
use crate::rings::{self, LIST};
use crate::tally::Tallies;
use crate::{Info, Kind, Outcome, SECTOR};
use alloc::vec::Vec;
use cairn_idl::block::{
    self, properties, AttachAnswer, Counts, InfoAnswer, PartitionAnswer, BADGE_DISK,
    BADGE_SESSION_FIRST, CHANGED, COME_OUT, PAGES,
};
use cairn_idl::errno::*;
use cairn_idl::wire::{Caller, Errno, Given, Out};
use cairn_queue::{Part, Receiver, Sender};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// Most sessions, and most orders that the backend has.
pub const SESSIONS: usize = 16;
pub const TAGS: usize = 64;
/// A bit of a word for each.
const _: () = assert!(TAGS == u64::BITS as usize);
/// With so many orders the backend has enough to do: what is asked for meanwhile is begun when one of them comes out.
const ENOUGH: usize = 8;
/// Most bytes of a table of partitions.
const TABLE: usize = 3072;
/// In place of a session's badge: an order of the driver's own.
const OWN: u64 = 0;

/// What does the work.
pub trait Backend {
    /// What the disk is; `most_requests` of these may be under way, at most [`TAGS`].
    fn info(&self) -> Info;
    /// Begin with an order. It comes out by [`Disk::done`] with its tag; false: it cannot be begun (its pages are not there), and has failed.
    fn start(&mut self, tag: usize, order: &Order) -> bool;
    /// The first pages of an arena stay what they are until [`Backend::unfix`], so what it takes to reach them may be done once.
    fn fix(&mut self, _arena: u32, _pages: u32) {}
    /// The arena's session is over. What of it is under way goes on.
    fn unfix(&mut self, _arena: u32) {}
}

/// A backend that has done an order when [`Backend::start`] comes back.
pub trait AtOnce: Backend {
    /// One that was done.
    fn completed(&mut self) -> Option<(usize, Outcome)>;
}

/// A request that was checked; sectors are the disk's. `arena` is the portal through which its pages are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order<'a> {
    pub kind: Kind,
    pub sector: u64,
    pub bytes: u64,
    pub arena: u32,
    pub pages: &'a [u32],
    pub offset: u32,
    /// See [`crate::Request::kept`].
    pub kept: u32,
}

/// What is needed of the system.
pub trait System {
    type Memory: Deref<Target = [AtomicU64]>;
    /// Fresh zeroes, so many words at least, that another domain can map by the portal.
    fn rings(&mut self, words: usize) -> Option<(Self::Memory, u32)>;
    /// A portal to the driver's own channel.
    fn portal(&mut self, badge: u64) -> Option<u32>;
    fn notify(&mut self, portal: u32, bits: u64);
    /// Nanoseconds since some moment.
    fn now(&mut self) -> u64;
    fn close(&mut self, portal: u32);
}

pub(crate) struct Session<M> {
    pub badge: u64,
    /// Its part of the disk (0: all of it), where that begins, and what it is.
    pub part: u64,
    pub first: u64,
    pub info: Info,
    asked: Receiver<Part<M>>,
    done: Sender<Part<M>>,
    pub bell: u32,
    arena: u32,
}

/// Whose an order is: the session's badge, and the client's name for it.
#[derive(Clone, Copy)]
struct Job {
    session: u64,
    slot: u64,
    /// For the tallies: the part of the disk, what is done, and since when.
    part: u64,
    kind: Kind,
    sectors: u64,
    begun: u64,
    /// When it was first seen under way.
    since: Option<u64>,
}

pub struct Disk<B, S: System> {
    pub backend: B,
    pub system: S,
    pub(crate) partitions: Vec<Partition>,
    tallies: Tallies,
    /// At most [`SESSIONS`]; the last one is there.
    pub(crate) sessions: Vec<Option<Session<S::Memory>>>,
    jobs: [Option<Job>; TAGS],
    /// Those without one, a bit each.
    free: u64,
    under_way: usize,
    /// Of these, how many were asked for by sessions that have ended.
    left_behind: usize,
    /// The next session's badge.
    next: u64,
    /// Whose turn it is.
    turn: usize,
    /// The pages of the request that is being taken, as they travel and as numbers.
    list: [u8; LIST],
    pages: [u32; PAGES],
}

/// Who has the whole disk may serve its partitions to others, as `devfs` does: what it asks for counts for the one in which it begins.
fn counted_for(part: u64, sector: u64, bytes: u64, partitions: &[Partition]) -> u64 {
    if part != BADGE_DISK || bytes == 0 {
        return part;
    }
    let is_there = |it: &&Partition| sector.wrapping_sub(it.first) < it.sectors;
    let found = partitions.iter().find(is_there);
    found.map_or(BADGE_DISK, |it| it.number.into())
}

impl<B: Backend, S: System> Disk<B, S> {
    pub fn new(backend: B, system: S, partitions: Vec<Partition>) -> Disk<B, S> {
        Disk {
            backend,
            system,
            partitions,
            tallies: Tallies::default(),
            sessions: Vec::with_capacity(SESSIONS),
            jobs: [None; TAGS],
            free: u64::MAX,
            under_way: 0,
            left_behind: 0,
            next: BADGE_SESSION_FIRST,
            turn: 0,
            list: [0; LIST],
            pages: [0; PAGES],
        }
    }

    /// Orders that the backend has.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    pub fn sessions(&self) -> usize {
        self.sessions.iter().flatten().count()
    }

    /// Sessions have badges from this on. Those of drivers that served this disk before must not be among them: their clients still hold portals with them.
    pub fn number_from(&mut self, first: u64) {
        self.next = first;
    }

    /// Where the part behind a badge begins, and what it is.
    fn part(&self, badge: u64) -> Result<(u64, Info), Errno> {
        let mut info = self.backend.info();
        info.most_pages = info.most_pages.min(PAGES as u32);
        if badge >= BADGE_SESSION_FIRST {
            let mut sessions = self.sessions.iter().flatten();
            let session = sessions.find(|session| session.badge == badge);
            return session.map(|s| (s.first, s.info)).ok_or(ENXIO);
        }
        if badge == BADGE_DISK {
            return Ok((0, info));
        }
        let found = self
            .partitions
            .iter()
            .find(|p| u64::from(p.number) == badge);
        let found = found.ok_or(ENXIO)?;
        info.sectors = found.sectors;
        Ok((found.first, info))
    }

    /// A free tag, if the backend can do with one more now.
    fn tag(&self) -> Option<usize> {
        (self.left_behind == 0).then_some(())?;
        let most = (self.backend.info().most_requests as usize).min(TAGS);
        (self.under_way < most).then_some(())?;
        Some(self.free.trailing_zeros() as usize).filter(|&tag| tag < TAGS)
    }

    /// Give the backend what clients ask for, in turns, as much as it takes.
    pub fn pump(&mut self) {
        let mut idle = 0;
        while idle < self.sessions.len() {
            let Some(tag) = self.tag() else { return };
            if self.turn >= self.sessions.len() {
                self.turn = 0;
            }
            let index = self.turn;
            self.turn += 1;
            idle = match self.take(index, tag) {
                true => 0,
                false => idle + 1,
            };
        }
    }

    /// One request of a session; false if it has none.
    fn take(&mut self, index: usize, tag: usize) -> bool {
        let Some(session) = &mut self.sessions[index] else {
            return false;
        };
        let message = match session.asked.receive(&mut self.list) {
            Ok(Some((message, _))) => message,
            Ok(None) => return false,
            Err(_) => {
                self.end(index);
                return false;
            }
        };
        let Some(request) = rings::decode(&message, &self.list, &mut self.pages) else {
            self.end(index);
            return false;
        };
        let sector = session.first.wrapping_add(request.sector);
        let job = Job {
            session: session.badge,
            slot: request.id,
            part: counted_for(session.part, sector, request.bytes, &self.partitions),
            kind: request.kind,
            sectors: request.bytes / SECTOR,
            begun: 0,
            since: None,
        };
        let order = Order {
            kind: request.kind,
            sector,
            bytes: request.bytes,
            arena: session.arena,
            pages: request.pages,
            offset: request.offset,
            kept: request.kept,
        };
        let nothing = request.kind == Kind::Flush && !session.info.caches_writes;
        if session.info.allows(&request) && nothing {
            self.tell(job, Outcome::Done);
        } else if session.info.allows(&request) && self.backend.start(tag, &order) {
            self.begin(tag, job);
        } else {
            self.tell(job, Outcome::Failed);
        }
        true
    }

    /// The backend is done with an order.
    pub fn done(&mut self, tag: usize, outcome: Outcome) {
        if let Some(job) = self.jobs.get_mut(tag).and_then(Option::take) {
            self.free |= 1 << tag;
            self.under_way -= 1;
            if job.session != OWN {
                let now = self.system.now();
                self.tallies
                    .end(job.part, (job.kind, job.sectors), job.begun, now);
            }
            self.tell(job, outcome);
        }
    }

    /// Whether the device has had something for longer than `limit` now, which is told to who asked for it: the driver ends then, its successor resets the device, and begins with all that was under way once more.
    pub fn is_late(&mut self, now: u64, limit: u64) -> bool {
        let mut any = false;
        for job in self.jobs.iter_mut().flatten() {
            let since = *job.since.get_or_insert(now);
            if now.saturating_sub(since) <= limit {
                continue;
            }
            any = true;
            let mut sessions = self.sessions.iter_mut().flatten();
            if let Some(session) = sessions.find(|s| s.badge == job.session) {
                // Who has no room for it does not keep to the rules, and hears of the driver's end.
                let _ = session.done.send(rings::late(job.slot), &[]);
            }
        }
        any
    }

    /// A tag for an order of the driver's own; [`Disk::done`] is called for it as well.
    pub fn reserve(&mut self) -> Option<usize> {
        let tag = self.tag()?;
        let own = Job {
            session: OWN,
            slot: 0,
            part: 0,
            kind: Kind::Read,
            sectors: 0,
            begun: 0,
            since: None,
        };
        self.begin(tag, own);
        Some(tag)
    }

    fn begin(&mut self, tag: usize, mut job: Job) {
        if job.session != OWN {
            job.begun = self.system.now();
            self.tallies.begin(job.part, job.begun);
        }
        self.jobs[tag] = Some(job);
        self.free &= !(1 << tag);
        self.under_way += 1;
    }

    fn tell(&mut self, job: Job, outcome: Outcome) {
        let of = |s: &Option<Session<_>>| s.as_ref().is_some_and(|s| s.badge == job.session);
        let Some(index) = self.sessions.iter().position(of) else {
            self.left_behind -= usize::from(job.session != OWN);
            return;
        };
        let Some(session) = &mut self.sessions[index] else {
            return;
        };
        match session.done.send(rings::completion(job.slot, outcome), &[]) {
            Ok(true) => self.system.notify(session.bell, COME_OUT),
            Ok(false) => {}
            // Who has more under way than there may be does not keep to the rules.
            Err(_) => self.end(index),
        }
    }

    /// Before sleeping: true if there is something to do all the same.
    pub fn arm(&mut self) -> bool {
        if self.tag().is_none() || self.under_way >= ENOUGH {
            // Something comes out before anything can be begun, or soon: a device at work needs not be told of each further request by itself.
            return false;
        }
        let mut more = false;
        for index in 0..self.sessions.len() {
            if let Some(session) = self.sessions.get_mut(index).and_then(Option::as_mut) {
                match session.asked.arm() {
                    Ok(waits) => more |= waits,
                    Err(_) => self.end(index),
                }
            }
        }
        more
    }

    /// Nobody holds the session's portal any more, or its answer could not be delivered.
    pub fn closed(&mut self, badge: u64) {
        let of = |s: &Option<Session<_>>| s.as_ref().is_some_and(|s| s.badge == badge);
        if let Some(index) = self.sessions.iter().position(of) {
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) {
        if let Some(session) = self.sessions.get_mut(index).and_then(Option::take) {
            while self.sessions.pop_if(|last| last.is_none()).is_some() {}
            self.backend.unfix(session.arena);
            let jobs = self.jobs.iter().flatten();
            self.left_behind += jobs.filter(|job| job.session == session.badge).count();
            self.system.close(session.bell);
            self.system.close(session.arena);
        }
    }

    /// Nobody has the disk any more; what is under way goes on.
    pub fn end_all(&mut self) {
        (0..self.sessions.len()).for_each(|index| self.end(index));
    }

    /// There is no such partition any more.
    pub(crate) fn forget_counts(&mut self, part: u64) {
        self.tallies.forget(part);
    }

    /// The badge of the session that was made last.
    pub fn newest(&self) -> u64 {
        self.next - 1
    }

    fn attach_to(&mut self, badge: u64, bell: u32, arena: u32) -> Result<(u32, u32), Errno> {
        let (first, info) = self.part(badge)?;
        let free = self.sessions.iter().position(Option::is_none);
        if free.is_none() && self.sessions.len() >= SESSIONS {
            return Err(ENFILE);
        }
        let (memory, rings) = self.system.rings(rings::words()).ok_or(ENOMEM)?;
        let ends = rings::split(memory).and_then(|(asked, done)| {
            let asked = Receiver::new(asked, rings::ASKED)?;
            Some((asked, Sender::new(done, rings::DONE)?))
        });
        let portal = self.system.portal(self.next);
        let (Some((asked, done)), Some(portal)) = (ends, portal) else {
            self.system.close(rings);
            return Err(ENOMEM);
        };
        let session = Some(Session {
            badge: self.next,
            part: badge,
            first,
            info,
            asked,
            done,
            bell,
            arena,
        });
        match free {
            Some(index) => self.sessions[index] = session,
            None => self.sessions.push(session),
        }
        self.next += 1;
        Ok((rings, portal))
    }
}

impl<B: Backend, S: System> block::Server for Disk<B, S> {
    fn info<C: Caller>(&mut self, caller: &C) -> Result<InfoAnswer, Errno> {
        let (first, info) = self.part(caller.badge())?;
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        Ok(InfoAnswer {
            sectors: info.sectors,
            block: info.block,
            properties: bit(info.read_only, properties::READ_ONLY)
                | bit(info.caches_writes, properties::CACHES_WRITES)
                | bit(info.discards, properties::DISCARDS)
                | bit(info.rotates, properties::ROTATES),
            most_pages: info.most_pages,
            first,
        })
    }

    fn attach<C: Caller>(
        &mut self,
        caller: &C,
        fixed: u32,
        bell: u32,
        arena: u32,
    ) -> Result<AttachAnswer, Errno> {
        if caller.badge() >= BADGE_SESSION_FIRST {
            return Err(ENXIO);
        }
        let (rings, session) = self.attach_to(caller.badge(), bell, arena)?;
        self.backend.fix(arena, fixed);
        Ok(AttachAnswer {
            rings: Given(u64::from(rings)),
            session: Given(u64::from(session)),
        })
    }

    fn partition<C: Caller>(&mut self, caller: &C, number: u32) -> Result<PartitionAnswer, Errno> {
        if caller.badge() != BADGE_DISK {
            return Err(EPERM);
        }
        let behind = self.partitions.iter().filter(|p| p.number >= number);
        let next = behind.min_by_key(|p| p.number).ok_or(ENXIO)?;
        Ok(PartitionAnswer {
            found: next.number,
            first: next.first,
            sectors: next.sectors,
        })
    }

    fn repartition<C: Caller>(
        &mut self,
        caller: &C,
        alone: bool,
        table: Out<'_, C>,
    ) -> Result<(), Errno> {
        let (list, length) = (&mut [0; TABLE][..], table.len());
        let list = list.get_mut(..length).ok_or(EINVAL)?;
        if table.read(0, list)? != length {
            return Err(EFAULT);
        }
        let changed = self.set_partitions(caller.badge(), alone, list)?;
        for bell in changed {
            self.system.notify(bell, CHANGED);
        }
        Ok(())
    }

    fn counts<C: Caller>(&mut self, caller: &C, part: u64) -> Result<Counts, Errno> {
        if caller.badge() != BADGE_DISK {
            return Err(EPERM);
        }
        self.part(part)?;
        let now = self.system.now();
        Ok(self.tallies.counts(part, now))
    }
}
