//! The devices under TUN and TAP: [`Tun`] takes packets of IP, [`Tap`] is a port of Ethernet. What they send waits in a [`Queue`] until the program reads it.

use crate::address::Address;
use crate::capture::{kind, HEADER};
use crate::forward::is_piece;
use crate::interface::Device;
use crate::link::ethernet::Port;
use crate::link::{pieces, Change};
use crate::packet::{Packet, Sum};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_ethernet::fragments::{Fragments, Outcome, PATIENCE_V4, PATIENCE_V6};
use cairn_ethernet::Mac;
use cairn_link::Offload;
use cairn_resmgr::Context;
use cairn_rt::Received;
use cairn_tcp::time::Time;

/// Most packets that wait for the program, as Linux has it for either, and most bytes of them.
pub const TUN_PACKETS: usize = 500;
pub const TAP_PACKETS: usize = 1000;
pub const BYTES: usize = 4 << 20;
/// What a packet costs beside its bytes.
const OVERHEAD: usize = 64;
/// Packets that are kept for who captures: more than one request brings.
const CAPTURED: usize = 512;
/// The longest packet, and the longest payload of a frame.
pub const MOST: usize = 65_535;
pub const MOST_OF_FRAME: usize = MOST - HEADER;

/// Protocols, as frames and `struct tun_pi` have them.
pub const PROTOCOL_V4: u16 = 0x800;
pub const PROTOCOL_V6: u16 = 0x86dd;

/// The protocol that a packet's first bits say.
pub fn protocol_of(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 => Some(PROTOCOL_V4),
        6 => Some(PROTOCOL_V6),
        _ => None,
    }
}

/// What lies between a device and the program that is its other end.
#[derive(Default)]
pub struct Queue {
    packets: VecDeque<Vec<u8>>,
    /// Most packets; none while no program has the other end.
    most: usize,
    bytes: usize,
    /// How many of them are on the program's account. What is more came since it was looked at.
    pub charged: usize,
    /// What was lost since it was looked at.
    pub dropped: u64,
    /// What the program has written, on its way in, and its protocol.
    given: Option<(u16, Vec<u8>)>,
}

fn cost(packet: &[u8]) -> usize {
    packet.len() + OVERHEAD
}

impl Queue {
    pub fn is_attached(&self) -> bool {
        self.most != 0
    }

    /// A program has the other end from now on, or (0) none.
    pub fn attach(&mut self, most: usize) {
        self.most = most;
        (self.packets, self.bytes) = (VecDeque::new(), 0);
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// What it costs to keep what waits.
    pub fn cost(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, packet: &[u8]) {
        let cost = cost(packet);
        let full = self.packets.len() >= self.most || self.bytes + cost > BYTES;
        let mut own = Vec::new();
        if full
            || self.packets.try_reserve(1).is_err()
            || own.try_reserve_exact(packet.len()).is_err()
        {
            self.dropped += 1;
            return;
        }
        own.extend_from_slice(packet);
        self.bytes += cost;
        self.packets.push_back(own);
    }

    /// The next packet that the program reads.
    pub fn first(&self) -> Option<&[u8]> {
        self.packets.front().map(|packet| &packet[..])
    }

    /// It has read it.
    pub fn pop(&mut self) {
        if let Some(packet) = self.packets.pop_front() {
            self.bytes -= cost(&packet);
        }
    }

    /// The one that came last is lost: nobody pays for it.
    pub fn drop_last(&mut self) {
        if let Some(packet) = self.packets.pop_back() {
            self.bytes -= cost(&packet);
            self.dropped += 1;
        }
    }

    /// The program has written this.
    pub fn give(&mut self, protocol: u16, bytes: Vec<u8>) {
        self.given = Some((protocol, bytes));
    }
}

/// A device without a link's header: whom a packet is for, its own says.
pub struct Tun {
    queue: Queue,
    fragments: Fragments,
    fragments6: Fragments,
    mtu: usize,
    up: bool,
    random: fn() -> u64,
    /// What passed, with a header that says its protocol; none while nobody captures.
    captured: Option<VecDeque<(u8, Vec<u8>)>>,
    /// Pieces are not put together here.
    passes: bool,
    late: VecDeque<Vec<u8>>,
}

impl Tun {
    pub fn new(random: fn() -> u64) -> Tun {
        Tun {
            queue: Queue::default(),
            fragments: Fragments::new(PATIENCE_V4),
            fragments6: Fragments::new(PATIENCE_V6),
            mtu: 1500,
            up: false,
            random,
            captured: None,
            passes: false,
            late: VecDeque::new(),
        }
    }

    fn keep(&mut self, kind: u8, protocol: u16, packet: &[u8]) {
        let Some(captured) = &mut self.captured else {
            return;
        };
        let mut frame = Vec::new();
        let room = captured.len() < CAPTURED && captured.try_reserve(1).is_ok();
        if room && frame.try_reserve_exact(HEADER + packet.len()).is_ok() {
            frame.resize(HEADER, 0);
            frame[12..].copy_from_slice(&protocol.to_be_bytes());
            frame.extend_from_slice(packet);
            captured.push_back((kind, frame));
        }
    }

    fn put(&mut self, packet: &[u8]) {
        if let (true, Some(protocol)) = (self.captured.is_some(), protocol_of(packet)) {
            self.keep(kind::OUTGOING, protocol, packet);
        }
        self.queue.push(packet);
    }
}

impl Device for Tun {
    fn send(&mut self, _: &mut Context, mut packet: Packet, _: Address) {
        packet.finish();
        let mtu = self.mtu.min(packet.mtu as usize);
        let bytes = packet.bytes();
        if bytes.len() <= mtu {
            return self.put(bytes);
        }
        let number = (self.random)() as u32;
        match protocol_of(bytes) {
            Some(PROTOCOL_V6) => pieces::v6(bytes, mtu, 0, number, |piece| self.put(piece)),
            _ => pieces::v4(bytes, mtu, 0, |piece| self.put(piece)),
        }
    }

    fn receive(&mut self, _: &mut Context, now: Time) -> Option<Packet> {
        let (protocol, bytes) = self.queue.given.take()?;
        self.keep(kind::HOST, protocol, &bytes);
        let outcome = match protocol {
            // Who says one protocol and writes another is not understood.
            _ if protocol_of(&bytes) != Some(protocol) => return None,
            _ if self.passes && is_piece(&bytes) => Outcome::Whole,
            PROTOCOL_V4 => self.fragments.arrives(now.0, &bytes),
            _ => self.fragments6.arrives_v6(now.0, &bytes),
        };
        match outcome {
            Outcome::Whole => Some(Packet::received(bytes, 0)),
            Outcome::Complete(whole) => Some(Packet::joined(whole)),
            Outcome::Kept => None,
        }
    }

    fn pass_pieces(&mut self, on: bool) {
        self.passes = on;
    }

    fn time_passes(&mut self, _: &mut Context, now: Time) {
        for fragments in [&mut self.fragments, &mut self.fragments6] {
            fragments.time_passes(now.0);
            let late = fragments.late.drain(..);
            if self.late.try_reserve(late.len()).is_ok() {
                self.late.extend(late);
            }
        }
    }

    fn deadline(&self) -> Time {
        Time(self.fragments.deadline().min(self.fragments6.deadline()))
    }

    fn change(&mut self) -> Option<Change> {
        self.late.pop_front().map(Change::Late)
    }

    fn is_up(&self) -> bool {
        self.up && self.queue.is_attached()
    }

    fn set_up(&mut self, up: bool) {
        self.up = up;
    }

    fn most(&self) -> u32 {
        MOST as u32
    }

    fn set_mtu(&mut self, mtu: u32) {
        self.mtu = (mtu as usize).clamp(68, MOST);
    }

    fn capture(&mut self, on: bool, _: bool) {
        match on {
            true => _ = self.captured.get_or_insert_default(),
            false => self.captured = None,
        }
    }

    fn captured(&mut self) -> Option<(u8, Vec<u8>)> {
        self.captured.as_mut()?.pop_front()
    }

    /// (What a program of AF_PACKET sends has the header that [`Tun::keep`] makes.)
    fn send_frame(&mut self, frame: &[u8]) {
        if let Some(packet) = frame.get(HEADER..) {
            self.queue.push(packet);
        }
    }

    fn tunnel(&mut self) -> Option<&mut Queue> {
        Some(&mut self.queue)
    }
}

/// The port of a link of Ethernet whose other end is a program.
pub struct Tap {
    mac: Mac,
    queue: Queue,
}

impl Tap {
    pub fn new(mac: Mac) -> Tap {
        Tap {
            mac,
            queue: Queue::default(),
        }
    }
}

impl Port for Tap {
    fn mac(&self) -> Mac {
        self.mac
    }

    fn mtu(&self) -> usize {
        MOST_OF_FRAME
    }

    fn is_up(&self) -> bool {
        self.queue.is_attached()
    }

    fn receive(&mut self) -> Option<(Vec<u8>, Sum)> {
        let (_, frame) = self.queue.given.take()?;
        Some((frame, Sum::Made))
    }

    fn send(&mut self, frame: &[u8], _: &Offload) -> bool {
        self.queue.push(frame);
        true
    }

    fn pulse(&mut self, _: &Received) {}

    fn tunnel(&mut self) -> Option<&mut Queue> {
        Some(&mut self.queue)
    }
}
