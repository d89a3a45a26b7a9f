//! The controller and the port of one disk: reset and start (sections 10.1 and 10.4), commands given and done, and how a port is brought back after an error (6.2.2).

use crate::command::{HEADERS, RECEIVED};
use cairn_block::chip::{Memory, Registers};

pub use crate::command::PIECES;

/// The base address register that the controller's registers are behind.
pub const REGISTERS: u32 = 5;

const CAPABILITIES: usize = 0;
const CONTROL: usize = 0x04;
const INTERRUPTS: usize = 0x08;
const PORTS: usize = 0x0c;
const CAPABILITIES_2: usize = 0x24;
const HANDOFF: usize = 0x28;

mod capability {
    pub const QUEUES: u32 = 1 << 30;
    pub const ADDRESSES_64: u32 = 1 << 31;
}
/// The firmware may own the controller, and gives it up when asked.
const CAN_HAND_OFF: u32 = 1;
const FIRMWARE_OWNS: u32 = 1;
const SYSTEM_OWNS: u32 = 2;
mod control {
    pub const RESET: u32 = 1;
    pub const INTERRUPTS: u32 = 2;
    pub const AHCI: u32 = 1 << 31;
}

/// Registers of a port, from its first one on.
mod register {
    pub const FIRST: usize = 0x100;
    pub const SIZE: usize = 0x80;
    pub const LIST: usize = 0x00;
    pub const RECEIVED: usize = 0x08;
    pub const INTERRUPTS: usize = 0x10;
    pub const INTERRUPTS_ON: usize = 0x14;
    pub const COMMAND: usize = 0x18;
    pub const TASK: usize = 0x20;
    pub const SIGNATURE: usize = 0x24;
    pub const LINK: usize = 0x28;
    pub const LINK_CONTROL: usize = 0x2c;
    pub const LINK_ERRORS: usize = 0x30;
    pub const QUEUED: usize = 0x34;
    pub const ISSUED: usize = 0x38;
}
mod command {
    pub const START: u32 = 1;
    pub const SPIN_UP: u32 = 2;
    pub const POWER: u32 = 4;
    pub const RECEIVE: u32 = 1 << 4;
    pub const RECEIVES: u32 = 1 << 14;
    pub const RUNS: u32 = 1 << 15;
}
/// The device is busy, or wants data.
const BUSY: u32 = 0x88;
/// What kind of device it is: a disk.
const DISK: u32 = 0x101;
/// The lower four bits of the link: a device, and it is there.
const PRESENT: u32 = 3;
/// Interrupts for what a device sends, and for errors.
const TOLD: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5;
const ERRORS: u32 = 1 << 30 | 1 << 29 | 1 << 28 | 1 << 27;

/// Looks at a device that should do something soon, and at one whose disk may have to begin to turn.
const LOOKS: u32 = 1_000_000;
/// A link is there in 10 milliseconds, or there is none.
const LINK_LOOKS: u32 = 50_000;
const MANY_LOOKS: u32 = 20_000_000;
/// So many times a little while is the millisecond that a link's reset takes at least.
const RESET_PAUSES: u32 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not do what it should, or not in time.
    Stuck,
    /// No port has a disk.
    NoDisk,
    /// The disk lacks what this driver cannot do without.
    Unfit,
    /// It refused a command.
    Refused,
}

fn wait(registers: &mut impl Registers, looks: u32, at: usize, mask: u32, value: u32) -> bool {
    for _ in 0..looks {
        let now = registers.read(at);
        if now & mask == value {
            return true;
        }
        if now == u32::MAX {
            break;
        }
        registers.pause();
    }
    false
}

/// The controller and all devices behind it do nothing any more when this is done. To be called before memory is given to it, or taken away.
pub fn reset(registers: &mut impl Registers) -> Result<(), Trouble> {
    if registers.read(CAPABILITIES_2) & CAN_HAND_OFF != 0 {
        let now = registers.read(HANDOFF);
        registers.write(HANDOFF, now | SYSTEM_OWNS);
        // One that does not give it up is reset all the same.
        wait(registers, LOOKS, HANDOFF, FIRMWARE_OWNS, 0);
    }
    registers.write(CONTROL, control::AHCI);
    registers.write(CONTROL, control::AHCI | control::RESET);
    if !wait(registers, LOOKS, CONTROL, control::RESET, 0) {
        return Err(Trouble::Stuck);
    }
    registers.write(CONTROL, control::AHCI);
    Ok(())
}

pub struct Port<R> {
    registers: R,
    /// Where the port's registers begin, and its bit among all ports.
    first: usize,
    bit: u32,
    capabilities: u32,
}

impl<R: Registers> Port<R> {
    /// The first port with a disk, started. The controller was [`reset`].
    pub fn find(mut registers: R, memory: &impl Memory) -> Result<Port<R>, Trouble> {
        let capabilities = registers.read(CAPABILITIES);
        let there = registers.read(PORTS);
        let mut candidate = Port {
            registers,
            first: 0,
            bit: 0,
            capabilities,
        };
        for number in (0..32).filter(|number| there >> number & 1 == 1) {
            candidate.first = register::FIRST + number * register::SIZE;
            candidate.bit = 1 << number;
            if candidate.begin(memory).is_ok() && candidate.read(register::SIGNATURE) == DISK {
                return Ok(candidate);
            }
            let _ = candidate.stop();
        }
        Err(Trouble::NoDisk)
    }

    fn read(&mut self, at: usize) -> u32 {
        self.registers.read(self.first + at)
    }

    fn write(&mut self, at: usize, value: u32) {
        self.registers.write(self.first + at, value);
    }

    fn wait(&mut self, looks: u32, at: usize, mask: u32, value: u32) -> Result<(), Trouble> {
        match wait(&mut self.registers, looks, self.first + at, mask, value) {
            true => Ok(()),
            false => Err(Trouble::Stuck),
        }
    }

    /// Most commands at a time, and whether they may be queued in the device.
    pub fn slots(&self) -> usize {
        (self.capabilities >> 8 & 31) as usize + 1
    }

    pub fn queues(&self) -> bool {
        self.capabilities & capability::QUEUES != 0
    }

    /// Whether the controller reaches memory there.
    pub fn reaches(&self, end: u64) -> bool {
        self.capabilities & capability::ADDRESSES_64 != 0 || end <= 1 << 32
    }

    /// Neither commands nor what the device sends.
    fn stop(&mut self) -> Result<(), Trouble> {
        let now = self.read(register::COMMAND);
        self.write(register::COMMAND, now & !command::START);
        self.wait(LOOKS, register::COMMAND, command::RUNS, 0)?;
        let now = self.read(register::COMMAND);
        self.write(register::COMMAND, now & !command::RECEIVE);
        self.wait(LOOKS, register::COMMAND, command::RECEIVES, 0)
    }

    fn begin(&mut self, memory: &impl Memory) -> Result<(), Trouble> {
        self.stop()?;
        for (register, at) in [(register::LIST, HEADERS), (register::RECEIVED, RECEIVED)] {
            let address = memory.physical(at);
            self.write(register, address as u32);
            self.write(register + 4, (address >> 32) as u32);
        }
        self.start()
    }

    fn start(&mut self) -> Result<(), Trouble> {
        let on = command::SPIN_UP | command::POWER | command::RECEIVE;
        let now = self.read(register::COMMAND);
        self.write(register::COMMAND, now | on);
        self.wait(LINK_LOOKS, register::LINK, 15, PRESENT)?;
        self.write(register::LINK_ERRORS, u32::MAX);
        self.write(register::INTERRUPTS, u32::MAX);
        self.wait(MANY_LOOKS, register::TASK, BUSY, 0)?;
        let now = self.read(register::COMMAND);
        self.write(register::COMMAND, now | command::START);
        self.wait(LOOKS, register::COMMAND, command::RUNS, command::RUNS)
    }

    /// After an error: the link is reset, and with it the device forgets all commands.
    pub fn again(&mut self) -> Result<(), Trouble> {
        // A port that cannot be stopped is reset too.
        let _ = self.stop();
        let quiet = self.read(register::LINK_CONTROL) & !15;
        self.write(register::LINK_CONTROL, quiet | 1);
        (0..RESET_PAUSES).for_each(|_| self.registers.pause());
        self.write(register::LINK_CONTROL, quiet);
        self.registers.write(INTERRUPTS, self.bit);
        self.start()
    }

    /// From now on it interrupts.
    pub fn interrupt(&mut self) {
        self.write(register::INTERRUPTS, u32::MAX);
        self.registers.write(INTERRUPTS, u32::MAX);
        self.write(register::INTERRUPTS_ON, TOLD | ERRORS);
        let on = control::AHCI | control::INTERRUPTS;
        self.registers.write(CONTROL, on);
    }

    /// Have the device do these commands.
    pub fn issue(&mut self, slots: u32, queued: bool) {
        if queued {
            self.write(register::QUEUED, slots);
        }
        self.write(register::ISSUED, slots);
    }

    /// What of the interrupts came since; true: the port stands still because of an error.
    pub fn acknowledge(&mut self) -> bool {
        let now = self.read(register::INTERRUPTS);
        if now != 0 {
            self.write(register::INTERRUPTS, now);
            self.registers.write(INTERRUPTS, self.bit);
        }
        now & ERRORS != 0
    }

    /// Commands that the device has still.
    pub fn busy(&mut self) -> u32 {
        self.read(register::QUEUED) | self.read(register::ISSUED)
    }

    /// Whether nobody answers where the registers should be.
    pub fn is_gone(&mut self) -> bool {
        self.registers.read(CAPABILITIES) != self.capabilities
    }

    /// Wait for a command without interrupts.
    pub fn finish(&mut self, slot: usize) -> Result<(), Trouble> {
        for _ in 0..MANY_LOOKS {
            if self.acknowledge() {
                return Err(Trouble::Refused);
            }
            if self.busy() & 1 << slot == 0 {
                return Ok(());
            }
            self.registers.pause();
        }
        Err(Trouble::Stuck)
    }
}
