//! Windows: whole pages of a blocked caller, shown in its server's space.
//!
//! A server makes a window over pages of its own ([`WINDOW_CREATE`](cairn_abi::service::current::WINDOW_CREATE)). While it is open these pages are *hidden*: the caller's frames are mapped in
//! their places. When it closes they are back. So whatever happens to the caller, the server finds memory where its window is, and the memory manager need not know of windows at all:
//!
//! 1. A page is shown only as long as its owner has that frame mapped at that address, with at least the window's rights. Every operation that changes mappings closes the windows
//!    over them first ([`Kernel::tear`]), on whichever side they are.
//! 2. A hidden frame keeps its count of mappings, so nobody gets it meanwhile.
//! 3. What is shown in a window is not shown on in another.
//! 4. A window of a call is closed before its caller goes on, however the call ends; one that is kept closes with either space, by its server, or when its owner revokes it.
//!
//! All lists are short and bounded: windows that a space has, windows that show a space's pages, windows of a call.

use crate::arch::{Arch, CopyFault, Frame};
use crate::pool::{Pool, SpaceRef, ThreadRef, WindowRef};
use crate::portal::table::Target;
use crate::space::Space;
use crate::thread::Sending;
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::{PAGE, USER_TOP};
use cairn_abi::service::memory::prot;
use cairn_abi::service::window::{self, MAX_PAGES};
use cairn_abi::{flag, rights, Error, PortalKind};

/// Most windows that a space has, that show pages of one space, and that one call has open.
const OF_A_SPACE: u8 = 64;
const ON_A_SPACE: u8 = 16;
const OF_A_CALL: u8 = 2;
const PAGES: usize = MAX_PAGES as usize;

pub struct Window {
    pub holders: u32,
    /// The space that looks, where, and how many pages at most.
    pub space: SpaceRef,
    pub address: u64,
    pub pages: u8,
    /// The next window of the same space.
    pub next: Option<WindowRef>,
    /// The server's own pages and their protection, while it is open.
    pub hidden: [Frame; PAGES],
    pub bits: [u8; PAGES],
    pub view: Option<View>,
}

/// What an open window shows.
#[derive(Clone, Copy)]
pub struct View {
    pub space: SpaceRef,
    pub address: u64,
    pub pages: u8,
    /// The caller at whose reply it closes; None: it is kept.
    pub caller: Option<ThreadRef>,
    /// A page that is written becomes a copy.
    pub copy: bool,
    /// Which pages are shown: a copied one is not any more.
    pub shown: u16,
    /// The next window that shows pages of the same space.
    pub next: Option<WindowRef>,
}

impl View {
    fn overlaps(&self, address: u64, pages: u64) -> bool {
        overlap((self.address, self.pages as u64), (address, pages))
    }
}

/// Do two ranges of pages meet? Neither reaches past the user half.
fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0 + b.1 * PAGE && b.0 < a.0 + a.1 * PAGE
}

/// Pages of user addresses.
#[inline(never)]
pub(crate) fn is_range(address: u64, pages: u64) -> bool {
    address.is_multiple_of(PAGE) && address < USER_TOP && pages <= (USER_TOP - address) / PAGE
}

impl<A: Arch> Kernel<A> {
    /// What windows begin as.
    const NEW_WINDOW: Window = Window {
        holders: 0,
        space: Pool::<SpaceRef, Space<A::Root>>::FIRST,
        address: 0,
        pages: 0,
        next: None,
        hidden: [0; PAGES],
        bits: [0; PAGES],
        view: None,
    };

    /// WINDOW_CREATE.
    pub(crate) fn window_create(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let (address, pages) = (w[0], w[1]);
        if pages == 0 || pages > MAX_PAGES || !is_range(address, pages) {
            return Err(Error::BadArgument.into());
        }
        let d = self.threads[t].domain;
        let space = self.domains[d].space;
        self.check_slot(t, w[2])?;
        let mut count = 0;
        let mut next = self.spaces[space].windows;
        while let Some(other) = next {
            let window = &self.windows[other];
            if overlap((window.address, window.pages as u64), (address, pages)) {
                return Err(Error::Busy.into());
            }
            count += 1;
            next = window.next;
        }
        if count >= OF_A_SPACE || !self.windows.room(1) {
            return Err(Error::NoMemory.into());
        }
        let slot = self.make_place(d, w[2])?;
        let made = self.windows.insert(Self::NEW_WINDOW);
        let made = made.ok_or(Error::NoMemory)?;
        let window = &mut self.windows[made];
        window.space = space;
        window.address = address;
        window.pages = pages as u8;
        // Emptying the place may have closed another window.
        window.next = self.spaces[space].windows.replace(made);
        // It belongs to this space: it is neither passed on nor inherited.
        let target = Target::to(PortalKind::Window, made, rights::CALL);
        self.place_made(t, slot, target);
        Ok(())
    }

    /// Code of a portal to a window.
    pub(crate) fn window_service(&mut self, t: ThreadRef, w: WindowRef, operation: u8) -> Answer {
        match operation {
            window::OPEN => self.window_open(t, w),
            window::CLOSE => {
                self.window_close(w);
                Ok(())
            }
            window::INFO => {
                let view = &self.windows[w].view;
                let open = view.is_some();
                let shown = view.map_or(0, |view| view.shown);
                let kept = view.is_some_and(|view| view.caller.is_none());
                self.answers(t, &[open as u64, shown as u64, kept as u64]);
                Ok(())
            }
            _ => Err(Error::BadOperation.into()),
        }
    }

    /// OPEN: everything is checked before anything changes.
    fn window_open(&mut self, t: ThreadRef, w: WindowRef) -> Answer {
        let [slot, token, offset, pages, flags, ..] = self.threads[t].registers.words();
        const KNOWN: u64 = window::IN | window::KEEP | window::COPY;
        if flags & !KNOWN != 0 || flags & (window::IN | window::COPY) == window::IN | window::COPY {
            return Err(Error::BadArgument.into());
        }
        let channel = self.own_object(t, slot, PortalKind::Receive, 0)?;
        let caller = self.caller(token, channel)?;
        let thread = &self.threads[caller];
        if thread.sending != Sending::Message {
            return Err(Error::BadToken.into());
        }
        // The caller has agreed.
        let mut agreed = flag::WINDOWS;
        if flags & window::KEEP != 0 {
            agreed |= flag::KEEP;
        }
        if thread.registers.rax & agreed != agreed {
            return Err(Error::NoRight.into());
        }
        let out = flags & window::IN == 0;
        let (base, _, vector) = self.described(caller, out);
        let len = thread.part_len(out);
        let start = base.wrapping_add(offset);
        let window = &self.windows[w];
        let (own, address) = (window.space, window.address);
        let theirs = self.domains[thread.domain].space;
        if vector
            || pages == 0
            || pages > window.pages as u64
            || offset > len
            || pages * PAGE > len - offset
            || self.domains[self.threads[t].domain].space != own
            || own == theirs
        {
            return Err(Error::BadArgument.into());
        }
        if !is_range(start, pages) {
            return Err(Error::BadAddress.into());
        }
        if window.view.is_some()
            || thread.windows >= OF_A_CALL
            || self.spaces[theirs].shown_count >= ON_A_SPACE
            || self.shows_there(theirs, start, pages)
        {
            return Err(Error::Busy.into());
        }
        // Others may look at the pages that will be hidden.
        self.tear(own, address, pages)?;
        let mut frames = [0; PAGES];
        let needed = if out {
            prot::READ
        } else {
            prot::READ | prot::WRITE
        };
        let own_needed = if flags & window::COPY != 0 {
            prot::READ | prot::WRITE
        } else {
            prot::READ
        };
        for (i, n) in (0..pages).zip(0..PAGES) {
            self.open(t);
            (frames[n], _) = self.page_for(t, caller, start + i * PAGE, needed)?;
            let (frame, protection) = self.page_for(t, t, address + i * PAGE, own_needed)?;
            let window = &mut self.windows[w];
            (window.hidden[n], window.bits[n]) = (frame, protection as u8);
        }
        self.open(t);
        let Some(root) = self.spaces[own].root else {
            return Err(Error::NoTable.into());
        };
        let mut shown = 0;
        for (i, n) in (0..pages).zip(0..PAGES) {
            // The page is mapped, so no table is missing.
            let mapped = self.map_page(own, root, address + i * PAGE, frames[n], needed);
            if mapped.is_ok() {
                self.frames.mapped(self.windows[w].hidden[n]);
                shown |= 1 << n;
            }
        }
        let kept = flags & window::KEEP != 0;
        self.windows[w].view = Some(View {
            space: theirs,
            address: start,
            pages: pages as u8,
            caller: (!kept).then_some(caller),
            copy: flags & window::COPY != 0,
            shown,
            next: self.spaces[theirs].shown,
        });
        let space = &mut self.spaces[theirs];
        space.shown = Some(w);
        space.shown_count += 1;
        space.open_windows += 1;
        self.spaces[own].open_windows += 1;
        if !kept {
            self.threads[caller].windows += 1;
        }
        self.answer(t, 0, pages);
        self.answer(t, 1, address);
        Ok(())
    }

    /// A page of `owner`'s memory: its frame and protection. If it is not there, or not as it must be, its pager is asked, and `t` tries again.
    fn page_for(
        &mut self,
        t: ThreadRef,
        owner: ThreadRef,
        address: u64,
        needed: u64,
    ) -> Result<(Frame, u64), Stop> {
        let root = self.root_of(owner);
        let found = self.arch.query(root, address);
        if let Some(mapping) = found {
            if mapping.prot & prot::DEVICE != 0 || !self.frames.is_user(mapping.frame) {
                return Err(Error::BadAddress.into());
            }
            if mapping.prot & needed == needed {
                return Ok((mapping.frame, mapping.prot));
            }
        }
        let met = CopyFault {
            destination: needed & prot::WRITE != 0,
            address,
            present: found.is_some(),
        };
        Err(self.copy_fault(t, owner, met))
    }

    /// Do open windows of space `s` lie there?
    fn shows_there(&self, s: SpaceRef, address: u64, pages: u64) -> bool {
        self.looking(s, address, pages).is_some()
    }

    /// An open window of space `s` in this range.
    fn looking(&self, s: SpaceRef, address: u64, pages: u64) -> Option<WindowRef> {
        let mut next = self.spaces[s].windows;
        while let Some(w) = next {
            let window = &self.windows[w];
            if let Some(view) = &window.view {
                if overlap((window.address, view.pages as u64), (address, pages)) {
                    return Some(w);
                }
            }
            next = window.next;
        }
        None
    }

    /// An open window that shows pages of this range of space `s`.
    fn showing(&self, s: SpaceRef, address: u64, pages: u64) -> Option<WindowRef> {
        let mut next = self.spaces[s].shown;
        while let Some(w) = next {
            let view = self.windows[w].view.as_ref()?;
            if view.overlaps(address, pages) {
                return Some(w);
            }
            next = view.next;
        }
        None
    }

    /// Mappings of space `s` will change: windows over them close, one per entry. To be called before anything changed.
    #[inline]
    pub(crate) fn tear(&mut self, s: SpaceRef, address: u64, pages: u64) -> Result<(), Stop> {
        if self.spaces[s].open_windows == 0 {
            return Ok(());
        }
        self.tear_next(s, address, pages)
    }

    fn tear_next(&mut self, s: SpaceRef, address: u64, pages: u64) -> Result<(), Stop> {
        let touched = |k: &Self| {
            k.showing(s, address, pages)
                .or_else(|| k.looking(s, address, pages))
        };
        let Some(w) = touched(self) else {
            return Ok(());
        };
        self.window_close(w);
        match touched(self) {
            None => Ok(()),
            Some(_) => Err(Stop::Restart),
        }
    }

    /// All of a space's mappings will go.
    pub(crate) fn tear_all(&mut self, s: SpaceRef) -> Result<(), Stop> {
        self.tear(s, 0, USER_TOP / PAGE)
    }

    /// WINDOW_REVOKE: others see these pages of the caller's no longer.
    pub(crate) fn window_revoke(&mut self, t: ThreadRef, address: u64, pages: u64) -> Answer {
        if !is_range(address, pages) {
            return Err(Error::BadArgument.into());
        }
        let s = self.domains[self.threads[t].domain].space;
        if let Some(w) = self.showing(s, address, pages) {
            self.window_close(w);
            return Err(Stop::Restart);
        }
        Ok(())
    }

    /// The server's own pages come back.
    pub(crate) fn window_close(&mut self, w: WindowRef) {
        let Some(view) = self.windows[w].view.take() else {
            return;
        };
        for i in 0..view.pages {
            if view.shown >> i & 1 != 0 {
                self.unhide(w, i);
            }
        }
        let next = view.next;
        match self.spaces[view.space].shown {
            Some(first) if first == w => self.spaces[view.space].shown = next,
            first => {
                let mut at = first;
                while let Some(other) = at {
                    let Some(before) = self.windows[other].view.as_mut() else {
                        break;
                    };
                    if before.next == Some(w) {
                        before.next = next;
                        break;
                    }
                    at = before.next;
                }
            }
        }
        let space = &mut self.spaces[view.space];
        space.shown_count -= 1;
        space.open_windows -= 1;
        let own = self.windows[w].space;
        self.spaces[own].open_windows -= 1;
        if let Some(caller) = view.caller {
            self.threads[caller].windows -= 1;
        }
        self.release_space_object(view.space);
    }

    /// Page `i` of a window is the server's own again.
    fn unhide(&mut self, w: WindowRef, i: u8) {
        let (window, n) = (&self.windows[w], i as usize % PAGES);
        let (own, frame, bits) = (window.space, window.hidden[n], window.bits[n]);
        if let Some(root) = self.spaces[own].root {
            let at = window.address + i as u64 * PAGE;
            let mapped = self.map_page(own, root, at, frame, bits as u64);
            debug_assert!(mapped.is_ok());
        }
        self.frames.unmapped(frame);
    }

    /// The call ends: one of its windows closes. False: there are more.
    pub(crate) fn close_window_of(&mut self, caller: ThreadRef) -> bool {
        let mut next = self.spaces[self.domains[self.threads[caller].domain].space].shown;
        while let Some(w) = next {
            let Some(view) = &self.windows[w].view else {
                break;
            };
            if view.caller == Some(caller) {
                self.window_close(w);
                break;
            }
            next = view.next;
        }
        self.threads[caller].windows == 0
    }

    /// A caller whose call ends: one of the windows that show its pages closes, if there are any. True: it did, come again.
    pub(crate) fn close_window_first(&mut self, t: ThreadRef) -> bool {
        let any = self.threads[t].windows != 0;
        if any {
            self.close_window_of(t);
        }
        any
    }

    /// All of them, where the call ends otherwise than by a reply.
    pub(crate) fn close_windows_of(&mut self, caller: ThreadRef) {
        for _ in 0..OF_A_CALL {
            if self.close_window_of(caller) {
                break;
            }
        }
    }

    /// A program wrote to this address of space `s`, which it may not. If that is a page of a window that copies, it gets its copy, in its own page.
    #[inline]
    pub(crate) fn copy_shown_page(&mut self, s: SpaceRef, address: u64) -> bool {
        self.spaces[s].open_windows != 0 && self.copy_page_of_window(s, address & !(PAGE - 1))
    }

    fn copy_page_of_window(&mut self, s: SpaceRef, page: u64) -> bool {
        let Some(w) = self.looking(s, page, 1) else {
            return false;
        };
        let window = &mut self.windows[w];
        let i = ((page - window.address) / PAGE) as u8;
        let Some(view) = &mut window.view else {
            return false;
        };
        let root = self.spaces[s].root;
        let found = root.and_then(|root| self.arch.query(root, page));
        match found {
            Some(mapping) if view.copy && view.shown >> i & 1 != 0 => {
                view.shown &= !(1 << i);
                let own = window.hidden[i as usize % PAGES];
                self.arch.copy_frame(own, mapping.frame, false);
                self.unhide(w, i);
                true
            }
            _ => false,
        }
    }

    /// The last portal to a window goes.
    pub(crate) fn window_remove(&mut self, w: WindowRef) {
        self.window_close(w);
        let (space, next) = (self.windows[w].space, self.windows[w].next);
        if self.spaces[space].windows == Some(w) {
            self.spaces[space].windows = next;
        } else {
            let mut at = self.spaces[space].windows;
            while let Some(other) = at {
                let before = &mut self.windows[other];
                if before.next == Some(w) {
                    before.next = next;
                    break;
                }
                at = before.next;
            }
        }
        self.windows.remove(w);
        self.release_space_object(space);
    }
}
