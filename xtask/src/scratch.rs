//! Disks for native tests: a line `# scratch-disk: 64M` of `--with`'s file gives the machine a virtio disk of that size, with two partitions (`64M ext4`, `vfat`, `vfat32`: with one file system in place of them), which goes with the run; `64M nvme,serial=1` makes it another device of QEMU's.

use crate::disk;
use crate::machine::{option_path, Boot};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

const SECTOR: u64 = 512;
const VIRTIO: &str = "virtio-blk-pci,disable-legacy=on";
/// Where the first partition begins (sectors), as tools put it.
const FIRST: u64 = 2048;

/// Add the disks that the file asks for to QEMU's command line.
pub fn attach(command: &mut Command, boot: &Boot, with: Option<&Path>) -> Result<()> {
    let Some(file) = with else { return Ok(()) };
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let asked = text
        .lines()
        .filter_map(|line| line.strip_prefix("# scratch-disk: "));
    for (i, asked) in asked.map(str::trim).enumerate() {
        let (size, more) = asked.split_once(' ').unwrap_or((asked, ""));
        let bytes = size
            .strip_suffix('M')
            .and_then(|number| number.parse::<u64>().ok())
            .with_context(|| format!("{size:?} is no size of a disk"))?
            << 20;
        let path = boot.run.join(format!("scratch{i}.img"));
        let mut disk = File::create(&path)?;
        disk.set_len(bytes)?;
        let (kind, device) = more.split_once(' ').unwrap_or((more, ""));
        let device = match kind {
            "ext4" => format(&path, size).map(|()| device)?,
            "vfat" => disk::fat(&path, "16").map(|()| device)?,
            "vfat32" => disk::fat(&path, "32").map(|()| device)?,
            _ => disk.write_all(&table(bytes / SECTOR)).map(|()| more)?,
        };
        let device = match device {
            "" => VIRTIO,
            device => device,
        };
        let drive = option_path("", &path);
        command.args([
            "-drive",
            &format!("if=none,id=scratch{i},format=raw,cache=unsafe,discard=unmap,file={drive}"),
        ]);
        let device = format!("{device},drive=scratch{i}");
        command.args(["-device", &device]);
    }
    Ok(())
}

/// A new file system on all of the disk.
fn format(path: &Path, size: &str) -> Result<()> {
    let shape = disk::Shape {
        size: size.to_string(),
        ..disk::Shape::plain()
    };
    disk::ext4(path, &shape, None)
}

/// What `e2fsck -fn` or `fsck.fat -n` finds wrong with the file systems of a machine that has been switched off.
pub fn check(run: &Path, with: &Path) -> Result<Result<(), String>> {
    let text = fs::read_to_string(with)?;
    let asked = text
        .lines()
        .filter_map(|line| line.strip_prefix("# scratch-disk: "));
    for (i, asked) in asked.enumerate() {
        let path = run.join(format!("scratch{i}.img"));
        let found = match asked.split(' ').nth(1) {
            Some("ext4") => disk::check(&path)?,
            Some("vfat" | "vfat32") => disk::check_fat(&path)?,
            _ => Ok(()),
        };
        if found.is_err() {
            return Ok(found);
        }
    }
    Ok(Ok(()))
}

/// An MBR that halves the disk.
fn table(sectors: u64) -> [u8; SECTOR as usize] {
    let mut block = [0; SECTOR as usize];
    let half = (sectors - FIRST) / 2;
    for (i, first) in [FIRST, FIRST + half].into_iter().enumerate() {
        let entry = &mut block[446 + 16 * i..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&(first as u32).to_le_bytes());
        entry[12..].copy_from_slice(&(half as u32).to_le_bytes());
    }
    block[510..].copy_from_slice(&[0x55, 0xaa]);
    block
}
