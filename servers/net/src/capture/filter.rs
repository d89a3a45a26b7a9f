//! Filters of classic BPF (Linux's `Documentation/networking/filter.rst`; McCanne and Jacobson 1993), as SO_ATTACH_FILTER takes them: where their loads
//! lead ([`cairn_bpf`] has the rest).

use alloc::vec::Vec;
use cairn_bpf::{Instruction, Place};

pub use cairn_bpf::MOST;
pub const BYTES: usize = Instruction::BYTES;

/// Offsets that mean something else than the frame: what is known of it, its network header, its link header (SKF_).
const AUXILIARY: i32 = -0x1000;
const NETWORK: i32 = -0x10_0000;
const LINK: i32 = -0x20_0000;

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

impl Filter {
    /// None: it is no filter (EINVAL), or there is no memory.
    pub fn parse(bytes: &[u8]) -> Option<Filter> {
        let (instructions, rest) = bytes.as_chunks::<BYTES>();
        if !rest.is_empty() {
            return None;
        }
        let mut program = Vec::new();
        program.try_reserve_exact(instructions.len()).ok()?;
        let each = instructions.iter().copied();
        program.extend(each.map(Instruction::from_bytes));
        cairn_bpf::is_valid(&program, cairn_bpf::About::Frames).then_some(Filter(program))
    }

    pub fn memory(&self) -> usize {
        self.0.len() * size_of::<Instruction>()
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// As it came.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().flat_map(|each| each.to_bytes())
    }

    /// How many bytes of this frame are wanted; 0: it is not.
    pub fn run(&self, frame: &[u8], about: &About) -> u32 {
        let length = (frame.len() - about.start.min(frame.len())) as u32;
        let load = |place: Place| {
            let (at, size) = (place.at as i32, place.size.into());
            let Some(index) = place.index else {
                return load(frame, about, at, size);
            };
            let at = i32::try_from(i64::from(at) + i64::from(index)).ok()?;
            plain(frame, about, at, size)
        };
        cairn_bpf::run(&self.0, load, length)
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
