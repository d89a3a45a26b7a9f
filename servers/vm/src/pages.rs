//! Which frame is behind which page: a sparse table of page slots, kept for every space and every object.
//!
//! Slots come in chunks of 64 pages with masks: which pages are resident, which of them must be copied before they are written, and which were written soon after
//! a fork. Chunks are sorted by page number;
//! one without resident pages is dropped.
//!
//! A fork does not copy chunks: both sides hold the same one until one of them changes it. So a chunk, however many hold it, has one reference to each of
//! its frames; whoever changes a chunk makes it its own first, with references of its own.

use crate::frames::Frames;
use crate::nucleus::Frame;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_rt::page_heap::footprint;
use core::cell::Cell;
use core::mem::size_of;

/// Pages of a chunk.
pub const CHUNK: u64 = 64;
/// Heap that a chunk takes, with its counts.
const CHUNK_BYTES: usize = footprint(size_of::<Chunk>() + 2 * size_of::<usize>());
/// Heap that an entry of the two lists takes while the lists move to a place twice as long.
const ENTRY_BYTES: usize = 2 * 2 * 8;

#[derive(Clone)]
pub struct Chunk {
    /// Page number of the first slot.
    pub first: u64,
    pub resident: u64,
    /// Subset of `resident`: copy before the first write. In a shared mapping of a watched object: note the first write. In such an object: it was written (see [`crate::written`]).
    pub cow: u64,
    /// Subset of `resident`: had to be copied when it was written; a fork copies it at once.
    pub hot: u64,
    /// Subset of `resident`: shows what its object has there; a fault would bring it again.
    pub file: u64,
    /// A copy of this space (or another user of this object) asked for it: the next one gets it at once.
    pub wanted: u64,
    /// The space that this was copied from had it, and this one was not given it.
    pub skipped: u64,
    pub frames: [Frame; CHUNK as usize],
}

/// What is known of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub frame: Frame,
    pub cow: bool,
}

#[derive(Default)]
pub struct Pages {
    /// `chunks[i].first`, for searching.
    keys: Vec<u64>,
    chunks: Vec<Rc<Chunk>>,
    resident: u64,
    /// Where the last one was found: faults are near each other. Looked at before it is believed.
    last: Cell<usize>,
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk {
            first: 0,
            resident: 0,
            cow: 0,
            hot: 0,
            file: 0,
            wanted: 0,
            skipped: 0,
            frames: [0; CHUNK as usize],
        }
    }
}

impl Kinds {
    fn of(self, chunk: &Chunk) -> u64 {
        match self {
            Kinds::One => 0,
            Kinds::Cow => chunk.cow,
        }
    }
}

impl Chunk {
    pub(crate) fn each(&self, mut mask: u64, mut each: impl FnMut(Frame)) {
        while mask != 0 {
            each(self.frames[mask.trailing_zeros() as usize]);
            mask &= mask - 1;
        }
    }
}

/// Chunks that nobody holds. Programs come and go, and each has a dozen.
#[derive(Default)]
pub struct Spare(Vec<Rc<Chunk>>);

impl Spare {
    const MOST: usize = 32;

    /// A chunk without resident pages. (What lies in slots that are not resident does not matter.)
    fn empty(&mut self, first: u64) -> Rc<Chunk> {
        let mut spare = self.0.pop().unwrap_or_default();
        if let Some(chunk) = Rc::get_mut(&mut spare) {
            chunk.first = first;
            chunk.resident = 0;
            chunk.cow = 0;
            chunk.hot = 0;
            chunk.file = 0;
            chunk.wanted = 0;
            chunk.skipped = 0;
        }
        spare
    }

    /// A chunk like this.
    pub(crate) fn like(&mut self, new: Chunk) -> Rc<Chunk> {
        let mut spare = self.0.pop().unwrap_or_default();
        if let Some(chunk) = Rc::get_mut(&mut spare) {
            *chunk = new;
        }
        spare
    }

    fn keep(&mut self, chunk: Rc<Chunk>) {
        if Rc::strong_count(&chunk) == 1 && self.0.len() < Spare::MOST {
            self.0.push(chunk);
        }
    }
}

/// The chunk for changing: a copy with references of its own if others hold it.
#[inline]
pub(crate) fn own<'a>(chunk: &'a mut Rc<Chunk>, frames: &mut Frames) -> &'a mut Chunk {
    if Rc::strong_count(chunk) > 1 {
        chunk.each(chunk.resident, |f| frames.retain(f));
    }
    Rc::make_mut(chunk)
}

/// Pages next to one, in one direction: in a row resident, or in a row not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub there: u32,
    pub free: u32,
}

/// A run of resident pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub page: u64,
    pub pages: u64,
    /// Its pages are in the mask that [`Kinds`] asked for.
    pub marked: bool,
}

/// What tells apart pages that may not be in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Nothing.
    One,
    /// [`Chunk::cow`].
    Cow,
}

/// Bits of the chunk that starts at `first` within `start..end`.
pub fn mask(first: u64, start: u64, end: u64) -> u64 {
    let low = start.saturating_sub(first).min(CHUNK);
    let high = end.saturating_sub(first).min(CHUNK);
    if high <= low {
        return 0;
    }
    (u64::MAX >> (CHUNK - (high - low))) << low
}

impl Pages {
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Most heap that so many more chunks take.
    #[inline]
    pub fn growth(&self, more: usize) -> usize {
        let len = self.chunks.len() + more;
        let lists = if len > self.chunks.capacity() {
            len * ENTRY_BYTES
        } else {
            0
        };
        more * CHUNK_BYTES + lists
    }

    /// Most heap that a copy takes ([`Pages::fork`]): lists, and the chunks that cannot be shared. Few others are copied, where ranges begin and end.
    pub fn copy_growth(&self) -> usize {
        let other = |chunk: &&Rc<Chunk>| chunk.hot | chunk.file | chunk.wanted != 0;
        let copied = self.chunks.iter().filter(other).count();
        self.chunks.len() * ENTRY_BYTES + copied * CHUNK_BYTES
    }

    /// No slots yet, but room for so many chunks.
    pub(crate) fn with_capacity(chunks: usize) -> Pages {
        Pages {
            keys: Vec::with_capacity(chunks),
            chunks: Vec::with_capacity(chunks),
            resident: 0,
            last: Cell::default(),
        }
    }

    pub(crate) fn chunks_mut(&mut self) -> &mut [Rc<Chunk>] {
        &mut self.chunks
    }

    /// The frames of chunks that nobody else holds.
    pub(crate) fn alone(&self) -> impl Iterator<Item = Frame> + '_ {
        let alone = |chunk: &&Rc<Chunk>| Rc::strong_count(chunk) == 1;
        self.chunks.iter().filter(alone).flat_map(|chunk| {
            let mut left = chunk.resident;
            core::iter::from_fn(move || {
                let bit = left.checked_ilog2()?;
                left ^= 1 << bit;
                Some(chunk.frames[bit as usize])
            })
        })
    }

    /// Add a chunk below all others; [`Pages::in_order`] ends a row of these.
    pub(crate) fn push_below(&mut self, chunk: Rc<Chunk>) {
        self.resident += u64::from(chunk.resident.count_ones());
        self.keys.push(chunk.first);
        self.chunks.push(chunk);
    }

    pub(crate) fn in_order(&mut self) {
        self.keys.reverse();
        self.chunks.reverse();
    }

    /// Resident pages.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    #[inline]
    fn find(&self, page: u64) -> Result<usize, usize> {
        let (first, last) = (page & !(CHUNK - 1), self.last.get());
        match self.keys.get(last) {
            Some(key) if *key == first => Ok(last),
            _ => self.search(first),
        }
    }

    fn search(&self, first: u64) -> Result<usize, usize> {
        let found = self.keys.binary_search(&first);
        self.last.set(found.unwrap_or_else(|at| at));
        found
    }

    /// The chunk of a page.
    pub(crate) fn chunk(&self, page: u64) -> Option<&Chunk> {
        Some(&self.chunks[self.find(page).ok()?])
    }

    /// The frames of the pages from this one on that are there and not to be copied first, as far as its chunk goes.
    pub(crate) fn own_from(&self, page: u64) -> &[Frame] {
        let Some(chunk) = self.chunk(page) else {
            return &[];
        };
        let slot = (page % CHUNK) as usize;
        let own = (chunk.resident & !chunk.cow) >> slot;
        &chunk.frames[slot..][..own.trailing_ones() as usize]
    }

    #[inline]
    pub fn get(&self, page: u64) -> Option<Page> {
        let chunk = &self.chunks[self.find(page).ok()?];
        let bit = 1u64 << (page % CHUNK);
        (chunk.resident & bit != 0).then(|| Page {
            frame: chunk.frames[(page % CHUNK) as usize],
            cow: chunk.cow & bit != 0,
        })
    }

    /// Index of the chunk of a page, made if it is missing.
    #[inline]
    fn place(&mut self, frames: &mut Frames, page: u64) -> usize {
        match self.find(page) {
            Ok(at) => at,
            Err(at) => {
                let first = page & !(CHUNK - 1);
                self.keys.insert(at, first);
                self.chunks.insert(at, frames.chunks.empty(first));
                at
            }
        }
    }

    /// The chunk of a page, made if it is missing, for changing.
    pub(crate) fn own_chunk(&mut self, frames: &mut Frames, page: u64) -> &mut Chunk {
        let at = self.place(frames, page);
        own(&mut self.chunks[at], frames)
    }

    /// So many slots of an own chunk were filled.
    pub(crate) fn arrived(&mut self, pages: u32) {
        self.resident += u64::from(pages);
    }

    /// Set a slot, with a reference that the caller has taken; the frame that was there is returned, with its reference.
    #[inline]
    pub fn set(
        &mut self,
        frames: &mut Frames,
        page: u64,
        frame: Frame,
        cow: bool,
    ) -> Option<Frame> {
        let at = self.place(frames, page);
        let chunk = own(&mut self.chunks[at], frames);
        let bit = 1u64 << (page % CHUNK);
        let slot = &mut chunk.frames[(page % CHUNK) as usize];
        let old = (chunk.resident & bit != 0).then_some(*slot);
        *slot = frame;
        chunk.resident |= bit;
        chunk.cow = if cow {
            chunk.cow | bit
        } else {
            chunk.cow & !bit
        };
        chunk.file &= !bit;
        self.resident += old.is_none() as u64;
        old
    }

    /// [`Pages::set`] for a page of an object as it is there.
    pub fn set_file(&mut self, frames: &mut Frames, page: u64, frame: Frame, cow: bool) {
        if let Some(old) = self.set(frames, page, frame, cow) {
            frames.release(old);
        }
        if let Ok(at) = self.find(page) {
            own(&mut self.chunks[at], frames).file |= 1 << (page % CHUNK);
        }
    }

    /// A row of pages within one chunk: where `list` has a frame (not 0) the slot, in which nothing is, is set, with a reference that the caller has taken.
    pub fn put_row(&mut self, frames: &mut Frames, first: u64, list: &[Frame], cow: bool) {
        debug_assert!(list.is_empty() || first / CHUNK == (first + list.len() as u64 - 1) / CHUNK);
        let at = self.place(frames, first);
        let chunk = own(&mut self.chunks[at], frames);
        let base = (first % CHUNK) as usize;
        let mut new = 0;
        for (i, (slot, &frame)) in (base..).zip(chunk.frames[base..].iter_mut().zip(list)) {
            if frame != 0 {
                *slot = frame;
                new |= 1 << i;
            }
        }
        debug_assert_eq!(chunk.resident & new, 0);
        chunk.resident |= new;
        chunk.file &= !new;
        chunk.cow &= !new;
        if cow {
            chunk.cow |= new;
        }
        self.resident += u64::from(new.count_ones());
    }

    /// The frames behind a row of pages, 0 where nothing is resident; or only those of pages in the mask that `which` picks from a chunk.
    pub fn frames_of(&self, start: u64, into: &mut [Frame], which: impl Fn(&Chunk) -> u64) {
        let end = start + into.len() as u64;
        into.fill(0);
        for chunk in self.overlapping(start, end) {
            let mut left = chunk.resident & which(chunk) & mask(chunk.first, start, end);
            while left != 0 {
                let bit = left.trailing_zeros();
                // Whole runs at a time: most objects have all their pages.
                let len = (!(left >> bit)).trailing_zeros().min(CHUNK as u32 - bit);
                left &= !((u64::MAX >> (CHUNK as u32 - len)) << bit);
                let to = (chunk.first + u64::from(bit) - start) as usize;
                let (bit, len) = (bit as usize, len as usize);
                into[to..to + len].copy_from_slice(&chunk.frames[bit..bit + len]);
            }
        }
    }

    /// The masks of the chunk of `page`: resident pages.
    pub fn resident_around(&self, page: u64) -> u64 {
        self.find(page).map_or(0, |at| self.chunks[at].resident)
    }

    /// Somebody asked for what this object has in `start..end`: who maps it next gets it at once.
    pub fn want(&mut self, frames: &mut Frames, start: u64, end: u64) {
        let from = self.find(start).unwrap_or_else(|at| at);
        for chunk in &mut self.chunks[from..] {
            if chunk.first >= end {
                break;
            }
            let new = chunk.resident & mask(chunk.first, start, end);
            if new & !chunk.wanted != 0 {
                own(chunk, frames).wanted |= new;
            }
        }
    }

    /// A copy of this space asked for what is in `start..end`.
    pub fn mark_wanted(&mut self, frames: &mut Frames, start: u64, end: u64) {
        if let Ok(at) = self.find(start) {
            let chunk = &mut self.chunks[at];
            let new = chunk.file & mask(chunk.first, start, end) & !chunk.wanted;
            if new != 0 {
                own(chunk, frames).wanted |= new;
            }
        }
    }

    /// Forget what copies asked for.
    pub fn forget_wanted(&mut self, frames: &mut Frames) {
        for chunk in self.chunks.iter_mut().filter(|c| c.wanted != 0) {
            own(chunk, frames).wanted = 0;
        }
    }

    /// What lies right below and right above a page that is not resident, within its chunk.
    pub fn neighbours(&self, page: u64) -> (Side, Side) {
        let at = (page % CHUNK) as u32;
        let resident = match self.find(page) {
            Ok(i) => self.chunks[i].resident,
            Err(_) => 0,
        };
        // The page below at the top bit, the page above at the lowest.
        let below = resident.checked_shl(64 - at).unwrap_or(0);
        let above = resident.checked_shr(at + 1).unwrap_or(0);
        (
            Side {
                there: below.leading_ones().min(at),
                free: below.leading_zeros().min(at),
            },
            Side {
                there: above.trailing_ones().min(63 - at),
                free: above.trailing_zeros().min(63 - at),
            },
        )
    }

    /// Whether a page is known to be written.
    pub fn is_hot(&self, page: u64) -> bool {
        self.find(page)
            .is_ok_and(|i| self.chunks[i].hot >> (page % CHUNK) & 1 != 0)
    }

    /// Whether a page shows what its object has there.
    pub fn is_file(&self, page: u64) -> bool {
        self.find(page)
            .is_ok_and(|i| self.chunks[i].file >> (page % CHUNK) & 1 != 0)
    }

    /// The next pages in a row of `from..to`, within a chunk, that show what their object has.
    pub fn next_file(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        self.overlapping(from, to).find_map(|chunk| {
            let left = chunk.resident & chunk.file & mask(chunk.first, from, to);
            if left == 0 {
                return None;
            }
            let bit = left.trailing_zeros();
            let len = (!(left >> bit)).trailing_zeros().min(CHUNK as u32 - bit);
            let first = chunk.first + u64::from(bit);
            Some((first, first + u64::from(len)))
        })
    }

    /// Have the chunk of a page for oneself, so that its frames' references count nobody else's slots.
    #[inline]
    pub fn own_page(&mut self, frames: &mut Frames, page: u64) {
        if let Ok(at) = self.find(page) {
            own(&mut self.chunks[at], frames);
        }
    }

    /// Resident pages whose frames others have as well.
    pub fn shared(&self, frames: &Frames) -> u64 {
        let mut shared = 0;
        for chunk in &self.chunks {
            if Rc::strong_count(chunk) > 1 {
                shared += u64::from(chunk.resident.count_ones());
            } else {
                chunk.each(chunk.resident, |f| {
                    shared += u64::from(frames.references(f) > 1);
                });
            }
        }
        shared
    }

    /// All chunks, each with something that is equal for chunks that are one.
    #[cfg(test)]
    pub fn identities(&self) -> impl Iterator<Item = (usize, &Chunk)> {
        self.chunks.iter().map(|c| (Rc::as_ptr(c) as usize, &**c))
    }

    /// Whether no page of `start..end` is resident.
    #[inline]
    pub fn is_empty_in(&self, start: u64, end: u64) -> bool {
        let from = self.find(start).unwrap_or_else(|at| at);
        self.chunks[from..]
            .iter()
            .take_while(|c| c.first < end)
            .all(|c| c.resident & mask(c.first, start, end) == 0)
    }

    /// The chunks that overlap `start..end`.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Chunk> {
        let from = self.find(start).unwrap_or_else(|at| at);
        self.chunks[from..]
            .iter()
            .map(|c| &**c)
            .take_while(move |c| c.first < end)
    }

    /// The same, each with how many hold it.
    pub(crate) fn held(&self, start: u64, end: u64) -> impl Iterator<Item = (&Chunk, u64)> {
        let from = self.find(start).unwrap_or_else(|at| at);
        self.chunks[from..]
            .iter()
            .map(|c| (&**c, Rc::strong_count(c) as u64))
            .take_while(move |(c, _)| c.first < end)
    }

    /// The chunks that overlap `start..end`, each made one's own.
    pub fn own_chunks<'a>(
        &'a mut self,
        frames: &mut Frames,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = &'a mut Chunk> {
        let from = self.find(start).unwrap_or_else(|at| at);
        let to = from
            + self.keys[from..]
                .iter()
                .take_while(|first| **first < end)
                .count();
        for chunk in &mut self.chunks[from..to] {
            own(chunk, frames);
        }
        // They are one's own now: none is copied.
        self.chunks[from..to].iter_mut().map(Rc::make_mut)
    }

    /// The chunks from `first` on up to `end` lie `by` pages (whole chunks) further up from now on, wrapping around, where none is.
    pub fn shift(&mut self, frames: &mut Frames, first: u64, end: u64, by: u64) {
        let (from, to) = self.between(first, end);
        let target = self.place_of(first.wrapping_add(by));
        for (key, chunk) in self.keys[from..to]
            .iter_mut()
            .zip(&mut self.chunks[from..to])
        {
            let chunk = own(chunk, frames);
            *key = key.wrapping_add(by);
            (chunk.first, chunk.wanted, chunk.skipped) = (*key, 0, 0);
        }
        // Those between the old place and the new one make room.
        let count = to - from;
        if target > from {
            self.keys[from..target].rotate_left(count);
            self.chunks[from..target].rotate_left(count);
        } else {
            self.keys[target..to].rotate_right(count);
            self.chunks[target..to].rotate_right(count);
        }
    }

    /// The chunks that begin in `start..end`: the first, and the one behind the last.
    pub(crate) fn between(&self, start: u64, end: u64) -> (usize, usize) {
        if (start, end) == (0, u64::MAX) {
            return (0, self.keys.len());
        }
        (self.place_of(start), self.place_of(end))
    }

    /// The first chunk that begins at this page or above.
    fn place_of(&self, page: u64) -> usize {
        self.keys.partition_point(|first| *first < page)
    }

    /// Count anew what is resident.
    fn count_all(&mut self) {
        let resident = self.chunks.iter().map(|chunk| chunk.resident.count_ones());
        self.resident = resident.map(u64::from).sum();
    }

    /// Where the last chunks below `end` begin that hold so many pages, or are so many; 0 if those are all.
    pub(crate) fn last_chunks(&self, end: u64, (pages, chunks): (u64, usize)) -> u64 {
        let (_, to) = self.between(0, end);
        let least = match to.checked_sub(chunks) {
            Some(at) if at > 0 => self.keys[at],
            _ => 0,
        };
        least.max(self.last_of(0, end, pages) & !(CHUNK - 1))
    }

    /// The chunks from this page on, where one begins, are another's.
    pub fn split_off(&mut self, first: u64) -> Pages {
        let (at, end) = self.between(first, u64::MAX);
        if at == end {
            return Pages::default();
        }
        let mut other = Pages {
            keys: self.keys.split_off(at),
            chunks: self.chunks.split_off(at),
            ..Pages::default()
        };
        other.count_all();
        self.resident -= other.resident;
        other
    }

    /// Chunks below all others are added.
    pub(crate) fn add_below(&mut self, mut below: Pages) {
        self.resident += below.resident;
        self.keys.splice(0..0, below.keys.drain(..));
        self.chunks.splice(0..0, below.chunks.drain(..));
    }

    /// Where the last `most` resident pages of `start..end` begin; `start` if there are fewer.
    pub fn last_of(&self, start: u64, end: u64, most: u64) -> u64 {
        let from = self.keys.partition_point(|first| first + CHUNK <= start);
        let to = self.place_of(end);
        let mut left = most;
        for chunk in self.chunks[from..to].iter().rev() {
            let here = chunk.resident & mask(chunk.first, start, end);
            let count = u64::from(here.count_ones());
            if count >= left {
                let mut rest = here;
                // The lowest of the wanted ones: without those below it.
                for _ in left..count {
                    rest &= rest - 1;
                }
                return chunk.first + u64::from(rest.trailing_zeros());
            }
            left -= count;
        }
        start
    }

    /// Where the first `most` resident pages of `start..end` end; `end` if there are fewer.
    pub fn first_of(&self, start: u64, end: u64, most: u64) -> u64 {
        let mut left = most;
        for chunk in self.overlapping(start, end) {
            let mut here = chunk.resident & mask(chunk.first, start, end);
            let count = u64::from(here.count_ones());
            if count >= left {
                for _ in 1..left {
                    here &= here - 1;
                }
                return chunk.first + u64::from(here.trailing_zeros()) + 1;
            }
            left -= count;
        }
        end
    }

    /// Whether more than `most` pages of `start..end` are resident.
    pub fn has_more(&self, start: u64, end: u64, most: u64) -> bool {
        if self.resident <= most {
            return false;
        }
        let mut count = 0;
        self.overlapping(start, end).any(|chunk| {
            count += u64::from((chunk.resident & mask(chunk.first, start, end)).count_ones());
            count > most
        })
    }

    /// Forget the chunks that others hold as well, which costs next to nothing; → resident pages that are left.
    pub fn keep_alone(&mut self) -> u64 {
        self.chunks.retain(|chunk| Rc::strong_count(chunk) == 1);
        self.keys.clear();
        self.keys
            .extend(self.chunks.iter().map(|chunk| chunk.first));
        self.count_all();
        self.resident
    }

    /// How many pages of `start..end` are resident.
    pub fn count(&self, start: u64, end: u64) -> u64 {
        self.overlapping(start, end)
            .map(|c| u64::from((c.resident & mask(c.first, start, end)).count_ones()))
            .sum()
    }

    /// A resident page was written after all: the next fork copies it at once.
    pub fn mark_hot(&mut self, frames: &mut Frames, page: u64) {
        if let Ok(at) = self.find(page) {
            let bit = self.chunks[at].resident & 1 << (page % CHUNK);
            if bit & !self.chunks[at].hot != 0 {
                own(&mut self.chunks[at], frames).hot |= bit;
            }
        }
    }

    /// Mark a resident page as one's own again.
    pub fn clear_cow(&mut self, frames: &mut Frames, page: u64) {
        if let Ok(at) = self.find(page) {
            let chunk = own(&mut self.chunks[at], frames);
            chunk.cow &= !(1 << (page % CHUNK));
            chunk.file &= !(1 << (page % CHUNK));
        }
    }

    /// Set or take away the [`Chunk::cow`] bits of the resident pages of a range, and nothing else.
    pub fn set_marked(&mut self, frames: &mut Frames, start: u64, end: u64, marked: bool) {
        let from = self.find(start).unwrap_or_else(|at| at);
        for chunk in &mut self.chunks[from..] {
            if chunk.first >= end {
                break;
            }
            let pages = chunk.resident & mask(chunk.first, start, end);
            let new = match marked {
                true => chunk.cow | pages,
                false => chunk.cow & !pages,
            };
            if new != chunk.cow {
                own(chunk, frames).cow = new;
            }
        }
    }

    /// How many pages of `start..end` have their [`Chunk::cow`] bits set.
    pub fn marked(&self, start: u64, end: u64) -> u64 {
        self.overlapping(start, end)
            .map(|c| u64::from((c.cow & mask(c.first, start, end)).count_ones()))
            .sum()
    }

    /// The first page of `start..end` that is not resident.
    pub fn first_missing(&self, start: u64, end: u64) -> Option<u64> {
        let mut at = start;
        for chunk in self.overlapping(start, end) {
            if chunk.first > at {
                break;
            }
            let free = !chunk.resident & mask(chunk.first, at, end);
            if free != 0 {
                return Some(chunk.first + u64::from(free.trailing_zeros()));
            }
            at = chunk.first + CHUNK;
        }
        (at < end).then_some(at)
    }

    /// Forget which pages are hot.
    pub fn cool_down(&mut self, frames: &mut Frames) {
        for chunk in self.chunks.iter_mut().filter(|c| c.hot != 0) {
            own(chunk, frames).hot = 0;
        }
    }

    /// Forget all slots in `start..end`; their references are dropped.
    pub fn drain(&mut self, frames: &mut Frames, start: u64, end: u64) {
        let from = self.find(start).unwrap_or_else(|at| at);
        // Only the first and the last chunk can keep something.
        let (mut keep_first, mut keep_last) = (0, 0);
        let mut to = from;
        let all = (start, end) == (0, u64::MAX);
        if all {
            self.resident = 0;
        }
        while to < self.chunks.len() && self.chunks[to].first < end {
            let chunk = &mut self.chunks[to];
            let mask = chunk.resident & mask(chunk.first, start, end);
            if !all {
                self.resident -= u64::from(mask.count_ones());
            }
            if mask == chunk.resident {
                keep_last = 0;
                // Who holds it as well goes on using its references.
                if Rc::get_mut(chunk).is_some() {
                    chunk.each(mask, |f| frames.let_go(f));
                }
            } else {
                if to == from {
                    keep_first = 1;
                } else {
                    keep_last = 1;
                }
                if mask != 0 {
                    let chunk = own(chunk, frames);
                    chunk.each(mask, |f| {
                        frames.release(f);
                    });
                    chunk.resident &= !mask;
                    chunk.cow &= !mask;
                    chunk.hot &= !mask;
                    chunk.file &= !mask;
                }
            }
            to += 1;
        }
        if from + keep_first < to - keep_last {
            for chunk in self.chunks.drain(from + keep_first..to - keep_last) {
                frames.chunks.keep(chunk);
            }
            self.keys.drain(from + keep_first..to - keep_last);
        }
    }

    /// Runs of resident pages in `start..end`, in order. Pages that are not resident lie within a run if there are at most `gap` of them in a row, in one chunk;
    /// a run has one kind of page only. No run is longer than `most`.
    pub fn runs(
        &self,
        start: u64,
        end: u64,
        gap: u64,
        most: u64,
        kinds: Kinds,
        mut each: impl FnMut(Run),
    ) {
        // A few pages of one kind in one chunk, the most frequent case.
        if start < end && end - start <= gap.min(most) && start / CHUNK == (end - 1) / CHUNK {
            let Ok(at) = self.find(start) else { return };
            let chunk = &self.chunks[at];
            let here = chunk.resident & mask(chunk.first, start, end);
            let marked = here & kinds.of(chunk);
            if here == 0 {
                return;
            }
            if (marked == 0 || marked == here) && chunk.skipped == 0 {
                let first = u64::from(here.trailing_zeros());
                return each(Run {
                    page: chunk.first + first,
                    pages: CHUNK - u64::from(here.leading_zeros()) - first,
                    marked: marked != 0,
                });
            }
        }
        let mut run: Option<Run> = None;
        for chunk in self.overlapping(start, end) {
            let mut left = chunk.resident & mask(chunk.first, start, end);
            let marks = kinds.of(chunk);
            while left != 0 {
                let bit = left.trailing_zeros();
                let marked = marks >> bit & 1 != 0;
                let of_kind = left & if marked { marks } else { !marks };
                let len = (!(of_kind >> bit)).trailing_zeros().min(64 - bit);
                left &= !((u64::MAX >> (64 - len)) << bit);
                let page = chunk.first + u64::from(bit);
                let mut from = page;
                let stop = page + u64::from(len);
                if let Some(r) = &mut run {
                    let reach = r.page + r.pages;
                    // Over a gap only within a chunk, and not over what is mapped where this was copied from.
                    let bridged = page == reach
                        || page - reach <= gap
                            && reach >= chunk.first
                            && chunk.skipped & mask(chunk.first, reach, page) == 0;
                    if r.marked == marked && bridged && page - r.page < most {
                        let new_end = stop.min(r.page + most);
                        r.pages = new_end - r.page;
                        from = new_end;
                    }
                }
                while from < stop {
                    if let Some(r) = run.take() {
                        each(r);
                    }
                    let pages = (stop - from).min(most);
                    run = Some(Run {
                        page: from,
                        pages,
                        marked,
                    });
                    from += pages;
                }
            }
        }
        if let Some(r) = run {
            each(r);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        Frames::new(&[(1, 2000)], &[])
    }

    fn runs(p: &Pages, start: u64, end: u64, gap: u64, most: u64, kinds: Kinds) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        p.runs(start, end, gap, most, kinds, |r| {
            out.push((r.page, r.pages))
        });
        out
    }

    #[test]
    fn slots_are_set_and_drained() {
        let mut f = frames();
        let mut p = Pages::default();
        let mut frame_of = std::collections::HashMap::new();
        for page in [5, 64, 1000, 63, 4096] {
            let frame = f.alloc(0).unwrap();
            frame_of.insert(page, frame);
            assert_eq!(p.set(&mut f, page, frame, page == 64), None);
        }
        assert_eq!(p.resident(), 5);
        let expected = Page {
            frame: frame_of[&64],
            cow: true,
        };
        assert_eq!(p.get(64), Some(expected));
        assert_eq!(p.get(65), None);
        let other = f.alloc(0).unwrap();
        assert_eq!(p.set(&mut f, 64, other, false), Some(frame_of[&64]));
        f.release(frame_of[&64]);
        assert_eq!(p.count(6, 1000), 2);
        p.drain(&mut f, 63, 1001);
        assert_eq!(f.free(), 1998);
        assert_eq!(p.resident(), 2);
        assert_eq!(p.chunks(), 2);
        p.drain(&mut f, 6, 4000);
        assert_eq!(p.chunks(), 2);
        p.drain(&mut f, 5, 6);
        assert_eq!(p.chunks(), 1);
        p.drain(&mut f, 0, u64::MAX);
        assert_eq!((p.chunks(), p.resident(), f.free()), (0, 0, 2000));
    }

    #[test]
    fn neighbours_are_counted_within_the_chunk() {
        let mut f = frames();
        let mut p = Pages::default();
        let side = |there, free| Side { there, free };
        assert_eq!(p.neighbours(64), (side(0, 0), side(0, 63)));
        assert_eq!(p.neighbours(127), (side(0, 63), side(0, 0)));
        for page in [63, 64, 65, 70, 71] {
            let frame = f.alloc(0).unwrap();
            p.set(&mut f, page, frame, false);
        }
        assert_eq!(p.neighbours(66), (side(2, 0), side(0, 3)));
        assert_eq!(p.neighbours(69), (side(0, 3), side(2, 0)));
        assert_eq!(p.neighbours(62), (side(0, 62), side(1, 0)));
    }

    #[test]
    fn masks_cover_exactly_the_range() {
        assert_eq!(mask(64, 0, 64), 0);
        assert_eq!(mask(64, 0, 65), 1);
        assert_eq!(mask(64, 64, 128), u64::MAX);
        assert_eq!(mask(64, 127, 500), 1 << 63);
        assert_eq!(mask(64, 130, 500), 0);
    }

    #[test]
    fn runs_merge_over_small_gaps_only() {
        let mut f = frames();
        let mut p = Pages::default();
        for page in (0..70).chain(72..80).chain(200..210) {
            p.set(&mut f, page, 1, (75..78).contains(&page));
        }
        assert_eq!(
            runs(&p, 0, 1000, 0, 512, Kinds::One),
            [(0, 70), (72, 8), (200, 10)]
        );
        assert_eq!(runs(&p, 0, 1000, 2, 512, Kinds::One), [(0, 80), (200, 10)]);
        assert_eq!(
            runs(&p, 0, 1000, 2, 512, Kinds::Cow),
            [(0, 75), (75, 3), (78, 2), (200, 10)]
        );
        assert_eq!(
            runs(&p, 10, 75, 2, 20, Kinds::One),
            [(10, 20), (30, 20), (50, 20), (72, 3)]
        );
        assert_eq!(
            runs(&p, 0, 1000, 1000, 512, Kinds::One),
            [(0, 80), (200, 10)]
        );
    }
}
