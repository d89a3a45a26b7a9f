//! Rings of received frames that a program has mapped (packet(7), TPACKET_V2): memory that both write.
//!
//! A slot's first word is its owner: 0 the server's, otherwise the program's. What the program writes is looked at in this word alone, and what it says
//! decides only whether its own frame is overwritten or lost: sizes and places are the server's own.

use super::{Seen, LINK_ADDRESS};
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_rt::Portal;
use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of `struct tpacket2_hdr`, and of that with the address behind it (TPACKET2_HDRLEN).
pub const HEADER: usize = 32;
const WITH_ADDRESS: usize = HEADER + LINK_ADDRESS;
const PAGE: usize = 4096;
/// Most bytes of a ring.
pub const MOST: usize = 32 << 20;

/// TP_STATUS_.
pub const USER: u32 = 1;
pub const LOSING: u32 = 4;
pub const NO_CHECKSUM: u32 = 8;

/// What a ring lies in.
pub trait Memory {
    fn words(&self) -> &[AtomicU64];
    /// By which a program maps it.
    fn portal(&self) -> Portal;
}

/// `struct tpacket_req`
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub block: usize,
    pub blocks: usize,
    pub frame: usize,
    pub frames: usize,
}

impl Shape {
    pub fn of(bytes: &[u8; 16]) -> Shape {
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize
        };
        Shape {
            block: word(0),
            blocks: word(4),
            frame: word(8),
            frames: word(12),
        }
    }

    /// Its bytes; None: it is none (EINVAL).
    pub fn bytes(&self, reserve: usize) -> Option<usize> {
        let sized = self.block != 0 && self.block.is_multiple_of(PAGE);
        let aligned = self.frame.is_multiple_of(16) && self.frame >= WITH_ADDRESS + reserve;
        if !sized || !aligned || self.frame > self.block {
            return None;
        }
        let each = self.block / self.frame;
        let right = each.checked_mul(self.blocks)? == self.frames && self.frames != 0;
        right.then(|| self.block.checked_mul(self.blocks)).flatten()
    }
}

pub struct Ring {
    memory: Box<dyn Memory>,
    shape: Shape,
    bytes: usize,
    reserve: usize,
    /// The slot that is written next.
    head: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// None: there is no memory.
    pub fn new(memory: Box<dyn Memory>, shape: Shape, reserve: usize) -> Option<Ring> {
        let bytes = shape.bytes(reserve)?;
        let mut scratch = Vec::new();
        scratch.try_reserve_exact(shape.frame).ok()?;
        (memory.words().len() * 8 >= bytes).then_some(Ring {
            memory,
            shape,
            bytes,
            reserve,
            head: 0,
            scratch,
        })
    }

    #[cfg(test)]
    pub fn memory_words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    pub fn pages(&self) -> u64 {
        (self.bytes / PAGE) as u64
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn portal(&self) -> Portal {
        self.memory.portal()
    }

    /// The words of a slot.
    fn slot(&self, number: usize) -> &[AtomicU64] {
        let each = self.shape.block / self.shape.frame;
        let at = number / each * self.shape.block + number % each * self.shape.frame;
        let words = self.memory.words();
        words
            .get(at / 8..(at + self.shape.frame) / 8)
            .unwrap_or(&[])
    }

    fn is_the_programs(&self, number: usize) -> bool {
        let word = self.slot(number).first();
        word.is_none_or(|word| word.load(Ordering::Acquire) as u32 != 0)
    }

    /// Has the program something to read? The frame that was written last is still its own.
    pub fn is_readable(&self) -> bool {
        let last = self.head.checked_sub(1).unwrap_or(self.shape.frames - 1);
        self.is_the_programs(last)
    }

    /// Write a frame, as far as there is room in a slot for the first `wanted` bytes of what the socket sees. False: the program has not read what lies there.
    pub fn put(
        &mut self,
        seen: &Seen,
        start: usize,
        wanted: usize,
        (status, time): (u32, u64),
    ) -> bool {
        if self.is_the_programs(self.head) {
            return false;
        }
        let link = super::HEADER - start;
        let network = (WITH_ADDRESS + 16).next_multiple_of(16) + self.reserve;
        let place = network - link;
        let bytes = seen.frame.get(start..).unwrap_or(&[]);
        let room = self.shape.frame.saturating_sub(place);
        let kept = wanted.min(bytes.len()).min(room);
        let out = &mut self.scratch;
        out.clear();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&(kept as u32).to_le_bytes());
        out.extend_from_slice(&(place as u16).to_le_bytes());
        out.extend_from_slice(&(network as u16).to_le_bytes());
        out.extend_from_slice(&((time / 1_000_000_000) as u32).to_le_bytes());
        out.extend_from_slice(&((time % 1_000_000_000) as u32).to_le_bytes());
        out.resize(HEADER, 0);
        out.extend_from_slice(&seen.structure());
        out.resize(place.min(self.shape.frame), 0);
        out.extend_from_slice(&bytes[..kept]);
        out.resize(out.len().next_multiple_of(8).min(self.shape.frame), 0);
        let slot = self.slot(self.head);
        let (words, _) = self.scratch.as_chunks::<8>();
        for (place, word) in slot.iter().zip(words).skip(1) {
            place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        let length = u64::from(bytes.len() as u32) << 32;
        if let Some(first) = slot.first() {
            first.store(length | u64::from(status | USER), Ordering::Release);
        }
        self.head = (self.head + 1) % self.shape.frames;
        true
    }
}
