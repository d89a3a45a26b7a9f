//! A ready-made server: a tree of folders, links, and files whose contents a program keeps and this module serves.
//!
//! ```
//! # use cairn_resmgr::Tree;
//! struct Lamp { brightness: u8 }
//! let tree = Tree::new(Lamp { brightness: 3 })
//!     .file("model", 0o444, |_| b"lamp 1\n".to_vec())
//!     .writable(
//!         "light/brightness",
//!         0o644,
//!         |lamp| lamp.brightness.to_string().into_bytes(),
//!         |lamp, text| {
//!             lamp.brightness = text.first().copied().unwrap_or(0);
//!             Ok(())
//!         },
//!     )
//!     .link("b", "light/brightness");
//! ```
//!
//! The tree is built once, before it is served; names are found in logarithmic time. A reader gets the contents as they were when it first read the file or last read
//! its beginning, so what it reads in pieces fits together. They are charged to it.

use crate::layout;
use crate::server::{put, Answer};
use crate::{Access, Context, Data, Dirents, Failure, Handle, Meta, Opened, Server, Snapshot};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{o, s};

/// Longest contents that a program can give a file.
pub const MOST: usize = 0x1_0000;

/// What a file contains now.
pub type Read<C> = fn(&mut C) -> Vec<u8>;
/// A program gives a file new contents, or an errno refuses them. O_TRUNC gives it empty ones first.
pub type Write<C> = fn(&mut C, &[u8]) -> Result<(), i64>;

enum What<C> {
    /// Names, and the same nodes in the order in which they were added.
    Directory(BTreeMap<String, usize>, Vec<usize>),
    File(Read<C>, Option<Write<C>>),
    Link(String),
}

struct Node<C> {
    name: String,
    above: usize,
    mode: u32,
    what: What<C>,
}

/// Serves `content`, which its files are about.
pub struct Tree<C> {
    pub content: C,
    nodes: Vec<Node<C>>,
}

const ROOT: usize = 0;
/// Positions in a directory: `.`, `..`, and from here on its nodes by their numbers.
const FIRST: u64 = 2;

impl<C> Tree<C> {
    pub fn new(content: C) -> Tree<C> {
        let root = Node {
            name: String::new(),
            above: ROOT,
            mode: s::IFDIR | 0o755,
            what: What::Directory(BTreeMap::new(), Vec::new()),
        };
        Tree {
            content,
            nodes: [root].into(),
        }
    }

    /// A file that is only read.
    pub fn file(self, path: &str, mode: u32, read: Read<C>) -> Tree<C> {
        self.add(path, s::IFREG | mode, What::File(read, None))
    }

    /// A file that can be written as well, by whom `mode` lets.
    pub fn writable(self, path: &str, mode: u32, read: Read<C>, write: Write<C>) -> Tree<C> {
        self.add(path, s::IFREG | mode, What::File(read, Some(write)))
    }

    /// A symbolic link.
    pub fn link(self, path: &str, target: &str) -> Tree<C> {
        self.add(path, s::IFLNK | 0o777, What::Link(target.into()))
    }

    /// A folder with this mode; those that only paths of other nodes name have 0755.
    pub fn folder(mut self, path: &str, mode: u32) -> Tree<C> {
        let mut at = ROOT;
        for name in path.split('/') {
            at = self.below(at, name);
        }
        self.nodes[at].mode = s::IFDIR | mode;
        self
    }

    fn add(mut self, path: &str, mode: u32, what: What<C>) -> Tree<C> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut dir = ROOT;
        for name in above.split('/').filter(|name| !name.is_empty()) {
            dir = self.below(dir, name);
        }
        self.insert(dir, name, mode, what);
        self
    }

    /// The folder of this name, which is made if there is none.
    fn below(&mut self, dir: usize, name: &str) -> usize {
        match self.find(dir, name) {
            Some(node) => node,
            None => {
                let folder = What::Directory(BTreeMap::new(), Vec::new());
                self.insert(dir, name, s::IFDIR | 0o755, folder)
            }
        }
    }

    fn insert(&mut self, dir: usize, name: &str, mode: u32, what: What<C>) -> usize {
        let node = self.nodes.len();
        let What::Directory(names, order) = &mut self.nodes[dir].what else {
            panic!("{name}: what it shall be in is no folder");
        };
        assert!(
            !matches!(name, "" | "." | "..") && names.insert(name.into(), node).is_none(),
            "{name}: no name, or there already"
        );
        order.push(node);
        self.nodes.push(Node {
            name: name.into(),
            above: dir,
            mode,
            what,
        });
        node
    }

    fn find(&self, dir: usize, name: &str) -> Option<usize> {
        match &self.nodes[dir].what {
            What::Directory(names, _) => names.get(name).copied(),
            _ => None,
        }
    }

    fn contents(&mut self, node: usize) -> Vec<u8> {
        match self.nodes[node].what {
            What::File(read, _) => read(&mut self.content),
            _ => Vec::new(),
        }
    }

    fn give(&mut self, node: usize, contents: &[u8]) -> Answer<()> {
        match self.nodes[node].what {
            What::File(_, Some(write)) => {
                write(&mut self.content, contents).map_err(Failure::Errno)
            }
            _ => Err(Failure::Errno(EACCES)),
        }
    }

    /// The contents with this length, as they shall be.
    fn resized(&mut self, node: usize, length: usize) -> Answer<Vec<u8>> {
        if length > MOST {
            return Err(Failure::Errno(EFBIG));
        }
        let mut contents = self.contents(node);
        contents.resize(length, 0);
        Ok(contents)
    }
}

impl<C> Server for Tree<C> {
    type Node = usize;
    type State = Snapshot;

    fn root(&mut self, _: u64) -> usize {
        ROOT
    }

    fn meta(&mut self, node: usize) -> Answer<Meta> {
        let size = match &self.nodes[node].what {
            What::Directory(..) => 0,
            What::File(..) => self.contents(node).len(),
            What::Link(target) => target.len(),
        };
        Ok(Meta {
            mode: self.nodes[node].mode,
            ino: node as u64 + 1,
            size: size as u64,
            ..Meta::default()
        })
    }

    fn access(&mut self, node: usize) -> Answer<Access> {
        Ok(Access {
            mode: self.nodes[node].mode,
            ..Access::default()
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: usize, name: &[u8]) -> Answer<usize> {
        let name = core::str::from_utf8(name).ok();
        name.and_then(|name| self.find(dir, name))
            .ok_or(Failure::Errno(ENOENT))
    }

    fn parent(&mut self, _: &mut Context, dir: usize) -> Answer<usize> {
        Ok(self.nodes[dir].above)
    }

    fn target(&mut self, _: &mut Context, link: usize, into: &mut [u8]) -> Answer<usize> {
        match &self.nodes[link].what {
            What::Link(target) => put(target.as_bytes(), into),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    fn path(&mut self, _: &mut Context, node: usize, into: &mut [u8]) -> Answer<usize> {
        let mut names = Vec::new();
        let mut at = node;
        while at != ROOT {
            names.push(&self.nodes[at].name[..]);
            at = self.nodes[at].above;
        }
        names.reverse();
        put(names.join("/").as_bytes(), into)
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        mut position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let What::Directory(_, order) = &self.nodes[handle.node].what else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let dots = [(".", handle.node), ("..", self.nodes[handle.node].above)];
        for (name, node) in dots.into_iter().skip(position as usize) {
            if !into.add(node as u64 + 1, position + 1, s::IFDIR, name.as_bytes()) {
                return Ok(position);
            }
            position += 1;
        }
        let first = order.partition_point(|&node| FIRST + (node as u64) < position);
        for &node in &order[first..] {
            let (next, it) = (FIRST + node as u64 + 1, &self.nodes[node]);
            if !into.add(node as u64 + 1, next, it.mode, it.name.as_bytes()) {
                break;
            }
            position = next;
        }
        Ok(position)
    }

    fn open(
        &mut self,
        _: &mut Context,
        node: usize,
        flags: u64,
        _: &mut Snapshot,
    ) -> Answer<Opened<usize>> {
        // User 0 passes the permission bits.
        if flags & o::ACCMODE != o::RDONLY && matches!(self.nodes[node].what, What::File(_, None)) {
            return Err(Failure::Errno(EACCES));
        }
        let kind = layout::default_kind(self.nodes[node].mode);
        Ok(Opened { node, kind })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let contents = || Ok(self.contents(handle.node));
        handle.state.read(cx, offset, length, contents)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = from.saturating_add(length);
        let now = self.contents(handle.node).len();
        let mut contents = self.resized(handle.node, now.max(end))?;
        cx.fetch(0, &mut contents[from..end])?;
        self.give(handle.node, &contents)?;
        Ok(length)
    }

    fn truncate(&mut self, _: &mut Context, node: usize, size: u64) -> Answer<()> {
        let contents = self.resized(node, usize::try_from(size).unwrap_or(usize::MAX))?;
        self.give(node, &contents)
    }

    fn close(&mut self, cx: &mut Context, mut handle: Handle<Self>) {
        handle.state.end(cx);
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
