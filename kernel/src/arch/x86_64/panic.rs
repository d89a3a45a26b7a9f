//! When the nucleus itself is wrong: say where on the debug console, end the machine with a code of its own.
//! The host has the source, and for the `!backtrace` line the symbols.

use super::cpu;
use super::descriptors::on_stack;
use super::entry::TrapFrame;
use super::ports::console_write;
use super::power;
use crate::log::Line;
use core::arch::asm;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What isa-debug-exit gets; QEMU's exit status is twice this plus one.
pub const EXIT_CODE: u64 = 0x2a;
const DEPTH: usize = 32;
/// The words of a [`TrapFrame`].
const NAMES: [&str; 22] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "vector", "error", "rip", "cs", "rflags", "rsp", "ss",
];

static PANICKING: AtomicBool = AtomicBool::new(false);

/// The nucleus panicked.
pub fn panicked(place: Option<&Location>) -> ! {
    once();
    let mut line = Line::new();
    line.text("nucleus panic: ");
    if let Some(place) = place {
        line.text(place.file())
            .text(":")
            .number(place.line().into());
        line.text(":").number(place.column().into());
    }
    say(&mut line);
    let frame: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    backtrace(None, frame);
    end()
}

/// An exception in the nucleus.
///
/// # Safety
/// Called by the entry code with the frame that it made.
pub unsafe extern "C" fn trapped(frame: *const TrapFrame) -> ! {
    once();
    // SAFETY: by the contract.
    let f = unsafe { &*frame };
    let mut line = Line::new();
    line.text("nucleus panic: exception ").number(f.vector);
    line.hex(" at ", f.rip);
    line.hex(" address ", cpu::fault_address());
    say(&mut line);
    // SAFETY: the frame is nothing but words.
    let words = unsafe { core::slice::from_raw_parts(frame.cast::<u64>(), NAMES.len()) };
    say(Line::new().named(&NAMES, words));
    backtrace(Some(f.rip), f.rbp);
    end()
}

/// A second panic while the first is reported: stop at once.
fn once() {
    if PANICKING.swap(true, Relaxed) {
        end();
    }
}

fn backtrace(rip: Option<u64>, mut frame: u64) {
    let mut line = Line::new();
    line.text("!backtrace nucleus");
    if let Some(rip) = rip {
        line.hex(" ", rip);
    }
    for _ in 0..DEPTH {
        if !frame.is_multiple_of(8) || !on_stack(frame) {
            break;
        }
        // SAFETY: the two words at a frame pointer within a nucleus stack.
        let (next, back) = unsafe { (*(frame as *const u64), *(frame as *const u64).add(1)) };
        if back == 0 {
            break;
        }
        line.hex(" ", back);
        if next <= frame {
            break;
        }
        frame = next;
    }
    say(&mut line);
}

fn say(line: &mut Line) {
    console_write(line.text("\n").as_bytes());
}

fn end() -> ! {
    power::exit(EXIT_CODE);
    cpu::halt()
}
