//! Objects that change: the maker of a memory object puts pages into it and takes pages out, or cuts it, and all mappings of it follow.
//!
//! Where a page goes or is replaced it leaves all mappings first ([`crate::taken`]). What a program that runs was started from is never cut (ETXTBSY).

use crate::nucleus::Nucleus;
use crate::object::MAX_PAGES;
use crate::pages::{Page, Pages, CHUNK};
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{Errno, Object, Vm};
use crate::taken::What;
use cairn_idl::errno::*;

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
        self.object_of(r, index, |object| match object.is_told() {
            true => object.origin,
            false => object.maker,
        })
    }

    /// OBJECT_MAPPED.
    pub(crate) fn object_mapped(&mut self, r: &Request, index: usize) -> Result<u64, Errno> {
        let number = self.told_object(r, index)?;
        Ok(self.objects.get(number as usize).ok_or(EBADF)?.mapped)
    }

    /// OBJECT_CHANGE.
    pub(crate) fn object_change(&mut self, r: &Request, index: usize) -> Result<u64, Errno> {
        let number = self.own_object(r, index)?;
        let changed = self.change_object(r, index, number);
        if !matches!(changed, Ok(_) | Err(EAGAIN)) {
            self.give_up_taking(number);
        }
        changed
    }

    fn change_object(&mut self, r: &Request, index: usize, number: u32) -> Result<u64, Errno> {
        let [_, first, length, ..] = r.words;
        let count = r.out_len as u64 / 8;
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        let end = first.checked_add(count).ok_or(EINVAL)?;
        if !r.out_len.is_multiple_of(8) || end > length || length > MAX_PAGES {
            return Err(EINVAL);
        }
        let (handle, old, writable) = (object.handle, object.len, object.writable);
        if length < old && self.runs(number) {
            return Err(ETXTBSY);
        }
        // Slots for the new pages, twice, and the lists of what is cut off.
        let lists = 2 * object.pages.chunks() * size_of::<u64>();
        let slots = object.pages.growth((count / CHUNK + 2) as usize);
        if !self.heap_has(2 * slots + lists + 2 * r.out_len) {
            return Err(ENOMEM);
        }
        let mut new = Pages::default();
        let hidden = self
            .collect(r, index, (0, count), writable, &mut new)
            .and_then(|()| {
                let replaced = self.replaced(number, (first, end), &new);
                self.take_away(number, What::Pages((length.min(old), old), replaced))
            });
        if let Err(errno) = hidden {
            new.drain(&mut self.frames, 0, u64::MAX);
            return Err(errno);
        }
        // Everything is there, and nothing of what goes is shown: change things.
        let mut written = 0;
        let mut page = first;
        while page < end {
            let start = page;
            while page < end && self.differs(number, page, new.get(page - first)) {
                page += 1;
            }
            let object = self.objects.get_mut(number as usize);
            if let Some(object) = object.filter(|_| start < page) {
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

    /// Whether an object has something else there.
    fn differs(&self, number: u32, page: u64, new: Option<Page>) -> bool {
        let object = self.objects.get(number as usize);
        let before = object.and_then(|object| object.pages.get(page));
        before.map(|p| p.frame) != new.map(|p| p.frame)
    }

    /// From the first to the last page of an object that is another from now on.
    fn replaced(&self, number: u32, (first, end): (u64, u64), new: &Pages) -> (u64, u64) {
        let Some(object) = self.objects.get(number as usize) else {
            return (0, 0);
        };
        let goes = |&page: &u64| {
            object.pages.get(page).is_some() && self.differs(number, page, new.get(page - first))
        };
        match (object.mapped > 0)
            .then(|| (first..end).find(goes))
            .flatten()
        {
            Some(from) => (from, (from..end).rfind(goes).map_or(from, |last| last + 1)),
            None => (0, 0),
        }
    }

    /// Whether a program was started from it.
    pub(crate) fn runs(&self, number: u32) -> bool {
        let object = self.objects.get(number as usize);
        object.is_some_and(|object| object.programs > 0)
    }
}
