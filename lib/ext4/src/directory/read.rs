//! Listing directories. A directory that has an index, or may get one while somebody reads it (one block, on a file system with indexes), is listed in the order of
//! its hashes, because entries then keep their places whatever is put in or taken out meanwhile; others in the order of their blocks.
//!
//! A position is 0 at the beginning, 1 behind `.`, 2 behind `..`, and after that the hash (first 31 bits and second hash) plus 2, or the place in the directory plus 2.

use super::entries;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::Inode;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub ino: u32,
    /// As in a directory entry: 1 regular, 2 directory, 3 and 4 devices, 5 FIFO, 6 socket, 7 link; 0 unknown.
    pub kind: u8,
    pub name: Vec<u8>,
    /// Where the next listing begins if this entry is the last that was wanted.
    pub next: u64,
}

const FIRST: u64 = 2;
/// Behind everything.
const END: u64 = i64::MAX as u64;
/// Blocks that are listed together at most; only a made-up image has so many names of one hash.
const COLLIDING: usize = 16;

fn position((major, minor): (u32, u32)) -> u64 {
    (u64::from(major >> 1) << 32 | u64::from(minor)) + FIRST
}

impl Fs {
    /// Entries from a position on: at least one, and as many as one block has; none at the end.
    pub fn read_directory(&self, ino: u32, from: u64) -> Result<Vec<Listed>, Error> {
        let dir = self.directory(ino)?;
        if from < FIRST {
            let mut own = Vec::new();
            for (next, name, ino) in [(1, b".".as_slice(), ino), (2, b"..", self.parent(&dir)?)] {
                if from < next {
                    own.push(Listed {
                        ino,
                        kind: 2,
                        name: name.to_vec(),
                        next,
                    });
                }
            }
            return Ok(own);
        }
        if from >= END {
            return Ok(Vec::new());
        }
        let blocks = self.directory_blocks(&dir);
        if self.is_indexed(&dir) {
            self.list_index(&dir, from)
        } else if self.shape.indexes && blocks == 1 {
            let version = self.hash_version(self.shape.hash_version);
            Ok(self.list_hashed(&dir, 0, version, from)?)
        } else {
            self.list_blocks(&dir, from, blocks)
        }
    }

    fn listed(entry: super::Entry<'_>, next: u64) -> Listed {
        Listed {
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name.to_vec(),
            next,
        }
    }

    fn list_blocks(&self, dir: &Inode, from: u64, blocks: u32) -> Result<Vec<Listed>, Error> {
        let size = self.shape.block_size as u64;
        let begin = from - FIRST;
        let first = (begin / size).min(u64::from(blocks)) as u32;
        for at in first..blocks {
            let base = u64::from(at) * size;
            let (_, data) = self.leaf(dir, at)?;
            let some: Vec<Listed> = entries(&self.shape, data)
                .filter(|entry| {
                    entry.ino != 0
                        && base + entry.at as u64 >= begin
                        && !(at == 0 && (entry.name == b"." || entry.name == b".."))
                })
                .map(|entry| Self::listed(entry, base + (entry.at + entry.len) as u64 + FIRST))
                .collect();
            if !some.is_empty() {
                return Ok(some);
            }
        }
        Ok(Vec::new())
    }

    /// One block's entries from a position on, in the order of their hashes.
    fn list_hashed(
        &self,
        dir: &Inode,
        at: u32,
        version: u8,
        from: u64,
    ) -> Result<Vec<Listed>, Error> {
        let (_, data) = self.leaf(dir, at)?;
        let mut some: Vec<Listed> = entries(&self.shape, data)
            .filter(|entry| {
                entry.ino != 0 && !(at == 0 && (entry.name == b"." || entry.name == b".."))
            })
            .map(|entry| Self::listed(entry, position(self.name_hash(version, entry.name)) + 1))
            .filter(|entry| entry.next > from)
            .collect();
        some.sort_unstable_by_key(|entry| entry.next);
        Ok(some)
    }

    fn list_index(&self, dir: &Inode, from: u64) -> Result<Vec<Listed>, Error> {
        let hash = ((from - FIRST) >> 32 << 1) as u32;
        let mut way = self.way(dir, hash)?;
        let mut from = from;
        for _ in 0..self.directory_blocks(dir) {
            let mut some = self.list_hashed(dir, way.leaf, way.version, from)?;
            let next = self.next_way(dir, &way)?;
            if let (Some(last), Some((_, begin))) = (some.last(), &next) {
                // Names of one hash in two blocks: the second block's may have smaller second hashes, so both are listed together.
                let hash = ((last.next - 1 - FIRST) >> 32 << 1) as u32;
                if *begin == hash | 1 {
                    let mut along = next;
                    for _ in 0..COLLIDING {
                        let Some((other, _)) = along.filter(|(_, begin)| *begin == hash | 1) else {
                            break;
                        };
                        some.extend(self.list_hashed(dir, other.leaf, way.version, from)?);
                        along = self.next_way(dir, &other)?;
                    }
                    some.sort_unstable_by_key(|entry| entry.next);
                    some.dedup();
                }
            }
            if !some.is_empty() {
                return Ok(some);
            }
            match next {
                Some((next, begin)) => {
                    way = next;
                    from = from.max(u64::from(begin >> 1) << 32).max(FIRST);
                }
                None => break,
            }
        }
        Ok(Vec::new())
    }
}
