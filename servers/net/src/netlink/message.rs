//! Messages of netlink (RFC 3549): a header, a body, and attributes, each at a multiple of four bytes. What is taken apart is checked by its lengths and
//! nothing else; what is made never grows beyond the room that was found for it.

use alloc::vec::Vec;
use cairn_idl::errno::EINVAL;

pub const HEADER: usize = 16;

/// NLM_F_
pub mod flag {
    pub const REQUEST: u16 = 1;
    pub const MULTI: u16 = 2;
    pub const ACK: u16 = 4;
    /// ROOT and MATCH: of a GET.
    pub const DUMP: u16 = 0x300;
    /// Of a NEW.
    pub const REPLACE: u16 = 0x100;
    pub const EXCL: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
    /// Of an error: the message is not quoted in whole.
    pub const CAPPED: u16 = 0x100;
}

pub const ERROR: u16 = 2;
pub const DONE: u16 = 3;
/// Lower numbers are netlink's own.
pub const FIRST_TYPE: u16 = 16;

/// A message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub seq: u32,
    /// With its header.
    pub whole: &'a [u8],
}

pub fn half(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

pub fn word(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

impl<'a> Message<'a> {
    /// The first one, and what follows it. None: there is no whole one.
    pub fn first(bytes: &'a [u8]) -> Option<(Message<'a>, &'a [u8])> {
        let length = word(bytes, 0) as usize;
        if length < HEADER || length > bytes.len() {
            return None;
        }
        let message = Message {
            kind: half(bytes, 4),
            flags: half(bytes, 6),
            seq: word(bytes, 8),
            whole: &bytes[..length],
        };
        Some((
            message,
            &bytes[length.next_multiple_of(4).min(bytes.len())..],
        ))
    }

    pub fn body(&self) -> &'a [u8] {
        &self.whole[HEADER..]
    }
}

/// Attributes, of which the last of a type counts.
#[derive(Clone, Copy)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Behind so many bytes of a body. None: there are not even those.
    pub fn behind(body: &'a [u8], length: usize) -> Option<Attributes<'a>> {
        let fixed = length.next_multiple_of(4);
        match body.len() {
            all if all < length => None,
            all => Some(Attributes(&body[fixed.min(all)..])),
        }
    }

    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        let mut found = None;
        let mut rest = self.0;
        while rest.len() >= 4 {
            let length = usize::from(half(rest, 0));
            if length < 4 || length > rest.len() {
                break;
            }
            // (The upper two bits say nested, and network byte order.)
            if half(rest, 2) & 0x3fff == kind {
                found = Some(&rest[4..length]);
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
        found
    }

    /// A number of four bytes. EINVAL: it is too short.
    pub fn word(&self, kind: u16) -> Result<Option<u32>, i64> {
        match self.get(kind) {
            None => Ok(None),
            Some(bytes) if bytes.len() < 4 => Err(EINVAL),
            Some(bytes) => Ok(Some(word(bytes, 0))),
        }
    }
}

/// Messages that are made, in a room of so many bytes.
pub struct Builder {
    pub bytes: Vec<u8>,
    room: usize,
    /// Something did not fit.
    full: bool,
}

impl Builder {
    pub fn new(room: usize) -> Option<Builder> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(room).ok()?;
        Some(Builder {
            bytes,
            room,
            full: false,
        })
    }

    pub fn put(&mut self, bytes: &[u8]) {
        if self.full || self.bytes.len() + bytes.len() > self.room {
            self.full = true;
            return;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn align(&mut self) {
        let length = self.bytes.len();
        self.put(&[0; 3][..length.next_multiple_of(4) - length]);
    }

    /// A message with this in it. False: it does not fit, and nothing was put.
    pub fn message(
        &mut self,
        (kind, flags, seq, port): (u16, u16, u32, u32),
        fill: impl FnOnce(&mut Builder),
    ) -> bool {
        let start = self.bytes.len();
        self.put(&[0; 4]);
        self.put(&kind.to_ne_bytes());
        self.put(&flags.to_ne_bytes());
        self.put(&seq.to_ne_bytes());
        self.put(&port.to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - start) as u32;
        self.align();
        if core::mem::take(&mut self.full) {
            self.bytes.truncate(start);
            return false;
        }
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        true
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.put(&(4 + value.len() as u16).to_ne_bytes());
        self.put(&kind.to_ne_bytes());
        self.put(value);
        self.align();
    }

    /// A number of four bytes.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_what_is_read() {
        let mut builder = Builder::new(100).unwrap();
        let filled = builder.message((20, flag::MULTI, 7, 9), |to| {
            to.put(&[1, 2, 3, 4]);
            to.attribute(3, b"lo\0");
            to.number(4, 65_536);
        });
        assert!(filled);
        assert!(!builder.message((21, 0, 0, 0), |to| to.put(&[0; 200])));
        assert!(builder.message((DONE, 0, 7, 9), |to| to.put(&[0; 4])));
        let (first, rest) = Message::first(&builder.bytes).unwrap();
        assert_eq!((first.kind, first.flags, first.seq), (20, flag::MULTI, 7));
        let attributes = Attributes::behind(first.body(), 4).unwrap();
        assert_eq!(attributes.get(3), Some(&b"lo\0"[..]));
        assert_eq!(attributes.word(4), Ok(Some(65_536)));
        assert_eq!((attributes.get(5), attributes.word(3)), (None, Err(EINVAL)));
        let (second, rest) = Message::first(rest).unwrap();
        assert_eq!((second.kind, rest.len()), (DONE, 0));
        assert!(Attributes::behind(first.body(), 1000).is_none());
    }
}
