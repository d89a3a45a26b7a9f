//! Reading and writing. Buffers go to the server as they are: the nucleus checks and copies.

use super::lend;
use super::ptrace::patiently;
use crate::descriptors::event_kind;
use crate::descriptors::{number, OpenFile};
use crate::errno::{
    Errno, Result, EAGAIN, EBADF, EFAULT, EFBIG, EINTR, EINVAL, EIO, ENODEV, EOPNOTSUPP, EPIPE,
    ESPIPE, RESTART,
};
use crate::event;
use crate::frames;
use crate::machine::area::{area, process, Frame};
use crate::machine::buffer::Buffer;
use crate::machine::direct::{self, Outcome};
use crate::machine::request::{again_mark, Request, Vector};
use crate::machine::user::{self, UserRange};
use crate::signal::calls::{broken_pipe, too_large};
use crate::signal::deliver;
use alloc::sync::Arc;
use cairn_idl::fs::{self, kind, o, POSITION};
use core::sync::atomic::Ordering;

/// Most bytes that one call moves, as on Linux.
pub(super) const MOST: u64 = 0x7fff_f000;

pub fn file(argument: u64) -> Result<Arc<OpenFile>> {
    process().state().files.get(number(argument)?)
}

/// A file for reading and writing, not one opened by O_PATH.
pub fn usable(argument: u64) -> Result<Arc<OpenFile>> {
    let file = file(argument)?;
    if file.path_only {
        return Err(EBADF);
    }
    Ok(file)
}

/// A vanished server is an input error, not a bad descriptor.
fn gone(error: Errno) -> Errno {
    if error == EBADF {
        EIO
    } else {
        error
    }
}

/// EAGAIN of a file that is no stream: the memory of another process, which a stopped thread of that brings first ([`super::ptrace::patiently`]).
fn is_brought(file: &OpenFile) -> bool {
    file.mode & fs::s::IFMT == fs::s::IFREG && file.is(kind::SEEKABLE)
}

pub fn read_at(file: &OpenFile, range: UserRange, offset: u64, flags: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    if file.is(event_kind::SIGNALS) {
        return event::read_signals(file, range);
    }
    if file.is(event_kind::CONTEXT) {
        return super::contexts::read(file, range);
    }
    if file.is(kind::READS_NOTHING | kind::READS_ZEROS) {
        return super::constant::read(file, range);
    }
    if flags != 0 {
        return ask(file, range, settled(file, offset), flags);
    }
    loop {
        let at = match frames::read(file, offset, range) {
            Ok(count) => return Ok(count),
            Err(at) => at,
        };
        let result = ask(file, range, settled(file, at.offset), flags);
        match result {
            Ok(count) if !frames::was_read(file, at, count) => {}
            Err(EAGAIN) if is_brought(file) => {
                return patiently(|| ask(file, range, at.offset, flags));
            }
            result => return result,
        }
    }
}

/// Ask the server for data.
fn ask(file: &OpenFile, range: UserRange, offset: u64, flags: u64) -> Result<u64> {
    if is_few(range) && user::is_writable(range) {
        return read_inline(file, range, offset, flags);
    }
    if file.is(kind::BORROWS) && flags == 0 {
        if let Some(result) = lend::transfer(file, fs::READ, range, offset) {
            return result.map(|w| w[0]);
        }
    }
    let words = Request::new(&[fs::READ, offset, flags])
        .input_user(range)
        .wait_here(file.slot())?;
    Ok(all_of_it(file, range, words[0]))
}

/// A device gives no more than a piece at a time ([`fs::DEVICE_MOST`]): ask for the rest, until a signal comes.
#[inline(always)]
fn all_of_it(file: &OpenFile, range: UserRange, count: u64) -> u64 {
    const PIECE: u64 = fs::DEVICE_MOST as u64;
    let more = count == PIECE && range.len() > PIECE && file.mode & fs::s::IFMT == fs::s::IFCHR;
    match more && file.is(kind::ALWAYS_READY) {
        false => count,
        true => further_pieces(file, range, count),
    }
}

#[cold]
fn further_pieces(file: &OpenFile, range: UserRange, mut count: u64) -> u64 {
    while count < range.len() && !deliver::pending() {
        let request = Request::new(&[fs::READ, POSITION, 0]).input_user(range.after(count));
        match request.wait_here(file.slot()) {
            Ok(words) if words[0] != 0 => count += words[0].min(range.len() - count),
            _ => break,
        }
    }
    count
}

/// The offset of a request to the server, which is to have the position if that is meant.
#[inline(always)]
fn settled(file: &OpenFile, offset: u64) -> u64 {
    if offset == POSITION {
        frames::settle(file);
    }
    offset
}

/// Do the bytes go in words? (What is read so must find its place: the server has forgotten it. Elsewhere it copies, and forgets when that is done.)
pub(super) fn is_few(range: UserRange) -> bool {
    (1..=fs::INLINE_MAX as u64).contains(&range.len())
}

/// Flags of a READ or WRITE whose data goes in words.
fn inline(flags: u64, len: u64) -> u64 {
    flags | fs::INLINE | len << fs::INLINE_SHIFT
}

pub(super) fn read_inline(
    file: &OpenFile,
    range: UserRange,
    offset: u64,
    flags: u64,
) -> Result<u64> {
    let words =
        Request::new(&[fs::READ, offset, inline(flags, range.len())]).wait_here(file.slot())?;
    let count = words[0].min(range.len());
    let data = [words[3], words[4], words[5], words[6], words[7]];
    given(
        file,
        offset,
        count,
        user::write_bytes(range.base(), &user::bytes_of(&data)[..count as usize]).map(|()| count),
    )
}

/// The result of handing over `read` bytes: a file's position goes back over those that found no place. (What came from elsewhere is lost.)
#[inline]
fn given(file: &OpenFile, offset: u64, read: u64, result: Result<u64>) -> Result<u64> {
    let left = read - *result.as_ref().unwrap_or(&0);
    if left != 0 && offset == POSITION && file.is(kind::SEEKABLE) {
        let back = left.wrapping_neg();
        Request::new(&[fs::SEEK, back, 1]).call(file.slot())?;
    }
    result
}

pub(super) fn write_inline(
    file: &OpenFile,
    range: UserRange,
    offset: u64,
    flags: u64,
) -> Result<[u64; 8]> {
    let mut data = [0u64; fs::INLINE_MAX / 8];
    let bytes = user::bytes_of_mut(&mut data);
    user::read_bytes(range.base(), &mut bytes[..range.len() as usize])?;
    send_inline(file, &data, range.len(), offset, flags)
}

/// Write the first `length` bytes of `data`.
pub(super) fn send_inline(
    file: &OpenFile,
    data: &[u64; fs::INLINE_MAX / 8],
    length: u64,
    offset: u64,
    flags: u64,
) -> Result<[u64; 8]> {
    let flags = inline(flags, length);
    Request::new(&[
        fs::WRITE,
        offset,
        flags,
        data[0],
        data[1],
        data[2],
        data[3],
        data[4],
    ])
    .wait(file.slot())
}

/// How much may be written at `offset` without exceeding RLIMIT_FSIZE: EFBIG and SIGXFSZ if nothing.
fn within_limit(file: &OpenFile, offset: u64, length: u64) -> Result<u64> {
    let limit = process().file_limit.load(Ordering::Relaxed);
    if limit == u64::MAX || file.mode & fs::s::IFMT != fs::s::IFREG || length == 0 {
        return Ok(length);
    }
    let flags = Request::new(&[fs::GETFLAGS]).call(file.slot())?[0];
    let at = match offset {
        _ if flags & fs::o::APPEND != 0 => super::status::stat_handle(file)?.size as u64,
        POSITION => Request::new(&[fs::SEEK, 0, 1]).call(file.slot())?[0],
        offset => offset,
    };
    if at >= limit {
        too_large();
        return Err(EFBIG);
    }
    Ok(length.min(limit - at))
}

pub fn write_at(file: &OpenFile, range: UserRange, offset: u64, flags: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    if file.is(kind::WRITES_VANISH) {
        return Ok(range.len());
    }
    let offset = settled(file, offset);
    let range = range.first(within_limit(file, offset, range.len())?);
    match send_at(file, range, offset, flags) {
        Err(EAGAIN) if is_brought(file) => send_patiently(file, range, offset, flags),
        result => result,
    }
}

#[cold]
#[inline(never)]
fn send_patiently(file: &OpenFile, range: UserRange, offset: u64, flags: u64) -> Result<u64> {
    patiently(|| send_at(file, range, offset, flags))
}

/// Have the server write.
#[inline(always)]
fn send_at(file: &OpenFile, range: UserRange, offset: u64, flags: u64) -> Result<u64> {
    if range.len() <= fs::INLINE_MAX as u64 && !range.is_empty() {
        return written(write_inline(file, range, offset, flags));
    }
    if file.is(kind::BORROWS) {
        if let Some(result) = lend::transfer(file, fs::WRITE, range, offset) {
            return written(result);
        }
    }
    let result = Request::new(&[fs::WRITE, offset, flags])
        .out_user(range)
        .wait_here(file.slot());
    written(result)
}

fn written(result: Result<[u64; 8]>) -> Result<u64> {
    match result {
        Err(EPIPE) => {
            broken_pipe();
            Err(EPIPE)
        }
        other => other.map(|w| w[0]),
    }
}

fn buffer(f: &Frame) -> Result<UserRange> {
    Ok(user::range(f.arg(1), f.arg(2))?.first(MOST))
}

/// The file of a READ or WRITE that may go the direct way: one that only its server can answer for.
#[inline(always)]
fn direct_file(f: &Frame) -> Option<Arc<OpenFile>> {
    const OTHER: u64 = kind::READS_NOTHING
        | kind::READS_ZEROS
        | kind::WRITES_VANISH
        | kind::BORROWS
        | event_kind::SIGNALS
        | event_kind::CONTEXT;
    let process = process();
    if process.tracing() {
        return None;
    }
    let file = process.state().files.get(f.rdi as u32).ok()?;
    let plain = !file.path_only && file.object.is_none() && !file.is(OTHER);
    (plain || lend::is_copied(&file, f.rdx)).then_some(file)
}

/// A server could not reach the memory: if it was only missing, the ordinary way tries again.
const BAD_MEMORY: i64 = EFAULT.value() as i64;

/// What is left to do when a READ or WRITE on the direct way gave no count: an error, or the ordinary way.
#[cold]
fn undone(outcome: Outcome, f: &Frame, operation: u64, offset: u64) -> Option<Result<u64>> {
    match outcome {
        Outcome::Refused(number)
            if number == EAGAIN.value() as i64
                && file(f.rdi).is_ok_and(|file| is_brought(&file)) =>
        {
            None
        }
        Outcome::Refused(number)
            if number != RESTART.value() as i64 && number != EINTR.value() as i64 =>
        {
            let error = Errno(-number as i32);
            Some(written(Err(error)).map(|_| 0))
        }
        Outcome::Refused(_) => deliver::pending().then_some(Err(RESTART)),
        // The nucleus tells of a poke once: the ordinary way must know of it, or it waits although a signal is there.
        Outcome::Interrupted => {
            area().mark_poked();
            None
        }
        Outcome::Died(token) => Some(again(f, operation | again_mark(token), offset)),
        Outcome::Done(..) | Outcome::Failed => None,
    }
}

/// A READ or WRITE that its server died with, marked, is asked of the successor.
fn again(f: &Frame, operation: u64, offset: u64) -> Result<u64> {
    let file = usable(f.rdi)?;
    let range = buffer(f)?;
    let request = Request::new(&[operation, offset, 0]);
    match operation as u32 as u64 {
        fs::READ => request.input_user(range).wait(file.slot()).map(|w| w[0]),
        _ => written(request.out_user(range).wait(file.slot())),
    }
}

/// read(2) through a portal, of few bytes or of more than go in words; `None`: take the ordinary way.
#[inline(always)]
pub fn read_direct(f: &Frame) -> Option<Result<u64>> {
    if let Some(target) = user::few(f.rsi, f.rdx) {
        let file = direct_file(f)?;
        let at = match frames::read(&file, POSITION, target.range()) {
            Ok(count) => return Some(Ok(count)),
            Err(at) => at,
        };
        if at.offset != POSITION {
            return None;
        }
        if !user::is_writable(target.range()) {
            return None;
        }
        frames::settle(&file);
        return match direct::exchange(file.slot(), fs::READ, target.count(), 0) {
            Outcome::Done(0, _) => Some(Ok(0)),
            Outcome::Done(count, word) => {
                let target = target.first(count);
                let stored = user::store(target, word).map(|()| target.count());
                let result = given(&file, POSITION, target.count(), stored);
                // Not before the position is where it belongs.
                frames::was_read(&file, at, count);
                // (Some of a regular file may be had.)
                (result != Err(EFAULT) || !is_regular(&file)).then_some(result)
            }
            other => undone(other, f, fs::READ, POSITION),
        };
    }
    receive_direct(f, POSITION)
}

/// pread(2) of more than goes in words, as [`read_direct`].
pub fn pread_direct(f: &Frame) -> Option<Result<u64>> {
    receive_direct(f, offset(f.r10).ok()?)
}

#[inline(always)]
fn receive_direct(f: &Frame, offset: u64) -> Option<Result<u64>> {
    let range = large(f)?;
    let file = direct_file(f)?;
    let at = match frames::read(&file, offset, range) {
        Ok(count) => return Some(Ok(count)),
        Err(at) => at,
    };
    match direct::receive(file.slot(), settled(&file, at.offset), range) {
        // What somebody else has read meanwhile is read again.
        Outcome::Done(count, _) => {
            let whole = all_of_it(&file, range, count);
            frames::was_read(&file, at, count).then_some(Ok(whole))
        }
        Outcome::Refused(BAD_MEMORY) if user::touch(range, true) || is_regular(&file) => None,
        // The position is not the server's, nor its successor's.
        Outcome::Died(_) if at.offset != offset => None,
        other => undone(other, f, fs::READ, offset),
    }
}

/// write(2), as [`read_direct`].
#[inline(always)]
pub fn write_direct(f: &Frame) -> Option<Result<u64>> {
    if let Some(source) = user::few(f.rsi, f.rdx) {
        let file = direct_file(f).filter(|file| !limited(file))?;
        let word = user::load(source).ok()?;
        frames::settle(&file);
        return match direct::exchange(file.slot(), fs::WRITE, source.count(), word) {
            Outcome::Done(count, _) => Some(Ok(count)),
            other => undone(other, f, fs::WRITE, POSITION),
        };
    }
    send_direct(f, POSITION)
}

/// pwrite(2) of more than goes in words, as [`read_direct`].
pub fn pwrite_direct(f: &Frame) -> Option<Result<u64>> {
    send_direct(f, offset(f.r10).ok()?)
}

#[inline(always)]
fn send_direct(f: &Frame, offset: u64) -> Option<Result<u64>> {
    let range = large(f)?;
    let file = direct_file(f).filter(|file| !limited(file))?;
    match direct::send(file.slot(), settled(&file, offset), range) {
        Outcome::Done(count, _) => Some(Ok(count)),
        Outcome::Refused(BAD_MEMORY) if user::touch(range, false) || is_regular(&file) => None,
        other => undone(other, f, fs::WRITE, offset),
    }
}

/// Must RLIMIT_FSIZE be looked at?
#[inline(always)]
fn limited(file: &OpenFile) -> bool {
    process().file_limit.load(Ordering::Relaxed) != u64::MAX
        && file.mode & fs::s::IFMT == fs::s::IFREG
}

/// The memory of a read or write whose data does not go in words.
#[inline(always)]
fn large(f: &Frame) -> Option<UserRange> {
    if f.rdx <= fs::INLINE_MAX as u64 {
        return None;
    }
    Some(user::range(f.rsi, f.rdx).ok()?.first(MOST))
}

/// Of a regular file as much is read or written as there is memory for, if there is for some. (Of a stream what came might be lost.)
fn as_far(
    file: &OpenFile,
    range: UserRange,
    reads: bool,
    transfer: impl Fn(UserRange) -> Result<u64>,
) -> Result<u64> {
    match transfer(range) {
        Err(EFAULT) if is_regular(file) => match user::reach(range, reads) {
            there if there == 0 || there == range.len() => Err(EFAULT),
            there => transfer(range.first(there)),
        },
        result => result,
    }
}

fn is_regular(file: &OpenFile) -> bool {
    file.mode & fs::s::IFMT == fs::s::IFREG
}

pub fn read(f: &mut Frame) -> Result<u64> {
    let file = usable(f.arg(0))?;
    as_far(&file, buffer(f)?, true, |range| {
        read_at(&file, range, POSITION, 0)
    })
}

pub fn write(f: &mut Frame) -> Result<u64> {
    let file = usable(f.arg(0))?;
    as_far(&file, buffer(f)?, false, |range| {
        write_at(&file, range, POSITION, 0)
    })
}

fn offset(argument: u64) -> Result<u64> {
    if (argument as i64) < 0 {
        Err(EINVAL)
    } else {
        Ok(argument)
    }
}

/// What has no positions is refused before anything else is looked at.
fn positioned(file: &OpenFile) -> Result<()> {
    match is_pipe(file) || file.is(event_kind::SIGNALS | event_kind::NOTICES | event_kind::CONTEXT)
    {
        true => Err(ESPIPE),
        false => Ok(()),
    }
}

/// (An eventfd is the pipe manager's as well, and has no type.)
pub fn is_pipe(file: &OpenFile) -> bool {
    file.mode & fs::s::IFMT == fs::s::IFIFO
}

pub fn pread(f: &mut Frame) -> Result<u64> {
    let at = offset(f.arg(3))?;
    let file = usable(f.arg(0))?;
    positioned(&file)?;
    as_far(&file, buffer(f)?, true, |range| {
        read_at(&file, range, at, 0)
    })
}

pub fn pwrite(f: &mut Frame) -> Result<u64> {
    let at = offset(f.arg(3))?;
    let file = usable(f.arg(0))?;
    positioned(&file)?;
    as_far(&file, buffer(f)?, false, |range| {
        write_at(&file, range, at, 0)
    })
}

/// An array of `struct iovec`.
pub fn vector(address: u64, count: u64) -> Result<Vector> {
    let mut vector = Vector::new();
    take_vector(&mut vector, address, count)?;
    Ok(vector)
}

/// The same, in place.
fn take_vector(vector: &mut Vector, address: u64, count: u64) -> Result<()> {
    if count > 1024 {
        return Err(EINVAL);
    }
    let mut room = MOST;
    for i in 0..count {
        let [base, len] = user::read::<[u64; 2]>(address.wrapping_add(16 * i))?;
        if len > i64::MAX as u64 {
            return Err(EINVAL);
        }
        let range = user::range(base, len).map_err(|_| EFAULT)?.first(room);
        vector.push(range)?;
        room -= range.len();
    }
    Ok(())
}

/// Pieces of together at most this length are put together in a buffer: copying them costs less than a message with a vector.
const GATHERED: usize = 4096;

fn read_vector(f: &Frame, at: u64, flags: u64) -> Result<u64> {
    let file = usable(f.arg(0))?;
    if at != POSITION {
        positioned(&file)?;
    }
    let mut vector = Vector::new();
    take_vector(&mut vector, f.arg(1), f.arg(2))?;
    read_pieces(&file, &vector, at, flags)
}

/// Read into pieces of the program's memory.
pub(super) fn read_pieces(file: &OpenFile, vector: &Vector, at: u64, flags: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    if let Some(range) = vector.single() {
        return as_far(file, range, true, |range| read_at(file, range, at, flags));
    }
    let at = settled(file, at);
    let total = vector.total();
    if total <= GATHERED as u64 {
        let mut buffer: Buffer<GATHERED> = Buffer::new();
        let request = Request::new(&[fs::READ, at, flags]);
        let words = buffer.receive_first(total, request).wait(file.slot())?;
        buffer.filled(words[0].min(total));
        let bytes = buffer.as_bytes();
        return given(file, at, bytes.len() as u64, scatter(bytes, vector));
    }
    Request::new(&[fs::READ, at, flags])
        .input_vector(vector)
        .wait(file.slot())
        .map(|w| w[0])
}

/// What was read goes to the pieces, in order; how much of it until one of them was not there.
fn scatter(bytes: &[u8], vector: &Vector) -> Result<u64> {
    let mut left = bytes;
    for piece in vector.pieces() {
        let (now, later) = left.split_at(left.len().min(piece.len() as usize));
        match user::write_bytes(piece.base(), now) {
            Ok(()) => left = later,
            Err(error) if left.len() == bytes.len() => return Err(error),
            Err(_) => break,
        }
        if left.is_empty() {
            break;
        }
    }
    Ok((bytes.len() - left.len()) as u64)
}

fn write_vector(f: &Frame, at: u64, flags: u64) -> Result<u64> {
    let file = usable(f.arg(0))?;
    if at != POSITION {
        positioned(&file)?;
    }
    let mut vector = Vector::new();
    take_vector(&mut vector, f.arg(1), f.arg(2))?;
    write_pieces(&file, &vector, at, flags)
}

fn write_pieces(file: &OpenFile, vector: &Vector, at: u64, flags: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    if file.is(kind::WRITES_VANISH) {
        return Ok(vector.total());
    }
    let at = settled(file, at);
    let total = vector.total();
    if within_limit(file, at, total)? < total {
        too_large();
        return Err(EFBIG);
    }
    if let Some(range) = vector.single() {
        return as_far(file, range, false, |range| write_at(file, range, at, flags));
    }
    if total <= GATHERED as u64 {
        return write_gathered(file, vector, at, flags);
    }
    let request = Request::new(&[fs::WRITE, at, flags]).out_vector(vector);
    written(request.wait(file.slot()))
}

/// Write pieces put together; as far as they are there, if not all are.
fn write_gathered(file: &OpenFile, vector: &Vector, at: u64, flags: u64) -> Result<u64> {
    let mut buffer: Buffer<GATHERED> = Buffer::new();
    for piece in vector.pieces() {
        match buffer.gather(piece) {
            Ok(()) => {}
            Err(error) if buffer.as_bytes().is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    let bytes = buffer.as_bytes();
    if bytes.len() <= fs::INLINE_MAX {
        let mut data = [0; fs::INLINE_MAX / 8];
        user::bytes_of_mut(&mut data)[..bytes.len()].copy_from_slice(bytes);
        return written(send_inline(file, &data, bytes.len() as u64, at, flags));
    }
    let request = Request::new(&[fs::WRITE, at, flags]).out(bytes);
    written(request.wait(file.slot()))
}

pub fn readv(f: &mut Frame) -> Result<u64> {
    read_vector(f, POSITION, 0)
}

pub fn writev(f: &mut Frame) -> Result<u64> {
    write_vector(f, POSITION, 0)
}

pub fn preadv(f: &mut Frame) -> Result<u64> {
    read_vector(f, offset(f.arg(3))?, 0)
}

pub fn pwritev(f: &mut Frame) -> Result<u64> {
    write_vector(f, offset(f.arg(3))?, 0)
}

/// The offset of preadv2 and pwritev2: −1 is the position.
fn offset_or_position(argument: u64) -> Result<u64> {
    if argument == u64::MAX {
        Ok(POSITION)
    } else {
        offset(argument)
    }
}

/// Flags of preadv2 and pwritev2.
mod rwf {
    pub const HIPRI: u64 = 1;
    pub const DSYNC: u64 = 2;
    pub const SYNC: u64 = 4;
    pub const NOWAIT: u64 = 8;
    pub const APPEND: u64 = 16;
}

/// Flags that this system knows. RWF_NOWAIT is for reads of files, and their file system's to know.
fn known_flags(given: u64) -> Result<u64> {
    let flags = given & 0xffff_ffff;
    match flags & !(rwf::HIPRI | rwf::DSYNC | rwf::SYNC | rwf::NOWAIT | rwf::APPEND) {
        0 => Ok(flags),
        _ => Err(EOPNOTSUPP),
    }
}

pub fn preadv2(f: &mut Frame) -> Result<u64> {
    let at = offset_or_position(f.arg(3))?;
    // (What is looked at first is the file, then the memory, then the flags.)
    checked_vector(f)?;
    let flags = flags_of(&*usable(f.arg(0))?, f.arg(5), true)?;
    read_vector(f, at, flags)
}

pub fn pwritev2(f: &mut Frame) -> Result<u64> {
    let at = offset_or_position(f.arg(3))?;
    checked_vector(f)?;
    let file = usable(f.arg(0))?;
    let flags = flags_of(&file, f.arg(5), false)?;
    if at != POSITION {
        positioned(&file)?;
    }
    let mut vector = Vector::new();
    take_vector(&mut vector, f.arg(1), f.arg(2))?;
    write_pieces_synced(&file, &vector, at, flags)
}

/// Flags as [`read_pieces`] and [`write_pieces_synced`] take them.
pub(super) fn flags_of(file: &OpenFile, given: u64, reads: bool) -> Result<u64> {
    let flags = known_flags(given)?;
    match reads {
        _ if flags & rwf::NOWAIT != 0 && !(reads && is_brought(file)) => Err(EOPNOTSUPP),
        true => Ok(flags & rwf::NOWAIT),
        false => Ok(flags),
    }
}

/// Write pieces of the program's memory, and see them to the disk if the flags say so.
pub(super) fn write_pieces_synced(
    file: &OpenFile,
    vector: &Vector,
    at: u64,
    flags: u64,
) -> Result<u64> {
    let written = write_pieces(file, vector, at, flags & rwf::APPEND)?;
    if flags & (rwf::DSYNC | rwf::SYNC) != 0 && written != 0 {
        sync_open(file, u64::from(flags & rwf::SYNC == 0))?;
    }
    Ok(written)
}

fn checked_vector(f: &Frame) -> Result<()> {
    usable(f.arg(0))?;
    let mut vector = Vector::new();
    take_vector(&mut vector, f.arg(1), f.arg(2))
}

pub fn lseek(f: &mut Frame) -> Result<u64> {
    let file = usable(f.arg(0))?;
    if file.object.is_some() {
        return Err(crate::errno::ESPIPE);
    }
    let whence = f.arg(2) & 0xffff_ffff;
    if whence > 4 {
        return Err(EINVAL);
    }
    // Their position is 0, wherever it is moved. (That of a process has none, nor has a context.)
    let without = event_kind::PROCESS | event_kind::CONTEXT;
    if file.mode & fs::s::IFMT == 0 && !file.is(without) {
        return Ok(0);
    }
    if let Some(result) = frames::seek(&file, f.arg(1), whence) {
        return result;
    }
    Request::new(&[fs::SEEK, f.arg(1), whence])
        .call(file.slot())
        .map(|w| w[0])
}

pub fn ftruncate(f: &mut Frame) -> Result<u64> {
    offset(f.arg(1))?;
    let file = usable(f.arg(0))?;
    if file.object.is_some() {
        return Err(EINVAL);
    }
    if f.arg(1) > process().file_limit.load(Ordering::Relaxed) {
        too_large();
        return Err(EFBIG);
    }
    Request::new(&[fs::TRUNCATE, f.arg(1)])
        .call(file.slot())
        .map_err(gone)
        .map(|_| 0)
}

pub fn fallocate(f: &mut Frame) -> Result<u64> {
    let file = usable(f.arg(0))?;
    let (offset, length) = (f.arg(2) as i64, f.arg(3) as i64);
    if offset < 0 || length <= 0 || file.object.is_some() {
        return Err(EINVAL);
    }
    if file.mode & fs::s::IFMT == fs::s::IFSOCK {
        return Err(ENODEV);
    }
    let (mode, mut offset, mut left) = (f.arg(1) & 0xffff_ffff, f.arg(2), f.arg(3));
    loop {
        let [_, done, ..] = Request::new(&[fs::ALLOCATE, mode, offset, left]).call(file.slot())?;
        if done == 0 || done >= left {
            return Ok(0);
        }
        (offset, left) = (offset + done, left - done);
    }
}

fn sync_file(argument: u64, data_only: u64) -> Result<u64> {
    sync_open(&*usable(argument)?, data_only)
}

pub(super) fn sync_open(file: &OpenFile, data_only: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    Request::new(&[fs::SYNC, data_only])
        .wait(file.slot())
        .map(|_| 0)
}

pub fn fsync(f: &mut Frame) -> Result<u64> {
    sync_file(f.arg(0), 0)
}

pub fn fdatasync(f: &mut Frame) -> Result<u64> {
    sync_file(f.arg(0), 1)
}

/// sync and syncfs: every manager is asked to write what it has.
pub fn sync(_: &mut Frame) -> Result<u64> {
    sync_all(0);
    Ok(0)
}

/// The machine ends: what is in memory goes to the disks, and nothing is written after that. Only for user 0.
pub fn close_disks() {
    sync_all(fs::SYNC_CLOSE);
}

fn sync_all(what: u64) {
    for slot in crate::path::managers() {
        // One that cannot does not keep the others from it; nobody would be told.
        let _ = Request::new(&[fs::SYNC, what]).wait(slot);
    }
}

pub fn syncfs(f: &mut Frame) -> Result<u64> {
    usable(f.arg(0))?;
    sync(f)
}

/// posix_fadvise: advice that needs no action.
pub fn fadvise(f: &mut Frame) -> Result<u64> {
    const LAST: u64 = 5;
    let file = usable(f.arg(0))?;
    if is_pipe(&file) {
        return Err(ESPIPE);
    }
    if (f.arg(2) as i64) < 0 || f.arg(3) & 0xffff_ffff > LAST {
        return Err(EINVAL);
    }
    Ok(0)
}

/// readahead: of regular files that can be read; files are read ahead here as they are read.
pub fn readahead(f: &mut Frame) -> Result<u64> {
    let file = usable(f.arg(0))?;
    if access_mode(&file)? == o::WRONLY {
        return Err(EBADF);
    }
    match file.mode & fs::s::IFMT {
        fs::s::IFREG | fs::s::IFBLK if f.arg(2) as i64 >= 0 => Ok(0),
        _ => Err(EINVAL),
    }
}

/// sync_file_range: what is to be written is written by fsync(2), which this may be taken for.
pub fn sync_file_range(f: &mut Frame) -> Result<u64> {
    const WAIT_AND_WRITE: u64 = 7;
    let file = usable(f.arg(0))?;
    let (offset, length, flags) = (f.arg(1) as i64, f.arg(2) as i64, f.arg(3) & 0xffff_ffff);
    if flags & !WAIT_AND_WRITE != 0
        || offset < 0
        || length < 0
        || offset.checked_add(length).is_none()
    {
        return Err(EINVAL);
    }
    match file.mode & fs::s::IFMT {
        fs::s::IFREG if flags == WAIT_AND_WRITE => sync_file(f.arg(0), 1),
        fs::s::IFREG | fs::s::IFBLK | fs::s::IFDIR | fs::s::IFLNK => Ok(0),
        _ => Err(ESPIPE),
    }
}

/// O_RDONLY, O_WRONLY or O_RDWR.
pub fn access_mode(file: &OpenFile) -> Result<u64> {
    const MODE: u64 = 3;
    Ok(super::descriptors::get_flags(file)? & MODE)
}
