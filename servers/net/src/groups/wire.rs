//! Messages about groups: IGMP of versions 1, 2 and 3 (RFC 1112, 2236, 3376), and MLD of versions 1 and 2 (RFC 2710, 3810). What comes is not believed:
//! a message that is not whole is none.

use crate::address::Address;
use crate::packet::{checksum, protocol, Header, Packet, HEADROOM};
use alloc::vec::Vec;
use cairn_ethernet::fragments::checksum as plain_checksum;

/// The protocol's number.
pub const IGMP: u8 = 2;

/// Types of IGMP.
const QUERY: u8 = 0x11;
const REPORT_1: u8 = 0x12;
const REPORT_2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_3: u8 = 0x22;
/// Types of ICMPv6.
pub const QUERY_6: u8 = 130;
const REPORT_6: u8 = 131;
const DONE: u8 = 132;
const REPORT_6_2: u8 = 143;

pub const ALL_SYSTEMS: Address = Address::v4([224, 0, 0, 1]);
const ALL_ROUTERS: Address = Address::v4([224, 0, 0, 2]);
const REPORTS: Address = Address::v4([224, 0, 0, 22]);
const ALL_ROUTERS_6: Address = Address([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
const REPORTS_6: Address = Address([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16]);

/// Kinds of records (RFC 3376, 4.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    IsInclude = 1,
    IsExclude = 2,
    ToInclude = 3,
    ToExclude = 4,
    Allow = 5,
    Block = 6,
}

/// Which version the routers of a link speak: the present one, the one before, or (of IGMP) the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Default)]
pub enum Version {
    First,
    Second,
    #[default]
    Present,
}

/// A router asks who is a member.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    pub version: Version,
    /// None: of which groups?
    pub group: Option<Address>,
    /// Answers are to come within so many ms.
    pub within: u64,
    /// Of these sources only, if there are any.
    pub sources: Vec<Address>,
    /// How often a router wants changes told, and (s) how far apart its questions are: 0, that is not said.
    pub robustness: u8,
    pub interval: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    Query(Query),
    /// Somebody else is a member (in the older versions).
    Report(Address),
}

/// Most sources of a question that are looked at: of more, all are asked for.
const MOST: usize = 64;

/// An exponent of 3 bits and a mantissa of `bits` (RFC 3376, 4.1.1; RFC 3810, 5.1.3).
fn floating(code: u32, bits: u32) -> u64 {
    let first = 1 << (bits + 3);
    match code < first {
        true => u64::from(code),
        false => u64::from(code & ((1 << bits) - 1) | 1 << bits) << ((code >> bits & 7) + 3),
    }
}

fn sources<const N: usize>(bytes: &[u8], make: impl Fn([u8; N]) -> Address) -> Vec<Address> {
    let mut all = Vec::new();
    let (chunks, _) = bytes.as_chunks::<N>();
    if chunks.len() <= MOST && all.try_reserve_exact(chunks.len()).is_ok() {
        all.extend(chunks.iter().map(|chunk| make(*chunk)));
    }
    all
}

/// A message of IGMP, whose checksum is right.
pub fn parse_v4(bytes: &[u8]) -> Option<Message> {
    let head = bytes.first_chunk::<8>()?;
    let group = Address::v4([head[4], head[5], head[6], head[7]]);
    match head[0] {
        QUERY => {}
        REPORT_1 | REPORT_2 => return group.is_multicast().then_some(Message::Report(group)),
        _ => return None,
    }
    let code = u32::from(head[1]);
    let asked = (!group.is_any()).then_some(group);
    if asked.is_some_and(|group| !group.is_multicast()) {
        return None;
    }
    let mut query = Query {
        version: Version::Second,
        group: asked,
        within: u64::from(code) * 100,
        sources: Vec::new(),
        robustness: 0,
        interval: 0,
    };
    match (bytes.len(), code) {
        (8, 0) => (query.version, query.within) = (Version::First, 10_000),
        (8, _) => {}
        (12.., _) => {
            let count = usize::from(u16::from_be_bytes([bytes[10], bytes[11]]));
            let named = bytes.get(12..12 + 4 * count)?;
            query.version = Version::Present;
            query.within = floating(code, 4) * 100;
            query.sources = sources(named, Address::v4);
            (query.robustness, query.interval) = (bytes[8] & 7, floating(bytes[9].into(), 4));
            if asked.is_none() && count != 0 {
                return None;
            }
        }
        _ => return None,
    }
    Some(Message::Query(query))
}

/// A message of MLD, whose checksum is right.
pub fn parse_v6(bytes: &[u8]) -> Option<Message> {
    let head = bytes.first_chunk::<24>()?;
    let group = Address(*head.last_chunk()?);
    match head[0] {
        QUERY_6 => {}
        REPORT_6 => return group.is_multicast().then_some(Message::Report(group)),
        _ => return None,
    }
    let code = u32::from(u16::from_be_bytes([head[4], head[5]]));
    let asked = (!group.is_any()).then_some(group);
    if asked.is_some_and(|group| !group.is_multicast() || group.is_v4()) {
        return None;
    }
    let mut query = Query {
        version: Version::Second,
        group: asked,
        within: u64::from(code),
        sources: Vec::new(),
        robustness: 0,
        interval: 0,
    };
    match bytes.len() {
        24 => {}
        28.. => {
            let count = usize::from(u16::from_be_bytes([bytes[26], bytes[27]]));
            let named = bytes.get(28..28 + 16 * count)?;
            query.version = Version::Present;
            query.within = floating(code, 12);
            query.sources = sources(named, Address);
            (query.robustness, query.interval) = (bytes[24] & 7, floating(bytes[25].into(), 4));
            if asked.is_none() && count != 0 {
                return None;
            }
        }
        _ => return None,
    }
    Some(Message::Query(query))
}

/// A report in the making: records, as many as a packet takes.
pub struct Report {
    v4: bool,
    records: u16,
    body: Vec<u8>,
    room: usize,
}

/// Bytes of headers in front of a message: IP's with the option that tells routers to look.
const HEADERS_4: usize = 24;
const HEADERS_6: usize = 48;
/// Tells routers to look: of IPv4 (RFC 2113), of IPv6 (RFC 2711).
const ALERT_4: [u8; 4] = [148, 4, 0, 0];
const ALERT_6: [u8; 8] = [protocol::ICMP_V6, 0, 5, 2, 0, 0, 1, 0];

impl Report {
    /// For packets of at most `mtu` bytes. None: there is no memory.
    pub fn new(v4: bool, mtu: u32) -> Option<Report> {
        let headers = if v4 { HEADERS_4 } else { HEADERS_6 };
        let room = (mtu as usize).clamp(576, 1500) - headers;
        let mut body = Vec::new();
        body.try_reserve_exact(room).ok()?;
        body.resize(8, 0);
        body[0] = if v4 { REPORT_3 } else { REPORT_6_2 };
        Some(Report {
            v4,
            records: 0,
            body,
            room,
        })
    }

    /// Is there room for a record with so many sources?
    pub fn fits(&self, sources: usize) -> bool {
        let size = if self.v4 { 4 } else { 16 };
        self.body.len() + 4 + size * (sources + 1) <= self.room
    }

    /// One more record: how many of these sources (of `at` on) it took. None: nothing more fits.
    pub fn add(
        &mut self,
        kind: Kind,
        group: &Address,
        sources: impl Iterator<Item = Address>,
    ) -> Option<usize> {
        let size = if self.v4 { 4 } else { 16 };
        let mut room = self.room.checked_sub(self.body.len() + 4 + size)?;
        let at = self.body.len();
        self.body.extend_from_slice(&[kind as u8, 0, 0, 0]);
        self.put(group);
        let mut taken = 0;
        for source in sources {
            if room < size {
                break;
            }
            (room, taken) = (room - size, taken + 1);
            self.put(&source);
        }
        self.body[at + 2..at + 4].copy_from_slice(&(taken as u16).to_be_bytes());
        self.records += 1;
        Some(taken)
    }

    fn put(&mut self, address: &Address) {
        let skipped = if self.v4 { 12 } else { 0 };
        self.body.extend_from_slice(&address.0[skipped..]);
    }

    /// The packet, and where it goes.
    pub fn packet(mut self, source: Address) -> Option<(Packet, Address)> {
        self.body[6..8].copy_from_slice(&self.records.to_be_bytes());
        let to = if self.v4 { REPORTS } else { REPORTS_6 };
        Some((packet(source, to, &mut self.body)?, to))
    }
}

/// A report of one group in an older version, or that nobody is a member of it any more. None: there is no such message.
pub fn old_message(
    version: Version,
    group: &Address,
    gone: bool,
    source: Address,
) -> Option<(Packet, Address)> {
    let Some(v4) = group.as_v4() else {
        let mut body = [0; 24];
        body[0] = if gone { DONE } else { REPORT_6 };
        body[8..].copy_from_slice(&group.0);
        let to = if gone { ALL_ROUTERS_6 } else { *group };
        return Some((packet(source, to, &mut body)?, to));
    };
    let kind = match (version, gone) {
        (Version::First, true) => return None,
        (Version::First, false) => REPORT_1,
        (_, true) => LEAVE,
        (_, false) => REPORT_2,
    };
    let [a, b, c, d] = v4;
    let mut body = [kind, 0, 0, 0, a, b, c, d];
    let to = if gone { ALL_ROUTERS } else { *group };
    Some((packet(source, to, &mut body)?, to))
}

/// A message with the headers that it has on its way: it goes no further than the link.
fn packet(source: Address, to: Address, body: &mut [u8]) -> Option<Packet> {
    body[2..4].fill(0);
    let Some(destination) = to.as_v4() else {
        let header = Header {
            source,
            destination: to,
            ttl: 1,
            ..Header::default()
        };
        let mut packet = Packet::new(&header, ALERT_6.len() + body.len(), 0)?;
        let protocol = protocol::ICMP_V6;
        let sum = checksum(&Header { protocol, ..header }, body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.push(&ALERT_6);
        packet.push(body);
        return Some(packet);
    };
    let sum = plain_checksum(body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = Vec::new();
    let length = HEADERS_4 + body.len();
    bytes.try_reserve_exact(HEADROOM + length).ok()?;
    bytes.resize(HEADROOM + HEADERS_4, 0);
    let head = &mut bytes[HEADROOM..];
    // Version and length, the class of what controls the network; not to be cut; one hop.
    (head[0], head[1], head[6], head[8], head[9]) = (0x46, 0xc0, 0x40, 1, IGMP);
    head[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    head[12..16].copy_from_slice(&source.as_v4().unwrap_or_default());
    head[16..20].copy_from_slice(&destination);
    head[20..24].copy_from_slice(&ALERT_4);
    let sum = plain_checksum(head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(body);
    Some(Packet::received(bytes, HEADROOM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_each_version() {
        let group = Address::v4([239, 1, 2, 3]);
        let query = |bytes: &[u8]| match parse_v4(bytes) {
            Some(Message::Query(query)) => query,
            other => panic!("{other:?}"),
        };
        let first = query(&[0x11, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((first.version, first.within), (Version::First, 10_000));
        let second = query(&[0x11, 100, 0, 0, 239, 1, 2, 3]);
        assert_eq!((second.version, second.within), (Version::Second, 10_000));
        assert_eq!(second.group, Some(group));
        let third = query(&[0x11, 0x8f, 0, 0, 239, 1, 2, 3, 2, 125, 0, 1, 10, 0, 0, 1]);
        assert_eq!((third.version, third.within), (Version::Present, 24_800));
        assert_eq!(third.sources, [Address::v4([10, 0, 0, 1])]);
        assert_eq!((third.robustness, third.interval), (2, 125));
        // Not whole; of a group that is none; a source of no group.
        for bad in [
            &[0x11, 1, 0, 0, 239, 1, 2, 3, 2, 125, 0, 1, 10, 0, 0][..],
            &[0x11, 1, 0, 0, 239, 1, 2, 3, 0, 0],
            &[0x11, 1, 0, 0, 10, 1, 2, 3],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 2, 125, 0, 1, 10, 0, 0, 1],
            &[0x11, 1, 0],
            &[0x99, 1, 0, 0, 239, 1, 2, 3],
        ] {
            assert_eq!(parse_v4(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn any_bytes_are_taken_apart() {
        let mut random = 5u64;
        let mut any = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        };
        for round in 0..200_000 {
            let length = usize::from(any()) % 80;
            let mut bytes: Vec<u8> = (0..length).map(|_| any()).collect();
            if let Some(first) = bytes.first_mut() {
                *first = [0x11, 0x12, 0x16, 130, 131, *first][round % 6];
            }
            let _ = (parse_v4(&bytes), parse_v6(&bytes));
        }
    }
}
