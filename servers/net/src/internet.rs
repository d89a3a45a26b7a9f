//! What becomes of packets: those that arrive go to their protocol, those that leave to an interface.

use crate::address::Address;
use crate::capture::kind;
use crate::groups::wire::IGMP;
use crate::interface::{Way, LOOPBACK};
use crate::packet::{checksum, protocol, pseudo, Header, Packet, Payload, Sum, HEADROOM, IPV4};
use crate::programs::taken_by;
use crate::server::Net;
use crate::stream::Place;
use crate::timers::Owner;
use alloc::vec::Vec;
use cairn_resmgr::Context;
use cairn_tcp::secret::Ends;
use cairn_tcp::segment::Segment;
use cairn_tcp::time::Time;

/// So many packets of `lo` are taken in one after another; then others have their turn.
const ROUND: usize = 4096;

/// A packet for this machine.
pub struct Arrived {
    pub packet: Packet,
    pub header: Header,
    pub payload: Payload,
    pub interface: u32,
    /// It is for several machines.
    pub several: bool,
}

impl Arrived {
    /// Options of IPv4.
    pub fn options(&self) -> &[u8] {
        match self.header.is_v4() {
            true => self.packet.options(),
            false => &[],
        }
    }

    /// The same for one more receiver. None: there is no memory.
    pub fn copy(&self) -> Option<Arrived> {
        let whole = self.packet.bytes();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(HEADROOM + whole.len()).ok()?;
        bytes.resize(HEADROOM, 0);
        bytes.extend_from_slice(whole);
        let mut packet = Packet::received(bytes, HEADROOM);
        packet.sum = self.packet.sum;
        Some(Arrived { packet, ..*self })
    }
}

impl Net {
    /// What the time is: one answer for all that happens with a request.
    pub(crate) fn now(&mut self, cx: &mut Context) -> Time {
        self.time = Time(cx.transport.monotonic() / 1000);
        self.time
    }

    pub(crate) fn is_loopback(&self, interface: u32) -> bool {
        interface == LOOPBACK
    }

    /// What stands in the place of a sum that is [missing](Sum::Missing). (In what does not leave the machine only raw and packet sockets can see it.)
    #[inline(always)]
    pub(crate) fn pseudo(&self, header: &Header, length: usize, way: &Way) -> u16 {
        let nobody = way.interface == LOOPBACK && self.raws.is_empty() && self.taps.is_empty();
        match nobody {
            true => 0,
            false => pseudo(header, length),
        }
    }

    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    pub(crate) fn output(&mut self, cx: &mut Context, packet: Packet, way: &Way) {
        match self.filter.asks(way.interface == LOOPBACK) {
            true => self.judge_output(cx, packet, way),
            false => self.put_out(cx, packet, way),
        }
    }

    /// The same without a filter.
    #[inline(never)]
    pub(crate) fn transmit(&mut self, cx: &mut Context, packet: Packet, way: &Way) {
        self.put_out(cx, packet, way);
    }

    #[inline(always)]
    fn put_out(&mut self, cx: &mut Context, packet: Packet, way: &Way) {
        let taps = !self.taps.is_empty();
        if taps && way.interface == LOOPBACK {
            self.tap_loopback(cx, &packet, kind::OUTGOING);
        }
        let mut tunnel = false;
        if let Some(interface) = self.interfaces.get_mut(way.interface) {
            interface.send(cx, packet, way.next_hop);
            tunnel = interface.tunnel.is_some();
        }
        if taps {
            self.tap_link(cx, way.interface);
        }
        if tunnel {
            self.look_at_queue(cx, way.interface);
        }
    }

    /// Take in what waits in `lo`.
    pub fn pump(&mut self, cx: &mut Context) {
        for _ in 0..ROUND {
            let loopback = self.interfaces.get_mut(LOOPBACK);
            let Some(packet) = loopback.and_then(|interface| interface.looped()) else {
                return;
            };
            if !self.taps.is_empty() && !packet.seen {
                self.tap_loopback(cx, &packet, kind::HOST);
            }
            self.input(cx, LOOPBACK, packet);
        }
        cx.wake_at(Some(0));
    }

    /// The same when the answer has gone.
    pub(crate) fn pump_later(&mut self, cx: &mut Context) {
        if self.interfaces.get(LOOPBACK).is_some_and(|lo| lo.waits()) {
            cx.wake_at(Some(0));
        }
    }

    /// When to look at timers again.
    pub(crate) fn alarm(&mut self, cx: &mut Context) {
        if !self.links.is_empty() {
            self.set_link_timers();
        }
        let first = self.timers.first();
        if first != Time::NEVER {
            cx.wake_by(first.0.saturating_mul(1000));
        }
    }

    /// All whose time has come.
    pub(crate) fn time_passes(&mut self, cx: &mut Context) {
        let now = self.now(cx);
        for _ in 0..ROUND {
            match self.timers.due(now) {
                Some(Owner::Stream(at)) => self.stream_time_passes(cx, at),
                Some(Owner::Half(at)) => self.half_time_passes(cx, at),
                Some(Owner::Wait(at)) => self.wait_time_passes(cx, at),
                Some(Owner::Ring(at)) => self.look_at_ring(cx, at),
                Some(Owner::Interface(number)) => self.link_time_passes(cx, number),
                Some(Owner::Group(at)) => self.group_time_passes(cx, at),
                Some(Owner::Groups(number)) => self.groups_time_passes(cx, number),
                None => break,
            }
        }
    }

    /// A packet that came by this interface.
    pub fn input(&mut self, cx: &mut Context, interface: u32, packet: Packet) {
        let parsed = packet.parse();
        let Some(from) = self.interfaces.get_mut(interface) else {
            return;
        };
        // (What a program writes was counted when it did.)
        if from.tunnel.is_none() {
            from.received.packets += 1;
            from.received.bytes += packet.bytes().len() as u64;
            from.received.dropped += u64::from(parsed.is_none());
        }
        let Some(parsed) = parsed else {
            return match self.forward.is_on() {
                true => self.piece_arrives(cx, interface, packet),
                false => self.complain(cx, &packet),
            };
        };
        self.take_in(cx, interface, packet, parsed);
    }

    /// A packet that is understood.
    #[inline(always)]
    fn take_in(
        &mut self,
        cx: &mut Context,
        interface: u32,
        mut packet: Packet,
        (header, payload): (Header, Payload),
    ) {
        let destination = header.destination;
        let several = destination.is_multicast() || self.interfaces.is_broadcast(&destination);
        // Loopback addresses do not come from elsewhere.
        let inside = destination.is_loopback() || header.source.is_loopback();
        let wrong = interface != LOOPBACK && inside;
        if wrong || header.source.is_multicast() {
            return;
        }
        if payload.start > IPV4
            && header.is_v4()
            && !self.options_arrive(cx, &mut packet, &destination)
        {
            return;
        }
        // (Who asks about groups asks all, whatever they are in.)
        let group = several && destination.is_multicast() && header.protocol != IGMP;
        if group && !self.groups.takes(interface, &destination, &header.source) {
            return;
        }
        let asks = self.filter.asks(interface == LOOPBACK);
        if asks || !several && !self.interfaces.is_own(&destination) {
            let arrived = Arrived {
                packet,
                header,
                payload,
                interface,
                several,
            };
            return match asks {
                true => self.judge_arrived(cx, arrived),
                false => self.forward(cx, arrived),
            };
        }
        let arrived = Arrived {
            packet,
            header,
            payload,
            interface,
            several,
        };
        self.deliver(cx, arrived);
    }

    /// The same of one that was put together.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_in_joined(
        &mut self,
        cx: &mut Context,
        interface: u32,
        packet: Packet,
        parsed: (Header, Payload),
    ) {
        self.take_in(cx, interface, packet, parsed);
    }

    /// A packet for this machine goes to its protocol.
    #[inline(never)]
    pub(crate) fn deliver(&mut self, cx: &mut Context, arrived: Arrived) {
        let Arrived {
            header, several, ..
        } = arrived;
        let taken = self.raw_arrives(cx, &arrived);
        match header.protocol {
            protocol::TCP if !several => self.segment_arrives(cx, arrived),
            protocol::TCP => {}
            protocol::UDP | protocol::UDP_LITE => self.datagram_arrives(cx, arrived),
            protocol::ICMP if header.is_v4() => self.icmp_arrives(cx, arrived),
            protocol::ICMP_V6 if !header.is_v4() => self.icmp_v6_arrives(cx, arrived),
            IGMP if header.is_v4() => self.igmp_arrives(cx, &arrived),
            _ if several || taken => {}
            _ => self.protocol_unreachable(cx, &arrived),
        }
    }

    fn segment_arrives(&mut self, cx: &mut Context, arrived: Arrived) {
        let Arrived {
            packet,
            header,
            payload,
            ..
        } = &arrived;
        let bytes = packet.payload(*payload);
        let Ok((segment, length)) = Segment::parse(bytes) else {
            return;
        };
        if packet.sum == Sum::Made && checksum(header, bytes) != 0 {
            return;
        }
        let ends = Ends {
            local: header.destination.0,
            remote: header.source.0,
            local_port: segment.destination,
            remote_port: segment.source,
        };
        if Address(ends.remote).is_any() {
            return;
        }
        if self.some_are_near && self.is_far(&ends, header) {
            return;
        }
        if self.some_filter && self.is_unwanted(&ends, &arrived) {
            return;
        }
        let text = &bytes[length.min(bytes.len())..];
        let ce = header.tos & 3 == 3;
        match self.connections.get(&ends).copied() {
            Some(Place::Stream(at)) => self.stream_arrives(cx, at, &segment, text, ce),
            Some(Place::Half(at)) => self.half_arrives(cx, at, &segment, text, ce),
            Some(Place::Wait(at)) => {
                if !self.wait_arrives(cx, at, &segment, text) {
                    self.stranger_arrives(cx, &ends, &segment, text, ce);
                }
            }
            None => self.stranger_arrives(cx, &ends, &segment, text, ce),
        }
    }

    /// Does its socket's filter refuse a segment?
    #[cold]
    fn is_unwanted(&self, ends: &Ends, arrived: &Arrived) -> bool {
        // One that waits to be accepted has its filter already.
        if let Some(Place::Stream(at)) = self.connections.get(ends) {
            let heritage = self.streams.get(*at).and_then(|of| of.heritage.as_ref());
            if let Some(filter) = heritage.and_then(|of| of.wanted.as_ref()) {
                return taken_by(filter, arrived, arrived.payload.start).is_none();
            }
        }
        let socket = match self.connections.get(ends) {
            Some(Place::Stream(at)) => self.streams.get(*at).and_then(|stream| stream.socket),
            Some(Place::Half(at)) => self.halves.get(*at).map(|half| half.listener),
            Some(Place::Wait(_)) => None,
            None => self.listener_for(ends),
        };
        socket.is_some_and(|index| self.passes(index, arrived, arrived.payload.start).is_none())
    }

    /// Whether a segment comes from farther away than its socket wants (RFC 5082).
    fn is_far(&self, ends: &Ends, header: &Header) -> bool {
        let least = match self.connections.get(ends) {
            Some(Place::Stream(at)) => self.streams.get(*at).map(|stream| stream.least_ttl),
            Some(_) => None,
            None => {
                let listener = self.listener_for(ends);
                let socket = listener.and_then(|index| self.sockets.get(index));
                socket.map(|socket| socket.options.least(header.is_v4()))
            }
        };
        least.is_some_and(|least| header.ttl < least)
    }
}
