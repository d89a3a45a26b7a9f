//! Queues of messages. A message is in two lists of its queue: in that of all, by arrival, and in that of its type. Types that a queue has messages of are in order, so the lowest one, or one in particular, is found at once.

use crate::line::{For, Line, Waiters, NONE};
use crate::registry::{Owned, Owner, Registry};
use crate::server::Kept;
use crate::structures::{with_owner, Bytes};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_slab::Slab;

pub const MSG_STAT: u32 = 11;
pub const MSG_INFO: u32 = 12;
pub const MSG_STAT_ANY: u32 = 13;
pub const MSG_NOERROR: u32 = 0o10000;
pub const MSG_EXCEPT: u32 = 0o20000;
pub const MSG_COPY: u32 = 0o40000;

/// Bytes of a message that need no memory of their own.
pub const SHORT: usize = 48;
/// What a message costs beside its text.
pub const MESSAGE_COST: usize = size_of::<Option<Message>>() + 16;

/// The text of a message.
#[derive(Debug)]
pub enum Text {
    Short([u8; SHORT], u8),
    Long(Vec<u8>),
}

impl Text {
    pub fn short(bytes: &[u8]) -> Text {
        let mut short = [0; SHORT];
        let length = bytes.len().min(SHORT);
        short[..length].copy_from_slice(&bytes[..length]);
        Text::Short(short, length as u8)
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Text::Short(bytes, length) => &bytes[..usize::from(*length)],
            Text::Long(bytes) => bytes,
        }
    }

    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }
}

#[derive(Debug)]
pub struct Message {
    pub kind: i64,
    pub text: Text,
    /// Among all of the queue.
    older: u32,
    newer: u32,
    /// The next one of this type.
    next: u32,
}

/// What a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Any,
    Type(i64),
    Except(i64),
    /// The lowest type up to this one.
    Lowest(i64),
    /// A copy of the one at this place.
    Copy(u64),
}

impl Wanted {
    /// msgtyp and flags of msgrcv(2).
    pub fn new(kind: i64, flags: u32) -> Wanted {
        match kind {
            _ if flags & MSG_COPY != 0 => Wanted::Copy(kind as u64),
            0 => Wanted::Any,
            i64::MIN..0 => Wanted::Lowest(kind.checked_neg().unwrap_or(i64::MAX)),
            _ if flags & MSG_EXCEPT != 0 => Wanted::Except(kind),
            _ => Wanted::Type(kind),
        }
    }

    fn fits(self, kind: i64) -> bool {
        match self {
            Wanted::Any | Wanted::Copy(_) => true,
            Wanted::Type(wanted) => kind == wanted,
            Wanted::Except(other) => kind != other,
            Wanted::Lowest(most) => kind <= most,
        }
    }
}

/// Messages of one type, by arrival.
#[derive(Clone, Copy, Debug)]
struct OfType {
    kind: i64,
    first: u32,
    last: u32,
}

#[derive(Debug)]
pub struct Queue {
    pub owner: Owner,
    pub bytes: u64,
    pub count: u64,
    pub most: u64,
    stime: u64,
    rtime: u64,
    ctime: u64,
    lspid: u32,
    lrpid: u32,
    first: u32,
    last: u32,
    types: Vec<OfType>,
    pub receivers: Line,
    pub senders: Line,
    /// What is charged to who made it: it grows with what the queue holds, and stays until the queue goes.
    pub kept: Kept,
}

impl Owned for Queue {
    fn owner(&self) -> &Owner {
        &self.owner
    }
    fn owner_mut(&mut self) -> &mut Owner {
        &mut self.owner
    }
}

impl Queue {
    pub fn new(owner: Owner, most: u64, now: u64, kept: Kept) -> Queue {
        Queue {
            owner,
            bytes: 0,
            count: 0,
            most,
            stime: 0,
            rtime: 0,
            ctime: now,
            lspid: 0,
            lrpid: 0,
            first: NONE,
            last: NONE,
            types: Vec::new(),
            receivers: Line::default(),
            senders: Line::default(),
            kept,
        }
    }

    /// Is there room for a message of so many bytes?
    #[inline]
    pub fn has_room(&self, length: usize) -> bool {
        self.bytes + length as u64 <= self.most && self.count < self.most
    }

    /// What is to be charged before a message of so many bytes more comes in, beside what is.
    #[inline]
    pub fn lacks(&self, length: usize) -> usize {
        let needed = self.bytes as usize
            + length
            + (self.count as usize + 1) * MESSAGE_COST
            + size_of::<Queue>();
        match needed > self.kept.bytes {
            // Some at a time.
            true => (needed - self.kept.bytes).next_multiple_of(1024),
            false => 0,
        }
    }

    pub fn set(&mut self, (uid, gid, mode): (u32, u32, u32), most: u64, now: u64) {
        let owner = &mut self.owner;
        (owner.uid, owner.gid) = (uid, gid);
        owner.mode = mode & 0o777;
        self.most = most;
        self.ctime = now;
    }

    fn of_type(&self, kind: i64) -> Result<usize, usize> {
        self.types.binary_search_by_key(&kind, |of| of.kind)
    }
}

#[derive(Default)]
pub struct Queues {
    pub all: Registry<Queue>,
    pub messages: Slab<Message>,
    /// Bytes of all messages.
    pub bytes: u64,
}

impl Queues {
    /// A message goes in, for which there is room, and a receiver goes on that it fits.
    pub fn send(
        &mut self,
        waiters: &mut Waiters,
        at: u32,
        (kind, text): (i64, Text),
        (pid, now): (u32, u64),
    ) -> Result<(), i64> {
        let queue = self.all.things.get_mut(at).ok_or(EIDRM)?;
        let place = queue.of_type(kind);
        if place.is_err() && queue.types.try_reserve(1).is_err() {
            return Err(ENOMEM);
        }
        let length = text.len() as u64;
        let message = Message {
            kind,
            text,
            older: queue.last,
            newer: NONE,
            next: NONE,
        };
        let number = self.messages.insert(message).ok_or(ENOMEM)?;
        let before = match place {
            Ok(place) => {
                let of = &mut queue.types[place];
                core::mem::replace(&mut of.last, number)
            }
            Err(place) => {
                let (first, last) = (number, number);
                queue.types.insert(place, OfType { kind, first, last });
                NONE
            }
        };
        if let Some(before) = self.messages.get_mut(before) {
            before.next = number;
        }
        match self.messages.get_mut(queue.last) {
            Some(last) => last.newer = number,
            None => queue.first = number,
        }
        queue.last = number;
        queue.bytes += length;
        queue.count += 1;
        self.bytes += length;
        (queue.stime, queue.lspid) = (now, pid);
        self.offer(waiters, at, kind);
        Ok(())
    }

    /// The first receiver that waits for a message of this type goes on.
    fn offer(&self, waiters: &mut Waiters, at: u32, kind: i64) {
        let Some(queue) = self.all.things.get(at) else {
            return;
        };
        let mut next = queue.receivers.first;
        while let Some(waiter) = waiters.get(next) {
            match waiter.what {
                For::Message(_, wanted) if wanted.fits(kind) => return waiters.wake(next),
                _ => next = waiters.next(next),
            }
        }
    }

    /// A receiver was woken for what it cannot take, or is gone: the next one, if there is something for it.
    pub fn offer_rest(&self, waiters: &mut Waiters, at: u32) {
        let Some(queue) = self.all.things.get(at) else {
            return;
        };
        let mut next = queue.receivers.first;
        while let Some(waiter) = waiters.get(next) {
            match waiter.what {
                For::Message(_, wanted) if self.choose(queue, wanted).is_some() => {
                    return waiters.wake(next)
                }
                _ => next = waiters.next(next),
            }
        }
    }

    fn choose(&self, queue: &Queue, wanted: Wanted) -> Option<u32> {
        let number = match wanted {
            Wanted::Any => queue.first,
            Wanted::Type(kind) => queue.types[queue.of_type(kind).ok()?].first,
            Wanted::Lowest(most) => queue.types.first().filter(|of| of.kind <= most)?.first,
            Wanted::Except(kind) => {
                let mut number = queue.first;
                while self.messages.get(number)?.kind == kind {
                    number = self.messages.get(number)?.newer;
                }
                number
            }
            Wanted::Copy(place) => {
                if place >= queue.count {
                    return None;
                }
                let mut number = queue.first;
                for _ in 0..place {
                    number = self.messages.get(number)?.newer;
                }
                number
            }
        };
        self.messages.get(number).map(|_| number)
    }

    /// The message that is wanted, which stays. ENOMSG: there is none.
    #[inline]
    pub fn look(&self, at: u32, wanted: Wanted) -> Result<u32, i64> {
        let queue = self.all.things.get(at).ok_or(EIDRM)?;
        self.choose(queue, wanted).ok_or(ENOMSG)
    }

    /// Take a message out; senders for whose messages there is room now go on.
    pub fn take(
        &mut self,
        waiters: &mut Waiters,
        at: u32,
        number: u32,
        (pid, now): (u32, u64),
    ) -> Option<Message> {
        let message = self.messages.remove(number)?;
        let length = message.text.len() as u64;
        self.bytes -= length;
        let queue = self.all.things.get_mut(at)?;
        queue.bytes -= length;
        queue.count -= 1;
        (queue.rtime, queue.lrpid) = (now, pid);
        match self.messages.get_mut(message.older) {
            Some(older) => older.newer = message.newer,
            None => queue.first = message.newer,
        }
        match self.messages.get_mut(message.newer) {
            Some(newer) => newer.older = message.older,
            None => queue.last = message.older,
        }
        // It was the first one of its type, whatever was wanted.
        if let Ok(place) = queue.of_type(message.kind) {
            match message.next {
                NONE => drop(queue.types.remove(place)),
                next => queue.types[place].first = next,
            }
        }
        if !queue.senders.is_empty() {
            waiters.wake(queue.senders.first);
        }
        Some(message)
    }

    /// The next sender, if there is room still.
    pub fn next_sender(&self, waiters: &mut Waiters, at: u32) {
        if let Some(queue) = self.all.things.get(at) {
            if !queue.senders.is_empty() && queue.has_room(0) {
                waiters.wake(queue.senders.first);
            }
        }
    }

    /// `struct msqid64_ds`.
    pub fn stat(&self, at: u32) -> Result<Bytes, i64> {
        let queue = self.all.things.get(at).ok_or(EINVAL)?;
        let mut bytes = with_owner(120, &queue.owner);
        bytes.put64(48, queue.stime);
        bytes.put64(56, queue.rtime);
        bytes.put64(64, queue.ctime);
        bytes.put64(72, queue.bytes);
        bytes.put64(80, queue.count);
        bytes.put64(88, queue.most);
        bytes.put32(96, queue.lspid);
        bytes.put32(100, queue.lrpid);
        Ok(bytes)
    }

    pub fn line(&self, at: u32, into: &mut dyn core::fmt::Write) {
        if let Some(q) = self.all.things.get(at) {
            let o = &q.owner;
            let _ = writeln!(
                into,
                "{:10} {:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}",
                o.key as i32,
                o.id,
                o.mode,
                q.bytes,
                q.count,
                q.lspid,
                q.lrpid,
                o.uid,
                o.gid,
                o.cuid,
                o.cgid,
                q.stime,
                q.rtime,
                q.ctime
            );
        }
    }

    /// IPC_RMID: its messages go, and who waits hears it → what is to be given back.
    pub fn destroy(&mut self, waiters: &mut Waiters, at: u32) -> Option<Kept> {
        let mut queue = self.all.remove(at)?;
        let mut number = queue.first;
        while let Some(message) = self.messages.remove(number) {
            number = message.newer;
        }
        self.bytes -= queue.bytes;
        waiters.finish_all(&mut queue.receivers, -EIDRM);
        waiters.finish_all(&mut queue.senders, -EIDRM);
        Some(queue.kept)
    }
}
