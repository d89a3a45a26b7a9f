//! A connected pair of sockets: a ring in each direction, with message boundaries for datagrams and sequenced packets.

use crate::{READABLE, WRITABLE};
use alloc::collections::VecDeque;
use cairn_idl::errno::*;
use cairn_idl::fs::poll;
use cairn_resmgr::ring::{Buffers, Ring};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Direct, Failure, Later};

pub const CAPACITY: usize = 128 * 1024;
/// Most messages that wait in one direction.
const MESSAGES: usize = 256;

/// Socket types.
pub const STREAM: u64 = 1;
pub const DATAGRAM: u64 = 2;
pub const SEQPACKET: u64 = 5;

/// What one end has to read, and what it still does.
struct End {
    ring: Ring,
    /// Lengths of the messages in the ring, unless it is a stream.
    messages: VecDeque<usize>,
    open: bool,
    reads: bool,
    writes: bool,
}

pub struct Pair {
    ends: [End; 2],
    kind: u64,
    pub ino: u64,
    pub uid: u32,
    pub gid: u32,
}

impl Pair {
    pub fn new(kind: u64, ino: u64, uid: u32, gid: u32) -> Pair {
        let end = || End {
            ring: Ring::new(CAPACITY),
            messages: VecDeque::new(),
            open: true,
            reads: true,
            writes: true,
        };
        Pair {
            ends: [end(), end()],
            kind,
            ino,
            uid,
            gid,
        }
    }

    /// An end closes; `true` if it was the last.
    pub fn close(&mut self, side: usize, buffers: &mut Buffers) -> bool {
        let end = &mut self.ends[side];
        (end.open, end.reads, end.writes) = (false, false, false);
        end.ring.clear(buffers);
        end.messages.clear();
        !self.ends[1 - side].open
    }

    pub fn shut_down(&mut self, side: usize, how: u64) -> Answer<()> {
        if how > 2 {
            return Err(Failure::Errno(EINVAL));
        }
        self.ends[side].reads &= how == 1;
        self.ends[side].writes &= how == 0;
        Ok(())
    }

    pub fn unread(&self, side: usize) -> usize {
        let end = &self.ends[side];
        match end.messages.front() {
            Some(&first) => first,
            None => end.ring.len(),
        }
    }

    pub fn memory(&self, side: usize) -> usize {
        self.ends[side].ring.memory()
    }

    /// Give the memory of an empty ring back.
    pub fn trim(&mut self, buffers: &mut Buffers) {
        for end in &mut self.ends {
            if end.ring.is_empty() {
                end.ring.clear(buffers);
            }
        }
    }

    /// `keys` are this end's; `other` the peer's.
    pub fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        side: usize,
        length: usize,
        peek: bool,
        keys: u64,
        other: u64,
    ) -> Answer<Data<'a>> {
        let sends = self.ends[1 - side].writes;
        let stream = self.kind == STREAM;
        let end = &mut self.ends[side];
        let waiting = if stream {
            (!end.ring.is_empty()).then_some(end.ring.len())
        } else {
            end.messages.front().copied()
        };
        let Some(available) = waiting else {
            return if !sends || !end.reads {
                Ok(Data::default())
            } else {
                Err(Failure::Wait(keys | READABLE))
            };
        };
        let part = length.min(available);
        let skip = if stream { 0 } else { available - part };
        if !peek {
            end.messages.pop_front();
            cx.wake(other | WRITABLE);
        }
        if available == 0 {
            return Ok(Data::default());
        }
        end.ring.drain(cx, part, skip, peek)
    }

    pub fn write(
        &mut self,
        cx: &mut Context,
        side: usize,
        length: usize,
        keys: u64,
        other: u64,
        buffers: &mut Buffers,
    ) -> Answer<usize> {
        let sends = self.ends[side].writes;
        let stream = self.kind == STREAM;
        let end = &mut self.ends[1 - side];
        let mut done = cx.progress as usize;
        if !sends || !end.reads {
            return match done {
                0 => Err(Failure::Errno(EPIPE)),
                done => Ok(done),
            };
        }
        if !stream {
            if length > CAPACITY {
                return Err(Failure::Errno(EMSGSIZE));
            }
            if end.ring.room() < length || end.messages.len() >= MESSAGES {
                return Err(Failure::Wait(keys | WRITABLE));
            }
            end.ring.fill(cx, 0, length, buffers)?;
            end.messages.push_back(length);
            cx.wake(other | READABLE);
            return Ok(length);
        }
        let part = (length - done).min(end.ring.room());
        if part != 0 {
            if let Err(failure) = end.ring.fill(cx, done, part, buffers) {
                return if done != 0 { Ok(done) } else { Err(failure) };
            }
            done += part;
            cx.wake(other | READABLE);
        }
        if done == length {
            return Ok(done);
        }
        cx.progress = done as u64;
        cx.progress_is_result = true;
        Err(Failure::Wait(keys | WRITABLE))
    }

    /// The direct ways of a stream ([`cairn_resmgr::Server::read_direct`]).
    #[inline(never)]
    pub fn read_direct(
        &mut self,
        side: usize,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
        (keys, other): (u64, u64),
    ) -> Direct {
        let sends = self.ends[1 - side].writes;
        let end = &mut self.ends[side];
        let length = length.min(end.ring.len());
        if self.kind != STREAM {
            return Direct::Ordinary;
        }
        if length == 0 {
            return if !sends || !end.reads {
                Direct::Done(0)
            } else {
                Direct::Wait(keys | READABLE)
            };
        }
        if !end.ring.take_words(words, length) {
            return Direct::Ordinary;
        }
        later.wake(other | WRITABLE);
        Direct::Done(length)
    }

    #[inline(never)]
    pub fn write_direct(
        &mut self,
        side: usize,
        length: usize,
        words: &[u64; 5],
        later: &mut Later,
        other: u64,
    ) -> Direct {
        let sends = self.ends[side].writes;
        let end = &mut self.ends[1 - side];
        if self.kind != STREAM
            || !sends
            || !end.reads
            || end.ring.room() < length
            || !end.ring.put_words(words, length)
        {
            return Direct::Ordinary;
        }
        later.wake(other | READABLE);
        Direct::Done(length)
    }

    pub fn ready(&self, side: usize) -> u64 {
        let (own, peer) = (&self.ends[side], &self.ends[1 - side]);
        let mut ready = 0;
        if !own.ring.is_empty() || !own.messages.is_empty() {
            ready |= poll::IN | poll::RDNORM;
        }
        if !peer.writes || !own.reads {
            ready |= poll::IN | poll::RDNORM | poll::RDHUP;
        }
        if !peer.open || !own.reads && !own.writes {
            ready |= poll::HUP;
        }
        if peer.ring.room() >= CAPACITY / 4 || !peer.open {
            ready |= poll::OUT | poll::WRNORM;
        }
        ready
    }
}
