//! What generated stubs and dispatchers stand on: a message as the stubs make it, what a server may do with a blocked caller, and checks that every request goes through.
//!
//! No way through the gate is here: [`Transport`] is implemented for portals by `cairn-rt`, [`Caller`] for received messages, and both by fakes in tests.

use crate::errno;
use cairn_abi::{flag, Error, Id, Token};
use core::fmt;

mod parts;
mod signature;

pub use parts::{deliver_pieces, Filled, Out, Room, View};
pub use signature::{admit, refusal, Float, Length, Part, Passing, Shown, Signature, Terms, Trust};

/// A positive error number of [`errno`].
pub type Errno = i64;

pub const EINVAL: Errno = errno::EINVAL;
pub const ENOSYS: Errno = errno::ENOSYS;
pub const MOVE: u64 = flag::MOVE;
pub const MINT: u64 = flag::MINT;
pub const PASS_ONCE: u64 = flag::PASS_ONCE;
pub const NOT_FURTHER: u64 = flag::NOT_FURTHER;
pub const INTERRUPTIBLE: u64 = flag::INTERRUPTIBLE;
pub const WINDOWS: u64 = flag::WINDOWS;
pub const KEEP: u64 = flag::KEEP;

/// Most pieces that a definition may cut a part into.
pub const MAX_PIECES: usize = 64;

/// A message to send, as [`Transport::call`] takes it.
#[derive(Debug, Default)]
pub struct Message<'a> {
    pub words: [u64; 8],
    pub out: &'a [u8],
    pub input: &'a mut [u8],
    /// How many of the last words are portals to pass.
    pub portals: u64,
    pub flags: u64,
}

/// What came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub words: [u64; 8],
    /// How many of the last words are portals of the caller's table now. The nucleus counts them: everything else is a number, whatever the server calls it.
    pub portals: usize,
}

impl Answer {
    /// Slots of the portals that came.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let first = 8 - self.portals.min(cairn_abi::MAX_PORTALS);
        self.words[first..].iter().map(|word| *word as u32)
    }
}

/// Something that a message can be sent through.
pub trait Transport {
    /// Send and wait for the answer.
    fn call(&self, message: Message) -> Result<Answer, Error>;
    /// The same with parts in pieces, at most [`MAX_PIECES`] each, in place of the message's. The other side sees each part as one run of bytes.
    fn call_pieces(
        &self,
        message: Message,
        out: &[&[u8]],
        input: &mut [&mut [u8]],
    ) -> Result<Answer, Error>;
    /// Close a portal of the own table that came with an answer.
    fn close(&self, slot: u32);
}

/// Why a stub has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The message did not get there, or no answer came back.
    Gate(Error),
    /// The server refused.
    Refused(Errno),
    /// The answer does not keep to the interface.
    Nonsense,
}

impl Failure {
    /// As an error number for those who have nothing better to say: EINTR, ETIMEDOUT, EFAULT, EINVAL and EBADF of a signature, else EIO.
    pub fn errno(self) -> Errno {
        match self {
            Failure::Refused(errno) => errno,
            Failure::Gate(Error::Interrupted) => errno::EINTR,
            Failure::Gate(Error::TimedOut) => errno::ETIMEDOUT,
            Failure::Gate(Error::BadAddress) => errno::EFAULT,
            Failure::Gate(Error::BadArgument) => errno::EINVAL,
            Failure::Gate(Error::BadPortal | Error::NoRight | Error::Revoked) => errno::EBADF,
            Failure::Gate(_) | Failure::Nonsense => errno::EIO,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::Gate(error) => write!(f, "{error:?}"),
            Failure::Refused(errno) => write!(f, "error {errno}"),
            Failure::Nonsense => f.write_str("an answer that means nothing"),
        }
    }
}

/// Call, and look whether w0 is an error and so many portals came. Others are closed: kept, they would fill the caller's table.
#[inline]
pub fn call<T: Transport + ?Sized>(
    to: &T,
    message: Message,
    portals: usize,
) -> Result<[u64; 8], Failure> {
    settle(to, to.call(message), portals)
}

/// The same with parts in pieces.
pub fn call_pieces<T: Transport + ?Sized>(
    to: &T,
    message: Message,
    out: &[&[u8]],
    input: &mut [&mut [u8]],
    portals: usize,
) -> Result<[u64; 8], Failure> {
    settle(to, to.call_pieces(message, out, input), portals)
}

#[inline]
fn settle<T: Transport + ?Sized>(
    to: &T,
    answer: Result<Answer, Error>,
    portals: usize,
) -> Result<[u64; 8], Failure> {
    let answer = answer.map_err(Failure::Gate)?;
    let result = answer.words[0] as i64;
    if result >= 0 && answer.portals == portals {
        return Ok(answer.words);
    }
    close_all(to, &answer);
    match result {
        0.. => Err(Failure::Nonsense),
        _ => Err(Failure::Refused(result.checked_neg().unwrap_or(errno::EIO))),
    }
}

#[cold]
fn close_all<T: Transport + ?Sized>(to: &T, answer: &Answer) {
    answer.slots().for_each(|slot| to.close(slot));
}

/// Of an answer with words that mean nothing its portals are not kept either.
#[inline]
pub fn or_close<T: Transport + ?Sized, V>(
    to: &T,
    words: [u64; 8],
    portals: usize,
    value: Option<V>,
) -> Result<V, Failure> {
    value.ok_or_else(|| {
        close_all(to, &Answer { words, portals });
        Failure::Nonsense
    })
}

/// How much of a part the server says that it has filled; it cannot be more than there is.
#[inline]
pub fn length(word: u64, room: usize) -> Option<usize> {
    usize::try_from(word).ok().filter(|length| *length <= room)
}

/// No more pieces than the definition says.
pub fn at_most(pieces: usize, most: usize) -> Result<(), Failure> {
    match pieces <= most {
        true => Ok(()),
        false => Err(Failure::Gate(Error::BadArgument)),
    }
}

/// Fill several pieces, one behind the other, until one of them is not filled; how much.
pub(crate) fn piecewise<E>(
    into: &mut [&mut [u8]],
    mut read: impl FnMut(usize, &mut [u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut done = 0;
    for piece in into {
        let count = read(done, piece)?;
        done += count;
        if count < piece.len() {
            break;
        }
    }
    Ok(done)
}

/// Bytes that there is room for in all pieces together.
pub fn room(pieces: &[&mut [u8]]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

/// 0 or 1.
#[inline]
pub fn truth(word: u64) -> Option<bool> {
    match word {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// A word that stands for a portal in an answer: the server gives a slot of its table, or a badge where the portal is minted; the client gets a slot of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given(pub u64);

impl Given {
    /// The client's side: where the portal is now.
    pub fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// Pages that one side gives the other: a portal by which `vm` hands them over, for one use (`cairn_rt::pages`). Whoever gave it may lie, so it is `vm` that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub slot: u32,
    /// Most bytes that the interface lets anybody give.
    pub most: u64,
}

/// A caller that waits for its answer, and its request. What it may see and change of the caller's memory are the two parts of the message.
pub trait Caller {
    /// Every request of this type came through a channel of which the nucleus asks what the interface's [`Signature`]s say.
    const SIGNED: bool = false;

    fn words(&self) -> &[u64; 8];
    /// Badge of the portal that the request came through.
    fn badge(&self) -> u64;
    /// The caller's domain.
    fn sender(&self) -> Id;
    fn label(&self) -> u64;
    /// For answering later.
    fn token(&self) -> Token;
    fn out_len(&self) -> usize;
    fn in_len(&self) -> usize;
    /// How many of the last words are portals that arrived.
    fn portals(&self) -> usize;
    /// Copy from the out part; short only at its end.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<usize, Error>;
    /// Copy into the in part; short only at its end.
    fn write(&self, offset: usize, from: &[u8]) -> Result<usize, Error>;
    /// Copy from the out part into several pieces; short only at either end.
    fn read_pieces(&self, offset: usize, into: &mut [&mut [u8]]) -> Result<usize, Error> {
        piecewise(into, |done, piece| self.read(offset + done, piece))
    }
    /// Copy several pieces into the in part; short only at either end.
    fn write_pieces(&self, offset: usize, from: &[&[u8]]) -> Result<usize, Error> {
        let mut done = 0;
        for piece in from {
            let count = self.write(offset + done, piece)?;
            done += count;
            if count < piece.len() {
                break;
            }
        }
        Ok(done)
    }
    /// Close a portal of the server's own table.
    fn close(&self, slot: u32);
}

/// An answer as it travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply<'s> {
    pub words: [u64; 8],
    /// For the beginning of the caller's in part.
    pub data: &'s [u8],
    pub portals: u64,
    pub flags: u64,
}

impl Reply<'_> {
    pub fn error(errno: Errno) -> Reply<'static> {
        Reply {
            words: [errno.wrapping_neg() as u64, 0, 0, 0, 0, 0, 0, 0],
            ..Reply::default()
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'s> {
    Reply(Reply<'s>),
    /// The caller goes on waiting; its token is with the server.
    Later,
}

/// A result word: what would look like an error is one.
#[inline]
pub fn result(value: u64) -> u64 {
    match value as i64 {
        0.. => value,
        _ => errno::EOVERFLOW.wrapping_neg() as u64,
    }
}

/// Refuse bits that mean nothing.
#[inline]
pub fn only(word: u64, bits: u64) -> Result<(), Errno> {
    match word & !bits {
        0 => Ok(()),
        _ => Err(EINVAL),
    }
}

/// A structure that the caller sends along; a part of another length is none.
pub fn structure<const N: usize>(caller: &impl Caller) -> Result<[u8; N], Errno> {
    if caller.out_len() != N {
        return Err(EINVAL);
    }
    let mut bytes = [0; N];
    match caller.read(0, &mut bytes) {
        Ok(count) if count == N => Ok(bytes),
        _ => Err(errno::EFAULT),
    }
}

/// A structure into the caller's in part.
pub fn deliver(caller: &impl Caller, bytes: &[u8]) -> Result<(), Errno> {
    match caller.write(0, bytes) {
        Ok(count) if count == bytes.len() => Ok(()),
        _ => Err(errno::EFAULT),
    }
}

/// No more than the caller has room for.
#[inline]
pub fn within(bytes: &[u8], room: usize) -> &[u8] {
    &bytes[..bytes.len().min(room)]
}

/// The end of every dispatch: portals that nobody took are closed, those of the operation if it failed.
#[inline]
pub fn finish<'s, C: Caller>(
    caller: &C,
    done: Result<Outcome<'s>, Errno>,
    signature: Option<&Signature>,
) -> Outcome<'s> {
    let arrived = caller.portals().min(cairn_abi::MAX_PORTALS);
    let asked = signature.map_or(0, |signature| signature.portals_in.into());
    let kept = match done {
        Ok(_) => arrived.min(asked),
        Err(_) => 0,
    };
    if arrived > kept {
        for word in &caller.words()[8 - arrived..8 - kept] {
            caller.close(*word as u32);
        }
    }
    done.unwrap_or_else(|errno| {
        let errno = signature.map_or(errno, |signature| refusal(signature, errno));
        Outcome::Reply(Reply::error(errno))
    })
}

/// Store a field of a structure.
#[inline]
pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Load a field of a structure.
#[inline]
pub fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[at + i])
}
