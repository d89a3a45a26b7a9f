//! The successor of a pager that ended: its objects are given over, with those who wait for their pages. See docs/cache.md.
//!
//! A pager leaves a successor if it had a keepsake (a FRESH object at [`KEEPSAKE`]) when it said OBJECT_WATCH: who says it next with the same one there is the successor. So nobody has to be named: only who starts components has the keepsake's portal, and when it closes it there will be no successor.

use crate::nucleus::{Answer, Nucleus, Pass};
use crate::region::ANONYMOUS;
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{hardware, with_tables, Errno, Object, Vm, NOBODY};
use crate::wanted::{Pager, Pagers};
use alloc::vec::Vec;
use cairn_abi::layout::{KEEPSAKE, PAGE};
use cairn_idl::errno::*;
use cairn_idl::vm::{prot, BADGE_OBJECT_FIRST};

impl Pagers {
    /// Whether this space's successor is awaited.
    pub(crate) fn has_ended(&self, space: Handle) -> bool {
        let mut list = self.list.iter();
        list.any(|pager| pager.ended && pager.space == space)
    }
}

impl<N: Nucleus> Vm<N> {
    /// The object that outlives a component.
    pub(crate) fn keepsake_of(&self, index: usize) -> Option<Handle> {
        let region = self.spaces.get(index)?.regions.find(KEEPSAKE / PAGE)?;
        if region.object == ANONYMOUS {
            return None;
        }
        let object = self.objects.get(region.object as usize)?;
        let kept = object.maker == NOBODY && object.portals > 0 && !object.is_watched();
        kept.then_some(object.handle)
    }

    /// A pager's space is gone: whether there may be a successor.
    pub(crate) fn has_successor(&mut self, at: usize) -> bool {
        let pager = &mut self.pagers.list[at];
        let kept = pager.keepsake.and_then(|it| self.objects.resolve(it));
        let kept = kept.and_then(|number| self.objects.get(number));
        pager.ended = kept.is_some_and(|object| object.portals > 0);
        pager.ended
    }

    /// The last portal to an object is gone: if it was a keepsake nobody comes after who left it.
    pub(crate) fn no_successor(&mut self, keepsake: Handle) {
        let left = |pager: &Pager| pager.ended && pager.keepsake == Some(keepsake);
        while let Some(at) = self.pagers.list.iter().position(left) {
            self.end_pager(at);
        }
    }

    /// OBJECT_WATCH by a successor: what its predecessor made is its own now. False: it is none.
    pub(crate) fn succeed(&mut self, keepsake: Option<Handle>, new: Handle, watcher: u32) -> bool {
        let mut list = self.pagers.list.iter_mut();
        let found = list.find(|pager| pager.ended && pager.keepsake == keepsake);
        let Some(pager) = found.filter(|_| keepsake.is_some()) else {
            return false;
        };
        let old = core::mem::replace(&mut pager.space, new);
        self.nucleus
            .close(core::mem::replace(&mut pager.watcher, watcher));
        (pager.ended, pager.told) = (false, true);
        self.nucleus.notify(watcher);
        let made = self.objects.iter().filter(|(_, o)| o.maker == old);
        let made: Vec<usize> = made.map(|(number, _)| number).collect();
        for number in made {
            if let Some(object) = self.objects.get_mut(number) {
                (object.maker, object.inherited) = (new, true);
            }
        }
        // Whatever the predecessor had been told.
        let objects = &self.objects;
        let its = |object: Handle| {
            let object = objects.resolve(object).and_then(|i| objects.get(i));
            object.is_some_and(|object| object.maker == new)
        };
        for missing in &mut self.pagers.missing {
            missing.asked &= !its(missing.object);
        }
        for sync in &mut self.pagers.syncs {
            sync.asked &= !its(sync.object);
        }
        true
    }

    /// OBJECT_INHERIT: replies itself, with the portal.
    pub(crate) fn object_inherit(&mut self, r: &Request, index: usize) -> Result<(), Errno> {
        let own = self.spaces.get(index).ok_or(ESRCH)?.handle;
        let inherited = |o: &Object| o.inherited && o.maker == own && o.is_watched();
        let found = self.objects.iter().find(|(_, o)| inherited(o));
        let found = found.map(|(number, o)| {
            let room = o.pages.growth((o.len / 64 + 2).min(1 << 16) as usize);
            (number, o.handle, o.tag.unwrap_or(0), o.len, room)
        });
        let (number, handle, tag, pages, room) = found.ok_or(ENOENT)?;
        let writable = self
            .regions_of(number as u32, (0, u64::MAX), (0, 0))
            .any(|(_, _, region, _)| region.shared() && u64::from(region.most) & prot::WRITE != 0);
        if !self.heap_has(room) {
            return Err(ENOMEM);
        }
        let answer = Answer {
            pass: Some(Pass::Mint(BADGE_OBJECT_FIRST + handle)),
            ..Answer::new(&[0, tag, pages, u64::from(writable)])
        };
        self.deliver(r.token, &answer)?;
        if let Some(object) = self.objects.get_mut(number) {
            object.portals += 1;
            object.inherited = false;
            object.pages.set_marked(&mut self.frames, 0, pages, true);
        }
        Ok(())
    }

    /// OBJECT_ADOPT.
    pub(crate) fn object_adopt(&mut self, r: &Request, index: usize) -> Result<u64, Errno> {
        let (number, _) = self.watched_by(r, index)?;
        let [_, number_there, address, ..] = r.words;
        let page = address / PAGE;
        if !address.is_multiple_of(PAGE) {
            return Err(EINVAL);
        }
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        let frame = object.pages.get(number_there).ok_or(ENOENT)?.frame;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let region = *space.regions.find(page).ok_or(EFAULT)?;
        if !region.is_own_memory() {
            return Err(EFAULT);
        }
        let growth = space.pages.growth(1);
        if !self.heap_has(growth) {
            return Err(ENOMEM);
        }
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        let bits = hardware(region.prot, false);
        let mapped = with_tables(nucleus, frames, space, tables, |n, slot| {
            n.map(slot, address, frame, bits, 0)
        });
        mapped.map_err(|_| ENOMEM)?;
        frames.retain(frame);
        if let Some(old) = space.pages.set(frames, page, frame, false) {
            frames.release(old);
        }
        Ok(0)
    }
}
