//! The device: reset and set up (3.1.1, 5.2.5), requests (5.2.6) as chains of a header, the data's frames, and a byte that says how it ended.

use alloc::vec::Vec;
use cairn_block::chip::{Chip, Frames, Memory};
use cairn_block::{Info, Kind, Outcome, PAGE, SECTOR};
use cairn_virtio::queue::{self, Queue};
use cairn_virtio::transport::{self, Made, Registers, Trouble};

mod feature {
    use cairn_virtio::transport::feature::{ACCESS_PLATFORM, INDIRECT, VERSION_1};

    pub const SIZE_MAX: u64 = 1 << 1;
    pub const SEG_MAX: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLOCK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const QUEUES: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WANTED: u64 = SIZE_MAX
        | SEG_MAX
        | READ_ONLY
        | BLOCK_SIZE
        | FLUSH
        | QUEUES
        | DISCARD
        | INDIRECT
        | VERSION_1
        | ACCESS_PLATFORM;
    pub const NEEDED: u64 = INDIRECT | VERSION_1;
}

/// The device's own registers (5.2.4).
mod config {
    pub const CAPACITY: usize = 0;
    pub const SIZE_MAX: usize = 8;
    pub const SEG_MAX: usize = 12;
    pub const BLOCK_SIZE: usize = 20;
    pub const QUEUES: usize = 34;
    pub const DISCARD_SECTORS: usize = 36;
}

/// Kinds of requests, and how they end.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;
const DONE: u8 = 0;

/// A request's slot of memory: header, what is to be discarded, the byte of its end, its descriptors.
const HEADER: usize = 0;
const RANGE: usize = 16;
const END: usize = 40;
const TABLE: usize = 64;
/// Most descriptors: a header, an end, and data.
const TABLE_MOST: usize = 272;
pub const DATA_MOST: usize = 256;
pub const SLOT: usize = TABLE + TABLE_MOST * 16;
/// Most requests of a queue.
const REQUESTS: usize = queue::most(1);
/// Most queues. One for each core is what a machine can use.
pub const QUEUES: usize = 8;
/// So many requests are told to the device together in one queue; further ones go to another.
const TOGETHER: u16 = 16;
/// Slots of a piece of memory, and bytes of such a piece; the first piece is the queues'.
pub const PIECE: usize = 65536;
const SLOTS: usize = PIECE / SLOT;
/// Pieces of memory for so many requests.
pub const PIECES: usize = 1 + REQUESTS.div_ceil(SLOTS);

/// Flags of a descriptor: another one follows; the device writes.
const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;

/// What is left of a long discard.
#[derive(Clone, Copy, Default)]
struct Rest {
    sector: u64,
    sectors: u64,
}

pub struct Device<R, M> {
    registers: R,
    memory: M,
    /// Each with the place where it is notified.
    queues: Vec<(Queue<1>, u16)>,
    /// The one that takes what is begun now.
    current: usize,
    info: Info,
    /// Of its registers, when they were last read.
    generation: u8,
    /// Most bytes of a piece of data.
    size_max: u64,
    discard_most: u64,
    rests: [Rest; REQUESTS],
    /// It interrupts by messages.
    interrupts: bool,
}

fn slot(tag: usize) -> usize {
    PIECE * (1 + tag / SLOTS) + tag % SLOTS * SLOT
}

/// Without the sectors of the last, broken block.
fn whole(sectors: u64, block: u32) -> u64 {
    let sector = u64::from(block / SECTOR as u32).max(1);
    sectors.min(1 << 55) / sector * sector
}

impl<R: Registers, M: Memory> Device<R, M> {
    /// A device that was [`reset`], with memory that is zero; so many messages for interrupts are set up. It gets as many queues as it has, at most `queues`, each with a message of its own as far as there are some.
    pub fn new(
        mut registers: R,
        memory: M,
        messages: u32,
        queues: usize,
    ) -> Result<Device<R, M>, Trouble> {
        let r = &mut registers;
        let features = transport::negotiate(r, feature::WANTED, feature::NEEDED)?;
        let has = |bit| features & bit != 0;
        let (sectors, generation) = Self::capacity(r);
        let info = Self::describe(r, sectors, has);
        let size_max = match has(feature::SIZE_MAX) {
            true => u64::from(r.device32(config::SIZE_MAX)),
            false => u64::from(u32::MAX),
        };
        let discard_most = u64::from(r.device32(config::DISCARD_SECTORS));
        // It tells of another size by the first of them.
        transport::tell_changes(r, messages);
        let count = match has(feature::QUEUES) {
            true => usize::from(r.device16(config::QUEUES)).min(queues.min(QUEUES)),
            false => 1,
        };
        let made = (0..count.max(1))
            .map(|number| {
                let at = number * queue::bytes(1);
                transport::queue(r, &memory, number, at, messages, features)
            })
            .collect::<Option<Vec<_>>>();
        let fits = info.most_pages > 0 && size_max >= PAGE as u64 && info.block <= PAGE as u32;
        let Some(made) = made.filter(|_| fits) else {
            return Err(transport::give_up(r));
        };
        transport::begin(r);
        let smallest = made.iter().map(|made: &Made<1>| made.queue.size()).min();
        Ok(Device {
            generation,
            registers,
            memory,
            info: Info {
                most_requests: u32::from(smallest.unwrap_or(0)),
                ..info
            },
            interrupts: made.iter().all(|made| made.interrupts),
            queues: made
                .into_iter()
                .map(|made| (made.queue, made.place))
                .collect(),
            current: 0,
            size_max,
            discard_most,
            rests: [Rest::default(); REQUESTS],
        })
    }

    /// Sectors, and the generation of the registers that said so.
    fn capacity(r: &mut R) -> (u64, u8) {
        // Read again if it changed meanwhile; what never stays is not believed.
        let (mut sectors, mut generation) = (0, 0);
        for _ in 0..16 {
            generation = transport::generation(r);
            let low = r.device32(config::CAPACITY);
            sectors = u64::from(r.device32(config::CAPACITY + 4)) << 32 | u64::from(low);
            if transport::generation(r) == generation {
                break;
            }
        }
        (sectors, generation)
    }

    fn describe(r: &mut R, sectors: u64, has: impl Fn(u64) -> bool) -> Info {
        let block = match has(feature::BLOCK_SIZE) {
            true => r.device32(config::BLOCK_SIZE),
            false => SECTOR as u32,
        };
        let pages = match has(feature::SEG_MAX) {
            true => r.device32(config::SEG_MAX).min(DATA_MOST as u32),
            false => 1,
        };
        Info {
            sectors: whole(sectors, block),
            block,
            // What Linux says of all of these.
            rotates: true,
            read_only: has(feature::READ_ONLY),
            caches_writes: has(feature::FLUSH),
            discards: has(feature::DISCARD),
            most_pages: pages,
            most_requests: 0,
        }
    }

    fn transfer(&mut self, tag: usize, kind: Kind, sector: u64, bytes: u64, data: Frames) -> bool {
        let (number, writes) = match kind {
            Kind::Read => (READ, DEVICE_WRITES),
            Kind::Write => (WRITE, 0),
            _ => (FLUSH, 0),
        };
        let sector = if kind == Kind::Flush { 0 } else { sector };
        self.header(tag, number, sector);
        let (mut left, mut offset) = (bytes, u64::from(data.offset));
        let most = self.size_max / PAGE as u64 * PAGE as u64;
        let mut count = 1;
        // Frames in a row go as one piece, as far as the device takes it.
        for row in data.frames.chunk_by(|&a, &b| a.wrapping_add(1) == b) {
            let mut address = u64::from(row[0]) * PAGE as u64 + offset;
            let mut length = ((row.len() * PAGE) as u64 - offset).min(left);
            (left, offset) = (left - length, 0);
            while length > 0 {
                let now = length.min(most);
                count = self.piece(tag, count, (address, now), writes);
                (address, length) = (address + now, length - now);
            }
        }
        self.finish(tag, count)
    }

    fn discard(&mut self, tag: usize, sector: u64, sectors: u64) -> bool {
        let now = sectors.min(self.discard_most.max(1));
        self.rests[tag] = Rest {
            sector: sector + now,
            sectors: sectors - now,
        };
        self.header(tag, DISCARD, 0);
        let at = slot(tag) + RANGE;
        self.memory.write64(at, sector);
        self.memory.write32(at + 8, now as u32);
        self.memory.write32(at + 12, 0);
        let count = self.piece(tag, 1, (self.memory.physical(at), 16), 0);
        self.finish(tag, count)
    }

    /// The header of a request, and its descriptor.
    fn header(&mut self, tag: usize, number: u32, sector: u64) {
        let at = slot(tag);
        self.memory.write32(at + HEADER, number);
        self.memory.write32(at + HEADER + 4, 0);
        self.memory.write64(at + HEADER + 8, sector);
        self.memory.write8(at + END, !DONE);
        let place = self.memory.physical(at + HEADER);
        self.piece(tag, 0, (place, 16), 0);
    }

    /// Descriptor `i` of a request's table → the next one's number.
    fn piece(&mut self, tag: usize, i: usize, (address, length): (u64, u64), flags: u16) -> usize {
        let at = slot(tag) + TABLE + 16 * i;
        self.memory.write64(at, address);
        self.memory.write32(at + 8, length as u32);
        self.memory.write16(at + 12, flags | NEXT);
        self.memory.write16(at + 14, i as u16 + 1);
        i + 1
    }

    /// The descriptor of a request's end, and off it goes.
    fn finish(&mut self, tag: usize, count: usize) -> bool {
        let at = slot(tag);
        let end = self.memory.physical(at + END);
        self.piece(tag, count, (end, 1), DEVICE_WRITES);
        self.memory
            .write16(at + TABLE + 16 * count + 12, DEVICE_WRITES);
        let table = self.memory.physical(at + TABLE);
        if self.queues[self.current].0.untold() >= TOGETHER {
            self.current = self.idlest();
        }
        let queue = &mut self.queues[self.current].0;
        queue.give(&self.memory, tag, table, count + 1)
    }

    /// The queue with least to do.
    fn idlest(&self) -> usize {
        let all = self.queues.iter().enumerate();
        let least = all.min_by_key(|(_, (queue, _))| queue.under_way());
        least.map_or(0, |(number, _)| number)
    }

    fn used(&mut self) -> Option<usize> {
        let mut queues = self.queues.iter_mut();
        queues.find_map(|(queue, _)| queue.used(&self.memory))
    }

    pub fn queues(&self) -> usize {
        self.queues.len()
    }
}

impl<R: Registers, M: Memory> Chip for Device<R, M> {
    type Memory = M;
    /// Behind the queues.
    const OWN: usize = QUEUES * queue::bytes(1);

    fn memory(&self) -> &M {
        &self.memory
    }

    fn info(&self) -> Info {
        self.info
    }

    fn interrupts(&self) -> bool {
        self.interrupts
    }

    fn is_broken(&mut self) -> bool {
        transport::is_broken(&mut self.registers)
    }

    fn has_changed(&mut self) -> bool {
        if transport::generation(&mut self.registers) == self.generation {
            return false;
        }
        let (sectors, generation) = Self::capacity(&mut self.registers);
        self.generation = generation;
        let sectors = whole(sectors, self.info.block);
        core::mem::replace(&mut self.info.sectors, sectors) != sectors
    }

    fn start(&mut self, tag: usize, kind: Kind, sector: u64, bytes: u64, data: Frames) -> bool {
        if !self.queues.iter().all(|(queue, _)| queue.is_free(tag)) {
            return false;
        }
        self.rests[tag] = Rest::default();
        match kind {
            Kind::Discard => self.discard(tag, sector, bytes / SECTOR),
            _ => self.transfer(tag, kind, sector, bytes, data),
        }
    }

    fn kick(&mut self) {
        for (number, (queue, place)) in self.queues.iter_mut().enumerate() {
            if queue.must_notify(&self.memory) {
                self.registers.notify(*place, number as u16);
            }
        }
        // What was told together is in one queue: one notification does for all of it.
        self.current = self.idlest();
    }

    fn completed(&mut self) -> Option<(usize, Outcome)> {
        while let Some(tag) = self.used() {
            let end = self.memory.read8(slot(tag) + END);
            let rest = core::mem::take(&mut self.rests[tag]);
            if end == DONE && rest.sectors > 0 {
                self.discard(tag, rest.sector, rest.sectors);
                self.kick();
                continue;
            }
            let outcome = match end {
                DONE => Outcome::Done,
                _ => Outcome::Failed,
            };
            return Some((tag, outcome));
        }
        None
    }
}
