//! One link: a ring of short messages and a ring of data, one writer and one reader, in words of shared memory.
//!
//! Words 0 to 7 are written by the sender: how many messages it has sent, whether it wants to hear of room. Words 8 to 15 by the receiver: how many messages and bytes of data it
//! has taken, whether it wants to hear of messages. Then come the messages (four words and the length of the data, [`SLOT`] words each), then the data.
//! Counts only grow; a place is a count modulo the size, and both sizes are powers of two. Where a message's data lies is told by nobody: both sides add up the lengths.
//!
//! Sleeping: who wants to sleep says so in its word and then looks once more; who has made progress says so and then looks whether the other sleeps. A full fence is between the
//! two on both sides, so one of them sees the other.

use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{fence, AtomicU64};

/// Words of a message in the ring: four of its own, the length of its data, and padding.
const SLOT: usize = 8;
const HEAD: usize = 16;
const SENT: usize = 0;
const SENDER_WAITS: usize = 1;
const TAKEN: usize = 8;
const DATA_TAKEN: usize = 9;
const RECEIVER_WAITS: usize = 10;

/// A short message, and how many bytes of data came with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub words: [u64; 4],
    pub data: usize,
}

/// How large a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Messages, a power of two.
    pub messages: usize,
    /// Bytes of data, 0 or a power of two of at least 8.
    pub data: usize,
}

/// Most of either.
pub const MOST: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No room now: the receiver is slower. Nothing was sent.
    Full,
    /// More data than the link, or the buffer, could ever hold. A receiver can try again with a larger buffer.
    TooLong,
    /// The other side told something that cannot be. The link is of no use any more.
    Broken,
}

impl Shape {
    pub fn is_valid(self) -> bool {
        let fits = |n: usize| n.is_power_of_two() && n <= MOST;
        fits(self.messages) && (self.data == 0 || self.data >= 8 && fits(self.data))
    }

    /// Words of shared memory that it takes.
    pub fn words(self) -> usize {
        HEAD + self.messages * SLOT + self.data / 8
    }
}

/// Bytes of data take whole words.
fn padded(len: usize) -> u64 {
    len.next_multiple_of(8) as u64
}

/// What both sides have: the shared words and their own counts.
struct Side<M> {
    words: M,
    shape: Shape,
    messages: u64,
    data: u64,
    broken: bool,
}

impl<M: Deref<Target = [AtomicU64]>> Side<M> {
    fn new(words: M, shape: Shape) -> Option<Side<M>> {
        (shape.is_valid() && words.len() >= shape.words()).then_some(Side {
            words,
            shape,
            messages: 0,
            data: 0,
            broken: false,
        })
    }

    fn slot(&self, count: u64) -> &[AtomicU64] {
        let at = HEAD + (count as usize & (self.shape.messages - 1)) * SLOT;
        &self.words[at..at + SLOT]
    }

    /// The word that byte `at` of all data begins.
    fn data_word(&self, at: u64) -> &AtomicU64 {
        let first = HEAD + self.shape.messages * SLOT;
        &self.words[first + (at as usize & (self.shape.data - 1)) / 8]
    }

    fn break_off<T>(&mut self) -> Result<T, Error> {
        self.broken = true;
        Err(Error::Broken)
    }

    /// The other side made progress: does it sleep, and must be told?
    fn wakes(&self, waits: usize) -> bool {
        fence(SeqCst);
        self.words[waits].load(Relaxed) != 0 && self.words[waits].swap(0, Relaxed) != 0
    }
}

/// The writing end.
/// The words must be zero when the link begins.
pub struct Sender<M> {
    side: Side<M>,
    /// What the receiver was last known to have taken.
    taken: u64,
    data_taken: u64,
}

impl<M: Deref<Target = [AtomicU64]>> Sender<M> {
    /// None: a bad shape, or too little memory.
    pub fn new(words: M, shape: Shape) -> Option<Sender<M>> {
        Some(Sender {
            side: Side::new(words, shape)?,
            taken: 0,
            data_taken: 0,
        })
    }

    /// Put a message into the ring. Ok(true): the receiver sleeps, ring its bell.
    pub fn send(&mut self, words: [u64; 4], data: &[u8]) -> Result<bool, Error> {
        if data.len() > self.side.shape.data {
            return Err(Error::TooLong);
        }
        if !self.fits(data.len()) {
            self.look()?;
            if !self.fits(data.len()) {
                return Err(Error::Full);
            }
        }
        let side = &mut self.side;
        let slot = side.slot(side.messages);
        for (place, word) in slot
            .iter()
            .zip(words.into_iter().chain([data.len() as u64]))
        {
            place.store(word, Relaxed);
        }
        let (whole, rest) = data.as_chunks();
        let mut at = side.data;
        for bytes in whole {
            side.data_word(at)
                .store(u64::from_le_bytes(*bytes), Relaxed);
            at += 8;
        }
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            side.data_word(at).store(u64::from_le_bytes(bytes), Relaxed);
        }
        side.data += padded(data.len());
        side.messages += 1;
        side.words[SENT].store(side.messages, Release);
        Ok(side.wakes(RECEIVER_WAITS))
    }

    fn fits(&self, data: usize) -> bool {
        let side = &self.side;
        side.messages - self.taken < side.shape.messages as u64
            && side.data - self.data_taken + padded(data) <= side.shape.data as u64
    }

    /// See what the receiver has taken meanwhile.
    fn look(&mut self) -> Result<(), Error> {
        let side = &mut self.side;
        if side.broken {
            return Err(Error::Broken);
        }
        let taken = side.words[TAKEN].load(Acquire);
        let data_taken = side.words[DATA_TAKEN].load(Relaxed);
        let sane = |told: u64, before: u64, sent: u64| told >= before && told <= sent;
        if !sane(taken, self.taken, side.messages) || !sane(data_taken, self.data_taken, side.data)
        {
            return side.break_off();
        }
        (self.taken, self.data_taken) = (taken, data_taken);
        Ok(())
    }

    /// Before sleeping until there is room for a message with so much data: true if there is already.
    pub fn arm(&mut self, data: usize) -> Result<bool, Error> {
        self.side.words[SENDER_WAITS].store(1, Relaxed);
        fence(SeqCst);
        self.look()?;
        Ok(self.fits(data))
    }
}

/// The reading end.
pub struct Receiver<M> {
    side: Side<M>,
}

impl<M: Deref<Target = [AtomicU64]>> Receiver<M> {
    /// As [`Sender::new`].
    pub fn new(words: M, shape: Shape) -> Option<Receiver<M>> {
        Some(Receiver {
            side: Side::new(words, shape)?,
        })
    }

    /// How many messages wait.
    pub fn waiting(&mut self) -> Result<usize, Error> {
        let side = &mut self.side;
        if side.broken {
            return Err(Error::Broken);
        }
        let waiting = side.words[SENT].load(Acquire).wrapping_sub(side.messages);
        if waiting > side.shape.messages as u64 {
            return side.break_off();
        }
        Ok(waiting as usize)
    }

    /// The oldest message, if there is one; its data goes to the beginning of `data`. Ok with true: the sender sleeps, ring its bell.
    /// `TooLong`: the message stays where it is.
    pub fn receive(&mut self, data: &mut [u8]) -> Result<Option<(Message, bool)>, Error> {
        if self.waiting()? == 0 {
            return Ok(None);
        }
        let side = &mut self.side;
        let slot = side.slot(side.messages);
        let mut words = [0; 5];
        for (word, place) in words.iter_mut().zip(slot) {
            *word = place.load(Relaxed);
        }
        let [a, b, c, d, len] = words;
        let len = match usize::try_from(len) {
            Ok(len) if len <= side.shape.data => len,
            _ => return side.break_off(),
        };
        let data = data.get_mut(..len).ok_or(Error::TooLong)?;
        let mut at = side.data;
        for bytes in data.chunks_mut(8) {
            let word = side.data_word(at).load(Relaxed).to_le_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
            at += 8;
        }
        side.data += padded(len);
        side.messages += 1;
        side.words[DATA_TAKEN].store(side.data, Relaxed);
        side.words[TAKEN].store(side.messages, Release);
        let message = Message {
            words: [a, b, c, d],
            data: len,
        };
        Ok(Some((message, side.wakes(SENDER_WAITS))))
    }

    /// Before sleeping until a message comes: true if one waits already.
    pub fn arm(&mut self) -> Result<bool, Error> {
        self.side.words[RECEIVER_WAITS].store(1, Relaxed);
        fence(SeqCst);
        Ok(self.waiting()? != 0)
    }
}
