//! Bytes typed and not yet read.
//!
//! `read ≤ committed ≤ write` (free-running indices). Between `read` and `committed` lies what readers may have; behind it, in canonical mode, the
//! line that is still being edited. `ends` marks the bytes that end a line, so that a delimiter typed literally is none. The end-of-file
//! character is kept as a marked zero, which readers never see.

use alloc::boxed::Box;
use alloc::vec;

/// Linux's N_TTY_BUF_SIZE, which programs know as the longest line (MAX_CANON and one).
pub const SIZE: usize = 4096;
/// What stands for an end-of-file character.
const END_OF_FILE: u8 = 0;

pub struct Queue {
    bytes: Box<[u8]>,
    ends: [u64; SIZE / 64],
    read: usize,
    committed: usize,
    write: usize,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            bytes: vec![0; SIZE].into_boxed_slice(),
            ends: [0; SIZE / 64],
            read: 0,
            committed: 0,
            write: 0,
        }
    }
}

impl Queue {
    /// Bytes for readers.
    pub fn available(&self) -> usize {
        self.committed.wrapping_sub(self.read)
    }

    /// Bytes of the line being edited.
    pub fn edited(&self) -> usize {
        self.write.wrapping_sub(self.committed)
    }

    pub fn room(&self) -> usize {
        SIZE - self.write.wrapping_sub(self.read)
    }

    /// Append to the line being edited. The caller has looked for room.
    pub fn push(&mut self, byte: u8) {
        let at = self.write % SIZE;
        self.bytes[at] = byte;
        self.ends[at / 64] &= !(1 << (at % 64));
        self.write = self.write.wrapping_add(1);
    }

    /// Append the delimiter (`None`: end of file) and hand the line to readers.
    pub fn push_end(&mut self, byte: Option<u8>) {
        let at = self.write % SIZE;
        self.push(byte.unwrap_or(END_OF_FILE));
        self.ends[at / 64] |= 1 << (at % 64);
        self.commit();
    }

    /// Everything is for readers.
    pub fn commit(&mut self) {
        self.committed = self.write;
    }

    /// The `back`-th last byte (1 = the last) of the line being edited.
    pub fn last(&self, back: usize) -> Option<u8> {
        (back >= 1 && back <= self.edited())
            .then(|| self.bytes[self.write.wrapping_sub(back) % SIZE])
    }

    /// Forget the last `count` bytes of the line being edited.
    pub fn unpush(&mut self, count: usize) {
        self.write = self.write.wrapping_sub(count.min(self.edited()));
    }

    pub fn clear(&mut self) {
        self.read = self.write;
        self.committed = self.write;
    }

    /// Canonical mode was left: everything is readable, lines no longer count.
    pub fn to_raw(&mut self) {
        self.ends = [0; SIZE / 64];
        self.commit();
    }

    /// Canonical mode was entered: what waits counts as one finished line.
    pub fn to_canonical(&mut self) {
        self.ends = [0; SIZE / 64];
        self.commit();
        if self.available() > 0 {
            let at = self.write.wrapping_sub(1) % SIZE;
            self.ends[at / 64] |= 1 << (at % 64);
        }
    }

    fn is_end(&self, index: usize) -> bool {
        let at = index % SIZE;
        self.ends[at / 64] & 1 << (at % 64) != 0
    }

    fn is_end_of_file(&self, index: usize) -> bool {
        // A line made of waiting bytes by `to_canonical` may end in a real zero; that is a byte, and rare enough to be taken for the end.
        self.is_end(index) && self.bytes[index % SIZE] == END_OF_FILE
    }

    pub fn place(&self) -> usize {
        self.read
    }

    /// What was taken since then is for readers again. Nothing was pushed meanwhile.
    pub fn put_back(&mut self, place: usize) {
        self.read = place;
    }

    /// Take bytes without regard to lines.
    pub fn take_raw(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.available());
        for byte in &mut into[..count] {
            *byte = self.bytes[self.read % SIZE];
            self.read = self.read.wrapping_add(1);
        }
        count
    }

    /// Take at most one line, with its delimiter unless that is an end of file. 0 with something available is an end of file.
    pub fn take_line(&mut self, into: &mut [u8]) -> usize {
        let mut count = 0;
        while self.available() > 0 {
            if self.is_end_of_file(self.read) {
                // Also when the buffer is just full: the end of file ends this line and must not become an empty read of its own.
                self.read = self.read.wrapping_add(1);
                break;
            }
            if count == into.len() {
                break;
            }
            let end = self.is_end(self.read);
            into[count] = self.bytes[self.read % SIZE];
            count += 1;
            self.read = self.read.wrapping_add(1);
            if end {
                break;
            }
        }
        count
    }

    /// What FIONREAD tells in canonical mode: readable bytes without end-of-file marks.
    pub fn countable(&self) -> usize {
        (0..self.available())
            .filter(|&i| !self.is_end_of_file(self.read.wrapping_add(i)))
            .count()
    }
}
