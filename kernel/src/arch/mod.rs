//! The border between the portable nucleus and the machine. `x86_64` is the real one, `sim` runs on the development host.
//!
//! The portable part owns all objects and decides everything; an [`Arch`] does what only a machine can: page tables, copies between
//! spaces, processor state, timer, interrupt lines, ports, log. Everything here is called with the nucleus lock held and interrupts off.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub mod x86_64;

#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(any(test, feature = "sim"))]
pub mod sim_gate;

use crate::hasty::list::Round;
use crate::hasty::Handler;
use crate::portal::code::{Constants, Way, CODE_BYTES};
use crate::portal::table::Target;
use crate::quick_interrupt::Way as InterruptWay;
use crate::{Kernel, Resume};
use cairn_abi::hasty::Step;
use cairn_abi::layout::PAGE;
use cairn_abi::machine::Counters;
use cairn_abi::service::memory::prot;
use cairn_abi::state::Registers;
use cairn_abi::Error;

/// Physical frame number (address / 4096).
pub type Frame = u32;

/// A fault met while the nucleus touched user memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFault {
    /// Which of the two sides: false = source, true = destination.
    pub destination: bool,
    pub address: u64,
    /// A page is there but does not allow the access.
    pub present: bool,
}

/// Why a mapping could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// A page-table page is missing and `tables` is empty.
    NoTable,
    /// The address is not a user address.
    BadAddress,
}

impl From<MapError> for Error {
    fn from(error: MapError) -> Error {
        match error {
            MapError::NoTable => Error::NoTable,
            MapError::BadAddress => Error::BadArgument,
        }
    }
}

/// One mapping, as [`Arch::query`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub frame: Frame,
    /// Bits of `cairn_abi::service::memory::prot`.
    pub prot: u64,
    pub accessed: bool,
    pub dirty: bool,
}

/// Free frames of a space for its page tables: a list threaded through the frames themselves, and how many were taken for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameList {
    /// First frame, 0 when empty.
    pub head: Frame,
    pub count: u32,
    /// Page tables below the root.
    pub used: u32,
}

/// What taking a space apart came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A table's page, which nothing leads to any more.
    Table(Frame),
    /// Some pages of a table that has more.
    Some,
    /// Only the root is left.
    Root,
}

/// The machine. One value exists; the nucleus owns it.
pub trait Arch: Sized {
    /// Root of an address space.
    type Root: Copy + PartialEq;
    /// One of no space, for what is not used yet.
    const NO_ROOT: Self::Root;
    /// Floating-point and vector state of a thread, kept in the thread object.
    type FloatState;
    /// A fresh one (x87 and MXCSR defaults).
    const NEW_FLOAT: Self::FloatState;

    /// Have another core come in (by [`crate::Kernel::called`] if nothing else brings it).
    fn kick(&mut self, core: usize);
    /// The same, and wait until it has stored the registers of its thread and waits for its turn.
    fn bring_in(&mut self, core: usize);
    /// Have a core store FS and GS base and the float registers of the thread that it has them of; it may be the present one.
    fn fetch(&mut self, core: usize, registers: &mut Registers, float: &mut Self::FloatState);
    /// Use no space: this core has nothing to run.
    fn rest(&mut self);
    /// Core `to` came in, and `from` was in last: what is kept of a core as a copy is exchanged.
    fn exchange(&mut self, from: usize, to: usize);

    /// Monotonic nanoseconds.
    fn now(&self) -> u64;
    /// Have the timer interrupt come at `deadline` (monotonic ns; at once if past), or not at all.
    fn set_timer(&mut self, deadline: Option<u64>);

    /// A free-running counter for accounting of processor time, as cheap as the machine has one; and its meaning.
    fn ticks(&self) -> u64;
    fn ticks_to_ns(&self, ticks: u64) -> u64;

    /// Store the live FS and GS base, which a program may change behind the nucleus's back; load others.
    fn save_bases(&self, registers: &mut Registers);
    fn load_bases(&mut self, registers: &Registers);
    /// The domain that runs from now on, for the entry code: its turn base (0: none), and itself. Called again when its turn base changes.
    fn enter_domain(&mut self, turn_base: u64, domain: *const u8);

    /// Where a traversal of an entry with this target jumps to (0 where there is only the general path).
    fn portal_code(_target: Target) -> usize {
        0
    }

    /// All registers of a thread become those of `from`.
    #[inline(always)]
    fn copy_registers(to: &mut Registers, from: &Registers) {
        *to = *from;
    }

    /// The message words in `from` are for the thread with the registers `to`, which goes on behind a `syscall`. [`Resume::full`] of that.
    #[inline(always)]
    fn pass_words(from: &Registers, to: &mut Registers) -> u64 {
        crate::short::copy_words(from, to);
        0
    }
    /// The same where the thread has them already.
    #[inline(always)]
    fn own_words(_of: &Registers) -> u64 {
        0
    }
    /// What comes of it for an entry that cannot end so: the words are where they belong.
    #[inline(always)]
    fn whole(resume: Resume) -> Resume {
        resume
    }

    /// What a fresh thread's `reply_code` is: the shared code of receive rights.
    fn reply_code() -> usize {
        0
    }
    /// Entries, as many as a domain's first, that all lead to the general path.
    fn general_entries() -> usize {
        0
    }
    /// Index of the block of code that this address lies in, if it lies in one.
    fn block_of(code: usize) -> Option<u32>;
    /// With several cores: wait until every other one has left the code of entries in which it may be, and has forgotten instructions that it fetched before. To be called
    /// before a block that was given back is written, and after that, before anybody may come to it.
    fn wait_for_passers(&mut self) {}
    /// Write the code of a connection into a block's memory; the block has this index. Returns where it is executed.
    fn write_code(
        &mut self,
        index: u32,
        code: &mut [u8; CODE_BYTES],
        way: Way,
        constants: &mut Constants,
    ) -> usize;
    /// A root as the processor's register wants it.
    fn table_base(root: Self::Root) -> u64;
    /// The registers of the thread that runs, if calls that led to it are not settled and the machine layer leaves that to the nucleus's entries.
    fn unsettled(&self) -> Option<usize> {
        None
    }
    /// The same for a core, where there are several.
    fn unsettled_on(&self, core: usize) -> Option<usize>;
    /// So many calls were settled: this domain, of this root, runs on this core, the present one.
    fn settled(&mut self, core: usize, links: u32, root: Self::Root, domain: *const u8);

    /// Save the processor's float registers into `save` (if any) and load `load`.
    fn switch_float(&mut self, save: Option<&mut Self::FloatState>, load: &Self::FloatState);
    /// Use this address space from now on (no-op if it is the current one; otherwise all its user translations are fresh).
    fn activate(&mut self, root: Self::Root);

    /// Where the nucleus sees this frame (direct map): 4096 bytes, valid as long as the frame exists.
    fn frame_pointer(&self, frame: Frame) -> *mut u8;
    /// Push a frame onto a list; the frame is the nucleus's. Pop one, zeroed.
    fn list_push(&mut self, list: &mut FrameList, frame: Frame);
    fn list_pop(&mut self, list: &mut FrameList) -> Option<Frame>;
    /// Pop one as it is, for somebody who may see what it held.
    fn list_take(&mut self, list: &mut FrameList) -> Option<Frame> {
        self.list_pop(list)
    }

    /// Make an empty space in `frame` (already the nucleus's), with the nucleus's own half mapped.
    fn root_new(&mut self, frame: Frame) -> Self::Root;
    /// The frame that holds the root, when the space is gone.
    fn root_frame(&self, root: Self::Root) -> Frame;
    /// Map one page; returns the frame that was mapped there before. Takes table frames from `tables`. Flushes the translation if it was present and the space is active.
    fn map(
        &mut self,
        root: Self::Root,
        address: u64,
        frame: Frame,
        prot: u64,
        tables: &mut FrameList,
    ) -> Result<Option<Frame>, MapError>;
    /// Unmap one page; returns its frame. Flushes.
    fn unmap(&mut self, root: Self::Root, address: u64) -> Option<Frame>;
    /// Change protection of a present page. Flushes. False if nothing is mapped.
    fn protect(&mut self, root: Self::Root, address: u64, prot: u64) -> bool;
    fn query(&self, root: Self::Root, address: u64) -> Option<Mapping>;
    /// For the pages from `address` on, up to `pages`: the next mapped page at or after it, skipping empty tables quickly. None if there is none in that range.
    fn next_mapped(&self, root: Self::Root, address: u64, pages: u64) -> Option<(u64, Mapping)>;
    /// An interrupt waits to be let in (or nobody knows): work that goes on in shares ends its entry here.
    fn interrupt_waits(&self) -> bool;
    /// Between two shares of an entry, when the running thread could as well begin its `syscall` anew: interrupts that wait are served at once, as if that thread had
    /// been interrupted before it, and this never returns. True: they are not served here, the entry has to end.
    fn let_in(kernel: &mut Kernel<Self>) -> bool {
        kernel.arch.interrupt_waits()
    }
    /// The same where the entry does not end for it, whatever waits.
    fn open(_kernel: &mut Kernel<Self>) {}
    /// The page table for this address (a multiple of what one covers) becomes the common one: it is nobody's any more, and nobody changes it. None: there is none, or a page of it could be written.
    fn keep_table(&mut self, root: Self::Root, address: u64) -> Option<Frame>;
    /// Show the common table there, where no table may be. What it maps is there to be used, and for [`Arch::query`]; MAP and its like refuse the address, all others pass over it.
    fn show_table(
        &mut self,
        root: Self::Root,
        address: u64,
        table: Frame,
        tables: &mut FrameList,
    ) -> Result<(), MapError>;
    /// Take one page-table page out of a space nobody uses, lowest level first; `emptied` is called with every frame that was still mapped by it. With `open`, which is as for
    /// [`Arch::share_row`].
    fn take_table(&mut self, root: Self::Root, open: bool, emptied: impl FnMut(Frame)) -> Taken;
    /// The tables of a space that nobody uses are going to be taken: what is known of them is forgotten, and no processor walks them. Before [`Arch::take_table`], once in each entry.
    fn leave_tables(&mut self, root: Self::Root);

    // Rows of pages. These defaults say what they mean; a machine does them with less work per page.

    /// Change what is mapped among `pages` pages, where `wanted` agrees: its protection, or (None) it is unmapped.
    fn change_row(
        &mut self,
        root: Self::Root,
        address: u64,
        pages: u64,
        prot: Option<u64>,
        mut wanted: impl FnMut(Frame) -> bool,
    ) {
        let (mut at, end) = (address, address + pages * PAGE);
        while at < end {
            let Some((page, mapping)) = self.next_mapped(root, at, (end - at) / PAGE) else {
                return;
            };
            if wanted(mapping.frame) {
                match prot {
                    Some(prot) => {
                        self.protect(root, page, prot);
                    }
                    None => {
                        self.unmap(root, page);
                    }
                }
            }
            at = page + PAGE;
        }
    }

    /// Copy what is mapped among `pages` pages to the same addresses of another space; with `read_only` WRITE is taken away on both sides.
    /// `changed` hears of each shared frame and of the one that it replaced. With `open` the machine may let interrupts in as [`Arch::let_in`] does, between any two pages, and never return: what is done by then is whole.
    #[allow(clippy::too_many_arguments)] // two spaces, a range, how, and where tables and news go
    fn share_row(
        &mut self,
        source: Self::Root,
        target: Self::Root,
        address: u64,
        pages: u64,
        read_only: bool,
        _open: bool,
        tables: &mut FrameList,
        mut changed: impl FnMut(Frame, Option<Frame>),
    ) -> Result<(), MapError> {
        let (mut at, end) = (address, address + pages * PAGE);
        while at < end {
            let Some((page, mapping)) = self.next_mapped(source, at, (end - at) / PAGE) else {
                return Ok(());
            };
            let mut protection = mapping.prot;
            if read_only && protection & prot::WRITE != 0 {
                protection &= !prot::WRITE;
                self.protect(source, page, protection);
            }
            let before = self.map(target, page, mapping.frame, protection, tables)?;
            changed(mapping.frame, before);
            at = page + PAGE;
        }
        Ok(())
    }

    /// Copy `len` bytes from `source` in one space to `destination` in another, honouring user permissions (a read-only destination faults). Bytes before the fault may have been copied: Err carries how many and where. With `open` the machine may
    /// let interrupts in as [`Arch::let_in`] does, and never return: the running thread begins anew then.
    fn copy(
        &mut self,
        source: (Self::Root, u64),
        destination: (Self::Root, u64),
        len: usize,
        open: bool,
    ) -> Result<(), (usize, CopyFault)>;
    /// The same, if it is short and all that it needs was used a moment ago. False: nothing was done.
    fn copy_near(
        &mut self,
        _source: (Self::Root, u64),
        _destination: (Self::Root, u64),
        _len: usize,
    ) -> bool {
        false
    }
    /// Copy between the nucleus and user memory of a space.
    fn read_user(
        &mut self,
        root: Self::Root,
        address: u64,
        into: &mut [u8],
    ) -> Result<(), CopyFault>;
    fn write_user(&mut self, root: Self::Root, address: u64, from: &[u8]) -> Result<(), CopyFault>;
    fn zero_frame(&mut self, frame: Frame);
    /// Fill a frame that the nucleus owns with two words, again and again.
    fn fill_frame(&mut self, frame: Frame, words: [u64; 2]);
    /// `open` as for [`Arch::copy`].
    fn copy_frame(&mut self, to: Frame, from: Frame, open: bool);

    /// Start of the region of pool `pool` (`cairn_abi::service::memory::pool`), aligned to a page; the region is contiguous and fills from here.
    fn pool_base(&self, pool: usize) -> *mut u8;
    /// How many pages it can have.
    fn pool_pages(&self, pool: usize) -> u32;
    /// Map `frame` (zeroed by the nucleus before) as this page of pool `pool`'s region, where none is mapped. False: the machine layer needed the frame for
    /// itself, to map pages there; the next one may do.
    fn pool_map(&mut self, pool: usize, page: u32, frame: Frame) -> bool;
    /// Take a page out again. Its frame is the caller's after [`Arch::forget_pools`].
    fn pool_unmap(&mut self, pool: usize, page: u32) -> Frame;
    /// No core has translations any more of pages of pools that were taken out.
    fn forget_pools(&mut self);

    /// Add the counters that the machine layer keeps (turned, space_switches, invalidations).
    fn counters(&self, counters: &mut Counters);

    /// From now on enter through [`crate::Kernel::traced_syscall`] and [`crate::Kernel::traced`], or as usual.
    fn enter_through_twins(&mut self, on: bool);
    /// Mask or unmask an interrupt source ([`crate::interrupt`]).
    fn interrupt_mask(&mut self, source: u32, masked: bool);
    /// If another interrupt waits and this source's, which is masked, can come again for what it was asserted for: it does when it is unmasked.
    fn interrupt_again(&mut self, source: u32) -> bool;
    /// The machine layer may serve this source by itself from now on, or no longer ([`crate::quick_interrupt`]).
    fn interrupt_way(&mut self, source: u32, way: Option<&InterruptWay>);
    /// How many lines there are (at most [`crate::interrupt::LINES`]).
    fn interrupt_lines(&self) -> u32;
    /// How a line's interrupt shows: level or edge, low or high active.
    fn interrupt_trigger(&mut self, line: u32, level: bool, low: bool);
    /// The address and the word that a device writes there to raise this source; None if it is a line, or the machine has no such interrupts.
    fn message(&self, source: u32) -> Option<(u64, u32)>;
    fn port_in(&mut self, port: u16, width: u8) -> u32;
    fn port_out(&mut self, port: u16, width: u8, value: u32);
    /// Write the code of a hasty handler's list, with its page of registers, into a block's memory. Returns where it is executed; None: it is too long.
    fn write_handler(
        &mut self,
        index: u32,
        code: &mut [u8; CODE_BYTES],
        steps: &[Step],
        page: u32,
    ) -> Option<usize>;
    /// Go once through the list that was made code.
    fn run_handler(&mut self, code: usize, handler: &mut Handler) -> Round;
    /// Show a page of device registers in the nucleus for good; the number by which it is reached. The same for the same page; None if there is no room.
    fn device_page(&mut self, frame: Frame) -> Option<u32>;
    /// One line of log output.
    fn log(&mut self, bytes: &[u8]);
    /// Where lines go out slowly: send what goes out without waiting. True: there is more.
    fn log_goes_on(&mut self) -> bool {
        false
    }
    /// The wall clock in the system page: ns since 1970 at monotonic time 0. Everybody reads it meanwhile.
    fn set_wall_clock(&mut self, page: Frame, ns: u64);
    /// Power off (0), reset (1), exit QEMU with a code (2).
    fn power(&mut self, action: u64, code: u64);
    /// Make registers that are safe to return to user mode with (canonical rip, only user-settable flags, interrupts on).
    fn sanitize(&self, registers: &mut Registers);
}
