//! The hashes of directory indexes: half MD4, TEA and the oldest one, each over signed or unsigned characters. What they compute is part of the format;
//! the documentation of ext4's on-disk layout ("Directory Entries", "Hash Tree Directories") is where it is laid down.

/// Signed and unsigned versions follow each other: legacy, half MD4, TEA.
const UNSIGNED: u8 = 3;
pub(crate) const LAST_VERSION: u8 = 5;

/// The largest hash is the mark for the end of a directory, the lowest bit that for colliding names in two blocks.
const END: u32 = 0xFFFF_FFFE;

fn value(byte: u8, unsigned: bool) -> u32 {
    if unsigned {
        u32::from(byte)
    } else {
        byte as i8 as u32
    }
}

/// Characters as words, filled up with the length.
fn words<const N: usize>(name: &[u8], unsigned: bool) -> [u32; N] {
    let len = name.len() as u32;
    let pad = len | len << 8;
    let pad = pad | pad << 16;
    let mut words = [pad; N];
    for (word, bytes) in words.iter_mut().zip(name.chunks(4)) {
        for &byte in bytes {
            *word = value(byte, unsigned).wrapping_add(*word << 8);
        }
    }
    words
}

fn half_md4(state: &mut [u32; 4], words: [u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    let rounds: [(Mix, u32, [usize; 8], [u32; 4]); 3] = [
        (
            |x, y, z| z ^ (x & (y ^ z)),
            0,
            [0, 1, 2, 3, 4, 5, 6, 7],
            [3, 7, 11, 19],
        ),
        (
            |x, y, z| (x & y) + ((x ^ y) & z),
            0x5A82_7999,
            [1, 3, 5, 7, 0, 2, 4, 6],
            [3, 5, 9, 13],
        ),
        (
            |x, y, z| x ^ y ^ z,
            0x6ED9_EBA1,
            [3, 7, 2, 6, 1, 5, 0, 4],
            [3, 9, 11, 15],
        ),
    ];
    let mut s = *state;
    for (mix, constant, order, shifts) in rounds {
        for (turn, word) in order.into_iter().enumerate() {
            // The one that is changed goes round: 0, 3, 2, 1.
            let [a, b, c, d] = core::array::from_fn(|i| (i + 4 - turn % 4) % 4);
            s[a] = s[a]
                .wrapping_add(mix(s[b], s[c], s[d]))
                .wrapping_add(words[word])
                .wrapping_add(constant)
                .rotate_left(shifts[turn % 4]);
        }
    }
    for (to, from) in state.iter_mut().zip(s) {
        *to = to.wrapping_add(from);
    }
}

fn tea(state: &mut [u32; 4], words: [u32; 4]) {
    let [mut left, mut right, ..] = *state;
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        let mix = |from: u32, a: u32, b: u32| {
            (from << 4).wrapping_add(a) ^ from.wrapping_add(sum) ^ (from >> 5).wrapping_add(b)
        };
        left = left.wrapping_add(mix(right, words[0], words[1]));
        right = right.wrapping_add(mix(left, words[2], words[3]));
    }
    state[0] = state[0].wrapping_add(left);
    state[1] = state[1].wrapping_add(right);
}

fn oldest(name: &[u8], unsigned: bool) -> u32 {
    let (mut now, mut before) = (0x12A3_FE2Du32, 0x37AB_E8F9u32);
    for &byte in name {
        let mut next = before.wrapping_add(now ^ value(byte, unsigned).wrapping_mul(7_152_373));
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7FFF_FFFF);
        }
        before = now;
        now = next;
    }
    now << 1
}

/// The hash that orders, and a second one that orders names of the same first.
pub(crate) fn hash(version: u8, seed: &[u32; 4], name: &[u8]) -> (u32, u32) {
    let unsigned = version >= UNSIGNED;
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    if seed.iter().any(|&word| word != 0) {
        state = *seed;
    }
    // What is left of a name counts its own length only.
    let rest = |chunk: usize| (0..name.len()).step_by(chunk).map(|at| &name[at..]);
    let (major, minor) = match version % UNSIGNED {
        0 => (oldest(name, unsigned), 0),
        1 => {
            rest(32).for_each(|rest| half_md4(&mut state, words(rest, unsigned)));
            (state[1], state[2])
        }
        _ => {
            rest(16).for_each(|rest| tea(&mut state, words(rest, unsigned)));
            (state[0], state[1])
        }
    };
    let major = major & !1;
    (if major == END { END - 2 } else { major }, minor)
}
