//! The memory portal: what `vm` does with frames, page tables and object pools.
//!
//! The nucleus keeps two promises about frames here: no program ever maps one that the nucleus uses, and none that is mapped becomes the nucleus's.

mod common;
mod one_page;
mod rows;

use crate::arch::{Arch, Frame, MapError, Taken};
use crate::frames::FrameKind;
use crate::pool::{Extent, SpaceRef, ThreadRef};
use crate::portal::table::Target;
use crate::windows::is_range;
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{self, map, pool, prot, WRITABLE_CODE};
use cairn_abi::service::AUTO;
use cairn_abi::{rights, Error, PortalKind};

/// Most pages of one operation.
pub(crate) const PAGES: u64 = 512;
/// Pages that are mapped (and zeroed), and that are unmapped or protected, before interrupts are let in.
const MAP_SHARE: u64 = 4;
const ZERO_SHARE: u64 = 1;
const CHANGE_SHARE: u64 = 16;
/// Frames that are taken into a pool (they are zeroed), and into a space's reserve, before interrupts are let in.
const GIVE_SHARE: u64 = 1;
const TABLE_SHARE: u64 = 4;
/// Pages that are zeroed by one MAP.
const ZERO_PAGES: u64 = 8;
/// Frames that REAP returns at most.
const REAP_FRAMES: usize = 20;
pub(crate) const PROT: u64 = prot::READ | prot::WRITE | prot::EXECUTE | prot::DEVICE;
/// What only spaces that say so may have together.
pub(crate) const WRITABLE_EXECUTABLE: u64 = prot::WRITE | prot::EXECUTE;

/// A frame number from a word.
#[inline(never)]
fn frame(word: u64) -> Result<Frame, Error> {
    Frame::try_from(word).map_err(|_| Error::BadArgument)
}

/// Page-aligned range of user addresses.
pub(crate) fn range(address: u64, pages: u64) -> Result<(), Error> {
    if pages > PAGES || !is_range(address, pages) {
        return Err(Error::BadArgument);
    }
    Ok(())
}

impl<A: Arch> Kernel<A> {
    #[inline(never)]
    pub(crate) fn space_at(&self, t: ThreadRef, slot: u64) -> Result<SpaceRef, Error> {
        self.own_object(t, slot, PortalKind::Space, 0)
    }

    pub(crate) fn memory_service(&mut self, t: ThreadRef, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        match operation {
            memory::RANGE => {
                let range = usize::try_from(w[0])
                    .ok()
                    .filter(|&i| i < self.range_count)
                    .and_then(|i| self.ranges.get(i).copied())
                    .ok_or(Error::BadArgument)?;
                self.answer(t, 0, range.first);
                self.answer(t, 1, range.count);
                self.answer(t, 2, FrameKind::User as u64);
                Ok(())
            }
            memory::SPACE_CREATE => self.memory_space_create(t, w),
            memory::DOMAIN_CREATE => {
                let s = self.space_at(t, w[0])?;
                self.check_slot(t, w[1])?;
                let own = self.threads[t].domain;
                let slot = self.make_place(own, w[1])?;
                // Emptying the place may have closed the space's portal.
                if self.space_at(t, w[0]) != Ok(s) {
                    return Err(Error::BadPortal.into());
                }
                self.open(t);
                let ceiling = self.domains[own].ceiling;
                let d = self.domain_create(s, ceiling)?;
                let target = Target::to(PortalKind::Domain, d, rights::ALL & !rights::INHERIT);
                self.place_made(t, slot, target);
                let id = self.domains[d].id;
                self.answer(t, 1, id as u64);
                Ok(())
            }
            memory::GIVE | memory::GIVE_TABLES => self.give(t, w, operation == memory::GIVE_TABLES),
            memory::MAP | memory::MAP_LIST => self.map(t, w, operation == memory::MAP_LIST),
            memory::UNMAP | memory::PROTECT => self.change(t, w, operation == memory::PROTECT),
            memory::SHARE => self.share(t, w),
            memory::FILL => self.fill(t, w),
            memory::KEEP_TABLE => self.keep_table(t, w),
            memory::SHOW_TABLE => self.show_table(t, w),
            memory::COPY_FRAME => {
                let (to, from) = (frame(w[0])?, frame(w[1])?);
                if !self.frames.is_user(to) || !self.frames.is_user(from) {
                    return Err(Error::BadArgument.into());
                }
                self.arch.copy_frame(to, from, self.open_for(t));
                Ok(())
            }
            memory::ZERO_FRAME => {
                let frame = frame(w[0])?;
                if !self.frames.is_user(frame) {
                    return Err(Error::BadArgument.into());
                }
                self.arch.zero_frame(frame);
                Ok(())
            }
            memory::QUERY => {
                let s = self.space_at(t, w[0])?;
                let Some(root) = self.spaces[s].root else {
                    return Err(Error::NoTable.into());
                };
                let (frame, bits) = match self.arch.query(root, w[1] & !(PAGE - 1)) {
                    Some(m) => (
                        m.frame as u64,
                        m.prot | (m.accessed as u64) << 8 | (m.dirty as u64) << 9 | 1 << 10,
                    ),
                    None => (0, 0),
                };
                self.answer(t, 0, frame);
                self.answer(t, 1, bits);
                Ok(())
            }
            memory::REAP => self.reap(t, w),
            memory::POOL_INFO => {
                let extent = self.pool_extent(w[0]).ok_or(Error::BadArgument)?;
                let info = extent.info();
                self.answers(t, &info);
                Ok(())
            }
            memory::TAKE => self.take_pages(t, w[0]),
            memory::GROW_TABLE => {
                let d = self.own_object(t, w[0], PortalKind::Domain, 0)?;
                Ok(self.grow_table(d)?)
            }
            memory::SPACE_INFO => {
                let s = self.space_at(t, w[0])?;
                let (tables, root) = (self.spaces[s].tables, self.spaces[s].root.is_some());
                self.answer(t, 0, tables.count as u64);
                self.answer(t, 1, tables.used as u64 + root as u64);
                Ok(())
            }
            memory::SYSTEM_PAGE => {
                let frame = self.system_frame;
                self.answer(t, 0, frame as u64);
                Ok(())
            }
            _ => Err(Error::BadOperation.into()),
        }
    }

    fn memory_space_create(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let pager = if w[1] == AUTO {
            0
        } else {
            let channel = self.own_object(t, w[1], PortalKind::Receive, 0)?;
            self.channel_refer(channel)
        };
        let made = self.memory_space_make(t, w, pager);
        if made.is_err() {
            self.channel_forget(pager);
        }
        made
    }

    /// The space keeps the number of its pager's channel, if it can be made.
    fn memory_space_make(&mut self, t: ThreadRef, w: [u64; 8], pager: u32) -> Answer {
        self.check_slot(t, w[0])?;
        if w[3] & !WRITABLE_CODE != 0 {
            return Err(Error::BadArgument.into());
        }
        if !self.spaces.room(1) {
            return Err(Error::NoMemory.into());
        }
        let own = self.threads[t].domain;
        let slot = self.make_place(own, w[0])?;
        let s = self.space_create(pager, w[2], w[3] == WRITABLE_CODE)?;
        let target = Target::to(PortalKind::Space, s, rights::ALL & !rights::INHERIT);
        self.place_made(t, slot, target);
        Ok(())
    }

    /// Take a free frame for the nucleus.
    fn take_frame(&mut self, frame: Frame) -> Result<(), Error> {
        match self.frames.kind(frame) {
            FrameKind::User if self.frames.mappings(frame) == 0 => {
                self.frames.set(frame, FrameKind::Nucleus);
                Ok(())
            }
            FrameKind::User => Err(Error::Busy),
            _ => Err(Error::BadArgument),
        }
    }

    #[inline(never)]
    fn pool_extent(&mut self, kind: u64) -> Option<&mut Extent> {
        Some(match kind {
            pool::DOMAIN => self.domains.extent(),
            pool::SPACE => self.spaces.extent(),
            pool::THREAD => self.threads.extent(),
            pool::CHANNEL => self.channels.extent(),
            pool::PORTAL => self.portals.extent(),
            pool::CODE => self.blocks.extent(),
            pool::SEMAPHORE => self.semaphores.extent(),
            pool::WINDOW => self.windows.extent(),
            pool::SIGNATURE => self.signatures.extent(),
            _ => return None,
        })
    }

    /// Grow a pool by a frame that is the nucleus's already. False: its region is full.
    pub(crate) fn pool_add(&mut self, kind: u64, frame: Frame) -> bool {
        self.arch.zero_frame(frame);
        let next = self.pool_extent(kind).and_then(|extent| extent.next_page());
        let Some(page) = next else {
            return false;
        };
        if self.arch.pool_map(kind as usize, page, frame) {
            if let Some(extent) = self.pool_extent(kind) {
                extent.grow(page);
            }
        }
        true
    }

    /// TAKE.
    fn take_pages(&mut self, t: ThreadRef, kind: u64) -> Answer {
        let extent = self.pool_extent(kind).ok_or(Error::BadArgument)?;
        let most = extent.most_pages();
        // Whoever has come in without the lock looks at no object, and is in no code, that was given back before this.
        self.await_passers();
        let mut taken = 0;
        while taken < most {
            let Some(page) = self.pool_extent(kind).and_then(Extent::shrink) else {
                break;
            };
            let frame = self.arch.pool_unmap(kind as usize, page);
            self.frames.set(frame, FrameKind::User);
            taken += 1;
            self.answer(t, taken, frame as u64);
        }
        if taken != 0 {
            self.arch.forget_pools();
        }
        self.answer(t, 0, taken as u64);
        Ok(())
    }

    /// GIVE and (`tables`) GIVE_TABLES.
    fn give(&mut self, t: ThreadRef, w: [u64; 8], tables: bool) -> Answer {
        let (space, share) = if tables {
            (Some(self.space_at(t, w[0])?), TABLE_SHARE)
        } else {
            self.pool_extent(w[0]).ok_or(Error::BadArgument)?;
            (None, GIVE_SHARE)
        };
        let first = frame(w[1])?;
        self.open(t);
        for done in 0..w[2] {
            if done != 0 && done.is_multiple_of(share) && self.more_frames(t, w, done) {
                return Err(Stop::Restart);
            }
            let frame = frame(first as u64 + done)?;
            self.take_frame(frame)?;
            if let Some(s) = space {
                self.space_give(s, frame);
            } else if !self.pool_add(w[0], frame) {
                self.frames.set(frame, FrameKind::User);
                return Err(Error::NoMemory.into());
            }
        }
        Ok(())
    }

    /// So many frames of those that the words name are given: let interrupts in. True: the rest is for the next entry.
    fn more_frames(&mut self, t: ThreadRef, w: [u64; 8], done: u64) -> bool {
        self.answer(t, 1, w[1] + done);
        self.answer(t, 2, w[2] - done);
        self.let_in(t)
    }

    /// May programs map this frame in this manner?
    pub(crate) fn check_frame(&self, frame: Frame, flags: u64) -> Result<(), Error> {
        let fine = match self.frames.kind(frame) {
            FrameKind::User => flags & map::IO == 0,
            FrameKind::System => flags & (PROT | map::IO) == prot::READ,
            FrameKind::Absent => flags & map::IO != 0 && flags & prot::DEVICE != 0,
            FrameKind::Nucleus => false,
        };
        if fine {
            Ok(())
        } else {
            Err(Error::BadArgument)
        }
    }

    pub(crate) fn check_prot(&self, s: SpaceRef, flags: u64) -> Result<(), Error> {
        let known = PROT | map::ZERO | map::COPY | map::FAULT | map::IO;
        let both = flags & WRITABLE_EXECUTABLE == WRITABLE_EXECUTABLE;
        if flags & !known != 0 || both && !self.spaces[s].writable_code {
            return Err(Error::BadArgument);
        }
        Ok(())
    }

    /// Map one page of a space and keep count.
    pub(crate) fn map_page(
        &mut self,
        s: SpaceRef,
        root: A::Root,
        address: u64,
        frame: Frame,
        prot: u64,
    ) -> Result<(), MapError> {
        let tables = &mut self.spaces[s].tables;
        let before = self.arch.map(root, address, frame, prot, tables)?;
        self.frames.replaced(frame, before);
        Ok(())
    }

    /// Map one page of a space, if it is a program's, and keep count.
    #[inline(never)]
    pub(crate) fn map_user(
        &mut self,
        s: SpaceRef,
        root: A::Root,
        address: u64,
        frame: Frame,
        prot: u64,
    ) -> Result<(), Error> {
        let frames = &mut self.frames;
        if !frames.map_user(frame) {
            return Err(Error::BadArgument);
        }
        let tables = &mut self.spaces[s].tables;
        match self.arch.map(root, address, frame, prot, tables) {
            Ok(None) => Ok(()),
            Ok(Some(old)) => {
                frames.unmapped(old);
                Ok(())
            }
            Err(error) => {
                frames.unmapped(frame);
                Err(error.into())
            }
        }
    }

    /// A share of an operation on a row of pages is done. Word 1 is its address, `[pages, counted]` are the words with how many pages are left and how many were
    /// counted, word 2, if it is none of these, goes on by `step` a page; this share did `done` and counted `count`. True: that was all. Otherwise the words say how to go on, and
    /// interrupts were let in.
    #[inline(never)]
    fn more_pages(
        &mut self,
        t: ThreadRef,
        [pages, counted]: [usize; 2],
        done: u64,
        count: u64,
        step: u64,
    ) -> Result<bool, Stop> {
        let w = self.threads[t].registers.words();
        let all = w[counted].wrapping_add(count);
        if w[pages] == done {
            self.answer(t, 0, all);
            return Ok(true);
        }
        self.answer(t, 1, w[1] + done * PAGE);
        self.answer(t, 2, w[2] + done * step);
        self.answer(t, pages, w[pages] - done);
        self.answer(t, counted, all);
        if self.let_in(t) {
            return Err(Stop::Restart);
        }
        Ok(false)
    }

    /// MAP and (`listed`) MAP_LIST.
    fn map(&mut self, t: ThreadRef, w: [u64; 8], listed: bool) -> Answer {
        let s = self.space_at(t, w[0])?;
        let Some(root) = self.spaces[s].root else {
            return Err(Error::NoTable.into());
        };
        let (address, pages, flags) = (w[1], w[3], w[4]);
        let first = if listed { 0 } else { frame(w[2])? };
        range(address, pages)?;
        self.check_prot(s, flags)?;
        let fill = flags & (map::ZERO | map::COPY);
        let source = if fill != 0 { frame(w[5])? } else { 0 };
        if fill != 0 {
            let fine = match fill {
                map::ZERO => pages <= ZERO_PAGES,
                map::COPY => pages == 1 && self.frames.is_user(source),
                _ => false,
            };
            if !fine || listed || flags & map::IO != 0 || !self.frames.is_user(first) {
                return Err(Error::BadArgument.into());
            }
        }
        self.tear(s, address, pages)?;
        if fill == map::COPY {
            let open = self.open_for(t);
            self.arch.copy_frame(first, source, open);
        }
        let most = if fill == map::ZERO {
            ZERO_SHARE
        } else {
            MAP_SHARE
        };
        // What w2 goes on by for each page, and the word with how many were mapped.
        let (step, counted) = if listed { (4, 5) } else { (1, 6) };
        let (mut from, mut address, mut left) = (w[2], address, pages);
        loop {
            let share = left.min(most);
            let mut list = [0; MAP_SHARE as usize * 4];
            if listed {
                self.read_own(t, from, &mut list[..share as usize * 4])?;
            }
            let (list, _) = list.as_chunks();
            for (done, bytes) in (0..share).zip(list) {
                let frame = if listed {
                    Frame::from_le_bytes(*bytes)
                } else {
                    frame(from + done)?
                };
                if frame != 0 || !listed {
                    self.check_frame(frame, flags)?;
                    if fill == map::ZERO {
                        self.arch.zero_frame(frame);
                        self.open(t);
                    }
                    let at = address + done * PAGE;
                    if let Err(error) = self.map_page(s, root, at, frame, flags & PROT) {
                        let before = self.threads[t].registers.words()[counted];
                        self.answer(t, 0, before.wrapping_add(done));
                        return Err(Error::from(error).into());
                    }
                }
            }
            if self.more_pages(t, [3, counted], share, share, step)? {
                return Ok(());
            }
            from += share * step;
            address += share * PAGE;
            left -= share;
        }
    }

    /// UNMAP and (`protect`) PROTECT.
    fn change(&mut self, t: ThreadRef, w: [u64; 8], protect: bool) -> Answer {
        let s = self.space_at(t, w[0])?;
        let Some(root) = self.spaces[s].root else {
            return Err(Error::NoTable.into());
        };
        let (mut address, mut left) = (w[1], w[2]);
        range(address, left)?;
        // The word with how many pages were changed is the last one.
        let (prot, counted) = if protect { (Some(w[3]), 4) } else { (None, 3) };
        if let Some(prot) = prot {
            self.check_prot(s, prot)?;
            if prot & !PROT != 0 {
                return Err(Error::BadArgument.into());
            }
        }
        self.tear(s, address, left)?;
        loop {
            let share = left.min(CHANGE_SHARE);
            let (frames, mut count) = (&mut self.frames, 0);
            self.arch.change_row(root, address, share, prot, |frame| {
                if !protect {
                    frames.unmapped(frame);
                } else if frames.kind(frame) == FrameKind::System {
                    // The system page stays as it is, whatever is asked.
                    return false;
                }
                count += 1;
                true
            });
            if self.more_pages(t, [2, counted], share, count, 0)? {
                return Ok(());
            }
            address += share * PAGE;
            left -= share;
        }
    }

    /// Page tables but the root of a space that nobody uses join its reserve: at most so many with one request. How far that came shows the space itself.
    fn tables_to_reserve(
        &mut self,
        t: ThreadRef,
        s: SpaceRef,
        root: A::Root,
        mut most: usize,
    ) -> Answer {
        while self.spaces[s].tables.used != 0 {
            let (open, frames) = (self.open_for(t), &mut self.frames);
            let emptied = |frame| frames.unmapped(frame);
            match self.arch.take_table(root, open, emptied) {
                Taken::Some => {}
                Taken::Table(frame) => {
                    let tables = &mut self.spaces[s].tables;
                    tables.used -= 1;
                    self.arch.list_push(tables, frame);
                    most -= 1;
                    if most == 0 {
                        break;
                    }
                }
                Taken::Root => break,
            }
            if self.let_in(t) {
                return Err(Stop::Restart);
            }
        }
        Ok(())
    }

    fn reap(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let s = self.space_at(t, w[0])?;
        if self.spaces[s].domains != 0 {
            return Err(Error::Busy.into());
        }
        let room = (w[2].min(REAP_FRAMES as u64)) as usize;
        if room == 0 {
            return Err(Error::BadArgument.into());
        }
        self.tear_all(s)?;
        self.open(t);
        if let Some(root) = self.spaces[s].root {
            self.arch.leave_tables(root);
            self.tables_to_reserve(t, s, root, room)?;
        }
        self.open(t);
        // What is written below must not be lost to a fault.
        self.write_own(t, w[1], &[0; REAP_FRAMES * 4][..room * 4])?;
        self.open(t);
        let (mut bytes, mut n) = ([0; REAP_FRAMES * 4], 0);
        if let Some(root) = self.spaces[s].root {
            let (words, _) = bytes.as_chunks_mut::<4>();
            for word in &mut words[..room] {
                let frame = match self.arch.list_take(&mut self.spaces[s].tables) {
                    Some(frame) => frame,
                    None => {
                        // Nothing is mapped, and there are no tables below it.
                        self.spaces[s].root = None;
                        self.arch.root_frame(root)
                    }
                };
                self.frames.set(frame, FrameKind::User);
                *word = frame.to_le_bytes();
                n += 1;
                if self.spaces[s].root.is_none() {
                    break;
                }
            }
        }
        self.write_own(t, w[1], &bytes[..n * 4])?;
        self.answer(t, 0, n as u64);
        if self.spaces[s].root.is_some() {
            return Err(Error::Again.into());
        }
        // Empty: the portal that was used goes with it.
        let target = self.own_entry(t, w[0])?;
        let own = self.threads[t].domain;
        self.close(own, w[0] as u32, target)
    }
}
