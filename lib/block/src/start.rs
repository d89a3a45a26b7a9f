//! The program of a disk's driver: it begins as that of any device ([`cairn_device::start`]), and then serves a disk.

use crate::chip::Chip;
use crate::program;
pub use cairn_device::registers::window;
pub use cairn_device::start::Trouble;
use cairn_device::start::{refuse, start};
use cairn_device::{Pieces, Told, Wanted};
use cairn_idl::pci;
use cairn_rt::{log, Portal};
use core::fmt::Debug;

/// The whole program, with what [`start`] takes.
pub fn drive<R, C: Chip, D: Debug>(
    pieces: usize,
    messages: u32,
    find: impl FnOnce(&pci::Client<Portal>) -> Result<R, Trouble<D>>,
    make: impl FnOnce(R, Pieces, u32) -> Result<C, D>,
) -> ! {
    let make = |registers, pieces, told: Told| make(registers, pieces, told.messages());
    match start(pieces, Wanted::messages(messages), find, make) {
        Ok((chip, driver, irq)) => program::run(chip, driver, irq),
        Err(trouble) => {
            log!("no disk: {trouble}");
            refuse()
        }
    }
}
