//! The example of the guide (docs/guide/first-server.md): a manager with one file, `greeting`, that anybody may read and its owner may change.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use cairn_idl::errno::{EFBIG, ENOENT};
use cairn_idl::fs::s;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Meta, Server};

/// Longest greeting.
const MOST: usize = 256;

/// A node is the directory itself or its one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Root,
    Greeting,
}

pub struct Hello {
    text: Vec<u8>,
}

impl Default for Hello {
    fn default() -> Hello {
        Hello {
            text: b"Hello from a server of your own.\n".to_vec(),
        }
    }
}

impl Server for Hello {
    type Node = Node;
    type State = ();

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        Ok(match node {
            Node::Root => Meta {
                mode: s::IFDIR | 0o755,
                ino: 1,
                ..Meta::default()
            },
            Node::Greeting => Meta {
                mode: s::IFREG | 0o644,
                ino: 2,
                size: self.text.len() as u64,
                ..Meta::default()
            },
        })
    }

    fn lookup(&mut self, _: &mut Context, _: Node, name: &[u8]) -> Answer<Node> {
        if name == b"greeting" {
            Ok(Node::Greeting)
        } else {
            Err(Failure::Errno(ENOENT))
        }
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        _: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let entries: [(u64, u32, &[u8]); 3] = [
            (1, s::IFDIR, b"."),
            (1, s::IFDIR, b".."),
            (2, s::IFREG, b"greeting"),
        ];
        let mut at = position;
        for (ino, mode, name) in entries.into_iter().skip(position as usize) {
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
        _: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let rest = self.text.get(offset as usize..).unwrap_or(&[]);
        Ok(rest[..rest.len().min(length)].into())
    }

    fn write(
        &mut self,
        cx: &mut Context,
        _: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let end = (offset as usize)
            .checked_add(length)
            .filter(|&end| end <= MOST)
            .ok_or(Failure::Errno(EFBIG))?;
        let mut text = self.text.clone();
        text.resize(text.len().max(end), 0);
        cx.fetch(0, &mut text[offset as usize..end])?;
        self.text = text;
        Ok(length)
    }

    fn truncate(&mut self, _: &mut Context, _: Node, size: u64) -> Answer<()> {
        if size > MOST as u64 {
            return Err(Failure::Errno(EFBIG));
        }
        self.text.resize(size as usize, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::errno::EACCES;
    use cairn_idl::{fs, label};
    use cairn_resmgr::fake::Bench;

    #[test]
    fn the_greeting_is_read_and_changed() {
        let mut bench = Bench::new(Hello::default(), b"/hello");
        let file = bench
            .open(b"greeting", fs::o::RDWR | fs::o::TRUNC, 0)
            .unwrap();
        assert_eq!(
            bench.result(file, &[fs::WRITE, fs::POSITION], b"good day\n"),
            9
        );
        let answer = bench.call(file, &[fs::READ, 0], b"", 100).unwrap();
        assert_eq!(answer.bytes(), b"good day\n");
        assert_eq!(bench.result(file, &[fs::WRITE, 250], b"too far"), -EFBIG);
    }

    #[test]
    fn others_may_only_read() {
        let mut bench = Bench::new(Hello::default(), b"/hello");
        bench.label = label::make(1000, 1000);
        assert!(bench.open(b"greeting", fs::o::RDONLY, 0).is_ok());
        assert_eq!(bench.open(b"greeting", fs::o::WRONLY, 0), Err(-EACCES));
        assert_eq!(bench.open(b"absent", fs::o::RDONLY, 0), Err(-ENOENT));
    }
}
