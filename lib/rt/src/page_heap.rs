//! The page heap: small objects in pages of one size class, everything else in runs of whole pages, and frames that nobody uses go back.
//!
//! It works in one range of addresses. The front of the range holds a descriptor of 16 bytes for each page, and behind lie the pages. A page below `end` is in use, *warm* (free, with a frame)
//! or *cold* (free, without one). What always holds:
//! * a page that is handed out has its frame already, so that no use of memory can fail later;
//! * neighbours that are free in the same way are one run; runs are found by their length, and nothing is walked that grows with the heap;
//! * at most [`WARM`] pages are warm after an operation, and mostly fewer: beyond the bound of the moment runs are given back until half of it is left.
//!
//! The bound begins at [`LEAST`]. It doubles when pages get frames of which some were just given back, and halves when pages are given back twice in a row:
//! who uses pages to and fro asks nobody, and what a flood took goes back.
//!
//! [`Frames`] is `vm` here, and a fake in the tests.

use core::alloc::Layout;
use core::ptr::{null_mut, NonNull};

pub const PAGE: usize = 4096;
/// Most free pages that keep their frames.
pub const WARM: usize = 64;
/// And the bound of a heap that does not use more to and fro.
pub const LEAST: usize = 16;
/// Pages that get their frames together where the heap grows by less.
const STEP: u32 = 16;
/// The largest object that shares a page.
const SMALL: usize = 2048;
const CLASSES: [u16; 21] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024, 1344,
    2048,
];
/// The class of a size, by sixteenths rounded up.
const CLASS_OF: [u8; SMALL / 16 + 1] = {
    let mut table = [0; SMALL / 16 + 1];
    let (mut at, mut class) = (0, 0);
    while at < table.len() {
        if at * 16 > CLASSES[class] as usize {
            class += 1;
        }
        table[at] = class as u8;
        at += 1;
    }
    table
};
/// Lists of free runs: one for each length below 32, then one for each power of two.
const BINS: usize = 64;
const EXACT: u32 = 32;
/// Runs of a list of several lengths that are looked at before a longer one is cut.
const LOOKS: usize = 8;
const NONE: u32 = u32::MAX;
/// Descriptors in a page.
const PER_PAGE: u32 = (PAGE / size_of::<Descriptor>()) as u32;

/// Where frames come from.
pub trait Frames {
    /// Give these pages frames. False: none of them has got one by this. `must`: it is for a single page that the component cannot do without.
    fn populate(&mut self, address: usize, bytes: usize, must: bool) -> bool;
    /// Take the frames of these pages back; they read as zeroes when they are populated again. False: the pages keep them.
    fn release(&mut self, address: usize, bytes: usize) -> bool;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Used,
    Small,
    Warm,
    Cold,
}

/// Of the first and last page of a run, or of a page of small objects. The others' say nothing.
#[derive(Clone, Copy)]
struct Descriptor {
    kind: Kind,
    class: u8,
    /// Small objects in use.
    used: u16,
    /// Pages of the run; of a page of small objects, the first free one of those that were used before, and how many never were (their numbers and one more).
    length: u32,
    next: u32,
    previous: u32,
}

impl Descriptor {
    fn free_object(&self) -> u16 {
        self.length as u16
    }

    fn carved(&self) -> u16 {
        (self.length >> 16) as u16
    }

    fn set_objects(&mut self, free: u16, carved: u16) {
        self.length = u32::from(free) | u32::from(carved) << 16;
    }
}

/// Free runs of one kind, by length.
struct Bins {
    heads: [u32; BINS],
    filled: u64,
}

impl Bins {
    const EMPTY: Bins = Bins {
        heads: [NONE; BINS],
        filled: 0,
    };

    fn of(length: u32) -> usize {
        match length {
            0..EXACT => length as usize,
            _ => (EXACT + length.ilog2()) as usize,
        }
    }
}

pub struct PageHeap<F> {
    frames: F,
    /// The range's first byte (0: there is none yet), and that of the first page.
    range: usize,
    pages: usize,
    /// Pages below this have been used before; those from `limit` on are not in the range.
    end: u32,
    limit: u32,
    /// Descriptors below this have frames.
    described: u32,
    warm: Bins,
    cold: Bins,
    warm_pages: usize,
    used_pages: usize,
    /// Most free pages that keep their frames now; whether some were given back since others got theirs.
    bound: usize,
    cooled: bool,
    /// Pages of each class that have room.
    room: [u32; CLASSES.len()],
}

/// Bytes of pages that an object of this size takes of a heap, when there are many.
pub const fn footprint(size: usize) -> usize {
    match size {
        0..=SMALL => {
            let size = CLASSES[CLASS_OF[size.div_ceil(16)] as usize] as usize;
            PAGE.div_ceil(PAGE / size)
        }
        _ => size.next_multiple_of(PAGE),
    }
}

/// Bytes of range for a heap of so many pages.
pub const fn range_for(pages: usize) -> usize {
    (pages * size_of::<Descriptor>()).next_multiple_of(PAGE) + pages * PAGE
}

impl<F: Frames> PageHeap<F> {
    pub const fn new(frames: F) -> PageHeap<F> {
        PageHeap {
            frames,
            range: 0,
            pages: 0,
            end: 0,
            limit: 0,
            described: 0,
            warm: Bins::EMPTY,
            cold: Bins::EMPTY,
            warm_pages: 0,
            used_pages: 0,
            bound: LEAST,
            cooled: false,
            room: [NONE; CLASSES.len()],
        }
    }

    #[cfg_attr(test, allow(dead_code))]
    pub fn has_range(&self) -> bool {
        self.range != 0
    }

    /// Work there.
    ///
    /// # Safety
    /// [`range_for`] `pages` bytes from `range` on, which is a page's address, belong to the heap alone for as long as it is used, and may be read and written where `Frames` says that there are frames.
    pub unsafe fn set_range(&mut self, range: usize, pages: usize) {
        self.range = range;
        self.limit = pages.min(NONE as usize - 1) as u32;
        self.pages = range + range_for(pages) - pages * PAGE;
    }

    /// Pages with frames: in use, and free.
    pub fn resident(&self) -> (usize, usize) {
        (self.used_pages, self.warm_pages)
    }

    /// See that so many pages (at most [`WARM`] / 2) are free and have frames. False: there is no memory.
    pub fn prepare(&mut self, pages: usize) -> bool {
        while self.warm_pages < pages {
            let Some(run) = self.take_cold((pages - self.warm_pages) as u32, false) else {
                return false;
            };
            // (They are about to be used.)
            self.warm_pages += run.1 as usize;
            self.join(run.0, run.1, Kind::Warm);
        }
        true
    }

    fn descriptor(&mut self, page: u32) -> &mut Descriptor {
        debug_assert!(page < self.described);
        // SAFETY: descriptors below `described` are resident, were written when they became so, and lie in the heap's range.
        unsafe { &mut *(self.range as *mut Descriptor).add(page as usize) }
    }

    fn address(&self, page: u32) -> usize {
        self.pages + page as usize * PAGE
    }

    fn page_of(&self, address: usize) -> u32 {
        ((address - self.pages) / PAGE) as u32
    }

    fn bins(&mut self, kind: Kind) -> &mut Bins {
        match kind {
            Kind::Warm => &mut self.warm,
            _ => &mut self.cold,
        }
    }

    /// Write the ends of a run.
    fn mark(&mut self, first: u32, length: u32, kind: Kind) {
        for page in [first + length - 1, first] {
            *self.descriptor(page) = Descriptor {
                kind,
                class: 0,
                used: 0,
                length,
                next: NONE,
                previous: NONE,
            };
        }
    }

    /// A run of pages is free in this way (its neighbours are not, in the same way).
    fn list(&mut self, first: u32, length: u32, kind: Kind) {
        self.mark(first, length, kind);
        let bin = Bins::of(length);
        let next = self.bins(kind).heads[bin];
        self.descriptor(first).next = next;
        if next != NONE {
            self.descriptor(next).previous = first;
        }
        let bins = self.bins(kind);
        bins.heads[bin] = first;
        bins.filled |= 1 << bin;
    }

    fn unlist(&mut self, first: u32) -> (u32, Kind) {
        let run = *self.descriptor(first);
        if run.next != NONE {
            self.descriptor(run.next).previous = run.previous;
        }
        if run.previous != NONE {
            self.descriptor(run.previous).next = run.next;
        } else {
            let bin = Bins::of(run.length);
            let bins = self.bins(run.kind);
            bins.heads[bin] = run.next;
            if run.next == NONE {
                bins.filled &= !(1 << bin);
            }
        }
        (run.length, run.kind)
    }

    /// A run becomes free in this way, together with its neighbours that are.
    fn join(&mut self, mut first: u32, mut length: u32, kind: Kind) {
        if let Some(last) = first.checked_sub(1) {
            let before = *self.descriptor(last);
            if before.kind == kind {
                first -= before.length;
                self.unlist(first);
                length += before.length;
            }
        }
        let behind = first + length;
        if behind < self.end && self.descriptor(behind).kind == kind {
            length += self.unlist(behind).0;
        }
        self.list(first, length, kind);
    }

    /// The free run that fits, out of its list: first page and length.
    fn find(&mut self, length: u32, kind: Kind) -> Option<(u32, u32)> {
        let bin = Bins::of(length);
        let mut at = self.bins(kind).heads[bin];
        for _ in 0..LOOKS {
            if at == NONE {
                break;
            }
            let run = *self.descriptor(at);
            if run.length >= length {
                return Some((at, self.unlist(at).0));
            }
            at = run.next;
        }
        let longer = self.bins(kind).filled & (u64::MAX << bin << 1);
        if longer == 0 {
            return None;
        }
        let first = self.bins(kind).heads[longer.trailing_zeros() as usize];
        Some((first, self.unlist(first).0))
    }

    /// A run of pages with frames, of this length.
    fn take(&mut self, length: u32, must: bool) -> Option<u32> {
        if let Some((first, all)) = self.find(length, Kind::Warm) {
            self.warm_pages -= all as usize;
            self.mark(first, length, Kind::Used);
            if all > length {
                self.warm_pages += (all - length) as usize;
                self.join(first + length, all - length, Kind::Warm);
            }
            self.used_pages += length as usize;
            return Some(first);
        }
        let (first, all) = match self.take_cold(length, must) {
            Some(run) => run,
            // What lies warm in pieces may be what is missing.
            None if self.warm_pages != 0 => {
                self.cool_down(0);
                self.take_cold(length, must)?
            }
            None => return None,
        };
        self.mark(first, length, Kind::Used);
        if all > length {
            self.warm_pages += (all - length) as usize;
            self.join(first + length, all - length, Kind::Warm);
        }
        self.used_pages += length as usize;
        Some(first)
    }

    /// A run that was cold or never used and has frames now (marked as in use, and not counted): at least this long.
    fn take_cold(&mut self, length: u32, must: bool) -> Option<(u32, u32)> {
        if core::mem::take(&mut self.cooled) {
            self.bound = (self.bound * 2).min(WARM);
        }
        if let Some((first, all)) = self.find(length, Kind::Cold) {
            let wish = length.max(STEP).min(all);
            for part in [wish, length] {
                let (address, bytes) = (self.address(first), part as usize * PAGE);
                let must = must && part == 1;
                if self.frames.populate(address, bytes, must) {
                    self.mark(first, part, Kind::Used);
                    if all > part {
                        self.join(first + part, all - part, Kind::Cold);
                    }
                    return Some((first, part));
                }
            }
            self.join(first, all, Kind::Cold);
            return None;
        }
        let left = self.limit - self.end;
        if length > left {
            return None;
        }
        let wish = length.max(STEP).min(left);
        for part in [wish, length] {
            let must = must && part == 1;
            if !self.describe(self.end + part, must) {
                continue;
            }
            let (address, bytes) = (self.address(self.end), part as usize * PAGE);
            if self.frames.populate(address, bytes, must) {
                let first = self.end;
                self.end += part;
                self.mark(first, part, Kind::Used);
                return Some((first, part));
            }
        }
        None
    }

    /// Descriptors below this have frames.
    fn describe(&mut self, end: u32, must: bool) -> bool {
        while self.described < end {
            let at = self.range + self.described as usize * size_of::<Descriptor>();
            if !self.frames.populate(at, PAGE, must) {
                return false;
            }
            let page = self.described;
            self.described += PER_PAGE;
            for page in page..page + PER_PAGE {
                // SAFETY: the page of descriptors is resident and the heap's; nothing refers to it yet.
                unsafe {
                    (self.range as *mut Descriptor)
                        .add(page as usize)
                        .write(Descriptor {
                            kind: Kind::Used,
                            class: 0,
                            used: 0,
                            length: 1,
                            next: NONE,
                            previous: NONE,
                        })
                };
            }
        }
        true
    }

    /// A run with frames is free (and was not counted as used).
    fn give(&mut self, first: u32, length: u32) {
        self.warm_pages += length as usize;
        self.join(first, length, Kind::Warm);
        if self.warm_pages > self.bound {
            self.cool_down(self.bound / 2);
            if core::mem::replace(&mut self.cooled, true) {
                self.bound = (self.bound / 2).max(LEAST);
            }
        }
    }

    /// Give frames back until at most so many free pages have one, the longest runs first.
    fn cool_down(&mut self, most: usize) {
        while self.warm_pages > most && self.warm.filled != 0 {
            let bin = 63 - self.warm.filled.leading_zeros() as usize;
            let first = self.warm.heads[bin];
            let (all, _) = self.unlist(first);
            let excess = (self.warm_pages - most).min(all as usize) as u32;
            let keep = all - excess;
            let (address, bytes) = (self.address(first + keep), excess as usize * PAGE);
            if !self.frames.release(address, bytes) {
                return self.list(first, all, Kind::Warm);
            }
            self.warm_pages -= all as usize;
            self.mark(first + keep, excess, Kind::Used);
            if keep != 0 {
                self.warm_pages += keep as usize;
                self.list(first, keep, Kind::Warm);
            }
            self.join(first + keep, excess, Kind::Cold);
        }
    }

    /// The class that an object is of, if it shares a page. (Multiples of a power of two lie at multiples of it, and a page begins at one of all.)
    fn class(layout: Layout) -> Option<usize> {
        let size = match layout.align() {
            0..=16 => layout.size(),
            align => layout.size().max(align).checked_next_power_of_two()?,
        };
        (size <= SMALL).then(|| CLASS_OF[size.div_ceil(16)] as usize)
    }

    fn pages_for(layout: Layout) -> Option<u32> {
        let pages = layout.size().div_ceil(PAGE);
        u32::try_from(pages).ok().filter(|pages| *pages < NONE / 2)
    }

    /// Memory for this, or null.
    pub fn allocate(&mut self, layout: Layout) -> *mut u8 {
        match Self::class(layout) {
            Some(class) => self.allocate_small(class),
            None => self.allocate_pages(layout).unwrap_or(null_mut()),
        }
    }

    fn allocate_small(&mut self, class: usize) -> *mut u8 {
        let size = CLASSES[class] as usize;
        let mut page = self.room[class];
        if page == NONE {
            let Some(new) = self.take(1, true) else {
                return null_mut();
            };
            let descriptor = self.descriptor(new);
            descriptor.kind = Kind::Small;
            descriptor.class = class as u8;
            descriptor.set_objects(0, 0);
            self.room[class] = new;
            page = new;
        }
        let start = self.address(page);
        let descriptor = self.descriptor(page);
        descriptor.used += 1;
        let (free, carved) = (descriptor.free_object(), descriptor.carved());
        let object = if free != 0 {
            let address = start + (free as usize - 1) * size;
            // SAFETY: a free object of a resident page of this class; its first bytes hold the next one's number.
            let next = unsafe { *(address as *const u16) };
            descriptor.set_objects(next, carved);
            address
        } else {
            descriptor.set_objects(0, carved + 1);
            start + carved as usize * size
        };
        if descriptor.used as usize == PAGE / size {
            let next = descriptor.next;
            descriptor.next = NONE;
            self.room[class] = next;
            if next != NONE {
                self.descriptor(next).previous = NONE;
            }
        }
        object as *mut u8
    }

    fn free_small(&mut self, page: u32, address: usize) {
        let start = self.address(page);
        let mut descriptor = *self.descriptor(page);
        let class = descriptor.class as usize;
        let size = CLASSES[class] as usize;
        let was_full = descriptor.used as usize == PAGE / size;
        // SAFETY: the object belongs to nobody now; it is two bytes long at least and its address is even.
        unsafe { *(address as *mut u16) = descriptor.free_object() };
        let number = ((address - start) / size) as u16 + 1;
        descriptor.set_objects(number, descriptor.carved());
        descriptor.used -= 1;
        let head = self.room[class];
        if was_full {
            descriptor.next = head;
            descriptor.previous = NONE;
            if head != NONE {
                self.descriptor(head).previous = page;
            }
            self.room[class] = page;
        } else if descriptor.used == 0 && (head != page || descriptor.next != NONE) {
            // Another page of the class has room: this one goes.
            if descriptor.next != NONE {
                self.descriptor(descriptor.next).previous = descriptor.previous;
            }
            match descriptor.previous {
                NONE => self.room[class] = descriptor.next,
                previous => self.descriptor(previous).next = descriptor.next,
            }
            self.mark(page, 1, Kind::Used);
            self.used_pages -= 1;
            return self.give(page, 1);
        }
        *self.descriptor(page) = descriptor;
    }

    fn allocate_pages(&mut self, layout: Layout) -> Option<*mut u8> {
        let length = Self::pages_for(layout)?;
        let spare = (layout.align() / PAGE).saturating_sub(1) as u32;
        let all = length.checked_add(spare)?;
        let mut first = self.take(all, all == 1)?;
        if spare != 0 {
            let before = self.address(first).wrapping_neg() % layout.align() / PAGE;
            first = self.cut(first, all, before as u32, length);
        }
        Some(self.address(first) as *mut u8)
    }

    /// Of a used run `length` pages from `before` on stay so, where they begin; the others are free.
    fn cut(&mut self, first: u32, all: u32, before: u32, length: u32) -> u32 {
        let (start, behind) = (first + before, all - before - length);
        for (page, pages) in [(first, before), (start + length, behind)] {
            if pages != 0 {
                self.mark(page, pages, Kind::Used);
            }
        }
        self.mark(start, length, Kind::Used);
        self.used_pages -= (before + behind) as usize;
        for (page, pages) in [(first, before), (start + length, behind)] {
            if pages != 0 {
                self.give(page, pages);
            }
        }
        start
    }

    /// What was allocated here is free.
    ///
    /// # Safety
    /// `at` came from [`PageHeap::allocate`] of this heap and is not used any more.
    pub unsafe fn free(&mut self, at: NonNull<u8>) {
        let address = at.as_ptr() as usize;
        let page = self.page_of(address);
        let run = *self.descriptor(page);
        if run.kind == Kind::Small {
            return self.free_small(page, address);
        }
        self.used_pages -= run.length as usize;
        self.give(page, run.length);
    }

    /// Whether an object of this layout stays where it is when it gets another size; pages behind it go back.
    ///
    /// # Safety
    /// As [`PageHeap::free`], with the layout that it was allocated with.
    pub unsafe fn resize(&mut self, at: NonNull<u8>, layout: Layout, size: usize) -> bool {
        let Ok(wish) = Layout::from_size_align(size, layout.align()) else {
            return false;
        };
        match (Self::class(layout), Self::class(wish)) {
            (Some(old), Some(new)) => old == new,
            (None, None) => {
                let page = self.page_of(at.as_ptr() as usize);
                let all = self.descriptor(page).length;
                match Self::pages_for(wish) {
                    Some(length) if length == all => true,
                    Some(length) if length < all => {
                        self.cut(page, all, 0, length);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "page_heap_tests.rs"]
mod tests;
