//! Pages of objects in spaces: what a fault brings, what it maps along, and what a new mapping shows at once.

use crate::fault::{Fault, PLENTY};
use crate::frames::Frames;
use crate::nucleus::{Frame, Nucleus};
use crate::pages::{mask, Pages, CHUNK};
use crate::region::Region;
use crate::space::{hardware, with_tables, Object, Space, Trouble, Vm};
use crate::stat::EVERY_REQUEST;
use cairn_abi::service::memory::{map, Fill, FILLS};
use cairn_idl::vm::prot;

/// Object pages around a read fault that are mapped along.
const AROUND: u64 = 16;
/// The same for code, of which a program needs a little here and there.
const AROUND_CODE: u64 = 8;
/// Rows of pages, and copies, that a new mapping gets at once.
const ROWS_AT_ONCE: usize = 16;
const COPIES_AT_ONCE: usize = 16;
/// Every so many mappings nothing is shown at once, to see anew what is asked for.
const RELEARN: u32 = 256;

impl Object {
    /// A fault asked for this page of it. (Not for those that are mapped along: programs that start show all that was asked for, and most of these are never touched.)
    fn asked_for(&mut self, frames: &mut Frames, page: u64) {
        self.asked = true;
        self.pages.want(frames, page, page + 1);
    }

    /// A private mapping wrote a page of it.
    pub(crate) fn written(&mut self, frames: &mut Frames, page: u64) {
        self.asked = true;
        self.pages.mark_hot(frames, page);
    }

    /// One more private mapping. Is anything known of what it will be asked for?
    fn mapped_again(&mut self, frames: &mut Frames) -> bool {
        if !self.asked {
            return false;
        }
        self.times = self.times.wrapping_add(1);
        if self.times.is_multiple_of(RELEARN) {
            self.pages.forget_wanted(frames);
            self.pages.cool_down(frames);
            self.asked = false;
        }
        self.asked
    }
}

impl<N: Nucleus> Vm<N> {
    /// A page of an object that is not resident in the space, in this region.
    pub(crate) fn resolve_object(
        &mut self,
        index: usize,
        page: u64,
        region: Region,
        write: bool,
    ) -> Result<(), Fault> {
        let space = self.spaces.get(index).ok_or(Fault::NoMapping)?;
        let object = self.objects.get(region.object as usize);
        let growth = object.map_or(0, |object| object.pages.growth(1));
        if !self.may_record(space) || !self.heap_has(growth) {
            return Err(Fault::Exhausted);
        }
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let object = self
            .objects
            .get_mut(region.object as usize)
            .ok_or(Fault::NoMapping)?;
        let number = region.offset + (page - region.start);
        if number >= object.len {
            return Err(Fault::BeyondEnd);
        }
        let address = page * 4096;
        let reserve = space.layout.reserve(self.reserve);
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        let source = object.pages.get(number).map(|p| p.frame);
        let watched = object.is_watched();
        if watched && source.is_none() {
            return Err(Fault::Missing);
        }
        if let (true, true, Some(frame)) = (region.shared() && watched, write, source) {
            // Only what is written: the maker will have to write it as well.
            let bits = hardware(region.prot, false);
            with_tables(nucleus, frames, space, tables, |n, slot| {
                n.map(slot, address, frame, bits, 0)
            })?;
            object.pages.set_marked(frames, number, number + 1, true);
            frames.retain(frame);
            space.pages.set_file(frames, page, frame, false);
            return Ok(());
        }
        if !region.shared() && write {
            let frame = frames.alloc(reserve).ok_or(Fault::Exhausted)?;
            let how = if source.is_some() {
                map::COPY
            } else {
                map::ZERO
            };
            let bits = hardware(region.prot, false) | how;
            object.written(frames, number);
            let done = with_tables(nucleus, frames, space, tables, |n, slot| {
                n.map(slot, address, frame, bits, source.unwrap_or(0))
            });
            if let Err(trouble) = done {
                frames.release(frame);
                return Err(trouble.into());
            }
            space.pages.set(frames, page, frame, false);
            return Ok(());
        }
        let cow = !region.shared();
        if source.is_none() && object.is_closed_to(&region) {
            return Err(Fault::BeyondEnd);
        }
        if source.is_none() {
            // A hole: zeroes, the common frame of them if it is only read.
            let bits = hardware(region.prot, cow);
            if cow {
                let zeroes = self.zeroes;
                with_tables(nucleus, frames, space, tables, |n, slot| {
                    n.map(slot, address, zeroes, bits, 0)
                })?;
                frames.retain(zeroes);
                space.pages.set(frames, page, zeroes, true);
                return Ok(());
            }
            let frame = frames.alloc(reserve).ok_or(Fault::Exhausted)?;
            let done = with_tables(nucleus, frames, space, tables, |n, slot| {
                n.map(slot, address, frame, bits | map::ZERO, 0)
            });
            if let Err(trouble) = done {
                frames.release(frame);
                return Err(trouble.into());
            }
            frames.retain(frame);
            object.pages.set(frames, number, frame, false);
            space.pages.set(frames, page, frame, false);
            return Ok(());
        }
        let (low, high) = window(&space.pages, &region, page);
        let to_number = |page: u64| region.offset + (page - region.start);
        if cow {
            object.asked_for(frames, number);
        }
        // With what others were asked for nearby.
        let chunk = page / CHUNK * CHUNK;
        let (from, to) = match cow {
            true => (chunk.max(region.start), (chunk + CHUNK).min(region.end)),
            false => (low, high),
        };
        let mut list = [0 as Frame; CHUNK as usize];
        let list = &mut list[..(to - from) as usize];
        object.pages.frames_of(to_number(from), list, |chunk| {
            if cow {
                chunk.wanted | mask(chunk.first, to_number(low), to_number(high))
            } else {
                u64::MAX
            }
        });
        // The first write to a page that its maker watches is noted.
        let marked = cow || watched;
        show(
            nucleus,
            frames,
            tables,
            space,
            from,
            list,
            (&region, marked),
        )?;
        // A small mapping that lies in two chunks gets what was asked for in the other one too.
        let other = match from > region.start {
            true => (region.start, from),
            false => (to, region.end),
        };
        if cow && other.0 < other.1 && region.pages() <= CHUNK {
            let mut list = [0 as Frame; CHUNK as usize];
            let list = &mut list[..(other.1 - other.0) as usize];
            object
                .pages
                .frames_of(to_number(other.0), list, |chunk| chunk.wanted);
            let shown = (&region, marked);
            // What cannot be shown comes by faults.
            let _ = show(nucleus, frames, tables, space, other.0, list, shown);
        }
        let parent = space.parent;
        if let Some(space) = self
            .spaces
            .resolve(parent)
            .and_then(|i| self.spaces.get_mut(i))
        {
            space.pages.mark_wanted(frames, low, high);
        }
        Ok(())
    }

    /// A private mapping of an object is new: it shows at once what earlier ones were asked for, and if it is a program's or a library's (whose pages need not go on
    /// changing with the object) it gets copies of what was written there. Each such page would be a fault, or a part of one, and programs that start touch the same pages every time.
    pub(crate) fn show_again(&mut self, index: usize, start: u64, end: u64, copies: bool) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let Some(region) = space.regions.find(start).copied() else {
            return;
        };
        let Some(object) = self.objects.get_mut(region.object as usize) else {
            return;
        };
        if region.shared() || region.prot == 0 || self.frames.free() <= self.reserve + PLENTY {
            return;
        }
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        if space.pages.growth(ROWS_AT_ONCE + 1) >= EVERY_REQUEST {
            return;
        }
        let writable = copies && u64::from(region.prot) & prot::WRITE != 0;
        if !object.mapped_again(frames) {
            return;
        }
        let to_number = |page: u64| region.offset + (page - region.start);
        let (mut rows, mut copies) = (ROWS_AT_ONCE, COPIES_AT_ONCE);
        let mut at = start;
        while let Some(number) = object.pages.next_asked(to_number(at)) {
            at += number - to_number(at);
            if at >= end || rows == 0 {
                break;
            }
            rows -= 1;
            let stop = (at / CHUNK * CHUNK + CHUNK).min(end);
            let mut list = [0 as Frame; CHUNK as usize];
            let list = &mut list[..(stop - at) as usize];
            object.pages.frames_of(to_number(at), list, |chunk| {
                if writable {
                    chunk.wanted & !chunk.hot
                } else {
                    chunk.wanted
                }
            });
            if show(nucleus, frames, tables, space, at, list, (&region, true)).is_err() {
                return;
            }
            if writable {
                object
                    .pages
                    .frames_of(to_number(at), list, |chunk| chunk.hot);
                let mut fills = [Fill::default(); COPIES_AT_ONCE];
                let mut count = 0;
                for (page, &source) in (at..).zip(list.iter()).filter(|(_, &source)| source != 0) {
                    if count == copies || space.pages.get(page).is_some() {
                        continue;
                    }
                    let Some(frame) = frames.alloc(self.reserve) else {
                        break;
                    };
                    fills[count] = Fill {
                        address: page * 4096,
                        frame,
                        source,
                    };
                    count += 1;
                }
                copies -= count;
                let bits = hardware(region.prot, false);
                for fills in fills[..count].chunks(FILLS) {
                    let done = with_tables(nucleus, frames, space, tables, |n, slot| {
                        n.fill(slot, fills, bits)
                    });
                    for fill in fills {
                        let page = fill.address / 4096;
                        if done.is_ok() {
                            space.pages.set(frames, page, fill.frame, false);
                        } else {
                            // It may be mapped, but is not ours.
                            let _ = nucleus.unmap(space.slot, fill.address, 1);
                            frames.release(fill.frame);
                        }
                    }
                }
            }
            at = stop;
        }
    }
}

/// Map a row of an object's pages within one chunk (0 = none) where nothing is resident yet; what is resident stays as it is.
fn show<N: Nucleus>(
    nucleus: &mut N,
    frames: &mut Frames,
    tables: &mut u64,
    space: &mut Space,
    first: u64,
    list: &mut [Frame],
    (region, cow): (&Region, bool),
) -> Result<(), Trouble> {
    let there = space.pages.resident_around(first) >> (first % CHUNK);
    let mut left = there;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        if at >= list.len() {
            break;
        }
        list[at] = 0;
        left &= left - 1;
    }
    let Some(from) = list.iter().position(|&f| f != 0) else {
        return Ok(());
    };
    let to = list
        .iter()
        .rposition(|&f| f != 0)
        .map_or(from, |last| last + 1);
    let (first, list) = (first + from as u64, &list[from..to]);
    let bits = hardware(region.prot, cow);
    with_tables(nucleus, frames, space, tables, |n, slot| {
        n.map_list(slot, first * 4096, list, bits)
    })?;
    space.pages.set_files(frames, first, list, cow);
    Ok(())
}

/// The pages around a fault that are mapped along, within a chunk: more of them if the ones before were wanted as well.
fn window(pages: &Pages, region: &Region, page: u64) -> (u64, u64) {
    let code = u64::from(region.prot) & prot::EXECUTE != 0;
    let around = if code { AROUND_CODE } else { AROUND };
    let near = page & !(around - 1);
    let in_order = !code && near > region.start && pages.get(near - 1).is_some();
    let high = if in_order {
        (page | (CHUNK - 1)) + 1
    } else {
        near + around
    };
    (near.max(region.start), high.min(region.end))
}
