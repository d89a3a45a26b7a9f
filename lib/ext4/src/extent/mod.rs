//! Extent trees: which blocks of the device hold a file. The root is in the inode, further nodes are blocks; this file reads, [`change`] writes.
//!
//! A node that passed [`check_node`] is sorted and without overlaps; [`Fs::descend`] checks in addition that parent and child agree, so a tree that is
//! seen through it is a function from file blocks to device blocks whatever the image says, and every walk ends after at most six nodes.

pub(crate) mod change;
mod shift;

use crate::bytes::{le16, le32};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::Fs;
use crate::inode::{Inode, EXTENTS};

const MAGIC: u16 = 0xF30A;
const ENTRY: usize = 12;
const MAX_DEPTH: usize = 5;
/// The longest extent; a longer length says that the blocks are allocated and not yet written.
const MAX_WRITTEN: u32 = 32768;

/// Where a piece of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Hole,
    Written(u64),
    /// Allocated, reads as zeros.
    Unwritten(u64),
}

/// `len` blocks of a file from block `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub at: u32,
    pub len: u32,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub at: u32,
    pub len: u32,
    pub start: u64,
    pub unwritten: bool,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.at) + u64::from(self.len)
    }

    fn place(&self, at: u32) -> Place {
        let block = self.start + u64::from(at - self.at);
        if self.unwritten {
            Place::Unwritten(block)
        } else {
            Place::Written(block)
        }
    }

    fn bytes(&self) -> [u8; ENTRY] {
        let mut raw = [0; ENTRY];
        let len = self.len + if self.unwritten { MAX_WRITTEN } else { 0 };
        raw[0..4].copy_from_slice(&self.at.to_le_bytes());
        raw[4..6].copy_from_slice(&(len as u16).to_le_bytes());
        raw[6..8].copy_from_slice(&((self.start >> 32) as u16).to_le_bytes());
        raw[8..12].copy_from_slice(&(self.start as u32).to_le_bytes());
        raw
    }
}

fn key(node: &[u8], entry: usize) -> u32 {
    le32(node, ENTRY + ENTRY * entry)
}

fn extent(node: &[u8], entry: usize) -> Extent {
    let at = ENTRY + ENTRY * entry;
    let len = u32::from(le16(node, at + 4));
    let unwritten = len > MAX_WRITTEN;
    Extent {
        at: le32(node, at),
        len: if unwritten { len - MAX_WRITTEN } else { len },
        start: u64::from(le32(node, at + 8)) | u64::from(le16(node, at + 6)) << 32,
        unwritten,
    }
}

fn child(node: &[u8], entry: usize) -> u64 {
    let at = ENTRY + ENTRY * entry;
    u64::from(le32(node, at + 4)) | u64::from(le16(node, at + 8)) << 32
}

fn index_bytes(key: u32, block: u64) -> [u8; ENTRY] {
    let mut raw = [0; ENTRY];
    raw[0..4].copy_from_slice(&key.to_le_bytes());
    raw[4..8].copy_from_slice(&(block as u32).to_le_bytes());
    raw[8..10].copy_from_slice(&((block >> 32) as u16).to_le_bytes());
    raw
}

fn header(entries: u16, max: u16, depth: u16) -> [u8; ENTRY] {
    let mut raw = [0; ENTRY];
    for (at, value) in [MAGIC, entries, max, depth].into_iter().enumerate() {
        raw[2 * at..2 * at + 2].copy_from_slice(&value.to_le_bytes());
    }
    raw
}

fn entries(node: &[u8]) -> usize {
    usize::from(le16(node, 2))
}

fn most(node: &[u8]) -> usize {
    usize::from(le16(node, 4))
}

/// Where a node's checksum is.
pub(crate) fn tail(node: &[u8]) -> usize {
    ENTRY + ENTRY * most(node)
}

/// What must hold inside one node.
pub(crate) fn check_node(node: &[u8], at: u64) -> Result<(), Error> {
    let (count, max, depth) = (entries(node), most(node), usize::from(le16(node, 6)));
    if le16(node, 0) != MAGIC
        || count > max
        || max == 0
        || tail(node) > node.len()
        || depth > MAX_DEPTH
    {
        return damaged("extent node", at);
    }
    let mut free = 0;
    for entry in 0..count {
        let begin = u64::from(key(node, entry));
        let end = if depth == 0 {
            let extent = extent(node, entry);
            if extent.len == 0 || extent.end() > 1 << 32 {
                return damaged("extent", at);
            }
            extent.end()
        } else {
            begin + 1
        };
        if begin < free {
            return damaged("order of extents", at);
        }
        free = end;
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Level {
    /// None is the root.
    block: Option<u64>,
    /// In an index: the entry that was followed. In the leaf: how many entries begin at or before the target.
    entry: usize,
}

/// The way from the root to a leaf.
struct Path {
    levels: [Level; MAX_DEPTH + 1],
    depth: usize,
    /// The first block that the leaf cannot have.
    end: u64,
}

impl Path {
    fn leaf(&self) -> Level {
        self.levels[self.depth]
    }
}

impl Fs {
    fn node<'a>(&'a self, inode: &'a Inode, block: Option<u64>) -> Result<&'a [u8], Error> {
        match block {
            None => Ok(&inode.area),
            Some(block) => self.checked(block, Kind::Node(inode.seed)),
        }
    }

    fn descend(&self, inode: &Inode, target: u32) -> Result<Path, Error> {
        if inode.flags & EXTENTS == 0 {
            return Err(Error::Unsupported("file without extents"));
        }
        let ino = u64::from(inode.ino);
        check_node(&inode.area, ino)?;
        let depth = usize::from(le16(&inode.area, 6));
        let mut path = Path {
            levels: Default::default(),
            depth,
            end: 1 << 32,
        };
        let mut block = None;
        let mut first = None;
        for level in 0..=depth {
            let node = self.node(inode, block)?;
            let count = entries(node);
            let wrong = usize::from(le16(node, 6)) != depth - level
                || (count == 0 && depth != 0)
                || first.is_some_and(|first| first != key(node, 0));
            if wrong {
                return damaged("extent tree", ino);
            }
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = (low + high) / 2;
                if key(node, middle) <= target {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            path.levels[level] = Level { block, entry: low };
            if level == depth {
                if count != 0 && extent(node, count - 1).end() > path.end {
                    return damaged("extent tree", ino);
                }
            } else {
                let entry = low.max(1) - 1;
                path.levels[level].entry = entry;
                if entry + 1 < count {
                    path.end = path.end.min(u64::from(key(node, entry + 1)));
                }
                let next = child(node, entry);
                if !self.zones.free_of(next, 1) {
                    return damaged("extent index", ino);
                }
                first = Some(key(node, entry));
                block = Some(next);
            }
        }
        Ok(path)
    }

    /// The first extent that ends behind `from`, if there is one in the file.
    pub(crate) fn extent_from(&self, inode: &Inode, from: u32) -> Result<Option<Extent>, Error> {
        Ok(self.locate(inode, from)?.map(|(_, _, extent)| extent))
    }

    /// The same with the way to it and its number in the leaf.
    fn locate(&self, inode: &Inode, from: u32) -> Result<Option<(Path, usize, Extent)>, Error> {
        let mut target = from;
        // The second time there is one, because a leaf begins with the key that its parent has for it.
        for _ in 0..2 {
            let path = self.descend(inode, target)?;
            let leaf = path.leaf();
            let node = self.node(inode, leaf.block)?;
            let found = [leaf.entry.wrapping_sub(1), leaf.entry]
                .into_iter()
                .filter(|&entry| entry < entries(node))
                .map(|entry| (entry, extent(node, entry)))
                .find(|(_, extent)| extent.end() > u64::from(from));
            if let Some((entry, extent)) = found {
                if !self.zones.free_of(extent.start, u64::from(extent.len)) {
                    return damaged("extent", u64::from(inode.ino));
                }
                return Ok(Some((path, entry, extent)));
            }
            if path.end >= 1 << 32 {
                break;
            }
            target = path.end as u32;
        }
        Ok(None)
    }

    /// Where block `at` of a file is, and how many after it are in the same state and place.
    pub(crate) fn find(&self, inode: &Inode, at: u32) -> Result<Piece, Error> {
        Ok(match self.extent_from(inode, at)? {
            Some(extent) if extent.at <= at => Piece {
                at,
                len: (extent.end() - u64::from(at)) as u32,
                place: extent.place(at),
            },
            Some(extent) => Piece {
                at,
                len: extent.at - at,
                place: Place::Hole,
            },
            None => Piece {
                at,
                len: u32::MAX - at,
                place: Place::Hole,
            },
        })
    }

    /// Where `count` blocks of a file from block `at` are. At most 64 pieces are told at a time; the caller goes on behind the last.
    pub fn map(&self, ino: u32, at: u32, count: u32) -> Result<alloc::vec::Vec<Piece>, Error> {
        let inode = self.inode(ino)?;
        let mut pieces = alloc::vec::Vec::new();
        let (mut next, mut left) = (at, count);
        while left != 0 && pieces.len() < 64 {
            let mut piece = self.find(&inode, next)?;
            piece.len = piece.len.min(left);
            if piece.len == 0 {
                break;
            }
            next = piece.at.saturating_add(piece.len);
            left -= piece.len;
            pieces.push(piece);
        }
        Ok(pieces)
    }
}
