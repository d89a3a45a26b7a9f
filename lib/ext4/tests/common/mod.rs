//! What the tests share: images from `mke2fs`, a disk in memory that remembers what was written between flushes, and a caller that does what a server does.
#![allow(dead_code)] // each test uses a part

pub mod world;

use cairn_ext4::{Error, Fs, Mount, Place, Progress, Step, Time};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cairn-ext4-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program of e2fsprogs: they are where only the superuser looks.
pub fn tool(name: &str) -> Command {
    for folder in ["/usr/sbin", "/sbin", "/usr/local/sbin"] {
        let path = Path::new(folder).join(name);
        if path.exists() {
            return Command::new(path);
        }
    }
    Command::new(name)
}

fn output(mut command: Command, good: &[i32]) -> String {
    let output = command
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error} (package e2fsprogs)"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| good.contains(&code)),
        "{command:?}: {}\n{text}",
        output.status
    );
    text
}

/// An image as Debian makes it, with further options, filled from a folder.
pub fn make(block_size: u32, mib: u64, options: &[&str], from: Option<&Path>) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.join("image");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(mib << 20)
        .unwrap();
    let mut command = tool("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-b", &block_size.to_string()]);
    command.args(options);
    if let Some(from) = from {
        command.arg("-d").arg(from);
    }
    command.arg(&path);
    output(command, &[0]);
    std::fs::read(&path).unwrap()
}

pub fn with_tool(image: &[u8], name: &str, args: &[&str], good: &[i32]) -> (Vec<u8>, String) {
    let folder = Folder::new();
    let path = folder.join("image");
    std::fs::write(&path, image).unwrap();
    let mut command = tool(name);
    command.args(args).arg(&path);
    let text = output(command, good);
    (std::fs::read(&path).unwrap(), text)
}

/// `e2fsck -fn` must find nothing at all.
pub fn must_be_clean(image: &[u8]) {
    with_tool(image, "e2fsck", &["-fn"], &[0]);
}

#[derive(Clone)]
pub enum Event {
    Write(u64, Rc<[u8]>),
    Flush,
    /// So many transactions are durable.
    Mark(usize),
}

#[derive(Clone, Default)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pub events: Option<Vec<Event>>,
    /// The flush of steps with this name is left out.
    pub without: Option<&'static str>,
}

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Disk {
        Disk {
            bytes,
            ..Disk::default()
        }
    }

    pub fn write(&mut self, at: u64, data: &[u8]) {
        let place = self
            .bytes
            .get_mut(at as usize..at as usize + data.len())
            .unwrap_or_else(|| panic!("write outside the image at {at}"));
        place.copy_from_slice(data);
        if let Some(events) = &mut self.events {
            events.push(Event::Write(at, data.into()));
        }
    }

    pub fn do_step(&mut self, step: &Step, block_size: usize) {
        for (block, data) in &step.writes {
            assert_eq!(data.len(), block_size);
            self.write(block * block_size as u64, data);
        }
        if step.flush && self.without != Some(step.name) {
            if let Some(events) = &mut self.events {
                events.push(Event::Flush);
            }
        }
    }

    fn read(&self, block: u64, block_size: usize) -> &[u8] {
        let at = block as usize * block_size;
        self.bytes
            .get(at..at + block_size)
            .unwrap_or_else(|| panic!("read outside the image: block {block}"))
    }
}

/// Who calls the library.
pub struct Caller {
    pub fs: Fs,
    pub disk: Disk,
    pub now: Time,
    pub size: usize,
    pub cache: usize,
    /// Commits that an operation asked for.
    pub forced: u32,
    /// The first transaction.
    pub first: u32,
}

pub const CACHE: usize = 2048;

impl Caller {
    pub fn open(disk: Disk, write: bool) -> Result<Caller, Error> {
        Self::open_with(disk, write, CACHE)
    }

    pub fn open_with(disk: Disk, write: bool, cache: usize) -> Result<Caller, Error> {
        Self::follow(disk, write, cache, &[])
    }

    /// Where somebody with the same memory may have died.
    pub fn follow(
        mut disk: Disk,
        write: bool,
        cache: usize,
        kept: &'static [AtomicU64],
    ) -> Result<Caller, Error> {
        let now = Time {
            sec: 1_700_000_000,
            nsec: 5,
        };
        if disk.bytes.len() < 2048 {
            return Err(Error::Unsupported("no superblock"));
        }
        let mut mount = Mount::new(
            &disk.bytes[1024..2048],
            disk.bytes.len() as u64,
            cache,
            write,
        )?;
        mount.keep_in(kept);
        let size = mount.block_size();
        for _ in 0..1_000_000 {
            match mount.run(now) {
                Ok(Progress::Done) => {
                    let fs = mount.finish()?;
                    let size = fs.shape().block_size;
                    let mut caller = Caller {
                        fs,
                        disk,
                        now,
                        size,
                        cache,
                        forced: 0,
                        first: 0,
                    };
                    caller.first = caller.fs.transaction();
                    if write {
                        caller.finish_leftovers()?;
                    }
                    return Ok(caller);
                }
                Ok(Progress::Step(step)) => disk.do_step(&step, size),
                Err(Error::Need { block, count }) => {
                    for block in block..block + u64::from(count) {
                        mount.supply(block, disk.read(block, size));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        panic!("opening does not end");
    }

    fn finish_leftovers(&mut self) -> Result<(), Error> {
        let now = self.now;
        while let Some(ino) = self.act(|fs| fs.leftover(|_| false))? {
            while !self.act(|fs| fs.finish(ino, now))? {}
        }
        Ok(())
    }

    /// Does an operation as often as it takes.
    pub fn act<R>(
        &mut self,
        mut operation: impl FnMut(&mut Fs) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut commits = 0;
        for _ in 0..200_000 {
            match operation(&mut self.fs) {
                Err(Error::Need { block, count }) => {
                    for block in block..block + u64::from(count) {
                        let data = self.disk.read(block, self.size);
                        self.fs.supply(block, data);
                    }
                }
                Err(Error::CommitFirst) => {
                    commits += 1;
                    self.forced += 1;
                    assert!(commits < 10, "commits do not help");
                    self.sync()?;
                }
                other => return other,
            }
        }
        panic!("an operation does not end");
    }

    /// A block that was asked for.
    pub fn supply(&mut self, block: u64) {
        let data = self.disk.read(block, self.size);
        self.fs.supply(block, data);
    }

    /// Steps until there are none.
    pub fn steps(&mut self) -> Result<(), Error> {
        for _ in 0..100_000 {
            if !self.one_step()? {
                return Ok(());
            }
        }
        panic!("steps do not end");
    }

    /// One step of the device, if there is one to do.
    pub fn one_step(&mut self) -> Result<bool, Error> {
        let now = self.now;
        for _ in 0..100_000 {
            match self.fs.step(now) {
                Ok(Some(step)) => {
                    self.disk.do_step(&step, self.size);
                    let before = self.fs.durable();
                    self.fs.stepped(true);
                    if self.fs.durable() != before {
                        let mark = self.fs.durable().wrapping_sub(self.first) as usize + 1;
                        if let Some(events) = &mut self.disk.events {
                            events.push(Event::Mark(mark));
                        }
                    }
                    return Ok(true);
                }
                Ok(None) => return Ok(false),
                Err(Error::Need { block, count }) => {
                    for block in block..block + u64::from(count) {
                        let data = self.disk.read(block, self.size);
                        self.fs.supply(block, data);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        panic!("a step does not come");
    }

    pub fn sync(&mut self) -> Result<(), Error> {
        self.fs.commit();
        self.steps()
    }

    pub fn close(mut self) -> Disk {
        self.fs.close();
        self.steps().unwrap();
        assert!(!self.fs.is_writable());
        self.disk
    }

    /// Writes bytes as a server without any cache would.
    pub fn write(&mut self, ino: u32, at: u64, data: &[u8]) -> Result<(), Error> {
        let size = self.size as u64;
        let end = at + data.len() as u64;
        let now = self.now;
        let mut from = at;
        while from < end {
            let block = (from / size) as u32;
            let count = (end.div_ceil(size) - u64::from(block)) as u32;
            let piece = self.act(|fs| fs.map(ino, block, count))?[0];
            let (start, len) = match piece.place {
                Place::Hole => {
                    let run = self.act(|fs| fs.reserve(ino, block, piece.len))?;
                    (run.start, run.len)
                }
                Place::Written(start) | Place::Unwritten(start) => (start, piece.len),
            };
            let base = u64::from(block) * size;
            let to = end.min(base + u64::from(len) * size);
            let place = start * size;
            if !matches!(piece.place, Place::Written(_)) {
                self.disk
                    .write(place, &vec![0; (u64::from(len) * size) as usize]);
            }
            let part = &data[(from - at) as usize..(to - at) as usize];
            self.disk.write(place + from - base, part);
            match piece.place {
                Place::Hole => {
                    let run = cairn_ext4::Run { start, len };
                    if let Err(error) = self.act(|fs| fs.attach(ino, block, run, to, now)) {
                        self.fs.unreserve(run);
                        return Err(error);
                    }
                }
                Place::Unwritten(_) => self.act(|fs| fs.written(ino, block, len, to, now))?,
                Place::Written(_) => self.act(|fs| fs.extend(ino, to, now))?,
            }
            from = to;
        }
        Ok(())
    }

    pub fn read(&mut self, ino: u32) -> Result<Vec<u8>, Error> {
        let bytes = self.act(|fs| fs.inode(ino))?.size;
        let size = self.size as u64;
        let mut data = vec![0; bytes as usize];
        let mut block = 0;
        while u64::from(block) * size < bytes {
            let count = (bytes.div_ceil(size) - u64::from(block)) as u32;
            for piece in self.act(|fs| fs.map(ino, block, count))? {
                if let Place::Written(start) = piece.place {
                    for one in 0..u64::from(piece.len) {
                        let to = ((u64::from(piece.at) + one) * size) as usize;
                        let len = self.size.min(data.len() - to);
                        data[to..to + len]
                            .copy_from_slice(&self.disk.read(start + one, self.size)[..len]);
                    }
                }
                block = piece.at + piece.len;
            }
        }
        Ok(data)
    }

    /// As truncate(2): what is left of the last block is zeroed.
    pub fn truncate(&mut self, ino: u32, bytes: u64) -> Result<(), Error> {
        let now = self.now;
        let old = self.act(|fs| fs.inode(ino))?.size;
        let size = self.size as u64;
        if bytes < old && !bytes.is_multiple_of(size) {
            let piece = self.act(|fs| fs.map(ino, (bytes / size) as u32, 1))?[0];
            if let Place::Written(block) = piece.place {
                let rest = bytes % size;
                self.disk
                    .write(block * size + rest, &vec![0; (size - rest) as usize]);
            }
        }
        let mut done = self.act(|fs| fs.set_size(ino, bytes, now))?;
        while !done {
            done = self.act(|fs| fs.cut_rest(ino, now))?;
        }
        Ok(())
    }

    /// Frees a file without names.
    pub fn finish(&mut self, ino: u32) -> Result<(), Error> {
        let now = self.now;
        while !self.act(|fs| fs.finish(ino, now))? {}
        Ok(())
    }

    pub fn list(&mut self, dir: u32) -> Result<Vec<(Vec<u8>, u32)>, Error> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            let some = self.act(|fs| fs.read_directory(dir, from))?;
            let Some(last) = some.last() else {
                return Ok(all);
            };
            assert!(last.next > from, "a listing that goes back");
            from = last.next;
            all.extend(some.into_iter().map(|one| (one.name, one.ino)));
            assert!(all.len() < 10_000_000);
        }
    }
}

/// Numbers that look random and are the same every time.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// How often, if the environment says nothing else.
pub fn cases(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}
