//! Extended attributes: in what the inode has left over, and in one more block, which several inodes may share. A change lays all of them out anew.

use crate::bytes::{le16, le32, put16, put32};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::{Fs, Time};
use crate::inode::Inode;
use crate::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;
use cairn_crc32c::crc32c;

const MAGIC: u32 = 0xEA02_0000;
/// Of the block: magic, references, blocks, hash, checksum.
const HEAD: usize = 32;
const ENTRY: usize = 16;

/// Names are stored without what they begin with; the longest is tried first.
const PREFIXES: [(u8, &[u8]); 6] = [
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (1, b"user."),
    (4, b"trusted."),
    (6, b"security."),
    (7, b"system."),
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attribute {
    prefix: u8,
    len: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Attribute {
    fn split(full: &[u8]) -> Result<(u8, &[u8]), Error> {
        let (prefix, rest) = PREFIXES
            .iter()
            .find_map(|(prefix, text)| Some((*prefix, full.strip_prefix(*text)?)))
            .ok_or(Error::Invalid)?;
        // The two lists have nothing behind their names, the others must.
        if rest.len() > 255 || matches!(prefix, 2 | 3) != rest.is_empty() {
            return Err(Error::Invalid);
        }
        Ok((prefix, rest))
    }

    fn full(&self) -> Option<Vec<u8>> {
        let (_, text) = PREFIXES.iter().find(|(prefix, _)| *prefix == self.prefix)?;
        Some([*text, &self.name].concat())
    }

    fn head(&self) -> usize {
        (ENTRY + self.name.len()).next_multiple_of(4)
    }

    fn room(&self) -> usize {
        self.head() + self.value.len().next_multiple_of(4)
    }

    /// Over name and value, as words.
    fn hash(&self) -> u32 {
        let name = self
            .name
            .iter()
            .fold(0u32, |hash, &byte| hash.rotate_left(5) ^ u32::from(byte));
        self.value.chunks(4).fold(name, |hash, chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            hash.rotate_left(16) ^ u32::from_le_bytes(word)
        })
    }
}

pub(crate) fn block_sum(shape: &Shape, block: u64, data: &[u8]) -> u32 {
    let crc = crc32c(shape.seed, &block.to_le_bytes());
    let crc = crc32c(crc, &data[..0x10]);
    crc32c(crc32c(crc, &[0; 4]), &data[0x14..])
}

pub(crate) fn check_block(data: &[u8], block: u64) -> Result<(), Error> {
    if le32(data, 0) != MAGIC || le32(data, 4) == 0 || le32(data, 8) != 1 {
        return damaged("attribute block", block);
    }
    parse(data, HEAD, block).map(|_| ())
}

/// Entries from `first` on; values are counted from the beginning of `area`.
fn parse(area: &[u8], first: usize, at: u64) -> Result<Vec<Attribute>, Error> {
    let mut all = Vec::new();
    let mut next = first;
    while le32(area, next) != 0 {
        let len = usize::from(area[next]);
        let (offset, size) = (
            usize::from(le16(area, next + 2)),
            le32(area, next + 8) as usize,
        );
        if le32(area, next + 4) != 0 {
            return Err(Error::Unsupported("ea_inode"));
        }
        let name = area.get(next + ENTRY..next + ENTRY + len);
        let value = match size {
            0 => Some(&[][..]),
            _ if offset < first || size > area.len() => None,
            _ => area.get(offset..offset + size),
        };
        let (Some(name), Some(value)) = (name, value) else {
            return damaged("attribute", at);
        };
        all.push(Attribute {
            prefix: area[next + 1],
            len,
            name: name.to_vec(),
            value: value.to_vec(),
        });
        next += (ENTRY + len).next_multiple_of(4);
    }
    Ok(all)
}

/// The reverse: entries upwards from `first`, values downwards from the end.
fn lay_out(area: &mut [u8], first: usize, all: &[Attribute]) {
    area[first..].fill(0);
    let (mut next, mut end) = (first, area.len());
    for one in all {
        end -= one.value.len().next_multiple_of(4);
        area[next] = one.len as u8;
        area[next + 1] = one.prefix;
        put16(
            area,
            next + 2,
            if one.value.is_empty() { 0 } else { end as u16 },
        );
        put32(area, next + 8, one.value.len() as u32);
        put32(area, next + 12, one.hash());
        area[next + ENTRY..next + ENTRY + one.len].copy_from_slice(&one.name);
        area[end..end + one.value.len()].copy_from_slice(&one.value);
        next += one.head();
    }
}

/// Whether there are any in an inode as it is in its table.
pub(crate) fn are_in(raw: &[u8], extra: u16) -> bool {
    let area = raw.get(128 + usize::from(extra)..);
    extra != 0 && area.is_some_and(|area| area.len() > 4 && le32(area, 0) == MAGIC)
}

impl Fs {
    /// Where attributes in the inode begin, in the inode.
    fn inner(&self, inode: &Inode) -> usize {
        128 + usize::from(inode.extra)
    }

    fn inner_attributes(&self, inode: &Inode) -> Result<Vec<Attribute>, Error> {
        let begin = self.inner(inode);
        let raw = self.raw_inode(inode.ino)?;
        match raw.get(begin..) {
            Some(area) if area.len() > 4 && inode.extra != 0 && le32(area, 0) == MAGIC => {
                parse(&area[4..], 0, u64::from(inode.ino))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn attribute_block(&self, inode: &Inode) -> Result<&[u8], Error> {
        if !self.zones.free_of(inode.attributes, 1) {
            return damaged("attribute block", u64::from(inode.ino));
        }
        self.checked(inode.attributes, Kind::Attributes)
    }

    fn all_attributes(&self, inode: &Inode) -> Result<Vec<Attribute>, Error> {
        let mut all = self.inner_attributes(inode)?;
        if inode.attributes != 0 {
            all.extend(parse(self.attribute_block(inode)?, HEAD, inode.attributes)?);
        }
        Ok(all)
    }

    pub fn attribute(&self, ino: u32, name: &[u8]) -> Result<Vec<u8>, Error> {
        let (prefix, rest) = Attribute::split(name)?;
        let inode = self.inode(ino)?;
        self.all_attributes(&inode)?
            .into_iter()
            .find(|one| one.prefix == prefix && one.name == rest)
            .map(|one| one.value)
            .ok_or(Error::NoAttribute)
    }

    /// Their full names.
    pub fn attribute_names(&self, ino: u32) -> Result<Vec<Vec<u8>>, Error> {
        let inode = self.inode(ino)?;
        let all = self.all_attributes(&inode)?;
        Ok(all.iter().filter_map(Attribute::full).collect())
    }

    /// Sets an attribute, or removes it. `there`: Some(true) it must exist, Some(false) it must not.
    pub fn set_attribute(
        &mut self,
        ino: u32,
        name: &[u8],
        value: Option<&[u8]>,
        there: Option<bool>,
        now: Time,
    ) -> Result<(), Error> {
        let (prefix, rest) = Attribute::split(name)?;
        self.change(|fs| {
            let mut inode = fs.inode(ino)?;
            let mut all = fs.all_attributes(&inode)?;
            let old = all
                .iter()
                .position(|one| one.prefix == prefix && one.name == rest);
            match (old, there) {
                (None, Some(true)) => return Err(Error::NoAttribute),
                (Some(_), Some(false)) => return Err(Error::Exists),
                (None, _) if value.is_none() => return Err(Error::NoAttribute),
                _ => {}
            }
            if let Some(old) = old {
                all.remove(old);
            }
            if let Some(value) = value {
                all.push(Attribute {
                    prefix,
                    len: rest.len(),
                    name: rest.to_vec(),
                    value: value.to_vec(),
                });
            }
            inode.ctime = now;
            fs.put_attributes(&mut inode, all)
        })
    }

    fn put_attributes(&mut self, inode: &mut Inode, all: Vec<Attribute>) -> Result<(), Error> {
        let begin = self.inner(inode);
        let capacity = match inode.extra {
            0 => 0,
            _ => self.shape.inode_size.saturating_sub(begin + 4),
        };
        // A word of zeros ends the entries.
        let (mut left_inner, mut left_block) =
            (capacity.saturating_sub(4), self.shape.block_size - HEAD - 4);
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        for one in all {
            let need = one.room();
            let (left, list) = if need <= left_inner {
                (&mut left_inner, &mut inner)
            } else {
                (&mut left_block, &mut outer)
            };
            *left = left.checked_sub(need).ok_or(Error::NoSpace)?;
            list.push(one);
        }
        if capacity != 0 {
            let mut area = vec![0; capacity + 4];
            if !inner.is_empty() {
                put32(&mut area, 0, MAGIC);
                lay_out(&mut area[4..], 0, &inner);
            }
            let (block, at) = self.inode_at(inode.ino)?;
            self.cache.write(block, at + begin, &area)?;
        }
        self.put_outer(inode, outer)?;
        self.put_inode(inode, true)
    }

    fn put_outer(&mut self, inode: &mut Inode, mut all: Vec<Attribute>) -> Result<(), Error> {
        if all.is_empty() {
            return self.drop_attributes(inode);
        }
        if inode.attributes == 0 || le32(self.attribute_block(inode)?, 4) > 1 {
            self.drop_attributes(inode)?;
            inode.attributes = self.new_block(inode, Kind::Attributes)?;
        }
        // Prefix, length of the name, name: the order of the block.
        all.sort();
        let mut data = vec![0; self.shape.block_size];
        put32(&mut data, 0, MAGIC);
        put32(&mut data, 4, 1);
        put32(&mut data, 8, 1);
        let hash = all
            .iter()
            .fold(0u32, |hash, one| hash.rotate_left(16) ^ one.hash());
        put32(&mut data, 12, hash);
        lay_out(&mut data, HEAD, &all);
        self.cache.write(inode.attributes, 0, &data)
    }

    /// Lets go of the block: its last user frees it.
    pub(crate) fn drop_attributes(&mut self, inode: &mut Inode) -> Result<(), Error> {
        if inode.attributes == 0 {
            return Ok(());
        }
        let block = inode.attributes;
        let users = le32(self.attribute_block(inode)?, 4);
        inode.attributes = 0;
        if users > 1 {
            inode.sectors = inode.sectors.saturating_sub(self.sectors(1));
            return self.cache.write(block, 4, &(users - 1).to_le_bytes());
        }
        self.drop_block(inode, block)
    }
}
