//! Interfaces, their addresses, and the routes that say by which of them a packet leaves.
//!
//! An interface is `lo` or a [`Device`]. What `lo` is given waits in its queue until [`crate::Net::pump`] takes it in again; what a device receives goes to [`crate::Net::input`].

use crate::address::Address;
use crate::link::Change;
use crate::packet::Packet;
use crate::routes::{origin, scope, Addresses, Route, Routes};
use crate::tunnel::device::{Queue, TUN_PACKETS};
use crate::tunnel::Tunnel;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_idl::errno::{EEXIST, ENOBUFS, ENODEV};
use cairn_resmgr::Context;
use cairn_rt::Received;
use cairn_tcp::time::Time;

/// `lo`'s number; others follow.
pub const LOOPBACK: u32 = 1;
const LAST: u32 = i32::MAX as u32;
const LOOPBACK_MTU: u32 = 65_536;
/// Most packets and bytes that wait in `lo`.
const QUEUE: usize = 1000;
const QUEUE_BYTES: usize = 16 << 20;

/// ARPHRD_ETHER, and ARPHRD_NONE.
pub const ETHERNET: u16 = 1;
pub const NO_HARDWARE: u16 = 65_534;

/// IFF_ (netdevice(7)).
pub mod flag {
    pub const UP: u32 = 1;
    pub const BROADCAST: u32 = 2;
    pub const LOOPBACK: u32 = 8;
    pub const POINT_TO_POINT: u32 = 0x10;
    pub const RUNNING: u32 = 0x40;
    pub const NO_ARP: u32 = 0x80;
    pub const MULTICAST: u32 = 0x1000;
    pub const LOWER_UP: u32 = 0x1_0000;
}

/// What a link does with a packet before it leaves, so that nobody else has to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offers {
    /// Sums of TCP and UDP.
    pub sums: bool,
    /// Cutting of long segments of TCP, of IPv4 and of IPv6.
    pub cuts: [bool; 2],
}

/// A machine on the same link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    pub address: Address,
    pub mac: Option<[u8; 6]>,
    /// NUD_ (rtnetlink(7)).
    pub state: u16,
}

/// What carries packets to other machines. It makes the link's header, and finds the neighbour.
pub trait Device {
    /// Send it to this neighbour, or drop it.
    fn send(&mut self, cx: &mut Context, packet: Packet, next_hop: Address);
    /// What may be left to it.
    fn offers(&self) -> Offers {
        Offers::default()
    }
    /// The next packet that has come.
    fn receive(&mut self, cx: &mut Context, now: Time) -> Option<Packet> {
        let _ = (cx, now);
        None
    }
    /// From now on packets in pieces come as they are ([`crate::forward`]), or no longer.
    fn pass_pieces(&mut self, on: bool) {
        let _ = on;
    }
    /// One of its pulses.
    fn pulse(&mut self, pulse: &Received) {
        let _ = pulse;
    }
    /// What has become of its address since.
    fn change(&mut self) -> Option<Change> {
        None
    }
    /// Is there a carrier?
    fn is_up(&self) -> bool {
        true
    }
    /// Its timer has come.
    fn time_passes(&mut self, cx: &mut Context, now: Time) {
        let _ = (cx, now);
    }
    /// When it is to be called next.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    /// The user takes it up or down.
    fn set_up(&mut self, up: bool) {
        let _ = up;
    }

    /// The longest packet that it may be set to, and what it is set to.
    fn most(&self) -> u32 {
        65_535
    }

    fn set_mtu(&mut self, mtu: u32) {
        let _ = mtu;
    }

    /// Who is known to be a neighbour: one after the other; the one with this address; and (user 0 says it) one that is not asked for, or (None) that is to be
    /// forgotten.
    fn neighbour(&self, at: usize) -> Option<Neighbour> {
        let _ = at;
        None
    }

    fn neighbour_of(&self, address: &Address) -> Option<Neighbour> {
        let _ = address;
        None
    }

    fn set_neighbour(&mut self, address: &Address, mac: Option<[u8; 6]>) -> bool {
        let _ = (address, mac);
        false
    }

    /// The interface's addresses, whenever they change.
    fn addresses(&mut self, own: &[Own]) {
        let _ = own;
    }

    /// Frames are kept for [`Device::captured`] from now on, also those for others, or no longer.
    fn capture(&mut self, on: bool, all: bool) {
        let _ = (on, all);
    }

    /// The next frame that was kept, and whom it was for ([`crate::capture::kind`]).
    fn captured(&mut self) -> Option<(u8, Vec<u8>)> {
        None
    }

    /// Send a frame as it is. It is not kept.
    fn send_frame(&mut self, frame: &[u8]) {
        let _ = frame;
    }

    /// What a program writes and reads, if it is the other end.
    fn tunnel(&mut self) -> Option<&mut Queue> {
        None
    }

    /// Of Ethernet.
    fn hardware_address(&self) -> [u8; 6] {
        [0; 6]
    }
}

pub enum Link {
    Loopback {
        queue: VecDeque<Packet>,
        bytes: usize,
    },
    Device(Box<dyn Device>),
}

/// An address of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Own {
    pub address: Address,
    /// The length of the prefix, of 128 bits, also for IPv4.
    pub bits: u32,
    /// The machine at the other end of the line, whose prefix it then is.
    pub peer: Option<Address>,
    /// RT_SCOPE_.
    pub scope: u8,
    /// IFA_F_ (rtnetlink(7)).
    pub flags: u32,
    pub broadcast: Option<Address>,
    /// µs of the monotonic clock: until then it is preferred, and valid. 0: for ever.
    pub preferred: u64,
    pub valid: u64,
    /// Whose account it is on.
    pub payer: Option<u32>,
}

/// IFA_F_PERMANENT, IFA_F_NOPREFIXROUTE.
pub const PERMANENT: u32 = 0x80;
pub const NO_PREFIX_ROUTE: u32 = 0x200;

impl Own {
    pub fn new(address: Address, bits: u32) -> Own {
        let near = address.is_link_local() && !address.is_v4();
        Own {
            address,
            bits,
            scope: match address.is_loopback() {
                true => scope::HOST,
                false if near => scope::LINK,
                // fec0::/10
                false if address.0[0] == 0xfe => scope::SITE,
                false => scope::UNIVERSE,
            },
            flags: PERMANENT,
            ..Own::default()
        }
    }

    /// The route to its neighbours.
    fn route(&self, interface: u32) -> Option<Route> {
        let v4 = self.address.is_v4();
        let none = self.address.is_loopback() || self.flags & NO_PREFIX_ROUTE != 0;
        let near = self.peer.unwrap_or(self.address);
        ((self.bits < 128 || self.peer.is_some()) && !none).then(|| Route {
            prefix: near.masked(self.bits),
            bits: self.bits,
            interface,
            metric: if v4 { 0 } else { 256 },
            source: v4.then_some(self.address),
            origin: origin::KERNEL,
            scope: if v4 { scope::LINK } else { scope::UNIVERSE },
            ..Route::default()
        })
    }

    fn its_broadcast(&self) -> Option<Address> {
        let v4 = self.address.is_v4();
        (v4 && self.bits < 127).then(|| self.address.last_of(self.bits))
    }
}

/// What /proc/net/dev shows.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub dropped: u64,
}

pub struct Interface {
    pub number: u32,
    pub name: Vec<u8>,
    pub mtu: u32,
    pub flags: u32,
    addresses: Vec<Own>,
    /// Where packets come from that nothing else is said of: of IPv4, of IPv6, and link-local.
    sources: [Option<Address>; 3],
    pub received: Counts,
    pub sent: Counts,
    /// How many memberships ask for what is for others.
    pub promiscuous: u32,
    pub link: Link,
    /// Of TUN and TAP.
    pub tunnel: Option<Tunnel>,
}

impl Interface {
    pub fn loopback() -> Interface {
        Interface {
            number: LOOPBACK,
            name: Vec::from(b"lo"),
            mtu: LOOPBACK_MTU,
            flags: flag::UP | flag::LOOPBACK | flag::RUNNING | flag::LOWER_UP,
            addresses: Vec::new(),
            sources: [None; 3],
            received: Counts::default(),
            sent: Counts::default(),
            promiscuous: 0,
            link: Link::Loopback {
                queue: VecDeque::new(),
                bytes: 0,
            },
            tunnel: None,
        }
    }

    /// How many packets wait at most until they leave.
    pub fn queue_length(&self) -> u32 {
        match self.has_header() {
            true => 1000,
            false => TUN_PACKETS as u32,
        }
    }

    /// Do frames have a header there? (Those of `lo` get one of zeros.)
    pub fn has_header(&self) -> bool {
        self.tunnel.as_ref().is_none_or(|of| of.is_tap())
    }

    /// The kind of its hardware (ARPHRD_), and its address.
    pub fn hardware(&self) -> (u16, [u8; 6]) {
        match &self.link {
            Link::Loopback { .. } => (772, [0; 6]),
            Link::Device(device) => {
                let kind = self.tunnel.as_ref().map_or(ETHERNET, |of| of.hardware);
                (kind, device.hardware_address())
            }
        }
    }

    pub fn addresses(&self) -> &[Own] {
        &self.addresses
    }

    fn find_sources(&mut self) {
        self.sources = [None; 3];
        for own in &self.addresses {
            let kind = match own.address {
                address if address.is_v4() => 0,
                address if address.is_link_local() => 2,
                _ => 1,
            };
            self.sources[kind].get_or_insert(own.address);
        }
        if let Link::Device(device) = &mut self.link {
            device.addresses(&self.addresses);
        }
    }

    /// What is said to come from it: of IPv4, and of IPv6.
    pub fn own_sources(&self) -> [Option<Address>; 2] {
        [self.sources[0], self.sources[1]]
    }

    pub fn source(&self, destination: &Address) -> Option<Address> {
        let [v4, wide, near] = self.sources;
        match destination {
            to if to.is_v4() => v4,
            to if to.is_link_local() || to.0[0] == 0xff && to.0[1] & 15 == 2 => near.or(wide),
            _ => wide.or(near),
        }
    }

    pub fn is_loopback(&self) -> bool {
        matches!(self.link, Link::Loopback { .. })
    }

    pub fn send(&mut self, cx: &mut Context, mut packet: Packet, next_hop: Address) {
        let length = packet.bytes().len() as u64;
        match &mut self.link {
            Link::Loopback { queue, bytes } => {
                let full = queue.len() >= QUEUE || *bytes + packet.memory() > QUEUE_BYTES;
                if full || queue.try_reserve(1).is_err() {
                    self.sent.dropped += 1;
                    return;
                }
                // What a program made itself has checksums that are looked at.
                packet.trusted = !packet.seen;
                *bytes += packet.memory();
                queue.push_back(packet);
            }
            Link::Device(device) => device.send(cx, packet, next_hop),
        }
        // (What a program reads is counted when it does.)
        if self.tunnel.is_none() {
            self.sent.packets += 1;
            self.sent.bytes += length;
        }
    }

    /// What its link does with packets.
    pub fn offers(&self) -> Offers {
        match &self.link {
            Link::Device(device) => device.offers(),
            Link::Loopback { .. } => Offers::default(),
        }
    }

    /// Does something wait in `lo`?
    pub fn waits(&self) -> bool {
        matches!(&self.link, Link::Loopback { queue, .. } if !queue.is_empty())
    }

    /// What leads to other machines, if it is not `lo`.
    pub fn device(&mut self) -> Option<&mut dyn Device> {
        match &mut self.link {
            Link::Device(device) => Some(&mut **device),
            Link::Loopback { .. } => None,
        }
    }

    /// The next packet that waits in `lo`.
    pub fn looped(&mut self) -> Option<Packet> {
        let Link::Loopback { queue, bytes } = &mut self.link else {
            return None;
        };
        let packet = queue.pop_front()?;
        *bytes -= packet.memory();
        Some(packet)
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    pub interface: u32,
    pub next_hop: Address,
    /// Where it comes from, unless its sender says so.
    pub source: Address,
    pub mtu: u32,
}

/// All interfaces (there are few: they are walked), routes and addresses.
pub struct Interfaces {
    pub all: Vec<Interface>,
    /// The number of the next one: what is gone is not taken for another.
    next: u32,
    /// Changes with every change of interfaces and addresses.
    pub version: u64,
    routes: Routes,
    own: Addresses,
    broadcasts: Addresses,
}

impl Default for Interfaces {
    fn default() -> Interfaces {
        let mut interfaces = Interfaces {
            all: Vec::from([Interface::loopback()]),
            next: LOOPBACK + 1,
            version: 1,
            routes: Routes::default(),
            own: Addresses::default(),
            broadcasts: Addresses::default(),
        };
        for (address, bits) in [(Address::LOOPBACK_V4, 96 + 8), (Address::LOOPBACK, 128)] {
            let _ = interfaces.add_address(LOOPBACK, Own::new(address, bits));
        }
        interfaces
    }
}

impl Interfaces {
    pub fn get(&self, number: u32) -> Option<&Interface> {
        self.all.iter().find(|interface| interface.number == number)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Interface> {
        let mut all = self.all.iter_mut();
        all.find(|interface| interface.number == number)
    }

    pub fn by_name(&self, name: &[u8]) -> Option<&Interface> {
        self.all.iter().find(|interface| interface.name == name)
    }

    /// One more; its number.
    pub fn add(&mut self, name: &[u8], mtu: u32, flags: u32, device: Box<dyn Device>) -> u32 {
        let number = self.next;
        self.version += 1;
        self.find_next();
        self.all.push(Interface {
            number,
            name: Vec::from(name),
            mtu,
            flags,
            addresses: Vec::new(),
            sources: [None; 3],
            received: Counts::default(),
            sent: Counts::default(),
            promiscuous: 0,
            link: Link::Device(device),
            tunnel: None,
        });
        number
    }

    /// A number that no interface has; long ago one may have had it.
    fn find_next(&mut self) {
        loop {
            self.next = match self.next {
                LAST => LOOPBACK + 1,
                next => next + 1,
            };
            if self.get(self.next).is_none() {
                return;
            }
        }
    }

    /// It is gone. (Its addresses and routes were removed before.)
    pub fn remove(&mut self, number: u32) -> Option<Interface> {
        let at = self.all.iter().position(|of| of.number == number)?;
        self.version += 1;
        Some(self.all.remove(at))
    }

    /// False: there is no memory.
    pub fn add_route(&mut self, route: Route) -> bool {
        self.routes.add(route)
    }

    /// Take out the routes that this is said of, and tell of each.
    pub fn remove_routes(&mut self, which: impl Fn(&Route) -> bool, gone: impl FnMut(&Route)) {
        self.routes.remove(which, gone);
    }

    pub fn routes(&self) -> &[Route] {
        self.routes.all()
    }

    pub fn routes_of(&self, prefix: &Address, bits: u32) -> &[Route] {
        self.routes.of_prefix(prefix, bits)
    }

    /// An address more, and the route to its neighbours. Refused: −errno.
    pub fn add_address(&mut self, number: u32, own: Own) -> Result<(), i64> {
        let Some(interface) = self.all.iter_mut().find(|of| of.number == number) else {
            return Err(ENODEV);
        };
        let mut known = interface.addresses.iter();
        let same = |of: &Own| {
            // Of IPv6 an address is there once; of IPv4 once for each prefix.
            of.address == own.address && (of.bits == own.bits || !own.address.is_v4())
        };
        if known.any(same) {
            return Err(EEXIST);
        }
        if interface.addresses.try_reserve(1).is_err() || !self.own.add(own.address) {
            return Err(ENOBUFS);
        }
        if let Some(all) = own.its_broadcast() {
            if !self.broadcasts.add(all) {
                self.own.remove(&own.address);
                return Err(ENOBUFS);
            }
        }
        interface.addresses.push(own);
        interface.find_sources();
        self.version += 1;
        let up = interface.flags & flag::UP != 0;
        if let Some(route) = own.route(number).filter(|_| up) {
            let there = |of: &Route| (of.interface, of.origin) == (number, origin::KERNEL);
            let mut same = self.routes.of_prefix(&route.prefix, route.bits).iter();
            if !same.any(there) && !self.routes.add(route) {
                self.remove_address(number, &own.address, own.bits);
                return Err(ENOBUFS);
            }
        }
        Ok(())
    }

    /// An address that there is has other times now. False: there is none.
    pub fn renew_address(&mut self, number: u32, own: &Own) -> bool {
        let interface = self.all.iter_mut().find(|of| of.number == number);
        let mut all = interface.into_iter().flat_map(|of| &mut of.addresses);
        match all.find(|of| of.address == own.address) {
            Some(known) => {
                (known.preferred, known.valid) = (own.preferred, own.valid);
                true
            }
            None => false,
        }
    }

    /// It goes, with the route to its neighbours if it was the last one there.
    pub fn remove_address(&mut self, number: u32, address: &Address, bits: u32) -> Option<Own> {
        let interface = self.all.iter_mut().find(|of| of.number == number)?;
        let mut all = interface.addresses.iter();
        let at = all.position(|of| (of.address, of.bits) == (*address, bits))?;
        let own = interface.addresses.remove(at);
        interface.find_sources();
        self.version += 1;
        self.own.remove(address);
        if let Some(all) = own.its_broadcast() {
            self.broadcasts.remove(&all);
        }
        let Some(route) = own.route(number) else {
            return Some(own);
        };
        let mut others = interface.addresses.iter();
        let other = others.find(|of| {
            of.route(number)
                .is_some_and(|r| r.prefix == route.prefix && r.bits == route.bits)
        });
        let next = other.and_then(|of| of.route(number));
        let its = |of: &Route| {
            (of.prefix, of.bits, of.interface, of.origin)
                == (route.prefix, route.bits, number, origin::KERNEL)
        };
        let mut was = false;
        self.routes.remove(its, |_| was = true);
        if let Some(next) = next.filter(|_| was) {
            // (There was room for the one that went.)
            self.routes.add(next);
        }
        Some(own)
    }

    /// All that an interface has, again: it is up.
    pub fn restore_routes(&mut self, number: u32) {
        let Some(interface) = self.all.iter().find(|of| of.number == number) else {
            return;
        };
        for own in &interface.addresses {
            let Some(route) = own.route(number) else {
                continue;
            };
            let there = |of: &Route| (of.interface, of.origin) == (number, origin::KERNEL);
            let mut same = self.routes.of_prefix(&route.prefix, route.bits).iter();
            if !same.any(there) {
                self.routes.add(route);
            }
        }
    }

    /// Is this an address of this machine?
    pub fn is_own(&self, address: &Address) -> bool {
        address.is_loopback() || self.own.contains(address)
    }

    /// Is it the broadcast address of a network of this machine?
    pub fn is_broadcast(&self, address: &Address) -> bool {
        address.is_v4() && (address.is_broadcast() || self.broadcasts.contains(address))
    }

    /// Where a packet of another machine goes on: the interface, the neighbour, and the longest packet.
    pub fn onward(&self, destination: &Address) -> Option<(u32, Address, u32)> {
        let route = self.routes.find(destination, |_| true)?;
        let interface = self.get(route.interface)?;
        let next_hop = route.gateway.unwrap_or(*destination);
        let up = interface.flags & flag::UP != 0;
        up.then_some((interface.number, next_hop, interface.mtu))
    }

    /// The way to an address, if there is one. `bound`: by this interface only.
    #[inline]
    pub fn way(&self, destination: &Address, bound: u32) -> Option<Way> {
        let destination = match destination.is_any() {
            // "Any" is this machine, as on Linux.
            true if destination.is_v4() => Address::LOOPBACK_V4,
            true => Address::LOOPBACK,
            false => *destination,
        };
        if self.is_own(&destination) {
            let loopback = self.get(LOOPBACK)?;
            if loopback.flags & flag::UP == 0 {
                return None;
            }
            let source = match destination.is_loopback() && destination.is_v4() {
                true => Address::LOOPBACK_V4,
                false => destination,
            };
            return Some(Way {
                interface: LOOPBACK,
                next_hop: destination,
                source,
                mtu: loopback.mtu,
            });
        }
        let takes = |route: &Route| bound == 0 || bound == route.interface;
        let by_route = self.routes.find(&destination, takes);
        let (number, next_hop) = match by_route {
            Some(route) => (route.interface, route.gateway.unwrap_or(destination)),
            // Bound to an interface, everything is a neighbour there.
            None if bound != 0 && bound != LOOPBACK => (bound, destination),
            None => return None,
        };
        let interface = self.get(number)?;
        if interface.flags & flag::UP == 0 {
            return None;
        }
        let near = || {
            let here = |route: &Route| route.interface == number && route.source.is_some();
            self.routes.find(&next_hop, here)?.source
        };
        let source = by_route.and_then(|route| route.source).or_else(near);
        Some(Way {
            interface: interface.number,
            next_hop,
            source: source.or_else(|| interface.source(&destination))?,
            mtu: interface.mtu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Device for Nothing {
        fn send(&mut self, _: &mut Context, _: Packet, _: Address) {}
    }

    #[test]
    fn numbers_begin_again_behind_the_last_one() {
        let mut interfaces = Interfaces::default();
        let add = |interfaces: &mut Interfaces| {
            let device = Box::new(Nothing);
            interfaces.add(b"x", 1500, 0, device)
        };
        assert_eq!((add(&mut interfaces), add(&mut interfaces)), (2, 3));
        interfaces.remove(2);
        interfaces.next = LAST;
        assert_eq!(add(&mut interfaces), LAST);
        // (The third one is in use.)
        assert_eq!((add(&mut interfaces), add(&mut interfaces)), (2, 4));
    }

    #[test]
    fn the_longest_prefix_decides() {
        let mut interfaces = Interfaces::default();
        let v4 = Address::v4;
        assert_eq!(interfaces.way(&v4([10, 0, 2, 2]), 0), None);
        let loopback = interfaces.way(&v4([127, 1, 2, 3]), 0).unwrap();
        assert_eq!(
            (loopback.interface, loopback.source),
            (LOOPBACK, Address::LOOPBACK_V4)
        );
        let number = interfaces.add(b"eth0", 1500, flag::UP, Box::new(Nothing));
        let own = v4([10, 0, 2, 15]);
        interfaces
            .add_address(number, Own::new(own, 96 + 24))
            .unwrap();
        let route = |prefix, bits, gateway| Route {
            prefix,
            bits,
            interface: number,
            gateway,
            ..Route::default()
        };
        interfaces.add_route(route(Address::ANY_V4, 96, Some(v4([10, 0, 2, 2]))));
        let way = interfaces.way(&v4([10, 0, 2, 9]), 0).unwrap();
        assert_eq!((way.next_hop, way.source), (v4([10, 0, 2, 9]), own));
        let way = interfaces.way(&v4([1, 1, 1, 1]), 0).unwrap();
        assert_eq!(
            (way.next_hop, way.source, way.mtu),
            (v4([10, 0, 2, 2]), own, 1500)
        );
        // What is this machine's own never leaves it.
        assert_eq!(interfaces.way(&own, 0).unwrap().interface, LOOPBACK);
        assert_eq!(
            interfaces.way(&Address::LOOPBACK, 0).unwrap().source,
            Address::LOOPBACK
        );
        let outside = Address([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(interfaces.way(&outside, 0), None);
        assert!(interfaces.is_broadcast(&v4([10, 0, 2, 255])) && !interfaces.is_broadcast(&own));
    }
}
