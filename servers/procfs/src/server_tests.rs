//! /proc behind the resource-manager framework, over a small system of the imagination.

use super::*;
use crate::fake::{Fake, ROOT_DOMAIN, SHELL_DOMAIN};
use cairn_idl::fs::{self, o};
use cairn_resmgr::fake::Bench;

type Tested = Bench<Procfs<Fake>>;

fn bench() -> Tested {
    let mut bench = Bench::new(Procfs::new(Fake::default()), b"/proc");
    bench.sender = SHELL_DOMAIN;
    bench.server.system.host_texts = [b"cairn".to_vec(), b"(none)".to_vec()];
    bench
}

fn read(bench: &mut Tested, path: &str) -> Vec<u8> {
    let handle = bench.open(path.as_bytes(), 0, 0).expect(path);
    let mut text = Vec::new();
    loop {
        let answer = bench
            .call(handle, &[fs::READ, fs::POSITION], b"", 100)
            .unwrap();
        if answer.result() <= 0 {
            // (Nothing is at address 0 of a process.)
            let expected = if path.ends_with("/mem") { -EIO } else { 0 };
            assert_eq!(answer.result(), expected, "{path}");
            return text;
        }
        text.extend_from_slice(answer.bytes());
    }
}

fn text(bench: &mut Tested, path: &str) -> String {
    String::from_utf8(read(bench, path)).expect(path)
}

fn names(bench: &mut Tested, path: &str) -> Vec<String> {
    let handle = bench.open(path.as_bytes(), o::DIRECTORY, 0).unwrap();
    let mut names = Vec::new();
    loop {
        let answer = bench.call(handle, &[fs::READDIR], b"", 200).unwrap();
        if answer.result() <= 0 {
            return names;
        }
        let bytes = answer.bytes();
        let mut at = 0;
        while at < bytes.len() {
            let length = u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]) as usize;
            let name = &bytes[at + 19..at + length];
            let end = name.iter().position(|&b| b == 0).unwrap();
            names.push(String::from_utf8_lossy(&name[..end]).into_owned());
            at += length;
        }
    }
}

#[test]
fn stat_has_its_fifty_two_fields() {
    let mut bench = bench();
    let stat = text(&mut bench, "10/stat");
    // The name may hold anything; programs look for the last parenthesis.
    let (name, rest) = stat.rsplit_once(") ").unwrap();
    assert_eq!(name, "10 (a) sh");
    let fields: Vec<&str> = rest.trim_end().split(' ').collect();
    assert_eq!(fields.len(), 50);
    // Numbered as in proc(5), from 3 on.
    for (number, value) in [
        (3, "R"),
        (4, "1"),
        (5, "10"),
        (6, "10"),
        (7, "1088"),
        (8, "20"),
        (10, "211"),
        (11, "17"),
        (12, "3"),
        (13, "1"),
        (14, "123"),
        (15, "0"),
        (16, "45"),
        (18, "15"),
        (19, "-5"),
        (20, "2"),
        (22, "250"),
        (23, "409600"),
        (24, "25"),
        (31, "4"),
        (33, "4096"),
        (34, "2"),
        (38, "17"),
    ] {
        assert_eq!(fields[number - 3], value, "field {number}");
    }
    let zombie = text(&mut bench, "20/stat");
    assert!(zombie.contains(") Z 10 "));
    let init = text(&mut bench, "1/stat");
    assert!(init.contains(") S 0 "), "others are as they are: {init}");
    assert!(init.contains(" 0 -1 "), "no terminal: {init}");
}

#[test]
fn status_and_the_like_tell_the_same() {
    let mut bench = bench();
    let status = text(&mut bench, "10/status");
    for line in [
        "Name:\ta) sh",
        "State:\tR (running)",
        "Pid:\t10",
        "PPid:\t1",
        "Uid:\t1000\t1000\t1000\t1000",
        "Groups:\t4 5 ",
        "VmSize:\t     400 kB",
        "VmRSS:\t     100 kB",
        "Threads:\t2",
        "SigIgn:\t0000000000001000",
        "CapEff:\t0000000000000000",
    ] {
        assert!(status.lines().any(|it| it == line), "{line} in {status}");
    }
    assert!(text(&mut bench, "1/status").contains("CapEff:\t000001ffffffffff"));
    assert!(!text(&mut bench, "20/status").contains("VmSize"));
    assert_eq!(text(&mut bench, "10/statm"), "100 25 5 0 0 100 0\n");
    assert_eq!(text(&mut bench, "10/comm"), "a) sh\n");
    assert_eq!(read(&mut bench, "10/cmdline"), b"sh\0-c\0\xff\0");
    assert!(text(&mut bench, "10/limits").contains(
        "\nMax open files            1024                 unlimited            files     \n"
    ));
    assert_eq!(
        text(&mut bench, "10/maps"),
        "00400000-00401000 r-xp 00001000 00:00 0 \n\
         00500000-00501000 r--s 00000000 fe:01 1002                               /bin/a\\012b\n\
         00502000-00503000 r--p 00000000 fe:01 1002                               /bin/a\\012b\n\
         00504000-00505000 r--p 00000000 fe:01 1003 \n\
         00506000-00507000 r--p 00000000 00:00 0 \n\
         00508000-00509000 r--p 00000000 00:00 0                                  [heap]\n\
         0050a000-0050b000 r--s 00000000 00:01 31                                 /dev/zero (deleted)\n\
         7ffefff00000-7fff00000000 rw-p 00000000 00:00 0                          [stack]\n"
    );
    let who = Who {
        pid: 10,
        tid: 10,
        ..Who::default()
    };
    let system = &mut bench.server.system;
    system.asked_makers = 0;
    crate::memory::maps(system, who, &mut String::new()).unwrap();
    assert_eq!(system.asked_makers, 3, "each file once");
    // The name of a mapping begins in column 74, as Linux's does.
    let maps = text(&mut bench, "10/maps");
    assert_eq!(
        maps.lines().nth(7).and_then(|it| it.find("[stack]")),
        Some(73)
    );
    let status = text(&mut bench, "10/status");
    assert!(status.contains("\nSigBlk:\t0000001100000002\n"), "{status}");
    assert!(text(&mut bench, "1/status").contains("\nSigBlk:\t0000000000000000\n"));
    assert_eq!(text(&mut bench, "10/net/../cpuset"), "/\n");
    assert_eq!(
        text(&mut bench, "10/net/route"),
        text(&mut bench, "net/../net/route")
    );
    let mounts = text(&mut bench, "10/mounts");
    let first = mounts.lines().next().and_then(|line| {
        let mut words = line.split(' ');
        Some([words.next()?, words.next()?, words.next()?])
    });
    let [source, path, kind] = first.unwrap();
    let begins = format!("device {source} mounted on {path} with fstype {kind}\n");
    assert!(text(&mut bench, "10/mountstats").starts_with(&begins));
    assert!(status.contains("\nUmask:\t0027\nState:"), "{status}");
    assert!(status.contains("\nCpus_allowed:\td\nCpus_allowed_list:\t0,2-3\n"));
    assert!(!text(&mut bench, "1/status").contains("Umask"));
    assert_eq!(text(&mut bench, "10/coredump_filter"), "00000033\n");
    let file = bench.open(b"10/coredump_filter", o::WRONLY, 0).unwrap();
    for (given, answer) in [
        (&b"0x1F\n"[..], 5),
        (b"012", 3),
        (b"7", 1),
        (b"0x", -EINVAL),
        (b"-1", -EINVAL),
        (b"99999999999", -ERANGE),
    ] {
        let written = bench.result(file, &[fs::WRITE, 0, 0], given);
        assert_eq!(written, answer, "{given:?}");
    }
    let set = [(10, 31), (10, 10), (10, 7)];
    assert_eq!(bench.server.system.core_filters, set);
    assert_eq!(text(&mut bench, "10/timerslack_ns"), "0\n");
    let file = bench.open(b"10/timerslack_ns", o::WRONLY, 0).unwrap();
    for (given, answer) in [
        (&b"7000\n"[..], 5),
        (b"x", -EINVAL),
        (b"", -EINVAL),
        (b"-1", -EINVAL),
        (&[b'1'; 25], -EINVAL),
    ] {
        let written = bench.result(file, &[fs::WRITE, 0, 0], given);
        assert_eq!(written, answer, "{given:?}");
    }
    assert_eq!(text(&mut bench, "10/timerslack_ns"), "7000\n");
    let sender = core::mem::replace(&mut bench.sender, 9);
    assert_eq!(bench.open(b"10/timerslack_ns", o::RDONLY, 0), Err(-EPERM));
    bench.sender = sender;
    let smaps = text(&mut bench, "10/smaps");
    let lines: Vec<_> = smaps.lines().collect();
    assert_eq!(lines.len(), 8 * 24, "{smaps}");
    assert_eq!(lines[0], maps.lines().next().unwrap());
    assert_eq!(lines[1], "Size:                  4 kB");
    assert_eq!(lines[4], "Rss:                   4 kB");
    assert_eq!(lines[7 * 24 + 1], "Size:               1024 kB");
    assert_eq!(lines[7 * 24 + 5], "Pss:                 682 kB");
    assert_eq!(lines[7 * 24 + 8], "Shared_Dirty:        512 kB");
    assert_eq!(lines[7 * 24 + 23].trim(), "VmFlags: rd wr gd ac");
    let all = text(&mut bench, "10/smaps_rollup");
    assert!(all.starts_with("00400000-7fff00000000 ---p 00000000 00:00 0 "));
    assert!(all
        .lines()
        .next()
        .is_some_and(|it| it.ends_with(" [rollup]")));
}

#[test]
fn threads_have_their_process_s_texts() {
    let mut bench = bench();
    assert_eq!(names(&mut bench, "10/task"), [".", "..", "10", "11"]);
    assert!(text(&mut bench, "10/task/11/stat").starts_with("11 (thread-11)"));
    assert!(text(&mut bench, "10/task/11/status").contains("Tgid:\t10\n"));
    assert_eq!(bench.open(b"10/task/12", 0, 0), Err(-ENOENT));
    assert_eq!(bench.open(b"10/task/11/task", 0, 0), Err(-ENOENT));
    let handle = bench.open(b"10/task/11/comm", 0, 0).unwrap();
    let answer = bench
        .call(handle, &[fs::GETPATH], b"", fs::PATH_MAX)
        .unwrap();
    assert_eq!(answer.bytes(), b"/proc/10/task/11/comm");
}

#[test]
fn links_lead_on() {
    let mut bench = bench();
    for (path, target) in [
        ("self", &b"10"[..]),
        ("thread-self", b"10/task/10"),
        ("mounts", b"self/mounts"),
        ("10/exe", b"/bin/busybox"),
        ("10/root", b"/"),
    ] {
        let answer = bench
            .call(0, &[fs::READLINK], path.as_bytes(), fs::PATH_MAX)
            .unwrap();
        assert_eq!(answer.bytes(), target, "{path}");
    }
    // Of which thread is asked by the request's token.
    bench.fake.next_caller(5 << 32 | 1 << 20);
    let answer = bench.call(0, &[fs::READLINK], b"thread-self", fs::PATH_MAX);
    assert_eq!(answer.unwrap().bytes(), b"10/task/11");
    assert_eq!(text(&mut bench, "self/comm"), "a) sh\n");
    assert_eq!(text(&mut bench, "mounts"), text(&mut bench, "1/mounts"));
    assert_eq!(bench.result(0, &[fs::READLINK], b"20/exe"), -ENOENT);
    bench.sender = 1;
    assert_eq!(bench.result(0, &[fs::READLINK], b"self"), -ENOENT);
}

#[test]
fn the_root_lists_names_and_processes() {
    let mut bench = bench();
    let names = names(&mut bench, "");
    for name in ["self", "meminfo", "sys", "net", "1", "10", "20"] {
        assert!(names.iter().any(|it| it == name), "{name}");
    }
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
}

#[test]
fn processes_belong_to_their_users_and_may_be_gone() {
    let mut bench = bench();
    let answer = bench.call(0, &[fs::STAT, 0], b"10", fs::PATH_MAX).unwrap();
    assert_eq!(answer.data[28..32], 1000u32.to_le_bytes());
    assert_eq!(bench.result(0, &[fs::STAT, 0], b"99"), -ENOENT);
    assert_eq!(bench.result(0, &[fs::STAT, 0], b"010"), -ENOENT);
    let handle = bench.open(b"20", o::DIRECTORY, 0).unwrap();
    bench.server.system.gone.push(20);
    let words = [fs::OPEN, 0, 0];
    let answer = bench.call(handle, &words, b"stat", fs::PATH_MAX).unwrap();
    assert!(answer.result() < 0);
}

#[test]
fn what_is_guarded_is_not_for_strangers() {
    let mut bench = bench();
    let folder = bench.open(b"1", o::DIRECTORY, 0).unwrap();
    for (path, kind) in [
        ("maps", 0),
        ("smaps", 0),
        ("smaps_rollup", 0),
        ("auxv", 0),
        ("environ", 0),
        ("task/1/maps", 0),
        ("exe", 0),
        ("root", o::DIRECTORY),
    ] {
        // (The bench's caller is user 0 by its label: modes and owners do not stop it.)
        for process in ["1", "30"] {
            let path = format!("{process}/{path}").replace("30/task/1/", "30/task/30/");
            assert_eq!(bench.open(path.as_bytes(), kind, 0), Err(-EACCES), "{path}");
        }
        let words = [fs::OPEN, kind, 0];
        assert_eq!(bench.result(folder, &words, path.as_bytes()), -EACCES);
        if kind == 0 && path != "exe" {
            bench
                .open(format!("10/{path}").replace("/1/", "/10/").as_bytes(), 0, 0)
                .unwrap();
        }
    }
    assert_eq!(bench.result(0, &[fs::READLINK], b"1/exe"), -EACCES);
    assert_eq!(bench.result(0, &[fs::READLINK], b"30/root"), -EACCES);
    assert_eq!(bench.result(0, &[fs::STAT, 0], b"1/exe"), -EACCES);
    for path in [
        "stat", "status", "statm", "cmdline", "comm", "limits", "mounts",
    ] {
        read(&mut bench, &format!("1/{path}"));
        read(&mut bench, &format!("30/{path}"));
    }
    let mut owner = |path: &[u8]| {
        let answer = bench.call(0, &[fs::STAT, 0], path, fs::PATH_MAX).unwrap();
        u32::from_le_bytes(answer.data[28..32].try_into().unwrap())
    };
    // Of what is not dumpable, user 0 is the owner.
    assert_eq!(owner(b"10/maps"), 1000);
    assert_eq!(owner(b"30/maps"), 0);
    assert_eq!(owner(b"30"), 1000);
    assert_eq!(owner(b"30/fd"), 0);
    bench.sender = 5;
    assert_eq!(bench.open(b"10/maps", 0, 0), Err(-EACCES));
}

#[test]
fn the_machine_tells_of_itself() {
    let mut bench = bench();
    for (path, expected) in [
        ("uptime", "12.34 5.00\n"),
        ("loadavg", "0.50 1.01 0.00 1/3 20\n"),
        ("cmdline", "console=ttyS0\n"),
        (
            "nucleus",
            "entries 100\nturned_calls 90\nspace_switches 80\nthread_switches 70\ninvalidations 60\nbytes_copied 50\nfaults 40\ninterrupts 30\nidle_ns 20\nframes 10\nlongest_stretch 12\nlongest_stretch_in 13\n",
        ),
        (
            "self/mounts",
            "tmpfs / tmpfs rw,relatime 0 0\nproc /proc proc rw,relatime 0 0\n/dev/vda /mnt ext4 rw,relatime 0 0\n",
        ),
        ("filesystems", "\text4\nnodev\tproc\nnodev\ttmpfs\n\tvfat\n"),
        (
            "self/mountinfo",
            "20 1 0:2 / / rw,relatime - tmpfs tmpfs rw\n21 20 0:4 / /proc rw,relatime - proc proc rw\n22 20 254:0 / /mnt rw,relatime - ext4 /dev/vda rw\n",
        ),
        ("sys/kernel/hostname", "cairn\n"),
        ("sys/kernel/ostype", "Linux\n"),
        ("sys/kernel/osrelease", "6.1.0-cairn\n"),
        ("sys/kernel/pid_max", "32768\n"),
        ("sys/kernel/random/uuid", "ffffffff-ffff-4fff-bfff-ffffffffffff\n"),
        ("sys/kernel/random/boot_id", "01010101-0101-4101-8101-010101010101\n"),
        ("sys/net/core/somaxconn", "4096\n"),
        ("sys/vm/overcommit_memory", "0\n"),
        (
            "net/tcp",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \nTcp\n",
        ),
        ("net/if_inet6", "Addresses6\n"),
        ("net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\nLocal\n"),
    ] {
        assert_eq!(text(&mut bench, path), expected, "{path}");
    }
    let memory = text(&mut bench, "meminfo");
    assert!(memory.starts_with("MemTotal:         262144 kB\nMemFree:          240000 kB\n"));
    assert!(memory.contains("MemAvailable:     241000 kB\n"));
    assert!(memory.contains("Cached:             1000 kB\n"));
    let stat = text(&mut bench, "stat");
    assert!(stat.starts_with("cpu  1969 0 0 500 0 0 0 0 0 0\ncpu0 984 0 0 250 "));
    assert!(stat.contains("\nintr 30\nctxt 70\nbtime 1700000000\nprocesses 40\nprocs_running 1\n"));
    assert_eq!(
        text(&mut bench, "cpuinfo").matches("processor\t:").count(),
        2
    );
}

#[test]
fn the_host_name_and_limits_can_be_written_and_nothing_else() {
    let mut bench = bench();
    let handle = bench
        .open(b"sys/kernel/hostname", o::WRONLY | o::TRUNC, 0)
        .unwrap();
    let words = [fs::WRITE, fs::POSITION];
    assert_eq!(bench.result(handle, &words, b"stone\n"), 6);
    assert_eq!(bench.server.system.host_texts[0], b"stone");
    assert_eq!(bench.result(handle, &words, b"stone\0"), 6);
    assert_eq!(bench.server.system.host_texts[0], b"stone");
    let domain = bench.open(b"sys/kernel/domainname", o::WRONLY, 0).unwrap();
    assert_eq!(bench.result(domain, &words, b"hill\n"), 5);
    assert_eq!(text(&mut bench, "sys/kernel/domainname"), "hill\n");
    assert_eq!(text(&mut bench, "sys/kernel/hostname"), "stone\n");
    assert_eq!(bench.result(handle, &words, &[b'x'; 100]), -EINVAL);
    let handle = bench.open(b"sys/vm/drop_caches", o::WRONLY, 0).unwrap();
    let first = [fs::WRITE, 0];
    for (text, answer) in [(&b"3\n"[..], 2), (b"1", 1), (b"2", 1), (b"0", -EINVAL)] {
        assert_eq!(bench.result(handle, &first, text), answer);
    }
    assert_eq!(bench.result(handle, &first, b"one"), -EINVAL);
    assert_eq!(bench.server.system.dropped, 2);
    for flags in [o::RDONLY, o::RDWR] {
        let opened = bench.open(b"sys/vm/drop_caches", flags, 0);
        assert_eq!(opened.err(), Some(-EACCES));
    }
    let handle = bench.open(b"sys/kernel/sem", o::WRONLY, 0).unwrap();
    assert_eq!(bench.result(handle, &first, b"1 2\t3\n"), 6);
    assert_eq!(bench.result(handle, &first, b"one\n"), -EINVAL);
    // Numbers that are more are for another write; one that goes on where the first ended does nothing.
    assert_eq!(bench.result(handle, &first, b"1 2 0x3 7\n9"), 10);
    assert_eq!(bench.result(handle, &[fs::WRITE, 10], b"9"), 1);
    assert_eq!(bench.result(handle, &first, b"1 2 3 7\n\0"), 8);
    assert_eq!(text(&mut bench, "sys/kernel/sem"), "1\t2\t3\t7\n");
    assert!(text(&mut bench, "sysvipc/shm").ends_with("swap\nShm\n"));
    let handle = bench.open(b"sys/kernel/keys/maxkeys", o::WRONLY, 0);
    let handle = handle.unwrap();
    assert_eq!(bench.result(handle, &first, b"9\n"), 2);
    assert_eq!(bench.result(handle, &first, b"-1\n"), -EINVAL);
    assert_eq!(text(&mut bench, "sys/kernel/keys/maxkeys"), "9\n");
    assert_eq!(text(&mut bench, "sys/kernel/keys/maxbytes"), "8\n");
    // Keys are those that the reader may see.
    let (sender, label) = (bench.sender, bench.label);
    assert_eq!(
        text(&mut bench, "keys"),
        format!("Keys {sender} {label:x}\n")
    );
    if let Ok(handle) = bench.open(b"sys/kernel/pid_max", o::WRONLY, 0) {
        assert_eq!(bench.result(handle, &words, b"1\n"), -EACCES);
    }
    assert!(bench.open(b"new", o::CREAT | o::WRONLY, 0o644).is_err());
    assert!(bench.result(0, &[fs::UNLINK, 0], b"uptime") < 0);
}

#[test]
fn components_are_shown_to_everybody_and_restarted_by_user_0() {
    let mut bench = bench();
    let words = [fs::WRITE, fs::POSITION];
    let handle = bench.open(b"cairn/restart", o::WRONLY, 0).unwrap();
    assert_eq!(bench.result(handle, &words, b"uart0\n"), 6);
    assert_eq!(bench.result(handle, &words, b"devfs"), 5);
    assert_eq!(bench.server.system.restarted, [&b"uart0"[..], b"devfs"]);
    assert_eq!(bench.result(handle, &words, b"tty\n"), -EBUSY);
    assert_eq!(bench.result(handle, &words, b"\n"), -ENOENT);
    assert_eq!(bench.result(handle, &words, &[b'x'; 24]), -ENOENT);
    bench.label = cairn_idl::label::make(1000, 1000);
    assert!(text(&mut bench, "cairn/components").ends_with(" restart\ntty 0\n"));
    assert!(text(&mut bench, "cairn/portals").ends_with("how\ntty 1\n"));
    for how in [o::WRONLY, o::RDONLY] {
        assert_eq!(bench.open(b"cairn/restart", how, 0), Err(-EACCES));
    }
    for name in ["components", "portals"] {
        let path = format!("cairn/{name}");
        assert_eq!(bench.open(path.as_bytes(), o::WRONLY, 0), Err(-EACCES));
    }
}

#[test]
fn every_file_can_be_read_and_every_directory_listed() {
    let mut bench = bench();
    bench.sender = ROOT_DOMAIN;
    let mut queue = vec![String::new()];
    let mut files = 0;
    let mut led = Vec::new();
    while let Some(path) = queue.pop() {
        for name in names(&mut bench, &path) {
            if name == "." || name == ".." {
                continue;
            }
            let below = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            let words = [fs::STAT, fs::at::SYMLINK_NOFOLLOW];
            let answer = bench
                .call(0, &words, below.as_bytes(), fs::PATH_MAX)
                .unwrap();
            let place = match &below[..] {
                "partitions" | "diskstats" => Some(format!("sys:{below}")),
                below if below.ends_with("net/filter") => Some("filter:filter".into()),
                "sys/net/ipv4/ip_forward" => Some("net:ip_forward".into()),
                "sys/net/ipv6/conf/all/forwarding" => Some("net:forwarding".into()),
                _ => None,
            };
            if let Some(place) = place {
                // Another server's.
                assert_eq!(answer.result(), -REDIRECT);
                assert_eq!(&answer.data[..place.len()], place.as_bytes());
                continue;
            }
            assert_eq!(answer.result(), 0, "{below}");
            let mode = u32::from_le_bytes(answer.data[24..28].try_into().unwrap());
            match mode & s::IFMT {
                s::IFDIR => queue.push(below),
                s::IFREG if below.contains("/fdinfo/") || below == "locks" => led.push(below),
                s::IFREG if below.ends_with("/drop_caches") => assert_eq!(mode & 0o777, 0o200),
                s::IFREG => {
                    read(&mut bench, &below);
                    files += 1;
                }
                s::IFLNK if below.contains("/fd/") || below.ends_with("/cwd") => led.push(below),
                _ => {}
            }
        }
    }
    assert!(files > 100, "{files}");
    assert!(led.len() > 8, "{led:?}");
    // What only a process can reach: it is told where, by a name that is none.
    for name in led {
        let answer = bench.call(0, &[fs::OPEN, 0, 0], name.as_bytes(), 4096);
        let answer = answer.unwrap();
        assert_eq!(answer.result(), -REDIRECT, "{name}");
        let (pid, which) = name.split_once('/').unwrap_or(("0", &name));
        let of_thread = which.starts_with("task/");
        let which = if of_thread { "cwd" } else { which };
        let place = format!("\0{pid}/{which}");
        assert_eq!(&answer.data[..place.len()], place.as_bytes());
    }
}

#[test]
fn open_files_are_for_who_may_look_into_the_process() {
    let mut bench = bench();
    assert_eq!(
        names(&mut bench, "10/fd"),
        [".", "..", "0", "1", "2", "70000"]
    );
    assert_eq!(
        names(&mut bench, "10/fdinfo"),
        [".", "..", "0", "1", "2", "70000"]
    );
    for wrong in ["10/fd/3", "10/fd/00", "10/fd/x", "10/fdinfo/4294967296"] {
        assert_eq!(bench.open(wrong.as_bytes(), 0, 0), Err(-ENOENT), "{wrong}");
    }
    // Behind a folder: the rest comes after it.
    let words = [fs::STAT, 0];
    let answer = bench.call(0, &words, b"10/fd/2/a/b", fs::PATH_MAX).unwrap();
    assert_eq!(answer.result(), -REDIRECT);
    assert!(answer.data.starts_with(b"\x0010/fd/2/a/b\0"));
    bench.sender = 99;
    // (Anybody may see who has which locks.)
    let answer = bench.call(0, &[fs::OPEN, 0, 0], b"locks", 4096).unwrap();
    assert_eq!(answer.result(), -REDIRECT);
    assert!(answer.data.starts_with(b"\x000/locks\0"));
    for name in ["10/fd/1", "10/fdinfo/1", "10/cwd"] {
        assert_eq!(bench.open(name.as_bytes(), 0, 0), Err(-EACCES), "{name}");
    }
    let folder = bench.open(b"10/fd", o::DIRECTORY, 0).unwrap();
    let listed = bench.call(folder, &[fs::READDIR], b"", 4096).unwrap();
    assert_eq!(listed.result(), -EACCES);
}

/// The text of an open file is its reader's to pay for, who reads its beginning; it is made anew then.
#[test]
fn who_reads_a_text_pays_for_it() {
    let mut bench = bench();
    bench.label = cairn_idl::label::make(1000, 1000);
    bench.fake.charge_limit = Some(16);
    let begun = |bench: &mut Tested| -> Result<u64, i64> {
        let handle = bench.open(b"mounts", 0, 0)?;
        let read = bench.call(handle, &[fs::READ, fs::POSITION], b"", 4);
        match read.unwrap().result() {
            count @ 1.. => assert_eq!(count, 4),
            error => {
                bench.close(handle);
                return Err(error);
            }
        }
        Ok(handle)
    };
    let one = begun(&mut bench).unwrap();
    let (handle, all) = (
        bench.manager.usage_of_handles(1000),
        bench.manager.usage(1000).0,
    );
    assert!(all > handle, "{all} {handle}");
    let again = bench.call(one, &[fs::READ, 0], b"", 4).unwrap();
    assert_eq!((again.result(), bench.manager.usage(1000).0), (4, all));
    let mut open: Vec<u64> = core::iter::from_fn(|| begun(&mut bench).ok()).collect();
    assert_eq!(begun(&mut bench), Err(-ENOMEM));
    assert_eq!((open.len() as u64 + 1) * all, bench.manager.usage(1000).0);
    bench.label = 0;
    open.extend([one, begun(&mut bench).unwrap()]);
    open.into_iter().for_each(|handle| bench.close(handle));
    assert_eq!(bench.manager.usage(1000).0, 0);
}

#[test]
fn name_spaces_have_files_that_keep_them() {
    let mut bench = bench();
    let listed = names(&mut bench, "10/ns");
    assert!(["mnt", "uts", "user"]
        .iter()
        .all(|name| listed.contains(&(*name).into())));
    let handle = bench.open(b"10/ns/uts", 0, 0).unwrap();
    assert_eq!(bench.server.system.held, [7]);
    assert_eq!(
        bench
            .call(handle, &[fs::IOCTL, 0xb703], b"", 0)
            .unwrap()
            .result(),
        0x400_0000
    );
    assert_eq!(
        bench
            .call(handle, &[fs::IOCTL, fs::ENTER_SPACE], b"", 0)
            .unwrap()
            .result(),
        0
    );
    assert_eq!(bench.server.system.entered, [(SHELL_DOMAIN, 7)]);
    bench.close(handle);
    assert!(bench.server.system.held.is_empty());
    // The first ones need not be kept; nobody comes past whom a process shows itself to.
    bench.open(b"10/ns/uts:[4026532007]", 0, 0).unwrap();
    assert_eq!(bench.open(b"10/ns/uts:[4026532008]", 0, 0), Err(-ENOENT));
    bench.sender = ROOT_DOMAIN + 100;
    assert_eq!(bench.open(b"10/ns/uts", 0, 0), Err(-EACCES));
    assert_eq!(bench.open(b"10/ns/uts:[4026532007]", 0, 0), Err(-EACCES));
}

#[test]
fn a_name_spaces_file_leads_to_what_it_belongs_to() {
    let mut bench = bench();
    let handle = bench.open(b"10/ns/uts", 0, 0).unwrap();
    let ask = |bench: &mut Bench<Procfs<Fake>>, handle, which| {
        let answer = bench.call(handle, &[fs::SPACE_RELATED, which], b"", 0);
        let answer = answer.unwrap();
        (answer.result(), answer.minted.first().copied())
    };
    let (result, owner) = ask(&mut bench, handle, fs::NS_GET_USERNS);
    assert_eq!((result, &bench.server.system.held[..]), (0, &[7, 8][..]));
    let owner = owner.unwrap();
    let words = [fs::IOCTL, fs::NS_GET_NSTYPE];
    let kind = bench.call(owner, &words, b"", 0).unwrap().result();
    assert_eq!(kind, 0x1000_0000);
    let words = [fs::IOCTL, fs::NS_GET_OWNER_UID];
    let answer = bench.call(owner, &words, b"", 4).unwrap();
    assert_eq!(
        (answer.result(), &answer.data[..]),
        (0, &[232, 3, 0, 0][..])
    );
    assert_eq!(ask(&mut bench, owner, fs::NS_GET_PARENT), (-EPERM, None));
    assert_eq!(ask(&mut bench, handle, fs::NS_GET_PARENT), (-EINVAL, None));
    assert_eq!(ask(&mut bench, handle, 7), (-EINVAL, None));
    let text = bench.open(b"uptime", 0, 0).unwrap();
    assert_eq!(ask(&mut bench, text, fs::NS_GET_USERNS), (-ENOTTY, None));
    bench.close(handle);
    assert_eq!(bench.server.system.held, [8]);
    bench.close(owner);
    assert!(bench.server.system.held.is_empty());
}

#[test]
fn maps_are_written_by_who_opened_them() {
    let mut bench = bench();
    bench.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(
        text(&mut bench, "10/uid_map"),
        format!("10 for {SHELL_DOMAIN}\n")
    );
    let handle = bench.open(b"10/gid_map", o::RDWR, 0).unwrap();
    assert_eq!(
        bench
            .call(handle, &[fs::WRITE, fs::POSITION], b"0 5 1", 0)
            .unwrap()
            .result(),
        5
    );
    assert_eq!(
        bench.server.system.maps,
        [(
            SHELL_DOMAIN,
            10,
            cairn_idl::proc::SpaceMap::Groups,
            b"0 5 1".to_vec()
        )]
    );
    bench.sender += 1;
    let other = bench.call(handle, &[fs::WRITE, fs::POSITION], b"0 6 1", 0);
    assert_eq!(other.map(|answer| answer.result()), Some(-EPERM));
}

#[test]
fn for_whom_a_login_was_is_told_and_written() {
    let mut bench = bench();
    bench.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(text(&mut bench, "10/loginuid"), "1000");
    assert_eq!(text(&mut bench, "10/sessionid"), "3");
    let handle = bench.open(b"10/loginuid", o::RDWR, 0).unwrap();
    let mut write = |text: &[u8], offset: u64| {
        let answer = bench.call(handle, &[fs::WRITE, offset], text, 0);
        answer.unwrap().result()
    };
    assert_eq!(write(b"1001\n", 0), 5);
    assert_eq!(write(b"4294967295", 0), 10);
    for wrong in [b"x".as_slice(), b"-1", b"1 2", b"4294967296", &[b'1'; 17]] {
        assert_eq!(write(wrong, 0), -EINVAL, "{wrong:?}");
    }
    assert_eq!(write(b"1", 3), -EINVAL);
    let written = [(SHELL_DOMAIN, 10, 1001), (SHELL_DOMAIN, 10, u32::MAX)];
    assert_eq!(bench.server.system.logins, written);
}

#[test]
fn threads_have_names_of_their_own() {
    let mut bench = bench();
    bench.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(text(&mut bench, "10/comm"), "a) sh\n");
    assert_eq!(text(&mut bench, "10/task/10/comm"), "a) sh\n");
    assert_eq!(text(&mut bench, "10/task/11/comm"), "thread-11\n");
    assert!(text(&mut bench, "10/task/11/stat").starts_with("11 (thread-11) "));
    assert!(text(&mut bench, "10/task/11/status").starts_with("Name:\tthread-11\n"));
    assert_eq!(bench.open(b"1/comm", o::WRONLY, 0), Err(-EACCES));
    let file = bench.open(b"10/task/11/comm", o::WRONLY, 0).unwrap();
    for (text, length) in [(&b"new"[..], 3), (b"longer than a name may be", 25)] {
        let answer = bench.call(file, &[fs::WRITE, 0], text, 0);
        assert_eq!(answer.unwrap().result(), length);
    }
    let written = [b"new".to_vec(), b"longer than a n".to_vec()];
    let written = written.map(|name| (SHELL_DOMAIN, 10, 11, name));
    assert_eq!(bench.server.system.names, written);
}

#[test]
fn how_likely_a_process_ends_for_memory_is_told_and_written() {
    let mut bench = bench();
    bench.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(text(&mut bench, "10/oom_score_adj"), "300\n");
    assert_eq!(text(&mut bench, "10/oom_adj"), "5\n");
    // 25 pages of what the machine has beside the adjustment.
    let score: i64 = text(&mut bench, "10/oom_score").trim().parse().unwrap();
    assert!((866..900).contains(&score), "{score}");
    assert_eq!(bench.open(b"1/oom_score_adj", o::WRONLY, 0), Err(-EACCES));
    let present = bench.open(b"10/oom_score_adj", o::RDWR, 0).unwrap();
    let old = bench.open(b"10/oom_adj", o::RDWR, 0).unwrap();
    let mut write = |file, text: &[u8]| {
        let answer = bench.call(file, &[fs::WRITE, 0], text, 0);
        answer.unwrap().result()
    };
    assert_eq!(write(present, b"-1000\n"), 6);
    assert_eq!(write(present, b" 1000 "), 6);
    for wrong in [
        b"x".as_slice(),
        b"1001",
        b"-1001",
        b" ",
        b"1 2",
        b"99999999999",
    ] {
        assert_eq!(write(present, wrong), -EINVAL, "{wrong:?}");
    }
    for (text, result) in [
        ("-17", 3),
        ("15", 2),
        ("-16", 3),
        ("16", -EINVAL),
        ("-18", -EINVAL),
    ] {
        assert_eq!(write(old, text.as_bytes()), result, "{text}");
    }
    let set = |adjust, old| (SHELL_DOMAIN, 10, adjust, old);
    let expected = [
        set(-1000, false),
        set(1000, false),
        set(-1000, true),
        set(1000, true),
        set(-941, true),
    ];
    assert_eq!(bench.server.system.ooms, expected);
}

#[test]
fn memory_is_read_and_written_where_it_is() {
    let mut bench = bench();
    assert_eq!(bench.open(b"1/mem", o::RDWR, 0), Err(-EACCES));
    let file = bench.open(b"10/mem", o::RDWR, 0).unwrap();
    let mut read = |at: u64, most: usize| {
        let answer = bench.call(file, &[fs::READ, at, 0], b"", most).unwrap();
        (answer.result(), answer.data)
    };
    assert_eq!(read(0, 10).0, -EIO);
    assert_eq!(read(6 * 4096, 10).0, -EIO);
    let (count, data) = read(2 * 4096 + 5, 5 * 4096);
    assert_eq!(count, 3 * 4096 - 5);
    assert!(data[..count as usize].iter().all(|byte| *byte == 10));
    assert_eq!(bench.result(file, &[fs::WRITE, 12345, 0], b"abc"), 3);
    assert_eq!(bench.server.system.written, [(12345, b"abc".to_vec())]);
}

#[test]
fn a_call_is_told_in_hexadecimal() {
    let mut bench = bench();
    let call = read(&mut bench, "10/syscall");
    assert_eq!(call, b"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7ff0 0x1000\n");
    assert_eq!(read(&mut bench, "20/syscall"), b"running\n");
    assert_eq!(bench.open(b"1/syscall", 0, 0), Err(-EACCES));
    let mut text = String::new();
    crate::process::call(Some([u64::MAX, 0, 0, 0, 0, 0, 0, 16, 32]), &mut text);
    assert_eq!(text, "-1 0x10 0x20\n");
}

#[test]
fn core_files_are_called_by_a_pattern_of_names() {
    let mut bench = bench();
    let path = b"sys/kernel/core_pattern";
    let file = bench.open(path, o::RDWR, 0).unwrap();
    let mut write = |text: &[u8]| bench.result(file, &[fs::WRITE, 0, 0], text);
    assert_eq!(write(b"/tmp/core.%p\n"), 13);
    assert_eq!(write(b"|/usr/bin/handler"), -EINVAL);
    assert_eq!(write(&[b'x'; 128]), -EINVAL);
    assert_eq!(write(b"\xff"), -EINVAL);
    assert_eq!(
        read(&mut bench, "sys/kernel/core_pattern"),
        b"/tmp/core.%p\n"
    );
}

#[test]
fn how_long_leases_last_can_be_written() {
    let mut bench = bench();
    bench.server.system.lease_time = 45;
    let path = "sys/fs/lease-break-time";
    assert_eq!(read(&mut bench, path), b"45\n");
    let file = bench.open(path.as_bytes(), o::RDWR, 0).unwrap();
    let mut write = |text: &[u8]| bench.result(file, &[fs::WRITE, 0, 0], text);
    assert_eq!(write(b" 5\n"), 3);
    for wrong in [&b"x"[..], b"-1", b"1.5", b"\xff"] {
        assert_eq!(write(wrong), -EINVAL);
    }
    assert_eq!(read(&mut bench, path), b"5\n");
}
