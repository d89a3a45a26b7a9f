//! Structures in memory that the nucleus and programs share: a thread's registers, the start-up block, the system page.

/// All integer registers of a thread, as the nucleus keeps them and as [`crate::service::current::UPCALL_READ`] and
/// [`crate::service::thread::READ_STATE`] deliver them. The order is the order of the entry code's pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

impl Registers {
    pub const ZERO: Registers = Registers {
        rax: 0,
        rbx: 0,
        rcx: 0,
        rdx: 0,
        rsi: 0,
        rdi: 0,
        rbp: 0,
        r8: 0,
        r9: 0,
        r10: 0,
        r11: 0,
        r12: 0,
        r13: 0,
        r14: 0,
        r15: 0,
        rip: 0,
        rflags: 0,
        rsp: 0,
        fs_base: 0,
        gs_base: 0,
    };

    /// Message word `i` (0..8).
    pub const fn word(&self, i: usize) -> u64 {
        match i {
            0 => self.rdi,
            1 => self.rsi,
            2 => self.rdx,
            3 => self.r10,
            4 => self.r8,
            5 => self.r9,
            6 => self.r12,
            _ => self.r13,
        }
    }

    /// Set message word `i` (0..8).
    pub fn set_word(&mut self, i: usize, value: u64) {
        match i {
            0 => self.rdi = value,
            1 => self.rsi = value,
            2 => self.rdx = value,
            3 => self.r10 = value,
            4 => self.r8 = value,
            5 => self.r9 = value,
            6 => self.r12 = value,
            _ => self.r13 = value,
        }
    }

    pub const fn words(&self) -> [u64; 8] {
        [
            self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9, self.r12, self.r13,
        ]
    }

    pub fn set_words(&mut self, w: [u64; 8]) {
        [
            self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9, self.r12, self.r13,
        ] = w;
    }
}

/// Flags (trap, resume) that only a return of all registers restores exactly.
pub const EXACT_FLAGS: u64 = 0x1_0100;

/// Upcalls: the nucleus saves the thread's registers (see [`crate::service::current::UPCALL_READ`]) and continues it at the domain's upcall
/// entry with `rdi` = reason, `rsi` = exception vector, `rdx` = error code, `r10` = fault address, `r8` = interrupted `rip`,
/// `r9` = detail from the pager (see [`crate::fault::REFUSED`]); all other registers are unchanged. While an upcall's registers are saved no other upcall is made;
/// a second exception meanwhile kills the domain.
pub mod upcall {
    /// The thread was poked ([`crate::service::thread::POKE`]).
    pub const POKE: u64 = 0;
    /// The thread caused an exception.
    pub const EXCEPTION: u64 = 1;
}

/// Start-up block of a native component, at [`crate::layout::STARTUP`]. Numbers are little-endian.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Startup {
    /// [`STARTUP_MAGIC`].
    pub magic: u64,
    /// Bytes of the argument string that follows the named portals (the manifest's `args`, joined by NUL).
    pub args_len: u32,
    /// How many [`NamedPortal`]s follow this header.
    pub portals: u32,
    /// Archive length for components that get it ([`crate::layout::ARCHIVE`]); otherwise 0.
    pub archive_len: u64,
    /// Bytes at [`crate::layout::KEEPSAKE`], 0 without.
    pub keepsake_len: u64,
    /// The component's own name, NUL-padded.
    pub name: [u8; 24],
}

pub const STARTUP_MAGIC: u64 = 0x6e72_6961_6331_5453;

/// A portal that the manifest gave, by name.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NamedPortal {
    /// NUL-padded.
    pub name: [u8; 24],
    pub slot: u32,
    pub reserved: u32,
}

/// Read-only page with what every program may know, at [`crate::layout::SYSTEM_PAGE`]. Written by the nucleus, at boot only but for the wall clock.
/// Monotonic nanoseconds = ((rdtsc - tsc_base) * tsc_mult) >> tsc_shift, in 128-bit arithmetic.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SystemPage {
    pub tsc_base: u64,
    pub tsc_mult: u64,
    pub tsc_shift: u64,
    /// Wall-clock nanoseconds since 1970 at monotonic time 0 (from the machine's clock chip, until somebody sets it). It may change at any time.
    pub boot_realtime: u64,
    /// Frames of usable memory in the machine.
    pub total_frames: u64,
    pub cores: u64,
    /// XSAVE mask in use (0: only FXSAVE) and the size of the area in bytes.
    pub xsave_mask: u64,
    pub xsave_size: u64,
    /// TSC ticks per second, rounded.
    pub tsc_hz: u64,
}
