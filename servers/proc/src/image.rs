//! The personality in the boot archive: an ELF image linked at a fixed address, whose pages in the archive are mapped as they are.

use crate::system::Entries;
use alloc::vec::Vec;
use cairn_abi::layout::{
    PAGE, PERSONALITY, PERSONALITY_DATA, PERSONALITY_HEAP, PERSONALITY_IMAGE_END,
};
use cairn_elf::Segment;

const PATH: &str = "cairn/personality";
/// First word at the load address.
const MAGIC: u64 = 0x5855_4e49_4c4e_5243;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    File,
    Elf,
    /// A segment lies outside the personality's range, or its file data is not where a page of it could be mapped.
    Placement,
    Header,
}

impl Missing {
    pub fn text(self) -> &'static str {
        match self {
            Missing::File => "proc: no /cairn/personality in the boot archive",
            Missing::Elf => "proc: /cairn/personality is not an executable of this machine",
            Missing::Placement => "proc: /cairn/personality has segments that cannot be mapped",
            Missing::Header => "proc: /cairn/personality has no header at its load address",
        }
    }
}

/// One segment, ready to be mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Page-aligned address in the process.
    pub address: u64,
    /// The manager's own addresses of the file's pages.
    pub pages: Vec<u64>,
    /// Bytes from `address` that the file fills; what follows in the last page is zero.
    pub filled: u64,
    /// Bytes from `address` in memory, whole pages.
    pub length: u64,
    pub write: bool,
    pub execute: bool,
}

#[derive(Clone, Debug)]
pub struct Image {
    pub pieces: Vec<Piece>,
    /// First instruction of the first process.
    pub start: u64,
    pub entries: Entries,
}

impl Image {
    pub fn find(archive: &'static [u8]) -> Result<Image, Missing> {
        let file = cairn_archive::find(archive, PATH).ok_or(Missing::File)?;
        let image = cairn_elf::parse_file(file.data).map_err(|_| Missing::Elf)?;
        let pieces = image
            .segments()
            .iter()
            .filter(|s| s.memory_size != 0)
            .map(|s| piece(file.data, s))
            .collect::<Result<Vec<Piece>, Missing>>()?;
        let first = image
            .segments()
            .iter()
            .find(|s| s.address == PERSONALITY)
            .ok_or(Missing::Header)?;
        let word = |index: usize| {
            let at = first.offset as usize + index * 8;
            file.data
                .get(at..at + 8)
                .and_then(|b| b.try_into().ok())
                .map(u64::from_le_bytes)
                .ok_or(Missing::Header)
        };
        if word(0)? != MAGIC {
            return Err(Missing::Header);
        }
        Ok(Image {
            pieces,
            start: word(1)?,
            entries: Entries {
                syscall: word(2)?,
                upcall: word(3)?,
                traced: word(4)?,
            },
        })
    }
}

fn piece(file: &[u8], segment: &Segment) -> Result<Piece, Missing> {
    let skew = segment.address & (PAGE - 1);
    let address = segment.address - skew;
    let end = segment
        .address
        .checked_add(segment.memory_size)
        .and_then(|end| end.checked_next_multiple_of(PAGE))
        .ok_or(Missing::Placement)?;
    let (first, last) = match segment.write {
        true => (PERSONALITY_DATA, PERSONALITY_HEAP),
        false => (PERSONALITY, PERSONALITY_IMAGE_END),
    };
    if address < first || end > last {
        return Err(Missing::Placement);
    }
    let filled = if segment.file_size == 0 {
        0
    } else {
        skew + segment.file_size
    };
    let data = (file.as_ptr() as u64 + segment.offset).wrapping_sub(skew);
    if filled != 0 && (!data.is_multiple_of(PAGE) || segment.offset < skew) {
        return Err(Missing::Placement);
    }
    let pages = (0..filled.div_ceil(PAGE))
        .map(|n| data + n * PAGE)
        .collect();
    Ok(Piece {
        address,
        pages,
        filled,
        length: end - address,
        write: segment.write,
        execute: segment.execute,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(address: u64, offset: u64, file_size: u64, memory_size: u64) -> Segment {
        Segment {
            offset,
            address,
            file_size,
            memory_size,
            read: true,
            write: true,
            execute: false,
        }
    }

    #[repr(align(4096))]
    struct File([u8; 3 * 4096]);

    #[test]
    fn pieces_are_whole_pages_of_the_archive() {
        let file = File([0; 3 * 4096]);
        let base = file.0.as_ptr() as u64;
        let data = segment(PERSONALITY_DATA + 0x3010, 0x1010, 0x1100, 0x5000);
        let piece = piece(&file.0, &data).unwrap();
        assert_eq!(piece.address, PERSONALITY_DATA + 0x3000);
        assert_eq!(piece.pages, [base + 0x1000, base + 0x2000]);
        assert_eq!(piece.filled, 0x1110);
        assert_eq!(piece.length, 0x6000);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let file = File([0; 3 * 4096]);
        let refused = |s| piece(&file.0, &s) == Err(Missing::Placement);
        assert!(refused(segment(PERSONALITY_DATA + 0x10, 0x20, 1, 1)));
        assert!(refused(segment(PERSONALITY_DATA - 4096, 0, 1, 1)));
        // Code among the data, which is common to nobody.
        let code = Segment {
            write: false,
            ..segment(PERSONALITY_DATA, 0, 1, 1)
        };
        assert!(refused(code));
        assert!(refused(segment(PERSONALITY_DATA, 0, 1, u64::MAX)));
        assert!(refused(segment(PERSONALITY_HEAP - 4096, 0, 1, 8192)));
        assert!(!refused(segment(PERSONALITY_DATA + 0x10, 0x1010, 1, 1)));
    }
}
