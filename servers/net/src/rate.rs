//! How many errors of ICMP and ICMPv6 leave the machine: a bucket of tokens (RFC 4443, 2.4 (f); RFC 1812, 4.3.2.8), with the numbers that Linux has.
//!
//! An error takes one token on the average and two at most, by chance: whoever counts the errors that he is sent would learn what others
//! are sent, and so which ports are open to them.

use cairn_tcp::time::{Time, SECOND};

/// Errors of a second.
pub const RATE: u64 = 1000;
/// Most of them at once, after a silence.
pub const BURST: i64 = 50;
/// In how many microseconds a token comes.
const EACH: u64 = SECOND / RATE;

pub struct Bucket {
    /// One less than none: the last error took two of one.
    tokens: i64,
    /// When the last token came.
    filled: Time,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            tokens: BURST,
            filled: Time(0),
        }
    }
}

impl Bucket {
    /// Whether an error may go now; `random`: a word that nobody can guess.
    pub fn take(&mut self, now: Time, random: u64) -> bool {
        let come = now.since(self.filled) / EACH;
        self.tokens = self.tokens.saturating_add_unsigned(come).min(BURST);
        self.filled = self.filled.after(come * EACH);
        let some = self.tokens > 0;
        if some {
            self.tokens -= (random % 3) as i64;
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_in_bursts_and_at_a_rate() {
        let mut bucket = Bucket::default();
        let mut word = 7u64;
        let mut go = |at: u64| {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            i64::from(bucket.take(Time(at), word >> 33))
        };
        let start = 5 * SECOND;
        let at_once: i64 = (0..1000).map(|_| go(start)).sum();
        assert!((BURST / 2..=2 * BURST).contains(&at_once), "{at_once}");
        // One each 100 µs, for ten seconds.
        let steady: i64 = (1..=100_000).map(|i| go(start + i * 100)).sum();
        assert!((9_500..=10_500).contains(&steady), "{steady}");
        // Silence fills it, and no more than that.
        let later: i64 = (0..1000).map(|_| go(start + 3600 * SECOND)).sum();
        assert!((BURST / 2..=2 * BURST).contains(&later), "{later}");
    }

    #[test]
    fn all_of_time_is_taken() {
        let mut bucket = Bucket::default();
        assert!(bucket.take(Time(u64::MAX - 1), 0));
        assert!(bucket.take(Time(0), 2));
        assert!(bucket.take(Time::NEVER, u64::MAX));
    }
}
