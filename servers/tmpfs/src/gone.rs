//! Where nodes had their last name that are open without any, as /proc/PID/fd shows it ([`cairn_resmgr::Server::gone`]).
//!
//! It is shown and decides nothing: so it has room of a fixed size that nobody pays for, and what does not fit is not known.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Bytes of a path that is kept.
pub const LONGEST: usize = 512;
/// Bytes of all paths, with what each takes in the map.
const ROOM: usize = 256 * 1024;
const EACH: usize = 64;
/// Bytes that a path more may take from the heap, with nodes of the map.
const PREPARED: usize = 4096;

/// Nodes that are gone and may be mapped for ever, whose names are kept: the last ones.
const LOST: usize = 128;

#[derive(Default)]
pub struct Gone {
    paths: BTreeMap<u32, Box<[u8]>>,
    used: usize,
    lost: VecDeque<Lost>,
}

/// A node that is gone: what `vm` has its object's tag for, its inode number, and its place.
struct Lost {
    tag: u64,
    ino: u64,
    path: Box<[u8]>,
}

/// Whether the heap has room for one more.
fn prepared() -> bool {
    #[cfg(target_os = "none")]
    return cairn_rt::heap::prepare(PREPARED);
    #[cfg(not(target_os = "none"))]
    return PREPARED > 0;
}

impl Gone {
    pub fn of(&self, node: u32) -> Option<&[u8]> {
        self.paths.get(&node).map(|path| &path[..])
    }

    pub fn keep(&mut self, node: u32, path: &[u8]) {
        self.forget(node);
        let used = self.used + EACH + path.len();
        if used > ROOM || path.len() > LONGEST || !prepared() {
            return;
        }
        let mut text = Vec::new();
        if text.try_reserve_exact(path.len()).is_ok() {
            text.extend_from_slice(path);
            self.paths.insert(node, text.into_boxed_slice());
            self.used = used;
        }
    }

    /// The node is gone, and somebody may have it mapped.
    pub fn lose(&mut self, node: u32, tag: u64, ino: u64) {
        let Some(path) = self.paths.remove(&node) else {
            return;
        };
        self.used -= EACH + path.len();
        if self.lost.len() >= LOST {
            self.lost.pop_front();
        }
        if prepared() && self.lost.try_reserve(1).is_ok() {
            self.lost.push_back(Lost { tag, ino, path });
        }
    }

    /// Place and inode number of such a node.
    pub fn lost(&self, tag: u64) -> Option<(&[u8], u64)> {
        let lost = self.lost.iter().find(|lost| lost.tag == tag)?;
        Some((&lost.path, lost.ino))
    }

    #[inline]
    pub fn forget(&mut self, node: u32) {
        if self.used != 0 {
            if let Some(path) = self.paths.remove(&node) {
                self.used -= EACH + path.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_limited_and_given_back() {
        let mut gone = Gone::default();
        for node in 0..10_000 {
            gone.keep(node, &[b'a'; 100]);
        }
        let kept = gone.paths.len();
        assert!(gone.used <= ROOM && kept == ROOM / (EACH + 100), "{kept}");
        assert_eq!((gone.of(5), gone.of(9_999)), (Some(&[b'a'; 100][..]), None));
        gone.keep(5, b"b/c");
        assert_eq!(gone.of(5), Some(&b"b/c"[..]));
        (0..10_000).for_each(|node| gone.forget(node));
        assert!(gone.used == 0 && gone.paths.is_empty());
        for node in 0..200 {
            gone.keep(node, b"d/e");
            gone.lose(node, node.into(), 7);
        }
        assert!(gone.used == 0 && gone.lost.len() == LOST);
        assert_eq!(
            (gone.lost(5), gone.lost(199)),
            (None, Some((&b"d/e"[..], 7)))
        );
        gone.keep(1, &[b'a'; LONGEST + 1]);
        assert!(gone.of(1).is_none());
    }
}
