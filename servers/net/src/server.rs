//! Sockets for the framework: what a portal leads to, sending and receiving, and what a request that must wait becomes.

use crate::address::{Address, Endpoint};
use crate::capture::fanout::Group;
use crate::capture::{Capture, MakeRing};
use crate::datagram::Datagram;
use crate::filter::Gate;
use crate::forward::Forward;
use crate::groups::Groups;
use crate::hash::{Key, Map};
use crate::headers::Headers;
use crate::interface::Interfaces;
use crate::link::Attached;
use crate::listener::Half;
use crate::netlink::cookie::Cookie;
use crate::netlink::Netlink;
use crate::options::Options;
use crate::packet::protocol;
use crate::paths::Paths;
use crate::ports::Ports;
use crate::programs::Chooser;
use crate::rate::Bucket;
use crate::settings::Setting;
use crate::socket::{Socket, State, NOTHING};
use crate::stamps::{SIOCGSTAMP, SIOCGSTAMPNS, SIOCGSTAMPNS_NEW, SIOCGSTAMP_NEW};
use crate::stream::{Place, Stream, Wait};
use crate::table;
use crate::timers::Timers;
use crate::tunnel;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::capability;
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, kind, o, s, Stat};
use cairn_idl::net::{
    self, msg, with, DATAGRAM, INET, INET6, NETLINK, NOTES_BYTES, PACKET, RAW, STREAM,
};
use cairn_idl::proc;
use cairn_resmgr::context::socket_label;
use cairn_resmgr::layout;
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::timeouts::Timeouts;
use cairn_resmgr::{
    Access, Context, Data, Dirents, Failure, Handle, Handles, Meta, Opened, Readiness, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Message, Portal, Received};
use cairn_slab::Slab;
use cairn_tcp::connection::Error;
use cairn_tcp::secret::{Ends, Secret};
use cairn_tcp::time::Time;

const FIONREAD: u64 = 0x541b;
const TIOCOUTQ: u64 = 0x5411;
const SIOCATMARK: u64 = 0x8905;
const SIOCOUTQNSD: u64 = 0x894b;
/// RWF_NOWAIT.
const NOWAIT: u64 = 8;
/// Inode number of /dev/net: numbers of sockets are odd and grow from 3 on.
const DEVICES_INO: u64 = 2;
/// Those of the files about forwarding.
const FORWARDING_INO: u64 = 4;
/// Those of interfaces' files.
const SETTINGS_INO: u64 = 1 << 60;
/// What is asked of memory for a socket.
const SOCKET_COST: usize = size_of::<Socket>() + 160;

/// Low bits of keys: there may be something to receive or accept; there may be room to send, or a connection.
pub const READABLE: u64 = 0;
pub const WRITABLE: u64 = 1;

/// A key of a socket.
pub fn key(socket: u32, what: u64) -> u64 {
    u64::from(socket) << 1 | what
}

/// What a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The mount portal.
    Root,
    Socket(u32),
    /// /dev/net, and in it the device `tun`.
    Devices,
    Tunnel,
    /// Whether packets are forwarded, of IPv4 or (true) of IPv6: /proc/sys/net/ipv4/ip_forward and ipv6/conf/all/forwarding.
    Forwarding(bool),
    /// A file of /sys/class/net that can be written ([`crate::settings`]), of the interface with this number.
    Setting(u32, Setting),
}

/// What a SEND says beside its data.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sent {
    pub to: Option<Endpoint>,
    pub from: Option<Address>,
    pub interface: u32,
    /// The scope of where it goes: an interface's number.
    pub scope: u32,
    pub ttl: Option<u8>,
    pub tos: Option<u8>,
    /// Bytes of control messages in front of the data (0: none, and what [`Net::noted`] has is another's), and UDP_SEGMENT of theirs.
    pub skipped: u32,
    pub segment: u16,
}

/// Everything.
pub struct Net {
    pub(crate) sockets: Slab<Socket>,
    pub(crate) streams: Slab<Stream>,
    pub(crate) halves: Slab<Half>,
    pub(crate) waits: Slab<Wait>,
    /// Connections, half-open ones and those in TIME-WAIT, by their ends.
    pub(crate) connections: Map<Ends, Place>,
    /// Some socket said once how near its peers must be (IP_MINTTL): segments are looked at for that.
    pub(crate) some_are_near: bool,
    /// Some stream or listener had a filter once.
    pub(crate) some_filter: bool,
    /// What chooses among sockets of a port, by protocol and port.
    pub(crate) choosers: Map<(u8, Endpoint), Chooser>,
    /// Who listens, by address and port.
    pub(crate) listeners: Map<Endpoint, Vec<u32>>,
    /// Datagram sockets by address and port; those that are connected also by both ends.
    pub(crate) datagrams: Map<(u8, Endpoint), Vec<u32>>,
    /// Raw sockets, by family and protocol.
    pub(crate) raws: Map<(u64, u8), Vec<u32>>,
    pub(crate) connected: Map<Ends, u32>,
    pub(crate) connected_lite: Map<Ends, u32>,
    pub(crate) netlinks: Slab<Netlink>,
    pub(crate) cookies: Slab<Cookie>,
    /// Who has which name, by protocol; those that are in groups.
    pub(crate) netlink_ports: Map<(u8, u32), u32>,
    pub(crate) subscribers: Vec<u32>,
    /// Sockets of netlink whose dumps go on in the background.
    pub(crate) dumps: VecDeque<u32>,
    /// What the server `local` knows of local sockets.
    pub local: Option<crate::netlink::local::List>,
    pub(crate) captures: Slab<Capture>,
    /// Those of them that take frames.
    pub(crate) fanouts: Vec<Group>,
    pub(crate) taps: Vec<u32>,
    pub make_ring: MakeRing,
    /// Open files of `/dev/net/tun`.
    pub(crate) tunnels: Slab<tunnel::File>,
    pub(crate) ports: Ports,
    pub(crate) timers: Timers,
    pub interfaces: Interfaces,
    pub forward: Forward,
    pub filter: Gate,
    pub groups: Groups,
    pub(crate) paths: Paths,
    /// Connections that nobody accepted, of listeners that are gone: they are reset when nobody waits.
    pub(crate) unaccepted: Vec<(VecDeque<u32>, Options)>,
    pub(crate) spreads: VecDeque<crate::datagram::Spread>,
    /// Those of them that are links.
    pub(crate) links: Vec<Attached>,
    pub(crate) secret: Secret,
    pub(crate) hash_key: Key,
    pub(crate) random: fn() -> u64,
    state: u64,
    pub(crate) identification: u16,
    /// Errors of ICMP that may still be sent.
    pub(crate) errors: Bucket,
    /// When the present request came.
    pub(crate) time: Time,
    timeouts: Timeouts,
    /// Connections with [`crate::stream::Stream::urgent_news`].
    pub(crate) urgent: Vec<u32>,
    /// Bytes of all connections' rings; connections with an empty one that keeps its memory, each once.
    pub(crate) rings: usize,
    pub(crate) spare: Vec<u32>,
    /// The datagram that was taken last: its answer lies in it.
    taken: Option<Datagram>,
    /// Headers that the control messages of a send ask for.
    pub(crate) noted: Option<Rc<Headers>>,
    /// The one that was looked at last: its place in the queue, and how many of its bytes were left out.
    peeked: (usize, usize),
    /// `proc`'s portal, which tells what a process may.
    pub(crate) proc: Option<Portal>,
    last_ino: u64,
    pub(crate) scratch: Vec<u8>,
    /// What a cable brought.
    #[cfg(test)]
    pub(crate) from_cable: Vec<Vec<u8>>,
}

pub(crate) fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

/// So many bytes of the request's out part; `no_room`: the error if there is no memory for them.
pub(crate) fn fetched(cx: &mut Context, length: usize, no_room: i64) -> Answer<Vec<u8>> {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(length).is_err() {
        return fail(no_room);
    }
    bytes.resize(length, 0);
    cx.fetch(0, &mut bytes)?;
    Ok(bytes)
}

/// No datagrams are read any more: who does not wait is told that there is none, as on Linux, where others come yet.
fn ended(found: Answer<Option<usize>>, nonblocking: bool) -> Answer<Option<usize>> {
    match found {
        Ok(None) if nonblocking => fail(EAGAIN),
        other => other,
    }
}

/// The number of why a connection ended.
pub fn errno_of(error: Error) -> i64 {
    match error {
        Error::None => 0,
        Error::Reset => ECONNRESET,
        Error::Refused => ECONNREFUSED,
        Error::TimedOut => ETIMEDOUT,
        Error::HostUnreachable | Error::Prohibited => EHOSTUNREACH,
        Error::NetUnreachable => ENETUNREACH,
        Error::ProtocolUnreachable => ENOPROTOOPT,
        Error::BrokenPipe => EPIPE,
    }
}

impl Net {
    /// `random`: a word that nobody can guess.
    pub fn new(proc: Option<Portal>, random: fn() -> u64) -> Net {
        let key = || Key(random(), random());
        let number = u128::from(random()) << 64 | u128::from(random());
        Net {
            sockets: Slab::new(),
            streams: Slab::new(),
            halves: Slab::new(),
            waits: Slab::new(),
            connections: Map::new(key()),
            some_are_near: false,
            some_filter: false,
            choosers: Map::new(key()),
            listeners: Map::new(key()),
            datagrams: Map::new(key()),
            raws: Map::new(key()),
            connected: Map::new(key()),
            connected_lite: Map::new(key()),
            netlinks: Slab::new(),
            cookies: Slab::new(),
            netlink_ports: Map::new(key()),
            subscribers: Vec::new(),
            dumps: VecDeque::new(),
            local: None,
            captures: Slab::new(),
            fanouts: Vec::new(),
            taps: Vec::new(),
            make_ring: |_| None,
            tunnels: Slab::new(),
            ports: Ports::new(key()),
            timers: Timers::default(),
            interfaces: Interfaces::default(),
            forward: Forward::default(),
            filter: Gate::default(),
            groups: Groups::new(key),
            paths: Paths::default(),
            unaccepted: Vec::new(),
            spreads: VecDeque::new(),
            links: Vec::new(),
            secret: Secret::new(number.to_le_bytes()),
            hash_key: key(),
            random,
            state: random(),
            identification: random() as u16,
            errors: Bucket::default(),
            time: Time(0),
            timeouts: Timeouts::default(),
            urgent: Vec::new(),
            rings: 0,
            spare: Vec::new(),
            taken: None,
            noted: None,
            peeked: (0, 0),
            proc,
            last_ino: 1,
            scratch: Vec::new(),
            #[cfg(test)]
            from_cable: Vec::new(),
        }
    }

    /// A word that is not guessed: the processor's, stirred with what came before.
    pub(crate) fn random_word(&mut self) -> u64 {
        use core::hash::BuildHasher;
        let fresh = (self.random)();
        self.state = self.hash_key.hash_one((self.state, fresh));
        self.state ^ fresh.rotate_left(17)
    }

    #[inline(always)]
    pub(crate) fn socket(&self, index: u32) -> Answer<&Socket> {
        self.sockets.get(index).ok_or(Failure::Errno(EBADF))
    }

    #[inline(always)]
    pub(crate) fn socket_mut(&mut self, index: u32) -> Answer<&mut Socket> {
        self.sockets.get_mut(index).ok_or(Failure::Errno(EBADF))
    }

    /// Does the caller have this capability? `proc` says it, of the domain that the nucleus names.
    pub(crate) fn has_capability(&self, cx: &mut Context, capability: u32) -> bool {
        let Some(proc) = self.proc else { return false };
        let message = Message::new(&[proc::IDS_OF, u64::from(cx.request.sender)]);
        let pid = match cx.transport.call(proc, message) {
            Ok(words) if (words[0] as i64) > 0 => words[0],
            // No process: a component, which has what its manifest line gives it.
            _ => return cx.request.label == 0,
        };
        let mut bytes = [0; proc::Status::BYTES];
        let message = Message::new(&[proc::STATUS, pid]).input(&mut bytes);
        match cx.transport.call(proc, message) {
            Ok([0, ..]) => proc::Status::from_bytes(&bytes).creds.has(capability),
            _ => false,
        }
    }

    // ---- beginning and end

    fn make<'a>(&mut self, cx: &mut Context, handles: &mut Handles<Self>) -> Answer<Reply<'a>> {
        let [_, family, kind, protocol, ..] = cx.request.words;
        match family {
            INET | INET6 => {}
            NETLINK => return self.make_netlink(cx, handles),
            PACKET => return self.make_capture(cx, handles),
            _ => return fail(EAFNOSUPPORT),
        }
        let icmp = match family {
            INET => u64::from(protocol::ICMP),
            _ => u64::from(protocol::ICMP_V6),
        };
        let protocol = match (kind, protocol) {
            (STREAM, 0 | 6) => protocol::TCP,
            (DATAGRAM, 0 | 17) => protocol::UDP,
            (DATAGRAM, 136) => protocol::UDP_LITE,
            (DATAGRAM, number) if number == icmp => number as u8,
            (RAW, 0) => return fail(EPROTONOSUPPORT),
            (RAW, _) if !self.has_capability(cx, capability::NET_RAW) => return fail(EPERM),
            (RAW, 1..=255) => protocol as u8,
            (STREAM | DATAGRAM | RAW, _) => return fail(EPROTONOSUPPORT),
            _ => return fail(EINVAL),
        };
        self.make_socket(cx, handles, (family, kind, protocol), NOTHING)
    }

    /// A socket, for what [`Net::make`] or another family has found right. `further`: its record there.
    pub(crate) fn make_socket<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        (family, kind, protocol): (u64, u64, u8),
        further: u32,
    ) -> Answer<Reply<'a>> {
        let flags = cx.request.words[4];
        let (uid, gid, payer) = (cx.uid(), cx.gid(), cx.payer());
        handles.room(cx, 1)?;
        let ino = self.next_ino();
        let mut socket = Socket::new((family, kind, protocol), ino, (uid, gid, payer));
        socket.further = further;
        let index = self.add_socket(cx, socket)?;
        if family == NETLINK {
            if let Some(netlink) = self.netlinks.get_mut(further) {
                netlink.socket = index;
            }
        } else if family == PACKET {
            if let Some(capture) = self.captures.get_mut(further) {
                capture.socket = index;
            }
        } else if kind == RAW && !self.list_raw(index) {
            self.end(cx, index);
            return fail(ENOMEM);
        }
        let flags = o::RDWR | flags & o::NONBLOCK;
        let badge = handles.insert(cx, Node::Socket(index), flags, kind::INTERNET, None)?;
        Ok(Reply::new(&[0]).mint(badge))
    }

    fn next_ino(&mut self) -> u64 {
        // Even ones are those of local sockets: programs know a socket by its number alone (`ss -p`).
        self.last_ino += 2;
        self.last_ino
    }

    fn add_socket(&mut self, cx: &mut Context, socket: Socket) -> Answer<u32> {
        let payer = socket.payer;
        cx.charge(payer, SOCKET_COST)?;
        match self.sockets.insert(socket) {
            Some(index) => Ok(index),
            None => {
                cx.refund(payer, SOCKET_COST);
                fail(ENOMEM)
            }
        }
    }

    /// Nobody has the socket any more.
    fn end(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let (options, payer) = (socket.options, socket.payer);
        let (family, further, number) = (socket.family, socket.further, socket.protocol);
        let group = (number, socket.local);
        match socket.state {
            State::Fresh => {}
            State::Listening(_) => self.end_listening(cx, index),
            State::Stream(at) => self.close_stream(cx, at, &options),
            State::Datagram(_) => {
                while self.take_datagram(cx, index).is_some() {}
                self.drop_faults(cx, index);
                self.leave_all_groups(cx, index);
                self.unlist_raw(index);
                self.unpeer_datagram(index);
                self.unlist_datagram(cx, index);
            }
        }
        self.end_chooser(cx, group);
        self.drop_programs(cx, index);
        match family {
            NETLINK => {
                self.end_netlink(further, number);
                self.forget_socket_of_cookies(index);
            }
            PACKET => self.end_capture(cx, further, payer),
            _ => {}
        }
        if let Some(claim) = self.sockets.get_mut(index).and_then(|s| s.claim.take()) {
            self.ports.remove(&claim);
        }
        self.drop_held(cx, index);
        self.drop_headers(cx, index);
        self.sockets.remove(index);
        cx.refund(payer, SOCKET_COST);
        cx.wake(key(index, READABLE));
        cx.wake(key(index, WRITABLE));
        self.pump(cx);
    }

    fn shut_down<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        let how = cx.request.words[1];
        if how > 2 {
            return fail(EINVAL);
        }
        let socket = self.socket_mut(index)?;
        if matches!(socket.family, NETLINK | PACKET) {
            return fail(EOPNOTSUPP);
        }
        if socket.is_stream() {
            self.shut_stream(cx, index, how)?;
            return Ok(Reply::result(0));
        }
        socket.reads &= how == 1;
        socket.writes &= how == 0;
        let connected = socket.remote.is_some();
        cx.wake(key(index, READABLE));
        cx.wake(key(index, WRITABLE));
        match connected {
            true => Ok(Reply::result(0)),
            false => fail(ENOTCONN),
        }
    }

    fn accept<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        index: u32,
    ) -> Answer<Reply<'a>> {
        handles.room(cx, 1)?;
        let socket = self.socket_mut(index)?;
        if !socket.is_stream() {
            return fail(EOPNOTSUPP);
        }
        let family = socket.family;
        let Some(listener) = socket.listener_mut() else {
            return fail(EINVAL);
        };
        let Some(at) = listener.ready.front().copied() else {
            return Err(Failure::Wait(key(index, READABLE)));
        };
        let (uid, gid, payer) = (cx.uid(), cx.gid(), cx.payer());
        let ino = self.next_ino();
        let mut new = Socket::new((family, STREAM, protocol::TCP), ino, (uid, gid, payer));
        if let Some(stream) = self.streams.get(at) {
            let ends = stream.ends;
            new.local = Endpoint::new(Address(ends.local), ends.local_port);
            new.remote = Some(stream.remote());
            if let Some(heritage) = &stream.heritage {
                (new.options, new.limits) = (heritage.options, heritage.limits);
                new.wanted = heritage.wanted.clone();
            }
        }
        new.state = State::Stream(at);
        (new.address_bound, new.port_bound) = (true, true);
        let program = new.wanted.as_ref().map_or(0, |of| of.memory());
        cx.charge(payer, program)?;
        let made = self
            .add_socket(cx, new)
            .inspect_err(|_| cx.refund(payer, program))?;
        let socket = self.socket_mut(index)?;
        if let Some(listener) = socket.listener_mut() {
            listener.ready.pop_front();
        }
        if let Some(stream) = self.streams.get_mut(at) {
            (stream.socket, stream.listener) = (Some(made), None);
            let heritage = stream.heritage.take();
            self.drop_heritage(cx, heritage);
        }
        let flags = o::RDWR | cx.request.words[1] & o::NONBLOCK;
        let badge = handles.insert(cx, Node::Socket(made), flags, kind::INTERNET, None)?;
        Ok(Reply::new(&[0]).mint(badge))
    }

    fn connect(&mut self, cx: &mut Context, index: u32, nonblocking: bool) -> Answer<()> {
        let [_, low, high, word, ..] = cx.request.words;
        let family = word >> 16 & 0xffff;
        let socket = self.socket(index)?;
        let stream = socket.is_stream();
        if socket.family == NETLINK {
            return self.connect_netlink(cx, index);
        }
        if socket.family == PACKET {
            return fail(EOPNOTSUPP);
        }
        if family == 0 {
            match stream {
                true => self.disconnect_stream(cx, index),
                false => self.connect_datagram(cx, index, None)?,
            }
            return Ok(());
        }
        let address = Address::of_words(low, high);
        // A datagram socket of IPv6 takes an address of IPv4 as it is.
        let other = !stream && !socket.is_raw() && family == INET;
        if family != socket.family && !other || socket.is_v4() && !address.is_v4() {
            return fail(EAFNOSUPPORT);
        }
        let to = Endpoint::new(address, word as u16);
        let scope = (word >> 32) as u32 | socket.options.device | socket.scope;
        if stream && address.is_link_local() && scope == 0 {
            return fail(EINVAL);
        }
        match stream {
            true => self.connect_stream(cx, index, to, nonblocking),
            false => self.connect_datagram(cx, index, Some(to)),
        }
    }

    /// connect(2) to AF_UNSPEC: the connection is reset, and the socket is as new.
    fn disconnect_stream(&mut self, cx: &mut Context, index: u32) {
        match self.sockets.get(index).map(|socket| &socket.state) {
            Some(State::Stream(at)) => {
                let at = *at;
                if let Some(stream) = self.streams.get_mut(at) {
                    stream.block.abort();
                }
                self.forget_stream(cx, index);
                self.pump(cx);
            }
            Some(State::Listening(_)) => self.end_listening(cx, index),
            _ => {}
        }
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
        if let Some(first) = self.timeouts.first() {
            cx.wake_by(first);
        }
        Err(Failure::Wait(key))
    }

    /// What [`Net::waits`] makes of a result.
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

    // ---- sending and receiving

    fn sent(&self, cx: &Context, index: u32) -> Answer<Sent> {
        let [_, flags, low, high, port, from_low, from_high, more] = cx.request.words;
        let mut sent = Sent::default();
        if flags & with::ADDRESS != 0 {
            // AF_UNSPEC is AF_INET here, as on Linux.
            if !matches!(port >> 16 & 0xffff, 0 | INET | INET6 | NETLINK | PACKET) {
                return fail(EAFNOSUPPORT);
            }
            let socket = self.socket(index)?;
            let family = port >> 16 & 0xffff;
            if family == INET6 && socket.is_v4() {
                return fail(EAFNOSUPPORT);
            }
            let number = port as u16;
            let raw = socket.is_raw() && socket.family == INET6;
            // (Who writes the headers himself says the protocol there.)
            let other = match socket.protocol {
                u8::MAX => number > 255,
                own => number != 0 && number != own.into(),
            };
            if raw && (family == INET || other) {
                return fail(EINVAL);
            }
            let nobody = family == 0 && socket.family == INET6;
            sent.to = (!nobody).then(|| Endpoint::new(Address::of_words(low, high), number));
            sent.scope = (port >> 32) as u32;
        }
        if flags & with::SOURCE != 0 {
            sent.from = Some(Address::of_words(from_low, from_high));
            sent.interface = more as u32;
        }
        sent.ttl = (flags & with::TTL != 0).then_some((more >> 32) as u8);
        sent.tos = (flags & with::TOS != 0).then_some((more >> 40) as u8);
        Ok(sent)
    }

    fn send(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        flags: u64,
        sent: &Sent,
    ) -> Answer<usize> {
        match self.socket(index)?.is_stream() {
            // An address is not looked at, as on Linux.
            true => self.send_stream(cx, index, (sent.skipped as usize, length), flags),
            false if self.socket(index)?.family == NETLINK && flags & msg::OOB == 0 => {
                self.send_netlink(cx, index, length, sent)
            }
            false if self.socket(index)?.family == PACKET => {
                let done = self.send_frame(cx, index, length, sent)?;
                self.pump(cx);
                Ok(done)
            }
            false if flags & msg::OOB != 0 => fail(EOPNOTSUPP),
            false => {
                let done = match self.socket(index)?.is_udp() {
                    true => self.send_datagram(cx, index, length, sent, flags & msg::MORE != 0)?,
                    false => self.send_raw(cx, index, length, sent)?,
                };
                self.pump(cx);
                Ok(done)
            }
        }
    }

    /// A datagram to receive: its first bytes (at most `most`) are stored, and it is taken or (`peek`) only looked at. Its length; None: nothing will come.
    fn next_datagram(
        &mut self,
        cx: &mut Context,
        index: u32,
        (skipped, most): (usize, usize),
        peek: bool,
    ) -> Answer<Option<usize>> {
        if self.socket(index)?.family == NETLINK {
            self.go_on(cx, index);
        }
        let socket = self.socket_mut(index)?;
        if let Some(error) = socket.take_error() {
            return fail(error);
        }
        let reads = socket.reads;
        let looked = socket.options.peek_from > 0;
        let (nth, within) = match peek && socket.options.peek_from >= 0 {
            true => socket.peek_place(),
            false => (0, 0),
        };
        let first = socket.queue_mut().and_then(|queue| queue.waiting.get(nth));
        let Some(first) = first else {
            return match reads {
                true => Err(Failure::Wait(key(index, READABLE))),
                false => Ok(None),
            };
        };
        let bytes = first.bytes();
        let length = bytes.len();
        let bytes = &bytes[within..];
        if bytes.len().min(most) != 0 {
            cx.store(skipped, &bytes[..bytes.len().min(most)])?;
        }
        if peek {
            self.peeked = (nth, within);
        }
        if skipped != 0 {
            self.put_first_notes(cx, index)?;
        }
        if !peek {
            self.taken = self.take_datagram(cx, index);
            if looked {
                let from = &mut self.socket_mut(index)?.options.peek_from;
                *from -= (*from).min(length.min(most) as i32);
            }
            if self.socket(index)?.family == NETLINK {
                self.go_on(cx, index);
            }
        }
        Ok(Some(length))
    }

    #[cold]
    #[inline(never)]
    fn put_first_notes(&self, cx: &mut Context, index: u32) -> Answer<()> {
        match self.looked_at(index, true) {
            Some(first) => self.put_notes(cx, index, first),
            None => Ok(()),
        }
    }

    fn looked_at(&self, index: u32, peek: bool) -> Option<&Datagram> {
        match peek {
            false => self.taken.as_ref(),
            true => match &self.sockets.get(index)?.state {
                State::Datagram(queue) => queue.waiting.get(self.peeked.0),
                _ => None,
            },
        }
    }

    /// Bytes of a stream that can be read.
    #[cold]
    fn some_waits(&self, index: u32) -> usize {
        let stream = match self.sockets.get(index).map(|socket| &socket.state) {
            Some(State::Stream(at)) => self.streams.get(*at),
            _ => None,
        };
        stream.map_or(0, |stream| stream.waiting() as usize)
    }

    fn receive<'a>(
        &'a mut self,
        cx: &mut Context,
        index: u32,
        nonblocking: bool,
    ) -> Answer<Reply<'a>> {
        let flags = cx.request.words[1];
        if flags & with::NOTES != 0 && self.socket(index)?.is_stream() {
            return fail(EINVAL);
        }
        let (peek, all) = (flags & msg::PEEK != 0, flags & msg::WAITALL != 0);
        let nonblocking = nonblocking || flags & msg::DONTWAIT != 0;
        let length = cx.request.in_len.min(fs::DATA_MAX);
        let socket = self.socket(index)?;
        let limit = socket.limits.receive;
        if flags & msg::ERRQUEUE != 0 {
            return self.receive_fault(cx, index, length);
        }
        if !socket.is_stream() {
            if flags & (with::CONTROL | with::NOTES) == with::CONTROL && self.has_notes(index) {
                return Ok(Reply::new(&[0, with::NOTES]));
            }
            let skipped = match flags & with::NOTES {
                0 => 0,
                _ if length < NOTES_BYTES => return fail(EINVAL),
                _ => NOTES_BYTES,
            };
            let length = length - skipped;
            let socket = self.socket(index)?;
            let udp = socket.is_udp();
            let result = match flags & msg::OOB {
                _ if udp => self.next_datagram(cx, index, (skipped, length), peek),
                0 => self.next_datagram(cx, index, (skipped, length), peek),
                _ => fail(EOPNOTSUPP),
            };
            let result = ended(result, nonblocking);
            let found = self.settle(cx, result, limit, nonblocking, |_| None)?;
            if peek && self.socket(index)?.options.peek_from >= 0 {
                return self.give_peeked(index, found, length, flags);
            }
            return self.give_datagram(index, found, length, flags);
        }
        if flags & msg::OOB != 0 {
            let byte = self.take_urgent(index, peek)?;
            self.scratch.clear();
            self.scratch.push(byte);
            let count = length.min(1);
            return Ok(Reply::new(&[count as u64, msg::OOB]).data(&self.scratch[..count]));
        }
        let before = (cx.progress as usize).min(length);
        // (Who asks for nothing waits for something to be there.)
        let asked = (length - before).max(1);
        let found = match self.stream_available(index, asked, all && !peek) {
            Err(Failure::Wait(key)) => match self.waits(cx, key, limit, nonblocking) {
                Ok(done) => return Ok(Reply::result(done as i64)),
                // The time is over, and there is something, if less than SO_RCVLOWAT.
                Err(Failure::Errno(EAGAIN)) if self.some_waits(index) != 0 => {
                    self.some_waits(index).min(asked)
                }
                Err(other) => return Err(other),
            },
            Err(Failure::Errno(_)) if before != 0 => 0,
            Err(other) => {
                self.timeouts.ended(cx.request.token);
                return Err(other);
            }
            Ok(found) => found.min(length - before),
        };
        let State::Stream(at) = self.socket(index)?.state else {
            return fail(ENOTCONN);
        };
        let skips = flags & msg::TRUNC != 0;
        let [first, second] = match self.streams.get(at) {
            Some(stream) if !skips => stream.receive.pieces(0, found),
            _ => [&[][..]; 2],
        };
        let enough = found == 0 || before + found >= length;
        if all && !peek && !enough {
            // What is there goes to the caller now.
            store_pieces(cx, before, [first, second])?;
            self.stream_took(cx, index, found);
            cx.progress = (before + found) as u64;
            cx.progress_is_result = true;
            let ended = matches!(self.stream_available(index, 1, false), Ok(0));
            if ended {
                return Ok(Reply::result((before + found) as i64));
            }
            let done = self.waits(cx, key(index, READABLE), limit, nonblocking)?;
            return Ok(Reply::result(done as i64));
        }
        self.timeouts.ended(cx.request.token);
        store_pieces(cx, before, [first, second])?;
        if !peek {
            self.stream_took(cx, index, found);
        }
        let count = (before + found) as u64;
        if self.socket(index)?.options.tells_unread && flags & with::CONTROL != 0 {
            let left = self
                .streams
                .get(at)
                .map_or(0, |stream| stream.block.unread());
            let ended = left == 0 && matches!(self.stream_available(index, 1, false), Ok(0));
            return Ok(Reply::new(&[
                count,
                with::UNREAD,
                u64::from(left) + u64::from(ended),
            ]));
        }
        Ok(Reply::result(count as i64))
    }

    /// The same of a look that goes on where the last one ended (SO_PEEK_OFF).
    #[cold]
    fn give_peeked(
        &mut self,
        index: u32,
        found: Option<usize>,
        length: usize,
        flags: u64,
    ) -> Answer<Reply<'_>> {
        let whole = found.unwrap_or(0);
        let left = whole - self.peeked.1.min(whole);
        let mut words = self.give_datagram(index, found, length, flags)?.words;
        if flags & msg::TRUNC == 0 {
            words[0] = left.min(length) as u64;
        }
        // (As on Linux: more room than there is left of it.)
        if length > left {
            words[1] &= !msg::TRUNC;
        }
        let nth = self.peeked.0;
        let socket = self.socket_mut(index)?;
        let from = &mut socket.options.peek_from;
        *from = from.saturating_add(words[0] as i32);
        let queue = socket.queue_mut();
        if let Some(datagram) = queue.and_then(|queue| queue.waiting.get_mut(nth)) {
            datagram.peeked = true;
        }
        Ok(Reply::new(&words))
    }

    fn give_datagram(
        &self,
        index: u32,
        found: Option<usize>,
        length: usize,
        flags: u64,
    ) -> Answer<Reply<'_>> {
        let peek = flags & msg::PEEK != 0;
        let (Some(whole), Some(datagram)) = (found, self.looked_at(index, peek)) else {
            return Ok(Reply::result(0));
        };
        let count = whole.min(length);
        let mut words = [0; 8];
        words[0] = match flags & msg::TRUNC {
            0 => count as u64,
            _ => whole as u64,
        };
        words[1] = with::ADDRESS | if whole > length { msg::TRUNC } else { 0 };
        [words[2], words[3]] = datagram.from.address.words();
        words[4] = u64::from(datagram.from.port) | self.socket(index)?.family << 16;
        let family = self.socket(index)?.family;
        if family == INET6 && datagram.from.address.is_link_local() {
            words[4] |= u64::from(datagram.interface) << 32;
        }
        words[1] |= match family {
            PACKET if self.tells_more(index) => with::AUXDATA,
            PACKET => 0,
            _ => self.told(index, datagram)?,
        };
        [words[5], words[6]] = datagram.to.words();
        if words[1] & with::SOURCE != 0 && datagram.to.is_v4() {
            if let Some(own) = self.specific(&datagram.to, datagram.interface) {
                words[1] |= with::SPECIFIC;
                words[5] = u64::from(u32::from_le_bytes(own.as_v4().unwrap_or_default()));
            }
        }
        words[7] = u64::from(datagram.interface)
            | u64::from(datagram.ttl) << 32
            | u64::from(datagram.tos) << 40;
        Ok(Reply::new(&words))
    }

    /// What is told of a datagram beside where it comes from.
    fn told(&self, index: u32, datagram: &Datagram) -> Answer<u64> {
        let socket = self.socket(index)?;
        let v4 = datagram.to.is_v4();
        let told = socket.options.told(v4);
        if socket.is_v4() {
            return Ok(told);
        }
        // A socket of IPv6 that asked in its own way is told in that way.
        let mapped = v4 && !socket.is_v4() && told & with::SOURCE == 0;
        Ok(
            match mapped && socket.options.told(false) & with::SOURCE != 0 {
                true => told | with::SOURCE | with::MAPPED,
                false => told,
            },
        )
    }

    fn name<'a>(&mut self, index: u32, whose: u64) -> Answer<Reply<'a>> {
        if self.socket(index)?.family == NETLINK {
            return self.netlink_name(index, whose);
        }
        if self.socket(index)?.family == PACKET {
            return self.capture_name(index, whose);
        }
        let socket = self.socket(index)?;
        let connected = match socket.state {
            State::Stream(at) => {
                let stream = self.streams.get(at);
                stream.is_some_and(|stream| stream.connected && !stream.over)
            }
            _ => true,
        };
        let of = match whose {
            0 => socket.local,
            _ => match socket.remote.filter(|_| connected) {
                Some(remote) => remote,
                None => return fail(ENOTCONN),
            },
        };
        let [low, high] = of.address.words();
        let scope = match of.address.is_link_local() {
            true => u64::from(socket.scope),
            false => 0,
        };
        let word = u64::from(of.port) | socket.family << 16 | scope << 32;
        Ok(Reply::new(&[0, low, high, word]))
    }

    /// What is begun before each request, and left behind.
    fn begin(&mut self) {
        if !self.urgent.is_empty() {
            self.forget_urgent();
        }
        self.taken = None;
    }
}

/// What a stream gives is stored before it goes from its ring.
fn store_pieces(cx: &mut Context, place: usize, [first, second]: [&[u8]; 2]) -> Answer<()> {
    if !first.is_empty() {
        cx.store(place, first)?;
    }
    if !second.is_empty() {
        cx.store(place + first.len(), second)?;
    }
    Ok(())
}

impl Server for Net {
    type Node = Node;
    /// Of /dev/net/tun: the number of its record, since it has an interface.
    type State = Option<u32>;

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        Ok(match node {
            Node::Socket(index) => {
                let socket = self.socket(index)?;
                Meta {
                    mode: s::IFSOCK | 0o777,
                    ino: socket.ino,
                    uid: socket.uid,
                    gid: socket.gid,
                    ..Meta::default()
                }
            }
            Node::Root => Meta {
                mode: s::IFDIR | 0o555,
                ino: 1,
                ..Meta::default()
            },
            Node::Devices => Meta {
                mode: s::IFDIR | 0o755,
                ino: DEVICES_INO,
                ..Meta::default()
            },
            Node::Tunnel => {
                let rdev = layout::makedev(tunnel::DEVICE.0, tunnel::DEVICE.1);
                Meta {
                    mode: s::IFCHR | 0o666,
                    ino: device::inode(rdev),
                    rdev,
                    ..Meta::default()
                }
            }
            Node::Forwarding(v6) => Meta {
                mode: s::IFREG | 0o644,
                ino: FORWARDING_INO + 2 * u64::from(v6),
                ..Meta::default()
            },
            Node::Setting(number, setting) => Meta {
                mode: s::IFREG | 0o644,
                size: 4096,
                ino: SETTINGS_INO | u64::from(number) << 1 | setting as u64,
                ..Meta::default()
            },
        })
    }

    /// (Whether somebody may write such a file is looked at when it is opened.)
    fn access(&mut self, node: Node) -> Answer<Access> {
        let access = self.meta(node)?.access();
        Ok(match node {
            Node::Forwarding(_) => Access {
                mode: s::IFREG | 0o666,
                ..access
            },
            _ => access,
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        match (dir, name) {
            (Node::Root, b"ip_forward") => Ok(Node::Forwarding(false)),
            (Node::Root, b"forwarding") => Ok(Node::Forwarding(true)),
            (Node::Root, b"net") => Ok(Node::Devices),
            (Node::Devices, b"tun") => Ok(Node::Tunnel),
            (Node::Root, _) => self.setting_named(name).ok_or(Failure::Errno(ENOENT)),
            (Node::Devices, _) => fail(ENOENT),
            _ => fail(ENOTDIR),
        }
    }

    fn parent(&mut self, cx: &mut Context, dir: Node) -> Answer<Node> {
        match dir {
            Node::Devices => Err(cx.redirect(b"/dev")),
            _ => Ok(Node::Root),
        }
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let mut all = Vec::from([(handle.node, &b"."[..]), (Node::Root, b"..")]);
        match handle.node {
            Node::Root => all.push((Node::Devices, b"net")),
            Node::Devices => all.push((Node::Tunnel, b"tun")),
            _ => return fail(ENOTDIR),
        }
        let entries = all.into_iter().map(|(node, name)| {
            let Meta { ino, mode, .. } = self.meta(node)?;
            Ok((ino, mode, name))
        });
        into.add_from(position, entries)
    }

    fn stat(&mut self, cx: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        match node {
            Node::Devices | Node::Tunnel => {
                // As old as the system.
                let since = cx
                    .transport
                    .realtime()
                    .saturating_sub(cx.transport.monotonic());
                Ok(layout::device_stat(&meta, (since / 1_000_000_000) as i64))
            }
            _ => Ok(layout::plain_stat(&meta)),
        }
    }

    fn label(&mut self, node: Node, into: &mut [u8]) -> Option<usize> {
        let name: &[u8] = match node {
            Node::Socket(index) => return socket_label(self.sockets.get(index)?.ino, into),
            Node::Root => return None,
            Node::Devices => b"/dev/net",
            Node::Tunnel => b"/dev/net/tun",
            Node::Forwarding(v6) => crate::forward::path(v6),
            Node::Setting(number, setting) => {
                let path = self.setting_path(number, setting)?;
                return put(path.as_bytes(), into).ok();
            }
        };
        put(name, into).ok()
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        _: &mut Option<u32>,
    ) -> Answer<Opened<Node>> {
        match node {
            Node::Root | Node::Devices => Ok(Opened {
                node,
                kind: kind::DIRECTORY,
            }),
            Node::Tunnel => Ok(Opened { node, kind: 0 }),
            Node::Forwarding(_) => self.open_forwarding(cx, node, flags),
            Node::Setting(..) => Ok(Opened {
                node,
                kind: layout::default_kind(s::IFREG),
            }),
            // Also again, through /proc/self/fd.
            Node::Socket(_) => fail(ENXIO),
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        self.begin();
        match (handle.node, handle.flags & o::PATH) {
            (Node::Socket(index), 0) => self.end(cx, index),
            (Node::Tunnel, 0) => match handle.state {
                Some(index) => self.close_tunnel(cx, index),
                None => return,
            },
            _ => return,
        }
        self.alarm(cx);
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        self.begin();
        let index = match handle.node {
            Node::Socket(index) => index,
            Node::Tunnel => return self.read_tunnel(cx, handle.state, length),
            Node::Forwarding(v6) => return Ok(self.read_forwarding(v6, offset, length)),
            Node::Setting(number, setting) => {
                return self.read_setting((number, setting), offset, length)
            }
            Node::Root | Node::Devices => return fail(EISDIR),
        };
        let peek = cx.request.words[2] & fs::PEEK != 0;
        let nonblocking = handle.nonblocking() || cx.request.words[2] & NOWAIT != 0;
        let socket = self.socket(index)?;
        let limit = socket.limits.receive;
        if !socket.is_stream() {
            let result = self.next_datagram(cx, index, (0, length), peek);
            let result = ended(result, nonblocking);
            let found = self.settle(cx, result, limit, nonblocking, |_| None)?;
            let left = match peek {
                false => found.unwrap_or(0),
                true => found.unwrap_or(0).saturating_sub(self.peeked.1),
            };
            return Ok(Data::stored(left.min(length)));
        }
        let result = self.stream_available(index, length, false);
        let found = match self.settle(cx, result, limit, nonblocking, |_| 0) {
            // The time is over, and there is something, if less than SO_RCVLOWAT.
            Err(Failure::Errno(EAGAIN)) => match self.some_waits(index) {
                0 => return fail(EAGAIN),
                some => some.min(length),
            },
            other => other?,
        };
        let State::Stream(at) = self.socket(index)?.state else {
            return fail(ENOTCONN);
        };
        if let Some(stream) = self.streams.get(at) {
            store_pieces(cx, 0, stream.receive.pieces(0, found))?;
        }
        if !peek && found != 0 {
            self.stream_took(cx, index, found);
        }
        Ok(Data::stored(found))
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        self.begin();
        let index = match handle.node {
            Node::Socket(index) => index,
            Node::Tunnel => {
                let result = self.write_tunnel(cx, handle.state, length);
                self.alarm(cx);
                return result;
            }
            Node::Forwarding(v6) => return self.write_forwarding(cx, v6, length),
            Node::Setting(number, setting) => {
                return self.write_setting(cx, (number, setting), length)
            }
            _ => return fail(EBADF),
        };
        let result = self.send(cx, index, length, 0, &Sent::default());
        let limit = self.socket(index)?.limits.send;
        let nonblocking = handle.nonblocking() || cx.request.words[2] & NOWAIT != 0;
        let result = self.settle(cx, result, limit, nonblocking, |done| done as usize);
        self.alarm(cx);
        result
    }

    fn truncate(&mut self, _: &mut Context, node: Node, _: u64) -> Answer<()> {
        match node {
            Node::Forwarding(_) | Node::Setting(..) => Ok(()),
            _ => fail(EINVAL),
        }
    }

    fn poll(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let index = match handle.node {
            Node::Socket(index) => index,
            Node::Tunnel => {
                let (ready, keys) = self.poll_tunnel(cx.request.badge, handle.state);
                return Ok(Readiness { ready, keys });
            }
            Node::Forwarding(_) | Node::Setting(..) => {
                return Ok(Readiness {
                    ready: fs::poll::IN | fs::poll::RDNORM | fs::poll::OUT | fs::poll::WRNORM,
                    keys: [0; 2],
                })
            }
            _ => {
                return Ok(Readiness {
                    ready: 0,
                    keys: [0; 2],
                })
            }
        };
        let socket = self.socket(index)?;
        let mut ready = socket.ready();
        if let State::Stream(at) = socket.state {
            if let Some(stream) = self.streams.get(at) {
                ready |= stream.ready(socket.reads, socket.writes);
            }
        }
        if socket.family == PACKET && self.ring_is_readable(index) {
            ready |= fs::poll::IN | fs::poll::RDNORM;
        }
        Ok(Readiness {
            ready,
            keys: [key(index, READABLE), key(index, WRITABLE)],
        })
    }

    fn map(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: u64,
        _: bool,
    ) -> Answer<(Portal, u64)> {
        match handle.node {
            Node::Socket(index) => self.map_ring(index, offset, length),
            _ => fail(ENODEV),
        }
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        let index = match handle.node {
            Node::Socket(index) => index,
            Node::Tunnel => return self.tunnel_request(cx, &mut handle.state, request, argument),
            _ => return fail(ENOTTY),
        };
        if (table::SIOCGIFNAME..0x8980).contains(&request) && request != SIOCOUTQNSD {
            let family = self.socket(index)?.family;
            if table::is_address_of_v4(request) && matches!(family, INET6 | NETLINK) {
                return fail(ENOTTY);
            }
            return self.interface_request(cx, request);
        }
        if matches!(
            request,
            SIOCGSTAMP | SIOCGSTAMPNS | SIOCGSTAMP_NEW | SIOCGSTAMPNS_NEW
        ) {
            let stamp = self.last_stamp(cx, index, request)?;
            self.scratch.clear();
            self.scratch.extend_from_slice(&stamp);
            return Ok(Reply::result(0).data(&self.scratch));
        }
        let socket = self.socket(index)?;
        let stream = match socket.state {
            State::Stream(at) => self.streams.get(at),
            _ => None,
        };
        let count = match (request, &socket.state) {
            (FIONREAD | TIOCOUTQ | SIOCOUTQNSD, State::Listening(_)) => return fail(EINVAL),
            (SIOCOUTQNSD, State::Datagram(_)) => return fail(ENOTTY),
            (FIONREAD, State::Datagram(queue)) => {
                queue.waiting.front().map_or(0, |first| first.bytes().len()) as u32
            }
            (FIONREAD, _) => stream.map_or(0, |stream| stream.waiting()),
            (TIOCOUTQ, _) => stream.map_or(0, |stream| stream.block.unacknowledged()),
            (SIOCOUTQNSD, _) => stream.map_or(0, |stream| stream.block.not_sent()),
            (SIOCATMARK, State::Datagram(_)) => return fail(ENOTTY),
            (SIOCATMARK, _) => {
                let mark = stream.and_then(|stream| stream.block.urgent_offset());
                (mark == Some(0)) as u32
            }
            _ => return fail(ENOTTY),
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(&count.to_le_bytes());
        Ok(Reply::result(0).data(&self.scratch))
    }

    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        self.begin();
        let operation = cx.request.words[0];
        if cx.request.badge == 0 {
            return match operation {
                net::SOCKET => self.make(cx, handles),
                net::TABLE => self.table(cx),
                _ => fail(EBADF),
            };
        }
        let handle = handles.get(cx.request.badge);
        let (node, nonblocking) = match handle {
            Some(handle) if handle.flags & o::PATH == 0 => (handle.node, handle.nonblocking()),
            _ => return fail(EBADF),
        };
        let Node::Socket(index) = node else {
            return fail(ENOTSOCK);
        };
        match operation {
            net::SEND => {
                let flags = cx.request.words[1];
                let mut sent = self.sent(cx, index)?;
                if flags & (with::SOURCE | with::TTL | with::TOS | with::HEADERS) != 0 {
                    self.take_control(cx, index, &mut sent)?;
                }
                let family = cx.request.words[4] >> 16 & 0xffff;
                let own = self.socket(index)?.family;
                let special = |family| matches!(family, NETLINK | PACKET);
                if sent.to.is_some() && (special(own) || special(family)) && own != family {
                    return fail(if special(own) { EINVAL } else { EAFNOSUPPORT });
                }
                let length = (cx.request.out_len - sent.skipped as usize).min(fs::DATA_MAX);
                let result = self.send(cx, index, length, flags, &sent);
                let limit = self.socket(index)?.limits.send;
                let nonblocking = nonblocking || flags & msg::DONTWAIT != 0;
                let result = self.settle(cx, result, limit, nonblocking, |done| done as usize);
                self.alarm(cx);
                if flags & msg::ZEROCOPY != 0 && length != 0 && matches!(result, Ok(1..)) {
                    self.was_copied(cx, index);
                }
                result.map(|done| Reply::result(done as i64))
            }
            net::RECEIVE => self.receive(cx, index, nonblocking),
            net::ACCEPT => {
                let result = self.accept(cx, handles, index);
                let limit = self.socket(index)?.limits.receive;
                self.settle(cx, result, limit, nonblocking, |_| Reply::result(0))
            }
            net::CONNECT => {
                let result = self.connect(cx, index, nonblocking);
                let limit = self.socket(index)?.limits.send;
                let waits = matches!(result, Err(Failure::Wait(_)));
                let result = self.settle(cx, result, limit, nonblocking, |_| ());
                self.alarm(cx);
                match result {
                    // SO_SNDTIMEO is over, but the connection goes on.
                    Err(Failure::Errno(EAGAIN)) if waits => fail(EINPROGRESS),
                    other => other.map(|()| Reply::result(0)),
                }
            }
            net::BIND => self.bind(cx, index).map(|()| Reply::result(0)),
            net::LISTEN => self.listen(cx, index).map(|()| Reply::result(0)),
            net::SHUTDOWN => {
                let result = self.shut_down(cx, index);
                self.alarm(cx);
                result
            }
            net::GET_OPTION => self.get_option(cx, index),
            net::SET_OPTION => {
                self.set_option(cx, index)?;
                self.pump(cx);
                self.alarm(cx);
                Ok(Reply::result(0))
            }
            net::NAME => self.name(index, cx.request.words[1]),
            net::COOKIE => self.make_cookie(cx, index),
            net::FILTER => {
                self.check_filter_lock(index)?;
                self.set_wanted(cx, index).map(|()| Reply::result(0))
            }
            _ => fail(ENOSYS),
        }
    }

    fn cancelled(&mut self, cx: &mut Context) {
        self.timeouts.ended(cx.request.token);
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        self.begin();
        if !self.cookie_pulse(cx, pulse) && !self.filter.pulse(pulse) {
            self.link_pulse(cx, pulse);
        }
        self.pump(cx);
        self.alarm(cx);
    }

    fn background(&mut self, cx: &mut Context) -> bool {
        self.begin();
        let more = self.refuse_next(cx) | self.spread_next(cx) | self.dump_next(cx);
        self.pump(cx);
        self.alarm(cx);
        more
    }

    fn tick(&mut self, cx: &mut Context) {
        self.begin();
        #[cfg(test)]
        for bytes in core::mem::take(&mut self.from_cable) {
            let packet = crate::packet::Packet::received(bytes, 0);
            self.input(cx, crate::interface::LOOPBACK + 1, packet);
        }
        self.pump(cx);
        self.time_passes(cx);
        self.pump(cx);
        let now = cx.transport.monotonic();
        while let Some(key) = self.timeouts.next_over(now) {
            cx.wake(key);
        }
        if let Some(first) = self.timeouts.first() {
            cx.wake_by(first);
        }
        self.alarm(cx);
    }
}
