//! Where the texts come from. [`crate::outside`] is the real thing.

use alloc::string::String;
use alloc::vec::Vec;
use cairn_abi::machine::Counters;
use cairn_idl::ipc::{Kind, Limits};
use cairn_idl::proc::{Related, SpaceKind, SpaceMap, Status};
use cairn_idl::vm::{MapEntry, Usage};

/// `proc::LOAD`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub processes: u64,
    pub forks: u64,
    pub running: u64,
    /// Load averages × 65536.
    pub averages: [u64; 3],
    pub last_pid: u64,
    /// Nanoseconds without a runnable thread.
    pub idle: u64,
}

/// `vm::MEMORY_STAT`, in frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub total: u64,
    pub free: u64,
    pub nucleus: u64,
    pub native: u64,
    pub programs: u64,
    pub archive: u64,
    /// In caches; among the native ones.
    pub cache: u64,
}

/// What file a mapping shows, as its maker says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// As st_dev has it.
    pub device: u64,
    pub inode: u64,
    /// Empty: it is not known.
    pub name: String,
}

/// The memory of a process, as long as that runs this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memories {
    pub life: u64,
    pub program: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Mount {
    /// Absolute path (or scheme) without trailing slash; the root is empty.
    pub prefix: String,
    pub fstype: String,
    /// `mounts::mount` bits.
    pub flags: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Processor {
    pub vendor: String,
    pub name: String,
    pub family: u32,
    pub model: u32,
    pub stepping: u32,
    pub megahertz: u64,
    pub flags: String,
    pub count: u64,
}

/// Of a thread: the mask of new files' modes, the cores that it may run on, the signals that it blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    pub umask: u32,
    pub cores: u64,
    pub blocked: u64,
}

pub trait System {
    /// Process numbers from `first` on, in order (some of them).
    /// As the process of the domain `reader` has them.
    fn pids(&mut self, first: u32, reader: u32) -> Vec<u32>;
    fn tids(&mut self, pid: u32, reader: u32) -> Vec<u32>;
    /// Of a process, as the one in the domain `reader` sees it; 0: as all servers do.
    /// Of a process, with the name of this thread of it.
    fn status(&mut self, pid: u32, tid: u32, reader: u32) -> Option<Status>;
    /// The process of this domain names a thread of the process `pid`.
    fn set_thread_name(&mut self, domain: u32, pid: u32, tid: u32, name: &[u8]) -> Result<(), i64>;
    /// What a number is called by the process in this domain (0: it has no name there); and whom that one calls so.
    fn number_for(&mut self, domain: u32, number: u32) -> u32;
    fn number_of(&mut self, domain: u32, number: u32) -> Option<u32>;
    /// The process that lives in this domain.
    fn pid_of(&mut self, domain: u32) -> Option<u32>;
    /// The same and its thread's number, of the one that the nucleus calls so.
    fn ids_of(&mut self, domain: u32, thread: u32) -> Option<(u32, u32)>;
    /// The process of this domain may look into the other one (`proc::PTRACE_ACCESS`).
    fn may_look_into(&mut self, domain: u32, pid: u32) -> bool;
    fn command_line(&mut self, pid: u32) -> Vec<u8>;
    fn executable(&mut self, pid: u32) -> Vec<u8>;
    /// The process of the domain `by` opens the memory of this one (`proc::MEMORY_OPEN`) → what names it; reads and writes it.
    fn open_memory(&mut self, by: u32, pid: u32) -> Result<Memories, i64>;
    fn read_memory(
        &mut self,
        by: u32,
        of: Memories,
        at: u64,
        into: &mut [u8],
    ) -> Result<usize, i64>;
    fn write_memory(&mut self, by: u32, of: Memories, at: u64, from: &[u8]) -> Result<usize, i64>;
    /// Descriptors of a process from `first` on, in order (some of them).
    fn descriptors(&mut self, pid: u32, first: u32) -> Vec<u32>;
    /// The call that a thread waits in (`proc::CALL_OF`); `None`: it runs.
    fn call(&mut self, by: u32, tid: u32) -> Result<Option<[u64; 9]>, i64>;
    /// As they are in the process's memory.
    fn environment(&mut self, pid: u32) -> Vec<u8>;
    fn auxiliary(&mut self, pid: u32) -> Vec<u8>;
    /// Soft and hard limit of a resource.
    fn limit(&mut self, pid: u32, resource: u64) -> Option<[u64; 2]>;
    /// The path of a process's group.
    fn cgroup(&mut self, pid: u32, reader: u32) -> Option<String>;
    fn maps(&mut self, domain: u32) -> Vec<MapEntry>;
    /// What the maker of an object says that this one of its objects shows.
    fn shown(&mut self, maker: u64, tag: u64) -> Option<Shown>;
    fn kept(&mut self, pid: u32, tid: u32) -> Option<Kept>;
    /// The process of this domain sets which memory a core file of the process `pid` has.
    fn set_core_filter(&mut self, domain: u32, pid: u32, filter: u32) -> Result<(), i64>;
    /// What the timers of the process `pid` may be late by, for the process of this domain, which says something else perhaps.
    fn timer_slack(&mut self, domain: u32, pid: u32, new: Option<u64>) -> Result<u64, i64>;
    /// What is in memory of a range of addresses, as far as one question tells.
    fn usage(&mut self, domain: u32, first: u64, end: u64) -> Option<Usage>;
    /// The number of the name space that a process is in (`proc::SPACE_ID`); it is kept, and let go; the process of this domain comes into it.
    fn space_id(&mut self, pid: u32, kind: SpaceKind) -> Option<u64>;
    fn hold_space(&mut self, pid: u32, kind: SpaceKind, id: u64) -> Result<(), i64>;
    /// What such a one, which is held, belongs to, as the process in this domain may know: a name space that is held from now on, or a user.
    fn related(&mut self, domain: u32, of: (SpaceKind, u64), which: Related) -> Result<u64, i64>;
    fn drop_space(&mut self, kind: SpaceKind, id: u64);
    fn enter_space(&mut self, domain: u32, kind: SpaceKind, id: u64) -> Result<(), i64>;
    /// What a file about a user name space says to the process of this domain; that process writes it.
    fn map_text(&mut self, domain: u32, pid: u32, which: SpaceMap) -> Result<Vec<u8>, i64>;
    fn set_map(&mut self, domain: u32, pid: u32, which: SpaceMap, text: &[u8]) -> Result<(), i64>;
    /// The process of this domain writes for whom the process `pid` was started at a login.
    fn set_login(&mut self, domain: u32, pid: u32, user: u32) -> Result<(), i64>;
    /// The process of this domain sets how likely the process `pid` is to end when memory is exhausted (`proc::SET_OOM`).
    fn set_oom(&mut self, domain: u32, pid: u32, adjust: i32, old: bool) -> Result<(), i64>;
    /// The last number is as the process in the domain `reader` has them (0: outside).
    fn load(&mut self, reader: u32) -> Load;
    fn memory(&mut self) -> Memory;
    /// What file servers have in their caches goes, as far as it can be had again.
    fn drop_caches(&mut self) -> Result<(), i64>;
    /// What the nucleus counted since boot.
    fn counters(&mut self) -> Counters;
    /// The prefix table: mounts and host name.
    fn mounts(&mut self, pid: u32) -> (Vec<Mount>, Vec<u8>);
    /// The lines of /proc/sysvipc.
    fn ipc_list(&mut self, kind: Kind) -> String;
    /// The lines of /proc/net/unix.
    fn local_table(&mut self) -> String;
    /// The lines of a file of /proc/net.
    fn net_table(&mut self, table: cairn_idl::net::Listing) -> String;
    fn ipc_limit(&mut self, which: Limits) -> Option<u64>;
    /// An error number if it cannot be so much.
    fn set_ipc_limit(&mut self, which: Limits, value: u64) -> Result<(), i64>;
    /// The lines of /proc/keys that the process of this domain may see (it reads with this label), or of /proc/key-users.
    fn key_list(&mut self, what: cairn_idl::keys::Listing, domain: u32, label: u64) -> String;
    fn key_limit(&mut self, which: cairn_idl::keys::Limits) -> Option<u64>;
    fn set_key_limit(&mut self, which: cairn_idl::keys::Limits, value: u64) -> Result<(), i64>;
    /// /proc/sys/fs/lease-break-time, in seconds.
    fn lease_time(&mut self) -> Option<u64>;
    fn set_lease_time(&mut self, seconds: u64) -> Result<(), i64>;
    /// Host (0) and domain name (1) as the process in this domain has them.
    fn host_text(&mut self, domain: u32, which: u64) -> Vec<u8>;
    fn set_host_text(&mut self, domain: u32, which: u64, name: &[u8]) -> Result<(), i64>;
    /// How core files are called (core(5)).
    fn core_pattern(&mut self) -> &mut String;
    fn processor(&mut self) -> Processor;
    /// `init`'s lines of all components (`components::LIST`), and the end of one that is started again.
    fn components(&mut self, which: u64) -> String;
    fn restart_component(&mut self, name: &[u8]) -> Result<(), i64>;
    /// Types of file systems that disks can be mounted with.
    fn disk_types(&self) -> Vec<String>;
    /// Command line of the boot.
    fn boot_line(&self) -> String;
    /// Nanoseconds since boot; since 1970.
    fn monotonic(&mut self) -> u64;
    fn realtime(&mut self) -> u64;
    fn random(&mut self) -> [u8; 16];
    /// The same for as long as the system runs.
    fn boot_id(&self) -> [u8; 16];
}
