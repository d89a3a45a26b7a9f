//! ICMP (RFC 792) and ICMPv6 (RFC 4443): echo is answered, errors are made for what nobody takes, and those that come are told to whom they are about.

use crate::address::Address;
use crate::errors::Told;
use crate::internet::Arrived;
use crate::packet::{checksum, protocol, Header, Packet, Sum};
use crate::server::Net;
use crate::stream::Place;
use cairn_ethernet::extensions::{self, Chain};
use cairn_ethernet::fragments::checksum as plain_checksum;
use cairn_ethernet::options;
use cairn_resmgr::Context;
use cairn_tcp::connection::Error;
use cairn_tcp::input::Icmp;
use cairn_tcp::secret::Ends;
use cairn_tcp::seq::Seq;

const HEADER: usize = 8;
/// How much of a packet an error quotes: with the headers no more than every link takes.
pub(crate) const QUOTED_V4: usize = 576 - 28;
pub(crate) const QUOTED_V6: usize = 1280 - 48;

/// Types.
pub mod v4 {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const ECHO: u8 = 8;
    pub const EXCEEDED: u8 = 11;
    pub const PARAMETER_PROBLEM: u8 = 12;
}

pub mod v6 {
    pub const UNREACHABLE: u8 = 1;
    pub const TOO_BIG: u8 = 2;
    pub const EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    pub const GROUPS_ASKED: u8 = 130;
    pub const GROUP_REPORTED: u8 = 131;
}

/// What an error says of a packet of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum About {
    Error(Error),
    /// It is longer than this MTU.
    TooBig(u32),
    /// Its header is wrong here; connections do not mind.
    Wrong(u32),
}

impl Net {
    pub(crate) fn icmp_arrives(&mut self, cx: &mut Context, arrived: Arrived) {
        let bytes = arrived.packet.payload(arrived.payload);
        if arrived.packet.sum == Sum::Made && plain_checksum(bytes) != 0 {
            return;
        }
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return;
        };
        let about = match (head[0], head[1]) {
            (v4::ECHO, 0) if !arrived.several => {
                return self.answer_echo(cx, &arrived, v4::ECHO_REPLY);
            }
            (v4::ECHO_REPLY, 0) => return self.echo_replied(cx, arrived),
            (v4::UNREACHABLE, 0) => About::Error(Error::NetUnreachable),
            (v4::UNREACHABLE, 2) => About::Error(Error::ProtocolUnreachable),
            (v4::UNREACHABLE, 3) => About::Error(Error::Refused),
            (v4::UNREACHABLE, 4) => {
                About::TooBig(u32::from(u16::from_be_bytes([head[6], head[7]])))
            }
            (v4::UNREACHABLE, 9 | 10 | 13) => About::Error(Error::Prohibited),
            (v4::UNREACHABLE, _) | (v4::EXCEEDED, 0) => About::Error(Error::HostUnreachable),
            (v4::PARAMETER_PROBLEM, _) => About::Wrong(u32::from(head[4])),
            _ => return,
        };
        // Of the quoted packet only the beginning is there.
        if rest.len() < 28 || rest[0] >> 4 != 4 {
            return;
        }
        let length = usize::from(rest[0] & 15) * 4;
        let address = |at: usize| Address::v4([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let (Some(inner), true) = (rest.get(length..), length >= 20) else {
            return;
        };
        let (source, destination) = (address(12), address(16));
        let info = match about {
            About::TooBig(info) | About::Wrong(info) => info,
            About::Error(_) => 0,
        };
        let told = Told::new(head, info, &arrived);
        self.error_arrives(cx, (about, told), rest[9], (source, destination), inner);
    }

    pub(crate) fn icmp_v6_arrives(&mut self, cx: &mut Context, arrived: Arrived) {
        let bytes = arrived.packet.payload(arrived.payload);
        if arrived.packet.sum == Sum::Made && checksum(&arrived.header, bytes) != 0 {
            return;
        }
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return;
        };
        let about = match (head[0], head[1]) {
            (v6::ECHO, 0) if !arrived.several => {
                return self.answer_echo(cx, &arrived, v6::ECHO_REPLY);
            }
            (v6::ECHO_REPLY, 0) => return self.echo_replied(cx, arrived),
            (v6::GROUPS_ASKED | v6::GROUP_REPORTED, 0) => return self.mld_arrives(cx, &arrived),
            (v6::UNREACHABLE, 0) => About::Error(Error::NetUnreachable),
            (v6::UNREACHABLE, 1) => About::Error(Error::Prohibited),
            (v6::UNREACHABLE, 4) => About::Error(Error::Refused),
            (v6::UNREACHABLE, _) | (v6::EXCEEDED, 0) => About::Error(Error::HostUnreachable),
            (v6::TOO_BIG, _) => {
                About::TooBig(u32::from_be_bytes([head[4], head[5], head[6], head[7]]))
            }
            (v6::PARAMETER_PROBLEM, _) => {
                About::Wrong(u32::from_be_bytes([head[4], head[5], head[6], head[7]]))
            }
            _ => return,
        };
        // Headers of options, and of the first piece, are quoted as well.
        let Some((number, start)) = extensions::upper(rest) else {
            return;
        };
        let (Some(inner), Some((_, addresses))) =
            (rest.get(start..), rest.split_first_chunk::<8>())
        else {
            return;
        };
        let (Some((source, more)), true) = (addresses.split_first_chunk(), rest[0] >> 4 == 6)
        else {
            return;
        };
        let Some((destination, _)) = more.split_first_chunk() else {
            return;
        };
        let (source, destination) = (Address(*source), Address(*destination));
        let info = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let told = Told::new(head, info, &arrived);
        self.error_arrives(cx, (about, told), number, (source, destination), inner);
    }

    /// An error about a packet that we sent from `source` to `destination`.
    fn error_arrives(
        &mut self,
        cx: &mut Context,
        (about, told): (About, Told),
        number: u8,
        (source, destination): (Address, Address),
        inner: &[u8],
    ) {
        let Some(ports) = inner.first_chunk::<8>() else {
            return;
        };
        let ends = Ends {
            local: source.0,
            remote: destination.0,
            local_port: u16::from_be_bytes([ports[0], ports[1]]),
            remote_port: u16::from_be_bytes([ports[2], ports[3]]),
        };
        self.raw_faults(cx, told, number, &ends, inner);
        match number {
            protocol::TCP => {
                let seq = Seq(u32::from_be_bytes([ports[4], ports[5], ports[6], ports[7]]));
                let headers = if source.is_v4() { 40 } else { 60 };
                let message = match about {
                    About::Wrong(_) => return,
                    About::Error(error) => Icmp::Unreachable(error),
                    About::TooBig(mtu) => Icmp::TooBig {
                        mss: mtu.saturating_sub(headers).min(65_535) as u16,
                    },
                };
                if matches!(self.connections.get(&ends), Some(Place::Stream(_))) {
                    self.stream_error(cx, &ends, message, seq);
                }
            }
            protocol::UDP | protocol::UDP_LITE => {
                self.datagram_fault(cx, told, number, &ends, inner)
            }
            protocol::ICMP | protocol::ICMP_V6 => {
                // An echo's number is in the place of its sender's port.
                let ends = Ends {
                    local_port: u16::from_be_bytes([ports[4], ports[5]]),
                    remote_port: 0,
                    ..ends
                };
                self.datagram_fault(cx, told, number, &ends, inner);
            }
            _ => {}
        }
    }

    fn answer_echo(&mut self, cx: &mut Context, arrived: &Arrived, kind: u8) {
        let bytes = arrived.packet.payload(arrived.payload);
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return;
        };
        let mut answer = *head;
        answer[0] = kind;
        let (from, to) = (arrived.header.destination, arrived.header.source);
        match arrived.options() {
            [] => self.send_icmp(cx, from, to, answer, rest),
            options => {
                // Where the question has been, for who asked (RFC 1122, 3.2.2.6).
                let options = options::answer(options);
                self.send_icmp_with(cx, (from, to), answer, rest, &options);
            }
        }
    }

    /// Send a message: its header, whose checksum is made, and what follows.
    pub(crate) fn send_icmp(
        &mut self,
        cx: &mut Context,
        from: Address,
        to: Address,
        head: [u8; HEADER],
        rest: &[u8],
    ) {
        self.send_icmp_with(cx, (from, to), head, rest, &[]);
    }

    /// The same with options of IPv4.
    fn send_icmp_with(
        &mut self,
        cx: &mut Context,
        (from, to): (Address, Address),
        mut head: [u8; HEADER],
        rest: &[u8],
        options: &[u8],
    ) {
        let Some(way) = self.interfaces.way(&to, 0) else {
            return;
        };
        let source = match self.interfaces.is_own(&from) {
            true => from,
            false => way.source,
        };
        let header = Header {
            source,
            destination: to,
            protocol: match to.is_v4() {
                true => protocol::ICMP,
                false => protocol::ICMP_V6,
            },
            ttl: 64,
            ..Header::default()
        };
        head[2..4].copy_from_slice(&[0, 0]);
        let identification = self.next_identification();
        let length = HEADER + rest.len() + options.len();
        let Some(mut packet) = Packet::new(&header, length, identification) else {
            return;
        };
        if !options.is_empty() {
            self.insert_options(cx, &mut packet, options, source);
        }
        let bytes = packet.extend(HEADER + rest.len());
        bytes[..HEADER].copy_from_slice(&head);
        bytes[HEADER..].copy_from_slice(rest);
        // (Raw sockets look at it, also of what does not leave the machine.)
        let sum = match to.is_v4() {
            true => plain_checksum(bytes),
            false => checksum(&header, bytes),
        };
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.sum = Sum::Right;
        self.output(cx, packet, &way);
    }

    /// A packet of ours found no neighbour: who sent it is told by a message from this machine to itself.
    pub(crate) fn neighbour_missing(&mut self, cx: &mut Context, packet: &Packet) {
        let Some((header, _)) = packet.parse() else {
            return;
        };
        let (head, most) = match header.is_v4() {
            true => ([v4::UNREACHABLE, 1], QUOTED_V4),
            false => ([v6::UNREACHABLE, 3], QUOTED_V6),
        };
        let head = [head[0], head[1], 0, 0, 0, 0, 0, 0];
        let (bytes, source) = (packet.bytes(), header.source);
        if self.interfaces.is_own(&source) {
            self.send_icmp(cx, source, source, head, &bytes[..bytes.len().min(most)]);
        } else {
            self.tell_sender(cx, packet, &header, (head[0], head[1]), 0);
        }
    }

    /// Nobody has this port.
    pub(crate) fn port_unreachable(&mut self, cx: &mut Context, arrived: &Arrived) {
        let kind = match arrived.header.is_v4() {
            true => (v4::UNREACHABLE, 3),
            false => (v6::UNREACHABLE, 4),
        };
        self.send_error(cx, arrived, kind, 0);
    }

    /// Nobody speaks this protocol.
    pub(crate) fn protocol_unreachable(&mut self, cx: &mut Context, arrived: &Arrived) {
        match arrived.header.is_v4() {
            true => self.send_error(cx, arrived, (v4::UNREACHABLE, 2), 0),
            // RFC 8200, 4: where in the packet the next header stands.
            false => {
                let named_at = match extensions::follow(arrived.packet.bytes()) {
                    Chain::Upper { named_at, .. } => named_at,
                    _ => 6,
                };
                let kind = (v6::PARAMETER_PROBLEM, 1);
                self.send_error(cx, arrived, kind, named_at as u32);
            }
        }
    }

    /// What is wrong with the headers of a packet of IPv6 is told to who sent it (RFC 4443, 3.4).
    pub(crate) fn complain(&mut self, cx: &mut Context, packet: &Packet) {
        if let Chain::Problem { code, at, group } = extensions::follow(packet.bytes()) {
            let kind = (v6::PARAMETER_PROBLEM, code);
            self.send_error_about(cx, packet.bytes(), kind, at as u32, group);
        }
    }

    /// The same of a packet of IPv4: which byte of its header is wrong (RFC 792).
    pub(crate) fn wrong_options(&mut self, cx: &mut Context, packet: &Packet, at: usize) {
        let kind = (v4::PARAMETER_PROBLEM, 0);
        let word = (at as u32) << 24;
        self.send_error_about(cx, packet.bytes(), kind, word, false);
    }

    /// Not all pieces of a packet came in time, and this is the first one (RFC 792; RFC 4443, 3.3).
    pub(crate) fn pieces_missing(&mut self, cx: &mut Context, first: &[u8]) {
        let kind = match first.first().map(|first| first >> 4) {
            Some(4) => (v4::EXCEEDED, 1),
            _ => (v6::EXCEEDED, 1),
        };
        self.send_error_about(cx, first, kind, 0, false);
    }

    /// About a packet that is not taken in; of one to a group only if `group`. An error is not answered by another (RFC 1122, 3.2.2; RFC 4443, 2.4).
    fn send_error_about(
        &mut self,
        cx: &mut Context,
        bytes: &[u8],
        (kind, code): (u8, u8),
        word: u32,
        group: bool,
    ) {
        let is_v4 = bytes.first().is_some_and(|first| first >> 4 == 4);
        let (source, own, error, most) = match is_v4 {
            true => {
                let Some(head) = bytes.first_chunk::<20>() else {
                    return;
                };
                let address =
                    |at: usize| Address::v4([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                let inner = bytes.get(usize::from(head[0] & 15) * 4);
                let asks = inner.is_some_and(|kind| [v4::ECHO, v4::ECHO_REPLY].contains(kind));
                let error = head[9] == protocol::ICMP && !asks;
                (address(12), address(16), error, QUOTED_V4)
            }
            false => {
                let address = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk());
                let (Some(source), Some(own)) = (address(8), address(24)) else {
                    return;
                };
                let error = extensions::carries_error(bytes);
                (Address(*source), Address(*own), error, QUOTED_V6)
            }
        };
        let ours = self.interfaces.is_own(&own) || own.is_multicast() && group;
        // (On a wire nobody has a mapped address.)
        let nobody = source.is_any() || source.is_multicast() || source.is_v4() != is_v4;
        if !ours || nobody || error || self.interfaces.is_broadcast(&source) {
            return;
        }
        let [a, b, c, d] = word.to_be_bytes();
        let head = [kind, code, 0, 0, a, b, c, d];
        let quoted = &bytes[..bytes.len().min(most)];
        self.send_error_to(cx, own, source, head, quoted);
    }

    /// Errors into links have a [rate](crate::rate).
    pub(crate) fn send_error_to(
        &mut self,
        cx: &mut Context,
        from: Address,
        to: Address,
        head: [u8; HEADER],
        quoted: &[u8],
    ) {
        let Some(way) = self.interfaces.way(&to, 0) else {
            return;
        };
        if !self.is_loopback(way.interface) {
            let (now, random) = (self.now(cx), self.random_word());
            if !self.errors.take(now, random) {
                return;
            }
        }
        self.send_icmp(cx, from, to, head, quoted);
    }

    fn send_error(
        &mut self,
        cx: &mut Context,
        arrived: &Arrived,
        (kind, code): (u8, u8),
        word: u32,
    ) {
        let to = arrived.header.source;
        if to.is_any() || to.is_multicast() || arrived.several {
            return;
        }
        let most = match arrived.header.is_v4() {
            true => QUOTED_V4,
            false => QUOTED_V6,
        };
        let bytes = arrived.packet.bytes();
        let quoted = &bytes[..bytes.len().min(most).min(arrived.payload.end)];
        let [a, b, c, d] = word.to_be_bytes();
        let head = [kind, code, 0, 0, a, b, c, d];
        // (The quoted bytes are borrowed from a packet that nobody else has.)
        self.send_error_to(cx, arrived.header.destination, to, head, quoted);
    }
}
