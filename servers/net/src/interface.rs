//! Interfaces, their addresses, and the routes that say by which of them a packet leaves.
//!
//! An interface is `lo` or a [`Device`]. What `lo` is given waits in its queue until [`crate::Net::pump`] takes it in again; what a device receives goes to [`crate::Net::input`].

use crate::address::Address;
use crate::link::Change;
use crate::packet::Packet;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_resmgr::Context;
use cairn_rt::Received;
use cairn_tcp::time::Time;

/// `lo`'s number; others follow.
pub const LOOPBACK: u32 = 1;
const LOOPBACK_MTU: u32 = 65_536;
/// Most packets and bytes that wait in `lo`.
const QUEUE: usize = 1000;
const QUEUE_BYTES: usize = 16 << 20;

/// IFF_ (netdevice(7)).
pub mod flag {
    pub const UP: u32 = 1;
    pub const BROADCAST: u32 = 2;
    pub const LOOPBACK: u32 = 8;
    pub const RUNNING: u32 = 0x40;
    pub const MULTICAST: u32 = 0x1000;
    pub const LOWER_UP: u32 = 0x1_0000;
}

/// What carries packets to other machines. It makes the link's header, and finds the neighbour.
pub trait Device {
    /// Send it to this neighbour, or drop it.
    fn send(&mut self, cx: &mut Context, packet: Packet, next_hop: Address);
    /// The next packet that has come.
    fn receive(&mut self, cx: &mut Context, now: Time) -> Option<Packet> {
        let _ = (cx, now);
        None
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
    /// With the length of the prefix (of 128 bits, also for IPv4).
    pub addresses: Vec<(Address, u32)>,
    pub received: Counts,
    pub sent: Counts,
    pub link: Link,
}

impl Interface {
    pub fn loopback() -> Interface {
        Interface {
            number: LOOPBACK,
            name: Vec::from(b"lo"),
            mtu: LOOPBACK_MTU,
            flags: flag::UP | flag::LOOPBACK | flag::RUNNING | flag::LOWER_UP,
            addresses: Vec::from([(Address::LOOPBACK_V4, 96 + 8), (Address::LOOPBACK, 128)]),
            received: Counts::default(),
            sent: Counts::default(),
            link: Link::Loopback {
                queue: VecDeque::new(),
                bytes: 0,
            },
        }
    }

    /// The kind of its hardware (ARPHRD_), and its address.
    pub fn hardware(&self) -> (u16, [u8; 6]) {
        match &self.link {
            Link::Loopback { .. } => (772, [0; 6]),
            Link::Device(device) => (1, device.hardware_address()),
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
                packet.trusted = true;
                *bytes += packet.memory();
                queue.push_back(packet);
            }
            Link::Device(device) => device.send(cx, packet, next_hop),
        }
        self.sent.packets += 1;
        self.sent.bytes += length;
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

/// A route: what it is for, and where it leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    pub prefix: Address,
    /// Of 128, also for IPv4.
    pub bits: u32,
    pub interface: u32,
    /// None: the destination is a neighbour.
    pub gateway: Option<Address>,
    pub metric: u32,
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

/// All interfaces and routes. (There are few: they are walked.)
pub struct Interfaces {
    pub all: Vec<Interface>,
    routes: Vec<Route>,
}

impl Default for Interfaces {
    fn default() -> Interfaces {
        Interfaces {
            all: Vec::from([Interface::loopback()]),
            routes: Vec::new(),
        }
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
        let number = self.all.iter().map(|of| of.number).max().unwrap_or(0) + 1;
        self.all.push(Interface {
            number,
            name: Vec::from(name),
            mtu,
            flags,
            addresses: Vec::new(),
            received: Counts::default(),
            sent: Counts::default(),
            link: Link::Device(device),
        });
        number
    }

    /// The longest prefix first, then the least metric.
    pub fn add_route(&mut self, route: Route) {
        let order = |of: &Route| (u32::MAX - of.bits, of.metric);
        let at = self.routes.partition_point(|of| order(of) <= order(&route));
        self.routes.insert(at, route);
    }

    pub fn remove_routes(&mut self, which: impl Fn(&Route) -> bool) {
        self.routes.retain(|route| !which(route));
    }

    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Is this an address of this machine?
    pub fn is_own(&self, address: &Address) -> bool {
        if address.is_loopback() {
            return true;
        }
        let mut own = self.all.iter().flat_map(|interface| &interface.addresses);
        own.any(|(its, _)| its == address)
    }

    /// Is it the broadcast address of a network of this machine?
    pub fn is_broadcast(&self, address: &Address) -> bool {
        if address.is_broadcast() {
            return true;
        }
        let number = u128::from_be_bytes(address.0);
        let mut own = self.all.iter().flat_map(|interface| &interface.addresses);
        address.is_v4()
            && own.any(|(its, bits)| {
                let host = u128::MAX.checked_shr(*bits).unwrap_or(0);
                *bits < 127 && address.matches(its, *bits) && number & host == host
            })
    }

    fn source(&self, interface: &Interface, destination: &Address) -> Option<Address> {
        let family = |of: &&(Address, u32)| of.0.is_v4() == destination.is_v4();
        let near = |of: &&(Address, u32)| destination.matches(&of.0, of.1);
        let link = |of: &&(Address, u32)| of.0.is_link_local() == destination.is_link_local();
        let own = || interface.addresses.iter().filter(family);
        let best = own()
            .find(near)
            .or_else(|| own().find(link))
            .or_else(|| own().next());
        best.map(|of| of.0)
    }

    /// The way to an address, if there is one. `bound`: by this interface only.
    pub fn way(&self, destination: &Address, bound: u32) -> Option<Way> {
        let destination = match destination.is_any() {
            // "Any" is this machine, as on Linux.
            true if destination.is_v4() => Address::LOOPBACK_V4,
            true => Address::LOOPBACK,
            false => *destination,
        };
        if self.is_own(&destination) {
            let loopback = self.get(LOOPBACK)?;
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
        let takes = |route: &&Route| {
            destination.is_v4() == route.prefix.is_v4()
                && destination.matches(&route.prefix, route.bits)
                && (bound == 0 || bound == route.interface)
        };
        let by_route = self.routes.iter().find(takes);
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
        Some(Way {
            interface: interface.number,
            next_hop,
            source: self.source(interface, &destination)?,
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
            .get_mut(number)
            .unwrap()
            .addresses
            .push((own, 96 + 24));
        let route = |prefix, bits, gateway| Route {
            prefix,
            bits,
            interface: number,
            gateway,
            metric: 0,
        };
        interfaces.add_route(route(Address::ANY_V4, 96, Some(v4([10, 0, 2, 2]))));
        interfaces.add_route(route(v4([10, 0, 2, 0]), 96 + 24, None));
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
