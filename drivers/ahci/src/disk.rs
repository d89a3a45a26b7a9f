//! The disk: what it tells of itself, and requests. Reads and writes are *queued* in the device (NCQ), as many as it takes; everything else, and every command to a device that has no queue, has the device *alone*. So what was begun waits here for its turn.
//!
//! After an error of queued commands it is not known whose it was: the link is reset, and each of them is done once more, alone; the one that fails then is the one.

use crate::command::{self, code, Command, IDENTITY, OWN, RANGE, RANGES, SLOTS, TRIM};
use crate::port::{Port, Trouble};
use alloc::collections::VecDeque;
use cairn_block::chip::{Chip, Frames, Memory, Registers};
use cairn_block::{Info, Kind, Outcome, PAGE, SECTOR};

/// Ranges of a discard, and most blocks of each.
const RANGES_MOST: u64 = RANGE as u64 / 8;
const RANGE_BLOCKS: u64 = 0xffff;
/// Most blocks that a disk can have (48 bits).
const BLOCKS_MOST: u64 = 1 << 48;

/// A request, as long as it is begun.
#[derive(Clone, Copy, Default)]
struct Job {
    command: Command,
    queued: bool,
    /// What is left of a long discard: first block, blocks.
    rest: (u64, u64),
}

pub struct Disk<R, M> {
    port: Port<R>,
    memory: M,
    info: Info,
    /// Sectors of a block.
    sectors: u64,
    queues: bool,
    jobs: [Job; SLOTS],
    /// What is begun; of this, what the device has; the others, in their order.
    begun: u32,
    under_way: u32,
    waiting: VecDeque<u8>,
    /// What is done, or failed, and not told yet.
    done: u32,
    failed: u32,
    broken: bool,
    interrupts: bool,
}

impl<R: Registers, M: Memory> Disk<R, M> {
    /// The first disk of a controller that was reset, with memory that is zero; `message` 0 of its interrupts is set up, or there are none.
    pub fn new(registers: R, memory: M, message: bool) -> Result<Disk<R, M>, Trouble> {
        let mut port = Port::find(registers, &memory)?;
        if !port.reaches(memory.physical(command::PIECES * 65536 - 1)) {
            return Err(Trouble::Unfit);
        }
        let identify = Command {
            code: code::IDENTIFY,
            ..Command::default()
        };
        let place = (memory.physical(IDENTITY), SECTOR);
        command::put(&memory, 0, &identify);
        command::one_place(&memory, 0, Some(place), false);
        memory.barrier();
        port.issue(1, false);
        port.finish(0)?;
        memory.barrier();
        let (info, depth) = describe(&memory)?;
        let queues = port.queues() && depth > 1;
        let slots = match queues {
            true => port.slots().min(depth as usize),
            false => port.slots(),
        };
        if message {
            port.interrupt();
        }
        Ok(Disk {
            port,
            memory,
            info: Info {
                most_requests: slots as u32,
                ..info
            },
            sectors: u64::from(info.block) / SECTOR,
            queues,
            jobs: [Job::default(); SLOTS],
            begun: 0,
            under_way: 0,
            waiting: VecDeque::with_capacity(SLOTS),
            done: 0,
            failed: 0,
            broken: false,
            interrupts: message,
        })
    }

    /// Ranges of a discard, as many as one command takes.
    fn discard(&mut self, tag: usize, first: u64, blocks: u64) {
        let at = RANGES + tag * RANGE;
        let (mut block, mut left) = (first, blocks);
        for i in 0..RANGES_MOST as usize {
            let now = left.min(RANGE_BLOCKS);
            self.memory.write64(at + 8 * i, block | now << 48);
            (block, left) = (block + now, left - now);
        }
        let place = (self.memory.physical(at), RANGE as u64);
        command::one_place(&self.memory, tag, Some(place), true);
        self.jobs[tag] = Job {
            command: Command {
                code: code::MANAGE,
                features: TRIM,
                count: 1,
                ..Command::default()
            },
            queued: false,
            rest: (block, left),
        };
    }

    /// Give the device what may be under way together, in order.
    fn issue(&mut self) {
        if self.broken {
            return;
        }
        let mut slots = 0;
        let mut queued = false;
        while let Some(&tag) = self.waiting.front() {
            let job = &self.jobs[tag as usize];
            let idle = self.under_way == 0;
            let others = self.under_way.trailing_zeros() as usize;
            let fits = idle || job.queued && self.jobs[others].queued;
            if !fits {
                break;
            }
            command::put(&self.memory, tag as usize, &job.command);
            queued = job.queued;
            slots |= 1 << tag;
            self.under_way |= 1 << tag;
            self.waiting.pop_front();
        }
        if slots != 0 {
            self.memory.barrier();
            self.port.issue(slots, queued);
        }
    }

    /// What came since: the device's word is taken only for what it was given.
    fn look(&mut self) {
        let error = self.port.acknowledge();
        let busy = self.port.busy();
        self.memory.barrier();
        let (mut came, had) = (self.under_way & !busy, self.under_way);
        // A command that fails alone may be taken off the list or not.
        if error && had.is_power_of_two() && !self.jobs[had.trailing_zeros() as usize].queued {
            (came, self.failed) = (0, self.failed | had);
            self.under_way = 0;
        } else if error && busy == 0 {
            // Which of them it was is not known.
            came = 0;
        }
        self.under_way &= !came;
        self.done |= came;
        if error {
            self.recover();
        }
    }

    fn recover(&mut self) {
        for tag in (0..SLOTS).rev() {
            if self.under_way >> tag & 1 == 1 {
                let job = &mut self.jobs[tag];
                (job.command, job.queued) = (alone(&job.command), false);
                self.waiting.push_front(tag as u8);
            }
        }
        self.under_way = 0;
        self.broken |= self.port.again().is_err();
    }
}

/// What the disk tells of itself (ATA8-ACS 7.16), and how long its queue is.
fn describe(memory: &impl Memory) -> Result<(Info, u32), Trouble> {
    let word = |i: usize| u64::from(memory.read16(IDENTITY + 2 * i));
    let long = |i: usize| word(i + 1) << 16 | word(i);
    let bit = |i, bit: u32| word(i) >> bit & 1 == 1;
    // Words 83 and 106 are valid if their two highest bits are 01.
    let valid = |i: usize| word(i) >> 14 == 1;
    if !valid(83) || !bit(83, 10) {
        return Err(Trouble::Unfit);
    }
    let block = match valid(106) && bit(106, 12) {
        true => long(117) * 2,
        false => SECTOR,
    };
    let blocks = long(102) << 32 | long(100);
    if blocks == 0 || blocks > BLOCKS_MOST || ![512, 1024, 2048, 4096].contains(&block) {
        return Err(Trouble::Unfit);
    }
    let depth = match bit(76, 8) {
        true => (word(75) & 31) as u32 + 1,
        false => 1,
    };
    let info = Info {
        sectors: blocks * (block / SECTOR),
        block: block as u32,
        read_only: false,
        caches_writes: bit(85, 5) || bit(83, 13),
        discards: bit(169, 0),
        // 1: it has nothing that rotates.
        rotates: word(217) != 1,
        most_pages: command::PAGES as u32,
        most_requests: 0,
    };
    Ok((info, depth))
}

/// The command that does the same without the device's queue.
fn alone(command: &Command) -> Command {
    let code = match command.code {
        code::READ_QUEUED => code::READ,
        code::WRITE_QUEUED => code::WRITE,
        _ => return *command,
    };
    Command {
        code,
        features: 0,
        count: command.features,
        ..*command
    }
}

impl<R: Registers, M: Memory> Chip for Disk<R, M> {
    type Memory = M;
    const OWN: usize = OWN;

    fn memory(&self) -> &M {
        &self.memory
    }

    fn info(&self) -> Info {
        self.info
    }

    fn start(&mut self, tag: usize, kind: Kind, sector: u64, bytes: u64, data: Frames) -> bool {
        if tag >= self.info.most_requests as usize || self.begun >> tag & 1 == 1 {
            return false;
        }
        let last = data.frames.iter().max().map_or(0, |&frame| frame + 1);
        if !self.port.reaches(u64::from(last) * PAGE as u64) {
            return false;
        }
        let (block, blocks) = (sector / self.sectors, bytes / SECTOR / self.sectors);
        match kind {
            Kind::Discard => self.discard(tag, block, blocks),
            Kind::Flush => {
                command::one_place(&self.memory, tag, None, false);
                self.jobs[tag] = Job::default();
                self.jobs[tag].command.code = code::FLUSH;
            }
            Kind::Read | Kind::Write => {
                let writes = kind == Kind::Write;
                if !command::frames(&self.memory, tag, data, bytes, writes) {
                    return false;
                }
                let queued = Command {
                    code: match writes {
                        true => code::WRITE_QUEUED,
                        false => code::READ_QUEUED,
                    },
                    // As ever with queued commands: the count is where others have features.
                    features: blocks as u16,
                    block,
                    count: (tag as u16) << 3,
                };
                self.jobs[tag] = Job {
                    command: match self.queues {
                        true => queued,
                        false => alone(&queued),
                    },
                    queued: self.queues,
                    rest: (0, 0),
                };
            }
        }
        self.begun |= 1 << tag;
        self.waiting.push_back(tag as u8);
        true
    }

    fn kick(&mut self) {
        self.issue();
    }

    fn completed(&mut self) -> Option<(usize, Outcome)> {
        if self.done | self.failed == 0 && !self.broken {
            self.look();
            self.issue();
        }
        while self.done | self.failed != 0 {
            let tag = (self.done | self.failed).trailing_zeros() as usize;
            let outcome = match self.failed >> tag & 1 {
                0 => Outcome::Done,
                _ => Outcome::Failed,
            };
            self.done &= !(1 << tag);
            self.failed &= !(1 << tag);
            let (block, left) = self.jobs[tag].rest;
            if outcome == Outcome::Done && left > 0 {
                self.discard(tag, block, left);
                self.waiting.push_back(tag as u8);
                self.issue();
                continue;
            }
            self.begun &= !(1 << tag);
            return Some((tag, outcome));
        }
        None
    }

    fn interrupts(&self) -> bool {
        self.interrupts
    }

    fn is_broken(&mut self) -> bool {
        self.broken || self.port.is_gone()
    }
}
