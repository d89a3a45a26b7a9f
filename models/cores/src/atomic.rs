//! Loom's atomics in the place of the processor's, with two differences: they can be constants (loom's come into being when they are first touched), and a sequentially consistent write
//! is one, which loom's is not: it puts a fence of that kind behind it, as x86 does. What is only acquired or released stays weak.

use loom::sync::atomic as model;
pub use loom::sync::atomic::Ordering;
pub use loom::thread::yield_now as pause;
use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    static WEAK: Cell<bool> = const { Cell::new(false) };
}

/// While `run` runs, sequentially consistent operations are no more than loom's: a fault that must be found where the order of two writes and two reads matters.
pub fn without_fences(run: impl FnOnce()) {
    WEAK.set(true);
    run();
    WEAK.set(false);
}

fn ordered(order: Ordering) {
    if order == Ordering::SeqCst && !WEAK.get() {
        model::fence(Ordering::SeqCst);
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        pub struct $name {
            first: $value,
            cell: OnceLock<model::$name>,
        }

        impl $name {
            pub const fn new(first: $value) -> $name {
                $name {
                    first,
                    cell: OnceLock::new(),
                }
            }

            fn cell(&self) -> &model::$name {
                self.cell.get_or_init(|| model::$name::new(self.first))
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.cell().load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.cell().store(value, order);
                ordered(order);
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty, $($operation:ident),*) => {
        impl $name {
            $(pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                let before = self.cell().$operation(value, order);
                ordered(order);
                before
            })*
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
arithmetic!(AtomicU32, u32, swap, fetch_add, fetch_sub, fetch_or, fetch_and);

/// Write a word that others exchange. A processor's writes and exchanges of one word have one order, so this one comes behind those that were before it; loom takes a plain write for one that
/// may as well come before an exchange that has not seen it, and lets who waits for it wait for ever.
pub fn write_exchanged(word: &AtomicU32, value: u32) {
    word.swap(value, Ordering::Release);
}
