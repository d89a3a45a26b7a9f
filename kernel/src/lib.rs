//! The nucleus's portable part. INTERFACE FOR THE MACHINE LAYER (bodies follow):
#![cfg_attr(not(any(test, feature = "sim")), no_std)]
pub mod arch;
pub mod boot;

use arch::{Arch, Frame, MapError};
use cairn_abi::state::Registers;

/// What the entry code does when the nucleus is done.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Resume {
    /// Registers of the thread to continue; null: nothing to run, wait for an interrupt with interrupts enabled and call [`Kernel::interrupt`] / [`Kernel::timer`] then.
    /// The next entry from user mode stores the registers HERE (keep it in per-CPU memory).
    pub registers: *mut Registers,
    /// 0: rcx and r11 are free, `sysret` will do. 1: every register counts (`iretq`).
    pub full: u64,
}

/// What the nucleus thinks of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Not memory.
    Absent = 0,
    /// Memory that `vm` may map, give, copy.
    User = 1,
    /// Nucleus image, pools, tables.
    Nucleus = 2,
    /// The system page: may be mapped for reading only.
    System = 3,
}

/// Memory that the boot code sets aside for the nucleus.
pub struct Storage {
    /// One word per frame of physical memory from frame 0 on (zero = Absent).
    pub frames: &'static mut [u32],
    /// The log ring; its length is a power of two.
    pub log: &'static mut [u8],
}

pub struct Kernel<A: Arch> {
    pub arch: A,
}

impl<A: Arch> Kernel<A> {
    pub fn new(arch: A, storage: Storage) -> Kernel<A> {
        let _ = storage;
        Kernel { arch }
    }

    // ---- boot, in this order ----
    /// Say what frames are.
    pub fn boot_frames(&mut self, _first: Frame, _count: u32, _kind: FrameKind) {}
    /// A range of free memory for `vm` (memory::RANGE); frames become `User`. At most 32 ranges.
    pub fn boot_range(&mut self, _first: Frame, _count: u32) {}
    /// The frame of the system page (filled by the boot code).
    pub fn boot_system_page(&mut self, _frame: Frame) {}
    /// Give a frame to an object pool (some for each pool before the first domain).
    pub fn boot_pool(&mut self, _pool: usize, _frame: Frame) -> bool {
        true
    }
    /// The first space; `tables` are frames for its page tables and portal table (root included). More can be added by calling boot_tables.
    pub fn boot_space(&mut self) {}
    pub fn boot_tables(&mut self, _frame: Frame) {}
    /// Map a page of the first space (frame must be `User` or `System`).
    pub fn boot_map(&mut self, _address: u64, _frame: Frame, _prot: u64) -> Result<(), MapError> {
        Ok(())
    }
    /// First domain and thread (priority SERVER), slots as `layout::init_slot` says; then call [`Kernel::resume`].
    pub fn boot_domain(&mut self, _entry: u64, _stack: u64, _rdi: u64, _rsi: u64, _rdx: u64) {}

    // ---- entries: user registers have been stored at the last Resume's pointer (fs_base, gs_base need not be) ----
    pub fn syscall(&mut self) -> Resume {
        self.resume()
    }
    /// The timer interrupt (from user mode or idle).
    pub fn timer(&mut self) -> Resume {
        self.resume()
    }
    /// A device interrupt; the machine layer has acknowledged it at the controller. The nucleus masks the line by `Arch::interrupt_mask`.
    pub fn interrupt(&mut self, _line: u32) -> Resume {
        self.resume()
    }
    /// A page fault of user code; `bits` are `cairn_abi::fault` bits.
    pub fn page_fault(&mut self, _address: u64, _bits: u64) -> Resume {
        self.resume()
    }
    /// Any other exception of user code (general protection with address 0, …).
    pub fn exception(&mut self, _vector: u64, _error: u64, _address: u64) -> Resume {
        self.resume()
    }
    /// Whom to run.
    pub fn resume(&mut self) -> Resume {
        Resume {
            registers: core::ptr::null_mut(),
            full: 1,
        }
    }
    /// A line into the nucleus log (boot messages, panic).
    pub fn log(&mut self, _bytes: &[u8]) {}
}
