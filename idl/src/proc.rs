//! The process manager. Callers are known by their domain; operations marked *system* need the portal with badge [`BADGE_SYSTEM`].
//!
//! Signals: `proc` queues and pokes; the personality takes ([`SIGNAL_TAKE`]), keeps what is blocked, builds frames, and carries out default actions by [`EXIT`] and [`STOP_SELF`].
//! SIGKILL, SIGSTOP and the continuing effect of SIGCONT are `proc`'s own. Linux's signal numbers everywhere.

pub const BADGE_CLIENT: u64 = 0;
pub const BADGE_SYSTEM: u64 = 1;

/// w1 child's rip, w2 rsp, w3 fs base, w4 gs base, w5 [`fork`] flags, w6 exit signal → w0 child's pid. The child's first thread starts at rip with rdi = its pid. With VFORK the reply comes when the child has exec'ed or ended.
pub const FORK: u64 = 1;
/// w1 rip, w2 rsp, w3 fs base, w4 gs base, w5 rdi → w0 tid, w1 nucleus thread id. The thread runs at once. A thread's tid is its nucleus id mapped by `proc`; the first thread's tid is the pid.
pub const THREAD_CREATE: u64 = 2;
/// w1 exit code. Never returns. The last one ends the process with that code.
pub const THREAD_EXIT: u64 = 3;
/// w1 wait status (code << 8, or signal | 0x80 core). Never returns.
pub const EXIT: u64 = 4;
/// exec, point of no return: other threads are killed, entries with CLOEXEC closed, the space reset except the personality's range (`vm::RESET`), a waiting vfork parent released, caught signals are the personality's business.
/// w1 length of the executable's path, w2 length of the command line, w3 set-id: euid | egid << 32 with w4 = 1;
/// w5 length of the name that was executed (a symbolic link's or script's own; 0 = the path), from which the process is named;
/// w6 start and w7 end of the part of the personality's heap that is kept (both 0 = all of it); out: path, then command line (NUL-separated), then the name. → 0.
pub const EXEC: u64 = 5;
/// w1 idtype (P_ALL 0, P_PID 1, P_PGID 2), w2 id, w3 options (WNOHANG 1, WUNTRACED/WSTOPPED 2, WEXITED 4, WCONTINUED 8, WNOWAIT 0x0100_0000); in: `struct rusage` (144 bytes) if it has room
/// → w0 pid (0 with WNOHANG and nothing), w1 wait status, w2 uid. Interruptible. ECHILD.
pub const WAIT: u64 = 6;
/// w1 pid as in kill(2) (0, −1, −pgid too), w2 signal (0 = check), w3 si_code and w4 si_value of sigqueue(3) (w3 negative, and one process only; 0 for kill), w5 1: a signal that
/// the calling thread would be poked for may come with the answer instead → w1 to w5 as SIGNAL_TAKE's w0 to w4 (w1 0: none).
pub const KILL: u64 = 7;
/// w1 tgid (−1 = any), w2 tid, w3 signal, w4 si_code, w5 si_value, w6 1: as KILL's w5.
pub const TGKILL: u64 = 8;
/// → w0 signal or 0, w1 si_code, w2 si_pid | si_uid << 32, w3 si_status or si_value, w4 bits: 1 = for this thread only, 2 = there are more. Signals for the process go to whichever thread takes them.
pub const SIGNAL_TAKE: u64 = 9;
/// w1 mask of signals with SIG_IGN or default-ignored ones with SIG_DFL (never poked for), w2 mask of caught signals, w3 bit 0: children become no zombies (SIGCHLD ignored or SA_NOCLDWAIT), bit 1: SA_NOCLDSTOP. (bit n−1 = signal n)
pub const SIGNAL_STATE: u64 = 10;
/// w1 signal: the default stop action. Returns after SIGCONT; EPERM-free: an orphaned process group is not stopped (returns at once).
pub const STOP_SELF: u64 = 11;
/// w1 pid or 0 → w0 pid, w1 ppid, w2 pgid, w3 sid, w4 controlling terminal's device number (0 none), w5 thread's tid (own process). With the system's portal w1 names any process.
pub const IDS: u64 = 12;
/// w1 pid or 0, w2 pgid or 0. EACCES after exec, EPERM, ESRCH.
pub const SETPGID: u64 = 13;
/// → w0 sid.
pub const SETSID: u64 = 14;
/// → in: [`Credentials`].
pub const GETCREDS: u64 = 15;
/// out: [`Credentials`] wished for; checked by the rules of setresuid/setresgid (setuid semantics are worked out by the caller). → 0 or −EPERM. The label follows.
pub const SETCREDS: u64 = 16;
/// w1 [`timer`] (only REAL = 0 is here), w2 value ns (0 stops), w3 interval ns → w1 old value left, w2 old interval. Sends SIGALRM.
pub const SETITIMER: u64 = 17;
/// → as SETITIMER, no change.
pub const GETITIMER: u64 = 18;
/// w1 who (0 self, −1 children, 1 thread), in: `struct rusage` → w1 user ns, w2 system ns (0), w3, w4 the same of waited-for children.
pub const RUSAGE: u64 = 19;
/// w1 which, w2 who → w0 20 − nice. / w1, w2, w3 nice.
pub const GETPRIORITY: u64 = 20;
pub const SETPRIORITY: u64 = 21;
/// w1 policy, w2 priority, w3 pid → 0. (sched_setscheduler: SCHED_FIFO 1 and SCHED_RR 2 for root.)
pub const SETSCHEDULER: u64 = 22;
/// w1 pid → w0 policy, w1 real-time priority.
pub const GETSCHEDULER: u64 = 23;
/// w1 index of the prefix table → w7 the mount portal.
pub const MOUNT_PORTAL: u64 = 24;
/// w1 prefix length, w2 fstype length; out: prefix, fstype; w7 (passed) mount portal → w0 index. *System*, or label 0.
pub const MOUNT: u64 = 25;
/// Out: prefix. *System*, or label 0.
pub const UNMOUNT: u64 = 26;
/// Out: name. Label 0.
pub const SETHOSTNAME: u64 = 27;
/// w1 0 = power off, 1 = restart, 2 = exit with code w2 (only in QEMU). Label 0.
pub const POWER: u64 = 28;
/// w1 resource, w2 pid or 0, w3 1 = set: out/in: two u64 (soft, hard).
pub const PRLIMIT: u64 = 29;
/// POSIX timers: w1 0 create (w2 signal, w3 si_value → w0 id), 1 set (w2 id, w3 value ns absolute monotonic or 0, w4 interval ns → w1 left, w2 interval), 2 get, 3 delete, 4 overrun.
pub const TIMER: u64 = 30;
/// Shared futex (between processes): w1 0 wait / 1 wake, w2 key (memory object and offset), w3 count → woken. Wait: w4 the number of wakes ([`FUTEX_WAKES`]) before the caller looked at
/// the word, w5 1 (0: it did not look), w6 absolute monotonic deadline (0 = none; ETIMEDOUT) → 0 woken, 1 there was a wake since: look at the word again. Interruptible.
pub const FUTEX: u64 = 31;
/// Address (in the page of the prefix table) of a u64: how many wakes of shared futexes there have been.
pub const FUTEX_WAKES: u64 = cairn_abi::layout::PREFIX_TABLE + cairn_abi::layout::PAGE - 8;
/// w1 option, w2.. : PR_SET_NAME (15: out part), PR_SET_PDEATHSIG (1), PR_SET_CHILD_SUBREAPER (36), … → w0 as prctl(2), w1 what it would store through a pointer
/// (PR_GET_PDEATHSIG, PR_GET_CHILD_SUBREAPER). PR_GET_NAME: in part of 16 bytes.
pub const PRCTL: u64 = 32;

/// *System.* w1 domain id → w0 pid, w1 pgid, w2 sid, w3 controlling terminal, w4 bits: 1 = SIGTTIN ignored or blocked, 2 = SIGTTOU ignored, 4 = process group is orphaned, 8 = is session leader.
pub const IDS_OF: u64 = 64;
/// *System.* w1 pgid, w2 signal → 0 or −ESRCH.
pub const SIGNAL_GROUP: u64 = 65;
/// *System.* w1 sid, w2 device number (0 = takes it away), w7 (passed) portal notified with value 1 when the session leader ends → 0. EPERM if the session has another.
pub const SET_TERMINAL: u64 = 66;
/// *System.* w1 domain id; in: u32 group ids → w0 count. (Supplementary groups.)
pub const GROUPS_OF: u64 = 67;
/// w1 first pid; in: u32 pids ≥ it in order → w0 count.
pub const PIDS: u64 = 68;
/// w1 pid; in: [`Status`].
pub const STATUS: u64 = 69;
/// w1 pid, w2 0 command line, 1 executable's path; in: bytes → w0 length.
pub const TEXT: u64 = 70;
/// → w0 processes, w1 forks since boot, w2 running, w3 1-minute load × 65536, w4 5, w5 15, w6 last pid, w7 ns without a runnable thread since boot (0 = not known).
pub const LOAD: u64 = 71;
/// *System.* (init) Start the first process: w1 length of path, out: path, NUL, arguments and environment as NUL-terminated strings, w2 argc, w3 envc; opens the executable through the root prefix in the personality itself. → w0 pid.
pub const START: u64 = 72;
/// *System.* w1 session (or a process of it), w2 foreground process group of its terminal: kept for STATUS only.
pub const NOTE_FOREGROUND: u64 = 73;
/// In: the prefix table as published, [`crate::fs::PrefixTable`] and its `count` [`crate::fs::Prefix`] entries → w0 bytes written. (/proc/mounts, host name)
pub const PREFIXES: u64 = 74;
/// w1 pid; in: u32 tids in order → w0 count.
pub const TIDS: u64 = 75;

pub mod fork {
    /// The child shares the space and the parent waits until it execs or ends.
    pub const VFORK: u64 = 1;
    /// The child shares the space without waiting (CLONE_VM without CLONE_THREAD).
    pub const SHARE: u64 = 2;
    /// The child's parent is the caller's parent (CLONE_PARENT).
    pub const PARENT: u64 = 4;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Credentials {
    pub ruid: u32,
    pub euid: u32,
    pub suid: u32,
    pub rgid: u32,
    pub egid: u32,
    pub sgid: u32,
    pub group_count: u32,
    pub groups: [u32; 32],
}

/// What ps and top want to know of a process.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Status {
    pub pid: u32,
    pub ppid: u32,
    pub pgid: u32,
    pub sid: u32,
    pub terminal: u32,
    pub foreground: u32,
    /// ASCII R S D T Z.
    pub state: u32,
    pub threads: u32,
    pub comm: [u8; 16],
    pub creds: Credentials,
    pub nice: i32,
    /// CPU ns of the process and of waited-for children.
    pub cpu: u64,
    pub child_cpu: u64,
    /// Monotonic ns at start.
    pub start: u64,
    pub resident_pages: u64,
    pub virtual_pages: u64,
    pub shared_pages: u64,
    pub ignored: u64,
    pub caught: u64,
    pub pending: u64,
    /// Nucleus domain id, for `vm::MAPS`.
    pub domain: u32,
    pub exit_signal: u32,
}
