//! Pipes and events for the framework: which object a handle is an end of, and what is made and opened.

use crate::event::{Event, SEMAPHORE};
use crate::pipe::{counted, Fifo, Pipe, CAPACITY};
use crate::users::{Capacities, CAPACITY_BEYOND};
use crate::{READABLE, WRITABLE};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_abi::{flag, Id};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, s, Stat};
use cairn_idl::label;
use cairn_resmgr::context::decimal;
use cairn_resmgr::ring::{Buffers, KEEP};
use cairn_resmgr::server::{Answer, Change};
use cairn_resmgr::table::Table;
use cairn_resmgr::{
    Context, Data, Direct, Failure, Handle, Handles, Later, Meta, Opened, Readiness, Server,
};
use cairn_rt::channel::Reply;

/// ioctl: bytes that can be read.
const FIONREAD: u64 = 0x541b;
/// `st_dev` of what has no name.
const ST_DEV: u64 = 13;
const CREATION: u64 = o::NONBLOCK | o::DIRECT;

/// What a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A mount portal.
    Root,
    /// A pipe or FIFO.
    Pipe(u32),
    Event(u32),
}

enum Object {
    Pipe(Box<Pipe>),
    Event(Event),
}

impl Object {
    /// Who pays for it, and the bytes that it takes beside a ring's.
    fn cost(&self) -> (u32, usize) {
        let place = size_of::<Option<Object>>();
        match self {
            Object::Pipe(pipe) => (pipe.payer, place + size_of::<Pipe>()),
            Object::Event(event) => (event.payer, place),
        }
    }
}

/// All pipes and events.
#[derive(Default)]
pub struct Pipes {
    objects: Table<Object>,
    /// FIFOs that somebody has, by their file server's domain and their inode number there.
    fifos: BTreeMap<(Id, u64), u32>,
    buffers: Buffers,
    capacities: Capacities,
    /// Objects with empty rings whose memory should go. (Not at once: the answer may still lie in it.)
    trim: Vec<u32>,
    last_ino: u64,
    scratch: [u8; 8],
}

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

/// The first of an object's keys; an end of a pair has its own.
fn keys(index: u32, side: u8) -> u64 {
    (index as u64) << 2 | (side as u64) << 1
}

const _: () = assert!(READABLE == 0 && WRITABLE == 1);

impl Pipes {
    pub fn new() -> Pipes {
        Pipes::default()
    }

    /// Objects that exist.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Bytes of memory in rings.
    pub fn memory(&self) -> usize {
        self.buffers.total()
    }

    /// Bytes that the pipes of a user can hold together, in pages.
    pub fn capacity_of(&self, uid: u32) -> usize {
        self.capacities.of(uid)
    }

    /// What is charged to a user, counted anew.
    #[cfg(test)]
    pub(crate) fn charged_to(&self, uid: u32) -> u64 {
        let all = self.objects.iter().map(|object| match object {
            Object::Pipe(pipe) => (object.cost(), pipe.ring.memory()),
            Object::Event(_) => (object.cost(), 0),
        });
        let its = all.filter(|((payer, _), _)| *payer == uid);
        its.map(|((_, bytes), memory)| (bytes + memory) as u64)
            .sum()
    }

    /// Pipes that are to be looked at.
    #[cfg(test)]
    pub(crate) fn to_trim(&self) -> usize {
        self.trim.len()
    }

    fn insert(&mut self, cx: &mut Context, object: Object) -> Answer<u32> {
        let (payer, bytes) = object.cost();
        cx.charge(payer, bytes)?;
        let Some(index) = self.objects.insert(object) else {
            cx.refund(payer, bytes);
            return fail(ENOMEM);
        };
        if let Some(Object::Pipe(pipe)) = self.objects.get(index) {
            self.capacities.change(pipe.uid, 0, pipe.ring.capacity());
        }
        Ok(index)
    }

    fn remove(&mut self, cx: &mut Context, index: u32) {
        let Some(object) = self.objects.remove(index) else {
            return;
        };
        let (payer, bytes) = object.cost();
        cx.refund(payer, bytes);
        if let Object::Pipe(mut pipe) = object {
            pipe.clear(cx, &mut self.buffers);
            self.capacities.change(pipe.uid, pipe.ring.capacity(), 0);
            if let Some(fifo) = pipe.fifo {
                self.fifos.remove(&(fifo.maker, fifo.ino));
            }
        }
    }

    /// A pipe of the caller's. Who has many has small ones.
    fn new_pipe(&mut self, cx: &mut Context, fifo: Option<Fifo>) -> Box<Pipe> {
        let (uid, gid) = (cx.uid(), cx.gid());
        let small = !cx.has(label::SYSTEM) && !self.capacities.fits(uid, CAPACITY);
        let capacity = if small { CAPACITY_BEYOND } else { CAPACITY };
        let mut pipe = Pipe::new(self.next_ino(), uid, gid, fifo, capacity);
        pipe.payer = cx.payer();
        Box::new(pipe)
    }

    fn next_ino(&mut self) -> u64 {
        self.last_ino += 1;
        self.last_ino
    }

    fn object(&self, index: u32) -> Answer<&Object> {
        self.objects.get(index).ok_or(Failure::Errno(EBADF))
    }

    /// A pipe, and the memory for its ring.
    fn pipe(&mut self, index: u32) -> Answer<(&mut Pipe, &mut Buffers)> {
        match self.objects.get_mut(index) {
            Some(Object::Pipe(pipe)) => Ok((pipe, &mut self.buffers)),
            _ => fail(EBADF),
        }
    }

    fn event(&mut self, index: u32) -> Answer<&mut Event> {
        match self.objects.get_mut(index) {
            Some(Object::Event(event)) => Ok(event),
            _ => fail(EBADF),
        }
    }

    /// Give back the memory of rings that were emptied.
    fn trim(&mut self, cx: &mut Context) {
        while let Some(index) = self.trim.pop() {
            if let Ok((pipe, buffers)) = self.pipe(index) {
                pipe.emptied = false;
                if pipe.ring.is_empty() {
                    pipe.clear(cx, buffers);
                }
            }
        }
    }

    /// An end is closed.
    fn close_pipe(&mut self, cx: &mut Context, index: u32, flags: u64) {
        let Ok((pipe, buffers)) = self.pipe(index) else {
            return;
        };
        pipe.remove(flags);
        if pipe.has_no_ends() {
            pipe.clear(cx, buffers);
        }
        if pipe.is_closed() {
            self.remove(cx, index);
        } else {
            cx.wake(keys(index, 0) | READABLE);
            cx.wake(keys(index, 0) | WRITABLE);
        }
    }

    fn make_pipe<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let flags = cx.request.words[1] & CREATION;
        handles.room(cx, 2)?;
        let mut pipe = self.new_pipe(cx, None);
        pipe.add(o::RDONLY);
        pipe.add(o::WRONLY);
        pipe.holds = 2;
        let node = Node::Pipe(self.insert(cx, Object::Pipe(pipe))?);
        let read_end = handles.insert(cx, node, o::RDONLY | flags, 0, None)?;
        let write_end = handles.insert(cx, node, o::WRONLY | flags, 0, None)?;
        Ok(two(read_end, write_end))
    }

    /// FIFO: a handle that is neither end, by which either is opened.
    fn fifo<'a>(&'a mut self, cx: &mut Context, handles: &mut Handles<Self>) -> Answer<Reply<'a>> {
        let [_, ino, dev, mode, owner, label, ..] = cx.request.words;
        let fifo = Fifo {
            maker: cx.request.sender,
            ino,
            dev,
            mode: mode as u32 & 0o7777,
            uid: owner as u32,
            gid: (owner >> 32) as u32,
        };
        let label = match cx.request.label {
            0 => label,
            own => own,
        };
        cx.on_behalf(label, |cx| self.fifo_for(cx, handles, fifo))
            .map(|badge| Reply::new(&[0]).mint(badge))
    }

    fn fifo_for(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        fifo: Fifo,
    ) -> Answer<u64> {
        handles.room(cx, 1)?;
        let key = (fifo.maker, fifo.ino);
        let index = match self.fifos.get(&key) {
            Some(&index) => index,
            None => {
                let pipe = self.new_pipe(cx, Some(fifo));
                let index = self.insert(cx, Object::Pipe(pipe))?;
                self.fifos.insert(key, index);
                index
            }
        };
        let (pipe, _) = self.pipe(index)?;
        pipe.fifo = Some(fifo);
        pipe.holds += 1;
        handles.insert(cx, Node::Pipe(index), o::PATH, 0, None)
    }

    fn make_event<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [_, count, flags, ..] = cx.request.words;
        let event = Event {
            count: count as u32 as u64,
            semaphore: flags & SEMAPHORE != 0,
            ino: self.next_ino(),
            uid: cx.uid(),
            payer: cx.payer(),
        };
        handles.room(cx, 1)?;
        let node = Node::Event(self.insert(cx, Object::Event(event))?);
        let badge = handles.insert(cx, node, o::RDWR | flags & o::NONBLOCK, 0, None)?;
        Ok(Reply::new(&[0]).mint(badge))
    }
}

/// Two new portals, in w6 and w7.
fn two<'a>(first: u64, second: u64) -> Reply<'a> {
    let mut reply = Reply::new(&[0, 0, 0, 0, 0, 0, first, second]);
    reply.portals = 2;
    reply.flags = flag::MINT;
    reply
}

impl Server for Pipes {
    type Node = Node;
    /// [`Pipe::without_writer`].
    type State = Option<u32>;

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let meta = |mode, ino, uid, gid| Meta {
            mode,
            ino,
            uid,
            gid,
            ..Meta::default()
        };
        Ok(match node {
            Node::Root => meta(s::IFDIR | 0o555, 1, 0, 0),
            Node::Pipe(index) | Node::Event(index) => match self.object(index)? {
                Object::Pipe(pipe) => match &pipe.fifo {
                    Some(fifo) => meta(s::IFIFO | fifo.mode, fifo.ino, fifo.uid, fifo.gid),
                    None => meta(s::IFIFO | pipe.mode, pipe.ino, pipe.owner, pipe.gid),
                },
                Object::Event(event) => meta(0o600, event.ino, 0, 0),
            },
        })
    }

    fn label(&mut self, node: Node, into: &mut [u8]) -> Option<usize> {
        let (prefix, index): (&[u8], u32) = match node {
            Node::Pipe(index) => (b"pipe:[", index),
            Node::Event(_) => (b"anon_inode:[eventfd", 0),
            _ => return None,
        };
        let ino = match self.object(index) {
            Ok(Object::Pipe(pipe)) => Some(pipe.ino),
            _ => None,
        };
        let mut digits = [0; 20];
        let number: &[u8] = match (ino, node) {
            (_, Node::Event(_)) | (None, _) => &[],
            (Some(ino), _) => decimal(ino, &mut digits),
        };
        let mut at = 0;
        for part in [prefix, number, b"]"] {
            into.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        Some(at)
    }

    /// Of a pipe without a name: those of FIFOs are their files'.
    fn change(&mut self, cx: &mut Context, node: Node, change: &Change) -> Answer<()> {
        let now = (cx.now() / 1_000_000_000) as i64;
        match node {
            Node::Pipe(index) => match self.objects.get_mut(index) {
                Some(Object::Pipe(pipe)) if pipe.fifo.is_none() => {
                    pipe.mode = change.mode.unwrap_or(pipe.mode);
                    pipe.owner = change.uid.unwrap_or(pipe.owner);
                    pipe.gid = change.gid.unwrap_or(pipe.gid);
                    let [access, contents, changed] = &mut pipe.times;
                    *access = change.atime.unwrap_or(*access);
                    *contents = change.mtime.unwrap_or(*contents);
                    *changed = (now, 0);
                    Ok(())
                }
                _ => Err(Failure::Errno(EPERM)),
            },
            _ => Err(Failure::Errno(EPERM)),
        }
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        let (fifo, times) = match node {
            Node::Pipe(index) => match self.object(index)? {
                Object::Pipe(pipe) => (pipe.fifo, pipe.times),
                Object::Event(_) => (None, [(0, 0); 3]),
            },
            _ => (None, [(0, 0); 3]),
        };
        let [(atime, atime_ns), (mtime, mtime_ns), (ctime, ctime_ns)] = times;
        Ok(Stat {
            dev: fifo.map_or(ST_DEV, |fifo| fifo.dev),
            atime,
            atime_ns,
            mtime,
            mtime_ns,
            ctime,
            ctime_ns,
            ..cairn_resmgr::layout::plain_stat(&meta)
        })
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        state: &mut Option<u32>,
    ) -> Answer<Opened<Node>> {
        let index = match node {
            Node::Root => {
                return Ok(Opened {
                    node,
                    kind: fs::kind::DIRECTORY,
                })
            }
            // By a handle of it: a FIFO's, or one that is opened again through /proc/self/fd.
            Node::Pipe(index) => index,
            Node::Event(_) => return fail(ENXIO),
        };
        let (pipe, _) = self.pipe(index)?;
        pipe.open(cx, flags, index, keys(index, 0))?;
        *state = pipe.without_writer(flags);
        Ok(Opened {
            node: Node::Pipe(index),
            kind: 0,
        })
    }

    fn retain(&mut self, node: Node) {
        if let Node::Pipe(index) = node {
            if let Ok((pipe, _)) = self.pipe(index) {
                pipe.holds += 1;
            }
        }
    }

    fn cancelled(&mut self, cx: &mut Context) {
        if cx.request.words[0] != fs::OPEN {
            return;
        }
        if let Some((index, writer)) = counted(cx.progress) {
            self.close_pipe(cx, index, if writer { o::WRONLY } else { o::RDONLY });
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        self.trim(cx);
        let is_end = handle.flags & o::PATH == 0;
        match handle.node {
            Node::Root => {}
            Node::Pipe(index) => {
                let Ok((pipe, _)) = self.pipe(index) else {
                    return;
                };
                pipe.holds -= 1;
                match is_end {
                    true => self.close_pipe(cx, index, handle.flags),
                    false if pipe.is_closed() => self.remove(cx, index),
                    false => {}
                }
            }
            Node::Event(index) if is_end => self.remove(cx, index),
            Node::Event(_) => {}
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let index = match handle.node {
            Node::Pipe(index) => {
                let crowded = self.buffers.total() > KEEP;
                let Some(Object::Pipe(pipe)) = self.objects.get_mut(index) else {
                    return fail(EBADF);
                };
                if crowded && !pipe.emptied && self.trim.try_reserve(1).is_ok() {
                    pipe.emptied = true;
                    self.trim.push(index);
                }
                return pipe.read(cx, length, keys(index, 0));
            }
            Node::Event(index) => index,
            Node::Root => return fail(EBADF),
        };
        self.event(index)?.read(cx, length, keys(index, 0))?;
        Ok(Data::stored(8))
    }

    fn take_back(&mut self, cx: &mut Context, node: Node) {
        if let Node::Pipe(index) = node {
            if let Some(Object::Pipe(pipe)) = self.objects.get_mut(index) {
                pipe.ring.take_back();
                cx.wake(keys(index, 0) | READABLE);
            }
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        if !self.trim.is_empty() {
            self.trim(cx);
        }
        match handle.node {
            Node::Pipe(index) => {
                let (pipe, buffers) = self.pipe(index)?;
                pipe.write(cx, length, keys(index, 0), buffers)
            }
            Node::Event(index) => self.event(index)?.write(cx, length, keys(index, 0)),
            Node::Root => fail(EBADF),
        }
    }

    #[inline(always)]
    fn read_direct(
        &mut self,
        handle: &Handle<Self>,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
    ) -> Direct {
        if self.buffers.total() > KEEP {
            return Direct::Ordinary;
        }
        match handle.node {
            Node::Pipe(index) => match self.objects.get_mut(index) {
                Some(Object::Pipe(pipe)) => pipe.read_direct(length, words, later, keys(index, 0)),
                _ => Direct::Ordinary,
            },
            Node::Event(index) => match self.event(index) {
                Ok(event) => event.read_direct(length, words, later, keys(index, 0)),
                Err(_) => Direct::Ordinary,
            },
            Node::Root => Direct::Ordinary,
        }
    }

    #[inline(always)]
    fn write_direct(
        &mut self,
        handle: &Handle<Self>,
        length: usize,
        words: &[u64; 5],
        later: &mut Later,
    ) -> Direct {
        if !self.trim.is_empty() {
            return Direct::Ordinary;
        }
        match handle.node {
            Node::Pipe(index) => match self.objects.get_mut(index) {
                Some(Object::Pipe(pipe)) => pipe.write_direct(length, words, later, keys(index, 0)),
                _ => Direct::Ordinary,
            },
            Node::Event(index) => match self.event(index) {
                Ok(event) => event.write_direct(length, words, later, keys(index, 0)),
                Err(_) => Direct::Ordinary,
            },
            Node::Root => Direct::Ordinary,
        }
    }

    fn poll(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let (ready, keys) = match handle.node {
            Node::Pipe(index) => {
                let pipe = self.pipe(index)?.0;
                (pipe.ready(handle.flags, handle.state), keys(index, 0))
            }
            Node::Event(index) => (self.event(index)?.ready(), keys(index, 0)),
            Node::Root => (0, 0),
        };
        Ok(Readiness {
            ready,
            keys: [keys | READABLE, keys | WRITABLE],
        })
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        match (request, handle.node) {
            (FIONREAD, Node::Pipe(index)) => {
                let count = self.pipe(index)?.0.ring.len();
                self.scratch[..4].copy_from_slice(&(count as u32).to_le_bytes());
                Ok(Reply::result(0).data(&self.scratch[..4]))
            }
            (fs::GET_PIPE_SIZE, Node::Pipe(index)) => {
                Ok(Reply::result(self.pipe(index)?.0.ring.capacity() as i64))
            }
            (fs::SET_PIPE_SIZE, Node::Pipe(index)) => {
                let privileged = cx.has(label::SYSTEM);
                let Some(Object::Pipe(pipe)) = self.objects.get_mut(index) else {
                    return fail(EBADF);
                };
                let (capacities, buffers) = (&mut self.capacities, &mut self.buffers);
                let capacity = pipe.set_capacity(cx, argument, privileged, capacities, buffers)?;
                cx.wake(keys(index, 0) | WRITABLE);
                Ok(Reply::result(capacity as i64))
            }
            (fs::EVENT_COUNT, Node::Event(index)) => match self.object(index)? {
                Object::Event(event) => Ok(Reply::new(&[0, event.count])),
                Object::Pipe(_) => fail(ENOTTY),
            },
            (fs::GET_PIPE_SIZE | fs::SET_PIPE_SIZE, _) => fail(EBADF),
            _ => fail(ENOTTY),
        }
    }

    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        self.trim(cx);
        match cx.request.words[0] {
            fs::PIPE => self.make_pipe(cx, handles),
            fs::EVENTFD => self.make_event(cx, handles),
            fs::FIFO => self.fifo(cx, handles),
            _ => fail(ENOSYS),
        }
    }
}
