//! Records addressed by small numbers: a slab that reuses what its records have allocated, and a direct table from nucleus ids to records.

use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_slab::Records;
use core::ops::{Index, IndexMut};

/// Number of a record.
pub type Slot = u32;
/// No record: number 0 of every slab is never used.
pub const NONE: Slot = 0;

/// Records that are made and freed often. A freed record keeps its memory for the next user, who must reset it, unless all near it are free as well.
#[derive(Debug, Default)]
pub struct Slab<T: Default>(Records<T>);

impl<T: Default> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab(Records::new())
    }

    /// See that the next [`Slab::take`] does not fail. False: there is no memory.
    pub fn reserve(&mut self) -> bool {
        if self.0.is_empty() && self.0.take() != Some(NONE) {
            return false;
        }
        self.0.reserve()
    }

    /// A record to use: fresh, or as its last user left it. None: there is no memory.
    pub fn take(&mut self) -> Option<Slot> {
        if !self.reserve() {
            return None;
        }
        self.0.take()
    }

    pub fn give(&mut self, slot: Slot) {
        self.0.give(slot);
    }

    /// Records in use.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Numbers are below this.
    pub fn end(&self) -> Slot {
        self.0.end()
    }

    /// The record with this number, if there is one, whether or not it is in use.
    pub fn get(&self, slot: Slot) -> Option<&T> {
        self.0.get(slot).filter(|_| slot != NONE)
    }

    /// Numbers of those in use.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.0.numbers().filter(|slot| *slot != NONE)
    }
}

impl<T: Default> Index<Slot> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.0[slot]
    }
}

impl<T: Default> IndexMut<Slot> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot]
    }
}

/// From the index part of a nucleus id to a record. The record itself tells whether the generation is right.
#[derive(Debug, Default)]
pub struct Direct(Vec<Option<Box<Row>>>);

/// Records of ids in a row.
type Row = [Slot; ROW];
const ROW: usize = 1024;

impl Direct {
    fn index(id: Id) -> usize {
        (id & 0xf_ffff) as usize
    }

    fn place(&mut self, id: Id) -> Option<&mut Slot> {
        let index = Self::index(id);
        let row = self.0.get_mut(index / ROW)?.as_mut()?;
        Some(&mut row[index % ROW])
    }

    pub fn get(&self, id: Id) -> Slot {
        let index = Self::index(id);
        match self.0.get(index / ROW) {
            Some(Some(row)) => row[index % ROW],
            _ => NONE,
        }
    }

    pub fn set(&mut self, id: Id, slot: Slot) {
        let row = Self::index(id) / ROW;
        if row >= self.0.len() {
            self.0.resize_with(row + 1, || None);
        }
        self.0[row].get_or_insert_with(|| Box::new([NONE; ROW]))[Self::index(id) % ROW] = slot;
    }

    /// Forget `id` if it still leads to `slot`.
    pub fn clear(&mut self, id: Id, slot: Slot) {
        if let Some(entry) = self.place(id) {
            if *entry == slot {
                *entry = NONE;
            }
        }
    }
}
