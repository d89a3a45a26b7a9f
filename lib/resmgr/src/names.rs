//! Operations that take a path: opening, attributes, and changes of the tree.

use crate::context::{inline_path, no_path, path_words, Context, Failure};
use crate::files::{barred, check_write, drop_set_id, without_set_id};
use crate::frames::{changed, changes, tell};
use crate::handle::Handle;
use crate::layout;
use crate::manager::{Core, Mount};
use crate::notice::{what, Name};
use crate::objects::NAMES;
use crate::path::{Dots, Found, Last};
use crate::permission::{self, EXECUTE, READ, WRITE};
use crate::server::{Access, Answer, Change, New, Rename, Server, Shown, APPEND_ONLY, IMMUTABLE};
use crate::transport::Leads;
use cairn_abi::flag;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, at, o, s, Stat, BY_HANDLE, HANDLE_MAX, PATH_MAX, ROOTED, STAT_WORDS};
use cairn_idl::label;
use cairn_idl::mounts::mount;
use cairn_idl::stat_words;
use cairn_rt::channel::Reply;
use cairn_rt::Portal;

/// Flags that only matter while opening.
const OPEN_ONLY: u64 =
    o::CREAT | o::EXCL | o::NOCTTY | o::TRUNC | o::CLOEXEC | cairn_idl::fs::SEALABLE | BY_HANDLE;
const TMPFILE_BIT: u64 = o::TMPFILE & !o::DIRECTORY;
const UTIME_NOW: u64 = 0x3fff_ffff;
const UTIME_OMIT: u64 = 0x3fff_fffe;
/// In `cx.progress` of an operation with two paths: the second begins at another manager's portal. (No badge of a handle is near that.)
const ELSEWHERE: u64 = u64::MAX;
const RENAME_NOREPLACE: u64 = 1;
const RENAME_EXCHANGE: u64 = 2;
const RENAME_WHITEOUT: u64 = 4;

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

fn is(access: &Access, kind: u32) -> bool {
    access.mode & s::IFMT == kind
}

pub(crate) fn last_for(flags: u64) -> Last {
    if flags & at::SYMLINK_NOFOLLOW != 0 {
        Last::Slash
    } else {
        Last::Follow
    }
}

/// What the ways to open a file ask for (O_RDONLY, O_WRONLY, O_RDWR, and Linux's fourth, for device drivers).
const WANTED: [u32; 4] = [READ, WRITE, READ | WRITE, READ | WRITE];

impl<S: Server> Core<S> {
    // ---- opening

    pub fn open(&mut self, server: &mut S, cx: &mut Context, reply: &mut Reply) -> Answer<()> {
        if !self.handles.keeps(cx.request) {
            self.handles.room(cx, 1)?;
        }
        let (words, new) = self.open_here(server, cx)?;
        reply.words = words;
        if new {
            reply.portals = 1;
            reply.flags = flag::MINT;
        }
        Ok(())
    }

    /// What opening asks for besides, with O_NOATIME or where leases are in the way.
    #[cold]
    #[inline(never)]
    fn check_further(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        (node, access): (S::Node, Access),
    ) -> Answer<()> {
        if cx.request.words[1] & o::NOATIME != 0 {
            permission::owner(cx, &access)?;
        }
        check_fixed(cx.request.words[1], &access)?;
        self.break_leases(server, cx, node)
    }

    /// The words of OPEN's answer; with a new portal's badge as the last, or (false) none, because the caller has the portal. There is room for the handle.
    #[inline(always)]
    pub fn open_here(&mut self, server: &mut S, cx: &mut Context) -> Answer<([u64; 8], bool)> {
        let [_, flags, mode, ..] = cx.request.words;
        let flags = flags as u32 as u64;
        let exclusive = flags & (o::CREAT | o::EXCL) == o::CREAT | o::EXCL;
        let last = if exclusive {
            Last::New
        } else if flags & o::NOFOLLOW != 0 {
            Last::Slash
        } else {
            Last::Follow
        };
        let path_only = flags & o::PATH != 0;
        let known = match flags & (TMPFILE_BIT | BY_HANDLE) {
            0 if cx.repeated.is_none() => self.find_short(server, cx.request, last),
            _ => None,
        };
        let ((node, access), created) = match known {
            Some(Some(known)) => (known, false),
            // It is known not to be there, and nothing is made.
            Some(None) if flags & o::CREAT == 0 => return fail(ENOENT),
            _ => self.find_or_make(server, cx, last, (flags, mode))?,
        };
        if !created {
            let directory = is(&access, s::IFDIR);
            if is(&access, s::IFLNK) && !path_only {
                let directory = flags & o::DIRECTORY != 0;
                return fail(if directory { ENOTDIR } else { ELOOP });
            }
            if flags & o::DIRECTORY != 0 && !directory {
                return fail(ENOTDIR);
            }
            if !path_only {
                let mut want = WANTED[(flags & o::ACCMODE) as usize];
                if flags & o::TRUNC != 0 {
                    want |= WRITE;
                }
                if directory && (want & WRITE != 0 || flags & o::CREAT != 0) {
                    return fail(EISDIR);
                }
                if !cx.has(label::ACCESS) {
                    permission::check(cx, &access, want)?;
                }
                self.check_open(cx.request.badge, &access, want)?;
                // (One branch for what is seldom there.)
                if (flags & o::NOATIME != 0) | self.leases.any() | access.is_fixed() {
                    self.check_further(server, cx, (node, access))?;
                }
            }
        }
        let mut state = S::State::default();
        let (node, kind) = if path_only {
            (node, layout::default_kind(access.mode))
        } else {
            let opened = match server.open(cx, node, flags, &mut state) {
                Err(Failure::Redirect) if is(&access, s::IFIFO) => {
                    let stat = server.stat(cx, node)?;
                    cx.give_fifo(&stat)?;
                    return Err(Failure::Redirect);
                }
                opened => opened?,
            };
            if flags & o::TRUNC != 0 && !created && is(&access, s::IFREG) {
                if drop_set_id(server, cx, node, &access)? {
                    self.cache.file_changed();
                }
                changes(&self.shared, opened.node);
                let cut = server.truncate(cx, opened.node, 0);
                changed(&self.shared, server, opened.node);
                cut?;
                self.notice(server, cx, opened.node, what::MODIFY);
            }
            (opened.node, opened.kind)
        };
        let (meta, identity) = (server.meta(node)?, server.identity(node));
        let what = (node, flags & !OPEN_ONLY, kind);
        let (badge, kept) = self.handles.open(cx, what, state)?;
        server.retain(node);
        let mut root = None;
        if is(&access, s::IFDIR) {
            root = self.root_of_new(server, cx, node, mode);
            if let Some(root) = root {
                server.retain(root);
                self.handles.set_root(badge, root);
            }
        }
        self.belongs_too(badge, cx.request.badge, mode & ROOTED != 0);
        let belongs = self.mount_of(badge).is_some();
        // (What is mounted where is not kept.)
        if let Some(identity) = identity.filter(|_| !belongs) {
            let root = root.and_then(|root| server.identity(root));
            self.handles.keep(badge, identity, root);
        }
        if !path_only {
            self.notice(server, cx, node, what::OPEN);
        }
        let minted = if kept { 0 } else { badge };
        let words = [0, meta.mode as u64, kind, meta.size, meta.ino, 0, 0, minted];
        Ok((words, !kept))
    }

    /// The root of a directory's handle: itself, if its opener says so, or that of the portal by which it was opened.
    #[inline(never)]
    fn root_of_new(
        &mut self,
        server: &mut S,
        cx: &Context,
        node: S::Node,
        mode: u64,
    ) -> Option<S::Node> {
        match mode & ROOTED {
            0 => self.root(server, cx.request.badge),
            _ => Some(node),
        }
    }

    /// What OPEN opens, and whether it was made.
    #[inline(never)]
    fn find_or_make(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        last: Last,
        (flags, mode): (u64, u64),
    ) -> Answer<((S::Node, Access), bool)> {
        if flags & BY_HANDLE != 0 {
            return Ok((self.named_by_handle(server, cx)?, false));
        }
        let made_before = flags & o::CREAT != 0 && server.carried_out(cx);
        let found = self.find_here(server, cx, last)?;
        let path_only = flags & o::PATH != 0;
        if flags & TMPFILE_BIT != 0 && !path_only {
            return Ok((self.unnamed(server, cx, &found, flags, mode)?, true));
        }
        let mode = s::IFREG | mode as u32 & 0o7777;
        match found.node {
            Some(node) if made_before && !path_only => Ok((node, true)),
            Some(_) if last == Last::New && !path_only => fail(EEXIST),
            Some(node) => Ok((node, false)),
            None if flags & o::CREAT == 0 || path_only => fail(ENOENT),
            None if found.slash => fail(EISDIR),
            None => Ok((self.make(server, cx, &found, mode, 0, false)?, true)),
        }
    }

    /// OPEN with BY_HANDLE, which passes by all folders above the file: for who may pass them all anyway.
    #[cold]
    fn named_by_handle(&mut self, server: &mut S, cx: &mut Context) -> Answer<(S::Node, Access)> {
        if !cx.has(label::ACCESS) {
            return fail(EPERM);
        }
        // Nothing leads out of a root, and where a file lies its handle does not say.
        if self.root(server, cx.request.badge).is_some() {
            return fail(ESTALE);
        }
        let mut bytes = [0; HANDLE_MAX];
        let inline = inline_path(cx.request);
        let length = inline.unwrap_or(cx.request.out_len);
        let bytes = bytes.get_mut(..length).ok_or(Failure::Errno(ESTALE))?;
        match inline {
            Some(_) => {
                let words = path_words(cx.request).iter();
                let given = words.flat_map(|word| word.to_le_bytes());
                bytes
                    .iter_mut()
                    .zip(given)
                    .for_each(|(to, from)| *to = from);
            }
            None => cx.fetch(0, bytes)?,
        }
        let node = server.by_handle(cx, bytes)?;
        Ok((node, server.access(node)?))
    }

    pub fn file_handle<'a>(&'a mut self, server: &mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let node = self.start(server, cx.request.badge, cx.request.sender)?;
        let (bytes, length) = server.handle_of(node).ok_or(Failure::Errno(EOPNOTSUPP))?;
        let (first, second) = bytes.split_at(8);
        let word = |half: &[u8]| half.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        Ok(Reply::new(&[length as u64, word(first), word(second)]))
    }

    /// O_TMPFILE: a file without a name.
    fn unnamed(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        found: &Found<S::Node>,
        flags: u64,
        mode: u64,
    ) -> Answer<(S::Node, Access)> {
        let (dir, access) = found.node.ok_or(Failure::Errno(ENOENT))?;
        if !is(&access, s::IFDIR) {
            return fail(ENOTDIR);
        }
        self.check_changes(cx.request.badge)?;
        if !matches!(flags & o::ACCMODE, o::WRONLY | o::RDWR) {
            return fail(EINVAL);
        }
        permission::check(cx, &access, WRITE | EXECUTE)?;
        let new = new_node(cx, &access, s::IFREG | mode as u32 & 0o7777, 0, &[]);
        let node = server.create_unnamed(cx, dir, &new)?;
        Ok((node, server.access(node)?))
    }

    /// Make the node that a walk did not find.
    #[inline(always)]
    fn make(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        found: &Found<S::Node>,
        mode: u32,
        rdev: u64,
        second: bool,
    ) -> Answer<(S::Node, Access)> {
        let range = found.name.ok_or(Failure::Errno(EEXIST))?;
        self.check_changes(cx.request.badge)?;
        if !cx.has(label::ACCESS) || found.dir_access.is_fixed() {
            permission::check(cx, &found.dir_access, WRITE | EXECUTE)?;
        }
        let names = if second { &self.second } else { &self.first };
        let new = new_node(cx, &found.dir_access, mode, rdev, &[]);
        self.cache.name_made();
        let node = server.create(cx, found.dir, names.name(range), &new)?;
        if self.notices.any() {
            let name = Name::new(if second { &self.second } else { &self.first }.name(range));
            self.name_made(server, cx, (found.dir, &name), (mode, None));
        }
        Ok((node, server.access(node)?))
    }

    // ---- attributes

    pub fn stat<'a>(
        &'a mut self,
        server: &mut S,
        cx: &mut Context,
        reply: &mut Reply<'a>,
    ) -> Answer<()> {
        let mut stat = self.status(server, cx)?;
        if cx.request.words[1] & fs::STAT_BIRTH != 0 && stat.mode & s::IFMT == s::IFDIR {
            stat.unused[2] |= self.roots(server, cx, stat.ino);
        }
        if cx.request.words[1] & STAT_WORDS != 0 {
            reply.words = stat_words::pack(&stat).unwrap_or_default();
            return Ok(());
        }
        layout::stat_bytes(&stat, &mut self.structure);
        reply.data = &self.structure;
        Ok(())
    }

    /// Which roots the directory with this number is.
    #[cold]
    fn roots(&mut self, server: &mut S, cx: &Context, ino: u64) -> i64 {
        let badge = cx.request.badge;
        let is = |server: &mut S, root| server.meta(root).is_ok_and(|meta| meta.ino == ino);
        let all = server.root(if badge >> 32 == 0 { badge } else { 0 });
        let all = if is(server, all) { fs::ROOT_OF_ALL } else { 0 };
        let handle = self.handles.entry(badge).and_then(|entry| entry.root);
        match handle {
            Some(root) if is(server, root) => all | fs::ROOT_OF_HANDLE,
            _ => all,
        }
    }

    /// What STAT is about.
    #[inline(always)]
    pub fn status(&mut self, server: &mut S, cx: &mut Context) -> Answer<Stat> {
        let node = if no_path(cx.request) {
            self.start(server, cx.request.badge, cx.request.sender)?
        } else {
            let last = last_for(cx.request.words[1]);
            match self.find_short(server, cx.request, last) {
                Some(Some((node, _))) => node,
                Some(None) => return fail(ENOENT),
                None => self.existing(server, cx, last)?.0,
            }
        };
        server.stat(cx, node)
    }

    pub fn statfs<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let (node, _) = self.existing(server, cx, Last::Follow)?;
        let mut statfs = server.statfs(cx, node)?;
        let bound = |core: &mut Self, flag| core.is_bound(cx.request.badge, flag);
        // As mount(2) has them.
        for (flag, bit) in [
            (mount::READ_ONLY, 1),
            (mount::NO_SET_ID, 2),
            (mount::NO_DEVICES, 4),
            (mount::NO_EXECUTION, 8),
        ] {
            statfs.flags |= if bound(self, flag) { bit } else { 0 };
        }
        let mut bytes = [0; layout::STATFS_SIZE];
        layout::statfs_bytes(&statfs, &mut bytes);
        self.structure[..layout::STATFS_SIZE].copy_from_slice(&bytes);
        Ok(Reply::result(0).data(&self.structure[..layout::STATFS_SIZE]))
    }

    pub fn access<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, want, flags, claimed, ..] = cx.request.words;
        // A short path has taken the label's place.
        if want > 7 || inline_path(cx.request).is_some() && flags & at::EACCESS == 0 {
            return fail(EINVAL);
        }
        let (_, access) = self.existing(server, cx, last_for(flags))?;
        let kept = matches!(access.mode & s::IFMT, s::IFREG | s::IFDIR | s::IFLNK);
        if kept {
            self.check_open(cx.request.badge, &access, want as u32)?;
        }
        if want as u32 & WRITE != 0 && kept && server.read_only() {
            return fail(EROFS);
        }
        // Who asks with the label that it has anyway is not asked about.
        let own = cx.request.label;
        let label = match flags & at::EACCESS != 0 || claimed == own {
            true => own,
            false => {
                let real = cx.transport.real_label(cx.request.sender);
                real.ok_or(Failure::Errno(EACCES))?
            }
        };
        permission::check_as(cx, label, &access, want as u32)?;
        Ok(Reply::result(0))
    }

    pub fn chmod<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, mode, flags, ..] = cx.request.words;
        let (node, access) = self.existing(server, cx, last_for(flags))?;
        if is(&access, s::IFLNK) {
            return fail(EOPNOTSUPP);
        }
        permission::changeable(&access)?;
        permission::owner(cx, &access)?;
        let mut mode = mode as u32 & 0o7777;
        if mode & s::ISGID != 0 && !permission::gives_group_id(cx, access.gid) {
            mode &= !s::ISGID;
        }
        let change = Change {
            mode: Some(mode),
            ..Change::default()
        };
        server.change(cx, node, &change)?;
        tell(&self.shared, node, true);
        self.names_changed(&access);
        self.notice(server, cx, node, what::ATTRIB);
        Ok(Reply::result(0))
    }

    pub fn chown<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, uid, gid, flags, ..] = cx.request.words;
        let (node, access) = self.existing(server, cx, last_for(flags))?;
        permission::changeable(&access)?;
        let given = |id: u64| (id as u32 != u32::MAX).then_some(id as u32);
        let (uid, gid) = (given(uid), given(gid));
        if !cx.has(label::CHOWN) {
            if cx.uid() != access.uid || uid.is_some_and(|uid| uid != access.uid) {
                return fail(EPERM);
            }
            if let Some(gid) = gid {
                if gid != access.gid && gid != cx.gid() && !permission::in_groups(cx, gid) {
                    return fail(EPERM);
                }
            }
        }
        let kept = without_set_id(cx, &access);
        let change = Change {
            mode: (!is(&access, s::IFDIR) && kept != access.mode & 0o7777).then_some(kept),
            uid,
            gid,
            ..Change::default()
        };
        server.change(cx, node, &change)?;
        tell(&self.shared, node, true);
        self.names_changed(&access);
        self.notice(server, cx, node, what::ATTRIB);
        Ok(Reply::result(0))
    }

    pub fn utimens<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, atime, atime_ns, mtime, mtime_ns, flags, ..] = cx.request.words;
        let (node, access) = self.existing(server, cx, last_for(flags))?;
        if atime_ns == UTIME_OMIT && mtime_ns == UTIME_OMIT {
            return Ok(Reply::result(0));
        }
        let both_now = atime_ns == UTIME_NOW && mtime_ns == UTIME_NOW;
        if access.mode & IMMUTABLE != 0 || access.is_fixed() && !both_now {
            return fail(EPERM);
        }
        if both_now && cx.uid() != access.uid {
            // Whoever may write may set the time to now.
            permission::check(cx, &access, WRITE)?;
        } else {
            permission::owner(cx, &access)?;
        }
        let now = cx.now();
        let now = ((now / 1_000_000_000) as i64, (now % 1_000_000_000) as i64);
        let time = |seconds: u64, ns: u64| match ns {
            UTIME_OMIT => Ok(None),
            UTIME_NOW => Ok(Some(now)),
            0..1_000_000_000 => Ok(Some((seconds as i64, ns as i64))),
            _ => fail(EINVAL),
        };
        let change = Change {
            atime: time(atime, atime_ns)?,
            mtime: time(mtime, mtime_ns)?,
            atime_is_now: atime_ns == UTIME_NOW,
            mtime_is_now: mtime_ns == UTIME_NOW,
            ..Change::default()
        };
        server.change(cx, node, &change)?;
        tell(&self.shared, node, true);
        let event = match (change.atime, change.mtime) {
            (Some(_), None) => what::ACCESS,
            (None, Some(_)) => what::MODIFY,
            _ => what::ATTRIB,
        };
        self.notice(server, cx, node, event);
        Ok(Reply::result(0))
    }

    pub fn truncate<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let size = cx.request.words[1];
        if size > i64::MAX as u64 {
            return fail(EINVAL);
        }
        let (node, access) = if cx.request.out_len == 0 {
            let entry = self.entry(cx.request)?;
            if !entry.handle.writable() {
                return Err(barred(entry, EINVAL));
            }
            let node = entry.handle.node;
            (node, server.access(node)?)
        } else {
            let (node, access) = self.existing(server, cx, Last::Follow)?;
            if is(&access, s::IFDIR) {
                return fail(EISDIR);
            }
            check_write(server, cx, node)?;
            self.break_leases(server, cx, node)?;
            (node, access)
        };
        if !is(&access, s::IFREG) {
            return fail(EINVAL);
        }
        // Who has an unchangeable file open for writing opened it before.
        if access.mode & APPEND_ONLY != 0 || access.is_fixed() && cx.request.out_len != 0 {
            return fail(EPERM);
        }
        if drop_set_id(server, cx, node, &access)? {
            self.cache.file_changed();
        }
        changes(&self.shared, node);
        let cut = server.truncate(cx, node, size);
        changed(&self.shared, server, node);
        cut?;
        self.notice(server, cx, node, what::MODIFY);
        Ok(Reply::result(0))
    }

    pub fn readlink<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let (node, access) = self.existing(server, cx, Last::Slash)?;
        if !is(&access, s::IFLNK) {
            return fail(EINVAL);
        }
        let length = server.target(cx, node, &mut self.text)?;
        let length = length.min(cx.request.in_len).min(self.text.len());
        Ok(Reply::result(length as i64).data(&self.text[..length]))
    }

    pub fn getpath<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let node = self.start(server, cx.request.badge, cx.request.sender)?;
        let mut number = 0;
        let mut gone = cx.request.words[1] == 1;
        let length = match server.label(node, &mut self.text) {
            Some(length) => {
                gone = false;
                length
            }
            None => match self.mount_of(cx.request.badge) {
                Some(at) => {
                    let (length, mount) = self.path_from(server, cx, (at, node), &mut gone)?;
                    number = 1 << 32 | u64::from(mount);
                    length
                }
                None => self.absolute(server, cx, node, &mut gone)?,
            },
        };
        let length = self.deleted(gone, length)?;
        if length > cx.request.in_len {
            return fail(ERANGE);
        }
        let words = [length as u64, number];
        Ok(Reply::new(&words).data(&self.text[..length]))
    }

    /// What is shown of a file without a name, behind the path in `self.text`.
    fn deleted(&mut self, gone: bool, length: usize) -> Answer<usize> {
        if !gone {
            return Ok(length);
        }
        let rest = self.text.get_mut(length..length + DELETED.len());
        rest.ok_or(Failure::Errno(ERANGE))?.copy_from_slice(DELETED);
        Ok(length + DELETED.len())
    }

    /// FILE_OF
    #[cold]
    #[inline(never)]
    pub fn file_of<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        if cx.request.badge != NAMES {
            return fail(EPERM);
        }
        let tag = cx.request.words[1];
        let head = self.prefix.len() + 1;
        let room = self.text.get_mut(head..).unwrap_or_default();
        let (length, device, inode) = match server.shown(tag, room) {
            None => return fail(ENOENT),
            Some(Shown::Named(length, device, inode)) => {
                self.text.copy_within(head..head + length, 0);
                (length, device, inode)
            }
            Some(Shown::Gone(length, device, inode)) => {
                let length = self.below_prefix(length);
                (self.deleted(true, length)?, device, inode)
            }
            Some(Shown::File(node)) => {
                let stat = server.stat(cx, node)?;
                let length = match server.label(node, &mut self.text) {
                    Some(length) => Ok(length),
                    None => {
                        let mut gone = true;
                        let length = self.absolute(server, cx, node, &mut gone);
                        length.and_then(|length| self.deleted(gone, length))
                    }
                };
                let length = match length {
                    // Its name is not known.
                    Err(Failure::Errno(_)) => 0,
                    other => other?,
                };
                (length, stat.dev, stat.ino)
            }
        };
        if length > cx.request.in_len {
            return fail(ERANGE);
        }
        let words = [length as u64, device, inode];
        Ok(Reply::new(&words).data(&self.text[..length]))
    }

    /// Absolute path of a node into `self.text`; its length. `gone` as [`path_or_gone`] has it.
    fn absolute(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        node: S::Node,
        gone: &mut bool,
    ) -> Answer<usize> {
        let head = self.prefix.len();
        let room = self.text.get_mut(head + 1..);
        let room = room.ok_or(Failure::Errno(ENAMETOOLONG))?;
        let length = path_or_gone(server, cx, node, room, gone)?;
        Ok(self.below_prefix(length))
    }

    /// A path of this length lies in `self.text` where the prefix leaves room for itself and a slash: the length of both.
    fn below_prefix(&mut self, length: usize) -> usize {
        let head = self.prefix.len();
        self.text[..head].copy_from_slice(&self.prefix);
        self.text[head] = b'/';
        if length == 0 && head != 0 {
            return head;
        }
        (head + 1 + length).min(PATH_MAX)
    }

    /// MOUNT_POINT
    pub fn mount_point<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let portal = Portal(cx.request.words[7] as u32);
        let mut given = (cx.request.portals == 1).then_some(portal);
        let covered = self.cover(server, cx, &mut given);
        if let Some(portal) = given {
            let waits = matches!(covered, Err(Failure::Wait(_) | Failure::WaitEither(_)));
            if !waits {
                cx.transport.close(portal);
            }
        }
        covered
    }

    /// Of the portal that came for the mount, `given` keeps what is not used.
    fn cover<'a>(
        &'a mut self,
        server: &mut S,
        cx: &mut Context,
        given: &mut Option<Portal>,
    ) -> Answer<Reply<'a>> {
        if self.mount_of(cx.request.badge).is_some() {
            let covered = self.covered(server, cx)?;
            return self.cover_here(server, cx, given, covered.0);
        }
        if cx.request.label != 0 {
            return fail(EPERM);
        }
        if given.is_some_and(|portal| cx.transport.leads_to(portal) == Leads::Elsewhere) {
            return fail(EINVAL);
        }
        let (node, access) = self.covered(server, cx)?;
        let mounted = cx.request.words[1] != 0;
        if mounted && !is(&access, s::IFDIR) {
            return fail(ENOTDIR);
        }
        if let Some(at) = self.mounts.iter().position(|mount| mount.node == node) {
            let mount = self.mounts.swap_remove(at);
            if let Some(portal) = mount.portal {
                cx.transport.close(portal);
            }
        }
        let identity = server.identity(node);
        if let Some(identity) = identity {
            self.handles.keepsake().remove_mount(identity);
        }
        self.cache.directory_changed();
        if mounted {
            let length = self.absolute(server, cx, node, &mut false)?;
            server.retain(node);
            let path = &self.text[..length];
            self.mounts.push(Mount {
                node,
                path: path.into(),
                portal: given.take(),
            });
            if let Some(identity) = identity {
                self.handles.keepsake().add_mount(identity, path);
            }
        }
        Ok(Reply::result(0))
    }

    /// What a path leads to, itself and not what is mounted there.
    fn covered(&mut self, server: &mut S, cx: &mut Context) -> Answer<(S::Node, Access)> {
        self.existing(server, cx, Last::Name)
    }

    /// MOUNTED: who may search all folders above a mount gets its portal.
    pub fn mounted<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let (node, _) = self.covered(server, cx)?;
        if let Some(at) = self.mount_of(cx.request.badge) {
            return self.mounted_here(at, node);
        }
        let mount = self.mounts.iter().find(|mount| mount.node == node);
        let mount = mount.ok_or(Failure::Errno(EINVAL))?;
        let portal = mount.portal.ok_or(Failure::Errno(EIO))?;
        Ok(Reply::new(&[0]).portal(portal, false))
    }

    pub fn unmount<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        if !cx.has(label::SYSTEM) {
            return fail(EPERM);
        }
        if cx.request.badge >> 32 != 0 {
            return fail(EINVAL);
        }
        // Who opens something after it has begun finds a server that ends.
        if cx.progress == 0 && !(self.handles.is_empty() && self.mounts.is_empty()) {
            return fail(EBUSY);
        }
        if cx.progress == 0 {
            self.end_marks(server, cx);
        }
        server.unmount(cx)?;
        Ok(Reply::result(0))
    }

    pub fn remount<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let flags = cx.request.words[1];
        if !cx.has(label::SYSTEM) {
            return fail(EPERM);
        }
        let known = mount::READ_ONLY | mount::NO_ACCESS_TIMES | mount::DISCARD | mount::NO_SET_ID;
        if cx.request.badge >> 32 != 0 || flags & !known != 0 {
            return fail(EINVAL);
        }
        let stops = flags & mount::READ_ONLY != 0 && !server.read_only();
        if stops && cx.progress == 0 && self.handles.any(Handle::writable) {
            return fail(EBUSY);
        }
        server.remount(cx, flags)?;
        Ok(Reply::result(0))
    }

    // ---- changes of the tree

    pub fn mkdir<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let mode = cx.request.words[1] as u32 & 0o1777;
        let found = self.find(server, cx, Last::Name)?;
        if found.node.is_some() {
            return fail(EEXIST);
        }
        self.make(server, cx, &found, s::IFDIR | mode, 0, false)?;
        Ok(Reply::result(0))
    }

    /// The address of a local socket may come with a node of that type.
    pub fn mknod<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let address = (cx.request.portals == 1).then_some(Portal(cx.request.words[7] as u32));
        let made = self.make_node(server, cx, address.is_some());
        match (made, address) {
            (Ok(ino), Some(address)) => self.addresses.keep(cx, ino, address),
            (Err(failure @ (Failure::Wait(_) | Failure::WaitEither(_))), _) => return Err(failure),
            (Err(failure), address) => {
                if let Some(address) = address {
                    cx.transport.close(address);
                }
                return Err(failure);
            }
            // One that had the same number may have left its address.
            (Ok(ino), None) if ino != 0 => self.addresses.forget(cx, ino),
            (Ok(_), None) => {}
        }
        Ok(Reply::result(0))
    }

    fn make_node(&mut self, server: &mut S, cx: &mut Context, addressed: bool) -> Answer<u64> {
        let [_, mode, rdev, ..] = cx.request.words;
        let mut mode = mode as u32 & (s::IFMT | 0o7777);
        match mode & s::IFMT {
            0 => mode |= s::IFREG,
            s::IFREG | s::IFIFO | s::IFSOCK => {}
            s::IFCHR | s::IFBLK if cx.has(label::SYSTEM) => {}
            // The device that is none: it hides a name of a lower layer.
            s::IFCHR if rdev as u32 == 0 => {}
            s::IFCHR | s::IFBLK | s::IFDIR => return fail(EPERM),
            _ => return fail(EINVAL),
        }
        let found = self.find(server, cx, Last::Name)?;
        if found.node.is_some() {
            return fail(EEXIST);
        }
        if found.slash {
            return fail(ENOENT);
        }
        if addressed {
            if mode & s::IFMT != s::IFSOCK {
                return fail(EINVAL);
            }
            self.addresses.check_room(cx)?;
            if cx.transport.leads_to(Portal(cx.request.words[7] as u32)) == Leads::Elsewhere {
                return fail(EINVAL);
            }
        }
        let (node, _) = self.make(server, cx, &found, mode, rdev, false)?;
        match mode & s::IFMT {
            s::IFSOCK => Ok(server.meta(node)?.ino),
            _ => Ok(0),
        }
    }

    pub fn symlink<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        self.first.fetch_two(&mut self.second, cx)?;
        if self.first.is_empty() {
            return fail(ENOENT);
        }
        let start = self.start(server, cx.request.badge, cx.request.sender)?;
        let badge = cx.request.badge;
        let found = self.walk(server, cx, (badge, start), Last::Name, true)?;
        let (Some(range), None) = (found.name, found.node) else {
            return fail(EEXIST);
        };
        if found.slash {
            return fail(ENOENT);
        }
        permission::check(cx, &found.dir_access, WRITE | EXECUTE)?;
        let new = New {
            target: self.first.left(),
            ..new_node(cx, &found.dir_access, s::IFLNK | 0o777, 0, &[])
        };
        self.cache.name_made();
        server.create(cx, found.dir, self.second.name(range), &new)?;
        if self.notices.any() {
            let name = Name::new(self.second.name(range));
            self.name_made(server, cx, (found.dir, &name), (s::IFLNK, None));
        }
        Ok(Reply::result(0))
    }

    pub fn unlink<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let remove_dir = cx.request.words[1] & at::REMOVEDIR != 0;
        let found = self.find(server, cx, Last::Name)?;
        if found.name.is_some() && server.read_only() {
            return fail(EROFS);
        }
        let (node, access) = found.node.ok_or(Failure::Errno(ENOENT))?;
        let Some(range) = found.name else {
            return fail(match found.last {
                // A file that is mounted.
                _ if !is(&access, s::IFDIR) => EBUSY,
                _ if !remove_dir => EISDIR,
                Dots::Dot => EINVAL,
                Dots::DotDot => ENOTEMPTY,
                _ => EBUSY,
            });
        };
        self.may_remove(cx, &found.dir_access, &access)?;
        let marked = self.marked(server, node).map(|inode| (node, inode));
        if remove_dir {
            if !is(&access, s::IFDIR) {
                return fail(ENOTDIR);
            }
            if self.is_mount_point(cx.request.badge, node) {
                return fail(EBUSY);
            }
            let name = self.first.name(range);
            server.rmdir(cx, found.dir, name, node)?;
        } else {
            if is(&access, s::IFDIR) {
                return fail(EISDIR);
            }
            if self.mount_of(cx.request.badge).is_some()
                && self.is_mount_point(cx.request.badge, node)
            {
                return fail(EBUSY);
            }
            let socket = self.last_of_socket(server, cx, node, access.mode);
            let name = self.first.name(range);
            server.unlink(cx, found.dir, name, node)?;
            if let Some(ino) = socket {
                self.addresses.forget(cx, ino);
            }
            tell(&self.shared, node, true);
        }
        self.names_changed(&access);
        if self.notices.any() {
            let name = Name::new(self.first.name(range));
            self.name_removed(server, cx, (found.dir, &name), access.mode, marked);
        }
        Ok(Reply::result(0))
    }

    fn may_remove(&self, cx: &mut Context, dir: &Access, node: &Access) -> Answer<()> {
        permission::check(cx, dir, WRITE | EXECUTE)?;
        permission::sticky(cx, dir, node)?;
        match dir.mode & APPEND_ONLY != 0 {
            true => fail(EPERM),
            false => permission::changeable(node),
        }
    }

    /// The badge of the portal that the second path starts at: the passed one's, or the first's. EXDEV if it leads to another manager, but only
    /// when that matters (the first path may leave this manager, too).
    pub fn second_badge(&mut self, cx: &mut Context) -> Answer<u64> {
        if cx.request.portals == 0 {
            return Ok(cx.request.badge);
        }
        // The portal is closed when the request runs for the first time; if it waits it takes with it what that led to.
        if cx.progress == 0 {
            let portal = Portal(cx.request.words[7] as u32);
            cx.progress = match cx.transport.own_badge(portal) {
                Some(badge) => badge.wrapping_add(1),
                None => ELSEWHERE,
            };
            cx.transport.close(portal);
        }
        match cx.progress {
            ELSEWHERE => fail(EXDEV),
            progress => {
                let badge = progress.wrapping_sub(1);
                match self.mount_of(badge) == self.mount_of(cx.request.badge) {
                    true => Ok(badge),
                    // A new name is looked at where it is to be; a file's other one is not looked at then.
                    false if cx.request.words[0] == fs::LINK => {
                        self.check_changes(badge)?;
                        fail(EXDEV)
                    }
                    false => fail(EXDEV),
                }
            }
        }
    }

    pub fn link<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let second = self.second_badge(cx);
        self.first.fetch_two(&mut self.second, cx)?;
        let start = self.start(server, cx.request.badge, cx.request.sender)?;
        let last = if cx.request.words[1] & at::SYMLINK_FOLLOW != 0 {
            Last::Follow
        } else {
            Last::Slash
        };
        let old = self.walk(server, cx, (cx.request.badge, start), last, false)?;
        let (node, access) = old.node.ok_or(Failure::Errno(ENOENT))?;
        let badge = second?;
        let second = self.start(server, badge, cx.request.sender)?;
        let new = self.walk(server, cx, (badge, second), Last::Name, true)?;
        let (Some(range), None) = (new.name, new.node) else {
            return fail(EEXIST);
        };
        if new.slash {
            return fail(ENOENT);
        }
        if is(&access, s::IFDIR) {
            return fail(EPERM);
        }
        permission::changeable(&access)?;
        permission::link(cx, &access)?;
        permission::check(cx, &new.dir_access, WRITE | EXECUTE)?;
        self.cache.name_made();
        server.link(cx, node, new.dir, self.second.name(range))?;
        tell(&self.shared, node, true);
        if self.notices.any() {
            let name = Name::new(self.second.name(range));
            self.name_made(server, cx, (new.dir, &name), (access.mode, Some(node)));
        }
        Ok(Reply::result(0))
    }

    pub fn rename<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let flags = cx.request.words[1];
        let exchange = flags & RENAME_EXCHANGE != 0;
        let whiteout = flags & RENAME_WHITEOUT != 0;
        let second = self.second_badge(cx);
        if flags & !(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT) != 0
            || exchange && flags & (RENAME_NOREPLACE | RENAME_WHITEOUT) != 0
            || whiteout && !server.keeps_whiteouts()
        {
            return fail(EINVAL);
        }
        self.first.fetch_two(&mut self.second, cx)?;
        let start = self.start(server, cx.request.badge, cx.request.sender)?;
        let old = self.walk(server, cx, (cx.request.badge, start), Last::Name, false)?;
        let badge = second?;
        let second = self.start(server, badge, cx.request.sender)?;
        let new = self.walk(server, cx, (badge, second), Last::Name, true)?;
        let (Some(old_name), Some(new_name)) = (old.name, new.name) else {
            return fail(EBUSY);
        };
        if server.read_only() {
            return fail(EROFS);
        }
        let (node, access) = old.node.ok_or(Failure::Errno(ENOENT))?;
        if new.node.is_some() && flags & RENAME_NOREPLACE != 0 {
            return fail(EEXIST);
        }
        if new.node.is_none() && exchange {
            return fail(ENOENT);
        }
        let directory = is(&access, s::IFDIR);
        if new.slash && !directory && !exchange {
            return fail(ENOTDIR);
        }
        if directory && self.lies_in(server, cx, new.dir, node)? {
            return fail(EINVAL);
        }
        if let Some((other, other_meta)) = new.node {
            let other_is_dir = is(&other_meta, s::IFDIR);
            if other_is_dir && self.lies_in(server, cx, old.dir, other)? {
                return fail(if exchange { EINVAL } else { ENOTEMPTY });
            }
            if other == node {
                return Ok(Reply::result(0));
            }
            self.may_remove(cx, &old.dir_access, &access)?;
            self.may_remove(cx, &new.dir_access, &other_meta)?;
            if !exchange && directory != other_is_dir {
                return fail(if directory { ENOTDIR } else { EISDIR });
            }
        } else {
            self.may_remove(cx, &old.dir_access, &access)?;
            permission::check(cx, &new.dir_access, WRITE | EXECUTE)?;
        }
        // A directory that changes its parent has its `..` written.
        if directory && old.dir != new.dir {
            permission::check(cx, &access, WRITE)?;
        }
        let replaced = new.node.map(|(other, _)| other);
        let at = cx.request.badge;
        if self.is_mount_point(at, node) || replaced.is_some_and(|n| self.is_mount_point(at, n)) {
            return fail(EBUSY);
        }
        let socket = match new.node {
            Some((other, access)) if !exchange => {
                self.last_of_socket(server, cx, other, access.mode)
            }
            _ => None,
        };
        let marked = replaced.filter(|_| !exchange);
        let marked = marked.and_then(|other| Some((other, self.marked(server, other)?)));
        let rename = Rename {
            from: old.dir,
            from_name: self.first.name(old_name),
            node,
            to: new.dir,
            to_name: self.second.name(new_name),
            replaced,
            exchange,
        };
        self.cache.name_made();
        server.rename(cx, &rename)?;
        if whiteout {
            // A device of number 0 says that nothing is there. Without room for it the name is as before (what was replaced is gone).
            let new = new_node(cx, &old.dir_access, s::IFCHR, 0, &[]);
            if let Err(failure) = server.create(cx, rename.from, rename.from_name, &new) {
                let back = Rename {
                    from: rename.to,
                    from_name: rename.to_name,
                    to: rename.from,
                    to_name: rename.from_name,
                    replaced: None,
                    ..rename
                };
                server.rename(cx, &back)?;
                return Err(failure);
            }
        }
        if let Some(ino) = socket {
            self.addresses.forget(cx, ino);
        }
        tell(&self.shared, node, true);
        self.names_changed(&access);
        if let Some((_, other)) = new.node {
            self.names_changed(&other);
        }
        if self.notices.any() {
            let from = (old.dir, &Name::new(self.first.name(old_name)));
            let to = (new.dir, &Name::new(self.second.name(new_name)));
            let other = new.node.map(|(other, access)| (other, access.mode));
            let replaced = marked
                .zip(other)
                .map(|((other, inode), (_, mode))| (other, inode, mode));
            self.name_moved(server, cx, from, to, (node, access.mode), replaced);
            if let Some(other) = other.filter(|_| exchange) {
                self.name_moved(server, cx, to, from, other, None);
            }
        }
        Ok(Reply::result(0))
    }

    /// Is `dir` the directory `above` or below it?
    fn lies_in(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        mut dir: S::Node,
        above: S::Node,
    ) -> Answer<bool> {
        let root = server.root(0);
        loop {
            if dir == above {
                return Ok(true);
            }
            if dir == root {
                return Ok(false);
            }
            dir = server.parent(cx, dir)?;
        }
    }
}

/// Opening of what may not change, or only grow.
fn check_fixed(flags: u64, access: &Access) -> Answer<()> {
    let writes = flags & o::ACCMODE != o::RDONLY || flags & o::TRUNC != 0;
    let appends = flags & o::APPEND != 0 && flags & o::TRUNC == 0;
    match writes && access.is_fixed() && (access.mode & IMMUTABLE != 0 || !appends) {
        true => fail(EPERM),
        false => Ok(()),
    }
}

/// Owner, group and mode of something new in a directory: a directory with the set-group-id bit gives its group on. Who is no member of that group makes no program that runs with it.
fn new_node<'t>(cx: &mut Context, dir: &Access, mode: u32, rdev: u64, target: &'t [u8]) -> New<'t> {
    let mut new = New {
        mode,
        uid: cx.uid(),
        gid: cx.gid(),
        rdev,
        target,
    };
    if dir.mode & s::ISGID != 0 {
        const RUNS: u32 = s::ISGID | 0o010;
        new.gid = dir.gid;
        if mode & s::IFMT == s::IFDIR {
            new.mode |= s::ISGID;
        } else if mode & RUNS == RUNS && !permission::gives_group_id(cx, dir.gid) {
            new.mode &= !s::ISGID;
        }
    }
    new
}

/// What Linux writes behind the place of what has been unlinked.
const DELETED: &[u8] = b" (deleted)";

/// [`Server::path`], or, if `gone` asks for it and the node has no name any more, [`Server::gone`]: then `gone` stays true.
pub(crate) fn path_or_gone<S: Server>(
    server: &mut S,
    cx: &mut Context,
    node: S::Node,
    into: &mut [u8],
    gone: &mut bool,
) -> Answer<usize> {
    let asked = core::mem::take(gone);
    match server.path(cx, node, into) {
        Err(Failure::Errno(ENOENT)) if asked => {
            let length = server.gone(cx, node, into);
            *gone = length.is_some();
            length.ok_or(Failure::Errno(ENOENT))
        }
        other => other,
    }
}
