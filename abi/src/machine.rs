//! What the nucleus tells the first domain about the machine, and its counters.

/// A range of physical memory, in frames ([`crate::service::memory::RANGES`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FrameRange {
    pub first: u64,
    pub count: u64,
}

/// Registers of `init` at its first instruction: rdi = length of the boot archive (mapped read-only at [`crate::layout::ARCHIVE`]),
/// rsi = first frame of the archive, rdx = length of the command line, which is at [`COMMAND_LINE`]. `init` runs on a stack of
/// [`crate::layout::EAGER_STACK_SIZE`] that ends at [`crate::layout::NATIVE_STACK_TOP`]; all of it is mapped.
pub const COMMAND_LINE: u64 = crate::layout::STARTUP;

/// Nucleus counters ([`crate::service::current::COUNTERS`]), since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Entries by `syscall`.
    pub entries: u64,
    /// `syscall`s turned round into a personality.
    pub turned: u64,
    /// Address-space switches.
    pub space_switches: u64,
    /// Thread switches.
    pub thread_switches: u64,
    /// Single-page TLB invalidations.
    pub invalidations: u64,
    /// Bytes copied between spaces.
    pub bytes_copied: u64,
    /// Faults sent to pagers.
    pub faults: u64,
    /// Device interrupts taken.
    pub interrupts: u64,
    /// Nanoseconds without a runnable thread.
    pub idle: u64,
    /// Frames owned by the nucleus (image, pools, tables).
    pub nucleus_frames: u64,
    /// Calls and replies that the code behind the portal took straight to the other side.
    pub direct: u64,
    /// With `nucleus.stretch` on the command line: ticks of the longest stretch with interrupts off, and in which entry (portal kind << 8 | operation, or 1 << 16 | vector).
    pub longest: u64,
    pub longest_in: u64,
}
