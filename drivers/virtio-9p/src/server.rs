//! What the framework asks for, by asking the other side. Nothing of files is kept here but numbers and attributes as they were seen last, so what the host
//! changes is seen at once.

use crate::asks::{errno, Asks, Wire};
use crate::left::Left;
use crate::map::{Maps, Medium, PAGE64};
use crate::node::{Index, Node, Nodes, ROOT};
use crate::start::plain;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::{pulse, Token};
use cairn_idl::errno::*;
use cairn_idl::fs::{o, s, Stat, Statfs, NAME_MAX};
use cairn_ninep::{answer, kind, Ask, Attributes, Set, Time, Trouble, REMOVE_DIRECTORY};
use cairn_resmgr::server::{put, Answer, Change, Meta, New, Opened, Rename, Shown};
use cairn_resmgr::{layout, Context, Data, Dirents, Failure, Handle, Server};
use cairn_rt::{Portal, Received};

/// Badge of the device's interrupts.
pub const INTERRUPT: u64 = u64::MAX;
/// Badges of pulses: memory is wanted back, mapped pages are wanted.
pub const MEMORY: u64 = 1;
pub const PAGES: u64 = 2;
/// The root's file.
pub const ROOT_FILE: u32 = 0;
/// As Linux calls it in statfs.
const MAGIC: i64 = 0x0102_1997;
/// Bytes that are read or written by one request, and requests at a time for one reader or writer.
const PART: usize = 57_344;
const WINDOW: usize = 4;
/// A device without interrupts is looked at so often; pages for which there was no memory are tried again after so long.
const LOOK: u64 = 1_000_000;
const AGAIN: u64 = 100_000_000;

#[derive(Clone, Copy)]
pub struct Options {
    /// st_dev.
    pub device: u64,
    /// The longest message, as the other side said.
    pub longest: usize,
    /// The device's interrupt was heard.
    pub heard: fn(),
    /// The device does nothing any more: the program ends, and its successor begins with a reset.
    pub broken: fn(),
}

pub struct Share<W: Wire, M: Medium> {
    asks: Asks<W>,
    maps: Maps<M>,
    nodes: Nodes,
    options: Options,
    /// Counts runs of requests.
    clock: u64,
    run: Option<u64>,
    /// The other side gives files no other owners.
    owners_stay: bool,
    left: Left,
    /// What a predecessor had open and was found again.
    found: BTreeMap<u64, Index>,
    /// A file was opened for a handle, which has it when there is one ([`Server::retain`]): whose request, the file, the node.
    opening: Option<(Token, u32, Index)>,
    /// Bytes that are read or written by one request.
    part: usize,
    buffer: Vec<u8>,
}

/// An open file's own file on the other side, if there is one yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open(Option<u32>);

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

fn read<'a, R>(body: &'a [u8], read: impl FnOnce(&'a [u8]) -> Result<R, Trouble>) -> Answer<R> {
    read(body).map_err(errno)
}

/// Nothing is at hand without the host's answer (RWF_NOWAIT; as Linux's client).
fn may_wait(cx: &Context) -> Answer<()> {
    const NOWAIT: u64 = 8;
    match cx.request.words[2] & NOWAIT {
        0 => Ok(()),
        _ => fail(EOPNOTSUPP),
    }
}

/// Linux's encoding of the host, which is the same.
fn meta_of(about: &Attributes) -> Meta {
    Meta {
        mode: about.mode,
        uid: about.uid,
        gid: about.gid,
        ino: about.qid.path,
        size: about.size,
        rdev: about.rdev,
    }
}

impl<W: Wire, M: Medium> Share<W, M> {
    /// With a root that was attached as [`ROOT_FILE`], and its attributes.
    pub fn new(
        asks: Asks<W>,
        maps: Maps<M>,
        root: Attributes,
        left: Left,
        options: Options,
    ) -> Share<W, M> {
        let part = options.longest.saturating_sub(4096).clamp(512, PART);
        Share {
            asks,
            maps,
            nodes: Nodes::new(Node {
                parent: ROOT,
                name: Vec::new(),
                file: ROOT_FILE,
                about: root,
                seen: 0,
                used: 0,
                opens: 1,
                below: 0,
                gone: false,
                kept: None,
                mapped: None,
            }),
            options,
            clock: 0,
            run: None,
            owners_stay: false,
            left,
            found: BTreeMap::new(),
            opening: None,
            part,
            buffer: vec![0; part],
        }
    }

    /// What a predecessor had open is looked for, before anybody is served.
    pub fn find_again(&mut self, open: &[u64], mut wait: impl FnMut()) {
        for &identity in open {
            let Some((path, name)) = self.left.get(identity) else {
                continue;
            };
            if let Some(index) = self.walk_plainly(&name, &mut wait) {
                let node = self.nodes.get(index).filter(|n| n.about.qid.path == path);
                if let Some(node) = node {
                    node.kept = Some(identity);
                    self.found.insert(identity, index);
                }
            }
        }
    }

    fn walk_plainly(&mut self, name: &[u8], wait: &mut impl FnMut()) -> Option<Index> {
        let parts = name.split(|&byte| byte == b'/');
        let mut at = ROOT;
        for part in parts.filter(|part| answer::is_name(part)) {
            if let Some(known) = self.nodes.named(at, part) {
                at = known;
                continue;
            }
            let (from, file) = (self.nodes.get(at)?.file, self.asks.new_file());
            let walked = plain(self.asks.wire(), Ask::walk(from, file, &[part]), 0, wait).ok()?;
            if !answer::walked(&walked, 1).ok()? {
                return None;
            }
            let body = plain(self.asks.wire(), Ask::attributes(file), 0, wait).ok()?;
            let about = answer::attributes(&body).ok()?;
            if self.nodes.with_path(about.qid.path).is_some() {
                // Another name of one that is known.
                return None;
            }
            at = self.nodes.add(Node {
                parent: at,
                name: part.to_vec(),
                file,
                about,
                seen: 0,
                used: 0,
                opens: 0,
                below: 0,
                gone: false,
                kept: None,
                mapped: None,
            });
        }
        Some(at)
    }

    /// Names have changed: so have those that a successor would look for.
    fn keep_names(&self) {
        for (identity, path, name) in self.nodes.kept() {
            self.left.rename(identity, path, name.as_deref());
        }
    }

    #[cfg(test)]
    pub(crate) fn asks(&mut self) -> &mut Asks<W> {
        &mut self.asks
    }

    #[cfg(test)]
    pub(crate) fn maps(&mut self) -> &mut Maps<M> {
        &mut self.maps
    }

    #[cfg(test)]
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    fn node(&mut self, index: Index) -> Answer<&mut Node> {
        let clock = self.clock;
        let node = self.nodes.get(index).ok_or(Failure::Errno(ESTALE))?;
        node.used = clock;
        Ok(node)
    }

    fn file(&mut self, index: Index) -> Answer<u32> {
        Ok(self.node(index)?.file)
    }

    /// A callback of this request.
    fn enter(&mut self, cx: &Context) {
        let token = cx.request.token;
        if self.run != Some(token) {
            self.run = Some(token);
            self.opening = None;
            self.clock += 1;
            self.asks.enter(token);
            let since = self.asks.oldest().unwrap_or(self.clock).min(self.clock);
            for file in self.nodes.surplus(since) {
                self.asks.end(file);
            }
        }
    }

    fn ask(&mut self, cx: &mut Context, make: impl Fn() -> Ask) -> Answer<Vec<u8>> {
        self.enter(cx);
        let asked = self
            .asks
            .ask(cx.request.token, self.clock, false, |_| make());
        self.waits(cx, asked).map(|(body, _)| body)
    }

    /// The file that these names lead to from another one.
    fn walk(&mut self, cx: &mut Context, from: u32, names: &[&[u8]]) -> Answer<u32> {
        self.enter(cx);
        let make = |file| Ask::walk(from, file, names);
        let asked = self.asks.ask(cx.request.token, self.clock, true, make);
        let (body, file) = self.waits(cx, asked)?;
        match read(&body, |body| answer::walked(body, names.len() as u16))? {
            true => Ok(file),
            false => fail(ENOENT),
        }
    }

    /// A run that ends with waiting is over.
    fn waits<R>(&mut self, cx: &mut Context, answer: Answer<R>) -> Answer<R> {
        if matches!(answer, Err(Failure::Wait(_))) {
            self.run = None;
            if !self.asks.wire().interrupts() {
                let look = cx.transport.monotonic() + LOOK;
                cx.wake_by(look);
            }
        }
        answer
    }

    fn attributes(&mut self, cx: &mut Context, file: u32) -> Answer<Attributes> {
        let body = self.ask(cx, || Ask::attributes(file))?;
        read(&body, answer::attributes)
    }

    /// The node's attributes anew, unless this run has just seen them.
    fn look(&mut self, cx: &mut Context, index: Index) -> Answer<Attributes> {
        self.enter(cx);
        let clock = self.clock;
        let node = self.node(index)?;
        if node.seen == clock {
            return Ok(node.about);
        }
        let (file, path, before) = (node.file, node.about.qid.path, node.about);
        match self.attributes(cx, file) {
            Ok(about) if about.qid.path == path => {
                self.see(index, about);
                Ok(about)
            }
            Err(failure @ Failure::Wait(_)) => Err(failure),
            // An open file without a name: as it was.
            Ok(_) | Err(_) if self.node(index)?.opens != 0 && index != ROOT => {
                self.nodes.lose(index);
                Ok(Attributes { links: 0, ..before })
            }
            Ok(_) => fail(ESTALE),
            Err(failure) => Err(failure),
        }
    }

    fn see(&mut self, index: Index, about: Attributes) {
        let clock = self.clock;
        if let Some(node) = self.nodes.get(index) {
            (node.about, node.seen, node.used) = (about, clock, clock);
        }
    }

    /// What is called so now, walked to anew.
    fn find(&mut self, cx: &mut Context, dir: Index, name: &[u8]) -> Answer<Index> {
        let from = self.file(dir)?;
        let file = self.walk(cx, from, &[name])?;
        let about = self.attributes(cx, file)?;
        let new = self.asks.take(cx.request.token, file);
        match self.nodes.with_path(about.qid.path) {
            Some(known) if self.leads_up(dir, known) => {
                if new {
                    self.asks.end(file);
                }
                fail(ELOOP)
            }
            Some(known) => {
                let node = self.node(known)?;
                let moved = (node.parent, node.name.as_slice()) != (dir, name) || node.gone;
                if new {
                    // The older one may be one of a name that is gone.
                    let old = core::mem::replace(&mut node.file, file);
                    self.asks.end(old);
                }
                if moved {
                    if let Some(other) = self.nodes.named(dir, name) {
                        self.lose(other);
                    }
                    self.nodes.rename(known, dir, name);
                }
                self.see(known, about);
                Ok(known)
            }
            // It was there, and has gone since.
            None if !new => fail(ENOENT),
            None => {
                if let Some(other) = self.nodes.named(dir, name) {
                    self.lose(other);
                }
                let clock = self.clock;
                Ok(self.nodes.add(Node {
                    parent: dir,
                    name: name.to_vec(),
                    file,
                    about,
                    seen: clock,
                    used: clock,
                    opens: 0,
                    below: 0,
                    gone: false,
                    kept: None,
                    mapped: None,
                }))
            }
        }
    }

    /// A folder would be within itself.
    fn leads_up(&mut self, mut dir: Index, above: Index) -> bool {
        while dir != above && dir != ROOT {
            match self.nodes.get(dir) {
                Some(node) => dir = node.parent,
                None => return false,
            }
        }
        dir == above
    }

    /// The node is not found any more; it goes if nobody uses it.
    fn lose(&mut self, index: Index) {
        self.nodes.lose(index);
        if let Some(file) = self.nodes.drop_unused(index) {
            self.asks.end(file);
        }
    }

    /// A name was removed.
    fn removed(&mut self, index: Index) {
        if let Some(identity) = self.nodes.get(index).and_then(|node| node.kept) {
            self.left.rename(identity, 0, None);
        }
        self.lose(index);
        if let Some(node) = self.nodes.get(index) {
            node.about.links = node.about.links.saturating_sub(1);
        }
    }

    /// The file by which an open file is read and written.
    fn opened(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<u32> {
        if let Open(Some(file)) = handle.state {
            return Ok(file);
        }
        let file = self.open_file(cx, handle.node, handle.flags)?;
        let token = cx.request.token;
        self.asks.take(token, file);
        handle.state = Open(Some(file));
        self.asks.forget(token);
        Ok(file)
    }

    fn open_file(&mut self, cx: &mut Context, index: Index, flags: u64) -> Answer<u32> {
        const KEPT: u64 = o::ACCMODE | o::APPEND | o::DIRECTORY;
        let from = self.file(index)?;
        let file = self.walk(cx, from, &[])?;
        let body = self.ask(cx, || Ask::open(file, (flags & KEPT) as u32))?;
        let opened = read(&body, answer::qid)?;
        // Somebody may have put another file there since the rights of this one were looked at.
        if opened.path != self.node(index)?.about.qid.path {
            self.asks.end(file);
            return fail(ESTALE);
        }
        Ok(file)
    }

    /// A predecessor died with this request: whether what was to be appended is where it began.
    fn was_appended(
        &mut self,
        cx: &mut Context,
        index: Index,
        offset: u64,
        length: usize,
    ) -> Answer<bool> {
        let there = self.open_file(cx, index, o::RDONLY).and_then(|file| {
            let body = self.ask(cx, || Ask::read(file, offset, length as u32))?;
            read(&body, |body| answer::data(body, length)).map(<[u8]>::to_vec)
        });
        match there {
            Ok(there) => {
                let wanted = &mut self.buffer[..length];
                cx.fetch(0, wanted)?;
                Ok(*wanted == *there)
            }
            Err(failure @ Failure::Wait(_)) => Err(failure),
            // It cannot be known.
            Err(_) => Ok(false),
        }
    }

    /// The new node has the owner that it should have, if that can be.
    fn give(&mut self, cx: &mut Context, index: Index, new: &New) -> Answer<()> {
        let node = self.node(index)?;
        let (file, about) = (node.file, node.about);
        if self.owners_stay || (about.uid, about.gid) == (new.uid, new.gid) {
            return Ok(());
        }
        let set = Set {
            uid: Some(new.uid),
            gid: Some(new.gid),
            ..Set::default()
        };
        match self.ask(cx, || Ask::set(file, &set)) {
            Ok(_) => {
                let about = self.attributes(cx, file)?;
                // It says so, and does not do it.
                self.owners_stay = about.uid != new.uid;
                self.see(index, about);
                Ok(())
            }
            Err(failure @ Failure::Wait(_)) => Err(failure),
            Err(failure) => {
                self.owners_stay |= matches!(failure, Failure::Errno(EPERM | EOPNOTSUPP));
                Ok(())
            }
        }
    }

    /// Answers that have come.
    fn pump(&mut self, cx: &mut Context) {
        self.run = None;
        self.asks.leave();
        for key in self.asks.pump() {
            cx.wake(key);
        }
        self.run_maps(cx);
        if self.asks.wire().is_broken() {
            (self.options.broken)();
        }
        if !self.asks.wire().interrupts() && self.asks.is_busy() {
            let look = cx.transport.monotonic() + LOOK;
            cx.wake_by(look);
        }
    }

    /// Pages that programs wait for.
    fn run_maps(&mut self, cx: &mut Context) {
        for token in self.maps.loading() {
            // What still waits does so for itself.
            let Ok(came) = self.asks.all(token) else {
                continue;
            };
            let body = came.into_iter().next().unwrap_or(fail(EIO));
            self.asks.forget(token);
            let data = body.as_deref().ok();
            let data = data.and_then(|body| answer::data(body, PART).ok());
            self.maps.loaded(token, data);
        }
        for its in self.maps.ended() {
            self.asks.end(its.host);
            if let Some(node) = self.nodes.get(its.node) {
                node.mapped = None;
                if node.gone {
                    self.lose(its.node);
                }
            }
        }
        let (nodes, asks) = (&mut self.nodes, &mut self.asks);
        let pages = |index| {
            let size = nodes.get(index).map_or(0, |node| node.about.size);
            size.div_ceil(PAGE64)
        };
        let begin = |host, token, at, bytes: usize| {
            let ask = Ask::read(host, at, bytes as u32);
            let begun = asks.part(token, ask).is_ok();
            if !begun {
                asks.forget(token);
            }
            begun
        };
        self.maps.run(pages, begin);
        if self.maps.must_look() {
            let again = cx.transport.monotonic() + AGAIN;
            cx.wake_by(again);
        }
    }

    /// Bytes of a file have changed here.
    fn changed(&mut self, index: Index, from: u64, to: u64) {
        if let Some(file) = self.nodes.get(index).and_then(|node| node.mapped) {
            self.maps.changed(file, from / PAGE64, to.div_ceil(PAGE64));
        }
    }

    /// Nobody writes to a program that runs.
    fn check_executed(&mut self, index: Index) -> Answer<()> {
        match self.nodes.get(index).and_then(|node| node.mapped) {
            Some(file) if self.maps.is_executed(file) => fail(ETXTBSY),
            _ => Ok(()),
        }
    }

    /// Parts of `length` bytes from `done` on: where each begins, and its length.
    fn parts(&self, done: usize, length: usize, most: usize) -> Vec<(usize, usize)> {
        let most = most.min(self.asks.room().max(1));
        let starts = (done..length).step_by(self.part).take(most);
        starts
            .map(|at| (at, (length - at).min(self.part)))
            .collect()
    }

    /// All that was begun together, as it came out. The lengths are those of [`Share::parts`].
    fn came(&mut self, cx: &mut Context) -> Answer<Vec<Answer<Vec<u8>>>> {
        let all = self.asks.all(cx.request.token);
        self.waits(cx, all)
    }
}

impl<W: Wire, M: Medium> Server for Share<W, M> {
    type Node = Index;
    type State = Open;

    fn identity(&mut self, index: Index) -> Option<u64> {
        let name = self.nodes.path(index)?;
        let node = self.nodes.get(index)?;
        if node.kept.is_none() {
            node.kept = self.left.add(node.about.qid.path, &name);
        }
        node.kept
    }

    fn recover(&mut self, identity: u64) -> Option<(Index, bool)> {
        let index = *self.found.get(&identity)?;
        self.retain(index);
        Some((index, false))
    }

    fn root(&mut self, _: u64) -> Index {
        ROOT
    }

    fn meta(&mut self, index: Index) -> Answer<Meta> {
        Ok(meta_of(&self.node(index)?.about))
    }

    fn lookup(&mut self, cx: &mut Context, dir: Index, name: &[u8]) -> Answer<Index> {
        self.enter(cx);
        let token = cx.request.token;
        let known = self.nodes.named(dir, name);
        // As this request did it before, if it did.
        let looks = match self.asks.next(token) {
            Some((kind::GETATTR, file)) => {
                let same = known.filter(|&index| self.file(index) == Ok(file));
                if same.is_none() {
                    self.asks.skip(token);
                }
                same
            }
            Some((kind::WALK, _)) => None,
            _ => known,
        };
        if let Some(index) = looks {
            let node = self.node(index)?;
            let (file, path) = (node.file, node.about.qid.path);
            match self.attributes(cx, file) {
                Ok(about) if about.qid.path == path => {
                    self.see(index, about);
                    return Ok(index);
                }
                Err(failure @ Failure::Wait(_)) => return Err(failure),
                // Something else has the name now, or nothing.
                Ok(_) | Err(_) => {}
            }
        }
        match self.find(cx, dir, name) {
            Err(Failure::Errno(ENOENT)) => {
                if let Some(index) = looks {
                    self.lose(index);
                }
                fail(ENOENT)
            }
            other => other,
        }
    }

    fn parent(&mut self, _: &mut Context, dir: Index) -> Answer<Index> {
        Ok(self.node(dir)?.parent)
    }

    fn target(&mut self, cx: &mut Context, link: Index, into: &mut [u8]) -> Answer<usize> {
        let file = self.file(link)?;
        let body = self.ask(cx, || Ask::target(file))?;
        put(read(&body, answer::target)?, into)
    }

    fn path(&mut self, _: &mut Context, index: Index, into: &mut [u8]) -> Answer<usize> {
        let path = self.nodes.path(index).ok_or(Failure::Errno(ENOENT))?;
        put(&path, into)
    }

    fn home(
        &mut self,
        _: &mut Context,
        index: Index,
        into: &mut [u8; NAME_MAX],
    ) -> Option<(Index, usize)> {
        let node = self.nodes.get(index).filter(|node| !node.gone)?;
        into.get_mut(..node.name.len())?.copy_from_slice(&node.name);
        Some((node.parent, node.name.len()))
    }

    fn stat(&mut self, cx: &mut Context, index: Index) -> Answer<Stat> {
        let about = self.look(cx, index)?;
        Ok(Stat {
            dev: self.options.device,
            nlink: about.links,
            blksize: about.block_size.clamp(512, PART as u64) as i64,
            blocks: about.blocks as i64,
            atime: about.atime.0,
            atime_ns: about.atime.1 as _,
            mtime: about.mtime.0,
            mtime_ns: about.mtime.1 as _,
            ctime: about.ctime.0,
            ctime_ns: about.ctime.1 as _,
            ..layout::plain_stat(&meta_of(&about))
        })
    }

    fn statfs(&mut self, cx: &mut Context, index: Index) -> Answer<Statfs> {
        let file = self.file(index)?;
        let body = self.ask(cx, || Ask::space(file))?;
        let space = read(&body, answer::space)?;
        Ok(Statfs {
            kind: MAGIC,
            bsize: i64::from(space.block_size),
            frsize: i64::from(space.block_size),
            blocks: space.blocks,
            bfree: space.free,
            bavail: space.available,
            files: space.files,
            ffree: space.files_free,
            namelen: i64::from(space.longest_name.min(NAME_MAX as u32)),
            ..layout::empty_statfs()
        })
    }

    fn change(&mut self, cx: &mut Context, index: Index, change: &Change) -> Answer<()> {
        let node = self.node(index)?;
        let (file, kind) = (node.file, node.about.mode & s::IFMT);
        let time = |now: bool, time: Option<(i64, i64)>| match now {
            true => time.map(|_| Time::Now),
            false => time.map(|(seconds, nanoseconds)| Time::At(seconds, nanoseconds)),
        };
        let set = Set {
            mode: change.mode.map(|mode| kind | mode & 0o7777),
            uid: change.uid,
            gid: change.gid,
            size: None,
            atime: time(change.atime_is_now, change.atime),
            mtime: time(change.mtime_is_now, change.mtime),
        };
        self.ask(cx, || Ask::set(file, &set))?;
        let about = self.attributes(cx, file)?;
        self.see(index, about);
        Ok(())
    }

    fn truncate(&mut self, cx: &mut Context, index: Index, size: u64) -> Answer<()> {
        self.check_executed(index)?;
        let file = self.file(index)?;
        let set = Set {
            size: Some(size),
            ..Set::default()
        };
        self.ask(cx, || Ask::set(file, &set))?;
        let node = self.node(index)?;
        let before = core::mem::replace(&mut node.about.size, size);
        node.seen = 0;
        if let Some(file) = node.mapped {
            self.changed(index, size.min(before), u64::MAX);
            let resized = self.maps.resize(file, size.div_ceil(PAGE64));
            resized.map_err(|_| Failure::Errno(ENOMEM))?;
        }
        Ok(())
    }

    fn create(&mut self, cx: &mut Context, dir: Index, name: &[u8], new: &New) -> Answer<Index> {
        let (folder, gid) = (self.file(dir)?, new.gid);
        let mode = new.mode & (s::IFMT | 0o7777);
        if matches!(mode & s::IFMT, s::IFCHR | s::IFBLK) {
            return fail(EPERM);
        }
        let body = self.ask(cx, || match mode & s::IFMT {
            s::IFDIR => Ask::directory(folder, name, mode & 0o7777, gid),
            s::IFLNK => Ask::symlink(folder, name, new.target, gid),
            _ => Ask::node(folder, name, mode, gid),
        })?;
        let made = read(&body, answer::qid)?;
        let index = self.find(cx, dir, name)?;
        // Another file has the name by now: it is nobody's to give away.
        if made.path != self.node(index)?.about.qid.path {
            return fail(ESTALE);
        }
        self.give(cx, index, new)?;
        Ok(index)
    }

    fn link(&mut self, cx: &mut Context, index: Index, dir: Index, name: &[u8]) -> Answer<()> {
        let (folder, file) = (self.file(dir)?, self.file(index)?);
        self.ask(cx, || Ask::link(folder, file, name))?;
        Ok(())
    }

    fn unlink(&mut self, cx: &mut Context, dir: Index, name: &[u8], index: Index) -> Answer<()> {
        let folder = self.file(dir)?;
        self.ask(cx, || Ask::remove(folder, name, 0))?;
        self.removed(index);
        Ok(())
    }

    fn rmdir(&mut self, cx: &mut Context, dir: Index, name: &[u8], index: Index) -> Answer<()> {
        let folder = self.file(dir)?;
        self.ask(cx, || Ask::remove(folder, name, REMOVE_DIRECTORY))?;
        self.removed(index);
        Ok(())
    }

    fn rename(&mut self, cx: &mut Context, rename: &Rename<Index>) -> Answer<()> {
        if rename.exchange {
            return fail(EINVAL);
        }
        let (from, to) = (self.file(rename.from)?, self.file(rename.to)?);
        self.ask(cx, || {
            Ask::rename(from, rename.from_name, to, rename.to_name)
        })?;
        if let Some(other) = rename.replaced {
            self.removed(other);
        }
        self.nodes.rename(rename.node, rename.to, rename.to_name);
        self.keep_names();
        Ok(())
    }

    fn open(
        &mut self,
        cx: &mut Context,
        index: Index,
        flags: u64,
        state: &mut Open,
    ) -> Answer<Opened<Index>> {
        let meta = self.meta(index)?;
        match meta.mode & s::IFMT {
            s::IFREG | s::IFDIR => {}
            s::IFIFO => return Err(cx.redirect_special(&meta)),
            // Devices of the host are not the guest's.
            s::IFCHR | s::IFBLK => return fail(EACCES),
            _ => return fail(ENXIO),
        }
        if flags & o::ACCMODE != o::RDONLY || flags & o::TRUNC != 0 {
            self.check_executed(index)?;
        }
        let file = self.open_file(cx, index, flags)?;
        *state = Open(Some(file));
        self.opening = Some((cx.request.token, file, index));
        Ok(Opened {
            node: index,
            kind: layout::default_kind(meta.mode),
        })
    }

    fn retain(&mut self, index: Index) {
        if let Some((token, file, _)) = self.opening.take_if(|(.., its)| *its == index) {
            self.asks.take(token, file);
        }
        if let Some(node) = self.nodes.get(index) {
            node.opens += 1;
        }
    }

    fn close(&mut self, _: &mut Context, handle: Handle<Self>) {
        if let Open(Some(file)) = handle.state {
            self.asks.end(file);
        }
        let Some(node) = self.nodes.get(handle.node) else {
            return;
        };
        node.opens = node.opens.saturating_sub(1);
        let gone = node.gone;
        if node.opens == 0 {
            if let Some(identity) = node.kept.take() {
                self.left.remove(identity);
            }
        }
        if gone {
            self.lose(handle.node);
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        may_wait(cx)?;
        self.enter(cx);
        let file = Share::opened(self, cx, handle)?;
        let token = cx.request.token;
        loop {
            let mut done = cx.progress as usize;
            let parts = self.parts(done, length, WINDOW);
            if self.asks.parts(token) == 0 {
                if parts.is_empty() {
                    return Ok(Data::stored(done));
                }
                for (at, bytes) in parts {
                    let ask = Ask::read(file, offset + at as u64, bytes as u32);
                    let begun = self.asks.part(token, ask);
                    self.waits(cx, begun)?;
                }
            }
            let mut ended = false;
            for came in self.came(cx)? {
                if ended {
                    break;
                }
                let some = (length - done).min(self.part);
                let data = came.and_then(|body| {
                    read(&body, |body| answer::data(body, some)).map(<[u8]>::to_vec)
                });
                match data {
                    Ok(data) => {
                        cx.store(done, &data)?;
                        done += data.len();
                        ended = data.len() < some;
                    }
                    Err(failure) if done == 0 => return Err(failure),
                    Err(_) => ended = true,
                }
            }
            if ended {
                return Ok(Data::stored(done));
            }
            cx.progress = done as u64;
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        may_wait(cx)?;
        self.enter(cx);
        let file = Share::opened(self, cx, handle)?;
        let token = cx.request.token;
        // What is appended must come in its order.
        let appends = handle.flags & o::APPEND != 0;
        let most = if appends { 1 } else { WINDOW };
        if appends && cx.repeated.is_some() && cx.progress == 0 {
            let (node, whole) = (handle.node, length <= self.part);
            if whole && self.was_appended(cx, node, offset, length)? {
                return Ok(length);
            }
        }
        loop {
            let mut done = cx.progress as usize;
            if self.asks.parts(token) == 0 {
                let parts = self.parts(done, length, most);
                if parts.is_empty() {
                    return Ok(done);
                }
                for (at, bytes) in parts {
                    let mut buffer = core::mem::take(&mut self.buffer);
                    let fetched = cx.fetch(at, &mut buffer[..bytes]);
                    let ask = Ask::write(file, offset + at as u64, &buffer[..bytes]);
                    self.buffer = buffer;
                    let begun = fetched.and_then(|()| self.asks.part(token, ask));
                    match self.waits(cx, begun) {
                        Ok(_) => {}
                        // What was begun goes its way.
                        Err(Failure::Errno(_)) if at > done => break,
                        Err(Failure::Errno(_)) if done > 0 => return Ok(done),
                        Err(failure) => return Err(failure),
                    }
                }
            }
            let mut ended = false;
            for came in self.came(cx)? {
                if ended {
                    break;
                }
                let some = (length - done).min(self.part);
                match came.and_then(|body| read(&body, |body| answer::count(body, some))) {
                    Ok(count) => {
                        done += count;
                        ended = count < some;
                    }
                    Err(failure) if done == 0 => return Err(failure),
                    Err(_) => ended = true,
                }
            }
            let end = offset + done as u64;
            let node = self.node(handle.node)?;
            let grows = end > node.about.size;
            (node.about.size, node.seen) = (node.about.size.max(end), 0);
            // Who has the file mapped reaches the new pages, if there is memory for them.
            if let Some(file) = node.mapped.filter(|_| grows) {
                let _ = self.maps.resize(file, end.div_ceil(PAGE64));
            }
            // What is appended is where the other side has its end.
            let (from, to) = if appends {
                (0, u64::MAX)
            } else {
                (offset, end)
            };
            self.changed(handle.node, from, to);
            if ended {
                return Ok(done);
            }
            cx.progress = done as u64;
        }
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        self.enter(cx);
        let own = handle.node;
        let file = Share::opened(self, cx, handle)?;
        let room = cx.request.in_len.clamp(512, self.part.min(32_768)) as u32;
        let body = self.ask(cx, || Ask::entries(file, position, room))?;
        let data = read(&body, |body| answer::data(body, room as usize))?;
        let node = self.node(own)?;
        let (own, above) = (node.about.qid.path, node.parent);
        let above = self.node(above).map_or(own, |node| node.about.qid.path);
        let mut at = position;
        for entry in answer::entries(data) {
            let ino = match entry.name {
                b"." => own,
                b".." => above,
                name if answer::is_name(name) => entry.qid.path,
                _ => {
                    at = entry.next;
                    continue;
                }
            };
            let mode = u32::from(entry.kind & 15) << 12;
            if !into.add(ino, entry.next, mode, entry.name) {
                break;
            }
            at = entry.next;
        }
        Ok(at)
    }

    fn sync(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        self.enter(cx);
        let file = Share::opened(self, cx, handle)?;
        self.ask(cx, || Ask::sync(file))?;
        Ok(())
    }

    /// Frames would be those of a mapping.
    fn mapping_follows(&mut self, _: Index) -> bool {
        false
    }

    fn shown(&mut self, tag: u64, _: &mut [u8]) -> Option<Shown<Index>> {
        self.maps.shown(tag).map(Shown::File)
    }

    /// Privately, or to be read.
    fn map(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        _: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        let index = handle.node;
        if shared_writable {
            return fail(ENODEV);
        }
        let about = self.look(cx, index)?;
        let seen = (about.size, about.mtime);
        let file = match self.node(index)?.mapped {
            Some(file) => {
                self.maps.check(file, seen);
                file
            }
            None => {
                let host = self.open_file(cx, index, o::RDONLY)?;
                self.asks.take(cx.request.token, host);
                let file = self.maps.open(index, host, seen);
                self.node(index)?.mapped = Some(file);
                file
            }
        };
        let pages = about.size.div_ceil(PAGE64);
        let object = self
            .maps
            .object(file, pages)
            .ok_or(Failure::Errno(ENOMEM))?;
        Ok((object, pages.max(1)))
    }

    /// As requests to disks are.
    fn interruptible(&self, _: u64, _: u64) -> bool {
        false
    }

    fn cancelled(&mut self, cx: &mut Context) {
        self.run = None;
        self.asks.forget(cx.request.token);
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        if pulse.badge == INTERRUPT && pulse.words[0] == pulse::INTERRUPT {
            // What comes out from now on makes another one.
            (self.options.heard)();
            self.pump(cx);
            return;
        }
        match pulse.badge {
            MEMORY => self.maps.give_back(),
            PAGES => {
                self.maps.hear();
                self.run_maps(cx);
            }
            _ => {}
        }
    }

    fn tick(&mut self, cx: &mut Context) {
        self.maps.again();
        self.pump(cx);
    }
}
