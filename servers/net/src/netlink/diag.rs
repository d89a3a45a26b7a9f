//! NETLINK_SOCK_DIAG (sock_diag(7)): the sockets that `ss` shows. Of AF_INET and AF_INET6, TCP and UDP; filters in the message are left to the reader, who
//! applies his own to what he gets.

use super::message::{flag, word, Builder, Message};
use super::{Outcome, To, What};
use crate::address::Address;
use crate::options::{algorithm_name, tcp_info};
use crate::packet::protocol;
use crate::server::{key, Net, READABLE, WRITABLE};
use crate::socket::{Socket, State};
use crate::stream::Place;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_resmgr::Context;
use cairn_tcp::secret::Ends;

/// SOCK_DIAG_BY_FAMILY, SOCK_DESTROY.
pub(super) const BY_FAMILY: u16 = 20;
pub(super) const DESTROY: u16 = 21;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
const LOCAL: u8 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
/// AF_MAX.
const FAMILIES: u8 = 46;
/// Attributes: INFO, CONG, SHUTDOWN, SKV6ONLY.
const INFO: u16 = 2;
const ALGORITHM: u16 = 4;
const SHUTDOWN: u16 = 8;
const ONLY_V6: u16 = 11;
const LISTEN: u8 = 10;

/// What somebody wants to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    protocol: u8,
    v4: bool,
    /// A bit for each attribute, from the first on.
    further: u8,
    /// A bit for each state.
    states: u32,
}

impl Net {
    pub(super) fn diag_message(
        &mut self,
        cx: &mut Context,
        message: &Message,
    ) -> Result<Outcome, i64> {
        let body = message.body();
        if !matches!(message.kind, BY_FAMILY | DESTROY) {
            return Err(EINVAL);
        }
        let Some(family) = body.first().copied() else {
            return Err(EINVAL);
        };
        match family {
            LOCAL => return self.local_message(message),
            INET | INET6 => {}
            ..FAMILIES => return Err(ENOENT),
            _ => return Err(EINVAL),
        }
        if body.len() < REQUEST {
            return Err(EINVAL);
        }
        let protocol = match body[1] {
            of @ (protocol::TCP | protocol::UDP | protocol::UDP_LITE) => of,
            _ => return Err(ENOENT),
        };
        if message.kind == DESTROY {
            return self.destroy(cx, body).map(|()| Outcome::Done);
        }
        // One socket that is named by its ends.
        if message.flags & flag::DUMP == 0 {
            return Err(EOPNOTSUPP);
        }
        Ok(Outcome::Dump(What::Sockets(Asked {
            protocol,
            v4: family == INET,
            further: body[2],
            states: word(body, 4),
        })))
    }

    /// SOCK_DESTROY (`ss -K`): the connection with these ends is reset, and its socket is told ECONNABORTED.
    fn destroy(&mut self, cx: &mut Context, body: &[u8]) -> Result<(), i64> {
        if !self.has_capability(cx, NET_ADMIN) {
            return Err(EPERM);
        }
        if body[1] != protocol::TCP {
            return Err(EOPNOTSUPP);
        }
        let v4 = body[0] == INET;
        let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let address = |at: usize| match v4 {
            true => Address::v4([body[at], body[at + 1], body[at + 2], body[at + 3]]).0,
            false => body[at..].first_chunk().copied().unwrap_or_default(),
        };
        let ends = Ends {
            local_port: port(8),
            remote_port: port(10),
            local: address(12),
            remote: address(28),
        };
        let cookie = u64::from(word(body, 48)) | u64::from(word(body, 52)) << 32;
        let right = |own: u64| cookie == u64::MAX || cookie == own;
        self.now(cx);
        match self.connections.get(&ends).copied() {
            Some(Place::Stream(at)) => {
                let Some(stream) = self.streams.get_mut(at) else {
                    return Err(ENOENT);
                };
                let socket = stream.socket;
                if !right(
                    socket
                        .and_then(|of| self.sockets.get(of))
                        .map_or(0, |of| of.ino),
                ) {
                    return Err(ESTALE);
                }
                let events = stream.block.abort();
                self.happened(cx, at, events);
                if let Some(stream) = self.streams.get_mut(at) {
                    stream.error = ECONNABORTED;
                }
                if let Some(socket) = socket {
                    cx.wake(key(socket, READABLE));
                    cx.wake(key(socket, WRITABLE));
                }
                self.flush(cx, at);
                self.pump(cx);
                Ok(())
            }
            Some(Place::Wait(at)) if right(0) => {
                self.drop_wait(cx, at);
                Ok(())
            }
            Some(Place::Wait(_)) => Err(ESTALE),
            // Half a connection is nobody's yet, and who listens is not found by ends.
            _ => Err(ENOENT),
        }
    }

    /// A piece of the dump, from a place on. None: that was all.
    pub(super) fn put_sockets(
        &self,
        builder: &mut Builder,
        to: To,
        asked: &Asked,
        place: u64,
    ) -> Option<u64> {
        self.walk_sockets(place, (asked.protocol, asked.v4), |_, line, socket| {
            if asked.states >> (line.state & 31) & 1 == 0 {
                return true;
            }
            let socket = socket.and_then(|socket| self.sockets.get(socket));
            let cookie = socket.map_or(line.ino, |socket| socket.ino);
            builder.message((BY_FAMILY, to.flags, to.seq, to.port), |to| {
                to.put(&[if asked.v4 { INET } else { INET6 }, line.state, 0, 0]);
                to.put(&line.local.port.to_be_bytes());
                to.put(&line.remote.port.to_be_bytes());
                for end in [&line.local, &line.remote] {
                    // (An address of IPv4 of a socket of IPv6 is a mapped one.)
                    let mut bytes = end.address.0;
                    if let (true, Some(short)) = (asked.v4, end.address.as_v4()) {
                        bytes = [0; 16];
                        bytes[..4].copy_from_slice(&short);
                    }
                    to.put(&bytes);
                }
                to.put(&socket.map_or(0, |of| of.options.device).to_ne_bytes());
                to.put(&cookie.to_ne_bytes());
                let sending = match (line.state, socket.and_then(Socket::listener)) {
                    (LISTEN, Some(listener)) => listener.backlog as u32,
                    _ => line.sending,
                };
                let further = [0, line.receiving, sending, line.uid, line.ino as u32];
                further.iter().for_each(|word| to.put(&word.to_ne_bytes()));
                if let Some(socket) = socket {
                    let shut = u8::from(!socket.reads) | u8::from(!socket.writes) << 1;
                    to.attribute(SHUTDOWN, &[shut]);
                    if !asked.v4 {
                        to.attribute(ONLY_V6, &[u8::from(socket.options.only_v6)]);
                    }
                    self.put_details(to, asked, socket);
                }
            })
        })
    }

    /// What `ss -i` shows of a stream.
    fn put_details(&self, to: &mut Builder, asked: &Asked, socket: &Socket) {
        let stream = asked.protocol == protocol::TCP;
        let wanted = |attribute: u16| stream && asked.further >> (attribute - 1) & 1 != 0;
        if wanted(INFO) {
            let stream = match socket.state {
                State::Stream(at) => self.streams.get(at),
                _ => None,
            };
            let info = stream.map(|stream| stream.block.info());
            to.attribute(INFO, &tcp_info(info, socket.listener()));
        }
        if wanted(ALGORITHM) {
            let name = algorithm_name(socket.options.algorithm);
            to.attribute(ALGORITHM, name);
        }
    }
}
