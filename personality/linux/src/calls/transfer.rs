//! sendfile, copy_file_range, splice: loops over a buffer of the personality.

use super::descriptors::get_flags;
use super::io::{access_mode, is_pipe, usable};
use super::poll::{look, ALWAYS};
use super::status::stat_handle;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EAGAIN, EBADF, EINVAL, EISDIR, EOVERFLOW, EPIPE, ESPIPE};
use crate::machine::area::Frame;
use crate::machine::request::Request;
use crate::machine::user;
use crate::signal::calls::broken_pipe;
use alloc::sync::Arc;
use alloc::vec;
use cairn_idl::fs::{self, kind, o, poll, s, POSITION};

const BUFFER: u64 = 64 * 1024;
const MOST: u64 = 0x7fff_f000;

/// One side of a copy: a file and, if the program keeps it, an offset in its memory.
struct Side {
    file: Arc<OpenFile>,
    pointer: u64,
    offset: u64,
}

impl Side {
    fn new(file: Arc<OpenFile>, pointer: u64) -> Result<Side> {
        if file.object.is_some() {
            return Err(EINVAL);
        }
        let offset = match pointer {
            0 => {
                crate::frames::settle(&file);
                POSITION
            }
            _ => {
                let offset: i64 = user::read(pointer)?;
                u64::try_from(offset).map_err(|_| EINVAL)?
            }
        };
        Ok(Side {
            file,
            pointer,
            offset,
        })
    }

    /// Where it is now.
    fn place(&self) -> Result<u64> {
        match self.offset {
            POSITION => Ok(Request::new(&[fs::SEEK, 0, 1]).call(self.file.slot())?[0]),
            offset => Ok(offset),
        }
    }

    fn advance(&mut self, count: u64) {
        if self.pointer != 0 {
            self.offset += count;
        }
    }

    fn finish(&self) -> Result<()> {
        if self.pointer != 0 {
            user::write(self.pointer, &self.offset)?;
        }
        Ok(())
    }
}

fn copy(from: &mut Side, to: &mut Side, count: u64, once: bool) -> Result<u64> {
    let count = count.min(MOST);
    let mut buffer = vec![0; count.clamp(1, BUFFER) as usize];
    let mut done = 0;
    while done < count {
        let piece = (count - done).min(BUFFER) as usize;
        let read = Request::new(&[fs::READ, from.offset, 0])
            .input(&mut buffer[..piece])
            .wait(from.file.slot());
        let got = match read {
            Ok(words) => (words[0] as usize).min(piece),
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        };
        if got == 0 {
            break;
        }
        let (written, result) = write_all(to, &buffer[..got]);
        from.advance(written);
        done += written;
        // What was read but could not be written goes back, where there is a way back.
        if written < got as u64 && from.pointer == 0 && from.file.is(kind::SEEKABLE) {
            let back = written as i64 - got as i64;
            let _ = Request::new(&[fs::SEEK, back as u64, 1]).call(from.file.slot());
        }
        match result {
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
            Ok(()) if once => break,
            Ok(()) => {}
        }
    }
    from.finish()?;
    to.finish()?;
    Ok(done)
}

fn write_all(to: &mut Side, bytes: &[u8]) -> (u64, Result<()>) {
    let mut done = 0;
    while done < bytes.len() {
        let result = Request::new(&[fs::WRITE, to.offset, 0])
            .out(&bytes[done..])
            .wait(to.file.slot());
        match result {
            Ok(words) => {
                let count = (words[0] as usize).min(bytes.len() - done);
                to.advance(count as u64);
                done += count;
                if count == 0 {
                    break;
                }
            }
            Err(error) => {
                if error == EPIPE {
                    broken_pipe();
                }
                return (done as u64, Err(error));
            }
        }
    }
    (done as u64, Ok(()))
}

fn readable(file: &OpenFile) -> Result<()> {
    match access_mode(file)? {
        o::WRONLY => Err(EBADF),
        _ => Ok(()),
    }
}

fn writable(file: &OpenFile) -> Result<()> {
    match access_mode(file)? {
        o::RDONLY => Err(EBADF),
        _ => Ok(()),
    }
}

fn same_file(a: &OpenFile, b: &OpenFile) -> Result<bool> {
    let (a, b) = (stat_handle(a)?, stat_handle(b)?);
    Ok((a.dev, a.ino) == (b.dev, b.ino))
}

fn appends(file: &OpenFile) -> Result<bool> {
    Ok(get_flags(file)? & o::APPEND != 0)
}

pub fn sendfile(f: &mut Frame) -> Result<u64> {
    if f.arg(2) != 0 {
        user::read::<i64>(f.arg(2))?;
    }
    let from = usable(f.arg(1))?;
    readable(&from)?;
    if from.is(kind::READS_NOTHING | kind::READS_ZEROS) {
        return Err(EINVAL);
    }
    if !from.is(kind::SEEKABLE) {
        return Err(if f.arg(2) != 0 { ESPIPE } else { EINVAL });
    }
    let to = usable(f.arg(0))?;
    writable(&to)?;
    let mut from = Side::new(from, f.arg(2))?;
    if f.arg(3) as i64 <= 0 && f.arg(3) != 0 || appends(&to)? || from.file.is(kind::DIRECTORY) {
        return Err(EINVAL);
    }
    let mut to = Side::new(to, 0)?;
    copy(&mut from, &mut to, f.arg(3), false)
}

pub fn copy_file_range(f: &mut Frame) -> Result<u64> {
    let from = usable(f.arg(0))?;
    let to = usable(f.arg(2))?;
    for pointer in [f.arg(1), f.arg(3)] {
        if pointer != 0 {
            user::read::<i64>(pointer)?;
        }
    }
    if f.arg(5) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    let is = |file: &OpenFile, kind: u32| file.mode & s::IFMT == kind;
    if is(&from, s::IFDIR) || is(&to, s::IFDIR) {
        return Err(EISDIR);
    }
    if !is(&from, s::IFREG) || !is(&to, s::IFREG) {
        return Err(EINVAL);
    }
    readable(&from)?;
    writable(&to)?;
    if appends(&to)? {
        return Err(EBADF);
    }
    for pointer in [f.arg(1), f.arg(3)] {
        if pointer != 0 && user::read::<u64>(pointer)?.checked_add(f.arg(4)).is_none() {
            return Err(EOVERFLOW);
        }
    }
    let same = same_file(&from, &to)?;
    let mut from = Side::new(from, f.arg(1))?;
    let mut to = Side::new(to, f.arg(3))?;
    let mut count = f.arg(4);
    if same {
        let (a, b) = (from.place()?, to.place()?);
        // What is behind the end is not copied.
        count = count.min((stat_handle(&from.file)?.size as u64).saturating_sub(a));
        if a < b.saturating_add(count) && b < a.saturating_add(count) {
            return Err(EINVAL);
        }
    }
    copy(&mut from, &mut to, count, false)
}

/// Flags of splice, tee and vmsplice: all are hints here, but NONBLOCK.
const SPLICE_FLAGS: u64 = 15;

/// With SPLICE_F_NONBLOCK pipes that are empty or full are not waited for.
fn at_once(flags: u64, from: Option<&OpenFile>, to: Option<&OpenFile>) -> Result<()> {
    const NONBLOCK: u64 = 2;
    if flags & NONBLOCK == 0 {
        return Ok(());
    }
    let waits = |file: Option<&OpenFile>, mask| {
        file.is_some_and(|file| is_pipe(file) && look(file, mask) & (mask | ALWAYS) == 0)
    };
    match waits(from, poll::IN) || waits(to, poll::OUT) {
        true => Err(EAGAIN),
        false => Ok(()),
    }
}

/// What splice and tee look at before their files; 0 bytes need none.
fn spliced(length: u64, flags: u64) -> Result<bool> {
    match flags & 0xffff_ffff & !SPLICE_FLAGS {
        _ if length == 0 => Ok(false),
        0 => Ok(true),
        _ => Err(EINVAL),
    }
}

pub fn splice(f: &mut Frame) -> Result<u64> {
    if !spliced(f.arg(4), f.arg(5))? {
        return Ok(0);
    }
    let (from, to) = (usable(f.arg(0))?, usable(f.arg(2))?);
    if is_pipe(&from) && f.arg(1) != 0 || is_pipe(&to) && f.arg(3) != 0 {
        return Err(ESPIPE);
    }
    for pointer in [f.arg(1), f.arg(3)] {
        if pointer != 0 {
            user::read::<i64>(pointer)?;
        }
    }
    readable(&from)?;
    writable(&to)?;
    let both = is_pipe(&from) && is_pipe(&to);
    if !is_pipe(&from) && !is_pipe(&to)
        || !is_pipe(&to) && appends(&to)?
        || both && same_file(&from, &to)?
    {
        return Err(EINVAL);
    }
    if from.is(kind::READS_NOTHING | kind::READS_ZEROS | kind::DIRECTORY) {
        return Err(EINVAL);
    }
    at_once(f.arg(5), Some(&from), Some(&to))?;
    let mut from = Side::new(from, f.arg(1))?;
    let mut to = Side::new(to, f.arg(3))?;
    copy(&mut from, &mut to, f.arg(4), true)
}

/// tee: what is in one pipe goes into another as well, a buffer of it at most.
pub fn tee(f: &mut Frame) -> Result<u64> {
    match f.arg(3) & 0xffff_ffff & !SPLICE_FLAGS {
        0 if f.arg(2) == 0 => return Ok(0),
        0 => {}
        _ => return Err(EINVAL),
    }
    let (from, to) = (usable(f.arg(0))?, usable(f.arg(1))?);
    readable(&from)?;
    writable(&to)?;
    if !is_pipe(&from) || !is_pipe(&to) || same_file(&from, &to)? {
        return Err(EINVAL);
    }
    at_once(f.arg(3), Some(&from), Some(&to))?;
    let mut buffer = vec![0; f.arg(2).min(BUFFER) as usize];
    let read = Request::new(&[fs::READ, POSITION, fs::PEEK]).input(&mut buffer);
    let count = (read.wait(from.slot())?[0] as usize).min(buffer.len());
    if count == 0 {
        return Ok(0);
    }
    let mut to = Side::new(to, 0)?;
    match write_all(&mut to, &buffer[..count]) {
        (0, Err(error)) => Err(error),
        (done, _) => Ok(done),
    }
}

/// vmsplice: the bytes are copied, into a pipe or from one.
pub fn vmsplice(f: &mut Frame) -> Result<u64> {
    if f.arg(3) & 0xffff_ffff & !SPLICE_FLAGS != 0 {
        return Err(EINVAL);
    }
    let file = usable(f.arg(0))?;
    if !is_pipe(&file) {
        return Err(EBADF);
    }
    match access_mode(&file)? {
        o::RDONLY => {
            at_once(f.arg(3), Some(&file), None)?;
            super::io::readv(f)
        }
        _ => {
            at_once(f.arg(3), None, Some(&file))?;
            super::io::writev(f)
        }
    }
}
