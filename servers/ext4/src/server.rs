//! The server as a whole: what it holds, how an operation of the core waits for what it lacks, and how things go on when the device has done something.
//!
//! Requests and the server's own work meet in the same way: what cannot go on says so, and is begun again when the block, the page or the journal has come ([`crate::keys`]). Only
//! [`Ext4::settle`] looks at what the device has done; whoever finds after it that he still has to wait is woken by a later pulse.

use crate::behind::Job;
use crate::blocks::Reading;
use crate::discard::{Discards, RANGE};
use crate::keys;
use crate::left::Left;
use crate::map::Syncing;
use crate::memory::{Memory, PAGE64};
use crate::node::{Node, Nodes};
use crate::recent::RecentNames;
use crate::requests::{Group, Requests};
use crate::steps::Work;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_block::Device;
use cairn_cache::{Cache, File, Io, Mapped, Policy, Slot};
use cairn_ext4::{Error, Fs, Inode, Run, Time};
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Marks};

/// How the file system is mounted.
#[derive(Clone, Copy)]
pub struct Options {
    pub read_only: bool,
    /// Reads are not noted at all; otherwise as Linux does with `relatime`.
    pub no_access_times: bool,
    /// The device is told of blocks that were freed, if it wants to hear of it.
    pub discard: bool,
    /// Set-id bits of files count.
    pub gives_ids: bool,
    /// `st_dev`.
    pub device: u64,
    /// Where to say what somebody should know.
    pub log: fn(core::fmt::Arguments),
    /// Ends the program: it was unmounted.
    pub end: fn(),
}

/// What a group of requests is for.
pub(crate) enum Purpose {
    Blocks(u64),
    Load(u32, Io),
    Job(u64),
    Step,
    /// With its number.
    Flush(u64),
    /// These blocks, for a FITRIM or not.
    Discard(Vec<Run>, Option<Token>),
}

pub struct Ext4<M: Memory, D: Device> {
    pub(crate) fs: Fs,
    pub(crate) cache: Cache<M>,
    /// Files that programs have mapped, those of which pages are wanted, and what is to be written for msync.
    pub(crate) mapped: Mapped<M::Objects>,
    pub(crate) faults: BTreeSet<u32>,
    pub(crate) syncs: Vec<Syncing>,
    /// Pages have been made for a write that are not filled yet: none may go.
    pub(crate) filling: bool,
    pub(crate) policy: Policy,
    pub(crate) nodes: Nodes,
    pub(crate) names: RecentNames,
    pub(crate) owners: BTreeMap<File, u32>,
    pub(crate) requests: Requests<D>,
    pub(crate) purposes: BTreeMap<Group, Purpose>,
    /// Free pages through which metadata goes.
    pub(crate) staging: Vec<Slot>,
    /// Metadata on its way in, by its first block; what waits for staging pages; blocks that could not be read.
    pub(crate) reading: BTreeMap<u64, Reading>,
    pub(crate) wanted: VecDeque<(u64, u32)>,
    pub(crate) unreadable: BTreeSet<u64>,
    /// Pages of files that could not be read, until somebody was told.
    pub(crate) unreadable_pages: BTreeSet<(u32, u64)>,
    /// The journal's step under way.
    pub(crate) step: Option<Work>,
    /// File data on its way out.
    pub(crate) jobs: Vec<Job>,
    pub(crate) next_job: u64,
    /// Files that somebody waits for to be written; all of them.
    pub(crate) urgent: Vec<u32>,
    pub(crate) everything: bool,
    /// Files without names and handles that are still to be freed.
    pub(crate) ending: Vec<u32>,
    /// Files with blocks behind their ends that are still to be freed.
    pub(crate) cuts: Vec<u32>,
    /// Writes that wait in the middle: the file, and whose they are. Until they are done nobody else writes to it.
    pub(crate) writers: Vec<(u32, Token)>,
    /// Nodes that are dirty.
    pub(crate) touched: Vec<u32>,
    /// Flushes by number: the last that was begun, and the last that is done.
    pub(crate) flush_begun: u64,
    pub(crate) flush_done: u64,
    pub(crate) flush_failed: u64,
    /// A flush that files which were forgotten meanwhile would wait for.
    pub(crate) flush_forgotten: u64,
    /// What is left to a successor besides open files: those whose data is not on the disk.
    pub(crate) marks: Marks,
    /// Data that is only in the cache, for a successor.
    pub(crate) left: Left,
    /// Nodes whose data was changed since it was last seen to be on the disk.
    pub(crate) changed: Vec<u32>,
    /// What a predecessor had open and was found again, until the framework has asked for it; of these, what lost data.
    pub(crate) found: BTreeMap<u64, bool>,
    /// When the last commit was asked for.
    pub(crate) committed: u64,
    /// Data that was written behind is at its place, which is not committed yet.
    pub(crate) moved: bool,
    pub(crate) discards: Discards,
    /// The answer to FITRIM.
    pub(crate) trimmed: [u8; RANGE],
    pub(crate) wakes: Vec<u64>,
    pub(crate) armed: bool,
    /// It becomes read only: nothing new is begun.
    pub(crate) closing: bool,
    /// It was unmounted.
    pub(crate) ended: bool,
    pub(crate) now: Time,
    pub(crate) clock: u64,
    pub(crate) options: Options,
}

/// A request that may be made again: whose, and which of that thread's calls.
#[inline]
pub(crate) fn asker(cx: &Context) -> u64 {
    cx.request.token
}

pub(crate) fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

/// From nanoseconds since 1970.
#[inline]
pub(crate) fn time(ns: u64) -> Time {
    Time {
        sec: (ns / 1_000_000_000) as i64,
        nsec: (ns % 1_000_000_000) as u32,
    }
}

/// The core's answer as the program's.
fn number(error: Error) -> i64 {
    match error {
        Error::NotFound => ENOENT,
        Error::Exists => EEXIST,
        Error::NotEmpty => ENOTEMPTY,
        Error::NotDirectory => ENOTDIR,
        Error::IsDirectory => EISDIR,
        Error::NoSpace => ENOSPC,
        Error::TooManyLinks => EMLINK,
        Error::NameTooLong => ENAMETOOLONG,
        Error::TooLarge => EFBIG,
        Error::Invalid => EINVAL,
        Error::NoAttribute => ENODATA,
        Error::ReadOnly => EROFS,
        Error::Unsupported(_) => EOPNOTSUPP,
        Error::Damaged(..) => EUCLEAN,
        Error::Need { .. } | Error::CommitFirst => EIO,
    }
}

/// Between two looks at what should be written, in nanoseconds.
const TICK: u64 = 1_000_000_000;
/// Changes of metadata become durable after so long. Data waits for two seconds ([`cairn_cache::Policy`]) and is committed by the next look when it has come to its place: within five in all.
const COMMIT: u64 = 3_000_000_000;

impl<M: Memory, D: Device> Ext4<M, D> {
    pub(crate) fn block_size(&self) -> u64 {
        self.fs.shape().block_size as u64
    }

    /// Whether programs may change something.
    #[inline]
    pub(crate) fn may_write(&self) -> bool {
        self.fs.is_writable() && !self.closing
    }

    /// Blocks of a page.
    pub(crate) fn per_page(&self) -> u64 {
        PAGE64 / self.block_size()
    }

    /// What is mounted, for the log.
    pub fn say_what(&self) {
        let log = self.options.log;
        let space = self.fs.space();
        let size = u64::from(space.block_size);
        log(format_args!(
            "{} MiB, {} MiB free, blocks of {size}{}",
            (space.blocks * size) >> 20,
            (space.free * size) >> 20,
            match self.fs.is_writable() {
                true => "",
                false => ", read only",
            }
        ));
    }

    /// For the driver's notifications: what the server uses it through.
    pub fn device(&mut self) -> &mut D {
        self.requests.device()
    }

    pub fn memory(&mut self) -> &mut M {
        self.cache.memory()
    }

    /// An operation of the core, or what to wait for before it is begun again.
    #[inline]
    pub(crate) fn act<R>(
        &mut self,
        operation: impl FnOnce(&mut Fs) -> Result<R, Error>,
    ) -> Answer<R> {
        operation(&mut self.fs).map_err(|error| self.refused(error))
    }

    /// The same for who asked for it and may have to ask again ([`Fs::asks`]).
    pub(crate) fn act_for<R>(
        &mut self,
        cx: &Context,
        operation: impl FnOnce(&mut Fs) -> Result<R, Error>,
    ) -> Answer<R> {
        self.fs.set_asker(asker(cx));
        let done = self.act(operation);
        self.fs.set_asker(0);
        done
    }

    #[cold]
    fn refused(&mut self, error: Error) -> Failure {
        match error {
            Error::Need { block, .. } if self.unreadable.remove(&block) => Failure::Errno(EIO),
            Error::Need { block, count } => {
                self.want_block(block, count);
                Failure::Wait(keys::block(block))
            }
            Error::CommitFirst => {
                self.fs.commit();
                self.run_journal();
                Failure::Wait(keys::JOURNAL)
            }
            Error::NoSpace if !self.ending.is_empty() || !self.cuts.is_empty() => {
                // What is being freed will be had.
                self.fs.commit();
                self.run_journal();
                Failure::Wait(keys::ENDS)
            }
            Error::NoSpace if self.is_discarding() => Failure::Wait(keys::DISCARDS),
            Error::Damaged(what, at) => {
                self.damaged(what, at);
                Failure::Errno(EUCLEAN)
            }
            other => Failure::Errno(number(other)),
        }
    }

    /// The image contradicts itself: from now on it is only read.
    pub(crate) fn damaged(&mut self, what: &str, at: u64) {
        let log = self.options.log;
        log(format_args!("damaged: {what} ({at})"));
        if self.fs.is_writable() {
            log(format_args!("nothing is written any more"));
            self.fs.stop_writing();
        }
        self.wakes
            .extend([keys::JOURNAL, keys::FLUSH, keys::ROOM, keys::ENDS]);
    }

    /// The time, for what is changed now.
    pub(crate) fn look_at_clock(&mut self, cx: &mut Context) -> Time {
        self.now = time(cx.now());
        self.now
    }

    /// Something has changed: look after it in time.
    #[inline]
    pub(crate) fn arm(&mut self, cx: &mut Context) {
        if !self.armed {
            self.armed = true;
            self.clock = cx.transport.monotonic();
            cx.wake_at(Some(self.clock + TICK));
        }
    }

    // ---- nodes

    /// The node is in memory.
    #[inline]
    pub(crate) fn load(&mut self, ino: u32) -> Answer<()> {
        self.loaded(ino).map(|_| ())
    }

    /// The node, which is in memory from now on.
    #[inline]
    pub(crate) fn loaded(&mut self, ino: u32) -> Answer<&mut Node> {
        match self.nodes.last(ino) {
            Some(_) => self.node(ino),
            None => self.loaded_anew(ino),
        }
    }

    #[inline(never)]
    fn loaded_anew(&mut self, ino: u32) -> Answer<&mut Node> {
        if self.nodes.get(ino).is_none() {
            self.load_new(ino)?;
        }
        self.node(ino)
    }

    #[cold]
    fn load_new(&mut self, ino: u32) -> Answer<()> {
        let inode = self.act(|fs| fs.inode(ino))?;
        self.add_node(&inode);
        Ok(())
    }

    fn add_node(&mut self, inode: &Inode) {
        if let Some(old) = self.nodes.victim() {
            let file = self.nodes.get(old).and_then(|node| node.file);
            if file.is_none_or(|file| {
                self.cache.pending(file, 0, u64::MAX) == (false, false)
                    && self.mapped.use_of(file).0 == 0
                    && self.mapped.close(file)
            }) {
                self.forget(old);
            }
        }
        self.nodes.insert(Node::new(inode));
    }

    /// The node and its pages go from memory.
    pub(crate) fn forget(&mut self, ino: u32) {
        if let Some(node) = self.nodes.remove(ino) {
            if let Some(mark) = node.mark {
                self.marks.remove(mark);
            }
            self.flush_forgotten = self.flush_forgotten.max(node.flush);
            if let Some(file) = node.file {
                self.cache.close(file);
                self.left.end(file);
                self.owners.remove(&file);
            }
        }
    }

    /// A node that is in memory.
    #[inline]
    pub(crate) fn node(&mut self, ino: u32) -> Answer<&mut Node> {
        self.nodes.get_mut(ino).ok_or(Failure::Errno(EIO))
    }

    /// The core has changed this inode: its copy follows.
    pub(crate) fn refresh(&mut self, ino: u32) {
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        // What was just changed is in the core's cache.
        if let Ok(inode) = self.fs.inode(ino) {
            node.refresh(&inode);
        }
    }

    /// Names in this directory were changed: its size and times are looked up when somebody asks.
    #[inline]
    pub(crate) fn outdate(&mut self, dir: u32) {
        if let Some(node) = self.nodes.get_mut(dir) {
            node.stale = true;
        }
    }

    /// The node is in memory and all of it is right.
    #[inline]
    pub(crate) fn load_fresh(&mut self, ino: u32) -> Answer<&mut Node> {
        match self.nodes.last(ino) {
            Some(node) if !node.stale => self.node(ino),
            _ => self.loaded_fresh(ino),
        }
    }

    #[inline(never)]
    fn loaded_fresh(&mut self, ino: u32) -> Answer<&mut Node> {
        if self.nodes.get(ino).is_none_or(|node| node.stale) {
            self.refresh_now(ino)?;
        }
        self.node(ino)
    }

    #[cold]
    fn refresh_now(&mut self, ino: u32) -> Answer<()> {
        let inode = self.act(|fs| fs.inode(ino))?;
        match self.nodes.get_mut(ino) {
            Some(node) => node.refresh(&inode),
            None => self.add_node(&inode),
        }
        Ok(())
    }

    /// The pages of a regular file.
    pub(crate) fn file(&mut self, ino: u32) -> Answer<File> {
        let node = self.nodes.get_mut(ino).ok_or(Failure::Errno(EIO))?;
        if let Some(file) = node.file {
            return Ok(file);
        }
        if !node.is_regular() {
            return fail(EINVAL);
        }
        let file = self.cache.open();
        self.left.begin(file, node.identity(), node.size);
        node.file = Some(file);
        self.owners.insert(file, ino);
        // It may have a number that is not kept.
        self.update_mark(ino);
        Ok(file)
    }

    /// Times changed that the image does not know.
    pub(crate) fn touch(&mut self, ino: u32) {
        if let Some(node) = self.nodes.get_mut(ino) {
            if !core::mem::replace(&mut node.dirty, true) {
                self.touched.push(ino);
            }
        }
    }

    /// The image gets to know the times of a node.
    pub(crate) fn put_times(&mut self, ino: u32) -> Answer<()> {
        let Some(node) = self.nodes.get(ino).filter(|node| node.dirty) else {
            return Ok(());
        };
        let (atime, mtime, ctime) = (node.atime, node.mtime, node.ctime);
        self.act(|fs| {
            fs.change_inode(ino, |inode| {
                inode.atime = atime;
                if inode.is_regular() {
                    (inode.mtime, inode.ctime) = (mtime, ctime);
                }
            })
        })?;
        self.times_are_known(ino);
        Ok(())
    }

    /// The image knows the times of a node.
    pub(crate) fn times_are_known(&mut self, ino: u32) {
        if let Some(node) = self.nodes.get_mut(ino) {
            node.dirty = false;
            node.file
                .into_iter()
                .for_each(|file| self.left.set_time(file, 0));
        }
    }

    // ---- going on

    /// Everything goes on as far as it can, and what it was waited for is told to the framework.
    pub(crate) fn settle(&mut self, cx: &mut Context) {
        self.go_on();
        for key in self.wakes.drain(..) {
            cx.wake(key);
        }
    }

    /// As [`Ext4::settle`], while nobody can be woken.
    pub(crate) fn go_on(&mut self) {
        loop {
            while let Some((group, well)) = self.requests.ended() {
                self.ended(group, well);
            }
            self.begin_reads();
            self.run_faults();
            self.run_jobs();
            self.run_ends();
            self.start_writes();
            self.run_journal();
            self.discard_freed();
            if !self.requests.has_ended() {
                return;
            }
        }
    }

    fn ended(&mut self, group: Group, well: bool) {
        match self.purposes.remove(&group) {
            Some(Purpose::Blocks(first)) => self.blocks_read(first, well),
            Some(Purpose::Load(ino, io)) => self.pages_read(ino, io, well),
            Some(Purpose::Job(id)) => self.job_moved(id, well),
            Some(Purpose::Step) => self.step_moved(well),
            Some(Purpose::Discard(runs, whose)) => self.discard_moved(&runs, whose),
            Some(Purpose::Flush(number)) => {
                let place = match well {
                    true => &mut self.flush_done,
                    false => &mut self.flush_failed,
                };
                *place = number.max(*place);
                self.wakes.push(keys::FLUSH);
            }
            None => {}
        }
    }

    /// A flush of the device; its number.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.flush_begun += 1;
        let group = self.requests.flush();
        self.purposes
            .insert(group, Purpose::Flush(self.flush_begun));
        self.flush_begun
    }

    /// Once a second while anything is changed: write what is old, commit.
    pub(crate) fn look_after(&mut self, cx: &mut Context) {
        self.armed = false;
        self.clock = cx.transport.monotonic();
        self.look_at_clock(cx);
        let writable = self.note_all_mapped();
        let moved = self.moved && self.jobs.is_empty();
        if moved || self.clock.saturating_sub(self.committed) >= COMMIT {
            self.moved &= !moved;
            for ino in core::mem::take(&mut self.touched) {
                if let Err(Failure::Wait(_)) = self.put_times(ino) {
                    self.touched.push(ino);
                }
            }
            if self.fs.has_changes() {
                self.committed = self.clock;
                self.fs.commit();
            }
        }
        // Whoever waited for memory tries again: somebody else may have given some.
        self.wakes.push(keys::ROOM);
        self.settle(cx);
        self.run_syncs(cx);
        self.note_safe();
        let (_, _, dirty) = self.cache.usage();
        if self.fs.is_writable()
            && (dirty != 0
                || self.fs.has_changes()
                || !self.touched.is_empty()
                || !self.changed.is_empty())
            || !self.jobs.is_empty()
            || writable
        {
            self.arm(cx);
        }
    }
}
