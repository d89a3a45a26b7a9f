//! The personality's image: header, heap, panic. Everything else is in the library.
#![no_std]
#![no_main]

use cairn_linux::machine::{entry, gate, heap, start};
use cairn_linux::text::Line;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

/// What `proc` reads at the image's first address.
#[repr(C)]
pub struct Header {
    magic: u64,
    start: unsafe extern "C" fn(*const u8) -> !,
    syscall_entry: unsafe extern "C" fn(),
    upcall_entry: unsafe extern "C" fn(),
    traced_entry: unsafe extern "C" fn(),
}

const MAGIC: u64 = 0x5855_4e49_4c4e_5243;

#[used]
#[no_mangle]
#[link_section = ".header"]
pub static HEADER: Header = Header {
    magic: MAGIC,
    start: start::start,
    syscall_entry: entry::personality_syscall_entry,
    upcall_entry: entry::personality_upcall_entry,
    traced_entry: entry::personality_traced_entry,
};

struct TheHeap;

// SAFETY: passed on to the one heap.
unsafe impl GlobalAlloc for TheHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let block = unsafe { heap::HEAP.alloc(layout) };
        if block.is_null() {
            heap::exhausted();
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { heap::HEAP.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: TheHeap = TheHeap;

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    let mut line = Line::new();
    line.text("linux: the personality panicked");
    if let Some(at) = info.location() {
        line.text(" at ")
            .text(at.file())
            .text(":")
            .number(at.line() as u64);
    }
    gate::log_line(line.bytes());
    cairn_linux::calls::exit::die(6)
}
