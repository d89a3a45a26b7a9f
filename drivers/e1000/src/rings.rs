//! The two rings of descriptors, 16 bytes each, which both chips have alike: for what comes those of SDM 3.2.3 (the 82574's "legacy" ones), for what leaves the
//! TCP/IP ones of 3.3.6 and 3.3.7.
//!
//! The chip may write anything there at any time: it is believed as to bytes and errors of a buffer that it has, and as to a frame that it has being sent.
//! Which buffer and which frame it is, only the driver knows.

use cairn_device::Memory;
use cairn_link::{Filled, Offload, HEADERS};

const DESCRIPTOR: usize = 16;
/// Descriptors of each ring. The chip has all between head and tail, so one is nobody's.
pub const RECEIVES: usize = 256;
pub const SENDS: usize = 2048;
/// Frames on their way out, by number.
const NUMBERS: usize = 256;

/// Bytes of a descriptor.
mod at {
    pub const LENGTH: usize = 8;
    pub const STATUS: usize = 12;
    pub const ERRORS: usize = 13;
}

/// Status: it is done; a frame ends here; sums are not to be looked at; TCP's or UDP's was; IP's was.
const DONE: u8 = 1 << 0;
const END: u8 = 1 << 1;
const NO_SUMS: u8 = 1 << 2;
const SUM_SEEN: u8 = 1 << 5;
/// Errors: those of the frame; those of sums.
const DAMAGED: u8 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 7;
const SUM_WRONG: u8 = 1 << 5 | 1 << 6;

pub struct Receives {
    at: usize,
    /// The next one to be lent, and the next one to be filled.
    next: usize,
    first: usize,
    count: usize,
    buffers: [u32; RECEIVES],
    /// A frame that is longer than a buffer is passing.
    long: bool,
}

impl Receives {
    pub const BYTES: usize = RECEIVES * DESCRIPTOR;

    /// Whose memory, from `at` on, is zero.
    pub fn new(at: usize) -> Receives {
        Receives {
            at,
            next: 0,
            first: 0,
            count: 0,
            buffers: [0; RECEIVES],
            long: false,
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn room(&self) -> usize {
        RECEIVES - 1 - self.count
    }

    pub fn tail(&self) -> u32 {
        self.next as u32
    }

    pub fn lend(&mut self, memory: &impl Memory, buffer: u32, address: u64) -> bool {
        if self.room() == 0 {
            return false;
        }
        let at = self.at + self.next * DESCRIPTOR;
        memory.write64(at, address);
        memory.write64(at + 8, 0);
        self.buffers[self.next] = buffer;
        self.next = (self.next + 1) % RECEIVES;
        self.count += 1;
        true
    }

    /// Whether the chip has filled one.
    pub fn is_due(&self, memory: &impl Memory) -> bool {
        let at = self.at + self.first * DESCRIPTOR;
        self.count > 0 && memory.read8(at + at::STATUS) & DONE != 0
    }

    pub fn filled(&mut self, memory: &impl Memory) -> Option<Filled> {
        if !self.is_due(memory) {
            return None;
        }
        memory.barrier();
        let at = self.at + self.first * DESCRIPTOR;
        let status = memory.read8(at + at::STATUS);
        let errors = memory.read8(at + at::ERRORS);
        let length = memory.read16(at + at::LENGTH);
        let buffer = self.buffers[self.first];
        self.first = (self.first + 1) % RECEIVES;
        self.count -= 1;
        // A frame in several buffers is none that was asked for: nothing of it is one.
        let ends = status & END != 0;
        let whole = ends && !self.long && errors & DAMAGED == 0;
        self.long = !ends;
        let seen = status & (NO_SUMS | SUM_SEEN) == SUM_SEEN;
        Some(Filled {
            buffer,
            length: if whole { length.into() } else { 0 },
            right: whole && seen && errors & SUM_WRONG == 0,
        })
    }
}

/// Of a descriptor's third word, above 20 bits of length: its type, commands.
const CONTEXT: u32 = 0;
const DATA: u32 = 1 << 20;
const IS_TYPED: u32 = 1 << 29;
const LAST: u32 = 1 << 24;
const ADD_CRC: u32 = 1 << 25;
const REPORT: u32 = 1 << 27;
/// Of a context: the sum is not one of UDP, where it is sent as ones if it is 0.
const TCP: u32 = 1 << 24;
/// Where that is in UDP's header.
const UDP_SUM: u16 = 6;
/// Of the first data descriptor's fourth word: a sum is to be put in.
const PUT_SUM: u32 = 1 << 9;
/// Bytes of a piece.
const PIECE_MOST: u32 = 16_384;

pub struct Sends {
    at: usize,
    next: usize,
    /// Descriptors that the chip has.
    used: usize,
    /// Numbers of the frames that it has, the oldest first: where in `numbers`, and how many.
    first: usize,
    count: usize,
    numbers: [u16; NUMBERS],
    /// Of each number: the frame's last descriptor and how many there are; none: the chip does not have it.
    frames: [(u16, u16); NUMBERS],
}

impl Sends {
    pub const BYTES: usize = SENDS * DESCRIPTOR;

    /// Whose memory, from `at` on, is zero.
    pub fn new(at: usize) -> Sends {
        Sends {
            at,
            next: 0,
            used: 0,
            first: 0,
            count: 0,
            numbers: [0; NUMBERS],
            frames: [(0, 0); NUMBERS],
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn tail(&self) -> u32 {
        self.next as u32
    }

    pub fn room(&self) -> usize {
        SENDS - 1 - self.used
    }

    fn put(&mut self, memory: &impl Memory, words: [u64; 2]) {
        let at = self.at + self.next * DESCRIPTOR;
        memory.write64(at, words[0]);
        memory.write64(at + 8, words[1]);
        self.next = (self.next + 1) % SENDS;
    }

    /// Where the sum begins and where it goes, to the frame's end. Of IP's own sum nothing is asked for.
    fn context(&mut self, memory: &impl Memory, offload: &Offload) {
        let start = u64::from(offload.sum_start);
        let place = start + u64::from(offload.sum_at);
        let kind = if offload.sum_at == UDP_SUM { 0 } else { TCP };
        let third = u64::from(IS_TYPED | CONTEXT | kind);
        self.put(memory, [(place << 8 | start) << 32, third]);
    }

    /// False: the chip has that number, or there is no room, or a piece is none.
    pub fn send(
        &mut self,
        memory: &impl Memory,
        number: usize,
        offload: &Offload,
        pieces: &[(u64, u32)],
    ) -> bool {
        let Some(&(_, taken)) = self.frames.get(number) else {
            return false;
        };
        let needed = pieces.len() + usize::from(offload.sum);
        let fit = pieces.iter().all(|&(_, length)| length < PIECE_MOST);
        let sum = usize::from(offload.sum_start) + usize::from(offload.sum_at);
        if taken != 0 || pieces.is_empty() || !fit || needed > self.room() || sum >= HEADERS {
            return false;
        }
        if offload.sum {
            self.context(memory, offload);
        }
        for (i, &(address, length)) in pieces.iter().enumerate() {
            let last = match i + 1 == pieces.len() {
                true => LAST | REPORT,
                false => 0,
            };
            let third = IS_TYPED | DATA | ADD_CRC | last | length;
            let fourth = if offload.sum { PUT_SUM } else { 0 };
            self.put(
                memory,
                [address, u64::from(fourth) << 32 | u64::from(third)],
            );
        }
        let last = (self.next + SENDS - 1) % SENDS;
        self.frames[number] = (last as u16, needed as u16);
        self.numbers[(self.first + self.count) % NUMBERS] = number as u16;
        self.count += 1;
        self.used += needed;
        true
    }

    /// The number of the oldest one, if it has left.
    pub fn due(&self, memory: &impl Memory) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let number = usize::from(self.numbers[self.first]);
        let at = self.at + usize::from(self.frames[number].0) * DESCRIPTOR;
        (memory.read8(at + at::STATUS) & DONE != 0).then_some(number)
    }

    pub fn sent(&mut self, memory: &impl Memory) -> Option<usize> {
        let number = self.due(memory)?;
        self.used -= usize::from(self.frames[number].1);
        self.frames[number] = (0, 0);
        self.first = (self.first + 1) % NUMBERS;
        self.count -= 1;
        Some(number)
    }
}
