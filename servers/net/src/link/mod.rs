//! Links to other machines: Ethernet under an [`interface::Device`](crate::interface::Device), with ARP, fragments and an address by DHCP (`cairn_ethernet`). [`native`] is a link with a driver behind it.
//!
//! What always holds: a frame is not believed; what is kept for links is bounded; who sends more than a link takes loses what is too much, as on any wire.

pub mod ethernet;
pub mod native;
#[cfg(test)]
mod tests;

use crate::address::Address;
use crate::interface::{flag, Device, Route};
use crate::server::Net;
use crate::timers::Owner;
use alloc::boxed::Box;
use cairn_ethernet::dhcp::Lease;
use cairn_resmgr::Context;
use cairn_rt::{log, Received};
use cairn_tcp::time::Time;

/// Most links, and badges of their pulses.
pub const MOST: u32 = 4;
pub const BADGE: u64 = 16;
/// In front of an IPv4 prefix's bits.
const MAPPED: u32 = 96;

/// What Linux says of such an interface.
pub const FLAGS: u32 = flag::UP | flag::BROADCAST | flag::MULTICAST;
const CARRIER: u32 = flag::RUNNING | flag::LOWER_UP;

/// What became of an interface's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Configured(Lease),
    Lost,
}

/// The timer of a link, and which pulses are its own.
#[derive(Clone, Copy)]
pub struct Attached {
    interface: u32,
    badge: u64,
    timer: u32,
}

impl Net {
    /// One more link; its pulses have this badge.
    pub fn add_link(&mut self, name: &[u8], mtu: u32, badge: u64, device: Box<dyn Device>) -> bool {
        let number = self.interfaces.add(name, mtu, FLAGS, device);
        let Some(timer) = self.timers.add(Owner::Interface(number)) else {
            return false;
        };
        self.links.push(Attached {
            interface: number,
            badge,
            timer,
        });
        // The first look is at once.
        self.timers.set(timer, Time(0));
        true
    }

    /// A pulse that may be a link's.
    pub(crate) fn link_pulse(&mut self, cx: &mut Context, pulse: &Received) {
        let mut links = self.links.iter();
        let Some(link) = links.find(|link| link.badge == pulse.badge).copied() else {
            return;
        };
        self.now(cx);
        if let Some(device) = self.device(link.interface) {
            device.pulse(pulse);
        }
        self.look_at(cx, link);
    }

    /// The link's time has come.
    pub(crate) fn link_time_passes(&mut self, cx: &mut Context, number: u32) {
        let mut links = self.links.iter();
        let Some(link) = links.find(|link| link.interface == number).copied() else {
            return;
        };
        let now = self.time;
        if let Some(device) = self.device(number) {
            device.time_passes(cx, now);
        }
        self.look_at(cx, link);
    }

    fn device(&mut self, number: u32) -> Option<&mut dyn Device> {
        self.interfaces.get_mut(number)?.device()
    }

    /// Take in what came, learn what has changed, and say when to look again.
    fn look_at(&mut self, cx: &mut Context, link: Attached) {
        let number = link.interface;
        let now = self.time;
        while let Some(packet) = self.device(number).and_then(|d| d.receive(cx, now)) {
            self.input(cx, number, packet);
        }
        while let Some(change) = self.device(number).and_then(|device| device.change()) {
            self.change_address(number, &change);
        }
        let up = self.device(number).is_some_and(|device| device.is_up());
        if let Some(interface) = self.interfaces.get_mut(number) {
            interface.flags = interface.flags & !CARRIER | if up { CARRIER } else { 0 };
        }
        self.set_link_timers();
    }

    /// What was sent may have given a link something to wait for.
    pub(crate) fn set_link_timers(&mut self) {
        for i in 0..self.links.len() {
            let link = self.links[i];
            let device = self.device(link.interface);
            let next = device.map_or(Time::NEVER, |device| device.deadline());
            self.timers.set(link.timer, next);
        }
    }

    fn change_address(&mut self, number: u32, change: &Change) {
        self.interfaces
            .remove_routes(|route| route.interface == number);
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        interface.addresses.retain(|of| !of.0.is_v4());
        let lease = match change {
            Change::Configured(lease) => lease,
            Change::Lost => return log!("the address is lost"),
        };
        let address = Address::v4(lease.address);
        let bits = MAPPED + lease.bits;
        interface.addresses.push((address, bits));
        let network = u32::from_be_bytes(lease.address) & (!0u32).unbounded_shl(32 - lease.bits);
        let mut routes = [None; 2];
        routes[0] = Some((Address::v4(network.to_be_bytes()), bits, None));
        routes[1] = lease
            .router
            .map(|router| (Address::ANY_V4, MAPPED, Some(Address::v4(router))));
        for (prefix, bits, gateway) in routes.into_iter().flatten() {
            self.interfaces.add_route(Route {
                prefix,
                bits,
                interface: number,
                gateway,
                metric: 0,
            });
        }
        let [a, b, c, d] = lease.address;
        log!("{a}.{b}.{c}.{d}/{} by DHCP", lease.bits);
    }
}

/// Whether a packet is a message for the DHCP client: UDP's payload, if so.
pub(crate) fn for_dhcp(packet: &[u8]) -> Option<&[u8]> {
    let head = packet.first_chunk::<20>()?;
    let length = usize::from(head[0] & 15) * 4;
    let udp = packet.get(length..)?;
    let ports = udp.first_chunk::<8>()?;
    let bytes = usize::from(u16::from_be_bytes([ports[4], ports[5]]));
    let is_it = head[0] >> 4 == 4
        && length >= 20
        && head[9] == crate::packet::protocol::UDP
        && u16::from_be_bytes([head[6], head[7]]) & 0x3fff == 0
        && ports[..4] == [0, 67, 0, 68];
    is_it.then(|| udp.get(8..bytes)).flatten()
}
