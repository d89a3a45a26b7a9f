//! Content of regular files, as far as metadata goes. Bytes are the caller's: it asks where they are ([`Fs::map`]), and moves them between its frames and the device.
//!
//! New data is written before any metadata knows of it: the caller reserves blocks, writes the data there, and attaches them when the device has it ([`Fs::attach`]). So a cut of
//! power can leave no file with blocks whose data never came, the order between data and log needs no bookkeeping, and allocation is as late as the caller likes.

use crate::error::Error;
use crate::extent::{Extent, Place};
use crate::fs::{Fs, Run, Time};
use crate::inode::{Inode, EXTENTS};
use crate::transaction::PIECES;

/// Blocks in a reservation or a preallocation step.
const MAX_RUN: u32 = 32767;
/// Of a file: what 32 bits of blocks and 32 bits of 512-byte units allow.
const MAX_BLOCKS: u64 = (1 << 32) - 1;

impl Fs {
    pub(crate) fn regular(&self, ino: u32) -> Result<Inode, Error> {
        let inode = self.inode(ino)?;
        if inode.is_directory() {
            return Err(Error::IsDirectory);
        }
        if !inode.is_regular() {
            return Err(Error::Invalid);
        }
        if inode.flags & EXTENTS == 0 {
            return Err(Error::Unsupported("file without extents"));
        }
        Ok(inode)
    }

    /// A file that may grow: what it had behind its end before must be gone, or it would come back.
    pub(crate) fn growable(&self, ino: u32) -> Result<Inode, Error> {
        if self.cutting.contains(&ino) {
            return Err(Error::Invalid);
        }
        self.regular(ino)
    }

    pub(crate) fn blocks_of(&self, size: u64) -> Result<u32, Error> {
        let blocks = size.div_ceil(self.shape.block_size as u64);
        if blocks >= MAX_BLOCKS || size > 1 << 44 {
            return Err(Error::TooLarge);
        }
        Ok(blocks as u32)
    }

    /// Delayed allocation: room for data that is only in the caller's frames, and for the metadata that it may need. Given back with [`Fs::unpromise`] when it is allocated.
    #[inline]
    pub fn promise(&mut self, blocks: u64, superuser: bool) -> Result<(), Error> {
        if blocks > self.room(superuser) {
            return Err(Error::NoSpace);
        }
        self.promised += blocks;
        Ok(())
    }

    pub fn unpromise(&mut self, blocks: u64) {
        self.promised = self.promised.saturating_sub(blocks);
    }

    /// Up to `count` free blocks beside each other for a hole of a file at block `at`: nobody else gets them until they are attached or given back.
    pub fn reserve(&mut self, ino: u32, at: u32, count: u32) -> Result<Run, Error> {
        let run = self.change(|fs| {
            let inode = fs.growable(ino)?;
            let goal = fs.goal(&inode, at)?;
            fs.find_free(goal, count.min(MAX_RUN))
        })?;
        self.busy.insert(run);
        Ok(run)
    }

    /// Gives a reservation back.
    pub fn unreserve(&mut self, run: Run) {
        self.no_longer_busy(run);
    }

    /// The data is on the device: the reserved blocks become part of the file at block `at`, and the file ends at `size` if it was shorter.
    /// On an error they are still reserved.
    pub fn attach(
        &mut self,
        ino: u32,
        at: u32,
        run: Run,
        size: u64,
        now: Time,
    ) -> Result<(), Error> {
        if !self.busy.has(run) {
            return Err(Error::Invalid);
        }
        self.blocks_of(size)?;
        self.change(|fs| {
            let mut inode = fs.growable(ino)?;
            fs.take(run)?;
            let new = Extent {
                at,
                len: run.len,
                start: run.start,
                unwritten: false,
            };
            fs.insert(&mut inode, new)?;
            inode.sectors += fs.sectors(run.len);
            inode.size = inode.size.max(size);
            inode.mtime = now;
            inode.ctime = now;
            fs.put_inode(&inode, true)
        })?;
        self.busy.remove(run);
        Ok(())
    }

    /// The data of preallocated blocks is on the device: they read as what was written. The file ends at `size` if it was shorter.
    pub fn written(
        &mut self,
        ino: u32,
        at: u32,
        count: u32,
        size: u64,
        now: Time,
    ) -> Result<(), Error> {
        let end = u64::from(at) + u64::from(count);
        if end > MAX_BLOCKS {
            return Err(Error::TooLarge);
        }
        self.blocks_of(size)?;
        let mut from = at;
        // Each turn is an operation of its own; what is done stays done and is found so the next time.
        loop {
            let done = self.change(|fs| {
                let mut inode = fs.growable(ino)?;
                let mut next = fs.extent_from(&inode, from)?;
                while let Some(extent) = next.filter(|extent| !extent.unwritten) {
                    if extent.end() >= end {
                        break;
                    }
                    next = fs.extent_from(&inode, extent.end() as u32)?;
                }
                let todo = next.filter(|extent| extent.unwritten && u64::from(extent.at) < end);
                if let Some(extent) = todo {
                    if let Some(piece) = fs.cut(&mut inode, extent.at.max(at), end)? {
                        fs.insert(
                            &mut inode,
                            Extent {
                                unwritten: false,
                                ..piece
                            },
                        )?;
                        from = piece.end() as u32;
                    }
                } else {
                    inode.size = inode.size.max(size);
                    inode.mtime = now;
                    inode.ctime = now;
                }
                fs.put_inode(&inode, true)?;
                Ok(todo.is_none())
            })?;
            if done {
                return Ok(());
            }
        }
    }

    /// What was written between `at` and `at + count` reads as zeros, and keeps its blocks. One step; true when all of it does. The caller waits for its own reads and
    /// writes there first.
    pub fn unwrite(&mut self, ino: u32, at: u32, count: u32, now: Time) -> Result<bool, Error> {
        let end = u64::from(at) + u64::from(count);
        self.change(|fs| {
            let mut inode = fs.growable(ino)?;
            let mut pieces = PIECES;
            let mut next = fs.written_from(&inode, at, end)?;
            while let Some(extent) = next.filter(|_| pieces != 0) {
                let from = extent.at.max(at);
                // An unwritten one is shorter by a block than a written one may be.
                let upto = end.min(u64::from(from) + u64::from(MAX_RUN));
                if let Some(piece) = fs.cut(&mut inode, from, upto)? {
                    let unwritten = true;
                    fs.insert(&mut inode, Extent { unwritten, ..piece })?;
                }
                pieces -= 1;
                next = fs.written_from(&inode, from, end)?;
            }
            inode.mtime = now;
            inode.ctime = now;
            fs.put_inode(&inode, true)?;
            Ok(next.is_none())
        })
    }

    /// The first extent that was written and touches `at..end`.
    fn written_from(&self, inode: &Inode, at: u32, end: u64) -> Result<Option<Extent>, Error> {
        let mut next = self.extent_from(inode, at)?;
        while let Some(extent) = next.filter(|extent| extent.unwritten) {
            next = self.extent_from(inode, extent.end() as u32)?;
        }
        Ok(next.filter(|extent| u64::from(extent.at) < end))
    }

    /// Blocks for the holes between `at` and `at + count`, which read as zeros. One step; true when all are there.
    pub fn preallocate(
        &mut self,
        ino: u32,
        at: u32,
        count: u32,
        size: Option<u64>,
        now: Time,
    ) -> Result<bool, Error> {
        let end = u64::from(at) + u64::from(count);
        if end > MAX_BLOCKS {
            return Err(Error::TooLarge);
        }
        self.blocks_of(size.unwrap_or(0))?;
        self.change(|fs| {
            let mut inode = fs.growable(ino)?;
            let mut next = at;
            let hole = loop {
                if u64::from(next) >= end {
                    break None;
                }
                let piece = fs.find(&inode, next)?;
                if piece.place == Place::Hole {
                    break Some(piece);
                }
                next = piece.at.saturating_add(piece.len);
            };
            if let Some(hole) = hole {
                let room = fs.room(true).min(u64::from(hole.len));
                if room == 0 {
                    return Err(Error::NoSpace);
                }
                let len = room.min(end - u64::from(hole.at)) as u32;
                let goal = fs.goal(&inode, hole.at)?;
                let run = fs.find_free(goal, len.min(MAX_RUN))?;
                fs.take(run)?;
                let new = Extent {
                    at: hole.at,
                    len: run.len,
                    start: run.start,
                    unwritten: true,
                };
                fs.insert(&mut inode, new)?;
                inode.sectors += fs.sectors(run.len);
            } else if let Some(size) = size {
                inode.size = inode.size.max(size);
            }
            inode.ctime = now;
            fs.put_inode(&inode, true)?;
            Ok(hole.is_none())
        })
    }

    /// Frees what is mapped in `from..to`, at most `pieces` extents. True when nothing is left. `metadata`: the blocks may be in the log.
    pub(crate) fn free_range(
        &mut self,
        inode: &mut Inode,
        from: u32,
        to: u64,
        pieces: usize,
        metadata: bool,
    ) -> Result<bool, Error> {
        for _ in 0..pieces {
            let Some(piece) = self.cut(inode, from, to)? else {
                return Ok(true);
            };
            self.give(Run {
                start: piece.start,
                len: piece.len,
            })?;
            if metadata {
                let end = piece.start + u64::from(piece.len);
                self.op.forget.extend(piece.start..end);
            }
            inode.sectors = inode.sectors.saturating_sub(self.sectors(piece.len));
        }
        Ok(false)
    }

    /// Makes a hole of whole blocks. One step; true when it is done. The caller waits for its own reads and writes there first, and zeros what is left of partly covered blocks.
    pub fn punch(&mut self, ino: u32, from: u32, to: u32, now: Time) -> Result<bool, Error> {
        self.change(|fs| {
            let mut inode = fs.regular(ino)?;
            let done = fs.free_range(&mut inode, from, u64::from(to), PIECES, false)?;
            inode.mtime = now;
            inode.ctime = now;
            fs.put_inode(&inode, true)?;
            Ok(done)
        })
    }

    /// Sets where a file ends. False: there are blocks behind the new end, and [`Fs::cut_rest`] is to be called until it answers true; until then the file cannot
    /// grow (Invalid). The caller waits for its own reads and writes there first, and zeros what is left of the last block.
    pub fn set_size(&mut self, ino: u32, size: u64, now: Time) -> Result<bool, Error> {
        let end = self.blocks_of(size)?;
        let shorter = self.change(|fs| {
            let mut inode = fs.regular(ino)?;
            if size > inode.size {
                inode = fs.growable(ino)?;
            }
            // Blocks behind the end (preallocated ones) stay if the file gets longer, and go otherwise.
            let shorter = size <= inode.size && fs.extent_from(&inode, end)?.is_some();
            inode.size = size;
            inode.mtime = now;
            inode.ctime = now;
            if shorter && inode.links != 0 {
                fs.add_orphan(&mut inode)?;
            }
            fs.put_inode(&inode, true)?;
            Ok(shorter)
        })?;
        if shorter {
            self.cutting.insert(ino);
        }
        Ok(!shorter && !self.cutting.contains(&ino))
    }

    /// The file ends at least at `size`; its blocks are as they are.
    pub fn extend(&mut self, ino: u32, size: u64, now: Time) -> Result<(), Error> {
        self.blocks_of(size)?;
        self.change(|fs| {
            let mut inode = fs.growable(ino)?;
            inode.size = inode.size.max(size);
            inode.mtime = now;
            inode.ctime = now;
            fs.put_inode(&inode, true)
        })
    }
}
