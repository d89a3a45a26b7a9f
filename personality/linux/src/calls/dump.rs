//! The core file of a process that a signal ends: it writes the file itself, with its own rights, before it ends. `proc` stops its other threads and tells of
//! them (CORE); it refuses for a program that is not dumpable. What the file holds is made in [`crate::core_file`].
//!
//! Kept are pages that are there: of a file's mapping those that were touched or that its file system has in memory, without code, which the file has; of
//! other memory all of a region, with holes where nothing was touched ([`WHOLE`]).

use super::exit;
use super::open::open_file;
use super::scheduling;
use super::status::stat_handle;
use crate::core_file::{self, About, Segment, Thread, SEGMENTS};
use crate::descriptors::OpenFile;
use crate::errno::{Result, EACCES, EFBIG, EINVAL, EPERM};
use crate::machine::area::{area, process, Frame};
use crate::machine::request::Request;
use crate::machine::stopped::Stopped;
use crate::machine::{fpu, published, user};
use crate::path::AT_FDCWD;
use crate::signal::{frame, rules, Info};
use crate::{time, trace};
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PAGE, PERSONALITY};
use cairn_idl::fs::{self, o, s};
use cairn_idl::proc::{self, CORE_THREAD, TRACE_FLOAT};
use cairn_idl::vm::{self, flags, prot, MapEntry, OF_FILE, OF_OBJECT};
use core::sync::atomic::Ordering;

const RLIMIT_CORE: u64 = 4;
const PATTERN: &[u8] = b"/proc/sys/kernel/core_pattern";
const PATTERN_MOST: usize = 128;
/// In a wait status: there is a core file.
const DUMPED: u64 = 0x80;
/// Threads that are told of.
const THREADS: usize = 4096;
/// Of memory that is no file's a region of so many bytes is kept whole, and a longer one up to its last page that was touched: it may be mere room.
const WHOLE: u64 = 256 * PAGE;
/// Pages that are asked for at once.
const WINDOW: u64 = 4096;
/// Bytes of `struct user_fpregs_struct`, and where the mask of an XSAVE area's parts is told.
const FLOAT: usize = 512;
const XSTATE_MASK: usize = 464;
/// Most bytes of arguments and of the auxiliary vector that are looked at.
const ARGUMENTS: usize = 80;
const AUXILIARY: usize = 512;

/// A signal's default action ends the process.
pub fn die(f: &mut Frame, info: &Info) -> ! {
    let left = rules::dumps(info.signal) && dump(f, info).is_ok();
    let status = u64::from(info.signal & 0x7f);
    super::futex::release_robust_list();
    exit::end(if left { status | DUMPED } else { status })
}

#[inline(never)]
fn dump(f: &Frame, info: &Info) -> Result<()> {
    let (area, process) = (area(), process());
    let [limit, _] = scheduling::limit(0, RLIMIT_CORE, None)?;
    // Who lives in its parent's memory leaves it alone.
    let borrows = process.borrows_memory.load(Ordering::Relaxed);
    if limit < PAGE || borrows || area.arena.get().is_some() {
        return Err(EPERM);
    }
    let (threads, filter) = threads(f)?;
    let mut stopped = Stopped::new([0; 27], area.mask(), frame::siginfo(info));
    stopped.save_float();
    let float = &mut stopped.bytes()[TRACE_FLOAT as usize..][..fpu::size()];
    let mask = fpu::system_page().xsave_mask.to_le_bytes();
    float[XSTATE_MASK..XSTATE_MASK + 8].copy_from_slice(&mask);
    let mut arguments = [0; ARGUMENTS];
    let mut auxiliary = [0; AUXILIARY];
    // (What the program did to its stack is what is told.)
    let vector = process.auxiliary.load(Ordering::Relaxed);
    let _ = user::read_bytes(vector, &mut auxiliary);
    let line = process.arguments.load(Ordering::Relaxed);
    let length = process.arguments_length.load(Ordering::Relaxed) as usize;
    let arguments = &mut arguments[..length.min(ARGUMENTS)];
    let _ = user::read_bytes(line, arguments);
    let [pid, parent, group, session, ..] = Request::new(&[proc::IDS, 0]).call(linux_slot::PROC)?;
    let (name, exe) = {
        let state = process.state();
        (state.name, state.exe.clone())
    };
    let about = About {
        signal: info.signal,
        siginfo: frame::siginfo(info),
        pending: process.pending.load(Ordering::Relaxed),
        blocked: area.mask(),
        float: &float[..FLOAT],
        extended: float,
        pid: pid as u32,
        parent: parent as u32,
        group: group as u32,
        session: session as u32,
        uid: process.uid.load(Ordering::Relaxed),
        gid: process.gid.load(Ordering::Relaxed),
        name,
        arguments,
        auxiliary: &auxiliary,
    };
    let now = time::real_time() / 1_000_000_000;
    let host = published::hostname();
    let name = core_file::name(&pattern(), &about, area.tid(), now, &exe, &host);
    let file = create(&name)?;
    let segments = segments(filter);
    let head = core_file::head(&about, &threads, &segments);
    let mut at = 0;
    // What does not fit is cut off: there is a core file all the same.
    let _ = put(&file, &head, &mut at, limit);
    let at = head.len() as u64;
    let _ = memory(&file, &segments, at, limit);
    Ok(())
}

/// This thread and the others, which run no more; and which memory is kept.
fn threads(f: &Frame) -> Result<(Vec<Thread>, u64)> {
    let process = process();
    let count = process.state().threads.len().min(THREADS);
    let mut bytes: Vec<u8> = vec![0; count * CORE_THREAD as usize];
    // Who is stopped for ever must hold no lock.
    process.hold_everything();
    let told = Request::new(&[proc::CORE])
        .input(&mut bytes)
        .call(linux_slot::PROC);
    process.release_everything();
    let [others, filter, ..] = told?;
    let others = others as usize;
    let mut threads = Vec::new();
    threads.push(Thread {
        tid: area().tid(),
        registers: trace::registers(f),
    });
    for record in bytes.chunks_exact(CORE_THREAD as usize).take(others) {
        let mut words = [0; 28];
        for (word, bytes) in words.iter_mut().zip(record.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [tid, registers @ ..] = words;
        if tid != 0 {
            threads.push(Thread {
                tid: tid as u32,
                registers,
            });
        }
    }
    Ok((threads, filter))
}

/// /proc/sys/kernel/core_pattern; where there is no /proc, what that says at first.
fn pattern() -> Vec<u8> {
    let mut pattern = vec![0; PATTERN_MOST];
    let read = open_file(AT_FDCWD, PATTERN, o::RDONLY, 0).and_then(|file| {
        Request::new(&[fs::READ, 0, 0])
            .input(&mut pattern)
            .call(file.slot())
    });
    let length = read.map_or(0, |words| (words[0] as usize).min(PATTERN_MOST));
    pattern.truncate(length);
    let text = pattern.trim_ascii_end();
    match text {
        b"" => b"core".to_vec(),
        text => text.to_vec(),
    }
}

/// An empty file that is nobody else's.
fn create(name: &[u8]) -> Result<alloc::sync::Arc<OpenFile>> {
    let flags = o::CREAT | o::WRONLY | o::NOFOLLOW | o::NONBLOCK;
    let file = open_file(AT_FDCWD, name, flags, 0o600)?;
    let stat = stat_handle(&file)?;
    let own = stat.uid == process().euid.load(Ordering::Relaxed);
    if stat.mode & s::IFMT != s::IFREG || stat.nlink != 1 || !own || stat.mode & 0o677 != 0o600 {
        return Err(EACCES);
    }
    Request::new(&[fs::TRUNCATE, 0]).call(file.slot())?;
    Ok(file)
}

/// Bytes at this place, as far as the file may grow.
fn put(file: &OpenFile, mut bytes: &[u8], at: &mut u64, limit: u64) -> Result<()> {
    while !bytes.is_empty() {
        let left = limit.saturating_sub(*at).min(bytes.len() as u64);
        if left == 0 {
            return Err(EFBIG);
        }
        let [count, ..] = Request::new(&[fs::WRITE, *at, 0])
            .out(&bytes[..left as usize])
            .call(file.slot())?;
        if count == 0 {
            return Err(EINVAL);
        }
        let count = count.min(left);
        *at += count;
        bytes = &bytes[count as usize..];
    }
    Ok(())
}

/// Bits of coredump_filter.
mod kept {
    pub const PRIVATE: u64 = 1;
    pub const SHARED: u64 = 2;
    pub const FILES_PRIVATE: u64 = 4;
    pub const FILES_SHARED: u64 = 8;
    pub const HEADERS: u64 = 16;
}

/// What is kept of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// A program's file has its first page.
    Head,
    All,
}

/// By coredump_filter, as core(5) has it. Of a file's private mapping that can be written it is not known which pages were: they count as both.
fn kept_of(entry: &MapEntry, filter: u64) -> Kept {
    let has = |flag: u64| u64::from(entry.flags) & flag != 0;
    let writable = u64::from(entry.prot) & prot::WRITE != 0;
    let bits = match (has(OF_OBJECT), has(flags::SHARED)) {
        (true, true) if has(OF_FILE) => kept::FILES_SHARED,
        (true, true) => kept::SHARED,
        (true, false) if writable => kept::PRIVATE | kept::FILES_PRIVATE,
        (true, false) => kept::FILES_PRIVATE,
        (false, _) => kept::PRIVATE,
    };
    let private_file = has(OF_OBJECT) && !has(flags::SHARED);
    match filter {
        _ if filter & bits != 0 => Kept::All,
        _ if private_file && entry.offset == 0 && filter & kept::HEADERS != 0 => Kept::Head,
        _ => Kept::Nothing,
    }
}

fn segments(filter: u64) -> Vec<Segment> {
    const SHARE: usize = 32;
    let mut segments = Vec::new();
    let mut first = 0;
    loop {
        let mut bytes = [0; SHARE * MapEntry::BYTES];
        let told = Request::new(&[vm::MAPS, 0, first])
            .input(&mut bytes)
            .call(linux_slot::VM);
        let count = told.map_or(0, |words| (words[0] as usize).min(SHARE));
        for entry in bytes.as_chunks().0.iter().take(count) {
            let entry = MapEntry::from_bytes(entry);
            if entry.end <= first || entry.end > PERSONALITY || segments.len() >= SEGMENTS {
                return segments;
            }
            first = entry.end;
            add(&mut segments, &entry, kept_of(&entry, filter));
        }
        if count < SHARE {
            return segments;
        }
    }
}

fn add(segments: &mut Vec<Segment>, entry: &MapEntry, kept: Kept) {
    let has = |right: u64| u64::from(entry.prot) & right != 0;
    let rights = u32::from(has(prot::READ)) * 4
        + u32::from(has(prot::WRITE)) * 2
        + u32::from(has(prot::EXECUTE));
    let segment = |start, end, kept| Segment {
        start,
        end,
        rights,
        kept,
    };
    let code = has(prot::EXECUTE) && !has(prot::WRITE);
    let of_file = u64::from(entry.flags) & OF_OBJECT != 0;
    let stack = u64::from(entry.flags) & flags::STACK != 0;
    if kept == Kept::Head && has(prot::READ) {
        let head = entry.start + PAGE;
        for (start, end, kept) in [(entry.start, head, true), (head, entry.end, false)] {
            if start < end {
                segments.push(segment(start, end, kept));
            }
        }
        return;
    }
    if !has(prot::READ) || code && of_file || kept == Kept::Nothing {
        segments.push(segment(entry.start, entry.end, false));
        return;
    }
    if !of_file && !stack {
        let last = match entry.end - entry.start {
            ..=WHOLE => entry.end,
            _ => last_touched(entry.start, entry.end),
        };
        for (start, end, kept) in [(entry.start, last, true), (last, entry.end, false)] {
            if start < end {
                segments.push(segment(start, end, kept));
            }
        }
        return;
    }
    // Runs of pages that are there, and that are not.
    let mut run = segment(entry.start, entry.start, false);
    for_pages(entry.start, entry.end, |page, there| {
        if there != run.kept && run.end > run.start && segments.len() < SEGMENTS - 1 {
            segments.push(run);
            run.start = page;
        }
        run.kept = there || run.kept && segments.len() >= SEGMENTS - 1;
        run.end = page + PAGE;
        true
    });
    if run.end > run.start {
        segments.push(run);
    }
}

/// Where the last page ends that is there.
fn last_touched(start: u64, end: u64) -> u64 {
    let mut last = start;
    for_pages(start, end, |page, there| {
        if there {
            last = page + PAGE;
        }
        true
    });
    last
}

/// Each page, and whether it is there, until one is enough.
fn for_pages(start: u64, end: u64, mut each: impl FnMut(u64, bool) -> bool) {
    let mut pages = vec![0; WINDOW as usize];
    let mut at = start;
    while at < end {
        let length = (end - at).min(WINDOW * PAGE);
        let window = &mut pages[..(length / PAGE) as usize];
        window.fill(0);
        let asked = Request::new(&[vm::RESIDENT, at, length])
            .input(window)
            .call(linux_slot::VM);
        for there in window.iter() {
            if !each(at, asked.is_ok() && there & 1 != 0) {
                return;
            }
            at += PAGE;
        }
    }
}

/// The segments' memory. A page that cannot be read is a hole.
fn memory(file: &OpenFile, segments: &[Segment], mut at: u64, limit: u64) -> Result<()> {
    let mut full = false;
    for segment in segments.iter().filter(|segment| segment.kept) {
        let place = at;
        for_pages(segment.start, segment.end, |page, there| {
            let offset = place + (page - segment.start);
            let left = limit.saturating_sub(offset).min(PAGE);
            full = left == 0;
            if there && !full {
                if let Ok(range) = user::range(page, left) {
                    let write = Request::new(&[fs::WRITE, offset, 0]).out_user(range);
                    let _ = write.call(file.slot());
                }
            }
            !full
        });
        at += segment.end - segment.start;
        if full {
            return Err(EFBIG);
        }
    }
    // The last page may be a hole.
    let size = at.min(limit);
    Request::new(&[fs::TRUNCATE, size]).call(file.slot())?;
    Ok(())
}
