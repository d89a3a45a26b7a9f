//! The driver program of one virtio disk: portals `pci` (whose badge says which), `irq`, and `dma` (its own badge of `vm`); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::program::{self, Pieces};
use cairn_idl::pci;
use cairn_idl::wire::Failure;
use cairn_rt::dma::Driver;
use cairn_rt::{device, log, startup, Portal};
use cairn_virtio_blk::device::{reset, Device, Registers, PIECES};
use cairn_virtio_blk::place::{find, Place};
use core::fmt;

cairn_rt::entry!(main);

struct Windows {
    common: device::Registers,
    device: device::Registers,
    notify: device::Registers,
    multiplier: usize,
}

impl Registers for Windows {
    fn common8(&mut self, at: usize) -> u8 {
        self.common.read8(at)
    }
    fn common16(&mut self, at: usize) -> u16 {
        self.common.read16(at)
    }
    fn common32(&mut self, at: usize) -> u32 {
        self.common.read32(at)
    }
    fn set_common8(&mut self, at: usize, value: u8) {
        self.common.write8(at, value);
    }
    fn set_common16(&mut self, at: usize, value: u16) {
        self.common.write16(at, value);
    }
    fn set_common32(&mut self, at: usize, value: u32) {
        self.common.write32(at, value);
    }
    fn device32(&mut self, at: usize) -> u32 {
        self.device.read32(at)
    }
    fn notify(&mut self, place: u16) {
        self.notify.write16(place as usize * self.multiplier, 0);
    }
    fn pause(&mut self) {
        core::hint::spin_loop();
    }
}

/// Why there is no disk.
enum Trouble {
    /// A portal that the manifest should give is missing.
    Portal,
    /// It is no device of virtio 1.
    Other,
    Failure(&'static str, Failure),
    Device(cairn_virtio_blk::device::Trouble),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Trouble::Portal => f.write_str("a portal is missing"),
            Trouble::Other => f.write_str("no device of virtio 1"),
            Trouble::Failure(what, why) => write!(f, "{what}: {why}"),
            Trouble::Device(why) => write!(f, "the device: {why:?}"),
        }
    }
}

type Disk = Device<Windows, Pieces>;

/// Show the windows that the device's registers are in.
fn windows(bus: &pci::Client<Portal>) -> Result<Windows, Trouble> {
    let places = find(|at| bus.read(at).ok()).ok_or(Trouble::Other)?;
    let mut shown: [Option<(u64, u64)>; pci::BARS] = [None; pci::BARS];
    let mut window = |place: Place| {
        let known = shown.get_mut(place.bar as usize).ok_or(Trouble::Other)?;
        let (address, length) = match *known {
            Some(known) => known,
            None => {
                let told = bus.window(place.bar);
                let told = told.map_err(|why| Trouble::Failure("a window", why))?;
                *known.insert((told.address, told.length))
            }
        };
        let (offset, size) = (u64::from(place.offset), u64::from(place.length));
        if offset + size > length {
            return Err(Trouble::Other);
        }
        device::Registers::shown(address + offset, size).ok_or(Trouble::Other)
    };
    Ok(Windows {
        common: window(places.common)?,
        device: window(places.device)?,
        notify: window(places.notify)?,
        multiplier: places.multiplier as usize,
    })
}

fn start(pci: Portal) -> Result<(Disk, Driver, Option<Portal>), Trouble> {
    let failed = |what| move |why| Trouble::Failure(what, why);
    let bus = pci::Client(&pci);
    let mut registers = windows(&bus)?;
    // From here on the device does nothing, whatever it did for a driver before this one.
    reset(&mut registers).map_err(Trouble::Device)?;
    let vm = startup::portal("dma").ok_or(Trouble::Portal)?;
    let driver = Driver::begin(vm).map_err(failed("memory for the device"))?;
    let pieces = Pieces::make(&driver, PIECES).map_err(failed("memory for the device"))?;
    let irq = program::listen(&bus);
    bus.master(true).map_err(failed("bus mastery"))?;
    let device = Device::new(registers, pieces, irq.is_some());
    Ok((device.map_err(Trouble::Device)?, driver, irq))
}

fn main() -> ! {
    let started = match startup::portal("pci") {
        Some(pci) => start(pci),
        None => Err(Trouble::Portal),
    };
    match started {
        Ok((device, driver, irq)) => program::run(device, driver, irq),
        Err(trouble) => {
            log!("no disk: {trouble}");
            program::refuse()
        }
    }
}
