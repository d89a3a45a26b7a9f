//! What a connection's text lies in: memory that grows with what is in it, and is charged to the connection's payer. How much that is, the connection knows.
//! When nothing is in it the memory goes, but for what all rings may have together ([`crate::stream`]): who goes on sending finds it as it was.

use alloc::vec::Vec;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;

/// The least memory of a ring that holds anything; an empty one keeps no more.
pub const SMALLEST: usize = 4096;

#[derive(Default)]
pub struct Ring {
    memory: Vec<u8>,
    head: usize,
}

impl Ring {
    pub fn memory(&self) -> usize {
        self.memory.len()
    }

    /// Memory for so many bytes, which counts in `all`. False, and nothing has happened, if there is none.
    pub fn reserve(
        &mut self,
        cx: &mut Context,
        payer: u32,
        needed: usize,
        all: &mut usize,
    ) -> bool {
        let before = self.memory.len();
        if needed <= before {
            return true;
        }
        let size = needed.next_power_of_two().max(SMALLEST);
        if cx.charge(payer, size - before).is_err() {
            return false;
        }
        let mut memory = Vec::new();
        if memory.try_reserve_exact(size).is_err() {
            cx.refund(payer, size - before);
            return false;
        }
        let (second, first) = self.memory.split_at(self.head.min(before));
        memory.extend_from_slice(first);
        memory.extend_from_slice(second);
        memory.resize(size, 0);
        (self.memory, self.head) = (memory, 0);
        *all += size - before;
        true
    }

    /// Nothing is in it any more: what comes lies in one piece.
    pub fn start_over(&mut self) {
        self.head = 0;
    }

    /// The same, and more memory than `keep` goes. Bytes that were given back.
    pub fn clear(&mut self, keep: usize, all: &mut usize) -> usize {
        self.start_over();
        if self.memory.len() <= keep {
            return 0;
        }
        let freed = core::mem::take(&mut self.memory).len();
        *all -= freed;
        freed
    }

    /// The bytes from `at` (behind the first one) on.
    pub fn pieces(&self, at: usize, length: usize) -> [&[u8]; 2] {
        let size = self.memory.len();
        if size == 0 || length == 0 {
            return [&[], &[]];
        }
        let start = (self.head + at) % size;
        let length = length.min(size);
        let first = length.min(size - start);
        [
            &self.memory[start..start + first],
            &self.memory[..length - first],
        ]
    }

    fn pieces_mut(&mut self, at: usize, length: usize) -> [&mut [u8]; 2] {
        let size = self.memory.len();
        if size == 0 || length == 0 {
            return [&mut [], &mut []];
        }
        let start = (self.head + at) % size;
        let length = length.min(size);
        let first = length.min(size - start);
        let (second, rest) = self.memory.split_at_mut(start);
        [&mut rest[..first], &mut second[..length - first]]
    }

    /// There is memory for them.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        let [first, second] = self.pieces_mut(at, bytes.len());
        first.copy_from_slice(&bytes[..first.len()]);
        let rest = &bytes[first.len()..];
        second.copy_from_slice(&rest[..second.len()]);
    }

    /// The same, from offset `from` of the caller's out part.
    pub fn fetch(&mut self, cx: &mut Context, at: usize, from: usize, length: usize) -> Answer<()> {
        let [first, second] = self.pieces_mut(at, length);
        cx.fetch(from, first)?;
        if !second.is_empty() {
            cx.fetch(from + first.len(), second)?;
        }
        Ok(())
    }

    /// So many bytes at the front are gone.
    pub fn advance(&mut self, count: usize) {
        if !self.memory.is_empty() {
            self.head = (self.head + count) % self.memory.len();
        }
    }
}
