//! sendfile, copy_file_range, splice: loops over a buffer of the personality.

use super::io::usable;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EBADF, EINVAL, EPIPE, ESPIPE};
use crate::machine::area::Frame;
use crate::machine::request::Request;
use crate::machine::user;
use crate::signal::calls::broken_pipe;
use alloc::vec;
use cairn_idl::fs::{self, kind, s, POSITION};

const BUFFER: u64 = 64 * 1024;
const MOST: u64 = 0x7fff_f000;

/// One side of a copy: a file and, if the program keeps it, an offset in its memory.
struct Side {
    file: alloc::sync::Arc<OpenFile>,
    pointer: u64,
    offset: u64,
}

impl Side {
    fn new(fd: u64, pointer: u64) -> Result<Side> {
        let file = usable(fd)?;
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

pub fn sendfile(f: &mut Frame) -> Result<u64> {
    let mut to = Side::new(f.arg(0), 0)?;
    let mut from = Side::new(f.arg(1), f.arg(2))?;
    if !from.file.is(kind::SEEKABLE) {
        return Err(EINVAL);
    }
    copy(&mut from, &mut to, f.arg(3), false)
}

pub fn copy_file_range(f: &mut Frame) -> Result<u64> {
    if f.arg(5) != 0 {
        return Err(EINVAL);
    }
    let mut from = Side::new(f.arg(0), f.arg(1))?;
    let mut to = Side::new(f.arg(2), f.arg(3))?;
    let regular = |side: &Side| side.file.mode & s::IFMT == s::IFREG;
    if !regular(&from) || !regular(&to) {
        return Err(EINVAL);
    }
    copy(&mut from, &mut to, f.arg(4), false)
}

pub fn splice(f: &mut Frame) -> Result<u64> {
    let mut from = Side::new(f.arg(0), f.arg(1))?;
    let mut to = Side::new(f.arg(2), f.arg(3))?;
    let fifo = |side: &Side| side.file.mode & s::IFMT == s::IFIFO;
    if !fifo(&from) && !fifo(&to) {
        return Err(EINVAL);
    }
    if fifo(&from) && from.pointer != 0 || fifo(&to) && to.pointer != 0 {
        return Err(ESPIPE);
    }
    copy(&mut from, &mut to, f.arg(4), true)
}

/// tee duplicates without consuming, which needs the pipe manager's help that is not there.
pub fn tee(f: &mut Frame) -> Result<u64> {
    usable(f.arg(0)).map_err(|_| EBADF)?;
    Err(EINVAL)
}
