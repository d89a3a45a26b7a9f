//! The server with a host in memory, and the device with one of the virtio library's.

mod host;
mod memory;

use crate::asks::{Asks, Wire};
use crate::device::{Device, LONGEST, PIECES};
use crate::left::Left;
use crate::map::{Maps, Medium, PAGE};
use crate::server::{Options, Share, INTERRUPT, PAGES, ROOT_FILE};
use crate::start::attach;
use cairn_abi::pulse;
use cairn_device::Memory as _;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, s};
use cairn_idl::label;
use cairn_ninep::{kind, Trouble};
use cairn_resmgr::fake::{Answer, Bench};
use cairn_resmgr::{Keepsake, Recovered};
use cairn_rt::paging::Request;
use cairn_virtio::fake::FakeDevice;
use core::sync::atomic::AtomicU64;
use host::Host;
use memory::{Memory, SLOTS};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

type B = Bench<Share<Host, Memory>>;

fn share(host: &Host) -> Share<Host, Memory> {
    let mut wire = host.clone();
    let found = attach(&mut wire, LONGEST, ROOT_FILE, || ()).unwrap();
    let options = Options {
        device: 48,
        longest: found.longest,
        heard: || (),
        broken: || panic!("broken"),
    };
    let asks = Asks::new(wire, ROOT_FILE + 1);
    let maps = Maps::new(Memory::new(), SLOTS, 900);
    Share::new(asks, maps, found.root, Left::default(), options)
}

fn bench(host: &Host) -> B {
    Bench::new(share(host), b"/host")
}

/// The host answers until the request has its answer.
fn answered(b: &mut B, token: u64) -> Answer {
    for _ in 0..1000 {
        if let Some(answer) = b.answer(token) {
            return answer;
        }
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    panic!("no answer");
}

fn call(b: &mut B, badge: u64, words: &[u64], out: &[u8], room: usize) -> Answer {
    let token = b.send(badge, words, out, room);
    answered(b, token)
}

fn result(b: &mut B, badge: u64, words: &[u64], out: &[u8]) -> i64 {
    call(b, badge, words, out, fs::PATH_MAX).result()
}

fn open(b: &mut B, path: &[u8], flags: u64, mode: u64) -> Result<u64, i64> {
    let answer = call(b, 0, &[fs::OPEN, flags, mode], path, fs::PATH_MAX);
    match answer.minted.first() {
        Some(&badge) if answer.result() == 0 => Ok(badge),
        _ => Err(answer.result()),
    }
}

fn read(b: &mut B, file: u64, offset: u64, length: usize) -> Vec<u8> {
    let answer = call(b, file, &[fs::READ, offset], b"", length);
    assert!(answer.result() >= 0, "{}", answer.result());
    answer.bytes().to_vec()
}

/// Mode, links, size.
fn stat(b: &mut B, badge: u64, path: &[u8]) -> Result<(u32, u64, u64), i64> {
    let answer = call(b, badge, &[fs::STAT], path, fs::PATH_MAX);
    let word = |at: usize| u64::from_le_bytes(answer.data[at..at + 8].try_into().unwrap());
    match answer.result() {
        0 => Ok((word(24) as u32, word(16), word(48))),
        error => Err(error),
    }
}

fn names(b: &mut B, path: &[u8]) -> Vec<Vec<u8>> {
    let dir = open(b, path, o::DIRECTORY, 0).unwrap();
    let mut names = Vec::new();
    loop {
        let answer = call(b, dir, &[fs::READDIR], b"", 4096);
        let mut rest = answer.bytes();
        if rest.is_empty() {
            b.close(dir);
            return names;
        }
        while !rest.is_empty() {
            let length = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
            let name = rest[19..length].split(|&byte| byte == 0).next().unwrap();
            names.push(name.to_vec());
            rest = &rest[length..];
        }
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn files_are_made_written_read_and_removed() {
    let host = Host::new();
    let mut b = bench(&host);
    let data = pattern(700_000);
    let file = open(&mut b, b"f", o::RDWR | o::CREAT | o::EXCL, 0o640).unwrap();
    assert_eq!(result(&mut b, file, &[fs::WRITE, 0], &data), 700_000);
    assert!(read(&mut b, file, 0, 1 << 20) == data);
    assert_eq!(read(&mut b, file, 699_990, 100), data[699_990..]);
    assert_eq!(read(&mut b, file, 800_000, 100), b"");
    assert_eq!(stat(&mut b, file, b""), Ok((s::IFREG | 0o640, 1, 700_000)));
    assert!(host.0.borrow().inodes[1].data == data);
    // It was asked for several parts at a time, of as many bytes as there are.
    assert!(host.0.borrow().most > 1);
    assert_eq!(result(&mut b, file, &[fs::TRUNCATE, 5], b""), 0);
    assert_eq!(result(&mut b, file, &[fs::SYNC, 0], b""), 0);
    assert_eq!(result(&mut b, 0, &[fs::CHMOD, 0o600], b"f"), 0);
    assert_eq!(stat(&mut b, 0, b"f"), Ok((s::IFREG | 0o600, 1, 5)));
    assert_eq!(result(&mut b, 0, &[fs::LINK, 0], b"f\0g"), 0);
    assert_eq!(stat(&mut b, 0, b"g").unwrap().1, 2);
    assert_eq!(result(&mut b, 0, &[fs::UNLINK, 0], b"f"), 0);
    assert_eq!(stat(&mut b, 0, b"f"), Err(-ENOENT));
    assert_eq!(stat(&mut b, 0, b"g"), Ok((s::IFREG | 0o600, 1, 5)));
    // One that is open has no name any more, and is read as before.
    assert_eq!(result(&mut b, 0, &[fs::UNLINK, 0], b"g"), 0);
    assert_eq!(read(&mut b, file, 0, 100), data[..5]);
    assert_eq!(stat(&mut b, file, b"").unwrap().1, 0);
    b.close(file);
    b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    assert_eq!((host.0.borrow().files(), b.server.nodes().len()), (1, 1));
}

#[test]
fn folders_and_links_lead_on() {
    let host = Host::new();
    let mut b = bench(&host);
    assert_eq!(result(&mut b, 0, &[fs::MKDIR, 0o755], b"a"), 0);
    assert_eq!(result(&mut b, 0, &[fs::MKDIR, 0o755], b"a"), -EEXIST);
    assert_eq!(result(&mut b, 0, &[fs::MKDIR, 0o755], b"a/b"), 0);
    let made = o::RDWR | o::CREAT;
    let file = open(&mut b, b"a/b/f", made, 0o644).unwrap();
    assert_eq!(result(&mut b, file, &[fs::WRITE, 0], b"deep"), 4);
    assert_eq!(result(&mut b, 0, &[fs::SYMLINK], b"a/b\0l"), 0);
    let target = call(&mut b, 0, &[fs::READLINK], b"l", 100);
    assert_eq!(target.bytes(), b"a/b");
    let by_link = open(&mut b, b"l/f", o::RDONLY, 0).unwrap();
    assert_eq!(read(&mut b, by_link, 0, 9), b"deep");
    // Into itself it cannot go; elsewhere it can, with what is open in it.
    assert_eq!(result(&mut b, 0, &[fs::RENAME, 0], b"a\0a/b/c"), -EINVAL);
    assert_eq!(result(&mut b, 0, &[fs::RENAME, 0], b"a/b\0z"), 0);
    assert_eq!(result(&mut b, 0, &[fs::RENAME, 2], b"a\0z"), -EINVAL);
    assert_eq!(stat(&mut b, 0, b"z/f").unwrap().2, 4);
    assert_eq!(stat(&mut b, 0, b"a/b/f"), Err(-ENOENT));
    assert_eq!(read(&mut b, file, 0, 9), b"deep");
    let path = call(&mut b, file, &[fs::GETPATH], b"", 100);
    assert_eq!(path.bytes(), b"/host/z/f");
    let remove = [fs::UNLINK, fs::at::REMOVEDIR];
    assert_eq!(result(&mut b, 0, &remove, b"z"), -ENOTEMPTY);
    assert_eq!(result(&mut b, 0, &remove, b"a"), 0);
    assert_eq!(names(&mut b, b"z"), [&b"."[..], b"..", b"f"]);
    assert_eq!(names(&mut b, b"/"), [&b"."[..], b"..", b"l", b"z"]);
    assert_eq!(result(&mut b, 0, &[fs::MKNOD, 0x2180], b"c"), -EPERM);
}

#[test]
fn what_the_host_changes_is_seen() {
    let host = Host::new();
    let mut b = bench(&host);
    let made = |name: &[u8], data: &[u8]| {
        let mut state = host.0.borrow_mut();
        state.make(0, name, s::IFREG | 0o644, data)
    };
    made(b"x", b"one");
    assert_eq!(stat(&mut b, 0, b"x").unwrap().2, 3);
    // Another file has the name.
    let second = made(b"x", b"second");
    assert_eq!(stat(&mut b, 0, b"x").unwrap().2, 6);
    host.0.borrow_mut().inodes[second].data.push(b'!');
    assert_eq!(stat(&mut b, 0, b"x").unwrap().2, 7);
    host.0.borrow_mut().inodes[0].names.clear();
    assert_eq!(stat(&mut b, 0, b"x"), Err(-ENOENT));
    // It is made anew here, exclusively, although it was known.
    let exclusive = o::RDWR | o::CREAT | o::EXCL;
    let file = open(&mut b, b"x", exclusive, 0o400).unwrap();
    assert_eq!(result(&mut b, file, &[fs::WRITE, 0], b"new"), 3);
    assert_eq!(open(&mut b, b"x", exclusive, 0o400), Err(-EEXIST));
    // What is appended is behind what the host has written meanwhile.
    let log = open(&mut b, b"log", o::WRONLY | o::CREAT | o::APPEND, 0o644).unwrap();
    assert_eq!(result(&mut b, log, &[fs::WRITE, fs::POSITION], b"a"), 1);
    let inode = host.0.borrow().inodes[0].names[&b"log"[..]];
    host.0.borrow_mut().inodes[inode].data.push(b'b');
    assert_eq!(result(&mut b, log, &[fs::WRITE, fs::POSITION], b"c"), 1);
    assert_eq!(host.0.borrow().inodes[inode].data, b"abc");
}

#[test]
fn a_slow_request_stops_no_other() {
    let host = Host::new();
    host.0.borrow_mut().make(0, b"f", s::IFREG | 0o644, b"data");
    let mut b = bench(&host);
    let file = open(&mut b, b"f", o::RDWR, 0).unwrap();
    host.0.borrow_mut().held = vec![kind::READ];
    let slow = b.send(file, &[fs::READ, 0], b"", 100);
    b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    assert_eq!(stat(&mut b, 0, b"f").unwrap().2, 4);
    assert_eq!(result(&mut b, 0, &[fs::MKDIR, 0o755], b"d"), 0);
    assert!(b.answer(slow).is_none());
    host.0.borrow_mut().held.clear();
    assert_eq!(answered(&mut b, slow).bytes(), b"data");
    // One whose caller has gone is nobody's.
    host.0.borrow_mut().held = vec![kind::WALK];
    let gone = b.send(0, &[fs::OPEN, 0, 0], b"f", fs::PATH_MAX);
    b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    b.die(gone);
    host.0.borrow_mut().held.clear();
    b.close(file);
    for _ in 0..4 {
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    b.server.asks().leave();
    assert_eq!(b.server.asks().remembered(), 0);
    assert_eq!(host.0.borrow().files(), b.server.nodes().len());
}

#[test]
fn nothing_is_done_twice_while_others_come_between() {
    let host = Host::new();
    let mut b = bench(&host);
    // The file is there, and what comes behind waits; others find it meanwhile.
    host.0.borrow_mut().held = vec![kind::OPEN];
    let flags = o::RDWR | o::CREAT | o::EXCL;
    let maker = b.send(0, &[fs::OPEN, flags, 0o400], b"f", fs::PATH_MAX);
    for _ in 0..10 {
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    assert!(stat(&mut b, 0, b"f").is_ok());
    assert_eq!(result(&mut b, 0, &[fs::RENAME, 0], b"f\0g"), 0);
    assert_eq!(result(&mut b, 0, &[fs::RENAME, 0], b"g\0f"), 0);
    host.0.borrow_mut().held.clear();
    let answer = answered(&mut b, maker);
    assert_eq!((answer.result(), answer.minted.len()), (0, 1));
    assert_eq!(host.count(kind::MKNOD), 1);
    // The time of now is another one each time.
    let now = 0x3fff_ffff;
    let token = b.send(0, &[fs::UTIMENS, 0, now, 0, now, 0], b"f", fs::PATH_MAX);
    for _ in 0..10 {
        b.fake.time += 1_000_000;
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    assert_eq!(answered(&mut b, token).result(), 0);
    assert_eq!(host.count(kind::SETATTR), 1);
    // Both times, of the host's clock.
    assert_eq!(host.0.borrow().set, 1 << 4 | 1 << 5);
    // Twenty at a time, more than the other side takes.
    let tokens: Vec<u64> = (0..20)
        .map(|i| b.send(0, &[fs::MKDIR, 0o755], &[b'A' + i], fs::PATH_MAX))
        .collect();
    for token in tokens {
        assert_eq!(answered(&mut b, token).result(), 0);
    }
    assert_eq!(host.count(kind::MKDIR), 20);
    assert!(host.0.borrow().most <= 8);
}

#[test]
fn modes_decide_and_owners_are_as_the_host_lets() {
    let host = Host::new();
    {
        let mut state = host.0.borrow_mut();
        state.inodes[0].mode = s::IFDIR | 0o777;
        state.make(0, b"secret", s::IFREG | 0o600, b"s");
        state.make(0, b"public", s::IFREG | 0o604, b"p");
        state.make(0, b"device", s::IFBLK | 0o666, b"");
    }
    let mut b = bench(&host);
    b.label = label::make(1000, 1000);
    assert_eq!(open(&mut b, b"secret", o::RDONLY, 0), Err(-EACCES));
    assert!(open(&mut b, b"public", o::RDONLY, 0).is_ok());
    assert_eq!(open(&mut b, b"public", o::WRONLY, 0), Err(-EACCES));
    assert_eq!(result(&mut b, 0, &[fs::CHMOD, 0o777], b"secret"), -EPERM);
    assert_eq!(open(&mut b, b"device", o::RDONLY, 0), Err(-EACCES));
    open(&mut b, b"own", o::RDWR | o::CREAT, 0o600).unwrap();
    let owner = |name: &[u8]| {
        let state = host.0.borrow();
        let inode = &state.inodes[state.inodes[0].names[name]];
        (inode.uid, inode.gid)
    };
    assert_eq!(owner(b"own"), (1000, 1000));
    host.0.borrow_mut().no_owners = true;
    let before = host.count(kind::SETATTR);
    for name in [b"1", b"2", b"3"] {
        open(&mut b, name, o::RDWR | o::CREAT, 0o600).unwrap();
    }
    // Who is refused once does not ask again.
    assert_eq!(
        (owner(b"1"), host.count(kind::SETATTR)),
        ((0, 0), before + 1)
    );
}

#[test]
fn many_files_are_listed_and_forgotten() {
    let host = Host::new();
    for i in 0..6000 {
        let name = std::format!("file-{i:04}");
        let mut state = host.0.borrow_mut();
        state.make(0, name.as_bytes(), s::IFREG | 0o644, b"");
    }
    let mut b = bench(&host);
    let all = names(&mut b, b"/");
    assert_eq!(all.len(), 6002);
    for name in &all[2..] {
        assert!(stat(&mut b, 0, name).is_ok());
    }
    for _ in 0..1000 {
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    assert!(b.server.nodes().len() <= 4100);
    assert_eq!(host.0.borrow().files(), b.server.nodes().len());
}

/// Some of everything; what it gives does not matter, but that it gives something.
fn everything(b: &mut B) {
    let file = open(b, b"f", o::RDWR, 0);
    for badge in file.into_iter().chain([0]) {
        let _ = call(b, badge, &[fs::READ, 0], b"", 200_000);
        let _ = result(b, badge, &[fs::WRITE, 0], &[1; 100_000]);
        let _ = call(b, badge, &[fs::READDIR], b"", 4096);
        let _ = call(b, badge, &[fs::STATFS], b"d", fs::PATH_MAX);
    }
    for (words, out) in [
        (&[fs::STAT, 0][..], &b"d/l"[..]),
        (&[fs::READLINK], b"d/l"),
        (&[fs::MKDIR, 0o755], b"d/new"),
        (&[fs::SYMLINK], b"x\0d/link"),
        (&[fs::LINK, 0], b"f\0d/f"),
        (&[fs::RENAME, 0], b"d/f\0e"),
        (&[fs::CHMOD, 0o600], b"e"),
        (&[fs::TRUNCATE, 9], b"e"),
        (&[fs::UNLINK, 0], b"e"),
    ] {
        let _ = call(b, 0, words, out, fs::PATH_MAX);
    }
    if let Ok(dir) = open(b, b"d", o::DIRECTORY, 0) {
        let _ = call(b, dir, &[fs::READDIR], b"", 4096);
        b.close(dir);
    }
    if let Ok(file) = file {
        b.close(file);
    }
}

/// An answer's number, the place in it and what is there then, and whether it ends there.
type Change = (usize, usize, u8, bool);

/// All that can be asked, three times, of a host whose answers are changed so.
fn everything_with_changed_answers(changes: Vec<Change>) {
    let host = Host::new();
    {
        let mut state = host.0.borrow_mut();
        state.make(0, b"f", s::IFREG | 0o644, b"data");
        let dir = state.make(0, b"d", s::IFDIR | 0o755, b"");
        state.make(dir, b"l", s::IFLNK | 0o777, b"../f");
    }
    let mut b = bench(&host);
    let mut number = 0;
    host.0.borrow_mut().damage = Some(Box::new(move |answer| {
        for &(which, place, byte, cut) in &changes {
            if which == number {
                let place = place % answer.len();
                answer[place] = byte;
                if cut {
                    answer.truncate(place);
                }
                if answer.is_empty() {
                    break;
                }
            }
        }
        number += 1;
    }));
    for _ in 0..3 {
        everything(&mut b);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A host that answers nonsense: errors, and nothing worse.
    #[test]
    fn no_answer_of_the_host_is_believed(changes in proptest::collection::vec((0usize..200, 0usize..64, any::<u8>(), any::<bool>()), 1..40)) {
        everything_with_changed_answers(changes);
    }
}

/// Walks that seem to fail make files that nobody knows of; RENAMEAT comes with one that the host does not know.
#[test]
fn a_rename_with_a_file_that_the_host_does_not_know() {
    let lengths = [133, 13, 33, 73, 20, 135, 77, 72, 82].map(|which| (which, 0, 0, false));
    everything_with_changed_answers([&lengths[..], &[(53, 12, 0, false)]].concat());
}

#[test]
fn the_beginning_needs_the_dialect() {
    let host = Host::new();
    for bad in [&b"\x06\x009P2000"[..], b"", b"\xff\xff"] {
        host.0.borrow_mut().damage = Some(Box::new(move |answer| {
            answer.truncate(11);
            answer.extend(bad);
            answer[0] = answer.len() as u8;
        }));
        let found = attach(&mut host.clone(), LONGEST, ROOT_FILE, || ());
        assert_eq!(found, Err(Trouble::Nonsense));
    }
}

#[test]
fn messages_go_by_the_queue_and_answers_are_not_believed() {
    let fake = FakeDevice::new(1 << 32 | 1 << 28, &[], 1, PIECES);
    let mut device = Device::new(fake.clone(), fake.memory.clone(), 1).unwrap();
    let message: Vec<u8> = pattern(LONGEST);
    assert!(device.send(3, &message) && !device.send(3, &message));
    assert!(!device.send(16, b"x") && !device.send(2, &[0; LONGEST + 1]));
    let taken = fake.take();
    let [(out, length, false), (room, most, true)] = taken[0].pieces[..] else {
        panic!("{taken:?}");
    };
    assert_eq!((taken.len(), length as usize), (1, LONGEST));
    let at = fake.at(out);
    let sent: Vec<u8> = (0..LONGEST).map(|i| fake.memory.read8(at + i)).collect();
    assert!(sent == message);
    let room = fake.at(room);
    assert!(most >= 4096 && device.received().is_none());
    // Longer than the room, shorter than a head, right.
    for (says, expected) in [(most + 1, 0), (6, 0), (u32::MAX, 0), (9, 9)] {
        for (i, byte) in says.to_le_bytes().into_iter().enumerate() {
            fake.memory.write8(room + i, byte);
        }
        fake.use_up(0, u32::from(taken[0].tag), says);
        let (tag, answer) = device.received().unwrap();
        assert_eq!((tag, answer.len()), (3, expected));
        assert!(device.send(3, &message));
        fake.take();
    }
}

/// A server that goes on with what this memory says.
fn life(host: &Host, memory: &'static [AtomicU64]) -> (B, Recovered) {
    host.0.borrow_mut().reset();
    let (keep, _, own) = Keepsake::new(memory);
    let open = keep.identities();
    let mut wire = host.clone();
    let found = attach(&mut wire, LONGEST, ROOT_FILE, || ()).unwrap();
    let options = Options {
        device: 48,
        longest: found.longest,
        heard: || (),
        broken: || panic!("broken"),
    };
    let asks = Asks::new(wire, ROOT_FILE + 1);
    let maps = Maps::new(Memory::new(), SLOTS, 900);
    let mut server = Share::new(asks, maps, found.root, Left::new(own, &open), options);
    server.find_again(&open, || ());
    let mut b = Bench::new(server, b"/host");
    let told = b.manager.recover(&mut b.server, keep);
    (b, told)
}

#[test]
fn open_files_go_on_after_a_death() {
    let memory = (0..1 << 16).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: &'static [AtomicU64] = memory.leak();
    let host = Host::new();
    let (mut b, _) = life(&host, memory);
    for name in [&b"d"[..], b"e"] {
        assert_eq!(result(&mut b, 0, &[fs::MKDIR, 0o755], name), 0);
    }
    let mut files = Vec::new();
    for name in [&b"d/stays"[..], b"removed", b"replaced"] {
        let file = open(&mut b, name, o::RDWR | o::CREAT, 0o644).unwrap();
        assert_eq!(result(&mut b, file, &[fs::WRITE, fs::POSITION], b"abc"), 3);
        files.push(file);
    }
    let dir = open(&mut b, b"d", o::DIRECTORY, 0).unwrap();
    // With the folder that it is in, it is called otherwise.
    assert_eq!(result(&mut b, 0, &[fs::RENAME, 0], b"d\0e/d"), 0);
    assert_eq!(result(&mut b, 0, &[fs::UNLINK, 0], b"removed"), 0);
    {
        let mut state = host.0.borrow_mut();
        state.make(0, b"replaced", s::IFREG | 0o644, b"other");
    }
    let (mut b, told) = life(&host, memory);
    assert_eq!((told.open, told.gone), (2, 2));
    assert_eq!(
        result(&mut b, files[0], &[fs::WRITE, fs::POSITION], b"def"),
        3
    );
    assert_eq!(read(&mut b, files[0], 0, 9), b"abcdef");
    assert!(!call(&mut b, dir, &[fs::READDIR], b"", 4096)
        .bytes()
        .is_empty());
    for &file in &files[1..] {
        assert_eq!(result(&mut b, file, &[fs::WRITE, 0], b"x"), -EIO);
    }
    b.close(dir);
    for file in files {
        b.close(file);
    }
    let (_, told) = life(&host, memory);
    assert_eq!(told, Recovered::default());
}

/// A program touches a page of a mapped file: its bytes, or None if it was refused.
fn touch(b: &mut B, object: u32, page: u64) -> Option<Vec<u8>> {
    let (vm, asked) = {
        let medium = b.server.maps().medium();
        (medium.vm.clone(), medium.asked.clone())
    };
    for _ in 0..100 {
        if let Some(slot) = vm.borrow_mut().touch(object, page, false) {
            return Some(b.server.maps().medium().page(slot).to_vec());
        }
        if vm.borrow().refused.contains(&page) {
            return None;
        }
        let tag = vm.borrow_mut().object(object).tag;
        let pages = 1;
        asked.borrow_mut().push_back(Request::Pages {
            tag,
            first: page,
            pages,
        });
        b.pulse(pulse::NOTIFY, 0, PAGES);
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    panic!("nothing comes of page {page}");
}

/// The object of a file, by the reader's portal.
fn map(b: &mut B, file: u64) -> u32 {
    let answer = call(b, file, &[fs::MMAP, 0, 1, 0], b"", 0);
    assert_eq!(answer.passed.len(), 1, "{}", answer.result());
    // The object itself was made before its reader.
    let vm = b.server.maps().medium().vm.clone();
    let objects = &vm.borrow().objects;
    *objects.keys().next_back().unwrap()
}

#[test]
fn mapped_files_are_read_when_they_are_touched() {
    let host = Host::new();
    let data = pattern(100 * PAGE + 10);
    let inode = host.0.borrow_mut().make(0, b"f", s::IFREG | 0o644, &data);
    let mut b = bench(&host);
    let file = open(&mut b, b"f", o::RDWR, 0).unwrap();
    assert_eq!(result(&mut b, file, &[fs::MMAP, 0, 1, 1], b""), -ENODEV);
    let object = map(&mut b, file);
    // More pages than there are slots: some go for others.
    for page in [0, 1, 99, 50, 100, 0] {
        let mut expected = data[page * PAGE..data.len().min((page + 1) * PAGE)].to_vec();
        expected.resize(PAGE, 0);
        assert!(
            touch(&mut b, object, page as u64).unwrap() == expected,
            "{page}"
        );
    }
    // What is written here is seen, also in what is appended.
    assert_eq!(result(&mut b, file, &[fs::WRITE, 4], b"here"), 4);
    assert_eq!(touch(&mut b, object, 0).unwrap()[4..8], *b"here");
    assert_eq!(result(&mut b, file, &[fs::TRUNCATE, 6], b""), 0);
    assert_eq!(touch(&mut b, object, 0).unwrap()[4..9], *b"he\0\0\0");
    // A file that grows has its new pages, too.
    let far = [fs::WRITE, 3 * PAGE as u64];
    assert_eq!(result(&mut b, file, &far, b"more"), 4);
    assert_eq!(touch(&mut b, object, 3).unwrap()[..5], *b"more\0");
    // What the host writes, when it is mapped the next time.
    host.0.borrow_mut().inodes[inode].data = b"other bytes".to_vec();
    assert_eq!(map(&mut b, file), object);
    assert_eq!(touch(&mut b, object, 0).unwrap()[..12], *b"other bytes\0");
    // A program that runs is not written to.
    let vm = b.server.maps().medium().vm.clone();
    vm.borrow_mut().object(object).executed = true;
    assert_eq!(open(&mut b, b"f", o::WRONLY, 0), Err(-ETXTBSY));
    assert_eq!(result(&mut b, 0, &[fs::TRUNCATE, 0], b"f"), -ETXTBSY);
    vm.borrow_mut().object(object).executed = false;
    // Closed and removed it stays, until nobody has it mapped.
    b.close(file);
    assert_eq!(result(&mut b, 0, &[fs::UNLINK, 0], b"f"), 0);
    assert_eq!(touch(&mut b, object, 0).unwrap()[..5], *b"other");
    let tag = vm.borrow_mut().object(object).tag;
    let asked = b.server.maps().medium().asked.clone();
    asked.borrow_mut().push_back(Request::Unused { tag });
    b.pulse(pulse::NOTIFY, 0, PAGES);
    for _ in 0..3 {
        b.pulse(pulse::INTERRUPT, 0, INTERRUPT);
    }
    assert!(vm.borrow().objects.is_empty());
    assert_eq!((host.0.borrow().files(), b.server.nodes().len()), (1, 1));
    // Of an object of a predecessor's, and of a file that cannot be read.
    asked.borrow_mut().push_back(Request::Pages {
        tag: 5,
        first: 7,
        pages: 1,
    });
    b.pulse(pulse::NOTIFY, 0, PAGES);
    assert_eq!(vm.borrow().refused, [7]);
    host.0.borrow_mut().make(0, b"g", s::IFREG | 0o644, b"data");
    let file = open(&mut b, b"g", o::RDONLY, 0).unwrap();
    let object = map(&mut b, file);
    host.0.borrow_mut().damage = Some(Box::new(|answer| answer[4] = 99));
    assert_eq!(touch(&mut b, object, 0), None);
}

#[test]
fn what_was_appended_is_not_appended_again() {
    let memory = (0..1 << 16).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: &'static [AtomicU64] = memory.leak();
    let host = Host::new();
    let (mut b, _) = life(&host, memory);
    let flags = o::WRONLY | o::CREAT | o::APPEND;
    let file = open(&mut b, b"log", flags, 0o644).unwrap();
    let write = |again: u64| [fs::WRITE | again, fs::POSITION];
    let again = fs::AGAIN | 1 << fs::AGAIN_SHIFT;
    let data = |host: &Host| host.0.borrow().inodes[1].data.clone();
    b.fake.next_caller(77 | 1 << 32);
    let token = b.send(file, &write(0), b"one\n", 0);
    assert_eq!(answered(&mut b, token).result(), 4);
    // The host has done it, and the server died before it could say so.
    let (mut b, _) = life(&host, memory);
    b.fake.next_caller(77 | 2 << 32);
    let token = b.send(file, &write(again), b"one\n", 0);
    assert_eq!(answered(&mut b, token).result(), 4);
    assert_eq!(data(&host), b"one\n");
    // It had not done it.
    b.fake.next_caller(77 | 3 << 32);
    host.0.borrow_mut().held = vec![kind::WRITE];
    b.send(file, &write(0), b"two\n", 0);
    host.0.borrow_mut().held.clear();
    let (mut b, _) = life(&host, memory);
    b.fake.next_caller(77 | 4 << 32);
    let token = b.send(file, &write(fs::AGAIN | 3 << fs::AGAIN_SHIFT), b"two\n", 0);
    assert_eq!(answered(&mut b, token).result(), 4);
    assert_eq!(data(&host), b"one\ntwo\n");
}
