//! The file system as one object: its shape, its metadata, its journal, and the frame of every operation that changes something.
//!
//! An operation runs at once or not at all: if a block is missing or something is wrong, all that it did is taken back ([`Fs::change`]) and the caller may begin it again.
//! So a server that waits for the disk keeps nothing but the request, and other requests go on in between.

use crate::allocate::Busy;
use crate::cache::{Cache, Kind};
use crate::error::Error;
use crate::journal::Journal;
use crate::kept::Kept;
use crate::shape::Shape;
use crate::transaction::{Op, Running};
use crate::verify;
use crate::zones::Zones;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

/// Seconds since 1970 and nanoseconds; times are always the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    pub sec: i64,
    pub nsec: u32,
}

/// Blocks beside each other on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub start: u64,
    pub len: u32,
}

/// What the device shall do next: all writes, in any order, and when they are done the flush, if it is asked for. Then [`Fs::stepped`].
#[derive(Clone, Debug)]
pub struct Step {
    pub writes: Vec<(u64, Rc<[u8]>)>,
    pub flush: bool,
    /// For tests that leave a flush out on purpose: which one this is.
    pub name: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub block_size: u32,
    /// Without the file system's own: what files and directories can have.
    pub blocks: u64,
    /// Without what delayed allocation was promised.
    pub free: u64,
    /// Without what is kept for the superuser, and for metadata ([`Fs::kept`]).
    pub available: u64,
    pub inodes: u32,
    pub free_inodes: u32,
}

/// How far a long look through a directory got, so that beginning again does not mean from the start.
pub(crate) struct Memo {
    pub dir: u32,
    pub name: Vec<u8>,
    pub upto: u32,
}

pub struct Fs {
    pub(crate) shape: Shape,
    pub(crate) cache: Cache,
    pub(crate) zones: Zones,
    /// Where each group's inodes are.
    pub(crate) tables: Vec<u64>,
    pub(crate) journal: Option<Journal>,
    pub(crate) running: Running,
    pub(crate) op: Op,
    /// What a successor needs of transactions that are not durable.
    pub(crate) kept: Option<Kept>,
    pub(crate) busy: Busy,
    /// Whether the device is told of freed blocks, and those of which it was not told yet.
    pub(crate) discards: bool,
    pub(crate) freed: Vec<Run>,
    pub(crate) free_blocks: u64,
    pub(crate) free_inodes: u32,
    pub(crate) promised: u64,
    /// Inodes without names or with too many blocks, the one that the superblock names last.
    pub(crate) orphans: Vec<u32>,
    /// The orphan file, as long as there may be something in it.
    pub(crate) orphan_file: Option<u32>,
    /// Files of which blocks behind the new end are still to be freed.
    pub(crate) cutting: BTreeSet<u32>,
    pub(crate) writable: bool,
    /// It is not writable because nobody wants it to be, and clean.
    pub(crate) closed: bool,
    pub(crate) memo: RefCell<Option<Memo>>,
}

impl Fs {
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// A metadata block that [`Error::Need`] asked for. Hand reads in before the next [`Step`] that writes the block is begun.
    pub fn supply(&mut self, block: u64, data: &[u8]) {
        self.cache.supply(block, data);
    }

    /// Somebody begins to ask for something (the lower half of the number says who), so all who asked before were answered, but for those whose asking is the
    /// `same`: true if
    /// a predecessor did it before it died.
    #[inline]
    pub fn asks(&mut self, asker: u64, same: impl Fn(u64) -> bool) -> bool {
        let kept = self.kept.as_mut();
        kept.is_some_and(|kept| kept.asks(asker, same))
    }

    /// Who has asked for the next operation (0: nobody), for [`Fs::asks`].
    #[inline]
    pub fn set_asker(&mut self, asker: u64) {
        if let Some(kept) = &mut self.kept {
            kept.asker = asker;
        }
    }

    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Nothing can be changed, and everything is where it belongs.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// From now on nothing is changed any more (the caller's answer to [`Error::Damaged`], if it likes).
    pub fn stop_writing(&mut self) {
        self.writable = false;
    }

    pub fn space(&self) -> Space {
        let free = self.free_blocks.saturating_sub(self.promised);
        Space {
            block_size: self.shape.block_size as u32,
            blocks: self.shape.blocks.saturating_sub(self.overhead()),
            free,
            available: free.saturating_sub(self.shape.reserved_blocks + self.kept()),
            inodes: self.shape.inodes,
            free_inodes: self.free_inodes,
        }
    }

    /// Blocks of the file system itself, counted as Linux counts them for `statfs`.
    fn overhead(&self) -> u64 {
        let shape = &self.shape;
        let tables = u64::from(shape.groups) * (shape.table_blocks() + 2);
        let copies = (0..shape.groups).filter(|group| shape.has_copy(*group));
        let copy = 1 + shape.descriptor_blocks() + shape.reserved_descriptors;
        let log = self.journal.as_ref().map_or(0, Journal::whole);
        shape.first_data + tables + copies.count() as u64 * u64::from(copy) + log
    }

    /// Blocks that neither data nor directories get, as on Linux: what is written behind must find room for its extents.
    fn kept(&self) -> u64 {
        (self.shape.blocks / 50).min(4096)
    }

    /// How many blocks may be taken now.
    #[inline]
    pub(crate) fn room(&self, superuser: bool) -> u64 {
        let reserved = if superuser {
            0
        } else {
            self.shape.reserved_blocks
        };
        let not_to_be_had = self.promised + self.kept() + reserved;
        self.free_blocks.saturating_sub(not_to_be_had)
    }

    /// A block as what it should be; it is checked when it is seen for the first time.
    pub(crate) fn checked(&self, block: u64, kind: Kind) -> Result<&[u8], Error> {
        let slot = self.cache.slot(block)?;
        if slot.kind.get() != kind {
            if slot.kind.get() != Kind::Raw {
                return Err(Error::Damaged("block with two uses", block));
            }
            verify::check(self, block, kind, &slot.data)?;
            slot.kind.set(kind);
        }
        Ok(&slot.data)
    }
}
