//! What the packet filter is asked, and what becomes of its answers (idl/filter.idl, docs/filter.md). The filter is a component of its own, `servers/filter`;
//! without it nothing here runs.
//!
//! What always holds: while a filter that the manifest names does not answer, what it would be asked for is dropped. Its answers say what becomes of a packet
//! and how addresses and ports are rewritten; sums are changed by the difference, so what was wrong stays wrong.

use crate::address::Address;
use crate::forward::{quoted, update};
use crate::icmp::{v4, v6};
use crate::interface::{Way, LOOPBACK};
use crate::internet::Arrived;
use crate::packet::{checksum, protocol, Header, Packet, Payload};
use crate::server::Net;
use alloc::vec::Vec;
use cairn_abi::pulse;
use cairn_ethernet::fragments::checksum as plain_checksum;
use cairn_idl::filter::{self, about, page, said, Hook, Refusal, Say};
use cairn_resmgr::Context;
use cairn_rt::{Message, Portal, Received};
use core::sync::atomic::Ordering::Acquire;

/// The page in whose first word the filter says whether it is to be asked.
#[cfg(not(test))]
pub type Page = cairn_rt::memory::Shared;
#[cfg(test)]
pub type Page = &'static [core::sync::atomic::AtomicU64];

/// Asks the filter for its page.
pub type Attach = fn(Portal) -> Option<Page>;

/// The way to the filter.
#[derive(Default)]
pub struct Gate {
    /// None: there is no filter in this system.
    pub portal: Option<Portal>,
    /// Asks for the page.
    pub attach: Option<Attach>,
    page: Option<Page>,
    /// Which interfaces it was told of.
    told: u64,
}

impl Gate {
    /// Is it to be asked, for what comes from a link or leaves by one, or (true) for what does not leave the machine? Nobody knows the latter of a filter
    /// that is gone.
    #[inline]
    pub fn asks(&self, inside: bool) -> bool {
        self.portal.is_some() && self.asks_now(inside)
    }

    #[inline]
    fn asks_now(&self, inside: bool) -> bool {
        match (self.word(), inside) {
            (0, inside) => !inside,
            (word, false) => word & page::ASKS != 0,
            (word, true) => word & page::LOOPBACK != 0,
        }
    }

    #[inline]
    fn word(&self) -> u64 {
        let word = self.page.as_ref().and_then(|page| page.first());
        word.map_or(0, |word| word.load(Acquire))
    }

    /// The filter's pulse: it has begun. False: it is not.
    pub fn pulse(&mut self, event: &Received) -> bool {
        if event.badge != filter::BEGUN {
            return false;
        }
        if event.words[0] == pulse::NOTIFY {
            let made = self.portal.zip(self.attach);
            self.page = made.and_then(|(portal, attach)| attach(portal));
            self.told = 0;
        }
        true
    }
}

/// What a packet is rewritten to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewriting {
    source: Address,
    destination: Address,
    ports: [u16; 2],
    /// Of an error: it comes from the end that it quotes.
    as_end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Drop,
    Accept(Option<Rewriting>),
    Again(u32, Rewriting),
    Reject(Refusal),
}

/// The ports of a payload, and flags of TCP or the type of ICMP. An echo's number is the port of who asks.
fn ports_of(number: u8, bytes: &[u8]) -> ([u16; 2], u8) {
    let word = |at: usize| match bytes.get(at..at + 2) {
        Some(word) => u16::from_be_bytes([word[0], word[1]]),
        None => 0,
    };
    match number {
        protocol::TCP => ([word(0), word(2)], bytes.get(13).copied().unwrap_or(0)),
        protocol::UDP | 132 | protocol::UDP_LITE => ([word(0), word(2)], 0),
        protocol::ICMP | protocol::ICMP_V6 => {
            let kind = bytes.first().copied().unwrap_or(u8::MAX);
            let ports = match (number, kind) {
                (protocol::ICMP, v4::ECHO) | (protocol::ICMP_V6, v6::ECHO) => [word(4), 0],
                (protocol::ICMP, v4::ECHO_REPLY) | (protocol::ICMP_V6, v6::ECHO_REPLY) => {
                    [0, word(4)]
                }
                _ => [0; 2],
            };
            (ports, kind)
        }
        _ => ([0; 2], 0),
    }
}

fn is_error(number: u8, kind: u8) -> bool {
    match number {
        protocol::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        protocol::ICMP_V6 => kind < 128,
        _ => false,
    }
}

const ICMP_HEADER: usize = 8;

/// What an error quotes, if it is about a packet of whom it goes to.
fn quoted_by(packet: &Packet, header: &Header, payload: Payload) -> Option<(Header, Payload)> {
    let bytes = packet.payload(payload);
    if !is_error(header.protocol, *bytes.first()?) {
        return None;
    }
    let (quoted, place) = quoted(bytes.get(ICMP_HEADER..)?)?;
    let right = quoted.source == header.destination && place.end - place.start >= 8;
    right.then_some((quoted, place))
}

/// Replace bytes, and change a sum with them. (Of UDP 0 is no sum.)
fn replace(bytes: &mut [u8], at: usize, new: &[u8], sum: Option<(usize, bool)>) {
    let Some(place) = bytes.get_mut(at..at + new.len()) else {
        return;
    };
    let mut old = [0; 16];
    let old = &mut old[..new.len()];
    old.copy_from_slice(place);
    place.copy_from_slice(new);
    if let Some((at, optional)) = sum {
        change_sum(bytes, at, optional, old, new);
    }
}

fn change_sum(bytes: &mut [u8], at: usize, optional: bool, old: &[u8], new: &[u8]) {
    let Some(place) = bytes.get_mut(at..at + 2) else {
        return;
    };
    if optional && place == [0; 2] {
        return;
    }
    let mut changed = update([place[0], place[1]], old, new);
    if optional && changed == [0; 2] {
        changed = [0xff; 2];
    }
    place.copy_from_slice(&changed);
}

/// Rewrite addresses and ports of a packet whose header and payload lie here, with its sums.
fn rewrite(bytes: &mut [u8], header: &Header, payload: Payload, to: &Rewriting) {
    let start = payload.start;
    let (sum, optional, pseudo) = match header.protocol {
        protocol::TCP => (Some(start + 16), false, true),
        protocol::UDP => (Some(start + 6), header.is_v4(), true),
        // (Addresses and ports are always covered.)
        protocol::UDP_LITE => (Some(start + 6), false, true),
        protocol::ICMP => (Some(start + 2), false, false),
        protocol::ICMP_V6 => (Some(start + 2), false, true),
        _ => (None, false, false),
    };
    let sum = sum
        .filter(|at| at + 2 <= payload.end)
        .map(|at| (at, optional));
    let places = match header.is_v4() {
        true => [
            (12, header.source, to.source),
            (16, header.destination, to.destination),
        ],
        false => [
            (8, header.source, to.source),
            (24, header.destination, to.destination),
        ],
    };
    for (at, old, new) in places {
        if old == new {
            continue;
        }
        let from = if header.is_v4() { 12 } else { 0 };
        let (old, new) = (&old.0[from..], &new.0[from..]);
        replace(bytes, at, new, header.is_v4().then_some((10, false)));
        if let (Some((at, optional)), true) = (sum, pseudo) {
            change_sum(bytes, at, optional, old, new);
        }
    }
    let (ports, kind) = ports_of(header.protocol, &bytes[start..payload.end]);
    if ports == to.ports {
        return;
    }
    match header.protocol {
        protocol::TCP | protocol::UDP | protocol::UDP_LITE => {
            for (i, port) in to.ports.into_iter().enumerate() {
                replace(bytes, start + 2 * i, &port.to_be_bytes(), sum);
            }
        }
        protocol::ICMP | protocol::ICMP_V6 if !is_error(header.protocol, kind) => {
            let number = to.ports[0] | to.ports[1];
            replace(bytes, start + 4, &number.to_be_bytes(), sum);
        }
        _ => {}
    }
}

/// The same of an error: what it quotes, and where it goes.
fn rewrite_error(
    packet: &mut Packet,
    header: &mut Header,
    payload: Payload,
    to: &Rewriting,
) -> bool {
    let Some((inner, place)) = quoted_by(packet, header, payload) else {
        return false;
    };
    let sum_of = |header: &Header, bytes: &[u8]| match header.is_v4() {
        true => plain_checksum(bytes),
        false => checksum(header, bytes),
    };
    // What is wrong is not made right.
    if sum_of(header, packet.payload(payload)) != 0 {
        return false;
    }
    let outer = Rewriting {
        source: if to.as_end {
            to.destination
        } else {
            header.source
        },
        destination: to.source,
        ports: [0; 2],
        as_end: false,
    };
    let bytes = packet.bytes_mut();
    let quote = &mut bytes[payload.start + ICMP_HEADER..payload.end];
    rewrite(quote, &inner, place, to);
    rewrite(bytes, header, payload, &outer);
    (header.source, header.destination) = (outer.source, outer.destination);
    let message = &mut bytes[payload.start..payload.end];
    message[2..4].fill(0);
    let sum = sum_of(header, message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    true
}

/// Rewrite it; its header says then what it is. False: it cannot be.
fn rewrite_packet(
    packet: &mut Packet,
    header: &mut Header,
    payload: Payload,
    to: &Rewriting,
) -> bool {
    let v4 = header.is_v4();
    if packet.trusted || to.source.is_v4() != v4 || to.destination.is_v4() != v4 {
        return false;
    }
    packet.finish();
    let kind = packet.payload(payload).first().copied().unwrap_or(0);
    if is_error(header.protocol, kind) {
        return rewrite_error(packet, header, payload, to);
    }
    rewrite(packet.bytes_mut(), header, payload, to);
    (header.source, header.destination) = (to.source, to.destination);
    true
}

impl Net {
    /// Tell the filter of the interfaces.
    #[cold]
    fn tell_filter(&mut self, cx: &mut Context, portal: Portal) -> bool {
        let mut list = Vec::new();
        let all = &self.interfaces.all;
        let count = all.len().min(filter::INTERFACES_MOST);
        if list
            .try_reserve_exact(count * filter::INTERFACE_BYTES)
            .is_err()
        {
            return false;
        }
        for interface in &all[..count] {
            let mut one = [0; filter::INTERFACE_BYTES];
            let length = interface.name.len().min(filter::NAME_MAX);
            one[..length].copy_from_slice(&interface.name[..length]);
            let [v4, v6] = interface.own_sources();
            let (_, addresses) = one.split_at_mut(filter::NAME_MAX);
            for (place, own) in addresses.as_chunks_mut().0.iter_mut().zip([v4, v6]) {
                *place = own.map_or([0; 16], |own| own.0);
            }
            list.extend_from_slice(&one);
        }
        let message = Message::new(&[filter::INTERFACES]).out(&list);
        let done = matches!(cx.transport.call(portal, message), Ok([0, ..]));
        if done {
            self.filter.told = self.interfaces.version;
        }
        done
    }

    fn place(&self, number: u32) -> u64 {
        let mut all = self.interfaces.all.iter();
        let at = all.position(|of| of.number == number);
        at.map_or(filter::NOWHERE, |at| (at as u64).min(filter::NOWHERE))
    }

    /// Ask for a packet at a hook: interfaces by their numbers, 0 for none.
    fn ask(
        &mut self,
        cx: &mut Context,
        hook: Hook,
        (came_by, leaves_by): (u32, u32),
        (packet, header, payload): (&Packet, &Header, Payload),
        again: Option<u32>,
    ) -> Told {
        let Some(portal) = self.filter.portal.filter(|_| self.filter.word() != 0) else {
            return Told::Drop;
        };
        if self.filter.told != self.interfaces.version && !self.tell_filter(cx, portal) {
            return Told::Drop;
        }
        let bytes = packet.payload(payload);
        let (ports, kind) = ports_of(header.protocol, bytes);
        let mut word = hook as u64
            | self.place(came_by) << filter::CAME_BY
            | self.place(leaves_by) << filter::LEAVES_BY
            | u64::from(header.protocol) << filter::PROTOCOL
            | (packet.bytes().len() as u64).min(0xffff) << filter::LENGTH
            | u64::from(kind) << filter::KIND;
        if came_by == LOOPBACK || leaves_by == LOOPBACK {
            word |= about::INSIDE;
        }
        let mut ports = u64::from(ports[0]) | u64::from(ports[1]) << 16;
        if let Some(number) = again {
            word |= about::AGAIN;
            ports |= u64::from(number) << 32;
        }
        let mut quote = [0; filter::QUOTED_BYTES];
        let mut out: &[u8] = &[];
        if let Some((inner, place)) = quoted_by(packet, header, payload) {
            let quoted = &bytes[ICMP_HEADER + place.start..];
            let (inner_ports, _) = ports_of(inner.protocol, quoted);
            quote[..16].copy_from_slice(&inner.source.0);
            quote[16..32].copy_from_slice(&inner.destination.0);
            quote[32..34].copy_from_slice(&inner_ports[0].to_le_bytes());
            quote[34..36].copy_from_slice(&inner_ports[1].to_le_bytes());
            quote[36] = inner.protocol;
            (word, out) = (word | about::QUOTES, &quote);
        }
        let [source_low, source_high] = header.source.words();
        let [to_low, to_high] = header.destination.words();
        let words = [
            filter::JUDGE,
            word,
            source_low,
            source_high,
            to_low,
            to_high,
            ports,
        ];
        let Ok(words) = cx.transport.call(portal, Message::new(&words).out(out)) else {
            return Told::Drop;
        };
        let [verdict, changes, source_low, source_high, to_low, to_high, ports, number] = words;
        let rewriting = (changes & said::REWRITTEN != 0).then(|| Rewriting {
            source: Address::of_words(source_low, source_high),
            destination: Address::of_words(to_low, to_high),
            ports: [ports as u16, (ports >> 16) as u16],
            as_end: changes & said::AS_END != 0,
        });
        match (Say::from_word(verdict), rewriting) {
            (Some(Say::Accept), rewriting) => Told::Accept(rewriting),
            (Some(Say::Again), Some(rewriting)) => Told::Again(number as u32, rewriting),
            (Some(Say::Reject), _) => match Refusal::from_word(number) {
                Some(how) => Told::Reject(how),
                None => Told::Drop,
            },
            _ => Told::Drop,
        }
    }

    /// A packet came, for this machine or another one.
    #[cold]
    #[inline(never)]
    pub(crate) fn judge_arrived(&mut self, cx: &mut Context, mut arrived: Arrived) {
        let inside = arrived.interface == LOOPBACK;
        let mut again = None;
        // (Where it goes is rewritten once.)
        for _ in 0..2 {
            let Arrived {
                packet,
                header,
                payload,
                interface,
                several,
            } = &mut arrived;
            let own = *several || self.interfaces.is_own(&header.destination);
            if !own && (inside || !self.goes_on(cx, packet, header)) {
                return;
            }
            let onward = match own {
                true => None,
                false => self.interfaces.onward(&header.destination),
            };
            let hook = if own { Hook::Input } else { Hook::Forward };
            let by = (*interface, onward.map_or(0, |of| of.0));
            match self.ask(cx, hook, by, (packet, header, *payload), again) {
                Told::Drop => return,
                Told::Accept(_) if own => return self.deliver(cx, arrived),
                Told::Accept(rewriting) => {
                    let Arrived {
                        packet,
                        mut header,
                        payload,
                        ..
                    } = arrived;
                    let Some((mut packet, way)) = self.has_way(cx, packet, &header, onward) else {
                        return;
                    };
                    let right = rewriting
                        .is_none_or(|to| rewrite_packet(&mut packet, &mut header, payload, &to));
                    if right {
                        crate::forward::age(packet.bytes_mut());
                        self.put_on(cx, packet, &way);
                    }
                    return;
                }
                Told::Again(number, to) => {
                    if inside || *several || !rewrite_packet(packet, header, *payload, &to) {
                        return;
                    }
                    again = Some(number);
                }
                Told::Reject(how) => return self.reject(cx, &arrived, how),
            }
        }
    }

    /// A packet of this machine is about to leave.
    #[cold]
    #[inline(never)]
    pub(crate) fn judge_output(&mut self, cx: &mut Context, mut packet: Packet, way: &Way) {
        let inside = way.interface == LOOPBACK;
        let Some((mut header, payload)) = packet.parse() else {
            return;
        };
        let by = (0, way.interface);
        match self.ask(cx, Hook::Output, by, (&packet, &header, payload), None) {
            Told::Accept(Some(to)) if !inside => {
                let before = header.destination;
                if !rewrite_packet(&mut packet, &mut header, payload, &to) {
                    return;
                }
                if before == header.destination {
                    self.transmit(cx, packet, way);
                } else if let Some(way) = self.interfaces.way(&header.destination, 0) {
                    self.transmit(cx, packet, &way);
                }
            }
            Told::Accept(_) => self.transmit(cx, packet, way),
            Told::Reject(how) => {
                let arrived = Arrived {
                    packet,
                    header,
                    payload,
                    interface: LOOPBACK,
                    several: false,
                };
                self.reject(cx, &arrived, how);
            }
            Told::Drop | Told::Again(..) => {}
        }
    }

    /// The sender is told that it is refused.
    fn reject(&mut self, cx: &mut Context, arrived: &Arrived, how: Refusal) {
        let Arrived {
            packet,
            header,
            payload,
            several,
            ..
        } = arrived;
        if *several {
            return;
        }
        let kind = match (how, header.is_v4()) {
            (Refusal::Reset, _) => return self.reset(cx, packet, header, *payload),
            (Refusal::Port, true) => (v4::UNREACHABLE, 3),
            (Refusal::Prohibited, true) => (v4::UNREACHABLE, 13),
            (Refusal::Host, true) => (v4::UNREACHABLE, 1),
            (Refusal::Net, true) => (v4::UNREACHABLE, 0),
            (Refusal::Port, false) => (v6::UNREACHABLE, 4),
            (Refusal::Prohibited, false) => (v6::UNREACHABLE, 1),
            (Refusal::Host, false) => (v6::UNREACHABLE, 3),
            (Refusal::Net, false) => (v6::UNREACHABLE, 0),
        };
        self.tell_sender(cx, packet, header, kind, 0);
    }

    /// RFC 9293, 3.10.7.1: as if nobody listened there.
    fn reset(&mut self, cx: &mut Context, packet: &Packet, header: &Header, payload: Payload) {
        const LENGTH: usize = 20;
        let bytes = packet.payload(payload);
        let (true, Some(head)) = (
            header.protocol == protocol::TCP,
            bytes.first_chunk::<LENGTH>(),
        ) else {
            return;
        };
        let flags = head[13];
        if flags & 4 != 0 {
            return;
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let text = bytes.len().saturating_sub(usize::from(head[12] >> 4) * 4) as u32;
        let (seq, ack, own) = match flags & 16 != 0 {
            true => (word(8), 0, 4),
            false => {
                let length = text + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
                (0, word(4).wrapping_add(length), 4 | 16)
            }
        };
        let back = Header {
            source: header.destination,
            destination: header.source,
            protocol: protocol::TCP,
            ttl: 64,
            ..Header::default()
        };
        let Some(way) = self.interfaces.way(&back.destination, 0) else {
            return;
        };
        let identification = self.next_identification();
        let Some(mut answer) = Packet::new(&back, LENGTH, identification) else {
            return;
        };
        let segment = answer.extend(LENGTH);
        segment[..2].copy_from_slice(&head[2..4]);
        segment[2..4].copy_from_slice(&head[..2]);
        segment[4..8].copy_from_slice(&u32::to_be_bytes(seq));
        segment[8..12].copy_from_slice(&u32::to_be_bytes(ack));
        (segment[12], segment[13]) = (5 << 4, own);
        let sum = checksum(&back, segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        self.transmit(cx, answer, &way);
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
