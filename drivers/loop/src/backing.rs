//! A device's file, as a disk's backend: orders become READ, WRITE, SYNC and ALLOCATE of the file, one at a time. Between them the file is asked what it is
//! ([`Ask`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_block::serve::{Backend, Order, System};
use cairn_block::{Info, Kind, Outcome, PAGE, SECTOR};
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, s, Stat};
use cairn_idl::loops::{lo, How, PATH};

/// Bytes of a helper's buffer, and so most of one order.
pub const BUFFER: usize = 64 * 1024;
/// Orders that are taken from clients at a time.
const ORDERS: u32 = 16;
/// Badges of helpers' pulses: this and the helper's number.
pub const HELPER_FIRST: u64 = 1 << 30;
/// How often a call is made again whose server died of it, or with it.
const LIVES: u32 = 3;
/// FALLOC_FL_PUNCH_HOLE with FALLOC_FL_KEEP_SIZE.
const PUNCH: u64 = 3;

/// Why a helper's call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The server died with it; it may have a successor.
    Dead,
    Over,
}

/// A thread that makes calls, one at a time; a pulse tells of each answer.
pub trait Helper {
    fn number(&self) -> u64;
    /// [`BUFFER`] bytes; empty while a call is under way.
    fn buffer(&mut self) -> &mut [u8];
    /// The first `out` bytes of the buffer go along, or the first `input` come back.
    fn call(&mut self, portal: u32, words: [u64; 8], out: usize, input: usize);
    /// Each answer once.
    fn outcome(&mut self) -> Option<Result<[u64; 8], Gone>>;
    /// It will not be used for a while.
    fn rest(&mut self);
}

/// What is needed of the system.
pub trait Outside: System + Clone {
    type Helper: Helper;
    fn helper(&mut self, number: u64) -> Option<Self::Helper>;
    /// Most bytes of one copy.
    const MOST: usize;
    /// Bytes from byte `at` of an arena on. False: they are not there.
    fn read(&mut self, arena: u32, at: u64, into: &mut [u8]) -> bool;
    fn write(&mut self, arena: u32, at: u64, from: &[u8]) -> bool;
}

/// What a file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub size: u64,
    pub device: u64,
    pub inode: u64,
    pub path: Vec<u8>,
    pub read_only: bool,
}

/// A question to a file, this device's or the one that it may get. All of them end with what the file is now.
pub struct Ask {
    /// None: the device's own.
    pub file: Option<u32>,
    pub how: How,
    about: About,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Flags,
    Stat,
    Path,
}

impl Ask {
    pub fn new(file: Option<u32>, how: How, about: About) -> Ask {
        let step = match file {
            Some(_) => Step::Flags,
            None => Step::Stat,
        };
        Ask {
            file,
            how,
            about,
            step,
        }
    }
}

struct Job {
    tag: usize,
    kind: Kind,
    /// Of the file.
    at: u64,
    bytes: u64,
    arena: u32,
    pages: Vec<u32>,
    offset: u32,
    /// Bytes that are done.
    done: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    Nothing,
    Job,
    Ask,
}

pub struct Backing<S: Outside> {
    system: S,
    pub helper: S::Helper,
    /// The portal to the open file; 0: none as yet.
    pub file: u32,
    pub about: About,
    pub how: How,
    queue: VecDeque<Job>,
    done: VecDeque<(usize, Outcome)>,
    ask: Option<Ask>,
    answer: Option<(Ask, Result<About, i64>)>,
    running: Running,
    lives: u32,
}

/// Sectors of a file of this size that a device shows.
pub fn sectors(size: u64, how: &How) -> u64 {
    let behind = size.saturating_sub(how.offset);
    let shown = match how.limit {
        0 => behind,
        limit => behind.min(limit),
    };
    shown / SECTOR
}

impl<S: Outside> Backing<S> {
    /// Without a file as yet.
    pub fn new(system: S, helper: S::Helper, how: How) -> Backing<S> {
        Backing {
            system,
            helper,
            file: 0,
            about: About::default(),
            how,
            queue: VecDeque::new(),
            done: VecDeque::new(),
            ask: None,
            answer: None,
            running: Running::Nothing,
            lives: LIVES,
        }
    }

    /// Ask; one question at a time. False: there is one.
    pub fn begin(&mut self, ask: Ask) -> bool {
        let free = self.ask.is_none() && self.answer.is_none();
        if free {
            self.ask = Some(ask);
        }
        free
    }

    pub fn is_asking(&self) -> bool {
        self.ask.is_some()
    }

    /// The question that was answered, and how.
    pub fn answered(&mut self) -> Option<(Ask, Result<About, i64>)> {
        self.answer.take()
    }

    /// Nothing is asked or done, and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.running == Running::Nothing
            && self.queue.is_empty()
            && self.done.is_empty()
            && self.ask.is_none()
            && self.answer.is_none()
    }

    /// An order that is done.
    pub fn completed(&mut self) -> Option<(usize, Outcome)> {
        self.done.pop_front()
    }

    pub fn has_completed(&self) -> bool {
        !self.done.is_empty()
    }

    /// Take what the helper has done, and have it do the next thing.
    pub fn advance(&mut self) {
        loop {
            if self.running != Running::Nothing {
                let Some(outcome) = self.helper.outcome() else {
                    return;
                };
                let was = core::mem::replace(&mut self.running, Running::Nothing);
                if outcome == Err(Gone::Dead) && self.lives > 0 {
                    self.lives -= 1;
                } else {
                    self.lives = LIVES;
                    let result = match outcome {
                        Ok(words) if (words[0] as i64) < 0 => Err((words[0] as i64).wrapping_neg()),
                        Ok(words) => Ok(words),
                        Err(_) => Err(EIO),
                    };
                    match was {
                        Running::Ask => self.told(result),
                        _ => self.came(result),
                    }
                }
            }
            if self.ask.is_some() {
                self.ask_next();
            } else if !self.queue.is_empty() {
                self.work();
            } else {
                return;
            }
        }
    }

    fn ask_next(&mut self) {
        let Some(ask) = &self.ask else { return };
        let file = ask.file.unwrap_or(self.file);
        let (operation, room) = match ask.step {
            Step::Flags => (fs::GETFLAGS, 0),
            Step::Stat => (fs::STAT, fs::PATH_MAX),
            Step::Path => (fs::GETPATH, fs::PATH_MAX),
        };
        // What leads to no file's server leaves this as it is.
        self.helper.buffer()[..Stat::BYTES].fill(0);
        let words = [operation, 0, 0, 0, 0, 0, 0, 0];
        self.helper.call(file, words, 0, room);
        self.running = Running::Ask;
    }

    /// The file's server has answered a question, or a part of it.
    fn told(&mut self, result: Result<[u64; 8], i64>) {
        let Some(mut ask) = self.ask.take() else {
            return;
        };
        let step = ask.step;
        let done = match (step, result) {
            (Step::Flags, Ok(words)) if words[0] & o::PATH != 0 => Err(EBADF),
            (Step::Flags, Ok(words)) => {
                ask.about.read_only = words[0] & o::ACCMODE == o::RDONLY;
                match words[0] & o::ACCMODE == o::WRONLY {
                    // Its blocks could not be read.
                    true => Err(EBADF),
                    false => Ok(Some(Step::Stat)),
                }
            }
            (Step::Stat, Ok(_)) => {
                let stat = self.helper.buffer().first_chunk().map(Stat::from_bytes);
                match stat {
                    Some(stat) if stat.mode & s::IFMT == s::IFREG => {
                        ask.about.size = stat.size.max(0) as u64;
                        (ask.about.device, ask.about.inode) = (stat.dev, stat.ino);
                        Ok(ask.file.map(|_| Step::Path))
                    }
                    // A loop device, perhaps this one: `blockdev` would wait for itself.
                    Some(stat) if stat.mode & s::IFMT == s::IFBLK => {
                        Err(match device::loop_of(stat.rdev) {
                            Some(_) => EBADF,
                            None => EINVAL,
                        })
                    }
                    _ => Err(EINVAL),
                }
            }
            (Step::Path, result) => {
                // A file without a name has no path.
                let length = result.map_or(0, |words| words[0] as usize);
                let path = self.helper.buffer().get(..length.min(PATH));
                ask.about.path = path.unwrap_or_default().into();
                Ok(None)
            }
            (_, Err(EBADF)) => Err(EBADF),
            (_, Err(_)) => Err(EIO),
        };
        match done {
            Ok(Some(next)) => {
                ask.step = next;
                self.ask = Some(ask);
            }
            Ok(None) => {
                let about = core::mem::take(&mut ask.about);
                self.answer = Some((ask, Ok(about)));
            }
            Err(errno) => self.answer = Some((ask, Err(errno))),
        }
    }

    /// The next call of the first job; one that cannot be made ends it.
    fn work(&mut self) {
        let Some(job) = self.queue.front_mut() else {
            return;
        };
        let (at, left) = (job.at + job.done, job.bytes - job.done);
        let (words, out, input) = match job.kind {
            Kind::Read => ([fs::READ, at, 0, 0, 0, 0, 0, 0], 0, left as usize),
            Kind::Write => {
                let buffer = &mut self.helper.buffer()[..left as usize];
                if copy(&mut self.system, job, Side::Out(buffer)).is_none() {
                    return self.end(Outcome::Failed);
                }
                ([fs::WRITE, at, 0, 0, 0, 0, 0, 0], left as usize, 0)
            }
            Kind::Flush => ([fs::SYNC, 0, 0, 0, 0, 0, 0, 0], 0, 0),
            Kind::Discard => ([fs::ALLOCATE, PUNCH, at, left, 0, 0, 0, 0], 0, 0),
        };
        self.helper.call(self.file, words, out, input);
        self.running = Running::Job;
    }

    /// The file's server has answered the first job's call.
    fn came(&mut self, result: Result<[u64; 8], i64>) {
        let Some(job) = self.queue.front_mut() else {
            return;
        };
        let Ok(words) = result else {
            return self.end(Outcome::Failed);
        };
        let left = job.bytes - job.done;
        let some = match job.kind {
            Kind::Read => {
                let some = match words[0].min(left) {
                    // A file that has become shorter reads as zeroes.
                    0 => {
                        self.helper.buffer()[..left as usize].fill(0);
                        left
                    }
                    came => came,
                };
                let buffer = &self.helper.buffer()[..some as usize];
                match copy(&mut self.system, job, Side::In(buffer)) {
                    Some(()) => some,
                    None => 0,
                }
            }
            Kind::Write => words[0].min(left),
            Kind::Discard => words[1].min(left),
            Kind::Flush => return self.end(Outcome::Done),
        };
        job.done += some;
        match some {
            0 => self.end(Outcome::Failed),
            _ if job.done == job.bytes => self.end(Outcome::Done),
            // The rest is another call.
            _ => {}
        }
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(job) = self.queue.pop_front() {
            self.done.push_back((job.tag, outcome));
        }
    }
}

enum Side<'b> {
    /// From the arena.
    Out(&'b mut [u8]),
    /// To it.
    In(&'b [u8]),
}

/// What of a job is not done, between its pages and a buffer. Pages that are neighbours in the arena go together.
fn copy<S: Outside>(system: &mut S, job: &Job, mut side: Side) -> Option<()> {
    let (mut skip, mut inside) = (job.done as usize, job.offset as usize);
    let mut moved = 0;
    let all = match &side {
        Side::Out(buffer) => buffer.len(),
        Side::In(buffer) => buffer.len(),
    };
    for run in job.pages.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let mut at = u64::from(run[0]) * PAGE as u64 + inside as u64;
        let mut length = (run.len() * PAGE).checked_sub(inside)?;
        inside = 0;
        let over = skip.min(length);
        (skip, at, length) = (skip - over, at + over as u64, length - over);
        while length > 0 && moved < all {
            let some = length.min(S::MOST).min(all - moved);
            let done = match &mut side {
                Side::Out(buffer) => system.read(job.arena, at, &mut buffer[moved..][..some]),
                Side::In(buffer) => system.write(job.arena, at, &buffer[moved..][..some]),
            };
            done.then_some(())?;
            (moved, at, length) = (moved + some, at + some as u64, length - some);
        }
    }
    (moved == all).then_some(())
}

impl<S: Outside> Backend for Backing<S> {
    fn info(&self) -> Info {
        let read_only = self.how.flags & lo::READ_ONLY != 0;
        Info {
            sectors: sectors(self.about.size, &self.how),
            block: self.how.block.max(SECTOR as u32),
            read_only,
            caches_writes: !read_only,
            discards: !read_only,
            rotates: false,
            most_pages: (BUFFER / PAGE) as u32,
            most_requests: ORDERS,
        }
    }

    fn start(&mut self, tag: usize, order: &Order) -> bool {
        let at = order.sector.checked_mul(SECTOR);
        let Some(at) = at.and_then(|at| at.checked_add(self.how.offset)) else {
            return false;
        };
        if order.kind != Kind::Discard && order.bytes > BUFFER as u64 {
            return false;
        }
        self.queue.push_back(Job {
            tag,
            kind: order.kind,
            at,
            bytes: order.bytes,
            arena: order.arena,
            pages: order.pages.into(),
            offset: order.offset,
            done: 0,
        });
        true
    }
}
