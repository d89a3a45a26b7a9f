//! The program of a disk's driver: it begins as that of any device ([`cairn_device::start`]), and then serves a disk.

use crate::chip::{self, Chip};
use crate::program;
pub use cairn_device::start::Trouble;
use cairn_device::start::{refuse, start};
use cairn_device::Pieces;
use cairn_idl::pci;
use cairn_rt::{device, log, Portal};
use core::fmt::Debug;

/// The whole program, with what [`start`] takes.
pub fn drive<R, C: Chip, D: Debug>(
    pieces: usize,
    messages: u32,
    find: impl FnOnce(&pci::Client<Portal>) -> Result<R, Trouble<D>>,
    make: impl FnOnce(R, Pieces, u32) -> Result<C, D>,
) -> ! {
    match start(pieces, messages, find, make) {
        Ok((chip, driver, irq)) => program::run(chip, driver, irq),
        Err(trouble) => {
            log!("no disk: {trouble}");
            refuse()
        }
    }
}

/// The registers behind one of the device's windows.
pub fn window<D>(bus: &pci::Client<Portal>, bar: u32) -> Result<Window, Trouble<D>> {
    let told = bus.window(bar);
    let told = told.map_err(|why| Trouble::Failure("its registers", why))?;
    device::Registers::shown(told.address, told.length)
        .map(Window)
        .ok_or(Trouble::Portal)
}

pub struct Window(device::Registers);

impl chip::Registers for Window {
    fn read(&mut self, at: usize) -> u32 {
        self.0.read32(at)
    }
    fn write(&mut self, at: usize, value: u32) {
        self.0.write32(at, value);
    }
    fn pause(&mut self) {
        core::hint::spin_loop();
    }
}
