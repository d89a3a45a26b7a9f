//! What the two sides agree on.

use cairn_rt::abi::layout::PAGE;

/// Take the pages behind the portal in w7 → w0 the sum of their words, w1 how many pages (0: they could not be had). They are kept.
pub const TAKE: u64 = 1;
/// Give the pages kept back, every word inverted, through a portal in w7 of the reply.
pub const RETURN: u64 = 2;
/// Write w1 to the first word of every page kept → w0 the sum of the words then.
pub const WRITE: u64 = 3;
/// Forget what is kept.
pub const DROP: u64 = 4;
/// Exit without an answer: with the portal untouched (w1 0), or after its pages were taken (w1 1).
pub const DIE: u64 = 5;
/// Keep the portal in w7 and take nothing.
pub const HOARD: u64 = 6;
/// Give pages of one's own to w1 in the reply, and exit at once.
pub const GIVE_AND_DIE: u64 = 7;
/// For measuring: read the whole out part into memory that is there (PART), or take the pages into it (PAGES) and give them back with the reply.
pub const PART: u64 = 8;
pub const PAGES: u64 = 9;
/// Nothing: how long that takes.
pub const NOTHING: u64 = 10;

pub const WORDS: usize = PAGE as usize / 8;

/// A sum that depends on the order.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, word| {
        sum.rotate_left(5).wrapping_add(u64::from_le_bytes(*word))
    })
}
