//! The first content: every entry of the boot archive outside `cairn/` becomes a node. File data that begins on a page boundary stays where it
//! is: its pages become the file's.
//!
//! Others read the archive as well, to start components: nothing up to the end of the last `cairn/` entry is changed. Behind it the pages that no
//! file uses are free memory.

use crate::inode::{Kind, Time};
use crate::pool::{Memory, Page, PAGE};
use crate::server::Tmpfs;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_archive::{entries, Entry};
use cairn_idl::errno::*;
use cairn_idl::fs::s;
use cairn_resmgr::layout::makedev;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Failure, New};

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    pub nodes: usize,
    /// Pages used in place.
    pub adopted: usize,
    /// Entries that could not be used (a parent is no directory, no memory).
    pub refused: usize,
    /// The archive ended early.
    pub damaged: bool,
}

/// An entry without its borrows, so that the archive can be written to meanwhile.
struct Item {
    name: Vec<u8>,
    target: Vec<u8>,
    inode: u32,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    mtime: u32,
    rdev: (u32, u32),
    offset: usize,
    length: usize,
}

fn own(name: &[u8]) -> bool {
    name == b"cairn" || name.starts_with(b"cairn/")
}

fn item(entry: &Entry) -> Item {
    Item {
        name: entry.name.to_vec(),
        target: if entry.mode & s::IFMT == s::IFLNK {
            entry.data.to_vec()
        } else {
            Vec::new()
        },
        inode: entry.inode,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        links: entry.links,
        mtime: entry.mtime,
        rdev: entry.rdev,
        offset: entry.offset,
        length: entry.data.len(),
    }
}

impl<M: Memory> Tmpfs<M> {
    /// Make the nodes of the archive that the pool was given. `now` is the time of creation.
    pub fn fill(&mut self, now: Time) -> Filled {
        let mut filled = Filled::default();
        let mut items = Vec::new();
        // Up to here the archive must stay as it is.
        let mut keep = 0;
        for entry in entries(self.pool.archive()) {
            match entry {
                Ok(entry) if own(entry.name) => keep = entry.offset + entry.data.len(),
                Ok(entry) => items.push(item(&entry)),
                Err(_) => filled.damaged = true,
            }
        }
        let mut links: BTreeMap<u32, u32> = BTreeMap::new();
        let mut used = alloc::vec![false; self.pool.archive().len() / PAGE];
        let mut tails = Vec::new();
        for item in &items {
            match self.add_item(item, keep, now, &mut links, &mut used, &mut tails) {
                Ok(adopted) => {
                    filled.nodes += 1;
                    filled.adopted += adopted;
                }
                Err(_) => filled.refused += 1,
            }
        }
        // Only now, as data of later entries may have lain there.
        for (page, from) in tails {
            self.pool.bytes_mut(page, from, PAGE - from).fill(0);
        }
        self.restore_times(&items);
        let first_free = keep.div_ceil(PAGE);
        for index in (first_free..used.len()).rev() {
            if !used[index] {
                let page = self.pool.archive_page(index * PAGE);
                self.pool.donate(page);
            }
        }
        filled
    }

    /// The directory that a path names, made if it is missing, and the last component.
    fn place<'n>(&mut self, name: &'n [u8], now: Time) -> Answer<(u32, &'n [u8])> {
        let mut dir = 0;
        let mut parts = name.split(|&byte| byte == b'/').filter(|p| !p.is_empty());
        let mut last = parts.next().ok_or(Failure::Errno(EEXIST))?;
        for part in parts {
            let found = self.child(dir, last)?;
            dir = match found {
                Some(node) => node,
                None => self.new_child(dir, last, &plain(s::IFDIR | 0o755), now)?,
            };
            last = part;
        }
        if last.len() > cairn_idl::fs::NAME_MAX || last == b"." || last == b".." {
            return Err(Failure::Errno(EINVAL));
        }
        Ok((dir, last))
    }

    fn child(&self, dir: u32, name: &[u8]) -> Answer<Option<u32>> {
        match &self.inode(dir)?.kind {
            Kind::Directory(dir) => Ok(dir.names.find(name)),
            _ => Err(Failure::Errno(ENOTDIR)),
        }
    }

    fn new_child(&mut self, dir: u32, name: &[u8], new: &New, now: Time) -> Answer<u32> {
        let node = self.new_inode(new, now)?;
        self.enter(dir, name, node, now, 0)?;
        Ok(node)
    }

    fn add_item(
        &mut self,
        item: &Item,
        keep: usize,
        now: Time,
        links: &mut BTreeMap<u32, u32>,
        used: &mut [bool],
        tails: &mut Vec<(Page, usize)>,
    ) -> Answer<usize> {
        let new = New {
            mode: item.mode & (s::IFMT | 0o7777),
            uid: item.uid,
            gid: item.gid,
            rdev: makedev(item.rdev.0, item.rdev.1),
            target: &item.target,
        };
        let kind = item.mode & s::IFMT;
        if item.name.is_empty() || item.name == b"." {
            return self.dress(0, &new).map(|()| 0);
        }
        let (dir, name) = self.place(&item.name, now)?;
        let existing = self.child(dir, name)?;
        if let (Some(node), s::IFDIR) = (existing, kind) {
            if self.inode(node)?.is_dir() {
                return self.dress(node, &new).map(|()| 0);
            }
        }
        if existing.is_some() {
            return Err(Failure::Errno(EEXIST));
        }
        if kind != s::IFDIR && item.links > 1 {
            if let Some(&node) = links.get(&item.inode) {
                self.enter(dir, name, node, now, 0)?;
                // In cpio the data comes with the last link.
                return self.give_data(node, item, keep, used, tails);
            }
        }
        let node = self.new_child(dir, name, &new, now)?;
        if kind != s::IFDIR && item.links > 1 {
            links.insert(item.inode, node);
        }
        self.give_data(node, item, keep, used, tails)
    }

    fn dress(&mut self, node: u32, new: &New) -> Answer<()> {
        let inode = self.inode_mut(node)?;
        inode.mode = new.mode;
        inode.uid = new.uid;
        inode.gid = new.gid;
        Ok(())
    }

    /// Put an entry's data into its file; how many pages were used in place.
    fn give_data(
        &mut self,
        node: u32,
        item: &Item,
        keep: usize,
        used: &mut [bool],
        tails: &mut Vec<(Page, usize)>,
    ) -> Answer<usize> {
        if item.length == 0 || item.mode & s::IFMT != s::IFREG {
            return Ok(0);
        }
        let end = item.offset + item.length;
        if !item.offset.is_multiple_of(PAGE) {
            let bytes = self.pool.archive()[item.offset..end].to_vec();
            self.set_content(node, &bytes, Time::default())?;
            return Ok(0);
        }
        // The page of the tail holds what comes behind it in the archive: it can be used if nobody reads that any more.
        let whole = if item.offset >= keep && end.next_multiple_of(PAGE) <= used.len() * PAGE {
            item.length.div_ceil(PAGE)
        } else {
            item.length / PAGE
        };
        let tail = self.pool.archive()[(item.offset + whole * PAGE).min(end)..end].to_vec();
        if !tail.is_empty() {
            self.set_content(node, &tail, Time::default())?;
        }
        let first = self.pool.archive_page(item.offset);
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        let Kind::File(file) = &mut inode.kind else {
            return Ok(0);
        };
        if !tail.is_empty() {
            // The tail's page belongs behind the others.
            let mut page = 0;
            file.content.take(0, 1, |taken| page = taken);
            file.content.set(whole as u64, page);
        }
        for index in 0..whole {
            let page = first + index as u32;
            self.pool.adopt(page);
            file.content.set(index as u64, page);
            used[item.offset / PAGE + index] = true;
        }
        if whole * PAGE > item.length {
            let from = item.length % PAGE;
            let last = first + whole as u32 - 1;
            tails.push((last, from));
        }
        inode.size = item.length as u64;
        Ok(whole)
    }

    /// Entering names changed the times of directories: set them as the archive has them.
    fn restore_times(&mut self, items: &[Item]) {
        for item in items {
            let mut node = 0;
            let parts = item.name.split(|&byte| byte == b'/');
            for part in parts.filter(|part| !part.is_empty() && *part != b".") {
                node = match self.child(node, part) {
                    Ok(Some(child)) => child,
                    _ => break,
                };
            }
            if let Some(inode) = self.inodes.get_mut(node) {
                let time = Time {
                    seconds: item.mtime as i64,
                    ns: 0,
                };
                inode.atime = time;
                inode.mtime = time;
            }
        }
    }
}

fn plain(mode: u32) -> New<'static> {
    New {
        mode,
        uid: 0,
        gid: 0,
        rdev: 0,
        target: &[],
    }
}
