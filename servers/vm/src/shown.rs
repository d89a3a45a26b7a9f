//! Pages of objects in spaces: what a fault brings, what it maps along, and what a new mapping shows at once.

use crate::fault::{Fault, PLENTY, SMALL};
use crate::filled::fill_slots;
use crate::frames::Frames;
use crate::nucleus::Nucleus;
use crate::pages::{mask, Chunk, Pages, CHUNK};
use crate::region::Region;
use crate::space::{hardware, with_tables, Object, Vm};
use crate::stat::EVERY_REQUEST;
use alloc::vec::Vec;
use cairn_abi::service::memory::{map, Fill, AS_IT_IS};
use cairn_idl::vm::{flags, prot};

/// Object pages around a read fault that are mapped along.
const AROUND: u64 = 16;
/// The same for code, of which a program needs a little here and there.
const AROUND_CODE: u64 = 8;
/// Pages that are shown at once at most, copies among those that a new mapping gets, and chunks in which they lie.
pub(crate) const AT_ONCE: usize = 512;
const COPIES_AT_ONCE: usize = 16;
const CHUNKS_AT_ONCE: usize = 16;
/// Memory that is a stack, that may stay empty for ever or that others see is not made at once.
pub(crate) const NO_ZEROES: u64 = flags::STACK | flags::NO_RESERVE | flags::SHARED;
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
            self.behind = 0;
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
        let going = self.going(region.object);
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let object = self
            .objects
            .get_mut(region.object as usize)
            .ok_or(Fault::NoMapping)?;
        let number = region.offset + (page - region.start);
        if number >= object.len {
            return Err(Fault::BeyondEnd);
        }
        if going.is_some_and(|what| what.has(number)) {
            return Err(Fault::Missing);
        }
        let address = page * 4096;
        let reserve = space.pay(&mut self.frames);
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
            let reserve = frames.pay(object.account, space.floor);
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
        let (low, high) = match going {
            None => window(&space.pages, &region, page),
            Some(_) => (page, page + 1),
        };
        let to_number = |page: u64| region.offset + (page - region.start);
        if cow {
            object.asked_for(frames, number);
        }
        // With what others were asked for nearby.
        let chunk = page / CHUNK * CHUNK;
        let (from, to) = match cow && going.is_none() {
            true => (chunk.max(region.start), (chunk + CHUNK).min(region.end)),
            false => (low, high),
        };
        // The first write to a page that its maker watches is noted.
        let marked = cow || watched;
        let bits = hardware(region.prot, marked);
        let fills = &mut self.fills;
        let near = (to_number(low), to_number(high));
        let asked = |chunk: &Chunk| match cow {
            true => chunk.wanted | mask(chunk.first, near.0, near.1),
            false => u64::MAX,
        };
        find(
            fills,
            object,
            &space.pages,
            &region,
            (from, to),
            bits,
            asked,
        );
        // A small mapping that lies in two chunks gets what was asked for in the other one too.
        let other = match from > region.start {
            true => (region.start, from),
            false => (to, region.end),
        };
        if cow && going.is_none() && other.0 < other.1 && region.pages() <= CHUNK {
            let asked = |chunk: &Chunk| chunk.wanted;
            find(fills, object, &space.pages, &region, other, bits, asked);
        }
        let shown = fill_slots(nucleus, frames, space, tables, fills, marked);
        fills.clear();
        if space.pages.get(page).is_none() {
            shown?;
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
    /// Here they join the list for [`Vm::show_found`].
    pub(crate) fn find_again(&mut self, index: usize, start: u64, end: u64, copies: bool) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let Some(region) = space.regions.find(start).copied() else {
            return;
        };
        let going = self.going(region.object).is_some();
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let Some(object) = self.objects.get_mut(region.object as usize) else {
            return;
        };
        let reserve = space.pay(&mut self.frames);
        if region.shared()
            || region.prot == 0
            || going
            || self.frames.free() <= reserve.saturating_add(PLENTY)
        {
            return;
        }
        let frames = &mut self.frames;
        // As many mappings may be asked for at once.
        if space.pages.growth(5 * CHUNKS_AT_ONCE) >= EVERY_REQUEST {
            return;
        }
        let writable = copies && u64::from(region.prot) & prot::WRITE != 0;
        if !object.mapped_again(frames) {
            return;
        }
        let to_number = |page: u64| region.offset + (page - region.start);
        let (first, last) = (to_number(start), to_number(end));
        let (shown, own) = (hardware(region.prot, true), hardware(region.prot, false));
        let fills = &mut self.fills;
        let (mut copies, mut chunks) = (COPIES_AT_ONCE, CHUNKS_AT_ONCE);
        for chunk in object.pages.overlapping(first, last) {
            let hot = if writable { chunk.hot } else { 0 };
            let asked = chunk.resident & (chunk.wanted | hot);
            let left = asked & mask(chunk.first, first, last);
            // Its pages lie in two of the space's chunks at most.
            if left == 0 {
                continue;
            }
            if chunks < 2 || fills.len() + CHUNK as usize > AT_ONCE {
                break;
            }
            chunks -= 2;
            // Where the chunk would begin; of what lies before the mapping nothing is left.
            let begin = start.wrapping_add(chunk.first).wrapping_sub(first);
            let address = |bit: u32| begin.wrapping_add(u64::from(bit)) * 4096;
            // Those that are shown as they are come one after the other, which is quicker here and for the nucleus.
            let (mut plain, mut copied) = (left & !hot, left & hot);
            fills.extend((0..plain.count_ones()).map(|_| {
                let bit = plain.trailing_zeros() % u64::BITS;
                plain &= plain.wrapping_sub(1);
                Fill {
                    address: address(bit) | shown,
                    frame: chunk.frames[bit as usize],
                    source: AS_IT_IS,
                }
            }));
            while copied != 0 {
                let bit = copied.trailing_zeros();
                copied &= copied - 1;
                let (1.., Some(copy)) = (copies, frames.alloc(reserve)) else {
                    break;
                };
                copies -= 1;
                fills.push(Fill {
                    address: address(bit) | own,
                    frame: copy,
                    source: chunk.frames[bit as usize],
                });
            }
        }
    }

    /// A loader that has mapped a whole library puts its second part over it: what lies right below is the first part now, and is shown together with the second if nothing of it was asked for yet.
    pub(crate) fn find_below(&mut self, index: usize, start: u64, object: u32) {
        let Some(space) = self.spaces.get(index) else {
            return;
        };
        let below = space.regions.find(start - 1).copied();
        if let Some(below) = below.filter(|below| below.object == object) {
            if space.pages.is_empty_in(below.start, below.end) {
                self.find_again(index, below.start, below.end, false);
            }
        }
    }

    /// A fault asks for a page of private memory: if it is among the first behind a mapping of an object, as a library's zeroes are, that is kept with the object.
    #[inline]
    pub(crate) fn asked_behind(&mut self, index: usize, region: &Region, page: u64) {
        let number = page - region.start;
        if number >= u64::from(u64::BITS) || u64::from(region.flags) & NO_ZEROES != 0 {
            return;
        }
        let Some(space) = self.spaces.get(index) else {
            return;
        };
        let below = space.regions.right_below(region);
        if let Some(below) = below.filter(|below| !below.shared()) {
            if let Some(object) = self.objects.get_mut(below.object as usize) {
                object.behind |= 1 << number;
            }
        }
    }

    /// The same as [`Vm::find_again`] for new private memory: what is small comes whole, because it is written soon, and of what is put right behind a mapping of an object come the pages that earlier ones were asked for.
    pub(crate) fn find_zeroes(&mut self, index: usize, start: u64, end: u64, exact: bool) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let pages = end - start;
        let mut which = match pages {
            2..=SMALL => u64::MAX,
            _ if exact => {
                let below = space.regions.find(start - 1).filter(|r| !r.shared());
                let object = below.and_then(|r| self.objects.get(r.object as usize));
                object.map_or(0, |object| object.behind)
            }
            _ => 0,
        };
        which &= mask(start, start, end);
        let reserve = space.pay(&mut self.frames);
        // At most two chunks more.
        if which == 0
            || self.frames.free() <= reserve.saturating_add(PLENTY)
            || space.pages.growth(2) >= EVERY_REQUEST
        {
            return;
        }
        let Some(prot) = space.regions.find(start).map(|region| region.prot) else {
            return;
        };
        let bits = hardware(prot, false);
        let mut copies = COPIES_AT_ONCE;
        while which != 0 && copies > 0 {
            let bit = which.trailing_zeros();
            which &= which - 1;
            let Some(frame) = self.frames.alloc(reserve) else {
                return;
            };
            copies -= 1;
            self.fills.push(Fill {
                address: (start + u64::from(bit)) * 4096 + bits,
                frame,
                ..Fill::default()
            });
        }
    }

    /// Show what was found for new mappings of a space.
    pub(crate) fn show_found(&mut self, index: usize) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        // What cannot be shown comes by faults.
        let _ = fill_slots(nucleus, frames, space, tables, &self.fills, true);
        self.fills.clear();
    }
}

/// Add the pages of `from..to` that are not resident in a space, of those that `which` picks from its object's chunks.
fn find(
    fills: &mut Vec<Fill>,
    object: &Object,
    space: &Pages,
    region: &Region,
    (from, to): (u64, u64),
    bits: u64,
    which: impl Fn(&Chunk) -> u64,
) {
    let first = region.offset + (from - region.start);
    let last = first + (to - from);
    let (mut chunk_of, mut there) = (u64::MAX, 0);
    for chunk in object.pages.overlapping(first, last) {
        let mut left = chunk.resident & which(chunk) & mask(chunk.first, first, last);
        while left != 0 && fills.len() < AT_ONCE {
            let bit = left.trailing_zeros();
            left &= left - 1;
            let page = chunk.first + u64::from(bit) - first + from;
            if page / CHUNK != chunk_of {
                chunk_of = page / CHUNK;
                there = space.resident_around(page);
            }
            if there >> (page % CHUNK) & 1 == 0 {
                fills.push(Fill {
                    address: page * 4096 + bits,
                    frame: chunk.frames[bit as usize],
                    source: AS_IT_IS,
                });
            }
        }
    }
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
