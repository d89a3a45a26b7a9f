//! The journal (JBD2): a ring of blocks in a file of its own, into which whole transactions are written before their blocks go home.
//!
//! [`replay`] reads it after a cut of power, [`commit`] writes it. All its numbers are big-endian.

pub(crate) mod commit;
pub(crate) mod replay;

use crate::bytes::{array, be32, put_be32};
use crate::error::{damaged, Error};
use crate::extent::Place;
use crate::fs::{Fs, Run};
use crate::transaction::CREDITS;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_crc32c::crc32c;
use commit::Activity;

pub(crate) const MAGIC: u32 = 0xC03B_3998;
pub(crate) const DESCRIPTOR: u32 = 1;
pub(crate) const COMMIT: u32 = 2;
pub(crate) const REVOKE: u32 = 5;
pub(crate) const HEAD: usize = 12;

pub(crate) const ESCAPED: u32 = 1;
pub(crate) const SAME_UUID: u32 = 2;
pub(crate) const LAST: u32 = 8;

const CHECKSUM: usize = 0xFC;
/// Features of the journal.
const REVOKES: u32 = 1;
const WIDE: u32 = 2;
const SUMS_V2: u32 = 8;
const SUMS_V3: u32 = 0x10;

/// How tags and sums of a log look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub wide: bool,
    pub v2: bool,
    pub v3: bool,
    pub seed: u32,
    pub uuid: [u8; 16],
}

impl Format {
    pub(crate) fn sums(&self) -> bool {
        self.v2 || self.v3
    }

    pub(crate) fn tag(&self) -> usize {
        match (self.v3, self.v2, self.wide) {
            (true, ..) => 16,
            (_, v2, wide) => 8 + 2 * usize::from(v2) + 4 * usize::from(wide),
        }
    }

    /// Bytes at the end of descriptor and revoke blocks.
    pub(crate) fn tail(&self) -> usize {
        if self.sums() {
            4
        } else {
            0
        }
    }
}

pub(crate) struct Journal {
    /// Where the journal's blocks are: first block in the journal, first on the device, how many.
    map: Vec<(u32, u64, u32)>,
    pub(crate) format: Format,
    /// The superblock's block as it was last written or read.
    head_block: Rc<[u8]>,
    /// The log proper: these blocks of the journal.
    first: u32,
    len: u32,
    /// Where the next transaction goes, and how many blocks hold transactions that are not home.
    head: u32,
    used: u32,
    /// The number that the running transaction will have.
    tid: u32,
    durable: u32,
    /// Committed contents that are not home.
    home: BTreeMap<u64, Rc<[u8]>>,
    activity: Activity,
    committing: Option<commit::Committing>,
    wants: commit::Wants,
}

/// What the journal's superblock says.
pub(crate) struct Start {
    pub start: u32,
    pub sequence: u32,
}

impl Journal {
    pub(crate) fn block(&self, at: u32) -> Result<u64, Error> {
        let next = self.map.partition_point(|(first, ..)| *first <= at);
        match next.checked_sub(1).and_then(|found| self.map.get(found)) {
            Some(&(first, block, len)) if at - first < len => Ok(block + u64::from(at - first)),
            _ => damaged("journal block", u64::from(at)),
        }
    }

    /// Whether operations have room in it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match (self.capacity() as usize) < 6 * CREDITS {
            true => Err(Error::Unsupported("small journal")),
            false => Ok(()),
        }
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.map
            .iter()
            .map(|&(_, block, len)| (block, block + u64::from(len)))
    }

    /// The block after this one in the ring.
    pub(crate) fn next(&self, at: u32) -> u32 {
        if at + 1 >= self.len {
            self.first
        } else {
            at + 1
        }
    }

    /// Blocks of the log with its superblock.
    pub(crate) fn whole(&self) -> u64 {
        u64::from(self.len)
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.len - self.first
    }

    /// Its superblock with another beginning and number of the log; `start` 0 is an empty log.
    fn head_with(&mut self, start: u32, sequence: u32) -> Rc<[u8]> {
        let sums = self.format.sums();
        let raw = Rc::make_mut(&mut self.head_block);
        put_be32(raw, 0x18, sequence);
        put_be32(raw, 0x1C, start);
        if sums {
            put_be32(raw, CHECKSUM, 0);
            let sum = crc32c(!0, &raw[..1024]);
            put_be32(raw, CHECKSUM, sum);
        }
        self.head_block.clone()
    }

    /// We write our own way: with revokes, and as wide and with sums as the file system is. Only for an empty log.
    pub(crate) fn set_format(&mut self, wide: bool, sums: bool) {
        self.format.v2 = false;
        self.format.v3 = sums;
        self.format.wide = wide;
        let features = REVOKES | if wide { WIDE } else { 0 } | if sums { SUMS_V3 } else { 0 };
        let raw = Rc::make_mut(&mut self.head_block);
        put_be32(raw, 0x24, 0);
        put_be32(raw, 0x28, features);
        raw[0x50] = if sums { 4 } else { 0 };
    }
}

impl Fs {
    /// Finds the journal and reads its superblock.
    pub(crate) fn load_journal(&mut self, ino: u32) -> Result<(Journal, Start), Error> {
        let inode = self.inode(ino)?;
        let blocks = inode.size >> self.shape.block_bits;
        if !inode.is_regular() || !(1024..=1 << 28).contains(&blocks) {
            return damaged("journal", u64::from(ino));
        }
        let mut map = Vec::new();
        let mut at = 0;
        while u64::from(at) < blocks {
            let piece = self.find(&inode, at)?;
            let Place::Written(block) = piece.place else {
                return damaged("hole in the journal", u64::from(at));
            };
            map.push((at, block, piece.len));
            at = piece.at.saturating_add(piece.len);
        }
        let first = map.first().map_or(0, |piece| piece.1);
        let raw = self.checked(first, crate::cache::Kind::Parts)?;
        let incompat = be32(raw, 0x28);
        if be32(raw, 0) != MAGIC || be32(raw, 4) != 4 {
            return damaged("journal superblock", first);
        }
        if incompat & !(REVOKES | WIDE | SUMS_V2 | SUMS_V3) != 0 {
            return Err(Error::Unsupported("journal feature"));
        }
        let uuid: [u8; 16] = array(raw, 0x30);
        let format = Format {
            wide: incompat & WIDE != 0,
            v2: incompat & SUMS_V2 != 0,
            v3: incompat & SUMS_V3 != 0,
            seed: crc32c(!0, &uuid),
            uuid,
        };
        if format.sums() {
            let sum = crc32c(!0, &raw[..CHECKSUM]);
            let sum = crc32c(crc32c(sum, &[0; 4]), &raw[CHECKSUM + 4..1024]);
            if sum != be32(raw, CHECKSUM) || raw[0x50] != 4 {
                return damaged("journal superblock checksum", first);
            }
        }
        let (len, begin) = (be32(raw, 0x10), be32(raw, 0x14));
        let start = be32(raw, 0x1C);
        if be32(raw, 0x0C) as usize != self.shape.block_size
            || u64::from(len) > blocks
            || begin == 0
            || len < 1024
            || begin > len - 1000
            || (start != 0 && !(begin..len).contains(&start))
        {
            return damaged("journal superblock", first);
        }
        let sequence = be32(raw, 0x18);
        let journal = Journal {
            map,
            format,
            head_block: raw.into(),
            first: begin,
            len,
            head: begin,
            used: 0,
            tid: sequence,
            durable: sequence.wrapping_sub(1),
            home: BTreeMap::new(),
            activity: Activity::default(),
            committing: None,
            wants: commit::Wants::default(),
        };
        Ok((journal, Start { start, sequence }))
    }

    /// Does the log hold this block, so that its replay would bring old content back?
    pub(crate) fn is_in_log(&self, block: u64) -> bool {
        self.journal.as_ref().is_some_and(|journal| {
            journal.home.contains_key(&block)
                || journal
                    .committing
                    .as_ref()
                    .is_some_and(|closed| closed.blocks.iter().any(|(at, _)| *at == block))
        })
    }

    /// Does some freed block wait for a commit?
    pub(crate) fn frees_wait(&self) -> bool {
        let committing = self
            .journal
            .as_ref()
            .and_then(|journal| journal.committing.as_ref());
        !self.running.frees.is_empty() || committing.is_some_and(|closed| !closed.frees.is_empty())
    }
}

/// Runs and blocks of a transaction that is on its way to the log.
pub(crate) type Frees = Vec<Run>;
pub(crate) type Revokes = BTreeSet<u64>;
