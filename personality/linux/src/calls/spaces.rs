//! Name spaces: unshare, pivot_root, and mount and umount2 in a mount name space that is not the first one.

use super::mounts::{self, Asked, FileSystem};
use super::open::{open_directory, open_file};
use super::sysv::MANAGER;
use super::trees;
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EBUSY, EINVAL, ENODEV, ENOENT, ENOTDIR, ENOTTY, EOPNOTSUPP, EPERM};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::UserString;
use crate::machine::{gate, published};
use crate::path::{self, AT_FDCWD};
use crate::space::{self, below, split, Mount};
use crate::user_space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::fs::{self, bind, o, s};
use cairn_idl::mounts::mount;
use cairn_idl::{ipc, proc};
use core::sync::atomic::Ordering;

pub const NEW_MOUNTS: u64 = 0x2_0000;
pub const NEW_HOST: u64 = 0x400_0000;
pub const NEW_USER: u64 = 0x1000_0000;
pub const NEW_PIDS: u64 = 0x2000_0000;
pub const NEW_IPC: u64 = 0x800_0000;
pub const NEW_CGROUPS: u64 = 0x200_0000;
/// All kinds that there are.
pub const ALL: u64 = NEW_MOUNTS | NEW_HOST | NEW_USER | NEW_PIDS | NEW_IPC | NEW_CGROUPS;
/// CLONE_FS, CLONE_FILES, CLONE_SYSVSEM: processes share none of these but with their threads.
const OWN_ANYWAY: u64 = 0x200 | 0x400 | 0x4_0000;
/// CLONE_VM, CLONE_SIGHAND, CLONE_THREAD: who has no other thread has them of its own.
const ALONE: u64 = 0x100 | 0x800 | 0x1_0000;

/// MS_ flags.
const NO_SUID: u64 = 2;
const RECURSIVE: u64 = 16384;
const SILENT: u64 = 32768;
/// MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED.
const PROPAGATION: u64 = 15 << 17;
const SHARED: u64 = 1 << 20;
const MOVE: u64 = 8192;
const DETACH: u64 = 2;

pub fn unshare(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(0);
    if flags & !(ALL | OWN_ANYWAY | ALONE) != 0 || flags & ALONE != 0 && !process().is_alone() {
        return Err(EINVAL);
    }
    let flags = flags & ALL;
    if flags == 0 {
        return Ok(0);
    }
    if flags & NEW_USER == 0 && !process().is_capable(SYS_ADMIN) {
        return Err(EPERM);
    }
    prepare(flags)?;
    if flags & NEW_MOUNTS != 0 {
        return new_mounts(flags).map(|()| 0);
    }
    Request::new(&[proc::UNSHARE, flags]).call(linux_slot::PROC)?;
    children_apart(flags);
    arrive(flags).map(|()| 0)
}

/// A child that has name spaces of its own, but for its mounts.
pub fn born_apart(flags: u64) -> Result<()> {
    arrive(flags)?;
    match flags & NEW_MOUNTS {
        0 => Ok(()),
        _ => new_mounts(NEW_MOUNTS),
    }
}

/// The process is in other name spaces of these kinds.
fn arrive(flags: u64) -> Result<()> {
    if flags & NEW_HOST != 0 {
        process().state().own_host = true;
    }
    if flags & NEW_USER != 0 {
        user_space::enter()?;
    }
    match flags & NEW_IPC {
        0 => Ok(()),
        _ => new_ipc(),
    }
}

/// Before name spaces are left: what one needs of them to make others.
pub fn prepare(flags: u64) -> Result<()> {
    match flags & NEW_IPC {
        0 => Ok(()),
        _ => path::scheme(MANAGER).map(|_| ()).map_err(|_| EINVAL),
    }
}

/// The process's IPC name space is a new one of the server's.
fn new_ipc() -> Result<()> {
    path::make_room()?;
    let words = Request::new(&[ipc::SPACE]).brings(1);
    let slot = words.call(path::scheme(MANAGER)?)?[7] as u32;
    let told = Request::new(&[proc::SPACE_IPC]).pass(slot);
    let told = told.call(linux_slot::PROC);
    gate::close(slot);
    told?;
    path::forget_scheme(MANAGER);
    Ok(())
}

/// After unshare(2) children are in another PID name space, the process stays.
fn children_apart(flags: u64) {
    if flags & NEW_PIDS != 0 {
        let process = process();
        process.children_in_pid_space.store(true, Ordering::Relaxed);
    }
}

/// A number of a process as other servers have it, of one that the program says; ESRCH: nobody's.
pub fn number_outside(number: u32) -> Result<u32> {
    number_of(number, true)
}

/// The other way; 0: it has no name here.
pub fn number_inside(number: u32) -> u32 {
    number_of(number, false).unwrap_or(0)
}

#[inline]
fn number_of(number: u32, outside: bool) -> Result<u32> {
    if !process().in_pid_space.load(Ordering::Relaxed) || number == 0 {
        return Ok(number);
    }
    let words = [proc::NUMBER, number.into(), outside.into()];
    let words = Request::new(&words).call(linux_slot::PROC)?;
    Ok(words[0] as u32)
}

/// What files of name spaces are asked (/proc/PID/ns): to come into theirs (not a number of Linux's), and of which kind it is.
const ENTER: u64 = fs::ENTER_SPACE;
const KIND: u64 = 0xb703;

pub fn setns(f: &mut Frame) -> Result<u64> {
    let file = super::io::usable(f.arg(0))?;
    let wanted = f.arg(1) & 0xffff_ffff;
    if file.is(event_kind::PROCESS) {
        return super::pidfds::enter(&file, wanted);
    }
    enter(&file, wanted)
}

/// Into the name space that this is a file of, which is of this kind (0: of any).
pub fn enter(file: &OpenFile, wanted: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    let ask = |what| {
        let words = Request::new(&[fs::IOCTL, what, 0]).call(file.slot());
        words.map_err(|errno| if errno == ENOTTY { EINVAL } else { errno })
    };
    let kind = ask(KIND)?[0];
    if wanted != 0 && wanted != kind {
        return Err(EINVAL);
    }
    let [_, space, ..] = ask(ENTER)?;
    match kind {
        NEW_MOUNTS if space != 0 => space::come(space)?,
        NEW_HOST | NEW_USER => arrive(kind)?,
        NEW_IPC => path::forget_scheme(MANAGER),
        NEW_PIDS => {
            let apart = space != 0;
            let children = &process().children_in_pid_space;
            children.store(apart, Ordering::Relaxed);
        }
        _ => {}
    }
    Ok(0)
}

/// What there is now, from the process's root: the folders above first.
fn present() -> Result<(u32, Vec<Mount>)> {
    let process = process();
    let private = space::is_private();
    let (base, root) = match &process.state().root {
        Some(root) => (root.name.clone(), Some(root.directory.clone())),
        None => (Vec::new(), None),
    };
    let mut all = match private {
        true => process
            .state()
            .space
            .as_ref()
            .map_or_else(Vec::new, |space| space.mounts.clone()),
        false => published::mounts(),
    };
    all.retain(|mount| below(&mount.name, &base).is_some_and(|rest| !rest.is_empty()));
    all.sort_by_key(|mount| mount.name.len());
    let mut mounts = Vec::new();
    for mut mount in all {
        // What the process does not reach stays covered.
        mount.file = match private {
            true => space::reach(mount.number).ok(),
            false => path::own_portal(mount.number).ok(),
        };
        mount.name.drain(..base.len());
        if mount.file.is_some() {
            mounts.push(mount);
        }
    }
    let slot = match root {
        Some(root) => root.slot(),
        None => path::root_slot()?,
    };
    // (A handle of what the process goes on having.)
    Ok((slot, mounts))
}

fn new_mounts(flags: u64) -> Result<()> {
    let process = process();
    let cwd = process.state().cwd.clone();
    let stands = cwd.as_ref().and_then(|cwd| path::path_of(cwd).ok());
    let stands = stands.and_then(|place| path::as_seen(&place).ok());
    let (root, mounts) = present()?;
    let words = Request::new(&[proc::UNSHARE, flags]).call(linux_slot::PROC)?;
    children_apart(flags);
    arrive(flags)?;
    let number = space::number()?;
    let handle = space::bind(root, bind::WITH_MOUNTS, number, 0)?;
    let root_kind = space_root_kind().unwrap_or_else(|| b"none".to_vec());
    space::name(number, b"", &root_kind, 0)?;
    Request::new(&[proc::SPACE_ROOT, number.into()])
        .pass(handle.slot())
        .call(linux_slot::PROC)?;
    let mut made: Vec<(Vec<u8>, Arc<OpenFile>)> = alloc::vec![(Vec::new(), handle.clone())];
    for mount in mounts {
        let Some(source) = &mount.file else { continue };
        let number = space::number()?;
        let Ok(file) = space::bind(source.slot(), bind::WITH_MOUNTS, number, 0) else {
            continue;
        };
        let above = made.iter().filter(|(n, _)| below(&mount.name, n).is_some());
        let Some((name, above)) = above.max_by_key(|(name, _)| name.len()) else {
            continue;
        };
        let rest = &mount.name[name.len()..];
        if space::cover(above.slot(), rest, Some((number, file.slot()))).is_ok() {
            space::name(number, &mount.name, &mount.fstype, mount.flags)?;
            made.push((mount.name, file));
        }
    }
    space::enter(words[1], handle)?;
    if let Some(stands) = stands {
        if let Ok(directory) = open_directory(AT_FDCWD, &stands) {
            let old = process.state().set_cwd(Some(directory));
            drop(old);
        }
    }
    Ok(())
}

/// The type of the file system that the root is in.
fn space_root_kind() -> Option<Vec<u8>> {
    let state = process().state();
    let base = state.root.as_ref().map_or(&b""[..], |root| &root.name);
    match &state.space {
        Some(space) => space.find(base).map(|mount| mount.fstype.clone()),
        None => {
            let all = published::mounts();
            let holds = all.into_iter().filter(|m| below(base, &m.name).is_some());
            holds.max_by_key(|m| m.name.len()).map(|m| m.fstype)
        }
    }
}

/// A place from the name space's root as the table has it: its root is empty.
pub fn place_of(file: &OpenFile) -> Result<Vec<u8>> {
    let mut place = path::path_of(file)?;
    if place == b"/" {
        place.clear();
    }
    Ok(place)
}

pub fn find(place: &[u8]) -> Option<Mount> {
    let state = process().state();
    let mounts = state.space.iter().flat_map(|space| &space.mounts);
    let mut all = mounts.filter(|mount| mount.name == place);
    all.next().cloned()
}

/// MS_ flags as file servers and `proc` have them, but for what else a mount has.
pub fn bits(flags: u64) -> u64 {
    [
        (1, mount::READ_ONLY),
        (NO_SUID, mount::NO_SET_ID),
        (4, mount::NO_DEVICES),
        (8, mount::NO_EXECUTION),
        (1024, mount::NO_ACCESS_TIMES),
    ]
    .iter()
    .filter(|(flag, _)| flags & flag != 0)
    .fold(0, |bits, (_, bit)| bits | bit)
}

/// MS_RDONLY, NOSUID, NODEV, NOEXEC, SILENT, NOATIME, NODIRATIME, RELATIME, STRICTATIME.
const KNOWN: u64 = 15 | SILENT | 1024 | 2048 | 1 << 21 | 1 << 24;
const REMOUNT: u64 = 32;
const BIND: u64 = 4096;

/// mount(2)
pub fn mount(asked: &Asked) -> Result<u64> {
    let (target, flags) = (&asked.target, asked.flags);
    let place = place_of(target)?;
    if flags & PROPAGATION != 0 {
        // What is mounted in one name space is never mounted in another by itself.
        let only = flags & !(PROPAGATION | RECURSIVE | SILENT) == 0;
        return match find(&place) {
            Some(_) if only && flags & SHARED == 0 => Ok(0),
            _ => Err(EINVAL),
        };
    }
    if flags & MOVE != 0 {
        let source = open_file(AT_FDCWD, &asked.source, o::PATH, 0)?;
        return trees::go(&source, target);
    }
    if flags & REMOUNT != 0 {
        if flags & !(KNOWN | REMOUNT | BIND | RECURSIVE) != 0 {
            return Err(EINVAL);
        }
        return change(&find(&place).ok_or(EINVAL)?, bits(flags)).map(|()| 0);
    }
    if flags & BIND != 0 {
        if flags & !(KNOWN | BIND | RECURSIVE) != 0 {
            return Err(EINVAL);
        }
        let source = open_file(AT_FDCWD, &asked.source, o::PATH, 0)?;
        return bind_mount(&source, target, &place, flags & RECURSIVE != 0);
    }
    if flags & !(KNOWN | RECURSIVE) != 0 {
        return Err(EINVAL);
    }
    mount_new(&asked.file_system()?, target)
}

/// A mount has these flags from now on (bits of `mounts::mount`).
pub fn change(mount: &Mount, bits: u64) -> Result<()> {
    let file = space::reach(mount.number)?;
    Request::new(&[cairn_idl::fs::BOUND, bits]).call(file.slot())?;
    let words = [proc::SPACE_MOUNT, 0, 0, bits, mount.number.into()];
    Request::new(&words).call(linux_slot::PROC).map(|_| ())
}

/// fsconfig(2): of a mount these MS_ flags change; options of what there is of each cannot.
pub fn reconfigure(number: u32, flags: u64, mask: u64, options: &[u8]) -> Result<u64> {
    let mount = trees::numbered(number).ok_or(EINVAL)?;
    if !options.is_empty() || flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let bits = mount.flags & !bits(mask) | bits(flags & mask);
    change(&mount, bits).map(|()| 0)
}

/// A new file system at a place.
pub fn mount_new(new: &FileSystem, target: &OpenFile) -> Result<u64> {
    mounts::must_be_directory(target)?;
    let fresh = fresh(new)?;
    add(&fresh, &place_of(target)?)
}

/// Could a new file system be mounted in this name space? What can be said before it is made: the mode of its root.
pub fn checked(new: &FileSystem) -> Result<u64> {
    if new.flags & !(KNOWN | RECURSIVE) != 0 {
        return Err(EINVAL);
    }
    match new.kind {
        b"tmpfs" => tree_mode(new.options),
        b"proc" | b"sysfs" | b"devpts" | b"devtmpfs" => Ok(0),
        _ => Err(ENODEV),
    }
}

/// A new file system, which has no place yet.
pub fn fresh(new: &FileSystem) -> Result<Fresh> {
    let mode = checked(new)?;
    let flags = bits(new.flags);
    let (like, how) = match new.kind {
        b"tmpfs" => (like(b"tmpfs")?, flags | bind::NEW_TREE),
        // There is one of each; it is mounted here as well.
        b"devpts" => (open_directory(AT_FDCWD, &pts()?)?, flags),
        kind => (like(kind)?, flags),
    };
    let number = space::number()?;
    let file = space::bind(like.slot(), how, number, mode);
    let file = file.map_err(|errno| match errno {
        EOPNOTSUPP if new.kind == b"tmpfs" => ENODEV,
        errno => errno,
    })?;
    Ok(Fresh {
        number,
        file,
        fstype: new.kind.to_vec(),
        flags,
    })
}

/// A mount that has no place yet.
pub struct Fresh {
    pub number: u32,
    pub file: Arc<OpenFile>,
    pub fstype: Vec<u8>,
    /// Bits of `mounts::mount`.
    pub flags: u64,
}

/// The folder of pseudo-terminals, where the process sees it.
fn pts() -> Result<Vec<u8>> {
    let dev = {
        let state = process().state();
        let mounts = state.space.iter().flat_map(|space| &space.mounts);
        let dev = mounts.filter(|mount| mount.fstype == b"devtmpfs");
        dev.map(|mount| mount.name.clone()).next().ok_or(EPERM)?
    };
    path::as_seen(&[&dev, &b"/pts"[..]].concat())
}

/// Of tmpfs's options only this is kept.
fn tree_mode(data: &[u8]) -> Result<u64> {
    let mut mode = 0o1777;
    for option in data.split(|byte| *byte == b',').filter(|o| !o.is_empty()) {
        let digits = option.strip_prefix(b"mode=").ok_or(EINVAL)?;
        let octal = |mode: u64, digit: &u8| match digit {
            b'0'..=b'7' if mode < 0o10000 => Some(mode << 3 | u64::from(digit - b'0')),
            _ => None,
        };
        mode = digits.iter().try_fold(0, octal).ok_or(EINVAL)?;
    }
    Ok(mode & 0o1777)
}

/// A mount of this type that the process sees.
fn like(fstype: &[u8]) -> Result<Arc<OpenFile>> {
    let numbers: Vec<u32> = {
        let state = process().state();
        let mounts = state.space.iter().flat_map(|space| &space.mounts);
        let its = mounts.filter(|mount| mount.fstype == fstype);
        its.map(|mount| mount.number).collect()
    };
    let mut found = numbers
        .iter()
        .filter_map(|number| space::reach(*number).ok());
    found.next().ok_or(EPERM)
}

/// The folder that a place lies in, and its name there.
pub fn folder_of(place: &[u8]) -> Result<(Arc<OpenFile>, Vec<u8>)> {
    let (above, name) = split(place)?;
    let above = if above.is_empty() { b"/" } else { above };
    let folder = open_directory(AT_FDCWD, &path::as_seen(above)?)?;
    Ok((folder, name.to_vec()))
}

/// Open a place where something is to be mounted or unmounted. Who was killed while it did so may have left a handle there that no name leads to, or a name
/// that leads nowhere: that goes first.
pub fn open_place(
    dirfd: i32,
    name: &[u8],
    open: impl Fn() -> Result<Arc<OpenFile>>,
) -> Result<Arc<OpenFile>> {
    match open() {
        Err(ENOENT | EINVAL) if space::is_private() && !name.is_empty() => {
            let _ = clear(dirfd, name);
            open()
        }
        opened => opened,
    }
}

fn clear(dirfd: i32, name: &[u8]) -> Result<()> {
    let end = name.iter().rposition(|byte| *byte != b'/').ok_or(ENOENT)?;
    let name = &name[..=end];
    let (above, name) = match name.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => name.split_at(slash + 1),
        None => (&b"."[..], name),
    };
    let folder = open_directory(dirfd, above)?;
    path::make_room()?;
    let request = Request::new(&[cairn_idl::fs::MOUNTED]).out(name).brings(1);
    match request.call(folder.slot()) {
        Ok(words) => match trees::numbered(trees::root_of(&space::handle(&words))?) {
            Some(_) => Ok(()),
            None => space::cover(folder.slot(), name, None),
        },
        Err(EINVAL) => {
            let place = [&place_of(&folder)?, &b"/"[..], name].concat();
            let number = find(&place).ok_or(ENOENT)?.number;
            let words = [proc::SPACE_UNMOUNT, number.into()];
            Request::new(&words).call(linux_slot::PROC)?;
            space::is_private();
            Ok(())
        }
        Err(errno) => Err(errno),
    }
}

/// A mount's handle at its place.
pub fn add(new: &Fresh, place: &[u8]) -> Result<u64> {
    if place.is_empty() {
        return Err(EBUSY);
    }
    let (folder, name) = folder_of(place)?;
    let (number, file) = (new.number, &new.file);
    space::cover(folder.slot(), &name, Some((number, file.slot())))?;
    if let Err(errno) = space::name(number, place, &new.fstype, new.flags) {
        let _ = space::cover(folder.slot(), &name, None);
        return Err(errno);
    }
    if space::is_private() {
        space::keep(number, file);
    }
    Ok(0)
}

fn bind_mount(source: &OpenFile, target: &OpenFile, place: &[u8], all: bool) -> Result<u64> {
    let is_directory = |file: &OpenFile| file.mode & s::IFMT == s::IFDIR;
    if is_directory(source) != is_directory(target) {
        return Err(ENOTDIR);
    }
    // What lies below the place itself is not mounted in itself.
    for (rest, copy) in copies(source, all, Some(place))? {
        add(&copy, &[place, &rest].concat())?;
    }
    Ok(0)
}

/// Mounts of a file or folder and, if `all`, of what is mounted below it but not below `without`; with what they are called below the first one.
pub fn copies(
    source: &OpenFile,
    all: bool,
    without: Option<&[u8]>,
) -> Result<Vec<(Vec<u8>, Fresh)>> {
    let from = place_of(source)?;
    let (fstype, flags, mut below_it) = {
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        let holds = space.find(&from).ok_or(EINVAL)?;
        let inner = |m: &&Mount| below(&m.name, &from).is_some_and(|rest| !rest.is_empty());
        let inner: Vec<Mount> = space.mounts.iter().filter(inner).cloned().collect();
        (holds.fstype.clone(), holds.flags, inner)
    };
    below_it.sort_by_key(|mount| mount.name.len());
    let how = if all { bind::WITH_MOUNTS } else { 0 };
    let copy = |slot: u32, fstype: &[u8], flags: u64| {
        let number = space::number()?;
        Ok(Fresh {
            number,
            file: space::bind(slot, how, number, 0)?,
            fstype: fstype.to_vec(),
            flags,
        })
    };
    let mut made = alloc::vec![(Vec::new(), copy(source.slot(), &fstype, flags)?)];
    let within = |mount: &Mount| without.is_some_and(|place| below(&mount.name, place).is_some());
    for mount in below_it.into_iter().filter(|m| all && !within(m)) {
        let source = space::reach(mount.number)?;
        let rest = mount.name[from.len()..].to_vec();
        made.push((rest, copy(source.slot(), &mount.fstype, mount.flags)?));
    }
    Ok(made)
}

/// umount2(2)
pub fn unmount(target: Arc<OpenFile>, flags: u64) -> Result<u64> {
    let place = match place_of(&target) {
        // It has been taken from all names already (pivot_root of a root on itself).
        Err(ENOENT) if flags & DETACH != 0 => return Ok(0),
        place => place?,
    };
    let mount = find(&place).ok_or(EINVAL)?;
    if place.is_empty() {
        // The old root, which pivot_root put on the new one, is in no name since.
        return match space::take_stacked() && flags & DETACH != 0 {
            true => Ok(0),
            false => Err(EINVAL),
        };
    }
    let is_above = {
        let state = process().state();
        let mut mounts = state.space.iter().flat_map(|space| &space.mounts);
        mounts.any(|m| m.number != mount.number && below(&m.name, &place).is_some())
    };
    if is_above && flags & DETACH == 0 {
        return Err(EBUSY);
    }
    drop(target);
    let (folder, name) = folder_of(&place)?;
    space::cover(folder.slot(), &name, None)?;
    Request::new(&[proc::SPACE_UNMOUNT, mount.number.into()]).call(linux_slot::PROC)?;
    space::is_private();
    Ok(0)
}

pub fn pivot_root(f: &mut Frame) -> Result<u64> {
    mounts::privileged()?;
    let [new, old] = [f.arg(0), f.arg(1)].map(|address| {
        let mut name = UserString::empty();
        name.fill(address)?;
        open_directory(AT_FDCWD, name.as_bytes())
    });
    let (new, old) = (new?, old?);
    // The first name space's root is nobody's to change.
    if !space::is_private() || !space::at_root() {
        return Err(EINVAL);
    }
    let (new_place, old_place) = (place_of(&new)?, place_of(&old)?);
    let mount = find(&new_place).ok_or(EINVAL)?;
    let on_root = {
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        let old = space.find(&old_place).map(|mount| mount.number);
        old == Some(space.root) || mount.number == space.root
    };
    if on_root {
        return Err(EBUSY);
    }
    let rest = below(&old_place, &new_place).ok_or(EINVAL)?;
    let handle = space::reach(mount.number)?;
    let (root, number) = {
        let state = process().state();
        let root = state.root.as_ref().ok_or(EINVAL)?;
        let space = state.space.as_ref().ok_or(EINVAL)?;
        (root.directory.clone(), space.root)
    };
    let covered = match rest {
        b"" => None,
        rest => {
            let (above, name) = split(rest)?;
            let above = [&new_place[..], above].concat();
            Some((open_directory(AT_FDCWD, &path::as_seen(&above)?)?, name))
        }
    };
    let (folder, name) = folder_of(&new_place)?;
    space::cover(folder.slot(), &name, None)?;
    if let Some((folder, name)) = &covered {
        space::cover(folder.slot(), name, Some((number, root.slot())))?;
    }
    Request::new(&[proc::SPACE_ROOT, mount.number.into()])
        .out(rest)
        .pass(handle.slot())
        .call(linux_slot::PROC)?;
    space::is_private();
    if rest.is_empty() {
        space::stack();
    }
    Ok(0)
}

/// The host name, if the process has a UTS name space of its own.
pub fn own_host_name(name: &mut [u8; 64]) -> Result<bool> {
    if !process().state().own_host {
        return Ok(false);
    }
    host_text(0, name)?;
    Ok(true)
}

/// The domain name.
pub fn domain_name(name: &mut [u8; 64]) -> Result<()> {
    if process().state().own_host || published::has_domain_name() {
        return host_text(1, name);
    }
    name.fill(0);
    name[..cairn_idl::NO_DOMAIN_NAME.len()].copy_from_slice(cairn_idl::NO_DOMAIN_NAME);
    Ok(())
}

fn host_text(which: u64, name: &mut [u8; 64]) -> Result<()> {
    name.fill(0);
    Request::new(&[proc::HOSTNAME, which])
        .input(name)
        .call(linux_slot::PROC)?;
    Ok(())
}
