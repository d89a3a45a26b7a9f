//! Directories: blocks of entries. Reading is here, [`change`] puts names in and takes them out, [`index`] is the tree of hashes that finds the right block of a large directory,
//! [`read`] lists.
//!
//! A block of entries that passed [`check_leaf`] is a row of entries that fills it exactly, each name with its length, without slashes.

pub(crate) mod change;
pub(crate) mod hash;
pub(crate) mod index;
pub mod read;

use crate::bytes::{le16, le32};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::extent::Place;
use crate::fs::{Fs, Memo};
use crate::inode::{Inode, INDEXED, ROOT};
use crate::shape::Shape;
use cairn_crc32c::crc32c;

pub const NAME_MAX: usize = 255;
/// Inode, length of the entry, length of the name, type.
pub(crate) const HEAD: usize = 8;
/// The last entry of a block with checksum is no entry.
pub(crate) const TAIL: usize = 12;
const TAIL_TYPE: u8 = 0xDE;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Position in the block.
    pub at: usize,
    pub len: usize,
    pub ino: u32,
    pub kind: u8,
    pub name: &'a [u8],
}

/// What an entry with such a name needs of its length.
pub(crate) fn needs(name: usize) -> usize {
    (HEAD + name).next_multiple_of(4)
}

/// Where entries end: before the tail, if there is one.
pub(crate) fn room(shape: &Shape) -> usize {
    shape.block_size - if shape.checksums { TAIL } else { 0 }
}

fn entry_at(data: &[u8], at: usize) -> Entry<'_> {
    let name = usize::from(data[at + 6]);
    Entry {
        at,
        len: usize::from(le16(data, at + 4)),
        ino: le32(data, at),
        kind: data[at + 7],
        name: data.get(at + HEAD..at + HEAD + name).unwrap_or(&[]),
    }
}

/// The entries of a checked block, empty ones included.
pub(crate) fn entries<'a>(shape: &Shape, data: &'a [u8]) -> impl Iterator<Item = Entry<'a>> {
    let end = room(shape);
    let mut at = 0;
    core::iter::from_fn(move || {
        (at + HEAD <= end).then(|| {
            let entry = entry_at(data, at);
            at += entry.len.max(HEAD);
            entry
        })
    })
}

/// Position and length of the first entry that answers yes to its inode, length and length of its name. (What a listing does per entry is too dear for a look at all of them.)
pub(crate) fn scan(
    data: &[u8],
    end: usize,
    mut yes: impl FnMut(usize, u32, usize, usize) -> bool,
) -> Option<(usize, usize)> {
    let data = data.get(..end)?;
    let mut at = 0;
    while let Some(head) = data.get(at..at + HEAD) {
        let ino = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let len = usize::from(u16::from_le_bytes([head[4], head[5]]));
        if yes(at, ino, len, usize::from(head[6])) {
            return Some((at, len));
        }
        at += len.max(HEAD);
    }
    None
}

pub(crate) fn check_leaf(shape: &Shape, data: &[u8], block: u64) -> Result<(), Error> {
    let end = room(shape);
    let mut at = 0;
    while at < end {
        if end - at < HEAD {
            return damaged("directory entry", block);
        }
        let entry = entry_at(data, at);
        let name = usize::from(data[at + 6]);
        let bad_name = entry.ino != 0
            && (name == 0
                || entry.name.len() != name
                || entry.name.iter().any(|&byte| byte == b'/' || byte == 0));
        if entry.len < HEAD
            || !entry.len.is_multiple_of(4)
            || entry.len > end - at
            || (entry.ino != 0 && HEAD + name > entry.len)
            || entry.ino > shape.inodes
            || bad_name
        {
            return damaged("directory entry", block);
        }
        at += entry.len;
    }
    Ok(())
}

pub(crate) fn leaf_sum(seed: u32, data: &[u8]) -> u32 {
    crc32c(seed, &data[..data.len() - TAIL])
}

pub(crate) fn right_leaf_sum(seed: u32, data: &[u8]) -> bool {
    let tail = data.len() - TAIL;
    le32(data, tail) == 0
        && le16(data, tail + 4) == TAIL as u16
        && data[tail + 7] == TAIL_TYPE
        && le32(data, tail + 8) == leaf_sum(seed, data)
}

/// In an index: where its counters are, or what is wrong.
pub(crate) fn check_index(shape: &Shape, data: &[u8], block: u64) -> Result<usize, Error> {
    let size = shape.block_size;
    let first = usize::from(le16(data, 4));
    let at = if le32(data, 0) == 0 && first == size {
        8
    } else if first == 12 && usize::from(le16(data, 16)) == size - 12 && data[29] == 8 {
        32
    } else {
        return damaged("directory index", block);
    };
    let (limit, count) = (usize::from(le16(data, at)), usize::from(le16(data, at + 2)));
    let room = (size - at - if shape.checksums { 8 } else { 0 }) / 8;
    let hash = |entry: usize| le32(data, at + 8 * entry);
    if limit != room
        || count == 0
        || count > limit
        || (2..count).any(|entry| hash(entry) < hash(entry - 1))
    {
        return damaged("directory index", block);
    }
    Ok(at)
}

/// Counters and entries in use, and the reserved word of the tail; the sum itself counts as zero.
pub(crate) fn index_sum(seed: u32, data: &[u8], at: usize) -> u32 {
    let used = at + 8 * usize::from(le16(data, at + 2));
    let tail = at + 8 * usize::from(le16(data, at));
    let crc = crc32c(seed, &data[..used]);
    crc32c(crc32c(crc, &data[tail..tail + 4]), &[0; 4])
}

pub(crate) fn right_index_sum(seed: u32, data: &[u8], at: usize) -> bool {
    let tail = at + 8 * usize::from(le16(data, at));
    le32(data, tail + 4) == index_sum(seed, data, at)
}

/// Where an entry was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub block: u64,
    pub at: usize,
    pub ino: u32,
}

pub(crate) fn good_name(name: &[u8]) -> Result<(), Error> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name.iter().any(|&byte| byte == b'/' || byte == 0) {
        return Err(Error::Invalid);
    }
    Ok(())
}

impl Fs {
    pub(crate) fn directory(&self, ino: u32) -> Result<Inode, Error> {
        let dir = self.inode(ino)?;
        if !dir.is_directory() {
            return Err(Error::NotDirectory);
        }
        if dir.size == 0
            || !dir.size.is_multiple_of(self.shape.block_size as u64)
            || dir.size >> self.shape.block_bits > 1 << 28
        {
            return damaged("size of a directory", u64::from(ino));
        }
        Ok(dir)
    }

    pub(crate) fn directory_blocks(&self, dir: &Inode) -> u32 {
        (dir.size >> self.shape.block_bits) as u32
    }

    /// The device block of a directory's block. If it is missing, those beside it are asked for as well.
    pub(crate) fn directory_block(&self, dir: &Inode, at: u32) -> Result<u64, Error> {
        if at >= self.directory_blocks(dir) {
            return damaged("directory block", u64::from(dir.ino));
        }
        let piece = self.find(dir, at)?;
        let Place::Written(block) = piece.place else {
            return damaged("hole in a directory", u64::from(dir.ino));
        };
        if !self.cache.holds(block) {
            let count = piece.len.min(self.directory_blocks(dir) - at).min(16);
            return Err(Error::Need { block, count });
        }
        Ok(block)
    }

    pub(crate) fn leaf(&self, dir: &Inode, at: u32) -> Result<(u64, &[u8]), Error> {
        let block = self.directory_block(dir, at)?;
        Ok((block, self.checked(block, Kind::Leaf(dir.seed))?))
    }

    pub(crate) fn is_indexed(&self, dir: &Inode) -> bool {
        dir.flags & INDEXED != 0 && self.shape.indexes
    }

    pub(crate) fn in_leaf(
        &self,
        dir: &Inode,
        at: u32,
        name: &[u8],
    ) -> Result<Option<Found>, Error> {
        let (block, data) = self.leaf(dir, at)?;
        let last = name.last().copied();
        let found = scan(data, room(&self.shape), |at, ino, _, len| {
            // Names of one directory often begin alike.
            len == name.len()
                && ino != 0
                && data.get(at + HEAD + len - 1).copied() == last
                && data.get(at + HEAD..at + HEAD + len) == Some(name)
        });
        Ok(found.map(|(at, _)| Found {
            block,
            at,
            ino: le32(data, at),
        }))
    }

    /// Where the long look for this name got to before it had to wait for a block.
    pub(crate) fn remembered(&self, dir: u32, name: &[u8]) -> u32 {
        match &*self.memo.borrow() {
            Some(memo) if memo.dir == dir && memo.name == name => memo.upto,
            _ => 0,
        }
    }

    pub(crate) fn remember(&self, dir: u32, name: &[u8], upto: u32) {
        *self.memo.borrow_mut() = Some(Memo {
            dir,
            name: name.to_vec(),
            upto,
        });
    }

    pub(crate) fn find_name(&self, dir: &Inode, name: &[u8]) -> Result<Option<Found>, Error> {
        if name == b"." || name == b".." {
            return Err(Error::Invalid);
        }
        if self.is_indexed(dir) {
            return self.find_indexed(dir, name);
        }
        let blocks = self.directory_blocks(dir);
        for at in self.remembered(dir.ino, name)..blocks {
            match self.in_leaf(dir, at, name) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => {
                    if matches!(error, Error::Need { .. }) && at != 0 {
                        self.remember(dir.ino, name, at);
                    }
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// The inode behind a name; `.` and `..` as well.
    pub fn lookup(&self, dir: u32, name: &[u8]) -> Result<u32, Error> {
        good_name(name)?;
        let inode = self.directory(dir)?;
        match name {
            b"." => Ok(dir),
            b".." => self.parent(&inode),
            _ => {
                let found = self.find_name(&inode, name)?.ok_or(Error::NotFound)?;
                self.named(found.ino)
            }
        }
    }

    /// An inode that may have a name: not the file system's own.
    pub(crate) fn named(&self, ino: u32) -> Result<u32, Error> {
        if ino != ROOT && ino < self.shape.first_inode || ino > self.shape.inodes {
            return damaged("inode number in a directory", u64::from(ino));
        }
        Ok(ino)
    }

    /// `..` is the second entry of the first block, in an index as well.
    pub(crate) fn parent(&self, dir: &Inode) -> Result<u32, Error> {
        let block = self.directory_block(dir, 0)?;
        let kind = if self.is_indexed(dir) {
            Kind::Index(dir.seed)
        } else {
            Kind::Leaf(dir.seed)
        };
        let data = self.checked(block, kind)?;
        let entry = entry_at(data, 12);
        if le16(data, 4) != 12 || entry.name != b".." {
            return damaged("parent of a directory", u64::from(dir.ino));
        }
        self.named(entry.ino)
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, ino: u32) -> Result<alloc::vec::Vec<u8>, Error> {
        let inode = self.inode(ino)?;
        if !inode.is_symlink() {
            return Err(Error::Invalid);
        }
        let len = inode.size as usize;
        if inode.is_short_link() {
            return Ok(inode.area[..len].to_vec());
        }
        if len > self.shape.block_size || len == 0 {
            return damaged("symbolic link", u64::from(ino));
        }
        let Place::Written(block) = self.find(&inode, 0)?.place else {
            return damaged("symbolic link", u64::from(ino));
        };
        Ok(self.checked(block, Kind::Parts)?[..len].to_vec())
    }
}
