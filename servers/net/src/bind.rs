//! bind(2): addresses and ports of sockets.

use crate::address::{Address, Endpoint};
use crate::packet::protocol::{TCP, UDP, UDP_LITE};
use crate::ports::{Claim, Ports, PRIVILEGED};
use crate::server::{fail, Net};
use crate::socket::State;
use cairn_idl::capability::NET_BIND_SERVICE;
use cairn_idl::errno::*;
use cairn_idl::net::{NETLINK, PACKET};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

impl Net {
    fn claim_of(&self, index: u32, at: Endpoint) -> Answer<Claim> {
        let socket = self.socket(index)?;
        Ok(Claim {
            protocol: socket.protocol,
            at,
            dual: socket.is_dual(),
            reuse: socket.options.reuse,
            share: socket.options.share,
            bound: true,
            uid: socket.uid,
        })
    }

    pub(crate) fn bind(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let [_, low, high, word, ..] = cx.request.words;
        if self.socket(index)?.family == PACKET {
            return self.bind_capture(cx, index);
        }
        if self.socket(index)?.family == NETLINK {
            return self.bind_netlink(cx, index);
        }
        let (address, port, family) = (
            Address::of_words(low, high),
            word as u16,
            word >> 16 & 0xffff,
        );
        let socket = self.socket(index)?;
        // AF_UNSPEC with "any" is for old programs, as on Linux.
        let old = family == 0 && socket.is_v4() && address == Address::ANY_V4;
        if family != socket.family && !old {
            return fail(EAFNOSUPPORT);
        }
        if socket.is_v4() && !address.is_v4() {
            return fail(EINVAL);
        }
        if !socket.is_v4() && address.is_v4() && socket.options.only_v6 {
            return fail(EINVAL);
        }
        if !socket.is_v4() && address.is_v4() && socket.is_raw() {
            return fail(EADDRNOTAVAIL);
        }
        let free = socket.options.binds_freely();
        let several = address.is_multicast() || self.interfaces.is_broadcast(&address);
        if !address.is_v4() {
            let scope = match (word >> 32) as u32 {
                0 => socket.options.device,
                scope => scope,
            };
            let scoped = address.needs_scope();
            if socket.is_stream() && address.is_multicast() || scoped && scope == 0 {
                return fail(EINVAL);
            }
            if scoped && self.interfaces.get(scope).is_none() {
                return fail(ENODEV);
            }
        }
        let known = address.is_any() || self.interfaces.is_own(&address) || free;
        if !known && !several {
            return fail(EADDRNOTAVAIL);
        }
        if port != 0 && port < PRIVILEGED && !self.has_capability(cx, NET_BIND_SERVICE) {
            return fail(EACCES);
        }
        let socket = self.socket(index)?;
        if socket.local.port != 0 || !matches!(socket.state, State::Fresh | State::Datagram(_)) {
            return fail(EINVAL);
        }
        match self.socket(index)?.is_raw() {
            // It has no port, and the address is only looked at.
            true => self.socket_mut(index)?.local.address = address,
            false => self.take_port(cx, index, Endpoint::new(address, port))?,
        }
        let socket = self.socket_mut(index)?;
        socket.address_bound = !address.is_any();
        socket.port_bound = port != 0;
        // An address of IPv6 says so, and that stays.
        let of_ports = matches!(socket.protocol, TCP | UDP | UDP_LITE) && !socket.is_raw();
        if !address.is_any() && !address.is_v4() {
            socket.options.only_v6 |= of_ports;
        }
        socket.scope = (word >> 32) as u32;
        Ok(())
    }

    /// A port that nobody has.
    pub(crate) fn bind_ephemeral(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let socket = self.socket(index)?;
        let address = socket.local.address;
        if socket.is_raw() {
            return Ok(());
        }
        self.take_port(cx, index, Endpoint::new(address, 0))
    }

    fn take_port(&mut self, _: &mut Context, index: u32, at: Endpoint) -> Answer<()> {
        let mut claim = self.claim_of(index, at)?;
        if at.port == 0 {
            let random = self.random_word();
            let of = |port| Claim {
                at: Endpoint::new(at.address, port),
                ..claim
            };
            let unused = Ports::ephemeral(random, |port| self.ports.is_unused(&of(port)));
            let found =
                unused.or_else(|| Ports::ephemeral(random, |port| self.ports.is_free(&of(port))));
            claim.at.port = found.ok_or(Failure::Errno(EADDRINUSE))?;
        } else if !self.ports.is_free(&claim) {
            return fail(EADDRINUSE);
        }
        if !self.ports.add(&claim) {
            return fail(ENOMEM);
        }
        let socket = self.socket_mut(index)?;
        let before = core::mem::replace(&mut socket.local, claim.at);
        socket.claim = Some(claim);
        if !socket.is_stream() {
            if let Err(failure) = self.list_datagram(index) {
                self.ports.remove(&claim);
                let socket = self.socket_mut(index)?;
                (socket.local, socket.claim) = (before, None);
                return Err(failure);
            }
        }
        self.bring_chooser(index);
        Ok(())
    }

    /// The socket has its port no more.
    pub(crate) fn release_port(&mut self, _: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        socket.local.port = 0;
        if let Some(claim) = socket.claim.take() {
            self.ports.remove(&claim);
        }
    }

    /// SO_REUSEADDR or SO_REUSEPORT was changed: it counts from now on for what the socket has already.
    pub(crate) fn claim_changes(&mut self, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let listens = socket.listener().is_some();
        let (reuse, share) = (socket.options.reuse && !listens, socket.options.share);
        if let Some(claim) = socket.claim {
            let new = Claim {
                reuse,
                share,
                ..claim
            };
            self.ports.remove(&claim);
            let added = self.ports.add(&new);
            if let Some(socket) = self.sockets.get_mut(index) {
                socket.claim = added.then_some(new);
            }
        }
    }
}
