//! When the nucleus itself is wrong: say where on the debug console, end the machine with a code of its own.
//! The host has the source, and for the `!backtrace` line the symbols and the size of each function's frame (the nucleus has no frame pointers).

use super::console;
use super::cpu;
use super::descriptors::on_stack;
use super::entry::TrapFrame;
use super::{power, tables};
use crate::log::Line;
use core::arch::asm;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What isa-debug-exit gets; QEMU's exit status is twice this plus one.
pub const EXIT_CODE: u64 = 0x2a;
/// Most words of a backtrace: as many as a line has room for.
const DEPTH: usize = 40;
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
        line.text(place.file());
        line.number(":", place.line().into());
        line.number(":", place.column().into());
    }
    say(&mut line);
    let (rip, rsp);
    // SAFETY: reads registers.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rsp", out(reg) rip, out(reg) rsp, options(nomem, nostack, preserves_flags))
    };
    backtrace(rip, rsp);
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
    line.number("nucleus panic: exception ", f.vector);
    line.hex(" at ", f.rip);
    line.hex(" address ", cpu::fault_address());
    say(&mut line);
    // SAFETY: the frame is nothing but words.
    let words = unsafe { core::slice::from_raw_parts(frame.cast::<u64>(), NAMES.len()) };
    say(Line::new().named(&NAMES, words));
    backtrace(f.rip, f.rsp);
    end()
}

/// A second panic while the first is reported: stop at once.
fn once() {
    if PANICKING.swap(true, Relaxed) {
        end();
    }
}

/// Where the nucleus is, and what on its stack may be return addresses: each with the number of words that lie below it.
fn backtrace(rip: u64, rsp: u64) {
    let mut line = Line::new();
    line.hex("!backtrace nucleus ", rip);
    let (mut at, mut below, mut found) = (rsp & !7, 0, 0);
    while found < DEPTH && on_stack(at) {
        // SAFETY: a word within a nucleus stack.
        let word = unsafe { *(at as *const u64) };
        if tables::in_text(word) {
            line.return_address(word, below);
            found += 1;
        }
        at += 8;
        below += 1;
    }
    say(&mut line);
}

fn say(line: &mut Line) {
    console::write(line.text("\n").as_bytes());
}

fn end() -> ! {
    console::flush();
    power::exit(EXIT_CODE);
    cpu::halt()
}
