//! Sockets of netlink (netlink(7)): what programs ask of interfaces, addresses, routes and sockets, and what user 0 changes of them.
//!
//! * [`cookie`] notifications of message queues; [`message`] the format; [`route`] NETLINK_ROUTE; [`diag`] NETLINK_SOCK_DIAG, with [`local`]
//!   sockets. NETLINK_KOBJECT_UEVENT can be bound, and nothing ever comes there.
//!
//! What waits for a reader is a datagram like any other ([`crate::datagram`]), on the account of who made the socket. A dump is made piece by piece, each when
//! the one before was read: so what waits does not grow with what there is to
//! tell, and a request takes no longer for it.

pub mod cookie;
pub mod diag;
pub mod local;
pub mod message;
pub mod route;
#[cfg(test)]
mod tests;

use crate::address::{Address, Endpoint};
use crate::internet::Arrived;
use crate::packet::{Header, Packet, Payload};
use crate::server::{fail, fetched, key, Net, Sent, READABLE, WRITABLE};
use crate::socket::Socket;
use alloc::vec::Vec;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_idl::net::NETLINK;
use cairn_idl::proc;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handles};
use cairn_rt::channel::Reply;
use cairn_rt::Message as Call;
use message::{flag, word, Builder, Message, DONE, ERROR, FIRST_TYPE};

/// Protocols.
const ROUTE: u64 = 0;
const SOCK_DIAG: u64 = 4;
const UEVENT: u64 = 15;

/// Options of SOL_NETLINK that are switches: PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, LISTEN_ALL_NSID, CAP_ACK, EXT_ACK, GET_STRICT_CHK.
const SWITCHES: u32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 8 | CAP_ACK | 1 << 11 | STRICT;
const NO_ENOBUFS: u32 = 1 << 5;
const CAP_ACK: u32 = 1 << 10;
const STRICT: u32 = 1 << 12;
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
const LIST_MEMBERSHIPS: u32 = 9;
/// Most groups of a protocol that are there.
const GROUPS: u32 = 64;

/// Bytes of one piece of a dump: as on Linux, so that readers with a page of room have enough.
const PIECE: usize = 3776;
/// Of a request at most so much is taken, and so many messages in it.
const REQUEST: usize = 65_536;
const MESSAGES: usize = 256;
/// How often a dump is gone on with at once, if nothing is found to tell.
const LOOKS: usize = 8;

/// What a socket of netlink has beyond what all have.
#[derive(Default)]
pub struct Netlink {
    pub(crate) socket: u32,
    /// Its name; 0 until it has one.
    port: u32,
    /// Who gets what it sends.
    peer: (u32, u32),
    groups: u64,
    options: u32,
    dump: Option<Dump>,
    /// The dump goes on in the background.
    later: bool,
    /// Where it stands among those that have groups.
    place: usize,
}

/// What is being told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dump {
    what: What,
    seq: u32,
    /// Where to go on.
    place: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Links,
    Addresses {
        family: u8,
        interface: u32,
    },
    Routes {
        family: u8,
    },
    Neighbours {
        family: u8,
        interface: u32,
    },
    Sockets(diag::Asked),
    Local(local::Asked),
    /// One socket, and the question.
    LocalOne(local::Asked, local::Quoted),
}

/// What a message was.
pub(crate) enum Outcome {
    Done,
    /// A question with many answers.
    Dump(What),
}

/// A message's number, and whom it is for.
#[derive(Clone, Copy)]
pub(crate) struct To {
    pub seq: u32,
    pub port: u32,
    pub flags: u16,
}

/// `nl_pid` and `nl_groups`, as words of `net.idl`.
fn endpoint(port: u32, groups: u32) -> Endpoint {
    let low = u64::from(port) | u64::from(groups) << 32;
    Endpoint::new(Address::of_words(low, 0), 0)
}

impl Net {
    pub(crate) fn make_netlink<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [_, _, kind, protocol, ..] = cx.request.words;
        if !matches!(protocol, ROUTE | SOCK_DIAG | UEVENT) {
            return fail(EPROTONOSUPPORT);
        }
        let Some(netlink) = self.netlinks.insert(Netlink::default()) else {
            return fail(ENOMEM);
        };
        let kind = (NETLINK, kind, protocol as u8);
        let made = self.make_socket(cx, handles, kind, netlink);
        if made.is_err() {
            self.netlinks.remove(netlink);
        }
        made
    }

    /// Nobody has the socket any more.
    pub(crate) fn end_netlink(&mut self, further: u32, protocol: u8) {
        self.leave_groups(further, !0);
        if let Some(netlink) = self.netlinks.remove(further) {
            self.netlink_ports.remove(&(protocol, netlink.port));
        }
    }

    fn netlink(&mut self, index: u32) -> Answer<(&mut Netlink, u8)> {
        let socket = self.sockets.get(index).filter(|of| of.family == NETLINK);
        let found = socket.and_then(|of| Some((self.netlinks.get_mut(of.further)?, of.protocol)));
        found.ok_or(Failure::Errno(EOPNOTSUPP))
    }

    fn further(&self, index: u32) -> u32 {
        self.sockets.get(index).map_or(u32::MAX, |of| of.further)
    }

    // ---- names and groups

    /// The caller's process, or of a component the domain.
    fn caller(&self, cx: &mut Context) -> u32 {
        let sender = cx.request.sender;
        let message = Call::new(&[proc::IDS_OF, u64::from(sender)]);
        let told = self.proc.map(|proc| cx.transport.call(proc, message));
        match told {
            Some(Ok(words)) if (words[0] as i64) > 0 => words[0] as u32,
            _ => sender,
        }
    }

    fn name_netlink(&mut self, cx: &mut Context, index: u32, asked: u32) -> Answer<()> {
        let (netlink, protocol) = self.netlink(index)?;
        if netlink.port != 0 {
            return match asked == 0 || asked == netlink.port {
                true => Ok(()),
                false => fail(EINVAL),
            };
        }
        let port = match asked {
            0 => {
                let mut port = self.caller(cx);
                while port == 0 || self.netlink_ports.contains(&(protocol, port)) {
                    port = self.random_word() as u32 | 0x8000_0000;
                }
                port
            }
            asked if self.netlink_ports.contains(&(protocol, asked)) => return fail(EADDRINUSE),
            asked => asked,
        };
        if !self.netlink_ports.insert((protocol, port), index) {
            return fail(ENOMEM);
        }
        self.netlink(index)?.0.port = port;
        Ok(())
    }

    pub(crate) fn bind_netlink(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let [_, low, _, word, ..] = cx.request.words;
        if word >> 16 & 0xffff != NETLINK {
            return fail(EINVAL);
        }
        self.name_netlink(cx, index, low as u32)?;
        // The first 32 groups are as it says; others stay.
        let further = self.further(index);
        self.leave_groups(further, u64::from(!((low >> 32) as u32)));
        self.join_groups(further, low >> 32)
    }

    pub(crate) fn connect_netlink(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let [_, low, _, word, ..] = cx.request.words;
        let (port, groups) = (low as u32, (low >> 32) as u32);
        match word >> 16 & 0xffff {
            0 => {
                self.netlink(index)?.0.peer = (0, 0);
                return Ok(());
            }
            NETLINK => {}
            _ => return fail(EINVAL),
        }
        if (port, groups) != (0, 0) && !self.has_capability(cx, NET_ADMIN) {
            return fail(EPERM);
        }
        self.name_netlink(cx, index, 0)?;
        self.netlink(index)?.0.peer = (port, groups);
        Ok(())
    }

    pub(crate) fn netlink_name<'a>(&mut self, index: u32, whose: u64) -> Answer<Reply<'a>> {
        let (netlink, _) = self.netlink(index)?;
        let (port, groups) = match whose {
            0 => (netlink.port, netlink.groups as u32),
            _ => netlink.peer,
        };
        let low = u64::from(port) | u64::from(groups) << 32;
        Ok(Reply::new(&[0, low, 0, NETLINK << 16]))
    }

    fn join_groups(&mut self, further: u32, groups: u64) -> Answer<()> {
        let Some(netlink) = self.netlinks.get_mut(further) else {
            return fail(EBADF);
        };
        if groups == 0 {
            return Ok(());
        }
        if netlink.groups == 0 {
            if self.subscribers.try_reserve(1).is_err() {
                return fail(ENOMEM);
            }
            netlink.place = self.subscribers.len();
            self.subscribers.push(further);
        }
        netlink.groups |= groups;
        Ok(())
    }

    fn leave_groups(&mut self, further: u32, groups: u64) {
        let Some(netlink) = self.netlinks.get_mut(further) else {
            return;
        };
        let had = netlink.groups;
        netlink.groups &= !groups;
        if had == 0 || netlink.groups != 0 {
            return;
        }
        let place = netlink.place;
        self.subscribers.swap_remove(place);
        let moved = self.subscribers.get(place).copied();
        if let Some(moved) = moved.and_then(|moved| self.netlinks.get_mut(moved)) {
            moved.place = place;
        }
    }

    // ---- options of SOL_NETLINK

    pub(crate) fn set_netlink_option(&mut self, index: u32, number: u32, value: u32) -> Answer<()> {
        let further = self.further(index);
        let (netlink, _) = self.netlink(index)?;
        match number {
            ADD_MEMBERSHIP | DROP_MEMBERSHIP if value == 0 || value > GROUPS => fail(EINVAL),
            ADD_MEMBERSHIP => self.join_groups(further, 1 << (value - 1)),
            DROP_MEMBERSHIP => {
                self.leave_groups(further, 1 << (value - 1));
                Ok(())
            }
            number if number < 32 && SWITCHES >> number & 1 != 0 => {
                netlink.options =
                    netlink.options & !(1 << number) | u32::from(value != 0) << number;
                Ok(())
            }
            _ => fail(ENOPROTOOPT),
        }
    }

    pub(crate) fn get_netlink_option(&mut self, index: u32, number: u32) -> Answer<u64> {
        let (netlink, _) = self.netlink(index)?;
        match number {
            LIST_MEMBERSHIPS => {
                let groups = netlink.groups;
                self.scratch.extend_from_slice(&groups.to_ne_bytes());
                Ok(0)
            }
            number if number < 32 && SWITCHES >> number & 1 != 0 => {
                Ok(u64::from(netlink.options >> number & 1))
            }
            _ => fail(ENOPROTOOPT),
        }
    }

    // ---- what comes from programs

    pub(crate) fn send_netlink(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        sent: &Sent,
    ) -> Answer<usize> {
        if length > REQUEST || length + 32 > self.socket(index)?.options.send_buffer as usize {
            return fail(EMSGSIZE);
        }
        self.name_netlink(cx, index, 0)?;
        let (netlink, protocol) = self.netlink(index)?;
        let (port, groups) = match sent.to {
            Some(to) => {
                let [low, _] = to.address.words();
                (low as u32, (low >> 32) as u32)
            }
            None => netlink.peer,
        };
        // To other programs: that is not for everybody.
        if (port, groups) != (0, 0) {
            if !self.has_capability(cx, NET_ADMIN) {
                return fail(EPERM);
            }
            let own = self.netlink(index)?.0.port;
            let bytes = fetched(cx, length, ENOBUFS)?;
            if groups != 0 {
                self.tell(cx, protocol, u64::from(groups), &bytes, own);
            }
            if port == 0 {
                return Ok(length);
            }
            let Some(to) = self.netlink_ports.get(&(protocol, port)).copied() else {
                return fail(ECONNREFUSED);
            };
            self.give_netlink(cx, to, bytes, endpoint(own, 0));
            return Ok(length);
        }
        let bytes = fetched(cx, length, ENOBUFS)?;
        let mut rest = &bytes[..];
        for _ in 0..MESSAGES {
            let Some((message, next)) = Message::first(rest) else {
                break;
            };
            rest = next;
            self.message_arrives(cx, index, protocol, &message);
        }
        Ok(length)
    }

    fn message_arrives(&mut self, cx: &mut Context, index: u32, protocol: u8, message: &Message) {
        if message.flags & flag::REQUEST == 0 {
            return;
        }
        let result = match u64::from(protocol) {
            _ if message.kind < FIRST_TYPE => Ok(Outcome::Done),
            ROUTE => self.route_message(cx, index, message),
            SOCK_DIAG => self.diag_message(cx, message),
            _ => Err(EOPNOTSUPP),
        };
        let result = result.and_then(|outcome| match outcome {
            Outcome::Done => Ok(true),
            Outcome::Dump(what) => self.begin_dump(index, what, message.seq),
        });
        match result {
            Err(error) => self.acknowledge(cx, index, message, -(error as i32)),
            // A dump tells by its end that it was done.
            Ok(false) => self.go_on(cx, index),
            Ok(true) if message.flags & flag::ACK != 0 => self.acknowledge(cx, index, message, 0),
            Ok(true) => {}
        }
    }

    fn begin_dump(&mut self, index: u32, what: What, seq: u32) -> Result<bool, i64> {
        let (netlink, _) = self.netlink(index).map_err(|_| EBADF)?;
        if netlink.dump.is_some() {
            return Err(EBUSY);
        }
        let place = 0;
        netlink.dump = Some(Dump { what, seq, place });
        Ok(false)
    }

    /// NLMSG_ERROR, which with 0 is none.
    fn acknowledge(&mut self, cx: &mut Context, index: u32, message: &Message, error: i32) {
        let Ok((netlink, _)) = self.netlink(index) else {
            return;
        };
        let cut = message.whole.len() < word(message.whole, 0) as usize;
        let capped = cut || error == 0 || netlink.options & CAP_ACK != 0;
        let port = netlink.port;
        let quoted = match capped {
            true => &message.whole[..message::HEADER],
            false => message.whole,
        };
        let flags = if capped { flag::CAPPED } else { 0 };
        let Some(mut builder) =
            Builder::new(message::HEADER + 8 + quoted.len().next_multiple_of(4))
        else {
            return self.overrun(cx, index);
        };
        builder.message((ERROR, flags, message.seq, port), |to| {
            to.put(&error.to_ne_bytes());
            to.put(quoted);
            // (The length of an answer is a multiple of four, as on Linux, whatever it quotes.)
            to.put(&[0; 3][..quoted.len().next_multiple_of(4) - quoted.len()]);
        });
        self.give_netlink(cx, index, builder.bytes, endpoint(0, 0));
    }

    // ---- what goes to programs

    /// The next piece of a dump, if there is one and nothing waits.
    pub(crate) fn go_on(&mut self, cx: &mut Context, index: u32) {
        let waits = self.sockets.get_mut(index).and_then(Socket::queue_mut);
        if waits.is_none_or(|queue| !queue.is_empty()) {
            return;
        }
        let Ok((netlink, _)) = self.netlink(index) else {
            return;
        };
        let (port, Some(dump)) = (netlink.port, netlink.dump) else {
            return;
        };
        let to = To {
            seq: dump.seq,
            port,
            flags: flag::MULTI,
        };
        let Some(mut builder) = Builder::new(PIECE) else {
            return self.overrun(cx, index);
        };
        let (mut place, mut looks) = (Some(dump.place), 0);
        // (A look may find nothing in many places; then the next one is taken at once: who reads is to have something.)
        while let Some(at) = place {
            place = match dump.what {
                What::Sockets(asked) => self.put_sockets(&mut builder, to, &asked, at),
                What::Local(asked) | What::LocalOne(asked, _) => {
                    self.put_local(&mut builder, to, &asked, at)
                }
                _ => self.put_route_messages(&mut builder, to, &dump.what, at),
            };
            looks += 1;
            let found = !builder.bytes.is_empty();
            if builder.bytes.len() > PIECE / 2
                || looks >= LOOKS && (found || self.leave_dump(cx, index))
            {
                break;
            }
        }
        if let What::LocalOne(_, quoted) = dump.what {
            return self.tell_one(cx, index, &quoted, place, builder);
        }
        let done = place.is_none() && {
            let put = |to: &mut Builder| to.put(&[0; 4]);
            builder.message((DONE, flag::MULTI, dump.seq, port), put)
        };
        if let Ok((netlink, _)) = self.netlink(index) {
            netlink.dump = match done {
                true => None,
                false => Some(Dump {
                    place: place.unwrap_or(u64::MAX),
                    ..dump
                }),
            };
        }
        if !builder.bytes.is_empty() {
            self.give_netlink(cx, index, builder.bytes, endpoint(0, 0));
        }
    }

    /// Go on with a dump in the background, where others are served between. False: it is to be done now.
    fn leave_dump(&mut self, cx: &mut Context, index: u32) -> bool {
        let further = self.further(index);
        let waits = self.netlinks.get(further).is_some_and(|of| of.later);
        if !waits && (self.dumps.try_reserve(1).is_err() || !cx.begin_background()) {
            return false;
        }
        if let (Some(netlink), false) = (self.netlinks.get_mut(further), waits) {
            netlink.later = true;
            self.dumps.push_back(index);
        }
        true
    }

    /// The next dump that was left goes on. Are there others?
    pub(crate) fn dump_next(&mut self, cx: &mut Context) -> bool {
        if let Some(index) = self.dumps.pop_front() {
            if let Ok((netlink, _)) = self.netlink(index) {
                netlink.later = false;
            }
            self.go_on(cx, index);
        }
        !self.dumps.is_empty()
    }

    /// Something did not reach a socket: its reader is told once.
    fn overrun(&mut self, cx: &mut Context, index: u32) {
        let silent = self
            .netlink(index)
            .is_ok_and(|(netlink, _)| netlink.options & NO_ENOBUFS != 0);
        if let (Some(socket), false) = (self.sockets.get_mut(index), silent) {
            socket.error = ENOBUFS;
            cx.wake(key(index, READABLE));
            cx.wake(key(index, WRITABLE));
        }
    }

    fn give_netlink(&mut self, cx: &mut Context, index: u32, bytes: Vec<u8>, from: Endpoint) {
        let payload = Payload {
            start: 0,
            end: bytes.len(),
        };
        let arrived = Arrived {
            packet: Packet::received(bytes, 0),
            header: Header::default(),
            payload,
            interface: 0,
            several: false,
        };
        if !self.queue_datagram(cx, index, from, arrived, payload) {
            if let Ok((netlink, _)) = self.netlink(index) {
                netlink.dump = None;
            }
            self.overrun(cx, index);
        }
    }

    /// A message for all that have one of these groups.
    pub(crate) fn tell(
        &mut self,
        cx: &mut Context,
        protocol: u8,
        groups: u64,
        bytes: &[u8],
        from: u32,
    ) {
        for at in 0..self.subscribers.len() {
            let further = self.subscribers[at];
            let Some(netlink) = self.netlinks.get(further) else {
                continue;
            };
            let (index, port) = (netlink.socket, netlink.port);
            let of_protocol = |of: &Socket| of.protocol == protocol;
            if netlink.groups & groups == 0
                || port == from && from != 0
                || !self.sockets.get(index).is_some_and(of_protocol)
            {
                continue;
            }
            let mut copy = Vec::new();
            if copy.try_reserve_exact(bytes.len()).is_err() {
                self.overrun(cx, index);
                continue;
            }
            copy.extend_from_slice(bytes);
            self.give_netlink(cx, index, copy, endpoint(from, groups as u32));
        }
    }
}
