//! What programs add to the headers of their packets, and what they are told of those that came: options of IPv4 (IP_OPTIONS, ip(7)), headers of IPv6 with
//! options for every hop and for the destination (RFC 3542, 4 to 9). A send says so for itself, in front of its data, or a socket for all that it sends.
//!
//! Routes are not sent: neither the source routes of IPv4 nor the routing header of IPv6, as RFC 5095 wants it. What is kept for a socket is charged to its
//! payer. Packets without any of this pay a look at two pointers.

use crate::address::Address;
use crate::packet::{Header, Packet, IPV4};
use crate::server::{fail, fetched, Net, Sent};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_ethernet::extensions::{self, DESTINATION, HOP_BY_HOP};
use cairn_ethernet::options::{self, Here, Wrong};
use cairn_idl::capability;
use cairn_idl::errno::*;
use cairn_idl::net::{with, INET, INET6, NETLINK, PACKET};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// Levels of options and control messages.
const SOCKET: u32 = 1;
const IP: u32 = 0;
const UDP: u32 = 17;
const IPV6: u32 = 41;
/// IP_OPTIONS; IP_RECVOPTS and IP_RETOPTS.
const OPTIONS: u32 = 4;
const RECEIVE_OPTIONS: u32 = 6;
const RETURN_OPTIONS: u32 = 7;
const UDP_SEGMENT: u32 = 103;
/// SO_MARK; what SO_TIMESTAMPING may say of one send: stamps of it by device, software, scheduler and by its acknowledgement.
const MARK: u32 = 36;
const STAMPS_OF_SENDS: i32 = 1 | 2 | 256 | 512;
/// IP_PROTOCOL
const PROTOCOL: u32 = 52;
/// IPV6_PKTINFO, IPV6_HOPLIMIT and those of RFC 2292; IPV6_FLOWINFO, IPV6_DONTFRAG, IPV6_TCLASS.
const PACKET_INFO: u32 = 50;
const OLD_PACKET_INFO: u32 = 2;
const HOP_LIMIT: u32 = 52;
const OLD_HOP_LIMIT: u32 = 8;
const FLOW: u32 = 11;
const DO_NOT_CUT: u32 = 62;
const CLASS: u32 = 67;
/// IPV6_RECVHOPOPTS, IPV6_RECVRTHDR, IPV6_RECVDSTOPTS; IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS.
const RECEIVE_HOP: u32 = 53;
const HOP: u32 = 54;
const BEFORE_ROUTE: u32 = 55;
const RECEIVE_ROUTE: u32 = 56;
const ROUTE: u32 = 57;
const RECEIVE_DESTINATION: u32 = 58;
const END: u32 = 59;
/// Most bytes of one header.
const LONGEST: usize = 255 * 8;
/// In front of each control message: its length, level and number, and four bytes of zeros.
const HEAD: usize = 16;
/// What headers cost beside their bytes.
const OVERHEAD: usize = 64;
const DAY: u64 = 86_400_000;

/// Headers as they are sent, but for the byte in each that names what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    options: Vec<u8>,
    hop: Vec<u8>,
    /// It is only sent with a route.
    before_route: Vec<u8>,
    end: Vec<u8>,
}

impl Headers {
    pub(crate) fn cost(&self) -> usize {
        let bytes = [&self.options, &self.hop, &self.before_route, &self.end];
        match bytes.iter().map(|of| of.len()).sum() {
            0 => 0,
            bytes => OVERHEAD + bytes,
        }
    }

    fn has(&self, v4: bool) -> bool {
        match v4 {
            true => !self.options.is_empty(),
            false => !self.hop.is_empty() || !self.end.is_empty(),
        }
    }

    fn place(&mut self, level: u32, number: u32) -> Option<&mut Vec<u8>> {
        match (level, number) {
            (IP, OPTIONS) => Some(&mut self.options),
            (IPV6, HOP) => Some(&mut self.hop),
            (IPV6, BEFORE_ROUTE) => Some(&mut self.before_route),
            (IPV6, END) => Some(&mut self.end),
            _ => None,
        }
    }
}

/// `struct in6_pktinfo`: an address of this machine, and an interface.
fn packet_info(data: &[u8]) -> Answer<(Address, u32)> {
    match (data.first_chunk(), data.get(16..20)) {
        (Some(address), Some(&[a, b, c, d])) => {
            Ok((Address(*address), u32::from_ne_bytes([a, b, c, d])))
        }
        _ => fail(EINVAL),
    }
}

/// Is this an option about them?
pub fn is_option(level: u32, number: u32) -> bool {
    matches!(
        (level, number),
        (IP, OPTIONS) | (IPV6, HOP | BEFORE_ROUTE | ROUTE | END)
    )
}

/// What goes between a packet's header and its payload.
pub struct Between {
    pub bytes: Vec<u8>,
    /// Of IPv6: the first one's kind.
    pub first: u8,
}

/// A header as a program has it: as long as it says, at least.
fn header(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..usize::from(*bytes.get(1)?) * 8 + 8)
}

impl Net {
    /// What is added to a packet.
    #[inline(always)]
    pub(crate) fn between(
        &self,
        cx: &mut Context,
        index: u32,
        sent: &Sent,
        header: &Header,
    ) -> Answer<Option<Between>> {
        let kept = &self.socket(index)?.headers;
        match sent.skipped == 0 && kept.is_none() {
            true => Ok(None),
            false => {
                let own = self.noted.as_ref().filter(|_| sent.skipped != 0);
                self.make_between(cx, [own, kept.as_ref()], header)
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn make_between(
        &self,
        cx: &mut Context,
        given: [Option<&Rc<Headers>>; 2],
        header: &Header,
    ) -> Answer<Option<Between>> {
        let v4 = header.is_v4();
        // What a send says is in place of what the socket says.
        let Some(headers) = given.into_iter().flatten().find(|of| of.has(v4)) else {
            return Ok(None);
        };
        if v4 {
            let mut bytes = headers.options.clone();
            self.mark_options(cx, &mut bytes, header.source);
            return Ok(Some(Between { bytes, first: 0 }));
        }
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(headers.hop.len() + headers.end.len());
        room.map_err(|_| Failure::Errno(ENOBUFS))?;
        bytes.extend_from_slice(&headers.hop);
        bytes.extend_from_slice(&headers.end);
        let (hop, end) = (headers.hop.len(), headers.end.len());
        let mut first = header.protocol;
        if end != 0 {
            bytes[hop] = core::mem::replace(&mut first, DESTINATION);
        }
        if hop != 0 {
            bytes[0] = core::mem::replace(&mut first, HOP_BY_HOP);
        }
        Ok(Some(Between { bytes, first }))
    }

    fn mark_options(&self, cx: &mut Context, options: &mut [u8], address: Address) {
        let here = Here {
            address: address.as_v4().unwrap_or_default(),
            time: (cx.now() / 1_000_000 % DAY) as u32,
            is_own: &|of| self.interfaces.is_own(&Address::v4(of)),
        };
        options::mark(options, &here);
    }

    /// Options of a packet that this machine makes, which is as long as with them.
    pub(crate) fn insert_options(
        &self,
        cx: &mut Context,
        packet: &mut Packet,
        options: &[u8],
        source: Address,
    ) {
        let mut bytes = Vec::from(options);
        self.mark_options(cx, &mut bytes, source);
        packet.insert(&bytes, 0);
    }

    /// Options of a packet of IPv4 that came. False: it goes no further.
    #[cold]
    #[inline(never)]
    pub(crate) fn options_arrive(
        &mut self,
        cx: &mut Context,
        packet: &mut Packet,
        destination: &Address,
    ) -> bool {
        match options::check(packet.options()) {
            Ok(()) | Err(Wrong::Privileged(_)) => {}
            Err(Wrong::At(at)) => {
                self.wrong_options(cx, packet, IPV4 + at);
                return false;
            }
            // Nobody else says where packets go.
            Err(Wrong::Route) => return false,
        }
        if self.interfaces.is_own(destination) {
            let mut bytes = Vec::from(packet.options());
            self.mark_options(cx, &mut bytes, *destination);
            packet.change_options(&bytes);
        }
        true
    }

    /// Take a header or options of a program's, for what it sends.
    fn take_header(
        &self,
        cx: &mut Context,
        into: &mut Headers,
        (level, number): (u32, u32),
        bytes: &[u8],
    ) -> Answer<()> {
        let mut may = || self.has_capability(cx, capability::NET_RAW);
        let taken = match level {
            IP => options::asked(bytes, may()).ok_or(Failure::Errno(EINVAL))?,
            _ if number == ROUTE && bytes.is_empty() => Vec::new(),
            _ if number == ROUTE || (1..8).contains(&bytes.len()) => return fail(EINVAL),
            _ if !may() => return fail(EPERM),
            _ if bytes.is_empty() => Vec::new(),
            _ => Vec::from(header(bytes).ok_or(Failure::Errno(EINVAL))?),
        };
        if let Some(place) = into.place(level, number) {
            *place = taken;
        }
        Ok(())
    }

    /// What a socket adds to all that it sends.
    #[cold]
    pub(crate) fn set_headers(
        &mut self,
        cx: &mut Context,
        index: u32,
        (level, number): (u32, u32),
    ) -> Answer<()> {
        let socket = self.socket(index)?;
        let wrong = match level {
            IP => socket.is_raw() && !socket.is_v4(),
            _ => socket.is_v4(),
        };
        let length = cx.request.out_len;
        if wrong || socket.is_stream() && length != 0 {
            return fail(ENOPROTOOPT);
        }
        if length > LONGEST || level == IPV6 && !length.is_multiple_of(8) {
            return fail(EINVAL);
        }
        let payer = socket.payer;
        let before = socket.headers.clone();
        let mut bytes = alloc::vec![0; length];
        if length != 0 {
            cx.fetch(0, &mut bytes)?;
        }
        let mut headers = before.as_deref().cloned().unwrap_or_default();
        self.take_header(cx, &mut headers, (level, number), &bytes)?;
        let cost = headers.cost();
        cx.charge(payer, cost)?;
        cx.refund(payer, before.map_or(0, |before| before.cost()));
        self.socket_mut(index)?.headers = (cost != 0).then(|| Rc::new(headers));
        Ok(())
    }

    /// They go with their socket.
    pub(crate) fn drop_headers(&mut self, cx: &mut Context, index: u32) {
        if let Some(socket) = self.sockets.get_mut(index) {
            if let Some(headers) = socket.headers.take() {
                cx.refund(socket.payer, headers.cost());
            }
        }
    }

    pub(crate) fn get_headers(&mut self, index: u32, (level, number): (u32, u32)) -> Answer<()> {
        let socket = self.socket(index)?;
        let wrong = match level {
            IP => socket.is_raw() && !socket.is_v4(),
            _ => socket.is_v4(),
        };
        if wrong {
            return fail(if level == IP { ENOPROTOOPT } else { EOPNOTSUPP });
        }
        let mut headers = socket.headers.as_deref().cloned().unwrap_or_default();
        if let Some(place) = headers.place(level, number) {
            self.scratch.extend_from_slice(place);
        }
        Ok(())
    }

    /// What the control messages of a send say: in words of the message, and in front of its data.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_control(
        &mut self,
        cx: &mut Context,
        index: u32,
        sent: &mut Sent,
    ) -> Answer<()> {
        self.forget_words(index, sent)?;
        if cx.request.words[1] & with::HEADERS != 0 {
            let length = (cx.request.words[7] >> 48) as usize * 8;
            self.take_notes(cx, index, sent, length)?;
        }
        self.check_source(sent)
    }

    /// Words that mean nothing where it goes, which are those of the other family.
    fn forget_words(&self, index: u32, sent: &mut Sent) -> Answer<()> {
        let socket = self.socket(index)?;
        if !matches!(socket.family, INET | INET6) {
            (sent.ttl, sent.tos) = (None, None);
            (sent.from, sent.interface) = (None, 0);
            return Ok(());
        }
        let to = sent.to.or(socket.remote);
        let v4 = socket.is_v4() || to.is_some_and(|to| to.address.is_v4());
        if socket.is_stream() || !v4 {
            (sent.ttl, sent.tos) = (None, None);
        }
        if let Some(from) = sent.from {
            if v4 && !from.is_v4() && !socket.is_v4() {
                return fail(EINVAL);
            }
            if socket.is_stream() || v4 != from.is_v4() {
                (sent.from, sent.interface) = (None, 0);
            }
        }
        Ok(())
    }

    /// Is it the machine's own address, and an interface that is there?
    fn check_source(&self, sent: &Sent) -> Answer<()> {
        let Some(from) = sent.from else {
            return Ok(());
        };
        let strange = !from.is_any() && !self.interfaces.is_own(&from);
        let several = from.is_multicast() || self.interfaces.is_broadcast(&from);
        let unknown = sent.interface != 0 && self.interfaces.get(sent.interface).is_none();
        match (from.is_v4(), strange, unknown) {
            (true, true, _) => fail(if several { EINVAL } else { ENETUNREACH }),
            (_, _, true) => fail(ENODEV),
            (false, true, _) => fail(EINVAL),
            _ => Ok(()),
        }
    }

    /// Control messages of a send, which lie in front of its data.
    #[cold]
    fn take_notes(
        &mut self,
        cx: &mut Context,
        index: u32,
        sent: &mut Sent,
        length: usize,
    ) -> Answer<()> {
        let socket = self.socket(index)?;
        if length > cx.request.out_len {
            return fail(EINVAL);
        }
        // Frames and messages of netlink are no packets of any family; of netlink nothing of sockets in general means something.
        let netlink = socket.family == NETLINK;
        let other = netlink || socket.family == PACKET;
        // Of a stream only those of sockets in general mean something; of others those of the family that the packet will have.
        let stream = socket.is_stream();
        let to = sent.to.or(socket.remote);
        let own = socket.is_v4();
        let is_udp = socket.is_udp();
        let v4 = own || to.is_some_and(|to| to.address.is_v4());
        let bytes = fetched(cx, length, ENOBUFS)?;
        let mut headers = Headers::default();
        let mut rest = &bytes[..];
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
            let word = |at: usize| {
                u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let (size, level, number) = (word(0) as usize, word(4), word(8));
            let data = behind.get(..size).ok_or(Failure::Errno(EINVAL))?;
            rest = behind.get(size.next_multiple_of(8)..).unwrap_or(&[]);
            let value = match data {
                [a, b, c, d] => Some(i32::from_ne_bytes([*a, *b, *c, *d])),
                _ => None,
            };
            match (level, number, data) {
                (SOCKET, ..) if netlink => return fail(EINVAL),
                (SOCKET, MARK, _) => {
                    if !self.has_capability(cx, capability::NET_RAW)
                        && !self.has_capability(cx, capability::NET_ADMIN)
                    {
                        return fail(EPERM);
                    }
                    value.ok_or(Failure::Errno(EINVAL))?;
                }
                (SOCKET, ..) => match value {
                    Some(flags) if flags & !STAMPS_OF_SENDS == 0 => {}
                    _ => return fail(EINVAL),
                },
                _ if stream || other => {}
                (IP, ..) if !v4 => {}
                (IPV6, ..) if own => {}
                (IPV6, PACKET_INFO, data) if v4 => {
                    let (address, interface) = packet_info(data)?;
                    if !address.is_v4() {
                        return fail(EINVAL);
                    }
                    (sent.from, sent.interface) = (Some(address), interface);
                }
                (IPV6, ..) if v4 => {}
                (IPV6, PACKET_INFO | OLD_PACKET_INFO, data) => {
                    let (address, interface) = packet_info(data)?;
                    if address.is_v4() {
                        let unknown = self.interfaces.get(interface).is_none();
                        return fail(if interface != 0 && unknown {
                            ENODEV
                        } else {
                            EINVAL
                        });
                    }
                    (sent.from, sent.interface) = (Some(address), interface);
                }
                (IPV6, HOP_LIMIT | OLD_HOP_LIMIT | CLASS, _) => {
                    let given = match value {
                        Some(-1) => None,
                        Some(value @ 0..=255) => Some(value as u8),
                        _ => return fail(EINVAL),
                    };
                    match number {
                        CLASS => sent.tos = given,
                        _ => sent.ttl = given,
                    }
                }
                // Labels of flows are not sent, and nothing is cut that this would keep whole.
                (IPV6, FLOW, data) if data.len() >= 4 => {}
                (IPV6, DO_NOT_CUT, _) if matches!(value, Some(0 | 1)) => {}
                (IP, PROTOCOL, _) if matches!(value, Some(1..=255)) => {}
                (UDP, UDP_SEGMENT, [a, b]) if is_udp => {
                    sent.segment = u16::from_ne_bytes([*a, *b]);
                }
                (UDP, ..) if !is_udp => {}
                // (Options are said by the number of those that are to be returned.)
                (IP, RETURN_OPTIONS, data) => {
                    let data = &data[..data.len().min(options::MOST)];
                    self.take_header(cx, &mut headers, (IP, OPTIONS), data)?;
                }
                (IPV6, HOP | BEFORE_ROUTE | END, data) if data.len() >= 8 => {
                    let twice = headers.place(level, number);
                    if twice.is_some_and(|of| !of.is_empty()) {
                        return fail(EINVAL);
                    }
                    self.take_header(cx, &mut headers, (level, number), data)?;
                }
                _ => return fail(EINVAL),
            }
        }
        sent.skipped = length as u32;
        self.noted = (headers.cost() != 0).then(|| Rc::new(headers));
        Ok(())
    }

    /// Does the socket want to be told of them?
    pub(crate) fn tells_headers(&self, index: u32) -> bool {
        const V4: u64 = 1 << RECEIVE_OPTIONS | 1 << RETURN_OPTIONS;
        const V6: u128 = 1 << RECEIVE_HOP | 1 << RECEIVE_ROUTE | 1 << RECEIVE_DESTINATION;
        let options = self.sockets.get(index).map(|of| &of.options);
        options.is_some_and(|of| of.ip & V4 != 0 || of.ipv6 & V6 != 0)
    }

    /// Tell of those of a packet: each control message's level, number and data.
    pub(crate) fn tell_headers(
        &self,
        index: u32,
        packet: &Packet,
        mut put: impl FnMut(u32, u32, &[u8]),
    ) -> Answer<()> {
        let wanted = self.socket(index)?.options;
        let bytes = packet.bytes();
        if bytes.first().is_some_and(|first| first >> 4 == 4) {
            let own = packet.options();
            if wanted.ip >> RECEIVE_OPTIONS & 1 != 0 && !own.is_empty() {
                put(IP, RECEIVE_OPTIONS, own);
            }
            if wanted.ip >> RETURN_OPTIONS & 1 != 0 && !own.is_empty() {
                put(IP, RETURN_OPTIONS, &options::answer(own));
            }
            return Ok(());
        }
        extensions::each(bytes, |kind, header| {
            let (asked, number) = match kind {
                HOP_BY_HOP => (RECEIVE_HOP, HOP),
                DESTINATION => (RECEIVE_DESTINATION, END),
                _ => (RECEIVE_ROUTE, ROUTE),
            };
            if wanted.ipv6 >> asked & 1 != 0 {
                put(IPV6, number, header);
            }
        });
        Ok(())
    }
}
