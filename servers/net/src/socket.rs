//! A socket: what a handle leads to. What a connection is, which may outlive it, is [`crate::stream`]'s.

use crate::address::{Address, Endpoint};
use crate::capture::filter::Filter;
use crate::corked::Held;
use crate::datagram::Queue;
use crate::headers::Headers;
use crate::options::Options;
use crate::packet::protocol;
use crate::ports::Claim;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use cairn_idl::fs::poll;
use cairn_idl::net::{DATAGRAM, INET, INET6, RAW, STREAM};
use cairn_resmgr::timeouts::Limits;

/// What listens.
pub struct Listener {
    pub backlog: usize,
    /// Connections that wait to be accepted.
    pub ready: VecDeque<u32>,
    /// Half-open ones, which are elsewhere.
    pub halves: usize,
    /// Where it stands among those that share its port.
    pub place: usize,
    /// What connections get that come now; None: it was changed, or there was none yet.
    pub heritage: Option<Rc<Heritage>>,
}

/// What a connection has of its listener: as that was when the connection came, not when it was accepted.
pub struct Heritage {
    pub options: Options,
    pub limits: Limits,
    pub wanted: Option<Rc<Filter>>,
    pub payer: u32,
}

impl Heritage {
    pub fn memory(&self) -> usize {
        size_of::<Heritage>() + self.wanted.as_ref().map_or(0, |of| of.memory())
    }
}

pub enum State {
    /// A stream socket that is nothing yet, or nothing any more.
    Fresh,
    Listening(Listener),
    Stream(u32),
    Datagram(Queue),
}

pub struct Socket {
    pub family: u64,
    pub kind: u64,
    pub protocol: u8,
    pub ino: u64,
    pub uid: u32,
    pub gid: u32,
    /// Whom all that is kept for it is charged to.
    pub payer: u32,
    /// Its port is 0 if it has none.
    pub local: Endpoint,
    pub scope: u32,
    pub remote: Option<Endpoint>,
    /// Its own part of a port; a connection has another one.
    pub claim: Option<Claim>,
    /// The address was asked for, not only found by a route; the port too.
    pub address_bound: bool,
    pub port_bound: bool,
    pub state: State,
    pub options: Options,
    pub limits: Limits,
    /// What the next call is told, once.
    pub error: i64,
    pub reads: bool,
    pub writes: bool,
    /// The number of its record of another family ([`crate::netlink`]), or [`NOTHING`].
    pub further: u32,
    /// Of a raw socket: a bit for each type of ICMP that it does not want, as it lies in `struct icmp6_filter`.
    pub filter: [u8; FILTER],
    /// The beginning of a datagram that more sends make.
    pub held: Option<Box<Held>>,
    /// Sends of MSG_ZEROCOPY that there were, and of how many the sender was told that they are done.
    pub copied: u32,
    pub copied_told: u32,
    /// What it adds to the headers of its packets.
    pub headers: Option<Rc<Headers>>,
    /// SO_ATTACH_FILTER; what it brings to a port that it will share (SO_ATTACH_REUSEPORT_CBPF).
    pub wanted: Option<Rc<Filter>>,
    pub chooser: Option<Rc<Filter>>,
}

pub const NOTHING: u32 = u32::MAX;
/// IP_HDRINCL, which a socket of the protocol IPPROTO_RAW has from the beginning.
const HEADER_INCLUDED: u32 = 3;
/// The same of IPv6.
pub const HEADER_INCLUDED_V6: u32 = 36;
/// Bytes of `struct icmp6_filter`.
pub const FILTER: usize = 32;

impl Socket {
    pub fn new(
        (family, kind, protocol): (u64, u64, u8),
        ino: u64,
        (uid, gid, payer): (u32, u32, u32),
    ) -> Socket {
        let any = match family {
            INET => Address::ANY_V4,
            _ => Address::ANY,
        };
        Socket {
            family,
            kind,
            protocol,
            ino,
            uid,
            gid,
            payer,
            local: Endpoint::new(any, 0),
            scope: 0,
            remote: None,
            claim: None,
            address_bound: false,
            port_bound: false,
            state: match kind {
                STREAM => State::Fresh,
                _ => State::Datagram(Queue::default()),
            },
            options: match (family, kind, protocol) {
                (INET, RAW, u8::MAX) => Options {
                    ip: Options::new(kind).ip | 1 << HEADER_INCLUDED,
                    ..Options::new(kind)
                },
                (INET6, RAW, u8::MAX) => Options {
                    ipv6: Options::new(kind).ipv6 | 1 << HEADER_INCLUDED_V6,
                    ..Options::new(kind)
                },
                _ => Options::new(kind),
            },
            limits: Limits::default(),
            error: 0,
            reads: true,
            writes: true,
            further: NOTHING,
            filter: [0; FILTER],
            held: None,
            copied: 0,
            copied_told: 0,
            headers: None,
            wanted: None,
            chooser: None,
        }
    }

    pub fn is_v4(&self) -> bool {
        self.family == INET
    }

    pub fn is_stream(&self) -> bool {
        self.kind == STREAM
    }

    /// Of UDP, or of UDP-Lite, which differs from it in what its sums cover.
    pub fn is_udp(&self) -> bool {
        self.kind == DATAGRAM
            && matches!(self.family, INET | INET6)
            && matches!(self.protocol, protocol::UDP | protocol::UDP_LITE)
    }

    pub fn is_lite(&self) -> bool {
        self.is_udp() && self.protocol == protocol::UDP_LITE
    }

    pub fn is_raw(&self) -> bool {
        self.kind == RAW
    }

    /// IP_HDRINCL, IPV6_HDRINCL: what it sends begins with a header of its family.
    pub fn makes_headers(&self) -> bool {
        match self.is_v4() {
            true => self.options.ip >> HEADER_INCLUDED & 1 != 0,
            false => self.options.ipv6 >> HEADER_INCLUDED_V6 & 1 != 0,
        }
    }

    /// Packets of IPv4 are for it as well as those of IPv6.
    pub fn is_dual(&self) -> bool {
        !self.is_v4() && !self.options.only_v6
    }

    /// Does it want messages of ICMP of this type?
    pub fn wants(&self, kind: u8) -> bool {
        let (word, bit) = (usize::from(kind >> 5) * 4, u32::from(kind & 31));
        let bytes = self.filter[word..].first_chunk();
        bytes.is_none_or(|bytes| u32::from_ne_bytes(*bytes) >> bit & 1 == 0)
    }

    pub fn listener(&self) -> Option<&Listener> {
        match &self.state {
            State::Listening(listener) => Some(listener),
            _ => None,
        }
    }

    pub fn listener_mut(&mut self) -> Option<&mut Listener> {
        match &mut self.state {
            State::Listening(listener) => Some(listener),
            _ => None,
        }
    }

    pub fn queue_mut(&mut self) -> Option<&mut Queue> {
        match &mut self.state {
            State::Datagram(queue) => Some(queue),
            _ => None,
        }
    }

    /// Which datagram a look with SO_PEEK_OFF finds, and where in it.
    #[cold]
    pub fn peek_place(&mut self) -> (usize, usize) {
        let mut left = self.options.peek_from.max(0) as usize;
        let Some(queue) = self.queue_mut() else {
            return (0, 0);
        };
        let found = queue.waiting.iter().position(|each| {
            let length = each.bytes().len();
            // (One without bytes is found once.)
            let passed = left >= length && (length != 0 || left != 0 || each.peeked);
            left -= if passed { length } else { 0 };
            !passed
        });
        match found {
            Some(nth) => (nth, left),
            None => (queue.waiting.len(), 0),
        }
    }

    pub fn take_error(&mut self) -> Option<i64> {
        match core::mem::take(&mut self.error) {
            0 => None,
            number => Some(number),
        }
    }

    /// Of one that has no connection.
    pub fn ready(&self) -> u64 {
        const READABLE: u64 = poll::IN | poll::RDNORM;
        const WRITABLE: u64 = poll::OUT | poll::WRNORM;
        let error = match self.error != 0 || self.copied != self.copied_told {
            true => poll::ERR,
            false => 0,
        };
        match &self.state {
            State::Listening(listener) if listener.ready.is_empty() => error,
            State::Listening(_) => error | READABLE,
            State::Fresh => error | WRITABLE | poll::HUP,
            State::Stream(_) => error,
            State::Datagram(queue) => {
                let mut ready = error | WRITABLE;
                if !queue.faults.is_empty() {
                    ready |= poll::ERR;
                }
                if !queue.is_empty() {
                    ready |= READABLE;
                }
                if !self.reads {
                    ready |= READABLE | poll::RDHUP;
                    if !self.writes {
                        ready |= poll::HUP;
                    }
                }
                ready
            }
        }
    }
}
