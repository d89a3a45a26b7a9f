//! The nucleus's portable part: all objects and every decision. The machine layer stores the user's registers, calls one of the entries
//! ([`Kernel::syscall`], [`Kernel::timer`], [`Kernel::interrupt`], [`Kernel::page_fault`], [`Kernel::exception`]) and continues as [`Resume`] says.
//!
//! The nucleus never waits and has no stack per thread: an entry changes objects and returns. Work that could be long is done in
//! shares; the thread then finds itself before its `syscall` instruction again.
//!
//! One file per object: [`domain`], [`space`], [`thread`], [`channel`], [`portal`], [`semaphore`], [`windows`], [`interrupt`]; what they do together is in [`ipc`], [`copy`], [`fault`],
//! [`dispatch`], [`timer`], [`pulse`]. Memory for objects lies in [`pool`]s of frames that were given.
#![cfg_attr(not(any(test, feature = "sim")), no_std)]
#![deny(unsafe_code)]

mod adaptive;
pub mod arch;
pub mod atomic;
#[allow(unsafe_code)]
pub mod boot;
pub mod boot_calls;
pub mod channel;
pub mod copy;
pub mod cores;
pub mod current;
pub mod dispatch;
pub mod domain;
pub mod fault;
pub mod frames;
pub mod handler;
pub mod hasty;
pub mod interrupt;
pub mod ipc;
pub mod lock;
pub mod log;
pub mod machine;
pub mod memory;
pub mod numbered;
pub mod partition;
pub mod plain;
pub mod pool;
pub mod portal;
pub mod pulse;
pub mod queue;
pub mod quick;
pub mod quick_interrupt;
pub mod ranked;
pub mod requests;
pub mod revoke;
pub mod semaphore;
pub mod short;
pub mod signature;
pub mod space;
pub mod straight;
pub mod thread;
pub mod timer;
pub mod trace;
pub mod windows;

#[cfg(test)]
mod tests;

use arch::Arch;
use cairn_abi::machine::{Counters, FrameRange};
use cairn_abi::state::Registers;
use cairn_abi::Error;
use channel::Channel;
use cores::Cores;
use dispatch::Dispatch;
use domain::Domain;
pub use frames::FrameKind;
use frames::FrameTable;
pub use handler::{Answer, Stop};
use interrupt::Interrupts;
use log::Log;
use pool::{
    BlockRef, ChannelRef, DomainRef, Pool, PortalRef, SemaphoreRef, SignatureRef, SpaceRef,
    ThreadRef, WindowRef,
};
use portal::code::Block;
use portal::table::Target;
use portal::Portal;
use queue::Lists;
use semaphore::Semaphore;
use signature::Signature;
use space::Space;
use thread::Thread;
use windows::Window;

/// What the entry code does when the nucleus is done.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Resume {
    /// Registers of the thread to continue; null: nothing to run, wait for an interrupt with interrupts enabled and call
    /// [`Kernel::interrupt`] or [`Kernel::timer`] then. The next entry from user mode stores the registers here.
    pub registers: *mut Registers,
    /// 0: rcx and r11 are free, `sysret` will do. 1: every register counts (`iretq`). Of [`Kernel::channel_right`] and [`Kernel::receive_right`] also the address of the registers in
    /// which the eight words of the message are: the thread stands behind a `syscall` of its, and has everything else in its own registers.
    pub full: u64,
}

/// Memory that the boot code sets aside for the nucleus.
pub struct Storage {
    /// One word per frame of physical memory from frame 0 on (zero = Absent).
    pub frames: &'static mut [u32],
    /// The log ring.
    pub log: &'static mut [u8],
    /// Hasty handlers, none in use.
    pub handlers: &'static mut hasty::Handlers,
    /// The trace's ring; empty: there will be no trace.
    pub trace: &'static mut [trace::Slot],
    /// For the ready queue of the first core: empty.
    pub ready: &'static mut Lists,
    /// Deadlines: none.
    pub timers: &'static mut timer::Timers,
}

/// Most ranges of free memory that are remembered.
pub const MAX_RANGES: usize = 32;

/// The nucleus.
pub struct Kernel<A: Arch> {
    pub arch: A,
    pub(crate) threads: Pool<ThreadRef, Thread<A::FloatState>>,
    pub(crate) domains: Pool<DomainRef, Domain<A>>,
    pub(crate) spaces: Pool<SpaceRef, Space<A::Root>>,
    pub(crate) channels: Pool<ChannelRef, Channel>,
    pub(crate) portals: Pool<PortalRef, Portal>,
    pub(crate) blocks: Pool<BlockRef, Block>,
    pub(crate) semaphores: Pool<SemaphoreRef, Semaphore>,
    pub(crate) windows: Pool<WindowRef, Window>,
    pub(crate) signatures: Pool<SignatureRef, Signature>,
    /// Of the core that is in the nucleus.
    pub(crate) dispatch: Dispatch,
    pub(crate) cores: Cores,
    pub(crate) timers: &'static mut timer::Timers,
    pub(crate) interrupts: Interrupts,
    pub(crate) handlers: &'static mut hasty::Handlers,
    /// When the first of them wants to be woken for a pause.
    pub(crate) pause_next: u64,
    /// How many threads have fallen, and when it is looked at next whether they get turns (`u64::MAX`: there are none).
    pub(crate) fallen: u32,
    pub(crate) patience_end: u64,
    pub(crate) partitions: [partition::Partition; partition::MOST],
    /// So many of them were ever used: the others are not looked at.
    pub(crate) partitions_made: usize,
    /// When the first of their schedulers is looked at (`u64::MAX`: none owes anything).
    pub(crate) watch_end: u64,
    pub(crate) trace: trace::Trace,
    pub(crate) frames: FrameTable,
    pub(crate) ranges: [FrameRange; MAX_RANGES],
    pub(crate) range_count: usize,
    pub(crate) system_frame: arch::Frame,
    /// The common table, and the address for which it is.
    pub(crate) common: Option<(u64, arch::Frame)>,
    pub(crate) log: Log,
    pub(crate) counters: Counters,
    /// The first space, until its domain is made.
    pub(crate) first_space: Option<SpaceRef>,
    /// Messages may take the short way (always, but where a test compares).
    pub(crate) short_way: bool,
    /// Entries that are used much get code of their own (always, but where a test compares).
    pub(crate) compiles: bool,
    /// Dead domains that nobody holds: closed in shares by the timer.
    pub(crate) graveyard: Option<DomainRef>,
    /// Ids of threads at which long chains go on whose priority changes, behind the last one 0: followed at the timer's next coming.
    pub(crate) unrefreshed: [u32; dispatch::RESTS],
    /// Threads that were ever made.
    pub(crate) births: u64,
    /// The last [`thread::Thread::server_number`] that was given.
    pub(crate) servers: u32,
    /// Where the firmware's tables begin (ACPI's root pointer); 0: there are none.
    pub(crate) firmware: u64,
}

impl<A: Arch> Kernel<A> {
    pub fn new(arch: A, storage: Storage) -> Kernel<A> {
        Kernel {
            domains: Pool::new(&arch),
            spaces: Pool::new(&arch),
            threads: Pool::new(&arch),
            channels: Pool::new(&arch),
            portals: Pool::new(&arch),
            blocks: Pool::new(&arch),
            semaphores: Pool::new(&arch),
            windows: Pool::new(&arch),
            signatures: Pool::new(&arch),
            dispatch: Dispatch::new(storage.ready),
            cores: Cores::new(),
            timers: storage.timers,
            interrupts: Interrupts::new(),
            handlers: storage.handlers,
            pause_next: u64::MAX,
            fallen: 0,
            patience_end: u64::MAX,
            partitions: [partition::Partition::NEW; partition::MOST],
            partitions_made: 0,
            watch_end: u64::MAX,
            trace: trace::Trace::new(storage.trace),
            frames: FrameTable::new(storage.frames),
            ranges: [FrameRange { first: 0, count: 0 }; MAX_RANGES],
            range_count: 0,
            system_frame: 0,
            common: None,
            log: Log::new(storage.log),
            counters: Counters::default(),
            first_space: None,
            short_way: true,
            compiles: true,
            graveyard: None,
            unrefreshed: [0; dispatch::RESTS],
            births: 0,
            servers: 0,
            firmware: 0,
            arch,
        }
    }

    /// No message takes the short way from now on.
    pub fn general_way_only(&mut self) {
        self.short_way = false;
        self.compiles = false;
    }

    /// No entry gets code of its own from now on.
    pub fn shared_code_only(&mut self) {
        self.compiles = false;
    }

    /// A `syscall` of the current thread that is a portal traversal.
    #[inline(never)]
    pub fn syscall(&mut self) -> Resume {
        self.settle_entry();
        let Some(t) = self.dispatch.current else {
            return self.resume();
        };
        let thread = &self.threads[t];
        let slot = thread.registers.rax as u32;
        let domain = thread.domain;
        let entry = self.domains[domain].table.entry(slot);
        self.traversal(t, entry.map_or(Target::EMPTY, |entry| entry.target))
    }

    /// The end of a traversal.
    #[inline(always)]
    pub(crate) fn complete(&mut self, t: ThreadRef, answer: Answer) -> Resume {
        if answer == Err(Stop::Left) {
            return self.leave();
        }
        match answer {
            Ok(()) => self.threads[t].registers.rax = 0,
            Err(Stop::Left) => {}
            Err(Stop::Restart) => self.rewind(t),
            Err(Stop::Error(error)) => self.threads[t].registers.rax = error as u64,
        }
        if self.threads[t].poked {
            self.upcall_if_poked(t);
        }
        self.leave()
    }

    /// The operation in the thread's `rax`.
    #[inline]
    pub(crate) fn operation(&self, t: ThreadRef) -> u8 {
        (self.threads[t].registers.rax >> 32) as u8
    }

    /// Set answer word `i`.
    #[inline]
    pub(crate) fn answer(&mut self, t: ThreadRef, i: usize, value: u64) {
        self.threads[t].registers.set_word(i, value);
    }

    /// Set the first answer words.
    #[inline(never)]
    pub(crate) fn answers(&mut self, t: ThreadRef, values: &[u64]) {
        for (i, &value) in values.iter().enumerate() {
            self.answer(t, i, value);
        }
    }

    /// Between two shares of work for the running thread, whose words say already how to go on: interrupts that wait come in here, and this does not return: the thread
    /// will execute its `syscall` again. True: the entry has to end for that ([`Stop::Restart`]).
    #[inline(never)]
    pub(crate) fn let_in(&mut self, t: ThreadRef) -> bool {
        !self.open_for(t) || A::let_in(self)
    }

    /// Where an entry has looked long and changed nothing that may not be done again: interrupts that wait come in where that costs no look, and the thread then begins anew.
    #[inline(never)]
    pub(crate) fn open(&mut self, t: ThreadRef) {
        if self.open_for(t) {
            A::open(self);
        }
    }

    /// The running thread is this one, and nobody else's turn is it: so it may be taken for interrupted.
    #[inline(always)]
    pub(crate) fn open_for(&self, t: ThreadRef) -> bool {
        !self.dispatch.preempt && self.dispatch.current == Some(t)
    }

    /// Let the thread execute its `syscall` instruction (two bytes) again.
    pub(crate) fn rewind(&mut self, t: ThreadRef) {
        let registers = &mut self.threads[t].registers;
        registers.rip = registers.rip.wrapping_sub(2);
    }
}
