//! Shared memory: segments are memory objects of `vm` of zeroes, which take memory when they are touched first.
//!
//! How often a segment is attached is never counted here: `vm` knows how often its pages are mapped, whoever mapped, forked, unmapped or died. `vm` also tells when nobody has it mapped any more, and what was removed goes then.

use crate::registry::{Owned, Owner, Registry, EXECUTE, READ, WRITE};
use crate::server::{Kept, Outside};
use crate::structures::{with_owner, Bytes};
use cairn_idl::errno::*;
use cairn_rt::Portal;

pub const SHM_LOCK: u32 = 11;
pub const SHM_UNLOCK: u32 = 12;
pub const SHM_STAT: u32 = 13;
pub const SHM_INFO: u32 = 14;
pub const SHM_STAT_ANY: u32 = 15;
pub const SHM_RDONLY: u32 = 0o10000;
pub const SHM_EXEC: u32 = 0o100000;
pub const SHM_HUGETLB: u32 = 0o4000;
const SHM_DEST: u32 = 0o1000;
const SHM_LOCKED: u32 = 0o2000;
const PAGE: u64 = 4096;
/// Most pages that `vm` makes an object of.
const PAGES_MOST: u64 = 1 << 22;

#[derive(Debug)]
pub struct Segment {
    pub owner: Owner,
    /// The key that it was made with.
    key: u32,
    pub size: u64,
    pub pages: u64,
    object: Portal,
    /// The same for those who may only read.
    reader: Option<Portal>,
    atime: u64,
    dtime: u64,
    ctime: u64,
    cpid: u32,
    lpid: u32,
    pub kept: Kept,
}

impl Owned for Segment {
    fn owner(&self) -> &Owner {
        &self.owner
    }
    fn owner_mut(&mut self) -> &mut Owner {
        &mut self.owner
    }
}

#[derive(Default)]
pub struct Segments {
    pub all: Registry<Segment>,
    /// Pages of all segments of all name spaces.
    pub pages: u64,
}

/// Pages for so many bytes. EINVAL, ENOSPC: none.
pub fn pages_for(size: u64, most: u64) -> Result<u64, i64> {
    match size {
        0 => Err(EINVAL),
        size if size > most => Err(EINVAL),
        size => Ok(size.div_ceil(PAGE)),
    }
}

impl Segments {
    pub fn make(
        &mut self,
        outside: &mut impl Outside,
        owner: Owner,
        (size, pages): (u64, u64),
        (most, pid): (u64, u32),
        kept: Kept,
    ) -> Result<u32, i64> {
        if pages > PAGES_MOST {
            return Err(ENOMEM);
        }
        let segment = Segment {
            key: owner.key,
            owner,
            size,
            pages,
            object: Portal(0),
            reader: None,
            atime: 0,
            dtime: 0,
            ctime: outside.seconds(),
            cpid: pid,
            lpid: 0,
            kept,
        };
        let id = self.all.add(segment, most)?;
        let at = crate::registry::index(id);
        // The whole identifier is the tag: what `vm` tells of an earlier segment in this place is not this one's.
        match (outside.make(pages, id.into()), self.all.things.get_mut(at)) {
            (Some(object), Some(segment)) => {
                segment.object = object;
                self.pages += pages;
                Ok(id)
            }
            _ => {
                self.all.remove(at);
                Err(ENOMEM)
            }
        }
    }

    /// The segment's memory for who asks, and its length.
    pub fn attach(
        &mut self,
        outside: &mut impl Outside,
        may: impl FnOnce(&Owner, u32) -> bool,
        at: u32,
        (flags, pid): (u32, u32),
    ) -> Result<(Portal, u64), i64> {
        let segment = self.all.things.get_mut(at).ok_or(EINVAL)?;
        let reads = flags & SHM_RDONLY != 0;
        let mut wanted = READ;
        if !reads {
            wanted |= WRITE;
        }
        if flags & SHM_EXEC != 0 {
            wanted |= EXECUTE;
        }
        if !may(&segment.owner, wanted) {
            return Err(EACCES);
        }
        let object = match (reads, segment.reader) {
            (false, _) => segment.object,
            (true, Some(reader)) => reader,
            (true, None) => {
                let reader = outside.reader(segment.object).ok_or(ENOMEM)?;
                segment.reader = Some(reader);
                reader
            }
        };
        segment.atime = outside.seconds();
        segment.lpid = pid;
        Ok((object, segment.size))
    }

    /// Somebody says that he has it mapped no more.
    pub fn detached(&mut self, outside: &mut impl Outside, at: u32, pid: u32) {
        if let Some(segment) = self.all.things.get_mut(at) {
            segment.dtime = outside.seconds();
            segment.lpid = pid;
        }
    }

    /// How often it is attached.
    fn attached(outside: &mut impl Outside, segment: &Segment) -> u64 {
        outside
            .mapped(segment.object)
            .div_ceil(segment.pages.max(1))
    }

    /// `struct shmid64_ds`.
    pub fn stat(&self, outside: &mut impl Outside, at: u32) -> Result<Bytes, i64> {
        let segment = self.all.things.get(at).ok_or(EINVAL)?;
        let mut bytes = with_owner(112, &segment.owner);
        bytes.put64(48, segment.size);
        bytes.put64(56, segment.atime);
        bytes.put64(64, segment.dtime);
        bytes.put64(72, segment.ctime);
        bytes.put32(80, segment.cpid);
        bytes.put32(84, segment.lpid);
        bytes.put64(88, Segments::attached(outside, segment));
        Ok(bytes)
    }

    pub fn line(&self, outside: &mut impl Outside, at: u32, into: &mut dyn core::fmt::Write) {
        if let Some(s) = self.all.things.get(at) {
            let o = &s.owner;
            let attached = Segments::attached(outside, s);
            let _ = writeln!(
                into,
                "{:10} {:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {:21} {:21}",
                o.key as i32, o.id, o.mode, s.size, s.cpid, s.lpid, attached, o.uid, o.gid, o.cuid, o.cgid, s.atime, s.dtime, s.ctime, 0, 0
            );
        }
    }

    pub fn set(&mut self, outside: &mut impl Outside, at: u32, (uid, gid, mode): (u32, u32, u32)) {
        if let Some(segment) = self.all.things.get_mut(at) {
            let owner = &mut segment.owner;
            (owner.uid, owner.gid) = (uid, gid);
            owner.mode = owner.mode & !0o777 | mode & 0o777;
            segment.ctime = outside.seconds();
        }
    }

    /// Memory is never paged out: only the mode says it.
    pub fn lock(&mut self, at: u32, locked: bool) {
        if let Some(segment) = self.all.things.get_mut(at) {
            segment.owner.mode &= !SHM_LOCKED;
            segment.owner.mode |= if locked { SHM_LOCKED } else { 0 };
        }
    }

    /// IPC_RMID: now, or when nobody has it mapped any more → what is to be given back to whom.
    pub fn destroy(&mut self, outside: &mut impl Outside, at: u32) -> Option<Kept> {
        let segment = self.all.things.get_mut(at)?;
        segment.owner.mode |= SHM_DEST;
        self.all.forget_key(at);
        self.drop_unused(outside, at)
    }

    /// The key that the segment was made with whose object has this tag.
    pub fn key_of(&self, tag: u64) -> Option<u32> {
        let segment = self.all.things.get(crate::registry::index(tag as u32))?;
        (u64::from(segment.owner.id) == tag).then_some(segment.key)
    }

    /// `vm` says that nobody has the segment with this tag mapped.
    pub fn unused(&mut self, outside: &mut impl Outside, tag: u64) -> Option<Kept> {
        let at = crate::registry::index(tag as u32);
        let segment = self.all.things.get_mut(at)?;
        if u64::from(segment.owner.id) != tag {
            return None;
        }
        segment.dtime = outside.seconds();
        match segment.owner.mode & SHM_DEST {
            0 => None,
            _ => self.drop_unused(outside, at),
        }
    }

    fn drop_unused(&mut self, outside: &mut impl Outside, at: u32) -> Option<Kept> {
        let segment = self.all.things.get(at)?;
        if Segments::attached(outside, segment) != 0 {
            return None;
        }
        let segment = self.all.remove(at)?;
        self.pages -= segment.pages;
        outside.close(segment.object);
        if let Some(reader) = segment.reader {
            outside.close(reader);
        }
        Some(segment.kept)
    }
}
