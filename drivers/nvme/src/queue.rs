//! A submission queue and its completion queue, in memory of the driver's. Commands are 64 bytes; a completion's *phase* bit turns over each time round, which is how a new one is told from an old one.
//!
//! The device may write anything there: a completion is believed only as far as its number and status, and whoever asked checks the number.

use cairn_block::chip::Memory;

/// Bytes of a command, of a completion.
pub const COMMAND: usize = 64;
pub const COMPLETION: usize = 16;

/// A command, but for its number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Command {
    pub operation: u8,
    pub namespace: u32,
    /// Where the data is: the first page, and the second or the list of the others.
    pub data: [u64; 2],
    pub words: [u32; 3],
}

pub struct Queue {
    /// Where both are, and how many entries each has.
    submissions: usize,
    completions: usize,
    entries: u16,
    tail: u16,
    head: u16,
    phase: bool,
    /// The tail that the device was last told.
    told: u16,
}

impl Queue {
    /// The memory is zero.
    pub fn new(submissions: usize, completions: usize, entries: u16) -> Queue {
        Queue {
            submissions,
            completions,
            entries,
            tail: 0,
            head: 0,
            phase: true,
            told: 0,
        }
    }

    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// One more command. The caller sees to it that fewer are under way than there are entries.
    pub fn give(&mut self, memory: &impl Memory, number: u16, command: &Command) {
        let at = self.submissions + self.tail as usize * COMMAND;
        memory.write32(at, u32::from(command.operation) | u32::from(number) << 16);
        memory.write32(at + 4, command.namespace);
        memory.write64(at + 8, 0);
        memory.write64(at + 16, 0);
        for (i, address) in command.data.into_iter().enumerate() {
            memory.write64(at + 24 + 8 * i, address);
        }
        for i in 0..6 {
            let word = command.words.get(i).copied().unwrap_or(0);
            memory.write32(at + 40 + 4 * i, word);
        }
        self.tail = (self.tail + 1) % self.entries;
    }

    /// The new tail, if the device does not know it.
    pub fn news(&mut self, memory: &impl Memory) -> Option<u16> {
        if self.told == self.tail {
            return None;
        }
        self.told = self.tail;
        memory.barrier();
        Some(self.tail)
    }

    /// A completion: the command's number, and its status (0: well).
    pub fn take(&mut self, memory: &impl Memory) -> Option<(u16, u16)> {
        let at = self.completions + self.head as usize * COMPLETION + 12;
        let word = memory.read32(at);
        if (word >> 16 & 1 == 1) != self.phase {
            return None;
        }
        memory.barrier();
        self.head = (self.head + 1) % self.entries;
        if self.head == 0 {
            self.phase = !self.phase;
        }
        Some((word as u16, (word >> 17) as u16))
    }

    /// Where the device may put completions again.
    pub fn head(&self) -> u16 {
        self.head
    }
}
