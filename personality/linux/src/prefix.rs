//! The longest prefix of a name: which mounted manager serves it, and what of the name is left for it.

use alloc::vec::Vec;

/// A copy of the published table, longest names first.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    version: u64,
    /// Names that begin with a slash, and the root's, which is empty.
    absolute: Vec<Entry>,
    schemes: Vec<Entry>,
    /// All of these, one after the other: a child that shares memory has a copy of its own, which is three pieces so.
    names: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The name's first bytes ([`head`]), and which of a name's must be equal to them: that settles most cases.
    head: u64,
    mask: u64,
    index: u32,
    /// Which of all mounts that ever were.
    serial: u32,
    /// Where its name is among all.
    start: u32,
    length: u32,
}

impl Entry {
    #[inline(always)]
    fn name<'a>(&self, names: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize;
        names
            .get(start..start + self.length as usize)
            .unwrap_or_default()
    }
}

/// The first eight bytes of a name as a word, with zeros behind its end.
#[inline(always)]
fn head(name: &[u8]) -> u64 {
    match name.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..name.len()].copy_from_slice(name);
            u64::from_le_bytes(bytes)
        }
    }
}

/// The bits of a [`head`] that hold the first `length` bytes.
const fn mask(length: usize) -> u64 {
    match length {
        0 => 0,
        1..8 => u64::MAX >> (64 - 8 * length),
        _ => u64::MAX,
    }
}

/// Bytes of a name, as they are mostly.
const SHORT: usize = 16;

impl Prefixes {
    /// With room for so many mounts whose names are short.
    pub fn new(version: u64, count: usize) -> Prefixes {
        Prefixes {
            version,
            absolute: Vec::with_capacity(count),
            schemes: Vec::with_capacity(count),
            names: Vec::with_capacity(count * SHORT),
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn add(&mut self, index: u32, serial: u32, name: &[u8]) {
        let list = match name.first() {
            None | Some(b'/') => &mut self.absolute,
            Some(_) => &mut self.schemes,
        };
        let at = list.partition_point(|e| e.length as usize >= name.len());
        let entry = Entry {
            head: head(name),
            mask: mask(name.len()),
            index,
            serial,
            start: self.names.len() as u32,
            length: name.len() as u32,
        };
        list.insert(at, entry);
        self.names.extend_from_slice(name);
    }

    /// The indices of all managers of files with names.
    pub fn managers(&self) -> impl Iterator<Item = u32> + '_ {
        self.absolute.iter().map(|entry| entry.index)
    }

    /// Which of all mounts with a place this name lies in, as /proc/PID/mountinfo lists them.
    pub fn number(&self, name: &[u8]) -> Option<usize> {
        let (index, _) = self.find(name)?;
        Some(self.managers().filter(|&other| other < index).count())
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.absolute.iter().chain(&self.schemes)
    }

    pub fn name(&self, index: u32) -> Option<&[u8]> {
        let entry = self.all().find(|entry| entry.index == index)?;
        Some(entry.name(&self.names))
    }

    /// Index and length of the mount in whose tree this mount's place lies.
    pub fn above(&self, name: &[u8]) -> Option<(u32, usize)> {
        let shorter = |e: &&Entry| (e.length as usize) < name.len();
        let holds = |e: &&Entry| shorter(e) && matches(e.name(&self.names), name);
        let entry = self.absolute.iter().find(holds)?;
        Some((entry.index, entry.length as usize))
    }

    /// The mounts of this table, as bits, that are in another one as well.
    pub fn also_in(&self, other: &Prefixes) -> u32 {
        let same = |a: &&Entry| {
            let mut all = other.all();
            all.any(|b| (a.index, a.serial) == (b.index, b.serial))
        };
        self.all().filter(same).fold(0, |all, e| all | 1 << e.index)
    }

    /// The mounts, as bits, whose places are in other folders than the root.
    pub fn deep(&self) -> u32 {
        let slashes = |name: &[u8]| name.iter().filter(|byte| **byte == b'/').count();
        let is_deep = |e: &&Entry| slashes(e.name(&self.names)) > 1;
        let deep = self.absolute.iter().filter(is_deep);
        deep.fold(0, |all, e| all | 1 << e.index)
    }

    /// Whether something is mounted below this place.
    pub fn is_above(&self, place: &[u8]) -> bool {
        let longer = |e: &Entry| e.length as usize > place.len();
        let below = |e: &Entry| longer(e) && matches(place, e.name(&self.names));
        self.absolute.iter().any(below)
    }

    /// Index in the published table and how many bytes of `name` it takes. `name` is absolute or has a scheme (`dev:1:3`).
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<(u32, usize)> {
        let head = head(name);
        let list = match name.first()? {
            b'/' => &self.absolute,
            _ => &self.schemes,
        };
        for entry in list {
            // Of a name of up to eight bytes that is all there is to compare.
            if (head ^ entry.head) & entry.mask != 0 {
                continue;
            }
            let prefix = entry.name(&self.names);
            if ends(prefix, name) && (entry.mask != u64::MAX || name.starts_with(prefix)) {
                return Some((entry.index, prefix.len()));
            }
        }
        None
    }
}

/// A prefix ends at a component's end; a scheme's prefix ends with its colon; the root's is empty.
#[inline(always)]
fn ends(prefix: &[u8], name: &[u8]) -> bool {
    match name.get(prefix.len()) {
        None | Some(b'/') => true,
        Some(_) => matches!(prefix.last(), None | Some(b':')),
    }
}

fn matches(prefix: &[u8], name: &[u8]) -> bool {
    ends(prefix, name) && name.starts_with(prefix)
}

/// Names of this process's own things, which no server can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own<'a> {
    /// An open descriptor, and a path behind it.
    Descriptor(u32, &'a [u8]),
    Exe,
    /// The working directory, and a path behind it.
    Cwd(&'a [u8]),
    /// The list of descriptors.
    Descriptors,
}

/// Could this be the name of something of the process's own? All such names are below `/dev` and `/proc`.
#[inline(always)]
pub fn may_be_own(name: &[u8]) -> bool {
    const DEV: u64 = u64::from_le_bytes(*b"/dev/\0\0\0");
    const PROC: u64 = u64::from_le_bytes(*b"/proc/\0\0");
    let head = head(name);
    head & mask(5) == DEV || head & mask(6) == PROC
}

/// `/proc/self/fd/N`, `/dev/fd/N`, `/dev/stdin`, `/proc/self/exe`, `/proc/self/cwd` and their like.
#[inline(always)]
pub fn own(name: &[u8], pid: u32) -> Option<Own<'_>> {
    if may_be_own(name) {
        own_name(name, pid)
    } else {
        None
    }
}

fn own_name(name: &[u8], pid: u32) -> Option<Own<'_>> {
    match name.strip_prefix(b"/dev/") {
        Some(rest) => own_below_dev(rest),
        None => own_below_proc(name.strip_prefix(b"/proc/")?, pid),
    }
}

/// What is behind `/dev/`, wherever that is mounted.
pub fn own_below_dev(rest: &[u8]) -> Option<Own<'_>> {
    match rest {
        b"stdin" => Some(Own::Descriptor(0, b"")),
        b"stdout" => Some(Own::Descriptor(1, b"")),
        b"stderr" => Some(Own::Descriptor(2, b"")),
        b"fd" => Some(Own::Descriptors),
        _ => descriptor(rest.strip_prefix(b"fd/")?),
    }
}

/// The same of `/proc/`.
pub fn own_below_proc(rest: &[u8], pid: u32) -> Option<Own<'_>> {
    let slash = rest.iter().position(|b| *b == b'/')?;
    let who = &rest[..slash];
    if who != b"self" && who != b"thread-self" && number(who) != Some(pid as u64) {
        return None;
    }
    let rest = &rest[slash + 1..];
    let (first, behind) = match rest.iter().position(|b| *b == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    match (first, behind) {
        (b"exe", b"") => Some(Own::Exe),
        (b"cwd", _) => Some(Own::Cwd(behind)),
        (b"fd", b"") => Some(Own::Descriptors),
        (b"fd", _) => descriptor(behind),
        _ => None,
    }
}

/// As a name of /proc: no zeros before it.
fn number(digits: &[u8]) -> Option<u64> {
    match digits {
        [b'0', _, ..] => None,
        _ => crate::text::parse_number(digits),
    }
}

fn descriptor(rest: &[u8]) -> Option<Own<'_>> {
    let (digits, behind) = match rest.iter().position(|b| *b == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    if digits.is_empty() {
        return Some(Own::Descriptors);
    }
    let number = number(digits)?;
    Some(Own::Descriptor(u32::try_from(number).ok()?, behind))
}

/// `path` below `root` with `.` and `..` taken out by name, so that it cannot leave it (chroot).
pub fn below(root: &[u8], path: &[u8]) -> Vec<u8> {
    let mut result = root.to_vec();
    for component in path.split(|b| *b == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                let end = result[root.len()..].iter().rposition(|b| *b == b'/');
                result.truncate(root.len() + end.unwrap_or(0));
            }
            _ => {
                result.push(b'/');
                result.extend_from_slice(component);
            }
        }
    }
    if result.is_empty() || path.ends_with(b"/") && result.last() != Some(&b'/') {
        result.push(b'/');
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Prefixes {
        let mut p = Prefixes::new(2, 0);
        for (i, name) in [&b""[..], b"/dev", b"/proc", b"/dev/pts", b"dev:"]
            .iter()
            .enumerate()
        {
            p.add(i as u32, 10 + i as u32, name);
        }
        p
    }

    #[test]
    fn the_longest_prefix_wins_at_component_ends() {
        let p = table();
        assert_eq!(p.find(b"/etc/passwd"), Some((0, 0)));
        assert_eq!(p.find(b"/dev"), Some((1, 4)));
        assert_eq!(p.find(b"/dev/null"), Some((1, 4)));
        assert_eq!(p.find(b"/device"), Some((0, 0)));
        assert_eq!(p.find(b"/dev/pts/3"), Some((3, 8)));
        assert_eq!(p.find(b"/dev/ptsx"), Some((1, 4)));
        assert_eq!(p.find(b"dev:1:3"), Some((4, 4)));
        assert_eq!(p.find(b"fifo:1"), None);
        assert_eq!(p.find(b"/"), Some((0, 0)));
        assert_eq!(p.find(b"/de"), Some((0, 0)));
        assert_eq!(p.find(b"/proc"), Some((2, 5)));
        assert_eq!(p.find(b"/proc/1/x/y"), Some((2, 5)));
        assert_eq!(p.find(b"dev"), None);
        assert_eq!(p.find(b"dev:"), Some((4, 4)));
        assert_eq!(p.find(b""), None);
        assert_eq!(Prefixes::default().find(b"/x"), None);
    }

    #[test]
    fn what_is_mounted_below_is_found() {
        let p = table();
        assert!(p.is_above(b"") && p.is_above(b"/dev"));
        assert!(!p.is_above(b"/dev/pts") && !p.is_above(b"/de") && !p.is_above(b"/proc"));
    }

    #[test]
    fn mounts_lie_in_others_and_have_numbers() {
        let p = table();
        assert_eq!(p.name(3), Some(&b"/dev/pts"[..]));
        assert_eq!(p.name(0), Some(&b""[..]));
        assert_eq!(p.name(9), None);
        assert_eq!(p.above(b"/dev/pts"), Some((1, 4)));
        assert_eq!(p.above(b"/proc"), Some((0, 0)));
        assert_eq!(p.above(b""), None);
        assert_eq!(p.deep(), 1 << 3);
        let mut other = Prefixes::new(4, 1);
        other.add(0, 10, b"");
        other.add(2, 99, b"/proc");
        other.add(4, 14, b"dev:");
        assert_eq!(other.also_in(&p), 1 | 1 << 4);
    }

    #[test]
    fn own_names() {
        assert_eq!(own(b"/proc/self/fd/12", 5), Some(Own::Descriptor(12, b"")));
        assert_eq!(own(b"/proc/5/fd/1", 5), Some(Own::Descriptor(1, b"")));
        assert_eq!(own(b"/proc/6/fd/1", 5), None);
        assert_eq!(own(b"/proc/self/fd/0", 5), Some(Own::Descriptor(0, b"")));
        assert_eq!(own(b"/proc/self/fd/01", 5), None);
        assert_eq!(own(b"/proc/self/fd/00", 5), None);
        assert_eq!(own(b"/proc/05/fd/1", 5), None);
        assert_eq!(own(b"/dev/fd/3/x/y", 5), Some(Own::Descriptor(3, b"x/y")));
        assert_eq!(own(b"/dev/stderr", 5), Some(Own::Descriptor(2, b"")));
        assert_eq!(own(b"/dev/stderrx", 5), None);
        assert_eq!(own(b"/proc/self/exe", 5), Some(Own::Exe));
        assert_eq!(own(b"/proc/self/cwd/a", 5), Some(Own::Cwd(b"a")));
        assert_eq!(own(b"/proc/self/stat", 5), None);
        assert_eq!(own(b"/proc/self", 5), None);
        assert_eq!(own(b"/proc/self/fd/", 5), Some(Own::Descriptors));
        assert_eq!(own(b"/dev/fd/x", 5), None);
        assert_eq!(own(b"/dev/fd", 5), Some(Own::Descriptors));
        assert_eq!(own(b"/dev", 5), None);
        assert_eq!(own(b"", 5), None);
    }

    #[test]
    fn chroot_cannot_be_left() {
        assert_eq!(below(b"/jail", b"/etc/../../../x"), b"/jail/x");
        assert_eq!(below(b"/jail", b"/.."), b"/jail");
        assert_eq!(below(b"", b"/a//b/./c"), b"/a/b/c");
        assert_eq!(below(b"", b"/"), b"/");
        assert_eq!(below(b"/jail", b"/d/"), b"/jail/d/");
    }
}
