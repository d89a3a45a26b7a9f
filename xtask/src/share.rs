//! `--share HOSTDIR:GUESTDIR`: a folder of this computer as QEMU's virtio-9p device shows it.

use crate::cli::{Machine, System};
use crate::machine::{option_path, QEMU};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// As many as there are numbers for.
pub const MOST: usize = 2;
/// The longest path that the manifest's mounts have.
const LONGEST: usize = 63;

/// Each with where it is here, which is a folder, and its place in the guest.
pub fn shares(machine: &Machine) -> Result<Vec<(PathBuf, String)>> {
    let count = machine.shares.len();
    if count > MOST {
        bail!("{count} shares are too many: a machine has at most {MOST}");
    }
    let mut shares: Vec<(PathBuf, String)> = Vec::new();
    for pair in &machine.shares {
        let folder = place(&pair.second)?;
        if shares.iter().any(|(_, other)| *other == folder) {
            bail!("--share: two folders at {folder}");
        }
        let path = Path::new(&pair.first);
        let here = path
            .canonicalize()
            .with_context(|| format!("--share {}", pair.first))?;
        if !here.is_dir() {
            bail!("--share {}: it is no folder", pair.first);
        }
        shares.push((here, folder));
    }
    Ok(shares)
}

/// Where in the guest: a path that can stand in the manifest.
fn place(folder: &str) -> Result<String> {
    let whole = folder.trim_end_matches('/');
    let odd = |name: &str| matches!(name, "" | "." | "..");
    if !whole.starts_with('/') || whole[1..].split('/').any(odd) {
        bail!("--share: {folder}: the whole path of a folder in the guest is wanted");
    }
    if whole.len() > LONGEST || whole.contains(|c: char| c.is_control() || "\"\\ ".contains(c)) {
        bail!(
            "--share: {folder}: a path of at most {LONGEST} characters, without blanks, is wanted"
        );
    }
    Ok(whole.to_string())
}

/// QEMU's arguments for all of them.
pub fn attach(command: &mut Command, machine: &Machine) -> Result<()> {
    let shares = shares(machine)?;
    if shares.is_empty() {
        return Ok(());
    }
    if machine.system == System::Linux {
        bail!("--share is for Cairn: Debian's kernel in the boot archive has no driver for it");
    }
    let told = Command::new(QEMU).args(["-device", "help"]).output();
    let told =
        told.with_context(|| format!("cannot start {QEMU}; is qemu-system-x86 installed?"))?;
    if !String::from_utf8_lossy(&told.stdout).contains("\"virtio-9p-pci\"") {
        bail!("--share: this {QEMU} was built without virtfs and cannot show folders");
    }
    for (number, (here, _)) in shares.iter().enumerate() {
        let fsdev = format!("local,id=share{number},security_model=none,multidevs=remap,path=");
        command.arg("-fsdev").arg(option_path(&fsdev, here));
        command.arg("-device").arg(format!(
            "virtio-9p-pci,fsdev=share{number},mount_tag=share{number},disable-legacy=on"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Pair;

    fn with(pairs: &[(&str, &str)]) -> Machine {
        let pair = |(first, second): &(&str, &str)| Pair {
            first: first.to_string(),
            second: second.to_string(),
        };
        Machine {
            shares: pairs.iter().map(pair).collect(),
            ..Machine::plain(System::Cairn, "256M")
        }
    }

    #[test]
    fn what_cannot_be_shared_is_told() {
        let said = |pairs: &[(&str, &str)]| match shares(&with(pairs)) {
            Ok(shares) => format!("{} shares", shares.len()),
            Err(why) => format!("{why:#}"),
        };
        assert_eq!(said(&[("/tmp", "/host"), ("/", "/all/")]), "2 shares");
        assert!(said(&[("/no-such", "/host")]).contains("/no-such"));
        assert!(said(&[("/proc/version", "/host")]).contains("no folder"));
        for bad in ["host", "/", "/a/../b", "/a//b"] {
            assert!(said(&[("/tmp", bad)]).contains("whole path"), "{bad}");
        }
        assert!(said(&[("/tmp", "/a b")]).contains("without blanks"));
        assert!(said(&[("/tmp", "/a"), ("/", "/a/")]).contains("two folders"));
        assert!(said(&[("/tmp", "/a"), ("/tmp", "/b"), ("/tmp", "/c")]).contains("too many"));
    }
}
