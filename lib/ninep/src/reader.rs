//! Numbers and texts of messages, read.

use crate::answer::{Qid, Result, Trouble};
use crate::request::Lock;

/// Bytes that have not been read yet.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Trouble::Nonsense)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Trouble::Nonsense)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Result<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(length.into())
    }

    pub fn qid(&mut self) -> Result<Qid> {
        Ok(Qid {
            kind: self.u8()?,
            version: self.u32()?,
            path: self.u64()?,
        })
    }

    /// Seconds and nanoseconds, which are less than a second.
    pub fn time(&mut self) -> Result<(i64, i64)> {
        let (seconds, nanoseconds) = (self.u64()?, self.u64()?);
        Ok((seconds as i64, nanoseconds.min(999_999_999) as i64))
    }

    pub fn lock(&mut self) -> Result<Lock<'a>> {
        Ok(Lock {
            kind: self.u8()?,
            start: self.u64()?,
            length: self.u64()?,
            process: self.u32()?,
            client: self.text()?,
        })
    }
}
