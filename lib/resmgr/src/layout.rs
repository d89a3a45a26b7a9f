//! Linux's structures as bytes, and plain values for them.

use crate::server::{file_flags, Meta};
use cairn_idl::device::ST_DEV;
use cairn_idl::fs::{kind, s, Stat, Statfs, NAME_MAX};

pub const STAT_SIZE: usize = 144;
pub const STATFS_SIZE: usize = 120;

/// A `struct stat` with what [`Meta`] knows: one link, one-page blocks, times zero.
pub fn plain_stat(meta: &Meta) -> Stat {
    Stat {
        ino: meta.ino,
        nlink: if meta.mode & s::IFMT == s::IFDIR {
            2
        } else {
            1
        },
        mode: meta.mode,
        uid: meta.uid,
        gid: meta.gid,
        rdev: meta.rdev,
        size: meta.size as i64,
        blksize: 4096,
        ..Stat::default()
    }
}

/// Of a node below /dev, whose times are the system's start (seconds since 1970).
pub fn device_stat(meta: &Meta, born: i64) -> Stat {
    Stat {
        dev: ST_DEV,
        atime: born,
        mtime: born,
        ctime: born,
        ..plain_stat(meta)
    }
}

pub fn empty_statfs() -> Statfs {
    Statfs {
        bsize: 4096,
        frsize: 4096,
        namelen: NAME_MAX as i64,
        ..Statfs::default()
    }
}

/// The last word of a status with a birth time, for statx(2): what of these flags is told, and what could be.
pub fn told(flags: u32) -> i64 {
    1 | i64::from(flags & file_flags::TOLD) << 8 | i64::from(file_flags::TOLD) << 16
}

/// [`kind`] bits of a node of this mode, when nothing special is to be said.
pub fn default_kind(mode: u32) -> u64 {
    match mode & s::IFMT {
        s::IFREG => kind::SEEKABLE | kind::ALWAYS_READY,
        s::IFDIR => kind::SEEKABLE | kind::DIRECTORY | kind::ALWAYS_READY,
        _ => 0,
    }
}

/// The structure as the program wants it.
pub fn stat_bytes(stat: &Stat, out: &mut [u8; STAT_SIZE]) {
    let words = [
        stat.dev,
        stat.ino,
        stat.nlink,
        stat.mode as u64 | (stat.uid as u64) << 32,
        stat.gid as u64,
        stat.rdev,
        stat.size as u64,
        stat.blksize as u64,
        stat.blocks as u64,
        stat.atime as u64,
        stat.atime_ns as u64,
        stat.mtime as u64,
        stat.mtime_ns as u64,
        stat.ctime as u64,
        stat.ctime_ns as u64,
        stat.unused[0] as u64,
        stat.unused[1] as u64,
        stat.unused[2] as u64,
    ];
    for (place, word) in out.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

pub fn statfs_bytes(statfs: &Statfs, out: &mut [u8; STATFS_SIZE]) {
    let words = [
        statfs.kind as u64,
        statfs.bsize as u64,
        statfs.blocks,
        statfs.bfree,
        statfs.bavail,
        statfs.files,
        statfs.ffree,
        statfs.fsid[0] as u32 as u64 | (statfs.fsid[1] as u32 as u64) << 32,
        statfs.namelen as u64,
        statfs.frsize as u64,
        statfs.flags as u64,
        0,
        0,
        0,
        0,
    ];
    for (place, word) in out.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Linux's encoding of a device number, taken apart.
pub const fn major(dev: u64) -> u32 {
    ((dev >> 8) & 0xfff | (dev >> 32) & !0xfff) as u32
}

pub const fn minor(dev: u64) -> u32 {
    (dev & 0xff | (dev >> 12) & !0xff) as u32
}

/// Linux's encoding of a device number.
pub const fn makedev(major: u32, minor: u32) -> u64 {
    cairn_idl::device::number((major, minor))
}

/// The device that a name `MAJOR:MINOR` means.
pub fn device_number(name: &[u8]) -> Option<u64> {
    let (major, minor) = core::str::from_utf8(name).ok()?.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_laid_out_as_the_structure() {
        let stat = Stat {
            dev: 1,
            ino: 2,
            nlink: 3,
            mode: 4,
            uid: 5,
            gid: 6,
            pad0: 0,
            rdev: 7,
            size: 8,
            blksize: 9,
            blocks: 10,
            atime: 11,
            atime_ns: 12,
            mtime: 13,
            mtime_ns: 14,
            ctime: 15,
            ctime_ns: 16,
            unused: [17, 18, 1],
        };
        let mut bytes = [0xff; STAT_SIZE];
        stat_bytes(&stat, &mut bytes);
        assert_eq!(core::mem::size_of::<Stat>(), STAT_SIZE);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(core::mem::offset_of!(Stat, mode)), 4);
        assert_eq!(word(core::mem::offset_of!(Stat, uid)), 5);
        assert_eq!(word(core::mem::offset_of!(Stat, gid)), 6);
        assert_eq!(word(core::mem::offset_of!(Stat, rdev)), 7);
        assert_eq!(word(core::mem::offset_of!(Stat, ctime_ns)), 16);
        assert_eq!(word(core::mem::offset_of!(Stat, unused)), 17);
        assert_eq!(core::mem::size_of::<Statfs>(), STATFS_SIZE);
    }

    #[test]
    fn device_numbers_go_both_ways() {
        for (a, b) in [(1, 3), (5, 0), (4, 64), (0x1234, 0x56789)] {
            let dev = makedev(a, b);
            assert_eq!((major(dev), minor(dev)), (a, b));
        }
        assert_eq!(makedev(5, 1), 0x501);
    }
}
