//! The heap. Components have a [`PageHeap`] over one range of addresses from `vm`, which gives back what is free; `vm` has one over a range and frames of its own ([`set_frames`]). The others have the
//! crate `talc`, and keep what they got: `init`, which cannot ask `vm` and says [`set_grow`], and components to which the manifest gives so little
//! memory that there is no room for the range.
//!
//! An allocation that fails returns null, so whoever uses `try_reserve` is told. Objects of up to a page are made from `vm`'s reserve where nothing else is left; a server that has to
//! grow for a client asks [`prepare`] first, and refuses.

use crate::page_heap::{range_for, Frames, PageHeap, PAGE};
use crate::portal::Portal;
use cairn_abi::layout::native_slot;
use cairn_idl::vm;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use talc::{OomHandler, Span, Talc, Talck};

/// The least that `talc` asks for at a time.
const STEP: usize = 256 * 1024;
/// The heap's addresses suffice for so many times the machine's memory: runs without frames keep theirs.
const TIMES: usize = 4;

/// Gets at least this many bytes of fresh memory: address and length.
pub type Grow = fn(usize) -> Option<(usize, usize)>;

/// 0 = there is a page heap, or there is no heap yet.
static GROW: AtomicUsize = AtomicUsize::new(0);

/// Gives these pages (address and bytes) frames, or takes their frames away. False: nothing has changed.
pub type Change = fn(usize, usize) -> bool;

/// What [`set_frames`] was told; 0: `vm` has the frames.
static POPULATE: AtomicUsize = AtomicUsize::new(0);
static RELEASE: AtomicUsize = AtomicUsize::new(0);

/// Have the page heap at this address, in a range for so many pages that is used for nothing else, with frames from elsewhere (for `vm`, which cannot ask itself). Call before anything is allocated.
pub fn set_frames(range: usize, pages: usize, populate: Change, release: Change) {
    POPULATE.store(populate as usize, Ordering::Relaxed);
    RELEASE.store(release as usize, Ordering::Relaxed);
    // SAFETY: the caller says that the range is the heap's; `populate` says where there are frames.
    unsafe { HEAP.pages.lock().set_range(range, pages) };
}

fn own(change: &AtomicUsize) -> Option<Change> {
    let own = change.load(Ordering::Relaxed);
    // SAFETY: only `set_frames` stores here, and it stores a `Change`.
    (own != 0).then(|| unsafe { core::mem::transmute::<usize, Change>(own) })
}

/// Use another source of memory (for `init`, which is before `vm`). Call before anything is allocated.
pub fn set_grow(grow: Grow) {
    GROW.store(grow as usize, Ordering::Relaxed);
}

struct More;

impl OomHandler for More {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let wanted = layout.size().checked_add(layout.align() + 4096).ok_or(())?;
        // SAFETY: only `set_grow` stores here, and it stores a `Grow`; and `talc` is used only if it did.
        let grow = unsafe { core::mem::transmute::<usize, Grow>(GROW.load(Ordering::Relaxed)) };
        let (address, len) = grow(wanted).ok_or(())?;
        // SAFETY: the memory is fresh and nobody else knows it.
        unsafe { talc.claim(Span::from_base_size(address as *mut u8, len))? };
        Ok(())
    }
}

/// `vm`, or what it has set aside for itself.
struct FromVm;

fn advise(address: usize, bytes: usize, advice: u64) -> bool {
    vm::Client(&Portal(native_slot::VM))
        .advise(address as u64, bytes as u64, advice)
        .is_ok()
}

impl Frames for FromVm {
    fn populate(&mut self, address: usize, bytes: usize, must: bool) -> bool {
        if let Some(populate) = own(&POPULATE) {
            return populate(address, bytes);
        }
        if advise(address, bytes, vm::advice::POPULATE_WRITE) {
            return true;
        }
        if must {
            // A fault gets what the reserve has.
            // SAFETY: a page of the heap's range that nothing is in.
            unsafe { (address as *mut u8).write_volatile(0) };
            return true;
        }
        advise(address, bytes, vm::advice::DONT_NEED);
        false
    }

    fn release(&mut self, address: usize, bytes: usize) -> bool {
        if let Some(release) = own(&RELEASE) {
            return release(address, bytes);
        }
        // If `vm` keeps them nothing is lost but memory.
        advise(address, bytes, vm::advice::DONT_NEED);
        true
    }
}

struct Heap {
    pages: spin::Mutex<PageHeap<FromVm>>,
    talc: Talck<spin::Mutex<()>, More>,
}

#[global_allocator]
static HEAP: Heap = Heap {
    pages: spin::Mutex::new(PageHeap::new(FromVm)),
    talc: Talc::new(More).lock(),
};

/// At least so many bytes for `talc`.
fn from_vm(bytes: usize) -> Option<(usize, usize)> {
    let len = bytes.max(STEP).checked_next_multiple_of(PAGE)?;
    let start = map(len);
    (start > 0).then_some((start as usize, len))
}

fn map(bytes: usize) -> u64 {
    let prot = vm::prot::READ | vm::prot::WRITE;
    vm::Client(&Portal(native_slot::VM))
        .map(0, bytes as u64, prot, vm::flags::NO_RESERVE)
        .unwrap_or(0)
}

/// The heap's range, at its first use. False: it is `talc` from now on.
#[cold]
fn begin(heap: &mut PageHeap<FromVm>) -> bool {
    let pages = crate::time::system_page().total_frames as usize * TIMES;
    let range = map(range_for(pages));
    if range > 0 {
        // SAFETY: `vm` says that these addresses are mapped for this domain, which has them for nothing else and never unmaps them.
        unsafe { heap.set_range(range as usize, pages) };
    } else {
        set_grow(from_vm);
    }
    range > 0
}

/// Whether so many bytes can be allocated in small objects, of at most a page each: frames for them are set aside. False: there is no memory, and who asks for more than there is should be told.
pub fn prepare(bytes: usize) -> bool {
    if GROW.load(Ordering::Relaxed) != 0 {
        return true;
    }
    let mut heap = HEAP.pages.lock();
    if heap.has_range() || begin(&mut heap) {
        return heap.prepare(bytes.div_ceil(PAGE));
    }
    true
}

/// Bytes of frames that the heap has: in use, and free.
pub fn resident() -> (usize, usize) {
    let (used, free) = HEAP.pages.lock().resident();
    (used * PAGE, free * PAGE)
}

// SAFETY: both heaps hand out memory that nothing else uses; which of them is used is settled before the first allocation.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if GROW.load(Ordering::Relaxed) != 0 {
            // SAFETY: the caller's.
            return unsafe { self.talc.alloc(layout) };
        }
        let mut heap = self.pages.lock();
        if heap.has_range() || begin(&mut heap) {
            return heap.allocate(layout);
        }
        drop(heap);
        // SAFETY: the caller's.
        unsafe { self.talc.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if GROW.load(Ordering::Relaxed) != 0 {
            // SAFETY: the caller's.
            return unsafe { self.talc.dealloc(at, layout) };
        }
        if let Some(at) = NonNull::new(at) {
            // SAFETY: the caller's: it was allocated by `alloc`.
            unsafe { self.pages.lock().free(at) }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if GROW.load(Ordering::Relaxed) != 0 {
            // SAFETY: the caller's.
            return unsafe { self.talc.realloc(at, layout, size) };
        }
        let Some(old) = NonNull::new(at) else {
            return null_mut();
        };
        // SAFETY: the caller's: it was allocated by `alloc` with this layout.
        if unsafe { self.pages.lock().resize(old, layout, size) } {
            return at;
        }
        // SAFETY: the caller's: `size`, rounded up to the alignment, is no overflow.
        let wish = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above.
        let new = unsafe { self.alloc(wish) };
        if !new.is_null() {
            // SAFETY: both are at least that long, and different.
            unsafe {
                core::ptr::copy_nonoverlapping(at, new, layout.size().min(size));
                self.dealloc(at, layout);
            }
        }
        new
    }
}
