//! Files that programs have mapped: a memory object for each, made of the cache's own pages, to which pages are added when they are wanted and from which they are taken before the cache
//! gives them up.
//!
//! [`Mapped`] keeps the objects; [`Objects`] is the memory manager as it needs it. What a server has to call, and when: docs/cache.md, "Mapping".
//!
//! What always holds: a page that an object has is *shown* in the cache, and there; so a slot whose page is not shown may be used for something else at once.

use crate::cache::{Cache, File, Memory};
use crate::slots::Slot;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pages around a wanted one that are shown with it, if they are there (aligned).
pub const AROUND: u64 = 64;
/// Runs that are asked for at a time, and pages that are taken out at a time.
const RUNS: usize = 64;
const TAKEN: u64 = 512;

/// Why an object was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was to become shorter, and a program that runs was started from it.
    Executed,
    /// No memory, or no such object.
    Failed,
}

/// The memory manager's watched objects, of pages of the arena.
pub trait Objects {
    /// The portal that leads to an object.
    type Object: Copy;
    /// A new one of so many pages, of which none is there.
    fn make(&mut self, pages: u64, tag: u64) -> Option<Self::Object>;
    /// A second portal to it, for those who must not map it shared and writable.
    fn reader(&mut self, object: Self::Object) -> Option<Self::Object>;
    /// It has these pages from `first` on (`None`: takes them out), and `pages` in all → how many of those that went had been written since [`Objects::written`].
    fn change(
        &mut self,
        object: Self::Object,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused>;
    /// It has so many pages from now on. False: for some of its mappings only, and it is to be asked again. (What is refused is refused by [`Objects::change`]
    /// as well.)
    fn cut(&mut self, _object: Self::Object, _pages: u64) -> bool {
        true
    }
    /// Who waits for these pages does so in vain.
    fn refuse(&mut self, tag: u64, first: u64, pages: u64);
    /// Runs (first page and count) of pages that programs have written since this was asked last → how many runs, how many pages are mapped, whether a program that runs was started from it. What did not fit is told next time.
    fn written(
        &mut self,
        object: Self::Object,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)>;
    fn close(&mut self, portal: Self::Object);
}

struct Shown<O> {
    object: O,
    tag: u64,
    reader: Option<O>,
    /// Somebody may have it mapped for writing.
    writable: bool,
    pages: u64,
    /// Pages that somebody waits for, ascending.
    wanted: Vec<u64>,
    /// Nobody had it mapped when that was asked last.
    idle: bool,
}

/// The mapped files of a cache.
pub struct Mapped<O: Objects> {
    objects: O,
    files: BTreeMap<File, Shown<O::Object>>,
}

impl<O: Objects> Mapped<O> {
    pub fn new(objects: O) -> Mapped<O> {
        Mapped {
            objects,
            files: BTreeMap::new(),
        }
    }

    pub fn objects(&mut self) -> &mut O {
        &mut self.objects
    }

    /// mmap: the portal to the object of a file of so many pages. It stays this component's.
    pub fn map(&mut self, file: File, pages: u64, writable: bool) -> Option<O::Object> {
        self.map_as(file, file.tag(), pages, writable)
    }

    /// The same by a name of the server's own, which a successor can know the file by.
    pub fn map_as(
        &mut self,
        file: File,
        tag: u64,
        pages: u64,
        writable: bool,
    ) -> Option<O::Object> {
        if !self.files.contains_key(&file) {
            let object = self.objects.make(pages, tag)?;
            self.inherit(file, tag, object, pages, false);
        }
        let shown = self.files.get_mut(&file)?;
        shown.idle = false;
        if pages > shown.pages {
            // It grew while nobody had it mapped.
            let from = shown.pages;
            self.objects.change(shown.object, from, &[], pages).ok()?;
            shown.pages = pages;
        }
        if writable {
            shown.writable = true;
            return Some(shown.object);
        }
        if shown.reader.is_none() {
            shown.reader = self.objects.reader(shown.object);
        }
        shown.reader
    }

    /// An object of a predecessor's goes on. It must have no pages that the cache does not have.
    pub fn inherit(&mut self, file: File, tag: u64, object: O::Object, pages: u64, writable: bool) {
        let shown = Shown {
            object,
            tag,
            reader: None,
            writable,
            pages,
            wanted: Vec::new(),
            idle: false,
        };
        self.files.insert(file, shown);
    }

    /// Somebody waits for these pages. Then: [`Mapped::show`], and what is [`Mapped::missing`] after that is to be loaded.
    pub fn want(&mut self, file: File, first: u64, pages: u64) {
        let Some(shown) = self.files.get_mut(&file) else {
            return self.objects.refuse(file.tag(), first, pages);
        };
        shown.idle = false;
        let end = first.saturating_add(pages).min(shown.pages);
        for page in first..end {
            if let Err(at) = shown.wanted.binary_search(&page) {
                shown.wanted.insert(at, page);
            }
        }
    }

    /// Show the pages that are wanted and there, with those around them. To be called after [`Mapped::want`], and when something of the file was loaded.
    /// False: not all that is there could be shown for want of memory: [`Mapped::again`].
    pub fn show<M: Memory>(&mut self, cache: &mut Cache<M>, file: File) -> bool {
        let Some(shown) = self.files.get_mut(&file) else {
            return true;
        };
        let mut at = 0;
        while let Some(&page) = shown.wanted.get(at) {
            if cache.get(file, page).is_none() {
                at += 1;
                continue;
            }
            let first = page / AROUND * AROUND;
            let end = (first + AROUND).min(shown.pages);
            let mut slots = [None; AROUND as usize];
            for (page, slot) in (first..end).zip(&mut slots) {
                *slot = cache.slot(file, page);
            }
            let slots = &slots[..(end - first) as usize];
            let changed = self.objects.change(shown.object, first, slots, shown.pages);
            if changed.is_err() {
                return false;
            }
            for (page, slot) in (first..end).zip(slots) {
                if slot.is_some() {
                    cache.set_shown(file, page, true);
                }
            }
            shown
                .wanted
                .retain(|page| cache.slot(file, *page).is_none() || !(first..end).contains(page));
        }
        true
    }

    /// Show what could not be shown before: to be called by the clock that write-behind has.
    pub fn again<M: Memory>(&mut self, cache: &mut Cache<M>) {
        let waits = |(file, shown): (&File, &Shown<_>)| (!shown.wanted.is_empty()).then_some(*file);
        let files: Vec<File> = self.files.iter().filter_map(waits).collect();
        for file in files {
            self.show(cache, file);
        }
    }

    /// The first pages in a row from `from` on that somebody waits for and that are not there: load them (what is on its way already need not be).
    pub fn missing(&self, file: File, from: u64) -> Option<(u64, u64)> {
        let wanted = &self.files.get(&file)?.wanted;
        let at = wanted.partition_point(|page| *page < from);
        let first = *wanted.get(at)?;
        let count = (first..)
            .zip(&wanted[at..])
            .take_while(|(page, wanted)| page == *wanted);
        Some((first, count.count() as u64))
    }

    /// These pages cannot be had: who waits for them does so no longer.
    pub fn refuse(&mut self, file: File, first: u64, pages: u64) {
        if let Some(shown) = self.files.get_mut(&file) {
            let end = first.saturating_add(pages);
            shown.wanted.retain(|page| !(first..end).contains(page));
            self.objects.refuse(shown.tag, first, pages);
        }
    }

    /// What programs wrote to these pages makes them dirty. To be called before anything that asks what is dirty: write-behind, fsync, giving up.
    pub fn collect<M: Memory>(
        &mut self,
        cache: &mut Cache<M>,
        file: File,
        range: (u64, u64),
        now: u64,
    ) {
        self.collect_and(cache, file, range, now, |_, _| ());
    }

    /// The same, telling each run of them (first page and count).
    pub fn collect_and<M: Memory>(
        &mut self,
        cache: &mut Cache<M>,
        file: File,
        (from, to): (u64, u64),
        now: u64,
        mut told: impl FnMut(u64, u64),
    ) {
        let Some(shown) = self.files.get(&file).filter(|shown| shown.writable) else {
            return;
        };
        loop {
            let mut runs = [(0, 0); RUNS];
            let to = to.min(shown.pages);
            let count = to.saturating_sub(from);
            let written = self.objects.written(shown.object, from, count, &mut runs);
            let count = written.map_or(0, |(count, ..)| count.min(RUNS));
            for &(first, pages) in &runs[..count] {
                told(first, pages);
                for page in first..first + pages {
                    cache.mark_dirty(file, page, now);
                }
            }
            if count < RUNS {
                return;
            }
        }
    }

    /// The same for all files: to be called by the clock that write-behind has.
    pub fn collect_all<M: Memory>(&mut self, cache: &mut Cache<M>, now: u64) {
        for file in self.writable() {
            self.collect(cache, file, (0, u64::MAX), now);
        }
    }

    /// The files that somebody may have mapped for writing.
    pub fn writable(&self) -> Vec<File> {
        let writable = |(file, shown): (&File, &Shown<_>)| shown.writable.then_some(*file);
        self.files.iter().filter_map(writable).collect()
    }

    /// How many pages are mapped (counted for each mapping), and whether a program that runs was started from the file (ETXTBSY for who opens it for writing).
    pub fn use_of(&mut self, file: File) -> (u64, bool) {
        let Some(shown) = self.files.get(&file) else {
            return (0, false);
        };
        let told = self.objects.written(shown.object, 0, 0, &mut []);
        told.map_or((0, false), |(_, mapped, executed)| (mapped, executed))
    }

    /// Take a page away from programs so that the cache may give it up ([`Cache::shrink`]'s `hide`). False: it has to be written first.
    pub fn hide<M: Memory>(
        &mut self,
        cache: &mut Cache<M>,
        file: File,
        page: u64,
        now: u64,
    ) -> bool {
        if self.files.get(&file).is_some_and(|shown| shown.idle) {
            // Nobody misses them, and those beside it will go as well.
            let first = page / AROUND * AROUND;
            self.take_out(cache, file, (first, first + AROUND), now);
        } else {
            self.take_out(cache, file, (page, page + 1), now);
        }
        cache.first_shown(file, page, page + 1).is_none() && !cache.pending(file, page, page + 1).0
    }

    /// Pages of a range are shown no more: before they are removed from the cache (a hole is punched), or when nobody has the file mapped. What programs wrote to them makes them dirty; how many runs of
    /// pages that concerns. None: there is no memory, and they are shown still.
    pub fn take_out<M: Memory>(
        &mut self,
        cache: &mut Cache<M>,
        file: File,
        (from, to): (u64, u64),
        now: u64,
    ) -> Option<u64> {
        let mut dirty = 0;
        let mut at = from;
        loop {
            let Some(shown) = self.files.get(&file) else {
                return Some(dirty);
            };
            let Some(first) = cache.first_shown(file, at, to) else {
                return Some(dirty);
            };
            let end = to.min(first + TAKEN).min(shown.pages);
            if end <= first {
                return Some(dirty);
            }
            let object = shown.object;
            let none = [None; TAKEN as usize];
            let pages = shown.pages;
            // One by one what may have been written, to know which; all at once if nothing was.
            self.collect(cache, file, (first, end), now);
            let slots = &none[..(end - first) as usize];
            let written = self.objects.change(object, first, slots, pages).ok()?;
            for page in first..end {
                if cache.slot(file, page).is_none() {
                    continue;
                }
                if written > 0 {
                    // Written between the two calls, by somebody: whichever it was.
                    cache.mark_dirty(file, page, now);
                }
                dirty += u64::from(cache.pending(file, page, page + 1).0);
                cache.set_shown(file, page, false);
            }
            at = end;
        }
    }

    /// Before [`Mapped::resize`] makes a file shorter: what is behind its new end leaves all mappings. False: some of them, if it is mapped very often; ask
    /// again when others have been served.
    pub fn cut(&mut self, file: File, pages: u64) -> bool {
        match self.files.get(&file) {
            Some(shown) if pages < shown.pages => self.objects.cut(shown.object, pages),
            _ => true,
        }
    }

    /// The file has so many pages from now on. What was behind a new end is shown no more: to be called before the cache removes it.
    pub fn resize<M: Memory>(
        &mut self,
        cache: &mut Cache<M>,
        file: File,
        pages: u64,
    ) -> Result<(), Refused> {
        let Some(shown) = self.files.get_mut(&file) else {
            return Ok(());
        };
        self.objects
            .change(shown.object, pages.min(shown.pages), &[], pages)?;
        let mut at = pages;
        while let Some(page) = cache.first_shown(file, at, shown.pages) {
            cache.set_shown(file, page, false);
            at = page + 1;
        }
        shown.wanted.retain(|page| *page < pages);
        shown.pages = pages;
        Ok(())
    }

    /// Nobody has it mapped any more (what was written is to be collected before). It keeps its pages, because programs are run again, until the cache gives them up, which costs less now.
    pub fn unused(&mut self, file: File) {
        if let Some(shown) = self.files.get_mut(&file) {
            shown.idle = true;
        }
    }

    /// The file is to be closed in the cache: its object loses all pages. (Ask [`Mapped::use_of`] before.) False: that cannot be done now, and its pages must stay what they are.
    pub fn close(&mut self, file: File) -> bool {
        let Some(shown) = self.files.get(&file) else {
            return true;
        };
        if self.objects.change(shown.object, 0, &[], 0).is_err() {
            return false;
        }
        for portal in shown.reader.into_iter().chain([shown.object]) {
            self.objects.close(portal);
        }
        self.files.remove(&file);
        true
    }
}
