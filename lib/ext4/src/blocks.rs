//! Blocks by number: a table with open addressing, because every look at metadata begins here and a tree of nodes costs four times as much.

use alloc::boxed::Box;
use alloc::vec::Vec;

type Place<T> = Option<(u64, Box<T>)>;

pub(crate) struct Blocks<T> {
    /// A power of two, less than half of them in use, so that a look ends soon.
    places: Vec<Place<T>>,
    len: usize,
}

const FEWEST: usize = 64;

impl<T> Blocks<T> {
    pub(crate) fn new() -> Blocks<T> {
        Blocks {
            places: (0..FEWEST).map(|_| None).collect(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where a block would be if nothing was in its way. Neighbours are spread.
    fn home(&self, block: u64) -> usize {
        let hash = block.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.places.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Its place, or the free one where it would go.
    fn place(&self, block: u64) -> usize {
        let mut place = self.home(block);
        while let Some((there, _)) = &self.places[place] {
            if *there == block {
                break;
            }
            place = self.next(place);
        }
        place
    }

    pub(crate) fn get(&self, block: u64) -> Option<&T> {
        self.places[self.place(block)]
            .as_ref()
            .map(|(_, value)| &**value)
    }

    pub(crate) fn get_mut(&mut self, block: u64) -> Option<&mut T> {
        let place = self.place(block);
        self.places[place].as_mut().map(|(_, value)| &mut **value)
    }

    pub(crate) fn holds(&self, block: u64) -> bool {
        self.get(block).is_some()
    }

    pub(crate) fn insert(&mut self, block: u64, value: T) {
        if 2 * (self.len + 1) > self.places.len() {
            let larger = (0..2 * self.places.len()).map(|_| None).collect();
            for (block, value) in core::mem::replace(&mut self.places, larger)
                .into_iter()
                .flatten()
            {
                let place = self.place(block);
                self.places[place] = Some((block, value));
            }
        }
        let place = self.place(block);
        if self.places[place]
            .replace((block, Box::new(value)))
            .is_none()
        {
            self.len += 1;
        }
    }

    /// What follows moves up, so that a free place always ends a look.
    pub(crate) fn remove(&mut self, block: u64) {
        let mut hole = self.place(block);
        if self.places[hole].take().is_none() {
            return;
        }
        self.len -= 1;
        let mut place = self.next(hole);
        while let Some((there, _)) = &self.places[place] {
            let home = self.home(*there);
            let from_home = place.wrapping_sub(home) & (self.places.len() - 1);
            let from_hole = place.wrapping_sub(hole) & (self.places.len() - 1);
            if from_home >= from_hole {
                self.places.swap(hole, place);
                hole = place;
            }
            place = self.next(place);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Blocks::new();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.places
            .iter()
            .flatten()
            .map(|(block, value)| (*block, &**value))
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;
    use std::collections::BTreeMap;

    #[test]
    fn like_a_map() {
        let (mut blocks, mut map) = (Blocks::new(), BTreeMap::new());
        let mut number = 1u64;
        for turn in 0..200_000u64 {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let block = (number >> 33) % 700;
            if number >> 62 == 0 {
                blocks.remove(block);
                map.remove(&block);
            } else if number >> 62 == 1 {
                blocks.insert(block, turn);
                map.insert(block, turn);
            }
            assert_eq!(blocks.get(block), map.get(&block));
            assert_eq!(blocks.len(), map.len());
        }
        let mut all: Vec<(u64, u64)> = blocks.iter().map(|(block, turn)| (block, *turn)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(map));
    }
}
