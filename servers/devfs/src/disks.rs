//! What /dev shows of disks: names that their manager, `blockdev`, lists. Whoever opens one is led there.

use alloc::vec::Vec;
use cairn_idl::device;

/// The scheme of `blockdev`.
pub const SCHEME: &str = "block:";
/// The directory of what disks are called, which `blockdev` has as well.
const DIRECTORY: &[u8] = b"disk";

/// A name there: inode, type (as in a record of a directory), the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub ino: u64,
    pub kind: u8,
    pub name: Vec<u8>,
}

/// Whether a name is one that a disk or a partition may have, or the directory's.
pub fn may_be(name: &[u8]) -> bool {
    let Ok(name) = core::str::from_utf8(name) else {
        return false;
    };
    let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let looped = disk.strip_suffix('p').and_then(device::loop_number);
    name.as_bytes() == DIRECTORY
        || name == device::LOOP_CONTROL_NAME
        || device::disk(name, 0).is_some()
        || (disk.len() < name.len() && (device::disk(disk, 0).is_some() || looped.is_some()))
}

/// The names in these records (`linux_dirent64`), as far as they are whole, without `.` and `..`.
pub fn listed(mut records: &[u8], into: &mut Vec<Listed>) {
    while let Some(head) = records.first_chunk::<19>() {
        let length = u16::from_le_bytes([head[16], head[17]]).into();
        let Some((record, rest)) = records.split_at_checked(length) else {
            return;
        };
        let Some(name) = record.get(19..) else {
            return;
        };
        let end = name.iter().position(|&byte| byte == 0);
        let name = &name[..end.unwrap_or(name.len())];
        if !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') {
            let ino = core::array::from_fn(|i| head[i]);
            into.push(Listed {
                ino: u64::from_le_bytes(ino),
                kind: head[18],
                name: name.into(),
            });
        }
        records = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_resmgr::Dirents;
    use proptest::prelude::*;

    #[test]
    fn names_of_disks_are_known() {
        for name in ["vda", "vdz15", "sdb1", "ram0", "ram10", "disk"] {
            assert!(may_be(name.as_bytes()), "{name}");
        }
        for name in [
            "", "1", "vd", "vdaa", "vda1x", "ram", "disk1", "null", "sdz",
        ] {
            assert!(!may_be(name.as_bytes()), "{name}");
        }
        assert!(!may_be(b"vda\xff"));
    }

    #[test]
    fn records_are_names() {
        let mut records = [0; 200];
        let mut packed = Dirents::new(&mut records);
        for (ino, mode, name) in [(1, 0o40755, "."), (7, 0o60660, "vda"), (8, 0o40755, "disk")] {
            assert!(packed.add(ino, ino, mode, name.as_bytes()));
        }
        let length = packed.len();
        let mut names = Vec::new();
        listed(&records[..length], &mut names);
        let expected = [(7, 6, "vda"), (8, 4, "disk")].map(|(ino, kind, name)| Listed {
            ino,
            kind,
            name: name.into(),
        });
        assert_eq!(names, expected);
    }

    proptest! {
        #[test]
        fn whatever_comes_ends(records: Vec<u8>) {
            listed(&records, &mut Vec::new());
        }
    }
}
