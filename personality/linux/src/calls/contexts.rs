//! fsopen, fsconfig, fsmount, fspick: a file system is made, or changed, step by step. What is asked for is done by what mount(2) does.
//!
//! A context is an object of the event server, which keeps its text ([`crate::setup`]): it is inherited, passed and closed as other open files.
//! In a mount name space of the process's own, fsmount makes a mount without a place ([`super::trees`]). In the first one mounting is `init`'s, and needs a
//! place: there fsmount gives an object that
//! says what is to be mounted, and move_mount mounts it.

use super::handles::named;
use super::io::usable;
use super::mounts::{self, known_kind, privileged, FileSystem, Mounter};
use super::open::descriptor;
use super::spaces;
use super::trees::{self, flags_of, Change};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{
    Result, EAGAIN, EBUSY, EFAULT, EINVAL, EMSGSIZE, ENODATA, ENODEV, ENOENT, EOPNOTSUPP,
};
use crate::event::MANAGER;
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::{self, UserRange, UserString};
use crate::path::{self, AT_FDCWD};
use crate::setup::{Phase, Setup, Value};
use crate::space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::event::{self as idl, CONTEXT_MAX};
use cairn_idl::fs::o;

/// FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC, FSPICK_CLOEXEC.
const CLOEXEC: u64 = 1;
/// Bytes of a key or value, with its NUL.
const TEXT_MOST: u64 = 256;
/// Bytes of FSCONFIG_SET_BINARY.
const BINARY_MOST: i64 = 1024 * 1024;

fn close_on_exec(flags: u64) -> u64 {
    match flags & CLOEXEC {
        0 => 0,
        _ => o::CLOEXEC,
    }
}

/// The descriptor of a new object with this text.
fn make(setup: &Setup, flags: u64) -> Result<u64> {
    process().state().files.check_room()?;
    descriptor(object(setup)?, close_on_exec(flags))
}

fn object(setup: &Setup) -> Result<Arc<OpenFile>> {
    path::make_room()?;
    let text = setup.encode()?;
    let request = Request::new(&[idl::CONTEXT]).out(&text).brings(1);
    let words = request.call(path::scheme(MANAGER)?)?;
    let file = OpenFile::portal(words[7] as u32, event_kind::CONTEXT, 0o600);
    Ok(Arc::new(file))
}

/// The text as it is, and its version.
fn text_of(file: &OpenFile) -> Result<(Setup, u64)> {
    let mut bytes = alloc::vec![0; CONTEXT_MAX];
    let request = Request::new(&[idl::CONTEXT_TEXT, 0]).input(&mut bytes);
    let [length, version, ..] = request.call(file.slot())?;
    bytes.truncate(length as usize);
    Ok((Setup::decode(&bytes)?, version))
}

/// Change the text, also if that is refused: it may say why. If somebody else changed it meanwhile, once more.
fn change<T>(file: &OpenFile, mut how: impl FnMut(&mut Setup) -> Result<T>) -> Result<T> {
    loop {
        let (before, version) = text_of(file)?;
        let mut setup = before.clone();
        let result = how(&mut setup);
        if setup == before {
            return result;
        }
        let text = setup.encode()?;
        let request = Request::new(&[idl::CONTEXT_TEXT, 1, version]).out(&text);
        match request.call(file.slot()) {
            Ok(_) => return result,
            Err(EAGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The descriptor of a context.
fn context(argument: u64) -> Result<Arc<OpenFile>> {
    let file = usable(argument)?;
    match file.is(event_kind::CONTEXT) {
        true => Ok(file),
        false => Err(EINVAL),
    }
}

pub fn fsopen(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(1) & 0xffff_ffff;
    privileged()?;
    if flags & !CLOEXEC != 0 {
        return Err(EINVAL);
    }
    let kind = mounts::text(f.arg(0))?.ok_or(EFAULT)?;
    make(&Setup::new(Phase::Parameters, known_kind(&kind)?), flags)
}

pub fn fspick(f: &mut Frame) -> Result<u64> {
    /// FSPICK_SYMLINK_NOFOLLOW, FSPICK_NO_AUTOMOUNT, FSPICK_EMPTY_PATH.
    const NO_FOLLOW: u64 = 2;
    const NO_AUTOMOUNT: u64 = 4;
    const EMPTY: u64 = 8;
    let flags = f.arg(2) & 0xffff_ffff;
    privileged()?;
    if flags & !(CLOEXEC | NO_FOLLOW | NO_AUTOMOUNT | EMPTY) != 0 {
        return Err(EINVAL);
    }
    let (follow, empty) = (flags & NO_FOLLOW == 0, flags & EMPTY != 0);
    let file = named(f.arg(0) as i32, f.arg(1), follow, empty)?;
    let mut setup = Setup::new(Phase::Changes, b"");
    if space::is_private() {
        (setup.space, setup.number) = (space::id(), trees::root_of(&file)?);
        let mount = trees::numbered(setup.number);
        setup.kind = mount.map_or(Vec::new(), |mount| mount.fstype);
    } else {
        setup.place = path::path_of(&file)?;
        setup.kind = mounts::kind_at(&setup.place)?;
    }
    make(&setup, flags)
}

/// FSCONFIG_ commands.
mod command {
    pub const SET_FLAG: u64 = 0;
    pub const SET_STRING: u64 = 1;
    pub const SET_BINARY: u64 = 2;
    pub const SET_PATH: u64 = 3;
    pub const SET_PATH_EMPTY: u64 = 4;
    pub const SET_FD: u64 = 5;
    pub const CREATE: u64 = 6;
    pub const RECONFIGURE: u64 = 7;
}

pub fn fsconfig(f: &mut Frame) -> Result<u64> {
    use command::*;
    let (fd, command) = (f.arg(0) as i32, f.arg(1) & 0xffff_ffff);
    let (key, value, aux) = (f.arg(2), f.arg(3), i64::from(f.arg(4) as i32));
    if fd < 0 {
        return Err(EINVAL);
    }
    let (has_key, has_value) = (key != 0, value != 0);
    let wrong = match command {
        SET_FLAG => !has_key || has_value || aux != 0,
        SET_STRING => !has_key || !has_value || aux != 0,
        SET_BINARY => !has_key || !has_value || aux <= 0 || aux > BINARY_MOST,
        SET_PATH | SET_PATH_EMPTY => {
            !has_key || !has_value || aux != i64::from(AT_FDCWD) && aux < 0
        }
        SET_FD => !has_key || has_value || aux < 0,
        CREATE | RECONFIGURE => has_key || has_value || aux != 0,
        _ => return Err(EOPNOTSUPP),
    };
    if wrong {
        return Err(EINVAL);
    }
    let file = context(f.arg(0))?;
    match command {
        CREATE => return create(&file),
        RECONFIGURE => return reconfigure(&file),
        SET_FLAG | SET_STRING => {}
        // The types that Linux gives whole texts of options.
        _ => {
            let kind = text_of(&file)?.0.kind;
            if let b"vfat" | b"iso9660" | b"devpts" = &kind[..] {
                return Err(EOPNOTSUPP);
            }
        }
    }
    let mut name = Vec::new();
    user::append_string(&mut name, key, TEXT_MOST, EINVAL)?;
    let mut text = Vec::new();
    let value = match command {
        SET_FLAG => Value::Flag,
        SET_STRING => {
            user::append_string(&mut text, value, TEXT_MOST, EINVAL)?;
            Value::Text(&text)
        }
        _ => {
            look_at(command, value, aux)?;
            Value::Other
        }
    };
    change(&file, |setup| {
        match setup.phase {
            Phase::Parameters | Phase::Changes => {}
            _ => return Err(EBUSY),
        }
        setup.set(&name, value, takes)
    })?;
    Ok(0)
}

/// What a parameter is that no file system takes is looked at all the same.
fn look_at(command: u64, value: u64, aux: i64) -> Result<()> {
    match command {
        command::SET_BINARY => {
            let range = user::range(value, aux as u64)?;
            match user::touch(range, false) {
                true => Ok(()),
                false => Err(EFAULT),
            }
        }
        command::SET_FD => super::io::file(aux as u64).map(|_| ()),
        _ => {
            let mut name = UserString::empty();
            name.fill(value)?;
            match name.as_bytes().is_empty() && command == command::SET_PATH {
                true => Err(ENOENT),
                false => Ok(()),
            }
        }
    }
}

/// Options that a type has; what they are worth its server says.
fn takes(kind: &[u8], option: &[u8]) -> bool {
    match kind {
        b"cgroup2" => true,
        b"ext4" | b"vfat" | b"iso9660" => mounts::options(option, kind).is_ok(),
        _ => false,
    }
}

fn file_system(setup: &Setup) -> FileSystem<'_> {
    FileSystem {
        kind: &setup.kind,
        source: setup.source.as_deref().unwrap_or(b""),
        flags: setup.flags,
        options: &setup.options,
    }
}

/// FSCONFIG_CMD_CREATE: what is asked for could be mounted.
fn create(file: &OpenFile) -> Result<u64> {
    change(file, |setup| {
        setup.must_be(Phase::Parameters)?;
        privileged()?;
        let (asked, needs_source) = (file_system(setup), is_on_disk(&setup.kind));
        let missing = needs_source && setup.source.is_none();
        let made = match space::is_private() {
            true => spaces::checked(&asked).map(|_| ()),
            false if missing => Err(EINVAL),
            false => mounts::checked(&asked).map(|_| ()),
        };
        if missing {
            setup.say(&[b"No source specified"]);
        }
        setup.phase = match made {
            Ok(()) => Phase::Made,
            Err(_) => Phase::NotMade,
        };
        made
    })?;
    Ok(0)
}

fn is_on_disk(kind: &[u8]) -> bool {
    matches!(kind, b"ext4" | b"vfat" | b"iso9660")
}

/// FSCONFIG_CMD_RECONFIGURE
fn reconfigure(file: &OpenFile) -> Result<u64> {
    // Nobody else does it meanwhile.
    let asked = change(file, |setup| {
        setup.must_be(Phase::Changes)?;
        privileged()?;
        let asked = setup.clone();
        setup.phase = Phase::NotChanged;
        Ok(asked)
    })?;
    let done = match space::is_private() {
        true => asked.mount_in(space::id()).and_then(|number| {
            spaces::reconfigure(number, asked.flags, asked.mask, &asked.options)
        }),
        false if asked.place.is_empty() => Err(EINVAL),
        false => mounts::reconfigure(&asked.place, asked.flags, asked.mask, &asked.options),
    };
    done?;
    change(file, |setup| {
        (setup.flags, setup.mask, setup.phase) = (0, 0, Phase::Changes);
        setup.options.clear();
        Ok(())
    })?;
    Ok(0)
}

pub fn fsmount(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(1) & 0xffff_ffff;
    privileged()?;
    if flags & !CLOEXEC != 0 {
        return Err(EINVAL);
    }
    let attributes = flags_of(f.arg(2) & 0xffff_ffff)?;
    let file = context(f.arg(0))?;
    let (setup, _) = text_of(&file)?;
    if !setup.has_root() {
        return Err(EINVAL);
    }
    setup.must_be(Phase::Made)?;
    let mut asked = setup.clone();
    asked.flags |= attributes;
    process().state().files.check_room()?;
    // Of two who are here at a time one gets it, and only when there is what it is to get: what is made in vain goes.
    let take = |number: u32| {
        change(&file, |setup| {
            setup.must_be(Phase::Made)?;
            setup.phase = Phase::Changes;
            (setup.space, setup.number) = (space::id(), number);
            (setup.flags, setup.mask) = (0, 0);
            setup.options.clear();
            Ok(())
        })
    };
    if !space::is_private() {
        if let Mounter::None = mounts::checked(&file_system(&asked))? {
            // It would be no other one, and lies where it belongs.
            return Err(ENODEV);
        }
        asked.phase = Phase::Waits;
        asked.log.clear();
        let object = object(&asked)?;
        take(0)?;
        return descriptor(object, close_on_exec(flags));
    }
    let fresh = spaces::fresh(&file_system(&asked))?;
    let number = fresh.number;
    let mount = trees::without_place(&[(Vec::new(), fresh)])?;
    take(number)?;
    descriptor(mount, close_on_exec(flags))
}

/// move_mount(2) of what fsmount(2) gave in the first name space.
pub fn put(file: &OpenFile, target: &Arc<OpenFile>) -> Result<u64> {
    let asked = change(file, |setup| {
        if setup.phase != Phase::Waits {
            return Err(EINVAL);
        }
        setup.phase = Phase::Mounted;
        Ok(setup.clone())
    })?;
    let done = mounts::mount_new(&file_system(&asked), target);
    if done.is_err() {
        change(file, |setup| {
            setup.phase = Phase::Waits;
            Ok(())
        })?;
    }
    done
}

/// mount_setattr(2) of the same.
pub fn change_flags(file: &OpenFile, how: &Change) -> Result<()> {
    change(file, |setup| {
        if setup.phase != Phase::Waits {
            return Err(EINVAL);
        }
        let mut asked = file_system(setup);
        asked.flags = how.flags_after(setup.flags);
        mounts::checked(&asked)?;
        setup.flags = asked.flags;
        Ok(())
    })
}

/// read(2): a message, or ENODATA.
pub fn read(file: &OpenFile, range: UserRange) -> Result<u64> {
    let message = change(file, |setup| match setup.log.first() {
        None => Err(ENODATA),
        Some(first) if first.len() as u64 > range.len() => Err(EMSGSIZE),
        Some(_) => Ok(setup.log.remove(0)),
    })?;
    user::write_bytes(range.base(), &message)?;
    Ok(message.len() as u64)
}
