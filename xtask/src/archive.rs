//! The boot archive: cpio in the "newc" format, which Linux takes as its initial file system and Cairn as its components and root.
//!
//! Format (cpio(5), Linux's `Documentation/driver-api/early-userspace/buffer-format.rst`): for each entry a head of 110 characters, the name with a NUL,
//! padding to 4, the data, padding to 4; the name `TRAILER!!!` ends it. What is special here: the data of every file begins on a page boundary of the
//! archive, because the name field is filled with further NULs. So Cairn can take the archive's pages as the file's pages, without a copy.
//! Linux accepts such names up to 4,096 bytes; where that is too short, an entry for the root folder (which is there anyway) is put in between.
//! Of a file with several names, the first entry has the data and the others have size 0.

use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

const HEAD: usize = 110;
const PAGE: usize = 4096;
/// Longest name field that Linux takes.
const NAME_MAX: usize = 4096;
/// Time stamp of what has none of its own (2026-01-01): the archive depends on nothing but its contents.
const TIME: u32 = 1_767_225_600;

const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const FIFO: u32 = 0o010_000;
const CHARACTER: u32 = 0o020_000;

#[derive(Clone, Debug)]
struct Entry {
    mode: u32,
    time: u32,
    device: (u32, u32),
    data: Vec<u8>,
    /// Files of the host with several names: its device and inode there.
    identity: Option<(u64, u64)>,
}

/// A file tree in the making. All owners are root.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// By path without the leading slash; sorted, so that folders come before what is in them.
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    fn put(&mut self, path: &str, mode: u32, data: Vec<u8>) -> &mut Entry {
        let path = self.followed(&normal(path));
        let parents: Vec<String> = path
            .match_indices('/')
            .map(|(at, _)| path[..at].to_string())
            .collect();
        for parent in parents {
            self.entries.entry(parent).or_insert(Entry {
                mode: DIRECTORY | 0o755,
                time: TIME,
                device: (0, 0),
                data: Vec::new(),
                identity: None,
            });
        }
        let entry = Entry {
            mode,
            time: TIME,
            device: (0, 0),
            data,
            identity: None,
        };
        self.entries.insert(path.clone(), entry);
        // It was inserted one line above.
        self.entries.get_mut(&path).expect("entry was inserted")
    }

    /// The path with the symbolic links of its folders followed: what is put into one lands where it leads, whatever the order of the entries.
    fn followed(&self, path: &str) -> String {
        const LINKS: usize = 40;
        let mut path = path.to_string();
        for _ in 0..LINKS {
            let link = path.match_indices('/').find_map(|(at, _)| {
                let entry = self.entries.get(&path[..at])?;
                (entry.mode & KIND == SYMLINK).then_some((at, &entry.data))
            });
            let Some((at, target)) = link else {
                break;
            };
            let target = String::from_utf8_lossy(target);
            let folder = match target.starts_with('/') {
                true => "",
                false => path[..at].rsplit_once('/').map_or("", |(folder, _)| folder),
            };
            path = normal(&format!("{folder}/{target}/{}", &path[at + 1..]));
        }
        path
    }

    pub fn directory(&mut self, path: &str, mode: u32) {
        if !normal(path).is_empty() {
            self.put(path, DIRECTORY | mode, Vec::new());
        }
    }

    pub fn file(&mut self, path: &str, mode: u32, data: Vec<u8>) {
        self.put(path, REGULAR | mode, data);
    }

    pub fn symlink(&mut self, path: &str, target: &str) {
        self.put(path, SYMLINK | 0o777, target.as_bytes().to_vec());
    }

    pub fn character_device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        self.put(path, CHARACTER | mode, Vec::new()).device = (major, minor);
    }

    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(&self.followed(&normal(path)))
    }

    /// Everything at `host` (a file, a symbolic link, a folder with all that is in it) under the name `guest`.
    pub fn host(&mut self, host: &Path, guest: &str) -> Result<()> {
        let metadata =
            fs::symlink_metadata(host).with_context(|| format!("cannot add {}", host.display()))?;
        let kind = metadata.file_type();
        let mode = metadata.mode() & 0o7777;
        let entry = if kind.is_dir() {
            let mut names = fs::read_dir(host)
                .and_then(|entries| {
                    entries
                        .map(|e| e.map(|e| e.file_name()))
                        .collect::<Result<Vec<_>, _>>()
                })
                .with_context(|| format!("cannot read the folder {}", host.display()))?;
            names.sort();
            for name in names {
                let Some(text) = name.to_str() else {
                    bail!("{}: the name is not UTF-8", host.join(&name).display());
                };
                self.host(&host.join(&name), &format!("{guest}/{text}"))?;
            }
            let link = |entry: &Entry| entry.mode & KIND == SYMLINK;
            if normal(guest).is_empty() || self.entries.get(&normal(guest)).is_some_and(link) {
                return Ok(());
            }
            self.put(guest, DIRECTORY | mode, Vec::new())
        } else if kind.is_symlink() {
            let target = fs::read_link(host)
                .with_context(|| format!("cannot read the link {}", host.display()))?;
            let Some(target) = target.to_str() else {
                bail!("{}: the link's target is not UTF-8", host.display());
            };
            self.put(guest, SYMLINK | 0o777, target.as_bytes().to_vec())
        } else if kind.is_file() {
            let data = fs::read(host).with_context(|| format!("cannot read {}", host.display()))?;
            let entry = self.put(guest, REGULAR | mode, data);
            if metadata.nlink() > 1 {
                entry.identity = Some((metadata.dev(), metadata.ino()));
            }
            entry
        } else if kind.is_fifo() {
            self.put(guest, FIFO | mode, Vec::new())
        } else {
            bail!(
                "{}: only files, folders, symbolic links and FIFOs can be added",
                host.display()
            );
        };
        entry.time = u32::try_from(metadata.mtime()).unwrap_or(TIME);
        Ok(())
    }

    /// The archive's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut names: HashMap<(u64, u64), (u32, u32)> = HashMap::new();
        for entry in self.entries.values() {
            if let Some(identity) = entry.identity {
                names.entry(identity).or_insert((0, 0)).1 += 1;
            }
        }
        let mut out = Vec::new();
        let mut inode = 1;
        for (path, entry) in &self.entries {
            inode += 1;
            let (mut number, mut links, mut data) = (inode, 1, entry.data.as_slice());
            if let Some(known) = entry.identity.and_then(|identity| names.get_mut(&identity)) {
                links = known.1;
                if known.0 == 0 {
                    known.0 = inode;
                } else {
                    number = known.0;
                    data = &[];
                }
            }
            let mut name_field = path.len() + 1;
            let file = entry.mode & KIND == REGULAR;
            if file && !data.is_empty() {
                name_field = aligned_name(&mut out, path.len() + 1);
            }
            let head = Head {
                inode: number,
                mode: entry.mode,
                links,
                time: entry.time,
                size: data.len(),
                device: entry.device,
                name: name_field,
            };
            head.write(&mut out);
            out.extend_from_slice(path.as_bytes());
            out.resize(out.len() + name_field - path.len(), 0);
            pad(&mut out, 4);
            out.extend_from_slice(data);
            pad(&mut out, 4);
        }
        let trailer = b"TRAILER!!!\0";
        let head = Head {
            links: 1,
            name: trailer.len(),
            ..Head::default()
        };
        head.write(&mut out);
        out.extend_from_slice(trailer);
        pad(&mut out, PAGE);
        out
    }
}

/// How long the name field must be for the data to begin on a page boundary; puts an entry for the root in front if it would be too long.
fn aligned_name(out: &mut Vec<u8>, shortest: usize) -> usize {
    loop {
        let data = (out.len() + HEAD + shortest).next_multiple_of(PAGE);
        let field = data - out.len() - HEAD;
        if field <= NAME_MAX {
            return field;
        }
        let root = Head {
            inode: 1,
            mode: DIRECTORY | 0o755,
            links: 2,
            time: TIME,
            name: 2,
            ..Head::default()
        };
        root.write(out);
        out.extend_from_slice(b".\0");
        pad(out, 4);
    }
}

/// What stands before an entry's name.
#[derive(Default)]
struct Head {
    inode: u32,
    mode: u32,
    links: u32,
    time: u32,
    size: usize,
    device: (u32, u32),
    /// Length of the name's field.
    name: usize,
}

impl Head {
    fn write(&self, out: &mut Vec<u8>) {
        let fields = [
            self.inode,
            self.mode,
            0, // user
            0, // group
            self.links,
            self.time,
            self.size as u32,
            0, // device of the file system: major
            0, // and minor
            self.device.0,
            self.device.1,
            self.name as u32,
            0, // checksum: not in this format
        ];
        out.extend_from_slice(b"070701");
        for field in fields {
            out.extend_from_slice(format!("{field:08x}").as_bytes());
        }
    }
}

fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// Without slashes at either end or doubled.
fn normal(path: &str) -> String {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_link_to_a_folder_lands_in_the_folder() {
        let mut archive = Archive::default();
        archive.symlink("sbin", "usr/sbin");
        archive.symlink("usr/lib", "../usr/lib64");
        archive.file("sbin/init", 0o755, b"x".to_vec());
        archive.file("usr/lib/y", 0o644, b"y".to_vec());
        assert!(archive.entries.contains_key("usr/sbin/init"));
        assert!(archive.entries.contains_key("usr/lib64/y"));
        assert!(archive.contains("sbin/init"));
        assert!(!archive.contains("lib/y"));
        // A ring of links is a name that leads nowhere, not an endless search.
        archive.symlink("a", "b");
        archive.symlink("b", "a");
        archive.file("a/x", 0o644, Vec::new());
    }

    /// Name, mode, links, size, offset of the data.
    fn read(bytes: &[u8]) -> Vec<(String, u32, u32, usize, usize)> {
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            let field = |i: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * i..at + 14 + 8 * i]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (size, name_field) = (field(6), field(11));
            assert!(name_field <= NAME_MAX);
            let name = &bytes[at + HEAD..at + HEAD + name_field];
            let end = name.iter().position(|&b| b == 0).unwrap();
            assert!(name[end..].iter().all(|&b| b == 0));
            let name = String::from_utf8(name[..end].to_vec()).unwrap();
            let data = (at + HEAD + name_field).next_multiple_of(4);
            if name == "TRAILER!!!" {
                return found;
            }
            found.push((name, field(1) as u32, field(4) as u32, size, data));
            at = (data + size).next_multiple_of(4);
        }
    }

    #[test]
    fn data_is_on_page_boundaries_for_names_of_any_length() {
        let mut archive = Archive::default();
        for length in 1..200 {
            let name = "n".repeat(length);
            archive.file(
                &format!("/d/{name}"),
                0o644,
                vec![length as u8; length * 41],
            );
        }
        archive.symlink("/link", "d/n");
        let bytes = archive.encode();
        let entries = read(&bytes);
        let mut files = 0;
        for (name, mode, _, size, data) in entries {
            if mode & KIND == REGULAR {
                files += 1;
                assert_eq!(data % PAGE, 0, "{name}");
                assert!(bytes[data..data + size]
                    .iter()
                    .all(|&b| b as usize == name.len() - 2));
            }
        }
        assert_eq!(files, 199);
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut archive = Archive::default();
        archive.file("a/b/c", 0o600, b"x".to_vec());
        archive.directory("a/b", 0o700);
        let names: Vec<_> = read(&archive.encode())
            .into_iter()
            .map(|e| (e.0, e.1))
            .collect();
        assert_eq!(names[0], ("a".to_string(), DIRECTORY | 0o755));
        assert_eq!(names[1], ("a/b".to_string(), DIRECTORY | 0o700));
        assert_eq!(
            names.last().unwrap(),
            &("a/b/c".to_string(), REGULAR | 0o600)
        );
    }

    #[test]
    fn host_files_keep_modes_links_and_names() {
        let root = std::env::temp_dir().join(format!("xtask-archive-{}", std::process::id()));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("one"), b"same").unwrap();
        fs::hard_link(root.join("one"), root.join("sub/two")).unwrap();
        std::os::unix::fs::symlink("one", root.join("three")).unwrap();
        let mut archive = Archive::default();
        archive.host(&root, "/x").unwrap();
        assert!(archive.host(&root.join("absent"), "/y").is_err());
        let entries = read(&archive.encode());
        let find = |name: &str| entries.iter().find(|e| e.0 == name).unwrap().clone();
        assert_eq!((find("x/one").2, find("x/one").3), (2, 4));
        assert_eq!((find("x/sub/two").2, find("x/sub/two").3), (2, 0));
        assert_eq!(find("x/three").1, SYMLINK | 0o777);
        fs::remove_dir_all(root).unwrap();
    }
}
