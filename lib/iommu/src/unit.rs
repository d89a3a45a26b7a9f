//! One remapping unit: its registers (VT-d specification 4.1, chapter 11), its queue of invalidations (6.5.2), and the faults that it recorded (7.2).
//!
//! What always holds: nothing is waited for longer than [`PATIENCE`]; the queue is empty between calls, because each call waits for what it gave.

use crate::{Frame, Hardware, Message, Trouble, PAGE};

/// Registers.
mod register {
    pub const CAPABILITY: usize = 0x8;
    pub const EXTENDED: usize = 0x10;
    pub const COMMAND: usize = 0x18;
    pub const STATUS: usize = 0x1c;
    pub const ROOT: usize = 0x20;
    pub const FAULT_STATUS: usize = 0x34;
    pub const FAULT_CONTROL: usize = 0x38;
    pub const FAULT_WORD: usize = 0x3c;
    pub const FAULT_ADDRESS: usize = 0x40;
    pub const PROTECTED: usize = 0x64;
    pub const QUEUE_TAIL: usize = 0x88;
    pub const QUEUE: usize = 0x90;
}

/// Bits of the command register and, when done, of the status register (11.4.4).
mod command {
    pub const TRANSLATE: u32 = 1 << 31;
    pub const SET_ROOT: u32 = 1 << 30;
    pub const FLUSH_WRITES: u32 = 1 << 27;
    pub const QUEUE: u32 = 1 << 26;
    pub const REMAP_INTERRUPTS: u32 = 1 << 25;
    /// Of the status register, what is to be written again with the next command.
    pub const LASTING: u32 = 0x96ff_ffff;
}

/// The fault status register (11.4.9): records were lost; there are records; something is wrong with the queue.
const FAULTS_LOST: u32 = 1;
const FAULTS: u32 = 2;
const QUEUE_TROUBLE: u32 = 7 << 4;
/// In the fault control register: no interrupt.
const FAULT_SILENT: u32 = 1 << 31;
/// In the last word of a fault record: it is one; the device wanted to read.
const RECORDED: u32 = 1 << 31;
const WAS_READ: u32 = 1 << 30;
/// In the protected memory enable register: there is protected memory.
const IS_PROTECTED: u32 = 1;

/// Kinds of invalidations, and how much they are for (6.5.2).
const CONTEXT: u64 = 1;
const TRANSLATIONS: u64 = 2;
const WAIT: u64 = 5;
const ALL: u64 = 1 << 4;
const DOMAIN: u64 = 2 << 4;
const PAGES: u64 = 3 << 4;
/// Of a wait: write a word to memory.
const WRITE_STATUS: u64 = 1 << 5;
/// Reads and writes under way are done before.
const DRAIN: u64 = 3 << 6;

/// Descriptors in the queue's page.
const QUEUED: usize = PAGE as usize / 16;
/// Nanoseconds that the hardware may take for anything.
const PATIENCE: u64 = 1_000_000_000;
/// Bytes of registers that are shown at first, and at most.
const WINDOW: u64 = PAGE;
const WINDOW_MAX: u64 = crate::REGISTER_PAGES * PAGE;
/// The queue has such invalidations one by one up to here; more pages are one for the domain.
const SINGLE: usize = 16;

/// An access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As in [`crate::dmar::Reserved::functions`].
    pub function: u16,
    pub address: u64,
    pub write: bool,
    /// The specification's number (7.1.3): 1 and 2 the device is nobody's, 5 and 6 the page is not its driver's.
    pub reason: u8,
}

#[derive(Debug)]
pub struct Unit {
    number: usize,
    capability: u64,
    extended: u64,
    queue: Frame,
    /// The word that waits write.
    status: Frame,
    tail: usize,
    sequence: u32,
}

impl Unit {
    /// A unit that can do what is needed. Its queue's frames come from `take`, zeroed.
    pub fn find<H: Hardware>(
        hardware: &mut H,
        number: usize,
        registers: u64,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
    ) -> Result<Unit, Trouble> {
        if !registers.is_multiple_of(PAGE) || !hardware.show(number, registers, WINDOW) {
            return Err(Trouble::Registers);
        }
        let capability = read64(hardware, number, register::CAPABILITY);
        let extended = read64(hardware, number, register::EXTENDED);
        if capability == u64::MAX || extended == u64::MAX {
            return Err(Trouble::Registers);
        }
        let mut unit = Unit {
            number,
            capability,
            extended,
            queue: 0,
            status: 0,
            tail: 0,
            sequence: 0,
        };
        if extended >> 1 & 1 == 0 {
            return Err(Trouble::NoQueue);
        }
        let end = (unit.records() + 16 * unit.record_count()) as u64;
        let window = end.next_multiple_of(PAGE);
        if window > WINDOW_MAX || window > WINDOW && !hardware.show(number, registers, window) {
            return Err(Trouble::Registers);
        }
        unit.queue = take(hardware).ok_or(Trouble::NoMemory)?;
        unit.status = take(hardware).ok_or(Trouble::NoMemory)?;
        Ok(unit)
    }

    /// Levels of page tables that it knows: bit 1 for three, bit 2 for four.
    pub fn levels(&self) -> u64 {
        self.capability >> 8 & 0b110
    }

    /// Bits of the addresses that devices may use.
    pub fn width(&self) -> u64 {
        (self.capability >> 16 & 63) + 1
    }

    /// It sees what is in the processor's caches.
    pub fn is_coherent(&self) -> bool {
        self.extended & 1 != 0
    }

    /// It remembers that something was not there, too.
    pub fn remembers_absence(&self) -> bool {
        self.capability >> 7 & 1 != 0
    }

    /// Pages can be marked so that devices cannot go past the processor's caches.
    pub fn can_snoop(&self) -> bool {
        self.extended >> 7 & 1 != 0
    }

    fn records(&self) -> usize {
        (self.capability >> 24 & 0x3ff) as usize * 16
    }

    fn record_count(&self) -> usize {
        (self.capability >> 40 & 0xff) as usize + 1
    }

    fn drain(&self) -> u64 {
        (self.capability >> 54 & 3) << 6 & DRAIN
    }

    /// Translate by this root table from now on; `message`: what tells of faults.
    pub fn enable<H: Hardware>(
        &mut self,
        hardware: &mut H,
        root: Frame,
        message: Option<Message>,
    ) -> Result<(), Trouble> {
        // Whatever the firmware left on; interrupts arrive as everybody here knows them.
        self.command(hardware, command::QUEUE, false)?;
        self.command(hardware, command::REMAP_INTERRUPTS, false)?;
        if let Some(Message { address, word }) = message {
            self.write(hardware, register::FAULT_WORD, word);
            self.write64(hardware, register::FAULT_ADDRESS, address);
        }
        // What the firmware's devices did; those that go on are heard of later.
        for _ in 0..self.record_count() {
            self.fault(hardware);
        }
        let sticky = QUEUE_TROUBLE | FAULTS_LOST;
        self.write(hardware, register::FAULT_STATUS, sticky);
        let silent = if message.is_none() { FAULT_SILENT } else { 0 };
        self.write(hardware, register::FAULT_CONTROL, silent);
        self.write64(hardware, register::ROOT, u64::from(root) * PAGE);
        self.command(hardware, command::SET_ROOT, true)?;
        self.write64(hardware, register::QUEUE_TAIL, 0);
        self.write64(hardware, register::QUEUE, u64::from(self.queue) * PAGE);
        self.command(hardware, command::QUEUE, true)?;
        self.forget_all(hardware)?;
        self.command(hardware, command::TRANSLATE, true)?;
        if self.capability >> 5 & 3 != 0 {
            // What the firmware protected until there is translation (11.4.8).
            self.write(hardware, register::PROTECTED, 0);
            self.wait(hardware, register::PROTECTED, IS_PROTECTED, 0)?;
        }
        Ok(())
    }

    /// Forget everything about devices and pages.
    pub fn forget_all<H: Hardware>(&mut self, hardware: &mut H) -> Result<(), Trouble> {
        let drain = self.drain();
        self.submit(hardware, &[[CONTEXT | ALL, 0]])?;
        self.submit(hardware, &[[TRANSLATIONS | ALL | drain, 0]])
    }

    /// Forget these pages of a domain. When this returns no access to them is under way.
    pub fn forget<H: Hardware>(
        &mut self,
        hardware: &mut H,
        domain: usize,
        pages: &[Frame],
    ) -> Result<(), Trouble> {
        let what = TRANSLATIONS | self.drain() | (domain as u64) << 16;
        let by_page = self.capability >> 39 & 1 != 0;
        if pages.len() > SINGLE || !by_page {
            return self.submit(hardware, &[[what | DOMAIN, 0]]);
        }
        let mut list = [[0; 2]; SINGLE];
        for (place, &page) in list.iter_mut().zip(pages) {
            *place = [what | PAGES, u64::from(page) * PAGE];
        }
        self.submit(hardware, &list[..pages.len()])
    }

    /// What was written to tables is seen by the unit (some have a buffer, 6.8).
    pub fn flush_writes<H: Hardware>(&mut self, hardware: &mut H) -> Result<(), Trouble> {
        if self.capability >> 4 & 1 == 0 {
            return Ok(());
        }
        let status = self.read(hardware, register::STATUS) & command::LASTING;
        let bit = command::FLUSH_WRITES;
        self.write(hardware, register::COMMAND, status | bit);
        self.wait(hardware, register::STATUS, bit, 0)
    }

    /// The next access that was refused, if there is one.
    pub fn fault<H: Hardware>(&mut self, hardware: &mut H) -> Option<Fault> {
        let status = self.read(hardware, register::FAULT_STATUS);
        if status & (FAULTS | FAULTS_LOST) == 0 {
            return None;
        }
        let first = (status >> 8 & 0xff) as usize;
        for i in 0..self.record_count() {
            let record = self.records() + (first + i) % self.record_count() * 16;
            let last = self.read(hardware, record + 12);
            if last & RECORDED == 0 {
                continue;
            }
            let address = read64(hardware, self.number, record) & !(PAGE - 1);
            let function = self.read(hardware, record + 8) as u16;
            self.write(hardware, record + 12, RECORDED);
            return Some(Fault {
                function,
                address,
                write: last & WAS_READ == 0,
                reason: last as u8,
            });
        }
        self.write(hardware, register::FAULT_STATUS, FAULTS_LOST);
        None
    }

    /// Give these invalidations to the unit, and wait until they are done.
    fn submit<H: Hardware>(&mut self, hardware: &mut H, list: &[[u64; 2]]) -> Result<(), Trouble> {
        self.sequence = self.sequence.wrapping_add(1);
        let wait = WAIT | WRITE_STATUS | u64::from(self.sequence) << 32;
        let wait = [wait, u64::from(self.status) * PAGE];
        for descriptor in list.iter().chain([&wait]) {
            for (i, word) in descriptor.iter().enumerate() {
                hardware.set_word(self.queue, self.tail * 2 + i, *word);
            }
            if !self.is_coherent() {
                hardware.write_back(self.queue, self.tail * 2);
            }
            self.tail = (self.tail + 1) % QUEUED;
        }
        hardware.barrier();
        self.write64(hardware, register::QUEUE_TAIL, self.tail as u64 * 16);
        let begun = hardware.time();
        loop {
            if hardware.word(self.status, 0) as u32 == self.sequence {
                return Ok(());
            }
            let trouble = self.read(hardware, register::FAULT_STATUS) & QUEUE_TROUBLE != 0;
            if trouble || hardware.time() - begun > PATIENCE {
                return Err(Trouble::Stuck);
            }
        }
    }

    /// Switch something on or off and wait until it is.
    fn command<H: Hardware>(
        &mut self,
        hardware: &mut H,
        bit: u32,
        on: bool,
    ) -> Result<(), Trouble> {
        let status = self.read(hardware, register::STATUS);
        if !on && status & bit == 0 {
            return Ok(());
        }
        let rest = status & command::LASTING & !bit;
        let bits = if on { bit } else { 0 };
        self.write(hardware, register::COMMAND, rest | bits);
        self.wait(hardware, register::STATUS, bit, bits)
    }

    fn wait<H: Hardware>(
        &mut self,
        hardware: &mut H,
        at: usize,
        mask: u32,
        value: u32,
    ) -> Result<(), Trouble> {
        let begun = hardware.time();
        while self.read(hardware, at) & mask != value {
            if hardware.time() - begun > PATIENCE {
                return Err(Trouble::Stuck);
            }
        }
        Ok(())
    }

    fn read<H: Hardware>(&self, hardware: &mut H, at: usize) -> u32 {
        hardware.register(self.number, at)
    }

    fn write<H: Hardware>(&self, hardware: &mut H, at: usize, value: u32) {
        hardware.set_register(self.number, at, value);
    }

    /// The upper half first: writing the lower one has effects.
    fn write64<H: Hardware>(&self, hardware: &mut H, at: usize, value: u64) {
        self.write(hardware, at + 4, (value >> 32) as u32);
        self.write(hardware, at, value as u32);
    }
}

fn read64<H: Hardware>(hardware: &mut H, unit: usize, at: usize) -> u64 {
    let low = hardware.register(unit, at);
    u64::from(hardware.register(unit, at + 4)) << 32 | u64::from(low)
}
