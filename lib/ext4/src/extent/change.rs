//! Changes of extent trees. Each is a part of an operation, so a failure in the middle leaves nothing behind.

use super::{child, entries, extent, header, index_bytes, key, most, Extent, Level, Path, ENTRY};
use super::{MAX_DEPTH, MAX_WRITTEN};
use crate::bytes::le16;
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::{Fs, Run};
use crate::inode::Inode;
use alloc::vec::Vec;

const ROOT_ENTRIES: u16 = 4;

/// An empty tree.
pub(crate) fn empty() -> [u8; 60] {
    let mut area = [0; 60];
    area[..ENTRY].copy_from_slice(&header(0, ROOT_ENTRIES, 0));
    area
}

/// One extent out of two, if they are beside each other in the file and on the device.
fn joined(left: Extent, right: Extent) -> Option<Extent> {
    let len = left.len + right.len;
    let longest = MAX_WRITTEN - u32::from(left.unwritten);
    (left.end() == u64::from(right.at)
        && left.start + u64::from(left.len) == right.start
        && left.unwritten == right.unwritten
        && len <= longest)
        .then_some(Extent { len, ..left })
}

impl Fs {
    pub(super) fn node_write(
        &mut self,
        inode: &mut Inode,
        block: Option<u64>,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        match block {
            None => {
                crate::bytes::put(&mut inode.area, at, bytes);
                Ok(())
            }
            Some(block) => self.cache.write(block, at, bytes),
        }
    }

    /// Entries of a node from number `entry`: `gone` of them go, `new` come.
    fn splice(
        &mut self,
        inode: &mut Inode,
        block: Option<u64>,
        entry: usize,
        gone: usize,
        new: &[[u8; ENTRY]],
    ) -> Result<(), Error> {
        let node = self.node(inode, block)?;
        let count = entries(node);
        let from = ENTRY + ENTRY * (entry + gone);
        let mut bytes: Vec<u8> = new.concat();
        bytes.extend_from_slice(node.get(from..ENTRY + ENTRY * count).unwrap_or(&[]));
        let count = (count + new.len()).saturating_sub(gone);
        if count > most(node) {
            return damaged("extent node that overflows", u64::from(inode.ino));
        }
        self.node_write(inode, block, ENTRY + ENTRY * entry, &bytes)?;
        self.node_write(inode, block, 2, &(count as u16).to_le_bytes())
    }

    /// The first key of the node at `level` has changed: its ancestors must say the same.
    fn fix_keys(&mut self, inode: &mut Inode, path: &Path, level: usize) -> Result<(), Error> {
        let first = key(self.node(inode, path.levels[level].block)?, 0);
        for above in path.levels[..level].iter().rev() {
            let at = ENTRY + ENTRY * above.entry;
            self.node_write(inode, above.block, at, &first.to_le_bytes())?;
            if above.entry != 0 {
                break;
            }
        }
        Ok(())
    }

    /// Puts an extent where there is a hole.
    pub(crate) fn insert(&mut self, inode: &mut Inode, new: Extent) -> Result<(), Error> {
        let longest = MAX_WRITTEN - u32::from(new.unwritten);
        if new.len == 0 || new.len > longest || new.end() > u64::from(u32::MAX) {
            return Err(Error::Invalid);
        }
        // Every split makes room one level further down.
        for _ in 0..=MAX_DEPTH + 2 {
            let path = self.descend(inode, new.at)?;
            let Level { block, entry } = path.leaf();
            let node = self.node(inode, block)?;
            let count = entries(node);
            let left = (entry > 0).then(|| extent(node, entry - 1));
            let right = (entry < count).then(|| extent(node, entry));
            let before = left.map_or(0, |left| left.end());
            let after = right.map_or(path.end, |right| u64::from(right.at));
            if u64::from(new.at) < before || new.end() > after {
                return damaged("extent over another", u64::from(inode.ino));
            }
            let with_left = left.and_then(|left| joined(left, new));
            let with_right = right.and_then(|right| joined(with_left.unwrap_or(new), right));
            let full = count >= most(node);
            match (with_left, with_right) {
                (Some(_), Some(all)) => {
                    return self.splice(inode, block, entry - 1, 2, &[all.bytes()]);
                }
                (Some(both), None) => {
                    let at = ENTRY + ENTRY * (entry - 1);
                    return self.node_write(inode, block, at, &both.bytes());
                }
                (None, Some(both)) => {
                    let at = ENTRY + ENTRY * entry;
                    self.node_write(inode, block, at, &both.bytes())?;
                }
                (None, None) if !full => {
                    self.splice(inode, block, entry, 0, &[new.bytes()])?;
                }
                (None, None) => {
                    self.split(inode, &path)?;
                    continue;
                }
            }
            if entry == 0 {
                self.fix_keys(inode, &path, path.depth)?;
            }
            return Ok(());
        }
        damaged("extent tree", u64::from(inode.ino))
    }

    /// Makes room: the lowest full node below one that has room becomes two; if there is none with room, the root's content moves into a block.
    fn split(&mut self, inode: &mut Inode, path: &Path) -> Result<(), Error> {
        let mut roomy = None;
        for level in (0..path.depth).rev() {
            let node = self.node(inode, path.levels[level].block)?;
            if entries(node) < most(node) {
                roomy = Some(level);
                break;
            }
        }
        let block_size = self.shape.block_size;
        // The checksum takes 4 of the bytes that are left over behind the last entry.
        let max = ((block_size - ENTRY) / ENTRY) as u16;
        let Some(level) = roomy else {
            if path.depth >= MAX_DEPTH {
                return Err(Error::TooLarge);
            }
            let count = entries(&inode.area);
            let depth = le16(&inode.area, 6);
            let first = key(&inode.area, 0);
            let block = self.new_block(inode, Kind::Node(inode.seed))?;
            let mut bytes = header(count as u16, max, depth).to_vec();
            bytes.extend_from_slice(&inode.area[ENTRY..ENTRY + ENTRY * count]);
            self.cache.write(block, 0, &bytes)?;
            inode.area = empty();
            let root = header(1, ROOT_ENTRIES, depth + 1);
            self.node_write(inode, None, 0, &root)?;
            return self.node_write(inode, None, ENTRY, &index_bytes(first, block));
        };
        let full = path.levels[level + 1];
        let node = self.node(inode, full.block)?;
        let (count, depth) = (entries(node), le16(node, 6));
        // Behind the last entry only the last one moves, so files that grow fill their nodes.
        let last = full.entry + usize::from(depth != 0) >= count;
        let middle = if last { count - 1 } else { count / 2 };
        if middle == 0 {
            return damaged("extent node", u64::from(inode.ino));
        }
        let moved = node[ENTRY + ENTRY * middle..ENTRY + ENTRY * count].to_vec();
        let first = key(node, middle);
        let block = self.new_block(inode, Kind::Node(inode.seed))?;
        let mut bytes = header((count - middle) as u16, max, depth).to_vec();
        bytes.extend_from_slice(&moved);
        self.cache.write(block, 0, &bytes)?;
        self.node_write(inode, full.block, 2, &(middle as u16).to_le_bytes())?;
        let above = path.levels[level];
        self.splice(
            inode,
            above.block,
            above.entry + 1,
            0,
            &[index_bytes(first, block)],
        )
    }

    /// Takes the first mapped piece out of `from..to`; its blocks stay allocated and are the caller's. None: nothing is mapped there.
    pub(crate) fn cut(
        &mut self,
        inode: &mut Inode,
        from: u32,
        to: u64,
    ) -> Result<Option<Extent>, Error> {
        let Some((path, entry, whole)) = self.locate(inode, from)? else {
            return Ok(None);
        };
        if u64::from(whole.at.max(from)) >= to {
            return Ok(None);
        }
        let at = whole.at.max(from);
        let end = whole.end().min(to);
        let piece = Extent {
            at,
            len: (end - u64::from(at)) as u32,
            start: whole.start + u64::from(at - whole.at),
            unwritten: whole.unwritten,
        };
        let left = Extent {
            len: at - whole.at,
            ..whole
        };
        let rest = (whole.end() - end) as u32;
        let right = Extent {
            at: end as u32,
            len: rest,
            start: piece.start + u64::from(piece.len),
            ..whole
        };
        let block = path.leaf().block;
        let place = ENTRY + ENTRY * entry;
        match (left.len, rest) {
            (0, 0) => self.remove_entry(inode, &path, path.depth, entry)?,
            (0, _) => {
                self.node_write(inode, block, place, &right.bytes())?;
                if entry == 0 {
                    self.fix_keys(inode, &path, path.depth)?;
                }
            }
            (_, 0) => self.node_write(inode, block, place, &left.bytes())?,
            _ => {
                self.node_write(inode, block, place, &left.bytes())?;
                self.insert(inode, right)?;
            }
        }
        self.pull_up(inode)?;
        Ok(Some(piece))
    }

    /// Removes an entry, and nodes that become empty.
    fn remove_entry(
        &mut self,
        inode: &mut Inode,
        path: &Path,
        level: usize,
        entry: usize,
    ) -> Result<(), Error> {
        let (mut level, mut entry) = (level, entry);
        loop {
            let block = path.levels[level].block;
            self.splice(inode, block, entry, 1, &[])?;
            let left = entries(self.node(inode, block)?);
            if left != 0 {
                if entry == 0 {
                    self.fix_keys(inode, path, level)?;
                }
                return Ok(());
            }
            match block {
                None => {
                    inode.area = empty();
                    return Ok(());
                }
                Some(block) => self.drop_block(inode, block)?,
            }
            level -= 1;
            entry = path.levels[level].entry;
        }
    }

    /// A root with a single child whose entries it could have itself.
    fn pull_up(&mut self, inode: &mut Inode) -> Result<(), Error> {
        let depth = le16(&inode.area, 6);
        if depth == 0 || entries(&inode.area) != 1 {
            return Ok(());
        }
        let only = child(&inode.area, 0);
        if !self.zones.free_of(only, 1) {
            return damaged("extent index", u64::from(inode.ino));
        }
        let node = self.node(inode, Some(only))?;
        let count = entries(node);
        if count > usize::from(ROOT_ENTRIES) || le16(node, 6) + 1 != depth {
            return Ok(());
        }
        let mut area = empty();
        area[..ENTRY].copy_from_slice(&header(count as u16, ROOT_ENTRIES, depth - 1));
        area[ENTRY..ENTRY + ENTRY * count].copy_from_slice(&node[ENTRY..ENTRY + ENTRY * count]);
        inode.area = area;
        self.drop_block(inode, only)
    }

    /// A metadata block for this file, near its others.
    pub(crate) fn new_block(&mut self, inode: &mut Inode, kind: Kind) -> Result<u64, Error> {
        let goal = self.goal(inode, 0)?;
        let run = self.find_free(goal, 1)?;
        self.take(run)?;
        self.cache.create(run.start, kind);
        inode.sectors += self.sectors(1);
        Ok(run.start)
    }

    /// The reverse. The caller has taken out what pointed there.
    pub(crate) fn drop_block(&mut self, inode: &mut Inode, block: u64) -> Result<(), Error> {
        self.give(Run {
            start: block,
            len: 1,
        })?;
        self.op.forget.push(block);
        inode.sectors = inode.sectors.saturating_sub(self.sectors(1));
        Ok(())
    }

    pub(crate) fn sectors(&self, blocks: u32) -> u64 {
        u64::from(blocks) << (self.shape.block_bits - 9)
    }
}
