//! The memory manager. Whose space is meant is told by the sender's domain, except for operations marked *control*, which need the portal with
//! badge [`BADGE_CONTROL`] (held by `init`, `proc` and `procfs`) and name a domain id.

/// Badge of the ordinary portal.
pub const BADGE_CLIENT: u64 = 0;
/// Badge of the control portal.
pub const BADGE_CONTROL: u64 = 1;
/// Badges from here on are memory objects.
pub const BADGE_OBJECT_FIRST: u64 = 16;

/// w1 address (hint, or exact with FIXED), w2 length, w3 [`prot`], w4 [`flags`] → w0 address. Anonymous zero-fill memory.
pub const MAP: u64 = 1;
/// w1 address, w2 length → 0.
pub const UNMAP: u64 = 2;
/// w1 address, w2 length, w3 prot → 0; ENOMEM if the range has a hole, EACCES beyond an object's rights.
pub const PROTECT: u64 = 3;
/// w1 old address, w2 old length, w3 new length, w4 bit 0 MAYMOVE, bit 1 FIXED (Linux's values), w5 new address → w0 address.
pub const REMAP: u64 = 4;
/// w1 address, w2 length, w3 [`advice`] → 0.
pub const ADVISE: u64 = 5;
/// Out part: w1 u64 addresses of pages in the caller's space (page-aligned; 0 = a hole that reads as zero), w2 bit 0: may be mapped shared and writable.
/// → w7 portal to a memory object of these frames as they are now. The caller goes on using its pages; object mappings see its writes and the other way round.
pub const OBJECT_CREATE: u64 = 6;
/// Through an object's portal: w1 address, w2 length, w3 prot, w4 flags, w5 byte offset (page-aligned) → w0 address. SHARED or private (copy-on-write). Pages past the object's end fault as "beyond the end".
pub const OBJECT_MAP: u64 = 7;
/// → w1 resident pages, w2 mapped pages, w3 resident pages shared with others; w2 (in) domain id or 0 for the caller (others: control).
pub const SPACE_STAT: u64 = 8;
/// → w1 total frames, w2 free frames, w3 nucleus frames, w4 frames of native components, w5 of Linux processes, w6 of the boot archive.
pub const MEMORY_STAT: u64 = 9;
/// w1 domain id or 0, w2 first address; in part: [`MapEntry`]s from there on → w0 entries written. Others than the caller: control.
pub const MAPS: u64 = 10;
/// w1 address, w2 length; in part: one byte per page, 1 = resident → 0. (mincore)
pub const RESIDENT: u64 = 11;
/// w1 address → w0 1 and w1 a number that is the same for every space that has this byte mapped SHARED, or w0 0 if the address lies in private memory. EFAULT if nothing is mapped. (futex between processes)
pub const IDENTITY: u64 = 12;

/// *Control.* → w7 domain portal (CONTROL) of a new domain with an empty space (only the system page is mapped), w1 domain id. w1 (in) page limit (0 = none), w2 (in) 1 = a Linux program's layout (mappings are placed downwards from LINUX_TOP), 0 = a native one (upwards from NATIVE_HEAP).
pub const CREATE: u64 = 32;
/// *Control.* w1 parent domain id, w2 0 = copy-on-write copy of the space, 1 = share the space (vfork) → w7 domain portal of the new domain, w1 domain id. The portal table is empty.
pub const FORK: u64 = 33;
/// *Control.* The domain is destroyed: forget it; its space goes with its last domain. w1 domain id.
pub const DESTROY: u64 = 34;
/// *Control.* w1 domain id, w2 address, w3 length, w4 prot, w5 flags: like MAP, FIXED.
pub const MAP_INTO: u64 = 35;
/// *Control.* w1 domain id, w2 address; out part: bytes to write there, whatever the protection. → bytes.
pub const WRITE_INTO: u64 = 36;
/// *Control, through an object's portal is not needed.* w1 domain id, w2 address, w3 length, w4 prot, w5 flags, w6 offset, w7 the object's portal (passed): like OBJECT_MAP, FIXED, into that domain.
pub const OBJECT_MAP_INTO: u64 = 37;
/// *Control.* exec: w1 domain id, w2 start and w3 end (addresses) of the range to keep. If the space is shared with another domain (vfork) this domain gets a new space with a copy-on-write copy of that range only; otherwise everything outside the range is unmapped.
/// w4 start and w5 end: of the personality's heap (`PERSONALITY_HEAP..PERSONALITY_HEAP_END`) only this is kept (both 0 = all of it). → 0 or −EINVAL.
pub const RESET: u64 = 38;
/// *Control.* w1 domain id, w2 address; in part: bytes read from there (for /proc/PID/cmdline, environ, debuggers) → bytes.
pub const READ_FROM: u64 = 39;
/// *Control.* w1 [`cairn_abi::service::memory::pool`] kind: a nucleus pool ran empty (`NoMemory`), give it more → 0 or −ENOMEM. Also allowed to native components through their ordinary portal.
pub const MORE_OBJECTS: u64 = 40;
/// *Control.* w1 domain id: its portal table is full, grow it → 0 or −EMFILE. Also allowed to everybody for the own domain (w1 = 0).
pub const GROW_TABLE: u64 = 41;
/// *Control.* w7 portal that gets NOTIFY when memory is exhausted; the notified (`proc`) asks EXHAUSTED → w1 domain id with most memory, and kills it.
pub const WATCH_EXHAUSTED: u64 = 42;
pub const EXHAUSTED: u64 = 43;
/// *Control.* w1 domain id, w2 most pages that it may map (0 = no limit) → 0. (RLIMIT_AS)
pub const LIMIT: u64 = 44;

/// *Control.* w1 domain id of a native component, w2 address at [`cairn_abi::layout::DEVICES`] or above, w3 physical address, w4 length (page-aligned, at most [`DEVICE_MAX`]):
/// shows device registers there, uncached, until the domain ends → 0. EINVAL; EACCES if it is not device memory.
pub const DEVICE_INTO: u64 = 60;
/// Most bytes of one DEVICE_INTO.
pub const DEVICE_MAX: u64 = 16 << 20;

/// Linux's PROT_ values.
pub mod prot {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const EXECUTE: u64 = 4;
}

pub mod flags {
    /// Exactly at the address; what is there is unmapped first.
    pub const FIXED: u64 = 1;
    /// Exactly at the address; EEXIST if anything is there.
    pub const FIXED_NOREPLACE: u64 = 2;
    /// Shared with children of fork and through objects; without it private.
    pub const SHARED: u64 = 4;
    /// Make the pages resident at once.
    pub const POPULATE: u64 = 8;
    /// Place it in the personality's range (`PERSONALITY_HEAP..`).
    pub const PERSONALITY: u64 = 16;
    /// Grows downwards on faults below it, up to w2 of MAP as the most (stack).
    pub const STACK: u64 = 32;
    /// Do not count against the commit limit (MAP_NORESERVE).
    pub const NO_RESERVE: u64 = 64;
    /// A program's own segment, private: pages that earlier programs wrote may be copied at once, so later changes of the object need not be seen there.
    pub const PROGRAM: u64 = 128;
}

pub mod advice {
    /// Give the pages back; they read as zero (or as the object) afterwards.
    pub const DONT_NEED: u64 = 4;
    /// Give the pages of a shared mapping back to the object as well: they read as zero for everybody (MADV_REMOVE).
    pub const REMOVE: u64 = 9;
    /// Make resident for reading.
    pub const POPULATE_READ: u64 = 22;
    pub const POPULATE_WRITE: u64 = 23;
}

/// One region, for /proc/PID/maps.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct MapEntry {
    pub start: u64,
    pub end: u64,
    pub prot: u32,
    /// [`flags`].
    pub flags: u32,
    pub offset: u64,
    /// Pages resident.
    pub resident: u64,
}
