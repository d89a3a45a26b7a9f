//! From a request to its answer: decoding, the handle it came through, and what becomes of the callback's result.
//!
//! Every request is answered exactly once: by the reply that [`Core::dispatch`] makes, or later when it has waited and runs again, or with
//! EINTR when the caller was interrupted. [`crate::event`] sends the replies.

use crate::addresses::Addresses;
use crate::cache::{Cache, Known};
use crate::context::{inline_path, path_words, Context, Failure};
use crate::frames::Shared;
use crate::handle::{Handles, Recovered};
use crate::keep::Keepsake;
use crate::layout::STAT_SIZE;
use crate::lease::Leases;
use crate::lock::Locks;
use crate::names::last_for;
use crate::notice::Notices;
use crate::path::{Found, Last, Names, Walk};
use crate::private::PrivateMount;
use crate::server::{Access, Answer, Server};
use crate::table::Table;
use crate::transport::{Transport, BACKGROUND};
use crate::waiting::{Again, Lot, Waiting};
use crate::watch::Watches;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::{flag, Id, Token};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, at};
use cairn_idl::label;
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

/// Most bytes of directory records in one answer.
pub(crate) const RECORDS: usize = 32 * 1024;

/// A manager: all open files, waiting requests and buffers of one server.
pub struct Manager<S: Server> {
    pub(crate) core: Core<S>,
    pub(crate) waiting: Waiting,
    pub(crate) lot: Lot,
    pub(crate) redirect: Vec<u8>,
    /// Pulses that came too early.
    pub(crate) early: Vec<Received>,
    /// What goes on now does so because its time has come.
    pub(crate) resumes: bool,
    /// More requests that waited are to run: those who came meanwhile go first.
    pub(crate) backlog: bool,
}

/// Open files and buffers.
pub(crate) struct Core<S: Server> {
    pub handles: Handles<S>,
    pub locks: Locks,
    pub leases: Leases,
    /// Numbers of the processes of whose end this server hears, by domain.
    pub attended: BTreeMap<u32, u32>,
    /// Files that are read without asking.
    pub shared: Vec<Shared<S::Node>>,
    /// The last READ or READDIR that moved a position: token, badge, and where it was, for the case that the data cannot be delivered.
    pub moved: (Token, u64, u64),
    /// Absolute path that this manager is mounted at; the root of all is the empty path.
    pub prefix: Box<[u8]>,
    /// Addresses of local sockets that were bound to nodes.
    pub addresses: Addresses,
    /// Nodes that other managers are mounted on.
    pub mounts: Vec<Mount<S::Node>>,
    /// Mounts of name spaces of their own.
    pub private: Table<PrivateMount<S::Node>>,
    pub notices: Notices<S::Node>,
    pub cache: Cache<S::Node>,
    pub first: Names,
    /// Empty until an operation has two paths.
    pub second: Names,
    /// Target of a symbolic link, or the path of a node.
    pub text: Box<[u8]>,
    /// Empty until somebody reads a directory.
    pub records: Box<[u8]>,
    /// Value or names of extended attributes.
    pub value: Vec<u8>,
    pub structure: [u8; STAT_SIZE],
}

/// A buffer of zeroes that not every server needs, from its first use on. ENOMEM: there is no memory for it.
#[inline]
pub(crate) fn have_room(buffer: &mut Box<[u8]>, length: usize) -> Answer<()> {
    if buffer.is_empty() {
        *buffer = zeroes(length).ok_or(Failure::Errno(ENOMEM))?;
    }
    Ok(())
}

#[cold]
fn zeroes(length: usize) -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    bytes.resize(length, 0);
    Some(bytes.into_boxed_slice())
}

/// Another manager is mounted on a node.
pub(crate) struct Mount<N> {
    pub node: N,
    /// Its absolute path.
    pub path: Vec<u8>,
    /// The mount portal, for who got as far as there. A successor does not have it.
    pub portal: Option<Portal>,
}

impl<S: Server> Manager<S> {
    /// `prefix` is the absolute path that the manager is mounted at, without a slash at its end (the root of all: empty).
    pub fn new(prefix: &[u8]) -> Manager<S> {
        Manager {
            core: Core {
                handles: Handles::default(),
                locks: Locks::default(),
                leases: Leases::default(),
                attended: BTreeMap::new(),
                shared: Vec::new(),
                moved: (0, 0, 0),
                prefix: prefix.into(),
                addresses: Addresses::default(),
                mounts: Vec::new(),
                private: Table::default(),
                notices: Notices::default(),
                cache: Cache::new(S::STABLE_NAMES),
                first: Names::new(),
                second: Names::later(),
                text: vec![0; fs::PATH_MAX].into_boxed_slice(),
                records: Box::default(),
                value: Vec::new(),
                structure: [0; STAT_SIZE],
            },
            waiting: Waiting::default(),
            lot: Lot::default(),
            redirect: Vec::new(),
            early: Vec::new(),
            resumes: false,
            backlog: false,
        }
    }

    /// Go on where a predecessor was killed, and leave to a successor what is open from now on. (Before anything is served.)
    pub fn recover(&mut self, server: &mut S, keep: Keepsake) -> Recovered {
        let core = &mut self.core;
        let told = core
            .handles
            .recover(keep, |identity| server.recover(identity));
        let keep = core.handles.keepsake();
        let (ranges, whole) = keep.locks();
        let mounts = keep.mounts();
        for (ino, lock, kept) in ranges {
            core.locks.restore(keep, ino, lock, kept);
        }
        for (ino, badge, how, kept) in whole {
            core.locks.restore_whole(keep, ino, badge, how, kept);
        }
        for (identity, path) in mounts {
            match server.recover(identity) {
                Some((node, _)) => core.mounts.push(Mount {
                    node,
                    path,
                    portal: None,
                }),
                None => core.handles.keepsake().remove_mount(identity),
            }
        }
        told
    }

    /// Of the handles that a predecessor left those end that nobody has: it was to hear of their ends, or had not answered who opened them, when it was killed. (Before anything is served.)
    /// How many they were. If the nucleus does not tell, all stay.
    pub fn end_unheld(&mut self, server: &mut S, transport: &mut dyn Transport) -> usize {
        let mut held = BTreeSet::new();
        let mut place = 0;
        loop {
            match transport.next_badge(place) {
                Ok(Some((next, badge))) => {
                    held.insert(badge);
                    place = next;
                }
                Ok(None) => break,
                Err(_) => return 0,
            }
        }
        let badges = self.core.handles.badges();
        let unheld: Vec<u64> = badges.filter(|badge| !held.contains(badge)).collect();
        for &badge in &unheld {
            self.close(server, transport, badge);
        }
        unheld.len()
    }

    /// How many files are open.
    pub fn open_files(&self) -> usize {
        self.core.handles.len()
    }

    /// Bytes that are charged to a user here, and the pages that `vm` counts for them.
    pub fn usage(&self, uid: u32) -> (u64, u64) {
        self.waiting.later.accounts.usage(uid)
    }

    /// Bytes of these that are for handles, counted anew.
    pub fn usage_of_handles(&self, uid: u32) -> u64 {
        self.core.handles.cost_of(uid)
    }

    /// How many requests wait.
    pub fn waiting_requests(&self) -> usize {
        self.waiting.len()
    }
}

/// A STAT whose answer goes in words.
#[inline(always)]
pub(crate) fn asks_words(request: &Received) -> bool {
    request.words[0] == fs::STAT && request.words[1] & fs::STAT_WORDS != 0
}

/// Operations that cannot be done twice.
fn changes_names(operation: u64) -> bool {
    const ALL: u64 = 1 << fs::MKDIR
        | 1 << fs::MKNOD
        | 1 << fs::UNLINK
        | 1 << fs::RENAME
        | 1 << fs::LINK
        | 1 << fs::SYMLINK;
    operation < 64 && ALL >> operation & 1 != 0
}

/// What is EROFS in a mount that is read only, whatever it is about. (Opening and making directories look first whether there is something.)
fn changes_files(request: &Received) -> bool {
    const ALL: u64 = 1 << fs::MKNOD
        | 1 << fs::UNLINK
        | 1 << fs::RENAME
        | 1 << fs::LINK
        | 1 << fs::SYMLINK
        | 1 << fs::CHMOD
        | 1 << fs::CHOWN
        | 1 << fs::UTIMENS;
    match request.words[0] {
        fs::TRUNCATE => request.out_len != 0,
        fs::XATTR => matches!(request.words[1], 1 | 3),
        operation => operation < 64 && ALL >> operation & 1 != 0,
    }
}

impl<S: Server> Core<S> {
    /// Work on a request; the (empty) reply is filled, or it must wait for one of two keys. The reply may carry data of the server's, straight from where it lies.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn dispatch<'a>(
        &'a mut self,
        server: &'a mut S,
        waiting: &mut Waiting,
        redirect: &'a mut Vec<u8>,
        transport: &mut dyn Transport,
        request: &Received,
        again: &mut Again,
        reply: &mut Reply<'a>,
    ) -> Option<[u64; 2]> {
        let mut cx = Context {
            request,
            progress: again.progress,
            progress_is_result: again.progress_is_result,
            repeated: again.repeated,
            transport,
            later: &mut waiting.later,
        };
        let result = match request.words[0] {
            fs::READ => self.read(server, &mut cx, reply),
            fs::WRITE => self.write(server, &mut cx, reply),
            fs::OPEN => self.open(server, &mut cx, reply),
            fs::STAT => self.stat(server, &mut cx, reply),
            _ => match self.perform(server, &mut cx, &mut waiting.watches) {
                Ok(answer) => {
                    *reply = answer;
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
        };
        let Err(failure) = result else { return None };
        again.progress = cx.progress;
        again.progress_is_result = cx.progress_is_result;
        match failure {
            Failure::Errno(number) => {
                reply.words[0] = -number as u64;
                None
            }
            Failure::Redirect if request.in_len == 0 && inline_path(request).is_some() => {
                reply.words[0] = -REDIRECT as u64;
                None
            }
            Failure::Redirect => {
                core::mem::swap(redirect, &mut waiting.later.redirect);
                let right = waiting.later.right.take();
                if redirect.len() > fs::PATH_MAX || redirect.len() > request.in_len {
                    reply.words[0] = -ENAMETOOLONG as u64;
                    if let Some(right) = right {
                        transport.close(right);
                    }
                } else {
                    reply.words[0] = -REDIRECT as u64;
                    reply.words[1] = redirect.len() as u64;
                    reply.words[2] = waiting.later.which;
                    reply.words[3] = waiting.later.place;
                    if let Some(right) = right {
                        reply.words[7] = u64::from(right.0);
                        reply.portals = 1;
                        reply.flags = flag::MOVE;
                    }
                    reply.data = redirect;
                }
                None
            }
            Failure::Wait(key) => Some([key; 2]),
            Failure::WaitEither(keys) => Some(keys),
        }
    }

    /// The operations that are not asked for all the time.
    #[inline(never)]
    fn perform<'a>(
        &'a mut self,
        server: &'a mut S,
        cx: &mut Context,
        watches: &mut Watches,
    ) -> Answer<Reply<'a>> {
        if cx.request.badge == BACKGROUND {
            let more = match self.locks.are_going() {
                true => {
                    self.some_locks_go(cx);
                    true
                }
                false => self.some_watches(server, cx, watches) || server.background(cx),
            };
            if !more {
                cx.transport.end_background();
            }
            return Ok(Reply::result(more.into()));
        }
        if changes_names(cx.request.words[0]) && server.carried_out(cx) {
            // If a portal came for the second path it is closed.
            let _ = self.second_badge(cx);
            return Ok(Reply::result(0));
        }
        if changes_files(cx.request) {
            self.check_changes(cx.request.badge)?;
        }
        match cx.request.words[0] {
            fs::SEEK => self.seek(server, cx),
            fs::READDIR => self.readdir(server, cx),
            fs::TRUNCATE => self.truncate(server, cx),
            fs::SYNC => self.sync(server, cx),
            fs::STATFS => self.statfs(server, cx),
            fs::CHMOD => self.chmod(server, cx),
            fs::CHOWN => self.chown(server, cx),
            fs::UTIMENS => self.utimens(server, cx),
            fs::ACCESS => self.access(server, cx),
            fs::MKDIR => self.mkdir(server, cx),
            fs::MKNOD => self.mknod(server, cx),
            fs::UNLINK => self.unlink(server, cx),
            fs::RENAME => self.rename(server, cx),
            fs::LINK => self.link(server, cx),
            fs::SYMLINK => self.symlink(server, cx),
            fs::READLINK => self.readlink(server, cx),
            fs::GETPATH => self.getpath(server, cx),
            fs::FILE_OF => self.file_of(server, cx),
            fs::DESCRIBE => self.describe(server, cx),
            fs::FILE_HANDLE => self.file_handle(server, cx),
            fs::EXECUTE => self.execute(server, cx),
            fs::ADDRESS => self.address(server, cx),
            fs::GETFLAGS => self.getflags(cx),
            fs::SETFLAGS => self.setflags(server, cx),
            fs::IOCTL => self.ioctl(server, cx),
            fs::POLL => self.poll(server, cx),
            fs::WATCH => self.watch(server, cx, watches),
            fs::MARK => self.mark(server, cx),
            fs::MMAP => self.map(server, cx),
            fs::FRAMES => self.frames(server, cx),
            fs::ALLOCATE => self.allocate(server, cx),
            fs::LOCK => self.lock(server, cx),
            fs::FLOCK => self.flock(server, cx),
            fs::LEASE => self.lease(server, cx),
            fs::LOCKS => self.list_locks(server, cx),
            fs::MOUNT_POINT => self.mount_point(server, cx),
            fs::BIND => self.bind(server, cx),
            fs::BOUND => self.bound(cx),
            fs::MOUNT_TEXT => self.mount_text(cx),
            fs::MOUNTED => self.mounted(server, cx),
            fs::UNMOUNT => self.unmount(server, cx),
            fs::REMOUNT => self.remount(server, cx),
            fs::XATTR => self.attribute(server, cx),
            // Only a new request can be (`Manager::set_aside`).
            fs::CLOSE => Err(Failure::Errno(EBUSY)),
            _ => server.special(cx, &mut self.handles),
        }
    }

    /// What leads to or through this node may lead elsewhere now.
    pub fn names_changed(&mut self, node: &Access) {
        if node.is_directory() || node.is_link() {
            self.cache.directory_changed();
        } else {
            self.cache.file_changed();
        }
    }

    /// The node that a portal stands for.
    #[inline(always)]
    pub fn start(&mut self, server: &mut S, badge: u64, sender: Id) -> Answer<S::Node> {
        if badge >> 32 == 0 {
            return Ok(server.root(badge));
        }
        match self.handles.used_by(badge, sender) {
            Some(entry) => Ok(entry.handle.node),
            None => Err(self.handles.missing(badge)),
        }
    }

    /// The node above which no name from this portal leads: of a handle, its root; of a portal of the server's own kind, what it stands for.
    #[inline(always)]
    pub fn root(&mut self, server: &mut S, badge: u64) -> Option<S::Node> {
        match badge >> 32 {
            0 if badge == 0 => None,
            0 => Some(server.root(badge)),
            _ => self.handles.entry(badge)?.root,
        }
    }

    /// Take the path of the request and walk it from the portal's node. A slash behind something that is no directory is ENOTDIR.
    #[inline(never)]
    pub fn find(&mut self, server: &mut S, cx: &mut Context, last: Last) -> Answer<Found<S::Node>> {
        self.find_here(server, cx, last)
    }

    /// The same, for opening.
    #[inline(always)]
    pub fn find_here(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        last: Last,
    ) -> Answer<Found<S::Node>> {
        self.first.fetch(cx)?;
        let start = self.start(server, cx.request.badge, cx.request.sender)?;
        self.walk(server, cx, (cx.request.badge, start), last, false)
    }

    /// What a short path leads to, if that is remembered.
    #[inline(always)]
    pub fn find_short(
        &mut self,
        server: &mut S,
        request: &Received,
        last: Last,
    ) -> Option<Known<S::Node>> {
        let follows = matches!(last, Last::Follow | Last::Slash);
        if !S::STABLE_NAMES || !label::has(request.label, label::ACCESS) || !follows {
            return None;
        }
        let length = inline_path(request)?;
        let start = match request.badge {
            0 => server.root(0),
            badge if badge >> 32 == 0 => return None,
            badge => {
                let entry = self.handles.used_by(badge, request.sender)?;
                if entry.root.is_some() {
                    return None;
                }
                entry.handle.node
            }
        };
        let follows = last == Last::Follow;
        self.cache
            .find_short(path_words(request), length, start, follows)
    }

    /// Whether an OPEN that makes nothing names what is known not to be there.
    #[inline(always)]
    pub fn leads_nowhere(&mut self, server: &mut S, request: &Received) -> bool {
        request.words[1] & fs::o::CREAT == 0
            && matches!(self.find_short(server, request, Last::Follow), Some(None))
    }

    /// Whether an ACCESS in order names such a thing, as programs do that look for what is seldom there.
    #[inline(never)]
    pub fn misses(&mut self, server: &mut S, request: &Received) -> bool {
        let [_, want, flags, ..] = request.words;
        let last = last_for(flags);
        want <= 7
            && flags & at::EACCESS != 0
            && matches!(self.find_short(server, request, last), Some(None))
    }

    /// Walk from the node of this portal.
    #[inline(always)]
    pub fn walk(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        (badge, start): (u64, S::Node),
        last: Last,
        second: bool,
    ) -> Answer<Found<S::Node>> {
        let root = self.root(server, badge);
        let at = self.mount_of(badge);
        let top = at.is_some() && !self.handles.entry(badge).is_some_and(|e| e.below);
        cx.later.which = second as u64;
        let names = if second {
            &mut self.second
        } else {
            &mut self.first
        };
        Walk {
            prefix: &self.prefix,
            root,
            mounts: &self.mounts,
            private: at.and_then(|at| self.private.get(at)),
            top,
            cache: &mut self.cache,
            link: &mut self.text,
        }
        .run(server, cx, names, start, last)
    }

    /// As [`Core::find`], and it must exist.
    pub fn existing(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        last: Last,
    ) -> Answer<(S::Node, Access)> {
        self.find(server, cx, last)?
            .node
            .ok_or(Failure::Errno(ENOENT))
    }
}
