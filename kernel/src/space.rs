//! Spaces: page tables, the reserve of frames for them, and the pager.
//!
//! Life: made empty by `vm`; the first frame of the reserve becomes its root; used by domains; emptied by REAP when no domain uses it; its object goes with
//! the last portal to it.

use crate::arch::{Arch, FrameList};
use crate::pool::{SpaceRef, WindowRef};
use crate::Kernel;
use cairn_abi::Error;

pub struct Space<R> {
    pub root: Option<R>,
    /// Frames for page tables and portal tables.
    pub tables: FrameList,
    /// Domains that use it.
    pub domains: u32,
    pub holders: u32,
    /// Id of the pager's channel, 0 if there is none, and the badge that it wants to see.
    pub pager: u32,
    pub badge: u64,
    /// Its pages may be writable and executable at once.
    pub writable_code: bool,
    /// Windows that lie in it, windows that show its pages and how many these are, and how many open ones touch it on either side.
    pub windows: Option<WindowRef>,
    pub shown: Option<WindowRef>,
    pub shown_count: u8,
    pub open_windows: u32,
}

impl<A: Arch> Kernel<A> {
    pub(crate) fn space_create(
        &mut self,
        pager: u32,
        badge: u64,
        writable_code: bool,
    ) -> Result<SpaceRef, Error> {
        self.spaces
            .insert(Space {
                root: None,
                tables: FrameList::default(),
                domains: 0,
                holders: 0,
                pager,
                badge,
                writable_code,
                windows: None,
                shown: None,
                shown_count: 0,
                open_windows: 0,
            })
            .ok_or(Error::NoMemory)
    }

    /// A frame (the nucleus's already) joins the reserve; the first becomes the root.
    pub(crate) fn space_give(&mut self, s: SpaceRef, frame: crate::arch::Frame) {
        if self.spaces[s].root.is_none() {
            let root = self.arch.root_new(frame);
            self.spaces[s].root = Some(root);
        } else {
            self.arch.list_push(&mut self.spaces[s].tables, frame);
        }
    }

    /// Free the object of a space that nobody holds and nobody uses. Frames that were not reaped before stay lost with it: its holders had the chance.
    pub(crate) fn release_space_object(&mut self, s: SpaceRef) {
        let space = &self.spaces[s];
        if space.holders == 0
            && space.domains == 0
            && space.windows.is_none()
            && space.shown.is_none()
        {
            self.channel_forget(space.pager);
            self.spaces.remove(s);
        }
    }
}
