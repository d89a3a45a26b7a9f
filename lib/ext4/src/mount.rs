//! Opening a file system: superblock, group descriptors, journal, replay, orphans. Like every operation it asks for the blocks that it needs, and it goes on where it was.

use crate::allocate::Busy;
use crate::bytes::le32;
use crate::cache::{Cache, Kind};
use crate::error::{damaged, Error};
use crate::fs::{Fs, Step, Time};
use crate::journal::replay::Replay;
use crate::journal::Journal;
use crate::kept::Kept;
use crate::redo::Redo;
use crate::shape::{Shape, SUPER_BYTES};
use crate::transaction::{Op, Running};
use crate::zones::Zones;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;

/// Blocks of a step of the replay.
const SHARE: usize = 256;

enum Stage {
    /// The superblock is read again after a replay.
    Reload,
    Table,
    Log,
    Replay(Journal, Replay),
    /// Whole transactions go home, in shares: what is left of them, the last first.
    Home(Journal, Replay, Vec<u64>),
    /// What a predecessor did since its last commit is done again; the transaction that it belongs to.
    Redo(Redo, u32),
    Orphans(u32, u32),
    /// The superblock says that the log may hold something, then the log begins.
    Mark(u32),
    Open(u32),
    Done,
}

/// A file system on its way.
pub struct Mount {
    fs: Fs,
    stage: Stage,
    device_bytes: u64,
    cache_blocks: usize,
    write: bool,
    /// A replay has been here; its last transaction, and what it changed if that may not be written.
    replayed: Option<u32>,
    kept: Vec<(u64, Rc<[u8]>)>,
    /// Memory that outlives us, and whether what was found there made no sense.
    memory: &'static [AtomicU64],
    strange: bool,
}

pub enum Progress {
    /// For the device; then call again.
    Step(Step),
    Done,
}

impl Mount {
    /// From the 1024 bytes at byte 1024 of a device of `device_bytes`; `cache_blocks` of metadata are kept. With `write` it can be changed, and the log is replayed on the device.
    pub fn new(
        superblock: &[u8],
        device_bytes: u64,
        cache_blocks: usize,
        write: bool,
    ) -> Result<Mount, Error> {
        let shape = Shape::read(superblock, device_bytes)?;
        if let Some(why) = shape.not_writable.filter(|_| write) {
            return Err(Error::Unsupported(why));
        }
        Ok(Mount {
            fs: Fs::new(shape, cache_blocks),
            stage: Stage::Table,
            device_bytes,
            cache_blocks,
            write,
            replayed: None,
            kept: Vec::new(),
            memory: &[],
            strange: false,
        })
    }

    /// From now on what operations change is kept in this memory until it is durable, and what a predecessor has left there is done again. (If it is too small for that, nothing is.)
    pub fn keep_in(&mut self, memory: &'static [AtomicU64]) {
        self.memory = memory;
    }

    /// What a predecessor left made no sense, and some of it is lost.
    pub fn found_nonsense(&self) -> bool {
        self.strange
    }

    pub fn block_size(&self) -> usize {
        self.fs.shape.block_size
    }

    pub fn supply(&mut self, block: u64, data: &[u8]) {
        self.fs.cache.supply(block, data);
    }

    /// When [`Mount::run`] has said that it is done.
    pub fn finish(self) -> Result<Fs, Error> {
        match self.stage {
            Stage::Done => Ok(self.fs),
            _ => Err(Error::Invalid),
        }
    }

    /// Goes on as far as it can. A step of the device must be done before the next call.
    pub fn run(&mut self, now: Time) -> Result<Progress, Error> {
        loop {
            match &mut self.stage {
                Stage::Reload => self.reload()?,
                Stage::Table => {
                    self.table()?;
                    self.stage = Stage::Log;
                }
                Stage::Log => self.stage = self.log()?,
                Stage::Replay(journal, replay) => {
                    replay.run(journal, &self.fs.cache, self.fs.shape.blocks)?;
                    let blocks = replay.map.keys().rev().copied().collect();
                    let Stage::Replay(journal, replay) =
                        core::mem::replace(&mut self.stage, Stage::Done)
                    else {
                        return Err(Error::Invalid);
                    };
                    self.stage = Stage::Home(journal, replay, blocks);
                }
                Stage::Home(..) => {
                    if let Some(step) = self.home()? {
                        return Ok(Progress::Step(step));
                    }
                }
                Stage::Redo(redo, tid) => {
                    let last = self.fs.redo(redo)?;
                    let last = last.unwrap_or(self.fs.shape.last_orphan);
                    self.stage = Stage::Orphans(last, *tid);
                }
                Stage::Orphans(next, tid) => {
                    let (next, tid) = (*next, *tid);
                    self.stage = self.orphans(next, tid)?;
                }
                Stage::Mark(tid) => {
                    let tid = *tid;
                    let step = self.fs.mark_open(now)?;
                    self.stage = Stage::Open(tid);
                    return Ok(Progress::Step(step));
                }
                Stage::Open(tid) => {
                    let tid = *tid;
                    let step = self.fs.open_log(tid)?;
                    self.fs.writable = true;
                    self.stage = Stage::Done;
                    return Ok(Progress::Step(step));
                }
                Stage::Done => return Ok(Progress::Done),
            }
        }
    }

    /// All descriptors, for good.
    fn table(&mut self) -> Result<(), Error> {
        let fs = &mut self.fs;
        let first = fs.shape.first_data + 1;
        let end = first + u64::from(fs.shape.descriptor_blocks());
        let (super_block, _) = fs.shape.super_at();
        for block in core::iter::once(super_block).chain(first..end) {
            if !fs.cache.holds(block) {
                let count = if block < first {
                    1
                } else {
                    (end - block).min(32) as u32
                };
                return Err(Error::Need { block, count });
            }
            fs.cache.pin(block);
        }
        fs.survey()
    }

    fn log(&mut self) -> Result<Stage, Error> {
        let Some(ino) = self.fs.shape.journal else {
            return Ok(Stage::Done);
        };
        if ino >= self.fs.shape.first_inode {
            return damaged("journal inode", u64::from(ino));
        }
        let (journal, start) = self.fs.load_journal(ino)?;
        self.fs.zones.add(journal.zones());
        let tid = match self.replayed {
            Some(tid) => tid,
            None if start.start == 0 => start.sequence,
            None if self.fs.shape.recover => {
                let replay = Replay::new(&journal, &start);
                return Ok(Stage::Replay(journal, replay));
            }
            // It says that it needs no replay; who is right cannot be known.
            None if self.write => return damaged("log of a clean file system", 0),
            None => start.sequence,
        };
        if !self.write {
            // With a log to be replayed, or files without names, it is not clean.
            let has_orphans = self.fs.shape.last_orphan != 0 || self.fs.orphan_file.is_some();
            self.fs.closed = self.replayed.is_none() && start.start == 0 && !has_orphans;
            self.fs.keep_log(journal, tid);
            return Ok(Stage::Done);
        }
        journal.check()?;
        self.fs.journal = Some(journal);
        let shape = &self.fs.shape;
        let whose = u64::from(shape.seed) << 32 | shape.blocks & 0xFFFF_FFFF;
        if let Some((kept, strange)) = Kept::new(self.memory, shape.block_size, whose, tid) {
            self.fs.kept = Some(kept);
            self.strange |= strange;
        }
        Ok(Stage::Redo(self.fs.begin_redo(), tid))
    }

    /// The next share of the replay; at its end everything is read anew.
    fn home(&mut self) -> Result<Option<Step>, Error> {
        let Stage::Home(journal, replay, left) = &mut self.stage else {
            return Ok(None);
        };
        let mut share = Vec::new();
        for block in left.iter().rev().take(SHARE) {
            if let Some(logged) = replay.map.get(block) {
                share.push((*block, replay.content(journal, &self.fs.cache, logged)?));
            }
        }
        left.truncate(left.len().saturating_sub(SHARE));
        let over = left.is_empty();
        let tid = replay.tid;
        let mut step = None;
        if self.write {
            step = Some(Step {
                writes: share,
                flush: over,
                name: "replay",
            });
        } else {
            self.kept.append(&mut share);
        }
        if over {
            self.again(tid)?;
        }
        Ok(step)
    }

    /// After the replay: with what the log held, as if it had always been there.
    fn again(&mut self, tid: u32) -> Result<(), Error> {
        self.replayed = Some(tid);
        self.fs.cache.clear();
        let (block, begin) = self.fs.shape.super_at();
        let mut shape = self.fs.shape.clone();
        let kept = core::mem::take(&mut self.kept);
        if let Some((_, data)) = kept.iter().find(|(at, _)| *at == block) {
            shape = Shape::read(&data[begin..begin + SUPER_BYTES], self.device_bytes)?;
            if shape.block_size != self.fs.shape.block_size {
                return damaged("superblock in the log", block);
            }
        }
        self.fs = Fs::new(shape, self.cache_blocks);
        for (block, data) in kept {
            self.fs.cache.keep_logged(block, data);
        }
        self.stage = Stage::Table;
        if self.write {
            self.stage = Stage::Reload;
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<(), Error> {
        let (block, begin) = self.fs.shape.super_at();
        let data = self.fs.checked(block, Kind::Parts)?.to_vec();
        let shape = Shape::read(&data[begin..begin + SUPER_BYTES], self.device_bytes)?;
        if shape.block_size != self.fs.shape.block_size {
            return damaged("superblock in the log", block);
        }
        if let Some(why) = shape.not_writable {
            return Err(Error::Unsupported(why));
        }
        self.fs = Fs::new(shape, self.cache_blocks);
        self.fs.cache.supply(block, &data);
        self.stage = Stage::Table;
        Ok(())
    }

    /// The chain of orphans: each inode once.
    fn orphans(&mut self, next: u32, tid: u32) -> Result<Stage, Error> {
        let fs = &mut self.fs;
        let mut next = next;
        let mut known: BTreeSet<u32> = fs.orphans.iter().copied().collect();
        while next != 0 {
            if next < fs.shape.first_inode || next > fs.shape.inodes || !known.insert(next) {
                return damaged("list of orphans", u64::from(next));
            }
            let raw = fs.raw_inode(next);
            match raw {
                Ok(raw) => {
                    let before = le32(raw, 0x14);
                    fs.orphans.push(next);
                    next = before;
                }
                Err(error) => {
                    self.stage = Stage::Orphans(next, tid);
                    return Err(error);
                }
            }
        }
        fs.orphans.reverse();
        Ok(Stage::Mark(tid))
    }
}

impl Fs {
    fn new(shape: Shape, cache_blocks: usize) -> Fs {
        Fs {
            cache: Cache::new(shape.block_size, cache_blocks),
            zones: Zones::default(),
            tables: Vec::new(),
            journal: None,
            running: Running::default(),
            op: Op::default(),
            kept: None,
            busy: Busy::new(shape.groups),
            discards: false,
            freed: Vec::new(),
            free_blocks: 0,
            free_inodes: 0,
            promised: 0,
            orphans: Vec::new(),
            orphan_file: shape.orphan_file,
            cutting: BTreeSet::new(),
            writable: false,
            closed: false,
            memo: RefCell::new(None),
            shape,
        }
    }
}
