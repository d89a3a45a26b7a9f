//! Reading the boot archive: cpio in the "newc" format (kernel documentation, initramfs buffer format). Cairn's own archives pad each name with
//! NULs so that the file's data begins on a page boundary of the archive and its frames can be used without a copy; this reader takes any padding.
//!
//! Nothing is trusted: lengths are checked, a damaged archive ends the iteration with [`Damaged`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// One entry. `data` starts at `offset` of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Path without leading `/` or `./`, without NUL.
    pub name: &'a [u8],
    pub inode: u32,
    /// Type and permission bits as in `st_mode`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub mtime: u32,
    /// Device numbers of a device node.
    pub rdev: (u32, u32),
    pub offset: usize,
    pub data: &'a [u8],
}

/// The archive cannot be read any further, at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub usize);

const HEADER: usize = 110;
const TRAILER: &[u8] = b"TRAILER!!!";

/// Iterates over the entries of an archive.
pub struct Entries<'a> {
    archive: &'a [u8],
    at: usize,
    done: bool,
}

/// The entries of an archive, in order.
pub fn entries(archive: &[u8]) -> Entries<'_> {
    Entries {
        archive,
        at: 0,
        done: false,
    }
}

/// The first entry with this path (with or without leading slash).
pub fn find<'a>(archive: &'a [u8], path: &str) -> Option<Entry<'a>> {
    let path = path.strip_prefix('/').unwrap_or(path).as_bytes();
    entries(archive)
        .map_while(Result::ok)
        .find(|e| e.name == path)
}

/// Hexadecimal field `index` of the header.
fn field(header: &[u8], index: usize) -> Option<u32> {
    let digits = core::str::from_utf8(&header[6 + 8 * index..14 + 8 * index]).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

impl<'a> Entries<'a> {
    fn read(&self) -> Option<(Entry<'a>, usize)> {
        let header = self.archive.get(self.at..self.at.checked_add(HEADER)?)?;
        if &header[..6] != b"070701" && &header[..6] != b"070702" {
            return None;
        }
        let get = |index| field(header, index);
        let size = get(6)? as usize;
        let name_start = self.at + HEADER;
        let name_end = name_start.checked_add(get(11)? as usize)?;
        let name = self.archive.get(name_start..name_end)?;
        let name = &name[..name.iter().position(|&b| b == 0)?];
        let name = name
            .strip_prefix(b"./")
            .or(name.strip_prefix(b"/"))
            .unwrap_or(name);
        let offset = name_end.checked_next_multiple_of(4)?;
        let end = offset.checked_add(size)?;
        let data = self.archive.get(offset..end)?;
        let entry = Entry {
            name,
            inode: get(0)?,
            mode: get(1)?,
            uid: get(2)?,
            gid: get(3)?,
            links: get(4)?,
            mtime: get(5)?,
            rdev: (get(9)?, get(10)?),
            offset,
            data,
        };
        Some((entry, end.checked_next_multiple_of(4)?))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.read() {
            Some((entry, _)) if entry.name == TRAILER => {
                self.done = true;
                None
            }
            Some((entry, next)) => {
                self.at = next;
                Some(Ok(entry))
            }
            None => {
                self.done = true;
                Some(Err(Damaged(self.at)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(archive: &mut Vec<u8>, name: &str, pad: usize, mode: u32, data: &[u8]) {
        archive.extend(format!("070701{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}", 7, mode, 1, 2, 1, 99, data.len(), 0, 0, 1, 3, name.len() + 1 + pad, 0).bytes());
        archive.extend(name.bytes());
        archive.extend(vec![0; 1 + pad]);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(data);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }

    fn sample() -> Vec<u8> {
        let mut a = Vec::new();
        add(&mut a, "./bin", 0, 0o40755, b"");
        add(&mut a, "bin/sh", 3971, 0o100755, b"#!shell");
        add(&mut a, "TRAILER!!!", 0, 0, b"");
        a.extend([0; 512]);
        a
    }

    #[test]
    fn entries_come_in_order() {
        let a = sample();
        let all: Vec<_> = entries(&a).map(Result::unwrap).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].name, b"bin");
        assert_eq!(
            (
                all[1].mode,
                all[1].uid,
                all[1].gid,
                all[1].mtime,
                all[1].rdev
            ),
            (0o100755, 1, 2, 99, (1, 3))
        );
        assert_eq!(find(&a, "/bin/sh").unwrap().data, b"#!shell");
        assert_eq!(&a[all[1].offset..all[1].offset + 7], b"#!shell");
        assert_eq!(find(&a, "/bin/bash"), None);
    }

    #[test]
    fn damage_ends_the_iteration() {
        let a = sample();
        for len in 0..a.len() {
            let mut damaged = entries(&a[..len]);
            while let Some(entry) = damaged.next() {
                if entry.is_err() {
                    assert_eq!(damaged.next(), None);
                }
            }
        }
        let mut b = sample();
        b[60] = b'x';
        assert_eq!(entries(&b).next(), Some(Err(Damaged(0))));
    }
}
