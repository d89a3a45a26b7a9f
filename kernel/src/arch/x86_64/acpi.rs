//! The few things that the nucleus wants from ACPI (specification 6.5, chapter 5): interrupt controllers and overrides (MADT), power management
//! registers (FADT), the sleep type of soft-off (the `_S5_` package, found by pattern: there is no interpreter). All optional: what is missing stays None.

use super::pvh::Memory;
use crate::cores::MOST;

/// Longest table that is read.
const TABLE_MAX: usize = 1 << 20;
const LINES: usize = 16;

/// How a legacy line arrives at the I/O APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRoute {
    /// Global system interrupt.
    pub global: u32,
    pub level: bool,
    pub low_active: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApic {
    pub address: u64,
    pub first_global: u32,
}

/// A register in port or memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    Port(u16),
    Memory(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acpi {
    /// Where the root pointer is.
    pub root: u64,
    pub io_apic: Option<IoApic>,
    pub lines: [LineRoute; LINES],
    /// Enabled processors: their local APICs, as many as can be used.
    pub processors: [u32; MOST],
    pub processor_count: usize,
    /// 3.579545 MHz counter.
    pub pm_timer: Option<u16>,
    /// PM1a (and PM1b) control ports and the SLP_TYP value of soft-off.
    pub pm1_control: [Option<u16>; 2],
    pub sleep_type: u8,
    /// Sleep control register of machines with reduced hardware.
    pub sleep_control: Option<Register>,
    pub reset: Option<(Register, u8)>,
}

impl Default for Acpi {
    fn default() -> Acpi {
        Acpi {
            root: 0,
            io_apic: None,
            lines: core::array::from_fn(|line| LineRoute {
                global: line as u32,
                level: false,
                low_active: false,
            }),
            processors: [0; MOST],
            processor_count: 0,
            pm_timer: None,
            pm1_control: [None; 2],
            sleep_type: 0,
            sleep_control: None,
            reset: None,
        }
    }
}

impl Acpi {
    fn add_processor(&mut self, id: u32) {
        if let Some(place) = self.processors.get_mut(self.processor_count) {
            *place = id;
            self.processor_count += 1;
        }
    }

    /// Local APICs of the enabled processors.
    pub fn processors(&self) -> &[u32] {
        &self.processors[..self.processor_count]
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn checksum(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, &b| sum.wrapping_add(b)) == 0
}

/// The root pointer: where the loader says, else in the BIOS area.
fn root_pointer(memory: &impl Memory, hint: u64) -> Option<(u64, &'static [u8])> {
    let valid = |address| {
        let bytes = memory.bytes(address, 36)?;
        (bytes.starts_with(b"RSD PTR ") && checksum(&bytes[..20])).then_some((address, bytes))
    };
    if hint != 0 {
        if let Some(found) = valid(hint) {
            return Some(found);
        }
    }
    (0xe_0000..0x10_0000).step_by(16).find_map(valid)
}

fn table(memory: &impl Memory, address: u64) -> Option<&'static [u8]> {
    let length = u32_at(memory.bytes(address, 36)?, 4)? as usize;
    if !(36..=TABLE_MAX).contains(&length) {
        return None;
    }
    memory.bytes(address, length)
}

/// Read what is there.
pub fn read(memory: &impl Memory, root_hint: u64) -> Option<Acpi> {
    let (address, root) = root_pointer(memory, root_hint)?;
    let (list, width) = match (root[15], u64_at(root, 24)?) {
        (2.., address) if address != 0 => (table(memory, address)?, 8),
        _ => (table(memory, u32_at(root, 16)? as u64)?, 4),
    };
    let mut acpi = Acpi {
        root: address,
        ..Acpi::default()
    };
    for entry in list[36..].chunks_exact(width) {
        let address = if width == 8 {
            u64_at(entry, 0)?
        } else {
            u32_at(entry, 0)? as u64
        };
        let Some(table) = table(memory, address) else {
            continue;
        };
        match &table[..4] {
            b"APIC" => interrupts(table, &mut acpi),
            b"FACP" => power(memory, table, &mut acpi),
            _ => {}
        }
    }
    Some(acpi)
}

/// MADT.
fn interrupts(table: &[u8], acpi: &mut Acpi) {
    let mut rest = table.get(44..).unwrap_or(&[]);
    while let [kind, length, ..] = *rest {
        if length < 2 || length as usize > rest.len() {
            break;
        }
        let (entry, tail) = rest.split_at(length as usize);
        rest = tail;
        match kind {
            0 if u32_at(entry, 4).is_some_and(|flags| flags & 1 != 0) => {
                acpi.add_processor(entry[3] as u32)
            }
            9 if u32_at(entry, 8).is_some_and(|flags| flags & 1 != 0) => {
                if let Some(id) = u32_at(entry, 4) {
                    acpi.add_processor(id);
                }
            }
            1 => {
                if let (Some(address), Some(first_global)) = (u32_at(entry, 4), u32_at(entry, 8)) {
                    // The one that serves the legacy lines.
                    if acpi
                        .io_apic
                        .is_none_or(|known| first_global < known.first_global)
                    {
                        acpi.io_apic = Some(IoApic {
                            address: address as u64,
                            first_global,
                        });
                    }
                }
            }
            2 => {
                if let (Some(&line), Some(global), Some(flags)) =
                    (entry.get(3), u32_at(entry, 4), u16_at(entry, 8))
                {
                    if let Some(route) = acpi.lines.get_mut(line as usize) {
                        *route = LineRoute {
                            global,
                            level: flags >> 2 & 3 == 3,
                            low_active: flags & 3 == 3,
                        };
                    }
                }
            }
            _ => {}
        }
    }
}

fn port(table: &[u8], at: usize) -> Option<u16> {
    u32_at(table, at)
        .filter(|&port| port != 0 && port <= 0xffff)
        .map(|port| port as u16)
}

/// A generic address structure.
fn generic(table: &[u8], at: usize) -> Option<Register> {
    let address = u64_at(table, at + 4).filter(|&address| address != 0)?;
    match table.get(at)? {
        0 => Some(Register::Memory(address)),
        1 => u16::try_from(address).ok().map(Register::Port),
        _ => None,
    }
}

/// FADT, and `_S5_` of the DSDT that it names.
fn power(memory: &impl Memory, fadt: &[u8], acpi: &mut Acpi) {
    const RESET_SUPPORTED: u32 = 1 << 10;
    const HARDWARE_REDUCED: u32 = 1 << 20;
    let flags = u32_at(fadt, 112).unwrap_or(0);
    if flags & HARDWARE_REDUCED == 0 {
        acpi.pm_timer = port(fadt, 76);
        acpi.pm1_control = [port(fadt, 64), port(fadt, 68)];
    }
    acpi.sleep_control = generic(fadt, 244);
    if flags & RESET_SUPPORTED != 0 {
        if let (Some(register), Some(&value)) = (generic(fadt, 116), fadt.get(128)) {
            acpi.reset = Some((register, value));
        }
    }
    let dsdt = u64_at(fadt, 140)
        .filter(|&address| address != 0)
        .or(u32_at(fadt, 40).map(u64::from));
    if let Some(sleep_type) = dsdt
        .and_then(|address| table(memory, address))
        .and_then(soft_off)
    {
        acpi.sleep_type = sleep_type;
    }
}

/// First element of `Name (_S5_, Package …)`.
fn soft_off(code: &[u8]) -> Option<u8> {
    let at = code.windows(5).position(|w| w == b"_S5_\x12")? + 5;
    // Package length: the two highest bits of the first byte say how many bytes follow it. Then the number of elements.
    let elements = at + 1 + (code.get(at)? >> 6) as usize;
    match *code.get(elements + 1)? {
        0x0a => code.get(elements + 2).copied(),
        value @ 0..=1 => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_soft_off_package() {
        assert_eq!(soft_off(b"xx\x08_S5_\x12\x06\x04\x00\x00\x00\x00"), Some(0));
        assert_eq!(
            soft_off(b"\x08_S5_\x12\x08\x04\x0a\x05\x0a\x05\0\0"),
            Some(5)
        );
        assert_eq!(soft_off(b"\x08_S5_\x12\x47\x00\x04\x01\x00"), Some(1));
        assert_eq!(soft_off(b"_S5_\x12"), None);
        assert_eq!(soft_off(b""), None);
    }

    #[test]
    fn reads_the_interrupt_table() {
        let mut table = vec![0u8; 44];
        table.extend([0, 8, 0, 0, 1, 0, 0, 0]);
        table.extend([0, 8, 1, 1, 0, 0, 0, 0]);
        table.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
        table.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
        table.extend([2, 10, 0, 9, 9, 0, 0, 0, 0x0d, 0]);
        table.extend([2, 200, 0, 9]);
        let mut acpi = Acpi::default();
        interrupts(&table, &mut acpi);
        assert_eq!(acpi.processors(), [0]);
        assert_eq!(
            acpi.io_apic,
            Some(IoApic {
                address: 0xfec0_0000,
                first_global: 0
            })
        );
        assert_eq!(acpi.lines[0].global, 2);
        assert!(acpi.lines[9].level && !acpi.lines[9].low_active);
        assert!(!acpi.lines[4].level);
    }

    struct Nothing;

    impl Memory for Nothing {
        fn bytes(&self, _: u64, _: usize) -> Option<&'static [u8]> {
            None
        }
    }

    #[test]
    fn lives_without() {
        assert_eq!(read(&Nothing, 0x1234), None);
    }
}
