//! Sessions on a folder of this computer, with a client of `lib/ninep` at their other end.

use crate::fid::Node;
use crate::tree::Export;
use crate::users::Believed;
use crate::{relay, session};
use cairn_ninep::answer::{self, Trouble};
use cairn_ninep::request::head;
use cairn_ninep::{
    kind, lock_flags, lock_kind, lock_status, Ask, Lock, Qid, Set, Time, NO_FID, NO_TAG,
};
use proptest::prelude::*;
use rustix::fs::{open, Mode, OFlags};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::fs::{symlink, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const ENOENT: i64 = 2;
const EBADF: i64 = 9;
const EACCES: i64 = 13;
const EEXIST: i64 = 17;
const EXDEV: i64 = 18;
const ENOTDIR: i64 = 20;
const EINVAL: i64 = 22;
const EROFS: i64 = 30;
const ELOOP: i64 = 40;
const EPROTO: i64 = 71;
const EUSERS: i64 = 87;
const EOPNOTSUPP: i64 = 95;
const RDONLY: u32 = 0;
const WRONLY: u32 = 1;
const RDWR: u32 = 2;

/// A folder, removed at the end. Beside what is served lies something that is not.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cairn-9p-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("tree")).unwrap();
        fs::write(path.join("outside"), "not served").unwrap();
        Folder(path)
    }

    fn tree(&self) -> PathBuf {
        self.0.join("tree")
    }

    fn export(&self, read_only: bool) -> Export {
        let folder = open(self.tree(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        Export {
            root: Node::new(folder.unwrap()).unwrap(),
            read_only,
            groups: None,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A session in a thread; the client's end of its stream.
fn session(export: Export) -> UnixStream {
    let (here, there) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let output = there.try_clone().unwrap();
        session::serve(&there, output, export);
        let _ = there.shutdown(Shutdown::Both);
    });
    here.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    here
}

struct Client {
    stream: UnixStream,
    /// Answers that came while another one was waited for.
    early: HashMap<u16, Vec<u8>>,
    next: u16,
}

type Answer = Result<Vec<u8>, i64>;

impl Client {
    fn on(stream: UnixStream) -> Client {
        Client {
            stream,
            early: HashMap::new(),
            next: 0,
        }
    }

    /// With the root of the tree as number 0.
    fn of(folder: &Folder, read_only: bool) -> Client {
        let mut client = Client::on(session(folder.export(read_only)));
        client.hello();
        client.ask(Ask::attach(0)).unwrap();
        client
    }

    fn hello(&mut self) {
        self.stream
            .write_all(Ask::version(65_536).with_tag(NO_TAG))
            .unwrap();
        let answered = self.answer(NO_TAG);
        let body = answer::body(&answered, kind::VERSION, NO_TAG).unwrap();
        assert_eq!(answer::version(body), Ok(65_536));
    }

    /// Its tag.
    fn send(&mut self, mut ask: Ask) -> u16 {
        self.next = (self.next + 1) % 1000;
        self.stream.write_all(ask.with_tag(self.next)).unwrap();
        self.next
    }

    fn answer(&mut self, tag: u16) -> Vec<u8> {
        loop {
            if let Some(answer) = self.early.remove(&tag) {
                return answer;
            }
            let answer = session::message(&mut self.stream, session::MOST).expect("an answer");
            let (_, its) = head(&answer).unwrap();
            self.early.insert(its, answer);
        }
    }

    fn body(&mut self, kind: u8, tag: u16) -> Answer {
        let answer = self.answer(tag);
        match answer::body(&answer, kind, tag) {
            Ok(body) => Ok(body.to_vec()),
            Err(Trouble::Refused(number)) => Err(number),
            Err(Trouble::Nonsense) => panic!("{answer:?}"),
        }
    }

    fn ask(&mut self, ask: Ask) -> Answer {
        let kind = ask.kind();
        let tag = self.send(ask);
        self.body(kind, tag)
    }

    fn walk(&mut self, fid: u32, new: u32, names: &[&str]) -> Result<bool, i64> {
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let body = self.ask(Ask::walk(fid, new, &names))?;
        Ok(answer::walked(&body, names.len() as u16).unwrap())
    }

    /// Walk to a file and open it.
    fn open(&mut self, fid: u32, names: &[&str], flags: u32) -> Result<Qid, i64> {
        assert!(self.walk(0, fid, names)?);
        let opened = self.ask(Ask::open(fid, flags))?;
        Ok(answer::opened(&opened).unwrap().0)
    }

    fn read(&mut self, fid: u32, offset: u64, count: u32) -> Answer {
        let body = self.ask(Ask::read(fid, offset, count))?;
        Ok(answer::data(&body, count as usize).unwrap().to_vec())
    }

    fn write(&mut self, fid: u32, offset: u64, data: &[u8]) -> Result<usize, i64> {
        let body = self.ask(Ask::write(fid, offset, data))?;
        Ok(answer::count(&body, data.len()).unwrap())
    }

    fn names(&mut self, fid: u32, count: u32) -> Vec<String> {
        let (mut names, mut position) = (Vec::new(), 0);
        loop {
            let body = self.ask(Ask::entries(fid, position, count)).unwrap();
            let data = answer::data(&body, count as usize).unwrap();
            let all: Vec<_> = answer::entries(data).collect();
            let Some(last) = all.last() else {
                names.sort();
                return names;
            };
            position = last.next;
            names.extend(
                all.iter()
                    .map(|e| String::from_utf8_lossy(e.name).into_owned()),
            );
        }
    }
}

fn a_lock(kind: u8, start: u64, length: u64) -> Lock<'static> {
    Lock {
        kind,
        start,
        length,
        process: 7,
        client: b"here",
    }
}

#[test]
fn files_are_made_written_and_read() {
    let folder = Folder::new();
    let tree = folder.tree();
    let mut c = Client::of(&folder, false);
    c.ask(Ask::directory(0, b"d", 0o750, 0)).unwrap();
    assert_eq!(c.ask(Ask::directory(0, b"d", 0o750, 0)), Err(EEXIST));
    assert!(c.walk(0, 1, &["d"]).unwrap());
    c.ask(Ask::create(1, b"file", RDWR, 0o640, 0)).unwrap();
    // The number is the opened file's now.
    assert_eq!(c.write(1, 0, b"hello"), Ok(5));
    assert_eq!(c.write(1, 5, b" there"), Ok(6));
    assert_eq!(c.read(1, 0, 100).unwrap(), b"hello there");
    assert_eq!(c.read(1, 6, 2).unwrap(), b"th");
    assert_eq!(c.read(1, 50, 2).unwrap(), b"");
    c.ask(Ask::sync(1)).unwrap();
    c.ask(Ask::sync_of(1, true)).unwrap();
    let about = fs::metadata(tree.join("d/file")).unwrap();
    assert_eq!((about.mode() & 0o7777, about.len()), (0o640, 11));
    let body = c.ask(Ask::attributes(1)).unwrap();
    let told = answer::attributes(&body).unwrap();
    assert_eq!(
        (told.mode, told.size, told.qid.path),
        (about.mode(), 11, about.ino())
    );
    assert_eq!(told.mtime, (about.mtime(), about.mtime_nsec()));
    c.ask(Ask::end_of(1)).unwrap();
    assert_eq!(c.read(1, 0, 1), Err(EBADF));
    // What is there is opened, unless it must not be.
    for (flags, then) in [(RDWR, Ok(())), (RDWR | libc::O_EXCL as u32, Err(EEXIST))] {
        assert!(c.walk(0, 1, &["d"]).unwrap());
        let made = c.ask(Ask::create(1, b"file", flags, 0o600, 0));
        assert_eq!(made.map(|_| ()), then);
        c.ask(Ask::end_of(1)).unwrap();
    }
    c.ask(Ask::symlink(0, b"link", b"d/file", 0)).unwrap();
    assert!(c.walk(0, 1, &["link"]).unwrap());
    let target = c.ask(Ask::target(1)).unwrap();
    assert_eq!(answer::target(&target), Ok(&b"d/file"[..]));
    assert_eq!(c.ask(Ask::open(1, RDONLY)), Err(ELOOP));
    assert!(c.walk(0, 2, &["d"]).unwrap());
    assert!(c.walk(2, 3, &["file"]).unwrap());
    c.ask(Ask::link(0, 3, b"hard")).unwrap();
    assert_eq!(fs::metadata(tree.join("hard")).unwrap().nlink(), 2);
    c.ask(Ask::rename(0, b"hard", 2, b"moved")).unwrap();
    c.ask(Ask::remove(2, b"moved", 0)).unwrap();
    c.ask(Ask::rename_file(3, 0, b"up")).unwrap();
    assert!(tree.join("up").exists());
    c.ask(Ask::remove_file(3)).unwrap();
    assert!(!tree.join("up").exists());
    assert_eq!(c.ask(Ask::end_of(3)), Err(EBADF));
    c.ask(Ask::remove(0, b"d", cairn_ninep::REMOVE_DIRECTORY))
        .unwrap();
    c.ask(Ask::node(0, b"fifo", libc::S_IFIFO | 0o600, 0))
        .unwrap();
    assert!(fs::metadata(tree.join("fifo"))
        .unwrap()
        .file_type()
        .is_fifo());
    let space = c.ask(Ask::space(0)).unwrap();
    assert!(answer::space(&space).unwrap().blocks > 0);
}

#[test]
fn attributes_are_set() {
    let folder = Folder::new();
    let file = folder.tree().join("file");
    fs::write(&file, "some text").unwrap();
    symlink("file", folder.tree().join("link")).unwrap();
    let mut c = Client::of(&folder, false);
    assert!(c.walk(0, 1, &["file"]).unwrap());
    let set = Set {
        mode: Some(0o604),
        size: Some(4),
        atime: Some(Time::At(1, 2)),
        mtime: Some(Time::At(3, 4)),
        ..Set::default()
    };
    c.ask(Ask::set(1, &set)).unwrap();
    let about = fs::metadata(&file).unwrap();
    assert_eq!((about.mode() & 0o7777, about.len()), (0o604, 4));
    assert_eq!(
        (about.atime_nsec(), about.mtime(), about.mtime_nsec()),
        (2, 3, 4)
    );
    let now = Set {
        mtime: Some(Time::Now),
        ..Set::default()
    };
    c.ask(Ask::set(1, &now)).unwrap();
    let about = fs::metadata(&file).unwrap();
    assert!(about.mtime() > 1_000_000 && about.atime() == 1);
    // A link's own times, and no modes.
    assert!(c.walk(0, 2, &["link"]).unwrap());
    let times = Set {
        mode: None,
        size: None,
        ..set
    };
    c.ask(Ask::set(2, &times)).unwrap();
    assert_eq!(
        fs::symlink_metadata(folder.tree().join("link"))
            .unwrap()
            .mtime(),
        3
    );
    let mode = Set {
        mode: Some(0o600),
        ..Set::default()
    };
    assert_eq!(c.ask(Ask::set(2, &mode)), Err(EOPNOTSUPP));
    let size = Set {
        size: Some(0),
        ..Set::default()
    };
    assert!(c.ask(Ask::set(2, &size)).is_err() && c.ask(Ask::set(0, &size)).is_err());
}

#[test]
fn extended_attributes_are_read_and_set() {
    let folder = Folder::new();
    let file = folder.tree().join("file");
    fs::write(&file, "").unwrap();
    if rustix::fs::setxattr(&file, "user.there", b"1", rustix::fs::XattrFlags::empty()).is_err() {
        // This computer's file system has none.
        return;
    }
    let mut c = Client::of(&folder, false);
    let mut set = |value: &[u8], flags: u32| {
        assert!(c.walk(0, 1, &["file"]).unwrap());
        c.ask(Ask::set_attribute(
            1,
            b"user.new",
            value.len() as u64,
            flags,
        ))
        .unwrap();
        if !value.is_empty() {
            assert_eq!(c.write(1, 0, value), Ok(value.len()));
            assert_eq!(c.write(1, value.len() as u64, b"x"), Err(EINVAL));
        }
        c.ask(Ask::end_of(1)).map(|_| ())
    };
    assert_eq!(set(b"value", 0), Ok(()));
    let there = |name: &str| {
        let mut room = [0; 100];
        let count = rustix::fs::getxattr(&file, name, &mut room[..]);
        count.map(|count| room[..count].to_vec())
    };
    assert_eq!(there("user.new").unwrap(), b"value");
    assert_eq!(set(b"value", 1), Err(EEXIST));
    assert_eq!(set(b"", 0), Ok(()));
    assert_eq!(there("user.new").unwrap(), b"");
    // With this flag an empty value is none.
    assert_eq!(set(b"", 2), Ok(()));
    assert!(there("user.new").is_err());
    assert!(c.walk(0, 1, &["file"]).unwrap());
    for (name, value) in [("", "user.there\0"), ("user.there", "1")] {
        let body = c.ask(Ask::attribute(1, 2, name.as_bytes())).unwrap();
        assert!(answer::length_of_value(&body).unwrap() >= value.len() as u64);
        let told = c.read(2, 0, 1000).unwrap();
        assert!(String::from_utf8(told).unwrap().contains(value));
        c.ask(Ask::end_of(2)).unwrap();
    }
    assert_eq!(c.ask(Ask::attribute(1, 2, b"user.none")), Err(61));
    // A value that is not whole is not set.
    c.ask(Ask::set_attribute(1, b"user.half", 10, 0)).unwrap();
    c.write(1, 0, b"half").unwrap();
    assert_eq!(c.ask(Ask::end_of(1)), Err(EINVAL));
}

#[test]
fn nothing_outside_is_reached() {
    let folder = Folder::new();
    let tree = folder.tree();
    symlink("..", tree.join("up")).unwrap();
    symlink("/", tree.join("top")).unwrap();
    symlink("../outside", tree.join("file")).unwrap();
    fs::create_dir_all(tree.join("a/b")).unwrap();
    let mut c = Client::of(&folder, false);
    let root = fs::metadata(&tree).unwrap().ino();
    let inode = |c: &mut Client, fid: u32| {
        let body = c.ask(Ask::attributes(fid)).unwrap();
        answer::attributes(&body).unwrap().qid.path
    };
    for (fid, names) in [
        (10, &["..", "..", ".."][..]),
        (11, &["a", "..", ".."]),
        (12, &["a", "b", "..", ".."]),
    ] {
        assert!(c.walk(0, fid, names).unwrap());
        assert_eq!(inode(&mut c, fid), root);
    }
    for link in ["up", "top", "file"] {
        // The link, not what it leads to.
        assert!(c.walk(0, 20, &[link]).unwrap());
        assert_eq!(c.walk(20, 21, &["outside"]), Err(ENOTDIR));
        assert_eq!(c.ask(Ask::open(20, RDONLY)), Err(ELOOP));
        c.ask(Ask::end_of(20)).unwrap();
        assert_eq!(c.walk(0, 20, &[link, "outside"]), Ok(false));
    }
    for name in ["../outside", "a/b", "/", "", ".", "a\0b", "./a"] {
        assert_eq!(c.walk(0, 20, &[name]), Err(EINVAL), "{name}");
        let bytes = name.as_bytes();
        assert_eq!(c.ask(Ask::directory(0, bytes, 0o700, 0)), Err(EINVAL));
        assert_eq!(c.ask(Ask::remove(0, bytes, 0)), Err(EINVAL));
        assert_eq!(c.ask(Ask::rename(0, b"a", 0, bytes)), Err(EINVAL));
        assert_eq!(c.ask(Ask::rename(0, bytes, 0, b"a")), Err(EINVAL));
        assert_eq!(c.ask(Ask::symlink(0, bytes, b"x", 0)), Err(EINVAL));
        assert_eq!(c.ask(Ask::link(0, 11, bytes)), Err(EINVAL));
    }
    assert_eq!(c.ask(Ask::remove(0, b"..", 0x200)), Err(EINVAL));
    assert_eq!(c.ask(Ask::remove_file(11)).map(|_| ()), Err(16));
    // A file of a link's name is made where the link leads to by nobody.
    assert!(c.walk(0, 30, &[]).unwrap());
    assert_eq!(c.ask(Ask::create(30, b"file", RDWR, 0o600, 0)), Err(ELOOP));
    assert_eq!(fs::read(folder.0.join("outside")).unwrap(), b"not served");
    // A folder that is moved out leads nowhere from there.
    assert!(c.walk(0, 40, &["a", "b"]).unwrap());
    fs::rename(tree.join("a"), folder.0.join("a")).unwrap();
    assert_eq!(c.walk(40, 41, &[".."]), Err(ENOENT));
}

#[test]
fn devices_are_not_opened() {
    let folder = Folder::new();
    let mut c = Client::of(&folder, false);
    let made = c.ask(Ask::device(0, b"null", libc::S_IFCHR | 0o666, (1, 3), 0));
    if made.is_err() {
        // Root makes them only, and not everywhere.
        return;
    }
    assert_eq!(c.open(1, &["null"], RDWR), Err(EACCES));
    assert!(c.walk(0, 2, &[]).unwrap());
    assert_eq!(c.ask(Ask::create(2, b"null", RDWR, 0o600, 0)), Err(EACCES));
}

#[test]
fn a_tree_to_be_read_is_not_changed() {
    let folder = Folder::new();
    fs::write(folder.tree().join("file"), "text").unwrap();
    let mut c = Client::of(&folder, true);
    for flags in [WRONLY, RDWR, libc::O_TRUNC as u32] {
        assert_eq!(c.open(1, &["file"], flags), Err(EROFS));
        c.ask(Ask::end_of(1)).unwrap();
    }
    assert!(c.walk(0, 1, &["file"]).unwrap());
    for ask in [
        Ask::directory(0, b"x", 0o700, 0),
        Ask::create(0, b"x", RDONLY, 0o700, 0),
        Ask::symlink(0, b"x", b"y", 0),
        Ask::node(0, b"x", libc::S_IFIFO | 0o600, 0),
        Ask::link(0, 1, b"x"),
        Ask::rename(0, b"file", 0, b"x"),
        Ask::rename_file(1, 0, b"x"),
        Ask::remove(0, b"file", 0),
        Ask::set(1, &Set::default()),
        Ask::set_attribute(1, b"user.x", 0, 0),
        Ask::remove_file(1),
    ] {
        assert_eq!(c.ask(ask.clone()), Err(EROFS), "{ask:?}");
    }
    assert!(c.open(1, &["file"], RDONLY).is_ok());
    assert_eq!(c.read(1, 0, 10).unwrap(), b"text");
}

#[test]
fn folders_are_listed_in_pieces() {
    let folder = Folder::new();
    let mut expected: Vec<String> = (0..500)
        .map(|n| format!("file-{n:03}-{}", "x".repeat(n % 50)))
        .collect();
    for name in &expected {
        fs::write(folder.tree().join(name), "").unwrap();
    }
    expected.extend([".", ".."].map(str::to_string));
    expected.sort();
    let mut c = Client::of(&folder, false);
    c.open(1, &[], RDONLY).unwrap();
    for count in [300, 4096, 60_000] {
        assert_eq!(c.names(1, count), expected);
    }
    assert_eq!(c.ask(Ask::entries(1, 0, 10)), Err(EINVAL));
}

#[test]
fn what_waits_stops_nothing_and_can_be_given_up() {
    let folder = Folder::new();
    let mut c = Client::of(&folder, false);
    c.ask(Ask::node(0, b"fifo", libc::S_IFIFO | 0o600, 0))
        .unwrap();
    c.open(1, &["fifo"], RDONLY).unwrap();
    let reading = c.send(Ask::read(1, 0, 100));
    let given_up = c.send(Ask::read(1, 0, 100));
    c.ask(Ask::directory(0, b"meanwhile", 0o700, 0)).unwrap();
    c.ask(Ask::flush(given_up)).unwrap();
    // It has no answer: the tag is free.
    assert!(!c.early.contains_key(&given_up));
    assert!(!c.early.contains_key(&reading));
    c.open(2, &["fifo"], WRONLY).unwrap();
    assert_eq!(c.write(2, 0, b"text"), Ok(4));
    let body = c.body(kind::READ, reading).unwrap();
    assert_eq!(answer::data(&body, 100), Ok(&b"text"[..]));
    c.ask(Ask::end_of(2)).unwrap();
    assert_eq!(c.read(1, 0, 100).unwrap(), b"");
    c.ask(Ask::end_of(1)).unwrap();
    // Who wants to write waits for a reader.
    assert!(c.walk(0, 1, &["fifo"]).unwrap());
    let opening = c.send(Ask::open(1, WRONLY));
    c.open(2, &["fifo"], RDONLY).unwrap();
    c.body(kind::OPEN, opening).unwrap();
    // A FLUSH of nothing, and of itself.
    c.ask(Ask::flush(999)).unwrap();
    c.ask(Ask::flush(c.next + 1)).unwrap();
}

#[test]
fn more_that_wait_are_told_to_come_again() {
    let folder = Folder::new();
    let mut c = Client::of(&folder, false);
    c.ask(Ask::node(0, b"fifo", libc::S_IFIFO | 0o600, 0))
        .unwrap();
    c.open(1, &["fifo"], RDONLY).unwrap();
    let tags: Vec<u16> = (0..100).map(|_| c.send(Ask::read(1, 0, 1))).collect();
    c.ask(Ask::attributes(0)).unwrap();
    let refused = |c: &Client| tags.iter().filter(|tag| c.early.contains_key(tag)).count();
    for _ in 0..1000 {
        if refused(&c) == 100 - crate::tree::WAITING {
            break;
        }
        c.ask(Ask::attributes(0)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(refused(&c), 100 - crate::tree::WAITING);
    // The end of the connection ends them all.
}

#[test]
fn locks_are_between_numbers() {
    let folder = Folder::new();
    fs::write(folder.tree().join("file"), "text").unwrap();
    let mut c = Client::of(&folder, false);
    c.open(1, &["file"], RDWR).unwrap();
    c.open(2, &["file"], RDWR).unwrap();
    let lock = |c: &mut Client, fid, flags, lock: &Lock| {
        answer::locked(&c.ask(Ask::lock(fid, flags, lock)).unwrap())
    };
    let write = a_lock(lock_kind::WRITE, 10, 5);
    assert_eq!(lock(&mut c, 1, 0, &write), Ok(lock_status::DONE));
    assert_eq!(lock(&mut c, 2, 0, &write), Ok(lock_status::BLOCKED));
    let read = a_lock(lock_kind::READ, 0, 0);
    let body = c.ask(Ask::lock_there(2, &read)).unwrap();
    let there = answer::lock(&body).unwrap();
    assert_eq!(
        (there.kind, there.start, there.length),
        (lock_kind::WRITE, 10, 5)
    );
    let body = c.ask(Ask::lock_there(1, &read)).unwrap();
    assert_eq!(answer::lock(&body).unwrap().kind, lock_kind::NONE);
    let given_up = c.send(Ask::lock(2, lock_flags::WAIT, &write));
    let waiting = c.send(Ask::lock(2, lock_flags::WAIT, &write));
    c.ask(Ask::flush(given_up)).unwrap();
    assert!(!c.early.contains_key(&waiting));
    let none = a_lock(lock_kind::NONE, 0, 0);
    assert_eq!(lock(&mut c, 1, 0, &none), Ok(lock_status::DONE));
    let body = c.body(kind::LOCK, waiting).unwrap();
    assert_eq!(answer::locked(&body), Ok(lock_status::DONE));
    // The end of a number is the end of its locks.
    c.ask(Ask::end_of(2)).unwrap();
    assert_eq!(lock(&mut c, 1, 0, &write), Ok(lock_status::DONE));
    assert_eq!(c.ask(Ask::lock(1, 0, &a_lock(9, 0, 0))), Err(EINVAL));
    assert_eq!(c.ask(Ask::lock(1, 0, &a_lock(0, u64::MAX, 0))), Err(EINVAL));
    assert_eq!(c.ask(Ask::lock(0, 0, &read)), Err(EBADF));
}

#[test]
fn numbers_are_what_they_are() {
    let folder = Folder::new();
    let mut c = Client::on(session(folder.export(false)));
    assert_eq!(c.ask(Ask::attach(0)), Err(EPROTO));
    c.hello();
    assert_eq!(
        c.ask(Ask::authentication(5, b"root", b"", 0)),
        Err(EOPNOTSUPP)
    );
    let elsewhere = c.ask(Ask::attach_as(0, b"user", b"/anywhere", 1000));
    assert_eq!(elsewhere, Err(ENOENT));
    c.ask(Ask::attach_as(0, b"user", b"/", 1000)).unwrap();
    assert_eq!(c.ask(Ask::attach(0)), Err(EEXIST));
    assert_eq!(c.walk(0, 0, &[]), Ok(true));
    assert_eq!(c.walk(1, 2, &[]), Err(EBADF));
    assert_eq!(c.walk(0, 1, &["none"]), Err(ENOENT));
    assert_eq!(c.walk(0, 1, &["..", "none"]), Ok(false));
    assert_eq!(c.ask(Ask::end_of(1)), Err(EBADF));
    for ask in [
        Ask::read(0, 0, 1),
        Ask::entries(0, 0, 1),
        Ask::write(0, 0, b"x"),
        Ask::sync(0),
    ] {
        assert_eq!(c.ask(ask), Err(EBADF));
    }
    // Another VERSION ends all of them.
    c.hello();
    assert_eq!(c.ask(Ask::end_of(0)), Err(EBADF));
    // A kind that is none, and a body that makes no sense.
    c.stream.write_all(&[7, 0, 0, 0, 200, 1, 0]).unwrap();
    assert_eq!(c.body(200, 1), Err(EOPNOTSUPP));
    c.stream
        .write_all(&[8, 0, 0, 0, kind::READ, 1, 0, 0])
        .unwrap();
    assert_eq!(c.body(kind::READ, 1), Err(EINVAL));
    // A message that is too long ends the connection.
    c.stream
        .write_all(&[0, 0, 0, 1, kind::READ, 1, 0, 0])
        .unwrap();
    assert_eq!(session::message(&mut c.stream, session::MOST), None);
}

/// Sessions of three users, each in its own folder, so that one sees who is served.
fn relayed(folders: &'static [Folder]) -> Client {
    let (here, there) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let believed = Believed::parse("1-2,100-200").unwrap();
        let start = |uid: u32| Ok(session(folders[(uid as usize).min(2)].export(false)));
        let (input, end) = (there.try_clone().unwrap(), there.try_clone().unwrap());
        let end = move || drop(end.shutdown(Shutdown::Both));
        relay::serve(
            input,
            there.try_clone().unwrap(),
            end,
            (&believed, 0),
            &start,
        );
        let _ = there.shutdown(Shutdown::Both);
    });
    here.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    Client::on(here)
}

#[test]
fn users_have_sessions_of_their_own() {
    let folders: &'static [Folder] =
        Box::leak(Box::new([Folder::new(), Folder::new(), Folder::new()]));
    let mut c = relayed(folders);
    assert_eq!(c.ask(Ask::attach(0)), Err(EPROTO));
    c.hello();
    for (fid, uid) in [(10, 0), (11, 1), (12, 2), (13, 3), (14, NO_FID)] {
        c.ask(Ask::attach_as(fid, b"", b"", uid)).unwrap();
    }
    assert_eq!(c.ask(Ask::attach_as(11, b"", b"", 2)), Err(EEXIST));
    for fid in 10..15u32 {
        c.ask(Ask::directory(
            fid,
            format!("of-{fid}").as_bytes(),
            0o700,
            0,
        ))
        .unwrap();
    }
    let there = |number: usize, name: &str| folders[number].tree().join(name).exists();
    assert!(there(0, "of-10") && there(1, "of-11") && there(2, "of-12"));
    // Users who are not believed are the one that everybody is.
    assert!(there(0, "of-13") && there(0, "of-14"));
    assert_eq!(c.ask(Ask::rename(11, b"of-11", 12, b"x")), Err(EXDEV));
    // Walks that fail, or do not come so far, leave their number free for other users.
    assert_eq!(c.walk(11, 20, &["none"]), Err(ENOENT));
    assert_eq!(c.walk(11, 20, &["of-11", "none"]), Ok(false));
    assert_eq!(c.walk(12, 20, &["of-12"]), Ok(true));
    assert_eq!(c.walk(11, 20, &[]), Err(EEXIST));
    c.ask(Ask::end_of(20)).unwrap();
    assert_eq!(c.walk(11, 20, &[]), Ok(true));
    assert_eq!(c.ask(Ask::end_of(21)), Err(EBADF));
    // What waits for one user stops no other, and is given up by its tag.
    c.ask(Ask::node(20, b"fifo", libc::S_IFIFO | 0o600, 0))
        .unwrap();
    assert_eq!(c.walk(20, 21, &["fifo"]), Ok(true));
    c.ask(Ask::open(21, RDONLY)).unwrap();
    let reading = c.send(Ask::read(21, 0, 1));
    c.ask(Ask::attributes(12)).unwrap();
    c.ask(Ask::flush(reading)).unwrap();
    // Its tag can be used again.
    c.next = reading - 1;
    c.ask(Ask::attributes(21)).unwrap();
    c.ask(Ask::flush(999)).unwrap();
    let many = (0..70u32).map(|n| c.ask(Ask::attach_as(100 + n, b"", b"", 100 + n)));
    let refused = many.filter(|answer| *answer == Err(EUSERS)).count();
    assert_eq!(refused, 9);
    c.hello();
    assert_eq!(c.ask(Ask::attributes(12)), Err(EBADF));
    c.ask(Ask::attach_as(12, b"", b"", 2)).unwrap();
    folders
        .iter()
        .for_each(|folder| drop(fs::remove_dir_all(&folder.0)));
}

/// Requests with numbers and names out of a few, so that they are about something.
fn some_ask() -> impl Strategy<Value = Ask> {
    const NAMES: [&[u8]; 6] = [b"a", b"b", b"..", b"fifo", b"", b"a/b"];
    let fid = 0u32..6;
    let text = (0usize..6).prop_map(|n| NAMES[n]);
    (
        0u8..28,
        fid.clone(),
        fid,
        text.clone(),
        text,
        any::<(u32, u16, u8)>(),
    )
        .prop_map(|(kind, one, two, name, other, (long, short, byte))| {
            let lock = a_lock(byte % 4, long.into(), short.into());
            let set = Set {
                mode: (byte & 1 != 0).then_some(long),
                size: (byte & 2 != 0).then_some(short.into()),
                mtime: (byte & 4 != 0).then_some(Time::Now),
                ..Set::default()
            };
            match kind {
                0 => Ask::attach(one),
                1 => Ask::walk(one, two, &[name, other][..usize::from(byte % 3)]),
                2 => Ask::open(one, u32::from(short) | libc::O_NONBLOCK as u32),
                3 => Ask::create(one, name, u32::from(byte), 0o700, 0),
                4 => Ask::symlink(one, name, other, 0),
                5 => Ask::node(one, name, libc::S_IFIFO | 0o600, 0),
                6 => Ask::directory(one, name, 0o700, 0),
                7 => Ask::link(one, two, name),
                8 => Ask::rename_file(one, two, name),
                9 => Ask::rename(one, name, two, other),
                10 => Ask::remove(one, name, long),
                11 => Ask::remove_file(one),
                12 => Ask::target(one),
                13 => Ask::attributes(one),
                14 => Ask::set(one, &set),
                15 => Ask::attribute(one, two, other),
                16 => Ask::set_attribute(one, b"user.x", byte.into(), u32::from(byte) % 4),
                17 => Ask::entries(one, long.into(), short.into()),
                18 => Ask::sync(one),
                19 => Ask::lock(one, 0, &lock),
                20 => Ask::lock_there(one, &lock),
                21 => Ask::read(one, short.into(), long),
                22 => Ask::write(one, short.into(), other),
                23 => Ask::space(one),
                24 => Ask::flush(short),
                25 => Ask::authentication(one, name, other, long),
                26 => Ask::version(8192),
                _ => Ask::end_of(one),
            }
        })
}

/// Whether a session that was sent this still serves its tree to the next one.
fn survives(bytes: &[u8], folder: &Folder) {
    let mut stream = session(folder.export(false));
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let _ = stream.write_all(Ask::version(8192).with_tag(NO_TAG));
    let _ = stream.write_all(Ask::attach(0).with_tag(1));
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    // The session ends by itself.
    let (done, end) = mpsc::channel();
    std::thread::spawn(move || done.send(reading.join()));
    // By an error, if it left something unread.
    let _ = end.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
    Client::of(folder, false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_answered(asks in proptest::collection::vec(some_ask(), 1..80)) {
        let folder = Folder::new();
        let mut c = Client::of(&folder, false);
        for ask in asks {
            match ask.kind() {
                kind::VERSION => c.hello(),
                _ => drop(c.ask(ask)),
            }
        }
        c.hello();
        let outside = fs::read_dir(&folder.0).unwrap().count();
        prop_assert_eq!(outside, 2);
        prop_assert_eq!(fs::read(folder.0.join("outside")).unwrap(), b"not served");
    }

    #[test]
    fn no_message_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes, &Folder::new());
    }

    /// Requests with a byte that is another one, all at once.
    #[test]
    fn no_request_is_too_damaged(asks in proptest::collection::vec((some_ask(), any::<u8>(), any::<u8>()), 1..40)) {
        let mut bytes = Vec::new();
        for (tag, (mut ask, at, to)) in asks.into_iter().enumerate() {
            let mut message = ask.with_tag(tag as u16 + 2).to_vec();
            // The length stays, so that what follows is heard.
            let at = 4 + usize::from(at) % (message.len() - 4);
            message[at] ^= to;
            bytes.extend(message);
        }
        survives(&bytes, &Folder::new());
    }
}

#[test]
fn words_of_the_command() {
    let users = crate::users::Users::of_this_system();
    let parse = |words: &str, own: u32| {
        let words: Vec<String> = words.split(' ').map(str::to_string).collect();
        crate::parse(&words, &users, own)
    };
    let options = parse("tcp:564 /srv", 0).unwrap();
    assert_eq!(
        (options.user, options.most, options.read_only),
        (65_534, 64, false)
    );
    assert!(options.believed.is_empty() && options.folder == Path::new("/srv"));
    assert_eq!(parse("- /srv", 1000).unwrap().user, 1000);
    let options = parse(
        "--user 5 --believe 1000-1001 --read-only --most 3 unix:/x /srv",
        0,
    )
    .unwrap();
    assert_eq!(
        (options.user, options.most, options.read_only),
        (5, 3, true)
    );
    assert!(options.believed.has(1001));
    for wrong in [
        "tcp:564",
        "tcp:x /srv",
        "udp:1 /srv",
        "- a b",
        "--most 0 - /",
        "--user",
        "--x - /",
        "--believe a - /",
    ] {
        assert!(parse(wrong, 0).is_err(), "{wrong}");
    }
    for others in ["--user 0 - /", "--believe 1 - /"] {
        assert!(parse(others, 1000).is_err(), "{others}");
    }
}
