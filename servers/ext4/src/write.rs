//! Writing: into the cache; blocks are found when the pages go to the device, but the room for them is promised at once, so that a full disk is told to who writes.

use crate::keys;
use crate::left::nanoseconds;
use crate::memory::{Memory, PAGE, PAGE64};
use crate::server::{fail, time, Ext4};
use cairn_abi::Token;
use cairn_block::Device;
use cairn_cache::{File, Put, Slot};
use cairn_ext4::Place;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// Longest run of pages that is filled by one copy from the caller.
const RUN: usize = 64;
/// Blocks that are looked up together.
const LOOK: u64 = 256;

/// A page to be written into.
struct Target {
    slot: Slot,
    fresh: bool,
    promised: bool,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Take bytes from the caller. `cx.progress` is how many were taken before the request had to wait.
    #[inline]
    pub(crate) fn write_file(
        &mut self,
        cx: &mut Context,
        ino: u32,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        match self.overwrite(cx, ino, offset, length) {
            Some(fetched) => fetched.map(|()| length),
            None => self.write_general(cx, ino, offset, length),
        }
    }

    /// What is overwritten is in the cache and has blocks or the promise of some, and nobody waits for anything: the copy, marks, and times. None: nothing was done.
    #[inline]
    fn overwrite(
        &mut self,
        cx: &mut Context,
        ino: u32,
        offset: u64,
        length: usize,
    ) -> Option<Answer<()>> {
        let bits = self.fs.shape().block_bits;
        let end = offset + length as u64;
        let node = self.nodes.get_mut(ino)?;
        let plain = end <= node.size
            && node.has_blocks(offset >> bits, (end + (1 << bits) - 1) >> bits)
            && self.armed
            && !node.cutting
            && !node.raises
            && !node.syncing
            && cx.progress == 0
            && self.fs.is_writable()
            && self.writers.is_empty()
            && !self.cache.must_wait(&self.policy);
        let file = node.file.filter(|_| plain)?;
        let (first, behind) = (offset / PAGE64, end.div_ceil(PAGE64));
        let slot = self.cache.overwrite(file, first, behind, self.clock)?;
        let from = (offset % PAGE64) as usize;
        let target = self.cache.memory().bytes_mut(slot, from, length);
        let fetched = cx.fetch(0, target);
        if fetched.is_ok() {
            let ns = cx.now();
            self.left.set_time(file, ns);
            let now = time(ns);
            (self.now, node.mtime, node.ctime) = (now, now, now);
            if !(node.unsafe_data && node.dirty) {
                self.note_changed(ino);
                self.touch(ino);
            }
        }
        Some(fetched)
    }

    #[inline(never)]
    fn write_general(
        &mut self,
        cx: &mut Context,
        ino: u32,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        self.load(ino)?;
        if !self.fs.is_writable() {
            return fail(EROFS);
        }
        self.drop_capabilities(cx, ino)?;
        let node = self.node(ino)?;
        let size = node.size;
        if node.syncing || self.is_being_written(ino, cx.request.token) {
            return Err(Failure::Wait(keys::pages(ino)));
        }
        let length = length.min(self.most_bytes().saturating_sub(offset) as usize);
        if length == 0 {
            return fail(EFBIG);
        }
        let file = self.file(ino)?;
        let before = cx.progress as usize;
        if before == 0
            && offset > size
            && !size.is_multiple_of(PAGE64)
            && size / PAGE64 != offset / PAGE64
        {
            // What is there must end where the file did.
            self.content(ino, size / PAGE64)?;
        }
        if before == 0 && offset > size {
            self.clean_tail(ino, size);
        }
        let now = self.look_at_clock(cx);
        self.arm(cx);
        let (done, problem) = self.take_bytes(cx, ino, file, offset, length, before);
        if done != before {
            self.note_changed(ino);
            let node = self.node(ino)?;
            node.mtime = now;
            node.ctime = now;
            let old = node.size.div_ceil(PAGE64);
            node.size = node.size.max(offset + done as u64);
            let size = node.size;
            let longer = node.mapped && size.div_ceil(PAGE64) != old;
            self.left.set_size(file, size);
            self.left.set_time(file, nanoseconds(now));
            self.touch(ino);
            if longer {
                // Without memory for that, what is new is beyond the end for who has it mapped.
                let _ = self.resize_mapped(ino, size);
            }
        }
        match problem {
            Some(Failure::Wait(key)) => {
                cx.progress = done as u64;
                cx.progress_is_result = done != 0;
                if done != 0 && before == 0 {
                    self.writers.push((ino, cx.request.token));
                }
                return Err(Failure::Wait(key));
            }
            _ if before != 0 => self.writer_gone(cx),
            _ => {}
        }
        match problem {
            Some(failure) if done == 0 => Err(failure),
            _ => Ok(done),
        }
    }

    /// Somebody else's write has to wait in the middle.
    #[inline]
    fn is_being_written(&self, ino: u32, token: Token) -> bool {
        let mut writers = self.writers.iter();
        writers.any(|(file, writer)| *file == ino && *writer != token)
    }

    /// A write that waited in the middle is over.
    #[cold]
    pub(crate) fn writer_gone(&mut self, cx: &mut Context) {
        let token = cx.request.token;
        if let Some(index) = self.writers.iter().position(|(_, writer)| *writer == token) {
            let (ino, _) = self.writers.swap_remove(index);
            cx.wake(keys::pages(ino));
        }
    }

    /// Where files end at the latest.
    pub(crate) fn most_bytes(&self) -> u64 {
        (((1 << 32) - 2) * self.block_size()).min(1 << 44)
    }

    #[inline]
    fn take_bytes(
        &mut self,
        cx: &mut Context,
        ino: u32,
        file: File,
        offset: u64,
        length: usize,
        mut done: usize,
    ) -> (usize, Option<Failure>) {
        let superuser = cx.has(label::SYSTEM);
        let mut problem = None;
        while done < length && problem.is_none() {
            if self.cache.must_wait(&self.policy) {
                self.start_writes();
                return (done, Some(Failure::Wait(keys::ROOM)));
            }
            let at = offset + done as u64;
            let from = (at % PAGE64) as usize;
            let wanted = from + length - done;
            let size = self.nodes.get(ino).map_or(0, |node| node.size);
            // A run of pages that are neighbours in the arena.
            let (mut first, mut pages, mut fresh, mut promised) = (0, 0, 0u64, 0u64);
            while pages < RUN && wanted > pages * PAGE {
                self.filling = pages != 0;
                let page = at / PAGE64 + pages as u64;
                let low = if pages == 0 { from } else { 0 };
                let high = (wanted - pages * PAGE).min(PAGE);
                let begin = page * PAGE64;
                let whole =
                    begin >= size || low == 0 && (high == PAGE || begin + high as u64 >= size);
                let part = (begin + low as u64, begin + high as u64);
                match self.page_to_write(ino, file, page, part, whole, superuser) {
                    Ok(place) => {
                        if pages != 0 && place.slot != first + pages as Slot {
                            if place.fresh {
                                self.take_back(ino, file, page, place.promised);
                            }
                            break;
                        }
                        first = if pages == 0 { place.slot } else { first };
                        fresh |= u64::from(place.fresh) << pages;
                        promised |= u64::from(place.promised) << pages;
                        pages += 1;
                    }
                    Err(failure) => {
                        problem = Some(failure);
                        break;
                    }
                }
            }
            self.filling = false;
            if pages == 0 {
                break;
            }
            let run = (pages * PAGE - from).min(length - done);
            let memory = self.cache.memory();
            if from != 0 && fresh & 1 != 0 {
                memory.bytes_mut(first, 0, from).fill(0);
            }
            let (last, end) = (pages - 1, (from + run) % PAGE);
            if end != 0 && fresh >> last & 1 != 0 {
                let slot = first + last as Slot;
                memory.bytes_mut(slot, end, PAGE - end).fill(0);
            }
            let target = memory.bytes_mut(first, from, run);
            let fetched = cx.fetch(done, target);
            for index in 0..pages {
                let page = at / PAGE64 + index as u64;
                if fetched.is_err() && fresh >> index & 1 != 0 {
                    self.take_back(ino, file, page, promised >> index & 1 != 0);
                } else {
                    // Also what was copied in part.
                    self.cache.mark_dirty(file, page, self.clock);
                }
            }
            if let Err(failure) = fetched {
                let end = self.nodes.get(ino).map_or(0, |node| node.size);
                self.break_blocks(ino, end.div_ceil(self.block_size()), u64::MAX);
                return (done, Some(failure));
            }
            done += run;
            // For the next run: what is there now is the file's.
            if let Some(node) = self.nodes.get_mut(ino) {
                node.size = node.size.max(offset + done as u64);
            }
        }
        (done, problem)
    }

    /// A page that was made for bytes that do not come.
    fn take_back(&mut self, ino: u32, file: File, page: u64, promised: bool) {
        self.cache.remove(file, page, page + 1);
        if promised {
            self.break_promises(ino, page, page + 1);
        }
    }

    /// The page, with its content unless all of it will be overwritten (`whole`), and with blocks or the promise of some for the part that is to be written.
    #[inline]
    fn page_to_write(
        &mut self,
        ino: u32,
        file: File,
        page: u64,
        part: (u64, u64),
        whole: bool,
        superuser: bool,
    ) -> Answer<Target> {
        if !whole && self.cache.get(file, page).is_none() && !self.bring(ino, page, page + 1)? {
            return Err(Failure::Wait(keys::pages(ino)));
        }
        let promised = self.promise(ino, part.0, part.1, superuser)?;
        let mut put = self.cache.put(file, page);
        if put.is_err() && self.make_room() {
            put = self.cache.put(file, page);
        }
        let (slot, fresh) = match put {
            Ok(Put::There(slot)) => (slot, false),
            Ok(Put::Fresh(slot)) => (slot, true),
            other => {
                if promised {
                    self.break_promises(ino, page, page + 1);
                }
                return Err(match other {
                    Ok(_) => Failure::Wait(keys::pages(ino)),
                    Err(_) => self.no_room(),
                });
            }
        };
        Ok(Target {
            slot,
            fresh,
            promised,
        })
    }

    /// The blocks of these bytes, in one page, are there or are promised now: then true.
    #[inline]
    pub(crate) fn promise(
        &mut self,
        ino: u32,
        from: u64,
        to: u64,
        superuser: bool,
    ) -> Answer<bool> {
        let bits = self.fs.shape().block_bits;
        let (from, to) = (from >> bits, ((to - 1) >> bits) + 1);
        let node = self.node(ino)?;
        if !node.cutting && node.has_blocks(from, to) {
            return Ok(false);
        }
        self.promise_blocks(ino, from, to, superuser)
    }

    #[inline]
    fn promise_blocks(&mut self, ino: u32, from: u64, to: u64, superuser: bool) -> Answer<bool> {
        if self.node(ino)?.cutting {
            self.finish_cut(ino)?;
        }
        let mut wanted = 0u64;
        for block in from..to {
            let node = self.node(ino)?;
            let hole = node.hole.0 <= block && block < node.hole.1;
            let promised = to - from > 1 && node.delayed.contain(block, block + 1);
            if !promised && (hole || self.look_for_hole(ino, block, block + 1)?) {
                wanted |= 1 << (block - from);
            }
        }
        if wanted == 0 {
            return Ok(false);
        }
        self.act(|fs| fs.promise(u64::from(wanted.count_ones()), superuser))?;
        let node = self.node(ino)?;
        for block in (from..to).filter(|block| wanted >> (block - from) & 1 != 0) {
            node.delayed.insert(block);
        }
        Ok(true)
    }

    fn look_for_hole(&mut self, ino: u32, from: u64, to: u64) -> Answer<bool> {
        let pieces = self.act(|fs| fs.map(ino, from as u32, LOOK as u32))?;
        let node = self.node(ino)?;
        let mut hole = false;
        for piece in pieces {
            if u64::from(piece.at) < to {
                node.learn(piece.at, piece.len, piece.place);
                hole |= piece.place == Place::Hole;
            }
        }
        Ok(hole)
    }
}
