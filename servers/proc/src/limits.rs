//! Resource limits (prlimit). Kept here and inherited; CPU, NPROC and SIGPENDING (of timers) are enforced here, the others where the resource is: AS, DATA and MEMLOCK by `vm`.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::{Beginning, Process};
use crate::system::{Errno, SpaceLimits, System};
use crate::table::Slot;
use alloc::rc::Rc;
use cairn_abi::layout::PAGE;
use cairn_abi::Id;
use cairn_idl::capability::{IPC_LOCK, SYS_ADMIN, SYS_RESOURCE};
use cairn_idl::errno::{EFAULT, EINVAL, EPERM, ESRCH};
use cairn_rt::Received;

pub const CPU: usize = 0;
pub const FSIZE: usize = 1;
pub const NPROC: usize = 6;
const DATA: usize = 2;
const STACK: usize = 3;
const CORE: usize = 4;
pub const NOFILE: usize = 7;
const MEMLOCK: usize = 8;
const AS: usize = 9;
pub const SIGPENDING: usize = 11;
const MSGQUEUE: usize = 12;
const NICE: usize = 13;
const RTPRIO: usize = 14;
const COUNT: usize = 16;

/// Memory of the machine for each task that a user may have, as on Linux: 16 KiB of stack, an eighth of memory for all, half of them for a user.
const PAGES_OF_A_TASK: u64 = 64;
const TASKS_LEAST: u64 = 10;

const INFINITY: u64 = u64::MAX;
const MEMLOCK_USUAL: u64 = 8 << 20;

/// Soft and hard limit of each resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits([(u64, u64); COUNT]);

impl Default for Limits {
    /// As a Debian system starts, but for the hard limit of open files: a portal table ends at 8192 entries.
    fn default() -> Self {
        let mut limits = [(INFINITY, INFINITY); COUNT];
        limits[STACK] = (8 << 20, INFINITY);
        limits[CORE] = (0, INFINITY);
        limits[NPROC] = (4096, 4096);
        limits[NOFILE] = (1024, 4096);
        limits[MEMLOCK] = (MEMLOCK_USUAL, MEMLOCK_USUAL);
        limits[SIGPENDING] = (4096, 4096);
        limits[MSGQUEUE] = (819_200, 819_200);
        limits[NICE] = (0, 0);
        limits[RTPRIO] = (0, 0);
        Limits(limits)
    }
}

impl Limits {
    pub fn soft(&self, resource: usize) -> u64 {
        self.0[resource].0
    }

    pub fn hard(&self, resource: usize) -> u64 {
        self.0[resource].1
    }

    /// As the first process of a machine with so much memory has them: half as many processes and queued signals as threads would fill an eighth of memory, as on Linux.
    pub fn of_machine(pages: u64) -> Limits {
        let mut limits = Limits::default();
        let tasks = (pages / PAGES_OF_A_TASK).max(TASKS_LEAST);
        for resource in [NPROC, SIGPENDING] {
            limits.0[resource] = (tasks, tasks);
        }
        limits
    }
}

/// What `vm` holds a process's space to.
/// Of a process without privilege, as the system starts.
const USUAL: SpaceLimits = SpaceLimits {
    pages: 0,
    data: INFINITY,
    lock: MEMLOCK_USUAL,
};

fn space_limits(process: &Process) -> SpaceLimits {
    let soft = |resource| process.limits.soft(resource);
    SpaceLimits {
        pages: match soft(AS) {
            INFINITY => 0,
            bytes => (bytes / PAGE).max(1),
        },
        data: match soft(DATA) {
            INFINITY => INFINITY,
            bytes => bytes / PAGE,
        },
        lock: match process.creds.has(IPC_LOCK) {
            true => INFINITY,
            false => soft(MEMLOCK),
        },
    }
}

impl<S: System> Manager<S> {
    /// FILES_LIMIT_OF
    pub(crate) fn files_limit_of(&self, domain: u64) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let process = &self.processes[slot];
        let most = match process.creds.has(SYS_RESOURCE) || process.creds.has(SYS_ADMIN) {
            true => INFINITY,
            false => process.limits.soft(NOFILE),
        };
        Ok(Outcome::words(&[0, most]))
    }

    /// Tell `vm` what the space of a process may have. One that has its parent's memory (vfork), or is not yet its program's, is told of later.
    pub(crate) fn limit_memory(&mut self, slot: Slot) {
        let process = &mut self.processes[slot];
        if process.vfork_parent || process.beginning != Beginning::Over {
            process.limits_wait = true;
            return;
        }
        process.limits_wait = false;
        let (domain, limits) = (process.domain.id, space_limits(process));
        self.system.limit_space(domain, limits);
    }

    /// The process has a space of its own.
    pub(crate) fn limit_new_memory(&mut self, slot: Slot) {
        if self.processes[slot].limits_wait {
            self.limit_memory(slot);
        }
    }

    /// Its capabilities have changed: perhaps what it may lock.
    pub(crate) fn follow_lock_right(&mut self, slot: Slot, had: bool) {
        if self.processes[slot].creds.has(IPC_LOCK) != had {
            self.limit_memory(slot);
        }
    }

    /// The limits of the domain that fresh ones are copies of.
    pub(crate) fn limit_pristine_memory(&mut self, domain: Id) {
        self.system.limit_space(domain, USUAL);
    }

    /// The program begins in a copy of that domain.
    pub(crate) fn limit_fresh_memory(&mut self, slot: Slot) {
        let process = &mut self.processes[slot];
        process.limits_wait = false;
        let (domain, limits) = (process.domain.id, space_limits(process));
        if limits != USUAL {
            self.system.limit_space(domain, limits);
        }
    }

    /// PRLIMIT
    pub(crate) fn prlimit(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, resource, pid, set, ..] = message.words;
        let resource = usize::try_from(resource)
            .ok()
            .filter(|r| *r < COUNT)
            .ok_or(EINVAL)?;
        let target = self.named(slot, pid)?;
        let own = self.processes[slot].creds;
        let other = self.processes[target].creds;
        let same = [other.ruid, other.euid, other.suid]
            .iter()
            .all(|id| *id == own.ruid)
            && [other.rgid, other.egid, other.sgid]
                .iter()
                .all(|id| *id == own.rgid);
        let user = &self.processes[target].user;
        if target != slot && !same && !self.is_capable(slot, user, SYS_RESOURCE) {
            return Err(EPERM);
        }
        let old = self.processes[target].limits.0[resource];
        let mut new = None;
        if set == 1 {
            let bytes = self.bytes(message, 0, 16)?;
            let (soft, hard) = bytes.split_at(8);
            let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).map_err(|_| EFAULT);
            let wish = (word(soft)?, word(hard)?);
            if wish.0 > wish.1 {
                return Err(EINVAL);
            }
            if wish.1 > old.1 && !own.has(SYS_RESOURCE)
                || resource == NOFILE && wish.1 > NOFILE_MOST
            {
                return Err(EPERM);
            }
            new = Some(wish);
        }
        if message.in_len >= 16 {
            self.answer(message, &bytes_of(old))?;
        }
        if let Some(new) = new {
            Rc::make_mut(&mut self.processes[target].limits).0[resource] = new;
            if matches!(resource, AS | DATA | MEMLOCK) {
                self.limit_memory(target);
            }
            if resource == CPU {
                self.follow_cpu_limit(target);
            }
        }
        done(0)
    }

    /// LIMITS_OF
    pub(crate) fn limits_of(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, resource, pid, ..] = message.words;
        let resource = usize::try_from(resource).map_err(|_| EINVAL)?;
        let target = self.numbers.process(pid).ok_or(ESRCH)?;
        let limit = self.processes[target].limits.0.get(resource);
        let limit = *limit.ok_or(EINVAL)?;
        self.answer(message, &bytes_of(limit))?;
        done(0)
    }
}

fn bytes_of((soft, hard): (u64, u64)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&soft.to_le_bytes());
    bytes[8..].copy_from_slice(&hard.to_le_bytes());
    bytes
}

/// More open files than this have no room in a portal table.
const NOFILE_MOST: u64 = 16000;
