//! The tree as a resource manager.

use crate::system::System;
use crate::table::{rows, Dir, Row, What, Who};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, s, Stat, Statfs};
use cairn_resmgr::layout;
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Meta, Opened, Server, Text};

/// st_dev of everything here.
const DEVICE: u64 = 4;
/// PROC_SUPER_MAGIC.
const MAGIC: i64 = 0x9fa0;
/// Positions in a directory from here on are process (or thread) numbers.
const NUMBERS: u64 = 0x1_0000;
const MISSING: Failure = Failure::Errno(ENOENT);

/// A directory, or a row of the table, of a process and thread (0 where there is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Dir(Dir, Who),
    Row(usize, Who),
}

pub struct Procfs<S: System> {
    pub system: S,
    rows: Vec<Row<S>>,
}

/// What a directory or row is, and of which thread.
fn inode(what: u64, tid: u32) -> u64 {
    what | (tid as u64) << 16
}

/// Process and thread numbers are plain decimal.
fn number(name: &[u8]) -> Option<u32> {
    if !name.first()?.is_ascii_digit() || (name[0] == b'0' && name.len() > 1) {
        return None;
    }
    core::str::from_utf8(name).ok()?.parse().ok()
}

impl<S: System> Procfs<S> {
    pub fn new(system: S) -> Procfs<S> {
        Procfs {
            system,
            rows: rows(),
        }
    }

    /// The node of a row in a directory: what the row is, seen from there.
    fn node(&self, row: usize, who: Who) -> Node {
        match self.rows[row].what {
            What::Dir(dir) => Node::Dir(dir, who),
            _ => Node::Row(row, who),
        }
    }

    /// Rows of a directory; a thread has its process's texts.
    fn rows_of(&self, dir: Dir) -> impl Iterator<Item = (usize, &Row<S>)> {
        let table = if dir == Dir::Task { Dir::Process } else { dir };
        self.rows.iter().enumerate().filter(move |(_, row)| {
            row.dir == table && !(dir == Dir::Task && matches!(row.what, What::Dir(_)))
        })
    }

    /// The numbers that a directory lists, from one on.
    fn numbers(&mut self, dir: Dir, who: Who, first: u32) -> Vec<u32> {
        match dir {
            Dir::Root => self.system.pids(first),
            Dir::Tasks => {
                let mut tids = self.system.tids(who.pid);
                tids.retain(|&tid| tid >= first);
                tids
            }
            _ => Vec::new(),
        }
    }

    fn numbered(dir: Dir, who: Who, number: u32) -> Node {
        if dir == Dir::Root {
            let who = Who {
                pid: number,
                tid: number,
                asks: false,
            };
            return Node::Dir(Dir::Process, who);
        }
        Node::Dir(Dir::Task, Who { tid: number, ..who })
    }

    /// What is guarded is for who may look into the process, whatever mode and owner say. The caller is whom the nucleus names.
    fn check_guard(&mut self, node: Node, sender: u32) -> Answer<()> {
        let Node::Row(index, who) = node else {
            return Ok(());
        };
        match self.rows[index].guarded && !self.system.may_look_into(sender, who.pid) {
            true => Err(Failure::Errno(EACCES)),
            false => Ok(()),
        }
    }

    fn contents(&mut self, node: Node, sender: u32) -> Answer<Vec<u8>> {
        let Node::Row(index, mut who) = node else {
            return Ok(Vec::new());
        };
        if who.pid != 0 && matches!(self.rows[index].what, What::Text(_)) {
            who.asks = self.system.pid_of(sender) == Some(who.pid);
        }
        match self.rows[index].what {
            What::Fixed(text) => Ok(text.into()),
            What::Bytes(writer) => Ok(writer(&mut self.system, who)),
            What::Text(writer) => {
                let mut text = String::new();
                // A process may end between the lookup of its name and here.
                writer(&mut self.system, who, &mut text).ok_or(Failure::Errno(ESRCH))?;
                Ok(text.into_bytes())
            }
            What::Dir(_) | What::Link(_) | What::Elsewhere(_) => Err(Failure::Errno(EINVAL)),
        }
    }
}

impl<S: System> Server for Procfs<S> {
    type Node = Node;
    /// The text as it was when the file was opened.
    type State = Text;

    fn root(&mut self, _: u64) -> Node {
        Node::Dir(Dir::Root, Who::default())
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let (mode, who, ino) = match node {
            Node::Dir(Dir::Root, _) => (s::IFDIR | 0o555, Who::default(), 1),
            Node::Dir(dir, who) => {
                let mode = if dir == Dir::Descriptors {
                    0o500
                } else {
                    0o555
                };
                (s::IFDIR | mode, who, 2 + dir as u64)
            }
            Node::Row(index, who) => (self.rows[index].mode, who, 64 + index as u64),
        };
        let mut meta = Meta {
            mode,
            ino: inode(ino, who.tid),
            ..Meta::default()
        };
        if who.pid != 0 {
            let status = self.system.status(who.pid).ok_or(MISSING)?;
            // Of one that is not dumpable only the folders that anybody may list are its user's.
            if status.dumpable == 1 || mode == s::IFDIR | 0o555 {
                meta.uid = status.creds.euid;
                meta.gid = status.creds.egid;
            }
        }
        Ok(meta)
    }

    fn lookup(&mut self, cx: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        let Node::Dir(dir, who) = dir else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let row = self
            .rows_of(dir)
            .find(|(_, row)| row.name.as_bytes() == name);
        if let Some((row, it)) = row {
            return match it.what {
                What::Elsewhere(place) => Err(cx.redirect(place.as_bytes())),
                _ => Ok(self.node(row, who)),
            };
        }
        let number = number(name).ok_or(MISSING)?;
        // Whether a process exists is seen by the question for its owner.
        match dir {
            Dir::Root => Ok(Self::numbered(dir, who, number)),
            Dir::Tasks if self.system.tids(who.pid).contains(&number) => {
                Ok(Self::numbered(dir, who, number))
            }
            _ => Err(MISSING),
        }
    }

    fn parent(&mut self, _: &mut Context, dir: Node) -> Answer<Node> {
        let Node::Dir(dir, who) = dir else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let process = Who {
            tid: who.pid,
            ..who
        };
        Ok(match dir {
            Dir::Root | Dir::Process => Node::Dir(Dir::Root, Who::default()),
            Dir::Task => Node::Dir(Dir::Tasks, process),
            _ => {
                let is = |row: &&Row<S>| matches!(row.what, What::Dir(it) if it == dir);
                let above = self.rows.iter().find(is).map_or(Dir::Root, |row| row.dir);
                Node::Dir(above, process)
            }
        })
    }

    fn target(&mut self, cx: &mut Context, link: Node, into: &mut [u8]) -> Answer<usize> {
        let Node::Row(index, mut who) = link else {
            return Err(Failure::Errno(EINVAL));
        };
        let What::Link(writer) = self.rows[index].what else {
            return Err(Failure::Errno(EINVAL));
        };
        if who.pid == 0 {
            // `self`: whoever asks. A native component is no process.
            let pid = self.system.pid_of(cx.request.sender).unwrap_or(0);
            who = Who {
                pid,
                tid: pid,
                asks: true,
            };
        }
        self.check_guard(link, cx.request.sender)?;
        let target = writer(&mut self.system, who).ok_or(MISSING)?;
        put(&target, into)
    }

    fn path(&mut self, cx: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let (mut path, dir) = match node {
            Node::Dir(dir, who) => (String::new(), Node::Dir(dir, who)),
            Node::Row(index, who) => {
                let row = &self.rows[index];
                let dir = match row.dir {
                    Dir::Process if who.tid != who.pid => Dir::Task,
                    dir => dir,
                };
                (row.name.into(), Node::Dir(dir, who))
            }
        };
        let mut at = dir;
        while at != self.root(0) {
            let name = match at {
                Node::Dir(Dir::Process, who) => format!("{}", who.pid),
                Node::Dir(Dir::Task, who) => format!("{}", who.tid),
                Node::Dir(dir, _) => {
                    let is = |row: &&Row<S>| matches!(row.what, What::Dir(it) if it == dir);
                    self.rows.iter().find(is).map_or("", |row| row.name).into()
                }
                Node::Row(..) => break,
            };
            path = if path.is_empty() {
                name
            } else {
                format!("{name}/{path}")
            };
            at = self.parent(cx, at)?;
        }
        put(path.as_bytes(), into)
    }

    fn stat(&mut self, cx: &mut Context, node: Node) -> Answer<Stat> {
        let now = (cx.now() / 1_000_000_000) as i64;
        Ok(Stat {
            dev: DEVICE,
            blksize: 1024,
            atime: now,
            mtime: now,
            ctime: now,
            ..layout::plain_stat(&self.meta(node)?)
        })
    }

    fn statfs(&mut self, _: &mut Context, _: Node) -> Answer<Statfs> {
        Ok(Statfs {
            kind: MAGIC,
            ..layout::empty_statfs()
        })
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let Node::Dir(dir, who) = handle.node else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let mut position = position;
        let mut names: Vec<(&str, Node)> =
            [(".", handle.node), ("..", self.parent(cx, handle.node)?)].into();
        names.extend(
            self.rows_of(dir)
                .map(|(index, row)| (row.name, self.node(index, who))),
        );
        while let Some((name, node)) = names.get(position as usize) {
            let meta = self.meta(*node)?;
            if !into.add(meta.ino, position + 1, meta.mode, name.as_bytes()) {
                return Ok(position);
            }
            position += 1;
        }
        position = position.max(NUMBERS);
        loop {
            let numbers = self.numbers(dir, who, (position - NUMBERS) as u32);
            if numbers.is_empty() {
                return Ok(position);
            }
            for number in numbers {
                let ino = inode(2 + Dir::Process as u64, number);
                let next = NUMBERS + number as u64 + 1;
                if !into.add(ino, next, s::IFDIR, format!("{number}").as_bytes()) {
                    return Ok(position);
                }
                position = next;
            }
        }
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        _: u64,
        state: &mut Text,
    ) -> Answer<Opened<Node>> {
        self.check_guard(node, cx.request.sender)?;
        let text = self.contents(node, cx.request.sender)?;
        let mode = self.meta(node)?.mode;
        *state = Text::new(cx, text)?;
        Ok(Opened {
            node,
            kind: layout::default_kind(mode) | kind::SEEKABLE,
        })
    }

    fn read<'a>(
        &'a mut self,
        _: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        Ok(handle.state.read(offset, length))
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        handle.state.end(cx);
    }

    /// The host name and the limits of System V's things can be written here, by who may open the file for it.
    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        let Node::Row(index, _) = handle.node else {
            return Err(Failure::Errno(EISDIR));
        };
        let name = self.rows[index].name;
        let limits = crate::ipc::limits_of(name);
        if name != "hostname" && limits.is_empty() {
            return Err(Failure::Errno(EACCES));
        }
        let most = if name == "hostname" { 65 } else { 128 };
        let mut text = [0; 128];
        let text = text[..most]
            .get_mut(..length)
            .ok_or(Failure::Errno(EINVAL))?;
        cx.fetch(0, text)?;
        let done = match name {
            "hostname" => self.system.set_host_name(text.trim_ascii_end()),
            _ => crate::ipc::set_limits(&mut self.system, limits, text),
        };
        done.map_err(Failure::Errno)?;
        Ok(length)
    }

    fn truncate(&mut self, _: &mut Context, _: Node, _: u64) -> Answer<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
