//! The driver program of one virtio disk ([`cairn_block::start`] names its portals); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::start::{drive, Trouble};
use cairn_idl::pci;
use cairn_rt::{device, log, time, Portal};
use cairn_virtio_blk::device::{reset, Device, Registers, PIECES, QUEUES};
use cairn_virtio_blk::place::{find, Place};

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
    fn device16(&mut self, at: usize) -> u16 {
        self.device.read16(at)
    }
    fn device32(&mut self, at: usize) -> u32 {
        self.device.read32(at)
    }
    fn notify(&mut self, place: u16, number: u16) {
        self.notify
            .write16(place as usize * self.multiplier, number);
    }
    fn pause(&mut self) {
        core::hint::spin_loop();
    }
}

/// Why there is no disk.
#[derive(Debug)]
enum Unfit {
    /// It is no device of virtio 1.
    NoVirtio1,
    #[expect(dead_code, reason = "shown in the log")]
    Device(cairn_virtio_blk::device::Trouble),
}

fn other() -> Trouble<Unfit> {
    Trouble::Device(Unfit::NoVirtio1)
}

/// Show the windows that the device's registers are in.
fn windows(bus: &pci::Client<Portal>) -> Result<Windows, Trouble<Unfit>> {
    let places = find(|at| bus.read(at).ok()).ok_or_else(other)?;
    let mut shown: [Option<(u64, u64)>; pci::BARS] = [None; pci::BARS];
    let mut window = |place: Place| {
        let known = shown.get_mut(place.bar as usize).ok_or_else(other)?;
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
            return Err(other());
        }
        device::Registers::shown(address + offset, size).ok_or_else(other)
    };
    Ok(Windows {
        common: window(places.common)?,
        device: window(places.device)?,
        notify: window(places.notify)?,
        multiplier: places.multiplier as usize,
    })
}

fn main() -> ! {
    let queues = (time::system_page().cores as usize).clamp(1, QUEUES);
    drive(
        PIECES,
        queues as u32,
        |bus| {
            let mut registers = windows(bus)?;
            reset(&mut registers).map_err(|why| Trouble::Device(Unfit::Device(why)))?;
            Ok(registers)
        },
        |registers, pieces, messages| {
            let device = Device::new(registers, pieces, messages, queues).map_err(Unfit::Device)?;
            log!("queues: {}, with {messages} messages", device.queues());
            Ok(device)
        },
    )
}
