//! Mode, owner, times, access, extended attributes.

use super::ids;
use super::io::file;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EBADF, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, EOPNOTSUPP, ERANGE};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::{self, UserRange, UserString};
use crate::path::{send, start, walk, AT_FDCWD, REDIRECT};
use crate::time::SECOND;
use crate::user_space;
use alloc::vec::Vec;
use cairn_idl::fs::{self, at};
use cairn_idl::label;
use core::sync::atomic::{AtomicU32, Ordering};

const NOW: u64 = (1 << 30) - 1;
const OMIT: u64 = (1 << 30) - 2;

/// An operation on a name, or on an open file where AT_EMPTY_PATH (or a null name) says so.
fn on_name(dirfd: i32, name: u64, flags: u64, words: &[u64]) -> Result<u64> {
    let address = name;
    let mut name = UserString::empty();
    name.fill(address)?;
    if name.as_bytes().is_empty() && flags & at::EMPTY_PATH != 0 {
        if dirfd == AT_FDCWD {
            return on_path(dirfd, b".", words);
        }
        return on_file(&*file(dirfd as u64)?, words);
    }
    on_path(dirfd, name.as_bytes(), words)
}

/// Few names lead elsewhere, so at first there is no room for where: less stack is touched, which children and new programs get copies of.
fn on_path(dirfd: i32, name: &[u8], words: &[u64]) -> Result<u64> {
    if name.is_empty() {
        return Err(ENOENT);
    }
    let start = start(dirfd, name)?;
    let near = request(words, &start.rest).call(start.slot);
    match near {
        Err(REDIRECT | ENAMETOOLONG) => on_far_path(dirfd, name, words),
        other => other.map(|_| 0),
    }
}

#[inline(never)]
fn on_far_path(dirfd: i32, name: &[u8], words: &[u64]) -> Result<u64> {
    walk(dirfd, name, |start, answer| {
        send(request(words, &start.rest), start.slot, answer)
    })
    .map(|_| 0)
}

/// With more words of its own an operation has no room for a path there.
#[inline(always)]
fn request<'a>(words: &[u64], path: &'a [u8]) -> Request<'a> {
    let request = Request::new(words);
    match words.len() {
        ..=3 => request.path(path),
        _ => request.out(path),
    }
}

fn on_file(file: &OpenFile, words: &[u64]) -> Result<u64> {
    if file.object.is_some() {
        return Ok(0);
    }
    Request::new(words).call(file.slot()).map(|_| 0)
}

fn mode(argument: u64) -> u64 {
    argument & 0o7777
}

pub fn chmod(f: &mut Frame) -> Result<u64> {
    on_name(AT_FDCWD, f.arg(0), 0, &[fs::CHMOD, mode(f.arg(1)), 0])
}

pub fn fchmodat(f: &mut Frame) -> Result<u64> {
    on_name(
        f.arg(0) as i32,
        f.arg(1),
        0,
        &[fs::CHMOD, mode(f.arg(2)), 0],
    )
}

/// fchmodat2, with flags.
pub fn fchmodat2(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(3);
    if flags & !(at::SYMLINK_NOFOLLOW | at::EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let words = [fs::CHMOD, mode(f.arg(2)), flags];
    on_name(f.arg(0) as i32, f.arg(1), flags, &words)
}

pub fn fchmod(f: &mut Frame) -> Result<u64> {
    on_file(
        &*super::io::usable(f.arg(0))?,
        &[fs::CHMOD, mode(f.arg(1)), 0],
    )
}

fn owner(argument: u64) -> Result<u64> {
    user_space::outside_user(argument as u32)
        .map(u64::from)
        .ok_or(EINVAL)
}

fn group(argument: u64) -> Result<u64> {
    user_space::outside_group(argument as u32)
        .map(u64::from)
        .ok_or(EINVAL)
}

pub fn chown(f: &mut Frame) -> Result<u64> {
    let words = [fs::CHOWN, owner(f.arg(1))?, group(f.arg(2))?, 0];
    on_name(AT_FDCWD, f.arg(0), 0, &words)
}

pub fn lchown(f: &mut Frame) -> Result<u64> {
    let flags = at::SYMLINK_NOFOLLOW;
    let words = [fs::CHOWN, owner(f.arg(1))?, group(f.arg(2))?, flags];
    on_name(AT_FDCWD, f.arg(0), 0, &words)
}

pub fn fchown(f: &mut Frame) -> Result<u64> {
    let words = [fs::CHOWN, owner(f.arg(1))?, group(f.arg(2))?, 0];
    on_file(&*super::io::usable(f.arg(0))?, &words)
}

pub fn fchownat(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(4);
    if flags & !(at::SYMLINK_NOFOLLOW | at::EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let words = [fs::CHOWN, owner(f.arg(2))?, group(f.arg(3))?, flags];
    on_name(f.arg(0) as i32, f.arg(1), flags, &words)
}

fn check_access(dirfd: i32, name: u64, wanted: u64, flags: u64) -> Result<u64> {
    if wanted & !7 != 0 || flags & !(at::EACCESS | at::SYMLINK_NOFOLLOW | at::EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    if flags & at::EACCESS != 0 || is_real() {
        let words = [fs::ACCESS, wanted, flags | at::EACCESS];
        return on_name(dirfd, name, flags, &words);
    }
    let words = [fs::ACCESS, wanted, flags, own_label(false)];
    on_name(dirfd, name, flags, &words)
}

/// The real ids are the effective ones, and so is what they may do: it does not matter by which is asked.
fn is_real() -> bool {
    let process = process();
    let same =
        |a: &AtomicU32, b: &AtomicU32| a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed);
    let allowed = match process.uid.load(Ordering::Relaxed) {
        0 => process.permitted.load(Ordering::Relaxed),
        _ => 0,
    };
    same(&process.uid, &process.euid)
        && same(&process.gid, &process.egid)
        && process.effective.load(Ordering::Relaxed) == allowed
        && !user_space::is_inside()
}

/// Who asks: by the effective or the real ids.
fn own_label(effective: bool) -> u64 {
    let process = process();
    if user_space::is_inside() {
        // Servers know it without privilege.
        let outside = ids::outside_credentials().unwrap_or_default();
        return match effective {
            true => label::with(outside.euid, outside.egid, 0),
            false => label::with(outside.ruid, outside.rgid, 0),
        };
    }
    let (uid, gid) = if effective {
        (&process.euid, &process.egid)
    } else {
        (&process.uid, &process.gid)
    };
    let uid = uid.load(Ordering::Relaxed);
    let capabilities = match (effective, uid) {
        (true, _) => process.effective.load(Ordering::Relaxed),
        (false, 0) => process.permitted.load(Ordering::Relaxed),
        (false, _) => 0,
    };
    label::with(uid, gid.load(Ordering::Relaxed), capabilities)
}

/// May this process search the directory?
pub fn check_search(file: &OpenFile) -> Result<()> {
    if label::has(own_label(true), label::ACCESS) {
        return Ok(());
    }
    on_file(file, &[fs::ACCESS, 1, at::EACCESS, own_label(true)]).map(|_| ())
}

/// May this process execute the file?
pub fn check_execute(file: &OpenFile) -> Result<()> {
    on_file(file, &[fs::ACCESS, 1, at::EACCESS, own_label(true)]).map(|_| ())
}

pub fn access(f: &mut Frame) -> Result<u64> {
    check_access(AT_FDCWD, f.arg(0), f.arg(1), 0)
}

pub fn faccessat(f: &mut Frame) -> Result<u64> {
    check_access(f.arg(0) as i32, f.arg(1), f.arg(2), 0)
}

pub fn faccessat2(f: &mut Frame) -> Result<u64> {
    check_access(f.arg(0) as i32, f.arg(1), f.arg(2), f.arg(3))
}

fn set_times(dirfd: i32, name: u64, flags: u64, times: [u64; 4]) -> Result<u64> {
    if times[1] == OMIT && times[3] == OMIT {
        return Ok(0);
    }
    let [a, an, m, mn] = times;
    let words = [fs::UTIMENS, a, an, m, mn, flags];
    if name == 0 {
        if dirfd == AT_FDCWD {
            return Err(crate::errno::EFAULT);
        }
        return on_file(&*file(dirfd as u64)?, &words);
    }
    on_name(dirfd, name, flags, &words)
}

pub fn utimensat(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(3);
    let times = match f.arg(2) {
        0 => [0, NOW, 0, NOW],
        address => user::read::<[u64; 4]>(address)?,
    };
    if flags & !(at::SYMLINK_NOFOLLOW | at::EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let (dirfd, name) = (f.arg(0) as i32, f.arg(1));
    let is_time = |ns| ns < SECOND || ns == NOW || ns == OMIT;
    match is_time(times[1]) && is_time(times[3]) {
        true => set_times(dirfd, name, flags, times),
        false => no_times(dirfd, name, flags),
    }
}

/// The file comes before its times.
#[cold]
fn no_times(dirfd: i32, name: u64, flags: u64) -> Result<u64> {
    if name == 0 && dirfd != AT_FDCWD {
        file(dirfd as u64)?;
    } else {
        on_name(dirfd, name, flags, &[fs::STAT, flags & NOFOLLOW])?;
    }
    Err(EINVAL)
}

fn timevals(address: u64) -> Result<[u64; 4]> {
    if address == 0 {
        return Ok([0, NOW, 0, NOW]);
    }
    let [a, au, m, mu] = user::read::<[u64; 4]>(address)?;
    if au >= 1_000_000 || mu >= 1_000_000 {
        return Err(EINVAL);
    }
    Ok([a, au * 1000, m, mu * 1000])
}

pub fn utimes(f: &mut Frame) -> Result<u64> {
    let times = timevals(f.arg(1))?;
    if f.arg(0) == 0 {
        return Err(EFAULT);
    }
    set_times(AT_FDCWD, f.arg(0), 0, times)
}

pub fn futimesat(f: &mut Frame) -> Result<u64> {
    set_times(f.arg(0) as i32, f.arg(1), 0, timevals(f.arg(2))?)
}

pub fn utime(f: &mut Frame) -> Result<u64> {
    let times = match f.arg(1) {
        0 => [0, NOW, 0, NOW],
        address => {
            let [a, m] = user::read::<[u64; 2]>(address)?;
            [a, 0, m, 0]
        }
    };
    set_times(AT_FDCWD, f.arg(0), 0, times)
}

const GET: u64 = 0;
const SET: u64 = 1;
const LIST: u64 = 2;
const REMOVE: u64 = 3;
/// Most bytes of a value, as on Linux.
const VALUE_MAX: u64 = 65536;

/// path, NUL, name, NUL, value.
fn xattr_text(path: &[u8], name: &[u8], value: UserRange) -> Result<Vec<u8>> {
    let mut text = path.to_vec();
    text.push(0);
    text.extend_from_slice(name);
    text.push(0);
    let at = text.len();
    text.resize(at + value.len() as usize, 0);
    user::read_bytes(value.base(), &mut text[at..])?;
    Ok(text)
}

/// The attribute's name and its new value, in the order in which Linux looks at them.
fn checked_attribute(
    what: u64,
    name: u64,
    value: (u64, u64),
    set_flags: u64,
    attribute: &mut UserString,
) -> Result<UserRange> {
    const KNOWN: u64 = 3;
    if set_flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    if what == LIST {
        return Ok(UserRange::EMPTY);
    }
    attribute.fill(name).map_err(|error| match error {
        ENAMETOOLONG => ERANGE,
        other => other,
    })?;
    if !(1..=255).contains(&attribute.as_bytes().len()) {
        return Err(ERANGE);
    }
    match what {
        SET if value.1 > VALUE_MAX => Err(crate::errno::E2BIG),
        SET => {
            let given = user::range(value.0, value.1)?;
            match value.1 == 0 || user::touch(given, false) {
                true => Ok(given),
                false => Err(EFAULT),
            }
        }
        _ => Ok(UserRange::EMPTY),
    }
}

/// What is wrong with the file of an attribute's call.
fn unusable(place: Option<u64>, fd: u64, flags: u64) -> Result<()> {
    let Some(address) = place else {
        return super::io::usable(fd).map(|_| ());
    };
    let mut path = UserString::empty();
    path.fill(address)?;
    let bits = flags & NOFOLLOW;
    walk(AT_FDCWD, path.as_bytes(), |start, answer| {
        let request = Request::new(&[fs::STAT, bits]).path(&start.rest);
        send(request, start.slot, answer).map(|_| ())
    })
}

/// What cannot have attributes has none to list.
fn none_listed(what: u64, result: Result<[u64; 8]>) -> Result<[u64; 8]> {
    match result {
        Err(EOPNOTSUPP) if what == LIST => Ok([0; 8]),
        other => other,
    }
}

fn xattr(
    what: u64,
    place: Option<u64>,
    fd: u64,
    flags: u64,
    name: u64,
    value: (u64, u64),
    set_flags: u64,
) -> Result<u64> {
    let mut attribute = UserString::empty();
    let given = match checked_attribute(what, name, value, set_flags, &mut attribute) {
        Ok(given) => given,
        // The file comes first.
        Err(error) => return Err(unusable(place, fd, flags).err().unwrap_or(error)),
    };
    let attribute = attribute.as_bytes();
    let words = [fs::XATTR, what, set_flags | flags];
    let Some(path) = place else {
        let file = super::io::usable(fd)?;
        if file.object.is_some() {
            return Err(EBADF);
        }
        // What has no type is no file of anybody's.
        if file.mode & fs::s::IFMT == 0 && matches!(what, SET | REMOVE) {
            return Err(EOPNOTSUPP);
        }
        let text = xattr_text(b"", attribute, given)?;
        let mut answer = crate::path::Answer::new();
        let result = send(Request::new(&words).out(&text), file.slot(), &mut answer);
        answer.filled(none_listed(what, result)?[0]);
        return give(what, value, answer.as_bytes());
    };
    let address = path;
    let mut path = UserString::empty();
    path.fill(address)?;
    if path.as_bytes().is_empty() {
        return Err(ENOENT);
    }
    walk(AT_FDCWD, path.as_bytes(), |start, answer| {
        let text = xattr_text(&start.rest, attribute, given)?;
        let result = send(Request::new(&words).out(&text), start.slot, answer);
        answer.filled(none_listed(what, result)?[0]);
        give(what, value, answer.as_bytes())
    })
}

/// Hand a value or list to the program: size 0 asks for the length only.
fn give(what: u64, buffer: (u64, u64), bytes: &[u8]) -> Result<u64> {
    if what == SET || what == REMOVE {
        return Ok(0);
    }
    if buffer.1 == 0 {
        return Ok(bytes.len() as u64);
    }
    if (bytes.len() as u64) > buffer.1 {
        return Err(crate::errno::ERANGE);
    }
    if !bytes.is_empty() {
        user::write_bytes(buffer.0, bytes)?;
    }
    Ok(bytes.len() as u64)
}

const NOFOLLOW: u64 = at::SYMLINK_NOFOLLOW;

pub fn getxattr(f: &mut Frame) -> Result<u64> {
    xattr(GET, Some(f.arg(0)), 0, 0, f.arg(1), (f.arg(2), f.arg(3)), 0)
}

pub fn lgetxattr(f: &mut Frame) -> Result<u64> {
    xattr(
        GET,
        Some(f.arg(0)),
        0,
        NOFOLLOW,
        f.arg(1),
        (f.arg(2), f.arg(3)),
        0,
    )
}

pub fn fgetxattr(f: &mut Frame) -> Result<u64> {
    xattr(GET, None, f.arg(0), 0, f.arg(1), (f.arg(2), f.arg(3)), 0)
}

pub fn setxattr(f: &mut Frame) -> Result<u64> {
    xattr(
        SET,
        Some(f.arg(0)),
        0,
        0,
        f.arg(1),
        (f.arg(2), f.arg(3)),
        f.arg(4) & 0xffff_ffff,
    )
}

pub fn lsetxattr(f: &mut Frame) -> Result<u64> {
    xattr(
        SET,
        Some(f.arg(0)),
        0,
        NOFOLLOW,
        f.arg(1),
        (f.arg(2), f.arg(3)),
        f.arg(4) & 0xffff_ffff,
    )
}

pub fn fsetxattr(f: &mut Frame) -> Result<u64> {
    xattr(
        SET,
        None,
        f.arg(0),
        0,
        f.arg(1),
        (f.arg(2), f.arg(3)),
        f.arg(4) & 0xffff_ffff,
    )
}

pub fn listxattr(f: &mut Frame) -> Result<u64> {
    xattr(LIST, Some(f.arg(0)), 0, 0, 0, (f.arg(1), f.arg(2)), 0)
}

pub fn llistxattr(f: &mut Frame) -> Result<u64> {
    xattr(
        LIST,
        Some(f.arg(0)),
        0,
        NOFOLLOW,
        0,
        (f.arg(1), f.arg(2)),
        0,
    )
}

pub fn flistxattr(f: &mut Frame) -> Result<u64> {
    xattr(LIST, None, f.arg(0), 0, 0, (f.arg(1), f.arg(2)), 0)
}

pub fn removexattr(f: &mut Frame) -> Result<u64> {
    xattr(REMOVE, Some(f.arg(0)), 0, 0, f.arg(1), (0, 0), 0)
}

pub fn lremovexattr(f: &mut Frame) -> Result<u64> {
    xattr(REMOVE, Some(f.arg(0)), 0, NOFOLLOW, f.arg(1), (0, 0), 0)
}

pub fn fremovexattr(f: &mut Frame) -> Result<u64> {
    xattr(REMOVE, None, f.arg(0), 0, f.arg(1), (0, 0), 0)
}
