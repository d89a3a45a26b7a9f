//! Records with handles: a handle names its record only as long as that record lives, its index may be used again. Memory in which no record lives goes back ([`cairn_slab`]).

use cairn_slab::Records;

/// Index in bits 0..24, above them how many records were made before this one.
pub type Handle = u64;

const INDEX_BITS: u32 = 24;

struct Entry<T> {
    before: u64,
    value: Option<T>,
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Entry {
            before: 0,
            value: None,
        }
    }
}

pub struct Slab<T> {
    entries: Records<Entry<T>>,
    /// Records that were made.
    made: u64,
}

/// The index in a handle.
pub const fn index(handle: Handle) -> usize {
    (handle & ((1 << INDEX_BITS) - 1)) as usize
}

impl<T> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab {
            entries: Records::new(),
            made: 0,
        }
    }

    /// See that the next [`Slab::insert`] does not fail. False: there is no memory, or there are too many.
    pub fn room(&mut self) -> bool {
        self.next_handle().is_some()
    }

    /// The handle that the next [`Slab::insert`] will give. None as [`Slab::room`].
    pub fn next_handle(&mut self) -> Option<Handle> {
        let at = self.entries.next_number()?;
        (at < 1 << INDEX_BITS).then_some(u64::from(at) | self.made << INDEX_BITS)
    }

    /// → its index. None as [`Slab::room`].
    pub fn insert(&mut self, value: T) -> Option<usize> {
        if !self.room() {
            return None;
        }
        let at = self.entries.take()?;
        *self.entries.get_mut(at)? = Entry {
            before: self.made,
            value: Some(value),
        };
        self.made += 1;
        Some(at as usize)
    }

    pub fn remove(&mut self, i: usize) -> Option<T> {
        let at = u32::try_from(i).ok()?;
        let value = self.entries.get_mut(at)?.value.take()?;
        self.entries.give(at);
        Some(value)
    }

    /// The index of a handle's record, if that still lives.
    #[inline]
    pub fn resolve(&self, handle: Handle) -> Option<usize> {
        let entry = self.entries.get(index(handle) as u32)?;
        (entry.before == handle >> INDEX_BITS && entry.value.is_some()).then(|| index(handle))
    }

    /// All indices are below this.
    pub fn end(&self) -> usize {
        self.entries.end() as usize
    }

    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        self.entries.get(u32::try_from(i).ok()?)?.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        self.entries.get_mut(u32::try_from(i).ok()?)?.value.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let numbers = self.entries.numbers();
        numbers.filter_map(|at| Some((at as usize, self.get(at as usize)?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        let all = self.entries.iter_mut();
        all.filter_map(|(at, e)| Some((at as usize, e.value.as_mut()?)))
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
    use std::vec::Vec;

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
        // Also when the memory between has gone and come again.
        let make = |s: &mut Slab<char>| {
            let handle = s.next_handle().unwrap();
            (handle, s.insert('c').unwrap())
        };
        let many: Vec<_> = (0..1000).map(|_| make(&mut s)).collect();
        assert!(many.iter().all(|&(h, i)| s.resolve(h) == Some(i)));
        for &(_, i) in &many {
            assert_eq!(s.remove(i), Some('c'));
        }
        assert!(many.iter().all(|&(h, _)| s.resolve(h).is_none()));
        let again: Vec<_> = (0..1000).map(|_| make(&mut s)).collect();
        for (old, (new, _)) in many.iter().zip(&again) {
            assert!(old.0 != *new && s.resolve(old.0).is_none());
        }
        assert_eq!(s.iter().count(), 1001);
        assert_eq!(s.iter_mut().count(), 1001);
    }
}
