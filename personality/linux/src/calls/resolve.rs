//! openat2 with RESOLVE_ flags: the name is walked part by part, each opened below the one before, so that no rename on the way leads where the flags forbid.

use super::open::{descriptor, open_from};
use super::others;
use super::status::stat_handle;
use crate::descriptors::OpenFile;
use crate::errno::{Result, ELOOP, ENOENT, ENOTDIR, EXDEV};
use crate::machine::request::Request;
use crate::path::{self, Answer, AT_FDCWD};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::fs::{self, o, s, Statfs, SYMLINKS_MAX};

/// RESOLVE_CACHED is passed over: there is no cache to ask alone.
mod way {
    pub const NO_XDEV: u64 = 1;
    pub const NO_MAGICLINKS: u64 = 2;
    pub const NO_SYMLINKS: u64 = 4;
    pub const BENEATH: u64 = 8;
    pub const IN_ROOT: u64 = 0x10;
}

/// Does a name have to be walked part by part?
pub fn restricts(flags: u64) -> bool {
    const ALL: u64 =
        way::NO_XDEV | way::NO_MAGICLINKS | way::NO_SYMLINKS | way::BENEATH | way::IN_ROOT;
    flags & ALL != 0
}

struct Walk {
    flags: u64,
    /// The directory that the walk is in, and those above it that it came through: the first one is where it began.
    above: Vec<Arc<OpenFile>>,
    /// What is still to be walked.
    parts: VecDeque<Vec<u8>>,
    links: usize,
    /// The device of the beginning.
    device: u64,
}

impl Walk {
    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    fn here(&self) -> &Arc<OpenFile> {
        &self.above[self.above.len() - 1]
    }

    fn is_scoped(&self) -> bool {
        self.has(way::BENEATH | way::IN_ROOT)
    }

    /// Go on from another directory.
    fn begin(&mut self, directory: Arc<OpenFile>) -> Result<()> {
        self.same_device(&directory)?;
        self.above.clear();
        self.above.push(directory);
        Ok(())
    }

    fn same_device(&self, file: &OpenFile) -> Result<()> {
        match self.has(way::NO_XDEV) && stat_handle(file)?.dev != self.device {
            true => Err(EXDEV),
            false => Ok(()),
        }
    }

    /// From the root, as absolute names and links do.
    fn begin_at_root(&mut self) -> Result<()> {
        if self.has(way::BENEATH) {
            return Err(EXDEV);
        }
        if self.has(way::IN_ROOT) {
            self.above.truncate(1);
            return Ok(());
        }
        let root = path_only(None, b"/")?;
        self.begin(root)
    }

    fn up(&mut self) -> Result<()> {
        if self.above.len() > 1 {
            self.above.pop();
            return Ok(());
        }
        if self.has(way::BENEATH) {
            return Err(EXDEV);
        }
        if self.has(way::IN_ROOT) {
            return Ok(());
        }
        let parent = path_only(Some(self.here().clone()), b"..")?;
        self.begin(parent)
    }

    /// Put a name's parts before what is left. A slash at its end means a directory, as does "." behind it.
    fn push(&mut self, name: &[u8]) {
        let trailing = name.last() == Some(&b'/');
        let parts = name
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty());
        let mut parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        if trailing {
            parts.push(b".".to_vec());
        }
        for part in parts.into_iter().rev() {
            self.parts.push_front(part);
        }
    }

    /// A symbolic link that was opened itself: where it leads comes before what is left.
    fn follow(&mut self, link: &Arc<OpenFile>, name: &[u8]) -> Result<()> {
        self.links += 1;
        if self.has(way::NO_SYMLINKS) || self.links > SYMLINKS_MAX {
            return Err(ELOOP);
        }
        if is_magic(link, name)? {
            if self.has(way::NO_MAGICLINKS) {
                return Err(ELOOP);
            }
            if self.is_scoped() {
                return Err(EXDEV);
            }
        }
        let mut answer = Answer::new();
        let request = Request::new(&[fs::READLINK]).path(b"");
        let words = path::send(request, link.slot(), &mut answer)?;
        answer.filled(words[0]);
        let target = answer.as_bytes();
        if target.is_empty() {
            return Err(ENOENT);
        }
        match target[0] {
            0 => return self.begin(others::behind(target)?.0),
            b'/' => self.begin_at_root()?,
            _ => {}
        }
        self.push(target);
        Ok(())
    }
}

fn path_only(directory: Option<Arc<OpenFile>>, name: &[u8]) -> Result<Arc<OpenFile>> {
    let flags = o::PATH | o::NOFOLLOW;
    match directory {
        Some(directory) => open_from(directory, name, flags, 0),
        None => super::open::open_file(AT_FDCWD, name, flags, 0),
    }
}

fn is(file: &OpenFile, kind: u32) -> bool {
    file.mode & s::IFMT == kind
}

/// A link of /proc that leads by what it stands for and not by its text. (Its links by text have these names.)
fn is_magic(link: &OpenFile, name: &[u8]) -> Result<bool> {
    const PROC: i64 = 0x9fa0;
    let mut statfs = Statfs::default();
    Request::new(&[fs::STATFS])
        .input_value(&mut statfs)
        .call(link.slot())?;
    Ok(statfs.kind == PROC && !matches!(name, b"self" | b"thread-self" | b"mounts" | b"net"))
}

/// Open a name of openat2's; the flags are right ones.
pub fn open(dirfd: i32, name: &[u8], flags: u64, mode: u64, how: u64) -> Result<u64> {
    let absolute = name.first() == Some(&b'/');
    if name.is_empty() {
        return Err(ENOENT);
    }
    let start = match dirfd {
        _ if absolute && how & way::BENEATH != 0 => return Err(EXDEV),
        _ if absolute && how & way::IN_ROOT == 0 => path_only(None, b"/")?,
        AT_FDCWD => path_only(None, b".")?,
        fd => super::io::file(fd as u64)?,
    };
    if start.object.is_some() || !is(&start, s::IFDIR) {
        return Err(ENOTDIR);
    }
    let device = match how & way::NO_XDEV {
        0 => 0,
        _ => stat_handle(&start)?.dev,
    };
    let mut walk = Walk {
        flags: how,
        above: Vec::from([start]),
        parts: VecDeque::new(),
        links: 0,
        device,
    };
    walk.push(name);
    let makes_new = flags & (o::CREAT | o::EXCL) == o::CREAT | o::EXCL;
    let follows = flags & o::NOFOLLOW == 0 && !makes_new;
    while let Some(part) = walk.parts.pop_front() {
        let last = walk.parts.is_empty();
        match &part[..] {
            b"." => continue,
            b".." => {
                walk.up()?;
                continue;
            }
            _ => {}
        }
        let file = match path_only(Some(walk.here().clone()), &part) {
            // The last part may be one that is made.
            Err(ENOENT) if last && flags & o::CREAT != 0 => {
                return made(&walk, &part, flags, mode);
            }
            other => other?,
        };
        if is(&file, s::IFLNK) && (!last || follows) {
            walk.follow(&file, &part)?;
            continue;
        }
        walk.same_device(&file)?;
        if last && !is(&file, s::IFDIR) {
            return made(&walk, &part, flags, mode);
        }
        if !is(&file, s::IFDIR) {
            return Err(ENOTDIR);
        }
        walk.above.push(file);
    }
    made(&walk, b".", flags, mode)
}

/// Open the last part, which is no link to follow (any more).
fn made(walk: &Walk, part: &[u8], flags: u64, mode: u64) -> Result<u64> {
    let file = open_from(walk.here().clone(), part, flags | o::NOFOLLOW, mode)?;
    walk.same_device(&file)?;
    descriptor(file, flags)
}
