//! Answers of 16 bytes, several of which are made at once: a block of the key stream holds four of them.

use crate::Generator;

/// Bytes of an answer, and of what is mixed in.
pub const SEED: usize = 16;
/// Answers that are made at once: half a block, and three whole ones behind it.
const MADE: usize = 14;

/// A generator, and answers of it that nobody has yet.
#[derive(Default)]
pub struct Supply {
    generator: Generator,
    ready: [[u8; SEED]; MADE],
    left: usize,
}

impl Supply {
    /// The next answer, which is kept nowhere. `entropy` is asked for when new ones are made.
    #[inline]
    pub fn take(&mut self, entropy: impl FnOnce() -> [u8; SEED]) -> [u8; SEED] {
        if self.left == 0 {
            self.generator.mix(&entropy());
            self.make();
        }
        self.left -= 1;
        core::mem::take(&mut self.ready[self.left])
    }

    /// All later answers depend on these bytes too.
    pub fn stir(&mut self, bytes: &[u8]) {
        self.generator.mix(bytes);
        self.ready = Default::default();
        self.left = 0;
    }

    #[inline(never)]
    fn make(&mut self) {
        self.generator.fill(self.ready.as_flattened_mut());
        self.left = MADE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn answers_differ_and_are_kept_nowhere() {
        let mut supply = Supply::default();
        let mut asked = 0;
        let mut seen = HashSet::new();
        for _ in 0..10 * MADE {
            let answer = supply.take(|| {
                asked += 1;
                [7; SEED]
            });
            assert_ne!(answer, [0; SEED]);
            assert!(seen.insert(answer));
            assert!(!supply.ready.contains(&answer));
        }
        assert_eq!(asked, 10);
    }

    #[test]
    fn they_depend_on_what_was_mixed_in() {
        let first = |byte| Supply::default().take(|| [byte; SEED]);
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        let mut stirred = Supply::default();
        let mut plain = Supply::default();
        assert_eq!(stirred.take(|| [1; SEED]), plain.take(|| [1; SEED]));
        stirred.stir(b"written");
        assert_ne!(stirred.take(|| [1; SEED]), plain.take(|| [1; SEED]));
    }
}
