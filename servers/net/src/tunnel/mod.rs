//! TUN and TAP: `/dev/net/tun`, by which a program is the other end of an interface (Linux's Documentation/networking/tuntap.rst).
//!
//! * [`device`] what is under the interface; here are the file, its requests, and who may have which interface.
//!
//! What always holds: an interface has one file at most, and goes with it unless it is to stay (TUNSETPERSIST). What waits to be read is bounded, and on the
//! account of who opened the file; what is too much is lost and counted. What a program writes is a packet from elsewhere: it is not believed.

pub mod device;
#[cfg(test)]
pub(crate) mod tests;

use crate::interface::{flag, ETHERNET, NO_HARDWARE};
use crate::link::ethernet::Ethernet;
use crate::server::{fail, Net};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_idl::fs::poll;
use cairn_resmgr::permission::in_groups;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Failure};
use cairn_rt::channel::Reply;
use device::{Queue, Tap, Tun};

/// Major and minor number of the device.
pub const DEVICE: (u32, u32) = (10, 200);
/// Most interfaces: they are walked.
const MOST: usize = 128;
/// What is asked of memory for an open file, and for an interface.
const FILE_COST: usize = 256;
const COST: usize = 4096;
const MTU: u32 = 1500;
/// Bytes of `struct ifreq`, of its name, and of `struct tun_pi`.
const REQUEST: usize = 40;
const NAME: usize = 16;
const INFORMATION: usize = 4;
/// TUN_PKT_STRIP: the packet was cut.
const CUT: u16 = 1;

/// Flags of `ifr_flags`.
mod iff {
    pub const TUN: u16 = 1;
    pub const TAP: u16 = 2;
    /// No `struct tun_pi` is in front of a packet.
    pub const NO_INFORMATION: u16 = 0x1000;
    pub const ONE_QUEUE: u16 = 0x2000;
    pub const PERSIST: u16 = 0x800;
    /// It must not exist yet.
    pub const EXCL: u16 = 0x8000;
    /// NAPI and NAPI_FRAGS, NO_CARRIER, MULTI_QUEUE, VNET_HDR: what they ask for is not here.
    pub const MISSING: u16 = 0x10 | 0x20 | 0x40 | 0x100 | 0x4000;
    /// What every TUNSETIFF sets anew.
    pub const FEATURES: u16 = NO_INFORMATION | ONE_QUEUE;
}

const TUNSETNOCSUM: u64 = 0x4004_54c8;
const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETPERSIST: u64 = 0x4004_54cb;
const TUNSETOWNER: u64 = 0x4004_54cc;
const TUNSETLINK: u64 = 0x4004_54cd;
const TUNSETGROUP: u64 = 0x4004_54ce;
const TUNGETFEATURES: u64 = 0x8004_54cf;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNGETIFF: u64 = 0x8004_54d2;
const SIOCGIFHWADDR: u64 = 0x8927;

/// What an interface is beyond others.
pub struct Tunnel {
    /// [`iff`] bits.
    flags: u16,
    /// Who may have it beside who has CAP_NET_ADMIN.
    owner: Option<u32>,
    group: Option<u32>,
    /// Who has it.
    file: Option<u32>,
    /// ARPHRD_.
    pub hardware: u16,
    /// Whose account it is on.
    payer: u32,
}

impl Tunnel {
    pub fn is_tap(&self) -> bool {
        self.flags & iff::TAP != 0
    }

    fn is_persistent(&self) -> bool {
        self.flags & iff::PERSIST != 0
    }

    fn has_information(&self) -> bool {
        self.flags & iff::NO_INFORMATION == 0
    }

    /// Most packets that wait to be read.
    fn most(&self) -> usize {
        match self.is_tap() {
            true => device::TAP_PACKETS,
            false => device::TUN_PACKETS,
        }
    }

    /// As /sys/class/net has it: its flags, owner and group (-1: none).
    pub fn told(&self) -> (u16, i64, i64) {
        let id = |id: Option<u32>| id.map_or(-1, i64::from);
        (self.flags, id(self.owner), id(self.group))
    }

    /// IFLA_LINKINFO: its kind, its owner and group, and its flags, one by one.
    pub fn described(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let number = |to: &mut Vec<u8>, kind: u16, value: u32| {
            to.extend_from_slice(&8u16.to_ne_bytes());
            to.extend_from_slice(&kind.to_ne_bytes());
            to.extend_from_slice(&value.to_ne_bytes());
        };
        for (kind, id) in [(1, self.owner), (2, self.group)] {
            if let Some(id) = id {
                number(&mut data, kind, id);
            }
        }
        let kind = (self.flags & (iff::TUN | iff::TAP)) as u8;
        let bits = [
            (3, kind),
            (4, self.has_information().into()),
            (5, 0),
            (6, self.is_persistent().into()),
            (7, 0),
        ];
        for (kind, value) in bits {
            data.extend_from_slice(&5u16.to_ne_bytes());
            data.extend_from_slice(&u16::to_ne_bytes(kind));
            data.extend_from_slice(&[value, 0, 0, 0]);
        }
        let mut whole = Vec::from(*b"\x08\0\x01\0tun\0");
        whole.extend_from_slice(&(4 + data.len() as u16).to_ne_bytes());
        whole.extend_from_slice(&2u16.to_ne_bytes());
        whole.extend_from_slice(&data);
        whole
    }
}

/// An open file that has, or had, an interface.
pub struct File {
    interface: Option<u32>,
    payer: u32,
    /// Of its handle.
    badge: u64,
}

/// Low bit of keys: there may be something to read; it may be written.
const READABLE: u64 = 0;
const WRITABLE: u64 = 1;

/// A key of a file, by its handle's badge: none of a socket is as high.
fn key(badge: u64, what: u64) -> u64 {
    1 << 63 | badge << 1 | what
}

/// May an interface be called so (`dev_valid_name` of Linux)?
fn is_valid(name: &[u8]) -> bool {
    let odd = |byte: &u8| matches!(byte, b'/' | b':' | b' ' | b'\t'..=b'\r' | 0xa0);
    !name.is_empty() && name.len() < NAME && name != b"." && name != b".." && !name.iter().any(odd)
}

impl Net {
    /// The record of a file that is about to have its first interface.
    fn record(&mut self, cx: &mut Context) -> Answer<u32> {
        let payer = cx.payer();
        cx.charge(payer, FILE_COST)?;
        let file = File {
            interface: None,
            payer,
            badge: cx.request.badge,
        };
        match self.tunnels.insert(file) {
            Some(index) => Ok(index),
            None => {
                cx.refund(payer, FILE_COST);
                fail(ENOMEM)
            }
        }
    }

    /// Nobody has the file any more: its interface goes, or waits for another.
    pub(crate) fn close_tunnel(&mut self, cx: &mut Context, index: u32) {
        let Some(file) = self.tunnels.get(index) else {
            return;
        };
        let (interface, payer) = (file.interface, file.payer);
        self.now(cx);
        if let Some(number) = interface {
            match self.tunnel(number).is_some_and(|of| of.is_persistent()) {
                true => self.let_go(cx, number),
                false => self.end_tunnel(cx, number),
            }
        }
        self.tunnels.remove(index);
        cx.refund(payer, FILE_COST);
    }

    /// The interface is removed, whoever has it.
    pub(crate) fn end_tunnel(&mut self, cx: &mut Context, number: u32) {
        self.let_go(cx, number);
        let Some(payer) = self.tunnel(number).map(|of| of.payer) else {
            return;
        };
        self.detach(cx, number);
        cx.refund(payer, COST);
    }

    /// Its file has it no longer.
    fn let_go(&mut self, cx: &mut Context, number: u32) {
        let Some(index) = self.tunnel(number).and_then(|of| of.file.take()) else {
            return;
        };
        if let Some(queue) = self.queue(number) {
            queue.attach(0);
        }
        if let Some(file) = self.tunnels.get_mut(index) {
            file.interface = None;
            let (payer, badge) = (file.payer, file.badge);
            self.settle_queue(cx, number, payer);
            cx.wake(key(badge, READABLE));
            cx.wake(key(badge, WRITABLE));
        }
        self.carrier_changed(cx, number);
    }

    fn tunnel(&mut self, number: u32) -> Option<&mut Tunnel> {
        self.interfaces.get_mut(number)?.tunnel.as_mut()
    }

    fn queue(&mut self, number: u32) -> Option<&mut Queue> {
        self.device(number)?.tunnel()
    }

    /// A file has the interface, or has it no longer.
    fn carrier_changed(&mut self, cx: &mut Context, number: u32) {
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        let up = interface.flags & flag::UP != 0;
        if let Some(device) = interface.device() {
            device.set_up(up);
        }
        self.look_at_carrier(cx, number);
    }

    /// What waits to be read is more or less than is on an account.
    fn settle_queue(&mut self, cx: &mut Context, number: u32, payer: u32) {
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        let Some(queue) = interface.device().and_then(|device| device.tunnel()) else {
            return;
        };
        while queue.cost() > queue.charged {
            let more = queue.cost() - queue.charged;
            match cx.charge(payer, more) {
                Ok(()) => queue.charged += more,
                Err(_) => queue.drop_last(),
            }
        }
        let less = queue.charged - queue.cost();
        cx.refund(payer, less);
        queue.charged -= less;
        let dropped = core::mem::take(&mut queue.dropped);
        interface.sent.dropped += dropped;
    }

    /// The interface may have sent something: it is paid for, and who reads is woken.
    pub(crate) fn look_at_queue(&mut self, cx: &mut Context, number: u32) {
        let Some(index) = self.tunnel(number).map(|of| of.file) else {
            return;
        };
        let file = index.and_then(|index| self.tunnels.get(index));
        // (Without a file nothing is kept, so that nothing is paid.)
        let (payer, badge) = file.map_or((0, None), |of| (of.payer, Some(of.badge)));
        self.settle_queue(cx, number, payer);
        let waits = self.queue(number).is_some_and(|queue| !queue.is_empty());
        if let Some(badge) = badge.filter(|_| waits) {
            cx.wake(key(badge, READABLE));
        }
    }

    /// It went up or down.
    pub(crate) fn wake_writer(&mut self, cx: &mut Context, number: u32) {
        let index = self.tunnel(number).and_then(|of| of.file);
        if let Some(file) = index.and_then(|index| self.tunnels.get(index)) {
            cx.wake(key(file.badge, WRITABLE));
        }
    }

    /// The interface of a file.
    fn interface_of(&self, file: Option<u32>) -> Answer<u32> {
        let file = file.and_then(|index| self.tunnels.get(index));
        file.and_then(|file| file.interface)
            .ok_or(Failure::Errno(EBADFD))
    }

    // ---- packets

    /// The next packet, cut to what there is room for.
    pub(crate) fn read_tunnel(
        &mut self,
        cx: &mut Context,
        file: Option<u32>,
        length: usize,
    ) -> Answer<Data<'static>> {
        let number = self.interface_of(file)?;
        if length == 0 {
            return Ok(Data::default());
        }
        let tunnel = self.tunnel(number).ok_or(Failure::Errno(EBADFD))?;
        let (informs, tap) = (tunnel.has_information(), tunnel.is_tap());
        let queue = self.queue(number).ok_or(Failure::Errno(EBADFD))?;
        let Some(packet) = queue.first() else {
            return Err(Failure::Wait(key(cx.request.badge, READABLE)));
        };
        let whole = packet.len();
        let front = if informs { INFORMATION } else { 0 };
        let count = whole.min(length.saturating_sub(front));
        // It is stored before it is taken: a request whose memory was not there comes once more.
        if informs && length >= front {
            let protocol = match tap {
                true => packet
                    .get(12..14)
                    .map(|of| u16::from_be_bytes([of[0], of[1]])),
                false => device::protocol_of(packet),
            };
            let cut = if count < whole { CUT } else { 0 };
            let [a, b] = cut.to_ne_bytes();
            let [c, d] = protocol.unwrap_or(0).to_be_bytes();
            cx.store(0, &[a, b, c, d])?;
        }
        if count != 0 {
            cx.store(front, &packet[..count])?;
        }
        queue.pop();
        self.look_at_queue(cx, number);
        if length < front {
            return fail(EINVAL);
        }
        if let Some(interface) = self.interfaces.get_mut(number) {
            interface.sent.packets += 1;
            interface.sent.bytes += whole as u64;
        }
        Ok(Data::stored(front + count))
    }

    /// A packet comes from the program.
    pub(crate) fn write_tunnel(
        &mut self,
        cx: &mut Context,
        file: Option<u32>,
        length: usize,
    ) -> Answer<usize> {
        let number = self.interface_of(file)?;
        let Some(interface) = self.interfaces.get_mut(number) else {
            return fail(EBADFD);
        };
        let (informs, tap) = match &interface.tunnel {
            Some(tunnel) => (tunnel.has_information(), tunnel.is_tap()),
            None => return fail(EBADFD),
        };
        let mut information = [0; INFORMATION];
        let front = if informs { INFORMATION } else { 0 };
        let header = if tap { crate::capture::HEADER } else { 0 };
        let Some(rest) = length.checked_sub(front).filter(|rest| *rest >= header) else {
            return fail(EINVAL);
        };
        if rest > device::MOST + header {
            return fail(EMSGSIZE);
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(rest).is_err() {
            return fail(ENOMEM);
        }
        bytes.resize(rest, 0);
        if informs {
            cx.fetch(0, &mut information)?;
        }
        if rest != 0 {
            cx.fetch(front, &mut bytes)?;
        }
        let protocol = match (tap, informs) {
            (true, _) => 0,
            (false, true) => u16::from_be_bytes([information[2], information[3]]),
            (false, false) => match device::protocol_of(&bytes) {
                Some(protocol) => protocol,
                None => {
                    interface.received.dropped += 1;
                    return fail(EINVAL);
                }
            },
        };
        if interface.flags & flag::UP == 0 {
            interface.received.dropped += 1;
            return fail(EIO);
        }
        interface.received.packets += 1;
        interface.received.bytes += rest as u64;
        if let Some(queue) = self.queue(number) {
            queue.give(protocol, bytes);
        }
        self.now(cx);
        self.look_at_link(cx, number);
        self.pump(cx);
        Ok(length)
    }

    /// What the file is ready for, and the keys that may change it.
    pub(crate) fn poll_tunnel(&mut self, badge: u64, file: Option<u32>) -> (u64, [u64; 2]) {
        let keys = [key(badge, READABLE), key(badge, WRITABLE)];
        let Ok(number) = self.interface_of(file) else {
            return (poll::ERR, keys);
        };
        let mut ready = 0;
        if self.queue(number).is_some_and(|queue| !queue.is_empty()) {
            ready |= poll::IN | poll::RDNORM;
        }
        let interface = self.interfaces.get(number);
        if interface.is_some_and(|of| of.flags & flag::UP != 0) {
            ready |= poll::OUT | poll::WRNORM;
        }
        (ready, keys)
    }

    // ---- requests

    /// ioctl(2)
    pub(crate) fn tunnel_request<'a>(
        &'a mut self,
        cx: &mut Context,
        file: &mut Option<u32>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        match request {
            TUNGETFEATURES => {
                let all = u32::from(iff::TUN | iff::TAP | iff::FEATURES);
                return Ok(self.answered(&all.to_ne_bytes()));
            }
            TUNSETIFF => return self.take_interface(cx, file),
            _ => {}
        }
        let number = self.interface_of(*file)?;
        let Some(interface) = self.interfaces.get_mut(number) else {
            return fail(EBADFD);
        };
        let up = interface.flags & flag::UP != 0;
        let (hardware, mac) = interface.hardware();
        let Some(tunnel) = &mut interface.tunnel else {
            return fail(EBADFD);
        };
        let mut told = [0; REQUEST];
        told[..interface.name.len().min(NAME - 1)]
            .copy_from_slice(&interface.name[..interface.name.len().min(NAME - 1)]);
        // An id of −1 is none.
        let id = || match argument as u32 {
            u32::MAX => fail(EINVAL),
            id => Ok(Some(id)),
        };
        match request {
            TUNGETIFF => {
                // (IFF_NOFILTER, which is always told, is the bit of IFF_NO_PI.)
                let flags = tunnel.flags | iff::NO_INFORMATION;
                told[NAME..NAME + 2].copy_from_slice(&flags.to_ne_bytes());
                return Ok(self.answered(&told));
            }
            SIOCGIFHWADDR => {
                told[NAME..NAME + 2].copy_from_slice(&hardware.to_ne_bytes());
                told[NAME + 2..NAME + 8].copy_from_slice(&mac);
                return Ok(self.answered(&told));
            }
            TUNSETPERSIST => match argument as u32 {
                0 => tunnel.flags &= !iff::PERSIST,
                _ => tunnel.flags |= iff::PERSIST,
            },
            TUNSETOWNER => tunnel.owner = id()?,
            TUNSETGROUP => tunnel.group = id()?,
            TUNSETLINK if up => return fail(EBUSY),
            TUNSETLINK => tunnel.hardware = argument as u16,
            // All checksums are made, and nothing is left to be cut.
            TUNSETNOCSUM => {}
            TUNSETOFFLOAD if argument as u32 == 0 => {}
            _ => return fail(EINVAL),
        }
        Ok(Reply::result(0))
    }

    fn answered(&mut self, bytes: &[u8]) -> Reply<'_> {
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        Reply::result(0).data(&self.scratch)
    }

    /// TUNSETIFF: the file has an interface from now on, a new one or one that there is.
    fn take_interface<'a>(
        &'a mut self,
        cx: &mut Context,
        file: &mut Option<u32>,
    ) -> Answer<Reply<'a>> {
        let mut bytes = [0; REQUEST];
        if cx.request.out_len < REQUEST || cx.request.in_len < REQUEST {
            return fail(EFAULT);
        }
        cx.fetch(0, &mut bytes)?;
        if self.interface_of(*file).is_ok() {
            return fail(EEXIST);
        }
        let flags = u16::from_ne_bytes([bytes[NAME], bytes[NAME + 1]]);
        let end = bytes[..NAME - 1].iter().position(|byte| *byte == 0);
        let name = &bytes[..end.unwrap_or(NAME - 1)];
        let known = self.interfaces.by_name(name).map(|of| of.number);
        let name = match known {
            Some(number) => {
                self.may_take(cx, number, flags)?;
                name.into()
            }
            None => self.may_make(cx, name, flags)?,
        };
        // What is told is there before anything changes: a request whose answer cannot be delivered comes once more.
        bytes[..NAME].fill(0);
        bytes[..name.len()].copy_from_slice(&name);
        cx.store(0, &bytes)?;
        self.now(cx);
        let index = match *file {
            Some(index) => index,
            None => *file.insert(self.record(cx)?),
        };
        let number = match known {
            Some(number) => number,
            None => self.make_tunnel(cx, &name, flags)?,
        };
        if let Some(file) = self.tunnels.get_mut(index) {
            file.interface = Some(number);
            cx.wake(key(file.badge, READABLE));
            cx.wake(key(file.badge, WRITABLE));
        }
        let mut most = 0;
        if let Some(tunnel) = self.tunnel(number) {
            tunnel.file = Some(index);
            tunnel.flags = tunnel.flags & !iff::FEATURES | flags & iff::FEATURES;
            most = tunnel.most();
        }
        if let Some(queue) = self.queue(number) {
            queue.attach(most);
        }
        self.carrier_changed(cx, number);
        if known.is_none() {
            self.link_changed(cx, number, 0);
        }
        self.alarm(cx);
        Ok(Reply::result(0))
    }

    /// May the caller have this interface, which there is?
    fn may_take(&mut self, cx: &mut Context, number: u32, flags: u16) -> Answer<()> {
        if flags & iff::EXCL != 0 {
            return fail(EBUSY);
        }
        let Some(tunnel) = self.tunnel(number) else {
            return fail(EINVAL);
        };
        let (has, owner, group) = (tunnel.file.is_some(), tunnel.owner, tunnel.group);
        // (TUN is asked for before TAP.)
        let wanted = match flags & iff::TUN {
            0 => iff::TAP,
            tun => tun,
        };
        if flags & tunnel.flags & wanted == 0 || flags & iff::MISSING != 0 {
            return fail(EINVAL);
        }
        let other = owner.is_some_and(|owner| owner != cx.uid())
            || group.is_some_and(|group| group != cx.gid() && !in_groups(cx, group));
        if other && !self.has_capability(cx, NET_ADMIN) {
            return fail(EPERM);
        }
        match has {
            true => fail(EBUSY),
            false => Ok(()),
        }
    }

    /// May the caller make an interface? Its name.
    fn may_make(&mut self, cx: &mut Context, name: &[u8], flags: u16) -> Answer<Vec<u8>> {
        if !self.has_capability(cx, NET_ADMIN) {
            return fail(EPERM);
        }
        let pattern = match flags & (iff::TUN | iff::TAP) {
            0 => return fail(EINVAL),
            iff::TAP => &b"tap%d"[..],
            _ => b"tun%d",
        };
        if flags & iff::MISSING != 0 {
            return fail(EINVAL);
        }
        let name = self.name_of(if name.is_empty() { pattern } else { name })?;
        match self.interfaces.all.len() < MOST {
            true => Ok(name),
            false => fail(ENFILE),
        }
    }

    /// An interface more, of TAP if it is not to be of TUN.
    fn make_tunnel(&mut self, cx: &mut Context, name: &[u8], flags: u16) -> Answer<u32> {
        let tap = flags & iff::TUN == 0;
        let payer = cx.payer();
        cx.charge(payer, COST)?;
        let number = match tap {
            false => {
                let flags = flag::POINT_TO_POINT | flag::NO_ARP | flag::MULTICAST;
                let device = Tun::new(self.random);
                self.attach(name, (MTU, flags), None, Box::new(device))
            }
            true => {
                let [mut mac @ .., _, _] = self.random_word().to_ne_bytes();
                // One station, of an address that nobody sells.
                mac[0] = mac[0] & 0xfe | 2;
                let device = Ethernet::by_hand(Tap::new(mac), self.random);
                let flags = flag::BROADCAST | flag::MULTICAST;
                self.attach(name, (MTU, flags), None, Box::new(device))
            }
        };
        let Some((number, _)) = number else {
            cx.refund(payer, COST);
            return fail(ENOMEM);
        };
        if let Some(interface) = self.interfaces.get_mut(number) {
            interface.tunnel = Some(Tunnel {
                flags: if tap { iff::TAP } else { iff::TUN },
                owner: None,
                group: None,
                file: None,
                hardware: if tap { ETHERNET } else { NO_HARDWARE },
                payer,
            });
            if let Some(device) = interface.device() {
                device.set_mtu(MTU);
            }
        }
        self.tell_links();
        Ok(number)
    }

    /// The name that is asked for, with the first free number in place of `%d`.
    fn name_of(&self, asked: &[u8]) -> Answer<Vec<u8>> {
        if !is_valid(asked) {
            return fail(EINVAL);
        }
        let Some(at) = asked.iter().position(|byte| *byte == b'%') else {
            return Ok(asked.into());
        };
        let (head, tail) = (&asked[..at], &asked[at + 1..]);
        let Some(tail) = tail.strip_prefix(b"d").filter(|tail| !tail.contains(&b'%')) else {
            return fail(EINVAL);
        };
        // One more than there are names.
        for number in 0..=self.interfaces.all.len() {
            let name = [head, format!("{number}").as_bytes(), tail].concat();
            if name.len() >= NAME {
                break;
            }
            if self.interfaces.by_name(&name).is_none() {
                return Ok(name);
            }
        }
        fail(ENFILE)
    }
}
