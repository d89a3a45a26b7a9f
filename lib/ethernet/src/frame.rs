//! Frames: addresses and kind in front of what they carry (IEEE 802.3, RFC 894), and the messages of ARP.

use crate::{Ip, Mac, BROADCAST};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Ipv4Address,
};

/// Bytes of the header.
pub const HEADER: usize = 14;
/// Bytes of a message of ARP, with the frame's header.
pub const ARP: usize = HEADER + 28;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ipv4,
    Ipv6,
    Arp,
}

/// Put a header into the first [`HEADER`] bytes.
pub fn write_header(into: &mut [u8], to: Mac, from: Mac, kind: Kind) {
    let mut frame = EthernetFrame::new_unchecked(into);
    frame.set_dst_addr(EthernetAddress(to));
    frame.set_src_addr(EthernetAddress(from));
    frame.set_ethertype(match kind {
        Kind::Ipv4 => EthernetProtocol::Ipv4,
        Kind::Ipv6 => EthernetProtocol::Ipv6,
        Kind::Arp => EthernetProtocol::Arp,
    });
}

/// A frame's destination, source and kind. None: it is none, or not of a kind that is known here.
pub fn parse(frame: &[u8]) -> Option<(Mac, Mac, Kind)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let kind = match frame.ethertype() {
        EthernetProtocol::Ipv4 => Kind::Ipv4,
        EthernetProtocol::Ipv6 => Kind::Ipv6,
        EthernetProtocol::Arp => Kind::Arp,
        EthernetProtocol::Unknown(_) => return None,
    };
    Some((frame.dst_addr().0, frame.src_addr().0, kind))
}

/// Is a frame with this destination for a station of this address?
pub fn is_for(to: Mac, mac: Mac) -> bool {
    to == mac || to[0] & 1 == 1
}

/// The address that frames to a group of IPv4 or IPv6 go to (RFC 1112, 6.4; RFC 2464, 7).
pub fn group_v4(ip: Ip) -> Mac {
    [0x01, 0x00, 0x5e, ip[1] & 0x7f, ip[2], ip[3]]
}

pub fn group_v6(ip: [u8; 16]) -> Mac {
    [0x33, 0x33, ip[12], ip[13], ip[14], ip[15]]
}

/// A message of ARP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    pub request: bool,
    pub sender: (Mac, Ip),
    pub target: (Mac, Ip),
}

/// What stands behind the header. None: it is no message about IPv4 on Ethernet.
pub fn parse_arp(bytes: &[u8]) -> Option<Arp> {
    let packet = ArpPacket::new_checked(bytes).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_hardware_addr,
        target_protocol_addr,
    } = ArpRepr::parse(&packet).ok()?
    else {
        return None;
    };
    let request = match operation {
        ArpOperation::Request => true,
        ArpOperation::Reply => false,
        ArpOperation::Unknown(_) => return None,
    };
    Some(Arp {
        request,
        sender: (source_hardware_addr.0, source_protocol_addr.octets()),
        target: (target_hardware_addr.0, target_protocol_addr.octets()),
    })
}

/// A whole frame: a question goes to everybody, an answer to who asked. Who asks whether a neighbour is still there (`to`) asks it alone.
pub fn arp(message: &Arp, to: Option<Mac>) -> [u8; ARP] {
    let mut bytes = [0; ARP];
    let to = to.unwrap_or(match message.request {
        true => BROADCAST,
        false => message.target.0,
    });
    write_header(&mut bytes, to, message.sender.0, Kind::Arp);
    let repr = ArpRepr::EthernetIpv4 {
        operation: match message.request {
            true => ArpOperation::Request,
            false => ArpOperation::Reply,
        },
        source_hardware_addr: EthernetAddress(message.sender.0),
        source_protocol_addr: Ipv4Address::from(message.sender.1),
        target_hardware_addr: EthernetAddress(message.target.0),
        target_protocol_addr: Ipv4Address::from(message.target.1),
    };
    repr.emit(&mut ArpPacket::new_unchecked(&mut bytes[HEADER..]));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: (Mac, Ip) = ([2, 0, 0, 0, 0, 1], [10, 0, 2, 15]);
    const OTHER: (Mac, Ip) = ([2, 0, 0, 0, 0, 2], [10, 0, 2, 2]);

    #[test]
    fn what_is_made_is_what_is_read() {
        let question = Arp {
            request: true,
            sender: ME,
            target: ([0; 6], OTHER.1),
        };
        let frame = arp(&question, None);
        assert_eq!(parse(&frame), Some((BROADCAST, ME.0, Kind::Arp)));
        assert_eq!(parse_arp(&frame[HEADER..]), Some(question));
        let answer = Arp {
            request: false,
            sender: OTHER,
            target: ME,
        };
        let frame = arp(&answer, None);
        assert_eq!(parse(&frame), Some((ME.0, OTHER.0, Kind::Arp)));
        // RFC 826: kinds, lengths, operation.
        assert_eq!(frame[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        for short in 0..ARP - HEADER {
            assert_eq!(parse_arp(&frame[HEADER..HEADER + short]), None);
        }
        assert!((0..HEADER).all(|short| parse(&frame[..short]).is_none()));
    }

    #[test]
    fn groups_have_addresses() {
        assert_eq!(group_v4([224, 129, 2, 3]), [1, 0, 0x5e, 1, 2, 3]);
        assert!(is_for(group_v4([224, 0, 0, 1]), ME.0) && is_for(BROADCAST, ME.0));
        assert!(is_for(ME.0, ME.0) && !is_for(OTHER.0, ME.0));
    }
}
