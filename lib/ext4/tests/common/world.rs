//! A file system in memory, and random operations that are done on it and on an image alike.

use super::{Caller, Random};
use cairn_ext4::{Error, New, Rename, ROOT};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory(BTreeMap<Vec<u8>, u32>),
    File(Vec<u8>),
    Link(Vec<u8>),
}

/// Inodes by number, with their attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub nodes: BTreeMap<u32, Node>,
    pub attributes: BTreeMap<u32, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Files whose bytes changed in place since this was last emptied.
    pub in_place: BTreeSet<u32>,
}

const LARGEST: u64 = 150_000;

impl World {
    pub fn new() -> World {
        let mut world = World::default();
        world.nodes.insert(ROOT, Node::Directory(BTreeMap::new()));
        world
    }

    fn directories(&self) -> Vec<u32> {
        let is = |node: &Node| matches!(node, Node::Directory(_));
        self.nodes
            .iter()
            .filter(|(_, node)| is(node))
            .map(|(ino, _)| *ino)
            .collect()
    }

    pub fn names(&self, dir: u32) -> BTreeMap<Vec<u8>, u32> {
        match self.nodes.get(&dir) {
            Some(Node::Directory(names)) => names.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn names_mut(&mut self, dir: u32) -> &mut BTreeMap<Vec<u8>, u32> {
        match self.nodes.get_mut(&dir) {
            Some(Node::Directory(names)) => names,
            _ => panic!("no directory"),
        }
    }

    fn links(&self, ino: u32) -> usize {
        let count = |node: &Node| match node {
            Node::Directory(names) => names.values().filter(|other| **other == ino).count(),
            _ => 0,
        };
        self.nodes.values().map(count).sum()
    }

    fn lost_name(&mut self, ino: u32) {
        if self.links(ino) == 0 {
            self.nodes.remove(&ino);
            self.attributes.remove(&ino);
        }
    }

    fn is_above(&self, above: u32, below: u32) -> bool {
        above == below
            || self.names(above).values().any(|&next| {
                matches!(self.nodes.get(&next), Some(Node::Directory(_)))
                    && self.is_above(next, below)
            })
    }

    /// One random operation on both. Whether it fails must be the same as well (but for a full disk, which changes nothing).
    pub fn step(&mut self, caller: &mut Caller, random: &mut Random) {
        let now = caller.now;
        caller.now.nsec += 1;
        let dirs = self.directories();
        let dir = dirs[random.below(dirs.len() as u64) as usize];
        let name = format!(
            "n{}{}",
            random.below(40),
            "long".repeat(random.below(8) as usize)
        )
        .into_bytes();
        let old = self.names(dir).get(&name).copied();
        let files: Vec<u32> = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)))
            .map(|(ino, _)| *ino)
            .collect();
        let file = files
            .get(random.below(files.len() as u64) as usize)
            .copied();
        let about = |mode| New {
            mode,
            uid: 1,
            gid: 2,
            device: (0, 0),
            now,
        };
        let exists = |made: Result<u32, Error>| -> Option<u32> {
            match (made, old) {
                (Ok(ino), None) => Some(ino),
                (Err(Error::Exists), Some(_)) | (Err(Error::NoSpace), None) => None,
                (other, old) => panic!("{other:?} where the name is {old:?}"),
            }
        };
        match random.below(26) {
            0..=4 => {
                let made = caller.act(|fs| fs.create(dir, &name, &about(0o100_644)));
                if let Some(ino) = exists(made) {
                    self.nodes.insert(ino, Node::File(Vec::new()));
                    self.names_mut(dir).insert(name, ino);
                }
            }
            5 | 6 => {
                let made = caller.act(|fs| fs.create(dir, &name, &about(0o040_755)));
                if let Some(ino) = exists(made) {
                    self.nodes.insert(ino, Node::Directory(BTreeMap::new()));
                    self.names_mut(dir).insert(name, ino);
                }
            }
            7 => {
                let target = vec![b'x'; 1 + random.below(200) as usize];
                let made = caller.act(|fs| fs.symlink(dir, &name, &target, &about(0)));
                if let Some(ino) = exists(made) {
                    self.nodes.insert(ino, Node::Link(target));
                    self.names_mut(dir).insert(name, ino);
                }
            }
            8..=12 => {
                let Some(ino) = file else { return };
                let at = random.below(LARGEST);
                let data = vec![random.next() as u8 | 1; 1 + random.below(20_000) as usize];
                self.write(caller, ino, at, &data);
            }
            13 => {
                let Some(ino) = file else { return };
                let size = random.below(LARGEST);
                caller.truncate(ino, size).unwrap();
                self.in_place.insert(ino);
                if let Some(Node::File(content)) = self.nodes.get_mut(&ino) {
                    content.resize(size as usize, 0);
                }
            }
            14 => {
                let Some(ino) = file else { return };
                let size = caller.size;
                let from = random.below(LARGEST / size as u64) as u32;
                let to = from + random.below(60) as u32;
                // Both read as zeros: with blocks and without.
                if random.below(2) == 0 {
                    while !caller.act(|fs| fs.punch(ino, from, to, now)).unwrap() {}
                } else {
                    while !caller
                        .act(|fs| fs.unwrite(ino, from, to - from, now))
                        .unwrap()
                    {}
                }
                if let Some(Node::File(content)) = self.nodes.get_mut(&ino) {
                    let end = (to as usize * size).min(content.len());
                    let from = (from as usize * size).min(end);
                    content[from..end].fill(0);
                }
            }
            15 => {
                let Some(ino) = file else { return };
                let size = caller.size as u64;
                let from = random.below(LARGEST / size) as u32;
                let count = 1 + random.below(40) as u32;
                let end = u64::from(from + count) * size;
                loop {
                    match caller.act(|fs| fs.preallocate(ino, from, count, Some(end), now)) {
                        Ok(false) => {}
                        Ok(true) => break,
                        Err(Error::NoSpace) => return,
                        Err(error) => panic!("{error:?}"),
                    }
                }
                if let Some(Node::File(content)) = self.nodes.get_mut(&ino) {
                    let len = content.len().max(end as usize);
                    content.resize(len, 0);
                }
            }
            16..=18 => self.remove(caller, dir, &name, old),
            19 => {
                let Some(ino) = file else { return };
                match (caller.act(|fs| fs.link(ino, dir, &name, now)), old) {
                    (Ok(()), None) => {
                        self.names_mut(dir).insert(name, ino);
                    }
                    (Err(Error::Exists), Some(_)) | (Err(Error::NoSpace), None) => {}
                    (other, old) => panic!("{other:?} where the name is {old:?}"),
                }
            }
            20 | 21 => {
                let to = dirs[random.below(dirs.len() as u64) as usize];
                let how = [
                    Rename::Replace,
                    Rename::Replace,
                    Rename::NoReplace,
                    Rename::Exchange,
                ];
                let how = how[random.below(4) as usize];
                let new = format!("n{}", random.below(40)).into_bytes();
                self.rename(caller, (dir, name), (to, new), how);
            }
            22 => {
                let all: Vec<u32> = self.nodes.keys().copied().collect();
                let ino = all[random.below(all.len() as u64) as usize];
                let name = format!("user.a{}", random.below(5)).into_bytes();
                let value = (random.below(4) != 0)
                    .then(|| vec![random.next() as u8; random.below(150) as usize]);
                let mine = self.attributes.entry(ino).or_default();
                match caller.act(|fs| fs.set_attribute(ino, &name, value.as_deref(), None, now)) {
                    Ok(()) => match value {
                        Some(value) => drop(mine.insert(name, value)),
                        None => assert!(mine.remove(&name).is_some()),
                    },
                    Err(Error::NoAttribute) => {
                        assert!(value.is_none() && !mine.contains_key(&name))
                    }
                    Err(Error::NoSpace) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            24 | 25 => {
                let Some(ino) = file else { return };
                let size = caller.size;
                let from = random.below(LARGEST / 2 / size as u64) as u32;
                let count = 1 + random.below(20) as u32;
                self.shift(caller, ino, from, count, random.below(2) == 0);
            }
            _ => match random.below(3) {
                0 => caller.sync().unwrap(),
                1 => {
                    caller.fs.checkpoint();
                    caller.steps().unwrap();
                }
                _ => {}
            },
        }
    }

    /// Blocks go out of a file, or a hole comes into it.
    fn shift(&mut self, caller: &mut Caller, ino: u32, from: u32, count: u32, goes: bool) {
        let (now, size) = (caller.now, caller.size);
        let Some(Node::File(content)) = self.nodes.get_mut(&ino) else {
            return;
        };
        let (at, bytes) = (from as usize * size, count as usize * size);
        let to = from + count;
        if goes {
            if at + bytes >= content.len() {
                return;
            }
            while !caller.act(|fs| fs.punch(ino, from, to, now)).unwrap() {}
            let length = (content.len() - bytes) as u64;
            caller
                .act(|fs| fs.collapse(ino, from, to, length, now))
                .unwrap();
            content.drain(at..at + bytes);
            return;
        }
        let length = content.len() + bytes;
        if at >= content.len() || length > 2 * LARGEST as usize {
            return;
        }
        match caller.act(|fs| fs.insert_hole(ino, from, count, length as u64, now)) {
            Ok(()) => drop(content.splice(at..at, vec![0; bytes])),
            Err(Error::NoSpace) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    fn write(&mut self, caller: &mut Caller, ino: u32, at: u64, data: &[u8]) {
        let end = at as usize + data.len();
        match caller.write(ino, at, data) {
            Ok(()) => {
                self.in_place.insert(ino);
                if let Some(Node::File(content)) = self.nodes.get_mut(&ino) {
                    let len = content.len().max(end);
                    content.resize(len, 0);
                    content[at as usize..end].copy_from_slice(data);
                }
            }
            // A part may have been written.
            Err(Error::NoSpace) => {
                let read = caller.read(ino).unwrap();
                self.in_place.insert(ino);
                self.nodes.insert(ino, Node::File(read));
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn remove(&mut self, caller: &mut Caller, dir: u32, name: &[u8], old: Option<u32>) {
        let now = caller.now;
        let directory =
            old.is_some_and(|ino| matches!(self.nodes.get(&ino), Some(Node::Directory(_))));
        let result = if directory {
            caller.act(|fs| fs.remove_directory(dir, name, now))
        } else {
            caller.act(|fs| fs.unlink(dir, name, now))
        };
        match (result, old) {
            (Ok(gone), Some(ino)) => {
                assert_eq!(gone.ino, ino);
                self.names_mut(dir).remove(name);
                assert!(!directory || self.names(ino).is_empty());
                assert_eq!(gone.last, self.links(ino) == 0);
                self.lost_name(ino);
                if gone.last {
                    caller.finish(ino).unwrap();
                }
            }
            (Err(Error::NotFound), None) => {}
            (Err(Error::NotEmpty), Some(ino)) => assert!(!self.names(ino).is_empty()),
            (other, old) => panic!("{other:?} where the name is {old:?}"),
        }
    }

    fn rename(
        &mut self,
        caller: &mut Caller,
        from: (u32, Vec<u8>),
        to: (u32, Vec<u8>),
        how: Rename,
    ) {
        let now = caller.now;
        let result = caller.act(|fs| fs.rename((from.0, &from.1), (to.0, &to.1), how, now));
        let Some(ino) = self.names(from.0).get(&from.1).copied() else {
            return assert_eq!(result, Err(Error::NotFound));
        };
        let other = self.names(to.0).get(&to.1).copied();
        let is_dir = |ino: u32| matches!(self.nodes.get(&ino), Some(Node::Directory(_)));
        let expected = match (how, other) {
            (Rename::NoReplace, Some(_)) => Err(Error::Exists),
            (Rename::Exchange, None) => Err(Error::NotFound),
            (_, Some(other)) if other == ino => Ok(()),
            _ if is_dir(ino) && from.0 != to.0 && self.is_above(ino, to.0) => Err(Error::Invalid),
            (Rename::Exchange, Some(other))
                if is_dir(other) && from.0 != to.0 && self.is_above(other, from.0) =>
            {
                Err(Error::Invalid)
            }
            (Rename::Replace, Some(other)) if is_dir(ino) && !is_dir(other) => {
                Err(Error::NotDirectory)
            }
            (Rename::Replace, Some(other)) if !is_dir(ino) && is_dir(other) => {
                Err(Error::IsDirectory)
            }
            (Rename::Replace, Some(other)) if is_dir(other) && !self.names(other).is_empty() => {
                Err(Error::NotEmpty)
            }
            _ => Ok(()),
        };
        if result == Err(Error::NoSpace) {
            return;
        }
        assert_eq!(
            result.as_ref().map(|_| ()).map_err(|error| *error),
            expected
        );
        if expected.is_err() || other == Some(ino) {
            return;
        }
        match (how, other) {
            (Rename::Exchange, Some(other)) => {
                self.names_mut(from.0).insert(from.1, other);
                self.names_mut(to.0).insert(to.1, ino);
            }
            _ => {
                self.names_mut(from.0).remove(&from.1);
                self.names_mut(to.0).insert(to.1, ino);
                if let Some(other) = other {
                    let gone = result.unwrap().unwrap();
                    assert_eq!((gone.ino, gone.last), (other, self.links(other) == 0));
                    self.lost_name(other);
                    if gone.last {
                        caller.finish(other).unwrap();
                    }
                }
            }
        }
    }

    /// The whole tree of an image. An error says that it cannot be read.
    pub fn read(caller: &mut Caller) -> Result<World, Error> {
        let mut world = World::new();
        let mut left = vec![ROOT];
        while let Some(dir) = left.pop() {
            let mut names = BTreeMap::new();
            for (name, ino) in caller.list(dir)? {
                if [&b"."[..], b"..", b"lost+found"].contains(&name.as_slice()) {
                    continue;
                }
                assert_eq!(caller.act(|fs| fs.lookup(dir, &name))?, ino);
                names.insert(name, ino);
                if world.nodes.contains_key(&ino) {
                    continue;
                }
                let inode = caller.act(|fs| fs.inode(ino))?;
                let node = if inode.is_directory() {
                    left.push(ino);
                    Node::Directory(BTreeMap::new())
                } else if inode.is_symlink() {
                    Node::Link(caller.act(|fs| fs.read_link(ino))?)
                } else {
                    Node::File(caller.read(ino)?)
                };
                world.nodes.insert(ino, node);
            }
            world.nodes.insert(dir, Node::Directory(names));
        }
        let all: Vec<u32> = world.nodes.keys().copied().collect();
        for ino in all {
            for name in caller.act(|fs| fs.attribute_names(ino))? {
                let value = caller.act(|fs| fs.attribute(ino, &name))?;
                world.attributes.entry(ino).or_default().insert(name, value);
            }
        }
        Ok(world)
    }

    /// What differs, if something does; the contents of the files in `free` may.
    pub fn difference(&self, other: &World, free: &BTreeSet<u32>) -> Option<String> {
        for ino in self.nodes.keys().chain(other.nodes.keys()) {
            match (self.nodes.get(ino), other.nodes.get(ino)) {
                (Some(Node::File(one)), Some(Node::File(two))) => {
                    if one.len() != two.len() {
                        return Some(format!(
                            "inode {ino}: {} and {} bytes",
                            one.len(),
                            two.len()
                        ));
                    }
                    if one != two && !free.contains(ino) {
                        let at = one.iter().zip(two).position(|(a, b)| a != b);
                        return Some(format!("inode {ino}: differs at {at:?}"));
                    }
                }
                (one, two) if one != two => {
                    return Some(
                        format!("inode {ino}: {one:?} and {two:?}")
                            .chars()
                            .take(600)
                            .collect(),
                    )
                }
                _ => {}
            }
            let attributes = |world: &World| world.attributes.get(ino).cloned().unwrap_or_default();
            if attributes(self) != attributes(other) {
                return Some(format!("attributes of inode {ino}"));
            }
        }
        None
    }
}
