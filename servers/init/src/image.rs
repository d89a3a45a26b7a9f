//! Which page of an executable comes from where: the same plan serves `vm` (loaded frame by frame) and every other component (loaded through `vm`).

use alloc::vec::Vec;
use cairn_elf::{Image, Segment};

const PAGE: u64 = 4096;

/// A run of pages of one segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Run {
    /// Whole pages of the file, from this offset of the file (page-aligned).
    File {
        address: u64,
        pages: u64,
        offset: u64,
    },
    /// Zero pages.
    Zero { address: u64, pages: u64 },
}

/// The runs of a segment, and the range (address, length) in its last file page that must be zeroed.
pub struct Plan {
    pub runs: Vec<Run>,
    pub clear: Option<(u64, u64)>,
}

/// Lay out one segment. Addresses and offsets are congruent modulo the page size (checked by `cairn_elf`).
pub fn plan(segment: &Segment) -> Plan {
    let mut runs = Vec::new();
    let first = segment.address & !(PAGE - 1);
    let file_end = segment.address + segment.file_size;
    let file_pages = if segment.file_size == 0 {
        0
    } else {
        (file_end - first).div_ceil(PAGE)
    };
    let pages = (segment.address + segment.memory_size - first).div_ceil(PAGE);
    if file_pages > 0 {
        runs.push(Run::File {
            address: first,
            pages: file_pages,
            offset: segment.offset & !(PAGE - 1),
        });
    }
    if pages > file_pages {
        runs.push(Run::Zero {
            address: first + file_pages * PAGE,
            pages: pages - file_pages,
        });
    }
    let tail = (first + file_pages * PAGE).saturating_sub(file_end);
    let clear = (file_pages > 0 && segment.memory_size > segment.file_size && tail > 0)
        .then_some((file_end, tail));
    Plan { runs, clear }
}

/// Loadable by `init`: fixed, native, page-aligned segments, and no page both writable and executable.
pub fn acceptable(image: &Image) -> bool {
    !image.relocatable
        && image.interpreter.is_none()
        && image
            .segments()
            .iter()
            .all(|s| s.address % PAGE == 0 && !(s.write && s.execute))
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
            ..Segment::default()
        }
    }

    #[test]
    fn text_is_file_pages_only() {
        let p = plan(&segment(0x20_0000, 0x1000, 0x1801, 0x1801));
        assert_eq!(
            p.runs,
            [Run::File {
                address: 0x20_0000,
                pages: 2,
                offset: 0x1000
            }]
        );
        assert_eq!(p.clear, None);
    }

    #[test]
    fn data_ends_in_a_cleared_page_and_zero_pages() {
        let p = plan(&segment(0x20_4000, 0x5000, 0x10, 0x3000));
        assert_eq!(
            p.runs,
            [
                Run::File {
                    address: 0x20_4000,
                    pages: 1,
                    offset: 0x5000
                },
                Run::Zero {
                    address: 0x20_5000,
                    pages: 2
                }
            ]
        );
        assert_eq!(p.clear, Some((0x20_4010, 0xff0)));
    }

    #[test]
    fn bss_alone_needs_no_file() {
        let p = plan(&segment(0x20_4000, 0x5000, 0, 0x1001));
        assert_eq!(
            p.runs,
            [Run::Zero {
                address: 0x20_4000,
                pages: 2
            }]
        );
        assert_eq!(p.clear, None);
    }
}
