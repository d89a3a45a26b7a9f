//! A table that grows in pieces: what it has stays where it is, and no step takes more than [`PIECE`] bytes, or fails without any change.
//!
//! `vm`'s heap has frames for small steps at every request ([`crate::stat::EVERY_REQUEST`]); a list that doubles would one day want more than that at once.

use alloc::vec::Vec;
use core::mem::size_of;

/// About the bytes of a piece. Pointers to pieces take as much when there are 2,048 of them.
const PIECE: usize = 16 * 1024;

pub struct Pieces<T> {
    /// Each has room for [`Pieces::EACH`]; all but the last are full.
    pieces: Vec<Vec<T>>,
}

impl<T> Pieces<T> {
    const SHIFT: u32 = match PIECE / size_of::<T>() {
        0 => 0,
        count => count.ilog2(),
    };
    const EACH: usize = 1 << Self::SHIFT;

    pub const fn new() -> Pieces<T> {
        Pieces { pieces: Vec::new() }
    }

    pub fn len(&self) -> usize {
        match self.pieces.last() {
            Some(last) => (self.pieces.len() - 1) * Self::EACH + last.len(),
            None => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// See that there is room for one more. False: there is no memory, and nothing has changed.
    pub fn room(&mut self) -> bool {
        if self
            .pieces
            .last()
            .is_some_and(|last| last.len() < Self::EACH)
        {
            return true;
        }
        let mut piece = Vec::new();
        if self.pieces.try_reserve(1).is_err() || piece.try_reserve_exact(Self::EACH).is_err() {
            return false;
        }
        self.pieces.push(piece);
        true
    }

    /// Add one → its index. None as [`Pieces::room`].
    pub fn push(&mut self, value: T) -> Option<usize> {
        if !self.room() {
            return None;
        }
        let at = self.len();
        self.pieces.last_mut()?.push(value);
        Some(at)
    }

    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.pieces
            .get(at >> Self::SHIFT)?
            .get(at & (Self::EACH - 1))
    }

    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.pieces
            .get_mut(at >> Self::SHIFT)?
            .get_mut(at & (Self::EACH - 1))
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten()
    }
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_where_it_is() {
        let mut table = Pieces::new();
        let places: Vec<*const [u64; 9]> = (0..10_000)
            .map(|i| {
                assert_eq!(table.len(), i);
                let at = table.push([i as u64; 9]).unwrap();
                core::ptr::from_ref(table.get(at).unwrap())
            })
            .collect();
        assert!(table.get(10_000).is_none() && table.get(1 << 40).is_none());
        for (i, (place, value)) in places.iter().zip(table.iter()).enumerate() {
            assert_eq!((*place, value[0]), (core::ptr::from_ref(value), i as u64));
        }
    }
}
