//! A split virtqueue (2.7) whose requests take one descriptor each: it is the request's only one, or an indirect one. So a request's tag is the number of its descriptor, and of the slot where its own table lies. A device has one or several; a tag is in use in one of them at most, if they share slots.
//!
//! The device may write anywhere in this memory at any time, though it is not supposed to: what is read back is checked.

use cairn_device::Memory;

/// Most requests of a queue with so many words of tags: the smallest one, which is for 64, fits into a page.
pub const fn most(words: usize) -> usize {
    64 * words
}

/// Bytes of its memory, whole pages.
pub const fn bytes(words: usize) -> usize {
    (Queue::<1>::USED_OF_ONE + 1024 * (words - 1) + 6 + 8 * most(words)).next_multiple_of(4096)
}

const DEVICE_WRITES: u16 = 2;
const INDIRECT: u16 = 4;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// The device does not want to be notified; the driver does not want to be interrupted.
const NO_NOTIFY: u16 = 1;
const NO_INTERRUPT: u16 = 1;

/// `W`: words of tags, each of 64.
pub struct Queue<const W: usize = 1> {
    /// Where its memory is.
    at: usize,
    size: u16,
    /// How many requests were made available, and seen used.
    made: u16,
    seen: u16,
    /// What the device has.
    under_way: [u64; W],
    /// As `made`, when the device was last notified.
    told: u16,
    /// Both sides say from which count on they want to hear (2.7.10).
    events: bool,
}

impl<const W: usize> Queue<W> {
    const USED_OF_ONE: usize = 2048;
    /// Where the three parts are, from its memory on.
    const DESCRIPTORS: usize = 0;
    const AVAILABLE: usize = most(W) * DESCRIPTOR;
    const USED: usize = Self::AVAILABLE + 1024;
    /// Parts have room for themselves and the counts that events go by.
    const FITS: () = assert!(6 + 2 * most(W) <= 1024 && Self::USED + 6 + 8 * most(W) <= bytes(W));

    /// Of so many requests: a power of two, at most [`most`]. Its memory is zero.
    pub fn new(at: usize, size: u16, events: bool) -> Queue<W> {
        let () = Self::FITS;
        Queue {
            at,
            size,
            made: 0,
            seen: 0,
            under_way: [0; W],
            told: 0,
            events,
        }
    }

    /// Where the device finds descriptors, what is available, what is used.
    pub fn places(&self, memory: &impl Memory) -> [u64; 3] {
        [Self::DESCRIPTORS, Self::AVAILABLE, Self::USED].map(|at| memory.physical(self.at + at))
    }

    pub fn size(&self) -> u16 {
        self.size
    }

    /// How many requests the device has.
    pub fn under_way(&self) -> u32 {
        self.under_way.iter().map(|word| word.count_ones()).sum()
    }

    /// How many were made available since the device was last notified.
    pub fn untold(&self) -> u16 {
        self.made.wrapping_sub(self.told)
    }

    fn has(&self, tag: usize) -> bool {
        let word = self.under_way.get(tag / 64);
        word.is_some_and(|word| word >> (tag % 64) & 1 == 1)
    }

    /// Whether a request with this tag can be given to the device.
    pub fn is_free(&self, tag: usize) -> bool {
        tag < self.size as usize && !self.has(tag)
    }

    /// A tag that is free, if there is one.
    pub fn free(&self) -> Option<usize> {
        let words = self.under_way.iter().enumerate();
        let mut free = words.filter(|(_, word)| **word != u64::MAX);
        let (i, word) = free.next()?;
        let tag = 64 * i + word.trailing_ones() as usize;
        (tag < self.size as usize).then_some(tag)
    }

    /// Give the device a request: the table of its descriptors. False: it has that one.
    pub fn give(
        &mut self,
        memory: &impl Memory,
        tag: usize,
        table: u64,
        descriptors: usize,
    ) -> bool {
        let length = (descriptors * DESCRIPTOR) as u32;
        self.put(memory, tag, (table, length), INDIRECT)
    }

    /// Give the device a piece of memory to write to. False: it has that one.
    pub fn lend(&mut self, memory: &impl Memory, tag: usize, piece: (u64, u32)) -> bool {
        self.put(memory, tag, piece, DEVICE_WRITES)
    }

    fn put(
        &mut self,
        memory: &impl Memory,
        tag: usize,
        (address, length): (u64, u32),
        flags: u16,
    ) -> bool {
        if !self.is_free(tag) {
            return false;
        }
        let at = self.at + Self::DESCRIPTORS + tag * DESCRIPTOR;
        memory.write64(at, address);
        memory.write32(at + 8, length);
        memory.write16(at + 12, flags);
        memory.write16(at + 14, 0);
        let place = (self.made % self.size) as usize;
        memory.write16(self.at + Self::AVAILABLE + 4 + 2 * place, tag as u16);
        memory.barrier();
        self.made = self.made.wrapping_add(1);
        memory.write16(self.at + Self::AVAILABLE + 2, self.made);
        self.under_way[tag / 64] |= 1 << (tag % 64);
        true
    }

    /// Whether the device must be notified of what it was given since.
    pub fn must_notify(&mut self, memory: &impl Memory) -> bool {
        if self.told == self.made {
            return false;
        }
        let before = core::mem::replace(&mut self.told, self.made);
        memory.barrier();
        if self.events {
            let at = self.at + Self::USED + 4 + 8 * self.size as usize;
            let wanted = memory.read16(at);
            let since = self.made.wrapping_sub(before);
            return self.made.wrapping_sub(wanted).wrapping_sub(1) < since;
        }
        memory.read16(self.at + Self::USED) & NO_NOTIFY == 0
    }

    /// Before sleeping: the device is to interrupt when it has used so many more (at least 1). True: it has some already. Without this it interrupts, or does not, as it was told last: with events it does so once.
    pub fn arm(&mut self, memory: &impl Memory, more: u16) -> bool {
        match self.events {
            true => {
                let at = self.at + Self::AVAILABLE + 4 + 2 * self.size as usize;
                memory.write16(at, self.seen.wrapping_add(more.wrapping_sub(1)));
            }
            false => memory.write16(self.at + Self::AVAILABLE, 0),
        }
        memory.barrier();
        let used = memory.read16(self.at + Self::USED + 2);
        used.wrapping_sub(self.seen) >= more && self.under_way() > 0
    }

    /// The device is not to interrupt for this queue, as far as it can be told.
    pub fn disarm(&mut self, memory: &impl Memory) {
        if !self.events {
            memory.write16(self.at + Self::AVAILABLE, NO_INTERRUPT);
        } else {
            // As far away as can be.
            let at = self.at + Self::AVAILABLE + 4 + 2 * self.size as usize;
            memory.write16(at, self.seen.wrapping_sub(1));
        }
    }

    /// The tag of a request that the device is done with.
    pub fn used(&mut self, memory: &impl Memory) -> Option<usize> {
        self.used_with_length(memory).map(|(tag, _)| tag)
    }

    /// The same, and how many bytes the device says that it wrote.
    pub fn used_with_length(&mut self, memory: &impl Memory) -> Option<(usize, u32)> {
        if self.under_way == [0; W] {
            return None;
        }
        // No more than it could have used: what it says beyond that is nonsense.
        for _ in 0..self.size {
            if memory.read16(self.at + Self::USED + 2) == self.seen {
                return None;
            }
            memory.barrier();
            let place = self.at + Self::USED + 4 + 8 * (self.seen % self.size) as usize;
            let tag = memory.read32(place) as usize;
            self.seen = self.seen.wrapping_add(1);
            if tag < self.size as usize && self.has(tag) {
                self.under_way[tag / 64] &= !(1 << (tag % 64));
                return Some((tag, memory.read32(place + 4)));
            }
        }
        None
    }
}
