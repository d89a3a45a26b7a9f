//! What must be there before anything else: mounts that the kernel did not make, and the words of the command line.

use crate::{disks, root, sys};
use std::collections::HashMap;
use std::path::Path;

/// What the kernel command line says to this program.
pub struct Words {
    pub mode: String,
    pub rows: u16,
    pub cols: u16,
    pub term: String,
}

/// Mount what is missing and read the command line.
pub fn prepare() -> Words {
    if std::process::id() == 1 {
        mount_missing();
        disks::load_modules();
        let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        if let Some(device) = words_of(&line, "disk-root").next() {
            root::enter(device);
        }
        disks::mount_all(words_of(&line, "disk-mount"));
        name_host();
        // A failure is not fatal: there may be no network.
        let _ = sys::raise_loopback();
        name_servers(words_of(&line, "nameserver"));
    }
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let environment: HashMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    words_from(&environment, &line)
}

/// On Cairn these are there from the start (the manifest names them). On Linux an initramfs begins with nothing.
fn mount_missing() {
    let mounts = [
        ("/dev", "devtmpfs", "/dev/null"),
        ("/proc", "proc", "/proc/self"),
        ("/sys", "sysfs", "/sys/kernel"),
    ];
    for (point, kind, witness) in mounts {
        // A failure is not fatal: what needs the mount will say so itself.
        if !Path::new(witness).exists() {
            let _ = sys::mount(kind, point, kind);
        }
    }
    if Path::new("/dev/ptmx").exists() && std::fs::create_dir_all("/dev/pts").is_ok() {
        let _ = sys::mount("devpts", "/dev/pts", "devpts");
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        if std::fs::symlink_metadata(link).is_err() {
            // On a /dev that cannot hold links this fails, and programs do without.
            let _ = std::os::unix::fs::symlink(target, link);
        }
    }
}

/// As any first process does: the host's name is what `/etc/hostname` says.
fn name_host() {
    if let Ok(name) = std::fs::read_to_string("/etc/hostname") {
        let _ = std::fs::write("/proc/sys/kernel/hostname", name.trim());
    }
}

/// Who is asked for names, unless the root says so itself.
fn name_servers<'a>(servers: impl Iterator<Item = &'a str>) {
    let lines: String = servers
        .map(|server| format!("nameserver {server}\n"))
        .collect();
    let file = "/etc/resolv.conf";
    if !lines.is_empty() && !Path::new(file).exists() {
        // Where the root cannot be written, numbers still do.
        let _ = std::fs::write(file, lines);
    }
}

/// The values of a word of the command line.
fn words_of<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let words = line.split_whitespace();
    words.filter_map(move |word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The environment wins over the command line; what neither says gets a default.
fn words_from(environment: &HashMap<String, String>, line: &str) -> Words {
    let on_line: HashMap<&str, &str> = line
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .collect();
    let word = |name: &str| {
        environment
            .get(name)
            .map(String::as_str)
            .or_else(|| on_line.get(name).copied())
            .unwrap_or("")
            .to_string()
    };
    let term = word("term");
    Words {
        mode: word("mode"),
        rows: word("rows").parse().unwrap_or(0),
        cols: word("cols").parse().unwrap_or(0),
        term: if term.is_empty() {
            "linux".to_string()
        } else {
            term
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_from_either_place() {
        let environment = HashMap::from([("mode".to_string(), "exec".to_string())]);
        let words = words_from(&environment, "mode=shell rows=40 quiet cols=x term=xterm");
        assert_eq!(words.mode, "exec");
        assert_eq!((words.rows, words.cols), (40, 0));
        assert_eq!(words.term, "xterm");
        assert_eq!(words_from(&HashMap::new(), "").term, "linux");
        let line = "quiet disk-root=/dev/vda x=y";
        assert_eq!(words_of(line, "disk-root").next(), Some("/dev/vda"));
        assert_eq!(words_of(line, "disk").next(), None);
        assert_eq!(words_of("m=1 x m=2", "m").count(), 2);
    }
}
