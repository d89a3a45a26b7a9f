//! Descriptors of processes (pidfd_open(2)): objects of the event server, each for one *life* ([`cairn_idl::proc`]), so a number that is another process's by
//! now leads nowhere.

use super::io::usable;
use super::{open, spaces};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EACCES, EBADF, EINVAL, ENOENT, EPERM, ESRCH};
use crate::event;
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path::AT_FDCWD;
use crate::signal::calls as signal;
use crate::signal::frame::parse_siginfo;
use crate::text::Line;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::event as idl;
use cairn_idl::fs::{self, o};
use cairn_idl::proc;

pub fn pidfd_open(f: &mut Frame) -> Result<u64> {
    let (pid, flags) = (f.arg(0) as i32, f.arg(1) & 0xffff_ffff);
    if flags & !o::NONBLOCK != 0 || pid <= 0 {
        return Err(EINVAL);
    }
    make(pid as u64, flags, 0)
}

fn make(pid: u64, flags: u64, life: u64) -> Result<u64> {
    let words = [idl::PROCESS, pid, flags & o::NONBLOCK, life];
    event::open(&words, event_kind::PROCESS, flags | o::CLOEXEC)
}

/// CLONE_PIDFD: the child that FORK has just made, or none: it ends if nothing can lead to it.
pub fn of_child(pid: u64, life: u64) -> Result<u64> {
    let made = make(pid, 0, life);
    if made.is_err() {
        let _ = Request::new(&[proc::SIGNAL_LIFE, life, crate::signal::SIGKILL.into()])
            .call(linux_slot::PROC);
    }
    made
}

/// The life that a descriptor is for, and whether waiting by it does not wait.
pub fn life(file: &OpenFile) -> Result<(u64, bool)> {
    if !file.is(event_kind::PROCESS) {
        return Err(EBADF);
    }
    let [_, life, nonblocking, ..] = Request::new(&[idl::PROCESS_LIFE]).call(file.slot())?;
    Ok((life, nonblocking != 0))
}

/// The same of a folder /proc/PID, too.
fn process_of(file: &OpenFile) -> Result<u64> {
    if file.is(event_kind::PROCESS) || file.object.is_some() {
        return life(file).map(|(life, _)| life);
    }
    let told = Request::new(&[fs::IOCTL, fs::PROCESS_OF, 0]).call(file.slot());
    told.map(|words| words[1]).map_err(|_| EBADF)
}

pub fn pidfd_send_signal(f: &mut Frame) -> Result<u64> {
    if f.arg(3) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    let life = process_of(&*usable(f.arg(0))?)?;
    let number = f.arg(1) & 0xffff_ffff;
    let (mut code, mut value) = (crate::signal::si::USER, 0);
    if f.arg(2) != 0 {
        let info = user::read(f.arg(2))?;
        if u64::from(user::read::<u32>(f.arg(2))?) != number {
            return Err(EINVAL);
        }
        (code, value) = parse_siginfo(&info);
        let own = || number_of(life).is_ok_and(|pid| pid == process().pid());
        if (code >= 0 || code == crate::signal::si::TKILL) && !own() {
            return Err(EPERM);
        }
    }
    let words = [
        proc::SIGNAL_LIFE,
        life,
        number,
        code as i64 as u64,
        value,
        1,
    ];
    signal::send(&words)
}

/// What the process with this life is called here.
fn number_of(life: u64) -> Result<u32> {
    let words = Request::new(&[proc::LIFE_NUMBER, life]).call(linux_slot::PROC)?;
    Ok(words[0] as u32)
}

/// setns(2) with a descriptor of a process: into these of its name spaces. Their files in /proc are opened, and whose they were is looked at afterwards.
pub fn enter(file: &OpenFile, kinds: u64) -> Result<u64> {
    const NAMES: [(u64, &[u8]); 7] = [
        (spaces::NEW_USER, b"user"),
        (spaces::NEW_MOUNTS, b"mnt"),
        (spaces::NEW_HOST, b"uts"),
        (spaces::NEW_IPC, b"ipc"),
        (spaces::NEW_PIDS, b"pid"),
        (spaces::NEW_CGROUPS, b"cgroup"),
        (NEW_NETWORK, b"net"),
    ];
    const NEW_NETWORK: u64 = 0x4000_0000;
    if kinds == 0 || NAMES.iter().fold(kinds, |left, (kind, _)| left & !kind) != 0 {
        return Err(EINVAL);
    }
    let (life, _) = life(file)?;
    let pid = number_of(life)?;
    if pid == 0 {
        return Err(ESRCH);
    }
    let mut files = Vec::new();
    for (kind, name) in NAMES {
        if kinds & kind == 0 {
            continue;
        }
        let mut path = Line::new();
        path.raw(b"/proc/").number(pid.into());
        path.raw(b"/ns/").raw(name);
        let file =
            open::open_file(AT_FDCWD, path.bytes(), o::RDONLY, 0).map_err(|errno| match errno {
                EACCES => EPERM,
                ENOENT => ESRCH,
                errno => errno,
            })?;
        files.push((file, kind));
    }
    if number_of(life)? != pid {
        return Err(ESRCH);
    }
    for (file, kind) in &files {
        spaces::enter(file, *kind)?;
    }
    Ok(0)
}
