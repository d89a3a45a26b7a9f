//! Things by key and by identifier, and who may do what with them.
//!
//! An identifier is the thing's place in the table and a sequence number, which is another one each time a place is used: so an identifier that was kept leads to nothing when its thing is gone.

use crate::limits::PLACES;
use alloc::collections::BTreeMap;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_slab::Slab;

pub const IPC_CREAT: u32 = 0o1000;
pub const IPC_EXCL: u32 = 0o2000;
pub const IPC_NOWAIT: u32 = 0o4000;
pub const READ: u32 = 4;
pub const WRITE: u32 = 2;
pub const EXECUTE: u32 = 1;

/// `struct ipc_perm`, and the name space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner {
    pub space: u32,
    pub key: u32,
    pub uid: u32,
    pub gid: u32,
    pub cuid: u32,
    pub cgid: u32,
    pub mode: u32,
    pub id: u32,
}

impl Owner {
    pub fn new(space: u32, key: u32, label: u64, flags: u32) -> Owner {
        let (uid, gid) = (label::uid(label), label::gid(label));
        Owner {
            space,
            key,
            uid,
            gid,
            cuid: uid,
            cgid: gid,
            mode: flags & 0o777,
            id: 0,
        }
    }

    /// Whether a process of this label may do all of what these mode bits say, each of which may stand in any of the three places. `in_group` is asked only when the answer depends on supplementary groups.
    pub fn allows(&self, label: u64, wanted: u32, mut in_group: impl FnMut(u32) -> bool) -> bool {
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        if label::has(label, label::ACCESS) {
            return true;
        }
        let uid = label::uid(label);
        let mut member = |group: u32| label::gid(label) == group || in_group(group);
        let (own, group, others) = (self.mode >> 6, self.mode >> 3 & 7, self.mode & 7);
        let granted = if uid == self.cuid || uid == self.uid {
            own
        } else if wanted & group == wanted & others {
            // Whether it is a member makes no difference.
            others
        } else if member(self.cgid) || member(self.gid) {
            group
        } else {
            others
        };
        wanted & !granted == 0
    }

    /// IPC_SET and IPC_RMID are the owner's and the creator's.
    pub fn is_owned(&self, label: u64) -> bool {
        let uid = label::uid(label);
        uid == self.uid || uid == self.cuid || label::has(label, label::SYSTEM)
    }
}

pub trait Owned {
    fn owner(&self) -> &Owner;
    fn owner_mut(&mut self) -> &mut Owner;
}

pub struct Registry<T> {
    pub things: Slab<T>,
    keys: BTreeMap<(u32, u32), u32>,
    sequence: u32,
    /// The identifier that the next thing of a name space is to have.
    pub wished: BTreeMap<u32, u32>,
    /// How many each name space has.
    counts: BTreeMap<u32, u64>,
}

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry {
            things: Slab::default(),
            keys: BTreeMap::new(),
            sequence: 0,
            wished: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }
}

const INDEX: u32 = PLACES as u32 - 1;

/// The place that an identifier names.
pub fn index(id: u32) -> u32 {
    id & INDEX
}

impl<T: Owned> Registry<T> {
    pub fn count(&self, space: u32) -> u64 {
        self.counts.get(&space).copied().unwrap_or(0)
    }

    /// The thing that has a key.
    pub fn with_key(&self, space: u32, key: u32) -> Option<u32> {
        match key {
            0 => None,
            key => self.keys.get(&(space, key)).copied(),
        }
    }

    /// Whether there is the thing for a key already: its place. None: it is to be made.
    pub fn look(&self, space: u32, key: u32, flags: u32) -> Result<Option<u32>, i64> {
        match self.with_key(space, key) {
            Some(_) if flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL => Err(EEXIST),
            Some(at) => Ok(Some(at)),
            None if key != 0 && flags & IPC_CREAT == 0 => Err(ENOENT),
            None => Ok(None),
        }
    }

    /// A new thing, of which there must be no more than so many → its identifier: the wished one, if its place is the next that is given, and otherwise one
    /// with its sequence number.
    pub fn add(&mut self, thing: T, most: u64) -> Result<u32, i64> {
        let Owner { space, key, .. } = *thing.owner();
        let count = self.count(space);
        if count >= most || self.things.len() as u64 >= PLACES {
            return Err(ENOSPC);
        }
        let at = self.things.insert(thing).ok_or(ENOMEM)?;
        if u64::from(at) >= PLACES {
            self.things.remove(at);
            return Err(ENOSPC);
        }
        let id = match self.wished.remove(&space) {
            Some(wished) => wished & !INDEX | at,
            None => {
                let sequence = self.sequence;
                self.sequence = (sequence + 1) & 0xffff;
                sequence << 15 | at
            }
        };
        if key != 0 {
            self.keys.insert((space, key), at);
        }
        self.counts.insert(space, count + 1);
        if let Some(thing) = self.things.get_mut(at) {
            thing.owner_mut().id = id;
        }
        Ok(id)
    }

    /// The place of an identifier.
    #[inline]
    pub fn find(&self, space: u32, id: u32) -> Result<u32, i64> {
        let at = index(id);
        match self.things.get(at).map(|thing| thing.owner()) {
            Some(owner) if owner.id == id && owner.space == space => Ok(at),
            _ => Err(EINVAL),
        }
    }

    /// The thing in this place of the table, for the commands that look through all of it.
    pub fn at(&self, space: u32, place: u32) -> Result<u32, i64> {
        match self.things.get(place) {
            Some(thing) if thing.owner().space == space => Ok(place),
            _ => Err(EINVAL),
        }
    }

    /// It has no key any more.
    pub fn forget_key(&mut self, at: u32) {
        if let Some(thing) = self.things.get_mut(at) {
            let owner = thing.owner_mut();
            let place = (owner.space, core::mem::take(&mut owner.key));
            if self.keys.get(&place) == Some(&at) {
                self.keys.remove(&place);
            }
        }
    }

    pub fn remove(&mut self, at: u32) -> Option<T> {
        self.forget_key(at);
        let thing = self.things.remove(at)?;
        let space = thing.owner().space;
        match self.counts.get_mut(&space) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.counts.remove(&space)),
        }
        Some(thing)
    }

    /// The highest place that the name space uses; 0 if there is none.
    pub fn highest(&self, space: u32) -> u64 {
        let mine = |at: &u32| {
            let thing = self.things.get(*at);
            thing.is_some_and(|thing| thing.owner().space == space)
        };
        (0..self.things.end()).rev().find(mine).unwrap_or(0).into()
    }
}
