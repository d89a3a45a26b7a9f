//! Reading the log after a cut of power: which blocks whole transactions hold, and which of them were freed later. It goes on where it had to wait for a block.

use super::{
    Format, Journal, Start, COMMIT, DESCRIPTOR, ESCAPED, HEAD, LAST, MAGIC, REVOKE, SAME_UUID,
};
use crate::bytes::{be16, be32, put_be32};
use crate::cache::Cache;
use crate::error::{damaged, Error};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_crc32c::crc32c;

/// A block of a transaction: where in the journal it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub at: u32,
    pub tid: u32,
    escaped: bool,
    sum: u32,
}

pub(crate) struct Replay {
    format: Format,
    at: u32,
    /// The transaction that is being read.
    pub tid: u32,
    seen: u32,
    blocks: Vec<(u64, Logged)>,
    revokes: Vec<u64>,
    /// What whole transactions say, the last word for each block.
    pub map: BTreeMap<u64, Logged>,
    revoked: BTreeMap<u64, u32>,
    /// Something is wrong with the transaction that is being read. If it is not whole, that is no wonder.
    wrong: Option<Error>,
    pub done: bool,
}

/// Numbers of transactions go round.
fn not_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 <= 0
}

impl Replay {
    pub(crate) fn new(journal: &Journal, start: &Start) -> Replay {
        Replay {
            format: journal.format,
            at: start.start,
            tid: start.sequence,
            seen: 0,
            blocks: Vec::new(),
            revokes: Vec::new(),
            map: BTreeMap::new(),
            revoked: BTreeMap::new(),
            wrong: None,
            done: false,
        }
    }

    /// Reads to the end of the log; `end` is the number of blocks of the file system.
    pub(crate) fn run(&mut self, journal: &Journal, cache: &Cache, end: u64) -> Result<(), Error> {
        while !self.done {
            let block = journal.block(self.at)?;
            let data = cache.slot(block)?.data.clone();
            // Every block is looked at once at most: what is left of older rounds has older numbers.
            let known = be32(&data, 0) == MAGIC
                && be32(&data, 8) == self.tid
                && self.seen < journal.capacity();
            self.seen += 1;
            match be32(&data, 4) {
                DESCRIPTOR if known => {
                    if !self.right_tail(&data) {
                        break;
                    }
                    self.descriptor(journal, &data, end);
                }
                REVOKE if known => {
                    if !self.right_tail(&data) {
                        break;
                    }
                    self.revoke_block(&data);
                    self.at = journal.next(self.at);
                }
                COMMIT if known && self.right_commit(&data) => {
                    self.commit()?;
                    self.at = journal.next(self.at);
                }
                _ => break,
            }
        }
        self.done = true;
        let revoked = core::mem::take(&mut self.revoked);
        self.map.retain(|block, logged| {
            revoked
                .get(block)
                .is_none_or(|tid| !not_after(logged.tid, *tid))
        });
        Ok(())
    }

    fn right_tail(&self, data: &[u8]) -> bool {
        if !self.format.sums() {
            return true;
        }
        let tail = data.len() - 4;
        let sum = crc32c(crc32c(self.format.seed, &data[..tail]), &[0; 4]);
        sum == be32(data, tail)
    }

    fn right_commit(&self, data: &[u8]) -> bool {
        if !self.format.sums() {
            return true;
        }
        let sum = crc32c(self.format.seed, &data[..16]);
        let sum = crc32c(crc32c(sum, &[0; 4]), &data[20..]);
        sum == be32(data, 16)
    }

    fn descriptor(&mut self, journal: &Journal, data: &[u8], end: u64) {
        let (size, limit) = (self.format.tag(), data.len() - self.format.tail());
        let mut next = HEAD;
        loop {
            if next + size > limit {
                self.at = journal.next(self.at);
                return;
            }
            let (flags, high, sum) = if self.format.v3 {
                (
                    be32(data, next + 4),
                    be32(data, next + 8),
                    be32(data, next + 12),
                )
            } else {
                let high = if self.format.wide {
                    be32(data, next + 8)
                } else {
                    0
                };
                let sum = u32::from(be16(data, next + 4));
                (u32::from(be16(data, next + 6)), high, sum)
            };
            let high = if self.format.wide { high } else { 0 };
            let home = u64::from(be32(data, next)) | u64::from(high) << 32;
            self.at = journal.next(self.at);
            self.seen += 1;
            let own = |zone: (u64, u64)| zone.0 <= home && home < zone.1;
            if home >= end || journal.zones().any(own) {
                self.wrong = Some(Error::Damaged("block number in the journal", home));
            }
            if self.seen >= journal.capacity() {
                let tid = u64::from(self.tid);
                self.wrong = Some(Error::Damaged("transaction larger than the journal", tid));
                return;
            }
            let logged = Logged {
                at: self.at,
                tid: self.tid,
                escaped: flags & ESCAPED != 0,
                sum,
            };
            self.blocks.push((home, logged));
            next += size;
            if flags & SAME_UUID == 0 {
                next += 16;
            }
            if flags & LAST != 0 {
                self.at = journal.next(self.at);
                return;
            }
        }
    }

    fn revoke_block(&mut self, data: &[u8]) {
        let used = be32(data, HEAD) as usize;
        if used > data.len() - self.format.tail() || used < HEAD + 4 {
            self.wrong = Some(Error::Damaged("revoke block", u64::from(self.at)));
            return;
        }
        let size = if self.format.wide { 8 } else { 4 };
        for entry in data[HEAD + 4..used].chunks_exact(size) {
            let block = if self.format.wide {
                u64::from(be32(entry, 0)) << 32 | u64::from(be32(entry, 4))
            } else {
                u64::from(be32(entry, 0))
            };
            self.revokes.push(block);
        }
    }

    /// The transaction is whole.
    fn commit(&mut self) -> Result<(), Error> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        self.map.extend(self.blocks.drain(..));
        for block in self.revokes.drain(..) {
            self.revoked.insert(block, self.tid);
        }
        self.tid = self.tid.wrapping_add(1);
        Ok(())
    }

    /// A block's content out of the log.
    pub(crate) fn content(
        &self,
        journal: &Journal,
        cache: &Cache,
        logged: &Logged,
    ) -> Result<Rc<[u8]>, Error> {
        let block = journal.block(logged.at)?;
        let data = cache.slot(block)?.data.clone();
        if self.format.sums() {
            let sum = crc32c(self.format.seed, &logged.tid.to_be_bytes());
            let sum = crc32c(sum, &data);
            let right = if self.format.v3 {
                sum == logged.sum
            } else {
                sum & 0xFFFF == logged.sum
            };
            if !right {
                return damaged("checksum of a logged block", block);
            }
        }
        if !logged.escaped {
            return Ok(data);
        }
        let mut data = data;
        put_be32(Rc::make_mut(&mut data), 0, MAGIC);
        Ok(data)
    }
}
