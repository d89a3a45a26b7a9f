//! Records by number, in pieces of [`PIECE`] bytes: a table grows by a piece, which can fail before anything has changed, and a piece whose records are all free goes.
//!
//! What always holds:
//! * a record stays where it is as long as it is in use; its number is the lowest that was free in the lowest piece with room, so what is used is near the start;
//! * at most one piece has no record in use, and only while fewer than two pieces' worth of records are free;
//! * nothing is walked that grows with the table, but for words of 4,096 records each.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::size_of;
use core::ops::{Index, IndexMut};

/// Bytes of a piece, unless a record is larger.
pub const PIECE: usize = 16 * 1024;
const NONE: usize = usize::MAX;

/// A set of numbers that knows its least.
#[derive(Debug)]
struct Set {
    words: Vec<u64>,
    /// No word before this has any.
    least: usize,
}

impl Set {
    const fn new() -> Set {
        Set {
            words: Vec::new(),
            least: 0,
        }
    }

    /// Room for this number. False: there is no memory.
    fn room(&mut self, number: usize) -> bool {
        if number / 64 >= self.words.len() {
            if self.words.try_reserve(1).is_err() {
                return false;
            }
            self.words.push(0);
        }
        true
    }

    fn add(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
        self.least = self.least.min(number / 64);
    }

    fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    fn least(&mut self) -> Option<usize> {
        while let Some(word) = self.words.get(self.least) {
            if *word != 0 {
                return Some(self.least * 64 + word.trailing_zeros() as usize);
            }
            self.least += 1;
        }
        None
    }
}

/// Records that are taken and given back. A record that was given back is as its last user left it, or fresh.
#[derive(Debug)]
pub struct Records<T> {
    /// One without records has no memory.
    pieces: Vec<Box<[T]>>,
    /// A bit for each record of a piece that is in use.
    used: Vec<u64>,
    /// Pieces with memory and room, and pieces without memory.
    room: Set,
    bare: Set,
    /// Records in use, and free ones in pieces with memory.
    count: usize,
    free: usize,
    /// The piece with memory that has no record in use.
    empty: usize,
}

impl<T: Default> Records<T> {
    /// Records of a piece.
    pub const EACH: usize = match PIECE / size_of::<T>() {
        0 => 1,
        64.. => 64,
        count => 1 << count.ilog2(),
    };
    const SHIFT: u32 = Self::EACH.ilog2();
    const FULL: u64 = u64::MAX >> (64 - Self::EACH);

    pub const fn new() -> Records<T> {
        Records {
            pieces: Vec::new(),
            used: Vec::new(),
            room: Set::new(),
            bare: Set::new(),
            count: 0,
            free: 0,
            empty: NONE,
        }
    }

    /// Records in use.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Numbers are below this.
    pub fn end(&self) -> u32 {
        (self.pieces.len() * Self::EACH) as u32
    }

    /// See that the next [`Records::take`] does not fail. False: there is no memory.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        self.free != 0 || self.grow()
    }

    /// The same for so many, of at most a piece's.
    pub fn reserve_some(&mut self, count: usize) -> bool {
        self.free >= count || self.grow()
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(Self::EACH).is_err() {
            return false;
        }
        let number = match self.bare.least() {
            Some(number) => number,
            None => {
                let number = self.pieces.len();
                let lists = self.pieces.try_reserve(1).is_ok() && self.used.try_reserve(1).is_ok();
                if !lists || !self.room.room(number) || !self.bare.room(number) {
                    return false;
                }
                self.pieces.push(Box::default());
                self.used.push(0);
                number
            }
        };
        piece.resize_with(Self::EACH, T::default);
        self.bare.remove(number);
        self.room.add(number);
        self.free += Self::EACH;
        self.empty = number;
        self.pieces[number] = piece.into_boxed_slice();
        true
    }

    /// The number that the next [`Records::take`] gives. None: as there.
    pub fn next_number(&mut self) -> Option<u32> {
        if !self.reserve() {
            return None;
        }
        let number = self.room.least()?;
        let at = self.used[number].trailing_ones() as usize;
        Some((number * Self::EACH + at) as u32)
    }

    /// The number of a record to use. None: there is no memory.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let at = self.next_number()?;
        let number = at as usize >> Self::SHIFT;
        let used = &mut self.used[number];
        *used |= 1 << (at as usize & (Self::EACH - 1));
        if *used == Self::FULL {
            self.room.remove(number);
        }
        if self.empty == number {
            self.empty = NONE;
        }
        self.count += 1;
        self.free -= 1;
        Some(at)
    }

    fn is_used(&self, at: u32) -> bool {
        let used = self.used.get(at as usize >> Self::SHIFT);
        used.is_some_and(|used| used >> (at as usize & (Self::EACH - 1)) & 1 != 0)
    }

    /// A record is not used any more. (One that is not in use stays so.)
    #[inline]
    pub fn give(&mut self, at: u32) {
        if !self.is_used(at) {
            return;
        }
        let number = at as usize >> Self::SHIFT;
        let used = &mut self.used[number];
        *used &= !(1 << (at as usize & (Self::EACH - 1)));
        let is_empty = *used == 0;
        self.room.add(number);
        self.count -= 1;
        self.free += 1;
        if self.free >= 2 * Self::EACH {
            let other = core::mem::replace(&mut self.empty, NONE);
            let this = if is_empty { number } else { NONE };
            // The last one first. (NONE is the last of all.)
            for gone in [other.max(this), other.min(this)] {
                if gone != NONE && self.free >= 2 * Self::EACH {
                    self.let_go(gone);
                } else if gone != NONE {
                    self.empty = gone;
                }
            }
        } else if is_empty {
            self.empty = number;
        }
    }

    #[cold]
    #[inline(never)]
    fn let_go(&mut self, number: usize) {
        self.pieces[number] = Box::default();
        self.room.remove(number);
        self.bare.add(number);
        self.free -= Self::EACH;
    }

    /// The record with this number, whether or not it is in use. None: there never was one, or its piece is gone.
    #[inline(always)]
    pub fn get(&self, at: u32) -> Option<&T> {
        let piece = self.pieces.get(at as usize >> Self::SHIFT)?;
        piece.get(at as usize & (Self::EACH - 1))
    }

    #[inline(always)]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let piece = self.pieces.get_mut(at as usize >> Self::SHIFT)?;
        piece.get_mut(at as usize & (Self::EACH - 1))
    }

    /// The numbers that are in use.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.used.iter().enumerate().filter(|(_, used)| **used != 0);
        used.flat_map(|(number, used)| {
            let places = (0..Self::EACH).filter(move |at| used >> at & 1 != 0);
            places.map(move |at| (number * Self::EACH + at) as u32)
        })
    }

    /// All that have memory, whether or not they are in use.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let pieces = self.pieces.iter_mut().enumerate();
        pieces.flat_map(|(number, piece)| {
            let first = (number * Self::EACH) as u32;
            (first..).zip(piece.iter_mut())
        })
    }

    /// Pieces that have memory.
    #[cfg(test)]
    fn pieces(&self) -> usize {
        self.pieces.iter().filter(|piece| !piece.is_empty()).count()
    }
}

impl<T: Default> Default for Records<T> {
    fn default() -> Records<T> {
        Records::new()
    }
}

/// For records that are in use.
impl<T: Default> Index<u32> for Records<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: u32) -> &T {
        self.get(at).unwrap_or_else(|| no_record())
    }
}

impl<T: Default> IndexMut<u32> for Records<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.get_mut(at).unwrap_or_else(|| no_record())
    }
}

#[cold]
#[inline(never)]
fn no_record() -> ! {
    panic!("no record has this number")
}

/// Things by number; a number is used again when its thing is gone.
#[derive(Debug)]
pub struct Slab<T>(Records<Option<T>>);

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab(Records::new())
    }
}

impl<T> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab(Records::new())
    }

    /// See that the next [`Slab::insert`] does not fail. False: there is no memory.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        self.0.reserve()
    }

    /// The number of something new. None: there is no memory.
    #[inline]
    pub fn insert(&mut self, thing: T) -> Option<u32> {
        let at = self.0.take()?;
        *self.0.get_mut(at)? = Some(thing);
        Some(at)
    }

    #[inline]
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.0.get_mut(at)?.take()?;
        self.0.give(at);
        Some(thing)
    }

    #[inline(always)]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.0.get(at)?.as_ref()
    }

    #[inline(always)]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.0.numbers().filter_map(|at| Some((at, self.get(at)?)))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Numbers are below this.
    pub fn end(&self) -> u32 {
        self.0.end()
    }
}

#[cfg(test)]
mod tests;
