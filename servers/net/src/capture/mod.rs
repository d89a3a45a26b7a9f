//! Sockets of AF_PACKET (packet(7)): frames as they pass an interface, and frames that a program makes itself.
//!
//! * [`filter`] which of them a socket wants; [`ring`] memory that a program has mapped, in place of the queue; [`fanout`] sockets that share frames.
//!
//! What always holds: while no socket takes frames ([`Net::taps`] is empty) a packet costs one look at that. What waits, the filter and the ring are on
//! the account of who made the socket; what does not fit is lost and counted. What a link lets pass is kept in a queue of the link's until this module
//! takes it.

pub(crate) mod fanout;
pub mod filter;
pub mod ring;
#[cfg(test)]
mod tests;

use crate::address::{Address, Endpoint};
use crate::interface::{flag, LOOPBACK, NO_HARDWARE};
use crate::internet::Arrived;
use crate::packet::{Header, Packet, Payload, HEADROOM};
use crate::server::{fail, key, Net, Sent, READABLE};
use crate::timers::Owner;
use crate::tunnel::device::protocol_of;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::capability::NET_RAW;
use cairn_idl::errno::*;
use cairn_idl::net::{DATAGRAM, PACKET, RAW};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handles};
use cairn_rt::channel::Reply;
use cairn_rt::Portal;
use cairn_tcp::time::Time;
use filter::{About, Filter};
use ring::{Memory, Ring, Shape, LOSING, NO_CHECKSUM, USER};

/// Bytes of a link's header, and of `struct sockaddr_ll`.
pub const HEADER: usize = 14;
pub const LINK_ADDRESS: usize = 20;
/// Every protocol (ETH_P_ALL).
const ALL: u16 = 3;

/// Whom a frame is for (PACKET_HOST …).
pub mod kind {
    pub const HOST: u8 = 0;
    pub const BROADCAST: u8 = 1;
    pub const MULTICAST: u8 = 2;
    pub const OTHER_HOST: u8 = 3;
    pub const OUTGOING: u8 = 4;
}

/// Options of SOL_PACKET.
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
const STATISTICS: u32 = 6;
const RX_RING: u32 = 5;
const AUXDATA: u32 = 8;
const VERSION: u32 = 10;
const HDRLEN: u32 = 11;
const FANOUT: u32 = 18;
const RESERVE: u32 = 12;
const IGNORE_OUTGOING: u32 = 23;
/// TPACKET_V2.
const V2: u64 = 1;
/// When a ring is looked at behind a frame, first and last (µs).
const FIRST_LOOK: u64 = 500;
const LAST_LOOK: u64 = 64_000;
/// Kinds of memberships (PACKET_MR_); most of a socket.
const PROMISCUOUS: u16 = 1;
const MEMBERSHIPS: usize = 64;

/// A frame that passes an interface, with the link's header. (Where a link has none it is made up, and programs do not see it.)
pub struct Seen<'a> {
    pub frame: &'a [u8],
    pub has_header: bool,
    pub interface: u32,
    pub hardware: u16,
    pub kind: u8,
    /// Its checksums were not made.
    pub trusted: bool,
}

impl Seen<'_> {
    fn protocol(&self) -> u16 {
        let bytes = self.frame.get(12..HEADER);
        bytes.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Its sender as words of `net.idl`.
    fn sender(&self) -> Endpoint {
        let mut mac = [0; 8];
        if let Some(from) = self.frame.get(6..12) {
            mac[..6].copy_from_slice(from);
        }
        name(
            self.interface,
            self.hardware,
            self.kind,
            mac,
            self.protocol(),
        )
    }

    /// `struct sockaddr_ll`
    fn structure(&self) -> [u8; LINK_ADDRESS] {
        let mut bytes = [0; LINK_ADDRESS];
        bytes[..2].copy_from_slice(&(PACKET as u16).to_le_bytes());
        bytes[2..4].copy_from_slice(&self.protocol().to_be_bytes());
        bytes[4..20].copy_from_slice(&self.sender().address.0);
        bytes
    }
}

/// An address of this family: `sll_ifindex`, `sll_hatype`, `sll_pkttype` and `sll_halen` in the first word, `sll_addr` in the second.
fn name(interface: u32, hardware: u16, kind: u8, address: [u8; 8], protocol: u16) -> Endpoint {
    let length = match hardware {
        0 | NO_HARDWARE => 0,
        _ => 6,
    };
    let low =
        u64::from(interface) | u64::from(hardware) << 32 | u64::from(kind) << 48 | length << 56;
    let address = Address::of_words(low, u64::from_le_bytes(address));
    Endpoint::new(address, protocol)
}

/// Whom a frame that came is for, at a station with this address.
pub fn whom(frame: &[u8], station: [u8; 6]) -> u8 {
    match frame.first_chunk::<6>() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => kind::BROADCAST,
        Some([first, ..]) if first & 1 != 0 => kind::MULTICAST,
        Some(to) if *to == station => kind::HOST,
        _ => kind::OTHER_HOST,
    }
}

/// What a socket of this family has beyond what all have.
#[derive(Default)]
pub struct Capture {
    pub(crate) socket: u32,
    /// What it takes; 0: nothing.
    protocol: u16,
    /// By which interface; 0: by any.
    interface: u32,
    cooked: bool,
    /// Where it stands among those that take something.
    place: Option<usize>,
    pub(crate) filter: Option<Rc<Filter>>,
    ring: Option<Ring>,
    /// When the ring is looked at, and how long that was put off last (µs; 0: it is not to be looked at).
    timer: Option<u32>,
    delay: u64,
    /// Interfaces that it wants everything of.
    promiscuous: Vec<u32>,
    pub(crate) tells_more: bool,
    no_outgoing: bool,
    reserve: usize,
    version: u64,
    taken: u32,
    lost: u32,
    /// The group that it shares frames with.
    fanout: Option<u16>,
}

impl Capture {
    /// Does it take such a frame?
    fn wants(&self, seen: &Seen) -> bool {
        let outgoing = seen.kind == kind::OUTGOING;
        let wants = match self.protocol {
            ALL => !(outgoing && self.no_outgoing),
            one => one == seen.protocol() && !outgoing,
        };
        wants && (self.interface == 0 || self.interface == seen.interface)
    }

    /// The protocol and the interface that it takes.
    pub(crate) fn takes(&self) -> (u16, u32) {
        (self.protocol, self.interface)
    }
}

/// Memory for a ring of so many bytes.
pub type MakeRing = fn(usize) -> Option<Box<dyn Memory>>;

impl Net {
    pub(crate) fn make_capture<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [_, _, kind, protocol, ..] = cx.request.words;
        if !self.has_capability(cx, NET_RAW) {
            return fail(EPERM);
        }
        if !matches!(kind, RAW | DATAGRAM) {
            return fail(ESOCKTNOSUPPORT);
        }
        // What comes behind the socket's making does not fail.
        if self.taps.try_reserve(1).is_err() {
            return fail(ENOMEM);
        }
        let capture = Capture {
            cooked: kind == DATAGRAM,
            ..Capture::default()
        };
        let Some(further) = self.captures.insert(capture) else {
            return fail(ENOMEM);
        };
        let made = self.make_socket(cx, handles, (PACKET, kind, 0), further);
        if made.is_err() {
            self.captures.remove(further);
            return made;
        }
        // (As it lies in the program's memory: the network's order.)
        self.take_frames(further, (protocol as u16).swap_bytes(), 0);
        made
    }

    /// Nobody has the socket any more.
    pub(crate) fn end_capture(&mut self, cx: &mut Context, further: u32, payer: u32) {
        self.take_frames(further, 0, 0);
        let Some(mut capture) = self.captures.remove(further) else {
            return;
        };
        self.leave_fanout(further, &capture);
        if let Some(timer) = capture.timer {
            self.timers.remove(timer);
        }
        for number in core::mem::take(&mut capture.promiscuous) {
            self.count_promiscuous(number, false);
        }
        let kept = capture.filter.as_ref().map_or(0, |of| of.memory())
            + capture.ring.as_ref().map_or(0, Ring::bytes);
        cx.refund(payer, kept);
    }

    pub(crate) fn capture(&mut self, index: u32) -> Answer<&mut Capture> {
        let socket = self.sockets.get(index).filter(|of| of.family == PACKET);
        let found = socket.and_then(|of| self.captures.get_mut(of.further));
        found.ok_or(Failure::Errno(EOPNOTSUPP))
    }

    /// What a socket takes from now on. False: there is no memory.
    fn take_frames(&mut self, further: u32, protocol: u16, interface: u32) -> bool {
        let Some(capture) = self.captures.get_mut(further) else {
            return false;
        };
        let before = self.taps.is_empty();
        match (capture.place, protocol) {
            (None, 1..) => {
                if self.taps.try_reserve(1).is_err() {
                    return false;
                }
                capture.place = Some(self.taps.len());
                self.taps.push(further);
            }
            (Some(place), 0) => {
                capture.place = None;
                self.taps.swap_remove(place);
                let moved = self.taps.get(place).copied();
                if let Some(moved) = moved.and_then(|moved| self.captures.get_mut(moved)) {
                    moved.place = Some(place);
                }
            }
            _ => {}
        }
        if let Some(capture) = self.captures.get_mut(further) {
            (capture.protocol, capture.interface) = (protocol, interface);
        }
        if before != self.taps.is_empty() {
            self.tell_links();
        }
        true
    }

    /// Whether links keep what they let pass, and also what is for others.
    pub(crate) fn tell_links(&mut self) {
        let on = !self.taps.is_empty();
        for interface in &mut self.interfaces.all {
            let all = interface.promiscuous != 0;
            if let Some(device) = interface.device() {
                device.capture(on, all);
            }
        }
    }

    fn count_promiscuous(&mut self, number: u32, on: bool) {
        if let Some(interface) = self.interfaces.get_mut(number) {
            interface.promiscuous = match on {
                true => interface.promiscuous + 1,
                false => interface.promiscuous.saturating_sub(1),
            };
            self.tell_links();
        }
    }

    /// An interface is down: who takes its frames hears of it.
    pub(crate) fn tell_captures(&mut self, cx: &mut Context, number: u32) {
        for at in &self.taps {
            let Some(capture) = self.captures.get_mut(*at) else {
                continue;
            };
            let index = capture.socket;
            let bound = capture.interface == number;
            if let Some(socket) = self.sockets.get_mut(index).filter(|_| bound) {
                socket.error = ENETDOWN;
                cx.wake(key(index, READABLE));
            }
        }
    }

    /// An interface is no more: who was bound to it gets nothing.
    pub(crate) fn forget_interface_of_captures(&mut self, number: u32) {
        for at in 0..self.captures.end() {
            let Some(capture) = self.captures.get_mut(at) else {
                continue;
            };
            capture.promiscuous.retain(|of| *of != number);
            if capture.interface == number {
                capture.interface = u32::MAX;
            }
        }
    }

    fn is_ethernet(&self, number: u32) -> bool {
        self.interfaces.get(number).is_none_or(|of| of.has_header())
    }

    // ---- names

    pub(crate) fn bind_capture(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let [_, low, _, word, ..] = cx.request.words;
        if word >> 16 & 0xffff != PACKET {
            return fail(EINVAL);
        }
        if self.capture(index)?.fanout.is_some() {
            return fail(EINVAL);
        }
        let number = low as u32;
        let up = match self.interfaces.get(number) {
            Some(interface) => interface.flags & flag::UP != 0,
            None if number == 0 => true,
            None => return fail(ENODEV),
        };
        let before = self.capture(index)?.protocol;
        let protocol = match word as u16 {
            0 => before,
            given => given,
        };
        let further = self.socket(index)?.further;
        if !self.take_frames(further, protocol, number) {
            return fail(ENOMEM);
        }
        if !up {
            self.socket_mut(index)?.error = ENETDOWN;
            cx.wake(key(index, READABLE));
        }
        Ok(())
    }

    pub(crate) fn capture_name<'a>(&mut self, index: u32, whose: u64) -> Answer<Reply<'a>> {
        let capture = self.capture(index)?;
        let (number, protocol) = (capture.interface, capture.protocol);
        if whose != 0 {
            return fail(EOPNOTSUPP);
        }
        let (hardware, mac) = match self.interfaces.get(number) {
            Some(interface) => interface.hardware(),
            None => (0, [0; 6]),
        };
        let mut address = [0; 8];
        address[..6].copy_from_slice(&mac);
        let name = name(number, hardware, 0, address, protocol);
        let [low, high] = name.address.words();
        Ok(Reply::new(&[
            0,
            low,
            high,
            u64::from(protocol) | PACKET << 16,
        ]))
    }

    // ---- options

    pub(crate) fn set_capture_option(
        &mut self,
        cx: &mut Context,
        index: u32,
        number: u32,
        value: u64,
    ) -> Answer<()> {
        if number == FANOUT {
            return self.join_fanout(index, value as u32);
        }
        let capture = self.capture(index)?;
        let has_ring = capture.ring.is_some();
        match number {
            AUXDATA => capture.tells_more = value != 0,
            IGNORE_OUTGOING if value > 1 => return fail(EINVAL),
            IGNORE_OUTGOING => capture.no_outgoing = value != 0,
            VERSION | RESERVE if has_ring => return fail(EBUSY),
            VERSION if value != V2 => return fail(EINVAL),
            VERSION => capture.version = value,
            RESERVE if value > 4096 => return fail(EINVAL),
            RESERVE => capture.reserve = value as usize,
            ADD_MEMBERSHIP | DROP_MEMBERSHIP => {
                let mut bytes = [0; 16];
                if cx.request.out_len < bytes.len() {
                    return fail(EINVAL);
                }
                cx.fetch(0, &mut bytes)?;
                let interface = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let kind = u16::from_le_bytes([bytes[4], bytes[5]]);
                return self.change_membership(index, number == ADD_MEMBERSHIP, interface, kind);
            }
            RX_RING => {
                let mut bytes = [0; 16];
                if cx.request.out_len < bytes.len() {
                    return fail(EINVAL);
                }
                cx.fetch(0, &mut bytes)?;
                return self.set_ring(cx, index, Shape::of(&bytes));
            }
            _ => return fail(ENOPROTOOPT),
        }
        Ok(())
    }

    fn change_membership(&mut self, index: u32, comes: bool, number: u32, kind: u16) -> Answer<()> {
        if comes && self.interfaces.get(number).is_none() {
            return fail(ENODEV);
        }
        // Groups, and all groups, come anyway.
        if kind != PROMISCUOUS {
            return if kind <= 3 { Ok(()) } else { fail(EINVAL) };
        }
        let members = &mut self.capture(index)?.promiscuous;
        if comes {
            if members.len() >= MEMBERSHIPS || members.try_reserve(1).is_err() {
                return fail(ENOBUFS);
            }
            members.push(number);
        } else {
            let Some(place) = members.iter().position(|of| *of == number) else {
                return fail(EADDRNOTAVAIL);
            };
            members.swap_remove(place);
        }
        self.count_promiscuous(number, comes);
        Ok(())
    }

    fn set_ring(&mut self, cx: &mut Context, index: u32, shape: Shape) -> Answer<()> {
        let payer = self.socket(index)?.payer;
        let make = self.make_ring;
        let capture = self.capture(index)?;
        if shape.blocks == 0 {
            if shape.frames != 0 {
                return fail(EINVAL);
            }
            capture.delay = 0;
            if let Some(ring) = capture.ring.take() {
                cx.refund(payer, ring.bytes());
            }
            if let Some(timer) = capture.timer.take() {
                self.timers.remove(timer);
            }
            return Ok(());
        }
        if capture.ring.is_some() {
            return fail(EBUSY);
        }
        if capture.version != V2 {
            return fail(EINVAL);
        }
        let Some(bytes) = shape.bytes(capture.reserve) else {
            return fail(EINVAL);
        };
        if bytes > ring::MOST {
            return fail(ENOMEM);
        }
        let reserve = capture.reserve;
        let Some(timer) = self.timers.add(Owner::Ring(self.socket(index)?.further)) else {
            return fail(ENOMEM);
        };
        if let Err(refused) = cx.charge(payer, bytes) {
            self.timers.remove(timer);
            return Err(refused);
        }
        let made = make(bytes).and_then(|memory| Ring::new(memory, shape, reserve));
        let Some(made) = made else {
            cx.refund(payer, bytes);
            self.timers.remove(timer);
            return fail(ENOMEM);
        };
        let capture = self.capture(index)?;
        (capture.ring, capture.timer) = (Some(made), Some(timer));
        Ok(())
    }

    pub(crate) fn get_capture_option(
        &mut self,
        cx: &mut Context,
        index: u32,
        number: u32,
        given: u64,
    ) -> Answer<u64> {
        let capture = self.capture(index)?;
        Ok(match number {
            STATISTICS => {
                let lost = capture.lost;
                let all = capture.taken.wrapping_add(lost);
                self.scratch.extend_from_slice(&all.to_le_bytes());
                self.scratch.extend_from_slice(&lost.to_le_bytes());
                // They begin anew if they arrive.
                cx.store(0, &self.scratch)?;
                let capture = self.capture(index)?;
                (capture.lost, capture.taken) = (0, 0);
                0
            }
            AUXDATA => capture.tells_more.into(),
            IGNORE_OUTGOING => capture.no_outgoing.into(),
            VERSION => capture.version,
            HDRLEN if given != V2 => return fail(EINVAL),
            HDRLEN => ring::HEADER as u64,
            RESERVE => capture.reserve as u64,
            FANOUT => self.fanout_of(index)?,
            _ => return fail(ENOPROTOOPT),
        })
    }

    /// The ring's memory and how many pages it has, for a program that maps all of it.
    pub(crate) fn map_ring(
        &mut self,
        index: u32,
        offset: u64,
        length: u64,
    ) -> Answer<(Portal, u64)> {
        let capture = self.capture(index).map_err(|_| Failure::Errno(ENODEV))?;
        match &capture.ring {
            Some(ring) if offset == 0 && length == ring.bytes() as u64 => {
                Ok((ring.portal(), ring.pages()))
            }
            _ => fail(EINVAL),
        }
    }

    /// Has it a frame in a ring that is to be read?
    pub(crate) fn ring_is_readable(&self, index: u32) -> bool {
        let socket = self.sockets.get(index).filter(|of| of.family == PACKET);
        let capture = socket.and_then(|of| self.captures.get(of.further));
        let ring = capture.and_then(|capture| capture.ring.as_ref());
        ring.is_some_and(Ring::is_readable)
    }

    pub(crate) fn tells_more(&self, index: u32) -> bool {
        let socket = self.sockets.get(index).filter(|of| of.family == PACKET);
        let capture = socket.and_then(|of| self.captures.get(of.further));
        capture.is_some_and(|capture| capture.tells_more)
    }

    // ---- frames

    /// A packet that leaves or comes by `lo`, which has no frames: it gets a header.
    pub(crate) fn tap_loopback(&mut self, cx: &mut Context, packet: &Packet, kind: u8) {
        let bytes = packet.bytes();
        let mut frame = Vec::new();
        if frame.try_reserve_exact(HEADER + bytes.len()).is_err() {
            return;
        }
        frame.resize(HEADER, 0);
        let protocol: u16 = match bytes.first().map(|first| first >> 4) {
            Some(6) => 0x86dd,
            _ => 0x800,
        };
        frame[12..HEADER].copy_from_slice(&protocol.to_be_bytes());
        frame.extend_from_slice(bytes);
        self.tap(cx, &frame, LOOPBACK, kind, packet.trusted, None);
    }

    /// What a link has let pass since.
    pub(crate) fn tap_link(&mut self, cx: &mut Context, number: u32) {
        if self.taps.is_empty() {
            return;
        }
        let next = |net: &mut Net| net.interfaces.get_mut(number)?.device()?.captured();
        while let Some((kind, frame)) = next(self) {
            self.tap(cx, &frame, number, kind, false, None);
        }
    }

    /// Each socket that wants a frame gets it, but for the one that sent it.
    fn tap(
        &mut self,
        cx: &mut Context,
        frame: &[u8],
        number: u32,
        kind: u8,
        trusted: bool,
        origin: Option<u32>,
    ) {
        let Some(interface) = self.interfaces.get(number) else {
            return;
        };
        let seen = Seen {
            frame,
            has_header: interface.has_header(),
            interface: number,
            hardware: interface.hardware().0,
            kind,
            trusted,
        };
        let time = cx.transport.realtime();
        for at in 0..self.taps.len() {
            let further = self.taps[at];
            let grouped = || {
                self.captures
                    .get(further)
                    .is_some_and(|of| of.fanout.is_some())
            };
            if origin != Some(further) && (self.fanouts.is_empty() || !grouped()) {
                self.give_frame(cx, further, &seen, time);
            }
        }
        if !self.fanouts.is_empty() {
            self.fan_out(cx, &seen, time, origin);
        }
    }

    fn give_frame(&mut self, cx: &mut Context, further: u32, seen: &Seen, time: u64) {
        let Some(capture) = self.captures.get_mut(further) else {
            return;
        };
        let protocol = seen.protocol();
        if !capture.wants(seen) {
            return;
        }
        let start = match capture.cooked || !seen.has_header {
            true => HEADER,
            false => 0,
        };
        let length = seen.frame.len().saturating_sub(start);
        let about = About {
            network: HEADER,
            start,
            protocol,
            kind: seen.kind,
            interface: seen.interface,
            hardware: seen.hardware,
        };
        let wanted = match &capture.filter {
            Some(filter) => filter.run(seen.frame, &about) as usize,
            None => length,
        };
        let wanted = wanted.min(length);
        if wanted == 0 {
            return;
        }
        let index = capture.socket;
        let losing = if capture.lost != 0 { LOSING } else { 0 };
        let status = USER | if seen.trusted { NO_CHECKSUM } else { 0 };
        let taken = match &mut capture.ring {
            Some(ring) => {
                let taken = ring.put(seen, start, wanted, (status | losing, time));
                if taken {
                    cx.wake(key(index, READABLE));
                    if let (Some(timer), 0) = (capture.timer, capture.delay) {
                        capture.delay = FIRST_LOOK;
                        let now = cx.transport.monotonic() / 1000;
                        self.timers.set(timer, Time(now + FIRST_LOOK));
                    }
                }
                taken
            }
            None => self.queue_frame(cx, index, seen, (start, wanted), status),
        };
        if let Some(capture) = self.captures.get_mut(further) {
            match taken {
                true => capture.taken = capture.taken.wrapping_add(1),
                false => capture.lost = capture.lost.wrapping_add(1),
            }
        }
    }

    /// A program that gives slots back says so to nobody; who waits for this socket among others is told here that it has nothing to read any more.
    pub(crate) fn look_at_ring(&mut self, cx: &mut Context, further: u32) {
        let Some(capture) = self.captures.get_mut(further) else {
            return;
        };
        let (Some(ring), Some(timer)) = (&capture.ring, capture.timer) else {
            return;
        };
        capture.delay = match ring.is_readable() {
            true => (capture.delay * 2).min(LAST_LOOK),
            false => 0,
        };
        match capture.delay {
            0 => cx.wake(key(capture.socket, READABLE)),
            delay => {
                let now = cx.transport.monotonic() / 1000;
                self.timers.set(timer, Time(now + delay));
            }
        }
    }

    /// A frame waits as a datagram does; what AUXDATA tells lies in the words of where it went.
    fn queue_frame(
        &mut self,
        cx: &mut Context,
        index: u32,
        seen: &Seen,
        (start, wanted): (usize, usize),
        status: u32,
    ) -> bool {
        let bytes = seen.frame.get(start..start + wanted).unwrap_or(&[]);
        let mut own = Vec::new();
        if own.try_reserve_exact(bytes.len()).is_err() {
            return false;
        }
        own.extend_from_slice(bytes);
        let network = (HEADER - start) as u64;
        let length = (seen.frame.len() - start) as u64;
        let told = Address::of_words(
            u64::from(status) | length << 32,
            wanted as u64 | network << 48,
        );
        let payload = Payload {
            start: 0,
            end: own.len(),
        };
        let arrived = Arrived {
            packet: Packet::received(own, 0),
            header: Header {
                destination: told,
                ..Header::default()
            },
            payload,
            interface: seen.interface,
            several: false,
        };
        self.queue_datagram(cx, index, seen.sender(), arrived, payload)
    }

    /// A frame that a program made, or what comes behind a header.
    pub(crate) fn send_frame(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        sent: &Sent,
    ) -> Answer<usize> {
        let further = self.socket(index)?.further;
        let capture = self.capture(index)?;
        let cooked = capture.cooked;
        let (number, protocol, to) = match &sent.to {
            Some(to) => {
                let [low, high] = to.address.words();
                // (sll_halen)
                if cooked && low >> 56 < 6 && self.is_ethernet(low as u32) {
                    return fail(EINVAL);
                }
                (low as u32, to.port, Some(high.to_le_bytes()))
            }
            None => (capture.interface, capture.protocol, None),
        };
        let Some(interface) = self.interfaces.get(number) else {
            return fail(ENXIO);
        };
        if interface.flags & flag::UP == 0 {
            return fail(ENETDOWN);
        }
        let (mtu, mac) = (interface.mtu as usize, interface.hardware().1);
        let bare = !interface.has_header();
        let header = if cooked || bare { HEADER } else { 0 };
        if length + header < HEADER {
            return fail(EINVAL);
        }
        if length + header > HEADER + mtu {
            return fail(EMSGSIZE);
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(HEADROOM + header + length).is_err() {
            return fail(ENOBUFS);
        }
        bytes.resize(HEADROOM + header + length, 0);
        cx.fetch(0, &mut bytes[HEADROOM + header..])?;
        if header != 0 {
            let own = &mut bytes[HEADROOM..];
            match to {
                _ if bare => {}
                Some(to) => own[..6].copy_from_slice(&to[..6]),
                None if number == LOOPBACK => {}
                None => return fail(EINVAL),
            }
            own[6..12].copy_from_slice(&mac);
            let protocol = match cooked {
                true => protocol,
                false => protocol_of(&own[HEADER..]).unwrap_or(protocol),
            };
            own[12..HEADER].copy_from_slice(&protocol.to_be_bytes());
        }
        let frame = &bytes[HEADROOM..];
        if !self.taps.is_empty() {
            self.tap(cx, frame, number, kind::OUTGOING, false, Some(further));
        }
        if let Some(device) = self.interfaces.get_mut(number).and_then(|of| of.device()) {
            device.send_frame(frame);
            self.look_at_queue(cx, number);
            return Ok(length);
        }
        // Its station is nobody, and it has no broadcasts.
        let whom = whom(frame, [0; 6]).max(kind::MULTICAST * (frame[0] & 1));
        if !self.taps.is_empty() {
            self.tap(cx, frame, number, whom, false, None);
        }
        let known = matches!(frame[12..HEADER], [8, 0] | [0x86, 0xdd]);
        if known && whom != kind::OTHER_HOST {
            let mut packet = Packet::received(bytes, HEADROOM + HEADER);
            packet.seen = true;
            if let Some(interface) = self.interfaces.get_mut(number) {
                interface.send(cx, packet, Address::LOOPBACK);
            }
        }
        Ok(length)
    }
}
