//! The manager of /dev and of `dev:`.

use crate::disks::{self, Listed};
use crate::table::{self, Entry, Kind};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, o, poll, s, Stat, Statfs, DEVICE_MOST};
use cairn_idl::label;
use cairn_log_line::{Line, Names, HEAD};
use cairn_resmgr::layout;
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Meta, Opened, Readiness, Server};

/// What the server needs beside requests.
pub trait Machine {
    /// Bytes of the nucleus log from `offset` on (as far as they are still there) and where to go on.
    fn log_read(&mut self, offset: u64, into: &mut [u8]) -> (usize, u64);
    fn log_write(&mut self, line: &[u8]);
    /// The names of disks, in records of a directory ([`disks::listed`]).
    fn disks(&mut self, each: &mut dyn FnMut(&[u8]));
}

/// Badge of the portal behind the scheme `dev:`.
pub const BADGE_NUMBERS: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Root,
    /// The root of `dev:`.
    Numbers,
    /// An entry of the table.
    Entry(usize),
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
const ROOT_INO: u64 = 1;
const DIRECTORY_MODE: u32 = s::IFDIR | 0o755;

pub struct Devfs<M: Machine> {
    machine: M,
    entries: Vec<Entry>,
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
    /// For a machine with so many serial lines, at this time (seconds since 1970).
    pub fn new(machine: M, lines: u32, born: i64) -> Devfs<M> {
        let mut devfs = Devfs {
            machine,
            entries: table::entries(lines),
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

    fn named(&self, name: &[u8]) -> Option<Node> {
        let mut entries = self.entries.iter();
        let found = entries.position(|entry| entry.name.as_bytes() == name);
        found.map(Node::Entry)
    }

    fn numbered(&self, rdev: u64) -> Option<Node> {
        let mut entries = self.entries.iter();
        entries
            .position(|entry| entry.rdev == rdev)
            .map(Node::Entry)
    }

    /// What is in /dev.
    fn list(&mut self, into: &mut Vec<Listed>) -> Answer<()> {
        for at in 0..self.entries.len() {
            let meta = self.meta(Node::Entry(at))?;
            into.push(Listed {
                ino: meta.ino,
                kind: ((meta.mode & s::IFMT) >> 12) as u8,
                name: self.entries[at].name.as_bytes().into(),
            });
        }
        self.machine
            .disks(&mut |records| disks::listed(records, into));
        Ok(())
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
                let now = cx.transport.monotonic();
                cx.wake_at(Some(now + LOG_TICK));
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
            ino: ROOT_INO,
            ..Meta::default()
        };
        let missing = Failure::Errno(ENOENT);
        match node {
            Node::Root | Node::Numbers => Ok(directory),
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
        let node = match dir {
            Node::Root => match self.named(name) {
                Some(node) => node,
                None if disks::may_be(name) => {
                    let place = [disks::SCHEME.as_bytes(), name].concat();
                    return Err(cx.redirect(&place));
                }
                None => return Err(Failure::Errno(ENOENT)),
            },
            // A device node of another file system that names nothing here is a device without a driver.
            Node::Numbers => {
                let rdev = layout::device_number(name);
                if let Some(place) = rdev.and_then(table::elsewhere) {
                    return Err(cx.redirect(place.as_bytes()));
                }
                rdev.and_then(|rdev| self.numbered(rdev))
                    .ok_or(Failure::Errno(ENXIO))?
            }
            Node::Entry(_) => return Err(Failure::Errno(ENOTDIR)),
        };
        match self.kind(node) {
            Some(Kind::Elsewhere(place)) => Err(cx.redirect(place.as_bytes())),
            _ => Ok(node),
        }
    }

    fn parent(&mut self, _: &mut Context, dir: Node) -> Answer<Node> {
        Ok(match dir {
            Node::Numbers => dir,
            _ => Node::Root,
        })
    }

    fn target(&mut self, _: &mut Context, link: Node, into: &mut [u8]) -> Answer<usize> {
        let Some(Kind::Link(target)) = self.kind(link) else {
            return Err(Failure::Errno(EINVAL));
        };
        put(target.as_bytes(), into)
    }

    fn path(&mut self, _: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let name = match node {
            Node::Entry(index) => &self.entries[index].name[..],
            Node::Root | Node::Numbers => "",
        };
        put(name.as_bytes(), into)
    }

    fn statfs(&mut self, _: &mut Context, _: Node) -> Answer<Statfs> {
        /// TMPFS_MAGIC, which Linux's devtmpfs has as well.
        const MAGIC: i64 = 0x0102_1994;
        Ok(Statfs {
            kind: MAGIC,
            ..layout::empty_statfs()
        })
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        Ok(layout::device_stat(&meta, self.born))
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let dots = [&b"."[..], b".."].map(|name| Listed {
            ino: ROOT_INO,
            kind: (s::IFDIR >> 12) as u8,
            name: name.into(),
        });
        let mut list = Vec::from(dots);
        if handle.node == Node::Root {
            self.list(&mut list)?;
        }
        let all = list
            .iter()
            .map(|it| Ok((it.ino, u32::from(it.kind) << 12, &it.name[..])));
        into.add_from(position, all)
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        _: &mut Reader,
    ) -> Answer<Opened<Node>> {
        let kind = match self.kind(node) {
            None => kind::DIRECTORY | kind::ALWAYS_READY | kind::SEEKABLE,
            Some(Kind::Device(place)) => return Err(cx.redirect(place.as_bytes())),
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
        _: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        match self.kind(handle.node) {
            Some(Kind::Null) => Ok(Data::default()),
            Some(Kind::Zero | Kind::Full) => Ok(self.zero(length)),
            Some(Kind::Log) => self.log_record(cx, &mut handle.state, length),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        match self.kind(handle.node) {
            Some(Kind::Null | Kind::Zero) => Ok(length),
            Some(Kind::Full) => Err(Failure::Errno(ENOSPC)),
            Some(Kind::Log) => self.log_write(cx, length),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    fn stays(&self, node: Node) -> bool {
        let kind = self.kind(node);
        matches!(kind, Some(Kind::Null | Kind::Zero | Kind::Full))
    }

    fn sync(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        match handle.node {
            Node::Entry(_) => Err(Failure::Errno(EINVAL)),
            _ => Ok(()),
        }
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

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
