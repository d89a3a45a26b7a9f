//! An allocator for tests on the host, which has no memory for large objects when a test says so.
//!
//! That is what a component meets when memory is short: objects of up to a page are made from what `vm` keeps for components, larger ones are refused
//! (`cairn_rt::heap`). Whatever a client has a server allocate beyond a page has to be asked for (`try_reserve`) and refused with an errno; what is not asked
//! for ends the test, as it would end the server.
//!
//!     #[global_allocator]
//!     static ALLOCATOR: cairn_failing::Failing = cairn_failing::Failing;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The largest object that a component gets when memory is short.
pub const PAGE: usize = 4096;

thread_local! {
    static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The host's allocator, but for what [`short`] says.
pub struct Failing;

/// While this runs its thread gets no object of more than a page.
pub fn short<R>(run: impl FnOnce() -> R) -> R {
    let before = MOST.replace(PAGE);
    let result = run();
    MOST.set(before);
    result
}

fn is_refused(size: usize) -> bool {
    // A thread that ends has nothing that fails.
    MOST.try_with(|most| size > most.get()).unwrap_or(false)
}

// SAFETY: everything that is given comes from the host's allocator and goes back to it; null is a failure.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's: it came from there.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && is_refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's: it came from there.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Failing = Failing;

    #[test]
    fn large_objects_are_refused_for_as_long() {
        let mut bytes: Vec<u8> = vec![0; PAGE];
        short(|| {
            assert!(bytes.try_reserve_exact(1).is_err());
            assert!(Vec::<u8>::new().try_reserve_exact(PAGE + 1).is_err());
            assert!(Vec::<u8>::new().try_reserve_exact(PAGE).is_ok());
        });
        assert!(bytes.try_reserve(1).is_ok());
    }
}
