//! Things by number; a number is used again when its thing is gone.

use alloc::vec::Vec;

pub struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// None: there is no memory for one more.
    pub fn insert(&mut self, thing: T) -> Option<u32> {
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(thing);
            return Some(at);
        }
        self.places.try_reserve(1).ok()?;
        // Removing needs no memory.
        let all = self.places.len() + 1;
        self.free.try_reserve(all).ok()?;
        self.places.push(Some(thing));
        Some(self.places.len() as u32 - 1)
    }

    pub fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.places.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(thing)
    }

    #[inline(always)]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    #[inline(always)]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers are below this.
    pub fn end(&self) -> u32 {
        self.places.len() as u32
    }
}
