//! ACPI's table of remapping hardware (VT-d specification 4.1, chapter 8), and the way to it from ACPI's root pointer (ACPI specification 6.5, 5.2.5 to 5.2.8). Firmware made it: what does not fit is left out, nothing is believed to be as long as it says.

use crate::Frame;
use alloc::vec;
use alloc::vec::Vec;

/// Longest table that is read.
const TABLE_MAX: usize = 1 << 20;
/// Bytes before a table's own content.
const HEADER: usize = 36;
/// Where DMAR's structures begin.
const STRUCTURES: usize = 48;
/// Kinds of structures, and of devices in their scopes.
const UNIT: u16 = 0;
const RESERVED: u16 = 1;
const ENDPOINT: u8 = 1;

/// Physical memory, as far as the firmware's tables lie there.
pub trait Physical {
    /// False: that cannot be read.
    fn peek(&mut self, address: u64, into: &mut [u8]) -> bool;
}

/// The registers of a remapping unit, and the PCI segment that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub segment: u16,
    pub registers: u64,
}

/// Memory that devices use for the firmware (RMRR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Bus in bits 8 and up, device in 3 to 7, function in 0 to 2; all of segment 0.
    pub functions: Vec<u16>,
    pub first: Frame,
    pub last: Frame,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dmar {
    pub units: Vec<Place>,
    pub reserved: Vec<Reserved>,
    /// Devices with reserved memory that are behind bridges, whose numbers only the bridges know: they get none.
    pub hidden: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at + N)?;
    let number = part.iter().rev();
    Some(number.fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn is_sound(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)) == 0
}

/// A whole table.
fn table(memory: &mut impl Physical, address: u64) -> Option<Vec<u8>> {
    let mut header = [0; HEADER];
    if !memory.peek(address, &mut header) {
        return None;
    }
    let length = number::<4>(&header, 4)? as usize;
    if !(HEADER..=TABLE_MAX).contains(&length) {
        return None;
    }
    let mut bytes = vec![0; length];
    (memory.peek(address, &mut bytes) && is_sound(&bytes)).then_some(bytes)
}

/// The table of remapping hardware, by way of ACPI's root pointer.
pub fn find(memory: &mut impl Physical, root: u64) -> Option<Dmar> {
    let mut pointer = [0; 36];
    if !memory.peek(root, &mut pointer) || !pointer.starts_with(b"RSD PTR ") {
        return None;
    }
    let wide = pointer[15] >= 2 && number::<8>(&pointer, 24)? != 0;
    let list = match wide {
        true => table(memory, number::<8>(&pointer, 24)?)?,
        false => table(memory, number::<4>(&pointer, 16)?)?,
    };
    let entries = list[HEADER..].chunks_exact(if wide { 8 } else { 4 });
    for entry in entries {
        let address = entry.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        let mut signature = [0; 4];
        if memory.peek(address, &mut signature) && &signature == b"DMAR" {
            return table(memory, address).map(|bytes| parse(&bytes));
        }
    }
    None
}

/// The content of a DMAR table.
pub fn parse(bytes: &[u8]) -> Dmar {
    let mut dmar = Dmar::default();
    let mut rest = bytes.get(STRUCTURES..).unwrap_or(&[]);
    while let (Some(kind), Some(length)) = (number::<2>(rest, 0), number::<2>(rest, 2)) {
        let length = length as usize;
        if length < 4 || length > rest.len() {
            break;
        }
        let (structure, behind) = rest.split_at(length);
        rest = behind;
        let _ = match kind as u16 {
            UNIT => unit(structure, &mut dmar),
            RESERVED => reserved(structure, &mut dmar),
            _ => None,
        };
    }
    dmar
}

fn unit(structure: &[u8], dmar: &mut Dmar) -> Option<()> {
    dmar.units.push(Place {
        segment: number::<2>(structure, 6)? as u16,
        registers: number::<8>(structure, 8)?,
    });
    Some(())
}

fn reserved(structure: &[u8], dmar: &mut Dmar) -> Option<()> {
    let segment = number::<2>(structure, 6)?;
    let (base, limit) = (number::<8>(structure, 8)?, number::<8>(structure, 16)?);
    let (first, last) = (base >> 12, limit >> 12);
    if segment != 0 || last < first {
        return None;
    }
    let (first, last) = (first.try_into().ok()?, last.try_into().ok()?);
    let mut functions = Vec::new();
    let mut scopes = structure.get(24..)?;
    while let [kind, length, ..] = *scopes {
        if usize::from(length) < 6 || usize::from(length) > scopes.len() {
            break;
        }
        let (scope, behind) = scopes.split_at(usize::from(length));
        scopes = behind;
        match (kind, scope) {
            (ENDPOINT, &[_, _, _, _, _, bus, device, function]) => functions
                .push(u16::from(bus) << 8 | u16::from(device & 31) << 3 | u16::from(function & 7)),
            _ => dmar.hidden += 1,
        }
    }
    dmar.reserved.push(Reserved {
        functions,
        first,
        last,
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::sealed;

    struct Memory(Vec<(u64, Vec<u8>)>);

    impl Physical for Memory {
        fn peek(&mut self, address: u64, into: &mut [u8]) -> bool {
            let found = self.0.iter().find_map(|(start, bytes)| {
                let at = address.checked_sub(*start)? as usize;
                bytes.get(at..at + into.len())
            });
            found.map(|bytes| into.copy_from_slice(bytes)).is_some()
        }
    }

    fn dmar() -> Vec<u8> {
        let mut content = vec![47, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // A unit for everything, with an I/O APIC in its scope.
        content.extend([0, 0, 24, 0, 1, 0, 0, 0]);
        content.extend(0xfed9_0000u64.to_le_bytes());
        content.extend([3, 8, 0, 0, 0, 0xff, 0, 0]);
        // Memory of a controller, and of one behind a bridge.
        content.extend([1, 0, 42, 0, 0, 0, 0, 0]);
        content.extend(0x7f00_0000u64.to_le_bytes());
        content.extend(0x7f00_1fffu64.to_le_bytes());
        content.extend([1, 8, 0, 0, 0, 0, 0x1d, 7]);
        content.extend([1, 10, 0, 0, 0, 0, 0x1c, 0, 2, 0]);
        // Something later specifications know, a unit of another segment, and one that is cut off.
        content.extend([9, 0, 6, 0, 1, 2]);
        content.extend([0, 0, 16, 0, 1, 0, 1, 0]);
        content.extend(0xfed8_0000u64.to_le_bytes());
        content.extend([0, 0, 16, 0, 1]);
        sealed(b"DMAR", &content)
    }

    #[test]
    fn units_and_reserved_memory_are_read() {
        let found = parse(&dmar());
        let place = |segment, registers| Place { segment, registers };
        assert_eq!(found.units, [place(0, 0xfed9_0000), place(1, 0xfed8_0000)]);
        let reserved = Reserved {
            functions: vec![0xef],
            first: 0x7f000,
            last: 0x7f001,
        };
        assert_eq!((found.reserved, found.hidden), (vec![reserved], 1));
        assert_eq!(parse(&[]), Dmar::default());
        for cut in 0..dmar().len() {
            parse(&dmar()[..cut]);
        }
    }

    #[test]
    fn the_way_from_the_root_pointer() {
        let (wide, narrow) = (0x7fe_1000u64, 0x7fe_2000u64);
        let mut pointer = b"RSD PTR \0CAIRN \x02".to_vec();
        pointer.extend((narrow as u32).to_le_bytes());
        pointer.extend([36, 0, 0, 0]);
        pointer.extend(wide.to_le_bytes());
        pointer.extend([0; 4]);
        let list = |n: usize| -> Vec<u8> {
            let at = [0x111u64, 0x7fe_3000, 0x7fe_4000];
            at.iter()
                .flat_map(|a| a.to_le_bytes()[..n].to_vec())
                .collect()
        };
        let mut memory = Memory(vec![
            (0xf_5000, pointer.clone()),
            (wide, sealed(b"XSDT", &list(8))),
            (narrow, sealed(b"RSDT", &list(4))),
            (0x7fe_3000, sealed(b"FACP", &[0; 40])),
            (0x7fe_4000, dmar()),
        ]);
        assert_eq!(find(&mut memory, 0xf_5000), Some(parse(&dmar())));
        assert_eq!(find(&mut memory, 0xf_5010), None);
        assert_eq!(find(&mut memory, 0), None);
        memory.0[0].1[15] = 0;
        assert_eq!(find(&mut memory, 0xf_5000), Some(parse(&dmar())));
        memory.0[4].1[60] ^= 1;
        assert_eq!(find(&mut memory, 0xf_5000), None, "damaged");
        memory.0.pop();
        assert_eq!(find(&mut memory, 0xf_5000), None);
    }
}
