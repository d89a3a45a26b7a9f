//! Sockets for packets as they are: raw ones, which get a copy of each packet of their protocol, and those that send echoes (icmp(7)).

use crate::address::Endpoint;
use crate::datagram::{join, leave};
use crate::icmp::{v4, v6};
use crate::interface::Way;
use crate::internet::Arrived;
use crate::packet::{checksum, protocol, Header, Packet, Payload, Sum, HEADROOM, IPV4, IPV6};
use crate::server::{fail, Net, Sent};
use alloc::vec::Vec;
use cairn_ethernet::fragments::checksum as plain_checksum;
use cairn_idl::errno::*;
use cairn_idl::net::{INET, INET6};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// An echo's header.
const ECHO: usize = 8;

impl Net {
    /// A raw socket gets packets from now on. False: there is no memory.
    pub(crate) fn list_raw(&mut self, index: u32) -> bool {
        let Some(socket) = self.sockets.get_mut(index) else {
            return false;
        };
        let key = (socket.family, socket.protocol);
        join(&mut self.raws, key, socket, index)
    }

    pub(crate) fn unlist_raw(&mut self, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        if !socket.is_raw() || !matches!(socket.family, INET | INET6) {
            return;
        }
        let key = (socket.family, socket.protocol);
        leave(&mut self.raws, &key, &mut self.sockets, index);
    }

    /// Each raw socket of a packet's protocol gets a copy. Was there one?
    pub(crate) fn raw_arrives(&mut self, cx: &mut Context, arrived: &Arrived) -> bool {
        let header = arrived.header;
        let family = if header.is_v4() { INET } else { INET6 };
        let key = (family, header.protocol);
        if self.raws.is_empty() || !self.raws.contains(&key) {
            return false;
        }
        let message = arrived.packet.payload(arrived.payload);
        let kind = message.first().copied().unwrap_or(0);
        let mut at = 0;
        while let Some(index) = self.raws.get(&key).and_then(|group| group.get(at).copied()) {
            at += 1;
            let Some(socket) = self.sockets.get(index) else {
                continue;
            };
            let local = socket.local.address;
            let ours = local.is_any() || local == header.destination;
            let theirs = socket
                .remote
                .is_none_or(|remote| remote.address == header.source);
            let icmp = match header.is_v4() {
                // Of IPv4 the filter has the first 32 types.
                true => header.protocol == protocol::ICMP && kind < 32,
                false => header.protocol == protocol::ICMP_V6,
            };
            let group = header.destination.is_multicast() && !self.hears(index, arrived);
            if group || !ours || !theirs || icmp && !socket.wants(kind) {
                continue;
            }
            let Some(copy) = arrived.copy() else {
                continue;
            };
            // Of IPv4 the header is part of what is read.
            let payload = match header.is_v4() {
                true => Payload {
                    start: 0,
                    ..arrived.payload
                },
                false => arrived.payload,
            };
            self.queue_datagram(cx, index, Endpoint::new(header.source, 0), copy, payload);
        }
        true
    }

    /// The answer to an echo, for who sent it.
    pub(crate) fn echo_replied(&mut self, cx: &mut Context, arrived: Arrived) {
        let bytes = arrived.packet.payload(arrived.payload);
        let Some(head) = bytes.first_chunk::<ECHO>() else {
            return;
        };
        let port = u16::from_be_bytes([head[4], head[5]]);
        let address = arrived.header.destination;
        let (number, source) = (arrived.header.protocol, arrived.header.source);
        let found = [address, address.wildcard()].into_iter().find_map(|place| {
            let place = Endpoint::new(place, port);
            self.datagrams.get(&(number, place))?.last().copied()
        });
        let payload = arrived.payload;
        if let Some(index) = found {
            self.queue_datagram(cx, index, Endpoint::new(source, 0), arrived, payload);
        }
    }

    /// Send a packet's payload: an echo, whose number is the socket's own, or of a raw socket anything.
    pub(crate) fn send_raw(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        sent: &Sent,
    ) -> Answer<usize> {
        if length > 65_535 - crate::packet::IPV4 {
            return fail(EMSGSIZE);
        }
        let socket = self.socket(index)?;
        let (raw, number) = (socket.is_raw(), socket.protocol);
        if !raw && length < ECHO {
            return fail(EINVAL);
        }
        let (to, header, way) = self.sending(cx, index, sent)?;
        let mut header = Header {
            protocol: number,
            ..header
        };
        let between = self.between(cx, index, sent, &header)?;
        if raw && self.socket(index)?.makes_headers() {
            return match between {
                Some(_) if header.is_v4() => fail(EINVAL),
                _ => {
                    self.send_with_header(cx, index, (length, sent.skipped as usize), (header, way))
                }
            };
        }
        let whole = length + between.as_ref().map_or(0, |of| of.bytes.len());
        self.measure(cx, index, (&to, &way), &mut header, whole)?;
        let port = self.socket(index)?.local.port;
        let identification = self.next_identification();
        let packet = Packet::new(&header, whole, identification);
        let mut packet = packet.ok_or(Failure::Errno(ENOBUFS))?;
        packet.mtu = way.mtu;
        if let Some(between) = &between {
            packet.insert(&between.bytes, between.first);
        }
        let bytes = packet.extend(length);
        cx.fetch(sent.skipped as usize, bytes)?;
        if !raw {
            let echo = match number {
                protocol::ICMP => v4::ECHO,
                _ => v6::ECHO,
            };
            if bytes[0] != echo || bytes[1] != 0 {
                return fail(EINVAL);
            }
            bytes[4..6].copy_from_slice(&port.to_be_bytes());
        }
        // A raw socket makes its own checksums, but for those of ICMPv6 (RFC 3542, 3.1).
        if length >= 4 && (!raw || number == protocol::ICMP_V6) {
            bytes[2..4].copy_from_slice(&[0, 0]);
            let sum = match number {
                protocol::ICMP => plain_checksum(bytes),
                _ => checksum(&header, bytes),
            };
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            packet.sum = Sum::Right;
        }
        self.output_as_addressed(cx, index, (packet, header), &way);
        Ok(length)
    }

    /// A raw socket's packet with its own header (IP_HDRINCL, IPV6_HDRINCL).
    #[cold]
    fn send_with_header(
        &mut self,
        cx: &mut Context,
        index: u32,
        (length, skipped): (usize, usize),
        (header, way): (Header, Way),
    ) -> Answer<usize> {
        if length > way.mtu as usize {
            let to = Endpoint::new(header.destination, 0);
            return self.too_long(cx, index, to, way.mtu);
        }
        if length < if header.is_v4() { IPV4 } else { IPV6 } {
            return fail(EINVAL);
        }
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(HEADROOM + length);
        room.map_err(|_| Failure::Errno(ENOBUFS))?;
        bytes.resize(HEADROOM + length, 0);
        let own = &mut bytes[HEADROOM..];
        cx.fetch(skipped, own)?;
        if header.is_v4() {
            self.complete_v4(own, &header)?;
        } else if own[0] >> 4 != 6 {
            // (What is no header at all nobody takes.)
            return Ok(length);
        }
        let mut packet = Packet::received(bytes, HEADROOM);
        packet.mtu = way.mtu;
        self.output_as_addressed(cx, index, (packet, header), &way);
        Ok(length)
    }

    /// Into a header of IPv4 that a program made go its length, its sum, and a source and a number that are not there (raw(7)).
    fn complete_v4(&mut self, own: &mut [u8], header: &Header) -> Answer<()> {
        let length = own.len();
        let head = usize::from(own[0] & 15) * 4;
        // (One that is no header at all Linux sends as it is.)
        if head < IPV4 || head > length || own[0] >> 4 != 4 {
            return fail(EINVAL);
        }
        own[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        if own[4..6] == [0, 0] {
            own[4..6].copy_from_slice(&self.next_identification().to_be_bytes());
        }
        if own[12..16] == [0; 4] {
            own[12..16].copy_from_slice(&header.source.as_v4().unwrap_or_default());
        }
        own[10..12].fill(0);
        let sum = plain_checksum(&own[..head]);
        own[10..12].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }

    /// A packet leaves by this way, to a group or to one.
    #[inline(always)]
    pub(crate) fn output_as_addressed(
        &mut self,
        cx: &mut Context,
        index: u32,
        (packet, header): (Packet, Header),
        way: &Way,
    ) {
        match header.destination.is_multicast() {
            true => self.output_to_group(cx, index, (packet, header), way),
            false => self.output(cx, packet, way),
        }
    }
}
