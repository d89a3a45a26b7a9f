//! A folder's contents as text that two systems can be compared by, and removing a folder.
//!
//! One line for each entry, in the order of their names: type letter, mode in octal, links, size, SHA-256 of the contents (or `-`), path relative to
//! the folder; a symbolic link's target follows its path behind ` -> `. Links and size only where every file system must agree (not of folders).

use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Send the listing of `path` in pieces; 0 or the errno that it ended with.
pub fn list(path: &[u8], send: &mut dyn FnMut(&[u8])) -> i32 {
    let root = Path::new(OsStr::from_bytes(path));
    errno(walk(root, Path::new(""), send))
}

/// Remove `path` and all below it; 0 or the errno. A path that is not there, and the empty path, are fine.
pub fn remove(path: &[u8]) -> i32 {
    if path.is_empty() {
        return 0;
    }
    match fs::remove_dir_all(Path::new(OsStr::from_bytes(path))) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        result => errno(result),
    }
}

fn errno(result: io::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
    }
}

fn walk(root: &Path, below: &Path, send: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(below))? {
        names.push(entry?.file_name());
    }
    names.sort();
    for name in names {
        let relative = below.join(name);
        let path = root.join(&relative);
        let metadata = fs::symlink_metadata(&path)?;
        send(&line(&path, &relative, &metadata)?);
        if metadata.is_dir() {
            walk(root, &relative, send)?;
        }
    }
    Ok(())
}

fn line(path: &Path, relative: &Path, metadata: &Metadata) -> io::Result<Vec<u8>> {
    let kind = metadata.file_type();
    let mode = metadata.mode() & 0o7777;
    let (letter, links, size, hash) = if kind.is_file() {
        (
            "f",
            metadata.nlink().to_string(),
            metadata.size().to_string(),
            hash(path)?,
        )
    } else if kind.is_symlink() {
        (
            "l",
            "-".to_string(),
            metadata.size().to_string(),
            "-".to_string(),
        )
    } else {
        let letter = if kind.is_dir() {
            "d"
        } else if kind.is_fifo() {
            "p"
        } else if kind.is_char_device() {
            "c"
        } else if kind.is_block_device() {
            "b"
        } else {
            "s"
        };
        (letter, "-".to_string(), "-".to_string(), "-".to_string())
    };
    let mut line = format!("{letter} {mode:04o} {links} {size} {hash} ").into_bytes();
    line.extend_from_slice(relative.as_os_str().as_bytes());
    if kind.is_symlink() {
        line.extend_from_slice(b" -> ");
        line.extend_from_slice(fs::read_link(path)?.as_os_str().as_bytes());
    }
    line.push(b'\n');
    Ok(line)
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn listing_is_sorted_and_complete() {
        let root = std::env::temp_dir().join(format!("guest-init-tree-{}", std::process::id()));
        fs::create_dir_all(root.join("b")).unwrap();
        fs::write(root.join("b/x"), b"abc").unwrap();
        fs::set_permissions(root.join("b/x"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(root.join("b"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("b/x", root.join("a")).unwrap();
        let mut text = Vec::new();
        let path = root.as_os_str().as_bytes().to_vec();
        assert_eq!(list(&path, &mut |piece| text.extend_from_slice(piece)), 0);
        let expected = "l 0777 - 3 - a -> b/x\nd 0755 - - - b\n\
            f 0640 1 3 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad b/x\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(remove(&path), 0);
        assert!(!root.exists());
        assert_eq!(remove(&path), 0);
        assert_eq!(list(&path, &mut |_| {}), libc::ENOENT);
    }
}
