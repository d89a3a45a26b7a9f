//! The heap: the crate `talc` over memory from `vm`. The first bytes come from an arena in the program's own image, so that nothing is asked of `vm` before it is there.

use crate::portal::Portal;
use cairn_abi::layout::native_slot;
use cairn_idl::vm;
use core::alloc::Layout;
use core::sync::atomic::{AtomicUsize, Ordering};
use talc::{OomHandler, Span, Talc, Talck};

/// Bytes of the arena in the image.
const ARENA: usize = 64 * 1024;
/// The least that is asked for at a time.
const STEP: usize = 256 * 1024;

/// Gets at least this many bytes of fresh memory: address and length.
pub type Grow = fn(usize) -> Option<(usize, usize)>;

/// 0 = [`from_vm`].
static GROW: AtomicUsize = AtomicUsize::new(0);

/// Use another source of memory (for `vm`, which cannot ask itself). Call before the arena is used up.
pub fn set_grow(grow: Grow) {
    GROW.store(grow as usize, Ordering::Relaxed);
}

fn from_vm(bytes: usize) -> Option<(usize, usize)> {
    let len = bytes.max(STEP).checked_next_multiple_of(layout_page())?;
    let prot = vm::prot::READ | vm::prot::WRITE;
    let start = vm::Client(&Portal(native_slot::VM))
        .map(0, len as u64, prot, vm::flags::NO_RESERVE)
        .ok()?;
    (start > 0).then_some((start as usize, len))
}

const fn layout_page() -> usize {
    cairn_abi::layout::PAGE as usize
}

struct More {
    arena_used: bool,
}

impl OomHandler for More {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        if !talc.oom_handler.arena_used {
            talc.oom_handler.arena_used = true;
            let arena = core::ptr::addr_of_mut!(ARENA_BYTES).cast::<u8>();
            // SAFETY: the arena is used for nothing else, and only once.
            unsafe { talc.claim(Span::from_base_size(arena, ARENA))? };
            return Ok(());
        }
        let wanted = layout.size().checked_add(layout.align() + 4096).ok_or(())?;
        let (address, len) = match GROW.load(Ordering::Relaxed) {
            0 => from_vm(wanted).ok_or(())?,
            other => {
                // SAFETY: only `set_grow` stores here, and it stores a `Grow`.
                let grow = unsafe { core::mem::transmute::<usize, Grow>(other) };
                grow(wanted).ok_or(())?
            }
        };
        // SAFETY: the memory is fresh and nobody else knows it.
        unsafe { talc.claim(Span::from_base_size(address as *mut u8, len))? };
        Ok(())
    }
}

static mut ARENA_BYTES: [u8; ARENA] = [0; ARENA];

#[global_allocator]
static HEAP: Talck<spin::Mutex<()>, More> = Talc::new(More { arena_used: false }).lock();
