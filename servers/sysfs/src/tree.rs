//! What is in the tree: directories, and for each disk, partition and network interface a directory with a file for each of its properties, in Linux's words.
//! Other places lead there by links. And the processors.

use crate::interfaces::{Interface, COUNTS, FILES};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cairn_block::{Info, SECTOR};
use cairn_idl::block::Counts;
use cairn_idl::device;
use cairn_idl::loops::lo;

/// A disk or a partition.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    /// Its place in the list, if it is a partition its disk's.
    pub disk: usize,
    /// 0: the whole disk.
    pub partition: u32,
    pub numbers: (u32, u32),
    /// Of the disk's sectors.
    pub first: u64,
    pub sectors: u64,
    pub info: Info,
    /// As they were when somebody last asked.
    pub counts: Counts,
    /// Of a loop device with a file.
    pub file: Option<File>,
    /// Its driver does not have it any more.
    pub gone: bool,
}

/// The file of a loop device, and what of it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub offset: u64,
    pub limit: u64,
    /// [`cairn_idl::loops::lo`]
    pub flags: u32,
}

/// A place in the tree. Numbers are those of devices in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Dir(Dir),
    Device(usize),
    /// A directory of a disk.
    Queue(usize),
    /// Who is built upon it, and upon what it is built: nobody and nothing, here.
    Holders(usize),
    Slaves(usize),
    /// A property, by its place in [`PROPERTIES`] or [`QUEUE`].
    Property(usize, usize),
    OfQueue(usize, usize),
    /// What a loop device's file is: the directory, and by the place in [`OF_FILE`].
    File(usize),
    OfFile(usize, usize),
    /// To the device.
    Link(Dir, usize),
    /// From the device to its class.
    Subsystem(usize),
    /// `/proc/partitions` and `/proc/diskstats`.
    Partitions,
    Statistics,
    /// What is said of all processors, by its place in [`PROCESSORS`].
    OfProcessors(usize),
    Processor(usize),
    Topology(usize),
    /// By its place in [`TOPOLOGY`].
    OfTopology(usize, usize),
    /// What is said of all nodes of memory, by its place in [`NODES`].
    OfNodes(usize),
    /// The one that there is; of it, by its place in [`OF_NODE`].
    MemoryNode,
    OfNode(usize),
    /// From the node to its processors, and back.
    ToProcessor(usize),
    ToNode(usize),
    /// Of the interface with this number.
    Interface(u32, Part),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Folder,
    /// From the class to the folder, and back.
    Link,
    Class,
    Statistics,
    /// By its place in [`FILES`].
    File(u8),
    /// By its place in [`COUNTS`].
    Count(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dir {
    Root,
    Block,
    Class,
    ClassBlock,
    ClassNet,
    Dev,
    DevBlock,
    DevChar,
    Devices,
    Disks,
    /// Interfaces of devices, and others.
    Links,
    Virtual,
    VirtualLinks,
    Fs,
    /// Empty, for mount(2).
    Cgroup,
    Kernel,
    System,
    Processors,
    Nodes,
    /// Behind the scheme `sys:`, for other servers' names.
    Scheme,
}

/// Directory, the one above it, its name.
const DIRS: [(Dir, Dir, &str); 18] = [
    (Dir::Block, Dir::Root, "block"),
    (Dir::Class, Dir::Root, "class"),
    (Dir::ClassBlock, Dir::Class, "block"),
    (Dir::ClassNet, Dir::Class, "net"),
    (Dir::Dev, Dir::Root, "dev"),
    (Dir::DevBlock, Dir::Dev, "block"),
    (Dir::DevChar, Dir::Dev, "char"),
    (Dir::Devices, Dir::Root, "devices"),
    (Dir::Disks, Dir::Devices, "block"),
    (Dir::Links, Dir::Devices, "net"),
    (Dir::Virtual, Dir::Devices, "virtual"),
    (Dir::VirtualLinks, Dir::Virtual, "net"),
    (Dir::Fs, Dir::Root, "fs"),
    (Dir::Cgroup, Dir::Fs, "cgroup"),
    (Dir::Kernel, Dir::Root, "kernel"),
    (Dir::System, Dir::Devices, "system"),
    (Dir::Processors, Dir::System, "cpu"),
    (Dir::Nodes, Dir::System, "node"),
];

/// What a file says, by the number of processors.
type OfAll = fn(usize) -> String;
/// The same of one of them.
type OfOne = fn(usize, usize) -> String;

pub const PROCESSORS: [(&str, OfAll); 5] = [
    ("kernel_max", |all| (all - 1).to_string()),
    ("offline", |_| String::new()),
    ("online", list),
    ("possible", list),
    ("present", list),
];

/// Each is a core of the one package, as /proc/cpuinfo has it.
pub const TOPOLOGY: [(&str, OfOne); 10] = [
    ("core_cpus", |_, at| mask(1 << at)),
    ("core_cpus_list", |_, at| at.to_string()),
    ("core_id", |_, at| at.to_string()),
    ("core_siblings", |all, _| mask(!0 >> (64 - all))),
    ("core_siblings_list", |all, _| list(all)),
    ("package_cpus", |all, _| mask(!0 >> (64 - all))),
    ("package_cpus_list", |all, _| list(all)),
    ("physical_package_id", |_, _| "0".to_string()),
    ("thread_siblings", |_, at| mask(1 << at)),
    ("thread_siblings_list", |_, at| at.to_string()),
];

/// There is one node of memory, which all processors have.
pub const NODES: [(&str, &str); 5] = [
    ("has_cpu", "0"),
    ("has_memory", "0"),
    ("has_normal_memory", "0"),
    ("online", "0"),
    ("possible", "0"),
];

/// What a file of it says, by the number of processors and the KiB of memory, in all and free.
type OfMemory = fn(usize, [u64; 2]) -> String;

pub const OF_NODE: [(&str, OfMemory); 4] = [
    ("cpulist", |all, _| list(all)),
    ("cpumap", |all, _| mask(!0 >> (64 - all))),
    ("distance", |_, _| "10".to_string()),
    ("meminfo", |_, [total, free]| {
        let used = total.saturating_sub(free);
        let lines = [("MemTotal", total), ("MemFree", free), ("MemUsed", used)];
        let line = |(name, kib)| format!("Node 0 {:<16}{kib:>8} kB", format!("{name}:"));
        lines.map(line).join("\n")
    }),
];

/// Processors 0 to `all` - 1.
fn list(all: usize) -> String {
    match all {
        1 => "0".to_string(),
        all => format!("0-{}", all - 1),
    }
}

/// In words of 32 bits, the most significant first.
fn mask(bits: u64) -> String {
    match bits >> 32 {
        0 => format!("{bits:x}"),
        high => format!("{high:x},{:08x}", bits as u32),
    }
}

/// What a property says of a device; `None`: such a device does not have it.
type Text = fn(&Device) -> Option<String>;

/// In the order of Linux's Documentation/admin-guide/iostats; requests are never merged here.
fn statistics(counts: &Counts) -> [u64; 17] {
    let ms = |time: u64| time / 1_000_000;
    let all = counts.read_time + counts.write_time + counts.discard_time + counts.flush_time;
    [
        counts.reads,
        0,
        counts.read_sectors,
        ms(counts.read_time),
        counts.writes,
        0,
        counts.write_sectors,
        ms(counts.write_time),
        counts.under_way,
        ms(counts.busy_time),
        ms(all),
        counts.discards,
        0,
        counts.discard_sectors,
        ms(counts.discard_time),
        counts.flushes,
        ms(counts.flush_time),
    ]
}

/// Of disks only, of partitions only.
fn of_disk(device: &Device, text: &str) -> Option<String> {
    (device.partition == 0).then(|| text.to_string())
}

fn of_partition(device: &Device, value: u64) -> Option<String> {
    (device.partition != 0).then(|| value.to_string())
}

pub const PROPERTIES: [(&str, Text); 13] = [
    ("alignment_offset", |_| Some("0".to_string())),
    ("dev", |d| Some(format!("{}:{}", d.numbers.0, d.numbers.1))),
    ("discard_alignment", |_| Some("0".to_string())),
    ("ext_range", |d| of_disk(d, "16")),
    ("hidden", |d| of_disk(d, "0")),
    ("partition", |d| of_partition(d, u64::from(d.partition))),
    ("range", |d| of_disk(d, "16")),
    ("removable", |d| of_disk(d, "0")),
    ("ro", |d| Some(u8::from(d.info.read_only).to_string())),
    ("size", |d| Some(d.sectors.to_string())),
    ("start", |d| of_partition(d, d.first)),
    ("stat", |d| {
        let columns = statistics(&d.counts).map(|value| format!("{value:8}"));
        Some(columns.join(" "))
    }),
    ("uevent", |d| {
        let (kind, number) = match d.partition {
            0 => ("disk", String::new()),
            number => ("partition", format!("\nPARTN={number}")),
        };
        let (major, minor) = d.numbers;
        Some(format!(
            "MAJOR={major}\nMINOR={minor}\nDEVNAME={}\nDEVTYPE={kind}{number}",
            d.name
        ))
    }),
];

pub const QUEUE: [(&str, Text); 11] = [
    ("discard_granularity", |d| {
        Some(match d.info.discards {
            true => d.info.block.to_string(),
            false => "0".to_string(),
        })
    }),
    ("discard_max_bytes", |d| {
        Some(match d.info.discards {
            true => (u64::from(u32::MAX) * SECTOR).to_string(),
            false => "0".to_string(),
        })
    }),
    ("hw_sector_size", |d| Some(d.info.block.to_string())),
    ("logical_block_size", |d| Some(d.info.block.to_string())),
    ("minimum_io_size", |d| Some(d.info.block.to_string())),
    ("nr_requests", |d| Some(d.info.most_requests.to_string())),
    ("optimal_io_size", |_| Some("0".to_string())),
    ("physical_block_size", |d| Some(d.info.block.to_string())),
    ("rotational", |d| Some(u8::from(d.info.rotates).to_string())),
    ("scheduler", |_| Some("none".to_string())),
    ("write_cache", |d| {
        Some(match d.info.caches_writes {
            true => "write back".to_string(),
            false => "write through".to_string(),
        })
    }),
];

/// What a file of it says.
type TextOfFile = fn(&File) -> String;

fn flag(file: &File, bit: u32) -> String {
    u8::from(file.flags & bit != 0).to_string()
}

pub const OF_FILE: [(&str, TextOfFile); 6] = [
    ("autoclear", |f| flag(f, lo::AUTOCLEAR)),
    ("backing_file", |f| f.path.clone()),
    ("dio", |f| flag(f, lo::DIRECT_IO)),
    ("offset", |f| f.offset.to_string()),
    ("partscan", |f| flag(f, lo::PARTSCAN)),
    ("sizelimit", |f| f.limit.to_string()),
];

fn device_name(disk: &str, partition: u32) -> String {
    match partition {
        0 => disk.to_string(),
        number => format!("{disk}{}{number}", device::partition_mark(disk)),
    }
}

pub struct Tree {
    devices: Vec<Device>,
    /// By their numbers, which grow.
    interfaces: Vec<Interface>,
    /// 1 to 64.
    processors: usize,
    /// KiB of memory, in all and free, when somebody last asked.
    memory: [u64; 2],
}

impl Tree {
    pub fn new(processors: u64) -> Tree {
        Tree {
            devices: Vec::new(),
            interfaces: Vec::new(),
            processors: processors.clamp(1, 64) as usize,
            memory: [0; 2],
        }
    }

    /// All interfaces that there are now.
    pub fn set_interfaces(&mut self, all: Vec<Interface>) {
        self.interfaces = all;
    }

    /// What there is now of the interface with this number.
    pub fn set_interface(&mut self, number: u32, now: Option<Interface>) {
        let at = self.interfaces.iter().position(|of| of.number == number);
        match (at, now) {
            (Some(at), Some(now)) => self.interfaces[at] = now,
            (Some(at), None) => drop(self.interfaces.remove(at)),
            // (It is found by a list of all.)
            (None, _) => {}
        }
    }

    pub fn interface(&self, number: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|of| of.number == number)
    }

    /// The folder that an interface's own is in.
    fn folder_of(&self, number: u32) -> Dir {
        match self.interface(number) {
            Some(of) if !of.is_virtual() => Dir::Links,
            _ => Dir::VirtualLinks,
        }
    }

    /// How many KiB of memory there are, in all and free.
    pub fn set_memory(&mut self, memory: [u64; 2]) {
        self.memory = memory;
    }

    /// What there is now of a disk, and its partitions: number, first sector, sectors. One whose name has no numbers is left out.
    pub fn set(&mut self, name: &str, info: Info, partitions: &[(u32, u64, u64)]) {
        let known = |devices: &[Device], name: &str| devices.iter().position(|d| d.name == name);
        let disk = known(&self.devices, name).unwrap_or(self.devices.len());
        for device in self.devices.iter_mut().filter(|d| d.disk == disk) {
            device.gone = true;
        }
        let whole = (0, 0, info.sectors);
        for &(partition, first, sectors) in [whole].iter().chain(partitions) {
            let Some(numbers) = device::disk(name, partition) else {
                continue;
            };
            let device = Device {
                name: device_name(name, partition),
                disk,
                partition,
                numbers,
                first,
                sectors,
                info,
                counts: Counts::default(),
                file: None,
                gone: false,
            };
            match known(&self.devices, &device.name) {
                Some(at) => self.devices[at] = device,
                None => self.devices.push(device),
            }
        }
    }

    /// A disk is a loop device with this file, or has none.
    pub fn set_file(&mut self, name: &str, file: Option<File>) {
        if let Some(device) = self.devices.iter_mut().find(|d| d.name == name) {
            device.file = file;
        }
    }

    /// A disk and its partitions are not there any more.
    pub fn remove(&mut self, name: &str) {
        let disk = self.devices.iter().position(|d| d.name == name);
        for device in self.devices.iter_mut().filter(|d| Some(d.disk) == disk) {
            device.gone = true;
        }
    }

    /// What its driver counted for a device.
    pub fn count(&mut self, at: usize, counts: Counts) {
        if let Some(device) = self.devices.get_mut(at) {
            device.counts = counts;
        }
    }

    /// The disk of a device, by its place, and which partition of it that is.
    pub fn part(&self, at: usize) -> Option<(&str, u32)> {
        let device = self.devices.get(at)?;
        let disk = self.devices.get(device.disk)?;
        Some((&disk.name, device.partition))
    }

    /// Of all disks.
    pub fn names(&self) -> Vec<String> {
        let disks = self.disks().map(|(_, device)| device);
        disks.map(|d| d.name.clone()).collect()
    }

    /// Devices that are there, by their places.
    pub fn there(&self) -> impl Iterator<Item = (usize, &Device)> {
        let all = self.devices.iter().enumerate();
        all.filter(|(_, device)| !device.gone)
    }

    fn disks(&self) -> impl Iterator<Item = (usize, &Device)> {
        self.there().filter(|(_, device)| device.partition == 0)
    }

    /// Names and what is there; empty for what is no directory.
    pub fn children(&self, dir: Node) -> Vec<(String, Node)> {
        let mut found: Vec<(String, Node)> = Vec::new();
        match dir {
            Node::Dir(Dir::Scheme) => {
                found.push(("partitions".to_string(), Node::Partitions));
                found.push(("diskstats".to_string(), Node::Statistics));
            }
            Node::Dir(dir) => {
                let below = DIRS.iter().filter(|(_, above, _)| *above == dir);
                found.extend(below.map(|(dir, _, name)| (name.to_string(), Node::Dir(*dir))));
                let all = self.there();
                match dir {
                    Dir::Block => {
                        let link =
                            |(at, d): (usize, &Device)| (d.name.clone(), Node::Link(dir, at));
                        found.extend(self.disks().map(link));
                    }
                    Dir::ClassBlock => {
                        found.extend(all.map(|(at, d)| (d.name.clone(), Node::Link(dir, at))));
                    }
                    Dir::DevBlock => found.extend(all.map(|(at, d)| {
                        let (major, minor) = d.numbers;
                        (format!("{major}:{minor}"), Node::Link(dir, at))
                    })),
                    Dir::Disks => {
                        found.extend(
                            self.disks()
                                .map(|(at, d)| (d.name.clone(), Node::Device(at))),
                        );
                    }
                    Dir::Processors => {
                        let files = PROCESSORS.iter().enumerate();
                        found.extend(
                            files.map(|(at, (name, _))| (name.to_string(), Node::OfProcessors(at))),
                        );
                        let each = 0..self.processors;
                        found.extend(each.map(|at| (format!("cpu{at}"), Node::Processor(at))));
                    }
                    Dir::Nodes => {
                        let files = NODES.iter().enumerate();
                        found.extend(
                            files.map(|(at, (name, _))| (name.to_string(), Node::OfNodes(at))),
                        );
                        found.push(("node0".to_string(), Node::MemoryNode));
                    }
                    Dir::ClassNet | Dir::Links | Dir::VirtualLinks => {
                        let part = match dir {
                            Dir::ClassNet => Part::Link,
                            _ => Part::Folder,
                        };
                        let all = self.interfaces.iter();
                        let here = all.filter(|of| {
                            part == Part::Link || of.is_virtual() == (dir == Dir::VirtualLinks)
                        });
                        found.extend(
                            here.map(|of| (of.name.clone(), Node::Interface(of.number, part))),
                        );
                    }
                    _ => {}
                }
            }
            Node::Processor(at) => {
                found.push(("node0".to_string(), Node::ToNode(at)));
                found.push(("topology".to_string(), Node::Topology(at)));
            }
            Node::MemoryNode => {
                let files = OF_NODE.iter().enumerate();
                found.extend(files.map(|(at, (name, _))| (name.to_string(), Node::OfNode(at))));
                let each = 0..self.processors;
                found.extend(each.map(|at| (format!("cpu{at}"), Node::ToProcessor(at))));
            }
            Node::Topology(at) => {
                for (number, (name, _)) in TOPOLOGY.iter().enumerate() {
                    found.push((name.to_string(), Node::OfTopology(at, number)));
                }
            }
            Node::Device(at) => {
                let Some(device) = self.devices.get(at) else {
                    return found;
                };
                for (number, (name, text)) in PROPERTIES.iter().enumerate() {
                    if text(device).is_some() {
                        found.push((name.to_string(), Node::Property(at, number)));
                    }
                }
                found.push(("holders".to_string(), Node::Holders(at)));
                found.push(("subsystem".to_string(), Node::Subsystem(at)));
                if device.file.is_some() {
                    found.push(("loop".to_string(), Node::File(at)));
                }
                if device.partition == 0 {
                    found.push(("queue".to_string(), Node::Queue(at)));
                    found.push(("slaves".to_string(), Node::Slaves(at)));
                    let parts = self
                        .there()
                        .filter(|(_, d)| d.disk == at && d.partition != 0);
                    found.extend(parts.map(|(at, d)| (d.name.clone(), Node::Device(at))));
                }
            }
            Node::Interface(number, Part::Folder) => {
                let Some(interface) = self.interface(number) else {
                    return found;
                };
                let part = |part| Node::Interface(number, part);
                found.extend(interface.files().map(|at| {
                    let (name, ..) = FILES[at];
                    (name.to_string(), part(Part::File(at as u8)))
                }));
                found.push(("statistics".to_string(), part(Part::Statistics)));
                found.push(("subsystem".to_string(), part(Part::Class)));
            }
            Node::Interface(number, Part::Statistics) if self.interface(number).is_some() => {
                found.extend(COUNTS.iter().enumerate().map(|(at, (name, _))| {
                    (
                        name.to_string(),
                        Node::Interface(number, Part::Count(at as u8)),
                    )
                }));
            }
            Node::File(at) => {
                for (number, (name, _)) in OF_FILE.iter().enumerate() {
                    found.push((name.to_string(), Node::OfFile(at, number)));
                }
            }
            Node::Queue(at) => {
                for (number, (name, _)) in QUEUE.iter().enumerate() {
                    found.push((name.to_string(), Node::OfQueue(at, number)));
                }
            }
            _ => {}
        }
        found
    }

    /// The directory that a node is in; the root is its own.
    pub fn above(&self, node: Node) -> Node {
        match node {
            Node::Dir(dir) => {
                let found = DIRS.iter().find(|(it, _, _)| *it == dir);
                Node::Dir(found.map_or(dir, |(_, above, _)| *above))
            }
            Node::Device(at) => match self.devices.get(at) {
                Some(device) if device.partition != 0 => Node::Device(device.disk),
                _ => Node::Dir(Dir::Disks),
            },
            Node::OfQueue(at, _) => Node::Queue(at),
            Node::OfFile(at, _) => Node::File(at),
            Node::Link(dir, _) => Node::Dir(dir),
            Node::Interface(number, part) => match part {
                Part::Folder => Node::Dir(self.folder_of(number)),
                Part::Link => Node::Dir(Dir::ClassNet),
                Part::Class | Part::Statistics | Part::File(_) => {
                    Node::Interface(number, Part::Folder)
                }
                Part::Count(_) => Node::Interface(number, Part::Statistics),
            },
            Node::Partitions | Node::Statistics => Node::Dir(Dir::Scheme),
            Node::OfProcessors(_) | Node::Processor(_) => Node::Dir(Dir::Processors),
            Node::Topology(at) | Node::ToNode(at) => Node::Processor(at),
            Node::OfNodes(_) | Node::MemoryNode => Node::Dir(Dir::Nodes),
            Node::OfNode(_) | Node::ToProcessor(_) => Node::MemoryNode,
            Node::OfTopology(at, _) => Node::Topology(at),
            Node::Queue(at)
            | Node::File(at)
            | Node::Holders(at)
            | Node::Slaves(at)
            | Node::Property(at, _)
            | Node::Subsystem(at) => Node::Device(at),
        }
    }

    /// Its path below the root.
    pub fn path(&self, node: Node) -> String {
        let above = self.above(node);
        if above == node {
            return String::new();
        }
        let named = self.children(above).into_iter().find(|(_, it)| *it == node);
        let name = named.map_or(String::new(), |(name, _)| name);
        match self.path(above) {
            before if before.is_empty() => name,
            before => format!("{before}/{name}"),
        }
    }

    /// Where a link leads: from which folder, to what.
    fn ends(&self, link: Node) -> Option<(Node, Node)> {
        Some(match link {
            Node::Link(dir, at) => (Node::Dir(dir), Node::Device(at)),
            Node::Subsystem(at) => (Node::Device(at), Node::Dir(Dir::ClassBlock)),
            Node::Interface(number, Part::Link) => (
                Node::Dir(Dir::ClassNet),
                Node::Interface(number, Part::Folder),
            ),
            Node::Interface(number, Part::Class) => (
                Node::Interface(number, Part::Folder),
                Node::Dir(Dir::ClassNet),
            ),
            Node::ToProcessor(at) => (Node::MemoryNode, Node::Processor(at)),
            Node::ToNode(at) => (Node::Processor(at), Node::MemoryNode),
            _ => return None,
        })
    }

    /// The same as text.
    pub fn target(&self, link: Node) -> Option<String> {
        let (from, to) = self.ends(link)?;
        let up = self.path(from).split('/').count();
        Some(format!("{}{}", "../".repeat(up), self.path(to)))
    }

    /// What a file holds.
    pub fn text(&self, file: Node) -> Option<String> {
        let mut text = match file {
            Node::Property(at, number) => PROPERTIES.get(number)?.1(self.devices.get(at)?)?,
            Node::OfQueue(at, number) => QUEUE.get(number)?.1(self.devices.get(at)?)?,
            Node::OfFile(at, number) => {
                OF_FILE.get(number)?.1(self.devices.get(at)?.file.as_ref()?)
            }
            Node::OfProcessors(number) => PROCESSORS.get(number)?.1(self.processors),
            Node::OfTopology(at, number) => TOPOLOGY.get(number)?.1(self.processors, at),
            Node::OfNodes(number) => NODES.get(number)?.1.to_string(),
            Node::OfNode(number) => OF_NODE.get(number)?.1(self.processors, self.memory),
            Node::Interface(number, Part::Count(at)) => {
                self.interface(number)?.count(at.into())?.to_string()
            }
            Node::Partitions => return Some(self.partitions()),
            Node::Statistics => return Some(self.statistics()),
            _ => return None,
        };
        text.push('\n');
        Some(text)
    }

    fn statistics(&self) -> String {
        let mut text = String::new();
        for (_, device) in self.there() {
            let (major, minor) = device.numbers;
            text.push_str(&format!("{major:4} {minor:7} {}", device.name));
            for value in statistics(&device.counts) {
                text.push_str(&format!(" {value}"));
            }
            text.push('\n');
        }
        text
    }

    fn partitions(&self) -> String {
        let mut text = String::from("major minor  #blocks  name\n\n");
        for (_, device) in self.there().filter(|(_, device)| device.sectors > 0) {
            let ((major, minor), blocks) = (device.numbers, device.sectors / 2);
            text.push_str(&format!(
                "{major:4}  {minor:7} {blocks:10} {}\n",
                device.name
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let info = Info {
            sectors: 131_072,
            block: 512,
            discards: true,
            most_requests: 64,
            ..Info::default()
        };
        let mut tree = Tree::new(2);
        tree.set("vda", info, &[(1, 2048, 4096), (3, 6144, 100)]);
        tree.set("ram0", info, &[]);
        tree.set("nonsense", info, &[]);
        tree
    }

    /// As a program would: by names from the root.
    fn at(tree: &Tree, path: &str) -> Option<Node> {
        path.split('/').try_fold(Node::Dir(Dir::Root), |dir, name| {
            let children = tree.children(dir);
            children
                .into_iter()
                .find(|(it, _)| it == name)
                .map(|(_, node)| node)
        })
    }

    #[test]
    fn every_node_knows_its_path_and_links_lead_to_what_is_there() {
        let tree = tree();
        let (mut open, mut seen) = (alloc::vec![Node::Dir(Dir::Root)], 0);
        while let Some(dir) = open.pop() {
            for (name, node) in tree.children(dir) {
                let path = tree.path(node);
                assert!(
                    path.ends_with(&name) && at(&tree, &path) == Some(node),
                    "{path}"
                );
                if let Some(target) = tree.target(node) {
                    let mut place: Vec<&str> = path.split('/').collect();
                    place.pop();
                    for part in target.split('/') {
                        match part {
                            ".." => drop(place.pop().unwrap()),
                            name => place.push(name),
                        }
                    }
                    assert!(at(&tree, &place.join("/")).is_some(), "{path} -> {target}");
                }
                open.push(node);
                seen += 1;
            }
        }
        assert!(seen > 60);
    }

    #[test]
    fn processors_are_counted_as_linux_counts_them() {
        let text = |processors, path: &str| {
            let tree = Tree::new(processors);
            tree.text(at(&tree, &format!("devices/system/cpu/{path}"))?)
        };
        assert_eq!(text(1, "online").unwrap(), "0\n");
        assert_eq!(text(4, "possible").unwrap(), "0-3\n");
        assert_eq!(text(4, "offline").unwrap(), "\n");
        assert_eq!(text(4, "cpu3/topology/core_id").unwrap(), "3\n");
        assert_eq!(text(4, "cpu2/topology/thread_siblings").unwrap(), "4\n");
        assert_eq!(text(4, "cpu0/topology/package_cpus").unwrap(), "f\n");
        assert_eq!(
            text(64, "cpu0/topology/package_cpus").unwrap(),
            "ffffffff,ffffffff\n"
        );
        assert_eq!(text(4, "cpu4/topology/core_id"), None);
    }

    #[test]
    fn there_is_one_node_of_memory() {
        let mut tree = Tree::new(3);
        tree.set_memory([2048, 512]);
        let text = |path: &str| tree.text(at(&tree, &format!("devices/system/node/{path}"))?);
        assert_eq!(text("online").unwrap(), "0\n");
        assert_eq!(text("node0/cpumap").unwrap(), "7\n");
        assert_eq!(text("node0/cpulist").unwrap(), "0-2\n");
        assert_eq!(text("node0/distance").unwrap(), "10\n");
        let memory = text("node0/meminfo").unwrap();
        let line = memory.lines().nth(1).unwrap();
        assert_eq!(line, "Node 0 MemFree:             512 kB");
        let link = at(&tree, "devices/system/cpu/cpu2/node0").unwrap();
        assert_eq!(
            tree.path(tree.ends(link).unwrap().1),
            "devices/system/node/node0"
        );
        let link = at(&tree, "devices/system/node/node0/cpu2").unwrap();
        assert_eq!(
            tree.path(tree.ends(link).unwrap().1),
            "devices/system/cpu/cpu2"
        );
    }

    #[test]
    fn properties_are_linux_s() {
        let tree = tree();
        let text = |path: &str| tree.text(at(&tree, path)?);
        assert_eq!(text("devices/block/vda/size").unwrap(), "131072\n");
        assert_eq!(text("devices/block/vda/vda1/start").unwrap(), "2048\n");
        assert_eq!(text("devices/block/vda/vda3/dev").unwrap(), "254:3\n");
        assert_eq!(text("devices/block/ram0/dev").unwrap(), "1:0\n");
        assert_eq!(text("devices/block/vda/partition"), None);
        assert_eq!(text("devices/block/vda/vda1/hidden"), None);
        let uevent = text("devices/block/vda/vda1/uevent").unwrap();
        assert_eq!(
            uevent,
            "MAJOR=254\nMINOR=1\nDEVNAME=vda1\nDEVTYPE=partition\nPARTN=1\n"
        );
        let link = at(&tree, "dev/block/254:1").unwrap();
        assert_eq!(tree.target(link).unwrap(), "../../devices/block/vda/vda1");
        assert!(at(&tree, "block/vda1").is_none() && at(&tree, "class/block/vda1").is_some());
        let partitions = tree.text(Node::Partitions).unwrap();
        assert_eq!(
            partitions.lines().nth(3),
            Some(" 254        1       2048 vda1")
        );
        assert_eq!(partitions.lines().count(), 6);
    }

    #[test]
    fn partitions_that_change_keep_their_places() {
        let mut tree = tree();
        let part = at(&tree, "devices/block/vda/vda3").unwrap();
        let info = Info {
            sectors: 200_000,
            block: 512,
            ..Info::default()
        };
        tree.set("vda", info, &[(2, 10, 20), (3, 6144, 200)]);
        assert_eq!(at(&tree, "devices/block/vda/vda3"), Some(part));
        assert_eq!(at(&tree, "class/block/vda1"), None);
        let text = |tree: &Tree, path: &str| tree.text(at(tree, path)?);
        assert_eq!(text(&tree, "devices/block/vda/size").unwrap(), "200000\n");
        assert_eq!(text(&tree, "devices/block/vda/vda3/size").unwrap(), "200\n");
        assert_eq!(text(&tree, "devices/block/vda/vda2/start").unwrap(), "10\n");
        let Some(Node::Device(place)) = at(&tree, "devices/block/vda/vda2") else {
            panic!("no device");
        };
        assert_eq!(tree.part(place), Some(("vda", 2)));
        let counts = Counts {
            reads: 3,
            read_sectors: 24,
            read_time: 5_999_999,
            flushes: 1,
            flush_time: 1_000_001,
            ..Counts::default()
        };
        tree.count(place, counts);
        let stat = text(&tree, "devices/block/vda/vda2/stat").unwrap();
        let columns: Vec<&str> = stat.split_whitespace().collect();
        let line = "3 0 24 5 0 0 0 0 0 0 7 0 0 0 0 1 1";
        assert_eq!(columns.join(" "), line);
        let all = tree.text(Node::Statistics).unwrap();
        let last = all.lines().last().unwrap();
        assert_eq!(all.lines().count(), 4);
        assert_eq!(last, format!(" 254       2 vda2 {line}"));
    }
}
