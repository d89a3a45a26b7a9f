//! Interfaces between servers and their clients. Each is a definition file beside (`idl/*.idl`, see docs/guide/interfaces.md), from which the modules here are made: operation numbers,
//! constants, structures in parts, client stubs, and for interfaces that are not served by hand the server's trait and dispatcher.
//!
//! Conventions of every interface: request w0 = operation; reply w0 = result, negative = −errno (Linux numbers, [`errno`]).
//! A request's path and data travel in its out part, answers larger than words in its in part. The caller is known by the domain id that
//! the nucleus delivers, its effective user and group by the label ([`label`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

// Generated code says `::cairn_idl`, here as everywhere.
extern crate self as cairn_idl;

pub mod stat_words;
pub mod wire;

include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));

/// The label of a Linux process's domain: effective uid in bits 0..32, effective gid in bits 32..64. Native components have label 0 (root).
pub mod label {
    pub const fn make(uid: u32, gid: u32) -> u64 {
        uid as u64 | (gid as u64) << 32
    }
    pub const fn uid(label: u64) -> u32 {
        label as u32
    }
    pub const fn gid(label: u64) -> u32 {
        (label >> 32) as u32
    }
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
    /// st_dev of everything below /sys.
    pub const SYS_ST_DEV: u64 = 6;

    /// Minor numbers of each disk: itself and its partitions.
    pub const MINORS: u32 = 16;

    /// Major and minor number of a disk (partition 0) or a partition of it, by the disk's name below /dev, as Linux gives them: `vda` (virtio), `sda`, `ram0`.
    pub fn disk(name: &str, partition: u32) -> Option<(u32, u32)> {
        if let Some(number) = name.strip_prefix("ram") {
            let number = number.parse::<u8>().ok().filter(|_| partition == 0)?;
            return Some((1, u32::from(number)));
        }
        let (major, letter) = match name.as_bytes() {
            [b'v', b'd', letter @ b'a'..=b'z'] => (254, letter - b'a'),
            [b's', b'd', letter @ b'a'..=b'p'] => (8, letter - b'a'),
            _ => return None,
        };
        (partition < MINORS).then_some((major, u32::from(letter) * MINORS + partition))
    }
}

#[cfg(test)]
mod tests {
    use super::proc::{Credentials, Status};
    use core::mem::offset_of;

    #[test]
    fn disks_have_numbers_by_their_names() {
        use super::device::disk;
        assert_eq!(disk("vdc", 3), Some((254, 35)));
        assert_eq!(disk("ram2", 0), Some((1, 2)));
        assert_eq!(disk("sdb", 1), Some((8, 17)));
        for (name, partition) in [("ram0", 1), ("vda", 16), ("vdaa", 0), ("ram", 0), ("x", 0)] {
            assert_eq!(disk(name, partition), None);
        }
    }

    #[test]
    fn structures_travel_with_the_layout_that_they_have_in_memory() {
        let mut bytes = [0u8; Status::BYTES];
        bytes[0..4].copy_from_slice(&42u32.to_le_bytes());
        let at = offset_of!(Status, comm);
        bytes[at..at + 2].copy_from_slice(b"sh");
        let at = offset_of!(Status, creds) + offset_of!(Credentials, groups) + 4;
        bytes[at..at + 4].copy_from_slice(&7u32.to_le_bytes());
        let at = offset_of!(Status, nice);
        bytes[at..at + 4].copy_from_slice(&(-5i32).to_le_bytes());
        let at = offset_of!(Status, start);
        bytes[at..at + 8].copy_from_slice(&0x1_0000_0002u64.to_le_bytes());
        let status = Status::from_bytes(&bytes);
        assert_eq!((status.pid, status.nice), (42, -5));
        assert_eq!(&status.comm[..3], b"sh\0");
        assert_eq!(status.creds.groups[1], 7);
        assert_eq!(status.start, 0x1_0000_0002);
        assert_eq!(status.to_bytes(), bytes);
    }
}
