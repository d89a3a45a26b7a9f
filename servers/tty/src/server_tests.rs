//! The terminal server behind the resource-manager framework, with lines and processes of the imagination.

use super::*;
use crate::ioctl::*;
use crate::terminal::packet;
use crate::terminal::tests::{job, shell, world, Fake, DEVICE};
use crate::termios::cc;
use cairn_idl::fs;
use cairn_resmgr::fake::Bench;

type Tested = Bench<Tty<Fake>>;

const SHELL: u32 = 100;
const JOB: u32 = 200;

fn bench() -> Tested {
    let mut world = world();
    world.processes.insert(SHELL, shell());
    world.processes.insert(JOB, job());
    let size = Size {
        rows: 24,
        columns: 80,
        ..Size::default()
    };
    let mut bench = Bench::new(Tty::new(world, 2, size), b"/dev");
    bench.sender = SHELL;
    bench
}

fn read(bench: &mut Tested, handle: u64) -> u64 {
    bench.send(handle, &[fs::READ, fs::POSITION], b"", 100)
}

/// The line received these bytes.
fn type_in(bench: &mut Tested, bytes: &[u8]) {
    bench.server.world.incoming.extend(bytes);
    bench.pulse(cairn_abi::pulse::NOTIFY, uart::INPUT, BADGE_LINE);
}

fn text(bench: &mut Tested, token: u64) -> Option<String> {
    bench
        .answer(token)
        .map(|answer| String::from_utf8_lossy(answer.bytes()).into_owned())
}

fn ioctl(bench: &mut Tested, handle: u64, request: u64, out: &[u8], room: usize) -> (i64, Vec<u8>) {
    let answer = bench
        .call(handle, &[fs::IOCTL, request, 0], out, room)
        .expect("answered");
    (answer.result(), answer.data)
}

fn raw() -> [u8; crate::termios::SIZE2] {
    let mut termios = Termios {
        lflag: 0,
        ..Termios::default()
    };
    termios.cc[cc::MIN] = 0;
    termios.cc[cc::TIME] = 5;
    termios.encode()
}

#[test]
fn a_read_waits_for_a_line() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let token = read(&mut bench, handle);
    type_in(&mut bench, b"hello");
    assert_eq!(text(&mut bench, token), None);
    type_in(&mut bench, b"\r");
    assert_eq!(text(&mut bench, token).as_deref(), Some("hello\n"));
    assert_eq!(bench.server.world.sent, b"hello\r\n");
    let token = read(&mut bench, handle);
    bench.interrupt(token);
    assert_eq!(bench.answer(token).unwrap().result(), -EINTR);
    let handle = bench
        .open(b"ttyS0", fs::o::RDWR | fs::o::NONBLOCK, 0)
        .unwrap();
    let token = read(&mut bench, handle);
    assert_eq!(bench.answer(token).unwrap().result(), -EAGAIN);
}

#[test]
fn names_lead_to_devices() {
    let mut bench = bench();
    for (path, rdev) in [
        (&b"ttyS0"[..], 0x440u64),
        (b"ttyS1", 0x441),
        (b"console", 0x501),
        (b"ptmx", 0x502),
        (b"current", 0x500),
    ] {
        let answer = bench.call(0, &[fs::STAT, 0], path, fs::PATH_MAX).unwrap();
        assert_eq!(answer.result(), 0);
        assert_eq!(answer.data[40..48], rdev.to_le_bytes());
        assert_eq!(
            answer.data[8..16],
            device::inode(rdev).to_le_bytes(),
            "the same as below /dev"
        );
    }
    assert_eq!(bench.open(b"ttyS2", 0, 0), Err(-ENOENT));
    assert_eq!(bench.open(b"ttyS01", 0, 0), Err(-ENOENT));
    bench.sender = 999;
    assert_eq!(bench.open(b"current", 0, 0), Err(-ENXIO));
    let handle = bench.open(b"ttyS1", fs::o::RDWR, 0).unwrap();
    let answer = bench
        .call(handle, &[fs::GETPATH], b"", fs::PATH_MAX)
        .unwrap();
    assert_eq!(answer.bytes(), b"/dev/ttyS1");
}

#[test]
fn opening_makes_a_terminal_controlling_unless_told_not_to() {
    for (path, flags, controls) in [
        (&b"ttyS0"[..], fs::o::RDWR, true),
        (b"ttyS0", fs::o::RDWR | fs::o::NOCTTY, false),
        (b"ttyS0", fs::o::WRONLY, false),
        (b"console", fs::o::RDWR, false),
    ] {
        let mut bench = bench();
        let fresh = Ids {
            terminal: 0,
            ..shell()
        };
        bench.server.world.processes.insert(SHELL, fresh);
        bench.open(path, flags, 0).unwrap();
        let expected: &[(u32, u64)] = if controls { &[(10, DEVICE)] } else { &[] };
        assert_eq!(bench.server.world.sessions, expected);
    }
}

#[test]
fn a_background_reader_is_stopped_and_comes_back() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let terminal = bench.server.terminals[0].as_mut().unwrap();
    (terminal.session, terminal.foreground) = (10, 10);
    bench.sender = JOB;
    let token = read(&mut bench, handle);
    assert_eq!(bench.answer(token).unwrap().result(), -ERESTARTSYS);
    assert_eq!(bench.server.world.signals, [(20, 21)]);
    // The shell puts the job into the foreground; now it is the shell that may not read.
    bench.sender = SHELL;
    assert_eq!(
        ioctl(&mut bench, handle, TIOCSPGRP, &20u32.to_le_bytes(), 0).0,
        0
    );
    bench.sender = JOB;
    let token = read(&mut bench, handle);
    type_in(&mut bench, b"x\r");
    assert_eq!(text(&mut bench, token).as_deref(), Some("x\n"));
    let (result, data) = ioctl(&mut bench, handle, TIOCGPGRP, b"", 4);
    assert_eq!((result, data), (0, 20u32.to_le_bytes().to_vec()));
    bench.sender = 999;
    assert_eq!(ioctl(&mut bench, handle, TIOCGPGRP, b"", 4).0, -ENOTTY);
}

/// As a shell's new child does, before it is in the foreground: it blocks SIGTTOU and takes the terminal.
#[test]
fn who_blocks_the_signal_may_take_the_foreground() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let terminal = bench.server.terminals[0].as_mut().unwrap();
    (terminal.session, terminal.foreground) = (10, 10);
    bench.sender = JOB;
    for (flags, result, foreground) in [(0, -ERESTARTSYS, 10), (fs::BLOCKS_TTOU, 0, 20)] {
        let words = [fs::IOCTL, TIOCSPGRP, 0, flags];
        let answer = bench.call(handle, &words, &20u32.to_le_bytes(), 0);
        assert_eq!(answer.unwrap().result(), result);
        assert_eq!(
            bench.server.terminals[0].as_ref().unwrap().foreground,
            foreground
        );
    }
}

#[test]
fn settings_are_read_and_written() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let (result, data) = ioctl(&mut bench, handle, TCGETS, b"", 36);
    assert_eq!(result, 0);
    assert_eq!(Termios::decode(&data), Some(Termios::default()));
    assert_eq!(ioctl(&mut bench, handle, TCSETS, &raw()[..36], 0).0, 0);
    let (_, data) = ioctl(&mut bench, handle, TCGETS, b"", 36);
    assert_eq!(data, raw()[..36]);
    assert_eq!(
        ioctl(&mut bench, handle, TCSETS, &raw()[..20], 0).0,
        -EFAULT
    );
    let (_, data) = ioctl(&mut bench, handle, TIOCGWINSZ, b"", 8);
    assert_eq!(data, [24, 0, 80, 0, 0, 0, 0, 0]);
    assert_eq!(
        ioctl(
            &mut bench,
            handle,
            TIOCSWINSZ,
            &[30, 0, 100, 0, 0, 0, 0, 0],
            0
        )
        .0,
        0
    );
    let (_, data) = ioctl(&mut bench, handle, TIOCGWINSZ, b"", 8);
    assert_eq!(data[..4], [30, 0, 100, 0]);
    assert_eq!(ioctl(&mut bench, handle, 0x1234, b"", 8).0, -ENOTTY);
}

#[test]
fn settings_in_the_old_structure_and_locks_of_settings() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let (result, mut old) = ioctl(&mut bench, handle, TCGETA, b"", 18);
    assert_eq!(result, 0);
    assert_eq!(old, Termios::default().encode_old());
    for (byte, request) in [(b'a', TCSETA), (b'b', TCSETAW), (b'c', TCSETAF)] {
        old[9] = byte;
        assert_eq!(ioctl(&mut bench, handle, request, &old, 0).0, 0);
        let (_, now) = ioctl(&mut bench, handle, TCGETA, b"", 18);
        assert_eq!(now, old);
    }
    let (_, whole) = ioctl(&mut bench, handle, TCGETS, b"", 36);
    assert_eq!(whole[26..], Termios::default().encode()[26..36]);
    assert_eq!(ioctl(&mut bench, handle, TCSETA, &old[..17], 0).0, -EFAULT);
    let (_, locked) = ioctl(&mut bench, handle, TIOCGLCKTRMIOS, b"", 36);
    assert_eq!(locked, [0; 36]);
    let mut locked = [0; 36];
    locked[17] = 1;
    let lock = |bench: &mut Tested| ioctl(bench, handle, TIOCSLCKTRMIOS, &locked, 0).0;
    assert_eq!(lock(&mut bench), 0);
    old[9] = b'd';
    old[10] = b'e';
    assert_eq!(ioctl(&mut bench, handle, TCSETA, &old, 0).0, 0);
    let (_, now) = ioctl(&mut bench, handle, TCGETA, b"", 18);
    assert_eq!(now[9..11], *b"ce");
    bench.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(lock(&mut bench), -EPERM);
}

#[test]
fn setting_after_output_waits_for_the_line() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    bench.server.world.unsent = 5;
    let token = bench.send(handle, &[fs::IOCTL, TCSETSW, 0], &raw()[..36], 0);
    bench.time_out();
    assert_eq!(bench.answer(token), None);
    bench.server.world.unsent = 0;
    bench.time_out();
    assert_eq!(bench.answer(token).unwrap().result(), 0);
}

#[test]
fn a_timed_read_ends_empty() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    ioctl(&mut bench, handle, TCSETS, &raw()[..36], 0);
    bench.fake.time = 1_000;
    let token = read(&mut bench, handle);
    bench.time_out();
    assert_eq!(bench.answer(token), None);
    bench.fake.time += 500_000_000;
    bench.time_out();
    assert_eq!(bench.answer(token).unwrap().result(), 0);
    let token = read(&mut bench, handle);
    type_in(&mut bench, b"k");
    assert_eq!(text(&mut bench, token).as_deref(), Some("k"));
}

#[test]
fn writes_wait_for_room_and_do_not_mix() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    bench.server.world.room = 0;
    let long = vec![b'a'; 20_000];
    let first = bench.send(handle, &[fs::WRITE, fs::POSITION], &long, 0);
    let second = bench.send(handle, &[fs::WRITE, fs::POSITION], b"bbb", 0);
    assert_eq!(bench.answer(first), None);
    assert_eq!(bench.answer(second), None);
    for _ in 0..50 {
        bench.server.world.room = 1000;
        bench.pulse(cairn_abi::pulse::NOTIFY, uart::DRAINED, BADGE_LINE);
    }
    assert_eq!(bench.answer(first).unwrap().result(), 20_000);
    assert_eq!(bench.answer(second).unwrap().result(), 3);
    let mut expected = long;
    expected.extend(b"bbb");
    assert_eq!(bench.server.world.sent, expected);
    // An interrupted write tells how far it came, and lets the next one go on.
    bench.server.world.room = 0;
    bench.server.world.sent.clear();
    let first = bench.send(handle, &[fs::WRITE, fs::POSITION], &vec![b'c'; 20_000], 0);
    let second = bench.send(handle, &[fs::WRITE, fs::POSITION], b"d", 0);
    bench.interrupt(first);
    let done = bench.answer(first).unwrap().result();
    assert!(done > 0 && done < 20_000);
    bench.server.world.room = usize::MAX;
    bench.pulse(cairn_abi::pulse::NOTIFY, uart::DRAINED, BADGE_LINE);
    assert_eq!(bench.answer(second).unwrap().result(), 1);
    assert_eq!(bench.server.world.sent.len() as i64, done + 1);
}

#[test]
fn polls_see_lines_and_room() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let mask = poll::IN | poll::OUT;
    assert_eq!(bench.result(handle, &[fs::POLL, mask, 0], b""), 4);
    let token = bench.send(handle, &[fs::POLL, poll::IN, 1], b"", 0);
    type_in(&mut bench, b"a");
    assert_eq!(bench.answer(token), None);
    type_in(&mut bench, b"\r");
    assert_eq!(bench.answer(token).unwrap().result(), 1);
}

#[test]
fn the_end_of_the_session_kills_old_handles_but_the_console() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    let console = bench.open(b"console", fs::o::RDWR, 0).unwrap();
    let terminal = bench.server.terminals[0].as_mut().unwrap();
    (terminal.session, terminal.foreground) = (10, 20);
    bench.sender = JOB;
    let token = read(&mut bench, handle);
    bench.pulse(cairn_abi::pulse::NOTIFY, 1, BADGE_LEADER);
    assert_eq!(bench.server.world.signals, [(20, 1), (20, 18)]);
    assert_eq!(bench.answer(token).unwrap().result(), 0, "end of file");
    assert_eq!(bench.result(handle, &[fs::WRITE, fs::POSITION], b"x"), -EIO);
    assert_eq!(bench.result(console, &[fs::WRITE, fs::POSITION], b"x"), 1);
    let again = bench.open(b"ttyS0", fs::o::RDWR, 0).unwrap();
    assert_eq!(bench.result(again, &[fs::WRITE, fs::POSITION], b"x"), 1);
}

#[test]
fn pseudo_terminals_live_from_open_to_close() {
    let mut bench = bench();
    let master = bench.open(b"ptmx", fs::o::RDWR, 0).unwrap();
    let (_, data) = ioctl(&mut bench, master, TIOCGPTN, b"", 4);
    assert_eq!(data, [0; 4]);
    assert_eq!(
        bench.open(b"pts/0", fs::o::RDWR, 0),
        Err(-EIO),
        "still locked"
    );
    assert_eq!(ioctl(&mut bench, master, TIOCSPTLCK, &[0; 4], 0).0, 0);
    let slave = bench
        .open(b"pts/0", fs::o::RDWR | fs::o::NOCTTY, 0)
        .unwrap();
    // Both directions, and nothing is lost that the reader's memory does not take.
    let words = [fs::WRITE, fs::POSITION];
    assert_eq!(bench.result(master, &words, b"one\rtwo\r"), 8);
    for (handle, lines) in [
        (slave, &["one\n", "two\n"][..]),
        (master, &["one\r\ntwo\r\n"]),
    ] {
        for line in lines {
            bench.fake.bad_address = true;
            let token = read(&mut bench, handle);
            assert_eq!(bench.answer(token).map(|a| a.result()), Some(-EFAULT));
            let token = read(&mut bench, handle);
            assert_eq!(text(&mut bench, token).as_deref(), Some(*line));
        }
    }
    let token = read(&mut bench, slave);
    assert_eq!(
        bench.result(master, &[fs::WRITE, fs::POSITION], b"cmd\r"),
        4
    );
    assert_eq!(text(&mut bench, token).as_deref(), Some("cmd\n"));
    let token = read(&mut bench, master);
    assert_eq!(text(&mut bench, token).as_deref(), Some("cmd\r\n"));
    let token = read(&mut bench, master);
    assert_eq!(bench.result(slave, &[fs::WRITE, fs::POSITION], b"out\n"), 4);
    assert_eq!(text(&mut bench, token).as_deref(), Some("out\r\n"));
    // The slave goes: the master's reads end with EIO.
    let token = read(&mut bench, master);
    bench.close(slave);
    assert_eq!(bench.answer(token).unwrap().result(), -EIO);
    // The master goes: the slave is hung up and the pair vanishes with it.
    let slave = bench
        .open(b"pts/0", fs::o::RDWR | fs::o::NOCTTY, 0)
        .unwrap();
    let token = read(&mut bench, slave);
    bench.close(master);
    assert_eq!(bench.answer(token).unwrap().result(), 0);
    bench.close(slave);
    assert_eq!(bench.open(b"pts/0", 0, 0), Err(-ENOENT));
    assert!(bench.server.terminals[2].is_none());
}

/// As sshd and login do: the terminal is the user's, and mesg(1) closes it to others.
#[test]
fn a_terminal_is_given_to_who_logs_in() {
    let mut bench = bench();
    let master = bench.open(b"ptmx", fs::o::RDWR, 0).unwrap();
    assert_eq!(ioctl(&mut bench, master, TIOCSPTLCK, &[0; 4], 0).0, 0);
    let as_user = |bench: &mut Tested, uid| bench.label = cairn_idl::label::make(uid, uid);
    let open = |bench: &mut Tested, name: &[u8]| {
        let opened = bench.open(name, fs::o::RDWR | fs::o::NOCTTY, 0);
        opened.map(|handle| bench.close(handle))
    };
    for name in [&b"pts/0"[..], b"ttyS1"] {
        as_user(&mut bench, 1000);
        assert_eq!(open(&mut bench, name), Err(-EACCES));
        assert_eq!(
            bench.result(0, &[fs::CHOWN, 1000, 5, 0], name),
            -EPERM,
            "not by oneself"
        );
        as_user(&mut bench, 0);
        assert_eq!(bench.result(0, &[fs::CHOWN, 1000, 5, 0], name), 0);
        as_user(&mut bench, 1000);
        assert_eq!(open(&mut bench, name), Ok(()));
        assert_eq!(bench.result(0, &[fs::CHMOD, 0o666, 0], name), 0);
        as_user(&mut bench, 1001);
        assert_eq!(open(&mut bench, name), Ok(()));
        assert_eq!(bench.result(0, &[fs::CHMOD, 0o600, 0], name), -EPERM);
    }
    as_user(&mut bench, 0);
    assert_eq!(bench.result(0, &[fs::CHOWN, 1000, 5, 0], b"ptmx"), -EPERM);
    assert_eq!(bench.result(0, &[fs::CHMOD, 0o666, 0], b"console"), -EPERM);
}

#[test]
fn users_leave_pseudo_terminals_to_each_other_and_to_user_0() {
    let mut bench = bench();
    let mut open = Vec::new();
    for (uid, most) in [(1000, 128), (1001, 96), (1002, 0), (0, 32)] {
        bench.label = cairn_idl::label::make(uid, uid);
        let more = core::iter::from_fn(|| bench.open(b"ptmx", fs::o::RDWR, 0).ok());
        let more: Vec<u64> = more.collect();
        assert_eq!(more.len(), most, "{uid}");
        assert_eq!(bench.open(b"ptmx", fs::o::RDWR, 0), Err(-ENOSPC));
        open.extend(more);
    }
    bench.close(open[0]);
    bench.label = cairn_idl::label::make(1002, 1002);
    assert!(bench.open(b"ptmx", fs::o::RDWR, 0).is_ok());
}

#[test]
fn packets_say_what_happened() {
    let mut bench = bench();
    let flags = fs::o::RDWR | fs::o::NONBLOCK | fs::o::NOCTTY;
    let master = bench.open(b"ptmx", flags, 0).unwrap();
    ioctl(&mut bench, master, TIOCSPTLCK, &[0; 4], 0);
    let slave = bench.open(b"pts/0", flags, 0).unwrap();
    assert_eq!(
        ioctl(&mut bench, master, TIOCPKT, &1u32.to_le_bytes(), 0).0,
        0
    );
    let next = |bench: &mut Tested| {
        let token = read(bench, master);
        let answer = bench.answer(token).unwrap();
        match answer.result() {
            0.. => Ok(answer.bytes().to_vec()),
            errno => Err(errno),
        }
    };
    let write = [fs::WRITE, fs::POSITION];
    assert_eq!(bench.result(slave, &write, b"hi"), 2);
    assert_eq!(next(&mut bench), Ok(b"\0hi".to_vec()));
    assert_eq!(next(&mut bench), Err(-EAGAIN));
    // What was put out before it stopped is there, and nothing more is taken.
    assert_eq!(bench.result(slave, &write, b"old"), 3);
    assert_eq!(bench.result(slave, &[fs::IOCTL, TCXONC, 0], b""), 0);
    assert_eq!(bench.result(slave, &write, b"new"), -EAGAIN);
    assert_eq!(next(&mut bench), Ok(vec![packet::STOP]));
    assert_eq!(next(&mut bench), Ok(b"\0old".to_vec()));
    // Of two that exclude each other the last counts.
    assert_eq!(bench.result(slave, &[fs::IOCTL, TCXONC, 1], b""), 0);
    assert_eq!(bench.result(slave, &[fs::IOCTL, TCXONC, 0], b""), 0);
    assert_eq!(bench.result(slave, &[fs::IOCTL, TCXONC, 1], b""), 0);
    assert_eq!(bench.result(slave, &[fs::IOCTL, TCFLSH, 2], b""), 0);
    let told = packet::START | packet::FLUSHREAD | packet::FLUSHWRITE;
    assert_eq!(next(&mut bench), Ok(vec![told]));
    assert_eq!(bench.result(slave, &write, b"new"), 3);
    assert_eq!(next(&mut bench), Ok(b"\0new".to_vec()));
}

#[test]
fn a_master_sends_what_can_be_typed() {
    let mut bench = bench();
    let master = bench.open(b"ptmx", fs::o::RDWR, 0).unwrap();
    for signal in 0..70 {
        let answer = bench.result(master, &[fs::IOCTL, TIOCSIG, signal], b"");
        let expected = match signal {
            2 | 3 | 20 => 0,
            _ => -EINVAL,
        };
        assert_eq!(answer, expected, "{signal}");
    }
}

#[test]
fn a_master_takes_no_more_than_the_slave_reads() {
    let mut bench = bench();
    let master = bench.open(b"ptmx", fs::o::RDWR, 0).unwrap();
    ioctl(&mut bench, master, TIOCSPTLCK, &[0; 4], 0);
    let slave = bench.open(b"pts/0", fs::o::RDWR, 0).unwrap();
    let mut termios = Termios::pseudo();
    termios.lflag = 0;
    ioctl(&mut bench, slave, TCSETS, &termios.encode()[..36], 0);
    let long: Vec<u8> = (0..10_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let write = bench.send(master, &[fs::WRITE, fs::POSITION], &long, 0);
    assert_eq!(bench.answer(write), None);
    let mut got = Vec::new();
    while got.len() < long.len() {
        let token = read(&mut bench, slave);
        got.extend_from_slice(bench.answer(token).unwrap().bytes());
    }
    assert_eq!(got, long);
    assert_eq!(bench.answer(write).unwrap().result(), 10_000);
}

#[test]
fn a_directory_of_slaves_is_listed() {
    let mut bench = bench();
    bench.open(b"ptmx", fs::o::RDWR, 0).unwrap();
    bench.open(b"ptmx", fs::o::RDWR, 0).unwrap();
    let directory = bench.open(b"pts", fs::o::DIRECTORY, 0).unwrap();
    let answer = bench.call(directory, &[fs::READDIR], b"", 1000).unwrap();
    let bytes = answer.bytes();
    let mut names = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at + 16] as usize;
        let name = &bytes[at + 19..at + length];
        let end = name.iter().position(|&b| b == 0).unwrap();
        names.push(String::from_utf8_lossy(&name[..end]).into_owned());
        at += length;
    }
    assert_eq!(names, [".", "..", "0", "1", "ptmx"]);
}

#[test]
fn a_driver_that_was_started_again_is_attached_to() {
    let mut bench = bench();
    let handle = bench.open(b"ttyS1", fs::o::RDWR, 0).unwrap();
    let token = read(&mut bench, handle);
    let closed = cairn_abi::pulse::CLOSED;
    bench.server.world.gone = true;
    bench.pulse(closed, 0, BADGE_LINE | 1);
    bench.time_out();
    bench.server.world.gone = false;
    bench.server.world.incoming.extend(b"x\r");
    bench.time_out();
    assert_eq!(text(&mut bench, token).as_deref(), Some("x\n"));
    let attached = bench.server.world.attached.clone();
    assert_eq!(attached, [BADGE_LINE | 0x101, BADGE_LINE | 0x201]);
    // The portal of the attempt in vain is closed as well: that is no reason to begin anew.
    bench.pulse(closed, 0, attached[0]);
    bench.time_out();
    assert_eq!(bench.server.world.attached, attached);
}
