//! The format of a segment (RFC 9293, 3.1 and 3.2; RFC 7323; RFC 2018): header and options, parsed and written.
//!
//! `smoltcp::wire` has no form for segments with URG, ECE or CWR, nor for several of SYN, FIN, RST and PSH at once, all of which a stack has to judge. So this header is ours.

use crate::seq::Seq;

/// Length of a header without options.
pub const HEADER: usize = 20;
/// The longest header.
pub const HEADER_MAX: usize = 60;
/// SACK blocks that fit into a header without timestamps.
pub const SACK_BLOCKS: usize = 4;

/// The control bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    pub const FIN: Flags = Flags(0x01);
    pub const SYN: Flags = Flags(0x02);
    pub const RST: Flags = Flags(0x04);
    pub const PSH: Flags = Flags(0x08);
    pub const ACK: Flags = Flags(0x10);
    pub const URG: Flags = Flags(0x20);
    pub const ECE: Flags = Flags(0x40);
    pub const CWR: Flags = Flags(0x80);

    /// Are all of these set?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// Sequence numbers from the first to before the second.
pub type Block = (Seq, Seq);

/// The options that mean something here; all others are passed over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Maximum segment size (SYN only).
    pub mss: Option<u16>,
    /// Shift of the window (SYN only), as it was sent.
    pub window_scale: Option<u8>,
    /// SACK may be sent (SYN only).
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks: see [`Options::sack`].
    pub blocks: SackBlocks,
}

/// A few blocks, in the order in which they are in the option.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SackBlocks {
    blocks: [Block; SACK_BLOCKS],
    count: u8,
}

impl Options {
    /// The SACK blocks, as they were sent.
    pub fn sack(&self) -> &[Block] {
        &self.blocks.blocks[..usize::from(self.blocks.count).min(SACK_BLOCKS)]
    }

    /// Add a SACK block. False: there is no room.
    pub fn add_sack(&mut self, block: Block) -> bool {
        let SackBlocks { blocks, count } = &mut self.blocks;
        let Some(place) = blocks.get_mut(usize::from(*count)) else {
            return false;
        };
        *place = block;
        *count += 1;
        true
    }

    /// Length when written, padded to whole words, in the arrangement that Linux has.
    pub fn length(&self) -> usize {
        let mut length = 0;
        if self.mss.is_some() {
            length += 4;
        }
        if self.timestamps.is_some() {
            length += 12;
        } else if self.sack_permitted {
            length += 4;
        }
        if self.window_scale.is_some() {
            length += 4;
        }
        if !self.sack().is_empty() {
            length += 4 + 8 * self.sack().len();
        }
        length
    }

    /// Everything up to the first option that is malformed. There is no way to find the next one behind it.
    fn parse(mut bytes: &[u8]) -> Options {
        let mut options = Options::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                0 => break,
                1 => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let length = rest.first().map_or(0, |length| usize::from(*length));
            if length < 2 || length > bytes.len() {
                break;
            }
            let (option, behind) = bytes.split_at(length);
            let value = &option[2..];
            match (kind, value.len()) {
                (2, 2) => options.mss = Some(u16::from_be_bytes([value[0], value[1]])),
                (3, 1) => options.window_scale = Some(value[0]),
                (4, 0) => options.sack_permitted = true,
                (5, 8..) if value.len() % 8 == 0 => {
                    for block in value.chunks_exact(8) {
                        options.add_sack((Seq(word(block, 0)), Seq(word(block, 4))));
                    }
                }
                (8, 8) => options.timestamps = Some((word(value, 0), word(value, 4))),
                _ => {}
            }
            bytes = behind;
        }
        options
    }

    fn write(&self, out: &mut [u8]) {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            put(&[2, 4]);
            put(&mss.to_be_bytes());
        }
        if let Some((value, echo)) = self.timestamps {
            put(if self.sack_permitted {
                &[4, 2]
            } else {
                &[1, 1]
            });
            put(&[8, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        } else if self.sack_permitted {
            put(&[1, 1, 4, 2]);
        }
        if let Some(shift) = self.window_scale {
            put(&[1, 3, 3, shift]);
        }
        if !self.sack().is_empty() {
            put(&[1, 1, 5, 2 + 8 * self.sack().len() as u8]);
            for (start, end) in self.sack() {
                put(&start.0.to_be_bytes());
                put(&end.0.to_be_bytes());
            }
        }
    }
}

/// A segment without its text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    pub source: u16,
    pub destination: u16,
    pub seq: Seq,
    /// Means something only with [`Flags::ACK`].
    pub ack: Seq,
    pub flags: Flags,
    pub window: u16,
    /// Means something only with [`Flags::URG`].
    pub urgent: u16,
    pub options: Options,
}

/// Why bytes are no segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than its header.
    Short,
    /// The header says that it is shorter than a header is.
    Offset,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Segment {
    /// The header in front of these bytes, and its length: the text is behind it. The checksum is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<(Segment, usize), Malformed> {
        if bytes.len() < HEADER {
            return Err(Malformed::Short);
        }
        let length = usize::from(bytes[12] >> 4) * 4;
        if length < HEADER {
            return Err(Malformed::Offset);
        }
        let options = bytes.get(HEADER..length).ok_or(Malformed::Short)?;
        let segment = Segment {
            source: half(bytes, 0),
            destination: half(bytes, 2),
            seq: Seq(word(bytes, 4)),
            ack: Seq(word(bytes, 8)),
            flags: Flags(bytes[13]),
            window: half(bytes, 14),
            urgent: half(bytes, 18),
            options: Options::parse(options),
        };
        Ok((segment, length))
    }

    /// Length of the header with its options.
    pub fn header_length(&self) -> usize {
        HEADER + self.options.length()
    }

    /// Write the header, with no checksum. Its length; nothing if it does not fit.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let length = self.header_length();
        let out = out.get_mut(..length)?;
        if length > HEADER_MAX {
            return None;
        }
        out[0..2].copy_from_slice(&self.source.to_be_bytes());
        out[2..4].copy_from_slice(&self.destination.to_be_bytes());
        out[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        out[12] = (length as u8 / 4) << 4;
        out[13] = self.flags.0;
        out[14..16].copy_from_slice(&self.window.to_be_bytes());
        out[16..18].copy_from_slice(&[0, 0]);
        out[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        self.options.write(&mut out[HEADER..]);
        Some(length)
    }

    /// Sequence numbers that it takes with so much text (SEG.LEN).
    pub fn length(&self, text: u32) -> u32 {
        text + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// What answers a segment for which there is no connection (RFC 9293, 3.10.7.1): nothing if it is itself a reset.
    pub fn reset(&self, text: u32) -> Option<Segment> {
        if self.flags.has(Flags::RST) {
            return None;
        }
        let mut reset = Segment {
            source: self.destination,
            destination: self.source,
            flags: Flags::RST,
            ..Segment::default()
        };
        if self.flags.has(Flags::ACK) {
            reset.seq = self.ack;
        } else {
            reset.ack = self.seq + self.length(text);
            reset.flags = Flags::RST.with(Flags::ACK);
        }
        Some(reset)
    }
}

/// The Internet checksum (RFC 1071) of a segment with its pseudo-header: addresses of 4 or 16 bytes. Zero over a segment whose checksum field is right.
pub fn checksum(source: &[u8], destination: &[u8], pieces: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    let mut odd = false;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            sum += u64::from(*byte) << if odd { 0 } else { 8 };
            odd = !odd;
        }
    };
    add(source);
    add(destination);
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    add(&(length as u32).to_be_bytes());
    add(&6u32.to_be_bytes());
    for piece in pieces {
        add(piece);
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options() -> impl Strategy<Value = Options> {
        (
            any::<Option<u16>>(),
            any::<Option<u8>>(),
            any::<bool>(),
            any::<Option<(u32, u32)>>(),
            0..4u8,
        )
            .prop_map(|(mss, window_scale, sack_permitted, timestamps, blocks)| {
                let mut options = Options {
                    mss,
                    window_scale,
                    sack_permitted,
                    timestamps,
                    ..Options::default()
                };
                for n in 0..u32::from(blocks) {
                    options.add_sack((Seq(n * 10), Seq(n * 10 + 5)));
                }
                options
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_parsed(seq: u32, ack: u32, flags: u8, window: u16, urgent: u16, options in options()) {
            let segment = Segment { source: 1, destination: 65535, seq: Seq(seq), ack: Seq(ack), flags: Flags(flags), window, urgent, options };
            let mut bytes = [0; HEADER_MAX];
            if let Some(length) = segment.write(&mut bytes) {
                prop_assert_eq!(Segment::parse(&bytes[..length]), Ok((segment, length)));
            } else {
                prop_assert!(segment.header_length() > HEADER_MAX);
            }
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok((segment, length)) = Segment::parse(&bytes) {
                prop_assert!((HEADER..=HEADER_MAX).contains(&length) && length <= bytes.len());
                prop_assert!(segment.options.sack().len() <= SACK_BLOCKS);
            }
        }

        /// A checksum that is put into its field makes the sum zero; pieces do not change it.
        #[test]
        fn checksum_over_itself_is_zero(mut bytes in prop::collection::vec(any::<u8>(), 20..200), cut in 0..20usize) {
            bytes[16..18].fill(0);
            let sum = checksum(&[10, 0, 0, 1], &[10, 0, 0, 2], &[&bytes]);
            prop_assert_eq!(sum, checksum(&[10, 0, 0, 1], &[10, 0, 0, 2], &[&bytes[..cut], &bytes[cut..]]));
            bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(checksum(&[10, 0, 0, 1], &[10, 0, 0, 2], &[&bytes]), 0);
        }
    }

    #[test]
    fn options_that_are_cut_off_are_left_out() {
        let mut bytes = [0u8; 24];
        bytes[12] = 6 << 4;
        bytes[20..24].copy_from_slice(&[2, 9, 5, 0xb4]);
        assert_eq!(
            Segment::parse(&bytes).unwrap().0.options,
            Options::default()
        );
        bytes[20..24].copy_from_slice(&[2, 4, 5, 0xb4]);
        assert_eq!(Segment::parse(&bytes).unwrap().0.options.mss, Some(1460));
        bytes[12] = 7 << 4;
        assert_eq!(Segment::parse(&bytes), Err(Malformed::Short));
        bytes[12] = 4 << 4;
        assert_eq!(Segment::parse(&bytes), Err(Malformed::Offset));
    }
}
