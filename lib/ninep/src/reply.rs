//! Answers, made.

use crate::answer::{Attributes, Entry, Qid, Space};
use crate::ask::BASIC;
use crate::request::Lock;
use crate::{kind, HEAD, NO_TAG};
use alloc::vec::Vec;

/// An answer, complete but for its length and tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(Vec<u8>);

/// Bytes of the head of READ's and READDIR's answers: the message's, and the count.
pub const DATA_HEAD: usize = HEAD + 4;

impl Reply {
    /// Of a request of this kind, with nothing in it.
    pub fn to(kind: u8) -> Reply {
        Reply(head(kind, 64))
    }

    fn u8(mut self, value: u8) -> Reply {
        self.0.push(value);
        self
    }

    fn u32(mut self, value: u32) -> Reply {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Reply {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(mut self, text: &[u8]) -> Reply {
        put_text(&mut self.0, text);
        self
    }

    fn put_qid(mut self, qid: Qid) -> Reply {
        put_qid(&mut self.0, qid);
        self
    }

    /// Its bytes, for the request with this tag.
    pub fn with_tag(mut self, tag: u16) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0[5..HEAD].copy_from_slice(&tag.to_le_bytes());
        self.0
    }

    /// `number`: Linux's.
    pub fn error(number: u32) -> Reply {
        Reply::to(kind::ERROR - 1).u32(number)
    }

    pub fn version(most: u32, dialect: &[u8]) -> Reply {
        Reply::to(kind::VERSION).u32(most).text(dialect)
    }

    /// Of ATTACH, SYMLINK, MKNOD and MKDIR.
    pub fn qid(kind: u8, qid: Qid) -> Reply {
        Reply::to(kind).put_qid(qid)
    }

    /// Of OPEN and CREATE. `best`: how much to read or write at once; 0: whatever a message holds.
    pub fn opened(kind: u8, qid: Qid, best: u32) -> Reply {
        Reply::to(kind).put_qid(qid).u32(best)
    }

    /// As far as it came.
    pub fn walked(qids: &[Qid]) -> Reply {
        let mut reply = Reply::to(kind::WALK);
        reply.0.extend((qids.len() as u16).to_le_bytes());
        let each = |reply: Reply, qid: &Qid| reply.put_qid(*qid);
        qids.iter().fold(reply, each)
    }

    pub fn attributes(a: &Attributes) -> Reply {
        let reply = Reply::to(kind::GETATTR).u64(BASIC).put_qid(a.qid);
        let reply = reply.u32(a.mode).u32(a.uid).u32(a.gid);
        let numbers = [a.links, a.rdev, a.size, a.block_size, a.blocks];
        let times = [a.atime, a.mtime, a.ctime];
        // When it was made, and two numbers of versions: not told.
        let rest = [0; 4];
        let times = times.iter().flat_map(|(s, n)| [*s as u64, *n as u64]);
        let all = numbers.into_iter().chain(times).chain(rest);
        all.fold(reply, Reply::u64)
    }

    pub fn target(target: &[u8]) -> Reply {
        Reply::to(kind::READLINK).text(target)
    }

    pub fn count(count: u32) -> Reply {
        Reply::to(kind::WRITE).u32(count)
    }

    /// `status`: of [`crate::lock_status`].
    pub fn locked(status: u8) -> Reply {
        Reply::to(kind::LOCK).u8(status)
    }

    pub fn lock(lock: &Lock) -> Reply {
        let reply = Reply::to(kind::GETLOCK).u8(lock.kind);
        let reply = reply.u64(lock.start).u64(lock.length);
        reply.u32(lock.process).text(lock.client)
    }

    pub fn length_of_value(length: u64) -> Reply {
        Reply::to(kind::ATTRIBUTE).u64(length)
    }

    pub fn space(space: &Space) -> Reply {
        let reply = Reply::to(kind::STATFS);
        let reply = reply.u32(space.kind).u32(space.block_size);
        let numbers = [
            space.blocks,
            space.free,
            space.available,
            space.files,
            space.files_free,
            space.id,
        ];
        let reply = numbers.into_iter().fold(reply, Reply::u64);
        reply.u32(space.longest_name)
    }
}

fn head(kind: u8, room: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(room);
    bytes.extend([0, 0, 0, 0, kind.wrapping_add(1)]);
    bytes.extend(NO_TAG.to_le_bytes());
    bytes
}

/// Longer ones than the protocol knows are cut; nobody has such.
fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(usize::from(u16::MAX))];
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text);
}

fn put_qid(bytes: &mut Vec<u8>, qid: Qid) {
    bytes.push(qid.kind);
    bytes.extend(qid.version.to_le_bytes());
    bytes.extend(qid.path.to_le_bytes());
}

/// Of READ: data is read into its place at once.
pub struct Data(Vec<u8>);

impl Data {
    pub fn new(most: usize) -> Data {
        let mut bytes = head(kind::READ, DATA_HEAD + most);
        bytes.resize(DATA_HEAD + most, 0);
        Data(bytes)
    }

    pub fn room(&mut self) -> &mut [u8] {
        &mut self.0[DATA_HEAD..]
    }

    /// So many bytes of the room are filled.
    pub fn end(mut self, count: usize) -> Reply {
        self.0.truncate(DATA_HEAD + count);
        with_count(self.0)
    }
}

fn with_count(mut bytes: Vec<u8>) -> Reply {
    let count = (bytes.len() - DATA_HEAD) as u32;
    bytes[HEAD..DATA_HEAD].copy_from_slice(&count.to_le_bytes());
    Reply(bytes)
}

/// Of READDIR.
pub struct Entries {
    bytes: Vec<u8>,
    most: usize,
}

impl Entries {
    pub fn new(most: usize) -> Entries {
        let mut bytes = head(kind::READDIR, 512);
        bytes.resize(DATA_HEAD, 0);
        Entries { bytes, most }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.len() == DATA_HEAD
    }

    /// False: there is no room for it.
    pub fn push(&mut self, entry: &Entry) -> bool {
        if self.bytes.len() - DATA_HEAD + 24 + entry.name.len() > self.most {
            return false;
        }
        put_qid(&mut self.bytes, entry.qid);
        self.bytes.extend(entry.next.to_le_bytes());
        self.bytes.push(entry.kind);
        put_text(&mut self.bytes, entry.name);
        true
    }

    pub fn end(self) -> Reply {
        with_count(self.bytes)
    }
}
