//! Nodes of the tree and the table that holds them.

use crate::attributes::Attributes;
use crate::content::Content;
use crate::directory::Directory;
use alloc::boxed::Box;
use cairn_idl::fs::s;
use cairn_rt::Portal;
use cairn_slab::Records;

/// A point in time: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    pub seconds: i64,
    pub ns: u32,
}

impl Time {
    const ZERO: Time = Time { seconds: 0, ns: 0 };

    pub fn from_ns(ns: u64) -> Time {
        Time {
            seconds: (ns / 1_000_000_000) as i64,
            ns: (ns % 1_000_000_000) as u32,
        }
    }
}

/// A regular file's own part.
#[derive(Default)]
pub struct File {
    pub content: Content,
    /// The memory objects of its pages as they are now, if they were asked for: for all other mappings, and for such as are shared and writable.
    pub objects: [Option<Portal>; 2],
    /// The last of them that was made has all pages below this, and is for nobody before it has all.
    pub made_to: [u64; 2],
    /// Pages below this are not those any more that were mapped shared and writable ([`crate::seals`]).
    pub renewed_to: u64,
    /// Pages below this may be mapped shared and writable: below the file's end they are never holes, because programs would write where the file has no page.
    pub written_to: u64,
    /// Some of its pages may be mapped by programs: they must not be used for anything else when the file drops them.
    pub shared: bool,
    /// It was made so that it can be sealed.
    pub sealable: bool,
    /// It never gets a name (O_TMPFILE with O_EXCL).
    pub nameless: bool,
    /// Bits of `fs::seal`.
    pub seals: u8,
}

/// A directory's own part.
#[derive(Default)]
pub struct Dir {
    pub names: Directory,
    /// The directory above, and its inode number (it may be gone when this one has been removed).
    pub parent: u32,
    pub parent_ino: u64,
    /// Directories below.
    pub children: u32,
}

pub enum Kind {
    File(File),
    Directory(Box<Dir>),
    Link(Box<[u8]>),
    /// Device, FIFO or socket.
    Special,
    /// No node: the number is free.
    Free,
}

pub struct Inode {
    pub ino: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Names of the node; a directory's is 1 while it is in the tree.
    pub names: u32,
    /// Handles that refer to it.
    pub opens: u32,
    /// The user that it is charged to.
    pub payer: u32,
    pub rdev: u64,
    /// Of a regular file.
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// When it was made.
    pub birth: Time,
    /// Where it got its last name: directory and sequence number there.
    pub home: (u32, u64),
    pub attributes: Attributes,
    pub kind: Kind,
}

impl Inode {
    /// Somebody may have it mapped.
    pub fn has_objects(&self) -> bool {
        matches!(&self.kind, Kind::File(file) if file.has_objects())
    }

    const FREE: Inode = Inode {
        ino: 0,
        mode: 0,
        uid: 0,
        gid: 0,
        names: 0,
        opens: 0,
        payer: 0,
        rdev: 0,
        size: 0,
        atime: Time::ZERO,
        mtime: Time::ZERO,
        ctime: Time::ZERO,
        birth: Time::ZERO,
        home: (0, 0),
        attributes: Attributes::NONE,
        kind: Kind::Free,
    };

    pub fn is_dir(&self) -> bool {
        self.mode & s::IFMT == s::IFDIR
    }

    /// `st_size`: Linux's tmpfs counts 20 bytes for each entry of a directory.
    pub fn length(&self) -> u64 {
        match &self.kind {
            Kind::File(_) => self.size,
            Kind::Directory(dir) => 40 + 20 * dir.names.len() as u64,
            Kind::Link(target) => target.len() as u64,
            Kind::Special | Kind::Free => 0,
        }
    }

    pub fn links(&self) -> u64 {
        match &self.kind {
            Kind::Directory(dir) if self.names != 0 => 2 + dir.children as u64,
            _ => self.names as u64,
        }
    }

    /// Bytes that are charged for it, its names and pages apart.
    pub fn cost(&self) -> usize {
        cost(self.mode, self.length())
    }

    pub fn touch_modified(&mut self, now: Time) {
        self.mtime = now;
        self.ctime = now;
    }
}

/// Bytes that are charged for a node; a link's target has this length.
pub fn cost(mode: u32, target: u64) -> usize {
    size_of::<Inode>()
        + match mode & s::IFMT {
            s::IFDIR => size_of::<Dir>(),
            s::IFLNK => target as usize,
            _ => 0,
        }
}

impl Default for Inode {
    fn default() -> Inode {
        Inode::FREE
    }
}

/// All nodes, by number. Numbers are used again, inode numbers are not.
#[derive(Default)]
pub struct Inodes {
    records: Records<Inode>,
    last_ino: u64,
}

/// What `vm` has the objects of a node for. (Numbers of nodes come again, inode numbers do not before they have gone through 32 bits.)
pub fn tag(node: u32, ino: u64) -> u64 {
    ino << 32 | u64::from(node)
}

impl Inodes {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// See that the next [`Inodes::insert`] does not fail. False: there is no memory.
    #[inline(always)]
    pub fn reserve(&mut self) -> bool {
        self.records.reserve()
    }

    /// A new node, made where it will lie. None: there is no memory.
    #[inline(always)]
    pub fn insert(&mut self, mode: u32, kind: Kind, now: Time) -> Option<(u32, &mut Inode)> {
        let number = self.records.take()?;
        self.last_ino += 1;
        let inode = &mut self.records[number];
        inode.ino = self.last_ino;
        inode.mode = mode;
        inode.uid = 0;
        inode.gid = 0;
        inode.names = 0;
        inode.opens = 0;
        inode.payer = 0;
        inode.rdev = 0;
        inode.size = 0;
        inode.atime = now;
        inode.mtime = now;
        inode.ctime = now;
        inode.birth = now;
        inode.home = (0, 0);
        // What was there is `Free`, which needs no dropping.
        core::mem::forget(core::mem::replace(&mut inode.kind, kind));
        Some((number, inode))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Inode> {
        self.records.numbers().filter_map(|number| self.get(number))
    }

    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&Inode> {
        let inode = self.records.get(number)?;
        (!matches!(inode.kind, Kind::Free)).then_some(inode)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Inode> {
        let inode = self.records.get_mut(number)?;
        (!matches!(inode.kind, Kind::Free)).then_some(inode)
    }

    /// The node is gone; what it was comes back.
    pub fn remove(&mut self, number: u32) -> Option<Kind> {
        let inode = self.get_mut(number)?;
        inode.attributes = Attributes::NONE;
        let kind = core::mem::replace(&mut inode.kind, Kind::Free);
        self.records.give(number);
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_nodes_took_goes_with_them() {
        let mut inodes = Inodes::default();
        let insert = |inodes: &mut Inodes| {
            let made = inodes.insert(s::IFIFO, Kind::Special, Time::ZERO);
            made.map(|(number, inode)| (number, inode.ino)).unwrap()
        };
        let root = insert(&mut inodes);
        let many: Vec<(u32, u64)> = (0..1000).map(|_| insert(&mut inodes)).collect();
        for (number, _) in &many {
            assert!(inodes.remove(*number).is_some() && inodes.get(*number).is_none());
        }
        let with_memory = (0..1001).filter(|at| inodes.records.get(*at).is_some());
        assert!(with_memory.count() <= 128);
        assert!(inodes.all().map(|inode| inode.ino).eq([root.1]));
        // Inode numbers are not used again.
        let next = insert(&mut inodes);
        assert_eq!(next, (many[0].0, many[999].1 + 1));
    }
}
