//! Requests about files, done.
//!
//! Every name is one step from a descriptor, without a slash and never through a symbolic link: what is not below the root is not reached. Whether the user
//! may do what is asked the file servers say, since this process is that user. Nothing here waits but reading, writing and opening FIFOs, and locks for
//! which the client waits: these can be given up ([`Cancel`]).

use crate::cancel::Cancel;
use crate::fid::{Fid, Fids, NewValue, Node, Place, Use, VALUE};
use crate::sys;
use cairn_ninep::answer::is_name;
use cairn_ninep::reply::{Data, Entries, DATA_HEAD};
use cairn_ninep::request::Request;
use cairn_ninep::{kind, lock_flags, lock_kind, lock_status, qid_kind};
use cairn_ninep::{Attributes, Entry, Lock, Qid, Reply, Set, Space, Time};
use rustix::event::PollFlags;
use rustix::fd::AsFd;
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, RawDir, SeekFrom, Stat, Uid, CWD};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests that may wait at the same time; those beyond are told to come again.
pub const WAITING: usize = 16;
/// How long a client that waits for a lock is kept before it is told to ask again, and the longest pause between two looks.
const LOCK_PATIENCE: Duration = Duration::from_secs(20);
const LOCK_PAUSE: Duration = Duration::from_millis(32);
/// Between two looks whether a FIFO has a reader.
const FIFO_PAUSE: Duration = Duration::from_millis(20);
/// Entries of a folder are read in pieces of this size.
const ENTRIES: usize = 8 << 10;
/// Of SETXATTR: there has to be one. With an empty value it is how the Linux client says that it is to go.
const REPLACE: u32 = 2;

/// What open(2) may be told.
const OPEN_FLAGS: OFlags = OFlags::RWMODE
    .union(OFlags::APPEND)
    .union(OFlags::TRUNC)
    .union(OFlags::DIRECTORY)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC)
    .union(OFlags::NOATIME);

/// What is served, and to whom.
#[derive(Clone)]
pub struct Export {
    pub root: Arc<Node>,
    pub read_only: bool,
    /// Groups that the user may give files to; None: any.
    pub groups: Option<Arc<[u32]>>,
}

/// A session: what its client's numbers stand for.
pub struct Tree {
    export: Export,
    /// Bytes of a message.
    most: usize,
    fids: Fids,
    /// Numbers of file systems, in the order in which they were seen.
    devices: Mutex<HashMap<u64, u64>>,
    waiting: AtomicUsize,
}

type Done = Result<Reply, Errno>;

/// One of those that may wait.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tree {
    pub fn new(export: Export, most: usize) -> Tree {
        Tree {
            export,
            most,
            fids: Fids::default(),
            devices: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// None: there are too many.
    fn wait(&self) -> Option<Waiting<'_>> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        (before < WAITING).then_some(waiting)
    }

    #[rustfmt::skip]
    pub fn perform(&self, request: &Request, cancel: &Cancel) -> Done {
        if self.export.read_only && changes(request) {
            return Err(Errno::ROFS);
        }
        match *request {
            Request::Attach { fid, auth, tree, .. } => self.attach(fid, auth, tree),
            Request::Walk { fid, new, ref names } => self.walk(fid, new, names),
            Request::Open { fid, flags } => self.open(fid, flags, cancel),
            Request::Create { folder, name, flags, mode, gid } => self.create(folder, name, flags, mode, gid, cancel),
            Request::Symlink { folder, name, target, gid } => self.make(kind::SYMLINK, folder, name, gid, |at| fs::symlinkat(target, &at.file, name)),
            Request::Directory { folder, name, mode, gid } => {
                self.make(kind::MKDIR, folder, name, gid, |at| fs::mkdirat(&at.file, name, permissions(mode)))
            }
            Request::Node { folder, name, mode, device, gid } => {
                let device = fs::makedev(device.0, device.1);
                let (kind, mode) = (FileType::from_raw_mode(mode), permissions(mode));
                self.make(kind::MKNOD, folder, name, gid, |at| fs::mknodat(&at.file, name, kind, mode, device))
            }
            Request::Link { folder, fid, name } => {
                let (at, node) = (self.fids.get(folder)?, self.fids.get(fid)?);
                let at = &at.node.file;
                fs::linkat(CWD, node.node.path(), at, own(name)?, AtFlags::SYMLINK_FOLLOW)?;
                Ok(Reply::to(kind::LINK))
            }
            Request::Rename { fid, folder, name } => self.rename(fid, folder, name),
            Request::RenameAt { from, name, to, new } => {
                let (at, to) = (self.fids.get(from)?, self.fids.get(to)?);
                fs::renameat(&at.node.file, own(name)?, &to.node.file, own(new)?)?;
                Ok(Reply::to(kind::RENAMEAT))
            }
            Request::Unlink { folder, name, flags } => {
                let flags = AtFlags::from_bits_retain(flags) & AtFlags::REMOVEDIR;
                fs::unlinkat(&self.fids.get(folder)?.node.file, own(name)?, flags)?;
                Ok(Reply::to(kind::UNLINKAT))
            }
            Request::Remove { fid } => self.remove(fid),
            Request::Target { fid } => {
                let target = fs::readlinkat(&self.fids.get(fid)?.node.file, "", Vec::new())?;
                Ok(Reply::target(target.as_bytes()))
            }
            Request::Attributes { fid, .. } => {
                let stat = fs::fstat(&self.fids.get(fid)?.node.file)?;
                Ok(Reply::attributes(&self.attributes(&stat)))
            }
            Request::Set { fid, ref set } => self.set(fid, set),
            Request::Attribute { fid, new, name } => self.attribute(fid, new, name),
            Request::SetAttribute { fid, name, size, flags } => self.set_attribute(fid, name, size, flags),
            Request::Entries { fid, position, count } => self.entries(fid, position, count),
            Request::Sync { fid, data } => self.sync(fid, data),
            Request::Lock { fid, flags, ref lock } => self.lock(fid, flags, lock, cancel),
            Request::LockThere { fid, ref lock } => {
                let fid = self.fids.get(fid)?;
                Ok(Reply::lock(&sys::lock_there(opened(&fid)?.as_fd(), lock)?))
            }
            Request::Read { fid, offset, count } => self.read(fid, offset, count, cancel),
            Request::Write { fid, offset, data } => self.write(fid, offset, data, cancel),
            Request::End { fid } => self.end(fid),
            Request::Space { fid } => self.space(fid),
            // Whoever knows this program's users is not asked for more.
            Request::Auth { .. } | Request::Other => Err(Errno::OPNOTSUPP),
            // The session's own.
            Request::Version { .. } | Request::Flush { .. } => Err(Errno::PROTO),
        }
    }

    /// A file's own number, and above it that of its file system among those that were seen: one number for a file, as far as they have less than 48 bits.
    fn number(&self, device: u64, inode: u64) -> u64 {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let next = devices.len() as u64;
        inode ^ *devices.entry(device).or_insert(next) << 48
    }

    fn qid(&self, stat: &Stat) -> Qid {
        let kind = match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => qid_kind::FOLDER,
            libc::S_IFLNK => qid_kind::LINK,
            _ => qid_kind::FILE,
        };
        let changed = stat.st_mtime ^ stat.st_mtime_nsec as i64 ^ stat.st_size << 8;
        Qid {
            kind,
            version: changed as u32,
            path: self.number(stat.st_dev, stat.st_ino),
        }
    }

    fn attributes(&self, stat: &Stat) -> Attributes {
        Attributes {
            qid: self.qid(stat),
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: stat.st_nlink,
            rdev: stat.st_rdev,
            size: stat.st_size as u64,
            block_size: stat.st_blksize as u64,
            blocks: stat.st_blocks as u64,
            atime: (stat.st_atime, stat.st_atime_nsec as i64),
            mtime: (stat.st_mtime, stat.st_mtime_nsec as i64),
            ctime: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// There is one tree; a client that names another one would take this for it.
    fn attach(&self, fid: u32, auth: u32, tree: &[u8]) -> Done {
        if auth != cairn_ninep::NO_FID {
            return Err(Errno::OPNOTSUPP);
        }
        if ![&b""[..], b"/"].contains(&tree) {
            return Err(Errno::NOENT);
        }
        let root = self.export.root.clone();
        let qid = self.qid(&root.stat);
        self.fids.insert(fid, Fid::named(root, Place::root()))?;
        Ok(Reply::qid(kind::ATTACH, qid))
    }

    /// Down the names from the root again, as they are now.
    fn folder_at(&self, place: &Place) -> Result<Arc<Node>, Errno> {
        let root = self.export.root.clone();
        let names = place.names();
        names.iter().try_fold(root, |node, name| node.step(name))
    }

    fn walk(&self, fid: u32, new: u32, names: &[&[u8]]) -> Done {
        let from = self.fids.get(fid)?;
        let (mut node, mut place) = (from.node.clone(), from.place.clone());
        let mut qids = Vec::with_capacity(names.len());
        for name in names {
            match self.step(&node, &place, name) {
                Ok(next) => (node, place) = next,
                Err(error) if qids.is_empty() => return Err(error),
                Err(_) => return Ok(Reply::walked(&qids)),
            }
            qids.push(self.qid(&node.stat));
        }
        let there = Fid::named(node, place);
        match new == fid {
            true if names.is_empty() => {}
            true => self.fids.replace(fid, &from, there)?,
            false => self.fids.insert(new, there)?,
        }
        Ok(Reply::walked(&qids))
    }

    fn step(&self, node: &Arc<Node>, place: &Arc<Place>, name: &[u8]) -> Found {
        match name {
            _ if !node.is(libc::S_IFDIR) => Err(Errno::NOTDIR),
            b".." => {
                let above = place.above.as_ref().unwrap_or(place);
                Ok((self.folder_at(above)?, above.clone()))
            }
            name => Ok((node.step(own(name)?)?, Place::below(place, name)?)),
        }
    }

    fn open(&self, number: u32, flags: u32, cancel: &Cancel) -> Done {
        let fid = self.fids.get(number)?;
        if !matches!(fid.then, Use::Named) {
            return Err(Errno::BADF);
        }
        let (node, then) = self.opened(&fid.node, flags, cancel)?;
        let qid = self.qid(&node.stat);
        let place = fid.place.clone();
        let new = Fid { node, place, then };
        self.fids.replace(number, &fid, new)?;
        Ok(Reply::opened(kind::OPEN, qid, 0))
    }

    /// Files that wait are opened such that they do not, and waited for where that can be given up.
    fn opened(&self, node: &Node, flags: u32, cancel: &Cancel) -> Result<(Arc<Node>, Use), Errno> {
        match node.stat.st_mode & libc::S_IFMT {
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFIFO => {}
            libc::S_IFLNK => return Err(Errno::LOOP),
            libc::S_IFSOCK => return Err(Errno::NXIO),
            // A device of this machine is not the client's.
            _ => return Err(Errno::ACCESS),
        }
        let asked = OFlags::from_bits_retain(flags);
        let waits = !asked.contains(OFlags::NONBLOCK);
        let flags = asked & OPEN_FLAGS;
        let with = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || fs::open(node.path(), with, Mode::empty());
        let file = match open() {
            Err(Errno::NXIO) if waits && node.is(libc::S_IFIFO) => {
                let _waiting = self.wait().ok_or(Errno::AGAIN)?;
                loop {
                    cancel.sleep(FIFO_PAUSE)?;
                    match open() {
                        Err(Errno::NXIO) => continue,
                        done => break done?,
                    }
                }
            }
            done => done?,
        };
        let position = Mutex::default();
        let then = Use::Open {
            flags,
            waits,
            position,
        };
        Ok((Node::new(file)?, then))
    }

    fn create(
        &self,
        number: u32,
        name: &[u8],
        flags: u32,
        mode: u32,
        gid: u32,
        cancel: &Cancel,
    ) -> Done {
        let folder = self.fids.get(number)?;
        if !matches!(folder.then, Use::Named) {
            return Err(Errno::BADF);
        }
        let place = Place::below(&folder.place, own(name)?)?;
        let at = &folder.node;
        let asked = OFlags::from_bits_retain(flags);
        let new = asked & OPEN_FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (node, then) = match fs::openat(&at.file, name, new, permissions(mode)) {
            Ok(file) => {
                self.give(at, name, gid);
                let then = Use::Open {
                    flags: asked & OPEN_FLAGS,
                    waits: true,
                    position: Mutex::default(),
                };
                (Node::new(file)?, then)
            }
            // What is there may be no file: it is looked at before it is opened.
            Err(Errno::EXIST) if !asked.contains(OFlags::EXCL) => {
                self.opened(&*at.step(name)?, flags, cancel)?
            }
            Err(error) => return Err(error),
        };
        let qid = self.qid(&node.stat);
        let new = Fid { node, place, then };
        self.fids.replace(number, &folder, new)?;
        Ok(Reply::opened(kind::CREATE, qid, 0))
    }

    /// Something new in a folder that is not opened.
    fn make(
        &self,
        kind: u8,
        folder: u32,
        name: &[u8],
        gid: u32,
        how: impl FnOnce(&Node) -> Result<(), Errno>,
    ) -> Done {
        let folder = self.fids.get(folder)?;
        own(name)?;
        how(&folder.node)?;
        self.give(&folder.node, name, gid);
        let stat = fs::statat(&folder.node.file, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Reply::qid(kind, self.qid(&stat)))
    }

    /// What was made has the group that the client wants, where the user is in it. Otherwise it stays as the file server had it.
    fn give(&self, folder: &Node, name: &[u8], gid: u32) {
        let groups = &self.export.groups;
        if groups.as_ref().is_some_and(|all| !all.contains(&gid)) {
            return;
        }
        let there = fs::statat(&folder.file, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|stat| stat.st_gid != gid) {
            let group = Some(Gid::from_raw(gid));
            let _ = fs::chownat(&folder.file, name, None, group, AtFlags::SYMLINK_NOFOLLOW);
        }
    }

    /// The folder in which a file was found, if it is still there under its name.
    fn folder_of(&self, fid: &Fid) -> Result<Arc<Node>, Errno> {
        let above = fid.place.above.as_ref().ok_or(Errno::BUSY)?;
        let folder = self.folder_at(above)?;
        let there = fs::statat(&folder.file, &fid.place.name[..], AtFlags::SYMLINK_NOFOLLOW)?;
        match fid.node.is_same(&there) {
            true => Ok(folder),
            false => Err(Errno::STALE),
        }
    }

    fn rename(&self, number: u32, to: u32, name: &[u8]) -> Done {
        let (fid, to) = (self.fids.get(number)?, self.fids.get(to)?);
        let place = Place::below(&to.place, own(name)?)?;
        let from = self.folder_of(&fid)?;
        fs::renameat(&from.file, &fid.place.name[..], &to.node.file, name)?;
        if matches!(fid.then, Use::Named) {
            let new = Fid::named(fid.node.clone(), place);
            // Who ends the number in between wants nothing more of it.
            let _ = self.fids.replace(number, &fid, new);
        }
        Ok(Reply::to(kind::RENAME))
    }

    fn remove(&self, number: u32) -> Done {
        let fid = self.fids.remove(number)?;
        if self.export.read_only {
            return Err(Errno::ROFS);
        }
        let flags = match fid.node.is(libc::S_IFDIR) {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        fs::unlinkat(&self.folder_of(&fid)?.file, &fid.place.name[..], flags)?;
        Ok(Reply::to(kind::REMOVE))
    }

    /// The owner first, since its change takes set-id bits away.
    fn set(&self, number: u32, set: &Set) -> Done {
        let fid = self.fids.get(number)?;
        let node = &fid.node;
        let link = node.is(libc::S_IFLNK);
        if set.uid.is_some() || set.gid.is_some() {
            let owner = set.uid.map(Uid::from_raw);
            let group = set.gid.map(Gid::from_raw);
            fs::chownat(&node.file, "", owner, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = set.mode {
            if link {
                return Err(Errno::OPNOTSUPP);
            }
            fs::chmod(node.path(), permissions(mode))?;
        }
        if let Some(size) = set.size {
            self.cut(&fid, size)?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times = fs::Timestamps {
                last_access: time(set.atime),
                last_modification: time(set.mtime),
            };
            match link {
                true => fs::utimensat(&node.file, "", &times, AtFlags::EMPTY_PATH)?,
                false => fs::utimensat(CWD, node.path(), &times, AtFlags::empty())?,
            }
        }
        Ok(Reply::to(kind::SETATTR))
    }

    fn cut(&self, fid: &Fid, size: u64) -> Result<(), Errno> {
        let node = &fid.node;
        match node.stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        let writes = |flags: &OFlags| flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        match &fid.then {
            Use::Open { flags, .. } if writes(flags) => fs::ftruncate(&node.file, size),
            _ => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = fs::open(node.path(), flags, Mode::empty())?;
                fs::ftruncate(file, size)
            }
        }
    }

    fn attribute(&self, number: u32, new: u32, name: &[u8]) -> Done {
        let fid = self.fids.get(number)?;
        let mut value = vec![0; VALUE];
        let path = fid.node.path();
        let length = match name {
            b"" => fs::listxattr(path, &mut value[..])?,
            name => fs::getxattr(path, name, &mut value[..])?,
        };
        value.truncate(length);
        value.shrink_to_fit();
        let _charge = self.fids.charge(length)?;
        let there = Fid {
            node: fid.node.clone(),
            place: fid.place.clone(),
            then: Use::Value {
                bytes: value,
                _charge,
            },
        };
        match new == number {
            true => self.fids.replace(number, &fid, there)?,
            false => self.fids.insert(new, there)?,
        }
        Ok(Reply::length_of_value(length as u64))
    }

    fn set_attribute(&self, number: u32, name: &[u8], size: u64, flags: u32) -> Done {
        let fid = self.fids.get(number)?;
        if !matches!(fid.then, Use::Named) {
            return Err(Errno::BADF);
        }
        let size = match usize::try_from(size) {
            Ok(size) if size <= VALUE => size,
            _ => return Err(Errno::TOOBIG),
        };
        let value = NewValue {
            name: name.to_vec(),
            size,
            flags,
            data: Mutex::default(),
            _charge: self.fids.charge(size + name.len())?,
        };
        let there = Fid {
            node: fid.node.clone(),
            place: fid.place.clone(),
            then: Use::NewValue(value),
        };
        self.fids.replace(number, &fid, there)?;
        Ok(Reply::to(kind::SET_ATTRIBUTE))
    }

    fn end(&self, number: u32) -> Done {
        let fid = self.fids.remove(number)?;
        if let Use::NewValue(value) = &fid.then {
            let data = value.data.lock().unwrap_or_else(PoisonError::into_inner);
            if data.len() != value.size {
                return Err(Errno::INVAL);
            }
            let (path, name) = (fid.node.path(), &value.name[..]);
            match data.is_empty() && value.flags == REPLACE {
                true => fs::removexattr(path, name)?,
                false => fs::setxattr(
                    path,
                    name,
                    &data,
                    fs::XattrFlags::from_bits_retain(value.flags),
                )?,
            }
        }
        Ok(Reply::to(kind::CLUNK))
    }

    fn entries(&self, number: u32, position: u64, count: u32) -> Done {
        let fid = self.fids.get(number)?;
        let Use::Open { position: lock, .. } = &fid.then else {
            return Err(Errno::BADF);
        };
        let _one = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let file = &fid.node.file;
        fs::seek(file, SeekFrom::Start(position))?;
        let mut reply = Entries::new((count as usize).min(self.most - DATA_HEAD));
        let mut room = [MaybeUninit::uninit(); ENTRIES];
        let mut entries = RawDir::new(file, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let (kind, kind_of_qid) = match entry.file_type() {
                FileType::Directory => (libc::DT_DIR, qid_kind::FOLDER),
                FileType::Symlink => (libc::DT_LNK, qid_kind::LINK),
                FileType::RegularFile => (libc::DT_REG, qid_kind::FILE),
                FileType::Fifo => (libc::DT_FIFO, qid_kind::FILE),
                FileType::Socket => (libc::DT_SOCK, qid_kind::FILE),
                FileType::CharacterDevice => (libc::DT_CHR, qid_kind::FILE),
                FileType::BlockDevice => (libc::DT_BLK, qid_kind::FILE),
                FileType::Unknown => (libc::DT_UNKNOWN, qid_kind::FILE),
            };
            let qid = Qid {
                kind: kind_of_qid,
                version: 0,
                path: self.number(fid.node.stat.st_dev, entry.ino()),
            };
            let told = Entry {
                qid,
                next: entry.next_entry_cookie(),
                kind,
                name: entry.file_name().to_bytes(),
            };
            if !reply.push(&told) {
                if reply.is_empty() {
                    return Err(Errno::INVAL);
                }
                break;
            }
        }
        Ok(reply.end())
    }

    fn sync(&self, number: u32, data: bool) -> Done {
        let fid = self.fids.get(number)?;
        match data {
            true => fs::fdatasync(opened(&fid)?)?,
            false => fs::fsync(opened(&fid)?)?,
        }
        Ok(Reply::to(kind::FSYNC))
    }

    fn lock(&self, number: u32, flags: u32, lock: &Lock, cancel: &Cancel) -> Done {
        let fid = self.fids.get(number)?;
        let file = opened(&fid)?.as_fd();
        let done = Ok(Reply::locked(lock_status::DONE));
        if sys::lock(file, lock)? {
            return done;
        }
        let blocked = Ok(Reply::locked(lock_status::BLOCKED));
        if flags & lock_flags::WAIT == 0 || lock.kind == lock_kind::NONE {
            return blocked;
        }
        let Some(_waiting) = self.wait() else {
            return blocked;
        };
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
        while begun.elapsed() < LOCK_PATIENCE {
            cancel.sleep(pause)?;
            if sys::lock(file, lock)? {
                return done;
            }
            pause = (pause * 2).min(LOCK_PAUSE);
        }
        blocked
    }

    fn read(&self, number: u32, offset: u64, count: u32, cancel: &Cancel) -> Done {
        let fid = self.fids.get(number)?;
        let most = (count as usize).min(self.most - DATA_HEAD);
        let mut data = Data::new(most);
        let count = match &fid.then {
            Use::Value { bytes: value, .. } => {
                let from = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(value.len());
                let part = &value[from..];
                let part = &part[..part.len().min(most)];
                data.room()[..part.len()].copy_from_slice(part);
                part.len()
            }
            Use::Open { waits, .. } => {
                let file = &fid.node.file;
                let fifo = fid.node.is(libc::S_IFIFO);
                let wanted = PollFlags::IN;
                // Without a writer yet a FIFO would be at its end.
                self.ready(
                    &fid.node,
                    fifo && *waits,
                    *waits,
                    wanted,
                    cancel,
                    || match fifo {
                        true => rustix::io::read(file, data.room()),
                        false => rustix::io::pread(file, data.room(), offset),
                    },
                )?
            }
            _ => return Err(Errno::BADF),
        };
        Ok(data.end(count))
    }

    /// What is not ready is waited for, if that is wanted.
    fn ready(
        &self,
        node: &Node,
        first: bool,
        waits: bool,
        wanted: PollFlags,
        cancel: &Cancel,
        mut act: impl FnMut() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut wait = first;
        loop {
            if wait {
                let _waiting = self.wait().ok_or(Errno::AGAIN)?;
                cancel.until_ready(node.file.as_fd(), wanted)?;
            }
            match act() {
                Err(Errno::AGAIN) if waits => wait = true,
                Err(Errno::INTR) if !cancel.is_tripped() => {}
                done => return done,
            }
        }
    }

    fn write(&self, number: u32, offset: u64, bytes: &[u8], cancel: &Cancel) -> Done {
        let fid = self.fids.get(number)?;
        let count = match &fid.then {
            Use::NewValue(value) => {
                let mut data = value.data.lock().unwrap_or_else(PoisonError::into_inner);
                if offset != data.len() as u64 || bytes.len() > value.size - data.len() {
                    return Err(Errno::INVAL);
                }
                data.extend(bytes);
                bytes.len()
            }
            Use::Open { waits, .. } => {
                let (file, fifo) = (&fid.node.file, fid.node.is(libc::S_IFIFO));
                let wanted = PollFlags::OUT;
                self.ready(&fid.node, false, *waits, wanted, cancel, || match fifo {
                    true => rustix::io::write(file, bytes),
                    false => rustix::io::pwrite(file, bytes, offset),
                })?
            }
            _ => return Err(Errno::BADF),
        };
        Ok(Reply::count(count as u32))
    }

    fn space(&self, number: u32) -> Done {
        let fid = self.fids.get(number)?;
        let space = fs::fstatfs(&fid.node.file)?;
        Ok(Reply::space(&Space {
            kind: space.f_type as u32,
            block_size: space.f_bsize as u32,
            blocks: space.f_blocks,
            free: space.f_bfree,
            available: space.f_bavail,
            files: space.f_files,
            files_free: space.f_ffree,
            id: fid.node.stat.st_dev,
            longest_name: space.f_namelen as u32,
        }))
    }
}

/// A step: the file, and where it is.
type Found = Result<(Arc<Node>, Arc<Place>), Errno>;

/// The descriptor of a number that was opened.
fn opened(fid: &Fid) -> Result<&rustix::fd::OwnedFd, Errno> {
    match fid.then {
        Use::Open { .. } => Ok(&fid.node.file),
        _ => Err(Errno::BADF),
    }
}

/// A name that a file of a folder can have by itself.
fn own(name: &[u8]) -> Result<&[u8], Errno> {
    match name {
        b"." | b".." | b"" => Err(Errno::INVAL),
        long if long.len() > 255 => Err(Errno::NAMETOOLONG),
        name if is_name(name) => Ok(name),
        _ => Err(Errno::INVAL),
    }
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

fn time(set: Option<Time>) -> fs::Timespec {
    let (tv_sec, tv_nsec) = match set {
        None => (0, fs::UTIME_OMIT),
        Some(Time::Now) => (0, fs::UTIME_NOW),
        Some(Time::At(seconds, nanoseconds)) => (seconds, nanoseconds),
    };
    fs::Timespec { tv_sec, tv_nsec }
}

/// What a tree that is only to be read refuses. REMOVE ends a number as well, and looks itself.
fn changes(request: &Request) -> bool {
    match request {
        Request::Open { flags, .. } => {
            let flags = OFlags::from_bits_retain(*flags);
            flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC)
        }
        Request::Create { .. }
        | Request::Symlink { .. }
        | Request::Node { .. }
        | Request::Directory { .. }
        | Request::Link { .. }
        | Request::Rename { .. }
        | Request::RenameAt { .. }
        | Request::Unlink { .. }
        | Request::Set { .. }
        | Request::SetAttribute { .. } => true,
        _ => false,
    }
}
