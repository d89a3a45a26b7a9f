//! Packets for other machines (RFC 1812, RFC 8200): off until somebody with CAP_NET_ADMIN turns it on, for IPv4 and IPv6 apart.
//!
//! What always holds: a packet is checked before it goes on, whatever link it came by. Nothing is kept for it beyond the queue of the link that it leaves by,
//! which loses what is too much. A packet in pieces goes on in pieces; where a filter is asked it was put together before, and is cut again.
//! Errors to senders have the rate of all errors of ICMP. No redirects are sent.

use crate::address::Address;
use crate::icmp::{v4, v6, QUOTED_V4, QUOTED_V6};
use crate::interface::{Way, LOOPBACK};
use crate::internet::Arrived;
use crate::packet::{protocol, Header, Packet, Payload, HEADROOM, IPV4, IPV6};
use crate::server::{fail, Net, Node};
use alloc::vec::Vec;
use cairn_ethernet::extensions::{self, Chain};
use cairn_ethernet::fragments::{checksum, fold, sum, Fragments, Outcome};
use cairn_ethernet::fragments::{PATIENCE_V4, PATIENCE_V6};
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::{EACCES, EINVAL};
use cairn_idl::fs::{o, s};
use cairn_resmgr::layout;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Opened};

/// RFC 8200, 5: what every way of IPv6 carries.
const LEAST_V6: u32 = 1280;
/// Options of IPv4 that say which way a packet takes (RFC 791): whoever sends it does not choose that here (RFC 7126).
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;
/// Bit of an option that all pieces have.
const COPIED: u8 = 0x80;

/// Where it is turned on, and packets for this machine that came in pieces while pieces pass.
#[derive(Default)]
pub struct Forward {
    /// Of IPv4 and of IPv6, as it was written.
    values: [i32; 2],
    /// Devices do not put pieces together.
    passes: bool,
    own: Option<[Fragments; 2]>,
}

impl Forward {
    /// For one family at least.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.values != [0; 2]
    }

    fn is_on_for(&self, v4: bool) -> bool {
        self.values[usize::from(!v4)] != 0
    }

    /// There is another device, which has to be told.
    pub fn begin_again(&mut self) {
        self.passes = false;
    }
}

/// Is it a piece of a packet?
pub fn is_piece(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.len() >= IPV4 && (packet[6] & 0x3f, packet[7]) != (0, 0),
        Some(6) => matches!(extensions::follow(packet), Chain::Piece(_)),
        _ => false,
    }
}

/// The header of a piece that is in order.
fn header_of_piece(bytes: &[u8]) -> Option<Header> {
    match bytes.first()? >> 4 {
        4 => {
            let head = bytes.first_chunk::<IPV4>()?;
            let length = usize::from(head[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let right = length >= IPV4 && total >= length && total <= bytes.len();
            if !right || checksum(&bytes[..length]) != 0 {
                return None;
            }
            let address =
                |at: usize| Address::v4([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            Some(Header {
                source: address(12),
                destination: address(16),
                protocol: head[9],
                ttl: head[8],
                tos: head[1],
                whole: head[6] & 0x40 != 0,
            })
        }
        6 => {
            let Chain::Piece(piece) = extensions::follow(bytes) else {
                return None;
            };
            Some(Header {
                source: Address(*bytes.get(8..)?.first_chunk()?),
                destination: Address(*bytes.get(24..)?.first_chunk()?),
                protocol: piece.protocol,
                ttl: bytes[7],
                whole: true,
                ..Header::default()
            })
        }
        _ => None,
    }
}

/// Bytes behind the end that the header says are no part of the packet.
fn end(bytes: &[u8]) -> usize {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
        _ => extensions::end(bytes).unwrap_or(0),
    }
}

/// May an address be the source or the destination of what goes through a router (RFC 1812, 5.3.7; RFC 4291)?
fn passes(address: &Address) -> bool {
    match address.as_v4() {
        Some([0 | 127 | 224.., ..] | [169, 254, ..]) => false,
        Some(_) => true,
        None => {
            !address.is_any()
                && !address.is_loopback()
                && !address.is_multicast()
                && !address.is_link_local()
        }
    }
}

/// Does an option of IPv4 say which way the packet takes, or are they wrong?
fn is_routed_by_source(bytes: &[u8]) -> bool {
    let length = usize::from(bytes.first().copied().unwrap_or(0) & 15) * 4;
    let Some(mut options) = bytes.get(IPV4..length) else {
        return true;
    };
    while let [kind, rest @ ..] = options {
        options = match kind {
            0 => return false,
            1 => rest,
            &LOOSE_ROUTE | &STRICT_ROUTE => return true,
            _ => match rest.first().map(|length| usize::from(*length)) {
                Some(length @ 2..) if length <= options.len() => &options[length..],
                _ => return true,
            },
        };
    }
    false
}

/// One router less (RFC 1141; the hop limit is in no sum).
pub(crate) fn age(bytes: &mut [u8]) {
    if bytes.first().is_some_and(|first| first >> 4 == 6) {
        bytes[7] -= 1;
        return;
    }
    bytes[8] -= 1;
    let old = u32::from(u16::from_be_bytes([bytes[10], bytes[11]]));
    let new = old + 0x100;
    let new = (new + (new >> 16)) as u16;
    bytes[10..12].copy_from_slice(&new.to_be_bytes());
}

/// A packet of IPv4, or a piece of one, in pieces of at most `mtu` bytes (RFC 791, 3.2).
pub(crate) fn cut(packet: &[u8], mtu: usize, mut put: impl FnMut(Packet)) {
    let Some(first) = packet.first_chunk::<IPV4>() else {
        return;
    };
    let length = usize::from(first[0] & 15) * 4;
    let Some((head, payload)) = packet.split_at_checked(length) else {
        return;
    };
    let field = u16::from_be_bytes([first[6], first[7]]);
    let (start, last) = (usize::from(field & 0x1fff), field & 0x2000 == 0);
    let each = mtu.saturating_sub(length) / 8 * 8;
    if each == 0 || length < IPV4 {
        return;
    }
    for (i, piece) in payload.chunks(each).enumerate() {
        let mut bytes = Vec::new();
        if bytes
            .try_reserve_exact(HEADROOM + length + piece.len())
            .is_err()
        {
            return;
        }
        bytes.resize(HEADROOM, 0);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(piece);
        let own = &mut bytes[HEADROOM..];
        if i != 0 {
            keep_copied(&mut own[IPV4..length]);
        }
        let more = !last || (i + 1) * each < payload.len();
        let flags = (start + i * each / 8) as u16 | u16::from(more) << 13;
        own[2..4].copy_from_slice(&((length + piece.len()) as u16).to_be_bytes());
        own[6..8].copy_from_slice(&flags.to_be_bytes());
        own[10..12].fill(0);
        let sum = checksum(&own[..length]);
        own[10..12].copy_from_slice(&sum.to_be_bytes());
        put(Packet::received(bytes, HEADROOM));
    }
}

/// Of a later piece only some options are left: others do nothing.
fn keep_copied(options: &mut [u8]) {
    const NOTHING: u8 = 1;
    let mut at = 0;
    while let Some(kind) = options.get(at).copied() {
        let length = match (kind, options.get(at + 1)) {
            (0, _) => return,
            (NOTHING, _) => 1,
            (_, Some(length @ 2..)) => usize::from(*length),
            _ => return,
        };
        let end = (at + length).min(options.len());
        if kind & COPIED == 0 {
            options[at..end].fill(NOTHING);
        }
        at = end;
    }
}

/// Names in /proc/sys/net.
pub fn path(v6: bool) -> &'static [u8] {
    match v6 {
        false => b"/proc/sys/net/ipv4/ip_forward",
        true => b"/proc/sys/net/ipv6/conf/all/forwarding",
    }
}

impl Net {
    // ---- its files

    pub(crate) fn open_forwarding(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
    ) -> Answer<Opened<Node>> {
        if flags & o::ACCMODE != o::RDONLY && !self.has_capability(cx, NET_ADMIN) {
            return fail(EACCES);
        }
        let kind = layout::default_kind(s::IFREG | 0o644);
        Ok(Opened { node, kind })
    }

    pub(crate) fn read_forwarding(&mut self, v6: bool, offset: u64, length: usize) -> Data<'_> {
        let text = alloc::format!("{}\n", self.forward.values[usize::from(v6)]);
        self.scratch = text.into_bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.scratch.get(start..).unwrap_or(&[]);
        rest[..rest.len().min(length)].into()
    }

    pub(crate) fn write_forwarding(
        &mut self,
        cx: &mut Context,
        v6: bool,
        length: usize,
    ) -> Answer<usize> {
        let mut text = [0; 16];
        let Some(text) = text.get_mut(..length) else {
            return fail(EINVAL);
        };
        if length != 0 {
            cx.fetch(0, text)?;
        }
        let number = core::str::from_utf8(text).ok();
        match number.map(|text| text.trim_ascii().parse()) {
            Some(Ok(number)) => self.forward.values[usize::from(v6)] = number,
            _ if text.trim_ascii().is_empty() => {}
            _ => return fail(EINVAL),
        }
        self.tell_of_pieces();
        Ok(length)
    }

    /// Devices put pieces together if a filter needs packets whole, or nothing is forwarded.
    #[inline]
    pub(crate) fn tell_of_pieces(&mut self) {
        let passes = self.forward.is_on() && !self.filter.asks(false);
        if passes != self.forward.passes {
            self.forward.passes = passes;
            for interface in &mut self.interfaces.all {
                if let Some(device) = interface.device() {
                    device.pass_pieces(passes);
                }
            }
        }
    }

    // ---- packets

    /// A packet for another machine.
    #[cold]
    #[inline(never)]
    pub(crate) fn forward(&mut self, cx: &mut Context, arrived: Arrived) {
        let Arrived {
            packet,
            header,
            interface,
            ..
        } = arrived;
        if self.forward.is_on() && interface != LOOPBACK && self.goes_on(cx, &packet, &header) {
            let onward = self.interfaces.onward(&header.destination);
            self.send_on(cx, packet, &header, onward);
        }
    }

    /// May it go on, wherever it goes? If not its sender is told, if anybody is.
    pub(crate) fn goes_on(&mut self, cx: &mut Context, packet: &Packet, header: &Header) -> bool {
        let (source, destination) = (&header.source, &header.destination);
        let bytes = packet.bytes();
        let is_wrong = !self.forward.is_on_for(header.is_v4())
            || packet.group
            || packet.trusted
            || source.is_v4() != destination.is_v4()
            || !passes(source)
            || !passes(destination)
            || self.interfaces.is_own(source)
            || self.interfaces.is_broadcast(source)
            || self.interfaces.is_broadcast(destination)
            || header.is_v4() && bytes[0] != 0x45 && is_routed_by_source(bytes);
        if is_wrong {
            return false;
        }
        if header.ttl <= 1 {
            let kind = match header.is_v4() {
                true => v4::EXCEEDED,
                false => v6::EXCEEDED,
            };
            self.tell_sender(cx, packet, header, (kind, 0), 0);
            return false;
        }
        true
    }

    /// It goes by this interface to this neighbour, if there is a way.
    pub(crate) fn send_on(
        &mut self,
        cx: &mut Context,
        packet: Packet,
        header: &Header,
        onward: Option<(u32, Address, u32)>,
    ) {
        if let Some((mut packet, way)) = self.has_way(cx, packet, header, onward) {
            age(packet.bytes_mut());
            self.put_on(cx, packet, &way);
        }
    }

    /// Its way, if it is no longer than that takes.
    pub(crate) fn has_way(
        &mut self,
        cx: &mut Context,
        mut packet: Packet,
        header: &Header,
        onward: Option<(u32, Address, u32)>,
    ) -> Option<(Packet, Way)> {
        let Some((interface, next_hop, mtu)) = onward else {
            let kind = match header.is_v4() {
                true => (v4::UNREACHABLE, 0),
                false => (v6::UNREACHABLE, 0),
            };
            self.tell_sender(cx, &packet, header, kind, 0);
            return None;
        };
        if interface == LOOPBACK {
            return None;
        }
        let length = end(packet.bytes()) as u32;
        if !packet.joined && length > mtu && (header.whole || !header.is_v4()) {
            let kind = match header.is_v4() {
                true => (v4::UNREACHABLE, 4),
                false => (v6::TOO_BIG, 0),
            };
            self.tell_sender(cx, &packet, header, kind, mtu);
            return None;
        }
        packet.mtu = mtu;
        let way = Way {
            interface,
            next_hop,
            source: header.source,
            mtu,
        };
        Some((packet, way))
    }

    /// It leaves, in pieces if it has to.
    pub(crate) fn put_on(&mut self, cx: &mut Context, mut packet: Packet, way: &Way) {
        packet.finish();
        let bytes = packet.bytes();
        let length = end(bytes);
        let v4 = bytes[0] >> 4 == 4;
        if v4 && length > way.mtu as usize {
            cut(&bytes[..length], way.mtu as usize, |piece| {
                self.transmit(cx, piece, way);
            });
            return;
        }
        if !v4 && packet.joined {
            // How long its pieces were is not known any more; these go everywhere. What stands before pieces stays there.
            if matches!(bytes[6], 0 | 43 | 60) {
                return;
            }
            packet.mtu = LEAST_V6.min(way.mtu);
        }
        packet.shorten(length);
        self.transmit(cx, packet, way);
    }

    /// What is no whole packet comes while some are forwarded: a piece goes on, or is put together with others.
    #[cold]
    pub(crate) fn piece_arrives(&mut self, cx: &mut Context, interface: u32, packet: Packet) {
        let header = header_of_piece(packet.bytes());
        let Some(header) = header.filter(|_| is_piece(packet.bytes())) else {
            return self.complain(cx, &packet);
        };
        let destination = header.destination;
        let own = destination.is_multicast()
            || self.interfaces.is_broadcast(&destination)
            || self.interfaces.is_own(&destination);
        if own {
            return self.own_piece_arrives(cx, interface, &packet);
        }
        // A filter needs it whole: this one came before the device knew of it.
        if !self.filter.asks(false) && self.goes_on(cx, &packet, &header) {
            let onward = self.interfaces.onward(&destination);
            self.send_on(cx, packet, &header, onward);
        }
    }

    fn own_piece_arrives(&mut self, cx: &mut Context, interface: u32, packet: &Packet) {
        let now = self.now(cx).0;
        let v4 = packet.bytes()[0] >> 4 == 4;
        let new = || [Fragments::new(PATIENCE_V4), Fragments::new(PATIENCE_V6)];
        let [own4, own6] = self.forward.own.get_or_insert_with(new);
        let fragments = if v4 { own4 } else { own6 };
        fragments.time_passes(now);
        fragments.late.clear();
        let outcome = match v4 {
            true => fragments.arrives(now, packet.bytes()),
            false => fragments.arrives_v6(now, packet.bytes()),
        };
        if let Outcome::Complete(whole) = outcome {
            let mut joined = Packet::joined(whole);
            joined.group = packet.group;
            match joined.parse() {
                Some(parsed) => self.take_in_joined(cx, interface, joined, parsed),
                None => self.complain(cx, &joined),
            }
        }
    }

    /// An error about a packet of another machine, to who sent it: not about one for several, a later piece, or an error (RFC 1812, 4.3.2.7; RFC 4443, 2.4).
    pub(crate) fn tell_sender(
        &mut self,
        cx: &mut Context,
        packet: &Packet,
        header: &Header,
        (kind, code): (u8, u8),
        word: u32,
    ) {
        let bytes = packet.bytes();
        let bytes = &bytes[..end(bytes).min(bytes.len())];
        let (to, at) = (header.source, header.destination);
        let nobody = to.is_any() || to.is_multicast() || self.interfaces.is_broadcast(&to);
        let several = packet.group || at.is_multicast() || self.interfaces.is_broadcast(&at);
        let (silent, most) = match header.is_v4() {
            true => {
                let later = bytes.len() < IPV4 || (bytes[6] & 0x1f, bytes[7]) != (0, 0);
                let length = usize::from(bytes.first().copied().unwrap_or(0) & 15) * 4;
                let kind = bytes.get(length);
                let asks = kind.is_some_and(|kind| matches!(kind, 0 | 8 | 13..=18));
                let error = header.protocol == protocol::ICMP && !asks;
                (later || error, QUOTED_V4)
            }
            false => {
                let later = match extensions::follow(bytes) {
                    Chain::Piece(piece) => piece.offset != 0,
                    _ => false,
                };
                let error = bytes.len() < IPV6 || extensions::carries_error(bytes);
                (later || error, QUOTED_V6)
            }
        };
        if nobody || several || silent {
            return;
        }
        let [a, b, c, d] = word.to_be_bytes();
        let head = [kind, code, 0, 0, a, b, c, d];
        self.send_error_to(cx, at, to, head, &bytes[..bytes.len().min(most)]);
    }
}

/// What a sum becomes when some words of what it is about do (RFC 1624).
pub(crate) fn update(old: [u8; 2], was: &[u8], is: &[u8]) -> [u8; 2] {
    let inverted = |bytes: &[u8]| -> u64 {
        let (words, _) = bytes.as_chunks::<2>();
        let mut all = words.iter();
        all.by_ref()
            .map(|word| u64::from(!u16::from_be_bytes(*word)))
            .sum()
    };
    let old = u64::from(!u16::from_be_bytes(old));
    fold(old + inverted(was) + sum(is)).to_be_bytes()
}

/// Where the payload of a packet begins that is quoted: its header alone has to be there. With its header.
pub(crate) fn quoted(bytes: &[u8]) -> Option<(Header, Payload)> {
    match bytes.first()? >> 4 {
        4 => {
            let head = bytes.first_chunk::<IPV4>()?;
            let start = usize::from(head[0] & 15) * 4;
            let later = (head[6] & 0x1f, head[7]) != (0, 0);
            let address =
                |at: usize| Address::v4([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let header = Header {
                source: address(12),
                destination: address(16),
                protocol: head[9],
                ..Header::default()
            };
            let end = bytes.len();
            (start >= IPV4 && start <= end && !later).then_some((header, Payload { start, end }))
        }
        6 => {
            let head = bytes.first_chunk::<IPV6>()?;
            let header = Header {
                source: Address(*head[8..].first_chunk()?),
                destination: Address(*head[24..].first_chunk()?),
                protocol: head[6],
                ..Header::default()
            };
            let payload = Payload {
                start: IPV6,
                end: bytes.len(),
            };
            (!header.source.is_v4() && !header.destination.is_v4()).then_some((header, payload))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
pub(crate) mod tests;
