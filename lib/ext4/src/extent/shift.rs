//! Extents that move within their file: what lies between two of them goes (collapse), or room comes (insert). The blocks stay where they are; only the keys of the tree change, in place.

use super::{check_node, child, entries, extent, key, Extent, ENTRY};
use crate::bytes::{le16, put32};
use crate::error::{damaged, Error};
use crate::fs::{Fs, Time};
use crate::inode::{Inode, EXTENTS};
use alloc::vec::Vec;

/// Most nodes of a tree that one operation changes: 32,000 extents with blocks of 4 KiB.
const MOST_NODES: usize = 96;
/// The last block that a file can have.
const LAST: i64 = u32::MAX as i64 - 1;

impl Fs {
    /// What lies from block `to` on comes to `from`, where the file has a hole up to there; it has this length then. All of it or nothing.
    pub fn collapse(
        &mut self,
        ino: u32,
        from: u32,
        to: u32,
        size: u64,
        now: Time,
    ) -> Result<(), Error> {
        self.change(|fs| {
            let mut inode = fs.growable(ino)?;
            let next = fs.extent_from(&inode, from)?;
            if from >= to || next.is_some_and(|next| next.at < to) {
                return Err(Error::Invalid);
            }
            fs.shift(&mut inode, to, i64::from(from) - i64::from(to))?;
            fs.put_shifted(inode, size, now)
        })
    }

    /// A hole of `count` blocks comes to block `at`; what was there from it on lies behind, and the file has this length then. All of it or nothing.
    pub fn insert_hole(
        &mut self,
        ino: u32,
        at: u32,
        count: u32,
        size: u64,
        now: Time,
    ) -> Result<(), Error> {
        self.blocks_of(size)?;
        self.change(|fs| {
            let mut inode = fs.growable(ino)?;
            let there = fs.extent_from(&inode, at)?;
            // Of one that lies on both sides the rest moves by itself.
            let rest = match there.filter(|there| there.at < at) {
                Some(there) => fs.cut(&mut inode, at, there.end())?,
                None => None,
            };
            fs.shift(&mut inode, at, i64::from(count))?;
            if let Some(rest) = rest {
                let at = rest.at.checked_add(count).ok_or(Error::TooLarge)?;
                fs.insert(&mut inode, Extent { at, ..rest })?;
            }
            fs.put_shifted(inode, size, now)
        })
    }

    fn put_shifted(&mut self, mut inode: Inode, size: u64, now: Time) -> Result<(), Error> {
        inode.size = size;
        inode.mtime = now;
        inode.ctime = now;
        self.put_inode(&inode, true)
    }

    /// All extents from block `from` on, where one begins or none is, move by so many blocks.
    fn shift(&mut self, inode: &mut Inode, from: u32, by: i64) -> Result<(), Error> {
        if inode.flags & EXTENTS == 0 {
            return Err(Error::Unsupported("file without extents"));
        }
        check_node(&inode.area, u64::from(inode.ino))?;
        let depth = le16(&inode.area, 6);
        let mut left = MOST_NODES;
        self.shift_node(inode, (None, None), depth, (from, by), &mut left)
    }

    /// The same in one node, whose first key its parent says, and those below it.
    fn shift_node(
        &mut self,
        inode: &mut Inode,
        (block, first): (Option<u64>, Option<u32>),
        depth: u16,
        (from, by): (u32, i64),
        left: &mut usize,
    ) -> Result<(), Error> {
        *left = left.checked_sub(1).ok_or(Error::TooLarge)?;
        let ino = u64::from(inode.ino);
        let node = self.node(inode, block)?;
        let count = entries(node);
        if le16(node, 6) != depth || first.is_some_and(|it| count == 0 || it != key(node, 0)) {
            return damaged("extent tree", ino);
        }
        let mut keys = Vec::new();
        let mut below = Vec::new();
        for entry in 0..count {
            let at = key(node, entry);
            let end = match depth {
                0 => extent(node, entry).end() as i64,
                // Where the next one begins.
                _ if entry + 1 < count => i64::from(key(node, entry + 1)),
                _ => i64::MAX,
            };
            if depth != 0 && end > i64::from(from) {
                below.push((child(node, entry), at));
            }
            if at < from {
                if depth == 0 && end > i64::from(from) {
                    return Err(Error::Invalid);
                }
                continue;
            }
            let new = i64::from(at) + by;
            if !(0..=LAST).contains(&new) || depth == 0 && end + by > LAST {
                return Err(Error::TooLarge);
            }
            keys.push((entry, new as u32));
        }
        for (block, first) in below {
            if !self.zones.free_of(block, 1) {
                return damaged("extent index", ino);
            }
            let place = (Some(block), Some(first));
            self.shift_node(inode, place, depth - 1, (from, by), left)?;
        }
        let Some(&(first, _)) = keys.first() else {
            return Ok(());
        };
        let begin = ENTRY + ENTRY * first;
        let mut bytes = self.node(inode, block)?[begin..ENTRY + ENTRY * count].to_vec();
        for (entry, key) in keys {
            put32(&mut bytes, ENTRY * (entry - first), key);
        }
        self.node_write(inode, block, begin, &bytes)
    }
}
