//! The status of a file in the words of an answer ([`crate::fs::STAT_WORDS`]), as long as it is a usual one: every field comes back as it was.
//!
//! | word | |
//! | --- | --- |
//! | w0 | bit 0: 1; 20 bits device, from bit 1; 40 bits blocks, from bit 21 |
//! | w1 | inode number |
//! | w2 | mode in 32 bits; 26 bits links; 6 bits logarithm of the block size |
//! | w3 | user, group |
//! | w4 | size |
//! | w5 w6 w7 | access, modification and change: nanoseconds in 30 bits, seconds above |

use crate::fs::Stat;

const DEVICE_BITS: u32 = 20;
const BLOCKS_BITS: u32 = 40;
const LINKS_BITS: u32 = 26;
const NS_BITS: u32 = 30;
const SECONDS_BITS: u32 = 33;

fn low(word: u64, bits: u32) -> u64 {
    word & ((1 << bits) - 1)
}

/// The words, if all of it fits.
#[inline(always)]
pub fn pack(stat: &Stat) -> Option<[u64; 8]> {
    let shift = (stat.blksize as u64).trailing_zeros() as u64;
    let unusual = stat.dev >> DEVICE_BITS
        | stat.blocks as u64 >> BLOCKS_BITS
        | stat.nlink >> LINKS_BITS
        | stat.rdev
        | stat.pad0 as u64
        | (stat.atime | stat.mtime | stat.ctime) as u64 >> SECONDS_BITS
        | (stat.atime_ns | stat.mtime_ns | stat.ctime_ns) as u64 >> NS_BITS
        | (stat.blksize as u64 & (stat.blksize as u64).wrapping_sub(1))
        | shift >> 6;
    if unusual != 0 {
        return None;
    }
    Some([
        1 | stat.dev << 1 | (stat.blocks as u64) << (1 + DEVICE_BITS),
        stat.ino,
        stat.mode as u64 | stat.nlink << 32 | shift << (32 + LINKS_BITS),
        stat.uid as u64 | (stat.gid as u64) << 32,
        stat.size as u64,
        stat.atime_ns as u64 | (stat.atime as u64) << NS_BITS,
        stat.mtime_ns as u64 | (stat.mtime as u64) << NS_BITS,
        stat.ctime_ns as u64 | (stat.ctime as u64) << NS_BITS,
    ])
}

/// What words say whose bit 0 is set, whoever made them.
#[inline(always)]
pub fn unpack(words: &[u64; 8]) -> Stat {
    let [w0, ino, w2, ids, size, times @ ..] = words;
    let [atime, mtime, ctime] = times.map(|time| (time >> NS_BITS) as i64);
    let [atime_ns, mtime_ns, ctime_ns] = times.map(|time| low(time, NS_BITS) as i64);
    Stat {
        dev: low(w0 >> 1, DEVICE_BITS),
        ino: *ino,
        nlink: low(w2 >> 32, LINKS_BITS),
        mode: *w2 as u32,
        uid: *ids as u32,
        gid: (ids >> 32) as u32,
        size: *size as i64,
        blksize: 1 << (w2 >> (32 + LINKS_BITS)),
        blocks: low(w0 >> (1 + DEVICE_BITS), BLOCKS_BITS) as i64,
        atime,
        atime_ns,
        mtime,
        mtime_ns,
        ctime,
        ctime_ns,
        ..Stat::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(s: &Stat) -> [i64; 16] {
        [
            s.dev as i64,
            s.ino as i64,
            s.nlink as i64,
            s.mode as i64,
            s.uid as i64,
            s.gid as i64,
            s.rdev as i64,
            s.size,
            s.blksize,
            s.blocks,
            s.atime,
            s.atime_ns,
            s.mtime,
            s.mtime_ns,
            s.ctime,
            s.ctime_ns,
        ]
    }

    /// Whatever is packed comes back, and its first word is no error; what is usual is packed.
    #[test]
    fn what_is_packed_comes_back() {
        let mut random = 1u64;
        let mut packed = 0;
        for round in 0..200_000 {
            let mut next = |most: u32| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Mostly within what fits; now and then anything.
                match round % 8 {
                    0 => random >> (random % 64),
                    _ => (random >> 8) & ((1 << most) - 1),
                }
            };
            let stat = Stat {
                dev: next(20),
                ino: next(62),
                nlink: next(26),
                mode: next(16) as u32,
                uid: next(32) as u32,
                gid: next(32) as u32,
                pad0: 0,
                rdev: if round % 16 == 0 { next(10) } else { 0 },
                size: next(62) as i64,
                blksize: if round % 16 == 8 {
                    next(13) as i64
                } else {
                    1 << (next(5) % 64)
                },
                blocks: next(40) as i64,
                atime: next(33) as i64,
                atime_ns: next(29) as i64,
                mtime: next(33) as i64,
                mtime_ns: next(29) as i64,
                ctime: next(33) as i64,
                ctime_ns: next(29) as i64,
                unused: [0; 3],
            };
            match pack(&stat) {
                Some(words) => {
                    packed += 1;
                    assert!(words[0] & 1 == 1 && words[0] as i64 > 0);
                    assert_eq!(bytes(&unpack(&words)), bytes(&stat));
                }
                None => assert_eq!(round % 8, 0),
            }
        }
        assert!(packed > 170_000);
        let negative = Stat {
            mtime: -1,
            blksize: 4096,
            ..Stat::default()
        };
        assert!(pack(&negative).is_none());
        // Words of a hostile server are some status.
        unpack(&[u64::MAX; 8]);
    }
}
