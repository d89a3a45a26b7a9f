//! Datagrams and sequenced packets: messages that arrive whole or not at all.

use crate::server::{fail, Extra, Sockets};
use crate::{key, READABLE, ROOM};
use cairn_idl::errno::*;
use cairn_idl::local::{DATAGRAM, SEQPACKET};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::Portal;

/// How many datagrams wait at most (beside one) at who is not connected to their sender (net.unix.max_dgram_qlen).
const WAITING: usize = 10;
/// Linux keeps so much of the sender's buffer for itself.
const OVERHEAD: usize = 32;

impl Sockets {
    /// Whom a message goes to.
    fn receiver(
        &mut self,
        cx: &mut Context,
        index: u32,
        extra: &Option<&mut Extra>,
    ) -> Answer<u32> {
        let socket = self.socket(index)?;
        let (kind, peer) = (socket.kind, socket.peer);
        let address = extra.as_ref().and_then(|extra| extra.address);
        if kind == SEQPACKET && !socket.is_connected() {
            return fail(ENOTCONN);
        }
        if let (Some(address), false) = (address, kind == SEQPACKET) {
            let target = self.addressed(cx, Portal(address))?;
            if self.socket(target)?.kind != kind {
                return fail(EPROTOTYPE);
            }
            return match self.may_send(index, target)? {
                true => Ok(target),
                false => fail(EPERM),
            };
        }
        let of = peer.ok_or(Failure::Errno(ENOTCONN))?;
        if self.peer(of).is_some() {
            return Ok(of.socket);
        }
        if kind == SEQPACKET {
            return fail(EPIPE);
        }
        let socket = self.socket_mut(index)?;
        (socket.peer, socket.peer_name) = (None, None);
        fail(ECONNREFUSED)
    }

    /// Is there no room for one more message of this socket there?
    pub(crate) fn is_full(&self, index: u32, target: u32) -> Answer<bool> {
        let (own, there) = (self.socket(index)?, self.socket(target)?);
        let mutual = there.peer.is_some_and(|of| of.ino == own.ino);
        let waiting = there.queue.segments.len();
        Ok(!mutual && index != target && waiting > WAITING)
    }

    pub(crate) fn send_datagram(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        mut extra: Option<&mut Extra>,
    ) -> Answer<usize> {
        let socket = self.socket(index)?;
        let limit = socket.send_limit;
        let nameless = socket.wants_credentials && socket.name.is_none();
        if nameless && !socket.has_connections() {
            self.bind_automatically(index)?;
        }
        let socket = self.socket(index)?;
        if socket.kind == DATAGRAM && socket.peer.is_some() && !socket.writes {
            return fail(EPIPE);
        }
        let target = self.receiver(cx, index, &extra)?;
        if !self.socket(index)?.writes || !self.socket(target)?.reads {
            return fail(EPIPE);
        }
        if length > limit - OVERHEAD {
            return fail(EMSGSIZE);
        }
        let there = &self.socket(target)?.queue;
        let room = there.room(limit.max(there.bytes().saturating_add(length)));
        let mutual = self.socket(target)?.peer.is_some();
        let beyond = mutual && !there.is_empty() && there.bytes() + length > limit;
        let full = there.segments.len() >= crate::queue::SEGMENTS;
        if full || room < length || beyond || self.is_full(index, target)? {
            return Err(Failure::Wait(key(target, ROOM)));
        }
        self.put(cx, (index, target), (0, length), true, &mut extra)?;
        cx.wake(key(target, READABLE));
        Ok(length)
    }
}
