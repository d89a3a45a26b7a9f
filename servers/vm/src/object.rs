//! Memory objects: made from pages of their maker, mapped by whoever holds their portal.

use crate::accounts::ONE_RECORD;
use crate::fault::Fault;
use crate::nucleus::{Answer, Frame, Nucleus, Pass};
use crate::pages::Pages;
use crate::region::ANONYMOUS;
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{drop_if_unused, Errno, Hears, Object, Vm, NOBODY};
use cairn_abi::layout::{PAGE, USER_TOP};
use cairn_idl::errno::*;
use cairn_idl::vm::{making, prot, BADGE_OBJECT_FIRST};

/// Addresses read at a time.
const ADDRESSES: usize = 256;
/// Most pages of an object (16 GiB).
pub(crate) const MAX_PAGES: u64 = 1 << 22;

impl<N: Nucleus> Vm<N> {
    /// The object behind a badge.
    pub(crate) fn object_by_badge(&self, badge: u64) -> Option<u32> {
        let handle: Handle = badge.checked_sub(BADGE_OBJECT_FIRST)?;
        self.objects.resolve(handle).map(|i| i as u32)
    }

    /// OBJECT_CREATE: replies itself, with the new portal.
    pub(crate) fn object_create(&mut self, r: &Request, index: usize) -> Result<(), Errno> {
        let count = r.out_len as u64 / 8;
        let [_, pages, how, ..] = r.words;
        let (writable, watched) = (how & making::SHARED != 0, how & making::WATCHED != 0);
        let fresh = how & making::FRESH != 0;
        let with_maker = how & making::WITH_MAKER != 0;
        let told = how & making::TOLD != 0;
        if !r.out_len.is_multiple_of(8)
            || count > MAX_PAGES
            || how
                & !(making::SHARED
                    | making::WATCHED
                    | making::FRESH
                    | making::WITH_MAKER
                    | making::TOLD)
                != 0
            || fresh && (watched || count != 0 || pages == 0)
            || told && !fresh
            || with_maker && (how != making::WITH_MAKER || count != 1)
        {
            return Err(EINVAL);
        }
        let length = match watched || fresh {
            true => pages,
            false => count,
        };
        if count > length || length > MAX_PAGES || length == 0 && !watched {
            return Err(EINVAL);
        }
        let room = count as usize * 8;
        let recorded = self.spaces.get(index).is_some_and(|s| self.may_record(s));
        if !recorded || !self.heap_room(room) || !self.objects.room() {
            return Err(ENOMEM);
        }
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let (maker, account) = (space.handle, space.account);
        if !self.may_record_for(account, ONE_RECORD) {
            return Err(ENOMEM);
        }
        if (watched || told) && !self.pagers.has(maker) {
            return Err(EPERM);
        }
        self.are_few_to_collect(count)?;
        let mut pages = Pages::default();
        if let Err(errno) = self.collect(r, index, (0, count), writable, &mut pages) {
            self.frames.drop_all(pages);
            return Err(errno);
        }
        self.object_of_pages(r, index, pages)
    }

    /// The object that was asked for, of the pages that were named: all is checked but what changes while they are collected.
    pub(crate) fn object_of_pages(
        &mut self,
        r: &Request,
        index: usize,
        pages: Pages,
    ) -> Result<(), Errno> {
        let [_, length, how, tag, ..] = r.words;
        let has = |what| how & what != 0;
        let (watched, told) = (has(making::WATCHED), has(making::TOLD));
        let (fresh, with_maker) = (has(making::FRESH), has(making::WITH_MAKER));
        let length = match watched || fresh {
            true => length,
            false => r.out_len as u64 / 8,
        };
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let (maker, account) = (space.handle, space.account);
        if !self.objects.room() {
            self.frames.drop_all(pages);
            return Err(ENOMEM);
        }
        let handle = self.objects.next_handle();
        let made = self.objects.insert(Object {
            pages,
            maker: if fresh { NOBODY } else { maker },
            origin: maker,
            account,
            len: length,
            handle: handle.unwrap_or(NOBODY),
            tag,
            hears: match (watched, told) {
                (true, _) => Hears::Wanted,
                (_, true) => Hears::Unused,
                _ => Hears::Nothing,
            },
            idle: false,
            rests: false,
            shared: false,
            writable: has(making::SHARED),
            with_maker,
            portals: 1,
            inherited: false,
            mapped: 0,
            programs: 0,
            asked: false,
            behind: 0,
            times: 0,
        });
        let number = made.ok_or(ENOMEM)?;
        self.count_records(account, ONE_RECORD as i64);
        let answer = Answer {
            pass: handle.map(|h| Pass::Mint(BADGE_OBJECT_FIRST + h)),
            ..Answer::new(&[0])
        };
        if handle.is_none() || self.deliver(r.token, &answer).is_err() {
            self.close_object(number as u32);
            return Err(ENFILE);
        }
        Ok(())
    }

    /// Take a reference to each page that the caller named.
    pub(crate) fn collect(
        &mut self,
        r: &Request,
        index: usize,
        (first, count): (u64, u64),
        writable: bool,
        pages: &mut Pages,
    ) -> Result<(), Errno> {
        let mut buffer = [0; ADDRESSES * 8];
        let mut at = first;
        while at < count {
            let len = (count - at).min(ADDRESSES as u64) as usize * 8;
            self.read_part(r, at * 8, &mut buffer[..len])?;
            for (i, bytes) in buffer[..len].chunks_exact(8).enumerate() {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                let address = u64::from_le_bytes(word);
                if address == 0 {
                    continue;
                }
                if !address.is_multiple_of(PAGE) || address >= USER_TOP {
                    return Err(EINVAL);
                }
                let frame = self.frame_of(index, address / PAGE, writable)?;
                self.frames.retain(frame);
                pages.set(&mut self.frames, at + i as u64, frame, false);
            }
            at += len as u64 / 8;
        }
        Ok(())
    }

    /// The frame behind a page of the caller, made the caller's own first if it could still change.
    fn frame_of(&mut self, index: usize, page: u64, writable: bool) -> Result<Frame, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let Some(region) = space.regions.find(page) else {
            // What `init` mapped before `vm` was there is known to the nucleus only.
            let slot = space.slot;
            if !space.eager {
                return Err(EFAULT);
            }
            return self.nucleus.query(slot, page * PAGE).ok_or(EFAULT);
        };
        let may_write = u64::from(region.prot) & prot::WRITE != 0;
        if writable && !may_write && !space.eager {
            return Err(EACCES);
        }
        if !may_write {
            if let Some(resident) = space.pages.get(page) {
                return Ok(resident.frame);
            }
        }
        self.frame_for_write(index, page)
            .map_err(|fault| match fault {
                Fault::Exhausted => ENOMEM,
                _ => EFAULT,
            })
    }

    /// The frame of a page, made resident and exclusive first, whatever the protection says.
    pub(crate) fn frame_for_write(&mut self, index: usize, page: u64) -> Result<Frame, Fault> {
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let reserve = space.pay(&mut self.frames);
        let region = *space.regions.find(page).ok_or(Fault::NoMapping)?;
        let (frames, nucleus) = (&mut self.frames, &mut self.nucleus);
        let (mut source, mut copied_of) = (None, None);
        if let Some(resident) = space.pages.get(page) {
            if !resident.cow {
                return Ok(resident.frame);
            }
            if region.shared() {
                self.note_write(index, page, region)?;
                return Ok(resident.frame);
            }
            space.pages.own_page(frames, page);
            if frames.references(resident.frame) == 1 {
                // Stays mapped read-only: the next write fault finds that it may be written.
                space.pages.set(frames, page, resident.frame, false);
                return Ok(resident.frame);
            }
            source = Some(resident.frame);
            copied_of = Some(space.parent);
        } else if region.object != ANONYMOUS {
            let object = self
                .objects
                .get_mut(region.object as usize)
                .ok_or(Fault::NoMapping)?;
            let number = region.offset + (page - region.start);
            if number >= object.len {
                return Err(Fault::BeyondEnd);
            }
            source = object.pages.get(number).map(|p| p.frame);
            if object.is_watched() {
                if source.is_none() {
                    return Err(Fault::Missing);
                }
                if region.shared() {
                    object.pages.set_marked(frames, number, number + 1, true);
                }
            }
            if region.shared() {
                let frame = match source {
                    Some(frame) => frame,
                    None if object.is_closed_to(&region) => return Err(Fault::BeyondEnd),
                    None => {
                        let reserve = frames.pay(object.account, space.floor);
                        let frame = frames.alloc(reserve).ok_or(Fault::Exhausted)?;
                        let _ = nucleus.zero_frame(frame);
                        object.pages.set(frames, number, frame, false);
                        frame
                    }
                };
                frames.retain(frame);
                space.pages.set(frames, page, frame, false);
                return Ok(frame);
            }
        }
        let frame = frames.alloc(reserve).ok_or(Fault::Exhausted)?;
        let filled = match source {
            Some(source) => nucleus.copy_frame(frame, source),
            None => nucleus.zero_frame(frame),
        };
        if filled.is_err() {
            frames.release(frame);
            return Err(Fault::NoMapping);
        }
        if let Some(old) = space.pages.set(frames, page, frame, false) {
            // The old frame may still be mapped here; a fault will map the new one.
            let _ = nucleus.unmap(space.slot, page * PAGE, 1);
            frames.release(old);
        }
        if let Some(parent) = copied_of {
            self.credit(parent, page);
        }
        Ok(frame)
    }

    /// The frame that reads of a page would see. `zeroes` where nothing is yet; None where nothing is mapped.
    pub(crate) fn frame_for_read(&self, index: usize, page: u64) -> Option<Frame> {
        let space = self.spaces.get(index)?;
        let region = space.regions.find(page)?;
        if let Some(resident) = space.pages.get(page) {
            return Some(resident.frame);
        }
        if region.object == ANONYMOUS {
            return Some(self.zeroes);
        }
        let object = self.objects.get(region.object as usize)?;
        let number = region.offset + (page - region.start);
        if number >= object.len {
            return None;
        }
        match object.pages.get(number) {
            Some(page) => Some(page.frame),
            None if object.is_watched() => None,
            None => Some(self.zeroes),
        }
    }

    /// A space is gone: what it made to go with it reads as zeroes.
    pub(crate) fn zero_objects_of(&mut self, maker: Handle) {
        for (_, object) in self.objects.iter().filter(|(_, object)| object.with_maker) {
            if let Some(page) = object.pages.get(0).filter(|_| object.maker == maker) {
                let _ = self.nucleus.zero_frame(page.frame);
            }
        }
    }

    /// A portal to it is gone.
    pub(crate) fn close_object(&mut self, number: u32) {
        let Some(object) = self.objects.get_mut(number as usize) else {
            return;
        };
        object.portals = object.portals.saturating_sub(1);
        let (handle, maker, watched) = (object.handle, object.maker, object.is_watched());
        let inherited = object.inherited;
        if object.portals > 0 {
            return;
        }
        let kept = object.pages.get(0).filter(|_| object.with_maker);
        if let Some(page) = kept {
            let _ = self.nucleus.zero_frame(page.frame);
        }
        self.no_successor(handle);
        // A predecessor's portals may be gone before its successor has its own.
        if !self.leaves_a_successor(maker) && !inherited {
            // From now on nobody changes it.
            if let Some(object) = self.objects.get_mut(number as usize) {
                object.maker = NOBODY;
            }
            if watched {
                self.try_again(handle, |_| true);
            }
        }
        drop_if_unused(&mut self.objects, &mut self.frames, number);
    }
}
