//! Handles of files: what names a file whatever it is called (name_to_handle_at(2)), and is opened without a name.

use super::io::file;
use super::open::{descriptor, open_file};
use crate::descriptors::OpenFile;
use crate::errno::{Result, EBADF, EINVAL, EISDIR, ENOENT, EOPNOTSUPP, EOVERFLOW, EPERM, ESTALE};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::{self, UserString};
use crate::path::{make_room, path_of};
use alloc::sync::Arc;
use cairn_idl::capability::DAC_READ_SEARCH;
use cairn_idl::fs::{self, at, o, BY_HANDLE, FIRST_MOUNT, HANDLE_MAX};

const AT_FDCWD: i32 = -100;
/// `struct file_handle` before its bytes: how many these are, and of which type.
type Head = [u32; 2];
const HEAD: u64 = 8;
/// MAX_HANDLE_SZ.
const MOST: u32 = 128;
/// The type of all handles, and what it is if there is none.
const TYPE: u32 = 1;
const INVALID: u32 = 255;

/// The folder that a descriptor stands for, or the working directory.
fn place(dirfd: i32) -> Result<Arc<OpenFile>> {
    match dirfd {
        AT_FDCWD => open_file(AT_FDCWD, b".", o::PATH, 0),
        descriptor => file(descriptor as u32 as u64),
    }
}

/// What the name at this address leads to, by a handle that opens nothing; an empty one, if it may be, to what the descriptor stands for.
pub fn named(dirfd: i32, address: u64, follow: bool, empty: bool) -> Result<Arc<OpenFile>> {
    let mut name = UserString::empty();
    name.fill(address)?;
    match name.as_bytes() {
        b"" if !empty => Err(ENOENT),
        b"" => place(dirfd),
        name => {
            let follow = if follow { 0 } else { o::NOFOLLOW };
            open_file(dirfd, name, o::PATH | follow, 0)
        }
    }
}

pub fn name_to_handle_at(f: &mut Frame) -> Result<u64> {
    let (dirfd, handle, mount) = (f.arg(0) as i32, f.arg(2), f.arg(3));
    let flags = f.arg(4) & 0xffff_ffff;
    if flags & !(at::SYMLINK_FOLLOW | at::EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let (follow, empty) = (flags & at::SYMLINK_FOLLOW, flags & at::EMPTY_PATH);
    let file = named(dirfd, f.arg(1), follow != 0, empty != 0)?;
    if file.object.is_some() {
        return Err(EOPNOTSUPP);
    }
    let words = Request::new(&[fs::FILE_HANDLE]).call(file.slot());
    let [length, first, second, ..] = words.map_err(|_| EOPNOTSUPP)?;
    let length = length.min(HANDLE_MAX as u64);
    let [room, _] = user::read::<Head>(handle)?;
    if room > MOST {
        return Err(EINVAL);
    }
    let fits = u64::from(room) >= length;
    let kind = if fits { TYPE } else { INVALID };
    user::write(mount, &(mount_of(&file) as u32))?;
    user::write::<Head>(handle, &[length as u32, kind])?;
    if !fits {
        return Err(EOVERFLOW);
    }
    let bytes: [u8; HANDLE_MAX] = core::array::from_fn(|at| {
        let word = if at < 8 { first } else { second };
        word.to_le_bytes()[at % 8]
    });
    user::write_bytes(handle + HEAD, &bytes[..length as usize])?;
    Ok(0)
}

/// The number of the mount that a file lies in.
pub fn mount_of(file: &OpenFile) -> usize {
    let number = |path: &[u8]| process().state().prefixes.number(path);
    let found = path_of(file).ok().and_then(|path| number(&path));
    FIRST_MOUNT + found.unwrap_or(0)
}

pub fn open_by_handle_at(f: &mut Frame) -> Result<u64> {
    let (mount, handle, flags) = (f.arg(0) as i32, f.arg(1), f.arg(2) & 0x1fff_ffff);
    if !process().is_capable(DAC_READ_SEARCH) {
        return Err(EPERM);
    }
    let [length, kind] = user::read::<Head>(handle)?;
    if length == 0 || length > MOST {
        return Err(EINVAL);
    }
    let mut bytes = [0; MOST as usize];
    let bytes = &mut bytes[..length as usize];
    user::read_bytes(handle + HEAD, bytes)?;
    let place = match mount {
        AT_FDCWD => self::place(mount)?,
        mount => file(mount as u32 as u64)?,
    };
    if mount != AT_FDCWD && place.path_only {
        return Err(EBADF);
    }
    if kind != TYPE || bytes.len() > HANDLE_MAX || place.object.is_some() {
        return Err(ESTALE);
    }
    if flags & o::CREAT != 0 {
        return Err(EISDIR);
    }
    process().state().files.check_room()?;
    make_room()?;
    let request = Request::new(&[fs::OPEN, flags | BY_HANDLE, 0]);
    let words = request.out(bytes).brings(1).call(place.slot())?;
    let mut opened = OpenFile::portal(words[7] as u32, words[2], words[1] as u32);
    opened.path_only = flags & o::PATH != 0;
    descriptor(Arc::new(opened), flags)
}
