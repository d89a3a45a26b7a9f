//! Packets of IP: made with room in front for a link's header, and taken apart. What is taken apart is what smoltcp's `wire` found consistent.

use crate::address::Address;
use alloc::vec::Vec;
use cairn_ethernet::extensions::{self, Chain};
use cairn_ethernet::fragments::{fold, sum};
use smoltcp::wire::{IpProtocol, Ipv4Address, Ipv4Packet, Ipv6Address, Ipv6Packet};

/// Room in front of a packet: the headers of Ethernet and of a virtual device.
pub const HEADROOM: usize = 32;
pub const IPV4: usize = 20;
pub const IPV6: usize = 40;

/// Protocols above IP.
pub mod protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMP_V6: u8 = 58;
    /// RFC 3828
    pub const UDP_LITE: u8 = 136;
}

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    pub source: Address,
    pub destination: Address,
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// It must not be cut into fragments (IPv4).
    pub whole: bool,
}

impl Header {
    pub fn is_v4(&self) -> bool {
        self.destination.is_v4()
    }

    pub fn length(&self) -> usize {
        match self.is_v4() {
            true => IPV4,
            false => IPV6,
        }
    }
}

/// What is known of a packet's sum of TCP or UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sum {
    /// It is there, or should be: who takes the packet in looks at it.
    #[default]
    Made,
    /// It is not there yet. In its place is the sum of the pseudo-header, and the packet is good. Who sends it out of the machine makes it.
    Missing,
    /// It was looked at: a link found it right, or this machine has made it.
    Right,
}

/// A whole packet, from its IP header on.
pub struct Packet {
    bytes: Vec<u8>,
    start: usize,
    /// It did not leave this machine: its header's checksum is not looked at.
    pub trusted: bool,
    pub sum: Sum,
    /// It is a segment of TCP that its link cuts into such with so many bytes of text each; 0: it is not.
    pub cut: u16,
    /// Sockets of AF_PACKET have seen it come.
    pub seen: bool,
    /// Its way carries no more whole, whatever its link does.
    pub mtu: u32,
    /// It came in pieces.
    pub joined: bool,
    /// It was sent to several machines of its link.
    pub group: bool,
}

/// Where what a packet carries lies in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    pub start: usize,
    pub end: usize,
}

impl Packet {
    /// With this header, for a payload of so many bytes, which are to be put behind it. None: it is too long, or there is no memory.
    pub fn new(header: &Header, length: usize, identification: u16) -> Option<Packet> {
        let head = header.length();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(HEADROOM + head + length).ok()?;
        bytes.resize(HEADROOM + head, 0);
        let own = &mut bytes[HEADROOM..];
        match (header.source.as_v4(), header.destination.as_v4()) {
            (Some(source), Some(destination)) => {
                let total = u16::try_from(head + length).ok()?;
                let mut packet = Ipv4Packet::new_unchecked(own);
                packet.set_version(4);
                packet.set_header_len(IPV4 as u8);
                packet.set_dscp(header.tos >> 2);
                packet.set_ecn(header.tos & 3);
                packet.set_total_len(total);
                packet.set_ident(identification);
                packet.clear_flags();
                packet.set_dont_frag(header.whole);
                packet.set_hop_limit(header.ttl);
                packet.set_next_header(IpProtocol::from(header.protocol));
                packet.set_src_addr(Ipv4Address::from(source));
                packet.set_dst_addr(Ipv4Address::from(destination));
                packet.fill_checksum();
            }
            (None, None) => {
                let mut packet = Ipv6Packet::new_unchecked(own);
                packet.set_version(6);
                packet.set_traffic_class(header.tos);
                packet.set_payload_len(u16::try_from(length).ok()?);
                packet.set_next_header(IpProtocol::from(header.protocol));
                packet.set_hop_limit(header.ttl);
                packet.set_src_addr(Ipv6Address::from(header.source.0));
                packet.set_dst_addr(Ipv6Address::from(header.destination.0));
            }
            _ => return None,
        }
        Some(Packet {
            bytes,
            start: HEADROOM,
            trusted: false,
            sum: Sum::Made,
            cut: 0,
            seen: false,
            mtu: u32::MAX,
            joined: false,
            group: false,
        })
    }

    /// One that came from a link: `start` is where its IP header begins.
    pub fn received(bytes: Vec<u8>, start: usize) -> Packet {
        Packet {
            start: start.min(bytes.len()),
            bytes,
            trusted: false,
            sum: Sum::Made,
            cut: 0,
            seen: false,
            mtu: u32::MAX,
            joined: false,
            group: false,
        }
    }

    /// The same of one that came in pieces.
    pub fn joined(bytes: Vec<u8>) -> Packet {
        Packet {
            joined: true,
            ..Packet::received(bytes, 0)
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// More bytes of the payload, for which there is memory.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// So many zeros more of it, to be written.
    pub fn extend(&mut self, length: usize) -> &mut [u8] {
        let at = self.bytes.len();
        self.bytes.resize(at + length, 0);
        &mut self.bytes[at..]
    }

    /// What goes between its header and its payload, for which its length and memory have room: options of IPv4, or headers of IPv6, the first of this kind.
    #[cold]
    #[inline(never)]
    pub fn insert(&mut self, between: &[u8], first: u8) {
        self.bytes.extend_from_slice(between);
        let own = self.bytes_mut();
        if own[0] >> 4 == 6 {
            own[6] = first;
            return;
        }
        let mut packet = Ipv4Packet::new_unchecked(own);
        packet.set_header_len((IPV4 + between.len()) as u8);
        packet.fill_checksum();
    }

    /// Options of IPv4, as long as those that it has, in their place.
    #[cold]
    pub fn change_options(&mut self, options: &[u8]) {
        let own = self.bytes_mut();
        if let Some(place) = own.get_mut(IPV4..IPV4 + options.len()) {
            place.copy_from_slice(options);
            Ipv4Packet::new_unchecked(own).fill_checksum();
        }
    }

    /// Only so many bytes are the packet.
    pub fn shorten(&mut self, length: usize) {
        self.bytes.truncate(self.start.saturating_add(length));
    }

    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Where its sum of TCP or UDP is: from where on it sums up, and how far behind that it is. None: it has no such sum, or it is not there at once.
    pub fn sum_place(&self) -> Option<(usize, usize)> {
        let bytes = self.bytes();
        let (protocol, start) = match bytes.first()? >> 4 {
            4 => (*bytes.get(9)?, usize::from(bytes[0] & 15) * 4),
            _ => (*bytes.get(6)?, IPV6),
        };
        let at = sum_at(protocol)?;
        (start + at + 2 <= bytes.len()).then_some((start, at))
    }

    /// Make its sum, if it is missing.
    pub fn finish(&mut self) {
        if self.sum != Sum::Missing {
            return;
        }
        self.sum = Sum::Made;
        let Some((header, payload)) = self.parse() else {
            return;
        };
        let own = self.bytes_mut().get_mut(payload.start..payload.end);
        let (Some(at), Some(own)) = (sum_at(header.protocol), own) else {
            return;
        };
        if own.len() < at + 2 {
            return;
        }
        own[at..at + 2].fill(0);
        let sum = match checksum(&header, own) {
            // (Of UDP 0 is no sum.)
            0 if header.protocol == protocol::UDP => 0xffff,
            sum => sum,
        };
        own[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// So many bytes in front of it, for a link's header; what lies there. None: there is no room.
    pub fn prepend(&mut self, length: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(length)?;
        self.bytes.get_mut(self.start..self.start + length)
    }

    /// What its header says, and where its payload is. None: it is no packet that this machine understands.
    pub fn parse(&self) -> Option<(Header, Payload)> {
        let bytes = self.bytes();
        match bytes.first()? >> 4 {
            4 => {
                let packet = Ipv4Packet::new_checked(bytes).ok()?;
                // (Fragments are put together before they come here.)
                if packet.more_frags() || packet.frag_offset() != 0 {
                    return None;
                }
                if usize::from(packet.header_len()) < IPV4 {
                    return None;
                }
                if !self.trusted && !packet.verify_checksum() {
                    return None;
                }
                let header = Header {
                    source: Address::v4(packet.src_addr().octets()),
                    destination: Address::v4(packet.dst_addr().octets()),
                    protocol: packet.next_header().into(),
                    ttl: packet.hop_limit(),
                    tos: packet.dscp() << 2 | packet.ecn(),
                    whole: packet.dont_frag(),
                };
                let payload = Payload {
                    start: usize::from(packet.header_len()),
                    end: usize::from(packet.total_len()),
                };
                Some((header, payload))
            }
            6 => {
                let packet = Ipv6Packet::new_checked(bytes).ok()?;
                let header = Header {
                    source: Address(packet.src_addr().octets()),
                    destination: Address(packet.dst_addr().octets()),
                    protocol: packet.next_header().into(),
                    ttl: packet.hop_limit(),
                    tos: packet.traffic_class(),
                    whole: true,
                };
                // Nobody sends mapped addresses through a wire.
                if header.source.is_v4() || header.destination.is_v4() {
                    return None;
                }
                let Chain::Upper {
                    protocol, start, ..
                } = extensions::follow(bytes)
                else {
                    return None;
                };
                let header = Header { protocol, ..header };
                let payload = Payload {
                    start,
                    end: IPV6 + usize::from(packet.payload_len()),
                };
                Some((header, payload))
            }
            _ => None,
        }
    }

    /// Options, if it is one of IPv4 that was understood.
    pub fn options(&self) -> &[u8] {
        let bytes = self.bytes();
        let end = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
        bytes.get(IPV4..end).unwrap_or(&[])
    }

    pub fn payload(&self, payload: Payload) -> &[u8] {
        self.bytes().get(payload.start..payload.end).unwrap_or(&[])
    }
}

/// Where the sum is in a header of TCP or UDP.
fn sum_at(of: u8) -> Option<usize> {
    match of {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        _ => None,
    }
}

/// The sum of these addresses' pseudo-header, with so many bytes behind it. (Of an address of IPv4 it is the same: what stands before it is 0xffff, which
/// changes no such sum.)
#[inline]
fn pseudo_sum(header: &Header, length: usize) -> u64 {
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&header.source.0);
    addresses[16..].copy_from_slice(&header.destination.0);
    let length = length as u64;
    sum(&addresses) + (length >> 16) + (length & 0xffff) + u64::from(header.protocol)
}

/// What stands in the place of a [missing](Sum::Missing) sum.
#[inline]
pub fn pseudo(header: &Header, length: usize) -> u16 {
    !fold(pseudo_sum(header, length))
}

/// The same sum of a datagram of UDP-Lite (RFC 3828, 3.1) of so many bytes, of which these are covered.
pub fn checksum_of(header: &Header, length: usize, covered: &[u8]) -> u16 {
    fold(pseudo_sum(header, length) + sum(covered))
}

/// The Internet checksum (RFC 1071) with the pseudo-header of these addresses.
pub fn checksum(header: &Header, bytes: &[u8]) -> u16 {
    fold(pseudo_sum(header, bytes.len()) + sum(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(v4: bool, protocol: u8) -> Header {
        let address = |last| match v4 {
            true => Address::v4([10, 255, 0, last]),
            false => Address([0xfd, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, last]),
        };
        Header {
            source: address(1),
            destination: address(2),
            protocol,
            ttl: 64,
            ..Header::default()
        }
    }

    proptest! {
        /// A sum that is missing is made, here or as a device does: both come to the same.
        #[test]
        fn a_missing_sum_is_made(v4: bool, udp: bool, bytes in prop::collection::vec(any::<u8>(), 20..100)) {
            let header = header(v4, if udp { protocol::UDP } else { protocol::TCP });
            let mut packet = Packet::new(&header, bytes.len(), 1).unwrap();
            packet.push(&bytes);
            let (start, at) = packet.sum_place().unwrap();
            let pseudo = pseudo(&header, bytes.len());
            packet.bytes_mut()[start + at..][..2].copy_from_slice(&pseudo.to_be_bytes());
            let by_device = cairn_ethernet::fragments::checksum(&packet.bytes()[start..]);
            packet.sum = Sum::Missing;
            packet.finish();
            prop_assert_eq!(checksum(&header, &packet.bytes()[start..]), 0);
            let own = [packet.bytes()[start + at], packet.bytes()[start + at + 1]];
            let own = u16::from_be_bytes(own);
            prop_assert!(own == by_device || (own, by_device) == (0xffff, 0));
            prop_assert!(packet.sum == Sum::Made);
        }
    }

    #[test]
    fn what_has_no_sum_is_left_alone() {
        let mut packet = Packet::new(&header(true, 132), 30, 1).unwrap();
        packet.push(&[7; 30]);
        packet.sum = Sum::Missing;
        assert_eq!(packet.sum_place(), None);
        packet.finish();
        assert_eq!(packet.bytes()[20..], [7; 30]);
    }
}
