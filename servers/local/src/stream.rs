//! Streams: bytes in order. Descriptors and credentials stay with the bytes that they were sent with: a receive may begin with bytes that came with nothing and go on into those that brought descriptors, but not beyond, and never takes bytes of two senders together if it tells who they were.

use crate::queue::{Credentials, Queue, Segment, Urgent};
use crate::rights::Rights;
use crate::server::{fail, Extra, Sockets};
use crate::{key, READABLE, ROOM};
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Direct, Failure, Later};

/// What the next receive takes of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub bytes: usize,
    /// More bytes must not be added to these, whatever comes.
    pub ends: bool,
    /// Of the first segment.
    pub credentials: Option<Credentials>,
}

impl Taken {
    /// There is nothing, and nothing will come.
    pub const END: Taken = Taken {
        bytes: 0,
        ends: true,
        credentials: None,
    };
}

/// Where a receive begins: at the first byte, unless it looks further on (SO_PEEK_OFF).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub segment: usize,
    /// Bytes of that segment that are left out.
    pub within: usize,
    /// Bytes of the whole queue that are left out.
    pub before: usize,
}

/// Where the byte lies that has so many before it; of none there is, behind all.
pub fn start(queue: &Queue, offset: usize, stream: bool) -> Start {
    let (mut segment, mut left, mut before) = (0, offset, 0);
    for each in &queue.segments {
        // (A datagram without bytes is left out by who has looked at any before it.)
        let passed = left >= each.length && (stream || each.length != 0 || offset != 0);
        if !passed {
            break;
        }
        (segment, left, before) = (segment + 1, left - each.length, before + each.length);
    }
    Start {
        segment,
        within: left,
        before: before + left,
    }
}

/// How much of what waits goes together, of at most `most` bytes.
pub fn next(queue: &Queue, most: usize, tells_credentials: bool, start: Start) -> Taken {
    let mut taken = Taken::default();
    let segments = queue.segments.range(start.segment..);
    for (at, segment) in segments.enumerate() {
        // It ends before an urgent byte, or where one was.
        if at != 0 && segment.urgent != Urgent::No {
            taken.ends = true;
            break;
        }
        if at == 0 {
            taken.credentials = segment.credentials;
        } else if tells_credentials && segment.credentials != taken.credentials {
            taken.ends = true;
            break;
        }
        let within = if at == 0 { start.within } else { 0 };
        let part = (segment.length - within).min(most - taken.bytes);
        taken.bytes += part;
        taken.ends |= !segment.rights.is_empty();
        if taken.ends || taken.bytes == most {
            break;
        }
    }
    taken
}

/// So many bytes have left the ring: the descriptors that they came with.
pub fn took(queue: &mut Queue, mut bytes: usize) -> Rights {
    let mut rights = Rights::new();
    while bytes != 0 {
        let Some(first) = queue.segments.front_mut() else {
            break;
        };
        let part = first.length.min(bytes);
        if !first.rights.is_empty() {
            rights = core::mem::take(&mut first.rights);
        }
        bytes -= part;
        queue.used(part);
    }
    rights
}

impl Sockets {
    /// What reads the bytes in order passes an urgent one at the front, and places where such were.
    #[cold]
    pub(crate) fn pass_urgent(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let inline = socket.is_inline();
        while socket.queue.passes(0, inline) && socket.queue.ring.store(cx, 0, 0, 1, false).is_ok()
        {
            socket.queue.used(1);
            cx.wake(key(index, ROOM));
        }
    }

    /// RECEIVE with MSG_OOB: the urgent byte, which never waits for one.
    #[cold]
    pub(crate) fn receive_urgent(
        &mut self,
        cx: &mut Context,
        index: u32,
        (place, length): (usize, usize),
        peek: bool,
    ) -> Answer<usize> {
        let socket = self.socket_mut(index)?;
        if !socket.is_stream() {
            return fail(EOPNOTSUPP);
        }
        let inline = socket.is_inline();
        let queue = &mut socket.queue;
        let Some((at, before)) = queue.urgent_place().filter(|_| !inline) else {
            return fail(EINVAL);
        };
        queue.ring.show(cx, place, (before, length.min(1)))?;
        if let (false, Some(segment)) = (peek, queue.segments.get_mut(at)) {
            segment.urgent = Urgent::Taken;
            queue.urgent -= 1;
            queue.taken += 1;
        }
        Ok(length.min(1))
    }

    /// Where a stream's bytes go, and how many fit.
    #[inline(always)]
    fn stream_peer(&self, index: u32) -> Answer<(u32, usize)> {
        let socket = self.socket(index)?;
        if !socket.is_connected() {
            return fail(ENOTCONN);
        }
        match socket.peer.and_then(|of| Some((of, self.peer(of)?))) {
            Some((of, peer)) if socket.writes && peer.reads => {
                Ok((of.socket, peer.queue.room(socket.send_limit)))
            }
            _ => fail(EPIPE),
        }
    }

    pub(crate) fn send_stream(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        mut extra: Option<&mut Extra>,
    ) -> Answer<usize> {
        let urgent = extra.as_ref().is_some_and(|extra| extra.urgent);
        if urgent && length == 0 {
            return fail(EOPNOTSUPP);
        }
        let mut done = cx.progress as usize;
        let (peer, room) = match self.stream_peer(index) {
            Ok(found) => found,
            Err(_) if done != 0 => return Ok(done),
            Err(failure) => return Err(failure),
        };
        if done >= length {
            return Ok(done);
        }
        let part = match (length - done).min(room) {
            // The urgent byte goes by itself.
            part if urgent && part > 1 && part == length - done => part - 1,
            part => part,
        };
        if part != 0 {
            match self.put(cx, (index, peer), (done, part), done == 0, &mut extra) {
                Ok(()) => done += part,
                Err(_) if done != 0 => return Ok(done),
                Err(failure) => return Err(failure),
            }
            cx.wake(key(peer, READABLE));
        }
        if urgent && done + 1 == length {
            // (There is room now, or there was none.)
            cx.progress = done as u64;
            cx.progress_is_result = true;
            if room > part {
                return match self.put(cx, (index, peer), (done, 1), done == 0, &mut extra) {
                    Ok(()) => Ok(length),
                    Err(_) if done != 0 => Ok(done),
                    Err(failure) => Err(failure),
                };
            }
        }
        if done == length {
            return Ok(done);
        }
        cx.progress = done as u64;
        cx.progress_is_result = true;
        Err(Failure::Wait(key(peer, ROOM)))
    }

    /// Put `part` bytes from `from` on of the caller's, and what goes along with them, where there is room for them.
    pub(crate) fn put(
        &mut self,
        cx: &mut Context,
        (own, target): (u32, u32),
        (from, part): (usize, usize),
        first: bool,
        extra: &mut Option<&mut Extra>,
    ) -> Answer<()> {
        // (As long as the ring has memory it has one payer.)
        let payer = match (self.socket(target)?.paid, self.socket(own)?) {
            ((payer, 1..), _) => payer,
            (_, own) if own.has_connections() => own.payer,
            _ => self.socket(target)?.payer,
        };
        self.may_keep(payer, target, part)?;
        let urgent = extra
            .as_ref()
            .is_some_and(|extra| extra.urgent && from + part == cx.request.out_len);
        let mut segment = Segment {
            length: part,
            ..Segment::default()
        };
        let tells = self.socket(own)?.wants_credentials || self.socket(target)?.wants_credentials;
        segment.credentials = match extra.as_ref().and_then(|extra| extra.credentials) {
            None if tells => Some(self.caller(cx)),
            given => given,
        };
        if self.socket(target)?.stamps.is_some() {
            segment.stamp = cx.transport.realtime();
        }
        if !self.socket(own)?.has_connections() {
            segment.from = self.socket(own)?.name.clone();
        }
        let queue = &mut self.socket_mut(target)?.queue;
        queue.cut();
        let room = queue.segments.try_reserve(1);
        room.map_err(|_| Failure::Errno(ENOBUFS))?;
        if let (Some(extra), true) = (extra.as_mut(), first) {
            segment.rights = self.rights_of(cx, extra)?;
        }
        let queue = match self.sockets.get_mut(target) {
            Some(socket) => &mut socket.queue,
            None => return fail(ECONNREFUSED),
        };
        if let Err(failure) = queue.ring.fill(cx, from, part, &mut self.buffers, payer) {
            // The ring may have grown before.
            self.pay(payer, target);
            let rights = segment.rights;
            if let Some(extra) = extra.as_mut() {
                self.give_back(extra, rights);
            }
            return Err(failure);
        }
        if !segment.rights.is_empty() {
            if let Some(extra) = extra.as_mut() {
                extra.kept = true;
            }
        }
        match segment.rights.is_empty() && self.socket(own)?.has_connections() {
            true if self.is_stream(target) && !urgent => {
                if let Ok(socket) = self.socket_mut(target) {
                    socket.queue.added(segment);
                }
            }
            _ => {
                self.queued(&segment.rights);
                // (It is news until the next request.)
                if urgent && self.trim.try_reserve(1).is_ok() {
                    self.trim.push(target);
                }
                if let Ok(socket) = self.socket_mut(target) {
                    socket.queue.segments.push_back(segment);
                    if urgent {
                        socket.queue.last_is_urgent();
                        socket.urgent_news = true;
                    }
                }
            }
        }
        self.pay(payer, target);
        Ok(())
    }

    /// The direct ways ([`cairn_resmgr::Server::read_direct`]): of streams, where nothing comes along.
    #[inline(always)]
    pub(crate) fn read_stream_direct(
        &mut self,
        index: u32,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
    ) -> Direct {
        let Some(socket) = self.sockets.get_mut(index) else {
            return Direct::Ordinary;
        };
        let plain = socket.is_stream() && socket.is_connected() && socket.error == 0;
        let plain = plain && socket.peek_from.is_none();
        let waits = socket.queue.plain();
        if plain && waits != 0 {
            let length = waits.min(length);
            if !socket.queue.ring.take_words(words, length) {
                return Direct::Ordinary;
            }
            socket.queue.used_plain(length);
            later.wake(key(index, ROOM));
            return Direct::Done(length);
        }
        if waits != 0 {
            return Direct::Ordinary;
        }
        let Some(first) = socket.queue.segments.front() else {
            return match plain && socket.limits.receive == 0 {
                true if socket.reads => Direct::Wait(key(index, READABLE)),
                true => Direct::Done(0),
                false => Direct::Ordinary,
            };
        };
        // Of several segments some may go together.
        let several = first.length < length && socket.queue.segments.len() > 1;
        let length = first.length.min(length);
        let urgent = first.urgent != Urgent::No;
        if !plain || several || urgent || !first.rights.is_empty() {
            return Direct::Ordinary;
        }
        if !socket.queue.ring.take_words(words, length) {
            return Direct::Ordinary;
        }
        socket.queue.used(length);
        later.wake(key(index, ROOM));
        Direct::Done(length)
    }

    #[inline(always)]
    pub(crate) fn write_stream_direct(
        &mut self,
        index: u32,
        length: usize,
        words: &[u64; 5],
        later: &mut Later,
    ) -> Direct {
        let Some(socket) = self.sockets.get(index) else {
            return Direct::Ordinary;
        };
        let (Some(of), true) = (socket.peer, socket.is_stream() && socket.writes) else {
            return Direct::Ordinary;
        };
        let (limit, tells) = (socket.send_limit, socket.wants_credentials);
        let Some(peer) = self.sockets.get_mut(of.socket) else {
            return Direct::Ordinary;
        };
        if peer.ino != of.ino
            || !peer.reads
            || tells
            || peer.wants_credentials
            || peer.queue.room(limit) < length
            || peer.queue.segments.try_reserve(1).is_err()
            || !peer.queue.ring.put_words(words, length)
        {
            return Direct::Ordinary;
        }
        if !peer.queue.added_plain(length) {
            peer.queue.added(Segment {
                length,
                ..Segment::default()
            });
        }
        later.wake(key(of.socket, READABLE));
        Direct::Done(length)
    }
}
