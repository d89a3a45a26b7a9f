//! What the two sides agree on.

/// Operations in w0.
pub mod ask {
    /// Copy the out part in random cuts; w1 seed → w0 sum of its bytes by [`super::sum`], and it comes back, every byte inverted, as the reply's data, if there is room.
    pub const ECHO: u64 = 1;
    /// As ECHO for what is too long to be kept: w0 the sum; the in part gets the byte w1 everywhere.
    pub const SUM_AND_FILL: u64 = 2;
    /// Exit without an answer when half of the out part was read.
    pub const DIE: u64 = 3;
    /// Whole pages, in windows: w0 the sum of the out part, and the in part gets its words, every bit inverted.
    pub const WINDOWS: u64 = 4;
    /// Keep a window on the out part's first page, for writing if w1 is 1.
    pub const KEEP: u64 = 5;
    /// → w0 the first word seen in the kept window, w1 whether it is open, w2 what it showed first.
    pub const PEEK: u64 = 6;
    /// Write w1 there.
    pub const POKE: u64 = 7;
    /// Exit without an answer with a window open on each part.
    pub const DIE_LOOKING: u64 = 8;
    /// Answer when the kept window has closed.
    pub const AWAIT_CLOSE: u64 = 9;
}

/// What the peer's own page says where nothing is shown.
pub const OWN: u64 = 0x1234_5678;

/// Bytes of a message that the peer keeps.
pub const KEPT: usize = 1 << 20;

/// xorshift64 (Marsaglia 2003).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// A sum that depends on the order of the bytes.
pub fn sum(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |sum, &byte| {
        sum.rotate_left(5).wrapping_add(byte as u64 + 1)
    })
}

/// Cut a length at random places: at most `most` lengths, some of them 0, that give `len` together.
pub fn cut(random: &mut Random, len: usize, most: usize, lengths: &mut [usize]) -> usize {
    let count = 1 + random.below(most.min(lengths.len()) as u64) as usize;
    let mut left = len;
    for (i, place) in lengths[..count].iter_mut().enumerate() {
        let even = 2 * left / (count - i);
        *place = match random.below(4) {
            _ if i + 1 == count => left,
            0 => 0,
            _ => (random.below(even as u64 + 1) as usize).min(left),
        };
        left -= *place;
    }
    count
}
