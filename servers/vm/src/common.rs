//! What all Linux processes show alike (the personality's code and constants, the system page, the table of prefixes): one page table, which each of their spaces gets as it is.
//!
//! No space has regions or page slots for it, so fork, exec and exit have nothing to do with it. Nobody may map anything in its range.

use crate::mapping::overlaps;
use crate::nucleus::Nucleus;
use crate::space::{Errno, Vm};
use alloc::vec::Vec;
use cairn_abi::layout::{COMMON_END, PAGE, PERSONALITY, SYSTEM_PAGE};
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::prot;

const FIRST: u64 = PERSONALITY / PAGE;
const END: u64 = COMMON_END / PAGE;
const SYSTEM: u64 = SYSTEM_PAGE / PAGE;

impl<N: Nucleus> Vm<N> {
    /// MAKE_COMMON: what this domain shows there is common from now on.
    pub(crate) fn make_common(&mut self, id: Id) -> Result<u64, Errno> {
        if !self.common.is_empty() {
            return Err(EBUSY);
        }
        let index = self.domain(id).ok_or(ESRCH)?.space;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let regions: Vec<_> = space.regions.overlapping(FIRST, END).copied().collect();
        let fits = |r: &crate::region::Region| {
            r.start >= FIRST && r.end <= END && u64::from(r.prot) & prot::WRITE == 0
        };
        if regions.is_empty() || !space.linux() || !regions.iter().all(fits) {
            return Err(EINVAL);
        }
        for region in regions {
            self.populate(index, region.start, region.end, false, 0)
                .map_err(|_| ENOMEM)?;
        }
        let Some(space) = self.spaces.get_mut(index) else {
            return Err(ESRCH);
        };
        self.nucleus
            .keep_common(space.slot, PERSONALITY)
            .map_err(|_| EINVAL)?;
        let frames = &mut self.frames;
        for page in FIRST..END {
            if let Some(found) = space.pages.get(page) {
                frames.retain(found.frame);
                self.common.push(found.frame);
            }
        }
        space.pages.drain(frames, FIRST, END);
        // Nothing is left there for the nucleus to unmap.
        self.unmap_pages(index, FIRST, END);
        Ok(0)
    }

    /// Whether pages are what no request may map: the system page, and what is common.
    pub(crate) fn is_barred(&self, start: u64, end: u64) -> bool {
        match self.common.is_empty() {
            true => overlaps((start, end), (SYSTEM, SYSTEM + 1)),
            false => overlaps((start, end), (FIRST, END)),
        }
    }
}
