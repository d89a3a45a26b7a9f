//! Paths that were walked lately and where they led, for servers whose names change only through the framework ([`crate::Server::STABLE_NAMES`]).
//!
//! Only what was walked by user 0 (whom no permission stops) is kept. Where a path leads whose last component is a symbolic link is an answer for those who follow it.
//! Making names changes no answer about what exists; whatever
//! removes or moves names, or changes modes and owners, makes the answers that it could touch invalid by a new generation: those about
//! directories live longer than those about files. That nothing is there is kept apart, until any name is made: programs look for libraries in many places where none are.

use crate::server::Access;
use alloc::boxed::Box;
use alloc::vec;

/// Words of eight bytes of a kept path; the last one is never full, so that paths of different length differ.
const WORDS: usize = 7;
/// Paths are shorter than this. As many bytes must follow the beginning of any path in its buffer.
pub const LONGEST: usize = WORDS * 8;
const ENTRIES: usize = 128;

/// A path and where it begins, and where it is kept.
#[derive(Clone, Copy)]
pub(crate) struct Key<N> {
    slot: usize,
    length: usize,
    path: [u64; WORDS],
    start: N,
}

#[derive(Clone, Copy)]
struct Entry<N> {
    key: Key<N>,
    generation: u32,
    /// Only for who follows a link in the last place.
    followed: bool,
    node: N,
    access: Access,
}

/// What leads nowhere, and the generation in which that was so.
#[derive(Clone, Copy)]
struct Absent<N> {
    key: Key<N>,
    generation: u32,
}

/// A short path in the words that it came in ([`cairn_idl::fs::INLINE`]), and where it led.
#[derive(Clone, Copy)]
struct Short<N> {
    words: [u64; 5],
    length: usize,
    start: N,
    generation: u32,
    followed: bool,
    known: Known<N>,
}

/// Where a path leads: to a node, or nowhere.
pub(crate) type Known<N> = Option<(N, Access)>;

/// The cache.
pub(crate) struct Cache<N> {
    entries: Box<[Option<Entry<N>>]>,
    /// Of the same answers those that were asked for in words: found without looking at the path.
    shorts: Box<[Option<Short<N>>]>,
    absent: Box<[Option<Absent<N>>]>,
    /// Generation of answers that are directories, of all others, and of those that are none.
    directories: u32,
    others: u32,
    made: u32,
}

/// A path in its buffer, as words.
struct Path<'a> {
    bytes: &'a [u8; LONGEST],
    /// Full words.
    full: usize,
    last: u64,
    hash: u64,
}

impl Path<'_> {
    /// `None` if it is too long.
    #[inline(always)]
    fn new(text: &[u8], at: usize, length: usize) -> Option<Path<'_>> {
        let bytes = text.get(at..)?.first_chunk::<LONGEST>()?;
        if length >= LONGEST {
            return None;
        }
        let mut path = Path {
            bytes,
            full: length / 8,
            last: 0,
            hash: length as u64,
        };
        path.last = path.word(path.full) & ((1 << (length % 8 * 8)) - 1);
        path.hash = (path.hash ^ path.last).wrapping_mul(MIX);
        for index in 0..path.full {
            path.hash = (path.hash ^ path.word(index)).wrapping_mul(MIX);
        }
        Some(path)
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        let rest = &self.bytes[index.min(WORDS - 1) * 8..];
        rest.first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word))
    }

    #[inline(always)]
    fn slot(&self) -> usize {
        (self.hash >> 57) as usize
    }
}

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn short_slot(words: &[u64; 5], length: usize) -> usize {
    let mixed = words
        .iter()
        .fold(length as u64, |mixed, word| mixed.rotate_left(11) ^ word);
    (mixed.wrapping_mul(MIX) >> 57) as usize
}

impl<N: Copy + PartialEq> Key<N> {
    /// `text[at..at + length]` from `start`. `None` if it is too long.
    pub fn new(text: &[u8], at: usize, length: usize, start: N) -> Option<Key<N>> {
        let path = Path::new(text, at, length)?;
        let mut words = [0; WORDS];
        for (index, place) in words.iter_mut().enumerate().take(path.full) {
            *place = path.word(index);
        }
        words[path.full.min(WORDS - 1)] = path.last;
        Some(Key {
            slot: path.slot(),
            length,
            path: words,
            start,
        })
    }

    #[inline(always)]
    fn is(&self, path: &Path, length: usize, start: N) -> bool {
        self.length == length
            && self.start == start
            && (0..path.full).all(|index| self.path[index.min(WORDS - 1)] == path.word(index))
            && self.path[path.full.min(WORDS - 1)] == path.last
    }
}

impl<N: Copy + PartialEq> Cache<N> {
    pub fn new(enabled: bool) -> Cache<N> {
        Cache {
            entries: vec![None; if enabled { ENTRIES } else { 0 }].into_boxed_slice(),
            shorts: vec![None; if enabled { ENTRIES } else { 0 }].into_boxed_slice(),
            absent: vec![None; if enabled { ENTRIES } else { 0 }].into_boxed_slice(),
            directories: 0,
            others: 0,
            made: 0,
        }
    }

    /// Where `text[at..at + length]` leads from `start` for somebody who follows links in the last place, or does not.
    #[inline(always)]
    pub fn find(
        &self,
        text: &[u8],
        at: usize,
        length: usize,
        start: N,
        follows: bool,
    ) -> Option<(N, Access)> {
        let path = Path::new(text, at, length)?;
        let entry = self.entries.get(path.slot())?.as_ref()?;
        if !entry.key.is(&path, length, start) || entry.followed && !follows {
            return None;
        }
        let generation = self.generation(&entry.access);
        (entry.generation == generation).then_some((entry.node, entry.access))
    }

    /// Where a path of this length in these words leads from `start`.
    #[inline(always)]
    pub fn find_short(
        &self,
        words: &[u64; 5],
        length: usize,
        start: N,
        follows: bool,
    ) -> Option<Known<N>> {
        let short = self.shorts.get(short_slot(words, length))?.as_ref()?;
        let others = words.iter().zip(&short.words);
        let other = others.fold(0, |other, (one, two)| other | (one ^ two));
        if other != 0
            || short.length != length
            || short.start != start
            || short.followed && !follows
        {
            return None;
        }
        (short.generation == self.generation_of(&short.known)).then_some(short.known)
    }

    /// Keep an answer that was found, for those who follow links in the last place or for all.
    #[inline(never)]
    pub fn insert_short(
        &mut self,
        words: &[u64; 5],
        length: usize,
        start: N,
        known: Known<N>,
        followed: bool,
    ) {
        let generation = self.generation_of(&known);
        if let Some(short) = self.shorts.get_mut(short_slot(words, length)) {
            *short = Some(Short {
                words: *words,
                length,
                start,
                generation,
                followed,
                known,
            });
        }
    }

    #[inline(always)]
    fn generation_of(&self, known: &Known<N>) -> u32 {
        match known {
            Some((_, access)) => self.generation(access),
            None => self.made,
        }
    }

    #[inline(always)]
    fn generation(&self, access: &Access) -> u32 {
        if access.is_directory() {
            self.directories
        } else {
            self.others
        }
    }

    /// Keep an answer, for those who follow links in the last place or for all.
    pub fn insert(&mut self, key: Key<N>, (node, access): (N, Access), followed: bool) {
        let generation = self.generation(&access);
        if let Some(entry) = self.entries.get_mut(key.slot) {
            *entry = Some(Entry {
                key,
                generation,
                followed,
                node,
                access,
            });
        }
    }

    /// Whether `text[at..at + length]` is known to lead nowhere from `start`.
    pub fn is_absent(&self, text: &[u8], at: usize, length: usize, start: N) -> bool {
        Path::new(text, at, length).is_some_and(|path| {
            let entry = self.absent.get(path.slot()).and_then(Option::as_ref);
            entry.is_some_and(|e| e.generation == self.made && e.key.is(&path, length, start))
        })
    }

    /// Keep that this leads nowhere.
    pub fn insert_absent(&mut self, key: Key<N>) {
        if let Some(entry) = self.absent.get_mut(key.slot) {
            *entry = Some(Absent {
                key,
                generation: self.made,
            });
        }
    }

    /// A name is about to be made, or moved.
    pub fn name_made(&mut self) {
        self.made = self.made.wrapping_add(1);
    }

    /// A name of a file was removed, or a file's mode or owner changed.
    pub fn file_changed(&mut self) {
        self.others = self.others.wrapping_add(1);
    }

    /// A directory or a symbolic link was removed or moved, or a directory's mode or owner changed, or what leads through it.
    pub fn directory_changed(&mut self) {
        self.directories = self.directories.wrapping_add(1);
        self.file_changed();
        self.name_made();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::fs::s;

    #[test]
    fn answers_are_found_until_they_may_be_wrong() {
        let mut cache: Cache<u32> = Cache::new(true);
        let text = &[
            &b"..tmp/file-that-is-longer/than-a-word/"[..],
            &[b'.'; LONGEST],
        ]
        .concat();
        let file = Access {
            mode: s::IFREG,
            ..Access::default()
        };
        let dir = Access {
            mode: s::IFDIR,
            ..Access::default()
        };
        let key = |length, start| Key::new(text, 2, length, start).unwrap();
        assert!(Key::new(text, 2, LONGEST, 0).is_none());
        cache.insert(key(24, 0), (7, file), false);
        cache.insert(key(3, 0), (8, dir), false);
        assert_eq!(cache.find(text, 2, 24, 0, false), Some((7, file)));
        assert_eq!(cache.find(text, 2, 3, 0, false), Some((8, dir)));
        assert_eq!(cache.find(text, 2, 3, 1, false), None);
        assert_eq!(cache.find(text, 2, 23, 0, false), None);
        assert_eq!(cache.find(text, 3, 24, 0, false), None);
        cache.file_changed();
        assert_eq!(cache.find(text, 2, 24, 0, false), None);
        assert_eq!(cache.find(text, 2, 3, 0, false), Some((8, dir)));
        cache.directory_changed();
        assert_eq!(cache.find(text, 2, 3, 0, false), None);
        // What a link in the last place leads to.
        cache.insert(key(24, 0), (7, file), true);
        assert_eq!(cache.find(text, 2, 24, 0, true), Some((7, file)));
        assert_eq!(cache.find(text, 2, 24, 0, false), None);
        cache.insert_short(&[1; 5], 40, 0, Some((7, file)), true);
        assert_eq!(
            cache.find_short(&[1; 5], 40, 0, true),
            Some(Some((7, file)))
        );
        assert_eq!(cache.find_short(&[1; 5], 40, 0, false), None);
        // What is not there.
        for (change, known) in [(0, true), (1, false), (2, false)] {
            cache.insert_absent(key(10, 4));
            assert!(cache.is_absent(text, 2, 10, 4));
            assert!(!cache.is_absent(text, 2, 10, 3) && !cache.is_absent(text, 2, 11, 4));
            assert_eq!(cache.find(text, 2, 10, 4, false), None);
            match change {
                0 => cache.file_changed(),
                1 => cache.name_made(),
                _ => cache.directory_changed(),
            }
            assert_eq!(cache.is_absent(text, 2, 10, 4), known);
        }
        // What came in words.
        let words = [1, 2, 3, 0, 0];
        for (known, change) in [(Some((7, file)), 0), (Some((8, dir)), 1), (None, 2)] {
            for changed in 0..3 {
                cache.insert_short(&words, 20, 0, known, false);
                assert_eq!(cache.find_short(&words, 20, 0, false), Some(known));
                assert_eq!(cache.find_short(&words, 19, 0, false), None);
                assert_eq!(cache.find_short(&words, 20, 1, false), None);
                assert_eq!(cache.find_short(&[1, 2, 3, 0, 1], 20, 0, false), None);
                match changed {
                    0 => cache.file_changed(),
                    1 => cache.directory_changed(),
                    _ => cache.name_made(),
                }
                let kept = changed != 1 && changed != change;
                assert_eq!(
                    cache.find_short(&words, 20, 0, false),
                    kept.then_some(known)
                );
            }
        }
        let mut off: Cache<u32> = Cache::new(false);
        off.insert(key(3, 0), (8, dir), false);
        assert_eq!(off.find(text, 2, 3, 0, false), None);
        off.insert_short(&words, 20, 0, Some((8, dir)), false);
        assert_eq!(off.find_short(&words, 20, 0, false), None);
    }
}
