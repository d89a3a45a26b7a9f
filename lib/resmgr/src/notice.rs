//! Marks: which files somebody is told about whatever happens to them ([`fs::MARK`], inotify). The event server hears of each thing before the request is answered that did it, so whoever has the answer finds it there.
//!
//! A mark on a directory hears of what happens in it as well, with the name. Where a file has its name the server says ([`Server::home`]); a file with several names is told of under one of them.
//! A marked file stays until its marks have heard that it is gone. Marks whose queue is closed go when there is something to tell, or when marks have become
//! twice as many as the last time that all were asked for: then some are asked for with each new one.

use crate::chains::Chains;
use crate::context::{Context, Failure};
use crate::handle::Handle;
use crate::manager::Core;
use crate::permission;
use crate::server::{Answer, Server};
use crate::table::Table;
use cairn_abi::Id;
use cairn_idl::errno::{ENOMEM, ENOTDIR};
use cairn_idl::event::{self, happened};
use cairn_idl::fs::{kind, o, s, Stat, FRAMES_SEQUENCE, NAME_MAX};
use cairn_rt::channel::Reply;

/// What happens, as inotify has it.
pub mod what {
    pub const ACCESS: u64 = 1;
    pub const MODIFY: u64 = 2;
    pub const ATTRIB: u64 = 4;
    pub const CLOSE_WRITE: u64 = 8;
    pub const CLOSE_NOWRITE: u64 = 0x10;
    pub const OPEN: u64 = 0x20;
    pub const MOVED_FROM: u64 = 0x40;
    pub const MOVED_TO: u64 = 0x80;
    pub const CREATE: u64 = 0x100;
    pub const DELETE: u64 = 0x200;
    pub const DELETE_SELF: u64 = 0x400;
    pub const MOVE_SELF: u64 = 0x800;
}

/// Fewer are not worth asking for.
const FEW: usize = 64;
/// How many MARKS asks for at a time, and how often that is done for a new mark.
const ASKED: usize = 6;
const ASKS: usize = 8;

struct Mark<N> {
    node: N,
    inode: u64,
    number: u64,
    watcher: Id,
    events: u64,
    payer: u32,
    directory: bool,
    /// A directory that was removed, and that somebody has open.
    removed: bool,
}

/// All marks of a manager.
pub(crate) struct Notices<N> {
    marks: Table<Mark<N>>,
    by_inode: Chains,
    /// Of these, those on directories, and those that want to hear of reads.
    directories: usize,
    reads: usize,
    /// Ask which are there when there are so many, from this one on.
    many: usize,
    asked: u32,
    cookie: u32,
    /// What the request in progress has read.
    pub read: Option<N>,
}

impl<N> Default for Notices<N> {
    fn default() -> Notices<N> {
        Notices {
            marks: Table::default(),
            by_inode: Chains::default(),
            directories: 0,
            reads: 0,
            many: FEW,
            asked: 0,
            cookie: 0,
            read: None,
        }
    }
}

impl<N: Copy> Notices<N> {
    const COST: usize = size_of::<Mark<N>>() + 32;

    #[inline(always)]
    pub fn any(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Reads are not to go past the server.
    pub fn want_reads(&self) -> bool {
        self.reads != 0
    }

    /// What a file's two names in a rename have in common.
    pub fn cookie(&mut self) -> u64 {
        self.cookie = self.cookie.wrapping_add(1).max(1);
        u64::from(self.cookie) << 32
    }

    fn add(&mut self, mark: Mark<N>) -> Option<()> {
        if !self.marks.reserve(1) || !self.by_inode.reserve(self.marks.len() + 1) {
            return None;
        }
        let inode = mark.inode;
        self.directories += usize::from(mark.directory);
        self.reads += usize::from(mark.events & what::ACCESS != 0);
        let at = self.marks.insert(mark)?;
        if !self.by_inode.reserve(at as usize + 1) {
            self.forget(at);
            return None;
        }
        self.by_inode.insert(at, inode);
        Some(())
    }

    fn forget(&mut self, at: u32) -> Option<Mark<N>> {
        let mark = self.marks.remove(at)?;
        self.by_inode.remove(at);
        self.directories -= usize::from(mark.directory);
        self.reads -= usize::from(mark.events & what::ACCESS != 0);
        Some(mark)
    }
}

/// A name that outlives the buffer that it came in.
pub(crate) struct Name([u8; NAME_MAX], usize);

impl Name {
    pub fn new(name: &[u8]) -> Name {
        let mut copy = Name([0; NAME_MAX], name.len().min(NAME_MAX));
        copy.0[..copy.1].copy_from_slice(&name[..copy.1]);
        copy
    }

    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl<S: Server> Core<S> {
    /// MARK
    pub fn mark<'a>(&'a mut self, server: &mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, number, flags, directory, ..] = cx.request.words;
        let (node, access) = self.existing(server, cx, crate::names::last_for(flags))?;
        let is_directory = access.is_directory();
        if directory != 0 && !is_directory {
            return Err(Failure::Errno(ENOTDIR));
        }
        // Who has it open to be read was let through to it.
        let entry = match cx.request.out_len {
            0 => self.handles.entry(cx.request.badge),
            _ => None,
        };
        if !entry.is_some_and(|entry| entry.handle.readable()) {
            permission::check(cx, &access, permission::READ)?;
        }
        let Stat {
            ino: inode, dev, ..
        } = server.stat(cx, node)?;
        if self.notices.marks.len() >= self.notices.many {
            // Until all were asked for.
            self.notices.many = 0;
            let all = (0..ASKS).any(|_| {
                let next = self.notices.asked;
                self.notices.asked = self.sweep(server, cx, next).map_or(0, |last| last + 1);
                self.notices.asked == 0
            });
            if all {
                self.notices.many = (2 * self.notices.marks.len()).max(FEW);
            }
        }
        // One that this takes the place of, among others.
        self.sweep_file(server, cx, inode);
        let payer = cx.payer();
        cx.charge(payer, Notices::<S::Node>::COST)?;
        let watcher = cx.request.sender;
        let words = [
            event::MARKED,
            number,
            u64::from(watcher),
            inode,
            dev,
            0,
            0,
            0,
        ];
        let answer = cx.transport.event(&words);
        if answer < 0 {
            cx.refund(payer, Notices::<S::Node>::COST);
            return Err(Failure::Errno(-answer));
        }
        let mark = Mark {
            node,
            inode,
            number,
            watcher,
            events: answer as u64 >> event::EVENTS_SHIFT,
            payer,
            directory: is_directory,
            removed: false,
        };
        if mark.events & what::ACCESS != 0 {
            for shared in &self.shared {
                shared.set(FRAMES_SEQUENCE, 0);
            }
        }
        if self.notices.add(mark).is_none() {
            cx.refund(payer, Notices::<S::Node>::COST);
            let gone = happened::IGNORED;
            let words = [event::NOTICE, number, watcher.into(), gone, 0, 0, 0, 0];
            cx.transport.notice(&words, b"");
            return Err(Failure::Errno(ENOMEM));
        }
        server.retain(node);
        Ok(Reply::result(answer & i64::from(u32::MAX)))
    }

    /// Drop those of the next few marks whose queues are gone: the last of them.
    #[cold]
    fn sweep(&mut self, server: &mut S, cx: &mut Context, mut next: u32) -> Option<u32> {
        let marks = &self.notices.marks;
        let asked = [(); ASKED].map(|()| {
            let at = marks.next_from(next)?;
            next = at + 1;
            Some(at)
        });
        self.ask(server, cx, asked);
        asked.into_iter().flatten().last()
    }

    /// The same of the first few of one file.
    #[cold]
    fn sweep_file(&mut self, server: &mut S, cx: &mut Context, inode: u64) {
        let asked = {
            let mut marks = self.notices.by_inode.all(inode);
            [(); ASKED].map(|()| marks.next())
        };
        self.ask(server, cx, asked);
    }

    fn ask(&mut self, server: &mut S, cx: &mut Context, asked: [Option<u32>; ASKED]) {
        if asked[0].is_none() {
            return;
        }
        let mut words = [event::MARKS, 0, 0, 0, 0, 0, 0, 0];
        for (word, at) in words[1..].iter_mut().zip(asked) {
            let mark = at.and_then(|at| self.notices.marks.get(at));
            *word = mark.map_or(0, |mark| mark.number);
        }
        let there = cx.transport.event(&words);
        for (bit, at) in asked.into_iter().enumerate() {
            if let Some(at) = at.filter(|_| there >= 0 && there >> bit & 1 == 0) {
                self.unmark(server, cx, at);
            }
        }
    }

    fn unmark(&mut self, server: &mut S, cx: &mut Context, at: u32) {
        let Some(mark) = self.notices.forget(at) else {
            return;
        };
        cx.refund(mark.payer, Notices::<S::Node>::COST);
        // As if it had been opened.
        let pin = Handle {
            badge: 0,
            node: mark.node,
            flags: o::PATH,
            kind: if mark.directory { kind::DIRECTORY } else { 0 },
            state: S::State::default(),
        };
        server.close(cx, pin);
    }

    /// All marks on this file hear of it.
    fn tell_marks(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        inode: u64,
        events: u64,
        name: &[u8],
    ) {
        let mut next = self.notices.by_inode.first(inode);
        while let Some(at) = next {
            next = self.notices.by_inode.next(at);
            let Some(mark) = self.notices.marks.get(at) else {
                continue;
            };
            let always = happened::IGNORED | happened::UNMOUNT;
            if events & (mark.events | always) & !happened::ISDIR & u64::from(u32::MAX) == 0 {
                continue;
            }
            let words = [event::NOTICE, mark.number, mark.watcher.into(), events];
            let [a, b, c, d] = words;
            let answer = cx.transport.notice(&[a, b, c, d, 0, 0, 0, 0], name);
            if answer < 0 || events & happened::IGNORED != 0 {
                self.unmark(server, cx, at);
            }
        }
    }

    /// Something happened to a file or directory: if anything is marked, whoever is to be told hears so.
    #[inline(always)]
    pub fn notice(&mut self, server: &mut S, cx: &mut Context, node: S::Node, events: u64) {
        if self.notices.any() {
            self.happened(server, cx, node, events);
        }
    }

    /// Something happened to a file or directory: its marks hear so, after those on the directory that it is in.
    #[cold]
    #[inline(never)]
    pub fn happened(&mut self, server: &mut S, cx: &mut Context, node: S::Node, events: u64) {
        let Ok(meta) = server.meta(node) else { return };
        let is_directory = meta.mode & s::IFMT == s::IFDIR;
        let events = events | if is_directory { happened::ISDIR } else { 0 };
        if self.notices.directories != 0 {
            let mut name = [0; NAME_MAX];
            if let Some((dir, length)) = server.home(cx, node, &mut name) {
                self.tell_directory(server, cx, dir, events, &name[..length]);
            }
        }
        self.tell_marks(server, cx, meta.ino, events, b"");
    }

    /// The inode of a node that has marks. To be asked before a name or handle goes: what has marks stays, and of the others nothing may be asked afterwards.
    #[inline]
    pub fn marked(&mut self, server: &mut S, node: S::Node) -> Option<u64> {
        if !self.notices.any() {
            return None;
        }
        let inode = server.meta(node).ok()?.ino;
        self.notices.by_inode.first(inode).map(|_| inode)
    }

    /// Something happened to a file or directory itself.
    fn happened_to(&mut self, server: &mut S, cx: &mut Context, node: S::Node, events: u64) {
        if let Ok(meta) = server.meta(node) {
            self.tell_marks(server, cx, meta.ino, events, b"");
        }
    }

    fn tell_directory(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        dir: S::Node,
        events: u64,
        name: &[u8],
    ) {
        if let Ok(meta) = server.meta(dir) {
            self.tell_marks(server, cx, meta.ino, events, name);
        }
    }

    /// A name was made, for a new node or another one.
    #[cold]
    #[inline(never)]
    pub fn name_made(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        (dir, name): (S::Node, &Name),
        (mode, linked): (u32, Option<S::Node>),
    ) {
        if let Some(node) = linked {
            self.happened_to(server, cx, node, what::ATTRIB);
        }
        let events = what::CREATE | is_dir(mode);
        self.tell_directory(server, cx, dir, events, name.bytes());
    }

    /// A name was removed, of a node with marks ([`Core::marked`]) or of another one.
    #[cold]
    #[inline(never)]
    pub fn name_removed(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        (dir, name): (S::Node, &Name),
        mode: u32,
        marked: Option<(S::Node, u64)>,
    ) {
        if let Some((_, inode)) = marked.filter(|_| is_dir(mode) == 0) {
            self.tell_marks(server, cx, inode, what::ATTRIB, b"");
        }
        let events = what::DELETE | is_dir(mode);
        self.tell_directory(server, cx, dir, events, name.bytes());
        if let Some(marked) = marked {
            self.lost_a_name(server, cx, marked, is_dir(mode) != 0);
        }
    }

    /// A name was moved; what it took the place of, if that has marks.
    #[cold]
    #[inline(never)]
    pub fn name_moved(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        from: (S::Node, &Name),
        to: (S::Node, &Name),
        (node, mode): (S::Node, u32),
        replaced: Option<(S::Node, u64, u32)>,
    ) {
        let both = is_dir(mode) | self.notices.cookie();
        let (dir, name) = from;
        self.tell_directory(server, cx, dir, what::MOVED_FROM | both, name.bytes());
        let (dir, name) = to;
        self.tell_directory(server, cx, dir, what::MOVED_TO | both, name.bytes());
        if let Some((_, inode, mode)) = replaced {
            self.tell_marks(server, cx, inode, what::ATTRIB | is_dir(mode), b"");
        }
        self.happened_to(server, cx, node, what::MOVE_SELF);
        if let Some((other, inode, mode)) = replaced {
            self.lost_a_name(server, cx, (other, inode), is_dir(mode) != 0);
        }
    }

    /// A file has a name less, or a directory its only one: if that and whoever has it open is all, its marks go.
    fn lost_a_name(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        (node, inode): (S::Node, u64),
        directory: bool,
    ) {
        if directory {
            let mut next = self.notices.by_inode.first(inode);
            while let Some(at) = next {
                if let Some(mark) = self.notices.marks.get_mut(at) {
                    mark.removed = true;
                }
                next = self.notices.by_inode.next(at);
            }
        }
        self.end_if_gone(server, cx, (node, inode));
    }

    /// A handle was closed, or a name removed: was it the last of a marked file?
    #[cold]
    #[inline(never)]
    pub fn end_if_gone(&mut self, server: &mut S, cx: &mut Context, (node, inode): (S::Node, u64)) {
        // Its last mark may have gone as it was told: then there may be no such node any more.
        let Some(at) = self.notices.by_inode.first(inode) else {
            return;
        };
        let removed = self.notices.marks.get(at).is_some_and(|mark| mark.removed);
        let gone = removed || server.stat(cx, node).is_ok_and(|stat| stat.nlink == 0);
        if gone && !self.handles.any(|handle| handle.node == node) {
            self.tell_marks(server, cx, inode, what::DELETE_SELF, b"");
            self.tell_marks(server, cx, inode, happened::IGNORED, b"");
        }
    }

    /// The file system goes away: so do all marks.
    pub fn end_marks(&mut self, server: &mut S, cx: &mut Context) {
        while let Some(at) = self.notices.marks.next_from(0) {
            let Some(mark) = self.notices.marks.get(at) else {
                return;
            };
            let inode = mark.inode;
            self.tell_marks(server, cx, inode, happened::UNMOUNT, b"");
            self.tell_marks(server, cx, inode, happened::IGNORED, b"");
        }
    }
}

fn is_dir(mode: u32) -> u64 {
    match mode & s::IFMT {
        s::IFDIR => happened::ISDIR,
        _ => 0,
    }
}
