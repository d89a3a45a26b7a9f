//! What NETLINK_SOCK_DIAG tells of local sockets, as `net` asks for it: some at a time, from a place among the sockets on.

use crate::server::{fail, Sockets};
use crate::socket::{Socket, State};
use alloc::vec::Vec;
use cairn_idl::errno::EINVAL;
use cairn_idl::local::{Known, ICONS, NAME_MAX};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_rt::channel::Reply;

/// So many places are looked at in one request, and no socket takes more room than this.
const SHARE: u32 = 256;
const EACH: usize = Known::BYTES + NAME_MAX + 4 * ICONS;
const MOST: usize = 65_536;

/// States as TCP calls them.
const ESTABLISHED: u32 = 1;
const CLOSE: u32 = 7;
const LISTEN: u32 = 10;

impl Sockets {
    pub(crate) fn list<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, place, states, number, ..] = cx.request.words;
        let room = cx.request.in_len.min(MOST);
        let first = u32::try_from(place).unwrap_or(u32::MAX);
        let mut known = Vec::new();
        // (Each socket fits into what is reserved, or it is left for the next time.)
        if room < EACH || known.try_reserve_exact(room).is_err() {
            return fail(EINVAL);
        }
        let end = self.sockets.end();
        let mut at = first;
        while at < end && at - first < SHARE && known.len() + EACH <= room {
            // One that was not accepted yet has no number.
            let socket = self.sockets.get(at).filter(|of| of.embryo_of.is_none());
            let wanted = |of: &&Socket| match number {
                0 => states >> state(of) & 1 != 0,
                number => of.ino == number,
            };
            if let Some(socket) = socket.filter(wanted) {
                self.put_known(&mut known, at, socket);
            }
            at += 1;
        }
        self.lines = known;
        let next = if at < end { u64::from(at) } else { 0 };
        Ok(Reply::new(&[self.lines.len() as u64, next]).data(&self.lines))
    }

    fn put_known(&self, to: &mut Vec<u8>, place: u32, socket: &Socket) {
        let peer = socket.peer.and_then(|of| self.peer(of));
        let name = socket.name.as_deref().map_or(&[][..], |name| name);
        let waiting = match &socket.state {
            State::Listening { waiting, .. } => Some(waiting),
            _ => None,
        };
        let (received, sent) = match &socket.state {
            State::Listening { backlog, waiting } => (waiting.len(), *backlog),
            _ => {
                // A datagram socket's bytes are told apart from others' only at a peer that hears nobody else.
                let hears = |of: &&Socket| of.peer.is_some_and(|back| back.ino == socket.ino);
                let sent = peer.filter(hears).map_or(0, |peer| peer.queue.bytes());
                (socket.unread(), sent)
            }
        };
        let waits = waiting.map_or(0, |waiting| waiting.len().min(ICONS));
        let known = Known {
            number: socket.ino,
            peer: peer.map_or(0, |of| if of.embryo_of.is_some() { 0 } else { of.ino }),
            kind: socket.kind as u32,
            state: state(socket),
            met: socket.peer.is_some().into(),
            shut: u32::from(!socket.reads) | u32::from(!socket.writes) << 1,
            uid: socket.uid,
            received: received as u32,
            sent: sent as u32,
            receive_limit: socket.receive_limit as u32,
            send_limit: socket.send_limit as u32,
            name: name.len() as u32,
            waiting: waits as u32,
            place,
        };
        to.extend_from_slice(&known.to_bytes());
        to.extend_from_slice(name);
        for embryo in waiting.into_iter().flatten().take(waits) {
            let far = self.sockets.get(*embryo).and_then(|of| self.peer(of.peer?));
            to.extend_from_slice(&far.map_or(0, |of| of.ino as u32).to_le_bytes());
        }
    }
}

fn state(socket: &Socket) -> u32 {
    match socket.state {
        State::Listening { .. } => LISTEN,
        State::Connected => ESTABLISHED,
        State::Unconnected if socket.joined => ESTABLISHED,
        State::Unconnected => CLOSE,
    }
}
