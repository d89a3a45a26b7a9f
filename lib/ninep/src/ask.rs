//! Requests, made.

use crate::request::Lock;
use crate::{kind, HEAD, NO_FID, NO_TAG, VERSION};
use alloc::vec::Vec;

/// A request, complete but for its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask(Vec<u8>);

/// Attributes to set; what is None stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// This moment's, by the other side's clock.
    Now,
    /// Seconds and nanoseconds.
    At(i64, i64),
}

impl Time {
    fn given(time: Option<Time>) -> Option<(i64, i64)> {
        match time {
            Some(Time::At(seconds, nanoseconds)) => Some((seconds, nanoseconds)),
            Some(Time::Now) | None => None,
        }
    }
}

/// Bits of SETATTR.
pub(crate) mod set {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_GIVEN: u32 = 1 << 7;
    pub const MTIME_GIVEN: u32 = 1 << 8;
}

/// All basic attributes, of GETATTR.
pub const BASIC: u64 = 0x7ff;

impl Ask {
    fn new(kind: u8) -> Ask {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend([0, 0, 0, 0, kind, 0xff, 0xff]);
        Ask(bytes)
    }

    fn u8(mut self, value: u8) -> Ask {
        self.0.push(value);
        self
    }

    fn u32(mut self, value: u32) -> Ask {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Ask {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Longer ones than the protocol knows are cut; nobody has such.
    fn text(mut self, text: &[u8]) -> Ask {
        let text = &text[..text.len().min(usize::from(u16::MAX))];
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text);
        self
    }

    fn end(mut self) -> Ask {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self
    }

    pub fn kind(&self) -> u8 {
        self.0[4]
    }

    /// Its bytes, with this tag.
    pub fn with_tag(&mut self, tag: u16) -> &[u8] {
        self.0[5..HEAD].copy_from_slice(&tag.to_le_bytes());
        &self.0
    }

    /// The same request, whatever the tag.
    pub fn is(&self, other: &Ask) -> bool {
        self.0.len() == other.0.len()
            && self.0[4] == other.0[4]
            && self.0[HEAD..] == other.0[HEAD..]
    }

    /// The first number of its body: the file that most are about.
    pub fn fid(&self) -> Option<u32> {
        let bytes = self.0.get(HEAD..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// The second: of WALK, the file that it makes.
    pub fn second(&self) -> Option<u32> {
        let bytes = self.0.get(HEAD + 4..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// Of WALK: how many names.
    pub fn names(&self) -> u16 {
        let bytes = self.0.get(HEAD + 8..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    pub fn version(most: u32) -> Ask {
        let mut ask = Ask::new(kind::VERSION).u32(most).text(VERSION).end();
        ask.with_tag(NO_TAG);
        ask
    }

    /// As user 0, whoever that is on the other side.
    pub fn attach(fid: u32) -> Ask {
        Ask::attach_as(fid, b"root", b"", 0)
    }

    /// As a user, by name and number, to a tree.
    pub fn attach_as(fid: u32, user: &[u8], tree: &[u8], uid: u32) -> Ask {
        let ask = Ask::new(kind::ATTACH).u32(fid).u32(NO_FID);
        ask.text(user).text(tree).u32(uid).end()
    }

    pub fn authentication(fid: u32, user: &[u8], tree: &[u8], uid: u32) -> Ask {
        let ask = Ask::new(kind::AUTH).u32(fid).text(user);
        ask.text(tree).u32(uid).end()
    }

    /// The request with this tag is no longer wanted.
    pub fn flush(tag: u16) -> Ask {
        let mut ask = Ask::new(kind::FLUSH);
        ask.0.extend(tag.to_le_bytes());
        ask.end()
    }

    /// `new` is the file that these names lead to from `fid`; without names the same one.
    pub fn walk(fid: u32, new: u32, names: &[&[u8]]) -> Ask {
        let mut ask = Ask::new(kind::WALK).u32(fid).u32(new);
        ask.0.extend((names.len() as u16).to_le_bytes());
        let ask = names.iter().fold(ask, |ask, name| ask.text(name));
        ask.end()
    }

    pub fn attributes(fid: u32) -> Ask {
        Ask::new(kind::GETATTR).u32(fid).u64(BASIC).end()
    }

    pub fn set(fid: u32, to: &Set) -> Ask {
        let bit = |there: bool, bit: u32| if there { bit } else { 0 };
        let given = [to.atime, to.mtime].map(Time::given);
        let valid = bit(to.mode.is_some(), set::MODE)
            | bit(to.uid.is_some(), set::UID)
            | bit(to.gid.is_some(), set::GID)
            | bit(to.size.is_some(), set::SIZE)
            | bit(to.atime.is_some(), set::ATIME)
            | bit(given[0].is_some(), set::ATIME_GIVEN)
            | bit(to.mtime.is_some(), set::MTIME)
            | bit(given[1].is_some(), set::MTIME_GIVEN);
        let mut ask = Ask::new(kind::SETATTR).u32(fid).u32(valid);
        for number in [to.mode, to.uid, to.gid] {
            ask = ask.u32(number.unwrap_or(0));
        }
        ask = ask.u64(to.size.unwrap_or(0));
        for (seconds, nanoseconds) in given.map(Option::unwrap_or_default) {
            ask = ask.u64(seconds as u64).u64(nanoseconds as u64);
        }
        ask.end()
    }

    /// `flags`: Linux's.
    pub fn open(fid: u32, flags: u32) -> Ask {
        Ask::new(kind::OPEN).u32(fid).u32(flags).end()
    }

    /// A new file of a folder, whose number is then the opened file's.
    pub fn create(folder: u32, name: &[u8], flags: u32, mode: u32, gid: u32) -> Ask {
        let ask = Ask::new(kind::CREATE).u32(folder).text(name);
        ask.u32(flags).u32(mode).u32(gid).end()
    }

    pub fn read(fid: u32, offset: u64, count: u32) -> Ask {
        Ask::new(kind::READ).u32(fid).u64(offset).u32(count).end()
    }

    pub fn write(fid: u32, offset: u64, data: &[u8]) -> Ask {
        let mut ask = Ask::new(kind::WRITE).u32(fid).u64(offset);
        ask = ask.u32(data.len() as u32);
        ask.0.extend(data);
        ask.end()
    }

    pub fn entries(fid: u32, position: u64, count: u32) -> Ask {
        let ask = Ask::new(kind::READDIR).u32(fid).u64(position);
        ask.u32(count).end()
    }

    pub fn sync(fid: u32) -> Ask {
        Ask::sync_of(fid, false)
    }

    /// `data`: what is not needed to find the data may wait.
    pub fn sync_of(fid: u32, data: bool) -> Ask {
        Ask::new(kind::FSYNC).u32(fid).u32(data.into()).end()
    }

    /// `flags`: of [`crate::lock_flags`].
    pub fn lock(fid: u32, flags: u32, lock: &Lock) -> Ask {
        let ask = Ask::new(kind::LOCK).u32(fid).u8(lock.kind).u32(flags);
        ask.range(lock)
    }

    /// Which lock is in this one's way.
    pub fn lock_there(fid: u32, lock: &Lock) -> Ask {
        Ask::new(kind::GETLOCK).u32(fid).u8(lock.kind).range(lock)
    }

    fn range(self, lock: &Lock) -> Ask {
        let ask = self.u64(lock.start).u64(lock.length);
        ask.u32(lock.process).text(lock.client).end()
    }

    /// `new` is the value of an extended attribute, to be read; without a name the list of names.
    pub fn attribute(fid: u32, new: u32, name: &[u8]) -> Ask {
        let ask = Ask::new(kind::ATTRIBUTE).u32(fid).u32(new);
        ask.text(name).end()
    }

    /// What is written to this number then is the attribute's value, which is set when the number ends.
    pub fn set_attribute(fid: u32, name: &[u8], size: u64, flags: u32) -> Ask {
        let ask = Ask::new(kind::SET_ATTRIBUTE).u32(fid).text(name);
        ask.u64(size).u32(flags).end()
    }

    pub fn end_of(fid: u32) -> Ask {
        Ask::new(kind::CLUNK).u32(fid).end()
    }

    pub fn space(fid: u32) -> Ask {
        Ask::new(kind::STATFS).u32(fid).end()
    }

    pub fn target(fid: u32) -> Ask {
        Ask::new(kind::READLINK).u32(fid).end()
    }

    pub fn directory(folder: u32, name: &[u8], mode: u32, gid: u32) -> Ask {
        let ask = Ask::new(kind::MKDIR).u32(folder).text(name);
        ask.u32(mode).u32(gid).end()
    }

    /// Anything but a folder and a link, by the type in `mode`.
    pub fn node(folder: u32, name: &[u8], mode: u32, gid: u32) -> Ask {
        Ask::device(folder, name, mode, (0, 0), gid)
    }

    /// `device`: its two numbers.
    pub fn device(folder: u32, name: &[u8], mode: u32, device: (u32, u32), gid: u32) -> Ask {
        let ask = Ask::new(kind::MKNOD).u32(folder).text(name).u32(mode);
        ask.u32(device.0).u32(device.1).u32(gid).end()
    }

    pub fn symlink(folder: u32, name: &[u8], target: &[u8], gid: u32) -> Ask {
        let ask = Ask::new(kind::SYMLINK).u32(folder).text(name);
        ask.text(target).u32(gid).end()
    }

    pub fn link(folder: u32, fid: u32, name: &[u8]) -> Ask {
        Ask::new(kind::LINK).u32(folder).u32(fid).text(name).end()
    }

    pub fn remove(folder: u32, name: &[u8], flags: u32) -> Ask {
        let ask = Ask::new(kind::UNLINKAT).u32(folder).text(name);
        ask.u32(flags).end()
    }

    pub fn rename(from: u32, name: &[u8], to: u32, new: &[u8]) -> Ask {
        let ask = Ask::new(kind::RENAMEAT).u32(from).text(name);
        ask.u32(to).text(new).end()
    }

    /// As clients do that know no RENAMEAT.
    pub fn rename_file(fid: u32, to: u32, new: &[u8]) -> Ask {
        Ask::new(kind::RENAME).u32(fid).u32(to).text(new).end()
    }

    /// As clients do that know no UNLINKAT. The number ends as well.
    pub fn remove_file(fid: u32) -> Ask {
        Ask::new(kind::REMOVE).u32(fid).end()
    }
}
