//! Where files end, and where they have holes: truncate, fallocate, SEEK_DATA and SEEK_HOLE.
//!
//! Blocks are given away only when the device has done with them, so all of these wait first for what is under way in the range, and then change cache and image together.

use crate::keys;
use crate::memory::{Memory, PAGE, PAGE64};
use crate::server::{fail, Ext4};
use crate::shift::Shift;
use cairn_block::Device;
use cairn_ext4::Place;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

const FALLOC_KEEP_SIZE: u64 = 1;
const FALLOC_PUNCH_HOLE: u64 = 2;
const FALLOC_COLLAPSE_RANGE: u64 = 8;
const FALLOC_ZERO_RANGE: u64 = 16;
const FALLOC_INSERT_RANGE: u64 = 32;

/// What becomes of whole blocks that shall read as zeros.
#[derive(Clone, Copy)]
enum Clear {
    /// They are the file system's again.
    Punch,
    /// The file keeps them.
    Zero,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Zeros from a byte to the end of its page (or to `to`, in the same page), if the file has something there.
    fn zero_part(&mut self, ino: u32, from: u64, to: u64) -> Answer<()> {
        let page = from / PAGE64;
        let Some(slot) = self.content(ino, page)? else {
            return Ok(());
        };
        let at = (from % PAGE64) as usize;
        let length = (to.min((page + 1) * PAGE64) - from) as usize;
        let bytes = self.cache.memory().bytes_mut(slot, at, length);
        // Zeros that were never written stay so.
        if bytes.iter().any(|byte| *byte != 0) {
            bytes.fill(0);
            let file = self.file(ino)?;
            self.cache.mark_dirty(file, page, self.clock);
        }
        Ok(())
    }

    /// Nothing in these pages is at the device.
    fn await_writes(&mut self, ino: u32, from: u64, to: u64) -> Answer<()> {
        let file = self.file(ino)?;
        match self.cache.pending(file, from, to).1 {
            true => Err(Failure::Wait(keys::pages(ino))),
            false => Ok(()),
        }
    }

    /// A new length; what is behind it goes.
    pub(crate) fn resize(&mut self, cx: &mut Context, ino: u32, size: u64) -> Answer<()> {
        self.load(ino)?;
        if !self.may_write() {
            return fail(EROFS);
        }
        if size > self.most_bytes() {
            return fail(EFBIG);
        }
        let node = self.node(ino)?;
        if !node.is_regular() {
            return fail(EINVAL);
        }
        let (old, now) = (node.size, self.look_at_clock(cx));
        let file = self.file(ino)?;
        self.arm(cx);
        let pages = size.div_ceil(PAGE64);
        if size < old {
            self.await_writes(ino, pages.saturating_sub(1), u64::MAX)?;
            if !size.is_multiple_of(PAGE64) {
                self.zero_part(ino, size, u64::MAX)?;
            }
        } else if size > old {
            self.finish_cut(ino)?;
            if !old.is_multiple_of(PAGE64) {
                self.content(ino, old / PAGE64)?;
            }
        }
        if size < old {
            if self.mapped.cut(file, pages) {
                self.resize_mapped(ino, size)?;
            } else {
                return Err(cx.goes_on());
            }
        } else {
            self.clean_tail(ino, old);
        }
        // A successor takes the longer one of what it finds here and on the image.
        self.left.cut(file, size);
        let whole = match self.act(|fs| fs.set_size(ino, size, now)) {
            Err(failure) => {
                self.left.set_size(file, old);
                if let Failure::Errno(_) = failure {
                    let _ = self.resize_mapped(ino, old);
                }
                return Err(failure);
            }
            Ok(whole) => whole,
        };
        self.left.set_size(file, size);
        self.note_changed(ino);
        self.cache.remove(file, pages, u64::MAX);
        self.break_blocks(ino, size.div_ceil(self.block_size()), u64::MAX);
        let node = self.node(ino)?;
        node.size = size;
        node.cutting = !whole;
        node.unlearn();
        node.mtime = now;
        node.ctime = now;
        self.refresh(ino);
        // Without memory for that, what is new is beyond the end for who has it mapped.
        let _ = self.resize_mapped(ino, size);
        if !whole {
            self.cuts.push(ino);
            self.run_ends();
        }
        Ok(())
    }

    /// fallocate: reserve, punch a hole, or make zeros of what is there.
    pub(crate) fn allocate_file(
        &mut self,
        cx: &mut Context,
        ino: u32,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Answer<()> {
        self.load(ino)?;
        if !self.may_write() {
            return fail(EROFS);
        }
        self.drop_capabilities(cx, ino)?;
        self.look_at_clock(cx);
        self.arm(cx);
        self.note_changed(ino);
        let end = offset + length;
        match mode {
            0 | FALLOC_KEEP_SIZE => self.preallocate(cx, ino, offset, end, mode == 0),
            mode if mode == FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE => {
                self.clear(ino, offset, end, Clear::Punch)
            }
            mode if mode & !FALLOC_KEEP_SIZE == FALLOC_ZERO_RANGE => {
                self.preallocate(cx, ino, offset, end, mode & FALLOC_KEEP_SIZE == 0)?;
                self.clear(ino, offset, end, Clear::Zero)
            }
            FALLOC_COLLAPSE_RANGE => self.shift(cx, ino, (offset, length), Shift::Collapse),
            FALLOC_INSERT_RANGE => self.shift(cx, ino, (offset, length), Shift::Insert),
            _ => fail(EOPNOTSUPP),
        }
    }

    fn preallocate(
        &mut self,
        cx: &mut Context,
        ino: u32,
        offset: u64,
        end: u64,
        grow: bool,
    ) -> Answer<()> {
        if end > self.most_bytes() {
            return fail(EFBIG);
        }
        self.finish_cut(ino)?;
        // What is under way there may have reserved blocks for the same place.
        self.await_writes(ino, offset / PAGE64, end.div_ceil(PAGE64))?;
        let node = self.node(ino)?;
        let (old, grows) = (node.size, grow && end > node.size);
        if grows && !old.is_multiple_of(PAGE64) {
            self.content(ino, old / PAGE64)?;
            self.clean_tail(ino, old);
        }
        let (size, now) = (self.block_size(), self.now);
        let first = offset / size;
        let count = end.div_ceil(size) - first;
        if cx.progress == 0 {
            // All or nothing, as far as can be said now.
            let space = self.fs.space();
            let had = self.node(ino)?.sectors * 512 / size;
            if count
                > space
                    .available
                    .max(space.free * u64::from(cx.has(label::SYSTEM)))
                    + had
            {
                return fail(ENOSPC);
            }
            cx.progress = 1;
        }
        self.node(ino)?.unlearn();
        let new = grows.then_some(end);
        while !self.act(|fs| fs.preallocate(ino, first as u32, count as u32, new, now))? {}
        let node = self.node(ino)?;
        node.ctime = now;
        if grows {
            node.size = end;
            node.mtime = now;
            let _ = self.resize_mapped(ino, end);
        }
        self.refresh(ino);
        Ok(())
    }

    /// Bytes of a file become zeros. Whole blocks lose what they hold, of the others the part is overwritten.
    fn clear(&mut self, ino: u32, offset: u64, end: u64, how: Clear) -> Answer<()> {
        let file = self.file(ino)?;
        // What lies behind the end of the file is behind its last page as well.
        let end = end.min(self.node(ino)?.size.next_multiple_of(PAGE64));
        if offset >= end {
            return Ok(());
        }
        self.await_writes(ino, offset / PAGE64, end.div_ceil(PAGE64))?;
        // The image may know the end by pages only that will not be written now.
        let (length, now) = (self.node(ino)?.size, self.now);
        if self.act(|fs| fs.inode(ino))?.size < length {
            self.act(|fs| fs.extend(ino, length, now))?;
        }
        let size = self.block_size();
        let whole = (offset.div_ceil(size), end / size);
        for (from, to) in self.parts_of_pages(offset, end) {
            // If it is only whole blocks they go, and a copy in memory follows.
            let blocks = from.is_multiple_of(size) && to.is_multiple_of(size);
            match self.cache.slot(file, from / PAGE64) {
                Some(slot) if blocks => {
                    let bytes = (to - from) as usize;
                    let at = (from % PAGE64) as usize;
                    self.cache.memory().bytes_mut(slot, at, bytes).fill(0);
                }
                None if blocks
                    && !self
                        .cache
                        .is_loading(file, from / PAGE64, from / PAGE64 + 1) => {}
                None if blocks => return Err(Failure::Wait(keys::pages(ino))),
                _ => self.zero_part(ino, from, to)?,
            }
        }
        if whole.0 < whole.1 {
            let (from, to) = (whole.0 as u32, whole.1 as u32);
            self.node(ino)?.unlearn();
            match how {
                Clear::Punch => while !self.act(|fs| fs.punch(ino, from, to, now))? {},
                Clear::Zero => while !self.act(|fs| fs.unwrite(ino, from, to - from, now))? {},
            }
            let (first, last) = (offset.div_ceil(PAGE64), end / PAGE64);
            if first < last {
                let clock = self.clock;
                let taken = self
                    .mapped
                    .take_out(&mut self.cache, file, (first, last), clock);
                taken.ok_or(Failure::Errno(ENOMEM))?;
                self.cache.remove(file, first, last);
            }
            self.break_blocks(ino, whole.0, whole.1);
        }
        let node = self.node(ino)?;
        node.unlearn();
        node.mtime = now;
        node.ctime = now;
        self.touch(ino);
        self.refresh(ino);
        Ok(())
    }

    /// What of some bytes is not whole pages: before those, and behind.
    fn parts_of_pages(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let (first, last) = (offset.next_multiple_of(PAGE64), end / PAGE64 * PAGE64);
        let parts = match first <= last {
            true => [(offset, first), (last, end)],
            false => [(offset, end), (end, end)],
        };
        parts.into_iter().filter(|(from, to)| from < to)
    }

    /// The next data or hole. What has no blocks yet but was written is data.
    pub(crate) fn seek_file(&mut self, ino: u32, offset: u64, hole: bool, end: u64) -> Answer<u64> {
        self.load(ino)?;
        let file = self.file(ino)?;
        let size = self.block_size();
        let (mut block, behind) = (offset / size, end.div_ceil(size));
        while block < behind {
            let count = (behind - block).min(u64::from(u32::MAX)) as u32;
            for piece in self.act(|fs| fs.map(ino, block as u32, count))? {
                let (from, to) = (
                    u64::from(piece.at) * size,
                    (u64::from(piece.at) + u64::from(piece.len)) * size,
                );
                block = u64::from(piece.at) + u64::from(piece.len);
                let (first, last) = (from / PAGE64, to.div_ceil(PAGE64));
                let found = match piece.place {
                    Place::Written(_) if hole => None,
                    Place::Written(_) => Some(from),
                    Place::Unwritten(_) => {
                        let (dirty, writing) = self.cache.pending(file, first, last);
                        (hole != (dirty || writing)).then_some(from)
                    }
                    Place::Hole => self.in_hole(ino, from.max(offset), to, hole),
                };
                if let Some(found) = found.filter(|found| *found < end) {
                    return Ok(found.max(offset));
                }
            }
        }
        match hole {
            true => Ok(end),
            false => fail(ENXIO),
        }
    }

    /// The same between two bytes where the image has nothing.
    fn in_hole(&self, ino: u32, from: u64, to: u64, hole: bool) -> Option<u64> {
        let (delayed, size) = (&self.nodes.get(ino)?.delayed, self.block_size());
        let mut at = from;
        while at < to {
            let Some((start, end)) = delayed.next(at / size) else {
                return hole.then_some(at);
            };
            let (start, end) = (start * size, end * size);
            if at < start {
                if hole {
                    return Some(at);
                }
                at = start;
            } else if !hole {
                return Some(at);
            } else {
                at = end;
            }
        }
        None
    }
}

const _: () = assert!(PAGE as u64 == PAGE64);
