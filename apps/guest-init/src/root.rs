//! A root on a disk. On Linux this program begins in the boot archive's files and moves to the disk; on Cairn the manifest has put the disk at `/` and the archive at `/boot`.
//! What was added to the machine waits in a folder of the archive and is copied to its place.

use crate::{disks, sys};
use std::fs;
use std::io;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;

/// Where Linux's root waits to become it.
const NEW: &str = "/new-root";
/// Mounts that move along.
const MOVED: [&str; 3] = ["/dev", "/proc", "/sys"];
/// What was added: in the archive's files on Linux, and where Cairn has them.
const ADDED: [&str; 2] = ["/add", "/boot/add"];

/// Make the file system of this device the root, unless it is that already.
pub fn enter(device: &str) {
    let there = disks::kind_at("/").as_deref() == Some("ext4");
    let entered = match there {
        true => Ok(()),
        false => move_to(device),
    };
    if let Err(e) = entered {
        eprintln!("guest-init: the root on {device}: {e}");
        return;
    }
    if disks::kind_at("/run").is_none() {
        // Without it /run is a folder of the disk.
        let _ = sys::mount("tmpfs", "/run", "tmpfs");
    }
    if fs::create_dir_all("/run/shm").is_ok() {
        let _ = fs::set_permissions("/run/shm", fs::Permissions::from_mode(0o1777));
    }
    if let (true, Err(e)) = (there, copy_all(Path::new(ADDED[1]), Path::new("/"))) {
        eprintln!("guest-init: what was added: {e}");
    }
    // The program itself is on no disk where the kernel has it elsewhere.
    if there && Path::new(OWN).exists() {
        name_own(Path::new(NAMES_IN), &NAMES);
    }
}

/// Where this program is beside a root on a disk, the names under which it is other programs, and their folder.
const OWN: &str = "/boot/sbin/init";
const NAMES: [&str; 5] = ["cairn-ctl", "cairn-9p", "halt", "poweroff", "reboot"];
const NAMES_IN: &str = "/usr/local/sbin";

/// Links from these names, where nothing is yet. A root that cannot be written does without.
fn name_own(folder: &Path, names: &[&str]) {
    let _ = fs::create_dir_all(folder);
    for name in names {
        let place = folder.join(name);
        if fs::symlink_metadata(&place).is_err() {
            let _ = symlink(OWN, place);
        }
    }
}

fn move_to(device: &str) -> io::Result<()> {
    fs::create_dir_all(NEW)?;
    sys::mount(device, NEW, "ext4")?;
    copy_all(Path::new(ADDED[0]), Path::new(NEW))?;
    for folder in MOVED {
        sys::move_mount(folder, &format!("{NEW}{folder}"))?;
    }
    std::env::set_current_dir(NEW)?;
    sys::move_mount(".", "/")?;
    sys::change_root()?;
    std::env::set_current_dir("/")
}

/// Everything in a folder, into another one; what is there already is replaced. No folder: nothing.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let (from, to) = (entry?.path(), to);
        let to = to.join(from.file_name().unwrap_or_default());
        let metadata = fs::symlink_metadata(&from)?;
        if metadata.is_dir() {
            if !to.is_dir() {
                fs::create_dir_all(&to)?;
                fs::set_permissions(&to, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
            }
            copy_all(&from, &to)?;
            continue;
        }
        match fs::remove_file(&to) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        if metadata.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_replaces_what_is_there() {
        let root = std::env::temp_dir().join(format!("guest-init-root-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::create_dir_all(to.join("bin")).unwrap();
        fs::write(from.join("bin/x"), b"new").unwrap();
        fs::set_permissions(from.join("bin/x"), fs::Permissions::from_mode(0o751)).unwrap();
        symlink("x", from.join("bin/y")).unwrap();
        fs::write(to.join("bin/x"), b"old and longer").unwrap();
        fs::write(to.join("bin/kept"), b"kept").unwrap();
        copy_all(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("bin/y")).unwrap(), b"new");
        assert_eq!(
            fs::metadata(to.join("bin/x")).unwrap().mode() & 0o777,
            0o751
        );
        assert!(to.join("bin/kept").exists());
        copy_all(&root.join("absent"), &to).unwrap();
        name_own(&to.join("bin"), &["x", "new"]);
        assert_eq!(fs::read(to.join("bin/x")).unwrap(), b"new");
        assert_eq!(fs::read_link(to.join("bin/new")).unwrap(), Path::new(OWN));
        fs::remove_dir_all(root).unwrap();
    }
}
