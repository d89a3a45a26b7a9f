//! The tree as a resource manager.

use crate::interfaces::{Interface, FILES};
use crate::tree::{Dir, File, Node, Part, Tree};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_block::Info;
use cairn_idl::block::Counts;
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{o, s, Stat, Statfs};
use cairn_resmgr::layout;
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Meta, Opened, Server, Snapshot};

/// Badge of the portal behind the scheme `sys:`.
pub const BADGE_SCHEME: u64 = 1;
/// SYSFS_MAGIC.
const MAGIC: i64 = 0x6265_6572;

/// Number, first sector, sectors.
pub type Partition = (u32, u64, u64);

/// A loop device.
pub type Looped = (Info, Vec<Partition>, Option<File>);

/// The disks' drivers.
pub trait Drivers {
    /// What there is now of a disk, and its partitions; None: its driver says that it has none.
    fn look(&mut self, disk: &str) -> Option<(Info, Vec<Partition>)>;
    /// The loop device with this number or the next one behind it: its number, what it is, its partitions and its file, if it has one.
    fn looped(&mut self, from: u32) -> Option<(u32, Looped)> {
        let _ = from;
        None
    }
    /// The interfaces of the network, by their numbers.
    fn interfaces(&mut self) -> Vec<Interface> {
        Vec::new()
    }
    /// The one with this number, if it is there.
    fn interface(&mut self, number: u32) -> Option<Interface> {
        let _ = number;
        None
    }
    /// KiB of memory, in all and free.
    fn memory(&mut self) -> [u64; 2];
    /// What was counted for a disk (0) or a partition of it.
    fn counts(&mut self, disk: &str, partition: u32) -> Option<Counts>;
}

pub struct Sysfs<D> {
    pub drivers: D,
    pub tree: Tree,
    /// Start of the system, for stat.
    pub born: i64,
}

/// Different for each node.
fn inode(node: Node) -> u64 {
    let (kind, at, number) = match node {
        Node::Dir(dir) => (0, dir as usize, 0),
        Node::Device(at) => (1, at, 0),
        Node::Queue(at) => (2, at, 0),
        Node::Holders(at) => (3, at, 0),
        Node::Slaves(at) => (4, at, 0),
        Node::Subsystem(at) => (5, at, 0),
        Node::Property(at, number) => (6, at, number),
        Node::OfQueue(at, number) => (7, at, number),
        Node::Link(dir, at) => (8, at, dir as usize),
        Node::Partitions => (9, 0, 0),
        Node::Statistics => (14, 0, 0),
        Node::OfProcessors(number) => (10, 0, number),
        Node::Processor(at) => (11, at, 0),
        Node::Topology(at) => (12, at, 0),
        Node::OfTopology(at, number) => (13, at, number),
        Node::OfNodes(number) => (15, 0, number),
        // (Kinds have four bits, numbers eight.)
        Node::MemoryNode => (15, 0, 0x40),
        Node::OfNode(number) => (15, 0, 0x80 + number),
        Node::File(at) => (15, at, 0x43),
        Node::OfFile(at, number) => (15, at, 0x50 + number),
        Node::ToProcessor(at) => (15, at, 0x41),
        Node::ToNode(at) => (15, at, 0x42),
        Node::Interface(number, part) => {
            let part = match part {
                Part::Folder => 0,
                Part::Link => 1,
                Part::Class => 2,
                Part::Statistics => 3,
                Part::File(at) => 0x100 | u64::from(at),
                Part::Count(at) => 0x200 | u64::from(at),
            };
            return 1 << 60 | part << 32 | u64::from(number);
        }
    };
    1 + (kind | (number as u64) << 4 | (at as u64) << 12)
}

impl<D: Drivers> Sysfs<D> {
    /// Names of disks and partitions are looked up, or listed, there: those that there are now.
    fn refresh(&mut self, dir: Node) {
        use Dir::{Block, ClassBlock, DevBlock, Disks, Scheme};
        if matches!(
            dir,
            Node::Dir(Block | ClassBlock | DevBlock | Disks | Scheme)
        ) {
            for disk in self.tree.names() {
                if device::loop_number(&disk).is_some() {
                    self.tree.remove(&disk);
                } else if let Some((info, partitions)) = self.drivers.look(&disk) {
                    self.tree.set(&disk, info, &partitions);
                }
            }
            let mut from = 0;
            while let Some((number, (info, partitions, file))) = self.drivers.looped(from) {
                let disk = format!("loop{number}");
                self.tree.set(&disk, info, &partitions);
                self.tree.set_file(&disk, file);
                from = number + 1;
            }
        }
        match dir {
            Node::Dir(Dir::ClassNet | Dir::Links | Dir::VirtualLinks) => {
                let all = self.drivers.interfaces();
                self.tree.set_interfaces(all);
            }
            Node::Interface(number, _) => {
                let now = self.drivers.interface(number);
                self.tree.set_interface(number, now);
            }
            _ => {}
        }
    }

    /// What a file says now.
    fn text(&mut self, node: Node) -> Answer<Vec<u8>> {
        if let Node::Interface(number, part) = node {
            self.refresh(node);
            let interface = self.tree.interface(number);
            let interface = interface.ok_or(Failure::Errno(ENODEV))?;
            if let Part::File(at) = part {
                let text = interface.text(at.into()).ok_or(Failure::Errno(EIO))?;
                return Ok(text.map_err(Failure::Errno)?.into_bytes());
            }
        }
        self.count(node);
        Ok(self.tree.text(node).unwrap_or_default().into_bytes())
    }

    /// A file is opened that may say what was counted.
    fn count(&mut self, node: Node) {
        let devices = match node {
            Node::Property(at, _) => vec![at],
            Node::Statistics => self.tree.there().map(|(at, _)| at).collect(),
            Node::OfNode(_) => {
                let memory = self.drivers.memory();
                return self.tree.set_memory(memory);
            }
            _ => return,
        };
        for at in devices {
            let Some((disk, partition)) = self.tree.part(at) else {
                continue;
            };
            let disk = String::from(disk);
            if let Some(counts) = self.drivers.counts(&disk, partition) {
                self.tree.count(at, counts);
            }
        }
    }
}

impl<D: Drivers> Server for Sysfs<D> {
    type Node = Node;
    type State = Snapshot;

    fn root(&mut self, badge: u64) -> Node {
        Node::Dir(match badge {
            BADGE_SCHEME => Dir::Scheme,
            _ => Dir::Root,
        })
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let (mode, size) = match node {
            Node::Link(..)
            | Node::Subsystem(_)
            | Node::ToProcessor(_)
            | Node::ToNode(_)
            | Node::Interface(_, Part::Link | Part::Class) => (s::IFLNK | 0o777, 0),
            Node::Interface(_, Part::File(at)) => {
                let written = FILES.get(usize::from(at)).is_some_and(|file| file.1);
                let mode = if written { 0o644 } else { 0o444 };
                (s::IFREG | mode, 4096)
            }
            Node::Interface(_, Part::Count(_)) => (s::IFREG | 0o444, 4096),
            Node::Property(..)
            | Node::OfQueue(..)
            | Node::OfFile(..)
            | Node::OfProcessors(_)
            | Node::OfTopology(..)
            | Node::OfNodes(_)
            | Node::OfNode(_) => (s::IFREG | 0o444, 4096),
            Node::Partitions | Node::Statistics => (s::IFREG | 0o444, 0),
            _ => (s::IFDIR | 0o755, 0),
        };
        Ok(Meta {
            mode,
            size,
            ino: inode(node),
            ..Meta::default()
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        self.refresh(dir);
        let mut children = self.tree.children(dir).into_iter();
        let found = children.find(|(it, _)| it.as_bytes() == name);
        found.map(|(_, node)| node).ok_or(Failure::Errno(ENOENT))
    }

    fn parent(&mut self, _: &mut Context, dir: Node) -> Answer<Node> {
        Ok(self.tree.above(dir))
    }

    fn target(&mut self, _: &mut Context, link: Node, into: &mut [u8]) -> Answer<usize> {
        let target = self.tree.target(link).ok_or(Failure::Errno(EINVAL))?;
        put(target.as_bytes(), into)
    }

    fn path(&mut self, _: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        put(self.tree.path(node).as_bytes(), into)
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        Ok(Stat {
            dev: cairn_idl::device::SYS_ST_DEV,
            atime: self.born,
            mtime: self.born,
            ctime: self.born,
            ..layout::plain_stat(&self.meta(node)?)
        })
    }

    fn statfs(&mut self, _: &mut Context, _: Node) -> Answer<Statfs> {
        Ok(Statfs {
            kind: MAGIC,
            ..layout::empty_statfs()
        })
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let dir = handle.node;
        self.refresh(dir);
        let mut names = vec![(".".into(), dir), ("..".into(), self.tree.above(dir))];
        names.extend(self.tree.children(dir));
        let mut position = position;
        for (at, (name, node)) in names.iter().enumerate() {
            // (Who reads a list in pieces misses no interface that stays, whatever comes and goes.)
            let at = match *node {
                Node::Interface(number, Part::Folder | Part::Link) if at > 1 => {
                    1 + u64::from(number)
                }
                _ => at as u64,
            };
            if at < position {
                continue;
            }
            let meta = self.meta(*node)?;
            if !into.add(meta.ino, at + 1, meta.mode, name.as_bytes()) {
                break;
            }
            position = at + 1;
        }
        Ok(position)
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        state: &mut Snapshot,
    ) -> Answer<Opened<Node>> {
        if flags & o::ACCMODE != o::RDONLY {
            // `net` judges who writes.
            if let Node::Interface(number, Part::File(at)) = node {
                if let Some((name, true, _)) = FILES.get(usize::from(at)) {
                    return Err(cx.redirect(format!("net:{name}@{number}").as_bytes()));
                }
            }
            return Err(Failure::Errno(EACCES));
        }
        let kind = layout::default_kind(self.meta(node)?.mode);
        if let Node::Interface(..) = node {
            // (What cannot be read can be opened.)
            return Ok(Opened { node, kind });
        }
        let text = self.text(node)?;
        *state = Snapshot::opened(cx, text)?;
        Ok(Opened { node, kind })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let node = handle.node;
        let text = || self.text(node);
        handle.state.read(cx, offset, length, text)
    }

    fn close(&mut self, cx: &mut Context, mut handle: Handle<Self>) {
        handle.state.end(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::fs;
    use cairn_resmgr::fake::Bench;

    /// A disk with one partition, somewhere else each time that somebody looks.
    struct Moving(u64);

    impl Drivers for Moving {
        fn look(&mut self, disk: &str) -> Option<(Info, Vec<Partition>)> {
            self.0 += 100;
            let info = Info {
                sectors: 2048,
                block: 512,
                rotates: true,
                ..Info::default()
            };
            (disk == "vdb").then_some((info, vec![(2, self.0, 50)]))
        }
        fn memory(&mut self) -> [u64; 2] {
            [4096, 1024]
        }
        fn counts(&mut self, _: &str, partition: u32) -> Option<Counts> {
            Some(Counts {
                writes: u64::from(partition) + 10,
                ..Counts::default()
            })
        }
    }

    #[test]
    fn a_program_finds_a_disk_by_its_number() {
        let mut tree = Tree::new(1);
        tree.set("vdb", Info::default(), &[]);
        let sysfs = Sysfs {
            drivers: Moving(0),
            tree,
            born: 7,
        };
        let mut bench = Bench::new(sysfs, b"/sys");
        let mut read = |path: &[u8]| {
            let handle = bench.open(path, o::RDONLY, 0)?;
            let answer = bench.call(handle, &[fs::READ, fs::POSITION], b"", 100);
            Ok(answer.unwrap().bytes().to_vec())
        };
        let start = |text: Vec<u8>| {
            String::from_utf8(text)
                .unwrap()
                .trim()
                .parse::<u64>()
                .unwrap()
        };
        let first = start(read(b"dev/block/254:18/start").unwrap());
        assert!(start(read(b"dev/block/254:18/start").unwrap()) > first);
        assert_eq!(read(b"dev/block/254:16/vdb2/size"), Ok(b"50\n".to_vec()));
        assert_eq!(read(b"block/vdb/queue/rotational"), Ok(b"1\n".to_vec()));
        assert_eq!(read(b"block/vdb/../vdb/ro"), Ok(b"0\n".to_vec()));
        assert_eq!(read(b"block/vdc/ro"), Err(-ENOENT));
        let stat = String::from_utf8(read(b"class/block/vdb2/stat").unwrap()).unwrap();
        assert_eq!(stat.split_whitespace().nth(4), Some("12"));
        let place = bench.open(b"class/block/vdb2", o::RDONLY, 0).unwrap();
        let answer = bench.call(place, &[fs::GETPATH], b"", 100).unwrap();
        assert_eq!(answer.bytes(), b"/sys/devices/block/vdb/vdb2");
        assert!(bench
            .open(b"block/new", o::CREAT | o::WRONLY, 0o644)
            .is_err());
    }

    /// A network whose interfaces come and go: their numbers.
    struct Network(Vec<u32>);

    impl Network {
        fn line(number: u32) -> Option<Interface> {
            Interface::told(&format!(
                "{number} 65534 - 4241 1500 500 1 2 3 4 5 6 1 4097 1000 -1 tun{number}"
            ))
        }
    }

    impl Drivers for Network {
        fn look(&mut self, _: &str) -> Option<(Info, Vec<Partition>)> {
            None
        }
        fn interfaces(&mut self) -> Vec<Interface> {
            self.0.iter().filter_map(|at| Network::line(*at)).collect()
        }
        fn interface(&mut self, number: u32) -> Option<Interface> {
            let there = self.0.contains(&number);
            Network::line(number).filter(|_| there)
        }
        fn memory(&mut self) -> [u64; 2] {
            [0; 2]
        }
        fn counts(&mut self, _: &str, _: u32) -> Option<Counts> {
            None
        }
    }

    fn network(numbers: Vec<u32>) -> Bench<Sysfs<Network>> {
        let sysfs = Sysfs {
            drivers: Network(numbers),
            tree: Tree::new(1),
            born: 7,
        };
        Bench::new(sysfs, b"/sys")
    }

    #[test]
    fn an_interface_is_what_net_says_now_and_gone_with_it() {
        let mut b = network(vec![2, 9]);
        let read = |b: &mut Bench<Sysfs<Network>>, file: u64| {
            let answer = b.call(file, &[fs::READ, fs::POSITION], b"", 100).unwrap();
            match answer.result() {
                bad @ ..0 => Err(bad),
                _ => Ok(answer.bytes().to_vec()),
            }
        };
        let path = b"class/net/tun9/tun_flags";
        let flags = b.open(path, o::RDONLY, 0).unwrap();
        let unread = b.open(path, o::RDONLY, 0).unwrap();
        let nothing = b.open(b"class/net/tun9/phys_port_id", o::RDONLY, 0);
        assert_eq!(read(&mut b, flags), Ok(b"0x1001\n".to_vec()));
        assert_eq!(read(&mut b, nothing.unwrap()), Err(-EOPNOTSUPP));
        let count = b.open(
            b"devices/virtual/net/tun9/statistics/tx_bytes",
            o::RDONLY,
            0,
        );
        assert_eq!(read(&mut b, count.unwrap()), Ok(b"5\n".to_vec()));
        let folder = b.open(b"class/net/tun9", o::RDONLY, 0).unwrap();
        let answer = b.call(folder, &[fs::GETPATH], b"", 100).unwrap();
        assert_eq!(answer.bytes(), b"/sys/devices/virtual/net/tun9");
        // `net` judges who writes what it lets be written; nobody else writes anything.
        assert_eq!(b.open(b"class/net/tun9/mtu", o::WRONLY, 0), Err(-REDIRECT));
        assert_eq!(
            b.open(b"class/net/tun9/tx_queue_len", o::RDWR, 0),
            Err(-EACCES)
        );
        b.server.drivers.0 = vec![2];
        assert_eq!(read(&mut b, unread), Err(-ENODEV));
        assert_eq!(b.open(path, o::RDONLY, 0), Err(-ENOENT));
        assert!(b.open(b"class/net/tun2/mtu", o::RDONLY, 0).is_ok());
    }

    #[test]
    fn who_reads_the_list_in_pieces_misses_no_interface_that_stays() {
        let mut b = network((1..=128).collect());
        let folder = b.open(b"class/net", o::RDONLY, 0).unwrap();
        let mut seen = Vec::new();
        loop {
            let answer = b.call(folder, &[fs::READDIR], b"", 200).unwrap();
            let bytes = answer.bytes().to_vec();
            if bytes.is_empty() {
                break;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            seen.extend(text.split("tun").skip(1).filter_map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                rest[..end].parse::<u32>().ok()
            }));
            // What was seen goes, and so does every third of what follows; others come.
            let last = seen.last().copied().unwrap_or(0);
            let all = &mut b.server.drivers.0;
            all.retain(|at| *at > last && at % 3 != 0);
            if last <= 128 {
                all.push(1000 + last);
            }
        }
        let stays = (1..=128).filter(|at| at % 3 != 0);
        for number in stays {
            assert_eq!(
                seen.iter().filter(|at| **at == number).count(),
                1,
                "{number}"
            );
        }
    }
}
