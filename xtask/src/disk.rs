//! Disks of a machine: files of the host that QEMU shows as virtio block devices, in the order in which they are given (`/dev/vda`, `/dev/vdb` …).
//!
//! [`Disk`] is one that is attached; [`Scratch`] is a new ext4 file system, as `mke2fs` makes it with Debian's defaults, that is gone with its value. What a system wrote is judged by
//! `e2fsck -fn` ([`check`]), which must find nothing at all.

use crate::cli::{Machine, Pair, Root};
use crate::{iso, machine, places, progress};
use anyhow::{bail, Context, Result};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What QEMU counts a disk in.
const SECTOR: u64 = 512;
/// The first bytes of a file in QEMU's own format.
const QCOW2: [u8; 4] = *b"QFI\xfb";
/// Where a scratch disk is mounted, on both systems.
pub const PLACE: &str = "/mnt";

/// The first disk behind that of the root is mounted at [`PLACE`].
pub fn mount(root: &Root) -> Pair {
    let device = match root.is_on_disk() {
        true => "/dev/vdb",
        false => "/dev/vda",
    };
    Pair {
        first: device.to_string(),
        second: PLACE.to_string(),
    }
}

/// One disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    /// The user's: what is flushed is on the host's disk.
    File(PathBuf),
    /// Nobody wants it after a crash of the host, so the host flushes nothing.
    Scratch(PathBuf),
    /// What is written to it is gone with the machine.
    Unchanged(PathBuf),
    /// Served by this process on a socket (network block device).
    Served(PathBuf),
}

impl Disk {
    /// QEMU's arguments for the machine's disk `number`.
    pub fn arguments(&self, number: usize, snapshot: bool) -> Result<Vec<String>> {
        let mut drive = format!("if=none,id=disk{number},discard=unmap,");
        let snapshot = snapshot || matches!(self, Disk::Unchanged(_));
        match self {
            Disk::File(path) | Disk::Scratch(path) | Disk::Unchanged(path) => {
                let format = format(path, snapshot)
                    .with_context(|| format!("the disk {}", path.display()))?;
                drive.push_str(&format!("format={format},"));
                drive.push_str(&machine::option_path("file=", path));
            }
            Disk::Served(socket) => {
                drive.push_str("format=raw,file.driver=nbd,file.server.type=unix,");
                drive.push_str(&machine::option_path("file.server.path=", socket));
            }
        }
        if snapshot {
            drive.push_str(",snapshot=on");
        } else if matches!(self, Disk::Scratch(_)) {
            drive.push_str(",cache=unsafe");
        }
        let device = format!("virtio-blk-pci,drive=disk{number},disable-legacy=on");
        Ok(["-drive".to_string(), drive, "-device".to_string(), device].to_vec())
    }
}

/// For the command line: only files can be named there. Whether it is one is looked at when the machine is started.
pub fn named(path: &str) -> Result<Disk, String> {
    match path {
        "" => Err("the name of a file is wanted".to_string()),
        path => Ok(Disk::File(PathBuf::from(path))),
    }
}

/// What QEMU calls the format of this file, if it can be a disk.
fn format(path: &Path, snapshot: bool) -> Result<&'static str> {
    let metadata = fs::metadata(path)?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        bail!("is neither a file nor a block device");
    }
    let mut file = File::options()
        .read(true)
        .write(!snapshot)
        .open(path)
        .with_context(|| match snapshot {
            true => "cannot be read",
            false => "cannot be written (with --snapshot nothing is)",
        })?;
    let mut begin = Vec::new();
    (&mut file).take(4).read_to_end(&mut begin)?;
    if begin == QCOW2 {
        return Ok("qcow2");
    }
    if kind.is_file() && metadata.len() == 0 {
        bail!(
            "is empty: `truncate -s 1G {}` gives it a size",
            path.display()
        );
    }
    if kind.is_file() && !metadata.len().is_multiple_of(SECTOR) {
        bail!(
            "is no disk: its {} bytes are not whole sectors",
            metadata.len()
        );
    }
    Ok("raw")
}

/// Where ext4's superblock has its mark, and the mark.
const MARK: (u64, [u8; 2]) = (1024 + 56, [0x53, 0xef]);

/// Whether a file can be the root's disk: without partitions, because the machine mounts all of it. What is in a qcow2 file is found out by the machine.
pub fn is_root(path: &Path) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut begin = Vec::new();
    (&mut file).take(MARK.0 + 2).read_to_end(&mut begin)?;
    if begin.starts_with(&QCOW2) || begin.get(MARK.0 as usize..) == Some(&MARK.1) {
        return Ok(());
    }
    bail!(
        "{}: no ext4 file system begins here. `--root` wants one without partitions, or a folder \
         (`mke2fs -t ext4 -d FOLDER FILE 4G` makes the first of the second)",
        path.display()
    )
}

/// By it a directory's names are listed in an order, which shall be the same in every file system: answers of Linux are kept.
pub const HASH_SEED: &str = "63616972-6e00-4000-8000-000000000001";

/// Shape of a new file system, as a test's first lines ask for it: `64M`, or with options of `mke2fs` behind it: `16M,-N,200`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub size: String,
    pub options: Vec<String>,
}

impl Shape {
    /// What most tests need.
    pub fn plain() -> Shape {
        Shape {
            size: "64M".to_string(),
            // As on larger disks; mke2fs would choose 1 KiB.
            options: ["-b", "4096"].map(str::to_string).to_vec(),
        }
    }

    pub fn parse(text: &str) -> Option<Shape> {
        let mut words = text.split(',').map(str::to_string);
        let size = words.next()?;
        bytes(&size)?;
        Some(Shape {
            size,
            options: words.collect(),
        })
    }
}

/// `64M` as a number.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

/// A new file system in a file that is removed with this value, and another disk beside it if it has one.
pub struct Scratch {
    pub path: PathBuf,
    iso: Option<PathBuf>,
}

impl Scratch {
    pub fn ext4(shape: &Shape) -> Result<Scratch> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = places::build().join("disks");
        fs::create_dir_all(&folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}.ext4", std::process::id()));
        let scratch = Scratch { path, iso: None };
        ext4(&scratch.path, shape, None)?;
        Ok(scratch)
    }

    /// With an ISO 9660 image on a second disk.
    pub fn with_iso(mut self) -> Result<Scratch> {
        let path = self.path.with_extension("iso");
        self.iso = Some(path.clone());
        iso::make(&path)?;
        Ok(self)
    }

    /// The machine with this file system as its only disk beside the root's, mounted at [`PLACE`], and the image behind it.
    pub fn attached_to(&self, mut machine: Machine) -> Machine {
        machine.disks = vec![Disk::Scratch(self.path.clone())];
        machine.disks.extend(self.iso.clone().map(Disk::Unchanged));
        machine.mounts = vec![mount(&machine.root)];
        machine
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may never have been made.
        for path in [Some(&self.path), self.iso.as_ref()].into_iter().flatten() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Make an ext4 file system in a new sparse file, filled from a folder.
pub fn ext4(path: &Path, shape: &Shape, from: Option<&Path>) -> Result<()> {
    let size = bytes(&shape.size).with_context(|| format!("{} is no size", shape.size))?;
    let _ = fs::remove_file(path);
    File::create(path)
        .and_then(|file| file.set_len(size))
        .with_context(|| format!("cannot make {}", path.display()))?;
    let mut command = tool("mke2fs");
    // The features of Debian's /etc/mke2fs.conf for ext4, whatever the host's says; Linux would finish tables and journal in the background.
    command.args(["-q", "-F", "-t", "ext4", "-E"]);
    command.arg(format!(
        "root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,hash_seed={HASH_SEED}"
    ));
    command.args(&shape.options);
    if let Some(from) = from {
        command.arg("-d").arg(from);
    }
    progress::run("making a file system", command.arg(path)).map(|_| ())
}

/// Everything in a file system that was filled from this folder belongs to root, whoever filled it.
pub fn give_to_root(image: &Path, from: &Path) -> Result<()> {
    let mut script = String::new();
    owners(from, Path::new("/"), &mut script)?;
    let commands = image.with_extension("owners");
    fs::write(&commands, script)?;
    change(image, "giving its files to root", &commands)?;
    fs::remove_file(&commands)?;
    Ok(())
}

/// Change a file system by a file with commands of `debugfs`.
pub fn change(image: &Path, why: &str, commands: &Path) -> Result<()> {
    let mut command = tool("debugfs");
    command.arg("-w").arg("-f").arg(commands).arg(image);
    progress::run(why, &mut command).map(|_| ())
}

/// Commands of `debugfs` for all that is in a folder.
fn owners(folder: &Path, name: &Path, script: &mut String) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = name.join(entry.file_name());
        let Some(text) = name.to_str().filter(|text| !text.contains(['"', '\n'])) else {
            bail!("{}: a name that debugfs cannot be told", name.display());
        };
        script.push_str(&format!("sif \"{text}\" uid 0\nsif \"{text}\" gid 0\n"));
        if entry.file_type()?.is_dir() {
            owners(&entry.path(), &name, script)?;
        }
    }
    Ok(())
}

/// What `e2fsck -fn` finds wrong with a file system that should be clean.
pub fn check(path: &Path) -> Result<Result<(), String>> {
    let output = tool("e2fsck")
        .arg("-fn")
        .arg(path)
        .output()
        .context("cannot start e2fsck; is e2fsprogs installed?")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(match output.status.code() {
        // A journal that was not emptied is skipped, with status 0.
        Some(0) if !text.contains("skipping journal recovery") => Ok(()),
        _ => Err(format!("e2fsck -fn: {}", text.trim())),
    })
}

/// A new FAT on all of the disk; `bits`: 12, 16 or 32.
pub fn fat(path: &Path, bits: &str) -> Result<()> {
    let output = tool("mkfs.vfat")
        .args(["-F", bits])
        .arg(path)
        .output()
        .context("cannot start mkfs.vfat; is dosfstools installed?")?;
    if !output.status.success() {
        bail!("mkfs.vfat: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// What `fsck.fat -n` finds wrong with it.
pub fn check_fat(path: &Path) -> Result<Result<(), String>> {
    let output = tool("fsck.fat")
        .args(["-n", "-v"])
        .arg(path)
        .output()
        .context("cannot start fsck.fat; is dosfstools installed?")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(match output.status.success() {
        true => Ok(()),
        false => Err(format!("fsck.fat -n: {}", text.trim())),
    })
}

/// A program of e2fsprogs or dosfstools, which is where only the superuser's PATH looks.
pub fn tool(name: &str) -> Command {
    let places = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    match places.into_iter().find(|path| path.exists()) {
        Some(path) => Command::new(path),
        None => Command::new(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ext4_file_system_can_be_the_root() {
        let folder = Folder::new("root-disk");
        let path = folder.0.join("disk");
        fs::write(&path, vec![0; 4096]).unwrap();
        assert!(is_root(&path).is_err() && is_root(&folder.0.join("none")).is_err());
        ext4(&path, &Shape::plain(), None).unwrap();
        assert!(is_root(&path).is_ok());
        fs::write(&path, b"short").unwrap();
        assert!(is_root(&path).is_err());
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_what_can_be_a_disk_is_one() {
        let folder = Folder::new("disk");
        let file = |name: &str, content: &[u8]| {
            let path = folder.0.join(name);
            fs::write(&path, content).unwrap();
            path
        };
        assert_eq!(format(&file("raw", &[0; 1024]), false).unwrap(), "raw");
        assert_eq!(format(&file("q", b"QFI\xfbx"), false).unwrap(), "qcow2");
        assert!(format(&file("empty", b""), false).is_err());
        assert!(format(&file("odd", &[1; 513]), false).is_err());
        assert!(format(&folder.0, true).is_err());
        assert!(format(&folder.0.join("absent"), false).is_err());
    }

    #[test]
    fn what_is_thrown_away_is_said_to_qemu() {
        let folder = Folder::new("disk,options");
        let path = folder.0.join("d");
        fs::write(&path, [0; 512]).unwrap();
        let drive = |disk: Disk, snapshot| disk.arguments(1, snapshot).unwrap()[1].clone();
        let kept = drive(Disk::File(path.clone()), false);
        assert!(kept.contains("format=raw") && kept.contains("disk,,options"));
        assert!(!kept.contains("unsafe") && !kept.contains("snapshot"));
        assert!(drive(Disk::File(path.clone()), true).ends_with(",snapshot=on"));
        assert!(drive(Disk::Unchanged(path.clone()), false).ends_with(",snapshot=on"));
        assert!(drive(Disk::Scratch(path), false).ends_with(",cache=unsafe"));
    }

    #[test]
    fn shapes_are_read() {
        let shape = Shape::parse("16M,-N,200").unwrap();
        assert_eq!((shape.size.as_str(), shape.options.len()), ("16M", 2));
        assert_eq!(bytes("3K"), Some(3072));
        assert!(Shape::parse("ext4").is_none() && Shape::parse("").is_none());
        assert!(Shape::parse("12").is_none());
    }

    #[test]
    fn a_damaged_file_system_is_found_out() {
        let folder = Folder::new("disk-check");
        let path = folder.0.join("image");
        ext4(&path, &Shape::parse("4M").unwrap(), None).unwrap();
        assert_eq!(check(&path).unwrap(), Ok(()));
        // The first group's descriptor, behind the superblock of the first KiB.
        let mut bytes = fs::read(&path).unwrap();
        bytes[2048..2052].fill(0x55);
        fs::write(&path, bytes).unwrap();
        assert!(check(&path).unwrap().is_err());
    }
}
