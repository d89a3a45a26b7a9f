//! All of it for the framework: who asks for what, what is charged, what waits.

use crate::limits::{Limits, SEMVMX};
use crate::line::{key, For, Line, Waiters};
use crate::mq;
use crate::msg::{self, Queue, Queues, Text, Wanted};
use crate::registry::{Owned, Owner, Registry, IPC_NOWAIT, READ, WRITE};
use crate::sem::{self, Blocked, Operation, Sets, UNDO_COST};
use crate::shm::{self, Segments};
use crate::structures::{Bytes, IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_abi::{pulse, Id};
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, o, poll, s, MEMORY_DEVICE};
use cairn_idl::ipc::{self, Limits as Which, Notify};
use cairn_idl::label;
use cairn_idl::net::{COOKIE_REMOVED, COOKIE_WOKEN};
use cairn_resmgr::permission::{self, in_groups};
use cairn_resmgr::server::{Answer, Shown};
use cairn_resmgr::{
    Context, Data, Direct, Failure, Handle, Handles, Later, Meta, Readiness, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};
use core::fmt::Write;

/// `vm`, and the time of day.
pub trait Outside {
    /// A memory object of so many pages of zeroes; `tag` is what [`Outside::unused`] calls it.
    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal>;
    /// A portal to it by which it cannot be mapped shared and writable.
    fn reader(&mut self, object: Portal) -> Option<Portal>;
    /// How many of its pages are mapped, counted for each mapping.
    fn mapped(&mut self, object: Portal) -> u64;
    /// The next object that nobody has mapped any more.
    fn unused(&mut self) -> Option<u64>;
    fn close(&mut self, object: Portal);
    /// RLIMIT_MSGQUEUE of the process in this domain.
    fn queue_limit(&mut self, domain: Id) -> u64;
    /// What `proc` calls the process in this domain, and never another one.
    fn life(&mut self, domain: Id) -> Option<u64>;
    /// Its signal (0: none, it is only looked at) to who asked for it, as of the process in this domain. False: it is not there any more.
    fn notify(&mut self, whom: &mq::Notify, by: Id) -> bool;
    /// Seconds since 1970.
    fn seconds(&mut self) -> u64;
}

/// The last number of a signal.
const SIGNALS: u64 = 64;

/// Whom a portal tells is told this, for the last time.
fn tell_and_close(cx: &mut Context, whom: mq::Notify, what: u64) {
    if let Some(portal) = whom.portal {
        cx.transport.notify(portal, what);
        cx.transport.close(portal);
    }
}

/// What is charged to whom for a thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    pub payer: u32,
    pub bytes: usize,
}

/// A process that this server knows.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: u32,
    undo: Option<u32>,
}

/// What a portal or handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A name space.
    Space(u32),
    /// A POSIX queue, and whether it was opened for receiving and for sending.
    Queue(u32, bool, bool),
}

/// Bytes of a list of /proc/sysvipc that are made at a time.
const LINES: usize = 16384;

pub struct Ipc<O> {
    pub outside: O,
    pub segments: Segments,
    pub queues: Queues,
    pub sets: Sets,
    pub posix: mq::Queues,
    pub waiters: Waiters,
    limits: BTreeMap<u32, Limits>,
    /// Name spaces so far; the one that the request is about whose portal is a handle.
    spaces: u32,
    here: u32,
    /// By domain. The server hears of the end of each.
    processes: BTreeMap<Id, Process>,
    /// The text of an answer.
    text: Vec<u8>,
    lines: String,
    /// Operations of a request.
    operations: Vec<Operation>,
    /// What is to be given back as soon as there is somebody to give it back through.
    back: Vec<Kept>,
}

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

fn errno<T>(result: Result<T, i64>) -> Answer<T> {
    result.map_err(Failure::Errno)
}

/// What whoever watches or polls a POSIX queue is known by.
fn posix_key(at: u32) -> u64 {
    2 << 40 | u64::from(at)
}

fn space(badge: u64) -> u32 {
    badge as u32
}

fn ids(word: u64, mode: u64) -> Result<(u32, u32, u32), i64> {
    let (uid, gid) = (word as u32, (word >> 32) as u32);
    match uid == u32::MAX || gid == u32::MAX {
        true => Err(EINVAL),
        false => Ok((uid, gid, mode as u32)),
    }
}

impl<O: Outside> Ipc<O> {
    pub fn new(outside: O) -> Ipc<O> {
        Ipc {
            outside,
            segments: Segments::default(),
            queues: Queues::default(),
            sets: Sets::default(),
            posix: mq::Queues::default(),
            waiters: Waiters::default(),
            limits: BTreeMap::new(),
            spaces: 0,
            here: 0,
            processes: BTreeMap::new(),
            text: Vec::new(),
            lines: String::new(),
            operations: Vec::new(),
            back: Vec::new(),
        }
    }

    /// The name space that a portal is for: the mount's says it, a handle's was found before.
    fn space(&self, badge: u64) -> u32 {
        match badge >> 32 {
            0 => space(badge),
            _ => self.here,
        }
    }

    /// SPACE
    fn new_space<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        handles.room(cx, 1)?;
        let number = self.spaces.checked_add(1).ok_or(Failure::Errno(ENOMEM))?;
        let node = Node::Space(number);
        let badge = handles.insert(cx, node, o::PATH, kind::DIRECTORY, ())?;
        self.spaces = number;
        Ok(Reply::new(&[0]).mint(badge))
    }

    /// Nobody is in this name space any more: what was in it goes.
    fn end_space(&mut self, cx: &mut Context, space: u32) {
        self.limits.remove(&space);
        self.segments.all.wished.remove(&space);
        self.sets.all.wished.remove(&space);
        self.queues.all.wished.remove(&space);
        // (The tables are looked through only if it has left something.)
        if self.segments.all.count(space) > 0 {
            for at in 0..self.segments.all.things.end() {
                if self.segments.all.at(space, at).is_ok() {
                    let kept = self.segments.destroy(&mut self.outside, at);
                    Self::refund(cx, kept);
                }
            }
        }
        if self.queues.all.count(space) > 0 {
            for at in 0..self.queues.all.things.end() {
                if self.queues.all.at(space, at).is_ok() {
                    let kept = self.queues.destroy(&mut self.waiters, at);
                    Self::refund(cx, kept);
                }
            }
        }
        if self.sets.all.count(space) > 0 {
            for at in 0..self.sets.all.things.end() {
                if self.sets.all.at(space, at).is_ok() {
                    let kept = self.sets.destroy(&mut self.waiters, at);
                    Self::refund(cx, kept);
                }
            }
        }
        while let Some(at) = self.posix.first_of(space) {
            self.end_notify(cx, at, |queue| queue.open == 0);
            let kept = self.posix.unlink(at);
            Self::refund(cx, kept);
        }
        self.flush(cx);
    }

    fn limits(&mut self, space: u32) -> &mut Limits {
        self.limits.entry(space).or_default()
    }

    /// The number of the caller's process.
    fn pid(&mut self, cx: &mut Context) -> u32 {
        let sender = cx.request.sender;
        if let Some(process) = self.processes.get(&sender) {
            return process.pid;
        }
        match cx.attend() {
            Some(pid) => {
                self.processes.insert(sender, Process { pid, undo: None });
                pid
            }
            // (There are too many: nobody knows its number.)
            None => 0,
        }
    }

    /// The record of what the caller's process undoes.
    fn undo(&mut self, cx: &mut Context) -> Answer<u32> {
        self.pid(cx);
        let sender = cx.request.sender;
        let Some(process) = self.processes.get_mut(&sender) else {
            return fail(ENOSPC);
        };
        if let Some(undo) = process.undo {
            return Ok(undo);
        }
        let undo = self.sets.undoes.insert(sem::Undoes::default());
        process.undo = undo;
        undo.ok_or(Failure::Errno(ENOMEM))
    }

    /// Charge the caller, or say what is to be given back.
    fn charge(cx: &mut Context, bytes: usize) -> Answer<Kept> {
        let payer = cx.payer();
        cx.charge(payer, bytes)?;
        Ok(Kept { payer, bytes })
    }

    fn refund(cx: &mut Context, kept: Option<Kept>) {
        if let Some(Kept { payer, bytes }) = kept {
            cx.refund(payer, bytes);
        }
    }

    /// Who was woken runs again; who waits until some time is remembered.
    fn flush(&mut self, cx: &mut Context) {
        for kept in self.back.drain(..) {
            cx.refund(kept.payer, kept.bytes);
        }
        for key in self.waiters.woken.drain(..) {
            cx.wake(key);
        }
        cx.wake_at(self.waiters.deadline());
    }

    /// The request waits from now on, or goes on waiting.
    fn wait<T>(
        &mut self,
        cx: &mut Context,
        what: impl FnOnce() -> For,
        deadline: u64,
    ) -> Answer<T> {
        if cx.progress == 0 {
            let what = what();
            let line = line_of(&mut self.queues, &mut self.sets, &mut self.posix, &what);
            let line = line.ok_or(Failure::Errno(EIDRM))?;
            let waiter = self.waiters.add(line, what, deadline);
            let waiter = waiter.ok_or(Failure::Errno(ENOMEM))?;
            cx.progress = u64::from(waiter) + 1;
        }
        Err(Failure::Wait(key((cx.progress - 1) as u32)))
    }

    /// A request that waited runs again: what it hears, if that is known.
    fn waited(&self, cx: &Context) -> Option<i64> {
        let waiter = cx.progress.checked_sub(1)?;
        self.waiters.get(waiter as u32)?.result
    }

    /// A request that waited does so no more.
    fn leave(&mut self, progress: u64) -> Option<For> {
        let at = progress.checked_sub(1)? as u32;
        let what = &self.waiters.get(at)?.what;
        let line = line_of(&mut self.queues, &mut self.sets, &mut self.posix, what);
        if let Some(line) = line {
            self.waiters.unlink(line, at);
        }
        Some(self.waiters.remove(at)?.what)
    }

    fn has(&self, owner: &Owner, cx: &mut Context, wanted: u32) -> Answer<()> {
        match allows(owner, cx, wanted) {
            true => Ok(()),
            false => fail(EACCES),
        }
    }

    // ---- shared memory

    fn shm_get(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, key, size, flags, ..] = cx.request.words;
        let (space, key, flags) = (self.space(cx.request.badge), key as u32, flags as u32);
        if let Some(at) = errno(self.segments.all.look(space, key, flags))? {
            let segment = self.segments.all.things.get(at);
            let segment = segment.ok_or(Failure::Errno(ENOENT))?;
            if segment.size < size {
                return fail(EINVAL);
            }
            let owner = segment.owner;
            self.has(&owner, cx, flags & 0o777)?;
            return Ok(owner.id.into());
        }
        let limits = self.limits(space).clone();
        let pages = errno(shm::pages_for(size, limits.shmmax))?;
        if self.segments.pages.saturating_add(pages) > limits.shmall {
            return fail(ENOSPC);
        }
        if self.segments.all.count(space) >= limits.shmmni {
            return fail(ENOSPC);
        }
        if flags & shm::SHM_HUGETLB != 0 {
            return fail(ENOMEM);
        }
        let pid = self.pid(cx);
        let cost = pages
            .checked_mul(4096)
            .and_then(|bytes| bytes.checked_add(size_of::<shm::Segment>() as u64 + 64));
        let kept = Self::charge(cx, cost.ok_or(Failure::Errno(ENOMEM))? as usize)?;
        let owner = Owner::new(space, key, cx.request.label, flags);
        let made = self.segments.make(
            &mut self.outside,
            owner,
            (size, pages),
            (limits.shmmni, pid),
            kept,
        );
        if made.is_err() {
            Self::refund(cx, Some(kept));
        }
        errno(made).map(u64::from)
    }

    fn shm_attach(&mut self, cx: &mut Context) -> Answer<Reply<'static>> {
        let [_, id, flags, ..] = cx.request.words;
        let at = errno(
            self.segments
                .all
                .find(self.space(cx.request.badge), id as u32),
        )?;
        let pid = self.pid(cx);
        let (segments, outside) = (&mut self.segments, &mut self.outside);
        let may = |owner: &Owner, wanted: u32| allows(owner, cx, wanted);
        let attached = segments.attach(outside, may, at, (flags as u32, pid));
        let (object, size) = errno(attached)?;
        Ok(Reply::new(&[0, size]).portal(object, false))
    }

    fn shm_ctl(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, id, command, who, mode, ..] = cx.request.words;
        let (space, id, command) = (self.space(cx.request.badge), id as u32, command as u32);
        match command {
            IPC_INFO => {
                let limits = self.limits(space).clone();
                let mut bytes = Bytes::new(72);
                for (at, value) in [
                    limits.shmmax,
                    1,
                    limits.shmmni,
                    limits.shmmni,
                    limits.shmall,
                ]
                .into_iter()
                .enumerate()
                {
                    bytes.put64(8 * at, value);
                }
                cx.store(0, bytes.as_slice())?;
                return Ok(self.segments.all.highest(space));
            }
            shm::SHM_INFO => {
                let mut bytes = Bytes::new(48);
                bytes.put32(0, self.segments.all.count(space) as u32);
                bytes.put64(8, self.segments.pages);
                bytes.put64(16, self.segments.pages);
                cx.store(0, bytes.as_slice())?;
                return Ok(self.segments.all.highest(space));
            }
            _ => {}
        }
        let at = match command {
            shm::SHM_STAT | shm::SHM_STAT_ANY => errno(self.segments.all.at(space, id))?,
            IPC_STAT | IPC_SET | IPC_RMID | shm::SHM_LOCK | shm::SHM_UNLOCK => {
                errno(self.segments.all.find(space, id))?
            }
            _ => return fail(EINVAL),
        };
        let owner = *owner(&self.segments.all, at)?;
        match command {
            IPC_STAT | shm::SHM_STAT | shm::SHM_STAT_ANY => {
                if command != shm::SHM_STAT_ANY {
                    self.has(&owner, cx, READ)?;
                }
                let bytes = errno(self.segments.stat(&mut self.outside, at))?;
                cx.store(0, bytes.as_slice())?;
                return Ok(if command == IPC_STAT {
                    0
                } else {
                    owner.id.into()
                });
            }
            _ if !owner.is_owned(cx.request.label) => return fail(EPERM),
            IPC_SET => {
                let ids = errno(ids(who, mode))?;
                self.segments.set(&mut self.outside, at, ids);
            }
            IPC_RMID => {
                let kept = self.segments.destroy(&mut self.outside, at);
                Self::refund(cx, kept);
            }
            _ => self.segments.lock(at, command == shm::SHM_LOCK),
        }
        Ok(0)
    }

    // ---- messages

    fn msg_get(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, key, flags, ..] = cx.request.words;
        let (space, key, flags) = (self.space(cx.request.badge), key as u32, flags as u32);
        if let Some(at) = errno(self.queues.all.look(space, key, flags))? {
            let owner = *owner(&self.queues.all, at)?;
            self.has(&owner, cx, flags & 0o777)?;
            return Ok(owner.id.into());
        }
        let limits = self.limits(space).clone();
        if self.queues.all.count(space) >= limits.msgmni {
            return fail(ENOSPC);
        }
        let kept = Self::charge(cx, size_of::<Queue>() + 64)?;
        let owner = Owner::new(space, key, cx.request.label, flags);
        let queue = Queue::new(owner, limits.msgmnb, self.outside.seconds(), kept);
        let made = self.queues.all.add(queue, limits.msgmni);
        if made.is_err() {
            Self::refund(cx, Some(kept));
        }
        errno(made).map(u64::from)
    }

    /// The queue that a request for sending or receiving names.
    fn queue(&self, request: &Received) -> Result<(u32, u32), i64> {
        let at = self
            .queues
            .all
            .find(self.space(request.badge), request.words[1] as u32)?;
        Ok((at, (request.words[1] >> 32) as u32))
    }

    fn send(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, _, kind, length, ..] = cx.request.words;
        let kind = kind as i64;
        let waited = self.waited(cx);
        if let Some(result) = waited {
            self.leave(cx.progress);
            return fail(-result);
        }
        let most = {
            let here = self.space(cx.request.badge);
            self.limits(here).msgmax
        };
        if length > most || kind < 1 {
            return fail(EINVAL);
        }
        let (at, flags) = errno(self.queue(cx.request))?;
        let owner = *owner(&self.queues.all, at)?;
        let length = length as usize;
        if let Err(failure) = self.has(&owner, cx, WRITE) {
            self.leave(cx.progress);
            return Err(failure);
        }
        let queue = self.queues.all.things.get(at);
        let queue = queue.ok_or(Failure::Errno(EIDRM))?;
        if !queue.has_room(length) {
            if flags & IPC_NOWAIT != 0 {
                return fail(EAGAIN);
            }
            return self.wait(cx, || For::Room(at), 0);
        }
        let lacks = queue.lacks(length);
        let sent = self.send_there(cx, at, (kind, length), lacks);
        self.leave(cx.progress);
        self.queues.next_sender(&mut self.waiters, at);
        sent
    }

    fn send_there(
        &mut self,
        cx: &mut Context,
        at: u32,
        (kind, length): (i64, usize),
        lacks: usize,
    ) -> Answer<u64> {
        if lacks != 0 {
            let queue = self.queues.all.things.get_mut(at);
            let kept = &mut queue.ok_or(Failure::Errno(EIDRM))?.kept;
            cx.charge(kept.payer, lacks)?;
            kept.bytes += lacks;
        }
        let text = fetch_text(cx, length)?;
        let by = (self.pid(cx), self.outside.seconds());
        let (queues, waiters) = (&mut self.queues, &mut self.waiters);
        errno(queues.send(waiters, at, (kind, text), by))?;
        Ok(0)
    }

    /// The words of the answer; a text that does not go in them is stored.
    fn receive(&mut self, cx: &mut Context) -> Answer<[u64; 8]> {
        let [_, _, kind, room, ..] = cx.request.words;
        if let Some(result) = self.waited(cx) {
            self.leave(cx.progress);
            return fail(-result);
        }
        let (at, flags) = errno(self.queue(cx.request))?;
        let wanted = Wanted::new(kind as i64, flags);
        let copy = matches!(wanted, Wanted::Copy(_));
        if copy && (flags & IPC_NOWAIT == 0 || flags & msg::MSG_EXCEPT != 0) {
            return fail(EINVAL);
        }
        let owner = *owner(&self.queues.all, at)?;
        let refused = self.has(&owner, cx, READ).err();
        let found = match refused {
            Some(failure) => Err(failure),
            None => match self.queues.look(at, wanted) {
                Err(ENOMSG) if flags & IPC_NOWAIT == 0 => {
                    return self.wait(cx, || For::Message(at, wanted), 0)
                }
                found => errno(found),
            },
        };
        let result = found.and_then(|number| {
            let text = there_text(&self.queues, number);
            let length = text.len();
            if length as u64 > room && flags & msg::MSG_NOERROR == 0 {
                return fail(E2BIG);
            }
            let words = cx.request.in_len == 0;
            let length = length.min(room as usize);
            if words && length > ipc::RECEIVED {
                return fail(EFBIG);
            }
            // Nothing is taken that does not arrive.
            if !words && length != 0 {
                cx.store(0, &text[..length])?;
            }
            Ok((number, length, words))
        });
        let waited = cx.progress != 0;
        self.leave(cx.progress);
        let (number, length, words) = match result {
            Ok(found) => found,
            Err(failure) => {
                if waited {
                    self.queues.offer_rest(&mut self.waiters, at);
                }
                return Err(failure);
            }
        };
        let by = (self.pid(cx), self.outside.seconds());
        let taken = match copy {
            true => None,
            false => self.queues.take(&mut self.waiters, at, number, by),
        };
        let mut answer = [length as u64, 0, 0, 0, 0, 0, 0, 0];
        let there = match &taken {
            Some(message) => Some(message),
            None => self.queues.messages.get(number),
        };
        let there = there.ok_or(Failure::Errno(ENOMSG))?;
        answer[1] = there.kind as u64;
        if words {
            words_of_text(&there.text.bytes()[..length], &mut answer);
        }
        Ok(answer)
    }

    fn msg_ctl(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, id, command, who, mode, most, ..] = cx.request.words;
        let (space, id, command) = (self.space(cx.request.badge), id as u32, command as u32);
        match command {
            IPC_INFO | msg::MSG_INFO => {
                let limits = self.limits(space).clone();
                let (pool, map, total) = match command {
                    IPC_INFO => (
                        limits.msgmni * limits.msgmnb / 1024,
                        limits.msgmnb,
                        limits.msgmnb,
                    ),
                    _ => (
                        self.queues.all.count(space),
                        self.queues.messages.len() as u64,
                        self.queues.bytes,
                    ),
                };
                let mut bytes = Bytes::new(32);
                let values = [
                    pool,
                    map,
                    limits.msgmax,
                    limits.msgmnb,
                    limits.msgmni,
                    16,
                    total,
                ];
                for (at, value) in values.into_iter().enumerate() {
                    bytes.put32(4 * at, value.min(i32::MAX as u64) as u32);
                }
                bytes.put32(28, 0xffff);
                cx.store(0, bytes.as_slice())?;
                return Ok(self.queues.all.highest(space));
            }
            _ => {}
        }
        let at = match command {
            msg::MSG_STAT | msg::MSG_STAT_ANY => errno(self.queues.all.at(space, id))?,
            IPC_STAT | IPC_SET | IPC_RMID => errno(self.queues.all.find(space, id))?,
            _ => return fail(EINVAL),
        };
        let owner = *owner(&self.queues.all, at)?;
        match command {
            IPC_STAT | msg::MSG_STAT | msg::MSG_STAT_ANY => {
                if command != msg::MSG_STAT_ANY {
                    self.has(&owner, cx, READ)?;
                }
                cx.store(0, errno(self.queues.stat(at))?.as_slice())?;
                return Ok(if command == IPC_STAT {
                    0
                } else {
                    owner.id.into()
                });
            }
            _ if !owner.is_owned(cx.request.label) => return fail(EPERM),
            IPC_SET => {
                if most > self.limits(space).msgmnb && !cx.has(label::SYSTEM) {
                    return fail(EPERM);
                }
                let ids = errno(ids(who, mode))?;
                let now = self.outside.seconds();
                if let Some(queue) = self.queues.all.things.get_mut(at) {
                    queue.set(ids, most, now);
                }
                // Who waits may have lost the right, or got room.
                self.retry(at);
            }
            _ => {
                let kept = self.queues.destroy(&mut self.waiters, at);
                Self::refund(cx, kept);
            }
        }
        Ok(0)
    }

    /// All who wait at a queue try again.
    fn retry(&mut self, at: u32) {
        let Some(queue) = self.queues.all.things.get(at) else {
            return;
        };
        for mut next in [queue.receivers.first, queue.senders.first] {
            while self.waiters.get(next).is_some() {
                self.waiters.wake(next);
                next = self.waiters.next(next);
            }
        }
    }

    // ---- semaphores

    fn sem_get(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, key, count, flags, ..] = cx.request.words;
        let (space, key, flags) = (self.space(cx.request.badge), key as u32, flags as u32);
        let limits = self.limits(space).clone();
        let count = count as u32;
        if count as i32 <= -1 || u64::from(count) > limits.semmsl {
            return fail(EINVAL);
        }
        if let Some(at) = errno(self.sets.all.look(space, key, flags))? {
            let owner = *owner(&self.sets.all, at)?;
            let set = self.sets.all.things.get(at);
            if set.is_some_and(|set| count as usize > set.semaphores.len()) {
                return fail(EINVAL);
            }
            self.has(&owner, cx, flags & 0o777)?;
            return Ok(owner.id.into());
        }
        if count == 0 {
            return fail(EINVAL);
        }
        let kept = Self::charge(cx, sem::cost(count as usize))?;
        let owner = Owner::new(space, key, cx.request.label, flags);
        let most = (limits.semmni, limits.semmns);
        let now = self.outside.seconds();
        let made = self.sets.make(owner, count as usize, most, now, kept);
        if made.is_err() {
            Self::refund(cx, Some(kept));
        }
        errno(made).map(u64::from)
    }

    /// The operations of a request into `self.operations`.
    fn fetch_operations(&mut self, cx: &mut Context, count: usize) -> Answer<()> {
        self.operations.clear();
        let room = self.operations.try_reserve(count);
        room.map_err(|_| Failure::Errno(ENOMEM))?;
        if cx.request.out_len == 0 {
            let words = cx.request.words[3..]
                .iter()
                .take(count.min(ipc::OPERATIONS));
            let operations = words.map(|word| Operation::from_word(*word));
            self.operations.extend(operations);
            return match self.operations.len() == count {
                true => Ok(()),
                false => fail(EFAULT),
            };
        }
        let mut bytes = [0; 6 * 64];
        let mut done = 0;
        while done < count {
            let some = (count - done).min(64);
            cx.fetch(6 * done, &mut bytes[..6 * some])?;
            let (each, _) = bytes[..6 * some].as_chunks::<6>();
            let operations = each.iter().map(|bytes| Operation::from_bytes(*bytes));
            self.operations.extend(operations);
            done += some;
        }
        Ok(())
    }

    fn sem_op(&mut self, cx: &mut Context) -> Answer<u64> {
        let [_, what, deadline, ..] = cx.request.words;
        if let Some(result) = self.waited(cx) {
            self.leave(cx.progress);
            return match result {
                0 => Ok(0),
                error => fail(-error),
            };
        }
        if cx.progress != 0 {
            // (Whoever changes something carries out what waits; nothing has changed.)
            return self.wait(cx, || For::Room(0), 0);
        }
        let (id, count) = (what as u32, (what >> 32) as usize);
        let most = {
            let here = self.space(cx.request.badge);
            self.limits(here).semopm
        };
        if count == 0 {
            return fail(EINVAL);
        }
        if count as u64 > most {
            return fail(E2BIG);
        }
        self.fetch_operations(cx, count)?;
        let at = errno(self.sets.all.find(self.space(cx.request.badge), id))?;
        let owner = *owner(&self.sets.all, at)?;
        let set = self.sets.all.things.get(at);
        let there = set.map_or(0, |set| set.semaphores.len());
        let operations = core::mem::take(&mut self.operations);
        let result = self.operate(cx, (at, there), &owner, &operations, deadline);
        self.operations = operations;
        result
    }

    fn operate(
        &mut self,
        cx: &mut Context,
        (at, there): (u32, usize),
        owner: &Owner,
        list: &[Operation],
        deadline: u64,
    ) -> Answer<u64> {
        if list.iter().any(|it| usize::from(it.number) >= there) {
            return fail(EFBIG);
        }
        let alters = list.iter().any(|it| it.change != 0);
        self.has(owner, cx, if alters { WRITE } else { READ })?;
        let undo = match list.iter().filter(|it| it.undoes()).count() {
            0 => None,
            count => Some(self.undo_room(cx, count)?),
        };
        let by = (self.pid(cx), self.outside.seconds());
        match self.sets.perform(at, list, by, undo) {
            Ok(()) => {
                if alters {
                    let changed = list.iter().filter(|it| it.change != 0);
                    let changed = changed.map(|it| it.number);
                    let (sets, waiters) = (&mut self.sets, &mut self.waiters);
                    sets.settle(waiters, at, changed, by.1);
                }
                Ok(0)
            }
            Err(Blocked::Never(error)) => fail(error),
            Err(Blocked::At(number, zero)) => {
                let mut own = Vec::new();
                let room = own.try_reserve_exact(list.len());
                room.map_err(|_| Failure::Errno(ENOMEM))?;
                own.extend_from_slice(list);
                let what = For::Operations {
                    set: at,
                    single: list.len() == 1,
                    list: own,
                    pid: by.0,
                    undo,
                    at: (number, zero),
                };
                self.wait(cx, || what, deadline)
            }
        }
    }

    /// The record of what the caller's process undoes, with room for so many more.
    fn undo_room(&mut self, cx: &mut Context, count: usize) -> Answer<u32> {
        let undo = self.undo(cx)?;
        if !self.sets.reserve(undo, count) {
            return fail(ENOMEM);
        }
        let payer = cx.payer();
        if let Some(undoes) = self.sets.undoes.get_mut(undo) {
            let needed = (undoes.len() + count) * UNDO_COST;
            if undoes.kept.bytes == 0 {
                undoes.kept.payer = payer;
            }
            if needed > undoes.kept.bytes {
                let more = (needed - undoes.kept.bytes).next_multiple_of(1024);
                cx.charge(undoes.kept.payer, more)?;
                undoes.kept.bytes += more;
            }
        }
        Ok(undo)
    }

    /// The result, and how much of `self.text` goes with it.
    fn sem_ctl(&mut self, cx: &mut Context) -> Answer<(u64, usize)> {
        let [_, id, command, who, mode, ..] = cx.request.words;
        let (number, command) = ((command >> 32) as u32, command as u32);
        let (space, id) = (self.space(cx.request.badge), id as u32);
        match command {
            IPC_INFO | sem::SEM_INFO => {
                let limits = self.limits(space).clone();
                let used = self.sets.used.get(&space).copied().unwrap_or(0);
                let (sets, all) = match command {
                    IPC_INFO => (20, SEMVMX as u64),
                    _ => (self.sets.all.count(space), used),
                };
                let mut bytes = Bytes::new(40);
                let values = [
                    limits.semmns,
                    limits.semmni,
                    limits.semmns,
                    limits.semmns,
                    limits.semmsl,
                    limits.semopm,
                    limits.semopm,
                    sets,
                    SEMVMX as u64,
                    all,
                ];
                for (at, value) in values.into_iter().enumerate() {
                    bytes.put32(4 * at, value as u32);
                }
                cx.store(0, bytes.as_slice())?;
                return Ok((self.sets.all.highest(space), 0));
            }
            _ => {}
        }
        let at = match command {
            sem::SEM_STAT | sem::SEM_STAT_ANY => errno(self.sets.all.at(space, id))?,
            IPC_STAT | IPC_SET | IPC_RMID | sem::GETPID..=sem::SETALL => {
                errno(self.sets.all.find(space, id))?
            }
            _ => return fail(EINVAL),
        };
        let owner = *owner(&self.sets.all, at)?;
        let now = self.outside.seconds();
        match command {
            IPC_STAT | sem::SEM_STAT | sem::SEM_STAT_ANY => {
                if command != sem::SEM_STAT_ANY {
                    self.has(&owner, cx, READ)?;
                }
                cx.store(0, errno(self.sets.stat(at))?.as_slice())?;
                let value = if command == IPC_STAT { 0 } else { owner.id };
                return Ok((value.into(), 0));
            }
            IPC_SET | IPC_RMID if !owner.is_owned(cx.request.label) => return fail(EPERM),
            IPC_SET => self.sets.set(at, errno(ids(who, mode))?, now),
            IPC_RMID => {
                let kept = self.sets.destroy(&mut self.waiters, at);
                Self::refund(cx, kept);
            }
            _ => return self.values(cx, (at, number), command, &owner),
        }
        Ok((0, 0))
    }

    /// The commands about values.
    fn values(
        &mut self,
        cx: &mut Context,
        (at, number): (u32, u32),
        command: u32,
        owner: &Owner,
    ) -> Answer<(u64, usize)> {
        let value = cx.request.words[3] as u32 as i32;
        let there = self.sets.all.things.get(at);
        let count = there.map_or(0, |set| set.semaphores.len());
        if command == sem::SETVAL && !(0..=SEMVMX).contains(&value) {
            return fail(ERANGE);
        }
        let all = matches!(command, sem::GETALL | sem::SETALL);
        let sets_value = matches!(command, sem::SETVAL | sem::SETALL);
        let wanted = if sets_value { WRITE } else { READ };
        if !all && number as usize >= count {
            // (SETVAL looks at the number first.)
            if command != sem::SETVAL {
                self.has(owner, cx, wanted)?;
            }
            return fail(EINVAL);
        }
        self.has(owner, cx, wanted)?;
        let by = (self.pid(cx), self.outside.seconds());
        let place = number as u16;
        let semaphore = there_at(&self.sets, at, number);
        let (sets, waiters) = (&mut self.sets, &mut self.waiters);
        match command {
            sem::SETVAL => {
                sets.assign(at, core::iter::once((place, value as u16)), by);
                sets.settle(waiters, at, core::iter::once(place), by.1);
            }
            sem::SETALL => {
                self.text.clear();
                let room = self.text.try_reserve(2 * count);
                room.map_err(|_| Failure::Errno(ENOMEM))?;
                self.text.resize(2 * count, 0);
                cx.fetch(0, &mut self.text)?;
                let (values, _) = self.text.as_chunks::<2>();
                let values = values.iter().map(|bytes| u16::from_le_bytes(*bytes));
                if values.clone().any(|value| i32::from(value) > SEMVMX) {
                    return fail(ERANGE);
                }
                sets.assign(at, (0..=u16::MAX).zip(values), by);
                sets.settle(waiters, at, 0..count as u16, by.1);
            }
            sem::GETALL => {
                self.text.clear();
                let room = self.text.try_reserve(2 * count);
                room.map_err(|_| Failure::Errno(ENOMEM))?;
                if let Some(set) = sets.all.things.get(at) {
                    for semaphore in &set.semaphores {
                        self.text.extend_from_slice(&semaphore.value.to_le_bytes());
                    }
                }
                if cx.request.in_len < self.text.len() {
                    return fail(EFAULT);
                }
                return Ok((0, self.text.len()));
            }
            sem::GETPID => return Ok((semaphore.pid.into(), 0)),
            sem::GETVAL => return Ok((semaphore.value.into(), 0)),
            _ => {
                let zero = command == sem::GETZCNT;
                let waiting = sets.waiting(waiters, at, place, zero);
                return Ok((waiting, 0));
            }
        }
        Ok((0, 0))
    }

    // ---- what /proc shows

    /// Which identifiers the next things of a kind are to have.
    fn wished(&mut self, which: Which) -> Option<&mut BTreeMap<u32, u32>> {
        match which {
            Which::ShmNextId => Some(&mut self.segments.all.wished),
            Which::SemNextId => Some(&mut self.sets.all.wished),
            Which::MsgNextId => Some(&mut self.queues.all.wished),
            _ => None,
        }
    }

    fn limit(&mut self, cx: &mut Context) -> Answer<Reply<'static>> {
        let [_, which, set, value, ..] = cx.request.words;
        let which = Which::from_word(which).ok_or(Failure::Errno(EINVAL))?;
        let space = self.space(cx.request.badge);
        if let Some(wished) = self.wished(which) {
            let was = wished.get(&space).map_or(u64::MAX, |id| u64::from(*id));
            if set != 0 {
                if !cx.has(label::SYSTEM) {
                    return fail(EPERM);
                }
                let id = i32::try_from(value).map_err(|_| Failure::Errno(EINVAL))?;
                wished.insert(space, id as u32);
            }
            return Ok(Reply::new(&[0, was]));
        }
        let limits = self.limits.entry(space).or_default();
        let was = limits.get(which).ok_or(Failure::Errno(EINVAL))?;
        if set != 0 {
            if !cx.has(label::SYSTEM) {
                return fail(EPERM);
            }
            if !limits.set(which, value) {
                return fail(EINVAL);
            }
        }
        Ok(Reply::new(&[0, was]))
    }

    fn list<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, what, first, ..] = cx.request.words;
        let space = self.space(cx.request.badge);
        let end = match what {
            0 => self.segments.all.things.end(),
            1 => self.sets.all.things.end(),
            2 => self.queues.all.things.end(),
            _ => return fail(EINVAL),
        };
        self.lines.clear();
        let room = self.lines.try_reserve(LINES + 512);
        room.map_err(|_| Failure::Errno(ENOMEM))?;
        let most = LINES.min(cx.request.in_len.saturating_sub(512));
        let mut at = first.min(end.into()) as u32;
        while at < end && self.lines.len() <= most {
            match what {
                0 if self.segments.all.at(space, at).is_ok() => {
                    self.segments.line(&mut self.outside, at, &mut self.lines)
                }
                1 if self.sets.all.at(space, at).is_ok() => self.sets.text(at, &mut self.lines),
                2 if self.queues.all.at(space, at).is_ok() => self.queues.line(at, &mut self.lines),
                _ => {}
            }
            at += 1;
        }
        let next = if at < end { at } else { 0 };
        let length = self.lines.len().min(cx.request.in_len);
        let reply = Reply::new(&[length as u64, next.into()]);
        Ok(reply.data(&self.lines.as_bytes()[..length]))
    }

    // ---- POSIX queues

    /// The name of a request: one component.
    fn name(&mut self, cx: &mut Context) -> Answer<Vec<u8>> {
        let length = cx.request.out_len;
        if length == 0 {
            return fail(ENOENT);
        }
        if length > mq::NAME {
            return fail(ENAMETOOLONG);
        }
        let mut name = Vec::new();
        let room = name.try_reserve_exact(length);
        room.map_err(|_| Failure::Errno(ENOMEM))?;
        name.resize(length, 0);
        cx.fetch(0, &mut name)?;
        match name.contains(&b'/') || name == b"." || name == b".." {
            true => fail(EACCES),
            false => Ok(name),
        }
    }

    fn posix_open<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [_, flags, mode, most, size, ..] = cx.request.words;
        let space = self.space(cx.request.badge);
        let name = self.name(cx)?;
        handles.room(cx, 1)?;
        let there = self.posix.with_name(space, name.clone());
        let (receives, sends) = match flags & o::ACCMODE {
            o::RDONLY => (true, false),
            o::WRONLY => (false, true),
            o::RDWR => (true, true),
            _ if there.is_none() && flags & o::CREAT == 0 => return fail(ENOENT),
            _ => return fail(EINVAL),
        };
        let at = match there {
            Some(_) if flags & (o::CREAT | o::EXCL) == o::CREAT | o::EXCL => return fail(EEXIST),
            Some(at) => {
                let access = self.meta(Node::Queue(at, false, false))?.access();
                let mut wanted = 0;
                if receives {
                    wanted |= permission::READ;
                }
                if sends {
                    wanted |= permission::WRITE;
                }
                permission::check(cx, &access, wanted)?;
                at
            }
            None if flags & o::CREAT == 0 => return fail(ENOENT),
            None => self.posix_make(cx, (space, name), mode, (most, size))?,
        };
        if let Some(queue) = self.posix.all.get_mut(at) {
            queue.open += 1;
        }
        let node = Node::Queue(at, receives, sends);
        let flags = flags & (o::ACCMODE | o::NONBLOCK);
        let badge = match handles.insert(cx, node, flags, kind::SEEKABLE, ()) {
            Ok(badge) => badge,
            Err(failure) => {
                let kept = self.posix.close(at);
                Self::refund(cx, kept);
                return Err(failure);
            }
        };
        Ok(Reply::new(&[0]).mint(badge))
    }

    fn posix_make(
        &mut self,
        cx: &mut Context,
        (space, name): (u32, Vec<u8>),
        mode: u64,
        (most, size): (u64, u64),
    ) -> Answer<u32> {
        let privileged = cx.has(label::SYSTEM);
        let own = self.limits(space);
        let (highest, normal, queues) = (own.mq_most, own.mq_default, own.mq_queues);
        let (most, size) = match most {
            u64::MAX => (normal.0.min(highest.0), normal.1.min(highest.1)),
            _ => (most, size),
        };
        let limits = if privileged { mq::HARD } else { highest };
        if most == 0 || size == 0 || most > limits.0 || size > limits.1 {
            return fail(EINVAL);
        }
        if self.posix.count(space) >= queues && !privileged {
            return fail(ENOSPC);
        }
        let counted = mq::counted(most, size).ok_or(Failure::Errno(EOVERFLOW))?;
        let uid = cx.uid();
        let used = self.posix.users.get(&uid).copied().unwrap_or(0);
        let limit = self.outside.queue_limit(cx.request.sender);
        if used.saturating_add(counted) > limit {
            return fail(EMFILE);
        }
        let kept = Self::charge(cx, mq::own_cost(name.len()))?;
        let owner = (mode as u32 & 0o777, uid, cx.gid());
        let place = (space, name);
        let made = self.posix.make(place, owner, (most, size, counted), kept);
        if made.is_err() {
            Self::refund(cx, Some(kept));
        }
        errno(made)
    }

    fn posix_unlink(&mut self, cx: &mut Context) -> Answer<u64> {
        let name = self.name(cx)?;
        let at = self.posix.with_name(self.space(cx.request.badge), name);
        let at = at.ok_or(Failure::Errno(ENOENT))?;
        let access = self.meta(Node::Queue(at, false, false))?.access();
        permission::owner(cx, &access)?;
        self.end_notify(cx, at, |queue| queue.open == 0);
        let kept = self.posix.unlink(at);
        Self::refund(cx, kept);
        Ok(0)
    }

    fn posix_special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let handle = handles.get(cx.request.badge);
        let handle = handle.ok_or(Failure::Errno(EBADF))?;
        let Node::Queue(at, receives, sends) = handle.node else {
            return fail(EBADF);
        };
        let waits = handle.flags & o::NONBLOCK == 0;
        match cx.request.words[0] {
            ipc::MQ_SEND if sends => {
                let sent = self.posix_send(cx, at, waits);
                self.flush(cx);
                sent.map(Reply::result)
            }
            ipc::MQ_RECEIVE if receives => {
                let answer = self.posix_receive(cx, at, waits);
                self.flush(cx);
                answer.map(|words| Reply::new(&words))
            }
            ipc::MQ_ATTR => {
                let old = handle.flags & o::NONBLOCK;
                if cx.request.words[1] != 0 {
                    let wished = cx.request.words[2];
                    if wished & !o::NONBLOCK != 0 {
                        return fail(EINVAL);
                    }
                    handle.flags = handle.flags & !o::NONBLOCK | wished;
                }
                let queue = self.posix.all.get(at);
                let queue = queue.ok_or(Failure::Errno(EBADF))?;
                Ok(Reply::new(&[0, old, queue.most, queue.size, queue.count]))
            }
            ipc::MQ_NOTIFY => self.posix_notify(cx, at).map(Reply::result),
            ipc::MQ_SEND | ipc::MQ_RECEIVE => fail(EBADF),
            _ => fail(EINVAL),
        }
    }

    fn posix_send(&mut self, cx: &mut Context, at: u32, waits: bool) -> Answer<i64> {
        let [_, priority, deadline, length, ..] = cx.request.words;
        if let Some(result) = self.waited(cx) {
            self.leave(cx.progress);
            return fail(-result);
        }
        let queue = self.posix.all.get(at).ok_or(Failure::Errno(EBADF))?;
        if priority >= mq::PRIORITIES {
            return fail(EINVAL);
        }
        if length > queue.size {
            return fail(EMSGSIZE);
        }
        if queue.is_full() {
            return match waits {
                false => fail(EAGAIN),
                true => self.wait(cx, || For::Taken(at), deadline),
            };
        }
        let lacks = queue.lacks(length as usize);
        let sent = self.posix_send_there(cx, at, priority as u32, length as usize, lacks);
        self.leave(cx.progress);
        if sent.is_err() {
            self.posix.offer(&mut self.waiters, at);
        }
        cx.wake(posix_key(at));
        sent
    }

    fn posix_send_there(
        &mut self,
        cx: &mut Context,
        at: u32,
        priority: u32,
        length: usize,
        lacks: usize,
    ) -> Answer<i64> {
        if lacks != 0 {
            let queue = self.posix.all.get_mut(at);
            let kept = &mut queue.ok_or(Failure::Errno(EBADF))?.kept;
            cx.charge(kept.payer, lacks)?;
            kept.bytes += lacks;
        }
        let text = fetch_text(cx, length)?;
        let queue = self.posix.all.get_mut(at);
        let whom = queue.filter(|queue| queue.tells());
        let whom = whom.and_then(|queue| queue.notify.take());
        let sent = self.posix.send(&mut self.waiters, at, priority, text);
        match (&sent, whom) {
            (Ok(()), Some(whom)) if whom.portal.is_some() => {
                tell_and_close(cx, whom, COOKIE_WOKEN);
            }
            (Ok(()), Some(whom)) if whom.signal != 0 => {
                self.outside.notify(&whom, cx.request.sender);
            }
            (Err(_), Some(_)) => {
                if let Some(queue) = self.posix.all.get_mut(at) {
                    queue.notify = whom;
                }
            }
            _ => {}
        }
        errno(sent)?;
        Ok(0)
    }

    /// Nobody is told any more, if the queue goes now.
    fn end_notify(&mut self, cx: &mut Context, at: u32, goes: impl Fn(&mq::Queue) -> bool) {
        let queue = self.posix.all.get_mut(at).filter(|queue| goes(queue));
        if let Some(whom) = queue.and_then(|queue| queue.notify.take()) {
            tell_and_close(cx, whom, COOKIE_REMOVED);
        }
    }

    /// MQ_NOTIFY
    fn posix_notify(&mut self, cx: &mut Context, at: u32) -> Answer<i64> {
        let came = cx.request.portals == 1;
        let portal = came.then_some(Portal(cx.request.words[7] as u32));
        let result = self.posix_notify_by(cx, at, portal);
        if let (Err(_), Some(portal)) = (&result, portal) {
            cx.transport.close(portal);
        }
        result
    }

    fn posix_notify_by(
        &mut self,
        cx: &mut Context,
        at: u32,
        portal: Option<Portal>,
    ) -> Answer<i64> {
        let [_, how, signal, value, ..] = cx.request.words;
        let domain = cx.request.sender;
        let how = Notify::from_word(how).ok_or(Failure::Errno(EINVAL))?;
        let queue = self.posix.all.get_mut(at).ok_or(Failure::Errno(EBADF))?;
        if portal.is_some() != (how == Notify::Portal) {
            return fail(EINVAL);
        }
        let signal = match how {
            Notify::Off => {
                if queue.notify.is_some_and(|whom| whom.domain == domain) {
                    if let Some(whom) = queue.notify.take() {
                        tell_and_close(cx, whom, COOKIE_REMOVED);
                    }
                }
                return Ok(0);
            }
            Notify::Nothing | Notify::Portal => 0,
            Notify::Signal if signal <= SIGNALS => signal,
            Notify::Signal => return fail(EINVAL),
        };
        if let Some(whom) = queue.notify {
            let there = mq::Notify { signal: 0, ..whom };
            if self.outside.notify(&there, 0) {
                return fail(EBUSY);
            }
        }
        let life = self.outside.life(domain).ok_or(Failure::Errno(ESRCH))?;
        let before = queue.notify.replace(mq::Notify {
            domain,
            life,
            signal,
            value,
            portal,
        });
        if let Some(gone) = before {
            tell_and_close(cx, gone, COOKIE_REMOVED);
        }
        Ok(0)
    }

    /// The words of the answer; a text that does not go in them is stored.
    fn posix_receive(&mut self, cx: &mut Context, at: u32, waits: bool) -> Answer<[u64; 8]> {
        let [_, room, deadline, ..] = cx.request.words;
        if let Some(result) = self.waited(cx) {
            self.leave(cx.progress);
            return fail(-result);
        }
        let queue = self.posix.all.get(at).ok_or(Failure::Errno(EBADF))?;
        if room < queue.size {
            return fail(EMSGSIZE);
        }
        let Some(text) = self.posix.next(at) else {
            return match waits {
                false => fail(EAGAIN),
                true => self.wait(cx, || For::Put(at), deadline),
            };
        };
        let (length, words) = (text.len(), cx.request.in_len == 0);
        let mut answer = [length as u64, 0, 0, 0, 0, 0, 0, 0];
        // Nothing is taken that does not arrive.
        let stored = match words {
            // (The next one may wait in vain: this caller comes again.)
            true if length > ipc::RECEIVED => {
                self.leave(cx.progress);
                return fail(EFBIG);
            }
            true => {
                words_of_text(text, &mut answer);
                Ok(())
            }
            false if length == 0 => Ok(()),
            false => cx.store(0, text),
        };
        self.leave(cx.progress);
        if let Err(failure) = stored {
            // Perhaps this caller does not come again.
            self.posix.offer(&mut self.waiters, at);
            return Err(failure);
        }
        let taken = self.posix.take(&mut self.waiters, at);
        let (priority, _) = taken.ok_or(Failure::Errno(EAGAIN))?;
        self.posix.offer(&mut self.waiters, at);
        cx.wake(posix_key(at));
        answer[1] = priority.into();
        Ok(answer)
    }

    fn posix_send_directly(
        &mut self,
        node: Option<Node>,
        request: &mut Received,
        later: &mut Later,
    ) -> Option<()> {
        let Some(Node::Queue(at, _, true)) = node else {
            return None;
        };
        let [_, priority, _, length, ..] = request.words;
        let queue = self.posix.all.get(at)?;
        let fits = length <= queue.size.min(ipc::SENT as u64) && priority < mq::PRIORITIES;
        if !fits || queue.tells() || queue.is_full() || queue.lacks(length as usize) != 0 {
            return None;
        }
        let length = length as usize;
        let text = Text::short(&text_of_words(&request.words, length)[..length]);
        let sent = self
            .posix
            .send(&mut self.waiters, at, priority as u32, text);
        later.wake(posix_key(at));
        request.words[0] = sent.map_or_else(|error| -error as u64, |()| 0);
        Some(())
    }

    fn posix_receive_directly(
        &mut self,
        node: Option<Node>,
        request: &mut Received,
        later: &mut Later,
    ) -> Option<()> {
        let Some(Node::Queue(at, true, _)) = node else {
            return None;
        };
        let queue = self.posix.all.get(at)?;
        let length = self.posix.next(at)?.len();
        if request.words[1] < queue.size || length > ipc::RECEIVED {
            return None;
        }
        let (priority, text) = self.posix.take(&mut self.waiters, at)?;
        later.wake(posix_key(at));
        request.words[0] = length as u64;
        request.words[1] = priority.into();
        words_of_text(text.bytes(), &mut request.words);
        Some(())
    }

    // ---- the direct way

    /// MSG_SEND whose text is in words, where there is room and nothing is to be charged. None: the ordinary way.
    fn send_directly(&mut self, request: &Received) -> Option<i64> {
        let [_, _, kind, length, ..] = request.words;
        let pid = self.processes.get(&request.sender)?.pid;
        let most = self.limits.get(&self.space(request.badge))?.msgmax;
        let (at, _) = self.queue(request).ok()?;
        let queue = self.queues.all.things.get(at)?;
        let fits = length <= most && length <= ipc::SENT as u64 && kind as i64 >= 1;
        let length = length as usize;
        let may = fits && directly(&queue.owner, request, WRITE);
        if !may || !queue.has_room(length) || queue.lacks(length) != 0 {
            return None;
        }
        let text = Text::short(&text_of_words(&request.words, length)[..length]);
        let by = (pid, self.outside.seconds());
        let (queues, waiters) = (&mut self.queues, &mut self.waiters);
        match queues.send(waiters, at, (kind as i64, text), by) {
            Ok(()) => Some(0),
            Err(error) => Some(-error),
        }
    }

    /// MSG_RECEIVE whose text goes in words, where there is something.
    fn receive_directly(&mut self, request: &mut Received) -> Option<()> {
        let [_, _, kind, room, ..] = request.words;
        let pid = self.processes.get(&request.sender)?.pid;
        let (at, flags) = self.queue(request).ok()?;
        let queue = self.queues.all.things.get(at)?;
        if flags & msg::MSG_COPY != 0 || !directly(&queue.owner, request, READ) {
            return None;
        }
        let number = self.queues.look(at, Wanted::new(kind as i64, flags)).ok()?;
        let length = self.queues.messages.get(number)?.text.len();
        if length as u64 > room || length > ipc::RECEIVED {
            return None;
        }
        let by = (pid, self.outside.seconds());
        let message = self.queues.take(&mut self.waiters, at, number, by)?;
        request.words[0] = length as u64;
        request.words[1] = message.kind as u64;
        words_of_text(message.text.bytes(), &mut request.words);
        Some(())
    }

    /// SEM_OP whose operations are in words, are possible, and are not to be undone.
    fn operate_directly(&mut self, request: &Received) -> Option<()> {
        let [_, what, ..] = request.words;
        let (id, count) = (what as u32, (what >> 32) as usize);
        if count == 0 || count > ipc::OPERATIONS {
            return None;
        }
        let pid = self.processes.get(&request.sender)?.pid;
        let at = self.sets.all.find(self.space(request.badge), id).ok()?;
        let mut list = [Operation::default(); ipc::OPERATIONS];
        for (operation, word) in list.iter_mut().zip(&request.words[3..3 + count]) {
            *operation = Operation::from_word(*word);
        }
        let list = &list[..count];
        let set = self.sets.all.things.get(at)?;
        let alters = list.iter().any(|it| it.change != 0);
        let wanted = if alters { WRITE } else { READ };
        if list.iter().any(Operation::undoes) || !directly(&set.owner, request, wanted) {
            return None;
        }
        let by = (pid, self.outside.seconds());
        self.sets.perform(at, list, by, None).ok()?;
        if alters {
            let changed = list.iter().filter(|it| it.change != 0);
            let changed = changed.map(|it| it.number);
            let (sets, waiters) = (&mut self.sets, &mut self.waiters);
            sets.settle(waiters, at, changed, by.1);
        }
        Some(())
    }
}

/// May the caller do this, as far as that can be told without asking anybody?
fn directly(owner: &Owner, request: &Received, wanted: u32) -> bool {
    owner.allows(request.label, wanted, |_| false)
}

/// The line that a request stands in.
fn line_of<'a>(
    queues: &'a mut Queues,
    sets: &'a mut Sets,
    posix: &'a mut mq::Queues,
    what: &For,
) -> Option<&'a mut Line> {
    match what {
        For::Message(at, _) => Some(&mut queues.all.things.get_mut(*at)?.receivers),
        For::Room(at) => Some(&mut queues.all.things.get_mut(*at)?.senders),
        For::Taken(at) => Some(&mut posix.all.get_mut(*at)?.senders),
        For::Put(at) => Some(&mut posix.all.get_mut(*at)?.receivers),
        For::Operations { .. } => sets.line(what),
    }
}

fn allows(owner: &Owner, cx: &mut Context, wanted: u32) -> bool {
    let label = cx.request.label;
    owner.allows(label, wanted, |group| in_groups(cx, group))
}

fn owner<T: Owned>(all: &Registry<T>, at: u32) -> Answer<&Owner> {
    let thing = all.things.get(at).map(|thing| thing.owner());
    thing.ok_or(Failure::Errno(EINVAL))
}

/// The text of a message: in words if it is short, or in the part.
fn fetch_text(cx: &mut Context, length: usize) -> Answer<Text> {
    if cx.request.out_len == 0 && length <= ipc::SENT {
        let bytes = text_of_words(&cx.request.words, length);
        return Ok(Text::short(&bytes[..length]));
    }
    if length <= msg::SHORT {
        let mut bytes = [0; msg::SHORT];
        cx.fetch(0, &mut bytes[..length])?;
        return Ok(Text::short(&bytes[..length]));
    }
    let mut bytes = Vec::new();
    let room = bytes.try_reserve_exact(length);
    room.map_err(|_| Failure::Errno(ENOMEM))?;
    bytes.resize(length, 0);
    cx.fetch(0, &mut bytes)?;
    Ok(Text::Long(bytes))
}

fn there_text(queues: &Queues, number: u32) -> &[u8] {
    let message = queues.messages.get(number);
    message.map_or(&[], |message| message.text.bytes())
}

fn there_at(sets: &Sets, at: u32, number: u32) -> sem::Semaphore {
    let set = sets.all.things.get(at);
    let semaphore = set.and_then(|set| set.semaphores.get(number as usize));
    semaphore.copied().unwrap_or_default()
}

/// The text that comes in w4 to w7.
fn text_of_words(words: &[u64; 8], length: usize) -> [u8; ipc::SENT] {
    let mut bytes = [0; ipc::SENT];
    let count = length.min(ipc::SENT).div_ceil(8);
    for (eight, word) in bytes
        .as_chunks_mut::<8>()
        .0
        .iter_mut()
        .zip(&words[4..])
        .take(count)
    {
        *eight = word.to_le_bytes();
    }
    bytes
}

/// And that goes in w2 to w7.
fn words_of_text(text: &[u8], words: &mut [u64; 8]) {
    words[2..].fill(0);
    let (whole, rest) = text.as_chunks::<8>();
    for (word, eight) in words[2..].iter_mut().zip(whole) {
        *word = u64::from_le_bytes(*eight);
    }
    if let (false, Some(word)) = (rest.is_empty(), words[2..].get_mut(whole.len())) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        *word = u64::from_le_bytes(last);
    }
}

impl<O: Outside> Server for Ipc<O> {
    type Node = Node;
    type State = ();

    fn root(&mut self, badge: u64) -> Node {
        Node::Space(space(badge))
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let queue = match node {
            Node::Space(_) => None,
            Node::Queue(at, ..) => self.posix.all.get(at),
        };
        Ok(match queue {
            None => Meta {
                mode: s::IFDIR | 0o555,
                ino: 1,
                ..Meta::default()
            },
            Some(queue) => Meta {
                mode: s::IFREG | queue.mode,
                uid: queue.uid,
                gid: queue.gid,
                ino: queue.ino + 1,
                size: 80,
                ..Meta::default()
            },
        })
    }

    /// As Linux calls the memory of a segment.
    fn shown(&mut self, tag: u64, into: &mut [u8]) -> Option<Shown<Node>> {
        let key = self.segments.key_of(tag)?;
        let name = alloc::format!("/SYSV{key:08x} (deleted)");
        into.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Shown::Named(name.len(), MEMORY_DEVICE, tag))
    }

    fn label(&mut self, node: Node, into: &mut [u8]) -> Option<usize> {
        let Node::Queue(at, ..) = node else {
            return None;
        };
        let name = &self.posix.all.get(at)?.name;
        into.first_mut().map(|first| *first = b'/')?;
        into.get_mut(1..1 + name.len())?.copy_from_slice(name);
        Some(1 + name.len())
    }

    /// What is in the queue, as a line.
    fn read<'a>(
        &'a mut self,
        _: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let Node::Queue(at, ..) = handle.node else {
            return fail(EISDIR);
        };
        let bytes = self.posix.all.get(at).map_or(0, |queue| queue.bytes);
        self.lines.clear();
        let line = writeln!(
            self.lines,
            "QSIZE:{bytes:<10} NOTIFY:{:<5} SIGNO:{:<5} NOTIFY_PID:{:<6}",
            0, 0, 0
        );
        line.map_err(|_| Failure::Errno(ENOMEM))?;
        let text = self.lines.as_bytes();
        let rest = text.get(offset.min(80) as usize..).unwrap_or(&[]);
        Ok(rest[..rest.len().min(length)].into())
    }

    fn poll(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let Node::Queue(at, ..) = handle.node else {
            return Ok(Readiness {
                ready: 0,
                keys: [0; 2],
            });
        };
        let mut ready = 0;
        if let Some(queue) = self.posix.all.get(at) {
            if queue.count != 0 {
                ready |= poll::IN | poll::RDNORM;
            }
            if !queue.is_full() {
                ready |= poll::OUT | poll::WRNORM;
            }
        }
        Ok(Readiness {
            ready,
            keys: [posix_key(at); 2],
        })
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        match handle.node {
            Node::Queue(at, ..) => {
                self.end_notify(cx, at, |queue| !queue.named && queue.open <= 1);
                let kept = self.posix.close(at);
                Self::refund(cx, kept);
            }
            Node::Space(0) => {}
            Node::Space(space) => self.end_space(cx, space),
        }
    }

    fn takes(&self, operation: u64) -> usize {
        usize::from(operation == ipc::MQ_NOTIFY)
    }

    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        if cx.request.badge >> 32 != 0 {
            let handle = handles.get(cx.request.badge);
            match handle.map(|handle| handle.node) {
                Some(Node::Space(number)) => self.here = number,
                _ => return self.posix_special(cx, handles),
            }
        }
        let here = self.space(cx.request.badge);
        self.limits(here);
        let value = |value: Answer<u64>| value.map(|value| Reply::result(value as i64));
        let answer = match cx.request.words[0] {
            ipc::SHM_GET => value(self.shm_get(cx)),
            ipc::SHM_ATTACH => self.shm_attach(cx),
            ipc::SHM_DETACHED => {
                let id = cx.request.words[1] as u32;
                if let Ok(at) = self.segments.all.find(self.space(cx.request.badge), id) {
                    let pid = self.pid(cx);
                    self.segments.detached(&mut self.outside, at, pid);
                }
                Ok(Reply::result(0))
            }
            ipc::SHM_CTL => value(self.shm_ctl(cx)),
            ipc::MSG_GET => value(self.msg_get(cx)),
            ipc::MSG_SEND => value(self.send(cx)),
            ipc::MSG_CTL => value(self.msg_ctl(cx)),
            ipc::SEM_GET => value(self.sem_get(cx)),
            ipc::SEM_OP => value(self.sem_op(cx)),
            ipc::SPACE => self.new_space(cx, handles),
            ipc::MQ_OPEN => self.posix_open(cx, handles),
            ipc::MQ_UNLINK => value(self.posix_unlink(cx)),
            ipc::LIMIT => self.limit(cx),
            ipc::MSG_RECEIVE => self.receive(cx).map(|words| Reply::new(&words)),
            ipc::SEM_CTL => {
                let answer = self.sem_ctl(cx);
                self.flush(cx);
                let (value, length) = answer?;
                return Ok(Reply::result(value as i64).data(&self.text[..length]));
            }
            ipc::LIST => return self.list(cx),
            _ => fail(ENOSYS),
        };
        self.flush(cx);
        answer
    }

    fn special_direct(
        &mut self,
        node: Option<Node>,
        request: &mut Received,
        later: &mut Later,
    ) -> Direct {
        let done = match request.words[0] {
            ipc::MQ_SEND => self.posix_send_directly(node, request, later),
            ipc::MQ_RECEIVE => self.posix_receive_directly(node, request, later),
            _ if node.is_some() || request.badge >> 32 != 0 => None,
            ipc::MSG_SEND => self.send_directly(request).map(|result| {
                request.words[0] = result as u64;
            }),
            ipc::MSG_RECEIVE => self.receive_directly(request),
            ipc::SEM_OP => self
                .operate_directly(request)
                .map(|()| request.words[0] = 0),
            _ => None,
        };
        for key in self.waiters.woken.drain(..) {
            later.wake(key);
        }
        match done {
            Some(()) => Direct::Done(0),
            None => Direct::Ordinary,
        }
    }

    fn pulse(&mut self, cx: &mut Context, event: &Received) {
        if event.words[0] == pulse::NOTIFY {
            while let Some(tag) = self.outside.unused() {
                let kept = self.segments.unused(&mut self.outside, tag);
                Self::refund(cx, kept);
            }
        }
    }

    fn process_ended(&mut self, cx: &mut Context, domain: u32) {
        let Some(process) = self.processes.remove(&domain) else {
            return;
        };
        if let Some(undo) = process.undo {
            let by = (process.pid, self.outside.seconds());
            let kept = self.sets.undo(&mut self.waiters, undo, by);
            Self::refund(cx, Some(kept));
        }
        self.flush(cx);
    }

    fn cancelled(&mut self, cx: &mut Context) {
        match self.leave(cx.progress) {
            Some(For::Message(queue, _)) => self.queues.offer_rest(&mut self.waiters, queue),
            Some(For::Room(queue)) => self.queues.next_sender(&mut self.waiters, queue),
            Some(For::Taken(queue) | For::Put(queue)) => self.posix.offer(&mut self.waiters, queue),
            _ => {}
        }
        self.flush(cx);
    }

    fn tick(&mut self, cx: &mut Context) {
        let now = cx.transport.monotonic();
        while let Some(at) = self.waiters.next_over(now) {
            let Some(waiter) = self
                .waiters
                .get(at)
                .filter(|waiter| waiter.result.is_none())
            else {
                continue;
            };
            let result = match waiter.what {
                For::Operations { .. } => -EAGAIN,
                _ => -ETIMEDOUT,
            };
            let line = line_of(
                &mut self.queues,
                &mut self.sets,
                &mut self.posix,
                &waiter.what,
            );
            if let Some(line) = line {
                self.waiters.finish(line, at, result);
            }
        }
        self.flush(cx);
    }
}
