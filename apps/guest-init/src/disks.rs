//! File systems on disks: what `/etc/fstab` and the command line's words `disk-mount=DEVICE:FOLDER` list is mounted at the start, and all are unmounted before the machine ends, so that nothing is left in a journal.
//!
//! On Linux the modules for them are loaded first, in the order of their names. On Cairn drivers and file systems are components: what the manifest has mounted is left as it is.

use crate::sys;
use std::fs;
use std::path::Path;

/// The modules, numbered.
const MODULES: &str = "/lib/modules/at-start";
const TABLE: &str = "/etc/fstab";
const MOUNTED: &str = "/proc/mounts";
/// What only Cairn has.
const CAIRN: &str = "/proc/nucleus";

/// A line of the table: device, folder, kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    device: String,
    folder: String,
    kind: String,
}

/// Mount what is to be mounted and is not yet.
pub fn mount_all<'a>(words: impl Iterator<Item = &'a str>) {
    let there = lines(&fs::read_to_string(MOUNTED).unwrap_or_default());
    let mut wanted = lines(&fs::read_to_string(TABLE).unwrap_or_default());
    wanted.extend(words.filter_map(named));
    for line in wanted {
        if there.iter().any(|mount| mount.folder == line.folder) {
            continue;
        }
        let mounted = fs::create_dir_all(&line.folder)
            .and_then(|()| sys::mount(&line.device, &line.folder, &line.kind));
        if let Err(e) = mounted {
            eprintln!("guest-init: cannot mount {}: {e}", line.folder);
        }
    }
}

/// The last colon separates: a device's name may hold one.
fn named(word: &str) -> Option<Line> {
    let (device, folder) = word.rsplit_once(':')?;
    Some(Line {
        device: device.to_string(),
        folder: folder.to_string(),
        kind: "ext4".to_string(),
    })
}

/// Unmount all devices, the last first; one that somebody still uses becomes read-only, which writes everything out as well.
pub fn unmount_all() {
    // On Cairn the end of the machine closes what the manifest mounted, and needs its mount for that.
    if Path::new(CAIRN).exists() {
        return;
    }
    let there = lines(&fs::read_to_string(MOUNTED).unwrap_or_default());
    let devices = there
        .iter()
        .filter(|mount| mount.device.starts_with("/dev/"));
    for line in devices.rev() {
        if sys::unmount(&line.folder).is_err() {
            // What cannot be made read-only has at least been synced.
            let _ = sys::read_only(&line.folder);
        }
    }
}

/// What is mounted on this folder, as its kind.
pub fn kind_at(folder: &str) -> Option<String> {
    let there = lines(&fs::read_to_string(MOUNTED).unwrap_or_default());
    let last = there.into_iter().rfind(|mount| mount.folder == folder);
    last.map(|mount| mount.kind)
}

/// Linux's modules; on Cairn there are none.
pub fn load_modules() {
    let Ok(entries) = fs::read_dir(Path::new(MODULES)) else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let loaded = fs::File::open(&path).and_then(|file| sys::load_module(&file));
        if let Err(e) = loaded {
            eprintln!("guest-init: {}: {e}", path.display());
        }
    }
}

/// Lines of a table of mounts; comments, swap and what is to be mounted nowhere are none.
fn lines(text: &str) -> Vec<Line> {
    let words = |line: &str| -> Option<Line> {
        let mut words = line.split_whitespace();
        let line = Line {
            device: words.next()?.to_string(),
            folder: words.next()?.to_string(),
            kind: words.next()?.to_string(),
        };
        (!line.device.starts_with('#') && line.folder.starts_with('/')).then_some(line)
    };
    text.lines().filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let text =
            "# a comment here\n/dev/vda /disk ext4 defaults 0 0\n/dev/vdb none swap sw 0 0\n\n";
        let found = lines(text);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (
                found[0].device.as_str(),
                found[0].folder.as_str(),
                found[0].kind.as_str()
            ),
            ("/dev/vda", "/disk", "ext4")
        );
        assert_eq!(named("/dev/vda:/disk"), found.into_iter().next());
        assert_eq!(named("/dev/vda"), None);
    }
}
