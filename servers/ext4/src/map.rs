//! Files mapped by programs: memory objects of the cache's pages, which come when they are touched ([`cairn_cache::Mapped`]).
//!
//! Pages are shown only from [`Ext4::run_faults`], where no request is half done: a page that is being filled by a write is never seen.

use crate::memory::{Memory, PAGE, PAGE64};
use crate::server::{fail, Ext4};
use alloc::vec::Vec;
use cairn_block::Device;
use cairn_cache::mapped::{Objects, Refused};
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::paging::Request;
use cairn_rt::Portal;

/// Pages that are read together when one of them is touched (aligned): 128 KiB.
const AROUND: u64 = 32;
/// Pages that go at a time when there is no room.
const ROOM: u32 = 64;

/// An msync under way: who waits, for which file, and how far it is (as [`Ext4::sync_file`] has it).
pub(crate) struct Syncing {
    ticket: u64,
    ino: u32,
    progress: u64,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// The object of a file.
    pub(crate) fn map_file(
        &mut self,
        cx: &mut Context,
        ino: u32,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        self.load(ino)?;
        if shared_writable && !self.may_write() {
            return fail(EROFS);
        }
        let file = self.file(ino)?;
        let pages = self.node(ino)?.size.div_ceil(PAGE64);
        let tag = self.node(ino)?.identity();
        let portal = self.mapped.map_as(file, tag, pages, shared_writable);
        let portal = portal.ok_or(Failure::Errno(ENOMEM))?;
        let node = self.node(ino)?;
        node.mapped = true;
        if shared_writable {
            // Nobody says when something is written.
            self.arm(cx);
        }
        Ok((portal, pages.max(1)))
    }

    pub(crate) fn owner(&self, tag: u64) -> Option<u32> {
        let node = self.nodes.get(tag as u32)?;
        (node.identity() == tag && node.file.is_some()).then_some(node.ino)
    }

    /// What those who have files mapped want.
    pub(crate) fn answer_mapped(&mut self) {
        while let Some(request) = self.cache.memory().asked() {
            match request {
                Request::Pages { tag, first, pages } => {
                    let owner = self.owner(tag).and_then(|ino| self.nodes.get_mut(ino));
                    let node = owner.and_then(|node| node.file.map(|file| (node, file)));
                    let Some((node, file)) = node else {
                        self.mapped.objects().refuse(tag, first, pages);
                        continue;
                    };
                    node.mapped = true;
                    self.faults.insert(node.ino);
                    self.mapped.want(file, first, pages);
                }
                Request::Soon { tag, first, pages } => {
                    if let Some(ino) = self.owner(tag) {
                        // If it cannot be begun now, who touches them will do it.
                        let _ = self.bring(ino, first, first.saturating_add(pages));
                    }
                }
                Request::Sync { tag, ticket, .. } => match self.owner(tag) {
                    Some(ino) => {
                        self.note_mapped(ino);
                        self.syncs.push(Syncing {
                            ticket,
                            ino,
                            progress: 0,
                        });
                    }
                    None => self.cache.memory().synced(ticket, EIO),
                },
                Request::Unused { tag } => {
                    if let Some(ino) = self.owner(tag) {
                        self.unmapped(ino);
                    }
                }
            }
        }
    }

    /// Nobody has the file mapped any more: what was written counts as changed. `vm` has just said so, and is not asked again: most programs that end leave their libraries so.
    fn unmapped(&mut self, ino: u32) {
        self.note_mapped(ino);
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        node.mapped = false;
        if let Some(file) = node.file {
            self.mapped.unused(file);
        }
        self.drop_unused(ino);
    }

    /// Whether programs have it mapped.
    pub(crate) fn is_mapped(&mut self, ino: u32) -> bool {
        let node = self.nodes.get(ino).filter(|node| node.mapped);
        match node.and_then(|node| node.file) {
            Some(file) => self.mapped.use_of(file).0 != 0,
            None => false,
        }
    }

    /// Whether programs have a file mapped that some may have mapped to be written.
    pub(crate) fn is_mapped_to_write(&mut self) -> bool {
        let files = self.mapped.writable();
        files
            .into_iter()
            .any(|file| self.mapped.use_of(file).0 != 0)
    }

    /// Whether programs have any file mapped.
    pub(crate) fn anything_mapped(&mut self) -> bool {
        let marked = self.nodes.all().filter(|node| node.mapped);
        let marked: Vec<u32> = marked.map(|node| node.ino).collect();
        marked.into_iter().any(|ino| self.is_mapped(ino))
    }

    /// Whether a program that runs was started from it.
    pub(crate) fn is_executed(&mut self, ino: u32) -> bool {
        let node = self.nodes.get(ino).filter(|node| node.mapped);
        let file = node.and_then(|node| node.file);
        file.is_some_and(|file| self.mapped.use_of(file).1)
    }

    /// Pages that programs wait for are shown if they are there, and asked for if they are not.
    pub(crate) fn run_faults(&mut self) {
        for ino in core::mem::take(&mut self.faults) {
            match self.page_in(ino) {
                // Metadata, or room: later.
                Err(Failure::Wait(_)) => {
                    self.faults.insert(ino);
                }
                Err(_) => {
                    if let Some(file) = self.nodes.get(ino).and_then(|node| node.file) {
                        while let Some((first, count)) = self.mapped.missing(file, 0) {
                            self.mapped.refuse(file, first, count);
                        }
                    }
                }
                Ok(()) => {}
            }
        }
    }

    fn page_in(&mut self, ino: u32) -> Answer<()> {
        let file = self.file(ino)?;
        self.mapped.show(&mut self.cache, file);
        let mut from = 0;
        while let Some((first, count)) = self.mapped.missing(file, from) {
            from = first + count;
            // With what lies around, as far as the file goes.
            let pages = self.node(ino)?.size.div_ceil(PAGE64);
            let to = from.next_multiple_of(AROUND).min(pages).max(from);
            self.begin_loads(ino, first / AROUND * AROUND, to)?;
        }
        // What needed no reading is there already.
        self.mapped.show(&mut self.cache, file);
        Ok(())
    }

    /// Pages go, also such as programs have mapped, if nobody wrote to them. False: nothing could go.
    pub(crate) fn make_room(&mut self) -> bool {
        if self.filling {
            return false;
        }
        let (mapped, now) = (&mut self.mapped, self.clock);
        let shrunk = self.cache.shrink(ROOM, |cache, file, page, _| {
            mapped.hide(cache, file, page, now)
        });
        shrunk.released > 0
    }

    /// msync goes on, as fsync does.
    pub(crate) fn run_syncs(&mut self, cx: &mut Context) {
        for mut sync in core::mem::take(&mut self.syncs) {
            let before = core::mem::replace(&mut cx.progress, sync.progress);
            let done = self.sync_file(cx, sync.ino, true);
            sync.progress = core::mem::replace(&mut cx.progress, before);
            match done {
                Ok(()) => self.cache.memory().synced(sync.ticket, 0),
                Err(Failure::Errno(number)) => self.cache.memory().synced(sync.ticket, number),
                Err(_) => self.syncs.push(sync),
            }
        }
    }

    /// What programs wrote through shared mappings of a file counts as changed, and gets the promise of blocks.
    pub(crate) fn note_mapped(&mut self, ino: u32) {
        let Some(file) = self.nodes.get(ino).and_then(|node| node.file) else {
            return;
        };
        let mut runs = Vec::new();
        let all = (0, u64::MAX);
        let told = |first, pages| runs.push((first, pages));
        self.mapped
            .collect_and(&mut self.cache, file, all, self.clock, told);
        let mut any = false;
        let size = self.nodes.get(ino).map_or(0, |node| node.size);
        for page in runs.into_iter().flat_map(|(first, n)| first..first + n) {
            // Without a promise it gets blocks if there are some when it is written.
            let (from, to) = (page * PAGE64, size.min((page + 1) * PAGE64));
            if from < to {
                let _ = self.promise(ino, from, to, true);
            }
            any = true;
        }
        if any {
            self.note_changed(ino);
            let now = self.now;
            if let Some(node) = self.nodes.get_mut(ino) {
                node.mtime = now;
                node.ctime = now;
            }
            self.touch(ino);
        }
    }

    /// The same for all files. False: nobody can write in this way.
    pub(crate) fn note_all_mapped(&mut self) -> bool {
        let files = self.mapped.writable();
        for file in &files {
            if let Some(&ino) = self.owners.get(file) {
                self.note_mapped(ino);
            }
        }
        self.mapped.again(&mut self.cache);
        !files.is_empty()
    }

    /// A file's length has changed, or is about to: mappings follow.
    pub(crate) fn resize_mapped(&mut self, ino: u32, size: u64) -> Answer<()> {
        let Some(file) = self.nodes.get(ino).and_then(|node| node.file) else {
            return Ok(());
        };
        let pages = size.div_ceil(PAGE64);
        let resized = self.mapped.resize(&mut self.cache, file, pages);
        resized.map_err(|refused| {
            Failure::Errno(match refused {
                Refused::Executed => ETXTBSY,
                Refused::Failed => ENOMEM,
            })
        })
    }

    /// The file is about to grow: what programs wrote behind its end, in its last page, is no part of it.
    pub(crate) fn clean_tail(&mut self, ino: u32, size: u64) {
        let Some(file) = self.nodes.get(ino).and_then(|node| node.file) else {
            return;
        };
        let (page, from) = (size / PAGE64, (size % PAGE64) as usize);
        let Some(slot) = self.cache.slot(file, page).filter(|_| from != 0) else {
            return;
        };
        let tail = self.cache.memory().bytes_mut(slot, from, PAGE - from);
        if tail.iter().any(|byte| *byte != 0) {
            tail.fill(0);
            self.cache.mark_dirty(file, page, self.clock);
        }
    }
}
