//! mount, umount2: names for what servers have. A bind mount makes the old name's handle the mount portal of the new one; for a disk, or a tmpfs, `init` starts a file server, which unmounting ends.

use super::open::{open_directory, open_file, open_rooted};
use super::spaces;
use super::system::TYPES;
use crate::descriptors::OpenFile;
use crate::errno::{
    Result, EBUSY, EINVAL, ENAMETOOLONG, ENODEV, ENOENT, ENOSYS, ENOTBLK, ENOTDIR, ENXIO,
    EOPNOTSUPP, EPERM,
};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::UserString;
use crate::machine::{gate, published};
use crate::mount_flags::{
    bits, BIND, MAGIC, MAGIC_MASK, NO_ACCESS_TIMES, NO_SET_ID, READ_ONLY, RELATIVE_TIMES, REMOUNT,
    SILENT,
};
use crate::path::{self, scheme, AT_FDCWD};
use crate::space;
use crate::user_space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::{fs, mounts, proc};

/// What is not kept is refused.
const KEPT: u64 = READ_ONLY | NO_SET_ID | NO_ACCESS_TIMES | SILENT | RELATIVE_TIMES;
/// Of umount2.
const FORCE: u64 = 1;
const DETACH: u64 = 2;
const EXPIRE: u64 = 4;
const NO_FOLLOW: u64 = 8;

/// May the process change its mount name space? (A new user name space alone gives nothing in the one of before.)
pub fn privileged() -> Result<()> {
    if !process().is_capable(SYS_ADMIN) {
        return Err(EPERM);
    }
    if !user_space::is_inside() {
        return Ok(());
    }
    match space::is_private() {
        true => space::may_change(),
        false => Err(EPERM),
    }
}

/// A file system that is to be mounted: by mount(2), or by fsmount(2) and move_mount(2).
pub struct FileSystem<'a> {
    pub kind: &'a [u8],
    pub source: &'a [u8],
    /// MS_ flags.
    pub flags: u64,
    pub options: &'a [u8],
}

/// What mount(2) is asked for.
pub struct Asked {
    pub source: Vec<u8>,
    pub target: Arc<OpenFile>,
    /// None: a null pointer.
    kind: Option<Vec<u8>>,
    pub flags: u64,
    pub options: Vec<u8>,
}

impl Asked {
    /// Errors come in Linux's order: of the texts, of the target's name, of the privilege.
    fn copy(f: &Frame) -> Result<Asked> {
        let kind = text(f.arg(2))?;
        let source = text(f.arg(0))?.unwrap_or_default();
        let options = text(f.arg(4))?.unwrap_or_default();
        let mut target = UserString::empty();
        target.fill(f.arg(1))?;
        let name = target.as_bytes();
        let open = || open_file(AT_FDCWD, name, fs::o::PATH, 0);
        let target = spaces::open_place(AT_FDCWD, name, open)?;
        privileged()?;
        let mut flags = f.arg(3);
        if flags & MAGIC_MASK == MAGIC {
            flags &= !MAGIC_MASK;
        }
        Ok(Asked {
            source,
            target,
            kind,
            flags,
            options,
        })
    }

    /// The new file system.
    pub fn file_system(&self) -> Result<FileSystem<'_>> {
        Ok(FileSystem {
            kind: known_kind(self.kind.as_deref().ok_or(EINVAL)?)?,
            source: &self.source,
            flags: self.flags,
            options: &self.options,
        })
    }
}

/// ENODEV: there is no such type.
pub fn known_kind(kind: &[u8]) -> Result<&[u8]> {
    match TYPES.contains(&kind) {
        true => Ok(kind),
        false => Err(ENODEV),
    }
}

pub fn must_be_directory(target: &OpenFile) -> Result<()> {
    let directory = target.is(fs::kind::DIRECTORY);
    match directory || target.mode & fs::s::IFMT == fs::s::IFDIR {
        true => Ok(()),
        false => Err(ENOTDIR),
    }
}

/// A text that may be absent; one that is too long is EINVAL.
pub fn text(address: u64) -> Result<Option<Vec<u8>>> {
    if address == 0 {
        return Ok(None);
    }
    let mut text = UserString::empty();
    match text.fill(address) {
        Ok(()) => Ok(Some(text.as_bytes().to_vec())),
        Err(ENAMETOOLONG) => Err(EINVAL),
        Err(errno) => Err(errno),
    }
}

pub fn mount(f: &mut Frame) -> Result<u64> {
    let asked = Asked::copy(f)?;
    if space::is_private() {
        return spaces::mount(&asked);
    }
    if asked.flags & REMOUNT != 0 {
        let place = path::path_of(&asked.target)?;
        return remount(asked.flags, &asked.options, &place);
    }
    if asked.flags & BIND != 0 {
        must_be_directory(&asked.target)?;
        let handle = open_rooted(&*open_directory(AT_FDCWD, &asked.source)?)?;
        return put(&handle, &asked.target);
    }
    mount_new(&asked.file_system()?, &asked.target)
}

/// A folder's handle at a place, in the first name space.
pub fn put(handle: &OpenFile, target: &OpenFile) -> Result<u64> {
    must_be_directory(target)?;
    announce(&path::path_of(target)?, b"none", handle.slot())
}

/// A new file system at a place.
pub fn mount_new(new: &FileSystem, target: &Arc<OpenFile>) -> Result<u64> {
    if space::is_private() {
        return spaces::mount_new(new, target);
    }
    let mounter = checked(new)?;
    match mounter {
        Mounter::None => match is_mounted(&path::path_of(target)?)? {
            true => Err(EBUSY),
            false => Err(ENODEV),
        },
        Mounter::Memory(slot) => {
            let place = free_place(target)?;
            let source = match new.source {
                b"" => b"none",
                source => source,
            };
            let names = [new.kind, source, &place];
            start_server(slot, names, bits(new.flags & NO_SET_ID), new.options)
        }
        Mounter::Disk(slot, device, discards) => {
            let place = free_place(target)?;
            let names = [new.kind, &device, &place];
            start_server(slot, names, bits(new.flags) | discards, b"")
        }
    }
}

/// A folder on which nothing is mounted.
fn free_place(target: &OpenFile) -> Result<Vec<u8>> {
    must_be_directory(target)?;
    let place = path::path_of(target)?;
    match is_mounted(&place)? {
        true => Err(EBUSY),
        false => Ok(place),
    }
}

/// Who mounts a file system in the first name space.
pub enum Mounter {
    /// Nobody: it is mounted already where it belongs, and mounting it there again changes nothing.
    None,
    /// `init`: in memory, with the server's own options.
    Memory(u32),
    /// `init`: from this disk (its name below /dev), with bits of [`mounts::mount`].
    Disk(u32, Vec<u8>, u64),
}

/// Could a file system be mounted, in the first name space? What can be said without a place.
pub fn checked(new: &FileSystem) -> Result<Mounter> {
    let mounter = match new.kind {
        b"proc" | b"devtmpfs" | b"devpts" | b"sysfs" => return Ok(Mounter::None),
        _ => scheme(b"mount:").map_err(|_| ENODEV)?,
    };
    if let b"tmpfs" | b"cgroup2" = new.kind {
        return match new.flags & !(NO_SET_ID | SILENT | RELATIVE_TIMES) {
            0 => Ok(Mounter::Memory(mounter)),
            _ => Err(EINVAL),
        };
    }
    if new.flags & !KEPT != 0 {
        return Err(EINVAL);
    }
    let discards = options(new.options, new.kind)?;
    let node = open_file(AT_FDCWD, new.source, fs::o::PATH, 0)?;
    if node.mode & fs::s::IFMT != fs::s::IFBLK {
        return Err(ENOTBLK);
    }
    let path = path::path_of(&node)?;
    let device = path.strip_prefix(b"/dev/").ok_or(ENXIO)?;
    Ok(Mounter::Disk(mounter, device.to_vec(), discards))
}

/// Have `init` start the server: kind, source and place; bits of [`mounts::MOUNT`]; options of the server's own.
fn start_server(mounter: u32, names: [&[u8]; 3], bits: u64, options: &[u8]) -> Result<u64> {
    let [kind, source, place] = names.map(|name| name.len() as u64);
    let texts = [&names.concat()[..], options].concat();
    path::make_room()?;
    let request = Request::new(&[mounts::MOUNT, kind, source, place, bits]);
    let words = request.out(&texts).brings(1).call(mounter)?;
    let mount = words[7] as u32;
    // Names that are found from a folder above lead there as well.
    let result = mount_point(names[2], Some(mount));
    gate::close(mount);
    result
}

/// Options of the file system itself, as its server has them: what ext4 is told of, and such as say what it does anyway.
pub fn options(options: &[u8], kind: &[u8]) -> Result<u64> {
    options_after(0, options, kind)
}

/// The same, after these.
fn options_after(mut bits: u64, options: &[u8], kind: &[u8]) -> Result<u64> {
    for option in options.split(|byte| *byte == b',') {
        match option {
            b"" | b"errors=remount-ro" | b"data=ordered" => {}
            b"discard" if kind == b"ext4" => bits |= mounts::mount::DISCARD,
            b"nodiscard" if kind == b"ext4" => bits &= !mounts::mount::DISCARD,
            _ => return Err(EINVAL),
        }
    }
    Ok(bits)
}

/// What is mounted there is read only from now on, or no longer; its server does it, and `init` and the table are told. Of file systems that cannot, nothing can be changed.
fn remount(flags: u64, given: &[u8], place: &[u8]) -> Result<u64> {
    let (slot, _) = path::mounted_at(place)?.ok_or(EINVAL)?;
    let now = status_flags(slot)?;
    if flags & BIND == 0 {
        if flags & !(KEPT | REMOUNT) != 0 {
            return Err(EINVAL);
        }
        // Only ext4's server can be remounted to anything.
        let discards = options(given, b"ext4")?;
        // Who says nothing of times leaves them (and statfs has the bit that mount(2) has).
        let times = match flags & (NO_ACCESS_TIMES | RELATIVE_TIMES) {
            0 => now,
            _ => flags,
        };
        let bits = bits(flags & (READ_ONLY | NO_SET_ID) | times & NO_ACCESS_TIMES) | discards;
        match remount_server(slot, place, bits) {
            // Of such files none gives ids.
            Err(EOPNOTSUPP | ENOSYS) => {}
            other => return other,
        }
    } else if flags & !now & NO_SET_ID != 0 {
        // It would have to be this name's alone.
        return Err(EINVAL);
    }
    match (now ^ flags) & READ_ONLY {
        0 => Ok(0),
        _ => Err(EINVAL),
    }
}

/// The flags of what is mounted, as statfs(2) has them.
fn status_flags(slot: u32) -> Result<u64> {
    let mut told = [0; fs::Statfs::BYTES];
    let request = Request::new(&[fs::STATFS]).input(&mut told);
    request.call(slot)?;
    Ok(fs::Statfs::from_bytes(&told).flags as u64)
}

/// A file server is as these bits of [`mounts::mount`] say, and `init` knows.
fn remount_server(slot: u32, place: &[u8], bits: u64) -> Result<u64> {
    Request::new(&[fs::REMOUNT, bits]).call(slot)?;
    let mounter = scheme(b"mount:")?;
    let request = Request::new(&[mounts::REMOUNTED, bits]).out(place);
    match request.call(mounter) {
        // What is not `init`'s (the first root) has no line that could say more.
        Ok(_) | Err(ENOENT) => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// The type of what is mounted exactly there, in the first name space.
pub fn kind_at(place: &[u8]) -> Result<Vec<u8>> {
    entry_at(place).map(|(kind, _)| kind)
}

/// Its type, and its flags in the table.
fn entry_at(place: &[u8]) -> Result<(Vec<u8>, u64)> {
    let name = place.strip_suffix(b"/").unwrap_or(place);
    let mut table = published::mounts().into_iter();
    let entry = table.find(|mount| mount.name == name).ok_or(EINVAL)?;
    let kind = entry.fstype.split(|byte| *byte == b':').next();
    Ok((kind.unwrap_or(b"").to_vec(), entry.flags))
}

/// fsconfig(2): of what is mounted there these MS_ flags change, and the options that are named; all else stays.
pub fn reconfigure(place: &[u8], flags: u64, mask: u64, given: &[u8]) -> Result<u64> {
    const STAY: u64 = READ_ONLY | NO_SET_ID | NO_ACCESS_TIMES;
    let (slot, _) = path::mounted_at(place)?.ok_or(EINVAL)?;
    let now = status_flags(slot)? & STAY;
    let (kind, table) = entry_at(place)?;
    let discards = table & mounts::mount::DISCARD;
    let discards = match given {
        b"" => discards,
        given => options_after(discards, given, &kind)?,
    };
    let wanted = now & !mask | flags & mask;
    if wanted & !STAY != 0 {
        return Err(EINVAL);
    }
    match remount_server(slot, place, bits(wanted) | discards) {
        Err(EOPNOTSUPP | ENOSYS) if wanted == now && given.is_empty() => Ok(0),
        Err(EOPNOTSUPP | ENOSYS) => Err(EINVAL),
        other => other,
    }
}

/// mount_setattr(2): is all of this so already at the place? In the first name space flags are a file system's, and no name has others.
pub fn is_so(place: &[u8], set: u64, clear: u64) -> Result<bool> {
    let (slot, _) = path::mounted_at(place)?.ok_or(EINVAL)?;
    let now = status_flags(slot)?;
    Ok(now & set == set && now & clear & !set == 0)
}

fn is_mounted(place: &[u8]) -> Result<bool> {
    path::mounted_at(place).map(|found| found.is_some())
}

/// Tell `proc`, which knows whether something is mounted there, and then the manager of the directory that it is covered.
fn announce(place: &[u8], kind: &[u8], handle: u32) -> Result<u64> {
    let mut text = place.to_vec();
    text.extend_from_slice(kind);
    let words = [proc::MOUNT, place.len() as u64, kind.len() as u64];
    let request = Request::new(&words).out(&text).pass(handle);
    request.call(linux_slot::PROC)?;
    let covered = mount_point(place, Some(handle));
    if covered.is_err() {
        let request = Request::new(&[proc::UNMOUNT]).out(place);
        let _ = request.call(linux_slot::PROC);
    }
    covered.map(|_| 0)
}

/// The file server of the folder is told what is mounted there, or that nothing is. Asked by way of the folder above: the whole name may lead to what is mounted there.
fn mount_point(place: &[u8], mount: Option<u32>) -> Result<u64> {
    let slash = place.iter().rposition(|byte| *byte == b'/').ok_or(EINVAL)?;
    let (above, name) = place.split_at(slash + 1);
    let folder = open_directory(AT_FDCWD, &path::as_seen(above)?)?;
    let on = u64::from(mount.is_some());
    let mut request = Request::new(&[fs::MOUNT_POINT, on]).out(name);
    if let Some(mount) = mount {
        request = request.pass(mount);
    }
    request.call(folder.slot()).map(|words| words[0])
}

pub fn umount2(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(1) & 0xffff_ffff;
    if flags & !(FORCE | DETACH | EXPIRE | NO_FOLLOW) != 0 {
        return Err(EINVAL);
    }
    let mut target = UserString::empty();
    target.fill(f.arg(0))?;
    let node = match flags & NO_FOLLOW {
        0 => fs::o::PATH,
        _ => fs::o::PATH | fs::o::NOFOLLOW,
    };
    let open = || open_file(AT_FDCWD, target.as_bytes(), node, 0);
    let node = spaces::open_place(AT_FDCWD, target.as_bytes(), open)?;
    privileged()?;
    // Nothing expires.
    if flags & EXPIRE != 0 {
        return Err(EINVAL);
    }
    if space::is_private() {
        return spaces::unmount(node, flags);
    }
    // A bind mount's folder calls itself by its first name, so the name as it is written comes first.
    let place = match path::as_written(target.as_bytes()) {
        Some(place) if is_mounted(&place)? => place,
        _ => path::path_of(&node)?,
    };
    // It is in no file system's way.
    drop(node);
    let (slot, is_above) = path::mounted_at(&place)?.ok_or(EINVAL)?;
    if is_above {
        return Err(EBUSY);
    }
    // A disk's server closes it and ends, and with it goes the name; of others only the name goes.
    match Request::new(&[fs::UNMOUNT]).call(slot) {
        Ok(_) => {
            let mounter = scheme(b"mount:")?;
            let request = Request::new(&[mounts::ENDED]).out(&place);
            request.call(mounter)?;
        }
        Err(EOPNOTSUPP | EINVAL | ENOSYS) => {
            let request = Request::new(&[proc::UNMOUNT]).out(&place);
            request.call(linux_slot::PROC)?;
        }
        Err(errno) => return Err(errno),
    }
    let _ = mount_point(&place, None);
    Ok(0)
}
