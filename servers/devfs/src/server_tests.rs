//! /dev behind the resource-manager framework.

use super::*;
use cairn_idl::fs::{self, o, s};
use cairn_resmgr::fake::Bench;

#[derive(Default)]
struct Fake {
    log: Vec<u8>,
}

impl Machine for Fake {
    fn log_read(&mut self, offset: u64, into: &mut [u8]) -> (usize, u64) {
        let left = &self.log[(offset as usize).min(self.log.len())..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        (count, offset + count as u64)
    }
    fn log_write(&mut self, line: &[u8]) {
        self.log.extend(line);
        self.log.push(b'\n');
    }
    fn disks(&mut self, each: &mut dyn FnMut(&[u8])) {
        // In two pieces, as a directory that is long.
        for (ino, name) in [(7, &b"vda"[..]), (8, b"vda1")] {
            let mut records = [0; 100];
            let mut packed = Dirents::new(&mut records);
            packed.add(ino, 1, s::IFBLK, name);
            let length = packed.len();
            each(&records[..length]);
        }
    }
}

fn bench() -> Bench<Devfs<Fake>> {
    Bench::new(Devfs::new(Fake::default(), 2, 1_700_000_000), b"/dev")
}

fn read(bench: &mut Bench<Devfs<Fake>>, handle: u64, length: usize) -> Vec<u8> {
    bench
        .call(handle, &[fs::READ, fs::POSITION], b"", length)
        .unwrap()
        .bytes()
        .to_vec()
}

fn write(bench: &mut Bench<Devfs<Fake>>, handle: u64, bytes: &[u8]) -> i64 {
    bench.result(handle, &[fs::WRITE, fs::POSITION], bytes)
}

#[test]
fn memory_devices_do_what_they_are_for() {
    let mut bench = bench();
    let null = bench
        .open(b"null", o::RDWR | o::CREAT | o::TRUNC, 0o666)
        .unwrap();
    assert_eq!(read(&mut bench, null, 10), b"");
    assert_eq!(write(&mut bench, null, b"gone"), 4);
    let zero = bench.open(b"zero", o::RDWR, 0).unwrap();
    assert_eq!(read(&mut bench, zero, 3), [0; 3]);
    assert_eq!(read(&mut bench, zero, 60_000), vec![0; 60_000]);
    // No more at once: others have their turns.
    assert_eq!(read(&mut bench, zero, 200_000), vec![0; fs::DEVICE_MOST]);
    let full = bench.open(b"full", o::RDWR, 0).unwrap();
    assert_eq!(read(&mut bench, full, 2), [0; 2]);
    assert_eq!(write(&mut bench, full, b"x"), -ENOSPC);
    for handle in [null, zero, full] {
        for (offset, whence) in [(5, 0), (-7, 1), (9, 2), (-1, 3)] {
            let words = [fs::SEEK, offset as u64, whence];
            assert_eq!(bench.result(handle, &words, b""), 0);
        }
    }
}

#[test]
fn open_says_what_needs_no_server() {
    use fs::kind::{READS_NOTHING, READS_ZEROS, WRITES_VANISH};
    let mut bench = bench();
    for (path, flags, constant) in [
        (&b"null"[..], o::RDWR, READS_NOTHING | WRITES_VANISH),
        (b"null", o::RDONLY, READS_NOTHING),
        (b"null", o::WRONLY | o::APPEND, WRITES_VANISH),
        (b"null", o::PATH, 0),
        (b"zero", o::RDWR, READS_ZEROS | WRITES_VANISH),
        // Writing must fail, reading a handle for writing too: the server says how.
        (b"full", o::RDWR, READS_ZEROS),
        (b"full", o::WRONLY, 0),
        (b"kmsg", o::RDWR, 0),
        (b"", o::DIRECTORY, 0),
    ] {
        let words = [fs::OPEN, flags, 0];
        let answer = bench.call(0, &words, path, fs::PATH_MAX).unwrap();
        let all = READS_NOTHING | READS_ZEROS | WRITES_VANISH;
        assert_eq!(answer.words[2] & all, constant, "{path:?} {flags:o}");
    }
}

#[test]
fn devices_of_other_servers_are_elsewhere() {
    let mut bench = bench();
    for (path, place) in [
        (&b"tty"[..], &b"tty:current"[..]),
        (b"console", b"tty:console"),
        (b"ttyS1", b"tty:ttyS1"),
        (b"ptmx", b"tty:ptmx"),
        (b"pts/3", b"tty:pts/3"),
        (b"random", b"random:random"),
        (b"urandom", b"random:urandom"),
        (b"vda1", b"block:vda1"),
        (b"disk/by-uuid/x", b"block:disk/by-uuid/x"),
        (b"shm/a", b"/run/shm/a"),
        (b"stdin", b"/proc/self/fd/0"),
    ] {
        let answer = bench
            .call(0, &[fs::OPEN, o::RDWR, 0], path, fs::PATH_MAX)
            .unwrap();
        assert_eq!(answer.result(), -REDIRECT);
        assert_eq!(&answer.data[..answer.words[1] as usize], place);
    }
    // Only opening leads there: looking at the node does not.
    assert_eq!(bench.result(0, &[fs::STAT, 0], b"tty"), 0);
    assert_eq!(bench.open(b"ttyS2", 0, 0), Err(-ENOENT));
}

#[test]
fn numbers_lead_to_the_same_devices() {
    let mut bench = bench();
    let open = |bench: &mut Bench<Devfs<Fake>>, path: &[u8]| {
        bench
            .call(BADGE_NUMBERS, &[fs::OPEN, o::RDWR, 0], path, fs::PATH_MAX)
            .unwrap()
    };
    assert_eq!(open(&mut bench, b"1:3").result(), 0);
    let answer = open(&mut bench, b"4:65");
    assert_eq!(answer.result(), -REDIRECT);
    assert_eq!(&answer.data[..9], b"tty:ttyS1");
    let answer = open(&mut bench, b"10:200");
    assert_eq!(answer.result(), -REDIRECT);
    assert_eq!(&answer.data[..11], b"net:net/tun");
    assert_eq!(open(&mut bench, b"8:0").result(), -ENXIO);
    assert_eq!(open(&mut bench, b"x").result(), -ENXIO);
}

#[test]
fn the_directory_lists_devices_with_their_numbers() {
    let mut bench = bench();
    let handle = bench.open(b"", o::DIRECTORY, 0).unwrap();
    let answer = bench.call(handle, &[fs::READDIR], b"", 4096).unwrap();
    let listing = String::from_utf8_lossy(answer.bytes()).into_owned();
    for name in [
        "null", "ttyS0", "ttyS1", "console", "pts", "net", "stdin", "vda", "vda1",
    ] {
        assert!(listing.contains(&format!("{name}\0")), "{name}");
    }
    for (path, mode, rdev) in [
        (&b"null"[..], s::IFCHR | 0o666, 0x103u64),
        (b"zero", s::IFCHR | 0o666, 0x105),
        (b"full", s::IFCHR | 0o666, 0x107),
        (b"random", s::IFCHR | 0o666, 0x108),
        (b"urandom", s::IFCHR | 0o666, 0x109),
        (b"tty", s::IFCHR | 0o666, 0x500),
        (b"console", s::IFCHR | 0o600, 0x501),
        (b"ttyS0", s::IFCHR | 0o600, 0x440),
        (b"fd", s::IFLNK | 0o777, 0),
    ] {
        let words = [fs::STAT, fs::at::SYMLINK_NOFOLLOW];
        let answer = bench.call(0, &words, path, fs::PATH_MAX).unwrap();
        assert_eq!(answer.data[24..28], mode.to_le_bytes());
        assert_eq!(answer.data[40..48], rdev.to_le_bytes());
    }
}

#[test]
fn nothing_is_made_or_removed() {
    let mut bench = bench();
    assert_eq!(bench.result(0, &[fs::MKDIR, 0o755], b"x"), -EROFS);
    assert_eq!(
        bench.result(0, &[fs::MKNOD, s::IFCHR as u64, 0x103], b"x"),
        -EROFS
    );
    assert_eq!(bench.result(0, &[fs::UNLINK, 0], b"null"), -EROFS);
    assert_eq!(bench.open(b"new", o::RDWR | o::CREAT, 0o644), Err(-EROFS));
}

#[test]
fn the_logs_domains_have_names() {
    let mut bench = bench();
    let log = b"1 nucleus: domain 5 ends by x\n2 [1] init: `tty` is domain 1048581\n3 [9] init: `x` is domain 5\n4 nucleus: domain 5 ends by y\n";
    bench.server.machine.log.extend(log);
    let handle = bench.open(b"kmsg", o::RDWR, 0).unwrap();
    let lines: Vec<_> = (0..4).map(|_| read(&mut bench, handle, 100)).collect();
    // Who was 5 before that was told is not known: it is the only name that there is.
    assert_eq!(lines[0], b"6,0,1,-;nucleus: domain 5 (tty) ends by x\n");
    assert_eq!(lines[3], b"6,3,4,-;nucleus: domain 5 (tty) ends by y\n");
    // What is told later counts for what comes then.
    let log = b"5 [1] init: `uart0` is domain 2097157\n6 nucleus: domain 5 ends by z\n";
    bench.server.machine.log.extend(log);
    read(&mut bench, handle, 100);
    assert_eq!(
        read(&mut bench, handle, 100),
        b"6,5,6,-;nucleus: domain 5 (uart0) ends by z\n"
    );
}

#[test]
fn the_log_is_read_line_by_line() {
    let mut bench = bench();
    bench
        .server
        .machine
        .log
        .extend(b"4000001 [1] one\n4000002 [2] tty: two\n");
    bench.fake.time = 5_000_000;
    let handle = bench.open(b"kmsg", o::RDWR, 0).unwrap();
    assert_eq!(read(&mut bench, handle, 100), b"6,0,4000001,-;[1] one\n");
    assert_eq!(read(&mut bench, handle, 100), b"6,1,4000002,-;tty: two\n");
    let token = bench.send(handle, &[fs::READ, fs::POSITION], b"", 100);
    bench.time_out();
    assert_eq!(bench.answer(token), None);
    assert_eq!(write(&mut bench, handle, b"<5>mine\n"), 8);
    bench.time_out();
    assert_eq!(bench.answer(token).unwrap().bytes(), b"6,2,0,-;mine\n");
    bench.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(bench.open(b"kmsg", o::RDONLY, 0), Err(-EPERM));
}
