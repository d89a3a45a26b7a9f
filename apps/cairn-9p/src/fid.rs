//! What a client's numbers stand for.
//!
//! A file is held by a descriptor of O_PATH, so that it stays the same one whatever becomes of its name. The names that led to it are kept beside: `..`,
//! REMOVE and RENAME go by them, from the root of the tree, and so never out of it.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{fstat, openat, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most numbers of a session.
pub const MOST: usize = 16_384;
/// Names between a file and the root, at most.
const DEPTH: usize = 1_024;
/// Bytes of all values of attributes that a session holds, and of one of them.
const VALUES: usize = 4 << 20;
pub const VALUE: usize = 64 << 10;

/// Where a file was found. The root has no folder above it.
pub struct Place {
    pub above: Option<Arc<Place>>,
    pub name: Box<[u8]>,
    depth: usize,
}

impl Place {
    pub fn root() -> Arc<Place> {
        Arc::new(Place {
            above: None,
            name: Box::default(),
            depth: 0,
        })
    }

    pub fn below(above: &Arc<Place>, name: &[u8]) -> Result<Arc<Place>, Errno> {
        if above.depth >= DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        Ok(Arc::new(Place {
            above: Some(above.clone()),
            name: name.into(),
            depth: above.depth + 1,
        }))
    }

    /// The names from the root to here.
    pub fn names(&self) -> Vec<&[u8]> {
        let mut names = Vec::new();
        let mut place = self;
        while let Some(above) = &place.above {
            names.push(&place.name[..]);
            place = above;
        }
        names.reverse();
        names
    }
}

/// A file, by a descriptor that leads to nothing else.
pub struct Node {
    pub file: OwnedFd,
    pub stat: Stat,
}

/// How every name is followed: one at a time, and no symbolic link.
pub const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Node {
    pub fn new(file: OwnedFd) -> Result<Arc<Node>, Errno> {
        let stat = fstat(&file)?;
        Ok(Arc::new(Node { file, stat }))
    }

    /// The file of this name in this folder; a link is the file.
    pub fn step(&self, name: &[u8]) -> Result<Arc<Node>, Errno> {
        let mode = rustix::fs::Mode::empty();
        Node::new(openat(&self.file, name, STEP, mode)?)
    }

    pub fn is(&self, kind: u32) -> bool {
        self.stat.st_mode & libc::S_IFMT == kind
    }

    pub fn is_same(&self, other: &Stat) -> bool {
        (self.stat.st_dev, self.stat.st_ino) == (other.st_dev, other.st_ino)
    }

    /// A path to the file itself, for calls that take no such descriptor.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

/// What can be done with a number.
pub enum Use {
    Named,
    /// The node's descriptor is the opened file's. `waits`: who opened it wants to wait for what is not there yet. The lock: where entries are read.
    Open {
        flags: OFlags,
        waits: bool,
        position: Mutex<()>,
    },
    /// An attribute's value, to be read.
    Value {
        bytes: Vec<u8>,
        _charge: Charge,
    },
    /// An attribute that is being set.
    NewValue(NewValue),
}

pub struct NewValue {
    pub name: Vec<u8>,
    pub size: usize,
    pub flags: u32,
    pub data: Mutex<Vec<u8>>,
    pub _charge: Charge,
}

pub struct Fid {
    pub node: Arc<Node>,
    pub place: Arc<Place>,
    pub then: Use,
}

impl Fid {
    pub fn named(node: Arc<Node>, place: Arc<Place>) -> Fid {
        let then = Use::Named;
        Fid { node, place, then }
    }
}

/// Bytes of values, given back at the end.
pub struct Charge(Arc<AtomicUsize>, usize);

impl Drop for Charge {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub struct Fids {
    all: Mutex<HashMap<u32, Arc<Fid>>>,
    values: Arc<AtomicUsize>,
}

impl Fids {
    fn all(&self) -> MutexGuard<'_, HashMap<u32, Arc<Fid>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, fid: u32) -> Result<Arc<Fid>, Errno> {
        self.all().get(&fid).cloned().ok_or(Errno::BADF)
    }

    /// A number that stands for nothing yet.
    pub fn insert(&self, number: u32, fid: Fid) -> Result<(), Errno> {
        let mut all = self.all();
        if all.contains_key(&number) {
            return Err(Errno::EXIST);
        }
        if all.len() >= MOST {
            return Err(Errno::NFILE);
        }
        all.insert(number, Arc::new(fid));
        Ok(())
    }

    /// A number stands for something else from now on, unless it does already.
    pub fn replace(&self, number: u32, old: &Arc<Fid>, new: Fid) -> Result<(), Errno> {
        match self.all().get_mut(&number) {
            Some(there) if Arc::ptr_eq(there, old) => *there = Arc::new(new),
            Some(_) => return Err(Errno::BUSY),
            None => return Err(Errno::BADF),
        }
        Ok(())
    }

    pub fn remove(&self, fid: u32) -> Result<Arc<Fid>, Errno> {
        self.all().remove(&fid).ok_or(Errno::BADF)
    }

    pub fn charge(&self, bytes: usize) -> Result<Charge, Errno> {
        let before = self.values.fetch_add(bytes, Ordering::Relaxed);
        let charge = Charge(self.values.clone(), bytes);
        match before + bytes <= VALUES {
            true => Ok(charge),
            false => Err(Errno::NOMEM),
        }
    }
}
