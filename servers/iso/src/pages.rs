//! The disk's bytes in the one cache: those of files in pages that programs can map, everything else (folders, continuation areas) as pages of the disk itself.

use crate::volume::{Source, SECTOR};
use alloc::collections::BTreeMap;
use cairn_cache::mapped::Objects;
use cairn_cache::{Cache, File, Full, Io, Mapped, Slot};
use cairn_rt::paging::Request;
use cairn_rt::Portal;

pub const PAGE: usize = 4096;
const PAGE64: u64 = PAGE as u64;
/// Pages that are read together: when one of a folder, or of a mapped file, is wanted; and the most that is asked for at a time.
const AROUND: u64 = 32;
const MOST: u64 = 256;
/// Pages that go at a time when there is no room.
const ROOM: u32 = 64;

/// The disk, and an arena of pages with its memory manager.
pub trait Medium: cairn_cache::Memory {
    /// Bytes of the disk.
    fn length(&self) -> u64;
    /// So many bytes of the disk from `at` on, into these pages of the arena, in the first from `offset` on. Waits; false: it failed.
    fn load(&mut self, pages: &[Slot], offset: u32, at: u64, bytes: u64) -> bool;
    /// Bytes from `from` on in a page that has a frame, and in those behind it.
    fn bytes(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8];
    /// How many pages should be given back now. Asked again until it is 0; with `nothing_left` it is.
    fn wanted(&mut self, nothing_left: bool) -> u64;
    /// What those who have files mapped want next.
    fn asked(&mut self) -> Option<Request>;
    /// Who waited in msync goes on.
    fn synced(&mut self, ticket: u64);
    type Objects: Objects<Object = Portal>;
    fn objects(&self) -> Self::Objects;
}

/// Where a file's bytes are: first byte and length of each extent.
type Extents = [(u64, u64)];

pub struct Pages<M: Medium> {
    cache: Cache<M>,
    disk: File,
    length: u64,
    mapped: Mapped<M::Objects>,
    /// Extents of the files that are or were mapped.
    extents: BTreeMap<File, alloc::vec::Vec<(u64, u64)>>,
}

/// No memory, or the disk failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    NoRoom,
    Disk,
}

fn length_of(extents: &Extents) -> u64 {
    extents.iter().map(|(_, length)| length).sum()
}

impl<M: Medium> Pages<M> {
    pub fn new(medium: M, slots: u32) -> Pages<M> {
        let (mapped, length) = (Mapped::new(medium.objects()), medium.length());
        let mut cache = Cache::new(medium, slots);
        Pages {
            disk: cache.open(),
            length,
            cache,
            mapped,
            extents: BTreeMap::new(),
        }
    }

    pub fn open(&mut self) -> File {
        self.cache.open()
    }

    /// False: programs have it mapped.
    pub fn close(&mut self, file: File) -> bool {
        let unused = self.mapped.use_of(file).0 == 0;
        let closed = unused && self.mapped.close(file);
        if closed {
            self.extents.remove(&file);
            self.cache.close(file);
        }
        closed
    }

    pub fn is_mapped(&mut self, file: File) -> bool {
        self.mapped.use_of(file).0 != 0
    }

    pub fn anything_mapped(&mut self) -> bool {
        let mapped = &mut self.mapped;
        let mut files = self.extents.keys();
        files.any(|file| mapped.use_of(*file).0 != 0)
    }

    /// The object of a file.
    pub fn map(&mut self, file: File, extents: &Extents) -> Option<(Portal, u64)> {
        let pages = length_of(extents).div_ceil(PAGE64);
        let portal = self.mapped.map(file, pages, false)?;
        self.extents.insert(file, extents.into());
        Some((portal, pages.max(1)))
    }

    /// Pages in a row of a file that lie in a row in the arena, from `page` on: the first, and how many. What is not there is read, as far as `ahead`.
    pub fn run(
        &mut self,
        file: File,
        extents: &Extents,
        page: u64,
        most: u64,
        ahead: u64,
    ) -> Result<(Slot, u64), Failed> {
        // Where memory is short what was read ahead may have driven the page itself out.
        for to in [ahead.max(page + 1), page + 1] {
            if let Some(run) = self.cache.run(file, page, most) {
                return Ok(run);
            }
            self.read_in(file, extents, page, to)?;
        }
        self.cache.run(file, page, most).ok_or(Failed::NoRoom)
    }

    /// What is missing of pages `from..to` is read.
    pub fn read_in(
        &mut self,
        file: File,
        extents: &Extents,
        from: u64,
        to: u64,
    ) -> Result<(), Failed> {
        let to = to.min(length_of(extents).div_ceil(PAGE64));
        loop {
            match self.cache.load(file, from, to, MOST) {
                Ok(None) => return Ok(()),
                Ok(Some(io)) => {
                    let well = self.fill(&io, extents);
                    self.cache.loaded(io, well);
                    if !well {
                        return Err(Failed::Disk);
                    }
                }
                Err(Full) if self.make_room(ROOM) => {}
                Err(Full) => return Err(Failed::NoRoom),
            }
        }
    }

    /// The disk's bytes into pages, and zeros behind the end.
    fn fill(&mut self, io: &Io, extents: &Extents) -> bool {
        let (first, pages) = (io.first * PAGE64, io.slots.len() as u64);
        let end = first + pages * PAGE64;
        let length = length_of(extents);
        let mut start = 0;
        for &(at, bytes) in extents {
            let (from, to) = (start.max(first), (start + bytes).min(end));
            if from < to {
                let at = at + (from - start);
                // The disk is read in whole sectors; what comes with the last one is zeroed.
                let left = self.length.saturating_sub(at);
                let whole = (to - from).next_multiple_of(SECTOR).min(left);
                let offset = from - first;
                let slots = &io.slots[(offset / PAGE64) as usize..];
                let offset = offset % PAGE64;
                let slots = &slots[..(offset + whole).div_ceil(PAGE64) as usize];
                let medium = self.cache.memory();
                if whole < to - from || !medium.load(slots, offset as u32, at, whole) {
                    return false;
                }
            }
            start += bytes;
        }
        if end > length {
            let from = (length.max(first) - first) as usize;
            for (page, &slot) in io.slots.iter().enumerate().skip(from / PAGE) {
                let from = from.saturating_sub(page * PAGE);
                self.cache.memory().bytes(slot, from, PAGE - from).fill(0);
            }
        }
        true
    }

    /// Bytes of pages in a row.
    pub fn bytes(&mut self, slot: Slot, from: usize, length: usize) -> &[u8] {
        self.cache.memory().bytes(slot, from, length)
    }

    /// Pages go, also such as programs have mapped. False: nothing could go.
    fn make_room(&mut self, wanted: u32) -> bool {
        let mapped = &mut self.mapped;
        let hide = |cache: &mut Cache<M>, file, page, _| mapped.hide(cache, file, page, 0);
        self.cache.shrink(wanted, hide).released > 0
    }

    /// What `vm` wants back.
    pub fn give_back(&mut self) {
        loop {
            let wanted = self.cache.memory().wanted(false);
            if wanted == 0 {
                return;
            }
            let wanted = wanted.min(u64::from(u32::MAX)) as u32;
            if !self.make_room(wanted) {
                self.cache.memory().wanted(true);
                return;
            }
        }
    }

    /// What those who have files mapped want. False: some pages could not be shown for want of memory ([`Pages::again`], later).
    pub fn answer(&mut self) -> bool {
        let mut all = true;
        while let Some(request) = self.cache.memory().asked() {
            match request {
                Request::Pages { tag, first, pages } => {
                    let file = File::with_tag(tag);
                    let Some(extents) = self.extents.get(&file).cloned() else {
                        self.mapped.objects().refuse(tag, first, pages);
                        continue;
                    };
                    self.mapped.want(file, first, pages);
                    all &= self.page_in(file, &extents);
                }
                Request::Soon { tag, first, pages } => {
                    let file = File::with_tag(tag);
                    if let Some(extents) = self.extents.get(&file).cloned() {
                        // Who touches what cannot be had now asks again.
                        let to = first.saturating_add(pages.min(MOST));
                        let _ = self.read_in(file, &extents, first, to);
                    }
                }
                // Nobody can have written anything.
                Request::Sync { ticket, .. } => self.cache.memory().synced(ticket),
                Request::Unused { tag } => self.mapped.unused(File::with_tag(tag)),
            }
        }
        all
    }

    fn page_in(&mut self, file: File, extents: &Extents) -> bool {
        self.mapped.show(&mut self.cache, file);
        let mut from = 0;
        while let Some((first, count)) = self.mapped.missing(file, from) {
            from = first + count;
            let to = from.next_multiple_of(AROUND);
            if self
                .read_in(file, extents, first / AROUND * AROUND, to)
                .is_err()
            {
                self.mapped.refuse(file, first, count);
            }
            if !self.mapped.show(&mut self.cache, file) {
                return false;
            }
        }
        true
    }

    pub fn again(&mut self) {
        self.mapped.again(&mut self.cache);
    }
}

impl<M: Medium> Source for Pages<M> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let length = self.length;
        if at
            .checked_add(into.len() as u64)
            .is_none_or(|end| end > length)
        {
            return false;
        }
        let (disk, whole) = (self.disk, [(0, length)]);
        let mut done = 0;
        while done < into.len() {
            let at = at + done as u64;
            let (page, from) = (at / PAGE64, (at % PAGE64) as usize);
            let left = into.len() - done;
            let most = ((from + left) as u64).div_ceil(PAGE64);
            let ahead = (page + most).next_multiple_of(AROUND / 4);
            let Ok((slot, count)) = self.run(disk, &whole, page, most, ahead) else {
                return false;
            };
            let some = left.min(count as usize * PAGE - from);
            into[done..done + some].copy_from_slice(self.bytes(slot, from, some));
            done += some;
        }
        true
    }
}
