//! Connections: the control block of [`cairn_tcp`], its text, and what its socket is told. A connection may be without a socket: until it is accepted, and after its socket was closed.

use crate::address::{Address, Endpoint};
use crate::interface::Way;
use crate::listener::Half;
use crate::options::Options;
use crate::packet::{protocol, Header, Packet, Sum};
use crate::ports::{Claim, Ports};
use crate::ring::{Ring, SMALLEST};
use crate::server::{errno_of, fail, key, Net, READABLE, WRITABLE};
use crate::socket::{Heritage, State};
use crate::timers::Owner;
use alloc::rc::Rc;
use cairn_idl::errno::*;
use cairn_idl::fs::poll;
use cairn_idl::net::msg;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_tcp::connection::{Config, Connection, Events, State as Tcp};
use cairn_tcp::input::{Arrival, Icmp};
use cairn_tcp::secret::Ends;
use cairn_tcp::segment::{Flags, Segment, HEADER_MAX};
use cairn_tcp::seq::Seq;
use cairn_tcp::time::Time;
use cairn_tcp::time_wait::{self, TimeWait};

/// What is asked of memory for one, beside its text.
pub const COST: usize = size_of::<Stream>() + 160;
pub const WAIT_COST: usize = size_of::<Wait>() + 120;
/// Least that the send ring may hold, and most that it grows to by itself.
/// Most text, and most segments, that leave as one to be cut.
pub const TEXT_MOST: u32 = 40_000;
const SEGMENTS_MOST: u32 = 64;
const SEND_LEAST: u32 = 262_144;
const SEND_MOST: u32 = 4 << 20;
/// Bytes of all rings together with which those that are empty keep their memory.
pub const KEPT: usize = 4 << 20;

pub struct Stream {
    pub block: Connection,
    pub ends: Ends,
    pub send: Ring,
    pub receive: Ring,
    /// Whose it is; the listener in whose queue it waits.
    pub socket: Option<u32>,
    pub listener: Option<u32>,
    /// What its socket will have of the listener, until it is accepted.
    pub heritage: Option<Rc<Heritage>>,
    pub payer: u32,
    pub uid: u32,
    pub claim: Option<Claim>,
    pub timer: u32,
    pub error: i64,
    pub connected: bool,
    /// connect(2) has said so.
    pub told: bool,
    /// The peer sends nothing more.
    pub ended: bool,
    /// It is closed, or a record in TIME-WAIT.
    pub over: bool,
    /// Segments find it.
    pub listed: bool,
    pub urgent_taken: bool,
    /// An urgent byte was told of by what the present request brought: who wants SIGURG is told by POLLMSG.
    pub urgent_news: bool,
    /// It is among those whose empty rings keep their memory.
    pub spare: bool,
    pub inline: bool,
    /// What its packets have: time to live, type of service.
    pub ttl: u8,
    pub tos: u8,
    /// Segments with less of it are passed over (IP_MINTTL, IPV6_MINHOPCOUNT).
    pub least_ttl: u8,
    pub device: u32,
    pub send_limit: u32,
    pub receive_limit: u32,
    pub receive_low: u32,
}

/// A connection in TIME-WAIT.
pub struct Wait {
    pub record: TimeWait,
    pub ends: Ends,
    pub claim: Option<Claim>,
    pub payer: u32,
    pub uid: u32,
    pub timer: u32,
}

/// What two ends have here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Stream(u32),
    Half(u32),
    Wait(u32),
}

impl Stream {
    /// Segments that came too early lie in the ring as well.
    fn receive_is_empty(&self) -> bool {
        self.block.unread() == 0 && self.block.nothing_early()
    }

    /// The rings that are empty keep no memory. Bytes that were freed.
    fn free_rings(&mut self, all: &mut usize) -> usize {
        let mut freed = 0;
        if self.receive_is_empty() {
            freed += self.receive.clear(SMALLEST, all);
        }
        if self.block.unacknowledged() == 0 {
            freed += self.send.clear(SMALLEST, all);
        }
        freed
    }

    /// What the block, and the packets, must know of its socket's options.
    pub fn take_options(&mut self, options: &Options, now: Time) {
        let block = &mut self.block;
        block.set_no_delay(options.no_delay);
        block.set_cork(options.cork);
        block.set_user_timeout(options.user_timeout);
        block.set_syn_retries(options.syn_count.min(127) as u8);
        block.set_algorithm(options.algorithm);
        block.set_keep_alive(
            options.keep_alive,
            options.keep_idle,
            options.keep_interval,
            options.keep_count.min(255) as u8,
            now,
        );
        let v4 = Address(self.ends.local).is_v4();
        self.inline = options.inline;
        self.receive_low = options.receive_low;
        self.device = options.device;
        self.ttl = if v4 { options.ttl } else { options.hops };
        self.least_ttl = options.least(v4);
        self.tos = if v4 {
            options.tos
        } else {
            options.traffic_class
        };
        self.send_limit = match options.send_fixed {
            true => options.send_buffer,
            false => 0,
        };
        self.receive_limit = match options.receive_fixed {
            true => options.receive_buffer,
            false => 0,
        };
        if options.window_clamp != 0 {
            self.receive_limit = match self.receive_limit {
                0 => options.window_clamp,
                limit => limit.min(options.window_clamp),
            };
        }
    }

    /// Most bytes that the send ring may hold.
    fn capacity(&self) -> u32 {
        match self.send_limit {
            0 => self.block.send_space_wanted().clamp(SEND_LEAST, SEND_MOST),
            fixed => fixed,
        }
    }

    fn is_writable(&self) -> bool {
        let capacity = self.capacity();
        self.block.unacknowledged() < capacity - capacity / 3
    }

    /// Bytes that wait, without an urgent one that is the next.
    fn readable(&self) -> u32 {
        let unread = self.block.unread();
        match self.block.urgent_offset() {
            Some(0) if !self.inline && unread > 0 => unread - 1,
            _ => unread,
        }
    }

    /// FIONREAD: what is before an urgent byte, or all.
    pub fn waiting(&self) -> u32 {
        match self.block.urgent_offset() {
            Some(offset) if !self.inline => offset.min(self.block.unread()),
            _ => self.block.unread(),
        }
    }

    pub fn remote(&self) -> Endpoint {
        Endpoint::new(Address(self.ends.remote), self.ends.remote_port)
    }

    /// poll(2), but for what the socket itself says. `reads`, `writes`: it was not shut down.
    pub fn ready(&self, reads: bool, writes: bool) -> u64 {
        let mut ready = 0;
        if self.error != 0 {
            ready |= poll::ERR;
        }
        if !self.connected && !self.over {
            return ready;
        }
        let ended = self.ended || !reads || self.over;
        if (ended && !writes) || self.over {
            ready |= poll::HUP;
        }
        if ended {
            ready |= poll::IN | poll::RDNORM | poll::RDHUP;
        }
        if self.readable() >= self.receive_low {
            ready |= poll::IN | poll::RDNORM;
        }
        if self.urgent_news {
            ready |= poll::MSG;
        }
        if !writes || self.over || self.is_writable() {
            ready |= poll::OUT | poll::WRNORM;
        }
        if self.block.urgent_offset().is_some() && !self.urgent_taken {
            ready |= poll::PRI;
        }
        ready
    }
}

impl Net {
    // ---- beginning and end

    /// How connections of this socket's begin that go this way.
    pub(crate) fn config(options: &Options, mtu: u32, v4: bool) -> Config {
        let headers = if v4 { 40 } else { 60 };
        let mut config = Config {
            // A whole packet's length has 16 bits.
            mss: mtu.min(65_535).saturating_sub(headers).max(536) as u16,
            receive_space: options.receive_buffer,
            ..Config::default()
        };
        if options.receive_fixed {
            config.receive_space_max = options.receive_buffer;
        }
        if options.max_segment > 0 {
            config.mss = config.mss.min(options.max_segment);
        }
        config.segments = (TEXT_MOST / u32::from(config.mss).max(1)).clamp(1, SEGMENTS_MOST) as u16;
        config.algorithm = options.algorithm;
        config.syn_retries = options.syn_count.min(127) as u8;
        config
    }

    /// A new connection, found by its ends. What it costs is charged.
    pub(crate) fn add_stream(
        &mut self,
        cx: &mut Context,
        (block, ends): (Connection, Ends),
        options: &Options,
        claim: Claim,
        payer: u32,
    ) -> Answer<u32> {
        let now = self.now(cx);
        cx.charge(payer, COST)?;
        let made = self.try_add_stream((block, ends), claim, payer);
        let Some(at) = made else {
            cx.refund(payer, COST);
            return fail(ENOBUFS);
        };
        if let Some(stream) = self.streams.get_mut(at) {
            stream.take_options(options, now);
        }
        Ok(at)
    }

    fn try_add_stream(
        &mut self,
        (block, ends): (Connection, Ends),
        claim: Claim,
        payer: u32,
    ) -> Option<u32> {
        if !self.streams.reserve() || !self.connections.reserve() || !self.ports.add(&claim) {
            return None;
        }
        // Its number is known when it is there.
        let Some(timer) = self.timers.add(Owner::Stream(u32::MAX)) else {
            self.ports.remove(&claim);
            return None;
        };
        let at = self.streams.insert(Stream {
            block,
            ends,
            send: Ring::default(),
            receive: Ring::default(),
            socket: None,
            listener: None,
            heritage: None,
            payer,
            uid: claim.uid,
            claim: Some(claim),
            timer,
            error: 0,
            connected: false,
            told: false,
            ended: false,
            over: false,
            listed: true,
            urgent_taken: false,
            urgent_news: false,
            spare: false,
            inline: false,
            ttl: 64,
            least_ttl: 0,
            tos: 0,
            device: 0,
            send_limit: 0,
            receive_limit: 0,
            receive_low: 1,
        })?;
        self.timers.belongs_to(timer, Owner::Stream(at));
        self.connections.insert(ends, Place::Stream(at));
        Some(at)
    }

    /// Segments do not find it any more, and its part of the port is free.
    fn unlist(&mut self, at: u32) {
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        let listed = core::mem::take(&mut stream.listed);
        let (ends, claim) = (stream.ends, stream.claim.take());
        if listed {
            self.connections.remove(&ends);
        }
        if let Some(claim) = claim {
            self.ports.remove(&claim);
        }
    }

    pub(crate) fn drop_stream(&mut self, cx: &mut Context, at: u32) {
        self.unlist(at);
        let Some(mut stream) = self.streams.remove(at) else {
            return;
        };
        self.timers.remove(stream.timer);
        self.drop_heritage(cx, stream.heritage.take());
        let all = &mut self.rings;
        let text = stream.send.clear(0, all) + stream.receive.clear(0, all);
        cx.refund(stream.payer, COST + text);
    }

    /// Turn it into a record in TIME-WAIT, which takes its place.
    fn becomes_record(&mut self, cx: &mut Context, at: u32) {
        let now = self.now(cx);
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        let (payer, uid, ends, claim) = (stream.payer, stream.uid, stream.ends, stream.claim);
        let record = TimeWait::new(&stream.block, now);
        let remaining = record.remaining(now);
        if cx.charge(payer, WAIT_COST).is_err() {
            // As on Linux when there are too many of them.
            return self.unlist(at);
        }
        let made = self.timers.add(Owner::Wait(u32::MAX)).and_then(|timer| {
            let wait = self.waits.insert(Wait {
                record,
                ends,
                claim,
                payer,
                uid,
                timer,
            });
            if wait.is_none() {
                self.timers.remove(timer);
            }
            Some((wait?, timer))
        });
        let Some((wait, timer)) = made else {
            cx.refund(payer, WAIT_COST);
            return self.unlist(at);
        };
        if let Some(stream) = self.streams.get_mut(at) {
            // The record has both from now on.
            stream.claim = None;
            stream.listed = false;
        }
        self.timers.belongs_to(timer, Owner::Wait(wait));
        self.timers.set(timer, now.after(remaining));
        if let Some(place) = self.connections.get_mut(&ends) {
            *place = Place::Wait(wait);
        }
    }

    pub(crate) fn drop_wait(&mut self, cx: &mut Context, at: u32) {
        let Some(wait) = self.waits.remove(at) else {
            return;
        };
        self.timers.remove(wait.timer);
        self.connections.remove(&wait.ends);
        if let Some(claim) = wait.claim {
            self.ports.remove(&claim);
        }
        cx.refund(wait.payer, WAIT_COST);
    }

    // ---- segments

    /// Send a segment that has no text.
    pub(crate) fn send_segment(&mut self, cx: &mut Context, ends: &Ends, segment: &Segment) {
        self.send_text(cx, ends, segment, ([&[], &[]], 0, 64, 0, 0));
    }

    /// Send a segment with this text: as many segments as it takes, of which a link may make the most itself.
    fn send_text(
        &mut self,
        cx: &mut Context,
        ends: &Ends,
        segment: &Segment,
        (text, size, ttl, tos, device): ([&[u8]; 2], u32, u8, u8, u32),
    ) {
        let header = Header {
            source: Address(ends.local),
            destination: Address(ends.remote),
            protocol: protocol::TCP,
            ttl,
            tos,
            whole: true,
        };
        let Some(way) = self.interfaces.way(&header.destination, device) else {
            return;
        };
        let length = text[0].len() + text[1].len();
        match length > size as usize {
            false => self.put_segment(cx, &header, segment, (text, 0), &way),
            true => self.send_cut(cx, &header, segment, (text, size), &way),
        }
    }

    #[inline(always)]
    fn put_segment(
        &mut self,
        cx: &mut Context,
        header: &Header,
        segment: &Segment,
        (text, cut): ([&[u8]; 2], u16),
        way: &Way,
    ) {
        let length = text[0].len() + text[1].len();
        let identification = self.next_identification();
        let mut head = [0; HEADER_MAX];
        let Some(count) = segment.write(&mut head) else {
            return;
        };
        let pseudo = self.pseudo(header, count + length, way);
        head[16..18].copy_from_slice(&pseudo.to_be_bytes());
        let Some(mut packet) = Packet::new(header, count + length, identification) else {
            return;
        };
        packet.push(&head[..count]);
        packet.push(text[0]);
        packet.push(text[1]);
        (packet.sum, packet.cut) = (Sum::Missing, cut);
        self.output(cx, packet, way);
    }

    /// More text than one segment has. What a link cuts for itself no filter has to see, and has no bit that only one of the segments may have.
    #[cold]
    #[inline(never)]
    fn send_cut(
        &mut self,
        cx: &mut Context,
        header: &Header,
        segment: &Segment,
        (text, size): ([&[u8]; 2], u32),
        way: &Way,
    ) {
        let Some(interface) = self.interfaces.get(way.interface) else {
            return;
        };
        let family = usize::from(!header.is_v4());
        let once = segment.flags.has(Flags::URG) || segment.flags.has(Flags::CWR);
        let by_link = interface.offers().cuts[family] && !self.filter.asks(false) && !once;
        if let (true, Ok(size)) = (by_link, u16::try_from(size)) {
            return self.put_segment(cx, header, segment, (text, size), way);
        }
        let size = size.max(1) as usize;
        let length = text[0].len() + text[1].len();
        for at in (0..length).step_by(size) {
            let end = (at + size).min(length);
            let part = text_part(text, at, end);
            let own = piece_of(segment, at as u32, at == 0, end == length);
            self.put_segment(cx, header, &own, (part, 0), way);
        }
    }

    /// Send all that a connection has to send, and let it go if it is over.
    pub(crate) fn flush(&mut self, cx: &mut Context, at: u32) {
        let now = self.now(cx);
        let stream = loop {
            let Some(stream) = self.streams.get_mut(at) else {
                return;
            };
            let Some(transmit) = stream.block.transmit(now) else {
                break stream;
            };
            let (ends, ttl, device) = (stream.ends, stream.ttl, stream.device);
            let tos = stream.tos & !3 | if transmit.ecn_capable { 2 } else { 0 };
            // (Its text is borrowed while the packet is made, and nothing else changes it.)
            let ring = core::mem::take(&mut stream.send);
            let text = ring.pieces(transmit.offset as usize, transmit.length as usize);
            let about = (text, transmit.segment_size, ttl, tos, device);
            self.send_text(cx, &ends, &transmit.segment, about);
            if let Some(stream) = self.streams.get_mut(at) {
                stream.send = ring;
            }
        };
        if stream.over || matches!(stream.block.state(), Tcp::TimeWait | Tcp::Closed) {
            return self.flush_last(cx, at);
        }
        let (timer, deadline) = (stream.timer, stream.block.deadline());
        self.timers.set(timer, deadline);
    }

    /// The same of a connection that is over.
    #[cold]
    #[inline(never)]
    fn flush_last(&mut self, cx: &mut Context, at: u32) {
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        if !stream.over {
            match stream.block.state() {
                Tcp::TimeWait => {
                    stream.over = true;
                    self.becomes_record(cx, at);
                }
                Tcp::Closed => {
                    stream.over = true;
                    self.unlist(at);
                }
                _ => {}
            }
        }
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        if stream.over && stream.socket.is_none() && stream.listener.is_none() {
            return self.drop_stream(cx, at);
        }
        let (timer, deadline) = (stream.timer, stream.block.deadline());
        self.timers.set(timer, deadline);
    }

    /// Something happened to a connection: whoever waits for it is woken.
    pub(crate) fn happened(&mut self, cx: &mut Context, at: u32, events: Events) {
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        if events.has(Events::CONNECTED) {
            stream.connected = true;
        }
        if events.has(Events::PEER_CLOSED) {
            stream.ended = true;
        }
        if events.has(Events::URGENT) {
            stream.urgent_taken = false;
            stream.urgent_news = true;
            // (They are news until the next request.)
            if self.urgent.try_reserve(1).is_ok() {
                self.urgent.push(at);
            }
        }
        if events.has(Events::FAILED) {
            stream.error = errno_of(stream.block.error());
        }
        let Some(socket) = stream.socket else {
            return;
        };
        let both = Events::CONNECTED.0 | Events::FAILED.0 | Events::CLOSED.0;
        let reads = Events::READABLE.0 | Events::PEER_CLOSED.0 | Events::URGENT.0 | both;
        if events.0 & reads != 0 {
            cx.wake(key(socket, READABLE));
        }
        let room = events.has(Events::WRITABLE) && stream.is_writable();
        if room || events.0 & (both | Events::TIME_WAIT.0) != 0 {
            cx.wake(key(socket, WRITABLE));
        }
    }

    /// A segment of a connection.
    pub(crate) fn stream_arrives(
        &mut self,
        cx: &mut Context,
        at: u32,
        segment: &Segment,
        text: &[u8],
        ce: bool,
    ) {
        let now = self.now(cx);
        let Some(mut stream) = self.streams.get_mut(at) else {
            return;
        };
        let unread = stream.block.unread();
        if !text.is_empty() {
            let needed = stream.block.receive_needs(segment, text.len() as u32);
            let needed = (unread + needed) as usize;
            if needed > stream.receive.memory() {
                stream = match self.ring_room(cx, at, |stream| &mut stream.receive, needed) {
                    Some(stream) => stream,
                    // It is lost; the peer sends it again.
                    None => return,
                };
            }
        }
        let arrival = stream
            .block
            .segment_arrives(segment, text.len() as u32, ce, now);
        if let Some(place) = arrival.place {
            let from = place.from as usize;
            if let Some(bytes) = text.get(from..from + place.length as usize) {
                stream.receive.put((unread + place.offset) as usize, bytes);
            }
        }
        if arrival.acknowledged > 0 {
            stream.send.advance(arrival.acknowledged as usize);
            if stream.block.unacknowledged() == 0 {
                stream.send.start_over();
                if stream.send.memory() > SMALLEST {
                    self.emptied(cx, at);
                }
            }
        }
        self.arrived(cx, at, &arrival);
    }

    fn arrived(&mut self, cx: &mut Context, at: u32, arrival: &Arrival) {
        self.happened(cx, at, arrival.events);
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        let ends = stream.ends;
        if stream.receive_limit == 0 {
            let wanted = stream.block.receive_space_wanted();
            stream.block.set_receive_space(wanted);
        }
        if let Some(reset) = &arrival.reset {
            self.send_segment(cx, &ends, reset);
        }
        self.flush(cx, at);
    }

    pub(crate) fn wait_arrives(
        &mut self,
        cx: &mut Context,
        at: u32,
        segment: &Segment,
        text: &[u8],
    ) -> bool {
        let now = self.now(cx);
        let Some(wait) = self.waits.get_mut(at) else {
            return false;
        };
        let ends = wait.ends;
        let answer = wait.record.segment_arrives(segment, text.len() as u32, now);
        let (timer, end) = (wait.timer, now.after(wait.record.remaining(now)));
        self.timers.set(timer, end);
        match answer {
            time_wait::Answer::Nothing => true,
            time_wait::Answer::Send(answer) => {
                self.send_segment(cx, &ends, &answer);
                true
            }
            time_wait::Answer::End => {
                self.drop_wait(cx, at);
                true
            }
            time_wait::Answer::Reuse(_) => {
                self.drop_wait(cx, at);
                false
            }
        }
    }

    pub(crate) fn stream_time_passes(&mut self, cx: &mut Context, at: u32) {
        let now = self.now(cx);
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        if stream.block.deadline() <= now {
            let events = stream.block.time_passes(now);
            self.happened(cx, at, events);
        }
        self.flush(cx, at);
    }

    pub(crate) fn wait_time_passes(&mut self, cx: &mut Context, at: u32) {
        let now = self.now(cx);
        let Some(wait) = self.waits.get(at) else {
            return;
        };
        let (timer, remaining) = (wait.timer, wait.record.remaining(now));
        match remaining {
            0 => self.drop_wait(cx, at),
            _ => self.timers.set(timer, now.after(remaining)),
        }
    }

    /// An ICMP message about a segment of ours.
    pub(crate) fn stream_error(
        &mut self,
        cx: &mut Context,
        ends: &Ends,
        message: Icmp,
        quoted: Seq,
    ) {
        let now = self.now(cx);
        let Some(Place::Stream(at)) = self.connections.get(ends).copied() else {
            return;
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        let events = stream.block.icmp_arrives(message, quoted, now);
        self.happened(cx, at, events);
        self.flush(cx, at);
    }

    // ---- connecting

    pub(crate) fn connect_stream(
        &mut self,
        cx: &mut Context,
        index: u32,
        to: Endpoint,
        nonblocking: bool,
    ) -> Answer<()> {
        let at = match self.socket(index)?.state {
            State::Listening(_) => return fail(EISCONN),
            State::Stream(at) => at,
            _ => {
                if let Some(error) = self.socket_mut(index)?.take_error() {
                    return fail(error);
                }
                let at = self.begin_connect(cx, index, to)?;
                cx.progress = 1;
                if nonblocking {
                    // Even if all has happened already: as on Linux.
                    self.pump(cx);
                    return fail(EINPROGRESS);
                }
                self.pump(cx);
                at
            }
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return fail(EBADF);
        };
        if !stream.connected {
            if !stream.over {
                return match nonblocking && cx.progress == 0 {
                    true => fail(EALREADY),
                    false => Err(Failure::Wait(key(index, WRITABLE))),
                };
            }
            let error = match core::mem::take(&mut stream.error) {
                0 => ECONNABORTED,
                error => error,
            };
            self.forget_stream(cx, index);
            return fail(error);
        }
        if stream.error != 0 && !stream.told {
            stream.told = true;
            let error = core::mem::take(&mut stream.error);
            return fail(error);
        }
        match core::mem::replace(&mut stream.told, true) {
            false => Ok(()),
            true => fail(EISCONN),
        }
    }

    /// The socket has its connection no more; what is left of that goes on by itself.
    pub(crate) fn forget_stream(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let State::Stream(at) = core::mem::replace(&mut socket.state, State::Fresh) else {
            return;
        };
        socket.remote = None;
        let keeps_port = socket.port_bound;
        if !socket.address_bound {
            socket.local.address = match socket.is_v4() {
                true => Address::ANY_V4,
                false => Address::ANY,
            };
        }
        if let Some(stream) = self.streams.get_mut(at) {
            stream.socket = None;
        }
        if !keeps_port {
            self.release_port(cx, index);
        }
        self.flush(cx, at);
    }

    fn begin_connect(&mut self, cx: &mut Context, index: u32, to: Endpoint) -> Answer<u32> {
        let socket = self.socket(index)?;
        let (options, local, uid, payer) = (socket.options, socket.local, socket.uid, socket.payer);
        if to.address.is_v4() && !socket.is_v4() && options.only_v6 {
            return fail(ENETUNREACH);
        }
        let Some(way) = self.interfaces.way(&to.address, options.device) else {
            return fail(ENETUNREACH);
        };
        let remote = match to.address.is_any() {
            true => way.next_hop,
            false => to.address,
        };
        if remote.is_multicast() || self.interfaces.is_broadcast(&remote) {
            return fail(ENETUNREACH);
        }
        let address = match local.address.is_any() {
            true => way.source,
            false => local.address,
        };
        if address.is_v4() != remote.is_v4() {
            return fail(ENETUNREACH);
        }
        let mut ends = Ends {
            local: address.0,
            remote: remote.0,
            local_port: local.port,
            remote_port: to.port,
        };
        let mut claim = Claim {
            protocol: protocol::TCP,
            at: Endpoint::new(address, local.port),
            dual: false,
            reuse: options.reuse,
            share: options.share,
            bound: false,
            uid,
        };
        if local.port == 0 {
            ends.local_port = self.port_to(claim, &ends)?;
            claim.at.port = ends.local_port;
        }
        match self.connections.get(&ends) {
            None => {}
            Some(Place::Wait(wait)) => {
                // RFC 6191 asks for a later timestamp, which a second is enough for.
                let wait = *wait;
                self.drop_wait(cx, wait);
            }
            Some(_) => return fail(EADDRNOTAVAIL),
        }
        let now = self.now(cx);
        let config = Net::config(&options, way.mtu, remote.is_v4());
        let iss = self.secret.initial_sequence(&ends, now);
        let offset = self.secret.timestamp_offset(&ends);
        let ports = (ends.local_port, ends.remote_port);
        let block = Connection::connect(&config, ports.0, ports.1, iss, offset, now);
        let at = self.add_stream(cx, (block, ends), &options, claim, payer)?;
        if let Some(stream) = self.streams.get_mut(at) {
            stream.socket = Some(index);
        }
        let socket = self.socket_mut(index)?;
        socket.state = State::Stream(at);
        socket.local = claim.at;
        socket.remote = Some(Endpoint::new(remote, to.port));
        (socket.reads, socket.writes) = (true, true);
        self.flush(cx, at);
        Ok(at)
    }

    /// A port for a connection to somebody: one that nobody has, or else one that only connections to others have.
    fn port_to(&mut self, claim: Claim, ends: &Ends) -> Answer<u16> {
        let at = |port| Claim {
            at: Endpoint::new(claim.at.address, port),
            ..claim
        };
        let random = self.random_word();
        let unused = Ports::ephemeral(random, |port| self.ports.is_unused(&at(port)));
        let found = unused.or_else(|| {
            Ports::ephemeral(random, |port| {
                let ends = Ends {
                    local_port: port,
                    ..*ends
                };
                self.ports.is_unbound(&at(port)) && !self.connections.contains(&ends)
            })
        });
        found.ok_or(Failure::Errno(EADDRNOTAVAIL))
    }

    // ---- text

    fn stream_of(&self, index: u32) -> Answer<Option<u32>> {
        Ok(match self.socket(index)?.state {
            State::Stream(at) => Some(at),
            _ => None,
        })
    }

    pub(crate) fn send_stream(
        &mut self,
        cx: &mut Context,
        index: u32,
        (skipped, length): (usize, usize),
        flags: u64,
    ) -> Answer<usize> {
        let socket = self.socket_mut(index)?;
        let (writes, corked) = (socket.writes, socket.options.cork);
        if let Some(error) = socket.take_error() {
            return done_or(cx, error);
        }
        let Some(at) = self.stream_of(index)? else {
            return fail(EPIPE);
        };
        loop {
            let Some(stream) = self.streams.get_mut(at) else {
                return fail(EPIPE);
            };
            if stream.error != 0 {
                if cx.progress != 0 {
                    return Ok(cx.progress as usize);
                }
                return fail(core::mem::take(&mut stream.error));
            }
            if !writes || stream.over || stream.connected && !stream.block.can_write() {
                return done_or(cx, EPIPE);
            }
            if !stream.connected {
                return Err(Failure::Wait(key(index, WRITABLE)));
            }
            let done = cx.progress as usize;
            let left = length.saturating_sub(done);
            if left == 0 {
                return Ok(length);
            }
            let used = stream.block.unacknowledged();
            let room = stream.capacity().saturating_sub(used) as usize;
            // Whoever waits is woken when there is much room.
            if room == 0 || done != 0 && room < left && !stream.is_writable() {
                return Err(Failure::Wait(key(index, WRITABLE)));
            }
            let some = left.min(room);
            let needed = used as usize + some;
            let Some(stream) = self.ring_room(cx, at, |stream| &mut stream.send, needed) else {
                return done_or(cx, ENOBUFS);
            };
            let from = skipped + done;
            let mut fetched = stream.send.fetch(cx, used as usize, from, some);
            if let (Err(_), true) = (&fetched, done != 0) {
                fetched = Ok(());
                cx.progress_is_result = true;
            } else if fetched.is_ok() {
                stream.block.set_cork(corked || flags & msg::MORE != 0);
                stream.block.write(some as u32);
                cx.progress += some as u64;
                cx.progress_is_result = true;
                if flags & msg::OOB != 0 && cx.progress as usize == length {
                    stream.block.write_urgent();
                }
            }
            fetched?;
            if cx.progress as usize == done {
                return Ok(done);
            }
            self.flush(cx, at);
            self.pump(cx);
        }
    }

    /// How many bytes a read gets now: none is the end. `all`: it waits for all of `length`.
    pub(crate) fn stream_available(
        &mut self,
        index: u32,
        length: usize,
        all: bool,
    ) -> Answer<usize> {
        let socket = self.socket_mut(index)?;
        let (reads, low) = (socket.reads, socket.options.receive_low as usize);
        let error = socket.error;
        let Some(at) = self.stream_of(index)? else {
            if error != 0 {
                self.socket_mut(index)?.error = 0;
                return fail(error);
            }
            return fail(ENOTCONN);
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return fail(ENOTCONN);
        };
        let mut there = stream.block.unread() as usize;
        let mut wanted = if all { length } else { length.min(low) };
        // What is before the urgent byte ends there, and that one is part of what is read only if somebody wants it so.
        match stream.block.urgent_offset() {
            Some(0) if there > 0 && !stream.inline => {
                stream.receive.advance(1);
                stream.block.read(1, self.time);
                stream.urgent_taken = true;
                there -= 1;
            }
            Some(offset) if offset > 0 && (offset as usize) < there => {
                (there, wanted) = (offset as usize, 1);
            }
            _ => {}
        }
        let ended = stream.ended || !reads || stream.over;
        if there == 0 && length > 0 {
            if stream.error != 0 {
                return fail(core::mem::take(&mut stream.error));
            }
            if !stream.connected {
                return match stream.over {
                    true => fail(ENOTCONN),
                    false => Err(Failure::Wait(key(index, READABLE))),
                };
            }
            if ended {
                return Ok(0);
            }
        }
        if length > 0 && (there == 0 || there < wanted && !ended) {
            return match there {
                0 => Err(Failure::Wait(key(index, READABLE))),
                // (A wait for all takes what is there first.)
                there if all => Ok(there),
                _ => Err(Failure::Wait(key(index, READABLE))),
            };
        }
        Ok(there.min(length))
    }

    /// So many bytes were read. What that has to tell the peer leaves when the answer has gone.
    pub(crate) fn stream_took(&mut self, cx: &mut Context, index: u32, count: usize) {
        let now = self.now(cx);
        let Ok(Some(at)) = self.stream_of(index) else {
            return;
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        stream.receive.advance(count);
        stream.block.read(count as u32, now);
        if stream.receive_limit == 0 {
            let wanted = stream.block.receive_space_wanted();
            stream.block.set_receive_space(wanted);
        }
        if stream.receive.memory() > SMALLEST && stream.receive_is_empty() {
            stream.receive.start_over();
            self.emptied(cx, at);
        }
        self.flush(cx, at);
        self.pump_later(cx);
        self.alarm(cx);
    }

    /// The urgent byte (MSG_OOB).
    pub(crate) fn take_urgent(&mut self, index: u32, peek: bool) -> Answer<u8> {
        let Some(at) = self.stream_of(index)? else {
            return fail(match self.socket(index)?.listener() {
                Some(_) => EINVAL,
                None => ENOTCONN,
            });
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return fail(ENOTCONN);
        };
        if stream.inline || stream.urgent_taken {
            return fail(EINVAL);
        }
        match stream.block.urgent_offset() {
            None => fail(EINVAL),
            Some(offset) if offset < stream.block.unread() => {
                let [first, _] = stream.receive.pieces(offset as usize, 1);
                let byte = first.first().copied().unwrap_or(0);
                stream.urgent_taken |= !peek;
                Ok(byte)
            }
            Some(_) => fail(EAGAIN),
        }
    }

    /// What was news in the last request is none any more.
    pub(crate) fn forget_urgent(&mut self) {
        while let Some(at) = self.urgent.pop() {
            if let Some(stream) = self.streams.get_mut(at) {
                stream.urgent_news = false;
            }
        }
    }

    /// A ring of this connection is empty and has more than the least memory: it keeps it for what comes next, if all rings together have not too much.
    fn emptied(&mut self, cx: &mut Context, at: u32) {
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        if !stream.spare && self.spare.try_reserve(1).is_ok() {
            self.spare.push(at);
            stream.spare = true;
        }
        if !stream.spare {
            let freed = stream.free_rings(&mut self.rings);
            cx.refund(stream.payer, freed);
        }
        if self.rings > KEPT || self.spare.len() > KEPT / SMALLEST {
            self.give_spare(cx);
        }
    }

    /// Empty rings keep no memory any more.
    fn give_spare(&mut self, cx: &mut Context) {
        while let Some(at) = self.spare.pop() {
            if let Some(stream) = self.streams.get_mut(at) {
                stream.spare = false;
                let freed = stream.free_rings(&mut self.rings);
                cx.refund(stream.payer, freed);
            }
        }
    }

    /// The connection, if its ring has memory for so many bytes now. (An account that is at its limit gets back first what its empty rings keep.)
    fn ring_room(
        &mut self,
        cx: &mut Context,
        at: u32,
        ring: fn(&mut Stream) -> &mut Ring,
        needed: usize,
    ) -> Option<&mut Stream> {
        loop {
            let stream = self.streams.get_mut(at)?;
            let payer = stream.payer;
            if ring(stream).reserve(cx, payer, needed, &mut self.rings) {
                break;
            }
            if self.spare.is_empty() {
                return None;
            }
            self.give_spare(cx);
        }
        self.streams.get_mut(at)
    }

    // ---- shutting down

    pub(crate) fn shut_stream(&mut self, cx: &mut Context, index: u32, how: u64) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        let at = match socket.state {
            State::Stream(at) => at,
            State::Listening(_) => {
                if how != 1 {
                    self.end_listening(cx, index);
                }
                return Ok(());
            }
            _ => return fail(ENOTCONN),
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return fail(ENOTCONN);
        };
        if stream.over {
            return fail(ENOTCONN);
        }
        let socket = self.socket_mut(index)?;
        socket.reads &= how == 1;
        socket.writes &= how == 0;
        let refuses = !socket.reads && !socket.writes;
        if let (Some(stream), true) = (self.streams.get_mut(at), refuses) {
            stream.block.refuse_text();
        }
        if let (Some(stream), true) = (self.streams.get_mut(at), how != 0) {
            let events = stream.block.shutdown();
            self.happened(cx, at, events);
            self.flush(cx, at);
            self.pump(cx);
        }
        cx.wake(key(index, READABLE));
        cx.wake(key(index, WRITABLE));
        Ok(())
    }

    /// Nobody has the socket of a connection any more.
    pub(crate) fn close_stream(&mut self, cx: &mut Context, at: u32, options: &Options) {
        let now = self.now(cx);
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        stream.socket = None;
        stream.listener = None;
        if !stream.over {
            let linger = match options.linger2 {
                seconds @ 0.. => seconds as u32 * 1000,
                _ => 0,
            };
            stream.block.set_fin_wait(linger);
            match options.linger {
                Some(0) => stream.block.abort(),
                _ => stream.block.close(now),
            };
            // Nothing of it is read any more.
            if stream.block.nothing_early() || stream.block.state() == Tcp::Closed {
                let freed = stream.receive.clear(0, &mut self.rings);
                cx.refund(stream.payer, freed);
            }
        }
        self.flush(cx, at);
    }

    /// A half-open connection is complete: the connection, in the listener's queue.
    pub(crate) fn begin_accepted(
        &mut self,
        cx: &mut Context,
        half: &Half,
        config: &Config,
        heritage: Rc<Heritage>,
    ) -> Option<u32> {
        let now = self.now(cx);
        let uid = self.sockets.get(half.listener)?.uid;
        let options = &heritage.options;
        let block = half.half.connection(config, now);
        let ends = half.ends;
        let claim = Claim {
            protocol: protocol::TCP,
            at: Endpoint::new(Address(ends.local), ends.local_port),
            dual: false,
            reuse: options.reuse,
            share: options.share,
            bound: false,
            uid,
        };
        let at = self.add_stream(cx, (block, ends), options, claim, half.payer);
        let Ok(at) = at else {
            self.drop_heritage(cx, Some(heritage));
            return None;
        };
        if let Some(stream) = self.streams.get_mut(at) {
            stream.connected = true;
            stream.told = true;
            stream.listener = Some(half.listener);
            stream.heritage = Some(heritage);
        }
        Some(at)
    }
}

/// What was done already is the answer; otherwise this error.
/// The text from one byte to before another one.
fn text_part([first, second]: [&[u8]; 2], from: usize, to: usize) -> [&[u8]; 2] {
    let middle = first.len();
    [
        &first[from.min(middle)..to.min(middle)],
        &second[from.saturating_sub(middle)..to.saturating_sub(middle)],
    ]
}

/// The segment of one that is cut whose text begins at this byte: what is said once the first or the last one says.
fn piece_of(segment: &Segment, at: u32, first: bool, last: bool) -> Segment {
    let mut own = *segment;
    own.seq = segment.seq + at;
    if !first {
        own.flags = own.flags.without(Flags::CWR);
    }
    if !last {
        own.flags = own.flags.without(Flags::FIN).without(Flags::PSH);
    }
    match u32::from(segment.urgent).checked_sub(at) {
        Some(urgent @ 1..) => own.urgent = urgent as u16,
        _ => (own.flags, own.urgent) = (own.flags.without(Flags::URG), 0),
    }
    own
}

fn done_or(cx: &Context, error: i64) -> Answer<usize> {
    match cx.progress {
        0 => fail(error),
        done => Ok(done as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_cut_so_that_each_part_says_what_is_its_own() {
        let all = Flags::ACK.with(Flags::FIN).with(Flags::PSH);
        let segment = Segment {
            seq: Seq(u32::MAX - 5),
            flags: all.with(Flags::CWR).with(Flags::URG),
            urgent: 15,
            ..Segment::default()
        };
        let parts = [0, 10, 20].map(|at| piece_of(&segment, at, at == 0, at == 20));
        let first = Flags::ACK.with(Flags::CWR).with(Flags::URG);
        let second = Flags::ACK.with(Flags::URG);
        let told = parts.map(|part| (part.seq.0, part.flags, part.urgent));
        let expected = [(u32::MAX - 5, first, 15), (4, second, 5), (14, all, 0)];
        assert_eq!(told, expected);
    }

    #[test]
    fn text_in_two_pieces_is_cut_anywhere() {
        let text: [&[u8]; 2] = [b"abcde", b"fgh"];
        for from in 0..=8 {
            for to in from..=8 {
                let part = text_part(text, from, to).concat();
                assert_eq!(part, b"abcdefgh"[from..to]);
            }
        }
    }
}
