//! What drivers of devices on the PCI bus share, whatever the device is: memory that the device sees too ([`Memory`]; [`Pieces`] in the machine, [`fake`] in tests), interrupts by message ([`listen`]), and how their programs begin and end ([`start`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod fake;
pub mod start;

use alloc::vec::Vec;
use cairn_abi::service::interrupt;
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

/// Have the device send its messages to the channel, at most so many, as interrupts with this badge. The portal to acknowledge them by, if that is possible, and how many it has.
pub fn listen(
    bus: &pci::Client<Portal>,
    channel: Receiver,
    badge: u64,
    most: u32,
) -> (Option<Portal>, u32) {
    let irq = startup::portal("irq").filter(|irq| {
        let words = [u64::from(channel.0 .0), badge];
        irq.service(interrupt::BIND, &words).is_ok()
    });
    let Some(irq) = irq else { return (None, 0) };
    let refused = |&number: &u32| bus.raise(number, irq.0).is_err();
    let count = (0..most).find(refused).unwrap_or(most);
    ((count > 0).then_some(irq), count)
}
