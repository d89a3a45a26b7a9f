//! Open files: a handle for each portal that the framework minted, found by the portal's badge.
//!
//! A badge is a slot's index and its generation (never 0), so that a message which was queued through a portal that has been closed since
//! finds nothing. Badges below 2^32 are no handles: 0 is the mount portal, the others are the server's own.

use crate::context::Failure;
use crate::keep::{Keepsake, Kept, Open};
use crate::server::Server;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use cairn_idl::errno::{EBADF, EIO};
use cairn_idl::fs::o;

/// Among a handle's flags: data that was written to the file is lost, and nobody has heard of it through this handle.
pub(crate) const LOST: u64 = 1 << 62;

/// One open file, as the server sees it. Its position is the framework's.
pub struct Handle<S: Server> {
    pub badge: u64,
    pub node: S::Node,
    /// O_ flags, without those that only matter while opening.
    pub flags: u64,
    /// [`cairn_idl::fs::kind`] bits.
    pub kind: u64,
    pub state: S::State,
}

impl<S: Server> Handle<S> {
    pub fn readable(&self) -> bool {
        self.flags & (o::PATH | LOST) == 0 && matches!(self.flags & o::ACCMODE, o::RDONLY | o::RDWR)
    }

    pub fn writable(&self) -> bool {
        self.flags & (o::PATH | LOST) == 0 && matches!(self.flags & o::ACCMODE, o::WRONLY | o::RDWR)
    }

    /// Files and disks count as always ready: who reads them waits for the disk all the same.
    pub fn nonblocking(&self) -> bool {
        use cairn_idl::fs::kind;
        self.flags & o::NONBLOCK != 0 && self.kind & kind::ALWAYS_READY == 0
    }
}

pub(crate) struct Entry<S: Server> {
    pub handle: Handle<S>,
    pub position: u64,
    /// Has locks: look for them when it closes.
    pub locks: bool,
    /// Its holder asked for the page of the file's frames.
    pub frames: bool,
    /// What a successor will find of it.
    pub kept: Option<Kept>,
    /// A write through it has taken some bytes and waits: whose it is. What else is done through the handle does not change where that began.
    pub middle: u64,
}

impl<S: Server> Entry<S> {
    #[inline]
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
        if let Some(kept) = self.kept {
            kept.set_position(position);
        }
    }

    pub fn set_flags(&mut self, flags: u64) {
        self.handle.flags = flags;
        if let Some(kept) = self.kept {
            kept.set_flags(flags);
        }
    }

    /// A request begins at `offset`; where it began at first if it was made before, and the server died with it.
    #[inline]
    pub fn begin(&mut self, token: u64, repeated: bool, offset: u64) -> u64 {
        let Some(kept) = self.kept else { return offset };
        let offset = match repeated {
            false => offset,
            true => kept.begun(token).unwrap_or(offset),
        };
        if self.middle == 0 {
            kept.begin(token, offset);
        }
        offset
    }

    /// Data of the file was lost: told once.
    pub fn take_lost(&mut self) -> bool {
        let lost = self.handle.flags & LOST != 0;
        if lost {
            self.set_flags(self.handle.flags & !LOST);
        }
        lost
    }
}

struct Slot<S: Server> {
    generation: u32,
    entry: Option<Entry<S>>,
}

/// The table of open files.
pub struct Handles<S: Server> {
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
    keep: Keepsake,
    /// New slots begin with this generation.
    first: u32,
    /// Generations from here on must be set aside before they are used.
    beyond: u32,
    /// Handles of a predecessor whose nodes were not found again; their slots are nobody else's until their portals are closed.
    gone: BTreeMap<u64, Kept>,
    /// There was a predecessor: badges that are not known may be its own.
    follows: bool,
}

/// What became of the open files of a predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// They go on; of these, those whose files lost data.
    pub open: usize,
    pub lost: usize,
    /// Their files are not there any more.
    pub gone: usize,
}

impl<S: Server> Default for Handles<S> {
    fn default() -> Self {
        Handles {
            slots: Vec::new(),
            free: Vec::new(),
            keep: Keepsake::default(),
            first: 0,
            beyond: u32::MAX,
            gone: BTreeMap::new(),
            follows: false,
        }
    }
}

impl<S: Server> Handles<S> {
    /// Make a handle; its badge is for minting the portal.
    pub fn insert(&mut self, node: S::Node, flags: u64, kind: u64, state: S::State) -> u64 {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    generation: self.first,
                    entry: None,
                });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1).max(1);
        let generation = slot.generation;
        let badge = (generation as u64) << 32 | index as u64;
        slot.entry = Some(Entry {
            handle: Handle {
                badge,
                node,
                flags,
                kind,
                state,
            },
            position: 0,
            locks: false,
            frames: false,
            kept: None,
            middle: 0,
        });
        if generation >= self.beyond {
            self.beyond = self.keep.use_generation(generation);
        }
        badge
    }

    /// The handle goes on if the server dies: its node is the one with this identity.
    pub(crate) fn keep(&mut self, badge: u64, identity: u64) {
        let Some(slot) = self.slots.get_mut(badge as u32 as usize) else {
            return;
        };
        if let Some(entry) = &mut slot.entry {
            entry.kept = self.keep.add(&Open {
                badge,
                identity,
                flags: entry.handle.flags,
                kind: entry.handle.kind,
                position: entry.position,
            });
        }
    }

    /// What was kept, to be filled and changed.
    pub(crate) fn keepsake(&mut self) -> &mut Keepsake {
        &mut self.keep
    }

    /// Begin with the handles that a predecessor left. `node` finds the node behind an identity, if it is still there; and whether data of it was lost.
    pub(crate) fn recover(
        &mut self,
        keep: Keepsake,
        mut node: impl FnMut(u64) -> Option<(S::Node, bool)>,
    ) -> Recovered {
        let mut told = Recovered::default();
        self.keep = keep;
        self.first = self.keep.generation();
        self.beyond = self.first;
        self.follows = self.first != 0;
        for (open, kept) in self.keep.opens() {
            let index = open.badge as u32;
            while self.slots.len() <= index as usize {
                self.slots.push(Slot {
                    generation: self.first,
                    entry: None,
                });
            }
            let slot = &mut self.slots[index as usize];
            slot.generation = (open.badge >> 32) as u32;
            let Some((node, lost)) = node(open.identity) else {
                // The portal is still somebody's: nobody else gets the slot.
                told.gone += 1;
                self.gone.insert(open.badge, kept);
                continue;
            };
            told.open += 1;
            let mut entry = Entry {
                handle: Handle {
                    badge: open.badge,
                    node,
                    flags: open.flags,
                    kind: open.kind,
                    state: S::State::default(),
                },
                position: open.position,
                locks: true,
                frames: false,
                kept: Some(kept),
                middle: 0,
            };
            if lost && open.flags & o::PATH == 0 {
                told.lost += 1;
                entry.set_flags(open.flags | LOST);
            }
            slot.entry = Some(entry);
        }
        let gone: BTreeSet<u32> = self.gone.keys().map(|badge| *badge as u32).collect();
        let is_free = |at: &u32| self.slots[*at as usize].entry.is_none() && !gone.contains(at);
        self.free = (0..self.slots.len() as u32).rev().filter(is_free).collect();
        told
    }

    pub(crate) fn entry(&mut self, badge: u64) -> Option<&mut Entry<S>> {
        let slot = self.slots.get_mut(badge as u32 as usize)?;
        if slot.generation as u64 != badge >> 32 {
            return None;
        }
        slot.entry.as_mut()
    }

    /// The handle with this badge.
    pub fn get(&mut self, badge: u64) -> Option<&mut Handle<S>> {
        self.entry(badge).map(|entry| &mut entry.handle)
    }

    pub(crate) fn remove(&mut self, badge: u64) -> Option<Entry<S>> {
        let slot = self.slots.get_mut(badge as u32 as usize)?;
        if slot.generation as u64 != badge >> 32 {
            return None;
        }
        let entry = slot.entry.take();
        let kept = match &entry {
            Some(entry) => entry.kept,
            None => Some(self.gone.remove(&badge)?),
        };
        if let Some(kept) = kept {
            self.keep.remove(kept);
            slot.generation = slot.generation.max(self.first);
        }
        self.free.push(badge as u32);
        entry
    }

    /// Why there is no such handle: it never was or was closed; or it is one of a predecessor's that could not go on.
    #[inline(always)]
    pub(crate) fn missing(&self, badge: u64) -> Failure {
        Failure::Errno(match self.follows && badge >> 32 != 0 {
            true => EIO,
            false => EBADF,
        })
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
