//! A block is looked at once, when it comes from the device: its checksum and whatever must hold inside it. After that the rest may rely on it.

use crate::bytes::le32;
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::Fs;
use crate::group::{BLOCK_SUM, INODE_SUM};
use crate::shape::Shape;
use crate::{attributes, directory, extent, orphan_file};
use cairn_crc32c::crc32c;

pub(crate) fn check(fs: &Fs, block: u64, kind: Kind, data: &[u8]) -> Result<(), Error> {
    let shape = &fs.shape;
    match kind {
        Kind::Raw | Kind::Parts => Ok(()),
        Kind::BlockBitmap(group) => {
            let bytes = shape.group_blocks as usize / 8;
            bitmap(fs, group, &data[..bytes], BLOCK_SUM)?;
            let used: u32 = data[..bytes].iter().map(|byte| byte.count_ones()).sum();
            let free = fs.group(group)?.free_blocks;
            let padding = shape.group_blocks - shape.group_len(group);
            // Blocks behind the end count as used.
            if shape.group_blocks - used != free
                || (0..padding).any(|back| !bit(data, shape.group_blocks - 1 - back))
            {
                return damaged("block bitmap", u64::from(group));
            }
            Ok(())
        }
        Kind::InodeBitmap(group) => {
            let bytes = shape.group_inodes as usize / 8;
            bitmap(fs, group, &data[..bytes], INODE_SUM)?;
            let used: u32 = data[..bytes].iter().map(|byte| byte.count_ones()).sum();
            if shape.group_inodes - used != fs.group(group)?.free_inodes {
                return damaged("inode bitmap", u64::from(group));
            }
            Ok(())
        }
        Kind::Node(seed) => {
            extent::check_node(data, block)?;
            let tail = extent::tail(data);
            if shape.checksums
                && (tail + 4 > data.len() || crc32c(seed, &data[..tail]) != le32(data, tail))
            {
                return damaged("extent block checksum", block);
            }
            Ok(())
        }
        Kind::Leaf(seed) => {
            if shape.checksums && !directory::right_leaf_sum(seed, data) {
                return damaged("directory block checksum", block);
            }
            directory::check_leaf(shape, data, block)
        }
        Kind::Index(seed) => {
            let at = directory::check_index(shape, data, block)?;
            if shape.checksums && !directory::right_index_sum(seed, data, at) {
                return damaged("directory index checksum", block);
            }
            Ok(())
        }
        Kind::Orphans(seed) => orphan_file::check(seed, block, data, shape.checksums),
        Kind::Attributes => {
            if shape.checksums && attributes::block_sum(shape, block, data) != le32(data, 0x10) {
                return damaged("attribute block checksum", block);
            }
            attributes::check_block(data, block)
        }
    }
}

pub(crate) fn bit(map: &[u8], at: u32) -> bool {
    map.get(at as usize / 8)
        .is_some_and(|byte| byte >> (at % 8) & 1 != 0)
}

fn bitmap(fs: &Fs, group: u32, bytes: &[u8], which: (usize, usize)) -> Result<(), Error> {
    let sum = bitmap_sum(&fs.shape, bytes);
    if fs.shape.checksums && sum != fs.group_number(group, which)? {
        return damaged("bitmap checksum", u64::from(group));
    }
    Ok(())
}

/// As much of the sum as small descriptors have room for.
pub(crate) fn bitmap_sum(shape: &Shape, bytes: &[u8]) -> u32 {
    let sum = crc32c(shape.seed, bytes);
    if shape.descriptor >= 64 {
        sum
    } else {
        sum & 0xFFFF
    }
}
