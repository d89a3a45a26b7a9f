//! A disk's partitions, read from its table again (BLKRRPART) or changed one by one (BLKPG), as partitioning tools ask for. The driver keeps them, and knows who has one mounted.

use crate::disk::{long, Disks, Part};
use crate::look::Called;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_block::SECTOR;
use cairn_idl::errno::*;
use cairn_idl::{device, label};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// BLKPG's operations.
const ADD: u64 = 1;
const REMOVE: u64 = 2;
const RESIZE: u64 = 3;
/// Progress of a request that is reading the table. (No job has such a number.)
const READING: u64 = 1 << 63;

/// Number, first sector, sectors.
type Entry = (u32, u64, u64);

fn check(cx: &Context) -> Answer<()> {
    match label::has(cx.request.label, label::SYSTEM) {
        true => Ok(()),
        false => Err(Failure::Errno(EACCES)),
    }
}

impl Disks {
    /// BLKRRPART.
    pub(crate) fn read_table(&mut self, cx: &mut Context, part: usize) -> Answer<()> {
        check(cx)?;
        let drive = self.whole(part)?;
        if !self.has_partitions(drive) {
            return Err(Failure::Errno(EINVAL));
        }
        let is_open = |it: &Part| it.drive == drive && it.number != 0 && it.held > 0;
        if self.parts.iter().any(is_open) {
            return Err(Failure::Errno(EBUSY));
        }
        if cx.progress != READING {
            self.looks[drive].forget();
        }
        cx.progress = READING;
        self.look_at(cx, drive)?;
        cx.progress = 0;
        let table = self.table(drive).iter();
        let table = table.map(|it| (it.number, it.first, it.sectors)).collect();
        self.set_table(drive, true, table)
    }

    /// BLKPG: what is to be done, start and length in bytes, number.
    pub(crate) fn change_partition(&mut self, cx: &mut Context, part: usize) -> Answer<()> {
        check(cx)?;
        let mut bytes = [0; 32];
        cx.fetch(0, &mut bytes)?;
        let [what, start, length, number] = [0, 8, 16, 24].map(|at| long(&bytes, at));
        let drive = self.whole(part)?;
        if !self.has_partitions(drive) {
            return Err(Failure::Errno(EINVAL));
        }
        let info = self.drives[drive].info();
        let of_drive = |it: &&Part| it.drive == drive && it.number != 0;
        let mut table: Vec<Entry> = self
            .there()
            .map(|(_, it)| it)
            .filter(of_drive)
            .map(|it| (it.number, it.first, it.sectors))
            .collect();
        let known = table.iter().position(|it| u64::from(it.0) == number);
        if number == 0 || number >= u64::from(device::MINORS) {
            return Err(Failure::Errno(EINVAL));
        }
        if what == REMOVE {
            let known = known.ok_or(Failure::Errno(ENXIO))?;
            let is_open =
                |it: &Part| of_drive(&it) && u64::from(it.number) == number && it.held > 0;
            if self.there().any(|(_, it)| is_open(it)) {
                return Err(Failure::Errno(EBUSY));
            }
            table.remove(known);
            return self.set_table(drive, false, table);
        }
        let end = start.checked_add(length).ok_or(Failure::Errno(EINVAL))?;
        let blocks = (start | length).is_multiple_of(u64::from(info.block));
        if length == 0 || !blocks || end > info.sectors * SECTOR {
            return Err(Failure::Errno(EINVAL));
        }
        let new = (number as u32, start / SECTOR, length / SECTOR);
        let place = match (what, known) {
            (ADD, None) => None,
            (ADD, Some(_)) => return Err(Failure::Errno(EBUSY)),
            (RESIZE, Some(known)) if table[known].1 == new.1 => Some(known),
            (RESIZE, Some(_)) => return Err(Failure::Errno(EINVAL)),
            (RESIZE, None) => return Err(Failure::Errno(ENXIO)),
            _ => return Err(Failure::Errno(EINVAL)),
        };
        let overlaps = |it: &Entry| it.0 != new.0 && it.1 < new.1 + new.2 && new.1 < it.1 + it.2;
        if table.iter().any(overlaps) {
            return Err(Failure::Errno(EBUSY));
        }
        match place {
            Some(known) => table[known] = new,
            None => table.push(new),
        }
        self.set_table(drive, false, table)
    }

    /// As BLKRRPART, for a loop device that is to show partitions.
    pub(crate) fn scan(&mut self, cx: &mut Context, part: usize) -> Answer<()> {
        let drive = self.whole(part)?;
        self.look_at(cx, drive)?;
        let table = self.table(drive).iter();
        let table = table.map(|it| (it.number, it.first, it.sectors)).collect();
        self.set_table(drive, false, table)
    }

    /// The drive of a whole disk.
    fn whole(&self, part: usize) -> Answer<usize> {
        let part = self.parts.get(part).ok_or(Failure::Errno(ENXIO))?;
        match part.number {
            0 => Ok(part.drive),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    /// The driver, and /dev, have these partitions from now on.
    fn set_table(&mut self, drive: usize, alone: bool, table: Vec<Entry>) -> Answer<()> {
        let told = self.drives[drive].repartition(alone, &table);
        told.map_err(Failure::Errno)?;
        for part in &mut self.parts {
            let stays = |it: &Entry| it.0 == part.number;
            part.gone |= part.drive == drive && part.number != 0 && !table.iter().any(stays);
        }
        for entry in table {
            self.put_part(drive, entry);
        }
        self.looks[drive].forget();
        Ok(())
    }

    /// What a part of a disk is called, and its numbers. None: it has none.
    fn names_of_part(&self, drive: usize, number: u32) -> Option<(String, (u32, u32))> {
        let disk = &self.names[drive];
        let name = match number {
            0 => disk.clone(),
            _ => format!("{disk}{}{number}", device::partition_mark(disk)),
        };
        Some((name, device::disk(disk, number)?))
    }

    /// The disk is called otherwise from now on, and so are its parts, which are all gone.
    pub(crate) fn rename_parts(&mut self, drive: usize) {
        for at in 0..self.parts.len() {
            if self.parts[at].drive != drive {
                continue;
            }
            if let Some((name, numbers)) = self.names_of_part(drive, self.parts[at].number) {
                (self.parts[at].name, self.parts[at].numbers) = (name, numbers);
            }
        }
    }

    /// A part that is there from now on, as it may have been before.
    pub(crate) fn put_part(&mut self, drive: usize, (number, first, sectors): Entry) {
        let mut parts = self.parts.iter_mut();
        match parts.find(|it| it.drive == drive && it.number == number) {
            Some(part) => (part.first, part.sectors, part.gone) = (first, sectors, false),
            None => self.add_part(drive, (number, first, sectors)),
        }
    }

    /// A part that was never there. One without a number below /dev is left out.
    pub(crate) fn add_part(&mut self, drive: usize, (number, first, sectors): Entry) {
        let Some((name, numbers)) = self.names_of_part(drive, number) else {
            return;
        };
        self.parts.push(Part {
            name,
            numbers,
            drive,
            number,
            first,
            sectors,
            called: Called::default(),
            gone: false,
            held: 0,
        });
    }
}
