//! Page faults: zero-fill, copy-on-write, pages of objects, and the wait for memory when there is none.

use crate::filled::fill_slots;
use crate::nucleus::{Answer, Nucleus};
use crate::pages::{Pages, CHUNK};
use crate::region::{Region, ANONYMOUS};
use crate::slab::Handle;
use crate::space::{hardware, with_tables, Space, Trouble, Vm, Waiting, NATIVE_RESERVE};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{map, Fill};
use cairn_abi::{fault, Id, Token};
use cairn_idl::vm::{self, prot};

/// Pages that are populated at once.
const ROW: usize = 8;
/// Regions of so many pages at most get all of them once one is written.
pub(crate) const SMALL: u64 = 4;
/// Pages behind a copied one that are copied along, when the ones before it were written as well.
const ROW_OF_COPIES: usize = 3;
/// Frames that must be free beside the reserve before a fault gets more pages than it asked for.
pub(crate) const PLENTY: usize = 512;
/// Pages that are populated between two looks whether the heap has memory for their records.
const HEAP_FOR: u64 = 256 * CHUNK;

/// Why an access fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NoMapping,
    Protection,
    BeyondEnd,
    /// No frame is free.
    Exhausted,
    /// Its object's maker would have to bring it.
    Missing,
}

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Fault {
        match trouble {
            Trouble::NoFrame => Fault::Exhausted,
            Trouble::Refused => Fault::NoMapping,
        }
    }
}

impl<N: Nucleus> Vm<N> {
    /// A fault message; `waits` is the domain of the thread that made it. None: it waits until memory comes free.
    pub(crate) fn fault(
        &mut self,
        badge: Handle,
        address: u64,
        access: u64,
        token: Token,
        waits: Id,
    ) -> Option<Answer> {
        // A server may be copying for a process whose space has gone meanwhile: it must not wait for ever.
        let Some(index) = self.spaces.resolve(badge) else {
            return Some(refused(Fault::NoMapping));
        };
        let page = address / 4096;
        match self.resolve(index, page, access) {
            Ok(()) => {
                if let Some(space) = self.spaces.get_mut(index) {
                    space.faults.resolved += 1;
                }
                Some(Answer::new(&[fault::RESOLVED]))
            }
            // A component that copies for a program, or one in memory of its own that others wait for: it gets what is kept for the system itself, or hears that there is nothing.
            Err(Fault::Exhausted) if self.must_not_wait(index, waits) => {
                self.tell_watcher();
                let urgent = self.resolve_urgent(index, page, access);
                Some(match urgent {
                    Ok(()) => Answer::new(&[fault::RESOLVED]),
                    Err(refusal) => refused(refusal),
                })
            }
            Err(Fault::Missing) => {
                let answer = self.wait_for_page(index, (token, waits), page, access);
                if let (None, Some(space)) = (answer, self.spaces.get_mut(index)) {
                    space.faults.major += 1;
                }
                answer
            }
            Err(Fault::Exhausted) => self.wait_for_memory(Waiting {
                token,
                space: badge,
                page,
                access,
                waits,
            }),
            Err(refusal) => Some(refused(refusal)),
        }
    }

    fn must_not_wait(&self, index: usize, waits: Id) -> bool {
        let program = self.spaces.get(index).is_some_and(Space::linux);
        waits == self.watching || self.lends(waits) || program && self.is_native(waits)
    }

    /// The same with what is kept for those who are more important: for users, what user 0 has beyond them; for that one, what components have.
    fn resolve_urgent(&mut self, index: usize, page: u64, access: u64) -> Result<(), Fault> {
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let floor = match space.floor > self.reserve {
            true => self.reserve,
            false => NATIVE_RESERVE,
        };
        let kept = core::mem::replace(&mut space.floor, floor);
        let urgent = self.resolve(index, page, access);
        if let Some(space) = self.spaces.get_mut(index) {
            space.floor = kept;
        }
        urgent
    }

    /// Make a page present for an access.
    pub(crate) fn resolve(&mut self, index: usize, page: u64, access: u64) -> Result<(), Fault> {
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let region = *space.regions.find(page).ok_or(Fault::NoMapping)?;
        let write = access & fault::WRITE != 0;
        let needed = if write {
            prot::WRITE
        } else if access & fault::EXECUTE != 0 {
            prot::EXECUTE
        } else {
            // Whatever the processor lets be done includes reading.
            prot::READ | prot::WRITE | prot::EXECUTE
        };
        if u64::from(region.prot) & needed == 0 {
            return Err(Fault::Protection);
        }
        let address = page * 4096;
        let reserve = space.pay(&mut self.frames);
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        if let Some(resident) = space.pages.get(page) {
            if resident.cow && write && region.shared() {
                return self.note_write(index, page, region);
            }
            if resident.cow && write {
                return self.break_copies(index, page, region);
            }
            // Present already, or not mapped any more.
            let bits = hardware(region.prot, resident.cow);
            with_tables(nucleus, frames, space, tables, |n, slot| {
                n.map(slot, address, resident.frame, bits, 0)
            })?;
            return Ok(());
        }
        // At most two chunks more.
        let growth = space.pages.growth(2);
        if !self.heap_has(growth) {
            return Err(Fault::Exhausted);
        }
        if region.object == ANONYMOUS {
            self.asked_behind(index, &region, page);
        }
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        if region.object == ANONYMOUS
            && write
            && self.frames.free() > reserve.saturating_add(PLENTY)
        {
            // Who writes one page after the other gets several at a time.
            let (first, count) = row_around(&space.pages, &region, page);
            if count > 1 {
                let done = self.populate_row(index, first, first + count, access);
                if first + done > page {
                    return Ok(());
                }
                return self.resolve_new(index, page, region);
            }
        }
        if region.object == ANONYMOUS {
            return self.resolve_new(index, page, region);
        }
        self.resolve_object(index, page, region, write)
    }

    /// A new page of private anonymous memory.
    fn resolve_new(&mut self, index: usize, page: u64, region: Region) -> Result<(), Fault> {
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let reserve = space.pay(&mut self.frames);
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        let frame = frames.alloc(reserve).ok_or(Fault::Exhausted)?;
        let bits = hardware(region.prot, false) | map::ZERO;
        let done = with_tables(nucleus, frames, space, tables, |n, slot| {
            n.map(slot, page * 4096, frame, bits, 0)
        });
        if let Err(trouble) = done {
            frames.release(frame);
            return Err(trouble.into());
        }
        space.pages.set(frames, page, frame, false);
        Ok(())
    }

    /// A page that is to be copied before it is written is written; the pages behind it as well, if those before it were.
    fn break_copies(&mut self, index: usize, page: u64, region: Region) -> Result<(), Fault> {
        self.break_copy(index, page, region)?;
        let Some(space) = self.spaces.get_mut(index) else {
            return Ok(());
        };
        let (parent, floor) = (space.parent, space.floor);
        let in_row =
            space.pages.is_hot(page.wrapping_sub(1)) && space.pages.is_hot(page.wrapping_sub(2));
        space.pages.mark_hot(&mut self.frames, page);
        self.credit(parent, page);
        if !in_row || self.frames.free() <= floor + PLENTY {
            return Ok(());
        }
        for next in (page + 1..region.end).take(ROW_OF_COPIES) {
            // What is still an object's own goes on changing: it is not copied before it must be.
            let wanted = self.spaces.get(index).is_some_and(|s| {
                s.pages.get(next).is_some_and(|p| p.cow) && !s.pages.is_file(next)
            });
            if !wanted || self.break_copy(index, next, region).is_err() {
                break;
            }
            if let Some(space) = self.spaces.get_mut(index) {
                space.pages.mark_hot(&mut self.frames, next);
            }
        }
        Ok(())
    }

    /// Give a space its own copy of a page, or the page itself if nobody else has it.
    pub(crate) fn break_copy(
        &mut self,
        index: usize,
        page: u64,
        region: Region,
    ) -> Result<(), Fault> {
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let reserve = space.pay(&mut self.frames);
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        if region.object != ANONYMOUS && space.pages.is_file(page) {
            // The next program that maps the object will write it as well.
            if let Some(object) = self.objects.get_mut(region.object as usize) {
                object.written(frames, region.offset + (page - region.start));
            }
        }
        space.pages.own_page(frames, page);
        let old = space.pages.get(page).ok_or(Fault::NoMapping)?.frame;
        let bits = hardware(region.prot, false);
        if frames.references(old) == 1 {
            with_tables(nucleus, frames, space, tables, |n, slot| {
                n.map(slot, page * 4096, old, bits, 0)
            })?;
            space.pages.clear_cow(frames, page);
            return Ok(());
        }
        let frame = frames.alloc(reserve).ok_or(Fault::Exhausted)?;
        let done = with_tables(nucleus, frames, space, tables, |n, slot| {
            n.map(slot, page * 4096, frame, bits | map::COPY, old)
        });
        if let Err(trouble) = done {
            frames.release(frame);
            return Err(trouble.into());
        }
        space.pages.set(frames, page, frame, false);
        frames.release(old);
        Ok(())
    }

    /// A copy of a space had to write this page: the next one will as well.
    pub(crate) fn credit(&mut self, parent: Handle, page: u64) {
        if let Some(index) = self.spaces.resolve(parent) {
            if let Some(space) = self.spaces.get_mut(index) {
                space.pages.mark_hot(&mut self.frames, page);
            }
        }
    }

    /// Where one request to populate a range ends: others have their turns before a program gets what else it wants.
    pub(crate) fn populated_at_once(&self, index: usize, start: u64, end: u64) -> u64 {
        match self.spaces.get(index) {
            Some(space) if space.linux() && !space.eager => end.min(start + vm::POPULATED / PAGE),
            _ => end,
        }
    }

    /// Make a range resident while more than `keep` frames are free. Stops at the first page that cannot be.
    pub(crate) fn populate(
        &mut self,
        index: usize,
        start: u64,
        end: u64,
        write: bool,
        keep: usize,
    ) -> Result<(), Fault> {
        let access = if write { fault::WRITE } else { 0 };
        let mut page = start;
        let mut known = start;
        while page < end {
            if page >= known {
                known = page + HEAP_FOR;
                let growth = |s: &Space| s.pages.growth((HEAP_FOR / CHUNK + 2) as usize);
                let growth = self.spaces.get(index).map_or(0, growth);
                if !self.heap_has(growth) {
                    return Err(Fault::Exhausted);
                }
            }
            if !self.frames.has_more_than(keep) {
                return Err(Fault::Exhausted);
            }
            let several = self.populate_row(index, page, end, access);
            if several == 0 {
                match self.resolve(index, page, access) {
                    Err(Fault::Missing) => {
                        self.want_soon(index, page, end);
                        return Err(Fault::Missing);
                    }
                    other => other?,
                }
            }
            page += several.max(1);
        }
        Ok(())
    }

    /// Make up to 8 pages of new private memory resident with few operations; how many that were.
    fn populate_row(&mut self, index: usize, page: u64, end: u64, access: u64) -> u64 {
        let Some(space) = self.spaces.get_mut(index) else {
            return 0;
        };
        let reserve = space.pay(&mut self.frames);
        let Some(region) = space.regions.find(page).copied() else {
            return 0;
        };
        let allowed = match access {
            fault::WRITE => u64::from(region.prot) & prot::WRITE != 0,
            _ => region.prot != 0,
        };
        if region.object != ANONYMOUS || !allowed {
            return 0;
        }
        let end = end.min(region.end).min(page + ROW as u64);
        let bits = hardware(region.prot, false);
        let mut row = [Fill::default(); ROW];
        let mut count = 0;
        while page + (count as u64) < end && space.pages.get(page + count as u64).is_none() {
            let Some(frame) = self.frames.alloc(reserve) else {
                break;
            };
            row[count].address = (page + count as u64) * 4096 + bits;
            row[count].frame = frame;
            count += 1;
        }
        let row = &row[..count];
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        let before = space.pages.resident();
        // What could not be done comes one by one, or tells why not.
        let _ = fill_slots(nucleus, frames, space, tables, row, false);
        space.pages.resident() - before
    }

    /// The thread behind a token is gone.
    pub(crate) fn forget_token(&mut self, token: Token) {
        self.waiting.retain(|w| w.token != token);
    }
}

/// The row of new pages to map for a write to `page`: the more pages right before it (or behind it, for a stack) are there, the more follow.
fn row_around(pages: &Pages, region: &Region, page: u64) -> (u64, u64) {
    let small = region.end - region.start <= SMALL;
    let wish = |there: u32| match there {
        _ if small => SMALL,
        0 | 1 => 1,
        2 | 3 => 4,
        _ => ROW as u64,
    };
    let (below, above) = pages.neighbours(page);
    if below.there >= above.there {
        let count = wish(below.there)
            .min(u64::from(above.free) + 1)
            .min(region.end - page);
        (page, count)
    } else {
        let count = wish(above.there)
            .min(u64::from(below.free) + 1)
            .min(page + 1 - region.start);
        (page + 1 - count, count)
    }
}

pub(crate) fn refused(fault: Fault) -> Answer {
    let detail = match fault {
        Fault::NoMapping => 0,
        Fault::Protection => 1,
        Fault::BeyondEnd | Fault::Exhausted | Fault::Missing => 2,
    };
    Answer::new(&[fault::REFUSED, detail])
}
