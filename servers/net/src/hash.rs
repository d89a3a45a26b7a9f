//! Tables that are found by a hash. Its key is random, so nobody chooses ports and addresses that all fall into one place; and a table grows only where that may fail.

use core::hash::{BuildHasher, Hash, Hasher};
use hashbrown::HashMap;

/// The key: what makes hashers.
#[derive(Clone, Copy, Default)]
pub struct Key(pub u64, pub u64);

/// Multiplies, and folds both halves of the product.
pub struct Folding {
    state: u64,
    key: u64,
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl BuildHasher for Key {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding {
            state: self.0,
            // (An odd one is never zero.)
            key: self.1 | 1,
        }
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let word = rest
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(word);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.state = fold(self.state ^ word, self.key).wrapping_add(word.rotate_left(32));
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.state, self.key)
    }
}

/// A table.
pub struct Map<K, V>(HashMap<K, V, Key>);

impl<K: Hash + Eq, V> Map<K, V> {
    pub fn new(key: Key) -> Map<K, V> {
        Map(HashMap::with_hasher(key))
    }

    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// False: there is no memory for one more.
    pub fn reserve(&mut self) -> bool {
        self.0.try_reserve(1).is_ok()
    }

    /// False, and nothing has happened, if there is no memory.
    pub fn insert(&mut self, key: K, value: V) -> bool {
        if !self.reserve() {
            return false;
        }
        self.0.insert(key, value);
        true
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let gone = self.0.remove(key);
        // What many connections took goes back when few are left.
        if self.0.capacity() > 1024 && self.0.len() < self.0.capacity() / 8 {
            self.0.shrink_to(self.0.len() * 2);
        }
        gone
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
