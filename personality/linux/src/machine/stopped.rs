//! What a stopped thread shows its tracer, as TRACE_STOP passes it: see [`cairn_idl::proc::TRACE_MASK`].

use super::fpu;
use super::user::{bytes_of_mut, Plain};
use cairn_idl::proc::{TRACE_BYTES, TRACE_FLOAT, TRACE_INFO, TRACE_MASK};
use core::mem::{offset_of, size_of};

/// Words of `struct user_regs_struct`.
pub const REGISTERS: usize = 27;
const FLOAT: usize = fpu::AREA / 8;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Stopped {
    pub registers: [u64; REGISTERS],
    pub mask: u64,
    pub info: [u64; 16],
    unused: [u64; 4],
    float: [u64; FLOAT],
}

// SAFETY: words without gaps, of which any value is one.
unsafe impl Plain for Stopped {}

const _: () = assert!(offset_of!(Stopped, mask) as u64 == TRACE_MASK);
const _: () = assert!(offset_of!(Stopped, info) as u64 == TRACE_INFO);
const _: () = assert!(offset_of!(Stopped, float) as u64 == TRACE_FLOAT);
const _: () = assert!(size_of::<Stopped>() as u64 == TRACE_BYTES);

impl Stopped {
    pub fn new(registers: [u64; REGISTERS], mask: u64, info: [u64; 16]) -> Stopped {
        Stopped {
            registers,
            mask,
            info,
            unused: [0; 4],
            float: [0; FLOAT],
        }
    }

    /// This thread's floating-point registers.
    pub fn save_float(&mut self) {
        // SAFETY: the words are as long as an area, aligned as one, and any bytes are one.
        fpu::save(unsafe { &mut *(self.float.as_mut_ptr() as *mut fpu::Area) });
    }

    /// They become this thread's. Whatever a tracer wrote is made a state that the processor takes.
    pub fn load_float(&mut self) {
        /// MXCSR's bits that exist on every processor with SSE2.
        const MXCSR: u64 = 0xffff;
        self.float[3] &= MXCSR | !0xffff_ffff;
        let mask = fpu::system_page().xsave_mask;
        // The header: which parts are there; not compacted; nothing else.
        self.float[64] &= mask;
        self.float[65..72].fill(0);
        // SAFETY: as above; the header names only what there is.
        fpu::restore(unsafe { &*(self.float.as_ptr() as *const fpu::Area) });
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        bytes_of_mut(self)
    }
}
