//! Texts about the system as a whole, in the formats of proc(5).

use crate::process::TICK;
use crate::system::{Load, System};
use crate::table::Who;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::device;
use cairn_idl::fs::FIRST_MOUNT;
use cairn_idl::mounts::mount::{
    DISCARD, NO_ACCESS_TIMES, NO_DEVICES, NO_EXECUTION, NO_SET_ID, READ_ONLY,
};
use core::fmt::Write;

/// As uname(2) tells it.
pub const RELEASE_LINE: &str = "6.1.0-cairn\n";
pub const BUILD_LINE: &str = "#1 SMP Cairn\n";
pub const VERSION: &str = "Linux version 6.1.0-cairn (cairn) (rustc) #1 SMP Cairn\n";

pub const DEVICES: &str = "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n136 pts\n\nBlock devices:\n";

pub const TERMINALS: &str = "\
/dev/tty             /dev/tty        5       0 system:/dev/tty
/dev/console         /dev/console    5       1 system:console
/dev/ptmx            /dev/ptmx       5       2 system
serial               /dev/ttyS       4 64-95 serial
pty_slave            /dev/pts      136 0-1048575 pty:slave
";

const SECOND: u64 = 1_000_000_000;

pub fn boot_line<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let _ = writeln!(out, "{}", system.boot_line());
    Some(())
}

pub fn host_name<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    host_text(system, who, 0, out)
}

pub fn domain_name<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    host_text(system, who, 1, out)
}

fn host_text<S: System>(system: &mut S, who: Who, which: u64, out: &mut String) -> Option<()> {
    let name = system.host_text(who.reader, which);
    let _ = writeln!(out, "{}", String::from_utf8_lossy(&name));
    Some(())
}

/// A mount as programs see it.
struct Mounted {
    path: String,
    kind: String,
    /// The device, where there is one behind the type (`ext4:vda`), or what it was called (`tmpfs:66:none`, with its st_dev); otherwise the type.
    source: String,
    /// Major and minor number, as st_dev has them.
    numbers: (u32, u32),
    options: String,
    /// Of the file system itself.
    own: &'static str,
}

/// What files of these types have as st_dev; of a type that is not here, nobody knows, and the mount has a number of its own.
fn numbers(kind: &str, device: Option<&str>, number: usize) -> (u32, u32) {
    let plain = match kind {
        "tmpfs" => 2,
        "proc" => 4,
        "devtmpfs" => device::ST_DEV as u32,
        "sysfs" => device::SYS_ST_DEV as u32,
        _ => number as u32,
    };
    let on_disk = device.and_then(|name| {
        let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let partition = name[disk.len()..].parse().unwrap_or(0);
        device::disk(name, 0).or(device::disk(disk, partition))
    });
    let in_memory = in_memory(device).map(|(number, _)| (0, number));
    on_disk.or(in_memory).unwrap_or((0, plain))
}

/// The number and the source of one that lies in memory.
fn in_memory(device: Option<&str>) -> Option<(u32, &str)> {
    let (number, source) = device?.split_once(':')?;
    Some((number.parse().ok()?, source))
}

/// Mounted prefixes; schemes are no mounts to a program.
fn mounted<S: System>(system: &mut S, pid: u32) -> Vec<Mounted> {
    let (mounts, _) = system.mounts(pid);
    let named = mounts.iter().filter(|mount| !mount.prefix.ends_with(':'));
    let described = named.enumerate().map(|(number, mount)| {
        let path = match mount.prefix.as_str() {
            "" => "/",
            path => path,
        };
        let (kind, device) = match mount.fstype.split_once(':') {
            Some((kind, device)) => (kind, Some(device)),
            None => (mount.fstype.as_str(), None),
        };
        let flags = u64::from(mount.flags);
        Mounted {
            path: path.into(),
            kind: kind.into(),
            source: match (device, in_memory(device)) {
                (_, Some((_, source))) => source.into(),
                (Some(device), None) => format!("/dev/{device}"),
                (None, None) => kind.into(),
            },
            numbers: numbers(kind, device, FIRST_MOUNT + number),
            options: OPTIONS
                .map(|(bit, given, not)| if flags & bit != 0 { given } else { not })
                .concat(),
            own: match flags & DISCARD != 0 {
                true => ",discard",
                false => "",
            },
        }
    });
    described.collect()
}

/// What a bit says, and its absence.
const OPTIONS: [(u64, &str, &str); 5] = [
    (READ_ONLY, "ro", "rw"),
    (NO_SET_ID, ",nosuid", ""),
    (NO_DEVICES, ",nodev", ""),
    (NO_EXECUTION, ",noexec", ""),
    (NO_ACCESS_TIMES, ",noatime", ",relatime"),
];

pub fn mounts<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    for mount in mounted(system, who.pid) {
        let (source, path, kind) = (mount.source, mount.path, mount.kind);
        let _ = writeln!(
            out,
            "{source} {path} {kind} {}{} 0 0",
            mount.options, mount.own
        );
    }
    Some(())
}

pub fn mountstats<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    for mount in mounted(system, who.pid) {
        let (source, path, kind) = (mount.source, mount.path, mount.kind);
        let _ = writeln!(out, "device {source} mounted on {path} with fstype {kind}");
    }
    Some(())
}

pub fn mountinfo<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let all = mounted(system, who.pid);
    for (number, mount) in all.iter().enumerate() {
        let (source, path, kind) = (&mount.source, &mount.path, &mount.kind);
        let ((major, minor), options) = (mount.numbers, &mount.options);
        // It lies in the one with the longest name that its own begins with.
        let holds = |at: usize, it: &Mounted| {
            let rest = path.strip_prefix(it.path.as_str());
            at != number && rest.is_some_and(|r| it.path == "/" || r.starts_with('/'))
        };
        let above = all.iter().enumerate().filter(|(at, it)| holds(*at, it));
        let above = above.max_by_key(|(_, it)| it.path.len());
        let parent = above.map_or(1, |(number, _)| FIRST_MOUNT + number);
        let id = FIRST_MOUNT + number;
        let _ = writeln!(
            out,
            "{id} {parent} {major}:{minor} / {path} {options} - {kind} {source} {}{}",
            &options[..2],
            mount.own
        );
    }
    Some(())
}

pub fn filesystems<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let mut names: Vec<(String, bool)> = mounted(system, 0)
        .into_iter()
        .map(|mount| (mount.kind, mount.source.starts_with("/dev/")))
        .collect();
    names.extend(system.disk_types().into_iter().map(|name| (name, true)));
    names.sort();
    names.dedup();
    for (name, on_device) in names {
        let nodev = if on_device { "" } else { "nodev" };
        let _ = writeln!(out, "{nodev}\t{name}");
    }
    Some(())
}

/// Hundredths of a second as `1.23`.
fn seconds(out: &mut String, ns: u64) {
    let _ = write!(out, "{}.{:02}", ns / SECOND, ns % SECOND / TICK);
}

pub fn uptime<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let (now, idle) = (system.monotonic(), system.load(0).idle);
    seconds(out, now);
    out.push(' ');
    seconds(out, idle);
    out.push('\n');
    Some(())
}

/// Whoever asks runs, even if it waits for the answer.
fn running(load: &Load) -> u64 {
    load.running.max(1)
}

pub fn loadavg<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let load = system.load(who.reader);
    for average in load.averages {
        // Rounded to hundredths.
        let hundredths = (average * 100 + 32768) >> 16;
        let _ = write!(out, "{}.{:02} ", hundredths / 100, hundredths % 100);
    }
    let _ = writeln!(out, "{}/{} {}", load.running, load.processes, load.last_pid);
    Some(())
}

pub fn meminfo<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let memory = system.memory();
    let kib = |frames: u64| frames * 4;
    // Free frames are all that is available at once; files in memory belong to the native components.
    for (label, value) in [
        ("MemTotal", kib(memory.total)),
        ("MemFree", kib(memory.free)),
        ("MemAvailable", kib(memory.free + memory.cache)),
        ("Buffers", 0),
        ("Cached", kib(memory.cache)),
        ("SwapCached", 0),
        ("Active", kib(memory.programs)),
        ("Inactive", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", kib(memory.programs)),
        ("Mapped", 0),
        ("Shmem", kib(memory.archive)),
        ("Slab", kib(memory.nucleus)),
        ("SReclaimable", 0),
        ("SUnreclaim", kib(memory.nucleus)),
        ("CommitLimit", kib(memory.total)),
        ("Committed_AS", kib(memory.programs + memory.native)),
        ("VmallocTotal", 0),
        ("VmallocUsed", 0),
    ] {
        let label = alloc::format!("{label}:");
        let _ = writeln!(out, "{label:<15}{value:>9} kB");
    }
    let _ = writeln!(
        out,
        "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB"
    );
    Some(())
}

pub fn vmstat<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let (memory, faults) = (system.memory(), system.counters().faults);
    let _ = writeln!(
        out,
        "nr_free_pages {}\nnr_anon_pages {}\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault {faults}\npgmajfault 0",
        memory.free, memory.programs
    );
    Some(())
}

pub fn stat<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let load = system.load(0);
    let now = system.monotonic();
    let cores = system.processor().count.max(1);
    let idle = load.idle.min(now * cores);
    let busy = now * cores - idle;
    // What was not idle is counted as user time; who spent it is told per process.
    let _ = writeln!(out, "cpu  {} 0 0 {} 0 0 0 0 0 0", busy / TICK, idle / TICK);
    for core in 0..cores {
        let _ = writeln!(
            out,
            "cpu{core} {} 0 0 {} 0 0 0 0 0 0",
            busy / cores / TICK,
            idle / cores / TICK
        );
    }
    let booted = (system.realtime() - now) / SECOND;
    let counters = system.counters();
    let _ = writeln!(
        out,
        "intr {}\nctxt {}\nbtime {booted}\nprocesses {}\nprocs_running {}\nprocs_blocked 0\nsoftirq 0",
        counters.interrupts,
        counters.thread_switches,
        load.forks,
        running(&load)
    );
    Some(())
}

/// Cairn's own: what the nucleus did since boot.
pub fn nucleus<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let c = system.counters();
    for (name, value) in [
        ("entries", c.entries),
        ("turned_calls", c.turned),
        ("space_switches", c.space_switches),
        ("thread_switches", c.thread_switches),
        ("invalidations", c.invalidations),
        ("bytes_copied", c.bytes_copied),
        ("faults", c.faults),
        ("interrupts", c.interrupts),
        ("idle_ns", c.idle),
        ("frames", c.nucleus_frames),
        ("longest_stretch", c.longest),
        ("longest_stretch_in", c.longest_in),
    ] {
        let _ = writeln!(out, "{name} {value}");
    }
    Some(())
}

pub fn cpuinfo<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    let it = system.processor();
    for number in 0..it.count.max(1) {
        let _ = write!(
            out,
            "processor\t: {number}\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: {}\nstepping\t: {}\n\
             cpu MHz\t\t: {}.000\nphysical id\t: 0\nsiblings\t: {}\ncore id\t\t: {number}\ncpu cores\t: {}\nfpu\t\t: yes\n\
             wp\t\t: yes\nflags\t\t: {}\nbogomips\t: {}.00\nclflush size\t: 64\naddress sizes\t: 40 bits physical, 48 bits virtual\n\n",
            it.vendor, it.family, it.model, it.name, it.stepping, it.megahertz, it.count, it.count, it.flags, it.megahertz * 2,
        );
    }
    Some(())
}

/// Counts per line are the nucleus's and not told to anybody here; the processors are.
pub fn interrupts<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    out.push_str("    ");
    for number in 0..system.processor().count.max(1) {
        let _ = write!(out, "       CPU{number}");
    }
    out.push('\n');
    Some(())
}

pub fn file_nr<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    // Open files are portals, which nobody counts as a whole; three for each process is where they start.
    let _ = writeln!(
        out,
        "{}\t0\t9223372036854775807",
        system.load(0).processes * 3
    );
    Some(())
}

/// Sixteen random bytes as a version 4 UUID.
fn write_uuid(mut bytes: [u8; 16], out: &mut String) {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    out.push('\n');
}

pub fn uuid<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    write_uuid(system.random(), out);
    Some(())
}

pub fn boot_id<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    write_uuid(system.boot_id(), out);
    Some(())
}
