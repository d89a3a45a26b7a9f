//! The server's death and what its successor does: open files go on (the framework keeps them: [`cairn_resmgr::keep`]), and whose data was lost is told.
//!
//! What dies with the server is what a cut of power would take: pages that were not written, and transactions that were not committed. The successor replays the log; a file that is there
//! with its generation goes on, also without a name. Data is marked as *not safe* when it changes, and safe again when it is seen to be on the disk: after fsync, and once a second.

use crate::memory::{Memory, PAGE64};
use crate::server::Ext4;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use cairn_block::Device;
use cairn_cache::mapped::Objects;
use cairn_cache::{File, Put, Slot};
use cairn_ext4::Error;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Failure;
use cairn_rt::paging::Inherited;

/// Runs of an object's pages that are asked for at a time, and pages that are taken out at a time.
const RUNS: usize = 64;
const TAKEN: usize = 512;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// The data of a file was changed.
    #[inline]
    pub(crate) fn note_changed(&mut self, ino: u32) {
        if let Some(node) = self.nodes.get_mut(ino) {
            if !core::mem::replace(&mut node.unsafe_data, true) {
                self.changed.push(ino);
                self.update_mark(ino);
            }
        }
    }

    /// Somebody has this file open, whose data is not safe, or nobody any more: it is marked as long as there is somebody to be told.
    #[cold]
    pub(crate) fn update_mark(&mut self, ino: u32) {
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        let told = !self.left.keeps(node.file);
        match (node.unsafe_data && node.opens != 0 && told, node.mark) {
            (true, None) => node.mark = self.marks.add(node.identity()),
            (false, Some(mark)) => {
                self.marks.remove(mark);
                node.mark = None;
            }
            _ => {}
        }
    }

    /// Whose data is on the disk now needs no mark.
    pub(crate) fn note_safe(&mut self) {
        let mut index = 0;
        while let Some(&ino) = self.changed.get(index) {
            match self.is_safe(ino) {
                true => {
                    self.changed.swap_remove(index);
                    if let Some(node) = self.nodes.get_mut(ino) {
                        node.unsafe_data = false;
                    }
                    self.update_mark(ino);
                }
                false => index += 1,
            }
        }
    }

    /// The same for one file, which was just written out.
    pub(crate) fn note_synced(&mut self, ino: u32) {
        let unsafe_data = self.nodes.get(ino).is_some_and(|node| node.unsafe_data);
        if !unsafe_data || !self.is_safe(ino) {
            return;
        }
        if let Some(node) = self.nodes.get_mut(ino) {
            node.unsafe_data = false;
        }
        self.changed.retain(|other| *other != ino);
        self.update_mark(ino);
    }

    fn is_safe(&self, ino: u32) -> bool {
        let Some(node) = self.nodes.get(ino) else {
            return true;
        };
        let written = node
            .file
            .is_none_or(|file| self.cache.pending(file, 0, u64::MAX) == (false, false));
        written && self.fs.unsynced(ino, true).is_none()
    }

    /// Find what a predecessor had open (as often as it had), before anything is freed. `wait` as in [`Ext4::open`].
    pub(crate) fn find_open(
        &mut self,
        open: &[u64],
        lost: &BTreeSet<u64>,
        wait: &mut impl FnMut(&mut M, &mut D),
    ) {
        for &identity in open {
            let Some(ino) = self.until_there(wait, |server| server.find_again(identity)) else {
                continue;
            };
            if let Some(node) = self.nodes.get_mut(ino) {
                node.opens += 1;
                self.found.insert(identity, lost.contains(&identity));
            }
        }
    }

    /// Something that may lack metadata is tried until it does not; None: it cannot be had.
    pub(crate) fn until_there<R>(
        &mut self,
        wait: &mut impl FnMut(&mut M, &mut D),
        mut what: impl FnMut(&mut Self) -> Answer<R>,
    ) -> Option<R> {
        loop {
            match what(self) {
                Ok(done) => return Some(done),
                Err(Failure::Wait(_)) => {
                    self.go_on();
                    if self.requests.idle() {
                        continue;
                    }
                    wait(self.cache.memory(), self.requests.device());
                    self.go_on();
                }
                Err(_) => return None,
            }
        }
    }

    /// The framework has what was found: the marks begin anew. (Whoever is still to be told is remembered with its open file.)
    pub fn recovered(&mut self) {
        self.found.clear();
        self.marks.clear();
        for ino in self.changed.clone() {
            if let Some(node) = self.nodes.get_mut(ino) {
                node.mark = None;
            }
            self.update_mark(ino);
        }
    }

    /// Files that programs have mapped go on. The pages that they have are the predecessor's: what may have been written through the mappings is taken over, the rest is read again when it is touched.
    pub(crate) fn find_mapped(
        &mut self,
        inherited: Vec<Inherited>,
        wait: &mut impl FnMut(&mut M, &mut D),
    ) {
        for it in inherited {
            let found = self.until_there(wait, |server| {
                let ino = server.find_again(it.tag)?;
                Ok((ino, server.file(ino)?))
            });
            let kept = found.filter(|_| it.writable && self.fs.is_writable());
            self.clear_object(&it, kept, wait);
            let Some((ino, file)) = found else {
                // What is mapped of a file that is not there any more is beyond its end.
                let objects = self.mapped.objects();
                let _ = objects.change(it.object, 0, &[], 0);
                objects.close(it.object);
                continue;
            };
            let (tag, pages) = (it.tag, it.pages);
            self.mapped
                .inherit(file, tag, it.object, pages, it.writable);
            let mut size = 0;
            if let Some(node) = self.nodes.get_mut(ino) {
                node.mapped = true;
                size = node.size;
            }
            if size.div_ceil(PAGE64) < pages {
                // It grew, and that was not committed. (A program that runs keeps what it has.)
                let _ = self.resize_mapped(ino, size);
            }
        }
    }

    /// An object loses all pages, but those of the file that is to be `kept`, which become the cache's, and count as changed.
    fn clear_object(
        &mut self,
        it: &Inherited,
        kept: Option<(u32, File)>,
        wait: &mut impl FnMut(&mut M, &mut D),
    ) {
        loop {
            let mut runs = [(0, 0); RUNS];
            let objects = self.mapped.objects();
            let told = objects.written(it.object, 0, it.pages, &mut runs);
            let count = told.map_or(0, |(count, ..)| count.min(RUNS));
            for &(mut first, pages) in &runs[..count] {
                let end = first + pages;
                while first < end {
                    let next = end.min(first + TAKEN as u64);
                    let (mut well, mut slots) = (true, [None; TAKEN]);
                    for (page, slot) in (first..next).zip(&mut slots) {
                        if let Some(kept) = kept {
                            let rescued = self.rescue(it, kept, page, wait);
                            well &= rescued.is_some();
                            *slot = rescued.flatten();
                        }
                    }
                    let slots = &slots[..(next - first) as usize];
                    let objects = self.mapped.objects();
                    let gone = objects.change(it.object, first, slots, it.pages);
                    if !well || gone != Ok(0) {
                        let log = self.options.log;
                        log(format_args!(
                            "what was written to a mapped file was lost (inode {}, pages {first} to {next})",
                            it.tag as u32
                        ));
                    }
                    first = next;
                }
            }
            if count < RUNS {
                return;
            }
        }
    }

    /// A page of a mapped file as programs see it, and go on writing to it, is the cache's: in this slot, if it is not beyond the file's end. None: there is no room for it.
    fn rescue(
        &mut self,
        it: &Inherited,
        (ino, file): (u32, File),
        page: u64,
        wait: &mut impl FnMut(&mut M, &mut D),
    ) -> Option<Option<Slot>> {
        let size = self.nodes.get(ino).map_or(0, |node| node.size);
        if page >= size.div_ceil(PAGE64) {
            return Some(None);
        }
        // What was dirty is there already, and is the same.
        let (slot, fresh) = match self.cache.put(file, page) {
            Ok(Put::Fresh(slot)) => (slot, true),
            Ok(Put::There(slot)) => (slot, false),
            _ => return None,
        };
        if !self.cache.memory().adopt(it.object, page, slot) {
            if fresh {
                self.cache.remove(file, page, page + 1);
            }
            return None;
        }
        self.cache.set_shown(file, page, true);
        self.cache.mark_dirty(file, page, self.clock);
        // Without a promise it gets blocks if there are some when it is written.
        let (from, to) = (page * PAGE64, size.min((page + 1) * PAGE64));
        let _ = self.until_there(wait, |server| server.promise(ino, from, to, true));
        self.note_changed(ino);
        let now = self.now;
        if let Some(node) = self.nodes.get_mut(ino) {
            (node.mtime, node.ctime) = (now, now);
        }
        self.touch(ino);
        Some(Some(slot))
    }

    /// An inode that there should be, if it is the same still. What is asked for may be nonsense: nothing is damaged if it is not found.
    pub(crate) fn find_again(&mut self, identity: u64) -> Answer<u32> {
        let (ino, generation) = (identity as u32, (identity >> 32) as u32);
        match self.fs.inode(ino) {
            Err(error @ Error::Need { .. }) => self.act(|_| Err(error)),
            Ok(inode) if inode.generation == generation => {
                self.load(ino)?;
                // It may have been cut when the server died.
                if inode.links == 0 && inode.is_regular() && self.fs.is_writable() {
                    let now = self.now;
                    while !self.act(|fs| fs.cut_rest(ino, now))? {}
                }
                Ok(ino)
            }
            _ => Err(Failure::Errno(cairn_idl::errno::ENOENT)),
        }
    }
}
