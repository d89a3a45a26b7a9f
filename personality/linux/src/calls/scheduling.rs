//! Scheduling, priorities, processors, resource limits and use.

use super::futex::realtime;
use crate::errno::{Result, E2BIG, EACCES, EBUSY, EINVAL, EOPNOTSUPP, EPERM, ESRCH};
use crate::machine::area::{area, process, Frame};
use crate::machine::fpu::system_page;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use cairn_abi::layout::{linux_slot, MAX_SLOTS, PAGE};
use cairn_idl::proc;
use core::sync::atomic::Ordering;

/// Who has deadlines gives up what it has left of its period.
pub fn sched_yield(_: &mut Frame) -> Result<u64> {
    let gives_up = realtime() > REALTIME_MOST
        && Request::new(&[proc::END_PERIOD])
            .call(linux_slot::PROC)
            .is_ok();
    if !gives_up {
        gate::yield_core();
    }
    Ok(0)
}

fn check_pid(pid: u64) -> Result<()> {
    if (pid as i32) < 0 {
        Err(EINVAL)
    } else {
        Ok(())
    }
}

/// Does the process or thread exist?
pub(super) fn exists(pid: u64) -> Result<()> {
    check_pid(pid)?;
    let pid = pid & 0xffff_ffff;
    if pid == 0 || pid == process().pid() as u64 || pid == area().tid() as u64 {
        return Ok(());
    }
    // (A zombie is a process, and has no thread that is scheduled.)
    let there = |operation| Request::new(&[operation, pid]).call(linux_slot::PROC);
    there(proc::IDS)
        .or_else(|_| there(proc::GETSCHEDULER))
        .map(|_| ())
        .map_err(|_| ESRCH)
}

/// The nucleus's id of a thread of this process (0: this thread), None for one of another process.
pub(super) fn own_thread(pid: u64) -> Option<u32> {
    if pid == 0 || pid == area().tid() as u64 {
        return Some(0);
    }
    let state = process().state();
    let peer = state
        .threads
        .iter()
        .find(|p| p.tid.load(Ordering::Relaxed) as u64 == pid)?;
    Some(peer.nucleus.load(Ordering::Relaxed)).filter(|&id| id != 0)
}

/// The cores that there are, a bit each.
pub(super) fn all_cores() -> u64 {
    let cores = system_page().cores.clamp(1, 64);
    !0 >> (64 - cores)
}

fn has_deadlines(pid: u64) -> bool {
    policy(pid).is_ok_and(|policy| policy.name() == DEADLINE)
}

/// The cores that a thread of this process may run on. Who has deadlines may on all of them, wherever its scheduler has it run.
fn allowed(pid: u64, thread: u32) -> Result<u64> {
    let mask = gate::affinity(thread, 0).map_err(|_| ESRCH)?[1] & all_cores();
    match mask != all_cores() && has_deadlines(pid) {
        true => Ok(all_cores()),
        false => Ok(mask),
    }
}

pub fn sched_getaffinity(f: &mut Frame) -> Result<u64> {
    if f.arg(1) < 8 || !f.arg(1).is_multiple_of(8) {
        return Err(EINVAL);
    }
    // (A negative number is nobody's here, and no mistake.)
    exists(f.arg(0)).map_err(|_| ESRCH)?;
    let mask = match own_thread(f.arg(0)) {
        Some(thread) => allowed(f.arg(0), thread)?,
        None => all_cores(),
    };
    user::write(f.arg(2), &mask)?;
    Ok(8)
}

/// Threads of other processes run where they please: a wish for them is checked and otherwise has no effect.
pub fn sched_setaffinity(f: &mut Frame) -> Result<u64> {
    let mut bytes = [0; 8];
    let size = f.arg(1).min(8) as usize;
    user::read_bytes(f.arg(2), &mut bytes[..size])?;
    exists(f.arg(0)).map_err(|_| ESRCH)?;
    let mask = u64::from_le_bytes(bytes) & all_cores();
    if mask == 0 {
        return Err(EINVAL);
    }
    if mask != all_cores() && has_deadlines(f.arg(0)) {
        return Err(EBUSY);
    }
    if let Some(thread) = own_thread(f.arg(0)) {
        gate::affinity(thread, mask).map_err(|_| ESRCH)?;
        if thread == 0 {
            area().affinity.set(mask);
        }
    }
    Ok(0)
}

pub fn getcpu(f: &mut Frame) -> Result<u64> {
    let core = gate::affinity(0, 0).map_or(0, |[core, ..]| core as u32);
    for (address, value) in [(f.arg(0), core), (f.arg(1), 0)] {
        if address != 0 {
            user::write(address, &value)?;
        }
    }
    Ok(0)
}

/// SCHED_RESET_ON_FORK, beside a policy.
const RESETS: u64 = 0x4000_0000;
/// The highest priority of SCHED_FIFO and SCHED_RR.
const REALTIME_MOST: u8 = 99;

/// `proc` looks for the thread, then at the policy, its priority and its times.
fn set_policy(pid: u64, policy: u64, priority: u32, times: [u64; 3]) -> Result<u64> {
    check_pid(pid)?;
    let [runtime, deadline, period] = times;
    let words = [
        proc::SETSCHEDULER,
        policy & (0xffff | RESETS),
        priority as u64,
        pid & 0xffff_ffff,
        runtime,
        deadline,
        period,
    ];
    Request::new(&words).call(linux_slot::PROC).map(|_| 0)
}

/// What a thread has.
struct Policy {
    /// With SCHED_RESET_ON_FORK.
    policy: u64,
    /// [`proc::DEADLINE_PRIORITY`] of a thread with deadlines.
    realtime: u32,
    times: [u64; 3],
}

impl Policy {
    fn name(&self) -> u64 {
        self.policy & !RESETS
    }

    fn priority(&self) -> u32 {
        match self.name() {
            DEADLINE => 0,
            _ => self.realtime,
        }
    }
}

fn policy(pid: u64) -> Result<Policy> {
    check_pid(pid)?;
    let words = [proc::GETSCHEDULER, pid & 0xffff_ffff];
    let [policy, realtime, runtime, deadline, period, ..] =
        Request::new(&words).call(linux_slot::PROC)?;
    Ok(Policy {
        policy,
        realtime: realtime as u32,
        times: [runtime, deadline, period],
    })
}

/// The calling thread's real-time priority, 0 without one.
pub fn own_realtime() -> u8 {
    policy(0).map_or(0, |policy| policy.realtime as u8)
}

/// The parameters are asked for before they are read.
fn named(pid: u64, parameters: u64) -> Result<()> {
    match parameters {
        0 => Err(EINVAL),
        _ => check_pid(pid),
    }
}

pub fn sched_setscheduler(f: &mut Frame) -> Result<u64> {
    if (f.arg(1) as i32) < 0 {
        return Err(EINVAL);
    }
    named(f.arg(0), f.arg(2))?;
    let priority = user::read(f.arg(2))?;
    set_policy(f.arg(0), f.arg(1) & 0xffff_ffff, priority, [0; 3])
}

pub fn sched_setparam(f: &mut Frame) -> Result<u64> {
    named(f.arg(0), f.arg(1))?;
    let priority = user::read(f.arg(1))?;
    let policy = policy(f.arg(0))?.policy;
    set_policy(f.arg(0), policy, priority, [0; 3])
}

pub fn sched_getscheduler(f: &mut Frame) -> Result<u64> {
    policy(f.arg(0)).map(|p| p.policy)
}

pub fn sched_getparam(f: &mut Frame) -> Result<u64> {
    named(f.arg(0), f.arg(1))?;
    let priority = policy(f.arg(0))?.priority();
    user::write(f.arg(1), &priority)?;
    Ok(0)
}

/// `struct sched_attr` as it was first: size, policy, flags, nice, priority, runtime, deadline, period.
const ATTRIBUTES: u64 = 48;
/// With the bounds of use of later days, which are not there.
const ALL_ATTRIBUTES: u64 = 56;
const RESET_ON_FORK: u64 = 1;
const DEADLINE: u64 = 6;
/// Bounds of use, which a kernel can be without.
const USE_BOUNDS: u64 = 0x60;

/// sched_setattr: policies, priorities, nice values and deadlines. Of these there is no SCHED_FLAG_RECLAIM and no SCHED_FLAG_DL_OVERRUN.
pub fn sched_setattr(f: &mut Frame) -> Result<u64> {
    const KEEP_POLICY: u64 = 8;
    const KEEP_PARAMETERS: u64 = 0x10;
    let (pid, address) = (f.arg(0), f.arg(1));
    if address == 0 || (pid as i32) < 0 || f.arg(2) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    let size = match user::read::<u32>(address)? as u64 {
        0 => ATTRIBUTES,
        size => size,
    };
    if !(ATTRIBUTES..=PAGE).contains(&size) {
        user::write(address, &(ALL_ATTRIBUTES as u32))?;
        return Err(E2BIG);
    }
    for at in ALL_ATTRIBUTES..size {
        if user::read::<u8>(address.wrapping_add(at))? != 0 {
            user::write(address, &(ALL_ATTRIBUTES as u32))?;
            return Err(E2BIG);
        }
    }
    let words: [u64; 3] = user::read(address)?;
    let flags = words[1];
    let nice = words[2] as u32 as i32;
    let (mut wanted, mut priority) = (words[0] >> 32, (words[2] >> 32) as u32);
    if flags & USE_BOUNDS != 0 {
        return Err(EOPNOTSUPP);
    }
    if (wanted as i32) < 0 || flags & !(RESET_ON_FORK | KEEP_POLICY | KEEP_PARAMETERS) != 0 {
        return Err(EINVAL);
    }
    let now = policy(pid)?;
    if flags & KEEP_POLICY != 0 {
        wanted = now.name();
    }
    if flags & KEEP_PARAMETERS != 0 {
        // The policy stays as well, but is to fit what is kept.
        priority = now.priority();
        let fits = match wanted {
            DEADLINE => now.name() == DEADLINE,
            1 | 2 => priority != 0,
            _ => priority == 0,
        };
        if !fits {
            return Err(EINVAL);
        }
        wanted = now.name();
    }
    if wanted == DEADLINE {
        let (mut times, mut resets) = (
            user::read(address.wrapping_add(24))?,
            flags & RESET_ON_FORK != 0,
        );
        if flags & KEEP_PARAMETERS != 0 {
            (times, resets) = (now.times, now.policy & RESETS != 0);
        }
        return set_deadline(pid, (times, priority), resets);
    }
    let ordinary = matches!(wanted, 0 | 3);
    if ordinary && flags & KEEP_PARAMETERS == 0 && priority == 0 {
        let now = nice_of(pid)?;
        // Who may not become more important is told so with the errno of this call.
        let nice = nice.clamp(-20, 19);
        if nice != now {
            set_nice(pid, nice).map_err(|error| if error == EACCES { EPERM } else { error })?;
        }
    }
    let resets = match flags & RESET_ON_FORK {
        0 => 0,
        _ => RESETS,
    };
    set_policy(pid, wanted | resets, priority, [0; 3])
}

/// A period of 0 is the deadline. Who may not run on all cores has none (EPERM).
#[cold]
fn set_deadline(pid: u64, asked: ([u64; 3], u32), resets: bool) -> Result<u64> {
    let (mut times, priority) = asked;
    if times[2] == 0 {
        times[2] = times[1];
    }
    let before = match own_thread(pid) {
        Some(thread) => allowed(pid, thread)?,
        None => all_cores(),
    };
    if before & all_cores() != all_cores() {
        return Err(EPERM);
    }
    let resets = if resets { RESETS } else { 0 };
    set_policy(pid, DEADLINE | resets, priority, times)
}

pub fn sched_getattr(f: &mut Frame) -> Result<u64> {
    let (pid, address, size) = (f.arg(0), f.arg(1), f.arg(2) & 0xffff_ffff);
    let wrong = address == 0 || (pid as i32) < 0 || !(ATTRIBUTES..=PAGE).contains(&size);
    if wrong || f.arg(3) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    let what = policy(pid)?;
    let (policy, resets) = (what.name(), what.policy & RESETS != 0);
    let nice = match policy {
        0 | 3 => nice_of(pid)?,
        _ => 0,
    };
    let size = size.min(ALL_ATTRIBUTES);
    let mut words = [0u64; ALL_ATTRIBUTES as usize / 8];
    words[0] = size | policy << 32;
    words[1] = if resets { RESET_ON_FORK } else { 0 };
    words[2] = nice as u32 as u64 | (what.priority() as u64) << 32;
    words[3..6].copy_from_slice(&what.times);
    user::write_bytes(address, &user::bytes_of(&words)[..size as usize])?;
    Ok(0)
}

fn nice_of(pid: u64) -> Result<i32> {
    let words = Request::new(&[proc::GETPRIORITY, 0, pid & 0xffff_ffff]).call(linux_slot::PROC)?;
    Ok(20 - words[0] as i32)
}

fn set_nice(pid: u64, nice: i32) -> Result<()> {
    Request::new(&[proc::SETPRIORITY, 0, pid & 0xffff_ffff, nice as i64 as u64])
        .call(linux_slot::PROC)
        .map(|_| ())
}

pub fn sched_get_priority_max(f: &mut Frame) -> Result<u64> {
    match f.arg(0) {
        1 | 2 => Ok(99),
        0 | 3 | 5 | 6 => Ok(0),
        _ => Err(EINVAL),
    }
}

pub fn sched_get_priority_min(f: &mut Frame) -> Result<u64> {
    match f.arg(0) {
        1 | 2 => Ok(1),
        0 | 3 | 5 | 6 => Ok(0),
        _ => Err(EINVAL),
    }
}

pub fn sched_rr_get_interval(f: &mut Frame) -> Result<u64> {
    // The nucleus's own, and that of SCHED_RR as `/proc/sys/kernel/sched_rr_timeslice_ms` says.
    const QUANTUM: u64 = 10_000_000;
    const FIFO: u64 = 1;
    const ROUND_ROBIN: u64 = 2;
    exists(f.arg(0))?;
    // Who is FIFO is not interrupted for his like.
    let quantum = match policy(f.arg(0)).map(|policy| policy.name()) {
        Ok(FIFO | DEADLINE) => 0,
        Ok(ROUND_ROBIN) => proc::TURN_OF_RR,
        _ => QUANTUM,
    };
    crate::time::write_timespec(f.arg(1), quantum)?;
    Ok(0)
}

/// Whose priority is meant: of PRIO_USER a user, 0 the own.
fn who(f: &Frame) -> Result<u64> {
    match (f.arg(0), f.arg(1) as u32) {
        (2, user) if user != 0 => {
            let user = crate::user_space::outside_user(user);
            user.map(u64::from).ok_or(crate::errno::ESRCH)
        }
        (_, who) => Ok(who.into()),
    }
}

pub fn getpriority(f: &mut Frame) -> Result<u64> {
    if f.arg(0) > 2 {
        return Err(EINVAL);
    }
    Request::new(&[proc::GETPRIORITY, f.arg(0), who(f)?])
        .call(linux_slot::PROC)
        .map(|w| w[0])
}

pub fn setpriority(f: &mut Frame) -> Result<u64> {
    if f.arg(0) > 2 {
        return Err(EINVAL);
    }
    let nice = (f.arg(2) as i32).clamp(-20, 19) as i64 as u64;
    Request::new(&[proc::SETPRIORITY, f.arg(0), who(f)?, nice])
        .call(linux_slot::PROC)
        .map(|_| 0)
}

const FSIZE: u64 = 1;
const DATA: u64 = 2;
const NOFILE: u64 = 7;
const LIMITS: u64 = 16;

pub fn limit(pid: u64, resource: u64, new: Option<[u64; 2]>) -> Result<[u64; 2]> {
    if resource >= LIMITS {
        return Err(EINVAL);
    }
    let mut old = [0u64; 2];
    let words = [proc::PRLIMIT, resource, pid, new.is_some() as u64];
    let out = new.unwrap_or([0; 2]);
    if let Some([soft, hard]) = new {
        // Tables hold what MAX_SLOTS allows.
        let too_many = resource == NOFILE && hard > 1 << 20;
        if soft > hard || too_many {
            return Err(if too_many { EPERM } else { EINVAL });
        }
    }
    let mut request = Request::new(&words).input_value(&mut old);
    if new.is_some() {
        request = request.out(user::bytes_of(&out));
    }
    request.call(linux_slot::PROC)?;
    let own = pid == 0 || pid == process().pid() as u64;
    match (new, resource) {
        (Some([soft, _]), NOFILE) if own => {
            process().state().files.limit = soft.min(MAX_SLOTS as u64) as u32;
        }
        (Some([soft, _]), DATA) if own && soft != u64::MAX => {
            super::mapping::use_break_exactly();
        }
        (Some([soft, _]), FSIZE) if own => {
            process()
                .file_limit
                .store(soft, core::sync::atomic::Ordering::Relaxed);
        }
        _ => {}
    }
    Ok(old)
}

pub fn getrlimit(f: &mut Frame) -> Result<u64> {
    let old = limit(0, f.arg(0) & 0xffff_ffff, None)?;
    user::write(f.arg(1), &old)?;
    Ok(0)
}

pub fn setrlimit(f: &mut Frame) -> Result<u64> {
    let new = user::read(f.arg(1))?;
    limit(0, f.arg(0) & 0xffff_ffff, Some(new))?;
    Ok(0)
}

pub fn prlimit64(f: &mut Frame) -> Result<u64> {
    let new = match f.arg(2) {
        0 => None,
        address => Some(user::read(address)?),
    };
    let (pid, resource) = (f.arg(0) & 0xffff_ffff, f.arg(1) & 0xffff_ffff);
    let old = limit(pid, resource, new).map_err(|error| match exists(pid) {
        // Whose limits they would be comes first.
        Err(_) if error == EINVAL => ESRCH,
        _ => error,
    })?;
    if f.arg(3) != 0 {
        user::write(f.arg(3), &old)?;
    }
    Ok(0)
}

pub fn getrusage(f: &mut Frame) -> Result<u64> {
    let who = f.arg(0) as i32 as i64;
    if !(-1..=1).contains(&who) {
        return Err(EINVAL);
    }
    let range = user::range(f.arg(1), 144)?;
    Request::new(&[proc::RUSAGE, who as u64])
        .input_user(range)
        .call(linux_slot::PROC)
        .map(|_| 0)
}
