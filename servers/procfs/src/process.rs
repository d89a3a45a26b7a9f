//! Texts about processes, in the formats of proc(5).

use crate::system::{Kept, System};
use crate::table::Who;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::proc::Status;
use core::fmt::Write;

/// Nanoseconds in a clock tick as programs know it (USER_HZ 100).
pub const TICK: u64 = 10_000_000;
const PAGE: u64 = 4096;

fn name(status: &Status) -> String {
    let end = status.comm.iter().position(|&byte| byte == 0).unwrap_or(16);
    String::from_utf8_lossy(&status.comm[..end]).into_owned()
}

fn state(status: &Status, who: Who) -> char {
    if who.asks {
        return 'R';
    }
    char::from_u32(status.state)
        .filter(char::is_ascii_alphabetic)
        .unwrap_or('S')
}

pub fn own_link<S: System>(system: &mut S, who: Who) -> Option<Vec<u8>> {
    let pid = system.number_for(who.reader, who.pid);
    (pid != 0).then(|| format!("{pid}").into_bytes())
}

pub fn own_thread_link<S: System>(system: &mut S, who: Who) -> Option<Vec<u8>> {
    let pid = system.number_for(who.reader, who.pid);
    let tid = system.number_for(who.reader, who.tid);
    (pid != 0).then(|| format!("{pid}/task/{tid}").into_bytes())
}

pub fn executable<S: System>(system: &mut S, who: Who) -> Option<Vec<u8>> {
    Some(system.executable(who.pid)).filter(|path| !path.is_empty())
}

pub fn command_line<S: System>(system: &mut S, who: Who) -> Vec<u8> {
    system.command_line(who.pid)
}

pub fn comm<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = system.status(who.pid, who.tid, who.reader)?;
    let _ = writeln!(out, "{}", name(&it));
    Some(())
}

pub fn stat<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = system.status(who.pid, who.tid, who.reader)?;
    let tid = system.number_for(who.reader, who.tid);
    let name = name(&it);
    let foreground = if it.terminal == 0 {
        -1
    } else {
        it.foreground as i64
    };
    let _ = write!(
        out,
        "{} ({}) {} {} {} {} {} {} 4194304 {} {} {} {} ",
        tid,
        name,
        state(&it, who),
        it.ppid,
        it.pgid,
        it.sid,
        it.terminal,
        foreground,
        it.minor_faults,
        it.child_minor_faults,
        it.major_faults,
        it.child_major_faults,
    );
    // utime stime cutime cstime priority nice threads itrealvalue starttime vsize rss rsslim
    let _ = write!(
        out,
        "{} 0 {} 0 {} {} {} 0 {} {} {} {} ",
        it.cpu / TICK,
        it.child_cpu / TICK,
        20 + it.nice,
        it.nice,
        it.threads,
        it.start / TICK,
        it.virtual_pages * PAGE,
        it.resident_pages,
        u64::MAX,
    );
    // startcode endcode startstack kstkesp kstkeip signal blocked sigignore sigcatch wchan nswap cnswap exit_signal processor rt_priority policy …
    let _ = writeln!(
        out,
        "0 0 0 0 0 {} 0 {} {} 0 0 0 {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        it.pending & 0x7fff_ffff,
        it.ignored & 0x7fff_ffff,
        it.caught & 0x7fff_ffff,
        it.exit_signal,
    );
    Some(())
}

pub fn statm<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = system.status(who.pid, who.tid, who.reader)?;
    let _ = writeln!(
        out,
        "{} {} {} 0 0 {} 0",
        it.virtual_pages, it.resident_pages, it.shared_pages, it.virtual_pages
    );
    Some(())
}

pub fn schedstat<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let _ = writeln!(
        out,
        "{} 0 0",
        system.status(who.pid, who.tid, who.reader)?.cpu
    );
    Some(())
}

pub fn status<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = system.status(who.pid, who.tid, who.reader)?;
    let state = match state(&it, who) {
        'R' => "R (running)",
        'D' => "D (disk sleep)",
        'T' => "T (stopped)",
        't' => "t (tracing stop)",
        'Z' => "Z (zombie)",
        _ => "S (sleeping)",
    };
    let c = &it.creds;
    let tid = system.number_for(who.reader, who.tid);
    let name = name(&it);
    let kept = system.kept(who.pid, who.tid);
    let umask = kept.map_or(String::new(), |kept| {
        format!("Umask:\t{:04o}\n", kept.umask)
    });
    let _ = write!(
        out,
        "Name:\t{}\n{umask}State:\t{state}\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\nTracerPid:\t{}\n\
         Uid:\t{}\t{}\t{}\t{}\nGid:\t{}\t{}\t{}\t{}\nFDSize:\t64\nGroups:\t",
        name, it.pid, tid, it.ppid, it.tracer, c.ruid, c.euid, c.suid, c.euid, c.rgid, c.egid, c.sgid, c.egid,
    );
    for group in c.groups.iter().take(c.group_count as usize) {
        let _ = write!(out, "{group} ");
    }
    let _ = write!(
        out,
        "\nNStgid:\t{}\nNSpid:\t{}\nNSpgid:\t{}\nNSsid:\t{}\n",
        it.pid, tid, it.pgid, it.sid
    );
    if state != "Z (zombie)" {
        let kib = |pages: u64| pages * PAGE / 1024;
        let (size, resident) = (kib(it.virtual_pages), kib(it.resident_pages));
        let shared = kib(it.shared_pages);
        for (label, value) in [
            ("VmPeak", size),
            ("VmSize", size),
            ("VmLck", kib(it.locked_pages)),
            ("VmPin", 0),
            ("VmHWM", resident),
            ("VmRSS", resident),
            ("RssAnon", resident.saturating_sub(shared)),
            ("RssFile", 0),
            ("RssShmem", shared),
            ("VmData", kib(it.data_pages)),
            ("VmSwap", 0),
        ] {
            let _ = writeln!(out, "{label}:\t{value:8} kB");
        }
    }
    let _ = write!(
        out,
        "Threads:\t{}\nSigQ:\t0/7823\nSigPnd:\t0000000000000000\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\n\
         SigIgn:\t{:016x}\nSigCgt:\t{:016x}\nCapInh:\t{:016x}\nCapPrm:\t{:016x}\n\
         CapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\nNoNewPrivs:\t{}\nSeccomp:\t{}\nSeccomp_filters:\t{}\n",
        it.threads, it.pending, kept.map_or(0, |kept| kept.blocked), it.ignored, it.caught, c.inheritable, c.permitted, c.effective, c.bounding, c.ambient,
        it.no_new_privileges, it.filter_mode, it.filters,
    );
    if let Some(Kept { cores, .. }) = kept {
        let list = numbers(cores);
        let _ = write!(
            out,
            "Cpus_allowed:\t{cores:x}\nCpus_allowed_list:\t{list}\n"
        );
    }
    out.push_str("Mems_allowed:\t1\nMems_allowed_list:\t0\n");
    let _ = writeln!(
        out,
        "voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0"
    );
    Some(())
}

/// The numbers of the bits of a mask, as ranges.
fn numbers(mask: u64) -> String {
    let has = |bit: u32| mask.checked_shr(bit).is_some_and(|rest| rest & 1 != 0);
    let mut list = String::new();
    for first in (0..64).filter(|&bit| has(bit) && (bit == 0 || !has(bit - 1))) {
        let last = (first..64).take_while(|&bit| has(bit)).last();
        let comma = if list.is_empty() { "" } else { "," };
        let _ = match last {
            Some(last) if last > first => write!(list, "{comma}{first}-{last}"),
            _ => write!(list, "{comma}{first}"),
        };
    }
    list
}

/// Of an ended process there is nothing to say.
pub fn core_filter<S: System>(s: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = s.status(who.pid, who.tid, who.reader)?;
    if state(&it, who) != 'Z' {
        let _ = writeln!(out, "{:08x}", it.core_filter);
    }
    Some(())
}

pub fn login_user<S: System>(s: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = s.status(who.pid, who.tid, who.reader)?;
    let _ = write!(out, "{}", it.login_user);
    Some(())
}

pub fn login_session<S: System>(s: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = s.status(who.pid, who.tid, who.reader)?;
    let _ = write!(out, "{}", it.login_session);
    Some(())
}

pub fn oom_adjust<S: System>(s: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = s.status(who.pid, who.tid, who.reader)?;
    let _ = writeln!(out, "{}", it.oom_adjust);
    Some(())
}

/// The same in the scale that Linux had before: -17 to 15.
pub fn oom_old<S: System>(s: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = s.status(who.pid, who.tid, who.reader)?;
    let _ = match it.oom_adjust {
        1000 => writeln!(out, "15"),
        adjust => writeln!(out, "{}", (adjust * 17 / 1000).min(15)),
    };
    Some(())
}

/// What a line of the old scale means in the present one.
pub fn from_old(value: i32) -> Option<i32> {
    match value {
        15 => Some(1000),
        -17..15 => Some(value * 1000 / 17),
        _ => None,
    }
}

/// As Linux scales it: two thirds of a thousand for one that has nothing and no adjustment.
pub fn oom_score<S: System>(s: &mut S, who: Who, out: &mut String) -> Option<()> {
    let it = s.status(who.pid, who.tid, who.reader)?;
    let all = s.memory().total.max(1) as i64;
    let score = match i64::from(it.oom_adjust) {
        -1000 => 0,
        adjust => {
            let weight = it.resident_pages as i64 + adjust * all / 1000;
            (1000 + weight * 1000 / all).max(0) * 2 / 3
        }
    };
    let _ = writeln!(out, "{score}");
    Some(())
}

/// What a thread waits in, as `syscall` says it.
pub fn call(call: Option<[u64; 9]>, out: &mut String) {
    let _ = match call {
        None => writeln!(out, "running"),
        Some([u64::MAX, .., sp, address]) => writeln!(out, "-1 {sp:#x} {address:#x}"),
        Some([number, a, b, c, d, e, f, sp, address]) => writeln!(
            out,
            "{number} {a:#x} {b:#x} {c:#x} {d:#x} {e:#x} {f:#x} {sp:#x} {address:#x}"
        ),
    };
}

/// Resources in the order of their numbers, with the unit that Linux prints.
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

/// Of the one tree there is the only line (cgroup v2).
pub fn cgroup<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    system.status(who.pid, who.tid, who.reader)?;
    let path = system.cgroup(who.pid, who.reader)?;
    let _ = writeln!(out, "0::{path}");
    Some(())
}

pub fn limits<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    system.status(who.pid, who.tid, who.reader)?;
    let _ = writeln!(
        out,
        "{:<26}{:<21}{:<21}{:<10}",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    );
    for (resource, (name, unit)) in LIMITS.iter().enumerate() {
        let Some(limits) = system.limit(who.pid, resource as u64) else {
            continue;
        };
        let [soft, hard] = limits.map(|value| match value {
            u64::MAX => String::from("unlimited"),
            _ => format!("{value}"),
        });
        let _ = writeln!(out, "{name:<26}{soft:<21}{hard:<21}{unit:<10}");
    }
    Some(())
}
