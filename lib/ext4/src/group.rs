//! Group descriptors: where a group's bitmaps and inodes are and how much of it is free. All of them are in the cache as long as the file system is open.

use crate::bytes::{halves, le16};
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::Fs;
use crate::shape::Shape;
use alloc::vec::Vec;
use cairn_crc32c::crc32c;

/// A number of 32 bits whose upper half is elsewhere: the two positions.
pub(crate) const FREE_BLOCKS: (usize, usize) = (0x0C, 0x2C);
pub(crate) const FREE_INODES: (usize, usize) = (0x0E, 0x2E);
pub(crate) const DIRECTORIES: (usize, usize) = (0x10, 0x30);
pub(crate) const UNUSED: (usize, usize) = (0x1C, 0x32);
pub(crate) const BLOCK_SUM: (usize, usize) = (0x18, 0x38);
pub(crate) const INODE_SUM: (usize, usize) = (0x1A, 0x3A);
pub(crate) const FLAGS: usize = 0x12;
pub(crate) const CHECKSUM: usize = 0x1E;

/// Its inode bitmap was never written: all are free.
pub(crate) const INODES_UNINIT: u16 = 1;
/// Its block bitmap was never written: all but the file system's own are free.
pub(crate) const BLOCKS_UNINIT: u16 = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub block_bitmap: u64,
    pub inode_bitmap: u64,
    pub table: u64,
    pub free_blocks: u32,
    pub free_inodes: u32,
    pub directories: u32,
    pub unused: u32,
    pub flags: u16,
}

fn pair(raw: &[u8], (low, high): (usize, usize)) -> u32 {
    u32::from(le16(raw, low)) | u32::from(le16(raw, high)) << 16
}

/// With its own number mixed in, and its sum left out.
pub(crate) fn checksum(shape: &Shape, group: u32, raw: &[u8]) -> u16 {
    let crc = crc32c(shape.seed, &group.to_le_bytes());
    let crc = crc32c(crc, &raw[..CHECKSUM]);
    let crc = crc32c(crc, &[0, 0]);
    crc32c(crc, &raw[CHECKSUM + 2..]) as u16
}

impl Fs {
    pub(crate) fn descriptor(&self, group: u32) -> Result<&[u8], Error> {
        if group >= self.shape.groups {
            return damaged("group", u64::from(group));
        }
        let (block, at) = self.shape.descriptor_at(group);
        let raw = self.checked(block, Kind::Parts)?;
        Ok(&raw[at..at + self.shape.descriptor])
    }

    pub(crate) fn group(&self, group: u32) -> Result<Group, Error> {
        let raw = self.descriptor(group)?;
        Ok(Group {
            block_bitmap: halves(raw, 0x00, 0x20),
            inode_bitmap: halves(raw, 0x04, 0x24),
            table: halves(raw, 0x08, 0x28),
            free_blocks: pair(raw, FREE_BLOCKS),
            free_inodes: pair(raw, FREE_INODES),
            directories: pair(raw, DIRECTORIES),
            unused: pair(raw, UNUSED),
            flags: le16(raw, FLAGS),
        })
    }

    /// A sum or count of the two-part kind, as it stands.
    pub(crate) fn group_number(&self, group: u32, which: (usize, usize)) -> Result<u32, Error> {
        Ok(pair(self.descriptor(group)?, which))
    }

    pub(crate) fn set_group_number(
        &mut self,
        group: u32,
        (low, high): (usize, usize),
        value: u32,
    ) -> Result<(), Error> {
        let (block, at) = self.shape.descriptor_at(group);
        self.running.groups.insert(group);
        self.cache
            .write(block, at + low, &(value as u16).to_le_bytes())?;
        if self.shape.descriptor >= 64 {
            self.cache
                .write(block, at + high, &((value >> 16) as u16).to_le_bytes())?;
        }
        Ok(())
    }

    pub(crate) fn clear_group_flag(&mut self, group: u32, flag: u16) -> Result<(), Error> {
        let flags = self.group(group)?.flags & !flag;
        let (block, at) = self.shape.descriptor_at(group);
        self.running.groups.insert(group);
        self.cache.write(block, at + FLAGS, &flags.to_le_bytes())
    }

    /// All descriptors against their sums and the shape, the free counts into ours, and the zones that are nobody's. Called once, when all of them are in the cache.
    pub(crate) fn survey(&mut self) -> Result<(), Error> {
        let shape = self.shape.clone();
        let mut zones = Vec::new();
        let mut inode_tables = Vec::new();
        let (mut free_blocks, mut free_inodes) = (0u64, 0u64);
        let tables = u64::from(1 + shape.descriptor_blocks() + shape.reserved_descriptors);
        for number in 0..shape.groups {
            let raw = self.descriptor(number)?;
            if shape.checksums && checksum(&shape, number, raw) != le16(raw, CHECKSUM) {
                return damaged("group descriptor checksum", u64::from(number));
            }
            let group = self.group(number)?;
            let end = shape.blocks;
            let inside = |at: u64, len: u64| at > shape.first_data && at < end && end - at >= len;
            if !inside(group.block_bitmap, 1)
                || !inside(group.inode_bitmap, 1)
                || !inside(group.table, shape.table_blocks())
                || group.free_blocks > shape.group_len(number)
                || group.free_inodes > shape.group_inodes
                || group.unused > shape.group_inodes
            {
                return damaged("group descriptor", u64::from(number));
            }
            free_blocks += u64::from(group.free_blocks);
            free_inodes += u64::from(group.free_inodes);
            inode_tables.push(group.table);
            zones.push((group.block_bitmap, group.block_bitmap + 1));
            zones.push((group.inode_bitmap, group.inode_bitmap + 1));
            zones.push((group.table, group.table + shape.table_blocks()));
            if shape.has_copy(number) {
                let start = shape.group_start(number);
                zones.push((start, (start + tables).min(end)));
            }
        }
        // Two structures in one place would be written over each other.
        zones.sort_unstable();
        if zones.windows(2).any(|two| two[0].1 > two[1].0) {
            return damaged("structures that overlap", 0);
        }
        self.zones = crate::zones::Zones::new(zones, shape.first_data, shape.blocks);
        self.tables = inode_tables;
        self.free_blocks = free_blocks;
        self.free_inodes = free_inodes as u32;
        Ok(())
    }

    /// Where an inode is: block of the table, and position in it.
    pub(crate) fn inode_at(&self, ino: u32) -> Result<(u64, usize), Error> {
        if ino == 0 || ino > self.shape.inodes {
            return damaged("inode number", u64::from(ino));
        }
        let (group, number) = (
            (ino - 1) / self.shape.group_inodes,
            (ino - 1) % self.shape.group_inodes,
        );
        let Some(table) = self.tables.get(group as usize) else {
            return damaged("inode number", u64::from(ino));
        };
        let byte = number as usize * self.shape.inode_size;
        Ok((
            table + (byte >> self.shape.block_bits) as u64,
            byte & (self.shape.block_size - 1),
        ))
    }
}
