//! open_tree, move_mount, mount_setattr: mounts by descriptors, also such as have no place yet.
//!
//! In a mount name space of the process's own, a mount without a place is a handle (`fs::BIND`) that no name leads to. It is gone with its last descriptor, as
//! the file server sees to that. What it
//! and the mounts in it will be called stands with it (`fs::MOUNT_TEXT`), as entries of the table of mounts; a mount that has a place has no such text.
//! In the first name space there is a folder's handle only, which move_mount puts where `mount --bind` would, and what is to be mounted by move_mount
//! ([`super::contexts`]).

use super::contexts;
use super::handles::named;
use super::mounts::{self, must_be_directory, privileged};
use super::open::{descriptor, open_from, open_rooted, zero_beyond};
use super::spaces::{self, Fresh};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{
    Result, E2BIG, EBADF, EBUSY, EINVAL, ELOOP, ENAMETOOLONG, ENOENT, ENOMEM, ERANGE,
};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::{self, UserString};
use crate::mount_flags::{
    self, NO_ACCESS_TIMES, NO_DIRECTORY_TIMES, NO_SYMLINKS, PROPAGATION, RELATIVE_TIMES, SHARED,
    STRICT_TIMES, TIMES,
};
use crate::nearest::Nearest;
use crate::path;
use crate::space::{self, Mount, Site, Turn};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_idl::fs::{self, at, o, s, Prefix, TextUse, MOUNT_TEXT_MAX};

/// OPEN_TREE_CLONE; OPEN_TREE_CLOEXEC is O_CLOEXEC.
const CLONE: u64 = 1;
/// Beside [`at`].
const NO_AUTOMOUNT: u64 = 0x800;
const RECURSIVE: u64 = 0x8000;
/// Names in entries.
const NAME_MOST: usize = 63;

pub fn open_tree(f: &mut Frame) -> Result<u64> {
    const HOW: u64 = at::SYMLINK_NOFOLLOW | at::EMPTY_PATH | NO_AUTOMOUNT | RECURSIVE;
    let flags = f.arg(2) & 0xffff_ffff;
    let alone = flags & (RECURSIVE | CLONE) == RECURSIVE;
    if flags & !(HOW | CLONE | o::CLOEXEC) != 0 || alone {
        return Err(EINVAL);
    }
    if flags & CLONE != 0 {
        privileged()?;
    }
    process().state().files.check_room()?;
    let (follow, empty) = (
        flags & at::SYMLINK_NOFOLLOW == 0,
        flags & at::EMPTY_PATH != 0,
    );
    let file = named(f.arg(0) as i32, f.arg(1), follow, empty)?;
    let file = match flags & CLONE {
        // (What an empty name leads to is the descriptor's own open file.)
        0 => open_from(file, b"", o::PATH, 0)?,
        _ => copy(&file, flags & RECURSIVE != 0)?,
    };
    descriptor(file, flags)
}

/// The mount that a bind mount would make, without a place.
fn copy(source: &Arc<OpenFile>, all: bool) -> Result<Arc<OpenFile>> {
    if !space::is_private() {
        let mut file = match must_be_directory(source) {
            Ok(()) => open_rooted(source)?,
            Err(_) => open_from(source.clone(), b"", o::PATH, 0)?,
        };
        if let Some(file) = Arc::get_mut(&mut file) {
            file.kind |= event_kind::TREE;
        }
        return Ok(file);
    }
    let turn = Turn::take()?;
    let made = match spaces::copies(source, all, None) {
        // It lies in no mount that has a place here.
        Err(ENOENT) => return Err(EINVAL),
        made => made?,
    };
    drop(turn);
    without_place(&made)
}

/// The first of these mounts as a descriptor has it, with the others in it, by what they are called below it.
pub fn without_place(made: &[(Vec<u8>, Fresh)]) -> Result<Arc<OpenFile>> {
    let (_, first) = made.first().ok_or(EINVAL)?;
    let mut text = Vec::new();
    let bytes = made.len() * size_of::<Prefix>();
    text.try_reserve_exact(bytes).map_err(|_| ENOMEM)?;
    for (name, new) in made {
        text.extend_from_slice(&new.called(name).entry()?);
    }
    join(made)?;
    put_text(&first.file, &text)?;
    Ok(first.file.clone())
}

/// The others are mounted in the first one, each in the one above.
pub fn join(made: &[(Vec<u8>, Fresh)]) -> Result<()> {
    let mut all = Nearest::default();
    for (name, new) in made {
        if let Some((length, slot)) = all.above(name) {
            let place = (new.number, new.file.slot());
            space::cover(*slot, &name[length..], place)?;
        }
        all.put(name.clone(), new.file.slot());
    }
    Ok(())
}

fn put_text(file: &OpenFile, text: &[u8]) -> Result<()> {
    let words = [fs::MOUNT_TEXT, TextUse::Set.word()];
    let request = Request::new(&words).out(text);
    request.call(file.slot()).map(|_| ())
}

/// The text of a mount that has no place yet, and its flags; with TAKE it has none any more. Empty: it has a place, or had one.
fn text(file: &OpenFile, what: TextUse) -> Result<(Vec<u8>, u64)> {
    let mut bytes = Vec::new();
    loop {
        let words = [fs::MOUNT_TEXT, TextUse::Get.word()];
        let [length, ..] = Request::new(&words).call(file.slot())?;
        let room = length.min(MOUNT_TEXT_MAX as u64) as usize;
        bytes.try_reserve_exact(room).map_err(|_| ENOMEM)?;
        bytes.resize(room, 0);
        if room == 0 {
            return Ok((bytes, 0));
        }
        let request = Request::new(&[fs::MOUNT_TEXT, what.word()]);
        match request.input(&mut bytes).call(file.slot()) {
            Ok([length, flags, ..]) => {
                bytes.truncate(length.min(room as u64) as usize);
                return Ok((bytes, flags));
            }
            // It has become longer.
            Err(ERANGE) => bytes.clear(),
            Err(errno) => return Err(errno),
        }
    }
}

/// What a mount and those in it will be called; EINVAL: it has a place, or had one.
fn told_by((bytes, flags): &(Vec<u8>, u64)) -> Result<Vec<Mount>> {
    let mut mounts = space::entries(bytes);
    // Of its own flags the server knows best.
    mounts.first_mut().ok_or(EINVAL)?.flags = *flags;
    Ok(mounts)
}

/// The number of the mount that this is the root of.
pub fn root_of(file: &OpenFile) -> Result<u32> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    match space::within(file) {
        Ok((number, path)) if path.is_empty() => Ok(number),
        Err(EBADF) => Err(EBADF),
        // It has a longer path, or none.
        _ => Err(EINVAL),
    }
}

/// A mount of the process's name space.
pub fn numbered(number: u32) -> Option<Mount> {
    let state = process().state();
    let space = state.space.as_ref()?;
    space.numbered(number).cloned()
}

/// Flags of move_mount(2): of the old name, and of the new one; MOVE_MOUNT_SET_GROUP.
mod how {
    pub const OLD_SYMLINKS: u64 = 1;
    pub const OLD_EMPTY: u64 = 4;
    pub const NEW_SYMLINKS: u64 = 0x10;
    pub const NEW_EMPTY: u64 = 0x40;
    pub const SET_GROUP: u64 = 0x100;
    pub const ALL: u64 = 0x177;
}

pub fn move_mount(f: &mut Frame) -> Result<u64> {
    privileged()?;
    let flags = f.arg(4) & 0xffff_ffff;
    if flags & !how::ALL != 0 {
        return Err(EINVAL);
    }
    let is = |bit| flags & bit != 0;
    let from = (is(how::OLD_SYMLINKS), is(how::OLD_EMPTY));
    let from = named(f.arg(0) as i32, f.arg(1), from.0, from.1)?;
    let to = (is(how::NEW_SYMLINKS), is(how::NEW_EMPTY));
    let mut name = UserString::empty();
    name.fill(f.arg(3))?;
    let dirfd = f.arg(2) as i32;
    let to = spaces::open_place(dirfd, name.as_bytes(), || {
        named(dirfd, f.arg(3), to.0, to.1)
    })?;
    // Mounts of the same group would be shared ones, which there are not.
    if is(how::SET_GROUP) {
        return Err(EINVAL);
    }
    // Of these move_mount makes a mount.
    let (new, tree) = (from.is(event_kind::CONTEXT), from.is(event_kind::TREE));
    if new || tree && !space::is_private() {
        let both = must_be_directory(&to).and_then(|()| match new {
            true => Ok(()),
            false => must_be_directory(&from),
        });
        both.map_err(|_| EINVAL)?;
        return match new {
            true => contexts::put(&from, &to),
            false => mounts::put(&from, &to),
        };
    }
    go(&from, &to)
}

/// A mount goes to another place, or to its first one.
pub fn go(from: &Arc<OpenFile>, to: &Arc<OpenFile>) -> Result<u64> {
    if !space::is_private() {
        return Err(EINVAL);
    }
    let _turn = Turn::take()?;
    let number = root_of(from)?;
    let site = Site::of(to);
    let site = site.map_err(|errno| if errno == ENOENT { EINVAL } else { errno })?;
    let is_directory = |file: &OpenFile| file.mode & s::IFMT == s::IFDIR;
    if is_directory(from) != is_directory(to) {
        return Err(EINVAL);
    }
    match numbered(number) {
        Some(mount) => shift(&mount, from, &site),
        None => attach(from, number, &site),
    }
}

/// From its place to another one. Whatever fails, all is as it was; what has begun and does not end leaves it at both places, and no name that leads nowhere.
fn shift(mount: &Mount, file: &OpenFile, site: &Site) -> Result<u64> {
    if mount.name.is_empty() {
        return Err(EINVAL);
    }
    if site.place.is_empty() {
        return Err(ELOOP);
    }
    let number = mount.number;
    let (old, name) = space::spot(number)?;
    space::name(number, &site.place, b"", 0)?;
    let covered = space::cover(site.file.slot(), b"", (number, file.slot()));
    let gone = covered.and_then(|()| {
        // (It may be one that stays where it is.)
        space::uncover(old.slot(), &name, number).inspect_err(|_| {
            let _ = space::uncover(site.file.slot(), b"", number);
        })
    });
    if let Err(errno) = gone {
        let _ = space::name(number, &mount.name, b"", 0);
        return Err(errno);
    }
    space::is_private();
    Ok(0)
}

/// To its first place, with the mounts in it. Of two who do it at a time one has its text.
fn attach(file: &Arc<OpenFile>, number: u32, site: &Site) -> Result<u64> {
    let fits = told_by(&text(file, TextUse::Get)?)?;
    let long = |mount: &Mount| site.place.len() + mount.name.len() > NAME_MOST;
    if fits.iter().any(long) {
        return Err(ENAMETOOLONG);
    }
    let taken = text(file, TextUse::Take)?;
    let mounts = told_by(&taken)?;
    let settled = settle(&mounts, number, file, site);
    if settled.is_err() {
        let _ = put_text(file, &taken.0);
    }
    settled
}

/// A mount that has no place, and those in it, have names from this place on; and it lies there. Whatever fails, it has no place.
pub fn settle(mounts: &[Mount], number: u32, file: &Arc<OpenFile>, site: &Site) -> Result<u64> {
    let place = &site.place[..];
    if place.is_empty() {
        return Err(EBUSY);
    }
    let (first, inner) = mounts.split_first().ok_or(EINVAL)?;
    let called = |number, mount: &Mount| {
        let name = [place, &mount.name].concat();
        space::name(number, &name, &mount.fstype, mount.flags)
    };
    called(number, first)?;
    let named = inner
        .iter()
        .try_for_each(|mount| called(mount.number, mount));
    let here = (number, file.slot());
    let lies = named.and_then(|()| space::cover(site.file.slot(), b"", here));
    if let Err(errno) = lies {
        let _ = space::forget(number);
        return Err(errno);
    }
    if space::is_private() {
        space::keep(number, file);
    }
    Ok(0)
}

/// MOUNT_ATTR_ bits.
mod attr {
    pub const PLAIN: u64 = 15;
    pub const TIMES: u64 = 0x70;
    pub const NO_ACCESS_TIMES: u64 = 0x10;
    pub const STRICT_TIMES: u64 = 0x20;
    pub const NO_DIRECTORY_TIMES: u64 = 0x80;
    pub const IDMAP: u64 = 0x10_0000;
    pub const NO_SYMLINKS: u64 = 0x20_0000;
    pub const ALL: u64 = PLAIN | TIMES | NO_DIRECTORY_TIMES | NO_SYMLINKS;
}
/// The MS_ flags of MOUNT_ATTR_ ones, of which one kind of times is asked for.
pub fn flags_of(attributes: u64) -> Result<u64> {
    if attributes & !attr::ALL != 0 {
        return Err(EINVAL);
    }
    let times = match attributes & attr::TIMES {
        0 => RELATIVE_TIMES,
        attr::NO_ACCESS_TIMES => NO_ACCESS_TIMES,
        attr::STRICT_TIMES => STRICT_TIMES,
        _ => return Err(EINVAL),
    };
    Ok(times | plain_flags_of(attributes))
}

/// Of all but times.
fn plain_flags_of(attributes: u64) -> u64 {
    let mut flags = attributes & attr::PLAIN;
    for (bit, flag) in [
        (attr::NO_DIRECTORY_TIMES, NO_DIRECTORY_TIMES),
        (attr::NO_SYMLINKS, NO_SYMLINKS),
    ] {
        flags |= if attributes & bit != 0 { flag } else { 0 };
    }
    flags
}

/// What mount_setattr(2) asks for, as MS_ flags.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    pub set: u64,
    pub clear: u64,
}

impl Change {
    /// `struct mount_attr`: set, clear, propagation, and the user name space of an id-mapped mount.
    fn of([set, clear, propagation, _]: [u64; 4]) -> Result<Change> {
        let known = attr::ALL | attr::IDMAP;
        let kinds = propagation.count_ones();
        if propagation & !PROPAGATION != 0 || kinds > 1 || (set | clear) & !known != 0 {
            return Err(EINVAL);
        }
        let times = match (set & attr::TIMES, clear & attr::TIMES) {
            (0, 0) => [0, 0],
            (_, attr::TIMES) => {
                let times = flags_of(set & attr::TIMES)?;
                [times, TIMES]
            }
            _ => return Err(EINVAL),
        };
        Ok(Change {
            set: plain_flags_of(set) | times[0],
            clear: plain_flags_of(clear) | times[1],
        })
    }

    /// Bits of `mounts::mount` as they are after it.
    fn after(&self, bits: u64) -> u64 {
        bits & !mount_flags::bits(self.clear) | mount_flags::bits(self.set)
    }

    /// MS_ flags.
    pub fn flags_after(&self, flags: u64) -> u64 {
        flags & !self.clear | self.set
    }
}

pub fn mount_setattr(f: &mut Frame) -> Result<u64> {
    const KNOWN: u64 = at::SYMLINK_NOFOLLOW | at::EMPTY_PATH | NO_AUTOMOUNT | RECURSIVE;
    const SIZE: u64 = 32;
    let (flags, size) = (f.arg(2) & 0xffff_ffff, f.arg(4));
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    if size > PAGE {
        return Err(E2BIG);
    }
    if size < SIZE {
        return Err(EINVAL);
    }
    privileged()?;
    zero_beyond(f.arg(3), SIZE, size)?;
    let asked = user::read::<[u64; 4]>(f.arg(3))?;
    let [set, clear, propagation, mapping] = asked;
    if (set, clear, propagation) == (0, 0, 0) {
        return Ok(0);
    }
    let change = Change::of(asked)?;
    let idmap = set & attr::IDMAP != 0;
    if clear & attr::IDMAP != 0 {
        return Err(EINVAL);
    }
    if idmap {
        may_map(mapping)?;
    }
    let (follow, empty) = (
        flags & at::SYMLINK_NOFOLLOW == 0,
        flags & at::EMPTY_PATH != 0,
    );
    let file = named(f.arg(0) as i32, f.arg(1), follow, empty)?;
    // No file system can map ids, nothing is shared, and no mount keeps from following symbolic links.
    if idmap || propagation == SHARED || change.set & NO_SYMLINKS != 0 {
        return Err(EINVAL);
    }
    if file.is(event_kind::CONTEXT) {
        return contexts::change_flags(&file, &change).map(|()| 0);
    }
    if !space::is_private() {
        return change_first(&file, &change).map(|()| 0);
    }
    let _turn = Turn::take()?;
    let number = root_of(&file)?;
    let all = flags & RECURSIVE != 0;
    match numbered(number) {
        Some(mount) => change_placed(&mount, all, &change),
        None => change_unplaced(&file, all, &change),
    }?;
    Ok(0)
}

/// The descriptor of a user name space for an id-mapped mount; the process's own cannot be.
fn may_map(descriptor: u64) -> Result<()> {
    const NEW_USER: u64 = 0x1000_0000;
    const KIND: u64 = fs::NS_GET_NSTYPE;
    if descriptor > i32::MAX as u64 {
        return Err(EINVAL);
    }
    let file = super::io::usable(descriptor)?;
    if file.object.is_some() {
        return Err(EINVAL);
    }
    let kind = Request::new(&[fs::IOCTL, KIND, 0]).call(file.slot());
    match kind.map_err(|_| EINVAL)? {
        [NEW_USER, ..] => Ok(()),
        _ => Err(EINVAL),
    }
}

/// In the first name space flags are a file system's: what is asked for must be so already.
fn change_first(file: &OpenFile, change: &Change) -> Result<()> {
    const KEPT: u64 = attr::PLAIN | NO_ACCESS_TIMES;
    if file.is(event_kind::TREE) {
        return Err(EINVAL);
    }
    let place = path::path_of(file)?;
    match mounts::is_so(&place, change.set & KEPT, change.clear & KEPT)? {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

/// A mount of the name space and, if `all`, those below it. If one cannot be changed none is.
fn change_placed(mount: &Mount, all: bool, change: &Change) -> Result<()> {
    let mut mounts = alloc::vec![mount.clone()];
    if all {
        let state = process().state();
        let space = state.space.as_ref().ok_or(EINVAL)?;
        let is_seen = space
            .at(&mount.name)
            .is_some_and(|m| m.number == mount.number);
        mounts.extend(space.below(&mount.name).filter(|_| is_seen).cloned());
    }
    for (at, mount) in mounts.iter().enumerate() {
        if let Err(errno) = spaces::change(mount, change.after(mount.flags)) {
            for mount in &mounts[..at] {
                let _ = spaces::change(mount, mount.flags);
            }
            return Err(errno);
        }
    }
    space::is_private();
    Ok(())
}

/// The same of mounts that have no place.
fn change_unplaced(file: &Arc<OpenFile>, all: bool, change: &Change) -> Result<()> {
    let told = text(file, TextUse::Get)?;
    let mut mounts = told_by(&told)?;
    if !all {
        mounts.truncate(1);
    }
    let mut above: Nearest<Arc<OpenFile>> = Nearest::default();
    above.put(Vec::new(), file.clone());
    let mut handles = alloc::vec![file.clone()];
    for mount in &mounts[1..] {
        let (length, slot) = match above.above(&mount.name) {
            Some((length, file)) => (length, file.slot()),
            None => return Err(EINVAL),
        };
        let (_, file) = space::mounted(slot, &mount.name[length..])?;
        path::grow_for(handles.len())?;
        above.put(mount.name.clone(), file.clone());
        handles.push(file);
    }
    let bound = |bits: u64, file: &OpenFile| {
        let request = Request::new(&[fs::BOUND, bits]);
        request.call(file.slot()).map(|_| ())
    };
    for (at, mount) in mounts.iter().enumerate() {
        if let Err(errno) = bound(change.after(mount.flags), &handles[at]) {
            for (mount, file) in mounts[..at].iter().zip(&handles) {
                let _ = bound(mount.flags, file);
            }
            return Err(errno);
        }
    }
    let mut text = Vec::new();
    for mut mount in told_by(&told)? {
        if mounts.iter().any(|changed| changed.number == mount.number) {
            mount.flags = change.after(mount.flags);
        }
        text.extend_from_slice(&mount.entry()?);
    }
    put_text(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::mounts::mount;

    #[test]
    fn attributes_are_flags_of_mount() {
        assert_eq!(flags_of(0), Ok(RELATIVE_TIMES));
        assert_eq!(flags_of(1 | 8 | 0x10), Ok(1 | 8 | NO_ACCESS_TIMES));
        assert_eq!(flags_of(0x20 | 0x80), Ok(STRICT_TIMES | NO_DIRECTORY_TIMES));
        assert_eq!(flags_of(0x30), Err(EINVAL));
        assert_eq!(flags_of(0x10_0000), Err(EINVAL));
        assert_eq!(flags_of(1 << 40), Err(EINVAL));
    }

    #[test]
    fn times_are_changed_as_a_whole() {
        let of = |set, clear| Change::of([set, clear, 0, 0]);
        assert_eq!(of(0x10, 0), Err(EINVAL));
        assert_eq!(of(0, 0x10), Err(EINVAL));
        assert_eq!(of(0x30, 0x70), Err(EINVAL));
        let change = of(0x10 | 1, 0x70 | 2).unwrap();
        let before = mount::NO_SET_ID | mount::NO_DEVICES;
        let after = mount::READ_ONLY | mount::NO_ACCESS_TIMES | mount::NO_DEVICES;
        assert_eq!(change.after(before), after);
        let change = of(0, 0x70).unwrap();
        assert_eq!(change.after(mount::NO_ACCESS_TIMES), 0);
        assert_eq!(Change::of([0, 0, 1 << 18 | 1 << 19, 0]), Err(EINVAL));
        assert_eq!(Change::of([0, 0, 1, 0]), Err(EINVAL));
        assert!(Change::of([0, 0, 1 << 18, 0]).is_ok());
    }
}
