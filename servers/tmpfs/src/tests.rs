//! The file system as its clients see it, through the framework's bench.

mod accounts;
mod addresses;
mod again;
mod in_words;
mod kept;
mod leases;
mod marks;
mod private;
mod roots;
mod seals;

use crate::inode::Time;
use crate::pool::PAGE;
use crate::{Memory, Pool, Tmpfs};
use cairn_abi::Error;
use cairn_idl::capability;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, at, o, s, POSITION};
use cairn_idl::label;
use cairn_idl::mounts::mount;
use cairn_resmgr::fake::{Answer, Bench};
use cairn_resmgr::objects::NAMES;
use cairn_rt::Portal;

/// `vm` for tests: counts, and poisons what it is given back.
#[derive(Default)]
struct FakeMemory {
    populated: usize,
    /// Pages of each call that told what objects have.
    told: Vec<usize>,
    /// Tags of objects.
    tags: Vec<u64>,
    /// Pages of each call that gave some back.
    released: Vec<usize>,
    exhausted: bool,
    objects: Vec<(Vec<u64>, bool)>,
    /// Changes are refused: a program runs.
    busy: bool,
    mapped: Option<Portal>,
    /// Parts that are to be asked for before something is hidden from all who map it.
    parts: u32,
}

impl Memory for FakeMemory {
    fn populate(&mut self, pages: &mut [u8]) -> bool {
        if !self.exhausted {
            pages.fill(0);
            self.populated += pages.len() / PAGE;
        }
        !self.exhausted
    }

    fn release(&mut self, pages: &mut [u8]) {
        pages.fill(0xdd);
        self.populated -= pages.len() / PAGE;
        self.released.push(pages.len() / PAGE);
    }

    fn object(&mut self, addresses: &[u8], shared: bool, tag: u64) -> Result<Portal, Error> {
        self.tags.push(tag);
        let addresses: Vec<u64> = addresses
            .chunks(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        self.told.push(addresses.len());
        self.objects.push((addresses, shared));
        Ok(Portal(500 + self.objects.len() as u32))
    }

    fn is_mapped(&mut self, object: Portal) -> bool {
        self.mapped == Some(object)
    }

    fn hide(&mut self, object: Portal, first: u64, count: u64, pages: u64) -> bool {
        // Another part of its mappings.
        if self.parts > 0 {
            self.parts -= 1;
            return false;
        }
        self.change(object, first, &vec![0; count as usize * 8], pages);
        true
    }

    fn change(&mut self, object: Portal, first: u64, addresses: &[u8], pages: u64) -> bool {
        let (list, _) = &mut self.objects[object.0 as usize - 501];
        let end = first + addresses.len() as u64 / 8;
        assert!(end <= pages);
        self.told.push(addresses.len() / 8);
        // `vm` has a limit, too.
        if self.busy || end > 1 << 24 {
            return false;
        }
        // What lies behind is not there; a hostile length is no reason to keep a list of it.
        let length = (list.len() as u64).max(end).max(pages.min(1 << 20));
        list.resize(length.min(pages) as usize, 0);
        for (place, word) in list[first as usize..].iter_mut().zip(addresses.chunks(8)) {
            *place = u64::from_le_bytes(word.try_into().unwrap());
        }
        true
    }
}

type Fs = Bench<Tmpfs<FakeMemory>>;

const NOW: u64 = 1_700_000_000_000_000_000;

fn with_archive(archive: Vec<u8>, pages: usize, limit: usize) -> Fs {
    // Unpopulated memory shows when it is used.
    let arena = vec![0xee; pages * PAGE].leak();
    let pool = Pool::new(FakeMemory::default(), archive.leak(), arena, limit);
    let mut bench = Bench::new(Tmpfs::new(pool, Time::from_ns(NOW)), b"");
    bench.fake.time = NOW;
    bench
}

fn fs_() -> Fs {
    with_archive(Vec::new(), 4096, 4096)
}

fn create(b: &mut Fs, path: &[u8]) -> u64 {
    b.open(path, o::CREAT | o::RDWR, 0o644).unwrap()
}

fn write_at(b: &mut Fs, badge: u64, at: u64, bytes: &[u8]) -> i64 {
    b.result(badge, &[fs::WRITE, at], bytes)
}

fn read_at(b: &mut Fs, badge: u64, at: u64, length: usize) -> Vec<u8> {
    let answer = b.call(badge, &[fs::READ, at], b"", length).unwrap();
    assert!(answer.result() >= 0, "{}", answer.result());
    answer.bytes().to_vec()
}

/// The answer of a request that goes on whenever others have been served.
fn call_in_pieces(b: &mut Fs, badge: u64, words: &[u64]) -> Answer {
    let token = b.send(badge, words, b"", 0);
    loop {
        match b.answer(token) {
            Some(answer) => return answer,
            None => b.time_out(),
        }
    }
}

/// fallocate as programs do it: in how many requests.
fn allocate(b: &mut Fs, badge: u64, (mode, mut at, mut left): (u64, u64, u64)) -> u32 {
    for asked in 1.. {
        let answer = b.call(badge, &[fs::ALLOCATE, mode, at, left], b"", 0);
        let [result, done, ..] = answer.unwrap().words;
        assert!(result == 0 && done > 0 && done <= left, "{result} {done}");
        (at, left) = (at + done, left - done);
        if left == 0 {
            return asked;
        }
    }
    0
}

fn put(b: &mut Fs, path: &[u8], bytes: &[u8]) {
    let f = create(b, path);
    assert_eq!(write_at(b, f, POSITION, bytes), bytes.len() as i64);
    b.close(f);
}

fn get(b: &mut Fs, path: &[u8]) -> Result<Vec<u8>, i64> {
    let f = b.open(path, o::RDONLY, 0)?;
    let bytes = read_at(b, f, 0, 1 << 20);
    b.close(f);
    Ok(bytes)
}

struct Stat(Vec<u8>);

impl Stat {
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }
    fn ino(&self) -> u64 {
        self.word(8)
    }
    fn nlink(&self) -> u64 {
        self.word(16)
    }
    fn mode(&self) -> u32 {
        self.word(24) as u32
    }
    fn gid(&self) -> u32 {
        self.word(32) as u32
    }
    fn size(&self) -> u64 {
        self.word(48)
    }
    fn blocks(&self) -> u64 {
        self.word(64)
    }
    fn atime(&self) -> u64 {
        self.word(72)
    }
    fn mtime(&self) -> u64 {
        self.word(88)
    }
}

fn stat(b: &mut Fs, path: &[u8]) -> Result<Stat, i64> {
    let answer = b
        .call(0, &[fs::STAT, at::SYMLINK_NOFOLLOW], path, 4096)
        .unwrap();
    match answer.result() {
        0 => Ok(Stat(answer.data)),
        number => Err(number),
    }
}

fn names(b: &mut Fs, badge: u64, room: usize) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let answer = b.call(badge, &[fs::READDIR], b"", room).unwrap();
        assert!(answer.result() >= 0);
        if answer.result() == 0 {
            return all;
        }
        let bytes = answer.bytes();
        let mut at = 0;
        while at < bytes.len() {
            let length = u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]) as usize;
            let name = &bytes[at + 19..at + length];
            let end = name.iter().position(|&byte| byte == 0).unwrap();
            all.push(String::from_utf8(name[..end].to_vec()).unwrap());
            at += length;
        }
    }
}

fn list(b: &mut Fs, path: &[u8]) -> Vec<String> {
    let dir = b.open(path, o::DIRECTORY, 0).unwrap();
    let all = names(b, dir, 4096);
    b.close(dir);
    all
}

fn two(first: &[u8], second: &[u8]) -> Vec<u8> {
    [first, b"\0", second].concat()
}

fn rename(b: &mut Fs, from: &[u8], to: &[u8], flags: u64) -> i64 {
    b.result(0, &[fs::RENAME, flags], &two(from, to))
}

fn mkdir(b: &mut Fs, path: &[u8]) -> i64 {
    b.result(0, &[fs::MKDIR, 0o755], path)
}

fn symlink(b: &mut Fs, target: &[u8], path: &[u8]) -> i64 {
    b.result(0, &[fs::SYMLINK], &two(target, path))
}

fn unlink(b: &mut Fs, path: &[u8]) -> i64 {
    b.result(0, &[fs::UNLINK], path)
}

fn rmdir(b: &mut Fs, path: &[u8]) -> i64 {
    b.result(0, &[fs::UNLINK, at::REMOVEDIR], path)
}

fn redirect(answer: &Answer) -> &[u8] {
    assert_eq!(answer.result(), -REDIRECT);
    &answer.data[..answer.words[1] as usize]
}

/// LOCK's words: set (1) or set and wait (2), write lock, the first byte, by a process.
fn write_lock(what: u64, claimed: u64) -> [u64; 6] {
    [fs::LOCK, what, 1, 0, 1, claimed]
}

#[test]
fn a_record_lock_is_the_senders_whatever_pid_it_tells() {
    let mut b = fs_();
    let file = b.open(b"f", o::CREAT | o::RDWR, 0o666).unwrap();
    b.sender = 1;
    assert_eq!(b.result(file, &write_lock(1, 111), b""), 0);
    // Somebody else says that it is process 111, and that it unlocks.
    b.sender = 2;
    assert_eq!(b.result(file, &write_lock(1, 111), b""), -EAGAIN);
    assert_eq!(b.result(file, &[fs::LOCK, 1, 2, 0, 0, 111], b""), 0);
    assert_eq!(b.result(file, &write_lock(1, 111), b""), -EAGAIN);
    let held = b.call(file, &[fs::LOCK, 0, 1, 0, 1, 222], b"", 0).unwrap();
    assert_eq!(held.words[1..5], [1, 0, 1, 1001], "the holder's own number");
    // One that is no process, or is not any more, gets none: nobody would tell of its end.
    b.sender = 3;
    b.fake.strangers.push(3);
    let other = [fs::LOCK, 1, 1, 10, 1, 333];
    assert_eq!(b.result(file, &other, b""), -ENOLCK);
}

#[test]
fn the_locks_of_a_process_that_ended_go_although_its_child_has_the_file() {
    let mut b = fs_();
    let file = b.open(b"f", o::CREAT | o::RDWR, 0o666).unwrap();
    b.sender = 7;
    assert_eq!(b.result(file, &write_lock(1, 1), b""), 0);
    assert_eq!(b.result(file, &[fs::LOCK, 1, 1, 20, 1, 1], b""), 0);
    let [(7, badge)] = b.fake.attended[..] else {
        panic!("told once of its end: {:?}", b.fake.attended)
    };
    b.sender = 8;
    let waits = b.send(file, &write_lock(2, 1), b"", 0);
    assert!(b.answer(waits).is_none());
    // The handle stays open; `proc` lets go of the portal.
    b.close(badge);
    assert_eq!(b.answer(waits).map(|answer| answer.words[0]), Some(0));
    assert_eq!(b.result(file, &[fs::LOCK, 1, 1, 20, 1, 1], b""), 0);
}

#[test]
fn access_is_asked_for_the_callers_real_ids_and_for_no_other() {
    let mut b = fs_();
    b.label = 0;
    b.open(b"secret", o::CREAT | o::RDWR, 0o600).unwrap();
    b.label = label::make(1000, 1000);
    b.sender = 5;
    b.fake.real.insert(5, label::make(1000, 1000));
    let ask = |claimed: u64, flags: u64| [fs::ACCESS, 4, flags, claimed];
    assert_eq!(b.result(0, &ask(b.label, 0), b"secret"), -EACCES);
    assert_eq!(b.result(0, &ask(0, 0), b"secret"), -EACCES, "it says root");
    assert_eq!(b.result(0, &ask(0, at::EACCESS), b"secret"), -EACCES);
    // A set-user-id program of root's asks for its caller.
    b.label = 0;
    assert_eq!(b.result(0, &ask(0, at::EACCESS), b"secret"), 0);
    assert_eq!(b.result(0, &ask(1, 0), b"secret"), -EACCES);
    b.fake.real.remove(&5);
    assert_eq!(b.result(0, &ask(1, 0), b"secret"), -EACCES);
}

#[test]
fn whose_ids_a_file_gives_is_told_by_its_manager() {
    let mut b = fs_();
    b.label = 0;
    let mut made = |name: &[u8], mode: u64| {
        b.open(name, o::CREAT | o::RDWR, 0o755).unwrap();
        assert_eq!(b.result(0, &[fs::CHMOD, mode], name), 0);
        b.open(name, o::RDONLY, 0).unwrap()
    };
    let (su, plain, private) = (
        made(b"su", 0o4755),
        made(b"ls", 0o755),
        made(b"private", 0o4744),
    );
    let path = b.open(b"su", o::PATH, 0).unwrap();
    b.label = label::make(1000, 1000);
    b.sender = 5;
    let execute = [fs::EXECUTE];
    assert_eq!(b.result(plain, &execute, b""), 0);
    assert_eq!(b.result(private, &execute, b""), -EACCES);
    assert_eq!(b.result(path, &execute, b""), -EBADF);
    assert_eq!(b.fake.told_ids, []);
    assert_eq!(b.result(su, &execute, b""), 0);
    assert_eq!(b.fake.told_ids, [(5, [0o104755, 0, 0])]);
    // Not with nosuid.
    let remount = |bits| [fs::REMOUNT, bits];
    assert_eq!(b.result(0, &remount(mount::NO_SET_ID), b""), -EPERM);
    b.label = 0;
    assert_eq!(b.result(0, &remount(mount::NO_SET_ID), b""), 0);
    b.label = label::make(1000, 1000);
    assert_eq!(b.result(su, &execute, b""), 0);
    assert_eq!(b.fake.told_ids.len(), 1);
    b.label = 0;
    assert_eq!(b.result(0, &remount(0), b""), 0);
    assert_eq!(b.result(su, &execute, b""), 0);
    assert_eq!(b.fake.told_ids.len(), 2);
}

/// XATTR of `f`: get, set, list or remove.
fn attribute(b: &mut Fs, what: u64, name: &[u8], value: &[u8]) -> (i64, Vec<u8>) {
    let out = [&b"f\0"[..], name, b"\0", value].concat();
    let answer = b.call(0, &[fs::XATTR, what, 0], &out, 70_000).unwrap();
    let length = answer.result().max(0) as usize;
    (answer.result(), answer.data[..length].to_vec())
}

#[test]
fn attributes_are_kept_up_to_what_can_be_listed() {
    let mut b = with_archive(Vec::new(), 64, 64);
    b.label = 0;
    create(&mut b, b"f");
    let name = |n: usize| format!("user.{n:0>245}");
    let mut count = 0;
    while attribute(&mut b, 1, name(count).as_bytes(), b"value").0 == 0 {
        count += 1;
    }
    assert_eq!(count, 65_536 / 251);
    assert_eq!(attribute(&mut b, 1, b"user.x", &[7; 5000]).0, 0);
    assert_eq!(attribute(&mut b, 0, b"user.x", b""), (5000, vec![7; 5000]));
    assert_eq!(attribute(&mut b, 2, b"", b"").1.len(), 251 * count + 7);
    assert_eq!(attribute(&mut b, 3, name(0).as_bytes(), b"").0, 0);
    assert_eq!(attribute(&mut b, 0, name(0).as_bytes(), b"").0, -ENODATA);
    assert_eq!(attribute(&mut b, 1, name(count).as_bytes(), b"").0, 0);
}

/// Of a process in a group the group pays, and gets back what goes.
#[test]
fn who_is_in_a_group_has_it_pay_for_attributes() {
    let mut b = with_archive(Vec::new(), 64, 64);
    b.label = label::GROUPED;
    b.fake.account_of.insert(b.sender, 0xf000_0007);
    create(&mut b, b"f");
    let before = b.manager.usage(0xf000_0007).0;
    assert_eq!(attribute(&mut b, 1, b"trusted.x", &[7; 5000]).0, 0);
    assert!(b.manager.usage(0xf000_0007).0 >= before + 5000);
    assert_eq!(attribute(&mut b, 3, b"trusted.x", b"").0, 0);
    assert_eq!(b.manager.usage(0xf000_0007).0, before);
}

#[test]
fn a_file_with_capabilities_says_so_until_it_is_changed() {
    let mut b = with_archive(Vec::new(), 64, 64);
    b.label = 0;
    let f = create(&mut b, b"f");
    let name = capability::ATTRIBUTE;
    let value = [1, 0, 0, 2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(b.result(0, &[fs::CHMOD, 0o755], b"f"), 0);
    assert_eq!(attribute(&mut b, 1, name, &value[..19]).0, -EINVAL);
    assert_eq!(attribute(&mut b, 1, name, &value).0, 0);
    let raises = |b: &mut Fs| {
        let words = [fs::OPEN, o::RDONLY, 0];
        let answer = b.call(0, &words, b"f", fs::PATH_MAX).unwrap();
        let file = answer.minted[0];
        b.sender = 5;
        assert_eq!(b.result(file, &[fs::EXECUTE], b""), 0);
        answer.words[2] & fs::kind::RAISES != 0
    };
    assert!(raises(&mut b));
    let told = b.fake.told_capabilities.clone();
    assert_eq!(
        (told.len(), told[0].permitted, told[0].effective),
        (1, 32, true)
    );
    assert_eq!(write_at(&mut b, f, 0, b"x"), 1);
    assert_eq!(attribute(&mut b, 0, name, b"").0, -ENODATA);
    assert!(!raises(&mut b));
    assert_eq!(b.fake.told_capabilities.len(), 1);
}

#[test]
fn files_keep_what_is_written() {
    let mut b = fs_();
    let f = create(&mut b, b"/a");
    assert_eq!(write_at(&mut b, f, POSITION, b"hello "), 6);
    assert_eq!(write_at(&mut b, f, POSITION, b"world"), 5);
    assert_eq!(read_at(&mut b, f, 0, 100), b"hello world");
    assert_eq!(read_at(&mut b, f, POSITION, 100), b"");
    assert_eq!(b.result(f, &[fs::SEEK, (-5i64) as u64, 2], b""), 6);
    assert_eq!(read_at(&mut b, f, POSITION, 3), b"wor");
    assert_eq!(b.result(f, &[fs::SEEK, 0, 1], b""), 9);
    assert_eq!(b.result(f, &[fs::SEEK, (-1i64) as u64, 0], b""), -EINVAL);
    // Appending ignores the position.
    let a = b.open(b"a", o::WRONLY | o::APPEND, 0).unwrap();
    assert_eq!(write_at(&mut b, a, POSITION, b"!"), 1);
    assert_eq!(b.result(a, &[fs::READ, 0], b""), -EBADF);
    assert_eq!(read_at(&mut b, f, 0, 100), b"hello world!");
    assert_eq!(stat(&mut b, b"a").unwrap().size(), 12);
    assert_eq!(stat(&mut b, b"a").unwrap().blocks(), 8);
    // O_TRUNC
    let t = b.open(b"a", o::WRONLY | o::TRUNC, 0).unwrap();
    assert_eq!(read_at(&mut b, f, 0, 100), b"");
    for badge in [f, a, t] {
        b.close(badge);
    }
    assert_eq!(b.manager.open_files(), 0);
}

#[test]
fn open_flags() {
    let mut b = fs_();
    put(&mut b, b"f", b"x");
    assert_eq!(mkdir(&mut b, b"d"), 0);
    assert_eq!(symlink(&mut b, b"f", b"l"), 0);
    assert_eq!(symlink(&mut b, b"nowhere", b"dangling"), 0);
    let exclusive = o::CREAT | o::EXCL | o::WRONLY;
    assert_eq!(b.open(b"f", exclusive, 0o644), Err(-EEXIST));
    assert_eq!(b.open(b"dangling", exclusive, 0o644), Err(-EEXIST));
    assert_eq!(b.open(b"l", o::NOFOLLOW, 0), Err(-ELOOP));
    assert!(b.open(b"l", o::NOFOLLOW | o::PATH, 0).is_ok());
    assert_eq!(b.open(b"f", o::DIRECTORY, 0), Err(-ENOTDIR));
    assert_eq!(b.open(b"d", o::WRONLY, 0), Err(-EISDIR));
    assert_eq!(b.open(b"d", o::CREAT, 0o644), Err(-EISDIR));
    assert_eq!(b.open(b"f/", o::RDONLY, 0), Err(-ENOTDIR));
    assert_eq!(b.open(b"new/", o::CREAT | o::WRONLY, 0), Err(-EISDIR));
    assert_eq!(b.open(b"f/x", o::RDONLY, 0), Err(-ENOTDIR));
    assert_eq!(b.open(b"no/x", o::CREAT | o::WRONLY, 0), Err(-ENOENT));
    assert_eq!(b.open(&[b'a'; 256], o::CREAT, 0), Err(-ENAMETOOLONG));
    assert_eq!(b.open(&[b'a'; 4096], 0, 0), Err(-ENAMETOOLONG));
    assert_eq!(b.open(b"a\0b", 0, 0), Err(-EINVAL));
    // Through the link the target is made.
    assert!(b.open(b"dangling", o::CREAT | o::WRONLY, 0o600).is_ok());
    assert_eq!(stat(&mut b, b"nowhere").unwrap().mode(), s::IFREG | 0o600);
    let answer = b.call(0, &[fs::OPEN, 0], b"f", 4096).unwrap();
    assert_eq!(answer.words[1] as u32, s::IFREG | 0o644);
    assert_eq!(answer.words[2] & fs::kind::MAPPABLE, fs::kind::MAPPABLE);
    assert_eq!(answer.words[3], 1);
    // A path handle neither reads nor writes.
    let p = b.open(b"f", o::PATH, 0).unwrap();
    assert_eq!(b.result(p, &[fs::READ, 0], b""), -EBADF);
    assert_eq!(b.result(p, &[fs::WRITE, 0], b"x"), -EBADF);
    assert_eq!(b.call(p, &[fs::STAT], b"", 144).unwrap().result(), 0);
}

#[test]
fn walking() {
    let mut b = fs_();
    for path in [&b"a"[..], b"a/b", b"a/b/c"] {
        assert_eq!(mkdir(&mut b, path), 0);
    }
    put(&mut b, b"a/b/f", b"data");
    assert_eq!(symlink(&mut b, b"../b/./f", b"a/b/up"), 0);
    assert_eq!(symlink(&mut b, b"b", b"a/dir"), 0);
    assert_eq!(symlink(&mut b, b"/etc/x", b"a/abs"), 0);
    assert_eq!(symlink(&mut b, b"loop2", b"loop1"), 0);
    assert_eq!(symlink(&mut b, b"loop1", b"loop2"), 0);
    for path in [
        &b"a/b/f"[..],
        b"/a//b///f",
        b"a/./b/../b/f",
        b"../../a/b/f",
        b"a/b/up",
        b"a/dir/up",
        b"a/dir/../b/c/../f",
    ] {
        assert_eq!(get(&mut b, path), Ok(b"data".to_vec()), "{path:?}");
    }
    assert_eq!(get(&mut b, b"loop1"), Err(-ELOOP));
    let answer = b.call(0, &[fs::OPEN, 0], b"a/abs/more", 4096).unwrap();
    assert_eq!(redirect(&answer), b"/etc/x/more");
    assert_eq!(stat(&mut b, b"a/dir").unwrap().mode() & s::IFMT, s::IFLNK);
    assert_eq!(stat(&mut b, b"a/dir/").unwrap().mode() & s::IFMT, s::IFDIR);
    let link = b.call(0, &[fs::READLINK], b"a/b/up", 5).unwrap();
    assert_eq!(link.bytes(), b"../b/");
    assert_eq!(b.result(0, &[fs::READLINK], b"a/b/f"), -EINVAL);
    // From a directory handle.
    let dir = b.open(b"a/b", o::DIRECTORY, 0).unwrap();
    assert_eq!(
        b.call(dir, &[fs::STAT], b"../b/f", 4096).unwrap().result(),
        0
    );
    let path = b.call(dir, &[fs::GETPATH], b"", 4096).unwrap();
    assert_eq!(path.bytes(), b"/a/b");
    let path = b.call(0, &[fs::GETPATH], b"", 4096).unwrap();
    assert_eq!(path.bytes(), b"/");
    let f = b.open(b"a/b/f", 0, 0).unwrap();
    assert_eq!(
        b.call(f, &[fs::GETPATH], b"", 4096).unwrap().bytes(),
        b"/a/b/f"
    );
    assert_eq!(unlink(&mut b, b"a/b/f"), 0);
    assert_eq!(b.result(f, &[fs::GETPATH], b""), -ENOENT);
    // A long chain of links is refused, 40 are not.
    put(&mut b, b"n0", b"end");
    for number in 1..=41 {
        let target = format!("n{}", number - 1);
        assert_eq!(
            symlink(&mut b, target.as_bytes(), format!("n{number}").as_bytes()),
            0
        );
    }
    assert_eq!(get(&mut b, b"n40"), Ok(b"end".to_vec()));
    assert_eq!(get(&mut b, b"n41"), Err(-ELOOP));
}

#[test]
fn nodes_of_other_managers_redirect() {
    let mut b = fs_();
    // (What is handed over is numbered.)
    b.cold = false;
    let mknod = |mode: u32, rdev: u64| [fs::MKNOD, mode as u64, rdev];
    assert_eq!(b.result(0, &mknod(s::IFCHR | 0o666, 0x103), b"null"), 0);
    assert_eq!(b.result(0, &mknod(s::IFIFO | 0o666, 0), b"fifo"), 0);
    assert_eq!(b.result(0, &mknod(s::IFSOCK | 0o666, 0), b"sock"), 0);
    let answer = b.call(0, &[fs::OPEN, o::RDWR], b"null", 4096).unwrap();
    assert_eq!(redirect(&answer), b"dev:1:3");
    let ino = stat(&mut b, b"fifo").unwrap().ino();
    let answer = b.call(0, &[fs::OPEN, 0], b"fifo", 4096).unwrap();
    assert_eq!(redirect(&answer), format!("fifo:{ino}").as_bytes());
    // It comes itself; its name leads nowhere. Who is not let through to the node does not get it, nor who asks without room for the name.
    assert_eq!((answer.words[7], &answer.passed[..]), (8001, &[8001][..]));
    assert_eq!(b.fake.fifos, [(ino, s::IFIFO | 0o666, 0)]);
    let answer = b.call(0, &[fs::OPEN, 0], b"fifo", 0).unwrap();
    assert_eq!((answer.result(), answer.passed.len()), (-REDIRECT, 0));
    assert_eq!(b.result(0, &[fs::CHMOD, 0o644], b"fifo"), 0);
    b.label = label::make(5, 5);
    assert_eq!(b.open(b"fifo", o::WRONLY, 0), Err(-EACCES));
    assert_eq!(b.open(b"fifo", o::RDONLY, 0), Err(-REDIRECT));
    b.label = 0;
    assert_eq!(
        b.fake.fifos[1..],
        [(ino, s::IFIFO | 0o644, label::make(5, 5))]
    );
    assert_eq!(b.open(b"sock", o::RDWR, 0), Err(-ENXIO));
    assert!(b.open(b"null", o::PATH, 0).is_ok());
    assert_eq!(mkdir(&mut b, b"mnt"), 0);
    assert_eq!(mkdir(&mut b, b"mnt/below"), 0);
    assert_eq!(b.result(0, &[fs::MOUNT_POINT, 1], b"mnt/below"), 0);
    let answer = b
        .call(0, &[fs::STAT], b"mnt/../mnt/below/x/", 4096)
        .unwrap();
    assert_eq!(redirect(&answer), b"/mnt/below/x/");
    assert_eq!(rmdir(&mut b, b"mnt/below"), -EBUSY);
    assert_eq!(rename(&mut b, b"mnt/below", b"x", 0), -EBUSY);
    // The second path of two.
    let words = [fs::RENAME, 0];
    put(&mut b, b"f", b"");
    let answer = b.call(0, &words, &two(b"f", b"mnt/below/g"), 4096).unwrap();
    assert_eq!(redirect(&answer), b"/mnt/below/g");
    assert_eq!(answer.words[2], 1);
    assert_eq!(b.result(0, &[fs::MOUNT_POINT, 0], b"mnt/below"), 0);
    assert!(stat(&mut b, b"mnt/below").is_ok());
    b.label = label::make(5, 5);
    assert_eq!(b.result(0, &[fs::MOUNT_POINT, 1], b"mnt"), -EPERM);
    assert_eq!(b.result(0, &[fs::UNMOUNT], b""), -EPERM);
    assert_eq!(b.result(0, &mknod(s::IFCHR, 1), b"c"), -EPERM);
}

#[test]
fn links_and_removal() {
    let mut b = fs_();
    put(&mut b, b"f", b"content");
    assert_eq!(b.result(0, &[fs::LINK], &two(b"f", b"g")), 0);
    assert_eq!(stat(&mut b, b"f").unwrap().nlink(), 2);
    assert_eq!(b.result(0, &[fs::LINK], &two(b"f", b"g")), -EEXIST);
    let open = b.open(b"f", o::RDWR, 0).unwrap();
    assert_eq!(unlink(&mut b, b"f"), 0);
    assert_eq!(unlink(&mut b, b"f"), -ENOENT);
    assert_eq!(get(&mut b, b"g"), Ok(b"content".to_vec()));
    assert_eq!(unlink(&mut b, b"g"), 0);
    // Still there for who has it open.
    assert_eq!(write_at(&mut b, open, 7, b" kept"), 5);
    assert_eq!(read_at(&mut b, open, 0, 100), b"content kept");
    assert_eq!(b.server.pool.usage().0, 1);
    b.close(open);
    assert_eq!(b.server.pool.usage().0, 0);
    assert_eq!(b.server.inodes.count(), 1);
    assert_eq!(mkdir(&mut b, b"d"), 0);
    assert_eq!(mkdir(&mut b, b"d/e"), 0);
    assert_eq!(stat(&mut b, b"d").unwrap().nlink(), 3);
    assert_eq!(stat(&mut b, b"d").unwrap().size(), 60);
    assert_eq!(b.result(0, &[fs::LINK], &two(b"d", b"h")), -EPERM);
    assert_eq!(rmdir(&mut b, b"d"), -ENOTEMPTY);
    assert_eq!(unlink(&mut b, b"d"), -EISDIR);
    assert_eq!(rmdir(&mut b, b"d/e/."), -EINVAL);
    assert_eq!(rmdir(&mut b, b"d/e/.."), -ENOTEMPTY);
    assert_eq!(rmdir(&mut b, b"/"), -EBUSY);
    let e = b.open(b"d/e", o::DIRECTORY, 0).unwrap();
    assert_eq!(rmdir(&mut b, b"d/e/"), 0);
    // A removed directory takes nothing and shows nothing.
    assert_eq!(b.result(e, &[fs::MKDIR, 0o755], b"x"), -ENOENT);
    let listed = b.call(e, &[fs::READDIR], b"", 1000).unwrap();
    assert_eq!(listed.result(), -ENOENT);
    assert_eq!(b.call(e, &[fs::STAT], b"..", 4096).unwrap().result(), 0);
    assert_eq!(rmdir(&mut b, b"d"), 0);
    assert_eq!(b.result(e, &[fs::STAT], b".."), -ENOENT);
    b.close(e);
    assert_eq!(stat(&mut b, b"/").unwrap().nlink(), 2);
    assert_eq!(b.server.inodes.count(), 1);
    // Another's file gets a name only by who may read and write it; programs with their owner's rights do not.
    assert_eq!(mkdir(&mut b, b"all"), 0);
    assert_eq!(b.result(0, &[fs::CHMOD, 0o777], b"all"), 0);
    put(&mut b, b"own", b"o");
    for (mode, expected) in [
        (0o600, -EPERM),
        (0o644, -EPERM),
        (0o666, 0),
        (0o4666, -EPERM),
        (0o2676, -EPERM),
        (0o2666, 0),
    ] {
        assert_eq!(b.result(0, &[fs::CHMOD, mode], b"own"), 0);
        b.label = label::make(5, 5);
        let linked = b.result(0, &[fs::LINK], &two(b"own", b"all/n"));
        assert_eq!(linked, expected, "{mode:o}");
        // What is there is there, whatever is behind its name.
        if linked == 0 {
            assert_eq!(mkdir(&mut b, b"all/n/"), -EEXIST);
            assert_eq!(symlink(&mut b, b"x", b"all/n/"), -EEXIST);
            assert_eq!(b.open(b"all/n/", o::CREAT, 0o600), Err(-EISDIR));
            assert_eq!(b.open(b"all/n/", 0, 0), Err(-ENOTDIR));
            // Nobody else's file is renamed, onto whatever.
            assert_eq!(rename(&mut b, b"own", b"all", 0), -EACCES);
        }
        b.label = label::make(0, 0);
        if linked == 0 {
            assert_eq!(unlink(&mut b, b"all/n"), 0);
        }
    }
    assert_eq!(unlink(&mut b, b"own"), 0);
    assert_eq!(rmdir(&mut b, b"all"), 0);
    // O_TMPFILE and giving it a name.
    let t = b.open(b"/", o::TMPFILE | o::RDWR, 0o600).unwrap();
    assert_eq!(write_at(&mut b, t, 0, b"t"), 1);
    b.close(t);
    assert_eq!(b.server.inodes.count(), 1);
}

#[test]
fn renaming() {
    let mut b = fs_();
    put(&mut b, b"a", b"A");
    put(&mut b, b"b", b"B");
    for dir in [&b"d"[..], b"d/e", b"empty"] {
        assert_eq!(mkdir(&mut b, dir), 0);
    }
    assert_eq!(rename(&mut b, b"a", b"b", 1), -EEXIST);
    assert_eq!(rename(&mut b, b"a", b"b", 0), 0);
    assert_eq!(get(&mut b, b"b"), Ok(b"A".to_vec()));
    assert_eq!(get(&mut b, b"a"), Err(-ENOENT));
    assert_eq!(rename(&mut b, b"a", b"x", 0), -ENOENT);
    assert_eq!(rename(&mut b, b"b", b"d", 0), -EISDIR);
    assert_eq!(rename(&mut b, b"d", b"b", 0), -ENOTDIR);
    assert_eq!(rename(&mut b, b"d", b"d/e/f", 0), -EINVAL);
    assert_eq!(rename(&mut b, b"d/e", b"d", 0), -ENOTEMPTY);
    assert_eq!(rename(&mut b, b"empty", b"d", 0), -ENOTEMPTY);
    assert_eq!(rename(&mut b, b"d", b"empty", 0), 0);
    assert_eq!(list(&mut b, b"empty"), [".", "..", "e"]);
    assert_eq!(stat(&mut b, b"/").unwrap().nlink(), 3);
    assert_eq!(rename(&mut b, b"empty/e", b"e/", 0), 0);
    assert_eq!(stat(&mut b, b"/").unwrap().nlink(), 4);
    assert_eq!(stat(&mut b, b"empty").unwrap().nlink(), 2);
    let e = b.open(b"e", 0, 0).unwrap();
    assert_eq!(b.call(e, &[fs::GETPATH], b"", 99).unwrap().bytes(), b"/e");
    assert_eq!(rename(&mut b, b"b", b"c/", 0), -ENOTDIR);
    assert_eq!(rename(&mut b, b"b", b".", 0), -EBUSY);
    // Two names of one file: nothing happens.
    assert_eq!(b.result(0, &[fs::LINK], &two(b"b", b"b2")), 0);
    assert_eq!(rename(&mut b, b"b", b"b2", 0), 0);
    assert!(stat(&mut b, b"b").is_ok());
    // Exchange, also of different kinds.
    put(&mut b, b"e/in", b"I");
    assert_eq!(rename(&mut b, b"e", b"b", 2), 0);
    assert_eq!(get(&mut b, b"e"), Ok(b"A".to_vec()));
    assert_eq!(get(&mut b, b"b/in"), Ok(b"I".to_vec()));
    assert_eq!(rename(&mut b, b"b", b"none", 2), -ENOENT);
    assert_eq!(rename(&mut b, b"b", b"none", 3), -EINVAL);
    assert_eq!(rename(&mut b, b"b", b"none", 8), -EINVAL);
    // The new path from another handle.
    let to = b.open(b"empty", 0, 0).unwrap();
    b.fake.own.insert(33, to);
    let words = [fs::RENAME, 0, 0, 0, 0, 0, 0, 33];
    assert_eq!(b.result(0, &words, &two(b"e", b"moved")), 0);
    assert_eq!(get(&mut b, b"empty/moved"), Ok(b"A".to_vec()));
    let words = [fs::RENAME, 0, 0, 0, 0, 0, 0, 44];
    assert_eq!(b.result(0, &words, &two(b"b2", b"moved")), -EXDEV);
    // A first path that leaves this manager says so first.
    assert_eq!(symlink(&mut b, b"/elsewhere", b"away"), 0);
    assert_eq!(b.result(0, &words, &two(b"away/x", b"moved")), -REDIRECT);
    assert_eq!(b.fake.closed, [Portal(33), Portal(44), Portal(44)]);
    // A replaced open file lives on.
    put(&mut b, b"old", b"old");
    put(&mut b, b"new", b"new");
    let old = b.open(b"old", 0, 0).unwrap();
    assert_eq!(rename(&mut b, b"new", b"old", 0), 0);
    assert_eq!(read_at(&mut b, old, 0, 9), b"old");
    assert_eq!(get(&mut b, b"old"), Ok(b"new".to_vec()));
}

#[test]
fn directories_list_the_newest_first() {
    let mut b = fs_();
    for name in [&b"one"[..], b"two", b"three"] {
        put(&mut b, name, b"");
    }
    assert_eq!(list(&mut b, b"/"), [".", "..", "three", "two", "one"]);
    assert_eq!(rename(&mut b, b"one", b"uno", 0), 0);
    assert_eq!(list(&mut b, b"/"), [".", "..", "uno", "three", "two"]);
    let dir = b.open(b"/", 0, 0).unwrap();
    assert_eq!(b.result(dir, &[fs::READ, 0], b""), -EISDIR);
    assert_eq!(
        b.call(dir, &[fs::READDIR], b"", 20).unwrap().result(),
        -EINVAL
    );
    // One by one, with removal of what was seen.
    let mut seen = Vec::new();
    loop {
        let answer = b.call(dir, &[fs::READDIR], b"", 32).unwrap();
        if answer.result() == 0 {
            break;
        }
        let end = answer.bytes()[19..].iter().position(|&c| c == 0).unwrap();
        let name = answer.bytes()[19..19 + end].to_vec();
        if name[0] != b'.' {
            assert_eq!(unlink(&mut b, &name), 0);
        }
        seen.push(String::from_utf8(name).unwrap());
    }
    assert_eq!(seen, [".", "..", "uno", "three", "two"]);
    assert_eq!(b.result(dir, &[fs::SEEK, 0, 0], b""), 0);
    assert_eq!(names(&mut b, dir, 1000), [".", ".."]);
}

#[test]
fn a_hundred_thousand_entries() {
    let mut b = fs_();
    assert_eq!(mkdir(&mut b, b"big"), 0);
    let dir = b.open(b"big", 0, 0).unwrap();
    let words = [fs::MKNOD, (s::IFREG | 0o644) as u64];
    for number in 0..100_000 {
        assert_eq!(
            b.result(dir, &words, format!("file-{number}").as_bytes()),
            0
        );
    }
    assert_eq!(stat(&mut b, b"big").unwrap().size(), 40 + 20 * 100_000);
    let all = names(&mut b, dir, 32768);
    assert_eq!(all.len(), 100_002);
    assert_eq!(all[2], "file-99999");
    for number in (0..100_000).rev() {
        assert_eq!(
            b.result(dir, &[fs::UNLINK], format!("file-{number}").as_bytes()),
            0
        );
    }
    assert_eq!(rmdir(&mut b, b"big"), 0);
}

#[test]
fn sparse_files() {
    let mut b = fs_();
    let f = create(&mut b, b"s");
    let gib = 1u64 << 30;
    assert_eq!(write_at(&mut b, f, gib - 1, b"x"), 1);
    assert_eq!(write_at(&mut b, f, 500 << 20, b"middle"), 6);
    let status = stat(&mut b, b"s").unwrap();
    assert_eq!((status.size(), status.blocks()), (gib, 16));
    assert_eq!(read_at(&mut b, f, gib - 3, 10), b"\0\0x");
    let data = read_at(&mut b, f, (500 << 20) - 10_000, 20_000);
    assert_eq!(&data[10_000..10_006], b"middle");
    assert!(data[..10_000]
        .iter()
        .chain(&data[10_006..])
        .all(|&x| x == 0));
    let seek = |b: &mut Fs, at: u64, whence: u64| b.result(f, &[fs::SEEK, at, whence], b"");
    assert_eq!(seek(&mut b, 0, 3), 500 << 20);
    assert_eq!(seek(&mut b, 0, 4), 0);
    assert_eq!(seek(&mut b, (500 << 20) + 5, 3), (500 << 20) + 5);
    assert_eq!(seek(&mut b, 500 << 20, 4), (500 << 20) + 4096);
    assert_eq!(seek(&mut b, 501 << 20, 3), (gib - 4096) as i64);
    assert_eq!(seek(&mut b, gib - 1, 4), gib as i64);
    assert_eq!(seek(&mut b, gib, 3), -ENXIO);
    // Punching takes pages and zeroes parts of pages.
    assert_eq!(write_at(&mut b, f, 0, &[7; 3 * PAGE]), 3 * PAGE as i64);
    let punch = [fs::ALLOCATE, 3, 100, 2 * PAGE as u64];
    assert_eq!(b.result(f, &punch, b""), 0);
    let data = read_at(&mut b, f, 0, 3 * PAGE);
    assert!(data[..100].iter().all(|&x| x == 7));
    assert!(data[100..100 + 2 * PAGE].iter().all(|&x| x == 0));
    assert!(data[100 + 2 * PAGE..].iter().all(|&x| x == 7));
    assert_eq!(stat(&mut b, b"s").unwrap().blocks(), 32);
    // Cutting and growing again shows zeroes.
    assert_eq!(b.result(f, &[fs::TRUNCATE, 50], b""), 0);
    assert_eq!(b.result(f, &[fs::TRUNCATE, 10_000], b""), 0);
    let data = read_at(&mut b, f, 0, 20_000);
    assert_eq!(data.len(), 10_000);
    assert!(data[..50].iter().all(|&x| x == 7) && data[50..].iter().all(|&x| x == 0));
    assert_eq!(b.result(f, &[fs::ALLOCATE, 0, 0, 40_000], b""), 0);
    let status = stat(&mut b, b"s").unwrap();
    assert_eq!((status.size(), status.blocks()), (40_000, 80));
    assert_eq!(b.result(f, &[fs::ALLOCATE, 0x10, 0, 1], b""), -EOPNOTSUPP);
    b.close(f);
    assert_eq!(unlink(&mut b, b"s"), 0);
    assert_eq!(b.server.pool.usage().0, 0);
}

#[test]
fn a_full_file_system_says_so() {
    let mut b = with_archive(Vec::new(), 64, 10);
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, &[1; 12 * PAGE]), 10 * PAGE as i64);
    assert_eq!(write_at(&mut b, f, POSITION, b"over"), 4, "over old data");
    assert_eq!(write_at(&mut b, f, 11 * PAGE as u64, b"x"), -ENOSPC);
    assert_eq!(
        b.result(f, &[fs::ALLOCATE, 0, 0, 11 * PAGE as u64], b""),
        -ENOSPC
    );
    assert_eq!(b.result(f, &[fs::TRUNCATE, 0], b""), 0);
    assert_eq!(write_at(&mut b, f, 0, &[2; PAGE]), PAGE as i64);
    // No memory of `vm`: what is warm is used, then it is full.
    let mut b = with_archive(Vec::new(), 256, 256);
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, &[1; PAGE]), PAGE as i64);
    b.server.pool.memory().exhausted = true;
    assert_eq!(write_at(&mut b, f, 0, &[1; 100 * PAGE]), 64 * PAGE as i64);
    assert_eq!(write_at(&mut b, f, 64 * PAGE as u64, b"x"), -ENOSPC);
}

#[test]
fn old_content_never_shows() {
    let mut b = with_archive(Vec::new(), 4096, 4096);
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, &[0x55; 64 * PAGE]), 64 * PAGE as i64);
    assert_eq!(b.result(f, &[fs::TRUNCATE, 0], b""), 0);
    let g = create(&mut b, b"g");
    for at in [10u64, 5000, 100_000, 16_384 - 5] {
        assert_eq!(write_at(&mut b, g, at, &[1; 10]), 10);
    }
    let data = read_at(&mut b, g, 0, 200_000);
    assert!(data.iter().all(|&x| x < 2));
    assert_eq!(data.iter().filter(|&&x| x == 1).count(), 40);
    // Given back and used again.
    let h = create(&mut b, b"h");
    let length = 3000 * PAGE;
    assert_eq!(write_at(&mut b, h, 0, &vec![9; length]), length as i64);
    assert_eq!(b.result(h, &[fs::TRUNCATE, 0], b""), 0);
    while b.background() {}
    assert!(b.server.pool.memory().populated < 1200 + 64);
    assert_eq!(allocate(&mut b, h, (0, 0, length as u64)), 12);
    assert!(read_at(&mut b, h, 0, length).iter().all(|&x| x == 0));
}

/// Others wait for no more than some pages of a reservation, or of a hole that is punched.
#[test]
fn long_reservations_are_done_in_pieces() {
    const P: u64 = PAGE as u64;
    let mut b = with_archive(Vec::new(), 4096, 4096);
    let f = create(&mut b, b"f");
    assert_eq!(allocate(&mut b, f, (0, 12, 1000 * P)), 4);
    let status = stat(&mut b, b"f").unwrap();
    assert_eq!((status.size(), status.blocks()), (1000 * P + 12, 1001 * 8));
    // What is there need not be made, and is looked over in pieces as well.
    assert_eq!(allocate(&mut b, f, (1, 0, 1001 * P)), 4);
    assert_eq!(allocate(&mut b, f, (1, 3000 * P, P)), 1);
    // Only pages count for a hole.
    assert_eq!(allocate(&mut b, f, (3, 1, 1 << 40)), 4);
    let status = stat(&mut b, b"f").unwrap();
    assert_eq!((status.size(), status.blocks()), (1000 * P + 12, 8));
    assert_eq!(allocate(&mut b, f, (3, 0, 1 << 40)), 1);
    assert_eq!(stat(&mut b, b"f").unwrap().blocks(), 0);
    // What does not fit as a whole is not begun.
    let much = [fs::ALLOCATE, 0, 0, 4097 * P];
    assert_eq!(b.result(f, &much, b""), -ENOSPC);
    assert_eq!(stat(&mut b, b"f").unwrap().blocks(), 0);
}

/// Random writes, cuts and holes agree with a plain vector.
#[test]
fn agrees_with_a_model() {
    let mut b = fs_();
    let f = create(&mut b, b"model");
    let mut model: Vec<u8> = Vec::new();
    let mut random = 7u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    for step in 0..3000u32 {
        let at = next(300_000) as usize;
        if next(3) == 0 {
            b.background();
        }
        match next(10) {
            0 => {
                assert_eq!(b.result(f, &[fs::TRUNCATE, at as u64], b""), 0);
                model.resize(at, 0);
            }
            1 => {
                let length = next(50_000) as usize + 1;
                let punch = [fs::ALLOCATE, 3, at as u64, length as u64];
                assert_eq!(b.result(f, &punch, b""), 0);
                let end = (at + length).min(model.len());
                if at < end {
                    model[at..end].fill(0);
                }
            }
            2..=5 => {
                let length = next(30_000) as usize;
                let bytes = vec![step as u8 | 1; length];
                assert_eq!(write_at(&mut b, f, at as u64, &bytes), length as i64);
                if length != 0 {
                    if model.len() < at + length {
                        model.resize(at + length, 0);
                    }
                    model[at..at + length].copy_from_slice(&bytes);
                }
            }
            _ => {
                let length = next(60_000) as usize;
                let end = (at + length).min(model.len());
                let wanted = if at < end { &model[at..end] } else { &[] };
                assert_eq!(read_at(&mut b, f, at as u64, length), wanted);
            }
        }
    }
    assert_eq!(read_at(&mut b, f, 0, 1 << 20), model);
    let pages = b.server.pool.usage().0;
    b.close(f);
    assert_eq!(unlink(&mut b, b"model"), 0);
    assert!(pages > 0 && b.server.pool.usage().0 == 0);
}

#[test]
fn permissions() {
    let mut b = fs_();
    put(&mut b, b"secret", b"s");
    assert_eq!(b.result(0, &[fs::CHMOD, 0o640], b"secret"), 0);
    assert_eq!(b.result(0, &[fs::CHOWN, 10, 20], b"secret"), 0);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o1777], b"tmp"), 0);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o700], b"closed"), 0);
    b.label = label::make(11, 21);
    assert_eq!(b.open(b"secret", 0, 0), Err(-EACCES));
    assert_eq!(b.open(b"closed/x", 0, 0), Err(-EACCES));
    assert_eq!(b.open(b"new", o::CREAT | o::WRONLY, 0o644), Err(-EACCES));
    b.fake.groups = vec![20];
    assert!(b.open(b"secret", 0, 0).is_ok());
    assert_eq!(b.open(b"secret", o::RDWR, 0), Err(-EACCES));
    assert_eq!(b.result(0, &[fs::CHMOD, 0o666], b"secret"), -EPERM);
    let access = |want: u64, label: u64| [fs::ACCESS, want, 0, label];
    assert_eq!(b.result(0, &access(4, b.label), b"secret"), 0);
    assert_eq!(b.result(0, &access(2, b.label), b"secret"), -EACCES);
    b.fake.real.insert(b.sender, 0);
    assert_eq!(b.result(0, &access(7, 0), b"tmp"), 0);
    assert_eq!(b.result(0, &access(1, 0), b"secret"), -EACCES);
    // The sticky directory.
    put(&mut b, b"tmp/mine", b"");
    b.label = label::make(12, 22);
    assert_eq!(unlink(&mut b, b"tmp/mine"), -EPERM);
    assert_eq!(rename(&mut b, b"tmp/mine", b"tmp/yours", 0), -EPERM);
    assert_eq!(b.result(0, &[fs::CHOWN, 12, 12], b"tmp/mine"), -EPERM);
    b.label = label::make(11, 21);
    assert_eq!(b.result(0, &[fs::CHOWN, 11, 20], b"tmp/mine"), 0);
    assert_eq!(b.result(0, &[fs::CHOWN, 11, 77], b"tmp/mine"), -EPERM);
    // Writing takes set-user-id away.
    assert_eq!(b.result(0, &[fs::CHMOD, 0o4755], b"tmp/mine"), 0);
    let f = b.open(b"tmp/mine", o::WRONLY, 0).unwrap();
    assert_eq!(stat(&mut b, b"tmp/mine").unwrap().mode() & 0o7777, 0o4755);
    assert_eq!(write_at(&mut b, f, 0, b"x"), 1);
    assert_eq!(stat(&mut b, b"tmp/mine").unwrap().mode() & 0o7777, 0o755);
    assert_eq!(unlink(&mut b, b"tmp/mine"), 0);
    // Set-group-id directories give their group on.
    b.label = 0;
    assert_eq!(b.result(0, &[fs::CHOWN, 0, 99], b"tmp"), 0);
    assert_eq!(b.result(0, &[fs::CHMOD, 0o3777], b"tmp"), 0);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"tmp/sub"), 0);
    let status = stat(&mut b, b"tmp/sub").unwrap();
    assert_eq!((status.gid(), status.mode()), (99, s::IFDIR | 0o2755));
}

#[test]
fn set_group_id_is_the_groups_own() {
    let mut b = fs_();
    let mode = |b: &mut Fs, path: &[u8]| stat(b, path).unwrap().mode() & 0o7777;
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    assert_eq!(b.result(0, &[fs::CHOWN, 0, 99], b"d"), 0);
    assert_eq!(b.result(0, &[fs::CHMOD, 0o2777], b"d"), 0);
    // At creation: no member makes a program that runs with the group.
    let ways = [(vec![], 0o755, 0o2644), (vec![99], 0o2755, 0o2644)];
    for (groups, runs, locks) in ways {
        b.label = label::make(11, 21);
        b.fake.groups = groups;
        for (path, given, kept) in [(&b"d/x"[..], 0o2755, runs), (b"d/l", 0o2644, locks)] {
            let f = b.open(path, o::CREAT | o::WRONLY, given).unwrap();
            assert_eq!(
                (mode(&mut b, path), stat(&mut b, path).unwrap().gid()),
                (kept, 99)
            );
            b.close(f);
            assert_eq!(unlink(&mut b, path), 0);
            assert_eq!(
                b.result(0, &[fs::MKNOD, u64::from(s::IFREG) | given, 0], path),
                0
            );
            assert_eq!(mode(&mut b, path), kept);
            assert_eq!(unlink(&mut b, path), 0);
        }
    }
    // A member keeps what means locking over a write, a chown and room that is reserved; nobody else does, and what runs is lost to both.
    let member = (vec![99], 0o2644);
    for (groups, locks) in [(vec![], 0o644), member] {
        for (given, kept) in [(0o2644, locks), (0o6755, 0o755), (0o4711, 0o711)] {
            for what in 0..3 {
                (b.label, b.fake.groups) = (0, vec![]);
                put(&mut b, b"d/f", b"f");
                assert_eq!(b.result(0, &[fs::CHOWN, 11, 99], b"d/f"), 0);
                assert_eq!(b.result(0, &[fs::CHMOD, given], b"d/f"), 0);
                (b.label, b.fake.groups) = (label::make(11, 21), groups.clone());
                let f = b.open(b"d/f", o::WRONLY, 0).unwrap();
                let done = match what {
                    0 => write_at(&mut b, f, 0, b"x"),
                    1 => b.result(0, &[fs::CHOWN, 11, u64::from(u32::MAX)], b"d/f"),
                    _ => b.result(f, &[fs::ALLOCATE, 0, 0, 9], b""),
                };
                assert!(done >= 0, "{done}");
                assert_eq!(
                    mode(&mut b, b"d/f"),
                    kept,
                    "{given:o} by {groups:?} with {what}"
                );
                b.close(f);
                assert_eq!(unlink(&mut b, b"d/f"), 0);
            }
        }
    }
}

#[test]
fn times() {
    let mut b = fs_();
    put(&mut b, b"f", b"x");
    let second = 1_000_000_000;
    let start = NOW / second;
    b.fake.time = NOW + 10 * second;
    assert_eq!(get(&mut b, b"f"), Ok(b"x".to_vec()));
    assert_eq!(stat(&mut b, b"f").unwrap().atime(), start + 10);
    b.fake.time = NOW + 20 * second;
    assert_eq!(get(&mut b, b"f"), Ok(b"x".to_vec()));
    assert_eq!(stat(&mut b, b"f").unwrap().atime(), start + 10, "relatime");
    b.fake.time = NOW + 100_000 * second;
    assert_eq!(get(&mut b, b"f"), Ok(b"x".to_vec()));
    assert_eq!(stat(&mut b, b"f").unwrap().atime(), start + 100_000);
    let (now, omit) = (0x3fff_ffff, 0x3fff_fffe);
    assert_eq!(b.result(0, &[fs::UTIMENS, 1, omit, 500, 7], b"f"), 0);
    let status = stat(&mut b, b"f").unwrap();
    assert_eq!((status.atime(), status.mtime()), (start + 100_000, 500));
    assert_eq!(status.word(96), 7);
    assert_eq!(b.result(0, &[fs::UTIMENS, 0, 0, 0, second], b"f"), -EINVAL);
    b.label = label::make(9, 9);
    assert_eq!(b.result(0, &[fs::UTIMENS, 0, now, 0, now], b"f"), -EACCES);
    assert_eq!(b.result(0, &[fs::UTIMENS, 0, 0, 0, 0], b"f"), -EPERM);
}

/// What FILE_OF says of the object made last but `before`: path and inode number, or the error.
fn shown(b: &mut Fs, before: usize) -> Result<(Vec<u8>, u64), i64> {
    let tags = &b.server.pool.memory().tags;
    let tag = tags[tags.len() - 1 - before];
    let answer = b.call(NAMES, &[fs::FILE_OF, tag], b"", 4096).unwrap();
    match answer.result() {
        length if length < 0 => Err(length),
        _ => Ok((answer.bytes().to_vec(), answer.words[2])),
    }
}

#[test]
fn what_an_object_shows_is_told_by_its_tag() {
    let mut b = fs_();
    mkdir(&mut b, b"d");
    let f = create(&mut b, b"d/f");
    put(&mut b, b"d/g", b"g");
    let g = b.open(b"d/g", 0, 0).unwrap();
    let ino = [
        stat(&mut b, b"d/f").unwrap().ino(),
        stat(&mut b, b"d/g").unwrap().ino(),
    ];
    write_at(&mut b, f, 0, b"f");
    for file in [f, g] {
        b.call(file, &[fs::MMAP, 0, 1, 0], b"", 0).unwrap();
    }
    assert_eq!(shown(&mut b, 1), Ok((b"/d/f".to_vec(), ino[0])));
    assert_eq!(shown(&mut b, 0), Ok((b"/d/g".to_vec(), ino[1])));
    // Only who has that portal may ask, and by it nothing else is done.
    let tag = b.server.pool.memory().tags[0];
    for badge in [0, f, NAMES - 1, NAMES + 1] {
        assert_eq!(
            b.result(badge, &[fs::FILE_OF, tag], b""),
            -EPERM,
            "{badge:x}"
        );
    }
    assert!(b.result(NAMES, &[fs::OPEN, 0], b"d/f") < 0);
    assert!(b.result(NAMES, &[fs::STAT], b"") < 0);
    assert!(b.result(NAMES, &[fs::UNLINK, 0], b"d/f") < 0);
    for tag in [tag ^ 1, tag + (1 << 32), 0, u64::MAX] {
        assert_eq!(
            b.result(NAMES, &[fs::FILE_OF, tag], b""),
            -ENOENT,
            "{tag:x}"
        );
    }
    // Without a name, then without a handle; and never the one that has its place then.
    assert_eq!(unlink(&mut b, b"d/f"), 0);
    let gone = Ok((b"/d/f (deleted)".to_vec(), ino[0]));
    assert_eq!(shown(&mut b, 1), gone);
    b.close(f);
    assert_eq!(shown(&mut b, 1), gone);
    create(&mut b, b"d/f");
    assert_eq!(shown(&mut b, 1), gone);
    b.close(g);
    assert_eq!(unlink(&mut b, b"d/g"), 0);
    assert_eq!(shown(&mut b, 0), Ok((b"/d/g (deleted)".to_vec(), ino[1])));
}

#[test]
fn memory_objects() {
    let mut b = fs_();
    let f = create(&mut b, b"f");
    assert_eq!(
        write_at(&mut b, f, 2 * PAGE as u64, &[1; PAGE]),
        PAGE as i64
    );
    let map = |b: &mut Fs, shared: u64| {
        b.call(f, &[fs::MMAP, 0, 3 * PAGE as u64, shared], b"", 0)
            .unwrap()
    };
    let answer = map(&mut b, 0);
    assert_eq!((answer.words[0], answer.words[7]), (3, 501));
    let (addresses, shared) = b.server.pool.memory().objects[0].clone();
    assert!(!shared && addresses[0] == 0 && addresses[1] == 0 && addresses[2] != 0);
    // The same pages: the same object.
    assert_eq!(map(&mut b, 0).words[7], 501);
    // Shared and writable: an object of its own, and no holes from now on, in both.
    assert_eq!(map(&mut b, 1).words[7], 502);
    let (addresses, shared) = b.server.pool.memory().objects[1].clone();
    assert!(shared && addresses.iter().all(|&address| address != 0));
    assert_eq!(b.server.pool.memory().objects[0].0, addresses);
    assert_eq!(map(&mut b, 0).words[7], 501);
    // They follow what becomes of the file.
    assert_eq!(write_at(&mut b, f, 0, &[2; PAGE]), PAGE as i64);
    assert_eq!(write_at(&mut b, f, 3 * PAGE as u64, b"x"), 1);
    same_pages(&mut b, &[1, 1, 1, 1]);
    assert_eq!(map(&mut b, 0).words[0], 4);
    assert!(b.fake.closed.is_empty());
    // Pages that may be mapped are not used for other files.
    let warm = b.server.pool.warm_pages();
    b.close(f);
    assert_eq!(unlink(&mut b, b"f"), 0);
    assert_eq!(b.server.pool.warm_pages(), warm);
    assert_eq!(b.server.pool.usage().0, 0);
    // Rights.
    put(&mut b, b"g", b"g");
    let r = b.open(b"g", 0, 0).unwrap();
    assert_eq!(b.result(r, &[fs::MMAP, 0, 1, 1], b""), -EACCES);
    let w = b.open(b"g", o::WRONLY, 0).unwrap();
    assert_eq!(b.result(w, &[fs::MMAP, 0, 1, 0], b""), -EACCES);
}

#[test]
fn a_mapping_of_a_file_with_long_holes_costs_what_is_there() {
    const LAST: u64 = (1 << 22) - 1;
    let mut b = fs_();
    let f = create(&mut b, b"f");
    for index in [0, 70_000, 70_001, 70_600, LAST] {
        assert_eq!(write_at(&mut b, f, index * PAGE as u64, b"x"), 1);
    }
    for (number, shared) in [(0, 0), (1, 1)] {
        b.server.pool.memory().told.clear();
        let answer = call_in_pieces(&mut b, f, &[fs::MMAP, 0, PAGE as u64, shared]);
        assert_eq!(answer.result(), 1 << 22);
        let memory = b.server.pool.memory();
        assert!(
            memory.told.iter().sum::<usize>() < 2 * 2048,
            "{:?}",
            memory.told
        );
        let there = |(index, address): (usize, &u64)| (*address != 0).then_some(index as u64);
        let list = memory.objects[number].0.iter().enumerate();
        let found: Vec<u64> = list.filter_map(there).collect();
        assert_eq!(found, [0, 70_000, 70_001, 70_600, LAST]);
    }
    // What comes later is told alone, to both.
    b.server.pool.memory().told.clear();
    assert_eq!(write_at(&mut b, f, 2_000_000 * PAGE as u64, b"x"), 1);
    let memory = b.server.pool.memory();
    assert!(memory.told.iter().sum::<usize>() <= 2, "{:?}", memory.told);
    assert!(memory.objects.iter().all(|(list, _)| list[2_000_000] != 0));
}

#[test]
fn a_mapped_files_pages_go_back_many_at_once() {
    const PAGES: u64 = 1200;
    let mut b = fs_();
    let f = create(&mut b, b"f");
    let chunk = [1; 16 * PAGE];
    for at in (0..PAGES).step_by(16) {
        let offset = at * PAGE as u64;
        assert_eq!(write_at(&mut b, f, offset, &chunk), chunk.len() as i64);
    }
    let answer = call_in_pieces(&mut b, f, &[fs::MMAP, 0, PAGE as u64, 0]);
    assert_eq!(answer.result(), PAGES as i64);
    assert_eq!(unlink(&mut b, b"f"), 0);
    b.server.pool.memory().released.clear();
    b.close(f);
    while b.background() {}
    let released = &b.server.pool.memory().released;
    assert_eq!(released.iter().sum::<usize>(), PAGES as usize);
    let most = crate::pool::PIECE as usize;
    assert!(released.len() <= PAGES as usize / most + 4, "{released:?}");
    assert!(released.iter().all(|count| *count <= most), "{released:?}");
}

/// `vm` is told of many pages in parts, between which the file may change and others may ask for the same.
#[test]
fn others_are_served_while_a_long_file_is_mapped() {
    const P: u64 = PAGE as u64;
    for shared in [0, 1] {
        let mut b = with_archive(Vec::new(), 8192, 8192);
        let (f, g) = (create(&mut b, b"f"), create(&mut b, b"g"));
        let length = 3000 * PAGE;
        assert_eq!(write_at(&mut b, f, 0, &vec![1; length]), length as i64);
        let map = [fs::MMAP, 0, 2000 * P, shared];
        let first = b.send(f, &map, b"", 0);
        let second = b.send(f, &map, b"", 0);
        let told = |b: &mut Fs| b.server.pool.memory().told.iter().copied().max();
        assert!(told(&mut b) <= Some(256));
        let mut pauses = 0;
        loop {
            pauses += 1;
            assert_eq!(write_at(&mut b, g, 0, b"meanwhile"), 9);
            match pauses {
                // Before what was told, and behind it; then the one who asked ends.
                2 => {
                    let hole = [fs::ALLOCATE, 3, 10 * P, 5 * P];
                    assert_eq!(b.result(f, &hole, b""), 0);
                    assert_eq!(b.result(f, &[fs::TRUNCATE, 2500 * P + 1], b""), 0);
                    assert_eq!(write_at(&mut b, f, 2800 * P, b"x"), 1);
                }
                3 => b.die(first),
                _ => {}
            }
            b.time_out();
            if let Some(answer) = b.answer(second) {
                assert_eq!(answer.result(), 2801);
                break;
            }
        }
        assert!(told(&mut b) <= Some(256));
        assert!((5..=12).contains(&pauses), "{pauses}");
        let there: Vec<u64> = (0..2801)
            .map(|page| match page {
                10..15 => shared,
                2501..2800 => shared * u64::from(page < 2000),
                _ => 1,
            })
            .collect();
        same_pages(&mut b, &there);
        // It is there now.
        assert_eq!(b.result(f, &map, b""), 2801);
    }
}

/// Every memory object has the file's pages, and which of them are none (0).
fn same_pages(b: &mut Fs, there: &[u64]) {
    let objects = b.server.pool.memory().objects.clone();
    for (addresses, _) in &objects {
        let found: Vec<u64> = addresses.iter().map(|&a| (a != 0) as u64).collect();
        assert_eq!(found, there);
        assert_eq!(addresses, &objects[0].0);
    }
}

#[test]
fn the_last_pages_that_are_punched_out_leave_the_object() {
    const P: u64 = PAGE as u64;
    let mut b = fs_();
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, &[1; 3 * PAGE]), 3 * P as i64);
    assert_eq!(b.result(f, &[fs::MMAP, 0, P, 0], b""), 3);
    assert_eq!(b.result(f, &[fs::ALLOCATE, 3, P / 2, 9 * P], b""), 0);
    same_pages(&mut b, &[1, 0, 0]);
}

/// The words that readers of the file's frames see: whether they may, its length, whether the next read is the server's.
fn frames(b: &Fs) -> (u64, u64, u64) {
    let page = b.fake.pages.values().last().unwrap();
    let word = |at: usize| page[at].load(core::sync::atomic::Ordering::Relaxed);
    let [sequence, size, told] = [fs::FRAMES_SEQUENCE, fs::FRAMES_SIZE, fs::FRAMES_TOLD].map(word);
    assert!(sequence.is_multiple_of(2), "in the middle of a change");
    (sequence, size, told)
}

#[test]
fn readers_of_frames_hear_of_every_change() {
    let mut b = fs_();
    let f = create(&mut b, b"f");
    assert_eq!(write_at(&mut b, f, 0, b"hello"), 5);
    // Not before there is an object that could be mapped.
    assert_eq!(b.result(f, &[fs::FRAMES], b""), -EAGAIN);
    assert_eq!(b.result(f, &[fs::MMAP, 0, 1, 0], b""), 1);
    let answer = b.call(f, &[fs::FRAMES], b"", 0).unwrap();
    assert_eq!((answer.words[0], answer.words[1]), (0, 5));
    let (mut last, size, told) = frames(&b);
    assert_eq!((size, told), (5, 1));
    // A read has its time noted by the server; then it need not be asked.
    b.fake.time = NOW + 1_000_000_000;
    assert_eq!(read_at(&mut b, f, 0, 5), b"hello");
    assert_eq!(frames(&b), (last, 5, 0));
    // Every change is another number, and has the next read's time noted.
    let second = b.open(b"f", o::RDWR, 0).unwrap();
    let changes: [(&[u64], &[u8], u64); 5] = [
        (&[fs::WRITE, 3, 0], b"more", 7),
        (&[fs::TRUNCATE, 2], b"", 2),
        (&[fs::TRUNCATE, 9000], b"", 9000),
        (&[fs::ALLOCATE, 0, 0, 10_000], b"", 10_000),
        (&[fs::ALLOCATE, 3, 0, 4096], b"", 10_000),
    ];
    for (words, out, size) in changes {
        assert!(b.result(second, words, out) >= 0);
        let (sequence, now, told) = frames(&b);
        assert_ne!(sequence, last);
        assert_eq!((now, told), (size, 1));
        last = sequence;
        read_at(&mut b, f, 0, 1);
        assert_eq!(frames(&b).2, 0);
    }
    let cut = b.open(b"f", o::RDWR | o::TRUNC, 0).unwrap();
    assert_eq!(frames(&b).1, 0);
    assert_ne!(frames(&b).0, last);
    read_at(&mut b, f, 0, 1);
    assert_eq!(b.result(0, &[fs::UTIMENS, 0, 0, 0, 0], b"f"), 0);
    assert_eq!(frames(&b).2, 1);
    // Where the object cannot follow it is over, for everybody.
    assert_eq!(write_at(&mut b, second, 0, &[1; 2 * PAGE]), 2 * PAGE as i64);
    b.server.pool.memory().busy = true;
    assert_eq!(b.result(second, &[fs::TRUNCATE, 1], b""), 0);
    assert_eq!(frames(&b).0, 0);
    b.server.pool.memory().busy = false;
    assert_eq!(b.result(second, &[fs::MMAP, 0, 1, 0], b""), 1);
    assert_eq!(b.result(second, &[fs::FRAMES], b""), -EAGAIN);
    // Until who had it is gone.
    b.close(f);
    assert_eq!(b.result(second, &[fs::FRAMES], b""), 0);
    assert_eq!(frames(&b).1, 1);
    b.close(cut);
    assert_eq!(b.fake.pages.len(), 2);
    b.close(second);
    assert_eq!(frames(&b).0, 0);
    // Who may not read may not see the page either.
    let writer = b.open(b"f", o::WRONLY, 0).unwrap();
    assert_eq!(b.result(writer, &[fs::FRAMES], b""), -EBADF);
}

/// A file that becomes much longer where programs may write already gets its pages in pieces.
#[test]
fn others_are_served_while_a_mapped_file_grows() {
    const P: u64 = PAGE as u64;
    let mut b = with_archive(Vec::new(), 4096, 4096);
    let (f, g) = (create(&mut b, b"f"), create(&mut b, b"g"));
    let growing: [(&[u64], &[u8]); 3] = [
        (&[fs::TRUNCATE, 300 * P], b""),
        (&[fs::ALLOCATE, 0, 600 * P, 1], b""),
        (&[fs::WRITE, 900 * P], b"x"),
    ];
    assert_eq!(b.result(f, &[fs::MMAP, 0, 1000 * P, 1], b""), 1);
    for (already, (words, data)) in (0..).map(|n| n * 300).zip(growing) {
        let before = stat(&mut b, b"f").unwrap().size();
        let token = b.send(f, words, data, 0);
        let mut pauses = 0;
        while b.answer(token).is_none() {
            assert_eq!(stat(&mut b, b"f").unwrap().size(), before);
            assert_eq!(write_at(&mut b, g, 0, b"meanwhile"), 9);
            pauses += 1;
            let pages = stat(&mut b, b"f").unwrap().blocks() / 8;
            assert!(pages <= already + 1 + 64 * pauses, "{pages} {pauses}");
            b.time_out();
        }
        assert!((4..6).contains(&pauses), "{pauses}");
    }
    let status = stat(&mut b, b"f").unwrap();
    assert_eq!((status.size(), status.blocks()), (900 * P + 1, 901 * 8));
}

/// And one whose holes programs may write to for the first time.
#[test]
fn others_are_served_while_holes_are_mapped() {
    const P: u64 = PAGE as u64;
    let mut b = with_archive(Vec::new(), 4096, 4096);
    let (f, g) = (create(&mut b, b"f"), create(&mut b, b"g"));
    assert_eq!(b.result(f, &[fs::TRUNCATE, 300 * P], b""), 0);
    let token = b.send(f, &[fs::MMAP, 0, 300 * P, 1], b"", 0);
    let mut pauses = 0;
    while b.answer(token).is_none() {
        assert_eq!(write_at(&mut b, g, 0, b"meanwhile"), 9);
        pauses += 1;
        assert_eq!(
            stat(&mut b, b"f").unwrap().blocks() / 8,
            300.min(64 * pauses)
        );
        b.fake.worked_for.clear();
        b.time_out();
        assert_eq!(b.fake.worked_for, [token], "at its priority");
    }
    // (The last pause is for telling `vm` of what lies behind the first 256 pages.)
    assert_eq!((pauses, stat(&mut b, b"f").unwrap().blocks() / 8), (5, 300));
    // Who has the holes mapped already sees the pages that were made, also if who asked for them ends.
    let h = create(&mut b, b"h");
    assert_eq!(b.result(h, &[fs::TRUNCATE, 300 * P], b""), 0);
    let answer = call_in_pieces(&mut b, h, &[fs::MMAP, 0, 300 * P, 0]);
    assert_eq!(answer.result(), 300);
    let token = b.send(h, &[fs::MMAP, 0, 300 * P, 1], b"", 0);
    assert!(b.answer(token).is_none());
    b.die(token);
    let (addresses, _) = &b.server.pool.memory().objects[1];
    assert_eq!(addresses.iter().filter(|&&a| a != 0).count(), 64);
}

#[test]
fn memory_objects_follow_the_files_length_and_holes() {
    const P: u64 = PAGE as u64;
    let mut b = fs_();
    let f = create(&mut b, b"f");
    let map = |b: &mut Fs, length: u64, shared: u64| {
        let answer = b.call(f, &[fs::MMAP, 0, length, shared], b"", 0).unwrap();
        answer.words[7]
    };
    // Of an empty file: nothing can be seen, until there is something.
    assert_eq!((map(&mut b, 8 * P, 0), map(&mut b, 6 * P, 1)), (501, 502));
    same_pages(&mut b, &[]);
    assert_eq!(write_at(&mut b, f, 10, b"x"), 1);
    same_pages(&mut b, &[1]);
    // Longer: no holes as far as programs may write, holes behind.
    assert_eq!(b.result(f, &[fs::TRUNCATE, 8 * P], b""), 0);
    same_pages(&mut b, &[1, 1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(write_at(&mut b, f, 7 * P, b"y"), 1);
    same_pages(&mut b, &[1, 1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(b.result(f, &[fs::TRUNCATE, 2 * P + 1], b""), 0);
    same_pages(&mut b, &[1, 1, 1]);
    assert_eq!(b.result(f, &[fs::TRUNCATE, 0], b""), 0);
    same_pages(&mut b, &[]);
    // Written far behind the end: what programs may write is no hole.
    assert_eq!(write_at(&mut b, f, 9 * P + 5, b"z"), 1);
    same_pages(&mut b, &[1, 1, 1, 1, 1, 1, 0, 0, 0, 1]);
    // A hole is zeroes where programs may write.
    let before = b.server.pool.memory().objects[0].0.clone();
    assert_eq!(write_at(&mut b, f, 2 * P, &[9; PAGE]), P as i64);
    assert_eq!(b.result(f, &[fs::ALLOCATE, 3, P, 3 * P], b""), 0);
    assert_eq!(b.server.pool.memory().objects[0].0, before);
    assert_eq!(read_at(&mut b, f, 2 * P, PAGE), [0; PAGE]);
    assert_eq!(b.result(f, &[fs::ALLOCATE, 0, 5 * P, 6 * P], b""), 0);
    same_pages(&mut b, &[1; 11]);
    assert!(b.fake.closed.is_empty());
    // A program that runs is not cut: it keeps what it has, and others get a new one.
    b.server.pool.memory().busy = true;
    assert_eq!(b.result(f, &[fs::TRUNCATE, P], b""), 0);
    assert_eq!(b.fake.closed, [Portal(501), Portal(502)]);
    b.server.pool.memory().busy = false;
    assert_eq!(map(&mut b, P, 0), 503);
    assert_eq!(b.server.pool.memory().objects[2].0.len(), 1);
    b.close(f);
    assert_eq!(unlink(&mut b, b"f"), 0);
    assert_eq!(b.fake.closed.len(), 3);
    assert_eq!(b.server.pool.usage().0, 0);
}

#[test]
fn locks() {
    let mut b = fs_();
    let f = create(&mut b, b"f");
    let g = b.open(b"f", o::RDWR, 0).unwrap();
    let lock = |command: u64, kind: u64, pid: u64| [fs::LOCK, command, kind, 0, 10, pid];
    b.sender = 100;
    assert_eq!(b.result(f, &lock(1, 1, 100), b""), 0);
    b.sender = 200;
    assert_eq!(b.result(g, &lock(1, 0, 200), b""), -EAGAIN);
    let got = b.call(g, &lock(0, 1, 200), b"", 0).unwrap();
    assert_eq!(got.words[..5], [0, 1, 0, 10, 1100]);
    let waiting = b.send(g, &lock(2, 1, 200), b"", 0);
    assert_eq!(b.answer(waiting), None);
    let more = [fs::LOCK, 1, 1, 50, 1, 200];
    assert_eq!(b.result(g, &more, b""), 0);
    // 200 waits for 100; 100 must not wait for 200. (A request of 200 while it waits is another thread's.)
    b.sender = 100;
    assert_eq!(b.result(f, &lock(1, 2, 100), b""), 0);
    assert_eq!(b.answer(waiting).unwrap().result(), 0);
    b.close(g);
    assert_eq!(b.result(f, &lock(1, 1, 100), b""), 0);
    // flock between two open files, released by the last close.
    let h = b.open(b"f", 0, 0).unwrap();
    assert_eq!(b.result(f, &[fs::FLOCK, 2], b""), 0);
    assert_eq!(b.result(h, &[fs::FLOCK, 1 | 4], b""), -EAGAIN);
    let waiting = b.send(h, &[fs::FLOCK, 1], b"", 0);
    b.close(f);
    assert_eq!(b.answer(waiting).unwrap().result(), 0);
}

#[test]
fn a_read_that_finds_no_memory_leaves_the_position() {
    let mut b = fs_();
    put(&mut b, b"f", b"0123456789");
    let f = b.open(b"f", o::RDWR, 0).unwrap();
    assert_eq!(read_at(&mut b, f, POSITION, 3), b"012");
    b.fake.bad_address = true;
    assert_eq!(b.result(f, &[fs::READ, POSITION], b""), -EFAULT);
    assert_eq!(read_at(&mut b, f, POSITION, 3), b"345");
    // Another answer that fails has nothing to do with that.
    b.fake.bad_address = true;
    assert_eq!(b.result(f, &[fs::STAT], b""), -EFAULT);
    assert_eq!(read_at(&mut b, f, POSITION, 9), b"6789");
}

#[test]
fn hostile_requests_are_refused() {
    let mut b = fs_();
    let f = create(&mut b, b"f");
    assert_eq!(b.result(f + 1, &[fs::READ, 0], b""), -EBADF);
    assert_eq!(b.result(f | 5 << 40, &[fs::READ, 0], b""), -EBADF);
    let old = f;
    b.close(f);
    assert_eq!(b.result(old, &[fs::READ, 0], b""), -EBADF);
    let mut again = create(&mut b, b"f");
    assert_ne!(again, old);
    assert_eq!(b.result(old, &[fs::READ, 0], b""), -EBADF);
    assert_eq!(b.result(0, &[fs::READ, 0], b""), -EBADF);
    assert_eq!(b.result(again, &[9999], b""), -ENOSYS);
    let mut random = 3u64;
    for _ in 0..300_000 {
        let mut word = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random % 4 {
                0 => random >> 32,
                1 => random % 8,
                2 => random % 70_000,
                _ => random,
            }
        };
        let operation = word() % 52;
        let words = [operation, word(), word(), word(), word(), word(), 0, 0];
        let badge = if word() % 2 == 0 { again } else { 0 };
        let path: &[u8] = match word() % 5 {
            0 => b"f",
            1 => b"",
            2 => b"f\0g",
            3 => b"d/../../x",
            _ => b"../././d",
        };
        let length = (word() % 5000) as usize;
        let token = b.send(badge, &words, path, length);
        if let Some(answer) = b.answer(token) {
            if operation == fs::CLOSE && answer.result() == 0 {
                b.close(again);
                again = b.open(b"again", o::CREAT | o::RDWR, 0o644).unwrap();
            }
            for badge in answer.minted {
                b.close(badge);
            }
        } else {
            b.interrupt(token);
            assert!(b.answer(token).is_some());
        }
    }
    assert_eq!(b.manager.waiting_requests(), 0);
    assert_eq!(b.manager.open_files(), 1);
}

/// Paths of every length around what fits in words, and lengths that are none.
#[test]
fn paths_come_in_words_or_in_a_part() {
    let mut b = fs_();
    for length in 1..60 {
        let name = vec![b'a' + (length % 26) as u8; length];
        for short in [true, false] {
            b.short_paths = short;
            assert_eq!(stat(&mut b, &name).err(), Some(-ENOENT));
            assert_eq!(mkdir(&mut b, &name), 0);
            b.short_paths = !short;
            assert!(stat(&mut b, &name).is_ok_and(|stat| stat.nlink() == 2));
            assert!(stat(&mut b, &name[1..]).is_ok() == (length == 1));
            assert_eq!(rmdir(&mut b, &name), 0);
        }
    }
    let path = u64::from_le_bytes(*b"a\0b/////");
    for (length, result) in [
        (0, -EINVAL),
        (3, -EINVAL),
        (41, -EINVAL),
        (63, -EINVAL),
        (1, -ENOENT),
    ] {
        let flags = fs::INLINE | length << fs::INLINE_SHIFT;
        for operation in [
            fs::STAT,
            fs::UNLINK,
            fs::OPEN,
            fs::READLINK,
            fs::STATFS,
            fs::CHMOD,
        ] {
            assert_eq!(b.result(0, &[operation, 0, flags, path], b""), result);
        }
    }
    // Elsewhere the bit means nothing: without a path the handle itself is meant.
    let flags = fs::INLINE | 1 << fs::INLINE_SHIFT;
    assert_eq!(b.result(0, &[fs::CHOWN, 0, flags, 0], b""), 0);
}

/// What the framework remembers of paths is never wrong: user 0, for whom it remembers, and somebody else, for whom it does not, see the same
/// tree whatever happens to it.
#[test]
fn remembered_paths_are_right() {
    let mut b = fs_();
    let mut random = 11u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    let (mut found, mut missing) = (0, 0);
    let mut dirs = Vec::new();
    for _ in 0..60_000 {
        let mut path = || {
            let mut path = Vec::new();
            for _ in 0..next(4) + 1 {
                path.extend([&b"a"[..], b"b", b"long-name", b"..", b"c", b"."][next(6) as usize]);
                path.push(b'/');
            }
            if next(8) != 0 {
                path.pop();
            }
            path
        };
        let (first, second) = (path(), path());
        let start = match next(4) {
            0 if !dirs.is_empty() => dirs[next(dirs.len() as u64) as usize],
            _ => 0,
        };
        let both = two(&first, &second);
        b.label = 0;
        b.short_paths = next(2) == 0;
        match next(12) {
            0 | 1 => b.result(start, &[fs::MKDIR, 0o777], &first),
            2 | 3 => b.result(start, &[fs::MKNOD, (s::IFREG | 0o666) as u64], &first),
            4 => b.result(start, &[fs::UNLINK], &first),
            5 => b.result(start, &[fs::UNLINK, at::REMOVEDIR], &first),
            6 => b.result(start, &[fs::RENAME, next(3)], &both),
            7 => b.result(start, &[fs::SYMLINK], &both),
            8 => b.result(start, &[fs::LINK], &both),
            9 => {
                let mode = 0o777 ^ (next(4) == 0) as u64;
                b.result(start, &[fs::CHMOD, mode | 0o110], &first)
            }
            10 if dirs.len() < 4 => match b.open(&first, o::DIRECTORY, 0) {
                Ok(badge) => {
                    dirs.push(badge);
                    0
                }
                Err(number) => number,
            },
            10 => {
                b.close(dirs.remove(0));
                0
            }
            _ if next(3) == 0 => match b.open(&second, o::CREAT | o::RDWR, 0o666) {
                Ok(badge) => {
                    b.close(badge);
                    0
                }
                Err(number) => number,
            },
            _ => 0,
        };
        for path in [&first, &second] {
            let flags = next(2) * at::SYMLINK_NOFOLLOW;
            let mut answers = Vec::new();
            for label in [0, 0, label::make(1, 0)] {
                b.label = label;
                let answer = b.call(start, &[fs::STAT, flags], path, 4096).unwrap();
                answers.push(answer);
            }
            assert_eq!(answers[0].data, answers[1].data);
            if answers[2].result() != -EACCES {
                assert_eq!(answers[1].result(), answers[2].result(), "{path:?}");
                assert_eq!(answers[1].data, answers[2].data);
            }
            if answers[0].result() == 0 {
                found += 1;
            } else {
                missing += 1;
            }
        }
    }
    assert!(found > 10_000 && missing > 10_000, "{found} {missing}");
}

// ---- the archive

struct Maker(Vec<u8>, u32);

impl Maker {
    fn add(&mut self, name: &str, mode: u32, data: &[u8], aligned: bool) {
        self.1 += 1;
        self.link(name, mode, data, aligned, self.1, 1);
    }

    fn link(&mut self, name: &str, mode: u32, data: &[u8], aligned: bool, ino: u32, links: u32) {
        let a = &mut self.0;
        let mut padded = name.len() + 1;
        while aligned
            && !(a.len() + 110 + padded)
                .next_multiple_of(4)
                .is_multiple_of(PAGE)
        {
            padded += 1;
        }
        let fields = [
            ino,
            mode,
            3,
            4,
            links,
            1234,
            data.len() as u32,
            0,
            0,
            5,
            1,
            padded as u32,
            0,
        ];
        a.extend(b"070701");
        for field in fields {
            a.extend(format!("{field:08x}").bytes());
        }
        let end = a.len() + padded;
        a.extend(name.bytes());
        a.resize(end.next_multiple_of(4), 0);
        a.extend(data);
        let end = a.len().next_multiple_of(4);
        a.resize(end, 0);
    }
}

#[test]
fn the_archive_becomes_the_first_tree() {
    let mut m = Maker(Vec::new(), 0);
    let big: Vec<u8> = (0..3 * PAGE + 77).map(|x| (x / 64) as u8).collect();
    m.add("cairn", s::IFDIR | 0o755, b"", false);
    m.add("etc", s::IFDIR | 0o750, b"", false);
    m.add("etc/early", s::IFREG | 0o600, &big, true);
    m.add("cairn/vm", s::IFREG | 0o755, &big, true);
    let kept = m.0.len();
    m.add("bin/busybox", s::IFREG | 0o4755, &big, true);
    m.add("bin/small", s::IFREG | 0o644, b"little", false);
    m.add("bin/sh", s::IFLNK | 0o777, b"busybox", false);
    m.add("etc/console", s::IFCHR | 0o600, b"", false);
    m.link("bin/one", s::IFREG | 0o644, b"", false, 900, 2);
    m.link("bin/two", s::IFREG | 0o644, b"both", true, 900, 2);
    m.add("TRAILER!!!", 0, b"", false);
    m.0.resize(m.0.len().next_multiple_of(512) + 3 * PAGE, 0);
    let before = m.0.clone();
    let mut b = with_archive(m.0, 256, 256);
    let filled = b.server.fill(Time::from_ns(NOW));
    assert_eq!(filled.nodes, 8);
    assert_eq!(filled.adopted, 3 + 4 + 1);
    assert_eq!((filled.refused, filled.damaged), (0, false));
    // What others read is as it was.
    assert_eq!(b.server.pool.archive()[..kept], before[..kept]);
    assert_eq!(stat(&mut b, b"cairn").err(), Some(-ENOENT));
    for path in [&b"etc/early"[..], b"bin/busybox", b"bin/sh"] {
        assert_eq!(get(&mut b, path), Ok(big.clone()));
    }
    assert_eq!(get(&mut b, b"bin/small"), Ok(b"little".to_vec()));
    assert_eq!(get(&mut b, b"bin/one"), Ok(b"both".to_vec()));
    assert_eq!(stat(&mut b, b"bin/two").unwrap().nlink(), 2);
    let status = stat(&mut b, b"bin/busybox").unwrap();
    assert_eq!(status.mode(), s::IFREG | 0o4755);
    assert_eq!(
        (status.mtime(), status.gid(), status.blocks()),
        (1234, 4, 32)
    );
    assert_eq!(stat(&mut b, b"etc").unwrap().mode(), s::IFDIR | 0o750);
    assert_eq!(stat(&mut b, b"etc").unwrap().mtime(), 1234);
    assert_eq!(stat(&mut b, b"etc/console").unwrap().word(40), 0x501);
    assert_eq!(list(&mut b, b"etc"), [".", "..", "console", "early"]);
    // Tails are zero, so that growing shows nothing of the archive.
    let f = b.open(b"bin/busybox", o::RDWR, 0).unwrap();
    assert_eq!(b.result(f, &[fs::TRUNCATE, 4 * PAGE as u64], b""), 0);
    assert!(read_at(&mut b, f, big.len() as u64, PAGE)
        .iter()
        .all(|&x| x == 0));
    // Free pages of the archive serve other files.
    assert!(b.server.pool.warm_pages() >= 2);
    put(&mut b, b"more", &vec![5; 100 * PAGE]);
    assert_eq!(get(&mut b, b"more"), Ok(vec![5; 100 * PAGE]));
    assert_eq!(b.server.pool.archive()[..kept], before[..kept]);
    // A damaged archive gives what lies before the damage.
    let mut broken = before;
    broken.truncate(kept + 50);
    let mut b = with_archive(broken, 16, 16);
    assert!(b.server.fill(Time::from_ns(NOW)).damaged);
    assert_eq!(get(&mut b, b"etc/early"), Ok(big));
}

#[test]
fn one_of_mount_keeps_to_its_size_and_number_of_nodes_and_ends() {
    static ENDED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
    let mut b = with_archive(Vec::new(), 64, 3);
    let options =
        crate::options::Options::of(8).with("size=12k,nr_inodes=4,mode=750,uid=5,gid=6", 8);
    b.server.set(&options.unwrap());
    b.server.st_dev = 77;
    let root = stat(&mut b, b"").unwrap();
    let number = |at: usize| root.word(at) as u32;
    assert_eq!(
        (root.word(0), root.mode(), number(28), root.gid()),
        (77, 0o040750, 5, 6)
    );
    put(&mut b, b"a", &[1; 2 * PAGE]);
    let f = create(&mut b, b"b");
    assert_eq!(write_at(&mut b, f, 0, &[1; PAGE]), PAGE as i64);
    assert_eq!(write_at(&mut b, f, PAGE as u64, &[1]), -ENOSPC);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"c"), 0);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), -ENOSPC);
    assert_eq!(b.open(b"e", o::CREAT | o::RDWR, 0o644).err(), Some(-ENOSPC));
    assert_eq!(b.result(0, &[fs::UNLINK, 0], b"a"), 0);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    // The root's cannot be unmounted, this one when nobody has anything open there.
    assert_eq!(b.result(0, &[fs::UNMOUNT], b""), -EBUSY);
    b.close(f);
    assert_eq!(b.result(0, &[fs::UNMOUNT], b""), -EOPNOTSUPP);
    b.server.end = Some(|| ENDED.store(true, core::sync::atomic::Ordering::Relaxed));
    // Nor while a file is mapped.
    let f = b.open(b"b", o::RDONLY, 0).unwrap();
    let answer = b.call(f, &[fs::MMAP, 0, PAGE as u64, 0], b"", 0).unwrap();
    assert_eq!(answer.result(), 1);
    b.close(f);
    b.server.pool.memory().mapped = Some(Portal(501));
    assert_eq!(b.result(0, &[fs::UNMOUNT], b""), -EBUSY);
    b.server.pool.memory().mapped = None;
    assert_eq!(b.result(0, &[fs::UNMOUNT], b""), 0);
}

fn by_handle(b: &mut Fs, handle: &[u8]) -> Result<u64, i64> {
    by_handle_in(b, 0, handle)
}

fn by_handle_in(b: &mut Fs, place: u64, handle: &[u8]) -> Result<u64, i64> {
    let words = [fs::OPEN, o::RDONLY | fs::BY_HANDLE, 0];
    let answer = b.call(place, &words, handle, 0).unwrap();
    match answer.minted.first() {
        Some(&badge) => Ok(badge),
        None => Err(answer.result()),
    }
}

#[test]
fn a_handle_names_a_file_until_it_has_no_name() {
    let mut b = fs_();
    put(&mut b, b"a", b"text");
    let file = b.open(b"a", o::PATH, 0).unwrap();
    let answer = b.call(file, &[fs::FILE_HANDLE], b"", 0).unwrap();
    assert_eq!(answer.result(), 12);
    let handle: Vec<u8> = answer.words[1..3]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let handle = &handle[..12];
    b.close(file);
    assert_eq!(rename(&mut b, b"a", b"b", 0), 0);
    let again = by_handle(&mut b, handle).unwrap();
    assert_eq!(read_at(&mut b, again, 0, 9), b"text");
    // Nothing leads out of a root.
    assert_eq!(b.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    let below = |b: &mut Fs, rooted| {
        let words = [fs::OPEN, o::DIRECTORY, rooted];
        b.call(0, &words, b"d", 0).unwrap().minted[0]
    };
    let (free, rooted) = (below(&mut b, 0), below(&mut b, fs::ROOTED));
    assert!(by_handle_in(&mut b, free, handle).is_ok());
    assert_eq!(by_handle_in(&mut b, rooted, handle), Err(-ESTALE));
    // Who opens it so is looked at no further than who opens it by its name, but must be one who may pass all folders.
    b.label = cairn_idl::label::make(1000, 1000);
    assert_eq!(by_handle(&mut b, handle), Err(-EPERM));
    b.label = 0;
    for wrong in [&handle[..11], &[0xff; 12], &[0xff; 16], &[0; 17], b""] {
        assert_eq!(by_handle(&mut b, wrong), Err(-ESTALE), "{wrong:?}");
    }
    assert_eq!(unlink(&mut b, b"b"), 0);
    assert_eq!(by_handle(&mut b, handle), Err(-ESTALE));
    b.close(again);
    // Its node is another file's now.
    put(&mut b, b"c", b"new");
    assert_eq!(by_handle(&mut b, handle), Err(-ESTALE));
    assert_eq!(
        b.open(b"c", o::RDONLY | fs::SEALABLE, 0).map(|_| ()),
        Ok(())
    );
}

/// What is mapped very often is hidden in several requests, and until then the file stays as it is.
#[test]
fn what_is_mapped_often_is_cut_in_pieces() {
    const P: u64 = PAGE as u64;
    for (shared, words) in [
        (1, [fs::TRUNCATE, 3 * P]),
        (0, [fs::TRUNCATE, 3 * P]),
        (0, [fs::ALLOCATE, 3]),
    ] {
        let mut b = fs_();
        let file = create(&mut b, b"/f");
        assert_eq!(write_at(&mut b, file, 0, &[7; 5 * PAGE]), 5 * PAGE as i64);
        let mapped = call_in_pieces(&mut b, file, &[fs::MMAP, 0, 5 * P, shared]);
        assert!(mapped.result() >= 0);
        b.server.pool.memory().parts = 3;
        let words = [&words[..], &[3 * P, 2 * P]].concat();
        let token = b.send(file, &words, b"", 0);
        for left in (0..3).rev() {
            assert!(b.answer(token).is_none());
            assert_eq!(b.server.pool.memory().parts, left);
            assert_eq!(read_at(&mut b, file, 4 * P, 9), [7; 9]);
            b.time_out();
        }
        assert!(b.answer(token).expect("an answer").result() >= 0);
        let cut = words[0] == fs::TRUNCATE;
        let expected = if cut { vec![] } else { vec![0; 9] };
        assert_eq!(read_at(&mut b, file, 4 * P, 9), expected);
        let (list, _) = &b.server.pool.memory().objects[0];
        assert_eq!(list.len(), if cut { 3 } else { 5 });
        assert_eq!(list.iter().filter(|&&address| address != 0).count(), 3);
    }
}

const GET_FLAGS: u64 = 0x8008_6601;
const SET_FLAGS: u64 = 0x4008_6602;

fn set_flags(b: &mut Fs, badge: u64, flags: u32) -> i64 {
    b.result(badge, &[fs::IOCTL, SET_FLAGS], &flags.to_le_bytes())
}

/// Flags of chattr(1): what is fixed is nobody's to change, and only user 0 fixes it.
#[test]
fn fixed_files() {
    let mut b = fs_();
    let file = create(&mut b, b"f");
    b.result(0, &[fs::MKDIR, 0o755], b"d");
    for flags in [0x10, 0x20] {
        assert_eq!(set_flags(&mut b, file, flags), 0);
        let answer = b.call(file, &[fs::IOCTL, GET_FLAGS], b"", 4).unwrap();
        assert_eq!(answer.data, flags.to_le_bytes());
        assert_eq!(b.open(b"f", o::WRONLY, 0), Err(-EPERM));
        assert_eq!(b.open(b"f", o::RDONLY | o::TRUNC, 0), Err(-EPERM));
        let appends = b.open(b"f", o::WRONLY | o::APPEND, 0);
        assert_eq!(appends.is_ok(), flags == 0x20);
        assert_eq!(b.result(0, &[fs::UNLINK, 0], b"f"), -EPERM);
        assert_eq!(b.result(0, &[fs::RENAME, 0], b"f\0g"), -EPERM);
        assert_eq!(b.result(0, &[fs::CHMOD, 0o600, 0], b"f"), -EPERM);
        assert_eq!(b.result(0, &[fs::TRUNCATE, 1], b"f"), -EPERM);
    }
    assert_eq!(set_flags(&mut b, file, 4), -EOPNOTSUPP);
    assert_eq!(set_flags(&mut b, file, 0), 0);
    assert_eq!(b.result(0, &[fs::UNLINK, 0], b"f"), 0);
    let dir = b.open(b"d", o::RDONLY, 0).unwrap();
    assert_eq!(set_flags(&mut b, dir, 0x10), 0);
    assert_eq!(b.open(b"d/x", o::CREAT | o::RDWR, 0o644), Err(-EPERM));
    assert_eq!(set_flags(&mut b, dir, 0x20), 0);
    assert!(b.open(b"d/x", o::CREAT | o::RDWR, 0o644).is_ok());
    assert_eq!(b.result(0, &[fs::UNLINK, 0], b"d/x"), -EPERM);
}

/// RENAME_WHITEOUT leaves a device of number 0, which nobody opens.
#[test]
fn whiteouts() {
    let mut b = fs_();
    create(&mut b, b"a");
    assert_eq!(b.result(0, &[fs::RENAME, 4], b"a\0b"), 0);
    assert_eq!(b.open(b"a", o::RDONLY, 0), Err(-ENXIO));
    assert!(b.open(b"b", o::RDONLY, 0).is_ok());
    assert_eq!(b.result(0, &[fs::RENAME, 4 | 2], b"a\0b"), -EINVAL);
    assert_eq!(b.result(0, &[fs::RENAME, 4 | 1], b"b\0a"), -EEXIST);
    assert_eq!(b.result(0, &[fs::RENAME, 4], b"b\0a"), 0);
    assert_eq!(b.open(b"b", o::RDONLY, 0), Err(-ENXIO));
    assert!(b.open(b"a", o::RDONLY, 0).is_ok());
}
