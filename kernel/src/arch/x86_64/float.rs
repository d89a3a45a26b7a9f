//! Floating-point and vector state of threads. The nucleus itself is compiled without floating point, so the registers hold the
//! state of whichever thread used them last until the portable part asks for an exchange.

use core::arch::asm;

/// x87, SSE and AVX in the standard XSAVE format.
pub const STATE_SIZE: usize = 832;
const LEGACY_CONTROL: usize = 0;
const LEGACY_MXCSR: usize = 24;

/// The saved registers of one thread.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct FloatState([u8; STATE_SIZE]);

impl FloatState {
    /// Registers as the System V ABI wants them at program start.
    pub const fn new() -> FloatState {
        let mut bytes = [0; STATE_SIZE];
        // x87 control word 0x37f and MXCSR 0x1f80: all exceptions masked. An XSAVE header of zeroes means: everything else is in its initial state.
        bytes[LEGACY_CONTROL] = 0x7f;
        bytes[LEGACY_CONTROL + 1] = 0x03;
        bytes[LEGACY_MXCSR] = 0x80;
        bytes[LEGACY_MXCSR + 1] = 0x1f;
        FloatState(bytes)
    }
}

/// Save the registers of the processor; `mask` is XCR0, or 0 on a processor without XSAVE.
pub fn save(state: &mut FloatState, mask: u64) {
    let area = state.0.as_mut_ptr();
    // SAFETY: the area is aligned to 64 and, as checked at start, large enough for the components in the mask.
    unsafe {
        if mask != 0 {
            asm!("xsave64 [{}]", in(reg) area, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nostack, preserves_flags));
        } else {
            asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags));
        }
    }
}

/// Load the registers of the processor.
pub fn load(state: &FloatState, mask: u64) {
    let area = state.0.as_ptr();
    // SAFETY: the area was made by `new` or `save`, only by the nucleus, so its header is valid.
    unsafe {
        if mask != 0 {
            asm!("xrstor64 [{}]", in(reg) area, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(readonly, nostack, preserves_flags));
        } else {
            asm!("fxrstor64 [{}]", in(reg) area, options(readonly, nostack, preserves_flags));
        }
    }
}
