//! Linux and we on the same image. These mount with a loop device, so they need the superuser of a machine with Linux's ext4, and run only when asked for:
//!
//!     cargo test -p cairn-ext4 --test linux -- --ignored

mod common;

use cairn_ext4::ROOT;
use common::world::{Node, World};
use common::{make, must_be_clean, Caller, Disk, Folder, Random};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An image that Linux has mounted.
struct Mounted {
    folder: Folder,
}

impl Mounted {
    fn new(image: &[u8]) -> Mounted {
        let folder = Folder::new();
        std::fs::write(folder.join("image"), image).unwrap();
        std::fs::create_dir(folder.join("root")).unwrap();
        let status = Command::new("mount")
            .args(["-o", "loop"])
            .arg(folder.join("image"))
            .arg(folder.join("root"))
            .status()
            .unwrap();
        assert!(status.success(), "Linux cannot mount it");
        Mounted { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// As the disk is now, with what Linux has only in its log or not at all.
    fn cut(&self) -> Vec<u8> {
        std::fs::read(self.folder.join("image")).unwrap()
    }

    fn unmount(&self) -> Vec<u8> {
        let status = Command::new("umount").arg(self.root()).status().unwrap();
        assert!(status.success());
        self.cut()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.root())
            .stderr(std::process::Stdio::null())
            .status();
    }
}

/// What Linux sees, by path, in the form in which we compare.
fn seen(root: &Path, at: &Path, to: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("lost+found") {
            continue;
        }
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_dir() {
            seen(root, &path, to);
            String::new()
        } else if meta.is_symlink() {
            std::fs::read_link(&path).unwrap().display().to_string()
        } else {
            digest(&std::fs::read(&path).unwrap())
        };
        let line = told(
            meta.mode() as u16,
            meta.uid(),
            meta.nlink(),
            (meta.mtime(), meta.mtime_nsec() as u32),
            &what,
        );
        to.insert(path.strip_prefix(root).unwrap().to_owned(), line);
    }
}

fn ours(caller: &mut Caller, dir: u32, at: &Path, to: &mut BTreeMap<PathBuf, String>) {
    for (name, ino) in caller.list(dir).unwrap() {
        if [&b"."[..], b"..", b"lost+found"].contains(&name.as_slice()) {
            continue;
        }
        let path = at.join(String::from_utf8(name).unwrap());
        let inode = caller.act(|fs| fs.inode(ino)).unwrap();
        let what = if inode.is_directory() {
            ours(caller, ino, &path, to);
            String::new()
        } else if inode.is_symlink() {
            String::from_utf8(caller.act(|fs| fs.read_link(ino)).unwrap()).unwrap()
        } else {
            digest(&caller.read(ino).unwrap())
        };
        let line = told(
            inode.mode,
            inode.uid,
            inode.links.into(),
            (inode.mtime.sec, inode.mtime.nsec),
            &what,
        );
        to.insert(path, line);
    }
}

fn told(mode: u16, uid: u32, links: u64, time: (i64, u32), what: &str) -> String {
    format!("{mode:o} {uid} {links} {time:?} {what}")
}

fn digest(data: &[u8]) -> String {
    let sum = data.iter().fold(0xCBF2_9CE4_8422_2325u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    });
    format!("{} bytes, {sum:x}", data.len())
}

fn same(image: &[u8], caller: &mut Caller) {
    let mounted = Mounted::new(image);
    let (mut theirs, mut mine) = (BTreeMap::new(), BTreeMap::new());
    seen(&mounted.root(), &mounted.root(), &mut theirs);
    ours(caller, ROOT, Path::new(""), &mut mine);
    assert!(!mine.is_empty());
    for (path, line) in &theirs {
        assert_eq!(mine.get(path), Some(line), "{path:?}");
    }
    assert_eq!(theirs.len(), mine.len());
    must_be_clean(&mounted.unmount());
}

const SHAPES: [(u32, &[&str]); 4] = [
    (1024, &[]),
    (4096, &[]),
    (4096, &["-O", "orphan_file,metadata_csum_seed"]),
    (2048, &["-O", "^metadata_csum,^64bit"]),
];

#[test]
#[ignore = "needs root and loop devices"]
fn linux_reads_what_we_wrote() {
    for (number, (block_size, options)) in SHAPES.into_iter().enumerate() {
        let image = make(block_size, 32, options, None);
        let mut caller = Caller::open(Disk::new(image), true).unwrap();
        let mut world = World::new();
        let mut random = Random(number as u64);
        for _ in 0..1500 {
            world.step(&mut caller, &mut random);
        }
        let files = world
            .nodes
            .values()
            .filter(|node| matches!(node, Node::File(_)))
            .count();
        assert!(files > 5);
        caller.sync().unwrap();
        // Once with our log to replay, once clean.
        let dirty = caller.disk.bytes.clone();
        same(&dirty, &mut caller);
        let disk = caller.close();
        let mut caller = Caller::open(disk.clone(), false).unwrap();
        same(&disk.bytes, &mut caller);
    }
}

fn linux_writes(root: &Path, seed: u64) {
    let mut random = Random(seed);
    for turn in 0..1500u64 {
        let dir = root.join(format!("d{}", random.below(6)));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!(
            "f{}-{}",
            random.below(300),
            "x".repeat(random.below(40) as usize)
        ));
        match random.below(8) {
            0..=4 => {
                let file = std::fs::OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(&path)
                    .unwrap();
                let data = vec![turn as u8; random.below(6000) as usize];
                file.write_all_at(&data, random.below(50_000)).unwrap();
            }
            5 => drop(std::fs::remove_file(&path)),
            6 => drop(std::fs::rename(
                &path,
                root.join(format!("moved-{}", random.below(50))),
            )),
            _ => drop(std::os::unix::fs::symlink(
                "t".repeat(1 + random.below(200) as usize),
                &path,
            )),
        }
        if turn % 300 == 299 {
            assert!(Command::new("sync")
                .arg("-f")
                .arg(root)
                .status()
                .unwrap()
                .success());
        }
    }
}

#[test]
#[ignore = "needs root and loop devices"]
fn we_read_what_linux_wrote_and_replay_its_log() {
    for (number, (block_size, options)) in SHAPES.into_iter().enumerate() {
        let mounted = Mounted::new(&make(block_size, 48, options, None));
        linux_writes(&mounted.root(), number as u64);
        // Files that are open without a name, so that there are orphans.
        let orphan = std::fs::File::create(mounted.root().join("orphan")).unwrap();
        orphan.write_all_at(&[7; 50_000], 0).unwrap();
        std::fs::remove_file(mounted.root().join("orphan")).unwrap();
        assert!(Command::new("sync")
            .arg("-f")
            .arg(mounted.root())
            .status()
            .unwrap()
            .success());
        // After a sync all is in the log, and most of it only there.
        let cut = mounted.cut();
        let mut theirs = BTreeMap::new();
        seen(&mounted.root(), &mounted.root(), &mut theirs);
        drop(orphan);
        let clean = mounted.unmount();
        for (image, write) in [(cut.clone(), false), (cut, true), (clean, true)] {
            let mut caller = Caller::open(Disk::new(image), write).unwrap();
            let mut mine = BTreeMap::new();
            ours(&mut caller, ROOT, Path::new(""), &mut mine);
            assert_eq!(theirs, mine);
            if write {
                assert_eq!(caller.act(|fs| fs.leftover(|_| false)), Ok(None));
                must_be_clean(&caller.close().bytes);
            }
        }
    }
}
