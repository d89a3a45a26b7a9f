//! What partitions and file systems call themselves: read from the disks when somebody asks for it ([`crate::links`]), and again after somebody who could write to the disk has closed it.
//!
//! It is read page by page: who needs one that is not there waits for it, and begins again with those that came.

use crate::disk::{Disks, Job, LOOK, ROOM};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_block::contents::{self, Bytes};
use cairn_block::partition::{self, Described, Partition, Unreadable};
use cairn_block::{Info, Kind, Outcome, Refused, PAGE, SECTOR};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// Names of a disk or partition; those that it does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// Of what lies there.
    pub uuid: String,
    pub label: Vec<u8>,
    /// Of the partition, by its table.
    pub part_uuid: String,
    pub part_label: String,
}

/// Most pages that are read of a disk.
const PAGES: usize = 512;

/// The partitions that a table has, and what all parts of its disk are called, by their places.
type Names = (Vec<Partition>, Vec<(usize, Called)>);

/// What is known of a disk.
#[derive(Default)]
pub(crate) struct Look {
    /// Its parts are called what the disk says.
    fresh: bool,
    /// The partitions that its table has, if it is fresh.
    table: Vec<Partition>,
    /// What has come, by page of the disk; None: it cannot be read.
    pages: BTreeMap<u64, Option<Box<[u8]>>>,
    /// A page is being read; the disk may have been written since (None), so it is of no use.
    job: Option<(usize, Option<u64>)>,
}

impl Look {
    /// What is on the disk may have changed.
    pub fn forget(&mut self) {
        self.fresh = false;
        self.pages.clear();
        if let Some((_, page)) = &mut self.job {
            *page = None;
        }
    }
}

/// Reads a part of a disk, from the pages that there are.
struct Reader<'l> {
    look: &'l Look,
    start: u64,
    bytes: u64,
    block: usize,
    /// This page is needed first.
    missing: Option<u64>,
}

impl Bytes for Reader<'_> {
    fn bytes(&mut self, at: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let end = at.checked_add(into.len() as u64).ok_or(Unreadable)?;
        if end > self.bytes {
            return Err(Unreadable);
        }
        let (mut at, mut into) = (self.start + at, into);
        while !into.is_empty() {
            let (number, inside) = (at / PAGE as u64, at as usize % PAGE);
            let Some(page) = self.look.pages.get(&number) else {
                let room = self.look.pages.len() < PAGES;
                self.missing = room.then_some(number);
                return Err(Unreadable);
            };
            let from = page.as_ref().and_then(|page| page.get(inside..));
            let from = from.filter(|from| !from.is_empty()).ok_or(Unreadable)?;
            let length = from.len().min(into.len());
            into[..length].copy_from_slice(&from[..length]);
            at += length as u64;
            into = &mut into[length..];
        }
        Ok(())
    }
}

impl partition::Read for Reader<'_> {
    fn block(&mut self, number: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        debug_assert_eq!(into.len(), self.block);
        let at = number.checked_mul(into.len() as u64).ok_or(Unreadable)?;
        self.bytes(at, into)
    }
}

impl Disks {
    /// All parts are called what their disks say. (Those of loop devices have no names: a file's server that does not answer would hold up who looks.)
    pub(crate) fn look(&mut self, cx: &mut Context) -> Answer<()> {
        (0..self.looks.len()).try_for_each(|drive| match self.loops.number(drive) {
            None => self.look_at(cx, drive),
            Some(_) => Ok(()),
        })
    }

    /// The disk may have been written by whoever had this part open.
    pub fn may_have_changed(&mut self, part: usize) {
        if let Some(part) = self.parts.get(part) {
            self.looks[part.drive].forget();
        }
    }

    /// What a disk's table says, if it was looked at ([`Disks::look_at`]).
    pub(crate) fn table(&self, drive: usize) -> &[Partition] {
        &self.looks[drive].table
    }

    pub(crate) fn look_at(&mut self, cx: &mut Context, drive: usize) -> Answer<()> {
        while !self.looks[drive].fresh {
            self.take_page(cx, drive)?;
            match self.names(drive) {
                Ok((table, names)) => {
                    for (part, called) in names {
                        self.parts[part].called = called;
                    }
                    self.looks[drive].table = table;
                    self.looks[drive].pages.clear();
                    self.looks[drive].fresh = true;
                }
                Err(page) => self.ask_for_page(drive, page)?,
            }
        }
        Ok(())
    }

    /// Otherwise the page that is lacking.
    fn names(&self, drive: usize) -> Result<Names, u64> {
        let info = self.drives[drive].info();
        let mut whole = self.reader(drive, &info, (0, info.sectors));
        let table = partition::described(&info, &mut whole).or_else(|_| match whole.missing {
            Some(page) => Err(page),
            None => Ok(Vec::new()),
        })?;
        let mut names = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            if part.drive != drive || part.gone {
                continue;
            }
            let place = (part.first, part.sectors);
            let mut reader = self.reader(drive, &info, place);
            let there = contents::contents(reader.bytes, &mut reader);
            if let Some(page) = reader.missing {
                return Err(page);
            }
            let there = there.ok().flatten().unwrap_or_default();
            // The table may have been written and not read by the driver.
            let is_this = |it: &&Described| {
                let known = it.partition;
                (known.number, known.first, known.sectors) == (part.number, place.0, place.1)
            };
            let entry = table.iter().find(is_this).cloned();
            let (part_uuid, part_label) = entry.map_or(Default::default(), |it| (it.id, it.name));
            let called = Called {
                uuid: there.uuid,
                label: there.label,
                part_uuid,
                part_label,
            };
            names.push((at, called));
        }
        let table = table.into_iter().map(|it| it.partition).collect();
        Ok((table, names))
    }

    fn reader(&self, drive: usize, info: &Info, (first, sectors): (u64, u64)) -> Reader<'_> {
        Reader {
            look: &self.looks[drive],
            start: first * SECTOR,
            bytes: sectors * SECTOR,
            block: info.block as usize,
            missing: None,
        }
    }

    fn ask_for_page(&mut self, drive: usize, page: u64) -> Answer<()> {
        let sector = page * (PAGE as u64 / SECTOR);
        let sectors = (PAGE as u64 / SECTOR).min(self.drives[drive].info().sectors - sector);
        let key = LOOK + drive as u64;
        let job = Job::new(drive, Kind::Read, (sector, sectors), key);
        let job = self.place(job, 1).ok_or(Failure::Wait(ROOM))?;
        match self.submit(job) {
            Ok(()) => {
                self.looks[drive].job = Some((job, Some(page)));
                self.together(drive, false);
                Err(Failure::Wait(key))
            }
            Err(why) => {
                self.remove(job);
                match why {
                    Refused::Full => Err(Failure::Wait(ROOM)),
                    Refused::Invalid => {
                        self.looks[drive].pages.insert(page, None);
                        Ok(())
                    }
                }
            }
        }
    }

    /// What was asked for has come, if something was.
    fn take_page(&mut self, cx: &mut Context, drive: usize) -> Answer<()> {
        let Some((index, page)) = self.looks[drive].job else {
            return Ok(());
        };
        let Some(Some(job)) = self.jobs.get(index) else {
            self.looks[drive].job = None;
            return Ok(());
        };
        let Some(outcome) = job.outcome else {
            return Err(Failure::Wait(LOOK + drive as u64));
        };
        let bytes = job.bytes();
        if let Some(page) = page {
            let came = (outcome == Outcome::Done).then(|| self.memory(index)[..bytes].into());
            self.looks[drive].pages.insert(page, came);
        }
        self.looks[drive].job = None;
        self.free(cx, index);
        Ok(())
    }
}
