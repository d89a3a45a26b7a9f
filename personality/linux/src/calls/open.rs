//! Opening: open, openat, creat, and what other calls open for themselves.

use crate::descriptors::{OpenFile, NO_SLOT};
use crate::errno::{check, Result, E2BIG, EAGAIN, EFAULT, EINVAL, EIO, ENOENT, ENOSYS, ENOTDIR};
use crate::machine::area::{process, Frame};
use crate::machine::buffer::Buffer;
use crate::machine::gate;
use crate::machine::request::{self, put_path, Request};
use crate::machine::user::{self, UserString};
use crate::path::{self, make_room, Start, AT_FDCWD, PORTALS, REDIRECT};
use crate::prefix::Own;
use crate::process::Root;
use crate::space;
use crate::spare::{self, Spare};
use alloc::sync::Arc;
use cairn_abi::layout::{linux_slot, PAGE};
use cairn_idl::capability::SYS_CHROOT;
use cairn_idl::fs::{self, kind, o, s, PATH_MAX};
use cairn_idl::proc;

pub fn open(f: &mut Frame) -> Result<u64> {
    let mut name = UserString::empty();
    name.fill(f.arg(0))?;
    open_descriptor(AT_FDCWD, name.as_bytes(), f.arg(1), f.arg(2))
}

pub fn creat(f: &mut Frame) -> Result<u64> {
    let mut name = UserString::empty();
    name.fill(f.arg(0))?;
    let flags = o::CREAT | o::WRONLY | o::TRUNC;
    open_descriptor(AT_FDCWD, name.as_bytes(), flags, f.arg(1))
}

pub fn openat(f: &mut Frame) -> Result<u64> {
    let mut name = UserString::empty();
    name.fill(f.arg(1))?;
    open_descriptor(f.arg(0) as i32, name.as_bytes(), f.arg(2), f.arg(3))
}

/// openat2; its restrictions on resolution are in [`super::resolve`].
pub fn openat2(f: &mut Frame) -> Result<u64> {
    const SIZE: u64 = 24;
    if f.arg(3) < SIZE {
        return Err(EINVAL);
    }
    if f.arg(3) > PAGE {
        return Err(E2BIG);
    }
    let [flags, mode, resolve] = user::read::<[u64; 3]>(f.arg(2))?;
    zero_beyond(f.arg(2), SIZE, f.arg(3))?;
    checked_how(flags, mode, resolve)?;
    let mut name = UserString::empty();
    name.fill(f.arg(1))?;
    if super::resolve::restricts(resolve) {
        process().state().files.check_room()?;
        let dirfd = f.arg(0) as i32;
        return super::resolve::open(dirfd, name.as_bytes(), flags, mode, resolve);
    }
    open_descriptor(f.arg(0) as i32, name.as_bytes(), flags, mode)
}

/// What later systems may know in a structure must not be asked for.
pub fn zero_beyond(structure: u64, known: u64, size: u64) -> Result<()> {
    for at in known..size {
        if user::read::<u8>(structure.wrapping_add(at))? != 0 {
            return Err(E2BIG);
        }
    }
    Ok(())
}

/// openat2 refuses what open(2) passes over.
fn checked_how(flags: u64, mode: u64, resolve: u64) -> Result<()> {
    /// RESOLVE_NO_XDEV and the five after it.
    const RESOLVE: u64 = 0x3f;
    const BENEATH_AND_ROOT: u64 = 0x18;
    const CACHED: u64 = 0x20;
    const ACCESS: u64 = 3;
    /// FASYNC, O_LARGEFILE, O_NOATIME, O_DIRECT, O_SYNC, O_NOCTTY.
    const OTHERS: u64 = 0o20000 | 0o100000 | 0o1000000 | 0o40000 | 0o4010000 | 0o400;
    const KNOWN: u64 = ACCESS
        | OTHERS
        | o::CREAT
        | o::EXCL
        | o::TRUNC
        | o::APPEND
        | o::NONBLOCK
        | o::DIRECTORY
        | o::NOFOLLOW
        | o::CLOEXEC
        | o::PATH
        | o::TMPFILE;
    let creates = flags & o::CREAT != 0 || flags & o::TMPFILE == o::TMPFILE;
    let with_path = o::PATH | o::DIRECTORY | o::NOFOLLOW | o::CLOEXEC;
    let temporary = flags & o::TMPFILE & !o::DIRECTORY != 0;
    let wrong = flags & !KNOWN != 0
        || resolve & !RESOLVE != 0
        || resolve & BENEATH_AND_ROOT == BENEATH_AND_ROOT
        || mode & !0o7777 != 0
        || mode != 0 && !creates
        || flags & o::PATH != 0 && flags & !with_path != 0
        || temporary && (flags & (o::TMPFILE | o::CREAT) != o::TMPFILE || flags & ACCESS == 0);
    if wrong {
        return Err(EINVAL);
    }
    if resolve & CACHED != 0 && (creates || flags & o::TRUNC != 0) {
        return Err(EAGAIN);
    }
    Ok(())
}

/// What open(2) looks at before the name's folders.
#[inline(always)]
fn checked_flags(flags: u64) -> Result<()> {
    const ACCESS: u64 = 3;
    let rare = flags & (o::TMPFILE & !o::DIRECTORY | o::CREAT) != 0;
    if rare && flags & o::PATH == 0 {
        let temporary = flags & o::TMPFILE & !o::DIRECTORY != 0;
        let both = o::CREAT | o::DIRECTORY;
        let made = flags & o::CREAT != 0;
        if temporary && (flags & o::TMPFILE != o::TMPFILE || flags & ACCESS == 0 || made)
            || !temporary && flags & both == both
        {
            return Err(EINVAL);
        }
    }
    Ok(())
}

fn open_descriptor(dirfd: i32, name: &[u8], flags: u64, mode: u64) -> Result<u64> {
    // (What is above is between the personality and servers.)
    let flags = flags & 0x1fff_ffff;
    checked_flags(flags)?;
    let process = process();
    process.state().files.check_room()?;
    let file = match open_again(dirfd, name, flags, mode) {
        Ok(opened) => opened?,
        Err(_) if path::own(name) == Some(Own::Descriptors) => {
            return super::directories::open_list(flags);
        }
        Err(mark) => open_otherwise(dirfd, name, flags, mode, mark)?,
    };
    descriptor(file, flags)
}

/// The descriptor of what was opened.
pub fn descriptor(file: Arc<OpenFile>, flags: u64) -> Result<u64> {
    let cloexec = flags & o::CLOEXEC != 0;
    let fd = process().state().files.insert(file, cloexec, 0)?;
    Ok(fd as u64)
}

/// What a manager opened.
fn new_file(slot: u32, home: u32, words: &[u64; 8], flags: u64) -> Arc<OpenFile> {
    let mut file = OpenFile::portal(slot, words[2], words[1] as u32);
    file.path_only = flags & o::PATH != 0;
    file.home = home;
    Arc::new(file)
}

/// Open a name; the flags are open(2)'s.
pub fn open_file(dirfd: i32, name: &[u8], flags: u64, mode: u64) -> Result<Arc<OpenFile>> {
    match open_again(dirfd, name, flags, mode) {
        Ok(opened) => opened,
        Err(mark) => open_otherwise(dirfd, name, flags, mode, mark),
    }
}

/// memfd_create(2): where files lie in memory, if there is such a place. Elsewhere a file has no seals.
pub fn memory_file(sealable: bool) -> Result<Arc<OpenFile>> {
    const MODE: u64 = 0o777;
    let flags = o::TMPFILE | o::RDWR | if sealable { fs::SEALABLE } else { 0 };
    let open = |name: &[u8]| open_file(AT_FDCWD, name, flags, MODE);
    let file = open(b"/run/shm").or_else(|_| unnamed_file(MODE))?;
    if process().state().files.umask() & MODE as u32 != 0 {
        Request::new(&[fs::CHMOD, MODE, 0]).call(file.slot())?;
    }
    Ok(file)
}

/// A file without a name, in /tmp or the root.
pub fn unnamed_file(mode: u64) -> Result<Arc<OpenFile>> {
    let open = |name: &[u8]| open_file(AT_FDCWD, name, o::TMPFILE | o::RDWR, mode);
    open(b"/tmp").or_else(|_| open(b"/"))
}

#[inline(never)]
fn open_otherwise(
    dirfd: i32,
    name: &[u8],
    flags: u64,
    mode: u64,
    mark: u64,
) -> Result<Arc<OpenFile>> {
    if path::own(name) == Some(Own::Exe) {
        let exe = process().state().exe.clone();
        return open_named(dirfd, &exe, flags, mode, mark);
    }
    open_named(dirfd, name, flags, mode, mark)
}

fn open_named(dirfd: i32, name: &[u8], flags: u64, mode: u64, mark: u64) -> Result<Arc<OpenFile>> {
    if name.is_empty() {
        return Err(ENOENT);
    }
    open_at(&path::start(dirfd, name)?, flags, mode, mark)
}

/// Open a name below an open directory.
pub fn open_from(
    directory: Arc<OpenFile>,
    name: &[u8],
    flags: u64,
    mode: u64,
) -> Result<Arc<OpenFile>> {
    open_at(&path::at_file(directory, name), flags, mode, 0)
}

fn open_at(start: &Start, flags: u64, mode: u64, mark: u64) -> Result<Arc<OpenFile>> {
    let umask = room_and_umask()?;
    let mode = mode & 0o7777 & !(umask as u64);
    let sent = flags & !o::CLOEXEC;
    path::walk_from(start, |start, answer| {
        if let Some(file) = start.own_file() {
            if file.object.is_some() {
                return Err(ENOSYS);
            }
        }
        let request = Request::new(&[fs::OPEN | mark, sent, mode]);
        let request = request.path(&start.rest).brings(1);
        let (result, words) = path::send_wait(request, start.slot, answer)?;
        match (result, words[7] as u32) {
            (Ok(()), slot) => Ok(new_file(slot, start.home, &words, flags)),
            (Err(error), 0) => Err(error),
            // A FIFO comes itself.
            (Err(_), right) => {
                let request = Request::new(&[fs::OPEN, sent, mode]).brings(1);
                let opened = request.wait(right);
                gate::close(right);
                let words = opened?;
                Ok(new_file(words[7] as u32, NO_SLOT, &words, flags))
            }
        }
    })
}

/// The usual case: a message of words, with a portal that was kept if there is one. If that does not do, what marks the request then ([`fs::AGAIN`] or 0).
#[inline(always)]
fn open_again(
    dirfd: i32,
    name: &[u8],
    flags: u64,
    mode: u64,
) -> core::result::Result<Result<Arc<OpenFile>>, u64> {
    let mut state = process().state();
    let start = path::start_in(&state, dirfd, name).ok_or(0u64)?;
    let spare = match state.wants_growth(PORTALS) {
        true => return Err(0),
        false => state.spares.take(start.home),
    };
    let mode = mode & 0o7777 & !(state.files.umask() as u64);
    drop(state);
    let [slot, generation] = spare.as_ref().map_or([0; 2], Spare::named);
    let sent = flags & !o::CLOEXEC;
    let mut words = [fs::OPEN, sent | slot, mode | generation, 0, 0, 0, 0, 0];
    let answer = match put_path(&mut words, &start.rest) {
        true => request::exchange_perhaps(start.slot, words),
        false => Err(0),
    };
    let put_back = |spare: Option<Spare>| spare.into_iter().for_each(spare::put);
    match answer {
        // The manager does not know what was kept (any more), or nothing was: a new portal.
        Ok((words, true)) => Ok(Ok(new_file(words[7] as u32, start.home, &words, flags))),
        Ok((words, false)) => match (check(words[0]), spare) {
            (Ok(_), Some(spare)) => {
                let path_only = flags & o::PATH != 0;
                Ok(Ok(spare.opened(words[2], words[1] as u32, path_only)))
            }
            (Ok(_), None) => Ok(Err(EIO)),
            (Err(error), spare) => {
                put_back(spare);
                match error {
                    REDIRECT => Err(0),
                    error => Ok(Err(error)),
                }
            }
        },
        Err(mark) => {
            put_back(spare);
            Err(mark)
        }
    }
}

/// Make room in the portal table for what may come.
fn room_and_umask() -> Result<u32> {
    let state = process().state();
    let umask = state.files.umask();
    if state.wants_growth(PORTALS) {
        drop(state);
        make_room()?;
    }
    Ok(umask)
}

/// A directory to stand in.
pub fn open_directory(dirfd: i32, name: &[u8]) -> Result<Arc<OpenFile>> {
    let file = open_file(dirfd, name, o::PATH | o::DIRECTORY, 0)?;
    if file.mode & s::IFMT != s::IFDIR && !file.is(kind::DIRECTORY) {
        return Err(ENOTDIR);
    }
    Ok(file)
}

/// The same directory by a handle from which no name leads above it.
pub fn open_rooted(directory: &OpenFile) -> Result<Arc<OpenFile>> {
    make_room()?;
    let flags = o::PATH | o::DIRECTORY;
    let request = Request::new(&[fs::OPEN, flags, fs::ROOTED]).brings(1);
    let words = request.call(directory.slot())?;
    Ok(new_file(words[7] as u32, directory.home, &words, flags))
}

pub fn umask(f: &mut Frame) -> Result<u64> {
    let process = process();
    let mut state = process.state();
    let old = state.files.umask();
    state.files.set_umask(f.arg(0) as u32);
    Ok(old.into())
}

pub fn chdir(f: &mut Frame) -> Result<u64> {
    let mut name = UserString::empty();
    name.fill(f.arg(0))?;
    change_directory(AT_FDCWD, name.as_bytes())
}

/// Step into a directory: it must be searchable.
fn change_directory(dirfd: i32, name: &[u8]) -> Result<u64> {
    let file = open_directory(dirfd, name)?;
    super::attributes::check_search(&file)?;
    let old = process().state().set_cwd(Some(file));
    drop(old);
    Ok(0)
}

pub fn fchdir(f: &mut Frame) -> Result<u64> {
    let fd = crate::descriptors::number(f.arg(0))?;
    let file = process().state().files.get(fd)?;
    if file.mode & s::IFMT != s::IFDIR {
        return Err(ENOTDIR);
    }
    super::attributes::check_search(&file)?;
    let old = process().state().set_cwd(Some(file));
    drop(old);
    Ok(0)
}

pub fn getcwd(f: &mut Frame) -> Result<u64> {
    let (buffer, size) = (f.arg(0), f.arg(1));
    let cwd = process().state().cwd.clone();
    let mut name: Buffer<{ PATH_MAX + 1 }> = Buffer::new();
    match cwd {
        Some(cwd) => path::path_into(&cwd, &mut name)?,
        None => name.set(b"/"),
    }
    let (root_length, outside) = {
        let state = process().state();
        let root = state.root.as_ref();
        let inside = root.filter(|root| root.below(name.as_bytes()).is_some());
        let outside = root.is_some() && inside.is_none();
        (inside.map_or(0, |root| root.name.len()), outside)
    };
    if outside {
        // (As chroot(2) leaves it: the C libraries say ENOENT.)
        let path = name.as_bytes().to_vec();
        name.set(b"(unreachable)");
        name.append(&path);
    }
    if root_length != 0 && root_length == name.as_bytes().len() {
        name.append(b"/");
    }
    name.append(b"\0");
    let name = &name.as_bytes()[root_length..];
    if size < name.len() as u64 {
        return Err(crate::errno::ERANGE);
    }
    user::write_bytes(buffer, name).map_err(|_| EFAULT)?;
    Ok(name.len() as u64)
}

/// chroot for those who may: names begin at a rooted handle from now on, and the portals of mounts go (the working directory, and what else is open, stays as it is).
pub fn chroot(f: &mut Frame) -> Result<u64> {
    let mut name = UserString::empty();
    name.fill(f.arg(0))?;
    let process = process();
    let file = open_directory(AT_FDCWD, name.as_bytes())?;
    if !process.is_capable(SYS_CHROOT) {
        return Err(crate::errno::EPERM);
    }
    let mut name = path::path_of(&file)?;
    if name == b"/" {
        if process.state().root.is_none() {
            return Ok(0);
        }
        name.clear();
    }
    let directory = open_rooted(&file)?;
    // `proc` gives it to set-id programs.
    Request::new(&[proc::SET_ROOT])
        .out(&name)
        .pass(directory.slot())
        .call(linux_slot::PROC)?;
    path::set_root(Root { name, directory });
    space::left_root();
    Ok(0)
}
