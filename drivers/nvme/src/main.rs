//! The driver program of one NVMe disk: portals `pci` (whose badge says which), `irq`, and `dma` (its own badge of `vm`); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::program::{self, Pieces};
use cairn_idl::pci;
use cairn_idl::wire::Failure;
use cairn_nvme::controller::{is_enabled, reset, Controller, Registers, PIECES};
use cairn_rt::dma::Driver;
use cairn_rt::{device, log, startup, time, Portal, Receiver};
use core::fmt;

cairn_rt::entry!(main);

struct Window(device::Registers);

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
}

/// How long a controller that was at work is left alone before it is reset.
const REST: u64 = 300_000_000;

type Disk = Controller<Window, Pieces>;

/// Why there is no disk.
enum Trouble {
    /// A portal that the manifest should give is missing.
    Portal,
    Failure(&'static str, Failure),
    Device(cairn_nvme::controller::Trouble),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Trouble::Portal => f.write_str("a portal is missing"),
            Trouble::Failure(what, why) => write!(f, "{what}: {why}"),
            Trouble::Device(why) => write!(f, "the device: {why:?}"),
        }
    }
}

fn start() -> Result<(Disk, Driver, Option<Portal>), Trouble> {
    let failed = |what| move |why| Trouble::Failure(what, why);
    let pci = startup::portal("pci").ok_or(Trouble::Portal)?;
    let bus = pci::Client(&pci);
    let window = bus.window(0).map_err(failed("its registers"))?;
    let registers = device::Registers::shown(window.address, window.length);
    let mut registers = Window(registers.ok_or(Trouble::Portal)?);
    if is_enabled(&mut registers) {
        rest();
    }
    // From here on the device does nothing, whatever it did for a driver before this one.
    reset(&mut registers).map_err(Trouble::Device)?;
    let vm = startup::portal("dma").ok_or(Trouble::Portal)?;
    let driver = Driver::begin(vm).map_err(failed("memory for the device"))?;
    let pieces = Pieces::make(&driver, PIECES).map_err(failed("memory for the device"))?;
    let irq = program::listen(&bus);
    bus.master(true).map_err(failed("bus mastery"))?;
    let controller = Controller::new(registers, pieces, irq.is_some());
    Ok((controller.map_err(Trouble::Device)?, driver, irq))
}

/// Let a controller that was at work for a driver before this one come to an end with it. It need not, but QEMU 7.2 itself ends when an NVMe controller is reset in the midst of requests.
fn rest() {
    if let Ok(nobody) = Receiver::create() {
        let _ = nobody.receive(Some(time::monotonic() + REST));
        nobody.0.close();
    }
}

fn main() -> ! {
    match start() {
        Ok((controller, driver, irq)) => program::run(controller, driver, irq),
        Err(trouble) => {
            log!("no disk: {trouble}");
            program::refuse()
        }
    }
}
