//! A device of Ethernet: frames of a [`Port`], between which and IP are neighbours, fragments and the DHCP client.

use super::{for_dhcp, pieces, Change};
use crate::address::Address;
use crate::capture::{kind as capture, whom};
use crate::forward::is_piece;
use crate::interface::{Device, Neighbour, Offers, Own};
use crate::packet::{protocol, Header, Packet, Sum, IPV6};
use crate::tunnel::device::Queue;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use cairn_ethernet::arp::{Due, Neighbours, Next, Standing};
use cairn_ethernet::autoconf::{self, kind, Autoconf, Ip6, Message};
use cairn_ethernet::dhcp::{self, Client, Event};
use cairn_ethernet::fragments::{checksum, Fragments, Outcome, PATIENCE_V4, PATIENCE_V6};
use cairn_ethernet::frame::{self, Arp, Kind, HEADER};
use cairn_ethernet::{Ip, Mac, BROADCAST, NEVER};
use cairn_link::{Cut, Offload, HEADERS};
use cairn_resmgr::Context;
use cairn_rt::Received;
use cairn_tcp::time::Time;

/// Frames that are taken in together, whatever they are; then others have their turn.
const ROUND: usize = 64;
/// The group of routers that want to know who listens to what.
const LISTENERS: Ip6 = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16];
/// Frames that are kept for who captures: more than one look at the link brings.
const CAPTURED: usize = 512;
/// Frames that wait for room at the port.
const BACKLOG: usize = 512;
/// And bytes of them, with the last one's more: those to be cut are long.
const BACKLOG_BYTES: usize = 1 << 20;

/// Where frames go and come from.
pub trait Port {
    fn mac(&self) -> Mac;
    fn mtu(&self) -> usize;
    fn is_up(&self) -> bool;
    /// The next frame, and what the link knows of its sum of TCP or UDP.
    fn receive(&mut self) -> Option<(Vec<u8>, Sum)>;
    /// Send it with this done to it, which is nothing where [`Port::offers`] is none. False: there is no room now, and [`Port::pulse`] tells of some.
    fn send(&mut self, frame: &[u8], offload: &Offload) -> bool;
    fn pulse(&mut self, pulse: &Received);

    /// What may be left to it.
    fn offers(&self) -> Offers {
        Offers::default()
    }

    /// What a program writes and reads, if it is the other end.
    fn tunnel(&mut self) -> Option<&mut Queue> {
        None
    }
}

pub struct Ethernet<P> {
    port: P,
    neighbours: Neighbours<Packet>,
    neighbours6: Neighbours<Packet, Ip6>,
    autoconf: Autoconf,
    own6: BTreeSet<Ip6>,
    /// Packets in pieces, of IPv4 and of IPv6.
    fragments: Fragments,
    fragments6: Fragments,
    /// Of DHCP; none where a program is the other end, which gives addresses itself.
    client: Option<Client>,
    random: fn() -> u64,
    /// This machine's addresses on the link, with their prefixes' lengths; and the broadcast addresses of those.
    own: BTreeMap<Ip, u32>,
    all: BTreeSet<Ip>,
    /// The user wants it up; the longest packet.
    wanted: bool,
    mtu: usize,
    was_up: bool,
    backlog: VecDeque<(Vec<u8>, Offload)>,
    backlog_bytes: usize,
    /// What passed, and whom it was for; none while nobody captures. Frames for others are kept too.
    captured: Option<VecDeque<(u8, Vec<u8>)>>,
    captures_all: bool,
    /// Pieces are not put together here.
    passes: bool,
    changes: VecDeque<Change>,
    /// When the present request came.
    now: u64,
    /// How many frames may be taken in yet, before others have their turn.
    budget: usize,
}

impl<P: Port> Ethernet<P> {
    pub fn new(port: P, random: fn() -> u64) -> Ethernet<P> {
        Ethernet {
            neighbours: Neighbours::default(),
            neighbours6: Neighbours::default(),
            autoconf: {
                let mut autoconf = Autoconf::new(port.mac());
                if port.is_up() {
                    autoconf.start(0);
                }
                autoconf
            },
            own6: BTreeSet::new(),
            fragments: Fragments::new(PATIENCE_V4),
            fragments6: Fragments::new(PATIENCE_V6),
            client: Some(Client::new(port.mac(), 0)),
            random,
            own: BTreeMap::new(),
            all: BTreeSet::new(),
            wanted: true,
            mtu: port.mtu(),
            was_up: port.is_up(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            captured: None,
            captures_all: false,
            passes: false,
            changes: VecDeque::new(),
            now: 0,
            budget: ROUND,
            port,
        }
    }

    /// One that is down, and asks nobody for an address of IPv4.
    pub fn by_hand(port: P, random: fn() -> u64) -> Ethernet<P> {
        let mut device = Ethernet::new(port, random);
        (device.client, device.wanted, device.was_up) = (None, false, false);
        device.autoconf.stop();
        device
    }

    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    fn put(&mut self, frame: &[u8], offload: &Offload) {
        if self.captured.is_some() && self.keep(capture::OUTGOING, frame) {
            self.finish_kept(offload);
        }
        self.put_frame(frame, offload);
    }

    /// The frame that was kept last is seen with the sum that its link makes.
    fn finish_kept(&mut self, offload: &Offload) {
        let last = self.captured.as_mut().and_then(VecDeque::back_mut);
        let start = usize::from(offload.sum_start);
        let at = start + usize::from(offload.sum_at);
        let Some((_, frame)) = last.filter(|(_, frame)| offload.sum && at + 2 <= frame.len())
        else {
            return;
        };
        let sum = checksum(&frame[start..]);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn keep(&mut self, kind: u8, frame: &[u8]) -> bool {
        let Some(captured) = &mut self.captured else {
            return false;
        };
        let mut own = Vec::new();
        let room = captured.len() < CAPTURED && captured.try_reserve(1).is_ok();
        let kept = room && own.try_reserve_exact(frame.len()).is_ok();
        if kept {
            own.extend_from_slice(frame);
            captured.push_back((kind, own));
        }
        kept
    }

    /// A frame that comes, for this station or (false) for another one.
    fn keep_received(&mut self, frame: &[u8], ours: bool) {
        let kind = whom(frame, self.port.mac());
        if ours || self.captures_all {
            self.keep(kind, frame);
        }
    }

    fn put_frame(&mut self, frame: &[u8], offload: &Offload) {
        if self.backlog.is_empty() && self.port.send(frame, offload) {
            return;
        }
        let mut own = Vec::new();
        let few = self.backlog.len() < BACKLOG && self.backlog_bytes < BACKLOG_BYTES;
        let room = few && self.backlog.try_reserve(1).is_ok();
        if room && own.try_reserve_exact(frame.len()).is_ok() {
            own.extend_from_slice(frame);
            self.backlog_bytes += frame.len();
            self.backlog.push_back((own, *offload));
        }
    }

    fn put_backlog(&mut self) {
        while let Some((frame, offload)) = self.backlog.front() {
            if !self.port.send(frame, offload) {
                return;
            }
            self.backlog_bytes -= frame.len();
            self.backlog.pop_front();
        }
    }

    /// A packet for this station, in as many pieces as it takes.
    fn put_packet(&mut self, mut packet: Packet, to: Mac) {
        let mac = self.port.mac();
        let kind = match packet.bytes().first().map(|first| first >> 4) {
            Some(4) => Kind::Ipv4,
            _ => Kind::Ipv6,
        };
        let mtu = self.mtu.min(packet.mtu as usize);
        if packet.bytes().len() > mtu && packet.cut == 0 {
            // Of a packet in pieces no device makes the sum.
            packet.finish();
            let number = (self.random)() as u32;
            let put = |frame: &mut [u8]| {
                frame::write_header(frame, to, mac, kind);
                self.put(frame, &Offload::default());
            };
            match kind {
                Kind::Ipv4 => pieces::v4(packet.bytes(), mtu, HEADER, put),
                _ => pieces::v6(packet.bytes(), mtu, HEADER, number, put),
            }
            return;
        }
        let offload = self.leave(&mut packet);
        let whole = offload.cut == Cut::No;
        if packet.cut != 0 && (whole || usize::from(offload.headers + packet.cut) > HEADER + mtu) {
            // The link is another one than it was when this was made: the connection sends it again.
            return;
        }
        if let Some(header) = packet.prepend(HEADER) {
            frame::write_header(header, to, mac, kind);
            self.put(packet.bytes(), &offload);
        }
    }

    /// What is left to the link of a packet, and made here if the link does not.
    fn leave(&self, packet: &mut Packet) -> Offload {
        let place = match packet.sum == Sum::Missing && self.port.offers().sums {
            true => packet.sum_place(),
            false => None,
        };
        let Some((start, at)) = place.filter(|(start, at)| HEADER + start + at + 2 <= HEADERS)
        else {
            packet.finish();
            return Offload::default();
        };
        let mut offload = Offload {
            sum: true,
            sum_start: (HEADER + start) as u16,
            sum_at: at as u16,
            ..Offload::default()
        };
        if packet.cut != 0 {
            let v4 = packet.bytes()[0] >> 4 == 4;
            let length = packet.bytes().get(start + 12).map_or(0, |byte| byte >> 4);
            offload.cut = match v4 {
                true => Cut::Tcp4,
                false => Cut::Tcp6,
            };
            offload.segment = packet.cut;
            offload.headers = offload.sum_start + u16::from(length) * 4;
        }
        offload
    }

    fn ask(&mut self, ip: Ip, known: Option<Mac>) {
        // Of several addresses the nearest below it, which is of the same network if there is one.
        let nearest = self
            .own
            .range(..=ip)
            .next_back()
            .or(self.own.first_key_value());
        let sender = (self.port.mac(), nearest.map_or([0; 4], |own| *own.0));
        let question = Arp {
            request: true,
            sender,
            target: ([0; 6], ip),
        };
        self.put(&frame::arp(&question, known), &Offload::default());
    }

    fn arp_arrives(&mut self, bytes: &[u8]) {
        let Some(message) = frame::parse_arp(bytes) else {
            return;
        };
        let (mac, ip) = message.sender;
        // Who has this machine's own address is not asked about it.
        let foreign = !self.own.contains_key(&ip);
        let own = message.target.1;
        if foreign {
            for packet in self.neighbours.heard(self.now, ip, mac) {
                self.put_packet(packet, mac);
            }
        }
        if message.request && self.own.contains_key(&own) && foreign {
            let answer = Arp {
                request: false,
                sender: (self.port.mac(), own),
                target: message.sender,
            };
            self.put(&frame::arp(&answer, None), &Offload::default());
        }
    }

    /// The station's address, if it needs no asking.
    fn group(&self, to: &Address) -> Option<Mac> {
        let Some(ip) = to.as_v4() else {
            return to.is_multicast().then(|| frame::group_v6(to.0));
        };
        match to.is_multicast() {
            true => Some(frame::group_v4(ip)),
            false => (to.is_broadcast() || self.all.contains(&ip)).then_some(BROADCAST),
        }
    }

    fn dhcp_event(&mut self, event: Option<Event>) {
        let change = match event {
            Some(Event::Configured(lease)) => Change::Configured(lease),
            Some(Event::Lost) => Change::Lost,
            None => return,
        };
        self.changes.push_back(change);
    }

    fn send_dhcp(&mut self, message: &dhcp::Message) {
        let to = message.destination.unwrap_or([255; 4]);
        let header = Header {
            source: Address::v4(message.source.unwrap_or([0; 4])),
            destination: Address::v4(to),
            protocol: protocol::UDP,
            ttl: 64,
            ..Header::default()
        };
        let length = 8 + message.bytes.len();
        let Some(mut packet) = Packet::new(&header, length, self.now as u16) else {
            return;
        };
        // Without a checksum (RFC 768), which IP's own header and DHCP's number make up for.
        let [a, b] = (length as u16).to_be_bytes();
        let ([c, d], [e, f]) = (
            dhcp::CLIENT_PORT.to_be_bytes(),
            dhcp::SERVER_PORT.to_be_bytes(),
        );
        packet.push(&[c, d, e, f, a, b, 0, 0]);
        packet.push(&message.bytes);
        match message.destination {
            None => self.put_packet(packet, BROADCAST),
            Some(ip) => self.send_to_neighbour(packet, ip),
        }
    }

    fn send_to_neighbour(&mut self, packet: Packet, ip: Ip) {
        match self.neighbours.send(self.now, ip, packet) {
            Next::Send { to, packet, ask } => {
                self.put_packet(packet, to);
                if ask {
                    self.ask(ip, Some(to));
                }
            }
            Next::Wait { ask: true } => self.ask(ip, None),
            Next::Wait { ask: false } | Next::Drop(_) => {}
        }
    }

    fn missing(&mut self, packets: Vec<Packet>) {
        if self.changes.try_reserve(packets.len()).is_ok() {
            self.changes
                .extend(packets.into_iter().map(Change::Unreachable));
        }
    }

    // ---- IPv6

    fn send_to_neighbour6(&mut self, packet: Packet, ip: Ip6) {
        match self.neighbours6.send(self.now, ip, packet) {
            Next::Send { to, packet, ask } => {
                self.put_packet(packet, to);
                if ask {
                    self.ask6(ip, Some(to));
                }
            }
            Next::Wait { ask: true } => self.ask6(ip, None),
            Next::Wait { ask: false } | Next::Drop(_) => {}
        }
    }

    fn ask6(&mut self, ip: Ip6, known: Option<Mac>) {
        let nearest = self.own6.range(..=ip).next_back().or(self.own6.first());
        let Some(source) = nearest.copied() else {
            return;
        };
        let to = known.map(|_| ip);
        let question = Message::solicitation(source, ip, to, self.port.mac());
        self.put_message(&question, known);
    }

    /// A message of ICMPv6, to this station, or to whom its destination means.
    fn put_message(&mut self, message: &Message, to: Option<Mac>) {
        let header = Header {
            source: Address(message.source),
            destination: Address(message.destination),
            protocol: protocol::ICMP_V6,
            ttl: 255,
            ..Header::default()
        };
        let Some(mut packet) = Packet::new(&header, message.length, 0) else {
            return;
        };
        let body = packet.extend(message.length);
        body.copy_from_slice(message.body());
        let sum = crate::packet::checksum(&header, body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        match to.or_else(|| self.group(&header.destination)) {
            Some(mac) => self.put_packet(packet, mac),
            None => self.send_to_neighbour6(packet, message.destination),
        }
    }

    /// This machine is to have an address, and listens to the group for it (RFC 3810): one record of MLDv2, to all routers that care, behind a header that
    /// tells them to look. Once it has the address it is told of as all groups are ([`crate::groups`]).
    fn put_report(&mut self, group: Ip6) {
        const ALERT: [u8; 8] = [protocol::ICMP_V6, 0, 5, 2, 0, 0, 1, 0];
        const REPORT: usize = 28;
        let near = autoconf::is_link_local;
        let source = self.own6.iter().find(|own| near(own)).copied();
        let header = Header {
            source: Address(source.unwrap_or_default()),
            destination: Address(LISTENERS),
            ttl: 1,
            ..Header::default()
        };
        let Some(mut packet) = Packet::new(&header, ALERT.len() + REPORT, 0) else {
            return;
        };
        let mut body = [0; REPORT];
        // Change to exclude none.
        (body[0], body[7], body[8]) = (143, 1, 4);
        body[12..].copy_from_slice(&group);
        let header = Header {
            protocol: protocol::ICMP_V6,
            ..header
        };
        let sum = crate::packet::checksum(&header, &body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.push(&ALERT);
        packet.push(&body);
        self.put_packet(packet, frame::group_v6(LISTENERS));
    }

    fn look_at_autoconf(&mut self) {
        while let Some(message) = self.autoconf.messages.pop_front() {
            // (A question from nobody is about an address that is new.)
            if message.source == Ip6::default() {
                self.put_report(message.destination);
            }
            self.put_message(&message, None);
        }
        while let Some(event) = self.autoconf.events.pop_front() {
            if self.changes.try_reserve(1).is_ok() {
                self.changes.push_back(Change::Found(event));
            }
        }
    }

    /// Messages about neighbours and routers end here. False: it is none of them.
    fn discovery(&mut self, packet: &[u8], from: Mac) -> bool {
        let Some((head, rest)) = packet.split_first_chunk::<IPV6>() else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let (Some(body), 6) = (rest.get(..length), head[0] >> 4) else {
            return false;
        };
        let address = |at: usize| head[at..].first_chunk::<16>().copied().unwrap_or_default();
        let (source, destination) = (address(8), address(24));
        let kind = match (head[6], body.first()) {
            (protocol::ICMP_V6, Some(kind @ 133..=137)) => *kind,
            _ => return false,
        };
        let header = Header {
            source: Address(source),
            destination: Address(destination),
            protocol: protocol::ICMP_V6,
            ..Header::default()
        };
        // From elsewhere it would have a smaller limit.
        let right = head[7] == 255 && body.len() >= 24 || kind == kind::ROUTER_ADVERTISEMENT;
        let sum = || crate::packet::checksum(&header, body);
        if !right || head[7] != 255 || body.len() < 16 || body[1] != 0 || sum() != 0 {
            return true;
        }
        let target = body.get(8..24).and_then(|bytes| bytes.first_chunk::<16>());
        match (kind, target) {
            (kind::ROUTER_ADVERTISEMENT, _) => {
                if let Some(mac) = autoconf::hardware_in(&body[16..], 1) {
                    self.heard6(source, mac);
                }
                self.autoconf.announced(self.now, &source, body);
                self.autoconf.due(self.now);
            }
            (kind::SOLICITATION, Some(target)) => self.solicited(source, target, &body[24..], from),
            (kind::ADVERTISEMENT, Some(target)) => {
                self.autoconf.claimed(target);
                if let Some(mac) = autoconf::hardware_in(&body[24..], 2) {
                    self.heard6(*target, mac);
                }
            }
            _ => {}
        }
        true
    }

    fn heard6(&mut self, ip: Ip6, mac: Mac) {
        if self.own6.contains(&ip) {
            return;
        }
        for packet in self.neighbours6.heard(self.now, ip, mac) {
            self.put_packet(packet, mac);
        }
    }

    /// Somebody asks for an address, or (from nobody) would like to have it.
    fn solicited(&mut self, source: Ip6, target: &Ip6, options: &[u8], from: Mac) {
        let nobody = source == Ip6::default();
        if nobody && from != self.port.mac() {
            self.autoconf.claimed(target);
        }
        let mac = autoconf::hardware_in(options, 1).filter(|_| !nobody);
        if let Some(mac) = mac {
            self.heard6(source, mac);
        }
        if !self.own6.contains(target) || self.own6.contains(&source) {
            return;
        }
        let to = (!nobody).then_some(source);
        let answer = Message::advertisement(*target, to, self.port.mac());
        self.put_message(&answer, mac.or(to.map(|_| from)));
    }

    fn look_at_carrier(&mut self) {
        let up = self.is_up();
        if up && !self.was_up {
            if let Some(client) = &mut self.client {
                client.carrier(self.now);
            }
            self.autoconf.start(self.now);
        }
        self.was_up = up;
    }
}

impl<P: Port> Device for Ethernet<P> {
    fn send(&mut self, cx: &mut Context, packet: Packet, next_hop: Address) {
        self.now = cx.transport.monotonic() / 1000;
        match (self.group(&next_hop), next_hop.as_v4()) {
            (Some(mac), _) => self.put_packet(packet, mac),
            (None, Some(ip)) => self.send_to_neighbour(packet, ip),
            (None, None) => self.send_to_neighbour6(packet, next_hop.0),
        }
    }

    fn receive(&mut self, _: &mut Context, now: Time) -> Option<Packet> {
        self.now = now.0;
        while self.budget > 0 {
            let (mut bytes, sum) = self.port.receive()?;
            self.budget -= 1;
            let Some((to, from, kind)) = frame::parse(&bytes) else {
                continue;
            };
            let ours = frame::is_for(to, self.port.mac());
            let group = to[0] & 1 != 0;
            if self.wanted && self.captured.is_some() {
                self.keep_received(&bytes, ours);
            }
            if !self.wanted || !ours {
                continue;
            }
            match kind {
                Kind::Arp => self.arp_arrives(&bytes[HEADER..]),
                Kind::Ipv4 | Kind::Ipv6 if self.passes && is_piece(&bytes[HEADER..]) => {
                    let mut packet = Packet::received(bytes, HEADER);
                    packet.group = group;
                    return Some(packet);
                }
                Kind::Ipv6 => {
                    let mut joined = false;
                    let mut start = HEADER;
                    match self.fragments6.arrives_v6(self.now, &bytes[HEADER..]) {
                        // (What comes in pieces is none of these: RFC 6980.)
                        Outcome::Whole if self.discovery(&bytes[HEADER..], from) => {
                            self.look_at_autoconf();
                            continue;
                        }
                        Outcome::Whole => {}
                        Outcome::Kept => continue,
                        Outcome::Complete(whole) => (bytes, start, joined) = (whole, 0, true),
                    }
                    let mut packet = Packet::received(bytes, start);
                    (packet.joined, packet.group) = (joined, group);
                    // (Of what was put together no link has seen the whole.)
                    packet.sum = if joined { Sum::Made } else { sum };
                    return Some(packet);
                }
                Kind::Ipv4 => {
                    let mut joined = false;
                    let mut start = HEADER;
                    match self.fragments.arrives(self.now, &bytes[HEADER..]) {
                        Outcome::Whole => {}
                        Outcome::Kept => continue,
                        Outcome::Complete(whole) => (bytes, start, joined) = (whole, 0, true),
                    }
                    if let Some(client) = &mut self.client {
                        if let Some(message) = for_dhcp(&bytes[start..]) {
                            let event = client.arrives(self.now, message);
                            self.dhcp_event(event);
                            continue;
                        }
                    }
                    let mut packet = Packet::received(bytes, start);
                    (packet.joined, packet.group) = (joined, group);
                    // (Of what was put together no link has seen the whole.)
                    packet.sum = if joined { Sum::Made } else { sum };
                    return Some(packet);
                }
            }
        }
        None
    }

    fn offers(&self) -> Offers {
        self.port.offers()
    }

    fn pass_pieces(&mut self, on: bool) {
        self.passes = on;
    }

    fn pulse(&mut self, pulse: &Received) {
        self.budget = ROUND;
        self.port.pulse(pulse);
        self.put_backlog();
        self.look_at_carrier();
    }

    fn time_passes(&mut self, _: &mut Context, now: Time) {
        (self.now, self.budget) = (now.0, ROUND);
        while let Some(due) = self.neighbours.due(self.now) {
            match due {
                Due::Ask(ip, known) => self.ask(ip, known),
                Due::Unreachable(_, packets) => self.missing(packets),
            }
        }
        while let Some(due) = self.neighbours6.due(self.now) {
            match due {
                Due::Ask(ip, known) => self.ask6(ip, known),
                Due::Unreachable(_, packets) => self.missing(packets),
            }
        }
        for fragments in [&mut self.fragments, &mut self.fragments6] {
            fragments.time_passes(self.now);
            let late = fragments.late.drain(..);
            if self.changes.try_reserve(late.len()).is_ok() {
                self.changes.extend(late.map(Change::Late));
            }
        }
        if self.is_up() {
            self.autoconf.due(self.now);
            self.look_at_autoconf();
        }
        let up = self.is_up();
        if let Some(client) = self.client.as_mut().filter(|_| up) {
            let random = (self.random)() as u32;
            let (message, event) = client.due(self.now, random);
            self.dhcp_event(event);
            if let Some(message) = message {
                self.send_dhcp(&message);
            }
        }
        self.put_backlog();
    }

    fn deadline(&self) -> Time {
        if self.budget == 0 {
            // There may be more, of which nothing tells; and not within this look.
            return Time(self.now + 1);
        }
        let client = match self.is_up() {
            true => {
                let client = self.client.as_ref().map_or(NEVER, Client::deadline);
                client.min(self.autoconf.deadline())
            }
            false => NEVER,
        };
        let first = self
            .neighbours
            .deadline()
            .min(self.neighbours6.deadline())
            .min(self.fragments.deadline())
            .min(self.fragments6.deadline())
            .min(client);
        Time(first)
    }

    fn capture(&mut self, on: bool, all: bool) {
        self.captures_all = all;
        match on {
            true => _ = self.captured.get_or_insert_default(),
            false => self.captured = None,
        }
    }

    fn captured(&mut self) -> Option<(u8, Vec<u8>)> {
        self.captured.as_mut()?.pop_front()
    }

    fn send_frame(&mut self, frame: &[u8]) {
        self.put_frame(frame, &Offload::default());
    }

    fn hardware_address(&self) -> [u8; 6] {
        self.port.mac()
    }

    fn tunnel(&mut self) -> Option<&mut Queue> {
        // Who writes a frame has it taken in with the same request.
        self.budget = ROUND;
        self.port.tunnel()
    }

    fn change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    fn is_up(&self) -> bool {
        self.wanted && self.port.is_up()
    }

    fn set_up(&mut self, up: bool) {
        self.wanted = up;
        self.look_at_carrier();
        if !up {
            self.autoconf.stop();
            self.look_at_autoconf();
        }
    }

    fn most(&self) -> u32 {
        self.port.mtu() as u32
    }

    fn set_mtu(&mut self, mtu: u32) {
        self.mtu = (mtu as usize).clamp(68, self.port.mtu());
    }

    fn addresses(&mut self, own: &[Own]) {
        self.own.clear();
        self.all.clear();
        self.own6.clear();
        for of in own {
            if let Some(ip) = of.address.as_v4() {
                self.own.insert(ip, of.bits);
            } else {
                self.own6.insert(of.address.0);
            }
            if let Some(ip) = of.broadcast.and_then(|all| all.as_v4()) {
                self.all.insert(ip);
            }
        }
    }

    fn neighbour(&self, at: usize) -> Option<Neighbour> {
        if let Some((ip, standing)) = self.neighbours.nth(self.now, at) {
            return Some(described(Address::v4(ip), standing));
        }
        let at = at.checked_sub(self.neighbours.len())?;
        let (ip, standing) = self.neighbours6.nth(self.now, at)?;
        Some(described(Address(ip), standing))
    }

    fn neighbour_of(&self, address: &Address) -> Option<Neighbour> {
        let standing = match address.as_v4() {
            Some(ip) => self.neighbours.get(self.now, ip),
            None => self.neighbours6.get(self.now, address.0),
        };
        Some(described(*address, standing?))
    }

    fn set_neighbour(&mut self, address: &Address, mac: Option<Mac>) -> bool {
        let Some(mac) = mac else {
            match address.as_v4() {
                Some(ip) => self.neighbours.forget(ip),
                None => self.neighbours6.forget(address.0),
            }
            return true;
        };
        let waited = match address.as_v4() {
            Some(ip) => self.neighbours.fix(ip, mac),
            None => self.neighbours6.fix(address.0, mac),
        };
        let Some(waited) = waited else {
            return false;
        };
        for packet in waited {
            self.put_packet(packet, mac);
        }
        true
    }
}

/// A neighbour as rtnetlink(7) has it: NUD_INCOMPLETE, REACHABLE, STALE, PROBE, PERMANENT.
fn described(address: Address, standing: Standing) -> Neighbour {
    let (state, mac) = match standing {
        Standing::Unknown => (1, None),
        Standing::Fresh(mac) => (2, Some(mac)),
        Standing::Stale(mac) => (4, Some(mac)),
        Standing::Asked(mac) => (0x10, Some(mac)),
        Standing::Fixed(mac) => (0x80, Some(mac)),
    };
    Neighbour {
        address,
        mac,
        state,
    }
}
