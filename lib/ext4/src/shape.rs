//! The superblock: what kind of file system this is, whether we know everything that it uses, and the numbers that all else is computed from.
//! Everything in a [`Shape`] has been checked against everything else and against the size of the device.

use crate::bytes::{array, halves, le16, le32};
use crate::error::{damaged, Error};
use cairn_crc32c::crc32c;

/// Positions in the superblock (struct ext4_super_block).
pub(crate) mod at {
    pub const FREE_BLOCKS: usize = 0x0C;
    pub const FREE_INODES: usize = 0x10;
    pub const MOUNTED: usize = 0x2C;
    pub const WRITTEN: usize = 0x30;
    pub const MOUNTS: usize = 0x34;
    pub const INCOMPAT: usize = 0x60;
    pub const RO_COMPAT: usize = 0x64;
    pub const LAST_ORPHAN: usize = 0xE8;
    pub const FREE_BLOCKS_HIGH: usize = 0x158;
    pub const CHECKSUM: usize = 0x3FC;
}

pub(crate) const SUPER_BYTES: usize = 1024;
/// The log has to be replayed before anything else is believed.
pub(crate) const RECOVER: u32 = 0x4;

const COMPAT_JOURNAL: u32 = 0x4;
const COMPAT_DIR_INDEX: u32 = 0x20;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_SEED: u32 = 0x2000;
const RO_SPARSE: u32 = 0x1;
/// Bitmaps count clusters, so even the free counts mean something else.
const RO_BIGALLOC: u32 = 0x200;
const RO_CHECKSUMS: u32 = 0x400;
pub(crate) const RO_ORPHAN_PRESENT: u32 = 0x10000;

/// Features without which nothing can be read; those that are not named here are refused.
const INCOMPAT_KNOWN: u32 = 0x2 | RECOVER | 0x40 | INCOMPAT_64BIT | 0x200 | INCOMPAT_SEED;
const INCOMPAT_NAMES: [(u32, &str); 10] = [
    (0x1, "compression"),
    (0x8, "journal_dev"),
    (0x10, "meta_bg"),
    (0x100, "mmp"),
    (0x400, "ea_inode"),
    (0x1000, "dirdata"),
    (0x4000, "large_dir"),
    (0x8000, "inline_data"),
    (0x10000, "encrypt"),
    (0x20000, "casefold"),
];
/// Features that a writer must know.
const RO_KNOWN: u32 = RO_SPARSE | 0x2 | 0x8 | 0x20 | 0x40 | RO_CHECKSUMS | RO_ORPHAN_PRESENT;
const RO_NAMES: [(u32, &str); 7] = [
    (0x10, "uninit_bg"),
    (0x100, "quota"),
    (0x800, "replica"),
    (0x1000, "read-only"),
    (0x2000, "project"),
    (0x4000, "shared_blocks"),
    (0x8000, "verity"),
];
/// Older compatible features that change where things are, so that a writer must know them as well.
const COMPAT_NOT_WRITABLE: [(u32, &str); 2] = [(0x200, "sparse_super2"), (0x400, "fast_commit")];

#[derive(Clone, Debug)]
pub struct Shape {
    pub block_size: usize,
    pub blocks: u64,
    pub inodes: u32,
    pub reserved_blocks: u64,
    pub uuid: [u8; 16],
    pub label: [u8; 16],
    pub block_bits: u32,
    pub(crate) first_data: u64,
    pub group_blocks: u32,
    pub(crate) group_inodes: u32,
    pub(crate) groups: u32,
    pub(crate) inode_size: usize,
    pub(crate) descriptor: usize,
    pub(crate) reserved_descriptors: u32,
    pub(crate) first_inode: u32,
    pub(crate) extra: u16,
    pub(crate) checksums: bool,
    pub(crate) wide: bool,
    pub(crate) sparse: bool,
    pub(crate) indexes: bool,
    pub(crate) seed: u32,
    pub(crate) hash_seed: [u32; 4],
    pub(crate) hash_version: u8,
    pub(crate) hash_unsigned: bool,
    pub(crate) journal: Option<u32>,
    pub(crate) recover: bool,
    pub(crate) last_orphan: u32,
    /// The orphan file, if there is something in it.
    pub(crate) orphan_file: Option<u32>,
    /// Why it can only be read, if so.
    pub(crate) not_writable: Option<&'static str>,
}

fn first_unknown(
    bits: u32,
    known: u32,
    names: &[(u32, &'static str)],
    other: &'static str,
) -> Option<&'static str> {
    let unknown = bits & !known;
    let named = names.iter().find(|(bit, _)| unknown & bit != 0);
    (unknown != 0).then(|| named.map_or(other, |(_, name)| name))
}

impl Shape {
    /// From the 1024 bytes at byte 1024 of a device of `device_bytes`.
    pub fn read(raw: &[u8], device_bytes: u64) -> Result<Shape, Error> {
        if raw.len() != SUPER_BYTES || le16(raw, 0x38) != 0xEF53 {
            return Err(Error::Unsupported("not an ext4 file system"));
        }
        if le32(raw, 0x4C) != 1 {
            return Err(Error::Unsupported("revision"));
        }
        let (compat, incompat, ro) = (
            le32(raw, 0x5C),
            le32(raw, at::INCOMPAT),
            le32(raw, at::RO_COMPAT),
        );
        if let Some(name) = first_unknown(
            incompat,
            INCOMPAT_KNOWN,
            &INCOMPAT_NAMES,
            "unknown incompatible feature",
        ) {
            return Err(Error::Unsupported(name));
        }
        if incompat & 0x2 == 0 || incompat & 0x40 == 0 {
            return Err(Error::Unsupported("no filetype or no extent feature"));
        }
        if ro & RO_BIGALLOC != 0 {
            return Err(Error::Unsupported("bigalloc"));
        }
        let checksums = ro & RO_CHECKSUMS != 0;
        if checksums {
            if raw[0x175] != 1 {
                return Err(Error::Unsupported("checksum type"));
            }
            if crc32c(!0, &raw[..at::CHECKSUM]) != le32(raw, at::CHECKSUM) {
                return damaged("superblock checksum", 0);
            }
        }
        let not_writable = first_unknown(ro, RO_KNOWN, &RO_NAMES, "unknown read-only feature")
            .or_else(|| {
                COMPAT_NOT_WRITABLE
                    .iter()
                    .find(|(bit, _)| compat & bit != 0)
                    .map(|(_, name)| *name)
            })
            .or_else(|| {
                (compat & COMPAT_JOURNAL == 0 || le32(raw, 0xE0) == 0)
                    .then_some("no journal inside")
            });

        let block_bits = le32(raw, 0x18);
        if block_bits > 2 {
            return Err(Error::Unsupported("blocks larger than 4 KiB"));
        }
        let block_size = 1024usize << block_bits;
        let wide = incompat & INCOMPAT_64BIT != 0;
        let descriptor = if wide { le16(raw, 0xFE) as usize } else { 32 };
        let uuid: [u8; 16] = array(raw, 0x68);
        let high = |at| if wide { at } else { usize::MAX - 8 };
        let shape = Shape {
            block_size,
            blocks: halves(raw, 0x04, high(0x150)),
            inodes: le32(raw, 0x00),
            reserved_blocks: halves(raw, 0x08, high(0x154)),
            uuid,
            label: array(raw, 0x78),
            block_bits: block_bits + 10,
            first_data: u64::from(le32(raw, 0x14)),
            group_blocks: le32(raw, 0x20),
            group_inodes: le32(raw, 0x28),
            groups: 0,
            inode_size: le16(raw, 0x58) as usize,
            descriptor,
            reserved_descriptors: u32::from(le16(raw, 0xCE)),
            first_inode: le32(raw, 0x54),
            extra: le16(raw, 0x15E),
            checksums,
            wide,
            sparse: ro & RO_SPARSE != 0,
            indexes: compat & COMPAT_DIR_INDEX != 0,
            seed: if incompat & INCOMPAT_SEED != 0 {
                le32(raw, 0x270)
            } else {
                crc32c(!0, &uuid)
            },
            hash_seed: core::array::from_fn(|i| le32(raw, 0xEC + 4 * i)),
            hash_version: raw[0xFC],
            hash_unsigned: le32(raw, 0x160) & 2 != 0,
            journal: (compat & COMPAT_JOURNAL != 0 && le32(raw, 0xE0) != 0)
                .then(|| le32(raw, 0xE0)),
            recover: incompat & RECOVER != 0,
            last_orphan: le32(raw, at::LAST_ORPHAN),
            orphan_file: (ro & RO_ORPHAN_PRESENT != 0).then(|| le32(raw, 0x280)),
            not_writable,
        };
        if le32(raw, 0x1C) != block_bits {
            return damaged("cluster size", 0);
        }
        shape.consistent(device_bytes)
    }

    fn consistent(mut self, device_bytes: u64) -> Result<Shape, Error> {
        let bits = 8 * self.block_size as u64;
        let sound = [
            (
                self.first_data == u64::from(self.block_size == 1024),
                "first data block",
            ),
            (self.blocks > self.first_data + 8, "number of blocks"),
            (
                self.blocks <= device_bytes >> self.block_bits,
                "more blocks than the device",
            ),
            (
                self.group_blocks != 0
                    && self.group_blocks.is_multiple_of(8)
                    && u64::from(self.group_blocks) <= bits,
                "blocks in a group",
            ),
            (
                self.inode_size.is_power_of_two()
                    && (128..=self.block_size).contains(&self.inode_size),
                "inode size",
            ),
            (
                self.descriptor.is_power_of_two()
                    && (if self.wide { 64 } else { 32 }..=1024).contains(&self.descriptor),
                "descriptor size",
            ),
            (self.reserved_blocks <= self.blocks, "reserved blocks"),
            (self.first_inode >= 11, "first inode"),
        ];
        if let Some((_, what)) = sound.iter().find(|(good, _)| !good) {
            return damaged(what, 0);
        }
        let groups = (self.blocks - self.first_data).div_ceil(u64::from(self.group_blocks));
        let in_block = (self.block_size / self.inode_size) as u32;
        let count = groups * u64::from(self.group_inodes);
        if self.group_inodes == 0
            || u64::from(self.group_inodes) > bits
            || !self.group_inodes.is_multiple_of(in_block)
            || !self.group_inodes.is_multiple_of(8)
            || count != u64::from(self.inodes)
            || self.first_inode > self.inodes
        {
            return damaged("number of inodes", 0);
        }
        // Bounded by the number of inodes, which fits in 32 bits.
        self.groups = groups as u32;
        if u64::from(self.descriptor_blocks()) + self.first_data + 1 >= self.blocks
            || u64::from(self.reserved_descriptors) >= self.blocks
        {
            return damaged("descriptor table", 0);
        }
        self.extra = self.extra.clamp(32, 64);
        Ok(self)
    }

    pub(crate) fn descriptor_blocks(&self) -> u32 {
        (u64::from(self.groups) * self.descriptor as u64).div_ceil(self.block_size as u64) as u32
    }

    /// Block and position of a group's descriptor.
    pub(crate) fn descriptor_at(&self, group: u32) -> (u64, usize) {
        let byte = u64::from(group) * self.descriptor as u64;
        (
            self.first_data + 1 + (byte >> self.block_bits),
            (byte % self.block_size as u64) as usize,
        )
    }

    /// Where the superblock is: block and position in it.
    pub(crate) fn super_at(&self) -> (u64, usize) {
        if self.block_size == 1024 {
            (1, 0)
        } else {
            (0, 1024)
        }
    }

    pub(crate) fn group_start(&self, group: u32) -> u64 {
        self.first_data + u64::from(group) * u64::from(self.group_blocks)
    }

    /// The last group may be shorter.
    pub(crate) fn group_len(&self, group: u32) -> u32 {
        let left = self.blocks.saturating_sub(self.group_start(group));
        left.min(u64::from(self.group_blocks)) as u32
    }

    pub(crate) fn group_of(&self, block: u64) -> u32 {
        (block.saturating_sub(self.first_data) / u64::from(self.group_blocks)) as u32
    }

    /// Does this group begin with a copy of the superblock and of the descriptors?
    pub(crate) fn has_copy(&self, group: u32) -> bool {
        let power = |base: u32| {
            let mut value = base;
            while value < group {
                value = value.saturating_mul(base);
            }
            value == group
        };
        group <= 1 || !self.sparse || power(3) || power(5) || power(7)
    }

    pub(crate) fn table_blocks(&self) -> u64 {
        (u64::from(self.group_inodes) * self.inode_size as u64) >> self.block_bits
    }
}
