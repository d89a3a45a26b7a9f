//! The receiving side: wait for messages and pulses, read and write a blocked caller's parts, reply.

use crate::gate::{exchange, selector, send};
use crate::portal::Portal;
use cairn_abi::layout::{NATIVE_COUNTS, PAGE};
use cairn_abi::service::{current, receive, AUTO};
use cairn_abi::{flag, received, rights, Error, Id, Token};

/// The receive right of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver(pub Portal);

/// What a receive delivered.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Received {
    // The first four as `gate::exchange` stores them.
    pub words: [u64; 8],
    pub badge: u64,
    /// The blocked caller (0 for pulses).
    pub token: Token,
    pub label: u64,
    /// Length of the caller's out part, of its in part.
    pub out_len: usize,
    pub in_len: usize,
    /// How many of the last words are portals that arrived.
    pub portals: usize,
    /// The caller's domain.
    pub sender: Id,
    /// [`received::kind`].
    pub kind: u8,
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

    /// A line of the channel's signature: [`receive::SIGN`].
    pub fn sign(self, line: &[u64]) -> Result<(), Error> {
        self.0.service(receive::SIGN, line).map(|_| ())
    }

    /// A new portal to this channel.
    pub fn make_portal(self, badge: u64) -> Result<Portal, Error> {
        let words = self
            .0
            .service(receive::MAKE_PORTAL, &[badge, rights::DEFAULT as u64, AUTO])?;
        Ok(Portal(words[0] as u32))
    }

    /// A new portal to this channel whose holder opens others to it in this component's place ([`Portal::open`]), with badges of its choice above this one (a multiple of 2^32).
    pub fn make_delegate(self, badge: u64) -> Result<Portal, Error> {
        let may = u64::from(rights::DEFAULT | rights::OPEN);
        let words = self.0.service(receive::MAKE_PORTAL, &[badge, may, AUTO])?;
        Ok(Portal(words[0] as u32))
    }

    /// The next portal to this channel that somebody has, behind this place (0: the first): its place, and its badge. None: there are no more.
    pub fn next_badge(self, place: u64) -> Result<Option<(u64, u64)>, Error> {
        let words = self.0.service(receive::NEXT_BADGE, &[place])?;
        Ok((words[0] != 0).then_some((words[0], words[1])))
    }

    /// Wait for a message or pulse, until `deadline` (absolute ns) if given.
    pub fn receive(self, deadline: Option<u64>) -> Result<Received, Error> {
        let mut received = Received::default();
        self.receive_into(deadline, &mut received)?;
        Ok(received)
    }

    /// A message or pulse if one waits, else `TimedOut`.
    pub fn poll(self) -> Result<Received, Error> {
        let mut received = Received::default();
        self.poll_into(&mut received)?;
        Ok(received)
    }

    /// As [`Receiver::poll`], into a place that is used again and again.
    pub fn poll_into(self, into: &mut Received) -> Result<(), Error> {
        let selector = selector(self.0 .0, receive::RECEIVE, flag::POLL);
        // SAFETY: a receive writes registers only.
        let (rax, lengths) = unsafe { exchange(selector, &[0; 8], 0, 0, &[], into) };
        deliver(rax, lengths, into)
    }

    /// Let the caller behind `token` go on.
    pub fn reply(self, token: Token, reply: Reply) -> Result<(), Error> {
        self.reply_with(token, &reply)
    }

    /// As [`Receiver::reply`], without a copy of the reply.
    #[inline]
    pub fn reply_with(self, token: Token, reply: &Reply) -> Result<(), Error> {
        let selector = self.selector(receive::REPLY, reply);
        // SAFETY: the data is borrowed until the reply returns and only read.
        let rax = unsafe { send(selector, &reply.words, reply.offset, token, reply.data) };
        match Error::from_code(rax as u8) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Reply and receive in one entry. If the reply fails nothing was received and its error is returned.
    pub fn reply_receive(
        self,
        token: Token,
        reply: Reply,
        deadline: Option<u64>,
    ) -> Result<Received, Error> {
        let mut received = Received::default();
        self.reply_receive_into(token, &reply, deadline, &mut received)?;
        Ok(received)
    }

    /// As [`Receiver::receive`], into a place that is used again and again (a server's loop). After an error nobody knows what is in it.
    #[inline]
    pub fn receive_into(self, deadline: Option<u64>, into: &mut Received) -> Result<(), Error> {
        arm(deadline);
        let selector = selector(self.0 .0, receive::RECEIVE, 0);
        // SAFETY: a receive writes registers only.
        let (rax, lengths) = unsafe { exchange(selector, &[0; 8], 0, 0, &[], into) };
        deliver(rax, lengths, into)
    }

    /// As [`Receiver::reply_receive`], into a place that is used again and again. After an error nobody knows what is in it.
    #[inline]
    pub fn reply_receive_into(
        self,
        token: Token,
        reply: &Reply,
        deadline: Option<u64>,
        into: &mut Received,
    ) -> Result<(), Error> {
        arm(deadline);
        let selector = self.selector(receive::REPLY_RECEIVE, reply);
        // SAFETY: the data is borrowed until the reply is done and only read; the receive writes registers only.
        let (rax, lengths) = unsafe {
            exchange(
                selector,
                &reply.words,
                reply.offset,
                token,
                reply.data,
                into,
            )
        };
        deliver(rax, lengths, into)
    }

    /// Reply with words only.
    #[inline]
    pub fn reply_words(self, token: Token, words: &[u64; 8]) -> Result<(), Error> {
        // SAFETY: a reply without parts touches registers only.
        let rax =
            unsafe { send::<u8>(selector(self.0 .0, receive::REPLY, 0), words, 0, token, &[]) };
        match Error::from_code(rax as u8) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Reply with the words in `received`, then receive into it: the shortest way round a server's loop.
    #[inline]
    pub fn reply_words_receive(
        self,
        token: Token,
        deadline: Option<u64>,
        received: &mut Received,
    ) -> Result<(), Error> {
        arm(deadline);
        let selector = selector(self.0 .0, receive::REPLY_RECEIVE, 0);
        let words = &raw const received.words;
        // SAFETY: the words are read before anything is stored; reply and receive touch registers only.
        let (rax, lengths) = unsafe { exchange(selector, words, 0, token, &[], received) };
        deliver(rax, lengths, received)
    }

    #[inline]
    fn selector(self, operation: u8, reply: &Reply) -> u64 {
        let parts = if reply.data.is_empty() {
            0
        } else {
            flag::PARTS
        };
        let flags = reply.flags | parts | flag::portals(reply.portals);
        selector(self.0 .0, operation, flags)
    }

    /// Copy from the caller's out part; short only at its end. One or two pages' length goes page by page, the short way behind the portal; of more the nucleus does more in one entry.
    pub fn read(self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let page = PAGE as usize;
        if into.len() <= page || into.len() > 2 * page {
            return self.read_once(token, offset, into);
        }
        let (first, second) = into.split_at_mut(page);
        match self.read_once(token, offset, first)? {
            done if done == page => Ok(page + self.read_once(token, offset + PAGE, second)?),
            done => Ok(done),
        }
    }

    #[inline(always)]
    fn read_once(self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let words = [token, offset, 0, into.len() as u64];
        let words = self.0.service_into(receive::READ, &words, 2, into)?;
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

/// One more was received: [`NATIVE_COUNTS`]. (Not locked: where two threads receive at the same moment one may not be counted.)
#[inline]
fn count() {
    const RECEIVED: u64 = NATIVE_COUNTS + 8;
    // SAFETY: the word is the component's own, above the first frame of its first stack ([`crate::entry!`]), and nothing else is there.
    unsafe { core::arch::asm!("inc qword ptr [{}]", in(reg) RECEIVED, options(nostack)) }
}

/// Take the rest of what was delivered out of `rax` and `r15`.
#[inline]
pub(crate) fn deliver(rax: u64, lengths: u64, into: &mut Received) -> Result<(), Error> {
    if let Some(error) = Error::from_code(rax as u8) {
        return Err(error);
    }
    count();
    into.kind = (rax >> received::KIND_SHIFT) as u8;
    into.sender = (rax >> received::SENDER_SHIFT) as u32;
    into.out_len = lengths as u32 as usize;
    into.in_len = (lengths >> 32) as usize;
    into.portals = received::portals(rax);
    into.interruptible = rax & received::INTERRUPTIBLE != 0;
    Ok(())
}
