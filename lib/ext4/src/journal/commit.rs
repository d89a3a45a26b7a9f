//! Writing the log. The server asks for the next [`Step`], lets the device do it, and says so; meanwhile operations go on in the next transaction.
//!
//! A commit: all blocks of the transaction into the log, flush; its commit block, flush; now it is durable. File data that it speaks of was on the device before the
//! operations that attached it, so the first flush covers that too. A checkpoint: everything committed goes home, flush; the journal's superblock says that the log is empty,
//! flush; only then is its room used again. Commits and checkpoints take turns, so a block is never on two ways at once.

use super::{
    Frees, Journal, Revokes, COMMIT, DESCRIPTOR, ESCAPED, HEAD, LAST, MAGIC, REVOKE, SAME_UUID,
};
use crate::bytes::{be32, put, put16, put32, put_be32};
use crate::cache::Kind;
use crate::error::Error;
use crate::fs::{Fs, Step, Time};
use crate::shape::{at, RECOVER, SUPER_BYTES};
use crate::transaction::CREDITS;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use cairn_crc32c::crc32c;

/// What the device is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    #[default]
    Idle,
    Log,
    Commit,
    Home,
    Tail,
    /// Of closing: the log is declared empty, then the superblock clean.
    Empty,
    Clean,
    /// Of opening it again: the superblock says that the log may hold something, then the log begins.
    Mark,
    Open,
}

#[derive(Default)]
pub(crate) struct Wants {
    commit: bool,
    checkpoint: bool,
    close: bool,
    reopen: bool,
    /// The activity's step is out.
    waiting: bool,
}

pub(crate) struct Committing {
    tid: u32,
    pub blocks: Vec<(u64, Rc<[u8]>)>,
    pub frees: Frees,
    revokes: Revokes,
    inodes: BTreeMap<u32, bool>,
    /// What was kept before this is durable with it.
    kept: u64,
    /// The commit block, and how many blocks of the log it all takes.
    last: (u64, Rc<[u8]>),
    used: u32,
    head: u32,
}

/// A transaction as blocks of the log: those that come first, the commit block, how many it takes, and where the next one goes.
struct LaidOut {
    writes: Vec<(u64, Rc<[u8]>)>,
    last: (u64, Rc<[u8]>),
    used: u32,
    head: u32,
}

impl Journal {
    fn per_descriptor(&self) -> usize {
        let size = self.head_block.len() - HEAD - 16 - self.format.tail();
        size / self.format.tag()
    }

    fn per_revoke(&self) -> usize {
        let size = self.head_block.len() - HEAD - 4 - self.format.tail();
        size / if self.format.wide { 8 } else { 4 }
    }

    /// Blocks of the log for a transaction of so many blocks and revoked ones.
    fn cost(&self, blocks: usize, revokes: usize) -> usize {
        1 + blocks + blocks.div_ceil(self.per_descriptor()) + revokes.div_ceil(self.per_revoke())
    }

    fn free(&self) -> usize {
        (self.capacity() - self.used) as usize - 1
    }

    fn begin_block(&self, kind: u32, tid: u32) -> Vec<u8> {
        let mut data = vec![0; self.head_block.len()];
        put_be32(&mut data, 0, MAGIC);
        put_be32(&mut data, 4, kind);
        put_be32(&mut data, 8, tid);
        data
    }

    fn finish_block(&self, mut data: Vec<u8>) -> Rc<[u8]> {
        if self.format.sums() {
            let tail = data.len() - 4;
            let sum = crc32c(self.format.seed, &data);
            put_be32(&mut data, tail, sum);
        }
        data.into()
    }

    fn put_tag(&self, data: &mut [u8], at: usize, home: u64, flags: u32, tid: u32, content: &[u8]) {
        put_be32(data, at, home as u32);
        if self.format.v3 {
            let sum = crc32c(self.format.seed, &tid.to_be_bytes());
            put_be32(data, at + 4, flags);
            put_be32(data, at + 8, (home >> 32) as u32);
            put_be32(data, at + 12, crc32c(sum, content));
        } else {
            put(data, at + 6, &(flags as u16).to_be_bytes());
            if self.format.wide {
                put_be32(data, at + 8, (home >> 32) as u32);
            }
        }
    }

    /// A transaction as it goes into the log from `head` on.
    fn lay_out(
        &self,
        tid: u32,
        blocks: &[(u64, Rc<[u8]>)],
        revokes: &Revokes,
        now: Time,
    ) -> Result<LaidOut, Error> {
        let mut writes = Vec::with_capacity(self.cost(blocks.len(), revokes.len()));
        let mut head = self.head;
        let mut place = || -> Result<u64, Error> {
            let block = self.block(head)?;
            head = self.next(head);
            Ok(block)
        };
        let revokes: Vec<u64> = revokes.iter().copied().collect();
        for some in revokes.chunks(self.per_revoke()) {
            let mut data = self.begin_block(REVOKE, tid);
            let mut next = HEAD + 4;
            for block in some {
                if self.format.wide {
                    put(&mut data, next, &block.to_be_bytes());
                    next += 8;
                } else {
                    put_be32(&mut data, next, *block as u32);
                    next += 4;
                }
            }
            put_be32(&mut data, HEAD, next as u32);
            writes.push((place()?, self.finish_block(data)));
        }
        for some in blocks.chunks(self.per_descriptor()) {
            let mut data = self.begin_block(DESCRIPTOR, tid);
            let descriptor = place()?;
            let mut next = HEAD;
            let first = writes.len();
            for (number, (home, content)) in some.iter().enumerate() {
                let mut flags = if number == 0 { 0 } else { SAME_UUID };
                if number + 1 == some.len() {
                    flags |= LAST;
                }
                let mut content = content.clone();
                if be32(&content, 0) == MAGIC {
                    put32(Rc::make_mut(&mut content), 0, 0);
                    flags |= ESCAPED;
                }
                self.put_tag(&mut data, next, *home, flags, tid, &content);
                next += self.format.tag();
                if number == 0 {
                    put(&mut data, next, &self.format.uuid);
                    next += 16;
                }
                writes.push((place()?, content));
            }
            writes.insert(first, (descriptor, self.finish_block(data)));
        }
        let mut data = self.begin_block(COMMIT, tid);
        put(&mut data, 48, &(now.sec as u64).to_be_bytes());
        put_be32(&mut data, 56, now.nsec);
        if self.format.sums() {
            let sum = crc32c(self.format.seed, &data);
            put_be32(&mut data, 16, sum);
        }
        let last = (place()?, data.into());
        let used = writes.len() as u32 + 1;
        Ok(LaidOut {
            writes,
            last,
            used,
            head,
        })
    }
}

impl Fs {
    /// Whether the log could take the running transaction with so many blocks more.
    pub(crate) fn journal_has_room(&self, more: usize) -> bool {
        let Some(journal) = &self.journal else {
            return false;
        };
        let blocks = self.cache.running.len() + more;
        let revokes = self.running.revokes.len() + 8 * more;
        let whole = journal.capacity() as usize;
        // What is on its way into the log will be in it.
        let coming = journal
            .committing
            .as_ref()
            .map_or(0, |closed| closed.used as usize);
        blocks <= whole / 3 && journal.cost(blocks, revokes) + coming <= journal.free()
    }

    /// The number of the transaction that collects changes now. It is on the device when [`Fs::durable`] is not before it.
    pub fn transaction(&self) -> u32 {
        self.journal.as_ref().map_or(0, |journal| journal.tid)
    }

    pub fn durable(&self) -> u32 {
        self.journal.as_ref().map_or(0, |journal| journal.durable)
    }

    pub fn is_durable(&self, transaction: u32) -> bool {
        self.durable().wrapping_sub(transaction) as i32 >= 0
    }

    /// fsync, and with `data_only` fdatasync: the transaction that must become durable, if any.
    pub fn unsynced(&self, ino: u32, data_only: bool) -> Option<u32> {
        let wanted = |data: &bool| *data || !data_only;
        // What was put there as it was, or taken back, changed nothing, and there may be nothing to commit.
        if self.has_changes() && self.running.inodes.get(&ino).is_some_and(wanted) {
            return Some(self.transaction());
        }
        let closed = self.journal.as_ref()?.committing.as_ref()?;
        closed
            .inodes
            .get(&ino)
            .is_some_and(wanted)
            .then_some(closed.tid)
    }

    fn want(&mut self, what: impl FnOnce(&mut Wants)) {
        if let Some(journal) = self.journal.as_mut().filter(|_| self.writable) {
            what(&mut journal.wants);
        }
    }

    /// What has changed shall become durable.
    pub fn commit(&mut self) {
        self.want(|wants| wants.commit = true);
    }

    /// What is durable shall go home as well, so that a replay would have nothing to do.
    pub fn checkpoint(&mut self) {
        self.want(|wants| wants.checkpoint = true);
    }

    /// Everything goes home and the file system is declared clean; when there are no more steps nothing can be changed.
    pub fn close(&mut self) {
        self.want(|wants| (wants.commit, wants.checkpoint, wants.close) = (true, true, true));
    }

    /// What was closed, or opened to be read only, shall be changed again: when there are no more steps it can be.
    pub fn reopen(&mut self) -> Result<(), Error> {
        if self.writable {
            return Ok(());
        }
        if let Some(why) = self.shape.not_writable {
            return Err(Error::Unsupported(why));
        }
        if !self.closed {
            return Err(Error::ReadOnly);
        }
        self.journal.as_ref().ok_or(Error::ReadOnly)?.check()?;
        if let Some(journal) = &mut self.journal {
            let waiting = journal.wants.waiting;
            journal.wants = Wants {
                reopen: true,
                waiting,
                ..Wants::default()
            };
        }
        Ok(())
    }

    /// The log of what is opened to be read only, in which the next transaction will have this number.
    pub(crate) fn keep_log(&mut self, mut journal: Journal, tid: u32) {
        journal.tid = tid;
        self.journal = Some(journal);
    }

    /// [`Fs::reopen`] has not come to its end.
    pub fn is_opening(&self) -> bool {
        let opening = |journal: &Journal| journal.wants.reopen;
        !self.writable && self.closed && self.journal.as_ref().is_some_and(opening)
    }

    fn reopening(&mut self, now: Time) -> Result<Option<Step>, Error> {
        let wants = |journal: &&mut Journal| journal.wants.reopen && !journal.wants.waiting;
        let Some(journal) = self.journal.as_mut().filter(wants) else {
            return Ok(None);
        };
        let (tid, begun) = (journal.tid, journal.activity == Activity::Mark);
        let step = match begun {
            false => self.mark_open(now)?,
            true => self.open_log(tid)?,
        };
        if let Some(journal) = &mut self.journal {
            journal.activity = if begun {
                Activity::Open
            } else {
                Activity::Mark
            };
            journal.wants.waiting = true;
        }
        Ok(Some(step))
    }

    /// What the device shall do next for what was wanted. None: nothing, or the last step is not done yet.
    pub fn step(&mut self, now: Time) -> Result<Option<Step>, Error> {
        let changes = self.has_changes();
        let Some(journal) = self.journal.as_mut().filter(|_| self.writable) else {
            return self.reopening(now);
        };
        if journal.wants.waiting {
            return Ok(None);
        }
        let (running, revokes) = (self.cache.running.len(), self.running.revokes.len());
        let step = match journal.activity {
            Activity::Idle if journal.wants.commit && changes => {
                // Sums and numbers may put a few more blocks into the transaction.
                let need = journal.cost(running + CREDITS, revokes);
                if need > journal.free() && !journal.home.is_empty() {
                    Some(self.send_home())
                } else {
                    Some(self.close_transaction(now)?)
                }
            }
            Activity::Idle => {
                journal.wants.commit = false;
                let full = journal.free() < journal.capacity() as usize / 2;
                if (journal.wants.checkpoint || full) && !journal.home.is_empty() {
                    Some(self.send_home())
                } else {
                    journal.wants.checkpoint = false;
                    if journal.wants.close {
                        Some(self.empty_log()?)
                    } else {
                        None
                    }
                }
            }
            Activity::Log => {
                let last = journal
                    .committing
                    .as_ref()
                    .map(|closed| closed.last.clone());
                journal.activity = Activity::Commit;
                Some(Step {
                    writes: last.into_iter().collect(),
                    flush: true,
                    name: "commit block",
                })
            }
            Activity::Home => {
                journal.activity = Activity::Tail;
                let (head, tid) = (journal.head, journal.tid);
                let block = journal.block(0)?;
                Some(Step {
                    writes: vec![(block, journal.head_with(head, tid))],
                    flush: true,
                    name: "tail",
                })
            }
            Activity::Empty => {
                journal.activity = Activity::Clean;
                let write = self.super_with(|raw| {
                    let features = crate::bytes::le32(raw, at::INCOMPAT);
                    put32(raw, at::INCOMPAT, features & !RECOVER);
                    put32(raw, at::WRITTEN, now.sec as u32);
                })?;
                Some(Step {
                    writes: vec![write],
                    flush: true,
                    name: "clean",
                })
            }
            // These are over when their step is done.
            Activity::Commit | Activity::Tail | Activity::Clean => None,
            // Not while it can be changed.
            Activity::Mark | Activity::Open => None,
        };
        if let Some(journal) = &mut self.journal {
            journal.wants.waiting = step.is_some();
        }
        Ok(step)
    }

    /// The device has done the last step, or has failed: then nothing is written any more.
    pub fn stepped(&mut self, well: bool) {
        if !well {
            (self.writable, self.closed) = (false, false);
        }
        let Some(journal) = self.journal.as_mut().filter(|_| well) else {
            return;
        };
        journal.wants.waiting = false;
        match journal.activity {
            Activity::Commit => {
                journal.activity = Activity::Idle;
                if let Some(closed) = journal.committing.take() {
                    journal.durable = closed.tid;
                    journal.head = closed.head;
                    journal.used += closed.used;
                    for block in &closed.revokes {
                        journal.home.remove(block);
                    }
                    journal.home.extend(closed.blocks);
                    if let Some(kept) = &mut self.kept {
                        kept.durable(closed.kept);
                    }
                    match self.discards {
                        true => self.freed.extend(closed.frees),
                        false => self.discarded(&closed.frees),
                    }
                }
            }
            Activity::Tail => {
                journal.activity = Activity::Idle;
                journal.used = 0;
                for (block, _) in core::mem::take(&mut journal.home) {
                    self.cache.at_home(block);
                }
            }
            Activity::Clean => {
                journal.activity = Activity::Idle;
                (self.writable, self.closed) = (false, true);
            }
            Activity::Open => {
                journal.activity = Activity::Idle;
                journal.wants.reopen = false;
                (self.writable, self.closed) = (true, false);
            }
            _ => {}
        }
    }

    fn close_transaction(&mut self, now: Time) -> Result<Step, Error> {
        self.seal()?;
        let blocks = self.cache.close_running();
        let running = core::mem::take(&mut self.running);
        let Some(journal) = &mut self.journal else {
            return Err(Error::ReadOnly);
        };
        let tid = journal.tid;
        let laid_out = journal.lay_out(tid, &blocks, &running.revokes, now)?;
        journal.tid = tid.wrapping_add(1);
        journal.activity = Activity::Log;
        journal.committing = Some(Committing {
            tid,
            blocks,
            frees: running.frees,
            revokes: running.revokes,
            inodes: running.inodes,
            kept: self.kept.as_ref().map_or(0, |kept| kept.end()),
            last: laid_out.last,
            used: laid_out.used,
            head: laid_out.head,
        });
        Ok(Step {
            writes: laid_out.writes,
            flush: true,
            name: "log",
        })
    }

    fn send_home(&mut self) -> Step {
        let mut writes = Vec::new();
        if let Some(journal) = &mut self.journal {
            journal.activity = Activity::Home;
            writes = journal
                .home
                .iter()
                .map(|(block, data)| (*block, data.clone()))
                .collect();
        }
        Step {
            writes,
            flush: true,
            name: "home",
        }
    }

    fn empty_log(&mut self) -> Result<Step, Error> {
        let Some(journal) = &mut self.journal else {
            return Err(Error::ReadOnly);
        };
        journal.activity = Activity::Empty;
        let tid = journal.tid;
        Ok(Step {
            writes: vec![(journal.block(0)?, journal.head_with(0, tid))],
            flush: true,
            name: "empty",
        })
    }

    /// The superblock with changes that do not go through the log.
    fn super_with(&mut self, change: impl FnOnce(&mut [u8])) -> Result<(u64, Rc<[u8]>), Error> {
        let (block, begin) = self.shape.super_at();
        self.checked(block, Kind::Parts)?;
        let checksums = self.shape.checksums;
        let data = self.cache.rewrite(block, |data| {
            let raw = &mut data[begin..begin + SUPER_BYTES];
            change(raw);
            if checksums {
                put32(raw, at::CHECKSUM, crc32c(!0, &raw[..at::CHECKSUM]));
            }
        })?;
        Ok((block, data))
    }

    /// From now on the log may hold something: the superblock says so before the log does, or `e2fsck` finds a log that nobody speaks of.
    pub(crate) fn mark_open(&mut self, now: Time) -> Result<Step, Error> {
        let write = self.super_with(|raw| {
            let features = crate::bytes::le32(raw, at::INCOMPAT);
            put32(raw, at::INCOMPAT, features | RECOVER);
            put32(raw, at::MOUNTED, now.sec as u32);
            put32(raw, at::WRITTEN, now.sec as u32);
            let mounts = crate::bytes::le16(raw, at::MOUNTS).saturating_add(1);
            put16(raw, at::MOUNTS, mounts);
        })?;
        Ok(Step {
            writes: vec![write],
            flush: true,
            name: "mark",
        })
    }

    /// The log of a file system that is opened for writing begins with this transaction.
    pub(crate) fn open_log(&mut self, tid: u32) -> Result<Step, Error> {
        let (wide, sums) = (self.shape.wide, self.shape.checksums);
        let Some(journal) = &mut self.journal else {
            return Err(Error::ReadOnly);
        };
        journal.set_format(wide, sums);
        journal.tid = tid;
        journal.durable = tid.wrapping_sub(1);
        journal.head = journal.first;
        let first = journal.first;
        Ok(Step {
            writes: vec![(journal.block(0)?, journal.head_with(first, tid))],
            flush: true,
            name: "open",
        })
    }
}
