//! Disks as files: `/dev/vda`, `/dev/vda1`. Any byte can be read and written ([`crate::transfer`]); the data goes by way of pages of devfs's own, and nothing is kept there: what was written has been given to the device when the call returns.
//!
//! A *job* is what a disk does for a request. A request waits for its jobs, and finds them again by its progress: a transfer (plus 1) in the lower half, or one job without data (plus 1) in the upper one.

use crate::gather::Gather;
use crate::loans::{Loans, Name};
use crate::look::{Called, Look};
use crate::loops::{self, Loops, INFO64};
use crate::room::{Room, PAGES};
use crate::transfer::{Transfer, Wish, MOST_PAGES};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_abi::{pulse, Token};
use cairn_block::{Device, Info, Kind, Outcome, Refused, Request, PAGE, SECTOR};
use cairn_idl::errno::*;
use cairn_idl::fs;
use cairn_idl::vm::{BORROWED_FIRST, WINDOW_PAGES};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Transport};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

/// A disk, and what wakes it.
pub trait Drive: Device {
    /// A pulse with the drive's badge came. The device may have changed what it was given of the arena.
    fn heard(&mut self, pulse: &Received, arena: &mut [u8]);
    /// What is submitted from here (true) to there (false) is for the driver to hear of together.
    fn together(&mut self, begin: bool);
    /// Let others run who are ready at the priority that this server has now.
    fn give_way(&mut self);
    /// What is lent lies behind this window of the arena from now on.
    fn borrow(&mut self, window: u32, loan: Portal) -> bool;
    /// The disk's partitions from now on (number, first sector, sectors), if nobody has one that goes, or `alone`, if nobody else has the disk at all; otherwise an error number.
    fn repartition(&mut self, alone: bool, table: &[(u32, u64, u64)]) -> Result<(), i64>;
    /// The disk has so many sectors.
    fn resize(&mut self, _sectors: u64) {}
    /// It is not used any more.
    fn end(self: Box<Self>) {}
}

/// In the place of a disk that has no blocks at present.
pub struct Absent;

impl Device for Absent {
    fn info(&self) -> Info {
        Info {
            block: SECTOR as u32,
            ..Info::default()
        }
    }
    fn submit(&mut self, _: &Request) -> Result<(), Refused> {
        Err(Refused::Invalid)
    }
    fn completed(&mut self) -> Option<(u64, Outcome)> {
        None
    }
}

impl Drive for Absent {
    fn heard(&mut self, _: &Received, _: &mut [u8]) {}
    fn together(&mut self, _: bool) {}
    fn give_way(&mut self) {}
    fn borrow(&mut self, _: u32, _: Portal) -> bool {
        false
    }
    fn repartition(&mut self, _: bool, _: &[(u32, u64, u64)]) -> Result<(), i64> {
        Err(ENXIO)
    }
}

/// Badges of the drives' pulses.
pub const FIRST_BADGE: u64 = 0x100;
/// Bytes of the arena.
pub const ARENA: usize = PAGES * PAGE;
/// How often (ns) loans that are kept are looked at.
const KEPT_TICK: u64 = 1_000_000_000;
/// Most jobs at a time.
const JOBS: usize = 64;
/// Keys of requests that wait: for a job, for any to end, for one of a transfer's.
const JOB: u64 = 0x100;
pub(crate) const ROOM: u64 = 0x200;
/// For a page that is looked at, by drive.
pub(crate) const LOOK: u64 = 0x300;
pub(crate) const TRANSFER: u64 = 0x1000;
/// A disk or a partition: a file.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    /// Major and minor.
    pub numbers: (u32, u32),
    pub(crate) drive: usize,
    /// 0: the whole disk.
    pub(crate) number: u32,
    pub(crate) first: u64,
    pub(crate) sectors: u64,
    /// As it was when it was looked at last.
    pub called: Called,
    /// It is not there any more; another one of its number comes back here.
    pub gone: bool,
    /// Handles.
    pub(crate) held: u32,
}

/// What a drive does for a request.
pub(crate) struct Job {
    drive: usize,
    pub kind: Kind,
    /// Of the disk.
    sector: u64,
    sectors: u64,
    /// Pages of the arena, or of a loan, and where in the first one the data begins.
    first: usize,
    pages: usize,
    offset: u32,
    pub loan: Option<usize>,
    /// See [`Request::kept`].
    kept: u32,
    /// A write that must read first.
    pub fill: bool,
    pub outcome: Option<Outcome>,
    /// Who is woken when it is done.
    key: u64,
    /// Nobody waits for it any more.
    orphan: bool,
}

impl Job {
    /// Its data lies in pages of a loan.
    pub fn lent(
        mut self,
        (loan, kept): (usize, u32),
        (first, pages): (usize, usize),
        offset: u32,
    ) -> Job {
        (self.loan, self.kept) = (Some(loan), kept);
        self.first = BORROWED_FIRST as usize + loan * WINDOW_PAGES as usize + first;
        (self.pages, self.offset) = (pages, offset);
        self
    }

    /// Without pages as yet.
    pub fn new(drive: usize, kind: Kind, (sector, sectors): (u64, u64), key: u64) -> Job {
        Job {
            drive,
            kind,
            sector,
            sectors,
            first: 0,
            pages: 0,
            offset: 0,
            loan: None,
            kept: 0,
            fill: false,
            outcome: None,
            key,
            orphan: false,
        }
    }

    pub fn bytes(&self) -> usize {
        (self.sectors * SECTOR) as usize
    }

    fn writes(&self) -> bool {
        self.kind == Kind::Write || self.fill
    }
}

pub struct Disks {
    pub(crate) drives: Vec<Box<dyn Drive>>,
    pub(crate) parts: Vec<Part>,
    /// For each drive.
    pub(crate) names: Vec<String>,
    pub(crate) looks: Vec<Look>,
    /// [`ARENA`] bytes, the arena of each drive, and what of it is in use.
    pub(crate) arena: &'static mut [u8],
    room: Room,
    pub(crate) jobs: [Option<Job>; JOBS],
    pub(crate) transfers: Vec<Option<Transfer>>,
    pub(crate) loans: Loans,
    /// When the loans that are kept are looked at next.
    tick_at: u64,
    pub(crate) gather: Gather,
    /// How many of the jobs write.
    writing: usize,
    /// The pages of a job that is being submitted.
    list: Vec<u32>,
    pub(crate) answer: [u8; INFO64],
    pub(crate) loops: Loops,
    /// Who waits for jobs whose disk went.
    pub(crate) failed: Vec<u64>,
}

/// ioctl requests (linux/fs.h, linux/hdreg.h).
mod request {
    pub const READ_ONLY: u64 = 0x125e;
    pub const REREAD: u64 = 0x125f;
    pub const SECTORS: u64 = 0x1260;
    pub const FLUSH: u64 = 0x1261;
    pub const READ_AHEAD: u64 = 0x1263;
    pub const BLOCK: u64 = 0x1268;
    /// BLKPG.
    pub const PARTITION: u64 = 0x1269;
    pub const DISCARD: u64 = 0x1277;
    pub const LEAST: u64 = 0x1278;
    pub const BEST: u64 = 0x1279;
    pub const ALIGNMENT: u64 = 0x127a;
    pub const PHYSICAL: u64 = 0x127b;
    pub const DISCARD_ZEROES: u64 = 0x127c;
    pub const ROTATES: u64 = 0x127e;
    pub const BYTES: u64 = 0x8008_1272;
    pub const SOFT_BLOCK: u64 = 0x8008_1270;
    pub const GEOMETRY: u64 = 0x0301;
}

impl Default for Disks {
    fn default() -> Disks {
        Disks::new(&mut [])
    }
}

impl Disks {
    /// Without disks; `arena` is what all of them have as arena.
    pub fn new(arena: &'static mut [u8]) -> Disks {
        Disks {
            drives: Vec::new(),
            parts: Vec::new(),
            names: Vec::new(),
            looks: Vec::new(),
            arena,
            room: Room::default(),
            jobs: [const { None }; JOBS],
            transfers: Vec::new(),
            loans: Loans::default(),
            tick_at: 0,
            gather: Gather::default(),
            writing: 0,
            list: Vec::with_capacity(MOST_PAGES),
            answer: [0; INFO64],
            loops: Loops::default(),
            failed: Vec::new(),
        }
    }

    /// The next disk (`vda`), and its partitions: number, first sector, sectors.
    pub fn add(&mut self, name: &str, mut drive: Box<dyn Drive>, partitions: &[(u32, u64, u64)]) {
        // From now on it tells what comes out.
        let _ = drive.completed();
        let number = self.drives.len();
        let whole = (0, 0, drive.info().sectors);
        self.drives.push(drive);
        self.names.push(name.into());
        self.looks.push(Look::default());
        for part in [whole].iter().chain(partitions) {
            self.add_part(number, *part);
        }
    }

    /// With those that are gone.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Those that are there, by their places.
    pub fn there(&self) -> impl Iterator<Item = (usize, &Part)> {
        let all = self.parts.iter().enumerate();
        all.filter(|(_, part)| !part.gone)
    }

    /// A handle more, or less.
    pub fn hold(&mut self, part: usize, on: bool) {
        if let Some(part) = self.parts.get_mut(part) {
            part.held = match on {
                true => part.held + 1,
                false => part.held.saturating_sub(1),
            };
        }
        self.loop_held(part, on);
    }

    /// Bytes of a disk or partition.
    pub fn size(&self, part: usize) -> u64 {
        self.parts.get(part).map_or(0, |p| p.sectors * SECTOR)
    }

    /// A pulse of a drive: what came out is told to who waits.
    pub fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        if loops::BELLS.contains(&pulse.badge) {
            return match pulse.words[0] {
                pulse::CLOSED => self.bell_closed(cx, pulse.badge),
                _ => self.loops_rang(cx),
            };
        }
        let number = pulse.badge.wrapping_sub(FIRST_BADGE) as usize;
        let Some(drive) = self.drives.get_mut(number) else {
            return;
        };
        drive.heard(pulse, self.arena);
        let sectors = drive.info().sectors;
        let mut parts = self.parts.iter_mut();
        let is_whole = |part: &&mut Part| part.drive == number && part.number == 0;
        if let Some(whole) = parts.find(is_whole).filter(|it| it.sectors != sectors) {
            whole.sectors = sectors;
            self.looks[number].forget();
        }
        while let Some((id, outcome)) = self.drives[number].completed() {
            match self.jobs.get_mut(id as usize) {
                Some(Some(job)) if job.orphan => self.free(cx, id as usize),
                Some(Some(job)) => {
                    job.outcome = Some(outcome);
                    cx.wake(job.key);
                }
                _ => {}
            }
        }
    }

    /// The jobs of a request that ended without them.
    pub fn cancelled(&mut self, cx: &mut Context) {
        match (cx.progress >> 32).checked_sub(1) {
            Some(index) => self.leave(cx, index as usize),
            None if cx.progress > 0 => {
                self.end_transfer(cx, cx.progress as usize - 1);
            }
            None => {}
        }
    }

    /// A request that has just come brings a loan.
    pub fn lent(&mut self, transport: &mut dyn Transport, token: Token, loan: Portal) {
        self.loans.arrived(transport, token, loan);
    }

    /// READ: the bytes go to the caller; how many.
    pub fn read(
        &mut self,
        cx: &mut Context,
        part: usize,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let left = self.size(part).saturating_sub(offset);
        let length = left.min(length as u64) as usize;
        let wish = Wish {
            part,
            offset,
            length,
            inside: cx.request.words[3],
            write: false,
        };
        self.transfer(cx, wish)
    }

    pub fn write(
        &mut self,
        cx: &mut Context,
        part: usize,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let (_, info) = self.drive(part)?;
        let left = self.size(part).saturating_sub(offset);
        if info.read_only {
            return Err(Failure::Errno(EPERM));
        }
        if left == 0 && length > 0 {
            return Err(Failure::Errno(ENOSPC));
        }
        let length = left.min(length as u64) as usize;
        let wish = Wish {
            part,
            offset,
            length,
            inside: cx.request.words[3],
            write: true,
        };
        self.transfer(cx, wish)
    }

    /// A drive and what it is, by one of its parts.
    pub(crate) fn drive(&self, part: usize) -> Answer<(usize, Info)> {
        let drive = self.parts.get(part).ok_or(Failure::Errno(ENXIO))?.drive;
        Ok((drive, self.drives[drive].info()))
    }

    /// See [`Drive::together`].
    pub(crate) fn together(&mut self, drive: usize, begin: bool) {
        self.drives[drive].together(begin);
    }

    /// See [`Drive::give_way`].
    pub(crate) fn give_way(&mut self, drive: usize) {
        self.drives[drive].give_way();
    }

    /// The drives hear of what was held back.
    pub(crate) fn tell_all(&mut self) {
        for drive in &mut self.drives {
            drive.together(false);
        }
    }

    /// The sector of the disk where a part begins.
    pub(crate) fn first(&self, part: usize) -> u64 {
        self.parts[part].first
    }

    /// Whether a job must wait for another one that is about the same blocks.
    pub(crate) fn is_disturbed(&self, new: &Job) -> bool {
        if self.writing == 0 && !new.writes() {
            return false;
        }
        self.jobs.iter().flatten().any(|job| {
            job.drive == new.drive
                && (new.writes() || job.writes())
                && job.sector < new.sector + new.sectors
                && new.sector < job.sector + job.sectors
        })
    }

    /// A place for a job, with so many pages of the arena; None: everything is in use.
    pub(crate) fn place(&mut self, mut job: Job, pages: usize) -> Option<usize> {
        if self.loops.number(job.drive).is_some() && !self.has_room_for_loop(job.drive) {
            return None;
        }
        let index = self.jobs.iter().position(Option::is_none)?;
        match job.loan {
            Some(loan) => self.loans.begin(loan),
            None if pages > 0 => (job.first, job.pages) = (self.room.take(pages)?, pages),
            None => {}
        }
        self.writing += usize::from(job.writes());
        self.jobs[index] = Some(job);
        Some(index)
    }

    /// Whether a loop device may have one job more.
    fn has_room_for_loop(&self, drive: usize) -> bool {
        let jobs = || self.jobs.iter().flatten();
        let all = jobs().filter(|job| self.loops.number(job.drive).is_some());
        let own = jobs().filter(|job| job.drive == drive);
        all.count() < loops::JOBS && own.count() < loops::JOBS_OF_ONE
    }

    pub(crate) fn has_jobs(&self, drive: usize) -> bool {
        self.jobs.iter().flatten().any(|job| job.drive == drive)
    }

    /// A drive is not there any more, nor what it was to do.
    pub(crate) fn fail_jobs(&mut self, drive: usize) {
        for index in 0..self.jobs.len() {
            let Some(job) = self.jobs[index].as_mut() else {
                continue;
            };
            if job.drive != drive || job.outcome.is_some() {
                continue;
            }
            match job.orphan {
                true => self.remove(index),
                false => {
                    job.outcome = Some(Outcome::Failed);
                    self.failed.push(job.key);
                }
            }
        }
    }

    /// The pages of a job that has some of the arena.
    pub(crate) fn memory(&mut self, index: usize) -> &mut [u8] {
        match self.jobs.get(index) {
            Some(Some(job)) if job.loan.is_none() => {
                &mut self.arena[job.first * PAGE..][..job.pages * PAGE]
            }
            _ => &mut [],
        }
    }

    /// A job is done with, and its pages.
    pub(crate) fn free(&mut self, cx: &mut Context, index: usize) {
        self.remove(index);
        self.loans.close_unused(cx.transport);
        cx.wake(ROOM);
    }

    /// The same for a job that came to nothing: who waits for room need not look.
    pub(crate) fn remove(&mut self, index: usize) {
        if let Some(job) = self.jobs.get_mut(index).and_then(Option::take) {
            self.writing -= usize::from(job.writes());
            match job.loan {
                Some(loan) => self.loans.end(loan),
                None if job.pages > 0 => self.room.give(job.first, job.pages),
                None => {}
            }
        }
    }

    /// Have a drive reach what the request has lent, or what is kept by the name that it says, if it can be used: the loan's window.
    pub(crate) fn borrow(&mut self, cx: &mut Context, wish: &Wish) -> Answer<Option<usize>> {
        let words = &cx.request.words;
        let loan = self.loans.take(cx.request.token);
        let named = words[2] & (fs::NAMED | fs::INLINE) == fs::NAMED;
        if loan.is_none() && !named {
            return Ok(None);
        }
        let name = Name {
            sender: cx.request.sender,
            handle: cx.request.badge,
            name: words[4],
        };
        let pages = wish.inside.saturating_add(wish.length as u64);
        let pages = pages.div_ceil(PAGE as u64);
        let drive = self.drive(wish.part).ok().filter(|(_, info)| {
            let block = u64::from(info.block);
            (wish.offset | wish.length as u64).is_multiple_of(block)
                && (self.first(wish.part) * SECTOR).is_multiple_of(block)
                && wish.inside.is_multiple_of(SECTOR)
                && wish.length > 0
        });
        let Some(loan) = loan else {
            let find = |_| self.loans.find(name, pages).ok_or(Failure::Errno(ESTALE));
            return drive.map(find).transpose();
        };
        let free = self.loans.free().filter(|_| wish.inside < PAGE as u64);
        let window = drive.zip(free).and_then(|((drive, _), window)| {
            let reached = self.drives[drive].borrow(window as u32, loan);
            reached.then_some(window)
        });
        let Some(window) = window else {
            cx.transport.close(loan);
            return Ok(None);
        };
        self.loans.put(window, loan);
        if named && self.loans.keep(cx.transport, window, name, pages) {
            self.tick_later(cx);
        }
        Ok(Some(window))
    }

    fn tick_later(&mut self, cx: &mut Context) {
        let now = cx.transport.monotonic();
        if now >= self.tick_at {
            self.tick_at = now + KEPT_TICK;
        }
        cx.wake_by(self.tick_at);
    }

    /// Some time has passed.
    pub fn tick(&mut self, cx: &mut Context) {
        self.gathered();
        if !self.loans.keeps_any() {
            return;
        }
        if cx.transport.monotonic() >= self.tick_at {
            self.loans.look(cx.transport);
        }
        if self.loans.keeps_any() {
            self.tick_later(cx);
        }
    }

    /// A handle is gone.
    pub fn closed(&mut self, cx: &mut Context, handle: u64) {
        self.loans.closed(cx.transport, handle);
    }

    /// Nobody waits for a job any more; its pages are the drive's until it is done.
    pub(crate) fn leave(&mut self, cx: &mut Context, index: usize) {
        match self.jobs.get_mut(index) {
            Some(Some(job)) if job.outcome.is_none() => job.orphan = true,
            _ => self.free(cx, index),
        }
    }

    /// Give the job to its drive.
    pub(crate) fn submit(&mut self, index: usize) -> Result<(), Refused> {
        let Some(Some(job)) = self.jobs.get_mut(index) else {
            return Err(Refused::Invalid);
        };
        job.outcome = None;
        let first = job.first as u32;
        self.list.clear();
        self.list.extend(first..first + job.pages as u32);
        let request = Request {
            id: index as u64,
            kind: job.kind,
            sector: job.sector,
            bytes: job.sectors * SECTOR,
            pages: &self.list,
            offset: job.offset,
            kept: job.kept,
        };
        self.drives[job.drive].submit(&request)
    }

    /// Have the drive do something without data, and wait for it.
    fn order(
        &mut self,
        cx: &mut Context,
        part: usize,
        kind: Kind,
        range: (u64, u64),
    ) -> Answer<()> {
        if let Some(index) = (cx.progress >> 32).checked_sub(1) {
            let index = index as usize;
            let job = self.jobs.get(index).and_then(Option::as_ref);
            let outcome = job.ok_or(Failure::Errno(EIO))?.outcome;
            let outcome = outcome.ok_or(Failure::Wait(JOB + index as u64))?;
            self.free(cx, index);
            cx.progress = 0;
            return match outcome {
                Outcome::Done => Ok(()),
                Outcome::Failed => Err(Failure::Errno(EIO)),
            };
        }
        let (drive, _) = self.drive(part)?;
        let Some(index) = self.place(Job::new(drive, kind, range, 0), 0) else {
            return Err(Failure::Wait(ROOM));
        };
        let key = JOB + index as u64;
        if let Some(job) = &mut self.jobs[index] {
            job.key = key;
        }
        if let Err(why) = self.submit(index) {
            self.remove(index);
            return Err(match why {
                Refused::Full => Failure::Wait(ROOM),
                Refused::Invalid => Failure::Errno(EIO),
            });
        }
        cx.progress = (index as u64 + 1) << 32;
        Err(Failure::Wait(key))
    }

    pub fn sync(&mut self, cx: &mut Context, part: usize) -> Answer<()> {
        let (_, info) = self.drive(part)?;
        match info.caches_writes {
            true => self.order(cx, part, Kind::Flush, (0, 0)),
            false => Ok(()),
        }
    }

    fn discard(&mut self, cx: &mut Context, part: usize, writable: bool) -> Answer<()> {
        let (_, info) = self.drive(part)?;
        let mut bytes = [0; 16];
        cx.fetch(0, &mut bytes)?;
        let [start, length] = [0, 8].map(|at| long(&bytes, at));
        let block = u64::from(info.block);
        let end = start.checked_add(length).ok_or(Failure::Errno(EINVAL))?;
        if !writable {
            return Err(Failure::Errno(EBADF));
        }
        if !info.discards || info.read_only {
            return Err(Failure::Errno(EOPNOTSUPP));
        }
        if length == 0 || (start | length) % block != 0 || end > self.size(part) {
            return Err(Failure::Errno(EINVAL));
        }
        let first = self.parts[part].first + start / SECTOR;
        self.order(cx, part, Kind::Discard, (first, length / SECTOR))
    }

    pub fn ioctl(
        &mut self,
        cx: &mut Context,
        part: usize,
        (what, argument): (u64, u64),
        writable: bool,
    ) -> Answer<Reply<'_>> {
        if self.is_of_loop(part, what) {
            return self.loop_ioctl(cx, part, what, argument, writable);
        }
        let (_, info) = self.drive(part)?;
        let bytes = self.size(part);
        let (value, size) = match what {
            request::READ_ONLY => (u64::from(info.read_only), 4),
            request::SECTORS => (bytes / SECTOR, 8),
            request::BYTES => (bytes, 8),
            request::READ_AHEAD => (256, 8),
            request::BLOCK | request::LEAST | request::PHYSICAL => (u64::from(info.block), 4),
            request::SOFT_BLOCK => (PAGE as u64, 8),
            request::BEST | request::ALIGNMENT | request::DISCARD_ZEROES => (0, 4),
            request::ROTATES => (u64::from(info.rotates), 2),
            request::GEOMETRY => return Ok(self.geometry(part)),
            request::FLUSH => (self.sync(cx, part).map(|()| 0)?, 0),
            request::DISCARD => (self.discard(cx, part, writable).map(|()| 0)?, 0),
            request::REREAD => (self.read_table(cx, part).map(|()| 0)?, 0),
            request::PARTITION => (self.change_partition(cx, part).map(|()| 0)?, 0),
            _ => return Err(Failure::Errno(ENOTTY)),
        };
        self.answer[..8].copy_from_slice(&value.to_le_bytes());
        Ok(Reply::result(0).data(&self.answer[..size]))
    }

    /// 255 heads of 63 sectors, as everybody pretends.
    fn geometry(&mut self, part: usize) -> Reply<'_> {
        let part = &self.parts[part];
        let cylinders = (part.sectors / (255 * 63)).min(0xffff) as u16;
        self.answer[..2].copy_from_slice(&[255, 63]);
        self.answer[2..4].copy_from_slice(&cylinders.to_le_bytes());
        self.answer[4..8].fill(0);
        self.answer[8..16].copy_from_slice(&part.first.to_le_bytes());
        Reply::result(0).data(&self.answer[..16])
    }
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
