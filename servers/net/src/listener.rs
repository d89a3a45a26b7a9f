//! The listening side: half-open connections, cookies when there are too many of them, and the queue of those that wait to be accepted.

use crate::address::{Address, Endpoint};
use crate::options::Options;
use crate::packet::protocol;
use crate::ports::Claim;
use crate::server::{fail, key, Net, READABLE};
use crate::socket::{Heritage, Listener, State};
use crate::stream::Place;
use crate::timers::Owner;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_tcp::connection::Config;
use cairn_tcp::listen::{self, HalfOpen};
use cairn_tcp::secret::Ends;
use cairn_tcp::segment::Segment;
use core::hash::BuildHasher;

/// Most that may wait, whatever listen(2) says (net.core.somaxconn), and half-open ones of a listener (net.ipv4.tcp_max_syn_backlog).
const BACKLOG_MAX: u64 = 4096;
const HALVES_MAX: usize = 512;
/// Of those whose listener goes so many are reset at once.
const REFUSED_AT_ONCE: usize = 4;
/// A SYN,ACK is sent so many times more.
const RETRIES: u8 = 5;
pub const HALF_COST: usize = size_of::<Half>() + 120;

/// A half-open connection.
pub struct Half {
    pub half: HalfOpen,
    pub ends: Ends,
    /// Whose it is: the socket, and the number that no other one ever has.
    pub listener: u32,
    pub ino: u64,
    pub timer: u32,
    pub payer: u32,
}

impl Net {
    pub(crate) fn listen(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let backlog = (cx.request.words[1] as u32 as u64).min(BACKLOG_MAX) as usize;
        let socket = self.socket_mut(index)?;
        if !socket.is_stream() {
            return fail(EOPNOTSUPP);
        }
        match &mut socket.state {
            State::Listening(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            State::Fresh => {}
            _ => return fail(EINVAL),
        }
        if socket.local.port == 0 {
            self.bind_ephemeral(cx, index)?;
        }
        let socket = self.socket(index)?;
        let (local, reuse) = (socket.local, socket.options.reuse);
        if let Some(claim) = socket.claim {
            self.ports.remove(&claim);
            let wanted = Claim { reuse, ..claim };
            let firm = Claim {
                reuse: false,
                ..claim
            };
            let free = self.ports.is_free(&wanted);
            let kept = if free { firm } else { claim };
            let added = self.ports.add(&kept);
            self.socket_mut(index)?.claim = added.then_some(kept);
            if !free {
                return fail(EADDRINUSE);
            }
        }
        if !self.listeners.contains(&local) && !self.listeners.insert(local, Vec::new()) {
            return fail(ENOMEM);
        }
        let Some(group) = self.listeners.get_mut(&local) else {
            return fail(ENOMEM);
        };
        if group.try_reserve(1).is_err() {
            return fail(ENOMEM);
        }
        let place = group.len();
        group.push(index);
        self.socket_mut(index)?.state = State::Listening(Listener {
            backlog,
            ready: VecDeque::new(),
            halves: 0,
            place,
            heritage: None,
        });
        cx.wake(key(index, READABLE));
        Ok(())
    }

    /// It listens no more. Half-open connections find that when their time comes.
    pub(crate) fn end_listening(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let local = socket.local;
        let options = socket.options;
        let State::Listening(listener) = core::mem::replace(&mut socket.state, State::Fresh) else {
            return;
        };
        self.drop_heritage(cx, listener.heritage);
        if let Some(group) = self.listeners.get_mut(&local) {
            group.swap_remove(listener.place);
            let moved = group.get(listener.place).copied();
            if group.is_empty() {
                self.listeners.remove(&local);
            }
            let moved = moved.and_then(|moved| self.sockets.get_mut(moved)?.listener_mut());
            if let Some(moved) = moved {
                moved.place = listener.place;
            }
        }
        let mut ready = listener.ready;
        for at in ready.drain(..ready.len().min(REFUSED_AT_ONCE)) {
            self.refuse(cx, at, &options);
        }
        if !ready.is_empty() {
            for &at in &ready {
                if let Some(stream) = self.streams.get_mut(at) {
                    // The listener's number may be another socket's soon. (That it has one keeps it.)
                    stream.listener = Some(u32::MAX);
                }
            }
            if self.unaccepted.try_reserve(1).is_ok() && cx.begin_background() {
                self.unaccepted.push((ready, options));
            } else {
                for at in ready {
                    self.refuse(cx, at, &options);
                }
            }
        }
        cx.wake(key(index, READABLE));
    }

    /// What a connection that comes now has of its listener. None: there is no memory.
    fn heritage(&mut self, cx: &mut Context, index: u32) -> Option<Rc<Heritage>> {
        let socket = self.sockets.get_mut(index)?;
        let known = socket.listener().and_then(|of| of.heritage.clone());
        if known.is_some() {
            return known;
        }
        let new = Heritage {
            options: Options {
                priority: 0,
                ..socket.options
            },
            limits: socket.limits,
            wanted: socket.wanted.clone(),
            payer: socket.payer,
        };
        cx.charge(new.payer, new.memory()).ok()?;
        let new = Rc::new(new);
        socket.listener_mut()?.heritage = Some(new.clone());
        Some(new)
    }

    /// Somebody has it no more.
    pub(crate) fn drop_heritage(&mut self, cx: &mut Context, heritage: Option<Rc<Heritage>>) {
        if let Some(last) = heritage.and_then(Rc::into_inner) {
            cx.refund(last.payer, last.memory());
        }
    }

    /// An option of the socket changes: those that come later have another heritage.
    pub(crate) fn heritage_changes(&mut self, cx: &mut Context, index: u32) {
        let listener = self.sockets.get_mut(index).and_then(|s| s.listener_mut());
        let old = listener.and_then(|listener| listener.heritage.take());
        self.drop_heritage(cx, old);
    }

    /// A connection that nobody accepted is reset.
    fn refuse(&mut self, cx: &mut Context, at: u32, options: &Options) {
        if let Some(stream) = self.streams.get_mut(at) {
            stream.block.abort();
        }
        self.close_stream(cx, at, options);
    }

    /// One more of those whose listener is gone. Whether there are others.
    pub(crate) fn refuse_next(&mut self, cx: &mut Context) -> bool {
        if let Some((ready, options)) = self.unaccepted.last_mut() {
            let (next, options) = (ready.pop_front(), *options);
            if ready.is_empty() {
                self.unaccepted.pop();
            }
            if let Some(at) = next {
                self.refuse(cx, at, &options);
            }
        }
        !self.unaccepted.is_empty()
    }

    /// Who listens for this.
    pub(crate) fn listener_for(&self, ends: &Ends) -> Option<u32> {
        let address = Address(ends.local);
        let candidates = [address, address.wildcard(), Address::ANY];
        candidates.into_iter().find_map(|place| {
            let group = self.listeners.get(&Endpoint::new(place, ends.local_port))?;
            let at = match group.len() {
                1 => 0,
                count => {
                    let key = (protocol::TCP, Endpoint::new(place, ends.local_port));
                    let hash = || self.hash_key.hash_one(ends) as usize % count.max(1);
                    self.chosen(&key, count, &[]).unwrap_or_else(hash)
                }
            };
            let socket = *group.get(at)?;
            let other = address.is_v4() && place == Address::ANY;
            (!other || self.sockets.get(socket)?.is_dual()).then_some(socket)
        })
    }

    /// A segment that belongs to no connection.
    pub(crate) fn stranger_arrives(
        &mut self,
        cx: &mut Context,
        ends: &Ends,
        segment: &Segment,
        text: &[u8],
        ce: bool,
    ) {
        let length = text.len() as u32;
        // (Nobody listens at port 0, and nobody is talked to who says that he is there.)
        let listener = self.listener_for(ends);
        let Some(index) = listener.filter(|_| ends.remote_port != 0) else {
            if let Some(reset) = segment.reset(length) {
                self.send_segment(cx, ends, &reset);
            }
            return;
        };
        match listen::listen(segment, length) {
            listen::Listened::Nothing => {}
            listen::Listened::Reset(reset) => self.send_segment(cx, ends, &reset),
            listen::Listened::Syn => self.syn_arrives(cx, index, ends, segment),
            listen::Listened::Acknowledgement => {
                let config = self.listener_config(index, ends);
                let now = self.now(cx);
                let offset = self.secret.timestamp_offset(ends);
                let cookie =
                    listen::check_cookie(&self.secret, &config, ends, segment, offset, now);
                let (Some(half), Some(socket)) = (cookie, self.sockets.get(index)) else {
                    if let Some(reset) = segment.reset(length) {
                        self.send_segment(cx, ends, &reset);
                    }
                    return;
                };
                let half = Half {
                    half,
                    ends: *ends,
                    listener: index,
                    ino: socket.ino,
                    timer: u32::MAX,
                    payer: socket.payer,
                };
                if !self.is_full(index) {
                    self.complete(cx, &half, segment, text, ce);
                }
            }
        }
    }

    fn is_full(&self, index: u32) -> bool {
        let listener = self.sockets.get(index).and_then(|socket| socket.listener());
        listener.is_none_or(|listener| listener.ready.len() > listener.backlog)
    }

    fn listener_config(&self, index: u32, ends: &Ends) -> Config {
        let remote = Address(ends.remote);
        let mtu = self.interfaces.way(&remote, 0).map_or(1280, |way| way.mtu);
        match self.sockets.get(index) {
            Some(socket) => Net::config(&socket.options, mtu, remote.is_v4()),
            None => Config::default(),
        }
    }

    fn syn_arrives(&mut self, cx: &mut Context, index: u32, ends: &Ends, segment: &Segment) {
        if self.is_full(index) {
            return;
        }
        let now = self.now(cx);
        let config = self.listener_config(index, ends);
        let offset = self.secret.timestamp_offset(ends);
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let (ino, payer) = (socket.ino, socket.payer);
        let Some(listener) = socket.listener() else {
            return;
        };
        let crowded = listener.halves >= listener.backlog.clamp(1, HALVES_MAX);
        let kept = !crowded && {
            let iss = self.secret.initial_sequence(ends, now);
            let half = HalfOpen::new(&config, segment, iss, offset, now);
            self.keep_half(cx, half, ends, (index, ino, payer))
        };
        if !kept {
            // Nothing is kept of it.
            let answer = listen::cookie(&self.secret, &config, ends, segment, offset, now);
            self.send_segment(cx, ends, &answer);
        }
    }

    /// Keep a half-open connection, and answer it. False: there is no memory.
    fn keep_half(
        &mut self,
        cx: &mut Context,
        half: HalfOpen,
        ends: &Ends,
        (listener, ino, payer): (u32, u64, u32),
    ) -> bool {
        let now = self.now(cx);
        if !self.connections.reserve() || cx.charge(payer, HALF_COST).is_err() {
            return false;
        }
        let Some(timer) = self.timers.add(Owner::Half(u32::MAX)) else {
            cx.refund(payer, HALF_COST);
            return false;
        };
        let (answer, deadline) = (half.syn_ack(now), half.deadline());
        let made = self.halves.insert(Half {
            half,
            ends: *ends,
            listener,
            ino,
            timer,
            payer,
        });
        let Some(at) = made else {
            self.timers.remove(timer);
            cx.refund(payer, HALF_COST);
            return false;
        };
        self.timers.belongs_to(timer, Owner::Half(at));
        self.timers.set(timer, deadline);
        self.connections.insert(*ends, Place::Half(at));
        if let Some(listener) = self
            .sockets
            .get_mut(listener)
            .and_then(|s| s.listener_mut())
        {
            listener.halves += 1;
        }
        self.send_segment(cx, ends, &answer);
        true
    }

    fn drop_half(&mut self, cx: &mut Context, at: u32) -> Option<Half> {
        let half = self.halves.remove(at)?;
        self.timers.remove(half.timer);
        self.connections.remove(&half.ends);
        if self.listens_still(&half) {
            let socket = self.sockets.get_mut(half.listener);
            if let Some(listener) = socket.and_then(|socket| socket.listener_mut()) {
                listener.halves = listener.halves.saturating_sub(1);
            }
        }
        cx.refund(half.payer, HALF_COST);
        Some(half)
    }

    fn listens_still(&self, half: &Half) -> bool {
        let socket = self.sockets.get(half.listener);
        socket.is_some_and(|socket| socket.ino == half.ino && socket.listener().is_some())
    }

    pub(crate) fn half_arrives(
        &mut self,
        cx: &mut Context,
        at: u32,
        segment: &Segment,
        text: &[u8],
        ce: bool,
    ) {
        let now = self.now(cx);
        let Some(half) = self.halves.get(at) else {
            return;
        };
        let (ends, listener) = (half.ends, half.listener);
        if !self.listens_still(half) {
            self.drop_half(cx, at);
            return self.stranger_arrives(cx, &ends, segment, text, ce);
        }
        let defer = self.sockets.get(listener).map_or(0, |s| s.options.defer);
        let full = self.is_full(listener);
        let Some(half) = self.halves.get_mut(at) else {
            return;
        };
        // Until so many SYN,ACKs were repeated.
        let defer = u32::from(half.half.retries()) < defer;
        let length = text.len() as u32;
        match half.half.segment_arrives(segment, length, defer, now) {
            listen::Answer::Nothing => {}
            listen::Answer::Send(answer) => self.send_segment(cx, &ends, &answer),
            listen::Answer::End => {
                self.drop_half(cx, at);
            }
            // Nobody accepts: the peer will send it again.
            listen::Answer::Complete if full => {}
            listen::Answer::Complete => {
                if let Some(half) = self.drop_half(cx, at) {
                    self.complete(cx, &half, segment, text, ce);
                }
            }
        }
    }

    pub(crate) fn half_time_passes(&mut self, cx: &mut Context, at: u32) {
        let now = self.now(cx);
        let Some(half) = self.halves.get(at) else {
            return;
        };
        if !self.listens_still(half) {
            self.drop_half(cx, at);
            return;
        }
        let Some(half) = self.halves.get_mut(at) else {
            return;
        };
        let (ends, timer) = (half.ends, half.timer);
        match half.half.time_passes(RETRIES, now) {
            listen::Answer::Send(answer) => {
                let deadline = half.half.deadline();
                self.timers.set(timer, deadline);
                self.send_segment(cx, &ends, &answer);
            }
            listen::Answer::End => {
                self.drop_half(cx, at);
            }
            _ => {
                let deadline = half.half.deadline();
                self.timers.set(timer, deadline);
            }
        }
    }

    fn complete(
        &mut self,
        cx: &mut Context,
        half: &Half,
        segment: &Segment,
        text: &[u8],
        ce: bool,
    ) {
        let config = self.listener_config(half.listener, &half.ends);
        let ready = self.sockets.get_mut(half.listener);
        let ready = ready.and_then(|socket| socket.listener_mut());
        let room = ready.is_some_and(|listener| listener.ready.try_reserve(1).is_ok());
        let heritage = match room {
            true => self.heritage(cx, half.listener),
            false => None,
        };
        let at = match heritage {
            Some(heritage) => self.begin_accepted(cx, half, &config, heritage),
            None => None,
        };
        let Some(at) = at else {
            if let Some(reset) = segment.reset(text.len() as u32) {
                self.send_segment(cx, &half.ends, &reset);
            }
            return;
        };
        let socket = self.sockets.get_mut(half.listener);
        if let Some(listener) = socket.and_then(|socket| socket.listener_mut()) {
            listener.ready.push_back(at);
        }
        cx.wake(key(half.listener, READABLE));
        self.stream_arrives(cx, at, segment, text, ce);
    }
}
