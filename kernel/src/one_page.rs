//! MAP and UNMAP of one page, straight: what [`crate::memory`] does for rows of pages, in shares and with all that may come in between, for the plain case. None: nothing was
//! done that may not be done again, and the general way must do it. The tests compare the two.

use crate::arch::{Arch, Frame};
use crate::memory::WRITABLE_EXECUTABLE;
use crate::pool::SpaceRef;
use crate::Kernel;
use cairn_abi::layout::{PAGE, USER_TOP};
use cairn_abi::service::memory::{map, prot};
use cairn_abi::PortalKind;

/// Plain protections of memory.
const ACCESS: u64 = prot::READ | prot::WRITE | prot::EXECUTE;

impl<A: Arch> Kernel<A> {
    /// The current thread's slot leads to a space with tables, over which no windows are open, and this is the address of a page.
    #[inline(always)]
    fn plain_space(&self, slot: u64, address: u64) -> Option<(SpaceRef, A::Root)> {
        let t = self.dispatch.current?;
        let target = self.domains[self.threads[t].domain].table.target(slot)?;
        if target.kind() != PortalKind::Space
            || address >= USER_TOP
            || !address.is_multiple_of(PAGE)
        {
            return None;
        }
        let s = self.spaces.of(target);
        let space = &self.spaces[s];
        if space.open_windows != 0 || !self.short_way {
            return None;
        }
        Some((s, space.root?))
    }

    /// MAP with the first six words but for the number of pages, which is one.
    #[inline(always)]
    pub fn map_one(
        &mut self,
        slot: u64,
        address: u64,
        frame: u64,
        flags: u64,
        source: u64,
    ) -> Option<()> {
        let (s, root) = self.plain_space(slot, address)?;
        let frame = Frame::try_from(frame).ok()?;
        if flags & !(ACCESS | map::COPY | map::ZERO) != 0
            || flags & WRITABLE_EXECUTABLE == WRITABLE_EXECUTABLE
            || !self.frames.is_user(frame)
        {
            return None;
        }
        if flags & (map::COPY | map::ZERO) != 0 {
            self.fill_one(frame, flags, source)?;
        }
        self.map_page(s, root, address, frame, flags & ACCESS)
            .ok()?;
        self.counters.entries += 1;
        Some(())
    }

    /// What ZERO or COPY asks for; the frame is a program's.
    #[inline(never)]
    fn fill_one(&mut self, frame: Frame, flags: u64, source: u64) -> Option<()> {
        let source = Frame::try_from(source).ok()?;
        match flags & (map::COPY | map::ZERO) {
            map::ZERO => self.arch.zero_frame(frame),
            map::COPY if self.frames.is_user(source) => self.arch.copy_frame(frame, source, false),
            _ => return None,
        }
        Some(())
    }

    /// UNMAP with the first two words. Some: how many pages were mapped.
    #[inline(always)]
    pub fn unmap_one(&mut self, slot: u64, address: u64) -> Option<u64> {
        let (_, root) = self.plain_space(slot, address)?;
        self.counters.entries += 1;
        let Some(frame) = self.arch.unmap(root, address) else {
            return Some(0);
        };
        self.frames.unmapped(frame);
        Some(1)
    }
}
