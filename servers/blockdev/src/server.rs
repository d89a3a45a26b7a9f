//! The manager of `block:`. Its root has what /dev shows of disks: their names, and the directory `disk` with what they are called. A name
//! `MAJOR:MINOR`, which device nodes of other file systems lead to, is that disk as well.

use crate::disk::Disks;
use crate::links::{By, ALL};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::device::{self, LOOP_CONTROL, LOOP_CONTROL_NAME};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, kind, poll, s, Stat};
use cairn_resmgr::layout::{self, makedev};
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::{
    Context, Data, Dirents, Failure, Handle, Meta, Opened, Readiness, Server, Transport,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Root,
    /// A disk or partition.
    Disk(usize),
    /// `/dev/loop-control`.
    Control,
    /// The directory `disk`, a directory there, and a name in it.
    Directory,
    Names(By),
    Name(By, usize),
}

const DIRECTORY: &str = "disk";
/// Inodes of the disks' names; the one before them is their directory's.
const NAMES_INO: u64 = 0x100;
/// Debian's group of disks.
const GROUP_DISK: u32 = 6;

/// Nobody waits.
const KEY: u64 = 1;

pub struct Blockdev {
    disks: Disks,
    /// Start of the system, for stat.
    born: i64,
}

impl Blockdev {
    /// For these disks, at this time (seconds since 1970).
    pub fn new(born: i64, disks: Disks) -> Blockdev {
        Blockdev { disks, born }
    }

    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    fn named(&self, name: &[u8]) -> Answer<Node> {
        let number = layout::device_number(name);
        let is = |(major, minor)| number == Some(makedev(major, minor));
        let mut parts = self.disks.there();
        let found = parts.find(|(_, part)| part.name.as_bytes() == name || is(part.numbers));
        match found {
            Some((part, _)) => Ok(Node::Disk(part)),
            None if self.disks.has_loops()
                && (name == LOOP_CONTROL_NAME.as_bytes()
                    || number == Some(device::number(LOOP_CONTROL))) =>
            {
                Ok(Node::Control)
            }
            None if name == DIRECTORY.as_bytes() && self.has_names() => Ok(Node::Directory),
            // A device node of another file system may name what has no driver.
            None if number.is_some() => Err(Failure::Errno(ENXIO)),
            None => Err(Failure::Errno(ENOENT)),
        }
    }

    /// Without disks there is no directory of their names.
    fn has_names(&self) -> bool {
        self.disks.has_others()
    }

    /// Those below `disk`: each has a name at least.
    fn directories(&self) -> Vec<By> {
        let all = ALL.into_iter().map(|(by, _)| by);
        all.filter(|by| !self.disks.links(*by).is_empty()).collect()
    }

    /// Where a name of a disk leads.
    fn led_to(&self, part: usize) -> Option<String> {
        let part = self.disks.parts().get(part)?;
        Some(format!("../../{}", part.name))
    }

    fn children(&mut self, cx: &mut Context, dir: Node) -> Answer<Vec<(String, Node)>> {
        Ok(match dir {
            Node::Root => {
                let names = self
                    .has_names()
                    .then(|| (DIRECTORY.into(), Node::Directory));
                let disks = self.disks.there();
                let disks = disks.map(|(at, part)| (part.name.clone(), Node::Disk(at)));
                let control = self
                    .disks
                    .has_loops()
                    .then(|| (LOOP_CONTROL_NAME.into(), Node::Control));
                names.into_iter().chain(disks).chain(control).collect()
            }
            Node::Directory => {
                self.disks.look(cx)?;
                let all = self.directories().into_iter();
                all.map(|by| (by.name().into(), Node::Names(by))).collect()
            }
            Node::Names(by) => {
                self.disks.look(cx)?;
                let links = self.disks.links(by).into_iter();
                links
                    .map(|(name, part)| (name, Node::Name(by, part)))
                    .collect()
            }
            Node::Disk(_) | Node::Control | Node::Name(..) => Vec::new(),
        })
    }
}

impl Server for Blockdev {
    type Node = Node;
    type State = ();

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let directory = Meta {
            mode: s::IFDIR | 0o755,
            ino: 1,
            ..Meta::default()
        };
        let missing = Failure::Errno(ENOENT);
        match node {
            Node::Root => Ok(directory),
            Node::Directory => Ok(Meta {
                ino: NAMES_INO - 1,
                ..directory
            }),
            Node::Names(by) => Ok(Meta {
                ino: NAMES_INO + by as u64,
                ..directory
            }),
            Node::Name(by, part) => Ok(Meta {
                mode: s::IFLNK | 0o777,
                ino: NAMES_INO + (by as u64 + 1) * 0x1000 + part as u64,
                size: self.led_to(part).ok_or(missing)?.len() as u64,
                ..directory
            }),
            Node::Control => {
                let rdev = device::number(LOOP_CONTROL);
                Ok(Meta {
                    mode: s::IFCHR | 0o660,
                    ino: device::inode(rdev),
                    rdev,
                    gid: GROUP_DISK,
                    ..directory
                })
            }
            Node::Disk(part) => {
                let (major, minor) = self.disks.parts().get(part).ok_or(missing)?.numbers;
                let rdev = makedev(major, minor);
                Ok(Meta {
                    mode: s::IFBLK | 0o660,
                    ino: device::inode(rdev),
                    rdev,
                    // Not in stat, but as where seeking finds the end.
                    size: self.disks.size(part),
                    gid: GROUP_DISK,
                    ..directory
                })
            }
        }
    }

    fn lookup(&mut self, cx: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        let missing = Failure::Errno(ENOENT);
        match dir {
            Node::Root => self.named(name),
            Node::Directory => {
                self.disks.look(cx)?;
                let mut there = self.directories().into_iter();
                let found = there.find(|by| by.name().as_bytes() == name);
                found.map(Node::Names).ok_or(missing)
            }
            Node::Names(by) => {
                self.disks.look(cx)?;
                let mut links = self.disks.links(by).into_iter();
                let found = links.find(|(it, _)| it.as_bytes() == name);
                Ok(Node::Name(by, found.ok_or(missing)?.1))
            }
            Node::Disk(_) | Node::Control | Node::Name(..) => Err(Failure::Errno(ENOTDIR)),
        }
    }

    fn parent(&mut self, cx: &mut Context, dir: Node) -> Answer<Node> {
        match dir {
            Node::Names(_) => Ok(Node::Directory),
            Node::Directory => Err(cx.redirect(b"/dev")),
            _ => Ok(Node::Root),
        }
    }

    fn target(&mut self, _: &mut Context, link: Node, into: &mut [u8]) -> Answer<usize> {
        let Node::Name(_, part) = link else {
            return Err(Failure::Errno(EINVAL));
        };
        let target = self.led_to(part).ok_or(Failure::Errno(ENOENT))?;
        put(target.as_bytes(), into)
    }

    fn path(&mut self, _: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let name = match node {
            Node::Disk(part) => self.disks.parts()[part].name.clone(),
            Node::Control => LOOP_CONTROL_NAME.into(),
            Node::Directory => DIRECTORY.into(),
            Node::Names(by) => format!("{DIRECTORY}/{}", by.name()),
            Node::Name(by, part) => {
                let links = self.disks.links(by).into_iter();
                let found = links
                    .map(|(name, at)| (at, name))
                    .find(|(at, _)| *at == part);
                let (_, name) = found.ok_or(Failure::Errno(ENOENT))?;
                format!("{DIRECTORY}/{}/{name}", by.name())
            }
            Node::Root => String::new(),
        };
        put(name.as_bytes(), into)
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        Ok(Stat {
            size: match node {
                Node::Disk(_) => 0,
                _ => meta.size as i64,
            },
            ..layout::device_stat(&meta, self.born)
        })
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let dir = handle.node;
        let above = match dir {
            Node::Names(_) => Node::Directory,
            _ => Node::Root,
        };
        let mut list = vec![(String::from("."), dir), (String::from(".."), above)];
        list.extend(self.children(cx, dir)?);
        let all = list.iter().map(|(name, node)| {
            let meta = self.meta(*node)?;
            Ok((meta.ino, meta.mode, name.as_bytes()))
        });
        into.add_from(position, all)
    }

    fn open(&mut self, _: &mut Context, node: Node, _: u64, (): &mut ()) -> Answer<Opened<Node>> {
        let plain = kind::ALWAYS_READY | kind::SEEKABLE;
        let kind = match node {
            Node::Disk(_) => plain | kind::BORROWS,
            Node::Control => kind::ALWAYS_READY,
            _ => plain | kind::DIRECTORY,
        };
        Ok(Opened { node, kind })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let Node::Disk(part) = handle.node else {
            return Err(Failure::Errno(EINVAL));
        };
        self.disks.read(cx, part, offset, length).map(Data::stored)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let Node::Disk(part) = handle.node else {
            return Err(Failure::Errno(EINVAL));
        };
        self.disks.write(cx, part, offset, length)
    }

    fn sync(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        match handle.node {
            Node::Disk(part) => self.disks.sync(cx, part),
            _ => Ok(()),
        }
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        let is_about_file = match handle.node {
            Node::Disk(part) => self.disks.takes_file(part, request),
            _ => false,
        };
        if cx.request.portals == 1 && !is_about_file {
            cx.close_passed();
            return Err(Failure::Errno(EINVAL));
        }
        match handle.node {
            Node::Disk(part) => {
                let writable = handle.writable();
                self.disks.ioctl(cx, part, (request, argument), writable)
            }
            Node::Control => self.disks.control_ioctl(cx, request, argument),
            _ => Err(Failure::Errno(ENOTTY)),
        }
    }

    /// The file of a loop device.
    fn takes(&self, operation: u64) -> usize {
        usize::from(operation == fs::IOCTL)
    }

    fn retain(&mut self, node: Node) {
        if let Node::Disk(part) = node {
            self.disks.hold(part, true);
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        self.disks.closed(cx, handle.badge);
        if let Node::Disk(part) = handle.node {
            self.disks.hold(part, false);
            self.disks.loops_rang(cx);
            if handle.writable() {
                self.disks.may_have_changed(part);
            }
        }
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        self.disks.pulse(cx, pulse);
    }

    fn lent(&mut self, transport: &mut dyn Transport, token: Token, loan: Portal) -> bool {
        self.disks.lent(transport, token, loan);
        true
    }

    /// What a disk has begun is waited for, as on Linux.
    fn interruptible(&self, _: u64, progress: u64) -> bool {
        progress == 0
    }

    fn cancelled(&mut self, cx: &mut Context) {
        self.disks.cancelled(cx);
    }

    /// O_TRUNC and truncate mean nothing to a device.
    fn truncate(&mut self, _: &mut Context, _: Node, _: u64) -> Answer<()> {
        Err(Failure::Errno(EINVAL))
    }

    fn poll(&mut self, _: &mut Context, _: &mut Handle<Self>) -> Answer<Readiness> {
        Ok(Readiness {
            ready: poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM,
            keys: [KEY; 2],
        })
    }

    fn tick(&mut self, cx: &mut Context) {
        self.disks.tick(cx);
    }
}
