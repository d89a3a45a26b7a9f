//! Datagrams to groups: by which interface they leave, who at this machine hears them as well, and which sockets get what comes.

use crate::address::Address;
use crate::interface::{flag, Way, LOOPBACK};
use crate::internet::Arrived;
use crate::packet::{Header, Packet, Payload};
use crate::server::{fail, Net, Sent};
use crate::socket::Socket;
use cairn_idl::errno::EINVAL;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;

/// IPV6_MULTICAST_ALL, and IP_MULTICAST_ALL.
pub(crate) const ALL_V6: u32 = 29;
pub(crate) const ALL_V4: u32 = 49;

/// Does a scope say by which interface an address is reached?
fn needs_scope(to: &Address) -> bool {
    !to.is_v4() && (to.is_link_local() || to.is_multicast() && matches!(to.0[1] & 15, 1 | 2))
}

impl Socket {
    /// Does it hear groups that it is not in, if others here are? (IP_MULTICAST_ALL)
    fn hears_all(&self, v4: bool) -> bool {
        match v4 {
            true => self.options.ip >> ALL_V4 & 1 != 0,
            false => self.options.ipv6 >> ALL_V6 & 1 != 0,
        }
    }
}

impl Net {
    /// By which interface (0: as the routes say) a packet leaves, and where from, if options say so: of one to a group, or to a neighbour with a scope.
    fn outgoing(
        &self,
        index: u32,
        to: &Address,
        sent: &Sent,
        device: u32,
    ) -> Answer<(u32, Option<Address>)> {
        let socket = self.socket(index)?;
        let options = &socket.options;
        let device = match sent.scope {
            0 => device,
            _ if !needs_scope(to) => device,
            scope if device != 0 && device != scope => return fail(EINVAL),
            scope => scope,
        };
        if !to.is_multicast() {
            return Ok((device, None));
        }
        Ok(match to.is_v4() {
            true => {
                let from = (!options.multicast_from.is_any()).then_some(options.multicast_from);
                match device {
                    0 => (options.multicast_if, from),
                    device => (device, from),
                }
            }
            false if device != 0 => (device, None),
            false => (options.multicast_if6, None),
        })
    }

    /// The way of a packet to a group, or to a neighbour with a scope; and where from, if an option says so.
    #[cold]
    #[inline(never)]
    pub(crate) fn way_for(
        &self,
        index: u32,
        to: &Address,
        sent: &Sent,
        device: u32,
    ) -> Answer<(Option<Way>, Option<Address>)> {
        let (device, from) = self.outgoing(index, to, sent, device)?;
        let way = match to.is_multicast() {
            true => self.way_to_group(to, device),
            false => self.interfaces.way(to, device),
        };
        Ok((way, from))
    }

    /// The way of what is connected to a group, or to a neighbour with a scope.
    #[cold]
    #[inline(never)]
    pub(crate) fn way_as_told(
        &self,
        index: u32,
        to: &Address,
        scope: u32,
        device: u32,
    ) -> Answer<Option<Way>> {
        let sent = Sent {
            scope,
            ..Sent::default()
        };
        let (way, from) = self.way_for(index, to, &sent, device)?;
        Ok(way.map(|way| Way {
            source: from.unwrap_or(way.source),
            ..way
        }))
    }

    /// The way to a group: by the interface that is named, or by the route.
    #[cold]
    #[inline(never)]
    pub(crate) fn way_to_group(&self, to: &Address, bound: u32) -> Option<Way> {
        if let Some(way) = self.interfaces.way(to, bound) {
            return Some(way);
        }
        let may = |number: u32| {
            self.interfaces
                .get(number)
                .filter(|of| of.flags & flag::UP != 0)
        };
        match (bound, to.is_v4()) {
            // `lo` has no route to groups; of IPv4 everything named is on the link.
            (LOOPBACK, true) => may(LOOPBACK).map(|lo| Way {
                interface: LOOPBACK,
                next_hop: *to,
                source: lo.source(to).unwrap_or(Address::LOOPBACK_V4),
                mtu: lo.mtu,
            }),
            // Of IPv6 each link has a route to them.
            (0, false) => {
                let mut all = self.interfaces.all.iter();
                let link = all.find(|of| {
                    let up = flag::UP | flag::MULTICAST;
                    of.flags & up == up && of.source(to).is_some()
                })?;
                self.interfaces.way(to, link.number)
            }
            _ => None,
        }
    }

    /// A packet to a group leaves; who is in it at this machine hears it too.
    #[cold]
    #[inline(never)]
    pub(crate) fn output_to_group(
        &mut self,
        cx: &mut Context,
        index: u32,
        (packet, header): (Packet, Header),
        way: &Way,
    ) {
        let payload = Payload {
            start: header.length(),
            end: packet.bytes().len(),
        };
        let looped = self
            .sockets
            .get(index)
            .is_none_or(|of| of.options.multicast_loop);
        let (interface, group) = (way.interface, header.destination);
        let here = interface != LOOPBACK && looped;
        if here && self.groups.takes(interface, &group, &header.source) {
            let arrived = Arrived {
                packet,
                header,
                payload,
                interface,
                several: true,
            };
            if let Some(mut copy) = arrived.copy() {
                copy.packet.trusted = true;
                self.deliver(cx, copy);
            }
            if header.ttl != 0 {
                self.output(cx, arrived.packet, way);
            }
        } else if header.ttl != 0 || interface == LOOPBACK {
            self.output(cx, packet, way);
        }
    }

    /// Does a socket want what came to a group?
    pub(crate) fn hears(&self, index: u32, arrived: &Arrived) -> bool {
        let Some(it) = self.sockets.get(index) else {
            return false;
        };
        let (group, source) = (&arrived.header.destination, &arrived.header.source);
        let v4 = group.is_v4();
        let device = it.options.device;
        let family = !v4 || it.is_v4() || it.is_dual();
        family
            && (device == 0 || device == arrived.interface)
            && self
                .groups
                .allows(index, arrived.interface, (group, source), it.hears_all(v4))
    }

    /// Where an answer to what came to several would come from (`ipi_spec_dst`).
    #[cold]
    #[inline(never)]
    pub(crate) fn specific(&self, to: &Address, interface: u32) -> Option<Address> {
        let several = to.is_multicast() || self.interfaces.is_broadcast(to);
        several.then(|| self.interfaces.get(interface)?.source(to))?
    }
}
