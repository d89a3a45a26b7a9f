//! The controller: reset and set up (section 3.5), and requests of the first namespace, whose data are lists of pages (PRP, section 4.1.1).

use crate::queue::{Command, Queue};
use cairn_block::chip::{Chip, Frames, Memory, Registers};
use cairn_block::{Info, Kind, Outcome, PAGE, SECTOR};

const CAPABILITIES: usize = 0;
const MASK: usize = 0x0c;
const CONFIGURATION: usize = 0x14;
const STATUS: usize = 0x1c;
const ADMIN_SIZES: usize = 0x24;
const ADMIN_SUBMISSIONS: usize = 0x28;
const ADMIN_COMPLETIONS: usize = 0x30;
const DOORBELLS: usize = 0x1000;

const ENABLED: u32 = 1;
/// Commands of 64 bytes, completions of 16; pages of 4,096; the command set of disks.
const ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;
const READY: u32 = 1;
const FATAL: u32 = 2;

/// Commands to the controller, and to the namespace.
mod admin {
    pub const MAKE_SUBMISSIONS: u8 = 1;
    pub const MAKE_COMPLETIONS: u8 = 5;
    pub const IDENTIFY: u8 = 6;
    pub const SET_FEATURE: u8 = 9;
}
mod command {
    pub const FLUSH: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const READ: u8 = 2;
    pub const MANAGE: u8 = 9;
}
/// The feature that says how many queues there are.
const QUEUE_COUNTS: u32 = 7;
/// A range is not needed any more.
const DEALLOCATE: u32 = 4;
const NAMESPACE: u32 = 1;

/// Where things are in the driver's memory: queues for the controller and for requests, what it tells of itself, what the driver itself reads, ranges of discards, and the lists of pages.
const ADMIN: (usize, usize) = (0, 4096);
const ADMIN_ENTRIES: u16 = 16;
const WORK: (usize, usize) = (8192, 16384);
const WORK_MOST: u16 = 128;
const IDENTITY: usize = 20480;
const OWN: usize = 24576;
const RANGES: usize = 28672;
const RANGE: usize = 16;
const LISTS: usize = 65536;
const LIST: usize = 2048;
/// Requests at a time, and pages of one.
pub const REQUESTS: usize = 64;
const PAGES: usize = 256;
/// Pieces of 64 KiB of memory.
pub const PIECES: usize = LISTS / 65536 + REQUESTS * LIST / 65536;

/// Looks at a device that should do something soon.
const LOOKS: u32 = 20_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not do what it should, or not in time.
    Stuck,
    /// Its pages, blocks or queues are none that this driver can do with.
    Unfit,
    /// It refused a command.
    Refused,
}

pub struct Controller<R, M> {
    registers: R,
    memory: M,
    work: Queue,
    /// Bytes between doorbells.
    stride: usize,
    info: Info,
    /// Sectors of a block.
    sectors: u64,
    under_way: u64,
    /// Completions were taken that the device does not know of.
    taken: bool,
    interrupts: bool,
}

fn wait(registers: &mut impl Registers, ready: u32) -> Result<(), Trouble> {
    for _ in 0..LOOKS {
        let now = registers.read(STATUS);
        if now & READY == ready {
            return Ok(());
        }
        if now & FATAL != 0 && ready != 0 || now == u32::MAX {
            break;
        }
        registers.pause();
    }
    Err(Trouble::Stuck)
}

/// Whether somebody has set it up.
pub fn is_enabled(registers: &mut impl Registers) -> bool {
    registers.read(CONFIGURATION) & ENABLED != 0
}

/// The device does nothing any more when this is done. To be called before memory is given to it, or taken away.
pub fn reset(registers: &mut impl Registers) -> Result<(), Trouble> {
    let now = registers.read(CONFIGURATION);
    if is_enabled(registers) {
        // It may be disabled only once it is ready.
        let _ = wait(registers, READY);
    }
    registers.write(CONFIGURATION, now & !ENABLED);
    wait(registers, 0)
}

/// The queue for the controller, while it is set up.
struct Setup<'s, R, M> {
    registers: &'s mut R,
    memory: &'s M,
    queue: Queue,
    stride: usize,
}

impl<R: Registers, M: Memory> Setup<'_, R, M> {
    fn command(&mut self, command: &Command) -> Result<(), Trouble> {
        self.queue.give(self.memory, 0, command);
        if let Some(tail) = self.queue.news(self.memory) {
            self.registers.write(DOORBELLS, u32::from(tail));
        }
        for _ in 0..LOOKS {
            if let Some((_, status)) = self.queue.take(self.memory) {
                let head = u32::from(self.queue.head());
                self.registers.write(DOORBELLS + self.stride, head);
                return match status {
                    0 => Ok(()),
                    _ => Err(Trouble::Refused),
                };
            }
            self.registers.pause();
        }
        Err(Trouble::Stuck)
    }

    /// What the device tells of itself (1) or of its namespace (0).
    fn identify(&mut self, what: u32) -> Result<(), Trouble> {
        self.command(&Command {
            operation: admin::IDENTIFY,
            namespace: if what == 0 { NAMESPACE } else { 0 },
            data: [self.memory.physical(IDENTITY), 0],
            words: [what, 0, 0],
        })
    }

    fn told8(&self, at: usize) -> u8 {
        self.memory.read8(IDENTITY + at)
    }

    fn told32(&self, at: usize) -> u32 {
        self.memory.read32(IDENTITY + at)
    }
}

impl<R: Registers, M: Memory> Controller<R, M> {
    /// A device that was [`reset`], with memory that is zero; `message` 0 of its interrupts is set up, or there are none.
    pub fn new(mut registers: R, memory: M, message: bool) -> Result<Controller<R, M>, Trouble> {
        let (low, high) = (
            registers.read(CAPABILITIES),
            registers.read(CAPABILITIES + 4),
        );
        let stride = 4usize << (high & 15);
        // Pages of 4,096 bytes, and the command set of disks.
        if high >> 16 & 15 != 0 || high >> 5 & 1 == 0 {
            return Err(Trouble::Unfit);
        }
        let entries = WORK_MOST.min((low as u16).saturating_add(1));
        if entries < 2 {
            return Err(Trouble::Unfit);
        }
        let admin = u32::from(ADMIN_ENTRIES - 1);
        registers.write(MASK, 0);
        registers.write(ADMIN_SIZES, admin | admin << 16);
        for (register, at) in [(ADMIN_SUBMISSIONS, ADMIN.0), (ADMIN_COMPLETIONS, ADMIN.1)] {
            let address = memory.physical(at);
            registers.write(register, address as u32);
            registers.write(register + 4, (address >> 32) as u32);
        }
        registers.write(CONFIGURATION, ENTRY_SIZES | ENABLED);
        wait(&mut registers, READY)?;
        let mut setup = Setup {
            registers: &mut registers,
            memory: &memory,
            queue: Queue::new(ADMIN.0, ADMIN.1, ADMIN_ENTRIES),
            stride,
        };
        let info = Self::describe(&mut setup)?;
        // One queue of each kind (both numbers count from 0).
        setup.command(&Command {
            operation: admin::SET_FEATURE,
            words: [QUEUE_COUNTS, 0, 0],
            ..Command::default()
        })?;
        let size = u32::from(entries - 1) << 16 | 1;
        // In one piece, with interrupts by message 0; then the other one, whose completions go there.
        setup.command(&Command {
            operation: admin::MAKE_COMPLETIONS,
            data: [memory.physical(WORK.1), 0],
            words: [size, if message { 3 } else { 1 }, 0],
            ..Command::default()
        })?;
        setup.command(&Command {
            operation: admin::MAKE_SUBMISSIONS,
            data: [memory.physical(WORK.0), 0],
            words: [size, 1 << 16 | 1, 0],
            ..Command::default()
        })?;
        Ok(Controller {
            registers,
            memory,
            work: Queue::new(WORK.0, WORK.1, entries),
            stride,
            info: Info {
                most_requests: u32::from(entries - 1).min(REQUESTS as u32),
                ..info
            },
            sectors: u64::from(info.block) / SECTOR,
            under_way: 0,
            taken: false,
            interrupts: message,
        })
    }

    fn describe(setup: &mut Setup<R, M>) -> Result<Info, Trouble> {
        setup.identify(1)?;
        // As a power of two of pages; 0: no limit.
        let pages = match setup.told8(77) {
            0 => PAGES,
            shift => PAGES.min(1 << shift.min(16)),
        };
        let discards = setup.told8(520) & 4 != 0;
        let caches_writes = setup.told8(525) & 1 != 0;
        setup.identify(0)?;
        let blocks = u64::from(setup.told32(4)) << 32 | u64::from(setup.told32(0));
        let format = setup.told8(26) & 15;
        let format = setup.told32(128 + 4 * format as usize);
        let (metadata, shift) = (format & 0xffff, format >> 16 & 0xff);
        if blocks == 0 || metadata != 0 || !(9..=12).contains(&shift) {
            return Err(Trouble::Unfit);
        }
        Ok(Info {
            sectors: blocks.min(1 << 50) << (shift - 9),
            block: 1 << shift,
            read_only: false,
            caches_writes,
            discards,
            rotates: false,
            most_pages: pages as u32,
            most_requests: 0,
        })
    }

    /// Where a request's pages are: the first, and the second or the list of all others.
    fn pages(&self, tag: usize, data: Frames) -> [u64; 2] {
        let address = |frame: u32| u64::from(frame) * PAGE as u64;
        let list = LISTS + tag * LIST;
        let second = match data.frames {
            [] | [_] => 0,
            [_, second] => address(*second),
            [_, others @ ..] => {
                for (i, &frame) in others.iter().enumerate() {
                    self.memory.write64(list + 8 * i, address(frame));
                }
                self.memory.physical(list)
            }
        };
        let first = data.frames.first().map_or(0, |&frame| address(frame));
        [first + u64::from(data.offset), second]
    }

    fn range(&self, tag: usize, first: u64, blocks: u64) -> [u64; 2] {
        let at = RANGES + tag * RANGE;
        self.memory.write32(at, 0);
        self.memory.write32(at + 4, blocks as u32);
        self.memory.write64(at + 8, first);
        [self.memory.physical(at), 0]
    }
}

impl<R: Registers, M: Memory> Chip for Controller<R, M> {
    type Memory = M;
    const OWN: usize = OWN;

    fn memory(&self) -> &M {
        &self.memory
    }

    fn info(&self) -> Info {
        self.info
    }

    fn start(&mut self, tag: usize, kind: Kind, sector: u64, bytes: u64, data: Frames) -> bool {
        let full = self.under_way.count_ones() >= u32::from(self.work.entries() - 1);
        if tag >= REQUESTS || self.under_way >> tag & 1 == 1 || full || data.frames.len() > PAGES {
            return false;
        }
        let (first, blocks) = (sector / self.sectors, bytes / SECTOR / self.sectors);
        if kind == Kind::Discard && u32::try_from(blocks).is_err() {
            return false;
        }
        let place = [first as u32, (first >> 32) as u32];
        let (operation, data, words) = match kind {
            Kind::Read | Kind::Write => {
                let operation = match kind {
                    Kind::Read => command::READ,
                    _ => command::WRITE,
                };
                let count = blocks.wrapping_sub(1) as u32 & 0xffff;
                (
                    operation,
                    self.pages(tag, data),
                    [place[0], place[1], count],
                )
            }
            Kind::Flush => (command::FLUSH, [0; 2], [0; 3]),
            Kind::Discard => {
                let range = self.range(tag, first, blocks);
                (command::MANAGE, range, [0, DEALLOCATE, 0])
            }
        };
        let command = Command {
            operation,
            namespace: NAMESPACE,
            data,
            words,
        };
        self.work.give(&self.memory, tag as u16, &command);
        self.under_way |= 1 << tag;
        true
    }

    fn kick(&mut self) {
        if let Some(tail) = self.work.news(&self.memory) {
            let at = DOORBELLS + 2 * self.stride;
            self.registers.write(at, u32::from(tail));
        }
    }

    fn completed(&mut self) -> Option<(usize, Outcome)> {
        // No more than the queue has: what it says beyond that is nonsense.
        for _ in 0..self.work.entries() {
            let Some((number, status)) = self.work.take(&self.memory) else {
                break;
            };
            self.taken = true;
            let tag = number as usize;
            if tag < REQUESTS && self.under_way >> tag & 1 == 1 {
                self.under_way &= !(1 << tag);
                let outcome = match status & 0x7ff {
                    0 => Outcome::Done,
                    _ => Outcome::Failed,
                };
                return Some((tag, outcome));
            }
        }
        if core::mem::take(&mut self.taken) {
            let at = DOORBELLS + 3 * self.stride;
            self.registers.write(at, u32::from(self.work.head()));
        }
        None
    }

    fn interrupts(&self) -> bool {
        self.interrupts
    }

    fn is_broken(&mut self) -> bool {
        self.registers.read(STATUS) & FATAL != 0
    }
}
