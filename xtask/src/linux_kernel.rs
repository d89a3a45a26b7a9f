//! The kernel of a `vmlinuz`, unpacked: a machine that is emulated unpacks it itself in four seconds, at each boot.
//!
//! Where the packed kernel lies is told by its head (Linux's documentation, "The Linux/x86 Boot Protocol"). QEMU starts what was packed if that has an entry
//! for PVH, which a note of its ELF file tells (Xen's documentation, "x86/HVM direct boot ABI").

use crate::modules;
use object::read::elf::{ElfFile64, SectionHeader};
use object::Endianness;

/// What the head of such a file says at 0x202, and the first version that tells where the kernel is.
const MAGIC: &[u8] = b"HdrS";
const VERSION: u16 = 0x208;
/// XEN_ELFNOTE_PHYS32_ENTRY
const PVH_ENTRY: u32 = 18;

/// None: it is not as this knows it, or what unpacks it is not there; then it is started as it is.
pub fn unpacked(file: &[u8]) -> Option<Vec<u8>> {
    let kernel = packed(file)?;
    let (program, kernel) = match kernel {
        // Its length stands behind it.
        [0xfd, b'7', b'z', b'X', b'Z', 0, .., _, _, _, _] => ("xz", &kernel[..kernel.len() - 4]),
        [0x28, 0xb5, 0x2f, 0xfd, .., _, _, _, _] => ("zstd", &kernel[..kernel.len() - 4]),
        [0x1f, 0x8b, ..] => ("gzip", kernel),
        _ => return None,
    };
    let kernel = modules::unpack(program, kernel).ok()?;
    starts_alone(&kernel).then_some(kernel)
}

/// The part of the file that is the packed kernel.
fn packed(file: &[u8]) -> Option<&[u8]> {
    let bytes = |at: usize, count: usize| file.get(at..at.checked_add(count)?);
    let word = |at: usize| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?) as usize);
    if bytes(0x202, 4)? != MAGIC || u16::from_le_bytes(bytes(0x206, 2)?.try_into().ok()?) < VERSION
    {
        return None;
    }
    let sectors = match *file.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let at = ((sectors + 1) * 512).checked_add(word(0x248)?)?;
    bytes(at, word(0x24c)?)
}

fn starts_alone(kernel: &[u8]) -> bool {
    let Ok(file) = ElfFile64::<Endianness>::parse(kernel) else {
        return false;
    };
    let endian = file.endian();
    let sections = file.elf_section_table();
    let mut notes = sections
        .iter()
        .filter_map(|section| section.notes(endian, kernel).ok().flatten());
    notes.any(|mut notes| {
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| note.name() == b"Xen" && note.n_type(endian) == PVH_ENTRY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head, and from 0x400 + 0x100 on what is packed.
    fn image(packed: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 0x500];
        file[0x1f1] = 1;
        file[0x202..0x206].copy_from_slice(MAGIC);
        file[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        file[0x248..0x24c].copy_from_slice(&0x100_u32.to_le_bytes());
        file[0x24c..0x250].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        file.extend_from_slice(packed);
        file
    }

    #[test]
    fn what_is_packed_lies_where_the_head_says() {
        let file = image(b"kernel");
        assert_eq!(packed(&file), Some(&b"kernel"[..]));
        let mut four = image(b"");
        four[0x1f1] = 0;
        four[0x24c] = 2;
        four.resize(0xb02, 7);
        assert_eq!(packed(&four), Some(&[7, 7][..]));
        for length in [0, 0x202, 0x24f, file.len() - 1] {
            assert_eq!(packed(&file[..length]), None, "{length:x}");
        }
        for (at, value) in [(0x202, 0), (0x207, 0), (0x24b, 0xff), (0x24f, 0xff)] {
            let mut file = file.clone();
            file[at] = value;
            assert_eq!(packed(&file), None, "{at:x}");
        }
    }

    #[test]
    fn what_is_no_kernel_is_not_started() {
        assert_eq!(unpacked(&image(b"nothing known")), None);
        assert_eq!(unpacked(&image(b"\x1f\x8bno gzip")), None);
        assert!(!starts_alone(b"") && !starts_alone(b"\x7fELF"));
        // A program that is no kernel.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!starts_alone(&own));
    }
}
