//! The manager of `random:`.

use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, poll, s, Stat, DEVICE_MOST};
use cairn_random::Generator;
use cairn_resmgr::layout::{self, makedev};
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::{Context, Data, Failure, Handle, Meta, Opened, Readiness, Server};

/// What the server needs beside requests.
pub trait Machine {
    /// Something that others cannot know, for the generator.
    fn entropy(&mut self) -> [u8; 16];
    /// `proc`, which has random bytes for programs that begin, is to mix these in.
    fn stir(&mut self, words: [u64; 4]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Root,
    Random,
    Urandom,
}

/// Their names, and minor numbers of the memory devices' major.
const NAMES: [(Node, &str, u32); 2] = [(Node::Random, "random", 8), (Node::Urandom, "urandom", 9)];
const MEMORY: u32 = 1;
/// Answers of the generator between two looks at the machine's entropy.
const RESEED: u32 = 256;
/// Nobody waits.
const KEY: u64 = 1;

pub struct Random<M: Machine> {
    machine: M,
    generator: Generator,
    until_reseed: u32,
    /// Start of the system, for stat.
    born: i64,
    scratch: Vec<u8>,
}

impl<M: Machine> Random<M> {
    /// At this time (seconds since 1970).
    pub fn new(machine: M, born: i64) -> Random<M> {
        Random {
            machine,
            generator: Generator::default(),
            until_reseed: 0,
            born,
            scratch: vec![0; DEVICE_MOST],
        }
    }
}

impl<M: Machine> Server for Random<M> {
    type Node = Node;
    type State = ();

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let found = NAMES.iter().find(|(it, ..)| *it == node);
        Ok(match found {
            None => Meta {
                mode: s::IFDIR | 0o755,
                ino: 1,
                ..Meta::default()
            },
            Some(&(_, _, minor)) => {
                let rdev = makedev(MEMORY, minor);
                Meta {
                    mode: s::IFCHR | 0o666,
                    ino: device::inode(rdev),
                    rdev,
                    ..Meta::default()
                }
            }
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        if dir != Node::Root {
            return Err(Failure::Errno(ENOTDIR));
        }
        let found = NAMES.iter().find(|(_, it, _)| it.as_bytes() == name);
        found.map(|found| found.0).ok_or(Failure::Errno(ENOENT))
    }

    fn path(&mut self, _: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let found = NAMES.iter().find(|(it, ..)| *it == node);
        put(found.map_or("", |found| found.1).as_bytes(), into)
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        Ok(layout::device_stat(&meta, self.born))
    }

    fn open(&mut self, _: &mut Context, node: Node, _: u64, (): &mut ()) -> Answer<Opened<Node>> {
        let kind = match node {
            Node::Root => kind::DIRECTORY,
            _ => 0,
        };
        Ok(Opened {
            node,
            kind: kind | kind::ALWAYS_READY | kind::SEEKABLE,
        })
    }

    fn read<'a>(
        &'a mut self,
        _: &mut Context,
        handle: &'a mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        if handle.node == Node::Root {
            return Err(Failure::Errno(EISDIR));
        }
        if self.until_reseed == 0 {
            let fresh = self.machine.entropy();
            self.generator.mix(&fresh);
            self.until_reseed = RESEED;
        }
        self.until_reseed -= 1;
        // No more at once: others have their turns.
        let piece = &mut self.scratch[..length.min(DEVICE_MOST)];
        self.generator.fill(piece);
        Ok(Data::from(&*piece))
    }

    fn write(
        &mut self,
        cx: &mut Context,
        _: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        // All of it counts, but what is mixed in need not be more than the key twice.
        let mut bytes = [0; 64];
        let bytes = &mut bytes[..length.min(64)];
        cx.fetch(0, bytes)?;
        self.generator.mix(bytes);
        let mut more = [[0; 8]; 4];
        self.generator.fill(more.as_flattened_mut());
        self.machine.stir(more.map(u64::from_le_bytes));
        Ok(length)
    }

    fn stays(&self, node: Node) -> bool {
        node != Node::Root
    }

    fn sync(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        match handle.node {
            Node::Root => Ok(()),
            _ => Err(Failure::Errno(EINVAL)),
        }
    }

    /// O_TRUNC and truncate mean nothing to a device.
    fn truncate(&mut self, _: &mut Context, _: Node, _: u64) -> Answer<()> {
        Err(Failure::Errno(EINVAL))
    }

    fn poll(&mut self, _: &mut Context, _: &mut Handle<Self>) -> Answer<Readiness> {
        Ok(Readiness {
            ready: poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM,
            keys: [KEY; 2],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::fs::{self, o};
    use cairn_resmgr::fake::Bench;

    #[derive(Default)]
    struct Fake(u8, Vec<[u64; 4]>);

    impl Machine for Fake {
        fn entropy(&mut self) -> [u8; 16] {
            self.0 += 1;
            [self.0; 16]
        }
        fn stir(&mut self, words: [u64; 4]) {
            self.1.push(words);
        }
    }

    fn bench() -> Bench<Random<Fake>> {
        Bench::new(Random::new(Fake::default(), 1_700_000_000), b"/dev")
    }

    fn read(bench: &mut Bench<Random<Fake>>, handle: u64, length: usize) -> Vec<u8> {
        let words = [fs::READ, fs::POSITION];
        let answer = bench.call(handle, &words, b"", length).unwrap();
        answer.bytes().to_vec()
    }

    #[test]
    fn what_is_read_differs_and_what_is_written_counts() {
        let mut bench = bench();
        let file = bench.open(b"urandom", o::RDWR | o::TRUNC, 0).unwrap();
        let first = read(&mut bench, file, 150_000);
        assert_eq!(first.len(), DEVICE_MOST);
        assert_ne!(first[..30_000], first[30_000..60_000]);
        assert_ne!(read(&mut bench, file, 100), first[..100]);
        let words = [fs::WRITE, fs::POSITION];
        assert_eq!(bench.result(file, &words, &[7; 100]), 100);
        assert_eq!(bench.result(file, &words, &[7; 100]), 100);
        let stirred = &bench.server.machine.1;
        assert!(stirred.len() == 2 && stirred[0] != stirred[1] && stirred[0] != [7; 4]);
        let mut other = self::bench();
        let same = other.open(b"random", o::RDONLY, 0).unwrap();
        assert_eq!(read(&mut other, same, 100), first[..100]);
        read(&mut other, same, 100);
        assert_ne!(read(&mut other, same, 100), read(&mut bench, file, 100));
        for (offset, whence) in [(5, 0), (-7, 1), (9, 2), (-1, 3)] {
            let words = [fs::SEEK, offset as u64, whence];
            assert_eq!(bench.result(file, &words, b""), 0);
        }
        assert_eq!(bench.result(file, &[fs::SYNC], b""), -EINVAL);
    }

    #[test]
    fn they_are_the_nodes_that_dev_shows() {
        let mut bench = bench();
        for (name, rdev) in [(&b"random"[..], 0x108u64), (b"urandom", 0x109)] {
            let answer = bench.call(0, &[fs::STAT, 0], name, fs::PATH_MAX).unwrap();
            assert_eq!(answer.data[24..28], (s::IFCHR | 0o666).to_le_bytes());
            assert_eq!(answer.data[40..48], rdev.to_le_bytes());
            assert_eq!(bench.result(0, &[fs::UNLINK, 0], name), -EROFS);
        }
        assert_eq!(bench.open(b"zero", o::RDONLY, 0), Err(-ENOENT));
        assert_eq!(bench.open(b"random/x", o::RDONLY, 0), Err(-ENOTDIR));
        assert_eq!(bench.open(b"", o::RDWR, 0), Err(-EISDIR));
        let root = bench.open(b"", o::RDONLY, 0).unwrap();
        assert_eq!(bench.result(root, &[fs::READ, 0], b""), -EISDIR);
    }
}
