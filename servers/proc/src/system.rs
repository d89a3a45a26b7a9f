//! What the process manager asks of `vm` and of the nucleus. [`crate::native::Native`] asks the real ones, the tests a fake.

use cairn_abi::layout::{MAX_SLOTS, PAGE};
use cairn_abi::state::Registers;
use cairn_abi::{Error, Id, Token};
use cairn_random::SEED;
use cairn_rt::Portal;

/// A Linux error number, positive.
pub type Errno = i64;

/// A process's domain: the portal to control it and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    pub portal: Portal,
    pub id: Id,
}

impl Default for Domain {
    fn default() -> Self {
        Domain::NONE
    }
}

impl Domain {
    pub const NONE: Domain = Domain {
        portal: Portal(0),
        id: 0,
    };
}

/// First registers of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub rip: u64,
    pub rsp: u64,
    pub rdi: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub priority: u8,
    /// One of [`cairn_abi::policy`].
    pub policy: u64,
}

/// Where the nucleus enters the personality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    pub syscall: u64,
    pub upcall: u64,
    /// Instead of `syscall`, for processes that are traced.
    pub traced: u64,
}

/// Faults of a program: those that brought a page at once, and those that waited for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub minor: u64,
    pub major: u64,
}

impl core::ops::AddAssign for Faults {
    fn add_assign(&mut self, more: Faults) {
        self.minor += more.minor;
        self.major += more.major;
    }
}

impl core::ops::Add for Faults {
    type Output = Faults;

    fn add(mut self, more: Faults) -> Faults {
        self += more;
        self
    }
}

/// Pages of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub resident: u64,
    pub mapped: u64,
    pub shared: u64,
    pub locked: u64,
    pub data: u64,
    pub faults: Faults,
}

/// What `vm` counts for an account (ACCOUNT_STAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountStat {
    pub held: u64,
    pub charged: u64,
    pub records: u64,
    pub refused: u64,
    pub ended: u64,
    /// Most of all that were ever there, in pages.
    pub peak: u64,
}

impl AccountStat {
    /// All that is counted against its limits.
    pub fn pages(&self) -> u64 {
        self.held + self.charged + self.records / PAGE
    }
}

/// What `vm` holds a space to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLimits {
    /// RLIMIT_AS, in pages; 0 = none.
    pub pages: u64,
    /// RLIMIT_DATA, in pages; `u64::MAX` = none.
    pub data: u64,
    /// RLIMIT_MEMLOCK, in bytes; `u64::MAX` = none.
    pub lock: u64,
}

/// Slots of a portal table: bit n of all is slot n.
pub type Slots = [u64; (MAX_SLOTS / 64) as usize];

pub trait System {
    /// Monotonic ns.
    fn now(&mut self) -> u64;
    /// The wall clock's ns since 1970 at monotonic time 0.
    fn wall(&mut self) -> u64;
    /// It is this from now on. False: the machine is not there to be told.
    fn set_wall(&mut self, wall: u64) -> bool;
    /// What is hard to guess of this moment, as far as the machine has it.
    fn entropy(&mut self) -> [u8; SEED];
    /// From now on the own thread calls ([`crate::BADGE_BACKGROUND`]) until it is told that nothing is left. False: that cannot be.
    fn begin_background(&mut self) -> bool;
    fn end_background(&mut self);
    /// [`fork`](Self::fork), if that does not take long (E2BIG).
    fn fork_few(&mut self, parent: Id, share: bool) -> Result<Domain, Errno>;
    /// The own thread is to ask for forks ([`crate::BADGE_FORKS`]), or works already: at this priority from now on. False: there is none.
    fn begin_forks(&mut self, level: u8) -> bool;
    fn set_forks_priority(&mut self, level: u8);
    /// What it is told: to copy this domain.
    fn errand(&mut self, parent: Id) -> Result<[u64; 8], Errno>;
    /// What that came to, by the words that it tells.
    fn forked(&mut self, words: &[u64; 8]) -> Result<Domain, Errno>;
    /// A line for the system's log.
    fn log(&mut self, line: &str);

    /// Ns without a runnable thread since boot, 0 if that is not known.
    fn idle(&mut self) -> u64;

    /// From the out part of a waiting caller.
    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error>;
    /// Into its in part.
    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error>;
    /// Let a caller go on that was left waiting. It may be gone.
    fn reply(&mut self, token: Token, words: [u64; 8]);
    fn close(&mut self, portal: Portal);
    /// A portal that came with a message will be kept: see that there is room for the next one that arrives.
    fn keep(&mut self) -> Result<(), Errno>;
    /// A portal that was kept so is closed.
    fn drop_kept(&mut self, portal: Portal);
    fn notify(&mut self, portal: Portal, value: u64);
    /// 0 power off, 1 restart, 2 end the emulator with a code. Returns only if there is no power portal.
    fn power(&mut self, how: u64, code: u64);

    /// A new domain with an empty space.
    fn create(&mut self) -> Result<Domain, Errno>;
    /// What this domain shows of the personality beside its data is common to all from now on.
    fn make_common(&mut self, domain: Id) -> Result<(), Errno>;
    /// A new domain with a copy-on-write copy of the parent's space, or sharing it.
    /// `pays`: as in [`System::set_account`], if not as the parent. `before`: 0, or the domain in whose place a program begins in the copy.
    fn fork(
        &mut self,
        parent: Id,
        share: bool,
        pays: Option<(u32, bool)>,
        before: Id,
    ) -> Result<Domain, Errno>;
    /// exec: nothing but the personality's range stays in the space, and of its heap only `heap` (first address and end; 0, 0 = all).
    fn reset(&mut self, domain: Id, heap: (u64, u64)) -> Result<(), Errno>;
    /// What a domain's space may have from now on.
    fn limit_space(&mut self, domain: Id, limits: SpaceLimits);
    /// How likely it is to end when memory is exhausted (`vm::OOM_ADJUST`).
    fn adjust_oom(&mut self, domain: Id, adjust: i16);
    /// Pages of all memory.
    fn memory(&mut self) -> u64;
    fn space(&mut self, domain: Id) -> Space;
    /// Memory is exhausted: the domain that shall end, never `spared`.
    /// And the account of the group whose limit is the cause, or 0.
    fn exhausted(&mut self, spared: Id) -> Option<(Id, u32)>;
    /// This account pays for what a domain takes from now on, a user's or a group's. `root`: it may use what is kept for user 0.
    fn set_account(&mut self, domain: Id, account: u32, root: bool);
    /// A group's account below another (0: none) is there, or goes.
    fn account_group(&mut self, account: u32, above: u32, there: bool) -> Result<(), Errno>;
    /// Most pages of an account; 0 = no limit.
    fn limit_account(&mut self, account: u32, pages: u64) -> Result<(), Errno>;
    fn account_stat(&mut self, account: u32) -> AccountStat;
    /// A memory object of these pages of the manager's own.
    fn object(&mut self, pages: &[u64], shared_writable: bool) -> Result<Portal, Errno>;
    fn map_object(
        &mut self,
        domain: Id,
        object: Portal,
        address: u64,
        length: u64,
        prot: u64,
        flags: u64,
    ) -> Result<(), Errno>;
    fn map(
        &mut self,
        domain: Id,
        address: u64,
        length: u64,
        prot: u64,
        flags: u64,
    ) -> Result<(), Errno>;
    fn write_into(&mut self, domain: Id, address: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Turn, label and death watch of a new domain.
    fn set_up(
        &mut self,
        domain: Domain,
        entries: Entries,
        label: u64,
        watch: u64,
    ) -> Result<(), Errno>;
    fn set_label(&mut self, domain: Domain, label: u64);
    /// Its system calls come to the entry for traced processes from now on, or to the ordinary one.
    fn turn(&mut self, domain: Domain, entries: Entries, traced: bool);
    /// Memory of a domain, up to the first hole.
    fn read_from(&mut self, domain: Id, address: u64, into: &mut [u8]) -> Result<usize, Errno>;
    /// The same, written, where a tracer may.
    fn write_for_tracer(&mut self, domain: Id, address: u64, bytes: &[u8]) -> Result<usize, Errno>;
    /// What names a byte of a domain that others may have as well (a futex's key).
    fn shared_key(&mut self, domain: Id, address: u64) -> Option<u64>;
    /// The portals of one domain become another's as well, in the same slots: all that can be inherited, or of these those whose bit is set.
    fn copy_table(&mut self, from: Domain, to: Domain, slots: Option<&Slots>) -> Result<(), Errno>;
    /// A copy of one of the manager's portals into a slot of the domain.
    fn put(&mut self, domain: Domain, portal: Portal, slot: u32) -> Result<(), Errno>;
    /// A slot of the domain is empty from now on.
    fn remove(&mut self, domain: Domain, slot: u32);
    /// A new thread that does not run yet.
    fn thread(&mut self, domain: Domain, start: &Start) -> Result<Id, Errno>;
    /// An operation of [`cairn_abi::service::thread`].
    fn control(
        &mut self,
        domain: Domain,
        thread: Id,
        operation: u8,
        arguments: [u64; 3],
    ) -> Result<[u64; 8], Error>;
    /// The thread has this run time, deadline and period from now on (SCHED_DEADLINE): EBUSY, there is not so much left.
    fn set_deadline(&mut self, domain: Domain, thread: Id, times: [u64; 3]) -> Result<(), Errno>;
    /// It has none any more.
    fn end_deadline(&mut self, thread: Id);
    /// It gives up what it has left until its next period. ESRCH: nobody schedules it.
    fn end_period(&mut self, thread: Id) -> Result<(), Errno>;
    /// What a thread that does not run has in its registers.
    fn registers(&mut self, domain: Domain, thread: Id) -> Option<Registers>;
    /// A copy of what the domain can call by this slot.
    fn take(&mut self, domain: Domain, slot: u32) -> Result<Portal, Errno>;
    fn stop(&mut self, domain: Domain);
    fn resume(&mut self, domain: Domain);
    fn keep_only(&mut self, domain: Domain, thread: Id);
    fn close_on_exec(&mut self, domain: Domain);
    /// How many cores there are.
    fn cores(&mut self) -> u64;
    /// CPU time of the domain in ns.
    fn cpu(&mut self, domain: Domain) -> u64;
    /// End the domain, tell `vm`, close its portal → the faults of its space, if nobody else has that.
    fn destroy(&mut self, domain: Domain) -> Faults;
}
