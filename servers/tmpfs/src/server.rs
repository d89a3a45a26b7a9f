//! The tree: names, attributes, creation, removal and renaming, as the framework asks for them.

use crate::data;
use crate::directory::{self, Directory, Seed};
use crate::gone::{self, Gone};
use crate::inode::{self, tag, Dir, File, Inode, Inodes, Kind, Time};
use crate::options::Options;
use crate::pool::{Memory, Pool, PAGE};
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, kind, o, s, Stat, Statfs, HANDLE_MAX, NAME_MAX};
use cairn_idl::mounts::mount;
use cairn_resmgr::context::decimal;
use cairn_resmgr::server::{Answer, Shown};
use cairn_resmgr::{
    Access, Change, Context, Data, Dirents, Failure, Handle, Meta, New, Opened, Rename, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::Portal;

/// `st_dev` of everything here, if nothing else is said.
pub const ST_DEV: u64 = 2;
/// Linux's TMPFS_MAGIC.
const MAGIC: i64 = 0x0102_1994;
/// Positions in a directory: 0 and 1 are `.` and `..`, 2 is before the newest entry, `AFTER - sequence` is behind an entry.
const AFTER: u64 = 1 << 62;

/// Where the root of a mount of its own has its name: nowhere.
const TREE: (u32, u64) = (u32::MAX, 0);
/// Names that are taken away at once.
const FALL: usize = 4;

/// The file system.
pub struct Tmpfs<M: Memory> {
    pub(crate) inodes: Inodes,
    pub pool: Pool<M>,
    /// Most nodes, if there is a limit beside memory.
    nodes: Option<usize>,
    seed: Seed,
    pub st_dev: u64,
    /// Set-id bits of files count.
    pub gives_ids: bool,
    /// Of one of mount(2): called when it was unmounted and the answer is on its way.
    pub end: Option<fn()>,
    ended: bool,
    /// Folders that are to go with all that is in them, each in the one before it: bit by bit, when nobody waits.
    falling: Vec<u32>,
    /// Where open nodes without a name had their last one.
    gone: Gone,
}

pub(crate) fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

impl<M: Memory> Tmpfs<M> {
    /// Only a root directory (mode 0755, made at `now`).
    pub fn new(pool: Pool<M>, now: Time) -> Tmpfs<M> {
        let mut inodes = Inodes::default();
        let kind = Kind::Directory(Box::default());
        if let Some((root, inode)) = inodes.insert(s::IFDIR | 0o755, kind, now) {
            inode.names = 1;
            if let Kind::Directory(dir) = &mut inode.kind {
                dir.parent = root;
                dir.parent_ino = inode.ino;
            }
        }
        Tmpfs {
            inodes,
            pool,
            nodes: None,
            seed: Seed::default(),
            st_dev: ST_DEV,
            gives_ids: true,
            end: None,
            ended: false,
            falling: Vec::new(),
            gone: Gone::default(),
        }
    }

    /// Hashes of names begin with this. (Before there are any.)
    pub fn seed(&mut self, seed: Seed) {
        self.seed = seed;
        if let Ok(root) = self.dir_mut(0) {
            root.names = Directory::new(seed);
        }
    }

    /// Bytes that are charged to a user, counted anew.
    #[cfg(test)]
    pub(crate) fn charged_to(&self, uid: u32) -> usize {
        let of = |inode: &Inode| {
            let own = match inode.payer == uid {
                true => inode.cost(),
                false => 0,
            };
            let below = match &inode.kind {
                Kind::File(file) => {
                    let pages = file.content.pages();
                    let its = pages.filter(|&page| self.pool.payer(page) == uid);
                    its.count() * PAGE
                }
                Kind::Directory(dir) => dir.names.cost_of(uid),
                _ => 0,
            };
            own + below + inode.attributes.cost_of(uid)
        };
        self.inodes.all().map(of).sum::<usize>() + self.pool.ending_of(uid) * PAGE
    }

    /// What mount(2) says of nodes and of the root. (The pool knows the size.)
    pub fn set(&mut self, options: &Options) {
        self.nodes = Some(options.nodes);
        if let Some(root) = self.inodes.get_mut(0) {
            root.mode = s::IFDIR | options.mode;
            root.uid = options.uid;
            root.gid = options.gid;
        }
    }

    pub(crate) fn inode(&self, node: u32) -> Answer<&Inode> {
        self.inodes.get(node).ok_or(Failure::Errno(EIO))
    }

    pub(crate) fn inode_mut(&mut self, node: u32) -> Answer<&mut Inode> {
        self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))
    }

    fn dir(&self, node: u32) -> Answer<&Dir> {
        match &self.inode(node)?.kind {
            Kind::Directory(dir) => Ok(dir),
            _ => fail(ENOTDIR),
        }
    }

    fn dir_mut(&mut self, node: u32) -> Answer<&mut Dir> {
        match &mut self.inode_mut(node)?.kind {
            Kind::Directory(dir) => Ok(dir),
            _ => fail(ENOTDIR),
        }
    }

    /// Make a node without a name.
    #[inline]
    pub(crate) fn new_inode(&mut self, new: &New, now: Time) -> Answer<u32> {
        let made = match new.mode & s::IFMT {
            s::IFREG => self
                .inodes
                .insert(new.mode, Kind::File(File::default()), now),
            _ => self.new_other(new, now),
        };
        let (node, inode) = made.ok_or(Failure::Errno(ENOSPC))?;
        inode.uid = new.uid;
        inode.gid = new.gid;
        Ok(node)
    }

    #[inline(never)]
    fn new_other(&mut self, new: &New, now: Time) -> Option<(u32, &mut Inode)> {
        let kind = match new.mode & s::IFMT {
            s::IFDIR => Kind::Directory(Box::new(Dir {
                names: Directory::new(self.seed),
                ..Dir::default()
            })),
            s::IFLNK => Kind::Link(new.target.into()),
            _ => Kind::Special,
        };
        let (node, inode) = self.inodes.insert(new.mode, kind, now)?;
        if let s::IFCHR | s::IFBLK = new.mode & s::IFMT {
            inode.rdev = new.rdev;
        }
        Some((node, inode))
    }

    /// Give a node a name, which is charged to a user already. The name is not there, the directory still is in the tree.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        dir: u32,
        name: &[u8],
        node: u32,
        now: Time,
        payer: u32,
    ) -> Answer<()> {
        let above = self.inode_mut(dir)?;
        let ino = above.ino;
        above.touch_modified(now);
        let Kind::Directory(above) = &mut above.kind else {
            return fail(ENOTDIR);
        };
        let sequence = above.names.insert(name, node, payer);
        let inode = self.inode_mut(node)?;
        inode.names += 1;
        inode.home = (dir, sequence);
        if let Kind::Directory(below) = &mut inode.kind {
            below.parent = dir;
            below.parent_ino = ino;
            self.dir_mut(dir)?.children += 1;
        }
        Ok(())
    }

    /// Take a name away from its node, which stays (see [`Tmpfs::drop_unused`]).
    fn leave(&mut self, cx: &mut Context, dir: u32, name: &[u8], now: Time) -> Answer<u32> {
        let (node, payer) = self
            .dir_mut(dir)?
            .names
            .remove(name)
            .ok_or(Failure::Errno(ENOENT))?;
        cx.refund(payer, directory::cost(name.len()));
        let inode = self.inode_mut(node)?;
        inode.names = inode.names.saturating_sub(1);
        inode.ctime = now;
        let is_dir = inode.is_dir();
        let above = self.inode_mut(dir)?;
        above.touch_modified(now);
        if let Kind::Directory(above) = &mut above.kind {
            above.children -= is_dir as u32;
        }
        Ok(node)
    }

    /// A node has lost a name: without any it goes, or is open, and where it was is kept.
    fn has_gone(&mut self, cx: &mut Context, node: u32, dir: u32, name: &[u8]) {
        match self.inodes.get(node) {
            Some(inode) if inode.names == 0 && (inode.opens != 0 || inode.has_objects()) => {
                self.keep_gone(cx, node, dir, name);
            }
            _ => {}
        }
        self.drop_unused(cx, node);
    }

    fn keep_gone(&mut self, cx: &mut Context, node: u32, dir: u32, name: &[u8]) {
        let mut text = [0; gone::LONGEST];
        let Ok(above) = self.path(cx, dir, &mut text) else {
            return;
        };
        let slash = usize::from(above != 0);
        let end = above + slash + name.len();
        if let Some(room) = text.get_mut(above..end) {
            room[..slash].fill(b'/');
            room[slash..].copy_from_slice(name);
            self.gone.keep(node, &text[..end]);
        }
    }

    /// Free a node that has neither names nor handles.
    fn drop_unused(&mut self, cx: &mut Context, node: u32) {
        let inode = self.inodes.get(node);
        let Some(inode) = inode.filter(|inode| inode.names == 0 && inode.opens == 0) else {
            return;
        };
        match inode.has_objects() {
            true => self.gone.lose(node, tag(node, inode.ino), inode.ino),
            false => self.gone.forget(node),
        }
        if let Ok(inode) = self.inode_mut(node) {
            let attributes = core::mem::take(&mut inode.attributes);
            cx.refund(inode.payer, inode.cost());
            attributes.refund(cx);
        }
        if let Some(Kind::File(mut file)) = self.inodes.remove(node) {
            data::forget_objects(&mut file, cx);
            data::drop_rest(&mut file, &mut self.pool, cx, 0);
        }
    }

    /// It is the root of a mount of its own ([`Server::new_tree`]).
    fn is_tree(&self, node: u32) -> bool {
        let inode = self.inodes.get(node);
        inode.is_some_and(|inode| inode.home == TREE)
    }

    /// Nobody has anything of such a mount any more.
    fn fell(&mut self, cx: &mut Context, node: u32) {
        if let Some(inode) = self.inodes.get_mut(node) {
            (inode.names, inode.home) = (0, (0, 0));
        }
        if self.falling.try_reserve(1).is_ok() {
            self.falling.push(node);
            while !cx.begin_background() && !self.falling.is_empty() {
                self.fall(cx);
            }
        }
    }

    /// Take some names out of what is to go.
    fn fall(&mut self, cx: &mut Context) {
        for _ in 0..FALL {
            let Some(&dir) = self.falling.last() else {
                return;
            };
            let now = now(cx);
            let name = self.dir(dir).ok().and_then(|dir| {
                let (_, _, name) = dir.names.older(u64::MAX).next()?;
                Some(name.to_vec())
            });
            let room = self.falling.try_reserve(1).is_ok();
            match name.map(|name| self.leave(cx, dir, &name, now)) {
                Some(Ok(node)) if room && self.dir(node).is_ok() => self.falling.push(node),
                Some(Ok(node)) => self.drop_unused(cx, node),
                Some(Err(_)) | None => {
                    self.falling.pop();
                    self.drop_unused(cx, dir);
                }
            }
        }
    }

    /// Something may be made in this directory.
    fn accepts(&self, dir: u32) -> Answer<()> {
        if self.inode(dir)?.names == 0 {
            fail(ENOENT)
        } else {
            Ok(())
        }
    }

    /// One more node may be made.
    fn has_room(&self) -> Answer<()> {
        match self.nodes {
            Some(most) if self.inodes.count() >= most => fail(ENOSPC),
            _ => Ok(()),
        }
    }

    /// Make a node that the caller pays for, and so many bytes more.
    #[inline]
    fn new_charged(&mut self, cx: &mut Context, new: &New, more: usize, now: Time) -> Answer<u32> {
        let uid = cx.payer();
        if !self.inodes.reserve() {
            return fail(ENOSPC);
        }
        charge(
            &mut self.pool,
            cx,
            inode::cost(new.mode, new.target.len() as u64) + more,
        )?;
        let node = self.new_inode(new, now)?;
        self.inode_mut(node)?.payer = uid;
        Ok(node)
    }

    fn empty(&self, dir: u32) -> Answer<()> {
        if self.dir(dir)?.names.is_empty() {
            Ok(())
        } else {
            fail(ENOTEMPTY)
        }
    }

    /// The name that a node was last given, in which directory.
    fn home_of(&self, node: u32) -> Option<(u32, &[u8])> {
        let (dir, sequence) = self.inodes.get(node)?.home;
        match &self.inodes.get(dir)?.kind {
            Kind::Directory(above) => Some((dir, above.names.name_of(sequence, node)?)),
            _ => None,
        }
    }
}

/// The caller pays for so many bytes more; without room for them the file system counts as full.
#[inline]
pub(crate) fn charge<M: Memory>(pool: &mut Pool<M>, cx: &mut Context, bytes: usize) -> Answer<()> {
    let uid = cx.payer();
    match cx.charge(uid, bytes) {
        Ok(()) => Ok(()),
        Err(_) => data::give_back_for(pool, cx, |_, cx| cx.charge(uid, bytes).ok()),
    }
}

/// The time of a change.
pub(crate) fn now(cx: &mut Context) -> Time {
    Time::from_ns(cx.now())
}

impl<M: Memory> Server for Tmpfs<M> {
    type Node = u32;
    type State = ();

    const STABLE_NAMES: bool = true;

    fn root(&mut self, _: u64) -> u32 {
        0
    }

    fn gives_ids(&self) -> bool {
        self.gives_ids
    }

    fn handle_of(&mut self, node: u32) -> Option<([u8; HANDLE_MAX], usize)> {
        let mut bytes = [0; HANDLE_MAX];
        let ino = self.inodes.get(node)?.ino;
        bytes[..4].copy_from_slice(&node.to_le_bytes());
        bytes[4..12].copy_from_slice(&ino.to_le_bytes());
        Some((bytes, 12))
    }

    /// A node that has a name. (Numbers of nodes come again, inode numbers do not.)
    fn by_handle(&mut self, _: &mut Context, handle: &[u8]) -> Answer<u32> {
        let named = handle.split_first_chunk().and_then(|(node, ino)| {
            let (node, ino) = (u32::from_le_bytes(*node), <[u8; 8]>::try_from(ino).ok()?);
            let inode = self.inodes.get(node)?;
            let same = inode.ino == u64::from_le_bytes(ino) && inode.names != 0;
            same.then_some(node)
        });
        named.ok_or(Failure::Errno(ESTALE))
    }

    fn meta(&mut self, node: u32) -> Answer<Meta> {
        let inode = self.inode(node)?;
        Ok(Meta {
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            ino: inode.ino,
            size: inode.length(),
            rdev: inode.rdev,
        })
    }

    #[inline]
    fn access(&mut self, node: u32) -> Answer<Access> {
        let inode = self.inode(node)?;
        Ok(Access {
            mode: inode.mode | Access::marks(inode.attributes.flags),
            uid: inode.uid,
            gid: inode.gid,
        })
    }

    #[inline]
    fn lookup(&mut self, _: &mut Context, dir: u32, name: &[u8]) -> Answer<u32> {
        self.dir(dir)?
            .names
            .find(name)
            .ok_or(Failure::Errno(ENOENT))
    }

    fn parent(&mut self, _: &mut Context, dir: u32) -> Answer<u32> {
        let below = self.dir(dir)?;
        match self.inodes.get(below.parent) {
            Some(above) if above.ino == below.parent_ino => Ok(below.parent),
            _ => fail(ENOENT),
        }
    }

    fn target(&mut self, cx: &mut Context, link: u32, into: &mut [u8]) -> Answer<usize> {
        data::touch_accessed(self.inode_mut(link)?, cx);
        match &self.inode(link)?.kind {
            Kind::Link(target) => {
                let room = into
                    .get_mut(..target.len())
                    .ok_or(Failure::Errno(ENAMETOOLONG))?;
                room.copy_from_slice(target);
                Ok(target.len())
            }
            _ => fail(EINVAL),
        }
    }

    fn home(
        &mut self,
        _: &mut Context,
        node: u32,
        into: &mut [u8; NAME_MAX],
    ) -> Option<(u32, usize)> {
        let (dir, name) = self.home_of(node)?;
        into.get_mut(..name.len())?.copy_from_slice(name);
        Some((dir, name.len()))
    }

    fn path(&mut self, _: &mut Context, node: u32, into: &mut [u8]) -> Answer<usize> {
        let mut start = into.len();
        let mut at = node;
        while at != 0 && !self.is_tree(at) {
            let (dir, name) = self.home_of(at).ok_or(Failure::Errno(ENOENT))?;
            let slash = (at != node) as usize;
            start = start
                .checked_sub(name.len() + slash)
                .ok_or(Failure::Errno(ENAMETOOLONG))?;
            into[start..start + name.len()].copy_from_slice(name);
            if slash != 0 {
                into[start + name.len()] = b'/';
            }
            at = dir;
        }
        let length = into.len() - start;
        into.copy_within(start.., 0);
        Ok(length)
    }

    fn gone(&mut self, _: &mut Context, node: u32, into: &mut [u8]) -> Option<usize> {
        let text = self.gone.of(node)?;
        into.get_mut(..text.len())?.copy_from_slice(text);
        Some(text.len())
    }

    fn shown(&mut self, called: u64, into: &mut [u8]) -> Option<Shown<u32>> {
        let node = called as u32;
        match self.inodes.get(node) {
            Some(inode) if tag(node, inode.ino) == called => Some(Shown::File(node)),
            _ => {
                let (path, ino) = self.gone.lost(called)?;
                let length = path.len();
                into.get_mut(..length)?.copy_from_slice(path);
                Some(Shown::Gone(length, self.st_dev, ino))
            }
        }
    }

    fn stat(&mut self, cx: &mut Context, node: u32) -> Answer<Stat> {
        let inode = self.inode(node)?;
        let unused = match cx.request.words[1] & fs::STAT_BIRTH {
            0 => [0; 3],
            _ => [
                inode.birth.seconds,
                inode.birth.ns.into(),
                cairn_resmgr::layout::told(inode.attributes.flags),
            ],
        };
        let blocks = match &inode.kind {
            Kind::File(file) => file.content.count() * (PAGE as u64 / 512),
            _ => 0,
        };
        Ok(Stat {
            dev: self.st_dev,
            ino: inode.ino,
            nlink: inode.links(),
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size: inode.length() as i64,
            blksize: PAGE as i64,
            blocks: blocks as i64,
            atime: inode.atime.seconds,
            atime_ns: inode.atime.ns as i64,
            mtime: inode.mtime.seconds,
            mtime_ns: inode.mtime.ns as i64,
            ctime: inode.ctime.seconds,
            ctime_ns: inode.ctime.ns as i64,
            unused,
            ..Stat::default()
        })
    }

    fn statfs(&mut self, _: &mut Context, _: u32) -> Answer<Statfs> {
        let (used, limit) = self.pool.usage();
        let nodes = self.inodes.count() as u64;
        let files = self.nodes.unwrap_or(limit) as u64;
        Ok(Statfs {
            kind: MAGIC,
            bsize: PAGE as i64,
            blocks: limit as u64,
            bfree: (limit - used.min(limit)) as u64,
            bavail: self.pool.room(1) as u64,
            files,
            ffree: files.saturating_sub(nodes),
            namelen: fs::NAME_MAX as i64,
            frsize: PAGE as i64,
            // ST_VALID, ST_RELATIME, ST_NOSUID
            flags: 0x1020 | if self.gives_ids { 0 } else { 2 },
            ..Statfs::default()
        })
    }

    fn change(&mut self, cx: &mut Context, node: u32, change: &Change) -> Answer<()> {
        let now = now(cx);
        if change.uid.is_some() || change.gid.is_some() {
            self.drop_capabilities(cx, node);
        }
        let inode = self.inode_mut(node)?;
        if let Some(mode) = change.mode {
            inode.mode = inode.mode & s::IFMT | mode & 0o7777;
        }
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        let time = |given: Option<(i64, i64)>, old: Time| match given {
            Some((seconds, ns)) => Time {
                seconds,
                ns: ns as u32,
            },
            None => old,
        };
        inode.atime = time(change.atime, inode.atime);
        inode.mtime = time(change.mtime, inode.mtime);
        inode.ctime = now;
        Ok(())
    }

    fn attribute(
        &mut self,
        _: &mut Context,
        node: u32,
        name: &[u8],
        value: &mut Vec<u8>,
    ) -> Answer<()> {
        let found = self.read_attribute(node, name)?;
        value
            .try_reserve(found.len())
            .map_err(|_| Failure::Errno(ENOMEM))?;
        value.extend_from_slice(found);
        Ok(())
    }

    fn attribute_names(&mut self, _: &mut Context, node: u32, names: &mut Vec<u8>) -> Answer<()> {
        self.list_attributes(node, names)
    }

    fn set_attribute(
        &mut self,
        cx: &mut Context,
        node: u32,
        name: &[u8],
        value: Option<&[u8]>,
        there: Option<bool>,
    ) -> Answer<()> {
        self.write_attribute(cx, node, name, value, there)
    }

    fn truncate(&mut self, cx: &mut Context, node: u32, size: u64) -> Answer<()> {
        self.resize(cx, node, size)?;
        let now = now(cx);
        self.inode_mut(node)?.touch_modified(now);
        Ok(())
    }

    fn create(&mut self, cx: &mut Context, dir: u32, name: &[u8], new: &New) -> Answer<u32> {
        self.accepts(dir)?;
        self.has_room()?;
        let now = now(cx);
        let node = self.new_charged(cx, new, directory::cost(name.len()), now)?;
        self.enter(dir, name, node, now, cx.payer())?;
        Ok(node)
    }

    fn file_flags(&mut self, node: u32) -> Answer<u32> {
        Ok(self.inode(node)?.attributes.flags)
    }

    fn set_file_flags(&mut self, cx: &mut Context, node: u32, flags: u32) -> Answer<()> {
        let now = now(cx);
        let inode = self.inode_mut(node)?;
        inode.attributes.flags = flags;
        inode.ctime = now;
        Ok(())
    }

    fn keeps_whiteouts(&self) -> bool {
        true
    }

    fn create_unnamed(&mut self, cx: &mut Context, dir: u32, new: &New) -> Answer<u32> {
        self.accepts(dir)?;
        self.has_room()?;
        let now = now(cx);
        let node = self.new_charged(cx, new, 0, now)?;
        let mut digits = [0; 20];
        let digits = decimal(self.inode(node)?.ino, &mut digits);
        let mut name = [b'#'; 21];
        name[1..][..digits.len()].copy_from_slice(digits);
        self.keep_gone(cx, node, dir, &name[..1 + digits.len()]);
        Ok(node)
    }

    fn link(&mut self, cx: &mut Context, node: u32, dir: u32, name: &[u8]) -> Answer<()> {
        self.accepts(dir)?;
        let now = now(cx);
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        if matches!(&inode.kind, Kind::File(file) if file.nameless) {
            return fail(ENOENT);
        }
        if inode.names == u32::MAX {
            return fail(EMLINK);
        }
        charge(&mut self.pool, cx, directory::cost(name.len()))?;
        inode.ctime = now;
        self.enter(dir, name, node, now, cx.payer())
    }

    fn unlink(&mut self, cx: &mut Context, dir: u32, name: &[u8], _: u32) -> Answer<()> {
        let now = now(cx);
        let node = self.leave(cx, dir, name, now)?;
        self.has_gone(cx, node, dir, name);
        Ok(())
    }

    fn rmdir(&mut self, cx: &mut Context, dir: u32, name: &[u8], node: u32) -> Answer<()> {
        self.empty(node)?;
        let now = now(cx);
        self.leave(cx, dir, name, now)?;
        self.has_gone(cx, node, dir, name);
        Ok(())
    }

    fn rename(&mut self, cx: &mut Context, rename: &Rename<u32>) -> Answer<()> {
        let Rename {
            from,
            from_name,
            node,
            to,
            to_name,
            replaced,
            exchange,
        } = *rename;
        self.accepts(to)?;
        if let (Some(other), false) = (replaced, exchange) {
            if self.inode(other)?.is_dir() {
                self.empty(other)?;
            }
        }
        let now = now(cx);
        // The new names are the caller's to pay for.
        let back = match exchange {
            true => directory::cost(from_name.len()),
            false => 0,
        };
        charge(&mut self.pool, cx, directory::cost(to_name.len()) + back)?;
        let uid = cx.payer();
        self.leave(cx, from, from_name, now)?;
        if replaced.is_some() {
            self.leave(cx, to, to_name, now)?;
        }
        if let (Some(other), true) = (replaced, exchange) {
            self.enter(from, from_name, other, now, uid)?;
        }
        self.enter(to, to_name, node, now, uid)?;
        if let (Some(other), false) = (replaced, exchange) {
            self.has_gone(cx, other, to, to_name);
        }
        Ok(())
    }

    fn open(&mut self, cx: &mut Context, node: u32, flags: u64, _: &mut ()) -> Answer<Opened<u32>> {
        // Its pages are the file: there is nothing to go around. (What O_CREAT made is there.)
        if flags & o::DIRECT != 0
            && flags & o::PATH == 0
            && self.inode(node)?.mode & s::IFMT == s::IFREG
        {
            return fail(EINVAL);
        }
        if flags & (fs::SEALABLE | o::TMPFILE & !o::DIRECTORY) != 0 {
            self.make_unnamed(node, flags);
        }
        let inode = self.inode(node)?;
        let raises = match inode.attributes.raises {
            true => kind::RAISES,
            false => 0,
        };
        let kind = match inode.mode & s::IFMT {
            s::IFREG => raises | kind::SEEKABLE | kind::ALWAYS_READY | kind::MAPPABLE,
            s::IFDIR => kind::SEEKABLE | kind::ALWAYS_READY | kind::DIRECTORY,
            s::IFCHR | s::IFBLK | s::IFIFO => {
                let meta = self.meta(node)?;
                return Err(cx.redirect_special(&meta));
            }
            _ => return fail(ENXIO),
        };
        Ok(Opened { node, kind })
    }

    fn remount(&mut self, _: &mut Context, flags: u64) -> Answer<()> {
        if flags & mount::READ_ONLY != 0 {
            return fail(EOPNOTSUPP);
        }
        self.gives_ids = flags & mount::NO_SET_ID == 0;
        Ok(())
    }

    fn unmount(&mut self, cx: &mut Context) -> Answer<()> {
        if self.end.is_none() {
            return fail(EOPNOTSUPP);
        }
        let objects = self.inodes.all().filter_map(|inode| match &inode.kind {
            Kind::File(file) => Some(file.objects),
            _ => None,
        });
        let memory = self.pool.memory();
        if objects
            .flatten()
            .flatten()
            .any(|object| memory.is_mapped(object))
        {
            return fail(EBUSY);
        }
        self.ended = true;
        // The next tick, when the answer is on its way.
        let now = cx.transport.monotonic();
        cx.wake_at(Some(now));
        Ok(())
    }

    fn tick(&mut self, _: &mut Context) {
        if let (true, Some(end)) = (self.ended, self.end) {
            end();
        }
    }

    fn background(&mut self, cx: &mut Context) -> bool {
        if self.falling.is_empty() {
            self.pool.end_piece();
            self.pool.settle(cx);
            cx.wake(data::ENDING);
        } else {
            self.fall(cx);
        }
        !self.falling.is_empty() || self.pool.has_ended()
    }

    fn new_tree(&mut self, cx: &mut Context, new: &New) -> Answer<u32> {
        self.has_room()?;
        if self.falling.try_reserve(1).is_err() {
            return fail(ENOSPC);
        }
        let now = now(cx);
        let node = self.new_charged(cx, new, 0, now)?;
        let ino = self.inode(0)?.ino;
        let inode = self.inode_mut(node)?;
        (inode.names, inode.home) = (1, TREE);
        if let Kind::Directory(dir) = &mut inode.kind {
            (dir.parent, dir.parent_ino) = (0, ino);
        }
        Ok(node)
    }

    fn tree_of(&mut self, _: &mut Context, node: u32) -> Option<u32> {
        let mut at = node;
        while at != 0 && !self.is_tree(at) {
            (at, _) = self.home_of(at)?;
        }
        (at != 0 && at != node).then_some(at)
    }

    fn retain(&mut self, node: u32) {
        if let Some(inode) = self.inodes.get_mut(node) {
            inode.opens += 1;
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        let Some(inode) = self.inodes.get_mut(handle.node) else {
            return;
        };
        inode.opens -= 1;
        if inode.opens == 0 && inode.home == TREE {
            self.fell(cx, handle.node);
            return;
        }
        if inode.opens == 0 && inode.names == 0 {
            self.drop_unused(cx, handle.node);
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let note = handle.flags & o::NOATIME == 0;
        self.read_file(cx, handle.node, offset, length, note)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        self.write_file(cx, handle.node, offset, length)
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        match request {
            fs::GET_SEALS => Ok(Reply::result(self.seals(handle.node)?.into())),
            fs::ADD_SEALS if handle.flags & o::ACCMODE == o::RDONLY => fail(EPERM),
            fs::ADD_SEALS => {
                self.add_seals(cx, handle.node, argument)?;
                Ok(Reply::result(0))
            }
            _ => fail(ENOTTY),
        }
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        mut position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        if handle.flags & o::NOATIME == 0 {
            data::touch_accessed(self.inode_mut(handle.node)?, cx);
        }
        let inode = self.inode(handle.node)?;
        let Kind::Directory(dir) = &inode.kind else {
            return fail(ENOTDIR);
        };
        if inode.names == 0 {
            return fail(ENOENT);
        }
        if position == 0 {
            if !into.add(inode.ino, 1, s::IFDIR, b".") {
                return Ok(position);
            }
            position = 1;
        }
        if position == 1 {
            if !into.add(dir.parent_ino, 2, s::IFDIR, b"..") {
                return Ok(position);
            }
            position = 2;
        }
        let before = if position == 2 {
            u64::MAX
        } else {
            AFTER.saturating_sub(position)
        };
        for (sequence, node, name) in dir.names.older(before) {
            let Some(entry) = self.inodes.get(node) else {
                continue;
            };
            if !into.add(entry.ino, AFTER - sequence, entry.mode, name) {
                break;
            }
            position = AFTER - sequence;
        }
        Ok(position)
    }

    fn seek_data(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        hole: bool,
        size: u64,
    ) -> Answer<u64> {
        let Kind::File(file) = &self.inode(handle.node)?.kind else {
            return fail(EINVAL);
        };
        let page = PAGE as u64;
        if hole {
            let found = file.content.next_hole(offset / page) * page;
            return Ok(found.clamp(offset, size));
        }
        match file.content.next_page(offset / page) {
            Some(index) if index * page < size => Ok((index * page).max(offset)),
            _ => fail(ENXIO),
        }
    }

    fn mapping_follows(&mut self, node: u32) -> bool {
        let inode = self.inodes.get(node);
        inode.is_some_and(
            |inode| matches!(&inode.kind, Kind::File(file) if file.objects[0].is_some()),
        )
    }

    fn map(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        self.map_file(cx, handle.node, offset, length, shared_writable)
    }

    fn allocate(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Answer<u64> {
        self.allocate_file(cx, handle.node, mode, offset, length)
    }
}
