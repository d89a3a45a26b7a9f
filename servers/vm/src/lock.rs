//! Memory that is locked (mlock(2)), and what a space may have of it and of data: RLIMIT_MEMLOCK, RLIMIT_DATA.
//!
//! Nothing is paged out here, so what a lock does is to make pages resident at once, to keep the program from giving them back unawares, and to count.

use crate::fault::Fault;
use crate::mapping::range;
use crate::nucleus::Nucleus;
use crate::region::{Region, BREAK, LOCKED, ON_FAULT};
use crate::space::{Errno, Space, Vm};
use cairn_abi::layout::{PAGE, PERSONALITY};
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::{flags, locking, prot, LockHow};

/// What [`Vm::lock`] and its like answer: all is resident, or the caller has to touch it and to ask again.
const DONE: u64 = 0;
const TOUCH: u64 = 1;

/// Limits of a space beside the one of what is mapped (RLIMIT_AS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages that count as data ([`Region::data`]).
    pub data: u64,
    /// Bytes that may be locked. 0: a lock is not permitted at all.
    pub lock: u64,
    /// Marks of what is mapped from now on.
    pub future: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            data: u64::MAX,
            lock: u64::MAX,
            future: 0,
        }
    }
}

impl Limits {
    /// As a copy of the space has them: locks are not inherited.
    pub fn inherited(self) -> Limits {
        Limits { future: 0, ..self }
    }
}

impl Space {
    /// Whether so many pages more may be data.
    #[inline]
    pub fn may_have_data(&self, pages: u64) -> bool {
        let data = self.regions.data().saturating_add(pages);
        pages == 0 || data <= self.limits.data
    }

    /// Whether so many pages more may be locked.
    pub fn may_lock(&self, pages: u64) -> bool {
        let most = self.limits.lock;
        most == u64::MAX || self.regions.locked().saturating_add(pages) <= most / PAGE
    }

    /// The marks of what is mapped now with these flags.
    pub fn marks_for(&self, flag: u64) -> Result<u8, Errno> {
        let future = self.limits.future;
        if flag & (flags::LOCKED | flags::BREAK | flags::STACK) == 0 {
            return Ok(future);
        }
        if flag & flags::STACK != 0 {
            return Ok(future | if future != 0 { ON_FAULT } else { 0 });
        }
        if flag & flags::BREAK != 0 {
            // What is locked or counted must be known exactly.
            return match future == 0 && self.limits.data == u64::MAX {
                true => Ok(BREAK),
                false => Err(EAGAIN),
            };
        }
        match self.limits.lock {
            0 => Err(EPERM),
            _ => Ok(LOCKED | future & ON_FAULT),
        }
    }
}

fn marks_of(on_fault: bool) -> u8 {
    match on_fault {
        true => LOCKED | ON_FAULT,
        false => LOCKED,
    }
}

impl<N: Nucleus> Vm<N> {
    /// LIMIT.
    pub(crate) fn set_limits(
        &mut self,
        id: Id,
        mapped: u64,
        data: u64,
        lock: u64,
    ) -> Result<u64, Errno> {
        let domain = self.domain(id).ok_or(ESRCH)?;
        let space = self.spaces.get_mut(domain.space).ok_or(ESRCH)?;
        space.limit = mapped;
        // 0 is none.
        space.limits.data = data.wrapping_sub(1);
        space.limits.lock = lock.wrapping_sub(1);
        Ok(0)
    }

    /// LOCK.
    pub(crate) fn lock(
        &mut self,
        index: usize,
        address: u64,
        len: u64,
        how: u64,
    ) -> Result<u64, Errno> {
        let how = LockHow::from_word(how).ok_or(EINVAL)?;
        let (start, end) = range(address, len, ENOMEM)?;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let locks = matches!(how, LockHow::Lock | LockHow::LockOnFault);
        if locks && space.limits.lock == 0 {
            return Err(EPERM);
        }
        if start == end {
            return Ok(DONE);
        }
        if end > PERSONALITY / PAGE {
            return Err(ENOMEM);
        }
        if locks {
            let pieces = space.regions.pieces(start, end);
            let already: u64 = pieces.map(|piece| piece.locked()).sum();
            if !space.may_lock((end - start).saturating_sub(already)) {
                return Err(ENOMEM);
            }
        }
        self.room_to_split(index)?;
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        // Up to the first hole.
        let mut whole = start;
        for piece in space.regions.pieces(start, end) {
            if piece.start != whole {
                break;
            }
            whole = piece.end;
        }
        let marks = marks_of(how == LockHow::LockOnFault);
        space.regions.change(start, whole, |region| match how {
            LockHow::InUse => region.marks &= !BREAK,
            LockHow::Unlock => region.marks &= !(LOCKED | ON_FAULT),
            _ => region.marks = region.marks & !(LOCKED | ON_FAULT) | marks | stack_marks(region),
        });
        if whole != end {
            return Err(ENOMEM);
        }
        match how {
            LockHow::Lock => self.make_resident(index, start, end),
            _ => Ok(DONE),
        }
    }

    /// LOCK_ALL.
    pub(crate) fn lock_all(&mut self, index: usize, what: u64) -> Result<u64, Errno> {
        const CURRENT: u64 = locking::CURRENT;
        const FUTURE: u64 = locking::FUTURE;
        let on_fault = what & locking::ON_FAULT != 0;
        if what & !(CURRENT | FUTURE | locking::ON_FAULT) != 0 || what == locking::ON_FAULT {
            return Err(EINVAL);
        }
        let top = PERSONALITY / PAGE;
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        if what == 0 {
            space.limits.future = 0;
            let unlock = |region: &mut Region| region.marks &= !(LOCKED | ON_FAULT);
            space.regions.change(0, top, unlock);
            return Ok(DONE);
        }
        if space.limits.lock == 0 {
            return Err(EPERM);
        }
        if what & CURRENT != 0 && space.limits.lock != u64::MAX {
            let counts = |region: &&Region| !region.stack() && region.marks & BREAK == 0;
            let regions = space.regions.overlapping(0, top).filter(counts);
            if regions.map(Region::pages).sum::<u64>() > space.limits.lock / PAGE {
                return Err(ENOMEM);
            }
        }
        let marks = marks_of(on_fault);
        space.limits.future = if what & FUTURE != 0 { marks } else { 0 };
        if what & CURRENT == 0 {
            return Ok(DONE);
        }
        space.regions.change(0, top, |region| {
            if region.marks & BREAK == 0 {
                region.marks = region.marks & !(LOCKED | ON_FAULT) | marks | stack_marks(region);
            }
        });
        if on_fault {
            return Ok(DONE);
        }
        let mut from = 0;
        loop {
            let space = self.spaces.get(index).ok_or(ESRCH)?;
            let next = space
                .regions
                .overlapping(from, top)
                .find(|r| r.marks & (LOCKED | ON_FAULT) == LOCKED)
                .map(|r| (r.start, r.end));
            let Some((start, end)) = next else {
                return Ok(DONE);
            };
            from = end;
            // What cannot be had now comes by faults, as on Linux.
            let _ = self.make_resident(index, start, end);
        }
    }

    /// See that locked pages are there.
    pub(crate) fn make_resident(
        &mut self,
        index: usize,
        start: u64,
        end: u64,
    ) -> Result<u64, Errno> {
        let mut from = start;
        while from < end {
            let space = self.spaces.get(index).ok_or(ESRCH)?;
            let Some(piece) = space.regions.pieces(from, end).next() else {
                break;
            };
            from = piece.end;
            if piece.marks & (LOCKED | ON_FAULT) != LOCKED {
                continue;
            }
            if piece.prot == 0 {
                return Err(ENOMEM);
            }
            let write = !piece.shared() && u64::from(piece.prot) & prot::WRITE != 0;
            // Who asks beforehand can be told no: others can still be started.
            let keep = self.user_floor;
            match self.populate(index, piece.start, piece.end, write, keep) {
                Ok(()) => {}
                Err(Fault::Missing) => return Ok(TOUCH),
                Err(Fault::Exhausted) => return Err(EAGAIN),
                Err(_) => return Err(ENOMEM),
            }
        }
        Ok(DONE)
    }
}

/// A stack's range is there from the start: what is not touched of it stays so.
fn stack_marks(region: &Region) -> u8 {
    match region.stack() {
        true => ON_FAULT,
        false => 0,
    }
}
