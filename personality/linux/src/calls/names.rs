//! Calls that make, change and remove names.

use super::others;
use crate::descriptors::OpenFile;
use crate::errno::{Errno, Result, EINVAL, ENOENT};
use crate::machine::area::{process, Frame};
use crate::machine::buffer::Buffer;
use crate::machine::request::Request;
use crate::machine::user::{self, UserString};
use crate::path::{self, send, send_wait, walk, walk_two, Answer, Start, AT_FDCWD};
use crate::prefix::Own;
use alloc::vec::Vec;
use cairn_idl::capability::DAC_READ_SEARCH;
use cairn_idl::fs::{self, at, o, PATH_MAX};

fn one(dirfd: i32, name: u64, words: &[u64]) -> Result<u64> {
    let address = name;
    let mut name = UserString::empty();
    name.fill(address)?;
    walk(dirfd, name.as_bytes(), |start, answer| {
        send(Request::new(words).path(&start.rest), start.slot, answer)
    })
    .map(|_| 0)
}

fn with_umask(mode: u64) -> u64 {
    mode & !(process().state().files.umask() as u64)
}

pub fn mkdir(f: &mut Frame) -> Result<u64> {
    one(
        AT_FDCWD,
        f.arg(0),
        &[fs::MKDIR, with_umask(f.arg(1) & 0o7777)],
    )
}

pub fn mkdirat(f: &mut Frame) -> Result<u64> {
    one(
        f.arg(0) as i32,
        f.arg(1),
        &[fs::MKDIR, with_umask(f.arg(2) & 0o7777)],
    )
}

fn make_node(dirfd: i32, name: u64, mode: u64, device: u64) -> Result<u64> {
    let mode = mode & 0xffff;
    // No type means a regular file.
    let mode = if mode & 0o170000 == 0 {
        mode | 0o100000
    } else {
        mode
    };
    one(
        dirfd,
        name,
        &[fs::MKNOD, with_umask(mode), device & 0xffff_ffff],
    )
}

pub fn mknod(f: &mut Frame) -> Result<u64> {
    make_node(AT_FDCWD, f.arg(0), f.arg(1), f.arg(2))
}

pub fn mknodat(f: &mut Frame) -> Result<u64> {
    make_node(f.arg(0) as i32, f.arg(1), f.arg(2), f.arg(3))
}

pub fn unlink(f: &mut Frame) -> Result<u64> {
    one(AT_FDCWD, f.arg(0), &[fs::UNLINK, 0])
}

pub fn rmdir(f: &mut Frame) -> Result<u64> {
    one(AT_FDCWD, f.arg(0), &[fs::UNLINK, at::REMOVEDIR])
}

pub fn unlinkat(f: &mut Frame) -> Result<u64> {
    if f.arg(2) & !at::REMOVEDIR != 0 {
        return Err(EINVAL);
    }
    one(f.arg(0) as i32, f.arg(1), &[fs::UNLINK, f.arg(2)])
}

/// Two names as one message carries them. Neither is longer than PATH_MAX.
type Both = Buffer<{ 2 * PATH_MAX + 1 }>;

fn join(names: &mut Both, first: &[u8], second: &[u8]) {
    names.set(first);
    names.append(b"\0");
    names.append(second);
}

/// An operation on two names, which may lie with two managers.
fn two(words: &[u64; 2], old: (i32, &[u8]), new: (i32, &[u8])) -> Result<u64> {
    walk_two(old, new, |a: &Start, b: &Start, answer: &mut Answer| {
        let mut names = Both::new();
        join(&mut names, &a.rest, &b.rest);
        let mut request = Request::new(words).out(names.as_bytes());
        if a.slot != b.slot {
            request = request.pass(b.slot);
        }
        let (result, words) = answer.receive(request).call_words(a.slot);
        path::redirect(result, &words, answer)
            .map(|()| words)
            .map_err(|error: Errno| (error, words[2]))
    })
    .map(|_| 0)
}

/// The second of two names cannot be read: what is wrong with the first comes before that. `whole`: all of it is looked up, else the folder that it is in.
#[cold]
fn after(dirfd: i32, first: &[u8], whole: bool, error: Errno) -> Result<()> {
    let folder = match first.iter().rposition(|&byte| byte == b'/') {
        _ if first.is_empty() => return Err(ENOENT),
        _ if whole => first.to_vec(),
        Some(slash) => [&first[..slash], b"/."].concat(),
        None => b".".to_vec(),
    };
    super::open::open_file(dirfd, &folder, o::PATH | o::NOFOLLOW, 0)?;
    Err(error)
}

/// A name that is one.
fn filled(name: &mut UserString, address: u64) -> Result<()> {
    name.fill(address)?;
    match name.as_bytes() {
        [] => Err(ENOENT),
        _ => Ok(()),
    }
}

fn rename_names(old: (i32, u64), new: (i32, u64), flags: u64) -> Result<u64> {
    let flags = flags & 0xffff_ffff;
    if flags & !7 != 0 {
        return Err(EINVAL);
    }
    let mut from = UserString::empty();
    let mut to = UserString::empty();
    from.fill(old.1)?;
    filled(&mut to, new.1).or_else(|error| after(old.0, from.as_bytes(), false, error))?;
    two(
        &[fs::RENAME, flags],
        (old.0, from.as_bytes()),
        (new.0, to.as_bytes()),
    )
}

pub fn rename(f: &mut Frame) -> Result<u64> {
    rename_names((AT_FDCWD, f.arg(0)), (AT_FDCWD, f.arg(1)), 0)
}

pub fn renameat(f: &mut Frame) -> Result<u64> {
    rename_names((f.arg(0) as i32, f.arg(1)), (f.arg(2) as i32, f.arg(3)), 0)
}

pub fn renameat2(f: &mut Frame) -> Result<u64> {
    rename_names(
        (f.arg(0) as i32, f.arg(1)),
        (f.arg(2) as i32, f.arg(3)),
        f.arg(4),
    )
}

fn link_names(old: (i32, u64), new: (i32, u64), flags: u64) -> Result<u64> {
    if flags & !(at::SYMLINK_FOLLOW | at::EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    // Whoever holds a file open need not have the right to its folder.
    if flags & at::EMPTY_PATH != 0 && !process().is_capable(DAC_READ_SEARCH) {
        return Err(ENOENT);
    }
    let mut from = UserString::empty();
    let mut to = UserString::empty();
    from.fill(old.1)?;
    if !from.as_bytes().is_empty() {
        filled(&mut to, new.1).or_else(|error| after(old.0, from.as_bytes(), true, error))?;
    } else if flags & at::EMPTY_PATH != 0 {
        to.fill(new.1)?;
    }
    if from.as_bytes().is_empty() {
        if flags & at::EMPTY_PATH == 0 {
            return Err(ENOENT);
        }
        return link_open_file(old.0, (new.0, to.as_bytes()));
    }
    two(
        &[fs::LINK, flags & at::SYMLINK_FOLLOW],
        (old.0, from.as_bytes()),
        (new.0, to.as_bytes()),
    )
}

/// linkat with AT_EMPTY_PATH: a name for an open file, through its `/dev/fd` name.
fn link_open_file(fd: i32, new: (i32, &[u8])) -> Result<u64> {
    if fd != AT_FDCWD {
        super::io::file(fd as u32 as u64)?;
    }
    let mut line = crate::text::Line::new();
    line.text("/proc/self/fd/").signed(fd as i64);
    two(
        &[fs::LINK, at::SYMLINK_FOLLOW],
        (AT_FDCWD, line.bytes()),
        new,
    )
}

pub fn link(f: &mut Frame) -> Result<u64> {
    link_names((AT_FDCWD, f.arg(0)), (AT_FDCWD, f.arg(1)), 0)
}

pub fn linkat(f: &mut Frame) -> Result<u64> {
    link_names(
        (f.arg(0) as i32, f.arg(1)),
        (f.arg(2) as i32, f.arg(3)),
        f.arg(4),
    )
}

fn make_symlink(target: u64, dirfd: i32, name: u64) -> Result<u64> {
    let (text, place) = (target, name);
    let mut target = UserString::empty();
    let mut name = UserString::empty();
    target.fill(text)?;
    if target.as_bytes().is_empty() {
        return Err(ENOENT);
    }
    name.fill(place)?;
    walk(dirfd, name.as_bytes(), |start, answer| {
        let mut names = Both::new();
        join(&mut names, target.as_bytes(), &start.rest);
        let request = Request::new(&[fs::SYMLINK]).out(names.as_bytes());
        send(request, start.slot, answer)
    })
    .map(|_| 0)
}

pub fn symlink(f: &mut Frame) -> Result<u64> {
    make_symlink(f.arg(0), AT_FDCWD, f.arg(1))
}

pub fn symlinkat(f: &mut Frame) -> Result<u64> {
    make_symlink(f.arg(0), f.arg(1) as i32, f.arg(2))
}

pub fn readlink(f: &mut Frame) -> Result<u64> {
    read_link(AT_FDCWD, f.arg(0), f.arg(1), f.arg(2))
}

pub fn readlinkat(f: &mut Frame) -> Result<u64> {
    read_link(f.arg(0) as i32, f.arg(1), f.arg(2), f.arg(3))
}

fn read_link(dirfd: i32, name: u64, buffer: u64, size: u64) -> Result<u64> {
    let size = size as i32;
    if size <= 0 {
        return Err(EINVAL);
    }
    let give = |bytes: &[u8]| {
        let count = bytes.len().min(size as usize);
        user::write_bytes(buffer, &bytes[..count]).map(|()| count as u64)
    };
    let address = name;
    let mut name = UserString::empty();
    name.fill(address)?;
    if name.as_bytes().is_empty() && dirfd != AT_FDCWD {
        // The link that O_PATH|O_NOFOLLOW opened.
        let file = super::io::file(dirfd as u64)?;
        let mut answer = Answer::new();
        let request = Request::new(&[fs::READLINK]).path(b"");
        let words = match file.mode & fs::s::IFMT {
            fs::s::IFLNK => send(request, file.slot(), &mut answer)?,
            // No name, and no link either.
            _ => return Err(ENOENT),
        };
        answer.filled(words[0]);
        return give(answer.as_bytes());
    }
    match path::own(name.as_bytes()) {
        Some(Own::Exe) => return give(&process().state().exe.clone()),
        Some(Own::Cwd(b"")) => {
            let cwd = process().state().cwd.clone().ok_or(ENOENT)?;
            return give(&path::place_of(&cwd)?);
        }
        Some(Own::Descriptor(fd, b"")) if name.as_bytes().starts_with(b"/dev/std") => {
            let mut line = crate::text::Line::new();
            line.text("/proc/self/fd/").signed(fd as i64);
            return give(line.bytes());
        }
        Some(Own::Descriptor(fd, b""))
            // (Where /proc is mounted may be anywhere.)
            if name.as_bytes().windows(4).any(|part| part == b"/fd/") =>
        {
            return give(&descriptor_name(fd)?);
        }
        _ => {}
    }
    walk(dirfd, name.as_bytes(), |start, answer| {
        let request = Request::new(&[fs::READLINK]).path(&start.rest);
        let words = send(request, start.slot, answer)?;
        answer.filled(words[0]);
        match answer.as_bytes() {
            // An open file of another process.
            link @ [0, ..] => give(&name_of(&others::behind(link)?.0)?),
            link => give(link),
        }
    })
}

/// What /proc/self/fd/N points at.
fn descriptor_name(fd: u32) -> Result<Vec<u8>> {
    let file = process().state().files.get(fd).map_err(|_| ENOENT)?;
    name_of(&file)
}

/// The same of an open file.
fn name_of(file: &OpenFile) -> Result<Vec<u8>> {
    let mut line = crate::text::Line::new();
    if let Some(object) = &file.object {
        line.text("anon_inode:[").text(object.name()).text("]");
        return Ok(line.bytes().to_vec());
    }
    match path::place_of(file) {
        // (The name that memfd_create(2) was given is nowhere kept.)
        Ok(path) if path.starts_with(b"/run/shm/#") => Ok(b"/memfd: (deleted)".to_vec()),
        Ok(path) => Ok(path),
        Err(_) => {
            let stat = super::status::stat_handle(file)?;
            let kind = match stat.mode & fs::s::IFMT {
                fs::s::IFSOCK => "socket",
                fs::s::IFREG | fs::s::IFDIR | fs::s::IFLNK => return Ok(b"(deleted)".to_vec()),
                _ => "pipe",
            };
            line.text(kind).text(":[").number(stat.ino).text("]");
            Ok(line.bytes().to_vec())
        }
    }
}

pub fn truncate(f: &mut Frame) -> Result<u64> {
    if (f.arg(1) as i64) < 0 {
        return Err(EINVAL);
    }
    let mut name = UserString::empty();
    name.fill(f.arg(0))?;
    // (It waits while somebody has a lease on the file.)
    walk(AT_FDCWD, name.as_bytes(), |start, answer| {
        let request = Request::new(&[fs::TRUNCATE, f.arg(1)]).path(&start.rest);
        send_wait(request, start.slot, answer)?.0
    })
    .map(|()| 0)
}
