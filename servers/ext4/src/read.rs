//! Reading: from the cache straight to the caller, and from the device to the cache, with what will be asked for next.

use crate::keys;
use crate::memory::{Memory, PAGE, PAGE64};
use crate::server::{fail, Ext4, Purpose};
use alloc::vec::Vec;
use cairn_block::{Device, Kind};
use cairn_cache::{Full, Io, Slot, Stream};
use cairn_ext4::{Piece, Place};
use cairn_idl::errno::*;
use cairn_idl::fs::INLINE_MAX;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Failure};

/// Seconds after which a read is noted although nothing was written since (relatime).
const DAY: i64 = 24 * 60 * 60;
/// Most pages that are asked for at a time.
const LOAD: u64 = 256;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Note a read, as Linux does with `relatime`.
    #[inline]
    pub(crate) fn touch_accessed(&mut self, cx: &mut Context, ino: u32) {
        if self.options.no_access_times || !self.may_write() {
            return;
        }
        let now = self.look_at_clock(cx);
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        if node.atime <= node.mtime || node.atime <= node.ctime || now.sec - node.atime.sec >= DAY {
            node.atime = now;
            self.touch(ino);
            self.arm(cx);
        }
    }

    /// Bytes of a file. All but the last run of neighbouring pages are copied here, the last one goes with the reply.
    ///
    /// A read that has to wait in between keeps what it has copied (`progress` is one more than that), unless it answers in words, which are small.
    #[inline]
    pub(crate) fn read_file(
        &mut self,
        cx: &mut Context,
        ino: u32,
        stream: &mut Stream,
        offset: u64,
        length: usize,
        note: bool,
    ) -> Answer<Data<'_>> {
        self.load(ino)?;
        if note {
            self.touch_accessed(cx, ino);
        }
        let node = self.node(ino)?;
        let (size, file) = (node.size, node.file);
        let resumed = cx.progress != 0;
        let mut done = (cx.progress as usize).saturating_sub(1);
        if offset + done as u64 >= size {
            return Ok(Data::stored(done));
        }
        let file = match file {
            Some(file) => file,
            None => self.file(ino)?,
        };
        let length = length.min((size - offset) as usize);
        let end = (offset + length as u64).div_ceil(PAGE64);
        let mut ahead = end;
        if !resumed {
            let first = offset / PAGE64;
            let range = stream.read(first, end - first, size.div_ceil(PAGE64));
            ahead = range.map_or(end, |range| range.end);
        }
        loop {
            let at = offset + done as u64;
            let (page, from) = (at / PAGE64, (at % PAGE64) as usize);
            let left = length - done;
            let Some((slot, count)) = self.cache.run(file, page, end - page) else {
                match self.bring(ino, page, end.max(ahead)) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(Failure::Errno(_)) if done != 0 && length > INLINE_MAX => {
                        return Ok(Data::stored(done));
                    }
                    Err(Failure::Wait(key)) => {
                        if length > INLINE_MAX {
                            cx.progress = done as u64 + 1;
                        }
                        return Err(Failure::Wait(key));
                    }
                    Err(failure) => return Err(failure),
                }
                if length > INLINE_MAX {
                    cx.progress = done as u64 + 1;
                }
                return Err(Failure::Wait(keys::pages(ino)));
            };
            let run = (count as usize * PAGE - from).min(left);
            if run >= left {
                if ahead > end {
                    // If it cannot be begun now, the reader will do it.
                    let _ = self.begin_loads(ino, end, ahead);
                }
                let rest = self.cache.memory().bytes(slot, from, run);
                return Ok(Data { done, rest });
            }
            cx.store(done, self.cache.memory().bytes(slot, from, run))?;
            done += run;
        }
    }

    /// A page that is not there is wanted, and what follows it is welcome. True: it is there now; false: it comes.
    pub(crate) fn bring(&mut self, ino: u32, page: u64, to: u64) -> Answer<bool> {
        if self.unreadable_pages.remove(&(ino, page)) {
            return fail(EIO);
        }
        self.begin_loads(ino, page, to.min(page + LOAD))?;
        let file = self.file(ino)?;
        if self.cache.slot(file, page).is_none() && !self.cache.is_loading(file, page, page + 1) {
            // Holes come at once: in a small cache the last of them have pushed it out.
            self.begin_loads(ino, page, page + 1)?;
        }
        Ok(self.cache.get(file, page).is_some())
    }

    /// The content of a page; None where nothing was written, in memory or on the image.
    pub(crate) fn content(&mut self, ino: u32, page: u64) -> Answer<Option<Slot>> {
        let file = self.file(ino)?;
        if let Some(slot) = self.cache.get(file, page) {
            return Ok(Some(slot));
        }
        if !self.cache.is_loading(file, page, page + 1) {
            let (at, count) = (page * self.per_page(), self.per_page());
            let pieces = self.act(|fs| fs.map(ino, at as u32, count as u32))?;
            let written = |piece: &Piece| matches!(piece.place, Place::Written(_));
            if !pieces.iter().any(written) {
                return Ok(None);
            }
        }
        match self.bring(ino, page, page + 1)? {
            true => Ok(self.cache.get(file, page)),
            false => Err(Failure::Wait(keys::pages(ino))),
        }
    }

    /// All missing pages of a range are asked for.
    pub(crate) fn begin_loads(&mut self, ino: u32, mut from: u64, to: u64) -> Answer<()> {
        let file = self.file(ino)?;
        loop {
            match self.cache.load(file, from, to, LOAD) {
                Ok(None) => return Ok(()),
                Ok(Some(io)) => {
                    // What came at once may go again for what comes next: never back.
                    from = io.first + io.slots.len() as u64;
                    self.load_run(ino, io)?;
                }
                Err(Full) if self.make_room() => {}
                Err(Full) => return Err(self.no_room()),
            }
        }
    }

    /// The cache is full of what cannot go now.
    pub(crate) fn no_room(&mut self) -> Failure {
        self.note_all_mapped();
        self.everything = true;
        self.start_writes();
        Failure::Wait(keys::ROOM)
    }

    /// From the device to these pages; what has no blocks is zeros.
    fn load_run(&mut self, ino: u32, io: Io) -> Answer<()> {
        let (size, per_page) = (self.block_size(), self.per_page());
        let bytes = self.nodes.get(ino).map_or(0, |node| node.size);
        let first = io.first * per_page;
        let behind = (io.first + io.slots.len() as u64) * per_page;
        let end = behind.min(bytes.div_ceil(size)).max(first);
        let pieces = match self.pieces(ino, first, end) {
            Ok(pieces) => pieces,
            Err(failure) => {
                self.cache.loaded(io, false);
                return Err(failure);
            }
        };
        let group = self.requests.open();
        let mut reads = false;
        let rest = Piece {
            at: end as u32,
            len: (behind - end) as u32,
            place: Place::Hole,
        };
        for piece in pieces.into_iter().chain([rest]) {
            let from = (u64::from(piece.at) - first) * size;
            let length = u64::from(piece.len) * size;
            if let Place::Written(start) = piece.place {
                let pages = &io.slots[(from / PAGE64) as usize..];
                let pages = &pages[..(from % PAGE64 + length).div_ceil(PAGE64) as usize];
                let offset = (from % PAGE64) as u32;
                self.requests
                    .add(group, Kind::Read, start * size, length, pages, offset);
                reads = true;
            } else {
                self.zero(&io.slots, from, from + length);
            }
        }
        self.requests.seal(group);
        match reads {
            true => {
                self.purposes.insert(group, Purpose::Load(ino, io));
            }
            false => self.pages_read(ino, io, true),
        }
        Ok(())
    }

    /// Where blocks `first..end` of a file are.
    fn pieces(&mut self, ino: u32, first: u64, end: u64) -> Answer<Vec<Piece>> {
        let known = self.nodes.get(ino).map(|node| node.known);
        if let Some(known) = known.filter(|known| u64::from(known.at) <= first && end <= known.end)
        {
            return Ok(alloc::vec![Piece {
                at: first as u32,
                len: (end - first) as u32,
                place: Place::Written(known.start + first - u64::from(known.at)),
            }]);
        }
        let (mut pieces, mut next) = (Vec::new(), first);
        while next < end {
            // More than is asked for, so that the next time it is known.
            let count = (end - next).max(1 << 15).min(u64::from(u32::MAX) - next) as u32;
            for mut piece in self.act(|fs| fs.map(ino, next as u32, count))? {
                if next >= end {
                    break;
                }
                if let Some(node) = self.nodes.get_mut(ino) {
                    node.learn(piece.at, piece.len, piece.place);
                }
                piece.len = u64::from(piece.len).min(end - next) as u32;
                next += u64::from(piece.len);
                pieces.push(piece);
            }
        }
        Ok(pieces)
    }

    /// Zeros in pages that lie in a row in a file, wherever they lie in the arena.
    fn zero(&mut self, slots: &[Slot], mut from: u64, to: u64) {
        while from < to {
            let at = (from % PAGE64) as usize;
            let length = (PAGE - at).min((to - from) as usize);
            let slot = slots[(from / PAGE64) as usize];
            self.cache.memory().bytes_mut(slot, at, length).fill(0);
            from += length as u64;
        }
    }

    pub(crate) fn pages_read(&mut self, ino: u32, io: Io, well: bool) {
        let (file, first, count) = (io.file, io.first, io.slots.len() as u64);
        let size = self.nodes.get(ino).map_or(0, |node| node.size);
        // What lies behind the end is zero, whatever the device has there.
        let tail = io.slots.get((size / PAGE64).wrapping_sub(first) as usize);
        let mut garbage = false;
        if let Some(&slot) = tail.filter(|_| well && size / PAGE64 >= first) {
            let from = (size % PAGE64) as usize;
            let bytes = self.cache.memory().bytes_mut(slot, from, PAGE - from);
            garbage = from != 0 && bytes.iter().any(|byte| *byte != 0);
            bytes.fill(0);
        }
        if !well {
            let log = self.options.log;
            let last = first + count;
            log(format_args!(
                "inode {ino}: pages {first}..{last} could not be read"
            ));
            let pages = (first..last).map(|page| (ino, page));
            if self.owners.get(&file) == Some(&ino) {
                self.unreadable_pages.extend(pages);
            }
        }
        self.cache.loaded(io, well);
        if !well {
            self.mapped.refuse(file, first, count);
        } else if self.nodes.get(ino).is_some_and(|node| node.mapped) {
            self.faults.insert(ino);
        }
        if garbage && self.fs.is_writable() {
            self.cache.mark_dirty(file, size / PAGE64, self.clock);
        }
        self.wakes.extend([keys::pages(ino), keys::ROOM]);
    }
}
