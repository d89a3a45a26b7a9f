//! A split virtqueue (2.7) whose requests take one descriptor each, an indirect one: a request's tag is the number of its descriptor, and of the slot where its own table lies. A device has one or several; a tag is in use in one of them at most.
//!
//! The device may write anywhere in this memory at any time, though it is not supposed to: what is read back is checked.

use cairn_block::chip::Memory;

/// Most requests of a queue.
pub const MOST: usize = 64;
/// Where the three parts of a queue are, from its page on.
const DESCRIPTORS: usize = 0;
const AVAILABLE: usize = 1024;
const USED: usize = 2048;
/// Memory that the queue takes.
pub const BYTES: usize = 4096;

const INDIRECT: u16 = 4;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// The device does not want to be notified.
const NO_NOTIFY: u16 = 1;

pub struct Queue {
    /// Where its page is.
    at: usize,
    size: u16,
    /// How many requests were made available, and seen used.
    made: u16,
    seen: u16,
    /// What the device has.
    under_way: u64,
    /// As `made`, when the device was last notified.
    told: u16,
}

impl Queue {
    /// Of so many requests: a power of two, at most [`MOST`]. Its page is the device's `number`th, and zero.
    pub fn new(number: usize, size: u16) -> Queue {
        Queue {
            at: number * BYTES,
            size,
            made: 0,
            seen: 0,
            under_way: 0,
            told: 0,
        }
    }

    /// Where the device finds descriptors, what is available, what is used.
    pub fn places(&self, memory: &impl Memory) -> [u64; 3] {
        [DESCRIPTORS, AVAILABLE, USED].map(|at| memory.physical(self.at + at))
    }

    pub fn size(&self) -> u16 {
        self.size
    }

    /// How many requests the device has.
    pub fn under_way(&self) -> u32 {
        self.under_way.count_ones()
    }

    /// How many were made available since the device was last notified.
    pub fn untold(&self) -> u16 {
        self.made.wrapping_sub(self.told)
    }

    /// Whether a request with this tag can be given to the device.
    pub fn is_free(&self, tag: usize) -> bool {
        tag < self.size as usize && self.under_way >> tag & 1 == 0
    }

    /// Give the device a request: the table of its descriptors. False: it has that one.
    pub fn give(
        &mut self,
        memory: &impl Memory,
        tag: usize,
        table: u64,
        descriptors: usize,
    ) -> bool {
        if !self.is_free(tag) {
            return false;
        }
        let at = self.at + DESCRIPTORS + tag * DESCRIPTOR;
        memory.write64(at, table);
        memory.write32(at + 8, (descriptors * DESCRIPTOR) as u32);
        memory.write16(at + 12, INDIRECT);
        memory.write16(at + 14, 0);
        let place = (self.made % self.size) as usize;
        memory.write16(self.at + AVAILABLE + 4 + 2 * place, tag as u16);
        memory.barrier();
        self.made = self.made.wrapping_add(1);
        memory.write16(self.at + AVAILABLE + 2, self.made);
        self.under_way |= 1 << tag;
        true
    }

    /// Whether the device must be notified of what it was given since.
    pub fn must_notify(&mut self, memory: &impl Memory) -> bool {
        if self.told == self.made {
            return false;
        }
        self.told = self.made;
        memory.barrier();
        memory.read16(self.at + USED) & NO_NOTIFY == 0
    }

    /// The tag of a request that the device is done with.
    pub fn used(&mut self, memory: &impl Memory) -> Option<usize> {
        if self.under_way == 0 {
            return None;
        }
        // No more than it could have used: what it says beyond that is nonsense.
        for _ in 0..self.size {
            if memory.read16(self.at + USED + 2) == self.seen {
                return None;
            }
            memory.barrier();
            let place = (self.seen % self.size) as usize;
            let tag = memory.read32(self.at + USED + 4 + 8 * place);
            self.seen = self.seen.wrapping_add(1);
            if tag < u32::from(self.size) && self.under_way >> tag & 1 == 1 {
                self.under_way &= !(1 << tag);
                return Some(tag as usize);
            }
        }
        None
    }
}
