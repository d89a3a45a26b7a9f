//! New inodes and the end of old ones; the list of orphans.
//!
//! An inode that nobody names any more, or that has blocks behind its end, is an orphan until it is freed or cut: the superblock names the last of them, each names the one
//! before in its time of deletion, and after a cut of power they are finished ([`Fs::leftover`]).

use crate::allocate::next_bit;
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::fs::{Fs, Time};
use crate::group::{DIRECTORIES, FREE_INODES, INODES_UNINIT, UNUSED};
use crate::inode::{seed, Inode, DIRECTORY, EXTENTS, FORMAT, REGULAR, ROOT};
use crate::transaction::PIECES;
use alloc::vec;
use cairn_crc32c::crc32c;

/// What a new inode is to be.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// Kind and permissions, as in `st_mode`.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Of a device node: major and minor number.
    pub device: (u32, u32),
    pub now: Time,
}

impl Fs {
    fn inode_bitmap(&mut self, number: u32) -> Result<u64, Error> {
        let group = self.group(number)?;
        let block = group.inode_bitmap;
        if group.flags & INODES_UNINIT == 0 {
            self.checked(block, Kind::InodeBitmap(number))?;
            return Ok(block);
        }
        if group.free_inodes != self.shape.group_inodes {
            return damaged("free inodes of a new group", u64::from(number));
        }
        let mut map = vec![0xFF; self.shape.block_size];
        map[..self.shape.group_inodes as usize / 8].fill(0);
        self.cache.create(block, Kind::InodeBitmap(number));
        self.cache.write(block, 0, &map)?;
        self.clear_group_flag(number, INODES_UNINIT)?;
        Ok(block)
    }

    /// Files go to their directory's group; directories at the top go where there is most room, others near their parent.
    fn choose_group(&self, parent: u32, directory: bool) -> Result<u32, Error> {
        let groups = self.shape.groups;
        let home = (parent - 1) / self.shape.group_inodes;
        if directory && parent == ROOT {
            let mut best = None;
            for number in 0..groups {
                let group = self.group(number)?;
                let room = (u64::from(group.free_blocks) << 32 | u64::from(group.free_inodes))
                    .saturating_sub(u64::from(group.directories) << 36);
                if group.free_inodes != 0 && best.is_none_or(|(most, _)| most < room) {
                    best = Some((room, number));
                }
            }
            return best.map(|(_, number)| number).ok_or(Error::NoSpace);
        }
        for step in 0..groups {
            let number = (home + step) % groups;
            if self.group(number)?.free_inodes != 0 {
                return Ok(number);
            }
        }
        Err(Error::NoSpace)
    }

    /// A fresh inode, not yet named.
    pub(crate) fn new_inode(&mut self, parent: u32, new: &New) -> Result<Inode, Error> {
        let directory = new.mode & FORMAT == DIRECTORY;
        let number = self.choose_group(parent, directory)?;
        let block = self.inode_bitmap(number)?;
        self.begin_group(number)?;
        let per_group = self.shape.group_inodes;
        let first = if number == 0 {
            self.shape.first_inode - 1
        } else {
            0
        };
        let map = &self.cache.slot(block)?.data;
        let at = next_bit(map, first.min(per_group), per_group, false);
        if at >= per_group {
            return damaged("inode bitmap", u64::from(number));
        }
        let byte = map[at as usize / 8] | 1 << (at % 8);
        self.cache.write(block, at as usize / 8, &[byte])?;
        let group = self.group(number)?;
        self.set_group_number(number, FREE_INODES, group.free_inodes - 1)?;
        let behind = per_group - at - 1;
        self.set_group_number(number, UNUSED, group.unused.min(behind))?;
        if directory {
            self.set_group_number(number, DIRECTORIES, group.directories.saturating_add(1))?;
        }
        self.free_inodes = self.free_inodes.saturating_sub(1);

        let ino = number * per_group + at + 1;
        let now = new.now;
        let stamp = crc32c(ino, &now.nsec.to_le_bytes());
        let generation = crc32c(stamp, &now.sec.to_le_bytes());
        let mut inode = Inode {
            ino,
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            size: 0,
            links: 1,
            sectors: 0,
            flags: 0,
            atime: now,
            ctime: now,
            mtime: now,
            crtime: now,
            generation,
            dtime: 0,
            attributes: 0,
            has_attributes: false,
            area: [0; 60],
            extra: if self.shape.inode_size > 128 {
                self.shape.extra.min((self.shape.inode_size - 128) as u16)
            } else {
                0
            },
            seed: seed(&self.shape, ino, generation),
        };
        match inode.format() {
            REGULAR | DIRECTORY => {
                inode.flags = EXTENTS;
                inode.area = crate::extent::change::empty();
            }
            _ if inode.is_device() => inode.set_device(new.device),
            _ => {}
        }
        let (block, at) = self.inode_at(ino)?;
        self.checked(block, Kind::Parts)?;
        let mut raw = vec![0; self.shape.inode_size];
        inode.put(&self.shape, &mut raw);
        self.cache.write(block, at, &raw)?;
        let seen = &self.cache.slot(block)?.seen;
        seen.set(seen.get() | 1 << (at / self.shape.inode_size));
        self.running.inodes.insert(ino, true);
        Ok(inode)
    }

    /// The inode may be given to another file.
    fn free_inode(&mut self, inode: &mut Inode, now: Time) -> Result<(), Error> {
        let number = (inode.ino - 1) / self.shape.group_inodes;
        let at = (inode.ino - 1) % self.shape.group_inodes;
        let block = self.inode_bitmap(number)?;
        let byte = self.cache.slot(block)?.data[at as usize / 8];
        if byte >> (at % 8) & 1 == 0 {
            return damaged("inode free and in use at once", u64::from(inode.ino));
        }
        self.cache
            .write(block, at as usize / 8, &[byte & !(1 << (at % 8))])?;
        let group = self.group(number)?;
        self.set_group_number(number, FREE_INODES, group.free_inodes + 1)?;
        if inode.is_directory() {
            let left = group.directories.saturating_sub(1);
            self.set_group_number(number, DIRECTORIES, left)?;
        }
        self.free_inodes += 1;
        inode.dtime = (now.sec as u32).max(1);
        inode.size = 0;
        self.put_inode(inode, true)
    }

    /// Puts an inode on the list. The caller writes it afterwards.
    pub(crate) fn add_orphan(&mut self, inode: &mut Inode) -> Result<(), Error> {
        if self.orphans.contains(&inode.ino) {
            return Ok(());
        }
        inode.dtime = self.orphans.last().copied().unwrap_or(0);
        self.orphans_to_change().push(inode.ino);
        self.touch_super()
    }

    /// Takes it from the list. The caller writes it afterwards.
    pub(crate) fn remove_orphan(&mut self, inode: &mut Inode) -> Result<(), Error> {
        let Some(place) = self.orphans.iter().position(|&ino| ino == inode.ino) else {
            return Ok(());
        };
        let before = place.checked_sub(1).map_or(0, |place| self.orphans[place]);
        let after = self.orphans.get(place + 1).copied();
        self.orphans_to_change().remove(place);
        inode.dtime = 0;
        match after {
            Some(after) => {
                let mut after = self.inode(after)?;
                after.dtime = before;
                self.put_inode(&after, true)
            }
            None => self.touch_super(),
        }
    }

    /// The superblock belongs to this transaction; what stands in it is made when that closes.
    fn touch_super(&mut self) -> Result<(), Error> {
        let (block, _) = self.shape.super_at();
        self.checked(block, Kind::Parts).map(|_| ())
    }

    /// One step of freeing a file without names that is no longer open, or of what [`Fs::leftover`] tells. True when nothing is left to do.
    pub fn finish(&mut self, ino: u32, now: Time) -> Result<bool, Error> {
        if !self.orphans.contains(&ino) {
            return Ok(true);
        }
        if self.inode(ino)?.links != 0 {
            return self.cut_rest(ino, now);
        }
        let done = self.change(|fs| {
            let mut inode = fs.inode(ino)?;
            let metadata = !inode.is_regular();
            if inode.flags & EXTENTS != 0
                && !fs.free_range(&mut inode, 0, 1 << 32, PIECES, metadata)?
            {
                inode.size = 0;
                fs.put_inode(&inode, true)?;
                return Ok(false);
            }
            fs.remove_orphan(&mut inode)?;
            fs.drop_attributes(&mut inode)?;
            fs.free_inode(&mut inode, now)?;
            Ok(true)
        })?;
        if done {
            self.cutting.remove(&ino);
        }
        Ok(done)
    }

    /// One step of freeing what a file has behind its end, after [`Fs::set_size`]. True when nothing is left to do.
    pub fn cut_rest(&mut self, ino: u32, now: Time) -> Result<bool, Error> {
        let done = self.change(|fs| {
            let mut inode = fs.regular(ino)?;
            let end = inode.size.div_ceil(fs.shape.block_size as u64);
            let done = end > u64::from(u32::MAX)
                || fs.free_range(&mut inode, end as u32, 1 << 32, PIECES, false)?;
            inode.ctime = now;
            if done && inode.links != 0 {
                fs.remove_orphan(&mut inode)?;
            }
            fs.put_inode(&inode, true)?;
            Ok(done)
        })?;
        if done {
            self.cutting.remove(&ino);
        }
        Ok(done)
    }
}
