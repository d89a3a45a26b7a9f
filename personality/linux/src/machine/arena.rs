//! The memory of a child that shares its parent's (vfork, posix_spawn): its area and everything that the personality allocates for it lie in one piece of address space. So exec keeps
//! nothing but that piece, and what the child leaves behind goes in one stroke: the parent uses the piece for its next child.
//!
//! ```text
//! start                          HEADER               start + SIZE
//! | block of the child's area     | Arena | heap ........... |
//! ```
//!
//! Whatever is in use by the child must be in the arena or static: [`crate::process::Process::separate`] copies all state. Only if an arena is too small its child's allocations
//! come from the parent's heap as well; exec then keeps all memory, as it does for other programs.

use super::area::{self, BLOCK};
use super::heap::{Lists, HEAP};
use super::lock::Lock;
use crate::memory::{self, flags, prot};
use core::sync::atomic::{AtomicBool, Ordering};

const SIZE: u64 = 1 << 20;
const HEADER: u64 = BLOCK as u64;
/// Arenas kept for the next children.
const SPARES: usize = 2;

pub struct Arena {
    start: u64,
    pub lists: Lock<Lists>,
    /// Something did not fit.
    spilled: AtomicBool,
}

/// Before the memory is copied: nobody is changing what arenas keep.
pub fn hold() {
    SPARE.acquire();
    if let Some(arena) = area::arena() {
        arena.lists.acquire();
    }
}

/// [`hold`] ends, in both copies.
pub fn release() {
    if let Some(arena) = area::arena() {
        arena.lists.release();
    }
    SPARE.release();
}

/// No other thread uses this memory any more: whoever held a lock of all that share it held it elsewhere, or is gone.
pub fn left_alone() {
    HEAP.release();
    area::release_spare();
    SPARE.release();
}

/// Arenas not in use; their pages are there already.
static SPARE: Lock<[u64; SPARES]> = Lock::new([0; SPARES]);

impl Arena {
    /// An empty arena. None without memory.
    pub fn new() -> Option<&'static Arena> {
        let spare = {
            let mut spare = SPARE.lock();
            let found = spare.iter_mut().find(|start| **start != 0);
            found.map(core::mem::take)
        };
        let start = match spare {
            Some(start) => start,
            None => {
                let kind = flags::PERSONALITY | flags::NO_RESERVE;
                memory::map(0, SIZE, prot::READ | prot::WRITE, kind).ok()?
            }
        };
        let arena = (start + HEADER) as *mut Arena;
        let heap = (start + HEADER) as usize + core::mem::size_of::<Arena>();
        let fresh = Arena {
            start,
            lists: Lock::new(Lists::within(heap, (start + SIZE) as usize)),
            spilled: AtomicBool::new(false),
        };
        // SAFETY: the piece is mapped and nobody uses it; the header lies in it, page-aligned.
        unsafe {
            arena.write(fresh);
            Some(&*arena)
        }
    }

    /// The block for the area of the arena's own child.
    pub fn block(&self) -> u64 {
        self.start
    }

    /// First address and the one behind the last.
    pub fn range(&self) -> (u64, u64) {
        (self.start, self.start + SIZE)
    }

    pub fn holds(&self, address: u64) -> bool {
        let (start, end) = self.range();
        (start..end).contains(&address)
    }

    pub fn spill(&self) {
        self.spilled.store(true, Ordering::Relaxed);
    }

    pub fn has_spilled(&self) -> bool {
        self.spilled.load(Ordering::Relaxed)
    }

    /// The child has ended, never started, or left this memory: what it had here is gone. The caller holds no reference into the arena.
    pub fn discard(&self) {
        let start = self.start;
        let kept = {
            let mut spare = SPARE.lock();
            match spare.iter_mut().find(|place| **place == 0) {
                Some(place) => {
                    *place = start;
                    true
                }
                None => false,
            }
        };
        if !kept {
            memory::unmap_private(start, SIZE);
        }
    }

    /// The child has left its parent's memory: the arena is its heap from now on, and what else the parent had is not there.
    pub fn become_heap(&self) {
        let lists = core::mem::take(&mut *self.lists.lock());
        HEAP.replace(lists);
        area::forget_spare();
        SPARE.release();
        *SPARE.lock() = [0; SPARES];
        area::area().arena.set(None);
    }
}
