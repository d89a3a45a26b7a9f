//! What `vm` tells about memory: statistics, maps, residency.

use crate::accounts::SYSTEM;
use crate::nucleus::{Answer, Nucleus};
use crate::pages::{mask, Pages};
use crate::region::{Region, ABSENT, ANONYMOUS, BREAK, LOCKED, WIPED};
use crate::request::Request;
use crate::space::{Errno, Space, Vm};
use cairn_abi::layout::{PAGE, PERSONALITY, USER_TOP};
use cairn_idl::errno::*;
use cairn_idl::vm::{
    flags, MapEntry, OF_ABSENT, OF_BREAK, OF_FILE, OF_LOCKED, OF_MOST_SHIFT, OF_OBJECT, OF_WIPED,
};

/// Bytes of a [`MapEntry`].
const ENTRY: usize = core::mem::size_of::<MapEntry>();
/// Entries written at a time.
const ENTRIES: usize = 64;

/// Frames of the heap that go back in one piece.
const RESTED_AT_ONCE: usize = 4;
/// Less heap than what is there for every request without asking.
pub(crate) const EVERY_REQUEST: usize = 64 * 1024;

/// What a [`MapEntry`] tells beside flags and object.
fn told_marks(region: &Region) -> u32 {
    let marks = [
        (LOCKED, OF_LOCKED),
        (WIPED, OF_WIPED),
        (ABSENT, OF_ABSENT),
        (BREAK, OF_BREAK),
    ];
    let told = marks.iter().filter(|(mark, _)| region.marks & mark != 0);
    told.fold(u32::from(region.most) << OF_MOST_SHIFT, |all, (_, bit)| {
        all | *bit as u32
    })
}

/// Where a region begins and ends for who looks at the space: a stack, and room that the break may grow into, as far as they were touched. None: not at all.
fn shown(space: &Space, region: &Region) -> Option<(u64, u64)> {
    let (start, end) = (region.start, region.end);
    if !region.stack() && region.marks & BREAK == 0 {
        return Some((start, end));
    }
    if space.pages.is_empty_in(start, end) {
        return None;
    }
    let first = match region.stack() {
        true => space.pages.first_of(start, end, 1) - 1,
        false => start,
    };
    let last = match region.stack() {
        true => end,
        false => space.pages.last_of(start, end, 1) + 1,
    };
    Some((first, last))
}

impl<N: Nucleus> Vm<N> {
    /// SPACE_STAT.
    pub(crate) fn space_stat(&self, index: usize) -> Result<Answer, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let shared = space.pages.shared(&self.frames);
        // What the personality keeps is no memory that a program asked for, and of address space that was only reserved (also the room that `brk`
        // may grow into, and the stack) what is in use counts.
        let reserved: u64 = space
            .regions
            .overlapping(0, u64::MAX)
            .map(|region| {
                let pages = region.end - region.start;
                if region.start >= PERSONALITY / PAGE {
                    pages
                } else if u64::from(region.flags) & (flags::NO_RESERVE | flags::STACK) != 0 {
                    pages - space.pages.count(region.start, region.end)
                } else {
                    0
                }
            })
            .sum();
        let [minor, major] = space.faults.words();
        Ok(Answer::new(&[
            0,
            space.pages.resident(),
            space.mapped.saturating_sub(reserved),
            shared,
            space.regions.locked(),
            space.regions.data(),
            minor,
            major,
        ]))
    }

    /// MEMORY_STAT.
    pub(crate) fn memory_stat(&self) -> Answer {
        let archive = u64::from(self.archive.1);
        let total = self.frames.total() as u64 + self.used + archive;
        let free = self.frames.free() as u64;
        let nucleus = self.table_frames + self.pools.frames;
        // The archive's pages in `init` are not counted twice.
        let native: u64 = self
            .spaces
            .iter()
            .filter(|(_, s)| !s.linux() && !s.eager)
            .map(|(_, s)| s.pages.resident())
            .sum::<u64>()
            + self.used
            + self.heap_frames;
        let linux = total.saturating_sub(free + nucleus + native + archive);
        Answer::new(&[
            0,
            total,
            free,
            nucleus,
            native,
            linux,
            archive,
            self.all_lent(),
        ])
    }

    /// MAPS.
    pub(crate) fn maps(&mut self, r: &Request, index: usize, from: u64) -> Result<u64, Errno> {
        let room = r.in_len / ENTRY;
        let mut done = 0;
        let mut next = from / PAGE;
        while done < room {
            let mut buffer = [0; ENTRIES * ENTRY];
            let (mut count, mut last) = (0, next);
            let space = self.spaces.get(index).ok_or(ESRCH)?;
            let wanted = ENTRIES.min(room - done);
            let regions = space.regions.overlapping(next, u64::MAX);
            let shown = regions.filter_map(|region| Some((region, shown(space, region)?)));
            // (What is not shown of a region may be all that lies behind `next`.)
            let shown = shown.filter(|(_, (_, end))| *end > next);
            for (region, (start, end)) in shown.take(wanted) {
                let entry = &mut buffer[count * ENTRY..][..ENTRY];
                entry[0..8].copy_from_slice(&(start * PAGE).to_le_bytes());
                entry[8..16].copy_from_slice(&(end * PAGE).to_le_bytes());
                entry[16..20].copy_from_slice(&u32::from(region.prot).to_le_bytes());
                let of_object = u32::from(region.object != ANONYMOUS) * OF_OBJECT as u32;
                let object = self.objects.get(region.object as usize);
                let of_file = object.is_some_and(|object| object.is_watched());
                let of_file = u32::from(of_file) * OF_FILE as u32;
                let flags = u32::from(region.flags) | of_object | of_file | told_marks(region);
                entry[20..24].copy_from_slice(&flags.to_le_bytes());
                entry[24..32].copy_from_slice(&(region.offset * PAGE).to_le_bytes());
                let resident = space.pages.count(start, end);
                entry[32..40].copy_from_slice(&resident.to_le_bytes());
                let called = object.map_or([0; 2], |object| object.called(region.object));
                entry[40..48].copy_from_slice(&called[0].to_le_bytes());
                entry[48..56].copy_from_slice(&called[1].to_le_bytes());
                last = end;
                count += 1;
            }
            self.write_part(r, (done * ENTRY) as u64, &buffer[..count * ENTRY])?;
            done += count;
            next = last;
            if count < wanted {
                break;
            }
        }
        Ok(done as u64)
    }

    /// IDENTITY: object and byte in it.
    pub(crate) fn identity(&self, index: usize, address: u64) -> Result<Answer, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let page = address / PAGE;
        let region = space.regions.find(page).ok_or(EFAULT)?;
        if !region.shared() || region.object == ANONYMOUS {
            return Ok(Answer::new(&[0]));
        }
        // Offsets in an object are below 2^47 bytes by the size of a space, but far below 2^40 by the size of any memory.
        let offset = (region.offset + (page - region.start)) * PAGE + address % PAGE;
        let page = u64::from(region.object) << 28 | ((offset / PAGE) & ((1 << 28) - 1));
        let number = self.names.of(page);
        Ok(Answer::new(&[1, (number * PAGE) | (offset % PAGE)]))
    }

    /// RESIDENT.
    pub(crate) fn resident(
        &mut self,
        r: &Request,
        index: usize,
        address: u64,
        len: u64,
    ) -> Result<u64, Errno> {
        let end = address
            .checked_add(len)
            .filter(|&e| e <= USER_TOP)
            .ok_or(ENOMEM)?
            .div_ceil(PAGE);
        if !address.is_multiple_of(PAGE) {
            return Err(EINVAL);
        }
        let start = address / PAGE;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.regions.covered(start, end) != end - start {
            return Err(ENOMEM);
        }
        if (r.in_len as u64) < end - start {
            return Err(EFAULT);
        }
        let mut page = start;
        while page < end {
            let mut bytes = [0; 512];
            let stop = (page + bytes.len() as u64).min(end);
            let space = self.spaces.get(index).ok_or(ESRCH)?;
            mark_resident(&space.pages, page, stop, &mut bytes);
            // What its object has there needs no reading either.
            for piece in space.regions.pieces(page, stop) {
                if let Some(object) = self.objects.get(piece.object as usize) {
                    let to = piece.offset + piece.pages();
                    let place = &mut bytes[(piece.start - page) as usize..];
                    mark_resident(&object.pages, piece.offset, to, place);
                }
            }
            self.write_part(r, page - start, &bytes[..(stop - page) as usize])?;
            page = stop;
        }
        Ok(0)
    }

    /// Let `vm`'s own heap have frames for the next requests.
    pub fn feed_heap(&mut self) {
        // If there are none, the heap does with what it has, and nothing new is recorded.
        self.starved = !self.heap_room(0);
    }

    /// Some of what `vm`'s own heap has given back is free for all. False: that was all of it.
    pub(crate) fn rest_heap(&mut self) -> bool {
        for _ in 0..RESTED_AT_ONCE {
            let Some(frame) = self.nucleus.heap_rest() else {
                return false;
            };
            if self.frames.release(frame) {
                self.heap_frames -= 1;
            } else if self.frames.adopt(frame) {
                // It was the heap's before there was a list of frames.
                self.frames.release(frame);
                self.used -= 1;
            }
        }
        true
    }

    /// As [`Vm::heap_room`] for what is small mostly.
    #[inline]
    pub(crate) fn heap_has(&mut self, bytes: usize) -> bool {
        bytes < EVERY_REQUEST && !self.starved || self.heap_room(bytes)
    }

    /// See that the heap can grow by this much; what it gets is counted as used.
    pub(crate) fn heap_room(&mut self, bytes: usize) -> bool {
        let before = self.frames.free();
        self.frames.accounts.payer = SYSTEM;
        let enough = self.nucleus.heap_room(&mut self.frames, bytes);
        self.heap_frames += (before - self.frames.free()) as u64;
        enough
    }
}

/// A byte of 1 for each page of `start..end` that is resident.
fn mark_resident(pages: &Pages, start: u64, end: u64, bytes: &mut [u8]) {
    for chunk in pages.overlapping(start, end) {
        let mut left = chunk.resident & mask(chunk.first, start, end);
        while left != 0 {
            let at = chunk.first + u64::from(left.trailing_zeros());
            bytes[(at - start) as usize] = 1;
            left &= left - 1;
        }
    }
}
