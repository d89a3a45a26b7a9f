//! Frames: encoding, and a decoder that takes bytes as they come.

/// Bytes before the payload.
pub const HEAD: usize = 3;
/// Most payload that a frame can have.
pub const PAYLOAD_MAX: usize = u16::MAX as usize;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The payload's first four bytes as a number; an absent byte counts as 0.
    pub fn number(&self) -> u32 {
        let mut bytes = [0; 4];
        for (to, from) in bytes.iter_mut().zip(&self.payload) {
            *to = *from;
        }
        u32::from_le_bytes(bytes)
    }
}

/// The stream does not hold a frame where one must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The kind byte that was found.
    pub kind: u8,
}

/// Append a frame to `out`. A payload longer than [`PAYLOAD_MAX`] becomes several frames of the same kind.
pub fn encode(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    let mut rest = payload;
    loop {
        let piece = rest.len().min(PAYLOAD_MAX);
        out.push(kind);
        out.extend_from_slice(&(piece as u16).to_le_bytes());
        out.extend_from_slice(&rest[..piece]);
        rest = &rest[piece..];
        if rest.is_empty() {
            return;
        }
    }
}

/// Collects bytes and gives out whole frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    start: usize,
    /// The magic still to be seen, if this end waits for one.
    magic: Option<&'static [u8]>,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder that skips everything up to and including `magic`.
    pub fn after(magic: &'static [u8]) -> Self {
        Self {
            magic: Some(magic),
            ..Self::default()
        }
    }

    /// Add what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` if there is none yet. A kind of 0 or above 127 cannot be a frame: the line is out of step.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Malformed> {
        if let Some(magic) = self.magic {
            let rest = &self.bytes[self.start..];
            match rest.windows(magic.len()).position(|w| w == magic) {
                Some(at) => {
                    self.start += at + magic.len();
                    self.magic = None;
                }
                None => {
                    self.start += rest.len().saturating_sub(magic.len() - 1);
                    return Ok(None);
                }
            }
        }
        let rest = &self.bytes[self.start..];
        let Some(&kind) = rest.first() else {
            return Ok(None);
        };
        if kind == 0 || kind > 127 {
            return Err(Malformed { kind });
        }
        if rest.len() < HEAD {
            return Ok(None);
        }
        let length = u16::from_le_bytes([rest[1], rest[2]]) as usize;
        let Some(payload) = rest.get(HEAD..HEAD + length) else {
            return Ok(None);
        };
        let frame = Frame {
            kind,
            payload: payload.to_vec(),
        };
        self.start += HEAD + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut stream = b"noise\x02cairn noise".to_vec();
        stream.extend_from_slice(crate::MAGIC);
        encode(3, b"", &mut stream);
        encode(4, &[7; 300], &mut stream);
        encode(5, b"end", &mut stream);
        for cut in 1..stream.len() {
            let mut decoder = Decoder::after(crate::MAGIC);
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push((frame.kind, frame.payload.len()));
                }
            }
            assert_eq!(seen, [(3, 0), (4, 300), (5, 3)], "pieces of {cut}");
        }
    }

    #[test]
    fn long_payloads_become_several_frames() {
        let payload: Vec<u8> = (0..PAYLOAD_MAX + 5).map(|i| i as u8).collect();
        let mut stream = Vec::new();
        encode(9, &payload, &mut stream);
        let mut decoder = Decoder::new();
        decoder.push(&stream);
        let mut back = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            assert_eq!(frame.kind, 9);
            back.extend_from_slice(&frame.payload);
        }
        assert_eq!(back, payload);
    }

    #[test]
    fn a_line_out_of_step_is_noticed() {
        let mut decoder = Decoder::new();
        decoder.push(&[200, 1, 0, 0]);
        assert_eq!(decoder.next_frame(), Err(Malformed { kind: 200 }));
    }

    #[test]
    fn numbers_are_read_without_trust_in_the_length() {
        let frame = |payload: &[u8]| Frame {
            kind: 1,
            payload: payload.to_vec(),
        };
        assert_eq!(frame(&[1, 2]).number(), 0x201);
        assert_eq!(frame(&[1, 0, 0, 0, 9]).number(), 1);
    }
}
