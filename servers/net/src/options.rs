//! Options of sockets: what they are, and getting and setting them, as numbers and words.

use crate::address::Address;
use crate::groups::{ALL_V4, ALL_V6};
use crate::headers;
use crate::packet::protocol;
use crate::server::{fail, Net};
use crate::socket::{Listener, State, FILTER, HEADER_INCLUDED_V6};
use crate::stamps::{self, Stamps};
use cairn_idl::capability;
use cairn_idl::errno::*;
use cairn_idl::net::{with, INET, INET6, NETLINK, PACKET, RAW, STREAM};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::channel::Reply;
use cairn_tcp::congestion::Algorithm;
use cairn_tcp::connection::State as Tcp;

/// net.core.wmem_max, rmem_max and the defaults.
const ASKED_MAX: u64 = 212_992;
const LEAST_SEND: u64 = 4608;
const LEAST_RECEIVE: u64 = 2304;
const DATAGRAM_BUFFER: u32 = 212_992;
const STREAM_SEND: u32 = 16_384;
const STREAM_RECEIVE: u32 = 131_072;

/// What the user chose.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub reuse: bool,
    pub share: bool,
    pub keep_alive: bool,
    pub broadcast: bool,
    pub inline: bool,
    /// Switches of SOL_SOCKET that are only remembered, by their numbers.
    pub switches: u128,
    /// SO_TXTIME, SO_BUF_LOCK, SO_TXREHASH: remembered only.
    pub send_time: u64,
    pub buffer_lock: u8,
    pub rehash: bool,
    pub stamps: Stamps,
    pub priority: u32,
    pub mark: u32,
    /// SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_INCOMING_CPU: remembered only.
    pub busy_poll: u32,
    pub pacing: u64,
    pub incoming_cpu: u32,
    /// SO_LINGER: seconds.
    pub linger: Option<u32>,
    pub send_buffer: u32,
    pub receive_buffer: u32,
    /// They were set: they do not grow.
    pub send_fixed: bool,
    pub receive_fixed: bool,
    pub receive_low: u32,
    /// SO_BINDTODEVICE: an interface's number.
    pub device: u32,
    // IP
    pub ttl: u8,
    /// IP_MINTTL: of what comes to a stream.
    pub least_ttl: u8,
    pub tos: u8,
    pub multicast_ttl: u8,
    pub multicast_loop: bool,
    /// IP_MULTICAST_IF: an interface's number, and where packets come from; IPV6_MULTICAST_IF.
    pub multicast_if: u32,
    pub multicast_from: Address,
    pub multicast_if6: u32,
    /// SO_PEEK_OFF: where the next look begins; negative: at the first byte.
    pub peek_from: i32,
    /// By number, of those that are only remembered or that RECEIVE's reader looks at (IP_PKTINFO …).
    pub ip: u64,
    pub mtu_discover: u32,
    // IPv6
    pub only_v6: bool,
    pub hops: u8,
    /// IPV6_MINHOPCOUNT
    pub least_hops: u8,
    pub traffic_class: u8,
    pub ipv6: u128,
    // TCP
    pub no_delay: bool,
    pub cork: bool,
    pub quick_ack: bool,
    // UDP
    /// UDP_SEGMENT: how long the datagrams are that a send makes; 0: it makes one.
    pub segment: u16,
    /// UDP_GRO: remembered only, datagrams come one by one.
    pub merges: bool,
    /// UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV: bytes that sums cover, or must cover (0: all); None: it was not said.
    pub covers: Option<u16>,
    pub covered: Option<u16>,
    pub max_segment: u16,
    pub keep_idle: u32,
    pub keep_interval: u32,
    pub keep_count: u32,
    pub syn_count: u32,
    /// TCP_LINGER2: seconds; negative: not at all.
    pub linger2: i32,
    /// How many SYN,ACKs are repeated before one without text is accepted.
    pub defer: u32,
    pub user_timeout: u32,
    /// TCP_INQ
    pub tells_unread: bool,
    /// TCP_WINDOW_CLAMP: so much is announced at most; 0: whatever there is.
    pub window_clamp: u32,
    pub not_sent_low: u32,
    pub algorithm: Algorithm,
}

impl Options {
    pub fn new(kind: u64) -> Options {
        let stream = kind == STREAM;
        Options {
            reuse: kind == RAW,
            share: false,
            keep_alive: false,
            broadcast: false,
            inline: false,
            switches: 0,
            send_time: 0,
            buffer_lock: 0,
            rehash: true,
            stamps: Stamps::default(),
            priority: 0,
            mark: 0,
            busy_poll: 0,
            pacing: u64::MAX,
            incoming_cpu: u32::MAX,
            linger: None,
            send_buffer: if stream { STREAM_SEND } else { DATAGRAM_BUFFER },
            receive_buffer: if stream {
                STREAM_RECEIVE
            } else {
                DATAGRAM_BUFFER
            },
            send_fixed: false,
            receive_fixed: false,
            receive_low: 1,
            device: 0,
            ttl: 64,
            least_ttl: 0,
            tos: 0,
            multicast_ttl: 1,
            multicast_loop: true,
            multicast_if: 0,
            multicast_from: Address::ANY_V4,
            multicast_if6: 0,
            peek_from: -1,
            ip: 1 << ALL_V4,
            mtu_discover: 1,
            only_v6: false,
            hops: 64,
            least_hops: 0,
            traffic_class: 0,
            ipv6: 1 << ALL_V6,
            no_delay: false,
            cork: false,
            quick_ack: true,
            segment: 0,
            merges: false,
            covers: None,
            covered: None,
            max_segment: 0,
            keep_idle: 7200,
            keep_interval: 75,
            keep_count: 9,
            syn_count: 6,
            linger2: 60,
            defer: 0,
            user_timeout: 0,
            tells_unread: false,
            window_clamp: 0,
            not_sent_low: 0,
            algorithm: Algorithm::Cubic,
        }
    }
}

impl Options {
    /// The least time to live of what comes to a stream.
    pub fn least(&self, v4: bool) -> u8 {
        match v4 {
            true => self.least_ttl,
            false => self.least_hops,
        }
    }

    /// IP_FREEBIND, IP_TRANSPARENT, and those of IPv6: it may have an address that the machine has not.
    pub fn binds_freely(&self) -> bool {
        self.ip & (1 << 15 | 1 << TRANSPARENT) != 0
            || self.ipv6 & (1 << 78 | 1 << TRANSPARENT_V6) != 0
    }

    /// IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR: each datagram tells where it was sent to.
    pub fn tells_destination(&self) -> bool {
        self.ip >> ORIGINAL & 1 != 0 || self.ipv6 >> ORIGINAL_V6 & 1 != 0
    }

    /// SO_ZEROCOPY: MSG_ZEROCOPY means something.
    pub fn copies_not(&self) -> bool {
        self.switches >> so::ZEROCOPY & 1 != 0
    }

    /// IP_RECVERR, IPV6_RECVERR: errors are queued.
    pub fn wants_errors(&self, v4: bool) -> bool {
        match v4 {
            true => self.ip >> RECVERR & 1 != 0,
            false => self.ipv6 >> RECVERR_V6 & 1 != 0,
        }
    }

    /// What RECEIVE tells of a packet: [`with`] bits.
    pub fn told(&self, v4: bool) -> u64 {
        let has = |ip: u32, ipv6: u32| match v4 {
            // A socket of IPv6 may have asked in either way.
            true => self.ip >> ip & 1 != 0,
            false => self.ipv6 >> ipv6 & 1 != 0,
        };
        let bit = |wanted: bool, bit: u64| if wanted { bit } else { 0 };
        bit(has(8, 49), with::SOURCE) | bit(has(12, 51), with::TTL) | bit(has(13, 66), with::TOS)
    }
}

/// SOL_
const SOCKET: u32 = 1;
const IP: u32 = 0;
const TCP: u32 = 6;
const UDP: u32 = 17;
const UDP_LITE: u32 = 136;
const IPV6: u32 = 41;
const RAW_LEVEL: u32 = 255;
const ICMP_V6: u32 = 58;
const NETLINK_LEVEL: u32 = 270;
const PACKET_LEVEL: u32 = 263;

/// SO_
mod so {
    pub const DEBUG: u32 = 1;
    pub const REUSEADDR: u32 = 2;
    pub const TYPE: u32 = 3;
    pub const ERROR: u32 = 4;
    pub const DONTROUTE: u32 = 5;
    pub const BROADCAST: u32 = 6;
    pub const SNDBUF: u32 = 7;
    pub const RCVBUF: u32 = 8;
    pub const KEEPALIVE: u32 = 9;
    pub const OOBINLINE: u32 = 10;
    pub const NO_CHECK: u32 = 11;
    pub const PRIORITY: u32 = 12;
    pub const LINGER: u32 = 13;
    pub const REUSEPORT: u32 = 15;
    pub const PASSCRED: u32 = 16;
    pub const RCVLOWAT: u32 = 18;
    pub const SNDLOWAT: u32 = 19;
    pub const RCVTIMEO: u32 = 20;
    pub const SNDTIMEO: u32 = 21;
    pub const BINDTODEVICE: u32 = 25;
    pub const ACCEPTCONN: u32 = 30;
    pub const SNDBUFFORCE: u32 = 32;
    pub const RCVBUFFORCE: u32 = 33;
    pub const MARK: u32 = 36;
    pub const PROTOCOL: u32 = 38;
    pub const DOMAIN: u32 = 39;
    pub const BSDCOMPAT: u32 = 14;
    pub const PASSSEC: u32 = 34;
    pub const RXQ_OVFL: u32 = 40;
    pub const WIFI_STATUS: u32 = 41;
    pub const PEEK_OFF: u32 = 42;
    pub const NOFCS: u32 = 43;
    pub const SELECT_ERR_QUEUE: u32 = 45;
    pub const BUSY_POLL: u32 = 46;
    pub const MAX_PACING_RATE: u32 = 47;
    pub const BPF_EXTENSIONS: u32 = 48;
    pub const INCOMING_CPU: u32 = 49;
    pub const PEERCRED: u32 = 17;
    pub const GET_FILTER: u32 = 26;
    pub const DETACH_FILTER: u32 = 27;
    pub const LOCK_FILTER: u32 = 44;
    pub const ATTACH_BPF: u32 = 50;
    pub const ATTACH_REUSEPORT_CBPF: u32 = 51;
    pub const ATTACH_REUSEPORT_EBPF: u32 = 52;
    pub const DETACH_REUSEPORT_BPF: u32 = 68;
    pub const INCOMING_NAPI_ID: u32 = 56;
    pub const COOKIE: u32 = 57;
    pub const PEERGROUPS: u32 = 59;
    pub const ZEROCOPY: u32 = 60;
    pub const TXTIME: u32 = 61;
    pub const BINDTOIFINDEX: u32 = 62;
    pub const PREFER_BUSY_POLL: u32 = 69;
    pub const BUSY_POLL_BUDGET: u32 = 70;
    pub const NETNS_COOKIE: u32 = 71;
    pub const BUF_LOCK: u32 = 72;
    pub const RESERVE_MEM: u32 = 73;
    pub const TXREHASH: u32 = 74;
    pub const RCVMARK: u32 = 75;
}

const RECVERR: u32 = 11;
/// IP_PROTOCOL
const PROTOCOL: u32 = 52;
const RECVERR_V6: u32 = 25;

/// How many offsets beyond the packet Linux's filters know.
const BPF_EXTENSIONS: u64 = 64;
/// Half of what a connection's receive buffer grows to at most on Linux.
const RECEIVE_LOW_MAX: u32 = 1_808_768;

/// UDP_
mod udp {
    pub const CORK: u32 = 1;
    /// UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV
    pub const COVERS: u32 = 10;
    pub const COVERED: u32 = 11;
    pub const ENCAP: u32 = 100;
    pub const SEGMENT: u32 = 103;
    pub const GRO: u32 = 104;
}

/// The header is always covered (RFC 3828, 3.1); 0 is everything.
fn coverage(value: i32) -> u16 {
    match value {
        0 => 0,
        ..8 => 8,
        value => value.min(u16::MAX.into()) as u16,
    }
}

/// Switches that are remembered.
const SWITCHES: u128 = 1 << so::DEBUG
    | 1 << so::DONTROUTE
    | 1 << so::NO_CHECK
    | 1 << so::PASSCRED
    | 1 << so::PASSSEC
    | 1 << so::RXQ_OVFL
    | 1 << so::WIFI_STATUS
    | 1 << so::NOFCS
    | 1 << so::SELECT_ERR_QUEUE
    | 1 << so::LOCK_FILTER
    | 1 << so::ZEROCOPY
    | 1 << so::PREFER_BUSY_POLL
    | 1 << so::RCVMARK;
/// CLOCK_MONOTONIC.
const MONOTONIC: u32 = 1;

/// IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR.
pub(crate) const ORIGINAL: u32 = 20;
pub(crate) const ORIGINAL_V6: u32 = 74;
/// IP_TRANSPARENT, IPV6_TRANSPARENT.
const TRANSPARENT: u32 = 19;
const TRANSPARENT_V6: u32 = 75;

/// Options of IP that are switches: RECVOPTS, PKTINFO, RECVERR, RECVTTL, RECVTOS, FREEBIND, TRANSPARENT, BIND_ADDRESS_NO_PORT …
const IP_SWITCHES: u64 = 1 << 3
    | 1 << 6
    | 1 << 7
    | 1 << 8
    | 1 << 11
    | 1 << 12
    | 1 << 13
    | 1 << 15
    | 1 << TRANSPARENT
    | 1 << 20
    | 1 << 24
    | 1 << 49;
/// Of IPv6: RECVERR, AUTOFLOWLABEL, RECVPKTINFO, RECVHOPLIMIT, RECVTCLASS …
const IPV6_SWITCHES: u128 = 1 << HEADER_INCLUDED_V6
    | 1 << 25
    | 1 << 29
    | 1 << 33
    | 1 << 49
    | 1 << 51
    | 1 << 53
    | 1 << 56
    | 1 << 58
    | 1 << 60
    | 1 << 62
    | 1 << 66
    | 1 << 70
    | 1 << 74
    | 1 << TRANSPARENT_V6
    | 1 << 78;

/// What Linux makes of a buffer's size.
fn size(asked: u64, least: u64) -> u32 {
    (asked.min(ASKED_MAX) * 2).max(least) as u32
}

/// A value between these two (EINVAL).
fn within(value: i32, least: i32, most: i32) -> Answer<u32> {
    match (least..=most).contains(&value) {
        true => Ok(value as u32),
        false => fail(EINVAL),
    }
}

/// As TCP_CONGESTION has it, with its end.
pub(crate) fn algorithm_name(algorithm: Algorithm) -> &'static [u8] {
    match algorithm {
        Algorithm::Cubic => b"cubic\0",
        _ => b"reno\0",
    }
}

/// Ways of IP_MTU_DISCOVER (ip(7)): no packet is marked as one that is not to be cut; those that fit; all, and what does not fit is refused; the same without
/// regard to what was learnt of the way; all that leave by the interface's MTU.
pub(crate) mod discover {
    pub const WANT: u32 = 1;
    pub const DO: u32 = 2;
    pub const PROBE: u32 = 3;
    pub const INTERFACE: u32 = 4;

    /// Whether routers' words are heeded: not by PROBE, INTERFACE and OMIT.
    pub fn narrows(discover: u32) -> bool {
        discover <= DO
    }
}

/// Bytes of `struct tcp_info`.
const INFO: usize = 232;

/// `struct tcp_info` of a connection, or of a socket that has none.
pub(crate) fn tcp_info(
    info: Option<cairn_tcp::connection::Info>,
    listener: Option<&Listener>,
) -> [u8; INFO] {
    let mut bytes = [0; INFO];
    bytes[0] = if listener.is_some() { 10 } else { 7 };
    let mut word = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    let Some(info) = info else {
        if let Some(listener) = listener {
            // Of a listener: how many wait to be accepted, and how many may.
            word(24, listener.ready.len() as u32);
            word(28, listener.backlog as u32);
        }
        return bytes;
    };
    let micros = |time: cairn_tcp::time::Micros| time.min(u64::from(u32::MAX)) as u32;
    word(8, micros(info.rto));
    word(12, 40_000);
    word(16, info.snd_mss);
    word(20, info.rcv_mss);
    word(24, info.out);
    word(28, info.sacked);
    word(32, info.lost);
    word(36, info.retrans);
    word(60, info.path_mss + 40);
    word(64, info.rcv_threshold);
    word(68, micros(info.rtt));
    word(72, micros(info.rtt_variation));
    word(76, info.snd_threshold);
    word(80, info.snd_window);
    word(84, info.announced_mss);
    word(88, 3);
    word(96, info.rcv_space);
    word(100, info.total_retransmits);
    word(136, info.segments_out);
    word(140, info.segments_in);
    word(144, info.not_sent);
    word(148, micros(info.least_rtt));
    word(192, info.delivered);
    word(228, info.peer_window);
    bytes[120..128].copy_from_slice(&info.bytes_acked.to_ne_bytes());
    bytes[128..136].copy_from_slice(&info.bytes_received.to_ne_bytes());
    bytes[0] = state_number(info.state);
    bytes[1] = info.stage as u8;
    bytes[2] = info.retransmits;
    bytes[3] = info.probes;
    bytes[4] = info.backoff;
    bytes[5] = info.timestamps as u8
        | (info.sack as u8) << 1
        | (info.scaling as u8) << 2
        | (info.ecn as u8) << 3;
    bytes[6] = info.snd_shift | info.rcv_shift << 4;
    bytes
}

impl Net {
    pub(crate) fn get_option<'a>(&'a mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        let option = cx.request.words[1];
        let (level, number) = ((option >> 32) as u32, option as u32);
        self.scratch.clear();
        let family = self.socket(index)?.family;
        let special = matches!(family, NETLINK | PACKET);
        let pair = match level {
            SOCKET if number == so::GET_FILTER => [self.get_wanted(cx, index)?, 0],
            NETLINK_LEVEL if family == NETLINK => [self.get_netlink_option(index, number)?, 0],
            PACKET_LEVEL if family == PACKET => {
                let given = cx.request.words[2];
                [self.get_capture_option(cx, index, number, given)?, 0]
            }
            level if special && level != SOCKET => return fail(ENOPROTOOPT),
            SOCKET => self.get_socket_option(index, number)?,
            IP | IPV6 if cx.request.out_len != 0 => {
                self.get_group_filter(cx, index, (level == IP, number))?;
                [0, 0]
            }
            IP | IPV6 if headers::is_option(level, number) => {
                self.get_headers(index, (level, number))?;
                [0, 0]
            }
            IP => [u64::from(self.get_ip_option(cx, index, number)?), 0],
            IPV6 => [u64::from(self.get_ipv6_option(cx, index, number)?), 0],
            TCP if self.socket(index)?.is_stream() => {
                [u64::from(self.get_tcp_option(index, number)?), 0]
            }
            RAW_LEVEL if !self.socket(index)?.is_raw() => return fail(EOPNOTSUPP),
            RAW_LEVEL | ICMP_V6 if self.socket(index)?.is_raw() => {
                [u64::from(self.get_filter(index, level, number)?), 0]
            }
            UDP | UDP_LITE if self.socket(index)?.is_udp() => {
                [u64::from(self.get_udp_option(index, number)?), 0]
            }
            TCP | UDP | RAW_LEVEL | ICMP_V6 => return fail(ENOPROTOOPT),
            _ => return fail(EOPNOTSUPP),
        };
        let length = self.scratch.len().min(cx.request.in_len);
        let reply = Reply::new(&[length as u64, pair[0], pair[1]]);
        Ok(match length {
            0 => reply,
            _ => reply.data(&self.scratch[..length]),
        })
    }

    fn get_socket_option(&mut self, index: u32, number: u32) -> Answer<[u64; 2]> {
        if number == so::ERROR {
            return Ok([self.take_error(index) as u64, 0]);
        }
        if number == so::BINDTODEVICE {
            let device = self.socket(index)?.options.device;
            if let Some(interface) = self.interfaces.get(device) {
                self.scratch.extend_from_slice(&interface.name);
                self.scratch.push(0);
            }
            return Ok([0; 2]);
        }
        if stamps::is_option(number) {
            return Ok([self.get_stamps(index, number)?, 0]);
        }
        let socket = self.socket(index)?;
        let options = &socket.options;
        let value = match number {
            so::TYPE => socket.kind,
            so::DOMAIN => socket.family,
            so::PROTOCOL => u64::from(socket.protocol),
            so::ACCEPTCONN => socket.listener().is_some() as u64,
            so::REUSEADDR => options.reuse as u64,
            so::REUSEPORT => options.share as u64,
            so::BROADCAST => options.broadcast as u64,
            so::KEEPALIVE => options.keep_alive as u64,
            so::OOBINLINE => options.inline as u64,
            so::SNDBUF => u64::from(options.send_buffer),
            so::RCVBUF => u64::from(options.receive_buffer),
            so::PRIORITY => u64::from(options.priority),
            so::MARK => u64::from(options.mark),
            so::RCVLOWAT => u64::from(options.receive_low),
            so::SNDLOWAT => 1,
            so::LINGER => {
                let seconds = options.linger.map_or(0, u64::from);
                return Ok([options.linger.is_some() as u64, seconds]);
            }
            so::RCVTIMEO => socket.limits.receive,
            so::SNDTIMEO => socket.limits.send,
            so::BUSY_POLL => u64::from(options.busy_poll),
            so::MAX_PACING_RATE => options.pacing,
            so::INCOMING_CPU => u64::from(options.incoming_cpu),
            so::BINDTOIFINDEX => u64::from(options.device),
            so::BSDCOMPAT | so::INCOMING_NAPI_ID | so::RESERVE_MEM => 0,
            so::COOKIE => 1 << 40 | socket.ino,
            so::NETNS_COOKIE => 1,
            so::TXTIME => options.send_time,
            so::BUF_LOCK => options.buffer_lock.into(),
            so::TXREHASH => options.rehash.into(),
            so::PEERGROUPS => return fail(ENODATA),
            so::PEERCRED => {
                // No process and nobody.
                self.scratch.extend_from_slice(&0u32.to_ne_bytes());
                self.scratch.extend_from_slice(&[0xff; 8]);
                0
            }
            so::BPF_EXTENSIONS => BPF_EXTENSIONS,
            so::PEEK_OFF if !socket.is_udp() => return fail(EOPNOTSUPP),
            so::PEEK_OFF => options.peek_from as u64,
            number if number < 128 && SWITCHES >> number & 1 != 0 => {
                (options.switches >> number & 1) as u64
            }
            _ => return fail(ENOPROTOOPT),
        };
        Ok([value, 0])
    }

    /// SO_LOCK_FILTER: the filter stays.
    pub(crate) fn check_filter_lock(&self, index: u32) -> Answer<()> {
        match self.socket(index)?.options.switches >> so::LOCK_FILTER & 1 {
            0 => Ok(()),
            _ => fail(EPERM),
        }
    }

    /// SO_ERROR: what the socket, or its connection, is told once.
    pub(crate) fn take_error(&mut self, index: u32) -> i64 {
        let Some(socket) = self.sockets.get_mut(index) else {
            return 0;
        };
        if let Some(error) = socket.take_error() {
            return error;
        }
        let State::Stream(stream) = socket.state else {
            return 0;
        };
        let stream = self.streams.get_mut(stream);
        stream.map_or(0, |stream| core::mem::take(&mut stream.error))
    }

    fn get_ip_option(&mut self, cx: &mut Context, index: u32, number: u32) -> Answer<u32> {
        let socket = self.socket(index)?;
        if socket.is_raw() && !socket.is_v4() {
            return fail(ENOPROTOOPT);
        }
        let options = &socket.options;
        Ok(match number {
            1 => u32::from(options.tos),
            2 => u32::from(options.ttl),
            10 => options.mtu_discover,
            14 => return self.mtu_of(cx, index),
            21 => u32::from(options.least_ttl),
            33 => u32::from(options.multicast_ttl),
            34 => options.multicast_loop as u32,
            32 => {
                let bytes = options.multicast_from.as_v4().unwrap_or_default();
                u32::from_ne_bytes(bytes)
            }
            50 => 0,
            PROTOCOL => u32::from(socket.protocol),
            number if number < 64 && IP_SWITCHES >> number & 1 != 0 => {
                (options.ip >> number & 1) as u32
            }
            _ => return fail(ENOPROTOOPT),
        })
    }

    /// IP_MTU and IPV6_MTU: of the way to the peer.
    fn mtu_of(&mut self, cx: &mut Context, index: u32) -> Answer<u32> {
        let now = self.now(cx);
        let to = self.socket(index)?.remote;
        let to = to.ok_or(Failure::Errno(ENOTCONN))?.address;
        match self.interfaces.way(&to, 0) {
            Some(way) => Ok(self.path_mtu(&to, &way, now)),
            None => fail(ENOTCONN),
        }
    }

    fn get_ipv6_option(&mut self, cx: &mut Context, index: u32, number: u32) -> Answer<u32> {
        let socket = self.socket(index)?;
        if socket.is_v4() {
            return fail(EOPNOTSUPP);
        }
        let options = &socket.options;
        Ok(match number {
            26 => options.only_v6 as u32,
            16 => u32::from(options.hops),
            17 => options.multicast_if6,
            18 => u32::from(options.multicast_ttl),
            19 => options.multicast_loop as u32,
            23 => options.mtu_discover,
            24 => return self.mtu_of(cx, index),
            67 => u32::from(options.traffic_class),
            73 => u32::from(options.least_hops),
            HEADER_INCLUDED_V6 if !socket.is_raw() => return fail(ENOPROTOOPT),
            number if number < 128 && IPV6_SWITCHES >> number & 1 != 0 => {
                (options.ipv6 >> number & 1) as u32
            }
            _ => return fail(ENOPROTOOPT),
        })
    }

    fn get_udp_option(&mut self, index: u32, number: u32) -> Answer<u32> {
        let options = &self.socket(index)?.options;
        Ok(match number {
            udp::CORK => options.cork.into(),
            udp::SEGMENT => options.segment.into(),
            udp::GRO => options.merges.into(),
            udp::ENCAP => 0,
            udp::COVERS => options.covers.unwrap_or(0).into(),
            udp::COVERED => options.covered.unwrap_or(0).into(),
            _ => return fail(ENOPROTOOPT),
        })
    }

    /// Checksums of UDP are always made.
    fn set_udp_option(
        &mut self,
        cx: &mut Context,
        index: u32,
        number: u32,
        value: i32,
    ) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        let lite = socket.is_lite();
        let options = &mut socket.options;
        match number {
            udp::CORK => {
                options.cork = value != 0;
                if value == 0 {
                    self.uncork(cx, index)?;
                }
            }
            udp::SEGMENT => options.segment = within(value, 0, u16::MAX.into())? as u16,
            udp::GRO => options.merges = value != 0,
            udp::ENCAP if value == 0 => {}
            udp::COVERS if lite => options.covers = Some(coverage(value)),
            udp::COVERED if lite => options.covered = Some(coverage(value)),
            _ => return fail(ENOPROTOOPT),
        }
        Ok(())
    }

    fn get_tcp_option(&mut self, index: u32, number: u32) -> Answer<u32> {
        let socket = self.socket(index)?;
        let options = socket.options;
        let stream = match socket.state {
            State::Stream(stream) => self.streams.get(stream),
            _ => None,
        };
        Ok(match number {
            1 => options.no_delay as u32,
            2 => match stream {
                Some(stream) if stream.connected => stream.block.effective_mss(),
                _ if options.max_segment != 0 => u32::from(options.max_segment),
                _ => 536,
            },
            3 => options.cork as u32,
            4 => options.keep_idle,
            5 => options.keep_interval,
            6 => options.keep_count,
            7 => options.syn_count,
            8 => options.linger2 as u32,
            9 => defer_seconds(options.defer),
            10 => options.window_clamp,
            11 => {
                let info = stream.map(|stream| stream.block.info());
                let bytes = tcp_info(info, socket.listener());
                self.scratch.extend_from_slice(&bytes);
                0
            }
            12 => options.quick_ack as u32,
            13 => {
                let name = algorithm_name(options.algorithm);
                self.scratch.extend_from_slice(name);
                self.scratch.resize(16, 0);
                0
            }
            18 => options.user_timeout,
            23 | 30 => 0,
            24 => 0,
            25 => options.not_sent_low,
            36 => options.tells_unread as u32,
            _ => return fail(ENOPROTOOPT),
        })
    }

    pub(crate) fn set_option<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        let [_, option, value, further, ..] = cx.request.words;
        let (level, number) = ((option >> 32) as u32, option as u32);
        let family = self.socket(index)?.family;
        let special = matches!(family, NETLINK | PACKET);
        self.heritage_changes(cx, index);
        match level {
            NETLINK_LEVEL if family == NETLINK => {
                self.set_netlink_option(index, number, value as u32)?
            }
            PACKET_LEVEL if family == PACKET => {
                self.set_capture_option(cx, index, number, value)?
            }
            level if special && level != SOCKET => return fail(ENOPROTOOPT),
            SOCKET => self.set_socket_option(cx, index, number, value, further)?,
            IP | IPV6
                if matches!(
                    (level, number, value),
                    (IP, RECVERR, 0) | (IPV6, RECVERR_V6, 0)
                ) =>
            {
                self.drop_faults(cx, index);
                match level {
                    IP => self.set_ip_option(index, number, 0)?,
                    _ => self.set_ipv6_option(index, number, 0)?,
                }
            }
            IP | IPV6 if headers::is_option(level, number) => {
                self.set_headers(cx, index, (level, number))?
            }
            IP | IPV6 if Net::is_about_groups(level == IP, number) => {
                self.set_group_option(cx, index, (level == IP, number))?
            }
            IP | IPV6 => {
                let transparent =
                    matches!((level, number), (IP, TRANSPARENT) | (IPV6, TRANSPARENT_V6));
                if transparent
                    && value as u32 != 0
                    && !self.has_capability(cx, capability::NET_ADMIN)
                    && !self.has_capability(cx, capability::NET_RAW)
                {
                    return fail(EPERM);
                }
                match level {
                    IP => self.set_ip_option(index, number, value as i32)?,
                    _ => self.set_ipv6_option(index, number, value as i32)?,
                }
                self.apply_options(cx, index);
            }
            RAW_LEVEL | ICMP_V6 if self.socket(index)?.is_raw() => {
                self.set_filter(cx, index, level, number, value)?
            }
            TCP if self.socket(index)?.is_stream() => {
                self.set_tcp_option(cx, index, number, value as i32)?
            }
            UDP | UDP_LITE if self.socket(index)?.is_udp() => {
                self.set_udp_option(cx, index, number, value as i32)?
            }
            TCP | UDP | RAW_LEVEL | ICMP_V6 => return fail(ENOPROTOOPT),
            _ => return fail(EOPNOTSUPP),
        }
        Ok(Reply::result(0))
    }

    fn set_socket_option(
        &mut self,
        cx: &mut Context,
        index: u32,
        number: u32,
        value: u64,
        further: u64,
    ) -> Answer<()> {
        let on = value != 0;
        let privileged = matches!(
            number,
            so::SNDBUFFORCE
                | so::RCVBUFFORCE
                | so::MARK
                | so::DEBUG
                | so::PREFER_BUSY_POLL
                | so::BUSY_POLL_BUDGET
        ) || number == so::TXTIME && value as u32 != MONOTONIC;
        if privileged && on && !self.has_capability(cx, capability::NET_ADMIN) {
            return fail(if number == so::DEBUG { EACCES } else { EPERM });
        }
        if number == so::BUSY_POLL
            && value as i32 > self.socket(index)?.options.busy_poll as i32
            && !self.has_capability(cx, capability::NET_ADMIN)
        {
            return fail(EPERM);
        }
        if number == so::PRIORITY && value > 6 && !self.has_capability(cx, capability::NET_ADMIN) {
            return fail(EPERM);
        }
        if number == so::BINDTODEVICE {
            return self.bind_to_device(cx, index);
        }
        if number == so::BINDTOIFINDEX {
            let device = within(value as u32 as i32, 0, i32::MAX)?;
            return self.bind_to(cx, index, device);
        }
        if stamps::is_option(number) {
            return self.set_stamps(index, number, value as u32);
        }
        let socket = self.socket_mut(index)?;
        let stream = socket.is_stream();
        let internet = matches!(socket.family, INET | INET6);
        let is_tcp = internet && stream;
        let (is_udp, is_lite) = (socket.is_udp(), socket.is_lite());
        let options = &mut socket.options;
        let locked = options.switches >> so::LOCK_FILTER & 1 != 0;
        match number {
            so::TYPE | so::DOMAIN | so::PROTOCOL | so::ERROR | so::ACCEPTCONN | so::SNDLOWAT => {
                return fail(ENOPROTOOPT)
            }
            so::REUSEADDR => options.reuse = on,
            so::REUSEPORT => options.share = on,
            so::BROADCAST => options.broadcast = on,
            so::OOBINLINE => options.inline = on,
            so::SNDBUF | so::SNDBUFFORCE => {
                (options.send_buffer, options.send_fixed) = (size(value, LEAST_SEND), true);
            }
            so::RCVBUF | so::RCVBUFFORCE => {
                (options.receive_buffer, options.receive_fixed) =
                    (size(value, LEAST_RECEIVE), true);
            }
            so::PRIORITY => options.priority = value as u32,
            so::MARK => options.mark = value as u32,
            so::RCVLOWAT => {
                let low = match value as u32 as i32 {
                    ..0 => i32::MAX as u32,
                    low => low.max(1) as u32,
                };
                options.receive_low = match stream {
                    true => low.min(RECEIVE_LOW_MAX),
                    false => low,
                };
            }
            so::LINGER => options.linger = on.then_some(further as u32),
            so::KEEPALIVE => options.keep_alive = on,
            so::RCVTIMEO => socket.limits.receive = value,
            so::SNDTIMEO => socket.limits.send = value,
            so::BUSY_POLL => options.busy_poll = within(value as u32 as i32, 0, i32::MAX)?,
            so::MAX_PACING_RATE => options.pacing = value,
            so::TXTIME if value >> 32 > 3 => return fail(EINVAL),
            so::TXTIME => options.send_time = value,
            so::ZEROCOPY if (!is_udp || is_lite) && !is_tcp => return fail(EOPNOTSUPP),
            so::ZEROCOPY if value > 1 => return fail(EINVAL),
            so::BUSY_POLL_BUDGET => {
                within(value as u32 as i32, 0, 0xffff)?;
            }
            so::BUF_LOCK => options.buffer_lock = within(value as u32 as i32, 0, 3)? as u8,
            so::TXREHASH => match value as u32 as i32 {
                -1..=1 => options.rehash = value != 0,
                _ => return fail(EINVAL),
            },
            so::RESERVE_MEM => return fail(EOPNOTSUPP),
            so::ATTACH_REUSEPORT_CBPF => return self.set_chooser(cx, index),
            so::DETACH_REUSEPORT_BPF => return self.drop_chooser(cx, index),
            // It stays locked.
            so::LOCK_FILTER if !on && locked => return fail(EPERM),
            so::GET_FILTER | so::DETACH_FILTER | so::ATTACH_BPF | so::ATTACH_REUSEPORT_EBPF
                if locked =>
            {
                return fail(EPERM)
            }
            so::INCOMING_CPU => options.incoming_cpu = value as u32,
            so::BSDCOMPAT => {}
            so::PEEK_OFF if !is_udp => return fail(EOPNOTSUPP),
            so::PEEK_OFF => options.peek_from = value as u32 as i32,
            number if number < 128 && SWITCHES >> number & 1 != 0 => {
                options.switches = options.switches & !(1 << number) | u128::from(on) << number;
            }
            _ => return fail(ENOPROTOOPT),
        }
        if matches!(number, so::REUSEADDR | so::REUSEPORT) {
            self.claim_changes(index);
        }
        if stream {
            self.apply_options(cx, index);
        }
        Ok(())
    }

    fn bind_to_device(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let mut name = [0; 16];
        let length = cx.request.out_len.min(15);
        cx.fetch(0, &mut name[..length])?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(length);
        let device = match &name[..end] {
            [] => 0,
            name => match self.interfaces.by_name(name) {
                Some(interface) => interface.number,
                None => return fail(ENODEV),
            },
        };
        self.bind_to(cx, index, device)
    }

    fn bind_to(&mut self, cx: &mut Context, index: u32, device: u32) -> Answer<()> {
        let socket = self.socket(index)?;
        // Who is bound needs the capability to be bound elsewhere.
        if socket.options.device != 0 && !self.has_capability(cx, capability::NET_RAW) {
            return fail(EPERM);
        }
        self.socket_mut(index)?.options.device = device;
        Ok(())
    }

    fn set_ip_option(&mut self, index: u32, number: u32, value: i32) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        let (stream, is_raw) = (socket.is_stream(), socket.is_raw());
        if is_raw && !socket.is_v4() {
            return fail(ENOPROTOOPT);
        }
        let options = &mut socket.options;
        match number {
            // The header is for raw sockets to write.
            3 if !is_raw => return fail(ENOPROTOOPT),
            33 if stream => return fail(EINVAL),
            1 => options.tos = without_ecn(value as u8, stream),
            2 if value == -1 => options.ttl = 64,
            2 => options.ttl = within(value, 1, 255)? as u8,
            10 => options.mtu_discover = within(value, 0, 5)?,
            21 => {
                options.least_ttl = within(value, 0, 255)? as u8;
                self.some_are_near = true;
            }
            33 if value == -1 => options.multicast_ttl = 1,
            33 => options.multicast_ttl = within(value, 0, 255)? as u8,
            34 => options.multicast_loop = value != 0,
            ALL_V4 => {
                let on = within(value, 0, 1)?;
                options.ip = options.ip & !(1 << ALL_V4) | u64::from(on) << ALL_V4;
            }
            number if number < 64 && IP_SWITCHES >> number & 1 != 0 => {
                options.ip = options.ip & !(1 << number) | u64::from(value != 0) << number;
            }
            _ => return fail(ENOPROTOOPT),
        }
        Ok(())
    }

    fn set_ipv6_option(&mut self, index: u32, number: u32, value: i32) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        if socket.is_v4() {
            return fail(ENOPROTOOPT);
        }
        let (bound, stream) = (socket.local.port != 0, socket.is_stream());
        let is_raw = socket.is_raw();
        if number == 17 {
            return match stream {
                true => fail(ENOPROTOOPT),
                false => self.set_multicast_if6(index, value as u32),
            };
        }
        let options = &mut socket.options;
        match number {
            HEADER_INCLUDED_V6 if !is_raw => return fail(ENOPROTOOPT),
            26 if bound || is_raw => return fail(EINVAL),
            18 if stream => return fail(ENOPROTOOPT),
            26 => options.only_v6 = value != 0,
            16 if value == -1 => options.hops = 64,
            16 => options.hops = within(value, 0, 255)? as u8,
            18 if value == -1 => options.multicast_ttl = 1,
            18 => options.multicast_ttl = within(value, 0, 255)? as u8,
            19 => options.multicast_loop = within(value, 0, 1)? != 0,
            23 => options.mtu_discover = within(value, 0, 5)?,
            67 if value == -1 => options.traffic_class = 0,
            73 => {
                options.least_hops = within(value, 0, 255)? as u8;
                self.some_are_near = true;
            }
            67 => options.traffic_class = without_ecn(within(value, 0, 255)? as u8, stream),
            number if number < 128 && IPV6_SWITCHES >> number & 1 != 0 => {
                options.ipv6 = options.ipv6 & !(1 << number) | u128::from(value != 0) << number;
            }
            _ => return fail(ENOPROTOOPT),
        }
        Ok(())
    }

    /// ICMP_FILTER, ICMP6_FILTER (raw(7), RFC 3542): a bit for each type of message that is not wanted.
    fn set_filter(
        &mut self,
        cx: &mut Context,
        index: u32,
        level: u32,
        number: u32,
        value: u64,
    ) -> Answer<()> {
        if !self.has_filter(index, level, number)? {
            return fail(ENOPROTOOPT);
        }
        let mut filter = [0; FILTER];
        let length = cx.request.out_len.min(FILTER);
        match level {
            RAW_LEVEL => filter[..4].copy_from_slice(&(value as u32).to_ne_bytes()),
            _ => {
                // What is not said stays as it is.
                filter = self.socket(index)?.filter;
                cx.fetch(0, &mut filter[..length])?;
            }
        }
        self.socket_mut(index)?.filter = filter;
        Ok(())
    }

    fn get_filter(&mut self, index: u32, level: u32, number: u32) -> Answer<u32> {
        if !self.has_filter(index, level, number)? {
            return fail(ENOPROTOOPT);
        }
        let filter = self.socket(index)?.filter;
        let length = if level == RAW_LEVEL { 4 } else { FILTER };
        self.scratch.extend_from_slice(&filter[..length]);
        Ok(0)
    }

    fn has_filter(&self, index: u32, level: u32, number: u32) -> Answer<bool> {
        let (v4, protocol) = (self.socket(index)?.is_v4(), self.socket(index)?.protocol);
        if number == 1 && level == RAW_LEVEL && v4 && protocol != protocol::ICMP {
            return fail(EOPNOTSUPP);
        }
        if level == ICMP_V6 && !v4 && protocol != protocol::ICMP_V6 {
            return fail(EOPNOTSUPP);
        }
        Ok(number == 1 && v4 == (level == RAW_LEVEL))
    }

    fn set_tcp_option(
        &mut self,
        cx: &mut Context,
        index: u32,
        number: u32,
        value: i32,
    ) -> Answer<()> {
        let mut name = [0; 16];
        let length = cx.request.out_len.min(15);
        if number == 13 {
            cx.fetch(0, &mut name[..length])?;
        }
        let socket = self.socket_mut(index)?;
        let listens = socket.listener().is_some();
        let closed = !listens && !matches!(socket.state, State::Stream(_));
        let options = &mut socket.options;
        match number {
            1 => options.no_delay = value != 0,
            2 if value == 0 => options.max_segment = 0,
            2 => options.max_segment = within(value, 88, 32_767)? as u16,
            3 => options.cork = value != 0,
            4 => options.keep_idle = within(value, 1, 32_767)?,
            5 => options.keep_interval = within(value, 1, 32_767)?,
            6 => options.keep_count = within(value, 1, 127)?,
            7 => options.syn_count = within(value, 1, 127)?,
            8 => {
                options.linger2 = match value {
                    ..0 => -1,
                    0..=120 => value,
                    _ => 0,
                }
            }
            9 => options.defer = defer_count(value),
            12 => options.quick_ack = value & 1 != 0,
            13 => {
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(length);
                options.algorithm = match &name[..end] {
                    b"cubic" => Algorithm::Cubic,
                    b"reno" => Algorithm::Reno,
                    _ => return fail(ENOENT),
                };
            }
            18 if value < 0 => return fail(EINVAL),
            18 => options.user_timeout = value as u32,
            // Fast Open is refused.
            23 if !listens && value != 0 => return fail(EOPNOTSUPP),
            23 => return fail(EOPNOTSUPP),
            30 => return fail(EOPNOTSUPP),
            25 => options.not_sent_low = value as u32,
            36 => options.tells_unread = within(value, 0, 1)? != 0,
            10 if value == 0 && !closed => return fail(EINVAL),
            10 if value == 0 => options.window_clamp = 0,
            10 => options.window_clamp = (value as u32).max(LEAST_RECEIVE as u32 / 2),
            _ => return fail(ENOPROTOOPT),
        }
        self.apply_options(cx, index);
        Ok(())
    }

    /// What a connection must know of its socket's options.
    fn apply_options(&mut self, cx: &mut Context, index: u32) {
        let now = self.now(cx);
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let options = socket.options;
        let State::Stream(at) = socket.state else {
            return;
        };
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        stream.take_options(&options, now);
        stream.block.set_quick_ack(options.quick_ack);
        self.flush(cx, at);
    }
}

/// The two bits for ECN are TCP's own.
fn without_ecn(class: u8, stream: bool) -> u8 {
    match stream {
        true => class & !3,
        false => class,
    }
}

/// TCP_DEFER_ACCEPT: so many SYN,ACKs take at least so many seconds, as Linux counts.
fn defer_count(seconds: i32) -> u32 {
    let (mut count, mut period, mut wait) = (0, 0, 1);
    while seconds > period && count < 255 {
        count += 1;
        period += wait;
        wait = (wait * 2).min(120);
    }
    count
}

fn defer_seconds(count: u32) -> u32 {
    let (mut period, mut wait) = (0, 1);
    for _ in 0..count {
        period += wait;
        wait = (wait * 2).min(120);
    }
    period
}

/// The number of a state on Linux.
pub fn state_number(state: Tcp) -> u8 {
    match state {
        Tcp::Established => 1,
        Tcp::SynSent => 2,
        Tcp::SynReceived => 3,
        Tcp::FinWait1 => 4,
        Tcp::FinWait2 => 5,
        Tcp::TimeWait => 6,
        Tcp::Closed => 7,
        Tcp::CloseWait => 8,
        Tcp::LastAck => 9,
        Tcp::Closing => 11,
    }
}
