//! The successor of a pager that ended: its objects are given over, with those who wait for their pages. See docs/cache.md.
//!
//! A pager leaves a successor if it had a keepsake (a FRESH object at [`KEEPSAKE`]) when it said OBJECT_WATCH: who says it next with the same one there is the successor. So nobody has to be named: only who starts components has the keepsake's portal, and when it closes it there will be no successor.

use crate::accounts::ONE_RECORD;
use crate::nucleus::{Answer, Nucleus, Pass};
use crate::pages::{Pages, CHUNK};
use crate::region::Region;
use crate::region::ANONYMOUS;
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{
    drop_if_unused, hardware, with_tables, Errno, Hears, Object, Space, Vm, NOBODY,
};
use crate::wanted::{Pager, Pagers};
use alloc::vec::Vec;
use cairn_abi::layout::{KEEPSAKE, PAGE};
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::{prot, BADGE_OBJECT_FIRST, CACHE_LEFT};

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

    /// Whether a space's successor is awaited, or will be: a pager's portals go first if somebody destroys its domain, before `init` tells of its end.
    pub(crate) fn leaves_a_successor(&mut self, space: Handle) -> bool {
        if self.pagers.has_ended(space) {
            return true;
        }
        let lasts = |pager: &&Pager| pager.space == space && pager.keepsake.is_some();
        let pager = self.pagers.list.iter().find(lasts);
        let domain = pager.and_then(|pager| self.domain(pager.domain));
        domain.is_some_and(|domain| self.nucleus.has_ended(domain.slot))
    }

    /// A pager's space is gone: whether there may be a successor.
    pub(crate) fn has_successor(&mut self, at: usize) -> bool {
        let pager = &mut self.pagers.list[at];
        let kept = pager.keepsake.and_then(|it| self.objects.resolve(it));
        let kept = kept.and_then(|number| self.objects.get(number));
        pager.ended = kept.is_some_and(|object| object.portals > 0);
        pager.ended
    }

    /// A lender's space is gone, and a successor is awaited: it inherits the cache's frames as one more object, whose pages are those of the cache.
    pub(crate) fn leave_cache(&mut self, space: &Space, (start, end): (u64, u64)) {
        if !self.pagers.has_ended(space.handle) || space.pages.count(start, end) == 0 {
            return;
        }
        let chunks = space.pages.overlapping(start, end).count();
        let mut pages = Pages::default();
        // Without room for that they are free.
        if !self.heap_room(pages.growth(chunks)) {
            return;
        }
        let Some(handle) = self.objects.next_handle() else {
            return;
        };
        for chunk in (start..end).step_by(CHUNK as usize) {
            let behind = end.min(chunk + CHUNK);
            if space.pages.is_empty_in(chunk, behind) {
                continue;
            }
            for page in chunk..behind {
                if let Some(found) = space.pages.get(page) {
                    self.frames.retain(found.frame);
                    pages.set(&mut self.frames, page - start, found.frame, false);
                }
            }
        }
        let made = self.objects.insert(Object {
            pages,
            maker: space.handle,
            origin: space.handle,
            account: space.account,
            len: end - start,
            handle,
            tag: CACHE_LEFT,
            hears: Hears::Wanted,
            idle: false,
            rests: false,
            shared: false,
            writable: true,
            with_maker: false,
            portals: 0,
            inherited: false,
            mapped: 0,
            programs: 0,
            asked: false,
            behind: 0,
            times: 0,
        });
        let account = space.account;
        self.count_records(account, made.map_or(0, |_| ONE_RECORD as i64));
    }

    /// Caches that nobody has inherited yet are given up. False: there are none.
    pub(crate) fn drop_left_caches(&mut self) -> bool {
        let left =
            |object: &Object| object.is_watched() && object.tag == CACHE_LEFT && object.unused();
        let found = self.objects.iter().find(|(_, object)| left(object));
        let Some((number, _)) = found else {
            return false;
        };
        drop_if_unused(&mut self.objects, &mut self.frames, number as u32);
        true
    }

    /// Nobody comes after a maker: what only its successor could have goes.
    pub(crate) fn drop_left(&mut self, maker: Handle) {
        let left = |object: &Object| object.maker == maker && object.unused();
        let all = self.objects.iter().filter(|(_, object)| left(object));
        let numbers: Vec<usize> = all.map(|(number, _)| number).collect();
        for number in numbers {
            drop_if_unused(&mut self.objects, &mut self.frames, number as u32);
        }
    }

    /// The last portal to an object is gone: if it was a keepsake nobody comes after who left it.
    pub(crate) fn no_successor(&mut self, keepsake: Handle) {
        let left = |pager: &Pager| pager.ended && pager.keepsake == Some(keepsake);
        while let Some(at) = self.pagers.list.iter().position(left) {
            self.end_pager(at);
        }
    }

    /// OBJECT_WATCH by a successor: what its predecessor made is its own now. False: it is none.
    pub(crate) fn succeed(
        &mut self,
        keepsake: Option<Handle>,
        (new, domain): (Handle, Id),
        watcher: u32,
    ) -> bool {
        let mut list = self.pagers.list.iter_mut();
        let found = list.find(|pager| pager.ended && pager.keepsake == keepsake);
        let Some(pager) = found.filter(|_| keepsake.is_some()) else {
            return false;
        };
        let old = core::mem::replace(&mut pager.space, new);
        pager.domain = domain;
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
            (number, o.handle, o.tag, o.len, room)
        });
        let (number, handle, tag, pages, room) = found.ok_or(ENOENT)?;
        let writes = |region: &Region| {
            region.object == number as u32
                && region.shared()
                && u64::from(region.most) & prot::WRITE != 0
        };
        let writable = self.spaces.iter().any(|(_, space)| {
            space.regions.may_show(number as u32) && space.regions.iter().any(writes)
        });
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
