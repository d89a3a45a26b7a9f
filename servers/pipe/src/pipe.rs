//! A pipe or FIFO: one ring, how many read and write it, and the rules of opening a FIFO.

use crate::users::Capacities;
use crate::{ATOMIC, READABLE, WRITABLE};
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, poll};
use cairn_resmgr::ring::{Buffers, Ring};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Direct, Failure, Later};

/// Linux's default and largest capacities.
pub const CAPACITY: usize = 64 * 1024;
pub const CAPACITY_MAX: usize = 1024 * 1024;

/// What a FIFO's node is in its file system, as that one's server said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// The file server's domain.
    pub maker: Id,
    pub ino: u64,
    pub dev: u64,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// State of a pipe.
pub struct Pipe {
    pub ring: Ring,
    pub readers: u32,
    pub writers: u32,
    /// How often an end was opened: an opener waits for the other's to move, even if that end is closed again by then.
    reader_opens: u32,
    writer_opens: u32,
    pub fifo: Option<Fifo>,
    /// Handles, also such as are neither end.
    pub holds: u32,
    pub ino: u64,
    /// Who made it, and pays for it.
    pub uid: u32,
    /// Who pays for it: its user, or the group that it was made in.
    pub payer: u32,
    /// Whose it is by fstat(2), and its permissions: fchown and fchmod change them.
    pub owner: u32,
    pub gid: u32,
    pub mode: u32,
    /// Of access, of change of contents and of change, as utimensat said: seconds and nanoseconds. Nothing else sets them.
    pub times: [(i64, i64); 3],
    /// It is to be looked at whether the ring's memory can go.
    pub emptied: bool,
}

/// The direction of flags.
fn reads(flags: u64) -> bool {
    flags & o::ACCMODE != o::WRONLY
}

fn writes(flags: u64) -> bool {
    matches!(flags & o::ACCMODE, o::WRONLY | o::RDWR)
}

/// What an open that waits leaves in `progress`: that it is counted, its direction, the pipe, and the other side's count of opens then.
const COUNTED: u64 = 1 << 63;
const WRITER: u64 = 1 << 62;

/// Which pipe and direction a waiting open was counted for.
pub fn counted(progress: u64) -> Option<(u32, bool)> {
    (progress & COUNTED != 0).then_some((
        (progress >> 32) as u32 & 0x3fff_ffff,
        progress & WRITER != 0,
    ))
}

impl Pipe {
    pub fn new(ino: u64, uid: u32, gid: u32, fifo: Option<Fifo>, capacity: usize) -> Pipe {
        Pipe {
            ring: Ring::new(capacity),
            readers: 0,
            writers: 0,
            reader_opens: 0,
            writer_opens: 0,
            fifo,
            holds: 0,
            ino,
            uid,
            payer: uid,
            owner: uid,
            gid,
            mode: 0o600,
            times: [(0, 0); 3],
            emptied: false,
        }
    }

    /// An end opens.
    pub fn add(&mut self, flags: u64) {
        if reads(flags) {
            self.readers += 1;
            self.reader_opens = self.reader_opens.wrapping_add(1);
        }
        if writes(flags) {
            self.writers += 1;
            self.writer_opens = self.writer_opens.wrapping_add(1);
        }
    }

    /// An end closes.
    pub fn remove(&mut self, flags: u64) {
        self.readers -= reads(flags) as u32;
        self.writers -= writes(flags) as u32;
    }

    /// Neither end is open: what is in it is gone.
    pub fn has_no_ends(&self) -> bool {
        self.readers == 0 && self.writers == 0
    }

    pub fn is_closed(&self) -> bool {
        self.has_no_ends() && self.holds == 0
    }

    /// Open the FIFO as pipe `index` (whose keys begin at `keys`): waits for the other side unless O_NONBLOCK or O_RDWR.
    /// A pipe without a name (opened again through /proc/self/fd) never waits.
    pub fn open(&mut self, cx: &mut Context, flags: u64, index: u32, keys: u64) -> Answer<()> {
        let writer = writes(flags) && !reads(flags);
        let others = |pipe: &Pipe| {
            if writer {
                pipe.reader_opens
            } else {
                pipe.writer_opens
            }
        };
        if cx.progress & COUNTED != 0 {
            return if others(self) == cx.progress as u32 {
                Err(Failure::WaitEither([keys | READABLE, keys | WRITABLE]))
            } else {
                Ok(())
            };
        }
        let named = self.fifo.is_some();
        if named && writer && flags & o::NONBLOCK != 0 && self.readers == 0 {
            return Err(Failure::Errno(ENXIO));
        }
        self.add(flags);
        cx.wake(keys | READABLE);
        cx.wake(keys | WRITABLE);
        let alone = if writer {
            self.readers == 0
        } else {
            self.writers == 0
        };
        if named && alone && flags & o::NONBLOCK == 0 {
            let direction = if writer { WRITER } else { 0 };
            cx.progress = COUNTED | direction | (index as u64) << 32 | others(self) as u64;
            return Err(Failure::WaitEither([keys | READABLE, keys | WRITABLE]));
        }
        Ok(())
    }

    pub fn read<'a>(&'a mut self, cx: &mut Context, length: usize, keys: u64) -> Answer<Data<'a>> {
        if self.ring.is_empty() {
            return if self.writers == 0 {
                Ok(Data::default())
            } else {
                Err(Failure::Wait(keys | READABLE))
            };
        }
        let count = length.min(self.ring.len());
        // (tee(2) looks at what is there.)
        let peek = cx.request.words[2] & fs::PEEK != 0;
        if !peek {
            cx.wake(keys | WRITABLE);
        }
        self.ring.drain(cx, count, peek)
    }

    /// All of it (in pieces if it is longer than PIPE_BUF); `cx.progress` counts what went before a wait.
    pub fn write(
        &mut self,
        cx: &mut Context,
        length: usize,
        keys: u64,
        buffers: &mut Buffers,
    ) -> Answer<usize> {
        let mut done = cx.progress as usize;
        if length == 0 {
            return Ok(0);
        }
        if self.readers == 0 {
            return if done != 0 {
                Ok(done)
            } else {
                Err(Failure::Errno(EPIPE))
            };
        }
        let room = self.ring.room();
        let left = length - done;
        let part = match left {
            _ if length <= ATOMIC && room < length => 0,
            _ => left.min(room),
        };
        if part != 0 {
            if let Err(failure) = self.ring.fill(cx, done, part, buffers, self.payer) {
                return if done != 0 { Ok(done) } else { Err(failure) };
            }
            done += part;
            cx.wake(keys | READABLE);
        }
        if done == length {
            return Ok(done);
        }
        cx.progress = done as u64;
        cx.progress_is_result = true;
        Err(Failure::Wait(keys | WRITABLE))
    }

    /// The direct ways ([`cairn_resmgr::Server::read_direct`]).
    #[inline(always)]
    pub fn read_direct(
        &mut self,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
        keys: u64,
    ) -> Direct {
        let length = length.min(self.ring.len());
        if length == 0 {
            return if self.writers == 0 {
                Direct::Done(0)
            } else {
                Direct::Wait(keys | READABLE)
            };
        }
        if !self.ring.take_words(words, length) {
            return Direct::Ordinary;
        }
        later.wake(keys | WRITABLE);
        Direct::Done(length)
    }

    #[inline(always)]
    pub fn write_direct(
        &mut self,
        length: usize,
        words: &[u64; 5],
        later: &mut Later,
        keys: u64,
    ) -> Direct {
        if self.readers == 0 || self.ring.room() < length || !self.ring.put_words(words, length) {
            return Direct::Ordinary;
        }
        later.wake(keys | READABLE);
        Direct::Done(length)
    }

    /// For a FIFO's reader that did not wait for a writer: how often one had opened it. The end of the others is none for this reader.
    pub fn without_writer(&self, flags: u64) -> Option<u32> {
        let alone = self.fifo.is_some() && self.writers == 0 && reads(flags);
        // One that waited had a writer, even if that is gone again.
        (alone && flags & o::NONBLOCK != 0).then_some(self.writer_opens)
    }

    /// What an end with these flags is ready for; `without`: as it was opened.
    pub fn ready(&self, flags: u64, without: Option<u32>) -> u64 {
        let mut ready = 0;
        if reads(flags) {
            if !self.ring.is_empty() {
                ready |= poll::IN | poll::RDNORM;
            }
            if self.writers == 0 && without != Some(self.writer_opens) {
                ready |= poll::HUP;
            }
        }
        if writes(flags) {
            if self.ring.room() >= ATOMIC {
                ready |= poll::OUT | poll::WRNORM;
            }
            if self.readers == 0 {
                ready |= poll::ERR;
            }
        }
        ready
    }

    /// The ring's memory goes, and what is in it.
    pub fn clear(&mut self, cx: &mut Context, buffers: &mut Buffers) {
        cx.refund(self.payer, self.ring.memory());
        self.ring.clear(buffers);
    }

    /// F_SETPIPE_SZ: a power of two of pages. `privileged`: no limit holds for the caller.
    pub fn set_capacity(
        &mut self,
        cx: &mut Context,
        wish: u64,
        privileged: bool,
        capacities: &mut Capacities,
        buffers: &mut Buffers,
    ) -> Answer<usize> {
        if wish > i32::MAX as u64 {
            return Err(Failure::Errno(EINVAL));
        }
        let capacity = (wish as usize).max(ATOMIC).next_power_of_two();
        let before = self.ring.capacity();
        if capacity > before && !privileged {
            let fits = capacities.fits(self.uid, capacity - before);
            if capacity > CAPACITY_MAX || !fits {
                return Err(Failure::Errno(EPERM));
            }
        }
        if capacity < self.ring.len() {
            return Err(Failure::Errno(EBUSY));
        }
        let memory = self.ring.memory();
        self.ring.set_capacity(capacity, buffers);
        cx.refund(self.payer, memory - self.ring.memory());
        capacities.change(self.uid, before, capacity);
        Ok(capacity)
    }
}
