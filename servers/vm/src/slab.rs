//! Records with handles: a handle names its record only as long as that record lives, its index may be used again.

use alloc::vec::Vec;

/// Index in bits 0..24, generation above.
pub type Handle = u64;

const INDEX_BITS: u32 = 24;

struct Entry<T> {
    generation: u64,
    value: Option<T>,
}

pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<usize>,
}

/// The index in a handle.
pub const fn index(handle: Handle) -> usize {
    (handle & ((1 << INDEX_BITS) - 1)) as usize
}

impl<T> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The handle that the next [`Slab::insert`] will give. None if there are too many.
    pub fn next_handle(&self) -> Option<Handle> {
        match self.free.last() {
            Some(&i) => Some(i as u64 | self.entries[i].generation << INDEX_BITS),
            None if self.entries.len() < 1 << INDEX_BITS => Some(self.entries.len() as u64),
            None => None,
        }
    }

    pub fn insert(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(i) => {
                self.entries[i].value = Some(value);
                i
            }
            None => {
                self.entries.push(Entry {
                    generation: 0,
                    value: Some(value),
                });
                self.entries.len() - 1
            }
        }
    }

    pub fn remove(&mut self, i: usize) -> Option<T> {
        let entry = self.entries.get_mut(i)?;
        let value = entry.value.take()?;
        entry.generation += 1;
        self.free.push(i);
        Some(value)
    }

    /// The index of a handle's record, if that still lives.
    #[inline]
    pub fn resolve(&self, handle: Handle) -> Option<usize> {
        let entry = self.entries.get(index(handle))?;
        (entry.generation == handle >> INDEX_BITS && entry.value.is_some()).then(|| index(handle))
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
        let i = s.insert('a');
        assert_eq!(s.resolve(first), Some(i));
        assert_eq!(s.remove(i), Some('a'));
        assert_eq!(s.resolve(first), None);
        let second = s.next_handle().unwrap();
        assert_ne!(first, second);
        assert_eq!(s.insert('b'), i);
        assert_eq!(s.resolve(first), None);
        assert_eq!(s.resolve(second), Some(i));
        assert_eq!(s.remove(7), None);
    }
}
