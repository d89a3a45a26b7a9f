//! What is in /dev.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::device;
use cairn_idl::fs::s;
use cairn_resmgr::layout::makedev;

/// What is behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Zero,
    Full,
    Log,
    /// A device of another server, by its name there.
    Device(&'static str),
    /// A serial line, by its number: a device of the terminal server.
    Serial(u32),
    /// A symbolic link.
    Link(&'static str),
    /// A directory of another manager.
    Elsewhere(&'static str),
}

pub struct Entry {
    pub name: String,
    pub kind: Kind,
    pub mode: u32,
    pub rdev: u64,
}

fn entry(name: &str, kind: Kind, mode: u32, major: u32, minor: u32) -> Entry {
    Entry {
        name: name.into(),
        kind,
        mode: s::IFCHR | mode,
        rdev: makedev(major, minor),
    }
}

/// A device in a directory of another manager, by its number: where a node of any file system with it leads.
pub fn elsewhere(rdev: u64) -> Option<&'static str> {
    match rdev {
        _ if rdev == makedev(10, 200) => Some("net:net/tun"),
        _ if rdev == device::number(device::LOOP_CONTROL) => Some("block:loop-control"),
        _ => None,
    }
}

fn plain(name: &str, kind: Kind) -> Entry {
    let mode = match kind {
        Kind::Link(_) => s::IFLNK | 0o777,
        _ => s::IFDIR | 0o755,
    };
    Entry {
        name: name.into(),
        kind,
        mode,
        rdev: 0,
    }
}

/// The table for a machine with so many serial lines, without its disks ([`crate::disks`]).
pub fn entries(lines: u32) -> Vec<Entry> {
    let mut entries: Vec<Entry> = [
        entry("null", Kind::Null, 0o666, 1, 3),
        entry("zero", Kind::Zero, 0o666, 1, 5),
        entry("full", Kind::Full, 0o666, 1, 7),
        entry("random", Kind::Device("random:random"), 0o666, 1, 8),
        entry("urandom", Kind::Device("random:urandom"), 0o666, 1, 9),
        entry("kmsg", Kind::Log, 0o644, 1, 11),
        entry("tty", Kind::Device("tty:current"), 0o666, 5, 0),
        entry("console", Kind::Device("tty:console"), 0o600, 5, 1),
        entry("ptmx", Kind::Device("tty:ptmx"), 0o666, 5, 2),
        plain("pts", Kind::Elsewhere("tty:pts")),
        plain("net", Kind::Elsewhere("net:net")),
        plain("shm", Kind::Elsewhere("/run/shm")),
        plain("fd", Kind::Link("/proc/self/fd")),
        plain("stdin", Kind::Link("/proc/self/fd/0")),
        plain("stdout", Kind::Link("/proc/self/fd/1")),
        plain("stderr", Kind::Link("/proc/self/fd/2")),
    ]
    .into();
    for line in 0..lines {
        let name = format!("ttyS{line}");
        entries.push(entry(&name, Kind::Serial(line), 0o600, 4, 64 + line));
    }
    entries
}
