//! The records: process, thread, and what a thread waits for.

use crate::cgroups;
use crate::cpu_timers::Watch;
use crate::filters::Filter;
use crate::keys::Session;
use crate::limits::Limits;
use crate::login::Login;
use crate::oom::Oom;
use crate::pid_spaces::Pids;
use crate::priority::SCHED_DEADLINE;
use crate::signal::{Info, Queue, IGNORED_BY_DEFAULT, SIGCHLD};
use crate::spaces::{CgroupSpace, Host, IpcSpace, Space};
use crate::system::{Domain, Faults};
use crate::table::{Slot, NONE};
use crate::thread_list::Threads;
use crate::timers::Timer;
use crate::tracing::{Traced, Tracer};
use crate::user_spaces::Above;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::{Id, Token};
use cairn_idl::first_stack::Places;
use cairn_idl::label;
use cairn_idl::proc::{Credentials, SLACK};
use cairn_rt::Portal;

/// What a thread that called waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    #[default]
    Nothing,
    /// WAIT.
    Child(crate::wait::Wanted),
    /// STOP_SELF: until it is continued.
    Continue,
    /// FORK with VFORK: until the child has exec'ed or ended. The child's number.
    Vfork(u32),
    /// FUTEX with its key, its turn and its deadline (0 = none).
    Futex(u64, crate::futex::Turn, u64),
    /// The same for several words.
    Several(crate::futex::Turn, u64),
    /// TRACE_STOP: until its tracer lets it go on.
    Traced,
}

#[derive(Debug)]
pub struct Thread {
    /// The nucleus's name for it.
    pub id: Id,
    pub tid: u32,
    pub scheduling: Scheduling,
    pub held: Held,
    /// The call that is held.
    pub token: Token,
    /// Signals for this thread only.
    pub queue: Queue,
    pub traced: Option<Traced>,
    /// Stopped by itself, in a process of which others are traced.
    pub frozen: bool,
    /// Of system calls; none for most.
    pub filters: Option<Rc<Filter>>,
    /// Its name, unless it is the first: that is called as its process.
    pub comm: [u8; 16],
}

impl Thread {
    pub fn new(id: Id, tid: u32, scheduling: Scheduling) -> Thread {
        Thread {
            id,
            tid,
            scheduling,
            held: Held::Nothing,
            token: 0,
            queue: Queue::default(),
            traced: None,
            frozen: false,
            filters: None,
            comm: [0; 16],
        }
    }
}

/// A change of state that the parent has not been told by WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    #[default]
    Nothing,
    Stopped(u32),
    Continued,
}

/// What a process does with signals, as it told by SIGNAL_STATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispositions {
    pub ignored: u64,
    pub caught: u64,
    /// Its children become no zombies.
    pub no_zombies: bool,
    /// No SIGCHLD for stopped children.
    pub no_stop_signal: bool,
}

impl Default for Dispositions {
    fn default() -> Self {
        Dispositions {
            ignored: IGNORED_BY_DEFAULT,
            caught: 0,
            no_zombies: false,
            no_stop_signal: false,
        }
    }
}

/// Where a process is on the way from EXEC_FRESH to its program. Until [`Beginning::Over`] only the personality runs in its domain, and nobody pokes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    #[default]
    Over,
    /// The manager of its file may tell the file's ids.
    Open,
    /// They were told.
    Told,
}

/// Where chroot(2) led: the path from the root of all, and a handle; none for those who are in no chroot.
#[derive(Debug, Default)]
pub struct Root {
    pub path: Vec<u8>,
    pub directory: Option<Portal>,
}

/// Names of what a process runs; shared by those that forked without exec.
#[derive(Debug, Default)]
pub struct Text {
    pub path: Vec<u8>,
    /// NUL-separated.
    pub command_line: Vec<u8>,
    /// Where its first stack has what.
    pub stack: Places,
}

/// Dispatching as sched_setscheduler and nice know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    pub nice: i32,
    pub policy: u32,
    pub realtime: u32,
    /// SCHED_RESET_ON_FORK: what it makes is ordinary.
    pub resets: bool,
    /// Of SCHED_DEADLINE: run time, deadline and period, in ns.
    pub times: [u64; 3],
}

impl Scheduling {
    /// What a thread or process begins with whose maker has this.
    pub fn inherited(self) -> Scheduling {
        let plain = Scheduling::default();
        // (Who has deadlines forks only if that is ordinary.)
        let resets = self.resets || self.policy == SCHED_DEADLINE;
        match (resets, self.realtime) {
            (false, _) => self,
            (true, 1..) => plain,
            (true, 0) => Scheduling {
                nice: self.nice.max(0),
                policy: self.policy,
                ..plain
            },
        }
    }
}

/// What timers may be late by, in ns; and what that was at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slack {
    pub now: u64,
    first: u64,
}

impl Slack {
    pub fn set(&mut self, slack: u64) {
        self.now = match slack as i64 {
            ..=0 => self.first,
            _ => slack,
        };
    }

    /// A child begins with what its parent has.
    fn inherited(self) -> Slack {
        Slack {
            first: self.now,
            ..self
        }
    }
}

impl Default for Slack {
    fn default() -> Slack {
        Slack {
            now: SLACK,
            first: SLACK,
        }
    }
}

#[derive(Debug, Default)]
pub struct Process {
    pub used: bool,
    /// A fork of it is being made ([`crate::forks`]).
    pub forks: bool,
    /// Servers' portals that are closed when it ends (ATTEND).
    pub attended: Vec<Portal>,
    /// Its session's key rings, and those of its program ([`crate::keys`]).
    pub session_keys: Option<Rc<Session>>,
    pub program_keys: Option<Session>,
    /// Another for each user of a record, so that a late pulse for an earlier one is recognised.
    pub generation: u32,
    pub pid: u32,
    /// Wait status of a zombie.
    pub ended: Option<u32>,
    /// It will be ended as soon as the present message is done with.
    pub doomed: bool,
    pub domain: Domain,
    pub threads: Threads,

    pub parent: Slot,
    pub first_child: Slot,
    pub last_child: Slot,
    pub next: Slot,
    pub previous: Slot,
    /// How many children it has; there are so many that they are in an index; its own place among its siblings ([`crate::kin`]).
    pub children: u32,
    pub has_many_children: bool,
    pub place: u64,
    /// Children that are zombies; children with a report.
    pub zombies: u32,
    pub reports: u32,

    pub group: Slot,
    /// Index in the group's list of members.
    pub group_at: u32,
    /// It has no terminal though its session may have one (TIOCNOTTY).
    pub has_left_terminal: bool,

    pub creds: Credentials,
    pub queue: Queue,
    pub dispositions: Dispositions,
    /// A stop signal was taken and not acted upon yet; SIGCONT came after it.
    pub stop_taken: bool,
    pub stop_cancelled: bool,
    /// The signal that stopped it.
    pub stopped: Option<u32>,
    /// Its domain is stopped. (Threads that are traced stop for their tracers instead.)
    pub frozen: bool,
    /// How many of its threads are traced, and whom it traces.
    pub traced: u32,
    pub tracer: Tracer,
    pub report: Report,
    pub exit_signal: u32,
    /// Sent when the parent ends.
    pub death_signal: u32,
    pub subreaper: bool,
    pub executed: bool,
    /// How many programs it has executed.
    pub programs: u32,
    /// It has stopped its threads for a core file.
    pub leaves_core: bool,
    pub dumpable: u32,
    pub no_new_privileges: bool,
    pub login: Login,
    pub oom: Oom,
    pub core_filter: u32,
    pub slack: Slack,
    /// Operations that its filters rule out, a bit each.
    pub refused: u64,
    /// A thread of it has filters, or had.
    pub filtered: bool,
    pub beginning: Beginning,
    /// The program that begins is to be told to be careful.
    pub careful: bool,
    /// What its caller was permitted.
    pub permitted_before: u64,
    /// Its root directory (SET_ROOT).
    pub root: Rc<Root>,
    /// Its mount name space, if that is not the first one; its UTS and user name spaces likewise.
    pub space: Option<Rc<Space>>,
    pub host: Option<Rc<Host>>,
    pub user: Above,
    pub ipc: Option<Rc<IpcSpace>>,
    pub cgroups: Option<Rc<CgroupSpace>>,
    /// Its PID name space, and that of its children.
    pub pids: Pids,
    pub child_pids: Pids,
    /// The parent waits in vfork.
    pub vfork_parent: bool,
    /// `vm` is to be told of its limits when it has its own memory.
    pub limits_wait: bool,
    /// Its group ([`crate::cgroups`]), and its neighbours in the group's list.
    pub cgroup: u32,
    pub cgroup_links: (Slot, Slot),
    /// Processor time that its group has been told of; it does not run for its group's sake; what its nice value is changed by.
    pub cgroup_seen: u64,
    pub halted: bool,
    pub shift: i32,

    /// What its first thread starts with; `nice` is that of all.
    pub scheduling: Scheduling,
    pub limits: Rc<Limits>,
    pub text: Rc<Text>,
    pub comm: [u8; 16],
    /// Interval timers and POSIX timers by their places ([`crate::timers`]); none before there is one.
    pub timers: Vec<Timer>,
    /// The first of the places of POSIX timers that are free, 0: none.
    pub free_timer: u32,
    pub posix_timers: u32,
    /// Timers of processor time.
    pub watch: Watch,
    /// CPU time when it ended, or in the domains that it had before; of waited-for children.
    pub cpu: u64,
    pub child_cpu: u64,
    /// Likewise.
    pub faults: Faults,
    pub child_faults: Faults,
    pub peak_pages: u64,
    pub child_peak_pages: u64,
    pub start: u64,
}

/// What a child has from its parent.
pub struct Inheritance {
    pub creds: Credentials,
    pub has_left_terminal: bool,
    pub dispositions: Dispositions,
    pub scheduling: Scheduling,
    pub limits: Rc<Limits>,
    pub text: Rc<Text>,
    pub comm: [u8; 16],
    pub dumpable: u32,
    pub no_new_privileges: bool,
    pub login: Login,
    pub oom: Oom,
    pub core_filter: u32,
    pub slack: Slack,
    pub root: Rc<Root>,
    pub cgroup: u32,
    pub space: Option<Rc<Space>>,
    pub host: Option<Rc<Host>>,
    pub user: Above,
    pub ipc: Option<Rc<IpcSpace>>,
    pub cgroups: Option<Rc<CgroupSpace>>,
    pub session_keys: Option<Rc<Session>>,
    pub pids: Pids,
}

impl Process {
    /// Neither free nor ended nor about to be.
    pub fn alive(&self) -> bool {
        self.used && self.ended.is_none() && !self.doomed
    }

    pub fn label(&self) -> u64 {
        // Capabilities in another user name space are nothing for servers.
        let capabilities = match self.creds.user_space {
            0 => self.creds.effective,
            _ => 0,
        };
        let label = label::with(self.creds.euid, self.creds.egid, capabilities);
        match self.cgroup {
            cgroups::ROOT => label,
            _ => label | label::GROUPED,
        }
    }

    /// Value of the badge by which its death is told.
    pub fn watch_badge(&self, slot: Slot) -> u64 {
        slot as u64 | (self.generation as u64) << 32
    }

    /// For a child that the thread `by` makes.
    pub fn bequeath(&self, by: Id) -> Inheritance {
        Inheritance {
            creds: self.creds,
            has_left_terminal: self.has_left_terminal,
            dispositions: self.dispositions,
            scheduling: self.scheduling_of(by).inherited(),
            limits: self.limits.clone(),
            text: self.text.clone(),
            comm: self.comm,
            dumpable: self.dumpable,
            no_new_privileges: self.no_new_privileges,
            login: self.login,
            oom: self.oom,
            core_filter: self.core_filter,
            slack: self.slack.inherited(),
            root: self.root.clone(),
            cgroup: self.cgroup,
            space: self.space.clone(),
            host: self.host.clone(),
            user: self.user.clone(),
            ipc: self.ipc.clone(),
            cgroups: self.cgroups.clone(),
            session_keys: self.session_keys.clone(),
            pids: self.child_pids.clone(),
        }
    }

    /// Begin a life with this inheritance, the `generation`th of all; the lists keep their memory, so that a fork allocates nothing.
    pub fn reset(&mut self, from: Inheritance, generation: u32) {
        self.used = true;
        self.generation = generation;
        self.ended = None;
        self.doomed = false;
        self.forks = false;
        self.domain = Domain::NONE;
        self.threads.clear();
        self.timers.clear();
        self.free_timer = 0;
        self.posix_timers = 0;
        self.watch = Watch::default();
        self.parent = NONE;
        self.first_child = NONE;
        self.last_child = NONE;
        self.next = NONE;
        self.previous = NONE;
        self.children = 0;
        self.has_many_children = false;
        self.zombies = 0;
        self.reports = 0;
        self.group = NONE;
        self.creds = from.creds;
        self.has_left_terminal = from.has_left_terminal;
        self.queue.discard(u64::MAX);
        self.dispositions = from.dispositions;
        self.stop_taken = false;
        self.stop_cancelled = false;
        self.stopped = None;
        self.frozen = false;
        self.traced = 0;
        self.tracer = Tracer::default();
        self.report = Report::Nothing;
        self.exit_signal = SIGCHLD;
        self.death_signal = 0;
        self.subreaper = false;
        self.executed = false;
        self.programs = 0;
        self.leaves_core = false;
        self.dumpable = from.dumpable;
        self.no_new_privileges = from.no_new_privileges;
        self.login = from.login;
        self.oom = from.oom;
        self.core_filter = from.core_filter;
        self.slack = from.slack;
        self.refused = 0;
        self.filtered = false;
        self.beginning = Beginning::Over;
        self.root = from.root;
        self.cgroup = from.cgroup;
        self.cgroup_links = (NONE, NONE);
        self.cgroup_seen = 0;
        self.halted = false;
        self.shift = 0;
        self.space = from.space;
        self.host = from.host;
        self.user = from.user;
        self.ipc = from.ipc;
        self.cgroups = from.cgroups;
        self.session_keys = from.session_keys;
        self.program_keys = None;
        self.child_pids = from.pids.clone();
        self.pids = from.pids;
        self.vfork_parent = false;
        self.limits_wait = false;
        self.scheduling = from.scheduling;
        self.limits = from.limits;
        self.text = from.text;
        self.comm = from.comm;
        self.cpu = 0;
        self.child_cpu = 0;
        self.faults = Faults::default();
        self.child_faults = Faults::default();
        self.peak_pages = 0;
        self.child_peak_pages = 0;
    }

    /// How the thread that the nucleus calls `id` is scheduled.
    pub fn scheduling_of(&self, id: Id) -> Scheduling {
        let thread = self.threads.iter().find(|t| t.id == id);
        thread.map_or(self.scheduling, |t| t.scheduling)
    }

    /// The thread that the nucleus calls `id`.
    pub fn thread(&mut self, id: Id) -> Option<&mut Thread> {
        let at = self.threads.place(id)?;
        self.threads.get_mut(at)
    }

    /// The name of the thread that the nucleus calls `id`; of none, the process's.
    pub fn comm_of(&self, id: Id) -> [u8; 16] {
        let thread = self.threads.place(id).map(|at| &self.threads[at]);
        let thread = thread.filter(|thread| thread.tid != self.pid);
        thread.map_or(self.comm, |thread| thread.comm)
    }

    /// The same by its number; none: it has no such thread.
    pub fn comm_by_tid(&mut self, tid: u64) -> Option<&mut [u8; 16]> {
        if tid == u64::from(self.pid) {
            return Some(&mut self.comm);
        }
        let thread = self.threads.iter_mut().find(|t| u64::from(t.tid) == tid)?;
        Some(&mut thread.comm)
    }

    /// `comm` from the last part of a path, at most 15 bytes.
    pub fn set_comm(&mut self, path: &[u8]) {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        let name = &name[..name.len().min(15)];
        self.comm = [0; 16];
        self.comm[..name.len()].copy_from_slice(name);
    }

    /// The information of a SIGCHLD about this process.
    pub fn child_info(&self, code: i32, status: u32) -> Info {
        Info {
            signal: SIGCHLD,
            code,
            sender: self.pid as u64 | (self.creds.ruid as u64) << 32,
            value: status as u64,
        }
    }
}
