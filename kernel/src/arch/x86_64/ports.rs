//! Port input and output.

use core::arch::asm;

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
