//! Filters of classic BPF (Linux's `Documentation/networking/filter.rst`; McCanne and Jacobson 1993), as SO_ATTACH_FILTER takes them.
//!
//! What always holds: jumps lead forwards only, so a filter ends after at most [`MOST`] steps; a load beyond the frame ends it with 0.

use alloc::vec::Vec;

/// Most instructions, and bytes of one (`struct sock_filter`).
pub const MOST: usize = 4096;
pub const BYTES: usize = 8;
/// Words of scratch memory.
const MEMORY: usize = 16;

/// Offsets that mean something else than the frame: what is known of it, its network header, its link header (SKF_).
const AUXILIARY: i32 = -0x1000;
const NETWORK: i32 = -0x10_0000;
const LINK: i32 = -0x20_0000;

#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    k: u32,
}

/// A program that was found right.
#[derive(Debug)]
pub struct Filter(Vec<Instruction>);

/// What is known of a frame.
#[derive(Clone, Copy, Default, Debug)]
pub struct About {
    /// Where the network header begins.
    pub network: usize,
    /// Where the socket's view begins.
    pub start: usize,
    pub protocol: u16,
    pub kind: u8,
    pub interface: u32,
    pub hardware: u16,
}

fn is_known(code: u16) -> bool {
    match code & 7 {
        0 => matches!(
            code,
            0x00 | 0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0x60 | 0x80
        ),
        1 => matches!(code, 0x01 | 0x61 | 0x81 | 0xb1),
        2 | 3 => code < 4,
        4 => code == 0x84 || code & 0xf0 != 0x80 && code <= 0xac,
        5 => code == 0x05 || (0x15..=0x4d).contains(&code) && code & 0xf0 != 0,
        6 => matches!(code, 0x06 | 0x16),
        _ => matches!(code, 0x07 | 0x87),
    }
}

impl Filter {
    /// None: it is no filter (EINVAL), or there is no memory.
    pub fn parse(bytes: &[u8]) -> Option<Filter> {
        let (instructions, rest) = bytes.as_chunks::<BYTES>();
        if instructions.is_empty() || instructions.len() > MOST || !rest.is_empty() {
            return None;
        }
        let mut program = Vec::new();
        program.try_reserve_exact(instructions.len()).ok()?;
        for (at, [a, b, then, otherwise, k @ ..]) in instructions.iter().enumerate() {
            let of = Instruction {
                code: u16::from_le_bytes([*a, *b]),
                then: *then,
                otherwise: *otherwise,
                k: u32::from_le_bytes(*k),
            };
            let behind = instructions.len() - at - 1;
            let jumps = |by: usize| by < behind;
            let right = match of.code {
                code if !is_known(code) => false,
                0x02 | 0x03 | 0x60 | 0x61 => (of.k as usize) < MEMORY,
                // Division by nothing, and shifts out of the word.
                0x34 | 0x94 => of.k != 0,
                0x64 | 0x74 => of.k < 32,
                0x05 => jumps(of.k as usize),
                code if code & 7 == 5 => jumps(of.then.into()) && jumps(of.otherwise.into()),
                _ => true,
            };
            if !right {
                return None;
            }
            program.push(of);
        }
        matches!(program.last(), Some(last) if last.code & 7 == 6).then_some(Filter(program))
    }

    pub fn memory(&self) -> usize {
        self.0.len() * size_of::<Instruction>()
    }

    /// How many bytes of this frame are wanted; 0: it is not.
    pub fn run(&self, frame: &[u8], about: &About) -> u32 {
        self.steps(frame, about).unwrap_or(0)
    }

    fn steps(&self, frame: &[u8], about: &About) -> Option<u32> {
        let (mut a, mut x) = (0u32, 0u32);
        let mut memory = [0u32; MEMORY];
        let length = (frame.len() - about.start.min(frame.len())) as u32;
        let mut at = 0;
        loop {
            let Instruction {
                code,
                then,
                otherwise,
                k,
            } = *self.0.get(at)?;
            at += 1;
            // The second operand of arithmetic and comparisons.
            let by = if code & 8 == 0 { k } else { x };
            let size = match code & 0x18 {
                0 => 4,
                8 => 2,
                _ => 1,
            };
            match code {
                0x00 => a = k,
                0x20 | 0x28 | 0x30 => a = load(frame, about, k as i32, size)?,
                0x40 | 0x48 | 0x50 => {
                    let place = i32::try_from(i64::from(k as i32) + i64::from(x)).ok()?;
                    a = plain(frame, about, place, size)?;
                }
                0x60 => a = memory[k as usize % MEMORY],
                0x80 => a = length,
                0x01 => x = k,
                0x61 => x = memory[k as usize % MEMORY],
                0x81 => x = length,
                0xb1 => x = (plain(frame, about, k as i32, 1)? & 15) * 4,
                0x02 => memory[k as usize % MEMORY] = a,
                0x03 => memory[k as usize % MEMORY] = x,
                0x84 => a = a.wrapping_neg(),
                0x05 => at += k as usize,
                0x06 => return Some(k),
                0x16 => return Some(a),
                0x07 => x = a,
                0x87 => a = x,
                code if code & 7 == 4 => {
                    a = match code >> 4 {
                        0 => a.wrapping_add(by),
                        1 => a.wrapping_sub(by),
                        2 => a.wrapping_mul(by),
                        3 => a.checked_div(by)?,
                        4 => a | by,
                        5 => a & by,
                        6 => a.wrapping_shl(by),
                        7 => a.wrapping_shr(by),
                        9 => a.checked_rem(by)?,
                        _ => a ^ by,
                    }
                }
                _ => {
                    let holds = match code >> 4 {
                        1 => a == by,
                        2 => a > by,
                        3 => a >= by,
                        _ => a & by != 0,
                    };
                    at += usize::from(if holds { then } else { otherwise });
                }
            }
        }
    }
}

/// A load from a fixed place, which may be one of what is known beside the frame.
fn load(frame: &[u8], about: &About, place: i32, size: usize) -> Option<u32> {
    Some(match place.wrapping_sub(AUXILIARY) {
        0 => about.protocol.into(),
        4 => about.kind.into(),
        8 => about.interface,
        28 => about.hardware.into(),
        // Mark, queue, hash, processor, tags of virtual networks: there are none.
        20 | 24 | 32 | 36 | 44 | 48 | 60 => 0,
        _ => return plain(frame, about, place, size),
    })
}

fn plain(frame: &[u8], about: &About, place: i32, size: usize) -> Option<u32> {
    let (base, offset) = match place {
        0.. => (about.start, place),
        NETWORK.. => (about.network, place - NETWORK),
        LINK.. => (0, place - LINK),
        _ => return None,
    };
    let at = base.checked_add(usize::try_from(offset).ok()?)?;
    let bytes = frame.get(at..at.checked_add(size)?)?;
    let joined = bytes
        .iter()
        .fold(0, |word, byte| word << 8 | u32::from(*byte));
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program(instructions: &[(u16, u8, u8, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, then, otherwise, k) in instructions {
            bytes.extend(code.to_le_bytes());
            bytes.extend([*then, *otherwise]);
            bytes.extend(k.to_le_bytes());
        }
        bytes
    }

    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 14 + 40];
        (frame[12], frame[14], frame[23]) = (8, 0x46, 17);
        frame[14 + 24 + 2..14 + 24 + 4].copy_from_slice(&53u16.to_be_bytes());
        frame
    }

    const ABOUT: About = About {
        network: 14,
        start: 0,
        protocol: 0x800,
        kind: 4,
        interface: 2,
        hardware: 1,
    };

    /// `udp dst port 53`, as tcpdump(8) makes it.
    #[test]
    fn a_filter_of_tcpdump() {
        let bytes = program(&[
            (0x28, 0, 0, 12),
            (0x15, 0, 8, 0x800),
            (0x30, 0, 0, 23),
            (0x15, 0, 6, 17),
            (0x28, 0, 0, 20),
            (0x45, 4, 0, 0x1fff),
            (0xb1, 0, 0, 14),
            (0x48, 0, 0, 16),
            (0x15, 0, 1, 53),
            (0x06, 0, 0, 262_144),
            (0x06, 0, 0, 0),
        ]);
        let filter = Filter::parse(&bytes).unwrap();
        assert_eq!(filter.run(&frame(), &ABOUT), 262_144);
        let mut other = frame();
        other[41] = 54;
        assert_eq!(filter.run(&other, &ABOUT), 0);
        assert_eq!(filter.run(&other[..13], &ABOUT), 0);
        assert_eq!(filter.run(&[], &ABOUT), 0);
    }

    #[test]
    fn places_beside_the_frame() {
        let asks = |k: i32| {
            let bytes = program(&[(0x30, 0, 0, k as u32), (0x16, 0, 0, 0)]);
            Filter::parse(&bytes).unwrap().run(&frame(), &ABOUT)
        };
        assert_eq!(
            [0, 4, 8, 28, 36].map(|k| asks(AUXILIARY + k)),
            [0x800, 4, 2, 1, 0]
        );
        assert_eq!([asks(NETWORK), asks(LINK + 12), asks(14)], [0x46, 8, 0x46]);
        assert_eq!([asks(LINK - 1), asks(i32::MIN), asks(i32::MAX)], [0; 3]);
        let cooked = About { start: 14, ..ABOUT };
        let bytes = program(&[(0x30, 0, 0, 0), (0x16, 0, 0, 0)]);
        assert_eq!(Filter::parse(&bytes).unwrap().run(&frame(), &cooked), 0x46);
    }

    #[test]
    fn what_is_no_filter() {
        let right = (0x06, 0, 0, 1);
        for wrong in [
            &[][..],
            &[(0x00, 0, 0, 1)],
            &[(0x08, 0, 0, 1), right],
            &[(0x0c, 0, 0, 1)],
            &[(0x05, 0, 0, 1), right],
            &[(0x05, 0, 0, u32::MAX), right],
            &[(0x15, 1, 0, 1), right],
            &[(0x15, 0, 1, 1), right],
            &[(0x34, 0, 0, 0), right],
            &[(0x64, 0, 0, 32), right],
            &[(0x02, 0, 0, 16), right],
            &[(0x8c, 0, 0, 1), right],
            &[(0xff, 0, 0, 1), right],
        ] {
            assert!(Filter::parse(&program(wrong)).is_none(), "{wrong:x?}");
        }
        assert!(Filter::parse(&program(&[right])[..7]).is_none());
        assert!(Filter::parse(&program(&[right; MOST])).is_some());
        assert!(Filter::parse(&program(&[right; MOST + 1])).is_none());
        // What is divided by is known only then.
        let bytes = program(&[(0x3c, 0, 0, 0), right]);
        assert_eq!(Filter::parse(&bytes).unwrap().run(&frame(), &ABOUT), 0);
    }

    proptest! {
        /// Whatever is taken ends, and reads nothing that is not there.
        #[test]
        fn anything_ends(
            codes in prop::collection::vec((0u16..256, 0u8..4, 0u8..4, prop_oneof![0u32..64, any::<u32>()]), 1..40),
            frame in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut codes = codes;
            codes.push((0x16, 0, 0, 0));
            if let Some(filter) = Filter::parse(&program(&codes)) {
                filter.run(&frame, &ABOUT);
            }
            for code in codes {
                if let Some(filter) = Filter::parse(&program(&[code, (0x06, 0, 0, 1), (0x06, 0, 0, 1), (0x06, 0, 0, 1), (0x06, 0, 0, 1)])) {
                    filter.run(&frame, &ABOUT);
                }
            }
        }
    }
}
