//! fallocate's COLLAPSE_RANGE and INSERT_RANGE: whole blocks go out of the middle of a file, or a hole comes there; what lies behind moves, without being copied.
//!
//! Everything is written first and no page from the place on stays in memory, because blocks change their places in the file. Then it is one operation of the core.

use crate::keys;
use crate::memory::{Memory, PAGE64};
use crate::server::{asker, fail, Ext4};
use cairn_block::Device;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shift {
    Collapse,
    Insert,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    pub(crate) fn shift(
        &mut self,
        cx: &mut Context,
        ino: u32,
        (offset, length): (u64, u64),
        how: Shift,
    ) -> Answer<()> {
        if self.fs.asks(asker(cx), |who| cx.repeats(who)) {
            return Ok(());
        }
        let (block, old) = (self.block_size(), self.node(ino)?.size);
        if !(offset | length).is_multiple_of(block) {
            return fail(EINVAL);
        }
        let new = match how {
            Shift::Collapse if offset + length >= old => return fail(EINVAL),
            Shift::Collapse => old - length,
            Shift::Insert if old + length > self.most_bytes() => return fail(EFBIG),
            Shift::Insert if offset >= old => return fail(EINVAL),
            Shift::Insert => old + length,
        };
        self.finish_cut(ino)?;
        let file = self.file(ino)?;
        let first = offset / PAGE64;
        self.give_up_pages(cx, ino, first)?;
        if how == Shift::Collapse {
            self.resize_mapped(ino, new)?;
            // A successor takes the longer one of what it finds here and on the image.
            self.left.cut(file, new);
        }
        let (from, count, now) = ((offset / block) as u32, (length / block) as u32, self.now);
        let done = match how {
            Shift::Collapse => self.collapse(cx, ino, (from, from + count), new),
            Shift::Insert => self.act_for(cx, |fs| fs.insert_hole(ino, from, count, new, now)),
        };
        self.node(ino)?.unlearn();
        if let Err(failure) = done {
            self.left.set_size(file, old);
            if let Failure::Errno(_) = failure {
                let _ = self.resize_mapped(ino, old);
            }
            return Err(failure);
        }
        self.left.set_size(file, new);
        let node = self.node(ino)?;
        (node.size, node.mtime, node.ctime) = (new, now, now);
        self.refresh(ino);
        // Without memory for that, what is new is beyond the end for who has it mapped.
        let _ = self.resize_mapped(ino, new);
        Ok(())
    }

    /// The blocks themselves first, then what lies behind.
    fn collapse(
        &mut self,
        cx: &mut Context,
        ino: u32,
        (from, to): (u32, u32),
        size: u64,
    ) -> Answer<()> {
        let now = self.now;
        while !self.act(|fs| fs.punch(ino, from, to, now))? {}
        self.act_for(cx, |fs| fs.collapse(ino, from, to, size, now))
    }

    /// All of a file is at the device, and no page from this one on is here, or shown to programs.
    fn give_up_pages(&mut self, cx: &mut Context, ino: u32, first: u64) -> Answer<()> {
        let file = self.file(ino)?;
        loop {
            self.write_out(cx, ino)?;
            if self.cache.is_loading(file, first, u64::MAX) {
                return Err(Failure::Wait(keys::pages(ino)));
            }
            let last = self.node(ino)?.size.div_ceil(PAGE64);
            let taken =
                self.mapped
                    .take_out(&mut self.cache, file, (first, last.max(first)), self.clock);
            taken.ok_or(Failure::Errno(ENOMEM))?;
            // What programs had written through mappings is written now.
            if self.cache.pending(file, 0, u64::MAX) == (false, false) {
                self.cache.remove(file, first, u64::MAX);
                return Ok(());
            }
        }
    }
}
