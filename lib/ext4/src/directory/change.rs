//! Putting names into directories and taking them out. A full block gives half of its names to a new one; the first time that happens the directory gets its index.

use super::index::{Frame, ROOT_LEVELS, ROOT_VERSION};
use super::{entries, entry_at, needs, room, scan, Entry, HEAD, TAIL, TAIL_TYPE};
use crate::bytes::{le16, le32, put16, put32};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::extent::Extent;
use crate::fs::Fs;
use crate::inode::{Inode, INDEXED};
use crate::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;

/// Blocks of a directory without index that are searched for room.
const LOOK: u32 = 32;

/// A name on its way from one block to another.
#[derive(Clone)]
struct Moved {
    hash: u32,
    minor: u32,
    ino: u32,
    kind: u8,
    name: Vec<u8>,
}

fn put_entry(data: &mut [u8], at: usize, len: usize, ino: u32, kind: u8, name: &[u8]) {
    put32(data, at, ino);
    put16(data, at + 4, len as u16);
    data[at + 6] = name.len() as u8;
    data[at + 7] = kind;
    data[at + HEAD..at + HEAD + name.len()].copy_from_slice(name);
}

/// A block of entries with these names, packed; the last one has the room that is left.
fn packed(shape: &Shape, names: &[Moved]) -> Vec<u8> {
    let mut data = vec![0; shape.block_size];
    let end = room(shape);
    let mut at = 0;
    for (number, one) in names.iter().enumerate() {
        let len = if number + 1 == names.len() {
            end - at
        } else {
            needs(one.name.len())
        };
        put_entry(&mut data, at, len, one.ino, one.kind, &one.name);
        at += len;
    }
    if names.is_empty() {
        put16(&mut data, 4, end as u16);
    }
    if shape.checksums {
        put16(&mut data, end + 4, TAIL as u16);
        data[end + 7] = TAIL_TYPE;
    }
    data
}

impl Fs {
    fn moved(&self, version: u8, entry: &Entry<'_>) -> Moved {
        let (hash, minor) = self.name_hash(version, entry.name);
        Moved {
            hash,
            minor,
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name.to_vec(),
        }
    }

    /// The first block of a new directory.
    pub(crate) fn begin_directory(&mut self, dir: &mut Inode, parent: u32) -> Result<(), Error> {
        let (_, block) = self.grow_directory(dir, Kind::Leaf(dir.seed))?;
        let own = |ino, name: &[u8]| Moved {
            hash: 0,
            minor: 0,
            ino,
            kind: 2,
            name: name.to_vec(),
        };
        let data = packed(&self.shape, &[own(dir.ino, b"."), own(parent, b"..")]);
        self.cache.write(block, 0, &data)
    }

    /// One more block behind the last: its number in the directory and on the device.
    fn grow_directory(&mut self, dir: &mut Inode, kind: Kind) -> Result<(u32, u64), Error> {
        if self.room(true) == 0 {
            return Err(Error::NoSpace);
        }
        let at = self.directory_blocks(dir);
        let goal = self.goal(dir, at)?;
        let run = self.find_free(goal, 1)?;
        self.take(run)?;
        self.cache.create(run.start, kind);
        self.insert(
            dir,
            Extent {
                at,
                len: 1,
                start: run.start,
                unwritten: false,
            },
        )?;
        dir.sectors += self.sectors(1);
        dir.size += self.shape.block_size as u64;
        Ok((at, run.start))
    }

    /// Into a block of entries, if there is room.
    fn put_into(&mut self, block: u64, name: &[u8], ino: u32, kind: u8) -> Result<bool, Error> {
        let data = &self.cache.slot(block)?.data;
        let need = needs(name.len());
        let used = |ino: u32, name: usize| if ino == 0 { 0 } else { needs(name) };
        let Some((at, len)) = scan(data, room(&self.shape), |_, ino, len, name| {
            len >= need + used(ino, name)
        }) else {
            return Ok(false);
        };
        let used = used(le32(data, at), usize::from(data[at + 6]));
        if used != 0 {
            self.cache
                .write(block, at + 4, &(used as u16).to_le_bytes())?;
        }
        let mut new = vec![0; need];
        put_entry(&mut new, 0, len - used, ino, kind, name);
        self.cache.write(block, at + used, &new)?;
        Ok(true)
    }

    /// Puts a name in that is not there. The caller writes the directory's inode.
    pub(crate) fn insert_name(
        &mut self,
        dir: &mut Inode,
        name: &[u8],
        ino: u32,
        kind: u8,
    ) -> Result<(), Error> {
        self.forget_look(dir.ino);
        if self.is_indexed(dir) {
            return self.insert_indexed(dir, name, ino, kind);
        }
        let blocks = self.directory_blocks(dir);
        // Without an index a look at the last blocks must do: the room that names leave in earlier ones stays unused.
        for at in blocks.saturating_sub(LOOK)..blocks {
            let (block, _) = self.leaf(dir, at)?;
            if self.put_into(block, name, ino, kind)? {
                return Ok(());
            }
        }
        if blocks == 1 && self.shape.indexes {
            self.begin_index(dir)?;
            return self.insert_indexed(dir, name, ino, kind);
        }
        let (_, block) = self.grow_directory(dir, Kind::Leaf(dir.seed))?;
        let empty = packed(&self.shape, &[]);
        self.cache.write(block, 0, &empty)?;
        match self.put_into(block, name, ino, kind)? {
            true => Ok(()),
            false => Err(Error::NameTooLong),
        }
    }

    pub(crate) fn forget_look(&self, dir: u32) {
        let mut memo = self.memo.borrow_mut();
        if memo.as_ref().is_some_and(|memo| memo.dir == dir) {
            *memo = None;
        }
    }

    /// The names of the only block move to a second one, and the first becomes the root of an index.
    fn begin_index(&mut self, dir: &mut Inode) -> Result<(), Error> {
        let stored = self.shape.hash_version;
        let version = self.hash_version(stored);
        if version > super::hash::LAST_VERSION {
            return damaged("hash of directories", 0);
        }
        let parent = self.parent(dir)?;
        let (root, data) = self.leaf(dir, 0)?;
        let names: Vec<Moved> = entries(&self.shape, data)
            .filter(|entry| entry.ino != 0 && entry.name != b"." && entry.name != b"..")
            .map(|entry| self.moved(version, &entry))
            .collect();
        let (at, leaf) = self.grow_directory(dir, Kind::Leaf(dir.seed))?;
        let data = packed(&self.shape, &names);
        self.cache.write(leaf, 0, &data)?;

        let size = self.shape.block_size;
        let mut data = vec![0; size];
        put_entry(&mut data, 0, 12, dir.ino, 2, b".");
        put_entry(&mut data, 12, size - 12, parent, 2, b"..");
        data[ROOT_VERSION] = stored;
        data[ROOT_VERSION + 1] = 8;
        let limit = self.index_limit(32);
        put16(&mut data, 32, limit as u16);
        put16(&mut data, 34, 1);
        put32(&mut data, 36, at);
        self.cache.create(root, Kind::Index(dir.seed));
        self.cache.write(root, 0, &data)?;
        dir.flags |= INDEXED;
        Ok(())
    }

    fn index_limit(&self, at: usize) -> usize {
        (self.shape.block_size - at - if self.shape.checksums { 8 } else { 0 }) / 8
    }

    fn insert_indexed(
        &mut self,
        dir: &mut Inode,
        name: &[u8],
        ino: u32,
        kind: u8,
    ) -> Result<(), Error> {
        let hash = self.name_hash(self.index_version(dir)?, name).0;
        // At most: the block splits, its index block splits, the root gets a level.
        for _ in 0..4 {
            let way = self.way(dir, hash)?;
            let (block, _) = self.leaf(dir, way.leaf)?;
            if self.put_into(block, name, ino, kind)? {
                return Ok(());
            }
            let last = way.last();
            if last.count < last.limit {
                self.split_leaf(dir, block, &last, way.version)?;
            } else if way.depth == 1 {
                self.raise_root(dir, &last)?;
            } else if way.frames[0].count < way.frames[0].limit {
                self.split_index(dir, &way.frames[0], &last)?;
            } else {
                return Err(Error::NoSpace);
            }
        }
        damaged("directory index", u64::from(dir.ino))
    }

    /// Half of a block's names go to a new block, and the index above learns of it.
    fn split_leaf(
        &mut self,
        dir: &mut Inode,
        block: u64,
        above: &Frame,
        version: u8,
    ) -> Result<(), Error> {
        let data = &self.cache.slot(block)?.data;
        let mut names: Vec<Moved> = entries(&self.shape, data)
            .filter(|entry| entry.ino != 0)
            .map(|entry| self.moved(version, &entry))
            .collect();
        names.sort_unstable_by_key(|one| (one.hash, one.minor));
        let mut bytes = 0;
        let middle = names
            .iter()
            .position(|one| {
                bytes += needs(one.name.len());
                bytes > self.shape.block_size / 2
            })
            .unwrap_or(0)
            .clamp(1, names.len().max(2) - 1);
        if middle >= names.len() {
            return damaged("directory block", block);
        }
        let first = names[middle].hash;
        let goes_on = u32::from(names[middle - 1].hash == first);
        let (at, new) = self.grow_directory(dir, Kind::Leaf(dir.seed))?;
        let (left, right) = (
            packed(&self.shape, &names[..middle]),
            packed(&self.shape, &names[middle..]),
        );
        self.cache.write(block, 0, &left)?;
        self.cache.write(new, 0, &right)?;
        self.put_index(above, first | goes_on, at)
    }

    /// A new entry behind the one that was followed.
    fn put_index(&mut self, frame: &Frame, hash: u32, to: u32) -> Result<(), Error> {
        let data = &self.cache.slot(frame.block)?.data;
        let from = frame.at + 8 * (frame.entry + 1);
        let end = frame.at + 8 * frame.count;
        let mut bytes = vec![0; 8];
        put32(&mut bytes, 0, hash);
        put32(&mut bytes, 4, to);
        bytes.extend_from_slice(&data[from..end]);
        self.cache.write(frame.block, from, &bytes)?;
        let count = (frame.count + 1) as u16;
        self.cache
            .write(frame.block, frame.at + 2, &count.to_le_bytes())
    }

    /// An index block below the root with these entries; the hash of the first is not stored there.
    fn new_index(&mut self, dir: &mut Inode, entries: &[u8]) -> Result<u32, Error> {
        let (at, block) = self.grow_directory(dir, Kind::Index(dir.seed))?;
        let mut data = vec![0; self.shape.block_size];
        put16(&mut data, 4, self.shape.block_size as u16);
        data[8..8 + entries.len()].copy_from_slice(entries);
        put16(&mut data, 8, self.index_limit(8) as u16);
        put16(&mut data, 10, (entries.len() / 8) as u16);
        self.cache.write(block, 0, &data)?;
        Ok(at)
    }

    /// The root is full: its entries go to a block of their own.
    fn raise_root(&mut self, dir: &mut Inode, root: &Frame) -> Result<(), Error> {
        let data = &self.cache.slot(root.block)?.data;
        let all = data[root.at..root.at + 8 * root.count].to_vec();
        let at = self.new_index(dir, &all)?;
        let mut only = vec![0; 8 * root.count];
        put16(&mut only, 0, root.limit as u16);
        put16(&mut only, 2, 1);
        put32(&mut only, 4, at);
        self.cache.write(root.block, root.at, &only)?;
        self.cache.write(root.block, ROOT_LEVELS, &[1])
    }

    /// Half of an index block's entries go to a new one.
    fn split_index(&mut self, dir: &mut Inode, root: &Frame, full: &Frame) -> Result<(), Error> {
        let middle = full.count / 2;
        let data = &self.cache.slot(full.block)?.data;
        let (from, end) = (full.at + 8 * middle, full.at + 8 * full.count);
        let upper = data[from..end].to_vec();
        let hash = crate::bytes::le32(&upper, 0);
        let at = self.new_index(dir, &upper)?;
        self.cache
            .write(full.block, full.at + 2, &(middle as u16).to_le_bytes())?;
        self.put_index(root, hash, at)
    }

    /// Takes a name out: the entry before it gets its room.
    pub(crate) fn remove_name(&mut self, dir: &Inode, name: &[u8]) -> Result<u32, Error> {
        let found = self.find_name(dir, name)?.ok_or(Error::NotFound)?;
        self.forget_look(dir.ino);
        let data = &self.cache.slot(found.block)?.data;
        let gone = entry_at(data, found.at).len;
        let before = entries(&self.shape, data).find(|entry| entry.at + entry.len == found.at);
        match before {
            Some(before) => {
                let len = (before.len + gone) as u16;
                let at = before.at + 4;
                self.cache.write(found.block, at, &len.to_le_bytes())?;
            }
            None => self.cache.write(found.block, found.at, &[0; 4])?,
        }
        Ok(found.ino)
    }

    /// Another inode behind a name that is there.
    pub(crate) fn replace_name(
        &mut self,
        dir: &Inode,
        name: &[u8],
        ino: u32,
        kind: u8,
    ) -> Result<(), Error> {
        let found = self.find_name(dir, name)?.ok_or(Error::NotFound)?;
        self.cache
            .write(found.block, found.at, &ino.to_le_bytes())?;
        self.cache.write(found.block, found.at + 7, &[kind])
    }

    pub(crate) fn set_parent(&mut self, dir: &Inode, parent: u32) -> Result<(), Error> {
        self.parent(dir)?;
        let block = self.directory_block(dir, 0)?;
        debug_assert_eq!(le16(&self.cache.slot(block)?.data, 4), 12);
        self.cache.write(block, 12, &parent.to_le_bytes())
    }
}
