//! The table of names of a mount name space that is not the first one: what is mounted where, as SPACE_MOUNTS tells it.
//!
//! Mounts stand in the order in which they got their places. A later one hides the mount that had its name before, and what was mounted in that; when it goes
//! these are seen again. So the mount that a name leads into is the last one whose name it begins with. Each mount stands behind the one that it is mounted in.

use crate::prefix::{encode_entry, ENTRY, FSTYPE, NAME};
use crate::system::Errno;
use alloc::vec::Vec;
use cairn_idl::errno::{EINVAL, ELOOP, ENAMETOOLONG, ENOMEM, ENOSPC};
use cairn_idl::fs::{PREFIX_SERIAL_SHIFT, SPACE_MOUNTS_MOST};

const NUMBER_MOST: u32 = u32::MAX >> PREFIX_SERIAL_SHIFT;

#[derive(Debug, Default)]
pub(crate) struct MountTable {
    mounts: Vec<Named>,
    /// Numbers that were given.
    made: u32,
    root: u32,
}

#[derive(Debug)]
struct Named {
    number: u32,
    /// The mount that its place is in; 0: none.
    above: u32,
    name: Name,
    fstype: [u8; FSTYPE],
    flags: u8,
}

/// A name that takes no memory beside the table's.
#[derive(Clone, Copy, Debug)]
struct Name {
    bytes: [u8; NAME],
    length: u8,
}

impl Name {
    /// These parts, one behind the other. (A name that is as long as the field has no room in an entry.)
    fn of(parts: [&[u8]; 2]) -> Result<Name, Errno> {
        let [first, second] = parts;
        let length = first.len() + second.len();
        if length >= NAME {
            return Err(ENAMETOOLONG);
        }
        let mut bytes = [0; NAME];
        bytes[..first.len()].copy_from_slice(first);
        bytes[first.len()..length].copy_from_slice(second);
        let length = length as u8;
        Ok(Name { bytes, length })
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What of a name is left below this place: empty, or with a slash.
pub(crate) fn below<'a>(name: &'a [u8], place: &[u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(place)?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

impl MountTable {
    pub fn len(&self) -> usize {
        self.mounts.len()
    }

    /// The number of the mount that is the name space's root.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// A number that no other mount has.
    pub fn number(&mut self) -> Result<u32, Errno> {
        if self.made >= NUMBER_MOST {
            return Err(ENOSPC);
        }
        self.made += 1;
        Ok(self.made)
    }

    pub fn was_given(&self, number: u64) -> bool {
        number != 0 && number <= u64::from(self.made)
    }

    fn find(&mut self, number: u64) -> Result<&mut Named, Errno> {
        let mut all = self.mounts.iter_mut();
        all.find(|mount| u64::from(mount.number) == number)
            .ok_or(EINVAL)
    }

    pub fn has(&self, number: u64) -> bool {
        let mut all = self.mounts.iter();
        all.any(|mount| u64::from(mount.number) == number)
    }

    pub fn set_flags(&mut self, number: u64, flags: u8) -> Result<(), Errno> {
        self.find(number)?.flags = flags;
        Ok(())
    }

    /// The mount that a name leads into; 0: none.
    fn holder(&self, name: &[u8]) -> u32 {
        let mut latest = self.mounts.iter().rev();
        let found = latest.find(|mount| below(name, mount.name.text()).is_some());
        found.map_or(0, |mount| mount.number)
    }

    /// A mount and all that are mounted in it, in order of their numbers.
    fn tree(&self, number: u32) -> Result<Vec<u32>, Errno> {
        let mut numbers = Vec::new();
        let reserved = numbers.try_reserve_exact(self.mounts.len());
        reserved.map_err(|_| ENOMEM)?;
        for mount in &self.mounts {
            if mount.number == number || numbers.binary_search(&mount.above).is_ok() {
                let at = numbers.partition_point(|other| *other < mount.number);
                numbers.insert(at, mount.number);
            }
        }
        Ok(numbers)
    }

    /// Take these out (in order of their numbers). ENOMEM: nothing has changed.
    fn take(&mut self, numbers: &[u32]) -> Result<Vec<Named>, Errno> {
        let mut taken = Vec::new();
        let reserved = taken.try_reserve_exact(numbers.len());
        reserved.map_err(|_| ENOMEM)?;
        let its = |mount: &mut Named| numbers.binary_search(&mount.number).is_ok();
        taken.extend(self.mounts.extract_if(.., its));
        Ok(taken)
    }

    /// A mount has this name from now on; if it had another one what is mounted in it goes along. What had a name there is hidden.
    pub fn name(
        &mut self,
        number: u64,
        name: &[u8],
        (fstype, flags): (&[u8], u8),
    ) -> Result<(), Errno> {
        if self.find(number).is_ok() {
            return self.go(number as u32, name);
        }
        let mut kind = [0; FSTYPE];
        let field = kind.get_mut(..fstype.len()).ok_or(ENAMETOOLONG)?;
        field.copy_from_slice(fstype);
        if self.mounts.len() >= SPACE_MOUNTS_MOST {
            return Err(ENOSPC);
        }
        self.mounts.try_reserve(1).map_err(|_| ENOSPC)?;
        self.mounts.push(Named {
            number: number as u32,
            above: self.holder(name),
            name: Name::of([name, b""])?,
            fstype: kind,
            flags,
        });
        Ok(())
    }

    fn go(&mut self, number: u32, name: &[u8]) -> Result<(), Errno> {
        let old = self.find(number.into())?.name;
        if self.root == number || name.is_empty() {
            return Err(EINVAL);
        }
        let tree = self.tree(number)?;
        let above = self.holder(name);
        if tree.binary_search(&above).is_ok() {
            return Err(ELOOP);
        }
        let its = |mount: &&Named| tree.binary_search(&mount.number).is_ok();
        for mount in self.mounts.iter().filter(its) {
            Name::of([name, mount.rest(&old)])?;
        }
        let mut taken = self.take(&tree)?;
        for mount in &mut taken {
            mount.name = Name::of([name, mount.rest(&old)])?;
        }
        taken[0].above = above;
        self.mounts.append(&mut taken);
        Ok(())
    }

    /// The mount with this number is the root: what is mounted in it is named from there, everything else below `old`, or not at all.
    pub fn turn(&mut self, number: u64, old: &[u8]) -> Result<(), Errno> {
        let new = self.find(number)?.name;
        let number = number as u32;
        let tree = self.tree(number)?;
        let is_inside = |mount: &Named| tree.binary_search(&mount.number).is_ok();
        let renamed = |mount: &Named| match is_inside(mount) {
            true => Name::of([mount.rest(&new), b""]),
            false => Name::of([old, mount.name.text()]),
        };
        for mount in &self.mounts {
            if is_inside(mount) || !old.is_empty() {
                renamed(mount)?;
            }
        }
        let mut inside = Vec::new();
        let reserved = inside.try_reserve_exact(self.mounts.len());
        reserved.map_err(|_| ENOMEM)?;
        inside.extend(self.mounts.extract_if(.., |mount| is_inside(mount)));
        let mut outside = core::mem::replace(&mut self.mounts, inside);
        for mount in &mut self.mounts {
            mount.name = renamed(mount)?;
        }
        self.mounts[0].above = 0;
        let before = core::mem::replace(&mut self.root, number);
        if old.is_empty() {
            return Ok(());
        }
        let above = self.holder(old);
        for mount in &mut outside {
            mount.name = renamed(mount)?;
            if mount.number == before {
                mount.above = above;
            }
        }
        self.mounts.append(&mut outside);
        Ok(())
    }

    /// A mount and all that are mounted in it have no names any more.
    pub fn forget(&mut self, number: u64) -> Result<(), Errno> {
        self.find(number)?;
        if u64::from(self.root) == number {
            return Err(EINVAL);
        }
        let tree = self.tree(number as u32)?;
        self.mounts
            .retain(|mount| tree.binary_search(&mount.number).is_err());
        Ok(())
    }

    /// Its entries as SPACE_MOUNTS has them, into room for all of them.
    pub fn encode(&self, bytes: &mut [u8]) {
        for (mount, entry) in self.mounts.iter().zip(bytes.chunks_mut(ENTRY)) {
            let used = 1 | u32::from(mount.flags) | mount.number << PREFIX_SERIAL_SHIFT;
            let kind = mount.fstype.iter().position(|byte| *byte == 0);
            let kind = &mount.fstype[..kind.unwrap_or(FSTYPE)];
            encode_entry(entry, mount.name.text(), kind, used);
        }
    }
}

impl Named {
    /// What its name has behind that of the mount that it goes along with.
    fn rest(&self, name: &Name) -> &[u8] {
        let text = self.name.text();
        text.get(usize::from(name.length)..).unwrap_or(b"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn table(names: &[&str]) -> MountTable {
        let mut table = MountTable::default();
        for name in names {
            let number = table.number().unwrap().into();
            let kind = (&b"tmpfs"[..], 0);
            table.name(number, name.as_bytes(), kind).unwrap();
        }
        table.root = 1;
        table
    }

    fn names(table: &MountTable) -> Vec<(u32, String)> {
        let name = |mount: &Named| String::from_utf8(mount.name.text().to_vec()).unwrap();
        let all = table.mounts.iter();
        all.map(|mount| (mount.number, name(mount))).collect()
    }

    fn named<const N: usize>(names: [(u32, &str); N]) -> Vec<(u32, String)> {
        names.map(|(number, name)| (number, name.into())).to_vec()
    }

    #[test]
    fn what_is_hidden_stays_where_it_is() {
        // A mount, one in it, another one on it, and one in that.
        let mut t = table(&["", "/a", "/a/x", "/a", "/a/x", "/b"]);
        assert_eq!(t.holder(b"/a/x/y"), 5);
        assert_eq!((t.holder(b"/a/z"), t.holder(b"/ab")), (4, 1));
        // The upper one moves, with what is mounted in it and nothing else.
        t.name(4, b"/b/c", (b"", 0)).unwrap();
        let expected = [
            (1, ""),
            (2, "/a"),
            (3, "/a/x"),
            (6, "/b"),
            (4, "/b/c"),
            (5, "/b/c/x"),
        ];
        assert_eq!(names(&t), named(expected));
        assert_eq!((t.holder(b"/a/x"), t.holder(b"/b/c/x/1")), (3, 5));
        // And hides something else, until it goes.
        t.name(4, b"/a", (b"", 0)).unwrap();
        assert_eq!((t.holder(b"/a/x"), t.holder(b"/a")), (5, 4));
        t.forget(4).unwrap();
        assert_eq!((t.holder(b"/a/x"), t.holder(b"/a")), (3, 2));
        // The lower one goes under what hides it, and hidden ones go along with what they are in.
        let mut t = table(&["", "/a", "/a/b", "/a/b/c", "/a/b"]);
        t.name(2, b"/z", (b"", 0)).unwrap();
        let expected = [(1, ""), (2, "/z"), (3, "/z/b"), (4, "/z/b/c"), (5, "/z/b")];
        assert_eq!(names(&t), named(expected));
        assert_eq!(t.holder(b"/z/b/c"), 5);
    }

    #[test]
    fn nothing_goes_into_itself_or_changes_when_it_fails() {
        let mut t = table(&["", "/a", "/a/x", "/b"]);
        let before = names(&t);
        let long = [&b"/"[..], &[b'n'; 61]].concat();
        for (number, name, errno) in [
            (2, &b"/a/x/y"[..], ELOOP),
            (2, b"/a", ELOOP),
            (2, b"", EINVAL),
            (1, b"/b", EINVAL),
            (2, &long, ENAMETOOLONG),
        ] {
            assert_eq!(t.name(number, name, (b"", 0)), Err(errno));
        }
        assert_eq!(t.forget(1), Err(EINVAL));
        assert_eq!(t.forget(9), Err(EINVAL));
        assert_eq!(t.turn(2, &long), Err(ENAMETOOLONG));
        assert_eq!(names(&t), before);
    }

    #[test]
    fn the_old_root_lies_in_the_new_one() {
        let mut t = table(&["", "/new", "/new/usr", "/proc", "/new", "/new/usr"]);
        t.turn(5, b"/old").unwrap();
        let expected = [
            (5, ""),
            (6, "/usr"),
            (1, "/old"),
            (2, "/old/new"),
            (3, "/old/new/usr"),
            (4, "/old/proc"),
        ];
        assert_eq!(names(&t), named(expected));
        assert_eq!((t.holder(b"/usr"), t.holder(b"/old/x")), (6, 1));
        t.forget(1).unwrap();
        assert_eq!(names(&t), named([(5, ""), (6, "/usr")]));
    }

    /// A reader of the entries finds out in which mount each one lies, and its server knows no better.
    #[test]
    fn the_order_says_what_lies_in_what() {
        let mut seed = 7u64;
        let mut random = |most: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) as usize % most
        };
        let mut t = table(&[""]);
        for _ in 0..20_000 {
            let parts = ["/a", "/b", "/ab"];
            let mut name = String::new();
            (0..1 + random(3)).for_each(|_| name.push_str(parts[random(3)]));
            let number = match t.mounts.get(random(20)) {
                Some(mount) => mount.number.into(),
                None => t.number().unwrap().into(),
            };
            let _ = match random(12) {
                0..8 => t.name(number, name.as_bytes(), (b"", 0)),
                8..11 => t.forget(number),
                _ => t.turn(number, [&b""[..], name.as_bytes()][random(2)]),
            };
            let Some((first, others)) = t.mounts.split_first() else {
                panic!("there is no root");
            };
            assert!(first.number == t.root && first.above == 0 && first.name.length == 0);
            for (at, mount) in others.iter().enumerate() {
                let before = t.mounts[..=at].iter().rev();
                let name = mount.name.text();
                let mut above = before.filter(|other| below(name, other.name.text()).is_some());
                assert_eq!(above.next().map(|other| other.number), Some(mount.above));
            }
            if t.mounts.len() > 40 {
                t = table(&[""]);
            }
        }
    }
}
