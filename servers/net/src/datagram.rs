//! UDP (RFC 768) and UDP-Lite (RFC 3828), whose sum may cover the beginning only: datagrams that wait in the packets in which they came, and those that leave.

use crate::address::{Address, Endpoint};
use crate::errors::Fault;
use crate::hash::Map;
use crate::interface::Way;
use crate::internet::Arrived;
use crate::options::discover;
use crate::packet::{self, protocol, Header, Packet, Payload, Sum};
use crate::paths::LEAST_V4;
use crate::server::{fail, key, Net, Sent, READABLE, WRITABLE};
use crate::socket::{Socket, State};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_slab::Slab;
use cairn_tcp::secret::Ends;
use cairn_tcp::time::Time;
use core::hash::Hash;

pub(crate) const HEADER: usize = 8;
/// Most bytes of a datagram's text.
pub(crate) const MOST: usize = 65_535 - HEADER;
/// What one costs beside its bytes.
const OVERHEAD: usize = 256;

/// A datagram that waits.
pub struct Datagram {
    pub packet: Packet,
    pub payload: Payload,
    pub from: Endpoint,
    pub to: Address,
    pub interface: u32,
    pub ttl: u8,
    pub tos: u8,
    /// When it came, if that was asked for (ns since 1970).
    pub stamp: u64,
    /// A look has been at it (SO_PEEK_OFF).
    pub peeked: bool,
    /// What its socket's payer pays for it.
    pub cost: usize,
}

impl Datagram {
    pub fn bytes(&self) -> &[u8] {
        self.packet.payload(self.payload)
    }
}

#[derive(Default)]
pub struct Queue {
    pub waiting: VecDeque<Datagram>,
    pub faults: VecDeque<Fault>,
    pub bytes: usize,
    pub dropped: u64,
    /// When the last one that was read came (0: that was not asked for).
    pub last: Option<u64>,
    /// Where the socket stands among those that share its port; it is in the table of connected ones.
    pub place: Option<usize>,
    pub connected: bool,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A random number that is the same for the same two ends.
fn spread(ends: &Ends, key: &crate::hash::Key) -> usize {
    use core::hash::BuildHasher;
    key.hash_one(ends) as usize
}

/// A socket comes to those with this key, and knows its place among them. False: there is no memory, or it has no queue.
pub(crate) fn join<K: Hash + Eq + Copy>(
    groups: &mut Map<K, Vec<u32>>,
    key: K,
    socket: &mut Socket,
    index: u32,
) -> bool {
    let Some(queue) = socket.queue_mut() else {
        return false;
    };
    if !groups.contains(&key) && !groups.insert(key, Vec::new()) {
        return false;
    }
    let Some(group) = groups.get_mut(&key) else {
        return false;
    };
    if group.try_reserve(1).is_err() {
        return false;
    }
    queue.place = Some(group.len());
    group.push(index);
    true
}

/// It goes, if it is there; the last one takes its place.
pub(crate) fn leave<K: Hash + Eq>(
    groups: &mut Map<K, Vec<u32>>,
    key: &K,
    sockets: &mut Slab<Socket>,
    index: u32,
) {
    let queue = sockets.get_mut(index).and_then(Socket::queue_mut);
    let Some(place) = queue.and_then(|queue| queue.place.take()) else {
        return;
    };
    let Some(group) = groups.get_mut(key) else {
        return;
    };
    group.swap_remove(place);
    let moved = group.get(place).copied();
    if group.is_empty() {
        groups.remove(key);
    }
    if let Some(queue) = moved.and_then(|moved| sockets.get_mut(moved)?.queue_mut()) {
        queue.place = Some(place);
    }
}

/// How many of a datagram's bytes its sum covers (RFC 3828, 3.1). None: it is none of UDP-Lite.
fn covered(datagram: &[u8]) -> Option<usize> {
    let head = datagram.first_chunk::<HEADER>()?;
    match usize::from(u16::from_be_bytes([head[4], head[5]])) {
        0 => Some(datagram.len()),
        covered => (HEADER..=datagram.len())
            .contains(&covered)
            .then_some(covered),
    }
}

/// Is the sum right of what it covers? There always is one.
fn is_right(header: &Header, datagram: &[u8]) -> bool {
    covered(datagram).is_some_and(|covered| {
        datagram[6..8] != [0; 2]
            && packet::checksum_of(header, datagram.len(), &datagram[..covered]) == 0
    })
}

/// Does a socket take a datagram with so much of it covered (UDPLITE_RECV_CSCOV)? It always takes one that is covered whole.
#[cold]
fn takes(socket: &Socket, arrived: &Arrived, payload: Payload) -> bool {
    let datagram = Payload {
        start: payload.start.saturating_sub(HEADER),
        ..payload
    };
    let datagram = arrived.packet.payload(datagram);
    match (socket.is_lite(), socket.options.covered, covered(datagram)) {
        (true, Some(least), Some(covered)) if covered < datagram.len() => {
            least != 0 && covered >= least.into()
        }
        _ => true,
    }
}

/// Say how much of it the sum covers, and make the sum.
#[cold]
fn cover(header: &Header, datagram: &mut [u8], covers: Option<u16>) {
    let length = datagram.len();
    let said = covers.filter(|covers| usize::from(*covers) < length);
    let said = said.unwrap_or(length as u16);
    datagram[4..6].copy_from_slice(&said.to_be_bytes());
    let covered = covered(datagram).unwrap_or(length);
    let sum = match packet::checksum_of(header, length, &datagram[..covered]) {
        0 => 0xffff,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// A datagram for several sockets, of which some have it.
pub struct Spread {
    arrived: Arrived,
    payload: Payload,
    from: Endpoint,
    port: u16,
    /// Where it goes on: which of the addresses that sockets can have, and which of the sockets.
    kind: usize,
    at: usize,
}

/// Sockets that are looked at in one step, and datagrams of which others wait for a copy. What is more is lost for those.
const COPIES: usize = 64;
const SPREADS_MOST: usize = 16;

impl Net {
    /// Who shall have a datagram.
    fn datagram_socket(&self, number: u8, ends: &Ends, text: &[u8]) -> Option<u32> {
        if let Some(socket) = self.connected_by(number).get(ends) {
            return Some(*socket);
        }
        let address = Address(ends.local);
        let pick = |key: &(u8, Endpoint), group: &Vec<u32>| {
            let shares = |socket: &u32| {
                let socket = self.sockets.get(*socket);
                socket.is_some_and(|socket| socket.options.share)
            };
            match group.first().is_some_and(shares) {
                true => {
                    let chosen = self.chosen(key, group.len(), text);
                    let nth = || spread(ends, &self.hash_key) % group.len();
                    group.get(chosen.unwrap_or_else(nth)).copied()
                }
                // Who came last, as on Linux.
                false => group.last().copied(),
            }
        };
        let candidates = [address, address.wildcard(), Address::ANY];
        candidates.into_iter().find_map(|place| {
            let place = Endpoint::new(place, ends.local_port);
            let key = (number, place);
            let group = self.datagrams.get(&key)?;
            let socket = pick(&key, group)?;
            let it = self.sockets.get(socket)?;
            // `::` may not be for addresses of IPv4.
            let other = address.is_v4() && place.address == Address::ANY && !it.is_dual();
            // One that is connected to somebody else is not meant.
            let theirs = Endpoint::new(Address(ends.remote), ends.remote_port);
            (!other && it.remote.is_none_or(|remote| remote == theirs)).then_some(socket)
        })
    }

    /// Sockets that are connected, of UDP or of UDP-Lite.
    pub(crate) fn connected_by(&self, number: u8) -> &Map<Ends, u32> {
        match number {
            protocol::UDP_LITE => &self.connected_lite,
            _ => &self.connected,
        }
    }

    fn connected_by_mut(&mut self, number: u8) -> &mut Map<Ends, u32> {
        match number {
            protocol::UDP_LITE => &mut self.connected_lite,
            _ => &mut self.connected,
        }
    }

    pub(crate) fn datagram_arrives(&mut self, cx: &mut Context, arrived: Arrived) {
        let Arrived {
            packet,
            header,
            payload,
            ..
        } = &arrived;
        let bytes = packet.payload(*payload);
        let Some(head) = bytes.first_chunk::<HEADER>() else {
            return;
        };
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (source, destination, mut length) = (half(0), half(2), usize::from(half(4)));
        if header.protocol == protocol::UDP_LITE {
            length = bytes.len();
            if !is_right(header, bytes) {
                return;
            }
        } else if length < HEADER || length > bytes.len() {
            return;
        } else {
            let unchecked = half(6) == 0 && header.is_v4();
            let looks = packet.sum == Sum::Made && !unchecked;
            if looks && packet::checksum(header, &bytes[..length]) != 0 {
                return;
            }
        }
        let ends = Ends {
            local: header.destination.0,
            remote: header.source.0,
            local_port: destination,
            remote_port: source,
        };
        let payload = Payload {
            start: payload.start + HEADER,
            end: payload.start + length,
        };
        if arrived.several {
            return self.spread(cx, &ends, arrived, payload);
        }
        let text = &bytes[HEADER..length];
        let Some(index) = self.datagram_socket(header.protocol, &ends, text) else {
            if !arrived.several {
                self.port_unreachable(cx, &arrived);
            }
            return;
        };
        self.queue_datagram(
            cx,
            index,
            Endpoint::new(header.source, source),
            arrived,
            payload,
        );
    }

    /// What came to a group or to everybody, for each socket that has its port and wants it. Those of many sockets get it by and by.
    #[cold]
    #[inline(never)]
    fn spread(&mut self, cx: &mut Context, ends: &Ends, arrived: Arrived, payload: Payload) {
        let mut spread = Spread {
            from: Endpoint::new(arrived.header.source, ends.remote_port),
            port: ends.local_port,
            arrived,
            payload,
            kind: 0,
            at: 0,
        };
        while self.some_copies(cx, &mut spread) {
            if self.spreads.len() >= SPREADS_MOST || self.spreads.try_reserve(1).is_err() {
                return;
            }
            if cx.begin_background() {
                return self.spreads.push_back(spread);
            }
        }
    }

    /// Copies for some sockets more. Are there others?
    fn some_copies(&mut self, cx: &mut Context, spread: &mut Spread) -> bool {
        let group = spread.arrived.header.destination;
        let is_group = group.is_multicast();
        let candidates = [group, group.wildcard(), Address::ANY];
        let kinds = if group.is_v4() { 3 } else { 2 };
        let mut left = COPIES;
        while let Some(place) = candidates[..kinds].get(spread.kind) {
            let number = spread.arrived.header.protocol;
            let place = (number, Endpoint::new(*place, spread.port));
            let sockets = self.datagrams.get(&place);
            let Some(&index) = sockets.and_then(|sockets| sockets.get(spread.at)) else {
                (spread.kind, spread.at) = (spread.kind + 1, 0);
                continue;
            };
            if left == 0 {
                return true;
            }
            left -= 1;
            spread.at += 1;
            let wanted = self.sockets.get(index).is_some_and(|it| {
                let theirs = it.remote.is_none_or(|remote| remote == spread.from);
                theirs && (is_group || it.is_v4() || it.is_dual())
            });
            if wanted && (!is_group || self.hears(index, &spread.arrived)) {
                if let Some(copy) = spread.arrived.copy() {
                    self.queue_datagram(cx, index, spread.from, copy, spread.payload);
                }
            }
        }
        false
    }

    /// The oldest datagram that is for many goes to some of them. Is anything left?
    pub(crate) fn spread_next(&mut self, cx: &mut Context) -> bool {
        if let Some(mut spread) = self.spreads.pop_front() {
            if self.some_copies(cx, &mut spread) {
                self.spreads.push_front(spread);
            }
        }
        !self.spreads.is_empty()
    }

    /// Keep it for a socket. False: there is no room.
    pub(crate) fn queue_datagram(
        &mut self,
        cx: &mut Context,
        index: u32,
        from: Endpoint,
        arrived: Arrived,
        mut payload: Payload,
    ) -> bool {
        let cost = arrived.packet.memory() + OVERHEAD;
        let Some(mut socket) = self.sockets.get_mut(index) else {
            return false;
        };
        if socket.options.covered.is_some() && !takes(socket, &arrived, payload) {
            return false;
        }
        if socket.wanted.is_some() {
            // Its view begins with the header of UDP.
            let lead = if socket.is_udp() { HEADER } else { 0 };
            let Some(most) = self.passes(index, &arrived, payload.start - lead) else {
                return false;
            };
            let end = payload.start.saturating_add(most.saturating_sub(lead));
            payload.end = payload.end.min(end);
            match self.sockets.get_mut(index) {
                Some(again) => socket = again,
                None => return false,
            }
        }
        let (payer, room) = (socket.payer, socket.options.receive_buffer);
        let stamped = socket.options.stamps.wanted();
        let State::Datagram(queue) = &mut socket.state else {
            return false;
        };
        let fits = queue.bytes == 0 || queue.bytes + cost <= room as usize;
        if !fits || queue.waiting.try_reserve(1).is_err() || cx.charge(payer, cost).is_err() {
            queue.dropped += 1;
            return false;
        }
        queue.bytes += cost;
        queue.waiting.push_back(Datagram {
            from,
            to: arrived.header.destination,
            interface: arrived.interface,
            ttl: arrived.header.ttl,
            tos: arrived.header.tos,
            stamp: if stamped { cx.now() } else { 0 },
            packet: arrived.packet,
            payload,
            peeked: false,
            cost,
        });
        cx.wake(key(index, READABLE));
        true
    }

    /// Take the first one that waits.
    pub(crate) fn take_datagram(&mut self, cx: &mut Context, index: u32) -> Option<Datagram> {
        let socket = self.sockets.get_mut(index)?;
        let payer = socket.payer;
        let queue = socket.queue_mut()?;
        let datagram = queue.waiting.pop_front()?;
        queue.bytes -= datagram.cost;
        queue.last = Some(datagram.stamp);
        if queue.waiting.is_empty() && queue.waiting.capacity() > 64 {
            queue.waiting = VecDeque::new();
        }
        cx.refund(payer, datagram.cost);
        Some(datagram)
    }

    /// Where a datagram goes, and where from: checked, with a port.
    pub(crate) fn sending(
        &mut self,
        cx: &mut Context,
        index: u32,
        sent: &Sent,
    ) -> Answer<(Endpoint, Header, Way)> {
        let socket = self.socket_mut(index)?;
        let to = match sent.to.or(socket.remote) {
            Some(to) => to,
            None => return fail(EDESTADDRREQ),
        };
        let (v4, bound) = (socket.is_v4(), socket.local.address);
        let may_broadcast = socket.options.broadcast;
        if v4 && !to.address.is_v4() {
            return fail(EAFNOSUPPORT);
        }
        if to.address.is_v4()
            && !v4
            && (socket.options.only_v6 || !bound.is_any() && !bound.is_v4())
        {
            return fail(ENETUNREACH);
        }
        if let Some(error) = socket.take_error() {
            return fail(error);
        }
        if !socket.writes {
            return fail(EPIPE);
        }
        let device = match sent.interface {
            0 => socket.options.device,
            given => given,
        };
        let options = &socket.options;
        let (ttls, classes) = (
            (options.multicast_ttl, options.ttl, options.hops),
            (options.tos, options.traffic_class),
        );
        let (mtu_discover, number) = (options.mtu_discover, socket.protocol);
        if socket.local.port == 0 {
            self.bind_ephemeral(cx, index)?;
        }
        let multicast = to.address.is_multicast();
        let (way, from) = match multicast || sent.scope != 0 {
            true => self.way_for(index, &to.address, sent, device)?,
            false => (self.interfaces.way(&to.address, device), None),
        };
        let Some(mut way) = way else {
            return fail(ENETUNREACH);
        };
        if !may_broadcast && self.interfaces.is_broadcast(&to.address) {
            return fail(EACCES);
        }
        let asked = sent.from.filter(|from| !from.is_any());
        let own = match asked {
            Some(from) if !self.interfaces.is_own(&from) => return fail(EINVAL),
            Some(from) => from,
            None if bound.is_any() || bound.is_multicast() => from.unwrap_or(way.source),
            None => bound,
        };
        if own.is_v4() != way.next_hop.is_v4() {
            return fail(ENETUNREACH);
        }
        // "Any" means this machine.
        let destination = match to.address.is_any() {
            true => way.next_hop,
            false => to.address,
        };
        if discover::narrows(mtu_discover) && !self.paths.is_empty() {
            let now = self.now(cx);
            way.mtu = self.path_mtu(&destination, &way, now);
        }
        let header = Header {
            source: own,
            destination,
            protocol: number,
            ttl: sent.ttl.unwrap_or(match multicast {
                true => ttls.0,
                false if destination.is_v4() => ttls.1,
                false => ttls.2,
            }),
            tos: sent.tos.unwrap_or(match destination.is_v4() {
                true => classes.0,
                false => classes.1,
            }),
            whole: true,
        };
        Ok((Endpoint::new(destination, to.port), header, way))
    }

    /// What a way carries whole to its end: what its link does, or less.
    pub(crate) fn path_mtu(&self, to: &Address, way: &Way, now: Time) -> u32 {
        match self.is_loopback(way.interface) {
            true => way.mtu,
            false => self.paths.narrowed(to, way.mtu, now),
        }
    }

    /// May a packet with so many bytes behind its header leave this way? It may be cut on its way (of IPv4) as IP_MTU_DISCOVER says; what is too long is
    /// refused, and the queue of errors says what fits.
    pub(crate) fn measure(
        &mut self,
        cx: &mut Context,
        index: u32,
        (to, way): (&Endpoint, &Way),
        header: &mut Header,
        length: usize,
    ) -> Answer<()> {
        let (v4, total) = (header.is_v4(), header.length() + length);
        let fits = total <= way.mtu as usize;
        let never_cut = |discover| matches!(discover, discover::DO | discover::PROBE);
        let discover = self.socket(index)?.options.mtu_discover;
        let narrowest = v4 && way.mtu <= LEAST_V4;
        header.whole = never_cut(discover) || discover == discover::WANT && fits && !narrowest;
        let most = match v4 {
            _ if never_cut(discover) || discover == discover::INTERFACE => way.mtu,
            true => u32::from(u16::MAX),
            // A payload's length has 16 bits.
            false => way.mtu.max(packet::IPV6 as u32 + u32::from(u16::MAX)),
        };
        if total <= most as usize {
            return Ok(());
        }
        self.too_long(cx, index, *to, way.mtu.min(most))
    }

    pub(crate) fn send_datagram(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        sent: &Sent,
        more: bool,
    ) -> Answer<usize> {
        let socket = self.socket(index)?;
        let options = &socket.options;
        if more
            || options.cork
            || options.segment != 0
            || sent.segment != 0
            || socket.held.is_some()
        {
            return self.send_in_pieces(cx, index, length, sent, more);
        }
        self.send_whole(cx, index, None, length, sent)?;
        Ok(length)
    }

    /// A datagram of these bytes, or of those that come with the request.
    pub(crate) fn send_whole(
        &mut self,
        cx: &mut Context,
        index: u32,
        text: Option<&[u8]>,
        length: usize,
        sent: &Sent,
    ) -> Answer<()> {
        if length > MOST {
            return fail(EMSGSIZE);
        }
        let (to, mut header, way) = self.sending(cx, index, sent)?;
        if to.port == 0 && sent.to.is_some() {
            return fail(EINVAL);
        }
        let between = self.between(cx, index, sent, &header)?;
        let whole = HEADER + length + between.as_ref().map_or(0, |of| of.bytes.len());
        self.measure(cx, index, (&to, &way), &mut header, whole)?;
        let socket = self.socket(index)?;
        let (port, covers) = (socket.local.port, socket.options.covers);
        let identification = self.next_identification();
        let packet = Packet::new(&header, whole, identification);
        let mut packet = packet.ok_or(Failure::Errno(ENOBUFS))?;
        packet.mtu = way.mtu;
        if let Some(between) = &between {
            packet.insert(&between.bytes, between.first);
        }
        let pseudo = self.pseudo(&header, HEADER + length, &way);
        let bytes = packet.extend(HEADER + length);
        bytes[0..2].copy_from_slice(&port.to_be_bytes());
        bytes[2..4].copy_from_slice(&to.port.to_be_bytes());
        bytes[4..6].copy_from_slice(&((HEADER + length) as u16).to_be_bytes());
        match text {
            Some(text) => bytes[HEADER..].copy_from_slice(text),
            None => cx.fetch(sent.skipped as usize, &mut bytes[HEADER..])?,
        }
        match header.protocol == protocol::UDP_LITE {
            true => cover(&header, bytes, covers),
            false => {
                bytes[6..8].copy_from_slice(&pseudo.to_be_bytes());
                packet.sum = Sum::Missing;
            }
        }
        self.output_as_addressed(cx, index, (packet, header), &way);
        Ok(())
    }

    // ---- names

    /// A datagram socket has this port and address now: packets find it.
    pub(crate) fn list_datagram(&mut self, index: u32) -> Answer<()> {
        let Some(socket) = self.sockets.get_mut(index) else {
            return fail(EBADF);
        };
        let local = (socket.protocol, socket.local);
        if socket.is_raw() {
            return Ok(());
        }
        if socket.queue_mut().is_none() {
            return fail(EINVAL);
        }
        match join(&mut self.datagrams, local, socket, index) {
            true => Ok(()),
            false => fail(ENOMEM),
        }
    }

    pub(crate) fn unlist_datagram(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let local = (socket.protocol, socket.local);
        if socket.is_raw() {
            return;
        }
        leave(&mut self.datagrams, &local, &mut self.sockets, index);
        self.end_chooser(cx, local);
    }

    fn ends_of(&self, index: u32) -> Option<Ends> {
        let socket = self.sockets.get(index)?;
        let remote = socket.remote?;
        Some(Ends {
            local: socket.local.address.0,
            remote: remote.address.0,
            local_port: socket.local.port,
            remote_port: remote.port,
        })
    }

    /// Connect a datagram socket, or let it be connected no more.
    pub(crate) fn connect_datagram(
        &mut self,
        cx: &mut Context,
        index: u32,
        to: Option<Endpoint>,
    ) -> Answer<()> {
        let way = match to {
            None => None,
            Some(to) => {
                let socket = self.socket(index)?;
                let (broadcast, device) = (socket.options.broadcast, socket.options.device);
                let scope = (cx.request.words[3] >> 32) as u32;
                let socket = self.socket(index)?;
                if !socket.is_v4() {
                    let other = !to.address.is_v4() && !to.address.is_any();
                    if to.address.is_v4() && socket.options.only_v6 {
                        return fail(ENETUNREACH);
                    }
                    if other && socket.local.address.is_v4() {
                        return fail(EAFNOSUPPORT);
                    }
                }
                let near = !to.address.is_v4() && to.address.needs_scope();
                let group_by = match to.address.is_multicast() {
                    true => socket.options.multicast_if6,
                    false => 0,
                };
                if near && scope | device | socket.scope | group_by == 0 {
                    return fail(EINVAL);
                }
                let way = match to.address.is_multicast() || scope != 0 {
                    true => self.way_as_told(index, &to.address, scope, device)?,
                    false => self.interfaces.way(&to.address, device),
                };
                let several = self.interfaces.is_broadcast(&to.address);
                match way {
                    Some(_) if several && !broadcast => return fail(EACCES),
                    Some(way) => Some(way),
                    None => return fail(ENETUNREACH),
                }
            }
        };
        let (Some(to), Some(way)) = (to, way) else {
            self.disconnect_datagram(cx, index);
            return Ok(());
        };
        self.unpeer_datagram(index);
        if self.socket(index)?.local.port == 0 {
            self.bind_ephemeral(cx, index)?;
        }
        let socket = self.socket_mut(index)?;
        let to = match to.address.is_any() {
            true => Endpoint::new(way.next_hop, to.port),
            false => to,
        };
        if socket.local.address.is_any() {
            self.unlist_datagram(cx, index);
            let socket = self.socket_mut(index)?;
            socket.local.address = way.source;
            self.list_datagram(index)?;
        }
        let socket = self.socket_mut(index)?;
        (socket.remote, socket.error) = (Some(to), 0);
        let (udp, number) = (socket.is_udp() && socket.claim.is_some(), socket.protocol);
        if let (Some(ends), true) = (self.ends_of(index), udp) {
            let connected = self.connected_by_mut(number);
            if !connected.contains(&ends) && connected.insert(ends, index) {
                if let Some(queue) = self.socket_mut(index)?.queue_mut() {
                    queue.connected = true;
                }
            }
        }
        cx.wake(key(index, WRITABLE));
        Ok(())
    }

    /// It has no peer any more.
    pub(crate) fn unpeer_datagram(&mut self, index: u32) {
        let ends = self.ends_of(index);
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        socket.remote = None;
        let number = socket.protocol;
        let listed = socket
            .queue_mut()
            .is_some_and(|queue| core::mem::take(&mut queue.connected));
        if let (true, Some(ends)) = (listed, ends) {
            self.connected_by_mut(number).remove(&ends);
        }
    }

    /// connect(2) to AF_UNSPEC: besides the peer all goes that nobody asked for, the address that the route gave and a port of the system's choice.
    fn disconnect_datagram(&mut self, cx: &mut Context, index: u32) {
        self.unpeer_datagram(index);
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        socket.options.device = 0;
        let address = match (socket.address_bound, socket.is_v4()) {
            (true, _) => socket.local.address,
            (false, true) => Address::ANY_V4,
            (false, false) => Address::ANY,
        };
        let keeps = socket.port_bound || socket.local.port == 0;
        if keeps && address == socket.local.address {
            return;
        }
        let listed = socket.local.port != 0;
        self.unlist_datagram(cx, index);
        if let Some(socket) = self.sockets.get_mut(index) {
            socket.local.address = address;
        }
        match keeps {
            true if listed => drop(self.list_datagram(index)),
            true => {}
            false => self.release_port(cx, index),
        }
    }
}
