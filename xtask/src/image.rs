//! What is in the guest: the root file system that both systems share, and Cairn's components.

use crate::archive::Archive;
use crate::build::{self, System};
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

/// The whole boot archive of Cairn, of the standard components and those that `with`, a file with further lines for the manifest, names.
pub fn cairn(system: &System, add: &[Pair], with: Option<&Path>) -> Result<Archive> {
    let mut archive = root(&system.guest_init, add)?;
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut manifest = read(&places::root().join("system/system.toml"))?;
    if let Some(with) = with {
        manifest.push('\n');
        manifest.push_str(&read(with)?);
    }
    let parsed = match cairn_manifest::parse(&manifest) {
        Ok(parsed) => parsed,
        Err(invalid) => anyhow::bail!("the manifest is wrong: {}", invalid.0),
    };
    let mut further: Vec<String> = Vec::new();
    for component in &parsed.components {
        let Some(name) = component.binary.strip_prefix("/cairn/") else {
            continue;
        };
        let known = system.components.iter().any(|(known, _)| known == name)
            || further.iter().any(|f| f == name);
        if !known {
            further.push(name.to_string());
        }
    }
    for (name, file) in system
        .components
        .iter()
        .chain(&build::further(&further, with.and_then(Path::parent))?)
    {
        let data = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        archive.file(&format!("cairn/{name}"), 0o755, data);
    }
    archive.file("cairn/system.toml", 0o644, manifest.into_bytes());
    Ok(archive)
}
