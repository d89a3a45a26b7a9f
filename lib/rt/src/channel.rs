//! The receiving side: wait for messages and pulses, read and write a blocked caller's parts, reply.

use crate::gate::{selector, traverse, Gate};
use crate::portal::Portal;
use cairn_abi::service::{current, receive, AUTO};
use cairn_abi::{flag, received, rights, Error, Id, Token};

/// The receive right of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver(pub Portal);

/// What a receive delivered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// [`received::kind`].
    pub kind: u8,
    pub words: [u64; 8],
    pub badge: u64,
    /// The blocked caller (0 for pulses).
    pub token: Token,
    /// The caller's domain.
    pub sender: Id,
    pub label: u64,
    /// Length of the caller's out part, of its in part.
    pub out_len: usize,
    pub in_len: usize,
    /// How many of the last words are portals that arrived.
    pub portals: usize,
    /// The caller may be interrupted (an UNBLOCK pulse may follow).
    pub interruptible: bool,
}

/// A reply: words, optional data for the caller's in part, optional portals (copied, moved or minted).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply<'a> {
    pub words: [u64; 8],
    pub data: &'a [u8],
    /// Where in the caller's in part the data goes.
    pub offset: u64,
    pub portals: u64,
    /// [`flag::MOVE`] or [`flag::MINT`].
    pub flags: u64,
}

impl<'a> Reply<'a> {
    pub fn new(words: &[u64]) -> Reply<'a> {
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        Reply {
            words: w,
            ..Reply::default()
        }
    }

    /// Result word only: a count or −errno.
    pub fn result(value: i64) -> Reply<'a> {
        Reply::new(&[value as u64])
    }

    pub fn data(mut self, bytes: &'a [u8]) -> Self {
        self.data = bytes;
        self
    }

    /// Mint a new portal with this badge for the caller (in w7).
    pub fn mint(mut self, badge: u64) -> Self {
        self.words[7] = badge;
        self.portals = 1;
        self.flags |= flag::MINT;
        self
    }

    /// Pass a portal (in w7); it leaves this table if `moved`.
    pub fn portal(mut self, portal: Portal, moved: bool) -> Self {
        self.words[7] = portal.0 as u64;
        self.portals = 1;
        if moved {
            self.flags |= flag::MOVE;
        }
        self
    }
}

impl Receiver {
    /// A new channel of this domain.
    pub fn create() -> Result<Receiver, Error> {
        let words = Portal::CURRENT.service(current::CHANNEL_CREATE, &[])?;
        Ok(Receiver(Portal(words[0] as u32)))
    }

    /// A new portal to this channel.
    pub fn make_portal(self, badge: u64) -> Result<Portal, Error> {
        let words = self
            .0
            .service(receive::MAKE_PORTAL, &[badge, rights::DEFAULT as u64, AUTO])?;
        Ok(Portal(words[0] as u32))
    }

    /// Wait for a message or pulse, until `deadline` (absolute ns) if given.
    pub fn receive(self, deadline: Option<u64>) -> Result<Received, Error> {
        arm(deadline);
        let mut gate = Gate {
            rax: selector(self.0 .0, receive::RECEIVE, 0),
            ..Gate::default()
        };
        // SAFETY: a receive writes registers only.
        unsafe { traverse(&mut gate) };
        delivered(&gate)
    }

    /// A message or pulse if one waits, else `TimedOut`.
    pub fn poll(self) -> Result<Received, Error> {
        let mut gate = Gate {
            rax: selector(self.0 .0, receive::RECEIVE, flag::POLL),
            ..Gate::default()
        };
        // SAFETY: a receive writes registers only.
        unsafe { traverse(&mut gate) };
        delivered(&gate)
    }

    /// Let the caller behind `token` go on.
    pub fn reply(self, token: Token, reply: Reply) -> Result<(), Error> {
        let mut gate = self.gate(receive::REPLY, token, &reply);
        // SAFETY: the data is borrowed until the reply returns and only read.
        unsafe { traverse(&mut gate) };
        gate.result()
    }

    /// Reply and receive in one entry. If the reply fails nothing was received and its error is returned.
    pub fn reply_receive(
        self,
        token: Token,
        reply: Reply,
        deadline: Option<u64>,
    ) -> Result<Received, Error> {
        arm(deadline);
        let mut gate = self.gate(receive::REPLY_RECEIVE, token, &reply);
        // SAFETY: the data is borrowed until the reply is done and only read; the receive writes registers only.
        unsafe { traverse(&mut gate) };
        delivered(&gate)
    }

    /// As [`Receiver::receive`], into a place that is used again and again (a server's loop).
    #[inline]
    pub fn receive_into(self, deadline: Option<u64>, into: &mut Received) -> Result<(), Error> {
        arm(deadline);
        let mut gate = Gate {
            rax: selector(self.0 .0, receive::RECEIVE, 0),
            ..Gate::default()
        };
        // SAFETY: a receive writes registers only.
        unsafe { traverse(&mut gate) };
        deliver(&gate, into)
    }

    /// As [`Receiver::reply_receive`], into a place that is used again and again.
    #[inline]
    pub fn reply_receive_into(
        self,
        token: Token,
        reply: &Reply,
        deadline: Option<u64>,
        into: &mut Received,
    ) -> Result<(), Error> {
        arm(deadline);
        let mut gate = self.gate(receive::REPLY_RECEIVE, token, reply);
        // SAFETY: the data is borrowed until the reply is done and only read; the receive writes registers only.
        unsafe { traverse(&mut gate) };
        deliver(&gate, into)
    }

    #[inline]
    fn gate(self, operation: u8, token: Token, reply: &Reply) -> Gate {
        let parts = if reply.data.is_empty() {
            0
        } else {
            flag::PARTS
        };
        Gate {
            rax: selector(
                self.0 .0,
                operation,
                reply.flags | parts | flag::portals(reply.portals),
            ),
            words: reply.words,
            rbx: reply.offset,
            rbp: token,
            r14: reply.data.as_ptr() as u64,
            r15: reply.data.len() as u64,
        }
    }

    /// Copy from the caller's out part; short only at its end.
    pub fn read(self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let length = into.len() as u64;
        let words = self
            .0
            .service_into(receive::READ, &[token, offset, 0, length], 2, into)?;
        Ok(words[0] as usize)
    }

    /// Copy into the caller's in part; short only at its end.
    pub fn write(self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error> {
        let words = self.0.service(
            receive::WRITE,
            &[token, offset, from.as_ptr() as u64, from.len() as u64],
        )?;
        Ok(words[0] as usize)
    }
}

fn arm(deadline: Option<u64>) {
    if let Some(deadline) = deadline {
        let _ = Portal::CURRENT.service(current::DEADLINE, &[deadline.max(1)]);
    }
}

fn delivered(gate: &Gate) -> Result<Received, Error> {
    let mut received = Received::default();
    deliver(gate, &mut received)?;
    Ok(received)
}

#[inline]
fn deliver(gate: &Gate, into: &mut Received) -> Result<(), Error> {
    gate.result()?;
    into.kind = (gate.rax >> received::KIND_SHIFT) as u8;
    into.words = gate.words;
    into.badge = gate.rbx;
    into.token = gate.rbp;
    into.sender = (gate.rax >> received::SENDER_SHIFT) as u32;
    into.label = gate.r14;
    into.out_len = gate.r15 as u32 as usize;
    into.in_len = (gate.r15 >> 32) as usize;
    into.portals = (gate.rax >> received::PORTALS_SHIFT) as usize & 15;
    into.interruptible = gate.rax & received::INTERRUPTIBLE != 0;
    Ok(())
}
