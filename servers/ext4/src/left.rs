//! Data that is only in the cache, over the server's death: which page of which file every slot of the arena holds that is dirty or on its way to the device, and how long the file is. The frames
//! themselves are inherited ([`cairn_idl::vm::CACHE_LEFT`]): the successor makes the same slots the same pages of the same files, and they are dirty as before.
//!
//! The table is memory that outlives the server: a word for each slot (number of the file, and page), and for each file its identity, size, and time of the last write if the image does not know it. A
//! slot's word is there as long as its page is, before and after every instruction; files have the numbers that the cache gives them, and their successors get the same ones.

use crate::memory::{Memory, PAGE64};
use crate::server::{time, Ext4};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use cairn_block::Device;
use cairn_cache::mapped::Objects;
use cairn_cache::{File, Slot};
use cairn_ext4::Time;
use cairn_idl::vm::CACHE_LEFT;
use cairn_rt::paging::Inherited;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

type Words = &'static [AtomicU64];

/// Words of a file.
const FILE: usize = 4;
const SIZE: usize = 1;
const TIME: usize = 2;
/// In the first one: how many were ever used. What lies behind them is not looked at: it would take memory.
const USED: usize = 3;

/// Pages that are taken out of an object at a time.
const TAKEN: usize = 512;

/// As one number.
pub(crate) fn nanoseconds(time: Time) -> u64 {
    (time.sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::from(time.nsec))
}

/// Which slots hold what nobody else has.
#[derive(Clone, Copy, Default)]
pub struct Slots(Words);

impl Slots {
    #[inline]
    pub fn set(&self, slot: Slot, file: File, page: u64) {
        let number = file.tag() & 0xFFFF_FFFF;
        if let Some(place) = self.0.get(slot as usize) {
            place.store((number + 1) << 32 | page, Relaxed);
        }
    }

    #[inline]
    pub fn clear(&self, slot: Slot) {
        if let Some(place) = self.0.get(slot as usize) {
            place.store(0, Relaxed);
        }
    }

    /// Number of the file, and page.
    fn get(&self, slot: usize) -> Option<(usize, u64)> {
        let word = self.0.get(slot)?.load(Relaxed);
        let file = (word >> 32).checked_sub(1)?;
        Some((file as usize, word & 0xFFFF_FFFF))
    }
}

/// The whole table.
#[derive(Clone, Copy, Default)]
pub struct Left {
    pub slots: Slots,
    files: &'static [[AtomicU64; FILE]],
}

impl Left {
    /// Of memory that outlives the server; what is not for this is returned. `pages` has the arena: if there is no room for all of them nothing is kept.
    pub fn new(memory: Words, pages: u32) -> (Left, Words) {
        let (files, rest) = memory.split_at(memory.len() / 11);
        let count = pages as usize;
        if count > rest.len() / 2 {
            return (Left::default(), memory);
        }
        let (files, _) = files.as_chunks();
        let (slots, rest) = rest.split_at(count);
        let slots = Slots(slots);
        (Left { slots, files }, rest)
    }

    /// Whether all that is written to this file is kept.
    pub(crate) fn keeps(&self, file: Option<File>) -> bool {
        !self.files.is_empty() && file.is_none_or(|file| self.file(file).is_some())
    }

    /// What there is to be inherited: what is left of a cache, and objects of mapped files. Frames of the cache that hold nothing but what can be read again are free at once.
    pub(crate) fn inherit<M: Memory>(&self, memory: &mut M) -> (Option<Inherited>, Vec<Inherited>) {
        let (mut cache, mut objects) = (None, Vec::new());
        while let Some(it) = memory.inherited() {
            match it.tag {
                CACHE_LEFT => cache = Some(it),
                _ => objects.push(it),
            }
        }
        if let Some(cache) = &cache {
            let dirty = |slot: &u64| self.slots.get(*slot as usize).is_some();
            let mut from = 0;
            while from < cache.pages {
                let to = (from..cache.pages).find(dirty).unwrap_or(cache.pages);
                for first in (from..to).step_by(TAKEN) {
                    let none = [None; TAKEN];
                    let some = &none[..TAKEN.min((to - first) as usize)];
                    let _ = memory
                        .objects()
                        .change(cache.object, first, some, cache.pages);
                }
                from = to + 1;
            }
        }
        (cache, objects)
    }

    fn file(&self, file: File) -> Option<&'static [AtomicU64; FILE]> {
        self.files.get(file.tag() as u32 as usize)
    }

    /// The cache has given this number to a file.
    pub(crate) fn begin(&self, file: File, identity: u64, size: u64) {
        if let Some(words) = self.file(file) {
            let used = (file.tag() & 0xFFFF_FFFF) + 1;
            self.files[0][USED].fetch_max(used, Relaxed);
            words[0].store(0, Release);
            words[SIZE].store(size, Relaxed);
            words[TIME].store(0, Relaxed);
            words[0].store(identity, Release);
        }
    }

    /// The number is nobody's. (None of its pages is there any more.)
    pub(crate) fn end(&self, file: File) {
        if let Some(words) = self.file(file) {
            words[0].store(0, Release);
        }
    }

    #[inline]
    pub(crate) fn set_size(&self, file: File, size: u64) {
        if let Some(words) = self.file(file) {
            words[SIZE].store(size, Relaxed);
        }
    }

    /// It is about to be cut.
    pub(crate) fn cut(&self, file: File, size: u64) {
        if let Some(words) = self.file(file) {
            words[SIZE].fetch_min(size, Relaxed);
        }
    }

    /// When it was written last, in nanoseconds since 1970; 0: the image knows.
    #[inline]
    pub(crate) fn set_time(&self, file: File, now: u64) {
        if let Some(words) = self.file(file) {
            words[TIME].store(now, Relaxed);
        }
    }
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// What a predecessor had not written is there again, and dirty, before anything else happens; `cache` is what is left of it. Those whose data could not be had.
    pub(crate) fn find_dirty(
        &mut self,
        cache: Option<Inherited>,
        open: &[u64],
        wait: &mut impl FnMut(&mut M, &mut D),
    ) -> BTreeSet<u64> {
        let (left, mut lost) = (self.left, BTreeSet::new());
        let used = left
            .files
            .first()
            .map_or(0, |first| first[USED].load(Relaxed));
        let count = left.files.len().min(used as usize);
        let slots = if count == 0 { 0 } else { left.slots.0.len() };
        // Files get the numbers that they had, also if this server dies before it is done.
        let files: Vec<(File, Option<u32>)> = left.files[..count]
            .iter()
            .map(|words| {
                let file = self.cache.open();
                let [identity, size, time, _] = words.each_ref().map(|word| word.load(Relaxed));
                let is_open = open.contains(&identity);
                let found = self.find_written(file, (identity, size, time), is_open, wait);
                (file, found)
            })
            .collect();
        let (mut pages, mut had) = (Vec::new(), BTreeSet::new());
        for slot in 0..slots {
            let Some((number, page)) = left.slots.get(slot) else {
                continue;
            };
            let found = files
                .get(number)
                .and_then(|(file, ino)| Some((*file, (*ino)?)));
            let size = found.and_then(|(_, ino)| self.nodes.get(ino));
            let inside = size.is_some_and(|node| page < node.size.div_ceil(PAGE64));
            let wanted = inside && had.insert((number, page));
            let Some((file, ino)) = found.filter(|_| wanted) else {
                left.slots.clear(slot as Slot);
                continue;
            };
            let memory = self.cache.memory();
            let there = cache.as_ref().is_some_and(|cache| {
                (slot as u64) < cache.pages && memory.adopt(cache.object, slot as u64, slot as Slot)
            });
            if there {
                pages.push((file, page, slot as Slot, ino));
            } else {
                left.slots.clear(slot as Slot);
                lost.extend(self.nodes.get(ino).map(|node| node.identity()));
            }
        }
        let all: Vec<(File, u64, Slot)> = pages
            .iter()
            .map(|&(file, page, slot, _)| (file, page, slot))
            .collect();
        self.cache.adopt(&all);
        // Drivers get no pages that somebody else has as well.
        if let Some(cache) = cache {
            self.mapped.objects().close(cache.object);
        }
        for (file, page, _, ino) in pages {
            self.cache.mark_dirty(file, page, self.clock);
            let size = self.nodes.get(ino).map_or(0, |node| node.size);
            let (from, to) = (page * PAGE64, size.min((page + 1) * PAGE64));
            // Without a promise it gets blocks if there are some when it is written.
            let _ = self.until_there(wait, |server| server.promise(ino, from, to, true));
            self.note_changed(ino);
        }
        for (file, ino) in files {
            if ino.is_none() {
                left.end(file);
                self.cache.close(file);
            }
        }
        lost
    }

    /// The file with the number `file`, as long as it was and written when it was.
    fn find_written(
        &mut self,
        file: File,
        (identity, size, written): (u64, u64, u64),
        is_open: bool,
        wait: &mut impl FnMut(&mut M, &mut D),
    ) -> Option<u32> {
        if identity == 0 || !self.fs.is_writable() {
            return None;
        }
        let ino = self.until_there(wait, |server| server.find_again(identity))?;
        let most = self.most_bytes();
        let node = self.nodes.get_mut(ino)?;
        // What nobody names and nobody has open ends. (Who has it mapped is looked after with the mappings.)
        if !node.is_regular() || node.file.is_some() || node.links == 0 && !is_open {
            return None;
        }
        node.file = Some(file);
        node.size = node.size.max(size.min(most));
        self.owners.insert(file, ino);
        let written = time(written);
        if written > node.mtime {
            (node.mtime, node.ctime) = (written, written);
            self.touch(ino);
        }
        Some(ino)
    }
}
