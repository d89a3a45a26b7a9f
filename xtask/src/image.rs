//! What is in the guest: the root file system that both systems share, and Cairn's components.

use crate::archive::Archive;
use crate::build::System;
use crate::cli::Pair;
use crate::{packages, places};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Folders of the root and their modes.
const FOLDERS: [(&str, u32); 22] = [
    ("bin", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("home/user", 0o755),
    ("mnt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    // What /dev/shm leads to on Cairn.
    ("run/shm", 0o1777),
    ("sbin", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
    ("usr/local", 0o755),
    ("usr/local/bin", 0o755),
    ("usr/sbin", 0o755),
    ("var", 0o755),
    ("var/log", 0o755),
    ("var/run", 0o755),
    ("var/tmp", 0o1777),
];

/// The root file system that Cairn and Linux share: Debian's busybox with its applets, `guest-init`, a few files in `/etc`, and what was added.
pub fn root(guest_init: &Path, add: &[Pair]) -> Result<Archive> {
    let mut archive = Archive::default();
    for (path, mode) in FOLDERS {
        archive.directory(path, mode);
    }
    let busybox = packages::busybox()?;
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    archive.file("bin/busybox", 0o755, read(&busybox)?);
    for applet in packages::applets(&busybox)? {
        // The first process is our own.
        if !["linuxrc", "sbin/init"].contains(&applet.as_str()) && !archive.contains(&applet) {
            archive.symlink(&applet, "/bin/busybox");
        }
    }
    archive.file("sbin/init", 0o755, read(guest_init)?);
    // Linux opens it before the first process could make it.
    archive.character_device("dev/console", 0o600, 5, 1);
    archive.host(&places::root().join("system/root"), "/")?;
    for pair in add {
        archive.host(Path::new(&pair.first), &pair.second)?;
    }
    Ok(archive)
}

/// The whole boot archive of Cairn. `extra` is appended to the manifest (tests add their components so).
pub fn cairn(system: &System, add: &[Pair], extra: Option<&str>) -> Result<Archive> {
    let mut archive = root(&system.guest_init, add)?;
    for (name, file) in &system.components {
        let data = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        archive.file(&format!("cairn/{name}"), 0o755, data);
    }
    let path = places::root().join("system/system.toml");
    let mut manifest =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(extra) = extra {
        manifest.push('\n');
        manifest.push_str(extra);
    }
    if let Err(invalid) = cairn_manifest::parse(&manifest) {
        anyhow::bail!("system/system.toml: {}", invalid.0);
    }
    archive.file("cairn/system.toml", 0o644, manifest.into_bytes());
    Ok(archive)
}
