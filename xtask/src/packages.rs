//! Debian packages that are downloaded and unpacked under `build/cache`, never installed: busybox for the guest, the Linux kernel to compare with.

use crate::{linux_kernel, modules, places, progress};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's statically linked busybox.
pub fn busybox() -> Result<PathBuf> {
    let folder = unpacked("busybox-static", "busybox-static")?;
    for place in ["bin/busybox", "usr/bin/busybox"] {
        if folder.join(place).is_file() {
            return Ok(folder.join(place));
        }
    }
    bail!(
        "{}: no busybox in the package; `./cairn clean --all` and try again",
        folder.display()
    )
}

/// The newest kernel of the distribution, unpacked if that can be.
pub fn linux() -> Result<PathBuf> {
    let folder = linux_folder()?;
    let boot = folder.join("boot");
    let kernel = fs::read_dir(&boot)
        .with_context(|| format!("no folder {}", boot.display()))?
        .flatten()
        .map(|e| e.path())
        .find(|p| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz"))
        });
    let kernel = kernel.with_context(|| {
        format!(
            "no kernel in {}; `./cairn clean --all` and try again",
            boot.display()
        )
    })?;
    let unpacked = folder.join("vmlinux");
    if !unpacked.exists() {
        let Some(bytes) = linux_kernel::unpacked(&fs::read(&kernel)?) else {
            return Ok(kernel);
        };
        // Somebody else may do the same at the same time.
        let new = folder.join(format!("vmlinux.{}", std::process::id()));
        fs::write(&new, bytes)?;
        fs::rename(&new, &unpacked)?;
    }
    Ok(unpacked)
}

/// Modules of this kernel with all that they depend on, in the order in which they can be loaded.
pub fn linux_modules(names: &[&str]) -> Result<Vec<Vec<u8>>> {
    modules::in_order(&linux_folder()?, names)
}

/// The folder with the kernel's package.
fn linux_folder() -> Result<PathBuf> {
    if let Some(folder) = cached("linux-image")? {
        return Ok(folder);
    }
    let package = linux_package().or_else(|_| {
        update_lists()?;
        linux_package()
    })?;
    unpacked("linux-image", &package)
}

/// The package that the metapackage leads to: `linux-image-amd64` on Debian, `linux-image-generic` on Ubuntu.
fn linux_package() -> Result<String> {
    for metapackage in ["linux-image-amd64", "linux-image-generic"] {
        let output = Command::new("apt-cache")
            .args(["depends", metapackage])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let package = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|name| name.starts_with("linux-image-"));
        if let Some(package) = package {
            return Ok(package.to_string());
        }
    }
    bail!("the package lists know no linux-image-amd64; `apt-get update` may help")
}

fn cached(name: &str) -> Result<Option<PathBuf>> {
    let folder = places::cache().join(name);
    Ok(folder.join(".complete").exists().then_some(folder))
}

/// The folder with the contents of a package; downloaded if it is not there yet.
fn unpacked(name: &str, package: &str) -> Result<PathBuf> {
    if let Some(folder) = cached(name)? {
        return Ok(folder);
    }
    let folder = places::cache().join(name);
    let download = places::cache().join(format!("{name}.download"));
    for folder in [&folder, &download] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    let step = format!(
        "downloading Debian's package {package} (unpacked under build/cache, not installed)"
    );
    let fetch = || {
        progress::run(
            &step,
            Command::new("apt-get")
                .args(["download", package])
                .current_dir(&download),
        )
    };
    if fetch().is_err() {
        update_lists()?;
        fetch().context("is the network there, and does /etc/apt/sources.list name a mirror?")?;
    }
    let deb = fs::read_dir(&download)?
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "deb"))
        .with_context(|| format!("apt-get left no package in {}", download.display()))?;
    progress::run(
        &format!("unpacking {package}"),
        Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&folder),
    )?;
    fs::remove_dir_all(&download)?;
    fs::write(folder.join(".complete"), package)?;
    Ok(folder)
}

pub fn update_lists() -> Result<()> {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "apt-get" } else { "sudo" });
    if !root {
        command.arg("apt-get");
    }
    progress::run(
        "updating the package lists (apt-get update)",
        command.arg("update"),
    )
    .map(|_| ())
}

/// Paths of all applets, as `bin/ls`.
pub fn applets(busybox: &Path) -> Result<Vec<String>> {
    let output = Command::new(busybox)
        .arg("--list-full")
        .output()
        .with_context(|| format!("cannot run {}", busybox.display()))?;
    let text = String::from_utf8(output.stdout).context("busybox printed no text")?;
    Ok(text.lines().map(str::to_string).collect())
}
