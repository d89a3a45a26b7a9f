//! Where the nucleus sees memory: the direct map of all physical memory, the regions of the object pools, the image, device registers.
//! All of it is above [`KERNEL_HALF`], the same in every address space.

use crate::arch::Frame;
use cairn_abi::service::memory::pool;

/// First address that belongs to the nucleus.
pub const KERNEL_HALF: u64 = 0xffff_8000_0000_0000;
/// Physical address 0 of the direct map (slot 256 of the root).
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Largest physical memory that the direct map can show: one slot of the root.
pub const DIRECT_MAP_SIZE: u64 = 512 << 30;
/// Object pools: above the image (`kernel.ld` asks), where compiled portals reach objects by addresses of 32 bits.
const POOLS: u64 = 0xffff_ffff_8600_0000;
/// Where the region of each pool begins (`cairn_abi::service::memory::pool`), and the last one ends. Their sizes are as many objects as a machine with much
/// memory may have; a region costs nothing before it is used.
const REGIONS: [u32; pool::COUNT + 1] = {
    let mut sizes = [16 << 20; pool::COUNT];
    sizes[pool::THREAD as usize] = 192 << 20;
    sizes[pool::CHANNEL as usize] = 256 << 20;
    sizes[pool::PORTAL as usize] = 64 << 20;
    sizes[pool::DOMAIN as usize] = 64 << 20;
    sizes[pool::SEMAPHORE as usize] = 32 << 20;
    let mut regions = [POOLS as u32; pool::COUNT + 1];
    let mut i = 0;
    while i < pool::COUNT {
        regions[i + 1] = regions[i] + sizes[i];
        i += 1;
    }
    assert!(regions[i] <= CODE_AREA as u32);
    regions
};
/// Where the region of a pool begins.
pub const fn pool(pool: u64) -> u64 {
    REGIONS[pool as usize] as i32 as u64
}
/// How many pages it has.
pub const fn pool_pages(pool: usize) -> u32 {
    (REGIONS[pool + 1] - REGIONS[pool]) / PAGE as u32
}
/// Room of that of compiled portals.
pub const CODE_SIZE: u64 = pool_pages(pool::CODE as usize) as u64 * PAGE;
/// Where the code of compiled portals is executed: the frames of its pool once more, not writable.
pub const CODE_AREA: u64 = 0xffff_ffff_b000_0000;
/// Link address of physical address 0 for the image.
pub const IMAGE_BASE: u64 = 0xffff_ffff_8000_0000;
/// Registers of devices that the nucleus itself drives (slot 511 of the root, last GiB).
pub const DEVICES: u64 = 0xffff_ffff_c000_0000;

/// Most pages of registers that hasty handlers ever reach: the last ones of the table that covers the first 2 MiB there.
pub const HANDLER_PAGES: usize = 32;

/// Where hasty handlers see the device page of this number.
pub fn handler_page(number: u32) -> u64 {
    DEVICES + (512 - HANDLER_PAGES as u64 + number as u64) * PAGE
}

pub const PAGE: u64 = cairn_abi::layout::PAGE;

/// Where a frame is seen in the direct map.
#[cfg(not(test))]
pub fn frame_pointer(frame: Frame) -> *mut u8 {
    (DIRECT_MAP + frame as u64 * PAGE) as *mut u8
}

/// Tests have an arena in the place of physical memory, one per test thread.
#[cfg(test)]
pub fn frame_pointer(frame: Frame) -> *mut u8 {
    arena::pointer(frame)
}

/// The entries of the page table in this frame.
pub fn table_pointer(frame: Frame) -> *mut u64 {
    frame_pointer(frame) as *mut u64
}

#[cfg(test)]
pub mod arena {
    //! A few MiB that play physical memory.
    use crate::arch::Frame;
    use std::cell::RefCell;

    pub const FRAMES: usize = 1024;

    #[repr(align(4096))]
    #[derive(Clone)]
    struct Page([u8; 4096]);

    thread_local! {
        static ARENA: RefCell<Vec<Page>> = RefCell::new(vec![Page([0xa5; 4096]); FRAMES]);
    }

    pub fn pointer(frame: Frame) -> *mut u8 {
        assert!((frame as usize) < FRAMES, "frame {frame} outside the arena");
        ARENA.with(|arena| arena.borrow_mut()[frame as usize].0.as_mut_ptr())
    }
}
