//! Inodes in memory: those of open files and of files that were asked for lately.
//!
//! For a regular file the size and the times here are the truth, which the image learns later; everything else is a copy of what the image says. A node that has handles, pages,
//! or something that the image does not know stays.

use crate::runs::Runs;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_cache::File;
use cairn_ext4::{Inode, Place, Time};
use cairn_idl::fs::s;
use core::cell::Cell;

/// Blocks of a file beside each other on the device, all written once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub at: u32,
    pub end: u64,
    pub start: u64,
}

#[derive(Default)]
pub struct Node {
    pub ino: u32,
    /// Tells files apart that had the same inode one after the other.
    pub generation: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u16,
    pub flags: u32,
    pub rdev: u64,
    pub size: u64,
    /// 512-byte units on the image.
    pub sectors: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// When the file was made.
    pub birth: Time,
    /// Times that the image does not know.
    pub dirty: bool,
    /// The image knows size, times and links better; what decides who may do what is right.
    pub stale: bool,
    /// Handles, and managers mounted there.
    pub opens: u32,
    /// Asked for since the last look for something to forget.
    pub used: bool,
    /// Its pages.
    pub file: Option<File>,
    /// Blocks of dirty pages that are still to be found: each is promised. What a dirty page has besides where the file has a hole is zeros.
    pub delayed: Runs,
    pub known: Known,
    /// Blocks from the first to before the second are not there.
    pub hole: (u64, u64),
    /// Blocks behind the end are still to be freed.
    pub cutting: bool,
    /// Somebody waits until all that is dirty is written: who writes more waits as well.
    pub syncing: bool,
    /// The flush with this number makes the data on the device last.
    pub flush: u64,
    /// Programs may have it mapped.
    pub mapped: bool,
    /// It may have the attribute that gives capabilities.
    pub raises: bool,
    /// Its data was changed, and a death of the server may lose that; where that is marked for a successor, if somebody has it open.
    pub unsafe_data: bool,
    pub mark: Option<u32>,
    /// The directory and name that it was last found by.
    pub home: Option<(u32, Box<[u8]>)>,
}

impl Node {
    /// What the image says.
    pub fn new(inode: &Inode) -> Node {
        let mut node = Node {
            ino: inode.ino,
            generation: inode.generation,
            size: inode.size,
            used: true,
            ..Node::default()
        };
        node.refresh(inode);
        node
    }

    /// What the image says now, but for what is known better here.
    pub fn refresh(&mut self, inode: &Inode) {
        self.stale = false;
        self.mode = inode.mode as u32;
        self.uid = inode.uid;
        self.gid = inode.gid;
        self.links = inode.links;
        self.flags = inode.flags;
        self.sectors = inode.sectors;
        self.birth = inode.crtime;
        self.raises = inode.has_attributes;
        if inode.is_device() {
            let (major, minor) = inode.device();
            self.rdev = device_number(major, minor);
        }
        if !self.dirty {
            self.atime = inode.atime;
        }
        if !inode.is_regular() {
            // Only reading is noted here first.
            self.size = inode.size;
            self.mtime = inode.mtime;
            self.ctime = inode.ctime;
        } else if !self.dirty {
            self.mtime = inode.mtime;
            self.ctime = inode.ctime;
        } else {
            self.ctime = self.ctime.max(inode.ctime);
        }
    }

    /// What it is called over the server's death.
    pub fn identity(&self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.ino)
    }

    pub fn is_regular(&self) -> bool {
        self.mode & s::IFMT == s::IFREG
    }

    pub fn is_directory(&self) -> bool {
        self.mode & s::IFMT == s::IFDIR
    }

    /// Blocks `from..to` are on the device and were written.
    #[inline]
    pub fn knows(&self, from: u64, to: u64) -> bool {
        u64::from(self.known.at) <= from && to <= self.known.end
    }

    /// They are, or were promised.
    #[inline]
    pub fn has_blocks(&mut self, from: u64, to: u64) -> bool {
        self.knows(from, to) || self.delayed.contain(from, to)
    }

    pub fn learn(&mut self, at: u32, len: u32, place: Place) {
        let end = u64::from(at) + u64::from(len);
        match place {
            Place::Written(start) => self.known = Known { at, end, start },
            Place::Hole => self.hole = (u64::from(at), end),
            Place::Unwritten(_) => {}
        }
    }

    /// Blocks were added or taken away: what was known may be wrong.
    pub fn unlearn(&mut self) {
        self.known = Known::default();
        self.hole = (0, 0);
    }

    /// The image knows all of it and nobody uses it.
    fn idle(&self) -> bool {
        self.opens == 0
            && self.links != 0
            && !self.dirty
            && !self.cutting
            && self.delayed.is_empty()
            && !self.mapped
    }
}

/// As Linux has it in `st_rdev`.
pub fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

/// Major and minor number of a `st_rdev`.
pub fn device_parts(rdev: u64) -> (u32, u32) {
    let major = rdev >> 8 & 0xfff | rdev >> 32 & 0xffff_f000;
    let minor = rdev & 0xff | rdev >> 12 & 0xffff_ff00;
    (major as u32, minor as u32)
}

/// All nodes, found by inode number.
pub struct Nodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Open addressing: place in `nodes` + 1, 0 = none.
    index: Vec<u32>,
    hand: usize,
    most: usize,
    /// Place of the last one that was found: a request asks for the same one several times. Looked at before it is believed, and never an empty one.
    last: Cell<usize>,
}

impl Nodes {
    /// Keeps about `most`.
    pub fn new(most: usize) -> Nodes {
        Nodes {
            nodes: Vec::new(),
            free: Vec::new(),
            index: alloc::vec![0; 64],
            hand: 0,
            most: most.max(16),
            last: Cell::new(usize::MAX),
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    #[inline]
    fn home(&self, ino: u32) -> usize {
        let mask = self.index.len() - 1;
        (ino.wrapping_mul(0x9E37_79B1) >> 7) as usize & mask
    }

    /// The slot of the index that leads to this inode, or the free one where it would be.
    #[inline]
    fn slot(&self, ino: u32) -> usize {
        let mask = self.index.len() - 1;
        let mut slot = self.home(ino);
        loop {
            match self.index[slot] {
                0 => return slot,
                place if self.nodes[place as usize - 1].ino == ino => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// The one that was found last, if it is this one.
    #[inline(always)]
    pub fn last(&self, ino: u32) -> Option<&Node> {
        let last = self.nodes.get(self.last.get());
        last.filter(|node| node.ino == ino)
    }

    #[inline(never)]
    fn search(&self, ino: u32) -> Option<usize> {
        let place = self.index[self.slot(ino)].checked_sub(1)? as usize;
        self.last.set(place);
        Some(place)
    }

    #[inline]
    pub fn get(&self, ino: u32) -> Option<&Node> {
        match self.last(ino) {
            Some(node) => Some(node),
            None => self.nodes.get(self.search(ino)?),
        }
    }

    /// (Each way has its own end, so that what was looked at in the quick one is not looked at again.)
    #[inline(always)]
    pub fn get_mut(&mut self, ino: u32) -> Option<&mut Node> {
        match self.last(ino) {
            Some(_) => self.nodes.get_mut(self.last.get()),
            None => self.found(ino),
        }
    }

    #[inline(never)]
    fn found(&mut self, ino: u32) -> Option<&mut Node> {
        let place = self.search(ino)?;
        self.nodes.get_mut(place)
    }

    /// A node that is not there yet.
    pub fn insert(&mut self, node: Node) {
        if self.get(node.ino).is_some() {
            return;
        }
        if (self.len() + 1) * 2 > self.index.len() {
            self.grow();
        }
        let slot = self.slot(node.ino);
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.index[slot] = place + 1;
    }

    fn grow(&mut self) {
        let double = self.index.len() * 2;
        let old = core::mem::replace(&mut self.index, alloc::vec![0; double]);
        for place in old.into_iter().filter(|place| *place != 0) {
            let slot = self.slot(self.nodes[place as usize - 1].ino);
            self.index[slot] = place;
        }
    }

    pub fn remove(&mut self, ino: u32) -> Option<Node> {
        let mask = self.index.len() - 1;
        let mut hole = self.slot(ino);
        let place = self.index[hole].checked_sub(1)?;
        self.index[hole] = 0;
        // What follows without a gap may have to move up.
        let mut slot = (hole + 1) & mask;
        while self.index[slot] != 0 {
            let home = self.home(self.nodes[self.index[slot] as usize - 1].ino);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.index[hole] = core::mem::take(&mut self.index[slot]);
                hole = slot;
            }
            slot = (slot + 1) & mask;
        }
        self.free.push(place);
        self.last.set(usize::MAX);
        Some(core::mem::take(&mut self.nodes[place as usize]))
    }

    /// When there are too many: one that can be forgotten and was not asked for lately. (Its pages go with it.)
    pub fn victim(&mut self) -> Option<u32> {
        if self.len() < self.most {
            return None;
        }
        for _ in 0..64.min(self.nodes.len()) {
            self.hand = (self.hand + 1) % self.nodes.len();
            let node = &mut self.nodes[self.hand];
            if node.ino != 0 && node.idle() && !core::mem::take(&mut node.used) {
                return Some(node.ino);
            }
        }
        None
    }

    pub fn all(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.ino != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nodes_are_found_whatever_comes_and_goes() {
        let (mut nodes, mut model) = (Nodes::new(100_000), BTreeSet::new());
        let mut random = 3u64;
        for _ in 0..100_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let ino = 1 + (random >> 33) as u32 % 3000;
            if random >> 62 == 0 {
                assert_eq!(nodes.remove(ino).is_some(), model.remove(&ino));
            } else {
                let node = Node {
                    ino,
                    size: ino as u64 * 3,
                    ..Node::default()
                };
                nodes.insert(node);
                model.insert(ino);
            }
            assert_eq!(nodes.len(), model.len());
            let other = 1 + (random >> 20) as u32 % 3000;
            let found = nodes.get(other).map(|node| node.size);
            let there = model.contains(&other);
            assert_eq!(found, there.then_some(other as u64 * 3));
        }
        let mut all: Vec<u32> = nodes.all().map(|node| node.ino).collect();
        all.sort_unstable();
        assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_in_use_is_not_forgotten() {
        let mut nodes = Nodes::new(16);
        for ino in 1..=16 {
            nodes.insert(Node {
                ino,
                links: 1,
                opens: (ino != 9) as u32,
                used: true,
                ..Node::default()
            });
        }
        assert_eq!(nodes.victim(), None, "it was asked for lately");
        assert_eq!(nodes.victim(), Some(9));
        nodes.remove(9);
        assert_eq!(nodes.victim(), None);
    }

    #[test]
    fn device_numbers_as_on_linux() {
        assert_eq!(device_number(1, 3), 0x103);
        assert_eq!(device_number(254, 0), 0xfe00);
        for (major, minor) in [(8, 17), (259, 65_536), (4095, 1_048_575)] {
            assert_eq!(device_parts(device_number(major, minor)), (major, minor));
        }
    }
}
