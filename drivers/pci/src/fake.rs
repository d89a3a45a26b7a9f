//! A bus for tests: devices with registers that hold what is written, and base address registers that hold what their size lets them.

use crate::config::{Address, Config};
use std::collections::BTreeMap;
use std::vec::Vec;

#[derive(Clone)]
pub struct Device {
    pub words: [u32; 64],
    /// Which bits of a base address register can be written, and what its low bits are.
    sizes: [u32; 6],
}

impl Device {
    pub fn new(identity: u32, class: u32) -> Device {
        let mut words = [0; 64];
        (words[0], words[2]) = (identity, class);
        Device {
            words,
            sizes: [0; 6],
        }
    }

    pub fn bridge(behind: u8) -> Device {
        let mut device = Device::new(0x0001_1b36, 0x0604_0000);
        device.words[3] = 1 << 16;
        device.words[6] = (behind as u32) << 8;
        device
    }

    /// A register with this content, that reads so when ones are written.
    pub fn bar(&mut self, index: usize, content: u32, ones: u32) {
        self.words[4 + index] = content;
        self.sizes[index] = ones;
    }
}

#[derive(Default)]
pub struct Fake {
    devices: BTreeMap<Address, Device>,
    pub writes: Vec<(Address, u8, u32)>,
}

impl Fake {
    pub fn add(&mut self, at: Address, device: Device) {
        self.devices.insert(at, device);
    }

    pub fn device(&self, at: Address) -> &Device {
        &self.devices[&at]
    }
}

impl Config for Fake {
    fn read(&mut self, function: Address, register: u8) -> u32 {
        self.devices
            .get(&function)
            .map_or(u32::MAX, |device| device.words[register as usize / 4])
    }

    fn write(&mut self, function: Address, register: u8, value: u32) {
        self.writes.push((function, register, value));
        let Some(device) = self.devices.get_mut(&function) else {
            return;
        };
        let index = register as usize / 4;
        device.words[index] = match index {
            4..10 if device.words[3] == 0 => {
                let ones = device.sizes[index - 4];
                let fixed = match ones {
                    // The upper half of a wide one.
                    u32::MAX => 0,
                    ones if ones & 1 != 0 => 3,
                    _ => 15,
                };
                value & ones & !fixed | ones & fixed
            }
            // The status half is cleared by ones.
            1 => device.words[1] & !value & 0xffff_0000 | value & 0xffff,
            _ => value,
        };
    }
}
