//! A mount name space of the process's own (unshare(2)): the names of its mounts as `proc` has them, and handles of those that the process has come to.
//!
//! Names begin at a handle of the root ([`crate::process::Root`]); file servers see to what is mounted below (`fs::BIND`), and say by a mount's number where a name goes on. The table here gives the number its name.

use crate::descriptors::{self, OpenFile};
use crate::errno::{Errno, Result, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ENOMEM, ETIMEDOUT};
use crate::machine::area::process;
use crate::machine::buffer::Buffer;
use crate::machine::published;
use crate::machine::request::Request;
use crate::nearest::{below, Nearest};
use crate::path::{make_room, path_of, PLACE, REDIRECT};
use crate::process::Root;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::fs::{
    self, Prefix, PrefixTable, PATH_MAX, PREFIX_SERIAL_SHIFT, SPACE_MOUNTS_MOST, SPACE_MOUNT_STAYS,
};
use cairn_idl::{mounts, proc};
use core::sync::atomic::Ordering;

/// Most bytes of a table.
const TABLE_MOST: usize = size_of::<PrefixTable>() + SPACE_MOUNTS_MOST * size_of::<Prefix>();
/// Mounts for which there is room when the table is read first, or again.
const MORE: usize = 40;
/// How much is said of a table that the process has: what has changed in it.
const CHANGES: usize = 64;
/// Bits of `Prefix::used` that are flags of mounts.
const FLAGS: u32 = (1 << PREFIX_SERIAL_SHIFT) - 2;

#[derive(Clone, Debug)]
pub struct Mount {
    pub number: u32,
    /// From the name space's root, which is empty.
    pub name: Vec<u8>,
    pub fstype: Vec<u8>,
    /// `mounts::mount` bits.
    pub flags: u64,
    /// If the process has come there.
    pub file: Option<Arc<OpenFile>>,
}

/// The name of an entry of a table of mounts.
pub fn name_of(entry: &Prefix) -> &[u8] {
    &entry.name[..(entry.len as usize).min(entry.name.len())]
}

impl Mount {
    /// What such an entry says.
    pub fn of(number: u32, entry: &Prefix) -> Mount {
        let kind = entry.fstype.iter().position(|byte| *byte == 0);
        Mount {
            number,
            name: name_of(entry).to_vec(),
            fstype: entry.fstype[..kind.unwrap_or(entry.fstype.len())].to_vec(),
            flags: u64::from(entry.used & FLAGS),
            file: None,
        }
    }
}

/// Mounts as a text of such entries, without a head.
pub fn entries(bytes: &[u8]) -> Vec<Mount> {
    let entries = bytes.chunks_exact(size_of::<Prefix>());
    entries
        .filter_map(|entry| entry.try_into().map(Prefix::from_bytes).ok())
        .map(|entry| Mount::of(entry.used >> PREFIX_SERIAL_SHIFT, &entry))
        .collect()
}

impl Mount {
    /// The entry; ENAMETOOLONG, the name has no room in it.
    pub fn entry(&self) -> Result<[u8; Prefix::BYTES]> {
        let mut entry = Prefix {
            name: [0; 64],
            len: self.name.len() as u32,
            used: self.number << PREFIX_SERIAL_SHIFT | self.flags as u32 & FLAGS | 1,
            fstype: [0; 16],
        };
        // (A place that is as long as the field is none to `proc`.)
        let long = self.name.len() >= entry.name.len() || self.fstype.len() > entry.fstype.len();
        if long {
            return Err(ENAMETOOLONG);
        }
        entry.name[..self.name.len()].copy_from_slice(&self.name);
        entry.fstype[..self.fstype.len()].copy_from_slice(&self.fstype);
        Ok(entry.to_bytes())
    }
}

/// What has changed in a table.
enum Change {
    Gone(u32),
    Flags(u32, u64),
    /// It is the last one of the table, whether it was there before or not.
    Last(Mount),
}

fn changes(bytes: &[u8]) -> Vec<Change> {
    let entries = bytes.chunks_exact(size_of::<Prefix>());
    entries
        .filter_map(|entry| entry.try_into().map(Prefix::from_bytes).ok())
        .map(|entry| match entry.used >> PREFIX_SERIAL_SHIFT {
            number if entry.used & 1 == 0 => Change::Gone(number),
            number if entry.len == SPACE_MOUNT_STAYS => {
                Change::Flags(number, u64::from(entry.used & FLAGS))
            }
            number => Change::Last(Mount::of(number, &entry)),
        })
        .collect()
}

#[derive(Debug, Default)]
pub struct Space {
    pub id: u64,
    /// What was published when the table was read, and how often it had changed then.
    version: u64,
    count: u64,
    pub root: u32,
    mounts: Mounts,
    /// The process's root is the name space's.
    at_root: bool,
    /// It has put the old root on the new one, and would unmount it.
    stacked: bool,
}

/// The table, in its order: a later mount hides what had its name before, and what lay below that.
#[derive(Debug, Default)]
struct Mounts {
    /// With gaps, where some stood that are gone.
    all: Vec<Option<Mount>>,
    /// How each is tied to others.
    ties: Vec<Ties>,
    /// Where each stands.
    by_number: BTreeMap<u32, u32>,
    /// Where those stand that are seen.
    seen: Nearest<u32>,
    /// How many have a file.
    held: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ties {
    /// The mount that its place is in.
    above: Option<u32>,
    /// The mount that lies on its root.
    on_root: Option<u32>,
    /// How many lie in it.
    inside: u32,
    /// It hid something when it came.
    hides: bool,
}

impl Mounts {
    fn of(all: impl Iterator<Item = Mount>) -> Mounts {
        let mut mounts = Mounts::default();
        all.for_each(|mount| mounts.put(mount));
        mounts
    }

    fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.all.iter().flatten()
    }

    fn get(&self, at: u32) -> Option<&Mount> {
        self.all.get(at as usize)?.as_ref()
    }

    fn numbered(&self, number: u32) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// As the last one.
    fn put(&mut self, mount: Mount) {
        let at = self.all.len() as u32;
        let mut ties = Ties::default();
        if let Some((length, above)) = self.seen.find(&mount.name) {
            ties.above = Some(*above);
            let above = &mut self.ties[*above as usize];
            above.inside += 1;
            if length == mount.name.len() {
                above.on_root = Some(at);
            }
        }
        ties.hides = self.seen.put(mount.name.clone(), at);
        self.held += u32::from(mount.file.is_some());
        self.by_number.insert(mount.number, at);
        self.ties.push(ties);
        self.all.push(Some(mount));
    }

    /// This one is gone, and whether it hid anything. (Those that lie in it go as well, or come anew.)
    fn take(&mut self, number: u32) -> Option<(Mount, bool)> {
        let at = self.by_number.remove(&number)?;
        let mount = self.all[at as usize].take()?;
        let ties = self.ties[at as usize];
        if self.seen.at(&mount.name) == Some(&at) {
            self.seen.remove(&mount.name);
        }
        if let Some(above) = ties.above {
            self.ties[above as usize].inside -= 1;
        }
        self.held -= u32::from(mount.file.is_some());
        Some((mount, ties.hides))
    }

    /// What is gone then.
    fn change(&mut self, changes: Vec<Change>) -> Vec<Mount> {
        // First all that change are taken out: each was told as it is now, and what it lies in may stand behind it.
        let mut taken = BTreeMap::new();
        let mut uncovered = false;
        for change in &changes {
            match change {
                Change::Flags(number, flags) => {
                    let at = self.numbered(*number);
                    let mount = at.and_then(|at| self.all[at as usize].as_mut());
                    if let Some(mount) = mount {
                        mount.flags = *flags;
                    }
                }
                Change::Gone(number) | Change::Last(Mount { number, .. }) => {
                    if let Some((mount, hid)) = self.take(*number) {
                        uncovered |= hid;
                        taken.insert(*number, mount);
                    }
                }
            }
        }
        // Of several changes of one the last says where it stands.
        let mut last = BTreeMap::new();
        for (at, change) in changes.iter().enumerate() {
            if let Change::Last(mount) = change {
                last.insert(mount.number, at);
            }
        }
        for (at, change) in changes.into_iter().enumerate() {
            if let Change::Last(mut mount) = change {
                if last.get(&mount.number) == Some(&at) {
                    let old = taken.remove(&mount.number);
                    mount.file = old.and_then(|old| old.file);
                    self.put(mount);
                }
            }
        }
        // What was hidden is seen again; or there are many gaps.
        if uncovered || self.all.len() > 2 * self.by_number.len() + CHANGES {
            let all = core::mem::take(&mut self.all);
            *self = Mounts::of(all.into_iter().flatten());
        }
        taken.into_values().collect()
    }
}

impl Space {
    /// A copy for a process that shares this memory.
    pub fn separate(&self) -> Space {
        let mounts = self.mounts.iter().map(|mount| Mount {
            file: mount.file.as_ref().map(descriptors::separate),
            ..mount.clone()
        });
        Space {
            mounts: Mounts::of(mounts),
            ..*self
        }
    }

    pub fn numbered(&self, number: u32) -> Option<&Mount> {
        self.mounts.get(self.mounts.numbered(number)?)
    }

    /// The mount that a name leads into.
    pub fn find(&self, name: &[u8]) -> Option<&Mount> {
        let (_, at) = self.mounts.seen.find(name)?;
        self.mounts.get(*at)
    }

    /// What is seen at exactly this place.
    pub fn at(&self, place: &[u8]) -> Option<&Mount> {
        self.mounts.get(*self.mounts.seen.at(place)?)
    }

    fn ties(&self, number: u32) -> Ties {
        let at = self.mounts.numbered(number);
        at.map_or(Ties::default(), |at| self.mounts.ties[at as usize])
    }

    /// The mount that a mount's place is in.
    pub fn above(&self, number: u32) -> Option<&Mount> {
        self.mounts.get(self.ties(number).above?)
    }

    /// Something is mounted in it.
    pub fn is_above(&self, number: u32) -> bool {
        self.ties(number).inside != 0
    }

    /// The mount that lies on this one's root, or on that one's and so on; itself, if there is none.
    pub fn topmost(&self, number: u32) -> Option<&Mount> {
        let mut at = self.mounts.numbered(number)?;
        while let Some(next) = self.mounts.ties[at as usize].on_root {
            at = next;
        }
        self.mounts.get(at)
    }

    /// Nothing hides it, but what lies on its root.
    pub fn shows(&self, number: u32) -> bool {
        let top = self.topmost(number);
        let seen = |top: &&Mount| self.at(&top.name).is_some_and(|m| m.number == top.number);
        top.filter(seen).is_some()
    }

    /// What is seen below a place, in order of the names.
    pub fn below(&self, place: &[u8]) -> impl Iterator<Item = &Mount> {
        let below = self.mounts.seen.below(place);
        below.filter_map(|(_, at)| self.mounts.get(*at))
    }

    /// All that are seen, the oldest first.
    pub fn seen(&self) -> impl Iterator<Item = &Mount> {
        let all = (0..).zip(&self.mounts.all);
        all.filter_map(|(at, mount)| {
            let mount = mount.as_ref()?;
            (self.mounts.seen.at(&mount.name) == Some(&at)).then_some(mount)
        })
    }

    pub fn files(&self) -> impl Iterator<Item = &Arc<OpenFile>> {
        let all = self.mounts.iter();
        all.filter_map(|mount| mount.file.as_ref())
    }

    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut Arc<OpenFile>> {
        let all = self.mounts.all.iter_mut().flatten();
        all.filter_map(|mount| mount.file.as_mut())
    }

    /// How many files it has.
    pub fn held(&self) -> u32 {
        self.mounts.held
    }

    /// It has none of these files any more; they are asked for anew.
    pub fn take_files(&mut self) -> Vec<Arc<OpenFile>> {
        self.mounts.held = 0;
        let all = self.mounts.all.iter_mut().flatten();
        all.filter_map(|mount| mount.file.take()).collect()
    }

    fn keep(&mut self, number: u32, file: &Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        let at = self.mounts.numbered(number)?;
        let mount = self.mounts.all[at as usize].as_mut()?;
        let old = mount.file.replace(file.clone());
        self.mounts.held += u32::from(old.is_none());
        old
    }
}

/// Folder and last part of a place.
pub fn split(place: &[u8]) -> Result<(&[u8], &[u8])> {
    let slash = place.iter().rposition(|byte| *byte == b'/').ok_or(EINVAL)?;
    Ok((&place[..slash], &place[slash + 1..]))
}

/// A handle that a message brought.
pub fn handle(words: &[u64; 8]) -> Arc<OpenFile> {
    let mut file = OpenFile::portal(words[7] as u32, words[2], words[1] as u32);
    file.path_only = true;
    Arc::new(file)
}

/// The process is in a mount name space of its own, whose table is as it is now.
pub fn is_private() -> bool {
    let process = process();
    if !process.in_space.load(Ordering::Relaxed) {
        return false;
    }
    let state = process.state();
    let Some(space) = &state.space else {
        return false;
    };
    if space.version == published::space_version(space.id) {
        return true;
    }
    drop(state);
    // What cannot be read is as it was.
    let _ = reload();
    true
}

/// Read the table again, or what has changed in it.
#[inline(never)]
fn reload() -> Result<()> {
    let process = process();
    loop {
        let state = process.state();
        let Some(space) = &state.space else {
            return Ok(());
        };
        let (of, since) = (space.id, space.count);
        let known = space.mounts.by_number.len();
        drop(state);
        let version = published::space_version(of);
        let mut told = [0; 8];
        let bytes = receive_table(of, since, known, &mut told)?;
        let [_, id, root, count, is_short, ..] = told;
        let bytes = bytes.get(size_of::<PrefixTable>()..).unwrap_or(&[]);
        let mut state = process.state();
        let Some(space) = &mut state.space else {
            return Ok(());
        };
        let gone;
        let mut old = Mounts::default();
        if is_short != 0 {
            if (space.id, space.count) != (of, since) {
                // Another thread has read it meanwhile.
                continue;
            }
            gone = space.mounts.change(changes(bytes));
        } else {
            gone = Vec::new();
            let mut mounts = entries(bytes);
            for mount in &mut mounts {
                let at = space.mounts.numbered(mount.number);
                let its = at.and_then(|at| space.mounts.all[at as usize].as_mut());
                mount.file = its.and_then(|its| its.file.take());
            }
            old = core::mem::replace(&mut space.mounts, Mounts::of(mounts.into_iter()));
        }
        let turned = space.at_root && space.root != root as u32 && space.id == id;
        (space.id, space.root) = (id, root as u32);
        (space.version, space.count) = (version, count);
        let at_root = space.at_root;
        drop(state);
        drop((old, gone));
        return match (turned, at_root) {
            (true, _) => take_root(),
            (false, true) => Ok(()),
            (false, false) => rename_root(),
        };
    }
}

/// What `proc` tells of the table: with `since`, room for what has changed since then is enough mostly.
fn receive_table(of: u64, since: u64, known: usize, told: &mut [u64; 8]) -> Result<Vec<u8>> {
    let room_for = |count: usize| size_of::<PrefixTable>() + count * size_of::<Prefix>();
    let mut room = match since {
        0 => room_for(known + MORE),
        _ => room_for(CHANGES),
    };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        bytes.try_reserve_exact(room).map_err(|_| ENOMEM)?;
        bytes.resize(room, 0);
        let request = Request::new(&[proc::SPACE_MOUNTS, of, since]).input(&mut bytes);
        match request.call(linux_slot::PROC) {
            Ok(words) => *told = words,
            Err(EFAULT) if room < TABLE_MOST => {
                room = (2 * room).max(room_for(known + MORE)).min(TABLE_MOST);
                continue;
            }
            Err(errno) => return Err(errno),
        }
        bytes.truncate(told[0].min(room as u64) as usize);
        return Ok(bytes);
    }
}

/// The root of a chroot may be called otherwise since: a mount that it is in moved, or went.
fn rename_root() -> Result<()> {
    /// No place is called so, nor anything below it.
    const NOWHERE: &[u8] = b"?";
    let directory = match &process().state().root {
        Some(root) => root.directory.clone(),
        None => return Ok(()),
    };
    let name = match path_of(&directory) {
        Ok(name) if name == b"/" => Vec::new(),
        Ok(name) => name,
        Err(ENOENT) => NOWHERE.to_vec(),
        Err(errno) => return Err(errno),
    };
    if let Some(root) = &mut process().state().root {
        // (Unless it is another one by now.)
        if Arc::ptr_eq(&root.directory, &directory) {
            root.name = name;
        }
    }
    Ok(())
}

/// The process's root is the name space's.
fn take_root() -> Result<()> {
    make_room()?;
    let request = Request::new(&[proc::SPACE_ROOT_HANDLE]).brings(1);
    let mut words = request.call(linux_slot::PROC)?;
    (words[1], words[2]) = (fs::s::IFDIR.into(), fs::kind::DIRECTORY);
    set_root(handle(&words));
    Ok(())
}

fn set_root(directory: Arc<OpenFile>) {
    crate::path::set_root(Root {
        name: Vec::new(),
        directory,
    });
}

/// The process is in this mount name space, with this handle of its root.
pub fn enter(id: u64, root: Arc<OpenFile>) -> Result<()> {
    let process = process();
    let space = Space {
        id,
        at_root: true,
        ..Space::default()
    };
    let old = process.state().space.replace(space);
    process.in_space.store(true, Ordering::Relaxed);
    drop(old);
    set_root(root);
    reload()
}

/// setns(2): the process is in this one, and stands at its root.
pub fn come(id: u64) -> Result<()> {
    make_room()?;
    let request = Request::new(&[proc::SPACE_ROOT_HANDLE]).brings(1);
    let mut words = request.call(linux_slot::PROC)?;
    (words[1], words[2]) = (fs::s::IFDIR.into(), fs::kind::DIRECTORY);
    let root = handle(&words);
    enter(id, root.clone())?;
    let old = process().state().set_cwd(Some(root));
    drop(old);
    Ok(())
}

/// A process that begins anew is in this one, and has its root.
pub fn begin(at_root: bool) -> Result<()> {
    let process = process();
    process.state().space = Some(Space {
        at_root,
        ..Space::default()
    });
    process.in_space.store(true, Ordering::Relaxed);
    reload()
}

/// chroot(2)
pub fn left_root() {
    if let Some(space) = &mut process().state().space {
        space.at_root = false;
    }
}

/// The process stands in no chroot.
pub fn at_root() -> bool {
    let state = process().state();
    state.space.as_ref().is_some_and(|space| space.at_root)
}

/// The old root lies on the new one, as programs see it.
pub fn stack() {
    if let Some(space) = &mut process().state().space {
        space.stacked = true;
    }
}

/// It does no longer; whether it did.
pub fn take_stacked() -> bool {
    let mut state = process().state();
    let space = state.space.as_mut();
    space.is_some_and(|space| core::mem::take(&mut space.stacked))
}

/// Where the handle of a mount comes from.
enum Source {
    /// The process has it.
    Own(Arc<OpenFile>),
    /// This name in the process's root; in another mount.
    Root(Arc<OpenFile>, Vec<u8>),
    Mount(u32, Vec<u8>),
}

/// Where a mount lies: `own`, if the process has a handle of it already.
fn source(number: u32, own: bool) -> Result<Source> {
    let state = process().state();
    let (Some(space), Some(root)) = (&state.space, &state.root) else {
        return Err(ENOENT);
    };
    let mount = space.numbered(number).ok_or(ENOENT)?;
    if let Some(file) = mount.file.as_ref().filter(|_| own) {
        return Ok(Source::Own(file.clone()));
    }
    if own && number == space.root && space.at_root {
        return Ok(Source::Own(root.directory.clone()));
    }
    let name = &mount.name;
    let above = space.above(number).ok_or(ENOENT)?;
    let in_root = above.name.len() <= root.name.len() && name.len() > root.name.len();
    match below(name, &root.name) {
        None => Err(ENOENT),
        Some(rest) if in_root => Ok(Source::Root(root.directory.clone(), rest.to_vec())),
        // The process's root itself, or what lies above it.
        Some(_) if above.name.len() < root.name.len() => Err(ENOENT),
        Some(_) => Ok(Source::Mount(
            above.number,
            name[above.name.len()..].to_vec(),
        )),
    }
}

/// A handle of a mount: the one that the process has, or it asks for one where the mount lies, and so on.
pub fn reach(number: u32) -> Result<Arc<OpenFile>> {
    let mut wanted = Vec::new();
    let mut at = number;
    let mut file = loop {
        match source(at, true)? {
            Source::Own(file) => break file,
            Source::Root(file, rest) => {
                wanted.push((at, rest));
                break file;
            }
            Source::Mount(above, rest) => {
                wanted.push((at, rest));
                at = above;
            }
        }
    };
    while let Some((number, rest)) = wanted.pop() {
        let (lies, its) = mounted(file.slot(), &rest)?;
        // It has its name, and is not there yet, or no longer.
        if lies != number {
            return Err(ENOENT);
        }
        keep(number, &its);
        file = its;
    }
    Ok(file)
}

/// The handle and the name in it where a mount lies.
pub fn spot(number: u32) -> Result<(Arc<OpenFile>, Vec<u8>)> {
    match source(number, false)? {
        Source::Root(file, rest) => Ok((file, rest)),
        Source::Mount(above, rest) => Ok((reach(above)?, rest)),
        Source::Own(_) => Err(EINVAL),
    }
}

/// The number of the mount that a file is in, and its path there.
pub fn within(file: &OpenFile) -> Result<(u32, Vec<u8>)> {
    let mut path: Buffer<PATH_MAX> = Buffer::new();
    let request = Request::new(&[fs::GETPATH]);
    let [length, number, ..] = path
        .receive_first(PATH_MAX as u64, request)
        .call(file.slot())?;
    path.filled(length.min(PATH_MAX as u64));
    if number >> 32 == 0 {
        return Err(EINVAL);
    }
    Ok((number as u32, path.as_bytes().to_vec()))
}

/// The place of a file, if by the table something else is seen there; and the number of the mount that it is the root of, or 0.
pub fn missed(file: &OpenFile) -> Option<(Vec<u8>, u32)> {
    if !is_private() || file.object.is_some() {
        return None;
    }
    let (number, path) = within(file).ok()?;
    let state = process().state();
    let space = state.space.as_ref()?;
    let mount = space.numbered(number)?;
    let place = [&mount.name, &path[..]].concat();
    let root = if path.is_empty() { number } else { 0 };
    let top = space.at(&place)?;
    (space.shows(number) && top.number != root).then_some((place, root))
}

/// A place where something is to be mounted: its name, and the file that it covers, which is the root of the mount that is seen there if there is one.
pub struct Site {
    pub place: Vec<u8>,
    pub file: Arc<OpenFile>,
}

impl Site {
    /// EINVAL: something else hides it, or it is in a mount that has no place.
    pub fn of(target: &Arc<OpenFile>) -> Result<Site> {
        let (number, path) = within(target)?;
        is_private();
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        let mount = space.numbered(number).ok_or(EINVAL)?;
        let place = [&mount.name, &path[..]].concat();
        let is_seen = space.shows(number);
        let mut top = space.at(&place).map(|mount| mount.number);
        if path.is_empty() && top == Some(number) {
            // It is the handle that the program has.
            top = None;
        }
        drop(state);
        let file = match top {
            _ if !is_seen => return Err(EINVAL),
            None => target.clone(),
            Some(top) => reach(top)?,
        };
        Ok(Site { place, file })
    }
}

/// Number and handle of what is mounted on this name.
pub fn mounted(slot: u32, name: &[u8]) -> Result<(u32, Arc<OpenFile>)> {
    make_room()?;
    let request = Request::new(&[fs::MOUNTED]).out(name).brings(1);
    let mut words = request.call(slot)?;
    let number = words[1] as u32;
    (words[1], words[2]) = (fs::s::IFDIR.into(), fs::kind::DIRECTORY);
    Ok((number, handle(&words)))
}

/// The process has a handle of this mount.
pub fn keep(number: u32, file: &Arc<OpenFile>) {
    let mut state = process().state();
    let space = state.space.as_mut();
    let old = space.and_then(|space| space.keep(number, file));
    drop(state);
    drop(old);
}

/// The file where an absolute name begins that is told from the name space's root, and how much of the name that takes.
pub fn start(full: &[u8]) -> Result<(Arc<OpenFile>, usize)> {
    let mut missed = None;
    loop {
        let state = process().state();
        let (Some(space), Some(root)) = (&state.space, &state.root) else {
            return Err(ENOENT);
        };
        let mount = match missed {
            None => space.find(full),
            Some(number) => space.above(number),
        };
        let Some(mount) = mount.filter(|mount| mount.name.len() > root.name.len()) else {
            return Ok((root.directory.clone(), root.name.len()));
        };
        let (number, length) = (mount.number, mount.name.len());
        drop(state);
        match reach(number) {
            Ok(file) => return Ok((file, length)),
            // It is about to be mounted, or unmounted: where it lies its file server knows whether it is there.
            Err(ENOENT | EINVAL) => missed = Some(number),
            Err(errno) => return Err(errno),
        }
    }
}

/// Begins a name that goes on in the mount with the number behind it, which no place's name leads into.
pub const INTO: u8 = 1;

/// Where a redirect leads ([`fs::redirect_kind`]): to a place by its name from the name space's root, or into a mount that others hide.
pub fn leads(kind: u64, rest: &[u8]) -> Result<(Errno, Vec<u8>)> {
    is_private();
    let number = (kind >> 8) as u32;
    let state = process().state();
    let space = state.space.as_ref().ok_or(ENOENT)?;
    let mount = space.numbered(number).ok_or(ENOENT)?;
    let into = |number: u32, path: &[u8]| {
        let number = number.to_le_bytes();
        (REDIRECT, [&[INTO], &number[..], path, rest].concat())
    };
    let place = match kind & 0xff {
        fs::redirect_kind::DOWN if !space.shows(number) => {
            let top = space.topmost(number).ok_or(ENOENT)?;
            return Ok(into(top.number, b""));
        }
        fs::redirect_kind::DOWN => &mount.name[..],
        _ => {
            // Upwards past all that lie at the same place.
            let mut at = mount;
            let above = loop {
                match space.above(at.number) {
                    Some(above) if above.name == mount.name => at = above,
                    above => break above,
                }
            };
            let (folder, _) = split(&mount.name).unwrap_or((&mount.name, b""));
            match above.filter(|above| !space.shows(above.number)) {
                Some(above) => {
                    let path = folder.get(above.name.len()..).unwrap_or(b"");
                    return Ok(into(above.number, path));
                }
                None => folder,
            }
        }
    };
    let mut full = place.to_vec();
    if !rest.starts_with(b"/") && !rest.is_empty() {
        full.push(b'/');
    }
    // A file's name has nothing behind it.
    if rest != b"/" || full.is_empty() {
        full.extend_from_slice(rest);
    }
    Ok((PLACE, full))
}

/// A path in a mount from the name space's root.
pub fn whole(number: u32, path: &[u8]) -> Option<Vec<u8>> {
    is_private();
    let state = process().state();
    let mount = state.space.as_ref()?.numbered(number)?;
    let name = [&mount.name, path].concat();
    Some(if name.is_empty() { b"/".to_vec() } else { name })
}

// What changes it.

/// One thread at a time changes what is mounted in a name space, whosever process it is of: several messages are one change for all who keep to it.
pub struct Turn(());

impl Turn {
    /// The table is as it is now, and stays so.
    pub fn take() -> Result<Turn> {
        let request = || Request::new(&[proc::SPACE_TURN, 1]);
        loop {
            match request().call(linux_slot::PROC) {
                Ok([1, ..]) => break,
                Ok(_) | Err(ETIMEDOUT) => {}
                Err(errno) => return Err(errno),
            }
        }
        let turn = Turn(());
        is_private();
        Ok(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = Request::new(&[proc::SPACE_TURN, 0]).call(linux_slot::PROC);
    }
}

/// The number of the process's mount name space.
pub fn id() -> u64 {
    let state = process().state();
    state.space.as_ref().map_or(0, |space| space.id)
}

/// EPERM: the process has no power in the user name space that its mount name space was made in.
pub fn may_change() -> Result<()> {
    // No mount has this number: `proc` says whether it would be looked for.
    let words = [proc::SPACE_MOUNT, 0, 0, 0, u64::MAX];
    match Request::new(&words).call(linux_slot::PROC) {
        Ok(_) | Err(EINVAL) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// A number that no other mount has.
pub fn number() -> Result<u32> {
    let words = Request::new(&[proc::SPACE_MOUNT, 0, 0, 0, 0]).call(linux_slot::PROC)?;
    Ok(words[0] as u32)
}

/// A mount has this name from now on.
pub fn name(number: u32, place: &[u8], fstype: &[u8], flags: u64) -> Result<()> {
    let place = if place.is_empty() { b"/" } else { place };
    let flags = flags & u64::from(FLAGS) & !mounts::mount::DISCARD;
    let texts = [place, fstype].concat();
    let lengths = [place, fstype].map(|text| text.len() as u64);
    let words = [
        proc::SPACE_MOUNT,
        lengths[0],
        lengths[1],
        flags,
        number.into(),
    ];
    let request = Request::new(&words).out(&texts);
    request.call(linux_slot::PROC).map(|_| ())
}

/// This file or folder as a mount.
pub fn bind(source: u32, flags: u64, number: u32, mode: u64) -> Result<Arc<OpenFile>> {
    make_room()?;
    let words = [fs::BIND, flags, number.into(), mode];
    let words = Request::new(&words).brings(1).call(source)?;
    Ok(handle(&words))
}

/// A mount and those in it have no names any more.
pub fn forget(number: u32) -> Result<()> {
    let words = [proc::SPACE_UNMOUNT, number.into()];
    Request::new(&words).call(linux_slot::PROC).map(|_| ())
}

/// This mount lies on the name in the folder.
pub fn cover(folder: u32, name: &[u8], (number, slot): (u32, u32)) -> Result<()> {
    let words = [fs::MOUNT_POINT, 1, number.into()];
    let request = Request::new(&words).out(name).pass(slot);
    request.call(folder).map(|_| ())
}

/// It does no longer.
pub fn uncover(folder: u32, name: &[u8], number: u32) -> Result<()> {
    let words = [fs::MOUNT_POINT, 0, number.into()];
    Request::new(&words).out(name).call(folder).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    #[test]
    fn what_is_hidden_is_known_by_its_number_only() {
        let names = [&b""[..], b"/a", b"/a/x", b"/b", b"/a"];
        let mounts = names.iter().zip([1, 9, 3, 4, 2]);
        let mounts = mounts.map(|(name, number)| Mount {
            number,
            name: name.to_vec(),
            fstype: Vec::new(),
            flags: 0,
            file: None,
        });
        let space = Space {
            mounts: Mounts::of(mounts),
            ..Space::default()
        };
        let number = |mount: Option<&Mount>| mount.map(|mount| mount.number);
        assert_eq!(number(space.find(b"/a/x/y")), Some(2));
        assert_eq!(number(space.at(b"/a")), Some(2));
        assert_eq!(number(space.at(b"/a/x")), None);
        assert_eq!(space.numbered(9).map(|m| &m.name[..]), Some(&b"/a"[..]));
        assert_eq!(number(space.numbered(5)), None);
        assert_eq!(number(space.topmost(9)), Some(2));
        assert_eq!(
            (number(space.above(2)), number(space.above(3))),
            (Some(9), Some(9))
        );
        assert_eq!(
            (number(space.above(9)), number(space.above(1))),
            (Some(1), None)
        );
        let shows = [1, 2, 3, 9].map(|number| space.shows(number));
        assert_eq!(shows, [true, true, false, true]);
        assert!(space.is_above(9) && !space.is_above(2));
        let all = |mounts: Vec<&Mount>| -> Vec<u32> { mounts.iter().map(|m| m.number).collect() };
        assert_eq!(all(space.below(b"").collect()), [2, 4]);
        assert_eq!(all(space.seen().collect()), [1, 4, 2]);
    }

    /// What each mount is, and how it is tied to others, in the table's order.
    fn told(mounts: &Mounts) -> Vec<String> {
        let number = |at: Option<u32>| at.and_then(|at| mounts.get(at)).map(|mount| mount.number);
        let all = mounts.iter().map(|mount| {
            let at = mounts.numbered(mount.number).unwrap();
            let ties = mounts.ties[at as usize];
            let above = (number(ties.above), number(ties.on_root));
            let seen = mounts.seen.at(&mount.name) == Some(&at);
            let name = core::str::from_utf8(&mount.name).unwrap();
            let (number, flags) = (mount.number, mount.flags);
            format!("{number} {name} {flags} {above:?} {} {seen}", ties.inside)
        });
        all.collect()
    }

    /// Mounts come, go with what lies in them, and move with it; who reads that now and then has the table that is.
    #[test]
    fn what_has_changed_makes_the_table_that_is() {
        let mut seed = 3u64;
        let mut random = |most: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) as usize % most
        };
        let mount = |number: u32, name: &str| Mount {
            number,
            name: name.as_bytes().to_vec(),
            fstype: Vec::new(),
            flags: 0,
            file: None,
        };
        let mut table = alloc::vec![mount(1, "")];
        let mut reader = Mounts::of(table.iter().cloned());
        let mut next = 2;
        // Which have changed since he read, and whether they kept their places.
        let mut changed: Vec<(u32, bool)> = Vec::new();
        for _ in 0..5_000 {
            let mut name = String::new();
            (0..1 + random(3)).for_each(|_| name += ["/a", "/b", "/ab"][random(3)]);
            // A mount with all that lie in it.
            let now = Mounts::of(table.iter().cloned());
            let chosen = table[random(table.len())].clone();
            let mut tree = alloc::vec![chosen.number];
            for (at, other) in table.iter().enumerate() {
                let above = now.ties[at].above.and_then(|above| now.get(above));
                if above.is_some_and(|above| tree.contains(&above.number)) {
                    tree.push(other.number);
                }
            }
            let is_in_tree = |mount: &Mount| tree.contains(&mount.number);
            let inside = now.seen.find(name.as_bytes());
            let loops = is_in_tree(&table[*inside.unwrap().1 as usize]);
            match random(8) {
                0..3 => {
                    table.push(mount(next, &name));
                    changed.push((next, false));
                    next += 1;
                }
                3 | 4 if chosen.number != 1 => {
                    table.retain(|mount| !is_in_tree(mount));
                    changed.extend(tree.iter().map(|number| (*number, false)));
                }
                5 | 6 if chosen.number != 1 && !loops => {
                    let mut moved: Vec<Mount> = table.extract_if(.., |m| is_in_tree(m)).collect();
                    for mount in &mut moved {
                        mount.name = [name.as_bytes(), &mount.name[chosen.name.len()..]].concat();
                        changed.push((mount.number, false));
                    }
                    table.append(&mut moved);
                }
                _ => {
                    let mut all = table.iter_mut();
                    let its = all.find(|mount| mount.number == chosen.number).unwrap();
                    its.flags ^= 16;
                    changed.push((chosen.number, true));
                }
            }
            if random(3) != 0 {
                continue;
            }
            let told_now = core::mem::take(&mut changed).into_iter();
            let changes = told_now.map(|(number, stays)| {
                match table.iter().find(|mount| mount.number == number) {
                    None => Change::Gone(number),
                    Some(mount) if stays => Change::Flags(number, mount.flags),
                    Some(mount) => Change::Last(mount.clone()),
                }
            });
            reader.change(changes.collect());
            let anew = Mounts::of(table.iter().cloned());
            assert_eq!(told(&reader), told(&anew));
            assert_eq!(reader.by_number.len(), anew.by_number.len());
        }
    }

    #[test]
    fn mounts_are_told_as_entries() {
        let mut mount = Mount {
            number: 0xab_cdef,
            name: b"/a/b".to_vec(),
            fstype: b"tmpfs".to_vec(),
            flags: 0x62,
            file: None,
        };
        let text = [mount.entry().unwrap(), mount.entry().unwrap()].concat();
        let read = entries(&text);
        assert_eq!(read.len(), 2);
        assert_eq!((read[1].number, read[1].flags), (0xab_cdef, 0x62));
        assert_eq!(
            (&read[1].name[..], &read[1].fstype[..]),
            (&b"/a/b"[..], &b"tmpfs"[..])
        );
        assert_eq!(entries(&text[..87]).len(), 0);
        mount.name = [b'x'; 64].to_vec();
        assert_eq!(mount.entry(), Err(ENAMETOOLONG));
    }

    #[test]
    fn places_have_folders() {
        assert_eq!(split(b"/new/usr"), Ok((&b"/new"[..], &b"usr"[..])));
        assert_eq!(split(b"/proc"), Ok((&b""[..], &b"proc"[..])));
        assert_eq!(split(b""), Err(EINVAL));
    }
}
