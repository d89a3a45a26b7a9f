//! The end of boot: what only boot needs of the image (`.init.text` and `.init.rodata`, see `kernel.ld`), and the stacks of processors that are
//! not there, are memory like any other from then on, and the first thread runs.
//!
//! No processor may be in that text any more, and none may remember a translation for it: all come here first, and go on only when it is gone.

use super::cpu;
use super::entry::leave_to;
use super::glue;
use super::tables;
use super::Machine;
use crate::boot::memory::Frames;
use crate::Kernel;
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Release},
};

/// How many of the other processors are here.
static HERE: AtomicUsize = AtomicUsize::new(0);
static GO: AtomicBool = AtomicBool::new(false);

/// Give up `ranges` when the `others` are here, let them go, and run the first thread.
///
/// # Safety
/// Once, by the first processor, when the nucleus is installed and everything loaded. `ranges` are parts of the image of which nothing is used after the call.
#[inline(never)]
pub unsafe fn end(kernel: &mut Kernel<Machine>, others: usize, ranges: [Frames; 2]) -> ! {
    while HERE.load(Acquire) < others {
        core::hint::spin_loop();
    }
    // SAFETY: by the contract, and the others are here.
    unsafe {
        for frames in ranges {
            tables::give_up(kernel.arch.template_root(), frames);
        }
    }
    cpu::forget_everything();
    GO.store(true, Release);
    let resume = kernel.resume();
    glue::out(kernel);
    // SAFETY: by the contract; this stack is not needed any more.
    unsafe { leave_to(resume.registers, resume.full) }
}

/// Another processor waits for the end of boot and takes part.
///
/// # Safety
/// Once on each, when everything of it is loaded.
#[inline(never)]
pub unsafe fn take_part() -> ! {
    HERE.fetch_add(1, Release);
    while !GO.load(Acquire) {
        core::hint::spin_loop();
    }
    cpu::forget_everything();
    // SAFETY: by the contract; this stack is not needed any more.
    unsafe {
        let resume = glue::join();
        leave_to(resume.registers, resume.full)
    }
}
