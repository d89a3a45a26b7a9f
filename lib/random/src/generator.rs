//! The random generator: ChaCha20 whose key is replaced after each answer, so that what it gave out cannot be computed from its state later
//! (fast key erasure, Bernstein 2017). Whatever is mixed in makes the key no easier to guess.

use crate::chacha::{block, BLOCK, KEY};

#[derive(Default)]
pub struct Generator {
    key: [u8; KEY],
    /// Differs for each answer, as a guard against a key that repeats.
    answers: u64,
}

impl Generator {
    /// Make the state depend on these bytes too.
    pub fn mix(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(KEY) {
            for (place, byte) in self.key.iter_mut().zip(piece) {
                *place ^= byte;
            }
            self.replace_key(piece.len() as u8);
        }
    }

    fn nonce(&self, purpose: u8) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.answers.to_le_bytes());
        nonce[8] = purpose;
        nonce
    }

    fn replace_key(&mut self, purpose: u8) {
        self.answers = self.answers.wrapping_add(1);
        let mut out = [0; BLOCK];
        block(&self.key, 0, &self.nonce(purpose), &mut out);
        self.key.copy_from_slice(&out[..KEY]);
    }

    /// The first half of the key stream's first block is the next key, what follows is given out.
    pub fn fill(&mut self, into: &mut [u8]) {
        self.answers = self.answers.wrapping_add(1);
        let nonce = self.nonce(0xff);
        let mut out = [0; BLOCK];
        block(&self.key, 0, &nonce, &mut out);
        let (first, rest) = into.split_at_mut(into.len().min(BLOCK - KEY));
        first.copy_from_slice(&out[KEY..KEY + first.len()]);
        let mut key = [0; KEY];
        key.copy_from_slice(&out[..KEY]);
        for (number, piece) in rest.chunks_mut(BLOCK).enumerate() {
            block(&self.key, number as u32 + 1, &nonce, &mut out);
            piece.copy_from_slice(&out[..piece.len()]);
        }
        self.key = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_differ_and_depend_on_what_was_mixed_in() {
        let answer = |seed: &[u8]| {
            let mut generator = Generator::default();
            generator.mix(seed);
            let mut first = [0; 100];
            let mut second = [0; 100];
            generator.fill(&mut first);
            generator.fill(&mut second);
            assert_ne!(first, second);
            first
        };
        assert_eq!(answer(b"a"), answer(b"a"));
        assert_ne!(answer(b"a"), answer(b"b"));
        assert_ne!(answer(b"a"), answer(&[b'a', 0]));
        assert_ne!(answer(&[1; 33]), answer(&[1; 34]));
    }

    #[test]
    fn bits_are_even() {
        let mut generator = Generator::default();
        generator.mix(b"seed");
        let mut bytes = [0; 100_000];
        generator.fill(&mut bytes);
        let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert!((398_000..402_000).contains(&ones), "{ones} of 800,000");
    }
}
