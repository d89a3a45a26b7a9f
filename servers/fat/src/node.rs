//! What was looked up: a node for each file or folder that somebody asked for, by its place in the list. The library knows names only, so a node is its folder and its name; where the library has to be asked for a file again and again it stays open.

use crate::clock::Clock;
use crate::store::{Lines, Store};
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
    /// It has no name any more; the place can be another's when nobody has it open.
    pub gone: bool,
}

pub struct Nodes<L: Lines + 'static>(Vec<Node<L>>);

impl<L: Lines> Default for Nodes<L> {
    fn default() -> Nodes<L> {
        Nodes(alloc::vec![Node {
            parent: ROOT,
            name: String::new(),
            directory: true,
            read_only: false,
            size: 0,
            times: [0; 3],
            opens: 0,
            file: None,
            gone: false,
        }])
    }
}

impl<L: Lines> Nodes<L> {
    pub fn get(&mut self, index: Index) -> Option<&mut Node<L>> {
        self.0.get_mut(index as usize)
    }

    /// The node of this name, ignoring case.
    pub fn find(&self, parent: Index, name: &str) -> Option<Index> {
        let same =
            |node: &Node<L>| node.parent == parent && !node.gone && same_name(&node.name, name);
        let found = self.0.iter().skip(1).position(same)?;
        Some(found as Index + 1)
    }

    pub fn add(&mut self, node: Node<L>) -> Index {
        let free = |node: &Node<L>| node.gone && node.opens == 0;
        match self.0.iter().position(free) {
            Some(place) => {
                self.0[place] = node;
                place as Index
            }
            None => {
                self.0.push(node);
                self.0.len() as Index - 1
            }
        }
    }

    /// The path below the root, without leading slash.
    pub fn path(&self, mut index: Index) -> String {
        let mut names = Vec::new();
        while let Some(node) = self.0.get(index as usize).filter(|_| index != ROOT) {
            names.push(node.name.as_str());
            index = node.parent;
        }
        names.reverse();
        names.join("/")
    }

    pub fn all(&mut self) -> impl Iterator<Item = &mut Node<L>> {
        self.0.iter_mut()
    }
}

/// FAT ignores the case of names.
pub fn same_name(a: &str, b: &str) -> bool {
    let both = a.chars().flat_map(char::to_uppercase);
    both.eq(b.chars().flat_map(char::to_uppercase))
}
