//! What names led to that were looked up lately: a directory is searched from its beginning for each name, if it has no index, and most have none until a file system's check makes one.
//!
//! What always holds: what is kept of a name is what the directory says. Names change in [`crate::tree`] only, which has a name forgotten before it changes it. So of a directory
//! that was removed there are only names that are not there, which is also right for a new one with its number.

use alloc::boxed::Box;
use alloc::vec;

/// A power of two.
const PLACES: usize = 1024;
/// Longer names are not kept.
const LONGEST: usize = 47;

#[derive(Clone, Copy)]
struct Name {
    dir: u32,
    /// The inode; 0: there is no such name.
    ino: u32,
    /// 0: nothing is kept here.
    length: u8,
    text: [u8; LONGEST],
}

pub struct RecentNames(Box<[Name]>);

impl RecentNames {
    pub fn new() -> RecentNames {
        let nothing = Name {
            dir: 0,
            ino: 0,
            length: 0,
            text: [0; LONGEST],
        };
        RecentNames(vec![nothing; PLACES].into_boxed_slice())
    }

    /// The inode behind a name, or that there is none; None: who knows.
    pub fn find(&self, dir: u32, name: &[u8]) -> Option<Option<u32>> {
        let kept = self.0.get(place(dir, name))?;
        kept.is(dir, name)
            .then(|| (kept.ino != 0).then_some(kept.ino))
    }

    /// Keep what a name leads to.
    pub fn keep(&mut self, dir: u32, name: &[u8], ino: Option<u32>) {
        let mut text = [0; LONGEST];
        let (Some(kept), Some(start)) =
            (self.0.get_mut(place(dir, name)), text.get_mut(..name.len()))
        else {
            return;
        };
        start.copy_from_slice(name);
        *kept = Name {
            dir,
            ino: ino.unwrap_or(0),
            length: name.len() as u8,
            text,
        };
    }

    /// A name is about to change.
    pub fn forget(&mut self, dir: u32, name: &[u8]) {
        if let Some(kept) = self.0.get_mut(place(dir, name)) {
            if kept.is(dir, name) {
                kept.length = 0;
            }
        }
    }
}

impl Name {
    fn is(&self, dir: u32, name: &[u8]) -> bool {
        self.dir == dir && self.length != 0 && self.text.get(..self.length as usize) == Some(name)
    }
}

fn place(dir: u32, name: &[u8]) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = u64::from(dir);
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MIX);
    }
    for byte in rest {
        hash = (hash.rotate_left(8) ^ u64::from(*byte)).wrapping_mul(MIX);
    }
    (hash >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_of_this_name_in_this_directory() {
        let mut names = RecentNames::new();
        let longest = [b'x'; LONGEST];
        for name in [&b"a"[..], b"libc.so.6", b"12345678", &longest] {
            assert_eq!(names.find(5, name), None);
            names.keep(5, name, Some(77));
            assert_eq!(names.find(5, name), Some(Some(77)));
            assert_eq!(names.find(6, name), None);
            assert_eq!(names.find(5, &name[1..]), None);
            names.keep(5, name, None);
            assert_eq!(names.find(5, name), Some(None));
            names.forget(6, name);
            assert_eq!(names.find(5, name), Some(None));
            names.forget(5, name);
            assert_eq!(names.find(5, name), None);
        }
        let long = [b'x'; LONGEST + 1];
        names.keep(5, &long, Some(77));
        assert_eq!(names.find(5, &long), None);
        // More names than places: each is the last that was kept there, or nothing.
        for ino in 1..5000u32 {
            names.keep(ino % 7, &ino.to_le_bytes(), Some(ino));
        }
        let mut found = 0;
        for ino in 1..5000u32 {
            if let Some(kept) = names.find(ino % 7, &ino.to_le_bytes()) {
                assert_eq!(kept, Some(ino));
                found += 1;
            }
        }
        assert!(found > PLACES / 2 && found <= PLACES, "{found}");
    }
}
