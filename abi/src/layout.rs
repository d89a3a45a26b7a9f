//! The address space as every program sees it, and the slots that a new domain's portal table starts with.

/// Size of a page and of a frame.
pub const PAGE: u64 = 4096;
/// User addresses are below this.
pub const USER_TOP: u64 = 0x7fff_ffff_f000;

/// Start-up block of a native component (see [`crate::state::Startup`]), read-only.
pub const STARTUP: u64 = 0x10_0000;
/// Native components are linked to this address, or above it where a debugger should tell them apart by their addresses.
pub const NATIVE_BASE: u64 = 0x20_0000;
/// `vm` places native components' memory from here upwards.
pub const NATIVE_HEAP: u64 = 0x1_0000_0000;
/// A native component's device memory (its manifest line's `device-memory`) is shown from here upwards, each piece in a range of [`DEVICE_RANGE`].
pub const DEVICES: u64 = 0x7000_0000_0000;
pub const DEVICE_RANGE: u64 = 0x1_0000_0000;
/// `vm` shows itself the tables of the IOMMU here, each frame n at n pages above it, and below, in ranges as above, the registers of its units.
pub const IOMMU_TABLES: u64 = 0x7100_0000_0000;
/// The first thread's stack of a native component ends here (guard page below it).
pub const NATIVE_STACK_TOP: u64 = 0x7ff0_0000_0000;
/// The first words of that stack, in components that are written in Rust: [`NATIVE_COUNTS`], and how many messages and pulses it received ([`COUNTS_MESSAGES`]
/// stands in the first).
pub const NATIVE_COUNTS: u64 = NATIVE_STACK_TOP - 16;
/// The mark of a component that counts.
pub const COUNTS_MESSAGES: u64 = u64::from_le_bytes(*b"messages");
/// Bytes above the first frame of that stack.
pub const NATIVE_STACK_HEAD: u64 = 64;
/// Size of that stack, whose pages come when they are touched.
pub const NATIVE_STACK_SIZE: u64 = 256 * 1024;
/// Its size in `init` and `vm`, which have all its pages from the start.
pub const EAGER_STACK_SIZE: u64 = 64 * 1024;
/// The boot archive in `init` (read-only) and in the server that fills the root from it (read-write).
pub const ARCHIVE: u64 = 0x6000_0000_0000;

/// Memory of a native component that outlives it (its manifest line's `keepsake`): its successor finds there what it left.
pub const KEEPSAKE: u64 = 0x6800_0000_0000;

/// A Linux program's mappings lie in `LINUX_LOW..LINUX_TOP`; `mmap` without an address searches downwards from the stack.
pub const LINUX_LOW: u64 = 0x1_0000;
pub const LINUX_TOP: u64 = 0x7fff_0000_0000;
/// Top of a Linux program's first stack.
pub const LINUX_STACK_TOP: u64 = LINUX_TOP;
/// Fixed program with PIE (ET_DYN) goes here.
pub const LINUX_PIE_BASE: u64 = 0x5555_5555_4000;

/// From here to [`USER_TOP`] belongs to the personality: `syscall` from below is turned round into it.
pub const PERSONALITY: u64 = 0x7fff_8000_0000;
/// What is the same in all Linux processes lies from there up to [`COMMON_END`], what one page table covers: the image's code and constants, which end below this, and the pages that follow.
pub const PERSONALITY_IMAGE_END: u64 = 0x7fff_801f_e000;
/// The system page ([`crate::state::SystemPage`]), read-only in every domain.
pub const SYSTEM_PAGE: u64 = 0x7fff_801f_e000;
/// The prefix table published by `proc` (read-only in Linux processes), [`PREFIX_PAGES`] pages.
pub const PREFIX_TABLE: u64 = 0x7fff_801f_f000;
pub const PREFIX_PAGES: u64 = 1;
pub const COMMON_END: u64 = 0x7fff_8020_0000;
/// The image's own data, of which each process has a copy.
pub const PERSONALITY_DATA: u64 = COMMON_END;
/// The personality's own private memory (heap, thread areas) goes upward from here.
pub const PERSONALITY_HEAP: u64 = 0x7fff_8024_0000;
/// End of that memory.
pub const PERSONALITY_HEAP_END: u64 = 0x7fff_e000_0000;
/// Frames of files that the personality has mapped to read from them go from here to [`USER_TOP`]; neither fork nor exec takes them along.
pub const FRAMES: u64 = PERSONALITY_HEAP_END;

/// Slots of a portal table that are never handed out automatically.
pub const RESERVED_SLOTS: u32 = 64;
/// Most entries that a table may grow to.
pub const MAX_SLOTS: u32 = 16384;

/// Slots of the first domain (`init`); the first three as every native component has them.
pub mod init_slot {
    pub const CURRENT: u32 = 0;
    pub const DOMAIN: u32 = 1;
    pub const LOG: u32 = 2;
    pub const SPACE: u32 = 5;
    pub const MEMORY: u32 = 6;
    pub const MACHINE: u32 = 7;
}

/// Slots of a native component. What its manifest line gives comes behind these; names lead to slots through the start-up block.
pub mod native_slot {
    pub const CURRENT: u32 = 0;
    /// The component's own domain (thread creation, no control of others).
    pub const DOMAIN: u32 = 1;
    pub const LOG: u32 = 2;
    /// Receive right of the component's main channel.
    pub const RECEIVE: u32 = 3;
    /// `vm`.
    pub const VM: u32 = 4;
    /// First slot for the portals of the manifest line.
    pub const FIRST_NAMED: u32 = 8;
}

/// Slots of a Linux process.
pub mod linux_slot {
    pub const CURRENT: u32 = 0;
    pub const VM: u32 = 1;
    pub const PROC: u32 = 2;
    pub const LOG: u32 = 3;
    /// The root directory, of a process that begins anew in a chroot.
    pub const ROOT: u32 = 4;
    /// Portals of mounted resource managers: `MOUNTS + index in the prefix table`.
    pub const MOUNTS: u32 = 16;
    pub const MOUNTS_MAX: u32 = 32;
}
