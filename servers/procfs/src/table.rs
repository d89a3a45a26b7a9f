//! The tree below /proc: a row per name.

use crate::system::System;
use crate::{components, ipc, keys, machine, memory, net, process};
use alloc::string::String;
use cairn_idl::fs::s;
use cairn_idl::ipc::Limits;
use cairn_idl::keys::{Limits as KeyLimits, Listing};
use cairn_idl::proc::{SpaceKind, SpaceMap};
use core::fmt::Write;

/// The name of a file of /proc/sys/vm.
pub const DROP_CACHES: &str = "drop_caches";

/// How long a lease lasts at most once it is to go (fcntl F_SETLEASE).
pub const LEASE_TIME: &str = "lease-break-time";

/// A file of a process that it may write itself.
pub const LOGIN_USER: &str = "loginuid";

/// The name of a thread.
pub const COMM: &str = "comm";

/// Which memory a core file has.
pub const CORE_FILTER: &str = "coredump_filter";

/// How likely a process is to end when memory is exhausted, in the present and in the old scale.
pub const OOM: &str = "oom_score_adj";
pub const OLD_OOM: &str = "oom_adj";

/// What a process's timers may be late by.
pub const SLACK: &str = "timerslack_ns";

/// A directory. Process and task directories exist for each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dir {
    Root,
    Process,
    Tasks,
    /// A thread: as its process, without further threads.
    Task,
    Descriptors,
    Fdinfo,
    Net,
    Tty,
    Sys,
    Kernel,
    Random,
    Sysvipc,
    Keys,
    Inotify,
    Vm,
    Fs,
    Mqueue,
    SysNet,
    Ipv4,
    Ipv6,
    Unix,
    Conf6,
    All6,
    Core,
    Spaces,
    Cairn,
}

/// Whom a text is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    pub pid: u32,
    pub tid: u32,
    /// The thread asks about itself: so it runs, although it waits for the answer.
    pub asks: bool,
    /// The domain of who reads, and its label.
    pub reader: u32,
    pub label: u64,
}

/// Writes a text; `None` if the process is gone.
pub type Writer<S> = fn(&mut S, Who, &mut String) -> Option<()>;

pub enum What<S> {
    Dir(Dir),
    Text(Writer<S>),
    /// The same always.
    Fixed(&'static str),
    /// Text that is bytes, not characters.
    Bytes(fn(&mut S, Who) -> alloc::vec::Vec<u8>),
    /// A file of another server, under this name.
    Elsewhere(&'static str),
    /// The memory of a process.
    Memory,
    /// The call that a thread waits in.
    Call,
    /// What its reader gathers from the file servers, and calls so.
    Gathered(&'static str),
    /// The working directory of a process, a link that its readers follow themselves.
    Cwd,
    /// The name space of a kind: a link to a file that names it.
    Space(SpaceKind),
    /// Of the user name space: the reader's view of it.
    Map(SpaceMap),
    /// What the process's timers may be late by.
    Slack,
    /// A symbolic link; `None`: does not lead anywhere.
    Link(fn(&mut S, Who) -> Option<alloc::vec::Vec<u8>>),
}

impl<S> What<S> {
    /// Nothing about it can fail at the open: as on Linux, what is read first is of then.
    pub fn is_made_when_read(&self) -> bool {
        matches!(self, What::Text(_) | What::Fixed(_) | What::Bytes(_))
    }
}

pub struct Row<S> {
    pub dir: Dir,
    pub name: &'static str,
    pub mode: u32,
    pub what: What<S>,
    /// Only for who may look into the process (`proc::PTRACE_ACCESS`).
    pub guarded: bool,
}

const fn dir<S>(dir: Dir, name: &'static str, is: Dir) -> Row<S> {
    Row {
        dir,
        name,
        mode: s::IFDIR | 0o555,
        what: What::Dir(is),
        guarded: false,
    }
}

const fn text<S>(dir: Dir, name: &'static str, writer: Writer<S>) -> Row<S> {
    Row {
        dir,
        name,
        mode: s::IFREG | 0o444,
        what: What::Text(writer),
        guarded: false,
    }
}

const fn fixed<S>(dir: Dir, name: &'static str, text: &'static str) -> Row<S> {
    Row {
        dir,
        name,
        mode: s::IFREG | 0o444,
        what: What::Fixed(text),
        guarded: false,
    }
}

const fn link<S>(
    dir: Dir,
    name: &'static str,
    target: fn(&mut S, Who) -> Option<alloc::vec::Vec<u8>>,
) -> Row<S> {
    Row {
        dir,
        name,
        mode: s::IFLNK | 0o777,
        what: What::Link(target),
        guarded: false,
    }
}

const fn space<S>(name: &'static str, kind: SpaceKind) -> Row<S> {
    Row {
        dir: Dir::Spaces,
        name,
        mode: s::IFLNK | 0o777,
        what: What::Space(kind),
        guarded: true,
    }
}

const fn map<S>(name: &'static str, which: SpaceMap) -> Row<S> {
    Row {
        dir: Dir::Process,
        name,
        mode: s::IFREG | 0o644,
        what: What::Map(which),
        guarded: false,
    }
}

const fn bytes<S>(
    dir: Dir,
    name: &'static str,
    writer: fn(&mut S, Who) -> alloc::vec::Vec<u8>,
) -> Row<S> {
    Row {
        dir,
        name,
        mode: s::IFREG | 0o444,
        what: What::Bytes(writer),
        guarded: false,
    }
}

const fn of<S>(dir: Dir, name: &'static str, what: What<S>) -> Row<S> {
    Row {
        dir,
        name,
        mode: s::IFREG | 0o444,
        what,
        guarded: false,
    }
}

/// Not for strangers.
const fn guarded<S>(row: Row<S>) -> Row<S> {
    Row {
        guarded: true,
        ..row
    }
}

/// Not for strangers, and for nobody but its owner to open.
const fn private<S>(row: Row<S>) -> Row<S> {
    Row {
        mode: s::IFREG | 0o400,
        guarded: true,
        ..row
    }
}

/// What user 0 may change.
const fn writable<S>(row: Row<S>) -> Row<S> {
    Row {
        mode: s::IFREG | 0o644,
        ..row
    }
}

/// Linux's configuration values that programs ask for. All rows of the tree.
pub fn rows<S: System>() -> alloc::vec::Vec<Row<S>> {
    use Dir::*;
    [
        // Whoever asks; `who` is the asking process for these two.
        link(Root, "self", process::own_link),
        link(Root, "thread-self", process::own_thread_link),
        link(Root, "mounts", |_, _| Some(b"self/mounts".to_vec())),
        fixed(Root, "buddyinfo", ""),
        text(Root, "cmdline", machine::boot_line),
        fixed(
            Root,
            "cgroups",
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t1\t1\npids\t0\t1\t1\n",
        ),
        fixed(
            Root,
            "consoles",
            "ttyS0                -W- (EC   a)    4:64\n",
        ),
        text(Root, "cpuinfo", machine::cpuinfo),
        fixed(Root, "devices", machine::DEVICES),
        Row {
            dir: Root,
            name: "diskstats",
            mode: s::IFREG | 0o444,
            what: What::Elsewhere("sys:diskstats"),
            guarded: false,
        },
        text(Root, "filesystems", machine::filesystems),
        text(Root, "interrupts", machine::interrupts),
        text(Root, "loadavg", machine::loadavg),
        of(Root, "locks", What::Gathered("locks")),
        text(Root, "meminfo", machine::meminfo),
        fixed(Root, "modules", ""),
        text(Root, "nucleus", machine::nucleus),
        Row {
            dir: Root,
            name: "partitions",
            mode: s::IFREG | 0o444,
            what: What::Elsewhere("sys:partitions"),
            guarded: false,
        },
        text(Root, "stat", machine::stat),
        fixed(
            Root,
            "swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
        ),
        text(Root, "uptime", machine::uptime),
        fixed(Root, "version", machine::VERSION),
        text(Root, "vmstat", machine::vmstat),
        dir(Root, "cairn", Cairn),
        text(Cairn, "components", components::states),
        text(Cairn, "portals", components::portals),
        Row {
            mode: s::IFREG | 0o200,
            ..fixed(Cairn, components::RESTART, "")
        },
        dir(Root, "net", Net),
        dir(Process, "net", Net),
        dir(Root, "tty", Tty),
        fixed(Tty, "drivers", machine::TERMINALS),
        fixed(Tty, "ldiscs", "n_tty       0\n"),
        fixed(Root, "execdomains", "0-0\tLinux           \t[kernel]\n"),
        fixed(Root, "misc", "237 loop-control\n200 tun\n"),
        dir(Root, "sys", Sys),
        fixed(
            Net,
            "arp",
            "IP address       HW type     Flags       HW address            Mask     Device\n",
        ),
        text(Net, "dev", net::devices),
        text(Net, "dev_mcast", net::hardware_groups),
        Row {
            mode: s::IFDIR | 0o555,
            ..of(Net, "filter", What::Elsewhere("filter:filter"))
        },
        text(Net, "if_inet6", net::addresses6),
        text(Net, "igmp", net::groups),
        text(Net, "igmp6", net::groups6),
        text(Net, "mcfilter", net::filters),
        text(Net, "mcfilter6", net::filters6),
        text(Net, "packet", net::packet),
        text(Net, "raw", net::raw),
        text(Net, "raw6", net::raw6),
        text(Net, "route", net::routes),
        text(Net, "tcp", net::tcp),
        text(Net, "tcp6", net::tcp6),
        text(Net, "udp", net::udp),
        text(Net, "udp6", net::udp6),
        text(Net, "udplite", net::udplite),
        text(Net, "udplite6", net::udplite6),
        text(Net, "unix", net::unix),
        dir(Sys, "fs", Fs),
        dir(Sys, "kernel", Kernel),
        dir(Sys, "net", SysNet),
        dir(Sys, "vm", Vm),
        dir(SysNet, "core", Core),
        dir(SysNet, "ipv4", Ipv4),
        dir(SysNet, "ipv6", Ipv6),
        dir(SysNet, "unix", Unix),
        fixed(Unix, "max_dgram_qlen", "10\n"),
        dir(Ipv6, "conf", Conf6),
        dir(Conf6, "all", All6),
        of(Ipv4, "ip_forward", What::Elsewhere("net:ip_forward")),
        fixed(All6, "disable_ipv6", "0\n"),
        of(All6, "forwarding", What::Elsewhere("net:forwarding")),
        fixed(Core, "netdev_max_backlog", "1000\n"),
        fixed(Core, "optmem_max", "20480\n"),
        fixed(Core, "rmem_default", "212992\n"),
        fixed(Core, "rmem_max", "212992\n"),
        fixed(Core, "somaxconn", "4096\n"),
        fixed(Core, "wmem_default", "212992\n"),
        fixed(Core, "wmem_max", "212992\n"),
        fixed(Ipv4, "icmp_echo_ignore_all", "0\n"),
        fixed(Ipv4, "icmp_echo_ignore_broadcasts", "1\n"),
        fixed(Ipv4, "igmp_max_memberships", "20\n"),
        fixed(Ipv4, "igmp_max_msf", "10\n"),
        fixed(Ipv4, "igmp_qrv", "2\n"),
        fixed(Ipv4, "ip_default_ttl", "64\n"),
        fixed(Ipv4, "ip_local_port_range", "32768\t60999\n"),
        fixed(Ipv4, "ip_local_reserved_ports", "\n"),
        fixed(Ipv4, "ip_no_pmtu_disc", "0\n"),
        fixed(Ipv4, "ip_nonlocal_bind", "0\n"),
        fixed(Ipv4, "ip_unprivileged_port_start", "1024\n"),
        fixed(Ipv4, "ping_group_range", "0\t2147483647\n"),
        fixed(Ipv4, "tcp_allowed_congestion_control", "reno cubic\n"),
        fixed(Ipv4, "tcp_available_congestion_control", "reno cubic\n"),
        fixed(Ipv4, "tcp_congestion_control", "cubic\n"),
        fixed(Ipv4, "tcp_dsack", "1\n"),
        fixed(Ipv4, "tcp_ecn", "2\n"),
        fixed(Ipv4, "tcp_fastopen", "0\n"),
        fixed(Ipv4, "tcp_fin_timeout", "60\n"),
        fixed(Ipv4, "tcp_keepalive_intvl", "75\n"),
        fixed(Ipv4, "tcp_keepalive_probes", "9\n"),
        fixed(Ipv4, "tcp_keepalive_time", "7200\n"),
        fixed(Ipv4, "tcp_max_syn_backlog", "512\n"),
        fixed(Ipv4, "tcp_moderate_rcvbuf", "1\n"),
        fixed(Ipv4, "tcp_recovery", "1\n"),
        fixed(Ipv4, "tcp_retries1", "3\n"),
        fixed(Ipv4, "tcp_retries2", "15\n"),
        fixed(Ipv4, "tcp_rmem", "4096\t131072\t6291456\n"),
        fixed(Ipv4, "tcp_sack", "1\n"),
        fixed(Ipv4, "tcp_slow_start_after_idle", "1\n"),
        fixed(Ipv4, "tcp_syn_retries", "6\n"),
        fixed(Ipv4, "tcp_synack_retries", "5\n"),
        fixed(Ipv4, "tcp_syncookies", "1\n"),
        fixed(Ipv4, "tcp_timestamps", "1\n"),
        fixed(Ipv4, "tcp_window_scaling", "1\n"),
        fixed(Ipv4, "tcp_wmem", "4096\t16384\t4194304\n"),
        fixed(Ipv4, "udp_rmem_min", "4096\n"),
        fixed(Ipv4, "udp_wmem_min", "4096\n"),
        fixed(Ipv6, "bindv6only", "0\n"),
        fixed(Ipv6, "ip_nonlocal_bind", "0\n"),
        fixed(Ipv6, "mld_max_msf", "64\n"),
        fixed(Ipv6, "mld_qrv", "2\n"),
        fixed(Fs, "aio-max-nr", "65536\n"),
        fixed(Fs, "file-max", "9223372036854775807\n"),
        text(Fs, "file-nr", machine::file_nr),
        dir(Fs, "inotify", Inotify),
        fixed(Inotify, "max_queued_events", "16384\n"),
        fixed(Inotify, "max_user_instances", "128\n"),
        fixed(Inotify, "max_user_watches", "65536\n"),
        writable(text(Fs, LEASE_TIME, |s: &mut S, _, to| {
            writeln!(to, "{}", s.lease_time()?).ok()
        })),
        fixed(Fs, "leases-enable", "1\n"),
        fixed(Fs, "nr_open", "1048576\n"),
        fixed(Fs, "pipe-max-size", "1048576\n"),
        fixed(Fs, "pipe-user-pages-hard", "0\n"),
        fixed(Fs, "pipe-user-pages-soft", "16384\n"),
        fixed(Fs, "suid_dumpable", "0\n"),
        Row {
            mode: s::IFREG | 0o200,
            ..fixed(Vm, DROP_CACHES, "")
        },
        fixed(Vm, "max_map_count", "65530\n"),
        fixed(Vm, "mmap_min_addr", "65536\n"),
        fixed(Vm, "oom_kill_allocating_task", "0\n"),
        fixed(Vm, "panic_on_oom", "0\n"),
        fixed(Vm, "overcommit_memory", "0\n"),
        fixed(Vm, "swappiness", "60\n"),
        fixed(Kernel, "cap_last_cap", "40\n"),
        writable(text(Kernel, "hostname", machine::host_name)),
        writable(text(Kernel, "domainname", machine::domain_name)),
        writable(text(Kernel, "core_pattern", |s: &mut S, _, to| {
            to.push_str(s.core_pattern());
            to.push('\n');
            Some(())
        })),
        writable(text(Kernel, "msgmax", |s, _, to| {
            ipc::limits(s, &[Limits::Msgmax], to)
        })),
        writable(text(Kernel, "msgmnb", |s, _, to| {
            ipc::limits(s, &[Limits::Msgmnb], to)
        })),
        writable(text(Kernel, "msgmni", |s, _, to| {
            ipc::limits(s, &[Limits::Msgmni], to)
        })),
        writable(text(Kernel, "msg_next_id", |s, _, to| {
            ipc::limits(s, &[Limits::MsgNextId], to)
        })),
        writable(text(Kernel, "sem_next_id", |s, _, to| {
            ipc::limits(s, &[Limits::SemNextId], to)
        })),
        writable(text(Kernel, "shm_next_id", |s, _, to| {
            ipc::limits(s, &[Limits::ShmNextId], to)
        })),
        writable(text(Kernel, "sem", |s, _, to| {
            ipc::limits(s, &ipc::SEM, to)
        })),
        writable(text(Kernel, "shmall", |s, _, to| {
            ipc::limits(s, &[Limits::Shmall], to)
        })),
        writable(text(Kernel, "shmmax", |s, _, to| {
            ipc::limits(s, &[Limits::Shmmax], to)
        })),
        writable(text(Kernel, "shmmni", |s, _, to| {
            ipc::limits(s, &[Limits::Shmmni], to)
        })),
        dir(Fs, "mqueue", Mqueue),
        writable(text(Mqueue, "msg_default", |s, _, to| {
            ipc::limits(s, &[Limits::MqMsgDefault], to)
        })),
        writable(text(Mqueue, "msg_max", |s, _, to| {
            ipc::limits(s, &[Limits::MqMsgMax], to)
        })),
        writable(text(Mqueue, "msgsize_default", |s, _, to| {
            ipc::limits(s, &[Limits::MqMsgsizeDefault], to)
        })),
        writable(text(Mqueue, "msgsize_max", |s, _, to| {
            ipc::limits(s, &[Limits::MqMsgsizeMax], to)
        })),
        writable(text(Mqueue, "queues_max", |s, _, to| {
            ipc::limits(s, &[Limits::MqQueuesMax], to)
        })),
        fixed(Kernel, "core_uses_pid", "0\n"),
        fixed(Kernel, "sched_rr_timeslice_ms", "100\n"),
        fixed(Kernel, "sched_rt_period_us", "1000000\n"),
        fixed(Kernel, "sched_rt_runtime_us", "-1\n"),
        fixed(Kernel, "shm_rmid_forced", "0\n"),
        fixed(Kernel, "tainted", "0\n"),
        text(Root, "keys", |s, who, to| {
            keys::list(s, who, Listing::Keys, to)
        }),
        text(Root, "key-users", |s, who, to| {
            keys::list(s, who, Listing::Users, to)
        }),
        dir(Kernel, "keys", Keys),
        writable(text(Keys, "gc_delay", |s, _, to| {
            keys::limit(s, KeyLimits::GcDelay, to)
        })),
        writable(text(Keys, "maxbytes", |s, _, to| {
            keys::limit(s, KeyLimits::Maxbytes, to)
        })),
        writable(text(Keys, "maxkeys", |s, _, to| {
            keys::limit(s, KeyLimits::Maxkeys, to)
        })),
        writable(text(Keys, "persistent_keyring_expiry", |s, _, to| {
            keys::limit(s, KeyLimits::PersistentExpiry, to)
        })),
        writable(text(Keys, "root_maxbytes", |s, _, to| {
            keys::limit(s, KeyLimits::RootMaxbytes, to)
        })),
        writable(text(Keys, "root_maxkeys", |s, _, to| {
            keys::limit(s, KeyLimits::RootMaxkeys, to)
        })),
        dir(Root, "sysvipc", Sysvipc),
        text(Sysvipc, "msg", |s, who, to| ipc::list(s, who, ipc::MSG, to)),
        text(Sysvipc, "sem", |s, who, to| {
            ipc::list(s, who, ipc::SEMAPHORES, to)
        }),
        text(Sysvipc, "shm", |s, who, to| ipc::list(s, who, ipc::SHM, to)),
        fixed(Kernel, "ngroups_max", "65536\n"),
        fixed(Kernel, "osrelease", machine::RELEASE_LINE),
        fixed(Kernel, "ostype", "Linux\n"),
        fixed(Kernel, "overflowuid", "65534\n"),
        fixed(Kernel, "overflowgid", "65534\n"),
        fixed(Kernel, "pid_max", "32768\n"),
        fixed(Kernel, "printk", "4\t4\t1\t7\n"),
        fixed(Kernel, "randomize_va_space", "0\n"),
        fixed(Kernel, "threads-max", "32768\n"),
        fixed(Kernel, "version", machine::BUILD_LINE),
        dir(Kernel, "random", Random),
        text(Random, "boot_id", machine::boot_id),
        fixed(Random, "entropy_avail", "256\n"),
        fixed(Random, "poolsize", "256\n"),
        text(Random, "uuid", machine::uuid),
        text(Process, "cgroup", process::cgroup),
        bytes(Process, "cmdline", process::command_line),
        writable(text(Process, COMM, process::comm)),
        writable(text(Process, CORE_FILTER, process::core_filter)),
        private(bytes(Process, "auxv", |s: &mut S, who| {
            s.auxiliary(who.pid)
        })),
        private(bytes(Process, "environ", |s: &mut S, who| {
            s.environment(who.pid)
        })),
        guarded(link(Process, "exe", process::executable)),
        text(Process, "limits", process::limits),
        writable(text(Process, LOGIN_USER, process::login_user)),
        guarded(text(Process, "maps", memory::maps)),
        text(Process, "mountinfo", machine::mountinfo),
        text(Process, "mounts", machine::mounts),
        Row {
            mode: s::IFREG | 0o400,
            ..text(Process, "mountstats", machine::mountstats)
        },
        // (No group has processors of its own.)
        fixed(Process, "cpuset", "/\n"),
        writable(text(Process, OLD_OOM, process::oom_old)),
        text(Process, "oom_score", process::oom_score),
        writable(text(Process, OOM, process::oom_adjust)),
        Row {
            mode: s::IFREG | 0o400,
            ..fixed(Process, "personality", "00000000\n")
        },
        guarded(link(Process, "root", |_, _| Some(b"/".to_vec()))),
        text(Process, "schedstat", process::schedstat),
        text(Process, "sessionid", process::login_session),
        guarded(text(Process, "smaps", memory::smaps)),
        guarded(text(Process, "smaps_rollup", memory::smaps_rollup)),
        text(Process, "stat", process::stat),
        text(Process, "statm", process::statm),
        text(Process, "status", process::status),
        Row {
            mode: s::IFREG | 0o600,
            ..guarded(of(Process, "mem", What::Memory))
        },
        private(of(Process, "syscall", What::Call)),
        Row {
            mode: s::IFREG | 0o666,
            ..of(Process, SLACK, What::Slack)
        },
        fixed(Process, "wchan", "0"),
        map("uid_map", SpaceMap::Users),
        map("gid_map", SpaceMap::Groups),
        map("setgroups", SpaceMap::Setgroups),
        Row {
            mode: s::IFDIR | 0o511,
            ..dir(Process, "ns", Spaces)
        },
        space("cgroup", SpaceKind::Cgroup),
        space("ipc", SpaceKind::Ipc),
        space("mnt", SpaceKind::Mount),
        space("net", SpaceKind::Network),
        space("pid", SpaceKind::Processes),
        space("pid_for_children", SpaceKind::Processes),
        space("user", SpaceKind::User),
        space("uts", SpaceKind::Host),
        Row {
            mode: s::IFDIR | 0o500,
            ..dir(Process, "fd", Descriptors)
        },
        dir(Process, "fdinfo", Fdinfo),
        Row {
            mode: s::IFLNK | 0o777,
            ..guarded(of(Process, "cwd", What::Cwd))
        },
        dir(Process, "task", Tasks),
    ]
    .into()
}
