//! Things by number; a number is used again when its thing is gone. The table grows and shrinks in chunks of [`CHUNK`] places: a chunk whose things are all gone goes (one may stay), so what many
//! things took is free after them, whichever of them are left. Nothing is walked but by [`Table::iter`].

use alloc::boxed::Box;
use alloc::vec::Vec;

const CHUNK: usize = 64;
const NONE: u32 = u32::MAX;

/// The places of a chunk.
type Places<T> = Box<[Option<T>; CHUNK]>;

/// What there is of a chunk.
struct Chunk {
    /// A bit for each place that has something.
    used: u64,
    /// Neighbours in the list of chunks with memory and room, or the next one without memory.
    next: u32,
    previous: u32,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.used == u64::MAX
    }
}

pub struct Table<T> {
    /// None: the chunk has no memory.
    places: Vec<Option<Places<T>>>,
    chunks: Vec<Chunk>,
    /// First of those with memory and room, and of those without memory.
    room: u32,
    bare: u32,
    count: usize,
    /// Places in chunks with memory.
    places_there: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            places: Vec::new(),
            chunks: Vec::new(),
            room: NONE,
            bare: NONE,
            count: 0,
            places_there: 0,
        }
    }
}

fn split(at: u32) -> (usize, usize) {
    (at as usize / CHUNK, at as usize % CHUNK)
}

impl<T> Table<T> {
    #[inline(always)]
    pub fn get(&self, at: u32) -> Option<&T> {
        let (chunk, place) = split(at);
        self.places.get(chunk)?.as_ref()?[place].as_ref()
    }

    #[inline(always)]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let (chunk, place) = split(at);
        self.places.get_mut(chunk)?.as_mut()?[place].as_mut()
    }

    /// See that there is room for so many more. False: there is no memory.
    #[inline]
    pub fn reserve(&mut self, count: usize) -> bool {
        while self.places_there - self.count < count {
            if !self.grow() {
                return false;
            }
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let mut places = Vec::new();
        if places.try_reserve_exact(CHUNK).is_err() {
            return false;
        }
        if self.bare == NONE {
            if self.chunks.try_reserve(1).is_err() || self.places.try_reserve(1).is_err() {
                return false;
            }
            self.bare = self.chunks.len() as u32;
            self.places.push(None);
            self.chunks.push(Chunk {
                used: 0,
                next: NONE,
                previous: NONE,
            });
        }
        places.resize_with(CHUNK, || None);
        let number = self.bare;
        self.places[number as usize] = places.into_boxed_slice().try_into().ok();
        self.bare = self.chunks[number as usize].next;
        self.places_there += CHUNK;
        self.list(number);
        true
    }

    /// A chunk has memory and room.
    fn list(&mut self, number: u32) {
        let next = self.room;
        if let Some(next) = self.chunks.get_mut(next as usize) {
            next.previous = number;
        }
        let chunk = &mut self.chunks[number as usize];
        (chunk.next, chunk.previous) = (next, NONE);
        self.room = number;
    }

    fn unlist(&mut self, number: u32) {
        let Chunk { next, previous, .. } = self.chunks[number as usize];
        match self.chunks.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.room = next,
        }
        if let Some(next) = self.chunks.get_mut(next as usize) {
            next.previous = previous;
        }
    }

    /// The number of something new. None: there is no memory.
    #[inline]
    pub fn insert(&mut self, thing: T) -> Option<u32> {
        if !self.reserve(1) {
            return None;
        }
        let number = self.room;
        let chunk = &mut self.chunks[number as usize];
        let place = chunk.used.trailing_ones();
        if let Some(places) = &mut self.places[number as usize] {
            places[place as usize] = Some(thing);
        }
        chunk.used |= 1 << place;
        if chunk.is_full() {
            self.unlist(number);
        }
        self.count += 1;
        Some(number * CHUNK as u32 + place)
    }

    /// Something gets this number. False: there is no memory, or something has it. (At start-up: chunks below it come along.)
    pub fn insert_at(&mut self, at: u32, thing: T) -> bool {
        let (chunk, place) = split(at);
        while self.places.get(chunk).is_none_or(Option::is_none) {
            if !self.grow() {
                return false;
            }
        }
        match &mut self.places[chunk] {
            Some(places) if places[place].is_none() => places[place] = Some(thing),
            _ => return false,
        }
        let its = &mut self.chunks[chunk];
        its.used |= 1 << place;
        if its.is_full() {
            self.unlist(chunk as u32);
        }
        self.count += 1;
        true
    }

    #[inline]
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let (chunk, place) = split(at);
        let number = chunk as u32;
        let thing = self.places.get_mut(chunk)?.as_mut()?[place].take()?;
        let chunk = &mut self.chunks[chunk];
        let was_full = chunk.is_full();
        chunk.used &= !(1 << place);
        let is_empty = chunk.used == 0;
        self.count -= 1;
        if was_full {
            self.list(number);
        }
        if is_empty {
            self.let_go(number);
        }
        Some(thing)
    }

    /// An empty chunk's memory goes, unless it is the only one with room.
    #[cold]
    #[inline(never)]
    fn let_go(&mut self, number: u32) {
        let Chunk { next, previous, .. } = self.chunks[number as usize];
        if next == NONE && previous == NONE {
            return;
        }
        self.unlist(number);
        let bare = self.bare;
        self.places[number as usize] = None;
        self.places_there -= CHUNK;
        self.chunks[number as usize].next = bare;
        self.bare = number;
    }

    /// The first thing whose number is not below this one: its number.
    pub fn next_from(&self, at: u32) -> Option<u32> {
        let (first, place) = split(at);
        let mut from = u64::MAX << place;
        for (number, chunk) in self.chunks.iter().enumerate().skip(first) {
            let used = chunk.used & from;
            if used != 0 {
                return Some((number * CHUNK) as u32 + used.trailing_zeros());
            }
            from = u64::MAX;
        }
        None
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let chunks = self.places.iter().flatten();
        chunks.flat_map(|places| places.iter().flatten())
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    impl<T> Table<T> {
        fn chunks_with_memory(&self) -> usize {
            self.places.iter().flatten().count()
        }
    }

    #[test]
    fn agrees_with_a_map_and_keeps_no_memory_for_what_is_gone() {
        let mut random = 99u64;
        let mut next = |most: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % most
        };
        let mut table = Table::default();
        let mut model: BTreeMap<u32, usize> = BTreeMap::new();
        for step in 0..200_000 {
            let wanted = [2000, 3, 700][step / 5000 % 3];
            if next(wanted * 2) >= model.len() {
                let at = table.insert(step).unwrap();
                assert_eq!(model.insert(at, step), None);
            } else {
                let place = next(model.len());
                let at = *model.keys().nth(place).unwrap();
                assert_eq!(table.remove(at), model.remove(&at));
                assert_eq!(table.get(at), None);
                assert_eq!(table.remove(at), None);
            }
            let place = next(3000) as u32;
            assert_eq!(table.get(place), model.get(&place));
            assert_eq!(table.get_mut(place).copied(), model.get(&place).copied());
            assert_eq!(table.len(), model.len());
            let mut chunks: Vec<u32> = model.keys().map(|at| at / CHUNK as u32).collect();
            chunks.dedup();
            assert!(
                table.chunks_with_memory() <= chunks.len() + 1,
                "step {step}"
            );
        }
        assert!(table.iter().eq(model.values()));
        let mut next = 0;
        for at in model.keys() {
            assert_eq!(table.next_from(next), Some(*at));
            next = at + 1;
        }
        assert_eq!(table.next_from(next), None);
        for (at, thing) in model {
            assert_eq!(table.remove(at), Some(thing));
        }
        assert!(table.is_empty() && table.chunks_with_memory() <= 1);
    }

    #[test]
    fn numbers_can_be_chosen() {
        let mut table = Table::default();
        for at in [200, 0, 63, 64, 130] {
            assert!(table.insert_at(at, at));
            assert_eq!(table.get(at), Some(&at));
        }
        for _ in 0..400 {
            let at = table.insert(1).unwrap();
            assert!(![200, 0, 63, 64, 130].contains(&at));
        }
        assert_eq!((table.len(), table.remove(130)), (405, Some(130)));
    }
}
