//! The server on a disk in memory, with few pages, and who reads everything that is there.

use crate::pages::{Medium, PAGE};
use crate::{Iso, Options, PAGES};
use cairn_abi::pulse;
use cairn_cache::fake::Vm;
use cairn_cache::mapped::{Objects, Refused};
use cairn_cache::Slot;
use cairn_idl::fs::{self, at, o, s};
use cairn_resmgr::fake::Bench;
use cairn_rt::paging::Request;
use cairn_rt::Portal;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{read, remove_dir_all, remove_file, write};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

/// Pages of the cache: fewer than a walk needs.
const SLOTS: u32 = 64;
/// Names that are looked at, and how deep: folders of a broken image can lie in themselves.
const MOST: usize = 600;
const DEEPEST: usize = 20;

#[derive(Clone, Default)]
pub struct Shown(Rc<RefCell<Vm>>);

impl Objects for Shown {
    type Object = Portal;
    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal> {
        Some(Portal(self.0.borrow_mut().make(pages, tag)))
    }
    fn reader(&mut self, object: Portal) -> Option<Portal> {
        Some(Portal(self.0.borrow_mut().reader(object.0)))
    }
    fn change(
        &mut self,
        object: Portal,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused> {
        self.0.borrow_mut().change(object.0, first, slots, pages)
    }
    fn refuse(&mut self, tag: u64, first: u64, pages: u64) {
        self.0.borrow_mut().refuse(tag, first, pages);
    }
    fn written(
        &mut self,
        object: Portal,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)> {
        self.0.borrow_mut().written(object.0, first, pages, runs)
    }
    fn close(&mut self, portal: Portal) {
        self.0.borrow_mut().close(portal.0);
    }
}

/// What tests have of the machine while the server runs.
#[derive(Clone, Default)]
pub struct Outside {
    pub objects: Shown,
    asked: Rc<RefCell<VecDeque<Request>>>,
    /// Reads of the disk.
    pub loads: Rc<RefCell<usize>>,
    pub broken: Rc<RefCell<bool>>,
}

pub struct Memory {
    disk: Rc<Vec<u8>>,
    arena: Vec<u8>,
    populated: Vec<bool>,
    outside: Outside,
}

impl cairn_cache::Memory for Memory {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        self.populated[first as usize..][..count as usize].fill(true);
        true
    }
    fn release(&mut self, first: Slot, count: u32) {
        self.populated[first as usize..][..count as usize].fill(false);
    }
}

impl Medium for Memory {
    fn length(&self) -> u64 {
        self.disk.len() as u64
    }
    fn load(&mut self, pages: &[Slot], offset: u32, at: u64, bytes: u64) -> bool {
        *self.outside.loads.borrow_mut() += 1;
        assert!(offset.is_multiple_of(512) && bytes.is_multiple_of(512) && bytes > 0);
        let room = (pages.len() * PAGE) as u64;
        assert_eq!(
            (u64::from(offset) + bytes).div_ceil(PAGE as u64) * PAGE as u64,
            room
        );
        if *self.outside.broken.borrow() {
            return false;
        }
        let (mut at, mut left, mut from) = (at as usize, bytes as usize, offset as usize);
        for &page in pages {
            assert!(self.populated[page as usize]);
            let some = left.min(PAGE - from);
            let into = page as usize * PAGE + from;
            self.arena[into..into + some].copy_from_slice(&self.disk[at..at + some]);
            (at, left, from) = (at + some, left - some, 0);
        }
        true
    }
    fn bytes(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8] {
        assert!(self.populated[slot as usize]);
        &mut self.arena[slot as usize * PAGE + from..][..length]
    }
    fn wanted(&mut self, _: bool) -> u64 {
        0
    }
    fn asked(&mut self) -> Option<Request> {
        self.outside.asked.borrow_mut().pop_front()
    }
    fn synced(&mut self, _: u64) {}
    type Objects = Shown;
    fn objects(&self) -> Shown {
        self.outside.objects.clone()
    }
}

pub struct Machine {
    pub bench: Bench<Iso<Memory>>,
    pub outside: Outside,
}

/// What there is of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub mode: u32,
    pub uid: u32,
    pub mtime: i64,
    pub target: Vec<u8>,
    pub data: Vec<u8>,
}

impl Machine {
    pub fn open(disk: Rc<Vec<u8>>) -> Option<Machine> {
        let outside = Outside::default();
        let memory = Memory {
            disk,
            arena: vec![0; SLOTS as usize * PAGE],
            populated: vec![false; SLOTS as usize],
            outside: outside.clone(),
        };
        let options = Options {
            device: 5,
            end: || (),
        };
        let server = Iso::open(memory, SLOTS, options)?;
        let bench = Bench::new(server, b"/iso");
        Some(Machine { bench, outside })
    }

    /// Names of a folder, without `.` and `..`; what comes before an error.
    pub fn names(&mut self, path: &[u8]) -> Vec<Vec<u8>> {
        let (b, mut names) = (&mut self.bench, Vec::new());
        let Ok(folder) = b.open(path, o::RDONLY | o::DIRECTORY, 0) else {
            return names;
        };
        while let Some(answer) = b.call(folder, &[fs::READDIR], b"", 1000) {
            let mut records = if answer.result() > 0 {
                answer.bytes()
            } else {
                &[]
            };
            if records.is_empty() || names.len() > MOST {
                break;
            }
            while records.len() >= 19 {
                let length = usize::from(u16::from_le_bytes([records[16], records[17]]));
                let name = &records[19..length];
                let end = name.iter().position(|byte| *byte == 0).unwrap();
                names.push(name[..end].to_vec());
                records = &records[length..];
            }
        }
        b.close(folder);
        names.retain(|name| name != b"." && name != b"..");
        names
    }

    pub fn seen(&mut self, path: &[u8]) -> Result<Seen, i64> {
        let b = &mut self.bench;
        let answer = b
            .call(0, &[fs::STAT, at::SYMLINK_NOFOLLOW], path, 5000)
            .unwrap();
        if answer.result() < 0 {
            return Err(answer.result());
        }
        let word = |i: usize| u64::from_le_bytes(answer.data[i * 8..][..8].try_into().unwrap());
        let mut seen = Seen {
            mode: word(3) as u32,
            uid: (word(3) >> 32) as u32,
            mtime: word(11) as i64,
            ..Seen::default()
        };
        match seen.mode & s::IFMT {
            s::IFLNK => {
                let link = b.call(0, &[fs::READLINK], path, 5000).unwrap();
                if link.result() < 0 {
                    return Err(link.result());
                }
                seen.target = link.bytes().to_vec();
            }
            s::IFREG => {
                let file = b.open(path, o::RDONLY, 0)?;
                loop {
                    let offset = seen.data.len() as u64;
                    let answer = b.call(file, &[fs::READ, offset], b"", 70_001).unwrap();
                    if answer.result() < 0 {
                        b.close(file);
                        return Err(answer.result());
                    }
                    // A broken image may say that a file is as large as all of the disk.
                    if answer.result() == 0 || seen.data.len() > 4 << 20 {
                        break;
                    }
                    seen.data.extend(answer.bytes());
                }
                b.close(file);
            }
            _ => {}
        }
        Ok(seen)
    }

    /// Everything that can be found, with what there is of it.
    pub fn walk(&mut self) -> Vec<(Vec<u8>, Result<Seen, i64>)> {
        let (mut all, mut todo) = (Vec::new(), vec![(Vec::new(), 0)]);
        while let Some((path, depth)) = todo.pop() {
            for name in self.names(&path) {
                let mut inner: Vec<u8> = path.clone();
                if !inner.is_empty() {
                    inner.push(b'/');
                }
                inner.extend(name);
                let seen = self.seen(&inner);
                let folder = matches!(&seen, Ok(seen) if seen.mode & s::IFMT == s::IFDIR);
                if folder && depth < DEEPEST {
                    todo.push((inner.clone(), depth + 1));
                }
                all.push((inner, seen));
                if all.len() == MOST {
                    return all;
                }
            }
        }
        all
    }

    /// A file is mapped and a page of it touched: the page's bytes, or None: it was refused.
    pub fn touch(&mut self, path: &[u8], page: u64) -> Option<Vec<u8>> {
        let file = self.bench.open(path, o::RDONLY, 0).ok()?;
        let answer = self.bench.call(file, &[fs::MMAP, 0, 4096, 0], b"", 0)?;
        self.bench.close(file);
        if answer.result() <= 0 {
            return None;
        }
        let object = *self.outside.objects.0.borrow().objects.keys().next_back()?;
        let tag = self.outside.objects.0.borrow_mut().object(object).tag;
        if page >= self.outside.objects.0.borrow_mut().object(object).pages {
            return None;
        }
        let (first, pages) = (page, 1);
        self.outside
            .objects
            .0
            .borrow_mut()
            .touch(object, page, false);
        let request = Request::Pages { tag, first, pages };
        self.outside.asked.borrow_mut().push_back(request);
        self.bench.pulse(pulse::NOTIFY, 1, PAGES);
        let slot = self
            .outside
            .objects
            .0
            .borrow_mut()
            .touch(object, page, false)?;
        let server = &mut self.bench.server;
        Some(server.page(slot).to_vec())
    }
}

/// An image that xorriso makes of this tree, which `fill` puts into a folder.
pub fn image(name: &str, options: &[&str], fill: impl FnOnce(&Path)) -> Rc<Vec<u8>> {
    let place = std::env::temp_dir();
    let folder = place.join(format!("iso-{}-{name}", std::process::id()));
    let _ = remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    fill(&folder);
    let path = folder.with_extension("iso");
    let mut command = Command::new("xorriso");
    command.args(["-as", "mkisofs", "-quiet"]).args(options);
    let output = command.arg("-o").arg(&path).arg(&folder).output();
    let output = output.expect("xorriso is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let bytes = read(&path).unwrap();
    remove_dir_all(&folder).unwrap();
    remove_file(&path).unwrap();
    Rc::new(bytes)
}

pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}

/// What most tests look at.
pub fn tree(top: &Path) {
    let folder = |name: &str| std::fs::create_dir_all(top.join(name)).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, top.join(name)).unwrap();
    folder("folder/in/it");
    folder("many");
    write(top.join("small"), "small").unwrap();
    write(top.join("empty"), "").unwrap();
    write(top.join("folder/Large.data"), pattern(50_001)).unwrap();
    write(
        top.join("folder/in/it/A name of more than eight letters"),
        "deep",
    )
    .unwrap();
    for i in 0..60 {
        write(top.join(format!("many/number {i}")), pattern(i)).unwrap();
    }
    link("../small", "folder/up");
    link("/absolute/../path//x", "absolute");
    link(&"long/".repeat(80), "long");
    link(&"p".repeat(255), &"n".repeat(255));
}
