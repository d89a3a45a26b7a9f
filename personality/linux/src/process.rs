//! The state of the process that its threads share: what Linux keeps in the kernel and Cairn keeps in the process itself. It is trusted by nobody else.
//!
//! The head is read by the entry code. [`State`] is behind one lock that is never held while a server could wait. A fork copies all of it with the memory; a vfork child, which shares
//! memory, gets a [`Process`] of its own ([`Process::separate`]).
//!
//! Lock order: `state`, `futexes`, spare areas, heap.

use crate::calls::aio::Contexts;
use crate::calls::lend::Lent;
use crate::calls::memory_policy::Policies;
use crate::calls::sysv::Attached;
use crate::descriptors::{self, OpenFile, Table};
use crate::futex::Futexes;
use crate::machine::heap::HEAP;
use crate::machine::lock::{Guard, Lock};
use crate::machine::user::bytes_of;
use crate::machine::{area, arena};
use crate::prefix::Prefixes;
use crate::signal::actions::Actions;
use crate::signal::Queue;
use crate::space::Space;
use crate::spare::Spares;
use crate::user_space::UserSpace;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::{MAX_SLOTS, RESERVED_SLOTS};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[repr(C)]
pub struct Process {
    pub pid: AtomicU32,
    /// 0 = not known since the last poke.
    pub ppid: AtomicU32,
    pub uid: AtomicU32,
    pub euid: AtomicU32,
    pub gid: AtomicU32,
    pub egid: AtomicU32,
    /// Capabilities, as sets.
    pub effective: AtomicU64,
    pub permitted: AtomicU64,
    /// The break, and the end of what is mapped for it.
    pub brk_now: AtomicU64,
    pub brk_max: AtomicU64,
    pub brk_start: AtomicU64,
    /// Nothing is mapped for the break but what it has: memory is locked or limited.
    pub brk_exact: AtomicBool,
    /// Where the program's first stack has its auxiliary vector and its arguments' strings, for a core file.
    pub auxiliary: AtomicU64,
    pub arguments: AtomicU64,
    pub arguments_length: AtomicU64,
    /// RLIMIT_FSIZE: largest size of a file that is written.
    pub file_limit: AtomicU64,
    /// Signals in the shared queue, as bits.
    pub pending: AtomicU64,
    /// Calls are logged (CAIRN_STRACE).
    pub trace: AtomicU32,
    /// Calls that do not exist here, counted.
    pub missing: AtomicU32,
    /// The memory is its parent's, until it executes a program (vfork).
    pub borrows_memory: AtomicBool,
    /// Of [`State::signallers`]: those that were closed since.
    pub signallers_closed: AtomicU32,
    /// It has signal descriptors, perhaps: the event server is told which signals wait.
    pub signal_files: AtomicBool,
    /// It is in a mount name space that is not the first one.
    pub in_space: AtomicBool,
    /// It is in a user name space that is not the first one: its ids above are as it knows them, and u32::MAX until they have names.
    pub in_user_space: AtomicBool,
    /// It is in a PID name space that is not the first one; so are its children.
    pub in_pid_space: AtomicBool,
    pub children_in_pid_space: AtomicBool,
    /// How often a thread gave all others its filters of system calls.
    pub filters_given: AtomicU32,
    /// Held while the portal table grows.
    pub growth: Lock<()>,
    pub state: Lock<State>,
    pub futexes: Lock<Futexes>,
}

/// What the threads of a process must know of one another.
#[derive(Debug, Default)]
pub struct Peer {
    pub tid: AtomicU32,
    /// Nucleus id, for UNPARK.
    pub nucleus: AtomicU32,
    /// Blocked signals.
    pub mask: AtomicU64,
    /// The id has been stored where CLONE_PARENT_SETTID asked for it. Changed with [`Process::state`] locked.
    pub announced: AtomicBool,
}

pub struct State {
    pub files: Table,
    /// Portals for the next files that are opened.
    pub spares: Spares,
    /// Segments of shared memory that are attached, by `vm`'s numbers of their first bytes.
    pub attached: BTreeMap<u64, Attached>,
    /// Memory that servers of disks may still have.
    pub lent: Vec<Lent>,
    /// Asynchronous input and output (io_setup).
    pub contexts: Contexts,
    pub policies: Policies,
    /// The working directory; none only before the first one could be opened.
    pub cwd: Option<Arc<OpenFile>>,
    /// chroot: where absolute names begin.
    pub root: Option<Root>,
    /// A mount name space that is not the first one; and a UTS name space of its own.
    pub space: Option<Space>,
    pub own_host: bool,
    pub user: Option<UserSpace>,
    /// Where request_key(2) would put keys (KEYCTL_SET_REQKEY_KEYRING).
    pub new_keys_ring: i32,
    pub actions: Actions,
    /// Signals for the process that no thread has taken on yet.
    pub queue: Queue,
    /// Default-ignored signals that somebody waits for all the same (sigtimedwait, signalfd).
    pub wanted: u64,
    /// What `proc` was told last: ignored, caught, flags.
    pub told: (u64, u64, u64),
    pub threads: Vec<Arc<Peer>>,
    /// A child that shares this memory runs beside us (CLONE_VM without CLONE_VFORK).
    pub lends_memory: bool,
    /// Of the last time that the lock of this was passed on: [`Process::pass_on`].
    passed: u32,
    /// Areas of ended threads with their nucleus ids, to be freed once the thread is really gone.
    pub dead: Vec<(u64, u32)>,
    pub prefixes: Prefixes,
    /// Mount portals held, by index.
    pub mounts: u32,
    /// Entries of the portal table, without those of signallers.
    pub capacity: u32,
    /// Objects of the event server that send files' signals ([`crate::descriptors::Signals`]): each has an entry.
    signallers: u32,
    /// Path of the executable.
    pub exe: Vec<u8>,
    pub name: [u8; 16],
    pub no_new_privileges: bool,
    pub personality: u32,
}

/// Where absolute names begin after a chroot. The handle is rooted ([`cairn_idl::fs::ROOTED`]), and the process has no portals of mounts but of those below it: its name is only for finding these.
pub struct Root {
    /// From the root of all.
    pub name: Vec<u8>,
    pub directory: Arc<OpenFile>,
}

impl Root {
    fn separate(&self) -> Root {
        Root {
            name: self.name.clone(),
            directory: descriptors::separate(&self.directory),
        }
    }

    /// A place's name from the root of all, as it is from here; None, it is elsewhere.
    pub fn below<'a>(&self, place: &'a [u8]) -> Option<&'a [u8]> {
        match place.strip_prefix(self.name.as_slice())? {
            b"" => Some(b"/"),
            rest if rest[0] == b'/' => Some(rest),
            _ => None,
        }
    }
}

/// Entries of a new portal table.
const FIRST_CAPACITY: u32 = 256;
/// Portals beside those of descriptors that may be there for a moment: working directory, sets for poll, objects being mapped.
const OTHERS: u32 = 40;

impl State {
    fn new() -> State {
        State {
            files: Table::new(),
            spares: Spares::default(),
            attached: BTreeMap::new(),
            lent: Vec::new(),
            contexts: Contexts::new(),
            policies: Policies::new(),
            cwd: None,
            root: None,
            space: None,
            own_host: false,
            user: None,
            new_keys_ring: 0,
            actions: Actions::new(),
            queue: Queue::default(),
            wanted: 0,
            told: (0, 0, 0),
            threads: Vec::new(),
            lends_memory: false,
            passed: 1,
            dead: Vec::new(),
            prefixes: Prefixes::default(),
            mounts: 0,
            capacity: FIRST_CAPACITY,
            signallers: 0,
            exe: Vec::new(),
            name: [0; 16],
            no_new_privileges: false,
            personality: 0,
        }
    }

    fn separate(&self) -> State {
        State {
            files: self.files.separate(),
            spares: Spares::default(),
            attached: self.attached.clone(),
            lent: Vec::new(),
            contexts: Contexts::new(),
            policies: self.policies.clone(),
            cwd: self.cwd.as_ref().map(descriptors::separate),
            root: self.root.as_ref().map(Root::separate),
            space: self.space.as_ref().map(Space::separate),
            own_host: self.own_host,
            user: self.user.clone(),
            new_keys_ring: self.new_keys_ring,
            actions: self.actions.clone(),
            queue: Queue::default(),
            wanted: self.wanted,
            told: self.told,
            threads: Vec::new(),
            lends_memory: false,
            passed: 1,
            dead: Vec::new(),
            prefixes: self.prefixes.clone(),
            mounts: self.mounts,
            capacity: self.capacity,
            signallers: self.signallers,
            exe: self.exe.clone(),
            name: self.name,
            no_new_privileges: self.no_new_privileges,
            personality: self.personality,
        }
    }

    /// The working directory is another one; what it was.
    pub fn set_cwd(&mut self, cwd: Option<Arc<OpenFile>>) -> Option<Arc<OpenFile>> {
        self.files.list_cwd(&cwd);
        core::mem::replace(&mut self.cwd, cwd)
    }

    /// After a fork the table is as large as what was copied needs, perhaps no larger.
    pub fn assume_capacity(&mut self) {
        self.forget_closed_signallers();
        let least = self.files.used() + self.signallers + RESERVED_SLOTS;
        let least = least.next_multiple_of(FIRST_CAPACITY) - self.signallers;
        self.capacity = self.capacity.min(least);
    }

    /// The table reaches to this slot at least.
    pub fn holds_slots_to(&mut self, slot: u32) {
        let least = (slot + 1).next_multiple_of(FIRST_CAPACITY);
        self.capacity = self.capacity.max(least);
    }

    /// Does only this thread work with this?
    fn is_alone(&self) -> bool {
        // A thread that ends may still be on its last steps.
        self.threads.len() <= 1 && self.dead.is_empty() && !self.lends_memory
    }

    /// This is a copy, without the threads that worked with the original: what these were using of it nobody will let go.
    pub fn forget_users(&mut self) {
        self.files.forget_users();
        let root = self.root.as_mut().map(|root| &mut root.directory);
        let mounts = self.space.iter_mut().flat_map(|s| s.files_mut());
        for file in self.cwd.iter_mut().chain(root).chain(mounts) {
            descriptors::forget_users(file);
        }
    }

    /// Should the portal table grow before `more` portals arrive?
    pub fn wants_growth(&self, more: u32) -> bool {
        let mounts = self.space.as_ref().map_or(0, Space::held);
        self.files.used() + mounts + OTHERS + more > self.capacity - RESERVED_SLOTS
    }

    /// There is one more.
    pub fn add_signaller(&mut self) {
        self.signallers += 1;
        self.capacity = self.capacity.saturating_sub(1).max(RESERVED_SLOTS);
    }

    /// Entries of those that were closed are there again. (Whoever closes one may hold this.)
    pub fn forget_closed_signallers(&mut self) {
        let closed = &area::process().signallers_closed;
        let closed = closed.swap(0, Ordering::Relaxed);
        self.signallers -= closed;
        self.capacity += closed;
    }
}

/// Slots of the portal table: bit n of all is slot n.
pub struct Slots([u64; (MAX_SLOTS / 64) as usize]);

impl Slots {
    /// All of which the state knows. Other threads have more for a moment: portals that they were given and have not entered yet, or are about to close.
    fn of(state: &State) -> Slots {
        let mut slots = Slots([0; _]);
        (0..RESERVED_SLOTS).for_each(|slot| slots.add(slot));
        let files = state.files.files().map(|(_, entry)| &entry.file);
        files
            .chain(&state.cwd)
            .chain(state.root.as_ref().map(|root| &root.directory))
            .chain(state.space.iter().flat_map(Space::files))
            .for_each(|file| {
                slots.add(file.slot());
                slots.add(file.signals.slot());
                slots.add(file.signals.urgent());
                slots.add(file.signals.lease());
            });
        slots
    }

    fn add(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut((slot / 64) as usize) {
            *word |= 1 << (slot % 64);
        }
    }

    /// As FORK takes them.
    pub fn bytes(&self) -> &[u8] {
        let used = self.0.iter().rposition(|word| *word != 0);
        let used = used.map_or(0, |last| last + 1) * size_of::<u64>();
        bytes_of(&self.0).get(..used).unwrap_or(&[])
    }
}

impl Default for Process {
    fn default() -> Self {
        Process::new()
    }
}

impl Process {
    pub fn new() -> Process {
        Process {
            pid: AtomicU32::new(0),
            ppid: AtomicU32::new(0),
            uid: AtomicU32::new(0),
            euid: AtomicU32::new(0),
            gid: AtomicU32::new(0),
            egid: AtomicU32::new(0),
            effective: AtomicU64::new(0),
            permitted: AtomicU64::new(0),
            brk_now: AtomicU64::new(u64::MAX),
            brk_max: AtomicU64::new(0),
            brk_start: AtomicU64::new(0),
            brk_exact: AtomicBool::new(false),
            auxiliary: AtomicU64::new(0),
            arguments: AtomicU64::new(0),
            arguments_length: AtomicU64::new(0),
            file_limit: AtomicU64::new(u64::MAX),
            pending: AtomicU64::new(0),
            trace: AtomicU32::new(0),
            missing: AtomicU32::new(0),
            borrows_memory: AtomicBool::new(false),
            signallers_closed: AtomicU32::new(0),
            signal_files: AtomicBool::new(false),
            in_space: AtomicBool::new(false),
            in_user_space: AtomicBool::new(false),
            in_pid_space: AtomicBool::new(false),
            children_in_pid_space: AtomicBool::new(false),
            filters_given: AtomicU32::new(0),
            state: Lock::new(State::new()),
            growth: Lock::new(()),
            futexes: Lock::new(Futexes::default()),
        }
    }

    /// Where what `proc` reads of its open files lies.
    pub fn listed_files(&self) -> u64 {
        let within = offset_of!(State, files) + offset_of!(Table, listed);
        self.state.place() as u64 + within as u64
    }

    /// What `proc` says that it has.
    pub fn set_capabilities(&self, effective: u64, permitted: u64) {
        self.effective.store(effective, Ordering::Relaxed);
        self.permitted.store(permitted, Ordering::Relaxed);
    }

    /// Its effective set has this capability.
    pub fn is_capable(&self, capability: u32) -> bool {
        self.effective.load(Ordering::Relaxed) & 1 << capability != 0
    }

    /// Nobody else runs in this memory.
    pub fn is_alone(&self) -> bool {
        if self.borrows_memory.load(Ordering::Relaxed) {
            return false;
        }
        let state = self.state();
        state.threads.len() <= 1 && !state.lends_memory
    }

    /// A copy for a child that shares this memory.
    fn separate(&self, state: &State) -> Process {
        let copy = |from: &AtomicU32| AtomicU32::new(from.load(Ordering::Relaxed));
        let copy_flag = |from: &AtomicBool| AtomicBool::new(from.load(Ordering::Relaxed));
        let copy_long = |from: &AtomicU64| AtomicU64::new(from.load(Ordering::Relaxed));
        Process {
            pid: AtomicU32::new(0),
            ppid: AtomicU32::new(0),
            uid: copy(&self.uid),
            euid: copy(&self.euid),
            gid: copy(&self.gid),
            egid: copy(&self.egid),
            effective: copy_long(&self.effective),
            permitted: copy_long(&self.permitted),
            brk_now: copy_long(&self.brk_now),
            brk_max: copy_long(&self.brk_max),
            brk_start: copy_long(&self.brk_start),
            brk_exact: AtomicBool::new(self.brk_exact.load(Ordering::Relaxed)),
            auxiliary: AtomicU64::new(self.auxiliary.load(Ordering::Relaxed)),
            arguments: AtomicU64::new(self.arguments.load(Ordering::Relaxed)),
            arguments_length: AtomicU64::new(self.arguments_length.load(Ordering::Relaxed)),
            file_limit: copy_long(&self.file_limit),
            pending: AtomicU64::new(0),
            trace: copy(&self.trace),
            missing: AtomicU32::new(0),
            borrows_memory: AtomicBool::new(true),
            signallers_closed: copy(&self.signallers_closed),
            signal_files: AtomicBool::new(self.signal_files.load(Ordering::Relaxed)),
            in_space: AtomicBool::new(state.space.is_some()),
            in_user_space: copy_flag(&self.in_user_space),
            in_pid_space: copy_flag(&self.in_pid_space),
            children_in_pid_space: copy_flag(&self.children_in_pid_space),
            filters_given: AtomicU32::new(0),
            state: Lock::new(state.separate()),
            growth: Lock::new(()),
            futexes: Lock::new(Futexes::default()),
        }
    }

    pub fn state(&self) -> Guard<'_, State> {
        self.state.lock()
    }

    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub fn tracing(&self) -> bool {
        self.trace.load(Ordering::Relaxed) != 0
    }

    /// As [`Process::hold_everything`], if anybody but this thread could hold a lock. If they are held now: the portals that a copy shall have.
    pub fn hold_for_copy(&self) -> Option<Slots> {
        self.growth.acquire();
        let state = self.state();
        if state.is_alone() {
            self.growth.release();
            return None;
        }
        let slots = Slots::of(&state);
        state.keep();
        self.hold_rest();
        Some(slots)
    }

    /// A copy for a child that shares this memory. If other threads could change the state before the child has its portals it is held from now on,
    /// passed on under the name that comes with it, until [`Process::release_passed`], and `slots` are the portals that the child shall have.
    pub fn separate_held(&self, slots: &mut Option<Slots>) -> (Process, Option<u32>) {
        let mut state = self.state();
        let copy = self.separate(&state);
        if state.is_alone() {
            return (copy, None);
        }
        *slots = Some(Slots::of(&state));
        state.passed = state.passed.wrapping_add(1).max(2);
        let name = state.passed;
        state.keep();
        self.state.pass_on(name);
        (copy, Some(name))
    }

    /// By the child, as soon as it runs, and by its maker, as the child may never run.
    pub fn release_passed(&self, name: u32) {
        self.state.release_passed(name);
    }

    /// Take every lock of the process, in order, so that a copy of the memory is consistent.
    pub fn hold_everything(&self) {
        self.growth.acquire();
        self.state.acquire();
        self.hold_rest();
    }

    fn hold_rest(&self) {
        self.futexes.acquire();
        area::hold_spare();
        arena::hold();
        HEAP.acquire();
    }

    pub fn release_everything(&self) {
        HEAP.release();
        arena::release();
        area::release_spare();
        self.futexes.release();
        self.state.release();
        self.growth.release();
    }
}
