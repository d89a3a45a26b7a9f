//! The personality's heap: size classes with free lists, filled from chunks that `vm` maps into the personality's range; large blocks are mapped one by one.
//! Memory of a class is never given back: a process's personality needs little, and exec keeps it.

use super::gate;
use super::lock::Lock;
use crate::memory;
use core::alloc::{GlobalAlloc, Layout};

const SMALLEST: usize = 32;
const CLASSES: usize = 10;
/// Blocks above this are mapped one by one.
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CHUNK: usize = 64 * 1024;
const PAGE: usize = 4096;

struct Lists {
    free: [usize; CLASSES],
    next: usize,
    end: usize,
}

pub struct Heap {
    lists: Lock<Lists>,
}

/// The one heap of the process.
pub static HEAP: Heap = Heap {
    lists: Lock::new(Lists {
        free: [0; CLASSES],
        next: 0,
        end: 0,
    }),
};

fn class_of(layout: &Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST);
    if size > LARGEST {
        return None;
    }
    Some((size.next_power_of_two() / SMALLEST).trailing_zeros() as usize)
}

impl Lists {
    fn take(&mut self, class: usize) -> usize {
        let head = self.free[class];
        if head != 0 {
            // SAFETY: a block on a free list is unused memory of this heap, whose first word links to the next.
            self.free[class] = unsafe { *(head as *const usize) };
            return head;
        }
        let size = SMALLEST << class;
        // Blocks are aligned to their size (up to a page), as the class promises.
        let mut start = self.next.next_multiple_of(size.min(PAGE));
        if start + size > self.end {
            let Some(chunk) = memory::map_private(CHUNK as u64) else {
                return 0;
            };
            self.end = chunk as usize + CHUNK;
            start = chunk as usize;
        }
        self.next = start + size;
        start
    }
}

impl Heap {
    /// For fork and exec: see [`super::lock`].
    pub fn acquire(&self) {
        self.lists.acquire();
    }

    pub fn release(&self) {
        self.lists.release();
    }
}

// SAFETY: blocks come from mappings of their own or from disjoint pieces of chunks, aligned to their class's size; the lists are behind a lock.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return core::ptr::null_mut();
        }
        match class_of(&layout) {
            Some(class) => self.lists.lock().take(class) as *mut u8,
            None => memory::map_private(layout.size().next_multiple_of(PAGE) as u64).unwrap_or(0)
                as *mut u8,
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(&layout) {
            Some(class) => {
                let mut lists = self.lists.lock();
                // SAFETY: the block came from `alloc` with this layout and is unused now; it holds at least SMALLEST bytes.
                unsafe { *(block as *mut usize) = lists.free[class] };
                lists.free[class] = block as usize;
            }
            None => {
                memory::unmap_private(block as u64, layout.size().next_multiple_of(PAGE) as u64);
            }
        }
    }
}

/// The heap is exhausted: nothing in the personality can go on.
pub fn exhausted() -> ! {
    gate::log_line(b"linux: the personality's heap is exhausted");
    crate::calls::exit::die(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_layouts() {
        let class = |size, align| class_of(&Layout::from_size_align(size, align).unwrap());
        assert_eq!(class(1, 1), Some(0));
        assert_eq!(class(33, 8), Some(1));
        assert_eq!(class(8, 64), Some(1));
        assert_eq!(class(LARGEST, 16), Some(CLASSES - 1));
        assert_eq!(class(LARGEST + 1, 16), None);
    }
}
