//! The nucleus's trace as files, for root: `control` takes commands, `data` is the records ([`cairn_abi::trace::Record`]) from the oldest on, `status` says how things are.
//!
//! Commands, one in a write: `start`, `stop`; `fail NoMemory|NoTable|NoSlot N [DOMAIN]`, `kill N DOMAIN`, `drop N SOURCE` (the N-th fitting service fails, the domain dies at its N-th
//! entry, the N-th interrupt of the source is lost); `none` takes a failure back that has not come.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::trace::{inject, SIZE};
use cairn_abi::Error;
use cairn_idl::errno::{EINVAL, ENOENT, ENOMEM};
use cairn_idl::fs::s;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Meta, Server};

/// Longest command.
const COMMAND: usize = 64;
/// Most bytes that one read gives.
const MOST: usize = 64 * SIZE;

/// `trace::STATUS`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    pub on: bool,
    pub written: u64,
    pub capacity: u64,
    pub left: u64,
    pub failed: u64,
}

/// The trace portal.
pub trait Nucleus {
    /// False: there is no memory for records.
    fn start(&mut self) -> bool;
    fn stop(&mut self);
    fn status(&mut self) -> Status;
    /// Whole records from number `first` on → how many, and the number of the first of them.
    fn read(&mut self, first: u64, into: &mut [u8]) -> (usize, u64);
    /// False: refused.
    fn inject(&mut self, plan: [u64; 6]) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Root,
    Control,
    Data,
    Status,
}

const FILES: [(Node, &[u8], u32); 3] = [
    (Node::Control, b"control", 0o200),
    (Node::Data, b"data", 0o400),
    (Node::Status, b"status", 0o444),
];

pub struct Tracer<N: Nucleus> {
    nucleus: N,
    buffer: Vec<u8>,
}

impl<N: Nucleus> Tracer<N> {
    pub fn new(nucleus: N) -> Tracer<N> {
        Tracer {
            nucleus,
            buffer: vec![0; MOST],
        }
    }

    fn command(&mut self, text: &str) -> Result<(), i64> {
        let mut words = text.split_whitespace();
        let mut next = || words.next();
        let what = next().ok_or(EINVAL)?;
        match what {
            "start" if next().is_none() => {
                return if self.nucleus.start() {
                    Ok(())
                } else {
                    Err(ENOMEM)
                };
            }
            "stop" if next().is_none() => {
                self.nucleus.stop();
                return Ok(());
            }
            _ => {}
        }
        let number = |word: Option<&str>| word.and_then(|w| w.parse().ok()).ok_or(EINVAL);
        let any = inject::ANY;
        let plan = match what {
            "none" => [inject::NOTHING, 0, 0, 0, 0, 0],
            "fail" => {
                let error = match next() {
                    Some("NoMemory") => Error::NoMemory,
                    Some("NoTable") => Error::NoTable,
                    Some("NoSlot") => Error::NoSlot,
                    _ => return Err(EINVAL),
                };
                let n = number(next())?;
                let domain = match next() {
                    None => any,
                    some => number(some)?,
                };
                [inject::FAIL, n, error as u64, domain, any, any]
            }
            "kill" => [inject::KILL, number(next())?, 0, number(next())?, any, any],
            "drop" => [
                inject::DROP,
                number(next())?,
                number(next())?,
                any,
                any,
                any,
            ],
            _ => return Err(EINVAL),
        };
        if next().is_some() || !self.nucleus.inject(plan) {
            return Err(EINVAL);
        }
        Ok(())
    }

    fn status(&mut self) -> String {
        let Status {
            on,
            written,
            capacity,
            left,
            failed,
        } = self.nucleus.status();
        format!("tracing {}\nrecords {written}\nroom {capacity}\nentries-to-failure {left}\nfailures {failed}\n", if on { "on" } else { "off" })
    }

    /// Bytes of `data` from `offset` on.
    fn data(&mut self, offset: u64, length: usize) -> &[u8] {
        let Status {
            written, capacity, ..
        } = self.nucleus.status();
        let oldest = written.saturating_sub(capacity);
        let skip = (offset % SIZE as u64) as usize;
        let first = oldest.saturating_add(offset / SIZE as u64);
        let (count, _) = self.nucleus.read(first, &mut self.buffer);
        let end = (count * SIZE).min(self.buffer.len());
        let bytes = self.buffer.get(skip..end).unwrap_or(&[]);
        &bytes[..bytes.len().min(length)]
    }
}

impl<N: Nucleus> Server for Tracer<N> {
    type Node = Node;
    type State = ();

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let file = FILES.iter().position(|file| file.0 == node);
        Ok(match file {
            None => Meta {
                mode: s::IFDIR | 0o755,
                ino: 1,
                ..Meta::default()
            },
            Some(index) => {
                let status = self.nucleus.status();
                let kept = status.written.min(status.capacity) * SIZE as u64;
                Meta {
                    mode: s::IFREG | FILES[index].2,
                    ino: 2 + index as u64,
                    size: if node == Node::Data { kept } else { 0 },
                    ..Meta::default()
                }
            }
        })
    }

    fn lookup(&mut self, _: &mut Context, _: Node, name: &[u8]) -> Answer<Node> {
        let file = FILES.iter().find(|file| file.1 == name);
        file.map(|file| file.0).ok_or(Failure::Errno(ENOENT))
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        _: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let own: [(u64, u32, &[u8]); 2] = [(1, s::IFDIR, b"."), (1, s::IFDIR, b"..")];
        let files = (2..).zip(FILES).map(|(ino, file)| (ino, s::IFREG, file.1));
        let mut at = position;
        for (ino, mode, name) in own.into_iter().chain(files).skip(position as usize) {
            if !into.add(ino, at + 1, mode, name) {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    fn read<'a>(
        &'a mut self,
        _: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        match handle.node {
            Node::Data => Ok(self.data(offset, length).into()),
            Node::Status => {
                let text = self.status();
                let count = text.len().min(self.buffer.len());
                self.buffer[..count].copy_from_slice(&text.as_bytes()[..count]);
                let start = usize::try_from(offset).map_or(count, |o| o.min(count));
                let rest = &self.buffer[start..count];
                Ok(rest[..rest.len().min(length)].into())
            }
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
        if handle.node != Node::Control || length > COMMAND {
            return Err(Failure::Errno(EINVAL));
        }
        let mut text = [0; COMMAND];
        cx.fetch(0, &mut text[..length])?;
        let text = core::str::from_utf8(&text[..length]).map_err(|_| Failure::Errno(EINVAL))?;
        self.command(text).map_err(Failure::Errno)?;
        Ok(length)
    }

    /// Opening with O_TRUNC, as a shell does.
    fn truncate(&mut self, _: &mut Context, _: Node, _: u64) -> Answer<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::fs;
    use cairn_resmgr::fake::Bench;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Default)]
    struct Seen {
        on: bool,
        plans: Vec<[u64; 6]>,
    }

    /// 200 records were written, 150 of them are kept; each is full of its number.
    struct Fake(Rc<RefCell<Seen>>);

    impl Nucleus for Fake {
        fn start(&mut self) -> bool {
            self.0.borrow_mut().on = true;
            true
        }
        fn stop(&mut self) {
            self.0.borrow_mut().on = false;
        }
        fn status(&mut self) -> Status {
            Status {
                on: self.0.borrow().on,
                written: 200,
                capacity: 150,
                left: 7,
                failed: 3,
            }
        }
        fn read(&mut self, first: u64, into: &mut [u8]) -> (usize, u64) {
            let first = first.clamp(50, 200);
            let count = (into.len() / SIZE).min(64).min((200 - first) as usize);
            for (record, number) in into.chunks_exact_mut(SIZE).take(count).zip(first..) {
                record.fill(number as u8);
            }
            (count, first)
        }
        fn inject(&mut self, plan: [u64; 6]) -> bool {
            self.0.borrow_mut().plans.push(plan);
            plan[0] == inject::NOTHING || plan[1] != 0
        }
    }

    #[test]
    fn records_are_read_from_the_oldest_on_in_any_pieces() {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let mut bench = Bench::new(Tracer::new(Fake(seen)), b"/trace");
        let file = bench.open(b"data", fs::o::RDONLY, 0).unwrap();
        let mut all = Vec::new();
        loop {
            let answer = bench.call(file, &[fs::READ, all.len() as u64], b"", 1001);
            let answer = answer.unwrap();
            if answer.bytes().is_empty() {
                break;
            }
            all.extend_from_slice(answer.bytes());
        }
        let expected: Vec<u8> = (50..200).flat_map(|n| [n as u8; SIZE]).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn commands_are_understood_or_refused() {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let mut bench = Bench::new(Tracer::new(Fake(seen.clone())), b"/trace");
        let file = bench
            .open(b"control", fs::o::WRONLY | fs::o::TRUNC, 0)
            .unwrap();
        let mut write =
            |text: &str| bench.result(file, &[fs::WRITE, fs::POSITION], text.as_bytes());
        for text in [
            "start\n",
            "fail NoTable 3\n",
            "fail NoSlot 1 17",
            "kill 9 4",
            "drop 2 20",
            "none",
        ] {
            assert_eq!(write(text), text.len() as i64, "{text}");
        }
        assert!(seen.borrow().on);
        let any = inject::ANY;
        assert_eq!(
            seen.borrow().plans,
            [
                [inject::FAIL, 3, Error::NoTable as u64, any, any, any],
                [inject::FAIL, 1, Error::NoSlot as u64, 17, any, any],
                [inject::KILL, 9, 0, 4, any, any],
                [inject::DROP, 2, 20, any, any, any],
                [0; 6],
            ]
        );
        for text in [
            "",
            " ",
            "begin",
            "start now",
            "fail",
            "fail Busy 1",
            "fail NoSlot",
            "fail NoSlot x",
            "fail NoSlot 1 2 3",
            "kill 1",
            "drop 1",
            "fail NoSlot 0",
        ] {
            let expected = if text.is_empty() { 0 } else { -EINVAL };
            assert_eq!(write(text), expected, "{text:?}");
        }
        assert_eq!(write("stop"), 4);
        assert!(!seen.borrow().on);
    }
}
