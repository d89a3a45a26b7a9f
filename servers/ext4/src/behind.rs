//! Write-behind: runs of dirty pages go to the device, to the blocks that they have or to new ones, which become the file's when the data is there.
//!
//! A [`Job`] is one run. It is *placing* (asking the core where its blocks are, reserving what is missing, and giving the pages to the device piece by piece), *moving*, then *attaching*. Each
//! part may have to wait for metadata or the journal; it is then begun again by [`Ext4::run_jobs`] where it was. Until the end its pages count as under way, so whoever
//! cuts the file waits for it.

use crate::keys;
use crate::memory::{Memory, PAGE, PAGE64};
use crate::requests::Group;
use crate::server::{Ext4, Purpose};
use alloc::vec::Vec;
use cairn_block::{Device, Kind};
use cairn_cache::{Io, Policy};
use cairn_ext4::{Piece, Place, Run};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Failure;

/// Most jobs at a time.
const MOST: usize = 16;

/// Blocks of the file that a job has given to the device.
#[derive(Clone, Copy)]
enum Placed {
    New(u32, Run),
    Unwritten(u32, u32),
    /// Nothing but zeros, which nobody was promised blocks for: it stays a hole.
    Blank(u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Placing,
    Moving,
    Attaching,
}

pub(crate) struct Job {
    id: u64,
    ino: u32,
    io: Io,
    stage: Stage,
    group: Group,
    /// Blocks of the file that are still to be placed.
    next: u64,
    end: u64,
    placed: Vec<Placed>,
    /// How many of those are the file's.
    attached: usize,
    well: bool,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Give to the device what is due, and what somebody waits for.
    pub(crate) fn start_writes(&mut self) {
        if !self.fs.is_writable() {
            // Whoever waits is told.
            for ino in self.urgent.drain(..) {
                self.wakes.push(keys::pages(ino));
            }
            if core::mem::take(&mut self.everything) {
                self.wakes.push(keys::ROOM);
            }
            return;
        }
        while self.jobs.len() < MOST {
            let Some((ino, io)) = self.next_run() else {
                return;
            };
            let size = self.nodes.get(ino).map_or(0, |node| node.size);
            let per_page = self.per_page();
            let behind = (io.first + io.slots.len() as u64) * per_page;
            let end = behind.min(size.div_ceil(self.block_size()));
            self.next_job += 1;
            let job = Job {
                id: self.next_job,
                ino,
                stage: Stage::Placing,
                group: self.requests.open(),
                next: io.first * per_page,
                end,
                io,
                placed: Vec::new(),
                attached: 0,
                well: true,
            };
            self.purposes.insert(job.group, Purpose::Job(job.id));
            self.jobs.push(job);
            self.run_job(self.jobs.len() - 1);
        }
    }

    fn next_run(&mut self) -> Option<(u32, Io)> {
        let request = self.policy.request;
        while let Some(&ino) = self.urgent.last() {
            let file = self.nodes.get(ino).and_then(|node| node.file);
            match file.and_then(|file| self.cache.collect(file, 0, u64::MAX, request)) {
                Some(io) => return Some((ino, io)),
                None => {
                    self.urgent.pop();
                }
            }
        }
        let policy = Policy {
            patience: match self.everything {
                true => 0,
                false => self.policy.patience,
            },
            ..self.policy
        };
        let Some(file) = self.cache.due(self.clock, &policy) else {
            self.everything &= !self.jobs.is_empty();
            return None;
        };
        let ino = *self.owners.get(&file)?;
        let io = self.cache.collect(file, 0, u64::MAX, request)?;
        Some((ino, io))
    }

    /// What waits for metadata or the journal tries again.
    pub(crate) fn run_jobs(&mut self) {
        let mut index = 0;
        while index < self.jobs.len() {
            // A job that ends leaves its place to another.
            if !self.run_job(index) {
                index += 1;
            }
        }
    }

    /// The job goes on; true when it is over.
    fn run_job(&mut self, index: usize) -> bool {
        match self.jobs[index].stage {
            Stage::Placing => match self.place(index) {
                Err(Failure::Wait(_)) => return false,
                placed => {
                    let job = &mut self.jobs[index];
                    job.well &= placed.is_ok();
                    job.stage = Stage::Moving;
                    let group = job.group;
                    self.requests.seal(group);
                    return false;
                }
            },
            Stage::Moving => return false,
            Stage::Attaching => {}
        }
        if self.jobs[index].well {
            match self.attach(index) {
                Err(Failure::Wait(_)) => return false,
                attached => self.jobs[index].well &= attached.is_ok(),
            }
        }
        let job = self.jobs.swap_remove(index);
        self.job_over(job);
        true
    }

    /// The blocks of the rest of a job's pages are found or reserved, and the pages given to the device.
    fn place(&mut self, index: usize) -> Answer<()> {
        let ino = self.jobs[index].ino;
        self.finish_cut(ino)?;
        let size = self.block_size();
        loop {
            let job = &self.jobs[index];
            if job.next >= job.end {
                return Ok(());
            }
            let (at, count) = (job.next as u32, (job.end - job.next) as u32);
            let pieces = match self.nodes.get(ino).map(|node| node.known) {
                Some(known)
                    if u64::from(known.at) <= u64::from(at) && u64::from(at) < known.end =>
                {
                    alloc::vec![Piece {
                        at,
                        len: (known.end - u64::from(at)).min(u64::from(count)) as u32,
                        place: Place::Written(known.start + u64::from(at - known.at)),
                    }]
                }
                _ => self.act(|fs| fs.map(ino, at, count))?,
            };
            for piece in pieces {
                let (at, mut len) = (piece.at, piece.len);
                let start = match piece.place {
                    Place::Written(start) => start,
                    Place::Unwritten(start) => {
                        self.jobs[index].placed.push(Placed::Unwritten(at, len));
                        start
                    }
                    Place::Hole => {
                        let (blank, some) = self.blank(index, at, len);
                        if blank {
                            let job = &mut self.jobs[index];
                            job.placed.push(Placed::Blank(at, some));
                            job.next = u64::from(at + some);
                            if some != len {
                                break;
                            }
                            continue;
                        }
                        let run = self.act(|fs| fs.reserve(ino, at, some))?;
                        self.jobs[index].placed.push(Placed::New(at, run));
                        len = run.len;
                        run.start
                    }
                };
                let job = &mut self.jobs[index];
                let from = u64::from(at) * size - job.io.first * PAGE64;
                let bytes = u64::from(len) * size;
                let first = (from / PAGE64) as usize;
                let last = (from + bytes).div_ceil(PAGE64) as usize;
                let pages = &job.io.slots[first..last];
                let offset = (from % PAGE as u64) as u32;
                let group = job.group;
                self.requests
                    .add(group, Kind::Write, start * size, bytes, pages, offset);
                job.next = u64::from(at) + u64::from(len);
                if len != piece.len {
                    break;
                }
            }
        }
    }

    /// Of blocks where the file has a hole: how many from the first on are promised, or hold something all the same (then false), or how many stay a hole.
    fn blank(&mut self, index: usize, at: u32, len: u32) -> (bool, u32) {
        let (size, job) = (self.block_size(), &self.jobs[index]);
        let delayed = self.nodes.get(job.ino).map(|node| &node.delayed);
        let run = delayed.and_then(|delayed| delayed.next(u64::from(at)));
        let end = u64::from(at) + u64::from(len);
        let (start, stop) = run.unwrap_or((end, end));
        if start <= u64::from(at) {
            return (false, (stop.min(end) - u64::from(at)) as u32);
        }
        let mut blank = 0;
        for block in u64::from(at)..start.min(end) {
            let from = block * size - job.io.first * PAGE64;
            let slot = job.io.slots[(from / PAGE64) as usize];
            let bytes = self
                .cache
                .memory()
                .bytes(slot, (from % PAGE64) as usize, size as usize);
            if bytes.iter().any(|byte| *byte != 0) {
                return (blank != 0, blank.max(1));
            }
            blank += 1;
        }
        (true, blank)
    }

    pub(crate) fn job_moved(&mut self, id: u64, well: bool) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.id == id) {
            job.well &= well;
            job.stage = Stage::Attaching;
        }
    }

    /// The data is on the device: its blocks become the file's.
    fn attach(&mut self, index: usize) -> Answer<()> {
        let ino = self.jobs[index].ino;
        self.finish_cut(ino)?;
        let bytes = self.block_size();
        let node = self.node(ino)?;
        let (size, time) = (node.size, node.mtime);
        while let Some(&placed) = self.jobs[index].placed.get(self.jobs[index].attached) {
            match placed {
                Placed::New(at, run) => {
                    let end = (u64::from(at) + u64::from(run.len)) * bytes;
                    self.act(|fs| fs.attach(ino, at, run, size.min(end), time))?;
                    let node = self.node(ino)?;
                    node.unlearn();
                    node.learn(at, run.len, Place::Written(run.start));
                }
                Placed::Unwritten(at, count) => {
                    let end = (u64::from(at) + u64::from(count)) * bytes;
                    self.act(|fs| fs.written(ino, at, count, size.min(end), time))?;
                }
                Placed::Blank(..) => {}
            }
            self.jobs[index].attached += 1;
        }
        // What lies in blocks that the file had may reach further than the image knows.
        let end = size.min(self.jobs[index].end * bytes);
        if self.act(|fs| fs.inode(ino))?.size < end {
            self.act(|fs| fs.extend(ino, end, time))?;
        }
        Ok(())
    }

    fn job_over(&mut self, job: Job) {
        for placed in &job.placed[job.attached..] {
            if let Placed::New(_, run) = placed {
                self.fs.unreserve(*run);
            }
        }
        let (from, to) = (job.io.first, job.io.first + job.io.slots.len() as u64);
        if let Some(node) = self.nodes.get_mut(job.ino) {
            node.flush = self.flush_begun + 1;
        }
        if job.well {
            // What was written meanwhile where nothing was placed is still to come.
            let mut done = from * self.per_page();
            for placed in &job.placed {
                if let Placed::Blank(at, count) = *placed {
                    self.break_blocks(job.ino, done, u64::from(at));
                    done = u64::from(at) + u64::from(count);
                }
            }
            self.break_blocks(job.ino, done, job.end);
        }
        // The core has set the times to those of the last write; others may have changed since.
        if !job.placed.is_empty() {
            self.moved = true;
            self.touch(job.ino);
        }
        self.refresh(job.ino);
        if !job.well {
            let log = self.options.log;
            log(format_args!(
                "inode {}: pages {from}..{to} could not be written",
                job.ino
            ));
            // Whoever waits is told; it is tried again later.
            self.urgent.retain(|ino| *ino != job.ino);
            self.everything = false;
            if let Some(node) = self.nodes.get_mut(job.ino) {
                node.syncing = false;
            }
        }
        let file = job.io.file;
        self.cache.written(job.io, job.well, self.clock);
        if let Some(node) = self.nodes.get_mut(job.ino) {
            if self.cache.pending(file, 0, u64::MAX) == (false, false) {
                node.syncing = false;
            }
        }
        self.wakes.extend([keys::pages(job.ino), keys::ROOM]);
    }

    /// Blocks behind the end of a file are freed before it grows.
    pub(crate) fn finish_cut(&mut self, ino: u32) -> Answer<()> {
        while self.nodes.get(ino).is_some_and(|node| node.cutting) {
            let now = self.now;
            if self.act(|fs| fs.cut_rest(ino, now))? {
                let node = self.node(ino)?;
                node.cutting = false;
                // Who read in the meantime may have seen blocks that are gone now.
                node.unlearn();
                self.refresh(ino);
            }
        }
        Ok(())
    }

    /// The promises for pages that go unwritten are taken back.
    pub(crate) fn break_promises(&mut self, ino: u32, from: u64, to: u64) {
        let per_page = self.per_page();
        self.break_blocks(ino, from * per_page, to.saturating_mul(per_page));
    }

    /// The same for blocks.
    pub(crate) fn break_blocks(&mut self, ino: u32, from: u64, to: u64) {
        if let Some(node) = self.nodes.get_mut(ino) {
            let had = node.delayed.remove(from, to);
            self.fs.unpromise(had);
        }
    }
}
