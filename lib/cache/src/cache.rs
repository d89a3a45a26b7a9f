//! The cache itself: pages of files, transfers to and from the device, what is given back.

use crate::behind::Policy;
use crate::index::{bit, Index, Leaf};
use crate::slots::{Slot, Slots, Use};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The memory manager as the cache needs it: the arena's pages have frames only where it says so.
pub trait Memory {
    /// Get frames for slots in a row; `false` if there are none (then none of them got one).
    fn populate(&mut self, first: Slot, count: u32) -> bool;
    /// Give the frames of slots in a row back. What was in them is lost.
    fn release(&mut self, first: Slot, count: u32);
    /// What is in this slot is a page of a file as nobody else has it yet: it is dirty, or on its way to the device.
    fn only_here(&mut self, slot: Slot, file: File, page: u64) {
        let _ = (slot, file, page);
    }
    /// That is over: it was written, or the page is gone. (The slot is used for nothing else before.)
    fn not_only_here(&mut self, slot: Slot) {
        let _ = slot;
    }
}

/// A file of the cache. Names nothing any more when the file was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    index: u32,
    generation: u32,
}

/// A transfer between the device and these pages of a file, in a row. It must come back by [`Cache::loaded`] or [`Cache::written`], whatever became of the file: until then its slots are used for nothing else.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Io {
    pub file: File,
    /// Page number of the first.
    pub first: u64,
    pub slots: Vec<Slot>,
}

/// No page is free, and none can be made free now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A page to write into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It has its content.
    There(Slot),
    /// It is new and has whatever was there before: overwrite all of it at once.
    Fresh(Slot),
    /// It is being filled: when that has ended.
    Loading,
}

/// What [`Cache::shrink`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Frames given back.
    pub released: u32,
    /// Pages that could go if they were written first.
    pub dirty: u32,
}

#[derive(Default)]
struct Pages {
    index: Index,
    /// How many are dirty, and since when, and whether the queue has the file.
    dirty: u64,
    since: u64,
    queued: bool,
    /// Pages that went while the device had them. Until it has written them nothing else may be written there: it could be overtaken.
    leaving: Vec<u64>,
    /// The last attempt to write some of it failed, which nobody was told yet; and it is not tried again at once.
    failed: bool,
    resting: bool,
}

impl Pages {
    /// The first pages in a row of a range that can be given to the device now.
    fn ready(&self, from: u64, to: u64, most: u64) -> Option<(u64, u64)> {
        let ready = |leaf: &Leaf| leaf.dirty & !leaf.writing;
        let mut at = from;
        loop {
            let first = self.index.first(at, to, ready)?;
            if self.leaving.contains(&first) {
                at = first + 1;
                continue;
            }
            let most = match self.leaving.iter().filter(|page| **page > first).min() {
                Some(page) => most.min(page - first),
                None => most,
            };
            let count = self.index.run(first, most.max(1).min(to - first), ready);
            return Some((first, count));
        }
    }
}

struct Entry {
    generation: u32,
    pages: Option<Pages>,
}

pub struct Cache<M> {
    memory: M,
    slots: Slots,
    files: Vec<Entry>,
    free: Vec<u32>,
    /// Files with dirty pages, in the order in which they got the first of them.
    queue: VecDeque<File>,
    dirty: u64,
}

/// Pages that are looked at for one that must be freed at once.
const GLANCE: usize = 256;
/// Pages that are freed together when one is needed.
const BATCH: u32 = 16;

impl File {
    /// As one number that no other file of this cache ever has.
    pub fn tag(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The file with this number, if it is one.
    pub fn with_tag(tag: u64) -> File {
        File {
            index: tag as u32,
            generation: (tag >> 32) as u32,
        }
    }
}

impl<M: Memory> Cache<M> {
    /// A cache in an arena of so many pages, none of which has a frame yet.
    pub fn new(memory: M, slots: u32) -> Cache<M> {
        Cache {
            memory,
            slots: Slots::new(slots),
            files: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            dirty: 0,
        }
    }

    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Pages with content or on their way, free ones that have frames, dirty ones.
    pub fn usage(&self) -> (u32, u32, u64) {
        (self.slots.used(), self.slots.warm(), self.dirty)
    }

    pub fn open(&mut self) -> File {
        let pages = Some(Pages::default());
        let index = match self.free.pop() {
            Some(index) => {
                self.files[index as usize].pages = pages;
                index
            }
            None => {
                self.files.push(Entry {
                    generation: 0,
                    pages,
                });
                self.files.len() as u32 - 1
            }
        };
        let generation = self.files[index as usize].generation;
        File { index, generation }
    }

    /// Forget a file and all its pages, written or not. Its places on the device are free for others when what it has of the file was written: see [`Cache::pending`].
    pub fn close(&mut self, file: File) {
        self.remove(file, 0, u64::MAX);
        if self.pages(file).is_some() {
            let entry = &mut self.files[file.index as usize];
            entry.pages = None;
            // A number that was used up is not used again.
            if let Some(next) = entry.generation.checked_add(1) {
                entry.generation = next;
                self.free.push(file.index);
            }
        }
    }

    #[inline]
    fn pages(&mut self, file: File) -> Option<&mut Pages> {
        let entry = self.files.get_mut(file.index as usize)?;
        if entry.generation != file.generation {
            return None;
        }
        entry.pages.as_mut()
    }

    #[inline]
    fn look(&self, file: File) -> Option<&Pages> {
        let entry = self.files.get(file.index as usize)?;
        if entry.generation != file.generation {
            return None;
        }
        entry.pages.as_ref()
    }

    /// The slot of a page that is there.
    #[inline]
    pub fn get(&mut self, file: File, page: u64) -> Option<Slot> {
        let slot = self.look(file)?.index.get(page)?;
        self.slots.touch(slot);
        Some(slot)
    }

    /// The slot of a page that is there, for showing it to who has not asked for it.
    pub fn slot(&self, file: File, page: u64) -> Option<Slot> {
        self.look(file)?.index.get(page)
    }

    /// The first page of a range that programs may have mapped.
    pub fn first_shown(&self, file: File, from: u64, to: u64) -> Option<u64> {
        self.look(file)?.index.first(from, to, |leaf| leaf.shown)
    }

    /// A page that is there, and how many behind it lie behind it in the arena as well, so that one copy does (at most `most` together).
    #[inline]
    pub fn run(&mut self, file: File, page: u64, most: u64) -> Option<(Slot, u64)> {
        let first = self.get(file, page)?;
        let mut count = 1;
        while count < most {
            let index = &self.look(file)?.index;
            let next = first.checked_add(count as u32);
            if next.is_none() || index.get(page + count) != next {
                break;
            }
            self.slots.touch(first + count as u32);
            count += 1;
        }
        Some((first, count))
    }

    /// Whether a page of a range is on its way in.
    pub fn is_loading(&self, file: File, from: u64, to: u64) -> bool {
        self.look(file)
            .is_some_and(|pages| pages.index.first(from, to, |leaf| leaf.loading).is_some())
    }

    /// Begin to fill the first missing pages in a row of a range, at most `most`. None: all are there or on their way. Without memory for all of them, fewer.
    pub fn load(&mut self, file: File, from: u64, to: u64, most: u64) -> Result<Option<Io>, Full> {
        let Some(pages) = self.look(file) else {
            return Ok(None);
        };
        let Some(first) = pages.index.first_missing(from, to) else {
            return Ok(None);
        };
        let behind = pages.index.first_held(first, to).unwrap_or(to);
        let count = (behind - first).min(most.max(1));
        let mut slots = Vec::new();
        for page in first..first + count {
            let Ok(slot) = self.take(file, page) else {
                break;
            };
            let Some(pages) = self.pages(file) else { break };
            pages.index.insert(page, slot).loading |= bit(page);
            slots.push(slot);
        }
        match slots.is_empty() {
            true => Err(Full),
            false => Ok(Some(Io { file, first, slots })),
        }
    }

    /// A load has ended; pages that could not be read are missing again.
    pub fn loaded(&mut self, io: Io, read: bool) {
        for (page, &slot) in (io.first..).zip(&io.slots) {
            if self.buried(slot) {
                continue;
            }
            let Some(pages) = self.pages(io.file) else {
                continue;
            };
            if read {
                if let Some(leaf) = pages.index.leaf_mut(page) {
                    leaf.loading &= !bit(page);
                    leaf.there |= bit(page);
                }
            } else {
                pages.index.remove(page);
                self.slots.free(slot, false);
            }
        }
    }

    /// The slot's page went while it was under way: now it is free.
    fn buried(&mut self, slot: Slot) -> bool {
        let orphan = self.slots.state(slot) == Some(Use::Orphan);
        if orphan {
            self.slots.bury(slot);
        }
        orphan
    }

    /// A page to write into: what is there, or a new one, which counts as there at once.
    pub fn put(&mut self, file: File, page: u64) -> Result<Put, Full> {
        if let Some(slot) = self.get(file, page) {
            return Ok(Put::There(slot));
        }
        let pages = self.look(file).ok_or(Full)?;
        if pages.index.slot(page).is_some() {
            return Ok(Put::Loading);
        }
        let slot = self.take(file, page)?;
        self.slots.touch(slot);
        let pages = self.pages(file).ok_or(Full)?;
        pages.index.insert(page, slot).there |= bit(page);
        Ok(Put::Fresh(slot))
    }

    /// Pages of files that have none yet, in slots that nothing was in and that have frames with their content.
    pub fn adopt(&mut self, pages: &[(File, u64, Slot)]) {
        self.slots.claim(
            pages
                .iter()
                .map(|(file, page, slot)| (*slot, file.index, *page)),
        );
        for &(file, page, slot) in pages {
            if let Some(pages) = self.pages(file) {
                pages.index.insert(page, slot).there |= bit(page);
            }
        }
    }

    /// A page that is there was changed. False: it is not there.
    pub fn mark_dirty(&mut self, file: File, page: u64, now: u64) -> bool {
        let Some(pages) = self.pages(file) else {
            return false;
        };
        let Some(leaf) = pages.index.leaf_mut(page) else {
            return false;
        };
        let bit = bit(page);
        if leaf.there & bit == 0 {
            return false;
        }
        if leaf.dirty & bit == 0 {
            leaf.dirty |= bit;
            if let Some(slot) = pages.index.slot(page) {
                self.memory.only_here(slot, file, page);
            }
            self.count_dirty(file, 1, now);
        }
        true
    }

    /// So many more pages of a file are dirty.
    fn count_dirty(&mut self, file: File, count: u64, now: u64) {
        let Some(pages) = self.pages(file) else {
            return;
        };
        if pages.dirty == 0 {
            pages.since = now;
        }
        pages.dirty += count;
        let enqueue = !core::mem::replace(&mut pages.queued, true);
        self.dirty += count;
        if enqueue {
            self.queue.push_back(file);
        }
    }

    /// Pages `from..to`, at most 64, are about to be changed in place: all are there, and in a row in the arena from the slot that is returned. They count as dirty.
    /// None: it is not so simple, and nothing was done.
    #[inline]
    pub fn overwrite(&mut self, file: File, from: u64, to: u64, now: u64) -> Option<Slot> {
        let leaf = self.pages(file)?.index.leaf_mut(from)?;
        let (first, wanted) = leaf.row(from, to)?;
        let new = u64::from((wanted & !leaf.dirty).count_ones());
        leaf.dirty |= wanted;
        self.slots.touch_row(first, to - from);
        if new != 0 {
            for (slot, page) in (first..).zip(from..to) {
                self.memory.only_here(slot, file, page);
            }
            self.count_dirty(file, new, now);
        }
        Some(first)
    }

    /// The first dirty pages in a row of a range, at most `most`, for the device. They count as clean unless they are changed again meanwhile or it fails.
    /// What the device has already is not given to it a second time at once, so that an older state never overtakes a newer one.
    pub fn collect(&mut self, file: File, from: u64, to: u64, most: u64) -> Option<Io> {
        let pages = self.pages(file)?;
        let (first, count) = pages.ready(from, to, most)?;
        let mut slots = Vec::with_capacity(count as usize);
        for page in first..first + count {
            slots.extend(pages.index.slot(page));
            if let Some(leaf) = pages.index.leaf_mut(page) {
                leaf.dirty &= !bit(page);
                leaf.writing |= bit(page);
            }
        }
        pages.dirty -= count;
        self.dirty -= count;
        Some(Io { file, first, slots })
    }

    /// A write has ended; what could not be written is dirty still.
    pub fn written(&mut self, io: Io, done: bool, now: u64) {
        for (page, &slot) in (io.first..).zip(&io.slots) {
            if self.buried(slot) {
                if let Some(pages) = self.pages(io.file) {
                    let place = pages.leaving.iter().position(|gone| *gone == page);
                    place.map(|place| pages.leaving.swap_remove(place));
                }
                continue;
            }
            let Some(pages) = self.pages(io.file) else {
                continue;
            };
            let mut dirty = false;
            if let Some(leaf) = pages.index.leaf_mut(page) {
                leaf.writing &= !bit(page);
                dirty = leaf.dirty & bit(page) != 0;
            }
            if done && !dirty {
                self.memory.not_only_here(slot);
            } else if !done {
                pages.since = now;
                self.mark_dirty(io.file, page, now);
            }
        }
        if let Some(pages) = self.pages(io.file) {
            pages.failed |= !done;
            pages.resting = !done;
        }
    }

    /// Whether pages of a range are dirty, and whether the device has some, also such as are gone here: `fsync` is done when neither is,
    /// and what was removed has left its place on the device when it is not there any more. (After [`Cache::close`] nobody knows: ask before.)
    pub fn pending(&self, file: File, from: u64, to: u64) -> (bool, bool) {
        let Some(pages) = self.look(file) else {
            return (false, false);
        };
        let any = |state| pages.index.first(from, to, state).is_some();
        let leaving = pages.leaving.iter().any(|page| (from..to).contains(page));
        (any(|leaf| leaf.dirty), leaving || any(|leaf| leaf.writing))
    }

    /// Whether something could not be written since the last time that this was asked.
    pub fn take_error(&mut self, file: File) -> bool {
        self.pages(file)
            .is_some_and(|pages| core::mem::take(&mut pages.failed))
    }

    /// A file of which something should be written now, without anybody having asked: [`Cache::collect`] from it, and come again.
    pub fn due(&mut self, now: u64, policy: &Policy) -> Option<File> {
        // Those that only wait for the device stay in the queue, but others go before them.
        for _ in 0..self.queue.len() {
            let file = *self.queue.front()?;
            let total = self.dirty;
            let Some(pages) = self.pages(file) else {
                self.queue.pop_front();
                continue;
            };
            if pages.dirty == 0 {
                pages.queued = false;
                self.queue.pop_front();
                continue;
            }
            let many = if pages.resting { 0 } else { total };
            if policy.due(now, pages.since, many) && pages.ready(0, u64::MAX, 1).is_some() {
                return Some(file);
            }
            self.queue.rotate_left(1);
        }
        None
    }

    /// Whether who writes should wait until some of it has been written.
    pub fn must_wait(&self, policy: &Policy) -> bool {
        self.dirty > policy.most
    }

    /// Pages of a range go, whatever their state: the file was cut, or a hole was made.
    pub fn remove(&mut self, file: File, from: u64, to: u64) {
        let mut at = from;
        while let Some(page) = self
            .look(file)
            .and_then(|pages| pages.index.first_held(at, to))
        {
            self.drop_page(file, page);
            at = page + 1;
        }
    }

    fn drop_page(&mut self, file: File, page: u64) {
        let Some(pages) = self.pages(file) else {
            return;
        };
        let Some(removed) = pages.index.remove(page) else {
            return;
        };
        if removed.writing {
            pages.leaving.push(page);
        }
        if removed.dirty {
            pages.dirty -= 1;
            self.dirty -= 1;
        }
        if removed.dirty || removed.writing {
            self.memory.not_only_here(removed.slot);
        }
        self.slots
            .free(removed.slot, removed.loading || removed.writing);
    }

    /// Programs may have a page mapped from now on, or no longer.
    pub fn set_shown(&mut self, file: File, page: u64, shown: bool) {
        let leaf = self
            .pages(file)
            .and_then(|pages| pages.index.leaf_mut(page));
        if let Some(leaf) = leaf {
            leaf.shown &= !bit(page);
            if shown {
                leaf.shown |= leaf.there & bit(page);
            }
        }
    }

    /// Give frames back, first those that nothing is in, then those of pages that were not asked for lately and can be read again. `hide` takes a page away from programs
    /// that have it mapped; false: it stays. (What they wrote to it makes it dirty: [`Cache::mark_dirty`], then false.)
    pub fn shrink(
        &mut self,
        wanted: u32,
        mut hide: impl FnMut(&mut Self, File, u64, Slot) -> bool,
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        if self.slots.warm() < wanted {
            let missing = wanted - self.slots.warm();
            // Twice round: the first time takes the marks away.
            let mut steps = 2 * self.slots.count();
            shrunk.dirty = self.evict(missing, &mut steps, &mut hide);
        }
        let memory = &mut self.memory;
        shrunk.released = self
            .slots
            .cool_down(wanted, |first, count| memory.release(first, count));
        shrunk
    }

    /// Free the slots of up to `wanted` clean pages. How many dirty ones were met.
    fn evict(
        &mut self,
        wanted: u32,
        steps: &mut usize,
        hide: &mut impl FnMut(&mut Self, File, u64, Slot) -> bool,
    ) -> u32 {
        let (mut freed, mut dirty) = (0, 0);
        while freed < wanted {
            let Some((slot, index, page)) = self.slots.next_victim(steps) else {
                break;
            };
            let file = File {
                index,
                generation: self.files[index as usize].generation,
            };
            let Some(leaf) = self.look(file).and_then(|pages| pages.index.leaf(page)) else {
                continue;
            };
            let bit = bit(page);
            if leaf.dirty & bit != 0 {
                dirty += 1;
            }
            if (leaf.dirty | leaf.loading | leaf.writing) & bit != 0 {
                continue;
            }
            if leaf.shown & bit != 0 {
                let hidden = hide(self, file, page, slot);
                // What was found out on that occasion: programs wrote to it.
                if !hidden || self.pending(file, page, page + 1).0 {
                    continue;
                }
            }
            self.drop_page(file, page);
            freed += 1;
        }
        dirty
    }

    /// A slot for a page. Without free memory the page that was longest not asked for goes; those that are mapped stay.
    fn take(&mut self, file: File, page: u64) -> Result<Slot, Full> {
        let memory = &mut self.memory;
        let mut populate = |first, count| memory.populate(first, count);
        if let Some(slot) = self.slots.take(file.index, page, &mut populate) {
            return Ok(slot);
        }
        for mut steps in [GLANCE, 2 * self.slots.count()] {
            self.evict(BATCH, &mut steps, &mut |_, _, _, _| false);
            if let Some(slot) = self.slots.take(file.index, page, |_, _| false) {
                return Ok(slot);
            }
        }
        Err(Full)
    }
}
