//! How a driver's program begins: its device found on the bus and **reset**, then memory from `vm`, interrupts, and the device set up. Portals `pci` (whose badge says which device), `irq`, and `dma` (the driver's own badge of `vm`).

use crate::chip::{self, Chip};
use crate::program::{self, CHANNEL, INTERRUPT};
use cairn_device::{listen, Pieces};
use cairn_idl::pci;
use cairn_idl::wire::Failure;
use cairn_rt::dma::Driver;
use cairn_rt::{device, log, startup, Portal};
use core::fmt::{self, Debug, Display};

/// Why there is no disk; `D`: what is wrong with the device.
pub enum Trouble<D> {
    /// A portal that the manifest should give is missing.
    Portal,
    Failure(&'static str, Failure),
    Device(D),
}

impl<D: Debug> Display for Trouble<D> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Trouble::Portal => f.write_str("a portal is missing"),
            Trouble::Failure(what, why) => write!(f, "{what}: {why}"),
            Trouble::Device(why) => write!(f, "the device: {why:?}"),
        }
    }
}

/// The whole program. `find` gives the registers of a device that does nothing any more, whatever it did for a driver before this one; `make` sets it up, with so many pieces of memory (zeroes), and interrupts by as many messages as it has, at most `messages`: they all come to the driver as one.
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
            program::refuse()
        }
    }
}

fn start<R, C, D>(
    pieces: usize,
    messages: u32,
    find: impl FnOnce(&pci::Client<Portal>) -> Result<R, Trouble<D>>,
    make: impl FnOnce(R, Pieces, u32) -> Result<C, D>,
) -> Result<(C, Driver, Option<Portal>), Trouble<D>> {
    let failed = |what| move |why| Trouble::Failure(what, why);
    let pci = startup::portal("pci").ok_or(Trouble::Portal)?;
    let bus = pci::Client(&pci);
    let registers = find(&bus)?;
    let vm = startup::portal("dma").ok_or(Trouble::Portal)?;
    let driver = Driver::begin(vm).map_err(failed("memory for the device"))?;
    let pieces = Pieces::make(&driver, pieces).map_err(failed("memory for the device"))?;
    let (irq, messages) = listen(&bus, CHANNEL, INTERRUPT, messages);
    bus.master(true).map_err(failed("bus mastery"))?;
    let chip = make(registers, pieces, messages).map_err(Trouble::Device)?;
    Ok((chip, driver, irq))
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
