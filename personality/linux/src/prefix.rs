//! The longest prefix of a name: which mounted manager serves it, and what of the name is left for it.

use alloc::vec::Vec;

/// A copy of the published table, longest names first.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    version: u64,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    index: u32,
    name: Vec<u8>,
}

impl Prefixes {
    pub const fn new(version: u64) -> Prefixes {
        Prefixes {
            version,
            entries: Vec::new(),
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn add(&mut self, index: u32, name: &[u8]) {
        let at = self.entries.partition_point(|e| e.name.len() >= name.len());
        self.entries.insert(
            at,
            Entry {
                index,
                name: name.to_vec(),
            },
        );
    }

    /// Index in the published table and how many bytes of `name` it takes. `name` is absolute or has a scheme (`dev:1:3`).
    pub fn find(&self, name: &[u8]) -> Option<(u32, usize)> {
        self.entries
            .iter()
            .find(|e| matches(&e.name, name))
            .map(|e| (e.index, e.name.len()))
    }
}

/// A prefix ends at a component's end; a scheme's prefix ends with its colon; the root's is empty. The byte where it must end is looked at first: that settles most cases.
fn matches(prefix: &[u8], name: &[u8]) -> bool {
    let ends = match prefix.last() {
        None => return name.first() == Some(&b'/'),
        Some(b':') => name.get(prefix.len() - 1) == Some(&b':'),
        Some(_) => matches!(name.get(prefix.len()), None | Some(b'/')),
    };
    ends && name.starts_with(prefix)
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

/// `/proc/self/fd/N`, `/dev/fd/N`, `/dev/stdin`, `/proc/self/exe`, `/proc/self/cwd` and their like.
pub fn own(name: &[u8], pid: u32) -> Option<Own<'_>> {
    if let Some(rest) = name.strip_prefix(b"/dev/") {
        return match rest {
            b"stdin" => Some(Own::Descriptor(0, b"")),
            b"stdout" => Some(Own::Descriptor(1, b"")),
            b"stderr" => Some(Own::Descriptor(2, b"")),
            b"fd" => Some(Own::Descriptors),
            _ => descriptor(rest.strip_prefix(b"fd/")?),
        };
    }
    let rest = name.strip_prefix(b"/proc/")?;
    let slash = rest.iter().position(|b| *b == b'/')?;
    let who = &rest[..slash];
    if who != b"self" && who != b"thread-self" && crate::text::parse_number(who) != Some(pid as u64)
    {
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

fn descriptor(rest: &[u8]) -> Option<Own<'_>> {
    let (digits, behind) = match rest.iter().position(|b| *b == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    if digits.is_empty() {
        return Some(Own::Descriptors);
    }
    let number = crate::text::parse_number(digits)?;
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
        let mut p = Prefixes::new(2);
        for (i, name) in [&b""[..], b"/dev", b"/proc", b"/dev/pts", b"dev:"]
            .iter()
            .enumerate()
        {
            p.add(i as u32, name);
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
        assert_eq!(Prefixes::default().find(b"/x"), None);
    }

    #[test]
    fn own_names() {
        assert_eq!(own(b"/proc/self/fd/12", 5), Some(Own::Descriptor(12, b"")));
        assert_eq!(own(b"/proc/5/fd/1", 5), Some(Own::Descriptor(1, b"")));
        assert_eq!(own(b"/proc/6/fd/1", 5), None);
        assert_eq!(own(b"/dev/fd/3/x/y", 5), Some(Own::Descriptor(3, b"x/y")));
        assert_eq!(own(b"/dev/stderr", 5), Some(Own::Descriptor(2, b"")));
        assert_eq!(own(b"/dev/stderrx", 5), None);
        assert_eq!(own(b"/proc/self/exe", 5), Some(Own::Exe));
        assert_eq!(own(b"/proc/self/cwd/a", 5), Some(Own::Cwd(b"a")));
        assert_eq!(own(b"/proc/self/stat", 5), None);
        assert_eq!(own(b"/proc/self", 5), None);
        assert_eq!(own(b"/proc/self/fd/", 5), Some(Own::Descriptors));
        assert_eq!(own(b"/dev/fd/x", 5), None);
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
