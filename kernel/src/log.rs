//! The nucleus log: a ring that can be read, and lines that go out by the machine layer as they come.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::{Answer, Kernel};
use cairn_abi::service::log;
use cairn_abi::Error;

/// Longest line a program may write at once.
const LINE: usize = 1024;
/// How long a serial port is given until it is looked at again: somewhat longer than it takes for 16 bytes at 115,200 bits a second.
const LOG_PAUSE: u64 = 1_500_000;
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
        let (before, behind) = self.ring.split_at_mut((self.written % len as u64) as usize);
        let n = put(behind, bytes);
        put(before, bytes.get(n..).unwrap_or_default());
        self.written += bytes.len() as u64;
    }

    /// Copy from the ring; `offset` is moved to the oldest byte that is still there. Returns the new start and the count.
    fn read(&self, offset: u64, into: &mut [u8]) -> (u64, usize) {
        let len = self.ring.len() as u64;
        let start = offset
            .max(self.written.saturating_sub(len))
            .min(self.written);
        let into_len = into.len();
        let n = ((self.written - start) as usize).min(into_len);
        let into = &mut into[..n];
        let at = start.checked_rem(len).unwrap_or(0) as usize;
        let (before, behind) = self.ring.split_at(at);
        let got = put(into, behind);
        put(into.get_mut(got..).unwrap_or_default(), before);
        (start, n)
    }
}

/// Copy as many as there are and as there is room for.
#[inline(never)]
fn put(to: &mut [u8], from: &[u8]) -> usize {
    let n = to.len().min(from.len());
    to[..n].copy_from_slice(&from[..n]);
    n
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
        for &byte in bytes {
            if let Some(to) = self.bytes.get_mut(self.len) {
                *to = byte;
                self.len += 1;
            }
        }
    }

    pub fn text(&mut self, text: &str) -> &mut Line {
        self.push(text.as_bytes());
        self
    }

    /// In decimal, behind what it is.
    #[inline(never)]
    pub fn number(&mut self, what: &str, value: u64) -> &mut Line {
        self.push(what.as_bytes());
        self.decimal(value)
    }

    fn decimal(&mut self, value: u64) -> &mut Line {
        if value >= 10 {
            self.decimal(value / 10);
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

    /// What may be a return address, and how many words of the stack lie below it.
    pub fn return_address(&mut self, word: u64, below: u64) {
        self.hex(" ", word).number("@", below);
    }

    #[inline(never)]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Default for Line {
    fn default() -> Self {
        Line::new()
    }
}

impl<A: Arch> Kernel<A> {
    /// A line into the nucleus log (without its newline). In the ring it stands behind its time.
    pub fn log(&mut self, line: &Line) {
        let bytes = line.as_bytes();
        let mut time = Line::new();
        time.number("", self.arch.now() / 1000).text(" ");
        self.log.append(time.as_bytes());
        self.log.append(bytes);
        self.log.append(b"\n");
        self.arch.log(bytes);
        self.send_log();
    }

    /// What goes out slowly goes on with the timer.
    #[inline(never)]
    fn send_log(&mut self) {
        let next = self.log_again();
        if next < self.pause_next {
            self.pause_next = next;
            self.program_timer();
        }
    }

    /// Send what goes out without waiting; when there will be room for more, if there is more.
    pub(crate) fn log_again(&mut self) -> u64 {
        match self.arch.log_goes_on() {
            true => self.arch.now().saturating_add(LOG_PAUSE),
            false => u64::MAX,
        }
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
                line.number("[", (id & 0xf_ffff).into()).text("] ");
                let room = line.bytes.get_mut(line.len..line.len + len);
                let text = room.ok_or(Error::BadArgument)?;
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
