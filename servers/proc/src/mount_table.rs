//! The table of names of a mount name space that is not the first one: what is mounted where, as SPACE_MOUNTS tells it.
//!
//! Mounts stand in the order in which they got their places. A later one hides the mount that had its name before, and what was mounted in that; when it goes
//! these are seen again. So the mount that a name leads into is the last one whose name it begins with. Each mount stands behind the one that it is mounted in.

use crate::prefix::{encode_entry, ENTRY, FSTYPE, NAME};
use crate::system::Errno;
use alloc::vec::Vec;
use cairn_idl::errno::{EINVAL, ELOOP, ENAMETOOLONG, ENOMEM, ENOSPC};
use cairn_idl::fs::{PREFIX_SERIAL_SHIFT, SPACE_MOUNTS_MOST, SPACE_MOUNT_STAYS};

const NUMBER_MOST: u32 = u32::MAX >> PREFIX_SERIAL_SHIFT;
/// How many changes are known. Who missed more of them reads all mounts again.
const RECENT: usize = 64;

#[derive(Debug)]
pub(crate) struct MountTable {
    mounts: Vec<Named>,
    /// Numbers that were given.
    made: u32,
    root: u32,
    /// How often it has changed, and the last of these changes. Of them so many are known.
    count: u64,
    recent: [Change; RECENT],
    known: u64,
}

impl Default for MountTable {
    fn default() -> Self {
        MountTable {
            mounts: Vec::new(),
            made: 0,
            root: 0,
            count: 0,
            recent: [Change::default(); RECENT],
            known: 0,
        }
    }
}

/// This mount came, went to another place, or is gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    number: u32,
    /// Only its flags are others.
    stays: bool,
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
        let mount = self.find(number)?;
        mount.flags = flags;
        let number = mount.number;
        self.note(&[number], true);
        Ok(())
    }

    /// How often it has changed.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn note(&mut self, numbers: &[u32], stays: bool) {
        for &number in numbers {
            self.recent[self.count as usize % RECENT] = Change { number, stays };
            self.count += 1;
        }
        self.known = (self.known + numbers.len() as u64).min(RECENT as u64);
    }

    /// Nothing is as it was.
    fn note_all(&mut self) {
        self.count += 1;
        self.known = 0;
    }

    /// What has changed since it had changed so often, in order, if that is known.
    pub fn changes(&self, since: u64) -> Option<impl ExactSizeIterator<Item = Change> + '_> {
        let missed = self.count.checked_sub(since)?;
        let all = 0..missed as usize;
        let change = move |n| self.recent[(since as usize + n) % RECENT];
        (since != 0 && missed <= self.known).then(|| all.map(change))
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
        self.note(&[number as u32], false);
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
        for mount in &taken {
            self.note(&[mount.number], false);
        }
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
        self.note_all();
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
        self.note(&tree, false);
        Ok(())
    }

    /// Its entries as SPACE_MOUNTS has them, into room for all of them.
    pub fn encode(&self, bytes: &mut [u8]) {
        for (mount, entry) in self.mounts.iter().zip(bytes.chunks_mut(ENTRY)) {
            mount.encode(entry);
        }
    }

    /// The same of a change.
    pub fn encode_change(&self, change: Change, entry: &mut [u8]) {
        let mut latest = self.mounts.iter().rev();
        match latest.find(|mount| mount.number == change.number) {
            Some(mount) => mount.encode(entry),
            None => encode_entry(entry, b"", b"", change.number << PREFIX_SERIAL_SHIFT),
        }
        if change.stays {
            entry[NAME..][..4].copy_from_slice(&SPACE_MOUNT_STAYS.to_le_bytes());
        }
    }
}

impl Named {
    fn encode(&self, entry: &mut [u8]) {
        let used = 1 | u32::from(self.flags) | self.number << PREFIX_SERIAL_SHIFT;
        let kind = self.fstype.iter().position(|byte| *byte == 0);
        let kind = &self.fstype[..kind.unwrap_or(FSTYPE)];
        encode_entry(entry, self.name.text(), kind, used);
    }

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

    /// Somebody who has read the table, and reads what has changed.
    #[derive(Default)]
    struct Reader {
        mounts: Vec<[u8; ENTRY]>,
        count: u64,
        /// How often he read all.
        whole: usize,
    }

    fn number(entry: &[u8]) -> u32 {
        let used = entry[NAME + 4..][..4].try_into().unwrap();
        u32::from_le_bytes(used) >> PREFIX_SERIAL_SHIFT
    }

    impl Reader {
        fn read(&mut self, t: &MountTable) {
            let mut all = alloc::vec![0; t.len() * ENTRY];
            t.encode(&mut all);
            let all = all.chunks_exact(ENTRY);
            let all: Vec<[u8; ENTRY]> = all.map(|entry| entry.try_into().unwrap()).collect();
            match t.changes(self.count) {
                None => {
                    self.mounts = all.clone();
                    self.whole += 1;
                }
                Some(changes) => changes.for_each(|change| self.change(t, change)),
            }
            self.count = t.count();
            assert_eq!(self.mounts, all);
        }

        fn change(&mut self, t: &MountTable, change: Change) {
            let mut entry = [0; ENTRY];
            t.encode_change(change, &mut entry);
            let mut mounts = self.mounts.iter();
            let at = mounts.position(|its| number(its) == number(&entry));
            if entry[NAME + 4] & 1 == 0 {
                at.map(|at| self.mounts.remove(at));
            } else if entry[NAME..][..4] == SPACE_MOUNT_STAYS.to_le_bytes() {
                let used = NAME + 4..NAME + 8;
                self.mounts[at.unwrap()][used.clone()].copy_from_slice(&entry[used]);
            } else {
                at.map(|at| self.mounts.remove(at));
                self.mounts.push(entry);
            }
        }
    }

    #[test]
    fn who_missed_too_much_or_says_what_was_never_told_reads_all() {
        let mut t = table(&["", "/a"]);
        let count = |t: &MountTable, since| t.changes(since).map(|changes| changes.len());
        assert_eq!((count(&t, 0), count(&t, 1)), (None, Some(1)));
        assert_eq!((count(&t, 2), count(&t, 3)), (Some(0), None));
        assert_eq!(count(&t, u64::MAX), None);
        for _ in 0..RECENT {
            t.set_flags(2, 2).unwrap();
        }
        assert_eq!((count(&t, 2), count(&t, 1)), (Some(RECENT), None));
        t.turn(2, b"/old").unwrap();
        assert_eq!(count(&t, t.count() - 1), None);
        assert_eq!(count(&t, t.count()), Some(0));
    }

    /// A reader of the entries finds out in which mount each one lies, and its server knows no better. Who reads what has changed has the same.
    #[test]
    fn the_order_says_what_lies_in_what() {
        let mut seed = 7u64;
        let mut random = |most: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) as usize % most
        };
        let mut t = table(&[""]);
        let mut reader = Reader::default();
        let mut whole = 0;
        for _ in 0..20_000 {
            let parts = ["/a", "/b", "/ab"];
            let mut name = String::new();
            (0..1 + random(3)).for_each(|_| name.push_str(parts[random(3)]));
            let number = match t.mounts.get(random(20)) {
                Some(mount) => mount.number.into(),
                None => t.number().unwrap().into(),
            };
            let _ = match random(13) {
                0..8 => t.name(number, name.as_bytes(), (b"", 0)),
                8..11 => t.forget(number),
                11 => t.set_flags(number, random(2) as u8 * 16),
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
            if random(6) == 0 {
                reader.read(&t);
            }
            if t.mounts.len() > 40 {
                t = table(&[""]);
                whole += core::mem::take(&mut reader).whole;
            }
        }
        whole += reader.whole;
        assert!(whole > 10 && whole < 1_800, "{whole} times all was read");
    }
}
