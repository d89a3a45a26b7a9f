//! Disks as files: `/dev/vda`, `/dev/vda1`. Any byte can be read and written; the data goes by way of a few buffers, and nothing is kept there: what was written has been given to the device when the call returns.
//!
//! A READ or WRITE is cut into pieces of a buffer each. A *job* is what a disk does for one of them; the request waits for it, and finds it again by its progress: bytes done so far in the lower half, the job (plus 1) in the upper one.
//! Where a piece does not begin and end at blocks, what is around it is read first. A job that writes has its blocks alone, so such writes lose nothing of each other.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_block::{Device, Info, Kind, Outcome, Request, PAGE, SECTOR};
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::channel::Reply;
use cairn_rt::Received;

/// A disk, and what wakes it.
pub trait Drive: Device {
    /// A pulse with the drive's badge came. The device may have changed what it was given of the arena.
    fn heard(&mut self, pulse: &Received, arena: &mut [u8]);
}

/// Badges of the drives' pulses.
pub const FIRST_BADGE: u64 = 0x100;
/// Buffers, and bytes of each.
pub const BUFFERS: usize = 8;
pub const BUFFER: usize = 64 * 1024;
/// Keys of requests that wait: for a job, or for any to end.
const JOB: u64 = 0x100;
const ROOM: u64 = 0x200;
/// Linux's block devices of virtio; each disk has so many numbers.
pub const MAJOR: u32 = 254;
const MINORS: u32 = 16;

/// A disk or a partition: a file.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    pub minor: u32,
    drive: usize,
    first: u64,
    sectors: u64,
}

struct Job {
    drive: usize,
    kind: Kind,
    /// Of the disk.
    sector: u64,
    sectors: u64,
    /// A write that must read first.
    fill: bool,
    outcome: Option<Outcome>,
    /// Nobody waits for it any more.
    orphan: bool,
}

/// What a READ or WRITE wants.
#[derive(Clone, Copy)]
struct Wish {
    part: usize,
    offset: u64,
    length: usize,
    write: bool,
}

#[derive(Default)]
pub struct Disks {
    drives: Vec<Box<dyn Drive>>,
    parts: Vec<Part>,
    /// All buffers, [`BUFFERS`] times [`BUFFER`] bytes, in the arena of each drive.
    arena: &'static mut [u8],
    jobs: [Option<Job>; BUFFERS],
    answer: [u8; 16],
}

/// ioctl requests (linux/fs.h, linux/hdreg.h).
mod request {
    pub const READ_ONLY: u64 = 0x125e;
    pub const SECTORS: u64 = 0x1260;
    pub const FLUSH: u64 = 0x1261;
    pub const READ_AHEAD: u64 = 0x1263;
    pub const BLOCK: u64 = 0x1268;
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

impl Disks {
    /// Without disks; `arena` is what all of them have as arena.
    pub fn new(arena: &'static mut [u8]) -> Disks {
        Disks {
            arena,
            ..Disks::default()
        }
    }

    /// The next disk (`vda`), and its partitions: number, first sector, sectors.
    pub fn add(&mut self, name: &str, mut drive: Box<dyn Drive>, partitions: &[(u32, u64, u64)]) {
        // From now on it tells what comes out.
        let _ = drive.completed();
        let number = self.drives.len();
        let whole = (0, 0, drive.info().sectors);
        for &(partition, first, sectors) in [whole].iter().chain(partitions) {
            if partition < MINORS {
                self.parts.push(Part {
                    name: match partition {
                        0 => name.into(),
                        _ => format!("{name}{partition}"),
                    },
                    minor: number as u32 * MINORS + partition,
                    drive: number,
                    first,
                    sectors,
                });
            }
        }
        self.drives.push(drive);
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Bytes of a disk or partition.
    pub fn size(&self, part: usize) -> u64 {
        self.parts.get(part).map_or(0, |p| p.sectors * SECTOR)
    }

    /// A pulse of a drive: what came out is told to who waits.
    pub fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        let number = pulse.badge.wrapping_sub(FIRST_BADGE) as usize;
        let Some(drive) = self.drives.get_mut(number) else {
            return;
        };
        drive.heard(pulse, self.arena);
        while let Some((id, outcome)) = drive.completed() {
            let Some(place) = self.jobs.get_mut(id as usize) else {
                continue;
            };
            match place {
                Some(job) if job.orphan => *place = None,
                Some(job) => {
                    job.outcome = Some(outcome);
                    cx.wake(JOB + id);
                    continue;
                }
                None => {}
            }
            cx.wake(ROOM);
        }
    }

    /// The job of a request that ended without it.
    pub fn cancelled(&mut self, cx: &mut Context) {
        let index = (cx.progress >> 32).wrapping_sub(1) as usize;
        let Some(place) = self.jobs.get_mut(index) else {
            return;
        };
        match place {
            Some(job) if job.outcome.is_none() => job.orphan = true,
            _ => self.free(cx, index),
        }
    }

    fn free(&mut self, cx: &mut Context, index: usize) {
        self.jobs[index] = None;
        cx.wake(ROOM);
    }

    fn drive(&self, part: usize) -> Answer<(usize, Info)> {
        let drive = self.parts.get(part).ok_or(Failure::Errno(ENXIO))?.drive;
        Ok((drive, self.drives[drive].info()))
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
        self.transfer(
            cx,
            Wish {
                part,
                offset,
                length: left.min(length as u64) as usize,
                write: false,
            },
        )
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
        self.transfer(
            cx,
            Wish {
                part,
                offset,
                length: left.min(length as u64) as usize,
                write: true,
            },
        )
    }

    fn transfer(&mut self, cx: &mut Context, wish: Wish) -> Answer<usize> {
        loop {
            let done = cx.progress as u32 as usize;
            if let Some(index) = (cx.progress >> 32).checked_sub(1) {
                match self.go_on(cx, &wish, done, index as usize) {
                    Ok(more) => cx.progress = (done + more) as u64,
                    Err(Failure::Errno(_)) if done > 0 => return Ok(done),
                    Err(failure) => return Err(failure),
                }
            } else if done >= wish.length {
                return Ok(done);
            } else {
                return Err(self.begin(cx, &wish, done)?);
            }
        }
    }

    /// The piece behind the first `done` bytes: its sectors of the disk (first, count), where it begins in them, its bytes.
    fn piece(&self, wish: &Wish, done: usize) -> Answer<(u64, u64, usize, usize)> {
        let (_, info) = self.drive(wish.part)?;
        let block = u64::from(info.block);
        let at = self.parts[wish.part].first * SECTOR + wish.offset + done as u64;
        let start = at / block * block;
        let skip = (at - start) as usize;
        let most = BUFFER.min(info.most_pages as usize * PAGE);
        let bytes = (wish.length - done).min(most - skip);
        let end = (at + bytes as u64).next_multiple_of(block);
        Ok((start / SECTOR, (end - start) / SECTOR, skip, bytes))
    }

    /// Begin with the next piece. What to wait for.
    fn begin(&mut self, cx: &mut Context, wish: &Wish, done: usize) -> Answer<Failure> {
        let (sector, sectors, skip, bytes) = self.piece(wish, done)?;
        let (drive, _) = self.drive(wish.part)?;
        let disturbs = |job: &Job| {
            job.drive == drive
                && (wish.write || job.kind == Kind::Write || job.fill)
                && job.sector < sector + sectors
                && sector < job.sector + job.sectors
        };
        let free = self.jobs.iter().position(Option::is_none);
        let Some(index) = free.filter(|_| !self.jobs.iter().flatten().any(disturbs)) else {
            return Ok(Failure::Wait(ROOM));
        };
        let fill = wish.write && (skip != 0 || bytes as u64 != sectors * SECTOR);
        if wish.write && !fill {
            cx.fetch(done, &mut self.arena[index * BUFFER..][..bytes])?;
        }
        let kind = match wish.write && !fill {
            true => Kind::Write,
            false => Kind::Read,
        };
        self.jobs[index] = Some(Job {
            drive,
            kind,
            sector,
            sectors,
            fill,
            outcome: None,
            orphan: false,
        });
        if !self.submit(index) {
            self.jobs[index] = None;
            // The drive has enough to do: when something has come out.
            return Ok(Failure::Wait(ROOM));
        }
        cx.progress = done as u64 | (index as u64 + 1) << 32;
        Ok(Failure::Wait(JOB + index as u64))
    }

    /// Give the job to its drive.
    fn submit(&mut self, index: usize) -> bool {
        let Some(job) = &mut self.jobs[index] else {
            return false;
        };
        job.outcome = None;
        let bytes = job.sectors * SECTOR;
        let count = match job.kind {
            Kind::Read | Kind::Write => bytes.div_ceil(PAGE as u64) as usize,
            _ => 0,
        };
        let first = (index * BUFFER / PAGE) as u32;
        let pages: [u32; BUFFER / PAGE] = core::array::from_fn(|i| first + i as u32);
        let request = Request {
            id: index as u64,
            kind: job.kind,
            sector: job.sector,
            bytes,
            pages: &pages[..count],
            offset: 0,
        };
        self.drives[job.drive].submit(&request).is_ok()
    }

    /// A request runs again with its job: how many bytes more are done.
    fn go_on(&mut self, cx: &mut Context, wish: &Wish, done: usize, index: usize) -> Answer<usize> {
        let (_, _, skip, bytes) = self.piece(wish, done)?;
        let wait = Err(Failure::Wait(JOB + index as u64));
        let Some(Some(job)) = self.jobs.get_mut(index) else {
            return Err(Failure::Errno(EIO));
        };
        let Some(outcome) = job.outcome else {
            return wait;
        };
        let buffer = &mut self.arena[index * BUFFER + skip..][..bytes];
        let result = match outcome {
            Outcome::Failed => Err(Failure::Errno(EIO)),
            Outcome::Done if core::mem::take(&mut job.fill) => match cx.fetch(done, buffer) {
                Ok(()) => {
                    job.kind = Kind::Write;
                    if self.submit(index) {
                        return wait;
                    }
                    Err(Failure::Errno(EIO))
                }
                Err(failure) => Err(failure),
            },
            Outcome::Done if wish.write => Ok(bytes),
            Outcome::Done => cx.store(done, buffer).map(|()| bytes),
        };
        self.free(cx, index);
        cx.progress = done as u64;
        result
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
        let Some(index) = self.jobs.iter().position(Option::is_none) else {
            return Err(Failure::Wait(ROOM));
        };
        self.jobs[index] = Some(Job {
            drive,
            kind,
            sector: range.0,
            sectors: range.1,
            fill: false,
            outcome: None,
            orphan: false,
        });
        if !self.submit(index) {
            self.jobs[index] = None;
            return Err(Failure::Wait(ROOM));
        }
        cx.progress = (index as u64 + 1) << 32;
        Err(Failure::Wait(JOB + index as u64))
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
        what: u64,
        writable: bool,
    ) -> Answer<Reply<'_>> {
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
            request::ROTATES => (0, 2),
            request::GEOMETRY => return Ok(self.geometry(part)),
            request::FLUSH => (self.sync(cx, part).map(|()| 0)?, 0),
            request::DISCARD => (self.discard(cx, part, writable).map(|()| 0)?, 0),
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
        self.answer[8..].copy_from_slice(&part.first.to_le_bytes());
        Reply::result(0).data(&self.answer)
    }
}

fn long(bytes: &[u8; 16], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
