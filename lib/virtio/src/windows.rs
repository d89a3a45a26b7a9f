//! The device's registers as a driver's program has them: windows that the PCI server shows.

use crate::place::{find, Place};
use crate::transport::Registers;
use cairn_idl::pci;
use cairn_idl::wire::Failure;
use cairn_rt::device;
use cairn_rt::Portal;

pub struct Windows {
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
    fn device8(&mut self, at: usize) -> u8 {
        self.device.read8(at)
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

/// Why there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// It is no device of virtio 1.
    NoVirtio1,
    /// A window is not shown.
    Window(Failure),
}

/// Show the windows that the device's registers are in.
pub fn show(bus: &pci::Client<Portal>) -> Result<Windows, Unseen> {
    let places = find(|at| bus.read(at).ok()).ok_or(Unseen::NoVirtio1)?;
    let mut shown: [Option<(u64, u64)>; pci::BARS] = [None; pci::BARS];
    let mut window = |place: Place| {
        let known = shown.get_mut(place.bar as usize).ok_or(Unseen::NoVirtio1)?;
        let (address, length) = match *known {
            Some(known) => known,
            None => {
                let told = bus.window(place.bar).map_err(Unseen::Window)?;
                *known.insert((told.address, told.length))
            }
        };
        let (offset, size) = (u64::from(place.offset), u64::from(place.length));
        if offset + size > length {
            return Err(Unseen::NoVirtio1);
        }
        device::Registers::shown(address + offset, size).ok_or(Unseen::NoVirtio1)
    };
    Ok(Windows {
        common: window(places.common)?,
        device: window(places.device)?,
        notify: window(places.notify)?,
        multiplier: places.multiplier as usize,
    })
}
