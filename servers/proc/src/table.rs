//! Records addressed by small numbers: a slab that reuses what its records have allocated, and a direct table from nucleus ids to records.

use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_abi::Id;
use core::ops::{Index, IndexMut};

/// Number of a record.
pub type Slot = u32;
/// No record: number 0 of every slab is never used.
pub const NONE: Slot = 0;

/// A list that grows in pieces: it never moves, so one more costs a piece at most, whatever is there already.
#[derive(Debug)]
struct Pieces<T>(Vec<Vec<T>>);

/// Items of a piece.
const EACH: usize = 32;

impl<T> Pieces<T> {
    fn len(&self) -> usize {
        let last = self.0.last();
        last.map_or(0, |last| (self.0.len() - 1) * EACH + last.len())
    }

    fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < EACH => last.push(item),
            _ => {
                let mut piece = Vec::with_capacity(EACH);
                piece.push(item);
                self.0.push(piece);
            }
        }
    }
}

/// Records that are made and freed often. A freed record keeps its memory for the next user, who must reset it.
#[derive(Debug)]
pub struct Slab<T> {
    items: Pieces<T>,
    free: Vec<Slot>,
}

impl<T: Default> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab {
            items: Pieces(Vec::new()),
            free: Vec::new(),
        }
    }

    /// A record to use: fresh, or as its last user left it.
    pub fn take(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            if self.items.len() == 0 {
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
        let slot = slot as usize;
        &self.items.0[slot / EACH][slot % EACH]
    }
}

impl<T> IndexMut<Slot> for Slab<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        let slot = slot as usize;
        &mut self.items.0[slot / EACH][slot % EACH]
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
