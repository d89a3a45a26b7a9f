//! `--root debian`: a root file system of unmodified Debian packages on an ext4 disk, made once under `build/cache` and never installed on the host.
//!
//! apt resolves the dependencies against an empty system, so the outcome does not depend on what the host has. Maintainer scripts are not run: what they would have made and
//! somebody needs (accounts, the links of alternatives) is made here.

use crate::disk::{self, Shape, HASH_SEED};
use crate::{image, places, progress};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the root has; apt adds what these depend on.
const PACKAGES: [&str; 36] = [
    "base-files",
    "base-passwd",
    "bash",
    "bzip2",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "file",
    "findutils",
    "gawk",
    "grep",
    "gzip",
    "hostname",
    "less",
    "libc-bin",
    "lua5.4",
    "luajit",
    "make",
    "mount",
    "ncurses-base",
    "ncurses-bin",
    "netbase",
    "patch",
    "perl-base",
    "procps",
    "python3-minimal",
    "sed",
    "sqlite3",
    "tar",
    "tcc",
    "tzdata",
    "util-linux",
    "util-linux-extra",
    "vim-tiny",
    "xz-utils",
];

/// What only people read and programs do without, as Debian's images for containers leave it out.
const LEFT_OUT: [&str; 7] = [
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/lintian/*",
    "./usr/share/doc-base/*",
    "./var/cache/*",
];

/// Folders that are links into `usr`, as on every Debian since 12.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Links that `update-alternatives` makes: name, and the program that does it.
const ALTERNATIVES: [(&str, &str); 11] = [
    ("awk", "gawk"),
    ("c99", "tcc"),
    ("cc", "tcc"),
    ("editor", "vim.tiny"),
    ("ex", "vim.tiny"),
    ("lua", "lua5.4"),
    ("luac", "luac5.4"),
    ("pager", "less"),
    ("vi", "vim.tiny"),
    ("view", "vim.tiny"),
    ("which", "which.debianutils"),
];

/// Files that maintainer scripts copy into their place.
const COPIES: [(&str, &str); 7] = [
    ("usr/share/base-files/dot.bashrc", "root/.bashrc"),
    ("usr/share/base-files/nsswitch.conf", "etc/nsswitch.conf"),
    ("usr/share/base-files/profile", "etc/profile"),
    ("usr/share/base-files/dot.profile", "root/.profile"),
    ("usr/share/base-passwd/group.master", "etc/group"),
    ("usr/share/base-passwd/passwd.master", "etc/passwd"),
    ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
];

/// What maintainer scripts run in a new root: without the cache of libraries' places a start of a program looks for each of its libraries in a dozen folders.
const COMMANDS: [(&str, &str); 1] = [("/sbin/ldconfig", "-r")];

/// The folder with the root; made if it is not there, or was made from other lists.
fn root() -> Result<PathBuf> {
    let folder = places::cache().join("debian-root");
    let stamp = complete();
    let (folders, files) = image::beside_packages()?;
    let wanted = format!(
        "{PACKAGES:?} {LEFT_OUT:?} {ALTERNATIVES:?} {COPIES:?} {COMMANDS:?} {HASH_SEED} {folders:?} {files:?}"
    );
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(folder);
    }
    let _ = fs::remove_file(&stamp);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let download = places::cache().join("debian-root.download");
    fetch(&download)?;
    unpack(&download, &folder)?;
    finish(&folder)?;
    for (path, mode) in folders {
        let path = folder.join(path);
        if !path.exists() {
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
    }
    for (path, content) in files {
        fs::write(folder.join(path), content)?;
    }
    fs::remove_dir_all(&download)?;
    fs::write(&stamp, wanted)?;
    Ok(folder)
}

/// Says from what the folder was made, when it is whole.
fn complete() -> PathBuf {
    places::cache().join("debian-root.complete")
}

/// All packages of the root as files in `download/archives`.
fn fetch(download: &Path) -> Result<()> {
    let archives = download.join("archives");
    fs::create_dir_all(archives.join("partial"))?;
    let nothing_installed = download.join("status");
    fs::write(&nothing_installed, "")?;
    let option = |name: &str, value: &Path| format!("{name}={}", value.display());
    let get = || {
        progress::run(
            "downloading the packages of a Debian root (unpacked under build/cache, not installed)",
            Command::new("apt-get")
                .args(["-o", &option("Dir::State::status", &nothing_installed)])
                .args(["-o", &option("Dir::Cache::archives", &archives)])
                // Nothing of the host's is changed: no lock, no other user to download as.
                .args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="])
                .args(["--yes", "--download-only", "--no-install-recommends"])
                .arg("install")
                .args(PACKAGES),
        )
    };
    if get().is_err() {
        crate::packages::update_lists()?;
        get().context("is the network there, and does /etc/apt/sources.list name a mirror?")?;
    }
    Ok(())
}

fn unpack(download: &Path, folder: &Path) -> Result<()> {
    for name in MERGED {
        fs::create_dir_all(folder.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), folder.join(name))?;
    }
    let mut packages: Vec<PathBuf> = fs::read_dir(download.join("archives"))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "deb"))
        .collect();
    packages.sort();
    let exclude: String = LEFT_OUT.map(|what| format!(" --exclude='{what}'")).concat();
    // `dpkg-deb --extract` would put folders in the place of the links.
    let script = format!(
        "set -e; folder=$1; shift; for package; do dpkg-deb --fsys-tarfile \"$package\" | \
         tar --extract --keep-directory-symlink --no-same-owner --preserve-permissions --directory \"$folder\"{exclude}; done"
    );
    progress::run(
        &format!("unpacking {} packages", packages.len()),
        Command::new("sh")
            .args(["-c", &script, "unpack"])
            .arg(folder)
            .args(&packages),
    )
    .map(|_| ())
}

/// What maintainer scripts would have made.
fn finish(folder: &Path) -> Result<()> {
    for (from, to) in COPIES {
        let (from, to) = (folder.join(from), folder.join(to));
        if from.exists() {
            fs::copy(&from, &to).with_context(|| format!("cannot make {}", to.display()))?;
        }
    }
    for (name, program) in ALTERNATIVES {
        let (link, target) = (folder.join("usr/bin").join(name), Path::new(program));
        if folder.join("usr/bin").join(target).exists() && !link.exists() {
            symlink(target, link)?;
        }
    }
    for (program, options) in COMMANDS {
        let mut command = Command::new(program);
        progress::run(
            "finishing the Debian root",
            command.arg(options).arg(folder),
        )?;
    }
    Ok(())
}

/// The user's root: a copy of the one [`as_made`], from then on changed by guests only.
pub fn disk() -> Result<PathBuf> {
    let place = places::cache().join("debian.ext4");
    if !place.exists() {
        let new = place.with_extension("new");
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(as_made()?).arg(&new);
        progress::run("making a root of your own", &mut copy)?;
        // Whole or not at all.
        fs::rename(&new, &place)?;
    }
    Ok(place)
}

/// The file system with the packages, which nobody changes: made once for a list of packages.
pub fn as_made() -> Result<PathBuf> {
    let place = places::cache().join("debian-root.ext4");
    let tree = root()?;
    let stamp = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    if stamp(&place).is_some_and(|made| Some(made) >= stamp(&complete())) {
        return Ok(place);
    }
    let shape = Shape {
        size: "4G".to_string(),
        ..Shape::plain()
    };
    let new = place.with_extension("new");
    disk::ext4(&new, &shape, Some(&tree))?;
    if !rustix::process::geteuid().is_root() {
        disk::give_to_root(&new, &tree)?;
    }
    fs::rename(&new, &place)?;
    Ok(place)
}
