//! `--root debian`: a root file system of unmodified Debian packages on an ext4 disk, made once under `build/cache` and never installed on the host.
//!
//! apt resolves the dependencies against an empty system, so the outcome does not depend on what the host has. There are two such roots:
//!
//! - **as made** ([`Collection::as_made`]): the host unpacked the packages, no maintainer script has run, and [`configured`] made what those of the
//!   base packages would have. It is there within seconds, is the same each time, and is what tests use;
//! - **the user's** ([`Collection::disk`]): dpkg configured the packages in a machine ([`configure`]). Further packages (`--package`) are
//!   installed onto a copy of it, by the guest's own apt and dpkg.

mod configure;
mod configured;
mod contents;

use crate::disk::{self, Shape, HASH_SEED};
use crate::{image, places, progress};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the root has; apt adds what these depend on.
const PACKAGES: [&str; 50] = [
    "apt",
    "base-files",
    "base-passwd",
    "bash",
    "bubblewrap",
    "busybox-static",
    "bzip2",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "dpkg",
    "e2fsprogs",
    "file",
    "findutils",
    "gawk",
    "gdb",
    "grep",
    "gzip",
    "hostname",
    "less",
    "libc-bin",
    "libc6-dev",
    "libcap2-bin",
    "libpam-runtime",
    "login",
    "lua5.4",
    "luajit",
    "make",
    "mount",
    "ncurses-base",
    "ncurses-bin",
    "netbase",
    "passwd",
    "patch",
    "perl",
    "procps",
    "python3",
    "sed",
    "sqlite3",
    "strace",
    "sudo",
    "tar",
    "tcc",
    "tzdata",
    // The tree has the links.
    "usr-is-merged",
    "util-linux",
    "util-linux-extra",
    "vim",
    "xz-utils",
];

/// What only people read and programs do without, as Debian's images for containers leave it out.
const LEFT_OUT: [&str; 6] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
    "/usr/share/doc-base/*",
];

/// Folders that are links into `usr`, as on every Debian since 12.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Longer lists of packages are named by a hash.
const SHORT: usize = 80;

/// What maintainer scripts run in a new root: without the cache of libraries' places a start of a program looks for each of its libraries in a dozen folders.
const COMMANDS: [(&str, &str); 1] = [("/sbin/ldconfig", "-r")];

/// A root: the standard packages, and further ones.
pub struct Collection<'a>(pub &'a [String]);

impl Collection<'_> {
    /// Every package that was asked for, the standard ones first.
    fn packages(&self) -> Vec<&str> {
        let mut further: Vec<&str> = self.0.iter().map(String::as_str).collect();
        further.sort();
        further.dedup();
        further.retain(|name| !PACKAGES.contains(name));
        PACKAGES.into_iter().chain(further).collect()
    }

    /// Something that is made of it, under `build/cache`.
    fn place(&self, name: &str, ending: &str) -> PathBuf {
        let further = &self.packages()[PACKAGES.len()..];
        let further: String = further.iter().map(|name| format!("+{name}")).collect();
        let further = match further.len() {
            0..=SHORT => further,
            _ => format!("+{}", short_hash(&further)),
        };
        places::cache().join(format!("{name}{further}{ending}"))
    }

    /// Something of the user's root that lies beside its disk.
    pub fn beside(&self, ending: &str) -> PathBuf {
        self.place("debian", ending)
    }

    /// The folder with the root, and the commands of `debugfs` that give files to their owners; made if it is not there, or was made from other lists.
    fn tree(&self) -> Result<(PathBuf, PathBuf)> {
        let folder = self.place("debian-root", "");
        let script = self.place("debian-root", ".owners");
        let stamp = self.complete();
        let (folders, files) = image::beside_packages()?;
        let packages = self.packages();
        let wanted = format!(
            "{packages:?} {LEFT_OUT:?} {} {COMMANDS:?} {HASH_SEED} {folders:?} {files:?}",
            configured::VERSION
        );
        if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
            return Ok((folder, script));
        }
        let _ = fs::remove_file(&stamp);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let download = self.place("debian-root", ".download");
        fetch(&download, &packages, "")?;
        let mut owners = unpack(&download, &folder)?;
        configured::finish(&folder, &mut owners)?;
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
        sources(&folder)?;
        for (program, options) in COMMANDS {
            let mut command = Command::new(program);
            progress::run(
                "finishing the Debian root",
                command.arg(options).arg(&folder),
            )?;
        }
        fs::remove_dir_all(&download)?;
        fs::write(&script, owners.script())?;
        fs::write(&stamp, wanted)?;
        Ok((folder, script))
    }

    /// Says from what the folder was made, when it is whole.
    fn complete(&self) -> PathBuf {
        self.place("debian-root", ".complete")
    }

    /// The user's root: a copy of [`standard`] with the further packages, from then on changed by guests only.
    pub fn disk(&self) -> Result<PathBuf> {
        let place = self.place("debian", ".ext4");
        if place.exists() {
            return Ok(place);
        }
        let _turn = Turn::take()?;
        // Whoever had the turn before may have made it.
        if place.exists() {
            return Ok(place);
        }
        let new = self.place("debian", ".new");
        copy(&standard()?, &new)?;
        let further = &self.packages()[PACKAGES.len()..];
        if !further.is_empty() {
            let (tree, _) = Collection(&[]).tree()?;
            let installed = fs::read_to_string(tree.join("var/lib/dpkg/status"))?;
            let download = self.place("debian", ".download");
            fetch(&download, further, &installed)?;
            let archives = download.join("archives");
            // What was named may be there because something else needs it.
            if debs(&archives)?.is_empty() {
                progress::note("the standard root has these packages");
            } else {
                configure::report(&configure::further(&new, &archives)?);
            }
            fs::remove_dir_all(&download)?;
        }
        // Whole or not at all.
        fs::rename(&new, &place)?;
        Ok(place)
    }

    /// The user's root is made anew when it is asked for next.
    pub fn forget(&self) -> Result<()> {
        match fs::remove_file(self.place("debian", ".ext4")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// The file system with the packages, which nobody changes: made once for a list of packages.
    pub fn as_made(&self) -> Result<PathBuf> {
        let _turn = Turn::take()?;
        self.unpacked()
    }

    /// The same, for who has the turn.
    fn unpacked(&self) -> Result<PathBuf> {
        let place = self.place("debian-root", ".ext4");
        let (tree, owners) = self.tree()?;
        let stamp = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
        if stamp(&place).is_some_and(|made| Some(made) >= stamp(&self.complete())) {
            return Ok(place);
        }
        let shape = Shape {
            size: "4G".to_string(),
            ..Shape::plain()
        };
        let new = self.place("debian-root", ".new");
        disk::ext4(&new, &shape, Some(&tree))?;
        if !rustix::process::geteuid().is_root() {
            disk::give_to_root(&new, &tree)?;
        }
        disk::change(&new, "giving files to their owners", &owners)?;
        fs::rename(&new, &place)?;
        Ok(place)
    }
}

/// Roots are made by one command at a time; others wait.
struct Turn {
    _file: File,
}

impl Turn {
    fn take() -> Result<Turn> {
        Turn::take_of(&places::cache().join("debian.lock"))
    }

    fn take_of(place: &Path) -> Result<Turn> {
        use rustix::fs::{flock, FlockOperation};
        use rustix::io::Errno;
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        let file =
            File::create(place).with_context(|| format!("cannot make {}", place.display()))?;
        let mut step =
            progress::Step::begin("waiting for another ./cairn, which makes a Debian root");
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Turn { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) => step.tick(),
                Err(e) => {
                    return Err(e).with_context(|| format!("cannot lock {}", place.display()))
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// For tests: what failed when packages' files were installed onto a copy of the standard root, at this place.
pub fn install_onto_copy(place: &Path, archives: &Path) -> Result<Vec<String>> {
    let made = {
        let _turn = Turn::take()?;
        standard()?
    };
    copy(&made, place)?;
    let failures = configure::further(place, archives)?;
    Ok(failures.iter().map(configure::Failure::text).collect())
}

/// Other for roots whose programs may answer otherwise.
pub fn identity() -> String {
    format!("{} {}", PACKAGES.join(" "), configured::VERSION)
}

/// The standard packages, configured: made once, changed by nobody.
fn standard() -> Result<PathBuf> {
    let standard = Collection(&[]);
    let made = standard.unpacked()?;
    let place = standard.place("debian-configured", ".ext4");
    let stamp = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    if stamp(&place).is_some_and(|done| Some(done) >= stamp(&made)) {
        return Ok(place);
    }
    let new = standard.place("debian-configured", ".new");
    copy(&made, &new)?;
    configure::report(&configure::standard(&new)?);
    fs::rename(&new, &place)?;
    Ok(place)
}

/// Where the guest's apt finds more packages: the archive of the distribution that the packages are of.
fn sources(folder: &Path) -> Result<()> {
    let release = fs::read_to_string(folder.join("usr/lib/os-release"))?;
    let field = |name: &str| {
        let mut lines = release.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    let text = sources_of(
        field("ID").unwrap_or_default(),
        field("VERSION_CODENAME").unwrap_or_default(),
    );
    fs::write(folder.join("etc/apt/sources.list"), text)?;
    Ok(())
}

fn sources_of(distribution: &str, name: &str) -> String {
    let (archive, security, parts) = match distribution {
        "ubuntu" => (
            "http://archive.ubuntu.com/ubuntu",
            "http://security.ubuntu.com/ubuntu",
            "main universe",
        ),
        _ => (
            "http://deb.debian.org/debian",
            "http://deb.debian.org/debian-security",
            "main",
        ),
    };
    format!(
        "deb {archive} {name} {parts}\ndeb {archive} {name}-updates {parts}\ndeb {security} {name}-security {parts}\n"
    )
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.arg("--sparse=always").arg(from).arg(to);
    progress::run("copying a root", &mut copy).map(|_| ())
}

/// A file system with what a folder of the user's has, for machines that keep nothing of what they change. Made again for each.
pub fn folder(folder: &Path) -> Result<PathBuf> {
    let path = fs::canonicalize(folder)?;
    let name = short_hash(&path.to_string_lossy());
    let place = places::cache().join(format!("root-{name}.ext4"));
    // One command asks several times.
    static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.as_ref() == Some(&place) {
        return Ok(place);
    }
    let shape = Shape {
        size: "4G".to_string(),
        ..Shape::plain()
    };
    let new = place.with_extension("new");
    fs::create_dir_all(places::cache())?;
    disk::ext4(&new, &shape, Some(&path))?;
    if !rustix::process::geteuid().is_root() {
        disk::give_to_root(&new, &path)?;
    }
    let (folders, _) = image::beside_packages()?;
    let missing = folders
        .iter()
        .filter(|(name, _)| path.join(name).symlink_metadata().is_err());
    let lines = missing.map(|(name, mode)| {
        format!(
            "mkdir \"/{name}\"\nsif \"/{name}\" mode 0{:o}\n",
            0o40000 | mode
        )
    });
    let commands = new.with_extension("folders");
    fs::write(&commands, lines.collect::<String>())?;
    disk::change(&new, "adding folders that a system needs", &commands)?;
    fs::remove_file(&commands)?;
    fs::rename(&new, &place)?;
    *made = Some(place.clone());
    Ok(place)
}

fn short_hash(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(text);
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// For the command line: a name as Debian's policy has it.
pub fn package(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fair = name.starts_with(plain) && name.chars().all(|c| plain(c) || "+-.".contains(c));
    match fair {
        true => Ok(name.to_string()),
        false => Err("the name of a Debian package is wanted".to_string()),
    }
}

/// These packages and what they need beside what is installed (dpkg's records), as files in `download/archives`.
fn fetch(download: &Path, packages: &[&str], installed: &str) -> Result<()> {
    let archives = download.join("archives");
    fs::create_dir_all(archives.join("partial"))?;
    let status = download.join("status");
    fs::write(&status, installed)?;
    let option = |name: &str, value: &Path| format!("{name}={}", value.display());
    let get = || {
        progress::run(
            "downloading the packages of a Debian root (unpacked under build/cache, not installed)",
            Command::new("apt-get")
                .args(["-o", &option("Dir::State::status", &status)])
                .args(["-o", &option("Dir::Cache::archives", &archives)])
                // Nothing of the host's is changed: no lock, no other user to download as.
                .args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="])
                .args(["--yes", "--download-only", "--no-install-recommends"])
                .arg("install")
                .args(packages),
        )
    };
    if get().is_err() {
        crate::packages::update_lists()?;
        get().context("is the network there, and does /etc/apt/sources.list name a mirror?")?;
    }
    Ok(())
}

/// The packages' files in a folder.
fn debs(archives: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(archives)?.flatten();
    let files = files.map(|entry| entry.path());
    let is_package = |path: &PathBuf| path.extension().is_some_and(|e| e == "deb");
    Ok(files.filter(is_package).collect())
}

/// They belong to root but for what is told.
fn unpack(download: &Path, folder: &Path) -> Result<contents::Owners> {
    for name in MERGED {
        fs::create_dir_all(folder.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), folder.join(name))?;
    }
    let mut packages = debs(&download.join("archives"))?;
    // Folders are as the first package has them that brings them.
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_os_string());
    let base =
        |path: &PathBuf| name(path).is_some_and(|n| n.to_string_lossy().starts_with("base-"));
    packages.sort_by_key(|path| (!base(path), name(path)));
    let owners = contents::unpack(&packages, folder)?;
    let rules = LEFT_OUT.map(|what| format!("path-exclude={what}\n"));
    fs::write(folder.join("etc/dpkg/dpkg.cfg.d/left-out"), rules.concat())?;
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_of_packages_has_a_place_of_its_own() {
        let place = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            let place = Collection(&names).place("debian", ".ext4");
            place.file_name().unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(place(&[]), "debian.ext4");
        assert_eq!(place(&["bash"]), "debian.ext4");
        assert_eq!(place(&["nano", "jq", "jq"]), "debian+jq+nano.ext4");
        let many: Vec<String> = (0..99).map(|n| format!("package{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(place(&many).len() < SHORT && place(&many) != place(&many[1..]));
    }

    #[test]
    fn one_makes_roots_at_a_time() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let place = std::env::temp_dir().join(format!("xtask-turn-{}", std::process::id()));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let first = Turn::take_of(&place).unwrap();
            let second = scope.spawn(|| {
                let turn = Turn::take_of(&place).unwrap();
                assert!(done.load(Ordering::SeqCst));
                drop(turn);
            });
            std::thread::sleep(Duration::from_millis(300));
            done.store(true, Ordering::SeqCst);
            drop(first);
            second.join().unwrap();
        });
        fs::remove_file(&place).unwrap();
    }

    #[test]
    fn apt_is_told_of_the_distributions_archive() {
        let lines = sources_of("debian", "bookworm");
        assert!(lines.starts_with("deb http://deb.debian.org/debian bookworm main\n"));
        assert!(sources_of("ubuntu", "noble").contains("/ubuntu noble-security main universe\n"));
    }

    #[test]
    fn only_names_of_packages_are_taken() {
        assert!(package("libstdc++6").is_ok() && package("lua5.4").is_ok());
        for name in ["", "-oX", "a b", "A", "a/b", "a="] {
            assert!(package(name).is_err(), "{name}");
        }
    }
}
