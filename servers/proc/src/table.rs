//! Records addressed by small numbers: a slab that reuses what its records have allocated, and a direct table from nucleus ids to records.

use alloc::vec::Vec;
use cairn_abi::Id;
use core::ops::{Index, IndexMut};

/// Number of a record.
pub type Slot = u32;
/// No record: number 0 of every slab is never used.
pub const NONE: Slot = 0;

/// Records that are made and freed often. A freed record keeps its memory for the next user, who must reset it.
#[derive(Debug)]
pub struct Slab<T> {
    items: Vec<T>,
    free: Vec<Slot>,
}

impl<T: Default> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A record to use: fresh, or as its last user left it.
    pub fn take(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            if self.items.is_empty() {
                self.items.push(T::default());
            }
            self.items.push(T::default());
            self.items.len() as Slot - 1
        })
    }

    pub fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Records in use.
    pub fn len(&self) -> usize {
        self.items.len().saturating_sub(1) - self.free.len()
    }

    /// One more than the highest number ever used.
    pub fn end(&self) -> Slot {
        self.items.len() as Slot
    }
}

impl<T> Index<Slot> for Slab<T> {
    type Output = T;
    fn index(&self, slot: Slot) -> &T {
        &self.items[slot as usize]
    }
}

impl<T> IndexMut<Slot> for Slab<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.items[slot as usize]
    }
}

/// From the index part of a nucleus id to a record. The record itself tells whether the generation is right.
#[derive(Debug, Default)]
pub struct Direct(Vec<Slot>);

impl Direct {
    fn index(id: Id) -> usize {
        (id & 0xf_ffff) as usize
    }

    pub fn get(&self, id: Id) -> Slot {
        self.0.get(Self::index(id)).copied().unwrap_or(NONE)
    }

    pub fn set(&mut self, id: Id, slot: Slot) {
        let index = Self::index(id);
        if index >= self.0.len() {
            self.0.resize(index + 1, NONE);
        }
        self.0[index] = slot;
    }

    /// Forget `id` if it still leads to `slot`.
    pub fn clear(&mut self, id: Id, slot: Slot) {
        if let Some(entry) = self.0.get_mut(Self::index(id)) {
            if *entry == slot {
                *entry = NONE;
            }
        }
    }
}
