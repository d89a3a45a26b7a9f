//! Opening: the image is looked at, its log replayed, and what a cut of power left half done is finished; nothing is served before.

use crate::discard::{Discards, RANGE};
use crate::left::Left;
use crate::memory::{Memory, PAGE};
use crate::node::Nodes;
use crate::recent::RecentNames;
use crate::requests::Requests;
use crate::server::{Ext4, Options};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use cairn_block::{Device, Kind};
use cairn_cache::{Cache, Mapped, Policy, Slot};
use cairn_ext4::{Error, Mount, Progress, Step, Time};
use cairn_resmgr::Marks;
use core::sync::atomic::AtomicU64;

/// Pages through which metadata goes.
pub const STAGING: u32 = 256;

/// Why there is nothing to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The device cannot be read or written.
    Device,
    NoMemory,
    Image(Error),
}

/// What is needed besides the device.
pub struct Parts<M> {
    /// Its arena has `pages` of the cache, and [`STAGING`] behind them.
    pub memory: M,
    pub pages: u32,
    /// Pages of memory that there may be for the cache, for when to write and how much.
    pub expected: u64,
    /// Blocks of metadata to be kept.
    pub metadata: usize,
    pub options: Options,
    /// What a predecessor had open, and its marks.
    pub open: Vec<u64>,
    pub marks: Marks,
    /// Memory that outlives the server, for what operations have changed.
    pub kept: &'static [AtomicU64],
    pub left: Left,
}

/// One transfer at a time, waited for.
struct Plain<'a, M, D: Device, W> {
    memory: &'a mut M,
    requests: &'a mut Requests<D>,
    staging: &'a [Slot],
    wait: W,
}

impl<M: Memory, D: Device, W: FnMut(&mut M, &mut D)> Plain<'_, M, D, W> {
    fn transfer(&mut self, kind: Kind, at: u64, bytes: u64) -> Result<(), Refused> {
        let group = self.requests.open();
        let pages = bytes.div_ceil(PAGE as u64) as usize;
        let pages = self.staging.get(..pages).ok_or(Refused::Device)?;
        self.requests.add(group, kind, at, bytes, pages, 0);
        self.requests.seal(group);
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Refused> {
        loop {
            match self.requests.ended() {
                Some((_, true)) => return Ok(()),
                Some((_, false)) => return Err(Refused::Device),
                None => (self.wait)(self.memory, self.requests.device()),
            }
        }
    }

    fn step(&mut self, step: &Step, size: usize) -> Result<(), Refused> {
        for (block, data) in &step.writes {
            for (part, page) in data.chunks(PAGE).zip(self.staging) {
                self.memory
                    .bytes_mut(*page, 0, part.len())
                    .copy_from_slice(part);
            }
            self.transfer(Kind::Write, block * size as u64, size as u64)?;
        }
        if step.flush {
            self.requests.flush();
            self.finish()?;
        }
        Ok(())
    }
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Open what is on the device. `wait` waits until something may have come out of it.
    pub fn open(
        parts: Parts<M>,
        device: D,
        now: Time,
        mut wait: impl FnMut(&mut M, &mut D),
    ) -> Result<Ext4<M, D>, Refused> {
        let Parts {
            mut memory,
            pages,
            expected,
            metadata,
            options,
            open,
            marks,
            kept,
            left,
        } = parts;
        let inherited = left.inherit(&mut memory);
        if !memory.populate(pages, STAGING) {
            return Err(Refused::NoMemory);
        }
        let staging: Vec<Slot> = (pages..pages + STAGING).collect();
        let mut requests = Requests::new(device);
        let info = *requests.info();
        let bytes = info.sectors.saturating_mul(512);
        let write = !options.read_only && !info.read_only;
        let mut plain = Plain {
            memory: &mut memory,
            requests: &mut requests,
            staging: &staging,
            wait: &mut wait,
        };
        // Whole blocks of whatever size: the superblock is in the first 4 KiB.
        plain.transfer(Kind::Read, 0, (PAGE as u64).min(bytes))?;
        let superblock = plain.memory.bytes(staging[0], 1024, 1024).to_vec();
        let mut mount = Mount::new(&superblock, bytes, metadata, write).map_err(Refused::Image)?;
        mount.keep_in(kept);
        let size = mount.block_size();
        if (size as u64) < u64::from(info.block) {
            return Err(Refused::Image(Error::Unsupported(
                "blocks smaller than the device's",
            )));
        }
        loop {
            match mount.run(now) {
                Ok(Progress::Done) => break,
                Ok(Progress::Step(step)) => plain.step(&step, size)?,
                Err(Error::Need { block, count }) => {
                    let count = (count as usize).min(STAGING as usize * PAGE / size);
                    plain.transfer(Kind::Read, block * size as u64, (count * size) as u64)?;
                    for (index, block) in (block..).take(count).enumerate() {
                        let at = index * size;
                        let page = staging[at / PAGE];
                        mount.supply(block, plain.memory.bytes(page, at % PAGE, size));
                    }
                }
                Err(error) => return Err(Refused::Image(error)),
            }
        }
        if mount.found_nonsense() {
            let log = options.log;
            log(format_args!(
                "what a predecessor left makes no sense: changes that were not committed are lost"
            ));
        }
        let mut server = Ext4 {
            fs: mount.finish().map_err(Refused::Image)?,
            mapped: Mapped::new(memory.objects()),
            faults: BTreeSet::new(),
            filling: false,
            syncs: Vec::new(),
            cache: Cache::new(memory, pages),
            policy: Policy::for_pages(expected),
            nodes: Nodes::new(metadata.max(256)),
            names: RecentNames::new(),
            owners: BTreeMap::new(),
            requests,
            purposes: BTreeMap::new(),
            staging,
            reading: BTreeMap::new(),
            wanted: VecDeque::new(),
            unreadable: BTreeSet::new(),
            unreadable_pages: BTreeSet::new(),
            step: None,
            jobs: Vec::new(),
            next_job: 0,
            urgent: Vec::new(),
            everything: false,
            ending: Vec::new(),
            cuts: Vec::new(),
            writers: Vec::new(),
            touched: Vec::new(),
            flush_begun: 0,
            flush_done: 0,
            flush_failed: 0,
            // What a predecessor wrote may be in the device only.
            flush_forgotten: 1,
            marks,
            left,
            changed: Vec::new(),
            found: BTreeMap::new(),
            committed: 0,
            moved: false,
            discards: Discards::default(),
            trimmed: [0; RANGE],
            wakes: Vec::new(),
            armed: false,
            closing: false,
            ended: false,
            now,
            clock: 0,
            options,
        };
        let (cache, inherited) = inherited;
        let mut lost = server.find_dirty(cache, &open, &mut wait);
        lost.extend(server.marks.left());
        server.find_open(&open, &lost, &mut wait);
        server.find_mapped(inherited, &mut wait);
        if write {
            server.finish_leftovers(&mut wait);
        }
        server.choose_discards();
        server.wakes.clear();
        Ok(server)
    }

    /// Files that had no names and that nobody has open, or blocks behind their ends, when the power went or the server died.
    fn finish_leftovers(&mut self, wait: &mut impl FnMut(&mut M, &mut D)) {
        let now = self.now;
        // What cannot be finished stays in the list; the rest can be used, unless it said that it is damaged.
        while self
            .until_there(wait, |server| {
                let nodes = &server.nodes;
                let is_open = |ino| nodes.get(ino).is_some_and(|n| n.opens != 0 || n.mapped);
                // (Not by `act`, which takes the whole server.)
                let next = server.fs.leftover(is_open);
                match server.act(|_| next)? {
                    Some(ino) => server.act(|fs| fs.finish(ino, now)).map(|_| true),
                    None => Ok(false),
                }
            })
            .unwrap_or(false)
        {}
    }
}
