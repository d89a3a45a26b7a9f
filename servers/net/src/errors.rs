//! The queue of errors of a datagram socket (IP_RECVERR, ip(7)): what ICMP said of packets that it sent, with the packet's text and who said it; and which of
//! them this machine refused, because they were too long and may not be cut.
//!
//! An error is on the account of who made the socket, and has its part of the room that SO_RCVBUF gives. A socket that did not ask for the queue hears only of
//! errors that last, and only if it is connected.

use crate::address::{Address, Endpoint};
use crate::internet::Arrived;
use crate::packet::protocol;
use crate::server::{fail, key, Net, READABLE, WRITABLE};
use crate::socket::Socket;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::net::{msg, with, INET, INET6};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_rt::channel::Reply;
use cairn_tcp::secret::Ends;

/// Bytes in front of what a datagram carries, or an echo's header.
const HEADER: usize = 8;
/// What one costs beside its text.
const OVERHEAD: usize = 256;
/// SO_EE_ORIGIN_LOCAL, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6.
const ORIGIN_LOCAL: u8 = 1;
const ORIGIN_V4: u8 = 2;
const ORIGIN_V6: u8 = 3;
/// SO_EE_ORIGIN_ZEROCOPY, SO_EE_CODE_ZEROCOPY_COPIED.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// What a message of ICMP says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub kind: u8,
    pub code: u8,
    /// Of one that is too long: the MTU. Of a wrong header: where in it.
    pub info: u32,
    /// Who says so. None: this machine, before it was sent.
    pub offender: Option<Address>,
}

/// An error that waits.
pub struct Fault {
    text: Vec<u8>,
    /// Where the packet was going.
    to: Endpoint,
    errno: u8,
    told: Told,
    cost: usize,
}

impl Told {
    pub fn new(head: &[u8; HEADER], info: u32, arrived: &Arrived) -> Told {
        Told {
            kind: head[0],
            code: head[1],
            info,
            offender: Some(arrived.header.source),
        }
    }

    /// Its number, and whether it is there to stay.
    pub fn errno(&self, v4: bool) -> (i64, bool) {
        match (v4, self.kind, self.code) {
            (true, 3, 0 | 11) => (ENETUNREACH, false),
            (true, 3, 2) => (ENOPROTOOPT, true),
            (true, 3, 3) => (ECONNREFUSED, true),
            (true, 3, 4) => (EMSGSIZE, false),
            (true, 3, 5) => (EOPNOTSUPP, false),
            (true, 3, 6 | 9) => (ENETUNREACH, true),
            (true, 3, 7) => (EHOSTDOWN, true),
            (true, 3, 8) => (ENONET, true),
            (true, 3, 10 | 13..=15) => (EHOSTUNREACH, true),
            (true, 12, _) | (false, 4, _) => (EPROTO, true),
            (false, 1, 0) => (ENETUNREACH, false),
            (false, 1, 1 | 5 | 6) => (EACCES, true),
            (false, 1, 4) => (ECONNREFUSED, true),
            (false, 2, _) => (EMSGSIZE, false),
            _ => (EHOSTUNREACH, false),
        }
    }

    /// What a router's link takes, which was not the whole packet.
    fn narrow(&self, v4: bool) -> Option<u32> {
        match (v4, self.kind, self.code) {
            (true, 3, 4) | (false, 2, _) => Some(self.info),
            _ => None,
        }
    }
}

impl Net {
    /// An error about a packet that a datagram socket sent: its ends (of an echo its number as both ports), and what of it is quoted behind its IP header.
    pub(crate) fn datagram_fault(
        &mut self,
        cx: &mut Context,
        told: Told,
        number: u8,
        ends: &Ends,
        quoted: &[u8],
    ) {
        let local = Address(ends.local);
        let port = ends.local_port;
        let udp = matches!(number, protocol::UDP | protocol::UDP_LITE);
        let found = match self.connected_by(number).get(ends) {
            Some(index) if udp => Some(*index),
            _ => [local, local.wildcard(), Address::ANY]
                .into_iter()
                .find_map(|place| {
                    let group = self.datagrams.get(&(number, Endpoint::new(place, port)))?;
                    group.last().copied()
                }),
        };
        let text = quoted.get(HEADER..).filter(|_| udp);
        if let Some(index) = found {
            self.fault(cx, told, index, ends, text.unwrap_or(quoted));
        }
    }

    /// The same for raw sockets of a protocol.
    pub(crate) fn raw_faults(
        &mut self,
        cx: &mut Context,
        told: Told,
        number: u8,
        ends: &Ends,
        quoted: &[u8],
    ) {
        let family = match Address(ends.local).is_v4() {
            true => INET,
            false => INET6,
        };
        let mut at = 0;
        let nth = |net: &Net, at| net.raws.get(&(family, number))?.get(at).copied();
        while let Some(index) = nth(self, at) {
            at += 1;
            let ends = Ends {
                remote_port: 0,
                ..*ends
            };
            self.fault(cx, told, index, &ends, quoted);
        }
    }

    fn fault(&mut self, cx: &mut Context, told: Told, index: u32, ends: &Ends, text: &[u8]) {
        let to = Endpoint::new(Address(ends.remote), ends.remote_port);
        let v4 = to.address.is_v4();
        let (errno, lasts) = told.errno(v4);
        let now = self.now(cx);
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let bound = socket.local.address;
        let peer = socket.remote;
        let mine = bound.is_any() || bound == Address(ends.local);
        if !mine || peer.is_some_and(|peer| peer.address != to.address) {
            return;
        }
        if let Some(mtu) = told.narrow(v4) {
            self.paths.learn(to.address, mtu, now);
        }
        if socket.options.wants_errors(v4) {
            Net::keep_fault(cx, socket, (told, errno), to, text);
        } else if !lasts || peer.is_none() {
            return;
        }
        socket.error = errno;
        cx.wake(key(index, READABLE));
        cx.wake(key(index, WRITABLE));
    }

    /// Put it into the queue, if there is room.
    fn keep_fault(
        cx: &mut Context,
        socket: &mut Socket,
        (told, errno): (Told, i64),
        to: Endpoint,
        text: &[u8],
    ) {
        let (payer, room) = (socket.payer, socket.options.receive_buffer as usize);
        let cost = OVERHEAD + text.len();
        let Some(queue) = socket.queue_mut() else {
            return;
        };
        let mut copy = Vec::new();
        if queue.bytes + cost <= room
            && copy.try_reserve_exact(text.len()).is_ok()
            && queue.faults.try_reserve(1).is_ok()
            && cx.charge(payer, cost).is_ok()
        {
            copy.extend_from_slice(text);
            queue.bytes += cost;
            queue.faults.push_back(Fault {
                text: copy,
                to,
                errno: errno as u8,
                told,
                cost,
            });
        }
    }

    /// A packet of a datagram socket is refused, since it is too long: its queue says what would have fitted. (SO_ERROR does not: the call is told.)
    pub(crate) fn too_long<T>(
        &mut self,
        cx: &mut Context,
        index: u32,
        to: Endpoint,
        mtu: u32,
    ) -> Answer<T> {
        let socket = self.socket_mut(index)?;
        let v4 = to.address.is_v4();
        if socket.options.wants_errors(v4) {
            let told = Told {
                kind: 0,
                code: 0,
                info: mtu,
                offender: None,
            };
            // As on Linux: of IPv4 only a connected socket has a port there.
            let port = match v4 {
                true => socket.remote.map_or(0, |remote| remote.port),
                false => to.port,
            };
            let to = Endpoint::new(to.address, port);
            Net::keep_fault(cx, socket, (told, EMSGSIZE), to, &[]);
            cx.wake(key(index, READABLE));
        }
        fail(EMSGSIZE)
    }

    /// Take out the oldest error.
    fn take_fault(&mut self, cx: &mut Context, index: u32) -> Option<Fault> {
        let socket = self.sockets.get_mut(index)?;
        let payer = socket.payer;
        let queue = socket.queue_mut()?;
        let fault = queue.faults.pop_front()?;
        queue.bytes -= fault.cost;
        cx.refund(payer, fault.cost);
        Some(fault)
    }

    /// Nobody wants them any more.
    pub(crate) fn drop_faults(&mut self, cx: &mut Context, index: u32) {
        while self.take_fault(cx, index).is_some() {}
        if let Some(queue) = self.sockets.get_mut(index).and_then(|s| s.queue_mut()) {
            queue.faults = Default::default();
        }
    }

    /// A send of MSG_ZEROCOPY is done: its bytes were copied, so that its memory is free at once. All such sends that the sender was not told of yet are one
    /// notification, as on Linux those are that follow each other.
    #[cold]
    pub(crate) fn was_copied(&mut self, cx: &mut Context, index: u32) {
        if let Some(socket) = self.sockets.get_mut(index) {
            if socket.options.copies_not() {
                socket.copied = socket.copied.wrapping_add(1);
                cx.wake(key(index, READABLE));
                cx.wake(key(index, WRITABLE));
            }
        }
    }

    fn receive_copied<'a>(&mut self, index: u32) -> Answer<Reply<'a>> {
        let socket = self.socket_mut(index)?;
        let first = core::mem::replace(&mut socket.copied_told, socket.copied);
        let last = socket.copied.wrapping_sub(1);
        let nobody = if socket.is_v4() {
            Address::ANY_V4
        } else {
            Address::ANY
        };
        let [low, high] = nobody.words();
        let more =
            u64::from(first) | u64::from(CODE_COPIED) << 40 | u64::from(ORIGIN_ZEROCOPY) << 56;
        Ok(Reply::new(&[
            0,
            msg::ERRQUEUE,
            last.into(),
            0,
            0,
            low,
            high,
            more,
        ]))
    }

    /// RECEIVE with MSG_ERRQUEUE: it never waits.
    pub(crate) fn receive_fault<'a>(
        &'a mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
    ) -> Answer<Reply<'a>> {
        if self.socket(index)?.copied != self.socket(index)?.copied_told {
            return self.receive_copied(index);
        }
        let queue = self.socket_mut(index)?.queue_mut();
        let Some(first) = queue.and_then(|queue| queue.faults.front()) else {
            return fail(EAGAIN);
        };
        let count = first.text.len().min(length);
        if count != 0 {
            cx.store(0, &first.text[..count])?;
        }
        let Some(fault) = self.take_fault(cx, index) else {
            return fail(EAGAIN);
        };
        let socket = self.socket_mut(index)?;
        let next = socket.queue_mut().and_then(|queue| queue.faults.front());
        // SO_ERROR goes with the queue, but for what this machine itself said.
        let next = next.filter(|next| next.told.offender.is_some());
        let next = next.map(|next| i64::from(next.errno));
        if next.is_some() || fault.told.offender.is_some() {
            socket.error = next.unwrap_or(0);
        }
        let v4 = fault.told.offender.unwrap_or(fault.to.address).is_v4();
        let nobody = if v4 { Address::ANY_V4 } else { Address::ANY };
        let offender = fault.told.offender.unwrap_or(nobody);
        let cut = if count < fault.text.len() {
            msg::TRUNC
        } else {
            0
        };
        let [low, high] = fault.to.address.words();
        let family = self.socket(index)?.family;
        let port = u64::from(fault.to.port) | family << 16;
        let [offender_low, offender_high] = offender.words();
        let origin = match fault.told.offender {
            None => ORIGIN_LOCAL,
            Some(_) if v4 => ORIGIN_V4,
            Some(_) => ORIGIN_V6,
        };
        let more = u64::from(fault.told.info)
            | u64::from(fault.told.kind) << 32
            | u64::from(fault.told.code) << 40
            | u64::from(fault.errno) << 48
            | u64::from(origin) << 56;
        let came = with::ADDRESS | msg::ERRQUEUE | cut;
        let words = [
            count as u64,
            came,
            low,
            high,
            port,
            offender_low,
            offender_high,
            more,
        ];
        Ok(Reply::new(&words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_and_what_may_pass() {
        let told = |kind, code| Told {
            kind,
            code,
            info: 0,
            offender: None,
        };
        assert_eq!(told(3, 3).errno(true), (ECONNREFUSED, true));
        assert_eq!(told(3, 1).errno(true), (EHOSTUNREACH, false));
        assert_eq!(told(11, 0).errno(true), (EHOSTUNREACH, false));
        assert_eq!(told(1, 4).errno(false), (ECONNREFUSED, true));
        assert_eq!(told(3, 0).errno(false), (EHOSTUNREACH, false));
        assert_eq!(told(2, 0).errno(false), (EMSGSIZE, false));
    }
}
