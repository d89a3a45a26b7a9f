//! Port input and output, and the two consoles that need nothing else: QEMU's debug console and (when the command line asks for it) COM1.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// QEMU's debug console.
const DEBUG_CONSOLE: u16 = 0xe9;
/// First 16550 of a PC.
const COM1: u16 = 0x3f8;

static DEBUG_CONSOLE_THERE: AtomicBool = AtomicBool::new(false);
static LOG_TO_COM1: AtomicBool = AtomicBool::new(false);

pub fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: port input changes no memory of the nucleus.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags))
    };
    value
}

pub fn in16(port: u16) -> u16 {
    let value;
    // SAFETY: as for `in8`.
    unsafe {
        asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack, preserves_flags))
    };
    value
}

pub fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: as for `in8`.
    unsafe {
        asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags))
    };
    value
}

pub fn out8(port: u16, value: u8) {
    // SAFETY: port output changes no memory of the nucleus by itself; who may name which port is decided by the portable part.
    unsafe {
        asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags))
    };
}

pub fn out16(port: u16, value: u16) {
    // SAFETY: as for `out8`.
    unsafe {
        asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags))
    };
}

pub fn out32(port: u16, value: u32) {
    // SAFETY: as for `out8`.
    unsafe {
        asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags))
    };
}

/// Find out where log lines can go.
pub fn console_init() {
    // QEMU's device answers with its own port number; without it the bus floats.
    DEBUG_CONSOLE_THERE.store(in8(DEBUG_CONSOLE) == 0xe9, Relaxed);
}

/// Send log lines to COM1 as well.
pub fn console_to_com1() {
    LOG_TO_COM1.store(true, Relaxed);
}

#[inline(never)]
pub fn console_write(bytes: &[u8]) {
    if DEBUG_CONSOLE_THERE.load(Relaxed) {
        // SAFETY: reads exactly the slice; the direction flag is clear in the nucleus.
        unsafe {
            asm!("rep outsb", in("dx") DEBUG_CONSOLE, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
                options(readonly, nostack, preserves_flags));
        }
    }
    if LOG_TO_COM1.load(Relaxed) {
        for &byte in bytes {
            // Bounded: a port that is not there must not hang the nucleus.
            let mut patience = 100_000;
            while in8(COM1 + 5) & 0x20 == 0 && patience > 0 {
                patience -= 1;
            }
            out8(COM1, byte);
        }
    }
}
