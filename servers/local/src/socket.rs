//! A socket: its state, what it has to read, what it tells its peer, and what it is ready for.

use crate::names::Name;
use crate::queue::{Credentials, Queue, CAPACITY};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::fs::poll;
use cairn_idl::local::{SEQPACKET, STREAM};
use cairn_resmgr::timeouts::Limits;

/// A socket that may be gone: its place, and the number that no other one ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub socket: u32,
    pub ino: u64,
}

/// Datagrams are received with the time when they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    pub nanoseconds: bool,
    pub last: u64,
}

pub enum State {
    /// Of a datagram socket this says nothing.
    Unconnected,
    Connected,
    /// How many may wait to be accepted beside one, and those that do.
    Listening {
        backlog: usize,
        waiting: VecDeque<u32>,
    },
}

pub struct Socket {
    pub kind: u64,
    pub ino: u64,
    pub uid: u32,
    pub gid: u32,
    /// Permissions: those of its name, if it gets one.
    pub mode: u32,
    /// Who pays for it, and for what it has sent to a peer.
    pub payer: u32,
    pub state: State,
    /// The other end; of a datagram socket whom it sends to. It may be gone.
    pub peer: Option<Peer>,
    /// Of a datagram socket: it was connected to another one, or another one to it.
    pub joined: bool,
    pub queue: Queue,
    /// Something may still be received; may still be sent.
    /// The present request brought an urgent byte: who wants SIGURG is told by POLLMSG.
    pub urgent_news: bool,
    pub reads: bool,
    pub writes: bool,
    /// What the next receive (or SO_ERROR) is told, once.
    pub error: i64,
    /// Most bytes of its own that may wait at a peer.
    pub send_limit: usize,
    pub receive_limit: u64,
    pub limits: Limits,
    /// SO_PASSCRED, and other switches that are only remembered.
    pub wants_credentials: bool,
    pub switches: u64,
    /// Options with a number that is only remembered, where it is not the usual one.
    pub numbers: Vec<(u64, u64)>,
    /// SO_PEEK_OFF: where the next MSG_PEEK begins.
    pub peek_from: Option<usize>,
    /// SO_TIMESTAMP, SO_TIMESTAMPNS: what came last was sent then (ns since 1970).
    pub stamps: Option<Stamps>,
    pub name: Option<Rc<Name>>,
    /// Its address, if file servers or senders may have one.
    pub address: Option<u32>,
    pub peer_name: Option<Rc<Name>>,
    /// SO_PEERCRED; of one that listens: what it will tell its peers.
    pub peer_credentials: Option<Credentials>,
    /// SO_PEERGROUPS, as it goes to the program.
    pub peer_groups: Vec<u8>,
    /// It waits to be accepted by this one.
    pub embryo_of: Option<u32>,
    /// How often it is on its way in queues.
    pub in_flight: u32,
    /// The round of [`crate::cycles`] that has found it in use.
    pub seen: u64,
    /// Who pays for its queue's memory, and for how much.
    pub paid: (u32, usize),
}

impl Socket {
    pub fn new(kind: u64, ino: u64, uid: u32, gid: u32) -> Socket {
        Socket {
            kind,
            ino,
            uid,
            gid,
            mode: 0o777,
            payer: uid,
            state: State::Unconnected,
            peer: None,
            joined: false,
            queue: Queue::default(),
            reads: true,
            writes: true,
            error: 0,
            send_limit: CAPACITY,
            receive_limit: CAPACITY as u64,
            limits: Limits::default(),
            wants_credentials: false,
            switches: 0,
            numbers: Vec::new(),
            peek_from: None,
            urgent_news: false,
            stamps: None,
            name: None,
            address: None,
            peer_name: None,
            peer_credentials: None,
            peer_groups: Vec::new(),
            embryo_of: None,
            in_flight: 0,
            seen: 0,
            paid: (uid, 0),
        }
    }

    /// This account pays.
    pub fn pays(&mut self, payer: u32) {
        (self.payer, self.paid) = (payer, (payer, 0));
    }

    /// It has an other end, not only someone whom it sends to.
    pub fn has_connections(&self) -> bool {
        matches!(self.kind, STREAM | SEQPACKET)
    }

    #[inline(always)]
    pub fn is_stream(&self) -> bool {
        self.kind == STREAM
    }

    #[inline(always)]
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected)
    }

    /// SO_OOBINLINE: an urgent byte is read where it stands.
    pub fn is_inline(&self) -> bool {
        const INLINE: u64 = 10;
        self.switches >> INLINE & 1 != 0
    }

    pub fn is_listening(&self) -> bool {
        matches!(self.state, State::Listening { .. })
    }

    /// FIONREAD: bytes that wait; of datagrams the first one's.
    pub fn unread(&self) -> usize {
        match self.has_connections() {
            true => self.queue.bytes() - self.queue.taken,
            false => self.queue.segments.front().map_or(0, |first| first.length),
        }
    }

    pub fn take_error(&mut self) -> Option<i64> {
        match core::mem::take(&mut self.error) {
            0 => None,
            number => Some(number),
        }
    }

    /// `at_peer`: bytes and whether there is no room at all where it sends to.
    pub fn ready(&self, at_peer: Option<(usize, bool)>) -> u64 {
        let mut ready = 0;
        if self.error != 0 {
            ready |= poll::ERR;
        }
        if !self.reads {
            ready |= poll::RDHUP | poll::IN | poll::RDNORM;
            if !self.writes {
                ready |= poll::HUP;
            }
        }
        let readable = match &self.state {
            State::Listening { waiting, .. } => {
                if !waiting.is_empty() {
                    ready |= poll::IN | poll::RDNORM;
                }
                return ready;
            }
            _ => self.queue.is_readable(),
        };
        if self.queue.urgent != 0 {
            ready |= poll::PRI;
        }
        if self.urgent_news {
            ready |= poll::MSG;
        }
        if readable {
            ready |= poll::IN | poll::RDNORM;
        }
        if self.has_connections() && !self.is_connected() {
            ready |= poll::HUP;
        }
        let (bytes, full) = at_peer.unwrap_or((0, false));
        if bytes.saturating_mul(4) <= self.send_limit && !full {
            ready |= poll::OUT | poll::WRNORM;
        }
        ready
    }
}
