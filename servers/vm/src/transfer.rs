//! Bytes between `vm` and the parts of its callers, and between those and other spaces.

use crate::nucleus::{Frame, Nucleus};
use crate::request::Request;
use crate::space::{Errno, Vm};
use cairn_abi::layout::{PAGE, USER_TOP};
use cairn_abi::{fault, Error};
use cairn_idl::errno::*;
use cairn_idl::vm::prot;

/// Frames of one copy.
const WINDOW: usize = 16;

impl<N: Nucleus> Vm<N> {
    /// Fill `into` from the caller's out part.
    pub(crate) fn read_part(
        &mut self,
        r: &Request,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Errno> {
        let len = into.len();
        self.copy(r, offset, len as u64, false, |vm| {
            vm.nucleus.read(r.token, offset, into)
        })
        .and_then(|n| if n == len { Ok(()) } else { Err(EFAULT) })
    }

    /// Write all of `from` to the caller's in part.
    pub(crate) fn write_part(
        &mut self,
        r: &Request,
        offset: u64,
        from: &[u8],
    ) -> Result<(), Errno> {
        let len = from.len();
        self.copy(r, offset, len as u64, true, |vm| {
            vm.nucleus.write(r.token, offset, from)
        })
        .and_then(|n| if n == len { Ok(()) } else { Err(EFAULT) })
    }

    /// Copy; if the caller's memory is not there (`vm` cannot take a fault while it copies), make it present and copy again.
    pub(crate) fn copy(
        &mut self,
        r: &Request,
        offset: u64,
        len: u64,
        write: bool,
        mut once: impl FnMut(&mut Self) -> Result<usize, Error>,
    ) -> Result<usize, Errno> {
        match once(self) {
            Ok(n) => return Ok(n),
            Err(Error::BadAddress | Error::Cycle) => {}
            Err(_) => return Err(EFAULT),
        }
        let domain = self.domain(r.sender).ok_or(EFAULT)?;
        let (out, input) = self.nucleus.part_addresses(r.token);
        let start = if write { input } else { out };
        let from = start.checked_add(offset).ok_or(EFAULT)?;
        let to = from.checked_add(len).ok_or(EFAULT)?;
        if start == 0 || to > USER_TOP {
            return Err(EFAULT);
        }
        let access = if write { fault::WRITE } else { 0 };
        for page in from / PAGE..to.div_ceil(PAGE) {
            self.resolve(domain.space, page, access)
                .map_err(|_| EFAULT)?;
        }
        once(self).map_err(|_| EFAULT)
    }

    /// WRITE_INTO: the caller's out part goes to `address` in a space.
    pub(crate) fn write_into(
        &mut self,
        r: &Request,
        index: usize,
        address: u64,
    ) -> Result<u64, Errno> {
        if r.words[3] != 0 && !self.is_written_by_tracers(index, address, r.out_len as u64) {
            return Err(EFAULT);
        }
        self.move_bytes(r, index, address, r.out_len as u64, true)
    }

    /// Memory that a tracer may write: all that is the process's own, whatever its protection; of what others share only what the process itself could write.
    fn is_written_by_tracers(&self, index: usize, address: u64, len: u64) -> bool {
        let Some(space) = self.spaces.get(index) else {
            return false;
        };
        let end = address.saturating_add(len).div_ceil(PAGE);
        (address / PAGE..end).all(|page| {
            let region = space.regions.find(page);
            region.is_none_or(|r| !r.shared() || u64::from(r.prot) & prot::WRITE != 0)
        })
    }

    /// READ_FROM: bytes from `address` in a space go to the caller's in part, up to the first hole.
    pub(crate) fn read_from(
        &mut self,
        r: &Request,
        index: usize,
        address: u64,
    ) -> Result<u64, Errno> {
        self.move_bytes(r, index, address, r.in_len as u64, false)
    }

    /// Bytes between the caller's part and a space, up to the first hole.
    pub(crate) fn move_bytes(
        &mut self,
        r: &Request,
        index: usize,
        address: u64,
        len: u64,
        into_space: bool,
    ) -> Result<u64, Errno> {
        let end = address
            .checked_add(len)
            .filter(|&e| e <= USER_TOP)
            .ok_or(EFAULT)?;
        let mut at = address;
        while at < end {
            let first = at / PAGE;
            let pages = (end.div_ceil(PAGE) - first).min(WINDOW as u64);
            let mut list = [0 as Frame; WINDOW];
            let mut found = 0;
            for page in first..first + pages {
                let frame = if into_space {
                    self.frame_for_write(index, page).ok()
                } else {
                    self.frame_for_read(index, page)
                };
                let Some(frame) = frame else { break };
                list[found] = frame;
                found += 1;
            }
            if found == 0 {
                break;
            }
            let list = &list[..found];
            let inside = (at % PAGE) as usize;
            let bytes = (found as u64 * PAGE - inside as u64).min(end - at) as usize;
            let offset = at - address;
            let copied = self.copy(r, offset, bytes as u64, !into_space, |vm| {
                if into_space {
                    vm.nucleus.read_frames(r.token, offset, list, inside, bytes)
                } else {
                    vm.nucleus
                        .write_frames(r.token, offset, list, inside, bytes)
                }
            })?;
            at += copied as u64;
            if copied < bytes {
                break;
            }
        }
        if at == address && len > 0 {
            return Err(EFAULT);
        }
        Ok(at - address)
    }
}
