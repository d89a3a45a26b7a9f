//! MAP and UNMAP of one page, straight: what [`crate::memory`] does for rows of pages, in shares and with all that may come in between, for the plain case.
//! None: nothing was done that may not be done again, and the general way must do it. The tests compare the two.

use crate::arch::{Arch, Frame};
use crate::memory::WRITABLE_EXECUTABLE;
use crate::pool::ThreadRef;
use crate::portal::table::Target;
use crate::{Kernel, Resume};
use cairn_abi::layout::{PAGE, USER_TOP};
use cairn_abi::service::memory::{self, map, prot};
use cairn_abi::PortalKind;

/// Plain protections of memory.
const ACCESS: u64 = prot::READ | prot::WRITE | prot::EXECUTE;
/// The operations, as a selector's upper half.
const MAP: u32 = memory::MAP as u32;
const UNMAP: u32 = memory::UNMAP as u32;

impl<A: Arch> Kernel<A> {
    /// An entry in which the current thread traverses the memory manager's portal, otherwise as [`Kernel::channel_right`].
    #[inline(never)]
    pub fn memory_right(&mut self, target: Target) -> Resume {
        self.counters.entries += 1;
        let Some(t) = self.dispatch.current else {
            return self.resume();
        };
        let registers = &self.threads[t].registers;
        let (pages, unmap) = match (registers.rax >> 32) as u32 {
            MAP => (registers.r10, false),
            UNMAP => (registers.rdx, true),
            _ => (0, false),
        };
        let done = if pages == 1 {
            self.one_page(t, unmap)
        } else {
            None
        };
        let Some(done) = done else {
            return self.other_entry(t, target);
        };
        let registers = &mut self.threads[t].registers;
        registers.rdi = done;
        registers.rax = 0;
        Resume { full: 0, registers }
    }

    /// MAP or UNMAP of one page: how many were mapped, with those of earlier entries. The slot leads to a space with tables over which no windows are open.
    #[inline(always)]
    fn one_page(&mut self, t: ThreadRef, unmap: bool) -> Option<u64> {
        let thread = &self.threads[t];
        let r = &thread.registers;
        let (address, frame, flags, source) = (r.rsi, r.rdx, r.r8, r.r9);
        let target = self.domains[thread.domain].table.target(r.rdi)?;
        if target.kind() != PortalKind::Space
            || address >= USER_TOP
            || !address.is_multiple_of(PAGE)
        {
            return None;
        }
        let s = self.spaces.of(target);
        let space = &self.spaces[s];
        let root = space.root?;
        if space.open_windows != 0 || !self.short_way {
            return None;
        }
        if unmap {
            let before = r.r10;
            let Some(frame) = self.arch.unmap(root, address) else {
                return Some(before);
            };
            self.frames.unmapped(frame);
            return Some(before.wrapping_add(1));
        }
        let before = r.r12;
        let frame = Frame::try_from(frame).ok()?;
        if flags & !(ACCESS | map::COPY | map::ZERO) != 0
            || flags & WRITABLE_EXECUTABLE == WRITABLE_EXECUTABLE
        {
            return None;
        }
        if flags & (map::COPY | map::ZERO) != 0 {
            self.fill_one(frame, flags, source)?;
        }
        self.map_user(s, root, address, frame, flags & ACCESS)
            .ok()?;
        Some(before.wrapping_add(1))
    }

    /// What ZERO or COPY asks for.
    #[inline(never)]
    fn fill_one(&mut self, frame: Frame, flags: u64, source: u64) -> Option<()> {
        let source = Frame::try_from(source).ok()?;
        if !self.frames.is_user(frame) {
            return None;
        }
        match flags & (map::COPY | map::ZERO) {
            map::ZERO => self.arch.zero_frame(frame),
            map::COPY if self.frames.is_user(source) => self.arch.copy_frame(frame, source, false),
            _ => return None,
        }
        Some(())
    }
}
