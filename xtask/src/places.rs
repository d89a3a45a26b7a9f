//! Where things are on the host.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How many machines' logs are kept.
const LOGS_KEPT: usize = 20;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// What a machine is booted from, in its folder until it ends.
pub const ARCHIVE: &str = "archive.cpio";

/// The repository's root.
pub fn root() -> PathBuf {
    match std::env::var_os("CAIRN_ROOT") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
    }
}

/// Everything that is made. `CAIRN_BUILD` puts it elsewhere.
pub fn build() -> PathBuf {
    match std::env::var_os("CAIRN_BUILD") {
        Some(build) => PathBuf::from(build),
        None => root().join("build"),
    }
}

/// Downloads: kept by `./cairn clean`.
pub fn cache() -> PathBuf {
    build().join("cache")
}

/// Programs as they go into the boot archive, without symbols.
pub fn programs() -> PathBuf {
    build().join("programs")
}

/// The same programs with symbols.
pub fn symbols() -> PathBuf {
    build().join("symbols")
}

/// Make something that another thread, which starts another machine, may be about to make, too: one at a time.
pub fn making<T>(make: impl FnOnce() -> T) -> T {
    static MAKING: Mutex<()> = Mutex::new(());
    // What a thread left half made when it panicked is found out by cargo and its like.
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    make()
}

/// A new folder for one machine's logs and files; `build/log/last` leads to it.
pub fn new_run(kind: &str) -> Result<PathBuf> {
    let logs = build().join("log");
    let folder = logs.join(format!("{kind}-{}", std::process::id()));
    // A process id can come round again, and one process may start several machines.
    let mut unique = folder.clone();
    let mut number = 1;
    while unique.exists() {
        number += 1;
        unique = folder.with_extension(number.to_string());
    }
    fs::create_dir_all(&unique).with_context(|| format!("cannot make {}", unique.display()))?;
    let last = logs.join("last");
    // Two machines may start at once: whose link stays does not matter.
    let _ = fs::remove_file(&last);
    let _ = std::os::unix::fs::symlink(&unique, &last);
    prune(&logs);
    Ok(unique)
}

/// Drop the oldest logs, but none of a machine that runs: it has its archive still. (What is a day old has been left by a process that was killed.) Nothing depends on its success.
fn prune(logs: &Path) {
    let Ok(entries) = fs::read_dir(logs) else {
        return;
    };
    let mut folders: Vec<_> = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    folders.sort();
    let surplus = folders.len().saturating_sub(LOGS_KEPT);
    let young = SystemTime::now() - DAY;
    for (at, folder) in folders.into_iter().take(surplus) {
        if at < young || !folder.join(ARCHIVE).exists() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}
