//! Commands as the controller finds them in memory: a list of 32 headers (section 4.2.2), each with a table of the command itself and of the places of its data (4.2.3). A request's tag is its header's number.

use cairn_block::chip::{Frames, Memory};
use cairn_block::PAGE;

/// Most commands at a time.
pub const SLOTS: usize = 32;
/// Most pages of a request, each of which may be a place of its own.
pub const PAGES: usize = 256;

/// Where things are in the driver's memory: headers; what the device sends; what it tells of itself; what the driver itself reads; ranges of discards; tables, which do not cross the pieces' borders.
pub const HEADERS: usize = 0;
pub const RECEIVED: usize = 1024;
pub const IDENTITY: usize = 4096;
pub const OWN: usize = 8192;
pub const RANGES: usize = 12288;
pub const RANGE: usize = 512;
const TABLES: usize = 65536;
const TABLE: usize = 128 + PAGES * 16;
const PIECE: usize = 65536;
const TABLES_OF_PIECE: usize = PIECE / TABLE;
/// Pieces of 64 KiB of memory.
pub const PIECES: usize = 1 + SLOTS.div_ceil(TABLES_OF_PIECE);

/// Most bytes of one place of data.
const PLACE_MOST: u64 = 4 << 20;
/// In a header: five words of command; the device reads memory.
const WORDS: u32 = 5;
const READS_MEMORY: u32 = 1 << 6;
/// From the host to the device, a command.
const TO_DEVICE: u32 = 0x27 | 1 << 15;

/// What the device understands (ATA8-ACS 7).
pub mod code {
    pub const IDENTIFY: u8 = 0xec;
    pub const READ: u8 = 0x25;
    pub const WRITE: u8 = 0x35;
    pub const READ_QUEUED: u8 = 0x60;
    pub const WRITE_QUEUED: u8 = 0x61;
    pub const FLUSH: u8 = 0xea;
    pub const MANAGE: u8 = 0x06;
}
/// Of MANAGE: ranges are not needed any more.
pub const TRIM: u16 = 1;

#[derive(Clone, Copy, Debug, Default)]
pub struct Command {
    pub code: u8,
    pub features: u16,
    pub block: u64,
    pub count: u16,
}

fn table(slot: usize) -> usize {
    TABLES + slot / TABLES_OF_PIECE * PIECE + slot % TABLES_OF_PIECE * TABLE
}

/// Write the command itself.
pub fn put(memory: &impl Memory, slot: usize, command: &Command) {
    let at = table(slot);
    let (block, features) = (command.block, u32::from(command.features));
    memory.write32(
        at,
        TO_DEVICE | u32::from(command.code) << 16 | (features & 0xff) << 24,
    );
    // Blocks are counted, not heads and cylinders.
    memory.write32(at + 4, (block & 0xff_ffff) as u32 | 1 << 30);
    memory.write32(
        at + 8,
        (block >> 24 & 0xff_ffff) as u32 | features >> 8 << 24,
    );
    memory.write32(at + 12, u32::from(command.count));
    memory.write32(at + 16, 0);
}

/// Write the header of a command whose data is in so many places.
fn head(memory: &impl Memory, slot: usize, places: usize, reads_memory: bool) {
    let at = HEADERS + slot * 32;
    let direction = if reads_memory { READS_MEMORY } else { 0 };
    memory.write32(at, WORDS | direction | (places as u32) << 16);
    memory.write32(at + 4, 0);
    memory.write64(at + 8, memory.physical(table(slot)));
}

fn place(memory: &impl Memory, slot: usize, i: usize, (address, length): (u64, u64)) {
    let at = table(slot) + 128 + 16 * i;
    memory.write64(at, address);
    memory.write32(at + 8, 0);
    memory.write32(at + 12, length as u32 - 1);
}

/// The data of a command: one place, or none.
pub fn one_place(memory: &impl Memory, slot: usize, data: Option<(u64, u64)>, reads_memory: bool) {
    if let Some(data) = data {
        place(memory, slot, 0, data);
    }
    head(memory, slot, data.is_some() as usize, reads_memory);
}

/// The data of a request: frames in a row go as one place. False: they are too many.
pub fn frames(
    memory: &impl Memory,
    slot: usize,
    data: Frames,
    bytes: u64,
    reads_memory: bool,
) -> bool {
    if data.frames.len() > PAGES {
        return false;
    }
    let (mut left, mut offset) = (bytes, u64::from(data.offset));
    let (mut count, mut run) = (0, (0, 0));
    for &frame in data.frames {
        let length = (PAGE as u64 - offset).min(left);
        let address = u64::from(frame) * PAGE as u64 + offset;
        (left, offset) = (left - length, 0);
        if run.1 > 0 && run.0 + run.1 == address && run.1 + length <= PLACE_MOST {
            run.1 += length;
            continue;
        }
        if run.1 > 0 {
            place(memory, slot, count, run);
            count += 1;
        }
        run = (address, length);
    }
    if run.1 > 0 {
        place(memory, slot, count, run);
        count += 1;
    }
    head(memory, slot, count, reads_memory);
    true
}
