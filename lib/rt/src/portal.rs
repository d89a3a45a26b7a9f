//! Portals as values, and the calls that go through them.

use crate::gate::{selector, traverse_words, Gate};
use crate::parts;
use cairn_abi::service::{current, AUTO};
use cairn_abi::{flag, layout, op, received, rights, Error};
use cairn_idl::wire::{self, Answer, Failure};

/// A slot of this domain's portal table. Dropping does not close it; [`Portal::close`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Portal(pub u32);

/// A message to send: words, the two parts, and portals to pass (they take the place of the last words).
#[derive(Debug, Default)]
pub struct Message<'a> {
    pub words: [u64; 8],
    pub out: &'a [u8],
    pub input: &'a mut [u8],
    /// How many of the last words are portals to pass.
    pub portals: u64,
    /// Extra flag bits ([`flag::INTERRUPTIBLE`], [`flag::MOVE`]).
    pub flags: u64,
}

impl<'a> Message<'a> {
    /// A message of words only; missing words are zero.
    pub fn new(words: &[u64]) -> Message<'a> {
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        Message {
            words: w,
            ..Message::default()
        }
    }

    pub fn out(mut self, bytes: &'a [u8]) -> Self {
        self.out = bytes;
        self
    }

    pub fn input(mut self, bytes: &'a mut [u8]) -> Self {
        self.input = bytes;
        self
    }

    /// Pass one portal (in w7).
    pub fn portal(mut self, portal: Portal) -> Self {
        self.words[7] = portal.0 as u64;
        self.portals = 1;
        self
    }
}

impl Portal {
    pub const CURRENT: Portal = Portal(layout::native_slot::CURRENT);

    /// Send and wait for the reply; returns its words. Portals that come with it are closed.
    #[inline]
    pub fn call(self, message: Message) -> Result<[u64; 8], Error> {
        self.ask(message).map(words_alone)
    }

    /// As [`Portal::call`], for an answer with so many portals, whose slots are in the last words. An error of the server's (w0 below 0) is one here, and so is another number of portals.
    pub fn call_for(self, message: Message, portals: usize) -> Result<[u64; 8], Failure> {
        wire::call(&self, message.into(), portals)
    }

    /// Send and wait for the reply, with which portals may come.
    pub fn ask(self, message: Message) -> Result<Answer, Error> {
        let flags = message.flags | flag::portals(message.portals);
        if message.out.is_empty() && message.input.is_empty() {
            // SAFETY: a call to a channel without parts touches no memory of the caller.
            let (rax, words) =
                unsafe { traverse_words(selector(self.0, op::CALL, flags), message.words) };
            return match Error::from_code(rax as u8) {
                None => Ok(answer(rax, words)),
                Some(error) => Err(error),
            };
        }
        let mut gate = Gate {
            rax: selector(self.0, op::CALL, flags | flag::PARTS),
            words: message.words,
            rbx: message.input.as_mut_ptr() as u64,
            rbp: message.input.len() as u64,
            r14: message.out.as_ptr() as u64,
            r15: message.out.len() as u64,
        };
        // SAFETY: the parts are slices that stay borrowed until the call returns; the in part is borrowed mutably.
        unsafe { gate.traverse() }.map(|()| answer(gate.rax, gate.words))
    }

    /// OR `value` into the portal's pulse. Never blocks.
    pub fn notify(self, value: u64) -> Result<(), Error> {
        self.service(op::NOTIFY, &[value]).map(|_| ())
    }

    /// A nucleus service operation whose words are no addresses of memory that it writes.
    pub fn service(self, operation: u8, words: &[u64]) -> Result<[u64; 8], Error> {
        self.service_flags(operation, words, 0)
    }

    /// As [`Portal::service`], where words tell something with an error as well.
    #[inline]
    pub fn service_counted(self, operation: u8, words: &[u64]) -> ([u64; 8], Result<(), Error>) {
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        // SAFETY: as in [`Portal::service_flags`].
        let (rax, words) = unsafe { traverse_words(selector(self.0, operation, 0), w) };
        (words, Error::from_code(rax as u8).map_or(Ok(()), Err))
    }

    /// As [`Portal::service`], with flag bits.
    pub fn service_flags(
        self,
        operation: u8,
        words: &[u64],
        flags: u64,
    ) -> Result<[u64; 8], Error> {
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        // SAFETY: by this function's contract the operation writes none of the caller's memory.
        let (rax, words) = unsafe { traverse_words(selector(self.0, operation, flags), w) };
        match Error::from_code(rax as u8) {
            None => Ok(words),
            Some(error) => Err(error),
        }
    }

    /// A nucleus service operation that writes to `buffer`, whose address goes in word `at`.
    pub fn service_into<T>(
        self,
        operation: u8,
        words: &[u64],
        at: usize,
        buffer: &mut [T],
    ) -> Result<[u64; 8], Error> {
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        w[at] = buffer.as_mut_ptr() as u64;
        // SAFETY: the buffer is borrowed mutably until the operation returns; the caller passes its length as the operation wants it.
        let (rax, words) = unsafe { traverse_words(selector(self.0, operation, 0), w) };
        match Error::from_code(rax as u8) {
            None => Ok(words),
            Some(error) => Err(error),
        }
    }

    pub fn close(self) {
        let _ = Portal::CURRENT.service(current::PORTAL_CLOSE, &[self.0 as u64]);
    }

    /// A portal that leads to the same place, with these of its rights, and can be taken back by [`Portal::revoke`] of this one.
    pub fn derive(self, mask: u16) -> Result<Portal, Error> {
        let words = [self.0 as u64, AUTO, mask as u64];
        let words = Portal::CURRENT.service(current::PORTAL_DERIVE, &words)?;
        Ok(Portal(words[0] as u32))
    }

    /// A new portal to the same channel, whose badge is this one's plus the number (1 to 2^32 − 1), with these of its rights. Only through one with [`rights::OPEN`], which it does not get.
    pub fn open(self, mask: u16, number: u64) -> Result<Portal, Error> {
        let words = [self.0 as u64, AUTO, mask as u64, number];
        let words = Portal::CURRENT.service(current::PORTAL_OPEN, &words)?;
        Ok(Portal(words[0] as u32))
    }

    /// Take back everything that was derived from this portal, and from that. Calls through it that no server has received yet end with `Revoked`.
    pub fn revoke(self) -> Result<(), Error> {
        Portal::CURRENT
            .service(current::PORTAL_REVOKE, &[self.0 as u64])
            .map(|_| ())
    }

    /// A second slot for the same object.
    pub fn duplicate(self) -> Result<Portal, Error> {
        let words = Portal::CURRENT.service(
            current::PORTAL_COPY,
            &[self.0 as u64, AUTO, rights::ALL as u64],
        )?;
        Ok(Portal(words[0] as u32))
    }
}

#[inline]
pub(crate) fn answer(rax: u64, words: [u64; 8]) -> Answer {
    Answer {
        words,
        portals: received::portals(rax),
    }
}

/// The words of an answer that should have no portals.
#[inline]
pub(crate) fn words_alone(answer: Answer) -> [u64; 8] {
    if answer.portals != 0 {
        close_all(&answer);
    }
    answer.words
}

#[cold]
fn close_all(answer: &Answer) {
    answer.slots().for_each(|slot| Portal(slot).close());
}

impl<'a> From<Message<'a>> for wire::Message<'a> {
    #[inline]
    fn from(message: Message<'a>) -> wire::Message<'a> {
        wire::Message {
            words: message.words,
            out: message.out,
            input: message.input,
            portals: message.portals,
            flags: message.flags,
        }
    }
}

impl wire::Transport for Portal {
    #[inline]
    fn call(&self, message: wire::Message) -> Result<Answer, Error> {
        let message = Message {
            words: message.words,
            out: message.out,
            input: message.input,
            portals: message.portals,
            flags: message.flags,
        };
        self.ask(message)
    }

    fn call_pieces(
        &self,
        message: wire::Message,
        out: &[&[u8]],
        input: &mut [&mut [u8]],
    ) -> Result<Answer, Error> {
        parts::call_pieces(*self, message, out, input)
    }

    fn close(&self, slot: u32) {
        Portal(slot).close();
    }
}

/// Monotonic nanoseconds, by the nucleus.
pub fn clock() -> u64 {
    Portal::CURRENT
        .service(current::CLOCK, &[])
        .map_or(0, |w| w[0])
}
