//! Reading a file from its frames, without asking its server (docs/personality.md, "Reading without asking").
//!
//! After some reads of a file the personality maps it, read-only, with the page by which the server says how long it is and whether it is being changed ([`fs::FRAMES`]); each such pair has one of a few windows at the top of the address space, which neither
//! fork nor exec takes along. From then on a read is a copy from there. Whatever is unusual (the file is being changed, is longer than what is mapped, a page is not there, the server is gone) is no answer, and the server is asked as ever.
//!
//! **The position** is the server's, which handles share by fork. While nobody else can have the handle it may be *held* here: then the server's does not count. It is given back before anything needs it there: a write, a fork.

use crate::descriptors::OpenFile;
use crate::errno::{Result, EINVAL};
use crate::machine::area::{process, timestamp};
use crate::machine::frames::{copy, Copied};
use crate::machine::gate;
use crate::machine::lock::Lock;
use crate::machine::request::Request;
use crate::machine::user::UserRange;
use crate::memory::{self, flags, prot};
use crate::path::make_room;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::{FRAMES, PAGE, USER_TOP};
use cairn_idl::fs::{self, kind, POSITION};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Longest read that is served here: of more, the bytes themselves are what it costs.
const MOST: u64 = 16 * 1024;
/// So many reads make it worth while; after the position had to be given back, more.
const WORTH: u32 = 8;
const WORTH_MOST: u32 = 4096;
/// It was tried and cannot be.
const NEVER: u32 = u32::MAX;
/// The server must see a read now and then, because the time of the last one is noted at least once a day: after so many ticks, half an hour on a fast processor.
const UNSEEN: u64 = 1 << 42;

/// A window has the server's page and the file's behind it.
const WINDOW: u64 = 32 << 20;
const WINDOWS: u32 = ((USER_TOP - FRAMES) / WINDOW) as u32;
/// Least that is mapped of a file, which may grow.
const LEAST: u64 = 64 * 1024;

/// Offsets from here on are the server's to refuse.
const FARTHEST: u64 = 1 << 62;

/// The server's position counts.
const NONE: u64 = u64::MAX;
/// It is being given back.
const BUSY: u64 = u64::MAX - 1;

/// Windows in use, a bit each.
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// Positions that are held, and one at most that is being given back.
static HELD: AtomicU32 = AtomicU32::new(0);
static TURN: Lock<()> = Lock::new(());
/// Counts forks: a handle that was there before the last one is somebody else's as well.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What an open file has here.
#[derive(Debug)]
pub struct Frames {
    /// Where the server's page is, the file's behind it; 0: not mapped (any more).
    base: AtomicU64,
    /// The window, which lasts as long as the file.
    window: AtomicU64,
    /// Bytes of the file that are mapped.
    covered: AtomicU64,
    /// The position if it is held.
    position: AtomicU64,
    /// When the server saw a read.
    seen: AtomicU64,
    /// Reads that the server was asked for.
    reads: AtomicU32,
    worth: AtomicU32,
    /// [`FORKS`] when it was opened.
    born: AtomicU32,
}

impl Frames {
    /// `alone`: nobody else has the handle.
    pub fn new(alone: bool) -> Frames {
        Frames {
            base: AtomicU64::new(0),
            window: AtomicU64::new(0),
            covered: AtomicU64::new(0),
            position: AtomicU64::new(NONE),
            seen: AtomicU64::new(0),
            reads: AtomicU32::new(0),
            worth: AtomicU32::new(WORTH),
            born: AtomicU32::new(FORKS.load(Relaxed).wrapping_sub(!alone as u32)),
        }
    }

    /// No other process was made since the file was opened.
    #[inline(always)]
    pub fn is_young(&self) -> bool {
        self.born.load(Relaxed) == FORKS.load(Relaxed)
    }

    /// The handle is more than a name and a position from now on (an owner was named), so nobody else gets it.
    pub fn grow_old(&self) {
        self.born
            .store(FORKS.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    fn give_up(&self) {
        self.base.store(0, Relaxed);
        self.reads.store(NEVER, Relaxed);
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let window = *self.window.get_mut();
        if window != 0 {
            memory::unmap_private(window, PAGE + *self.covered.get_mut());
            TAKEN.fetch_and(!(1 << ((window - FRAMES) / WINDOW)), Relaxed);
        }
        if *self.position.get_mut() != NONE {
            HELD.fetch_sub(1, Relaxed);
        }
    }
}

/// Where a read that the server is asked for begins.
#[derive(Clone, Copy)]
pub struct At {
    /// Or POSITION.
    pub offset: u64,
    held: bool,
}

/// Read from the frames: the count, or where the server is to be asked to begin.
#[inline(always)]
pub fn read(file: &OpenFile, offset: u64, target: UserRange) -> core::result::Result<u64, At> {
    if file.frames.base.load(Relaxed) == 0 {
        let held = false;
        return Err(At { offset, held });
    }
    read_mapped(file, offset, target)
}

fn read_mapped(file: &OpenFile, offset: u64, target: UserRange) -> core::result::Result<u64, At> {
    let frames = &file.frames;
    loop {
        let position = match offset {
            POSITION => frames.position.load(Relaxed),
            _ => NONE,
        };
        let held = position < BUSY;
        let from = if held { position } else { offset };
        let server = At { offset: from, held };
        let base = frames.base.load(Acquire);
        let unseen = timestamp().wrapping_sub(frames.seen.load(Relaxed));
        if from > FARTHEST || base == 0 || target.len() > MOST || unseen > UNSEEN {
            return Err(server);
        }
        match copy(target, base, from, frames.covered.load(Relaxed)) {
            Copied::Count(count) if !held || frames.advance(position, count) => return Ok(count),
            // Somebody else was faster, and has read this.
            Copied::Count(_) => {}
            Copied::Ask => return Err(server),
            Copied::Over => {
                frames.give_up();
                return Err(server);
            }
        }
    }
}

impl Frames {
    fn advance(&self, position: u64, count: u64) -> bool {
        let new = position + count;
        self.position
            .compare_exchange(position, new, Relaxed, Relaxed)
            .is_ok()
    }
}

/// The server has read so many bytes from there. False: somebody else has read the same at the same position, and it must be read again.
#[inline(always)]
pub fn was_read(file: &OpenFile, at: At, count: u64) -> bool {
    if file.kind & kind::MAPPABLE == 0 {
        return true;
    }
    note(file, at, count)
}

fn note(file: &OpenFile, at: At, count: u64) -> bool {
    let frames = &file.frames;
    if at.held {
        frames.seen.store(timestamp(), Relaxed);
        return frames.advance(at.offset, count);
    }
    let reads = frames.reads.load(Relaxed);
    if reads == NEVER {
        return true;
    }
    frames.seen.store(timestamp(), Relaxed);
    frames.reads.store(reads + 1, Relaxed);
    if reads + 1 >= frames.worth.load(Relaxed) && count <= MOST {
        begin(file, at);
    }
    true
}

/// It is worth while: map the file, if that is not done, and hold its position.
#[cold]
#[inline(never)]
fn begin(file: &OpenFile, at: At) {
    let frames = &file.frames;
    frames.reads.store(0, Relaxed);
    if process().borrows_memory.load(Relaxed) {
        return;
    }
    if frames.base.load(Relaxed) == 0 && map(file).is_err() {
        return frames.give_up();
    }
    let mapped = frames.base.load(Relaxed) != 0;
    if mapped && at.offset == POSITION && may_hold(frames) {
        if let Ok(words) = Request::new(&[fs::SEEK, 0, 1]).call(file.slot()) {
            if words[0] < BUSY {
                HELD.fetch_add(1, Relaxed);
                frames.position.store(words[0], Relaxed);
            }
        }
    }
}

/// Nobody but this thread can be using the position: no other process has the handle, and there is no other thread.
fn may_hold(frames: &Frames) -> bool {
    frames.position.load(Relaxed) == NONE && frames.is_young() && process().is_alone()
}

fn map(file: &OpenFile) -> Result<()> {
    let _turn = TURN.lock();
    let frames = &file.frames;
    if frames.window.load(Relaxed) != 0 {
        return Ok(());
    }
    let free = (!TAKEN.load(Relaxed)).trailing_zeros();
    if free >= WINDOWS {
        // Another time.
        return Ok(());
    }
    make_room()?;
    let words = Request::new(&[fs::MMAP, 0, MOST, fs::UNASKED])
        .brings(1)
        .call(file.slot())?;
    let data = words[7] as u32;
    let page = Request::new(&[fs::FRAMES]).brings(1).call(file.slot());
    let window = FRAMES + free as u64 * WINDOW;
    let mapped = page.and_then(|words| {
        let (size, page) = (words[1], words[7] as u32);
        let covered = size.saturating_mul(2).clamp(LEAST, WINDOW - PAGE);
        let covered = covered.next_multiple_of(PAGE);
        let how = flags::SHARED | flags::FIXED;
        let first = memory::map_object(page, window, PAGE, prot::READ, how, 0);
        gate::close(page);
        first?;
        let rest = memory::map_object(data, window + PAGE, covered, prot::READ, how, 0);
        if rest.is_err() {
            memory::unmap_private(window, PAGE);
        }
        rest.map(|_| covered)
    });
    gate::close(data);
    frames.covered.store(mapped?, Relaxed);
    TAKEN.fetch_or(1 << free, Relaxed);
    frames.window.store(window, Relaxed);
    // After the rest.
    frames.base.store(window, Release);
    Ok(())
}

/// The server's position is needed: it has it from now on.
#[inline(always)]
pub fn settle(file: &OpenFile) {
    if file.frames.position.load(Relaxed) != NONE {
        give_back(file);
    }
}

#[cold]
#[inline(never)]
fn give_back(file: &OpenFile) {
    let frames = &file.frames;
    let _turn = TURN.lock();
    // Who reads meanwhile waits here as well.
    let position = frames.position.swap(BUSY, Relaxed);
    if position == NONE {
        return frames.position.store(NONE, Relaxed);
    }
    // A server that is gone has no position.
    let _ = Request::new(&[fs::SEEK, position, 0]).call(file.slot());
    let worth = frames.worth.load(Relaxed);
    frames.worth.store((2 * worth).min(WORTH_MOST), Relaxed);
    frames.reads.store(0, Relaxed);
    frames.position.store(NONE, Relaxed);
    HELD.fetch_sub(1, Relaxed);
}

/// lseek(2) of a position that is held; `None`: the server is to be asked.
pub fn seek(file: &OpenFile, offset: u64, whence: u64) -> Option<Result<u64>> {
    let frames = &file.frames;
    loop {
        let position = frames.position.load(Relaxed);
        if position >= BUSY || whence > 1 {
            settle(file);
            return None;
        }
        let base = if whence == 0 { 0 } else { position as i64 };
        let target = match base.checked_add(offset as i64) {
            None => return Some(Err(EINVAL)),
            Some(target) if target < 0 => return Some(Err(EINVAL)),
            Some(target) => target as u64,
        };
        let changed = frames
            .position
            .compare_exchange(position, target, Relaxed, Relaxed);
        if changed.is_ok() {
            return Some(Ok(target));
        }
    }
}

/// Another process is about to have this handle too.
pub fn before_passing(file: &OpenFile) {
    let earlier = FORKS.load(Relaxed).wrapping_sub(1);
    file.frames.born.store(earlier, Relaxed);
    settle(file);
}

/// A new process is about to have all handles too.
pub fn before_fork() {
    FORKS.fetch_add(1, Relaxed);
    if HELD.load(Relaxed) == 0 {
        return;
    }
    let state = process().state();
    let held = |file: &&Arc<OpenFile>| file.frames.position.load(Relaxed) != NONE;
    let files = state.files.files().map(|(_, entry)| &entry.file);
    let files: Vec<Arc<OpenFile>> = files.filter(held).cloned().collect();
    drop(state);
    files.iter().for_each(|file| settle(file));
}

/// This process is in a space of its own now, in which nothing is mapped here: a child, or a program that was executed. No other thread is left.
pub fn forget<'a>(files: impl Iterator<Item = &'a Arc<OpenFile>>, child: bool) {
    // Somebody may have held it who is not here.
    TURN.release();
    if TAKEN.swap(0, Relaxed) == 0 {
        return;
    }
    let mut held = 0;
    for file in files {
        let frames = &file.frames;
        frames.base.store(0, Relaxed);
        frames.window.store(0, Relaxed);
        frames.reads.store(0, Relaxed);
        if child || frames.position.load(Relaxed) == BUSY {
            frames.position.store(NONE, Relaxed);
        }
        held += u32::from(frames.position.load(Relaxed) != NONE);
    }
    HELD.store(held, Relaxed);
}
