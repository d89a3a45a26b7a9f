//! Numbers that nobody else can guess (RFC 6528; RFC 4987, 3.6): SipHash-2-4 with a key that is passed in, over what names a connection.

use crate::seq::Seq;
use crate::time::Time;

/// Two ends of a connection. Addresses of IPv4 are written as mapped ones of IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct Ends {
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
}

/// A key of random bits. Whoever knows it can guess initial numbers and make cookies.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Secret {
    low: u64,
    high: u64,
}

impl Secret {
    pub fn new(random: [u8; 16]) -> Secret {
        let number = u128::from_le_bytes(random);
        Secret {
            low: number as u64,
            high: (number >> 64) as u64,
        }
    }

    /// A number of these ends, for this use.
    pub(crate) fn hash(&self, ends: &Ends, purpose: u64) -> u64 {
        let half = |bytes: &[u8; 16], high: bool| {
            let number = u128::from_le_bytes(*bytes);
            (if high { number >> 64 } else { number }) as u64
        };
        let words = [
            half(&ends.local, false),
            half(&ends.local, true),
            half(&ends.remote, false),
            half(&ends.remote, true),
            u64::from(ends.local_port) << 16 | u64::from(ends.remote_port),
            purpose,
        ];
        siphash(self.low, self.high, &words)
    }

    /// ISN = M + F(ends, key), M a clock of four microseconds (RFC 6528, 3).
    pub fn initial_sequence(&self, ends: &Ends, now: Time) -> Seq {
        Seq((self.hash(ends, 1) as u32).wrapping_add((now.0 / 4) as u32))
    }

    /// Where the timestamps of a connection begin (RFC 7323, 5.4).
    pub fn timestamp_offset(&self, ends: &Ends) -> u32 {
        let mut ends = *ends;
        // One clock for two addresses, so that a new connection's are later than an old one's.
        ends.local_port = 0;
        ends.remote_port = 0;
        self.hash(&ends, 2) as u32
    }
}

/// SipHash-2-4 (Aumasson, Bernstein 2012) of whole words.
fn siphash(k0: u64, k1: u64, words: &[u64]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    for word in words {
        v[3] ^= word;
        rounds(&mut v, 2);
        v[0] ^= word;
    }
    let last = (words.len() as u64 * 8) << 56;
    v[3] ^= last;
    rounds(&mut v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    rounds(&mut v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn rounds(v: &mut [u64; 4], count: usize) {
    for _ in 0..count {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's key, and its messages of 0, 8 and 16 bytes (vectors of the reference implementation).
    #[test]
    fn siphash_of_the_reference() {
        let key = |from: u8| u64::from_le_bytes(core::array::from_fn(|n| from + n as u8));
        let (k0, k1) = (key(0), key(8));
        assert_eq!(siphash(k0, k1, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(k0, k1, &[key(0)]), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash(k0, k1, &[key(0), key(8)]), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    fn initial_numbers_differ_by_ends_and_grow_with_time() {
        let secret = Secret::new([7; 16]);
        let ends = Ends {
            local: [1; 16],
            remote: [2; 16],
            local_port: 80,
            remote_port: 1000,
        };
        let other = Ends {
            remote_port: 1001,
            ..ends
        };
        let first = secret.initial_sequence(&ends, Time(0));
        assert_eq!(secret.initial_sequence(&ends, Time(4000)), first + 1000);
        assert_ne!(secret.initial_sequence(&other, Time(0)), first);
        assert_eq!(
            secret.timestamp_offset(&ends),
            secret.timestamp_offset(&other)
        );
    }
}
