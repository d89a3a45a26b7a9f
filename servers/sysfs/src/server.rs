//! The tree as a resource manager.

use crate::tree::{Dir, File, Node, Tree};
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
            Node::Link(..) | Node::Subsystem(_) | Node::ToProcessor(_) | Node::ToNode(_) => {
                (s::IFLNK | 0o777, 0)
            }
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
        while let Some((name, node)) = names.get(position as usize) {
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
        state: &mut Snapshot,
    ) -> Answer<Opened<Node>> {
        if flags & o::ACCMODE != o::RDONLY {
            return Err(Failure::Errno(EACCES));
        }
        self.count(node);
        let text = self.tree.text(node).unwrap_or_default().into_bytes();
        let kind = layout::default_kind(self.meta(node)?.mode);
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
        handle.state.read(cx, offset, length, || {
            self.count(node);
            Ok(self.tree.text(node).unwrap_or_default().into_bytes())
        })
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
}
