//! Inodes: the fields that the rest works with, read from the table and written back to it. What lies behind these fields (attributes in the inode, fields of
//! later versions) is not touched.

use crate::bytes::{array, halves, le16, le32, put, put16, put32};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::{Fs, Time};
use crate::shape::Shape;
use cairn_crc32c::crc32c;

pub const ROOT: u32 = 2;

pub(crate) const FORMAT: u16 = 0xF000;
pub(crate) const FIFO: u16 = 0x1000;
pub(crate) const CHARACTER: u16 = 0x2000;
pub(crate) const DIRECTORY: u16 = 0x4000;
pub(crate) const BLOCK_DEVICE: u16 = 0x6000;
pub(crate) const REGULAR: u16 = 0x8000;
pub(crate) const SYMLINK: u16 = 0xA000;
pub(crate) const SOCKET: u16 = 0xC000;

/// `chattr +i` and `+a`.
pub const IMMUTABLE: u32 = 0x10;
pub const APPEND_ONLY: u32 = 0x20;
pub(crate) const INDEXED: u32 = 0x1000;
const HUGE: u32 = 0x4_0000;
pub(crate) const EXTENTS: u32 = 0x8_0000;
/// Flags that say that the content is not what it looks like: encrypted, compressed, inline data, attributes of an inode's own, verity.
const STRANGE: u32 = 0x800 | 0x4 | 0x1000_0000 | 0x20_0000 | 0x10_0000;

const CHECKSUM_LOW: usize = 0x7C;
const CHECKSUM_HIGH: usize = 0x82;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    pub ino: u32,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u16,
    /// Units of 512 bytes.
    pub sectors: u64,
    pub flags: u32,
    pub atime: Time,
    pub ctime: Time,
    pub mtime: Time,
    /// When it was made; zero where inodes are too small to tell.
    pub crtime: Time,
    pub generation: u32,
    pub(crate) dtime: u32,
    pub(crate) attributes: u64,
    /// It has attributes, in itself or in a block.
    pub has_attributes: bool,
    /// Extent tree, short symbolic link, or device number.
    pub(crate) area: [u8; 60],
    pub(crate) extra: u16,
    /// What the sums of its blocks begin with.
    pub(crate) seed: u32,
}

/// Of an inode as it is in its table.
pub(crate) fn checksum(shape: &Shape, ino: u32, raw: &[u8]) -> u32 {
    let crc = crc32c(seed(shape, ino, le32(raw, 0x64)), &raw[..CHECKSUM_LOW]);
    let crc = crc32c(crc, &[0, 0]);
    if raw.len() > 128 {
        let crc = crc32c(crc, &raw[CHECKSUM_LOW + 2..CHECKSUM_HIGH]);
        if le16(raw, 0x80) >= 4 {
            let crc = crc32c(crc, &[0, 0]);
            return crc32c(crc, &raw[CHECKSUM_HIGH + 2..]);
        }
        return crc32c(crc, &raw[CHECKSUM_HIGH..]);
    }
    crc32c(crc, &raw[CHECKSUM_LOW + 2..])
}

pub(crate) fn seed(shape: &Shape, ino: u32, generation: u32) -> u32 {
    crc32c(
        crc32c(shape.seed, &ino.to_le_bytes()),
        &generation.to_le_bytes(),
    )
}

/// Whether the upper half of the sum is there.
fn has_high(raw: &[u8]) -> bool {
    raw.len() > 128 && le16(raw, 0x80) >= 4
}

pub(crate) fn put_checksum(shape: &Shape, ino: u32, raw: &mut [u8]) {
    let sum = checksum(shape, ino, raw);
    put16(raw, CHECKSUM_LOW, sum as u16);
    if has_high(raw) {
        put16(raw, CHECKSUM_HIGH, (sum >> 16) as u16);
    }
}

fn right_checksum(shape: &Shape, ino: u32, raw: &[u8]) -> bool {
    let sum = checksum(shape, ino, raw);
    sum as u16 == le16(raw, CHECKSUM_LOW)
        && (!has_high(raw) || (sum >> 16) as u16 == le16(raw, CHECKSUM_HIGH))
}

/// The base has 32 bits with sign; the extra field has two more bits for the future, and the nanoseconds.
fn time(raw: &[u8], base: usize, extra: Option<usize>) -> Time {
    let sec = i64::from(le32(raw, base) as i32);
    match extra.map(|at| le32(raw, at)) {
        Some(more) => Time {
            sec: sec + (i64::from(more & 3) << 32),
            nsec: (more >> 2).min(999_999_999),
        },
        None => Time { sec, nsec: 0 },
    }
}

fn put_time(raw: &mut [u8], base: usize, extra: Option<usize>, time: Time) {
    match extra {
        Some(at) => {
            let sec = time.sec.clamp(-(1 << 31), (1 << 34) - (1 << 31) - 1);
            let more = ((sec - i64::from(sec as i32)) >> 32) as u32 & 3;
            put32(raw, base, sec as u32);
            put32(raw, at, more | time.nsec << 2);
        }
        None => {
            let sec = time.sec.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            put32(raw, base, sec as u32);
        }
    }
}

impl Inode {
    pub(crate) fn read(shape: &Shape, ino: u32, raw: &[u8]) -> Inode {
        let extra = if raw.len() > 128 { le16(raw, 0x80) } else { 0 };
        let with = |at: usize| (128 + extra as usize >= at + 4).then_some(at);
        let flags = le32(raw, 0x20);
        let count = u64::from(le32(raw, 0x1C)) | u64::from(le16(raw, 0x74)) << 32;
        let generation = le32(raw, 0x64);
        Inode {
            ino,
            mode: le16(raw, 0),
            uid: u32::from(le16(raw, 0x02)) | u32::from(le16(raw, 0x78)) << 16,
            gid: u32::from(le16(raw, 0x18)) | u32::from(le16(raw, 0x7A)) << 16,
            size: halves(raw, 0x04, 0x6C),
            links: le16(raw, 0x1A),
            sectors: if flags & HUGE != 0 {
                count << (shape.block_bits - 9)
            } else {
                count
            },
            flags,
            atime: time(raw, 0x08, with(0x8C)),
            ctime: time(raw, 0x0C, with(0x84)),
            mtime: time(raw, 0x10, with(0x88)),
            crtime: with(0x94).map_or(Time::default(), |at| time(raw, 0x90, Some(at))),
            generation,
            dtime: le32(raw, 0x14),
            attributes: u64::from(le32(raw, 0x68)) | u64::from(le16(raw, 0x76)) << 32,
            has_attributes: crate::attributes::are_in(raw, extra)
                || le32(raw, 0x68) != 0
                || le16(raw, 0x76) != 0,
            area: array(raw, 0x28),
            extra,
            seed: seed(shape, ino, generation),
        }
    }

    /// Puts the fields over what is there.
    pub(crate) fn put(&self, shape: &Shape, raw: &mut [u8]) {
        let with = |at: usize| (128 + self.extra as usize >= at + 4).then_some(at);
        let mut flags = self.flags & !HUGE;
        let mut count = self.sectors;
        if count >> 48 != 0 {
            flags |= HUGE;
            count >>= shape.block_bits - 9;
        }
        put16(raw, 0, self.mode);
        put16(raw, 0x02, self.uid as u16);
        put32(raw, 0x04, self.size as u32);
        put_time(raw, 0x08, with(0x8C), self.atime);
        put_time(raw, 0x0C, with(0x84), self.ctime);
        put_time(raw, 0x10, with(0x88), self.mtime);
        put32(raw, 0x14, self.dtime);
        put16(raw, 0x18, self.gid as u16);
        put16(raw, 0x1A, self.links);
        put32(raw, 0x1C, count as u32);
        put32(raw, 0x20, flags);
        put(raw, 0x28, &self.area);
        put32(raw, 0x64, self.generation);
        put32(raw, 0x68, self.attributes as u32);
        put32(raw, 0x6C, (self.size >> 32) as u32);
        put16(raw, 0x74, (count >> 32) as u16);
        put16(raw, 0x76, (self.attributes >> 32) as u16);
        put16(raw, 0x78, (self.uid >> 16) as u16);
        put16(raw, 0x7A, (self.gid >> 16) as u16);
        if raw.len() > 128 {
            put16(raw, 0x80, self.extra);
            if with(0x94).is_some() {
                put_time(raw, 0x90, Some(0x94), self.crtime);
            }
        }
    }

    pub fn format(&self) -> u16 {
        self.mode & FORMAT
    }

    pub fn is_directory(&self) -> bool {
        self.format() == DIRECTORY
    }

    pub fn is_regular(&self) -> bool {
        self.format() == REGULAR
    }

    pub fn is_symlink(&self) -> bool {
        self.format() == SYMLINK
    }

    pub fn is_device(&self) -> bool {
        matches!(self.format(), CHARACTER | BLOCK_DEVICE)
    }

    /// A symbolic link whose target is in the inode.
    pub(crate) fn is_short_link(&self) -> bool {
        self.is_symlink() && self.size < 60 && self.flags & EXTENTS == 0
    }

    /// Major and minor number of a device node.
    pub fn device(&self) -> (u32, u32) {
        let (old, new) = (le32(&self.area, 0), le32(&self.area, 4));
        if old != 0 {
            (old >> 8 & 0xFF, old & 0xFF)
        } else {
            (new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xFFF00)
        }
    }

    pub(crate) fn set_device(&mut self, (major, minor): (u32, u32)) {
        self.area = [0; 60];
        if major < 256 && minor < 256 {
            put32(&mut self.area, 0, major << 8 | minor);
        } else {
            let new = minor & 0xFF | (major & 0xFFF) << 8 | (minor & 0xFFF00) << 12;
            put32(&mut self.area, 4, new);
        }
    }
}

impl Fs {
    /// The inode with its place in the table; it need not be in use.
    pub(crate) fn raw_inode(&self, ino: u32) -> Result<&[u8], Error> {
        let (block, at) = self.inode_at(ino)?;
        let raw = self.checked(block, Kind::Parts)?;
        Ok(&raw[at..at + self.shape.inode_size])
    }

    /// An inode that is in use.
    pub fn inode(&self, ino: u32) -> Result<Inode, Error> {
        let (block, at) = self.inode_at(ino)?;
        let raw = self.raw_inode(ino)?;
        let seen = &self.cache.slot(block)?.seen;
        let bit = 1u32 << (at / self.shape.inode_size);
        if self.shape.checksums && seen.get() & bit == 0 {
            if !right_checksum(&self.shape, ino, raw) {
                return damaged("inode checksum", u64::from(ino));
            }
            seen.set(seen.get() | bit);
        }
        let inode = Inode::read(&self.shape, ino, raw);
        if inode.mode == 0 {
            return damaged("inode that is not in use", u64::from(ino));
        }
        if inode.links == 0 && !self.orphans.contains(&ino) {
            return damaged("deleted inode", u64::from(ino));
        }
        if usize::from(inode.extra) + 128 > self.shape.inode_size || !inode.extra.is_multiple_of(4)
        {
            return damaged("extra size of an inode", u64::from(ino));
        }
        if inode.flags & STRANGE != 0 {
            return Err(Error::Unsupported("kind of file"));
        }
        let known = matches!(
            inode.format(),
            FIFO | CHARACTER | DIRECTORY | BLOCK_DEVICE | REGULAR | SYMLINK | SOCKET
        );
        if !known || inode.size > 1 << 44 {
            return damaged("inode", u64::from(ino));
        }
        Ok(inode)
    }

    /// Writes an inode back; its sum is made when the transaction closes. `data`: more than times has changed (fdatasync must write it).
    pub(crate) fn put_inode(&mut self, inode: &Inode, data: bool) -> Result<(), Error> {
        let (block, at) = self.inode_at(inode.ino)?;
        let mut raw = [0; 160];
        let len = self.shape.inode_size.min(160);
        raw[..len].copy_from_slice(&self.raw_inode(inode.ino)?[..len]);
        inode.put(&self.shape, &mut raw[..len]);
        *self.running.inodes.entry(inode.ino).or_default() |= data;
        self.cache.write(block, at, &raw[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_five_centuries() {
        for sec in [
            -(1i64 << 31),
            -1,
            0,
            1_700_000_000,
            1 << 31,
            4_294_967_296,
            15_032_385_535,
        ] {
            let mut raw = [0; 160];
            let told = Time {
                sec,
                nsec: 123_456_789,
            };
            put_time(&mut raw, 0x08, Some(0x8C), told);
            assert_eq!(time(&raw, 0x08, Some(0x8C)), told);
        }
    }
}
