//! NETLINK_ROUTE (rtnetlink(7)): interfaces, addresses, routes and neighbours, told of, changed by who has CAP_NET_ADMIN, and changes told to those who want to
//! hear of them.

use super::message::{flag, word, Attributes, Builder, Message, HEADER};
use super::{endpoint, Outcome, To, What};
use crate::address::Address;
use crate::groups::ADDRESS_COST;
use crate::interface::{flag as iff, Interface, Neighbour, Own};
use crate::routes::{origin, scope, Route};
use crate::server::Net;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_resmgr::Context;
use cairn_tcp::time::Time;

/// Types: NEW, DEL, GET and SET of each thing.
const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const SETLINK: u16 = 19;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const GETADDR: u16 = 22;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const GETROUTE: u16 = 26;
const NEWNEIGH: u16 = 28;
const DELNEIGH: u16 = 29;
const GETNEIGH: u16 = 30;

/// RTM_MAX.
const LAST: u16 = 123;

const INET: u8 = 2;
const INET6: u8 = 10;
/// The table of routes that there is, RTN_UNICAST and RTN_LOCAL.
const MAIN: u8 = 254;
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;
/// RTM_F_CLONED: it is an answer, no route. And RTCF_LOCAL.
const CLONED: u32 = 0x200;
const IS_LOCAL: u32 = 0x8000_0000;
/// What Linux gives routes of IPv6 that say nothing of it.
const METRIC_V6: u32 = 1024;
/// Least MTUs.
const MTU_V4: u32 = 68;
const MTU_V6: u32 = 1280;
/// Most addresses of an interface, routes, and neighbours that were written down by hand.
const MOST: usize = 65_536;
/// Room for one message.
const ONE: usize = 2048;

/// Groups (RTMGRP_).
mod group {
    pub const LINK: u64 = 1;
    pub const NEIGHBOUR: u64 = 4;
    pub const ADDRESS_V4: u64 = 0x10;
    pub const ROUTE_V4: u64 = 0x40;
    pub const ADDRESS_V6: u64 = 0x100;
    pub const ROUTE_V6: u64 = 0x400;
}

type Done = Result<(), i64>;

fn family_of(address: &Address) -> u8 {
    if address.is_v4() {
        INET
    } else {
        INET6
    }
}

/// Bits in front of an address's own in [`Address`].
fn ahead(family: u8) -> u32 {
    if family == INET {
        96
    } else {
        0
    }
}

/// An address's own bytes.
fn bytes_of(address: &Address) -> &[u8] {
    match address.is_v4() {
        true => &address.0[12..],
        false => &address.0,
    }
}

/// An address in an attribute.
fn address_in(family: u8, bytes: Option<&[u8]>) -> Result<Option<Address>, i64> {
    let Some(bytes) = bytes else { return Ok(None) };
    let found = match family {
        INET => bytes.first_chunk().map(|bytes| Address::v4(*bytes)),
        // (A mapped one would be of the other family.)
        _ => bytes
            .first_chunk()
            .map(|bytes| Address(*bytes))
            .filter(|address| !address.is_v4()),
    };
    found.map(Some).ok_or(EINVAL)
}

fn is_family(family: u8) -> bool {
    matches!(family, INET | INET6)
}

/// Is this wanted by who asks for a family, or for all?
fn wanted(family: u8, address: &Address) -> bool {
    !is_family(family) || family == family_of(address)
}

// ---- what is told

fn put_link(to: &mut Builder, interface: &Interface, change: u32) {
    let (kind, mac) = interface.hardware();
    let up = interface.flags & iff::LOWER_UP != 0;
    to.put(&[0, 0]);
    to.put(&kind.to_ne_bytes());
    to.put(&interface.number.to_ne_bytes());
    to.put(&interface.flags.to_ne_bytes());
    to.put(&change.to_ne_bytes());
    let mut name = [0; 16];
    let length = interface.name.len().min(15);
    name[..length].copy_from_slice(&interface.name[..length]);
    to.attribute(3, &name[..=length]);
    // The queue's length, which is the program's for TUN.
    to.number(13, interface.queue_length());
    // IF_OPER_: unknown, up, down.
    let unknown = interface.is_loopback() || interface.tunnel.is_some();
    let state = match (unknown, up) {
        (true, true) => 0,
        (false, true) => 6,
        (_, false) => 2,
    };
    to.attribute(16, &[state]);
    to.attribute(17, &[0]);
    to.number(4, interface.mtu);
    to.number(27, 0);
    to.number(30, 0);
    to.number(31, 1);
    to.number(32, 1);
    to.attribute(33, &[u8::from(up)]);
    let queue: &[u8] = match interface.is_loopback() {
        true => b"noqueue\0",
        false => b"pfifo_fast\0",
    };
    to.attribute(6, queue);
    to.number(35, 0);
    to.attribute(39, &[0]);
    to.attribute(14, &[0; 32]);
    if interface.has_header() {
        to.attribute(1, &mac);
        let all = if interface.is_loopback() { 0 } else { 0xff };
        to.attribute(2, &[all; 6]);
    }
    if let Some(tunnel) = &interface.tunnel {
        to.attribute(18, &tunnel.described());
    }
    let (received, sent) = (&interface.received, &interface.sent);
    let mut counts = [0; 24];
    counts[..4].copy_from_slice(&[received.packets, sent.packets, received.bytes, sent.bytes]);
    counts[6] = received.dropped;
    counts[7] = sent.dropped;
    let mut long = [0; 192];
    let mut short = [0; 96];
    for (at, count) in counts.iter().enumerate() {
        long[at * 8..at * 8 + 8].copy_from_slice(&count.to_ne_bytes());
        short[at * 4..at * 4 + 4].copy_from_slice(&(*count as u32).to_ne_bytes());
    }
    to.attribute(23, &long);
    to.attribute(7, &short);
}

/// Seconds until then.
fn seconds(until: u64, now: Time) -> u32 {
    match until {
        0 => u32::MAX,
        until => (until.saturating_sub(now.0) / 1_000_000) as u32,
    }
}

fn put_address(to: &mut Builder, interface: &Interface, own: &Own, now: Time) {
    let family = family_of(&own.address);
    let bits = own.bits - ahead(family);
    to.put(&[family, bits as u8, own.flags as u8, own.scope]);
    to.put(&interface.number.to_ne_bytes());
    to.attribute(1, bytes_of(&own.peer.unwrap_or(own.address)));
    if family == INET6 && own.peer.is_some() {
        to.attribute(2, bytes_of(&own.address));
    }
    if family == INET {
        to.attribute(2, bytes_of(&own.address));
        if let Some(all) = &own.broadcast {
            to.attribute(4, bytes_of(all));
        }
        let mut name = [0; 16];
        let length = interface.name.len().min(15);
        name[..length].copy_from_slice(&interface.name[..length]);
        to.attribute(3, &name[..=length]);
    }
    to.number(8, own.flags);
    let mut times = [0; 16];
    times[..4].copy_from_slice(&seconds(own.preferred, now).to_ne_bytes());
    times[4..8].copy_from_slice(&seconds(own.valid, now).to_ne_bytes());
    to.attribute(6, &times);
}

fn put_route(to: &mut Builder, route: &Route) {
    let family = family_of(&route.prefix);
    let bits = route.bits - ahead(family);
    let kind = [
        family,
        bits as u8,
        0,
        0,
        MAIN,
        route.origin,
        route.scope,
        UNICAST,
    ];
    to.put(&kind);
    to.put(&[0; 4]);
    to.number(15, u32::from(MAIN));
    if bits != 0 {
        to.attribute(1, bytes_of(&route.prefix));
    }
    if route.metric != 0 {
        to.number(6, route.metric);
    }
    if let Some(source) = &route.source {
        to.attribute(7, bytes_of(source));
    }
    if let Some(gateway) = &route.gateway {
        to.attribute(5, bytes_of(gateway));
    }
    to.number(4, route.interface);
    if family == INET6 {
        to.attribute(12, &[0; 32]);
        to.attribute(20, &[0]);
    }
}

fn put_neighbour(to: &mut Builder, interface: u32, neighbour: &Neighbour) {
    to.put(&[family_of(&neighbour.address), 0, 0, 0]);
    to.put(&interface.to_ne_bytes());
    to.put(&neighbour.state.to_ne_bytes());
    to.put(&[0, UNICAST]);
    to.attribute(1, bytes_of(&neighbour.address));
    if let Some(mac) = &neighbour.mac {
        to.attribute(2, mac);
    }
    to.number(4, 0);
    to.attribute(3, &[0; 16]);
}

impl Net {
    /// A piece of a dump, from a place on. None: that was all.
    pub(super) fn put_route_messages(
        &mut self,
        builder: &mut Builder,
        to: To,
        what: &What,
        mut place: u64,
    ) -> Option<u64> {
        let now = self.time;
        let head = |kind| (kind, to.flags, to.seq, to.port);
        match *what {
            What::Links => loop {
                let interface = self.interfaces.all.get(place as usize)?;
                if !builder.message(head(NEWLINK), |to| put_link(to, interface, 0)) {
                    return Some(place);
                }
                place += 1;
            },
            What::Addresses { family, interface } => loop {
                // The upper half says whose, the lower half which one.
                let (whose, at) = ((place >> 32) as usize, place as u32 as usize);
                let of = self.interfaces.all.get(whose)?;
                let Some(own) = of.addresses().get(at) else {
                    place = (whose as u64 + 1) << 32;
                    continue;
                };
                let meant = wanted(family, &own.address);
                if meant
                    && (interface == 0 || interface == of.number)
                    && !builder.message(head(NEWADDR), |to| put_address(to, of, own, now))
                {
                    return Some(place);
                }
                place += 1;
            },
            What::Routes { family } => loop {
                let route = self.interfaces.routes().get(place as usize)?;
                if wanted(family, &route.prefix)
                    && !builder.message(head(NEWROUTE), |to| put_route(to, route))
                {
                    return Some(place);
                }
                place += 1;
            },
            What::Neighbours { family, interface } => loop {
                let (whose, at) = ((place >> 32) as usize, place as u32 as usize);
                let of = self.interfaces.all.get_mut(whose)?;
                let number = of.number;
                let meant = interface == 0 || interface == number;
                let device = of.device().filter(|_| meant);
                let Some(neighbour) = device.and_then(|device| device.neighbour(at)) else {
                    place = (whose as u64 + 1) << 32;
                    continue;
                };
                let put = |to: &mut Builder| put_neighbour(to, number, &neighbour);
                if wanted(family, &neighbour.address) && !builder.message(head(NEWNEIGH), put) {
                    return Some(place);
                }
                place += 1;
            },
            What::Sockets(_) | What::Local(_) | What::LocalOne(..) => None,
        }
    }

    /// What has changed, to all who want to hear of it.
    fn tell_change(
        &mut self,
        cx: &mut Context,
        kind: u16,
        groups: u64,
        fill: impl FnOnce(&mut Builder, &Net),
    ) {
        if self.subscribers.is_empty() {
            return;
        }
        let Some(mut builder) = Builder::new(ONE) else {
            return;
        };
        builder.message((kind, 0, 0, 0), |to| fill(to, self));
        self.tell(cx, super::ROUTE as u8, groups, &builder.bytes, 0);
    }

    /// An interface's flags are others than before, or something else of it is.
    pub(crate) fn link_changed(&mut self, cx: &mut Context, number: u32, before: u32) {
        self.tell_change(cx, NEWLINK, group::LINK, |to, net| {
            if let Some(interface) = net.interfaces.get(number) {
                put_link(to, interface, interface.flags ^ before);
            }
        });
    }

    /// An interface is about to be no more.
    pub(crate) fn link_gone(&mut self, cx: &mut Context, number: u32) {
        self.tell_change(cx, DELLINK, group::LINK, |to, net| {
            if let Some(interface) = net.interfaces.get(number) {
                put_link(to, interface, u32::MAX);
            }
        });
    }

    fn address_changed(&mut self, cx: &mut Context, kind: u16, number: u32, own: &Own) {
        let groups = match own.address.is_v4() {
            true => group::ADDRESS_V4,
            false => group::ADDRESS_V6,
        };
        self.tell_change(cx, kind, groups, |to, net| {
            if let Some(interface) = net.interfaces.get(number) {
                put_address(to, interface, own, net.time);
            }
        });
    }

    fn route_changed(&mut self, cx: &mut Context, kind: u16, route: &Route) {
        let groups = match route.prefix.is_v4() {
            true => group::ROUTE_V4,
            false => group::ROUTE_V6,
        };
        self.tell_change(cx, kind, groups, |to, _| put_route(to, route));
    }

    pub(crate) fn bring_address(&mut self, cx: &mut Context, number: u32, mut own: Own) -> Done {
        let interface = self.interfaces.get(number).ok_or(ENODEV)?;
        if interface.flags & iff::BROADCAST != 0 && own.address.is_v4() && own.bits < 127 {
            own.broadcast.get_or_insert(own.address.last_of(own.bits));
        }
        self.interfaces.add_address(number, own)?;
        if !self.hold_group(cx, number, &own.address) {
            self.interfaces
                .remove_address(number, &own.address, own.bits);
            return Err(ENOBUFS);
        }
        self.address_changed(cx, NEWADDR, number, &own);
        Ok(())
    }

    pub(crate) fn drop_address(
        &mut self,
        cx: &mut Context,
        number: u32,
        address: &Address,
        bits: u32,
    ) -> bool {
        let Some(own) = self.interfaces.remove_address(number, address, bits) else {
            return false;
        };
        self.release_group(cx, number, &own.address);
        if let Some(payer) = own.payer {
            cx.refund(payer, ADDRESS_COST);
        }
        // Routes that come from it have nothing to come from.
        if !self.interfaces.is_own(address) {
            self.drop_routes(cx, |route| route.source == Some(*address));
        }
        self.address_changed(cx, DELADDR, number, &own);
        true
    }

    pub(crate) fn bring_route(&mut self, cx: &mut Context, route: Route) -> bool {
        let added = self.interfaces.add_route(route);
        if added {
            self.route_changed(cx, NEWROUTE, &route);
        }
        added
    }

    /// Routes go. How many.
    pub(crate) fn drop_routes(
        &mut self,
        cx: &mut Context,
        which: impl Fn(&Route) -> bool,
    ) -> usize {
        let mut gone = alloc::vec::Vec::new();
        let heard = !self.subscribers.is_empty();
        let mut count = 0;
        self.interfaces.remove_routes(which, |route| {
            count += 1;
            if let Some(payer) = route.payer {
                cx.refund(payer, size_of::<Route>());
            }
            if heard && gone.try_reserve(1).is_ok() {
                gone.push(*route);
            }
        });
        for route in gone {
            self.route_changed(cx, DELROUTE, &route);
        }
        count
    }

    // ---- what is asked

    pub(super) fn route_message(
        &mut self,
        cx: &mut Context,
        index: u32,
        message: &Message,
    ) -> Result<Outcome, i64> {
        let body = message.body();
        if message.kind > LAST {
            return Err(EOPNOTSUPP);
        }
        let Some(family) = body.first().copied() else {
            return Ok(Outcome::Done);
        };
        // GET is the third of each four.
        let get = message.kind & 3 == 2;
        if !get && !self.has_capability(cx, NET_ADMIN) {
            return Err(EPERM);
        }
        self.now(cx);
        if get && message.flags & flag::DUMP != 0 {
            let number = if body.len() >= 8 { word(body, 4) } else { 0 };
            let strict = self.is_strict(index);
            let interface = if strict { number } else { 0 };
            return Ok(Outcome::Dump(match message.kind {
                GETLINK => What::Links,
                GETADDR => What::Addresses { family, interface },
                GETROUTE => What::Routes { family },
                GETNEIGH => What::Neighbours { family, interface },
                _ => return Err(EOPNOTSUPP),
            }));
        }
        match message.kind {
            GETLINK => self.get_link(cx, index, message),
            NEWLINK | SETLINK => self.set_link(cx, message),
            DELLINK => match self.link_of(message)? {
                Some(of) if of.tunnel.is_some() => {
                    let number = of.number;
                    self.end_tunnel(cx, number);
                    Ok(())
                }
                Some(_) => Err(EOPNOTSUPP),
                None => Err(ENODEV),
            },
            NEWADDR if is_family(family) => self.new_address(cx, family, message),
            DELADDR if is_family(family) => self.delete_address(cx, family, message),
            NEWROUTE if is_family(family) => self.new_route(cx, family, message),
            DELROUTE if is_family(family) => self.delete_route(cx, family, message),
            GETROUTE if is_family(family) => self.get_route(cx, index, family, message),
            NEWNEIGH if is_family(family) => self.set_neighbour(cx, family, message),
            DELNEIGH if is_family(family) => self.set_neighbour(cx, family, message),
            _ => Err(EOPNOTSUPP),
        }
        .map(|()| Outcome::Done)
    }

    fn is_strict(&self, index: u32) -> bool {
        let netlink = self.netlinks.get(self.further(index));
        netlink.is_some_and(|netlink| netlink.options & super::STRICT != 0)
    }

    fn answer(
        &mut self,
        cx: &mut Context,
        index: u32,
        (kind, seq): (u16, u32),
        fill: impl FnOnce(&mut Builder, &Net),
    ) -> Done {
        let netlink = self.netlinks.get(self.further(index));
        let port = netlink.map_or(0, |netlink| netlink.port);
        let mut builder = Builder::new(ONE + HEADER).ok_or(ENOBUFS)?;
        builder.message((kind, 0, seq, port), |to| fill(to, self));
        self.give_netlink(cx, index, builder.bytes, endpoint(0, 0));
        Ok(())
    }

    // ---- links

    /// The interface that a message is about, by its number or name. Ok(None): there is none.
    fn link_of(&self, message: &Message) -> Result<Option<&Interface>, i64> {
        let body = message.body();
        let attributes = Attributes::behind(body, 16).ok_or(EINVAL)?;
        let name = attributes.get(3).or_else(|| attributes.get(53));
        match (word(body, 4), name) {
            (0, None) => Err(EINVAL),
            (0, Some(name)) => {
                let end = name.iter().position(|byte| *byte == 0);
                Ok(self.interfaces.by_name(&name[..end.unwrap_or(name.len())]))
            }
            (number, _) if number as i32 > 0 => Ok(self.interfaces.get(number)),
            _ => Err(EINVAL),
        }
    }

    fn get_link(&mut self, cx: &mut Context, index: u32, message: &Message) -> Done {
        let number = self.link_of(message)?.ok_or(ENODEV)?.number;
        self.answer(cx, index, (NEWLINK, message.seq), |to, net| {
            if let Some(interface) = net.interfaces.get(number) {
                put_link(to, interface, 0);
            }
        })
    }

    fn set_link(&mut self, cx: &mut Context, message: &Message) -> Done {
        let body = message.body();
        let attributes = Attributes::behind(body, 16).ok_or(EINVAL)?;
        let found = match self.link_of(message) {
            // Who says neither number nor name means one that there is not (`ip` finds out so whether links can be made and removed).
            Err(EINVAL) if message.kind == NEWLINK && word(body, 4) == 0 => None,
            found => found?,
        };
        let Some(interface) = found else {
            // There are no links that programs make.
            return Err(match message.flags & flag::CREATE {
                0 => ENODEV,
                _ => EOPNOTSUPP,
            });
        };
        let number = interface.number;
        if message.flags & flag::EXCL != 0 {
            return Err(EEXIST);
        }
        let renamed = attributes.get(3).is_some_and(|name| {
            let end = name.iter().position(|byte| *byte == 0);
            name[..end.unwrap_or(name.len())] != interface.name[..]
        });
        // Another address, another name, a master, a name space, kinds.
        if renamed
            || [1, 10, 18, 19, 28]
                .into_iter()
                .any(|kind| attributes.get(kind).is_some())
        {
            return Err(EOPNOTSUPP);
        }
        let mtu = attributes.word(4)?;
        if let Some(mtu) = mtu {
            self.set_mtu(cx, number, mtu)?;
        }
        let (flags, change) = (word(body, 8), word(body, 12));
        // (Who says nothing of what changes means all.)
        let change = if change == 0 { flags } else { change };
        if change & iff::UP != 0 {
            self.set_up(cx, number, flags & iff::UP != 0);
        }
        Ok(())
    }

    pub(crate) fn set_mtu(&mut self, cx: &mut Context, number: u32, mtu: u32) -> Done {
        let interface = self.interfaces.get_mut(number).ok_or(ENODEV)?;
        let v6 = interface.addresses().iter().any(|of| !of.address.is_v4());
        let least = if v6 { MTU_V6 } else { MTU_V4 };
        let most = match interface.device() {
            Some(device) => device.most(),
            None => 65_536,
        };
        if !(least..=most).contains(&mtu) {
            return Err(EINVAL);
        }
        interface.mtu = mtu;
        let flags = interface.flags;
        if let Some(device) = interface.device() {
            device.set_mtu(mtu);
        }
        self.link_changed(cx, number, flags);
        Ok(())
    }

    /// Up or down. What is down has no routes, and of IPv6 no addresses; those of IPv4 stay.
    pub(crate) fn set_up(&mut self, cx: &mut Context, number: u32, up: bool) {
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        let before = interface.flags;
        if (before & iff::UP != 0) == up {
            return;
        }
        interface.flags ^= iff::UP;
        if interface.is_loopback() {
            let carrier = iff::RUNNING | iff::LOWER_UP;
            interface.flags = interface.flags & !carrier | if up { carrier } else { 0 };
        }
        if let Some(device) = interface.device() {
            device.set_up(up);
        }
        self.look_at_carrier(cx, number);
        self.link_changed(cx, number, before);
        self.wake_writer(cx, number);
        if up {
            self.interfaces.restore_routes(number);
        } else {
            self.drop_routes(cx, |route| route.interface == number);
            self.tell_captures(cx, number);
        }
        // The link may have begun or ended something by that.
        self.look_at_link(cx, number);
    }

    // ---- addresses

    fn new_address(&mut self, cx: &mut Context, family: u8, message: &Message) -> Done {
        let body = message.body();
        let attributes = Attributes::behind(body, 8).ok_or(EINVAL)?;
        let bits = u32::from(body[1]) + ahead(family);
        let (flags, number) = (u32::from(body[2]), word(body, 4));
        let local = address_in(family, attributes.get(2))?;
        let address = address_in(family, attributes.get(1))?;
        let flags = attributes.word(8)?.unwrap_or(flags);
        let peer = address.filter(|peer| local.is_some_and(|local| local != *peer));
        let address = match (family, local, address) {
            (INET, Some(local), _) => local,
            (INET6, local, Some(address)) => local.unwrap_or(address),
            (INET6, Some(local), None) => local,
            _ => return Err(EINVAL),
        };
        if bits > 128 {
            return Err(EINVAL);
        }
        let interface = self.interfaces.get(number).ok_or(ENODEV)?;
        let several = address.is_multicast() || address.is_broadcast();
        if address.is_any() || several {
            return Err(if family == INET {
                EINVAL
            } else {
                EADDRNOTAVAIL
            });
        }
        if let Some(times) = attributes.get(6) {
            if times.len() < 16 {
                return Err(EINVAL);
            }
            let (preferred, valid) = (word(times, 0), word(times, 4));
            if valid == 0 || preferred > valid {
                return Err(EINVAL);
            }
            // They would have to be looked after.
            if valid != u32::MAX || preferred != u32::MAX {
                return Err(EOPNOTSUPP);
            }
        }
        let mut known = interface.addresses().iter();
        let same = |of: &&Own| of.address == address && (of.bits == bits || !address.is_v4());
        if known.any(|of| same(&of)) {
            let replaces = message.flags & (flag::REPLACE | flag::EXCL) == flag::REPLACE;
            return if replaces { Ok(()) } else { Err(EEXIST) };
        }
        if interface.addresses().len() >= MOST {
            return Err(ENOBUFS);
        }
        let mut own = Own::new(address, bits);
        own.peer = peer;
        own.flags |= flags & crate::interface::NO_PREFIX_ROUTE;
        if family == INET {
            own.scope = body[3];
            own.broadcast = address_in(family, attributes.get(4))?;
        }
        self.pay(cx, ADDRESS_COST, |net, cx, payer| {
            own.payer = Some(payer);
            net.bring_address(cx, number, own)
        })
    }

    /// Something is kept, on the caller's account.
    pub(crate) fn pay(
        &mut self,
        cx: &mut Context,
        bytes: usize,
        keep: impl FnOnce(&mut Net, &mut Context, u32) -> Done,
    ) -> Done {
        let payer = cx.payer();
        cx.charge(payer, bytes).map_err(|_| ENOBUFS)?;
        keep(self, cx, payer).inspect_err(|_| cx.refund(payer, bytes))
    }

    fn delete_address(&mut self, cx: &mut Context, family: u8, message: &Message) -> Done {
        let body = message.body();
        let attributes = Attributes::behind(body, 8).ok_or(EINVAL)?;
        let bits = u32::from(body[1]) + ahead(family);
        let number = word(body, 4);
        let local = address_in(family, attributes.get(2))?;
        let address = local.or(address_in(family, attributes.get(1))?);
        let interface = self.interfaces.get(number).ok_or(ENODEV)?;
        let mut all = interface.addresses().iter();
        let found = all.find(|own| match address {
            // (Of IPv4 a prefix is looked at if there is an address with it.)
            Some(address) => own.address == address && own.bits == bits,
            None => own.address.is_v4() == (family == INET),
        });
        let own = *found.ok_or(EADDRNOTAVAIL)?;
        self.drop_address(cx, number, &own.address, own.bits);
        Ok(())
    }

    // ---- routes

    /// What a message says of a route; and its table.
    fn route_in(&self, family: u8, message: &Message) -> Result<(Route, bool), i64> {
        let body = message.body();
        let attributes = Attributes::behind(body, 12).ok_or(EINVAL)?;
        let number = |kind| attributes.word(kind);
        let bits = u32::from(body[1]) + ahead(family);
        if bits > 128 || body[2] != 0 {
            return Err(EINVAL);
        }
        let any = if family == INET {
            Address::ANY_V4
        } else {
            Address::ANY
        };
        let prefix = address_in(family, attributes.get(1))?.unwrap_or(any);
        if prefix.masked(bits) != prefix {
            return Err(EINVAL);
        }
        let table = number(15)?.unwrap_or(u32::from(body[4]));
        // Ways by several gateways, and metrics beyond the first one.
        if attributes.get(9).is_some() || attributes.get(30).is_some() {
            return Err(EOPNOTSUPP);
        }
        let route = Route {
            prefix,
            bits,
            interface: number(4)?.unwrap_or(0),
            gateway: address_in(family, attributes.get(5))?.filter(|of| !of.is_any()),
            metric: number(6)?.unwrap_or(0),
            source: address_in(family, attributes.get(7))?.filter(|of| !of.is_any()),
            origin: body[5],
            scope: body[6],
            payer: None,
        };
        Ok((route, matches!(table, 0 | 254)))
    }

    fn new_route(&mut self, cx: &mut Context, family: u8, message: &Message) -> Done {
        let (mut route, main) = self.route_in(family, message)?;
        if !main || !matches!(message.body()[7], 0 | UNICAST) {
            return Err(EOPNOTSUPP);
        }
        if let Some(source) = &route.source {
            if !self.interfaces.is_own(source) {
                return Err(EINVAL);
            }
        }
        if let Some(gateway) = &route.gateway {
            // It must be a neighbour.
            let near = self.interfaces.way(gateway, route.interface);
            let near = near.filter(|way| {
                way.next_hop == *gateway && way.interface != crate::interface::LOOPBACK
            });
            let near = near.ok_or(if family == INET {
                ENETUNREACH
            } else {
                EHOSTUNREACH
            })?;
            route.interface = near.interface;
        }
        if route.interface == 0 {
            return Err(ENODEV);
        }
        let interface = self.interfaces.get(route.interface).ok_or(ENODEV)?;
        if interface.flags & iff::UP == 0 {
            return Err(ENETDOWN);
        }
        if family == INET6 {
            (route.scope, route.metric) = (
                scope::UNIVERSE,
                match route.metric {
                    0 => METRIC_V6,
                    metric => metric,
                },
            );
        }
        if route.origin == 0 {
            route.origin = origin::BOOT;
        }
        let same = self.interfaces.routes_of(&route.prefix, route.bits);
        let like = |of: &Route| of.metric == route.metric;
        let exact = |of: &Route| {
            (of.metric, of.interface, of.gateway) == (route.metric, route.interface, route.gateway)
        };
        let (there, twice) = (same.iter().any(like), same.iter().any(exact));
        let flags = message.flags;
        if there && flags & flag::EXCL != 0 || twice && flags & flag::REPLACE == 0 {
            return Err(EEXIST);
        }
        if !there && flags & flag::CREATE == 0 {
            return Err(ENOENT);
        }
        if there && flags & flag::REPLACE != 0 {
            let (prefix, bits, metric) = (route.prefix, route.bits, route.metric);
            self.drop_routes(cx, |of| {
                (of.prefix, of.bits, of.metric) == (prefix, bits, metric)
            });
        } else if there && flags & (flag::APPEND | flag::CREATE) == 0 {
            return Err(EEXIST);
        }
        if self.interfaces.routes().len() >= MOST {
            return Err(ENOBUFS);
        }
        self.pay(cx, size_of::<Route>(), |net, cx, payer| {
            route.payer = Some(payer);
            match net.bring_route(cx, route) {
                true => Ok(()),
                false => Err(ENOBUFS),
            }
        })
    }

    fn delete_route(&mut self, cx: &mut Context, family: u8, message: &Message) -> Done {
        let (route, main) = self.route_in(family, message)?;
        if !main {
            return Err(ESRCH);
        }
        let (kind, range) = (message.body()[7], message.body()[6]);
        let same = self.interfaces.routes_of(&route.prefix, route.bits).iter();
        let found = same.copied().find(|of| {
            (route.interface == 0 || of.interface == route.interface)
                && (route.gateway.is_none() || of.gateway == route.gateway)
                && (route.source.is_none() || of.source == route.source)
                && (route.metric == 0 || of.metric == route.metric)
                && (route.origin == 0 || of.origin == route.origin)
                && (family == INET6 || range == 255 || of.scope == range)
                && matches!(kind, 0 | UNICAST)
        });
        let found = found.ok_or(ESRCH)?;
        self.drop_routes(cx, |of| *of == found);
        Ok(())
    }

    /// By which way something would go.
    fn get_route(&mut self, cx: &mut Context, index: u32, family: u8, message: &Message) -> Done {
        let body = message.body();
        let attributes = Attributes::behind(body, 12).ok_or(EINVAL)?;
        let any = if family == INET {
            Address::ANY_V4
        } else {
            Address::ANY
        };
        let to = address_in(family, attributes.get(1))?.unwrap_or(any);
        let bound = attributes.word(4)?.unwrap_or(0);
        let from = address_in(family, attributes.get(2))?;
        let way = self.interfaces.way(&to, bound).ok_or(ENETUNREACH)?;
        let local = self.interfaces.is_own(&to) || to.is_any();
        let uid = cx.uid();
        self.answer(cx, index, (NEWROUTE, message.seq), |builder, _| {
            let (kind, table) = match local {
                true => (LOCAL, 255),
                false => (UNICAST, MAIN),
            };
            let bits = (128 - ahead(family)) as u8;
            builder.put(&[family, bits, 0, 0, table, 0, 0, kind]);
            let flags = CLONED | if local && family == INET { IS_LOCAL } else { 0 };
            builder.put(&flags.to_ne_bytes());
            builder.number(15, u32::from(table));
            builder.attribute(1, bytes_of(&to));
            builder.number(4, way.interface);
            builder.attribute(7, bytes_of(&from.unwrap_or(way.source)));
            if way.next_hop != to && !local {
                builder.attribute(5, bytes_of(&way.next_hop));
            }
            builder.number(25, uid);
            builder.attribute(12, &[0; 32]);
            if family == INET6 {
                builder.attribute(20, &[0]);
            }
        })
    }

    // ---- neighbours

    fn set_neighbour(&mut self, cx: &mut Context, family: u8, message: &Message) -> Done {
        let body = message.body();
        let attributes = Attributes::behind(body, 12).ok_or(EINVAL)?;
        let address = address_in(family, attributes.get(1))?.ok_or(EINVAL)?;
        let number = word(body, 4);
        let mac = match attributes.get(2) {
            None => None,
            Some(bytes) if bytes.len() < 6 => return Err(EINVAL),
            Some(bytes) => bytes.first_chunk::<6>().copied(),
        };
        let flags = message.flags;
        let interface = self.interfaces.get_mut(number).ok_or(ENODEV)?;
        let device = interface.device().ok_or(EINVAL)?;
        let before = device.neighbour_of(&address);
        if message.kind == DELNEIGH {
            let before = before.ok_or(ENOENT)?;
            device.set_neighbour(&address, None);
            let gone = Neighbour {
                state: FAILED,
                mac: None,
                ..before
            };
            self.neighbour_changed(cx, DELNEIGH, number, &gone);
            return Ok(());
        }
        if before.is_some() && flags & flag::EXCL != 0 {
            return Err(EEXIST);
        }
        if before.is_none() && flags & flag::CREATE == 0 {
            return Err(ENOENT);
        }
        let mac = mac.ok_or(EINVAL)?;
        if address.is_any() || address.is_multicast() || !device.set_neighbour(&address, Some(mac))
        {
            return Err(EINVAL);
        }
        if let Some(now) = device.neighbour_of(&address) {
            self.neighbour_changed(cx, NEWNEIGH, number, &now);
        }
        Ok(())
    }

    fn neighbour_changed(&mut self, cx: &mut Context, kind: u16, number: u32, of: &Neighbour) {
        self.tell_change(cx, kind, group::NEIGHBOUR, |to, _| {
            put_neighbour(to, number, of)
        });
    }
}

/// NUD_FAILED.
const FAILED: u16 = 0x20;
