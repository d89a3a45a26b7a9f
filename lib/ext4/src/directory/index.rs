//! The index of a large directory: its first block is the root of a tree of hashes with at most two levels of index blocks above the blocks of entries.

use super::{check_index, entries, hash, Found};
use crate::bytes::{le16, le32};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::Fs;
use crate::inode::Inode;

/// A block of the index, and the entry that was followed in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    pub block: u64,
    /// Where counters and entries begin.
    pub at: usize,
    pub count: usize,
    pub limit: usize,
    pub entry: usize,
}

/// The way to one block of entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    pub frames: [Frame; 2],
    pub depth: usize,
    pub version: u8,
    /// The directory's block with the entries.
    pub leaf: u32,
}

impl Way {
    pub(crate) fn last(&self) -> Frame {
        self.frames[self.depth - 1]
    }
}

pub(crate) const ROOT_VERSION: usize = 28;
pub(crate) const ROOT_LEVELS: usize = 30;

impl Fs {
    pub(crate) fn hash_version(&self, version: u8) -> u8 {
        if version < 3 && self.shape.hash_unsigned {
            version + 3
        } else {
            version
        }
    }

    pub(crate) fn name_hash(&self, version: u8, name: &[u8]) -> (u32, u32) {
        hash::hash(version, &self.shape.hash_seed, name)
    }

    /// Where an index block's entry leads.
    fn child(&self, frame: &Frame, entry: usize) -> Result<u32, Error> {
        let data = &self.cache.slot(frame.block)?.data;
        Ok(le32(data, frame.at + 8 * entry + 4) & 0x0FFF_FFFF)
    }

    fn entry_hash(&self, frame: &Frame, entry: usize) -> Result<u32, Error> {
        let data = &self.cache.slot(frame.block)?.data;
        Ok(le32(data, frame.at + 8 * entry))
    }

    fn frame(&self, dir: &Inode, at: u32, hash: Option<u32>) -> Result<Frame, Error> {
        let block = self.directory_block(dir, at)?;
        let data = self.checked(block, Kind::Index(dir.seed))?;
        let begin = check_begin(data, at == 0, self.shape.block_size);
        let Some(begin) = begin else {
            return damaged("directory index", u64::from(dir.ino));
        };
        let (limit, count) = (
            usize::from(le16(data, begin)),
            usize::from(le16(data, begin + 2)),
        );
        // The first entry has no hash: it stands for everything below the second.
        let (mut low, mut high) = (1, count);
        while let Some(hash) = hash.filter(|_| low < high) {
            let middle = (low + high) / 2;
            if le32(data, begin + 8 * middle) > hash {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Frame {
            block,
            at: begin,
            count,
            limit,
            entry: low - 1,
        })
    }

    /// The hash function of an indexed directory.
    pub(crate) fn index_version(&self, dir: &Inode) -> Result<u8, Error> {
        let block = self.directory_block(dir, 0)?;
        let data = self.checked(block, Kind::Index(dir.seed))?;
        let version = self.hash_version(data[ROOT_VERSION]);
        if version > hash::LAST_VERSION || data[ROOT_LEVELS] > 1 || data[ROOT_LEVELS + 1] & 1 != 0 {
            return damaged("root of a directory index", u64::from(dir.ino));
        }
        Ok(version)
    }

    /// The way to where a hash would be.
    pub(crate) fn way(&self, dir: &Inode, hash: u32) -> Result<Way, Error> {
        let version = self.index_version(dir)?;
        let root = self.frame(dir, 0, Some(hash))?;
        let depth = 1 + usize::from(self.cache.slot(root.block)?.data[ROOT_LEVELS]);
        let mut way = Way {
            frames: [root, Frame::default()],
            depth,
            version,
            leaf: 0,
        };
        for level in 1..depth {
            let next = self.child(&way.frames[level - 1], way.frames[level - 1].entry)?;
            if next == 0 {
                return damaged("directory index", u64::from(dir.ino));
            }
            way.frames[level] = self.frame(dir, next, Some(hash))?;
        }
        way.leaf = self.child(&way.last(), way.last().entry)?;
        if way.leaf == 0 {
            return damaged("directory index", u64::from(dir.ino));
        }
        Ok(way)
    }

    /// The way to the block of entries after this one, with the hash that it begins with.
    pub(crate) fn next_way(&self, dir: &Inode, way: &Way) -> Result<Option<(Way, u32)>, Error> {
        let mut next = *way;
        let Some(level) = (0..way.depth)
            .rev()
            .find(|&level| way.frames[level].entry + 1 < way.frames[level].count)
        else {
            return Ok(None);
        };
        next.frames[level].entry += 1;
        let hash = self.entry_hash(&next.frames[level], next.frames[level].entry)?;
        for below in level + 1..way.depth {
            let at = self.child(&next.frames[below - 1], next.frames[below - 1].entry)?;
            if at == 0 {
                return damaged("directory index", u64::from(dir.ino));
            }
            next.frames[below] = self.frame(dir, at, None)?;
            next.frames[below].entry = 0;
        }
        next.leaf = self.child(&next.last(), next.last().entry)?;
        if next.leaf == 0 {
            return damaged("directory index", u64::from(dir.ino));
        }
        Ok(Some((next, hash)))
    }

    pub(crate) fn find_indexed(&self, dir: &Inode, name: &[u8]) -> Result<Option<Found>, Error> {
        let hash = self.name_hash(self.index_version(dir)?, name).0;
        let mut way = self.way(dir, hash)?;
        // Names of the same hash may go on in the following blocks, which then begin with this hash and the lowest bit.
        for _ in 0..self.directory_blocks(dir) {
            if let Some(found) = self.in_leaf(dir, way.leaf, name)? {
                return Ok(Some(found));
            }
            match self.next_way(dir, &way)? {
                Some((next, begin)) if begin == hash | 1 => way = next,
                _ => break,
            }
        }
        Ok(None)
    }

    /// Whether a directory holds nothing but itself and its parent.
    pub(crate) fn is_empty(&self, dir: &Inode) -> Result<bool, Error> {
        // No name is empty, so this memory is of this question.
        let question = b"";
        let own =
            |at: u32, ino: u32, name: &[u8]| ino == 0 || at == 0 && (name == b"." || name == b"..");
        let nothing = |at: u32| -> Result<bool, Error> {
            let (_, data) = self.leaf(dir, at)?;
            Ok(entries(&self.shape, data).all(|entry| own(at, entry.ino, entry.name)))
        };
        if !self.is_indexed(dir) {
            for at in self.remembered(dir.ino, question)..self.directory_blocks(dir) {
                if !self.remembering(dir, question, at, nothing(at))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut way = self.way(dir, 0)?;
        for frame in &mut way.frames[..way.depth] {
            frame.entry = 0;
        }
        let seen = self.remembered(dir.ino, question);
        let mut at = 0;
        loop {
            if at >= seen {
                let answer = self.remembering(dir, question, at, nothing(way.leaf));
                if !answer? {
                    return Ok(false);
                }
            }
            at += 1;
            match self.next_way(dir, &way)? {
                Some((next, _)) if at <= self.directory_blocks(dir) => way = next,
                _ => return Ok(true),
            }
        }
    }

    fn remembering<T>(
        &self,
        dir: &Inode,
        name: &[u8],
        at: u32,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        if matches!(result, Err(Error::Need { .. })) {
            self.remember(dir.ino, name, at);
        }
        result
    }
}

/// Counters of a root or of another index block: each must be where the block's number says.
fn check_begin(data: &[u8], root: bool, size: usize) -> Option<usize> {
    let inner = usize::from(le16(data, 4)) == size;
    match (root, inner) {
        (true, false) => Some(32),
        (false, true) => Some(8),
        _ => None,
    }
}

/// For blocks whose counters must be found again without knowing what they are.
pub(crate) fn counters(shape: &crate::shape::Shape, data: &[u8]) -> Option<usize> {
    check_index(shape, data, 0).ok()
}
