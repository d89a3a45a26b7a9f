//! Files that programs have mapped, privately or to be read: their pages in the [one cache](cairn_cache), which are read when they are touched. A file is in
//! it only while it is mapped; what the guest writes to it takes its pages out, so they are read anew.

use crate::node::Index;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_cache::mapped::{Objects, Refused};
use cairn_cache::{Cache, File, Full, Io, Mapped, Slot};
use cairn_rt::paging::Request;
use cairn_rt::Portal;

pub const PAGE: usize = 4096;
pub const PAGE64: u64 = PAGE as u64;
/// Pages that are read together when one of them is touched (aligned).
pub const AROUND: u64 = 32;
/// And by one request.
const MOST: u64 = 14;
/// Pages that go at a time when there is no room.
const ROOM: u32 = 64;
/// Tokens from here on are not of requests, but of pages that are read.
const PAGES_FIRST: Token = 1 << 63 | 1 << 31;

/// The arena of the cache's pages, with the memory manager.
pub trait Medium: cairn_cache::Memory {
    /// A page that has a frame.
    fn page(&mut self, slot: Slot) -> &mut [u8];
    /// How many pages should be given back now. Asked again until it is 0; with `nothing_left` it is.
    fn wanted(&mut self, nothing_left: bool) -> u64;
    /// What those who have files mapped want next.
    fn asked(&mut self) -> Option<Request>;
    /// Who waited in msync goes on.
    fn synced(&mut self, ticket: u64);
    type Objects: Objects<Object = Portal>;
    fn objects(&self) -> Self::Objects;
}

/// A file that is mapped.
#[derive(Clone, Copy)]
pub struct Its {
    pub node: Index,
    /// By which the other side reads it.
    pub host: u32,
    tag: u64,
    /// What it was like when its pages were right: length, time of the last change.
    seen: Seen,
}

pub type Seen = (u64, (i64, i64));

pub struct Maps<M: Medium> {
    cache: Cache<M>,
    mapped: Mapped<M::Objects>,
    files: BTreeMap<File, Its>,
    tags: BTreeMap<u64, File>,
    next_tag: u64,
    /// Files of which pages are wanted; those that nobody has mapped any more.
    faults: BTreeSet<File>,
    unused: BTreeSet<File>,
    loading: BTreeMap<Token, Io>,
    next: Token,
}

impl<M: Medium> Maps<M> {
    /// With an arena of so many pages. No predecessor has had names of objects from `first_tag` on.
    pub fn new(medium: M, slots: u32, first_tag: u64) -> Maps<M> {
        let mapped = Mapped::new(medium.objects());
        Maps {
            cache: Cache::new(medium, slots),
            mapped,
            files: BTreeMap::new(),
            tags: BTreeMap::new(),
            next_tag: first_tag,
            faults: BTreeSet::new(),
            unused: BTreeSet::new(),
            loading: BTreeMap::new(),
            next: PAGES_FIRST,
        }
    }

    /// A node's file is to be mapped, which the other side reads by this.
    pub fn open(&mut self, node: Index, host: u32, seen: Seen) -> File {
        let file = self.cache.open();
        let tag = self.next_tag;
        self.next_tag += 1;
        let its = Its {
            node,
            host,
            tag,
            seen,
        };
        self.files.insert(file, its);
        self.tags.insert(tag, file);
        file
    }

    /// The node whose file the object with this tag shows.
    pub fn shown(&self, tag: u64) -> Option<Index> {
        let file = self.tags.get(&tag)?;
        Some(self.files.get(file)?.node)
    }

    /// The object of a file of so many pages.
    pub fn object(&mut self, file: File, pages: u64) -> Option<Portal> {
        self.unused.remove(&file);
        let tag = self.files.get(&file)?.tag;
        self.mapped.map_as(file, tag, pages, false)
    }

    /// If the file is not as it was its pages are read anew.
    pub fn check(&mut self, file: File, seen: Seen) {
        if let Some(its) = self.files.get_mut(&file) {
            if core::mem::replace(&mut its.seen, seen) != seen {
                self.changed(file, 0, u64::MAX);
            }
        }
    }

    /// A program that runs was started from it.
    pub fn is_executed(&mut self, file: File) -> bool {
        self.mapped.use_of(file).1
    }

    /// The file's bytes are others from this page to that one: they are read anew.
    pub fn changed(&mut self, file: File, from: u64, to: u64) {
        let (cache, mapped) = (&mut self.cache, &mut self.mapped);
        if mapped.take_out(cache, file, (from, to), 0).is_some() {
            cache.remove(file, from, to);
        }
    }

    pub fn resize(&mut self, file: File, pages: u64) -> Result<(), Refused> {
        self.mapped.resize(&mut self.cache, file, pages)?;
        self.cache.remove(file, pages, u64::MAX);
        Ok(())
    }

    /// What those who have files mapped want.
    pub fn hear(&mut self) {
        while let Some(request) = self.cache.memory().asked() {
            match request {
                Request::Pages { tag, first, pages } => match self.tags.get(&tag) {
                    Some(&file) => {
                        self.unused.remove(&file);
                        self.faults.insert(file);
                        self.mapped.want(file, first, pages);
                    }
                    // A predecessor's.
                    None => self.mapped.objects().refuse(tag, first, pages),
                },
                Request::Soon { .. } => {}
                // Nobody can have written anything.
                Request::Sync { ticket, .. } => self.cache.memory().synced(ticket),
                Request::Unused { tag } => {
                    if let Some(&file) = self.tags.get(&tag) {
                        self.mapped.unused(file);
                        self.unused.insert(file);
                    }
                }
            }
        }
    }

    /// Files that nobody has mapped any more go.
    pub fn ended(&mut self) -> Vec<Its> {
        let mut ended = Vec::new();
        for file in core::mem::take(&mut self.unused) {
            let busy = self.loading.values().any(|io| io.file == file);
            if busy || self.mapped.use_of(file).0 != 0 || !self.mapped.close(file) {
                if busy {
                    self.unused.insert(file);
                }
                continue;
            }
            self.cache.close(file);
            self.faults.remove(&file);
            if let Some(its) = self.files.remove(&file) {
                self.tags.remove(&its.tag);
                ended.push(its);
            }
        }
        ended
    }

    /// Pages that programs wait for are shown if they are there. Those that are not are to be read: `begin` is told whose, by which token, from which byte
    /// on, how many; false: not now. `pages`: how many a node's file has.
    pub fn run(
        &mut self,
        mut pages: impl FnMut(Index) -> u64,
        mut begin: impl FnMut(u32, Token, u64, usize) -> bool,
    ) {
        for file in core::mem::take(&mut self.faults) {
            let Some(&its) = self.files.get(&file) else {
                continue;
            };
            self.mapped.show(&mut self.cache, file);
            let (mut from, whole) = (0, pages(its.node));
            while let Some((first, count)) = self.mapped.missing(file, from) {
                from = first + count;
                let start = first / AROUND * AROUND;
                let to = from.next_multiple_of(AROUND).min(whole).max(from);
                if !self.load(file, its.host, (start, to), &mut begin) {
                    self.faults.insert(file);
                    break;
                }
            }
        }
    }

    /// False: not all could be begun.
    fn load(
        &mut self,
        file: File,
        host: u32,
        (from, to): (u64, u64),
        begin: &mut impl FnMut(u32, Token, u64, usize) -> bool,
    ) -> bool {
        loop {
            match self.cache.load(file, from, to, MOST) {
                Ok(None) => return true,
                Ok(Some(io)) => {
                    self.next += 1;
                    let (token, bytes) = (self.next, io.slots.len() * PAGE);
                    if !begin(host, token, io.first * PAGE64, bytes) {
                        self.cache.loaded(io, false);
                        return false;
                    }
                    self.loading.insert(token, io);
                }
                Err(Full) if self.make_room(ROOM) => {}
                Err(Full) => return false,
            }
        }
    }

    /// Tokens of what is being read.
    pub fn loading(&self) -> Vec<Token> {
        self.loading.keys().copied().collect()
    }

    /// It was read: the bytes, which end where the file does. None: they could not be.
    pub fn loaded(&mut self, token: Token, data: Option<&[u8]>) {
        let Some(io) = self.loading.remove(&token) else {
            return;
        };
        let (file, first, count) = (io.file, io.first, io.slots.len() as u64);
        if let Some(data) = data {
            for (i, &slot) in io.slots.iter().enumerate() {
                let from = data.get(i * PAGE..).unwrap_or(&[]);
                let (some, page) = (from.len().min(PAGE), self.cache.memory().page(slot));
                page[..some].copy_from_slice(&from[..some]);
                page[some..].fill(0);
            }
        }
        self.cache.loaded(io, data.is_some());
        if data.is_none() {
            self.mapped.refuse(file, first, count);
        }
        self.faults.insert(file);
    }

    #[cfg(test)]
    pub(crate) fn medium(&mut self) -> &mut M {
        self.cache.memory()
    }

    /// Pages are wanted that could not be had: look again in a while.
    pub fn must_look(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Show what could not be shown for want of memory.
    pub fn again(&mut self) {
        self.mapped.again(&mut self.cache);
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
}
