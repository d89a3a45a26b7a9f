//! Queues of notices about files (inotify instances): which marks each has, and what waits to be read from it.
//!
//! A mark is a promise of a file's server to tell what happens to one file. It is found by its number (place and generation, so an old number finds nothing), by its queue and watch descriptor, and by its queue and file.
//! Records lie in chunks of a page, whole, as they will be read. A chunk is charged to the user of the notice that it was taken for: the queue's maker.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::{EEXIST, EINVAL, EMFILE, ENOMEM, ENOSPC, EPERM, ESTALE};
use cairn_idl::event::{
    changes, happened, mark, Seen, ALL_EVENTS, EVENTS_SHIFT, MARKS_MAX, NOTICES_MAX, QUEUES_MAX,
};
use cairn_resmgr::chains::Chains;
use cairn_resmgr::table::Table;
use cairn_resmgr::Context;

/// `struct inotify_event` without its name.
const HEAD: usize = 16;
const CHUNK: usize = 4096;
/// Room that is kept in each chunk for the word that notices were lost.
const RESERVED: usize = HEAD;
const Q_OVERFLOW: u32 = 0x4000;
/// IN_MOVED_FROM, IN_MOVED_TO.
const MOVED_FROM: u64 = 0x40;
const MOVED_TO: u64 = 0x80;
/// What is charged for a mark and a queue: itself and its places in the indexes.
const MARK_COST: usize = size_of::<Mark>() + 64;
const QUEUE_COST: usize = size_of::<Queue>() + 16;
/// What a record can be about, beside [`ALL_EVENTS`].
const TOLD: u64 = happened::UNMOUNT | happened::IGNORED | happened::ISDIR;

struct Mark {
    generation: u32,
    queue: u32,
    /// The domain that made it, and names it to a file's server.
    maker: Id,
    events: u64,
    /// Once it is a file's: whose server says so, the file's number there, and the watch's descriptor (0: not yet).
    server: Id,
    inode: u64,
    device: u64,
    watch: u32,
    /// Of a notifier's: what it wants to hear of, and the cookie of the name that went last.
    changes: u64,
    cookie: u32,
}

struct Queue {
    /// Who pays, and the user that it counts for.
    payer: u32,
    uid: u32,
    next_watch: u32,
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the first chunk that were read.
    read: usize,
    /// Where in the last chunk the last record begins.
    last: usize,
    bytes: usize,
    records: usize,
    /// Notices were lost, and that has not been read yet; there was not even a chunk to say so.
    overflowed: bool,
    bare: bool,
    /// A notifier's signaller.
    signaller: Option<u32>,
}

/// Marks that go at a time.
const PIECE: usize = 1024;

/// What a user has.
struct User {
    uid: u32,
    queues: usize,
    marks: usize,
}

#[derive(Default)]
pub struct Queues {
    queues: Table<Queue>,
    marks: Table<Mark>,
    generation: u32,
    of_queue: Chains,
    by_watch: Chains,
    by_file: Chains,
    /// By uid.
    users: Vec<User>,
    /// Closed ones with marks that are still to go.
    going: Vec<u32>,
}

fn watch_key(queue: u32, watch: u32) -> u64 {
    u64::from(queue) << 32 | u64::from(watch)
}

fn file_key(queue: u32, server: Id, inode: u64) -> u64 {
    inode.rotate_left(17) ^ u64::from(server) << 20 ^ u64::from(queue)
}

impl Queues {
    fn user(&mut self, uid: u32) -> Result<&mut User, i64> {
        let at = match self.users.binary_search_by_key(&uid, |user| user.uid) {
            Ok(at) => at,
            Err(at) => {
                self.users.try_reserve(1).map_err(|_| ENOMEM)?;
                let user = User {
                    uid,
                    queues: 0,
                    marks: 0,
                };
                self.users.insert(at, user);
                at
            }
        };
        Ok(&mut self.users[at])
    }

    fn forget(&mut self, uid: u32, queues: usize, marks: usize) {
        if let Ok(at) = self.users.binary_search_by_key(&uid, |user| user.uid) {
            let user = &mut self.users[at];
            user.queues -= queues;
            user.marks -= marks;
            if user.queues == 0 && user.marks == 0 {
                self.users.remove(at);
            }
        }
    }

    /// A new queue, or (with its signaller) a notifier.
    pub fn add(&mut self, cx: &mut Context, signaller: Option<u32>) -> Result<u32, i64> {
        let counts = usize::from(signaller.is_none());
        let (uid, payer) = (cx.uid(), cx.payer());
        let count = self.queues.len() + 1;
        if !self.queues.reserve(1) || self.going.try_reserve(count).is_err() {
            return Err(ENOMEM);
        }
        let user = self.user(uid)?;
        let many = counts != 0 && user.queues >= QUEUES_MAX;
        user.queues += counts;
        if many || cx.charge(payer, QUEUE_COST).is_err() {
            self.forget(uid, counts, 0);
            return Err(if many { EMFILE } else { ENOMEM });
        }
        let queue = Queue {
            payer,
            uid,
            next_watch: 1,
            chunks: VecDeque::new(),
            read: 0,
            last: 0,
            bytes: 0,
            records: 0,
            overflowed: false,
            bare: false,
            signaller,
        };
        self.queues.insert(queue).ok_or(ENOMEM)
    }

    /// The queue is closed: its marks go with it. False: some are left, for [`Queues::some_go`].
    pub fn remove(&mut self, cx: &mut Context, queue: u32) -> bool {
        self.going.push(queue);
        self.some_go(cx)
    }

    /// Some marks of closed queues go. Whether all have gone.
    pub fn some_go(&mut self, cx: &mut Context) -> bool {
        while let Some(&queue) = self.going.last() {
            if !self.end_marks(cx, queue) {
                return false;
            }
            self.going.pop();
            if let Some(gone) = self.queues.remove(queue) {
                cx.refund(gone.payer, QUEUE_COST + gone.chunks.len() * CHUNK);
                self.forget(gone.uid, gone.signaller.is_none().into(), 0);
            }
        }
        true
    }

    /// All marks go, or some of very many: whether all have gone. Their servers hear so when they have something to tell.
    pub fn end_marks(&mut self, cx: &mut Context, queue: u32) -> bool {
        for _ in 0..PIECE {
            match self.of_queue.first(u64::from(queue)) {
                Some(at) => self.drop_mark(cx, at),
                None => return true,
            }
        }
        self.of_queue.first(u64::from(queue)).is_none()
    }

    pub fn signaller(&self, queue: u32) -> Option<u32> {
        self.queues.get(queue)?.signaller
    }

    /// How many marks and queues there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.marks.len(), self.queues.len())
    }

    /// A new mark: its number.
    pub fn mark(
        &mut self,
        cx: &mut Context,
        queue: u32,
        (events, changes): (u64, u64),
    ) -> Result<u64, i64> {
        const FLAGS: u64 = mark::EXCL_UNLINK | mark::CREATE | mark::ADD | mark::ONESHOT;
        let &Queue {
            uid,
            payer,
            signaller,
            ..
        } = self.queues.get(queue).ok_or(EINVAL)?;
        let (known, changes) = match signaller {
            None => (ALL_EVENTS | FLAGS, 0),
            Some(_) => (mark::ADD | mark::ONESHOT, changes),
        };
        if events & !known != 0 {
            return Err(EINVAL);
        }
        let events = events | events_of(changes);
        let user = self.user(uid)?;
        if user.marks >= MARKS_MAX {
            return Err(ENOSPC);
        }
        user.marks += 1;
        // (Numbers of marks are dense.)
        let count = self.marks.len() + 1;
        let room = self.marks.reserve(1) && cx.charge(payer, MARK_COST).is_ok();
        if !room {
            self.forget(uid, 0, 1);
            return Err(ENOMEM);
        }
        self.generation = self.generation.wrapping_add(1).max(1);
        let generation = self.generation;
        let new = Mark {
            generation,
            queue,
            maker: cx.request.sender,
            events,
            server: 0,
            inode: 0,
            device: 0,
            watch: 0,
            changes,
            cookie: 0,
        };
        let at = self.marks.insert(new).ok_or(ENOMEM)?;
        let places = count.max(at as usize + 1);
        let indexes = [&mut self.of_queue, &mut self.by_watch, &mut self.by_file];
        if !indexes.into_iter().all(|index| index.reserve(places)) {
            self.marks.remove(at);
            cx.refund(payer, MARK_COST);
            self.forget(uid, 0, 1);
            return Err(ENOMEM);
        }
        self.of_queue.insert(at, u64::from(queue));
        Ok(u64::from(generation) << 32 | u64::from(at))
    }

    fn find(&self, number: u64) -> Option<(u32, &Mark)> {
        let at = number as u32;
        let found = self.marks.get(at)?;
        (u64::from(found.generation) == number >> 32).then_some((at, found))
    }

    pub fn is_there(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    fn drop_mark(&mut self, cx: &mut Context, at: u32) {
        for index in [&mut self.of_queue, &mut self.by_watch, &mut self.by_file] {
            index.remove(at);
        }
        let Some(gone) = self.marks.remove(at) else {
            return;
        };
        if let Some(queue) = self.queues.get(gone.queue) {
            let (payer, uid) = (queue.payer, queue.uid);
            cx.refund(payer, MARK_COST);
            self.forget(uid, 0, 1);
        }
    }

    /// A mark that no file's server has taken goes again.
    pub fn take_back(&mut self, cx: &mut Context, queue: u32, number: u64) -> Result<(), i64> {
        match self.find(number) {
            Some((at, mark)) if mark.queue == queue && mark.watch == 0 => {
                self.drop_mark(cx, at);
                Ok(())
            }
            _ => Err(EINVAL),
        }
    }

    /// inotify_rm_watch
    pub fn end_watch(&mut self, cx: &mut Context, queue: u32, watch: u64) -> Result<(), i64> {
        let watch = u32::try_from(watch).map_err(|_| EINVAL)?;
        let same = |at: &u32| {
            let mark = self.marks.get(*at);
            mark.is_some_and(|mark| (mark.queue, mark.watch) == (queue, watch))
        };
        let at = self
            .by_watch
            .all(watch_key(queue, watch))
            .find(same)
            .ok_or(EINVAL)?;
        self.put(cx, queue, (watch, happened::IGNORED as u32, 0), b"");
        self.drop_mark(cx, at);
        Ok(())
    }

    /// The mark is a file's from now on: the answer of MARKED.
    pub fn marked(&mut self, cx: &mut Context, words: &[u64; 8]) -> Result<i64, i64> {
        let [_, number, watcher, inode, device, ..] = *words;
        let (at, new) = self.find(number).ok_or(ESTALE)?;
        if u64::from(new.maker) != watcher || new.watch != 0 {
            return Err(EPERM);
        }
        let (queue, mut events, server) = (new.queue, new.events, cx.request.sender);
        let mut changes = new.changes;
        let key = file_key(queue, server, inode);
        let same = |other: &u32| {
            let other = self.marks.get(*other);
            other.is_some_and(|m| (m.queue, m.server, m.inode) == (queue, server, inode))
        };
        let old = self.by_file.all(key).find(same);
        let notifies = self.signaller(queue).is_some();
        let watch = match old.and_then(|old| self.marks.get(old)) {
            Some(_) if events & mark::CREATE != 0 => return Err(EEXIST),
            Some(old) => {
                if events & mark::ADD != 0 {
                    // Of a notifier's marks one that stays makes all stay.
                    let once = match notifies {
                        true => events & old.events & mark::ONESHOT,
                        false => mark::ONESHOT,
                    };
                    events = (events | old.events) & (!mark::ONESHOT | once);
                    changes |= old.changes;
                }
                old.watch
            }
            None => {
                let queue = self.queues.get_mut(queue).ok_or(ESTALE)?;
                let watch = queue.next_watch;
                queue.next_watch = (watch + 1) & (u32::MAX >> 1);
                watch.max(1)
            }
        };
        if let Some(old) = old {
            self.drop_mark(cx, old);
        }
        let new = self.marks.get_mut(at).ok_or(ESTALE)?;
        (new.server, new.inode, new.watch, new.events) = (server, inode, watch, events);
        (new.changes, new.device) = (changes, device);
        self.by_watch.insert(at, watch_key(queue, watch));
        self.by_file.insert(at, key);
        Ok(i64::from(watch) | ((events & ALL_EVENTS) << EVENTS_SHIFT) as i64)
    }

    /// WATCHES: tells of at most so many, from the mark with this number on (0: the first) → how many, and the number to go on with (0: that was all).
    pub fn watches(
        &self,
        queue: u32,
        first: u64,
        most: usize,
        mut each: impl FnMut(usize, Seen),
    ) -> (usize, u64) {
        let first = match first {
            0 => self.of_queue.first(u64::from(queue)),
            number => self.find(number).map(|(at, _)| at),
        };
        let (mut next, mut count) = (first, 0);
        for _ in 0..PIECE {
            let its = next.and_then(|at| Some((at, self.marks.get(at)?)));
            let Some((at, mark)) = its.filter(|(_, mark)| mark.queue == queue) else {
                return (count, 0);
            };
            if count == most {
                break;
            }
            if mark.watch != 0 {
                let seen = Seen {
                    watch: mark.watch,
                    events: mark.events as u32,
                    inode: mark.inode,
                    device: mark.device,
                };
                each(count, seen);
                count += 1;
            }
            next = self.of_queue.next(at);
        }
        let number =
            |at: u32| Some(u64::from(self.marks.get(at)?.generation) << 32 | u64::from(at));
        (count, next.and_then(number).unwrap_or(0))
    }

    /// NOTICE: the queue in which there is something new, or the notifier that is to signal, if there is.
    pub fn notice(
        &mut self,
        cx: &mut Context,
        words: &[u64; 8],
        name: &[u8],
    ) -> Result<Option<u32>, i64> {
        let [_, number, watcher, what, ..] = *words;
        let (at, found) = self.find(number).ok_or(ESTALE)?;
        let its = (u64::from(found.maker), found.server) == (watcher, cx.request.sender);
        if !its || found.watch == 0 {
            return Err(EPERM);
        }
        let (queue, watch, events) = (found.queue, found.watch, found.events);
        let bits = what & 0xffff_ffff & (events & ALL_EVENTS | TOLD);
        if bits & !happened::ISDIR == 0 {
            return Ok(None);
        }
        let cookie = (what >> 32) as u32;
        if self.signaller(queue).is_some() {
            return Ok(self.notify(cx, at, bits, cookie).then_some(queue));
        }
        self.put(cx, queue, (watch, bits as u32, cookie), name);
        let once = events & mark::ONESHOT != 0 && bits & happened::IGNORED == 0;
        if once {
            self.put(cx, queue, (watch, happened::IGNORED as u32, 0), b"");
        }
        if once || bits & happened::IGNORED != 0 {
            self.drop_mark(cx, at);
        }
        Ok(Some(queue))
    }

    /// A notifier's mark hears of this: is it to signal?
    fn notify(&mut self, cx: &mut Context, at: u32, bits: u64, cookie: u32) -> bool {
        let Some(mark) = self.marks.get_mut(at) else {
            return false;
        };
        // A name that comes with the cookie of one that went before stayed in the directory.
        let stays = bits & MOVED_TO != 0 && cookie == mark.cookie;
        if bits & MOVED_FROM != 0 {
            mark.cookie = cookie;
        }
        let plain = events_of(mark.changes & !changes::RENAME) & bits != 0;
        let signals = plain || stays && mark.changes & changes::RENAME != 0;
        let once = signals && mark.events & mark::ONESHOT != 0;
        if once || bits & happened::IGNORED != 0 {
            self.drop_mark(cx, at);
        }
        signals
    }

    fn put(&mut self, cx: &mut Context, queue: u32, record: (u32, u32, u32), name: &[u8]) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.put(cx, record, name);
        }
    }

    pub fn bytes(&self, queue: u32) -> usize {
        self.queues.get(queue).map_or(0, Queue::length)
    }

    /// As many whole records as have room, copied to `into`; how many. EINVAL: not even the first one has.
    pub fn look(&self, queue: u32, room: usize, into: &mut Vec<u8>) -> Result<usize, i64> {
        into.clear();
        let queue = self.queues.get(queue).ok_or(EINVAL)?;
        into.try_reserve(queue.length().min(room))
            .map_err(|_| ENOMEM)?;
        queue.look(room, into)
    }

    /// The first `records` are gone.
    pub fn take(&mut self, cx: &mut Context, queue: u32, records: usize) {
        if let Some(queue) = self.queues.get_mut(queue) {
            for _ in 0..records {
                queue.take(cx);
            }
        }
    }
}

/// The events by which one hears of such changes of a directory.
fn events_of(wanted: u64) -> u64 {
    let events = [
        (changes::ACCESS, 1),
        (changes::MODIFY, 2),
        (changes::ATTRIB, 4),
        (changes::CREATE, 0x100 | MOVED_TO),
        (changes::DELETE, 0x200 | MOVED_FROM),
        (changes::RENAME, MOVED_FROM | MOVED_TO),
    ];
    let its = events.iter().filter(|(change, _)| wanted & change != 0);
    its.fold(0, |all, (_, events)| all | events)
}

fn record((watch, bits, cookie): (u32, u32, u32), length: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (field, value) in head
        .chunks_exact_mut(4)
        .zip([watch, bits, cookie, length as u32])
    {
        field.copy_from_slice(&value.to_le_bytes());
    }
    head
}

impl Queue {
    const LOST: (u32, u32, u32) = (u32::MAX, Q_OVERFLOW, 0);

    fn length(&self) -> usize {
        self.bytes + if self.bare { HEAD } else { 0 }
    }

    fn put(&mut self, cx: &mut Context, what: (u32, u32, u32), name: &[u8]) {
        let length = match name.len() {
            0 => 0,
            // With a NUL, in steps of the record's own length.
            length => (length + 1).next_multiple_of(HEAD),
        };
        let head = record(what, length);
        if self.is_last(&head, name) {
            return;
        }
        if self.overflowed {
            return;
        }
        if self.records >= NOTICES_MAX || !self.make_room(cx, HEAD + length) {
            self.overflowed = true;
            match self.chunks.back_mut() {
                Some(chunk) => {
                    chunk.extend_from_slice(&record(Queue::LOST, 0));
                    self.bytes += HEAD;
                    self.records += 1;
                }
                None => self.bare = true,
            }
            return;
        }
        if let Some(chunk) = self.chunks.back_mut() {
            self.last = chunk.len();
            chunk.extend_from_slice(&head);
            chunk.extend_from_slice(name);
            chunk.resize(self.last + HEAD + length, 0);
            self.bytes += HEAD + length;
            self.records += 1;
        }
    }

    /// The same as the last one, which has not been read: once is enough.
    fn is_last(&self, head: &[u8; HEAD], name: &[u8]) -> bool {
        let Some(chunk) = self.chunks.back() else {
            return false;
        };
        let unread = self.chunks.len() > 1 || self.read <= self.last;
        let Some(last) = chunk.get(self.last..).filter(|_| unread) else {
            return false;
        };
        // (The cookie does not matter.)
        last.len() >= HEAD
            && last[..8] == head[..8]
            && last[12..HEAD] == head[12..]
            && last[HEAD..].starts_with(name)
    }

    fn make_room(&mut self, cx: &mut Context, length: usize) -> bool {
        let fits = |chunk: &Vec<u8>| chunk.len() + length + RESERVED <= CHUNK;
        if self.chunks.back().is_some_and(fits) {
            return true;
        }
        let mut chunk = Vec::new();
        let room = chunk.try_reserve_exact(CHUNK).is_ok() && self.chunks.try_reserve(1).is_ok();
        if !room || cx.charge(self.payer, CHUNK).is_err() {
            return false;
        }
        self.chunks.push_back(chunk);
        true
    }

    fn look(&self, room: usize, into: &mut Vec<u8>) -> Result<usize, i64> {
        let mut records = 0;
        let mut from = self.read;
        for chunk in &self.chunks {
            let mut rest = &chunk[from..];
            from = 0;
            while let Some(length) = first_record(rest) {
                if into.len() + length > room {
                    return match records {
                        0 => Err(EINVAL),
                        _ => Ok(records),
                    };
                }
                into.extend_from_slice(&rest[..length]);
                rest = &rest[length..];
                records += 1;
            }
        }
        if self.bare && into.len() + HEAD <= room {
            into.extend_from_slice(&record(Queue::LOST, 0));
            records += 1;
        }
        match records {
            0 if self.length() != 0 => Err(EINVAL),
            _ => Ok(records),
        }
    }

    /// The first record goes, and what memory it was the last of.
    fn take(&mut self, cx: &mut Context) {
        let Some(chunk) = self.chunks.front() else {
            (self.bare, self.overflowed) = (false, false);
            return;
        };
        let rest = &chunk[self.read..];
        let length = first_record(rest).unwrap_or(rest.len());
        self.overflowed &= !rest.starts_with(&record(Queue::LOST, 0)[..8]);
        self.read += length;
        self.bytes -= length;
        self.records -= 1;
        if self.read == chunk.len() {
            self.chunks.pop_front();
            self.read = 0;
            cx.refund(self.payer, CHUNK);
        }
    }
}

/// The length of the record at the front.
fn first_record(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<HEAD>()?;
    let name = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    Some(HEAD + name as usize)
}
