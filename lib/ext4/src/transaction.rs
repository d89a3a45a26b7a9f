//! Transactions: what operations have changed since the last commit, and the frame that makes an operation whole or nothing.

use crate::bytes::{le16, put16, put32};
use crate::cache::Kind;
use crate::directory::index::counters;
use crate::directory::{index_sum, leaf_sum};
use crate::error::Error;
use crate::fs::{Fs, Run};
use crate::group::{BLOCK_SUM, INODE_SUM};
use crate::shape::{at, RO_ORPHAN_PRESENT};
use crate::verify::bitmap_sum;
use crate::{attributes, extent, group, inode, orphan_file};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use cairn_crc32c::crc32c;

/// Blocks that no single operation exceeds: two directories whose indexes and extent trees split, with the bitmaps and descriptors of all that they allocate.
pub(crate) const CREDITS: usize = 128;
/// Pieces of a file that one operation frees at most: each may concern a few groups.
pub(crate) const PIECES: usize = 8;

/// What the next commit is about, besides the blocks in the cache.
#[derive(Default)]
pub(crate) struct Running {
    /// Inodes that changed, and whether more than their times did.
    pub inodes: BTreeMap<u32, bool>,
    pub groups: BTreeSet<u32>,
    /// Blocks that the log holds and that are metadata no longer.
    pub revokes: BTreeSet<u64>,
    /// To be had again after the commit.
    pub frees: Vec<Run>,
}

/// What the operation under way would have to take back besides bytes in the cache.
#[derive(Default)]
pub(crate) struct Op {
    pub frees: Vec<Run>,
    pub took: Vec<Run>,
    pub forget: Vec<u64>,
    free_blocks: u64,
    free_inodes: u32,
    orphans: Option<Vec<u32>>,
}

impl Fs {
    /// Runs an operation: it is kept if it succeeds, and leaves nothing behind if it does not.
    pub(crate) fn change<R>(
        &mut self,
        operation: impl FnOnce(&mut Fs) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if !self.writable {
            return Err(Error::ReadOnly);
        }
        if !self.journal_has_room(CREDITS) {
            return Err(Error::CommitFirst);
        }
        self.op = Op {
            free_blocks: self.free_blocks,
            free_inodes: self.free_inodes,
            ..Op::default()
        };
        let before = self.cache.running.len();
        let mut result = operation(self);
        if result.is_ok() && self.cache.running.len() > before + CREDITS {
            // Cannot happen with the bounds above; if it did, the log might be too small.
            result = Err(Error::TooLarge);
        }
        if result.is_ok() && !self.keep_changes() {
            result = Err(Error::CommitFirst);
        }
        let op = core::mem::take(&mut self.op);
        match result {
            Ok(_) => {
                self.cache.keep();
                self.running.frees.extend(op.frees);
                for block in op.forget {
                    self.cache.forget(block);
                    if self.is_in_log(block) {
                        self.running.revokes.insert(block);
                    }
                }
            }
            Err(_) => {
                self.cache.take_back();
                for run in op.frees {
                    self.busy.remove(run);
                }
                for run in op.took {
                    self.look_again(run);
                }
                self.free_blocks = op.free_blocks;
                self.free_inodes = op.free_inodes;
                if let Some(orphans) = op.orphans {
                    self.orphans = orphans;
                }
            }
        }
        result
    }

    /// What the operation changed goes into the memory that outlives us, if there is any. False: it has no room before the next commit.
    fn keep_changes(&mut self) -> bool {
        let (tid, orphan) = (self.transaction(), self.orphans.last().copied());
        let Some(kept) = &mut self.kept else {
            return true;
        };
        kept.record(self.cache.changes(), &self.op, orphan.unwrap_or(0), tid)
    }

    /// Anything for a commit to do?
    pub fn has_changes(&self) -> bool {
        !self.cache.running.is_empty() || !self.running.frees.is_empty()
    }

    /// The list of orphans, about to be changed.
    pub(crate) fn orphans_to_change(&mut self) -> &mut Vec<u32> {
        if self.op.orphans.is_none() {
            self.op.orphans = Some(self.orphans.clone());
        }
        &mut self.orphans
    }

    /// Numbers and sums that are only made once for a transaction.
    pub(crate) fn seal(&mut self) -> Result<(), Error> {
        let shape = self.shape.clone();
        for &ino in self.running.inodes.keys() {
            let (block, at) = self.inode_at(ino)?;
            if shape.checksums && self.cache.running.contains(&block) {
                self.cache.seal(block, |data| {
                    inode::put_checksum(&shape, ino, &mut data[at..at + shape.inode_size]);
                });
            }
        }
        let blocks: Vec<u64> = self.cache.running.iter().copied().collect();
        for block in blocks {
            if !shape.checksums {
                break;
            }
            let kind = self.cache.slot(block)?.kind.get();
            self.cache.seal(block, |data| match kind {
                Kind::Node(seed) => {
                    let tail = extent::tail(data);
                    put32(data, tail, crc32c(seed, &data[..tail]));
                }
                Kind::Leaf(seed) => {
                    let tail = data.len() - 4;
                    put32(data, tail, leaf_sum(seed, data));
                }
                Kind::Index(seed) => {
                    if let Some(at) = counters(&shape, data) {
                        let tail = at + 8 * usize::from(le16(data, at));
                        put32(data, tail + 4, index_sum(seed, data, at));
                    }
                }
                Kind::Orphans(seed) => {
                    let sum = orphan_file::sum(seed, block, data);
                    let tail = data.len() - 4;
                    put32(data, tail, sum);
                }
                Kind::Attributes => {
                    let sum = attributes::block_sum(&shape, block, data);
                    put32(data, 0x10, sum);
                }
                _ => {}
            });
        }
        let groups = core::mem::take(&mut self.running.groups);
        for &number in &groups {
            self.seal_group(number)?;
        }
        self.seal_super()
    }

    fn seal_group(&mut self, number: u32) -> Result<(), Error> {
        let shape = self.shape.clone();
        if !shape.checksums {
            return Ok(());
        }
        let about = self.group(number)?;
        let (block, at) = shape.descriptor_at(number);
        for (bitmap, bits, which) in [
            (about.block_bitmap, shape.group_blocks, BLOCK_SUM),
            (about.inode_bitmap, shape.group_inodes, INODE_SUM),
        ] {
            if !self.cache.running.contains(&bitmap) {
                continue;
            }
            let map = &self.cache.slot(bitmap)?.data;
            let sum = bitmap_sum(&shape, &map[..bits as usize / 8]);
            self.cache.seal(block, |data| {
                put16(data, at + which.0, sum as u16);
                if shape.descriptor >= 64 {
                    put16(data, at + which.1, (sum >> 16) as u16);
                }
            });
        }
        self.cache.seal(block, |data| {
            let raw = &mut data[at..at + shape.descriptor];
            let sum = group::checksum(&shape, number, raw);
            put16(raw, group::CHECKSUM, sum);
        });
        Ok(())
    }

    /// Free counts and, if anything changed, the sum of the superblock.
    fn seal_super(&mut self) -> Result<(), Error> {
        let (block, begin) = self.shape.super_at();
        self.checked(block, Kind::Parts)?;
        let (blocks, inodes) = (self.free_blocks, self.free_inodes);
        let (wide, checksums) = (self.shape.wide, self.shape.checksums);
        let last = self.orphans.last().copied().unwrap_or(0);
        let in_file = self.orphan_file.is_some();
        self.cache.seal(block, |data| {
            let raw = &mut data[begin..begin + crate::shape::SUPER_BYTES];
            put32(raw, at::FREE_BLOCKS, blocks as u32);
            if wide {
                put32(raw, at::FREE_BLOCKS_HIGH, (blocks >> 32) as u32);
            }
            put32(raw, at::FREE_INODES, inodes);
            put32(raw, at::LAST_ORPHAN, last);
            if !in_file {
                let features = crate::bytes::le32(raw, at::RO_COMPAT);
                put32(raw, at::RO_COMPAT, features & !RO_ORPHAN_PRESENT);
            }
            if checksums {
                put32(raw, at::CHECKSUM, crc32c(!0, &raw[..at::CHECKSUM]));
            }
        });
        Ok(())
    }
}
