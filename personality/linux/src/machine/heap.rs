//! The personality's heap: size classes with free lists, filled from chunks that `vm` maps into the personality's range; large blocks are mapped one by one.
//! Memory of a class is never given back: a process's personality needs little, and exec keeps it. A child that shares its parent's memory allocates from
//! its [`Arena`] instead.

use super::area;
use super::arena::Arena;
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

#[derive(Default)]
pub struct Lists {
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
    let size = layout.size().max(layout.align());
    let halves = usize::BITS - (size.saturating_sub(1) / SMALLEST).leading_zeros();
    (size <= LARGEST).then_some(halves as usize)
}

impl Lists {
    /// Lists for the memory `next..end`.
    pub fn within(next: usize, end: usize) -> Lists {
        Lists {
            free: [0; CLASSES],
            next,
            end,
        }
    }

    /// A block of a class; 0 if a new chunk is needed.
    fn take(&mut self, class: usize) -> usize {
        let head = self.free[class];
        if head != 0 {
            // SAFETY: a block on a free list is unused memory of this heap, whose first word links to the next.
            self.free[class] = unsafe { *(head as *const usize) };
            return head;
        }
        let size = SMALLEST << class;
        // Blocks are aligned to their size (up to a page), as the class promises.
        self.cut(size, size.min(PAGE))
    }

    /// The alignment is a power of two.
    fn cut(&mut self, size: usize, alignment: usize) -> usize {
        let start = (self.next + (alignment - 1)) & !(alignment - 1);
        match start.checked_add(size) {
            Some(end) if end <= self.end => {
                self.next = end;
                start
            }
            _ => 0,
        }
    }

    /// SAFETY: see [`GlobalAlloc::dealloc`]; the block is of this class.
    unsafe fn give(&mut self, class: usize, block: usize) {
        // SAFETY: the block holds at least SMALLEST bytes and is unused now.
        unsafe { *(block as *mut usize) = self.free[class] };
        self.free[class] = block;
    }

    /// As [`Lists::take`], with a new chunk if need be; 0 without memory.
    #[inline(always)]
    fn take_or_grow(&mut self, class: usize) -> usize {
        match self.take(class) {
            0 => self.grow(class),
            block => block,
        }
    }

    #[cold]
    fn grow(&mut self, class: usize) -> usize {
        let Some(chunk) = memory::map_private(CHUNK as u64) else {
            return 0;
        };
        self.next = chunk as usize;
        self.end = chunk as usize + CHUNK;
        self.take(class)
    }
}

/// Memory of the calling thread's arena for a block; 0 if it has none or that is used up.
fn from_arena(layout: &Layout) -> usize {
    let Some(arena) = area::arena() else {
        return 0;
    };
    let mut lists = arena.lists.lock();
    let block = match class_of(layout) {
        Some(class) => lists.take(class),
        None => lists.cut(layout.size().next_multiple_of(PAGE), PAGE),
    };
    if block == 0 {
        arena.spill();
    }
    block
}

/// A block goes back to the arena; large ones only if they were the last.
///
/// # Safety
/// The block came from [`from_arena`] with this layout and is unused now.
unsafe fn to_arena(arena: &Arena, block: usize, layout: &Layout) {
    let mut lists = arena.lists.lock();
    match class_of(layout) {
        // SAFETY: by the contract.
        Some(class) => unsafe { lists.give(class, block) },
        None if block + layout.size().next_multiple_of(PAGE) == lists.next => lists.next = block,
        None => {}
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

    /// Nothing was allocated yet: this is what the first blocks come from.
    pub fn begin(&self, lists: Lists) {
        *self.lists.lock() = lists;
    }

    /// The process is alone in a memory of its own: this is what it allocates from.
    pub fn replace(&self, lists: Lists) {
        self.lists.release();
        *self.lists.lock() = lists;
    }
}

// SAFETY: blocks come from mappings of their own or from disjoint pieces of chunks, aligned to their class's size; the lists are behind a lock.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return core::ptr::null_mut();
        }
        let block = from_arena(&layout);
        if block != 0 {
            return block as *mut u8;
        }
        match class_of(&layout) {
            Some(class) => self.lists.lock().take_or_grow(class) as *mut u8,
            None => map_large(&layout),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(arena) = area::arena().filter(|arena| arena.holds(block as u64)) {
            // SAFETY: by the caller's contract; what lies in the arena came from there.
            return unsafe { to_arena(arena, block as usize, &layout) };
        }
        match class_of(&layout) {
            // SAFETY: the block came from `alloc` with this layout and is unused now.
            Some(class) => unsafe { self.lists.lock().give(class, block as usize) },
            None => unmap_large(block, &layout),
        }
    }
}

/// A block in a mapping of its own; null without memory.
#[cold]
fn map_large(layout: &Layout) -> *mut u8 {
    let size = layout.size().next_multiple_of(PAGE) as u64;
    memory::map_private(size).unwrap_or(0) as *mut u8
}

#[cold]
fn unmap_large(block: *mut u8, layout: &Layout) {
    memory::unmap_private(block as u64, layout.size().next_multiple_of(PAGE) as u64);
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
        assert_eq!(
            (class(32, 8), class(64, 8), class(65, 8)),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(class(0, 1), Some(0));
        assert_eq!(class(33, 8), Some(1));
        assert_eq!(class(8, 64), Some(1));
        assert_eq!(class(LARGEST, 16), Some(CLASSES - 1));
        assert_eq!(class(LARGEST + 1, 16), None);
    }
}
