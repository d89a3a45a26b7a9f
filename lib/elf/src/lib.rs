//! What a loader needs to know of an x86-64 ELF executable: entry, segments, interpreter. Parsing is the crate `elf`'s; this crate checks that the result can be
//! loaded (System V ABI, chapter 5) and hands out plain values.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use elf::abi;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::ElfBytes;

/// Most PT_LOAD segments that an executable may have.
pub const SEGMENTS_MAX: usize = 16;
/// User addresses end here.
const USER_TOP: u64 = 0x7fff_ffff_f000;
const PAGE: u64 = 4096;

/// Why a file cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not an ELF file at all.
    NotElf,
    /// ELF, but for another machine, class, version or type.
    WrongKind,
    /// Headers that contradict themselves or the file.
    Malformed,
}

/// One PT_LOAD segment. `address` and `offset` are congruent modulo the page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
}

/// An executable that can be loaded.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// ET_DYN: addresses are relative to a base of the loader's choice.
    pub relocatable: bool,
    pub entry: u64,
    segments: [Segment; SEGMENTS_MAX],
    count: usize,
    /// Address of the program headers in memory (AT_PHDR), if a segment holds them.
    pub headers: Option<u64>,
    pub header_count: u64,
    /// File range of the interpreter's path with its NUL.
    pub interpreter: Option<(u64, u64)>,
    /// PT_GNU_STACK asks for a stack whose memory can be executed.
    pub executable_stack: bool,
}

impl Image {
    /// The PT_LOAD segments in ascending order, not overlapping.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.count]
    }

    /// First and last address (rounded to pages) of all segments.
    pub fn extent(&self) -> (u64, u64) {
        let first = self.segments[0].address & !(PAGE - 1);
        let last = &self.segments[self.count - 1];
        (
            first,
            (last.address + last.memory_size).next_multiple_of(PAGE),
        )
    }
}

impl Default for Image {
    /// Of nothing yet.
    fn default() -> Image {
        Image {
            relocatable: false,
            entry: 0,
            segments: [Segment::default(); SEGMENTS_MAX],
            count: 0,
            headers: None,
            header_count: 0,
            interpreter: None,
            executable_stack: false,
        }
    }
}

/// Check an executable. `bytes` must hold at least the ELF header and the program headers (the first 4 KiB do in practice); `file_size` is the size of the whole file.
pub fn parse(bytes: &[u8], file_size: u64) -> Result<Image, Error> {
    let mut image = Image::default();
    parse_into(&mut image, bytes, file_size)?;
    Ok(image)
}

/// [`parse`] to where the image stays (it is large): a new one.
pub fn parse_into(image: &mut Image, bytes: &[u8], file_size: u64) -> Result<(), Error> {
    if bytes.len() < 64 || bytes[..4] != [0x7f, b'E', b'L', b'F'] {
        return Err(Error::NotElf);
    }
    // Section headers lie at the end of the file, which the caller need not have read: they are of no concern here.
    let mut header = [0; 64];
    header.copy_from_slice(&bytes[..64]);
    let phoff = u64::from_le_bytes([
        header[32], header[33], header[34], header[35], header[36], header[37], header[38],
        header[39],
    ]);
    header[40..48].fill(0);
    header[60..64].fill(0);
    let ident = elf::file::parse_ident::<LittleEndian>(&header).map_err(|_| Error::WrongKind)?;
    let ehdr =
        elf::file::FileHeader::parse_tail(ident, &header[16..]).map_err(|_| Error::Malformed)?;
    if ehdr.class != Class::ELF64 || ehdr.e_machine != abi::EM_X86_64 || ehdr.version != 1 {
        return Err(Error::WrongKind);
    }
    let relocatable = match ehdr.e_type {
        abi::ET_EXEC => false,
        abi::ET_DYN => true,
        _ => return Err(Error::WrongKind),
    };
    if ehdr.e_phentsize != 56 || ehdr.e_phnum == 0 {
        return Err(Error::Malformed);
    }
    let end = phoff
        .checked_add(56 * u64::from(ehdr.e_phnum))
        .ok_or(Error::Malformed)?;
    let table = bytes
        .get(phoff as usize..end as usize)
        .ok_or(Error::Malformed)?;
    image.relocatable = relocatable;
    image.entry = ehdr.e_entry;
    image.header_count = u64::from(ehdr.e_phnum);
    for bytes in table.chunks_exact(56) {
        // Most headers are for others: notes, relocations, exceptions.
        let kind = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if !matches!(kind, abi::PT_LOAD | abi::PT_INTERP | abi::PT_GNU_STACK) {
            continue;
        }
        let header = elf::segment::SegmentTable::new(LittleEndian, Class::ELF64, bytes)
            .get(0)
            .map_err(|_| Error::Malformed)?;
        match kind {
            abi::PT_LOAD if header.p_memsz > 0 => image.push(&header, file_size)?,
            abi::PT_INTERP => {
                let end = header
                    .p_offset
                    .checked_add(header.p_filesz)
                    .ok_or(Error::Malformed)?;
                if header.p_filesz < 2 || header.p_filesz > PAGE || end > file_size {
                    return Err(Error::Malformed);
                }
                image.interpreter = Some((header.p_offset, header.p_filesz));
            }
            abi::PT_GNU_STACK => image.executable_stack = header.p_flags & abi::PF_X != 0,
            _ => {}
        }
    }
    if image.count == 0 {
        return Err(Error::Malformed);
    }
    image.headers = image
        .segments()
        .iter()
        .find(|s| phoff >= s.offset && end <= s.offset + s.file_size)
        .map(|s| s.address + (phoff - s.offset));
    Ok(())
}

impl Image {
    fn push(&mut self, header: &elf::segment::ProgramHeader, file_size: u64) -> Result<(), Error> {
        let file_end = header
            .p_offset
            .checked_add(header.p_filesz)
            .ok_or(Error::Malformed)?;
        let end = header
            .p_vaddr
            .checked_add(header.p_memsz)
            .ok_or(Error::Malformed)?;
        let previous = self
            .segments()
            .last()
            .map_or(0, |s| s.address + s.memory_size);
        let congruent = header.p_vaddr % PAGE == header.p_offset % PAGE;
        if header.p_filesz > header.p_memsz
            || file_end > file_size
            || end > USER_TOP
            || header.p_vaddr < previous
            || !congruent
            || self.count == SEGMENTS_MAX
        {
            return Err(Error::Malformed);
        }
        self.segments[self.count] = Segment {
            offset: header.p_offset,
            address: header.p_vaddr,
            file_size: header.p_filesz,
            memory_size: header.p_memsz,
            read: header.p_flags & abi::PF_R != 0,
            write: header.p_flags & abi::PF_W != 0,
            execute: header.p_flags & abi::PF_X != 0,
        };
        self.count += 1;
        Ok(())
    }
}

/// Whole files: also checks that `bytes` is the file.
pub fn parse_file(bytes: &[u8]) -> Result<Image, Error> {
    ElfBytes::<LittleEndian>::minimal_parse(bytes).map_err(|_| Error::NotElf)?;
    parse(bytes, bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little executable: header, `segments` program headers, 8 KiB of file.
    fn file(kind: u16, segments: &[(u32, u64, u64, u64, u64)]) -> Vec<u8> {
        let mut f = vec![0; 8192];
        f[..16].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        f[16..18].copy_from_slice(&kind.to_le_bytes());
        f[18..20].copy_from_slice(&62u16.to_le_bytes());
        f[20..24].copy_from_slice(&1u32.to_le_bytes());
        f[24..32].copy_from_slice(&0x40_1000u64.to_le_bytes());
        f[32..40].copy_from_slice(&64u64.to_le_bytes());
        f[52..54].copy_from_slice(&64u16.to_le_bytes());
        f[54..56].copy_from_slice(&56u16.to_le_bytes());
        f[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (i, &(kind, offset, address, file_size, memory_size)) in segments.iter().enumerate() {
            let p = &mut f[64 + 56 * i..];
            p[..4].copy_from_slice(&kind.to_le_bytes());
            p[4..8].copy_from_slice(&5u32.to_le_bytes());
            p[8..16].copy_from_slice(&offset.to_le_bytes());
            p[16..24].copy_from_slice(&address.to_le_bytes());
            p[32..40].copy_from_slice(&file_size.to_le_bytes());
            p[40..48].copy_from_slice(&memory_size.to_le_bytes());
        }
        f
    }

    #[test]
    fn a_plain_executable_loads() {
        let f = file(
            2,
            &[
                (1, 0, 0x40_0000, 0x1000, 0x1000),
                (1, 0x1000, 0x40_1000, 0x800, 0x2000),
            ],
        );
        let image = parse_file(&f).unwrap();
        assert_eq!(image.segments().len(), 2);
        assert_eq!(image.extent(), (0x40_0000, 0x40_3000));
        assert_eq!(image.headers, Some(0x40_0040));
        assert!(!image.relocatable);
        assert!(image.segments()[0].execute && !image.segments()[0].write);
    }

    #[test]
    fn damaged_headers_are_refused() {
        let good = [(1, 0, 0x40_0000, 0x1000, 0x1000)];
        assert_eq!(parse(b"#!/bin/sh", 9).unwrap_err(), Error::NotElf);
        assert_eq!(parse_file(&file(1, &good)).unwrap_err(), Error::WrongKind);
        for bad in [
            (1, 0, 0x40_0000, 0x9000, 0x9000),             // beyond the file
            (1, 0, 0x40_0000, 0x1000, 0x800),              // more file than memory
            (1, 4, 0x40_0000, 0x1000, 0x1000),             // not congruent
            (1, 0, 0x7fff_ffff_0000, 0x1000, 0x10_0000),   // beyond user space
            (1, 0, 0xffff_ffff_ffff_f000, 0x1000, 0x1000), // wraps
        ] {
            assert_eq!(
                parse_file(&file(2, &[bad])).unwrap_err(),
                Error::Malformed,
                "{bad:x?}"
            );
        }
        assert_eq!(
            parse_file(&file(2, &[good[0], good[0]])).unwrap_err(),
            Error::Malformed,
            "overlap"
        );
        assert_eq!(parse_file(&file(2, &[])).unwrap_err(), Error::Malformed);
    }

    #[test]
    fn no_prefix_of_a_file_panics() {
        let f = file(
            3,
            &[(1, 0, 0, 0x1000, 0x1000), (3, 0x200, 0x200, 0x1c, 0x1c)],
        );
        for len in 0..512 {
            let _ = parse(&f[..len], f.len() as u64);
        }
    }

    #[test]
    fn bit_flips_never_panic() {
        let f = file(
            3,
            &[(1, 0, 0, 0x1000, 0x1000), (3, 0x200, 0x200, 0x1c, 0x1c)],
        );
        for bit in 0..8 * 256 {
            let mut g = f.clone();
            g[bit / 8] ^= 1 << (bit % 8);
            if let Ok(image) = parse_file(&g) {
                let (first, last) = image.extent();
                assert!(first < last && last <= USER_TOP + PAGE);
            }
        }
    }
}
