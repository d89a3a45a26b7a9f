//! What /proc/net shows, in lines as Linux writes them, some at a time: from a place in a table on. And what SIOCGIF… tells of interfaces (netdevice(7)).

use crate::address::{Address, Endpoint};
use crate::groups::ADDRESS_COST;
use crate::interface::{flag, Interface, Own};
use crate::options::state_number;
use crate::packet::protocol::{TCP, UDP, UDP_LITE};
use crate::server::{fail, Net};
use crate::socket::State;
use alloc::string::String;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_idl::net::{Listing, INET, INET6, PACKET};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_rt::channel::Reply;
use core::fmt::Write;

/// So many places are looked at in one request, and a line is no longer than this.
const SHARE: u32 = 256;
const LINE: usize = 256;
/// Numbers of states that no connection has.
const LISTEN: u8 = 10;
const CLOSE: u8 = 7;

/// One line of a table of sockets.
pub(crate) struct Line {
    pub local: Endpoint,
    pub remote: Endpoint,
    pub state: u8,
    pub sending: u32,
    pub receiving: u32,
    pub uid: u32,
    pub ino: u64,
    /// Of UDP.
    dropped: Option<u64>,
}

fn address(to: &mut String, v4: bool, of: &Endpoint) {
    let (words, _) = of.address.0.as_chunks::<4>();
    // Words as they lie in memory.
    let words = if v4 { &words[3..] } else { words };
    for word in words {
        let _ = write!(to, "{:08X}", u32::from_le_bytes(*word));
    }
    let _ = write!(to, ":{:04X}", of.port);
}

impl Line {
    fn put(&self, to: &mut String, v4: bool, number: u32) {
        let start = to.len();
        let width = if self.dropped.is_some() { 5 } else { 4 };
        let _ = write!(to, "{number:width$}: ");
        address(to, v4, &self.local);
        to.push(' ');
        address(to, v4, &self.remote);
        let Line {
            state,
            sending,
            receiving,
            uid,
            ino,
            ..
        } = self;
        let _ = write!(
            to,
            " {state:02X} {sending:08X}:{receiving:08X} 00:00000000 00000000 {uid:5}        0 {ino}"
        );
        let _ = match self.dropped {
            Some(dropped) => write!(to, " 2 0000000000000000 {dropped}"),
            None => write!(to, " 1 0000000000000000 20 4 30 10 -1"),
        };
        let length = if self.dropped.is_some() { 127 } else { 149 };
        while v4 && to.len() - start < length {
            to.push(' ');
        }
        to.push('\n');
    }
}

impl Net {
    pub(crate) fn table<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, which, place, ..] = cx.request.words;
        let room = cx.request.in_len.min(65_536);
        let mut text = String::new();
        // (Each line fits into what is reserved, or it is left for the next time.)
        if room < LINE || text.try_reserve_exact(room).is_err() {
            return fail(EINVAL);
        }
        let next = match Listing::from_word(which) {
            Some(Listing::Tcp) => self.sockets_from(place, &mut text, room, (TCP, true)),
            Some(Listing::Tcp6) => self.sockets_from(place, &mut text, room, (TCP, false)),
            Some(Listing::Udp) => self.sockets_from(place, &mut text, room, (UDP, true)),
            Some(Listing::Udp6) => self.sockets_from(place, &mut text, room, (UDP, false)),
            Some(Listing::Udplite) => self.sockets_from(place, &mut text, room, (UDP_LITE, true)),
            Some(Listing::Udplite6) => self.sockets_from(place, &mut text, room, (UDP_LITE, false)),
            Some(Listing::Devices) => {
                for interface in &self.interfaces.all {
                    device(&mut text, interface);
                }
                0
            }
            Some(Listing::Routes) => {
                self.put_routes(&mut text);
                0
            }
            Some(Listing::Addresses6) => {
                self.put_addresses6(&mut text);
                0
            }
            Some(Listing::Raw) => self.others_from(place, &mut text, room, Net::put_raw_v4),
            Some(Listing::Raw6) => self.others_from(place, &mut text, room, Net::put_raw_v6),
            Some(
                which @ (Listing::Groups
                | Listing::Groups6
                | Listing::Hardware
                | Listing::Filters
                | Listing::Filters6),
            ) => self.put_groups(which, place, &mut text, room),
            Some(Listing::Packets) => self.others_from(place, &mut text, room, Net::put_packet),
            Some(Listing::Links) => self.links_from(place, &mut text, room),
            None => return fail(EINVAL),
        };
        self.scratch = text.into_bytes();
        self.scratch.truncate(room);
        let length = self.scratch.len();
        Ok(Reply::new(&[length as u64, next]).data(&self.scratch))
    }

    /// Sockets, then connections, half-open ones and those in TIME-WAIT: the upper half of a place says which, the lower which one. Where to go on.
    fn sockets_from(
        &self,
        place: u64,
        text: &mut String,
        room: usize,
        (protocol, v4): (u8, bool),
    ) -> u64 {
        let next = self.walk_sockets(place, (protocol, v4), |at, line, _| {
            if text.len() + LINE > room {
                return false;
            }
            // (It counts places, not lines.)
            line.put(text, v4, at % 10_000);
            true
        });
        next.unwrap_or(0)
    }

    /// Sockets that have no connections, from a place on. Where to go on.
    fn others_from(
        &self,
        place: u64,
        text: &mut String,
        room: usize,
        put: fn(&Net, &mut String, u32),
    ) -> u64 {
        let first = u32::try_from(place).unwrap_or(u32::MAX);
        let end = self.sockets.end();
        for at in (first..end).take(SHARE as usize) {
            if text.len() + LINE > room {
                return u64::from(at);
            }
            put(self, text, at);
        }
        match first.saturating_add(SHARE) {
            next if next < end => u64::from(next),
            _ => 0,
        }
    }

    /// Interfaces by their numbers, which grow. Where to go on.
    fn links_from(&self, place: u64, text: &mut String, room: usize) -> u64 {
        let all = self.interfaces.all.iter();
        for interface in all.filter(|of| u64::from(of.number) >= place) {
            if text.len() + LINE > room {
                return interface.number.into();
            }
            link(text, interface);
        }
        0
    }

    fn put_raw_v4(&self, text: &mut String, at: u32) {
        self.put_raw(text, at, true);
    }

    fn put_raw_v6(&self, text: &mut String, at: u32) {
        self.put_raw(text, at, false);
    }

    /// A raw socket, whose port is its protocol.
    fn put_raw(&self, text: &mut String, at: u32, v4: bool) {
        let Some(socket) = self.sockets.get(at) else {
            return;
        };
        let family = if v4 { INET } else { INET6 };
        let (true, State::Datagram(queue)) = (socket.is_raw(), &socket.state) else {
            return;
        };
        if socket.family != family {
            return;
        }
        let any = Endpoint::new(if v4 { Address::ANY_V4 } else { Address::ANY }, 0);
        let line = Line {
            local: Endpoint::new(socket.local.address, socket.protocol.into()),
            remote: socket.remote.unwrap_or(any),
            state: if socket.remote.is_some() { 1 } else { CLOSE },
            sending: 0,
            receiving: queue.bytes as u32,
            uid: socket.uid,
            ino: socket.ino,
            dropped: Some(queue.dropped),
        };
        line.put(text, v4, u32::from(socket.protocol));
    }

    /// A socket of AF_PACKET, as /proc/net/packet has it.
    fn put_packet(&self, text: &mut String, at: u32) {
        let Some(socket) = self.sockets.get(at).filter(|of| of.family == PACKET) else {
            return;
        };
        let (protocol, interface) = match self.captures.get(socket.further) {
            Some(capture) => capture.takes(),
            None => return,
        };
        let State::Datagram(queue) = &socket.state else {
            return;
        };
        let (kind, runs) = (socket.kind, u8::from(protocol != 0));
        let (bytes, uid, ino) = (queue.bytes, socket.uid, socket.ino);
        let _ = writeln!(
            text,
            "0000000000000000 3      {kind:<4} {protocol:04x}   {interface:<5} {runs} {bytes:<6} {uid:<6} {ino:<6}"
        );
    }

    /// Each socket or connection from a place on, with the number of the socket, until it is not taken or enough were looked at. Where to go on. None: that was
    /// all.
    pub(crate) fn walk_sockets(
        &self,
        place: u64,
        (protocol, v4): (u8, bool),
        mut take: impl FnMut(u32, &Line, Option<u32>) -> bool,
    ) -> Option<u64> {
        let (mut part, mut at) = ((place >> 32) as u32, place as u32);
        let stream = protocol == TCP;
        for _ in 0..SHARE {
            let end = match part {
                0 => self.sockets.end(),
                1 if stream => self.streams.end(),
                2 if stream => self.halves.end(),
                3 if stream => self.waits.end(),
                _ => return None,
            };
            if at >= end {
                (part, at) = (part + 1, 0);
                continue;
            }
            let (line, socket) = match part {
                0 => (self.socket_line(at, protocol, v4), Some(at)),
                1 => {
                    let socket = self.streams.get(at).and_then(|stream| stream.socket);
                    (self.stream_line(at, v4), socket)
                }
                2 => (self.half_line(at, v4), None),
                _ => (self.wait_line(at, v4), None),
            };
            if line.is_some_and(|line| !take(at, &line, socket)) {
                break;
            }
            at += 1;
        }
        Some(u64::from(part) << 32 | u64::from(at))
    }

    fn socket_line(&self, at: u32, protocol: u8, v4: bool) -> Option<Line> {
        let socket = self.sockets.get(at)?;
        let meant = socket.protocol == protocol && (socket.is_stream() || socket.is_udp());
        if !meant || socket.is_v4() != v4 || socket.local.port == 0 {
            return None;
        }
        let any = Endpoint::new(if v4 { Address::ANY_V4 } else { Address::ANY }, 0);
        let (state, waiting, dropped) = match &socket.state {
            State::Listening(listener) => (LISTEN, listener.ready.len(), None),
            State::Datagram(queue) => {
                let state = if socket.remote.is_some() { 1 } else { CLOSE };
                (state, queue.bytes, Some(queue.dropped))
            }
            _ => return None,
        };
        Some(Line {
            local: socket.local,
            remote: socket.remote.unwrap_or(any),
            state,
            sending: 0,
            receiving: waiting as u32,
            uid: socket.uid,
            ino: socket.ino,
            dropped,
        })
    }

    fn stream_line(&self, at: u32, v4: bool) -> Option<Line> {
        let stream = self.streams.get(at)?;
        let owner = stream.socket.or(stream.listener);
        let owner = owner.and_then(|owner| self.sockets.get(owner));
        let is_v4 = match owner {
            Some(socket) => socket.family == INET,
            None => Address(stream.ends.local).is_v4(),
        };
        if is_v4 != v4 || stream.over {
            return None;
        }
        Some(Line {
            local: Endpoint::new(Address(stream.ends.local), stream.ends.local_port),
            remote: stream.remote(),
            state: state_number(stream.block.state()),
            sending: stream.block.unacknowledged(),
            receiving: stream.block.unread(),
            uid: stream.uid,
            ino: match stream.socket {
                Some(_) => owner.map_or(0, |socket| socket.ino),
                None => 0,
            },
            dropped: None,
        })
    }

    fn half_line(&self, at: u32, v4: bool) -> Option<Line> {
        let half = self.halves.get(at)?;
        let ends = &half.ends;
        (Address(ends.local).is_v4() == v4).then(|| Line {
            local: Endpoint::new(Address(ends.local), ends.local_port),
            remote: Endpoint::new(Address(ends.remote), ends.remote_port),
            state: 3,
            sending: 0,
            receiving: 0,
            uid: 0,
            ino: 0,
            dropped: None,
        })
    }

    fn wait_line(&self, at: u32, v4: bool) -> Option<Line> {
        let wait = self.waits.get(at)?;
        let ends = &wait.ends;
        (Address(ends.local).is_v4() == v4).then(|| Line {
            local: Endpoint::new(Address(ends.local), ends.local_port),
            remote: Endpoint::new(Address(ends.remote), ends.remote_port),
            state: 6,
            sending: 0,
            receiving: 0,
            uid: 0,
            ino: 0,
            dropped: None,
        })
    }

    fn put_routes(&self, to: &mut String) {
        for route in self.interfaces.routes().iter().take(64) {
            let (Some(prefix), Some(interface)) =
                (route.prefix.as_v4(), self.interfaces.get(route.interface))
            else {
                continue;
            };
            let gateway = route.gateway.and_then(|gateway| gateway.as_v4());
            let flags = 1 | if gateway.is_some() { 2 } else { 0 };
            let name = core::str::from_utf8(&interface.name).unwrap_or("?");
            let number = u32::from_le_bytes;
            let _ = writeln!(
                to,
                "{name}\t{:08X}\t{:08X}\t{flags:04X}\t0\t0\t{}\t{:08X}\t0\t0\t0",
                number(prefix),
                number(gateway.unwrap_or_default()),
                route.metric,
                number(mask(route.bits)),
            );
        }
    }

    fn put_addresses6(&self, to: &mut String) {
        for interface in &self.interfaces.all {
            for own in interface
                .addresses()
                .iter()
                .filter(|of| !of.address.is_v4())
            {
                let (address, bits) = (own.address, own.bits);
                for byte in address.0 {
                    let _ = write!(to, "{byte:02x}");
                }
                let scope = match (address.is_loopback(), address.is_link_local()) {
                    (true, _) => 0x10,
                    (_, true) => 0x20,
                    _ => 0,
                };
                let name = core::str::from_utf8(&interface.name).unwrap_or("?");
                let number = interface.number;
                let _ = writeln!(to, " {number:02x} {bits:02x} {scope:02x} 80 {name:>8}");
            }
        }
    }

    // ---- ioctl

    /// `struct ifreq`: the name of an interface, and what is asked.
    pub(crate) fn interface_request<'a>(
        &'a mut self,
        cx: &mut Context,
        request: u64,
    ) -> Answer<Reply<'a>> {
        if request == SIOCGIFCONF {
            return self.configurations(cx);
        }
        if NOBODYS.contains(&request) {
            return fail(ENOTTY);
        }
        let mut bytes = [0; 40];
        if cx.request.out_len < bytes.len() || cx.request.in_len < bytes.len() {
            return fail(EFAULT);
        }
        cx.fetch(0, &mut bytes)?;
        let (name, rest) = bytes.split_at_mut(16);
        let interface = match request {
            SIOCGIFNAME => {
                let number = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
                self.interfaces.get(number)
            }
            _ => {
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(15);
                self.interfaces.by_name(&name[..end])
            }
        };
        let Some(interface) = interface else {
            return fail(ENODEV);
        };
        let first = interface.addresses().iter().find(|of| of.address.is_v4());
        let v4 = |rest: &mut [u8], address: [u8; 4]| {
            rest[..16].fill(0);
            rest[..2].copy_from_slice(&(INET as u16).to_le_bytes());
            rest[4..8].copy_from_slice(&address);
        };
        let word = |rest: &mut [u8], value: u32| rest[..4].copy_from_slice(&value.to_le_bytes());
        match request {
            SIOCGIFNAME => {
                name.fill(0);
                name[..interface.name.len().min(15)]
                    .copy_from_slice(&interface.name[..interface.name.len().min(15)]);
            }
            SIOCGIFFLAGS => rest[..2].copy_from_slice(&(interface.flags as u16).to_le_bytes()),
            SIOCGIFADDR | SIOCGIFDSTADDR | SIOCGIFBRDADDR | SIOCGIFNETMASK => {
                let Some(Own {
                    address,
                    bits,
                    peer,
                    ..
                }) = first
                else {
                    return fail(EADDRNOTAVAIL);
                };
                let own = address.as_v4().unwrap_or_default();
                let peer = peer.and_then(|peer| peer.as_v4());
                let mask = mask(*bits);
                let lasts = interface.flags & flag::BROADCAST != 0;
                v4(
                    rest,
                    match request {
                        SIOCGIFNETMASK => mask,
                        SIOCGIFBRDADDR if lasts => core::array::from_fn(|at| own[at] | !mask[at]),
                        SIOCGIFBRDADDR => [0; 4],
                        SIOCGIFDSTADDR => peer.unwrap_or(own),
                        _ => own,
                    },
                );
            }
            SIOCGIFMETRIC => word(rest, 0),
            SIOCGIFMTU => word(rest, interface.mtu),
            SIOCGIFINDEX => word(rest, interface.number),
            SIOCGIFTXQLEN => word(rest, interface.queue_length()),
            SIOCGIFMAP => rest.fill(0),
            SIOCGIFHWADDR => {
                rest.fill(0);
                let (kind, address) = interface.hardware();
                rest[..2].copy_from_slice(&kind.to_le_bytes());
                rest[2..8].copy_from_slice(&address);
            }
            // For everybody: there is nothing to be told.
            SIOCETHTOOL => return fail(EOPNOTSUPP),
            SIOCSIFFLAGS..=SIOCSIFMTU | 0x8923..0x8950 => {
                let number = interface.number;
                return self.set_interface(cx, request, number, &bytes[16..]);
            }
            _ => {
                return match self.has_capability(cx, NET_ADMIN) {
                    true => fail(EOPNOTSUPP),
                    false => fail(EPERM),
                }
            }
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&bytes);
        Ok(Reply::result(0).data(&self.scratch))
    }

    /// What user 0 sets: up or down, the address of IPv4, its mask, the MTU.
    fn set_interface<'a>(
        &mut self,
        cx: &mut Context,
        request: u64,
        number: u32,
        rest: &[u8],
    ) -> Answer<Reply<'a>> {
        if !self.has_capability(cx, NET_ADMIN) {
            return fail(EPERM);
        }
        self.now(cx);
        let interface = self.interfaces.get(number);
        let is_line = interface.is_some_and(|of| of.flags & flag::POINT_TO_POINT != 0);
        let mut all = interface.into_iter().flat_map(|of| of.addresses());
        let first = all.find(|own| own.address.is_v4()).copied();
        let value = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let given = [rest[4], rest[5], rest[6], rest[7]];
        let v4 = value as u16 == INET as u16;
        let change = |net: &mut Net, cx: &mut Context, address: Address, bits: u32, peer| {
            if let Some(own) = first {
                net.drop_address(cx, number, &own.address, own.bits);
            }
            if address.is_any() {
                return Ok(());
            }
            net.pay(cx, ADDRESS_COST, |net, cx, payer| {
                let mut own = Own::new(address, bits);
                (own.payer, own.peer) = (Some(payer), peer);
                net.bring_address(cx, number, own)
            })
        };
        let result = match request {
            SIOCSIFFLAGS => {
                self.set_up(cx, number, value & flag::UP != 0);
                Ok(())
            }
            SIOCSIFMTU => self.set_mtu(cx, number, value),
            SIOCSIFADDR if v4 => {
                let address = Address::v4(given);
                if address.is_multicast() || address.is_broadcast() {
                    return fail(EINVAL);
                }
                // The prefix of its class, until a mask is set; one machine is at the other end of a line.
                let bits = match given[0] {
                    _ if is_line => 32,
                    ..128 => 8,
                    128..192 => 16,
                    192..224 => 24,
                    _ => 32,
                };
                change(self, cx, address, 96 + bits, None)
            }
            SIOCSIFNETMASK if v4 => {
                let mask = u32::from_be_bytes(given);
                let Some(own) = first else {
                    return fail(EADDRNOTAVAIL);
                };
                if mask.leading_ones() + mask.trailing_zeros() < 32 {
                    return fail(EINVAL);
                }
                change(self, cx, own.address, 96 + mask.leading_ones(), own.peer)
            }
            // Who is at the other end.
            SIOCSIFDSTADDR if v4 => {
                let peer = Address::v4(given);
                let Some(own) = first else {
                    return fail(EADDRNOTAVAIL);
                };
                if peer.is_multicast() || peer.is_broadcast() {
                    return fail(EINVAL);
                }
                let peer = Some(peer).filter(|peer| *peer != own.address);
                change(self, cx, own.address, own.bits, peer)
            }
            // It is what the address and its mask say.
            SIOCSIFBRDADDR if v4 => match first {
                Some(own) if own.broadcast == Some(Address::v4(given)) => Ok(()),
                Some(_) => Err(EOPNOTSUPP),
                None => Err(EADDRNOTAVAIL),
            },
            SIOCSIFADDR | SIOCSIFNETMASK | SIOCSIFBRDADDR | SIOCSIFDSTADDR => Err(EINVAL),
            _ => Err(EOPNOTSUPP),
        };
        self.alarm(cx);
        match result {
            Ok(()) => Ok(Reply::result(0)),
            Err(number) => fail(number),
        }
    }

    /// All addresses of IPv4, as `struct ifreq`: as many as there is room for, or how much they take if there is none.
    fn configurations<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        self.scratch.clear();
        for interface in &self.interfaces.all {
            for own in interface.addresses().iter().filter(|of| of.address.is_v4()) {
                let mut bytes = [0; 40];
                let length = interface.name.len().min(15);
                bytes[..length].copy_from_slice(&interface.name[..length]);
                bytes[16..18].copy_from_slice(&(INET as u16).to_le_bytes());
                bytes[20..24].copy_from_slice(&own.address.as_v4().unwrap_or_default());
                self.scratch.extend_from_slice(&bytes);
            }
        }
        if cx.request.in_len == 0 {
            return Ok(Reply::result(self.scratch.len() as i64));
        }
        let fits = cx.request.in_len / 40 * 40;
        self.scratch.truncate(fits);
        Ok(Reply::result(self.scratch.len() as i64).data(&self.scratch))
    }
}

/// Requests about interfaces.
/// SIOCGIFADDR and its kin, which are for sockets of IPv4, and of frames.
pub fn is_address_of_v4(request: u64) -> bool {
    matches!(request, 0x8915 | 0x8917 | 0x8919 | 0x891b)
}

/// SIOCSIFLINK, SIOCGIFMEM, SIOCGIFSLAVE and the like: numbers with names, which Linux does not know any more.
const NOBODYS: [u64; 5] = [0x8911, 0x891f, 0x8925, 0x8926, 0x892a];
pub const SIOCGIFNAME: u64 = 0x8910;
pub const SIOCETHTOOL: u64 = 0x8946;
const SIOCGIFCONF: u64 = 0x8912;
const SIOCGIFFLAGS: u64 = 0x8913;
const SIOCSIFFLAGS: u64 = 0x8914;
const SIOCSIFADDR: u64 = 0x8916;
const SIOCSIFDSTADDR: u64 = 0x8918;
const SIOCSIFBRDADDR: u64 = 0x891a;
const SIOCSIFNETMASK: u64 = 0x891c;
const SIOCSIFMTU: u64 = 0x8922;
const SIOCGIFADDR: u64 = 0x8915;
const SIOCGIFDSTADDR: u64 = 0x8917;
const SIOCGIFBRDADDR: u64 = 0x8919;
const SIOCGIFNETMASK: u64 = 0x891b;
const SIOCGIFMETRIC: u64 = 0x891d;
const SIOCGIFMTU: u64 = 0x8921;
const SIOCGIFHWADDR: u64 = 0x8927;
const SIOCGIFINDEX: u64 = 0x8933;
const SIOCGIFTXQLEN: u64 = 0x8942;
const SIOCGIFMAP: u64 = 0x8970;

/// A netmask, of a prefix's length of 128.
fn mask(bits: u32) -> [u8; 4] {
    let bits = bits.saturating_sub(96).min(32);
    u32::MAX.checked_shl(32 - bits).unwrap_or(0).to_be_bytes()
}

fn device(to: &mut String, interface: &Interface) {
    let name = core::str::from_utf8(&interface.name).unwrap_or("?");
    let (received, sent) = (&interface.received, &interface.sent);
    let _ = writeln!(
        to,
        "{name:>6}: {:7} {:7}    0 {:4}    0     0          0         0 {:8} {:7}    0 {:4}    0     0       0          0",
        received.bytes, received.packets, received.dropped, sent.bytes, sent.packets, sent.dropped
    );
}

/// (Who calls an interface something that is no text does not find it there.)
fn link(to: &mut String, interface: &Interface) {
    let Ok(name) = core::str::from_utf8(&interface.name) else {
        return;
    };
    let (kind, mac) = interface.hardware();
    let _ = write!(to, "{} {kind} ", interface.number);
    match interface.has_header() {
        true => mac.iter().enumerate().for_each(|(at, byte)| {
            let _ = write!(to, "{}{byte:02x}", if at == 0 { "" } else { ":" });
        }),
        false => to.push('-'),
    }
    let (flags, mtu, queue) = (interface.flags, interface.mtu, interface.queue_length());
    let _ = write!(to, " {flags} {mtu} {queue}");
    for counts in [&interface.received, &interface.sent] {
        let _ = write!(
            to,
            " {} {} {}",
            counts.packets, counts.bytes, counts.dropped
        );
    }
    let _ = match &interface.tunnel {
        Some(tunnel) => {
            let (flags, owner, group) = tunnel.told();
            writeln!(to, " 1 {flags} {owner} {group} {name}")
        }
        None => writeln!(to, " 0 0 0 0 {name}"),
    };
}
