//! Registers of a device that knows words of 32 bits only: [`Registers`], for tests as well; [`Window`], those behind one of the device's windows.

use crate::start::Trouble;
use cairn_abi::service::current;
use cairn_idl::pci;
use cairn_rt::{device, time, Portal};

pub trait Registers {
    fn read(&mut self, at: usize) -> u32;
    fn write(&mut self, at: usize, value: u32);
    /// Let a little time pass.
    fn pause(&mut self);
    /// Let so much time pass, and others work meanwhile.
    fn rest(&mut self, nanoseconds: u64);
}

pub struct Window(device::Registers);

/// The registers behind one of the device's windows.
pub fn window<D>(bus: &pci::Client<Portal>, bar: u32) -> Result<Window, Trouble<D>> {
    let told = bus.window(bar);
    let told = told.map_err(|why| Trouble::Failure("its registers", why))?;
    device::Registers::shown(told.address, told.length)
        .map(Window)
        .ok_or(Trouble::Portal)
}

impl Registers for Window {
    fn read(&mut self, at: usize) -> u32 {
        self.0.read32(at)
    }
    fn write(&mut self, at: usize, value: u32) {
        self.0.write32(at, value);
    }
    fn pause(&mut self) {
        core::hint::spin_loop();
    }
    fn rest(&mut self, nanoseconds: u64) {
        let until = time::monotonic() + nanoseconds;
        let _ = Portal::CURRENT.service(current::SLEEP, &[until]);
    }
}
