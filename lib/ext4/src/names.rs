//! Making, naming and removing: every operation on names is one transaction's. Whether the caller may do it (permissions, sticky directories, immutable files) is decided before, by who calls.

use crate::directory::good_name;
use crate::error::{damaged, Error};
use crate::fs::{Fs, Time};
use crate::inode::{
    Inode, BLOCK_DEVICE, CHARACTER, DIRECTORY, FIFO, FORMAT, REGULAR, SOCKET, SYMLINK,
};
use crate::inodes::New;

/// Names of a file; of subdirectories, which then count as 1.
const MAX_LINKS: u16 = 65000;
/// Directories above each other that are looked at before one is moved.
const MAX_DEPTH: usize = 4096;

/// What lost a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub ino: u32,
    /// It was the last: when nobody has it open, [`Fs::finish`] frees it.
    pub last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// What has the new name loses it.
    Replace,
    /// The new name must be free.
    NoReplace,
    /// The two change places.
    Exchange,
}

pub(crate) fn entry_kind(mode: u16) -> u8 {
    match mode & FORMAT {
        REGULAR => 1,
        DIRECTORY => 2,
        CHARACTER => 3,
        BLOCK_DEVICE => 4,
        FIFO => 5,
        SOCKET => 6,
        SYMLINK => 7,
        _ => 0,
    }
}

fn own_name(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl Fs {
    /// A directory that may get names: one that was removed and is still open may not.
    fn living(&self, dir: u32) -> Result<Inode, Error> {
        let dir = self.directory(dir)?;
        if dir.links == 0 {
            return Err(Error::NotFound);
        }
        Ok(dir)
    }

    fn new_name(&self, dir: &Inode, name: &[u8]) -> Result<(), Error> {
        good_name(name)?;
        if own_name(name) || self.find_name(dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        Ok(())
    }

    fn old_name(&self, dir: &Inode, name: &[u8]) -> Result<u32, Error> {
        good_name(name)?;
        if own_name(name) {
            return Err(Error::Invalid);
        }
        let found = self.find_name(dir, name)?.ok_or(Error::NotFound)?;
        self.named(found.ino)
    }

    fn put_directory(&mut self, dir: &mut Inode, now: Time) -> Result<(), Error> {
        dir.mtime = now;
        dir.ctime = now;
        self.put_inode(dir, true)
    }

    /// One more subdirectory. Beyond what can be counted, 1 says that they are not.
    fn more_links(&self, dir: &mut Inode) -> Result<(), Error> {
        if dir.links == 1 {
            return Ok(());
        }
        dir.links = dir.links.saturating_add(1);
        if dir.links >= MAX_LINKS {
            if !self.is_indexed(dir) {
                return Err(Error::TooManyLinks);
            }
            dir.links = 1;
        }
        Ok(())
    }

    fn fewer_links(&self, dir: &mut Inode) {
        if dir.links > 2 {
            dir.links -= 1;
        }
    }

    /// A file, device, FIFO, socket or directory with a name.
    pub fn create(&mut self, dir: u32, name: &[u8], new: &New) -> Result<u32, Error> {
        let kind = entry_kind(new.mode);
        if kind == 0 || kind == 7 {
            return Err(Error::Invalid);
        }
        self.change(|fs| {
            let mut dir = fs.living(dir)?;
            fs.new_name(&dir, name)?;
            let mut inode = fs.new_inode(dir.ino, new)?;
            if inode.is_directory() {
                fs.more_links(&mut dir)?;
                inode.links = 2;
                fs.begin_directory(&mut inode, dir.ino)?;
                fs.put_inode(&inode, true)?;
            }
            fs.insert_name(&mut dir, name, inode.ino, kind)?;
            fs.put_directory(&mut dir, new.now)?;
            Ok(inode.ino)
        })
    }

    /// A file without a name near a directory (O_TMPFILE): freed with [`Fs::finish`] unless [`Fs::link`] gives it one.
    pub fn create_nameless(&mut self, dir: u32, new: &New) -> Result<u32, Error> {
        self.change(|fs| {
            let dir = fs.living(dir)?;
            let mut inode = fs.new_inode(dir.ino, new)?;
            if !inode.is_regular() {
                return Err(Error::Invalid);
            }
            inode.links = 0;
            fs.add_orphan(&mut inode)?;
            fs.put_inode(&inode, true)?;
            Ok(inode.ino)
        })
    }

    /// A symbolic link; short targets are in the inode. `new` tells owner and time.
    pub fn symlink(
        &mut self,
        dir: u32,
        name: &[u8],
        target: &[u8],
        new: &New,
    ) -> Result<u32, Error> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() >= self.shape.block_size {
            return Err(Error::NameTooLong);
        }
        self.change(|fs| {
            let mut dir = fs.living(dir)?;
            fs.new_name(&dir, name)?;
            let new = New {
                mode: SYMLINK | 0o777,
                ..*new
            };
            let mut inode = fs.new_inode(dir.ino, &new)?;
            inode.size = target.len() as u64;
            if target.len() < inode.area.len() {
                inode.area[..target.len()].copy_from_slice(target);
            } else {
                inode.flags |= crate::inode::EXTENTS;
                inode.area = crate::extent::change::empty();
                let block = fs.new_block(&mut inode, crate::cache::Kind::Parts)?;
                let extent = crate::extent::Extent {
                    at: 0,
                    len: 1,
                    start: block,
                    unwritten: false,
                };
                fs.insert(&mut inode, extent)?;
                fs.cache.write(block, 0, target)?;
            }
            fs.put_inode(&inode, true)?;
            fs.insert_name(&mut dir, name, inode.ino, 7)?;
            fs.put_directory(&mut dir, new.now)?;
            Ok(inode.ino)
        })
    }

    /// One more name for a file.
    pub fn link(&mut self, ino: u32, dir: u32, name: &[u8], now: Time) -> Result<(), Error> {
        self.change(|fs| {
            let mut dir = fs.living(dir)?;
            let mut inode = fs.inode(ino)?;
            if inode.is_directory() {
                return Err(Error::IsDirectory);
            }
            fs.new_name(&dir, name)?;
            if inode.links >= MAX_LINKS {
                return Err(Error::TooManyLinks);
            }
            if inode.links == 0 {
                fs.remove_orphan(&mut inode)?;
            }
            inode.links += 1;
            inode.ctime = now;
            fs.put_inode(&inode, true)?;
            fs.insert_name(&mut dir, name, ino, entry_kind(inode.mode))?;
            fs.put_directory(&mut dir, now)
        })
    }

    /// An inode loses a name; directories lose their only one.
    fn unname(&mut self, inode: &mut Inode, now: Time) -> Result<Gone, Error> {
        inode.links = if inode.is_directory() {
            0
        } else {
            inode.links.saturating_sub(1)
        };
        inode.ctime = now;
        let last = inode.links == 0;
        if last {
            self.add_orphan(inode)?;
        }
        self.put_inode(inode, true)?;
        Ok(Gone {
            ino: inode.ino,
            last,
        })
    }

    pub fn unlink(&mut self, dir: u32, name: &[u8], now: Time) -> Result<Gone, Error> {
        self.change(|fs| {
            let mut dir = fs.directory(dir)?;
            let mut inode = fs.inode(fs.old_name(&dir, name)?)?;
            if inode.is_directory() {
                return Err(Error::IsDirectory);
            }
            fs.remove_name(&dir, name)?;
            fs.put_directory(&mut dir, now)?;
            fs.unname(&mut inode, now)
        })
    }

    pub fn remove_directory(&mut self, dir: u32, name: &[u8], now: Time) -> Result<Gone, Error> {
        self.change(|fs| {
            let mut dir = fs.directory(dir)?;
            let mut inode = fs.directory(fs.old_name(&dir, name)?)?;
            if inode.ino == dir.ino {
                return damaged("directory in itself", u64::from(dir.ino));
            }
            if !fs.is_empty(&inode)? {
                return Err(Error::NotEmpty);
            }
            fs.remove_name(&dir, name)?;
            fs.fewer_links(&mut dir);
            fs.put_directory(&mut dir, now)?;
            fs.unname(&mut inode, now)
        })
    }

    /// Is `ino` the directory `below` or above it?
    fn is_above(&self, ino: u32, below: u32) -> Result<bool, Error> {
        let mut at = below;
        for _ in 0..MAX_DEPTH {
            if at == ino {
                return Ok(true);
            }
            if at == crate::inode::ROOT {
                return Ok(false);
            }
            at = self.parent(&self.directory(at)?)?;
        }
        damaged("directories that lead nowhere", u64::from(below))
    }

    /// Returns what lost its last or another name, if something did.
    pub fn rename(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<Option<Gone>, Error> {
        self.change(|fs| {
            let (old_name, new_name) = (from.1, to.1);
            let old_dir = fs.directory(from.0)?;
            let new_dir = fs.living(to.0)?;
            let ino = fs.old_name(&old_dir, old_name)?;
            good_name(new_name)?;
            if own_name(new_name) {
                return Err(Error::Invalid);
            }
            let moved = fs.inode(ino)?;
            let other = match fs.find_name(&new_dir, new_name)? {
                Some(found) => Some(fs.inode(fs.named(found.ino)?)?),
                None => None,
            };
            match (how, &other) {
                (Rename::NoReplace, Some(_)) => return Err(Error::Exists),
                (Rename::Exchange, None) => return Err(Error::NotFound),
                (_, Some(other)) if other.ino == ino => return Ok(None),
                _ => {}
            }
            let apart = from.0 != to.0;
            if apart && moved.is_directory() && fs.is_above(ino, to.0)? {
                return Err(Error::Invalid);
            }
            match other {
                Some(other) if how == Rename::Exchange => {
                    if apart && other.is_directory() && fs.is_above(other.ino, from.0)? {
                        return Err(Error::Invalid);
                    }
                    fs.exchange((from.0, old_name, moved), (to.0, new_name, other), now)?;
                    Ok(None)
                }
                other => fs.replace((from.0, old_name), (to.0, new_name), moved, other, now),
            }
        })
    }

    fn exchange(
        &mut self,
        one: (u32, &[u8], Inode),
        two: (u32, &[u8], Inode),
        now: Time,
    ) -> Result<(), Error> {
        for (dir, name, new) in [(one.0, one.1, &two.2), (two.0, two.1, &one.2)] {
            let mut inode = self.directory(dir)?;
            self.replace_name(&inode, name, new.ino, entry_kind(new.mode))?;
            self.put_directory(&mut inode, now)?;
        }
        for (mut inode, old, new) in [(one.2, one.0, two.0), (two.2, two.0, one.0)] {
            if inode.is_directory() && old != new {
                self.move_parent(&inode, old, new)?;
            }
            // Its counts may have changed with those of its directories.
            inode = self.inode(inode.ino)?;
            inode.ctime = now;
            self.put_inode(&inode, true)?;
        }
        Ok(())
    }

    /// A directory has another parent.
    fn move_parent(&mut self, dir: &Inode, old: u32, new: u32) -> Result<(), Error> {
        self.set_parent(dir, new)?;
        let mut inode = self.directory(old)?;
        self.fewer_links(&mut inode);
        self.put_inode(&inode, true)?;
        let mut inode = self.directory(new)?;
        self.more_links(&mut inode)?;
        self.put_inode(&inode, true)
    }

    fn replace(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        moved: Inode,
        other: Option<Inode>,
        now: Time,
    ) -> Result<Option<Gone>, Error> {
        let kind = entry_kind(moved.mode);
        let gone = match other {
            Some(mut other) => {
                match (moved.is_directory(), other.is_directory()) {
                    (true, false) => return Err(Error::NotDirectory),
                    (false, true) => return Err(Error::IsDirectory),
                    (true, true) if !self.is_empty(&other)? => return Err(Error::NotEmpty),
                    _ => {}
                }
                let mut dir = self.directory(to.0)?;
                self.replace_name(&dir, to.1, moved.ino, kind)?;
                if other.is_directory() {
                    self.fewer_links(&mut dir);
                }
                self.put_directory(&mut dir, now)?;
                Some(self.unname(&mut other, now)?)
            }
            None => {
                let mut dir = self.directory(to.0)?;
                self.insert_name(&mut dir, to.1, moved.ino, kind)?;
                self.put_directory(&mut dir, now)?;
                None
            }
        };
        let mut dir = self.directory(from.0)?;
        self.remove_name(&dir, from.1)?;
        self.put_directory(&mut dir, now)?;
        if moved.is_directory() && from.0 != to.0 {
            self.move_parent(&moved, from.0, to.0)?;
        }
        let mut inode = self.inode(moved.ino)?;
        inode.ctime = now;
        self.put_inode(&inode, true)?;
        Ok(gone)
    }

    /// Changes fields of an inode that a program may change: permissions, owner, times, flags of `chattr`.
    pub fn change_inode(&mut self, ino: u32, change: impl FnOnce(&mut Inode)) -> Result<(), Error> {
        self.change(|fs| {
            let old = fs.inode(ino)?;
            let mut new = old.clone();
            change(&mut new);
            let data =
                (old.mode, old.uid, old.gid, old.flags) != (new.mode, new.uid, new.gid, new.flags);
            let inode = Inode {
                mode: old.mode & FORMAT | new.mode & !FORMAT,
                uid: new.uid,
                gid: new.gid,
                atime: new.atime,
                mtime: new.mtime,
                ctime: new.ctime,
                flags: old.flags & !CHANGEABLE | new.flags & CHANGEABLE,
                ..old
            };
            fs.put_inode(&inode, data)
        })
    }
}

/// Secure deletion, undelete, sync, immutable, append, no dump, no atime.
const CHANGEABLE: u32 = 0x1 | 0x2 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80;
