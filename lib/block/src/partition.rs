//! Partition tables: GPT (UEFI specification, chapter 5) and the older MBR, with its chain of extended partitions. What a disk says is not believed: a partition lies on the disk, numbers and chains have an end, and a damaged GPT is replaced by its copy at the disk's end.

use crate::{Info, SECTOR};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::block::BADGE_PARTITION_LAST;

/// Numbers of partitions are those that Linux gives, from 1 on; 5 and up in an MBR's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    pub number: u32,
    pub first: u64,
    pub sectors: u64,
}

/// A partition and what its table calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub partition: Partition,
    /// As PARTUUID has it; empty: the table has no number.
    pub id: String,
    /// Of a GPT; often empty.
    pub name: String,
}

/// The disk could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Largest block of a disk.
pub const LARGEST: usize = 4096;
const MOST: u32 = BADGE_PARTITION_LAST as u32;
/// First number of a chain.
const CHAINED: u32 = 5;
/// Types of MBR partitions.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
const PROTECTIVE: u8 = 0xee;
const HEADER: u32 = 92;
const ENTRY: usize = 128;

/// What reads one block of the disk, by its number, into as many bytes.
pub trait Read {
    fn block(&mut self, number: u64, into: &mut [u8]) -> Result<(), Unreadable>;
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

/// Its first three numbers are little-endian.
fn guid(bytes: &[u8]) -> String {
    let short = |at| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let start = format!("{:08x}-{:04x}-{:04x}-", word(bytes, 0), short(4), short(6));
    let rest = bytes[8..16].iter().enumerate();
    rest.fold(start, |text, (i, byte)| match i {
        2 => text + &format!("-{byte:02x}"),
        _ => text + &format!("{byte:02x}"),
    })
}

/// Up to the first NUL.
fn utf16(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]));
    let text = char::decode_utf16(units.take_while(|unit| *unit != 0));
    text.map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// The CRC of GPT (IEEE 802.3), begun with !0 and inverted at the end.
fn crc(before: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(before, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    })
}

struct Table<'r, R> {
    read: &'r mut R,
    /// Bytes of a block, and blocks of the disk.
    block: usize,
    blocks: u64,
    /// Of an MBR: the disk's number.
    disk_id: u32,
    found: Vec<Described>,
}

/// The partitions of a disk, none if it has no table.
pub fn partitions(info: &Info, read: &mut impl Read) -> Result<Vec<Partition>, Unreadable> {
    let found = described(info, read)?;
    Ok(found.into_iter().map(|it| it.partition).collect())
}

/// The same with what the table calls them.
pub fn described(info: &Info, read: &mut impl Read) -> Result<Vec<Described>, Unreadable> {
    let block = info.block as usize;
    if block < SECTOR as usize || block > LARGEST || !block.is_power_of_two() {
        return Ok(Vec::new());
    }
    let mut table = Table {
        read,
        block,
        blocks: info.sectors / (block as u64 / SECTOR),
        disk_id: 0,
        found: Vec::new(),
    };
    let mut first = [0; LARGEST];
    let first = &mut first[..block];
    if table.blocks < 4 {
        return Ok(Vec::new());
    }
    table.read.block(0, first)?;
    if !is_mbr(first) {
        return Ok(Vec::new());
    }
    let protective = (0..4).any(|i| first[446 + 16 * i + 4] == PROTECTIVE);
    if protective && (table.gpt(1)? || table.gpt(table.blocks - 1)?) {
        return Ok(table.found);
    }
    table.disk_id = word(first, 440);
    table.mbr(first)?;
    Ok(table.found)
}

/// A signature, and entries that are active or not: what boots from a file system of its own has something else there.
fn is_mbr(block: &[u8]) -> bool {
    block[510..512] == [0x55, 0xaa] && (0..4).all(|i| block[446 + 16 * i] & 0x7f == 0)
}

impl<R: Read> Table<'_, R> {
    fn add(&mut self, number: u32, (first, blocks): (u64, u64), id: String, name: String) {
        let end = first.checked_add(blocks);
        let known = self.found.iter().any(|p| p.partition.number == number);
        if first == 0 || blocks == 0 || end.is_none_or(|end| end > self.blocks) || known {
            return;
        }
        let sectors = self.block as u64 / SECTOR;
        self.found.push(Described {
            partition: Partition {
                number,
                first: first * sectors,
                sectors: blocks * sectors,
            },
            id,
            name,
        });
    }

    /// A partition of an MBR, which has no number of its own.
    fn add_plain(&mut self, number: u32, first: u64, blocks: u64) {
        let id = match self.disk_id {
            0 => String::new(),
            disk => format!("{disk:08x}-{number:02x}"),
        };
        self.add(number, (first, blocks), id, String::new());
    }

    /// A GPT whose header is in this block; false if there is none that is whole.
    fn gpt(&mut self, at: u64) -> Result<bool, Unreadable> {
        let mut bytes = [0; LARGEST];
        let bytes = &mut bytes[..self.block];
        self.read.block(at, bytes)?;
        let (size, told) = (word(bytes, 12), word(bytes, 16));
        let sane = bytes[..8] == *b"EFI PART"
            && (HEADER..=self.block as u32).contains(&size)
            && long(bytes, 24) == at;
        if !sane {
            return Ok(false);
        }
        bytes[16..20].fill(0);
        if !crc(!0, &bytes[..size as usize]) != told {
            return Ok(false);
        }
        let (entries, count) = (long(bytes, 72), word(bytes, 80));
        let (size, told) = (word(bytes, 84) as usize, word(bytes, 88));
        let whole = size >= ENTRY && size.is_power_of_two() && size <= self.block;
        if !whole || count == 0 || count > 1024 || entries == 0 {
            return Ok(false);
        }
        let per_block = self.block / size;
        let blocks = u64::from(count).div_ceil(per_block as u64);
        if entries >= self.blocks || blocks > self.blocks - entries {
            return Ok(false);
        }
        let mut sum = !0;
        let mut list = Vec::new();
        for number in 0..count {
            let within = number as usize % per_block;
            if within == 0 {
                let from = entries + u64::from(number) / per_block as u64;
                self.read.block(from, bytes)?;
            }
            let entry = &bytes[within * size..][..size];
            sum = crc(sum, entry);
            let (first, last) = (long(entry, 32), long(entry, 40));
            if entry[..16] != [0; 16] && number < MOST && last >= first {
                let blocks = (last - first).saturating_add(1);
                let named = (guid(&entry[16..32]), utf16(&entry[56..ENTRY]));
                list.push((number + 1, (first, blocks), named));
            }
        }
        if !sum != told {
            return Ok(false);
        }
        for (number, place, (id, name)) in list {
            self.add(number, place, id, name);
        }
        Ok(true)
    }

    fn mbr(&mut self, block: &[u8]) -> Result<(), Unreadable> {
        let mut chain = None;
        for i in 0..4 {
            let entry = &block[446 + 16 * i..][..16];
            let (first, blocks) = (u64::from(word(entry, 8)), u64::from(word(entry, 12)));
            if EXTENDED.contains(&entry[4]) {
                chain = chain.or(Some(first));
            } else if entry[4] != 0 && entry[4] != PROTECTIVE {
                self.add_plain(i as u32 + 1, first, blocks);
            }
        }
        match chain {
            Some(start) => self.chain(start),
            None => Ok(()),
        }
    }

    /// Extended partitions: each block names one partition, from that block on, and the next block, from the chain's beginning on.
    fn chain(&mut self, start: u64) -> Result<(), Unreadable> {
        let mut bytes = [0; LARGEST];
        let bytes = &mut bytes[..self.block];
        let mut at = start;
        for number in CHAINED..=MOST {
            if at == 0 || at >= self.blocks {
                break;
            }
            self.read.block(at, bytes)?;
            if bytes[510..512] != [0x55, 0xaa] {
                break;
            }
            let entry = |i: usize| (bytes[450 + 16 * i], 446 + 16 * i);
            let (kind, place) = entry(0);
            let (first, blocks) = (word(bytes, place + 8), word(bytes, place + 12));
            let (next, place) = entry(1);
            let behind = word(bytes, place + 8);
            if kind != 0 {
                self.add_plain(number, at + u64::from(first), u64::from(blocks));
            }
            if !EXTENDED.contains(&next) || behind == 0 {
                break;
            }
            at = start + u64::from(behind);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
