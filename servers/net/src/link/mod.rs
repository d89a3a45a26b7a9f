//! Links to other machines: Ethernet under an [`interface::Device`](crate::interface::Device), with ARP, fragments and an address by DHCP (`cairn_ethernet`). [`native`] is a link with a driver behind it.
//!
//! What always holds: a frame is not believed; what is kept for links is bounded; who sends more than a link takes loses what is too much, as on any wire.

pub mod ethernet;
pub mod native;
pub mod pieces;
#[cfg(test)]
mod tests;

use crate::address::Address;
use crate::interface::{flag, Device, Own, NO_PREFIX_ROUTE};
use crate::packet::Packet;
use crate::routes::{origin, Route};
use crate::server::Net;
use crate::timers::Owner;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_ethernet::autoconf::Event;
use cairn_ethernet::dhcp::Lease;
use cairn_ethernet::NEVER;
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

/// What became of an interface's address, or of a packet.
pub enum Change {
    Configured(Lease),
    Lost,
    /// Of IPv6.
    Found(Event),
    /// The neighbour that this packet was for does not answer.
    Unreachable(Packet),
    /// The rest of this first piece of a packet did not come.
    Late(Vec<u8>),
}

/// The timer of a link, and which pulses are its own.
#[derive(Clone, Copy)]
pub struct Attached {
    interface: u32,
    /// None: nothing sends it pulses.
    badge: Option<u64>,
    timer: u32,
    /// The address by DHCP, and its prefix.
    leased: Option<(Address, u32)>,
}

impl Net {
    /// One more link; its pulses have this badge.
    pub fn add_link(&mut self, name: &[u8], mtu: u32, badge: u64, device: Box<dyn Device>) -> bool {
        let Some(timer) = self.attach(name, (mtu, FLAGS), Some(badge), device) else {
            return false;
        };
        // The first look is at once.
        self.timers.set(timer.1, Time(0));
        true
    }

    /// An interface with a link behind it: its number, and its timer's. None: there is no memory.
    pub(crate) fn attach(
        &mut self,
        name: &[u8],
        (mtu, flags): (u32, u32),
        badge: Option<u64>,
        device: Box<dyn Device>,
    ) -> Option<(u32, u32)> {
        self.links.try_reserve(1).ok()?;
        let timer = self.timers.add(Owner::Interface(0))?;
        self.forward.begin_again();
        let number = self.interfaces.add(name, mtu, flags, device);
        self.timers.belongs_to(timer, Owner::Interface(number));
        self.links.push(Attached {
            interface: number,
            badge,
            timer,
            leased: None,
        });
        Some((number, timer))
    }

    /// The link goes, with its interface and all that was said of it.
    pub(crate) fn detach(&mut self, cx: &mut Context, number: u32) {
        self.set_up(cx, number, false);
        while let Some(own) = self
            .interfaces
            .get(number)
            .and_then(|of| of.addresses().first().copied())
        {
            if !self.drop_address(cx, number, &own.address, own.bits) {
                break;
            }
        }
        self.drop_routes(cx, |route| route.interface == number);
        if let Some(at) = self.links.iter().position(|link| link.interface == number) {
            self.timers.remove(self.links.swap_remove(at).timer);
        }
        self.forget_interface_of_captures(number);
        self.forget_groups(cx, number);
        self.link_gone(cx, number);
        self.interfaces.remove(number);
    }

    /// A pulse that may be a link's.
    pub(crate) fn link_pulse(&mut self, cx: &mut Context, pulse: &Received) {
        let mut links = self.links.iter();
        let Some(link) = links.find(|link| link.badge == Some(pulse.badge)).copied() else {
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

    pub(crate) fn device(&mut self, number: u32) -> Option<&mut dyn Device> {
        self.interfaces.get_mut(number)?.device()
    }

    /// What a program wrote is taken in.
    pub(crate) fn look_at_link(&mut self, cx: &mut Context, number: u32) {
        let mut links = self.links.iter();
        if let Some(link) = links.find(|link| link.interface == number).copied() {
            self.look_at(cx, link);
        }
    }

    /// Take in what came, learn what has changed, and say when to look again.
    fn look_at(&mut self, cx: &mut Context, link: Attached) {
        let number = link.interface;
        let now = self.time;
        self.tell_of_pieces();
        while let Some(packet) = self.device(number).and_then(|d| d.receive(cx, now)) {
            self.tap_link(cx, number);
            self.input(cx, number, packet);
        }
        while let Some(change) = self.device(number).and_then(|device| device.change()) {
            match change {
                Change::Unreachable(packet) => self.neighbour_missing(cx, &packet),
                Change::Late(first) => self.pieces_missing(cx, &first),
                Change::Configured(lease) => self.change_address(cx, number, Some(lease)),
                Change::Lost => self.change_address(cx, number, None),
                Change::Found(event) => self.found(cx, number, &event),
            }
        }
        self.tap_link(cx, number);
        self.look_at_carrier(cx, number);
        self.look_at_queue(cx, number);
        self.set_link_timers();
    }

    /// Whether there is a carrier, as its flags say it.
    pub(crate) fn look_at_carrier(&mut self, cx: &mut Context, number: u32) {
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        let before = interface.flags;
        // (`lo` has always one.)
        let carrier = interface.device().is_none_or(|device| device.is_up());
        let up = carrier && before & flag::UP != 0;
        interface.flags = before & !CARRIER | if up { CARRIER } else { 0 };
        if interface.flags != before {
            self.link_changed(cx, number, before);
            if up {
                self.tell_all_groups(cx, number);
            }
        }
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

    /// Addresses and the router of IPv6.
    fn found(&mut self, cx: &mut Context, number: u32, event: &Event) {
        match *event {
            Event::Address {
                address,
                bits,
                near,
                preferred,
                valid,
            } => {
                let mut own = Own::new(Address(address), u32::from(bits));
                if valid != NEVER {
                    (own.flags, own.preferred, own.valid) = (0, preferred, valid);
                }
                if !near {
                    own.flags |= NO_PREFIX_ROUTE;
                }
                if !self.interfaces.renew_address(number, &own) {
                    let _ = self.bring_address(cx, number, own);
                }
            }
            Event::Gone { address, bits } => {
                self.drop_address(cx, number, &Address(address), u32::from(bits));
            }
            Event::Router(router) => {
                self.drop_routes(cx, |of| (of.interface, of.origin) == (number, origin::RA));
                if let Some(router) = router {
                    let route = Route {
                        prefix: Address::ANY,
                        bits: 0,
                        interface: number,
                        gateway: Some(Address(router)),
                        metric: 1024,
                        origin: origin::RA,
                        ..Route::default()
                    };
                    self.bring_route(cx, route);
                }
            }
        }
    }

    fn change_address(&mut self, cx: &mut Context, number: u32, lease: Option<Lease>) {
        let before = self.links.iter_mut().find(|link| link.interface == number);
        if let Some((address, bits)) = before.and_then(|link| link.leased.take()) {
            self.drop_routes(cx, |of| (of.interface, of.origin) == (number, origin::DHCP));
            self.drop_address(cx, number, &address, bits);
        }
        let Some(lease) = lease else {
            return log!("the address is lost");
        };
        let address = Address::v4(lease.address);
        let bits = MAPPED + lease.bits;
        let own = Own::new(address, bits);
        if self.bring_address(cx, number, own).is_err() {
            return;
        }
        let mut links = self.links.iter_mut();
        if let Some(link) = links.find(|link| link.interface == number) {
            link.leased = Some((address, bits));
        }
        if let Some(router) = lease.router {
            let route = Route {
                prefix: Address::ANY_V4,
                bits: MAPPED,
                interface: number,
                gateway: Some(Address::v4(router)),
                origin: origin::DHCP,
                ..Route::default()
            };
            self.bring_route(cx, route);
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
