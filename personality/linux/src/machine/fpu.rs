//! The program's floating-point and vector state. The personality is built without SSE and never touches these registers, so the state is saved only for signal frames, fork and
//! clone: straight by XSAVE (allowed in user mode) with the mask that the nucleus uses, or by FXSAVE on machines without it.

use super::user;
use cairn_abi::{layout, state::SystemPage};
use core::arch::asm;
use core::mem::MaybeUninit;

/// Room in the thread area; the nucleus's mask never makes more (AVX-512 takes 2,696 bytes).
pub const AREA: usize = 2752;

/// An area aligned as XSAVE wants it.
#[repr(C, align(64))]
pub struct Area([MaybeUninit<u8>; AREA]);

/// What the processor looks at in any case: the old state, and the header that says what else is there.
const HEADER: core::ops::Range<usize> = 512..576;

/// The system page.
pub fn system_page() -> &'static SystemPage {
    // SAFETY: the page is mapped read-only in every domain before its first instruction and nothing in it changes but the wall clock, which is not read here.
    unsafe { &*(layout::SYSTEM_PAGE as *const SystemPage) }
}

/// What the wall clock said at monotonic time 0; it may be set at any time.
pub fn wall_clock() -> u64 {
    // SAFETY: as above; the nucleus writes the word whole.
    unsafe {
        (&raw const (*(layout::SYSTEM_PAGE as *const SystemPage)).boot_realtime).read_volatile()
    }
}

/// Bytes of the state in use, without any trailer.
pub fn size() -> usize {
    match system_page().xsave_mask {
        0 => 512,
        _ => (system_page().xsave_size as usize).clamp(576, AREA),
    }
}

/// Save to 64-byte-aligned memory of the personality.
pub fn save(area: &mut Area) {
    let mask = system_page().xsave_mask;
    let at = area.0.as_mut_ptr();
    if mask == 0 {
        // SAFETY: the area is writable, aligned and holds 512 bytes.
        unsafe { asm!("fxsave64 [{}]", in(reg) at, options(nostack)) };
    } else {
        area.0[HEADER].fill(MaybeUninit::new(0));
        // SAFETY: the area is writable, aligned and holds what the nucleus's mask makes (`size`).
        unsafe {
            asm!("xsave64 [{}]", in(reg) at, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nostack))
        };
    }
}

/// Load from an area that [`save`] or [`initial`] filled.
pub fn restore(area: &Area) {
    let mask = system_page().xsave_mask;
    let at = area.0.as_ptr();
    if mask == 0 {
        // SAFETY: the area holds a state that FXSAVE wrote or that `initial` made; the personality itself uses none of these registers.
        unsafe { asm!("fxrstor64 [{}]", in(reg) at, options(nostack)) };
    } else {
        // SAFETY: as above, for XSAVE; its header is valid.
        unsafe {
            asm!("xrstor64 [{}]", in(reg) at, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nostack))
        };
    }
}

/// The state of a program at its first instruction.
pub fn initial(area: &mut Area) {
    // A header of zeroes says that all is as it is at first.
    area.0[..HEADER.end].fill(MaybeUninit::new(0));
    let (words, _) = area.0.as_chunks_mut::<4>();
    words[0] = 0x037fu32.to_le_bytes().map(MaybeUninit::new);
    words[6] = 0x1f80u32.to_le_bytes().map(MaybeUninit::new);
}

/// Save to the program's memory (64-byte aligned), whose [`HEADER`] is zeroes. False if it cannot be written.
pub fn save_to_user(address: u64) -> bool {
    let length = size() as u64;
    let Ok(range) = user::range(address, length) else {
        return false;
    };
    user::fpu_operation(range, system_page().xsave_mask, true)
}

/// Load from the program's memory. False if it cannot be read or is no valid state.
pub fn restore_from_user(address: u64) -> bool {
    if !address.is_multiple_of(64) {
        return false;
    }
    let Ok(range) = user::range(address, size() as u64) else {
        return false;
    };
    user::fpu_operation(range, system_page().xsave_mask, false)
}
