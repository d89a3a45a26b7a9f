//! A 9P server in memory. As QEMU's, its files are paths, and open ones what was there when they were opened. It answers when, and in what order, a test wants.

use crate::asks::Wire;
use cairn_idl::errno::*;
use cairn_idl::fs::s;
use cairn_ninep::kind;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

#[derive(Clone, Default)]
pub struct Inode {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u64,
    pub data: Vec<u8>,
    pub names: BTreeMap<Vec<u8>, usize>,
}

type Path = Vec<Vec<u8>>;

#[derive(Clone)]
struct Fid {
    path: Path,
    open: Option<(usize, bool)>,
}

/// What it does to an answer before it goes.
type Damage = Box<dyn FnMut(&mut Vec<u8>)>;

#[derive(Default)]
pub struct State {
    pub inodes: Vec<Inode>,
    fids: BTreeMap<u32, Fid>,
    asked: VecDeque<(usize, Vec<u8>)>,
    /// Kinds that are not answered now.
    pub held: Vec<u8>,
    pub damage: Option<Damage>,
    /// How often each kind was asked.
    pub counts: BTreeMap<u8, u32>,
    pub no_owners: bool,
    /// Which attributes the last SETATTR set.
    pub set: u32,
    /// The most that were under way at a time.
    pub most: usize,
}

#[derive(Clone, Default)]
pub struct Host(pub Rc<RefCell<State>>);

struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }
    fn u16(&mut self) -> usize {
        let bytes = self.bytes(2);
        u16::from_le_bytes(bytes.try_into().unwrap()).into()
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }
    fn text(&mut self) -> Vec<u8> {
        let length = self.u16();
        self.bytes(length).to_vec()
    }
}

type Reply = Result<Vec<u8>, i64>;

impl State {
    fn resolve(&self, path: &Path) -> Result<usize, i64> {
        path.iter().try_fold(0, |at, name| {
            let names = &self.inodes[at].names;
            names.get(name).copied().ok_or(ENOENT)
        })
    }

    fn fid(&self, fid: u32) -> Result<&Fid, i64> {
        self.fids.get(&fid).ok_or(EBADF)
    }

    fn inode(&self, fid: u32) -> Result<usize, i64> {
        self.resolve(&self.fid(fid)?.path)
    }

    fn qid(&self, inode: usize) -> Vec<u8> {
        let kind = match self.inodes[inode].mode & s::IFMT {
            s::IFDIR => 0x80,
            s::IFLNK => 2,
            _ => 0,
        };
        let mut qid = vec![kind, 0, 0, 0, 0];
        qid.extend((inode as u64 + 100).to_le_bytes());
        qid
    }

    pub fn make(&mut self, dir: usize, name: &[u8], mode: u32, data: &[u8]) -> usize {
        self.inodes.push(Inode {
            mode,
            links: 1,
            data: data.to_vec(),
            ..Inode::default()
        });
        let new = self.inodes.len() - 1;
        self.inodes[dir].names.insert(name.to_vec(), new);
        new
    }

    fn add(&mut self, fid: u32, name: &[u8], mode: u32, data: &[u8]) -> Reply {
        let dir = self.inode(fid)?;
        if self.inodes[dir].names.contains_key(name) {
            return Err(EEXIST);
        }
        let new = self.make(dir, name, mode, data);
        Ok(self.qid(new))
    }

    fn remove(&mut self, dir: usize, name: &[u8]) -> Result<usize, i64> {
        let names = &mut self.inodes[dir].names;
        let inode = names.remove(name).ok_or(ENOENT)?;
        self.inodes[inode].links -= 1;
        Ok(inode)
    }

    /// As the device's reset has it.
    pub fn reset(&mut self) {
        self.fids.clear();
        self.asked.clear();
    }

    pub fn files(&self) -> usize {
        self.fids.len()
    }

    fn serve(&mut self, asked: u8, mut w: Words) -> Reply {
        match asked {
            kind::VERSION => {
                let mut body = w.u32().to_le_bytes().to_vec();
                body.extend(b"\x08\x009P2000.L");
                Ok(body)
            }
            kind::ATTACH => {
                let root = Fid {
                    path: Vec::new(),
                    open: None,
                };
                self.fids.insert(w.u32(), root);
                Ok(self.qid(0))
            }
            kind::WALK => {
                let (from, new, count) = (w.u32(), w.u32(), w.u16());
                if self.fids.contains_key(&new) {
                    // Who is told nonsense may believe that it failed.
                    assert!(self.damage.is_some(), "file {new} is in use");
                    return Err(EBADF);
                }
                let mut fid = self.fid(from)?.clone();
                assert!(
                    fid.open.is_none() || self.damage.is_some(),
                    "a walk from an open file"
                );
                let mut body = (count as u16).to_le_bytes().to_vec();
                for _ in 0..count {
                    fid.path.push(w.text());
                    let inode = self.resolve(&fid.path)?;
                    body.extend(self.qid(inode));
                }
                self.fids.insert(new, fid);
                Ok(body)
            }
            kind::CLUNK => {
                let fid = w.u32();
                self.fids.remove(&fid).ok_or(EBADF).map(|_| Vec::new())
            }
            kind::GETATTR => {
                let inode = self.inode(w.u32())?;
                let about = &self.inodes[inode];
                let mut body = 0x7ffu64.to_le_bytes().to_vec();
                body.extend(self.qid(inode));
                for number in [about.mode, about.uid, about.gid] {
                    body.extend(number.to_le_bytes());
                }
                let size = about.data.len() as u64;
                for number in [about.links, 0, size, 4096, size.div_ceil(512)] {
                    body.extend(number.to_le_bytes());
                }
                body.extend([0; 80]);
                Ok(body)
            }
            kind::SETATTR => {
                let inode = self.inode(w.u32())?;
                let valid = w.u32();
                self.set = valid;
                let [mode, uid, gid] = [w.u32(), w.u32(), w.u32()];
                if valid & 6 != 0 && self.no_owners {
                    return Err(EPERM);
                }
                let size = w.u64() as usize;
                let about = &mut self.inodes[inode];
                if valid & 1 != 0 {
                    let same = mode & s::IFMT == about.mode & s::IFMT;
                    assert!(same || self.damage.is_some());
                    about.mode = mode;
                }
                about.uid = if valid & 2 != 0 { uid } else { about.uid };
                about.gid = if valid & 4 != 0 { gid } else { about.gid };
                if valid & 8 != 0 {
                    about.data.resize(size, 0);
                }
                Ok(Vec::new())
            }
            kind::OPEN => {
                let (number, flags) = (w.u32(), w.u32());
                let inode = self.inode(number)?;
                let body = [self.qid(inode), vec![0; 4]].concat();
                let fid = self.fids.get_mut(&number).ok_or(EBADF)?;
                assert!(fid.open.is_none() || self.damage.is_some(), "opened twice");
                fid.open = Some((inode, flags & 0o2000 != 0));
                Ok(body)
            }
            kind::READ | kind::READDIR => {
                let (fid, offset, count) = (w.u32(), w.u64() as usize, w.u32() as usize);
                let (inode, _) = self.fid(fid)?.open.ok_or(EBADF)?;
                let about = &self.inodes[inode];
                let mut data = Vec::new();
                if asked == kind::READ {
                    let rest = about.data.get(offset..).unwrap_or(&[]);
                    data.extend(&rest[..rest.len().min(count)]);
                } else {
                    let dots = [(&b"."[..], inode), (b"..", 0)];
                    let names = about.names.iter().map(|(name, &at)| (&name[..], at));
                    let all = dots.into_iter().chain(names).enumerate();
                    for (place, (name, at)) in all.skip(offset) {
                        if data.len() + 24 + name.len() > count {
                            break;
                        }
                        data.extend(self.qid(at));
                        data.extend((place as u64 + 1).to_le_bytes());
                        data.push((self.inodes[at].mode >> 12) as u8);
                        data.extend((name.len() as u16).to_le_bytes());
                        data.extend(name);
                    }
                }
                Ok([(data.len() as u32).to_le_bytes().to_vec(), data].concat())
            }
            kind::WRITE => {
                let (fid, mut offset, count) = (w.u32(), w.u64() as usize, w.u32() as usize);
                let (inode, appends) = self.fid(fid)?.open.ok_or(EBADF)?;
                let about = &mut self.inodes[inode];
                if appends {
                    offset = about.data.len();
                }
                let end = about.data.len().max(offset + count);
                about.data.resize(end, 0);
                about.data[offset..offset + count].copy_from_slice(w.bytes(count));
                Ok((count as u32).to_le_bytes().to_vec())
            }
            kind::FSYNC => self.fid(w.u32()).map(|_| Vec::new()),
            kind::STATFS => Ok(vec![1; 60]),
            kind::READLINK => {
                let target = self.inodes[self.inode(w.u32())?].data.clone();
                Ok([(target.len() as u16).to_le_bytes().to_vec(), target].concat())
            }
            kind::MKDIR => {
                let (fid, name) = (w.u32(), w.text());
                self.add(fid, &name, s::IFDIR | w.u32(), b"")
            }
            kind::MKNOD => {
                let (fid, name) = (w.u32(), w.text());
                self.add(fid, &name, w.u32(), b"")
            }
            kind::SYMLINK => {
                let (fid, name, target) = (w.u32(), w.text(), w.text());
                self.add(fid, &name, s::IFLNK | 0o777, &target)
            }
            kind::LINK => {
                let (dir, inode) = (self.inode(w.u32())?, self.inode(w.u32())?);
                self.inodes[dir].names.insert(w.text(), inode);
                self.inodes[inode].links += 1;
                Ok(Vec::new())
            }
            kind::UNLINKAT => {
                let (dir, name, flags) = (self.inode(w.u32())?, w.text(), w.u32());
                let inode = *self.inodes[dir].names.get(&name).ok_or(ENOENT)?;
                match flags & 0x200 != 0 {
                    true if !self.inodes[inode].names.is_empty() => Err(ENOTEMPTY),
                    _ => self.remove(dir, &name).map(|_| Vec::new()),
                }
            }
            kind::RENAMEAT => {
                let (from, name) = (w.u32(), w.text());
                let (to, new) = (w.u32(), w.text());
                let within = |fid, name: &Vec<u8>| -> Result<Path, i64> {
                    let mut path = self.fid(fid)?.path.clone();
                    path.push(name.clone());
                    Ok(path)
                };
                let (old_path, new_path) = (within(from, &name)?, within(to, &new)?);
                let (from, to) = (self.inode(from)?, self.inode(to)?);
                let inode = self.remove(from, &name)?;
                self.inodes[inode].links += 1;
                if self.inodes[to].names.contains_key(&new) {
                    self.remove(to, &new)?;
                }
                self.inodes[to].names.insert(new, inode);
                // The paths of files go with it.
                for fid in self.fids.values_mut() {
                    if fid.path.starts_with(&old_path) {
                        let rest = fid.path.split_off(old_path.len());
                        fid.path = [new_path.clone(), rest].concat();
                    }
                }
                Ok(Vec::new())
            }
            other => panic!("kind {other}"),
        }
    }

    fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let length = u32::from_le_bytes(message[..4].try_into().unwrap());
        assert_eq!(length as usize, message.len());
        let asked = message[4];
        *self.counts.entry(asked).or_default() += 1;
        let (kind, body) = match self.serve(asked, Words(&message[7..])) {
            Ok(body) => (asked + 1, body),
            Err(number) => (kind::ERROR, (number as u32).to_le_bytes().to_vec()),
        };
        let mut answer = (7 + body.len() as u32).to_le_bytes().to_vec();
        answer.push(kind);
        answer.extend(&message[5..7]);
        answer.extend(body);
        if let Some(damage) = &mut self.damage {
            damage(&mut answer);
        }
        answer
    }
}

impl Host {
    pub fn new() -> Host {
        let host = Host::default();
        host.0.borrow_mut().inodes.push(Inode {
            mode: s::IFDIR | 0o755,
            links: 2,
            ..Inode::default()
        });
        host
    }

    pub fn count(&self, kind: u8) -> u32 {
        self.0.borrow().counts.get(&kind).copied().unwrap_or(0)
    }
}

impl Wire for Host {
    fn tags(&self) -> usize {
        8
    }

    fn send(&mut self, tag: usize, message: &[u8]) -> bool {
        let state = &mut *self.0.borrow_mut();
        state.asked.push_back((tag, message.to_vec()));
        state.most = state.most.max(state.asked.len());
        true
    }

    fn received(&mut self) -> Option<(usize, Vec<u8>)> {
        let state = &mut *self.0.borrow_mut();
        let held = &state.held;
        let place = state
            .asked
            .iter()
            .position(|(_, m)| !held.contains(&m[4]))?;
        let (tag, message) = state.asked.remove(place)?;
        Some((tag, state.answer(&message)))
    }

    fn interrupts(&self) -> bool {
        true
    }

    fn is_broken(&mut self) -> bool {
        false
    }
}
