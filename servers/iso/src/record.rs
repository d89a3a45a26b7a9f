//! A directory record and what Rock Ridge adds to it, as POSIX has it. Every number is the disk's: nothing is believed beyond what is checked here.

use crate::volume::{Naming, Source, Volume, SECTOR};
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::fs::{s, NAME_MAX, PATH_MAX};
use hadris_iso::joliet::decode_joliet_name;
use hadris_iso::sync::directory::{DirectoryRecord, FileFlags};
use hadris_iso::sync::rrip::{NmFlags, SlComponent, SlComponentFlags, TfEntry, TfFlags};
use hadris_iso::sync::susp::{SystemUseField, SystemUseIter};

/// Continuation areas of a record, and bytes of each (they lie within a block).
const CONTINUATIONS: usize = 32;
/// Bytes of a record's fixed part, and where in it its date is.
const FIXED: usize = 33;
const DATE: usize = 18;
/// What everything may without Rock Ridge.
const ANYBODY: u32 = 0o555;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty for `.` and `..`.
    pub name: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub rdev: u64,
    /// Last access, last change of the data, of the attributes: seconds since 1970.
    pub times: [i64; 3],
    /// First byte and length of each extent.
    pub extents: Vec<(u64, u64)>,
    /// Of a symbolic link.
    pub target: Vec<u8>,
    /// The folder that this one leads to was moved there (CL), or was moved here from there (PL).
    pub child: Option<u32>,
    pub parent: Option<u32>,
    /// A folder that was moved here: its name is elsewhere (RE). Or not meant to be seen (an associated file).
    pub hidden: bool,
    /// Its data is compressed (zisofs).
    pub compressed: bool,
    /// Another record follows with the next extent.
    pub goes_on: bool,
}

impl Record {
    pub fn is_directory(&self) -> bool {
        self.mode & s::IFMT == s::IFDIR
    }

    pub fn size(&self) -> u64 {
        match self.mode & s::IFMT {
            s::IFLNK => self.target.len() as u64,
            s::IFREG | s::IFDIR => self.extents.iter().map(|(_, length)| length).sum(),
            _ => 0,
        }
    }

    /// Where a folder begins.
    pub fn sector(&self) -> u32 {
        let first = self.extents.first().map_or(0, |(at, _)| at / SECTOR);
        self.child.unwrap_or(first as u32)
    }
}

/// The record that these bytes begin with, and its length. None: it is not one.
pub fn parse(volume: &Volume, source: &mut impl Source, bytes: &[u8]) -> Option<(Record, u32)> {
    let raw = DirectoryRecord::parse(&mut &*bytes).ok()?;
    let header = raw.header();
    if raw.size() <= FIXED || header.file_unit_size != 0 || header.interleave_gap_size != 0 {
        return None;
    }
    let flags = FileFlags::from_bits_retain(header.flags);
    let first = u64::from(header.extent.read()) + u64::from(header.extended_attr_record);
    let directory = header.is_directory();
    let date = short_date(&header.to_bytes()[DATE..DATE + 7]);
    let mut record = Record {
        name: plain_name(volume.naming, raw.name(), directory),
        mode: ANYBODY | if directory { s::IFDIR } else { s::IFREG },
        links: 1,
        times: [date; 3],
        extents: alloc::vec![(first * SECTOR, u64::from(header.data_len.read()))],
        hidden: flags.contains(FileFlags::ASSOCIATED_FILE),
        goes_on: flags.contains(FileFlags::NOT_FINAL) && !directory,
        ..Record::default()
    };
    if volume.naming == Naming::RockRidge {
        rock_ridge(volume, source, raw.system_use(), &mut record)?;
    }
    if raw.is_special() {
        record.name.clear();
    }
    Some((record, raw.size() as u32))
}

/// As Linux shows names that only ISO 9660 or Joliet gave.
fn plain_name(naming: Naming, raw: &[u8], directory: bool) -> Vec<u8> {
    let mut name = match naming {
        Naming::Joliet => decode_joliet_name(raw).into_bytes(),
        _ => raw.to_ascii_lowercase(),
    };
    if !directory {
        if let Some(stem) = name.strip_suffix(b";1") {
            name.truncate(stem.len());
        }
        while name.len() > 1 && name.last() == Some(&b'.') {
            name.pop();
        }
    }
    for byte in &mut name {
        if matches!(byte, b'/' | b';') {
            *byte = b'.';
        }
    }
    name
}

/// What the fields behind the name say, and those that it was continued with. None: they are not sound.
fn rock_ridge(
    volume: &Volume,
    source: &mut impl Source,
    inside: &[u8],
    record: &mut Record,
) -> Option<()> {
    let (mut name, mut link) = (Vec::new(), Link::default());
    let mut area: Vec<u8> = Vec::from(inside);
    // The root's own record, which says how many bytes are skipped, has none to skip.
    let mut skip = if inside.starts_with(b"SP") {
        0
    } else {
        volume.skip
    };
    for _ in 0..CONTINUATIONS {
        let mut next = None;
        for field in SystemUseIter::new(&area, skip) {
            match field {
                SystemUseField::Terminator => break,
                SystemUseField::ContinuationArea(area) => next = Some(area),
                SystemUseField::AlternateName(part)
                    if !part.flags.intersects(NmFlags::CURRENT | NmFlags::PARENT) =>
                {
                    name.extend_from_slice(&part.name);
                }
                SystemUseField::PosixAttributes(px) => {
                    let told = px.file_mode.read() & 0o177_777;
                    if told & s::IFMT != 0 {
                        record.mode = told;
                    }
                    record.links = px.file_links.read();
                    (record.uid, record.gid) = (px.file_uid.read(), px.file_gid.read());
                }
                SystemUseField::DeviceNumber(pn) => {
                    record.rdev = device(pn.dev_high.read(), pn.dev_low.read());
                }
                SystemUseField::SymbolicLink(link_part) => {
                    link_part.components.iter().for_each(|part| link.add(part));
                }
                SystemUseField::Timestamps(dates) => take_dates(&dates, &mut record.times),
                SystemUseField::ChildLink(cl) => {
                    record.child = Some(cl.child_directory_location.read());
                }
                SystemUseField::ParentLink(pl) => {
                    record.parent = Some(pl.parent_directory_location.read());
                }
                SystemUseField::Relocated => record.hidden = true,
                SystemUseField::Unknown(header, _) => record.compressed |= header.sig == *b"ZF",
                _ => {}
            }
            if name.len() > NAME_MAX || link.target.len() >= PATH_MAX {
                return None;
            }
        }
        let Some(next) = next else { break };
        // Of later areas no bytes are skipped.
        skip = 0;
        let (offset, length) = (next.offset.read(), next.length.read());
        if u64::from(offset) + u64::from(length) > SECTOR {
            return None;
        }
        area = alloc::vec![0; length as usize];
        let at = u64::from(next.sector.read()) * SECTOR + u64::from(offset);
        if !source.read(at, &mut area) {
            return None;
        }
    }
    if !name.is_empty() {
        record.name = name;
    }
    if record.child.is_some() {
        record.mode = record.mode & !s::IFMT | s::IFDIR;
    }
    record.target = link.target;
    Some(())
}

/// As Linux has it.
fn device(major: u32, minor: u32) -> u64 {
    // Some write the whole number into the lower half.
    let (major, minor) = match major {
        0 if minor > 0xff => (minor >> 8 & 0xfff, minor & 0xff),
        _ => (major & 0xfff, minor & 0xf_ffff),
    };
    u64::from(minor & 0xff | major << 8) | u64::from(minor & !0xff) << 12
}

/// The target of a symbolic link, of which the parts come one by one.
#[derive(Default)]
struct Link {
    target: Vec<u8>,
    /// The next part is one more name.
    slash: bool,
}

impl Link {
    fn add(&mut self, part: &SlComponent) {
        if self.slash {
            self.target.push(b'/');
        }
        let root = part.flags.contains(SlComponentFlags::ROOT);
        if root {
            self.target.push(b'/');
        } else if part.flags.contains(SlComponentFlags::CURRENT) {
            self.target.push(b'.');
        } else if part.flags.contains(SlComponentFlags::PARENT) {
            self.target.extend_from_slice(b"..");
        } else {
            self.target.extend_from_slice(&part.content);
        }
        self.slash = !root && !part.flags.contains(SlComponentFlags::CONTINUE);
    }
}

/// The dates of a TF field, in their order: creation, change, access, change of the attributes.
fn take_dates(dates: &TfEntry, times: &mut [i64; 3]) {
    let long = dates.flags.contains(TfFlags::LONG_FORM);
    let mut rest = dates.timestamps.chunks_exact(if long { 17 } else { 7 });
    let order = [
        (TfFlags::CREATION, None),
        (TfFlags::MODIFY, Some(1)),
        (TfFlags::ACCESS, Some(0)),
        (TfFlags::ATTRIBUTES, Some(2)),
    ];
    for (flag, place) in order {
        if !dates.flags.contains(flag) {
            continue;
        }
        let Some(bytes) = rest.next() else { return };
        if let Some(place) = place {
            times[place] = if long {
                long_date(bytes)
            } else {
                short_date(bytes)
            };
        }
    }
}

/// Seven bytes: years since 1900 to seconds, and quarters of an hour east of Greenwich.
fn short_date(bytes: &[u8]) -> i64 {
    let part = |i: usize| i64::from(bytes[i]);
    let fields = [1900 + part(0), part(1), part(2), part(3), part(4), part(5)];
    seconds(fields, bytes[6] as i8)
}

/// Digits: `YYYYMMDDhhmmsscc`, and the same byte of the zone.
fn long_date(bytes: &[u8]) -> i64 {
    let digits = |from: usize, to: usize| -> i64 {
        let text = String::from_utf8_lossy(&bytes[from..to]);
        text.parse().unwrap_or(0)
    };
    let parts = [(0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14)];
    seconds(parts.map(|(from, to)| digits(from, to)), bytes[16] as i8)
}

/// Seconds since 1970; 0 for what is no date. (Days by Hinnant's formula, years beginning with March.)
fn seconds([year, month, day, hour, minute, second]: [i64; 6], zone: i8) -> i64 {
    if !(1..=12).contains(&month) {
        return 0;
    }
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let zone = match zone {
        -52..=52 => i64::from(zone) * 900,
        _ => 0,
    };
    days * 86_400 + hour * 3600 + minute * 60 + second - zone
}
