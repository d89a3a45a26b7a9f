//! The nucleus log: a ring that can be read, and lines that go out by the machine layer as they come.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::{Answer, Kernel};
use cairn_abi::service::log;
use cairn_abi::Error;

/// Longest line a program may write at once.
const LINE: usize = 1024;
/// Most bytes that one read gives.
const SHARE: usize = 1024;

pub struct Log {
    ring: &'static mut [u8],
    /// Bytes ever written.
    written: u64,
}

impl Log {
    pub fn new(ring: &'static mut [u8]) -> Log {
        Log { ring, written: 0 }
    }

    fn append(&mut self, bytes: &[u8]) {
        let len = self.ring.len();
        if len == 0 {
            return;
        }
        // Lines are shorter than the ring.
        let bytes = &bytes[bytes.len().saturating_sub(len)..];
        let at = (self.written % len as u64) as usize;
        let (first, second) = bytes.split_at(bytes.len().min(len - at));
        self.ring[at..at + first.len()].copy_from_slice(first);
        self.ring[..second.len()].copy_from_slice(second);
        self.written += bytes.len() as u64;
    }

    /// Copy from the ring; `offset` is moved to the oldest byte that is still there. Returns the new start and the count.
    fn read(&self, offset: u64, into: &mut [u8]) -> (u64, usize) {
        let len = self.ring.len();
        let start = offset.clamp(self.written.saturating_sub(len as u64), self.written);
        let n = (self.written - start).min(into.len() as u64) as usize;
        if n != 0 {
            let at = (start % len as u64) as usize;
            let (first, second) = into[..n].split_at_mut(n.min(len - at));
            first.copy_from_slice(&self.ring[at..at + first.len()]);
            second.copy_from_slice(&self.ring[..second.len()]);
        }
        (start, n)
    }
}

/// A line being put together; what does not fit is cut. (`core`'s formatting is several times the code of all that the nucleus says.)
pub struct Line {
    bytes: [u8; LINE + 32],
    len: usize,
}

impl Line {
    #[inline(never)]
    pub fn new() -> Line {
        Line {
            bytes: [0; LINE + 32],
            len: 0,
        }
    }

    #[inline(never)]
    pub fn push(&mut self, bytes: &[u8]) {
        for (to, byte) in self.bytes.iter_mut().skip(self.len).zip(bytes) {
            *to = *byte;
            self.len += 1;
        }
    }

    pub fn text(&mut self, text: &str) -> &mut Line {
        self.push(text.as_bytes());
        self
    }

    /// In decimal.
    pub fn number(&mut self, value: u64) -> &mut Line {
        if value >= 10 {
            self.number(value / 10);
        }
        self.digits(value % 10, 1)
    }

    /// The last `count` hexadecimal digits.
    #[inline(never)]
    pub fn digits(&mut self, value: u64, count: u32) -> &mut Line {
        for i in (0..count).rev() {
            let digit = (value >> (4 * i)) as u8 & 15;
            self.push(&[digit + if digit < 10 { b'0' } else { b'a' - 10 }]);
        }
        self
    }

    /// In hexadecimal, behind what it is.
    #[inline(never)]
    pub fn hex(&mut self, what: &str, value: u64) -> &mut Line {
        let count = (64 - (value | 1).leading_zeros()).div_ceil(4);
        self.text(what).text("0x").digits(value, count)
    }

    /// Numbers in hexadecimal, each behind its name.
    pub fn named(&mut self, names: &[&str], values: &[u64]) -> &mut Line {
        for (name, &value) in names.iter().zip(values) {
            self.text(" ").text(name).hex(" ", value);
        }
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Line {
    fn default() -> Self {
        Line::new()
    }
}

impl<A: Arch> Kernel<A> {
    /// A line into the nucleus log (without its newline).
    pub fn log(&mut self, line: &Line) {
        let bytes = line.as_bytes();
        self.log.append(bytes);
        self.log.append(b"\n");
        self.arch.log(bytes);
    }

    #[inline(never)]
    pub(crate) fn log_service(&mut self, t: ThreadRef, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        match operation {
            log::WRITE => {
                let len = w[1] as usize;
                if w[1] > LINE as u64 {
                    return Err(Error::BadArgument.into());
                }
                let mut line = Line::new();
                let id = self.domains[self.threads[t].domain].id;
                line.text("[").number((id & 0xf_ffff).into()).text("] ");
                let text = &mut line.bytes[line.len..line.len + len];
                self.read_own(t, w[0], text)?;
                line.len += text.trim_ascii_end().len();
                self.log(&line);
                Ok(())
            }
            log::READ => {
                let mut share = [0; SHARE];
                let want = w[1].min(SHARE as u64) as usize;
                let (start, n) = self.log.read(w[2], &mut share[..want]);
                self.write_own(t, w[0], &share[..n])?;
                self.answer(t, 0, n as u64);
                self.answer(t, 1, start + n as u64);
                Ok(())
            }
            _ => Err(Error::BadOperation.into()),
        }
    }
}
