//! What was looked up: a node for each file or folder that somebody asked for, by its place in the list. The library knows names only, so a node is its folder and its name; where the library has to be asked for a file again and again it stays open.

use crate::clock::Clock;
use crate::store::{Lines, Store};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use fatfs::LossyOemCpConverter;

pub type File<L> = fatfs::File<'static, Store<L>, Clock, LossyOemCpConverter>;
pub type Index = u32;
pub const ROOT: Index = 0;

pub struct Node<L: Lines + 'static> {
    pub parent: Index,
    pub name: String,
    pub directory: bool,
    pub read_only: bool,
    pub size: u64,
    /// Seconds since 1970: last access (a day), last change, creation.
    pub times: [i64; 3],
    pub opens: u32,
    pub file: Option<File<L>>,
    /// It has no name any more; its place can be another's.
    pub gone: bool,
}

pub struct Nodes<L: Lines + 'static> {
    all: Vec<Node<L>>,
    /// Those that have a name, by folder and name in capitals.
    names: BTreeMap<(Index, String), Index>,
    /// Those that can be others.
    free: Vec<Index>,
}

impl<L: Lines> Default for Nodes<L> {
    fn default() -> Nodes<L> {
        let root = Node {
            parent: ROOT,
            name: String::new(),
            directory: true,
            read_only: false,
            size: 0,
            times: [0; 3],
            opens: 0,
            file: None,
            gone: false,
        };
        Nodes {
            all: alloc::vec![root],
            names: BTreeMap::new(),
            free: Vec::new(),
        }
    }
}

impl<L: Lines> Nodes<L> {
    pub fn get(&mut self, index: Index) -> Option<&mut Node<L>> {
        self.all.get_mut(index as usize)
    }

    /// The node of this name, ignoring case.
    pub fn find(&self, parent: Index, name: &str) -> Option<Index> {
        self.names.get(&(parent, capitals(name))).copied()
    }

    pub fn add(&mut self, node: Node<L>) -> Index {
        let key = (node.parent, capitals(&node.name));
        let place = match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = node;
                place
            }
            None => {
                self.all.push(node);
                self.all.len() as Index - 1
            }
        };
        self.names.insert(key, place);
        place
    }

    /// Its name is another, in whatever folder.
    pub fn rename(&mut self, index: Index, parent: Index, name: &str) {
        self.forget_name(index);
        let node = &mut self.all[index as usize];
        (node.parent, node.name) = (parent, String::from(name));
        self.names.insert((parent, capitals(name)), index);
    }

    /// It has no name any more, and nobody has it open.
    pub fn remove(&mut self, index: Index) {
        self.forget_name(index);
        self.all[index as usize].gone = true;
        self.free.push(index);
    }

    fn forget_name(&mut self, index: Index) {
        let node = &self.all[index as usize];
        self.names.remove(&(node.parent, capitals(&node.name)));
    }

    /// The path below the root, without leading slash.
    pub fn path(&self, mut index: Index) -> String {
        let mut names = Vec::new();
        while let Some(node) = self.all.get(index as usize).filter(|_| index != ROOT) {
            names.push(node.name.as_str());
            index = node.parent;
        }
        names.reverse();
        names.join("/")
    }

    pub fn all(&mut self) -> impl Iterator<Item = &mut Node<L>> {
        self.all.iter_mut()
    }
}

/// FAT ignores the case of names.
pub fn same_name(a: &str, b: &str) -> bool {
    let both = a.chars().flat_map(char::to_uppercase);
    both.eq(b.chars().flat_map(char::to_uppercase))
}

fn capitals(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).collect()
}
