//! Messages of several parts: the caller's out and in vectors, and a server's own side of read, write and reply. Each vector has at most
//! [`cairn_abi::MAX_VECTOR`] parts, the two sides may be cut differently, and the nucleus copies from part to part.

use crate::channel::{Receiver, Reply};
use crate::gate::{selector, send, traverse_words, Gate};
use crate::portal::{answer, words_alone, Message, Portal};
use cairn_abi::service::receive;
use cairn_abi::{flag, op, Error, Part, Token};
use cairn_idl::wire::{self, Answer, MAX_PIECES};
use core::marker::PhantomData;

/// Memory that may be read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Out<'a>(Part, PhantomData<&'a [u8]>);

/// Memory that may be written.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<'a>(Part, PhantomData<&'a mut [u8]>);

impl<'a> Out<'a> {
    pub fn new(bytes: &'a [u8]) -> Out<'a> {
        let part = Part {
            base: bytes.as_ptr() as u64,
            len: bytes.len() as u64,
        };
        Out(part, PhantomData)
    }
}

impl<'a> In<'a> {
    pub fn new(bytes: &'a mut [u8]) -> In<'a> {
        let part = Part {
            base: bytes.as_mut_ptr() as u64,
            len: bytes.len() as u64,
        };
        In(part, PhantomData)
    }
}

impl Portal {
    /// As [`Portal::call`], with vectors in place of the message's two parts.
    pub fn call_parts(
        self,
        message: Message,
        out: &[Out],
        input: &mut [In],
    ) -> Result<[u64; 8], Error> {
        self.ask_parts(message, out, input).map(words_alone)
    }

    /// The same as [`Portal::ask`].
    pub fn ask_parts(
        self,
        message: Message,
        out: &[Out],
        input: &mut [In],
    ) -> Result<Answer, Error> {
        let flags = message.flags
            | flag::portals(message.portals)
            | flag::PARTS
            | flag::OUT_VECTOR
            | flag::IN_VECTOR;
        let mut gate = Gate {
            rax: selector(self.0, op::CALL, flags),
            words: message.words,
            rbx: input.as_mut_ptr() as u64,
            rbp: input.len() as u64,
            r14: out.as_ptr() as u64,
            r15: out.len() as u64,
        };
        // SAFETY: the vectors, and the memory that their parts stand for, stay borrowed until the call returns; what is written is borrowed mutably.
        unsafe { gate.traverse() }.map(|()| answer(gate.rax, gate.words))
    }
}

/// What the nucleus makes of a portal's call with parts in pieces.
pub(crate) fn call_pieces(
    portal: Portal,
    message: wire::Message,
    out: &[&[u8]],
    input: &mut [&mut [u8]],
) -> Result<Answer, Error> {
    let mut from = [Out::new(&[]); MAX_PIECES];
    let mut into = [const { In(Part { base: 0, len: 0 }, PhantomData) }; MAX_PIECES];
    let (Some(from), Some(into)) = (from.get_mut(..out.len()), into.get_mut(..input.len())) else {
        return Err(Error::BadArgument);
    };
    for (place, piece) in from.iter_mut().zip(out) {
        *place = Out::new(piece);
    }
    for (place, piece) in into.iter_mut().zip(input) {
        *place = In::new(piece);
    }
    let message = Message {
        words: message.words,
        portals: message.portals,
        flags: message.flags,
        ..Message::default()
    };
    portal.ask_parts(message, from, into)
}

impl Receiver {
    /// As [`Receiver::read_parts`], for slices.
    pub fn read_pieces(
        self,
        token: Token,
        offset: u64,
        pieces: &mut [&mut [u8]],
    ) -> Result<usize, Error> {
        let mut done = 0;
        for some in pieces.chunks_mut(MAX_PIECES) {
            let mut into = [const { In(Part { base: 0, len: 0 }, PhantomData) }; MAX_PIECES];
            let into = &mut into[..some.len()];
            let wanted = wire::room(some);
            for (place, piece) in into.iter_mut().zip(some) {
                *place = In::new(piece);
            }
            let count = self.read_parts(token, offset + done as u64, into)?;
            done += count;
            if count < wanted {
                break;
            }
        }
        Ok(done)
    }

    /// As [`Receiver::write_parts`], for slices.
    pub fn write_pieces(self, token: Token, offset: u64, pieces: &[&[u8]]) -> Result<usize, Error> {
        let mut done = 0;
        for some in pieces.chunks(MAX_PIECES) {
            let mut from = [Out::new(&[]); MAX_PIECES];
            let from = &mut from[..some.len()];
            let mut wanted = 0;
            for (place, piece) in from.iter_mut().zip(some) {
                *place = Out::new(piece);
                wanted += piece.len();
            }
            let count = self.write_parts(token, offset + done as u64, from)?;
            done += count;
            if count < wanted {
                break;
            }
        }
        Ok(done)
    }

    /// Copy from offset `offset` of the caller's out part into these parts; short only where either side ends.
    pub fn read_parts(self, token: Token, offset: u64, into: &mut [In]) -> Result<usize, Error> {
        let words = [token, offset, into.as_mut_ptr() as u64, into.len() as u64];
        self.copy_parts(receive::READ, flag::IN_VECTOR, words)
    }

    /// Copy these parts to offset `offset` of the caller's in part.
    pub fn write_parts(self, token: Token, offset: u64, from: &[Out]) -> Result<usize, Error> {
        let words = [token, offset, from.as_ptr() as u64, from.len() as u64];
        self.copy_parts(receive::WRITE, flag::OUT_VECTOR, words)
    }

    fn copy_parts(self, operation: u8, vector: u64, words: [u64; 4]) -> Result<usize, Error> {
        let [token, offset, address, count] = words;
        let words = [token, offset, address, count, 0, 0, 0, 0];
        // SAFETY: the two callers have borrowed the vector and what its parts stand for, mutably where it is written.
        let (rax, words) = unsafe { traverse_words(selector(self.0 .0, operation, vector), words) };
        match Error::from_code(rax as u8) {
            None => Ok(words[0] as usize),
            Some(error) => Err(error),
        }
    }

    /// As [`Receiver::reply_with`], with these parts, one behind the other, in place of the reply's data.
    pub fn reply_parts(self, token: Token, reply: &Reply, data: &[Out]) -> Result<(), Error> {
        let flags = reply.flags | flag::PARTS | flag::OUT_VECTOR | flag::portals(reply.portals);
        let selector = selector(self.0 .0, receive::REPLY, flags);
        // SAFETY: the vector and what its parts stand for are borrowed until the reply is done and only read.
        let rax = unsafe { send(selector, &reply.words, reply.offset, token, data) };
        match Error::from_code(rax as u8) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}
