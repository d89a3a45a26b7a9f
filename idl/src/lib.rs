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

#[cfg(not(target_os = "none"))]
pub mod fake;
pub mod stat_words;
pub mod wire;

include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));

/// Where a program's first stack has its environment and auxiliary vector, in a word (`proc::EXEC`): distances below the stack's top.
pub mod first_stack {
    /// Behind AT_NULL, with which an auxiliary vector ends.
    pub fn vector_end(vector: &[u8]) -> Option<usize> {
        let mut entries = vector.as_chunks::<16>().0.iter();
        let at = entries.position(|entry| entry[..8] == [0; 8])?;
        Some(16 * (at + 1))
    }

    /// Bits of the first two fields; the last one has the rest.
    const END: u32 = 16;
    const LENGTH: u32 = 24;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Places {
        /// From the environment's end to the top, and its length.
        pub environment_end: u64,
        pub environment_length: u64,
        /// From the auxiliary vector's begin to the top.
        pub auxiliary: u64,
    }

    impl Places {
        /// 0 if one of them is too large.
        pub fn word(&self) -> u64 {
            let fits = self.environment_end >> END == 0
                && self.environment_length >> LENGTH == 0
                && self.auxiliary >> (64 - END - LENGTH) == 0;
            let length = self.environment_length << END;
            let auxiliary = self.auxiliary << (END + LENGTH);
            if fits {
                self.environment_end | length | auxiliary
            } else {
                0
            }
        }

        pub fn from_word(word: u64) -> Places {
            Places {
                environment_end: word & ((1 << END) - 1),
                environment_length: word >> END & ((1 << LENGTH) - 1),
                auxiliary: word >> (END + LENGTH),
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{vector_end, Places};

        #[test]
        fn an_auxiliary_vector_ends_behind_its_null() {
            let mut vector = [1; 64];
            assert_eq!(vector_end(&vector), None);
            vector[16..32].copy_from_slice(&[0; 16]);
            assert_eq!(vector_end(&vector), Some(32));
        }

        #[test]
        fn places_are_a_word_if_they_fit() {
            let places = Places {
                environment_end: 4113,
                environment_length: 2 << 20,
                auxiliary: 5 << 20,
            };
            assert_eq!(Places::from_word(places.word()), places);
            let far = Places {
                auxiliary: 1 << 24,
                ..places
            };
            assert_eq!(far.word(), 0);
        }
    }
}

/// The domain name (uname(2)) until there is another.
pub const NO_DOMAIN_NAME: &[u8] = b"(none)";

/// Linux's capabilities, by number (capabilities(7)).
pub mod capability {
    pub const CHOWN: u32 = 0;
    pub const DAC_OVERRIDE: u32 = 1;
    pub const DAC_READ_SEARCH: u32 = 2;
    pub const FOWNER: u32 = 3;
    pub const FSETID: u32 = 4;
    pub const KILL: u32 = 5;
    pub const SETGID: u32 = 6;
    pub const SETUID: u32 = 7;
    pub const SETPCAP: u32 = 8;
    pub const NET_BIND_SERVICE: u32 = 10;
    pub const NET_ADMIN: u32 = 12;
    pub const NET_RAW: u32 = 13;
    pub const SYS_MODULE: u32 = 16;
    pub const SYS_RAWIO: u32 = 17;
    pub const SYS_CHROOT: u32 = 18;
    pub const SYS_PTRACE: u32 = 19;
    pub const AUDIT_CONTROL: u32 = 30;
    pub const SETFCAP: u32 = 31;
    pub const SYS_PACCT: u32 = 20;
    pub const SYS_ADMIN: u32 = 21;
    pub const SYS_BOOT: u32 = 22;
    pub const SYS_NICE: u32 = 23;
    pub const IPC_LOCK: u32 = 14;
    pub const SYS_RESOURCE: u32 = 24;
    pub const SYS_TIME: u32 = 25;
    pub const SYS_TTY_CONFIG: u32 = 26;
    pub const MKNOD: u32 = 27;
    pub const WAKE_ALARM: u32 = 35;
    pub const CHECKPOINT_RESTORE: u32 = 40;
    pub const LAST: u32 = 40;

    /// All of them, as a set.
    pub const ALL: u64 = (1 << (LAST + 1)) - 1;

    /// prctl(2)'s options for them.
    pub mod option {
        pub const GET_KEEPCAPS: u64 = 7;
        pub const SET_KEEPCAPS: u64 = 8;
        pub const CAPBSET_READ: u64 = 23;
        pub const CAPBSET_DROP: u64 = 24;
        pub const GET_SECUREBITS: u64 = 27;
        pub const SET_SECUREBITS: u64 = 28;
        pub const CAP_AMBIENT: u64 = 47;
    }

    /// What the attribute `security.capability` of a file says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FileCapabilities {
        pub permitted: u64,
        pub inheritable: u64,
        pub effective: bool,
    }

    /// The attribute's name.
    pub const ATTRIBUTE: &[u8] = b"security.capability";
    /// Its longest form.
    pub const ATTRIBUTE_MAX: usize = 24;
    const REVISION: u32 = 0xff00_0000;
    const EFFECTIVE: u32 = 1;

    fn word(value: &[u8], index: usize) -> Option<u32> {
        let bytes = value.get(4 * index..4 * index + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The form in which it may be set: the second, or the third, which names a user name space by its root.
    pub fn is_file_attribute(value: &[u8]) -> bool {
        let revision = word(value, 0).map(|first| (first & REVISION) >> 24);
        matches!((revision, value.len()), (Some(2), 20) | (Some(3), 24))
    }

    /// None: it says nothing here, also where it is for the programs of another user name space.
    pub fn of_file(value: &[u8]) -> Option<FileCapabilities> {
        let first = word(value, 0)?;
        let set = |low: usize, high: Option<usize>| {
            let high = match high {
                Some(index) => word(value, index)?,
                None => 0,
            };
            Some((u64::from(word(value, low)?) | u64::from(high) << 32) & ALL)
        };
        let (permitted, inheritable) = match ((first & REVISION) >> 24, value.len()) {
            (1, 12) => (set(1, None)?, set(2, None)?),
            (2, 20) => (set(1, Some(3))?, set(2, Some(4))?),
            (3, 24) if word(value, 5) == Some(0) => (set(1, Some(3))?, set(2, Some(4))?),
            _ => return None,
        };
        Some(FileCapabilities {
            permitted,
            inheritable,
            effective: first & EFFECTIVE != 0,
        })
    }
}

impl proc::Credentials {
    /// The effective set has this capability, and it is for the whole system.
    pub fn has(&self, capability: u32) -> bool {
        self.user_space == 0 && self.has_inside(capability)
    }

    /// It has it in its user name space.
    pub fn has_inside(&self, capability: u32) -> bool {
        self.effective & 1 << capability != 0
    }
}

/// The label of a Linux process's domain: effective uid in bits 0..32, effective gid in bits 32..60, and in bits 60..64 the privileges in which the process is not as its user:
/// user 0 has all of them, others none. Native components have label 0 (root).
pub mod label {
    use crate::capability;

    /// Owners of files, of whatever they are.
    pub const CHOWN: u64 = 1 << 60;
    /// Modes of files do not bind.
    pub const ACCESS: u64 = 1 << 61;
    /// What is a file's owner's.
    pub const OWNER: u64 = 1 << 62;
    /// What is the administrator's: mounts, device nodes, what is kept for him.
    pub const SYSTEM: u64 = 1 << 63;

    /// The capabilities that each asks for: who lacks one of them does not have it.
    const ASKED: [(u64, u64); 4] = [
        (CHOWN, 1 << capability::CHOWN),
        (ACCESS, 1 << capability::DAC_OVERRIDE),
        (OWNER, 1 << capability::FOWNER | 1 << capability::FSETID),
        (SYSTEM, 1 << capability::SYS_ADMIN | 1 << capability::MKNOD),
    ];

    /// Larger groups do not fit.
    pub const GID_MAX: u32 = (1 << 27) - 1;
    /// The process is in a group of processes (cgroup), which pays in its user's place ([`crate::vm::ACCOUNT_OF`]).
    pub const GROUPED: u64 = 1 << 59;

    /// Privileged as the user is.
    pub const fn make(uid: u32, gid: u32) -> u64 {
        uid as u64 | ((gid & GID_MAX) as u64) << 32
    }
    /// Privileged as these capabilities are.
    pub fn with(uid: u32, gid: u32, capabilities: u64) -> u64 {
        let differs = |asked: u64| (capabilities & asked == asked) != (uid == 0);
        ASKED
            .iter()
            .filter(|(_, asked)| differs(*asked))
            .fold(make(uid, gid), |label, (privilege, _)| label | privilege)
    }
    pub const fn uid(label: u64) -> u32 {
        label as u32
    }
    pub const fn gid(label: u64) -> u32 {
        (label >> 32) as u32 & GID_MAX
    }
    #[inline(always)]
    pub const fn has(label: u64, privilege: u64) -> bool {
        (uid(label) == 0) != (label & privilege != 0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::capability::{ALL, DAC_OVERRIDE, FOWNER, MKNOD};

        #[test]
        fn privileges_are_the_capabilities_and_not_the_user() {
            for (uid, capabilities, expected) in [
                (0, ALL, [true; 4]),
                (5, 0, [false; 4]),
                (0, 0, [false; 4]),
                (5, ALL, [true; 4]),
                (0, ALL & !(1 << MKNOD), [true, true, true, false]),
                (0, ALL & !(1 << FOWNER), [true, true, false, true]),
                (5, 1 << DAC_OVERRIDE, [false, true, false, false]),
            ] {
                let label = with(uid, 77, capabilities);
                assert_eq!((super::uid(label), gid(label)), (uid, 77));
                let found = [CHOWN, ACCESS, OWNER, SYSTEM].map(|each| has(label, each));
                assert_eq!(found, expected, "{uid} {capabilities:x}");
            }
            assert_eq!(with(0, 3, ALL), make(0, 3));
            assert_eq!(with(7, GID_MAX, 0), make(7, GID_MAX));
        }
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

    /// Major numbers of loop devices, and of their partitions.
    pub const LOOP: u32 = 7;
    pub const LOOP_PARTITIONS: u32 = 259;
    /// `/dev/loop-control`.
    pub const LOOP_CONTROL: (u32, u32) = (10, 237);
    pub const LOOP_CONTROL_NAME: &str = "loop-control";

    /// The number of a loop device by its name, `loop12`.
    pub fn loop_number(name: &str) -> Option<u32> {
        let digits = name.strip_prefix("loop")?;
        let plain = digits == "0" || !digits.starts_with(['0', '+']);
        let number = digits.parse().ok().filter(|_| plain)?;
        (u64::from(number) <= crate::loops::NUMBER_MOST).then_some(number)
    }

    /// The loop device on which a file system with this st_dev lies, or on a partition of it.
    pub fn loop_of(st_dev: u64) -> Option<u32> {
        let major = (st_dev >> 8 & 0xfff | st_dev >> 32 & !0xfff) as u32;
        let minor = (st_dev & 0xff | st_dev >> 12 & !0xff) as u32;
        match major {
            LOOP => Some(minor),
            LOOP_PARTITIONS => Some(minor / MINORS),
            _ => None,
        }
    }

    /// The number of a device, as Linux's `makedev`.
    pub const fn number((major, minor): (u32, u32)) -> u64 {
        let (major, minor) = (major as u64, minor as u64);
        minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
    }

    /// What stands between a disk's name and a partition's number: disks whose name ends with a digit have a letter there.
    pub fn partition_mark(disk: &str) -> &'static str {
        match disk.ends_with(|c: char| c.is_ascii_digit()) {
            true => "p",
            false => "",
        }
    }

    /// Major and minor number of a disk (partition 0) or a partition of it, by the disk's name below /dev, as Linux gives them: `vda` (virtio), `sda`, `ram0`.
    pub fn disk(name: &str, partition: u32) -> Option<(u32, u32)> {
        if let Some(number) = name.strip_prefix("ram") {
            let number = number.parse::<u8>().ok().filter(|_| partition == 0)?;
            return Some((1, u32::from(number)));
        }
        if let Some(number) = loop_number(name) {
            return match partition {
                0 => Some((LOOP, number)),
                // Linux numbers them as they come; here each device has numbers of its own.
                1..MINORS => Some((LOOP_PARTITIONS, number * MINORS + partition)),
                _ => None,
            };
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

    /// docs/identity.md tells of each operation who may ask it.
    #[test]
    fn every_operation_is_in_the_table_of_who_may_ask_it() {
        let page = include_str!("../../docs/identity.md");
        let said: std::collections::BTreeSet<&str> = page
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .collect();
        for (interface, text) in [
            ("proc", include_str!("../proc.idl")),
            ("vm", include_str!("../vm.idl")),
            ("fs", include_str!("../fs.idl")),
            ("event", include_str!("../event.idl")),
            ("local", include_str!("../local.idl")),
            ("mounts", include_str!("../mounts.idl")),
            ("components", include_str!("../components.idl")),
            ("block", include_str!("../block.idl")),
            ("loops", include_str!("../loops.idl")),
            ("pci", include_str!("../pci.idl")),
        ] {
            let operations = text.lines().filter_map(|line| line.strip_prefix("op "));
            for name in operations.filter_map(|rest| rest.split(' ').next()) {
                assert!(said.contains(name), "{interface} {name}");
            }
        }
    }

    #[test]
    fn disks_have_numbers_by_their_names() {
        use super::device::disk;
        assert_eq!(disk("vdc", 3), Some((254, 35)));
        assert_eq!(disk("ram2", 0), Some((1, 2)));
        assert_eq!(disk("sdb", 1), Some((8, 17)));
        assert_eq!(disk("loop12", 0), Some((7, 12)));
        assert_eq!(disk("loop12", 3), Some((259, 195)));
        for (name, partition) in [
            ("loop0", 0),
            ("loop7", 15),
            ("loop300", 0),
            ("loop70000", 1),
        ] {
            let st_dev = super::device::number(disk(name, partition).unwrap());
            let found = super::device::loop_of(st_dev);
            assert_eq!(found.map(|n| format!("loop{n}")), Some(name.to_string()));
        }
        assert_eq!(
            super::device::loop_of(super::device::number((254, 3))),
            None
        );
        for name in [
            "loop",
            "loop01",
            "loop+1",
            "loop1p1",
            "loop-control",
            "loop1048576",
        ] {
            assert_eq!(disk(name, 0), None, "{name}");
        }
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
