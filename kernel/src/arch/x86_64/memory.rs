//! Where the nucleus sees memory: the direct map of all physical memory, the regions of the object pools, the image, device registers.
//! All of it is above [`KERNEL_HALF`], the same in every address space.

use crate::arch::Frame;

/// First address that belongs to the nucleus.
pub const KERNEL_HALF: u64 = 0xffff_8000_0000_0000;
/// Physical address 0 of the direct map (slot 256 of the root).
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Largest physical memory that the direct map can show: one slot of the root.
pub const DIRECT_MAP_SIZE: u64 = 512 << 30;
/// Object pools: above the image, where compiled portals reach objects by addresses of 32 bits.
pub const POOLS: u64 = 0xffff_ffff_9000_0000;
/// Room of each pool: regions begin at multiples of it.
pub const POOL_SIZE: u64 = 16 << 20;
const _: () = assert!(POOLS.is_multiple_of(POOL_SIZE) && POOLS >= 1 << 63);
/// Where the region of a pool begins (`cairn_abi::service::memory::pool`).
pub const fn pool(pool: u64) -> u64 {
    POOLS + pool * POOL_SIZE
}
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
