//! Operations on an open file: data, position, flags, readiness, mapping, locks.

use crate::context::{inline_len, Context, Failure};
use crate::dirent::Dirents;
use crate::frames::{changed, changes, tell};
use crate::handle::{Entry, Handle, Handles, LOST};
use crate::lock::{self, end_of, Listing, Owner, Place, Record, Refused, Taker};
use crate::manager::{have_room, Core, RECORDS};
use crate::notice::what;
use crate::permission;
use crate::server::{file_flags, Access, Answer, Change, Server, APPEND_ONLY};
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::capability::{of_file, ATTRIBUTE};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, kind, o, poll, s, LockKind, Locked, LOCK_KINDS, POSITION};
use cairn_idl::label;
use cairn_idl::mounts::mount;
use cairn_rt::channel::Reply;
use cairn_rt::Received;

/// Most bytes of one READ or WRITE, as in Linux.
const TRANSFER_MAX: usize = 0x7fff_f000;
const RWF_NOWAIT: u64 = 8;
const RWF_APPEND: u64 = 16;
/// FS_IOC_GETFLAGS, FS_IOC_SETFLAGS.
const GET_FLAGS: u64 = 0x8008_6601;
const SET_FLAGS: u64 = 0x4008_6602;
/// Flags that F_SETFL changes.
const SETTABLE: u64 = o::APPEND | o::NONBLOCK | o::DIRECT | o::NOATIME;
/// Handles whose content is constant have a position that stays where it is.
const CONSTANT: u64 = kind::READS_NOTHING | kind::READS_ZEROS | kind::WRITES_VANISH;
/// Set in keys of requests that wait for a lock, so that they are apart from servers' keys.
const LOCK_KEYS: u64 = 1 << 63;

pub(crate) fn lock_key(ino: u64) -> u64 {
    LOCK_KEYS | ino
}

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

#[inline(always)]
fn entry<'a, S: Server>(
    handles: &'a mut Handles<S>,
    request: &Received,
) -> Answer<&'a mut Entry<S>> {
    let missing = handles.missing(request.badge);
    handles.used(request).ok_or(missing)
}

/// A handle may not be used so (`number`), or not before its holder has heard that data of the file was lost.
#[cold]
pub(crate) fn barred<S: Server>(entry: &mut Entry<S>, number: i64) -> Failure {
    Failure::Errno(match entry.take_lost() {
        true => EIO,
        false => number,
    })
}

/// What a wait becomes for a handle (or request) that must not block: what was done so far, or EAGAIN.
fn blocked(cx: &Context, nonblocking: bool, failure: Failure) -> Answer<usize> {
    match failure {
        Failure::Wait(_) | Failure::WaitEither(_) if nonblocking => {
            if cx.progress_is_result && cx.progress != 0 {
                Ok(cx.progress as usize)
            } else {
                fail(EAGAIN)
            }
        }
        failure => Err(failure),
    }
}

/// The data of a READ in the words of its answer.
#[inline]
fn put_words(data: &[u8], words: &mut [u64; 8]) {
    if let [byte] = data {
        words[3] = *byte as u64;
        return;
    }
    for (word, bytes) in words[3..].iter_mut().zip(data.chunks(8)) {
        *word = match bytes.first_chunk() {
            Some(whole) => u64::from_le_bytes(*whole),
            None => bytes.iter().rev().fold(0, |word, b| word << 8 | *b as u64),
        };
    }
}

/// Which of fallocate's modes go together (linux/falloc.h), for all file systems; what there is of them is theirs to say.
fn check_mode(mode: u64) -> Answer<()> {
    const KEEP_SIZE: u64 = 1;
    const PUNCH_HOLE: u64 = 2;
    const COLLAPSE_RANGE: u64 = 8;
    const ZERO_RANGE: u64 = 16;
    const INSERT_RANGE: u64 = 32;
    const UNSHARE_RANGE: u64 = 64;
    const ALL: u64 = 0x7b;
    let has = |bit: u64| mode & bit != 0;
    let with = |bit: u64, others: u64| has(bit) && mode & !(bit | others) != 0;
    let alone = has(PUNCH_HOLE) && (has(ZERO_RANGE) || !has(KEEP_SIZE));
    if mode & !ALL != 0 || alone {
        return fail(EOPNOTSUPP);
    }
    match with(COLLAPSE_RANGE, 0) || with(INSERT_RANGE, 0) || with(UNSHARE_RANGE, KEEP_SIZE) {
        true => fail(EINVAL),
        false => Ok(()),
    }
}

impl<S: Server> Core<S> {
    pub(crate) fn entry(&mut self, request: &Received) -> Answer<&mut Entry<S>> {
        entry(&mut self.handles, request)
    }

    pub(crate) fn handle(&mut self, request: &Received) -> Answer<&mut Handle<S>> {
        self.entry(request).map(|entry| &mut entry.handle)
    }

    /// The offset that a READ or WRITE of `length` bytes (at most [`TRANSFER_MAX`]) means.
    fn offset(entry: &Entry<S>, wish: u64, length: usize) -> Answer<u64> {
        let seekable = entry.handle.kind & kind::SEEKABLE != 0;
        if wish == POSITION {
            Ok(if seekable { entry.position } else { 0 })
        } else if !seekable {
            fail(ESPIPE)
        } else if wish > i64::MAX as u64 - length as u64 {
            fail(EINVAL)
        } else {
            Ok(wish)
        }
    }

    #[inline]
    pub fn read<'a>(
        &'a mut self,
        server: &'a mut S,
        cx: &mut Context,
        reply: &mut Reply<'a>,
    ) -> Answer<()> {
        let badge = cx.request.badge;
        let entry = entry(&mut self.handles, cx.request)?;
        if !entry.handle.readable() {
            return Err(barred(entry, EBADF));
        }
        if entry.handle.kind & kind::DIRECTORY != 0 {
            return fail(EISDIR);
        }
        let wish = cx.request.words[1];
        let inline = inline_len(cx.request);
        let length = inline.unwrap_or(cx.request.in_len.min(TRANSFER_MAX));
        let offset = Self::offset(entry, wish, length)?;
        if length == 0 {
            return Ok(());
        }
        let moves =
            wish == POSITION && entry.handle.kind & (kind::SEEKABLE | CONSTANT) == kind::SEEKABLE;
        let offset = match moves {
            true => entry.begin(cx.request.token, cx.repeated, offset),
            false => offset,
        };
        let Entry {
            handle,
            position,
            kept,
            ..
        } = entry;
        let at_once = cx.request.words[2] & RWF_NOWAIT != 0;
        if at_once
            && !server.reads_at_once()
            && server.meta(handle.node)?.mode & s::IFMT == s::IFREG
        {
            return fail(EOPNOTSUPP);
        }
        let nonblocking = handle.nonblocking() || at_once;
        let (node, noted) = (handle.node, handle.flags & o::NOATIME == 0);
        match server.read(cx, handle, offset, length) {
            Ok(data) => {
                if noted {
                    tell(&self.shared, node, false);
                }
                let total = (data.done + data.rest.len()) as u64;
                if moves {
                    *position = offset + total;
                    if let Some(kept) = kept {
                        kept.set_position(*position);
                    }
                }
                reply.words[0] = total;
                if total != 0 && self.notices.any() {
                    self.notices.read = Some(node);
                    cx.later.noticed = true;
                }
                if inline.is_some() {
                    if data.done == 0 {
                        put_words(data.rest, &mut reply.words);
                    } else {
                        cx.store(data.done, data.rest)?;
                        put_words(&cx.later.inline[..total as usize], &mut reply.words);
                    }
                    return Ok(());
                }
                if moves {
                    self.moved = (cx.request.token, badge, offset);
                }
                reply.data = data.rest;
                reply.offset = data.done as u64;
                Ok(())
            }
            Err(failure) => {
                reply.words[0] = blocked(cx, nonblocking, failure)? as u64;
                Ok(())
            }
        }
    }

    /// The data of this caller's READ or READDIR could not be delivered: the position is where it was.
    pub fn unread(&mut self, caller: Token) {
        let (token, badge, position) = self.moved;
        if token == caller {
            if let Some(entry) = self.handles.entry(badge) {
                entry.set_position(position);
            }
        }
    }

    #[inline]
    pub fn write(&mut self, server: &mut S, cx: &mut Context, reply: &mut Reply) -> Answer<()> {
        let entry = entry(&mut self.handles, cx.request)?;
        if !entry.handle.writable() {
            return Err(barred(entry, EBADF));
        }
        let wish = cx.request.words[1];
        let length = inline_len(cx.request).unwrap_or(cx.request.out_len.min(TRANSFER_MAX));
        let mut offset = Self::offset(entry, wish, length)?;
        let handle = &mut entry.handle;
        let seekable = handle.kind & kind::SEEKABLE != 0;
        if seekable && length == 0 {
            return server.write_nothing(cx, handle);
        }
        let appends = handle.flags & o::APPEND != 0 || cx.request.words[2] & RWF_APPEND != 0;
        if seekable && (appends || !cx.has(label::OWNER)) {
            let meta = server.meta(handle.node)?;
            if appends {
                // What was taken before the request had to wait is behind the end that it began at.
                offset = meta.size.saturating_sub(cx.progress);
            }
            if drop_set_id(server, cx, handle.node, &meta.access())? {
                self.cache.file_changed();
            }
        }
        let length = length.min((i64::MAX as u64).saturating_sub(offset) as usize);
        if length == 0 && seekable {
            return fail(EFBIG);
        }
        let nonblocking = handle.nonblocking() || cx.request.words[2] & RWF_NOWAIT != 0;
        let node = handle.node;
        if seekable && (appends || wish == POSITION) {
            offset = entry.begin(cx.request.token, cx.repeated, offset);
        }
        changes(&self.shared, node);
        let written = server.write(cx, &mut entry.handle, offset, length);
        changed(&self.shared, server, node);
        let done = match written {
            Ok(done) => done,
            Err(failure) => {
                if seekable && cx.progress != 0 && entry.middle == 0 {
                    entry.middle = cx.request.token;
                }
                blocked(cx, nonblocking, failure)?
            }
        };
        if entry.middle == cx.request.token {
            entry.middle = 0;
        }
        if seekable && wish == POSITION && entry.handle.kind & CONSTANT == 0 {
            entry.set_position(offset + done as u64);
        }
        reply.words[0] = done as u64;
        if done != 0 {
            self.notice(server, cx, node, what::MODIFY);
        }
        Ok(())
    }

    pub fn seek<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let entry = self.entry(cx.request)?;
        let [_, offset, whence, ..] = cx.request.words;
        if entry.handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        if entry.handle.kind & kind::SEEKABLE == 0 {
            return fail(ESPIPE);
        }
        if server.stays(entry.handle.node) {
            return Ok(Reply::result(0));
        }
        let directory = entry.handle.kind & kind::DIRECTORY != 0;
        let base = match whence {
            0 => 0,
            1 => {
                let position = entry.position;
                entry.begin(cx.request.token, cx.repeated, position)
            }
            2..=4 if directory => return fail(EINVAL),
            2 => server.meta(entry.handle.node)?.size,
            3 | 4 => {
                let size = server.meta(entry.handle.node)?.size;
                if offset >= size {
                    return fail(ENXIO);
                }
                let found = server.seek_data(cx, &mut entry.handle, offset, whence == 4, size)?;
                entry.set_position(found);
                return Ok(Reply::result(found as i64));
            }
            _ => return fail(EINVAL),
        };
        let target = (base as i64)
            .checked_add(offset as i64)
            .ok_or(Failure::Errno(EINVAL))?;
        if target < 0 {
            return fail(EINVAL);
        }
        entry.set_position(target as u64);
        Ok(Reply::result(target))
    }

    pub fn readdir<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let entry = entry(&mut self.handles, cx.request)?;
        if entry.handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        if entry.handle.kind & kind::DIRECTORY == 0 {
            return fail(ENOTDIR);
        }
        have_room(&mut self.records, RECORDS)?;
        let before = entry.position;
        let before = entry.begin(cx.request.token, cx.repeated, before);
        let room = cx.request.in_len.min(self.records.len());
        let mut dirents = Dirents::new(&mut self.records[..room]);
        let position = server.readdir(cx, &mut entry.handle, before, &mut dirents)?;
        let (used, full) = (dirents.len(), dirents.full());
        if used == 0 && full {
            return fail(EINVAL);
        }
        entry.set_position(position);
        self.moved = (cx.request.token, cx.request.badge, before);
        let node = entry.handle.node;
        self.notice(server, cx, node, what::ACCESS);
        Ok(Reply::new(&[used as u64]).data(&self.records[..used]))
    }

    pub fn sync<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let badge = cx.request.badge;
        // Who has a root and no mount portal has the root's handle for it.
        let all = badge >> 32 == 0
            || (self.handles.entry(badge)).is_some_and(|e| e.root == Some(e.handle.node));
        if all {
            server.sync_all(cx)?;
            return Ok(Reply::result(0));
        }
        let entry = self.entry(cx.request)?;
        if entry.take_lost() {
            return fail(EIO);
        }
        let handle = &mut entry.handle;
        if handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        if handle.kind & kind::SEEKABLE == 0 {
            return fail(EINVAL);
        }
        server.sync(cx, handle)?;
        Ok(Reply::result(0))
    }

    pub fn getflags<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let handle = self.handle(cx.request)?;
        Ok(Reply::result((handle.flags & !LOST) as i64))
    }

    /// What the handle is, for whoever got its portal from somebody else.
    pub fn describe<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let badge = cx.request.badge;
        let handle = self.handle(cx.request)?;
        let (node, kind, flags) = (handle.node, handle.kind, handle.flags & !LOST);
        let meta = server.meta(node)?;
        Ok(Reply::new(&[
            0,
            u64::from(meta.mode),
            kind,
            flags,
            meta.ino,
            badge,
        ]))
    }

    /// A new domain executes this file: `proc` hears from here, and from nobody else, whose ids that gives. It is described as well.
    pub fn execute<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let handle = self.handle(cx.request)?;
        if !handle.readable() {
            return fail(EBADF);
        }
        let access = server.access(handle.node)?;
        if access.mode & s::IFMT != s::IFREG {
            return fail(EACCES);
        }
        permission::check(cx, &access, permission::EXECUTE)?;
        self.check_open(cx.request.badge, &access, permission::EXECUTE)?;
        let gives = server.gives_ids() && !self.is_bound(cx.request.badge, mount::NO_SET_ID);
        let handle = self.handle(cx.request)?;
        let (node, raises) = (handle.node, handle.kind & kind::RAISES != 0);
        if (raises || access.mode & SET_ID != 0) && gives {
            let mut value = Vec::new();
            let capabilities = match raises {
                true => server.attribute(cx, node, ATTRIBUTE, &mut value),
                false => Ok(()),
            };
            let capabilities = capabilities.ok().and_then(|()| of_file(&value));
            if capabilities.is_some() || access.mode & SET_ID != 0 {
                let sender = cx.request.sender;
                cx.transport.tell_ids(sender, access, capabilities);
            }
        }
        self.describe(server, cx)
    }

    pub fn setflags<'a>(&'a mut self, server: &mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let entry = self.entry(cx.request)?;
        if entry.handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        let new = entry.handle.flags & !SETTABLE | cx.request.words[1] & SETTABLE;
        let appends = (new ^ entry.handle.flags) & o::APPEND != 0;
        if appends && server.access(entry.handle.node)?.mode & APPEND_ONLY != 0 {
            return fail(EPERM);
        }
        entry.set_flags(new);
        Ok(Reply::result(0))
    }

    pub fn ioctl<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, request, argument, ..] = cx.request.words;
        if matches!(request, GET_FLAGS | SET_FLAGS) {
            return self.file_flags(server, cx, request == SET_FLAGS);
        }
        match self.handle(cx.request) {
            Ok(handle) if handle.flags & o::PATH == 0 => {
                server.ioctl(cx, handle, request, argument)
            }
            refused => {
                cx.close_passed();
                Err(refused.err().unwrap_or(Failure::Errno(EBADF)))
            }
        }
    }

    /// FS_IOC_GETFLAGS, FS_IOC_SETFLAGS: of regular files and directories.
    #[cold]
    fn file_flags<'a>(
        &'a mut self,
        server: &'a mut S,
        cx: &mut Context,
        set: bool,
    ) -> Answer<Reply<'a>> {
        let node = match self.handle(cx.request) {
            Ok(handle) if handle.flags & o::PATH == 0 => handle.node,
            refused => return Err(refused.err().unwrap_or(Failure::Errno(EBADF))),
        };
        let access = server.access(node)?;
        let old = match access.mode & s::IFMT {
            s::IFREG | s::IFDIR => server.file_flags(node)?,
            _ => return fail(ENOTTY),
        };
        if !set {
            cx.store(0, &old.to_le_bytes())?;
            return Ok(Reply::result(0));
        }
        let mut bytes = [0; 4];
        cx.fetch(0, &mut bytes)?;
        let new = u32::from_le_bytes(bytes);
        if server.read_only() {
            return fail(EROFS);
        }
        permission::owner(cx, &access)?;
        if (new ^ old) & !file_flags::KNOWN != 0 {
            return fail(EOPNOTSUPP);
        }
        let fixed = file_flags::IMMUTABLE | file_flags::APPEND_ONLY;
        if (new ^ old) & fixed != 0 && !cx.has(label::SYSTEM) {
            return fail(EPERM);
        }
        server.set_file_flags(cx, node, new)?;
        self.names_changed(&access);
        self.cache.file_changed();
        self.notice(server, cx, node, what::ATTRIB);
        Ok(Reply::result(0))
    }

    pub fn poll<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let handle = self.handle(cx.request)?;
        let [_, mask, wait, ..] = cx.request.words;
        if handle.flags & o::PATH != 0 {
            return Ok(Reply::result(poll::NVAL as i64));
        }
        let readiness = server.poll(cx, handle)?;
        let ready = readiness.ready & (mask | poll::ERR | poll::HUP);
        if ready == 0 && wait != 0 {
            return Err(Failure::WaitEither(readiness.keys));
        }
        Ok(Reply::result(ready as i64))
    }

    pub fn map<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let entry = entry(&mut self.handles, cx.request)?;
        let [_, offset, length, shared_writable, ..] = cx.request.words;
        if entry.handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        let (shared_writable, unasked) = (shared_writable == 1, shared_writable == fs::UNASKED);
        if !entry.handle.readable() || shared_writable && !entry.handle.writable() {
            return Err(match unasked {
                true => Failure::Errno(EAGAIN),
                false => barred(entry, EACCES),
            });
        }
        let handle = &mut entry.handle;
        let node = handle.node;
        let mapped = server.map(cx, handle, offset, length, shared_writable);
        if shared_writable {
            // Holes may have become pages.
            changed(&self.shared, server, node);
        }
        let (portal, pages) = mapped?;
        Ok(Reply::new(&[pages]).portal(portal, false))
    }

    pub fn allocate<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let entry = entry(&mut self.handles, cx.request)?;
        let [_, mode, offset, length, ..] = cx.request.words;
        check_mode(mode)?;
        if !entry.handle.writable() {
            return Err(barred(entry, EBADF));
        }
        let handle = &mut entry.handle;
        if offset > i64::MAX as u64 || length == 0 || length > i64::MAX as u64 {
            return fail(EINVAL);
        }
        if offset + length > i64::MAX as u64 {
            return fail(EFBIG);
        }
        match server.meta(handle.node)?.mode & s::IFMT {
            s::IFREG => {}
            s::IFIFO | s::IFSOCK => return fail(ESPIPE),
            _ => return fail(ENODEV),
        }
        let node = handle.node;
        let access = server.access(node)?;
        if drop_set_id(server, cx, node, &access)? {
            self.cache.file_changed();
        }
        changes(&self.shared, node);
        let allocated = server.allocate(cx, handle, mode, offset, length);
        changed(&self.shared, server, node);
        let done = allocated?;
        self.notice(server, cx, node, what::MODIFY);
        Ok(Reply::new(&[0, done]))
    }

    pub fn lock<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, command, kind, start, length, echo, ..] = cx.request.words;
        let badge = cx.request.badge;
        let entry = entry(&mut self.handles, cx.request)?;
        if entry.handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        if command > 2 || kind > 2 || start > i64::MAX as u64 || length > i64::MAX as u64 {
            return fail(EINVAL);
        }
        let wish = Record {
            owner: lock_owner(cx.request),
            badge,
            user: cx.uid(),
            start,
            end: end_of(start, length),
            exclusive: kind == 1,
        };
        let ino = server.meta(entry.handle.node)?.ino;
        if command == 0 {
            let keep = self.handles.keepsake();
            let held = match self.locks.in_the_way(keep, ino, &wish) {
                Ok(held) => held,
                Err(_) => return Err(Failure::Wait(lock_key(ino))),
            };
            return Ok(match held {
                None => Reply::new(&[0, 2, start, length, echo]),
                Some(held) => Reply::new(&[
                    0,
                    held.exclusive as u64,
                    held.start,
                    if held.end == u64::MAX {
                        0
                    } else {
                        held.end - held.start
                    },
                    match held.owner {
                        Owner::Process(domain) => self.pid_of(cx, domain).unwrap_or(0).into(),
                        Owner::File(_) => u32::MAX as u64,
                    },
                ]),
            });
        }
        if kind == 2 {
            let keep = self.handles.keepsake();
            let part = self.locks.first_part(ino, &wish);
            return match self.locks.clear(keep, ino, &part) {
                Ok(changed) => {
                    if changed {
                        cx.wake(lock_key(ino));
                    }
                    match part.end < wish.end {
                        true => Err(cx.goes_on()),
                        false => Ok(Reply::result(0)),
                    }
                }
                Err(_) => fail(ENOLCK),
            };
        }
        let may = match wish.exclusive {
            true => entry.handle.writable(),
            false => entry.handle.readable(),
        };
        if !may {
            return Err(barred(entry, EBADF));
        }
        entry.locks = true;
        if let Owner::Process(domain) = wish.owner {
            self.pid_of(cx, domain).ok_or(Failure::Errno(ENOLCK))?;
        }
        let keep = self.handles.keepsake();
        match self.locks.set(keep, ino, wish, command == 2) {
            Ok(()) => {
                // A part that was exclusive may be shared now.
                cx.wake(lock_key(ino));
                Ok(Reply::result(0))
            }
            Err(Refused::Held(_)) if command == 2 => Err(Failure::Wait(lock_key(ino))),
            Err(Refused::Going) => Err(Failure::Wait(lock_key(ino))),
            Err(Refused::Held(_)) => fail(EAGAIN),
            Err(Refused::Deadlock) => fail(EDEADLK),
            Err(Refused::TooMany) => fail(ENOLCK),
        }
    }

    /// LOCKS
    pub fn list_locks<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, own, list, ino, owner, start, ..] = cx.request.words;
        let node = self.start(server, cx.request.badge, cx.request.sender)?;
        let device = server.stat(cx, node)?.dev;
        let only = match own {
            0 => None,
            _ => {
                entry(&mut self.handles, cx.request)?;
                Some((server.meta(node)?.ino, cx.request.badge))
            }
        };
        let most = LISTED.min(cx.request.in_len / Locked::BYTES);
        if list > lock::LEASES || most == 0 {
            return fail(EINVAL);
        }
        let mut listing = Listing {
            found: Vec::new(),
            most,
            looked_at: LOOKED_AT,
            only,
        };
        let room = listing.found.try_reserve_exact(most);
        room.map_err(|_| Failure::Errno(ENOMEM))?;
        let mut next = Some(Place {
            list,
            ino,
            owner,
            start,
        });
        if let Some(at) = next.filter(|at| at.list != lock::LEASES) {
            next = Some(self.locks.list(at, &mut listing));
        }
        if let Some(at) = next.filter(|at| at.list == lock::LEASES) {
            next = self.leases.list(at, &mut listing);
        }
        have_room(&mut self.records, RECORDS)?;
        let count = listing.found.len();
        for (index, one) in listing.found.into_iter().enumerate() {
            let mut locked = one.locked;
            locked.pid = match LockKind::from_word((locked.what & LOCK_KINDS).into()) {
                Some(LockKind::OpenFile) => u32::MAX,
                Some(LockKind::Process) => self.pid_of(cx, locked.owner as u32).unwrap_or(0),
                _ => {
                    let Taker { domain, pid } = one.taker;
                    self.pid_of(cx, domain).unwrap_or(pid)
                }
            };
            let bytes = locked.to_bytes();
            self.records[index * Locked::BYTES..][..Locked::BYTES].copy_from_slice(&bytes);
        }
        let next = next.unwrap_or(Place {
            list: u64::MAX,
            ..Place::default()
        });
        let words = [
            count as u64,
            device,
            next.list,
            next.ino,
            next.owner,
            next.start,
        ];
        let mut reply = Reply::new(&words);
        reply.data = &self.records[..count * Locked::BYTES];
        Ok(reply)
    }

    /// The number of a domain's process, of whose end this server hears from now on.
    fn pid_of(&mut self, cx: &mut Context, domain: u32) -> Option<u32> {
        if let Some(pid) = self.attended.get(&domain) {
            return Some(*pid);
        }
        let badge = ATTENDED | u64::from(domain);
        let pid = cx.transport.attend(domain, badge)?;
        self.attended.insert(domain, pid);
        Some(pid)
    }

    /// A process has ended (or was waited for in vain): its record locks go.
    pub(crate) fn process_ended(&mut self, cx: &mut Context, domain: u32) {
        self.attended.remove(&domain);
        for ino in self.locks.end(self.handles.keepsake(), domain) {
            cx.wake(lock_key(ino));
        }
        self.locks_go(cx);
    }

    /// Locks that are still to go do so later.
    pub(crate) fn locks_go(&mut self, cx: &mut Context) {
        cx.leave(self.locks.are_going(), |cx| {
            self.some_locks_go(cx);
            self.locks.are_going()
        });
    }

    pub(crate) fn some_locks_go(&mut self, cx: &mut Context) {
        for ino in self.locks.go_on(self.handles.keepsake()) {
            cx.wake(lock_key(ino));
        }
    }

    /// A request ends that may have waited for a record lock.
    pub fn forget_lock_wait(&mut self, request: &Received) {
        match request.words[0] {
            fs::LOCK => self.locks.forget_wait(lock_owner(request)),
            fs::FLOCK => self.locks.forget_whole_wait(request.sender),
            _ => {}
        }
    }

    /// A write that waited in the middle is over without its result.
    pub fn forget_middle(&mut self, request: &Received) {
        if let Some(entry) = self.handles.entry(request.badge) {
            if entry.middle == request.token {
                entry.middle = 0;
            }
        }
    }

    pub fn flock<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, operation, pid, ..] = cx.request.words;
        let badge = cx.request.badge;
        let entry = entry(&mut self.handles, cx.request)?;
        if entry.handle.flags & o::PATH != 0 {
            return fail(EBADF);
        }
        let ino = server.meta(entry.handle.node)?.ino;
        match operation & !4 {
            8 => {
                let keep = self.handles.keepsake();
                if self.locks.unlock_whole(keep, ino, badge) {
                    cx.wake(lock_key(ino));
                }
                Ok(Reply::result(0))
            }
            kind @ (1 | 2) => {
                entry.locks = true;
                let keep = self.handles.keepsake();
                let (domain, pid) = (cx.request.sender, pid as u32);
                let how = (kind == 2, Taker { domain, pid });
                let waits = operation & 4 == 0;
                if self.locks.lock_whole(keep, ino, badge, how, waits) {
                    cx.wake(lock_key(ino));
                    Ok(Reply::result(0))
                } else if !waits {
                    fail(EAGAIN)
                } else {
                    Err(Failure::Wait(lock_key(ino)))
                }
            }
            _ => fail(EINVAL),
        }
    }
}

/// Most locks of one answer of LOCKS, and most that it looks at.
const LISTED: usize = 100;
const LOOKED_AT: usize = 400;

/// Badges by which the ends of processes are told, with the domain. (No handle's generation gets there.)
pub(crate) const ATTENDED: u64 = 1 << 63;

/// Whose a record lock is: the calling process's, which is told by the nucleus, or the open file description's.
fn lock_owner(request: &Received) -> Owner {
    match request.words[5] {
        0 => Owner::File(request.badge),
        _ => Owner::Process(request.sender),
    }
}

/// Writing without the privilege takes the set-id bits away; `true` if it did.
#[inline]
pub(crate) fn drop_set_id<S: Server>(
    server: &mut S,
    cx: &mut Context,
    node: S::Node,
    access: &Access,
) -> Answer<bool> {
    if access.mode & SET_ID == 0 || access.mode & s::IFMT != s::IFREG || cx.has(label::OWNER) {
        return Ok(false);
    }
    let kept = without_set_id(cx, access);
    if kept == access.mode & 0o7777 {
        return Ok(false);
    }
    let change = Change {
        mode: Some(kept),
        ..Change::default()
    };
    server.change(cx, node, &change)?;
    Ok(true)
}

const SET_ID: u32 = s::ISUID | s::ISGID;

/// Permission bits without set-user-id and set-group-id. Without the group's execute bit the latter means mandatory locking: a member of the group keeps it.
pub(crate) fn without_set_id(cx: &mut Context, access: &Access) -> u32 {
    let kept = access.mode & 0o7777 & !s::ISUID;
    if kept & s::ISGID != 0 && kept & 0o010 == 0 && permission::gives_group_id(cx, access.gid) {
        return kept;
    }
    kept & !s::ISGID
}

/// For `permission` of truncation by path.
pub(crate) fn check_write<S: Server>(
    server: &mut S,
    cx: &mut Context,
    node: S::Node,
) -> Answer<()> {
    let access = server.access(node)?;
    permission::check(cx, &access, permission::WRITE)
}
