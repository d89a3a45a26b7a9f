//! When the nucleus itself is wrong: say what and where on the debug console, end the machine with a code of its own.
//! The `!backtrace` line is for the host, which has the symbols.

use super::cpu;
use super::descriptors::on_stack;
use super::entry::TrapFrame;
use super::ports::Console;
use super::power;
use core::arch::asm;
use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What isa-debug-exit gets; QEMU's exit status is twice this plus one.
pub const EXIT_CODE: u64 = 0x2a;
const DEPTH: usize = 32;

static PANICKING: AtomicBool = AtomicBool::new(false);

/// The nucleus panicked.
pub fn panicked(info: &PanicInfo) -> ! {
    once();
    let _ = writeln!(Console, "nucleus panic: {info}");
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
    let _ = writeln!(
        Console,
        "nucleus panic: exception {} error {:#x} at {:#x}, address {:#x}",
        f.vector,
        f.error,
        f.rip,
        cpu::fault_address()
    );
    let _ = writeln!(
        Console,
        "  rax {:016x} rbx {:016x} rcx {:016x} rdx {:016x}\n  rsi {:016x} rdi {:016x} rbp {:016x} rsp {:016x}\n  r8  {:016x} r9  {:016x} r10 {:016x} r11 {:016x}\n  r12 {:016x} r13 {:016x} r14 {:016x} r15 {:016x}\n  flags {:x} cs {:x} ss {:x}",
        f.rax, f.rbx, f.rcx, f.rdx, f.rsi, f.rdi, f.rbp, f.rsp, f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rflags, f.cs, f.ss
    );
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
    let _ = write!(Console, "!backtrace nucleus");
    if let Some(rip) = rip {
        let _ = write!(Console, " {rip:#x}");
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
        let _ = write!(Console, " {back:#x}");
        if next <= frame {
            break;
        }
        frame = next;
    }
    let _ = writeln!(Console);
}

fn end() -> ! {
    power::exit(EXIT_CODE);
    cpu::halt()
}
