//! The resource-manager interface: everything that is opened, read and written. Served by the `resmgr` framework.
//!
//! A portal of a manager leads to a *handle*: the root of what it manages (mount portal) or an open file, directory, pipe end, terminal.
//! Operations with a path start at the handle, which must be a directory unless the path is empty (then the handle itself is meant).
//! Paths are bytes without NUL in the out part (two paths: separated by one NUL), at most [`PATH_MAX`]; a leading `/` counts as the manager's root.
//!
//! **Short paths.** The operations of [`SHORT_PATHS`] take a path of 1 to [`INLINE_MAX`] bytes in w3 to w7 (little-endian) instead of an out part, which saves fetching it:
//! w2 then has [`INLINE`] set and the length in the bits from [`INLINE_SHIFT`] on, beside what the operation has there.
//!
//! **Redirect.** A lookup that leaves the manager (an absolute symbolic link, `..` above its root, a mount point, a device or FIFO node) is answered with
//! −[`crate::errno::REDIRECT`], the new name in the in part (so path operations carry an in part of PATH_MAX bytes, after the answer's own structure if it has one: the
//! redirect is then written at offset 0) and w1 its length. The name is absolute (`/dev/null`), or has a scheme that the prefix table knows:
//! `dev:MAJOR:MINOR`, `fifo:ID`. For operations with two paths w2 tells which one is meant (0 first, 1 second).
//!
//! Structures in parts have Linux's x86-64 layout (`struct stat`, `linux_dirent64`, `struct statfs`, `struct termios`), so that they go straight to the program.

pub const PATH_MAX: usize = 4096;
pub const NAME_MAX: usize = 255;
pub const SYMLINKS_MAX: usize = 40;

/// w1 O_ flags (Linux), w2 mode (umask applied); out: path → w7 new handle (minted), w1 mode (type and permission bits) , w2 [`kind`] bits, w3 size, w4 inode number.
pub const OPEN: u64 = 1;
/// w1 AT_ flags; out: path; in: `struct stat` (144 bytes).
pub const STAT: u64 = 2;
/// w1 offset, or [`POSITION`] for the handle's own position (which moves); in: data → w0 bytes. w2 RWF_ flags (NOWAIT).
pub const READ: u64 = 3;
/// w1 offset or POSITION; out: data → w0 bytes. w2 RWF_ flags (APPEND, NOWAIT).
pub const WRITE: u64 = 4;
/// w1 offset, w2 whence (0..=4, with SEEK_DATA and SEEK_HOLE) → w0 position.
pub const SEEK: u64 = 5;
/// In: `linux_dirent64` records from the handle's position on → w0 bytes, 0 at the end.
pub const READDIR: u64 = 6;
/// w1 length → 0; out: path (empty: the handle, which must be open for writing).
pub const TRUNCATE: u64 = 7;
/// w1 0 = all, 1 = data only.
pub const SYNC: u64 = 8;
/// Out: path; in: `struct statfs` (120 bytes).
pub const STATFS: u64 = 9;
/// w1 mode, w2 AT_ flags; out: path.
pub const CHMOD: u64 = 10;
/// w1 uid, w2 gid (u32::MAX = leave), w3 AT_ flags; out: path.
pub const CHOWN: u64 = 11;
/// w1, w2 access time s, ns; w3, w4 modification time s, ns (ns may be UTIME_NOW, UTIME_OMIT); w5 AT_ flags; out: path.
pub const UTIMENS: u64 = 12;
/// w1 R_OK|W_OK|X_OK, w2 AT_ flags, w3 label to check with (the real ids, or the effective ones with AT_EACCESS); out: path.
pub const ACCESS: u64 = 13;
/// w1 mode; out: path.
pub const MKDIR: u64 = 14;
/// w1 mode with type, w2 device number (Linux encoding); out: path.
pub const MKNOD: u64 = 15;
/// w1 AT_REMOVEDIR or 0; out: path.
pub const UNLINK: u64 = 16;
/// w1 RENAME_ flags; out: old, NUL, new. w7 (passed portal) handle for the new path if it is another one than for the old.
pub const RENAME: u64 = 17;
/// w1 AT_SYMLINK_FOLLOW or 0; out: old, NUL, new; w7 as for RENAME.
pub const LINK: u64 = 18;
/// Out: target, NUL, path of the link. (No redirect for the target.)
pub const SYMLINK: u64 = 19;
/// Out: path; in: target → w0 bytes. Redirects come at offset 0 as well, told by w0.
pub const READLINK: u64 = 20;
/// In: absolute path of the handle → w0 bytes; ENOENT if it has been unlinked.
pub const GETPATH: u64 = 21;
/// → w0 O_ status flags of the handle.
pub const GETFLAGS: u64 = 22;
/// w1 O_ status flags (APPEND, NONBLOCK, DIRECT, NOATIME change).
pub const SETFLAGS: u64 = 23;
/// w1 request, w2 argument as a word; out and in parts as the request wants.
pub const IOCTL: u64 = 24;
/// w1 POLL mask, w2 0 = only look, 1 = wait until some bit is ready (deferred, interruptible) → w0 ready bits (POLLERR, POLLHUP always included).
pub const POLL: u64 = 25;
/// w1 mask, w2 cookie, w7 (passed) portal: → w0 ready bits. If there are none the portal is kept and notified once with value 1 when there are; a registration replaces one of the same sender and cookie on this handle.
pub const POLL_NOTIFY: u64 = 26;
/// w1 cookie: drop the registration.
pub const POLL_CANCEL: u64 = 27;
/// w1 offset, w2 length, w3 1 = will be mapped shared and writable → w7 memory object of the whole file (see `vm::OBJECT_MAP`), w0 its pages.
pub const MMAP: u64 = 28;
/// w1 mode (FALLOC_FL_), w2 offset, w3 length.
pub const ALLOCATE: u64 = 29;
/// Record locks: w1 0 get, 1 set, 2 set and wait; w2 type (F_RDLCK 0, F_WRLCK 1, F_UNLCK 2); w3 start (absolute), w4 length (0 = to the end), w5 owner (a pid; 0 = open file description) → get: w1 type, w2 start, w3 length, w4 pid.
pub const LOCK: u64 = 30;
/// w1 LOCK_SH 1, LOCK_EX 2, LOCK_UN 8, | LOCK_NB 4.
pub const FLOCK: u64 = 31;
/// Extended attributes: w1 0 get, 1 set, 2 list, 3 remove; w2 flags; out: path, NUL, name, NUL, value; in: value or names → w0 bytes.
pub const XATTR: u64 = 32;
/// w1 1 = this directory (path) is a mount point of another manager from now on: lookups that reach it redirect; 0 = no longer. Only for senders with label 0. Out: path.
pub const MOUNT_POINT: u64 = 33;

/// The pipe manager's own: w1 O_ flags → w6 read end, w7 write end (minted).
pub const PIPE: u64 = 48;
/// The pipe manager's own: a connected pair of stream sockets (w1 type, w2 O_ flags) → w6, w7.
pub const SOCKETPAIR: u64 = 49;
/// Eventfd: w1 initial value, w2 flags → w7.
pub const EVENTFD: u64 = 50;
/// Through an end of a socket pair: w1 SHUT_RD 0, SHUT_WR 1, SHUT_RDWR 2.
pub const SHUTDOWN: u64 = 51;

/// Pipes answer IOCTL with these requests (fcntl's F_SETPIPE_SZ and F_GETPIPE_SZ): w2 the wished capacity → w0 the capacity.
pub const SET_PIPE_SIZE: u64 = 1031;
pub const GET_PIPE_SIZE: u64 = 1032;
/// Bit of w2 of READ and WRITE (and of [`SHORT_PATHS`]): there is no part. The data (or for READ the room for it) has w2 bits [`INLINE_SHIFT`].. bytes, at most [`INLINE_MAX`], and travels
/// in w3 to w7, little-endian: of the request for WRITE, of the answer for READ.
pub const INLINE: u64 = 1 << 33;
pub const INLINE_SHIFT: u32 = 40;
pub const INLINE_MAX: usize = 40;

/// Operations (as bits, by number) that take short paths in words; see the head of this file.
pub const SHORT_PATHS: u64 =
    1 << OPEN | 1 << STAT | 1 << STATFS | 1 << CHMOD | 1 << MKDIR | 1 << UNLINK | 1 << READLINK;

/// Bit of READ's w2, for ends of a socket pair: leave the data there (MSG_PEEK).
pub const PEEK: u64 = 1 << 32;

/// w1 of READ and WRITE: use and move the handle's position.
pub const POSITION: u64 = u64::MAX;

/// What an opened handle is (w2 of OPEN's answer).
pub mod kind {
    pub const SEEKABLE: u64 = 1;
    pub const DIRECTORY: u64 = 2;
    pub const TERMINAL: u64 = 4;
    /// Always ready: poll need not ask.
    pub const ALWAYS_READY: u64 = 8;
    pub const MAPPABLE: u64 = 16;
    /// This handle may be read, and reading it never gives anything / gives zeros without end, whatever anybody does: the reader need not ask (`/dev/null`, `/dev/zero`).
    /// The position does not move.
    pub const READS_NOTHING: u64 = 32;
    pub const READS_ZEROS: u64 = 64;
    /// This handle may be written, and all that is written counts as written and is gone: the writer need not say so.
    pub const WRITES_VANISH: u64 = 128;
}

/// O_ flags, x86-64.
pub mod o {
    pub const ACCMODE: u64 = 3;
    pub const RDONLY: u64 = 0;
    pub const WRONLY: u64 = 1;
    pub const RDWR: u64 = 2;
    pub const CREAT: u64 = 0o100;
    pub const EXCL: u64 = 0o200;
    pub const NOCTTY: u64 = 0o400;
    pub const TRUNC: u64 = 0o1000;
    pub const APPEND: u64 = 0o2000;
    pub const NONBLOCK: u64 = 0o4000;
    pub const DSYNC: u64 = 0o10000;
    pub const DIRECT: u64 = 0o40000;
    pub const LARGEFILE: u64 = 0o100000;
    pub const DIRECTORY: u64 = 0o200000;
    pub const NOFOLLOW: u64 = 0o400000;
    pub const NOATIME: u64 = 0o1000000;
    pub const CLOEXEC: u64 = 0o2000000;
    pub const PATH: u64 = 0o10000000;
    pub const TMPFILE: u64 = 0o20200000;
}

pub mod at {
    pub const SYMLINK_NOFOLLOW: u64 = 0x100;
    pub const EACCESS: u64 = 0x200;
    pub const REMOVEDIR: u64 = 0x200;
    pub const SYMLINK_FOLLOW: u64 = 0x400;
    pub const EMPTY_PATH: u64 = 0x1000;
}

/// File types in a mode.
pub mod s {
    pub const IFMT: u32 = 0o170000;
    pub const IFSOCK: u32 = 0o140000;
    pub const IFLNK: u32 = 0o120000;
    pub const IFREG: u32 = 0o100000;
    pub const IFBLK: u32 = 0o060000;
    pub const IFDIR: u32 = 0o040000;
    pub const IFCHR: u32 = 0o020000;
    pub const IFIFO: u32 = 0o010000;
    pub const ISUID: u32 = 0o4000;
    pub const ISGID: u32 = 0o2000;
    pub const ISVTX: u32 = 0o1000;
}

/// poll bits.
pub mod poll {
    pub const IN: u64 = 1;
    pub const PRI: u64 = 2;
    pub const OUT: u64 = 4;
    pub const ERR: u64 = 8;
    pub const HUP: u64 = 16;
    pub const NVAL: u64 = 32;
    pub const RDNORM: u64 = 64;
    pub const WRNORM: u64 = 256;
    pub const RDHUP: u64 = 0x2000;
}

/// `struct stat` of Linux x86-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub nlink: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub pad0: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    pub blocks: i64,
    pub atime: i64,
    pub atime_ns: i64,
    pub mtime: i64,
    pub mtime_ns: i64,
    pub ctime: i64,
    pub ctime_ns: i64,
    pub unused: [i64; 3],
}

/// `struct statfs` of Linux x86-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Statfs {
    pub kind: i64,
    pub bsize: i64,
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub fsid: [i32; 2],
    pub namelen: i64,
    pub frsize: i64,
    pub flags: i64,
    pub spare: [i64; 4],
}

/// Identity of device nodes. Both the manager of /dev and the manager behind a node report it, so that a program that compares an open
/// terminal with a name below /dev (ttyname) finds them equal.
pub mod device {
    /// st_dev of all nodes below /dev.
    pub const ST_DEV: u64 = 5;
    /// st_ino of a device node.
    pub const fn inode(rdev: u64) -> u64 {
        0x1_0000 + rdev
    }
}

/// One entry of the prefix table that `proc` publishes at [`cairn_abi::layout::PREFIX_TABLE`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Prefix {
    /// Absolute path without trailing slash (`/` itself is the empty name), or a scheme with its colon (`dev:`). NUL-padded; length 0 with `used` = 1 is the root.
    pub name: [u8; 64],
    pub len: u32,
    /// 1 if the entry is in use. Slot of the mount portal: `linux_slot::MOUNTS` + index of this entry.
    pub used: u32,
    /// File-system type for /proc/mounts, NUL-padded.
    pub fstype: [u8; 16],
}

/// Header of the prefix table; [`Prefix`] entries (at most `linux_slot::MOUNTS_MAX`) follow.
/// A reader copies `version` (retry while odd), scans, and compares again.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PrefixTable {
    pub version: u64,
    pub count: u32,
    pub reserved: u32,
    /// `struct utsname` nodename, NUL-padded.
    pub hostname: [u8; 64],
}
