//! Name spaces: unshare, pivot_root, and mount and umount2 in a mount name space that is not the first one.

use super::mounts::{self, Asked, FileSystem};
use super::open::{open_directory, open_file};
use super::sysv::MANAGER;
use super::trees;
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{
    Result, EBUSY, EINVAL, ENODEV, ENOENT, ENOSYS, ENOTDIR, ENOTTY, EOPNOTSUPP, EPERM,
};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::UserString;
use crate::machine::{gate, published};
use crate::mount_flags::{
    bits, BIND, MOVE, OF_MOUNTS, PROPAGATION, RECURSIVE, REMOUNT, SHARED, SILENT,
};
use crate::nearest::{below, Nearest};
use crate::path::{self, AT_FDCWD};
use crate::space::{self, Mount, Site, Turn};
use crate::user_space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::fs::{self, bind, o, s};
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

/// Of umount2.
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
const KIND: u64 = fs::NS_GET_NSTYPE;

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

/// NS_GET_USERNS, NS_GET_PARENT: the file of the name space that this one belongs to.
pub fn related(file: &OpenFile, which: u64) -> Result<u64> {
    process().state().files.check_room()?;
    path::make_room()?;
    let asked = Request::new(&[fs::SPACE_RELATED, which]).brings(1);
    let words = asked.call(file.slot()).map_err(|errno| match errno {
        ENOSYS => ENOTTY,
        errno => errno,
    })?;
    let file = OpenFile::portal(words[7] as u32, words[2], words[1] as u32);
    let mut state = process().state();
    let made = state.files.insert(Arc::new(file), true, 0);
    made.map(u64::from)
}

/// What there is now, from the process's root: the folders above first.
fn present() -> Result<(u32, Vec<Mount>)> {
    let process = process();
    let private = space::is_private();
    let (base, root) = match &process.state().root {
        Some(root) => (root.name.clone(), Some(root.directory.clone())),
        None => (Vec::new(), None),
    };
    let mut all = match &process.state().space {
        Some(space) if private => space.seen().cloned().collect(),
        _ => published::mounts(),
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
            path::grow_for(mounts.len())?;
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
    let turn = match space::is_private() {
        // (Who may not change anything there looks all the same.)
        true => Turn::take().ok(),
        false => None,
    };
    let (root, mounts) = present()?;
    drop(turn);
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
    let mut made: Nearest<Arc<OpenFile>> = Nearest::default();
    made.put(Vec::new(), handle.clone());
    for (count, mount) in mounts.into_iter().enumerate() {
        let Some(source) = &mount.file else { continue };
        let number = space::number()?;
        path::grow_for(count)?;
        let Ok(file) = space::bind(source.slot(), bind::WITH_MOUNTS, number, 0) else {
            continue;
        };
        let Some((length, above)) = made.above(&mount.name) else {
            continue;
        };
        let rest = &mount.name[length..];
        if space::cover(above.slot(), rest, (number, file.slot())).is_ok() {
            space::name(number, &mount.name, &mount.fstype, mount.flags)?;
            made.put(mount.name, file);
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
            let mut all = Nearest::default();
            for mount in published::mounts() {
                all.put(mount.name, mount.fstype);
            }
            all.find(base).map(|(_, fstype)| fstype.clone())
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

/// The mount that this is the root of.
fn mount_at(file: &OpenFile) -> Result<Mount> {
    trees::numbered(trees::root_of(file)?).ok_or(EINVAL)
}

/// What is mounted at exactly this place.
fn find(place: &[u8]) -> Option<Mount> {
    let state = process().state();
    state.space.as_ref()?.at(place).cloned()
}

/// mount(2)
pub fn mount(asked: &Asked) -> Result<u64> {
    let (target, flags) = (&asked.target, asked.flags);
    let source = || open_file(AT_FDCWD, &asked.source, o::PATH, 0);
    if flags & PROPAGATION == 0 && flags & MOVE != 0 {
        return trees::go(&source()?, target);
    }
    let _turn = Turn::take()?;
    if flags & PROPAGATION != 0 {
        // What is mounted in one name space is never mounted in another by itself.
        let only = flags & !(PROPAGATION | RECURSIVE | SILENT) == 0;
        return match mount_at(target) {
            Ok(_) if only && flags & SHARED == 0 => Ok(0),
            _ => Err(EINVAL),
        };
    }
    if flags & REMOUNT != 0 {
        if flags & !(OF_MOUNTS | REMOUNT | BIND | RECURSIVE) != 0 {
            return Err(EINVAL);
        }
        return change(&mount_at(target)?, bits(flags)).map(|()| 0);
    }
    if flags & BIND != 0 {
        if flags & !(OF_MOUNTS | BIND | RECURSIVE) != 0 {
            return Err(EINVAL);
        }
        let source = source()?;
        return bind_mount(&source, target, flags & RECURSIVE != 0);
    }
    if flags & !(OF_MOUNTS | RECURSIVE) != 0 {
        return Err(EINVAL);
    }
    mount_fresh(&asked.file_system()?, target)
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
    let _turn = Turn::take()?;
    let mount = trees::numbered(number).ok_or(EINVAL)?;
    if !options.is_empty() || flags & !OF_MOUNTS != 0 {
        return Err(EINVAL);
    }
    let bits = mount.flags & !bits(mask) | bits(flags & mask);
    change(&mount, bits).map(|()| 0)
}

/// A new file system at a place.
pub fn mount_new(new: &FileSystem, target: &Arc<OpenFile>) -> Result<u64> {
    let _turn = Turn::take()?;
    mount_fresh(new, target)
}

fn mount_fresh(new: &FileSystem, target: &Arc<OpenFile>) -> Result<u64> {
    mounts::must_be_directory(target)?;
    let site = Site::of(target)?;
    settle(&[(Vec::new(), fresh(new)?)], &site)
}

/// These mounts, of which none has a place, lie from this place on: the first one there, the others in it.
fn settle(made: &[(Vec<u8>, Fresh)], site: &Site) -> Result<u64> {
    let (_, first) = made.first().ok_or(EINVAL)?;
    let called = made.iter().map(|(name, new)| new.called(name));
    let called: Vec<Mount> = called.collect();
    trees::join(made)?;
    trees::settle(&called, first.number, &first.file, site)
}

/// Could a new file system be mounted in this name space? What can be said before it is made: the mode of its root.
pub fn checked(new: &FileSystem) -> Result<u64> {
    if new.flags & !(OF_MOUNTS | RECURSIVE) != 0 {
        return Err(EINVAL);
    }
    match new.kind {
        b"tmpfs" => tree_mode(new.options),
        b"proc" => proc_options(new.options).map(|()| 0),
        b"sysfs" | b"devpts" | b"devtmpfs" => Ok(0),
        _ => Err(ENODEV),
    }
}

/// There is one /proc, which hides nothing: options that ask for something else are refused.
fn proc_options(options: &[u8]) -> Result<()> {
    let mut options = options.split(|&byte| byte == b',');
    let hides_nothing = |option: &[u8]| match option {
        b"" | b"hidepid=0" | b"hidepid=off" => true,
        // Whom what is hidden is shown to.
        _ => option
            .strip_prefix(b"gid=")
            .is_some_and(|group| !group.is_empty() && group.iter().all(u8::is_ascii_digit)),
    };
    match options.all(hides_nothing) {
        true => Ok(()),
        false => Err(EINVAL),
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

impl Fresh {
    /// What it will be called.
    pub fn called(&self, name: &[u8]) -> Mount {
        Mount {
            number: self.number,
            name: name.to_vec(),
            fstype: self.fstype.clone(),
            flags: self.flags,
            file: None,
        }
    }
}

/// The folder of pseudo-terminals, where the process sees it.
fn pts() -> Result<Vec<u8>> {
    let dev = {
        let state = process().state();
        let mounts = state.space.iter().flat_map(|space| space.seen());
        let mut dev = mounts.filter(|mount| mount.fstype == b"devtmpfs");
        dev.next().ok_or(EPERM)?.name.clone()
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
    // Mostly the first one is reached.
    for nth in 0.. {
        let number = {
            let state = process().state();
            let mounts = state.space.iter().flat_map(|space| space.seen());
            let mut its = mounts.filter(|mount| mount.fstype == fstype);
            its.nth(nth).ok_or(EPERM)?.number
        };
        if let Ok(file) = space::reach(number) {
            return Ok(file);
        }
    }
    Err(EPERM)
}

/// Open a place where something is to be mounted or unmounted. Who was killed while it did so may have left a handle there that no name leads to, or a name
/// that leads nowhere: that goes first.
pub fn open_place(
    dirfd: i32,
    name: &[u8],
    open: impl Fn() -> Result<Arc<OpenFile>>,
) -> Result<Arc<OpenFile>> {
    let opened = open();
    let unsure = match &opened {
        Err(ENOENT | EINVAL) => !name.is_empty(),
        Ok(file) => space::missed(file).is_some(),
        Err(_) => false,
    };
    if !unsure || !space::is_private() {
        return opened;
    }
    // (Nobody is half-way through with it meanwhile.)
    let Ok(_turn) = Turn::take() else {
        return opened;
    };
    let cleared = match open() {
        Ok(file) => clear_on(&file),
        Err(_) => clear(dirfd, name),
    };
    // What cannot be cleared stays as it is.
    let _ = cleared;
    open()
}

/// The file is where something would have to lie by its name.
fn clear_on(file: &Arc<OpenFile>) -> Result<()> {
    while let Some((place, number)) = space::missed(file) {
        if is_clear((file, b""), &place, number)? {
            break;
        }
        space::is_private();
    }
    Ok(())
}

fn clear(dirfd: i32, name: &[u8]) -> Result<()> {
    let end = name.iter().rposition(|byte| *byte != b'/').ok_or(ENOENT)?;
    let name = &name[..=end];
    let (above, name) = match name.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => name.split_at(slash + 1),
        None => (&b"."[..], name),
    };
    let folder = open_directory(dirfd, above)?;
    let place = [&place_of(&folder)?, &b"/"[..], name].concat();
    // (Nobody changes anything meanwhile: what lies there and what is called so belong together.)
    while !is_clear((&folder, name), &place, 0)? {
        space::is_private();
    }
    Ok(())
}

/// What lies at a place, from this name on, one on the root of the other, is what is called so and lies above the mount with this number (0: all of it).
/// Otherwise the first that is not called so, or only that, goes.
fn is_clear(from: (&Arc<OpenFile>, &[u8]), place: &[u8], number: u32) -> Result<bool> {
    let mut called = Vec::new();
    {
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        let mut next = space.at(place);
        let its = |mount: &&Mount| mount.name == place && mount.number != number;
        while let Some(mount) = next.filter(its) {
            called.push(mount.number);
            next = space.above(mount.number);
        }
    }
    let (mut file, mut name) = (from.0.clone(), from.1);
    loop {
        let lies = match space::mounted(file.slot(), name) {
            Ok(lies) => Some(lies),
            Err(EINVAL) => None,
            Err(errno) => return Err(errno),
        };
        (file, name) = match (lies, called.pop()) {
            (None, None) => return Ok(true),
            (Some((number, its)), Some(called)) if number == called => (its, b""),
            (Some((number, _)), _) => {
                space::uncover(file.slot(), name, number)?;
                return Ok(false);
            }
            (None, Some(called)) => {
                space::forget(called)?;
                return Ok(false);
            }
        };
    }
}

fn bind_mount(source: &OpenFile, target: &Arc<OpenFile>, all: bool) -> Result<u64> {
    let is_directory = |file: &OpenFile| file.mode & s::IFMT == s::IFDIR;
    if is_directory(source) != is_directory(target) {
        return Err(ENOTDIR);
    }
    // What lies below the place itself is not mounted in itself.
    let site = Site::of(target)?;
    settle(&copies(source, all, Some(&site.place))?, &site)
}

/// Mounts of a file or folder and, if `all`, of what is mounted below it but not below `without`; with what they are called below the first one.
pub fn copies(
    source: &OpenFile,
    all: bool,
    without: Option<&[u8]>,
) -> Result<Vec<(Vec<u8>, Fresh)>> {
    let (number, path) = space::within(source)?;
    let within = |mount: &Mount| without.is_some_and(|place| below(&mount.name, place).is_some());
    let (from, fstype, flags, inner) = {
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        let holds = space.numbered(number).ok_or(ENOENT)?;
        let from = [&holds.name[..], &path].concat();
        let is_seen = space.at(&holds.name).is_some_and(|m| m.number == number);
        let inner = space.below(&from);
        let inner = inner.filter(|mount| all && is_seen && !within(mount));
        let inner: Vec<Mount> = inner.cloned().collect();
        (from, holds.fstype.clone(), holds.flags, inner)
    };
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
    for mount in inner {
        let source = space::reach(mount.number)?;
        path::grow_for(made.len())?;
        let rest = mount.name[from.len()..].to_vec();
        made.push((rest, copy(source.slot(), &mount.fstype, mount.flags)?));
    }
    Ok(made)
}

/// umount2(2)
pub fn unmount(target: Arc<OpenFile>, flags: u64) -> Result<u64> {
    let _turn = Turn::take()?;
    let (number, path) = space::within(&target)?;
    let mount = match trees::numbered(number) {
        // It has been taken from all names already (pivot_root of a root on itself).
        None if flags & DETACH != 0 => return Ok(0),
        mount => mount.filter(|_| path.is_empty()).ok_or(EINVAL)?,
    };
    if mount.name.is_empty() {
        // The old root, which pivot_root put on the new one, is in no name since.
        return match space::take_stacked() && flags & DETACH != 0 {
            true => Ok(0),
            false => Err(EINVAL),
        };
    }
    let is_above = {
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        space.is_above(number)
    };
    if is_above && flags & DETACH == 0 {
        return Err(EBUSY);
    }
    drop(target);
    let (file, name) = space::spot(number)?;
    space::uncover(file.slot(), &name, number)?;
    space::forget(number)?;
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
    let _turn = Turn::take()?;
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
        _ => Some(Site::of(&old)?.file),
    };
    let (file, name) = space::spot(mount.number)?;
    if let Some(covered) = &covered {
        space::cover(covered.slot(), b"", (number, root.slot()))?;
    }
    // Whatever fails, all is as it was.
    let uncovered = space::uncover(file.slot(), &name, mount.number);
    let turned = uncovered.and_then(|()| {
        let request = Request::new(&[proc::SPACE_ROOT, mount.number.into()]);
        let turned = request.out(rest).pass(handle.slot());
        turned.call(linux_slot::PROC).inspect_err(|_| {
            let new = (mount.number, handle.slot());
            let _ = space::cover(file.slot(), &name, new);
        })
    });
    if let Err(errno) = turned {
        if let Some(covered) = &covered {
            let _ = space::uncover(covered.slot(), b"", number);
        }
        return Err(errno);
    }
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
