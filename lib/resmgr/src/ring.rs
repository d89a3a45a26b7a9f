//! A ring of bytes whose memory grows with what is in it and goes when nobody needs it.

use crate::context::{Context, Failure};
use crate::server::{Answer, Data};
use alloc::vec::Vec;
use cairn_idl::errno::ENOMEM;

/// The least memory of a ring that holds anything.
const SMALLEST: usize = 4096;
/// Rings together may keep this much memory while they are empty.
pub const KEEP: usize = 4 << 20;
/// Unused buffers of the smallest size that are kept for the next ring.
const SPARE: usize = 32;

/// Memory of all rings.
#[derive(Default)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
    total: usize,
}

impl Buffers {
    /// Bytes that rings hold.
    pub fn total(&self) -> usize {
        self.total
    }

    /// None: there is no memory.
    fn get(&mut self, size: usize) -> Option<Vec<u8>> {
        let spare = match size {
            SMALLEST => self.spare.pop(),
            _ => None,
        };
        let buffer = match spare {
            Some(buffer) => buffer,
            None => {
                let mut buffer = Vec::new();
                buffer.try_reserve_exact(size).ok()?;
                buffer.resize(size, 0);
                buffer
            }
        };
        self.total += size;
        Some(buffer)
    }

    fn put(&mut self, buffer: Vec<u8>) {
        self.total -= buffer.len();
        if buffer.len() == SMALLEST && self.spare.len() < SPARE && self.spare.try_reserve(1).is_ok()
        {
            self.spare.push(buffer);
        }
    }
}

/// Bytes out of words, eight of each.
#[inline(never)]
fn from_words(words: &[u64; 5], into: &mut [u8]) {
    for (bytes, word) in into.chunks_mut(8).zip(words) {
        match bytes.first_chunk_mut() {
            Some(whole) => *whole = word.to_le_bytes(),
            None => bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]),
        }
    }
}

/// And into words.
#[inline(never)]
fn to_words(bytes: &[u8], into: &mut [u64; 5]) {
    for (bytes, word) in bytes.chunks(8).zip(into) {
        *word = match bytes.first_chunk() {
            Some(whole) => u64::from_le_bytes(*whole),
            None => bytes.iter().rev().fold(0, |word, b| word << 8 | *b as u64),
        };
    }
}

/// The ring.
pub struct Ring {
    memory: Vec<u8>,
    head: usize,
    length: usize,
    capacity: usize,
    /// Bytes that the last drain took.
    drained: usize,
}

impl Ring {
    pub fn new(capacity: usize) -> Ring {
        Ring {
            memory: Vec::new(),
            head: 0,
            length: 0,
            capacity,
            drained: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn room(&self) -> usize {
        self.capacity - self.length
    }

    /// Bytes of memory that it has.
    pub fn memory(&self) -> usize {
        self.memory.len()
    }

    /// At least what is in it. If there is no memory for a smaller ring it stays as large as it is for a while.
    pub fn set_capacity(&mut self, capacity: usize, buffers: &mut Buffers) {
        self.capacity = capacity;
        if self.memory.len() > capacity {
            self.resize(capacity, buffers);
        }
    }

    /// False, and nothing has happened, if there is no memory.
    fn resize(&mut self, size: usize, buffers: &mut Buffers) -> bool {
        let Some(mut memory) = buffers.get(size) else {
            return false;
        };
        let first = self.length.min(self.memory.len() - self.head);
        memory[..first].copy_from_slice(&self.memory[self.head..self.head + first]);
        memory[first..self.length].copy_from_slice(&self.memory[..self.length - first]);
        buffers.put(core::mem::replace(&mut self.memory, memory));
        self.head = 0;
        true
    }

    /// Give all memory back; what is in it is lost.
    pub fn clear(&mut self, buffers: &mut Buffers) {
        if !self.memory.is_empty() {
            buffers.put(core::mem::take(&mut self.memory));
        }
        self.head = 0;
        self.length = 0;
    }

    /// Take `length` bytes out of words. False, and nothing has happened, if there is no memory for them in one piece.
    #[inline(always)]
    pub fn put_words(&mut self, words: &[u64; 5], length: usize) -> bool {
        if self.length == 0 {
            self.head = 0;
        }
        let tail = self.head + self.length;
        // (When the contents go round the end of the memory, the room is not where `tail` is.)
        if length == 1 {
            let Some(room) = self.memory.get_mut(tail) else {
                return false;
            };
            *room = words[0] as u8;
        } else {
            let Some(room) = self.memory.get_mut(tail..tail + length) else {
                return false;
            };
            from_words(words, room);
        }
        self.length += length;
        true
    }

    /// Give the first `length` bytes (which are there) in words. False, and nothing has happened, if they are not in one piece.
    #[inline(always)]
    pub fn take_words(&mut self, words: &mut [u64; 5], length: usize) -> bool {
        if length == 1 {
            let Some(byte) = self.memory.get(self.head) else {
                return false;
            };
            words[0] = u64::from(*byte);
        } else {
            let Some(bytes) = self.memory.get(self.head..self.head + length) else {
                return false;
            };
            to_words(bytes, words);
        }
        self.length -= length;
        self.head += length;
        if self.head == self.memory.len() {
            self.head = 0;
        }
        true
    }

    /// Take `length` bytes (there is room for them) from offset `from` of the caller's out part. More memory is charged to `payer`, who gets it back by whoever makes it smaller ([`Ring::memory`]).
    /// On failure nothing was added.
    pub fn fill(
        &mut self,
        cx: &mut Context,
        from: usize,
        length: usize,
        buffers: &mut Buffers,
        payer: u32,
    ) -> Answer<()> {
        if length == 0 {
            return Ok(());
        }
        if self.length == 0 {
            self.head = 0;
        }
        let needed = self.length + length;
        if needed > self.memory.len() {
            let size = match needed {
                0..=SMALLEST => SMALLEST,
                _ => needed.next_multiple_of(4 * SMALLEST),
            };
            let size = size.min(self.capacity).max(needed);
            let more = size - self.memory.len();
            cx.charge(payer, more)?;
            if !self.resize(size, buffers) {
                cx.refund(payer, more);
                return Err(Failure::Errno(ENOMEM));
            }
        }
        let size = self.memory.len();
        let mut tail = self.head + self.length;
        if tail >= size {
            tail -= size;
        }
        let first = length.min(size - tail);
        cx.fetch(from, &mut self.memory[tail..tail + first])?;
        if first < length {
            cx.fetch(from + first, &mut self.memory[..length - first])?;
        }
        self.length += length;
        Ok(())
    }

    /// Give the first `length` bytes with the answer; `keep` leaves them here too. If the answer cannot be delivered, [`Ring::take_back`].
    pub fn drain(&mut self, cx: &mut Context, length: usize, keep: bool) -> Answer<Data<'_>> {
        let size = self.memory.len();
        let head = self.head;
        let first = length.min(size - head);
        let second = length - first;
        if second != 0 {
            cx.store(0, &self.memory[head..])?;
        }
        self.drained = 0;
        if !keep {
            self.drained = length;
            self.drop_first(length);
        }
        Ok(match second {
            0 => Data::from(&self.memory[head..head + first]),
            _ => Data {
                done: first,
                rest: &self.memory[..second],
            },
        })
    }

    /// What the last [`Ring::drain`] took is in it again. Nothing else may have happened to it since.
    pub fn take_back(&mut self) {
        let bytes = core::mem::take(&mut self.drained);
        self.length += bytes;
        self.head = match self.head.checked_sub(bytes) {
            Some(head) => head,
            None => self.head + self.memory.len() - bytes,
        };
    }

    /// Store the first `length` bytes at this place of the caller's in part before they go, with `skip` more behind them; `keep` leaves all of them.
    /// On failure nothing has gone.
    pub fn store(
        &mut self,
        cx: &mut Context,
        place: usize,
        length: usize,
        skip: usize,
        keep: bool,
    ) -> Answer<()> {
        self.show(cx, place, (0, length))?;
        if !keep {
            self.drop_first(length + skip);
        }
        Ok(())
    }

    /// Copy so many bytes that lie behind the first `before` ones; all stay.
    pub fn show(
        &self,
        cx: &mut Context,
        place: usize,
        (before, length): (usize, usize),
    ) -> Answer<()> {
        if length == 0 {
            return Ok(());
        }
        let mut head = self.head + before;
        if head >= self.memory.len() {
            head -= self.memory.len();
        }
        let first = length.min(self.memory.len() - head);
        if first != 0 {
            cx.store(place, &self.memory[head..head + first])?;
        }
        if first < length {
            cx.store(place + first, &self.memory[..length - first])?;
        }
        Ok(())
    }

    #[inline]
    fn drop_first(&mut self, bytes: usize) {
        self.length -= bytes;
        self.head += bytes;
        if self.head >= self.memory.len() {
            self.head -= self.memory.len();
        }
    }
}
