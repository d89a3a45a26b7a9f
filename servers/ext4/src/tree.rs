//! The tree, as the framework asks for it: names, attributes, creation, removal and renaming. What can be said here is; reading, writing and the rest have their own modules.

use crate::attached::Attached;
use crate::discard::FITRIM;
use crate::keys;
use crate::memory::Memory;
use crate::node::device_parts;
use crate::server::{asker, fail, Ext4};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use cairn_block::Device;
use cairn_cache::Stream;
use cairn_ext4::{Error, Gone, New as NewInode, Rename as How, Time, APPEND_ONLY, IMMUTABLE, ROOT};
use cairn_idl::capability;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, kind, o, s, Stat, Statfs, HANDLE_MAX, NAME_MAX};
use cairn_idl::label;
use cairn_resmgr::server::{put, Answer, Shown};
use cairn_resmgr::{
    Access, Change, Context, Data, Dirents, Failure, Handle, Meta, New, Opened, Rename, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

/// Linux's EXT4_SUPER_MAGIC.
const MAGIC: i64 = 0xEF53;
const SYNCHRONOUS: u64 = o::DSYNC | O_SYNC;
const O_SYNC: u64 = 0o4000000;

/// File types in a mode, from those in a directory's entry.
const KINDS: [u32; 8] = [
    0,
    s::IFREG,
    s::IFDIR,
    s::IFCHR,
    s::IFBLK,
    s::IFIFO,
    s::IFSOCK,
    s::IFLNK,
];

/// The first inode that is a file's, but for the root.
const FIRST_INODE: u32 = 11;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Where a node was found, for [`Server::path`].
    fn set_home(&mut self, node: u32, dir: u32, name: &[u8]) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.home = Some((dir, name.into()));
        }
    }

    fn lost_home(&mut self, ino: u32, dir: u32, name: &[u8]) {
        if let Some(node) = self.nodes.get_mut(ino) {
            let here = |(at, text): &(u32, Box<[u8]>)| *at == dir && **text == *name;
            if node.home.as_ref().is_some_and(here) {
                node.home = None;
            }
        }
    }

    /// Names may be added to (or taken from) this directory.
    fn may_change(&mut self, dir: u32, remove: bool) -> Answer<()> {
        self.load(dir)?;
        if !self.may_write() {
            return fail(EROFS);
        }
        let flags = self.node(dir)?.flags;
        if flags & IMMUTABLE != 0 || remove && flags & APPEND_ONLY != 0 {
            return fail(EPERM);
        }
        Ok(())
    }

    /// The node may get other names or lose some.
    fn may_move(&mut self, ino: u32) -> Answer<()> {
        match self.loaded(ino)?.flags & (IMMUTABLE | APPEND_ONLY) {
            0 => Ok(()),
            _ => fail(EPERM),
        }
    }

    fn new_inode(&mut self, cx: &mut Context, new: &New) -> NewInode {
        let device = match new.mode & s::IFMT {
            s::IFCHR | s::IFBLK => device_parts(new.rdev),
            _ => (0, 0),
        };
        NewInode {
            mode: new.mode as u16,
            uid: new.uid,
            gid: new.gid,
            device,
            now: self.look_at_clock(cx),
        }
    }

    /// A name is gone; so may be its node.
    fn name_gone(&mut self, gone: Gone) {
        if gone.last {
            let now = self.now;
            if let Some(node) = self.nodes.get_mut(gone.ino) {
                node.links = 0;
                node.ctime = now;
            }
            self.drop_unused(gone.ino);
        } else {
            self.refresh(gone.ino);
        }
    }

    /// The name of a directory in the one above, if nobody remembers it.
    fn search_name(&mut self, above: u32, ino: u32) -> Answer<Box<[u8]>> {
        let mut from = 0;
        loop {
            let listed = self.act(|fs| fs.read_directory(above, from))?;
            let Some(last) = listed.last() else {
                return fail(ENOENT);
            };
            from = last.next;
            let own = |name: &[u8]| name == b"." || name == b"..";
            let found = listed
                .iter()
                .find(|entry| entry.ino == ino && !own(&entry.name));
            if let Some(entry) = found {
                return Ok(entry.name.as_slice().into());
            }
        }
    }

    fn home_of(&mut self, ino: u32) -> Answer<(u32, Box<[u8]>)> {
        let node = self.loaded(ino)?;
        if node.links == 0 {
            return fail(ENOENT);
        }
        if let Some(home) = &node.home {
            return Ok(home.clone());
        }
        if !node.is_directory() {
            return fail(ENOENT);
        }
        let above = self.act(|fs| fs.lookup(ino, b".."))?;
        let name = self.search_name(above, ino)?;
        self.set_home(ino, above, &name);
        Ok((above, name))
    }
}

impl<M: Memory, D: Attached> Ext4<M, D> {
    /// The names from the root down to a node, as each node's home is told.
    fn path_by(
        &mut self,
        node: u32,
        into: &mut [u8],
        home: impl Fn(&mut Self, u32) -> Answer<(u32, Box<[u8]>)>,
    ) -> Answer<usize> {
        let mut start = into.len();
        let mut at = node;
        while at != ROOT {
            let (dir, name) = home(self, at)?;
            let slash = (at != node) as usize;
            start = start
                .checked_sub(name.len() + slash)
                .ok_or(Failure::Errno(ENAMETOOLONG))?;
            into[start..start + name.len()].copy_from_slice(&name);
            if slash != 0 {
                into[start + name.len()] = b'/';
            }
            at = dir;
        }
        let length = into.len() - start;
        into.copy_within(start.., 0);
        Ok(length)
    }

    /// Without the birth time.
    #[inline(always)]
    fn status(&mut self, node: u32) -> Answer<Stat> {
        let dev = self.options.device;
        let blksize = self.block_size() as i64;
        let node = self.load_fresh(node)?;
        node.used = true;
        let delayed = match node.delayed.is_empty() {
            true => 0,
            false => node.delayed.count() * (blksize as u64 / 512),
        };
        Ok(Stat {
            dev,
            ino: node.ino as u64,
            nlink: node.links as u64,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev,
            size: node.size as i64,
            blksize,
            blocks: (node.sectors + delayed) as i64,
            atime: node.atime.sec,
            atime_ns: node.atime.nsec as i64,
            mtime: node.mtime.sec,
            mtime_ns: node.mtime.nsec as i64,
            ctime: node.ctime.sec,
            ctime_ns: node.ctime.nsec as i64,
            ..Stat::default()
        })
    }

    #[cold]
    #[inline(never)]
    fn status_with_birth(&mut self, node: u32) -> Answer<Stat> {
        let mut stat = self.status(node)?;
        let (birth, flags) = (self.node(node)?.birth, self.node(node)?.flags);
        // Inodes of 128 bytes have no room for it.
        if birth != Time::default() {
            stat.unused = [
                birth.sec,
                birth.nsec.into(),
                cairn_resmgr::layout::told(flags),
            ];
        }
        Ok(stat)
    }
}

impl<M: Memory, D: Attached> Server for Ext4<M, D> {
    type Node = u32;
    type State = Stream;

    const STABLE_NAMES: bool = true;

    fn read_only(&self) -> bool {
        !self.may_write()
    }

    fn reads_at_once(&self) -> bool {
        true
    }

    fn gives_ids(&self) -> bool {
        self.options.gives_ids
    }

    fn root(&mut self, _: u64) -> u32 {
        ROOT
    }

    #[inline]
    fn identity(&mut self, node: u32) -> Option<u64> {
        self.nodes.get(node).map(|node| node.identity())
    }

    /// Inode and generation, as Linux has them.
    fn handle_of(&mut self, node: u32) -> Option<([u8; HANDLE_MAX], usize)> {
        let node = self.nodes.get(node)?;
        let mut bytes = [0; HANDLE_MAX];
        bytes[..4].copy_from_slice(&node.ino.to_le_bytes());
        bytes[4..8].copy_from_slice(&node.generation.to_le_bytes());
        Some((bytes, 8))
    }

    fn by_handle(&mut self, _: &mut Context, handle: &[u8]) -> Answer<u32> {
        const STALE: Failure = Failure::Errno(ESTALE);
        let (ino, generation) = handle.split_first_chunk().ok_or(STALE)?;
        let ino = u32::from_le_bytes(*ino);
        let generation = <[u8; 4]>::try_from(generation).map_err(|_| STALE)?;
        let same = |(of, links): (u32, u16)| of == u32::from_le_bytes(generation) && links != 0;
        // Those below are the file system's own.
        if ino != ROOT && ino < FIRST_INODE {
            return Err(STALE);
        }
        let there = match self.nodes.get(ino) {
            Some(node) => same((node.generation, node.links)),
            None => match self.fs.inode(ino) {
                Err(error @ Error::Need { .. }) => return self.act(|_| Err(error)),
                Ok(inode) => same((inode.generation, inode.links)),
                Err(_) => false,
            },
        };
        if !there {
            return Err(STALE);
        }
        self.load(ino)?;
        Ok(ino)
    }

    fn recover(&mut self, identity: u64) -> Option<(u32, bool)> {
        let lost = self.found.get(&identity)?;
        Some((identity as u32, *lost))
    }

    #[inline]
    fn carried_out(&mut self, cx: &Context) -> bool {
        self.fs.asks(asker(cx), |who| cx.repeats(who))
    }

    #[inline]
    fn meta(&mut self, node: u32) -> Answer<Meta> {
        let node = self.loaded(node)?;
        node.used = true;
        Ok(Meta {
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            ino: node.ino as u64,
            size: node.size,
            rdev: node.rdev,
        })
    }

    #[inline]
    fn access(&mut self, node: u32) -> Answer<Access> {
        let node = self.loaded(node)?;
        node.used = true;
        Ok(Access {
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: u32, name: &[u8]) -> Answer<u32> {
        let ino = match self.names.find(dir, name) {
            Some(known) => known.ok_or(Failure::Errno(ENOENT))?,
            None => {
                let found = self.act(|fs| fs.lookup(dir, name));
                match &found {
                    Ok(ino) => self.names.keep(dir, name, Some(*ino)),
                    Err(Failure::Errno(ENOENT)) => self.names.keep(dir, name, None),
                    Err(_) => {}
                }
                found?
            }
        };
        if self.loaded(ino)?.home.is_none() {
            self.set_home(ino, dir, name);
        }
        Ok(ino)
    }

    fn parent(&mut self, _: &mut Context, dir: u32) -> Answer<u32> {
        let above = self.act(|fs| fs.lookup(dir, b".."))?;
        self.load(above)?;
        Ok(above)
    }

    fn target(&mut self, cx: &mut Context, link: u32, into: &mut [u8]) -> Answer<usize> {
        let target = self.act(|fs| fs.read_link(link))?;
        self.touch_accessed(cx, link);
        put(&target, into)
    }

    fn home(
        &mut self,
        _: &mut Context,
        node: u32,
        into: &mut [u8; NAME_MAX],
    ) -> Option<(u32, usize)> {
        let (dir, name) = self.home_of(node).ok()?;
        into.get_mut(..name.len())?.copy_from_slice(&name);
        Some((dir, name.len()))
    }

    fn path(&mut self, _: &mut Context, node: u32, into: &mut [u8]) -> Answer<usize> {
        self.path_by(node, into, Self::home_of)
    }

    fn gone(&mut self, _: &mut Context, node: u32, into: &mut [u8]) -> Option<usize> {
        let length = self.path_by(node, into, |of, at| match of.loaded(at)?.links {
            0 => of.loaded(at)?.home.clone().ok_or(Failure::Errno(ENOENT)),
            _ => of.home_of(at),
        });
        length.ok()
    }

    #[inline]
    fn stat(&mut self, cx: &mut Context, node: u32) -> Answer<Stat> {
        match cx.request.words[1] & fs::STAT_BIRTH {
            0 => self.status(node),
            _ => self.status_with_birth(node),
        }
    }

    fn statfs(&mut self, _: &mut Context, _: u32) -> Answer<Statfs> {
        let space = self.fs.space();
        // ST_VALID, and ST_NOSUID, ST_RDONLY, ST_NOATIME or ST_RELATIME.
        let mut flags = 0x20;
        flags |= if self.options.gives_ids { 0 } else { 2 };
        flags |= i64::from(!self.fs.is_writable());
        flags |= match self.options.no_access_times {
            true => 0x400,
            false => 0x1000,
        };
        Ok(Statfs {
            kind: MAGIC,
            bsize: space.block_size as i64,
            blocks: space.blocks,
            bfree: space.free,
            bavail: space.available,
            files: space.inodes as u64,
            ffree: space.free_inodes as u64,
            namelen: fs::NAME_MAX as i64,
            frsize: space.block_size as i64,
            flags,
            ..Statfs::default()
        })
    }

    fn change(&mut self, cx: &mut Context, ino: u32, change: &Change) -> Answer<()> {
        self.load_fresh(ino)?;
        if !self.may_write() {
            return fail(EROFS);
        }
        if self.node(ino)?.flags & IMMUTABLE != 0 {
            return fail(EPERM);
        }
        if change.uid.is_some() || change.gid.is_some() {
            self.drop_capabilities(cx, ino)?;
        }
        let now = self.look_at_clock(cx);
        let time = |(sec, ns): (i64, i64)| Time {
            sec,
            nsec: ns as u32,
        };
        let node = self.node(ino)?;
        let atime = change.atime.map_or(node.atime, time);
        let mtime = change.mtime.map_or(node.mtime, time);
        let (mode, uid, gid) = (change.mode, change.uid, change.gid);
        self.act(|fs| {
            fs.change_inode(ino, |inode| {
                inode.mode = mode.map_or(inode.mode, |mode| {
                    inode.mode & s::IFMT as u16 | mode as u16 & 0o7777
                });
                inode.uid = uid.unwrap_or(inode.uid);
                inode.gid = gid.unwrap_or(inode.gid);
                (inode.atime, inode.mtime, inode.ctime) = (atime, mtime, now);
            })
        })?;
        self.times_are_known(ino);
        self.refresh(ino);
        self.arm(cx);
        Ok(())
    }

    fn attribute(
        &mut self,
        _: &mut Context,
        node: u32,
        name: &[u8],
        value: &mut Vec<u8>,
    ) -> Answer<()> {
        *value = self.act(|fs| fs.attribute(node, name))?;
        Ok(())
    }

    fn attribute_names(&mut self, _: &mut Context, node: u32, names: &mut Vec<u8>) -> Answer<()> {
        for name in self.act(|fs| fs.attribute_names(node))? {
            names.extend(name);
            names.push(0);
        }
        Ok(())
    }

    fn set_attribute(
        &mut self,
        cx: &mut Context,
        node: u32,
        name: &[u8],
        value: Option<&[u8]>,
        there: Option<bool>,
    ) -> Answer<()> {
        if !self.may_write() {
            return fail(EROFS);
        }
        self.may_move(node)?;
        let now = self.look_at_clock(cx);
        self.act_for(cx, |fs| fs.set_attribute(node, name, value, there, now))?;
        self.refresh(node);
        self.arm(cx);
        Ok(())
    }

    fn truncate(&mut self, cx: &mut Context, node: u32, size: u64) -> Answer<()> {
        if self.loaded(node)?.flags & (IMMUTABLE | APPEND_ONLY) != 0 {
            return fail(EPERM);
        }
        self.drop_capabilities(cx, node)?;
        self.resize(cx, node, size)
    }

    fn create(&mut self, cx: &mut Context, dir: u32, name: &[u8], new: &New) -> Answer<u32> {
        self.names.forget(dir, name);
        self.may_change(dir, false)?;
        let about = self.new_inode(cx, new);
        let ino = match new.mode & s::IFMT {
            s::IFLNK => self.act_for(cx, |fs| fs.symlink(dir, name, new.target, &about))?,
            _ => self.act_for(cx, |fs| fs.create(dir, name, &about))?,
        };
        self.forget(ino);
        self.load(ino)?;
        self.set_home(ino, dir, name);
        match new.mode & s::IFMT {
            s::IFDIR => self.refresh(dir),
            _ => self.outdate(dir),
        }
        self.arm(cx);
        Ok(ino)
    }

    fn file_flags(&mut self, node: u32) -> Answer<u32> {
        Ok(self.loaded(node)?.flags)
    }

    fn set_file_flags(&mut self, cx: &mut Context, ino: u32, flags: u32) -> Answer<()> {
        self.load_fresh(ino)?;
        if !self.may_write() {
            return fail(EROFS);
        }
        let now = self.look_at_clock(cx);
        self.act(|fs| {
            fs.change_inode(ino, |inode| {
                inode.flags = flags;
                inode.ctime = now;
            })
        })?;
        self.refresh(ino);
        self.arm(cx);
        Ok(())
    }

    fn keeps_whiteouts(&self) -> bool {
        true
    }

    fn create_unnamed(&mut self, cx: &mut Context, dir: u32, new: &New) -> Answer<u32> {
        self.may_change(dir, false)?;
        let about = self.new_inode(cx, new);
        let ino = self.act(|fs| fs.create_nameless(dir, &about))?;
        self.forget(ino);
        self.load(ino)?;
        self.set_home(ino, dir, format!("#{ino}").as_bytes());
        self.arm(cx);
        Ok(ino)
    }

    fn link(&mut self, cx: &mut Context, ino: u32, dir: u32, name: &[u8]) -> Answer<()> {
        self.names.forget(dir, name);
        self.may_change(dir, false)?;
        self.may_move(ino)?;
        let now = self.look_at_clock(cx);
        self.act_for(cx, |fs| fs.link(ino, dir, name, now))?;
        self.set_home(ino, dir, name);
        self.refresh(ino);
        self.outdate(dir);
        self.arm(cx);
        Ok(())
    }

    fn unlink(&mut self, cx: &mut Context, dir: u32, name: &[u8], ino: u32) -> Answer<()> {
        self.names.forget(dir, name);
        self.may_change(dir, true)?;
        self.may_move(ino)?;
        let now = self.look_at_clock(cx);
        let gone = self.act_for(cx, |fs| fs.unlink(dir, name, now))?;
        self.outdate(dir);
        // (Its last home a node keeps, for [`Server::gone`].)
        if !gone.last {
            self.lost_home(ino, dir, name);
        }
        self.arm(cx);
        self.name_gone(gone);
        Ok(())
    }

    fn rmdir(&mut self, cx: &mut Context, dir: u32, name: &[u8], ino: u32) -> Answer<()> {
        self.names.forget(dir, name);
        self.may_change(dir, true)?;
        self.may_move(ino)?;
        let now = self.look_at_clock(cx);
        let gone = self.act_for(cx, |fs| fs.remove_directory(dir, name, now))?;
        self.refresh(dir);
        self.arm(cx);
        self.name_gone(gone);
        Ok(())
    }

    fn rename(&mut self, cx: &mut Context, rename: &Rename<u32>) -> Answer<()> {
        self.names.forget(rename.from, rename.from_name);
        self.names.forget(rename.to, rename.to_name);
        self.may_change(rename.from, true)?;
        self.may_change(rename.to, rename.replaced.is_some())?;
        self.may_move(rename.node)?;
        if let Some(other) = rename.replaced {
            self.may_move(other)?;
        }
        let now = self.look_at_clock(cx);
        let how = match rename.exchange {
            true => How::Exchange,
            false => How::Replace,
        };
        let (from, to) = ((rename.from, rename.from_name), (rename.to, rename.to_name));
        let gone = self.act_for(cx, |fs| fs.rename(from, to, how, now))?;
        self.set_home(rename.node, rename.to, rename.to_name);
        self.refresh(rename.node);
        self.refresh(rename.from);
        self.refresh(rename.to);
        if let Some(other) = rename.replaced {
            match rename.exchange {
                true => self.set_home(other, rename.from, rename.from_name),
                false if gone.as_ref().is_some_and(|gone| gone.last) => {}
                false => self.lost_home(other, rename.to, rename.to_name),
            }
            self.refresh(other);
        }
        self.arm(cx);
        if let Some(gone) = gone {
            self.name_gone(gone);
        }
        Ok(())
    }

    #[inline(always)]
    fn open(
        &mut self,
        cx: &mut Context,
        node: u32,
        flags: u64,
        _: &mut Stream,
    ) -> Answer<Opened<u32>> {
        let about = self.loaded(node)?;
        let raises = if about.raises { kind::RAISES } else { 0 };
        let kind = match about.mode & s::IFMT {
            s::IFREG => raises | kind::SEEKABLE | kind::ALWAYS_READY | kind::MAPPABLE,
            s::IFDIR => kind::SEEKABLE | kind::ALWAYS_READY | kind::DIRECTORY,
            s::IFCHR | s::IFBLK | s::IFIFO => {
                let meta = self.meta(node)?;
                return Err(cx.redirect_special(&meta));
            }
            _ => return fail(ENXIO),
        };
        if flags & (o::ACCMODE | o::TRUNC) != o::RDONLY {
            let special = about.flags;
            let appends = flags & o::APPEND != 0 && flags & o::TRUNC == 0;
            if special & IMMUTABLE != 0 || special & APPEND_ONLY != 0 && !appends {
                return fail(EPERM);
            }
            if !self.may_write() {
                return fail(EROFS);
            }
            if self.is_executed(node) {
                return fail(ETXTBSY);
            }
        }
        Ok(Opened { node, kind })
    }

    #[inline]
    fn retain(&mut self, node: u32) {
        if let Some(about) = self.nodes.get_mut(node) {
            about.opens += 1;
            if about.unsafe_data && about.opens == 1 {
                self.update_mark(node);
            }
        }
    }

    #[inline(always)]
    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        let Some(node) = self.nodes.get_mut(handle.node) else {
            return;
        };
        if node.opens > 1 {
            node.opens -= 1;
            return;
        }
        node.opens = 0;
        let nameless = node.links == 0;
        if node.unsafe_data {
            self.update_mark(handle.node);
        }
        if nameless {
            self.look_at_clock(cx);
            self.drop_unused(handle.node);
            self.arm(cx);
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
        self.read_file(cx, handle.node, &mut handle.state, offset, length, note)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let done = self.write_file(cx, handle.node, offset, length)?;
        if handle.flags & SYNCHRONOUS != 0 {
            cx.progress = done as u64;
            cx.progress_is_result = true;
            self.sync_write(cx, handle.node, handle.flags & O_SYNC == 0)?;
            self.note_synced(handle.node);
        }
        Ok(done)
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        mut position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let dir = handle.node;
        if self.load_fresh(dir)?.links == 0 {
            return fail(ENOENT);
        }
        if handle.flags & o::NOATIME == 0 {
            self.touch_accessed(cx, dir);
        }
        loop {
            let listed = match self.act(|fs| fs.read_directory(dir, position)) {
                Ok(listed) => listed,
                // What is there is given first.
                Err(_) if !into.is_empty() => return Ok(position),
                Err(failure) => return Err(failure),
            };
            if listed.is_empty() {
                return Ok(position);
            }
            for entry in listed {
                let mode = KINDS[entry.kind as usize & 7];
                if !into.add(entry.ino as u64, entry.next, mode, &entry.name) {
                    return Ok(position);
                }
                position = entry.next;
            }
        }
    }

    fn seek_data(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        hole: bool,
        size: u64,
    ) -> Answer<u64> {
        self.seek_file(handle.node, offset, hole, size)
    }

    fn sync(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        if cx.progress == 0 {
            self.look_at_clock(cx);
            self.note_mapped(handle.node);
        }
        let data_only = cx.request.words[1] != 0;
        self.sync_file(cx, handle.node, data_only)?;
        self.note_synced(handle.node);
        Ok(())
    }

    fn sync_all(&mut self, cx: &mut Context) -> Answer<()> {
        match cx.request.words[1] {
            fs::SYNC_CLOSE if cx.has(label::SYSTEM) => self.close(cx)?,
            _ => self.sync_everything(cx)?,
        }
        self.note_safe();
        Ok(())
    }

    fn unmount(&mut self, cx: &mut Context) -> Answer<()> {
        if cx.progress == 0 && self.anything_mapped() {
            return fail(EBUSY);
        }
        self.close(cx)?;
        self.ended = true;
        // The next tick, when the answer is on its way.
        let now = cx.transport.monotonic();
        cx.wake_at(Some(now));
        Ok(())
    }

    fn remount(&mut self, cx: &mut Context, flags: u64) -> Answer<()> {
        self.change_mount(cx, flags)
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        _: &'a mut Handle<Self>,
        request: u64,
        _: u64,
    ) -> Answer<Reply<'a>> {
        if request != FITRIM {
            return fail(ENOTTY);
        }
        let bytes = self.trim(cx)?;
        // Start and shortest run stay the caller's.
        cx.fetch(0, &mut self.trimmed)?;
        self.trimmed[8..16].copy_from_slice(&bytes.to_le_bytes());
        Ok(Reply::result(0).data(&self.trimmed))
    }

    fn interruptible(&self, operation: u64, progress: u64) -> bool {
        // What is being discarded is waited for.
        matches!(operation, fs::LOCK | fs::FLOCK | fs::POLL)
            || operation == fs::IOCTL && progress == 0
    }

    fn shown(&mut self, tag: u64, _: &mut [u8]) -> Option<Shown<u32>> {
        self.owner(tag).map(Shown::File)
    }

    fn map(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        _: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        self.map_file(cx, handle.node, shared_writable)
    }

    fn allocate(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Answer<u64> {
        self.allocate_file(cx, handle.node, mode, offset, length)?;
        Ok(length)
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        match pulse.badge {
            MEMORY => self.give_back(),
            DEVICE => self.device().pulse(pulse),
            PAGES => self.answer_mapped(),
            _ => {}
        }
        if !self.changed.is_empty() {
            // As after a predecessor's end.
            self.arm(cx);
        }
        self.look_at_clock(cx);
        self.settle(cx);
        self.run_syncs(cx);
    }

    fn cancelled(&mut self, cx: &mut Context) {
        self.writer_gone(cx);
        self.discards.cancelled(cx.request.token);
        if cx.request.words[0] == fs::REMOUNT {
            self.closing = false;
        }
    }

    fn tick(&mut self, cx: &mut Context) {
        if self.ended {
            (self.options.end)();
        }
        self.look_after(cx);
    }
}

/// Badge of the pulses of the device.
pub const DEVICE: u64 = 1;
/// Badge of the portal by which `vm` says that it wants frames back.
pub const MEMORY: u64 = 2;
/// Badge of the portal by which `vm` says that pages of mapped files are wanted.
pub const PAGES: u64 = 3;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// `vm` wants frames.
    fn give_back(&mut self) {
        let mut nothing_left = false;
        loop {
            let wanted = self.cache.memory().wanted(nothing_left);
            if wanted == 0 {
                return;
            }
            let wanted = wanted.min(u64::from(u32::MAX)) as u32;
            let (mapped, now) = (&mut self.mapped, self.clock);
            let shrunk = self.cache.shrink(wanted, |cache, file, page, _| {
                mapped.hide(cache, file, page, now)
            });
            if shrunk.dirty != 0 && shrunk.released < wanted {
                // They can go when they are written.
                self.everything = true;
                self.start_writes();
            }
            nothing_left = shrunk.released == 0;
            if nothing_left {
                self.cache.memory().wanted(true);
                self.wakes.push(keys::ROOM);
                return;
            }
        }
    }
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Who changes a file's data or owner takes its capabilities away.
    pub(crate) fn drop_capabilities(&mut self, cx: &mut Context, ino: u32) -> Answer<()> {
        if !self.node(ino)?.raises {
            return Ok(());
        }
        let now = self.look_at_clock(cx);
        let name = capability::ATTRIBUTE;
        match self.fs.set_attribute(ino, name, None, Some(true), now) {
            Err(Error::NoAttribute) => {}
            done => {
                self.act(|_| done)?;
                self.refresh(ino);
                self.arm(cx);
            }
        }
        // What other attributes there are gives nothing.
        if let Some(node) = self.nodes.get_mut(ino) {
            node.raises = false;
        }
        Ok(())
    }
}
