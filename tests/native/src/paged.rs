//! A file server whose files are larger than its cache, with a disk that takes its time (both in memory): programs map its files, run them, and write to them through mappings, while pages come
//! and go under them (paged.toml, maps-files.c).
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_cache::{Cache, File, Full, Io, Mapped, Memory, Put, Slot};
use cairn_idl::errno::{EFBIG, ENOENT, ENOMEM, ENOSPC, ETXTBSY};
use cairn_idl::fs::{o, s};
use cairn_resmgr::server::{Answer, Data, Opened};
use cairn_resmgr::{event, layout, Context, Dirents, Failure, Handle, Manager, Meta, Native};
use cairn_resmgr::{NativeObjects, Server, Transport};
use cairn_rt::paging::{self, Request};
use cairn_rt::{log, memory, time, Portal, Received};

cairn_rt::entry!(main);

const BYTES: usize = PAGE as usize;
/// Pages of the cache, and bytes of a file at most.
const SLOTS: u32 = 384;
const LARGEST: usize = 256 << 20;
/// How long a read takes, and between two rounds of write-behind.
const DELAY: u64 = 300_000;
const PERIOD: u64 = 20_000_000;
/// Pages of one transfer.
const REQUEST: u64 = 16;
/// What its notifications come with.
const WATCHER: u64 = 1;
const NAMES: [&[u8]; 3] = [b"data", b"busybox", b"large"];

struct Arena(&'static mut [u8]);

impl Arena {
    fn pages(&mut self, first: Slot, count: u64) -> &mut [u8] {
        let start = first as usize * BYTES;
        &mut self.0[start..start + count as usize * BYTES]
    }
}

impl Memory for Arena {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        memory::populate(self.pages(first, u64::from(count))).is_ok()
    }
    fn release(&mut self, first: Slot, count: u32) {
        let _ = memory::release(self.pages(first, u64::from(count)));
    }
}

struct Stored {
    file: File,
    size: u64,
    disk: &'static mut [u8],
}

struct Paged {
    cache: Cache<Arena>,
    mapped: Mapped<NativeObjects>,
    files: Vec<Stored>,
    /// Reads that the disk works on, and when it has done so.
    loads: Vec<(u64, Io)>,
    next_round: u64,
    /// Pages read of the last file.
    read: u64,
}

fn main() -> ! {
    let mut native = Native::new();
    let arena = memory::map(SLOTS as usize * BYTES).expect("an arena");
    let objects = NativeObjects {
        arena: arena.as_ptr() as u64,
    };
    paging::watch(native.make_portal(WATCHER).expect("a portal")).expect("a pager");
    let mut cache = Cache::new(Arena(arena), SLOTS);
    let files = NAMES.map(|_| Stored {
        file: cache.open(),
        size: 0,
        disk: memory::map(LARGEST).expect("a disk"),
    });
    let mut paged = Paged {
        cache,
        mapped: Mapped::new(objects),
        files: files.into(),
        loads: Vec::new(),
        next_round: 0,
        read: 0,
    };
    event::serve(&mut Manager::new(b"/paged"), &mut paged, &mut native)
}

fn key(node: usize, page: u64) -> u64 {
    (node as u64) << 32 | page
}

impl Paged {
    fn node_of(&self, tag: u64) -> Option<usize> {
        self.files
            .iter()
            .position(|stored| stored.file.tag() == tag)
    }

    /// Begin to read what is missing of a range.
    fn load(&mut self, node: usize, from: u64, to: u64) -> Result<(), Full> {
        let stored = &self.files[node];
        let to = to.min(stored.size.div_ceil(PAGE));
        loop {
            match self.cache.load(stored.file, from, to, REQUEST) {
                Ok(None) => return Ok(()),
                Ok(Some(io)) => self.loads.push((time::monotonic() + DELAY, io)),
                Err(Full) => {
                    if !self.make_room() {
                        return Err(Full);
                    }
                    return self.load(node, from, to);
                }
            }
        }
    }

    fn make_room(&mut self) -> bool {
        for _ in 0..2 {
            let now = time::monotonic();
            let mapped = &mut self.mapped;
            let hide =
                |cache: &mut Cache<Arena>, file, page, _| mapped.hide(cache, file, page, now);
            if self.cache.shrink(REQUEST as u32, hide).released > 0 {
                return true;
            }
            self.write_behind();
        }
        false
    }

    /// Everything dirty goes to the disk.
    fn write_behind(&mut self) {
        let now = time::monotonic();
        self.mapped.collect_all(&mut self.cache, now);
        for stored in &mut self.files {
            while let Some(io) = self.cache.collect(stored.file, 0, u64::MAX, REQUEST) {
                for (page, &slot) in (io.first..).zip(&io.slots) {
                    let at = page as usize * BYTES;
                    let bytes = self.cache.memory().pages(slot, 1);
                    stored.disk[at..at + BYTES].copy_from_slice(bytes);
                }
                self.cache.written(io, true, now);
            }
        }
    }

    /// Somebody who has the file mapped waits for pages.
    fn page_in(&mut self, node: usize) {
        let file = self.files[node].file;
        self.mapped.show(&mut self.cache, file);
        let mut from = 0;
        while let Some((first, count)) = self.mapped.missing(file, from) {
            from = first + count;
            if self.load(node, first, from).is_err() {
                self.mapped.refuse(file, first, count);
            }
        }
    }

    fn finish_loads(&mut self, cx: &mut Context) {
        let now = time::monotonic();
        while let Some(at) = self.loads.iter().position(|(due, _)| *due <= now) {
            let (_, io) = self.loads.swap_remove(at);
            let (file, first) = (io.file, io.first);
            let Some(node) = self.node_of(file.tag()) else {
                self.cache.loaded(io, false);
                continue;
            };
            let pages = io.slots.len() as u64;
            for (page, &slot) in (first..).zip(&io.slots) {
                let at = page as usize * BYTES;
                let bytes = self.cache.memory().pages(slot, 1);
                bytes.copy_from_slice(&self.files[node].disk[at..at + BYTES]);
            }
            self.cache.loaded(io, true);
            self.read += pages * u64::from(node == NAMES.len() - 1);
            self.mapped.show(&mut self.cache, file);
            (first..first + pages).for_each(|page| cx.wake(key(node, page)));
        }
    }

    fn plan(&self, cx: &mut Context) {
        let first = self.loads.iter().map(|(due, _)| *due).min();
        cx.wake_at(Some(first.unwrap_or(u64::MAX).min(self.next_round)));
    }

    /// The slot of a page that is to be changed in part, and whether it is new; waits if it must be read.
    fn page_for(&mut self, node: usize, page: u64) -> Answer<(Slot, bool)> {
        let (file, size) = (self.files[node].file, self.files[node].size);
        if self.cache.slot(file, page).is_none() && page < size.div_ceil(PAGE) {
            self.load(node, page, page + 1)
                .map_err(|Full| Failure::Errno(ENOSPC))?;
            return Err(Failure::Wait(key(node, page)));
        }
        loop {
            match self.cache.put(file, page) {
                Ok(Put::There(slot)) => return Ok((slot, false)),
                Ok(Put::Fresh(slot)) => return Ok((slot, true)),
                Ok(Put::Loading) => return Err(Failure::Wait(key(node, page))),
                Err(Full) if self.make_room() => {}
                Err(Full) => return Err(Failure::Errno(ENOSPC)),
            }
        }
    }
}

impl Server for Paged {
    /// The directory is 0, files are from 1 on.
    type Node = usize;
    type State = ();

    fn root(&mut self, _: u64) -> usize {
        0
    }

    fn meta(&mut self, node: usize) -> Answer<Meta> {
        let (mode, size) = match node.checked_sub(1) {
            None => (s::IFDIR | 0o755, 0),
            Some(file) => (s::IFREG | 0o755, self.files[file].size),
        };
        Ok(Meta {
            mode,
            size,
            ino: node as u64 + 1,
            ..Meta::default()
        })
    }

    fn lookup(&mut self, _: &mut Context, _: usize, name: &[u8]) -> Answer<usize> {
        let found = NAMES.iter().position(|known| *known == name);
        found.map(|at| at + 1).ok_or(Failure::Errno(ENOENT))
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        _: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let mut at = position;
        for name in NAMES.iter().skip(position as usize) {
            if !into.add(at + 2, at + 1, s::IFREG, name) {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    fn open(
        &mut self,
        _: &mut Context,
        node: usize,
        flags: u64,
        _: &mut (),
    ) -> Answer<Opened<usize>> {
        let mode = self.meta(node)?.mode;
        if let (true, Some(file)) = (flags & o::ACCMODE != o::RDONLY, node.checked_sub(1)) {
            if self.mapped.use_of(self.files[file].file).1 {
                return Err(Failure::Errno(ETXTBSY));
            }
        }
        let kind = layout::default_kind(mode);
        Ok(Opened { node, kind })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let node = handle.node - 1;
        let (file, size) = (self.files[node].file, self.files[node].size);
        let length = length.min(size.saturating_sub(offset) as usize);
        if length == 0 {
            return Ok(Data::default());
        }
        let (page, inside) = (offset / PAGE, (offset % PAGE) as usize);
        let most = (inside + length).div_ceil(BYTES) as u64;
        let Some((slot, count)) = self.cache.run(file, page, most) else {
            let loaded = self.load(node, page, page + most.min(REQUEST));
            self.plan(cx);
            return Err(match loaded {
                Ok(()) => Failure::Wait(key(node, page)),
                Err(Full) => Failure::Errno(ENOMEM),
            });
        };
        let bytes = self.cache.memory().pages(slot, count);
        let rest = &bytes[inside..];
        Ok((&rest[..rest.len().min(length)]).into())
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let node = handle.node - 1;
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            if at >= LARGEST as u64 {
                break;
            }
            let (page, inside) = (at / PAGE, (at % PAGE) as usize);
            let found = self.page_for(node, page);
            self.plan(cx);
            let (slot, fresh) = match found {
                Ok(found) => found,
                Err(_) if done > 0 => break,
                Err(failure) => return Err(failure),
            };
            let count = (BYTES - inside).min(length - done);
            let bytes = self.cache.memory().pages(slot, 1);
            if fresh {
                bytes.fill(0);
            }
            let fetched = cx.fetch(done, &mut bytes[inside..inside + count]);
            let file = self.files[node].file;
            self.cache.mark_dirty(file, page, time::monotonic());
            if let Err(failure) = fetched {
                if done == 0 {
                    return Err(failure);
                }
                break;
            }
            done += count;
            let stored = &mut self.files[node];
            if at + count as u64 > stored.size {
                stored.size = at + count as u64;
                let pages = stored.size.div_ceil(PAGE);
                self.mapped
                    .resize(&mut self.cache, file, pages)
                    .map_err(|_| Failure::Errno(ENOMEM))?;
            }
        }
        match done {
            0 if length > 0 => Err(Failure::Errno(EFBIG)),
            done => Ok(done),
        }
    }

    fn truncate(&mut self, _: &mut Context, node: usize, size: u64) -> Answer<()> {
        if size > LARGEST as u64 {
            return Err(Failure::Errno(EFBIG));
        }
        self.write_behind();
        let stored = &mut self.files[node - 1];
        let pages = size.div_ceil(PAGE);
        self.mapped
            .resize(&mut self.cache, stored.file, pages)
            .map_err(|_| Failure::Errno(ETXTBSY))?;
        if size < stored.size {
            self.cache.remove(stored.file, pages, u64::MAX);
            let (from, to) = (size as usize, stored.size as usize);
            // (No page is dirty: what is zeroed here stays so.)
            stored.disk[from..to.next_multiple_of(BYTES)].fill(0);
            if let Some(slot) = self.cache.slot(stored.file, size / PAGE) {
                let inside = from % BYTES;
                self.cache.memory().pages(slot, 1)[inside..].fill(0);
            }
        }
        self.files[node - 1].size = size;
        Ok(())
    }

    fn sync(&mut self, _: &mut Context, _: &mut Handle<Self>) -> Answer<()> {
        self.write_behind();
        Ok(())
    }

    fn map(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        _: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        let stored = &self.files[handle.node - 1];
        let pages = stored.size.div_ceil(PAGE);
        let portal = self.mapped.map(stored.file, pages, shared_writable);
        Ok((portal.ok_or(Failure::Errno(ENOMEM))?, pages))
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        if pulse.badge != WATCHER {
            return;
        }
        while let Some(request) = paging::wanted() {
            match request {
                Request::Pages { tag, first, pages } => {
                    let Some(node) = self.node_of(tag) else {
                        paging::refuse(tag, first, pages);
                        continue;
                    };
                    let file = self.files[node].file;
                    self.mapped.want(file, first, pages);
                    self.page_in(node);
                }
                Request::Soon { tag, first, pages } => {
                    if let Some(node) = self.node_of(tag) {
                        // What there is no room for need not be there.
                        let _ = self.load(node, first, first + pages.min(REQUEST));
                    }
                }
                Request::Sync { ticket, .. } => {
                    self.write_behind();
                    paging::synced(ticket, 0);
                }
                Request::Unused { tag } => {
                    if let Some(node) = self.node_of(tag) {
                        let file = self.files[node].file;
                        let (all, now) = ((0, u64::MAX), time::monotonic());
                        self.mapped.collect(&mut self.cache, file, all, now);
                        self.mapped.unused(file);
                        let how = match self.read {
                            0..1000 => "in part",
                            _ => "whole",
                        };
                        if node == NAMES.len() - 1 {
                            log!("the large program was read {how}");
                        }
                    }
                }
            }
        }
        self.plan(cx);
    }

    fn tick(&mut self, cx: &mut Context) {
        self.finish_loads(cx);
        let now = time::monotonic();
        if now >= self.next_round {
            self.next_round = now + PERIOD;
            self.write_behind();
            self.mapped.again(&mut self.cache);
        }
        self.plan(cx);
    }
}
