//! The device: reset and set up (3.1.1, 5.1.5), frames out (5.1.6.2) as chains of a header and pieces, buffers that it fills (5.1.6.3).
//!
//! A buffer lies whole in the reader's pages, the header in front of the frame included. The header of what is sent is the driver's, so a reader can have the device do nothing but what was checked.

use cairn_device::Memory;
use cairn_link::{Chip, Cut, Filled, Info, Offload, Told, BUFFER, ETHERNET, HEAD};
use cairn_virtio::queue::{self, Queue};
use cairn_virtio::transport::{self, Registers, Trouble};

mod feature {
    use cairn_virtio::transport::feature::{ACCESS_PLATFORM, EVENT_INDEX, INDIRECT, VERSION_1};

    pub const SUMS_OUT: u64 = 1 << 0;
    pub const SUMS_IN: u64 = 1 << 1;
    pub const MTU: u64 = 1 << 3;
    pub const MAC: u64 = 1 << 5;
    pub const CUTS_TCP4: u64 = 1 << 11;
    pub const CUTS_TCP6: u64 = 1 << 12;
    pub const MERGES: u64 = 1 << 15;
    pub const STATUS: u64 = 1 << 16;
    pub const WANTED: u64 = SUMS_OUT
        | SUMS_IN
        | MTU
        | MAC
        | CUTS_TCP4
        | CUTS_TCP6
        | MERGES
        | STATUS
        | INDIRECT
        | EVENT_INDEX
        | VERSION_1
        | ACCESS_PLATFORM;
    pub const NEEDED: u64 = INDIRECT | VERSION_1;
}

/// The device's own registers (5.1.4).
mod config {
    pub const MAC: usize = 0;
    pub const STATUS: usize = 6;
    pub const MTU: usize = 10;
    pub const UP: u16 = 1;
}

/// Header (5.1.6): what is to be done.
const NEEDS_SUM: u8 = 1;
const TCP4: u8 = 1;
const TCP6: u8 = 4;

/// Words of a queue's tags.
const WORDS: usize = 4;
const MOST: usize = queue::most(WORDS);
const RECEIVE: usize = 0;
const SEND: usize = 1;
const QUEUES: usize = 2;

/// A frame's slot of memory: its header, and its descriptors behind it.
const SLOT: usize = 512;
const TABLE: usize = 16;
/// Pieces of a frame's data.
const DATA_MOST: usize = (SLOT - TABLE) / 16 - 1;
/// Slots of a piece of memory, and bytes of such a piece; the first piece is the queues'.
const PIECE: usize = 65_536;
pub const PIECES: usize = 1 + MOST * SLOT / PIECE;
const _: () = assert!(QUEUES * queue::bytes(WORDS) <= PIECE && (MOST * SLOT).is_multiple_of(PIECE));

/// Flags of a descriptor: another one follows.
const NEXT: u16 = 1;

const ETHERNET_MTU: u32 = 1500;

struct Queues {
    receive: Queue<WORDS>,
    send: Queue<WORDS>,
    /// Where each is notified.
    places: [u16; QUEUES],
}

pub struct Device<R, M> {
    registers: R,
    memory: M,
    queues: Queues,
    info: Info,
    messages: u32,
    interrupts: bool,
    generation: u8,
    /// The buffer that each descriptor of the receive queue names.
    buffers: [u32; MOST],
}

fn slot(tag: usize) -> usize {
    PIECE + tag * SLOT
}

/// Set up a device that was reset, with memory for queues that is zero.
fn set_up<R: Registers>(
    r: &mut R,
    memory: &impl Memory,
    messages: u32,
) -> Result<(Queues, Info, bool), Trouble> {
    let features = transport::negotiate(r, feature::WANTED, feature::NEEDED)?;
    transport::tell_changes(r, messages);
    let mut queue = |number: usize| {
        let at = number * queue::bytes(WORDS);
        transport::queue::<WORDS>(r, memory, number, at, messages, features)
    };
    let (Some(receive), Some(send)) = (queue(RECEIVE), queue(SEND)) else {
        return Err(transport::give_up(r));
    };
    let info = describe(r, features, receive.queue.size());
    transport::begin(r);
    let queues = Queues {
        receive: receive.queue,
        send: send.queue,
        places: [receive.place, send.place],
    };
    Ok((queues, info, receive.interrupts && send.interrupts))
}

fn describe<R: Registers>(r: &mut R, features: u64, buffers: u16) -> Info {
    let has = |bit| features & bit != 0;
    let mac = match has(feature::MAC) {
        true => core::array::from_fn(|i| r.device8(config::MAC + i)),
        // Nobody gave it one: one that nobody else was given, either (locally administered).
        false => [0x02, 0xca, 0x12, 0, 0, 1],
    };
    let told = match has(feature::MTU) {
        true => u32::from(r.device16(config::MTU)),
        false => ETHERNET_MTU,
    };
    // Without merging a frame must fit into one buffer.
    let most = match has(feature::MERGES) {
        true => cairn_link::client::PARTS * BUFFER,
        false => BUFFER,
    };
    Info {
        mac,
        mtu: told.clamp(68, (most - HEAD - ETHERNET) as u32),
        up: !has(feature::STATUS) || r.device16(config::STATUS) & config::UP != 0,
        sums_out: has(feature::SUMS_OUT),
        sums_in: has(feature::SUMS_IN),
        segments: [
            has(feature::CUTS_TCP4) && has(feature::SUMS_OUT),
            has(feature::CUTS_TCP6) && has(feature::SUMS_OUT),
        ],
        head: HEAD as u32,
        buffers: u32::from(buffers),
    }
}

impl<R: Registers, M: Memory> Device<R, M> {
    /// A device that was reset, with memory that is zero; so many messages for interrupts are set up.
    pub fn new(mut registers: R, memory: M, messages: u32) -> Result<Device<R, M>, Trouble> {
        let (queues, info, interrupts) = set_up(&mut registers, &memory, messages)?;
        let generation = transport::generation(&mut registers);
        Ok(Device {
            registers,
            memory,
            queues,
            info,
            messages,
            interrupts,
            generation,
            buffers: [0; MOST],
        })
    }

    /// Descriptor `i` of a frame's table.
    fn piece(&self, tag: usize, i: usize, (address, length): (u64, u32), more: bool) {
        let at = slot(tag) + TABLE + 16 * i;
        self.memory.write64(at, address);
        self.memory.write32(at + 8, length);
        self.memory.write16(at + 12, if more { NEXT } else { 0 });
        self.memory.write16(at + 14, i as u16 + 1);
    }

    fn header(&self, tag: usize, offload: &Offload) {
        let at = slot(tag);
        let kind = match offload.cut {
            Cut::No => 0,
            Cut::Tcp4 => TCP4,
            Cut::Tcp6 => TCP6,
        };
        let cut = offload.cut != Cut::No;
        let when = |set: bool, value: u16| if set { value } else { 0 };
        let memory = &self.memory;
        memory.write8(at, if offload.sum { NEEDS_SUM } else { 0 });
        memory.write8(at + 1, kind);
        memory.write16(at + 2, when(cut, offload.headers));
        memory.write16(at + 4, when(cut, offload.segment));
        memory.write16(at + 6, when(offload.sum, offload.sum_start));
        memory.write16(at + 8, when(offload.sum, offload.sum_at));
        memory.write16(at + 10, 0);
    }
}

impl<R: Registers, M: Memory> Chip for Device<R, M> {
    fn info(&self) -> Info {
        self.info
    }

    fn restart(&mut self) -> bool {
        if transport::reset(&mut self.registers).is_err() {
            return false;
        }
        for at in (0..QUEUES * queue::bytes(WORDS)).step_by(8) {
            self.memory.write64(at, 0);
        }
        match set_up(&mut self.registers, &self.memory, self.messages) {
            Ok((queues, info, interrupts)) => {
                (self.queues, self.info, self.interrupts) = (queues, info, interrupts);
                true
            }
            Err(_) => false,
        }
    }

    fn room(&self) -> usize {
        self.queues.receive.size() as usize - self.with_device()
    }

    fn with_device(&self) -> usize {
        self.queues.receive.under_way() as usize
    }

    fn lend(&mut self, buffer: u32, address: u64) -> bool {
        let Some(tag) = self.queues.receive.free() else {
            return false;
        };
        self.buffers[tag] = buffer;
        let piece = (address, BUFFER as u32);
        self.queues.receive.lend(&self.memory, tag, piece)
    }

    fn filled(&mut self) -> Option<Filled> {
        let (tag, length) = self.queues.receive.used_with_length(&self.memory)?;
        Some(Filled {
            buffer: self.buffers[tag],
            length,
            right: false,
        })
    }

    /// Each number has room of its own.
    fn takes(&self) -> bool {
        true
    }

    fn send(&mut self, number: usize, offload: &Offload, pieces: &[(u64, u32)]) -> bool {
        if !self.queues.send.is_free(number) || pieces.len() > DATA_MOST {
            return false;
        }
        self.header(number, offload);
        let at = slot(number);
        let header = (self.memory.physical(at), HEAD as u32);
        self.piece(number, 0, header, true);
        for (i, &piece) in pieces.iter().enumerate() {
            self.piece(number, i + 1, piece, i + 1 < pieces.len());
        }
        let table = self.memory.physical(at + TABLE);
        let count = pieces.len() + 1;
        self.queues.send.give(&self.memory, number, table, count)
    }

    fn sent(&mut self) -> Option<usize> {
        self.queues.send.used(&self.memory)
    }

    fn on_the_way(&self) -> usize {
        self.queues.send.under_way() as usize
    }

    fn kick(&mut self) {
        let queues = [&mut self.queues.receive, &mut self.queues.send];
        for (number, queue) in queues.into_iter().enumerate() {
            if queue.must_notify(&self.memory) {
                let place = self.queues.places[number];
                self.registers.notify(place, number as u16);
            }
        }
    }

    fn arm(&mut self, filled: bool, sent: u16) -> bool {
        let mut more = false;
        match filled {
            true => more |= self.queues.receive.arm(&self.memory, 1),
            false => self.queues.receive.disarm(&self.memory),
        }
        match sent {
            0 => self.queues.send.disarm(&self.memory),
            sent => more |= self.queues.send.arm(&self.memory, sent),
        }
        more
    }

    fn disarm(&mut self) {
        self.queues.receive.disarm(&self.memory);
        self.queues.send.disarm(&self.memory);
    }

    /// Messages need no answer.
    fn hush(&mut self) {}

    fn interrupts(&self) -> Told {
        match self.interrupts {
            true => Told::Messages(self.messages),
            false => Told::Nothing,
        }
    }

    fn is_broken(&mut self) -> bool {
        transport::is_broken(&mut self.registers)
    }

    fn has_changed(&mut self) -> bool {
        let generation = transport::generation(&mut self.registers);
        if generation == self.generation {
            return false;
        }
        self.generation = generation;
        let up = self.registers.device16(config::STATUS) & config::UP != 0;
        core::mem::replace(&mut self.info.up, up) != up
    }
}
