//! The manager of /dev and of `dev:`.

use crate::disk::Disks;
use crate::links::{By, ALL};
use crate::random::Generator;
use crate::table::{self, Entry, Kind};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, o, poll, s, Stat, DEVICE_MOST};
use cairn_idl::label;
use cairn_log_line::{Line, Names, HEAD};
use cairn_resmgr::layout::{self, makedev};
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::{
    Context, Data, Dirents, Failure, Handle, Meta, Opened, Readiness, Server, Transport,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

/// What the server needs beside requests.
pub trait Machine {
    /// Bytes of the nucleus log from `offset` on (as far as they are still there) and where to go on.
    fn log_read(&mut self, offset: u64, into: &mut [u8]) -> (usize, u64);
    fn log_write(&mut self, line: &[u8]);
    /// Something that others cannot know, for the generator.
    fn entropy(&mut self) -> [u8; 16];
}

/// Badge of the portal behind the scheme `dev:`.
pub const BADGE_NUMBERS: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Root,
    /// The root of `dev:`.
    Numbers,
    /// An entry of the table.
    Entry(usize),
    /// A disk or partition.
    Disk(usize),
    /// A directory below `disk`, and a name of a disk there.
    Names(By),
    Name(By, usize),
}

/// Position of a reader of /dev/kmsg.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    offset: u64,
    sequence: u64,
}

/// Longest line of the nucleus log, and of what a program writes to it.
const LINE: usize = 1024;
/// Key of readers that wait for a log line, and how often they look: the nucleus tells nobody of new lines.
const LOG_KEY: u64 = 1;
const LOG_TICK: u64 = 200_000_000;
/// Answers of the generator between two looks at the machine's entropy.
const RESEED: u32 = 256;

/// Inodes of the disks' names.
const NAMES_INO: u64 = 0x100;
/// Debian's group of disks.
const GROUP_DISK: u32 = 6;

const DIRECTORY_MODE: u32 = s::IFDIR | 0o755;

pub struct Devfs<M: Machine> {
    machine: M,
    entries: Vec<Entry>,
    disks: Disks,
    generator: Generator,
    until_reseed: u32,
    /// Start of the system, for stat.
    born: i64,
    zeroes: Vec<u8>,
    scratch: Vec<u8>,
    record: Vec<u8>,
    /// Names of the log's domains, and how far it was looked through for them.
    names: Names,
    named_to: u64,
}

impl<M: Machine> Devfs<M> {
    /// For a machine with so many serial lines and these disks, at this time (seconds since 1970).
    pub fn new(machine: M, lines: u32, born: i64, disks: Disks) -> Devfs<M> {
        let mut devfs = Devfs {
            machine,
            entries: table::entries(lines),
            disks,
            generator: Generator::default(),
            until_reseed: 0,
            born,
            zeroes: vec![0; DEVICE_MOST],
            scratch: vec![0; DEVICE_MOST],
            record: Vec::new(),
            names: Names::default(),
            named_to: 0,
        };
        devfs.learn_names();
        devfs
    }

    fn kind(&self, node: Node) -> Option<Kind> {
        match node {
            Node::Entry(index) => self.entries.get(index).map(|entry| entry.kind),
            _ => None,
        }
    }

    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    fn named(&self, name: &[u8]) -> Option<Node> {
        let mut parts = self.disks.there();
        if let Some((part, _)) = parts.find(|(_, part)| part.name.as_bytes() == name) {
            return Some(Node::Disk(part));
        }
        let mut entries = self.entries.iter();
        let found = entries.position(|entry| entry.name.as_bytes() == name)?;
        Some(Node::Entry(found)).filter(|_| self.is_shown(found))
    }

    fn numbered(&self, rdev: u64) -> Option<Node> {
        let mut parts = self.disks.there();
        let is = |(major, minor)| makedev(major, minor) == rdev;
        if let Some((part, _)) = parts.find(|(_, part)| is(part.numbers)) {
            return Some(Node::Disk(part));
        }
        let mut entries = self.entries.iter();
        entries
            .position(|entry| entry.rdev == rdev)
            .map(Node::Entry)
    }

    /// Without disks there is no directory of their names.
    fn is_shown(&self, entry: usize) -> bool {
        self.entries[entry].kind != Kind::Disks || !self.disks.parts().is_empty()
    }

    /// Those below `disk`: each has a name at least.
    fn directories(&self) -> Vec<By> {
        let all = ALL.into_iter().map(|(by, _)| by);
        all.filter(|by| !self.disks.links(*by).is_empty()).collect()
    }

    /// Where a name of a disk leads.
    fn led_to(&self, part: usize) -> Option<String> {
        let part = self.disks.parts().get(part)?;
        Some(format!("../../{}", part.name))
    }

    fn children(&mut self, cx: &mut Context, dir: Node) -> Answer<Vec<(String, Node)>> {
        Ok(match dir {
            Node::Root => {
                let entries = (0..self.entries.len()).filter(|at| self.is_shown(*at));
                let named = |at: usize| (self.entries[at].name.clone(), Node::Entry(at));
                let disks = self
                    .disks
                    .there()
                    .map(|(at, part)| (part.name.clone(), Node::Disk(at)));
                entries.map(named).chain(disks).collect()
            }
            Node::Names(by) => {
                self.disks.look(cx)?;
                let links = self.disks.links(by).into_iter();
                links
                    .map(|(name, part)| (name, Node::Name(by, part)))
                    .collect()
            }
            dir if self.kind(dir) == Some(Kind::Disks) => {
                self.disks.look(cx)?;
                let all = self.directories().into_iter();
                all.map(|by| (by.name().into(), Node::Names(by))).collect()
            }
            _ => Vec::new(),
        })
    }

    fn random(&mut self, length: usize) -> Data<'_> {
        if self.until_reseed == 0 {
            let fresh = self.machine.entropy();
            self.generator.mix(&fresh);
            self.until_reseed = RESEED;
        }
        self.until_reseed -= 1;
        let piece = &mut self.scratch[..length.min(DEVICE_MOST)];
        self.generator.fill(piece);
        Data::from(&*piece)
    }

    fn zero(&self, length: usize) -> Data<'_> {
        Data::from(&self.zeroes[..length.min(DEVICE_MOST)])
    }

    /// Look for names in what was written to the log since the last time: when lines are read, those that told them may be overwritten.
    fn learn_names(&mut self) {
        let mut line = [0; LINE + HEAD];
        loop {
            let (count, next) = self.machine.log_read(self.named_to, &mut line);
            let Some(end) = line[..count].iter().position(|&byte| byte == b'\n') else {
                // A line that is being written comes the next time. One that is none is passed over.
                if count == line.len() {
                    self.named_to = next;
                    continue;
                }
                return;
            };
            self.names.learn(&line[..end]);
            self.named_to = next - count as u64 + end as u64 + 1;
        }
    }

    /// One line of the log as a record of Linux's /dev/kmsg.
    fn log_record(
        &mut self,
        cx: &mut Context,
        reader: &mut Reader,
        length: usize,
    ) -> Answer<Data<'static>> {
        if reader.offset == 0 {
            self.learn_names();
        }
        let mut line = [0; LINE + HEAD];
        let (count, next) = self.machine.log_read(reader.offset, &mut line);
        // The line that began where the ring no longer reaches back to is cut; the next one is whole.
        let start = next - count as u64;
        let end = match line[..count].iter().position(|&byte| byte == b'\n') {
            Some(end) => end,
            None if count == line.len() => count,
            None => {
                // While disks wait for their tick it comes at once, and readers look again.
                if !self.disks.is_gathering() {
                    let now = cx.transport.monotonic();
                    cx.wake_at(Some(now + LOG_TICK));
                }
                return Err(Failure::Wait(LOG_KEY));
            }
        };
        // A domain's number may be another's by now: each line is shown with the name of its time.
        self.names.learn(&line[..end]);
        let Line { microseconds, text } = Line::parse(&line[..end]);
        self.record.clear();
        self.record
            .extend_from_slice(format!("6,{},{},-;", reader.sequence, microseconds).as_bytes());
        self.names.put_into(text, &mut self.record);
        self.record.push(b'\n');
        if self.record.len() > length {
            return Err(Failure::Errno(EINVAL));
        }
        cx.store(0, &self.record)?;
        reader.offset = (start + end as u64 + 1).min(next);
        reader.sequence += 1;
        Ok(Data::stored(self.record.len()))
    }

    fn log_write(&mut self, cx: &mut Context, length: usize) -> Answer<usize> {
        if length > LINE {
            return Err(Failure::Errno(EINVAL));
        }
        let line = &mut self.scratch[..length];
        cx.fetch(0, line)?;
        // A priority in front (`<6>`) is for filters that there are none of.
        let text = match (line.first(), line.iter().position(|&byte| byte == b'>')) {
            (Some(b'<'), Some(end)) if end < 5 => &line[end + 1..],
            _ => line,
        };
        self.machine.log_write(text.trim_ascii_end());
        Ok(length)
    }
}

impl<M: Machine> Server for Devfs<M> {
    type Node = Node;
    type State = Reader;

    fn root(&mut self, badge: u64) -> Node {
        if badge == BADGE_NUMBERS {
            Node::Numbers
        } else {
            Node::Root
        }
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let directory = Meta {
            mode: DIRECTORY_MODE,
            ino: 1,
            ..Meta::default()
        };
        let missing = Failure::Errno(ENOENT);
        match node {
            Node::Root | Node::Numbers => Ok(directory),
            Node::Names(by) => Ok(Meta {
                ino: NAMES_INO + by as u64,
                ..directory
            }),
            Node::Name(by, part) => Ok(Meta {
                mode: s::IFLNK | 0o777,
                ino: NAMES_INO + (by as u64 + 1) * 0x1000 + part as u64,
                size: self.led_to(part).ok_or(missing)?.len() as u64,
                ..directory
            }),
            Node::Disk(part) => {
                let (major, minor) = self.disks.parts().get(part).ok_or(missing)?.numbers;
                let rdev = makedev(major, minor);
                Ok(Meta {
                    mode: s::IFBLK | 0o660,
                    ino: device::inode(rdev),
                    rdev,
                    // Not in stat, but as where seeking finds the end.
                    size: self.disks.size(part),
                    gid: GROUP_DISK,
                    ..directory
                })
            }
            Node::Entry(index) => {
                let entry = self.entries.get(index).ok_or(missing)?;
                Ok(Meta {
                    mode: entry.mode,
                    ino: match entry.rdev {
                        0 => 16 + index as u64,
                        rdev => device::inode(rdev),
                    },
                    rdev: entry.rdev,
                    size: match entry.kind {
                        Kind::Link(target) => target.len() as u64,
                        _ => 0,
                    },
                    ..directory
                })
            }
        }
    }

    fn lookup(&mut self, cx: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        let missing = Failure::Errno(ENOENT);
        let node = match dir {
            Node::Root => self.named(name).ok_or(missing)?,
            // A device node of another file system that names nothing here is a device without a driver.
            Node::Numbers => number(name)
                .and_then(|rdev| self.numbered(rdev))
                .ok_or(Failure::Errno(ENXIO))?,
            Node::Names(by) => {
                self.disks.look(cx)?;
                let mut links = self.disks.links(by).into_iter();
                let found = links.find(|(it, _)| it.as_bytes() == name);
                Node::Name(by, found.ok_or(missing)?.1)
            }
            dir if self.kind(dir) == Some(Kind::Disks) => {
                self.disks.look(cx)?;
                let mut there = self.directories().into_iter();
                Node::Names(
                    there
                        .find(|by| by.name().as_bytes() == name)
                        .ok_or(missing)?,
                )
            }
            _ => return Err(Failure::Errno(ENOTDIR)),
        };
        match self.kind(node) {
            Some(Kind::Elsewhere(place)) => Err(cx.redirect(place.as_bytes())),
            _ => Ok(node),
        }
    }

    fn parent(&mut self, _: &mut Context, dir: Node) -> Answer<Node> {
        Ok(match dir {
            Node::Names(_) => self.named(b"disk").unwrap_or(Node::Root),
            dir if dir == Node::Numbers => dir,
            _ => Node::Root,
        })
    }

    fn target(&mut self, _: &mut Context, link: Node, into: &mut [u8]) -> Answer<usize> {
        let target = match (link, self.kind(link)) {
            (Node::Name(_, part), _) => self.led_to(part).ok_or(Failure::Errno(ENOENT))?,
            (_, Some(Kind::Link(target))) => target.into(),
            _ => return Err(Failure::Errno(EINVAL)),
        };
        put(target.as_bytes(), into)
    }

    fn path(&mut self, _: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let name = match node {
            Node::Entry(index) => self.entries[index].name.clone(),
            Node::Disk(part) => self.disks.parts()[part].name.clone(),
            Node::Names(by) => format!("disk/{}", by.name()),
            Node::Name(by, part) => {
                let links = self.disks.links(by).into_iter();
                let found = links
                    .map(|(name, at)| (at, name))
                    .find(|(at, _)| *at == part);
                let (_, name) = found.ok_or(Failure::Errno(ENOENT))?;
                format!("disk/{}/{name}", by.name())
            }
            Node::Root | Node::Numbers => String::new(),
        };
        put(name.as_bytes(), into)
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        Ok(Stat {
            dev: device::ST_DEV,
            atime: self.born,
            mtime: self.born,
            ctime: self.born,
            size: match node {
                Node::Disk(_) => 0,
                _ => meta.size as i64,
            },
            blocks: 0,
            ..layout::plain_stat(&meta)
        })
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let dir = handle.node;
        let above = self.parent(cx, dir)?;
        let mut list = vec![(String::from("."), dir), (String::from(".."), above)];
        list.extend(self.children(cx, dir)?);
        let mut position = position;
        while let Some((name, node)) = list.get(position as usize) {
            let meta = self.meta(*node)?;
            if !into.add(meta.ino, position + 1, meta.mode, name.as_bytes()) {
                break;
            }
            position += 1;
        }
        Ok(position)
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        _: &mut Reader,
    ) -> Answer<Opened<Node>> {
        let kind = match self.kind(node) {
            None if matches!(node, Node::Disk(_)) => {
                kind::ALWAYS_READY | kind::SEEKABLE | kind::BORROWS
            }
            None | Some(Kind::Disks) => kind::DIRECTORY | kind::ALWAYS_READY | kind::SEEKABLE,
            Some(Kind::Terminal(name)) => return Err(cx.redirect(format!("tty:{name}").as_bytes())),
            Some(Kind::Serial(line)) => {
                return Err(cx.redirect(format!("tty:ttyS{line}").as_bytes()))
            }
            // Reading it as on Debian (`dmesg_restrict`).
            Some(Kind::Log) if flags & o::ACCMODE != o::WRONLY && !cx.has(label::SYSTEM) => {
                return Err(Failure::Errno(EPERM))
            }
            Some(Kind::Log) => 0,
            Some(device) => kind::ALWAYS_READY | kind::SEEKABLE | constant(device, flags),
        };
        Ok(Opened { node, kind })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        if let Node::Disk(part) = handle.node {
            let done = self.disks.read(cx, part, offset, length)?;
            return Ok(Data::stored(done));
        }
        match self.kind(handle.node) {
            Some(Kind::Null) => Ok(Data::default()),
            Some(Kind::Zero | Kind::Full) => Ok(self.zero(length)),
            Some(Kind::Random) => Ok(self.random(length)),
            Some(Kind::Log) => self.log_record(cx, &mut handle.state, length),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        if let Node::Disk(part) = handle.node {
            return self.disks.write(cx, part, offset, length);
        }
        match self.kind(handle.node) {
            Some(Kind::Null | Kind::Zero) => Ok(length),
            Some(Kind::Full) => Err(Failure::Errno(ENOSPC)),
            Some(Kind::Random) => {
                // All of it counts, but what is mixed in need not be more than the key twice.
                let mut bytes = [0; 64];
                let bytes = &mut bytes[..length.min(64)];
                cx.fetch(0, bytes)?;
                self.generator.mix(bytes);
                Ok(length)
            }
            Some(Kind::Log) => self.log_write(cx, length),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    fn stays(&self, node: Node) -> bool {
        let kind = self.kind(node);
        matches!(
            kind,
            Some(Kind::Null | Kind::Zero | Kind::Full | Kind::Random)
        )
    }

    fn sync(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        match handle.node {
            Node::Disk(part) => self.disks.sync(cx, part),
            Node::Entry(_) => Err(Failure::Errno(EINVAL)),
            _ => Ok(()),
        }
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        _: u64,
    ) -> Answer<Reply<'a>> {
        match handle.node {
            Node::Disk(part) => {
                let writable = handle.writable();
                self.disks.ioctl(cx, part, request, writable)
            }
            _ => Err(Failure::Errno(ENOTTY)),
        }
    }

    fn retain(&mut self, node: Node) {
        if let Node::Disk(part) = node {
            self.disks.hold(part, true);
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        self.disks.closed(cx, handle.badge);
        if let Node::Disk(part) = handle.node {
            self.disks.hold(part, false);
            if handle.writable() {
                self.disks.may_have_changed(part);
            }
        }
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        self.disks.pulse(cx, pulse);
    }

    fn lent(&mut self, transport: &mut dyn Transport, token: Token, loan: Portal) -> bool {
        self.disks.lent(transport, token, loan);
        true
    }

    /// What a disk has begun is waited for, as on Linux.
    fn interruptible(&self, _: u64, progress: u64) -> bool {
        progress == 0
    }

    fn cancelled(&mut self, cx: &mut Context) {
        self.disks.cancelled(cx);
    }

    /// O_TRUNC and truncate mean nothing to a device.
    fn truncate(&mut self, _: &mut Context, _: Node, _: u64) -> Answer<()> {
        Err(Failure::Errno(EINVAL))
    }

    fn poll(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let mut ready = poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM;
        if self.kind(handle.node) == Some(Kind::Log) {
            let mut byte = [0];
            if self.machine.log_read(handle.state.offset, &mut byte).0 == 0 {
                ready = poll::OUT | poll::WRNORM;
            }
        }
        Ok(Readiness {
            ready,
            keys: [LOG_KEY; 2],
        })
    }

    fn tick(&mut self, cx: &mut Context) {
        self.disks.tick(cx);
        cx.wake(LOG_KEY);
    }
}

/// What a handle opened with these flags reads and writes without anybody's help.
fn constant(device: Kind, flags: u64) -> u64 {
    let reads = match device {
        Kind::Null => kind::READS_NOTHING,
        Kind::Zero | Kind::Full => kind::READS_ZEROS,
        _ => 0,
    };
    let writes = match device {
        Kind::Null | Kind::Zero => kind::WRITES_VANISH,
        _ => 0,
    };
    match flags & o::ACCMODE {
        o::RDONLY => reads,
        o::WRONLY => writes,
        o::RDWR => reads | writes,
        _ => 0,
    }
}

/// `MAJOR:MINOR`.
fn number(name: &[u8]) -> Option<u64> {
    let (major, minor) = core::str::from_utf8(name).ok()?.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
