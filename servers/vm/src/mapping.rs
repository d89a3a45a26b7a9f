//! What a program does with its own address space: map, unmap, protect, move, advise. Errors are Linux's.

use crate::accounts::ONE_RECORD;
use crate::fault::{Fault, PLENTY};
use crate::frames::MANY;
use crate::nucleus::Nucleus;
use crate::pages::{mask, Kinds, Pages, CHUNK};
use crate::region::{Region, ABSENT, ANONYMOUS, LOCKED, ON_FAULT, WIPED};
use crate::shown::NO_ZEROES;
use crate::space::{
    hardware, with_tables, Errno, Hears, Layout, Object, Vm, BATCH, MAX_REGIONS, NOBODY,
};
use cairn_abi::layout;
use cairn_idl::errno::*;
use cairn_idl::vm::{advice, flags, prot};

const PAGE: u64 = layout::PAGE;
/// First page behind all user memory.
const TOP: u64 = layout::USER_TOP / PAGE;
/// Pages of a new stack that are resident from the start.
const STACK_AT_ONCE: u64 = 2;
/// Flags that stay with a region.
const KEPT_FLAGS: u64 = flags::SHARED | flags::STACK | flags::NO_RESERVE | flags::PROGRAM;
/// `REMAP` flags.
const MAY_MOVE: u64 = 1;
const REMAP_FIXED: u64 = 2;
/// What was moved leaves empty memory behind.
const DONT_UNMAP: u64 = 4;

/// What a new mapping shows.
#[derive(Clone, Copy)]
pub(crate) enum Backing {
    Anonymous,
    /// The same, but its pages come from somewhere else next.
    Coming,
    /// Index, first page, and whether it may be mapped shared and writable if it allows that.
    Object(u32, u64, bool),
}

/// Bytes to pages, rounded up. None if it overflows.
pub(crate) fn pages(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(PAGE - 1)? / PAGE)
}

/// An aligned address and a length as a range of pages within user memory.
pub(crate) fn range(address: u64, len: u64, outside: Errno) -> Result<(u64, u64), Errno> {
    if !address.is_multiple_of(PAGE) {
        return Err(EINVAL);
    }
    let start = address / PAGE;
    let end = start
        .checked_add(pages(len).ok_or(outside)?)
        .ok_or(outside)?;
    if end > TOP {
        return Err(outside);
    }
    Ok((start, end))
}

pub(crate) fn overlaps(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// Change what the hardware allows for the resident pages of `start..end` from protection `old` to `new`.
#[inline]
fn protect_pages<N: Nucleus>(
    nucleus: &mut N,
    slot: u32,
    resident: &Pages,
    start: u64,
    end: u64,
    old: u8,
    new: u8,
) {
    if hardware(old, false) == hardware(new, false) {
        return;
    }
    resident.runs(start, end, 64, BATCH, Kinds::Cow, |run| {
        let now = hardware(new, run.marked);
        if now == hardware(old, run.marked) {
            return;
        }
        // Pages stay resident without a mapping when nothing is allowed; a fault brings the mapping back.
        let _ = if now == 0 {
            nucleus.unmap(slot, run.page * PAGE, run.pages)
        } else {
            nucleus.protect(slot, run.page * PAGE, run.pages, now)
        };
    });
}

impl<N: Nucleus> Vm<N> {
    /// MAP, OBJECT_MAP and their control forms → address.
    pub(crate) fn map(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        bits: u64,
        flag: u64,
        backing: Backing,
    ) -> Result<u64, Errno> {
        let start = self.map_unseen(index, address, len, bits, flag, backing)?;
        self.show_found(index);
        Ok(start)
    }

    /// The same, but what it shows at once is put into a list only, for [`Vm::show_found`].
    pub(crate) fn map_unseen(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        bits: u64,
        flag: u64,
        backing: Backing,
    ) -> Result<u64, Errno> {
        if len == 0 {
            return Err(EINVAL);
        }
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        space.code.check(bits)?;
        let count = pages(len).ok_or(ENOMEM)?;
        let shared = flag & flags::SHARED != 0;
        let mut most = (prot::READ | prot::WRITE | prot::EXECUTE) as u8;
        let (mut object, mut offset) = (ANONYMOUS, 0);
        if let Backing::Object(number, first, may_write) = backing {
            (object, offset) = (number, first);
            first.checked_add(count).ok_or(EOVERFLOW)?;
            let writable = self.objects.get(number as usize).ok_or(EINVAL)?.writable;
            if shared && !(writable && may_write) {
                most &= !(prot::WRITE as u8);
            }
        }
        if bits as u8 & !most != 0 {
            return Err(EACCES);
        }
        let all = || self.frames.total() as u64 + u64::from(self.archive.1);
        let anonymous_shared = shared && object == ANONYMOUS;
        if object == ANONYMOUS
            && count > all()
            && (anonymous_shared || flag & flags::NO_RESERVE == 0 && bits & prot::WRITE != 0)
        {
            return Err(ENOMEM);
        }
        if space.regions.len() >= MAX_REGIONS || !self.may_record(space) {
            return Err(ENOMEM);
        }
        let (origin, account) = (space.handle, space.account);
        let many = space.has_many();
        let exact = flag & (flags::FIXED | flags::FIXED_NOREPLACE) != 0;
        let start = if exact {
            let (start, end) = range(address, len, ENOMEM)?;
            if start < layout::LINUX_LOW / PAGE {
                return Err(EPERM);
            }
            if self.is_barred(start, end) {
                return Err(EINVAL);
            }
            if flag & flags::FIXED_NOREPLACE != 0 && !space.regions.is_free(start, end) {
                return Err(EEXIST);
            }
            start
        } else {
            self.place(index, address / PAGE, count, flag)?
        };
        let end = start + count;
        let replaced = if exact {
            space.regions.covered(start, end)
        } else {
            0
        };
        if count > replaced && !space.within_limit(count - replaced) {
            return Err(ENOMEM);
        }
        let mut new = Region {
            start,
            end,
            prot: bits as u8,
            most,
            flags: (flag & KEPT_FLAGS) as u8,
            marks: 0,
            object,
            offset,
        };
        if space.linux() && new.is_programs() {
            new.marks = space.marks_for(flag)?;
            let same = |r: Region| (r.data(), r.locked());
            let there = match replaced {
                0 => (0, 0),
                _ => space
                    .regions
                    .pieces(start, end)
                    .map(same)
                    .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1)),
            };
            if !space.may_have_data(new.data().saturating_sub(there.0)) {
                return Err(ENOMEM);
            }
            if new.marks & LOCKED != 0 && !space.may_lock(new.locked().saturating_sub(there.1)) {
                return Err(EAGAIN);
            }
        }
        if !self.room_for_regions(index) {
            return Err(ENOMEM);
        }
        if anonymous_shared && !(self.may_record_for(account, ONE_RECORD) && self.objects.room()) {
            return Err(ENOMEM);
        }
        if replaced > 0 && many {
            self.are_few(index, start, end)?;
        }
        // Everything is checked: change things. The object first: what is replaced may be all that keeps it.
        if let Some(object) = self.objects.get_mut(object as usize) {
            object.shows(&new, count);
        }
        if replaced > 0 {
            self.unmap_pages(index, start, end);
        }
        if anonymous_shared {
            let made = self.objects.insert(Object {
                pages: Default::default(),
                handle: NOBODY,
                tag: 0,
                hears: Hears::Nothing,
                idle: false,
                rests: false,
                shared: false,
                maker: NOBODY,
                origin,
                account,
                len: count,
                writable: true,
                portals: 0,
                inherited: false,
                with_maker: false,
                mapped: 0,
                programs: 0,
                asked: false,
                behind: 0,
                times: 0,
            });
            object = made.ok_or(ENOMEM)? as u32;
            if let Some(object) = self.objects.get_mut(object as usize) {
                object.shows(&new, count);
            }
            self.count_records(account, ONE_RECORD as i64);
        }
        let Some(space) = self.spaces.get_mut(index) else {
            return Err(ESRCH);
        };
        space.mapped += count;
        new.object = object;
        space.regions.insert(new);
        let (eager, floor) = (space.eager, space.floor);
        // A loader maps a whole library to be read, wherever there is room, and then most of it once more: that waits for faults.
        if matches!(backing, Backing::Object(..)) && (exact || bits != prot::READ) {
            let copies = flag & (flags::PROGRAM | flags::LIBRARY) != 0;
            if exact && flag & flags::LIBRARY != 0 {
                self.find_below(index, start, object);
            }
            self.find_again(index, start, end, copies);
        } else if matches!(backing, Backing::Anonymous)
            && bits & prot::WRITE != 0
            && flag & NO_ZEROES == 0
            && !eager
        {
            self.find_zeroes(index, start, end, exact);
        }
        let populates = bits != 0 && (eager || flag & flags::POPULATE != 0);
        if populates {
            self.show_found(index);
        }
        if flag & flags::STACK != 0 && end - start > STACK_AT_ONCE {
            // Every program that starts puts something there; without them they come by faults.
            let _ = self.populate(index, end - STACK_AT_ONCE, end, true, floor + PLENTY);
        }
        if populates {
            let write = bits & prot::WRITE != 0;
            let stop = self.populated_at_once(index, start, end);
            match self.populate(index, start, stop, write, 0) {
                Err(Fault::Exhausted) if eager => {
                    self.unmap_pages(index, start, end);
                    return Err(ENOMEM);
                }
                // As with Linux, what could not be made resident comes by faults.
                _ => {}
            }
        }
        if new.marks & (LOCKED | ON_FAULT) == LOCKED && bits != 0 {
            self.show_found(index);
            let _ = self.make_resident(index, start, end);
        }
        Ok(start * PAGE)
    }

    /// What changes a part of regions makes two more at most: see that there can be.
    #[inline(always)]
    pub(crate) fn room_to_split(&mut self, index: usize) -> Result<(), Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let room = space.regions.len() + 2 <= MAX_REGIONS && self.may_record(space);
        match room && self.room_for_regions(index) {
            true => Ok(()),
            false => Err(ENOMEM),
        }
    }

    /// A list of regions doubles in one piece when it is full: see that it can get as many more as one request makes.
    pub(crate) fn room_for_regions(&mut self, index: usize) -> bool {
        let Some(space) = self.spaces.get_mut(index) else {
            return false;
        };
        let growth = space.regions.growth();
        growth == 0 || self.grow_regions(index, growth)
    }

    #[cold]
    fn grow_regions(&mut self, index: usize, growth: usize) -> bool {
        let Some(account) = self.spaces.get(index).map(|space| space.account) else {
            return false;
        };
        if !self.may_record_for(account, growth) || !self.heap_has(growth) {
            return false;
        }
        let space = self.spaces.get_mut(index);
        let grown = space.is_some_and(|space| space.regions.room());
        self.count_regions(index);
        grown
    }

    /// A free place for `count` pages: at the hint if that is free, else where the layout says.
    pub(crate) fn place(
        &self,
        index: usize,
        hint: u64,
        count: u64,
        flag: u64,
    ) -> Result<u64, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let (low, high, down) = if flag & flags::PERSONALITY != 0 {
            (
                layout::PERSONALITY_HEAP / PAGE,
                layout::PERSONALITY_HEAP_END / PAGE,
                false,
            )
        } else {
            match space.layout {
                Layout::Native(from) => (from, layout::ARCHIVE / PAGE, false),
                Layout::Linux => (layout::LINUX_LOW / PAGE, layout::LINUX_TOP / PAGE, true),
            }
        };
        if hint >= low
            && hint
                .checked_add(count)
                .is_some_and(|end| end <= high && space.regions.is_free(hint, end))
        {
            return Ok(hint);
        }
        if down {
            space.regions.gap_below(low, high, count)
        } else {
            space.regions.gap_above(low, high, count)
        }
        .ok_or(ENOMEM)
    }

    pub(crate) fn unmap(&mut self, index: usize, address: u64, len: u64) -> Result<u64, Errno> {
        let (start, end) = range(address, len, EINVAL)?;
        if start == end {
            return Err(EINVAL);
        }
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let many = space.has_many();
        // A hole inside a region makes one region more.
        if space.regions.len() >= MAX_REGIONS
            && space
                .regions
                .find(start)
                .is_some_and(|r| r.start < start && end < r.end)
        {
            return Err(ENOMEM);
        }
        if !self.room_for_regions(index) {
            return Err(ENOMEM);
        }
        if many {
            self.are_few(index, start, end)?;
        }
        self.unmap_pages(index, start, end);
        Ok(0)
    }

    pub(crate) fn protect(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        bits: u64,
    ) -> Result<u64, Errno> {
        let (start, end) = range(address, len, ENOMEM)?;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let (code, many) = (space.code, space.has_many());
        code.check(bits)?;
        if start == end {
            return Ok(0);
        }
        let allowed = |region: &Region| {
            code.check_change(u64::from(region.prot), bits)?;
            match bits as u8 & !region.most {
                0 => Ok(()),
                _ => Err(EACCES),
            }
        };
        let single = space.regions.single(start, end);
        // What becomes data by it.
        let becomes = |region: &Region| {
            let prot = bits as u8;
            Region { prot, ..*region }.data() - region.data().min(Region { prot, ..*region }.data())
        };
        let mut locked = false;
        match &single {
            Some((_, region)) => {
                allowed(region)?;
                let more = becomes(&Region {
                    start,
                    end,
                    ..*region
                });
                locked = region.marks & LOCKED != 0;
                if !space.may_have_data(more) {
                    return Err(ENOMEM);
                }
            }
            None => {
                let (mut covered, mut more) = (0, 0);
                for region in space.regions.pieces(start, end) {
                    allowed(&region)?;
                    covered += region.pages();
                    more += becomes(&region);
                    locked |= region.marks & LOCKED != 0;
                }
                if !space.may_have_data(more) {
                    return Err(ENOMEM);
                }
                if covered != end - start {
                    return Err(ENOMEM);
                }
            }
        }
        self.room_to_split(index)?;
        if many {
            self.are_few_to_protect(index, (start, end), bits)?;
        }
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let nucleus = &mut self.nucleus;
        if let Some((at, region)) = single {
            if region.prot != bits as u8 {
                let slot = space.slot;
                protect_pages(
                    nucleus,
                    slot,
                    &space.pages,
                    start,
                    end,
                    region.prot,
                    bits as u8,
                );
                space.regions.protect_within(at, start, end, bits as u8);
            }
        } else {
            for region in space.regions.pieces(start, end) {
                let (first, last) = (region.start, region.end);
                let slot = space.slot;
                protect_pages(
                    nucleus,
                    slot,
                    &space.pages,
                    first,
                    last,
                    region.prot,
                    bits as u8,
                );
            }
            space.regions.protect(start, end, bits as u8);
        }
        if space.eager && bits != 0 {
            // A space that cannot fault needs its mappings back at once.
            let _ = self.populate(index, start, end, bits & prot::WRITE != 0, 0);
        }
        if locked && bits & prot::WRITE != 0 {
            // What is locked and writable is the program's own from the start.
            let _ = self.make_resident(index, start, end);
        }
        Ok(0)
    }

    /// REMAP_PAGES: a part of shared mappings of one object shows others of its pages.
    pub(crate) fn remap_pages(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        first: u64,
    ) -> Result<u64, Errno> {
        let (start, end) = range(address, len, EINVAL)?;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let region = *space.regions.find(start).ok_or(EINVAL)?;
        let alike = |other: &Region| {
            let what = |r: &Region| (r.object, r.prot, r.most, r.flags, r.marks);
            what(other) == what(&region)
        };
        let whole = space.regions.covered(start, end) == end - start
            && space.regions.overlapping(start, end).all(alike);
        if !region.shared() || region.object == ANONYMOUS || !whole {
            return Err(EINVAL);
        }
        first.checked_add(end - start).ok_or(EINVAL)?;
        let locked = match region.marks & LOCKED {
            0 => 0,
            _ => flags::LOCKED,
        };
        let flag = flags::FIXED | flags::SHARED | flags::POPULATE | locked;
        let may_write = u64::from(region.most) & prot::WRITE != 0;
        let backing = Backing::Object(region.object, first, may_write);
        self.map(index, address, len, region.prot.into(), flag, backing)?;
        Ok(0)
    }

    /// REMAP of no bytes: what is shared there is mapped a second time.
    fn map_again(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        flag: u64,
        wanted: u64,
    ) -> Result<u64, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let region = *space.regions.find(address / PAGE).ok_or(EFAULT)?;
        if !address.is_multiple_of(PAGE) || flag & DONT_UNMAP != 0 {
            return Err(EINVAL);
        }
        if !region.shared() || region.object == ANONYMOUS {
            return Err(EINVAL);
        }
        if flag & MAY_MOVE == 0 {
            return Err(ENOMEM);
        }
        let (at, exact) = match flag & REMAP_FIXED {
            0 => (0, 0),
            _ => (wanted, flags::FIXED),
        };
        if exact != 0 {
            let (start, end) = range(at, len, EINVAL)?;
            let old = address / PAGE;
            if start < old && old < end {
                return Err(EINVAL);
            }
        }
        let locked = match region.marks & LOCKED {
            0 => 0,
            _ => flags::LOCKED,
        };
        let high = match region.start >= layout::PERSONALITY / PAGE {
            true => flags::PERSONALITY,
            false => 0,
        };
        let first = region.offset + (address / PAGE - region.start);
        let may_write = u64::from(region.most) & prot::WRITE != 0;
        let backing = Backing::Object(region.object, first, may_write);
        let flag = flags::SHARED | exact | locked | high;
        self.map(index, at, len, region.prot.into(), flag, backing)
    }

    pub(crate) fn remap(
        &mut self,
        index: usize,
        address: u64,
        old_len: u64,
        new_len: u64,
        flag: u64,
        wanted: u64,
    ) -> Result<u64, Errno> {
        let fixed = flag & REMAP_FIXED != 0;
        let stays = flag & DONT_UNMAP != 0;
        if flag & !(MAY_MOVE | REMAP_FIXED | DONT_UNMAP) != 0
            || (fixed || stays) && flag & MAY_MOVE == 0
        {
            return Err(EINVAL);
        }
        if new_len == 0 {
            return Err(EINVAL);
        }
        if old_len == 0 {
            return self.map_again(index, address, new_len, flag, wanted);
        }
        let (start, old_end) = range(address, old_len, EINVAL)?;
        let old = old_end - start;
        let new = pages(new_len).ok_or(EINVAL)?;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let region = *space.regions.find(start).ok_or(EFAULT)?;
        // What is made shorter may be several mappings.
        let shrinks = new <= old && !fixed && !stays;
        if region.end < old_end && !shrinks {
            return Err(EFAULT);
        }
        if stays && (new != old || region.object != ANONYMOUS || region.shared()) {
            return Err(EINVAL);
        }
        if stays && !space.within_limit(old) {
            return Err(ENOMEM);
        }
        if new > old && !space.within_limit(new - old) || !self.may_record(space) {
            return Err(ENOMEM);
        }
        if new > old {
            let like = Region {
                start: old_end,
                end: old_end + (new - old),
                ..region
            };
            if !space.may_have_data(like.data()) {
                return Err(ENOMEM);
            }
            if like.marks & LOCKED != 0 && !space.may_lock(like.locked()) {
                return Err(EAGAIN);
            }
        }
        // What is moved gets chunks of its own, perhaps at other places within them.
        let moved = space.pages.overlapping(start, old_end).count();
        let growth = space.pages.growth(2 * moved + 1);
        if !self.heap_has(growth) || !self.room_for_regions(index) {
            return Err(ENOMEM);
        }
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if fixed {
            let (to, to_end) = range(wanted, new_len, EINVAL)?;
            if to < old_end && start < to_end || self.is_barred(to, to_end) {
                return Err(EINVAL);
            }
            if to < layout::LINUX_LOW / PAGE {
                return Err(EPERM);
            }
            self.are_few(index, to, to_end)?;
            self.unmap_pages(index, to, to_end);
            let moved = self.relocate(index, region, (start, old), (to, new));
            return self.left_behind(index, region, (start, old_end), stays, moved);
        }
        if shrinks {
            if new < old {
                self.are_few(index, start + new, old_end)?;
                self.unmap_pages(index, start + new, old_end);
            }
            return Ok(address);
        }
        let end = start.checked_add(new).ok_or(ENOMEM)?;
        if region.end == old_end
            && !stays
            && end <= TOP
            && !self.is_barred(old_end, end)
            && space.regions.is_free(old_end, end)
        {
            self.extend(index, region, old_end, end);
            let _ = self.make_resident(index, old_end, end);
            return Ok(address);
        }
        if flag & MAY_MOVE == 0 {
            return Err(ENOMEM);
        }
        let range = if start >= layout::PERSONALITY / PAGE {
            flags::PERSONALITY
        } else {
            0
        };
        let to = match self.place(index, 0, new + CHUNK - 1, range) {
            // Chunks that lie alike go as they are.
            Ok(gap) if old >= CHUNK => gap + (start.wrapping_sub(gap) & (CHUNK - 1)),
            _ => self.place(index, 0, new, range)?,
        };
        let moved = self.relocate(index, region, (start, old), (to, new));
        self.left_behind(index, region, (start, old_end), stays, moved)
    }

    /// After a move with DONT_UNMAP: empty memory, like what was there.
    fn left_behind(
        &mut self,
        index: usize,
        region: Region,
        (start, end): (u64, u64),
        stays: bool,
        moved: Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        if stays && moved.is_ok() {
            let marks = region.marks & !LOCKED;
            self.add_region(
                index,
                Region {
                    start,
                    end,
                    marks,
                    ..region
                },
            );
        }
        moved
    }

    /// Continue `region` over `start..end`, which is free.
    fn extend(&mut self, index: usize, region: Region, start: u64, end: u64) {
        let offset = match region.object {
            ANONYMOUS => 0,
            _ => region.offset + (start - region.start),
        };
        self.add_region(
            index,
            Region {
                start,
                end,
                offset,
                ..region
            },
        );
    }

    fn add_region(&mut self, index: usize, region: Region) {
        if region.object != ANONYMOUS {
            if let Some(object) = self.objects.get_mut(region.object as usize) {
                object.shows(&region, region.pages());
            }
        }
        if let Some(space) = self.spaces.get_mut(index) {
            space.mapped += region.pages();
            space.regions.insert(region);
        }
        if let Some(true) = self.spaces.get(index).map(|s| s.eager) {
            let write = u64::from(region.prot) & prot::WRITE != 0;
            let _ = self.populate(index, region.start, region.end, write, 0);
        }
    }

    /// Something that nothing can be placed over holds these pages, which are free. False: it would be beyond a limit.
    pub(crate) fn holds(&mut self, index: usize, start: u64, end: u64) -> bool {
        let room = self.room_to_split(index).is_ok();
        let space = self.spaces.get_mut(index);
        let Some(space) = space.filter(|space| room && space.within_limit(end - start)) else {
            return false;
        };
        space.mapped += end - start;
        space.regions.insert(Region {
            start,
            end,
            prot: 0,
            most: 0,
            flags: flags::NO_RESERVE as u8,
            marks: 0,
            object: ANONYMOUS,
            offset: 0,
        });
        true
    }

    /// Move a part of a region to where [`Vm::holds`] has made room.
    pub(crate) fn move_part(
        &mut self,
        index: usize,
        (start, stop): (u64, u64),
        to: u64,
    ) -> Result<(), Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let region = *space.regions.find(start).ok_or(EFAULT)?;
        let (count, to_end) = (stop - start, to + (stop - start));
        // Others of the program's threads may have done there what they liked.
        if region.end < stop || space.pages.has_more(to, to_end, MANY) {
            return Err(EFAULT);
        }
        self.unmap_pages(index, to, to_end);
        self.move_region(index, region, (start, count), (to, count))?;
        Ok(())
    }

    /// What ends before `start` goes on to `end`, where nothing is.
    pub(crate) fn lengthen(&mut self, index: usize, start: u64, end: u64) {
        let space = self.spaces.get(index);
        let region = space.and_then(|space| space.regions.find(start - 1).copied());
        if let Some(region) = region.filter(|_| start < end) {
            self.extend(index, region, start, end);
            let _ = self.make_resident(index, start, end);
        }
    }

    /// Move `old` pages from `from` to `to`, where `new` pages are free.
    fn relocate(
        &mut self,
        index: usize,
        region: Region,
        (from, old): (u64, u64),
        (to, new): (u64, u64),
    ) -> Result<u64, Errno> {
        let kept = old.min(new);
        // A shrinking move drops the tail first.
        if kept < old {
            self.are_few(index, from + kept, from + old)?;
            self.unmap_pages(index, from + kept, from + old);
        }
        self.are_few_to_move(index, (from, from + kept), (to, to + new))?;
        self.move_region(index, region, (from, kept), (to, new))
    }

    fn move_region(
        &mut self,
        index: usize,
        region: Region,
        (from, kept): (u64, u64),
        (to, new): (u64, u64),
    ) -> Result<u64, Errno> {
        let offset = match region.object {
            ANONYMOUS => 0,
            _ => region.offset + (from - region.start),
        };
        self.moves += 1;
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let slot = space.slot;
        let nucleus = &mut self.nucleus;
        space
            .pages
            .runs(from, from + kept, 64, BATCH, Kinds::One, |run| {
                let _ = nucleus.unmap(slot, run.page * PAGE, run.pages);
            });
        // Whole chunks go as they are if they lie alike in the new place.
        let (first, last) = (from.next_multiple_of(CHUNK), (from + kept) & !(CHUNK - 1));
        if (to.wrapping_sub(from)).is_multiple_of(CHUNK) && first < last {
            let above = first - from;
            self.move_pages(index, region.prot, (from, to), above);
            self.shift_chunks(index, region.prot, (first, last), to.wrapping_sub(from));
            let done = last - from;
            self.move_pages(index, region.prot, (last, to + done), kept - done);
        } else {
            self.move_pages(index, region.prot, (from, to), kept);
        }
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let mapped = &mut space.mapped;
        space
            .regions
            .remove(from, from + kept, |r| *mapped -= r.pages());
        if region.object != ANONYMOUS {
            if let Some(object) = self.objects.get_mut(region.object as usize) {
                object.hides(&region, kept);
            }
        }
        self.add_region(
            index,
            Region {
                start: to,
                end: to + new,
                offset,
                ..region
            },
        );
        if new > kept {
            let _ = self.make_resident(index, to + kept, to + new);
        }
        Ok(to * PAGE)
    }

    /// Slots of whole chunks move by so many pages, and are mapped there.
    fn shift_chunks(&mut self, index: usize, prot: u8, (first, last): (u64, u64), by: u64) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let (nucleus, frames, tables) =
            (&mut self.nucleus, &mut self.frames, &mut self.table_frames);
        space.pages.shift(frames, first, last, by);
        // (The lists are not touched while page tables are given.)
        let pages = core::mem::take(&mut space.pages);
        for chunk in pages.overlapping(first.wrapping_add(by), last.wrapping_add(by)) {
            let mut left = chunk.resident;
            while left != 0 {
                let bit = left.trailing_zeros();
                let cow = chunk.cow >> bit & 1 != 0;
                let alike = left & if cow { chunk.cow } else { !chunk.cow };
                let len = (!(alike >> bit)).trailing_zeros().min(CHUNK as u32 - bit);
                left &= !((u64::MAX >> (CHUNK as u32 - len)) << bit);
                let bits = hardware(prot, cow);
                if bits != 0 {
                    let at = (chunk.first + u64::from(bit)) * PAGE;
                    let list = &chunk.frames[bit as usize..][..len as usize];
                    let _ = with_tables(nucleus, frames, space, tables, |n, slot| {
                        n.map_list(slot, at, list, bits)
                    });
                }
            }
        }
        space.pages = pages;
    }

    /// Slots of `kept` pages move, 64 at a time, and are mapped in the new place in rows of one kind. What fails comes by faults.
    fn move_pages(&mut self, index: usize, prot: u8, (from, to): (u64, u64), kept: u64) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let (nucleus, frames, tables) =
            (&mut self.nucleus, &mut self.frames, &mut self.table_frames);
        let mut at = from;
        while at < from + kept {
            let stop = (at + 64).min(from + kept);
            let mut moved = [(0, 0, false, false); 64];
            let mut count = 0;
            for chunk in space.pages.overlapping(at, stop) {
                let mut left = chunk.resident & mask(chunk.first, at, stop);
                while left != 0 {
                    let bit = left.trailing_zeros();
                    left &= left - 1;
                    let page = chunk.first + u64::from(bit) - from + to;
                    let cow = chunk.cow >> bit & 1 != 0;
                    let file = chunk.file >> bit & 1 != 0;
                    moved[count] = (page, chunk.frames[bit as usize], cow, file);
                    count += 1;
                }
            }
            // The new slots' references; the old ones go when all are there.
            for &(_, frame, ..) in &moved[..count] {
                frames.retain(frame);
            }
            let mut rest = &moved[..count];
            while let Some(&(first, _, cow, file)) = rest.first() {
                // As far as they are alike, within a chunk.
                let alike = |&(at, moved): &(u64, &(u64, crate::Frame, bool, bool))| {
                    let (page, _, kind, of_file) = *moved;
                    page == at && page / CHUNK == first / CHUNK && (kind, of_file) == (cow, file)
                };
                let len = (first..).zip(rest).take_while(alike).count();
                let mut list = [0; 64];
                for (frame, moved) in list.iter_mut().zip(&rest[..len]) {
                    *frame = moved.1;
                }
                if file {
                    for (page, &frame) in (first..).zip(&list[..len]) {
                        space.pages.set_file(frames, page, frame, cow);
                    }
                } else {
                    space.pages.put_row(frames, first, &list[..len], cow);
                }
                let bits = hardware(prot, cow);
                if bits != 0 {
                    let _ = with_tables(nucleus, frames, space, tables, |n, slot| {
                        n.map_list(slot, first * PAGE, &list[..len], bits)
                    });
                }
                rest = &rest[len..];
            }
            at = stop;
        }
        space.pages.drain(frames, from, from + kept);
    }

    pub(crate) fn advise(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        what: u64,
    ) -> Result<u64, Errno> {
        let (start, end) = range(address, len, EINVAL)?;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let holes = space.regions.covered(start, end) != end - start;
        if matches!(what, advice::DONT_NEED | advice::REMOVE)
            && space.regions.locked() > 0
            && space
                .regions
                .overlapping(start, end)
                .any(|region| region.marks & LOCKED != 0)
        {
            return Err(EINVAL);
        }
        match what {
            advice::DONT_NEED => {
                self.are_few(index, start, end)?;
                self.drop_pages(index, start, end);
            }
            advice::WILL_NEED => self.want_soon(index, start, end),
            advice::REMOVE => return self.remove_from_objects(index, start, end),
            advice::POPULATE_READ | advice::POPULATE_WRITE => {
                if holes {
                    return Err(ENOMEM);
                }
                let write = what == advice::POPULATE_WRITE;
                // Who asks beforehand can be told no: file servers never eat into the reserve, and caches not into what was just made free.
                let keep = match self.is_cache(index, start, end) {
                    true => self.cache_floor(index),
                    false => self.reserve,
                };
                let stop = self.populated_at_once(index, start, end);
                self.populate(index, start, stop, write, keep)
                    .map_err(|fault| match fault {
                        Fault::Exhausted => ENOMEM,
                        Fault::Missing => EAGAIN,
                        Fault::NoMapping | Fault::BeyondEnd => EFAULT,
                        Fault::Protection => EINVAL,
                    })?;
                return Ok((end - stop) * PAGE);
            }
            advice::DONT_FORK | advice::DO_FORK | advice::WIPE_ON_FORK | advice::KEEP_ON_FORK => {
                self.advise_fork(index, start, end, what)?;
            }
            advice::INVALIDATE => {
                let mut parts = space.regions.overlapping(start, end);
                if parts.any(|region| region.marks & LOCKED != 0) {
                    return Err(EBUSY);
                }
            }
            // Hints about order of use, sharing, huge pages and dumps change nothing.
            0..=2 | 12..=17 => {}
            _ => return Err(EINVAL),
        }
        if holes {
            return Err(ENOMEM);
        }
        Ok(0)
    }

    /// How these pages come into a fork's child, up to the first that cannot be told so.
    fn advise_fork(&mut self, index: usize, start: u64, end: u64, what: u64) -> Result<(), Errno> {
        self.room_to_split(index)?;
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let wiped = what == advice::WIPE_ON_FORK;
        // Of the file's or everybody's pages there are no others.
        let refused = |piece: &Region| {
            let other = piece.object != ANONYMOUS || piece.shared();
            wiped && other || !piece.is_programs()
        };
        let mut pieces = space.regions.pieces(start, end);
        let first = pieces.find(refused).map(|piece| piece.start);
        drop(pieces);
        let (add, remove) = match what {
            advice::WIPE_ON_FORK => (WIPED, 0),
            advice::KEEP_ON_FORK => (0, WIPED),
            advice::DONT_FORK => (ABSENT, 0),
            _ => (0, ABSENT),
        };
        let change = |region: &mut Region| region.marks = region.marks & !remove | add;
        space.regions.change(start, first.unwrap_or(end), change);
        first.map_or(Ok(()), |_| Err(EINVAL))
    }

    /// The objects shown in a range lose these pages.
    fn remove_from_objects(&mut self, index: usize, start: u64, end: u64) -> Result<u64, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space
            .regions
            .overlapping(start, end)
            .any(|r| !r.shared() || u64::from(r.most) & prot::WRITE == 0)
        {
            return Err(EINVAL);
        }
        self.are_few(index, start, end)?;
        self.drop_pages(index, start, end);
        let (spaces, objects, frames) = (&self.spaces, &mut self.objects, &mut self.frames);
        let nucleus = &mut self.nucleus;
        let space = spaces.get(index).ok_or(ESRCH)?;
        for piece in space.regions.pieces(start, end) {
            let Some(object) = objects.get_mut(piece.object as usize) else {
                continue;
            };
            let (from, to) = (piece.offset, piece.offset + piece.pages());
            if object.maker == NOBODY {
                object.pages.drain(frames, from, to);
                continue;
            }
            // Somebody's own pages: they stay where they are, and are zero.
            for chunk in object.pages.overlapping(from, to) {
                chunk.each(chunk.resident & mask(chunk.first, from, to), |frame| {
                    let _ = nucleus.zero_frame(frame);
                });
            }
        }
        Ok(0)
    }
}
