//! Open files: a handle for each portal that the framework minted, found by the portal's badge.
//!
//! A badge is a slot's index and its generation (never 0), so that a message which was queued through a portal that has been closed since
//! finds nothing. Badges below 2^32 are no handles: 0 is the mount portal, the others are the server's own.

use crate::server::Server;
use alloc::vec::Vec;

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
        use cairn_idl::fs::o;
        self.flags & o::PATH == 0 && matches!(self.flags & o::ACCMODE, o::RDONLY | o::RDWR)
    }

    pub fn writable(&self) -> bool {
        use cairn_idl::fs::o;
        self.flags & o::PATH == 0 && matches!(self.flags & o::ACCMODE, o::WRONLY | o::RDWR)
    }

    pub fn nonblocking(&self) -> bool {
        self.flags & cairn_idl::fs::o::NONBLOCK != 0
    }
}

pub(crate) struct Entry<S: Server> {
    pub handle: Handle<S>,
    pub position: u64,
    /// Has locks: look for them when it closes.
    pub locks: bool,
}

struct Slot<S: Server> {
    generation: u32,
    entry: Option<Entry<S>>,
}

/// The table of open files.
pub struct Handles<S: Server> {
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
}

impl<S: Server> Default for Handles<S> {
    fn default() -> Self {
        Handles {
            slots: Vec::new(),
            free: Vec::new(),
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
                    generation: 0,
                    entry: None,
                });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1).max(1);
        let badge = (slot.generation as u64) << 32 | index as u64;
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
        });
        badge
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
        let entry = slot.entry.take()?;
        self.free.push(badge as u32);
        Some(entry)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
