//! Metadata blocks in memory. File data never comes here: the caller keeps it, and moves it between its frames and the device itself.
//!
//! What always holds: a block that the running transaction has changed (`running`), or whose newest committed content is only in the log (`logged`), stays. Contents
//! are shared with the journal by reference count, and copied when they are changed while the journal still holds them. Every change made by an
//! operation can be taken back until the operation is kept.

use crate::blocks::Blocks;
use crate::error::Error;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

/// What a block was checked as, and what its checksum needs. A block has one use at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Just read, not looked at.
    Raw,
    /// Superblock, group descriptors, inode tables: their parts have their own sums.
    Parts,
    BlockBitmap(u32),
    InodeBitmap(u32),
    /// These carry the seed of the inode that they belong to.
    Node(u32),
    Leaf(u32),
    Index(u32),
    Attributes,
    Orphans(u32),
}

pub(crate) struct Slot {
    pub data: Rc<[u8]>,
    pub kind: Cell<Kind>,
    /// Of an inode table: which of its inodes have been checked.
    pub seen: Cell<u32>,
    used: Cell<u64>,
    running: bool,
    pub logged: bool,
    pinned: bool,
}

enum Undo {
    Bytes {
        block: u64,
        at: usize,
        from: usize,
        to: usize,
    },
    Content {
        block: u64,
        data: Rc<[u8]>,
        kind: Kind,
    },
    Created {
        block: u64,
    },
}

/// What an operation has changed in a block, as it is now; `whole` is all of the block.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    Bytes {
        block: u64,
        kind: Kind,
        at: usize,
        data: &'a [u8],
        whole: &'a [u8],
    },
    /// It was made: what is not told of it is zero.
    New {
        block: u64,
        kind: Kind,
        whole: &'a [u8],
    },
}

pub(crate) struct Cache {
    block_size: usize,
    slots: Blocks<Slot>,
    limit: usize,
    /// When there are so many, some go if they can.
    full: usize,
    clock: Cell<u64>,
    undo: Vec<Undo>,
    bytes: Vec<u8>,
    /// Blocks that the running transaction has changed.
    pub running: BTreeSet<u64>,
}

impl Cache {
    pub(crate) fn new(block_size: usize, limit: usize) -> Cache {
        Cache {
            block_size,
            slots: Blocks::new(),
            limit: limit.max(64),
            full: limit.max(64),
            clock: Cell::new(0),
            undo: Vec::new(),
            bytes: Vec::new(),
            running: BTreeSet::new(),
        }
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn slot_of(&self, data: Rc<[u8]>, kind: Kind) -> Slot {
        Slot {
            data,
            kind: Cell::new(kind),
            seen: Cell::new(0),
            used: Cell::new(self.tick()),
            running: false,
            logged: false,
            pinned: false,
        }
    }

    pub(crate) fn slot(&self, block: u64) -> Result<&Slot, Error> {
        let slot = self
            .slots
            .get(block)
            .ok_or(Error::Need { block, count: 1 })?;
        slot.used.set(self.tick());
        Ok(slot)
    }

    pub(crate) fn holds(&self, block: u64) -> bool {
        self.slots.holds(block)
    }

    /// A block from the device. What is there already is at least as new and stays.
    pub(crate) fn supply(&mut self, block: u64, data: &[u8]) {
        if data.len() != self.block_size || self.slots.holds(block) {
            return;
        }
        if self.slots.len() >= self.full {
            self.evict();
        }
        let slot = self.slot_of(data.into(), Kind::Raw);
        self.slots.insert(block, slot);
    }

    /// Committed content that is not at home yet (replay of a log that may not be written).
    pub(crate) fn keep_logged(&mut self, block: u64, data: Rc<[u8]>) {
        let mut slot = self.slot_of(data, Kind::Raw);
        slot.logged = true;
        self.slots.insert(block, slot);
    }

    pub(crate) fn pin(&mut self, block: u64) {
        if let Some(slot) = self.slots.get_mut(block) {
            slot.pinned = true;
        }
    }

    /// The least recently used eighth. Blocks that must stay are in addition to half the limit, so that what an operation needs has room beside them.
    fn evict(&mut self) {
        let mut idle: Vec<(u64, u64)> = self
            .slots
            .iter()
            .filter(|(_, slot)| !slot.running && !slot.logged && !slot.pinned)
            .map(|(block, slot)| (slot.used.get(), block))
            .collect();
        let some = self.limit / 8;
        if idle.len() > self.limit / 2 {
            idle.select_nth_unstable(some - 1);
            for (_, block) in &idle[..some] {
                self.slots.remove(*block);
            }
        }
        self.full = self.limit.max(self.slots.len() + some);
    }

    /// Everything goes (the device was changed by a replay).
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    /// The running transaction has changed this block.
    pub(crate) fn is_running(&self, block: u64) -> bool {
        self.slots.get(block).is_some_and(|slot| slot.running)
    }

    pub(crate) fn set_kind(&mut self, block: u64, kind: Kind) {
        if let Some(slot) = self.slots.get_mut(block) {
            slot.kind.set(kind);
        }
    }

    /// Of an inode table: these of its inodes need no look at their sums.
    pub(crate) fn set_seen(&mut self, block: u64, numbers: core::ops::Range<usize>) {
        if let Some(slot) = self.slots.get_mut(block) {
            let bits = numbers
                .filter(|number| *number < 32)
                .map(|number| 1 << number);
            slot.seen
                .set(bits.fold(slot.seen.get(), |seen, bit: u32| seen | bit));
        }
    }

    /// The block belongs to the running transaction.
    pub(crate) fn join(&mut self, block: u64) {
        if let Some(slot) = self.slots.get_mut(block) {
            if !slot.running {
                slot.running = true;
                self.running.insert(block);
            }
        }
    }

    /// Changes bytes of a block that is here.
    pub(crate) fn write(&mut self, block: u64, at: usize, new: &[u8]) -> Result<(), Error> {
        let slot = self
            .slots
            .get_mut(block)
            .ok_or(Error::Need { block, count: 1 })?;
        let Some(old) = slot.data.get(at..at + new.len()) else {
            return Err(Error::Damaged("write beyond a block", block));
        };
        if old == new {
            return Ok(());
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(old);
        let to = self.bytes.len();
        self.undo.push(Undo::Bytes {
            block,
            at,
            from,
            to,
        });
        Rc::make_mut(&mut slot.data)[at..at + new.len()].copy_from_slice(new);
        self.join(block);
        Ok(())
    }

    /// A block whose old content does not matter; zeros.
    pub(crate) fn create(&mut self, block: u64, kind: Kind) {
        let zeros: Rc<[u8]> = vec![0; self.block_size].into();
        match self.slots.get_mut(block) {
            Some(slot) => {
                self.undo.push(Undo::Content {
                    block,
                    data: core::mem::replace(&mut slot.data, zeros),
                    kind: slot.kind.replace(kind),
                });
            }
            None => {
                if self.slots.len() >= self.full {
                    self.evict();
                }
                let slot = self.slot_of(zeros, kind);
                self.slots.insert(block, slot);
                self.undo.push(Undo::Created { block });
            }
        }
        self.join(block);
    }

    /// What the operation under way has changed.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change<'_>> + Clone {
        self.undo.iter().filter_map(|undo| {
            let (Undo::Bytes { block, .. } | Undo::Content { block, .. } | Undo::Created { block }) =
                *undo;
            let slot = self.slots.get(block)?;
            let (kind, whole) = (slot.kind.get(), &*slot.data);
            Some(match *undo {
                Undo::Bytes { at, from, to, .. } => Change::Bytes {
                    block,
                    kind,
                    at,
                    data: &whole[at..at + to - from],
                    whole,
                },
                _ => Change::New { block, kind, whole },
            })
        })
    }

    /// What the operation changed stays.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
        self.bytes.clear();
    }

    /// What the operation changed is taken back, the newest first. (That a block counts as changed by the transaction does no harm.)
    pub(crate) fn take_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Bytes {
                    block, at, from, ..
                } => {
                    if let Some(slot) = self.slots.get_mut(block) {
                        let old = &self.bytes[from..];
                        Rc::make_mut(&mut slot.data)[at..at + old.len()].copy_from_slice(old);
                    }
                    self.bytes.truncate(from);
                }
                Undo::Content { block, data, kind } => {
                    if let Some(slot) = self.slots.get_mut(block) {
                        slot.data = data;
                        slot.kind.set(kind);
                    }
                }
                Undo::Created { block } => {
                    self.slots.remove(block);
                    self.running.remove(&block);
                }
            }
        }
    }

    /// A block that is metadata no longer: nothing of it need be logged, and what it held is forgotten. To be called when the operation is kept.
    pub(crate) fn forget(&mut self, block: u64) {
        self.slots.remove(block);
        self.running.remove(&block);
    }

    /// For checksums, put in when the transaction closes: changes that are not taken back.
    pub(crate) fn seal(&mut self, block: u64, change: impl FnOnce(&mut [u8])) {
        if let Some(slot) = self.slots.get_mut(block) {
            change(Rc::make_mut(&mut slot.data));
        }
        self.join(block);
    }

    /// Changes a block that is written at once, past the log; its new content.
    pub(crate) fn rewrite(
        &mut self,
        block: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<Rc<[u8]>, Error> {
        let slot = self
            .slots
            .get_mut(block)
            .ok_or(Error::Need { block, count: 1 })?;
        change(Rc::make_mut(&mut slot.data));
        Ok(slot.data.clone())
    }

    /// The running transaction closes: its blocks in their present content.
    pub(crate) fn close_running(&mut self) -> Vec<(u64, Rc<[u8]>)> {
        let blocks = core::mem::take(&mut self.running);
        let mut closed = Vec::with_capacity(blocks.len());
        for block in blocks {
            if let Some(slot) = self.slots.get_mut(block) {
                slot.running = false;
                slot.logged = true;
                closed.push((block, slot.data.clone()));
            }
        }
        closed
    }

    pub(crate) fn at_home(&mut self, block: u64) {
        if let Some(slot) = self.slots.get_mut(block) {
            slot.logged = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_back() {
        let mut cache = Cache::new(1024, 64);
        cache.supply(5, &[1; 1024]);
        cache.write(5, 10, &[2, 3]).unwrap();
        cache.keep();
        cache.write(5, 11, &[4, 5]).unwrap();
        cache.write(5, 10, &[6]).unwrap();
        cache.create(5, Kind::Attributes);
        cache.write(5, 0, &[9]).unwrap();
        cache.create(6, Kind::Raw);
        cache.take_back();
        let slot = cache.slot(5).unwrap();
        assert_eq!(slot.data[9..14], [1, 2, 3, 1, 1]);
        assert_eq!(slot.kind.get(), Kind::Raw);
        assert!(!cache.holds(6) && cache.running.contains(&5) && !cache.running.contains(&6));
    }

    #[test]
    fn what_is_not_at_home_stays() {
        let mut cache = Cache::new(1024, 64);
        for block in 0..64 {
            cache.supply(block, &[0; 1024]);
        }
        cache.write(0, 0, &[1]).unwrap();
        cache.write(1, 0, &[1]).unwrap();
        assert_eq!(cache.close_running().len(), 2);
        for block in 100..1000 {
            cache.supply(block, &[0; 1024]);
        }
        assert!(cache.holds(0) && cache.holds(1) && !cache.holds(2));
        assert!(cache.slots.len() <= 66);
        cache.at_home(0);
        for block in 1000..2000 {
            cache.supply(block, &[0; 1024]);
        }
        assert!(!cache.holds(0) && cache.holds(1));
    }
}
