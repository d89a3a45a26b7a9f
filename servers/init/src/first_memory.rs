//! Memory before there is `vm`: init's own heap, the machine's free frames, and what the nucleus handed over.

use alloc::string::String;
use alloc::vec::Vec;
use cairn_abi::layout::{self, init_slot, PAGE};
use cairn_abi::machine::FrameRange;
use cairn_abi::service::memory::{self, map, prot};
use cairn_rt::Portal;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};

/// What the nucleus handed to the first domain.
pub struct Boot {
    pub archive: &'static [u8],
    /// The manifest's bytes in it.
    pub manifest: Option<&'static [u8]>,
    pub archive_frame: u64,
    pub command_line: String,
    free: RefCell<Vec<FrameRange>>,
    used: Cell<u64>,
}

const MEMORY: Portal = Portal(init_slot::MEMORY);
/// init's heap.
const HEAP: u64 = layout::NATIVE_HEAP;
const HEAP_SIZE: u64 = 160 * 1024;
/// And for each byte of the manifest: its reader takes some 35, and what it leaves stays.
const FOR_MANIFEST: u64 = 40;
/// Bytes that the prepared piece has, until somebody takes it: more with a large manifest, and with a large archive, the addresses of whose pages stand in one list.
static HEAP_READY: AtomicU64 = AtomicU64::new(0);

impl Boot {
    pub fn new(archive_len: u64, archive_frame: u64, command_line_len: u64) -> Boot {
        let list = archive_len.div_ceil(PAGE) * size_of::<u64>() as u64;
        let archive = cairn_rt::startup::first_domain_archive(archive_len as usize);
        let manifest = cairn_archive::find(archive, "cairn/system.toml").map(|found| found.data);
        let size = HEAP_SIZE + manifest.map_or(0, |m| m.len() as u64 * FOR_MANIFEST) + list;
        let heap = prepare_heap(size.next_multiple_of(PAGE)).unwrap_or_default();
        let mut free: Vec<FrameRange> = ranges().collect();
        if let Some(range) = free.iter_mut().find(|r| r.first == heap.first) {
            *range = FrameRange {
                first: range.first + heap.count,
                count: range.count - heap.count,
            };
        }
        Boot {
            archive,
            manifest,
            archive_frame,
            command_line: String::from(cairn_rt::startup::first_domain_command_line(
                command_line_len as usize,
            )),
            free: RefCell::new(free),
            used: Cell::new(heap.count),
        }
    }

    /// `count` adjacent free frames.
    pub fn take(&self, count: u64) -> Option<u64> {
        let mut free = self.free.borrow_mut();
        let range = free.iter_mut().find(|r| r.count >= count)?;
        let first = range.first;
        *range = FrameRange {
            first: first + count,
            count: range.count - count,
        };
        self.used.set(self.used.get() + count);
        Some(first)
    }

    /// What is left: for `vm`.
    pub fn free(&self) -> Vec<FrameRange> {
        self.free
            .borrow()
            .iter()
            .copied()
            .filter(|r| r.count > 0)
            .collect()
    }

    /// Frames taken so far.
    pub fn used(&self) -> u64 {
        self.used.get()
    }
}

/// The free ranges of the machine, as the nucleus tells them.
fn ranges() -> impl Iterator<Item = FrameRange> {
    (0..).map_while(|index| {
        let words = MEMORY.service(memory::RANGE, &[index]).ok()?;
        Some(FrameRange {
            first: words[0],
            count: words[1],
        })
    })
}

/// Maps the heap's one piece from the front of the first range that is large enough; returns the frames that it took.
fn prepare_heap(size: u64) -> Option<FrameRange> {
    let pages = size / PAGE;
    // Three levels for its first page and for its last, and one table for each 2 MiB between.
    let tables = 6 + pages / 512;
    let first = ranges().find(|r| r.count >= pages + tables)?.first;
    let space = init_slot::SPACE as u64;
    MEMORY
        .service(memory::GIVE_TABLES, &[space, first, tables])
        .ok()?;
    for page in 0..pages {
        let words = [
            init_slot::SPACE as u64,
            HEAP + page * PAGE,
            first + tables + page,
            1,
            prot::READ | prot::WRITE | map::ZERO,
        ];
        MEMORY.service(memory::MAP, &words).ok()?;
    }
    HEAP_READY.store(size, Ordering::Relaxed);
    Some(FrameRange {
        first,
        count: pages + tables,
    })
}

/// The heap's source: the prepared piece, once. It is sized for any sane manifest and this archive; beyond it init runs out of memory and says so.
pub fn grow(bytes: usize) -> Option<(usize, usize)> {
    let size = HEAP_READY.load(Ordering::Relaxed) as usize;
    if size == 0 || bytes > size {
        return None;
    }
    HEAP_READY.store(0, Ordering::Relaxed);
    Some((HEAP as usize, size))
}

/// A page-aligned buffer whose frame can be copied to another one.
#[repr(align(4096))]
pub struct Page(pub [u8; PAGE as usize]);

impl Page {
    /// The frame behind this buffer.
    pub fn frame(&self) -> Option<u64> {
        let words = MEMORY
            .service(
                memory::QUERY,
                &[init_slot::SPACE as u64, self.0.as_ptr() as u64],
            )
            .ok()?;
        (words[1] & 1 << 10 != 0).then_some(words[0])
    }
}

/// Address of an archive byte in init's space.
pub fn archive_address(offset: usize) -> u64 {
    layout::ARCHIVE + offset as u64
}
