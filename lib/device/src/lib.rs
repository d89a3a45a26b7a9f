//! What drivers of devices on the PCI bus share, whatever the device is: memory that the device sees too ([`Memory`]; [`Pieces`] in the machine, [`fake`] in
//! tests), registers ([`registers`]), interrupts ([`listen`]), and how their programs begin and end ([`start`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod fake;
pub mod registers;
pub mod start;

use alloc::vec::Vec;
use cairn_abi::service::interrupt;
use cairn_idl::errno::EINVAL;
use cairn_idl::pci;
use cairn_idl::wire::Failure;
use cairn_rt::dma::{self, Driver, Piece};
use cairn_rt::{startup, Portal, Receiver};

/// Memory that the device sees too; bytes are counted from its beginning. The device may write anywhere in it at any time, though it is not supposed to: what is read back is to be checked.
pub trait Memory {
    fn physical(&self, at: usize) -> u64;
    fn read8(&self, at: usize) -> u8;
    fn read16(&self, at: usize) -> u16;
    fn read32(&self, at: usize) -> u32;
    fn write8(&self, at: usize, value: u8);
    fn write16(&self, at: usize, value: u16);
    fn write32(&self, at: usize, value: u32);
    fn write64(&self, at: usize, value: u64);
    /// Between what this driver writes and what the device sees, both ways.
    fn barrier(&self);
}

/// Pieces of memory for driver and device, one behind the other.
pub struct Pieces(Vec<Piece>);

impl Pieces {
    pub fn make(driver: &Driver, count: usize) -> Result<Pieces, Failure> {
        (0..count)
            .map(|_| driver.piece())
            .collect::<Result<_, _>>()
            .map(Pieces)
    }
}

impl Memory for Pieces {
    fn physical(&self, at: usize) -> u64 {
        self.0[at / dma::PIECE].physical(at % dma::PIECE)
    }
    fn read8(&self, at: usize) -> u8 {
        self.0[at / dma::PIECE].read(at % dma::PIECE)
    }
    fn read16(&self, at: usize) -> u16 {
        self.0[at / dma::PIECE].read(at % dma::PIECE)
    }
    fn read32(&self, at: usize) -> u32 {
        self.0[at / dma::PIECE].read(at % dma::PIECE)
    }
    fn write8(&self, at: usize, value: u8) {
        self.0[at / dma::PIECE].write(at % dma::PIECE, value);
    }
    fn write16(&self, at: usize, value: u16) {
        self.0[at / dma::PIECE].write(at % dma::PIECE, value);
    }
    fn write32(&self, at: usize, value: u32) {
        self.0[at / dma::PIECE].write(at % dma::PIECE, value);
    }
    fn write64(&self, at: usize, value: u64) {
        self.0[at / dma::PIECE].write(at % dma::PIECE, value);
    }
    fn barrier(&self) {
        dma::barrier();
    }
}

/// How a driver can hear of its device: by so many messages at most; by its line, if it can silence the device before it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub messages: u32,
    pub line: bool,
}

impl Wanted {
    pub fn messages(messages: u32) -> Wanted {
        Wanted {
            messages,
            line: false,
        }
    }
}

/// How the device tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Not at all: it is to be looked at.
    Nothing,
    Messages(u32),
    Line,
}

impl Told {
    pub fn messages(self) -> u32 {
        match self {
            Told::Messages(count) => count,
            Told::Nothing | Told::Line => 0,
        }
    }
}

/// Have the device tell the channel, by interrupts with this badge: by its messages, or by its line if that is what portal `irq` leads to. The portal to
/// acknowledge them by, if it does.
pub fn listen(
    bus: &pci::Client<Portal>,
    channel: Receiver,
    badge: u64,
    wanted: Wanted,
) -> (Option<Portal>, Told) {
    let Some(irq) = startup::portal("irq") else {
        return (None, Told::Nothing);
    };
    let bind = || {
        let words = [u64::from(channel.0 .0), badge];
        irq.service(interrupt::BIND, &words).is_ok()
    };
    let mut count = 0;
    while count < wanted.messages {
        match bus.raise(count, irq.0) {
            Ok(()) => count += 1,
            // The portal is none to a message.
            Err(Failure::Refused(EINVAL)) if count == 0 && wanted.line && bind() => {
                return (Some(irq), Told::Line);
            }
            Err(_) => break,
        }
    }
    match count > 0 && bind() {
        true => (Some(irq), Told::Messages(count)),
        false => (None, Told::Nothing),
    }
}
