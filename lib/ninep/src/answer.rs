//! Answers, read. Each function takes the body that [`body`] gave for a request of that kind.

use crate::reader::Reader;
use crate::request::Lock;
use crate::{kind, HEAD, VERSION};

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server refused, with an error number of Linux.
    Refused(i64),
    /// What it says makes no sense.
    Nonsense,
}

pub(crate) type Result<T> = core::result::Result<T, Trouble>;

/// What tells files of a server apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qid {
    pub kind: u8,
    pub version: u32,
    pub path: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub qid: Qid,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u64,
    pub rdev: u64,
    pub size: u64,
    pub block_size: u64,
    pub blocks: u64,
    /// Seconds and nanoseconds.
    pub atime: (i64, i64),
    pub mtime: (i64, i64),
    pub ctime: (i64, i64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub kind: u32,
    pub block_size: u32,
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub id: u64,
    pub longest_name: u32,
}

/// A name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub qid: Qid,
    /// Where reading goes on behind it.
    pub next: u64,
    /// As readdir(3) has it.
    pub kind: u8,
    pub name: &'a [u8],
}

/// The length that a message says that it has: not below a head's, and not above `most`.
pub fn length(head: [u8; 4], most: usize) -> Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    match (HEAD..=most).contains(&length) {
        true => Ok(length),
        false => Err(Trouble::Nonsense),
    }
}

/// The body of the answer to a request of this kind with this tag.
pub fn body(bytes: &[u8], asked: u8, tag: u16) -> Result<&[u8]> {
    let mut reader = Reader(bytes);
    let (length, kind, its) = (reader.u32()?, reader.u8()?, reader.u16()?);
    if length as usize != bytes.len() || its != tag {
        return Err(Trouble::Nonsense);
    }
    if kind == kind::ERROR {
        return Err(match reader.u32()? {
            number @ 1..=4095 => Trouble::Refused(number.into()),
            _ => Trouble::Nonsense,
        });
    }
    match kind == asked.wrapping_add(1) {
        true => Ok(reader.0),
        false => Err(Trouble::Nonsense),
    }
}

/// Of VERSION: the longest message, if the server speaks the dialect.
pub fn version(body: &[u8]) -> Result<u32> {
    let mut reader = Reader(body);
    let most = reader.u32()?;
    match reader.text()? == VERSION {
        true => Ok(most),
        false => Err(Trouble::Nonsense),
    }
}

/// Of ATTACH and OPEN: the file.
pub fn qid(body: &[u8]) -> Result<Qid> {
    Reader(body).qid()
}

/// Of OPEN and CREATE: the file, and how much is best read or written at once (0: as much as a message holds).
pub fn opened(body: &[u8]) -> Result<(Qid, u32)> {
    let mut reader = Reader(body);
    Ok((reader.qid()?, reader.u32()?))
}

/// Of WALK: whether it has come so many names far.
pub fn walked(body: &[u8], names: u16) -> Result<bool> {
    let mut reader = Reader(body);
    let came = reader.u16()?;
    for _ in 0..came.min(names) {
        reader.qid()?;
    }
    Ok(came == names)
}

pub fn attributes(body: &[u8]) -> Result<Attributes> {
    let mut reader = Reader(body);
    let _valid = reader.u64()?;
    Ok(Attributes {
        qid: reader.qid()?,
        mode: reader.u32()? & 0xffff,
        uid: reader.u32()?,
        gid: reader.u32()?,
        links: reader.u64()?,
        rdev: reader.u64()?,
        size: reader.u64()?.min(i64::MAX as u64),
        block_size: reader.u64()?,
        blocks: reader.u64()?,
        atime: reader.time()?,
        mtime: reader.time()?,
        ctime: reader.time()?,
    })
}

/// Of READ and READDIR: the data, at most so many bytes.
pub fn data(body: &[u8], most: usize) -> Result<&[u8]> {
    let mut reader = Reader(body);
    let count = reader.u32()? as usize;
    match count <= most {
        true => reader.bytes(count),
        false => Err(Trouble::Nonsense),
    }
}

/// Of WRITE: how many bytes, of so many.
pub fn count(body: &[u8], most: usize) -> Result<usize> {
    let count = Reader(body).u32()? as usize;
    match (1..=most).contains(&count) {
        true => Ok(count),
        false => Err(Trouble::Nonsense),
    }
}

/// Of READLINK.
pub fn target(body: &[u8]) -> Result<&[u8]> {
    Reader(body).text()
}

/// Of LOCK: what became of it, one of [`crate::lock_status`].
pub fn locked(body: &[u8]) -> Result<u8> {
    Reader(body).u8()
}

/// Of GETLOCK: the lock that is in the way; of kind [`crate::lock_kind::NONE`] if there is none.
pub fn lock(body: &[u8]) -> Result<Lock<'_>> {
    Reader(body).lock()
}

/// Of ATTRIBUTE: how many bytes there are to be read.
pub fn length_of_value(body: &[u8]) -> Result<u64> {
    Reader(body).u64()
}

pub fn space(body: &[u8]) -> Result<Space> {
    let mut reader = Reader(body);
    Ok(Space {
        kind: reader.u32()?,
        block_size: reader.u32()?,
        blocks: reader.u64()?,
        free: reader.u64()?,
        available: reader.u64()?,
        files: reader.u64()?,
        files_free: reader.u64()?,
        id: reader.u64()?,
        longest_name: reader.u32()?,
    })
}

/// Of READDIR: the names in its data, until one that is cut off.
pub fn entries(data: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut reader = Reader(data);
    core::iter::from_fn(move || entry(&mut reader).ok())
}

fn entry<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>> {
    Ok(Entry {
        qid: reader.qid()?,
        next: reader.u64()?,
        kind: reader.u8()?,
        name: reader.text()?,
    })
}

/// Whether a name of an entry can be one of a file.
pub fn is_name(name: &[u8]) -> bool {
    (1..=255).contains(&name.len()) && !name.contains(&b'/') && !name.contains(&0)
}
