//! Names of sockets. An *address* is a portal of this server by which whoever has it may connect or send to one socket: file servers keep addresses with their nodes, and this server gives one for an abstract name.
//! A path is only what getsockname tells; it leads nowhere by itself.
//!
//! The badge of an address is its number and 1, so below 2^32. Its number is not used again before nobody has a portal to it.

use crate::server::{fail, Sockets};
use crate::socket::Peer;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::local::NAME_MAX;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Leads};
use cairn_rt::channel::Reply;
use cairn_rt::Portal;

/// Bytes of `sun_path`: an abstract name begins with a NUL, a path ends with one.
pub type Name = Box<[u8]>;

/// Names that nobody has are five hexadecimal digits.
const AUTOMATIC: u32 = 1 << 20;

#[derive(Clone, Copy)]
pub struct Address {
    pub of: Peer,
    /// Portals to it that somebody has.
    pub portals: u32,
}

impl Sockets {
    fn unbound(&self, index: u32) -> Answer<()> {
        match self.socket(index)?.name {
            None => Ok(()),
            Some(_) => fail(EINVAL),
        }
    }

    /// The name that came with the request, behind `before`.
    fn fetch_name(&self, cx: &mut Context, before: &[u8], after: &[u8]) -> Answer<Name> {
        let length = cx.request.out_len;
        if before.len() + length + after.len() > NAME_MAX {
            return fail(EINVAL);
        }
        let mut bytes = [0; NAME_MAX];
        cx.fetch(0, &mut bytes[..length])?;
        let mut name = Vec::new();
        let room = name.try_reserve_exact(before.len() + length + after.len());
        room.map_err(|_| Failure::Errno(ENOBUFS))?;
        name.extend_from_slice(before);
        name.extend_from_slice(&bytes[..length]);
        name.extend_from_slice(after);
        Ok(name.into_boxed_slice())
    }

    pub(crate) fn bind<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        if cx.request.out_len == 0 {
            // Bound already: nothing to do, as on Linux.
            if self.socket(index)?.name.is_none() {
                self.bind_automatically(index)?;
            }
            return Ok(Reply::result(0));
        }
        self.unbound(index)?;
        let name = self.fetch_name(cx, b"\0", b"")?;
        let kind = self.socket(index)?.kind;
        if self.abstract_names.contains_key(&(kind, name.clone())) {
            return fail(EADDRINUSE);
        }
        self.name_abstractly(index, name)?;
        Ok(Reply::result(0))
    }

    fn name_abstractly(&mut self, index: u32, name: Name) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        let kind = socket.kind;
        socket.name = Some(Rc::new(name.clone()));
        self.abstract_names.insert((kind, name), index);
        Ok(())
    }

    /// A name that nobody has.
    pub(crate) fn bind_automatically(&mut self, index: u32) -> Answer<()> {
        let kind = self.socket(index)?.kind;
        // Few are in use: sockets are limited. A step that is odd reaches all of them.
        for _ in 0..AUTOMATIC.min(self.sockets.len() as u32 + 1) {
            self.last_automatic = self.last_automatic.wrapping_add(1) % AUTOMATIC;
            let digit =
                |at: u32| b"0123456789abcdef"[(self.last_automatic >> (4 * at)) as usize % 16];
            let name: Name = Box::new([0, digit(4), digit(3), digit(2), digit(1), digit(0)]);
            if !self.abstract_names.contains_key(&(kind, name.clone())) {
                return self.name_abstractly(index, name);
            }
        }
        fail(ENOSPC)
    }

    pub(crate) fn bind_path<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        self.unbound(index)?;
        if cx.request.out_len == 0 {
            return fail(EINVAL);
        }
        let name = self.fetch_name(cx, b"", b"\0")?;
        let badge = self.address(index)?;
        self.socket_mut(index)?.name = Some(Rc::new(name));
        Ok(Reply::new(&[0]).mint(badge))
    }

    /// Its node could not be made.
    pub(crate) fn unbind<'a>(&mut self, index: u32) -> Answer<Reply<'a>> {
        let socket = self.socket_mut(index)?;
        let is_path = socket.name.as_ref().is_some_and(|name| name[0] != 0);
        if !is_path || socket.is_listening() || socket.is_connected() {
            return fail(EINVAL);
        }
        socket.name = None;
        // Who has the address can do nothing with it any more.
        self.forget_address(index);
        Ok(Reply::result(0))
    }

    pub(crate) fn resolve<'a>(&mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let name = self.fetch_name(cx, b"\0", b"")?;
        let kind = cx.request.words[1];
        let found = self.abstract_names.get(&(kind, name)).copied();
        let badge = self.address(found.ok_or(Failure::Errno(ECONNREFUSED))?)?;
        Ok(Reply::new(&[0]).mint(badge))
    }

    /// The badge for one more portal to a socket's address.
    fn address(&mut self, index: u32) -> Answer<u64> {
        let socket = self.socket(index)?;
        let of = Peer {
            socket: index,
            ino: socket.ino,
        };
        let at = match socket.address {
            Some(at) => at,
            None => {
                let address = Address { of, portals: 0 };
                let at = self
                    .addresses
                    .insert(address)
                    .ok_or(Failure::Errno(ENOBUFS))?;
                self.socket_mut(index)?.address = Some(at);
                at
            }
        };
        if let Some(address) = self.addresses.get_mut(at) {
            address.portals += 1;
        }
        Ok(u64::from(at) + 1)
    }

    /// A socket has no address from now on.
    pub(crate) fn forget_address(&mut self, index: u32) {
        let address = self.sockets.get_mut(index).and_then(|s| s.address.take());
        let Some(at) = address else { return };
        match self.addresses.get_mut(at) {
            // It leads to no socket: numbers from 1 are sockets'.
            Some(address) if address.portals != 0 => address.of.ino = 0,
            _ => {
                self.addresses.remove(at);
            }
        }
    }

    /// Nobody has this portal to an address any more.
    pub(crate) fn address_closed(&mut self, badge: u64) {
        let Some(at) = badge.checked_sub(1).map(|at| at as u32) else {
            return;
        };
        let Some(address) = self.addresses.get_mut(at) else {
            return;
        };
        address.portals = address.portals.saturating_sub(1);
        if address.portals == 0 {
            let of = address.of;
            self.addresses.remove(at);
            if let Some(socket) = self.peer_mut(of) {
                socket.address = None;
            }
        }
    }

    /// The socket that an address, which came as a portal, leads to.
    pub(crate) fn addressed(&mut self, cx: &mut Context, portal: Portal) -> Answer<u32> {
        let refused = Failure::Errno(ECONNREFUSED);
        let Leads::Own { badge, .. } = cx.transport.leads_to(portal) else {
            return Err(refused);
        };
        if badge == 0 || badge >> 32 != 0 {
            return Err(refused);
        }
        let address = self.addresses.get(badge as u32 - 1).ok_or(refused)?;
        let of = address.of;
        self.peer(of).map(|_| of.socket).ok_or(refused)
    }

    /// A socket ends: its name is free.
    pub(crate) fn unname(&mut self, index: u32) {
        self.forget_address(index);
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let kind = socket.kind;
        let Some(name) = socket.name.take() else {
            return;
        };
        let key = (kind, (*name).clone());
        if self.abstract_names.get(&key) == Some(&index) {
            self.abstract_names.remove(&key);
        }
    }
}
