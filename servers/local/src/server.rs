//! Sockets, addresses and parcels for the framework: what a portal leads to, who may have how many, sending and receiving with what goes along, and what a request that must wait becomes.

use crate::connect::GROUPS;
use crate::cycles::Cycles;
use crate::names::{Address, Name};
use crate::queue::Credentials;
use crate::rights::{InFlight, Passed, Rights};
use crate::socket::{Peer, Socket, State};
use crate::stream::{self, Start};
use crate::{key, READABLE, ROOM};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use cairn_abi::{flag, pulse};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, s};
use cairn_idl::local::{self, msg, with, DATAGRAM, NAME_MAX, SEQPACKET, STREAM};
use cairn_idl::{label, proc};
use cairn_resmgr::context::socket_label;
use cairn_resmgr::ring::{Buffers, KEEP};
use cairn_resmgr::server::{Answer, Change};
use cairn_resmgr::timeouts::Timeouts;
use cairn_resmgr::{
    Context, Data, Direct, Failure, Handle, Handles, Later, Leads, Meta, Opened, Readiness, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Message, Portal, Received};
use cairn_slab::Slab;

const FIONREAD: u64 = 0x541b;
const SIOCATMARK: u64 = 0x8905;
const TIOCOUTQ: u64 = 0x5411;
/// Who nobody knows (overflowuid).
const NOBODY: u32 = 65534;
/// Most sockets of one user, and bytes of memory that wait at his peers. User 0 has no limit here.
const SOCKETS_OF_ONE: u32 = 8192;
const MEMORY_OF_ONE: usize = 64 << 20;
/// What is charged for a socket, beside its handle and its ring: with what groups its peer may have.
const SOCKET_COST: usize = size_of::<Socket>() + GROUPS;

/// What a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A mount portal, or an address.
    Root,
    Socket(u32),
    Parcel(u32),
}

/// What goes along with a SEND.
#[derive(Default)]
pub struct Extra {
    /// The receiver's address.
    pub address: Option<u32>,
    /// What the sender says of itself; it was checked.
    pub credentials: Option<Credentials>,
    /// Descriptors that the request brought, and the parcel with others. Both stay what they are until they are queued.
    pub rights: Rights,
    pub parcel: Option<u32>,
    /// They are in a queue now.
    pub kept: bool,
    /// MSG_OOB: the last byte is urgent.
    pub urgent: bool,
}

/// What one account has here.
#[derive(Clone, Copy, Default)]
struct Usage {
    sockets: u32,
    memory: usize,
}

/// All sockets.
#[derive(Default)]
pub struct Sockets {
    pub(crate) sockets: Slab<Socket>,
    pub(crate) addresses: Slab<Address>,
    /// Abstract names, for each type of socket.
    pub(crate) abstract_names: BTreeMap<(u64, Name), u32>,
    parcels: Slab<Rights>,
    pub(crate) buffers: Buffers,
    /// Listeners that nobody has any more, while others wait to be accepted by them.
    ending: VecDeque<u32>,
    /// Sockets with empty rings whose memory should go. (Not at once: the answer may still lie in it.)
    pub(crate) trim: Vec<u32>,
    pub(crate) in_flight: InFlight,
    pub(crate) cycles: Cycles,
    timeouts: Timeouts,
    /// By account.
    usage: Vec<(u32, Usage)>,
    /// `proc`'s portal, which tells who a domain is.
    pub(crate) proc: Option<Portal>,
    last_ino: u64,
    pub(crate) last_automatic: u32,
    scratch: Vec<u8>,
    /// Of the table that was asked for last.
    pub(crate) lines: Vec<u8>,
}

pub(crate) fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

impl Sockets {
    pub fn new(proc: Option<Portal>) -> Sockets {
        Sockets {
            proc,
            scratch: alloc::vec![0; NAME_MAX],
            ..Sockets::default()
        }
    }

    /// Sockets that exist.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Bytes of memory in rings; descriptors on their way that are sockets.
    pub fn memory(&self) -> usize {
        self.buffers.total()
    }

    pub fn sockets_in_flight(&self) -> usize {
        self.in_flight.sockets.len()
    }

    pub fn descriptors_in_flight(&self, uid: u32) -> u32 {
        self.in_flight.of(uid)
    }

    pub(crate) fn next_ino(&mut self) -> u64 {
        // Odd ones are those of Internet sockets: programs know a socket by its number alone (`ss -p`).
        self.last_ino += 2;
        self.last_ino
    }

    #[inline(always)]
    pub(crate) fn socket(&self, index: u32) -> Answer<&Socket> {
        self.sockets.get(index).ok_or(Failure::Errno(EBADF))
    }

    #[inline(always)]
    pub(crate) fn socket_mut(&mut self, index: u32) -> Answer<&mut Socket> {
        self.sockets.get_mut(index).ok_or(Failure::Errno(EBADF))
    }

    /// A socket, if it is still the one.
    #[inline(always)]
    pub(crate) fn peer(&self, of: Peer) -> Option<&Socket> {
        self.sockets
            .get(of.socket)
            .filter(|socket| socket.ino == of.ino)
    }

    pub(crate) fn peer_mut(&mut self, of: Peer) -> Option<&mut Socket> {
        self.sockets
            .get_mut(of.socket)
            .filter(|socket| socket.ino == of.ino)
    }

    pub(crate) fn is_stream(&self, index: u32) -> bool {
        self.sockets.get(index).is_some_and(Socket::is_stream)
    }

    // ---- who may have how much

    pub(crate) fn add_socket(&mut self, cx: &mut Context, socket: Socket) -> Answer<u32> {
        let payer = socket.payer;
        let at = match self.usage_of(payer) {
            Ok(at) => at,
            Err(at) => {
                let room = self.usage.try_reserve(1);
                room.map_err(|_| Failure::Errno(ENOBUFS))?;
                self.usage.insert(at, (payer, Usage::default()));
                at
            }
        };
        let many = payer != 0 && self.usage[at].1.sockets >= SOCKETS_OF_ONE;
        self.usage[at].1.sockets += 1;
        let result = match many {
            true => fail(ENFILE),
            false => cx.charge(payer, SOCKET_COST),
        };
        if let Err(failure) = result {
            self.uses(payer, |usage| usage.sockets -= 1);
            return Err(failure);
        }
        match self.sockets.insert(socket) {
            Some(index) => Ok(index),
            None => {
                self.uses(payer, |usage| usage.sockets -= 1);
                cx.refund(payer, SOCKET_COST);
                fail(ENFILE)
            }
        }
    }

    fn usage_of(&self, payer: u32) -> Result<usize, usize> {
        self.usage.binary_search_by_key(&payer, |one| one.0)
    }

    /// Of one who has something here.
    fn uses(&mut self, payer: u32, change: impl FnOnce(&mut Usage)) {
        if let Ok(at) = self.usage_of(payer) {
            let usage = &mut self.usage[at].1;
            change(usage);
            if usage.sockets == 0 && usage.memory == 0 {
                self.usage.remove(at);
            }
        }
    }

    /// May so many bytes more wait there, which this user pays for?
    pub(crate) fn may_keep(&self, payer: u32, target: u32, length: usize) -> Answer<()> {
        let queue = &self.socket(target)?.queue;
        let grows = queue.bytes() + length > queue.ring.memory();
        let memory = self.usage_of(payer).map_or(0, |at| self.usage[at].1.memory);
        match payer != 0 && grows && memory + length > MEMORY_OF_ONE {
            true => fail(ENOBUFS),
            false => Ok(()),
        }
    }

    /// What waits at a socket may need more memory than before.
    #[inline]
    pub(crate) fn pay(&mut self, payer: u32, target: u32) {
        let Some(socket) = self.sockets.get_mut(target) else {
            return;
        };
        let memory = socket.queue.ring.memory();
        if socket.paid == (payer, memory) {
            return;
        }
        let (before, paid) = core::mem::replace(&mut socket.paid, (payer, memory));
        self.uses(before, |usage| {
            usage.memory = usage.memory.saturating_sub(paid)
        });
        self.uses(payer, |usage| usage.memory += memory);
    }

    /// Its ring was emptied.
    pub(crate) fn unpay(&mut self, cx: &mut Context, target: u32) {
        if let Some(socket) = self.sockets.get(target) {
            let (payer, before) = socket.paid;
            let memory = socket.queue.ring.memory();
            self.pay(payer, target);
            cx.refund(payer, before.saturating_sub(memory));
        }
    }

    /// Give back the memory of rings that were emptied.
    fn trim(&mut self, cx: &mut Context) {
        while let Some(index) = self.trim.pop() {
            if let Some(socket) = self.sockets.get_mut(index) {
                socket.urgent_news = false;
                if socket.queue.ring.is_empty() {
                    socket.queue.ring.clear(&mut self.buffers);
                    self.unpay(cx, index);
                }
            }
        }
    }

    /// Something was received: an empty ring need not be kept long.
    fn emptied(&mut self, index: u32) {
        const SMALL: usize = 4096;
        let large = |socket: &Socket| socket.queue.is_empty() && socket.queue.ring.memory() > SMALL;
        let crowded = self.buffers.total() > KEEP;
        if (crowded || self.sockets.get(index).is_some_and(large))
            && self.trim.last() != Some(&index)
            && self.trim.try_reserve(1).is_ok()
        {
            self.trim.push(index);
        }
    }

    // ---- beginning and end

    pub(crate) fn make(&mut self, cx: &mut Context, kind: u64) -> Answer<u32> {
        if !matches!(kind, STREAM | DATAGRAM | SEQPACKET) {
            return fail(EPROTONOSUPPORT);
        }
        let ino = self.next_ino();
        let mut socket = Socket::new(kind, ino, cx.uid(), cx.gid());
        socket.pays(cx.payer());
        self.add_socket(cx, socket)
    }

    fn make_socket<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [_, kind, flags, ..] = cx.request.words;
        handles.room(cx, 1)?;
        let index = self.make(cx, kind)?;
        let flags = o::RDWR | flags & o::NONBLOCK;
        let badge = handles.insert(cx, Node::Socket(index), flags, 0, ())?;
        Ok(Reply::new(&[0]).mint(badge))
    }

    /// Nobody has the socket any more. Of many that wait to be accepted some end at once, the others in the background, and after them the listener.
    pub(crate) fn end(&mut self, cx: &mut Context, index: u32) {
        self.unname(index);
        if self.end_waiting(cx, index) {
            return self.finish(cx, index);
        }
        if self.ending.try_reserve(1).is_err() {
            while !self.end_waiting(cx, index) {}
            return self.finish(cx, index);
        }
        if let Some(listener) = self.sockets.get_mut(index) {
            listener.reads = false;
        }
        self.ending.push_back(index);
        cx.leave(true, |cx| self.end_more(cx));
    }

    /// A few of those that wait to be accepted end: whoever asked for the connection has lost it. Are none left?
    fn end_waiting(&mut self, cx: &mut Context, index: u32) -> bool {
        for _ in 0..PIECE {
            let Some(socket) = self.sockets.get_mut(index) else {
                return true;
            };
            let State::Listening { waiting, .. } = &mut socket.state else {
                return true;
            };
            let Some(embryo) = waiting.pop_front() else {
                return true;
            };
            if let Some(far) = self.sockets.get(embryo).and_then(|socket| socket.peer) {
                self.hang_up(cx, far, true);
            }
            self.finish(cx, embryo);
        }
        false
    }

    /// Further ones of the first listener that ends. Is anything left?
    fn end_more(&mut self, cx: &mut Context) -> bool {
        if let Some(&index) = self.ending.front() {
            if self.end_waiting(cx, index) {
                self.ending.pop_front();
                self.finish(cx, index);
            }
        }
        !self.ending.is_empty()
    }

    /// The socket goes, with what lies in its queue.
    fn finish(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let unread = !socket.queue.is_empty();
        let segments = socket.queue.clear(&mut self.buffers);
        let (payer, peer, connections) = (socket.payer, socket.peer, socket.has_connections());
        self.unpay(cx, index);
        for segment in segments {
            self.drop_queued(cx, segment.rights);
        }
        if let (Some(of), true) = (peer, connections) {
            self.hang_up(cx, of, unread);
        }
        self.sockets.remove(index);
        self.uses(payer, |usage| usage.sockets -= 1);
        cx.refund(payer, SOCKET_COST);
        cx.wake(key(index, READABLE));
        cx.wake(key(index, ROOM));
    }

    /// The other end of this socket is gone; `reset`: with something that it had not read.
    fn hang_up(&mut self, cx: &mut Context, of: Peer, reset: bool) {
        if let Some(socket) = self.peer_mut(of) {
            (socket.reads, socket.writes) = (false, false);
            if reset {
                socket.error = ECONNRESET;
            }
            cx.wake(key(of.socket, READABLE));
            cx.wake(key(of.socket, ROOM));
        }
    }

    fn shut_down<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        let how = cx.request.words[1];
        if how > 2 {
            return fail(EINVAL);
        }
        let socket = self.socket_mut(index)?;
        let (reads, writes) = (how != 1, how != 0);
        socket.reads &= !reads;
        socket.writes &= !writes;
        let other = socket.peer.filter(|_| socket.has_connections());
        for of in [Some(index), other.map(|of| of.socket)]
            .into_iter()
            .flatten()
        {
            cx.wake(key(of, READABLE));
            cx.wake(key(of, ROOM));
        }
        if let Some(other) = other.and_then(|of| self.peer_mut(of)) {
            other.reads &= !writes;
            other.writes &= !reads;
        }
        Ok(Reply::result(0))
    }

    // ---- requests that wait

    /// A request would wait: as it is, or over because it must not (any more).
    fn waits(&mut self, cx: &mut Context, key: u64, limit: u64, nonblocking: bool) -> Answer<u64> {
        let now = match limit {
            0 => 0,
            _ => cx.transport.monotonic(),
        };
        let token = cx.request.token;
        if nonblocking || limit != 0 && self.timeouts.over(token, limit, now, key) {
            self.timeouts.ended(token);
            return match cx.progress {
                done if done != 0 && cx.progress_is_result => Ok(done),
                _ => fail(EAGAIN),
            };
        }
        self.set_alarm(cx);
        Err(Failure::Wait(key))
    }

    fn set_alarm(&mut self, cx: &mut Context) {
        if let Some(first) = self.timeouts.first() {
            cx.wake_by(first);
        }
    }

    /// What [`Sockets::waits`] makes of a result.
    fn settle<T>(
        &mut self,
        cx: &mut Context,
        result: Answer<T>,
        limit: u64,
        nonblocking: bool,
        value: impl FnOnce(u64) -> T,
    ) -> Answer<T> {
        match result {
            Err(Failure::Wait(key)) => self.waits(cx, key, limit, nonblocking).map(value),
            other => {
                self.timeouts.ended(cx.request.token);
                other
            }
        }
    }

    /// As long as sockets are on their way cycles are looked for.
    fn start_looking(&mut self, cx: &mut Context) {
        if !self.in_flight.sockets.is_empty() {
            if let Some(at) = self.find_cycles_later(cx) {
                cx.wake_by(at);
            }
        }
    }

    // ---- sending with what goes along

    /// The descriptors for the segment that is about to be queued.
    pub(crate) fn rights_of(&mut self, _: &mut Context, extra: &mut Extra) -> Answer<Rights> {
        if let Some(parcel) = extra.parcel {
            if let Some(rights) = self.parcels.get_mut(parcel) {
                return Ok(core::mem::take(rights));
            }
        }
        Ok(core::mem::take(&mut extra.rights))
    }

    /// They could not be queued.
    pub(crate) fn give_back(&mut self, extra: &mut Extra, rights: Rights) {
        match extra.parcel.and_then(|parcel| self.parcels.get_mut(parcel)) {
            Some(place) => *place = rights,
            None => extra.rights = rights,
        }
    }

    /// What the sender says of itself must be true, or its to say.
    fn check_credentials(&self, cx: &mut Context) -> Answer<Credentials> {
        let [_, _, ids, pid, ..] = cx.request.words;
        let said = Credentials {
            pid: pid as u32,
            uid: ids as u32,
            gid: (ids >> 32) as u32,
        };
        if cx.has(label::SYSTEM) {
            return Ok(said);
        }
        let caller = self.caller(cx);
        if said.pid != caller.pid {
            return fail(EPERM);
        }
        let (mut uids, mut gids) = ([caller.uid; 3], [caller.gid; 3]);
        if said != caller {
            // Real and saved ids are the sender's as well.
            let mut bytes = [0; proc::Status::BYTES];
            let message = Message::new(&[proc::STATUS, u64::from(caller.pid)]).input(&mut bytes);
            let asked = self.proc.map(|proc| cx.transport.call(proc, message));
            if let Some(Ok([0, ..])) = asked {
                let its = proc::Status::from_bytes(&bytes).creds;
                (uids, gids) = (
                    [its.ruid, its.euid, its.suid],
                    [its.rgid, its.egid, its.sgid],
                );
            }
        }
        match uids.contains(&said.uid) && gids.contains(&said.gid) {
            true => Ok(said),
            false => fail(EPERM),
        }
    }

    fn send<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        index: u32,
        nonblocking: bool,
    ) -> Answer<Reply<'a>> {
        let mut extra = Extra::default();
        let before = cx.progress != 0;
        let result = self.send_extra(cx, handles, index, before, &mut extra);
        let limit = self.socket(index)?.limits.send;
        let nonblocking = nonblocking || cx.request.words[1] & msg::DONTWAIT != 0;
        let result = self.settle(cx, result, limit, nonblocking, |done| done as usize);
        if !extra.kept {
            // They are the request's still: counted again when it runs again, or closed.
            self.let_out(cx, &extra.rights);
        }
        if !matches!(result, Err(Failure::Wait(_))) {
            let kept = before || extra.kept;
            close_brought(cx, kept);
        }
        result.map(|done| Reply::result(done as i64))
    }

    fn send_extra(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        index: u32,
        before: bool,
        extra: &mut Extra,
    ) -> Answer<usize> {
        let flags = cx.request.words[1];
        let mut slots = brought(cx.request);
        if flags & with::ADDRESS != 0 {
            let Some((first, rest)) = slots.split_first() else {
                return fail(EINVAL);
            };
            extra.address = Some(*first as u32);
            slots = rest;
        }
        if flags & with::CREDENTIALS != 0 {
            extra.credentials = Some(self.check_credentials(cx)?);
        }
        let length = cx.request.out_len.min(fs::DATA_MAX);
        extra.urgent = flags & msg::OOB != 0;
        if extra.urgent && !self.is_stream(index) {
            return fail(EOPNOTSUPP);
        }
        if flags & with::PARCEL != 0 && !before {
            let [slot] = slots else { return fail(EINVAL) };
            extra.parcel = Some(self.parcel_of(cx, handles, *slot)?);
        } else if !before {
            extra.rights = self.take_in(cx, handles, slots, 0)?;
        }
        match self.is_stream(index) {
            true if extra.address.is_some() => match self.socket(index)?.is_connected() {
                true => fail(EISCONN),
                false => fail(EOPNOTSUPP),
            },
            true => self.send_stream(cx, index, length, Some(extra)),
            false => self.send_datagram(cx, index, length, Some(extra)),
        }
    }

    fn parcel_of(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        slot: u64,
    ) -> Answer<u32> {
        let Leads::Own { badge, .. } = cx.transport.leads_to(Portal(slot as u32)) else {
            return fail(EBADF);
        };
        match handles.get(badge).map(|handle| handle.node) {
            Some(Node::Parcel(parcel)) => Ok(parcel),
            _ => fail(EBADF),
        }
    }

    fn make_parcel(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        rights: Rights,
    ) -> Answer<u64> {
        handles.room(cx, 1)?;
        let parcel = self.parcels.insert(rights).ok_or(Failure::Errno(ENFILE))?;
        handles.insert(cx, Node::Parcel(parcel), o::RDWR, 0, ())
    }

    fn put_in_parcel<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        parcel: u32,
    ) -> Answer<Reply<'a>> {
        let already = self.parcels.get(parcel).map_or(0, Vec::len);
        let result = self.take_in(cx, handles, brought(cx.request), already);
        let rights = match result {
            Ok(rights) => rights,
            Err(failure) => {
                close_brought(cx, false);
                return Err(failure);
            }
        };
        if let Some(place) = self.parcels.get_mut(parcel) {
            if place.try_reserve(rights.len()).is_ok() {
                place.extend(rights);
                return Ok(Reply::result(0));
            }
        }
        self.drop_rights(cx, &rights);
        fail(ENOBUFS)
    }

    fn take_from_parcel<'a>(&mut self, cx: &mut Context, parcel: u32) -> Answer<Reply<'a>> {
        let rights = self.parcels.get_mut(parcel).ok_or(Failure::Errno(EBADF))?;
        let count = rights.len().min(cairn_abi::MAX_PORTALS);
        let mut taken = [None; cairn_abi::MAX_PORTALS];
        for (place, passed) in taken.iter_mut().zip(rights.drain(..count)) {
            *place = Some(passed);
        }
        let taken: Rights = taken.into_iter().flatten().collect();
        self.let_out(cx, &taken);
        let mut reply = Reply::new(&[count as u64]);
        hand_over(&mut reply, &taken, true);
        Ok(reply)
    }

    // ---- receiving

    /// What a receive finds, if it need not wait: nothing is taken yet.
    fn available(
        &mut self,
        index: u32,
        length: usize,
        peek: bool,
    ) -> Answer<(stream::Taken, Start)> {
        let socket = self.socket_mut(index)?;
        if socket.kind != DATAGRAM && !socket.is_connected() {
            return fail(match socket.kind {
                STREAM => EINVAL,
                _ => ENOTCONN,
            });
        }
        socket.queue.cut();
        let (queue, is_stream) = (&socket.queue, socket.is_stream());
        let mut start = match socket.peek_from {
            Some(offset) if peek => stream::start(queue, offset, is_stream),
            _ => Start::default(),
        };
        // (What takes bytes has passed them.)
        while queue.urgent + queue.taken != 0
            && peek
            && queue.passes(start.segment, socket.is_inline())
        {
            (start.segment, start.within, start.before) = (start.segment + 1, 0, start.before + 1);
        }
        if socket.error != 0 && socket.kind == SEQPACKET {
            return fail(socket.take_error().unwrap_or(0));
        }
        if let Some(first) = queue.segments.get(start.segment) {
            let taken = match is_stream {
                true => stream::next(queue, length, socket.wants_credentials, start),
                false => stream::Taken {
                    bytes: (first.length - start.within).min(length),
                    ends: true,
                    credentials: first.credentials,
                },
            };
            return Ok((taken, start));
        }
        if let Some(number) = socket.take_error() {
            return fail(number);
        }
        match socket.reads {
            true => Err(Failure::Wait(key(index, READABLE))),
            false => Ok((stream::Taken::END, start)),
        }
    }

    /// Datagrams are read no more, and there is none: who does not wait is told just that, as on Linux.
    fn check_end(&self, index: u32, nonblocking: bool) -> Answer<()> {
        let socket = self.socket(index)?;
        let over = nonblocking && !socket.reads && socket.kind == DATAGRAM;
        match over && socket.queue.is_empty() && socket.error == 0 {
            true => fail(EAGAIN),
            false => Ok(()),
        }
    }

    /// Take what is there: all accounts change here, but the bytes still lie in the ring's memory.
    fn receive<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        index: u32,
        nonblocking: bool,
    ) -> Answer<Reply<'a>> {
        let [_, flags, room, room_behind, ..] = cx.request.words;
        let head = match flags & with::NAME {
            0 => 0,
            _ => NAME_MAX,
        };
        let (peek, all) = (flags & msg::PEEK != 0, flags & msg::WAITALL != 0);
        let nonblocking = nonblocking || flags & msg::DONTWAIT != 0;
        let Some(length) = cx.request.in_len.min(fs::DATA_MAX).checked_sub(head) else {
            return fail(EINVAL);
        };
        self.check_end(index, nonblocking)?;
        if flags & msg::OOB != 0 {
            let count = self.receive_urgent(cx, index, (head, length), peek)?;
            return Ok(Reply::new(&[count as u64, msg::OOB]));
        }
        let queue = &self.socket(index)?.queue;
        if queue.urgent + queue.taken != 0 && !peek {
            self.pass_urgent(cx, index);
        }
        let before = cx.progress as usize;
        let limit = self.socket(index)?.limits.receive;
        let found = match self.available(index, length - before.min(length), peek) {
            Err(Failure::Wait(key)) => {
                let done = self.waits(cx, key, limit, nonblocking)?;
                return Ok(Reply::result(done as i64));
            }
            Err(Failure::Errno(_)) if before != 0 => Ok((stream::Taken::END, Start::default())),
            other => other,
        };
        let (found, start) = found.inspect_err(|_| self.timeouts.ended(cx.request.token))?;
        let socket = self.socket_mut(index)?;
        let stream = socket.is_stream();
        let wanted = length - before.min(length);
        if stream && all && !peek && !found.ends && found.bytes < wanted {
            // Not enough yet: what is there goes to the caller now.
            let ring = &mut socket.queue.ring;
            ring.store(cx, head + before, found.bytes, 0, false)?;
            stream::took(&mut socket.queue, found.bytes);
            if let Some(offset) = &mut socket.peek_from {
                *offset = offset.saturating_sub(found.bytes);
            }
            cx.progress = (before + found.bytes) as u64;
            cx.progress_is_result = true;
            cx.wake(key(index, ROOM));
            let done = self.waits(cx, key(index, READABLE), limit, nonblocking)?;
            return Ok(Reply::result(done as i64));
        }
        self.timeouts.ended(cx.request.token);
        let socket = self.socket_mut(index)?;
        let first = socket.queue.segments.get(start.segment);
        let whole = first.map_or(0, |first| first.length - start.within);
        let stamp = first.map_or(0, |first| first.stamp);
        let from = match socket.has_connections() {
            true if first.is_some() => socket.peer_name.clone(),
            _ => first.and_then(|first| first.from.clone()),
        };
        let is_there = first.is_some();
        let mut came = 0;
        let mut words = [0; 8];
        words[0] = (before + found.bytes) as u64;
        if !stream && whole > found.bytes {
            came |= msg::TRUNC;
            if flags & msg::TRUNC != 0 {
                words[0] = whole as u64;
            }
        }
        let tells = socket.wants_credentials && is_there;
        if tells {
            let of = found.credentials.unwrap_or(Credentials {
                pid: 0,
                uid: NOBODY,
                gid: NOBODY,
            });
            came |= with::CREDENTIALS;
            words[2] = u64::from(of.uid) | u64::from(of.gid) << 32;
            words[3] = u64::from(of.pid);
        }
        if let (Some(stamps), true) = (&mut socket.stamps, is_there && !stream) {
            // (One that was sent before anybody asked.)
            stamps.last = match stamp {
                0 => cx.transport.realtime(),
                stamp => stamp,
            };
            came |= with::STAMP;
        }
        if let (Some(name), true) = (&from, head != 0) {
            cx.store(0, name)?;
            came |= with::NAME;
            words[3] |= (name.len() as u64) << 32;
        }
        let skip = match stream {
            true => 0,
            false => whole - found.bytes,
        };
        // Here it may fail last: the caller's memory.
        let queue = &mut socket.queue;
        let ring = &mut queue.ring;
        match peek {
            true => ring.show(cx, head + before, (start.before, found.bytes))?,
            false => ring.store(cx, head + before, found.bytes, skip, false)?,
        }
        if let Some(offset) = &mut socket.peek_from {
            *offset = match peek {
                true => *offset + found.bytes,
                false => offset.saturating_sub(found.bytes + skip),
            };
        }
        let mut rights: Rights = match peek {
            true => peeked(queue, start, found.bytes, stream),
            false if stream => stream::took(queue, found.bytes),
            false => match queue.segments.pop_front() {
                Some(segment) => segment.rights,
                None => Rights::new(),
            },
        };
        let room = match tells {
            true => room_behind,
            false => room,
        };
        let fits = rights
            .len()
            .min(room.min(local::RIGHTS_MAX as u64) as usize);
        let fits = match peek {
            // Copies are given as far as one message takes them.
            true => fits.min(cairn_abi::MAX_PORTALS),
            false => fits,
        };
        if fits < rights.len() {
            came |= msg::CTRUNC;
        }
        if !peek {
            if is_there {
                cx.wake(key(index, ROOM));
            }
            self.unqueued(&rights);
            let beyond = rights.split_off(fits);
            self.drop_rights(cx, &beyond);
            self.emptied(index);
        }
        rights.truncate(fits);
        let mut reply = Reply::new(&words);
        reply.words[1] = came;
        if rights.len() > cairn_abi::MAX_PORTALS {
            let count = rights.len();
            match self.send_parcel(cx, handles, rights) {
                Some(portal) => {
                    reply = reply.portal(portal, true);
                    reply.words[1] |= with::PARCEL;
                    reply.words[4] = count as u64;
                }
                None => reply.words[1] |= msg::CTRUNC,
            }
        } else {
            if !peek {
                self.let_out(cx, &rights);
            }
            hand_over(&mut reply, &rights, !peek);
        }
        Ok(reply)
    }

    /// A parcel for whoever receives more descriptors than one message takes. None: they are lost.
    fn send_parcel(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        rights: Rights,
    ) -> Option<Portal> {
        if handles.room(cx, 1).is_err() {
            self.drop_rights(cx, &rights);
            return None;
        }
        let node = Node::Parcel(self.parcels.insert(rights)?);
        let badge = handles.insert(cx, node, o::RDWR, 0, ()).ok()?;
        cx.transport.make_portal(badge).ok()
    }

    fn name<'a>(&'a mut self, index: u32, whose: u64) -> Answer<Reply<'a>> {
        let socket = self.socket(index)?;
        let name = match whose {
            0 => socket.name.clone(),
            _ if socket.peer.is_none() => return fail(ENOTCONN),
            _ => socket.peer_name.clone(),
        };
        let length = match name {
            Some(name) => {
                self.scratch[..name.len()].copy_from_slice(&name);
                name.len()
            }
            None => 0,
        };
        Ok(Reply::new(&[length as u64]).data(&self.scratch[..length]))
    }

    /// What waits where this socket sends to.
    fn at_peer(&self, index: u32) -> Option<(u32, usize, bool)> {
        let socket = self.sockets.get(index)?;
        let of = socket.peer?;
        let queue = &self.peer(of)?.queue;
        let full = queue.segments.len() >= crate::queue::SEGMENTS;
        Some(match socket.has_connections() {
            true => (of.socket, queue.bytes(), full),
            false => {
                let waits = self.is_full(index, of.socket).unwrap_or(false);
                (of.socket, 0, full || waits)
            }
        })
    }
}

/// The portals that a request brought.
fn brought(request: &Received) -> &[u64] {
    let count = request.portals.min(cairn_abi::MAX_PORTALS);
    &request.words[8 - count..]
}

/// Close them; of a SEND whose descriptors are kept only its address and its parcel.
fn close_brought(cx: &mut Context, kept: bool) {
    let has = |bit| cx.request.words[0] == local::SEND && cx.request.words[1] & bit != 0;
    let slots = brought(cx.request);
    let slots = match kept && !has(with::PARCEL) {
        true => &slots[..(has(with::ADDRESS) as usize).min(slots.len())],
        false => slots,
    };
    for slot in slots {
        cx.transport.close(Portal(*slot as u32));
    }
}

/// Descriptors go with the answer, in its last words.
fn hand_over(reply: &mut Reply, rights: &[Passed], moved: bool) {
    let first = 8 - rights.len();
    for (word, passed) in reply.words[first..].iter_mut().zip(rights) {
        *word = u64::from(passed.portal.0);
    }
    reply.portals = rights.len() as u64;
    if moved && !rights.is_empty() {
        reply.flags |= flag::MOVE;
    }
}

/// The descriptors that a receive of so many bytes would bring.
fn peeked(queue: &crate::queue::Queue, start: Start, bytes: usize, stream: bool) -> Rights {
    let mut left = start.within + bytes;
    for segment in queue.segments.range(start.segment..) {
        if !segment.rights.is_empty() {
            return segment.rights.clone();
        }
        if !stream || segment.length >= left {
            break;
        }
        left -= segment.length;
    }
    Rights::new()
}

impl Server for Sockets {
    type Node = Node;
    type State = ();

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        Ok(match node {
            Node::Socket(index) => {
                let socket = self.socket(index)?;
                Meta {
                    mode: s::IFSOCK | socket.mode,
                    ino: socket.ino,
                    uid: socket.uid,
                    gid: socket.gid,
                    ..Meta::default()
                }
            }
            Node::Root | Node::Parcel(_) => Meta {
                mode: s::IFDIR | 0o555,
                ino: 1,
                ..Meta::default()
            },
        })
    }

    /// (Its times are not kept.)
    fn change(&mut self, _: &mut Context, node: Node, change: &Change) -> Answer<()> {
        let times = change.atime.is_some() || change.mtime.is_some();
        let Node::Socket(index) = node else {
            return fail(EPERM);
        };
        if times {
            return fail(EPERM);
        }
        let socket = self.socket_mut(index)?;
        socket.mode = change.mode.unwrap_or(socket.mode);
        socket.uid = change.uid.unwrap_or(socket.uid);
        socket.gid = change.gid.unwrap_or(socket.gid);
        Ok(())
    }

    fn label(&mut self, node: Node, into: &mut [u8]) -> Option<usize> {
        let Node::Socket(index) = node else {
            return None;
        };
        socket_label(self.sockets.get(index)?.ino, into)
    }

    fn open(&mut self, _: &mut Context, node: Node, _: u64, _: &mut ()) -> Answer<Opened<Node>> {
        match node {
            Node::Root => Ok(Opened {
                node,
                kind: fs::kind::DIRECTORY,
            }),
            // Also again, through /proc/self/fd.
            Node::Socket(_) | Node::Parcel(_) => fail(ENXIO),
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        self.trim(cx);
        if handle.flags & o::PATH != 0 {
            return;
        }
        match handle.node {
            Node::Root => {}
            Node::Socket(index) => self.end(cx, index),
            Node::Parcel(parcel) => {
                let rights = self.parcels.remove(parcel).unwrap_or_default();
                self.drop_rights(cx, &rights);
            }
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let Node::Socket(index) = handle.node else {
            return fail(EBADF);
        };
        let limit = self.socket(index)?.limits.receive;
        let peek = cx.request.words[2] & fs::PEEK != 0;
        let nonblocking = handle.nonblocking() || cx.request.words[2] & NOWAIT != 0;
        self.check_end(index, nonblocking)?;
        let queue = &self.socket(index)?.queue;
        if queue.urgent + queue.taken != 0 {
            self.pass_urgent(cx, index);
        }
        let (found, _) = match self.available(index, length, false) {
            Err(Failure::Wait(key)) if limit != 0 => {
                self.waits(cx, key, limit, handle.nonblocking())?;
                return fail(EAGAIN);
            }
            other => other?,
        };
        self.timeouts.ended(cx.request.token);
        let socket = self.socket_mut(index)?;
        let stream = socket.is_stream();
        let queue = &mut socket.queue;
        let whole = queue.segments.front().map_or(0, |first| first.length);
        let skip = match stream {
            true => 0,
            false => whole - found.bytes,
        };
        let there = !queue.is_empty();
        queue.ring.store(cx, 0, found.bytes, skip, peek)?;
        if let (Some(offset), false) = (&mut socket.peek_from, peek) {
            *offset = offset.saturating_sub(found.bytes + skip);
        }
        if !peek && there {
            let rights = match stream {
                true => stream::took(queue, found.bytes),
                false => queue
                    .segments
                    .pop_front()
                    .map_or(Rights::new(), |s| s.rights),
            };
            cx.wake(key(index, ROOM));
            // A program that only reads does not want descriptors.
            self.drop_queued(cx, rights);
            self.emptied(index);
        }
        Ok(Data::stored(found.bytes))
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
        let Node::Socket(index) = handle.node else {
            return fail(EBADF);
        };
        let result = match self.is_stream(index) {
            true => self.send_stream(cx, index, length, None),
            false => self.send_datagram(cx, index, length, None),
        };
        let limit = self.socket(index)?.limits.send;
        let nonblocking = handle.nonblocking() || cx.request.words[2] & NOWAIT != 0;
        self.settle(cx, result, limit, nonblocking, |done| done as usize)
    }

    #[inline(always)]
    fn read_direct(
        &mut self,
        handle: &Handle<Self>,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
    ) -> Direct {
        match handle.node {
            Node::Socket(index) if self.buffers.total() <= KEEP => {
                self.read_stream_direct(index, length, words, later)
            }
            _ => Direct::Ordinary,
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
        match handle.node {
            Node::Socket(index) if self.trim.is_empty() => {
                self.write_stream_direct(index, length, words, later)
            }
            _ => Direct::Ordinary,
        }
    }

    fn poll(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let Node::Socket(index) = handle.node else {
            return Ok(Readiness {
                ready: 0,
                keys: [0; 2],
            });
        };
        let there = self.at_peer(index);
        let ready = self
            .socket(index)?
            .ready(there.map(|(_, bytes, full)| (bytes, full)));
        let far = there.map_or(index, |(peer, ..)| peer);
        Ok(Readiness {
            ready,
            keys: [key(index, READABLE), key(far, ROOM)],
        })
    }

    fn ioctl<'a>(
        &'a mut self,
        _: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        _: u64,
    ) -> Answer<Reply<'a>> {
        let Node::Socket(index) = handle.node else {
            return fail(ENOTTY);
        };
        let socket = self.socket(index)?;
        let count = match request {
            FIONREAD | TIOCOUTQ if socket.is_listening() => return fail(EINVAL),
            SIOCATMARK if socket.is_stream() => socket.queue.at_mark().into(),
            SIOCATMARK => return fail(EOPNOTSUPP),
            FIONREAD => socket.unread(),
            TIOCOUTQ => self.at_peer(index).map_or(0, |(_, bytes, _)| bytes),
            _ => return fail(ENOTTY),
        };
        self.scratch[..4].copy_from_slice(&(count as u32).to_le_bytes());
        Ok(Reply::result(0).data(&self.scratch[..4]))
    }

    fn takes(&self, operation: u64) -> usize {
        match operation {
            local::CONNECT => 1,
            local::SEND | local::PUT => cairn_abi::MAX_PORTALS,
            _ => 0,
        }
    }

    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        self.trim(cx);
        let operation = cx.request.words[0];
        if cx.request.badge == 0 {
            return match operation {
                local::SOCKET => self.make_socket(cx, handles),
                local::PAIR => self.make_pair(cx, handles),
                local::RESOLVE => self.resolve(cx),
                local::TABLE => self.table(cx),
                local::LIST => self.list(cx),
                local::PARCEL => self
                    .make_parcel(cx, handles, Rights::new())
                    .map(|badge| Reply::new(&[0]).mint(badge)),
                _ => {
                    close_brought(cx, false);
                    fail(EBADF)
                }
            };
        }
        let handle = handles.get(cx.request.badge);
        let (node, nonblocking) = match handle {
            Some(handle) if handle.flags & o::PATH == 0 => (handle.node, handle.nonblocking()),
            _ => {
                close_brought(cx, false);
                return fail(EBADF);
            }
        };
        let index = match node {
            Node::Socket(index) => index,
            Node::Parcel(parcel) if operation == local::PUT => {
                return self.put_in_parcel(cx, handles, parcel)
            }
            Node::Parcel(parcel) if operation == local::TAKE => {
                return self.take_from_parcel(cx, parcel)
            }
            _ => {
                close_brought(cx, false);
                return fail(ENOTSOCK);
            }
        };
        match operation {
            local::SEND => {
                let result = self.send(cx, handles, index, nonblocking);
                self.start_looking(cx);
                result
            }
            local::RECEIVE => self.receive(cx, handles, index, nonblocking),
            local::BIND => self.bind(cx, index),
            local::BIND_PATH => self.bind_path(cx, index),
            local::UNBIND => self.unbind(index),
            local::LISTEN => self.listen(cx, index),
            local::ACCEPT => {
                let result = self.accept(cx, handles, index);
                let limit = self.socket(index)?.limits.receive;
                self.settle(cx, result, limit, nonblocking, |_| Reply::result(0))
            }
            local::CONNECT => {
                let result = self.connect(cx, index);
                let limit = self.socket(index)?.limits.send;
                let result = self.settle(cx, result, limit, nonblocking, |_| Reply::result(0));
                if !matches!(result, Err(Failure::Wait(_))) {
                    close_brought(cx, false);
                }
                result
            }
            local::SHUTDOWN => self.shut_down(cx, index),
            local::GET_OPTION => self.get_option(cx.request.words[1], index),
            local::SET_OPTION => self.set_option(cx, index),
            local::NAME => self.name(index, cx.request.words[1]),
            _ => {
                close_brought(cx, false);
                fail(ENOSYS)
            }
        }
    }

    fn cancelled(&mut self, cx: &mut Context) {
        self.timeouts.ended(cx.request.token);
        match cx.request.words[0] {
            local::SEND => close_brought(cx, cx.progress != 0),
            local::CONNECT => close_brought(cx, false),
            _ => {}
        }
    }

    fn pulse(&mut self, _: &mut Context, event: &Received) {
        if event.words[0] == pulse::CLOSED && event.badge >> 32 == 0 {
            self.address_closed(event.badge);
        }
    }

    fn tick(&mut self, cx: &mut Context) {
        let now = cx.transport.monotonic();
        while let Some(key) = self.timeouts.next_over(now) {
            cx.wake(key);
        }
        self.set_alarm(cx);
        // (Here it would go before all programs.)
        if self.are_cycles_due(cx) && cx.begin_background() {
            return;
        }
        if let Some(at) = self.find_cycles(cx) {
            cx.wake_by(at);
        }
    }

    fn background(&mut self, cx: &mut Context) -> bool {
        if !self.ending.is_empty() {
            self.end_more(cx);
            return true;
        }
        match self.find_cycles(cx) {
            Some(0) => true,
            Some(at) => {
                cx.wake_by(at);
                false
            }
            None => false,
        }
    }
}

/// How many connections that nobody accepted end at a time.
const PIECE: u32 = 64;

/// RWF_NOWAIT.
const NOWAIT: u64 = 8;
