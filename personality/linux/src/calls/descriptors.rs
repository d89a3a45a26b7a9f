//! Descriptors: close, dup, fcntl.

use super::io::{file, usable};
use super::{leases, locks, mqueue, notifiers, owners};
use crate::descriptors::{event_kind, number, OpenFile};
use crate::errno::{Result, EBADF, EINVAL, ENOTTY, EPERM};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::spare;
use cairn_idl::fs::{self, o, s};
use core::sync::atomic::Ordering;

pub fn close(f: &mut Frame) -> Result<u64> {
    let fd = number(f.arg(0))?;
    let mut state = process().state();
    let entry = state.files.remove(fd)?;
    let wanted = !state.spares.has(entry.file.home);
    drop(state);
    locks::closing(&entry.file);
    if entry.file.is(event_kind::QUEUE) {
        mqueue::closing(&entry.file);
    }
    spare::close(entry.file, wanted);
    Ok(0)
}

pub fn close_range(f: &mut Frame) -> Result<u64> {
    const CLOEXEC: u64 = 4;
    const UNSHARE: u64 = 2;
    let (first, last, flags) = (f.arg(0) as u32, f.arg(1) as u32, f.arg(2) & 0xffff_ffff);
    if first > last || flags & !(CLOEXEC | UNSHARE) != 0 {
        return Err(EINVAL);
    }
    let mut state = process().state();
    if flags & CLOEXEC != 0 {
        state.files.mark_range_close_on_exec(first, last);
        return Ok(0);
    }
    let taken = state.files.take_range(first, last);
    drop(state);
    drop(taken);
    Ok(0)
}

fn duplicate(from: u64, least: u32, cloexec: bool) -> Result<u64> {
    let from = number(from)?;
    let mut state = process().state();
    let file = state.files.get(from)?;
    state.files.insert(file, cloexec, least).map(u64::from)
}

pub fn dup(f: &mut Frame) -> Result<u64> {
    duplicate(f.arg(0), 0, false)
}

fn duplicate_to(from: u64, to: u64, cloexec: bool) -> Result<u64> {
    let (from, to) = (number(from)?, number(to)?);
    let mut state = process().state();
    let file = state.files.get(from)?;
    let old = state.files.replace(to, file, cloexec)?;
    drop(state);
    if let Some(old) = old {
        locks::closing(&old.file);
    }
    Ok(to as u64)
}

pub fn dup2(f: &mut Frame) -> Result<u64> {
    if f.arg(0) as u32 == f.arg(1) as u32 {
        file(f.arg(0))?;
        return Ok(f.arg(1) & 0xffff_ffff);
    }
    duplicate_to(f.arg(0), f.arg(1), false)
}

pub fn dup3(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(2) & 0xffff_ffff;
    if f.arg(0) as u32 == f.arg(1) as u32 || flags & !o::CLOEXEC != 0 {
        return Err(EINVAL);
    }
    duplicate_to(f.arg(0), f.arg(1), flags != 0)
}

mod command {
    pub const DUPFD: u64 = 0;
    pub const GETFD: u64 = 1;
    pub const SETFD: u64 = 2;
    pub const GETFL: u64 = 3;
    pub const SETFL: u64 = 4;
    pub const GETLK: u64 = 5;
    pub const SETLKW: u64 = 7;
    pub const SETOWN: u64 = 8;
    pub const GETOWN: u64 = 9;
    pub const SETSIG: u64 = 10;
    pub const GETSIG: u64 = 11;
    pub const SETOWN_EX: u64 = 15;
    pub const GETOWN_EX: u64 = 16;
    pub const GETOWNER_UIDS: u64 = 17;
    pub const OFD_GETLK: u64 = 36;
    pub const OFD_SETLKW: u64 = 38;
    pub const DUPFD_CLOEXEC: u64 = 1030;
    pub const SETLEASE: u64 = 1024;
    pub const GETLEASE: u64 = 1025;
    pub const NOTIFY: u64 = 1026;
    pub const GET_RW_HINT: u64 = 1035;
    pub const SET_RW_HINT: u64 = 1036;
    pub const ADD_SEALS: u64 = 1033;
    pub const GET_SEALS: u64 = 1034;
    pub use cairn_idl::fs::{GET_PIPE_SIZE as GETPIPE_SZ, SET_PIPE_SIZE as SETPIPE_SZ};
}

pub fn fcntl(f: &mut Frame) -> Result<u64> {
    let (fd, argument) = (f.arg(0), f.arg(2));
    let command = f.arg(1) & 0xffff_ffff;
    let file = file(fd)?;
    let allowed_on_path = matches!(
        command,
        command::DUPFD | command::DUPFD_CLOEXEC | command::GETFD | command::SETFD | command::GETFL
    );
    if file.path_only && !allowed_on_path {
        return Err(EBADF);
    }
    match command {
        command::DUPFD => duplicate(fd, number(argument).map_err(|_| EINVAL)?, false),
        command::DUPFD_CLOEXEC => duplicate(fd, number(argument).map_err(|_| EINVAL)?, true),
        command::GETFD => {
            let state = process().state();
            Ok(state.files.entry(number(fd)?)?.close_on_exec as u64)
        }
        command::SETFD => {
            let on = argument & 1 != 0;
            process().state().files.set_close_on_exec(number(fd)?, on)?;
            Ok(0)
        }
        command::GETFL if file.path_only => Ok(o::PATH),
        command::GETFL => get_flags(&file),
        command::SETFL => {
            set_flags(&file, argument)?;
            owners::set_async(fd, &file, argument & o::ASYNC != 0)
        }
        command::GETLK..=command::SETLKW | command::OFD_GETLK..=command::OFD_SETLKW => {
            locks::fcntl(&file, command, argument)
        }
        command::SETOWN => owners::set_owner(fd, &file, argument as i32),
        command::GETOWN => Ok(owners::owner(&file)),
        command::SETOWN_EX => owners::set_owner_of_kind(fd, &file, argument),
        command::GETOWN_EX => owners::owner_of_kind(&file, argument),
        command::GETOWNER_UIDS => owners::uids(&file, argument),
        command::GET_RW_HINT => {
            let hint = u64::from(file.lifetime.load(Ordering::Relaxed));
            user::write(argument, &hint).map(|()| 0)
        }
        command::SET_RW_HINT => set_lifetime(&file, argument),
        command::SETSIG => owners::set_signal(fd, &file, argument),
        command::GETSIG => Ok(file.signals.signal.load(Ordering::Relaxed).into()),
        command::SETPIPE_SZ | command::GETPIPE_SZ if file.object.is_none() => {
            let size = argument & 0xffff_ffff;
            Request::new(&[fs::IOCTL, command, size])
                .call(file.slot())
                .map(|w| w[0])
                // What is no pipe does not know it.
                .map_err(|error| match error {
                    ENOTTY => EBADF,
                    other => other,
                })
        }
        command::SETLEASE => leases::set(fd, &file, argument),
        command::GETLEASE => leases::get(&file),
        command::NOTIFY => notifiers::notify(fd, &file, argument),
        command::ADD_SEALS if argument > u64::from(u32::MAX) => Err(EINVAL),
        command::ADD_SEALS => ask_seals(&file, fs::ADD_SEALS, argument),
        command::GET_SEALS => ask_seals(&file, fs::GET_SEALS, 0),
        _ => Err(EINVAL),
    }
}

/// F_SET_RW_HINT: how long what is written will stay. Nothing is placed by it.
fn set_lifetime(file: &OpenFile, address: u64) -> Result<u64> {
    /// RWH_WRITE_LIFE_EXTREME
    const LONGEST: u64 = 5;
    match user::read::<u64>(address)? {
        hint @ 0..=LONGEST => {
            file.lifetime.store(hint as u32, Ordering::Relaxed);
            // (Such a file's portal is not used for another one.)
            file.frames.grow_old();
            Ok(0)
        }
        _ => Err(EINVAL),
    }
}

/// Files in memory have seals.
fn ask_seals(file: &OpenFile, request: u64, seals: u64) -> Result<u64> {
    if file.object.is_some() || file.mode & s::IFMT != s::IFREG {
        return no_seals(file, request);
    }
    match Request::new(&[fs::IOCTL, request, seals]).call(file.slot()) {
        Ok(words) => Ok(words[0]),
        Err(ENOTTY) => no_seals(file, request),
        Err(error) => Err(error),
    }
}

fn no_seals(file: &OpenFile, request: u64) -> Result<u64> {
    let reads_only = || Ok(get_flags(file)? & o::ACCMODE == o::RDONLY);
    match request == fs::ADD_SEALS && reads_only()? {
        true => Err(EPERM),
        false => Err(EINVAL),
    }
}

/// As F_GETFL gives them: what is opened by its name has O_LARGEFILE, though nobody said so.
pub fn get_flags(file: &crate::descriptors::OpenFile) -> Result<u64> {
    if file.object.is_some() {
        return Ok(o::RDWR);
    }
    let [flags, ..] = Request::new(&[fs::GETFLAGS]).call(file.slot())?;
    let has_name = matches!(
        file.mode & s::IFMT,
        s::IFREG | s::IFDIR | s::IFCHR | s::IFBLK
    );
    let flags = if has_name {
        flags | o::LARGEFILE
    } else {
        flags
    };
    Ok(match file.signals.on.load(Ordering::Relaxed) {
        true => flags | o::ASYNC,
        false => flags,
    })
}

fn set_flags(file: &crate::descriptors::OpenFile, flags: u64) -> Result<u64> {
    if file.object.is_none() {
        Request::new(&[fs::SETFLAGS, flags]).call(file.slot())?;
    }
    Ok(0)
}

/// FIONBIO.
pub fn set_nonblocking(argument: u64, on: bool) -> Result<u64> {
    let file = usable(argument)?;
    let flags = get_flags(&file)?;
    let flags = if on {
        flags | o::NONBLOCK
    } else {
        flags & !o::NONBLOCK
    };
    set_flags(&file, flags)
}
