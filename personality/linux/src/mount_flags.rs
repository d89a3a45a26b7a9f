//! The flags of mount(2), which are in the kernel's interface and in no header of ours, and what file servers and `proc` have of them.

use cairn_idl::mounts::mount;

pub const READ_ONLY: u64 = 1;
pub const NO_SET_ID: u64 = 2;
pub const NO_DEVICES: u64 = 4;
pub const NO_EXECUTION: u64 = 8;
pub const SYNCHRONOUS: u64 = 16;
pub const REMOUNT: u64 = 32;
pub const MANDATORY_LOCKS: u64 = 64;
pub const SYNCHRONOUS_DIRECTORIES: u64 = 128;
pub const NO_SYMLINKS: u64 = 256;
pub const NO_ACCESS_TIMES: u64 = 1024;
pub const NO_DIRECTORY_TIMES: u64 = 2048;
pub const BIND: u64 = 4096;
pub const MOVE: u64 = 8192;
pub const RECURSIVE: u64 = 16384;
pub const SILENT: u64 = 32768;
pub const SHARED: u64 = 1 << 20;
pub const RELATIVE_TIMES: u64 = 1 << 21;
pub const STRICT_TIMES: u64 = 1 << 24;
pub const LAZY_TIMES: u64 = 1 << 25;

/// MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED.
pub const PROPAGATION: u64 = 15 << 17;
/// Those that say when access times are written.
pub const TIMES: u64 = NO_ACCESS_TIMES | RELATIVE_TIMES | STRICT_TIMES;
/// What a mount of a name space of its own takes.
pub const OF_MOUNTS: u64 =
    READ_ONLY | NO_SET_ID | NO_DEVICES | NO_EXECUTION | SILENT | NO_DIRECTORY_TIMES | TIMES;
/// The number that old programs put into the upper half.
pub const MAGIC_MASK: u64 = 0xffff_0000;
pub const MAGIC: u64 = 0xc0ed_0000;

/// As file servers and `proc` have them, but for what else a mount has.
pub fn bits(flags: u64) -> u64 {
    [
        (READ_ONLY, mount::READ_ONLY),
        (NO_SET_ID, mount::NO_SET_ID),
        (NO_DEVICES, mount::NO_DEVICES),
        (NO_EXECUTION, mount::NO_EXECUTION),
        (NO_ACCESS_TIMES, mount::NO_ACCESS_TIMES),
    ]
    .iter()
    .filter(|(flag, _)| flags & flag != 0)
    .fold(0, |bits, (_, bit)| bits | bit)
}
