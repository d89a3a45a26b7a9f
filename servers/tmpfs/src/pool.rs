//! Pages for file data: a large arena of which only what is used takes frames, and the boot archive, whose pages are used where they lie.
//!
//! Pages have numbers ([`Page`], 0 = none); neighbours in number are neighbours in memory, so a run of them is one slice. A free page is *warm*
//! (has a frame, old content), *fresh* (never used; zero) or *cold* (its frame was given back; zero when populated again).
//! The pages' memory is never touched before it is populated: running out of memory is an error here, not a fault.
//!
//! What a file that goes or becomes shorter had beyond a few pages is given back piece by piece ([`Pool::end`]). It counts as free meanwhile.
//!
//! Each page that a file has knows the user who pays for it: whoever wrote it first. Some are left to user 0 ([`Pool::leave_to_root`]).

use crate::content::Content;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::Error;
use cairn_resmgr::Context;
use cairn_rt::Portal;

pub const PAGE: usize = 4096;
/// A page's number; 0 is no page.
pub type Page = u32;

/// Pages populated at a time.
const STEP: u32 = 64;
/// More warm pages than this are given back, half of them at a time.
const WARM_MAX: usize = 128;
/// Most pages that `vm` takes back at once.
const RETIRED: Page = 512;
/// So many pages are given back at a time: others wait no longer than that takes.
pub(crate) const PIECE: u64 = 32;

/// The memory manager as the pool needs it.
pub trait Memory {
    /// Make pages resident; `false` if there is no memory.
    fn populate(&mut self, pages: &mut [u8]) -> bool;
    /// Give the frames back; the pages read as zero when populated again.
    fn release(&mut self, pages: &mut [u8]);
    /// A memory object of pages at these addresses (as little-endian words; 0 = a hole), which `vm` has this tag for.
    fn object(
        &mut self,
        addresses: &[u8],
        shared_writable: bool,
        tag: u64,
    ) -> Result<Portal, Error>;
    /// A memory object made before has these pages from page `first` on, and `pages` in all; all mappings follow. False: it is as it was.
    fn change(&mut self, object: Portal, first: u64, addresses: &[u8], pages: u64) -> bool;
    /// It has so many holes from page `first` on, and `pages` in all. False: for some of its mappings, and it is to be asked again. (What is refused is refused
    /// by `change` as well.)
    fn hide(&mut self, object: Portal, first: u64, count: u64, pages: u64) -> bool;
    /// Whether a program has it mapped.
    fn is_mapped(&mut self, object: Portal) -> bool;
}

/// No memory, or the limit is reached.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// All pages of the file system.
pub struct Pool<M> {
    memory: M,
    archive: &'static mut [u8],
    arena: &'static mut [u8],
    /// First number of the arena; the archive's pages are 1.. .
    first: Page,
    /// Numbers from here on have never been used, those below `populated` have frames already.
    fresh: Page,
    populated: Page,
    end: Page,
    warm: Vec<Page>,
    cold: Vec<Page>,
    /// Free pages of the archive: always warm, as their frames cannot be given back.
    spare: Vec<Page>,
    used: usize,
    limit: usize,
    /// Of these, pages that only user 0 gets.
    reserve: usize,
    /// Who pays for a page, by its number. (Those with frames have a place.)
    payers: Vec<u32>,
    /// Pages that were freed and are to be given back to who paid for them ([`Pool::settle`]): user and count.
    owed: Vec<(u32, usize)>,
    /// What is given back piece by piece, and how many pages that is.
    ended: Vec<Ended>,
    ending: usize,
}

/// Pages that a file had.
struct Ended {
    content: Content,
    /// They may still be mapped somewhere.
    shared: bool,
}

impl<M: Memory> Pool<M> {
    /// `limit`: most pages that files may have together. Both slices are cut to whole pages.
    pub fn new(
        memory: M,
        archive: &'static mut [u8],
        arena: &'static mut [u8],
        limit: usize,
    ) -> Pool<M> {
        // One number between the two keeps their pages from looking like neighbours.
        let first = (archive.len() / PAGE) as Page + 2;
        let end = first + (arena.len() / PAGE) as Page;
        Pool {
            memory,
            archive,
            arena,
            first,
            fresh: first,
            populated: first,
            end,
            warm: Vec::new(),
            cold: Vec::new(),
            spare: Vec::new(),
            used: 0,
            limit,
            reserve: 0,
            payers: vec![0; first as usize],
            owed: Vec::new(),
            ended: Vec::new(),
            ending: 0,
        }
    }

    /// So many pages are for user 0 alone.
    pub fn leave_to_root(&mut self, pages: usize) {
        self.reserve = pages.min(self.limit);
    }

    /// How many pages more a user may take.
    pub fn room(&self, uid: u32) -> usize {
        let reserve = match uid {
            0 => 0,
            _ => self.reserve,
        };
        (self.limit + self.ending).saturating_sub(self.used + reserve)
    }

    /// Pages that files have, and the most that they may.
    pub fn usage(&self) -> (usize, usize) {
        (self.used - self.ending, self.limit)
    }

    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The page of the archive that begins at this offset.
    pub fn archive_page(&self, offset: usize) -> Page {
        (offset / PAGE) as Page + 1
    }

    pub fn archive(&self) -> &[u8] {
        self.archive
    }

    fn is_archive(&self, page: Page) -> bool {
        page < self.first
    }

    /// A page for a user, who pays for it, and whether it is zero (otherwise its content is old and must be overwritten by the caller).
    pub fn allocate(&mut self, payer: u32) -> Result<(Page, bool), Full> {
        if self.room(payer) <= self.ending {
            return Err(Full);
        }
        if self.warm.is_empty() && self.has_ended() {
            // What is there already is cheaper than what has to be asked for. (The caller sees to what is owed then.)
            self.end_piece();
        }
        let found = if let Some(page) = self.warm.pop().or_else(|| self.spare.pop()) {
            (page, false)
        } else {
            if self.fresh == self.populated {
                self.more()?;
            }
            if self.fresh < self.populated {
                self.fresh += 1;
                (self.fresh - 1, true)
            } else {
                (self.warm.pop().ok_or(Full)?, false)
            }
        };
        self.used += 1;
        if let Some(place) = self.payers.get_mut(found.0 as usize) {
            *place = payer;
        }
        Ok(found)
    }

    /// What was paid for a page is owed to who did.
    fn owe(&mut self, page: Page) {
        self.used -= 1;
        let payer = self.payers.get(page as usize).copied().unwrap_or(0);
        match self.owed.last_mut() {
            _ if payer == 0 => {}
            Some((uid, count)) if *uid == payer => *count += 1,
            _ => self.owed.push((payer, 1)),
        }
    }

    /// Give back what is owed.
    #[inline]
    pub fn settle(&mut self, cx: &mut Context) {
        while let Some((uid, count)) = self.owed.pop() {
            cx.refund(uid, count * PAGE);
        }
    }

    /// Get frames for more pages: the next fresh ones, or else cold ones (which become warm).
    fn more(&mut self) -> Result<(), Full> {
        let wish = STEP.min(self.end - self.populated);
        let known = (self.populated + wish) as usize;
        let missing = known.saturating_sub(self.payers.len());
        if self.payers.try_reserve(missing).is_err() {
            return Err(Full);
        }
        self.payers.resize(known.max(self.payers.len()), 0);
        for count in [wish, wish.min(1)] {
            if count == 0 {
                continue;
            }
            let start = (self.populated - self.first) as usize * PAGE;
            let pages = &mut self.arena[start..start + count as usize * PAGE];
            if self.memory.populate(pages) {
                self.populated += count;
                return Ok(());
            }
        }
        // Pages that became cold together lie in order, so that the last ones are mostly neighbours. (Nothing is done to those before them, which may be many.)
        let Some(mut low) = self.cold.pop() else {
            return Err(Full);
        };
        let high = low;
        while high - low < STEP - 1 && self.cold.last() == Some(&(low - 1)) {
            self.cold.pop();
            low -= 1;
        }
        let start = (low - self.first) as usize * PAGE;
        let pages = &mut self.arena[start..start + (high - low + 1) as usize * PAGE];
        if self.memory.populate(pages) {
            self.warm.extend((low..=high).rev());
            Ok(())
        } else {
            self.cold.extend(low..=high);
            Err(Full)
        }
    }

    /// A page is no longer used. Free the pages of a file from the last to the first: they come back in order.
    pub fn free(&mut self, page: Page) {
        self.owe(page);
        if self.is_archive(page) {
            self.spare.push(page);
            return;
        }
        self.warm.push(page);
        if self.warm.len() > WARM_MAX {
            self.cool_down();
        }
    }

    /// Pages from `first` up to and with `last` are no longer used here, but may still be mapped somewhere: their frames must not be used again.
    pub fn retire(&mut self, first: Page, last: Page) {
        for page in first..=last {
            self.owe(page);
        }
        // Frames of the archive cannot be exchanged; such pages are lost until the next boot.
        let first = first.max(self.first);
        if first > last {
            return;
        }
        let start = (first - self.first) as usize * PAGE;
        let end = (last + 1 - self.first) as usize * PAGE;
        self.memory.release(&mut self.arena[start..end]);
        self.cold.extend(first..=last);
    }

    /// Pages that a file had, as `take` names them, are no longer used. `shared`: they may still be mapped somewhere.
    pub fn take_back(&mut self, shared: bool, take: impl FnOnce(&mut dyn FnMut(Page))) {
        if !shared {
            return take(&mut |page| self.free(page));
        }
        // Neighbours go in one call to `vm`, and not so many that it takes long.
        let mut run: Option<(Page, Page)> = None;
        take(&mut |page| match &mut run {
            Some((first, last)) if page + 1 == *first && *last - page < RETIRED => *first = page,
            Some((first, last)) if page == *last + 1 && page - *first < RETIRED => *last = page,
            _ => {
                if let Some((first, last)) = run.replace((page, page)) {
                    self.retire(first, last);
                }
            }
        });
        if let Some((first, last)) = run {
            self.retire(first, last);
        }
    }

    /// The pages of a file from this index on are no longer used, and are given back later. False: there is no memory; nothing has changed.
    pub fn end(&mut self, content: &mut Content, from: u64, shared: bool) -> bool {
        if self.ended.try_reserve(1).is_err() {
            return false;
        }
        let Some(content) = content.split_off(from) else {
            return false;
        };
        self.ending += content.count() as usize;
        self.ended.push(Ended { content, shared });
        true
    }

    /// Give some of these back. False: there are none.
    #[cold]
    pub fn end_piece(&mut self) -> bool {
        let Some(mut ended) = self.ended.pop() else {
            return false;
        };
        let before = ended.content.count();
        self.take_back(ended.shared, |each| ended.content.take_last(PIECE, each));
        self.ending -= (before - ended.content.count()) as usize;
        if ended.content.count() > 0 {
            self.ended.push(ended);
        }
        true
    }

    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Give half of the warm pages back.
    fn cool_down(&mut self) {
        let mut given: Vec<Page> = self.warm.drain(..WARM_MAX / 2).collect();
        given.sort_unstable();
        let mut index = 0;
        while index < given.len() {
            let low = given[index];
            let mut high = low;
            while index + 1 < given.len() && given[index + 1] == high + 1 {
                index += 1;
                high += 1;
            }
            index += 1;
            let start = (low - self.first) as usize * PAGE;
            let end = (high + 1 - self.first) as usize * PAGE;
            self.memory.release(&mut self.arena[start..end]);
            self.cold.extend(low..=high);
        }
    }

    /// A page of the archive becomes a file's.
    pub fn adopt(&mut self, page: Page) {
        debug_assert!(self.is_archive(page));
        self.used += 1;
    }

    /// A page of the archive that holds nothing of use is free.
    pub fn donate(&mut self, page: Page) {
        debug_assert!(self.is_archive(page));
        self.spare.push(page);
    }

    /// `length` bytes from byte `from` of `page` on; they may go on in the pages behind it.
    pub fn bytes(&self, page: Page, from: usize, length: usize) -> &[u8] {
        let (memory, index): (&[u8], Page) = if page < self.first {
            (self.archive, page - 1)
        } else {
            (self.arena, page - self.first)
        };
        let start = index as usize * PAGE + from;
        &memory[start..start + length]
    }

    pub fn bytes_mut(&mut self, page: Page, from: usize, length: usize) -> &mut [u8] {
        let (memory, index): (&mut [u8], Page) = if page < self.first {
            (self.archive, page - 1)
        } else {
            (self.arena, page - self.first)
        };
        let start = index as usize * PAGE + from;
        &mut memory[start..start + length]
    }

    /// Address of a page in this domain.
    pub fn address(&self, page: Page) -> u64 {
        self.bytes(page, 0, PAGE).as_ptr() as u64
    }

    /// Every page of the arena is in one place: a file's (these are given), warm, cold, or never used; and as many are counted as files have.
    #[cfg(test)]
    pub(crate) fn audit(&self, in_files: &[Page]) {
        let ended = self.ended.iter().flat_map(|ended| ended.content.pages());
        let in_files: Vec<Page> = in_files.iter().copied().chain(ended).collect();
        assert_eq!(self.used, in_files.len(), "pages that files have");
        let mut all: Vec<Page> = [&in_files, &self.warm, &self.cold, &self.spare]
            .map(|pages| &pages[..])
            .concat();
        all.sort_unstable();
        all.dedup();
        let archive = all.iter().filter(|&&page| self.is_archive(page)).count();
        let (lists, fresh) = (self.warm.len() + self.cold.len(), self.fresh - self.first);
        assert_eq!(
            all.len(),
            in_files.len() + lists + self.spare.len(),
            "twice"
        );
        assert_eq!(all.len() - archive, fresh as usize, "lost");
    }

    /// How many pages that are given back later this user pays for.
    #[cfg(test)]
    pub(crate) fn ending_of(&self, uid: u32) -> usize {
        let pages = self.ended.iter().flat_map(|ended| ended.content.pages());
        pages.filter(|&page| self.payer(page) == uid).count()
    }

    /// Who pays for a page.
    #[cfg(test)]
    pub(crate) fn payer(&self, page: Page) -> u32 {
        self.payers[page as usize]
    }

    /// Pages without a file that have frames.
    pub fn warm_pages(&self) -> usize {
        self.warm.len() + self.spare.len()
    }
}
