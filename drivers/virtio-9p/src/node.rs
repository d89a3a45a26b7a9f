//! Files that somebody asked for. A node has a number that no other one gets after it; what tells files apart on the other side is their `path` (there an
//! inode).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_ninep::Attributes;

pub type Index = u64;
pub const ROOT: Index = 0;
/// Nodes that are kept although nobody uses them.
const MOST: usize = 4096;

#[derive(Clone, Debug)]
pub struct Node {
    pub parent: Index,
    pub name: Vec<u8>,
    /// By which the other side knows it.
    pub file: u32,
    /// As they were seen last, and in which run of a request.
    pub about: Attributes,
    pub seen: u64,
    /// When it was last needed.
    pub used: u64,
    pub opens: u32,
    /// Nodes below it.
    pub below: u32,
    /// It has no name any more that is known.
    pub gone: bool,
    /// As what a successor would find it.
    pub kept: Option<u64>,
    /// Programs have it mapped.
    pub mapped: Option<cairn_cache::File>,
}

#[derive(Default)]
pub struct Nodes {
    all: BTreeMap<Index, Node>,
    names: BTreeMap<(Index, Vec<u8>), Index>,
    paths: BTreeMap<u64, Index>,
    next: Index,
}

impl Nodes {
    pub fn new(root: Node) -> Nodes {
        let mut nodes = Nodes {
            next: ROOT + 1,
            ..Nodes::default()
        };
        nodes.paths.insert(root.about.qid.path, ROOT);
        nodes.all.insert(ROOT, root);
        nodes
    }

    pub fn get(&mut self, index: Index) -> Option<&mut Node> {
        self.all.get_mut(&index)
    }

    pub fn named(&self, parent: Index, name: &[u8]) -> Option<Index> {
        self.names.get(&(parent, name.to_vec())).copied()
    }

    pub fn with_path(&self, path: u64) -> Option<Index> {
        self.paths.get(&path).copied()
    }

    pub fn add(&mut self, node: Node) -> Index {
        let index = self.next;
        self.next += 1;
        self.names.insert((node.parent, node.name.clone()), index);
        self.paths.insert(node.about.qid.path, index);
        if let Some(parent) = self.all.get_mut(&node.parent) {
            parent.below += 1;
        }
        self.all.insert(index, node);
        index
    }

    /// It is called so now.
    pub fn rename(&mut self, index: Index, parent: Index, name: &[u8]) {
        self.forget_name(index);
        if let Some(node) = self.all.get_mut(&index) {
            (node.parent, node.name) = (parent, name.to_vec());
            node.gone = false;
            self.names.insert((parent, name.to_vec()), index);
            if let Some(parent) = self.all.get_mut(&parent) {
                parent.below += 1;
            }
        }
    }

    /// Nothing is known to be called so; what was has no name.
    pub fn forget_name(&mut self, index: Index) {
        let Some(node) = self.all.get_mut(&index).filter(|node| !node.gone) else {
            return;
        };
        node.gone = true;
        let (parent, key) = (node.parent, (node.parent, node.name.clone()));
        if self.names.get(&key) == Some(&index) {
            self.names.remove(&key);
        }
        if let Some(parent) = self.all.get_mut(&parent) {
            parent.below = parent.below.saturating_sub(1);
        }
    }

    /// The file is another one's than the node's, or there is none: it is found no more.
    pub fn lose(&mut self, index: Index) {
        self.forget_name(index);
        if let Some(node) = self.all.get(&index) {
            if self.paths.get(&node.about.qid.path) == Some(&index) {
                self.paths.remove(&node.about.qid.path);
            }
        }
    }

    /// If nobody uses it: its file, which is to be ended.
    pub fn drop_unused(&mut self, index: Index) -> Option<u32> {
        let node = self.all.get(&index)?;
        if index == ROOT || node.opens != 0 || node.below != 0 || node.mapped.is_some() {
            return None;
        }
        self.lose(index);
        self.all.remove(&index).map(|node| node.file)
    }

    /// If there are too many: files of such as nobody uses and nobody has needed since.
    pub fn surplus(&mut self, since: u64) -> Vec<u32> {
        if self.all.len() <= MOST {
            return Vec::new();
        }
        let unused = self.all.iter().filter(|(_, node)| node.used < since);
        let unused: Vec<Index> = unused.map(|(index, _)| *index).collect();
        let ended = unused.into_iter().rev();
        ended.filter_map(|index| self.drop_unused(index)).collect()
    }

    /// The path below the root; None: it has none.
    pub fn path(&self, mut index: Index) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        while index != ROOT {
            let node = self.all.get(&index).filter(|node| !node.gone)?;
            // No tree is as deep.
            if names.len() > 4096 {
                return None;
            }
            names.push(node.name.as_slice());
            index = node.parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// All that a successor is to find: each with its `path` on the other side, and its name.
    pub fn kept(&self) -> impl Iterator<Item = (u64, u64, Option<Vec<u8>>)> + '_ {
        let kept = self
            .all
            .iter()
            .filter_map(|(i, node)| Some((i, node, node.kept?)));
        kept.map(|(&i, node, identity)| (identity, node.about.qid.path, self.path(i)))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.all.len()
    }
}
