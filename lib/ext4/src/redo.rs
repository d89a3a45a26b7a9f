//! The successor of somebody who died: what the log does not hold of the operations that were kept ([`crate::kept`]) is done again, as a part of the transaction that is collected now.
//!
//! First every block that is concerned is brought in and checked as it is on the device, because sums are only made again when the transaction closes; then the records are applied in order.

use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::Fs;
use crate::kept::Item;

/// How far it came, if it has to wait for a block.
#[derive(Clone, Copy)]
pub(crate) struct Redo {
    next: u64,
}

impl Fs {
    /// Where to begin.
    pub(crate) fn begin_redo(&self) -> Redo {
        let next = self.kept.as_ref().map_or(0, |kept| kept.first());
        Redo { next }
    }

    /// What was kept is done again. The last inode of the list of orphans then, if there was anything.
    pub(crate) fn redo(&mut self, redo: &mut Redo) -> Result<Option<u32>, Error> {
        let Some(kept) = self.kept.take() else {
            return Ok(None);
        };
        let done = self.redo_all(&kept, redo);
        self.kept = Some(kept);
        self.cache.keep();
        done
    }

    fn redo_all(
        &mut self,
        kept: &crate::kept::Kept,
        redo: &mut Redo,
    ) -> Result<Option<u32>, Error> {
        while let Some((items, _, next)) = kept.read(redo.next) {
            for item in &items {
                self.look_at(item)?;
            }
            redo.next = next;
        }
        let (mut at, mut orphan) = (kept.first(), None);
        while let Some((items, last, next)) = kept.read(at) {
            for item in items {
                self.redo_item(item)?;
            }
            (at, orphan) = (next, Some(last));
        }
        if at != kept.end() {
            return damaged("kept changes", at);
        }
        if orphan.is_some() {
            self.count_free()?;
        }
        Ok(orphan)
    }

    /// The block is here as the operation found it.
    fn look_at(&mut self, item: &Item) -> Result<(), Error> {
        match *item {
            Item::Bytes(block, kind, ..) if !self.cache.is_running(block) => {
                self.checked(block, kind)?;
                self.cache.join(block);
            }
            Item::New(block, kind) => self.cache.create(block, kind),
            _ => {}
        }
        Ok(())
    }

    fn redo_item(&mut self, item: Item) -> Result<(), Error> {
        match item {
            Item::Bytes(block, kind, at, data) => {
                self.cache.write(block, at, &data)?;
                self.cache.set_kind(block, kind);
                self.belongs_to(block, kind, at, data.len())?;
            }
            Item::New(block, kind) => {
                self.cache.create(block, kind);
                self.belongs_to(block, kind, 0, 0)?;
            }
            Item::Freed(run) => {
                if !self.zones.free_of(run.start, u64::from(run.len)) {
                    return damaged("kept changes", run.start);
                }
                self.busy.insert(run);
                self.running.frees.push(run);
            }
            Item::Forgotten(run) => {
                let blocks = run.start..run.start + u64::from(run.len);
                blocks.for_each(|block| self.cache.forget(block));
            }
        }
        Ok(())
    }

    /// The groups and inodes whose sums are to be made when the transaction closes.
    fn belongs_to(&mut self, block: u64, kind: Kind, at: usize, len: usize) -> Result<(), Error> {
        match kind {
            Kind::BlockBitmap(group) | Kind::InodeBitmap(group) => {
                self.descriptor(group)?;
                self.running.groups.insert(group);
            }
            Kind::Parts => {
                let shape = &self.shape;
                let descriptors = shape.first_data + 1;
                let behind = descriptors + u64::from(shape.descriptor_blocks());
                if (descriptors..behind).contains(&block) {
                    let each = (shape.block_size / shape.descriptor) as u32;
                    let first = (block - descriptors) as u32 * each;
                    let (from, to) = (at / shape.descriptor, (at + len).div_ceil(shape.descriptor));
                    let groups = first + from as u32..(first + to as u32).min(shape.groups);
                    self.running.groups.extend(groups);
                }
                let table = |table: &u64| block.wrapping_sub(*table) < shape.table_blocks();
                if let Some(group) = self.tables.iter().position(table) {
                    let byte = (block - self.tables[group]) as usize * shape.block_size;
                    let (from, to) = (at / shape.inode_size, (at + len).div_ceil(shape.inode_size));
                    let first =
                        group as u32 * shape.group_inodes + (byte / shape.inode_size) as u32 + 1;
                    let inodes = (from as u32..to as u32).map(|number| (first + number, true));
                    self.running.inodes.extend(inodes);
                    self.cache.set_seen(block, from..to);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Free blocks and inodes, as the descriptors have them now.
    fn count_free(&mut self) -> Result<(), Error> {
        (self.free_blocks, self.free_inodes) = (0, 0);
        for number in 0..self.shape.groups {
            let group = self.group(number)?;
            self.free_blocks += u64::from(group.free_blocks);
            self.free_inodes = self.free_inodes.saturating_add(group.free_inodes);
        }
        Ok(())
    }
}
