//! A volume: its descriptors, its folders' records, and which of the three kinds of names it has. Addresses are sectors of 2,048 bytes; nothing is kept but what the descriptors said.

use crate::record::{self, Record};
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::fs::NAME_MAX;
use hadris_iso::joliet::JolietLevel;
use hadris_iso::sync::directory::DirectoryRecord;
use hadris_iso::sync::susp::{SystemUseField, SystemUseIter};
use hadris_iso::sync::volume::VolumeDescriptorList;

pub const SECTOR: u64 = 2048;
/// Where the descriptors begin, and how many are looked at.
const FIRST: u64 = 16;
const DESCRIPTORS: usize = 32;
/// Bytes of a folder, and extents of a file, that are believed.
const LONGEST_FOLDER: u64 = 32 << 20;
const MOST_EXTENTS: usize = 4096;
/// A record's bytes at most.
const RECORD: usize = 255;

/// The bytes of the disk.
pub trait Source {
    fn length(&self) -> u64;
    /// False: the disk failed, or does not go that far.
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    RockRidge,
    Joliet,
    Plain,
}

#[derive(Clone, Copy, Debug)]
pub struct Volume {
    pub naming: Naming,
    /// Bytes that Rock Ridge's fields begin behind.
    pub skip: usize,
    pub root: u32,
    /// Sectors of the volume, as it says.
    pub sectors: u32,
}

/// A record's place: the sector where its folder begins, and its first byte there. A folder is called by its own first record, so it is `(sector, 0)` wherever it was found.
pub type Place = (u32, u32);

/// What a folder has of a node.
#[derive(Debug)]
pub struct Named {
    pub name: Vec<u8>,
    pub place: Place,
    pub mode: u32,
}

impl Volume {
    /// None: that is no ISO 9660.
    pub fn open(source: &mut impl Source) -> Option<Volume> {
        let end = source.length() / SECTOR;
        let count = end.saturating_sub(FIRST).min(DESCRIPTORS as u64) as usize;
        let mut bytes = vec![0; count * SECTOR as usize];
        if !source.read(FIRST * SECTOR, &mut bytes) {
            return None;
        }
        let all = VolumeDescriptorList::parse(&mut bytes.as_slice()).ok()?;
        let primary = all.try_primary()?;
        let sectors = primary.volume_space_size.read();
        if u64::from(primary.logical_block_size.read()) != SECTOR {
            return None;
        }
        let root = &primary.dir_record.header;
        let root = root
            .extent
            .read()
            .saturating_add(u32::from(root.extended_attr_record));
        let mut volume = Volume {
            naming: Naming::Plain,
            skip: 0,
            root,
            sectors,
        };
        if let Some(skip) = rock_ridge(source, root) {
            (volume.naming, volume.skip) = (Naming::RockRidge, skip);
        } else {
            let joliet = all.supplementary().find(|found| {
                found.header.version == 1
                    && JolietLevel::from_escape_sequence(&found.escape_sequences).is_some()
            });
            if let Some(found) = joliet {
                let root = &found.dir_record.header;
                volume.naming = Naming::Joliet;
                volume.root = root
                    .extent
                    .read()
                    .saturating_add(u32::from(root.extended_attr_record));
            }
        }
        volume
            .folder(source, volume.root)
            .is_some()
            .then_some(volume)
    }

    /// The first record of a folder, which is its own. None: there is no folder.
    pub fn folder(&self, source: &mut impl Source, sector: u32) -> Option<Record> {
        let record = self.node(source, (sector, 0))?;
        let fits = u64::from(sector) * SECTOR + record.size() <= source.length();
        let is = record.is_directory() && record.name.is_empty();
        (is && fits && record.size() <= LONGEST_FOLDER).then_some(record)
    }

    /// The folder above.
    pub fn above(&self, source: &mut impl Source, sector: u32) -> Option<u32> {
        if sector == self.root {
            return Some(sector);
        }
        let bytes = self.bytes(source, sector)?;
        let (_, length) = record::parse(self, source, &bytes)?;
        let (above, _) = record::parse(self, source, bytes.get(length as usize..)?)?;
        Some(above.parent.unwrap_or(above.sector()))
    }

    /// What is known of a node.
    pub fn node(&self, source: &mut impl Source, (sector, at): Place) -> Option<Record> {
        let start = u64::from(sector) * SECTOR + u64::from(at);
        let left = source
            .length()
            .checked_sub(start)?
            .min(SECTOR - start % SECTOR);
        let mut bytes = vec![0; left.min(RECORD as u64) as usize];
        if !source.read(start, &mut bytes) {
            return None;
        }
        let (record, length) = record::parse(self, source, &bytes)?;
        if !record.goes_on {
            return sound(record);
        }
        // A file of several extents: the records behind it, as far as its folder goes.
        let folder = self.bytes(source, sector)?;
        let mut reading = Reading {
            volume: self,
            bytes: &folder,
            at: at + length,
        };
        reading.complete(source, record)
    }

    /// All names of a folder. None: it cannot be read.
    pub fn names(&self, source: &mut impl Source, sector: u32) -> Option<Vec<Named>> {
        let bytes = self.bytes(source, sector)?;
        let (mut reading, mut names) = (
            Reading {
                volume: self,
                bytes: &bytes,
                at: 0,
            },
            Vec::new(),
        );
        while let Some((at, record)) = reading.next(source)? {
            let record = reading.complete(source, record)?;
            let name = record.name.as_slice();
            let wrong = matches!(name, b"" | b"." | b"..") || name.len() > NAME_MAX;
            if record.hidden || wrong || name.contains(&b'/') || name.contains(&0) {
                continue;
            }
            let place = match record.is_directory() {
                true => (record.sector(), 0),
                false => (sector, at),
            };
            names.push(Named {
                place,
                mode: record.mode,
                name: record.name,
            });
        }
        Some(names)
    }

    /// A folder's bytes.
    fn bytes(&self, source: &mut impl Source, sector: u32) -> Option<Vec<u8>> {
        let length = self.folder(source, sector)?.size();
        let mut bytes = vec![0; length as usize];
        source
            .read(u64::from(sector) * SECTOR, &mut bytes)
            .then_some(bytes)
    }
}

/// The records of a folder, one after the other.
struct Reading<'a> {
    volume: &'a Volume,
    bytes: &'a [u8],
    at: u32,
}

impl Reading<'_> {
    /// The next record and its place; `Some(None)` at the end.
    fn next(&mut self, source: &mut impl Source) -> Option<Option<(u32, Record)>> {
        loop {
            let at = self.at;
            let Some(&length) = self.bytes.get(at as usize) else {
                return Some(None);
            };
            let sector = SECTOR as u32;
            let room = sector - at % sector;
            if length == 0 {
                // No record lies in two sectors.
                self.at = at + room;
                continue;
            }
            let rest = &self.bytes[at as usize..];
            let rest = &rest[..rest.len().min(room as usize)];
            let (record, length) = record::parse(self.volume, source, rest)?;
            self.at = at + length;
            return Some(Some((at, record)));
        }
    }

    /// With the extents of the records behind it, if it goes on there.
    fn complete(&mut self, source: &mut impl Source, mut record: Record) -> Option<Record> {
        while record.goes_on {
            let (_, next) = self.next(source)??;
            if record.extents.len() == MOST_EXTENTS || next.name != record.name {
                return None;
            }
            record.extents.extend(next.extents);
            record.goes_on = next.goes_on;
        }
        sound(record)
    }
}

/// Only the last extent may end within a sector.
fn sound(record: Record) -> Option<Record> {
    let (_, others) = record.extents.split_last()?;
    let whole = others.iter().all(|(_, length)| length % SECTOR == 0);
    whole.then_some(record)
}

/// Bytes to skip, if the root's own record says that there is Rock Ridge.
fn rock_ridge(source: &mut impl Source, root: u32) -> Option<usize> {
    let mut bytes = [0; RECORD];
    if !source.read(u64::from(root) * SECTOR, &mut bytes) {
        return None;
    }
    let record = DirectoryRecord::parse(&mut &bytes[..]).ok()?;
    let (mut skip, mut posix) = (None, false);
    for field in SystemUseIter::new(record.system_use(), 0) {
        match field {
            SystemUseField::SuspIdentifier(found) if found.is_valid() => {
                skip = Some(usize::from(found.bytes_skipped));
            }
            SystemUseField::PosixAttributes(_) => posix = true,
            _ => {}
        }
    }
    skip.filter(|_| posix)
}
