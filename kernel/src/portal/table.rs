//! A domain's portal table: entries in frames of 256, each with its own code address, and a free list in each frame.
//!
//! Slots below `RESERVED_SLOTS` are never handed out automatically, so they are not on a free list. Free entries are linked in both
//! directions through their target words, so taking any slot costs the same. Slots that were never used are not linked yet: automatic
//! choice takes them in order when the frame's list is empty, and a new frame costs no walk over its entries.
//!
//! Automatic choice takes a slot of the first frame that has one. So what a domain uses lies together whatever it had once: entries of the first frame can have
//! code of their own, and walks over the table end behind the last frame that has anything in it.

use crate::arch::{Arch, Frame};
use crate::pool::{FrameArray, Object};
use cairn_abi::layout::{MAX_SLOTS, RESERVED_SLOTS};
use cairn_abi::PortalKind;
use core::marker::PhantomData;
use core::mem::offset_of;

/// Entries in one frame.
pub const CHUNK: u32 = 256;
/// Bits of a selector that name a slot behind a table's first frame.
pub const FAR: u64 = u32::MAX as u64 & !(CHUNK as u64 - 1);
const CHUNKS: usize = (MAX_SLOTS / CHUNK) as usize;

/// What an entry leads to, in one word. What always holds: if portals of its kind lead to objects in a pool, it has a handle's number. In it are: the number of the object ([`crate::pool::Handle::number`]), line of an interrupt, range of ports, or links of a free entry; rights; kind; and in an entry,
/// after how many uses by the shared code it shall have code of its own ([`super::code`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Target(u64);

/// Of a free slot's neighbours on the list: where in the word they begin.
const NEXT: u32 = 0;
const PREVIOUS: u32 = 16;

/// Where in the word they begin.
const RIGHTS: u32 = 32;
const KIND: u32 = 48;
const USES: u32 = 56;

/// Uses until an entry gets code of its own, at first; until that is tried again.
pub const FIRST_USES: u8 = 32;
pub const MORE_USES: u8 = 255;

impl Target {
    pub const EMPTY: Target = Target::new(PortalKind::Empty, 0, 0);

    /// Of a kind that leads to nothing in a pool.
    pub const fn new(kind: PortalKind, object: u32, rights: u16) -> Target {
        assert!(matches!(
            kind,
            PortalKind::Empty
                | PortalKind::Current
                | PortalKind::Memory
                | PortalKind::Machine
                | PortalKind::Interrupt
                | PortalKind::Ports
                | PortalKind::Log
                | PortalKind::Trace
        ));
        Target::with_number(kind, object, rights)
    }

    /// Of a kind that leads to such objects.
    #[inline]
    pub fn to<R: Object>(kind: PortalKind, object: R, rights: u16) -> Target {
        assert!(R::is_led_to(kind));
        Target::with_number(kind, object.number(), rights)
    }

    const fn with_number(kind: PortalKind, object: u32, rights: u16) -> Target {
        Target(object as u64 | (rights as u64) << RIGHTS | (kind as u64) << KIND)
    }

    pub const fn object(self) -> u32 {
        self.0 as u32
    }

    pub const fn rights(self) -> u16 {
        (self.0 >> RIGHTS) as u16
    }

    #[inline(always)]
    pub const fn kind(self) -> PortalKind {
        // Sixteen kinds: the mask spares a look at other numbers.
        PortalKind::of(self.number() & 15)
    }

    /// The kind's number.
    pub const fn number(self) -> u8 {
        (self.0 >> KIND) as u8
    }

    pub const fn is_empty(self) -> bool {
        self.number() == PortalKind::Empty as u8
    }

    pub const fn uses(self) -> u8 {
        (self.0 >> USES) as u8
    }

    /// The same, with other rights.
    pub const fn with(self, rights: u16) -> Target {
        Target(self.0 & !(0xffff << RIGHTS) | (rights as u64) << RIGHTS)
    }

    const fn with_uses(self, uses: u8) -> Target {
        Target(self.0 & !(0xff << USES) | (uses as u64) << USES)
    }

    /// Whether every one of these rights is there.
    #[inline]
    pub fn may(self, rights: u16) -> bool {
        self.rights() & rights == rights
    }
}

/// One entry: where a traversal jumps to, and what that code needs to know.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Entry {
    pub code: usize,
    pub target: Target,
}

impl Entry {
    /// Where the parts of its target lie.
    pub const RIGHTS: usize = offset_of!(Entry, target) + RIGHTS as usize / 8;
    pub const KIND: usize = offset_of!(Entry, target) + KIND as usize / 8;
    pub const USES: usize = offset_of!(Entry, target) + USES as usize / 8;

    /// A free entry stands between these on the list.
    fn link(&mut self, previous: u16, next: u16) {
        let links = (previous as u32) << 16 | next as u32;
        self.target = Target::new(PortalKind::Empty, links, 0);
    }

    fn new<A: Arch>(target: Target) -> Entry {
        Entry {
            code: A::portal_code(target),
            target: target.with_uses(FIRST_USES),
        }
    }
}

/// What is known of the entries in one frame. Slots are named by their numbers in the table.
#[derive(Clone, Copy)]
struct Chunk {
    /// Entries in use.
    used: u16,
    /// First free slot on the list (0: none). Slots from `fresh` on are free without being on the list.
    free: u16,
    fresh: u16,
    /// No slot from here on was in use since the frame was last empty.
    high: u16,
}

impl Chunk {
    const EMPTY: Chunk = Chunk {
        used: 0,
        free: 0,
        fresh: 0,
        high: 0,
    };
}

const _: () = assert!(CHUNKS == 64 && MAX_SLOTS < 1 << 16);

// The chunks last, as in [`crate::channel::Channel`].
#[repr(C)]
pub struct Table<A: Arch> {
    arch: PhantomData<A>,
    /// Entries that exist.
    len: u32,
    /// Entries in use.
    used: u32,
    /// Free slots that automatic choice may take.
    free_count: u32,
    /// The frames that have such a slot, and those that have an entry in use: a bit for each.
    room: u64,
    occupied: u64,
    state: [Chunk; CHUNKS],
    pub(crate) chunks: [Option<FrameArray<Entry>>; CHUNKS],
}

impl<A: Arch> Table<A> {
    pub const fn new() -> Table<A> {
        Table {
            chunks: [const { None }; CHUNKS],
            arch: PhantomData,
            len: 0,
            used: 0,
            free_count: 0,
            room: 0,
            occupied: 0,
            state: [Chunk::EMPTY; CHUNKS],
        }
    }

    pub fn entries(&self) -> u32 {
        self.len
    }

    pub fn used(&self) -> u32 {
        self.used
    }

    /// No slot from here on is in use: walks over the table end here.
    #[inline(never)]
    pub fn high(&self) -> u32 {
        match self.occupied.checked_ilog2() {
            Some(last) => self.state[last as usize % CHUNKS].high as u32,
            None => 0,
        }
    }

    /// Free entries that automatic choice may take.
    pub fn free_slots(&self) -> u32 {
        self.free_count
    }

    #[inline]
    pub fn entry(&self, slot: u32) -> Option<&Entry> {
        let chunk = self.chunks.get((slot / CHUNK) as usize)?.as_ref()?;
        Some(&chunk[(slot % CHUNK) as usize])
    }

    fn target_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        let chunk = self.chunks.get_mut((slot / CHUNK) as usize)?.as_mut()?;
        Some(&mut chunk[(slot % CHUNK) as usize])
    }

    /// What an occupied slot leads to.
    #[inline(never)]
    pub fn target(&self, slot: u64) -> Option<Target> {
        let slot = u32::try_from(slot).ok()?;
        let target = self.entry(slot)?.target;
        (!target.is_empty()).then_some(target)
    }

    /// Is the table as large as it may become?
    pub fn is_full_size(&self) -> bool {
        self.len >= MAX_SLOTS
    }

    /// 256 entries more in a frame that the nucleus owns. The caller has checked `is_full_size`.
    pub fn grow(&mut self, arch: &mut A, frame: Frame) {
        let empty = Entry::new::<A>(Target::EMPTY);
        let first = self.len;
        let Some(chunk) = self.chunks.get_mut((first / CHUNK) as usize) else {
            return;
        };
        *chunk = Some(FrameArray::new(arch, frame, empty));
        let fresh = first.max(RESERVED_SLOTS);
        let index = (first / CHUNK) as usize;
        self.state[index % CHUNKS] = Chunk {
            fresh: fresh as u16,
            ..Chunk::EMPTY
        };
        self.room |= 1 << index;
        self.len += CHUNK;
        self.free_count += self.len - fresh;
    }

    /// Put slots that were never used, all of one frame, onto the list, the lowest first; they are counted already.
    fn list_fresh(&mut self, first: u32, end: u32) {
        if first >= end {
            return;
        }
        let state = &mut self.state[(first / CHUNK) as usize % CHUNKS];
        let before = core::mem::replace(&mut state.free, first as u16);
        self.relink(before as u32, PREVIOUS, end - 1);
        let Some(Some(chunk)) = self.chunks.get_mut((first / CHUNK) as usize) else {
            return;
        };
        let mut previous = 0;
        let slots = (first % CHUNK) as usize..((end - 1) % CHUNK) as usize + 1;
        let Some(entries) = chunk.as_mut_slice().get_mut(slots) else {
            return;
        };
        for (slot, entry) in (first as u16..).zip(entries) {
            entry.link(previous, slot + 1);
            previous = slot;
        }
        self.relink(end - 1, NEXT, before as u32);
    }

    /// One of the neighbours on the list of a free slot, if it is one (0: none), is this from now on.
    #[inline(never)]
    fn relink(&mut self, slot: u32, side: u32, neighbour: u32) {
        if let Some(entry) = self.target_mut(slot).filter(|_| slot != 0) {
            entry.target.0 = entry.target.0 & !(0xffff << side) | (neighbour as u64) << side;
        }
    }

    /// A frame of an empty table, or None when all are taken out.
    pub fn shrink(&mut self) -> Option<Frame> {
        self.free_count = 0;
        self.room = 0;
        self.occupied = 0;
        let index = (self.len / CHUNK).checked_sub(1)?;
        self.len -= CHUNK;
        let chunk = self.chunks.get_mut(index as usize)?.take();
        chunk.map(FrameArray::into_frame)
    }

    fn link_free(&mut self, slot: u32) {
        let index = (slot / CHUNK) as usize % CHUNKS;
        let next = core::mem::replace(&mut self.state[index].free, slot as u16);
        self.relink(next as u32, PREVIOUS, slot);
        if let Some(entry) = self.target_mut(slot) {
            entry.link(0, next);
        }
        self.room |= 1 << index;
        self.free_count += 1;
    }

    fn unlink_free(&mut self, slot: u32) {
        let index = (slot / CHUNK) as usize % CHUNKS;
        let fresh = self.state[index].fresh as u32;
        self.free_count -= 1;
        if slot >= fresh {
            // What is passed over goes onto the list.
            self.state[index].fresh = slot as u16 + 1;
            self.list_fresh(fresh, slot);
        } else {
            let Some(entry) = self.target_mut(slot) else {
                return;
            };
            let (previous, next) = (entry.target.object() >> 16, entry.target.object() & 0xffff);
            if previous == 0 {
                self.state[index].free = next as u16;
            }
            self.relink(previous, NEXT, next);
            self.relink(next, PREVIOUS, previous);
        }
        let Chunk { free, fresh, .. } = self.state[index];
        if free == 0 && fresh as u32 == (index as u32 + 1) * CHUNK {
            self.room &= !(1 << index);
        }
    }

    /// The slot that automatic choice would take.
    pub fn next_free(&self) -> Option<u32> {
        let first = self.room.trailing_zeros() as usize;
        let Chunk { free, fresh, .. } = self.state.get(first)?;
        Some(match free {
            0 => *fresh as u32,
            _ => *free as u32,
        })
    }

    /// The first slot in `from..end` whose target has a bit in common with this one, and what that is.
    #[inline(never)]
    pub fn next_with(&self, from: u32, end: u32, wanted: Target) -> Option<(u32, Target)> {
        let mut at = from;
        while at < end {
            let row = self.row(at, end);
            if row.is_empty() {
                return None;
            }
            for (slot, entry) in (at..).zip(row) {
                if entry.target.0 & wanted.0 != 0 {
                    return Some((slot, entry.target));
                }
            }
            at += row.len() as u32;
        }
        None
    }

    /// The first occupied slot in `from..end`, and what it leads to.
    pub fn next_used(&self, from: u32, end: u32) -> Option<(u32, Target)> {
        self.next_with(from, end, Target(0xff << KIND))
    }

    /// The entries of `from..end`, as far as they lie in one frame.
    #[inline(always)]
    pub fn row(&self, from: u32, end: u32) -> &[Entry] {
        let first = from % CHUNK;
        let stop = CHUNK.min(end.saturating_sub(from) + first);
        let chunk = self.chunks.get((from / CHUNK) as usize);
        let entries = chunk.and_then(Option::as_ref).map(FrameArray::as_slice);
        let row = entries.and_then(|entries| entries.get(first as usize..stop as usize));
        row.unwrap_or(&[])
    }

    #[inline(always)]
    fn row_mut(&mut self, from: u32, end: u32) -> &mut [Entry] {
        let first = from % CHUNK;
        let stop = CHUNK.min(end.saturating_sub(from) + first);
        let chunk = self.chunks.get_mut((from / CHUNK) as usize);
        let entries = chunk.and_then(Option::as_mut).map(FrameArray::as_mut_slice);
        let row = entries.and_then(|entries| entries.get_mut(first as usize..stop as usize));
        row.unwrap_or(&mut [])
    }

    /// Is this a slot with nothing in it?
    #[inline(always)]
    pub fn is_empty(&self, slot: u32) -> bool {
        let entry = self.entry(slot);
        entry.is_some_and(|entry| entry.target.is_empty())
    }

    /// Of a table that is taken apart, whose free slots nobody takes any more: empty the occupied slots in `from..end`, within a frame, up to the first that does not go; at most `most`. → where that ended, and how many.
    #[inline(always)]
    pub fn drop_row(
        &mut self,
        from: u32,
        end: u32,
        most: u32,
        mut goes: impl FnMut(&Entry) -> bool,
    ) -> (u32, u32) {
        let (mut at, mut dropped) = (from, 0);
        for entry in self.row_mut(from, end) {
            if !entry.target.is_empty() {
                if dropped == most || !goes(entry) {
                    break;
                }
                *entry = Entry::new::<A>(Target::EMPTY);
                dropped += 1;
            }
            at += 1;
        }
        self.used -= dropped;
        (at, dropped)
    }

    /// Fill an empty slot. The caller has counted the holder.
    pub fn install(&mut self, slot: u32, target: Target) {
        if slot >= RESERVED_SLOTS {
            self.unlink_free(slot);
        }
        if let Some(entry) = self.target_mut(slot) {
            *entry = Entry::new::<A>(target);
            self.used += 1;
            let index = (slot / CHUNK) as usize % CHUNKS;
            let state = &mut self.state[index];
            state.used += 1;
            state.high = state.high.max(slot as u16 + 1);
            self.occupied |= 1 << index;
        }
    }

    /// Change the rights of an occupied slot.
    pub fn set_rights(&mut self, slot: u32, rights: u16) {
        if let Some(entry) = self.target_mut(slot) {
            *entry = Entry::new::<A>(entry.target.with(rights));
        }
    }

    /// Address of the first entry.
    pub fn start(&self) -> usize {
        self.chunks[0].as_ref().map_or(0, FrameArray::address)
    }

    /// Give an entry this code; the shared code counts so many uses from now on.
    pub fn set_code(&mut self, slot: u32, code: usize, uses: u8) {
        if let Some(entry) = self.target_mut(slot) {
            entry.code = code;
            entry.target = entry.target.with_uses(uses);
        }
    }

    /// Give an entry the shared code of its kind.
    pub fn share_code(&mut self, slot: u32) {
        if let Some(entry) = self.target_mut(slot) {
            *entry = Entry::new::<A>(entry.target);
        }
    }

    /// Empty an occupied slot. The caller releases what was in it, and the code, which is the answer.
    #[inline]
    pub fn clear(&mut self, slot: u32) -> usize {
        let Some(entry) = self.target_mut(slot) else {
            return 0;
        };
        let code = core::mem::replace(entry, Entry::new::<A>(Target::EMPTY)).code;
        self.used -= 1;
        let index = (slot / CHUNK) as usize % CHUNKS;
        let state = &mut self.state[index];
        state.used -= 1;
        if state.used == 0 {
            state.high = 0;
            self.occupied &= !(1 << index);
        }
        if slot >= RESERVED_SLOTS {
            self.link_free(slot);
        }
        code
    }
}

impl<A: Arch> Default for Table<A> {
    fn default() -> Self {
        Table::new()
    }
}
