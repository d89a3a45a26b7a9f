//! The configuration space (PCI Local Bus Specification 3.0, chapter 6): who reads and writes it, and the registers that are used here.

/// A function's address: bus in bits 8 and up, device in 3 to 7, function in 0 to 2.
pub type Address = u16;

pub const fn address(bus: u8, device: u8, function: u8) -> Address {
    (bus as u16) << 8 | (device as u16 & 31) << 3 | function as u16 & 7
}

/// Access to the first 256 bytes of each function's space, by words. Where no function is everything reads as ones.
pub trait Config {
    fn read(&mut self, function: Address, register: u8) -> u32;
    fn write(&mut self, function: Address, register: u8, value: u32);
}

pub const IDENTITY: u8 = 0x00;
pub const COMMAND: u8 = 0x04;
pub const CLASS: u8 = 0x08;
/// Header type in bits 16 to 22, bit 23: several functions.
pub const HEADER: u8 = 0x0c;
pub const BAR: u8 = 0x10;
/// Of a bridge: the bus behind it in bits 8 to 15.
pub const BUSES: u8 = 0x18;
pub const SUBSYSTEM: u8 = 0x2c;
pub const CAPABILITIES: u8 = 0x34;
pub const LINE: u8 = 0x3c;

pub mod command {
    pub const PORTS: u32 = 1;
    pub const MEMORY: u32 = 2;
    pub const MASTER: u32 = 4;
    /// Its line is not raised.
    pub const NO_LINE: u32 = 1 << 10;
    /// In the status half: there are capabilities.
    pub const CAPABILITIES: u32 = 1 << 20;
    /// The status half, whose bits are cleared by writing ones.
    pub const STATUS: u32 = 0xffff_0000;
}

pub mod capability {
    pub const MSI: u8 = 0x05;
    pub const MSIX: u8 = 0x11;
}
