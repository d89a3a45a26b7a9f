//! Files mapped by programs: memory objects that show the cache's pages.
//!
//! An object has all pages of its file from the beginning, and they stay as long as the server knows of it. What programs write through a shared mapping is found when somebody asks for it to be
//! written: then all such pages count as changed.

use crate::keys;
use crate::memory::{Memory, PAGE64};
use crate::server::{fail, Ext4};
use alloc::vec::Vec;
use cairn_block::Device;
use cairn_cache::{Put, Slot};
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::Portal;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// The object of a file, with all its pages.
    pub(crate) fn map_file(&mut self, ino: u32, shared_writable: bool) -> Answer<(Portal, u64)> {
        self.load(ino)?;
        if shared_writable && !self.fs.is_writable() {
            return fail(EROFS);
        }
        let node = self.node(ino)?;
        let pages = node.size.div_ceil(PAGE64);
        let place = usize::from(shared_writable);
        if let Some(portal) = node.objects[place] {
            return Ok((portal, pages.max(1)));
        }
        let file = self.file(ino)?;
        // All of them are asked for before the first is waited for.
        for page in 0..pages {
            if self.cache.get(file, page).is_none() && !self.bring(ino, page, pages)? {
                return Err(Failure::Wait(keys::pages(ino)));
            }
            if shared_writable {
                // Programs may write anywhere below the end.
                self.promise(ino, page, true)?;
            }
        }
        let list = self.slots(ino, 0, pages.max(1));
        let portal = self
            .cache
            .memory()
            .object(&list, shared_writable)
            .map_err(|_| Failure::Errno(ENOMEM))?;
        for page in 0..pages {
            self.cache.set_shown(file, page, true);
        }
        self.node(ino)?.objects[place] = Some(portal);
        Ok((portal, pages.max(1)))
    }

    fn slots(&mut self, ino: u32, first: u64, to: u64) -> Vec<Option<Slot>> {
        let Some(file) = self.nodes.get(ino).and_then(|node| node.file) else {
            return Vec::new();
        };
        (first..to).map(|page| self.cache.get(file, page)).collect()
    }

    /// Pages `first..to` are others than they were: the objects follow, and so does whoever has the file mapped. An object that cannot follow (a program that runs is not cut; no memory) is for the
    /// mappings that exist only: they go on seeing what was there.
    #[cold]
    pub(crate) fn change_objects(&mut self, cx: &mut Context, ino: u32, first: u64, to: u64) {
        let Some(node) = self.nodes.get(ino) else {
            return;
        };
        let (pages, objects, file) = (node.size.div_ceil(PAGE64), node.objects, node.file);
        let first = first.min(pages);
        let to = to.min(pages).max(first);
        if let Some(file) = file {
            // What is new and was not written is zeros; where programs may write it has blocks or the promise of some.
            for page in first..to {
                if let Ok(Put::Fresh(slot)) = self.cache.put(file, page) {
                    let bytes = self.cache.memory().bytes_mut(slot, 0, PAGE64 as usize);
                    bytes.fill(0);
                }
                if objects[1].is_some() {
                    let _ = self.promise(ino, page, true);
                }
            }
        }
        let list = self.slots(ino, first, to);
        for (place, portal) in objects.iter().enumerate() {
            let Some(portal) = *portal else { continue };
            if !self.cache.memory().change(portal, first, &list, pages) {
                if let Some(node) = self.nodes.get_mut(ino) {
                    node.objects[place] = None;
                }
                cx.transport.close(portal);
            }
        }
        for page in first..to {
            if let Some(file) = file {
                self.cache.set_shown(file, page, true);
            }
        }
    }

    /// What programs may have written through shared mappings of a file counts as changed.
    pub(crate) fn note_mapped(&mut self, ino: u32) {
        let Some(node) = self.nodes.get(ino) else {
            return;
        };
        let (Some(file), Some(_)) = (node.file, node.objects[1]) else {
            return;
        };
        for page in 0..node.size.div_ceil(PAGE64) {
            self.cache.mark_dirty(file, page, self.clock);
        }
    }
}
