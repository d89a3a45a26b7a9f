//! Objects that change: the maker of a memory object puts pages into it and takes pages out, or cuts it, and all mappings of it follow.
//!
//! Nobody keeps who maps which object: all regions of all spaces are looked through. Files that are mapped are seldom cut, and never while a program that runs was
//! started from them (ETXTBSY).

use crate::nucleus::Nucleus;
use crate::object::MAX_PAGES;
use crate::pages::{Kinds, Pages, CHUNK};
use crate::region::Region;
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{Errno, Object, Space, Vm, BATCH, NOBODY};
use cairn_abi::layout::PAGE;
use cairn_idl::errno::*;
use cairn_idl::vm::flags;

/// The pages of a space where a region shows pages `from..to` of its object.
fn places(region: &Region, from: u64, to: u64) -> (u64, u64) {
    let end = to.saturating_sub(region.offset).min(region.pages());
    let start = from.saturating_sub(region.offset).min(end);
    (region.start + start, region.start + end)
}

impl<N: Nucleus> Vm<N> {
    /// The object whose portal comes with the request, if the caller is who it belongs to in this respect.
    fn object_of(
        &mut self,
        r: &Request,
        index: usize,
        owner: fn(&Object) -> Handle,
    ) -> Result<u32, Errno> {
        let badge = match r.portals {
            1 => self.nucleus.portal_badge(r.words[7] as u32).ok_or(EBADF)?,
            _ => return Err(EINVAL),
        };
        let number = self.object_by_badge(badge).ok_or(EBADF)?;
        let handle = self.spaces.get(index).ok_or(ESRCH)?.handle;
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        match owner(object) == handle {
            true => Ok(number),
            false => Err(EPERM),
        }
    }

    /// If its maker asks.
    pub(crate) fn own_object(&mut self, r: &Request, index: usize) -> Result<u32, Errno> {
        self.object_of(r, index, |object| object.maker)
    }

    /// The same, or if it is FRESH and TOLD, who asked for it first. For what changes nothing of the object.
    pub(crate) fn told_object(&mut self, r: &Request, index: usize) -> Result<u32, Errno> {
        self.object_of(r, index, |object| match object.told {
            Some(_) => object.origin,
            None => object.maker,
        })
    }

    /// OBJECT_MAPPED.
    pub(crate) fn object_mapped(&mut self, r: &Request, index: usize) -> Result<u64, Errno> {
        let number = self.told_object(r, index)?;
        Ok(self.objects.get(number as usize).ok_or(EBADF)?.mapped)
    }

    /// OBJECT_CHANGE.
    pub(crate) fn object_change(&mut self, r: &Request, index: usize) -> Result<u64, Errno> {
        let [_, first, length, ..] = r.words;
        let count = r.out_len as u64 / 8;
        let number = self.own_object(r, index)?;
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        let end = first.checked_add(count).ok_or(EINVAL)?;
        if !r.out_len.is_multiple_of(8) || end > length || length > MAX_PAGES {
            return Err(EINVAL);
        }
        let (old, writable) = (object.len, object.writable);
        if length < old && self.runs(number) {
            return Err(ETXTBSY);
        }
        // Slots for the new pages, twice, the lists of what is cut off, and chunks that spaces share and no longer can.
        let lists = 2 * object.pages.chunks() * size_of::<u64>();
        let slots = object.pages.growth((count / CHUNK + 2) as usize);
        let mut room = 2 * slots + lists + 2 * r.out_len;
        for (start, end) in [(first, end), (length.min(old), old)] {
            if object.mapped > 0 && object.pages.count(start, end) > 0 {
                room += self.hiding_takes(number, start, end);
            }
        }
        if !self.heap_has(room) {
            return Err(ENOMEM);
        }
        let mut new = Pages::default();
        if let Err(errno) = self.collect(r, index, (0, count), writable, &mut new) {
            new.drain(&mut self.frames, 0, u64::MAX);
            return Err(errno);
        }
        // Everything is there: change things.
        let mut written = 0;
        let handle = self
            .objects
            .get(number as usize)
            .map_or(NOBODY, |o| o.handle);
        if length < old {
            self.hide(number, length, old, true);
        }
        let mut page = first;
        while page < end {
            let other = |vm: &Self, page: u64| {
                let object = vm.objects.get(number as usize);
                let before = object.and_then(|object| object.pages.get(page));
                (page < end && before.map(|p| p.frame) != new.get(page - first).map(|p| p.frame))
                    .then_some(before.is_some())
            };
            let start = page;
            let mut any = false;
            while let Some(had) = other(self, page) {
                any |= had;
                page += 1;
            }
            if any {
                self.hide(number, start, page, false);
            }
            if let Some(object) = self.objects.get_mut(number as usize) {
                written += object.pages.marked(start, page);
                object.pages.drain(&mut self.frames, start, page);
                for at in start..page {
                    if let Some(found) = new.get(at - first) {
                        // Its own reference; that of the list goes below.
                        self.frames.retain(found.frame);
                        object.pages.set(&mut self.frames, at, found.frame, false);
                    }
                }
            }
            page += 1;
        }
        new.drain(&mut self.frames, 0, u64::MAX);
        if let Some(object) = self.objects.get_mut(number as usize) {
            written += object.pages.marked(length, u64::MAX);
            let beyond = object.pages.split_off(length.next_multiple_of(CHUNK));
            object.pages.drain(&mut self.frames, length, u64::MAX);
            self.frames.drop_all(beyond);
            object.len = length;
        }
        self.try_again(handle, |page| {
            (first..end).contains(&page) || page >= length
        });
        Ok(written)
    }

    /// The regions that show pages `from..to` of an object, with those pages, from a place (space and page) on.
    pub(crate) fn regions_of(
        &self,
        number: u32,
        (from, to): (u64, u64),
        place: (usize, u64),
    ) -> impl Iterator<Item = (usize, &Space, &Region, (u64, u64))> {
        let spaces = self.spaces.iter().filter(move |s| s.0 >= place.0);
        spaces.flat_map(move |(index, space)| {
            let first = if index == place.0 { place.1 } else { 0 };
            let regions = space.regions.overlapping(first, u64::MAX);
            regions.filter_map(move |region| {
                let pages = places(region, from, to);
                (region.object == number && pages.0 < pages.1 && pages.0 >= first)
                    .then_some((index, space, region, pages))
            })
        })
    }

    /// Whether a program was started from it.
    pub(crate) fn runs(&self, number: u32) -> bool {
        self.regions_of(number, (0, u64::MAX), (0, 0))
            .any(|(_, _, region, _)| u64::from(region.flags) & flags::PROGRAM != 0)
    }

    /// Most heap that [`Vm::hide`] takes.
    pub(crate) fn hiding_takes(&self, number: u32, from: u64, to: u64) -> usize {
        if from >= to {
            return 0;
        }
        self.regions_of(number, (from, to), (0, 0))
            .map(|(_, space, _, (start, end))| {
                let chunks = space.pages.overlapping(start, end).count();
                space.pages.growth(chunks)
            })
            .sum()
    }

    /// Pages `from..to` of an object leave all mappings; `even_copies`: what programs wrote privately goes as well.
    fn hide(&mut self, number: u32, from: u64, to: u64, even_copies: bool) {
        let object = self.objects.get(number as usize);
        if object.is_none_or(|object| object.mapped == 0) {
            return;
        }
        let mut next = (0, 0);
        loop {
            let found = self
                .regions_of(number, (from, to), next)
                .next()
                .map(|(index, _, region, pages)| (index, region.shared(), pages));
            let Some((index, shared, (start, end))) = found else {
                return;
            };
            next = (index, end);
            if shared || even_copies {
                self.drop_pages(index, start, end);
            } else {
                self.drop_file_pages(index, start, end);
            }
        }
    }

    /// Drop the pages of a range that show what their object has there.
    fn drop_file_pages(&mut self, index: usize, start: u64, end: u64) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let (nucleus, frames, slot) = (&mut self.nucleus, &mut self.frames, space.slot);
        let mut at = start;
        while let Some((from, to)) = space.pages.next_file(at, end) {
            space.pages.runs(from, to, 0, BATCH, Kinds::One, |run| {
                let _ = nucleus.unmap(slot, run.page * PAGE, run.pages);
            });
            space.pages.drain(frames, from, to);
            at = to;
        }
    }
}
