//! The nucleus's half of the address space, built once at start: direct map, pools, image, device registers. Nothing in it is writable and executable, also
//! not through two addresses: the direct map shows the image's text and constants read-only. What only boot needs of the image goes to free memory when boot is over ([`give_up`]).

use super::cpu::Features;
use super::memory::{
    self, handler_page, table_pointer, CODE_AREA, CODE_SIZE, DEVICES, DIRECT_MAP, HANDLER_PAGES,
    IMAGE_BASE, PAGE,
};
use super::paging::{
    zero, ADDRESS, GLOBAL, LARGE, NO_EXECUTE, PRESENT, UNCACHED, WRITABLE, WRITE_THROUGH,
};
use crate::arch::Frame;
use crate::boot::memory::{Frames, FreeMemory};
use cairn_abi::service::memory::pool;

const TABLE: u64 = PRESENT | WRITABLE;
const DATA: u64 = PRESENT | WRITABLE | NO_EXECUTE | GLOBAL;
const CONSTANT: u64 = PRESENT | NO_EXECUTE | GLOBAL;
const CODE: u64 = PRESENT | GLOBAL;
const DEVICE: u64 = DATA | WRITE_THROUGH | UNCACHED;

const FRAMES_2M: u32 = 512;
const FRAMES_1G: u32 = 512 * 512;
/// The tables that the first instructions built show only this much.
pub const EARLY_LIMIT: Frame = 1 << 20;
/// Device pages of the nucleus's own; together with those that hasty handlers reach one table's.
const DEVICE_PAGES: u64 = 512 - HANDLER_PAGES as u64;

extern "C" {
    static image_start: u8;
    static image_init_text_end: u8;
    static image_init_end: u8;
    static image_asked_end: u8;
    static image_text_end: u8;
    static image_rodata_end: u8;
    static image_end: u8;
}

/// Is it an address of the nucleus's text, or of what boot used?
pub fn in_text(address: u64) -> bool {
    (IMAGE_BASE..&raw const image_text_end as u64).contains(&address)
}

/// Where the image lies in physical memory.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Text and constants that only boot needs.
    pub init_text: Frames,
    pub init_constants: Frames,
    pub text: Frames,
    pub constants: Frames,
    pub data: Frames,
}

/// The frame in which the linker has put this.
fn frame(symbol: *const u8) -> Frame {
    ((symbol as u64 - IMAGE_BASE) / PAGE) as Frame
}

impl Image {
    pub fn new() -> Image {
        let ends = [
            &raw const image_start,
            &raw const image_init_text_end,
            &raw const image_init_end,
            &raw const image_text_end,
            &raw const image_rodata_end,
            &raw const image_end,
        ]
        .map(frame);
        let between = |i: usize| Frames {
            first: ends[i],
            end: ends[i + 1],
        };
        Image {
            init_text: between(0),
            init_constants: between(1),
            text: between(2),
            constants: between(3),
            data: between(4),
        }
    }

    pub fn all(&self) -> Frames {
        Frames {
            first: self.init_text.first,
            end: self.data.end,
        }
    }

    /// What goes to free memory when boot is over: what only boot needs, and, if no option of the command line `asked` for it, what the nucleus's text begins with.
    pub fn init(&self, asked: bool) -> Frames {
        let end = match asked {
            true => &raw const image_init_end,
            false => &raw const image_asked_end,
        };
        Frames {
            first: self.init_text.first,
            end: frame(end),
        }
    }
}

/// Makes the tables, with frames from free memory.
pub struct Builder<'a> {
    free: &'a mut FreeMemory,
    root: Frame,
    devices: u64,
}

/// There is not enough memory for the nucleus.
#[derive(Debug)]
pub struct NoMemory;

impl<'a> Builder<'a> {
    pub fn new(free: &'a mut FreeMemory) -> Result<Builder<'a>, NoMemory> {
        let root = new_table(free)?;
        Ok(Builder {
            free,
            root,
            devices: 0,
        })
    }

    pub fn root(&self) -> Frame {
        self.root
    }

    /// The table below entry `index` of `table`, made if it is missing.
    fn below(&mut self, table: Frame, index: usize) -> Result<Frame, NoMemory> {
        // SAFETY: tables of this builder have 512 entries and nobody else sees them yet.
        let entry = unsafe { &mut *table_pointer(table).add(index) };
        if *entry & PRESENT == 0 {
            *entry = (new_table(self.free)? as u64 * PAGE) | TABLE;
        }
        Ok(((*entry & ADDRESS) / PAGE) as Frame)
    }

    /// The table of `level` (0: of pages) that covers an address.
    fn table_at(&mut self, address: u64, level: u32) -> Result<Frame, NoMemory> {
        let mut table = self.root;
        for above in (level + 1..4).rev() {
            table = self.below(table, index(address, above))?;
        }
        Ok(table)
    }

    fn set(&mut self, address: u64, level: u32, entry: u64) -> Result<(), NoMemory> {
        let table = self.table_at(address, level)?;
        // SAFETY: as in `below`.
        unsafe { *table_pointer(table).add(index(address, level)) = entry };
        Ok(())
    }

    /// Show memory in the direct map, with the largest pages that fit.
    pub fn direct_map(
        &mut self,
        range: Frames,
        image: &Image,
        features: &Features,
    ) -> Result<(), NoMemory> {
        let all = image.all();
        let clear_of_image =
            |first: Frame, count: u32| first + count <= all.first || first >= all.end;
        let mut frame = range.first;
        while frame < range.end {
            let fits = |size: u32| {
                frame.is_multiple_of(size)
                    && range.end - frame >= size
                    && clear_of_image(frame, size)
            };
            let (level, size) = if features.gigabyte_pages && fits(FRAMES_1G) {
                (2, FRAMES_1G)
            } else if fits(FRAMES_2M) {
                (1, FRAMES_2M)
            } else {
                (0, 1)
            };
            let mut bits = if (all.first..image.constants.end).contains(&frame) {
                CONSTANT
            } else {
                DATA
            };
            if level > 0 {
                bits |= LARGE;
            }
            let physical = frame as u64 * PAGE;
            self.set(DIRECT_MAP + physical, level, physical | bits)?;
            frame += size;
        }
        Ok(())
    }

    /// Show the image where it is linked; `guards` are pages to leave out.
    pub fn image(
        &mut self,
        image: &Image,
        guards: impl Iterator<Item = u64>,
    ) -> Result<(), NoMemory> {
        for (frames, bits) in [
            (image.init_text, CODE),
            (image.init_constants, CONSTANT),
            (image.text, CODE),
            (image.constants, CONSTANT),
            (image.data, DATA),
        ] {
            for frame in frames.first..frames.end {
                let physical = frame as u64 * PAGE;
                self.set(IMAGE_BASE + physical, 0, physical | bits)?;
            }
        }
        for guard in guards {
            self.set(guard, 0, 0)?;
        }
        Ok(())
    }

    /// The first table of each pool, and all for compiled portals, whose frames are mapped twice. The others come with the objects, and so do pages.
    pub fn pools(&mut self) -> Result<(), NoMemory> {
        for kind in pool::ALL {
            self.table_at(memory::pool(kind), 0)?;
        }
        for at in (0..CODE_SIZE).step_by((PAGE * 512) as usize) {
            self.table_at(memory::pool(pool::CODE) + at, 0)?;
            self.table_at(CODE_AREA + at, 0)?;
        }
        Ok(())
    }

    /// Show the page of a device register; the pointer is to the byte at `physical`.
    pub fn device(&mut self, physical: u64) -> Option<*mut u8> {
        if self.devices == DEVICE_PAGES || physical & !ADDRESS >= PAGE {
            return None;
        }
        let address = DEVICES + self.devices * PAGE;
        self.devices += 1;
        self.set(address, 0, physical & ADDRESS | DEVICE).ok()?;
        Some((address + physical % PAGE) as *mut u8)
    }
}

fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * level)) as usize & 511
}

fn new_table(free: &mut FreeMemory) -> Result<Frame, NoMemory> {
    let frame = free.take(1, EARLY_LIMIT).ok_or(NoMemory)?;
    zero(frame);
    Ok(frame)
}

/// Map a page of a pool, in tables that all spaces share. The page was not mapped before, so there is nothing to flush. False: the frame, which is zeroed,
/// became a table that was not there yet.
pub fn map_pool_page(root: Frame, address: u64, frame: Frame) -> bool {
    map_page(root, address, frame, DATA)
}

/// Take a page of a pool out; its translations are to be forgotten afterwards.
pub fn unmap_pool_page(root: Frame, address: u64) -> Frame {
    ((set_entry(root, address, 0) & ADDRESS) / PAGE) as Frame
}

/// The same for a page of code, which is not writable there.
pub fn map_code_page(root: Frame, address: u64, frame: Frame) {
    map_page(root, address, frame, CODE);
}

/// Show a page of registers where hasty handlers see it. It was not mapped before, so there is nothing to flush, and the table exists since the interrupt controller's registers were mapped.
pub fn map_handler_page(root: Frame, number: u32, frame: Frame) {
    map_page(root, handler_page(number), frame, DEVICE);
}

/// Take frames of the image out of it and make them memory like any other. Translations are to be forgotten afterwards.
///
/// # Safety
/// Nothing of them is used any more.
pub unsafe fn give_up(root: Frame, frames: Frames) {
    for frame in frames.first..frames.end {
        let physical = frame as u64 * PAGE;
        set_entry(root, IMAGE_BASE + physical, 0);
        set_entry(root, DIRECT_MAP + physical, physical | DATA);
    }
}

fn map_page(root: Frame, address: u64, frame: Frame, bits: u64) -> bool {
    set_entry(root, address, (frame as u64 * PAGE) | bits) != NO_TABLE
}

/// No entry is this.
const NO_TABLE: u64 = u64::MAX;

/// Set an entry of a table of pages → what it was. `NO_TABLE`: the table is not there, and the entry's frame became it, or the one above.
#[inline(never)]
fn set_entry(root: Frame, address: u64, entry: u64) -> u64 {
    let mut table = root;
    for level in (1..4).rev() {
        // SAFETY: a table that is there is never taken away; the nucleus lock is held.
        let above = unsafe { &mut *table_pointer(table).add(index(address, level)) };
        if *above == 0 {
            *above = entry & ADDRESS | TABLE;
            return NO_TABLE;
        }
        table = ((*above & ADDRESS) / PAGE) as Frame;
    }
    // SAFETY: as above; the nucleus lock is held.
    unsafe { core::mem::replace(&mut *table_pointer(table).add(index(address, 0)), entry) }
}
