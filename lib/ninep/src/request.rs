//! Requests, read.

use crate::answer::{Result, Trouble};
use crate::ask::{set, Set, Time};
use crate::reader::Reader;
use crate::{kind, HEAD, MOST_NAMES};
use alloc::vec::Vec;

/// A lock of a range of a file; its kind is one of [`crate::lock_kind`]. Length 0: to the end, wherever that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock<'a> {
    pub kind: u8,
    pub start: u64,
    pub length: u64,
    /// Who has it, as its client says.
    pub process: u32,
    pub client: &'a [u8],
}

/// What is asked. Names are as they came: [`crate::answer::is_name`] tells which can be one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Request<'a> {
    Version { most: u32, dialect: &'a [u8] },
    Auth { fid: u32, user: &'a [u8], tree: &'a [u8], uid: u32 },
    /// `auth`: the number that AUTH made, or none. `uid`: [`crate::NO_FID`] if only the name is told.
    Attach { fid: u32, auth: u32, user: &'a [u8], tree: &'a [u8], uid: u32 },
    Flush { tag: u16 },
    Walk { fid: u32, new: u32, names: Vec<&'a [u8]> },
    Open { fid: u32, flags: u32 },
    Create { folder: u32, name: &'a [u8], flags: u32, mode: u32, gid: u32 },
    Symlink { folder: u32, name: &'a [u8], target: &'a [u8], gid: u32 },
    Node { folder: u32, name: &'a [u8], mode: u32, device: (u32, u32), gid: u32 },
    Directory { folder: u32, name: &'a [u8], mode: u32, gid: u32 },
    Link { folder: u32, fid: u32, name: &'a [u8] },
    Rename { fid: u32, folder: u32, name: &'a [u8] },
    RenameAt { from: u32, name: &'a [u8], to: u32, new: &'a [u8] },
    Unlink { folder: u32, name: &'a [u8], flags: u32 },
    Remove { fid: u32 },
    Target { fid: u32 },
    /// `mask`: bits of what is wanted.
    Attributes { fid: u32, mask: u64 },
    Set { fid: u32, set: Set },
    Attribute { fid: u32, new: u32, name: &'a [u8] },
    SetAttribute { fid: u32, name: &'a [u8], size: u64, flags: u32 },
    Entries { fid: u32, position: u64, count: u32 },
    Sync { fid: u32, data: bool },
    Lock { fid: u32, flags: u32, lock: Lock<'a> },
    LockThere { fid: u32, lock: Lock<'a> },
    Read { fid: u32, offset: u64, count: u32 },
    Write { fid: u32, offset: u64, data: &'a [u8] },
    End { fid: u32 },
    Space { fid: u32 },
    /// No kind that there is, whatever is in it.
    Other,
}

/// Kind and tag of a message, whatever is in it; None if it is too short to have them.
pub fn head(message: &[u8]) -> Option<(u8, u16)> {
    let head: &[u8; HEAD] = message.first_chunk()?;
    Some((head[4], u16::from_le_bytes([head[5], head[6]])))
}

/// A whole message as a request.
pub fn request(message: &[u8]) -> Result<Request<'_>> {
    let (kind, _) = head(message).ok_or(Trouble::Nonsense)?;
    let mut reader = Reader(&message[HEAD..]);
    let request = body(kind, &mut reader)?;
    // Nothing may be left.
    match reader.0 {
        [] => Ok(request),
        _ => Err(Trouble::Nonsense),
    }
}

/// The fields of each kind are in the order in which they are sent.
#[rustfmt::skip]
fn body<'a>(kind: u8, r: &mut Reader<'a>) -> Result<Request<'a>> {
    Ok(match kind {
        kind::VERSION => Request::Version { most: r.u32()?, dialect: r.text()? },
        kind::AUTH => Request::Auth { fid: r.u32()?, user: r.text()?, tree: r.text()?, uid: r.u32()? },
        kind::ATTACH => Request::Attach { fid: r.u32()?, auth: r.u32()?, user: r.text()?, tree: r.text()?, uid: r.u32()? },
        kind::FLUSH => Request::Flush { tag: r.u16()? },
        kind::WALK => Request::Walk { fid: r.u32()?, new: r.u32()?, names: names(r)? },
        kind::OPEN => Request::Open { fid: r.u32()?, flags: r.u32()? },
        kind::CREATE => Request::Create { folder: r.u32()?, name: r.text()?, flags: r.u32()?, mode: r.u32()?, gid: r.u32()? },
        kind::SYMLINK => Request::Symlink { folder: r.u32()?, name: r.text()?, target: r.text()?, gid: r.u32()? },
        kind::MKNOD => Request::Node { folder: r.u32()?, name: r.text()?, mode: r.u32()?, device: (r.u32()?, r.u32()?), gid: r.u32()? },
        kind::MKDIR => Request::Directory { folder: r.u32()?, name: r.text()?, mode: r.u32()?, gid: r.u32()? },
        kind::LINK => Request::Link { folder: r.u32()?, fid: r.u32()?, name: r.text()? },
        kind::RENAME => Request::Rename { fid: r.u32()?, folder: r.u32()?, name: r.text()? },
        kind::RENAMEAT => Request::RenameAt { from: r.u32()?, name: r.text()?, to: r.u32()?, new: r.text()? },
        kind::UNLINKAT => Request::Unlink { folder: r.u32()?, name: r.text()?, flags: r.u32()? },
        kind::REMOVE => Request::Remove { fid: r.u32()? },
        kind::READLINK => Request::Target { fid: r.u32()? },
        kind::GETATTR => Request::Attributes { fid: r.u32()?, mask: r.u64()? },
        kind::SETATTR => Request::Set { fid: r.u32()?, set: changes(r)? },
        kind::ATTRIBUTE => Request::Attribute { fid: r.u32()?, new: r.u32()?, name: r.text()? },
        kind::SET_ATTRIBUTE => Request::SetAttribute { fid: r.u32()?, name: r.text()?, size: r.u64()?, flags: r.u32()? },
        kind::READDIR => Request::Entries { fid: r.u32()?, position: r.u64()?, count: r.u32()? },
        kind::FSYNC => Request::Sync { fid: r.u32()?, data: r.u32()? != 0 },
        kind::LOCK => {
            let (fid, kind, flags) = (r.u32()?, r.u8()?, r.u32()?);
            Request::Lock { fid, flags, lock: range(kind, r)? }
        }
        kind::GETLOCK => Request::LockThere { fid: r.u32()?, lock: r.lock()? },
        kind::READ => Request::Read { fid: r.u32()?, offset: r.u64()?, count: r.u32()? },
        kind::WRITE => {
            let (fid, offset, count) = (r.u32()?, r.u64()?, r.u32()?);
            Request::Write { fid, offset, data: r.bytes(count as usize)? }
        }
        kind::CLUNK => Request::End { fid: r.u32()? },
        kind::STATFS => Request::Space { fid: r.u32()? },
        _ => {
            r.0 = &[];
            Request::Other
        }
    })
}

fn range<'a>(kind: u8, r: &mut Reader<'a>) -> Result<Lock<'a>> {
    Ok(Lock {
        kind,
        start: r.u64()?,
        length: r.u64()?,
        process: r.u32()?,
        client: r.text()?,
    })
}

fn names<'a>(r: &mut Reader<'a>) -> Result<Vec<&'a [u8]>> {
    let count = usize::from(r.u16()?);
    match count <= MOST_NAMES {
        true => (0..count).map(|_| r.text()).collect(),
        false => Err(Trouble::Nonsense),
    }
}

/// Of SETATTR. That the time of change is to be set is what every change does.
fn changes(r: &mut Reader) -> Result<Set> {
    let valid = r.u32()?;
    let has = |bit: u32| valid & bit != 0;
    let (mode, uid, gid, size) = (r.u32()?, r.u32()?, r.u32()?, r.u64()?);
    let (atime, mtime) = (r.time()?, r.time()?);
    let time = |is_set: u32, given: u32, at: (i64, i64)| match (has(is_set), has(given)) {
        (false, _) => None,
        (true, false) => Some(Time::Now),
        (true, true) => Some(Time::At(at.0, at.1)),
    };
    Ok(Set {
        mode: has(set::MODE).then_some(mode),
        uid: has(set::UID).then_some(uid),
        gid: has(set::GID).then_some(gid),
        size: has(set::SIZE).then_some(size),
        atime: time(set::ATIME, set::ATIME_GIVEN, atime),
        mtime: time(set::MTIME, set::MTIME_GIVEN, mtime),
    })
}
