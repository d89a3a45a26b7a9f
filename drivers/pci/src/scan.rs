//! Finding functions: bus 0, and what is behind bridges as the firmware numbered it. What a device says is not trusted: every walk is bounded.

use crate::config::*;
use alloc::vec::Vec;
use cairn_idl::pci::{self, Function, BARS};

/// Most functions that are kept.
pub const FUNCTIONS: usize = 256;
/// Most capabilities in 256 bytes, four bytes each.
const CAPABILITIES_MOST: usize = 48;
/// A word that no function answered.
const NOBODY: u32 = u32::MAX;

/// All functions, in order of their addresses on each bus.
pub fn scan(config: &mut impl Config) -> Vec<Function> {
    let mut found = Vec::new();
    let mut seen = [false; 256];
    let mut buses = Vec::from([0u8]);
    while let Some(bus) = buses.pop() {
        if core::mem::replace(&mut seen[bus as usize], true) {
            continue;
        }
        for device in 0..32 {
            let mut functions = 1;
            let mut function = 0;
            while function < functions {
                let at = address(bus, device, function);
                function += 1;
                let identity = config.read(at, IDENTITY);
                if identity == NOBODY || identity & 0xffff == 0xffff || identity == 0 {
                    continue;
                }
                let header = config.read(at, HEADER) >> 16;
                if header & 0x80 != 0 {
                    functions = 8;
                }
                if header & 0x7f == 1 {
                    buses.push((config.read(at, BUSES) >> 8) as u8);
                }
                if found.len() < FUNCTIONS {
                    found.push(describe(config, at, identity, header & 0x7f));
                }
            }
        }
    }
    found
}

fn describe(config: &mut impl Config, at: Address, identity: u32, header: u32) -> Function {
    let line = config.read(at, LINE);
    let mut function = Function {
        address: at as u32,
        identity,
        class: config.read(at, CLASS),
        line: line & 0xff,
        pin: line >> 8 & 0xff,
        ..Function::default()
    };
    let bars = match header {
        0 => {
            function.subsystem = config.read(at, SUBSYSTEM);
            BARS
        }
        // Bridges have two and are nobody's to use; others' headers are not known.
        _ => 0,
    };
    read_bars(config, at, bars, &mut function);
    if header == 0 {
        find_messages(config, at, &mut function);
    }
    function
}

/// Where the capabilities for messages are.
fn find_messages(config: &mut impl Config, at: Address, function: &mut Function) {
    if config.read(at, COMMAND) & command::CAPABILITIES == 0 {
        return;
    }
    let mut place = config.read(at, CAPABILITIES) as u8 & 0xfc;
    for _ in 0..CAPABILITIES_MOST {
        if place < 0x40 {
            return;
        }
        let head = config.read(at, place);
        match head as u8 {
            capability::MSI if function.msi == 0 => function.msi = place as u32,
            capability::MSIX if function.msix == 0 => {
                function.msix = place as u32;
                function.msix_count = (head >> 16 & 0x7ff) + 1;
            }
            _ => {}
        }
        place = (head >> 8) as u8 & 0xfc;
    }
}

/// Kind, address and length of each base address register. To learn the length ones are written and the function decodes nothing meanwhile.
fn read_bars(config: &mut impl Config, at: Address, bars: usize, function: &mut Function) {
    let before = config.read(at, COMMAND) & !command::STATUS;
    let decoding = command::PORTS | command::MEMORY | command::MASTER;
    config.write(at, COMMAND, before & !decoding);
    let mut index = 0;
    while index < bars {
        let register = |index: usize| BAR + 4 * index as u8;
        let low = config.read(at, register(index));
        let wide = low & 7 == 4 && index + 1 < bars;
        let high = match wide {
            true => config.read(at, register(index + 1)),
            false => 0,
        };
        let mut size = |index: usize, value: u32| {
            config.write(at, register(index), u32::MAX);
            let size = config.read(at, register(index));
            config.write(at, register(index), value);
            size
        };
        let low_size = size(index, low);
        let (kind, base, length) = if low & 1 != 0 {
            // Of ports only the low half may be there.
            let size = (low_size & !3) as u16;
            (
                pci::Bar::Ports,
                (low & !3) as u64,
                size.wrapping_neg() as u64,
            )
        } else {
            let high_size = match wide {
                true => size(index + 1, high),
                false => u32::MAX,
            };
            let mask = (high_size as u64) << 32 | (low_size & !15) as u64;
            let length = match low_size & !15 {
                0 if !wide => 0,
                _ => mask.wrapping_neg(),
            };
            let base = (high as u64) << 32 | (low & !15) as u64;
            (pci::Bar::Memory, base, length)
        };
        // A length that is no power of two is no decoder's.
        if length.is_power_of_two() {
            function.kinds[index] = kind.word();
            function.bases[index] = base;
            function.lengths[index] = length;
        }
        index += if wide { 2 } else { 1 };
    }
    config.write(at, COMMAND, before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Device, Fake};

    #[test]
    fn functions_behind_bridges_are_found_once() {
        let mut fake = Fake::default();
        fake.add(address(0, 0, 0), Device::new(0x1237_8086, 0x0600_0002));
        fake.add(address(0, 3, 0), Device::bridge(1));
        fake.add(address(1, 4, 0), Device::new(0x1001_1af4, 0x0100_0000));
        // It says that its own bus is behind it.
        fake.add(address(1, 5, 0), Device::bridge(1));
        let mut many = Device::new(0x7000_8086, 0x0601_0000);
        many.words[3] |= 0x80 << 16;
        fake.add(address(0, 1, 0), many);
        fake.add(address(0, 1, 3), Device::new(0x7113_8086, 0x0680_0000));
        // Not seen: function 0 does not say that there are others.
        fake.add(address(0, 0, 5), Device::new(0x1111_1111, 0));
        let found: Vec<u32> = scan(&mut fake).iter().map(|f| f.address).collect();
        let expected = [
            (0, 0, 0),
            (0, 1, 0),
            (0, 1, 3),
            (0, 3, 0),
            (1, 4, 0),
            (1, 5, 0),
        ];
        assert_eq!(found, expected.map(|(b, d, f)| address(b, d, f) as u32));
    }

    #[test]
    fn windows_are_measured_and_left_as_they_were() {
        let mut fake = Fake::default();
        let mut device = Device::new(0x1042_1af4, 0x0100_0001);
        device.bar(0, 0xc000 | 1, 0xffff_ffe0 | 1);
        device.bar(1, 0xfebd_1000, 0xffff_f000);
        device.bar(4, 0xfe00_0000 | 4 | 8, 0xffff_c000 | 4 | 8);
        device.bar(5, 0x12, 0xffff_ffff);
        device.words[1] = 7;
        let at = address(0, 4, 0);
        fake.add(at, device.clone());
        let found = scan(&mut fake);
        let f = &found[0];
        let kind = |bar: pci::Bar| bar.word();
        let (none, memory) = (kind(pci::Bar::None), kind(pci::Bar::Memory));
        assert_eq!(
            f.kinds,
            [kind(pci::Bar::Ports), memory, none, none, memory, none]
        );
        assert_eq!(f.bases, [0xc000, 0xfebd_1000, 0, 0, 0x12_fe00_0000, 0]);
        assert_eq!(f.lengths, [32, 4096, 0, 0, 0x4000, 0]);
        assert_eq!(fake.device(at).words, device.words);
    }

    #[test]
    fn capabilities_in_a_circle_end() {
        let mut fake = Fake::default();
        let mut device = Device::new(0x1042_1af4, 0x0100_0001);
        device.words[1] = command::CAPABILITIES;
        device.words[0x34 / 4] = 0x40;
        device.words[0x40 / 4] = 0x0003_5011;
        device.words[0x50 / 4] = 0x4005;
        fake.add(0x20, device);
        let found = scan(&mut fake);
        assert_eq!(
            (found[0].msix, found[0].msix_count, found[0].msi),
            (0x40, 4, 0x50)
        );
    }
}
