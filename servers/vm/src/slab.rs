//! Records with handles: a handle names its record only as long as that record lives, its index may be used again. They lie in [`Pieces`], and those that are free in a chain.

use crate::pieces::Pieces;

/// Index in bits 0..24, generation above.
pub type Handle = u64;

const INDEX_BITS: u32 = 24;
const NOTHING: u32 = u32::MAX;

struct Entry<T> {
    generation: u64,
    value: Option<T>,
    /// The next one that is free.
    next: u32,
}

pub struct Slab<T> {
    entries: Pieces<Entry<T>>,
    /// The first one that is free.
    free: u32,
}

/// The index in a handle.
pub const fn index(handle: Handle) -> usize {
    (handle & ((1 << INDEX_BITS) - 1)) as usize
}

impl<T> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab {
            entries: Pieces::new(),
            free: NOTHING,
        }
    }

    /// See that the next [`Slab::insert`] does not fail. False: there is no memory, or there are too many.
    pub fn room(&mut self) -> bool {
        self.free != NOTHING || self.entries.len() < 1 << INDEX_BITS && self.entries.room()
    }

    /// The handle that the next [`Slab::insert`] will give. None as [`Slab::room`].
    pub fn next_handle(&mut self) -> Option<Handle> {
        if !self.room() {
            return None;
        }
        match self.entries.get(self.free as usize) {
            Some(entry) => Some(u64::from(self.free) | entry.generation << INDEX_BITS),
            None => Some(self.entries.len() as u64),
        }
    }

    /// → its index. None as [`Slab::room`].
    pub fn insert(&mut self, value: T) -> Option<usize> {
        if !self.room() {
            return None;
        }
        let at = self.free as usize;
        match self.entries.get_mut(at) {
            Some(entry) => {
                self.free = entry.next;
                entry.value = Some(value);
                Some(at)
            }
            None => self.entries.push(Entry {
                generation: 0,
                value: Some(value),
                next: NOTHING,
            }),
        }
    }

    pub fn remove(&mut self, i: usize) -> Option<T> {
        let entry = self.entries.get_mut(i)?;
        let value = entry.value.take()?;
        entry.generation += 1;
        entry.next = core::mem::replace(&mut self.free, i as u32);
        Some(value)
    }

    /// The index of a handle's record, if that still lives.
    #[inline]
    pub fn resolve(&self, handle: Handle) -> Option<usize> {
        let entry = self.entries.get(index(handle))?;
        (entry.generation == handle >> INDEX_BITS && entry.value.is_some()).then(|| index(handle))
    }

    /// All indices are below this.
    pub fn end(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        self.entries.get(i)?.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        self.entries.get_mut(i)?.value.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(i, e)| Some((i, e.value.as_ref()?)))
    }
}

impl<T> Slab<T> {
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.entries
            .iter_mut()
            .enumerate()
            .filter_map(|(i, e)| Some((i, e.value.as_mut()?)))
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_handles_name_nothing() {
        let mut s = Slab::new();
        let first = s.next_handle().unwrap();
        let i = s.insert('a').unwrap();
        assert_eq!(s.resolve(first), Some(i));
        assert_eq!(s.remove(i), Some('a'));
        assert_eq!(s.resolve(first), None);
        let second = s.next_handle().unwrap();
        assert_ne!(first, second);
        assert_eq!(s.insert('b'), Some(i));
        assert_eq!(s.resolve(first), None);
        assert_eq!(s.resolve(second), Some(i));
        assert_eq!(s.remove(7), None);
    }
}
