//! The device: one queue, whose requests are a message out and room for the answer. Both lie in the driver's own memory, a piece of it for each tag, so the
//! device reaches nothing else.

use crate::asks::Wire;
use alloc::vec;
use alloc::vec::Vec;
use cairn_device::Memory;
use cairn_ninep::answer;
use cairn_virtio::queue::{self, Queue};
use cairn_virtio::transport::{self, Registers, Trouble};

mod feature {
    use cairn_virtio::transport::feature::{ACCESS_PLATFORM, INDIRECT, VERSION_1};

    pub const WANTED: u64 = INDIRECT | VERSION_1 | ACCESS_PLATFORM;
    pub const NEEDED: u64 = INDIRECT | VERSION_1;
}

/// Requests under way at a time.
pub const TAGS: usize = 16;
/// Bytes of a piece of memory: a message, and behind it the room for its answer.
const PIECE: usize = 65_536;
/// The longest message in either direction, as the server is told. What is left of a piece is for the answer to a long one, which is short.
pub const LONGEST: usize = PIECE - 4096;
/// The first piece is the queue's and the descriptors'.
pub const PIECES: usize = 1 + TAGS;
const TABLES: usize = queue::bytes(1);
/// Bytes of a request's two descriptors.
const TABLE: usize = 32;
/// Answers begin at multiples of this.
const ALIGNED: usize = 64;

/// Flags of a descriptor: another one follows; the device writes.
const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;

pub struct Device<R, M> {
    registers: R,
    memory: M,
    queue: Queue<1>,
    /// Where it is notified.
    place: u16,
    /// Where each tag's answer is to be.
    rooms: [usize; TAGS],
    interrupts: bool,
}

impl<R: Registers, M: Memory> Device<R, M> {
    /// A device that was reset, with memory that is zero; so many messages for interrupts are set up.
    pub fn new(mut registers: R, memory: M, messages: u32) -> Result<Device<R, M>, Trouble> {
        let r = &mut registers;
        let features = transport::negotiate(r, feature::WANTED, feature::NEEDED)?;
        transport::tell_changes(r, messages);
        let made = transport::queue::<1>(r, &memory, 0, 0, messages, features);
        let Some(made) = made.filter(|made| usize::from(made.queue.size()) >= TAGS) else {
            return Err(transport::give_up(r));
        };
        transport::begin(r);
        Ok(Device {
            registers,
            memory,
            queue: made.queue,
            place: made.place,
            rooms: [0; TAGS],
            interrupts: made.interrupts,
        })
    }

    fn piece(tag: usize) -> usize {
        PIECE * (1 + tag)
    }

    fn descriptor(&self, at: usize, (address, length): (u64, usize), flags: u16) {
        self.memory.write64(at, address);
        self.memory.write32(at + 8, length as u32);
        self.memory.write16(at + 12, flags);
        self.memory.write16(at + 14, u16::from(flags & NEXT != 0));
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            self.memory.write64(at + 8 * i, u64::from_le_bytes(*word));
        }
        for (i, &byte) in rest.iter().enumerate() {
            self.memory.write8(at + 8 * words.len() + i, byte);
        }
    }

    fn get(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.next_multiple_of(4)];
        for (i, word) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = self.memory.read32(at + 4 * i).to_le_bytes();
        }
        bytes.truncate(length);
        bytes
    }
}

impl<R: Registers, M: Memory> Wire for Device<R, M> {
    fn tags(&self) -> usize {
        TAGS
    }

    fn send(&mut self, tag: usize, message: &[u8]) -> bool {
        if tag >= TAGS || message.len() > LONGEST || !self.queue.is_free(tag) {
            return false;
        }
        let piece = Self::piece(tag);
        self.put(piece, message);
        let room = message.len().next_multiple_of(ALIGNED);
        self.rooms[tag] = room;
        let table = TABLES + TABLE * tag;
        let out = (self.memory.physical(piece), message.len());
        let answer = (self.memory.physical(piece + room), PIECE - room);
        // Nothing of an older answer is taken for one.
        self.memory.write32(piece + room, 0);
        self.descriptor(table, out, NEXT);
        self.descriptor(table + 16, answer, DEVICE_WRITES);
        let table = self.memory.physical(table);
        let given = self.queue.give(&self.memory, tag, table, 2);
        if self.queue.must_notify(&self.memory) {
            self.registers.notify(self.place, 0);
        }
        given
    }

    fn received(&mut self) -> Option<(usize, Vec<u8>)> {
        let tag = self.queue.used(&self.memory)?;
        let room = *self.rooms.get(tag)?;
        let at = Self::piece(tag) + room;
        let head = self.memory.read32(at).to_le_bytes();
        let answer = match answer::length(head, PIECE - room) {
            Ok(length) => {
                let mut answer = self.get(at, length);
                // The device may have written another length since.
                answer[..4].copy_from_slice(&head);
                answer
            }
            Err(_) => Vec::new(),
        };
        Some((tag, answer))
    }

    fn interrupts(&self) -> bool {
        self.interrupts
    }

    fn is_broken(&mut self) -> bool {
        transport::is_broken(&mut self.registers)
    }
}
