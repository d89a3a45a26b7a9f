//! Putting `init` together: its data, stack and command line in fresh frames, its text and constants and the boot archive where they lie, then
//! all other memory to the memory manager.
//! Nothing in the archive is trusted to be well formed.

use super::memory::{Frames, FreeMemory};
use crate::arch::{Arch, Frame};
use crate::{FrameKind, Kernel};
use cairn_abi::layout::{ARCHIVE, EAGER_STACK_SIZE, NATIVE_STACK_TOP, PAGE};
use cairn_abi::machine::COMMAND_LINE;
use cairn_abi::service::memory::{pool, prot};
use cairn_elf::Segment;

/// The first program, in the archive.
const INIT: &str = "cairn/init";
/// Frames that each object pool starts with; `vm` gives more.
const POOL_FRAMES: u32 = crate::pool::STAYS;
/// Frames for page tables and the portal table of the first domain, beside those for mapping the archive.
const TABLE_FRAMES: u32 = 32;
const PAGES_PER_TABLE: u32 = 512;

/// Why there is no first domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No `cairn/init` in the archive.
    NoInit,
    /// It is no executable that can be loaded here.
    BadInit,
    /// Not enough memory.
    NoMemory,
}

impl Error {
    pub fn text(self) -> &'static str {
        match self {
            Error::NoInit => "no cairn/init in the archive",
            Error::BadInit => "cairn/init cannot be loaded",
            Error::NoMemory => "not enough memory",
        }
    }
}

/// The boot archive in memory.
#[derive(Clone, Copy)]
pub struct Archive<'a> {
    pub bytes: &'a [u8],
    pub first: Frame,
}

/// Build the first domain. `usable` are all frames of memory, `free` those not in use. `later` become free when boot is over: they are given
/// to the memory manager with the rest, but nothing is put there.
pub fn start<A: Arch>(
    kernel: &mut Kernel<A>,
    archive: Archive,
    command_line: &[u8],
    usable: &[Frames],
    mut free: FreeMemory,
    later: [Frames; 2],
    system_page: Frame,
) -> Result<(), Error> {
    let file = cairn_archive::find(archive.bytes, INIT).ok_or(Error::NoInit)?;
    let image = cairn_elf::parse(file.data, file.data.len() as u64).map_err(|_| Error::BadInit)?;
    if image.relocatable || image.interpreter.is_some() {
        return Err(Error::BadInit);
    }
    let archive_pages = (archive.bytes.len() as u64).div_ceil(PAGE) as u32;
    let stack_pages = (EAGER_STACK_SIZE / PAGE) as u32;
    let table_frames = TABLE_FRAMES + archive_pages / PAGES_PER_TABLE;
    let mut take = |count| free.take(count, Frame::MAX).ok_or(Error::NoMemory);

    // Take everything first: what is free afterwards goes to the memory manager.
    let mut segments = [(Segment::default(), 0, false); cairn_elf::SEGMENTS_MAX];
    let count = image.segments().len();
    for (place, segment) in segments.iter_mut().zip(image.segments()) {
        *place = match in_place(&archive, file.data, segment) {
            Some(first) => (*segment, first, true),
            None => (*segment, take(pages_of(segment))?, false),
        };
    }
    let stack = take(stack_pages)?;
    let line_frame = take(1)?;
    let pools = take(POOL_FRAMES * pool::ALL.len() as u32)?;
    let tables = take(table_frames)?;

    for range in usable {
        kernel.boot_frames(range.first, range.count(), FrameKind::Nucleus);
    }
    let [boots, stacks] = later;
    free.add(boots);
    free.add(stacks);
    free.sort();
    for range in free.ranges().iter().filter(|range| range.count() > 0) {
        kernel.boot_range(range.first, range.count());
    }
    kernel.boot_frames(archive.first, archive_pages, FrameKind::User);
    kernel.boot_frames(stack, stack_pages, FrameKind::User);
    kernel.boot_frames(line_frame, 1, FrameKind::User);
    for (segment, first, _) in &segments[..count] {
        kernel.boot_frames(*first, pages_of(segment), FrameKind::User);
    }
    kernel.boot_system_page(system_page);
    for (i, kind) in (0..POOL_FRAMES * pool::ALL.len() as u32).zip(pool::ALL.iter().cycle()) {
        if !kernel.boot_pool(*kind as usize, pools + i) {
            return Err(Error::NoMemory);
        }
    }
    kernel.boot_space();
    for i in 0..table_frames {
        kernel.boot_tables(tables + i);
    }

    for (segment, first, in_place) in &segments[..count] {
        load(kernel, segment, *first, (!in_place).then_some(file.data))?;
    }
    let stack_base = NATIVE_STACK_TOP - EAGER_STACK_SIZE;
    for i in 0..stack_pages {
        kernel.arch.zero_frame(stack + i);
        map(kernel, stack_base, i, stack, prot::READ | prot::WRITE)?;
    }
    let line = &command_line[..command_line.len().min(PAGE as usize - 1)];
    fill(kernel, line_frame, 0, line);
    map(kernel, COMMAND_LINE, 0, line_frame, prot::READ)?;
    for i in 0..archive_pages {
        map(kernel, ARCHIVE, i, archive.first, prot::READ)?;
    }
    kernel.boot_domain(
        image.entry,
        NATIVE_STACK_TOP,
        archive.bytes.len() as u64,
        archive.first as u64,
        line.len() as u64,
    );
    Ok(())
}

fn pages_of(segment: &Segment) -> u32 {
    let start = segment.address / PAGE;
    let end = (segment.address + segment.memory_size).div_ceil(PAGE);
    // A segment that no memory could hold is refused when its frames are taken.
    u32::try_from(end - start).unwrap_or(u32::MAX)
}

/// The first frame of a segment that can be shown where it lies in the archive: whole pages that nobody writes. (Its first and its last page
/// may show what lies beside it there.)
fn in_place(archive: &Archive, file: &[u8], segment: &Segment) -> Option<Frame> {
    let file_at = file
        .as_ptr()
        .addr()
        .checked_sub(archive.bytes.as_ptr().addr())?;
    let at = (file_at as u64).checked_add(segment.offset)?;
    let inside = segment.offset.checked_add(segment.file_size)? <= file.len() as u64;
    let whole = segment.file_size == segment.memory_size && at % PAGE == segment.address % PAGE;
    (inside && whole && !segment.write).then_some(archive.first + (at / PAGE) as Frame)
}

/// Copy a segment of this file, if there is one, into its frames and map them.
fn load<A: Arch>(
    kernel: &mut Kernel<A>,
    segment: &Segment,
    first: Frame,
    file: Option<&[u8]>,
) -> Result<(), Error> {
    let mut protection = 0;
    for (wanted, bit) in [
        (segment.read, prot::READ),
        (segment.write, prot::WRITE),
        (segment.execute, prot::EXECUTE),
    ] {
        if wanted {
            protection |= bit;
        }
    }
    if segment.write && segment.execute {
        return Err(Error::BadInit);
    }
    let base = segment.address & !(PAGE - 1);
    let mut offset = (segment.address % PAGE) as usize;
    let mut rest = match file {
        Some(file) => file
            .get(segment.offset as usize..(segment.offset + segment.file_size) as usize)
            .ok_or(Error::BadInit)?,
        None => &[],
    };
    for i in 0..pages_of(segment) {
        if file.is_some() {
            let (here, later) = rest.split_at(rest.len().min(PAGE as usize - offset));
            fill(kernel, first + i, offset, here);
            rest = later;
            offset = 0;
        }
        map(kernel, base, i, first, protection)?;
    }
    Ok(())
}

/// Zero a frame and put bytes into it.
fn fill<A: Arch>(kernel: &mut Kernel<A>, frame: Frame, offset: usize, bytes: &[u8]) {
    kernel.arch.zero_frame(frame);
    let room = &bytes[..bytes.len().min(PAGE as usize - offset)];
    // SAFETY: the frame was just taken from free memory; offset and length stay within it.
    unsafe {
        core::ptr::copy_nonoverlapping(
            room.as_ptr(),
            kernel.arch.frame_pointer(frame).add(offset),
            room.len(),
        );
    }
}

fn map<A: Arch>(
    kernel: &mut Kernel<A>,
    base: u64,
    page: u32,
    first: Frame,
    protection: u64,
) -> Result<(), Error> {
    kernel
        .boot_map(base + page as u64 * PAGE, first + page, protection)
        .map_err(|_| Error::NoMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a segment of 0x1800 bytes is shown, of a file that begins at this byte of an archive in frame 100.
    fn shown(file_at: usize, change: impl Fn(&mut Segment)) -> Option<Frame> {
        let bytes = vec![0; 0x8000];
        let archive = Archive {
            bytes: &bytes,
            first: 100,
        };
        let mut segment = Segment {
            offset: 0x1000,
            address: 0x20_0000,
            file_size: 0x1800,
            memory_size: 0x1800,
            read: true,
            ..Segment::default()
        };
        change(&mut segment);
        in_place(&archive, &bytes[file_at..file_at + 0x4000], &segment)
    }

    #[test]
    fn what_nobody_writes_is_shown_where_it_lies() {
        assert_eq!(shown(0, |_| {}), Some(101));
        assert_eq!(shown(0x2000, |s| s.execute = true), Some(103));
    }

    #[test]
    fn what_is_written_or_lies_otherwise_is_copied() {
        assert_eq!(shown(0x2000, |s| s.write = true), None);
        assert_eq!(shown(0x2000, |s| s.memory_size += 1), None);
        // The archive has the file elsewhere in a page than memory.
        assert_eq!(shown(0x2010, |_| {}), None);
        assert_eq!(shown(0x2010, |s| s.address += 0x10), Some(103));
        // It ends behind the file.
        assert_eq!(shown(0x2000, |s| s.offset = 0x3000), None);
        assert_eq!(shown(0x2000, |s| s.offset = u64::MAX), None);
    }
}
