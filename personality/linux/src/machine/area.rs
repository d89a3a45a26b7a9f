//! The thread area: what the GS base of each Linux thread points at. It lies at the top of the thread's personality block:
//!
//! ```text
//! block            block + UPCALL            ...                    frame             area
//! | upcall stack   | personality stack (grows down) ................| Frame | ThreadArea, floating-point state |
//! ```
//!
//! The first fields are read by the entry code. Only the owning thread uses its area, except `poked`, which an upcall of that same thread sets at any
//! instruction, and `wake` (an atomic). A new thread's area is filled in by its maker before it runs.

use super::arena::Arena;
use super::fpu;
use super::gate;
use super::lock::Lock;
use crate::calls::poll_set::PollSet;
use crate::filter::Known;
use crate::process::{Peer, Process};
use crate::signal::ThreadSignals;
use alloc::alloc::{alloc, dealloc, Layout};
use alloc::sync::Arc;
use cairn_abi::state::Registers;
use core::arch::asm;
use core::cell::{Cell, RefCell, UnsafeCell};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// All registers of the program while the personality runs, at the top of the personality's stack. The tail is what IRETQ takes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The call's number; [`NO_CALL`] when the frame comes from an upcall or has been replaced.
    pub number: u64,
    /// 1: leave by IRETQ, restoring everything; 0: rcx and r11 may be lost.
    pub full: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

pub const NO_CALL: u64 = u64::MAX;

impl Frame {
    /// Argument `i` (0..6) of the system call.
    pub fn arg(&self, i: usize) -> u64 {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9][i]
    }

    /// Replace the frame in memory, visible to a copy of this process made right after.
    pub fn publish(&mut self, frame: &Frame) {
        // SAFETY: `self` is a valid place; volatile because the reader is not this thread but its copy.
        unsafe { core::ptr::write_volatile(self, *frame) }
    }

    /// The other way round.
    pub fn store(&self, to: &mut Registers) {
        to.r15 = self.r15;
        to.r14 = self.r14;
        to.r13 = self.r13;
        to.r12 = self.r12;
        to.rbp = self.rbp;
        to.rbx = self.rbx;
        to.r11 = self.r11;
        to.r10 = self.r10;
        to.r9 = self.r9;
        to.r8 = self.r8;
        to.rax = self.rax;
        to.rcx = self.rcx;
        to.rdx = self.rdx;
        to.rsi = self.rsi;
        to.rdi = self.rdi;
        to.rip = self.rip;
        to.rflags = self.rflags;
        to.rsp = self.rsp;
    }

    /// Take all registers of an upcall.
    pub fn load(&mut self, from: &Registers) {
        *self = Frame {
            r15: from.r15,
            r14: from.r14,
            r13: from.r13,
            r12: from.r12,
            rbp: from.rbp,
            rbx: from.rbx,
            r11: from.r11,
            r10: from.r10,
            r9: from.r9,
            r8: from.r8,
            rax: from.rax,
            rcx: from.rcx,
            rdx: from.rdx,
            rsi: from.rsi,
            rdi: from.rdi,
            number: NO_CALL,
            full: 1,
            rip: from.rip,
            cs: self.cs,
            rflags: from.rflags,
            rsp: from.rsp,
            ss: self.ss,
        };
    }
}

/// An exception that waits to become a signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exception {
    pub vector: u64,
    pub error: u64,
    pub address: u64,
    pub detail: u64,
}

#[repr(C)]
pub struct ThreadArea {
    /// Own address.
    pub me: u64,
    /// Where the [`Frame`] lies: the empty personality stack.
    pub frame: u64,
    pub process: *const Process,
    pub upcall_stack: u64,
    /// `rax` at the last quick call, so that an upcall in the middle of one can send it the slow way.
    pub entry_rax: u64,
    /// Something may be pending: look before going back to the program. 0 or bits of [`poked`]. Read by the exit code.
    pub poked: AtomicU32,
    pub tid: AtomicU32,
    /// 1: the upcall's registers are still held by the nucleus.
    pub upcall_held: AtomicU32,
    /// [`Process::listed_files`]
    files: u64,
    /// Head of the robust list (set_robust_list(2)), or 0.
    pub robust_list: Cell<u64>,
    /// Address of [`Peer::mask`].
    blocked: *const AtomicU64,
    /// The block that this area is the top of.
    block: u64,
    /// What other threads know of this one.
    pub peer: Arc<Peer>,
    pub exception: Cell<Option<Exception>>,
    pub signals: RefCell<ThreadSignals>,
    /// `set_tid_address`, CLONE_CHILD_CLEARTID.
    pub clear_tid: Cell<u64>,
    /// Whether it has a key ring of its own.
    pub keys: Cell<OwnKeys>,
    /// What this thread polls again and again.
    pub poll_set: Cell<PollSet>,
    /// What `vm` said of pages with shared futexes.
    pub identities: [Cell<Identity>; 4],
    /// [`super::published::policy_changes`] when it was last asked for, and its real-time priority then.
    pub realtime: Cell<(u64, u8)>,
    /// The cores that this thread wishes to run on, a bit each; 0: all. Its children inherit the wish.
    pub affinity: Cell<u64>,
    /// Return address and deadline of a wait that ended without a handler (a stop, an ignored signal): made again, it keeps its deadline.
    pub again: Cell<(u64, u64)>,
    /// What a new process or thread does before it runs the program.
    pub birth: Cell<Birth>,
    /// Where this thread allocates, if it runs in memory that it shares with another process (or sets up what will).
    pub arena: Cell<Option<&'static Arena>>,
    /// [`cairn_idl::proc::Resume`]: whether a tracer wants system calls or single steps of this thread; 0: nobody traces it.
    pub traced: Cell<u64>,
    /// `proc` said that there is something to stop for.
    pub stop_wanted: Cell<bool>,
    /// Filters of system calls, as of so many times that a thread gave its own to all.
    pub filters: RefCell<Known>,
    pub filters_given: Cell<u32>,
    registers: UnsafeCell<Registers>,
}

// What `proc` reads of a thread that waits.
const _: () =
    assert!(core::mem::offset_of!(ThreadArea, frame) as u64 == cairn_idl::proc::THREAD_FRAME);
const _: () =
    assert!(core::mem::offset_of!(ThreadArea, files) as u64 == cairn_idl::proc::THREAD_FILES);
const _: () = assert!(core::mem::offset_of!(ThreadArea, tid) as u64 == cairn_idl::proc::THREAD_TID);
const _: () = assert!(
    core::mem::offset_of!(ThreadArea, robust_list) as u64 == cairn_idl::proc::THREAD_ROBUST
);
const _: () =
    assert!(core::mem::offset_of!(ThreadArea, blocked) as u64 == cairn_idl::proc::THREAD_MASK);
const _: () = assert!(core::mem::offset_of!(Frame, number) == 15 * 8);
const _: () = assert!(core::mem::offset_of!(Frame, rsp) == 20 * 8);

/// What a thread area takes up to the floating-point state behind it, which is no field: one that is made would have to be cleared and moved whole.
const AREA: usize = core::mem::size_of::<ThreadArea>().next_multiple_of(64);

/// Whose word a futex is that lies on this page; see [`ThreadArea::identities`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    pub page: u64,
    /// [`crate::memory::generation`] then; 0 = nothing is known.
    pub generation: u64,
    /// Of the page's first byte if other processes may have it too.
    pub key: Option<u64>,
}

/// Bits of [`ThreadArea::poked`].
pub mod poked {
    /// Signals in the queues of thread and process may be deliverable, or an exception waits.
    pub const LOOK: u32 = 1;
    /// `proc` has poked: it has something.
    pub const ASK: u32 = 2;
}

/// See [`ThreadArea::birth`].
#[derive(Clone, Copy, Default)]
pub struct Birth {
    /// clone's flags.
    pub flags: u64,
    pub parent_tid: u64,
    pub child_tid: u64,
    /// 1 = a thread of the same process.
    pub thread: bool,
    /// The copy of memory was made with all locks held.
    pub held: bool,
    /// Of a child that shares memory: the process whose state was held when it got its portals, and the name under which that was passed on.
    pub passed: Option<(&'static Process, u32)>,
    /// The maker's pid, the child's parent.
    pub parent: u32,
    /// The maker's wish for cores; see [`ThreadArea::affinity`].
    pub affinity: u64,
    /// The maker has a key ring of its own.
    pub keys: bool,
}

/// A thread's key ring: there is none; there may be one; there is to be one when it is asked for first, as the thread's maker had one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnKeys {
    #[default]
    None,
    There,
    Wanted,
}

/// Size of a block.
pub const BLOCK: usize = 80 * 1024;
const UPCALL: usize = 8 * 1024;
const PAGE: usize = 4096;

fn layout() -> Layout {
    // The sizes are constants: the layout is valid.
    Layout::from_size_align(BLOCK, PAGE).unwrap_or(Layout::new::<[u8; BLOCK]>())
}

/// Blocks of areas that are no longer used: vfork and threads come and go, mapping and unmapping their blocks each time would cost more than all the rest.
static SPARE: Lock<[u64; 4]> = Lock::new([0; 4]);

/// For fork and exec: see [`super::lock`].
pub fn hold_spare() {
    SPARE.acquire();
}

pub fn release_spare() {
    SPARE.release();
}

fn take_spare() -> Option<u64> {
    let mut spare = SPARE.lock();
    let at = spare.iter().position(|b| *b != 0)?;
    Some(core::mem::take(&mut spare[at]))
}

fn keep_spare(block: u64) -> bool {
    let mut spare = SPARE.lock();
    match spare.iter_mut().find(|b| **b == 0) {
        Some(place) => {
            *place = block;
            true
        }
        None => false,
    }
}

/// The block of the first thread's area.
pub fn begin(block: u64) {
    keep_spare(block);
}

/// The process is alone in a memory of its own, where none of these blocks is.
pub fn forget_spare() {
    SPARE.release();
    *SPARE.lock() = [0; 4];
}

/// An area for a new thread, not yet in use. None without memory.
pub fn spawn_area(process: &'static Process) -> Option<&'static ThreadArea> {
    ThreadArea::create(process)
}

/// The area of a child that shares this memory, in its arena.
pub fn area_in(arena: &'static Arena, process: &'static Process) -> &'static ThreadArea {
    // SAFETY: the block of an arena is for the area of its child, of which there is one at a time.
    unsafe { ThreadArea::place(arena.block(), process, Some(arena)) }
}

/// Where this thread allocates, if not from the heap.
#[inline]
pub fn arena() -> Option<&'static Arena> {
    let me: *const ThreadArea;
    // SAFETY: the GS base of a Linux thread is 0 before its area is installed, then its area.
    unsafe {
        asm!("rdgsbase {}", out(reg) me, options(nostack, nomem, preserves_flags));
        me.as_ref()?.arena.get()
    }
}

/// Undo [`spawn_area`] when the thread did not start.
pub fn drop_spawned(area: &'static ThreadArea) {
    // SAFETY: no thread runs on the area, and callers do not use it afterwards.
    unsafe { ThreadArea::free(area.me) };
}

/// Free the area of a thread that has ended.
pub fn drop_dead(me: u64) {
    // SAFETY: the nucleus says that the thread is gone; its area is referred to by nobody else.
    unsafe { ThreadArea::free(me) };
}

impl ThreadArea {
    /// A new area with its stacks, not yet in use. None without memory.
    pub fn create(process: &'static Process) -> Option<&'static ThreadArea> {
        let arena = arena();
        let block = match arena {
            // The spare blocks are the parent's.
            None => take_spare(),
            Some(_) => None,
        };
        let block = match block {
            Some(block) => block,
            // SAFETY: the layout has a size; the block belongs to the new area alone.
            None => unsafe { alloc(layout()) as u64 },
        };
        if block == 0 {
            return None;
        }
        // SAFETY: the block is nobody else's.
        Some(unsafe { ThreadArea::place(block, process, arena) })
    }

    /// Make an area at the top of a block.
    ///
    /// # Safety
    /// The block is mapped, aligned to a page and used by nobody.
    unsafe fn place(
        block: u64,
        process: &'static Process,
        arena: Option<&'static Arena>,
    ) -> &'static ThreadArea {
        let me = block + (BLOCK - AREA - core::mem::size_of::<fpu::Area>()) as u64;
        let frame = (me - core::mem::size_of::<Frame>() as u64) & !15;
        let peer: Arc<Peer> = Arc::default();
        let area = ThreadArea {
            me,
            frame,
            process,
            upcall_stack: block + UPCALL as u64,
            entry_rax: 0,
            poked: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            upcall_held: AtomicU32::new(0),
            files: process.listed_files(),
            robust_list: Cell::new(0),
            blocked: &raw const peer.mask,
            block,
            peer,
            exception: Cell::new(None),
            signals: RefCell::new(ThreadSignals::default()),
            clear_tid: Cell::new(0),
            keys: Cell::default(),
            poll_set: Cell::default(),
            identities: Default::default(),
            realtime: Cell::new((0, 0)),
            affinity: Cell::new(0),
            again: Cell::new((0, 0)),
            birth: Cell::new(Birth::default()),
            arena: Cell::new(arena),
            traced: Cell::new(0),
            stop_wanted: Cell::new(false),
            filters: RefCell::default(),
            filters_given: Cell::new(process.filters_given.load(Ordering::Relaxed)),
            registers: UnsafeCell::new(Registers::default()),
        };
        // SAFETY: `me` lies in the block, is aligned to 64, and nothing refers to it yet.
        unsafe {
            (me as *mut ThreadArea).write(area);
            &*(me as *const ThreadArea)
        }
    }

    /// Give the area's memory back.
    ///
    /// # Safety
    /// No thread runs on it and nobody keeps a reference.
    pub unsafe fn free(me: u64) {
        // SAFETY: by the contract the area is this function's alone; its block came from `create`.
        unsafe {
            let block = (*(me as *const ThreadArea)).block;
            core::ptr::drop_in_place(me as *mut ThreadArea);
            if arena().is_some() || !keep_spare(block) {
                dealloc(block as *mut u8, layout());
            }
        }
    }

    /// The frame of an area whose thread does not run yet.
    pub fn set_frame(&self, frame: &Frame) {
        // SAFETY: the frame's place lies in the area's block; its thread has not started, so nobody else uses it.
        unsafe { *(self.frame as *mut Frame) = *frame }
    }

    /// The program's registers as this thread's personality has them now.
    pub fn frame_now(&self) -> Frame {
        // SAFETY: the frame's place lies in the area's block; volatile because a function below on this stack may hold a reference to it.
        unsafe { core::ptr::read_volatile(self.frame as *const Frame) }
    }

    /// Room for all registers at an upcall. Used with upcalls held off only.
    pub fn registers(&self) -> *mut Registers {
        self.registers.get()
    }

    /// Where the floating-point state lies: behind the area, in the same block.
    fn fpu(&self) -> *mut fpu::Area {
        (self.me + AREA as u64) as *mut fpu::Area
    }

    /// Save the program's floating-point state here (fork, clone).
    pub fn save_fpu(&self) {
        // SAFETY: only the owner, or the maker of an area that does not run yet, calls this.
        fpu::save(unsafe { &mut *self.fpu() });
    }

    pub fn restore_fpu(&self) {
        // SAFETY: as above; `save_fpu` filled it.
        fpu::restore(unsafe { &*self.fpu() });
    }

    /// The state of a program at its first instruction.
    pub fn reset_fpu(&self) {
        // SAFETY: only the owner calls this.
        let area = unsafe { &mut *self.fpu() };
        fpu::initial(area);
        fpu::restore(area);
    }

    pub fn set_tid(&self, tid: u32) {
        self.tid.store(tid, Ordering::Relaxed);
        self.peer.tid.store(tid, Ordering::Relaxed);
    }

    /// The deadline of the call that returns to `rip`: a new one, or the old one if this is the same call made again.
    pub fn deadline(&self, rip: u64, new: u64) -> u64 {
        match self.again.replace((0, 0)) {
            (at, old) if at == rip && old != 0 => old,
            _ => new,
        }
    }

    pub fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Have the exit path look at the signals that are here.
    pub fn mark(&self) {
        self.poked.fetch_or(poked::LOOK, Ordering::Relaxed);
    }

    /// The same, and ask `proc` for more first.
    pub fn mark_poked(&self) {
        self.poked
            .fetch_or(poked::LOOK | poked::ASK, Ordering::Relaxed);
    }

    pub fn process(&self) -> &'static Process {
        // SAFETY: an area is made with its process, which outlives every thread of it (a vfork child's is freed by the parent after the child is gone).
        unsafe { &*self.process }
    }
}

/// This thread's area.
pub fn area() -> &'static ThreadArea {
    let me: *const ThreadArea;
    // SAFETY: the GS base of a Linux thread is its area (the program's own business if it changes that), whose first word is its address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) me, options(nostack, readonly, preserves_flags));
        &*me
    }
}

/// This process.
pub fn process() -> &'static Process {
    area().process()
}

/// Make `area` this thread's.
pub fn install(area: &'static ThreadArea) {
    // SAFETY: GS is the personality's own; FSGSBASE is enabled for user mode.
    unsafe { asm!("wrgsbase {}", in(reg) area.me, options(nostack, preserves_flags)) };
    area.peer
        .nucleus
        .store(gate::thread_id(), Ordering::Relaxed);
}

pub fn fs_base() -> u64 {
    let base;
    // SAFETY: reads a register.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack, nomem, preserves_flags)) };
    base
}

pub fn set_fs_base(base: u64) {
    // SAFETY: FS is the program's; the personality does not use it. Callers pass canonical addresses only.
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, nomem, preserves_flags)) };
}

/// Code and stack selectors of user mode, for IRETQ.
pub fn selectors() -> (u64, u64) {
    let (cs, ss): (u64, u64);
    // SAFETY: reads registers.
    unsafe {
        asm!("mov {:r}, cs", "mov {:r}, ss", out(reg) cs, out(reg) ss, options(nostack, nomem, preserves_flags))
    };
    (cs & 0xffff, ss & 0xffff)
}

pub fn random_word() -> Option<u64> {
    let value: u64;
    let ok: u8;
    // SAFETY: RDRAND is in the baseline CPU model when CPUID says so; callers ask `has_random` first.
    unsafe {
        asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nostack, nomem))
    };
    (ok != 0).then_some(value)
}

/// The processor has RDRAND.
pub fn has_random() -> bool {
    core::arch::x86_64::__cpuid(1).ecx & 1 << 30 != 0
}

pub fn timestamp() -> u64 {
    // SAFETY: RDTSC is available in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}
