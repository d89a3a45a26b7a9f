//! The processor: what it must have, control registers, model-specific registers.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};

pub const EFER: u32 = 0xc000_0080;
pub const STAR: u32 = 0xc000_0081;
pub const LSTAR: u32 = 0xc000_0082;
pub const SFMASK: u32 = 0xc000_0084;
pub const GS_BASE: u32 = 0xc000_0101;
pub const KERNEL_GS_BASE: u32 = 0xc000_0102;
pub const SYSENTER_CODE: u32 = 0x174;
pub const APIC_BASE: u32 = 0x1b;
pub const TIME_STAMP_COUNTER: u32 = 0x10;
pub const TSC_DEADLINE: u32 = 0x6e0;

const EFER_SYSCALL: u64 = 1;
const EFER_NO_EXECUTE: u64 = 1 << 11;

const CR0_MONITOR: u64 = 1 << 1;
const CR0_EMULATION: u64 = 1 << 2;
const CR0_TASK_SWITCHED: u64 = 1 << 3;
const CR0_NUMERIC_ERROR: u64 = 1 << 5;
const CR0_WRITE_PROTECT: u64 = 1 << 16;
const CR0_ALIGNMENT_MASK: u64 = 1 << 18;

const CR4_GLOBAL_PAGES: u64 = 1 << 7;
const CR4_FXSR: u64 = 1 << 9;
const CR4_XMM_EXCEPTIONS: u64 = 1 << 10;
const CR4_UMIP: u64 = 1 << 11;
const CR4_FSGSBASE: u64 = 1 << 16;
const CR4_XSAVE: u64 = 1 << 18;
const CR4_SMEP: u64 = 1 << 20;
const CR4_SMAP: u64 = 1 << 21;

/// What this processor offers, as far as the nucleus cares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    pub gigabyte_pages: bool,
    pub tsc_deadline: bool,
    pub local_apic: bool,
    /// XCR0 in use; 0 without XSAVE.
    pub xsave_mask: u64,
    /// Bytes of a float state.
    pub float_size: usize,
}

/// Switch on what the nucleus relies on. Err names what is missing.
pub fn init() -> Result<Features, &'static str> {
    let highest = __cpuid(0).eax;
    let one = __cpuid(1);
    let seven = if highest >= 7 {
        __cpuid_count(7, 0)
    } else {
        return Err("CPUID leaf 7");
    };
    let extended = __cpuid(0x8000_0001);
    let need = [
        (one.edx >> 13 & 1, "global pages"),
        (one.edx >> 24 & 1, "FXSAVE"),
        (one.edx >> 25 & 1, "SSE"),
        (seven.ebx & 1, "FSGSBASE"),
        (seven.ebx >> 7 & 1, "SMEP"),
        (seven.ebx >> 20 & 1, "SMAP"),
        (extended.edx >> 11 & 1, "SYSCALL"),
        (extended.edx >> 20 & 1, "NX"),
    ];
    for (there, name) in need {
        if there == 0 {
            return Err(name);
        }
    }
    let xsave = one.ecx >> 26 & 1 != 0;
    let avx = one.ecx >> 28 & 1 != 0;
    let umip = seven.ecx >> 2 & 1 != 0;

    let mut cr4 = read_cr4()
        | CR4_GLOBAL_PAGES
        | CR4_FXSR
        | CR4_XMM_EXCEPTIONS
        | CR4_FSGSBASE
        | CR4_SMEP
        | CR4_SMAP;
    if xsave {
        cr4 |= CR4_XSAVE;
    }
    if umip {
        cr4 |= CR4_UMIP;
    }
    // SAFETY: turns on protections and register state; the nucleus runs no code on user pages and touches no user address.
    unsafe {
        asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
        let mut cr0: u64;
        asm!("mov {}, cr0", out(reg) cr0, options(nomem, nostack, preserves_flags));
        cr0 |= CR0_MONITOR | CR0_NUMERIC_ERROR | CR0_WRITE_PROTECT;
        cr0 &= !(CR0_EMULATION | CR0_TASK_SWITCHED | CR0_ALIGNMENT_MASK);
        asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags));
        write_msr(EFER, read_msr(EFER) | EFER_SYSCALL | EFER_NO_EXECUTE);
    }
    let (xsave_mask, float_size) = if xsave {
        let wanted = if avx { 7 } else { 3 };
        let mask = wanted & __cpuid_count(13, 0).eax as u64;
        // SAFETY: XSAVE is on; the mask names only components that CPUID reports, x87 and SSE among them.
        unsafe {
            asm!("xsetbv", in("ecx") 0, in("eax") mask as u32, in("edx") 0, options(nomem, nostack, preserves_flags));
        }
        (mask, __cpuid_count(13, 0).ebx as usize)
    } else {
        (0, 512)
    };
    let extended_state = if xsave { __cpuid_count(13, 1).eax } else { 0 };
    super::user_copy::wide::init(xsave_mask & 4 != 0, extended_state & 4 != 0);
    if float_size > super::float::STATE_SIZE {
        return Err("a float state of the expected size");
    }
    Ok(Features {
        gigabyte_pages: extended.edx >> 26 & 1 != 0,
        tsc_deadline: one.ecx >> 24 & 1 != 0,
        local_apic: one.edx >> 9 & 1 != 0,
        xsave_mask,
        float_size,
    })
}

fn read_cr4() -> u64 {
    let value;
    // SAFETY: reading a control register.
    unsafe { asm!("mov {}, cr4", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// The address of the last page fault.
pub fn fault_address() -> u64 {
    let value;
    // SAFETY: reading a control register.
    unsafe { asm!("mov {}, cr2", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// The processor sets bits of DR6 and never clears them.
pub fn clear_debug_status() {
    // SAFETY: the debug status register has no effect on execution.
    unsafe {
        asm!("mov dr6, {}", in(reg) 0xffff_0ff0u64, options(nomem, nostack, preserves_flags))
    };
}

/// Use the page tables whose root is at this physical address; drops all translations that are not global.
///
/// # Safety
/// The tables must map the nucleus as it is now.
pub unsafe fn load_root(physical: u64) {
    // SAFETY: by the contract.
    unsafe { asm!("mov cr3, {}", in(reg) physical, options(nostack, preserves_flags)) };
}

/// Interrupts whose vector divided by 16 is not greater wait.
pub fn set_task_priority(priority: u64) {
    // SAFETY: the nucleus takes no interrupts but where it waits for them.
    unsafe { asm!("mov cr8, {}", in(reg) priority, options(nostack, preserves_flags)) };
}

/// Wait for an interrupt, and take it. One that came before is not lost.
pub fn sleep() {
    // SAFETY: the caller has kept all interrupts away whose entries do not come back here.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}

/// Drop all translations that are not global.
pub fn forget_translations() {
    // SAFETY: the tables stay the same.
    unsafe {
        asm!("mov {root}, cr3", "mov cr3, {root}", root = out(reg) _, options(nostack, preserves_flags))
    };
}

/// Drop all translations, also those that are global.
pub fn forget_everything() {
    let cr4 = read_cr4();
    // SAFETY: the tables stay the same; global pages are off for a moment only (SDM volume 3, 4.10.4.1: changing them drops everything).
    unsafe {
        asm!("mov cr4, {}", in(reg) cr4 ^ CR4_GLOBAL_PAGES, options(nostack, preserves_flags));
        asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
    }
}

/// Drop the translation of one page.
pub fn invalidate(address: u64) {
    // SAFETY: forgetting a translation is always sound.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

pub fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the nucleus reads only registers that every processor it accepts has.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    (high as u64) << 32 | low as u64
}

/// # Safety
/// The value must be right for the register: some of them decide where the processor continues or what it protects.
pub unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: by the contract.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack, preserves_flags));
    }
}

/// Whether the nucleus must not write to its own read-only pages.
///
/// # Safety
/// Without it nothing but what is meant may be written; it must be put back.
pub unsafe fn write_protection(on: bool) {
    // SAFETY: by the contract.
    unsafe {
        let mut cr0: u64;
        asm!("mov {}, cr0", out(reg) cr0, options(nomem, nostack, preserves_flags));
        if on {
            cr0 |= CR0_WRITE_PROTECT;
        } else {
            cr0 &= !CR0_WRITE_PROTECT;
        }
        asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags));
    }
}

/// After one non-maskable interrupt the processor keeps others back until the next `iretq`; whoever goes on now may do so by `sysretq`. So one comes here.
pub fn take_non_maskable_again() {
    // SAFETY: goes on behind itself, with the same flags, stack and segments.
    unsafe {
        asm!(
            "mov {stack}, rsp",
            "mov {word:e}, ss",
            "push {word}",
            "push {stack}",
            "pushfq",
            "mov {word:e}, cs",
            "push {word}",
            "lea {word}, [rip + 2f]",
            "push {word}",
            "iretq",
            "2:",
            stack = out(reg) _,
            word = out(reg) _,
        );
    }
}

/// Forget instructions that were fetched already.
pub fn serialize() {
    __cpuid(0);
}

#[inline(always)]
pub fn read_tsc() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the time stamp counter is readable.
    unsafe {
        asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    (high as u64) << 32 | low as u64
}

/// The program's FS base.
pub fn fs_base() -> u64 {
    let value;
    // SAFETY: FSGSBASE is on.
    unsafe { asm!("rdfsbase {}", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

pub fn set_fs_base(value: u64) {
    // SAFETY: FSGSBASE is on, the nucleus does not use FS; `sanitize` has made the value canonical.
    unsafe { asm!("wrfsbase {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
}

/// The program's GS base, which is the hidden one while the nucleus runs.
pub fn user_gs_base() -> u64 {
    let value;
    // SAFETY: FSGSBASE is on; interrupts are off and the hidden base is back before anything uses GS.
    unsafe {
        asm!("swapgs", "rdgsbase {}", "swapgs", out(reg) value, options(nomem, nostack, preserves_flags))
    };
    value
}

pub fn set_user_gs_base(value: u64) {
    // SAFETY: as for `user_gs_base`; `sanitize` has made the value canonical.
    unsafe {
        asm!("swapgs", "wrgsbase {}", "swapgs", in(reg) value, options(nomem, nostack, preserves_flags))
    };
}

/// Stop for good.
pub fn halt() -> ! {
    loop {
        // SAFETY: with interrupts off nothing follows.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
