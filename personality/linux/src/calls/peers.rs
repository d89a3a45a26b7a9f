//! Calls about other processes: process_vm_readv and process_vm_writev, kcmp, ioprio_set and ioprio_get.
//! Memory of another process `vm` shows and changes for who may trace it, by `proc`'s check (TRACE_MEMORY). Open files are a process's own: of others only
//! their being there is looked at.

use super::io::file;
use super::others;
use super::ptrace::patiently;
use super::scheduling::{exists, own_thread};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EBADF, EFAULT, EINVAL, ENOENT, EPERM, ESRCH};
use crate::machine::area::{process, Frame};
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PAGE};
use cairn_abi::service::current;
use cairn_idl::capability::{SYS_ADMIN, SYS_NICE};
use cairn_idl::{fs, proc};
use core::sync::atomic::{AtomicU32, Ordering};

/// Is this process meant (by its number or a thread's)? Otherwise: is there one?
fn is_own(pid: u64) -> Result<bool> {
    let pid = pid & 0xffff_ffff;
    if pid == 0 {
        return Err(ESRCH);
    }
    if pid == process().pid() as u64 || own_thread(pid).is_some() {
        return Ok(true);
    }
    exists(pid).map_err(|_| ESRCH)?;
    Ok(false)
}

/// A side of a copy: pieces of memory, which nobody has looked at yet.
struct Pieces {
    left: Vec<(u64, u64)>,
}

impl Pieces {
    fn new(address: u64, count: u64) -> Result<Pieces> {
        const MOST: u64 = 1024;
        if count > MOST {
            return Err(EINVAL);
        }
        let mut left = Vec::new();
        for i in 0..count {
            let [base, length] = user::read::<[u64; 2]>(address.wrapping_add(16 * i))?;
            if length > i64::MAX as u64 {
                return Err(EINVAL);
            }
            left.push((base, length));
        }
        left.retain(|piece| piece.1 != 0);
        left.reverse();
        Ok(Pieces { left })
    }

    /// Where it goes on, and for how many bytes.
    fn next(&self) -> Option<(u64, u64)> {
        self.left.last().copied()
    }

    fn advance(&mut self, count: u64) {
        if let Some((base, length)) = self.left.pop() {
            if length > count {
                self.left.push((base + count, length - count));
            }
        }
    }
}

/// A piece between this process's memory and another's → how much of it.
fn of_another(whose: u64, (near, far): (u64, u64), bytes: &mut [u8], writes: bool) -> Result<u64> {
    let words = [proc::TRACE_MEMORY, whose, far, writes.into()];
    if writes {
        user::read_bytes(near, bytes)?;
        let written = patiently(|| Request::new(&words).out(bytes).call(linux_slot::PROC));
        return written.map(|answer| answer[0]);
    }
    let [count, ..] = patiently(|| Request::new(&words).input(bytes).call(linux_slot::PROC))?;
    let count = count.min(bytes.len() as u64);
    user::write_bytes(near, &bytes[..count as usize])?;
    Ok(count)
}

fn transfer(f: &Frame, writes: bool) -> Result<u64> {
    if f.arg(5) != 0 {
        return Err(EINVAL);
    }
    let mut own = Pieces::new(f.arg(1), f.arg(2))?;
    if own.next().is_none() {
        return Ok(0);
    }
    let mut others = Pieces::new(f.arg(3), f.arg(4))?;
    if others.next().is_none() {
        return Ok(0);
    }
    let whose = f.arg(0) & 0xffff_ffff;
    let is_own = is_own(whose)?;
    let mut bytes = [0u8; 1024];
    let mut done = 0;
    while let (Some((near, near_length)), Some((far, far_length))) = (own.next(), others.next()) {
        let in_page = PAGE - far % PAGE;
        let most = near_length.min(far_length).min(in_page);
        let count = most.min(bytes.len() as u64);
        let (from, to) = match writes {
            true => (near, far),
            false => (far, near),
        };
        let bytes = &mut bytes[..count as usize];
        if !is_own {
            match of_another(whose, (near, far), bytes, writes) {
                Ok(moved) => {
                    own.advance(moved);
                    others.advance(moved);
                    done += moved;
                    if moved < count {
                        break;
                    }
                    continue;
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        if user::read_bytes(from, bytes).is_err() || user::write_bytes(to, bytes).is_err() {
            break;
        }
        own.advance(count);
        others.advance(count);
        done += count;
    }
    match done {
        0 => Err(EFAULT),
        done => Ok(done),
    }
}

pub fn process_vm_readv(f: &mut Frame) -> Result<u64> {
    transfer(f, false)
}

pub fn process_vm_writev(f: &mut Frame) -> Result<u64> {
    transfer(f, true)
}

/// Kinds of kcmp(2): open files; memory, descriptors, directories, signal actions, I/O priority, semaphore undo lists, all of which a process's threads share.
const FILE: u32 = 0;
const LAST_SHARED: u32 = 6;

/// What kcmp(2) tells of two things: the same, or an order that means nothing.
fn order<T: Ord>(a: T, b: T) -> u64 {
    match a.cmp(&b) {
        core::cmp::Ordering::Equal => 0,
        core::cmp::Ordering::Less => 1,
        core::cmp::Ordering::Greater => 2,
    }
}

pub fn kcmp(f: &mut Frame) -> Result<u64> {
    const WATCHED: u32 = 7;
    let same = [is_own(f.arg(0))?, is_own(f.arg(1))?];
    if same != [true; 2] {
        return kcmp_others(f, same);
    }
    let at = |file: &Arc<OpenFile>| Arc::as_ptr(file) as u64;
    match f.arg(2) as u32 {
        FILE => Ok(order(at(&file(f.arg(3))?), at(&file(f.arg(4))?))),
        1..=LAST_SHARED => Ok(0),
        WATCHED => {
            let [set, number, place] = user::read::<[u32; 3]>(f.arg(4))?;
            let first = file(f.arg(3))?;
            let set = file(set as u64)?;
            if !set.is(event_kind::SET) {
                return Err(EINVAL);
            }
            let watched = file(number as u64).map_err(|_| ENOENT)?;
            match watched.is_watched() && place == 0 {
                true => Ok(order(at(&first), at(&watched))),
                false => Err(ENOENT),
            }
        }
        _ => Err(EINVAL),
    }
}

/// Two things of which one at least is another process's: of open files their servers say which is which, all else each process has of its own.
#[cold]
fn kcmp_others(f: &Frame, own: [bool; 2]) -> Result<u64> {
    let pids = [f.arg(0) & 0xffff_ffff, f.arg(1) & 0xffff_ffff];
    match f.arg(2) as u32 {
        FILE => {
            let mut found = [(0, 0); 2];
            for (at, found) in found.iter_mut().enumerate() {
                let number = crate::descriptors::number(f.arg(3 + at))?;
                let opened = match own[at] {
                    true => file(number.into())?,
                    false => Arc::new(others::get(pids[at], 0, number.into())?.0),
                };
                *found = open_file(&opened)?;
            }
            Ok(order(found[0], found[1]))
        }
        1..=LAST_SHARED => {
            // Who may not look into a process is not told.
            for (at, pid) in pids.iter().enumerate() {
                if !own[at] {
                    others::get(*pid, 0, proc::FILE_CWD)?;
                }
            }
            Ok(order(pids[0], pids[1]))
        }
        _ => Err(EINVAL),
    }
}

/// The server of an open file, and the server's number for it.
fn open_file(file: &OpenFile) -> Result<(u64, u64)> {
    let info = gate::service(
        linux_slot::CURRENT,
        current::PORTAL_INFO,
        &[file.slot().into()],
    );
    let server = info.map_err(|_| EBADF)?[3];
    let words = Request::new(&[fs::DESCRIBE]).call(file.slot())?;
    Ok((server, words[5]))
}

/// The process's I/O priority, which nothing goes by: disks serve in the order of the callers' priorities.
static IO_PRIORITY: AtomicU32 = AtomicU32::new(0);

mod which {
    pub const PROCESS: u32 = 1;
    pub const GROUP: u32 = 2;
    pub const USER: u32 = 3;
}

/// Are there processes of this kind? → whether this one alone is meant.
fn meant(which: u32, who: u64) -> Result<bool> {
    let who = who & 0xffff_ffff;
    match which {
        which::PROCESS => {
            if (who as i32) < 0 {
                return Err(ESRCH);
            }
            exists(who).map_err(|_| ESRCH)?;
            Ok(who == 0 || own_thread(who).is_some() || who == process().pid() as u64)
        }
        which::GROUP | which::USER => {
            let kind = u64::from(which - which::PROCESS);
            Request::new(&[proc::GETPRIORITY, kind, who])
                .call(linux_slot::PROC)
                .map_err(|_| ESRCH)?;
            Ok(false)
        }
        _ => Err(EINVAL),
    }
}

/// Is it a priority for input and output (class and level) that the caller may have?
pub fn may_have_priority(priority: u64) -> Result<()> {
    const REAL_TIME: u64 = 1;
    const BEST_EFFORT: u64 = 2;
    const IDLE: u64 = 3;
    let (class, level) = (priority >> 13 & 7, priority & 7);
    let process = process();
    match class {
        REAL_TIME if !process.is_capable(SYS_ADMIN) && !process.is_capable(SYS_NICE) => Err(EPERM),
        REAL_TIME | BEST_EFFORT | IDLE => Ok(()),
        0 if level == 0 => Ok(()),
        _ => Err(EINVAL),
    }
}

/// ioprio_set: of this process it is kept, of others it has no effect.
pub fn ioprio_set(f: &mut Frame) -> Result<u64> {
    let priority = f.arg(2) as u32;
    may_have_priority(priority.into())?;
    if meant(f.arg(0) as u32, f.arg(1))? {
        IO_PRIORITY.store(priority & 0xffff, Ordering::Relaxed);
    }
    Ok(0)
}

/// ioprio_get: what is not set is told as it counts among several.
pub fn ioprio_get(f: &mut Frame) -> Result<u64> {
    const ORDINARY: u64 = 2 << 13 | 4;
    let which = f.arg(0) as u32;
    let own = meant(which, f.arg(1))?;
    let set = IO_PRIORITY.load(Ordering::Relaxed) as u64;
    Ok(match (which, own) {
        (which::PROCESS, true) => set,
        (which::PROCESS, false) => 0,
        _ => ORDINARY,
    })
}
