//! stat and its relatives, statfs.

use super::io::file;
use super::{handles, ids};
use crate::descriptors::{OpenFile, NO_SLOT};
use crate::errno::{check, Result, EBADF, EINVAL, ENOENT};
use crate::machine::area::{process, Frame};
use crate::machine::request::{self, put_path, Request};
use crate::machine::user::{self, UserString};
use crate::path::{self, send, walk, Answer, AT_FDCWD, REDIRECT};
use crate::prefix::{self, Own};
use crate::user_space;
use cairn_idl::fs::{self, at, Stat};
use cairn_idl::stat_words as fs_words;
use core::mem::size_of;
use core::sync::atomic::Ordering;

const NO_AUTOMOUNT: u64 = 0x800;
const STATX_SYNC: u64 = 0x6000;
/// In the mask of statx.
const BIRTH: u32 = 0x800;
const STATX_RESERVED: u64 = 0x8000_0000;

/// The status of an open file.
pub fn stat_handle(file: &OpenFile) -> Result<Stat> {
    stat_handle_with(file, 0)
}

/// With bits of STAT's w1.
fn stat_handle_with(file: &OpenFile, bits: u64) -> Result<Stat> {
    let mut stat = Stat::default();
    if let Some(object) = &file.object {
        stat.mode = file.mode;
        stat.nlink = 1;
        stat.blksize = 4096;
        stat.ino = object.inode();
        return Ok(stat);
    }
    Request::new(&[fs::STAT, bits])
        .input_value(&mut stat)
        .call(file.slot())?;
    user_space::show(&mut stat);
    Ok(stat)
}

/// STAT with the answer in words, to the program; `None` if that does not do: the file is unusual, or its name leads elsewhere.
#[inline(always)]
fn stat_words(slot: u32, mut words: [u64; 8], buffer: u64) -> Option<Result<u64>> {
    words[1] |= fs::STAT_WORDS;
    let answer = request::exchange(slot, words)?;
    match answer[0] as i64 {
        1.. if answer[0] & 1 != 0 => {
            let mut stat = fs_words::unpack(&answer);
            user_space::show(&mut stat);
            Some(user::write(buffer, &stat).map(|()| 0))
        }
        0.. => None,
        _ => match check(answer[0]) {
            Err(REDIRECT) => None,
            other => Some(other.map(|_| 0)),
        },
    }
}

/// The status of a short name, none of the process's own.
#[inline(always)]
fn stat_short(dirfd: i32, name: &[u8], buffer: u64, flags: u64) -> Option<Result<u64>> {
    let start = path::start_in(&process().state(), dirfd, name)?;
    let mut words = [fs::STAT, flags & at::SYMLINK_NOFOLLOW, 0, 0, 0, 0, 0, 0];
    match put_path(&mut words, &start.rest) {
        true => stat_words(start.slot, words, buffer),
        false => None,
    }
}

/// The status of a name, in the answer's first bytes.
fn stat_name(
    dirfd: i32,
    name: &[u8],
    flags: u64,
    give: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let follow = flags & at::SYMLINK_NOFOLLOW == 0;
    if prefix::may_be_own(name) || process().in_space.load(Ordering::Relaxed) {
        if let Some(result) = stat_own(name, follow, give) {
            return result;
        }
    }
    walk(dirfd, name, |start, answer| {
        let words = [fs::STAT, flags & (at::SYMLINK_NOFOLLOW | fs::STAT_BIRTH)];
        if let Some(file) = start.own_file().filter(|file| file.object.is_some()) {
            return give(user::bytes_of(&stat_handle(file)?));
        }
        send(Request::new(&words).path(&start.rest), start.slot, answer)?;
        answer.filled(size_of::<Stat>() as u64);
        if !user_space::is_inside() {
            return give(answer.as_bytes());
        }
        let mut stat = Stat::default();
        let bytes = answer.as_bytes();
        let all = user::bytes_of_mut(&mut stat);
        let count = bytes.len().min(all.len());
        all[..count].copy_from_slice(&bytes[..count]);
        user_space::show(&mut stat);
        give(user::bytes_of(&stat))
    })
    .map(|_| 0)
}

/// Names of this process's own: links (unless followed) and the list of descriptors.
fn stat_own(
    name: &[u8],
    follow: bool,
    give: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Option<Result<u64>> {
    let own = path::own(name)?;
    let mut stat = Stat {
        nlink: 1,
        blksize: 1024,
        uid: ids::effective()[0],
        gid: ids::effective()[1],
        ..Stat::default()
    };
    match own {
        Own::Descriptors if follow || !name.ends_with(b"fd") || name.starts_with(b"/proc") => {
            stat.mode = fs::s::IFDIR | 0o500;
            stat.nlink = 2;
            stat.ino = 2;
        }
        Own::Descriptor(fd, b"") if !follow && !name.starts_with(b"/dev/std") => {
            if process().state().files.get(fd).is_err() {
                return Some(Err(ENOENT));
            }
            stat.mode = fs::s::IFLNK | 0o700;
            stat.size = 64;
            stat.ino = 16 + fd as u64;
        }
        // /dev/stdin and its like: the links are /dev's, but only this process knows what is behind them.
        Own::Descriptor(_, b"") if !follow => {
            stat.mode = fs::s::IFLNK | 0o777;
            stat.size = b"/proc/self/fd/0".len() as i64;
            stat.ino = 16;
            (stat.uid, stat.gid) = (0, 0);
        }
        Own::Exe if follow => {
            let exe = process().state().exe.clone();
            return Some(stat_name(AT_FDCWD, &exe, 0, give));
        }
        _ => return None,
    }
    Some(give(user::bytes_of(&stat)).map(|()| 0))
}

#[inline(always)]
fn stat_to(dirfd: i32, name: u64, buffer: u64, flags: u64) -> Result<u64> {
    let address = name;
    let mut name = UserString::empty();
    name.fill(address)?;
    if name.as_bytes().is_empty() {
        if flags & at::EMPTY_PATH == 0 {
            return Err(ENOENT);
        }
        return stat_file(dirfd, buffer);
    }
    if let Some(result) = stat_short(dirfd, name.as_bytes(), buffer, flags) {
        return result;
    }
    stat_name(dirfd, name.as_bytes(), flags, &mut |bytes| {
        user::write_bytes(buffer, bytes)
    })
}

/// fstat, and fstatat with an empty name.
fn stat_file(fd: i32, buffer: u64) -> Result<u64> {
    if fd == AT_FDCWD {
        return stat_name(AT_FDCWD, b".", 0, &mut |bytes| {
            user::write_bytes(buffer, bytes)
        });
    }
    let file = file(fd as u64)?;
    if file.object.is_some() || user_space::is_inside() {
        user::write(buffer, &stat_handle(&file)?)?;
        return Ok(0);
    }
    let words = [fs::STAT, 0, 0, 0, 0, 0, 0, 0];
    // Devices' numbers do not fit.
    if file.mode & fs::s::IFCHR == 0 {
        if let Some(result) = stat_words(file.slot(), words, buffer) {
            return result;
        }
    }
    Request::new(&[fs::STAT, 0])
        .input_user(user::range(buffer, size_of::<Stat>() as u64)?)
        .call(file.slot())
        .map(|_| 0)
}

pub fn stat(f: &mut Frame) -> Result<u64> {
    stat_to(AT_FDCWD, f.arg(0), f.arg(1), 0)
}

pub fn lstat(f: &mut Frame) -> Result<u64> {
    stat_to(AT_FDCWD, f.arg(0), f.arg(1), at::SYMLINK_NOFOLLOW)
}

pub fn fstat(f: &mut Frame) -> Result<u64> {
    if (f.arg(0) as i32) < 0 {
        return Err(EBADF);
    }
    stat_file(f.arg(0) as i32, f.arg(1))
}

pub fn newfstatat(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(3);
    if flags & !(at::SYMLINK_NOFOLLOW | at::EMPTY_PATH | NO_AUTOMOUNT | STATX_SYNC) != 0 {
        return Err(EINVAL);
    }
    // How fresh the answer must be is a question for file systems of a network.
    stat_to(f.arg(0) as i32, f.arg(1), f.arg(2), flags & !STATX_SYNC)
}

/// `struct statx` (256 bytes) from `struct stat`: basic statistics, and the birth time if it is there ([`fs::STAT_BIRTH`]).
/// The number of the mount in which a file lies, if it has a name.
#[cold]
fn mount_number(dirfd: i32, name: Option<u64>, follow: bool, empty: bool) -> Option<u64> {
    let found = match name {
        Some(name) => handles::named(dirfd, name, follow, empty).ok()?,
        None => file(dirfd as u32 as u64).ok()?,
    };
    match found.object {
        Some(_) => None,
        None => Some(handles::mount_of(&found) as u64),
    }
}

/// STATX_MNT_ID, and where it stands.
const MOUNT_ID: u32 = 0x1000;
const MOUNT_ID_AT: usize = 144;

/// STATX_ATTR_MOUNT_ROOT
const MOUNT_ROOT: u64 = 0x2000;

/// The file is the root of a mount. In a mount name space of the process's own a mount's root is that of its handle.
fn is_mount_root(stat: &Stat) -> bool {
    let roots = match process().in_space.load(Ordering::Relaxed) {
        true => fs::ROOT_OF_ALL | fs::ROOT_OF_HANDLE,
        false => fs::ROOT_OF_ALL,
    };
    stat.unused[2] & roots != 0
}

fn statx_bytes(s: &Stat, is_root: bool) -> [u8; 256] {
    const BASIC: u32 = 0x7ff;
    let [birth, birth_ns, known] = s.unused;
    let mask = BASIC | if known & 1 != 0 { BIRTH } else { 0 };
    // The attributes that are set, and those that could be.
    let (attributes, could_be) = ((known >> 8 & 0xff) as u64, (known >> 16 & 0xff) as u64);
    let attributes = attributes | if is_root { MOUNT_ROOT } else { 0 };
    let could_be = could_be | MOUNT_ROOT;
    let mut b = [0; 256];
    let mut put = |at: usize, bytes: &[u8]| b[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &mask.to_le_bytes());
    put(4, &(s.blksize as u32).to_le_bytes());
    put(8, &attributes.to_le_bytes());
    put(56, &could_be.to_le_bytes());
    put(16, &(s.nlink as u32).to_le_bytes());
    put(20, &s.uid.to_le_bytes());
    put(24, &s.gid.to_le_bytes());
    put(28, &(s.mode as u16).to_le_bytes());
    put(32, &s.ino.to_le_bytes());
    put(40, &s.size.to_le_bytes());
    put(48, &s.blocks.to_le_bytes());
    for (at, seconds, ns) in [
        (64, s.atime, s.atime_ns),
        (80, birth, birth_ns),
        (96, s.ctime, s.ctime_ns),
        (112, s.mtime, s.mtime_ns),
    ] {
        put(at, &seconds.to_le_bytes());
        put(at + 8, &(ns as u32).to_le_bytes());
    }
    for (at, device) in [(128, s.rdev), (136, s.dev)] {
        put(at, &major(device).to_le_bytes());
        put(at + 4, &minor(device).to_le_bytes());
    }
    b
}

pub fn major(device: u64) -> u32 {
    (device >> 8) as u32 & 0xfff | (device >> 32) as u32 & !0xfff
}

pub fn minor(device: u64) -> u32 {
    device as u32 & 0xff | (device >> 12) as u32 & !0xff
}

pub fn statx(f: &mut Frame) -> Result<u64> {
    let (dirfd, flags, buffer) = (f.arg(0) as i32, f.arg(2) & 0xffff_ffff, f.arg(4));
    let known = at::SYMLINK_NOFOLLOW | at::EMPTY_PATH | NO_AUTOMOUNT | STATX_SYNC;
    if flags & !known != 0 || flags & STATX_SYNC == STATX_SYNC || f.arg(3) & STATX_RESERVED != 0 {
        return Err(EINVAL);
    }
    // With the birth time come the attributes, which are always told.
    let birth = fs::STAT_BIRTH;
    let asked = f.arg(3) as u32 & BIRTH;
    let mount = match f.arg(3) & u64::from(MOUNT_ID) {
        0 => None,
        _ => {
            let (follow, empty) = (flags & at::SYMLINK_NOFOLLOW == 0, flags & at::EMPTY_PATH);
            let name = if f.arg(1) == 0 { None } else { Some(f.arg(1)) };
            mount_number(dirfd, name, follow, empty != 0)
        }
    };
    let mut give = |bytes: &[u8]| {
        let mut stat = Stat::default();
        let target = user::bytes_of_mut(&mut stat);
        let count = bytes.len().min(target.len());
        target[..count].copy_from_slice(&bytes[..count]);
        let mut bytes = statx_bytes(&stat, is_mount_root(&stat));
        if asked == 0 {
            bytes[1] &= !((BIRTH >> 8) as u8);
            bytes[80..92].fill(0);
        }
        if let Some(number) = mount {
            bytes[1] |= (MOUNT_ID >> 8) as u8;
            bytes[MOUNT_ID_AT..MOUNT_ID_AT + 8].copy_from_slice(&number.to_le_bytes());
        }
        user::write_bytes(buffer, &bytes)
    };
    let mut name = UserString::empty();
    if f.arg(1) != 0 || flags & at::EMPTY_PATH == 0 {
        name.fill(f.arg(1))?;
    }
    match name.as_bytes() {
        b"" if flags & at::EMPTY_PATH == 0 => Err(ENOENT),
        b"" if dirfd == AT_FDCWD => stat_name(dirfd, b".", birth, &mut give),
        b"" => {
            let stat = stat_handle_with(&*file(dirfd as u64)?, birth)?;
            give(user::bytes_of(&stat)).map(|()| 0)
        }
        name => stat_name(dirfd, name, flags & 0xffff_ffff | birth, &mut give),
    }
}

pub fn statfs(f: &mut Frame) -> Result<u64> {
    let mut name = UserString::empty();
    name.fill(f.arg(0))?;
    let buffer = f.arg(1);
    walk(AT_FDCWD, name.as_bytes(), |start, answer: &mut Answer| {
        send(
            Request::new(&[fs::STATFS]).path(&start.rest),
            start.slot,
            answer,
        )?;
        answer.filled(size_of::<fs::Statfs>() as u64);
        user::write_bytes(buffer, answer.as_bytes())
    })
    .map(|()| 0)
}

pub fn fstatfs(f: &mut Frame) -> Result<u64> {
    let file = file(f.arg(0))?;
    if file.object.is_some() {
        return Err(EINVAL);
    }
    let range = user::range(f.arg(1), size_of::<fs::Statfs>() as u64)?;
    Request::new(&[fs::STATFS])
        .input_user(range)
        .call(file.slot())?;
    match own_kind(&file) {
        0 => Ok(0),
        kind => user::write(f.arg(1), &kind).map(|()| 0),
    }
}

/// `f_type` of what is in no file system: pipefs, sockfs, anon_inodefs.
fn own_kind(file: &OpenFile) -> u64 {
    match file.mode & fs::s::IFMT {
        // (A FIFO of a file system has its position in it.)
        fs::s::IFIFO if file.home == NO_SLOT => 0x5049_5045,
        fs::s::IFSOCK => 0x534f_434b,
        0 => 0x0904_1934,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statx_fields_lie_where_linux_has_them() {
        let s = Stat {
            mode: 0o100644,
            size: 0x1234,
            rdev: 0x501,
            mtime: 99,
            ..Stat::default()
        };
        let b = statx_bytes(&s, false);
        assert_eq!(&b[28..30], &0o100644u16.to_le_bytes());
        assert_eq!(&b[40..48], &0x1234u64.to_le_bytes());
        assert_eq!(b[112], 99);
        assert_eq!((b[1], b[80]), (0x07, 0));
        let born = Stat {
            unused: [77, 5, 1],
            ..s
        };
        let born = statx_bytes(&born, true);
        assert_eq!((b[9], b[57], born[9], born[57]), (0, 0x20, 0x20, 0x20));
        assert_eq!((born[1], born[80], born[88]), (0x0f, 77, 5));
        assert_eq!((b[128], b[132]), (5, 1));
        assert_eq!((major(0x8801), minor(0x8801)), (0x88, 1));
    }
}
