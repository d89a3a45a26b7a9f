//! The server: what the framework asks for, from what the volume says. A node is the place of its record, so nothing has to be kept of it; what is kept ([`Known`], [`List`]) is so that it need not be read again.

use crate::pages::{Failed, Medium, Pages, PAGE};
use crate::record::Record;
use crate::volume::{Named, Place, Volume, SECTOR};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_cache::{File, Stream};
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, o, s, Stat, Statfs, NAME_MAX};
use cairn_idl::mounts::mount;
use cairn_resmgr::server::{put, Answer, Change, Meta, New, Opened, Shown};
use cairn_resmgr::{layout, Context, Data, Dirents, Failure, Handle, Server};
use cairn_rt::{Portal, Received};

/// Badges of pulses: memory is wanted back, mapped pages are wanted.
pub const MEMORY: u64 = 1;
pub const PAGES: u64 = 2;
/// As Linux calls it in statfs, and its flags there: ST_RDONLY, ST_VALID, ST_RELATIME.
const MAGIC: i64 = 0x9660;
const FLAGS: i64 = 0x1 | 0x20 | 0x1000;
/// Nodes that are known although nobody has them open, and folders whose names are, with so many names in all.
const KNOWN: usize = 2048;
const LISTS: usize = 16;
const NAMES: usize = 100_000;
/// How deep folders lie at most.
const DEEPEST: usize = 256;
/// Pages that could not be shown for want of memory are tried again after so long.
const AGAIN: u64 = 100_000_000;

#[derive(Clone, Copy)]
pub struct Options {
    /// st_dev.
    pub device: u64,
    /// Called when the server was unmounted and the answer is on its way.
    pub end: fn(),
}

struct Known {
    record: Rc<Record>,
    /// Its pages in the cache.
    file: Option<File>,
    opens: u32,
}

/// The names of a folder, and their order by the alphabet.
struct List {
    names: Vec<Named>,
    sorted: Vec<u32>,
}

pub struct Iso<M: Medium> {
    volume: Volume,
    pages: Pages<M>,
    known: BTreeMap<Place, Known>,
    /// What was used last stands at the end.
    lists: VecDeque<(u32, Rc<List>)>,
    options: Options,
    ended: bool,
}

fn fail<T>(errno: i64) -> Answer<T> {
    Err(Failure::Errno(errno))
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Failure {
        Failure::Errno(match failed {
            Failed::NoRoom => ENOMEM,
            Failed::Disk => EIO,
        })
    }
}

impl<M: Medium> Iso<M> {
    /// What is on the disk, through a cache of so many pages; None: no ISO 9660.
    pub fn open(medium: M, slots: u32, options: Options) -> Option<Iso<M>> {
        let mut pages = Pages::new(medium, slots);
        Some(Iso {
            volume: Volume::open(&mut pages)?,
            pages,
            known: BTreeMap::new(),
            lists: VecDeque::new(),
            options,
            ended: false,
        })
    }

    /// A page of the arena, for tests.
    #[cfg(test)]
    pub(crate) fn page(&mut self, slot: cairn_cache::Slot) -> &[u8] {
        self.pages.bytes(slot, 0, PAGE)
    }

    fn known(&mut self, place: Place) -> Answer<&mut Known> {
        if !self.known.contains_key(&place) {
            self.forget_some();
            let record = match place.1 {
                0 => self.volume.folder(&mut self.pages, place.0),
                _ => self.volume.node(&mut self.pages, place),
            };
            let known = Known {
                record: Rc::new(record.ok_or(Failure::Errno(EIO))?),
                file: None,
                opens: 0,
            };
            self.known.insert(place, known);
        }
        self.known.get_mut(&place).ok_or(Failure::Errno(EIO))
    }

    /// If there are too many, all go that nobody uses.
    fn forget_some(&mut self) {
        if self.known.len() < KNOWN {
            return;
        }
        let pages = &mut self.pages;
        self.known.retain(|_, known| {
            known.opens != 0 || known.file.is_some_and(|file| !pages.close(file))
        });
    }

    fn record(&mut self, place: Place) -> Answer<Rc<Record>> {
        Ok(self.known(place)?.record.clone())
    }

    /// A file to be read, and its pages.
    fn file(&mut self, place: Place) -> Answer<(File, Rc<Record>)> {
        let known = self.known(place)?;
        let (record, file) = (known.record.clone(), known.file);
        if record.compressed {
            return fail(EOPNOTSUPP);
        }
        let file = file.unwrap_or_else(|| self.pages.open());
        self.known(place)?.file = Some(file);
        Ok((file, record))
    }

    fn list(&mut self, folder: u32) -> Answer<Rc<List>> {
        if let Some(at) = self.lists.iter().position(|(sector, _)| *sector == folder) {
            let found = self.lists.remove(at).ok_or(Failure::Errno(EIO))?;
            let list = found.1.clone();
            self.lists.push_back(found);
            return Ok(list);
        }
        let names = self.volume.names(&mut self.pages, folder);
        let names = names.ok_or(Failure::Errno(EIO))?;
        let mut sorted: Vec<u32> = (0..names.len() as u32).collect();
        sorted.sort_by_key(|&at| &names[at as usize].name);
        let list = Rc::new(List { names, sorted });
        self.lists.push_back((folder, list.clone()));
        let total = |lists: &VecDeque<(u32, Rc<List>)>| -> usize {
            lists.iter().map(|(_, list)| list.names.len()).sum()
        };
        while self.lists.len() > LISTS || self.lists.len() > 1 && total(&self.lists) > NAMES {
            self.lists.pop_front();
        }
        Ok(list)
    }

    /// The name that a folder has in the one above.
    fn name_of(&mut self, place: Place, above: u32) -> Answer<Vec<u8>> {
        let list = self.list(above)?;
        let named = list.names.iter().find(|named| named.place == place);
        Ok(named.ok_or(Failure::Errno(ENOENT))?.name.clone())
    }
}

fn ino((sector, at): Place) -> u64 {
    u64::from(sector) * SECTOR + u64::from(at)
}

impl<M: Medium> Server for Iso<M> {
    type Node = Place;
    type State = Stream;

    /// Nothing changes.
    const STABLE_NAMES: bool = true;

    fn read_only(&self) -> bool {
        true
    }

    fn root(&mut self, _: u64) -> Place {
        (self.volume.root, 0)
    }

    fn meta(&mut self, place: Place) -> Answer<Meta> {
        let record = self.record(place)?;
        Ok(Meta {
            mode: record.mode,
            uid: record.uid,
            gid: record.gid,
            ino: ino(place),
            size: record.size(),
            rdev: record.rdev,
        })
    }

    fn lookup(&mut self, _: &mut Context, (sector, _): Place, name: &[u8]) -> Answer<Place> {
        let list = self.list(sector)?;
        let of = |at: &u32| list.names[*at as usize].name.as_slice();
        let found = list.sorted.partition_point(|at| of(at) < name);
        match list.sorted.get(found).filter(|at| of(at) == name) {
            Some(at) => Ok(list.names[*at as usize].place),
            None => fail(ENOENT),
        }
    }

    fn parent(&mut self, _: &mut Context, (sector, _): Place) -> Answer<Place> {
        let above = self.volume.above(&mut self.pages, sector);
        Ok((above.ok_or(Failure::Errno(EIO))?, 0))
    }

    fn target(&mut self, _: &mut Context, link: Place, into: &mut [u8]) -> Answer<usize> {
        let record = self.record(link)?;
        put(&record.target, into)
    }

    fn path(&mut self, cx: &mut Context, mut place: Place, into: &mut [u8]) -> Answer<usize> {
        let mut names = Vec::new();
        while place != self.root(0) {
            let above = match place {
                (_, 0) => self.parent(cx, place)?,
                (sector, _) => (sector, 0),
            };
            if names.len() == DEEPEST {
                return fail(ELOOP);
            }
            names.push(self.name_of(place, above.0)?);
            place = above;
        }
        names.reverse();
        put(&names.join(&b'/'), into)
    }

    fn stat(&mut self, _: &mut Context, place: Place) -> Answer<Stat> {
        let record = self.record(place)?;
        let blocks = match record.mode & s::IFMT {
            s::IFLNK => 0,
            _ => record.size().div_ceil(512),
        };
        Ok(Stat {
            dev: self.options.device,
            ino: ino(place),
            nlink: u64::from(record.links),
            mode: record.mode,
            uid: record.uid,
            gid: record.gid,
            rdev: record.rdev,
            size: record.size() as i64,
            blksize: SECTOR as i64,
            blocks: blocks as i64,
            atime: record.times[0],
            mtime: record.times[1],
            ctime: record.times[2],
            ..Stat::default()
        })
    }

    fn statfs(&mut self, _: &mut Context, _: Place) -> Answer<Statfs> {
        Ok(Statfs {
            kind: MAGIC,
            bsize: SECTOR as i64,
            frsize: SECTOR as i64,
            blocks: u64::from(self.volume.sectors),
            namelen: NAME_MAX as i64,
            flags: FLAGS,
            ..Statfs::default()
        })
    }

    fn change(&mut self, _: &mut Context, _: Place, _: &Change) -> Answer<()> {
        fail(EROFS)
    }

    fn truncate(&mut self, _: &mut Context, _: Place, _: u64) -> Answer<()> {
        fail(EROFS)
    }

    fn create_unnamed(&mut self, _: &mut Context, _: Place, _: &New) -> Answer<Place> {
        fail(EROFS)
    }

    fn set_attribute(
        &mut self,
        _: &mut Context,
        _: Place,
        _: &[u8],
        _: Option<&[u8]>,
        _: Option<bool>,
    ) -> Answer<()> {
        fail(EROFS)
    }

    fn open(
        &mut self,
        cx: &mut Context,
        place: Place,
        flags: u64,
        _: &mut Stream,
    ) -> Answer<Opened<Place>> {
        let meta = self.meta(place)?;
        let kind = match meta.mode & s::IFMT {
            s::IFREG => layout::default_kind(meta.mode) | kind::MAPPABLE,
            s::IFDIR => layout::default_kind(meta.mode),
            s::IFCHR | s::IFBLK | s::IFIFO => return Err(cx.redirect_special(&meta)),
            _ => return fail(ENXIO),
        };
        if flags & o::ACCMODE != o::RDONLY || flags & o::TRUNC != 0 {
            return fail(EROFS);
        }
        Ok(Opened { node: place, kind })
    }

    fn retain(&mut self, place: Place) {
        if let Ok(known) = self.known(place) {
            known.opens += 1;
        }
    }

    fn close(&mut self, _: &mut Context, handle: Handle<Self>) {
        if let Some(known) = self.known.get_mut(&handle.node) {
            known.opens = known.opens.saturating_sub(1);
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let (file, record) = self.file(handle.node)?;
        let size = record.size();
        let length = size.saturating_sub(offset).min(length as u64) as usize;
        if length == 0 {
            return Ok(Data::default());
        }
        let (first, end) = (
            offset / PAGE as u64,
            (offset + length as u64).div_ceil(PAGE as u64),
        );
        let whole = size.div_ceil(PAGE as u64);
        let ahead = handle.state.read(first, end - first, whole);
        let ahead = ahead.map_or(end, |range| range.end);
        let mut done = 0;
        loop {
            let at = offset + done as u64;
            let (page, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let left = length - done;
            let run = self
                .pages
                .run(file, &record.extents, page, end - page, ahead);
            let (slot, count) = match run {
                Ok(run) => run,
                Err(_) if done != 0 => return Ok(Data::stored(done)),
                Err(failed) => return Err(failed.into()),
            };
            let some = (count as usize * PAGE - from).min(left);
            if some == left {
                let rest = self.pages.bytes(slot, from, some);
                return Ok(Data { done, rest });
            }
            cx.store(done, self.pages.bytes(slot, from, some))?;
            done += some;
        }
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let own = handle.node;
        let list = self.list(own.0)?;
        let above = self.parent(cx, own)?;
        let mut at = position;
        for (number, place, name) in [(0, own, &b"."[..]), (1, above, b"..")] {
            if at == number {
                if !into.add(ino(place), number + 1, s::IFDIR, name) {
                    return Ok(at);
                }
                at += 1;
            }
        }
        let rest = usize::try_from(at - 2).ok();
        let rest = rest.and_then(|from| list.names.get(from..)).unwrap_or(&[]);
        for named in rest {
            if !into.add(ino(named.place), at + 1, named.mode, &named.name) {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    fn shown(&mut self, tag: u64, _: &mut [u8]) -> Option<Shown<Place>> {
        let file = Some(File::with_tag(tag));
        let found = self.known.iter().find(|(_, known)| known.file == file);
        found.map(|(place, _)| Shown::File(*place))
    }

    fn map(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        _: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        if shared_writable {
            return fail(EROFS);
        }
        let (file, record) = self.file(handle.node)?;
        let mapped = self.pages.map(file, &record.extents);
        mapped.ok_or(Failure::Errno(ENOMEM))
    }

    /// As Linux has it for files that nobody writes.
    fn sync(&mut self, _: &mut Context, _: &mut Handle<Self>) -> Answer<()> {
        fail(EINVAL)
    }

    fn remount(&mut self, _: &mut Context, flags: u64) -> Answer<()> {
        match flags & mount::READ_ONLY {
            0 => fail(EROFS),
            _ => Ok(()),
        }
    }

    fn unmount(&mut self, cx: &mut Context) -> Answer<()> {
        if self.pages.anything_mapped() {
            return fail(EBUSY);
        }
        self.ended = true;
        // The next tick, when the answer is on its way.
        let now = cx.transport.monotonic();
        cx.wake_at(Some(now));
        Ok(())
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        match pulse.badge {
            MEMORY => self.pages.give_back(),
            PAGES if !self.pages.answer() => {
                let later = cx.transport.monotonic() + AGAIN;
                cx.wake_at(Some(later));
            }
            _ => {}
        }
    }

    fn tick(&mut self, _: &mut Context) {
        match self.ended {
            true => (self.options.end)(),
            false => self.pages.again(),
        }
    }
}
