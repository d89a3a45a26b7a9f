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
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user::UserString;
use crate::path::{self, scheme, AT_FDCWD};
use crate::space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::{fs, mounts, proc};

/// MS_ flags of mount(2), and the number that old programs put into the upper half.
const READ_ONLY: u64 = 1;
const NO_SUID: u64 = 2;
const REMOUNT: u64 = 32;
const NO_ACCESS_TIMES: u64 = 1024;
const BIND: u64 = 4096;
const SILENT: u64 = 32768;
const RELATIVE_ACCESS_TIMES: u64 = 1 << 21;
const MAGIC_MASK: u64 = 0xffff_0000;
const MAGIC: u64 = 0xc0ed_0000;
/// What is not kept is refused.
const KEPT: u64 = READ_ONLY | NO_SUID | NO_ACCESS_TIMES | SILENT | RELATIVE_ACCESS_TIMES;
/// Of umount2.
const FORCE: u64 = 1;
const DETACH: u64 = 2;
const EXPIRE: u64 = 4;
const NO_FOLLOW: u64 = 8;

pub fn privileged() -> Result<()> {
    if process().is_capable(SYS_ADMIN) {
        Ok(())
    } else {
        Err(EPERM)
    }
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
        let target = open_file(AT_FDCWD, target.as_bytes(), fs::o::PATH, 0)?;
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

    /// The type of a new file system.
    pub fn kind(&self) -> Result<&[u8]> {
        let kind = self.kind.as_deref().ok_or(EINVAL)?;
        match TYPES.contains(&kind) {
            true => Ok(kind),
            false => Err(ENODEV),
        }
    }

    pub fn must_be_directory(&self) -> Result<()> {
        let directory = self.target.is(fs::kind::DIRECTORY);
        match directory || self.target.mode & fs::s::IFMT == fs::s::IFDIR {
            true => Ok(()),
            false => Err(ENOTDIR),
        }
    }
}

/// A text that may be absent; one that is too long is EINVAL.
fn text(address: u64) -> Result<Option<Vec<u8>>> {
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
        return remount(&asked, &path::path_of(&asked.target)?);
    }
    if asked.flags & BIND != 0 {
        asked.must_be_directory()?;
        let handle = open_rooted(&*open_directory(AT_FDCWD, &asked.source)?)?;
        return announce(&path::path_of(&asked.target)?, b"none", handle.slot());
    }
    match asked.kind()? {
        // They are mounted already where they belong; mounting them there again changes nothing.
        b"proc" | b"devtmpfs" | b"devpts" | b"sysfs" => {
            match is_mounted(&path::path_of(&asked.target)?)? {
                true => Err(EBUSY),
                false => Err(ENODEV),
            }
        }
        kind @ (b"tmpfs" | b"cgroup2") => in_memory(&asked, kind),
        kind => disk(&asked, kind),
    }
}

/// A file system on a disk. Its server is `init`'s to start.
fn disk(asked: &Asked, kind: &[u8]) -> Result<u64> {
    let mounter = scheme(b"mount:").map_err(|_| ENODEV)?;
    let flags = asked.flags;
    if flags & !KEPT != 0 {
        return Err(EINVAL);
    }
    let discards = options(&asked.options, kind)?;
    let node = open_file(AT_FDCWD, &asked.source, fs::o::PATH, 0)?;
    if node.mode & fs::s::IFMT != fs::s::IFBLK {
        return Err(ENOTBLK);
    }
    let path = path::path_of(&node)?;
    let device = path.strip_prefix(b"/dev/").ok_or(ENXIO)?;
    asked.must_be_directory()?;
    let place = path::path_of(&asked.target)?;
    if is_mounted(&place)? {
        return Err(EBUSY);
    }
    start_server(mounter, [kind, device, &place], bits(flags) | discards, b"")
}

/// A file system in memory, whose server `init` starts as well; its options are that server's.
fn in_memory(asked: &Asked, kind: &[u8]) -> Result<u64> {
    let mounter = scheme(b"mount:").map_err(|_| ENODEV)?;
    let flags = asked.flags;
    if flags & !(NO_SUID | SILENT | RELATIVE_ACCESS_TIMES) != 0 {
        return Err(EINVAL);
    }
    asked.must_be_directory()?;
    let place = path::path_of(&asked.target)?;
    if is_mounted(&place)? {
        return Err(EBUSY);
    }
    let source = match &asked.source[..] {
        b"" => b"none",
        source => source,
    };
    let names = [kind, source, &place];
    start_server(mounter, names, bits(flags & NO_SUID), &asked.options)
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
fn options(options: &[u8], kind: &[u8]) -> Result<u64> {
    let mut bits = 0;
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
fn remount(asked: &Asked, place: &[u8]) -> Result<u64> {
    let flags = asked.flags;
    let (slot, _) = path::mounted_at(place)?.ok_or(EINVAL)?;
    let mut told = [0; fs::Statfs::BYTES];
    let request = Request::new(&[fs::STATFS]).input(&mut told);
    request.call(slot)?;
    let now = fs::Statfs::from_bytes(&told).flags as u64;
    if flags & BIND == 0 {
        if flags & !(KEPT | REMOUNT) != 0 {
            return Err(EINVAL);
        }
        // Only ext4's server can be remounted to anything.
        let discards = options(&asked.options, b"ext4")?;
        // Who says nothing of times leaves them (and statfs has the bit that mount(2) has).
        let times = match flags & (NO_ACCESS_TIMES | RELATIVE_ACCESS_TIMES) {
            0 => now,
            _ => flags,
        };
        let bits = bits(flags & (READ_ONLY | NO_SUID) | times & NO_ACCESS_TIMES) | discards;
        match Request::new(&[fs::REMOUNT, bits]).call(slot) {
            Ok(_) => {
                let mounter = scheme(b"mount:")?;
                let request = Request::new(&[mounts::REMOUNTED, bits]).out(place);
                return match request.call(mounter) {
                    // What is not `init`'s (the first root) has no line that could say more.
                    Ok(_) | Err(ENOENT) => Ok(0),
                    Err(errno) => Err(errno),
                };
            }
            // Of such files none gives ids.
            Err(EOPNOTSUPP | ENOSYS) => {}
            Err(errno) => return Err(errno),
        }
    } else if flags & !now & NO_SUID != 0 {
        // It would have to be this name's alone.
        return Err(EINVAL);
    }
    match (now ^ flags) & READ_ONLY {
        0 => Ok(0),
        _ => Err(EINVAL),
    }
}

/// As file servers and `init` have them.
fn bits(flags: u64) -> u64 {
    let mut bits = 0;
    for (flag, bit) in [
        (READ_ONLY, mounts::mount::READ_ONLY),
        (NO_ACCESS_TIMES, mounts::mount::NO_ACCESS_TIMES),
        (NO_SUID, mounts::mount::NO_SET_ID),
    ] {
        bits |= if flags & flag != 0 { bit } else { 0 };
    }
    bits
}

fn is_mounted(place: &[u8]) -> Result<bool> {
    path::mounted_at(place).map(|found| found.is_some())
}

/// Tell the manager of the directory that it is covered, then `proc`.
fn announce(place: &[u8], kind: &[u8], handle: u32) -> Result<u64> {
    mount_point(place, Some(handle))?;
    let mut text = place.to_vec();
    text.extend_from_slice(kind);
    let words = [proc::MOUNT, place.len() as u64, kind.len() as u64];
    let result = Request::new(&words)
        .out(&text)
        .pass(handle)
        .call(linux_slot::PROC);
    if result.is_err() {
        let _ = mount_point(place, None);
    }
    result.map(|_| 0)
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
    let node = open_file(AT_FDCWD, target.as_bytes(), node, 0)?;
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
